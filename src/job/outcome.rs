//! How ticks end.

use std::fmt;

macro_rules! words {
    ($(#[$doc:meta])* $name:ident { $($(#[$vdoc:meta])* $variant:ident = $text:literal),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name { $($(#[$vdoc])* $variant),+ }

        impl $name {
            /// Every value, in the order of the docs.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// The word in logs, records and metrics. Never changed without a note in the changelog.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $text),+ }
            }

            /// Reads what [`Self::as_str`] writes.
            pub fn parse(text: &str) -> Option<Self> {
                match text { $($text => Some(Self::$variant),)+ _ => None }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result { f.write_str(self.as_str()) }
        }
    };
}

words! {
    /// How a tick ended. Every tick of every job ends in exactly one.
    Outcome {
        /// The last attempt ended well.
        Succeeded = "succeeded",
        /// The last attempt ended badly and no retry is left.
        Failed = "failed",
        /// The run was stopped at its `timeout`.
        TimedOut = "timed_out",
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
    /// Whether this outcome counts as a failure of the job (for `consecutive failures` and the history of failures).
    pub const fn is_failure(self) -> bool {
        matches!(self, Self::Failed | Self::TimedOut | Self::Interrupted | Self::Lost | Self::NotStarted)
    }
}

words! {
    /// Why nobody ran a tick (written once per fleet).
    MissedReason {
        /// The store could not be reached by the replicas that were up.
        StoreUnavailable = "store_unavailable",
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
        /// An earlier run of the job is still going (`concurrencyPolicy: Forbid`).
        Overlap = "overlap",
        /// A later tick of the job has begun already.
        Superseded = "superseded",
        /// The job is paused in the store.
        Paused = "paused",
        /// The table says `suspend: true`.
        Suspended = "suspended",
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
        /// A record of the job has a form that only a newer version reads.
        RecordUnreadable = "record_unreadable",
        /// The tick lies before the job's history, which began when this replica first met it.
        Baseline = "baseline",
        /// The tick lies before what the store remembers of this job: it forgot the job, which was known before.
        StoreForgot = "store_forgot",
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
    /// From the first start to the end, in milliseconds of the owner's boot clock.
    pub duration_ms: u64,
    /// Why it could not be started or was stopped, in words; empty where nothing needs saying.
    pub error: String,
    /// The last bytes of output.
    pub output_tail: String,
}
