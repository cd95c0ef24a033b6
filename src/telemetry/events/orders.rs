//! Events about what people ask for.

use super::RunFields;
use crate::job::JobName;
use crate::job::Pause;

/// What a pause says: since when it lasts is the line's time, or before this replica looked.
fn reason(pause: &Pause) -> Option<&str> {
    Some(pause.reason.as_str()).filter(|reason| !reason.is_empty())
}

/// Nothing of a job is started until it is resumed.
pub fn job_paused(job: &JobName, pause: &Pause) {
    let (by, reason) = (pause.by.as_str(), reason(pause));
    event!(INFO, "job_paused", "the job is paused: its ticks are skipped", job = job.as_str(), by, reason);
}

/// The job goes on.
pub fn job_resumed(job: &JobName) {
    event!(INFO, "job_resumed", "the job goes on with its next tick", job = job.as_str());
}

/// Nothing of any job is started until all are resumed.
pub fn all_paused(pause: &Pause) {
    let (by, reason) = (pause.by.as_str(), reason(pause));
    event!(WARN, "all_paused", "all jobs are paused: their ticks are skipped", by, reason);
}

/// The pause of all jobs is over.
pub fn all_resumed() {
    event!(INFO, "all_resumed", "jobs that are not paused themselves go on with their next tick");
}

/// Somebody ordered a run; whichever replica is first runs it.
pub fn run_requested(run: &RunFields, by: &str) {
    run_event!(INFO, "run_requested", run, "somebody ordered a run", by);
}

/// Somebody wants a run of this replica to end.
pub fn run_cancelled(run: &RunFields, by: &str) {
    run_event!(INFO, "run_cancelled", run, "somebody asked for the end of this run", by);
}
