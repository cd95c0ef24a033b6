//! What a store does that may have forgotten: the memory guard.

use crate::support::scene::Scene;
use crate::support::scene::ending;
use crate::support::scene::reassert_of;
use crate::support::scene::registration;
use crate::support::scene::replica;
use onecron::job::Answer;
use onecron::job::Decision;
use onecron::job::Expect;
use onecron::job::JobRecord;
use onecron::job::Knew;
use onecron::job::MissedReason;
use onecron::job::NUMBER_LEAP;
use onecron::job::Outcome;
use onecron::job::Reassert;
use onecron::job::Registration;
use onecron::job::RunState;
use onecron::job::SkipReason;
use onecron::job::Step;
use onecron::job::Verdict;

const FORGOT: Decision = Decision::Missed(MissedReason::StoreForgot);
const QUIET_MS: u64 = 40_000;

async fn job(scene: &Scene) -> JobRecord {
    scene.look(1).await.job.unwrap()
}

/// Registers with a tolerance that puts a new `since` between two ticks, as a replica that knew the job.
async fn register_up_to(scene: &Scene, n: i64, change: impl FnOnce(&mut Registration)) -> Answer {
    let now = scene.store.server_time().await.unwrap().timestamp_millis();
    let record = job(scene).await;
    scene
        .register_with(|registration| {
            registration.skew_tolerance_ms = scene.tick(n).millis() + 30_000 - now;
            registration.knew = Some(Knew {
                since: record.since,
                decided_through: i64::MIN,
                forgot_at: record.forgot_at,
                ..Knew::default()
            });
            change(registration);
        })
        .await
}

/// A replica misses something: all ticks up to the n-th may have been forgotten.
async fn forget_up_to(scene: &Scene, n: i64) {
    let answer = register_up_to(scene, n, missing).await;
    let since = answer.job.unwrap().since;
    assert!((scene.tick(n).millis()..scene.tick(n + 1).millis()).contains(&since));
}

fn missing(registration: &mut Registration) {
    registration.knew = registration.knew.take().map(|knew| Knew { missing: true, ..knew });
}

/// The silence after a loss is over.
async fn end_silence(scene: &Scene) {
    register_up_to(scene, 0, |registration| watched(registration, QUIET_MS)).await;
    assert_eq!(job(scene).await.quiet_ms, 0);
}

fn watched(registration: &mut Registration, quiet_for_ms: u64) {
    registration.knew = registration.knew.take().map(|knew| Knew { quiet_for_ms, ..knew });
}

async fn assert_run(scene: &Scene, n: i64, (who, start, begun): (&str, u32, bool)) -> Verdict {
    scene.verdict(Step::Reassert(reassert_of(&scene.run(n), (who, start, begun)))).await
}

pub async fn a_store_that_restarted_takes_no_step_before_the_job_is_registered_again(scene: Scene) {
    scene.start(1, "web-1").await;
    scene.bench.restart().await;
    for verdict in [scene.claim(2, "web-1").await, scene.renew(1, "web-1", 1).await, scene.look(1).await.verdict] {
        assert_eq!(verdict, Verdict::Unregistered);
    }
    let before = scene.look(1).await;
    let answer = scene.register_with(|_| ()).await;
    assert_eq!(answer.verdict, Verdict::Registered { fresh: false, rescheduled: false });
    let (before, after) = (before.job.unwrap(), answer.job.unwrap());
    assert_ne!(before.identity, after.identity);
    assert_eq!((before.forgot_at, before.quiet_ms, after.quiet_ms), (0, 0, QUIET_MS));
    assert!(after.forgot_at >= before.registered_at);
    assert_eq!(scene.renew(1, "web-1", 1).await, Verdict::Renewed, "what it has kept, it has");
    let again = scene.register_with(|_| ()).await.job.unwrap();
    assert_eq!((again.since, again.forgot_at), (after.since, after.forgot_at), "once is enough");
}

