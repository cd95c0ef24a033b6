//! Compares the events of the code with the table in `docs/log-events.md`.

use super::events;
use super::events::*;
use super::line::Fields;
use super::line::level_word;
use crate::job::Ending;
use crate::job::Former;
use crate::job::JobName;
use crate::job::LostRunPolicy;
use crate::job::MissedReason;
use crate::job::Outcome;
use crate::job::Pause;
use crate::job::ReplicaId;
use crate::job::RunKey;
use crate::job::SkipReason;
use crate::job::TableChanges;
use crate::job::Tick;
use crate::job::TraceContext;
use crate::job::Trigger;
use chrono::DateTime;
use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::Mutex;
use std::time::Duration;
use tracing::Event;
use tracing::Level;
use tracing::Subscriber;
use tracing_subscriber::layer::Context;
use tracing_subscriber::layer::Layer;
use tracing_subscriber::layer::SubscriberExt;

const DOCS: &str = include_str!("../../docs/log-events.md");
const CODE: [&str; 7] = [
    include_str!("events.rs"),
    include_str!("events/fleet.rs"),
    include_str!("events/http.rs"),
    include_str!("events/notify.rs"),
    include_str!("events/orders.rs"),
    include_str!("events/table.rs"),
    include_str!("events/traces.rs"),
];
const RUN_FIELDS: [&str; 6] = ["job", "run_id", "scheduled_for", "trigger", "attempt", "token"];
/// What belongs to the lines of all events, and so is the name of no field.
const ENVELOPE: [&str; 12] = [
    "timestamp",
    "level",
    "event",
    "message",
    "service",
    "version",
    "replica",
    "pod",
    "namespace",
    "node",
    "trace_id",
    "span_id",
];

/// An event as operators know it: the levels it can have, and its fields in order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Entry {
    levels: BTreeSet<String>,
    fields: Vec<String>,
}

/// Name, level and fields.
pub(super) type Raised = (&'static str, Level, Fields);

#[derive(Clone, Default)]
struct Capture(Arc<Mutex<Vec<Raised>>>);

impl<S: Subscriber> Layer<S> for Capture {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let mut fields = Fields::default();
        event.record(&mut fields);
        let metadata = event.metadata();
        assert_eq!(metadata.target(), events::TARGET, "or the log does not show {}", metadata.name());
        self.0.lock().unwrap().push((metadata.name(), *metadata.level(), fields));
    }
}

fn run() -> RunFields {
    let run = RunKey::new(JobName::new("nightly").unwrap(), Tick::from_seconds(1_772_330_400));
    let trace = TraceContext { trace: 0xabc, span: 0xdef, is_sampled: true, state: String::new() };
    RunFields { run, trigger: Trigger::Schedule, attempt: 1, token: Some(7), trace: Some(trace) }
}

