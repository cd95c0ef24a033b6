//! The driver over documents in memory, where others can be let in at any point, and defences be taken away.

use super::*;
use crate::clock::Now;
use crate::clock::SystemClock;
use crate::job::Claim;
use crate::job::Ending;
use crate::job::Outcome as RunOutcome;
use crate::job::Registration;
use crate::job::RunKey;
use crate::job::Tick;
use crate::job::Verdict;
use crate::job::WhenBusy;
use crate::store::Class;
use crate::store::Reach;
use backend::Found;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering;

const HOUR_MS: i64 = 3_600_000;

/// What is wrong with a store.
#[derive(Debug, Clone, Copy, Default)]
struct Faults {
    /// It writes whatever it finds.
    ignores_versions: bool,
    /// It changes one document at a time.
    is_not_atomic: bool,
    /// With that, so many changes of a group are made, and then the connection ends.
    ends_after: Option<usize>,
    /// Nothing is reached.
    is_away: bool,
}

type Documents = BTreeMap<String, Document>;
type LetIn = Box<dyn FnMut(&mut Documents, &[Group]) + Send>;

#[derive(Default)]
struct Inside {
    documents: Documents,
    version: u64,
    faults: Faults,
    /// What others do between the reading and the writing.
    let_in: Option<LetIn>,
}

#[derive(Clone, Default)]
struct MemoryBackend(Arc<Mutex<Inside>>);

impl Inside {
    fn write(&mut self, write: &Write) -> bool {
        let expected = match write.expect {
            Expect::Anything => true,
            expect => self.faults.ignores_versions || expect == Expect::what_was_found(self.documents.get(&write.key)),
        };
        if expected {
            self.version += 1;
            match &write.text {
                Some(text) => {
                    let document = Document { text: text.clone(), version: self.version };
                    self.documents.insert(write.key.clone(), document);
                }
                None => _ = self.documents.remove(&write.key),
            }
        }
        expected
    }
}

#[async_trait]
impl Backend for MemoryBackend {
    fn shown(&self) -> &str {
        "documents:"
    }

    fn history_bytes_most(&self) -> usize {
        1 << 20
    }

    async fn read(&self, first: &[String], then: &[String]) -> Result<Found, Failure> {
        let keys = [first, then].concat();
        let inside = self.0.lock().unwrap();
        if inside.faults.is_away {
            return Err(Failure::new(ErrorKind::NotSent, "away"));
        }
        let documents = keys.iter().map(|key| inside.documents.get(key).cloned()).collect();
        Ok(Found { documents, ..Found::default() })
    }

    async fn list(&self, prefix: &str) -> Result<Vec<(String, Document)>, Failure> {
        let inside = self.0.lock().unwrap();
        let below = inside.documents.iter().filter(|(key, _)| key.starts_with(prefix));
        Ok(below.map(|(key, document)| (key.clone(), document.clone())).collect())
    }

    async fn write(&self, groups: Vec<Group>) -> Result<Vec<usize>, Failure> {
        let mut inside = self.0.lock().unwrap();
        if let Some(mut let_in) = inside.let_in.take() {
            let_in(&mut inside.documents, &groups);
            let newest = inside.documents.values().map(|document| document.version).max().unwrap_or(0);
            inside.version = inside.version.max(newest);
            inside.let_in.get_or_insert(let_in);
        }
        let mut done = Vec::new();
        for group in &groups {
            let before = (inside.documents.clone(), inside.version);
            let most = inside.faults.ends_after.unwrap_or(group.len());
            let count = group.iter().take(most).take_while(|write| inside.write(write)).count();
            if count == most && most < group.len() {
                return Err(Failure::new(ErrorKind::MaybeApplied, "the connection is lost"));
            }
            if count < group.len() && !inside.faults.is_not_atomic {
                (inside.documents, inside.version) = before;
                done.push(0);
            } else {
                done.push(count);
            }
        }
        Ok(done)
    }

