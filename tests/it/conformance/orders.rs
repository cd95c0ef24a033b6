//! Runs that people order, and pauses.

use crate::support::scene::Scene;
use crate::support::scene::claim_of;
use crate::support::scene::ending;
use crate::support::scene::registration;
use crate::support::scene::replica;
use onecron::job::Claim;
use onecron::job::JobRecord;
use onecron::job::Order;
use onecron::job::Outcome;
use onecron::job::Pause;
use onecron::job::Presence;
use onecron::job::Registration;
use onecron::job::RunKey;
use onecron::job::RunState;
use onecron::job::Step;
use onecron::job::StopReason;
use onecron::job::Tick;
use onecron::job::Verdict;
use onecron::job::fencing_token;

/// A manual run, so many milliseconds after the scene's nth tick.
fn by_hand(scene: &Scene, n: i64, millis: i64) -> RunKey {
    RunKey::new(scene.job.clone(), Tick::manual(scene.tick(n).millis() + millis, 0x7f3a))
}

fn order_of(run: &RunKey, key: &str) -> Order {
    Order {
        run: run.clone(),
        owner: replica("command"),
        by: "ada@web".into(),
        key: key.into(),
        runs_for: None,
        despite_pause: false,
    }
}

async fn ordered(scene: &Scene, run: &RunKey) {
    assert_eq!(scene.verdict(Step::Order(order_of(run, ""))).await, Verdict::Ordered);
}

async fn pause(scene: &Scene, all: bool, reason: Option<&str>) -> JobRecord {
    let pause = reason.map(|reason| Pause::new("ada@web", reason));
    let answer = scene.step(Step::Pause { job: scene.job.clone(), all, pause, only_if: None }).await;
    assert_eq!(answer.verdict, Verdict::Noted);
    answer.job.unwrap()
}

pub async fn an_ordered_run_is_there_for_one_of_all(scene: Scene) {
    let run = by_hand(&scene, 3, 7);
    let answer = scene.step(Step::Order(order_of(&run, ""))).await;
    let record = answer.run.unwrap();
    assert_eq!((answer.verdict, record.state, record.start), (Verdict::Ordered, RunState::Abandoned, 0));
    assert_eq!((record.ordered_by.as_str(), record.trigger.as_str()), ("ada@web", "manual"));
    assert_eq!(answer.job.unwrap().open, [run.scheduled_for], "it stands among the open runs");
    assert_eq!(scene.verdict(Step::Order(order_of(&run, ""))).await, Verdict::Ordered, "sent again");
    let claim = |who| Step::Claim(Claim { trigger: "manual".into(), rerun: true, ..claim_of(&run, who) });
    assert_eq!(scene.verdict(claim("web-1")).await, Verdict::Won);
    assert_eq!(scene.verdict(claim("web-2")).await, Verdict::Held);
    let record = scene.step(Step::Read { run }).await.run.unwrap();
    assert!(record.rerun, "on the terms of whoever takes it");
}

pub async fn only_an_order_makes_a_manual_run(scene: Scene) {
    let run = by_hand(&scene, 3, 7);
    assert_eq!(scene.verdict(Step::Claim(claim_of(&run, "web-1"))).await, Verdict::Gone);
    let (tick, tomorrow) = (scene.run(3), by_hand(&scene, 24 * 60, 0));
    assert_eq!(scene.verdict(Step::Order(order_of(&tick, ""))).await, Verdict::Forgot);
    assert!(matches!(scene.verdict(Step::Order(order_of(&tomorrow, ""))).await, Verdict::TooEarly { .. }));
    let unknown = RunKey::new(onecron::job::JobName::new("unknown").unwrap(), run.scheduled_for);
    assert_eq!(scene.verdict(Step::Order(order_of(&unknown, ""))).await, Verdict::Unregistered);
}

pub async fn two_orders_with_one_key_are_one_run(scene: Scene) {
    let (first, second) = (by_hand(&scene, 3, 7), by_hand(&scene, 4, 7));
    scene.step(Step::Order(order_of(&first, "a key"))).await;
    let answer = scene.step(Step::Order(order_of(&second, "a key"))).await;
    assert_eq!((answer.verdict, answer.run.unwrap().scheduled_for), (Verdict::Ordered, first.scheduled_for));
    assert_eq!(answer.open.len(), 1);
    let other = scene.step(Step::Order(order_of(&second, "another"))).await.run.unwrap();
    assert_eq!(other.scheduled_for, second.scheduled_for);
}

