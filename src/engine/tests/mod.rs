//! The engine, event by event, against answers made by hand.
//!
//! The bench never lets the engine ask to be woken at an instant that has passed: see [`Bench::until`]. So each test
//! that lets time pass is also one that the engine does not spin.

mod agenda;
mod answers;
mod attempts;
mod audit;
mod begin;
mod burst;
mod catch_up;
mod claims;
mod clock;
mod drain;
mod fleet;
mod guard;
mod jitter;
mod leases;
mod orders;
mod outages;
mod places;
mod reload;
mod retries;
mod slots;
mod stale;
mod stops;
mod unreadable;
mod watches;

use super::Effect;
use super::Engine;
use super::Event;
use super::Exit;
use super::Notice;
use super::RequestId;
use super::RunFacts;
use super::StoreFailure;
use super::Trouble;
use crate::clock::Boot;
use crate::clock::Now;
use crate::job::*;
use crate::schedule::Schedule;
use crate::schedule::Zone;
use answers::yes;
use chrono::DateTime;
use chrono::TimeDelta;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

/// The tick that most tests are about: 2026-03-01T02:00:00Z.
const TICK: i64 = 1_772_330_400;
/// The boot clock there, so that the two clocks cannot be taken for one another.
const BOOT_AT_TICK: Duration = Duration::from_secs(1_000_000);
const LEASE: Duration = Duration::from_secs(15);
/// How late the tick of [`job`] may start.
const WINDOW: Duration = Duration::from_secs(20);

fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// The boot clock, so many milliseconds after the tick.
fn boot(ms_after_tick: i64) -> Boot {
    let millis = i64::try_from(BOOT_AT_TICK.as_millis()).unwrap() + ms_after_tick;
    Boot::from_nanos(u64::try_from(millis).unwrap() * 1_000_000)
}

fn name(text: &str) -> JobName {
    JobName::new(text).unwrap()
}

fn run_of(job: &str) -> RunKey {
    RunKey::new(name(job), Tick::from_seconds(TICK))
}

/// The run of job `a` that most tests are about.
fn run() -> RunKey {
    run_of("a")
}

/// The run of job `a` so many seconds after (or before) that.
fn run_at(seconds: i64) -> RunKey {
    RunKey::new(name("a"), Tick::from_seconds(TICK + seconds))
}

fn me() -> ReplicaId {
    ReplicaId::new("me", "1")
}

fn other() -> ReplicaId {
    ReplicaId::new("other", "1")
}

/// An hourly job: forbids overlap, is reported when lost, may start [`WINDOW`] late, has no timeout and no retries.
fn job(text: &str) -> JobSpec {
    let command = CommandSpec::of(Program::Direct(vec!["true".into()]));
    JobSpec {
        timeout: None,
        starting_deadline: Some(WINDOW),
        spec_hash: format!("hash-{text}"),
        ..JobSpec::of(name(text), every("1h"), command)
    }
}

/// A job whose runs may overlap and which nobody else starts: the one that outlives its lease.
fn allowing(text: &str) -> JobSpec {
    JobSpec { concurrency_policy: ConcurrencyPolicy::Allow, ..job(text) }
}

fn rerunning(text: &str) -> JobSpec {
    JobSpec { lost_run_policy: LostRunPolicy::Rerun, ..job(text) }
}

fn every(text: &str) -> Schedule {
    Schedule::parse(&format!("@every {text}"), &Zone::utc(), "a").unwrap()
}

/// An engine, both clocks moved by hand, and the questions that it has asked and that are not answered.
#[derive(Clone)]
struct Bench {
    engine: Engine,
    now: Now,
    pending: VecDeque<(RequestId, Arc<Vec<Step>>)>,
    hears_nothing: bool,
}

impl Bench {
    /// An engine of the replica `me` that started so many seconds before (negative) or after the tick, with so many
    /// places; its registrations are asked and not answered.
    fn start(jobs: &[JobSpec], places: u32, seconds: i64) -> Self {
        Self::start_as(&me(), jobs, (places, seconds))
    }

    fn start_as(who: &ReplicaId, jobs: &[JobSpec], (places, seconds): (u32, i64)) -> Self {
        let scheduler = SchedulerSpec {
            lock_lease: LEASE,
            clock_skew_tolerance: secs(2),
            max_concurrent_runs: places,
            ..SchedulerSpec::default()
        };
        let jobs = jobs.iter().cloned().map(Arc::new).collect();
        let table = JobTable { jobs, scheduler, revision: "1".into(), ..JobTable::default() };
        let wall = DateTime::from_timestamp(TICK + seconds, 0).unwrap();
        let now = Now { wall, boot: boot(seconds * 1000) };
        let engine = Engine::new(who.clone(), &table, now);
        let mut bench = Self { engine, now, pending: VecDeque::new(), hears_nothing: false };
        bench.tell(Event::Woke);
        bench
    }

