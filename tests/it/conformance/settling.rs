//! Ticks that are decided without being run.

use super::claims::other_views;
use crate::support::scene::HOUR_MS;
use crate::support::scene::Scene;
use crate::support::scene::replica;
use onecron::job::Answer;
use onecron::job::Decision;
use onecron::job::Expect;
use onecron::job::MissedReason;
use onecron::job::Outcome;
use onecron::job::RunState;
use onecron::job::Seen;
use onecron::job::SkipReason;
use onecron::job::Step;
use onecron::job::Verdict;

const MISSED: Decision = Decision::Missed(MissedReason::StoreUnavailable);
const SKIPPED: Decision = Decision::Skipped(SkipReason::Overlap);
const ABSENT: Expect = Expect::Absent { after_ms: 0 };

pub async fn an_absent_tick_is_settled_once(scene: Scene) {
    assert_eq!(scene.settle(1, ABSENT, MISSED).await, Verdict::Settled);
    let before = scene.look(1).await;
    assert_eq!(scene.settle(1, ABSENT, MISSED).await, Verdict::Settled, "sent again by the same replica");
    assert_eq!(scene.settle_as(1, "web-2", (ABSENT, MISSED)).await, Verdict::Changed, "decided by another one");
    assert_eq!(scene.look(1).await, before);
    let run = before.run.unwrap();
    assert_eq!((run.state, run.outcome, run.start), (RunState::Done, Some(Outcome::Missed), 0));
    assert_eq!((run.reason.as_str(), run.owner.clone()), ("store_unavailable", replica("auditor")));
    assert!(run.ended_at > 0 && run.claimed_at == 0);
    assert_eq!(scene.claim(1, "web-1").await, Verdict::Done);
    let history = scene.store.history(&scene.job, 10).await.unwrap();
    assert_eq!(history, [onecron::job::HistoryEntry::of(&run, "")]);
}

pub async fn a_tick_is_not_settled_before_its_deadline(scene: Scene) {
    let verdict = scene.settle(1, Expect::Absent { after_ms: 3 * HOUR_MS }, MISSED).await;
    let Verdict::TooEarly { by_ms } = verdict else { panic!("{verdict:?}") };
    assert!((1..3 * HOUR_MS).contains(&by_ms), "{by_ms}");
    assert_eq!(scene.look(1).await.run, None);
}

fn range(scene: &Scene, first: i64, after_ms: i64) -> Expect {
    Expect::AbsentRange { first: scene.tick(first), count: 7, after_ms }
}

/// All ticks before the n-th are decided.
async fn decided_before(scene: &Scene, n: i64) {
    scene.claim_with(n - 1, "web-1", |claim| claim.previous = 0).await;
    scene.begin(n - 1, "web-1", 0).await;
    scene.complete(n - 1, "web-1", 1).await;
}

/// A settlement of a range that follows what is decided before its first tick.
async fn settle_range(scene: &Scene, (first, last): (i64, i64), who: &str) -> Answer {
    let (run, owner, previous) = (scene.run(last), replica(who), scene.tick(first - 1).seconds());
    scene.step(Step::Settle { run, owner, previous, expect: range(scene, first, 0), decision: MISSED }).await
}

pub async fn a_range_is_settled_once_and_is_one_entry_of_the_history(scene: Scene) {
    decided_before(&scene, 5).await;
    let settled = settle_range(&scene, (5, 50), "auditor").await;
    assert_eq!(settled.verdict, Verdict::Settled);
    let run = settled.run.clone().unwrap();
    assert_eq!((run.state, run.outcome, run.scheduled_for), (RunState::Done, Some(Outcome::Missed), scene.tick(50)));
    assert_eq!((run.range_first, run.range_count), (Some(scene.tick(5)), 7));
    assert_eq!(settled.job.unwrap().decided_through, scene.tick(50).seconds());
    assert_eq!(settle_range(&scene, (5, 50), "auditor").await.verdict, Verdict::Settled, "sent again");
    assert_eq!(settle_range(&scene, (5, 50), "web-2").await.verdict, Verdict::Changed, "decided by another one");
    assert_eq!(settle_range(&scene, (5, 60), "web-2").await.verdict, Verdict::Changed, "its beginning is decided");
    let history = scene.store.history(&scene.job, 10).await.unwrap();
    assert_eq!(history.len(), 2);
    assert_eq!(history[0], onecron::job::HistoryEntry::of(&run, ""));
    assert_eq!((history[0].range_first.clone(), history[0].range_count), (scene.tick(5).to_string(), 7));
}

