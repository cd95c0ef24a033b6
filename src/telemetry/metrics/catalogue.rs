//! All metrics: names, labels, buckets and what they are. `docs/metrics.md` lists the same, and a test compares the two.
//!
//! Labels come from closed sets and the names of the table's jobs. None is called `job`, `namespace`, `pod`, `instance`,
//! `service`, `container` or `endpoint`: those are Prometheus' own, and it renames ours where they meet.

use prometheus::CounterVec;
use prometheus::GaugeVec;
use prometheus::HistogramOpts;
use prometheus::HistogramVec;
use prometheus::Opts;
use prometheus::Registry;

/// What a metric is.
#[cfg(test)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Counter,
    Gauge,
    Histogram,
}

/// A metric as operators know it.
#[cfg(test)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry {
    pub name: &'static str,
    pub kind: Kind,
    pub labels: &'static [&'static str],
    pub help: &'static str,
}

/// Buckets in seconds: what the scheduler does by itself takes milliseconds.
const TICK_DELAY: &[f64] = &[0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 30.0];
/// Starts may wait for places, slots and stores, up to an hour.
const START_DELAY: &[f64] =
    &[0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 15.0, 60.0, 300.0, 900.0, 3600.0];
/// Requests end after ten seconds at most.
const REQUEST: &[f64] = &[0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];
/// From a ping to a night's work.
const RUN: &[f64] = &[0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 3600.0, 14400.0];

const SOUND: &str = "names, labels and buckets of the catalogue are right, as a test shows";

/// A metric without values yet, in the registry.
fn counter(registry: &Registry, (name, help): (&str, &str), labels: &[&str]) -> CounterVec {
    let metric = CounterVec::new(Opts::new(name, help), labels).expect(SOUND);
    registry.register(Box::new(metric.clone())).expect(SOUND);
    metric
}

fn gauge(registry: &Registry, (name, help): (&str, &str), labels: &[&str]) -> GaugeVec {
    let metric = GaugeVec::new(Opts::new(name, help), labels).expect(SOUND);
    registry.register(Box::new(metric.clone())).expect(SOUND);
    metric
}

fn histogram(registry: &Registry, (name, help): (&str, &str), labels: &[&str], buckets: &[f64]) -> HistogramVec {
    let options = HistogramOpts::new(name, help).buckets(buckets.to_vec());
    let metric = HistogramVec::new(options, labels).expect(SOUND);
    registry.register(Box::new(metric.clone())).expect(SOUND);
    metric
}

macro_rules! catalogue {
    (
        counters { $($c:ident = $c_name:literal [$($c_label:literal),*] $c_help:literal;)* }
        gauges { $($g:ident = $g_name:literal [$($g_label:literal),*] $g_help:literal;)* }
        histograms { $($h:ident = $h_name:literal [$($h_label:literal),*] $h_buckets:ident $h_help:literal;)* }
    ) => {
        /// Each metric. One without labels has one value, that of no labels.
        pub struct Families {
            $(pub $c: CounterVec,)*
            $(pub $g: GaugeVec,)*
            $(pub $h: HistogramVec,)*
        }

        impl Families {
            /// All of them, in a registry.
            pub fn new(registry: &Registry) -> Self {
                Self {
                    $($c: counter(registry, ($c_name, $c_help), &[$($c_label),*]),)*
                    $($g: gauge(registry, ($g_name, $g_help), &[$($g_label),*]),)*
                    $($h: histogram(registry, ($h_name, $h_help), &[$($h_label),*], $h_buckets),)*
                }
            }
        }

        /// The same, as operators know them.
        #[cfg(test)]
        pub const ALL: &[Entry] = &[
            $(Entry { name: $c_name, kind: Kind::Counter, labels: &[$($c_label),*], help: $c_help },)*
            $(Entry { name: $g_name, kind: Kind::Gauge, labels: &[$($g_label),*], help: $g_help },)*
            $(Entry { name: $h_name, kind: Kind::Histogram, labels: &[$($h_label),*], help: $h_help },)*
        ];
    };
}

