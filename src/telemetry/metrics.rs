//! What Prometheus is told: counters and gauges of this replica, and what it last read of the fleet.
//!
//! Whoever logs an event also counts it, in the same place: see `daemon`. A job's series are there from the moment that
//! it is in the table, at 0 (an increase from nothing is none to Prometheus), and go when it leaves; what its last runs
//! still do then is logged, and not counted.

mod catalogue;
#[cfg(test)]
mod dashboard_tests;
mod process;
#[cfg(test)]
mod tests;

use crate::clock::Clock;
use crate::job::JobName;
use crate::job::JobSpec;
use crate::job::JobTable;
use crate::job::MissedReason;
use crate::job::Outcome;
use crate::job::SkipReason;
use crate::job::words;
use catalogue::Families;
use chrono::DateTime;
use chrono::Utc;
use prometheus::CounterVec;
use prometheus::GaugeVec;
use prometheus::Registry;
use prometheus::TextEncoder;
use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::MutexGuard;
use std::sync::PoisonError;
use std::time::Duration;

/// Version of the compiler.
pub const RUSTC: &str = env!("ONECRON_RUSTC");

/// The commit, where whoever built it said which.
pub fn revision() -> Option<&'static str> {
    option_env!("ONECRON_REVISION").filter(|text| !["", "unknown"].contains(text))
}

words! {
    /// What a look at the jobs files led to.
    Reloaded {
        /// Another table is in force.
        Replaced = "replaced",
        /// They are the table in force.
        Unchanged = "unchanged",
        /// They cannot be used.
        Refused = "refused",
    }
}

words! {
    /// How a request to the store ended.
    Requested {
        /// It was answered.
        Ok = "ok",
        /// The store refused it: its settings, or ours, are wrong.
        Refused = "refused",
        /// It was not sent, or met a server that takes no writes: nothing happened.
        Error = "error",
        /// There was no answer in time, an error of the server, or too few of its replicas have it: it may have been done.
        Unknown = "unknown",
    }
}

words! {
    /// What a claim led to.
    Claimed {
        /// This replica has the tick.
        Won = "won",
        /// Another one has it.
        Held = "held",
        /// Nobody gets it: it is decided, too old, not due yet, paused, or the store does not know enough.
        Refused = "refused",
        /// There was no answer.
        Error = "error",
    }
}

mod notifications;
mod spans;

pub use notifications::Notified;
pub use spans::SpanLoss;

words! {
    /// A request to the store.
    Operation {
        /// Steps: claims, begins, renewals, ends and others.
        Apply = "apply",
        /// Reading all jobs.
        Jobs = "jobs",
        /// Reading a job's history.
        History = "history",
        /// Its clock.
        ServerTime = "server_time",
        /// What it is, once a second.
        Identity = "identity",
        /// Its settings.
        Probe = "probe",
        /// Removing jobs that are in no table.
        Retire = "retire",
        /// Writing one's presence and reading those of others.
        Meet = "meet",
        /// Removing one's presence.
        Leave = "leave",
    }
}

/// How jobs stand.
const JOB_STATES: [&str; 3] = ["active", "suspended", "paused"];

/// What the store knows of a job, in seconds (of the epoch, where it is an instant). `None`: it knows no such thing.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct JobFacts {
    /// Since when it knows the job.
    pub first_seen: Option<f64>,
    /// The latest tick that was due.
    pub last_due: Option<f64>,
    /// The latest tick that somebody claimed or decided.
    pub last_claimed: Option<f64>,
    /// The end of the latest success.
    pub last_success: Option<f64>,
    /// The end of the latest failure.
    pub last_failure: Option<f64>,
    /// How long the latest finished run took.
    pub last_duration: Option<f64>,
    /// How it exited.
    pub last_exit_code: Option<f64>,
    /// Failures since the last success.
    pub consecutive_failures: Option<f64>,
    /// Whether somebody paused it.
    pub is_paused: bool,
}

/// A job of the table.
struct Known {
    spec: Arc<JobSpec>,
    is_paused: bool,
    /// Its next tick, as computed last.
    next: Option<DateTime<Utc>>,
}

