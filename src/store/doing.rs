//! What is done with a store, in the words of whoever reads an error: they stand before `on` and its URL.

use crate::job::Step;

/// [`Store::jobs`](super::Store::jobs); so also below.
pub const JOBS: &str = "reading the records of all jobs";
/// See [`Store::history`](super::Store::history).
pub const HISTORY: &str = "reading the history of a job";
/// See [`Store::server_time`](super::Store::server_time).
pub const TIME: &str = "reading the clock";
/// See [`Store::identity`](super::Store::identity).
pub const IDENTITY: &str = "asking which server it is";
/// See [`Store::probe`](super::Store::probe).
pub const PROBE: &str = "looking at the settings and rights";
/// See [`Store::retire`](super::Store::retire).
pub const RETIRE: &str = "removing jobs that no replica has any more";
/// See [`Store::meet`](super::Store::meet).
pub const MEET: &str = "looking which replicas are there";
/// See [`Store::leave`](super::Store::leave).
pub const LEAVE: &str = "taking oneself off the list of replicas";

/// Of several steps the first one, and how many there are beside it.
pub fn steps(steps: &[Step]) -> String {
    match steps {
        [] => "nothing".to_owned(),
        [only] => step(only).to_owned(),
        [first, more @ ..] => format!("{} (and {} more)", step(first), more.len()),
    }
}

/// One of the steps of [`Store::apply`](super::Store::apply).
pub const fn step(step: &Step) -> &'static str {
    match step {
        Step::Register(_) => "registering a job",
        Step::Claim(_) => "claiming a run",
        Step::Begin { .. } => "beginning a run",
        Step::Wait { .. } => "having a run wait for another one",
        Step::AskStop { .. } => "asking for the end of a run",
        Step::Order(_) => "ordering a run",
        Step::Pause { .. } => "pausing a job, or letting it go on",
        Step::CallStale { .. } => "calling a job stale",
        Step::Renew { .. } => "renewing a run",
        Step::Reassert(_) => "telling a store that may have forgotten it of a run",
        Step::Complete { .. } => "recording how a run ended",
        Step::Abandon { .. } => "giving a run back",
        Step::Settle { .. } => "recording that a run was missed, skipped or lost",
        Step::Read { .. } => "reading the record of a run",
    }
}
