//! One simulated day of a fleet. Time is virtual and skips what is idle: it goes from event to event.

mod amnesia;
mod network;
mod orders;
mod plan;
mod processes;

pub use amnesia::Amnesia;
pub use plan::Faults;
pub use plan::Without;
pub use processes::Child;

use super::check;
use super::random::Random;
use super::table;
use super::table::Shape;
use chrono::DateTime;
use chrono::TimeDelta;
use network::Meeting;
use network::Sent;
use onecron::clock::Boot;
use onecron::clock::Now;
use onecron::engine::Effect;
use onecron::engine::Engine;
use onecron::engine::Event;
use onecron::engine::Exit;
use onecron::engine::Notice;
use onecron::engine::RequestId;
use onecron::engine::StartOrder;
use onecron::engine::StoreFailure;
use onecron::job::*;
use onecron::store::Records;
use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

/// Microseconds of true time.
pub type Micros = u64;

pub const SECOND: Micros = 1_000_000;
pub const MINUTE: Micros = 60 * SECOND;
/// The world begins at this second of the epoch: 2026-03-01T00:00:00Z.
pub const EPOCH: i64 = 1_772_323_200;
/// The day, and what it takes until all that is open must be closed.
pub const DAY: Micros = 24 * 60 * MINUTE;
pub const END: Micros = DAY + 5 * MINUTE;

#[derive(Debug)]
pub enum What {
    Wake { replica: usize },
    Arrive { sent: Box<Sent>, reply: Option<Micros> },
    Reply { replica: usize, incarnation: u32, request: RequestId, result: Result<Vec<Answer>, StoreFailure> },
    ArriveMeeting { replica: usize, incarnation: u32, sent: Boot, meeting: Meeting, reply: Option<Micros> },
    Tell { replica: usize, incarnation: u32, event: Event },
    Spawn { replica: usize, incarnation: u32, order: Box<StartOrder> },
    ChildEnds { child: usize, killed: bool },
    Ended { replica: usize, incarnation: u32, run: RunKey, exit: Exit },
    Crash { replica: usize },
    Restart { replica: usize },
    Pause { replica: usize, until: Micros },
    Step { replica: usize, by_ms: i64 },
    Drain { replica: usize, timeout: Duration },
    Gone { replica: usize, incarnation: u32 },
    Reload { replica: usize, version: usize },
    Trouble { until: Micros },
    Outage { until: Micros },
    Cut { replica: usize, until: Micros },
    Remember,
    Forget { how: Amnesia },
    StoreChanged { replica: usize },
    Deed(orders::Deed),
}

#[derive(Debug)]
pub(super) struct Replica {
    engine: Option<Engine>,
    incarnation: u32,
    paused_until: Micros,
    /// No request of its gets through.
    cut_until: Micros,
    wall_offset_ms: i64,
    /// Parts per million by which its boot clock runs fast.
    drift: i64,
    boot_offset: Micros,
    wake: Option<Micros>,
    up_since: Micros,
    /// The version of the table on its disk.
    version: usize,
    drains: bool,
}

/// One line that a replica would have logged.
#[derive(Debug, Clone)]
pub struct Line {
    pub at: Micros,
    pub replica: usize,
    pub incarnation: u32,
    pub notice: Notice,
}

/// From, to: something of a replica.
#[derive(Debug, Clone, Copy)]
pub struct Span {
    pub replica: usize,
    pub from: Micros,
    pub to: Micros,
}

impl Span {
    /// Whether any of it lies between these two instants.
    pub const fn meets(&self, from: Micros, to: Micros) -> bool {
        self.from < to && from < self.to
    }
}

/// An incarnation of a replica had a version of the table.
#[derive(Debug, Clone, Copy)]
pub struct Term {
    pub incarnation: u32,
    pub version: usize,
    pub span: Span,
}

