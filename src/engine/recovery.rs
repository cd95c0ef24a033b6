//! That a success ends a time of trouble. Which success does is told by the store's history, in which each decided tick
//! has its place; it is read only where there is a sign that there was trouble.

use super::Effect;
use super::Engine;
use super::Trouble;
use crate::job::Answer;
use crate::job::JobRecord;
use crate::job::RunKey;
use crate::job::Tick;

/// How a job stood when a run of it had succeeded and that was not yet recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Before {
    known: Trouble,
    revision: u64,
}

impl Engine {
    pub(super) fn before_success(&self, run: &RunKey) -> Option<Before> {
        let job = self.jobs.get(&run.job)?;
        let stale_since = job.freshness.and_then(|freshness| freshness.stale_since());
        let known = Trouble { failures: job.failures, missed: job.missed, stale_since, was_lost: false };
        Some(Before { known, revision: job.revision })
    }

    /// The end of a run is recorded, by this answer.
    pub(super) fn success_recorded(&mut self, run: &RunKey, answer: &Answer) {
        let Some((ours, before)) = self.runs.get(run).and_then(|ours| Some((ours, ours.before?))) else { return };
        let Before { mut known, revision } = before;
        // Each step that changes the record raises its revision by one: more than ours means that something came between.
        let is_all = answer.job.as_ref().is_some_and(|job| job.revision <= revision + 1);
        // One that an order let run for an earlier instant leaves the job as stale as it was.
        let fresh_at = answer.job.as_ref().map_or(i64::MAX, JobRecord::fresh_at);
        known.stale_since = known.stale_since.filter(|since| *since < fresh_at);
        known.was_lost = ours.was_lost;
        let facts = ours.facts(run);
        self.forget_trouble(run);
        if known != Trouble::default() || !is_all {
            self.effects.push(Effect::LookBack { facts, known });
        }
    }

    /// What was known of the trouble that this success has ended says nothing about others that have ended meanwhile. For
    /// them only the history tells.
    fn forget_trouble(&mut self, run: &RunKey) {
        let of_job = RunKey::new(run.job.clone(), Tick::from_seconds(i64::MIN));
        for (_, other) in self.runs.range_mut(of_job..).take_while(|(other, _)| other.job == run.job) {
            if let Some(before) = &mut other.before {
                before.known = Trouble::default();
            }
        }
    }
}
