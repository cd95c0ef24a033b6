//! The store of the model: the product's `transition::apply`, with its results kept, since the same few records are
//! asked the same few questions millions of times. Records have numbers; a world holds one number.

use super::mutant::Mutant;
use super::steps;
use super::steps::Ask;
use super::steps::Kind;
use super::steps::Owner;
use super::steps::Said;
use super::steps::TICKS;
use super::steps::View;
use super::world::REPLICAS;
use onecron::job::Answer;
use onecron::job::Decision;
use onecron::job::Expect;
use onecron::job::JobRecord;
use onecron::job::Outcome;
use onecron::job::ReplicaId;
use onecron::job::RunRecord;
use onecron::job::RunState;
use onecron::job::Step;
use onecron::job::Tick;
use onecron::job::Verdict;
use onecron::store::transition;
use onecron::store::transition::DROPPED_MOST;
use onecron::store::transition::Picture;
use std::collections::BTreeMap;
use std::collections::HashMap;

/// All records of the job.
#[derive(Debug, Clone, Default)]
pub struct Kept {
    pub job: Option<JobRecord>,
    pub runs: BTreeMap<Tick, RunRecord>,
}

/// What the model looks at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Brief {
    pub runs: [Option<View>; TICKS],
    pub ends: [Option<Outcome>; TICKS],
    /// Decided: done, or dropped or refused for good.
    pub decided: [bool; TICKS],
    pub requests: [Option<u8>; TICKS],
    pub slot: Option<u8>,
    /// The latest tick that has begun, in seconds.
    pub last_begun: i64,
}

pub struct Stores {
    kind: Kind,
    mutant: Mutant,
    kept: Vec<Kept>,
    briefs: Vec<Brief>,
    index: HashMap<String, u32>,
    /// By records, request and clock: the records after it, and what is answered.
    answers: HashMap<(u32, Ask, u8), Applied>,
    renamed: HashMap<(u32, Names, [u8; TICKS]), u32>,
}

/// Records, a verdict and the run.
pub type Applied = (u32, Said, Option<View>);
/// The new number of each replica.
pub type Names = [u8; REPLICAS];

impl Stores {
    pub fn new(kind: Kind, mutant: Mutant) -> Self {
        Self {
            kind,
            mutant,
            kept: Vec::new(),
            briefs: Vec::new(),
            index: HashMap::new(),
            answers: HashMap::new(),
            renamed: HashMap::new(),
        }
    }

    /// A job that was registered before its first tick.
    pub fn first(&mut self) -> u32 {
        let mut kept = Kept::default();
        kept.apply(&steps::registration(), steps::BEFORE);
        self.number(kept)
    }

    /// The store forgets everything, and a replica registers the job again.
    pub fn forget(&mut self, clock: u8) -> u32 {
        if self.mutant == Mutant::StoreForgetsUnnoticed {
            return self.first();
        }
        let mut kept = Kept::default();
        kept.apply(&steps::registration(), steps::now(clock));
        self.number(kept)
    }

    pub fn brief(&self, store: u32) -> Brief {
        self.briefs[store as usize]
    }

    pub fn apply(&mut self, store: u32, ask: Ask, clock: u8) -> Applied {
        if let Some(known) = self.answers.get(&(store, ask, clock)) {
            return *known;
        }
        let mut kept = self.kept[store as usize].clone();
        let answer = kept.apply_without(self.mutant, &ask.step(self.kind), steps::now(clock));
        let result = (self.number(kept), Said::of(&answer), answer.run.as_ref().map(View::of));
        self.answers.insert((store, ask, clock), result);
        result
    }

    /// The same records, with other names of replicas and other renewal numbers.
    pub fn renamed(&mut self, store: u32, names: Names, numbers: [u8; TICKS]) -> u32 {
        if let Some(known) = self.renamed.get(&(store, names, numbers)) {
            return *known;
        }
        let mut kept = self.kept[store as usize].clone();
        for run in kept.runs.values_mut() {
            run.owner = Owner::of(&run.owner).named(names).id();
            if !run.lost_by.is_empty() {
                run.lost_by = Owner::of(&ReplicaId::from_record(&run.lost_by)).named(names).id().to_string();
            }
            let at = (0..TICKS).find(|number| steps::tick(*number as u8) == run.scheduled_for);
            run.number = at.map_or(run.number, |at| numbers[at].into());
        }
        let result = self.number(kept);
        self.renamed.insert((store, names, numbers), result);
        result
    }

    fn number(&mut self, mut kept: Kept) -> u32 {
        if let Some(job) = &mut kept.job {
            job.revision = 0; // it grows for ever, and the clients of the model do not look at it
        }
        let key = format!("{kept:?}");
        if let Some(number) = self.index.get(&key) {
            return *number;
        }
        let number = u32::try_from(self.kept.len()).expect("few stores");
        self.briefs.push(kept.brief());
        self.kept.push(kept);
        self.index.insert(key, number);
        number
    }
}

