//! A begin that was refused for now: another run of the job has the slot, or a forgotten one may have it.

use super::Engine;
use super::runs::Phase;
use super::runs::Run;
use crate::clock::Now;
use crate::job::Answer;
use crate::job::Decision;
use crate::job::RunKey;
use crate::job::SkipReason;
use crate::job::Tick;
use std::time::Duration;

/// How soon a begin that found the slot taken is tried again at first; then twice as long each time.
const SLOT_WAIT_FIRST: Duration = Duration::from_millis(100);
/// And at most.
const SLOT_WAIT_MOST: Duration = Duration::from_secs(1);

impl Engine {
    /// Another run of the job has the slot. It counts as an overlap when that run gave a sign of life after our tick;
    /// an owner that died must not turn the next tick into a skip.
    pub(super) fn slot_busy(&mut self, now: Now, run: &RunKey, (occupant, renewed, answer): (Tick, bool, &Answer)) {
        let alive_here = self.runs.get(&RunKey::new(run.job.clone(), occupant)).is_some_and(Run::holds_slot);
        let record = answer.open.iter().find(|other| other.scheduled_for == occupant);
        let number = record.map_or(0, |record| record.number);
        let holder = record.map(|record| record.owner.clone());
        let Some(ours) = self.runs.get_mut(run) else { return };
        let seen = *ours.occupant.get_or_insert((occupant, number));
        let moved = seen.0 == occupant && seen.1 != number;
        if renewed || moved || alive_here {
            let facts = ours.facts(run);
            self.skipped(facts, SkipReason::Overlap, holder, Some(occupant));
            return self.settle_own(run, Decision::Skipped(SkipReason::Overlap));
        }
        ours.occupant = Some((occupant, number));
        ours.quiet = false;
        self.begin_later(now, run, answer);
        if let Some(record) = record.cloned() {
            let other = RunKey::new(run.job.clone(), occupant);
            self.watch(now, other, record);
        }
    }

    /// The slot cannot be had now: asks again soon.
    pub(super) fn begin_later(&mut self, now: Now, run: &RunKey, answer: &Answer) {
        let Some(ours) = self.runs.get_mut(run) else { return };
        // Asking is the sign of life that keeps others from taking over a claim that waits.
        let takeover = Duration::from_millis(answer.run.as_ref().map_or(u64::MAX, |record| record.takeover_ms));
        let wait = (SLOT_WAIT_FIRST * (1 << ours.waits.min(4))).min(SLOT_WAIT_MOST).min(takeover / 3);
        ours.waits += 1;
        if let Phase::Beginning { not_before, first_sent, request } = &mut ours.phase {
            *not_before = now.boot + wait;
            // The next one is a new request: this one was answered.
            *first_sent = None;
            self.requests += 1;
            *request = self.requests.to_string();
        }
        self.look_at_run(now, run);
    }
}
