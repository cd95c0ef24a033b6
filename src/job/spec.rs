//! What one job is, with all defaults filled in.

use super::Action;
use super::JobName;
use super::Notify;
use super::Tick;
use super::Trigger;
use super::WhenBusy;
use super::words;
use crate::schedule::Schedule;
use crate::schedule::stable_hash;
use crate::secret::Redaction;
use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

/// One job of a table, checked. A run keeps the definition it started with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobSpec {
    /// Its identity.
    pub name: JobName,
    /// For people.
    pub description: String,
    /// What to do when it fails: an `http` or `https` URL; empty: nobody wrote that down.
    pub runbook_url: String,
    /// Words for people and for programs that ask for the job; they mean nothing here.
    pub labels: BTreeMap<String, String>,
    /// Who is told what of it.
    pub notify: Notify,
    /// When it is due; with its zone.
    pub schedule: Schedule,
    /// What it does.
    pub action: Action,
    /// What a tick does while an earlier run of the job is going.
    pub concurrency_policy: ConcurrencyPolicy,
    /// Which of the late ticks run after an outage.
    pub catch_up: CatchUp,
    /// Its ticks are not run for now.
    pub suspend: bool,
    /// What happens to a run whose replica vanished.
    pub lost_run_policy: LostRunPolicy,
    /// How long a run may take, retries included; `None`: for ever.
    pub timeout: Option<Duration>,
    /// From TERM to KILL.
    pub termination_grace_period: Duration,
    /// Within this time after its tick a run is due, at a moment that job and tick decide; zero: at its tick.
    pub jitter: Duration,
    /// How long the job may go without a success before somebody should know; `None`: for ever.
    pub stale_after: Option<Duration>,
    /// How late after that a run may still start; `None`: half the distance to the next tick, at least 10 s, at most 1 h.
    pub starting_deadline: Option<Duration>,
    /// What follows a failed attempt.
    pub retry: RetryPolicy,
    /// How much of the output is kept.
    pub output: OutputLimits,
    /// How much of the past is kept.
    pub history: HistoryLimits,
    /// Hash of all of the above as written: two replicas with different ones disagree about the job.
    pub spec_hash: String,
}

/// A child process to run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandSpec {
    /// The program and its arguments, or a line for a shell.
    pub program: Program,
    /// The folder to run in; `None`: the daemon's.
    pub working_dir: Option<PathBuf>,
    /// Added to the environment that is inherited from the daemon.
    pub env: BTreeMap<String, EnvValue>,
    /// Whether the rest of the daemon's environment is inherited, and not only [`BASIC_ENV`].
    pub inherit_env: bool,
    /// The exit codes that are a success.
    pub success_exit_codes: BTreeSet<u8>,
}

/// What a process gets of the daemon's environment in any case: without these, few programs work.
pub const BASIC_ENV: [&str; 4] = ["PATH", "HOME", "LANG", "TZ"];

impl CommandSpec {
    /// A program with the built-in values of everything else.
    pub fn of(program: Program) -> Self {
        Self {
            program,
            working_dir: None,
            env: BTreeMap::new(),
            inherit_env: true,
            success_exit_codes: BTreeSet::from([0]),
        }
    }

    /// Whether a process that exited so did what it should; one that a signal ended has no code, and did not.
    pub fn is_success(&self, code: Option<i32>) -> bool {
        code.and_then(|code| u8::try_from(code).ok()).is_some_and(|code| self.success_exit_codes.contains(&code))
    }
}

/// The value of an environment variable, or of a part of a request.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum EnvValue {
    /// As it is written.
    Text(String),
    /// That of one of the daemon's variables, at each start.
    FromEnv(String),
    /// The content of a file at each start, without a line end at its end.
    FromFile(PathBuf),
}

/// The two forms of `command`, as in a Dockerfile's `CMD`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Program {
    /// A text that a shell interprets.
    Shell {
        /// The shell and its options: `["/bin/sh", "-c"]`.
        shell: Vec<String>,
        /// The text.
        line: String,
    },
    /// Program and arguments, run directly. Never empty.
    Direct(Vec<String>),
}