fn raise_events_of_the_daemon() {
    let second = Duration::from_secs(1);
    let at = DateTime::UNIX_EPOCH;
    daemon_started(DaemonStarted {
        pid: 1,
        config: "jobs.yaml",
        store: "redis://:hunter2@cache",
        namespace: "default",
    });
    setting_warning("--store", "a password in an argument");
    signal_ignored("HUP", "restart");
    daemon_ready();
    daemon_not_ready("draining");
    daemon_not_ready("store_away");
    api_denied("trigger", [127, 0, 0, 1].into(), 2);
    api_called("trigger", "nightly", ("ada@10.0.0.7", [10, 0, 0, 7].into()), "done");
    http_listening(([127, 0, 0, 1], 8080).into(), true);
    tls_replaced("/etc/onecron/tls.crt");
    tls_refused("no key");
    daemon_draining("TERM", 2, second);
    daemon_drained(second, 2);
    drain_expired(&[run().run]);
    daemon_stopped(0, second);
    daemon_failed("too many open files");
    daemon_panicked("scheduler", "index out of bounds");
    table_loaded(TableLoaded { revision: "abc", zone_data: "2026a", jobs: 3, file: "jobs.yaml" });
    table_warning("W301", "jobs[0].schedule", "both day fields are restricted");
    let changes = &TableChanges { added: vec![run().run.job], scheduler: true, ..TableChanges::default() };
    table_replaced(TableReplaced { revision: "def", previous: "abc", changes, cause: "timer" });
    table_unchanged("abc", "signal", false);
    table_unchanged("abc", "timer", true);
    let first = "jobs.yaml:3:5: E204 jobs[0]: `schedule` is required";
    table_refused(TableRefused { revision: "abc", problems: 2, first, hint: "write another", cause: "event" });
    config_not_reloadable("/etc/onecron/jobs.yaml", "it is mounted alone");
    job_registered(&run().run.job, at);
    job_forgotten(&run().run.job, at);
    store_forgot(3, at);
    job_rescheduled(&run().run.job, Tick::from_seconds(60));
    schedule_unreadable(&run().run.job, &Former::new(60, "UTC", "@daily"));
    job_ahead(&run().run.job, Tick::from_seconds(60));
    run_deferred(&run(), "too many open files");
    job_unreadable(&run().run.job, 2);
    job_retired(&run().run.job);
    let pause = Pause::new("ada@web", "the database moves");
    job_paused(&run().run.job, &pause);
    job_resumed(&run().run.job);
    all_paused(&pause);
    all_resumed();
    let (store, class, server_version) = ("redis://:hunter2@cache", Some("B"), Some("7.0.15"));
    store_connected(StoreConnected { store, latency: second, class, server_version, reach: Some("network") });
    store_lost("maybe_applied", "no answer");
    store_recovered(second);
    store_unsafe("maxmemory-policy", "allkeys-lru", "noeviction");
    for severe in [false, true] {
        clock_skewed(-3000, second, severe);
    }
    for lasting in [false, true] {
        let (others, jobs) = (&[ReplicaId::new("web-2", "1")], &[run().run.job]);
        let (revision, detail) = ("abc", "web-2-1 has table def");
        table_disagrees(TableDisagrees { revision, others, differs: &["table", "jobs"], jobs, detail, lasting });
    }
    table_agrees("abc");
    clock_in_order(3, second);
    clock_jumped(-3_600_000);
    tick_late(second);
    ticks_passed(&run().run.job, Tick::from_seconds(1), Tick::from_seconds(60));
    guardian_missing("no more processes");
    guardian_restarted("killed by signal 9", 4, 2);
    tracing_started("http://collector:4318/v1/traces", "always_on");
    trace_export_failed("connection refused");
    trace_export_recovered();
    spans_rejected(1, "too old");
    spans_dropped(3);
    log_dropped(1, 2);
}

fn raise_events_of_runs() {
    let second = Duration::from_secs(1);
    let run = &run();
    let replica = &ReplicaId::new("web-1", "7f3a");
    run_requested(run, "ada@web");
    run_cancelled(run, "ada@web");
    run_claimed(run, second);
    for &reason in SkipReason::ALL {
        let (holder, holder_run, age) = (Some(replica), Some(&run.run), Some(second));
        run_skipped(run, RunSkipped { reason, holder, holder_run, age });
    }
    run_missed(run, MissedReason::NoReplica, second);
    runs_missed(&run.run.job, (Tick::from_seconds(1), Tick::from_seconds(60)), 9, MissedReason::NoReplica);
    run_started(run, second, Some(4));
    run_output(run, RunOutput { stream: "stdout", line: "hello", truncated: false });
    run_output_dropped(run, 3);
    let next_attempt = second;
    run_retried(
        run,
        RunRetried { exit_code: Some(1), signal: Some(9), http_status: Some(503), error: Some("no"), next_attempt },
    );
    run_stopping(run, "timeout");
    run_killed(run, "timeout", second);
    for outcome in [Outcome::Succeeded, Outcome::Failed] {
        let (error, output_tail) = ("no".to_owned(), String::new());
        let ending = Ending {
            outcome,
            exit_code: Some(0),
            signal: Some(9),
            http_status: Some(200),
            duration_ms: 5,
            error,
            output_tail,
        };
        run_finished(
            run,
            RunFinished { ending: &ending, attempts: 1, output_bytes: 5, runbook_url: Some("https://wiki") },
        );
    }
    run_unrecorded(run, "the store knows no such run");
    run_lost(run, RunLost { holder: replica, policy: LostRunPolicy::Report });
    lease_lost(run, Some(replica), LostRunPolicy::Rerun, second);
    job_recovered(run, JobRecovered { failures: 3, missed: 0, failing_for: second });
}

fn raise_events_of_notifiers() {
    let job = &run().run.job;
    job_stale(job, Some(Tick::from_seconds(60)), Duration::from_secs(1), Some("https://wiki"));
    let (notifier, kind, about) = ("ops-chat", "slack", "failure");
    let sent = Sent { notifier, kind, about, job, count: 1, status: Some(200), attempts: 1 };
    notify_sent(sent);
    notify_failed(sent, "POST ***: connect: connection refused");
    notify_dropped("ops-chat", 1, "recovered", Some(job));
}

