//! What a replica asks of a store about one job, and what the store says. Stores take steps in batches; each step is
//! atomic by itself, and each is idempotent: a resent one changes nothing and gets the same verdict.

use super::Ending;
use super::Former;
use super::JobName;
use super::JobRecord;
use super::JobSpec;
use super::LostRunPolicy;
use super::MissedReason;
use super::Order;
use super::Pause;
use super::ReplicaId;
use super::RunKey;
use super::RunRecord;
use super::Seen;
use super::SkipReason;
use super::StopReason;
use super::Tick;
use super::Trigger;
use super::WhenBusy;
use std::time::Duration;

/// How many starts a run with `lostRunPolicy: Rerun` gets at most.
pub const STARTS_MOST: u32 = 3;
/// How far a run's due instant may lie ahead of the store's clock before a claim is too early, milliseconds.
pub const EARLY_TOLERANCE_MS: i64 = 250;

/// How far the number of a run leaps when its record is made again: over all signs of life of which the owner has not
/// heard whether they arrived.
pub const NUMBER_LEAP: u64 = 1000;

/// The text of one request; with the owner, it tells a resent begin from a second one.
pub type Request = String;

/// Makes a job known to the store, or renews that. Before it, claims of the job are refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Registration {
    /// The job.
    pub job: JobName,
    /// Its schedule's text.
    pub schedule: String,
    /// Its zone.
    pub zone: String,
    /// Hash of its definition.
    pub spec_hash: String,
    /// `clockSkewTolerance` in milliseconds: a new record remembers from so long after now. (Tests pass negative
    /// ones, to have a past to work with.)
    pub skew_tolerance_ms: i64,
    /// How long a final run record stays at least, milliseconds.
    pub keep_ms: i64,
    /// How many compact outcomes, full successes and full failures the history keeps.
    pub history: [u32; 3],
    /// How long a run of the job can go on unknown to the store: the lease, then the grace and the margin,
    /// milliseconds. See [`JobRecord::quiet_ms`].
    pub quiet_ms: u64,
    /// Two instants (seconds) between which no former schedule had a tick, the second of them the end of one; so
    /// `decided_through` passes from one schedule to the next.
    pub passed: Option<(i64, i64)>,
    /// What this replica was told of the job before; `None`: it has just met it.
    pub knew: Option<Knew>,
}

/// What a replica that registers a job again was told of it before. A store that kept everything knows all of it; one
/// that did not learns here that it forgot, and what.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Knew {
    /// See [`JobRecord::since`], at this replica's last registration.
    pub since: i64,
    /// See [`JobRecord::decided_through`].
    pub decided_through: i64,
    /// See [`JobRecord::schedule`]; a store that lost the job goes on from here. So also below.
    pub schedule: String,
    /// See [`JobRecord::zone`].
    pub zone: String,
    /// See [`JobRecord::former`].
    pub former: Vec<Former>,
    /// Something that was told to this replica since then is not there any more.
    pub missing: bool,
    /// See [`JobRecord::forgot_at`].
    pub forgot_at: i64,
    /// For how long this replica itself has seen that mark, milliseconds of its boot clock.
    pub quiet_for_ms: u64,
}

/// Asks for a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    /// The run.
    pub run: RunKey,
    /// Who asks.
    pub owner: ReplicaId,
    /// No tick of the schedule lies between this instant (seconds) and the run's own tick: lets `decided_through`
    /// advance.
    pub previous: i64,
    /// How long after its tick the run is due, milliseconds: the job's jitter.
    pub delay_ms: i64,
    /// Whether to take it, if it can be had. Without, the question is only who has it.
    pub take: bool,
    /// What was seen unchanged for as long as a takeover has to wait, where this is one.
    pub takeover: Option<Seen>,
    /// See [`RunRecord::lease_ms`]; so also below.
    pub lease_ms: u64,
    /// See [`RunRecord::grace_ms`].
    pub grace_ms: u64,
    /// See [`RunRecord::takeover_ms`].
    pub takeover_ms: u64,
    /// See [`RunRecord::stop_grace_ms`].
    pub stop_grace_ms: u64,
    /// See [`RunRecord::exclusive`].
    pub exclusive: bool,
    /// See [`RunRecord::when_busy`].
    pub when_busy: WhenBusy,
    /// See [`RunRecord::rerun`].
    pub rerun: bool,
    /// See [`RunRecord::trigger`].
    pub trigger: String,
    /// See [`RunRecord::spec_hash`].
    pub spec_hash: String,
}