    async fn probe(&self, _: &str) -> Result<Probe, Failure> {
        Ok(Probe { class: Class::A, version: String::new(), reach: Reach::OneProcess, findings: Vec::new() })
    }
}

/// The boot clock goes on with each look at it, so that waits for it end.
#[derive(Default)]
struct QuickClock(AtomicU64);

impl Clock for QuickClock {
    fn now(&self) -> Now {
        let looks = self.0.fetch_add(1, Ordering::SeqCst);
        Now { boot: Boot::from_nanos(looks * 100_000_000), ..SystemClock.now() }
    }
}

impl MemoryBackend {
    fn store(&self) -> DocumentStore {
        let clock = Arc::new(QuickClock::default());
        DocumentStore::new(Box::new(self.clone()), &Namespace::new("n").unwrap(), clock)
    }

    fn set(&self, faults: Faults) {
        self.0.lock().unwrap().faults = faults;
    }

    fn let_in(&self, let_in: impl FnMut(&mut Documents, &[Group]) + Send + 'static) {
        self.0.lock().unwrap().let_in = Some(Box::new(let_in));
    }

    fn documents(&self) -> Documents {
        self.0.lock().unwrap().documents.clone()
    }
}

fn job() -> JobName {
    JobName::new("a").unwrap()
}

fn run(n: i64) -> RunKey {
    let now = SystemClock.now().wall.timestamp();
    RunKey::new(job(), Tick::from_seconds((now - 3600) / 3600 * 3600 + 60 * n))
}

fn register() -> Step {
    Step::Register(Registration {
        job: job(),
        schedule: "* * * * *".into(),
        zone: "UTC".into(),
        spec_hash: String::new(),
        skew_tolerance_ms: -3 * HOUR_MS,
        keep_ms: 24 * HOUR_MS,
        history: [200, 3, 10],
        quiet_ms: 0,
        passed: None,
        knew: None,
    })
}

fn claim(n: i64, who: &str) -> Step {
    Step::Claim(Claim {
        run: run(n),
        owner: ReplicaId::new(who, "1"),
        previous: 0,
        delay_ms: 0,
        take: true,
        takeover: None,
        lease_ms: 15_000,
        grace_ms: 10_000,
        takeover_ms: 5_000,
        stop_grace_ms: 0,
        exclusive: false,
        when_busy: WhenBusy::Skip,
        rerun: false,
        trigger: "schedule".into(),
        spec_hash: String::new(),
    })
}

fn begin(n: i64, who: &str) -> Step {
    Step::Begin { run: run(n), owner: ReplicaId::new(who, "1"), start: 0, request: "1".into() }
}

fn complete(n: i64, who: &str) -> Step {
    let ending = Ending {
        outcome: RunOutcome::Succeeded,
        exit_code: Some(0),
        signal: None,
        http_status: None,
        duration_ms: 1,
        error: String::new(),
        output_tail: "ok".into(),
    };
    Step::Complete { run: run(n), owner: ReplicaId::new(who, "1"), start: 1, ending }
}

async fn verdict(store: &DocumentStore, step: Step) -> Verdict {
    store.apply(&[step]).await.unwrap()[0].verdict
}

async fn registered() -> (MemoryBackend, DocumentStore) {
    let backend = MemoryBackend::default();
    let store = backend.store();
    assert_eq!(verdict(&store, register()).await, Verdict::Registered { fresh: true, rescheduled: false });
    (backend, store)
}

/// What another replica's claim of the first tick makes of the documents.
async fn claimed_by_another() -> Documents {
    let (backend, store) = registered().await;
    assert_eq!(verdict(&store, claim(1, "other")).await, Verdict::Won);
    backend.documents()
}