/// All metrics of a daemon. Shared by whoever counts and whoever shows them; no method waits for anything.
pub struct Metrics {
    registry: Registry,
    families: Families,
    clock: Arc<dyn Clock>,
    /// What kind of store there is.
    store: String,
    jobs: Mutex<BTreeMap<JobName, Known>>,
    /// Checks of the store that have failed so far.
    checks: Mutex<BTreeSet<&'static str>>,
    /// Names of notifiers.
    notifiers: Mutex<BTreeSet<String>>,
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Metrics").field("store", &self.store).finish_non_exhaustive()
    }
}

/// A poisoned lock is taken: numbers are not worth a second panic.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn seconds(at: DateTime<Utc>) -> f64 {
    at.timestamp_millis() as f64 / 1000.0
}

/// Labels of what a job is.
fn info_of(spec: &JobSpec) -> [&str; 4] {
    let schedule = &spec.schedule;
    [spec.name.as_str(), schedule.text(), schedule.zone().name(), spec.concurrency_policy.as_str()]
}

/// How runs end that were executed.
fn outcomes() -> impl Iterator<Item = &'static str> {
    let is_executed = |outcome: &&Outcome| !matches!(outcome, Outcome::Missed | Outcome::Skipped);
    Outcome::ALL.iter().filter(is_executed).map(|outcome| outcome.as_str())
}

fn set(family: &GaugeVec, labels: &[&str], value: f64) {
    family.with_label_values(labels).set(value);
}

/// Sets it, or takes it away.
fn set_or_drop(family: &GaugeVec, labels: &[&str], value: Option<f64>) {
    match value {
        Some(value) => set(family, labels, value),
        // Fails where there is none, which is what is wanted.
        None => drop(family.remove_label_values(labels)),
    }
}

impl Metrics {
    /// For a daemon that starts now, with a store at this URL.
    pub fn new(clock: Arc<dyn Clock>, store_url: &str) -> Self {
        let registry = Registry::new();
        let families = Families::new(&registry);
        let store = store_url.split(':').next().unwrap_or_default().to_owned();
        let (jobs, checks, notifiers) = (Mutex::default(), Mutex::default(), Mutex::default());
        let metrics = Self { registry, families, clock, store, jobs, checks, notifiers };
        metrics.begin();
        metrics
    }

    /// Everything that is no job's, at the start.
    fn begin(&self) {
        let Self { families, store, .. } = self;
        let version = [env!("CARGO_PKG_VERSION"), revision().unwrap_or("unknown"), RUSTC];
        set(&families.build_info, &version, 1.0);
        for how in Reloaded::ALL {
            families.config_reloads.with_label_values(&[how.as_str()]);
        }
        set(&families.reload_successful, &[], 1.0);
        for gauge in [&families.ready, &families.draining, &families.leases, &families.places] {
            set(gauge, &[], 0.0);
        }
        set(&families.store_up, &[store], 0.0);
        families.tick_delay.with_label_values::<&str>(&[]);
        families.start_delay.with_label_values::<&str>(&[]);
        for operation in Operation::ALL {
            families.store_duration.with_label_values(&[store.as_str(), operation.as_str()]);
            for result in Requested::ALL {
                families.store_requests.with_label_values(&[store.as_str(), operation.as_str(), result.as_str()]);
            }
        }
        self.begin_spans();
        set(&families.start_time, &[], seconds(self.clock.now().wall));
    }

    /// The text for Prometheus, format 0.0.4: `text/plain; version=0.0.4; charset=utf-8`.
    pub fn render(&self) -> String {
        self.show_next_runs();
        self.show_process();
        TextEncoder::new().encode_to_string(&self.registry.gather()).expect("a text is written into memory")
    }

    fn show_next_runs(&self) {
        let now = self.clock.now().wall;
        let is_over = |known: &&Known| !known.spec.suspend && known.next.is_none_or(|next| next <= now);
        let over: Vec<_> = lock(&self.jobs).values().filter(is_over).map(|known| Arc::clone(&known.spec)).collect();
        for spec in over {
            // Not under the lock: whoever counts would wait for it.
            let next = spec.schedule.after(now);
            let mut jobs = lock(&self.jobs);
            if let Some(known) = jobs.get_mut(&spec.name).filter(|known| Arc::ptr_eq(&known.spec, &spec)) {
                known.next = next;
                set_or_drop(&self.families.next_run, &[spec.name.as_str()], next.map(seconds));
            }
        }
    }

