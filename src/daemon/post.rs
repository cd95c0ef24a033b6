//! Tells whoever jobs want to be told of what happens to them. Nobody waits for it: each notifier has a queue with a bound
//! and a task of its own, among the jobs, so that one which is silent holds up no other, no run and no tick.
//!
//! What waits is told together where the notifier can take that. Each message is tried three times. What is not told is
//! said in the log and counted: in the end nothing is lost without a word but what a daemon had in hand that was killed.

use crate::causes;
use crate::chance;
use crate::clock::Clock;
use crate::executor::SpawnError;
use crate::executor::http::Content;
use crate::executor::http::Gate;
use crate::executor::http::Request;
use crate::executor::http::secret;
use crate::job::JobSpec;
use crate::job::JobTable;
use crate::job::NotifierKind;
use crate::job::NotifierSpec;
use crate::notify;
use crate::notify::About;
use crate::notify::Letter;
use crate::notify::Message;
use crate::notify::Sender;
use crate::secret::Redaction;
use crate::telemetry::events;
use crate::telemetry::events::Sent;
use crate::telemetry::metrics::Metrics;
use crate::telemetry::metrics::Notified;
use chrono::DateTime;
use chrono::Utc;
use std::collections::BTreeMap;
use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio::time::sleep;
use tokio::time::timeout;
use tokio::time::timeout_at;

/// So many things wait for a notifier at most.
const QUEUE: usize = 1000;
/// What happens within so long is told together: a machine that dies takes many runs with it.
const GATHER: Duration = Duration::from_secs(1);
/// How often a message is sent.
const TRIES: u32 = 3;
/// The pause after the first try, more or less; four times that after the second.
const PAUSE: Duration = Duration::from_secs(1);
/// How long the end of a daemon waits for what is to be told.
const FINISH_WITHIN: Duration = Duration::from_secs(10);

/// A notifier as the table in force has it.
#[derive(Clone, PartialEq, Eq)]
struct Standing {
    spec: Arc<NotifierSpec>,
    redaction: Redaction,
}

/// The way to a notifier.
struct Line {
    /// `None` once the daemon ends.
    letters: Option<mpsc::Sender<Arc<Letter>>>,
    standing: watch::Sender<Standing>,
    count: Arc<Count>,
}

/// What is on the way.
#[derive(Default)]
struct Count {
    /// Letters that wait, or are being told.
    waiting: AtomicU64,
    /// Letters for which there was no place, and of which that is not said yet.
    dropped: AtomicU64,
    /// And those whose notifier has left the table.
    removed: AtomicU64,
}

impl Count {
    /// Says how many there was no place for, since that was said last.
    fn say_dropped(&self, name: &str) {
        say(name, self.dropped.swap(0, Ordering::Relaxed), "queue_full");
    }

    /// Says all that will not be told any more.
    fn say_left(&self, name: &str) {
        self.say_dropped(name);
        say(name, self.removed.swap(0, Ordering::Relaxed), "removed");
    }
}

fn say(name: &str, dropped: u64, reason: &'static str) {
    if dropped > 0 {
        events::notify_dropped(name, dropped, reason);
    }
}

/// See the module.
pub struct Post {
    from: Arc<Sender>,
    jobs: Handle,
    clock: Arc<dyn Clock>,
    metrics: Arc<Metrics>,
    lines: BTreeMap<String, Line>,
    /// Of notifiers that have left and may not be done.
    gone: Vec<(String, Arc<Count>)>,
    /// One for each notifier, and those of notifiers that have left and are not done.
    pub carriers: JoinSet<()>,
}

impl Post {
    /// Without notifiers. They are served where jobs live.
    pub fn new(from: Sender, (jobs, clock): (Handle, Arc<dyn Clock>), metrics: Arc<Metrics>) -> Self {
        let (lines, gone, carriers) = (BTreeMap::new(), Vec::new(), JoinSet::new());
        Self { from: Arc::new(from), jobs, clock, metrics, lines, gone, carriers }
    }

