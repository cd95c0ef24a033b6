//! The checked `jobs.yaml`.

use super::JobSpec;
use super::SchedulerSpec;
use std::sync::Arc;

/// All jobs of a file, with unique names, and what the fleet must agree on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobTable {
    /// Jobs in the order of the file.
    pub jobs: Vec<Arc<JobSpec>>,
    /// Fleet policy.
    pub scheduler: SchedulerSpec,
    /// Content hash of the file together with the version of the zone data: replicas with different ones disagree.
    pub revision: String,
}