    fn show_process(&self) {
        let Families { cpu_seconds, open_fds, max_fds, virtual_memory, resident_memory, threads, .. } = &self.families;
        let process = process::read();
        if let Some(used) = process.cpu_seconds {
            let counter = cpu_seconds.with_label_values::<&str>(&[]);
            counter.inc_by((used - counter.get()).max(0.0));
        }
        for (gauge, value) in [
            (open_fds, process.open_fds),
            (max_fds, process.max_fds),
            (virtual_memory, process.virtual_bytes),
            (resident_memory, process.resident_bytes),
            (threads, process.threads),
        ] {
            set_or_drop(gauge, &[], value);
        }
    }

    /// This table is in force now: series of its jobs come, those of others go.
    pub fn follow(&self, table: &JobTable, zone_data: &str) {
        let families = &self.families;
        let mut jobs = lock(&self.jobs);
        let mut former = std::mem::take(&mut *jobs);
        for spec in &table.jobs {
            let is_paused = former.remove(&spec.name).is_some_and(|before| {
                self.forget_definition(&before.spec);
                before.is_paused
            });
            self.begin_job(spec);
            jobs.insert(spec.name.clone(), Known { spec: Arc::clone(spec), is_paused, next: None });
        }
        for (job, known) in former {
            self.forget_definition(&known.spec);
            self.forget_job(job.as_str());
        }
        families.config_info.reset();
        set(&families.config_info, &[table.revision.as_str(), zone_data], 1.0);
        set(&families.places, &[], f64::from(table.scheduler.max_concurrent_runs));
        set(&families.reload_success_timestamp, &[], seconds(self.clock.now().wall));
        self.count_jobs(&jobs);
        self.follow_notifiers(table);
    }

