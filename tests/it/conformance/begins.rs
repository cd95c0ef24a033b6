//! The fence between claim and start.

use crate::support::scene::Scene;
use crate::support::scene::ending;
use onecron::job::Outcome;
use onecron::job::RunState;
use onecron::job::Verdict;

pub async fn a_begin_counts_the_start_and_notes_the_token(scene: Scene) {
    scene.start(1, "web-1").await;
    let answer = scene.look(1).await;
    let run = answer.run.unwrap();
    assert_eq!((run.state, run.start, run.number), (RunState::Begun, 1, 2));
    assert!(run.begun_at >= run.claimed_at && run.renewed_at == run.begun_at);
    assert_eq!(answer.job.unwrap().last_begun, scene.tick(1).seconds());
}

pub async fn a_resent_begin_begins_once(scene: Scene) {
    scene.start(1, "web-1").await;
    let before = scene.look(1).await;
    assert_eq!(scene.begin(1, "web-1", 0).await, Verdict::Begun);
    assert_eq!(scene.look(1).await, before);
}

pub async fn another_request_of_the_owner_is_its_next_attempt(scene: Scene) {
    scene.start(1, "web-1").await;
    assert_eq!(scene.begin_as(1, "web-1", (0, "other")).await, Verdict::Fenced, "of a start that is past");
    assert_eq!(scene.begin(1, "web-1", 1).await, Verdict::Begun);
    assert_eq!(scene.record(1).await.start, 2);
    assert_eq!(scene.begin(1, "web-1", 1).await, Verdict::Begun, "sent again");
    assert_eq!(scene.record(1).await.start, 2);
    assert_eq!(scene.begin(1, "web-1", 3).await, Verdict::Fenced, "of a start that never was");
}

pub async fn an_owner_that_was_taken_over_cannot_begin(scene: Scene) {
    scene.claim(1, "web-1").await;
    let seen = scene.seen(1).await;
    scene.take_over(1, "web-2", seen).await;
    assert_eq!(scene.begin(1, "web-1", 0).await, Verdict::Fenced);
    assert_eq!(scene.begin(1, "web-2", 0).await, Verdict::Begun);
    assert_eq!(scene.begin(1, "web-1", 0).await, Verdict::Fenced);
    assert_eq!(scene.record(1).await.start, 1);
}

pub async fn a_begin_never_makes_a_record(scene: Scene) {
    assert_eq!(scene.begin(1, "web-1", 0).await, Verdict::Gone);
    assert_eq!(scene.look(1).await.run, None);
}

pub async fn a_closed_run_cannot_begin(scene: Scene) {
    scene.run_through(1, Outcome::Failed, "").await;
    assert_eq!(scene.begin(1, "web-1", 1).await, Verdict::Done);
    assert_eq!(scene.begin(1, "web-1", 0).await, Verdict::Done);
}

pub async fn a_given_back_run_cannot_begin(scene: Scene) {
    scene.claim(1, "web-1").await;
    scene.abandon(1, "web-1", 0).await;
    assert_eq!(scene.begin(1, "web-1", 0).await, Verdict::Fenced);
}

pub async fn a_lost_run_cannot_begin(scene: Scene) {
    scene.start_rerunnable(1, "web-1").await;
    scene.lose(1).await;
    assert_eq!(scene.begin(1, "web-1", 1).await, Verdict::Fenced);
}

pub async fn a_tick_is_superseded_once_a_later_one_began(scene: Scene) {
    scene.claim(1, "web-1").await;
    scene.run_through(2, Outcome::Succeeded, "").await;
    assert_eq!(scene.begin(1, "web-1", 0).await, Verdict::Superseded);
    assert_eq!(scene.begin(1, "web-1", 0).await, Verdict::Superseded, "sent again");
    let answer = scene.look(1).await;
    assert_eq!(answer.run.unwrap().state, RunState::Claimed);
    assert_eq!(answer.job.unwrap().last_begun, scene.tick(2).seconds());
}

/// Its first begin took the slot, giving it back freed it: so a later tick could begin, and its token is the higher one.
pub async fn an_attempt_given_back_is_superseded_once_a_later_tick_began(scene: Scene) {
    scene.start(1, "web-1").await;
    scene.abandon(1, "web-1", 1).await;
    scene.start(2, "web-2").await;
    scene.complete(2, "web-2", 1).await;
    assert_eq!(scene.claim(1, "web-3").await, Verdict::Won);
    assert_eq!(scene.begin(1, "web-3", 1).await, Verdict::Superseded);
}

pub async fn a_retry_that_holds_its_slot_is_not_superseded(scene: Scene) {
    scene.start(1, "web-1").await;
    scene.claim(2, "web-2").await;
    assert!(matches!(scene.begin(2, "web-2", 0).await, Verdict::Busy { .. }));
    assert_eq!(scene.begin(1, "web-1", 1).await, Verdict::Begun);
}

pub async fn a_retry_beside_later_runs_is_not_superseded_where_runs_may_overlap(scene: Scene) {
    for (n, who) in [(1, "web-1"), (2, "web-2")] {
        assert_eq!(scene.claim_with(n, who, |claim| claim.exclusive = false).await, Verdict::Won);
        assert_eq!(scene.begin(n, who, 0).await, Verdict::Begun);
    }
    assert_eq!(scene.begin(1, "web-1", 1).await, Verdict::Begun);
    assert_eq!(scene.end(1, "web-1", (2, ending(Outcome::Succeeded, ""))).await, Verdict::Recorded);
}