impl Claim {
    /// A claim that takes a run under the terms of its job's definition, with the lease, and the time that it may wait for its
    /// begin without a sign of life. It says nothing of what lies before.
    pub fn of(
        run: &RunKey,
        owner: &ReplicaId,
        spec: &JobSpec,
        (lease, takeover, trigger): (Duration, Duration, Trigger),
    ) -> Self {
        let millis = |length: Duration| u64::try_from(length.as_millis()).unwrap_or(u64::MAX);
        Self {
            run: run.clone(),
            owner: owner.clone(),
            previous: i64::MAX,
            delay_ms: 0,
            take: true,
            takeover: None,
            lease_ms: millis(lease),
            grace_ms: millis(spec.lease_loss_grace()),
            takeover_ms: millis(takeover),
            stop_grace_ms: millis(spec.termination_grace_period),
            exclusive: spec.is_exclusive(),
            when_busy: spec.when_busy(trigger),
            rerun: spec.lost_run_policy == LostRunPolicy::Rerun,
            trigger: trigger.as_str().into(),
            spec_hash: spec.spec_hash.clone(),
        }
    }
}

/// What an owner says of its run to a store that may have forgotten it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reassert {
    /// The run.
    pub run: RunKey,
    /// Its owner.
    pub owner: ReplicaId,
    /// Its start.
    pub start: u32,
    /// The latest number that it was told: the next one must not be one that a watcher has seen.
    pub number: u64,
    /// Whether that start has begun; else the run is claimed.
    pub begun: bool,
    /// See [`RunRecord::lease_ms`]; so also below.
    pub lease_ms: u64,
    /// See [`RunRecord::grace_ms`].
    pub grace_ms: u64,
    /// See [`RunRecord::takeover_ms`].
    pub takeover_ms: u64,
    /// See [`RunRecord::delay_ms`].
    pub delay_ms: i64,
    /// See [`RunRecord::stop_grace_ms`].
    pub stop_grace_ms: u64,
    /// See [`RunRecord::exclusive`].
    pub exclusive: bool,
    /// See [`RunRecord::when_busy`].
    pub when_busy: WhenBusy,
    /// See [`RunRecord::rerun`].
    pub rerun: bool,
    /// See [`RunRecord::trigger`].
    pub trigger: String,
    /// See [`RunRecord::spec_hash`].
    pub spec_hash: String,
}

/// What a settlement expects to find.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Expect {
    /// No record, and a tick that many milliseconds ago by the store's clock.
    Absent {
        /// The starting deadline, milliseconds.
        after_ms: i64,
    },
    /// No record of any tick from the first one to the run's own, all after the last that is known to be decided, and
    /// the run's own that many milliseconds ago by the store's clock. What is decided, is for all of them.
    AbsentRange {
        /// The first tick.
        first: Tick,
        /// How many ticks of the schedule there are, for people.
        count: u64,
        /// As above, for the last tick.
        after_ms: i64,
    },
    /// A claim of this replica that did not begin.
    Own(ReplicaId),
    /// A run unchanged since it was seen.
    Unchanged(Seen),
}