/// Two replicas read before either writes.
async fn second_of_two(faults: Faults) -> Verdict {
    let theirs = claimed_by_another().await;
    let (backend, store) = registered().await;
    // Of one store, as both have it.
    let mark = backend.documents()["onecron/n/store"].text.clone();
    let mark_of = |text: &str| id_in(text);
    let (ours, their_mark) = (mark_of(&mark), mark_of(&theirs["onecron/n/store"].text));
    let text = theirs["onecron/n/job/a"].text.replace(&their_mark, &ours);
    backend.set(faults);
    let mut is_first = true;
    backend.let_in(move |documents, _| {
        if std::mem::take(&mut is_first) {
            let version = documents["onecron/n/job/a"].version + 100;
            documents.insert("onecron/n/job/a".into(), Document { text: text.clone(), version });
        }
    });
    verdict(&store, claim(1, "we")).await
}

#[tokio::test]
async fn who_finds_that_another_was_faster_reads_again() {
    assert_eq!(second_of_two(Faults::default()).await, Verdict::Held);
    let one_by_one = Faults { is_not_atomic: true, ..Faults::default() };
    assert_eq!(second_of_two(one_by_one).await, Verdict::Held);
}

/// The twin: without the condition both win.
#[tokio::test]
async fn without_the_condition_two_replicas_win_one_tick() {
    let faults = Faults { ignores_versions: true, ..Faults::default() };
    assert_eq!(second_of_two(faults).await, Verdict::Won);
}

#[tokio::test]
async fn a_request_that_others_always_overtake_has_an_end() {
    let (backend, store) = registered().await;
    backend.let_in(|documents, _| documents.values_mut().for_each(|document| document.version += 1));
    let error = store.apply(&[claim(1, "we")]).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::MaybeApplied, "{error}");
    assert!(error.detail.contains("others have changed the same documents"), "{error}");
}

/// One job's steps are done, another's are overtaken, and then the store is away.
#[tokio::test]
async fn once_something_was_written_nobody_says_that_nothing_was_sent() {
    let (backend, store) = registered().await;
    backend.set(Faults { is_away: true, ..Faults::default() });
    let error = store.apply(&[claim(1, "we")]).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::NotSent, "nothing was written yet");
    backend.set(Faults::default());
    let gone = backend.clone();
    backend.let_in(move |documents, _| {
        documents.values_mut().for_each(|document| document.version += 1);
        let away = Faults { is_away: true, ..Faults::default() };
        // The lock is held by whoever lets us in.
        let gone = gone.clone();
        std::thread::spawn(move || gone.set(away));
    });
    let error = store.apply(&[claim(1, "we")]).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::MaybeApplied, "{error}");
}

/// Wherever a store that changes one document at a time is interrupted: the request that is sent again is answered the
/// same, and no tick is free again.
#[tokio::test]
async fn an_end_that_is_interrupted_anywhere_is_completed_when_it_is_sent_again() {
    for ends_after in 0..=2 {
        let (backend, store) = registered().await;
        store.apply(&[claim(1, "we"), begin(1, "we")]).await.unwrap();
        backend.set(Faults { is_not_atomic: true, ends_after: Some(ends_after), ..Faults::default() });
        let interrupted = store.apply(&[complete(1, "we")]).await;
        assert_eq!(interrupted.is_err(), ends_after < 2, "job, history");
        backend.set(Faults { is_not_atomic: true, ..Faults::default() });
        assert_ne!(verdict(&store, claim(1, "other")).await, Verdict::Won, "{ends_after}");
        assert_eq!(verdict(&store, complete(1, "we")).await, Verdict::Recorded, "{ends_after}");
        assert_eq!(verdict(&store, claim(1, "other")).await, Verdict::Done, "{ends_after}");
        let history = store.history(&job(), 9).await.unwrap().len();
        assert_eq!(history, usize::from(ends_after != 1), "{ends_after}: only the last one cannot be made up for");
    }
}

