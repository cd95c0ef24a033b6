//! Several replicas on one store that always answers, with one clock: what they say, and what is recorded.

use chrono::DateTime;
use chrono::TimeDelta;
use chrono::Utc;
use onecron::clock::Boot;
use onecron::clock::Now;
use onecron::engine::Effect;
use onecron::engine::Engine;
use onecron::engine::Event;
use onecron::engine::Exit;
use onecron::engine::Notice;
use onecron::job::*;
use onecron::schedule::Schedule;
use onecron::schedule::Zone;
use onecron::store::Records;
use std::collections::BTreeMap;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

/// What the seconds of these tests are counted from: 2026-03-01T02:00:00Z.
pub const TICK: i64 = 1_772_330_400;
/// The boot clock there.
const BOOT_AT_TICK: u64 = 1_000_000;

pub const fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn boot(seconds: i64) -> Boot {
    Boot::from_nanos(BOOT_AT_TICK.checked_add_signed(seconds).unwrap() * 1_000_000_000)
}

pub fn name(text: &str) -> JobName {
    JobName::new(text).unwrap()
}

/// Job `a` by a schedule: it forbids overlap, and may start 20 s late.
pub fn job(schedule: &str) -> JobSpec {
    let command = CommandSpec::of(Program::Direct(vec!["true".into()]));
    let spec_hash = schedule.into();
    let schedule = Schedule::parse(&format!("@every {schedule}"), &Zone::utc(), "a").unwrap();
    JobSpec { timeout: None, starting_deadline: Some(secs(20)), spec_hash, ..JobSpec::of(name("a"), schedule, command) }
}

/// A replica, and what it has to do.
pub struct Replica {
    who: ReplicaId,
    engine: Engine,
    /// Processes, and when each ends.
    running: BTreeMap<RunKey, Boot>,
}

/// See the module.
pub struct Replicas {
    pub records: Records,
    pub replicas: BTreeMap<&'static str, Replica>,
    pub now: Now,
    /// How long each run takes.
    pub takes: Duration,
    /// What was said, and by whom.
    pub said: Vec<(&'static str, Notice)>,
    /// Runs in the order of their starts.
    pub started: Vec<RunKey>,
}

impl Replicas {
    /// No replica, so many seconds after the tick.
    pub fn new(seconds: i64) -> Self {
        let wall = DateTime::from_timestamp(TICK + seconds, 0).unwrap();
        let now = Now { wall, boot: boot(seconds) };
        let (records, replicas) = (Records::default(), BTreeMap::new());
        Self { records, replicas, now, takes: secs(1), said: Vec::new(), started: Vec::new() }
    }

    /// A replica starts with a table; its revision is the spec hashes of its jobs.
    pub fn start(&mut self, name: &'static str, jobs: &[JobSpec]) {
        let who = ReplicaId::new(name, "1");
        let engine = Engine::new(who.clone(), &table(jobs), self.now);
        self.replicas.insert(name, Replica { who, engine, running: BTreeMap::new() });
        self.tell(name, Event::Woke);
    }

    /// A replica is gone from one moment to the next, and was idle.
    pub fn kill(&mut self, name: &str) {
        let replica = self.replicas.remove(name).unwrap();
        assert!(replica.running.is_empty());
    }

    /// A replica leaves, as after a drain.
    pub fn leave(&mut self, name: &str) {
        self.records.leave(&self.replicas[name].who.clone());
        self.kill(name);
    }

    pub fn tell(&mut self, name: &'static str, event: Event) {
        let mut events = VecDeque::from([event]);
        while let Some(event) = events.pop_front() {
            let replica = self.replicas.get_mut(name).unwrap();
            for effect in replica.engine.handle(self.now, event) {
                events.extend(self.perform(name, effect));
            }
        }
    }

