//! That a success ends a time of trouble. Which success does is told by the store's history, in which each decided tick
//! has its place; it is read only where there is a sign that there was trouble.

use super::Effect;
use super::Engine;
use super::Trouble;
use crate::job::Answer;
use crate::job::RunKey;

/// How a job stood when a run of it had succeeded and that was not yet recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Before {
    known: Trouble,
    revision: u64,
}

impl Engine {
    pub(super) fn before_success(&self, run: &RunKey) -> Option<Before> {
        let job = self.jobs.get(&run.job)?;
        let was_stale = job.freshness.is_some_and(|freshness| freshness.is_called());
        let known = Trouble { failures: job.failures, missed: job.missed, was_stale };
        Some(Before { known, revision: job.revision })
    }

    /// The end of a run is recorded, by this answer.
    pub(super) fn success_recorded(&mut self, run: &RunKey, answer: &Answer) {
        let Some((ours, before)) = self.runs.get(run).and_then(|ours| Some((ours, ours.before?))) else { return };
        let Before { known, revision } = before;
        // Each step that changes the record raises its revision by one: more than ours means that something came between.
        let is_all = answer.job.as_ref().is_some_and(|job| job.revision <= revision + 1);
        if known != Trouble::default() || !is_all {
            let facts = ours.facts(run);
            self.effects.push(Effect::LookBack { facts, known });
        }
    }
}
