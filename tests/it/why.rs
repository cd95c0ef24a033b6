//! What `admin` tells of a tick, for each way in which one can stand. Against a store in memory: what a record says is
//! the same in all.

use crate::support::bench::Bench;
use crate::support::bench::Kind;
use crate::support::scene::Scene;
use crate::support::scene::ending;
use crate::support::scene::replica;
use crate::support::wait_until;
use chrono::DateTime;
use chrono::TimeDelta;
use chrono::Utc;
use onecron::admin;
use onecron::admin::Account;
use onecron::admin::Refusal;
use onecron::job::Decision;
use onecron::job::Ending;
use onecron::job::Expect;
use onecron::job::JobName;
use onecron::job::MissedReason;
use onecron::job::Order;
use onecron::job::Outcome;
use onecron::job::Pause;
use onecron::job::Presence;
use onecron::job::RunKey;
use onecron::job::SkipReason;
use onecron::job::Step;
use onecron::job::Tick;
use onecron::job::Verdict;

const ABSENT: Expect = Expect::Absent { after_ms: 0 };

async fn scene() -> Scene {
    Scene::new(Bench::start(Kind::Memory).unwrap()).await
}

fn at(scene: &Scene, n: i64) -> DateTime<Utc> {
    scene.tick(n).to_datetime()
}

async fn why(scene: &Scene, n: i64) -> Account {
    admin::why(&*scene.store, &scene.job, Some(at(scene, n))).await.unwrap()
}

/// Asserts what is answered about the n-th tick.
async fn assert_told(scene: &Scene, n: i64, answer: &str) {
    let account = why(scene, n).await;
    assert!(account.answer.contains(answer), "{answer:?} is not in {account:?}");
    assert_eq!(account.run_id, Some(scene.run(n).to_string()));
}

#[tokio::test]
async fn each_stage_of_a_run_is_told_with_who_has_it() {
    let scene = scene().await;
    assert_told(&scene, 1, "nobody has decided it yet").await;
    scene.claim(1, "web-1").await;
    assert_told(&scene, 1, "web-1-1 has claimed it, and has not begun").await;
    scene.begin(1, "web-1", 0).await;
    assert_told(&scene, 1, "web-1-1 runs it since 20").await;
    scene.lose(1).await;
    assert_told(&scene, 1, "web-1-1 began it at 20").await;
    assert_told(&scene, 1, "and vanished").await;
    scene.claim(2, "web-2").await;
    scene.abandon(2, "web-2", 0).await;
    assert_told(&scene, 2, "web-2-1 gave it back").await;
}

#[tokio::test]
async fn each_end_is_told_with_its_reason() {
    let scene = scene().await;
    scene.run_through(1, Outcome::Succeeded, "ok").await;
    assert_told(&scene, 1, "succeeded").await;
    scene.start(2, "web-1").await;
    let bad = Ending { exit_code: Some(3), error: "it broke".into(), ..ending(Outcome::Failed, "") };
    scene.end(2, "web-1", (1, bad)).await;
    assert_told(&scene, 2, "failed, exit code 3: it broke").await;
    for (n, reason) in MissedReason::ALL.iter().enumerate() {
        let n = 3 + i64::try_from(n).unwrap();
        scene.settle(n, ABSENT, Decision::Missed(*reason)).await;
        assert_told(&scene, n, "it was not run: ").await;
        assert_told(&scene, n, &format!("(missed: {reason})")).await;
    }
    scene.settle(20, ABSENT, Decision::Skipped(SkipReason::Paused)).await;
    assert_told(&scene, 20, "it was not run: the job was paused (skipped: paused)").await;
}

#[tokio::test]
async fn of_a_lost_run_it_is_said_whether_and_when_it_is_started_again() {
    let scene = scene().await;
    scene.start(1, "web-1").await;
    scene.lose(1).await;
    let report = why(&scene, 1).await;
    assert!(!report.answer.contains("again") && report.run.unwrap().again_at.is_none());
    scene.claim_with(2, "web-1", |claim| (claim.rerun, claim.exclusive) = (true, false)).await;
    scene.begin(2, "web-1", 0).await;
    scene.lose(2).await;
    let rerun = why(&scene, 2).await;
    let again = rerun.run.unwrap().again_at.unwrap();
    assert!(
        rerun.answer.ends_with(&format!("; it will be started again elsewhere, at about {again}")),
        "{}",
        rerun.answer
    );
    let wait = DateTime::parse_from_rfc3339(&again).unwrap().timestamp_millis() - scene.record(2).await.ended_at;
    assert_eq!(wait, 21_300, "twice the grace, a second and a fiftieth of the lease");
}

#[tokio::test]
async fn a_run_is_asked_for_by_its_id_also_one_by_hand() {
    let scene = scene().await;
    scene.run_through(1, Outcome::Succeeded, "ok").await;
    let account = admin::why_run(&*scene.store, &scene.run(1)).await.unwrap();
    assert!(account.run_id == Some(scene.run(1).to_string()) && account.answer.contains("succeeded"), "{account:?}");
    let run = RunKey::new(scene.job.clone(), Tick::manual(scene.tick(3).millis(), 7));
    assert!(matches!(admin::why_run(&*scene.store, &run).await, Err(Refusal::NoRun { .. })));
    let (owner, by) = (replica("command"), "ada".to_owned());
    let order = Order { run: run.clone(), owner, by, key: String::new(), runs_for: None, despite_pause: false };
    assert_eq!(scene.verdict(Step::Order(order)).await, Verdict::Ordered);
    let account = admin::why_run(&*scene.store, &run).await.unwrap();
    assert_eq!(account.run_id, Some(run.to_string()));
    assert_eq!(account.answer, "ada ordered it, and no replica has taken it yet");
}

