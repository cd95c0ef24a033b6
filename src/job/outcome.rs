//! How ticks end.

/// Declares a closed set of words.
macro_rules! words {
    ($(#[$doc:meta])* $name:ident { $($(#[$vdoc:meta])* $variant:ident = $text:literal),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name { $($(#[$vdoc])* $variant),+ }

        impl $name {
            /// Every value, in the order of the docs.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// The word in tables, logs, records and metrics. Never changed without a note in the changelog.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $text),+ }
            }

            /// Reads what [`Self::as_str`] writes.
            pub fn parse(text: &str) -> Option<Self> {
                match text { $($text => Some(Self::$variant),)+ _ => None }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result { f.write_str(self.as_str()) }
        }
    };
}
pub(crate) use words;

words! {
    /// How a tick ended. Every tick of every job ends in exactly one.
    Outcome {
        /// The last attempt ended well.
        Succeeded = "succeeded",
        /// The last attempt ended badly and no retry is left.
        Failed = "failed",
        /// The run was stopped at its `timeout`.
        TimedOut = "timed_out",
        /// An operator stopped the run.
        Cancelled = "cancelled",
        /// The run was stopped for a later one of its job (`concurrencyPolicy: Replace`).
        Replaced = "replaced",
        /// The run was stopped by a drain or because its lease was lost.
        Interrupted = "interrupted",
        /// The owner of the run vanished after its begin: it may have run, in part or whole.
        Lost = "lost",
        /// The run began, but its program could not be started.
        NotStarted = "not_started",
        /// Nobody started the run before its starting deadline.
        Missed = "missed",
        /// A recorded decision says that this tick does not run.
        Skipped = "skipped",
    }
}

impl Outcome {
    /// Whether a run ended so, and not well: its output is kept among that of the failures.
    pub const fn is_unsuccessful(self) -> bool {
        self.is_failure() || matches!(self, Self::Cancelled | Self::Replaced)
    }

    /// Whether this outcome counts as a failure of the job. One that somebody asked for does not.
    pub const fn is_failure(self) -> bool {
        matches!(self, Self::Failed | Self::TimedOut | Self::Interrupted | Self::Lost | Self::NotStarted)
    }
}

words! {
    /// Why somebody asks the owner of a run to stop it.
    StopReason {
        /// A later tick of the job is to run in its place (`concurrencyPolicy: Replace`).
        Replace = "replace",
        /// An operator wants it to end.
        Cancel = "cancel",
    }
}

impl StopReason {
    /// How a run ends that was stopped for it.
    pub const fn outcome(self) -> Outcome {
        match self {
            Self::Replace => Outcome::Replaced,
            Self::Cancel => Outcome::Cancelled,
        }
    }
}

words! {
    /// What a run that must not overlap does when it finds its job busy.
    WhenBusy {
        /// It is skipped, if the run in its way lives.
        Skip = "skip",
        /// It waits in line, if none does yet, until its starting deadline.
        Queue = "queue",
        /// It asks for the stop of the run in its way, and begins when that is gone.
        Replace = "replace",
    }
}

words! {
    /// Why nobody ran a tick (written once per fleet).
    MissedReason {
        /// The store could not be reached by the replicas that were up.
        StoreUnavailable = "store_unavailable",
        /// The replicas of the store did not confirm in time that somebody had it: a failover could have undone that.
        NotDurable = "not_durable",
        /// No replica was up, or the one that had claimed it died before it began.
        NoReplica = "no_replica",
        /// All replicas that were up had no free place.
        Saturated = "saturated",
        /// The store may have forgotten whether somebody ran it.
        StoreForgot = "store_forgot",
        /// It was late, after an outage, and `catchUp` does not name it: a newer one runs instead, or none.
        CatchUp = "catch_up",
        /// It was claimed, but only after its starting deadline.
        Late = "late",
    }
}

words! {
    /// Why this replica does not run a tick, or why the tick is settled without a run.
    SkipReason {
        /// Another replica has the tick. Normal life.
        ClaimedByOther = "claimed_by_other",
        /// It is recorded already as missed: nobody ran it in time.
        Missed = "missed",
        /// An earlier run of the job is still going, and `concurrencyPolicy` keeps this one from running beside or after it.
        Overlap = "overlap",
        /// A later tick of the job has begun already, or waits to take the place of a run that is being stopped.
        Superseded = "superseded",
        /// Somebody asked for its stop before it began.
        StopAsked = "stop_asked",
        /// The job is paused in the store.
        Paused = "paused",
        /// The table says `suspend: true`.
        Suspended = "suspended",
        /// The job is not in the table any more.
        Removed = "removed",
        /// The starting deadline had passed on this replica.
        Late = "late",
        /// Another replica registered another schedule of the job after this tick.
        Rescheduled = "rescheduled",
        /// It is late, after an outage, and `catchUp` does not name it: a newer one runs instead, or none.
        CatchUp = "catch_up",
        /// All places of this replica were taken until the starting deadline.
        Saturated = "saturated",
        /// The daemon is stopping.
        Draining = "draining",
        /// The store could not be reached until the starting deadline.
        StoreUnavailable = "store_unavailable",
        /// The replicas of the store confirmed nothing until the starting deadline.
        NotDurable = "not_durable",
        /// A record of the job has a form that only a newer version reads.
        RecordUnreadable = "record_unreadable",
        /// The tick lies before the job's history, which began when this replica first met it.
        Baseline = "baseline",
        /// The tick lies before what the store remembers of this job: it forgot the job, which was known before.
        StoreForgot = "store_forgot",
    }
}

words! {
    /// What somebody may want to be told of a job, elsewhere than in the log.
    Occasion {
        /// A run of it failed, and no attempt is left.
        Failure = "failure",
        /// It succeeded for the first time after that, or after being missed, lost or stale.
        Recovery = "recovery",
        /// Nobody ran a tick of it.
        Missed = "missed",
        /// The replica that ran it vanished.
        Lost = "lost",
        /// It had no success for as long as its `staleAfter`.
        Stale = "stale",
        /// A run of it succeeded.
        Success = "success",
    }
}

impl Occasion {
    /// The key of `notify` that names who is told of it.
    pub const fn key(self) -> &'static str {
        match self {
            Self::Failure => "onFailure",
            Self::Recovery => "onRecovery",
            Self::Missed => "onMissed",
            Self::Lost => "onLost",
            Self::Stale => "onStale",
            Self::Success => "onSuccess",
        }
    }
}

words! {
    /// Why a run was started.
    Trigger {
        /// Its tick came.
        Schedule = "schedule",
        /// A late tick after an outage.
        CatchUp = "catch-up",
        /// The owner vanished and `lostRunPolicy: Rerun` starts it again.
        Rerun = "rerun",
        /// Somebody ordered it by hand.
        Manual = "manual",
    }
}

/// What is known of a run's end; written by its owner.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ending {
    /// How it ended.
    pub outcome: Outcome,
    /// Exit code of the last attempt, where it exited.
    pub exit_code: Option<i32>,
    /// Signal that ended the last attempt, where one did.
    pub signal: Option<i32>,
    /// Status of the answer to the last attempt's HTTP request, where there was one.
    pub http_status: Option<u16>,
    /// From the first start to the end, in milliseconds of the owner's boot clock.
    pub duration_ms: u64,
    /// Why it could not be started, failed or was stopped, in words; empty where nothing needs saying.
    pub error: String,
    /// The last bytes of output; of an HTTP request the first bytes of the answer's body.
    pub output_tail: String,
}
