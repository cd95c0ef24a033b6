//! Another server takes the place of a Redis, in the middle of a burst: no tick is started twice. Each scenario has a
//! twin without our defences, under which it is: a scenario that harms nobody proves nothing.
//!
//! An ordinary test is a sample; `ONECRON_CAMPAIGN=full` repeats each ten times. The figures are printed.

use crate::processes;
use crate::support::bench::open;
use crate::support::proxy::Proxy;
use crate::support::proxy::Swallow;
use crate::support::redis_modes;
use crate::support::redis_modes::Deployment;
use crate::support::scene::HOUR_MS;
use crate::support::scene::claim_of;
use crate::support::scene::registration;
use crate::support::scene::replica;
use nix::sys::signal::Signal;
use onecron::clock::Clock;
use onecron::clock::SystemClock;
use onecron::job::JobName;
use onecron::job::RunKey;
use onecron::job::Step;
use onecron::job::Tick;
use onecron::job::Verdict;
use onecron::store::Store;
use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::task::JoinHandle;

/// Jobs that are due at every second.
const JOBS: usize = 20;
/// How long a tick may still be started, seconds.
const DEADLINE: i64 = 8;
/// How often a scenario is played: in a sample, and in full.
const ROUNDS: [usize; 2] = [1, 10];

/// Whether what keeps ticks from being started twice is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Defence {
    /// As it is delivered.
    Ours,
    /// Nothing is confirmed by replicas, and what may have been forgotten is not refused.
    None,
}

impl Defence {
    fn of(self, url: &str) -> String {
        if self == Self::Ours { url.into() } else { format!("{url}?wait-replicas=0") }
    }
}

/// Who started what: a tick of a job, and each start of it.
type Ledger = Arc<Mutex<BTreeMap<(usize, i64), Vec<(String, i64)>>>>;

fn seconds() -> i64 {
    SystemClock.now().wall.timestamp()
}

fn job(number: usize) -> JobName {
    JobName::new(&format!("job-{number}")).unwrap()
}

/// Claims each tick of each job that it may, begins it, and enters it into the ledger: a replica without the engine.
struct Claimer {
    name: String,
    store: Arc<dyn Store>,
    defence: Defence,
    ledger: Ledger,
    decided: BTreeSet<(usize, i64)>,
}

/// One that can be stopped.
struct Running {
    stop: Arc<AtomicBool>,
    task: JoinHandle<()>,
}

impl Running {
    async fn stop(self) {
        self.stop.store(true, Ordering::SeqCst);
        self.task.await.unwrap();
    }
}