#[derive(Debug)]
pub struct World {
    pub random: Random,
    pub faults: Faults,
    pub now: Micros,
    queue: BTreeMap<(Micros, u64), Box<What>>,
    sequence: u64,
    pub(super) replicas: Vec<Replica>,
    pub records: Records,
    /// All versions of the table that there will have been, oldest first.
    pub versions: Vec<Arc<JobTable>>,
    pub children: Vec<Child>,
    alive: Vec<usize>,
    pub lines: Vec<Line>,
    pub terms: Vec<Term>,
    /// When a replica was paused, its clock was off by seconds, or it drained.
    pub disturbed: Vec<Span>,
    /// When its clock was off: instants may come twice.
    pub skewed: Vec<Span>,
    /// When requests may have been lost.
    pub cuts: Vec<Span>,
    /// Requests and replies are lost and late until then.
    trouble_until: Micros,
    /// The store does not answer until then.
    outage_until: Micros,
    /// Where something may be going on, the daemons' sleeps are as short as in the product; else it makes no difference.
    awake_until: Micros,
    /// What the store will go back to.
    remembered: Records,
    /// Jobs that some replica was told to be registered.
    known: BTreeSet<JobName>,
    /// Jobs that a replica registered which had not heard that the store forgot them, and when: until their owners speak
    /// up, the store cannot know of their runs.
    pub met_anew: Vec<(JobName, Micros)>,
    /// When the store evicted records: it takes a moment until somebody notices.
    pub evicted: Vec<Micros>,
    /// When the store forgot, whatever.
    pub forgot: Vec<Micros>,
    /// When a job's schedule was changed in the store.
    pub rescheduled: Vec<(JobName, Micros)>,
    /// The `since` that a registration gave.
    pub sinces: BTreeMap<JobName, Vec<i64>>,
    /// How each tick was recorded when it was closed last.
    pub decided: BTreeMap<RunKey, RunRecord>,
    /// Runs that people ordered, and those that they cancelled.
    pub ordered: Vec<RunKey>,
    pub cancelled: Vec<RunKey>,
    /// Who has had a run.
    pub owners: BTreeMap<RunKey, Vec<ReplicaId>>,
    /// What must not be, found at once.
    pub broken: Option<String>,
    /// What is rare and was met, how often.
    pub met: BTreeMap<&'static str, u64>,
    /// Runs that were asked to end before their process was there.
    stopped_early: BTreeSet<(usize, u32, RunKey)>,
    /// When all that is open must be closed.
    pub checkpoints: Vec<Micros>,
    /// From, to: requests and replies were lost and late.
    pub troubles: Vec<(Micros, Micros)>,
    /// From, to: the store did not answer.
    pub outages: Vec<(Micros, Micros)>,
    /// The store's clock is ahead by so much.
    pub store_offset_ms: i64,
    /// What was asked, where somebody wants to know: when, by whom, the names of the steps.
    pub traffic: Option<Vec<(Micros, usize, Vec<&'static str>)>>,
    /// The world ends.
    pub end: Micros,
    /// Said by whoever looks for what costs time.
    pub events: u64,
}

impl World {
    /// A day that follows from a seed.
    pub fn play(seed: u64, faults: Faults) -> Self {
        let mut world = Self::of_seed(seed, faults);
        for at in world.checkpoints.clone() {
            world.run_until(at);
            if world.broken.is_none() {
                world.broken = check::closed(&world).err();
            }
        }
        world.finish();
        world
    }

    /// A world without faults in which replicas have a table and nothing else is planned: for scenarios.
    pub fn still(replicas: usize, jobs: Vec<JobSpec>) -> Self {
        let jobs = jobs.into_iter().map(Arc::new).collect();
        let scheduler = SchedulerSpec {
            lock_lease: Duration::from_secs(5),
            clock_skew_tolerance: Duration::from_millis(500),
            ..SchedulerSpec::default()
        };
        let table = JobTable { jobs, scheduler, revision: "scene".into(), ..JobTable::default() };
        let mut world = Self::empty(Random::new(0), Faults::NONE, vec![Arc::new(table)]);
        world.awake_until = Micros::MAX;
        world.traffic = Some(Vec::new());
        for replica in 0..replicas {
            world.replicas.push(Replica::new((0, 0), 1_000 * SECOND));
            world.put(replica as u64, What::Restart { replica });
        }
        world
    }

    fn of_seed(seed: u64, faults: Faults) -> Self {
        let mut random = Random::new(seed);
        let episodes = plan::episodes(&mut random);
        let mut shape = Shape::first(&mut random, seed % 16 == 15);
        let mut versions = vec![Arc::new(table::version(&shape, (0, &episodes)))];
        for number in 1..=random.between(0, 4) as usize {
            shape.change(&mut random);
            if faults.reloads {
                versions.push(Arc::new(table::version(&shape, (number, &episodes))));
            }
        }
        let count = *random.pick(&[3, 3, 3, 3, 3, 4, 4, 5, 6, 7]);
        let mut world = Self::empty(random, faults, versions);
        for _ in 0..count {
            let clocks = match faults.clocks {
                true => (world.random.signed(-400, 400), world.random.signed(-4_000, 4_000)),
                false => (0, 0),
            };
            let boot_offset = world.random.between(0, 1_000 * SECOND);
            world.replicas.push(Replica::new(clocks, boot_offset));
        }
        world.plan(&episodes);
        world
    }

