//! Runs of one job that must not overlap.

use crate::support::scene::Scene;
use crate::support::scene::registration;
use crate::support::scene::replica;
use crate::support::wait_until;
use onecron::job::Claim;
use onecron::job::Decision;
use onecron::job::Expect;
use onecron::job::JobName;
use onecron::job::Outcome;
use onecron::job::RunKey;
use onecron::job::SkipReason;
use onecron::job::Step;
use onecron::job::StopReason;
use onecron::job::Tick;
use onecron::job::Verdict;
use onecron::job::WhenBusy;

async fn slot(scene: &Scene) -> Option<Tick> {
    scene.look(1).await.job.unwrap().slot
}

pub async fn a_begin_takes_the_slot_and_its_end_frees_it(scene: Scene) {
    scene.claim(1, "web-1").await;
    assert_eq!(slot(&scene).await, None, "a claim takes none");
    scene.begin(1, "web-1", 0).await;
    assert_eq!(slot(&scene).await, Some(scene.tick(1)));
    scene.complete(1, "web-1", 1).await;
    assert_eq!(slot(&scene).await, None);
}

pub async fn a_busy_slot_names_its_occupant(scene: Scene) {
    scene.start(1, "web-1").await;
    scene.claim(2, "web-2").await;
    let wanted = Verdict::Busy { occupant: scene.tick(1), renewed: true };
    assert_eq!(scene.begin(2, "web-2", 0).await, wanted);
    assert_eq!(scene.begin(2, "web-2", 0).await, wanted, "sent again");
    scene.complete(1, "web-1", 1).await;
    assert_eq!(scene.begin(2, "web-2", 0).await, Verdict::Begun);
}

/// An occupant that gave no sign of life since our tick may be dead: that is no overlap, we wait.
pub async fn a_busy_slot_tells_whether_its_occupant_lived_after_the_tick(scene: Scene) {
    scene.start(1, "web-1").await;
    let next = scene.store.server_time().await.unwrap().timestamp() + 1;
    let tick = Tick::from_seconds(next);
    let store = &scene.store;
    let has_come = || async { store.server_time().await.unwrap().timestamp() >= next };
    wait_until("the next second", has_come).await;
    let (run, owner) = (RunKey::new(scene.job.clone(), tick), replica("web-2"));
    let mut claim = scene.claim_of(1, "web-2");
    claim.run = run.clone();
    assert_eq!(scene.verdict(Step::Claim(claim)).await, Verdict::Won);
    let begin = Step::Begin { run, owner, start: 0, request: "1".into() };
    let busy = |renewed| Verdict::Busy { occupant: scene.tick(1), renewed };
    assert_eq!(scene.verdict(begin.clone()).await, busy(false));
    scene.renew(1, "web-1", 1).await;
    assert_eq!(scene.verdict(begin).await, busy(true));
}

pub async fn a_busy_slot_tells_whether_its_occupant_lived_after_the_run_was_due(scene: Scene) {
    scene.start(1, "web-1").await;
    let due = scene.record(1).await.renewed_at + 1;
    let delay_ms = due - scene.tick(2).millis();
    assert_eq!(scene.claim_with(2, "web-2", |claim| claim.delay_ms = delay_ms).await, Verdict::Won);
    let busy = |renewed| Verdict::Busy { occupant: scene.tick(1), renewed };
    assert_eq!(scene.begin(2, "web-2", 0).await, busy(false), "it lived after the tick, but before this");
    let is_due = || async { scene.store.server_time().await.unwrap().timestamp_millis() >= due };
    wait_until("the due instant", is_due).await;
    scene.renew(1, "web-1", 1).await;
    assert_eq!(scene.begin(2, "web-2", 0).await, busy(true));
}

pub async fn asking_for_a_busy_slot_is_a_sign_of_life(scene: Scene) {
    scene.start(1, "web-1").await;
    scene.claim(2, "web-2").await;
    let seen = scene.seen(2).await;
    scene.begin(2, "web-2", 0).await;
    assert_eq!(scene.take_over(2, "web-3", seen).await, Verdict::Held);
}

