//! What people ask for: runs by hand, and that nothing is started.
//!
//! A manual run is no tick: it raises none of the marks that ticks raise, and is superseded by none. Of ticks it
//! supersedes those alone that began before it and were given back: their next token would be below its own.

use super::Changes;
use super::Picture;
use super::guard;
use crate::job::EARLY_TOLERANCE_MS;
use crate::job::JobRecord;
use crate::job::Order;
use crate::job::Pause;
use crate::job::RunRecord;
use crate::job::RunState;
use crate::job::Trigger;
use crate::job::Verdict;
use crate::job::manual_token;

/// See [`Step::Order`](crate::job::Step::Order).
pub(super) fn order(picture: &mut Picture, order: &Order, now: i64, changes: &mut Changes) -> Verdict {
    let Some(job) = &mut picture.job else { return Verdict::Unregistered };
    if picture.run.is_some() {
        return Verdict::Ordered; // sent again, or an earlier order with the same key
    }
    let tick = order.run.scheduled_for;
    let by_ms = tick.millis() - now - EARLY_TOLERANCE_MS;
    if by_ms > 0 {
        return Verdict::TooEarly { by_ms };
    }
    if guard::is_forgotten(job, tick) || !tick.is_manual() {
        return Verdict::Forgot;
    }
    if job.pause().is_some() && !order.despite_pause {
        return Verdict::Paused;
    }
    picture.run = Some(RunRecord {
        state: RunState::Abandoned,
        number: 1,
        trigger: Trigger::Manual.as_str().into(),
        ordered_by: order.by.clone(),
        order_key: order.key.clone(),
        runs_for: order.runs_for,
        despite_pause: order.despite_pause,
        ..RunRecord::claimed(tick, &order.owner)
    });
    (changes.job, changes.run) = (true, true);
    Verdict::Ordered
}

/// See [`Step::Pause`](crate::job::Step::Pause).
pub(super) fn pause(
    picture: &mut Picture,
    (all, pause, only_if): (bool, Option<&Pause>, Option<i64>),
    now: i64,
    changes: &mut Changes,
) -> Verdict {
    let Some(job) = &mut picture.job else { return Verdict::Unregistered };
    let place = if all { &mut job.all_paused } else { &mut job.paused };
    if only_if.is_some_and(|at| place.as_ref().is_none_or(|found| found.at != at)) {
        return Verdict::Noted;
    }
    if !Pause::are_alike(place.as_ref(), pause) {
        *place = pause.map(|pause| Pause { at: now, ..pause.clone() });
        changes.job = true;
    }
    Verdict::Noted
}

/// The token of a manual run that begins: above those of all that began before, and below those of ticks that begin
/// later, which are later than the latest that began, and than what the store may have forgotten.
pub(super) fn next_token(job: &JobRecord) -> u64 {
    let seconds = job.last_begun.max(job.since.div_euclid(1000));
    manual_token(seconds).max(job.manual_token + 1)
}
