//! The catalogue: one function per event, and no other place in the program logs.
//!
//! Names, levels and fields are what operators search, alert and build pages on: they are listed in
//! `docs/log-events.md`, a test compares that list with this file, and a change needs a line in the changelog.
//! The function's name is the event's; messages are constant, and what varies is a field.
//!
//! Levels: *error*, somebody must act; *warn*, unexpected but went on; *info*, the life of runs, tables and the
//! daemon, skips included; *debug*, for developers.

use crate::job::Ending;
use crate::job::JobName;
use crate::job::LostRunPolicy;
use crate::job::MissedReason;
use crate::job::Outcome;
use crate::job::ReplicaId;
use crate::job::RunKey;
use crate::job::SkipReason;
use crate::job::Tick;
use crate::job::TraceContext;
use crate::job::Trigger;
use crate::secret::if_without_password;
use chrono::DateTime;
use chrono::SecondsFormat;
use chrono::Utc;
use std::time::Duration;

/// Where the catalogue's events come from, whatever file they stand in: the log shows no others.
pub(super) const TARGET: &str = "onecron::telemetry::events";
/// The event whose lines are dropped first.
pub(super) const RUN_OUTPUT: &str = "run_output";
/// The event that is shown at any level.
pub(super) const LOG_DROPPED: &str = "log_dropped";

/// What every event of a run carries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunFields {
    /// The run.
    pub run: RunKey,
    /// Why it is run.
    pub trigger: Trigger,
    /// The attempt that this is about, from 1.
    pub attempt: u32,
    /// The fencing token, once the run is claimed.
    pub token: Option<u64>,
    /// The span of the run, where this replica has one.
    pub trace: Option<TraceContext>,
}

/// Raises an event; its name is a literal, because it is what operators search.
macro_rules! event {
    ($level:ident, $name:expr, $message:literal $(, $($field:tt)*)?) => {
        tracing::event!(
            name: $name, target: $crate::telemetry::events::TARGET, tracing::Level::$level,
            message = $message $(, $($field)*)?
        )
    };
}

/// Raises an event of a run.
macro_rules! run_event {
    ($level:ident, $name:expr, $run:expr, $message:literal $(, $($field:tt)*)?) => {
        event!(
            $level, $name, $message,
            job = $run.run.job.as_str(),
            run_id = %$run.run,
            scheduled_for = $run.run.scheduled_for.instant(),
            trigger = $run.trigger.as_str(),
            attempt = $run.attempt,
            token = $run.token,
            // Of the envelope, like the replica: `line` puts them there.
            trace_id = $run.trace.as_ref().map(crate::job::TraceContext::trace_id),
            span_id = $run.trace.as_ref().map(crate::job::TraceContext::span_id)
            $(, $($field)*)?
        )
    };
}

mod fleet;
mod http;
mod notify;
mod orders;
mod table;
mod traces;

pub use fleet::TableDisagrees;
pub use fleet::clock_in_order;
pub use fleet::clock_skewed;
pub use fleet::schedule_unreadable;
pub use fleet::table_agrees;
pub use fleet::table_disagrees;
pub use http::*;
pub use notify::*;
pub use orders::*;
pub use table::*;
pub use traces::*;

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// Seconds to the millisecond: more digits would be noise of binary fractions.
fn seconds(duration: Duration) -> f64 {
    (duration.as_secs_f64() * 1000.0).round() / 1000.0
}

fn instant(at: DateTime<Utc>) -> String {
    at.to_rfc3339_opts(SecondsFormat::Millis, true)
}

/// What a daemon starts with.
#[derive(Debug, Clone, Copy)]
pub struct DaemonStarted<'a> {
    /// Its process id.
    pub pid: u32,
    /// The jobs file.
    pub config: &'a str,
    /// The store's URL, as it may be shown; a password is hidden here once more.
    pub store: &'a str,
    /// The namespace of its records.
    pub namespace: &'a str,
}

/// The settings are read.
pub fn daemon_started(started: DaemonStarted<'_>) {
    let store = if_without_password(started.store);
    event!(
        INFO,
        "daemon_started",
        "daemon started",
        pid = started.pid,
        config = started.config,
        store = store,
        store_namespace = started.namespace
    );
}