/// A record has the owner of the last attempt; of those before, only the logs know.
#[tokio::test]
async fn of_several_attempts_it_is_said_where_the_others_stand() {
    let scene = scene().await;
    scene.start(1, "web-1").await;
    let tells = async || why(&scene, 1).await.facts.iter().any(|fact| fact.contains("`run_lost` in the logs"));
    assert!(!tells().await);
    scene.begin_as(1, "web-1", (1, "again")).await;
    assert!(tells().await);
}

#[tokio::test]
async fn a_replica_that_should_have_been_heard_of_is_not_told_as_one_that_is_there_and_well() {
    let scene = scene().await;
    let last = async || why(&scene, 1).await.facts.pop().unwrap();
    let presence = Presence { number: 1, lease_ms: 1, ..Presence::new(replica("web-1"), Presence::REPLICA) };
    scene.store.meet(Some(&presence), &[]).await.unwrap();
    assert_eq!(last().await, "1 replica is there now");
    let is_silent = async || last().await.starts_with("1 replica is there now, silent for ");
    wait_until("it is silent for longer than it should be", is_silent).await;
}

#[tokio::test]
async fn an_instant_between_two_ticks_means_the_one_before_it() {
    let scene = scene().await;
    scene.run_through(1, Outcome::Succeeded, "ok").await;
    for between in [TimeDelta::seconds(59), TimeDelta::milliseconds(59_500)] {
        let account = admin::why(&*scene.store, &scene.job, Some(at(&scene, 1) + between)).await.unwrap();
        assert_eq!(account.run_id, Some(scene.run(1).to_string()));
    }
    let last = admin::why(&*scene.store, &scene.job, None).await.unwrap();
    let run = last.run_id.unwrap();
    assert!([119, 120, 121].into_iter().any(|n| run == scene.run(n).to_string()), "{run}");
}

#[tokio::test]
async fn what_is_yet_to_come_is_no_miss() {
    let scene = scene().await;
    let account = why(&scene, 500).await;
    assert!(account.answer.contains("yet to come") && account.answer.contains("its next tick is"), "{account:?}");
    assert_eq!(account.run_id, None);
}

#[tokio::test]
async fn ticks_that_were_settled_together_are_told_alike() {
    let scene = scene().await;
    scene.claim_with(1, "web-1", |claim| claim.previous = 0).await; // from here on all is decided
    scene.begin(1, "web-1", 0).await;
    scene.complete(1, "web-1", 1).await;
    let (run, previous, decision) = (scene.run(6), scene.tick(1).seconds(), Decision::Missed(MissedReason::NoReplica));
    let expect = Expect::AbsentRange { first: scene.tick(2), count: 5, after_ms: 0 };
    scene.step(Step::Settle { run, owner: replica("auditor"), previous, expect, decision }).await;
    for n in [2, 4, 6] {
        assert_told(&scene, n, "(missed: no_replica)").await;
    }
    let facts = why(&scene, 6).await.facts;
    assert!(facts.iter().any(|fact| fact.starts_with("5 ticks from")), "{facts:?}");
    assert_told(&scene, 7, "nobody has decided it yet").await;
}

#[tokio::test]
async fn a_tick_before_the_stores_memory_is_told_as_that() {
    let scene = scene().await;
    let before = at(&scene, -200);
    let account = admin::why(&*scene.store, &scene.job, Some(before)).await.unwrap();
    assert!(account.answer.contains("its memory of it begins at"), "{account:?}");
}

#[tokio::test]
async fn a_former_schedule_answers_for_its_own_time() {
    let scene = scene().await;
    scene.register_with(|registration| registration.schedule = "@every 45m".into()).await;
    let account = why(&scene, 7).await;
    assert_eq!(account.run_id, Some(scene.run(7).to_string()));
    let told = |facts: &[String]| facts.iter().any(|fact| fact.contains("until it was changed at"));
    assert!(told(&account.facts), "{account:?}");
}

#[tokio::test]
async fn a_tick_of_a_suspended_job_is_told_by_the_one_before_it() {
    let scene = scene().await;
    scene.settle(1, ABSENT, Decision::Skipped(SkipReason::Suspended)).await;
    assert_told(
        &scene,
        2,
        "nobody has decided it yet; the one before it was skipped, since the table suspends the job",
    )
    .await;
}

#[tokio::test]
async fn a_pause_and_its_author_are_told() {
    let scene = scene().await;
    let pause = Some(Pause::new("ada", "night shift"));
    scene.step(Step::Pause { job: scene.job.clone(), all: false, pause, only_if: None }).await;
    assert_told(&scene, 1, "it will be skipped: the job is paused (by ada)").await;
    let facts = why(&scene, 1).await.facts;
    let told = facts.iter().any(|fact| fact.starts_with("the job is paused") && fact.ends_with("by ada (night shift)"));
    assert!(told, "{facts:?}");
}

#[tokio::test]
async fn a_job_that_no_replica_has_is_refused_with_the_nearest_name() {
    let scene = scene().await;
    let refusal = admin::why(&*scene.store, &JobName::new("nightly-sale").unwrap(), None).await.unwrap_err();
    assert!(matches!(refusal, Refusal::NoJob { .. }));
    assert_eq!(refusal.hint().unwrap(), "did you mean `nightly-sales`?");
}