pub async fn a_key_is_known_for_as_long_as_its_run(scene: Scene) {
    let (first, second) = (by_hand(&scene, 3, 7), by_hand(&scene, 4, 7));
    scene.step(Step::Order(order_of(&first, "a key"))).await;
    scene.step(Step::Claim(claim_of(&first, "web-1"))).await;
    let (owner, request) = (replica("web-1"), "1".to_string());
    scene.step(Step::Begin { run: first.clone(), owner: owner.clone(), start: 0, request }).await;
    let ending = ending(Outcome::Succeeded, "");
    scene.step(Step::Complete { run: first.clone(), owner, start: 1, ending }).await;
    let found = scene.step(Step::Order(order_of(&second, "a key"))).await.run.unwrap();
    assert_eq!((found.scheduled_for, found.outcome), (first.scheduled_for, Some(Outcome::Succeeded)));
    // Records go when they are old, and this one is.
    scene.step(Step::Register(Registration { keep_ms: 0, ..registration(&scene.job) })).await;
    scene.claim(5, "web-1").await;
    assert_eq!(scene.step(Step::Read { run: first }).await.run, None);
    let job = scene.look(5).await.job.unwrap();
    assert_eq!(job.floor, 0, "no tick is too old for it");
    let made = scene.step(Step::Order(order_of(&second, "a key"))).await.run.unwrap();
    assert_eq!(made.scheduled_for, second.scheduled_for);
}

pub async fn a_manual_run_takes_the_slot_and_no_tick(scene: Scene) {
    scene.run_through(1, Outcome::Succeeded, "").await;
    let before = scene.look(1).await.job.unwrap();
    let run = by_hand(&scene, 3, 7);
    ordered(&scene, &run).await;
    scene.step(Step::Claim(claim_of(&run, "web-1"))).await;
    let begin = Step::Begin { run: run.clone(), owner: replica("web-1"), start: 0, request: "1".into() };
    let answer = scene.step(begin.clone()).await;
    let (job, record) = (answer.job.unwrap(), answer.run.unwrap());
    assert_eq!((answer.verdict, job.slot), (Verdict::Begun, Some(run.scheduled_for)));
    assert_eq!((job.last_begun, job.decided_through), (before.last_begun, before.decided_through));
    assert!(record.token > fencing_token(scene.tick(1), 9) && record.token < fencing_token(scene.tick(2), 1));
    assert_eq!(scene.step(begin).await.run.unwrap().token, record.token, "sent again");
    scene.claim(2, "web-2").await;
    assert!(matches!(scene.begin(2, "web-2", 0).await, Verdict::Busy { .. }));
    let ending = ending(Outcome::Succeeded, "tail");
    let end = Step::Complete { run: run.clone(), owner: replica("web-1"), start: 1, ending };
    assert_eq!(scene.verdict(end).await, Verdict::Recorded);
    assert_eq!(scene.begin(2, "web-2", 0).await, Verdict::Begun, "an earlier tick is not superseded by it");
    let history = scene.store.history(&scene.job, 1).await.unwrap();
    assert_eq!(
        (history[0].scheduled_for.as_str(), history[0].output_tail.as_str()),
        (&*run.scheduled_for.to_string(), "tail")
    );
    let job = scene.look(2).await.job.unwrap();
    assert_eq!(job.last_success, Some(scene.tick(3)), "what it was told to run for");
}

/// A manual run's token is above those of all that began before it.
pub async fn an_attempt_given_back_is_superseded_once_a_manual_run_began(scene: Scene) {
    scene.start(1, "web-1").await;
    scene.abandon(1, "web-1", 1).await;
    let run = by_hand(&scene, 1, 7);
    ordered(&scene, &run).await;
    assert_eq!(scene.verdict(Step::Claim(claim_of(&run, "web-2"))).await, Verdict::Won);
    let begin = Step::Begin { run: run.clone(), owner: replica("web-2"), start: 0, request: "1".into() };
    assert!(scene.step(begin).await.run.unwrap().token > fencing_token(scene.tick(1), 2));
    let ending = ending(Outcome::Succeeded, "");
    let end = Step::Complete { run, owner: replica("web-2"), start: 1, ending };
    assert_eq!(scene.verdict(end).await, Verdict::Recorded);
    assert_eq!(scene.claim(1, "web-3").await, Verdict::Won);
    assert_eq!(scene.begin(1, "web-3", 1).await, Verdict::Superseded);
}