pub async fn a_claim_inside_a_settled_range_is_told_how_it_ended(scene: Scene) {
    decided_before(&scene, 5).await;
    settle_range(&scene, (5, 50), "auditor").await;
    for n in [5, 20, 50] {
        let answer = scene.step(Step::Claim(scene.claim_of(n, "web-1"))).await;
        assert_eq!(answer.verdict, Verdict::Done, "{n}");
        let run = answer.run.unwrap();
        assert_eq!((run.state, run.outcome, run.scheduled_for), (RunState::Done, Some(Outcome::Missed), scene.tick(n)));
        assert_eq!((run.reason.as_str(), run.owner), ("store_unavailable", replica("auditor")));
    }
    assert_eq!(scene.look(20).await.run, None, "it has no record of its own");
    assert_eq!(scene.claim(3, "web-1").await, Verdict::TooOld, "before it");
    assert_eq!(scene.claim(51, "web-1").await, Verdict::Won, "after it");
}

pub async fn a_range_with_a_record_in_it_is_not_settled(scene: Scene) {
    decided_before(&scene, 5).await;
    scene.claim_with(30, "web-1", |claim| claim.previous = i64::MAX).await;
    scene.claim_with(20, "web-2", |claim| claim.previous = i64::MAX).await;
    scene.begin(20, "web-2", 0).await;
    let occupied = |n| Verdict::Occupied { at: scene.tick(n) };
    assert_eq!(settle_range(&scene, (5, 50), "auditor").await.verdict, occupied(20), "an open run");
    scene.complete(20, "web-2", 1).await;
    assert_eq!(settle_range(&scene, (5, 50), "auditor").await.verdict, occupied(20), "a finished one");
    assert_eq!(settle_range(&scene, (5, 30), "auditor").await.verdict, occupied(20));
    assert_eq!(settle_range(&scene, (5, 20), "auditor").await.verdict, occupied(20));
    assert_eq!(scene.look(50).await.run, None);
    assert_eq!(settle_range(&scene, (5, 19), "auditor").await.verdict, Verdict::Settled);
}

pub async fn a_range_follows_what_is_decided(scene: Scene) {
    decided_before(&scene, 5).await;
    assert_eq!(settle_range(&scene, (7, 50), "auditor").await.verdict, Verdict::Changed, "tick 5 and 6 are not");
    assert_eq!(settle_range(&scene, (4, 50), "auditor").await.verdict, Verdict::Changed, "tick 4 is");
    assert_eq!(scene.look(50).await.run, None);
}

pub async fn a_range_is_not_settled_before_its_last_deadline(scene: Scene) {
    decided_before(&scene, 5).await;
    let (run, owner, previous) = (scene.run(50), replica("auditor"), scene.tick(4).seconds());
    let expect = range(&scene, 5, 3 * HOUR_MS);
    let verdict = scene.verdict(Step::Settle { run, owner, previous, expect, decision: MISSED }).await;
    assert!(matches!(verdict, Verdict::TooEarly { by_ms } if by_ms > 0), "{verdict:?}");
    assert_eq!(scene.look(50).await.run, None);
}

pub async fn settling_is_never_too_old(scene: Scene) {
    // Where records are dropped at once, the floor stands right behind the newest one.
    scene.register_with(|registration| registration.keep_ms = 0).await;
    for n in [1, 2, 3] {
        scene.claim_with(n, "web-1", |claim| claim.previous = 0).await;
        scene.begin(n, "web-1", 0).await;
        scene.complete(n, "web-1", 1).await;
    }
    assert_eq!(scene.settle(50, ABSENT, MISSED).await, Verdict::Settled);
    assert_eq!(scene.settle(1, ABSENT, MISSED).await, Verdict::Changed, "decided, only its record is gone");
}

pub async fn what_is_decided_is_not_settled_again(scene: Scene) {
    scene.claim_with(5, "web-1", |claim| claim.previous = 0).await;
    for n in [4, 5] {
        assert_eq!(scene.settle(n, ABSENT, MISSED).await, Verdict::Changed);
    }
    assert_eq!(scene.look(4).await.run, None);
    assert_eq!(scene.record(5).await.state, RunState::Claimed);
}

pub async fn an_owner_settles_its_own_claim(scene: Scene) {
    scene.claim(1, "web-1").await;
    let own = || Expect::Own(replica("web-1"));
    assert_eq!(scene.settle_as(1, "web-1", (own(), SKIPPED)).await, Verdict::Settled);
    let before = scene.look(1).await;
    assert_eq!(scene.settle_as(1, "web-1", (own(), SKIPPED)).await, Verdict::Settled, "sent again");
    assert_eq!(scene.settle_as(1, "web-1", (own(), MISSED)).await, Verdict::Changed, "another decision");
    assert_eq!(scene.settle_as(1, "web-1", (ABSENT, SKIPPED)).await, Verdict::Changed, "there was a claim");
    assert_eq!(scene.look(1).await, before);
    let run = before.run.unwrap();
    assert_eq!((run.outcome, run.reason.as_str()), (Some(Outcome::Skipped), "overlap"));
    assert_eq!(before.job.unwrap().failures, 0, "neither missed nor skipped counts as a failure of the job");
}