pub async fn runs_that_may_overlap_leave_the_slot_alone(scene: Scene) {
    for n in [1, 2] {
        scene.claim_with(n, "web-1", |claim| claim.exclusive = false).await;
        assert_eq!(scene.begin(n, "web-1", 0).await, Verdict::Begun);
    }
    assert_eq!(slot(&scene).await, None);
}

pub async fn giving_back_frees_the_slot(scene: Scene) {
    scene.start(1, "web-1").await;
    assert_eq!(scene.abandon(1, "web-1", 1).await, Verdict::Released);
    assert_eq!(slot(&scene).await, None);
    scene.start(2, "web-2").await;
}

pub async fn the_slot_of_a_lost_run_drains_until_its_owner_says_that_it_ended(scene: Scene) {
    scene.start(1, "web-1").await;
    scene.lose(1).await;
    scene.claim(2, "web-2").await;
    assert!(matches!(scene.begin(2, "web-2", 0).await, Verdict::Busy { .. }));
    assert_eq!(scene.complete(1, "web-1", 1).await, Verdict::RecordedLate);
    assert_eq!(scene.begin(2, "web-2", 0).await, Verdict::Begun);
}

pub async fn the_slot_of_a_lost_run_is_freed_by_who_saw_it_drained(scene: Scene) {
    scene.start(1, "web-1").await;
    scene.lose(1).await;
    scene.claim(2, "web-2").await;
    let seen = scene.seen(1).await;
    assert_eq!(scene.settle(1, Expect::Unchanged(seen), Decision::Drained).await, Verdict::Settled);
    assert_eq!(scene.begin(2, "web-2", 0).await, Verdict::Begun);
}

pub async fn a_stale_end_frees_nothing(scene: Scene) {
    scene.start_rerunnable(1, "web-1").await;
    scene.lose(1).await;
    let seen = scene.seen(1).await;
    scene.take_over(1, "web-2", seen).await;
    scene.begin(1, "web-2", 1).await;
    assert_eq!(scene.complete(1, "web-1", 1).await, Verdict::Fenced);
    assert_eq!(scene.abandon(1, "web-1", 1).await, Verdict::Fenced);
    assert_eq!(slot(&scene).await, Some(scene.tick(1)));
    // A run that was lost and drained has no slot any more: what its owner says later must not free the next one's.
    scene.complete(1, "web-2", 2).await;
    scene.start(2, "web-1").await;
    scene.lose(2).await;
    let seen = scene.seen(2).await;
    scene.settle(2, Expect::Unchanged(seen), Decision::Drained).await;
    scene.start(3, "web-3").await;
    assert_eq!(scene.complete(2, "web-1", 1).await, Verdict::RecordedLate);
    assert_eq!(slot(&scene).await, Some(scene.tick(3)));
}

pub async fn a_run_that_is_taken_over_keeps_its_slot(scene: Scene) {
    scene.start_rerunnable(1, "web-1").await;
    scene.lose(1).await;
    let seen = scene.seen(1).await;
    scene.take_over(1, "web-2", seen).await;
    scene.claim(2, "web-3").await;
    assert!(matches!(scene.begin(2, "web-3", 0).await, Verdict::Busy { .. }), "between takeover and begin, too");
    assert_eq!(scene.begin(1, "web-2", 1).await, Verdict::Begun);
}

pub async fn a_slot_is_never_held_by_two(scene: Scene) {
    // The slot belongs to a job: another job's run does not need it.
    let other = JobName::new("other").unwrap();
    scene.step(Step::Register(registration(&other))).await;
    scene.start(1, "web-1").await;
    let run = RunKey::new(other, scene.tick(1));
    let mut claim = scene.claim_of(1, "web-1");
    claim.run = run.clone();
    scene.step(Step::Claim(claim)).await;
    let begin = Step::Begin { run, owner: replica("web-1"), start: 0, request: "1".into() };
    assert_eq!(scene.verdict(begin).await, Verdict::Begun);
    for n in 2..6 {
        scene.claim(n, "web-2").await;
        assert!(matches!(scene.begin(n, "web-2", 0).await, Verdict::Busy { .. }));
    }
    scene.complete(1, "web-1", 1).await;
    scene.run_through(9, Outcome::Succeeded, "").await;
}