pub async fn a_range_is_settled_across_manual_runs(scene: Scene) {
    use onecron::job::Decision;
    use onecron::job::Expect;
    use onecron::job::MissedReason;
    let first = Claim { previous: 0, ..scene.claim_of(1, "web-1") };
    assert_eq!(scene.verdict(Step::Claim(first)).await, Verdict::Won);
    let (over, open) = (by_hand(&scene, 2, 7), by_hand(&scene, 3, 7));
    for run in [&over, &open] {
        ordered(&scene, run).await;
    }
    scene.step(Step::Claim(claim_of(&over, "web-1"))).await;
    let (owner, decision) = (replica("web-1"), Decision::Missed(MissedReason::Late));
    let expect = Expect::Own(owner.clone());
    let own = Step::Settle { run: over, owner, previous: i64::MAX, expect, decision };
    assert_eq!(scene.verdict(own).await, Verdict::Settled);
    let before = scene.look(1).await.job.unwrap();
    assert_eq!(before.decided_through, scene.tick(1).seconds(), "no tick was decided by that");
    let range = Step::Settle {
        run: scene.run(5),
        owner: replica("auditor"),
        previous: scene.tick(1).seconds(),
        expect: Expect::AbsentRange { first: scene.tick(2), count: 4, after_ms: 0 },
        decision: Decision::Missed(MissedReason::NoReplica),
    };
    assert_eq!(scene.verdict(range).await, Verdict::Settled);
}

pub async fn a_run_that_was_ordered_and_cancelled_does_not_begin(scene: Scene) {
    let run = by_hand(&scene, 3, 7);
    ordered(&scene, &run).await;
    let stop = Step::AskStop { run: run.clone(), by: "ada@web".into(), reason: StopReason::Cancel };
    assert_eq!(scene.verdict(stop).await, Verdict::Asked);
    scene.step(Step::Claim(claim_of(&run, "web-1"))).await;
    let begin = Step::Begin { run, owner: replica("web-1"), start: 0, request: "1".into() };
    assert_eq!(scene.verdict(begin).await, Verdict::StopAsked);
}

pub async fn nothing_of_a_paused_job_is_claimed_begun_or_ordered(scene: Scene) {
    for all in [false, true] {
        let n = if all { 10 } else { 0 };
        scene.claim(n + 1, "web-1").await;
        let job = pause(&scene, all, Some("the database moves")).await;
        let pause_of = |job: &JobRecord| if all { job.all_paused.clone() } else { job.paused.clone() };
        let found = pause_of(&job).unwrap();
        assert_eq!((found.by.as_str(), found.reason.as_str()), ("ada@web", "the database moves"));
        assert!(found.at > scene.tick(0).millis());
        assert_eq!(scene.claim(n + 2, "web-1").await, Verdict::Paused);
        assert_eq!(scene.begin(n + 1, "web-1", 0).await, Verdict::Paused);
        let order = order_of(&by_hand(&scene, n + 3, 7), "");
        assert_eq!(scene.verdict(Step::Order(order.clone())).await, Verdict::Paused);
        let despite = Order { despite_pause: true, ..order };
        let run = despite.run.clone();
        assert_eq!(scene.verdict(Step::Order(despite)).await, Verdict::Ordered);
        scene.step(Step::Claim(claim_of(&run, "web-1"))).await;
        let begin = Step::Begin { run: run.clone(), owner: replica("web-1"), start: 0, request: "1".into() };
        assert_eq!(scene.verdict(begin).await, Verdict::Begun);
        let end = Step::Complete { run, owner: replica("web-1"), start: 1, ending: ending(Outcome::Succeeded, "") };
        assert_eq!(scene.verdict(end).await, Verdict::Recorded);
        scene.step(Step::Register(registration(&scene.job))).await;
        assert_eq!(pause_of(&scene.look(1).await.job.unwrap()), Some(found), "whoever registers the job");
        pause(&scene, all, None).await;
        assert_eq!(scene.begin(n + 1, "web-1", 0).await, Verdict::Begun);
        scene.complete(n + 1, "web-1", 1).await;
        assert_eq!(scene.claim(n + 2, "web-1").await, Verdict::Won);
        scene.abandon(n + 2, "web-1", 0).await;
    }
}

pub async fn a_pause_that_is_written_again_stays_as_it_is(scene: Scene) {
    let first = pause(&scene, false, Some("")).await;
    assert_eq!(pause(&scene, false, Some("")).await, first);
    let stale = Step::Pause { job: scene.job.clone(), all: false, pause: None, only_if: Some(7) };
    assert_eq!(scene.step(stale).await.job, Some(first.clone()));
    let only_if = first.paused.map(|pause| pause.at);
    let step = Step::Pause { job: scene.job.clone(), all: false, pause: None, only_if };
    assert_eq!(scene.step(step).await.job.unwrap().paused, None);
}

pub async fn the_mark_that_pauses_all_is_read_by_all(scene: Scene) {
    let mark = Presence { number: 1, ..Presence::pause_of_all("ada@web", "the database moves") };
    scene.store.meet(Some(&mark), &[]).await.unwrap();
    let found = scene.store.meet(None, &[]).await.unwrap();
    let pause = found.members.iter().find_map(|member| member.pause()).unwrap();
    assert_eq!((pause.by.as_str(), pause.reason.as_str()), ("ada@web", "the database moves"));
    scene.store.leave(&Presence::all_paused()).await.unwrap();
    assert!(scene.store.meet(None, &[]).await.unwrap().members.is_empty());
}