    fn perform(&mut self, name: &'static str, effect: Effect) -> Option<Event> {
        let at = self.now.wall.timestamp_millis();
        match effect {
            Effect::Ask { request, steps } => {
                let result = Ok(steps.iter().map(|step| self.records.apply(step, at)).collect());
                Some(Event::Answered { request, result })
            }
            Effect::Meet { mine, gone } => {
                let result = Ok(self.records.meet(Some(&mine), &gone, at));
                Some(Event::Met { sent: self.now.boot, result })
            }
            Effect::Survey => {
                let jobs = self.records.jobs().map(|(name, record)| (name.clone(), record.clone())).collect();
                Some(Event::Surveyed { result: Ok(jobs) })
            }
            Effect::Start(order) => {
                let ends = self.now.boot + self.takes;
                self.replicas.get_mut(name).unwrap().running.insert(order.run.clone(), ends);
                self.started.push(order.run.clone());
                Some(Event::Started { run: order.run, pid: Some(7) })
            }
            Effect::Notice(notice) => {
                self.said.push((name, notice));
                None
            }
            _ => None,
        }
    }

    /// When a replica has something to do.
    fn next(&self, replica: &Replica) -> Option<Boot> {
        let at = replica.engine.wake_at();
        let in_wall = |wall: DateTime<Utc>| self.now.boot + (wall - self.now.wall).to_std().unwrap_or_default();
        at.boot.into_iter().chain(at.wall.map(in_wall)).chain(replica.running.values().copied()).min()
    }

    /// Lets the time pass until so many seconds after the tick.
    pub fn until(&mut self, seconds: i64) {
        let end = boot(seconds);
        loop {
            let first = self.replicas.iter().filter_map(|(name, replica)| Some((self.next(replica)?, *name))).min();
            let (at, name) = first.filter(|(at, _)| *at <= end).unwrap_or((end, ""));
            let wait = at.since(self.now.boot);
            self.now.boot = self.now.boot + wait;
            self.now.wall += TimeDelta::from_std(wait).unwrap();
            if name.is_empty() {
                return;
            }
            let running = &mut self.replicas.get_mut(name).unwrap().running;
            let over = running.iter().find(|(_, ends)| **ends <= at).map(|(run, _)| run.clone());
            let event = match over {
                Some(run) => {
                    running.remove(&run);
                    Event::Ended { run, exit: Exit { code: Some(0), ..Exit::default() } }
                }
                None => Event::Woke,
            };
            self.tell(name, event);
        }
    }

    /// How the ticks of job `a` ended that have records, and why: seconds after the tick, outcome, reason.
    pub fn ends(&self) -> Vec<(i64, Outcome, String)> {
        let job = name("a");
        let done = self.records.runs(&job).filter(|record| !record.is_open());
        done.map(|record| (seconds_of(record.scheduled_for), record.outcome.unwrap(), record.reason.clone())).collect()
    }

    /// Those that did not succeed.
    pub fn not_run(&self) -> Vec<(i64, String)> {
        let others = self.ends().into_iter().filter(|(_, outcome, _)| *outcome != Outcome::Succeeded);
        others.map(|(at, outcome, reason)| (at, format!("{outcome} {reason}"))).collect()
    }

    pub fn record(&self) -> &JobRecord {
        self.records.job(&name("a")).unwrap()
    }

    /// Through when all is decided, in seconds after the tick.
    pub fn decided(&self) -> i64 {
        self.record().decided_through - TICK
    }

    /// Lines about ticks that were not run, without those about races.
    pub fn lines(&self) -> Vec<(i64, &'static str)> {
        let line = |(_, notice): &(&str, Notice)| match notice {
            Notice::RunSkipped { reason: SkipReason::ClaimedByOther, .. } => None,
            Notice::RunSkipped { facts, reason, .. } => Some((seconds_of(facts.run.scheduled_for), reason.as_str())),
            Notice::RunMissed { facts, reason, .. } => Some((seconds_of(facts.run.scheduled_for), reason.as_str())),
            Notice::RunsMissed { first, reason, .. } => Some((seconds_of(*first), reason.as_str())),
            _ => None,
        };
        self.said.iter().filter_map(line).collect()
    }
}

pub fn table(jobs: &[JobSpec]) -> JobTable {
    let scheduler = SchedulerSpec::default();
    let revision = jobs.iter().map(|job| job.spec_hash.as_str()).collect();
    JobTable { jobs: jobs.iter().cloned().map(Arc::new).collect(), scheduler, revision, ..JobTable::default() }
}

fn seconds_of(tick: Tick) -> i64 {
    tick.seconds() - TICK
}
