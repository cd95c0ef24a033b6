//! Many replicas at once, each with a handle of its own.

use crate::support::bench::Bench;
use crate::support::scene::Scene;
use crate::support::scene::ending;
use crate::support::scene::registration;
use crate::support::scene::replica;
use onecron::job::Answer;
use onecron::job::Decision;
use onecron::job::Expect;
use onecron::job::JobName;
use onecron::job::MissedReason;
use onecron::job::Outcome;
use onecron::job::RunKey;
use onecron::job::SkipReason;
use onecron::job::Step;
use onecron::job::Tick;
use onecron::job::Verdict;
use onecron::store::Store;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering;
use tokio::task::JoinSet;

const RACERS: usize = 8;

fn handles(bench: &Bench) -> Vec<Arc<dyn Store>> {
    (0..RACERS).map(|_| bench.open("default")).collect()
}

/// Sends as a replica does: until there is an answer. (A file that eight processes fight for is sometimes locked.)
async fn send(store: &Arc<dyn Store>, steps: &[Step]) -> Vec<Answer> {
    for _ in 0..20 {
        if let Ok(answers) = store.apply(steps).await {
            return answers;
        }
    }
    store.apply(steps).await.unwrap()
}

/// All racers send their step at the same moment; their verdicts.
async fn race(scene: &Scene, step: impl Fn(usize) -> Step) -> Vec<Verdict> {
    let mut tasks = JoinSet::new();
    let barrier = Arc::new(tokio::sync::Barrier::new(RACERS));
    for (n, store) in handles(&scene.bench).into_iter().enumerate() {
        let (barrier, step) = (barrier.clone(), step(n));
        tasks.spawn(async move {
            barrier.wait().await;
            send(&store, &[step]).await[0].verdict
        });
    }
    tasks.join_all().await
}

fn count(verdicts: &[Verdict], wanted: Verdict) -> usize {
    verdicts.iter().filter(|verdict| **verdict == wanted).count()
}

pub async fn only_one_of_many_concurrent_claims_wins(scene: Scene) {
    for n in 1..=10 {
        let verdicts = race(&scene, |racer| Step::Claim(scene.claim_of(n, &format!("web-{racer}")))).await;
        assert_eq!((count(&verdicts, Verdict::Won), count(&verdicts, Verdict::Held)), (1, RACERS - 1));
    }
}

pub async fn a_takeover_has_one_winner(scene: Scene) {
    scene.claim(1, "dead").await;
    let seen = scene.seen(1).await;
    let verdicts = race(&scene, |racer| {
        let mut claim = scene.claim_of(1, &format!("web-{racer}"));
        claim.takeover = Some(seen.clone());
        Step::Claim(claim)
    });
    let verdicts = verdicts.await;
    assert_eq!((count(&verdicts, Verdict::Won), count(&verdicts, Verdict::Held)), (1, RACERS - 1));
}

pub async fn a_settlement_has_one_author(scene: Scene) {
    let verdicts = race(&scene, |racer| Step::Settle {
        run: scene.run(1),
        owner: replica(&format!("web-{racer}")),
        previous: 0,
        expect: Expect::Absent { after_ms: 0 },
        decision: Decision::Missed(MissedReason::NoReplica),
    });
    let verdicts = verdicts.await;
    assert_eq!((count(&verdicts, Verdict::Settled), count(&verdicts, Verdict::Changed)), (1, RACERS - 1));
}

