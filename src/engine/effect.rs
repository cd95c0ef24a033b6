//! Everything that an engine asks its daemon to do.

use super::Disagreement;
use super::RequestId;
use crate::clock::Boot;
use crate::job::Ending;
use crate::job::Former;
use crate::job::JobName;
use crate::job::JobSpec;
use crate::job::MissedReason;
use crate::job::Pause;
use crate::job::Presence;
use crate::job::ReplicaId;
use crate::job::RunKey;
use crate::job::SkipReason;
use crate::job::Step;
use crate::job::Tick;
use crate::job::Trigger;
use std::sync::Arc;
use std::time::Duration;

/// What a child process is started with, or a request sent.
#[derive(Debug, Clone, PartialEq)]
pub struct StartOrder {
    /// The run.
    pub run: RunKey,
    /// Which start of the run this is: 1, 2, …
    pub start: u32,
    /// The fencing token of this start.
    pub token: u64,
    /// The instant that the job is told to run for: its tick, to the second.
    pub scheduled_for: Tick,
    /// Why it runs.
    pub trigger: Trigger,
    /// The job as it was when the run was claimed.
    pub spec: Arc<JobSpec>,
    /// The latest tick that succeeded.
    pub last_success: Option<Tick>,
    /// No spawn, and no request, after this moment: the lease of the begin ends.
    pub lease_end: Boot,
    /// Whether the process must not outlive its lease: somebody else may start the job then.
    pub guarded: bool,
}

/// Why a run is stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StopCause {
    /// Its `timeout` is over.
    Timeout,
    /// The daemon stops, and the drain timeout is over.
    Drain,
    /// Its lease is lost.
    LeaseLost,
    /// A later tick of the job is to run in its place.
    Replaced,
    /// An operator wants it to end.
    Cancelled,
}

impl StopCause {
    /// The word in logs.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Timeout => "timeout",
            Self::Drain => "drain",
            Self::LeaseLost => "lease_lost",
            Self::Replaced => "replaced",
            Self::Cancelled => "cancelled",
        }
    }
}

/// How a job stood before a success.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Trouble {
    /// Failures since the success before.
    pub failures: u32,
    /// Ticks since then that nobody ran.
    pub missed: u64,
    /// Where somebody has called it stale, and this success ends that: since when there was none, milliseconds since the
    /// epoch.
    pub stale_since: Option<i64>,
    /// An earlier start of the run itself was called lost, and told: it is no failure in the history, where the run has one
    /// outcome.
    pub was_lost: bool,
}

/// Something to do.
#[derive(Debug, Clone, PartialEq)]
pub enum Effect {
    /// Send the steps to the store and report as [`Event::Answered`](super::Event::Answered), within a few seconds
    /// whatever happens.
    Ask {
        /// The number to report under.
        request: RequestId,
        /// What to send.
        steps: Arc<Vec<Step>>,
    },
    /// Write our presence, remove those that are gone, read all, and report as [`Event::Met`](super::Event::Met), within
    /// a few seconds whatever happens.
    Meet {
        /// Ours.
        mine: Box<Presence>,
        /// Members that gave no sign of life for very long.
        gone: Vec<Presence>,
    },
    /// Read all jobs' records and report as [`Event::Surveyed`](super::Event::Surveyed), likewise.
    Survey,
    /// Start a child process, or send a request, and report as `Started` or `NotStarted`, and later `Ended`.
    Start(Box<StartOrder>),
    /// The lease of a run was confirmed to last until then.
    Extend {
        /// The run.
        run: RunKey,
        /// The moment.
        lease_end: Boot,
    },
    /// Ask the run's process group to end (TERM), or give its request up.
    Terminate {
        /// The run.
        run: RunKey,
    },
    /// End the run's process group (KILL).
    Kill {
        /// The run.
        run: RunKey,
    },
    /// A run succeeded, and its job may have been in trouble before: read the history, and say so if it was. What the store
    /// has in it decides, since runs may end at once on several replicas.
    LookBack {
        /// The run.
        facts: RunFacts,
        /// What was known of that here, where it was known.
        known: Trouble,
    },
    /// Say something to the operator.
    Notice(Notice),
    /// All runs are over: the daemon may end. Said once.
    Drained {
        /// How many runs had to be stopped.
        stopped: u32,
        /// How many runs ended without the store knowing how.
        unrecorded: u32,
    },
}

