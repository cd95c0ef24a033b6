//! Signs of life, and ends.

use crate::support::scene::Scene;
use crate::support::scene::ending;
use crate::support::scene::replica;
use onecron::job::Decision;
use onecron::job::Ending;
use onecron::job::Expect;
use onecron::job::Outcome;
use onecron::job::RunState;
use onecron::job::SkipReason;
use onecron::job::Verdict;

pub async fn a_renewal_raises_the_number(scene: Scene) {
    scene.start(1, "web-1").await;
    let before = scene.record(1).await;
    assert_eq!(scene.renew(1, "web-1", 1).await, Verdict::Renewed);
    let after = scene.record(1).await;
    assert_eq!(after.number, before.number + 1);
    assert!(after.renewed_at >= before.renewed_at);
    assert_eq!(scene.renew(1, "web-1", 1).await, Verdict::Renewed);
    assert_eq!(scene.record(1).await.number, before.number + 2);
}

pub async fn a_waiting_claim_can_be_renewed(scene: Scene) {
    scene.claim(1, "web-1").await;
    assert_eq!(scene.renew(1, "web-1", 0).await, Verdict::Renewed);
    assert_eq!(scene.record(1).await.number, 2);
}

pub async fn only_the_owner_at_its_start_renews(scene: Scene) {
    scene.start(1, "web-1").await;
    let before = scene.look(1).await;
    for (who, start) in [("web-2", 1), ("web-1", 0), ("web-1", 2)] {
        assert_eq!(scene.renew(1, who, start).await, Verdict::Fenced);
    }
    assert_eq!(scene.look(1).await, before);
}

pub async fn a_renewal_tells_what_became_of_the_run(scene: Scene) {
    assert_eq!(scene.renew(1, "web-1", 0).await, Verdict::Gone);
    scene.claim(1, "web-1").await;
    scene.abandon(1, "web-1", 0).await;
    assert_eq!(scene.renew(1, "web-1", 0).await, Verdict::Fenced);
    scene.start(2, "web-1").await;
    scene.lose(2).await;
    assert_eq!(scene.renew(2, "web-1", 1).await, Verdict::Lost);
    assert_eq!(scene.renew(2, "web-2", 1).await, Verdict::Fenced);
    scene.complete(2, "web-1", 1).await;
    assert_eq!(scene.renew(2, "web-1", 1).await, Verdict::Done);
}

pub async fn an_end_is_recorded_with_all_that_is_known(scene: Scene) {
    scene.start(1, "web-1").await;
    let ending = Ending {
        outcome: Outcome::TimedOut,
        exit_code: None,
        signal: Some(9),
        http_status: Some(503),
        duration_ms: 3_600_000_123,
        error: "stopped after 1h".into(),
        output_tail: "last line".into(),
    };
    assert_eq!(scene.end(1, "web-1", (1, ending)).await, Verdict::Recorded);
    let answer = scene.look(1).await;
    let run = answer.run.unwrap();
    assert_eq!((run.state, run.outcome, run.late_outcome), (RunState::Done, Some(Outcome::TimedOut), None));
    assert_eq!((run.exit_code, run.signal, run.duration_ms), (None, Some(9), 3_600_000_123));
    assert_eq!(run.http_status, Some(503));
    assert_eq!(run.error, "stopped after 1h");
    assert!(run.ended_at >= run.begun_at);
    assert_eq!((answer.open, answer.job.unwrap().open), (vec![], vec![]));
    let history = scene.store.history(&scene.job, 10).await.unwrap();
    assert_eq!(history.len(), 1);
    assert_eq!(history[0], onecron::job::HistoryEntry::of(&run, "last line"));
}

pub async fn a_resent_end_is_recorded_once(scene: Scene) {
    scene.run_through(1, Outcome::Failed, "").await;
    let before = scene.look(1).await;
    for _ in 0..3 {
        assert_eq!(scene.end(1, "web-1", (1, ending(Outcome::Failed, ""))).await, Verdict::Recorded);
    }
    assert_eq!(scene.look(1).await, before);
    assert_eq!(before.job.unwrap().failures, 1);
    assert_eq!(scene.store.history(&scene.job, 10).await.unwrap().len(), 1);
}

pub async fn nothing_that_did_not_begin_can_end(scene: Scene) {
    assert_eq!(scene.complete(1, "web-1", 0).await, Verdict::Gone);
    scene.claim(1, "web-1").await;
    assert_eq!(scene.complete(1, "web-1", 0).await, Verdict::Fenced);
    scene.abandon(1, "web-1", 0).await;
    assert_eq!(scene.complete(1, "web-1", 0).await, Verdict::Fenced);
}