    /// When it is.
    pub fn now(&self) -> DateTime<Utc> {
        self.clock.now().wall
    }

    /// Another table is in force: what waits is told as that one says, and to nobody who is not in it any more.
    pub fn follow(&mut self, table: &JobTable) {
        // Nobody but us counts those that are done.
        self.gone.retain(|(_, count)| Arc::strong_count(count) > 1);
        for (name, line) in self.lines.extract_if(.., |name, _| !table.notifiers.contains_key(name)) {
            self.gone.push((name, line.count));
        }
        for (name, spec) in &table.notifiers {
            let standing = Standing { spec: Arc::clone(spec), redaction: table.scheduler.redact.clone() };
            match self.lines.get(name) {
                // Where nothing changed, nobody is woken: a pause between two tries goes on.
                Some(line) => {
                    line.standing.send_if_modified(|before| {
                        let is_other = *before != standing;
                        *before = standing;
                        is_other
                    });
                }
                None => self.add(name, standing),
            }
        }
    }

    fn add(&mut self, name: &str, standing: Standing) {
        let (letters, waiting) = mpsc::channel(QUEUE);
        let (standing, of_carrier) = watch::channel(standing);
        let count = Arc::new(Count::default());
        let carrier = Carrier {
            name: name.to_owned(),
            from: Arc::clone(&self.from),
            letters: waiting,
            standing: of_carrier,
            count: Arc::clone(&count),
            metrics: Arc::clone(&self.metrics),
            reading: None,
        };
        self.carriers.spawn_on(carrier.serve(), &self.jobs);
        self.lines.insert(name.to_owned(), Line { letters: Some(letters), standing, count });
    }

    /// Whether anybody is told of that.
    pub fn is_wanted(&self, about: About, spec: &JobSpec) -> bool {
        self.told(about, spec).next().is_some()
    }

    /// Has a letter told to those whom its job names. Never waits.
    pub fn tell(&self, letter: Letter) {
        let letter = Arc::new(letter);
        self.told(letter.about, &letter.spec).for_each(|(name, line)| self.put(name, line, &letter));
    }

    /// Those whom a job names for that. One that is not there has left the table since.
    fn told<'a>(&'a self, about: About, spec: &'a JobSpec) -> impl Iterator<Item = (&'a String, &'a Line)> {
        self.lines.iter().filter(move |(name, line)| match about {
            About::Start => {
                spec.notify.names(name)
                    && matches!(line.standing.borrow().spec.kind, NotifierKind::Ping { start: true })
            }
            About::Told(occasion) => spec.notify.on(occasion).contains(name),
        })
    }

    fn put(&self, name: &str, line: &Line, letter: &Arc<Letter>) {
        line.count.waiting.fetch_add(1, Ordering::Relaxed);
        let is_put = line.letters.as_ref().is_some_and(|letters| letters.try_send(Arc::clone(letter)).is_ok());
        if !is_put {
            line.count.waiting.fetch_sub(1, Ordering::Relaxed);
            line.count.dropped.fetch_add(1, Ordering::Relaxed);
            self.metrics.notified(name, Notified::Dropped, 1);
        }
    }

    /// Waits, not for ever and not after `hurried`, until all that waits is told, and says what is not.
    pub async fn finish(&mut self, hurried: impl Future<Output = ()>) {
        // The standing stays: without one, a carrier takes its notifier for one that left the table.
        self.lines.values_mut().for_each(|line| line.letters = None);
        let told = timeout(FINISH_WITHIN, async { while self.carriers.join_next().await.is_some() {} });
        tokio::select! {
            _ = told => {}
            () = hurried => {}
        }
        self.carriers.shutdown().await;
        let here = self.lines.iter().map(|(name, line)| (name, &line.count));
        for (name, count) in here.chain(self.gone.iter().map(|(name, count)| (name, count))) {
            let left = count.waiting.load(Ordering::Relaxed);
            self.metrics.notified(name, Notified::Dropped, left);
            count.say_left(name);
            say(name, left, "ending");
        }
    }
}