/// Runs go from one document to the other; each request of theirs is interrupted somewhere.
#[tokio::test]
async fn no_run_is_lost_on_its_way_to_the_closed_ones() {
    let (backend, store) = registered().await;
    for n in 1..=30_i64 {
        for (at, step) in [claim(n, "we"), begin(n, "we"), complete(n, "we")].into_iter().enumerate() {
            let ends_after = Some((usize::try_from(n).unwrap() + at) % 3);
            backend.set(Faults { is_not_atomic: true, ends_after, ..Faults::default() });
            _ = store.apply(std::slice::from_ref(&step)).await;
            backend.set(Faults { is_not_atomic: true, ..Faults::default() });
            store.apply(&[step]).await.unwrap();
            for before in 1..n {
                assert_eq!(verdict(&store, claim(before, "other")).await, Verdict::Done, "{before} at {n}");
            }
        }
    }
    let closed = &backend.documents()["onecron/n/closed/a"].text;
    assert!(closed.matches("scheduled_for").count() > 20, "{closed}");
}

/// Another replica reads while one has written the closed runs and not yet the job, and is the faster one.
#[tokio::test]
async fn whoever_comes_between_two_documents_loses_no_run() {
    for n in 1..=12 {
        let (backend, store) = registered().await;
        for earlier in 1..n {
            store.apply(&[claim(earlier, "we"), begin(earlier, "we")]).await.unwrap();
            store.apply(&[complete(earlier, "we")]).await.unwrap();
        }
        store.apply(&[claim(n, "we"), begin(n, "we")]).await.unwrap();
        backend.set(Faults { is_not_atomic: true, ends_after: Some(1), ..Faults::default() });
        _ = store.apply(&[complete(n, "we")]).await;
        backend.set(Faults { is_not_atomic: true, ..Faults::default() });
        backend.store().apply(&[claim(n + 1, "other")]).await.unwrap();
        store.apply(&[complete(n, "we")]).await.unwrap();
        for any in 1..=n {
            assert_eq!(verdict(&store, claim(any, "third")).await, Verdict::Done, "{any} of {n}");
        }
    }
}

#[tokio::test]
async fn a_history_that_another_has_changed_meanwhile_gets_both_entries() {
    let (backend, store) = registered().await;
    for n in 1..=2 {
        store.apply(&[claim(n, "we"), begin(n, "we")]).await.unwrap();
    }
    store.apply(&[complete(1, "we")]).await.unwrap();
    backend.set(Faults { is_not_atomic: true, ..Faults::default() });
    let mut is_first = true;
    backend.let_in(move |documents, _| {
        if std::mem::take(&mut is_first) {
            documents.get_mut("onecron/n/history/a").unwrap().version += 100;
        }
    });
    assert_eq!(verdict(&store, complete(2, "we")).await, Verdict::Recorded);
    let ticks: Vec<String> =
        store.history(&job(), 9).await.unwrap().into_iter().map(|entry| entry.scheduled_for).collect();
    assert_eq!(ticks, [run(2).scheduled_for.to_string(), run(1).scheduled_for.to_string()]);
}

#[tokio::test]
async fn a_store_whose_documents_went_back_is_another_one() {
    let (backend, store) = registered().await;
    let copy = backend.documents();
    assert_eq!(verdict(&store, claim(1, "we")).await, Verdict::Won);
    // Whoever has not seen what was written last cannot know. Each step reads before it writes.
    assert_eq!(verdict(&store, claim(1, "we")).await, Verdict::Won);
    let before = store.identity().await.unwrap();
    // The twin: who does not remember takes the copy for what it was.
    let twin = MemoryBackend::default();
    twin.0.lock().unwrap().documents = copy.clone();
    assert_eq!(verdict(&twin.store(), claim(1, "other")).await, Verdict::Won, "a second time");
    backend.0.lock().unwrap().documents = copy;
    assert_eq!(verdict(&store, claim(1, "other")).await, Verdict::Unregistered, "not won a second time");
    assert_ne!(store.identity().await.unwrap(), before);
}

#[tokio::test]
async fn two_that_find_no_mark_make_one() {
    let backend = MemoryBackend::default();
    backend.let_in(|documents, _| {
        let document = Document { text: r#"{"id":"theirs"}"#.into(), version: 1 };
        documents.entry("onecron/n/store".into()).or_insert(document);
    });
    assert_eq!(backend.store().identity().await.unwrap().server, "theirs");
}