pub async fn nobody_settles_anothers_claim_as_its_own(scene: Scene) {
    let own = |who| Expect::Own(replica(who));
    assert_eq!(scene.settle(1, own("web-1"), SKIPPED).await, Verdict::Changed, "no record");
    scene.claim(1, "web-1").await;
    assert_eq!(scene.settle(1, own("web-2"), SKIPPED).await, Verdict::Changed);
    scene.begin(1, "web-1", 0).await;
    assert_eq!(scene.settle(1, own("web-1"), SKIPPED).await, Verdict::Changed, "it began");
    assert_eq!(scene.record(1).await.state, RunState::Begun);
}

pub async fn a_dead_claim_is_settled_only_as_it_was_seen(scene: Scene) {
    scene.claim(1, "web-1").await;
    let seen = scene.seen(1).await;
    for other in other_views(&seen) {
        assert_eq!(scene.settle(1, Expect::Unchanged(other), MISSED).await, Verdict::Changed);
    }
    assert_eq!(scene.settle(1, Expect::Unchanged(seen), MISSED).await, Verdict::Settled);
    assert_eq!(scene.begin(1, "web-1", 0).await, Verdict::Done);
    let own = Expect::Own(replica("web-1"));
    assert_eq!(
        scene.settle_as(1, "web-1", (own, MISSED)).await,
        Verdict::Changed,
        "its watcher came first, and said so"
    );
}

pub async fn a_begun_run_is_lost_only_as_it_was_seen(scene: Scene) {
    scene.start(1, "web-1").await;
    let seen = scene.seen(1).await;
    for other in other_views(&seen) {
        assert_eq!(scene.settle(1, Expect::Unchanged(other), Decision::Lost).await, Verdict::Changed);
    }
    scene.renew(1, "web-1", 1).await;
    assert_eq!(scene.settle(1, Expect::Unchanged(seen), Decision::Lost).await, Verdict::Changed, "it lives");
    scene.lose(1).await;
    let answer = scene.look(1).await;
    let (run, job) = (answer.run.unwrap(), answer.job.unwrap());
    assert_eq!((run.state, run.outcome), (RunState::Lost, Some(Outcome::Lost)));
    assert_eq!((job.slot, job.open, job.failures), (Some(scene.tick(1)), vec![scene.tick(1)], 1));
}

pub async fn a_watcher_whose_reply_was_lost_learns_that_it_recorded_the_loss(scene: Scene) {
    scene.start(1, "web-1").await;
    let before = scene.seen(1).await;
    let lost = (Expect::Unchanged(before.clone()), Decision::Lost);
    assert_eq!(scene.settle_as(1, "web-2", lost.clone()).await, Verdict::Settled);
    assert_eq!(scene.settle_as(1, "web-2", lost.clone()).await, Verdict::Settled, "sent again");
    assert_eq!(scene.settle_as(1, "web-3", lost).await, Verdict::Changed, "somebody else recorded it");
    let other = Seen { start: before.start + 1, ..before };
    assert_eq!(scene.settle_as(1, "web-2", (Expect::Unchanged(other), Decision::Lost)).await, Verdict::Changed);
}

pub async fn a_run_that_may_run_again_is_lost_without_an_outcome_until_drained(scene: Scene) {
    scene.start_rerunnable(1, "web-1").await;
    scene.lose(1).await;
    assert_eq!(scene.record(1).await.outcome, None);
    assert_eq!(scene.store.history(&scene.job, 10).await.unwrap(), []);
    let seen = scene.seen(1).await;
    for other in other_views(&seen) {
        assert_eq!(scene.settle(1, Expect::Unchanged(other), Decision::Drained).await, Verdict::Changed);
    }
    assert_eq!(scene.settle(1, Expect::Unchanged(seen), Decision::Drained).await, Verdict::Settled);
    let answer = scene.look(1).await;
    let (run, job) = (answer.run.unwrap(), answer.job.unwrap());
    assert_eq!((run.state, run.outcome), (RunState::Done, Some(Outcome::Lost)));
    assert_eq!((job.failures, job.slot), (1, None));
    assert_eq!(scene.store.history(&scene.job, 10).await.unwrap().len(), 1);
}

