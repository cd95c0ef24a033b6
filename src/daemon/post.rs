//! Tells whoever jobs want to be told of what happens to them. Nobody waits for it: each notifier has a queue with a bound
//! and a task of its own, among the jobs, so that one which is silent holds up no other, no run and no tick.
//!
//! What waits is told together where the notifier can take that. Each message is tried three times. What is not told is
//! said in the log and counted: in the end nothing is lost without a word but what a daemon had in hand that was killed.

mod carrier;
mod past;

pub use past::Past;

use crate::clock::Clock;
use crate::job::JobSpec;
use crate::job::JobTable;
use crate::job::NotifierKind;
use crate::job::NotifierSpec;
use crate::notify::About;
use crate::notify::Letter;
use crate::notify::Sender;
use crate::secret::Redaction;
use crate::telemetry::events;
use crate::telemetry::metrics::Metrics;
use crate::telemetry::metrics::Notified;
use carrier::Carrier;
use chrono::DateTime;
use chrono::Utc;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::sleep;
use tokio::time::timeout;

/// So many things wait for a notifier at most.
const QUEUE: usize = 1000;
/// How long the end of a daemon waits for what is to be told.
const FINISH_WITHIN: Duration = Duration::from_secs(10);
/// The first thing for which there is no place is said at once, and how many more there were once in so long: they may come by
/// the thousand.
const SAY_EVERY: Duration = Duration::from_secs(30);

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
    /// Whether it was said of others a moment ago, so that these wait.
    is_said: AtomicBool,
    /// And those whose notifier has left the table.
    removed: AtomicU64,
}

impl Count {
    /// There was no place for a letter.
    fn drop_one(&self, name: &str) {
        self.dropped.fetch_add(1, Ordering::Relaxed);
        if !self.is_said.swap(true, Ordering::Relaxed) {
            self.say_dropped(name);
        }
    }

    /// Says from time to time, for ever, how many more there was no place for.
    async fn keep_saying(&self, name: &str) {
        loop {
            sleep(SAY_EVERY).await;
            self.sum_up(name);
        }
    }

    /// Says how many there were since the last time. After a time without any, the next one is said at once again.
    fn sum_up(&self, name: &str) {
        let is_any = self.dropped.load(Ordering::Relaxed) > 0;
        self.is_said.store(is_any, Ordering::Relaxed);
        self.say_dropped(name);
    }

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
        events::notify_dropped(name, dropped, reason, None);
    }
}

/// See the module.
pub struct Post {
    from: Arc<Sender>,
    jobs: Handle,
    clock: Arc<dyn Clock>,
    past: Past,
    metrics: Arc<Metrics>,
    lines: BTreeMap<String, Line>,
    /// Of notifiers that have left and may not be done.
    gone: Vec<(String, Arc<Count>)>,
    /// One for each notifier, and those of notifiers that have left and are not done.
    pub carriers: JoinSet<()>,
}

impl Post {
    /// Without notifiers. They are served where jobs live.
    pub fn new(from: Sender, (jobs, clock, past): (Handle, Arc<dyn Clock>, Past), metrics: Arc<Metrics>) -> Self {
        let (lines, gone, carriers) = (BTreeMap::new(), Vec::new(), JoinSet::new());
        Self { from: Arc::new(from), jobs, clock, past, metrics, lines, gone, carriers }
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
            clock: Arc::clone(&self.clock),
            past: self.past.clone(),
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
            line.count.drop_one(name);
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
        let clock = Arc::new(crate::clock::SystemClock);
        let past = Past::new(Arc::new(crate::store::MemoryStore::new(clock.clone())), NOWHERE.handle().clone());
        Self::new(from, (NOWHERE.handle().clone(), clock, past), metrics)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::SystemClock;
    use crate::config;
    use crate::config::Source;
    use crate::job::Occasion;
    use crate::notify::Facts;
    use crate::store::MemoryStore;

    fn table(notifiers: &str, notify: &str) -> JobTable {
        let text = format!(
            "notifiers: {{{notifiers}}}\njobs:\n  - {{name: a, schedule: '@daily', command: x, notify: {{{notify}}}}}\n"
        );
        config::load(&[Source::new("jobs.yaml", text.into_bytes())], DateTime::default()).unwrap().table
    }

    pub(super) fn both() -> JobTable {
        let address = "url: 'http://127.0.0.1:1/'";
        let notifiers = format!("hook: {{type: webhook, {address}}}, up: {{type: ping, {address}, start: true}}");
        table(&notifiers, "onFailure: [hook], onLost: [up]")
    }

    /// Of a store that knows nothing.
    pub(super) fn past() -> Past {
        Past::new(Arc::new(MemoryStore::new(Arc::new(SystemClock))), Handle::current())
    }

    /// Carriers take nothing before the test waits for something.
    fn post(table: &JobTable) -> (Post, Arc<Metrics>) {
        let metrics = Arc::new(Metrics::new(Arc::new(SystemClock), "memory:"));
        metrics.follow(table, "2026a");
        let from = Sender { namespace: "default".into(), replica: "web-1".into() };
        let mut post = Post::new(from, (Handle::current(), Arc::new(SystemClock), past()), Arc::clone(&metrics));
        post.follow(table);
        (post, metrics)
    }

    pub(super) fn failure(table: &JobTable) -> Letter {
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

    #[test]
    fn the_first_thing_without_a_place_is_said_at_once_and_more_of_them_once_in_a_while() {
        let count = Count::default();
        let unsaid = || count.dropped.load(Ordering::Relaxed);
        count.drop_one("hook");
        assert_eq!(unsaid(), 0);
        (0..5).for_each(|_| count.drop_one("hook"));
        assert_eq!(unsaid(), 5);
        count.sum_up("hook");
        count.drop_one("hook");
        assert_eq!(unsaid(), 1, "they go on, and wait for the next time");
        count.sum_up("hook");
        count.sum_up("hook");
        count.drop_one("hook");
        assert_eq!(unsaid(), 0, "after a while without any, it is said at once again");
    }

    #[tokio::test]
    async fn in_the_end_all_that_was_dropped_is_counted_and_said_also_of_those_that_have_left() {
        let table = both();
        for leaves in [false, true] {
            let (mut post, metrics) = post(&table);
            (0..QUEUE + 3).for_each(|_| post.tell(failure(&table)));
            let count = Arc::clone(&post.lines["hook"].count);
            assert_eq!(count.dropped.load(Ordering::Relaxed), 2, "the first of three is said at once");
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
}