    /// Counters of jobs, each with the values of its second label.
    fn job_counters(&self) -> [(&CounterVec, Vec<&'static str>); 4] {
        let Families { claims, runs, runs_skipped, runs_missed, .. } = &self.families;
        [
            (claims, Claimed::ALL.iter().map(|result| result.as_str()).collect()),
            (runs, outcomes().collect()),
            (runs_skipped, SkipReason::ALL.iter().map(|reason| reason.as_str()).collect()),
            (runs_missed, MissedReason::ALL.iter().map(|reason| reason.as_str()).collect()),
        ]
    }

    /// And those with none.
    fn plain_job_counters(&self) -> [&CounterVec; 4] {
        let Families { lease_lost, runs_lost, run_retries, run_output_truncated, .. } = &self.families;
        [lease_lost, runs_lost, run_retries, run_output_truncated]
    }

    /// Gauges that the fleet's facts fill.
    fn fact_gauges(&self) -> [&GaugeVec; 8] {
        let Families {
            first_seen,
            last_due,
            last_claimed,
            last_success,
            last_failure,
            last_duration,
            last_exit_code,
            consecutive_failures,
            ..
        } = &self.families;
        [
            first_seen,
            last_due,
            last_claimed,
            last_success,
            last_failure,
            last_duration,
            last_exit_code,
            consecutive_failures,
        ]
    }

    fn begin_job(&self, spec: &JobSpec) {
        let (families, job) = (&self.families, spec.name.as_str());
        for (counter, values) in self.job_counters() {
            for value in values {
                counter.with_label_values(&[job, value]);
            }
        }
        for counter in self.plain_job_counters() {
            counter.with_label_values(&[job]);
        }
        families.runs_running.with_label_values(&[job]);
        families.run_duration.with_label_values(&[job]);
        let stale_after = spec.stale_after.filter(|_| !spec.suspend).map(|after| after.as_secs_f64());
        set_or_drop(&families.stale_after, &[job], stale_after);
        set(&families.job_info, &info_of(spec), 1.0);
    }

    /// What a job's definition says may be something else now.
    fn forget_definition(&self, spec: &JobSpec) {
        let (families, job) = (&self.families, spec.name.as_str());
        set_or_drop(&families.job_info, &info_of(spec), None);
        for gauge in [&families.next_run, &families.stale_after, &families.last_due] {
            set_or_drop(gauge, &[job], None);
        }
    }

    fn forget_job(&self, job: &str) {
        for (counter, values) in self.job_counters() {
            for value in values {
                let _ = counter.remove_label_values(&[job, value]);
            }
        }
        for counter in self.plain_job_counters() {
            let _ = counter.remove_label_values(&[job]);
        }
        for gauge in self.fact_gauges().into_iter().chain([&self.families.runs_running]) {
            set_or_drop(gauge, &[job], None);
        }
        let _ = self.families.run_duration.remove_label_values(&[job]);
    }

    fn count_jobs(&self, jobs: &BTreeMap<JobName, Known>) {
        let state = |known: &Known| match known {
            Known { is_paused: true, .. } => "paused",
            Known { spec, .. } if spec.suspend => "suspended",
            Known { .. } => "active",
        };
        for counted in JOB_STATES {
            let count = jobs.values().filter(|known| state(known) == counted).count();
            set(&self.families.jobs, &[counted], count as f64);
        }
    }

    /// Does it if the job is in the table, which therefore stays while it is done.
    fn of_job(&self, job: &JobName, count: impl FnOnce(&Families, &str)) {
        if lock(&self.jobs).contains_key(job) {
            count(&self.families, job.as_str());
        }
    }

    /// The jobs files were looked at.
    pub fn reloaded(&self, how: Reloaded) {
        self.families.config_reloads.with_label_values(&[how.as_str()]).inc();
        set(&self.families.reload_successful, &[], f64::from(u8::from(how != Reloaded::Refused)));
    }

    /// The store has answered: ticks are claimed, unless the daemon drains.
    pub fn ready(&self) {
        let is_draining = self.families.draining.with_label_values::<&str>(&[]).get() > 0.0;
        set(&self.families.ready, &[], f64::from(u8::from(!is_draining)));
    }

    /// Nothing is claimed any more.
    pub fn draining(&self) {
        set(&self.families.draining, &[], 1.0);
        set(&self.families.ready, &[], 0.0);
    }

    /// The scheduler looked at its schedule, where something was due for so long.
    pub fn looked(&self, now: DateTime<Utc>, due_for: Option<Duration>) {
        set(&self.families.last_tick, &[], seconds(now));
        if let Some(delay) = due_for {
            self.families.tick_delay.with_label_values::<&str>(&[]).observe(delay.as_secs_f64());
        }
    }

    /// So many runs hold a place here.
    pub fn leases(&self, count: usize) {
        set(&self.families.leases, &[], count as f64);
    }

    /// So many runs of a job execute here.
    pub fn running(&self, job: &JobName, count: usize) {
        self.of_job(job, |families, job| set(&families.runs_running, &[job], count as f64));
    }

    /// A request to the store ended after so long.
    pub fn requested(&self, operation: Operation, result: Requested, took: Duration) {
        let (families, store) = (&self.families, self.store.as_str());
        families.store_requests.with_label_values(&[store, operation.as_str(), result.as_str()]).inc();
        families.store_duration.with_label_values(&[store, operation.as_str()]).observe(took.as_secs_f64());
        // Asked once a second, whatever else there is to ask.
        if result == Requested::Ok {
            set(&families.store_up, &[store], 1.0);
        } else if operation == Operation::Identity {
            set(&families.store_up, &[store], 0.0);
        }
    }

    /// This machine's clock is ahead of the store's by so many milliseconds.
    pub fn clock_offset(&self, offset_ms: i64) {
        set(&self.families.store_clock_offset, &[&self.store], offset_ms as f64 / 1000.0);
    }

    /// A look at the store's settings: these checks fail, and no others.
    pub fn store_unsafe(&self, failing: &[&'static str]) {
        let mut checks = lock(&self.checks);
        checks.extend(failing);
        for check in checks.iter().filter(|check| **check != PRESENCE) {
            set(&self.families.store_unsafe, &[check], f64::from(u8::from(failing.contains(check))));
        }
    }

    /// Whether members cannot meet although the store answers.
    pub fn meeting_fails(&self, fails: bool) {
        let mut checks = lock(&self.checks);
        if fails {
            checks.insert(PRESENCE);
        }
        if checks.contains(PRESENCE) {
            set(&self.families.store_unsafe, &[PRESENCE], f64::from(u8::from(fails)));
        }
    }

    /// A claim was answered, or not.
    pub fn claimed(&self, job: &JobName, result: Claimed) {
        self.of_job(job, |families, job| families.claims.with_label_values(&[job, result.as_str()]).inc());
    }

    /// A run began here, so long after it was due.
    pub fn started(&self, delay: Duration) {
        self.families.start_delay.with_label_values::<&str>(&[]).observe(delay.as_secs_f64());
    }

    /// A run of this replica ended.
    pub fn finished(&self, job: &JobName, outcome: Outcome, took: Duration) {
        self.of_job(job, |families, job| {
            families.runs.with_label_values(&[job, outcome.as_str()]).inc();
            families.run_duration.with_label_values(&[job]).observe(took.as_secs_f64());
        });
    }

    /// A due tick is not run here.
    pub fn skipped(&self, job: &JobName, reason: SkipReason) {
        self.of_job(job, |families, job| families.runs_skipped.with_label_values(&[job, reason.as_str()]).inc());
    }

    /// So many ticks were recorded as missed by this replica.
    pub fn missed(&self, job: &JobName, reason: MissedReason, count: u64) {
        self.of_job(job, |families, job| {
            families.runs_missed.with_label_values(&[job, reason.as_str()]).inc_by(count as f64);
        });
    }

    /// Another replica's run was recorded as lost by this one.
    pub fn lost(&self, job: &JobName) {
        self.of_job(job, |families, job| families.runs_lost.with_label_values(&[job]).inc());
    }

    /// A run of this replica lost its lease.
    pub fn lease_lost(&self, job: &JobName) {
        self.of_job(job, |families, job| families.lease_lost.with_label_values(&[job]).inc());
    }

    /// An attempt failed, and another follows.
    pub fn retried(&self, job: &JobName) {
        self.of_job(job, |families, job| families.run_retries.with_label_values(&[job]).inc());
    }

    /// So many lines of output were cut, or dropped.
    pub fn output_truncated(&self, job: &JobName, lines: u64) {
        self.of_job(job, |families, job| {
            families.run_output_truncated.with_label_values(&[job]).inc_by(lines as f64);
        });
    }

    /// An HTTP request was served. `route` is one of the routes that there are, and never a path as somebody sent it;
    /// likewise `method`.
    pub fn http_request(&self, route: &'static str, method: &'static str, code: u16) {
        self.families.http_requests.with_label_values(&[route, method, &code.to_string()]).inc();
    }

    /// The fleet as the store knows it now: how many replicas, and what it knows of jobs. Jobs of the table that it does
    /// not know lose what was known; those of other tables are passed over.
    pub fn fleet(&self, replicas: usize, facts: &BTreeMap<JobName, JobFacts>) {
        set(&self.families.replicas, &[], replicas as f64);
        let mut jobs = lock(&self.jobs);
        for (job, known) in jobs.iter_mut() {
            let facts = facts.get(job).copied().unwrap_or_default();
            known.is_paused = facts.is_paused;
            let values = [
                facts.first_seen,
                facts.last_due,
                facts.last_claimed,
                facts.last_success,
                facts.last_failure,
                facts.last_duration,
                facts.last_exit_code,
                facts.consecutive_failures,
            ];
            for (gauge, value) in self.fact_gauges().into_iter().zip(values) {
                set_or_drop(gauge, &[job.as_str()], value);
            }
        }
        self.count_jobs(&jobs);
    }

    /// The jobs of the table in force, by name.
    pub fn specs(&self) -> Vec<Arc<JobSpec>> {
        lock(&self.jobs).values().map(|known| Arc::clone(&known.spec)).collect()
    }
}

/// The check that members can meet.
pub const PRESENCE: &str = "presence";