/// A setting is allowed and probably not meant.
pub fn setting_warning(setting: &str, detail: &str) {
    event!(WARN, "setting_warning", "a setting is doubtful", setting, detail);
}

/// A signal came that does nothing.
pub fn signal_ignored(signal: &str, detail: &str) {
    event!(WARN, "signal_ignored", "this signal does nothing", signal, detail);
}

/// The table is loaded and the store answered: from now on ticks are claimed.
pub fn daemon_ready() {
    event!(INFO, "daemon_ready", "daemon ready");
}

/// It has ceased to be ready: `draining`, or in strict readiness `store_away`.
pub fn daemon_not_ready(reason: &'static str) {
    if reason == "draining" {
        event!(INFO, "daemon_not_ready", "daemon not ready: it is ending", reason);
    } else {
        event!(WARN, "daemon_not_ready", "daemon not ready", reason);
    }
}

/// The first signal to stop came: no tick is claimed any more.
pub fn daemon_draining(signal: &str, running: usize, drain_timeout: Duration) {
    let drain_timeout_seconds = seconds(drain_timeout);
    event!(
        INFO,
        "daemon_draining",
        "no more runs are claimed, the running ones may finish",
        signal,
        running,
        drain_timeout_seconds
    );
}

/// All runs ended in time.
pub fn daemon_drained(waited: Duration, finished: usize) {
    event!(INFO, "daemon_drained", "all runs have ended", waited_ms = millis(waited), finished);
}

/// The drain took too long: these runs are stopped.
pub fn drain_expired(runs: &[RunKey]) {
    let run_ids = runs.iter().map(RunKey::to_string).collect::<Vec<_>>().join(",");
    event!(
        ERROR,
        "drain_expired",
        "the drain timeout is over or a further signal came: the running jobs are stopped",
        running = runs.len(),
        run_ids
    );
}

/// The last line.
pub fn daemon_stopped(exit_code: u8, uptime: Duration) {
    event!(INFO, "daemon_stopped", "daemon stopped", exit_code, uptime_seconds = uptime.as_secs());
}

/// The system does not give the daemon what it needs: a thread, a timer.
pub fn daemon_failed(error: &str) {
    event!(ERROR, "daemon_failed", "the daemon cannot go on", error);
}

/// A task of the daemon panicked.
pub fn daemon_panicked(task: &str, error: &str) {
    event!(ERROR, "daemon_panicked", "a part of the daemon panicked: this is a bug", task, error);
}

/// A job is known to the store for the first time, or again after the store forgot it.
pub fn job_registered(job: &JobName, since: DateTime<Utc>) {
    event!(
        INFO,
        "job_registered",
        "the job's history starts: earlier ticks are not run",
        job = job.as_str(),
        since = instant(since)
    );
}

/// The job was registered with another schedule than before.
pub fn job_rescheduled(job: &JobName, through: Tick) {
    event!(
        WARN,
        "job_rescheduled",
        "the schedule changed: ticks of the former one up to now that nobody had taken are settled without a run",
        job = job.as_str(),
        through = through.to_string()
    );
}

/// The store has records of a job that this version cannot read. `format`: their form; 0: a field is not understood.
pub fn job_unreadable(job: &JobName, format: u32) {
    event!(
        ERROR,
        "job_unreadable",
        "records of this job were written by a newer onecron (or by hand): they are left alone, and the job does not run \
         here; run that version here too",
        job = job.as_str(),
        format
    );
}

/// Records lie ahead of the clock: one of the two is wrong.
pub fn job_ahead(job: &JobName, through: Tick) {
    event!(
        ERROR,
        "job_ahead",
        "the store has ticks of the future as decided, so they will not run: a clock is or was wrong; set the clock, and \
         if it is right now, use another namespace",
        job = job.as_str(),
        through = through.to_string()
    );
}

/// The store knew this job before, and does not any more.
pub fn job_forgotten(job: &JobName, since: DateTime<Utc>) {
    event!(
        ERROR,
        "job_forgotten",
        "the store lost its records of this job: a new history starts, and earlier ticks are not run",
        job = job.as_str(),
        since = instant(since)
    );
}

