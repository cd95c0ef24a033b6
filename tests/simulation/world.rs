mod amnesia;
mod faults;
mod orders;

pub use faults::Faults;

use super::check;
use super::random::Random;
use super::table;
use amnesia::Amnesia;
use chrono::DateTime;
use chrono::TimeDelta;
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

/// Microseconds of true time.
pub type Micros = u64;

pub const SECOND: Micros = 1_000_000;
/// The world begins at this second of the epoch: 2026-03-01T00:00:00Z.
pub const EPOCH: i64 = 1_772_323_200;
/// Faults end here, all replicas come up, and what is open must close.
pub const CALM: Micros = 150 * SECOND;
pub const END: Micros = 260 * SECOND;
const REPLICAS: usize = 3;
const REQUEST_TIMEOUT: Micros = SECOND;

#[derive(Debug)]
enum What {
    Wake { replica: usize },
    Arrive { sent: Sent, reply: Option<Micros> },
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
    Remember,
    Forget { how: Amnesia },
    StoreChanged { replica: usize },
    Deed(orders::Deed),
}

/// A request on its way.
#[derive(Debug)]
pub struct Sent {
    replica: usize,
    incarnation: u32,
    request: RequestId,
    steps: Arc<Vec<Step>>,
    /// What the store was when the request was sent: one that has restarted since does not get it.
    server: String,
}

/// What is asked beside steps.
#[derive(Debug, Clone)]
enum Meeting {
    Meet { mine: Box<Presence>, gone: Vec<Presence> },
    Survey,
}

/// A started process: the ledger that is checked.
#[derive(Debug, Clone)]
pub struct Child {
    pub run: RunKey,
    pub start: u32,
    pub token: u64,
    pub replica: usize,
    pub incarnation: u32,
    pub began: Micros,
    pub ended: Option<Micros>,
    pub rerun: bool,
    pub exclusive: bool,
    pub spec: Arc<JobSpec>,
    /// The guardian's deadline, on the true clock.
    lease_end: Option<Micros>,
}

#[derive(Debug)]
struct Replica {
    engine: Option<Engine>,
    incarnation: u32,
    paused_until: Micros,
    wall_offset_ms: i64,
    /// Parts per million by which its boot clock runs fast.
    drift: i64,
    boot_offset: Micros,
    wake: Option<Micros>,
    up_since: Micros,
}

/// One line that a replica would have logged.
#[derive(Debug, Clone)]
pub struct Line {
    #[expect(dead_code, reason = "shown in stories")]
    pub at: Micros,
    pub replica: usize,
    pub incarnation: u32,
    pub notice: Notice,
}

#[derive(Debug)]
pub struct World {
    random: Random,
    pub faults: Faults,
    now: Micros,
    queue: BTreeMap<(Micros, u64), What>,
    sequence: u64,
    replicas: Vec<Replica>,
    pub records: Records,
    pub table: JobTable,
    pub children: Vec<Child>,
    pub lines: Vec<Line>,
    /// From, to: when an incarnation of a replica was up.
    pub lives: Vec<(usize, u32, Micros, Micros)>,
    /// From, to: when a replica's clock was off by seconds.
    pub skewed: Vec<(usize, Micros, Micros)>,
    /// What the store will go back to.
    remembered: Records,
    /// Jobs that a replica registered which had not heard that the store forgot them, and when: until their owners speak
    /// up, the store cannot know of their runs.
    pub met_anew: Vec<(JobName, Micros)>,
    /// When the store evicted records: it takes a moment until somebody notices.
    pub evicted: Vec<Micros>,
    /// Runs that people ordered, and those that they cancelled.
    pub ordered: Vec<RunKey>,
    pub cancelled: Vec<RunKey>,
    /// Runs that were asked to end before their process was there.
    stopped_early: BTreeSet<(usize, u32, RunKey)>,
}

impl World {
    /// Runs a seed to its end and checks what happened.
    pub fn run(seed: u64, faults: Faults) -> Result<(), String> {
        let world = Self::play(seed, faults);
        check::all(&world)
    }