/// What every line about a run says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunFacts {
    /// The run.
    pub run: RunKey,
    /// Why it runs.
    pub trigger: Trigger,
    /// Which start of the run: 1, 2, …; before the first begin 1.
    pub start: u32,
    /// Of a manual run that has begun, its fencing token. That of others follows from tick and start.
    pub token: Option<u64>,
}

impl RunFacts {
    /// Of a run that has not begun.
    pub(super) fn unbegun(run: &RunKey, trigger: Trigger) -> Self {
        Self { run: run.clone(), trigger, start: 1, token: None }
    }
}

/// Something an operator may want to know. Each becomes one log line.
#[derive(Debug, Clone, PartialEq)]
pub enum Notice {
    /// A new history of a job begins.
    JobRegistered {
        /// The job.
        job: JobName,
        /// Ticks at or before this instant (milliseconds since the epoch) are not run.
        since: i64,
        /// The store knew the job before: it lost its records.
        again: bool,
    },
    /// Another schedule of a job was registered by this replica.
    JobRescheduled {
        /// The job.
        job: JobName,
        /// Ticks of the former schedule up to here that nobody had taken are settled without a run.
        through: Tick,
    },
    /// A former schedule of a job cannot be read here: which ticks it owes is not known, and nothing is recorded of them.
    ScheduleUnreadable {
        /// The job.
        job: JobName,
        /// The schedule, and until when it was registered.
        former: Former,
    },
    /// The store has records of a job that this version cannot read.
    JobUnreadable {
        /// The job.
        job: JobName,
        /// Their form; 0: a field holds what this version does not know.
        format: u32,
    },
    /// The records of a job say that ticks of the future are decided.
    JobAhead {
        /// The job.
        job: JobName,
        /// Up to this one.
        through: Tick,
    },
    /// The store answered for the first time, or again after an outage.
    StoreConnected {
        /// How long it could not be reached; `None` at the first time.
        outage: Option<Duration>,
    },
    /// The store cannot be reached.
    StoreLost {
        /// See [`StoreFailure`](super::StoreFailure).
        kind: &'static str,
        /// In words.
        detail: String,
    },
    /// Records of jobs may have been lost by the store, or were.
    StoreForgot {
        /// How many jobs.
        jobs: usize,
        /// Ticks at or before this instant (milliseconds since the epoch) that nobody is known to have run are not run.
        since: i64,
    },
    /// Members cannot meet, although the store answers otherwise.
    MeetingFails {
        /// In words.
        detail: String,
    },
    /// Other replicas have another table, zone data or program.
    TableDisagrees(Box<Disagreement>),
    /// All have the same again.
    TableAgrees {
        /// The revision of our table.
        revision: String,
    },
    /// The store's clock and ours are apart.
    ClockSkewed {
        /// By so many milliseconds; positive: ours is ahead.
        offset_ms: i64,
        /// Whether somebody has to act.
        severe: bool,
    },
    /// They agree again.
    ClockInOrder {
        /// But for so many milliseconds.
        offset_ms: i64,
    },
    /// The wall clock moved against the boot clock.
    ClockJumped {
        /// By so many milliseconds.
        by_ms: i64,
    },
    /// The loop woke late.
    TickLate {
        /// By so many milliseconds.
        late_ms: i64,
    },
    /// Ticks passed while this replica did not look: it, or the machine, was suspended, or its clock moved. Whoever was
    /// up has run them, or the audit settles them.
    TicksPassed {
        /// The job.
        job: JobName,
        /// The first.
        first: Tick,
        /// No tick after this instant is meant.
        through: Tick,
    },
    /// Nothing of a job is started any more.
    JobPaused {
        /// The job.
        job: JobName,
        /// Who wants that, and why.
        pause: Pause,
    },
    /// It goes on.
    JobResumed {
        /// The job.
        job: JobName,
    },
    /// Nothing is started any more, of no job.
    AllPaused {
        /// Who wants that, and why.
        pause: Pause,
    },
    /// Jobs go on that are not paused themselves.
    AllResumed,
    /// A job had no success for too long; said by the replica that recorded it.
    JobStale {
        /// The job.
        job: JobName,
        /// Its latest tick that succeeded, where there is one.
        last_success: Option<Tick>,
        /// How long it may go without one.
        stale_after: Duration,
    },
    /// Somebody ordered a run; said by each replica that could run it.
    RunRequested {
        /// The run.
        facts: RunFacts,
        /// Who.
        by: String,
    },
    /// Somebody wants a run of this replica to end.
    RunCancelled {
        /// The run.
        facts: RunFacts,
        /// Who.
        by: String,
    },
    /// This replica has the run.
    RunClaimed {
        /// The run.
        facts: RunFacts,
        /// From the request to the answer.
        took: Duration,
    },
    /// This replica does not run a tick.
    RunSkipped {
        /// The tick.
        facts: RunFacts,
        /// Why.
        reason: SkipReason,
        /// Who has it, where somebody does.
        holder: Option<ReplicaId>,
        /// The run that is in the way, where one is.
        holder_run: Option<Tick>,
        /// How long that run has been going, by our clock and the store's.
        age: Option<Duration>,
    },
    /// Nobody ran a tick; said by the replica that recorded it.
    RunMissed {
        /// The tick.
        facts: RunFacts,
        /// Why.
        reason: MissedReason,
        /// How long after it was due this was recorded.
        late_ms: i64,
    },
    /// Nobody ran a range of ticks; said by the replica that recorded it.
    RunsMissed {
        /// The job.
        job: JobName,
        /// The first tick.
        first: Tick,
        /// The last.
        through: Tick,
        /// How many.
        count: u64,
        /// Why.
        reason: MissedReason,
    },
    /// A child process runs, or a request is being sent.
    RunStarted {
        /// The run.
        facts: RunFacts,
        /// From when it was due.
        start_delay_ms: i64,
        /// Its process id; a request has none.
        pid: Option<u32>,
    },
    /// An attempt failed and another follows.
    RunRetried {
        /// The run and the attempt that failed.
        facts: RunFacts,
        /// How it ended.
        ending: Ending,
        /// Until the next attempt.
        next_in: Duration,
    },
    /// TERM was sent.
    RunStopping {
        /// The run.
        facts: RunFacts,
        /// Why.
        cause: StopCause,
    },
    /// KILL was sent.
    RunKilled {
        /// The run.
        facts: RunFacts,
        /// Why.
        cause: StopCause,
        /// How long it had been asked to end.
        grace: Duration,
    },
    /// A run ended.
    RunFinished {
        /// The run.
        facts: RunFacts,
        /// How.
        ending: Ending,
        /// Attempts so far, those of earlier owners included.
        attempts: u32,
        /// All bytes of output of the last attempt.
        output_bytes: u64,
        /// Whether that is not the end of it: it was given back, to be started again elsewhere.
        again: bool,
    },
    /// The store has not got the end of a run.
    RunUnrecorded {
        /// The run.
        facts: RunFacts,
        /// Why not.
        detail: String,
    },
    /// Another replica's run has no owner any more; said by the replica that recorded it.
    RunLost {
        /// The run.
        facts: RunFacts,
        /// Who had it.
        holder: ReplicaId,
        /// Whether it will be started again.
        rerun: bool,
    },
    /// A run of this replica lost its lease.
    LeaseLost {
        /// The run.
        facts: RunFacts,
        /// Who has it now, where that is known.
        holder: Option<ReplicaId>,
        /// Since the last confirmed renewal.
        unconfirmed_for: Duration,
        /// Whether the run is stopped for it.
        stops: bool,
    },
    /// The drain timeout is over and runs are stopped.
    DrainExpired {
        /// Which.
        runs: Vec<RunKey>,
    },
}