pub async fn asking_takes_nothing(scene: Scene) {
    scene.claim(1, "web-1").await;
    let before = scene.record(1).await;
    assert_eq!(scene.wait(1, "web-1").await, Verdict::Free);
    let after = scene.record(1).await;
    assert_eq!((after.state, after.start, after.number), (before.state, 0, before.number + 1), "it shows life");
    assert_eq!(slot(&scene).await, None);
    assert_eq!(scene.wait(1, "web-2").await, Verdict::Fenced);
    assert_eq!(scene.begin(1, "web-1", 0).await, Verdict::Begun);
    scene.claim(2, "web-2").await;
    assert!(matches!(scene.wait(2, "web-2").await, Verdict::Busy { .. }));
}

async fn waits(scene: &Scene, n: i64) -> bool {
    scene.record(n).await.is_waiting()
}

pub async fn one_run_waits_in_line(scene: Scene) {
    scene.start(1, "web-1").await;
    for (n, who) in [(2, "web-2"), (3, "web-3"), (4, "web-1")] {
        scene.claim_to(WhenBusy::Queue, n, who).await;
        assert!(matches!(scene.begin(n, who, 0).await, Verdict::Busy { .. }));
        assert_eq!(waits(&scene, n).await, n == 2, "{n}");
    }
    assert!(matches!(scene.wait(3, "web-3").await, Verdict::Busy { .. }));
    assert!(!waits(&scene, 3).await, "asking again does not move it up");
    let own = Expect::Own(replica("web-2"));
    assert_eq!(scene.settle(2, own, Decision::Skipped(SkipReason::Overlap)).await, Verdict::Settled);
    scene.wait(3, "web-3").await;
    assert!(waits(&scene, 3).await, "the line is empty again");
}

pub async fn who_waits_in_line_is_decided_by_who_asked_first(scene: Scene) {
    scene.start(1, "web-1").await;
    scene.claim_to(WhenBusy::Queue, 2, "web-2").await;
    scene.claim_to(WhenBusy::Queue, 3, "web-3").await;
    scene.wait(3, "web-3").await;
    scene.wait(2, "web-2").await;
    assert_eq!((waits(&scene, 2).await, waits(&scene, 3).await), (false, true));
    scene.complete(1, "web-1", 1).await;
    assert_eq!(scene.begin(3, "web-3", 0).await, Verdict::Begun);
    assert!(!waits(&scene, 3).await);
}

/// Between the end of a run and the next look of the one that waits, a tick comes that finds the slot free.
pub async fn a_later_tick_does_not_jump_the_line(scene: Scene) {
    scene.start(1, "web-1").await;
    scene.claim_to(WhenBusy::Queue, 2, "web-2").await;
    scene.wait(2, "web-2").await;
    scene.complete(1, "web-1", 1).await;
    scene.claim_to(WhenBusy::Queue, 3, "web-3").await;
    assert_eq!(scene.begin(3, "web-3", 0).await, Verdict::Busy { occupant: scene.tick(2), renewed: false });
    assert!(!waits(&scene, 3).await, "and it does not wait: one does");
    assert_eq!(scene.begin(2, "web-2", 0).await, Verdict::Begun);
    // One that is asked to stop is in nobody's way, and one that replaces goes first.
    scene.claim_to(WhenBusy::Queue, 4, "web-2").await;
    scene.wait(4, "web-2").await;
    scene.complete(2, "web-2", 1).await;
    scene.claim_to(WhenBusy::Replace, 5, "web-3").await;
    assert_eq!(scene.wait(5, "web-3").await, Verdict::Free);
    scene.claim_to(WhenBusy::Queue, 6, "web-1").await;
    assert!(matches!(scene.wait(6, "web-1").await, Verdict::Busy { .. }));
    scene.ask_stop(4, "ada", StopReason::Cancel).await;
    assert_eq!(scene.begin(6, "web-1", 0).await, Verdict::Begun);
}

pub async fn of_those_that_replace_the_newest_wins(scene: Scene) {
    scene.start(1, "web-1").await;
    for (n, who) in [(2, "web-2"), (3, "web-3")] {
        scene.claim_to(WhenBusy::Replace, n, who).await;
        assert!(matches!(scene.begin(n, who, 0).await, Verdict::Busy { .. }));
    }
    assert_eq!(scene.wait(2, "web-2").await, Verdict::Superseded, "while the slot is taken");
    scene.complete(1, "web-1", 1).await;
    assert_eq!(scene.begin(2, "web-2", 0).await, Verdict::Superseded, "and when it is free");
    // One that was stopped before it began is in nobody's way.
    scene.ask_stop(3, "ada", StopReason::Cancel).await;
    assert_eq!(scene.begin(2, "web-2", 0).await, Verdict::Begun);
}