/// One question or order to a store, about one job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Make the job known. Verdict: `Registered`.
    Register(Registration),
    /// Ask for a run. Verdicts: `Won Held Done Free Paused TooEarly TooOld Forgot
    /// Gone Unregistered`.
    Claim(Claim),
    /// Say that an attempt is about to start; takes the slot. Verdicts: `Begun Busy Quiet Superseded Paused
    /// StopAsked Forgot Fenced Done Gone`.
    Begin {
        /// The run.
        run: RunKey,
        /// Its owner.
        owner: ReplicaId,
        /// How many begins there were before.
        start: u32,
        /// Tells a resent begin from a second one.
        request: Request,
    },
    /// Ask whether a claimed run could begin, and show its life: what a run does that waits. Verdicts: `Free`, or those
    /// of a begin that is refused.
    Wait {
        /// The run.
        run: RunKey,
        /// Its owner.
        owner: ReplicaId,
        /// How many begins there were before.
        start: u32,
    },
    /// Ask the owner of a run to stop it, whoever that is and however the run stands, if it is open. It is told with
    /// the answer to its next renewal, a run that has not begun does not begin any more, and one that is lost is not
    /// started again. The first who asks is remembered. Verdicts: `Asked Done Gone`.
    AskStop {
        /// The run.
        run: RunKey,
        /// Who asks: a replica, or an operator's name.
        by: String,
        /// Why.
        reason: StopReason,
    },
    /// Make a run by hand, for whoever takes it. Verdicts: `Ordered` (the answer's run may be an earlier one, with the same
    /// key), `Paused TooEarly Forgot Unregistered`.
    Order(Order),
    /// Pause a job, or let it go on; also where the store has become another one than it was. Verdicts: `Noted
    /// Unregistered`.
    Pause {
        /// The job.
        job: JobName,
        /// Whether this is about the pause of all jobs, and not of this one.
        all: bool,
        /// What is to be written; the store adds since when. `None`: the job goes on.
        pause: Option<Pause>,
        /// Only if what stands there was written at that time.
        only_if: Option<i64>,
    },
    /// Call a job stale, so that one replica of all says so: the first that does while nothing of what it goes by has
    /// changed. Verdicts: `Settled` (this one is to say it), `Changed`, `TooEarly`, `Unregistered`.
    CallStale {
        /// The job.
        job: JobName,
        /// Who does.
        by: ReplicaId,
        /// See [`JobRecord::last_success`], as it is known.
        last_success: Option<Tick>,
        /// See [`JobRecord::since`], likewise; counts where there was no success.
        since: i64,
        /// `staleAfter`, milliseconds.
        after_ms: i64,
    },
    /// Show life. Verdicts: `Renewed Lost Fenced Done Gone`.
    Renew {
        /// The run.
        run: RunKey,
        /// Its owner.
        owner: ReplicaId,
        /// Its start.
        start: u32,
    },
    /// Show life to a store that may have forgotten the run: makes its record again, or confirms it. To be sent only
    /// while nobody else can have been given the run: within the lease, or the time in which a claim is not taken over.
    /// Verdicts: `Renewed Lost Fenced Done Gone`.
    Reassert(Reassert),
    /// Record the end; frees the slot. Verdicts: `Recorded RecordedLate Fenced Gone`.
    Complete {
        /// The run.
        run: RunKey,
        /// Its owner.
        owner: ReplicaId,
        /// Its start.
        start: u32,
        /// How it ended.
        ending: Ending,
    },
    /// Give back a run of which nothing is going: it was not started since its last begin, or its owner has stopped it for
    /// its lease and it may run again. Verdicts: `Released Fenced Done Gone`.
    Abandon {
        /// The run.
        run: RunKey,
        /// Its owner.
        owner: ReplicaId,
        /// Its start.
        start: u32,
    },
    /// Decide a tick, or a range of them, without running it. Verdicts: `Settled`, or `Changed` where something else was
    /// found than expected, or `Occupied`, or `TooEarly`, or `Unregistered`.
    Settle {
        /// The run.
        run: RunKey,
        /// Who decides.
        owner: ReplicaId,
        /// See [`Claim::previous`].
        previous: i64,
        /// What must be found.
        expect: Expect,
        /// What is written.
        decision: Decision,
    },
    /// Look at the job and one of its runs. Verdicts: `Read`, `Unregistered`.
    Read {
        /// The run.
        run: RunKey,
    },
}

/// What a settlement writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// Nobody ran it. With [`Expect::Absent`], [`Expect::AbsentRange`] or [`Expect::Own`].
    Missed(MissedReason),
    /// It is not to run. With the same.
    Skipped(SkipReason),
    /// Its stop was asked for before it began, or began again. With [`Expect::Own`].
    Stopped(StopReason),
    /// Its owner vanished. With [`Expect::Unchanged`] of a begun run. The run stays open.
    Lost,
    /// Nobody can be running it any more. With [`Expect::Unchanged`] of a lost run. Closes it and frees its slot.
    Drained,
}

impl Step {
    /// The job that the step is about: the unit in which stores are atomic.
    pub fn job(&self) -> &JobName {
        match self {
            Self::Register(registration) => &registration.job,
            Self::Claim(claim) => &claim.run.job,
            Self::Order(order) => &order.run.job,
            Self::Pause { job, .. } | Self::CallStale { job, .. } => job,
            Self::Reassert(reassert) => &reassert.run.job,
            Self::Begin { run, .. }
            | Self::Wait { run, .. }
            | Self::AskStop { run, .. }
            | Self::Renew { run, .. }
            | Self::Complete { run, .. }
            | Self::Abandon { run, .. }
            | Self::Settle { run, .. }
            | Self::Read { run } => &run.job,
        }
    }