pub async fn ticks_that_a_restarted_store_may_have_forgotten_are_refused(scene: Scene) {
    assert_eq!(scene.claim(3, "web-1").await, Verdict::Won);
    assert_eq!(scene.claim(4, "web-1").await, Verdict::Won);
    assert_eq!(scene.abandon(4, "web-1", 0).await, Verdict::Released);
    scene.start_rerunnable(5, "web-1").await;
    scene.lose(5).await;
    scene.bench.restart().await;
    register_up_to(&scene, 10, |_| ()).await;
    assert_eq!(scene.claim(2, "web-2").await, Verdict::Forgot, "nobody is known to have had it");
    assert_eq!(scene.begin(3, "web-1", 0).await, Verdict::Forgot, "somebody may have taken it over since");
    let seen = scene.seen(3).await;
    assert_eq!(scene.take_over(3, "web-2", seen).await, Verdict::Forgot);
    assert_eq!(scene.claim(4, "web-2").await, Verdict::Forgot, "nor was it free for sure");
    let seen = scene.seen(5).await;
    assert_eq!(scene.take_over(5, "web-2", seen).await, Verdict::Forgot, "nor lost");
    assert_eq!(scene.claim(11, "web-2").await, Verdict::Won, "the first tick after it");
}

pub async fn a_restart_that_lost_nothing_that_a_replica_knows_of_is_no_loss_of_decisions(scene: Scene) {
    scene.run_through(1, Outcome::Succeeded, "").await;
    scene.bench.restart().await;
    scene.register_with(|_| ()).await;
    assert_eq!(scene.claim(1, "web-2").await, Verdict::Done);
}

pub async fn a_new_job_is_no_loss(scene: Scene) {
    let record = job(&scene).await;
    assert_eq!((record.forgot_at, record.quiet_ms), (0, 0));
    scene.start(1, "web-1").await;
}

pub async fn a_job_that_a_replica_knew_and_the_store_does_not_is_a_loss(scene: Scene) {
    let job = onecron::job::JobName::new("other").unwrap();
    let decided_through = scene.tick(5).seconds();
    let knew = Some(Knew { since: 1, decided_through, ..Knew::default() });
    let answer = scene.step(Step::Register(Registration { skew_tolerance_ms: 0, knew, ..registration(&job) })).await;
    assert_eq!(answer.verdict, Verdict::Registered { fresh: true, rescheduled: false });
    let record = answer.job.unwrap();
    assert!(record.forgot_at > 0);
    assert_eq!(record.quiet_ms, QUIET_MS);
    assert_eq!(record.decided_through, decided_through, "what came after is owed a record");
}

/// Between the loss and this registration a replica that never knew the job has registered it.
pub async fn a_replica_that_knew_another_history_tells_of_the_loss(scene: Scene) {
    let knew =
        |since| move |registration: &mut Registration| registration.knew = Some(Knew { since, ..Knew::default() });
    let record = job(&scene).await;
    scene.register_with(knew(record.since)).await;
    assert_eq!(job(&scene).await.forgot_at, 0, "it is the same history");
    scene.register_with(knew(record.since - 1)).await;
    let told = job(&scene).await;
    assert!(told.forgot_at > 0 && told.quiet_ms > 0);
    scene.register_with(knew(record.since - 2)).await;
    assert_eq!(job(&scene).await.forgot_at, told.forgot_at, "that one was lost is known");
}

pub async fn a_complaint_counts_once(scene: Scene) {
    let before = job(&scene).await;
    forget_up_to(&scene, 5).await;
    let first = job(&scene).await;
    assert!(first.since > before.since && first.forgot_at > 0);
    let late = |registration: &mut Registration| {
        registration.knew = Some(Knew { since: before.since, missing: true, ..Knew::default() });
    };
    scene.register_with(late).await;
    let second = job(&scene).await;
    assert_eq!((second.since, second.forgot_at), (first.since, first.forgot_at));
    forget_up_to(&scene, 6).await;
    let third = job(&scene).await;
    assert!(third.since > first.since && third.forgot_at > first.forgot_at);
}