    fn empty(random: Random, faults: Faults, versions: Vec<Arc<JobTable>>) -> Self {
        Self {
            random,
            faults,
            now: 0,
            queue: BTreeMap::new(),
            sequence: 0,
            replicas: Vec::new(),
            records: Records::default(),
            versions,
            children: Vec::new(),
            alive: Vec::new(),
            lines: Vec::new(),
            terms: Vec::new(),
            disturbed: Vec::new(),
            skewed: Vec::new(),
            cuts: Vec::new(),
            trouble_until: 0,
            outage_until: 0,
            awake_until: 0,
            remembered: Records::default(),
            known: BTreeSet::new(),
            met_anew: Vec::new(),
            evicted: Vec::new(),
            forgot: Vec::new(),
            rescheduled: Vec::new(),
            sinces: BTreeMap::new(),
            decided: BTreeMap::new(),
            ordered: Vec::new(),
            cancelled: Vec::new(),
            owners: BTreeMap::new(),
            broken: None,
            met: BTreeMap::new(),
            stopped_early: BTreeSet::new(),
            checkpoints: Vec::new(),
            troubles: Vec::new(),
            outages: Vec::new(),
            store_offset_ms: 0,
            traffic: None,
            end: END,
            events: 0,
        }
    }

    /// Lets happen what is to happen by then.
    pub fn run_until(&mut self, until: Micros) {
        while let Some(first) = self.queue.first_entry() {
            let at = first.key().0;
            if at > until || self.broken.is_some() {
                break;
            }
            let what = first.remove();
            self.now = at;
            self.events += 1;
            self.happen(*what);
        }
        self.now = self.now.max(until);
    }

    /// The world ends: what is up, was up until now.
    pub fn finish(&mut self) {
        self.end = self.now;
        for replica in 0..self.replicas.len() {
            self.end_term(replica);
        }
    }

    pub fn put(&mut self, at: Micros, what: What) {
        self.sequence += 1;
        self.queue.insert((at, self.sequence), Box::new(what));
    }

    /// Something rare has happened.
    pub fn meet(&mut self, what: &'static str) {
        *self.met.entry(what).or_default() += 1;
    }

    pub fn is_up(&self, replica: usize) -> bool {
        self.replicas[replica].engine.is_some()
    }

    /// Whether that start of a replica is up.
    pub fn is_alive(&self, owner: &ReplicaId) -> bool {
        let is = |(index, replica): (usize, &Replica)| {
            replica.engine.is_some() && *owner == Self::name(index, replica.incarnation)
        };
        self.replicas.iter().enumerate().any(is)
    }

    pub fn name(replica: usize, incarnation: u32) -> ReplicaId {
        ReplicaId::new(&format!("r{replica}"), &incarnation.to_string())
    }

    fn clocks(&self, replica: usize) -> Now {
        let replica = &self.replicas[replica];
        let drifted = self.now as i64 + self.now as i64 * replica.drift / 1_000_000;
        let boot = replica.boot_offset + drifted as u64;
        let wall = DateTime::from_timestamp(EPOCH, 0).unwrap()
            + TimeDelta::microseconds(self.now as i64 + replica.wall_offset_ms * 1_000);
        Now { wall, boot: Boot::from_nanos(boot * 1_000) }
    }

    /// When the replica's boot clock will show that.
    fn true_time(&self, replica: usize, boot: Boot) -> Micros {
        let replica = &self.replicas[replica];
        let drifted = (boot.nanos() / 1_000).saturating_sub(replica.boot_offset) as i64;
        (drifted * 1_000_000 / (1_000_000 + replica.drift)).max(0) as u64 + 2
    }

    pub fn store_time(&self) -> i64 {
        EPOCH * 1000 + (self.now / 1000) as i64 + self.store_offset_ms
    }

    /// Whether the replica still is the one that this is for.
    fn is_current(&self, replica: usize, incarnation: u32) -> bool {
        self.replicas[replica].incarnation == incarnation && self.replicas[replica].engine.is_some()
    }

