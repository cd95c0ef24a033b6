//! The records of one job as values: what a step sees of them, and what becomes of them. Drivers that hold whole jobs
//! in hand share this.

use super::Identity;
use super::transition::Changes;
use super::transition::DROPPED_MOST;
use super::transition::History;
use super::transition::Picture;
use crate::job::Expect;
use crate::job::HistoryEntry;
use crate::job::JobRecord;
use crate::job::Outcome;
use crate::job::RunRecord;
use crate::job::Step;
use crate::job::Tick;
use std::collections::BTreeMap;
use std::collections::VecDeque;
use std::ops::RangeInclusive;

/// A job's record and those of its runs.
#[derive(Debug, Clone, Default)]
pub(super) struct JobRecords {
    pub job: Option<JobRecord>,
    pub runs: BTreeMap<Tick, RunRecord>,
}

/// A change of the history, and how much of it stays.
#[derive(Debug, Clone)]
pub(super) struct HistoryChange {
    withdrawn: Option<Tick>,
    history: Option<History>,
    limits: [u32; 3],
}

/// A job's history, newest first.
#[derive(Debug, Clone, Default)]
pub(super) struct HistoryRecords(pub VecDeque<HistoryEntry>);

/// The run that a step is about: the one that was ordered with its key before, else that of its tick.
pub(super) fn run_of<'a>(runs: &'a BTreeMap<Tick, RunRecord>, step: &Step) -> Option<&'a RunRecord> {
    let ordered = match step {
        Step::Order(order) if !order.key.is_empty() => runs.values().find(|run| run.order_key == order.key),
        _ => None,
    };
    ordered.or_else(|| runs.get(&step.run()?.scheduled_for))
}

/// The ticks that a step settles as a range, where it does.
pub(super) fn settled_by(step: &Step) -> Option<RangeInclusive<Tick>> {
    match step {
        Step::Settle { run, expect: Expect::AbsentRange { first, .. }, .. } if *first <= run.scheduled_for => {
            Some(*first..=run.scheduled_for)
        }
        _ => None,
    }
}

/// The first of some ticks, in their order, that a schedule made: runs by hand are not counted in ranges.
pub(super) fn lowest_of(mut ticks: impl Iterator<Item = Tick>) -> Option<Tick> {
    ticks.find(|tick| !tick.is_manual())
}

impl JobRecords {
    /// What a step needs to see, in a store that is that.
    pub fn picture(&self, step: &Step, store: &Identity) -> Picture {
        let open = self.job.iter().flat_map(|job| &job.open).filter_map(|tick| self.runs.get(tick).cloned()).collect();
        let finals = self.runs.values().filter(|run| !run.is_open()).map(|run| run.scheduled_for);
        Picture {
            job: self.job.clone(),
            run: run_of(&self.runs, step).cloned(),
            open,
            oldest: finals.take(DROPPED_MOST).collect(),
            lowest: settled_by(step).and_then(|range| lowest_of(self.runs.range(range).map(|(tick, _)| *tick))),
            store: store.clone(),
        }
    }

    /// Saves what a step changed, and gives back what is to be done to the history.
    pub fn save(&mut self, picture: Picture, changes: Changes) -> Option<HistoryChange> {
        let withdrawn = picture.run.as_ref().filter(|_| changes.withdrawn).map(|run| run.scheduled_for);
        if changes.job {
            self.job = picture.job;
        }
        if changes.run
            && let Some(run) = picture.run
        {
            self.runs.insert(run.scheduled_for, run);
        }
        for tick in &changes.dropped {
            self.runs.remove(tick);
        }
        let limits = self.job.as_ref().map_or([0; 3], |job| job.history);
        let history = changes.history;
        (withdrawn.is_some() || history.is_some()).then_some(HistoryChange { withdrawn, history, limits })
    }
}

impl HistoryRecords {
    /// Makes a change.
    pub fn change(&mut self, change: HistoryChange) {
        let HistoryChange { withdrawn, history, limits } = change;
        if let Some(tick) = withdrawn.map(|tick| tick.to_string()) {
            self.0.retain(|entry| entry.scheduled_for != tick);
        }
        match history {
            Some(History::Decided(entry)) => self.0.push_front(*entry),
            Some(History::Late { scheduled_for, late_outcome }) => {
                let tick = scheduled_for.to_string();
                if let Some(entry) = self.0.iter_mut().find(|entry| entry.scheduled_for == tick) {
                    entry.late_outcome = late_outcome.as_str().into();
                }
            }
            None => return,
        }
        self.trim(limits);
    }

    /// The newest outcomes stay, and the output of the newest successes and failures.
    fn trim(&mut self, [ticks, successful, failed]: [u32; 3]) {
        self.0.truncate(ticks.try_into().unwrap_or(usize::MAX));
        let (mut successes, mut failures) = (0, 0);
        for entry in &mut self.0 {
            let outcome = Outcome::parse(&entry.outcome);
            let (seen, most) = match outcome {
                Some(Outcome::Succeeded) => (&mut successes, successful),
                Some(outcome) if outcome.is_unsuccessful() => (&mut failures, failed),
                _ => continue,
            };
            *seen += 1;
            if *seen > most {
                entry.output_tail.clear();
            }
        }
    }
}
