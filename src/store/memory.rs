//! The reference driver: records in this process. For tests, simulation and one process that needs no other.

use super::Class;
use super::Error;
use super::Identity;
use super::Probe;
use super::Reach;
use super::Store;
use super::transition;
use super::transition::Changes;
use super::transition::DROPPED_MOST;
use super::transition::History;
use super::transition::Picture;
use crate::clock::Clock;
use crate::job::Answer;
use crate::job::Expect;
use crate::job::Gathering;
use crate::job::HistoryEntry;
use crate::job::JobName;
use crate::job::JobRecord;
use crate::job::Outcome;
use crate::job::Presence;
use crate::job::ReplicaId;
use crate::job::RunRecord;
use crate::job::Step;
use crate::job::Tick;
use async_trait::async_trait;
use chrono::DateTime;
use chrono::Utc;
use std::collections::BTreeMap;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::Mutex;
use std::time::Duration;

/// All records of a namespace. The store's time is handed in, so that a simulation can hold it.
#[derive(Debug, Clone, Default)]
pub struct Records {
    jobs: BTreeMap<JobName, JobRecords>,
    members: BTreeMap<ReplicaId, Arc<Presence>>,
    /// What the store says that it is.
    pub identity: Identity,
}

#[derive(Debug, Clone, Default)]
struct JobRecords {
    job: Option<JobRecord>,
    runs: BTreeMap<Tick, RunRecord>,
    history: VecDeque<HistoryEntry>,
}

impl Records {
    /// Applies one step at the store's time `now` (milliseconds since the epoch).
    pub fn apply(&mut self, step: &Step, now: i64) -> Answer {
        let records = self.jobs.entry(step.job().clone()).or_default();
        let mut picture = Picture { store: self.identity.clone(), ..records.picture(step) };
        let (answer, changes) = transition::apply(&mut picture, step, now);
        records.save(picture, changes);
        if records.job.is_none() {
            self.jobs.remove(step.job());
        }
        answer
    }

    /// The record of a job.
    pub fn job(&self, job: &JobName) -> Option<&JobRecord> {
        self.jobs.get(job)?.job.as_ref()
    }

    /// All run records of a job, oldest first.
    pub fn runs(&self, job: &JobName) -> impl Iterator<Item = &RunRecord> {
        self.jobs.get(job).into_iter().flat_map(|records| records.runs.values())
    }

    /// All jobs.
    pub fn jobs(&self) -> impl Iterator<Item = (&JobName, &JobRecord)> {
        self.jobs.iter().filter_map(|(name, records)| Some((name, records.job.as_ref()?)))
    }

    /// A job's history, newest first.
    pub fn history(&self, job: &JobName) -> impl Iterator<Item = &HistoryEntry> {
        self.jobs.get(job).into_iter().flat_map(|records| &records.history)
    }

    /// See [`Store::meet`], at the store's time `now` (milliseconds since the epoch).
    pub fn meet(&mut self, mine: Option<&Presence>, gone: &[Presence], now: i64) -> Gathering {
        for member in gone {
            if self.members.get(&member.name).is_some_and(|found| found.number == member.number) {
                self.members.remove(&member.name);
            }
        }
        if let Some(mine) = mine {
            self.members.insert(mine.name.clone(), Arc::new(Presence { written_at: now, ..mine.clone() }));
        }
        Gathering { at: now, members: self.members.values().cloned().collect() }
    }

    /// See [`Store::leave`].
    pub fn leave(&mut self, who: &ReplicaId) {
        self.members.remove(who);
    }

    /// Loses records, as a store that evicts does: those of jobs (no tick) and of runs that are named.
    pub fn forget(&mut self, mut is_lost: impl FnMut(&JobName, Option<Tick>) -> bool) {
        for (name, records) in &mut self.jobs {
            records.runs.retain(|tick, _| !is_lost(name, Some(*tick)));
            if is_lost(name, None) {
                records.job = None;
            }
        }
    }

    fn retire(&mut self, before: i64) -> Vec<JobName> {
        let idle = |record: &JobRecord| record.registered_at < before && record.open.is_empty();
        let names: Vec<JobName> =
            self.jobs().filter(|(_, record)| idle(record)).map(|(name, _)| name.clone()).collect();
        for name in &names {
            self.jobs.remove(name);
        }
        names
    }
}

impl JobRecords {
    fn picture(&self, step: &Step) -> Picture {
        let open = self.job.iter().flat_map(|job| &job.open).filter_map(|tick| self.runs.get(tick).cloned()).collect();
        let finals = self.runs.values().filter(|run| !run.is_open()).map(|run| run.scheduled_for);
        Picture {
            job: self.job.clone(),
            run: self.run(step).cloned(),
            open,
            oldest: finals.take(DROPPED_MOST).collect(),
            lowest: self.lowest(step),
            store: Identity::default(),
        }
    }