pub async fn only_the_owner_at_its_start_ends_a_run(scene: Scene) {
    scene.start(1, "web-1").await;
    scene.begin(1, "web-1", 1).await;
    let before = scene.look(1).await;
    for (who, start) in [("web-2", 2), ("web-1", 1), ("web-1", 3)] {
        assert_eq!(scene.complete(1, who, start).await, Verdict::Fenced);
    }
    assert_eq!(scene.look(1).await, before);
    assert_eq!(scene.complete(1, "web-1", 2).await, Verdict::Recorded);
    assert_eq!(scene.complete(1, "web-2", 2).await, Verdict::Fenced);
}

pub async fn an_end_after_lost_is_kept_beside_it(scene: Scene) {
    scene.start(1, "web-1").await;
    scene.lose(1).await;
    assert_eq!(scene.complete(1, "web-1", 1).await, Verdict::RecordedLate);
    let before = scene.look(1).await;
    assert_eq!(scene.complete(1, "web-1", 1).await, Verdict::RecordedLate, "sent again");
    assert_eq!(scene.look(1).await, before);
    let (run, job) = (before.run.unwrap(), before.job.unwrap());
    assert_eq!((run.outcome, run.late_outcome), (Some(Outcome::Lost), Some(Outcome::Succeeded)));
    assert_eq!((run.state, job.failures, job.last_success), (RunState::Done, 1, None));
    let history = scene.store.history(&scene.job, 10).await.unwrap();
    let words: Vec<_> = history.iter().map(|e| (e.outcome.as_str(), e.late_outcome.as_str())).collect();
    assert_eq!(words, [("lost", "succeeded")]);
}

pub async fn an_end_after_drained_is_kept_beside_it(scene: Scene) {
    scene.start_rerunnable(1, "web-1").await;
    scene.lose(1).await;
    let seen = scene.seen(1).await;
    scene.settle(1, Expect::Unchanged(seen), Decision::Drained).await;
    scene.run_through(2, Outcome::Succeeded, "").await;
    assert_eq!(scene.end(1, "web-1", (1, ending(Outcome::Failed, ""))).await, Verdict::RecordedLate);
    assert_eq!(scene.record(1).await.late_outcome, Some(Outcome::Failed));
    let history = scene.store.history(&scene.job, 10).await.unwrap();
    let words: Vec<_> = history.iter().map(|e| (e.outcome.as_str(), e.late_outcome.as_str())).collect();
    assert_eq!(words, [("succeeded", ""), ("lost", "failed")]);
}

pub async fn the_owners_account_of_a_lost_run_makes_a_rerun_needless(scene: Scene) {
    scene.start_rerunnable(1, "web-1").await;
    scene.lose(1).await;
    let seen = scene.seen(1).await;
    assert_eq!(scene.complete(1, "web-1", 1).await, Verdict::RecordedLate);
    assert_eq!(scene.take_over(1, "web-2", seen).await, Verdict::Done);
    let history = scene.store.history(&scene.job, 10).await.unwrap();
    let words: Vec<_> = history.iter().map(|e| (e.outcome.as_str(), e.late_outcome.as_str())).collect();
    assert_eq!(words, [("lost", "succeeded")]);
    assert_eq!(scene.look(1).await.job.unwrap().failures, 1);
}

/// Its lease was lost, or its replica was asked to end: that is not the job's own end.
pub async fn an_interrupted_run_that_may_run_again_is_given_back(scene: Scene) {
    let interrupted = |start| (start, ending(Outcome::Interrupted, ""));
    scene.start_rerunnable(1, "web-1").await;
    for _ in ["sent", "sent again"] {
        assert_eq!(scene.end(1, "web-1", interrupted(1)).await, Verdict::Recorded);
        assert_eq!(scene.record(1).await.state, RunState::Abandoned);
    }
    let seen = scene.seen(1).await;
    assert_eq!(scene.take_over(1, "web-2", seen).await, Verdict::Won);
    assert_eq!(scene.begin(1, "web-2", 1).await, Verdict::Begun);
    scene.lose(1).await;
    assert_eq!(scene.end(1, "web-2", interrupted(2)).await, Verdict::Recorded, "also when it was called lost");
    let seen = scene.seen(1).await;
    assert_eq!(seen.state, RunState::Abandoned);
    assert_eq!(scene.take_over(1, "web-3", seen).await, Verdict::Won);
    assert_eq!(scene.begin(1, "web-3", 2).await, Verdict::Begun);
    assert_eq!(scene.end(1, "web-3", interrupted(3)).await, Verdict::Recorded);
    assert_eq!(scene.record(1).await.outcome, Some(Outcome::Interrupted), "the third start was the last");
    assert_eq!(scene.store.history(&scene.job, 9).await.unwrap().len(), 1);
}