impl Kept {
    /// The rules with a defence taken away, around them; without a mutant this is `transition::apply` alone.
    pub fn apply_without(&mut self, mutant: Mutant, step: &Step, now: i64) -> Answer {
        let Some(tick) = step.run().map(|run| run.scheduled_for) else {
            let mut step = step.clone();
            if let (Mutant::DropWithoutFloor, Step::Register(registration)) = (mutant, &mut step) {
                registration.keep_ms = 1; // an hour is more than is looked at
            }
            return self.apply(&step, now);
        };
        let before = self.clone();
        let mut step = step.clone();
        match (mutant, &mut step) {
            (Mutant::BeginWithoutFence, Step::Begin { owner, start, .. }) => {
                let open = |run: &&RunRecord| matches!(run.state, RunState::Claimed | RunState::Begun);
                if let Some(run) = self.runs.get(&tick).filter(open) {
                    owner.clone_from(&run.owner);
                    *start = run.start;
                }
            }
            (Mutant::NoSupersededCheck, Step::Begin { .. }) => {
                if let Some(job) = &mut self.job {
                    job.last_begun = 0;
                }
            }
            (Mutant::CompareStateOnly, Step::Settle { expect: Expect::Unchanged(seen), .. }) => {
                if let Some(run) = self.runs.get(&tick).filter(|run| run.state == seen.state) {
                    *seen = run.seen();
                }
            }
            (Mutant::SlotFreedAtLost, Step::Begin { .. }) => self.forget_open(RunState::Lost),
            _ => {}
        }
        let answer = self.apply(&step, now);
        let (Some(job), Some(old)) = (&mut self.job, &before.job) else { return answer };
        match (mutant, &step) {
            (Mutant::DeleteOnCompletion, Step::Complete { .. }) if answer.verdict == Verdict::Recorded => {
                self.runs.remove(&tick);
                (job.decided_through, job.floor, job.last_begun) = (0, 0, 0);
            }
            (Mutant::DropWithoutFloor, _) => {
                let gone = before.runs.keys().filter(|tick| !self.runs.contains_key(tick));
                if let Some(first) = gone.min() {
                    job.floor = old.floor;
                    job.decided_through = job.decided_through.min(first.seconds() - 1);
                }
            }
            (Mutant::SlotFreedAtLost, Step::Settle { decision: Decision::Lost, .. })
                if answer.verdict == Verdict::Settled =>
            {
                job.slot = None;
            }
            (Mutant::SlotFreedAtLost, Step::Begin { .. }) => {
                let forgotten = old.open.iter().filter(|open| self.runs.get(open).is_some_and(RunRecord::is_open));
                job.open.extend(forgotten.filter(|open| !job.open.contains(open)).copied().collect::<Vec<_>>());
                job.open.sort();
            }
            _ => {}
        }
        answer
    }

    /// For the length of one step, as if none of these were there.
    fn forget_open(&mut self, state: RunState) {
        let runs = &self.runs;
        if let Some(job) = &mut self.job {
            job.open.retain(|open| runs.get(open).is_none_or(|run| run.state != state));
        }
    }

    /// As `store::Records` does it, which cannot be spoilt from outside.
    fn apply(&mut self, step: &Step, now: i64) -> Answer {
        let open = self.job.iter().flat_map(|job| &job.open).filter_map(|tick| self.runs.get(tick).cloned()).collect();
        let finals = self.runs.values().filter(|run| !run.is_open()).map(|run| run.scheduled_for);
        let lowest = match step {
            Step::Settle { run, expect: Expect::AbsentRange { first, .. }, .. } if *first <= run.scheduled_for => {
                self.runs.range(*first..=run.scheduled_for).next().map(|(tick, _)| *tick)
            }
            _ => None,
        };
        let mut picture = Picture {
            job: self.job.clone(),
            run: step.run().and_then(|run| self.runs.get(&run.scheduled_for).cloned()),
            open,
            oldest: finals.take(DROPPED_MOST).collect(),
            lowest,
            ..Picture::default()
        };
        let (answer, changes) = transition::apply(&mut picture, step, now);
        if changes.job {
            self.job = picture.job;
        }
        if let Some(run) = picture.run.filter(|_| changes.run) {
            self.runs.insert(run.scheduled_for, run);
        }
        for tick in &changes.dropped {
            self.runs.remove(tick);
        }
        answer
    }

    fn brief(&self) -> Brief {
        let job = self.job.as_ref();
        let run = |number: usize| self.runs.get(&steps::tick(number as u8));
        let number_of = |slot: Tick| (0..TICKS as u8).find(|number| steps::tick(*number) == slot);
        let decided = |number: usize| match run(number) {
            Some(run) => run.state == RunState::Done,
            None => job.is_some_and(|job| job.decided_through >= steps::tick(number as u8).seconds()),
        };
        let request = |run: &RunRecord| run.request.parse().ok();
        Brief {
            runs: [run(0).map(View::of), run(1).map(View::of)],
            ends: [run(0).and_then(|run| run.outcome), run(1).and_then(|run| run.outcome)],
            decided: [decided(0), decided(1)],
            requests: [run(0).and_then(request), run(1).and_then(request)],
            slot: job.and_then(|job| job.slot).and_then(number_of),
            last_begun: job.map_or(0, |job| job.last_begun),
        }
    }
}
