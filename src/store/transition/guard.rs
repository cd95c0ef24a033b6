//! The memory guard: what becomes of runs when the store may have forgotten some of them.
//!
//! A registration finds out (the store has another identity, records are missing, a replica knew more) and sets `since`:
//! ticks up to there may have been claimed by somebody without the store knowing, so they are refused, and end as
//! `missed` with the reason `store_forgot`, which means "unknown". Only their owner knows better, and may say so
//! ([`reassert`]) while nobody else can have been given the run. And since a run that nobody has spoken up for may still
//! be going, none that must not overlap begins before some replica has watched that silence for long enough.

use super::Changes;
use super::Picture;
use super::renew;
use crate::job::Decision;
use crate::job::EARLY_TOLERANCE_MS;
use crate::job::Expect;
use crate::job::JobRecord;
use crate::job::MissedReason;
use crate::job::NUMBER_LEAP;
use crate::job::Outcome;
use crate::job::Reassert;
use crate::job::Registration;
use crate::job::RunRecord;
use crate::job::RunState;
use crate::job::Step;
use crate::job::Tick;
use crate::job::Verdict;

/// Whether the job was registered since the store became what it is. The steps of a replica that does not yet know
/// that the store restarted must not be judged by what is left in it. But of a job that is in no table any more, which
/// nobody will register again, the runs must end: what a watcher saw unchanged may be judged.
pub(super) fn is_registered(picture: &Picture, step: &Step) -> bool {
    let judges = matches!(
        step,
        Step::Settle {
            expect: Expect::Unchanged(_),
            decision: Decision::Lost | Decision::Drained | Decision::Missed(MissedReason::StoreForgot),
            ..
        }
    );
    picture.job.as_ref().is_some_and(|job| judges || job.identity == picture.store.server)
}

/// What a registration makes of the store's memory of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Doubt {
    /// All is there.
    None,
    /// The store is another one, or restarted: what it lost depends on how it keeps things.
    Restarted,
    /// Records are missing.
    Missing,
}

pub(super) fn doubt(picture: &Picture, registration: &Registration) -> Doubt {
    let knew = registration.knew.as_ref();
    let Some(job) = &picture.job else {
        return if knew.is_some() { Doubt::Missing } else { Doubt::None };
    };
    let same = job.identity == picture.store.server;
    // An open run without a record; keys evicted, which may have been ours; and what replicas say. One that complains
    // of a loss that was noted since is heard already. One that knew another history than this one, of which nobody
    // has said that it stands in the place of a lost one, is the first to know.
    let unlisted = job.open.len() != picture.open.len();
    let evicted = same && picture.store.evicted > job.evicted;
    let told = knew.is_some_and(|knew| if knew.since == job.since { knew.missing } else { job.forgot_at == 0 });
    if unlisted || evicted || told {
        Doubt::Missing
    } else if same {
        Doubt::None
    } else {
        Doubt::Restarted
    }
}

/// Notes in the job's record what was found, what may have been forgotten, and what a replica has to say to it.
pub(super) fn note(picture: &mut Picture, registration: &Registration, (doubt, now): (Doubt, i64)) {
    let Some(job) = &mut picture.job else { return };
    let tolerance = registration.skew_tolerance_ms + EARLY_TOLERANCE_MS;
    let since = match (doubt, picture.store.missing_until) {
        (Doubt::None, _) | (Doubt::Restarted, Some(0)) => None,
        (Doubt::Restarted, Some(until)) => Some(until.min(now) + tolerance),
        (Doubt::Restarted, None) | (Doubt::Missing, _) => Some(now + tolerance),
    };
    if let Some(since) = since {
        job.since = job.since.max(since);
        job.forgot_at = now.max(job.forgot_at + 1);
        job.quiet_ms = registration.quiet_ms;
        job.open = picture.open.iter().map(|run| run.scheduled_for).collect();
        job.slot = job.slot.filter(|slot| job.open.contains(slot));
    } else if job.quiet_ms > 0 {
        // The longest lease and grace of all tables counts.
        job.quiet_ms = job.quiet_ms.max(registration.quiet_ms);
        let seen = |quiet_ms| {
            registration
                .knew
                .as_ref()
                .is_some_and(|knew| knew.forgot_at == job.forgot_at && knew.quiet_for_ms >= quiet_ms)
        };
        if seen(job.quiet_ms) {
            job.quiet_ms = 0;
        }
    }
    if let Some(knew) = &registration.knew {
        // What was decided stays so, whether the store knows it or not.
        job.decided_through = job.decided_through.max(knew.decided_through.min(job.since.div_euclid(1000)));
    }
    let evicted = if job.identity == picture.store.server { job.evicted } else { 0 };
    job.evicted = picture.store.evicted.max(evicted);
    job.identity.clone_from(&picture.store.server);
}

/// Whether somebody may have had the tick without the store knowing.
pub(super) fn is_forgotten(job: &JobRecord, tick: Tick) -> bool {
    tick.millis() <= job.since
}

