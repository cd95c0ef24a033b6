//! From what other schedulers read to a `jobs.yaml`: crontabs and Kubernetes CronJobs. Pure: text to text.
//!
//! What is made means the same as what was read, as far as that goes, also where our own defaults are safer: it says
//! so in the file. What cannot be carried over is told beside the job, and to the caller.

mod cronjob;
mod crontab;
mod draft;
mod expand;

pub use cronjob::cronjob;
pub use crontab::Crontab;
pub use crontab::crontab;

/// A table that was made of something else.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Converted {
    /// The `jobs.yaml`.
    pub table: String,
    /// How many jobs it has.
    pub jobs: usize,
    /// What was not carried over, or is to be looked at, in the order of the input.
    pub notes: Vec<String>,
}

/// Why nothing was made of a text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct NothingToConvert(pub(crate) String);