pub async fn an_end_after_a_takeover_is_fenced(scene: Scene) {
    scene.start_rerunnable(1, "web-1").await;
    scene.lose(1).await;
    let seen = scene.seen(1).await;
    scene.take_over(1, "web-2", seen).await;
    let before = scene.look(1).await;
    assert_eq!(scene.complete(1, "web-1", 1).await, Verdict::Fenced);
    assert_eq!(scene.look(1).await, before);
    scene.begin(1, "web-2", 1).await;
    assert_eq!(scene.complete(1, "web-2", 2).await, Verdict::Recorded);
}

/// It ran, was lost, and its next start was given back: that a later tick has begun does not mean that it did not run.
pub async fn a_rerun_that_is_left_alone_was_lost(scene: Scene) {
    scene.start_rerunnable(1, "web-1").await;
    scene.lose(1).await;
    let seen = scene.seen(1).await;
    scene.take_over(1, "web-2", seen).await;
    scene.begin(1, "web-2", 1).await;
    scene.abandon(1, "web-2", 2).await;
    scene.start(2, "web-1").await;
    scene.claim(1, "web-2").await;
    assert_eq!(scene.begin(1, "web-2", 2).await, Verdict::Superseded);
    let (own, decision) = (Expect::Own(replica("web-2")), Decision::Skipped(SkipReason::Superseded));
    assert_eq!(scene.settle(1, own.clone(), decision).await, Verdict::Settled);
    assert_eq!(scene.settle(1, own, decision).await, Verdict::Settled, "sent again");
    let run = scene.record(1).await;
    assert_eq!((run.outcome, run.reason.as_str()), (Some(Outcome::Lost), "superseded"));
}

pub async fn a_run_is_given_back_by_its_owner_only(scene: Scene) {
    assert_eq!(scene.abandon(1, "web-1", 0).await, Verdict::Gone);
    scene.start(1, "web-1").await;
    let before = scene.look(1).await;
    for (who, start) in [("web-2", 1), ("web-1", 0)] {
        assert_eq!(scene.abandon(1, who, start).await, Verdict::Fenced);
    }
    assert_eq!(scene.look(1).await, before);
    scene.lose(1).await;
    assert_eq!(scene.abandon(1, "web-1", 1).await, Verdict::Fenced, "who was called lost says how it ended");
    scene.complete(1, "web-1", 1).await;
    assert_eq!(scene.abandon(1, "web-1", 1).await, Verdict::Done);
}

pub async fn a_resent_giving_back_is_released_again(scene: Scene) {
    scene.start(1, "web-1").await;
    scene.abandon(1, "web-1", 1).await;
    let before = scene.look(1).await;
    assert_eq!(scene.abandon(1, "web-1", 1).await, Verdict::Released);
    assert_eq!(scene.look(1).await, before);
    scene.claim(1, "web-2").await;
    assert_eq!(scene.abandon(1, "web-1", 1).await, Verdict::Fenced);
}

pub async fn failures_are_counted_until_a_success(scene: Scene) {
    let failures =
        [Outcome::Failed, Outcome::TimedOut, Outcome::Interrupted, Outcome::NotStarted].into_iter().zip(1_u32..);
    for (outcome, count) in failures {
        scene.run_through(i64::from(count), outcome, "").await;
        assert_eq!(scene.look(1).await.job.unwrap().failures, count);
    }
    scene.run_through(5, Outcome::Succeeded, "").await;
    let job = scene.look(1).await.job.unwrap();
    assert_eq!((job.failures, job.last_success), (0, Some(scene.tick(5))));
}

pub async fn an_earlier_success_never_replaces_a_later_one(scene: Scene) {
    for n in [1, 2] {
        scene.claim_with(n, "web-1", |claim| claim.exclusive = false).await;
        scene.begin(n, "web-1", 0).await;
    }
    scene.complete(2, "web-1", 1).await;
    scene.complete(1, "web-1", 1).await;
    assert_eq!(scene.look(1).await.job.unwrap().last_success, Some(scene.tick(2)));
}