catalogue! {
    counters {
        config_reloads = "onecron_config_reloads_total" ["result"] "Looks at the jobs files.";
        store_requests = "onecron_store_requests_total" ["store", "operation", "result"] "Requests to the store.";
        claims = "onecron_claims_total" ["job_name", "result"] "Claims tried by this replica.";
        lease_lost = "onecron_lease_lost_total" ["job_name"] "Runs of this replica whose lease was lost before they ended.";
        runs = "onecron_runs_total" ["job_name", "outcome"] "Finished runs executed here.";
        runs_skipped = "onecron_runs_skipped_total" ["job_name", "reason"] "Due runs not executed here.";
        runs_missed = "onecron_runs_missed_total" ["job_name", "reason"] "Due runs that nobody started in time, recorded by this replica.";
        runs_lost = "onecron_runs_lost_total" ["job_name"] "Runs whose replica vanished, recorded by this replica.";
        run_retries = "onecron_run_retries_total" ["job_name"] "Failed attempts that another one follows.";
        run_output_truncated = "onecron_run_output_truncated_total" ["job_name"] "Output lines that were cut, or dropped from the log.";
        notifications = "onecron_notifications_total" ["notifier", "result"] "Things that a notifier was to be told.";
        spans_lost = "onecron_spans_lost_total" ["reason"] "Spans of runs that reach no collector.";
        http_requests = "onecron_http_requests_total" ["route", "method", "code"] "HTTP requests served.";
        cpu_seconds = "process_cpu_seconds_total" [] "User and system CPU time of the daemon itself.";
    }
    gauges {
        build_info = "onecron_build_info" ["version", "revision", "rustc"] "Version of this replica; always 1.";
        config_info = "onecron_config_info" ["revision", "zone_data"] "Job table in force; always 1.";
        reload_successful = "onecron_config_last_reload_successful" [] "Whether the jobs files on disk are the table in force.";
        reload_success_timestamp = "onecron_config_last_reload_success_timestamp_seconds" [] "When the table in force was loaded.";
        jobs = "onecron_jobs" ["state"] "Jobs in the table in force.";
        job_info = "onecron_job_info" ["job_name", "schedule", "time_zone", "concurrency_policy"] "What a job is; always 1.";
        ready = "onecron_ready" [] "Whether this replica claims ticks: its store has answered once, and it is not draining.";
        draining = "onecron_draining" [] "Whether this replica is about to end.";
        replicas = "onecron_replicas" [] "Replicas that the store has heard of of late.";
        last_tick = "onecron_scheduler_last_tick_timestamp_seconds" [] "When the scheduler last looked at its schedule.";
        places = "onecron_places" [] "Runs that this replica takes at a time; 0: any number.";
        store_up = "onecron_store_up" ["store"] "Whether the store answered the last look at it, once a second.";
        store_clock_offset = "onecron_store_clock_offset_seconds" ["store"] "This machine's clock minus the store's.";
        store_unsafe = "onecron_store_unsafe" ["check"] "1 while a setting of the store weakens the promise.";
        leases = "onecron_leases" [] "Runs that hold a place here: they begin, run, end or wait for another attempt.";
        runs_running = "onecron_runs_running" ["job_name"] "Runs executing here now.";
        first_seen = "onecron_job_first_seen_timestamp_seconds" ["job_name"] "Since when the store knows the job.";
        last_due = "onecron_job_last_due_timestamp_seconds" ["job_name"] "Latest tick that was due; absent while the job is suspended or paused.";
        last_claimed = "onecron_job_last_claimed_timestamp_seconds" ["job_name"] "Latest tick that somebody claimed, or that was settled without a run.";
        last_success = "onecron_job_last_success_timestamp_seconds" ["job_name"] "End of the latest successful run; absent before the first.";
        last_failure = "onecron_job_last_failure_timestamp_seconds" ["job_name"] "End of the latest failed run; absent where none is remembered.";
        last_duration = "onecron_job_last_duration_seconds" ["job_name"] "Duration of the latest finished run.";
        last_exit_code = "onecron_job_last_exit_code" ["job_name"] "Exit code of the latest finished run; absent where it had none.";
        consecutive_failures = "onecron_job_consecutive_failures" ["job_name"] "Failures since the last success.";
        next_run = "onecron_job_next_run_timestamp_seconds" ["job_name"] "Next tick by this replica's table; absent while the job is suspended.";
        stale_after = "onecron_job_stale_after_seconds" ["job_name"] "The job's staleAfter; absent without one, and while the job is suspended.";
        open_fds = "process_open_fds" [] "Open file descriptors.";
        max_fds = "process_max_fds" [] "How many may be open.";
        virtual_memory = "process_virtual_memory_bytes" [] "Virtual memory.";
        resident_memory = "process_resident_memory_bytes" [] "Resident memory.";
        threads = "process_threads" [] "Threads.";
        start_time = "process_start_time_seconds" [] "When the daemon started.";
    }
    histograms {
        tick_delay = "onecron_tick_delay_seconds" [] TICK_DELAY "From the instant that something was due to the look at it.";
        start_delay = "onecron_start_delay_seconds" [] START_DELAY "From the instant that a run was due to its start.";
        store_duration = "onecron_store_request_duration_seconds" ["store", "operation"] REQUEST "Duration of requests to the store.";
        run_duration = "onecron_run_duration_seconds" ["job_name"] RUN "Wall time of finished runs executed here, attempts together.";
    }
}
