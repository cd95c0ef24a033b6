//! Which runs of a job keep others from beginning, and how one is asked to make room.
//!
//! Overlap is decided here alone, by the store, when the winner of a tick asks for its begin. A run that must not
//! overlap begins when nothing is in its way: no other run has the slot, and none is going that began under a
//! definition that allowed overlaps. What began keeps what it has, whatever tables say later.

use super::Changes;
use super::Picture;
use crate::job::JobRecord;
use crate::job::RunRecord;
use crate::job::StopReason;
use crate::job::Verdict;
use crate::job::WhenBusy;
use crate::job::fencing_token;

/// What keeps a run from beginning, if anything. A run that may wait is noted as waiting.
pub(super) fn refuses(job: &JobRecord, run: &mut RunRecord, (open, now): (&[RunRecord], i64)) -> Option<Verdict> {
    if run.stop_asked.is_some() {
        return Some(Verdict::StopAsked);
    }
    // A run that holds its slot since an earlier begin kept all others out. One that was given back after a begin did
    // not: a later tick may have begun since, and its token must stay the highest.
    let kept = run.start > 0 && (!run.exclusive || job.slot == Some(run.scheduled_for));
    if kept {
        return None;
    }
    // One that has begun before goes on, also where the pause came in between.
    if job.pause().is_some() && run.start == 0 && !run.despite_pause {
        return Some(Verdict::Paused);
    }
    // A manual run begins above all that began before it: above a tick that began, was given back and begins again.
    let later_began = job.last_begun > run.scheduled_for.seconds()
        || job.manual_token > fencing_token(run.scheduled_for, run.start + 1);
    if !run.scheduled_for.is_manual() && (later_began || (run.exclusive && is_overtaken(run, open))) {
        return Some(Verdict::Superseded);
    }
    if !run.exclusive {
        return None;
    }
    let others = || open.iter().filter(|other| other.is_in_the_way_of(run.scheduled_for, job.slot));
    let held = job.slot.filter(|occupant| *occupant != run.scheduled_for);
    let first = || others().next().or_else(|| first_in_line(run, open)).map(|other| other.scheduled_for);
    let Some(occupant) = held.or_else(first) else {
        // A run that held the slot and was lost with it may be going.
        return (job.quiet_ms > 0).then_some(Verdict::Quiet);
    };
    let due_at = run.scheduled_for.millis() + run.delay_ms;
    let renewed = open.iter().any(|other| other.scheduled_for == occupant && other.renewed_at >= due_at);
    let is_first = || !open.iter().any(|other| other.scheduled_for != run.scheduled_for && other.is_waiting());
    if run.waiting_since == 0
        && (run.when_busy == WhenBusy::Replace || (run.when_busy == WhenBusy::Queue && is_first()))
    {
        run.waiting_since = now;
    }
    Some(Verdict::Busy { occupant, renewed })
}

/// The run that waits in line before this one. The slot is its, as soon as it asks: a tick that comes in that moment must
/// not begin before it, or the one that waited would be superseded.
fn first_in_line<'a>(run: &RunRecord, open: &'a [RunRecord]) -> Option<&'a RunRecord> {
    let before = |other: &&RunRecord| {
        other.scheduled_for < run.scheduled_for
            && other.exclusive
            && other.when_busy == WhenBusy::Queue
            && other.is_waiting()
            && other.stop_asked.is_none()
    };
    open.iter().find(before).filter(|_| run.when_busy != WhenBusy::Replace)
}

/// Whether a later tick waits to replace what is going: the newest one wins.
fn is_overtaken(run: &RunRecord, open: &[RunRecord]) -> bool {
    open.iter().any(|other| {
        other.scheduled_for > run.scheduled_for
            && !other.scheduled_for.is_manual()
            && other.when_busy == WhenBusy::Replace
            && other.is_waiting()
            && other.stop_asked.is_none()
    })
}

/// Notes that somebody wants a run to end. Compares nothing but that it is open: whoever has it by now is to stop it.
pub(super) fn ask_stop(picture: &mut Picture, (by, reason): (&str, StopReason), changes: &mut Changes) -> Verdict {
    let Some(run) = &mut picture.run else { return Verdict::Gone };
    if !run.is_open() {
        return Verdict::Done;
    }
    if run.stop_asked.is_none() {
        run.stop_asked = Some(reason);
        run.stop_asked_by = by.into();
        (changes.job, changes.run) = (true, true);
    }
    Verdict::Asked
}
