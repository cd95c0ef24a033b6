//! The reference driver: records in this process. For tests, simulation and one process that needs no other.

use super::Class;
use super::Error;
use super::Identity;
use super::Probe;
use super::Reach;
use super::Store;
use super::records::HistoryRecords;
use super::records::JobRecords;
use super::transition;
use crate::clock::Clock;
use crate::job::Answer;
use crate::job::Gathering;
use crate::job::HistoryEntry;
use crate::job::JobName;
use crate::job::JobRecord;
use crate::job::Presence;
use crate::job::ReplicaId;
use crate::job::RunRecord;
use crate::job::Step;
use crate::job::Tick;
use async_trait::async_trait;
use chrono::DateTime;
use chrono::Utc;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::Mutex;
use std::time::Duration;

/// All records of a namespace. The store's time is handed in, so that a simulation can hold it.
#[derive(Debug, Clone, Default)]
pub struct Records {
    jobs: BTreeMap<JobName, Job>,
    members: BTreeMap<ReplicaId, Arc<Presence>>,
    /// What the store says that it is.
    pub identity: Identity,
}

#[derive(Debug, Clone, Default)]
struct Job {
    records: JobRecords,
    history: HistoryRecords,
}

impl Records {
    /// Applies one step at the store's time `now` (milliseconds since the epoch).
    pub fn apply(&mut self, step: &Step, now: i64) -> Answer {
        let Job { records, history } = self.jobs.entry(step.job().clone()).or_default();
        let mut picture = records.picture(step, &self.identity);
        let (answer, changes) = transition::apply(&mut picture, step, now);
        if let Some(change) = records.save(picture, changes) {
            history.change(change);
        }
        if records.job.is_none() {
            self.jobs.remove(step.job());
        }
        answer
    }

    /// The record of a job.
    pub fn job(&self, job: &JobName) -> Option<&JobRecord> {
        self.jobs.get(job)?.records.job.as_ref()
    }

    /// All run records of a job, oldest first.
    pub fn runs(&self, job: &JobName) -> impl Iterator<Item = &RunRecord> {
        self.jobs.get(job).into_iter().flat_map(|job| job.records.runs.values())
    }

    /// All jobs.
    pub fn jobs(&self) -> impl Iterator<Item = (&JobName, &JobRecord)> {
        self.jobs.iter().filter_map(|(name, job)| Some((name, job.records.job.as_ref()?)))
    }

    /// A job's history, newest first.
    pub fn history(&self, job: &JobName) -> impl Iterator<Item = &HistoryEntry> {
        self.jobs.get(job).into_iter().flat_map(|job| &job.history.0)
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
        for (name, Job { records, .. }) in &mut self.jobs {
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
    fn has_clock(&self) -> bool {
        true
    }

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