    fn run(&self, step: &Step) -> Option<&RunRecord> {
        let ordered = match step {
            Step::Order(order) if !order.key.is_empty() => self.runs.values().find(|run| run.order_key == order.key),
            _ => None,
        };
        ordered.or_else(|| self.runs.get(&step.run()?.scheduled_for))
    }

    fn lowest(&self, step: &Step) -> Option<Tick> {
        match step {
            Step::Settle { run, expect: Expect::AbsentRange { first, .. }, .. } if *first <= run.scheduled_for => {
                self.runs.range(*first..=run.scheduled_for).map(|(tick, _)| *tick).find(|tick| !tick.is_manual())
            }
            _ => None,
        }
    }

    fn save(&mut self, picture: Picture, changes: Changes) {
        let withdrawn = picture.run.as_ref().map(|run| run.scheduled_for.to_string());
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
        if let (true, Some(tick)) = (changes.withdrawn, withdrawn) {
            self.history.retain(|entry| entry.scheduled_for != tick);
        }
        match changes.history {
            Some(History::Decided(entry)) => self.history.push_front(*entry),
            Some(History::Late { scheduled_for, late_outcome }) => {
                let tick = scheduled_for.to_string();
                if let Some(entry) = self.history.iter_mut().find(|entry| entry.scheduled_for == tick) {
                    entry.late_outcome = late_outcome.as_str().into();
                }
            }
            None => return,
        }
        self.trim_history();
    }

    /// The newest outcomes stay, and the output of the newest successes and failures.
    fn trim_history(&mut self) {
        let [ticks, successful, failed] = self.job.as_ref().map_or([0; 3], |job| job.history);
        self.history.truncate(ticks.try_into().unwrap_or(usize::MAX));
        let (mut successes, mut failures) = (0, 0);
        for entry in &mut self.history {
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

/// [`Records`] behind the store's interface.
pub struct MemoryStore {
    records: Mutex<Records>,
    clock: Arc<dyn Clock>,
}

impl std::fmt::Debug for MemoryStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("MemoryStore")
    }
}

impl MemoryStore {
    /// An empty store with a clock of its own.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        // Another process, or another store of this one, is another store.
        let server = format!("memory-{}-{}", std::process::id(), clock.now().boot.nanos());
        let records = Records { identity: Identity { server, ..Identity::default() }, ..Records::default() };
        Self { records: Mutex::new(records), clock }
    }

    /// As if it had stopped and come back with all its records: to whoever asks, it may have lost some.
    pub fn restart(&self) {
        self.with(|records, _| records.identity.server.push('+'));
    }

    fn with<T>(&self, act: impl FnOnce(&mut Records, i64) -> T) -> T {
        let now = self.clock.now().wall.timestamp_millis();
        act(&mut self.records.lock().expect("no holder of this lock panics"), now)
    }
}

#[async_trait]
impl Store for MemoryStore {
    fn url(&self) -> &str {
        "memory:"
    }

    async fn apply(&self, steps: &[Step]) -> Result<Vec<Answer>, Error> {
        Ok(self.with(|records, now| steps.iter().map(|step| records.apply(step, now)).collect()))
    }

    async fn jobs(&self) -> Result<Vec<(JobName, JobRecord)>, Error> {
        Ok(self.with(|records, _| records.jobs().map(|(name, record)| (name.clone(), record.clone())).collect()))
    }

    async fn history(&self, job: &JobName, most: usize) -> Result<Vec<HistoryEntry>, Error> {
        Ok(self.with(|records, _| records.history(job).take(most).cloned().collect()))
    }

    async fn server_time(&self) -> Result<DateTime<Utc>, Error> {
        Ok(self.clock.now().wall)
    }

    async fn identity(&self) -> Result<Identity, Error> {
        Ok(self.with(|records, _| records.identity.clone()))
    }

    async fn probe(&self) -> Result<Probe, Error> {
        Ok(Probe {
            class: Class::A,
            version: "memory of this process".into(),
            reach: Reach::OneProcess,
            findings: Vec::new(),
        })
    }

    async fn retire(&self, unregistered_for: Duration) -> Result<Vec<JobName>, Error> {
        let millis = i64::try_from(unregistered_for.as_millis()).unwrap_or(i64::MAX);
        Ok(self.with(|records, now| records.retire(now.saturating_sub(millis))))
    }

    async fn meet(&self, mine: Option<&Presence>, gone: &[Presence]) -> Result<Gathering, Error> {
        Ok(self.with(|records, now| records.meet(mine, gone, now)))
    }

    async fn leave(&self, who: &ReplicaId) -> Result<(), Error> {
        self.with(|records, _| records.leave(who));
        Ok(())
    }
}