pub async fn what_a_replica_knew_to_be_decided_stays_decided(scene: Scene) {
    register_up_to(&scene, 9, |registration| {
        let knew = registration.knew.clone().unwrap();
        registration.knew = Some(Knew { missing: true, decided_through: scene.tick(5).seconds(), ..knew });
    })
    .await;
    assert_eq!(job(&scene).await.decided_through, scene.tick(5).seconds());
    let ahead = |registration: &mut Registration| {
        registration.knew =
            registration.knew.take().map(|knew| Knew { decided_through: scene.tick(50).seconds(), ..knew });
    };
    register_up_to(&scene, 9, ahead).await;
    let record = job(&scene).await;
    assert_eq!(record.decided_through, record.since.div_euclid(1000), "but no more than the store may have forgotten");
}

pub async fn a_claim_that_its_owner_asserts_can_begin(scene: Scene) {
    assert_eq!(scene.claim_with(1, "web-1", |claim| claim.exclusive = false).await, Verdict::Won);
    forget_up_to(&scene, 3).await;
    assert_eq!(scene.begin(1, "web-1", 0).await, Verdict::Forgot);
    let word = Reassert { exclusive: false, ..reassert_of(&scene.run(1), ("web-1", 0, false)) };
    let (before, answer) = (scene.record(1).await, scene.step(Step::Reassert(word)).await);
    assert_eq!(answer.verdict, Verdict::Renewed);
    assert!(answer.run.unwrap().number > before.number, "a sign of life");
    assert_eq!(scene.begin(1, "web-1", 0).await, Verdict::Begun);
    forget_up_to(&scene, 4).await;
    assert_eq!(scene.begin_as(1, "web-1", (1, "next")).await, Verdict::Forgot, "each loss needs a word of its own");
}

pub async fn a_claim_that_its_owner_asserts_can_be_taken_over(scene: Scene) {
    assert_eq!(scene.claim(1, "web-1").await, Verdict::Won);
    forget_up_to(&scene, 3).await;
    assert_eq!(assert_run(&scene, 1, ("web-1", 0, false)).await, Verdict::Renewed);
    let seen = scene.seen(1).await;
    assert_eq!(scene.take_over(1, "web-2", seen).await, Verdict::Won);
}

/// The store knows nothing of the run.
pub async fn a_run_that_its_owner_asserts_has_its_record_and_its_slot_again(scene: Scene) {
    forget_up_to(&scene, 3).await;
    let word = reassert_of(&scene.run(2), ("web-1", 1, true));
    let answer = scene.step(Step::Reassert(word.clone())).await;
    assert_eq!(answer.verdict, Verdict::Renewed);
    let (run, record) = (answer.run.unwrap(), answer.job.unwrap());
    assert_eq!((run.state, run.start, run.owner.clone()), (RunState::Begun, 1, replica("web-1")));
    assert_eq!(run.number, word.number + NUMBER_LEAP, "no watcher has seen that one");
    assert_eq!((run.lease_ms, run.grace_ms, run.takeover_ms), (word.lease_ms, word.grace_ms, word.takeover_ms));
    assert_eq!((run.exclusive, run.rerun, run.trigger.as_str()), (true, true, "schedule"));
    assert_eq!((record.slot, record.open.clone()), (Some(scene.tick(2)), vec![scene.tick(2)]));
    assert_eq!(record.last_begun, scene.tick(2).seconds(), "tokens do not fall");
    assert_eq!(scene.renew(2, "web-1", 1).await, Verdict::Renewed);
    assert_eq!(scene.begin_as(2, "web-1", (1, "retry")).await, Verdict::Begun, "it has the slot, so it need not wait");
    assert_eq!(scene.complete(2, "web-1", 2).await, Verdict::Recorded);
    assert_eq!(job(&scene).await.slot, None);
}