pub async fn decisions_that_do_not_fit_change_nothing(scene: Scene) {
    assert_eq!(scene.settle(1, ABSENT, Decision::Lost).await, Verdict::Changed);
    assert_eq!(scene.settle(1, ABSENT, Decision::Drained).await, Verdict::Changed);
    assert_eq!(scene.look(1).await.run, None);
    let seen_settle = async |n, decision| {
        let (seen, before) = (scene.seen(n).await, scene.look(n).await);
        assert_eq!(scene.settle(n, Expect::Unchanged(seen), decision).await, Verdict::Changed, "{decision:?}");
        assert_eq!(scene.look(n).await, before);
    };
    scene.claim(1, "web-1").await;
    for decision in [Decision::Lost, Decision::Drained] {
        seen_settle(1, decision).await;
    }
    scene.begin(1, "web-1", 0).await;
    for decision in [MISSED, SKIPPED, Decision::Drained] {
        seen_settle(1, decision).await;
    }
    scene.lose(1).await;
    for decision in [MISSED, SKIPPED, Decision::Lost] {
        seen_settle(1, decision).await;
    }
    scene.complete(1, "web-1", 1).await;
    for decision in [MISSED, SKIPPED, Decision::Lost, Decision::Drained] {
        seen_settle(1, decision).await;
    }
    scene.claim(2, "web-1").await;
    scene.abandon(2, "web-1", 0).await;
    for decision in [Decision::Lost, Decision::Drained] {
        seen_settle(2, decision).await;
    }
}

/// Where no table has the job any more, nobody takes it.
pub async fn a_given_back_run_is_settled_only_as_it_was_seen(scene: Scene) {
    scene.claim(1, "web-1").await;
    let claimed = scene.seen(1).await;
    scene.abandon(1, "web-1", 0).await;
    assert_eq!(scene.settle(1, Expect::Unchanged(claimed), MISSED).await, Verdict::Changed);
    let seen = scene.seen(1).await;
    assert_eq!(scene.settle(1, Expect::Unchanged(seen), MISSED).await, Verdict::Settled);
    let record = scene.record(1).await;
    assert_eq!((record.state, record.outcome), (RunState::Done, Some(Outcome::Missed)));
    assert_eq!(scene.look(1).await.job.unwrap().open, []);
}

/// It began, so nobody knows what it did; but it is not going any more.
pub async fn an_attempt_that_nobody_goes_on_with_ends_as_lost(scene: Scene) {
    scene.start_rerunnable(1, "web-1").await;
    scene.abandon(1, "web-1", 1).await;
    scene.start_rerunnable(2, "web-1").await;
    scene.lose(2).await;
    let takeover = Some(scene.seen(2).await);
    assert_eq!(scene.claim_with(2, "web-2", |claim| claim.takeover = takeover).await, Verdict::Won);
    for (n, state) in [(1, RunState::Abandoned), (2, RunState::Claimed)] {
        let seen = scene.seen(n).await;
        assert_eq!(seen.state, state);
        assert_eq!(scene.settle(n, Expect::Unchanged(seen), Decision::Drained).await, Verdict::Settled);
        let record = scene.record(n).await;
        assert_eq!((record.state, record.outcome), (RunState::Done, Some(Outcome::Lost)));
    }
    let job = scene.look(1).await.job.unwrap();
    assert_eq!((job.open, job.slot), (Vec::new(), None));
}

pub async fn decided_through_advances_over_decided_ticks_only(scene: Scene) {
    let through = async || scene.look(1).await.job.unwrap().decided_through;
    let start = through().await;
    scene.claim_with(1, "web-1", |claim| claim.previous = start).await;
    assert_eq!(through().await, scene.tick(1).seconds(), "a claimed tick is decided: it has a record");
    scene.claim(3, "web-1").await;
    assert_eq!(through().await, scene.tick(1).seconds(), "tick 2 is not decided");
    scene.settle(2, ABSENT, MISSED).await;
    assert_eq!(through().await, scene.tick(2).seconds());
    scene.claim(2, "web-1").await;
    assert_eq!(through().await, scene.tick(2).seconds(), "nothing pulls it back");
}

pub async fn a_refused_settlement_helps_decided_through_along(scene: Scene) {
    let start = scene.look(1).await.job.unwrap().decided_through;
    scene.claim(2, "web-1").await;
    scene.claim_with(1, "web-1", |claim| claim.previous = start).await;
    // Tick 2 was claimed before tick 1: nobody but an auditor comes by it again.
    assert_eq!(scene.settle(2, ABSENT, MISSED).await, Verdict::Changed);
    assert_eq!(scene.look(1).await.job.unwrap().decided_through, scene.tick(2).seconds());
}