    pub fn story(seed: u64, faults: Faults) -> Vec<String> {
        Self::play(seed, faults).lines.iter().map(|line| format!("{line:?}")).collect()
    }

    pub fn play(seed: u64, faults: Faults) -> Self {
        let mut random = Random::new(seed);
        let table = table::of_all(&mut random);
        let replicas = (0..REPLICAS)
            .map(|_| Replica {
                engine: None,
                incarnation: 0,
                paused_until: 0,
                wall_offset_ms: if faults.clocks { random.signed(-400, 400) } else { 0 },
                drift: if faults.clocks { random.signed(-4_000, 4_000) } else { 0 },
                boot_offset: random.between(0, 1_000 * SECOND),
                wake: None,
                up_since: 0,
            })
            .collect();
        let mut world = Self {
            random,
            faults,
            now: 0,
            queue: BTreeMap::new(),
            sequence: 0,
            replicas,
            records: Records::default(),
            table,
            children: Vec::new(),
            lines: Vec::new(),
            lives: Vec::new(),
            skewed: Vec::new(),
            remembered: Records::default(),
            met_anew: Vec::new(),
            evicted: Vec::new(),
            ordered: Vec::new(),
            cancelled: Vec::new(),
            stopped_early: BTreeSet::new(),
        };
        if faults.amnesia {
            world.plan_amnesia();
        }
        if faults.people {
            world.plan_deeds();
        }
        for replica in 0..REPLICAS {
            let at = world.random.between(0, 3 * SECOND);
            world.put(at, What::Restart { replica });
            world.plan_faults(replica);
        }
        while let Some(((at, _), what)) = world.queue.pop_first() {
            if at > END {
                break;
            }
            world.now = at;
            world.happen(what);
        }
        for replica in 0..REPLICAS {
            world.end_life(replica);
        }
        world
    }

    fn plan_faults(&mut self, replica: usize) {
        let mut at = 0;
        loop {
            at += self.random.between(3 * SECOND, 40 * SECOND);
            if at > CALM - 20 * SECOND {
                return;
            }
            match self.random.between(0, 4) {
                0 if self.faults.crashes => {
                    self.put(at, What::Crash { replica });
                    let down = self.random.between(SECOND / 10, 20 * SECOND);
                    self.put(at + down, What::Restart { replica });
                }
                1 if self.faults.crashes => {
                    let until = at + self.random.between(SECOND / 5, 15 * SECOND);
                    self.put(at, What::Pause { replica, until });
                }
                2 if self.faults.clocks => {
                    let by_ms = self.random.signed(-90_000, 90_000);
                    self.put(at, What::Step { replica, by_ms });
                    let back = at + self.random.between(SECOND, 20 * SECOND);
                    self.put(back, What::Step { replica, by_ms: -by_ms });
                    self.skewed.push((replica, at, back));
                }
                _ => {}
            }
        }
    }

    fn put(&mut self, at: Micros, what: What) {
        self.sequence += 1;
        self.queue.insert((at, self.sequence), what);
    }

    fn clocks(&self, replica: usize) -> Now {
        let replica = &self.replicas[replica];
        let drifted = self.now as i64 + self.now as i64 * replica.drift / 1_000_000;
        let boot = replica.boot_offset + drifted as u64;
        let wall = DateTime::from_timestamp(EPOCH, 0).unwrap()
            + TimeDelta::microseconds(drifted)
            + TimeDelta::milliseconds(replica.wall_offset_ms);
        Now { wall, boot: Boot::from_nanos(boot * 1_000) }
    }

    /// When the replica's boot clock will show that.
    fn true_time(&self, replica: usize, boot: Boot) -> Micros {
        let replica = &self.replicas[replica];
        let drifted = (boot.nanos() / 1_000).saturating_sub(replica.boot_offset) as i64;
        (drifted * 1_000_000 / (1_000_000 + replica.drift)).max(0) as u64 + 2
    }