pub async fn a_resent_assertion_is_a_renewal(scene: Scene) {
    forget_up_to(&scene, 3).await;
    assert_eq!(assert_run(&scene, 2, ("web-1", 1, true)).await, Verdict::Renewed);
    let first = scene.record(2).await;
    assert_eq!(assert_run(&scene, 2, ("web-1", 1, true)).await, Verdict::Renewed);
    let second = scene.record(2).await;
    assert_eq!((second.state, second.number), (first.state, first.number + 1));
    assert_eq!(assert_run(&scene, 2, ("web-2", 1, true)).await, Verdict::Fenced, "the first word counts");
}

pub async fn nothing_is_asserted_that_was_not_forgotten(scene: Scene) {
    assert_eq!(assert_run(&scene, 2, ("web-1", 1, true)).await, Verdict::Gone);
    forget_up_to(&scene, 3).await;
    assert_eq!(assert_run(&scene, 4, ("web-1", 1, true)).await, Verdict::Gone, "it lies after `since`");
    assert_eq!(scene.look(4).await.run, None);
    end_silence(&scene).await;
    scene.run_through(5, Outcome::Succeeded, "").await;
    forget_up_to(&scene, 6).await;
    assert_eq!(assert_run(&scene, 5, ("web-1", 1, true)).await, Verdict::Done, "it is closed");
}

pub async fn nothing_is_asserted_at_or_below_the_floor(scene: Scene) {
    for n in 1..=3 {
        let claim = scene.claim_with(n, "web-1", |claim| (claim.previous, claim.exclusive) = (0, false)).await;
        assert_eq!((claim, scene.begin(n, "web-1", 0).await), (Verdict::Won, Verdict::Begun));
        assert_eq!(scene.complete(n, "web-1", 1).await, Verdict::Recorded);
    }
    register_up_to(&scene, 3, |registration| {
        missing(registration);
        registration.keep_ms = 0;
    })
    .await;
    let claim = scene.claim_with(4, "web-1", |claim| claim.exclusive = false).await;
    assert_eq!((claim, job(&scene).await.floor), (Verdict::Won, scene.tick(2).seconds()));
    assert_eq!(assert_run(&scene, 2, ("web-1", 1, true)).await, Verdict::Gone);
}

/// The store went back to a state before the run was taken over, or began.
pub async fn an_older_state_gives_way_to_the_owners_word_and_a_newer_one_does_not(scene: Scene) {
    assert_eq!(scene.claim(1, "web-1").await, Verdict::Won);
    assert_eq!(scene.claim(2, "web-1").await, Verdict::Won);
    forget_up_to(&scene, 3).await;
    assert_eq!(assert_run(&scene, 1, ("web-2", 0, false)).await, Verdict::Fenced, "whose claim it is, is not known");
    assert_eq!(assert_run(&scene, 1, ("web-2", 1, true)).await, Verdict::Renewed);
    assert_eq!(scene.begin(1, "web-1", 0).await, Verdict::Fenced);
    assert_eq!(assert_run(&scene, 2, ("web-1", 1, true)).await, Verdict::Renewed);
    assert_eq!(assert_run(&scene, 2, ("web-1", 0, false)).await, Verdict::Fenced);
}

pub async fn a_forgotten_tick_can_only_end_as_unknown(scene: Scene) {
    assert_eq!(scene.claim(2, "web-1").await, Verdict::Won);
    assert_eq!(scene.claim(3, "web-1").await, Verdict::Won);
    assert_eq!(scene.abandon(3, "web-1", 0).await, Verdict::Released);
    forget_up_to(&scene, 5).await;
    let absent = || Expect::Absent { after_ms: 60_000 };
    let own = || Expect::Own(replica("web-1"));
    for decision in [Decision::Missed(MissedReason::NoReplica), Decision::Skipped(SkipReason::Overlap)] {
        assert_eq!(scene.settle(1, absent(), decision).await, Verdict::Changed);
        assert_eq!(scene.settle(2, own(), decision).await, Verdict::Changed);
        let seen = scene.seen(2).await;
        assert_eq!(scene.settle(2, Expect::Unchanged(seen), decision).await, Verdict::Changed);
    }
    assert_eq!(scene.settle(1, absent(), FORGOT).await, Verdict::Settled);
    assert_eq!(scene.settle_as(2, "web-1", (own(), FORGOT)).await, Verdict::Settled);
    let seen = scene.seen(3).await;
    for _ in ["sent", "sent again"] {
        assert_eq!(scene.settle(3, Expect::Unchanged(seen.clone()), FORGOT).await, Verdict::Settled, "given back");
    }
    let other = scene.settle_as(3, "another", (Expect::Unchanged(seen), FORGOT)).await;
    assert_eq!(other, Verdict::Changed, "one of them says it");
    assert_eq!(scene.store.history(&scene.job, 9).await.unwrap().len(), 3);
}

