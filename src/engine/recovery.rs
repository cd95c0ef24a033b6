//! That a success ends a time of trouble. Which success does is told by the store's history, in which each decided tick
//! has its place; it is read only where there is a sign that there was trouble.

use super::Effect;
use super::Engine;
use crate::job::Answer;
use crate::job::Occasion;
use crate::job::RunKey;

/// How a job stood when a run of it had succeeded and that was not yet recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Before {
    failures: u32,
    revision: u64,
    was_stale: bool,
    /// Somebody is told of recoveries, and ticks lie between the success before and this one: they may have been missed.
    has_gap: bool,
}

impl Engine {
    pub(super) fn before_success(&self, run: &RunKey) -> Option<Before> {
        let job = self.jobs.get(&run.job)?;
        let at = run.scheduled_for.seconds();
        let is_between = |last: i64| job.after(last).is_some_and(|next| next.seconds() < at);
        let is_told = !job.spec.notify.on(Occasion::Recovery).is_empty();
        Some(Before {
            failures: job.failures,
            revision: job.revision,
            was_stale: job.freshness.is_some_and(|freshness| freshness.is_called()),
            has_gap: is_told && job.last_success.is_none_or(|last| is_between(last.seconds())),
        })
    }

    /// The end of a run is recorded, by this answer.
    pub(super) fn success_recorded(&mut self, run: &RunKey, answer: &Answer) {
        let Some((ours, before)) = self.runs.get(run).and_then(|ours| Some((ours, ours.before?))) else { return };
        let Before { failures, revision, was_stale, has_gap } = before;
        // Each step that changes the record raises its revision by one: more than ours means that something came between.
        let is_known = answer.job.as_ref().is_some_and(|job| job.revision <= revision + 1);
        if failures > 0 || was_stale || has_gap || !is_known {
            let facts = ours.facts(run);
            self.effects.push(Effect::LookBack { facts, failures, was_stale });
        }
    }
}