#[cfg(test)]
impl Post {
    /// Of which nobody is told anything.
    pub fn nowhere(metrics: Arc<Metrics>) -> Self {
        // Never dropped: in a test that is asynchronous itself, that is not allowed.
        static NOWHERE: std::sync::LazyLock<tokio::runtime::Runtime> =
            std::sync::LazyLock::new(|| tokio::runtime::Builder::new_current_thread().build().unwrap());
        let from = Sender { namespace: "default".into(), replica: "web-1".into() };
        Self::new(from, (NOWHERE.handle().clone(), Arc::new(crate::clock::SystemClock)), metrics)
    }
}

/// Brings one notifier its messages, in order.
struct Carrier {
    name: String,
    from: Arc<Sender>,
    letters: mpsc::Receiver<Arc<Letter>>,
    standing: watch::Receiver<Standing>,
    count: Arc<Count>,
    metrics: Arc<Metrics>,
    /// A reading of secrets that a file system has not ended: no second one is begun.
    reading: Option<JoinHandle<Result<Request, SpawnError>>>,
}

/// Why a try came to nothing.
struct Failure {
    status: Option<u16>,
    error: String,
    /// Whether another one may come to something.
    again: bool,
}

impl Carrier {
    /// Ends when the daemon does, or its notifier leaves the table, and what waited is told, or dropped.
    async fn serve(mut self) {
        while let Some(first) = self.letters.recv().await {
            let letters = self.gather(first).await;
            self.count.say_dropped(&self.name);
            let kind = self.standing.borrow().spec.kind.clone();
            for message in notify::group(&kind, letters) {
                self.deliver(&message).await;
                self.count.waiting.fetch_sub(message.count as u64, Ordering::Relaxed);
            }
        }
        self.count.say_left(&self.name);
    }

    /// What else there is to tell, and what comes within a moment.
    async fn gather(&mut self, first: Arc<Letter>) -> Vec<Arc<Letter>> {
        let mut letters = vec![first];
        let is_told_singly = self.standing.borrow().spec.kind.is_told_singly();
        let end = Instant::now() + GATHER;
        while !is_told_singly && letters.len() < QUEUE {
            match timeout_at(end, self.letters.recv()).await {
                Ok(Some(letter)) => letters.push(letter),
                Ok(None) | Err(_) => break,
            }
        }
        letters
    }

    async fn deliver(&mut self, message: &Message) {
        let count = message.count as u64;
        for attempts in 1.. {
            if self.standing.has_changed().is_err() {
                // Said once for all that wait: there may be as many as the queue holds.
                self.count.removed.fetch_add(count, Ordering::Relaxed);
                return;
            }
            let standing = self.standing.borrow_and_update().clone();
            let tried = self.attempt(&standing, message).await;
            let sent = |status| Sent {
                notifier: &self.name,
                kind: standing.spec.kind.as_str(),
                about: message.about.as_str(),
                job: &message.first().spec.name,
                count: message.count,
                status,
                attempts,
            };
            match tried {
                Ok(status) => {
                    self.metrics.notified(&self.name, Notified::Sent, count);
                    return events::notify_sent(sent(status));
                }
                Err(Failure { again: true, .. }) if attempts < TRIES => {}
                Err(Failure { status, error, .. }) => {
                    self.metrics.notified(&self.name, Notified::Failed, count);
                    return events::notify_failed(sent(status), &error);
                }
            }
            self.pause(attempts).await;
        }
    }

    /// Somebody who mends the notifier waits for nothing; where it has left the table, that is seen at the next try.
    async fn pause(&mut self, attempts: u32) {
        tokio::select! {
            () = sleep(pause_after(attempts)) => {}
            _ = self.standing.changed() => {}
        }
    }