    /// The run that the step is about.
    pub fn run(&self) -> Option<&RunKey> {
        match self {
            Self::Register(_) | Self::Pause { .. } | Self::CallStale { .. } => None,
            Self::Claim(claim) => Some(&claim.run),
            Self::Order(order) => Some(&order.run),
            Self::Reassert(reassert) => Some(&reassert.run),
            Self::Begin { run, .. }
            | Self::Wait { run, .. }
            | Self::AskStop { run, .. }
            | Self::Renew { run, .. }
            | Self::Complete { run, .. }
            | Self::Abandon { run, .. }
            | Self::Settle { run, .. }
            | Self::Read { run } => Some(run),
        }
    }

    /// The step's name in logs and metrics.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Register(_) => "register",
            Self::Claim(_) => "claim",
            Self::Begin { .. } => "begin",
            Self::Wait { .. } => "wait",
            Self::AskStop { .. } => "ask_stop",
            Self::Order(_) => "order",
            Self::Pause { .. } => "pause",
            Self::CallStale { .. } => "call_stale",
            Self::Renew { .. } => "renew",
            Self::Reassert(_) => "reassert",
            Self::Complete { .. } => "complete",
            Self::Abandon { .. } => "abandon",
            Self::Settle { .. } => "settle",
            Self::Read { .. } => "read",
        }
    }
}

/// What a store says of a step. "Somebody else has it" is a verdict; "the store broke" is an error, never one of these.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// The job is known. `fresh`: it was not before, its history starts now.
    Registered {
        /// Whether the record was made by this step.
        fresh: bool,
        /// Whether it held another schedule before, and holds this one now. With [`FORMER_MOST`](super::FORMER_MOST) former
        /// ones that still owe ticks it does not: the record says which schedule counts.
        rescheduled: bool,
    },
    /// The run is ours, and not begun (again).
    Won,
    /// Somebody has the run; the answer's run record says who, and how it stands.
    Held,
    /// The run is decided; the record says how.
    Done,
    /// Nobody has the run (answer to a claim that does not take); nothing keeps it from beginning (to one that waits).
    Free,
    /// The job is paused.
    Paused,
    /// The tick, or the moment to settle it, lies ahead of the store's clock.
    TooEarly {
        /// By so many milliseconds.
        by_ms: i64,
    },
    /// The tick lies at or below the floor: its record may have been dropped.
    TooOld,
    /// The tick lies before what the store remembers.
    Forgot,
    /// The job is not registered, or not since the store became another one than it was.
    Unregistered,
    /// The attempt may start.
    Begun,
    /// Another run of the job is in the way, since it has the slot or began under a definition that allowed overlaps:
    /// the answer lists it under `open`.
    Busy {
        /// Its tick.
        occupant: Tick,
        /// Whether it gave a sign of life after our tick (by the store's clock): then this is an overlap.
        renewed: bool,
    },
    /// The store may have forgotten a run of the job that is still going: none that must not overlap begins before a
    /// replica has seen that nobody spoke up for long enough.
    Quiet,
    /// A later tick of the job has begun, or waits to replace the run that is going.
    Superseded,
    /// Somebody asked for the stop of the run: it does not begin.
    StopAsked,
    /// The stop is asked for.
    Asked,
    /// The run is there for whoever takes it, or was.
    Ordered,
    /// The pause, or its end, stands in the record.
    Noted,
    /// The run is not ours any more.
    Fenced,
    /// The store knows no such run.
    Gone,
    /// Life is noted.
    Renewed,
    /// The run was recorded as lost; nobody has taken it over.
    Lost,
    /// The end is recorded.
    Recorded,
    /// The end is recorded beside `lost`.
    RecordedLate,
    /// The run is given back.
    Released,
    /// The decision is written.
    Settled,
    /// Something else was found than expected; the answer's run record says what.
    Changed,
    /// A range cannot be settled: this is the earliest tick in it that has a record.
    Occupied {
        /// The tick.
        at: Tick,
    },
    /// Here it is.
    Read,
    /// A record of the job cannot be read: a newer version wrote it, or somebody who is none of us. It was not touched.
    Unreadable {
        /// Its form; 0: a field holds what this version does not know.
        format: u32,
    },
}

/// A verdict, with the records as they are after the step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// What became of the step.
    pub verdict: Verdict,
    /// The job's record; `None` when it is not registered.
    pub job: Option<JobRecord>,
    /// The record of the run asked about; `None` when there is none.
    pub run: Option<RunRecord>,
    /// The job's open runs, oldest first.
    pub open: Vec<RunRecord>,
}

impl Answer {
    /// The answer to a step that needs a record which cannot be read.
    pub const fn unreadable(format: u32) -> Self {
        Self { verdict: Verdict::Unreadable { format }, job: None, run: None, open: Vec::new() }
    }
}