pub async fn a_waiting_run_that_was_given_back_still_waits(scene: Scene) {
    scene.start(1, "web-1").await;
    scene.claim_to(WhenBusy::Queue, 2, "web-2").await;
    scene.wait(2, "web-2").await;
    scene.abandon(2, "web-2", 0).await;
    scene.claim_to(WhenBusy::Queue, 3, "web-3").await;
    scene.wait(3, "web-3").await;
    assert_eq!((waits(&scene, 2).await, waits(&scene, 3).await), (true, false));
    scene.claim_to(WhenBusy::Queue, 2, "web-3").await;
    assert!(waits(&scene, 2).await, "whoever has it now");
}

pub async fn a_run_that_began_under_allow_is_in_the_way_until_it_is_over(scene: Scene) {
    for n in [1, 2] {
        scene.claim_with(n, "web-1", |claim| claim.exclusive = false).await;
        assert_eq!(scene.begin(n, "web-1", 0).await, Verdict::Begun);
    }
    scene.claim(3, "web-2").await;
    let busy = |n| Verdict::Busy { occupant: scene.tick(n), renewed: true };
    assert_eq!(scene.begin(3, "web-2", 0).await, busy(1));
    scene.complete(1, "web-1", 1).await;
    assert_eq!(scene.begin(3, "web-2", 0).await, busy(2));
    scene.lose(2).await;
    assert_eq!(scene.begin(3, "web-2", 0).await, busy(2), "it may be going until it is drained");
    let seen = scene.seen(2).await;
    scene.settle(2, Expect::Unchanged(seen), Decision::Drained).await;
    assert_eq!(scene.begin(3, "web-2", 0).await, Verdict::Begun);
}

pub async fn a_run_that_began_under_forbid_keeps_its_slot_when_the_table_says_allow(scene: Scene) {
    scene.start(1, "web-1").await;
    scene.claim_with(2, "web-2", |claim| claim.exclusive = false).await;
    assert_eq!(scene.begin(2, "web-2", 0).await, Verdict::Begun, "by its own definition it may run beside");
    assert_eq!(slot(&scene).await, Some(scene.tick(1)));
    scene.claim(3, "web-3").await;
    let busy = |n| Verdict::Busy { occupant: scene.tick(n), renewed: true };
    assert_eq!(scene.begin(3, "web-3", 0).await, busy(1));
    scene.complete(1, "web-1", 1).await;
    assert_eq!(scene.begin(3, "web-3", 0).await, busy(2));
    scene.complete(2, "web-2", 1).await;
    assert_eq!(scene.begin(3, "web-3", 0).await, Verdict::Begun);
}

pub async fn a_takeover_by_another_table_keeps_the_slot(scene: Scene) {
    scene.start_rerunnable(1, "web-1").await;
    scene.lose(1).await;
    let takeover = Some(scene.seen(1).await);
    let allow = |claim: &mut Claim| (claim.exclusive, claim.takeover) = (false, takeover);
    assert_eq!(scene.claim_with(1, "web-2", allow).await, Verdict::Won);
    assert!(scene.record(1).await.exclusive);
    // What has not begun goes by the table of who has it.
    scene.claim(2, "web-1").await;
    scene.abandon(2, "web-1", 0).await;
    assert_eq!(scene.claim_with(2, "web-2", |claim| claim.exclusive = false).await, Verdict::Won);
    assert!(!scene.record(2).await.exclusive);
}

pub async fn a_retry_that_holds_its_slot_does_not_wait_for_a_run_beside_it(scene: Scene) {
    scene.start(1, "web-1").await;
    scene.claim_with(2, "web-2", |claim| claim.exclusive = false).await;
    scene.begin(2, "web-2", 0).await;
    assert_eq!(scene.begin(1, "web-1", 1).await, Verdict::Begun);
}