    fn store_time(&self) -> i64 {
        EPOCH * 1000 + (self.now / 1000) as i64
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
            What::Arrive { sent: Sent { replica, incarnation, request, steps, server }, reply } => {
                let now = self.store_time();
                if server != self.records.identity.server {
                    let failure = StoreFailure { kind: "maybe_applied", detail: "the connection was cut".into() };
                    return self.put(self.now, What::Reply { replica, incarnation, request, result: Err(failure) });
                }
                let answers = steps.iter().map(|step| self.apply(step, now)).collect();
                if let Some(at) = reply {
                    self.put(at, What::Reply { replica, incarnation, request, result: Ok(answers) });
                }
            }
            What::Reply { replica, incarnation, request, result } => {
                if self.replicas[replica].incarnation != incarnation || self.replicas[replica].engine.is_none() {
                    return;
                }
                if self.later(replica, |result| What::Reply { replica, incarnation, request, result }, result.clone()) {
                    return;
                }
                self.tell(replica, Event::Answered { request, result });
            }
            What::ArriveMeeting { replica, incarnation, sent, meeting, reply } => {
                let event = match meeting {
                    Meeting::Meet { mine, gone } => {
                        let result = Ok(self.records.meet(Some(&mine), &gone, self.store_time()));
                        Event::Met { sent, result }
                    }
                    Meeting::Survey => {
                        let jobs = self.records.jobs().map(|(name, record)| (name.clone(), record.clone()));
                        Event::Surveyed { result: Ok(jobs.collect()) }
                    }
                };
                if let Some(at) = reply {
                    self.put(at, What::Tell { replica, incarnation, event });
                }
            }
            What::Tell { replica, incarnation, event } => {
                if self.replicas[replica].incarnation == incarnation
                    && !self.later(replica, |event| What::Tell { replica, incarnation, event }, event.clone())
                {
                    self.tell(replica, event);
                }
            }
            What::Spawn { replica, incarnation, order } => {
                if self.replicas[replica].incarnation == incarnation && self.replicas[replica].engine.is_some() {
                    if self.later(replica, |order| What::Spawn { replica, incarnation, order }, order.clone()) {
                        return;
                    }
                    self.spawn(replica, *order);
                }
            }
            What::Ended { replica, incarnation, run, exit } => {
                if self.replicas[replica].incarnation == incarnation
                    && !self.later(
                        replica,
                        |(run, exit)| What::Ended { replica, incarnation, run, exit },
                        (run.clone(), exit.clone()),
                    )
                {
                    self.tell(replica, Event::Ended { run, exit });
                }
            }
            What::ChildEnds { child, killed } => self.child_ends(child, killed),
            What::Crash { replica } => {
                self.end_life(replica);
                self.replicas[replica].engine = None;
                self.replicas[replica].wake = None;
            }
            What::Restart { replica } => self.restart(replica),
            What::Remember => self.remembered = self.records.clone(),
            What::Forget { how } => self.forget(how),
            What::Deed(deed) => self.do_deed(deed),
            What::StoreChanged { replica } => self.tell(replica, Event::StoreChanged),
            What::Pause { replica, until } => {
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

    /// Puts off what reaches a paused replica.
    fn later<T>(&mut self, replica: usize, what: impl FnOnce(T) -> What, value: T) -> bool {
        let until = self.replicas[replica].paused_until;
        if until <= self.now {
            return false;
        }
        self.put(until, what(value));
        true
    }

    fn restart(&mut self, replica: usize) {
        if self.replicas[replica].engine.is_some() {
            return;
        }
        let now = self.clocks(replica);
        let this = &mut self.replicas[replica];
        this.incarnation += 1;
        this.paused_until = 0;
        this.up_since = self.now;
        let me = ReplicaId::new(&format!("r{replica}"), &this.incarnation.to_string());
        let first = replica == 0 && this.incarnation == 1;
        let table = if first { table::with_a_job_that_leaves(&self.table) } else { self.table.clone() };
        this.engine = Some(Engine::new(me, &table, now));
        self.tell(replica, Event::Woke);
    }

    fn end_life(&mut self, replica: usize) {
        let this = &self.replicas[replica];
        if this.engine.is_some() {
            self.lives.push((replica, this.incarnation, this.up_since, self.now));
        }
    }

    fn tell(&mut self, replica: usize, event: Event) {
        if self.replicas[replica].paused_until > self.now {
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
        let rate = 1_000_000 + self.replicas[replica].drift;
        let slow = |micros: i64| (micros * 1_000_000 / rate).max(0) as u64 + 2;
        let wall = wake.wall.map(|at| self.now + slow((at - now.wall).num_microseconds().unwrap_or(0)));
        let boot = wake.boot.map(|at| self.true_time(replica, at));
        // The daemon sleeps in bounded steps.
        let at = [wall, boot, Some(self.now + SECOND)].into_iter().flatten().min().unwrap().max(self.now + 100);
        if self.replicas[replica].wake.is_none_or(|set| at < set || set <= self.now) {
            self.replicas[replica].wake = Some(at);
            self.put(at, What::Wake { replica });
        }
    }

    fn perform(&mut self, replica: usize, effect: Effect) {
        let incarnation = self.replicas[replica].incarnation;
        match effect {
            Effect::Ask { request, steps } => self.send(replica, request, steps),
            Effect::Start(order) => {
                let at = self.now + self.random.between(100, 3_000);
                self.put(at, What::Spawn { replica, incarnation, order });
            }
            Effect::Extend { run, lease_end } => {
                let at = self.true_time(replica, lease_end);
                for child in self.children.iter_mut().filter(|child| child.run == run && child.ended.is_none()) {
                    if child.replica == replica && child.incarnation == incarnation {
                        child.lease_end = child.lease_end.map(|_| at);
                    }
                }
            }
            Effect::Meet { mine, gone } => self.send_meeting(replica, Meeting::Meet { mine, gone }),
            Effect::Survey => self.send_meeting(replica, Meeting::Survey),
            Effect::Terminate { run } => self.signal(replica, &run, false),
            Effect::Kill { run } => self.signal(replica, &run, true),
            Effect::Notice(notice) => self.lines.push(Line { at: self.now, replica, incarnation, notice }),
            Effect::Drained { .. } => {}
        }
    }

    /// When a request is at the store, if it gets there, and when its reply is back, if that does.
    fn travel(&mut self) -> (Option<Micros>, Option<Micros>) {
        let bad = self.faults.network && self.now < CALM;
        let random = &mut self.random;
        let there = self.now
            + random.between(200, 3_000)
            + if bad && random.chance(30) { random.between(0, 9_000_000) } else { 0 };
        let back = there
            + random.between(200, 3_000)
            + if bad && random.chance(30) { random.between(0, 3_000_000) } else { 0 };
        let lost = bad && random.chance(25);
        let reply_lost = bad && random.chance(25);
        let timeout = self.now + REQUEST_TIMEOUT;
        let reply = (!lost && !reply_lost && back < timeout).then_some(back);
        ((!lost).then_some(there), reply)
    }

    fn send(&mut self, replica: usize, request: RequestId, steps: Arc<Vec<Step>>) {
        let incarnation = self.replicas[replica].incarnation;
        let (there, reply) = self.travel();
        if let Some(there) = there {
            let server = self.records.identity.server.clone();
            self.put(there, What::Arrive { sent: Sent { replica, incarnation, request, steps, server }, reply });
        }
        if reply.is_none() {
            let result = Err(no_answer());
            self.put(self.now + REQUEST_TIMEOUT, What::Reply { replica, incarnation, request, result });
        }
    }

    fn send_meeting(&mut self, replica: usize, meeting: Meeting) {
        let (incarnation, sent) = (self.replicas[replica].incarnation, self.clocks(replica).boot);
        let (there, reply) = self.travel();
        let failed = match meeting {
            Meeting::Meet { .. } => Event::Met { sent, result: Err(no_answer()) },
            Meeting::Survey => Event::Surveyed { result: Err(no_answer()) },
        };
        if let Some(there) = there {
            self.put(there, What::ArriveMeeting { replica, incarnation, sent, meeting, reply });
        }
        if reply.is_none() {
            self.put(self.now + REQUEST_TIMEOUT, What::Tell { replica, incarnation, event: failed });
        }
    }

    fn spawn(&mut self, replica: usize, order: StartOrder) {
        let now = self.clocks(replica);
        let asked = (replica, self.replicas[replica].incarnation, order.run.clone());
        if self.stopped_early.remove(&asked) || now.boot >= order.lease_end {
            let event = Event::NotStarted { run: order.run, too_late: true, error: String::new() };
            return self.tell(replica, event);
        }
        let long = order.spec.description == "long";
        let lasts =
            if long { self.random.between(4 * SECOND, 30 * SECOND) } else { self.random.between(10_000, 2 * SECOND) };
        let child = self.children.len();
        let lease_end = order.guarded.then(|| self.true_time(replica, order.lease_end));
        self.children.push(Child {
            run: order.run.clone(),
            start: order.start,
            token: order.token,
            replica,
            incarnation: self.replicas[replica].incarnation,
            began: self.now,
            ended: None,
            rerun: order.spec.lost_run_policy == LostRunPolicy::Rerun,
            exclusive: order.spec.is_exclusive(),
            spec: Arc::clone(&order.spec),
            lease_end,
        });
        self.put(self.now + lasts, What::ChildEnds { child, killed: false });
        if let Some(at) = lease_end {
            self.guard(child, at);
        }
        self.tell(replica, Event::Started { run: order.run, pid: child as u32 });
    }

    /// The guardian: looks at the deadline, and again if it was extended. A child may take its whole grace to end.
    fn guard(&mut self, child: usize, at: Micros) {
        self.put(at.max(self.now), What::ChildEnds { child, killed: true });
    }

    fn signal(&mut self, replica: usize, run: &RunKey, kill: bool) {
        let incarnation = self.replicas[replica].incarnation;
        let alive = |child: &Child| child.run == *run && child.ended.is_none() && child.incarnation == incarnation;
        let Some(child) = self.children.iter().position(|child| child.replica == replica && alive(child)) else {
            self.stopped_early.insert((replica, incarnation, run.clone()));
            return;
        };
        let grace = self.children[child].spec.lease_loss_grace().as_micros() as u64;
        let takes = if kill { 1_000 } else { self.random.between(1_000, grace + 2_000) };
        self.children[child].lease_end = Some(self.now.min(self.children[child].lease_end.unwrap_or(self.now)));
        self.put(self.now + takes, What::ChildEnds { child, killed: false });
    }

    fn child_ends(&mut self, index: usize, by_guardian: bool) {
        let child = &self.children[index];
        if child.ended.is_some() {
            return;
        }
        if by_guardian {
            let Some(at) = child.lease_end else { return };
            if at > self.now {
                return self.guard(index, at);
            }
            // TERM now; KILL at the end of the grace. It takes as long as it may.
            let grace = child.spec.lease_loss_grace().as_micros() as u64;
            return self.put(self.now + grace, What::ChildEnds { child: index, killed: false });
        }
        self.children[index].ended = Some(self.now);
        let child = self.children[index].clone();
        let replica = &self.replicas[child.replica];
        if replica.incarnation != child.incarnation || replica.engine.is_none() {
            return;
        }
        let fails = self.random.chance(200);
        let exit = Exit { code: Some(i32::from(fails)), signal: None, output_tail: String::new(), output_bytes: 0 };
        let at = self.now.max(replica.paused_until);
        let (replica, incarnation, run) = (child.replica, child.incarnation, child.run);
        self.put(at, What::Ended { replica, incarnation, run, exit });
    }
}

fn no_answer() -> StoreFailure {
    StoreFailure { kind: "maybe_applied", detail: "no answer".into() }
}
