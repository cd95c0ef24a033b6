//! A job's schedule changes: the ticks of the former one up to that moment stay owed, those of the new one begin after it.

use crate::job::FORMER_MOST;
use crate::job::Former;
use crate::job::JobRecord;
use crate::job::Registration;

/// Takes over the schedule of a registration, and tells whether it is another one. With too many former ones that
/// still owe ticks it stays what it is: dropping one would lose its ticks. Whoever has that table registers it again.
pub(super) fn reschedule(job: &mut JobRecord, registration: &Registration, now: i64) -> bool {
    if let Some((from, until)) = registration.passed
        && job.decided_through >= from
        && job.former.iter().any(|former| former.until == until)
    {
        job.decided_through = job.decided_through.max(until);
    }
    // The newest one stays: its end is what no replica that has not heard of it may pass.
    while job.former.len() > 1 && job.former[0].until <= job.decided_through {
        job.former.remove(0);
    }
    let same = job.schedule == registration.schedule && job.zone == registration.zone;
    if same || job.former.len() >= FORMER_MOST {
        return false;
    }
    let last = job.former.last().map_or(i64::MIN, |former| former.until);
    job.former.push(Former::new(now.div_euclid(1000).max(last), &job.zone, &job.schedule));
    job.schedule.clone_from(&registration.schedule);
    job.zone.clone_from(&registration.zone);
    true
}

/// Whether the schedule changed after one instant and before the other (seconds). Then whoever says that no tick lies
/// between them knows only one of the schedules.
pub(super) fn changed_between(job: &JobRecord, previous: i64, tick: i64) -> bool {
    job.former.iter().any(|former| previous < former.until && former.until < tick)
}