impl Program {
    /// Program and arguments as they are executed.
    pub fn argv(&self) -> Vec<&str> {
        match self {
            Self::Shell { shell, line } => shell.iter().map(String::as_str).chain([line.as_str()]).collect(),
            Self::Direct(argv) => argv.iter().map(String::as_str).collect(),
        }
    }
}

words! {
    /// What a tick does while an earlier run of the job is going, on whichever replica.
    ConcurrencyPolicy {
        /// It is skipped.
        Forbid = "Forbid",
        /// It runs beside it.
        Allow = "Allow",
        /// It runs in its place: the earlier run is stopped first.
        Replace = "Replace",
        /// It runs after it: one tick waits, until its starting deadline; further ones are skipped.
        Queue = "Queue",
    }
}

impl ConcurrencyPolicy {
    /// Whether a run that hangs keeps all later ones from running.
    pub const fn waits_for_ends(self) -> bool {
        matches!(self, Self::Forbid | Self::Queue)
    }
}

words! {
    /// Which of the ticks that nobody could run in time, and that are still inside their starting deadline, run after an
    /// outage. The others are settled as missed.
    CatchUp {
        /// The newest of them.
        Latest = "Latest",
        /// None.
        None = "None",
        /// All, oldest first and one at a time; of more than [`CATCH_UP_MOST`] the newest.
        All = "All",
    }
}

/// How many late ticks `catchUp: All` runs. (A cron that wanted to make up for more than a hundred missed starts
/// has stopped scheduling altogether: Kubernetes' first controller.)
pub const CATCH_UP_MOST: usize = 100;

words! {
    /// What happens to a run whose replica vanished in the middle.
    LostRunPolicy {
        /// It is reported as `lost`: at most once.
        Report = "Report",
        /// It is started again elsewhere, at most 3 starts: at least once.
        Rerun = "Rerun",
    }
}

/// What follows a failed attempt: the same replica tries again, under the same claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetryPolicy {
    /// Attempts after the first.
    pub limit: u32,
    /// Wait before the second attempt; doubled for each further one.
    pub backoff: Duration,
    /// The longest wait.
    pub max_backoff: Duration,
}

/// Where a job's output goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutputMode {
    /// Each line becomes an event of the log.
    Log,
    /// Each line goes to the daemon's standard output as it is.
    Passthrough,
    /// Nowhere; the tail is kept nevertheless.
    Discard,
}

/// Bounds on a job's output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OutputLimits {
    /// Where the lines go.
    pub mode: OutputMode,
    /// A longer line is cut and marked.
    pub max_line_bytes: usize,
    /// How many of the last bytes are kept with the run's record.
    pub keep_tail: usize,
}

/// Bounds on a job's past.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HistoryLimits {
    /// Compact outcomes of the newest ticks.
    pub ticks: u32,
    /// Full records, with output tail, of the newest successes.
    pub successful: u32,
    /// The same of the newest failures.
    pub failed: u32,
}

/// What the fleet must agree on: `scheduler:` in the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SchedulerSpec {
    /// How fast the death of a replica is noticed.
    pub lock_lease: Duration,
    /// How far clocks may be apart before it is said.
    pub clock_skew_tolerance: Duration,
    /// Places of each replica; 0: no limit.
    pub max_concurrent_runs: u32,
    /// How often the files of the table are read again; zero: only when somebody asks.
    pub reload_interval: Duration,
    /// What must not be seen of what jobs say. For runs that start while the table is in force.
    pub redact: Redaction,
}

impl Default for SchedulerSpec {
    fn default() -> Self {
        Self {
            lock_lease: Duration::from_secs(15),
            clock_skew_tolerance: Duration::from_secs(2),
            max_concurrent_runs: 10,
            reload_interval: Duration::from_secs(10),
            redact: Redaction::default(),
        }
    }
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self { limit: 0, backoff: Duration::from_secs(10), max_backoff: Duration::from_secs(5 * 60) }
    }
}