/// Whether the run's owner has confirmed it since records may have been lost: then the record is as good as any.
pub(super) fn is_asserted(job: &JobRecord, run: &RunRecord) -> bool {
    run.asserted != 0 && run.asserted == job.forgot_at
}

/// Whether the decision would say more of a tick than anybody can know.
pub(super) fn says_too_much(job: &JobRecord, (tick, run): (Tick, Option<&RunRecord>), decision: Decision) -> bool {
    let unsure = is_forgotten(job, tick) && !run.is_some_and(|run| is_asserted(job, run));
    let knows = matches!(decision, Decision::Missed(reason) if reason != MissedReason::StoreForgot)
        || matches!(decision, Decision::Skipped(_) | Decision::Stopped(_));
    job.forgot_at > 0 && unsure && knows
}

/// Whether an absent tick may be recorded as forgotten although all ticks up to it are known to be decided: somebody
/// had it, and its record was lost.
pub(super) fn may_record_loss(job: &JobRecord, tick: Tick, decision: Decision) -> bool {
    let is_loss = decision == Decision::Missed(MissedReason::StoreForgot);
    is_loss && job.forgot_at > 0 && is_forgotten(job, tick) && tick.seconds() > job.floor
}

/// Takes an owner's word for its run. Where there is nothing to make again, it is a renewal.
pub(super) fn reassert(picture: &mut Picture, word: &Reassert, now: i64, changes: &mut Changes) -> Verdict {
    if make_again(picture, word, now, changes) {
        return Verdict::Renewed;
    }
    let verdict = renew(picture, (&word.owner, word.start), now, changes);
    if let (Verdict::Renewed, Some(job), Some(run)) = (verdict, &picture.job, &mut picture.run) {
        run.asserted = job.forgot_at;
    }
    verdict
}

/// Makes the record of a run again, from its owner's word. False where there is nothing to make: the record is there
/// and as good as the word, or better, or the run was closed, or nothing was forgotten.
fn make_again(picture: &mut Picture, word: &Reassert, now: i64, changes: &mut Changes) -> bool {
    let Some(job) = &mut picture.job else { return false };
    let tick = word.run.scheduled_for;
    let dropped = !tick.is_manual() && tick.seconds() <= job.floor;
    if job.forgot_at == 0 || !is_forgotten(job, tick) || dropped {
        return false;
    }
    let may = match &picture.run {
        None => true,
        // It ran, or may have: the word is better. What did not begin may as well stay what the fleet was told it is.
        Some(run) if is_settled_as_forgotten(run) => word.begun || word.start > 0,
        Some(run) if run.state == RunState::Done || is_asserted(job, run) => false,
        // An older state of this run: that of an earlier owner, or of this one.
        Some(run) => {
            run.start < word.start
                || (run.owner == word.owner && run.start == word.start && run.state != RunState::Lost)
        }
    };
    if !may {
        return false;
    }
    changes.withdrawn = picture.run.as_ref().is_some_and(is_settled_as_forgotten);
    let number = picture.run.as_ref().map_or(0, |run| run.number).max(word.number) + NUMBER_LEAP;
    if word.begun {
        if !tick.is_manual() {
            job.last_begun = job.last_begun.max(tick.seconds());
        }
        let others = |run: &&RunRecord| Some(run.scheduled_for) == job.slot && run.scheduled_for != tick;
        let taken = picture.open.iter().find(others).is_some_and(|other| is_asserted(job, other));
        if word.exclusive && !taken {
            job.slot = Some(tick);
        }
    }
    // What others asked for, and not the owner.
    let asked = picture.run.take().unwrap_or_else(|| RunRecord::claimed(tick, &word.owner));
    picture.run = Some(RunRecord {
        state: if word.begun { RunState::Begun } else { RunState::Claimed },
        start: word.start,
        number,
        lease_ms: word.lease_ms,
        grace_ms: word.grace_ms,
        takeover_ms: word.takeover_ms,
        delay_ms: word.delay_ms,
        stop_grace_ms: word.stop_grace_ms,
        when_busy: word.when_busy,
        stop_asked: asked.stop_asked,
        stop_asked_by: asked.stop_asked_by,
        ordered_by: asked.ordered_by,
        order_key: asked.order_key,
        runs_for: asked.runs_for,
        despite_pause: asked.despite_pause,
        exclusive: word.exclusive,
        rerun: word.rerun,
        trigger: word.trigger.clone(),
        spec_hash: word.spec_hash.clone(),
        claimed_at: now,
        begun_at: if word.begun { now } else { 0 },
        renewed_at: now,
        asserted: job.forgot_at,
        ..RunRecord::claimed(tick, &word.owner)
    });
    (changes.job, changes.run) = (true, true);
    true
}

fn is_settled_as_forgotten(run: &RunRecord) -> bool {
    run.state == RunState::Done
        && run.range_first.is_none()
        && run.outcome == Some(Outcome::Missed)
        && run.reason == MissedReason::StoreForgot.as_str()
}
