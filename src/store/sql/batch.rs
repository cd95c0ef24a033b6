//! The records that a batch is about, in memory: loaded together, changed step by step, saved together.

use super::event::RunEvent;
use crate::job::Answer;
use crate::job::HistoryEntry;
use crate::job::JobName;
use crate::job::JobRecord;
use crate::job::Outcome;
use crate::job::RunRecord;
use crate::job::Step;
use crate::job::Tick;
use crate::store::Identity;
use crate::store::records::lowest_of;
use crate::store::records::run_of;
use crate::store::records::settled_by;
use crate::store::transition;
use crate::store::transition::Changes;
use crate::store::transition::DROPPED_MOST;
use crate::store::transition::History;
use crate::store::transition::Picture;
use std::collections::BTreeMap;
use std::collections::BTreeSet;

/// What is loaded of one job.
#[derive(Debug, Default)]
pub struct Loaded {
    /// Its record.
    pub job: Option<JobRecord>,
    /// Its open runs, and those that the batch names.
    pub runs: BTreeMap<Tick, RunRecord>,
    /// The ticks of its oldest final records, as many as the batch can drop.
    pub finals: BTreeSet<Tick>,
    /// All ticks of which it is known that they have a record: where a range is to be settled, the earliest in it.
    pub recorded: BTreeSet<Tick>,
    /// The form of a record that cannot be read; 0: it is ours, and a field is not understood. No step touches the job.
    pub unreadable: Option<u32>,
}

impl Loaded {
    fn picture(&self, step: &Step, store: &Identity) -> Picture {
        let store = store.clone();
        if self.job.is_none() {
            return Picture { store, ..Picture::default() };
        }
        Picture {
            job: self.job.clone(),
            run: run_of(&self.runs, step).cloned(),
            open: self.runs.values().filter(|run| run.is_open()).cloned().collect(),
            oldest: self.finals.iter().take(DROPPED_MOST).copied().collect(),
            lowest: settled_by(step).and_then(|range| lowest_of(self.recorded.range(range).copied())),
            store,
        }
    }
}

/// A change of the history.
#[derive(Debug, Default)]
pub struct HistoryChanges {
    /// Ticks whose entries are taken out, before all else.
    pub withdrawn: Vec<(JobName, Tick)>,
    /// Entries that are there, and get their owner's account.
    pub late: Vec<(JobName, Tick, Outcome)>,
    /// New entries, oldest first.
    pub added: Vec<(JobName, HistoryEntry)>,
}

impl HistoryChanges {
    /// Jobs whose history changed.
    pub fn jobs(&self) -> BTreeSet<&JobName> {
        let changed = self.late.iter().map(|(job, ..)| job);
        changed.chain(self.added.iter().map(|(job, _)| job)).collect()
    }

    fn note(&mut self, job: &JobName, withdrawn: Option<Tick>, change: Option<History>) {
        if let Some(tick) = withdrawn {
            let text = tick.to_string();
            self.added.retain(|(of, entry)| of != job || entry.scheduled_for != text);
            self.withdrawn.push((job.clone(), tick));
        }
        match change {
            Some(History::Decided(entry)) => self.added.push((job.clone(), *entry)),
            Some(History::Late { scheduled_for, late_outcome }) => {
                let text = scheduled_for.to_string();
                let is_it = |(of, entry): &&mut (JobName, HistoryEntry)| of == job && entry.scheduled_for == text;
                match self.added.iter_mut().rev().find(is_it) {
                    Some((_, entry)) => entry.late_outcome = late_outcome.as_str().into(),
                    None => self.late.push((job.clone(), scheduled_for, late_outcome)),
                }
            }
            None => {}
        }
    }
}

/// See the module.
#[derive(Debug, Default)]
pub struct Batch {
    /// What is loaded, by job.
    pub jobs: BTreeMap<JobName, Loaded>,
    /// Jobs whose record changed.
    pub changed_jobs: BTreeSet<JobName>,
    /// Runs whose record changed or is new.
    pub changed_runs: BTreeSet<(JobName, Tick)>,
    /// Records to drop.
    pub dropped: BTreeSet<(JobName, Tick)>,
    /// What becomes of the history.
    pub history: HistoryChanges,
    /// What the audit trail has to say of it.
    pub events: Vec<RunEvent>,
}

impl Batch {
    /// Applies one step at the store's time `now` (milliseconds since the epoch).
    pub fn apply(&mut self, step: &Step, store: &Identity, now: i64) -> Answer {
        let name = step.job();
        let loaded = self.jobs.entry(name.clone()).or_default();
        if let Some(format) = loaded.unreadable {
            return Answer::unreadable(format);
        }
        let mut picture = loaded.picture(step, store);
        let before = picture.run.clone();
        let (answer, changes) = transition::apply(&mut picture, step, now);
        if changes.run {
            self.events.extend(RunEvent::of(step, &answer, before.as_ref(), now));
        }
        self.note(name, picture, changes);
        answer
    }

    fn note(&mut self, name: &JobName, picture: Picture, changes: Changes) {
        let Some(loaded) = self.jobs.get_mut(name) else { return };
        let withdrawn = picture.run.as_ref().filter(|_| changes.withdrawn).map(|run| run.scheduled_for);
        if changes.job {
            loaded.job = picture.job;
            self.changed_jobs.insert(name.clone());
        }
        if changes.run
            && let Some(run) = picture.run
        {
            let tick = run.scheduled_for;
            if run.is_open() {
                loaded.finals.remove(&tick);
            } else {
                loaded.finals.insert(tick);
            }
            loaded.recorded.insert(tick);
            loaded.runs.insert(tick, run);
            self.changed_runs.insert((name.clone(), tick));
            self.dropped.remove(&(name.clone(), tick));
        }
        for tick in changes.dropped {
            loaded.finals.remove(&tick);
            loaded.recorded.remove(&tick);
            loaded.runs.remove(&tick);
            self.changed_runs.remove(&(name.clone(), tick));
            self.dropped.insert((name.clone(), tick));
        }
        self.history.note(name, withdrawn, changes.history);
    }
}