    /// One try. Ends after twice the notifier's timeout at the latest.
    async fn attempt(&mut self, standing: &Standing, message: &Message) -> Result<Option<u16>, Failure> {
        let request = self.prepare(standing, message).await?;
        match request.perform(Gate::new(|| true), pending()).await {
            Ok(reply) if reply.error.is_empty() => Ok(reply.status),
            Ok(reply) => {
                let again = reply.status.is_none_or(|status| matches!(status, 408 | 425 | 429 | 500..));
                Err(Failure { status: reply.status, error: standing.redaction.text(&reply.error).into_owned(), again })
            }
            Err(unsent) => Err(Failure { status: None, error: unsent.to_string(), again: true }),
        }
    }

    /// Reads what the table leaves to variables and files, at each try.
    async fn prepare(&mut self, standing: &Standing, message: &Message) -> Result<Request, Failure> {
        let failure = |error: String| Failure { status: None, error, again: true };
        let stuck = || failure("read its address: the file system has not answered yet".to_owned());
        if self.reading.as_ref().is_some_and(|reading| !reading.is_finished()) {
            return Err(stuck());
        }
        let (standing, message, from) = (standing.clone(), message.clone(), Arc::clone(&self.from));
        let within = standing.spec.http.timeout;
        let mut reading = tokio::task::spawn_blocking(move || request(&standing, &message, &from));
        match timeout(within, &mut reading).await {
            Ok(request) => request
                .expect("nothing in there panics, and nobody cancels it")
                .map_err(|error| failure(causes::chain(&error).replacen("start the job: ", "", 1))),
            Err(_) => {
                self.reading = Some(reading);
                Err(stuck())
            }
        }
    }
}

fn request(standing: &Standing, message: &Message, from: &Sender) -> Result<Request, SpawnError> {
    let Standing { spec, redaction } = standing;
    let routing_key = match &spec.kind {
        NotifierKind::PagerDuty { routing_key } => secret(routing_key, "`routingKey`")?,
        NotifierKind::Webhook | NotifierKind::Slack | NotifierKind::Ping { .. } => String::new(),
    };
    let body = notify::body(&spec.kind, message, (from, routing_key.trim()));
    let content = Content { content_type: body.content_type, text: body.text, id: message.id(from) };
    let address = |written: &str| match spec.kind {
        NotifierKind::Ping { .. } => notify::ping_address(written, message.first().spec.name.as_str(), message.about),
        NotifierKind::Webhook | NotifierKind::Slack | NotifierKind::PagerDuty { .. } => written.to_owned(),
    };
    Request::message(&spec.http, address, (content, redaction))
}