    /// When what reaches the replica now will be noticed: at once, unless it is paused.
    fn delayed(&self, replica: usize) -> Option<Micros> {
        Some(self.replicas[replica].paused_until).filter(|until| *until > self.now)
    }

    fn happen(&mut self, what: What) {
        match what {
            What::Wake { replica } => {
                // An earlier wake-up took the place of this one.
                if self.replicas[replica].wake.is_some_and(|wake| wake <= self.now) {
                    self.replicas[replica].wake = None;
                    self.tell(replica, Event::Woke);
                }
            }
            What::Arrive { sent, reply } => self.arrive(*sent, reply),
            What::Reply { replica, incarnation, request, result } => {
                if self.is_current(replica, incarnation) {
                    match self.delayed(replica) {
                        Some(until) => self.put(until, What::Reply { replica, incarnation, request, result }),
                        None => self.tell(replica, Event::Answered { request, result }),
                    }
                }
            }
            What::ArriveMeeting { replica, incarnation, sent, meeting, reply } => {
                self.arrive_meeting((replica, incarnation), sent, meeting, reply);
            }
            What::Tell { replica, incarnation, event } => {
                if self.is_current(replica, incarnation) {
                    match self.delayed(replica) {
                        Some(until) => self.put(until, What::Tell { replica, incarnation, event }),
                        None => self.tell(replica, event),
                    }
                }
            }
            What::Spawn { replica, incarnation, order } => {
                if self.is_current(replica, incarnation) {
                    match self.delayed(replica) {
                        Some(until) => self.put(until, What::Spawn { replica, incarnation, order }),
                        None => self.spawn(replica, *order),
                    }
                }
            }
            What::Ended { replica, incarnation, run, exit } => {
                let event = Event::Ended { run, exit };
                self.happen(What::Tell { replica, incarnation, event });
            }
            What::ChildEnds { child, killed } => self.child_ends(child, killed),
            What::Crash { replica } => self.stop_replica(replica),
            What::Restart { replica } => self.restart(replica),
            What::Drain { replica, timeout } => self.drain(replica, timeout),
            What::Gone { replica, incarnation } => {
                if self.is_current(replica, incarnation) {
                    self.say_farewell(replica);
                    self.stop_replica(replica);
                    let down = self.random.between(SECOND / 5, 20 * SECOND);
                    self.put(self.now + down, What::Restart { replica });
                }
            }
            What::Reload { replica, version } => self.reload(replica, version),
            What::Trouble { until } => {
                self.trouble_until = until;
                self.awake_until = until + 4 * MINUTE;
                for replica in 0..self.replicas.len() {
                    self.set_wake(replica);
                }
            }
            What::Outage { until } => self.outage_until = until,
            What::Cut { replica, until } => {
                self.replicas[replica].cut_until = until;
                self.cuts.push(Span { replica, from: self.now, to: until });
            }
            What::Remember => self.remembered = self.records.clone(),
            What::Forget { how } => self.forget(how),
            What::Deed(deed) => self.do_deed(deed),
            What::StoreChanged { replica } => self.tell(replica, Event::StoreChanged),
            What::Pause { replica, until } => {
                self.disturbed.push(Span { replica, from: self.now, to: until });
                self.replicas[replica].paused_until = until;
                self.replicas[replica].wake = Some(until);
                self.put(until, What::Wake { replica });
            }
            What::Step { replica, by_ms } => {
                self.replicas[replica].wall_offset_ms += by_ms;
                self.tell(replica, Event::Woke);
            }
        }
    }

    fn restart(&mut self, replica: usize) {
        if self.is_up(replica) {
            return;
        }
        let now = self.clocks(replica);
        let this = &mut self.replicas[replica];
        this.incarnation += 1;
        this.paused_until = 0;
        this.drains = false;
        this.up_since = self.now;
        let me = Self::name(replica, this.incarnation);
        this.engine = Some(Engine::new(me, &self.versions[this.version], now));
        self.tell(replica, Event::Woke);
    }

    fn stop_replica(&mut self, replica: usize) {
        self.end_term(replica);
        self.replicas[replica].engine = None;
        self.replicas[replica].wake = None;
    }

    fn end_term(&mut self, replica: usize) {
        let this = &mut self.replicas[replica];
        if this.engine.is_some() {
            let span = Span { replica, from: this.up_since, to: self.now };
            self.terms.push(Term { incarnation: this.incarnation, version: this.version, span });
            this.up_since = self.now;
        }
    }

