//! The daemon's parts with a store, a guardian and a scheduler that a test holds in its hands.

use super::driver::Driver;
use super::driver::End;
use super::driver::Message;
use super::guard::Guard;
use super::guard::Order;
use super::metered::Metered;
use super::perform;
use super::perform::Hands;
use super::post::Post;
use super::recovery::LookBacks;
use super::report::Reporter;
use super::run_spans::RunSpans;
use super::runs::Control;
use super::runs::Launcher;
use super::runs::Stop;
use super::store_watch::StoreWatch;
use super::timer::Timer;
use crate::clock::Clock;
use crate::clock::SystemClock;
use crate::config;
use crate::config::Source;
use crate::engine::Effect;
use crate::engine::Engine;
use crate::engine::Event;
use crate::engine::RequestId;
use crate::engine::RunFacts;
use crate::engine::StartOrder;
use crate::engine::Trouble;
use crate::job::Answer;
use crate::job::Gathering;
use crate::job::HistoryEntry;
use crate::job::JobName;
use crate::job::JobRecord;
use crate::job::JobTable;
use crate::job::Presence;
use crate::job::ReplicaId;
use crate::job::RunKey;
use crate::job::Step;
use crate::job::Tick;
use crate::job::Trigger;
use crate::secret::Redaction;
use crate::server::Board;
use crate::store::Error;
use crate::store::ErrorKind;
use crate::store::Identity;
use crate::store::Probe;
use crate::store::Store;
use crate::telemetry::metrics::Metrics;
use async_trait::async_trait;
use chrono::DateTime;
use chrono::Utc;
use std::collections::BTreeMap;
use std::future::pending;
use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

/// A store that does one thing whatever it is asked.
#[derive(Debug, Clone, Copy)]
pub(super) enum Broken {
    Silent,
    Refusing,
    Panicking,
    /// Counts who asks for histories, and is silent.
    Counting(&'static AtomicUsize),
}

#[async_trait]
impl Store for Broken {
    fn has_clock(&self) -> bool {
        true
    }

    fn url(&self) -> &str {
        "broken:"
    }

    async fn apply(&self, _: &[Step]) -> Result<Vec<Answer>, Error> {
        match self {
            Self::Silent | Self::Counting(_) => pending().await,
            Self::Refusing => {
                let (operation, store, detail) = ("claim", "broken:".to_owned(), "wrong password".to_owned());
                Err(Error { kind: ErrorKind::Misconfigured, operation, store, detail })
            }
            Self::Panicking => panic!("a bug in a driver"),
        }
    }

    async fn jobs(&self) -> Result<Vec<(JobName, JobRecord)>, Error> {
        pending().await
    }

    async fn history(&self, _: &JobName, _: usize) -> Result<Vec<HistoryEntry>, Error> {
        if let Self::Counting(count) = self {
            count.fetch_add(1, Ordering::SeqCst);
        }
        pending().await
    }

    async fn server_time(&self) -> Result<DateTime<Utc>, Error> {
        pending().await
    }

    async fn identity(&self) -> Result<Identity, Error> {
        pending().await
    }

    async fn probe(&self) -> Result<Probe, Error> {
        pending().await
    }

    async fn retire(&self, _: Duration) -> Result<Vec<JobName>, Error> {
        pending().await
    }

    async fn meet(&self, _: Option<&Presence>, _: &[Presence]) -> Result<Gathering, Error> {
        pending().await
    }