/// The store lost what it had acknowledged, or may have.
pub fn store_forgot(jobs: usize, since: DateTime<Utc>) {
    let since = instant(since);
    event!(ERROR, "store_forgot", "the store may have lost records: ticks up to `since` are not run", jobs, since);
}

/// No replica has registered the job for a month: its records were removed from the store.
pub fn job_retired(job: &JobName) {
    event!(INFO, "job_retired", "a job that is in no table any more was removed from the store", job = job.as_str());
}

/// A store that answers.
#[derive(Debug, Clone, Copy)]
pub struct StoreConnected<'a> {
    /// Its URL, as it may be shown; a password is hidden here once more.
    pub store: &'a str,
    /// How long an answer takes.
    pub latency: Duration,
    /// What it is worth: A, B or C.
    pub class: Option<&'a str>,
    /// What the server says of itself.
    pub server_version: Option<&'a str>,
    /// Which replicas can share it.
    pub reach: Option<&'a str>,
}

/// The store answered for the first time, or again after a loss.
pub fn store_connected(connected: StoreConnected<'_>) {
    let StoreConnected { store, latency, class, server_version, reach } = connected;
    let store = if_without_password(store);
    event!(
        INFO,
        "store_connected",
        "store connected",
        store,
        latency_ms = millis(latency),
        class,
        server_version,
        reach
    );
}

/// The store does not answer. `kind`: see `store::ErrorKind::as_str`.
pub fn store_lost(kind: &str, error: &str) {
    event!(ERROR, "store_lost", "the store cannot be used: due ticks wait until their starting deadlines", kind, error);
}

/// The store answers again.
pub fn store_recovered(outage: Duration) {
    event!(INFO, "store_recovered", "store recovered", outage_ms = millis(outage));
}

/// A setting of the store weakens what onecron promises.
pub fn store_unsafe(check: &str, found: &str, wanted: &str) {
    event!(WARN, "store_unsafe", "a setting of the store weakens the promise", check, found, wanted);
}

/// The wall clock stepped against the boot clock, or the machine slept. Positive: forward.
pub fn clock_jumped(by_ms: i64) {
    event!(WARN, "clock_jumped", "the wall clock stepped", by_ms);
}

/// The scheduler woke more than a second late.
pub fn tick_late(late: Duration) {
    event!(WARN, "tick_late", "the scheduler woke late", late_ms = millis(late));
}

/// Ticks came and went while this replica did not look.
pub fn ticks_passed(job: &JobName, first: Tick, through: Tick) {
    event!(
        WARN,
        "ticks_passed",
        "suspended, or the clock stepped: these ticks were not looked at here",
        job = job.as_str(),
        first = first.to_string(),
        through = through.to_string()
    );
}

/// This replica has the run.
pub fn run_claimed(run: &RunFields, claim: Duration) {
    run_event!(DEBUG, "run_claimed", run, "run claimed", claim_ms = millis(claim));
}

/// Why a due tick is not run by this replica.
#[derive(Debug, Clone, Copy)]
pub struct RunSkipped<'a> {
    /// The reason.
    pub reason: SkipReason,
    /// Who has the run, or the run that is in its way.
    pub holder: Option<&'a ReplicaId>,
    /// The run that is in its way.
    pub holder_run: Option<&'a RunKey>,
    /// How old the holder's claim or run is.
    pub age: Option<Duration>,
}