    fn reload(&mut self, replica: usize, version: usize) {
        if let Some(until) = self.delayed(replica) {
            return self.put(until, What::Reload { replica, version });
        }
        self.end_term(replica);
        self.replicas[replica].version = version;
        self.tell(replica, Event::TableChanged(Arc::clone(&self.versions[version])));
    }

    fn drain(&mut self, replica: usize, timeout: Duration) {
        if let Some(until) = self.delayed(replica) {
            return self.put(until, What::Drain { replica, timeout });
        }
        if self.is_up(replica) && !std::mem::replace(&mut self.replicas[replica].drains, true) {
            self.meet("drain");
            self.disturbed.push(Span { replica, from: self.now, to: self.now + 5 * MINUTE });
            self.tell(replica, Event::DrainAsked { timeout });
        }
    }

    fn tell(&mut self, replica: usize, event: Event) {
        if self.delayed(replica).is_some() {
            return; // a wake-up follows at the end of the pause
        }
        let now = self.clocks(replica);
        let Some(engine) = &mut self.replicas[replica].engine else { return };
        let effects = engine.handle(now, event);
        for effect in effects {
            self.perform(replica, effect);
        }
        self.set_wake(replica);
    }

    fn set_wake(&mut self, replica: usize) {
        let Some(engine) = &self.replicas[replica].engine else { return };
        let wake = engine.wake_at();
        let now = self.clocks(replica);
        // The daemon sleeps in bounded steps.
        let step = if self.now < self.awake_until { SECOND } else { MINUTE };
        let wall = wake.wall.map(|at| self.now + (at - now.wall).num_microseconds().unwrap_or(0).max(0) as u64 + 2);
        let boot = wake.boot.map(|at| self.true_time(replica, at));
        let at = [wall, boot, Some(self.now + step)].into_iter().flatten().min().unwrap().max(self.now + 100);
        if self.replicas[replica].wake.is_none_or(|set| at < set || set <= self.now) {
            self.replicas[replica].wake = Some(at);
            self.put(at, What::Wake { replica });
        }
    }

    /// The twin: a replica that had a tick does not say that it skips it.
    fn is_kept_back(&self, line: &Line) -> bool {
        let Notice::RunSkipped { facts, .. } = &line.notice else { return false };
        let had = |other: &Line| {
            (other.replica, other.incarnation) == (line.replica, line.incarnation)
                && matches!(&other.notice, Notice::RunClaimed { facts: claimed, .. } if claimed.run == facts.run)
        };
        self.faults.without == Some(Without::LastWord) && self.lines.iter().any(had)
    }

    fn perform(&mut self, replica: usize, effect: Effect) {
        let incarnation = self.replicas[replica].incarnation;
        match effect {
            Effect::Ask { request, steps } => {
                if let Some(traffic) = &mut self.traffic {
                    traffic.push((self.now, replica, steps.iter().map(Step::name).collect()));
                }
                self.send(replica, request, steps);
            }
            Effect::Start(order) => {
                let at = self.now + self.random.between(100, 3_000);
                self.put(at, What::Spawn { replica, incarnation, order });
            }
            Effect::Extend { run, lease_end } => self.extend((replica, incarnation), &run, lease_end),
            Effect::Meet { mine, gone } => self.send_meeting(replica, Meeting::Meet { mine, gone }),
            Effect::Survey => self.send_meeting(replica, Meeting::Survey),
            Effect::LookBack { .. } => {}
            Effect::Terminate { run } => self.signal(replica, &run, false),
            Effect::Kill { run } => self.signal(replica, &run, true),
            Effect::Notice(notice) => {
                if let Notice::JobRegistered { job, .. } = &notice {
                    self.known.insert(job.clone());
                }
                let line = Line { at: self.now, replica, incarnation, notice };
                if !self.is_kept_back(&line) {
                    self.lines.push(line);
                }
            }
            Effect::Drained { .. } => self.put(self.now + 1_000, What::Gone { replica, incarnation }),
        }
    }
}

impl Replica {
    fn new((wall_offset_ms, drift): (i64, i64), boot_offset: Micros) -> Self {
        Self {
            engine: None,
            incarnation: 0,
            paused_until: 0,
            cut_until: 0,
            wall_offset_ms,
            drift,
            boot_offset,
            wake: None,
            up_since: 0,
            version: 0,
            drains: false,
        }
    }
}
