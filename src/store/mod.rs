//! Where replicas agree who executes a run.
//!
//! A store keeps one [`JobRecord`](crate::job::JobRecord) per job and one [`RunRecord`](crate::job::RunRecord) per
//! tick, and takes [`Step`]s in batches. What a step does is written once, in [`transition`], as a pure function;
//! drivers load the records it needs, apply it and save, in one atomic unit per step. (Redis runs the same rules as
//! Lua, in the server; a test compares the two on random steps.)
//!
//! There is no way to unlock a run, and nothing expires: a claim outlives its run, so that a replica that comes late,
//! by whatever its clock says, finds the tick decided.

mod access;
mod documents;
pub mod doing;
mod error;
mod fields;
mod memory;
#[cfg(feature = "mysql")]
mod mysql;
mod open;
mod place;
#[cfg(feature = "postgres")]
mod postgres;
mod records;
mod redis;
#[cfg(any(feature = "postgres", feature = "mysql"))]
mod sql;
mod sqlite;
pub mod transition;

pub use access::Access;
pub use access::Account;
pub use error::Error;
pub use error::ErrorKind;
pub use memory::MemoryStore;
pub use memory::Records;
pub use open::OpenError;
pub use open::open;
pub use open::open_with;

use crate::job::Answer;
use crate::job::Gathering;
use crate::job::HistoryEntry;
use crate::job::JobName;
use crate::job::JobRecord;
use crate::job::Presence;
use crate::job::ReplicaId;
use crate::job::Step;
use async_trait::async_trait;
use chrono::DateTime;
use chrono::Utc;
use std::fmt;
use std::time::Duration;

/// How many steps one batch may have.
pub const BATCH_MOST: usize = 500;

/// What a store is worth.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// Linearizable and durable.
    A,
    /// Linearizable until it fails over or restarts with losses.
    B,
    /// Best effort.
    C,
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::A => "A",
            Self::B => "B",
            Self::C => "C",
        })
    }
}

/// Which replicas can share a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// Those that reach its server.
    Network,
    /// Those on one host.
    OneHost,
    /// None but this process.
    OneProcess,
}

impl Reach {
    /// The words in logs.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Network => "network",
            Self::OneHost => "this host only",
            Self::OneProcess => "this process only",
        }
    }
}

/// What a store is at this moment, as its driver reads it when it connects and before each registration. Where that has
/// changed since a job was registered, records may have been lost.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Identity {
    /// Tells this server, file or process, and this life of it, from any other. Empty where the store does not tell:
    /// then nothing is compared.
    pub server: String,
    /// How many keys it has evicted in this life, where its policy can meet ours.
    pub evicted: u64,
    /// After a restart: nothing that was acknowledged after this instant (store clock, milliseconds) is missing. 0:
    /// nothing at all is missing; `None`: anything may be.
    pub missing_until: Option<i64>,
}

/// A setting of the store that makes the promise weaker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// What was looked at: a word for logs and metrics.
    pub check: &'static str,
    /// What was found.
    pub found: String,
    /// What to set instead, and what happens if not.
    pub wanted: String,
}

/// What a look at the store's settings found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Probe {
    /// What the store is worth as it is set up.
    pub class: Class,
    /// The server's own name and version.
    pub version: String,
    /// Which replicas can share it.
    pub reach: Reach,
    /// What makes the promise weaker.
    pub findings: Vec<Finding>,
}

/// Where replicas agree who executes a run.
///
/// All methods reconnect by themselves and have an end: connecting and each request take a few seconds at most.
/// Cancel safety: dropping a future leaves the request sent or not sent, like a lost reply; steps are idempotent, so
/// the caller sends them again.
#[async_trait]
pub trait Store: Send + Sync + fmt::Debug {
    /// The store's URL as it may be shown: without password.
    fn url(&self) -> &str;

    /// Applies up to [`BATCH_MOST`] steps in their order, each atomic by itself, in one round trip where the store
    /// allows. One answer per step.
    ///
    /// # Errors
    /// The store could not be reached, or did not answer, or answered with an error of its own: any prefix of the
    /// steps may have been applied ([`ErrorKind::MaybeApplied`]) or none ([`ErrorKind::NotSent`]).
    async fn apply(&self, steps: &[Step]) -> Result<Vec<Answer>, Error>;

    /// The records of all jobs of the namespace, also of those that no table has any more. Those that this version
    /// cannot read are left out: steps about them say so.
    ///
    /// # Errors
    /// As for [`Store::apply`]; so also below.
    async fn jobs(&self) -> Result<Vec<(JobName, JobRecord)>, Error>;

    /// The newest entries of a job's history, newest first; with output where it is kept.
    async fn history(&self, job: &JobName, most: usize) -> Result<Vec<HistoryEntry>, Error>;

    /// Whether the store has a clock. Without one, steps are judged by the clock of the replica that sends them: then
    /// nothing is known of how far that one is from the others, and nothing may be concluded from an instant.
    fn has_clock(&self) -> bool;

    /// The clock that steps are judged by: the store's, or this replica's own where it has none ([`Store::has_clock`]).
    async fn server_time(&self) -> Result<DateTime<Utc>, Error>;

    /// What the store is now. A change means that jobs are to be registered again. To be asked every second by whoever
    /// registers jobs: from that some stores know, after a restart, how little they have lost.
    async fn identity(&self) -> Result<Identity, Error>;

    /// Looks at the store's settings.
    async fn probe(&self) -> Result<Probe, Error>;

    /// Removes jobs, with all their records, that no replica registered for so long and that have no open run.
    /// Returns their names.
    async fn retire(&self, unregistered_for: Duration) -> Result<Vec<JobName>, Error>;

    /// Writes one's own presence, where one has any, removes those of members that are `gone` (each only if it still
    /// has the number that it had when it was seen), and reads all. One round trip.
    async fn meet(&self, mine: Option<&Presence>, gone: &[Presence]) -> Result<Gathering, Error>;

    /// Removes the presence of a member that ends.
    async fn leave(&self, who: &ReplicaId) -> Result<(), Error>;
}
