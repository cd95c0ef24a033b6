use super::*;
use crate::clock::SystemClock;
use crate::job::Answer;
use crate::job::Gathering;
use crate::job::HistoryEntry;
use crate::job::JobRecord;
use crate::job::JobTable;
use crate::job::Presence;
use crate::job::ReplicaId;
use crate::job::Step;
use crate::store::Error;
use crate::store::ErrorKind;
use crate::store::Identity;
use crate::store::MemoryStore;
use crate::store::Probe;
use async_trait::async_trait;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering;
use tokio::task::JoinSet;
use tokio::time::sleep;

/// A store in memory that is counted, and may go away.
#[derive(Debug)]
struct Counted {
    inner: MemoryStore,
    readings: AtomicUsize,
    is_away: AtomicBool,
}

#[async_trait]
impl Store for Counted {
    fn has_clock(&self) -> bool {
        true
    }

    fn url(&self) -> &str {
        "counted:"
    }

    async fn apply(&self, steps: &[Step]) -> Result<Vec<Answer>, Error> {
        self.inner.apply(steps).await
    }

    async fn jobs(&self) -> Result<Vec<(JobName, JobRecord)>, Error> {
        self.readings.fetch_add(1, Ordering::SeqCst);
        // Long enough for a crowd to come meanwhile.
        sleep(Duration::from_millis(20)).await;
        if self.is_away.load(Ordering::SeqCst) {
            let (operation, store, detail) = ("jobs", "counted:".to_owned(), "gone".to_owned());
            return Err(Error { kind: ErrorKind::NotSent, operation, store, detail });
        }
        self.inner.jobs().await
    }

    async fn history(&self, _: &JobName, _: usize) -> Result<Vec<HistoryEntry>, Error> {
        std::future::pending().await
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

struct Scene {
    store: Arc<Counted>,
    fleet: Arc<Fleet>,
    _keeper: JoinSet<()>,
}

fn scene() -> Scene {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let inner = MemoryStore::new(Arc::clone(&clock));
    let store = Arc::new(Counted { inner, readings: AtomicUsize::new(0), is_away: AtomicBool::new(false) });
    let table = JobTable { revision: "abc".into(), ..JobTable::default() };
    let now = clock.now();
    let board = Arc::new(Board::new(Arc::new(table), (now.wall, now.boot), false));
    let fleet = Arc::new(Fleet::new(Arc::clone(&store) as Arc<dyn Store>, board, clock));
    let mut keeper = JoinSet::new();
    keeper.spawn(Arc::clone(&fleet).keep());
    Scene { store, fleet, _keeper: keeper }
}

impl Scene {
    /// So many clients at once.
    async fn crowd(&self, clients: usize) -> Vec<Seen> {
        let mut asking = JoinSet::new();
        for _ in 0..clients {
            let fleet = Arc::clone(&self.fleet);
            asking.spawn(async move { fleet.see().await });
        }
        asking.join_all().await
    }

    fn readings(&self) -> usize {
        self.store.readings.load(Ordering::SeqCst)
    }

    /// What was read is good no more.
    fn age(&self) {
        self.fleet.seen.send_modify(|seen| seen.tried_at = None);
    }
}

#[tokio::test]
async fn a_crowd_costs_the_store_one_reading() {
    let scene = scene();
    let seen = scene.crowd(100).await;
    assert!(seen.iter().all(|seen| seen.view.is_some()));
    scene.crowd(100).await;
    assert_eq!(scene.readings(), 1);
    scene.age();
    scene.crowd(100).await;
    assert_eq!(scene.readings(), 2);
}

#[tokio::test]
async fn a_store_that_goes_away_leaves_the_last_view_and_is_not_asked_by_each_client() {
    let scene = scene();
    scene.crowd(1).await;
    scene.store.is_away.store(true, Ordering::SeqCst);
    scene.age();
    for seen in scene.crowd(10).await {
        let freshness = seen.freshness(SystemClock.now());
        assert!(seen.view.is_some() && freshness.stale && freshness.read_at.is_some());
        assert!(freshness.error.is_some_and(|error| error.contains("gone")));
    }
    scene.crowd(10).await;
    assert_eq!(scene.readings(), 2);
}

#[tokio::test]
async fn questions_that_are_not_answered_end_and_those_that_wait_for_them_too() {
    let scene = scene();
    let job = JobName::new("a").unwrap();
    let mut asking = JoinSet::new();
    for _ in 0..QUESTIONS + 1 {
        let (fleet, job) = (Arc::clone(&scene.fleet), job.clone());
        asking.spawn(async move { fleet.history(&job).await.map(drop).unwrap_err() });
    }
    let ends = asking.join_all().await;
    let busy = ends.iter().filter(|end| matches!(end, NoAnswer::Busy)).count();
    assert_eq!((busy, ends.len()), (1, QUESTIONS + 1));
    assert!(ends.iter().all(|end| matches!(end, NoAnswer::Busy | NoAnswer::Late)));
}