    async fn leave(&self, _: &ReplicaId) -> Result<(), Error> {
        pending().await
    }
}

fn table(command: &str) -> JobTable {
    let text = format!("jobs:\n  - {{name: work, schedule: '@yearly', command: {command:?}}}\n");
    config::load(&[Source::new("jobs.yaml", text.into_bytes())], DateTime::default()).unwrap().table
}

fn me() -> ReplicaId {
    ReplicaId::new("test", &std::process::id().to_string())
}

/// Everything around a driver, and what a test takes from it.
pub(super) struct Bench {
    pub(super) driver: Driver,
    pub(super) orders: mpsc::Receiver<Order>,
    pub(super) sender: mpsc::Sender<Message>,
}

fn bench(store: Broken) -> Bench {
    let mut bench = bench_of(me(), Arc::new(store), &table("true"));
    bench.driver.hands.ask_limit = Duration::from_millis(50);
    bench
}

/// A replica on a store whose requests are counted.
pub(super) fn bench_of(me: ReplicaId, store: Arc<dyn Store>, table: &JobTable) -> Bench {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let metrics = Arc::new(Metrics::new(Arc::clone(&clock), store.url()));
    let store: Arc<dyn Store> = Arc::new(Metered::new(store, Arc::clone(&metrics), Arc::clone(&clock)));
    let (guard, orders) = Guard::new();
    let (sender, inbox) = mpsc::channel(16);
    let now = clock.now();
    let board = Arc::new(Board::new(Arc::new(table.clone()), (now.wall, now.boot), false));
    let hands = Hands {
        board: Arc::clone(&board),
        store: Arc::clone(&store),
        store_watch: Arc::new(StoreWatch::new(store, Arc::clone(&clock), (Arc::clone(&metrics), board))),
        ask_limit: perform::ask_limit(table.scheduler.lock_lease),
        launcher: Launcher {
            me: me.clone(),
            clock: Arc::clone(&clock),
            guard,
            inbox: sender.clone(),
            redaction: Redaction::default(),
            metrics: Arc::clone(&metrics),
            trace: None,
            is_trace_handed_on: false,
        },
        reporter: Reporter::new(
            table,
            Arc::clone(&metrics),
            (Post::nowhere(Arc::clone(&metrics)), RunSpans::new(None, Arc::new(SystemClock))),
        ),
        metrics,
        jobs: Handle::current(),
        controls: BTreeMap::new(),
        finished: 0,
        asking: JoinSet::new(),
        running: JoinSet::new(),
        chores: JoinSet::new(),
        looks: LookBacks::new(),
    };
    let engine = Engine::new(me, table, clock.now());
    let timer = Timer::new().unwrap();
    let driver =
        Driver { engine, clock, timer, inbox, hands, drain_timeout: Duration::ZERO, reload: None, looked_at: None };
    Bench { driver, orders, sender }
}

async fn answer(store: Broken) -> Event {
    let mut bench = bench(store);
    bench.driver.hands.perform(Effect::Ask { request: RequestId(7), steps: Arc::new(Vec::new()) });
    bench.driver.hands.asking.join_next().await.unwrap().unwrap()
}

#[tokio::test]
async fn a_store_that_says_nothing_may_have_done_it() {
    let Event::Answered { request, result: Err(failure) } = answer(Broken::Silent).await else { panic!("no failure") };
    assert_eq!((request, failure.kind), (RequestId(7), "maybe_applied"));
    assert!(failure.detail.contains("no answer within 50ms"), "{}", failure.detail);
}

#[tokio::test]
async fn a_store_that_refuses_says_why() {
    let Event::Answered { result: Err(failure), .. } = answer(Broken::Refusing).await else { panic!("no failure") };
    assert_eq!(failure.kind, "misconfigured");
    assert!(failure.detail.contains("wrong password"), "{}", failure.detail);
}

#[tokio::test]
async fn a_panic_of_a_task_ends_the_loop() {
    let Bench { driver, .. } = bench(Broken::Panicking);
    let End::Panicked(task, text) = driver.run().await else { panic!("it ended otherwise") };
    assert_eq!((task, text.as_str()), ("store", "a bug in a driver"));
}

#[test]
fn a_request_may_take_a_quarter_of_the_lease_and_two_seconds_at_most() {
    assert_eq!(perform::ask_limit(Duration::from_secs(5)), Duration::from_millis(1250));
    assert_eq!(perform::ask_limit(Duration::from_secs(600)), Duration::from_secs(2));
}

/// An order for a run that no other test has.
fn order(job: &str, command: &str, guarded: bool) -> Box<StartOrder> {
    Box::new(StartOrder {
        run: RunKey::new(JobName::new(job).unwrap(), Tick::from_seconds(1_772_330_400)),
        scheduled_for: Tick::from_seconds(1_772_330_400),
        start: 1,
        token: 42,
        trigger: Trigger::Schedule,
        spec: Arc::clone(&table(command).jobs[0]),
        last_success: None,
        lease_end: SystemClock.now().boot + Duration::from_secs(15),
        guarded,
    })
}

/// What was reported, in order; every `Started` is taken as said.
async fn reported(inbox: &mut mpsc::Receiver<Message>) -> Event {
    let message = tokio::time::timeout(Duration::from_secs(20), inbox.recv()).await;
    match message.expect("something is reported").unwrap() {
        Message::Happened { event, said } => {
            if let Some(said) = said {
                said.send(()).unwrap();
            }
            event
        }
        other => panic!("{other:?}"),
    }
}

/// Tells a guardian that is none, and says what it was told.
async fn ordered(orders: &mut mpsc::Receiver<Order>, answer: io::Result<()>) -> &'static str {
    match tokio::time::timeout(Duration::from_secs(20), orders.recv()).await.expect("the guardian is told").unwrap() {
        Order::Arm(_, _, told) => {
            told.send(answer).unwrap();
            "arm"
        }
        Order::Adopt(..) => "adopt",
        Order::Extend(..) => "extend",
        Order::Disarm(_) => "disarm",
    }
}

