//! What is said to whom, when something happens to a job that somebody wants to be told of. Pure: it makes texts, and
//! sends none; whoever sends them retries, and says what became of it.
//!
//! A [`Letter`] is one such thing. Several that wait for the same notifier become one [`Message`], where the notifier can
//! take that; its form is that of the notifier's type.
//!
//! Invariant: no text here has a secret in it that came from the table. Addresses are never known here; a routing key is
//! only in the body that is sent.

mod pagerduty;
mod past;
mod ping;
mod slack;
mod summary;
#[cfg(test)]
mod tests;
mod webhook;

pub use past::is_over;
pub use past::question;
pub use ping::address as ping_address;

use crate::job::JobName;
use crate::job::JobSpec;
use crate::job::NotifierKind;
use crate::job::Occasion;
use chrono::DateTime;
use chrono::SecondsFormat;
use chrono::Utc;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// So many things are told in full; of more, how many there are.
pub const ITEMS_MOST: usize = 20;
/// How much of an output is told, bytes: of one thing, and of each of several.
pub const TAIL_MOST: usize = 4 << 10;
const TAIL_OF_MANY: usize = 512;
/// How long an error is in one line, characters.
const ERROR_MOST: usize = 300;

/// What is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum About {
    /// A run has started: only to a `ping` that wants it.
    Start,
    /// Something that `notify` names.
    Told(Occasion),
}

impl About {
    /// The word in messages and logs.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Start => "start",
            Self::Told(occasion) => occasion.as_str(),
        }
    }

    /// Whether it is bad news, which a success ends.
    pub const fn is_trouble(self) -> bool {
        match self {
            Self::Told(Occasion::Failure | Occasion::Missed | Occasion::Lost | Occasion::Stale) => true,
            Self::Start | Self::Told(Occasion::Recovery | Occasion::Success) => false,
        }
    }
}

/// What is known of it; what does not apply is empty or `None`.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Facts {
    /// The run's id, where there is one run.
    pub run_id: String,
    /// Its instant, RFC 3339.
    pub scheduled_for: String,
    /// Why it was run.
    pub trigger: &'static str,
    /// How many attempts it took.
    pub attempts: Option<u32>,
    /// How it ended.
    pub outcome: &'static str,
    /// Why nobody ran it.
    pub reason: &'static str,
    /// Exit code of the last attempt.
    pub exit_code: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
    /// Status of the answer to its request.
    pub http_status: Option<u16>,
    /// How long it took.
    pub duration: Option<Duration>,
    /// In words, without what is to be hidden. So also below.
    pub error: String,
    /// The last of its output.
    pub output_tail: String,
    /// The replica that ran it, or had it.
    pub replica: String,
    /// It is started again elsewhere.
    pub rerun: bool,
    /// Of several ticks that nobody ran, the last one; the first is `scheduled_for`.
    pub through: String,
    /// How many these are; 0: one.
    pub ticks: u64,
    /// Failures that a success has ended.
    pub failures: u64,
    /// Missed ticks that it has ended.
    pub missed: u64,
    /// How long that lasted.
    pub failing_for: Option<Duration>,
    /// The latest tick that succeeded.
    pub last_success: String,
    /// How long there may be none.
    pub stale_after: Option<Duration>,
    /// That is over already: the job has succeeded since.
    pub recovered: bool,
}

/// Something that happened to a job.
#[derive(Debug, Clone, PartialEq)]
pub struct Letter {
    /// What.
    pub about: About,
    /// When it was noticed.
    pub at: DateTime<Utc>,
    /// The job.
    pub spec: Arc<JobSpec>,
    /// What is known of it.
    pub facts: Facts,
}

impl Letter {
    fn job(&self) -> &str {
        self.spec.name.as_str()
    }
}

/// Who speaks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sender {
    /// The fleet.
    pub namespace: String,
    /// The replica.
    pub replica: String,
}

/// One or more things of the same kind, for one notifier.
#[derive(Debug, Clone, PartialEq)]
pub struct Message {
    /// What they are.
    pub about: About,
    /// The first of them, [`ITEMS_MOST`] at most; never empty.
    pub letters: Vec<Arc<Letter>>,
    /// How many there are.
    pub count: usize,
    /// How many jobs these are about.
    pub jobs: usize,
}

impl Message {
    fn of(about: About, letters: Vec<Arc<Letter>>) -> Self {
        let (count, jobs) = (letters.len(), distinct(&letters));
        let letters = letters.into_iter().take(ITEMS_MOST).collect();
        Self { about, letters, count, jobs }
    }

    /// The first of them.
    pub fn first(&self) -> &Letter {
        self.letters.first().expect("a message is made of at least one letter")
    }

    /// In one line.
    pub fn summary(&self) -> String {
        summary::of(self)
    }

