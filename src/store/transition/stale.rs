//! That a job had no success for too long.

use super::Changes;
use super::Picture;
use crate::job::Stale;
use crate::job::Step;
use crate::job::Tick;
use crate::job::Verdict;

/// See [`Step::CallStale`].
pub(super) fn call(picture: &mut Picture, step: &Step, now: i64, changes: &mut Changes) -> Verdict {
    let Step::CallStale { by, last_success, since, after_ms, .. } = step else { return Verdict::Changed };
    let Some(job) = &mut picture.job else { return Verdict::Unregistered };
    let fresh_at = last_success.map_or(*since, Tick::millis);
    // There was a success, or the store forgot the job, of which the replica has not heard.
    if job.last_success != *last_success || job.fresh_at() != fresh_at {
        return Verdict::Changed;
    }
    match &job.stale {
        Some(said) if said.fresh_at == fresh_at && said.by == *by => return Verdict::Settled, // sent again
        Some(said) if said.fresh_at == fresh_at => return Verdict::Changed,
        _ => {}
    }
    if now < fresh_at + after_ms {
        return Verdict::TooEarly { by_ms: fresh_at + after_ms - now };
    }
    job.stale = Some(Stale { fresh_at, by: by.clone() });
    changes.job = true;
    Verdict::Settled
}