    /// An engine whose jobs are registered, a minute before the tick.
    fn ready(jobs: &[JobSpec], places: u32) -> Self {
        let mut bench = Self::start(jobs, places, -60);
        bench.answer_all(&mut |step| Some(yes(step)));
        bench
    }

    /// At the tick, with the claim of job `a` under way.
    fn claiming(spec: JobSpec) -> Self {
        let mut bench = Self::ready(&[spec], 10);
        bench.until(0);
        assert!(matches!(bench.steps()[..], [Step::Claim(_)]), "{:?}", bench.pending);
        bench
    }

    /// The claim was won at once, and the begin is under way.
    fn beginning(spec: JobSpec) -> Self {
        let mut bench = Self::claiming(spec);
        bench.reply_yes();
        assert!(matches!(bench.steps()[..], [Step::Begin { .. }]), "{:?}", bench.pending);
        bench
    }

    /// The begin was confirmed at once: the process runs since the tick.
    fn running(spec: JobSpec) -> Self {
        let mut bench = Self::beginning(spec);
        bench.reply_yes();
        bench.tell(Event::Started { run: run(), pid: Some(7) });
        bench
    }

    /// Another replica has won the tick: its run is watched.
    fn watching(spec: JobSpec, record: RunRecord) -> Self {
        let mut bench = Self::claiming(spec);
        bench.reply(vec![answers::held(record)]);
        bench
    }

    fn tell(&mut self, mut event: Event) -> Vec<Effect> {
        if let Event::Answered { result: Ok(answers), .. } = &mut event {
            answers.iter_mut().for_each(|answer| self.complete(answer));
        }
        // Most tests are not about a store of which nothing is heard.
        if matches!(event, Event::Met { .. }) && !self.hears_nothing {
            self.engine.unheard = 0;
        }
        let effects = self.engine.handle(self.now, event);
        for effect in &effects {
            if let Effect::Ask { request, steps } = effect {
                self.pending.push_back((*request, Arc::clone(steps)));
            }
        }
        effects
    }

    /// Fills in what most tests do not care for.
    fn complete(&self, answer: &mut Answer) {
        self.leave_out_older_news(answer);
        let spec = self.engine.jobs.values().next().map(|job| &job.spec);
        if let (Some(record), Some(spec)) = (&mut answer.job, spec)
            && record.schedule.is_empty()
        {
            record.schedule = spec.schedule.record();
        }
    }

    /// An answer made by [`answers::answer`] says nothing of the job that is newer than what was said before. To the
    /// engine that would be a store that went back.
    fn leave_out_older_news(&self, answer: &mut Answer) {
        let known = self.engine.jobs.values().map(|job| job.revision).max().unwrap_or(0);
        let registers = matches!(answer.verdict, Verdict::Registered { .. });
        if !registers && answer.job.as_ref().is_some_and(|job| job.revision == 1) && known > 1 {
            answer.job = None;
        }
    }

    /// Lets both clocks move.
    fn pass(&mut self, duration: Duration) {
        self.now.boot = self.now.boot + duration;
        self.now.wall += TimeDelta::from_std(duration).unwrap();
    }

    /// Milliseconds since the tick, by the boot clock.
    fn clock(&self) -> i64 {
        let nanos = i64::try_from(self.now.boot.nanos()).unwrap();
        nanos / 1_000_000 - i64::try_from(BOOT_AT_TICK.as_millis()).unwrap()
    }

    /// How long until the engine wants to be woken.
    fn wakes_in(&self) -> Option<Duration> {
        let at = self.engine.wake_at();
        let wall = at.wall.map(|at| (at - self.now.wall).to_std().unwrap_or_default());
        let boot = at.boot.map(|at| at.since(self.now.boot));
        [wall, boot].into_iter().flatten().min()
    }

    /// Wakes the engine whenever it wants to be, until so many milliseconds after the tick; answers nothing.
    fn until(&mut self, ms_after_tick: i64) -> Vec<Effect> {
        self.until_with(ms_after_tick, &mut |_| None)
    }

