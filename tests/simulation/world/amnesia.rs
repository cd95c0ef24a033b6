//! The store: it forgets, and twins of it lack a defence.

use super::CALM;
use super::REPLICAS;
use super::SECOND;
use super::What;
use super::World;
use onecron::engine::Notice;
use onecron::job::*;
use onecron::store::Records;

/// How the store forgets.
#[derive(Debug, Clone, Copy)]
pub enum Amnesia {
    /// It restarts with nothing.
    Restart,
    /// It is emptied.
    Flush,
    /// It restarts with what it knew some seconds ago.
    Back,
    /// It evicts some records.
    Evict,
}

impl World {
    pub(super) fn plan_amnesia(&mut self) {
        for _ in 0..self.random.between(1, 4) {
            let at = self.random.between(15 * SECOND, CALM - 60 * SECOND);
            let how = match self.random.between(0, 4) {
                0 => Amnesia::Restart,
                1 => Amnesia::Flush,
                2 => Amnesia::Back,
                _ => Amnesia::Evict,
            };
            if matches!(how, Amnesia::Back) {
                let before = self.random.between(SECOND / 10, 8 * SECOND);
                self.put(at - before, What::Remember);
            }
            self.put(at, What::Forget { how });
        }
    }

    pub(super) fn forget(&mut self, how: Amnesia) {
        let mut identity = self.records.identity.clone();
        if matches!(how, Amnesia::Restart | Amnesia::Back) && self.faults.guard {
            identity.server.push('+');
        }
        match how {
            Amnesia::Restart | Amnesia::Flush => self.records = Records::default(),
            Amnesia::Back => self.records = self.remembered.clone(),
            Amnesia::Evict => {
                let random = &mut self.random;
                self.records.forget(|_, tick| random.chance(if tick.is_some() { 300 } else { 100 }));
                identity.evicted += u64::from(self.faults.guard);
                self.evicted.push(self.now);
            }
        }
        self.records.identity = identity;
        for replica in 0..REPLICAS {
            let at = self.now + self.random.between(0, 2 * SECOND);
            self.put(at, What::StoreChanged { replica });
        }
    }

    /// Notes who registers a job without knowing that it is not new; and registers it for a store that never notices
    /// that it forgot.
    fn register(&mut self, registration: &Registration, now: i64) -> Option<Answer> {
        let known = self
            .lines
            .iter()
            .any(|line| matches!(&line.notice, Notice::JobRegistered { job, .. } if *job == registration.job));
        if known && registration.knew.is_none() && self.records.job(&registration.job).is_none() {
            self.met_anew.push((registration.job.clone(), self.now));
        }
        if !self.faults.guard {
            let blind = Registration { skew_tolerance_ms: -20_000, knew: None, ..registration.clone() };
            return Some(self.records.apply(&Step::Register(blind), now));
        }
        None
    }

    /// The store takes a step; without the defences that are turned off.
    pub(super) fn apply(&mut self, step: &Step, now: i64) -> Answer {
        if !self.faults.fence
            && let Step::Begin { run, request, .. } = step
        {
            let record = self.records.runs(&run.job).find(|record| record.scheduled_for == run.scheduled_for).cloned();
            let open = |record: &RunRecord| matches!(record.state, RunState::Claimed | RunState::Begun);
            if let Some(RunRecord { owner, start, .. }) = record.filter(open) {
                let blind = Step::Begin { run: run.clone(), owner, start, request: request.clone() };
                return self.records.apply(&blind, now);
            }
        }
        if let Step::Register(registration) = step
            && let Some(answer) = self.register(registration, now)
        {
            return answer;
        }
        if !self.faults.drains
            && let Step::AskStop { run, reason, .. } = step
        {
            let record = self.records.runs(&run.job).find(|record| record.scheduled_for == run.scheduled_for).cloned();
            if let Some(RunRecord { owner, start, .. }) = record {
                let (exit_code, signal, error) = (None, None, String::new());
                let (outcome, output_tail) = (reason.outcome(), String::new());
                let ending = Ending { outcome, exit_code, signal, duration_ms: 0, error, output_tail };
                self.records.apply(&Step::Complete { run: run.clone(), owner, start, ending }, now);
            }
        }
        self.records.apply(step, now)
    }
}
