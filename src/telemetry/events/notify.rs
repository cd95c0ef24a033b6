//! Events about who is told of jobs, and about what jobs' records say of longer times.

use super::RunFields;
use super::seconds;
use crate::job::JobName;
use crate::job::Tick;
use std::time::Duration;

/// A time of trouble that a success ended.
#[derive(Debug, Clone, Copy)]
pub struct JobRecovered {
    /// Failures in it.
    pub failures: u64,
    /// Ticks in it that nobody ran.
    pub missed: u64,
    /// From its first failure, or missed tick, to the success.
    pub failing_for: Duration,
}

/// The first success after failures, or after ticks that nobody ran. Said once per fleet, by the replica that ran it.
pub fn job_recovered(run: &RunFields, recovered: JobRecovered) {
    let JobRecovered { failures, missed, failing_for } = recovered;
    let failing_for_seconds = seconds(failing_for);
    run_event!(INFO, "job_recovered", run, "the job succeeds again", failures, missed, failing_for_seconds);
}

/// There was no success for the job's `staleAfter`. Said once per fleet, by the replica that recorded it.
pub fn job_stale(job: &JobName, last_success: Option<Tick>, stale_after: Duration, runbook_url: Option<&str>) {
    event!(
        ERROR,
        "job_stale",
        "the job had no success for too long",
        job = job.as_str(),
        last_success = last_success.map(|tick| tick.to_string()),
        stale_after_seconds = seconds(stale_after),
        runbook_url
    );
}

/// A message, and to whom.
#[derive(Debug, Clone, Copy)]
pub struct Sent<'a> {
    /// The name in the table.
    pub notifier: &'a str,
    /// `webhook`, `slack`, `pagerduty` or `ping`.
    pub kind: &'static str,
    /// `failure`, `recovery` and so on; `start`.
    pub about: &'static str,
    /// A job that it is about.
    pub job: &'a JobName,
    /// How many such things it tells of.
    pub count: usize,
    /// The status of the answer, where there was one.
    pub status: Option<u16>,
    /// How many tries it took.
    pub attempts: u32,
}

/// Raises an event of a message.
macro_rules! sent_event {
    ($level:ident, $name:expr, $sent:expr, $message:literal $(, $($field:tt)*)?) => {
        event!(
            $level, $name, $message,
            notifier = $sent.notifier,
            "type" = $sent.kind,
            about = $sent.about,
            job = $sent.job.as_str(),
            count = $sent.count,
            status = $sent.status,
            attempts = $sent.attempts
            $(, $($field)*)?
        )
    };
}

/// Somebody was told.
pub fn notify_sent(sent: Sent<'_>) {
    sent_event!(DEBUG, "notify_sent", sent, "a notifier has taken a message");
}

/// Somebody could not be told.
pub fn notify_failed(sent: Sent<'_>, error: &str) {
    sent_event!(WARN, "notify_failed", sent, "a notifier has not taken a message, which is given up", error);
}

/// There was no place, or no time, for so many things that somebody was to be told, or no sense in it: then it is about one
/// job.
pub fn notify_dropped(notifier: &str, count: u64, reason: &'static str, job: Option<&JobName>) {
    let job = job.map(JobName::as_str);
    event!(WARN, "notify_dropped", "a notifier is not told of some things", notifier, job, count, reason);
}