    /// The same, with a store that answers at once, where it answers at all: `None` keeps the question waiting.
    fn until_with(&mut self, ms_after_tick: i64, store: &mut dyn FnMut(&Step) -> Option<Answer>) -> Vec<Effect> {
        let mut effects = self.answer_all(store);
        loop {
            let left = ms(u64::try_from(ms_after_tick - self.clock()).expect("time goes on"));
            let Some(wait) = self.wakes_in().filter(|wait| *wait <= left) else {
                self.pass(left);
                effects.extend(self.tell(Event::Woke));
                effects.extend(self.answer_all(store));
                return effects;
            };
            assert!(wait > Duration::ZERO, "the engine asks to be woken at once: {:?}", self.engine);
            self.pass(wait);
            effects.extend(self.tell(Event::Woke));
            effects.extend(self.answer_all(store));
        }
    }

    /// Answers all questions that the store has answers for, and those that follow.
    fn answer_all(&mut self, store: &mut dyn FnMut(&Step) -> Option<Answer>) -> Vec<Effect> {
        let mut effects = Vec::new();
        let mut left = VecDeque::new();
        while let Some((request, steps)) = self.pending.pop_front() {
            let answers: Option<Vec<Answer>> = steps.iter().map(&mut *store).collect();
            match answers {
                Some(answers) => effects.extend(self.tell(Event::Answered { request, result: Ok(answers) })),
                None => left.push_back((request, steps)),
            }
        }
        self.pending = left;
        effects
    }

    /// The steps of the oldest question that is not answered.
    fn steps(&self) -> Vec<Step> {
        self.pending.front().map(|(_, steps)| steps.to_vec()).unwrap_or_default()
    }

    /// Answers the oldest question.
    fn reply(&mut self, answers: Vec<Answer>) -> Vec<Effect> {
        let (request, _) = self.pending.pop_front().expect("something was asked");
        self.tell(Event::Answered { request, result: Ok(answers) })
    }

    fn reply_yes(&mut self) -> Vec<Effect> {
        let answers = self.steps().iter().map(yes).collect();
        self.reply(answers)
    }

    /// The oldest question gets no answer.
    fn fail(&mut self) -> Vec<Effect> {
        self.fail_as(StoreFailure::MAYBE_APPLIED)
    }

    fn fail_as(&mut self, kind: &'static str) -> Vec<Effect> {
        let (request, _) = self.pending.pop_front().expect("something was asked");
        self.tell(Event::Answered { request, result: Err(StoreFailure { kind, ..no_answer() }) })
    }

    fn end(&mut self, code: i32) -> Vec<Effect> {
        self.tell(Event::Ended { run: run(), exit: exit(code) })
    }
}

fn no_answer() -> StoreFailure {
    StoreFailure { kind: "maybe_applied", detail: "no answer".into() }
}

fn exit(code: i32) -> Exit {
    Exit { code: Some(code), signal: None, output_tail: "bye".into(), output_bytes: 3, ..Exit::default() }
}

fn facts(run: &RunKey) -> RunFacts {
    RunFacts { run: run.clone(), trigger: Trigger::Schedule, start: 1, token: None }
}

fn skipped(run: &RunKey, reason: SkipReason) -> Notice {
    Notice::RunSkipped { facts: facts(run), reason, holder: None, holder_run: None, age: None }
}

fn lost_race(run: &RunKey) -> Notice {
    let holder = Some(other());
    Notice::RunSkipped { facts: facts(run), reason: SkipReason::ClaimedByOther, holder, holder_run: None, age: None }
}

/// What is said, in order.
fn notices(effects: &[Effect]) -> Vec<Notice> {
    let notice = |effect: &Effect| match effect {
        Effect::Notice(notice) => Some(notice.clone()),
        _ => None,
    };
    effects.iter().filter_map(notice).collect()
}

/// What is asked, in order.
fn asked(effects: &[Effect]) -> Vec<Step> {
    let steps = |effect: &Effect| match effect {
        Effect::Ask { steps, .. } => steps.to_vec(),
        _ => Vec::new(),
    };
    effects.iter().flat_map(steps).collect()
}

/// What is done to processes, in order: everything that is neither said nor asked, nor more of the same lease.
fn done(effects: &[Effect]) -> Vec<Effect> {
    let other = |effect: &&Effect| {
        !matches!(
            effect,
            Effect::Notice(_) | Effect::Ask { .. } | Effect::Extend { .. } | Effect::Meet { .. } | Effect::Survey
        )
    };
    effects.iter().filter(other).cloned().collect()
}

/// How many steps of that name were asked.
fn count(effects: &[Effect], step: &str) -> usize {
    asked(effects).iter().filter(|asked| asked.name() == step).count()
}
