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
}

/// See the module.
pub struct Post {
    from: Arc<Sender>,
    jobs: Handle,
    clock: Arc<dyn Clock>,
    metrics: Arc<Metrics>,
    lines: BTreeMap<String, Line>,
    /// One for each notifier, and those of notifiers that have left and are not done.
    pub carriers: JoinSet<()>,
}

impl Post {
    /// Without notifiers. They are served where jobs live.
    pub fn new(from: Sender, (jobs, clock): (Handle, Arc<dyn Clock>), metrics: Arc<Metrics>) -> Self {
        Self { from: Arc::new(from), jobs, clock, metrics, lines: BTreeMap::new(), carriers: JoinSet::new() }
    }

    /// When it is.
    pub fn now(&self) -> DateTime<Utc> {
        self.clock.now().wall
    }

    /// Another table is in force: what waits is told as that one says, and to nobody who is not in it any more.
    pub fn follow(&mut self, table: &JobTable) {
        self.lines.retain(|name, _| table.notifiers.contains_key(name));
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

    /// Has a letter told to those whom its job names. Never waits.
    pub fn tell(&self, letter: Letter) {
        let (about, letter) = (letter.about, Arc::new(letter));
        let wants_start = |name: &String, line: &Line| {
            let is_told = matches!(line.standing.borrow().spec.kind, NotifierKind::Ping { start: true });
            is_told && letter.spec.notify.names(name)
        };
        match about {
            About::Start => {
                let lines = self.lines.iter().filter(|(name, line)| wants_start(name, line));
                lines.for_each(|(name, line)| self.put(name, line, &letter));
            }
            About::Told(occasion) => {
                let names = letter.spec.notify.on(occasion);
                // One that is not there has left the table since.
                let lines = names.iter().filter_map(|name| self.lines.get_key_value(name));
                lines.for_each(|(name, line)| self.put(name, line, &letter));
            }
        }
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

    /// Waits, not for ever, until all that waits is told, and says what is not.
    pub async fn finish(&mut self) {
        // The standing stays: without one, a carrier takes its notifier for one that left the table.
        self.lines.values_mut().for_each(|line| line.letters = None);
        let _ = timeout(FINISH_WITHIN, async { while self.carriers.join_next().await.is_some() {} }).await;
        self.carriers.abort_all();
        for (name, line) in &self.lines {
            let left = line.count.waiting.load(Ordering::Relaxed);
            if left > 0 {
                self.metrics.notified(name, Notified::Dropped, left);
                events::notify_dropped(name, left, "ending");
            }
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
            self.say_dropped();
            let kind = self.standing.borrow().spec.kind.clone();
            for message in notify::group(&kind, letters) {
                self.deliver(&message).await;
                self.count.waiting.fetch_sub(message.count as u64, Ordering::Relaxed);
            }
        }
        self.say_dropped();
    }

    /// What else there is to tell, and what comes within a moment.
    async fn gather(&mut self, first: Arc<Letter>) -> Vec<Arc<Letter>> {
        let mut letters = vec![first];
        let kind = self.standing.borrow().spec.kind.clone();
        // Those are told one by one.
        let is_alone = matches!(kind, NotifierKind::PagerDuty { .. } | NotifierKind::Ping { .. });
        let end = Instant::now() + GATHER;
        while !is_alone && letters.len() < QUEUE {
            match timeout_at(end, self.letters.recv()).await {
                Ok(Some(letter)) => letters.push(letter),
                Ok(None) | Err(_) => break,
            }
        }
        letters
    }

    fn say_dropped(&self) {
        let dropped = self.count.dropped.swap(0, Ordering::Relaxed);
        if dropped > 0 {
            events::notify_dropped(&self.name, dropped, "queue_full");
        }
    }

    async fn deliver(&mut self, message: &Message) {
        let count = message.count as u64;
        for attempts in 1.. {
            if self.standing.has_changed().is_err() {
                return events::notify_dropped(&self.name, count, "removed");
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
            // Somebody who mends the notifier waits for nothing; where it has left the table, that is seen above.
            tokio::select! {
                () = sleep(pause_after(attempts)) => {}
                _ = self.standing.changed() => {}
            }
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