impl Claimer {
    fn start(name: &str, url: &str, (defence, ledger): (Defence, &Ledger)) -> Running {
        let store = open(&defence.of(url), "default");
        let (name, ledger) = (name.to_owned(), Arc::clone(ledger));
        let mut claimer = Self { name, store, defence, ledger, decided: BTreeSet::new() };
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let task = tokio::spawn(async move {
            while !stopped.load(Ordering::SeqCst) {
                claimer.look().await;
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        });
        Running { stop, task }
    }

    /// What can be claimed now, one second at a time: a request that fails must not hold up the others.
    async fn look(&mut self) {
        let now = seconds();
        for second in (now - DEADLINE + 1)..=now {
            let open: Vec<usize> = (0..JOBS).filter(|job| !self.decided.contains(&(*job, second))).collect();
            if !open.is_empty() {
                self.claim(second, &open).await;
            }
        }
    }

    async fn claim(&mut self, second: i64, open: &[usize]) {
        let run = |number: usize| RunKey::new(job(number), Tick::from_seconds(second));
        let claim = |number: &usize| {
            let mut claim = claim_of(&run(*number), &self.name);
            (claim.exclusive, claim.previous) = (false, second - 1);
            Step::Claim(claim)
        };
        let claims: Vec<Step> = open.iter().map(claim).collect();
        let Ok(answers) = self.store.apply(&claims).await else { return };
        let mut won = Vec::new();
        for (number, answer) in open.iter().zip(answers) {
            match answer.verdict {
                Verdict::Won => won.push(*number),
                Verdict::Unregistered => return self.register().await,
                Verdict::TooEarly { .. } => {}
                _ => _ = self.decided.insert((*number, second)),
            }
        }
        let begin = |number: &usize| Step::Begin {
            run: run(*number),
            owner: replica(&self.name),
            start: 0,
            request: "1".into(),
        };
        let begins: Vec<Step> = won.iter().map(begin).collect();
        if begins.is_empty() {
            return;
        }
        let Ok(answers) = self.store.apply(&begins).await else { return };
        for (number, answer) in won.iter().zip(answers) {
            if answer.verdict == Verdict::Begun {
                let mut ledger = self.ledger.lock().unwrap();
                ledger.entry((*number, second)).or_default().push((self.name.clone(), seconds()));
            }
            if answer.verdict != Verdict::Unregistered {
                self.decided.insert((*number, second));
            }
        }
    }

    async fn register(&self) {
        // With a tolerance like that nothing is ever taken for forgotten.
        let skew_tolerance_ms = if self.defence == Defence::Ours { 500 } else { -3 * HOUR_MS };
        let register = |number| {
            let mut registration = registration(&job(number));
            (registration.schedule, registration.skew_tolerance_ms) = ("* * * * * *".into(), skew_tolerance_ms);
            Step::Register(registration)
        };
        let steps: Vec<Step> = (0..JOBS).map(register).collect();
        let _ = self.store.apply(&steps).await;
    }
}

/// Ticks that were started, and those that were started more than once.
fn count(ledger: &Ledger) -> (usize, usize) {
    let ledger = ledger.lock().unwrap();
    (ledger.len(), ledger.values().filter(|starts| starts.len() > 1).count())
}

/// Waits until somebody starts a tick that is due after now.
async fn until_started(ledger: &Ledger, by: Option<&str>, what: &str) {
    let after = seconds();
    let limit = processes::now();
    loop {
        let is_one = |((_, second), starts): (&(usize, i64), &Vec<(String, i64)>)| {
            *second > after && starts.iter().any(|(who, _)| by.is_none_or(|by| who == by))
        };
        if ledger.lock().unwrap().iter().any(is_one) {
            return;
        }
        assert!(processes::now().since(limit) < Duration::from_secs(40), "waited in vain: {what}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

async fn pass(seconds: u64) {
    tokio::time::sleep(Duration::from_secs(seconds)).await;
}

/// A value of a future, where one cannot wait for it.
fn now<T>(future: impl Future<Output = T>) -> T {
    tokio::task::block_in_place(|| tokio::runtime::Handle::current().block_on(future))
}

/// How many more rounds an undefended fleet gets that has not started anything twice.
const CHANCES: usize = 6;

fn rounds() -> usize {
    ROUNDS[usize::from(std::env::var("ONECRON_CAMPAIGN").is_ok_and(|text| text == "full"))]
}

/// Plays it as often as is wanted, and says what came of it. With our defences nothing may be started twice, and without
/// them something must be.
async fn judge<F>(name: &str, defence: Defence, mut scenario: impl FnMut() -> F)
where
    F: Future<Output = Option<Ledger>>,
{
    let (mut all, mut twice) = (0, 0);
    for round in 0..rounds() + CHANCES {
        // Whether an undefended fleet hits the moment is chance: it gets some more of them.
        if round >= rounds() && (defence != Defence::None || twice > 0) {
            break;
        }
        let Some(ledger) = scenario().await else { return };
        let (started, doubled) = count(&ledger);
        (all, twice) = (all + started, twice + doubled);
    }
    println!("{name}, {defence:?}: {all} ticks started, {twice} of them twice");
    assert!(all > 0);
    assert_eq!(twice > 0, defence == Defence::None, "{twice} of {all} started twice");
}

/// A primary behind a proxy, two replicas, three Sentinels; one claimer beside the primary, one beside the Sentinels.
async fn sentinels() -> Option<(Deployment, Proxy)> {
    let mut proxy = None;
    let deployment = tokio::task::block_in_place(|| {
        redis_modes::sentinels(2, 3, |port| proxy.insert(now(Proxy::start(port))).port)
    })?;
    Some((deployment, proxy?))
}

async fn primary_is_cut_off(defence: Defence) -> Option<Ledger> {
    let (deployment, proxy) = sentinels().await?;
    let ledger = Ledger::default();
    let beside = Claimer::start("beside", &deployment.servers[0].url(), (defence, &ledger));
    let other = Claimer::start("other", &deployment.url, (defence, &ledger));
    until_started(&ledger, None, "all is well").await;
    pass(2).await;
    proxy.swallow(Swallow::All);
    until_started(&ledger, Some("other"), "the new primary serves").await;
    pass(3).await;
    proxy.swallow(Swallow::Nothing);
    pass(2).await;
    beside.stop().await;
    other.stop().await;
    Some(ledger)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn no_tick_starts_twice_while_a_primary_is_cut_off_from_its_sentinels() {
    judge("cut off", Defence::Ours, || primary_is_cut_off(Defence::Ours)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn without_defences_ticks_start_twice_while_a_primary_is_cut_off() {
    judge("cut off", Defence::None, || primary_is_cut_off(Defence::None)).await;
}

async fn primary_is_paused(defence: Defence) -> Option<Ledger> {
    let (deployment, _proxy) = sentinels().await?;
    let ledger = Ledger::default();
    let beside = Claimer::start("beside", &deployment.servers[0].url(), (defence, &ledger));
    let other = Claimer::start("other", &deployment.url, (defence, &ledger));
    until_started(&ledger, None, "all is well").await;
    pass(1).await;
    deployment.servers[0].signal(Signal::SIGSTOP);
    until_started(&ledger, Some("other"), "the new primary serves").await;
    deployment.servers[0].signal(Signal::SIGCONT);
    pass(6).await;
    beside.stop().await;
    other.stop().await;
    Some(ledger)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn no_tick_starts_twice_when_a_paused_primary_comes_back() {
    judge("paused", Defence::Ours, || primary_is_paused(Defence::Ours)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn without_defences_ticks_start_twice_when_a_paused_primary_comes_back() {
    judge("paused", Defence::None, || primary_is_paused(Defence::None)).await;
}

/// A node of a cluster acknowledges what its replica does not get, dies, and the replica takes its place. Who comes late
/// finds nothing of what was started.
async fn node_dies_with_what_it_knows(defence: Defence) -> Option<Ledger> {
    let mut proxies = Vec::new();
    let mut deployment = tokio::task::block_in_place(|| {
        let mut first = true;
        redis_modes::cluster(3, 1, &mut |port| {
            std::mem::take(&mut first).then(|| {
                proxies.push(now(Proxy::start(port)));
                proxies[0].port
            })
        })
    })?;
    let ledger = Ledger::default();
    let early = Claimer::start("early", &deployment.url, (defence, &ledger));
    until_started(&ledger, None, "all is well").await;
    pass(1).await;
    proxies[0].swallow(Swallow::Copies);
    pass(2).await;
    // Otherwise it would begin later ticks, and those before them are never begun after that.
    early.stop().await;
    deployment.servers[0].kill();
    let late = Claimer::start("late", &deployment.url, (defence, &ledger));
    let replica = &deployment.servers[3];
    let promoted = || async { replica.command("INFO replication").contains("role:master") };
    crate::support::wait_until("its replica takes its place", promoted).await;
    // As the replica of its replica: without one, nothing is confirmed there.
    tokio::task::block_in_place(|| deployment.servers[0].start_again());
    until_started(&ledger, Some("late"), "the replica serves").await;
    pass(2).await;
    late.stop().await;
    Some(ledger)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn no_tick_starts_twice_when_a_node_dies_with_what_it_knows() {
    judge("node lost", Defence::Ours, || node_dies_with_what_it_knows(Defence::Ours)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn without_defences_ticks_start_twice_when_a_node_dies_with_what_it_knows() {
    judge("node lost", Defence::None, || node_dies_with_what_it_knows(Defence::None)).await;
}