/// This replica does not run a due tick. A lost race is normal life; an unreachable store is not.
pub fn run_skipped(run: &RunFields, skipped: RunSkipped<'_>) {
    let reason = skipped.reason.as_str();
    let holder = skipped.holder.map(ReplicaId::as_str);
    let holder_run_id = skipped.holder_run.map(RunKey::to_string);
    let age_seconds = skipped.age.map(seconds);
    // Name and level of an event have to be constants.
    macro_rules! say {
        ($level:ident, $message:literal) => {
            run_event!($level, "run_skipped", run, $message, reason, holder, holder_run_id, age_seconds)
        };
    }
    match skipped.reason {
        SkipReason::ClaimedByOther => say!(INFO, "another replica has claimed this"),
        SkipReason::Baseline => say!(INFO, "the job is new here: its history begins after this tick"),
        SkipReason::Rescheduled => {
            say!(WARN, "another schedule of this job was registered before this was run");
        }
        SkipReason::Overlap => {
            say!(
                INFO,
                "another run of the job is not over: it goes on, or its owner was lost and may be running it still"
            );
        }
        SkipReason::Superseded => say!(INFO, "a later tick of the job runs instead"),
        SkipReason::StopAsked => say!(INFO, "somebody asked for its stop before it began"),
        SkipReason::StoreForgot => say!(WARN, "the store lost its records: whether somebody ran this is not known"),
        SkipReason::RecordUnreadable => say!(WARN, "the store's records of this job are of a newer form"),
        SkipReason::StoreUnavailable | SkipReason::NotDurable => say!(ERROR, "no sure answer of the store in time"),
        _ => say!(INFO, "this replica does not run this"),
    }
}

/// The system lacked something for a process or a connection that another replica, or this one later, may have: it is given back.
pub fn run_deferred(run: &RunFields, error: &str) {
    run_event!(ERROR, "run_deferred", run, "something is missing here for this run: it is given back", error);
}

/// Nobody started the run before its deadline; or, of one that was lost and was to be started again, nobody may. Said once
/// per fleet, by the replica that recorded it.
pub fn run_missed(run: &RunFields, reason: MissedReason, late: Duration) {
    let (late_seconds, reason) = (seconds(late), reason.as_str());
    match run.trigger {
        Trigger::Rerun => {
            run_event!(WARN, "run_missed", run, "this run was lost and is not started again", reason, late_seconds);
        }
        _ => run_event!(WARN, "run_missed", run, "nobody started this run in time", reason, late_seconds),
    }
}

/// Nobody started any of many runs that follow one another, in a long outage. Said once per fleet.
pub fn runs_missed(job: &JobName, (first, through): (Tick, Tick), count: u64, reason: MissedReason) {
    event!(
        WARN,
        "runs_missed",
        "nobody started these runs in time",
        job = job.as_str(),
        first = first.to_string(),
        through = through.to_string(),
        count,
        reason = reason.as_str()
    );
}

/// The process of an attempt is there, or its request is being sent; that has no `pid`.
pub fn run_started(run: &RunFields, start_delay: Duration, pid: Option<u32>) {
    run_event!(INFO, "run_started", run, "run started", start_delay_ms = millis(start_delay), pid);
}

/// One line of output.
#[derive(Debug, Clone, Copy)]
pub struct RunOutput<'a> {
    /// `stdout` or `stderr`.
    pub stream: &'static str,
    /// The line without its end.
    pub line: &'a str,
    /// Whether it was cut.
    pub truncated: bool,
}

/// The job wrote a line.
pub fn run_output(run: &RunFields, output: RunOutput<'_>) {
    run_event!(
        INFO,
        RUN_OUTPUT,
        run,
        "run output",
        stream = output.stream,
        line = output.line,
        truncated = output.truncated
    );
}

/// The log did not take all lines of an attempt that has ended. The tail in the run's record has them all.
pub fn run_output_dropped(run: &RunFields, lines: u64) {
    run_event!(WARN, "run_output_dropped", run, "some lines of output were not logged", lines);
}

/// How an attempt failed that is followed by another.
#[derive(Debug, Clone, Copy)]
pub struct RunRetried<'a> {
    /// Its exit code, where it exited.
    pub exit_code: Option<i32>,
    /// The signal that ended it, where one did.
    pub signal: Option<i32>,
    /// The status of the answer to its request, where there was one.
    pub http_status: Option<u16>,
    /// Why it failed, could not be started or was stopped, where that needs saying.
    pub error: Option<&'a str>,
    /// How long until the next one.
    pub next_attempt: Duration,
}

/// An attempt failed and another will follow.
pub fn run_retried(run: &RunFields, retried: RunRetried<'_>) {
    let RunRetried { exit_code, signal, http_status, error, next_attempt } = retried;
    run_event!(
        WARN,
        "run_retried",
        run,
        "the attempt failed, another will follow",
        exit_code,
        signal,
        http_status,
        error,
        next_attempt_ms = millis(next_attempt)
    );
}