#[tokio::test]
async fn a_run_is_armed_before_its_start_adopted_after_it_and_disarmed_before_its_end_is_told() {
    let Bench { mut driver, mut orders, .. } = bench(Broken::Silent);
    driver.hands.perform(Effect::Start(order("arming", "true", true)));
    assert!(driver.inbox.try_recv().is_err(), "nothing starts before it is armed");
    assert_eq!(ordered(&mut orders, Ok(())).await, "arm");
    assert_eq!(ordered(&mut orders, Ok(())).await, "adopt");
    assert!(matches!(reported(&mut driver.inbox).await, Event::Started { .. }));
    assert_eq!(ordered(&mut orders, Ok(())).await, "disarm");
    assert!(matches!(reported(&mut driver.inbox).await, Event::Ended { exit, .. } if exit.code == Some(0)));
}

#[tokio::test]
async fn a_run_that_cannot_be_guarded_is_not_started_and_given_back() {
    let Bench { mut driver, mut orders, .. } = bench(Broken::Silent);
    driver.hands.perform(Effect::Start(order("unguarded", "true", true)));
    assert_eq!(ordered(&mut orders, Err(io::Error::other("no more processes"))).await, "arm");
    let Event::NotStarted { too_late, error, .. } = reported(&mut driver.inbox).await else { panic!("it was started") };
    assert!(too_late && error.contains("no more processes"), "{error}");
}

#[tokio::test]
async fn a_run_that_is_asked_to_stop_while_it_is_being_armed_is_given_back() {
    let Bench { mut driver, mut orders, .. } = bench(Broken::Silent);
    let order = order("early-stop", "true", true);
    let run = order.run.clone();
    driver.hands.perform(Effect::Start(order));
    driver.hands.perform(Effect::Terminate { run });
    assert_eq!(ordered(&mut orders, Ok(())).await, "arm");
    assert_eq!(ordered(&mut orders, Ok(())).await, "disarm");
    assert!(matches!(reported(&mut driver.inbox).await, Event::NotStarted { too_late: true, .. }));
}

#[tokio::test]
async fn what_is_asked_while_the_process_is_being_started_is_done_when_it_is_there() {
    let Bench { driver, sender, .. } = bench(Broken::Silent);
    let Driver { mut inbox, hands, .. } = driver;
    let order = order("stop-in-spawn", "sleep 600", false);
    let (control, stopping) = Control::new(&order);
    // The order is looked at before the spawn, and asked after it: `carry_out` is polled once in between.
    let mut carried = Box::pin(hands.launcher.clone().carry_out(order, stopping));
    tokio::select! {
        biased;
        () = &mut carried => panic!("a run of ten minutes has ended"),
        () = std::future::ready(()) => {}
    }
    control.stop(Stop::Kill);
    control.stop(Stop::Terminate);
    let task = tokio::spawn(carried);
    assert!(matches!(reported(&mut inbox).await, Event::Started { .. }));
    assert!(matches!(reported(&mut inbox).await, Event::Ended { exit, .. } if exit.signal == Some(9)));
    task.await.unwrap();
    drop(sender);
}

#[tokio::test]
async fn a_run_whose_lease_is_over_is_not_started() {
    let Bench { mut driver, .. } = bench(Broken::Silent);
    let mut order = order("late", "true", false);
    order.lease_end = SystemClock.now().boot;
    driver.hands.perform(Effect::Start(order));
    assert!(matches!(reported(&mut driver.inbox).await, Event::NotStarted { too_late: true, .. }));
}

#[tokio::test]
async fn a_few_histories_are_read_at_once_and_at_the_end_what_is_known_counts_for_all() {
    static ASKED: AtomicUsize = AtomicUsize::new(0);
    let store: Arc<dyn Store> = Arc::new(Broken::Counting(&ASKED));
    let mut looks = LookBacks::new();
    for second in 0..20 {
        let run = RunKey::new(JobName::new("work").unwrap(), Tick::from_seconds(second));
        let facts = RunFacts { run, trigger: Trigger::Schedule, start: 1, token: None };
        looks.begin(Arc::clone(&store), (facts, None), Trouble { failures: 3, ..Trouble::default() });
    }
    let hurried = async {
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
    };
    let found = looks.finish(hurried).await;
    assert_eq!(ASKED.load(Ordering::SeqCst), 4);
    assert!(found.len() == 20 && found.iter().all(|found| found.recovered.failures == 3), "{found:?}");
}
