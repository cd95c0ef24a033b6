//! People, who order runs by hand, cancel some, and pause jobs.

use super::Micros;
use super::SECOND;
use super::What;
use super::World;
use onecron::job::*;

/// What somebody does.
#[derive(Debug, Clone)]
pub enum Deed {
    /// Orders a run, perhaps twice with one key.
    Order { job: JobName, key: String },
    /// Cancels a run that was ordered, or one that is open.
    Cancel { job: JobName },
    /// Pauses a job, or all, or lets them go on.
    Pause { job: Option<JobName>, goes_on: bool },
}

impl World {
    /// Within `length` of an episode.
    pub(super) fn plan_deeds(&mut self, begin: Micros, length: Micros) {
        for number in 0..self.random.between(5, 25) {
            let at = begin + self.random.between(0, length - 20 * SECOND);
            let job = self.some_job();
            let key = if self.random.chance(300) { format!("key {begin} {number}") } else { String::new() };
            if !key.is_empty() && self.random.chance(500) {
                let again = at + self.random.between(0, 20 * SECOND);
                self.put(again, What::Deed(Deed::Order { job: job.clone(), key: key.clone() }));
            }
            if self.random.chance(200) {
                let then = at + self.random.between(SECOND / 1_000, 6 * SECOND);
                self.put(then, What::Deed(Deed::Cancel { job: job.clone() }));
            }
            self.put(at, What::Deed(Deed::Order { job, key }));
        }
        for _ in 0..self.random.between(0, 3) {
            let at = begin + self.random.between(0, length - 40 * SECOND);
            let job = self.random.chance(600).then(|| self.some_job());
            let until = at + self.random.between(SECOND, 20 * SECOND);
            self.put(at, What::Deed(Deed::Pause { job: job.clone(), goes_on: false }));
            self.put(until, What::Deed(Deed::Pause { job, goes_on: true }));
        }
    }

    /// One that is in the table of each replica: of another, an order may wait until somebody reads all jobs.
    fn some_job(&mut self) -> JobName {
        let is_kept =
            |name: &JobName| self.versions.iter().all(|table| table.jobs.iter().any(|spec| spec.name == *name));
        let names = self.versions[0].jobs.iter().map(|spec| spec.name.clone()).filter(is_kept);
        let names: Vec<JobName> = names.collect();
        self.random.pick(&names).clone()
    }

    pub(super) fn do_deed(&mut self, deed: Deed) {
        match deed {
            Deed::Order { job, key } => self.order(job, key),
            Deed::Cancel { job } => {
                let Some(tick) = self.records.job(&job).and_then(|record| record.open.last().copied()) else { return };
                let run = RunKey::new(job, tick);
                let step = Step::AskStop { run: run.clone(), by: "ada".into(), reason: StopReason::Cancel };
                if self.records.apply(&step, self.store_time()).verdict == Verdict::Asked {
                    self.cancelled.push(run);
                }
            }
            Deed::Pause { job, goes_on } => self.pause(job, goes_on),
        }
    }

    fn order(&mut self, job: JobName, key: String) {
        let number = self.random.between(0, 1 << 16) as u16;
        let run = RunKey::new(job, Tick::manual(self.store_time(), number));
        let owner = ReplicaId::new("command", &format!("{number:x}"));
        let (by, runs_for, despite_pause) = ("ada".into(), None, self.random.chance(500));
        let order = Order { run: run.clone(), owner: owner.clone(), by, key, runs_for, despite_pause };
        let answer = self.records.apply(&Step::Order(order), self.store_time());
        if answer.verdict == Verdict::Ordered
            && answer.run.is_some_and(|record| record.scheduled_for == run.scheduled_for)
        {
            self.ordered.push(run.clone());
            let mine = Presence { number: 1, runs: vec![run.to_string()], ..Presence::new(owner, Presence::COMMAND) };
            // Some are killed before they can say it: an answer about the job shows it, or reading all.
            if !self.random.chance(100) {
                self.records.meet(Some(&mine), &[], self.store_time());
            }
        }
    }

    fn pause(&mut self, job: Option<JobName>, goes_on: bool) {
        let now = self.store_time();
        let pause = (!goes_on).then(|| Pause::new("ada", ""));
        let all = job.is_none();
        if all && goes_on {
            self.records.leave(&Presence::all_paused());
        } else if all {
            self.records.meet(Some(&Presence::pause_of_all("ada", "")), &[], now);
        }
        let names = match job {
            Some(job) => vec![job],
            None => self.records.jobs().map(|(name, _)| name.clone()).collect(),
        };
        for job in names {
            self.records.apply(&Step::Pause { job, all, pause: pause.clone(), only_if: None }, now);
        }
    }
}
