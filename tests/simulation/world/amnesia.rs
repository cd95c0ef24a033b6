//! The store: it forgets, and twins of it lack a defence.

use super::SECOND;
use super::What;
use super::Without;
use super::World;
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
    pub(super) fn forget(&mut self, how: Amnesia) {
        let mut identity = self.records.identity.clone();
        let guarded = self.faults.without != Some(Without::MemoryGuard);
        if matches!(how, Amnesia::Restart | Amnesia::Back) && guarded {
            identity.server.push('+');
        }
        self.meet("the store forgets");
        self.forgot.push(self.now);
        match how {
            Amnesia::Restart | Amnesia::Flush => self.records = Records::default(),
            Amnesia::Back => self.records = self.remembered.clone(),
            Amnesia::Evict => {
                let random = &mut self.random;
                self.records.forget(|_, tick| random.chance(if tick.is_some() { 300 } else { 100 }));
                identity.evicted += u64::from(guarded);
                self.evicted.push(self.now);
            }
        }
        self.records.identity = identity;
        for replica in 0..self.replicas.len() {
            let at = self.now + self.random.between(0, 2 * SECOND);
            self.put(at, What::StoreChanged { replica });
        }
    }

    /// Notes who registers a job without knowing that it is not new.
    fn note_registration(&mut self, registration: &Registration, answer: &Answer) {
        let (Verdict::Registered { fresh, rescheduled }, Some(job)) = (answer.verdict, &answer.job) else { return };
        let name = &registration.job;
        if fresh && registration.knew.is_none() && self.known.contains(name) {
            self.met_anew.push((name.clone(), self.now));
        }
        if rescheduled {
            self.rescheduled.push((name.clone(), self.now));
        }
        let sinces = self.sinces.entry(name.clone()).or_default();
        if sinces.last() != Some(&job.since) {
            sinces.push(job.since);
        }
    }

    /// Answers that a campaign must have met; most of them have no run's record.
    fn note_rare(&mut self, verdict: Verdict) {
        match verdict {
            Verdict::Fenced => self.meet("fenced"),
            Verdict::RecordedLate => self.meet("recorded late"),
            Verdict::TooOld => self.meet("too old"),
            Verdict::TooEarly { .. } => self.meet("too early"),
            Verdict::Superseded => self.meet("superseded"),
            Verdict::Quiet => self.meet("quiet"),
            Verdict::Busy { .. } => self.meet("busy"),
            Verdict::Released => self.meet("given back"),
            Verdict::Occupied { .. } => self.meet("occupied range"),
            _ => {}
        }
    }

    /// What an answer says of a run: who has it, and how it ended. What is decided stays so.
    fn note_run(&mut self, step: &Step, answer: &Answer) {
        self.note_rare(answer.verdict);
        let (Some(run), Some(key)) = (&answer.run, step.run()) else { return };
        if matches!(answer.verdict, Verdict::Won | Verdict::Renewed) {
            let owners = self.owners.entry(key.clone()).or_default();
            if !owners.contains(&run.owner) {
                owners.push(run.owner.clone());
            }
        }
        if matches!(step, Step::Claim(Claim { takeover: Some(_), .. })) && answer.verdict == Verdict::Won {
            self.meet(if run.start == 0 { "takeover before begin" } else { "rerun" });
        }
        if run.state != RunState::Done {
            return;
        }
        if let Some(range_first) = run.range_first
            && answer.verdict == Verdict::Settled
            && range_first < run.scheduled_for
        {
            self.meet("range");
        }
        let Some(before) = self.decided.get(key) else {
            self.decided.insert(key.clone(), run.clone());
            return;
        };
        if before.outcome != run.outcome {
            if !self.faults.amnesia {
                self.broken.get_or_insert(format!("{key} was {:?} and is {:?}", before.outcome, run.outcome));
            }
            self.decided.insert(key.clone(), run.clone());
        } else if before.late_outcome != run.late_outcome {
            self.decided.insert(key.clone(), run.clone());
        }
    }

    /// The store takes a step; without the defence that is turned off.
    pub(super) fn apply(&mut self, step: &Step, now: i64) -> Answer {
        let answer = match self.faults.without {
            None => self.records.apply(step, now),
            Some(without) => self.apply_without(without, step, now),
        };
        match step {
            Step::Register(registration) => self.note_registration(registration, &answer),
            _ => self.note_run(step, &answer),
        }
        answer
    }

    /// What a replica that takes no answer for a yes believes.
    pub(super) fn imagined(&self, steps: &[Step]) -> Option<Vec<Answer>> {
        let believes = steps.iter().any(|step| matches!(step, Step::Begin { .. } | Step::Claim(_)));
        if self.faults.without != Some(Without::NoVerdict) || !believes {
            return None;
        }
        let (mut records, now) = (self.records.clone(), self.store_time());
        Some(steps.iter().map(|step| records.apply(step, now)).collect())
    }

    pub fn record_of(&self, run: &RunKey) -> Option<RunRecord> {
        self.records.runs(&run.job).find(|record| record.scheduled_for == run.scheduled_for).cloned()
    }

    fn apply_without(&mut self, without: Without, step: &Step, now: i64) -> Answer {
        match (without, step) {
            (Without::Fence, Step::Begin { run, request, .. }) => {
                let open = |record: &RunRecord| matches!(record.state, RunState::Claimed | RunState::Begun);
                if let Some(RunRecord { owner, start, .. }) = self.record_of(run).filter(open) {
                    let blind = Step::Begin { run: run.clone(), owner, start, request: request.clone() };
                    return self.records.apply(&blind, now);
                }
            }
            (Without::MemoryGuard, Step::Register(registration)) => {
                let blind = Registration { skew_tolerance_ms: -20_000, knew: None, ..registration.clone() };
                return self.records.apply(&Step::Register(blind), now);
            }
            (Without::SlotUntilGone, Step::AskStop { run, reason, .. }) => {
                if let Some(RunRecord { owner, start, .. }) = self.record_of(run) {
                    let ending = ending(reason.outcome());
                    self.records.apply(&Step::Complete { run: run.clone(), owner, start, ending }, now);
                }
            }
            (Without::SlotOfTheLost, Step::Settle { run, owner, decision: Decision::Lost, .. }) => {
                let answer = self.records.apply(step, now);
                if answer.verdict == Verdict::Settled
                    && let Some(record) = &answer.run
                {
                    let (expect, decision) = (Expect::Unchanged(record.seen()), Decision::Drained);
                    let (run, owner, previous) = (run.clone(), owner.clone(), i64::MAX);
                    self.records.apply(&Step::Settle { run, owner, previous, expect, decision }, now);
                }
                return answer;
            }
            (Without::Slot, Step::Claim(claim)) => {
                let blind = Claim { exclusive: false, ..claim.clone() };
                return self.records.apply(&Step::Claim(blind), now);
            }
            (Without::StoreTime, Step::Claim(claim)) => {
                let blind = Claim { delay_ms: -100_000, ..claim.clone() };
                return self.records.apply(&Step::Claim(blind), now);
            }
            (Without::CompareAndSet, Step::Settle { run, owner, expect: Expect::Unchanged(_), decision, .. }) => {
                if let Some(record) = self.record_of(run) {
                    let (run, owner, previous) = (run.clone(), owner.clone(), i64::MAX);
                    let (expect, decision) = (Expect::Unchanged(record.seen()), *decision);
                    return self.records.apply(&Step::Settle { run, owner, previous, expect, decision }, now);
                }
            }
            _ => {}
        }
        self.records.apply(step, now)
    }
}

fn ending(outcome: Outcome) -> Ending {
    let (exit_code, signal, error, output_tail) = (None, None, String::new(), String::new());
    Ending { outcome, exit_code, signal, http_status: None, duration_ms: 0, error, output_tail }
}
