//! Everything that can happen to a replica.

use crate::clock::Boot;
use crate::job::Answer;
use crate::job::Gathering;
use crate::job::JobName;
use crate::job::JobRecord;
use crate::job::JobTable;
use crate::job::RunKey;
use std::sync::Arc;
use std::time::Duration;

/// Numbers the requests of one engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(pub u64);

/// Why a request to the store has no answers, in words for the log and one for the machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreFailure {
    /// `not_sent`, [`Self::MAYBE_APPLIED`], `read_only`, [`Self::NOT_DURABLE`] or `misconfigured`.
    pub kind: &'static str,
    /// What was being done, to what, and what was found.
    pub detail: String,
}

impl StoreFailure {
    /// The [`kind`](Self::kind) of one that was sent and had no answer in time.
    pub const MAYBE_APPLIED: &str = "maybe_applied";
    /// The [`kind`](Self::kind) of one that a failover of the store may undo.
    pub const NOT_DURABLE: &str = "not_durable";
}

/// How a child process or a request ended; the default is one of which nothing is known.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Exit {
    /// Exit code, where it exited.
    pub code: Option<i32>,
    /// Signal, where one ended it.
    pub signal: Option<i32>,
    /// Status of the answer, where there was one to a request.
    pub http_status: Option<u16>,
    /// Why a request failed, in words; empty where nothing needs saying.
    pub error: String,
    /// The last bytes of output; of a request the first bytes of the answer's body.
    pub output_tail: String,
    /// All bytes of output, or of the answer's body that were read.
    pub output_bytes: u64,
}

/// Something happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// Another table is in force.
    TableChanged(Arc<JobTable>),
    /// The instant that [`Engine::wake_at`](super::Engine::wake_at) named may have come; or not. Always harmless.
    Woke,
    /// The store answered a request, or did not.
    Answered {
        /// Which request.
        request: RequestId,
        /// One answer per step.
        result: Result<Vec<Answer>, StoreFailure>,
    },
    /// The store was found to be another than it was, or to have evicted keys.
    StoreChanged,
    /// The members of the fleet met, or could not.
    Met {
        /// When that was asked for.
        sent: Boot,
        /// Who is there.
        result: Result<Gathering, StoreFailure>,
    },
    /// All jobs' records were read, or could not be.
    Surveyed {
        /// The records.
        result: Result<Vec<(JobName, JobRecord)>, StoreFailure>,
    },
    /// A child process runs, or a request is being sent.
    Started {
        /// Its run.
        run: RunKey,
        /// Its process id; a request has none.
        pid: Option<u32>,
    },
    /// A child process could not be started, or a request not be sent.
    NotStarted {
        /// Its run.
        run: RunKey,
        /// The lease ended before the spawn: nothing is wrong with the job.
        too_late: bool,
        /// What was found.
        error: String,
    },
    /// A child process or a request ended.
    Ended {
        /// Its run.
        run: RunKey,
        /// How.
        exit: Exit,
    },
    /// The daemon is asked to stop: claim nothing more, let runs finish for so long.
    DrainAsked {
        /// How long.
        timeout: Duration,
    },
    /// The daemon is asked to stop at once.
    StopAsked,
}