impl Default for OutputLimits {
    fn default() -> Self {
        Self { mode: OutputMode::Log, max_line_bytes: 8 << 10, keep_tail: 16 << 10 }
    }
}

impl Default for HistoryLimits {
    fn default() -> Self {
        Self { ticks: 200, successful: 3, failed: 10 }
    }
}

impl JobSpec {
    /// A job with the built-in values of everything else, and without a hash.
    pub fn of(name: JobName, schedule: Schedule, action: impl Into<Action>) -> Self {
        Self {
            name,
            description: String::new(),
            runbook_url: String::new(),
            labels: BTreeMap::new(),
            notify: Notify::default(),
            schedule,
            action: action.into(),
            concurrency_policy: ConcurrencyPolicy::Forbid,
            catch_up: CatchUp::Latest,
            suspend: false,
            lost_run_policy: LostRunPolicy::Report,
            timeout: Some(Duration::from_secs(3600)),
            termination_grace_period: Duration::from_secs(30),
            jitter: Duration::ZERO,
            stale_after: None,
            starting_deadline: None,
            retry: RetryPolicy::default(),
            output: OutputLimits::default(),
            history: HistoryLimits::default(),
            spec_hash: String::new(),
        }
    }

    /// Whether two runs of the job must never be at once.
    pub fn is_exclusive(&self) -> bool {
        self.concurrency_policy != ConcurrencyPolicy::Allow
    }

    /// What a run does that finds its job busy. A late one never stops a run that is going.
    pub fn when_busy(&self, trigger: Trigger) -> WhenBusy {
        match self.concurrency_policy {
            ConcurrencyPolicy::Forbid | ConcurrencyPolicy::Allow => WhenBusy::Skip,
            ConcurrencyPolicy::Queue => WhenBusy::Queue,
            ConcurrencyPolicy::Replace if trigger == Trigger::CatchUp => WhenBusy::Skip,
            ConcurrencyPolicy::Replace => WhenBusy::Replace,
        }
    }

    /// Whether a run that somebody else may start, or that must not overlap, has to stop when its lease is lost.
    pub fn stops_when_lease_is_lost(&self) -> bool {
        self.is_exclusive() || self.lost_run_policy == LostRunPolicy::Rerun
    }

    /// How long after `tick` its run is due, where `next` is the tick after it (seconds since the epoch). Equal on all
    /// replicas, whole milliseconds, and never as long as the distance to `next`: runs are due in the order of ticks.
    pub fn delay(&self, tick: Tick, next: Option<i64>) -> Duration {
        let distance = next.map_or(i64::MAX, |next| next.saturating_sub(tick.seconds()).saturating_mul(1000));
        let most = u64::try_from(distance).unwrap_or(0).min(u64::try_from(self.jitter.as_millis()).unwrap_or(u64::MAX));
        if most == 0 {
            return Duration::ZERO;
        }
        Duration::from_millis(stable_hash(&format!("{}@{tick}/jitter", self.name)) % most)
    }

    /// How late the run of `tick` may still start, where `next` is the tick after it (seconds since the epoch).
    pub fn starting_deadline_for(&self, tick: i64, next: Option<i64>) -> Duration {
        const LEAST: Duration = Duration::from_secs(10);
        const MOST: Duration = Duration::from_secs(3600);
        self.starting_deadline.unwrap_or_else(|| {
            let distance = next.map_or(u64::MAX, |next| next.saturating_sub(tick).unsigned_abs());
            Duration::from_millis(distance.saturating_mul(500)).clamp(LEAST, MOST)
        })
    }

    /// From TERM to KILL when the lease is lost: the design's G. At most 10 s, since a successor waits for it.
    pub fn lease_loss_grace(&self) -> Duration {
        self.termination_grace_period.min(Duration::from_secs(10))
    }
}