pub async fn an_asserted_claim_may_end_as_its_owner_says(scene: Scene) {
    assert_eq!(scene.claim(2, "web-1").await, Verdict::Won);
    forget_up_to(&scene, 5).await;
    assert_eq!(assert_run(&scene, 2, ("web-1", 0, false)).await, Verdict::Renewed);
    let skipped = Decision::Skipped(SkipReason::Overlap);
    assert_eq!(scene.settle_as(2, "web-1", (Expect::Own(replica("web-1")), skipped)).await, Verdict::Settled);
}

pub async fn unknown_gives_way_to_the_owners_word(scene: Scene) {
    forget_up_to(&scene, 5).await;
    assert_eq!(scene.settle(2, Expect::Absent { after_ms: 60_000 }, FORGOT).await, Verdict::Settled);
    assert_eq!(assert_run(&scene, 2, ("web-1", 1, true)).await, Verdict::Renewed);
    assert_eq!(scene.store.history(&scene.job, 9).await.unwrap(), [], "nobody said how it ended");
    assert_eq!(scene.end(2, "web-1", (1, ending(Outcome::Failed, "output"))).await, Verdict::Recorded);
    let history = scene.store.history(&scene.job, 9).await.unwrap();
    assert_eq!(history.len(), 1);
    assert_eq!(history[0].outcome, "failed");
    assert_eq!(assert_run(&scene, 2, ("web-1", 1, true)).await, Verdict::Done);
    // One that did not begin may as well stay what the fleet was told it is.
    assert_eq!(scene.settle(3, Expect::Absent { after_ms: 60_000 }, FORGOT).await, Verdict::Settled);
    assert_eq!(assert_run(&scene, 3, ("web-1", 0, false)).await, Verdict::Done);
    assert_eq!(scene.store.history(&scene.job, 9).await.unwrap().len(), 2);
}

/// All up to a tick is known to be decided, since somebody had it; but its record is lost.
pub async fn a_lost_record_can_be_settled_as_unknown_below_decided_through(scene: Scene) {
    register_up_to(&scene, 5, |registration| {
        let knew = registration.knew.clone().unwrap();
        registration.knew = Some(Knew { missing: true, decided_through: scene.tick(4).seconds(), ..knew });
    })
    .await;
    let absent = || Expect::Absent { after_ms: 60_000 };
    assert_eq!(scene.settle(2, absent(), Decision::Missed(MissedReason::NoReplica)).await, Verdict::Changed);
    assert_eq!(scene.settle(2, absent(), FORGOT).await, Verdict::Settled);
}

pub async fn no_run_that_must_not_overlap_begins_before_the_silence_was_watched(scene: Scene) {
    forget_up_to(&scene, 3).await;
    assert_eq!(scene.claim(4, "web-1").await, Verdict::Won);
    let before = scene.record(4).await.number;
    assert_eq!(scene.begin(4, "web-1", 0).await, Verdict::Quiet);
    assert!(scene.record(4).await.number > before, "asking is a sign of life");
    register_up_to(&scene, 0, |registration| watched(registration, QUIET_MS - 1)).await;
    assert_eq!(scene.begin(4, "web-1", 0).await, Verdict::Quiet, "not long enough");
    register_up_to(&scene, 0, |registration| {
        watched(registration, QUIET_MS);
        registration.knew = registration.knew.take().map(|knew| Knew { forgot_at: knew.forgot_at - 1, ..knew });
    })
    .await;
    assert_eq!(scene.begin(4, "web-1", 0).await, Verdict::Quiet, "that was another loss");
    end_silence(&scene).await;
    assert_eq!(scene.begin(4, "web-1", 0).await, Verdict::Begun);
}

