//! That a job had no success for too long is said once.

use crate::support::scene::HOUR_MS;
use crate::support::scene::Scene;
use crate::support::scene::replica;
use onecron::job::Decision;
use onecron::job::Expect;
use onecron::job::JobRecord;
use onecron::job::MissedReason;
use onecron::job::Outcome;
use onecron::job::SkipReason;
use onecron::job::Stale;
use onecron::job::Step;
use onecron::job::Verdict;

async fn record(scene: &Scene) -> JobRecord {
    scene.look(1).await.job.unwrap()
}

/// As a replica that knows the job so.
fn call(scene: &Scene, who: &str, (known, after_ms): (&JobRecord, i64)) -> Step {
    let (last_success, since) = (known.last_success, known.since);
    Step::CallStale { job: scene.job.clone(), by: replica(who), last_success, since, after_ms }
}

pub async fn a_job_is_called_stale_by_one_of_all(scene: Scene) {
    scene.run_through(1, Outcome::Succeeded, "").await;
    let known = record(&scene).await;
    assert_eq!(known.stale, None);
    assert_eq!(scene.verdict(call(&scene, "web-1", (&known, 60_000))).await, Verdict::Settled);
    assert_eq!(scene.verdict(call(&scene, "web-2", (&known, 60_000))).await, Verdict::Changed);
    let said = record(&scene).await;
    assert_eq!(said.stale, Some(Stale { fresh_at: scene.tick(1).millis(), by: replica("web-1") }));
    assert_eq!(scene.verdict(call(&scene, "web-1", (&known, 60_000))).await, Verdict::Settled, "sent again");
    assert_eq!(record(&scene).await.revision, said.revision, "which changes nothing");
    scene.run_through(2, Outcome::Failed, "").await;
    let failed = record(&scene).await;
    assert_eq!(scene.verdict(call(&scene, "web-2", (&failed, 60_000))).await, Verdict::Changed, "it was said");
}

pub async fn a_job_is_called_stale_again_when_it_succeeded_since(scene: Scene) {
    scene.run_through(1, Outcome::Succeeded, "").await;
    let known = record(&scene).await;
    assert_eq!(scene.verdict(call(&scene, "web-1", (&known, 60_000))).await, Verdict::Settled);
    scene.run_through(3, Outcome::Succeeded, "").await;
    assert_eq!(
        scene.verdict(call(&scene, "web-2", (&known, 60_000))).await,
        Verdict::Changed,
        "of a success not heard of"
    );
    let known = record(&scene).await;
    assert_eq!(scene.verdict(call(&scene, "web-2", (&known, 60_000))).await, Verdict::Settled);
    assert_eq!(record(&scene).await.stale.unwrap().by, replica("web-2"));
}

pub async fn ticks_that_nobody_ran_are_counted_until_a_success(scene: Scene) {
    let (missed, absent) = (Decision::Missed(MissedReason::NoReplica), Expect::Absent { after_ms: 60_000 });
    // Whatever was before is decided.
    assert_eq!(scene.claim_with(1, "web-1", |claim| claim.previous = 0).await, Verdict::Won);
    assert_eq!(scene.begin(1, "web-1", 0).await, Verdict::Begun);
    assert_eq!(scene.complete(1, "web-1", 1).await, Verdict::Recorded);
    assert_eq!(scene.settle(2, absent.clone(), missed).await, Verdict::Settled);
    assert_eq!(record(&scene).await.missed, 1);
    assert_eq!(scene.settle(3, absent, Decision::Skipped(SkipReason::Paused)).await, Verdict::Settled);
    let expect = Expect::AbsentRange { first: scene.tick(4), count: 3, after_ms: 60_000 };
    let (run, owner, previous) = (scene.run(6), replica("auditor"), scene.tick(3).seconds());
    let step = Step::Settle { run, owner, previous, expect, decision: missed };
    assert_eq!(scene.verdict(step).await, Verdict::Settled);
    assert_eq!(record(&scene).await.missed, 4);
    scene.run_through(7, Outcome::Failed, "").await;
    assert_eq!(record(&scene).await.missed, 4);
    scene.run_through(8, Outcome::Succeeded, "").await;
    assert_eq!(record(&scene).await.missed, 0);
}

pub async fn a_job_is_not_called_stale_before_its_time_by_the_stores_clock(scene: Scene) {
    scene.run_through(1, Outcome::Succeeded, "").await;
    let known = record(&scene).await;
    let early = scene.verdict(call(&scene, "web-1", (&known, 24 * HOUR_MS))).await;
    assert!(matches!(early, Verdict::TooEarly { by_ms } if by_ms > 21 * HOUR_MS && by_ms < 23 * HOUR_MS), "{early:?}");
    assert_eq!(record(&scene).await.stale, None);
}

pub async fn a_job_without_a_success_is_stale_so_long_after_the_store_first_knew_it(scene: Scene) {
    let known = record(&scene).await;
    let other = JobRecord { since: known.since - 1, ..known.clone() };
    assert_eq!(scene.verdict(call(&scene, "web-1", (&other, 60_000))).await, Verdict::Changed, "of another history");
    assert_eq!(scene.verdict(call(&scene, "web-1", (&known, 60_000))).await, Verdict::Settled);
    assert_eq!(record(&scene).await.stale.unwrap().fresh_at, known.since);
}

pub async fn one_of_many_who_call_a_job_stale_at_once_is_the_one(scene: Scene) {
    let known = record(&scene).await;
    let mut calls = tokio::task::JoinSet::new();
    for n in 0..8 {
        let (store, step) = (scene.store.clone(), call(&scene, &format!("web-{n}"), (&known, 60_000)));
        calls.spawn(async move { store.apply(&[step]).await.unwrap().remove(0).verdict });
    }
    let verdicts = calls.join_all().await;
    assert_eq!(verdicts.iter().filter(|verdict| **verdict == Verdict::Settled).count(), 1, "{verdicts:?}");
    assert_eq!(verdicts.iter().filter(|verdict| **verdict == Verdict::Changed).count(), 7, "{verdicts:?}");
}