/// TERM was sent, or a request is given up. `cause`: `timeout`, `drain`, `lease_lost`.
pub fn run_stopping(run: &RunFields, cause: &'static str) {
    run_event!(WARN, "run_stopping", run, "the run is asked to stop", cause);
}

/// KILL was sent after the grace period.
pub fn run_killed(run: &RunFields, cause: &'static str, grace: Duration) {
    run_event!(
        WARN,
        "run_killed",
        run,
        "the run did not stop in time and is killed",
        cause,
        grace_seconds = seconds(grace)
    );
}

/// How a run ended on this replica.
#[derive(Debug, Clone, Copy)]
pub struct RunFinished<'a> {
    /// As it is recorded.
    pub ending: &'a Ending,
    /// How many attempts it took.
    pub attempts: u32,
    /// How much it wrote.
    pub output_bytes: u64,
    /// Where people read what to do, if it did not succeed.
    pub runbook_url: Option<&'a str>,
}

/// A run of this replica ended.
pub fn run_finished(run: &RunFields, finished: RunFinished<'_>) {
    let RunFinished { ending, attempts, output_bytes, runbook_url } = finished;
    let Ending { outcome, exit_code, signal, http_status, duration_ms, .. } = *ending;
    let error = Some(ending.error.as_str()).filter(|error| !error.is_empty());
    macro_rules! say {
        ($level:ident, $message:literal) => {
            run_event!(
                $level,
                "run_finished",
                run,
                $message,
                outcome = outcome.as_str(),
                exit_code,
                signal,
                http_status,
                duration_ms,
                attempts,
                output_bytes,
                error,
                runbook_url
            )
        };
    }
    match outcome {
        Outcome::Succeeded => say!(INFO, "run finished"),
        Outcome::Replaced => say!(INFO, "run stopped: a later one takes its place"),
        Outcome::Cancelled => say!(INFO, "run stopped, as somebody asked"),
        _ => say!(ERROR, "run did not succeed"),
    }
}

/// A run of this replica ended, and the store has not recorded how.
pub fn run_unrecorded(run: &RunFields, error: &str) {
    run_event!(ERROR, "run_unrecorded", run, "how this run ended is not recorded", error);
}

/// A run whose owner gave no sign of life.
#[derive(Debug, Clone, Copy)]
pub struct RunLost<'a> {
    /// Its owner.
    pub holder: &'a ReplicaId,
    /// What happens to it.
    pub policy: LostRunPolicy,
}

/// The owner of a run vanished. Said once per fleet, by the replica that recorded it.
pub fn run_lost(run: &RunFields, lost: RunLost<'_>) {
    let holder = lost.holder.as_str();
    run_event!(ERROR, "run_lost", run, "the replica that ran this has vanished", holder, policy = lost.policy.as_str());
}

/// This replica could not renew a run of its own for a whole lease, or somebody else has the run (`holder`).
pub fn lease_lost(run: &RunFields, holder: Option<&ReplicaId>, policy: LostRunPolicy, without_renewal: Duration) {
    let holder = holder.map(ReplicaId::as_str);
    let for_ms = millis(without_renewal);
    run_event!(ERROR, "lease_lost", run, "this run could not be renewed", holder, policy = policy.as_str(), for_ms);
}

/// The guardian process ended and was started again. `running`: runs that were without it for that long.
pub fn guardian_restarted(reason: &str, pid: u32, running: usize) {
    event!(WARN, "guardian_restarted", "the guardian process ended and was started again", reason, pid, running);
}

/// There is no guardian process, and none can be started. Said once, until there is one again.
pub fn guardian_missing(error: &str) {
    event!(ERROR, "guardian_missing", "without a guardian process, guarded runs are left to other replicas", error);
}

/// Standard output was stuck and lines were dropped.
pub(super) fn log_dropped(output_lines: u64, other_lines: u64) {
    event!(WARN, LOG_DROPPED, "standard output did not take all lines", output_lines, other_lines);
}
