use super::*;
use crate::clock::Now;
use crate::clock::SystemClock;
use crate::config;
use crate::config::Source;
use crate::job::Gathering;
use crate::job::HistoryEntry;
use crate::job::JobRecord;
use crate::job::Presence;
use crate::job::Registration;
use crate::job::ReplicaId;
use crate::store::Error;
use crate::store::ErrorKind;
use crate::store::Identity;
use crate::store::MemoryStore;
use crate::store::Probe;
use crate::store::doing;
use async_trait::async_trait;
use chrono::DateTime;
use chrono::Utc;
use std::sync::Arc;
use std::sync::Mutex;

const LEASE: Duration = Duration::from_secs(5);
/// How long a request takes.
const TAKES: Duration = Duration::from_secs(1);

/// A clock that moves only when the store is asked.
#[derive(Debug)]
struct Held(Mutex<Now>);

impl Clock for Held {
    fn now(&self) -> Now {
        *self.0.lock().unwrap()
    }
}

/// A store whose requests take a second, and which loses so many replies to begins.
#[derive(Debug)]
struct Slow {
    inner: MemoryStore,
    clock: Arc<Held>,
    loses: Mutex<u32>,
    /// When each begin was sent.
    begins: Mutex<Vec<Boot>>,
}

#[async_trait]
impl Store for Slow {
    fn has_clock(&self) -> bool {
        true
    }

    fn url(&self) -> &str {
        "slow:"
    }

    async fn apply(&self, steps: &[Step]) -> Result<Vec<Answer>, Error> {
        let is_begin = matches!(steps, [Step::Begin { .. }]);
        if is_begin {
            self.begins.lock().unwrap().push(self.clock.now().boot);
        }
        let answers = self.inner.apply(steps).await;
        let mut now = self.clock.0.lock().unwrap();
        *now = Now { wall: now.wall + TAKES, boot: now.boot + TAKES };
        let mut loses = self.loses.lock().unwrap();
        if is_begin && *loses > 0 {
            *loses -= 1;
            let (operation, store, detail) = (doing::step(&steps[0]), "slow:".to_owned(), "no answer".to_owned());
            return Err(Error { kind: ErrorKind::MaybeApplied, operation, store, detail });
        }
        answers
    }

    async fn jobs(&self) -> Result<Vec<(JobName, JobRecord)>, Error> {
        self.inner.jobs().await
    }

    async fn history(&self, job: &JobName, most: usize) -> Result<Vec<HistoryEntry>, Error> {
        self.inner.history(job, most).await
    }

    async fn server_time(&self) -> Result<DateTime<Utc>, Error> {
        self.inner.server_time().await
    }

    async fn identity(&self) -> Result<Identity, Error> {
        self.inner.identity().await
    }

    async fn probe(&self) -> Result<Probe, Error> {
        self.inner.probe().await
    }

    async fn retire(&self, unregistered_for: Duration) -> Result<Vec<JobName>, Error> {
        self.inner.retire(unregistered_for).await
    }

    async fn meet(&self, mine: Option<&Presence>, gone: &[Presence]) -> Result<Gathering, Error> {
        self.inner.meet(mine, gone).await
    }

    async fn leave(&self, who: &ReplicaId) -> Result<(), Error> {
        self.inner.leave(who).await
    }
}

fn job() -> Arc<JobSpec> {
    let text = "jobs: [{name: work, schedule: '@yearly', command: 'true'}]";
    let table = config::load(&[Source::new("jobs.yaml", text.into())], DateTime::default()).unwrap().table;
    Arc::clone(&table.jobs[0])
}

fn ada() -> (Actor, Wanted) {
    let actor = Actor { name: ReplicaId::new("command-ada", "1"), by: "ada".to_owned() };
    let (job, key) = (JobName::new("work").unwrap(), String::new());
    (actor, Wanted { job, key, runs_for: None, despite_pause: false, number: 7 })
}

/// With the job registered long ago.
async fn store(loses: u32) -> Slow {
    let clock = Arc::new(Held(Mutex::new(SystemClock.now())));
    let inner = MemoryStore::new(Arc::clone(&clock) as Arc<dyn Clock>);
    let registration = Registration {
        job: JobName::new("work").unwrap(),
        schedule: "@yearly".into(),
        zone: "UTC".into(),
        spec_hash: String::new(),
        skew_tolerance_ms: -3_600_000,
        keep_ms: 3_600_000,
        history: [9, 9, 9],
        quiet_ms: 0,
        passed: None,
        knew: None,
    };
    inner.apply(&[Step::Register(registration)]).await.unwrap();
    Slow { inner, clock, loses: Mutex::new(loses), begins: Mutex::default() }
}

#[tokio::test]
async fn the_lease_counts_from_the_first_sending_of_the_begin() {
    for loses in [0, 2] {
        let (store, (actor, wanted)) = (store(loses).await, ada());
        let begun = begin_here((&store, &*store.clock), &actor, &wanted, (&job(), LEASE)).await.unwrap();
        let begins = store.begins.lock().unwrap();
        assert_eq!(begins.len(), 1 + usize::try_from(loses).unwrap());
        assert_eq!(begun.sent, begins[0], "{loses} replies were lost");
    }
}

#[tokio::test]
async fn a_run_that_is_withdrawn_is_over_however_far_it_had_come() {
    for steps in 0..=3 {
        let (store, (actor, wanted)) = (store(0).await, ada());
        let mut run = None;
        if steps > 0 {
            run = Some(place(&store, &actor, &wanted).await.unwrap().0);
        }
        if let Some(run) = run.clone().filter(|_| steps > 1) {
            let terms = Claim::of(&run, &actor.name, &job(), (LEASE, TAKEOVER, Trigger::Manual));
            assert_eq!(apply_one(&store, Step::Claim(terms)).await.unwrap().verdict, Verdict::Won);
            let taken = Taken { store: &store, actor: &actor, run };
            if steps > 2 {
                taken.begin(&*store.clock).await.unwrap();
            }
        }
        assert_eq!(withdraw_own(&store, &actor, &wanted.job).await.unwrap(), run, "after {steps} steps");
        let Some(run) = run else { continue };
        let record = apply_one(&store, Step::Read { run }).await.unwrap().run.unwrap();
        assert_eq!((record.state, record.outcome), (RunState::Done, Some(Outcome::Cancelled)), "after {steps} steps");
    }
}

#[tokio::test]
async fn the_run_of_somebody_else_is_not_withdrawn() {
    let (store, (actor, wanted)) = (store(0).await, ada());
    let run = place(&store, &actor, &wanted).await.unwrap().0;
    let other = Actor { name: ReplicaId::new("command-ada", "2"), ..actor };
    assert_eq!(withdraw_own(&store, &other, &wanted.job).await.unwrap(), None);
    let record = apply_one(&store, Step::Read { run }).await.unwrap().run.unwrap();
    assert_eq!((record.outcome, record.stop_asked), (None, None));
}
