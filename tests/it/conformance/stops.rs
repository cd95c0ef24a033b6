//! A run whose stop is asked for through the store.

use crate::support::scene::Scene;
use crate::support::scene::ending;
use crate::support::scene::replica;
use onecron::job::Decision;
use onecron::job::Expect;
use onecron::job::Outcome;
use onecron::job::RunState;
use onecron::job::Step;
use onecron::job::StopReason;
use onecron::job::Verdict;

pub async fn a_stop_is_told_with_the_next_renewal(scene: Scene) {
    scene.start(1, "web-1").await;
    let before = scene.record(1).await;
    assert_eq!(scene.ask_stop(1, "web-2", StopReason::Replace).await, Verdict::Asked);
    let renewal = Step::Renew { run: scene.run(1), owner: replica("web-1"), start: 1 };
    let answer = scene.step(renewal).await;
    let run = answer.run.unwrap();
    assert_eq!(answer.verdict, Verdict::Renewed);
    assert_eq!((run.stop_asked, run.stop_asked_by.as_str()), (Some(StopReason::Replace), "web-2"));
    assert_eq!(run.number, before.number + 1, "asking is no sign of its life");
    assert_eq!(answer.open[0].stop_asked, Some(StopReason::Replace), "also where it is one of the open ones");
}

pub async fn a_stop_compares_nothing_but_openness(scene: Scene) {
    assert_eq!(scene.ask_stop(1, "web-2", StopReason::Cancel).await, Verdict::Gone);
    scene.start(1, "web-1").await;
    assert_eq!(scene.ask_stop(1, "web-2", StopReason::Replace).await, Verdict::Asked);
    let answer = scene.look(1).await;
    assert_eq!(scene.ask_stop(1, "ada", StopReason::Cancel).await, Verdict::Asked, "again");
    assert_eq!(scene.look(1).await, answer, "the first stays, and nothing changes");
    scene.complete(1, "web-1", 1).await;
    assert_eq!(scene.ask_stop(1, "web-2", StopReason::Replace).await, Verdict::Done);
}

pub async fn a_stopped_run_ends_as_its_owner_says(scene: Scene) {
    scene.start(1, "web-1").await;
    scene.ask_stop(1, "web-2", StopReason::Replace).await;
    scene.claim(2, "web-2").await;
    assert!(matches!(scene.begin(2, "web-2", 0).await, Verdict::Busy { .. }), "it is asked, and not yet gone");
    assert_eq!(scene.end(1, "web-1", (1, ending(Outcome::Replaced, ""))).await, Verdict::Recorded);
    assert_eq!(scene.begin(2, "web-2", 0).await, Verdict::Begun);
    assert_eq!(scene.store.history(&scene.job, 9).await.unwrap()[0].outcome, "replaced");
}

pub async fn a_claim_whose_stop_was_asked_for_is_settled_and_not_begun(scene: Scene) {
    scene.claim(1, "web-1").await;
    scene.ask_stop(1, "ada", StopReason::Cancel).await;
    assert_eq!(scene.begin(1, "web-1", 0).await, Verdict::StopAsked);
    assert_eq!(scene.wait(1, "web-1").await, Verdict::StopAsked);
    let (own, decision) = (Expect::Own(replica("web-1")), Decision::Stopped(StopReason::Cancel));
    assert_eq!(scene.settle(1, own.clone(), decision).await, Verdict::Settled);
    assert_eq!(scene.settle(1, own, decision).await, Verdict::Settled, "sent again");
    let run = scene.record(1).await;
    assert_eq!((run.state, run.outcome, run.start), (RunState::Done, Some(Outcome::Cancelled), 0));
    let nobody = Expect::Absent { after_ms: 0 };
    assert_eq!(scene.settle(2, nobody, decision).await, Verdict::Changed, "nothing is there to be stopped");
}

pub async fn a_lost_run_whose_stop_was_asked_for_is_not_started_again(scene: Scene) {
    scene.start_rerunnable(1, "web-1").await;
    scene.ask_stop(1, "web-2", StopReason::Replace).await;
    scene.lose(1).await;
    let run = scene.record(1).await;
    assert_eq!(run.outcome, Some(Outcome::Lost), "it is decided: nobody will start it again");
    assert_eq!(scene.take_over(1, "web-2", run.seen()).await, Verdict::Held);
    assert_eq!(scene.settle(1, Expect::Unchanged(run.seen()), Decision::Drained).await, Verdict::Settled);
    // The same where it was lost first.
    scene.start_rerunnable(2, "web-1").await;
    scene.lose(2).await;
    scene.ask_stop(2, "web-2", StopReason::Replace).await;
    let run = scene.record(2).await;
    assert_eq!(run.outcome, None);
    assert_eq!(scene.take_over(2, "web-2", run.seen()).await, Verdict::Held);
    assert_eq!(scene.settle(2, Expect::Unchanged(run.seen()), Decision::Drained).await, Verdict::Settled);
    assert_eq!(scene.record(2).await.outcome, Some(Outcome::Lost));
}

pub async fn a_lost_run_that_was_taken_over_is_stopped_before_its_next_start(scene: Scene) {
    scene.start_rerunnable(1, "web-1").await;
    scene.lose(1).await;
    let seen = scene.seen(1).await;
    scene.take_over(1, "web-2", seen).await;
    scene.ask_stop(1, "web-3", StopReason::Replace).await;
    assert_eq!(scene.begin(1, "web-2", 1).await, Verdict::StopAsked);
    let (own, decision) = (Expect::Own(replica("web-2")), Decision::Stopped(StopReason::Replace));
    assert_eq!(scene.settle(1, own, decision).await, Verdict::Settled);
    assert_eq!(scene.record(1).await.outcome, Some(Outcome::Replaced));
    scene.start(2, "web-3").await;
}

pub async fn what_somebody_asked_to_stop_is_no_failure(scene: Scene) {
    scene.run_through(1, Outcome::Failed, "").await;
    for (n, outcome) in [(2, Outcome::Replaced), (3, Outcome::Cancelled)] {
        scene.run_through(n, outcome, "tail").await;
        let job = scene.look(n).await.job.unwrap();
        assert_eq!((job.failures, job.last_success), (1, None), "neither is a success");
        assert_eq!(scene.store.history(&scene.job, 1).await.unwrap()[0].output_tail, "tail");
    }
}