pub async fn the_longest_silence_of_all_tables_counts(scene: Scene) {
    forget_up_to(&scene, 3).await;
    register_up_to(&scene, 0, |registration| registration.quiet_ms = 50_000).await;
    register_up_to(&scene, 0, |registration| watched(registration, QUIET_MS)).await;
    assert_eq!(job(&scene).await.quiet_ms, 50_000);
    register_up_to(&scene, 0, |registration| watched(registration, 50_000)).await;
    assert_eq!(job(&scene).await.quiet_ms, 0);
    register_up_to(&scene, 0, |registration| registration.quiet_ms = 60_000).await;
    assert_eq!(job(&scene).await.quiet_ms, 0, "it does not begin again");
}

pub async fn runs_that_may_overlap_do_not_wait_for_the_silence(scene: Scene) {
    forget_up_to(&scene, 3).await;
    assert_eq!(scene.claim_with(4, "web-1", |claim| claim.exclusive = false).await, Verdict::Won);
    assert_eq!(scene.begin(4, "web-1", 0).await, Verdict::Begun);
}

pub async fn a_slot_that_was_asserted_is_not_taken_by_another_word(scene: Scene) {
    forget_up_to(&scene, 5).await;
    assert_eq!(assert_run(&scene, 2, ("web-1", 1, true)).await, Verdict::Renewed);
    assert_eq!(assert_run(&scene, 3, ("web-2", 1, true)).await, Verdict::Renewed);
    assert_eq!(job(&scene).await.slot, Some(scene.tick(2)));
}

pub async fn a_slot_of_a_run_that_began_after_the_loss_is_not_taken_by_a_late_word(scene: Scene) {
    forget_up_to(&scene, 3).await;
    end_silence(&scene).await;
    scene.start(4, "web-1").await;
    assert_eq!(assert_run(&scene, 2, ("web-2", 1, true)).await, Verdict::Renewed);
    assert_eq!(job(&scene).await.slot, Some(scene.tick(4)));
    scene.complete(2, "web-2", 1).await;
    assert_eq!(job(&scene).await.slot, Some(scene.tick(4)), "and its end frees nothing");
}

/// The store forgot the end of one run and the begin of the next, and the owner of both spoke up for the first one first.
pub async fn a_run_that_goes_on_without_its_slot_still_keeps_others_out(scene: Scene) {
    forget_up_to(&scene, 3).await;
    assert_eq!(assert_run(&scene, 2, ("web-1", 1, true)).await, Verdict::Renewed);
    assert_eq!(assert_run(&scene, 3, ("web-1", 1, true)).await, Verdict::Renewed);
    assert_eq!(job(&scene).await.slot, Some(scene.tick(2)));
    assert_eq!(scene.complete(2, "web-1", 1).await, Verdict::Recorded);
    assert_eq!(job(&scene).await.slot, None);
    end_silence(&scene).await;
    assert_eq!(scene.claim(5, "web-2").await, Verdict::Won);
    let busy = Verdict::Busy { occupant: scene.tick(3), renewed: true };
    assert_eq!(scene.begin(5, "web-2", 0).await, busy);
    assert_eq!(scene.complete(3, "web-1", 1).await, Verdict::Recorded);
    assert_eq!(scene.begin(5, "web-2", 0).await, Verdict::Begun);
}

pub async fn a_store_tells_what_it_is(scene: Scene) {
    let first = scene.store.identity().await.unwrap();
    assert_eq!((first.server.is_empty(), first.evicted), (false, 0));
    assert_eq!(scene.store.identity().await.unwrap(), first);
    assert_eq!(job(&scene).await.identity, first.server);
    scene.bench.restart().await;
    crate::support::wait_until("another identity", async || {
        scene.store.identity().await.is_ok_and(|identity| identity.server != first.server)
    })
    .await;
}