    /// Says of those of its things that it shows, in their order, which are over already.
    pub fn mark(&mut self, over: &[bool]) {
        for (letter, is_over) in self.letters.iter_mut().zip(over) {
            if letter.facts.recovered != *is_over {
                let facts = Facts { recovered: *is_over, ..letter.facts.clone() };
                *letter = Arc::new(Letter { facts, ..(**letter).clone() });
            }
        }
    }

    /// That its job is well again.
    pub fn resolution(&self) -> Self {
        let facts = Facts { outcome: "succeeded", ..Facts::default() };
        let about = About::Told(Occasion::Recovery);
        Self::of(about, vec![Arc::new(Letter { about, facts, ..self.first().clone() })])
    }

    /// The same message has the same name, however often it is sent: whoever gets it twice can tell.
    pub fn id(&self, sender: &Sender) -> String {
        let first = self.first();
        let what = if first.facts.run_id.is_empty() { first.job() } else { &first.facts.run_id };
        let at = if first.facts.run_id.is_empty() { format!("@{}", instant(first.at)) } else { String::new() };
        // One that is started again may be lost again.
        let start = match (self.about, first.facts.attempts) {
            (About::Told(Occasion::Lost), Some(start)) if start > 1 => format!("-{start}"),
            _ => String::new(),
        };
        let more = if self.count > 1 { format!("+{}", self.count - 1) } else { String::new() };
        format!("{}/{what}{at}/{}{start}{more}", sender.namespace, self.about.as_str())
    }

    /// How much of an output each of its items shows.
    fn tail_most(&self) -> usize {
        if self.count > 1 { TAIL_OF_MANY } else { TAIL_MOST }
    }
}

fn distinct(letters: &[Arc<Letter>]) -> usize {
    let mut names: Vec<&str> = letters.iter().map(|letter| letter.job()).collect();
    names.sort_unstable();
    names.dedup();
    names.len()
}

/// What waits for a notifier, as messages. What happened to a job is told in the order in which it happened: a letter joins
/// the latest group of its kind unless a later one tells of its job, so that no failure is told before the recovery that
/// came before it. Those that are told singly have a state for each job.
pub fn group(kind: &NotifierKind, letters: Vec<Arc<Letter>>) -> Vec<Message> {
    if kind.is_told_singly() {
        return letters.into_iter().map(|letter| Message::of(letter.about, vec![letter])).collect();
    }
    let mut groups: Vec<(About, Vec<Arc<Letter>>)> = Vec::new();
    let mut latest_of_kind: BTreeMap<About, usize> = BTreeMap::new();
    let mut latest_of_job: BTreeMap<JobName, usize> = BTreeMap::new();
    for letter in letters {
        let (about, job) = (letter.about, letter.spec.name.clone());
        let not_before = latest_of_job.get(&job).copied().unwrap_or(0);
        let at = match latest_of_kind.get(&about) {
            Some(at) if *at >= not_before => *at,
            _ => {
                groups.push((about, Vec::new()));
                groups.len() - 1
            }
        };
        groups[at].1.push(letter);
        latest_of_kind.insert(about, at);
        latest_of_job.insert(job, at);
    }
    groups.into_iter().map(|(about, letters)| Message::of(about, letters)).collect()
}

/// What is sent. It is in no dump.
#[derive(Clone, PartialEq, Eq)]
pub struct Body {
    /// Its type.
    pub content_type: &'static str,
    /// Its text. May have a secret in it.
    pub text: String,
}

/// The body of a message, in the form that the notifier understands. `routing_key` is for the one that has one.
pub fn body(kind: &NotifierKind, message: &Message, (sender, routing_key): (&Sender, &str)) -> Body {
    const JSON: &str = "application/json";
    match kind {
        NotifierKind::Webhook => Body { content_type: JSON, text: webhook::text(message, sender) },
        NotifierKind::Slack => Body { content_type: JSON, text: slack::text(message, sender) },
        NotifierKind::PagerDuty { .. } => {
            Body { content_type: JSON, text: pagerduty::text(message, sender, routing_key) }
        }
        NotifierKind::Ping { .. } => {
            Body { content_type: "text/plain; charset=utf-8", text: ping::text(message, sender) }
        }
    }
}

fn instant(at: DateTime<Utc>) -> String {
    at.to_rfc3339_opts(SecondsFormat::Millis, true)
}

/// Seconds to the millisecond: more digits would be noise of binary fractions.
fn seconds(length: Duration) -> f64 {
    (length.as_secs_f64() * 1000.0).round() / 1000.0
}

/// The last bytes of a text, whole characters only.
fn end_of(text: &str, most: usize) -> &str {
    let from = text.len().saturating_sub(most);
    &text[text.ceil_char_boundary(from)..]
}

/// The first characters of a text, in one line.
fn line_of(text: &str, most: usize) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if line.chars().count() <= most {
        return line;
    }
    line.chars().take(most.saturating_sub(1)).chain(['…']).collect()
}