/// Every event raised once in each of its forms, with all that is optional.
pub(super) fn raised() -> Vec<Raised> {
    let capture = Capture::default();
    tracing::subscriber::with_default(tracing_subscriber::registry().with(capture.clone()), || {
        raise_events_of_the_daemon();
        raise_events_of_runs();
        raise_events_of_notifiers();
    });
    let mut raised = capture.0.lock().unwrap();
    std::mem::take(&mut raised)
}

fn catalogue_of_the_code() -> BTreeMap<String, Entry> {
    let mut catalogue: BTreeMap<String, Entry> = BTreeMap::new();
    for (name, level, fields) in raised() {
        let fields: Vec<String> = fields.fields.iter().map(|(name, _)| (*name).to_owned()).collect();
        let entry = catalogue.entry(name.to_owned()).or_default();
        assert!(entry.fields.is_empty() || entry.fields == fields, "{name} has different fields in its forms");
        entry.fields = fields;
        entry.levels.insert(level_word(level).to_owned());
    }
    catalogue
}

/// Words in backticks.
fn quoted(cell: &str) -> Vec<String> {
    cell.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

fn catalogue_of_the_docs() -> BTreeMap<String, Entry> {
    let mut catalogue = BTreeMap::new();
    for row in DOCS.lines().filter(|line| line.starts_with("| `")) {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        let [_, name, level, _, fields, _] = cells[..] else { panic!("not four cells: {row}") };
        let levels = level.split([' ', ',']).filter(|word| ["debug", "info", "warn", "error"].contains(word));
        let mut entry = Entry { levels: levels.map(str::to_owned).collect(), fields: Vec::new() };
        if fields.starts_with("run fields") {
            entry.fields.extend(RUN_FIELDS.map(str::to_owned));
        }
        entry.fields.extend(quoted(fields));
        assert!(catalogue.insert(quoted(name).remove(0), entry).is_none(), "{name} is there twice");
    }
    catalogue
}

#[test]
fn the_docs_list_the_events_that_the_code_has() {
    assert_eq!(catalogue_of_the_code(), catalogue_of_the_docs());
}

#[test]
fn every_function_of_the_catalogue_is_raised_here_under_its_own_name() {
    let functions: BTreeSet<String> = CODE
        .iter()
        .flat_map(|code| code.lines())
        .filter_map(|line| line.strip_prefix("pub fn ").or(line.strip_prefix("pub(super) fn ")))
        .filter_map(|rest| rest.split(['(', '<']).next())
        .map(str::to_owned)
        .collect();
    assert_eq!(functions, catalogue_of_the_code().into_keys().collect());
}

#[test]
fn no_field_has_a_name_of_the_envelope_and_no_name_is_there_twice() {
    for (name, entry) in catalogue_of_the_code() {
        let distinct: BTreeSet<&String> = entry.fields.iter().collect();
        assert_eq!(distinct.len(), entry.fields.len(), "{name}");
        assert!(entry.fields.iter().all(|field| !ENVELOPE.contains(&field.as_str())), "{name}");
    }
}

#[test]
fn events_of_runs_always_carry_the_run_fields() {
    for (name, entry) in catalogue_of_the_code() {
        if name.starts_with("run_") || name == "lease_lost" {
            assert_eq!(entry.fields[..RUN_FIELDS.len()], RUN_FIELDS, "{name}");
        }
    }
}

#[test]
fn what_is_not_known_leaves_no_field() {
    let capture = Capture::default();
    tracing::subscriber::with_default(tracing_subscriber::registry().with(capture.clone()), || {
        let skipped = RunSkipped { reason: SkipReason::Paused, holder: None, holder_run: None, age: None };
        events::run_skipped(&RunFields { token: None, ..run() }, skipped);
    });
    let raised = capture.0.lock().unwrap();
    let names: Vec<&str> = raised[0].2.fields.iter().map(|(name, _)| *name).collect();
    assert_eq!(names, ["job", "run_id", "scheduled_for", "trigger", "attempt", "reason"]);
}

#[test]
fn no_event_shows_a_password() {
    assert!(raised().iter().all(|event| !format!("{event:?}").contains("hunter2")));
}