/// A half more or less, so that replicas do not come back in step to one that was overloaded.
fn pause_after(attempt: u32) -> Duration {
    chance::around(PAUSE * 4_u32.pow(attempt - 1), 0.5)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::SystemClock;
    use crate::config;
    use crate::config::Source;
    use crate::job::Occasion;
    use crate::notify::Facts;

    fn table(notifiers: &str, notify: &str) -> JobTable {
        let text = format!(
            "notifiers: {{{notifiers}}}\njobs:\n  - {{name: a, schedule: '@daily', command: x, notify: {{{notify}}}}}\n"
        );
        config::load(&[Source::new("jobs.yaml", text.into_bytes())], DateTime::default()).unwrap().table
    }

    fn both() -> JobTable {
        let address = "url: 'http://127.0.0.1:1/'";
        let notifiers = format!("hook: {{type: webhook, {address}}}, up: {{type: ping, {address}, start: true}}");
        table(&notifiers, "onFailure: [hook], onLost: [up]")
    }

    /// Carriers take nothing before the test waits for something.
    fn post(table: &JobTable) -> (Post, Arc<Metrics>) {
        let metrics = Arc::new(Metrics::new(Arc::new(SystemClock), "memory:"));
        metrics.follow(table, "2026a");
        let from = Sender { namespace: "default".into(), replica: "web-1".into() };
        let mut post = Post::new(from, (Handle::current(), Arc::new(SystemClock)), Arc::clone(&metrics));
        post.follow(table);
        (post, metrics)
    }

    fn failure(table: &JobTable) -> Letter {
        let about = About::Told(Occasion::Failure);
        Letter { about, at: DateTime::default(), spec: Arc::clone(&table.jobs[0]), facts: Facts::default() }
    }

    #[tokio::test]
    async fn letters_are_written_for_those_only_who_are_told() {
        let table = both();
        let (post, _) = post(&table);
        let is_wanted = |about| post.is_wanted(about, &table.jobs[0]);
        assert!(is_wanted(About::Told(Occasion::Failure)) && is_wanted(About::Told(Occasion::Lost)));
        assert!(is_wanted(About::Start), "the ping wants it");
        assert!(!is_wanted(About::Told(Occasion::Success)) && !is_wanted(About::Told(Occasion::Recovery)));
    }

    #[tokio::test]
    async fn in_the_end_all_that_was_dropped_is_counted_and_said_also_of_those_that_have_left() {
        let table = both();
        for leaves in [false, true] {
            let (mut post, metrics) = post(&table);
            (0..QUEUE + 3).for_each(|_| post.tell(failure(&table)));
            let count = Arc::clone(&post.lines["hook"].count);
            assert_eq!(count.dropped.load(Ordering::Relaxed), 3);
            if leaves {
                post.follow(&self::table("", ""));
            }
            post.finish(std::future::ready(())).await;
            assert_eq!(count.dropped.load(Ordering::Relaxed), 0, "it is said: {leaves}");
            let counted = metrics.render();
            let all = format!("onecron_notifications_total{{notifier=\"hook\",result=\"dropped\"}} {}", QUEUE + 3);
            assert!(counted.contains(&all), "{counted}");
        }
    }

    /// One that nobody has started, and both ends that lead to it.
    fn carrier(table: &JobTable, name: &str) -> (Carrier, watch::Sender<Standing>, mpsc::Sender<Arc<Letter>>) {
        let standing = Standing { spec: Arc::clone(&table.notifiers[name]), redaction: Redaction::default() };
        let (changed, standing) = watch::channel(standing);
        let (letters, waiting) = mpsc::channel(QUEUE);
        let carrier = Carrier {
            name: name.into(),
            from: Arc::new(Sender { namespace: "default".into(), replica: "web-1".into() }),
            letters: waiting,
            standing,
            count: Arc::default(),
            metrics: Arc::new(Metrics::new(Arc::new(SystemClock), "memory:")),
            reading: None,
        };
        (carrier, changed, letters)
    }

    #[tokio::test]
    async fn what_comes_a_moment_later_is_told_together_with_the_first_unless_each_is_told_singly() {
        let table = both();
        for (name, together) in [("hook", 2), ("up", 1)] {
            let (mut carrier, _changed, letters) = carrier(&table, name);
            let later = async {
                tokio::task::yield_now().await;
                letters.try_send(Arc::new(failure(&table))).unwrap();
                drop(letters);
            };
            let (gathered, ()) = tokio::join!(carrier.gather(Arc::new(failure(&table))), later);
            assert_eq!(gathered.len(), together, "{name}");
        }
    }

    #[tokio::test]
    async fn another_standing_ends_a_pause_between_two_tries() {
        let table = both();
        let (mut carrier, changed, _letters) = carrier(&table, "hook");
        let up = Standing { spec: Arc::clone(&table.notifiers["up"]), redaction: Redaction::default() };
        changed.send_replace(up);
        // Without it, this one would take eight seconds at least.
        timeout(Duration::from_secs(4), carrier.pause(3)).await.expect("the pause is over");
        assert_eq!(carrier.standing.borrow_and_update().spec.name, "up");
        drop(changed);
        timeout(Duration::from_secs(4), carrier.pause(3)).await.expect("so it is for one that has left");
    }
}