pub async fn a_thousand_ticks_have_one_winner_each(scene: Scene) {
    const JOBS: usize = 50;
    const TICKS: i64 = 20;
    let jobs: Vec<JobName> = (0..JOBS).map(|n| JobName::new(&format!("job-{n}")).unwrap()).collect();
    let steps: Vec<Step> = jobs.iter().map(|job| Step::Register(registration(job))).collect();
    scene.store.apply(&steps).await.unwrap();
    let mut tasks = JoinSet::new();
    for (racer, store) in handles(&scene.bench).into_iter().enumerate() {
        let (mut jobs, mut claim) = (jobs.clone(), scene.claim_of(1, &format!("web-{racer}")));
        // Racers walk the jobs from different sides, so that none always arrives first.
        if racer % 2 == 1 {
            jobs.reverse();
        }
        let ticks: Vec<Tick> = (1..=TICKS).map(|n| scene.tick(n)).collect();
        tasks.spawn(async move {
            let mut won = Vec::new();
            for tick in ticks {
                claim.previous = tick.seconds() - 60;
                let steps = jobs.iter().map(|job| {
                    claim.run = RunKey::new(job.clone(), tick);
                    Step::Claim(claim.clone())
                });
                let steps: Vec<Step> = steps.collect();
                for (step, answer) in steps.iter().zip(send(&store, &steps).await) {
                    match answer.verdict {
                        Verdict::Won => won.push(step.run().unwrap().clone()),
                        verdict => assert_eq!(verdict, Verdict::Held),
                    }
                }
            }
            won
        });
    }
    let mut winners: BTreeMap<RunKey, usize> = BTreeMap::new();
    for run in tasks.join_all().await.into_iter().flatten() {
        *winners.entry(run).or_default() += 1;
    }
    assert_eq!(winners.len(), 1000);
    assert!(winners.values().all(|&count| count == 1));
}

/// The job reads a number, and writes one more: if two runs overlap, or a tick runs twice or never, it counts wrong.
pub async fn a_counter_without_a_lock_of_its_own_counts_right(scene: Scene) {
    const TICKS: i64 = 12;
    let counter = Arc::new(AtomicU32::new(0));
    let scene = Arc::new(scene);
    let mut tasks = JoinSet::new();
    for racer in 0..RACERS {
        let (scene, counter) = (scene.clone(), counter.clone());
        let store = scene.bench.open("default");
        tasks.spawn(async move {
            let mut runs = 0;
            for n in 1..=TICKS {
                runs += u32::from(run_once(&scene, &store, (n, &format!("web-{racer}")), &counter).await);
            }
            runs
        });
    }
    let runs: u32 = tasks.join_all().await.into_iter().sum();
    assert_eq!(counter.load(Ordering::SeqCst), runs);
    assert!(runs > 0);
    let decided = scene.store.history(&scene.job, 100).await.unwrap().len();
    assert_eq!(decided, usize::try_from(TICKS).unwrap(), "each tick ends in one recorded outcome");
}

/// One replica's part in one tick; whether it ran it.
async fn run_once(scene: &Scene, store: &Arc<dyn Store>, (n, who): (i64, &str), counter: &AtomicU32) -> bool {
    let (run, owner) = (scene.run(n), replica(who));
    let verdict = send(store, &[Step::Claim(scene.claim_of(n, who))]).await[0].verdict;
    if verdict != Verdict::Won {
        assert!(matches!(verdict, Verdict::Held | Verdict::Done), "{verdict:?}");
        return false;
    }
    let begin = Step::Begin { run: run.clone(), owner: owner.clone(), start: 0, request: "1".into() };
    loop {
        match send(store, std::slice::from_ref(&begin)).await[0].verdict {
            Verdict::Begun => break,
            Verdict::Busy { .. } => tokio::task::yield_now().await,
            Verdict::Superseded => {
                let (expect, decision) = (Expect::Own(owner.clone()), Decision::Skipped(SkipReason::Superseded));
                let settle = Step::Settle { run, owner, previous: 0, expect, decision };
                assert_eq!(send(store, &[settle]).await[0].verdict, Verdict::Settled);
                return false;
            }
            verdict => panic!("{verdict:?}"),
        }
    }
    let before = counter.load(Ordering::SeqCst);
    tokio::task::yield_now().await;
    counter.store(before + 1, Ordering::SeqCst);
    let complete = Step::Complete { run, owner, start: 1, ending: ending(Outcome::Succeeded, "") };
    assert_eq!(send(store, &[complete]).await[0].verdict, Verdict::Recorded);
    true
}
