//! The product's engines on the product's records, in virtual time, with every combination of at most so many faults:
//! at each request of each replica, each kind of fault. Without a fault everything takes a millisecond.
//!
//! Worlds are copied at each place where a fault may happen, so a story up to there is told once.

use super::mutant::Mutant;
use super::store::Kept;
use chrono::DateTime;
use onecron::clock::Boot;
use onecron::clock::Now;
use onecron::engine::Effect;
use onecron::engine::Engine;
use onecron::engine::Event;
use onecron::engine::Exit;
use onecron::engine::RequestId;
use onecron::engine::StartOrder;
use onecron::engine::StoreFailure;
use onecron::job::*;
use onecron::schedule::Schedule;
use onecron::schedule::Zone;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

type Millis = u64;

/// The world begins three seconds before a tick.
const EPOCH: i64 = 1_772_323_197;
const SECOND: Millis = 1000;
/// No faults from here on.
const CALM: Millis = 30 * SECOND;
/// What is open must be closed by then.
const END: Millis = 110 * SECOND;
/// When an engine is told that a request has no answer.
const TIMEOUT: Millis = SECOND;
/// Longer than lease, grace and drain together.
const LONG: Millis = 14 * SECOND;

/// What is looked at.
#[derive(Debug, Clone, Copy)]
pub struct Scene {
    pub replicas: usize,
    pub faults: u32,
    pub concurrency: ConcurrencyPolicy,
    pub lost: LostRunPolicy,
    /// The distance of ticks, seconds.
    pub every: u64,
    /// How long a process takes.
    pub lasts: Millis,
    /// What the store does not do.
    pub mutant: Mutant,
}

/// What goes wrong with a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    Lost,
    ReplyLost,
    Late(Millis),
    /// The replica ends before the store has it, or after; and does it come back?
    Crash {
        applied: bool,
        restarts: bool,
    },
    /// The replica stands still before the reply reaches it.
    Pause(Millis),
}

const FAULTS: [Fault; 10] = [
    Fault::Lost,
    Fault::ReplyLost,
    Fault::Late(2 * SECOND),
    Fault::Late(LONG),
    Fault::Crash { applied: false, restarts: true },
    Fault::Crash { applied: true, restarts: true },
    Fault::Crash { applied: false, restarts: false },
    Fault::Crash { applied: true, restarts: false },
    Fault::Pause(6 * SECOND),
    Fault::Pause(LONG),
];

#[derive(Debug, Clone)]
enum What {
    Wake { replica: usize },
    Arrive { replica: usize, life: u32, request: RequestId, steps: Arc<Vec<Step>>, waited_for: bool },
    Tell { replica: usize, life: u32, event: Event },
    Spawn { replica: usize, life: u32, order: Box<StartOrder> },
    ChildEnds { child: usize },
    Guard { child: usize },
    Restart { replica: usize },
}

#[derive(Debug, Clone)]
struct Child {
    run: RunKey,
    start: u32,
    token: u64,
    replica: usize,
    life: u32,
    ended: bool,
    /// The guardian's deadline.
    lease_end: Option<Millis>,
}

#[derive(Debug, Clone)]
struct Replica {
    engine: Option<Engine>,
    life: u32,
    paused_until: Millis,
    wake: Option<Millis>,
}

#[derive(Debug, Clone)]
struct World {
    scene: Scene,
    table: Arc<JobTable>,
    now: Millis,
    queue: BTreeMap<(Millis, u64), What>,
    sequence: u64,
    replicas: Vec<Replica>,
    records: Kept,
    children: Vec<Child>,
    faults: u32,
    story: Vec<String>,
    broken: Option<String>,
}

/// What was found.
#[derive(Debug, Default)]
pub struct Found {
    /// How many stories were told to their end.
    pub stories: usize,
    pub violation: Option<String>,
    /// The faults of that story, or all of its steps.
    pub story: Vec<String>,
}

pub fn explore(scene: Scene) -> Found {
    let mut found = Found::default();
    World::new(scene).explore(&mut found);
    found
}

impl World {
    fn new(scene: Scene) -> Self {
        let replica = Replica { engine: None, life: 0, paused_until: 0, wake: None };
        let mut world = Self {
            scene,
            table: Arc::new(table(scene)),
            now: 0,
            queue: BTreeMap::new(),
            sequence: 0,
            replicas: vec![replica; scene.replicas],
            records: Kept::default(),
            children: Vec::new(),
            faults: scene.faults,
            story: Vec::new(),
            broken: None,
        };
        for replica in 0..scene.replicas {
            world.put(replica as Millis * 3, What::Restart { replica });
        }
        world
    }

    /// To the end without a fault, and from each request with each fault.
    fn explore(mut self, found: &mut Found) {
        while let Some(((at, sequence), what)) = self.queue.pop_first() {
            if at > END || self.broken.is_some() {
                break;
            }
            self.now = at;
            if let What::Arrive { waited_for: true, replica, life, .. } = what
                && self.faults > 0
                && at < CALM
                && self.is_up(replica, life)
            {
                for fault in FAULTS {
                    let mut other = self.clone();
                    other.faults -= 1;
                    other.queue.insert((at, sequence), what.clone());
                    other.fail(fault);
                    other.explore(found);
                    if found.violation.is_some() {
                        return;
                    }
                }
            }
            self.happen(what);
        }
        found.stories += 1;
        if let Err(violation) = self.broken.take().map_or_else(|| self.check(), Err) {
            found.violation = Some(violation);
            found.story = self.story;
        }
    }

    fn is_up(&self, replica: usize, life: u32) -> bool {
        self.replicas[replica].life == life && self.replicas[replica].engine.is_some()
    }

    fn say(&mut self, text: impl FnOnce() -> String) {
        self.story.push(format!("{:>6} ms  {}", self.now, text()));
    }

    /// The next request goes wrong.
    fn fail(&mut self, fault: Fault) {
        let Some((_, What::Arrive { replica, life, request, steps, .. })) = self.queue.pop_first() else { return };
        let names: Vec<&str> = steps.iter().map(Step::name).collect();
        self.say(|| format!("r{replica}: {fault:?} at {names:?}"));
        let none = StoreFailure { kind: "maybe_applied", detail: "no answer".into() };
        let failed = What::Tell { replica, life, event: Event::Answered { request, result: Err(none) } };
        match fault {
            Fault::Lost => self.put(self.now + TIMEOUT, failed),
            Fault::ReplyLost => {
                let _: Vec<Answer> = self.apply_all(&steps);
                self.put(self.now + TIMEOUT, failed);
            }
            Fault::Late(by) => {
                self.put(self.now + TIMEOUT, failed);
                self.put(self.now + by, What::Arrive { replica, life, request, steps, waited_for: false });
            }
            Fault::Crash { applied, restarts } => {
                if applied {
                    let _: Vec<Answer> = self.apply_all(&steps);
                }
                self.replicas[replica].engine = None;
                self.replicas[replica].wake = None;
                if restarts {
                    self.put(self.now + 200, What::Restart { replica });
                }
            }
            Fault::Pause(time) => {
                let until = self.now + time;
                self.replicas[replica].paused_until = until;
                self.replicas[replica].wake = Some(until);
                self.put(until, What::Wake { replica });
                self.happen(What::Arrive { replica, life, request, steps, waited_for: true });
            }
        }
    }

    fn put(&mut self, at: Millis, what: What) {
        self.sequence += 1;
        self.queue.insert((at, self.sequence), what);
    }

    fn clocks(&self) -> Now {
        let wall = DateTime::from_timestamp_millis(EPOCH * 1000 + self.now as i64).unwrap();
        Now { wall, boot: Boot::from_nanos((self.now + 1_000_000) * 1_000_000) }
    }

    /// When the boot clocks show that; the first whole millisecond.
    fn true_time(boot: Boot) -> Millis {
        boot.nanos().div_ceil(1_000_000).saturating_sub(1_000_000)
    }

    fn apply_all(&mut self, steps: &[Step]) -> Vec<Answer> {
        let now = EPOCH * 1000 + self.now as i64;
        steps.iter().map(|step| self.records.apply_without(self.scene.mutant, step, now)).collect()
    }

    fn happen(&mut self, what: What) {
        match what {
            What::Wake { replica } => {
                if self.replicas[replica].wake.is_some_and(|wake| wake <= self.now) {
                    self.replicas[replica].wake = None;
                    self.tell(replica, Event::Woke);
                }
            }
            What::Arrive { replica, life, request, steps, waited_for } => {
                let answers = self.apply_all(&steps);
                if waited_for {
                    let event = Event::Answered { request, result: Ok(answers) };
                    self.put(self.now + 1, What::Tell { replica, life, event });
                }
            }
            What::Tell { replica, life, event } => {
                if !self.is_up(replica, life) {
                    return;
                }
                let until = self.replicas[replica].paused_until;
                if until > self.now {
                    return self.put(until, What::Tell { replica, life, event });
                }
                self.tell(replica, event);
            }
            What::Spawn { replica, life, order } => {
                if !self.is_up(replica, life) {
                    return;
                }
                let until = self.replicas[replica].paused_until;
                if until > self.now {
                    return self.put(until, What::Spawn { replica, life, order });
                }
                self.spawn(replica, *order);
            }
            What::ChildEnds { child } => self.child_ends(child),
            What::Guard { child } => {
                let Some(lease_end) = self.children[child].lease_end.filter(|_| !self.children[child].ended) else {
                    return;
                };
                // TERM at the deadline; it takes as long as it may. KILL then.
                let grace = self.table.jobs[0].lease_loss_grace().as_millis() as Millis;
                let (at, what) = if lease_end > self.now {
                    (lease_end, What::Guard { child })
                } else {
                    self.children[child].lease_end = Some(0);
                    (self.now + grace, What::ChildEnds { child })
                };
                self.put(at, what);
            }
            What::Restart { replica } => {
                let this = &mut self.replicas[replica];
                this.life += 1;
                this.paused_until = 0;
                let me = ReplicaId::new(&format!("r{replica}"), &this.life.to_string());
                let now = self.clocks();
                self.replicas[replica].engine = Some(Engine::new(me, &self.table, now));
                self.tell(replica, Event::Woke);
            }
        }
    }

    fn tell(&mut self, replica: usize, event: Event) {
        if self.replicas[replica].paused_until > self.now {
            return; // a wake-up follows at the end of the pause
        }
        let now = self.clocks();
        let Some(engine) = &mut self.replicas[replica].engine else { return };
        for effect in engine.handle(now, event) {
            self.perform(replica, effect);
        }
        self.set_wake(replica);
    }

    fn set_wake(&mut self, replica: usize) {
        let Some(engine) = &self.replicas[replica].engine else { return };
        let wake = engine.wake_at();
        let wall = wake.wall.map(|at| (at.timestamp_millis() - EPOCH * 1000).max(0) as Millis);
        let boot = wake.boot.map(Self::true_time);
        let Some(at) = [wall, boot].into_iter().flatten().min() else { return };
        let at = at.max(self.now + 1);
        if self.replicas[replica].wake.is_none_or(|set| at < set || set <= self.now) {
            self.replicas[replica].wake = Some(at);
            self.put(at, What::Wake { replica });
        }
    }

    fn perform(&mut self, replica: usize, effect: Effect) {
        let life = self.replicas[replica].life;
        match effect {
            Effect::Ask { request, steps } => {
                self.put(self.now + 1, What::Arrive { replica, life, request, steps, waited_for: true });
            }
            Effect::Start(order) => self.put(self.now + 1, What::Spawn { replica, life, order }),
            Effect::Extend { run, lease_end } => {
                let at = Self::true_time(lease_end);
                for child in self.children.iter_mut().filter(|child| child.run == run && !child.ended) {
                    if (child.replica, child.life) == (replica, life) {
                        // Once its guardian has begun to stop it, there is no way back.
                        child.lease_end = child.lease_end.map(|end| if end == 0 { 0 } else { at });
                    }
                }
            }
            // What holds must hold without it: nothing is decided by meetings. The simulation holds them.
            Effect::Meet { .. } | Effect::Survey | Effect::LookBack { .. } => {}
            Effect::Terminate { run } => self.stop(replica, &run, false),
            Effect::Kill { run } => self.stop(replica, &run, true),
            Effect::Notice(notice) => self.say(|| format!("r{replica}: {notice:?}")),
            Effect::Drained { .. } => {}
        }
    }

    fn stop(&mut self, replica: usize, run: &RunKey, kill: bool) {
        let life = self.replicas[replica].life;
        let ours = |child: &Child| child.run == *run && !child.ended && (child.replica, child.life) == (replica, life);
        let Some(child) = self.children.iter().position(ours) else { return };
        let grace = self.table.jobs[0].lease_loss_grace().as_millis() as Millis;
        self.put(self.now + if kill { 1 } else { grace }, What::ChildEnds { child });
    }

    fn spawn(&mut self, replica: usize, order: StartOrder) {
        if self.clocks().boot >= order.lease_end {
            let event = Event::NotStarted { run: order.run, too_late: true, error: String::new() };
            return self.tell(replica, event);
        }
        self.say(|| format!("r{replica}: starts {} start {}", order.run, order.start));
        let rerun = self.scene.lost == LostRunPolicy::Rerun;
        let exclusive = order.spec.is_exclusive();
        for other in &self.children {
            let same = other.run == order.run;
            if same && !rerun {
                self.broken = Some(format!("{} was started twice", order.run));
            } else if !other.ended && (exclusive || same && rerun) {
                self.broken = Some(format!("{} was started while {} was alive", order.run, other.run));
            } else if other.token >= order.token && (exclusive || same) {
                self.broken = Some(format!("{}: token {} after {}", order.run, order.token, other.token));
            }
        }
        let starts = self.children.iter().filter(|other| other.run == order.run).count() + 1;
        if starts > STARTS_MOST as usize {
            self.broken = Some(format!("{} was started {starts} times", order.run));
        }
        let child = self.children.len();
        let lease_end = order.guarded.then(|| Self::true_time(order.lease_end));
        let (run, life) = (order.run.clone(), self.replicas[replica].life);
        self.children.push(Child {
            run,
            start: order.start,
            token: order.token,
            replica,
            life,
            ended: false,
            lease_end,
        });
        self.put(self.now + self.scene.lasts, What::ChildEnds { child });
        if let Some(at) = lease_end {
            self.put(at, What::Guard { child });
        }
        self.tell(replica, Event::Started { run: order.run, pid: Some(child as u32) });
    }

    fn child_ends(&mut self, index: usize) {
        if std::mem::replace(&mut self.children[index].ended, true) {
            return;
        }
        let child = self.children[index].clone();
        self.say(|| format!("r{}: the process of {} start {} ends", child.replica, child.run, child.start));
        let exit = Exit { code: Some(0), ..Exit::default() };
        let event = Event::Ended { run: child.run, exit };
        self.put(self.now, What::Tell { replica: child.replica, life: child.life, event });
    }

    /// All is quiet: every tick but the last ones has one outcome, if anybody is there to say so.
    fn check(&self) -> Result<(), String> {
        if self.replicas.iter().all(|replica| replica.engine.is_none()) {
            return Ok(());
        }
        let spec = &self.table.jobs[0];
        let job = self.records.job.as_ref().ok_or("the job was never registered")?;
        let mut tick = Tick::from_seconds(job.since.div_euclid(1000));
        loop {
            tick = Tick::from_datetime(spec.schedule.after(tick.to_datetime()).ok_or("the schedule ends")?);
            if tick.seconds() * 1000 > EPOCH * 1000 + CALM as i64 {
                return Ok(());
            }
            let Some(record) = self.records.runs.get(&tick) else {
                if tick.seconds() <= job.floor {
                    continue;
                }
                return Err(format!("{tick} has no record"));
            };
            if record.state != RunState::Done {
                return Err(format!("{tick} is open at the end: {record:?}"));
            }
            let ran = self.children.iter().any(|child| child.run.scheduled_for == tick);
            let says_no = matches!(record.outcome, Some(Outcome::Missed | Outcome::Skipped));
            if ran && says_no || !ran && record.outcome == Some(Outcome::Succeeded) {
                return Err(format!("{tick} is {:?}, and it ran: {ran}", record.outcome));
            }
        }
    }
}

fn table(scene: Scene) -> JobTable {
    let schedule = format!("@every {}s", scene.every);
    let schedule = Schedule::parse(&schedule, &Zone::utc(), "model").unwrap();
    let command = CommandSpec::of(Program::Direct(vec!["true".into()]));
    let spec = JobSpec {
        concurrency_policy: scene.concurrency,
        lost_run_policy: scene.lost,
        timeout: None,
        termination_grace_period: Duration::from_secs(2),
        spec_hash: "model".into(),
        ..JobSpec::of(JobName::new("model").unwrap(), schedule, command)
    };
    let scheduler = SchedulerSpec {
        lock_lease: Duration::from_secs(5),
        clock_skew_tolerance: Duration::from_millis(500),
        ..SchedulerSpec::default()
    };
    JobTable { jobs: vec![Arc::new(spec)], scheduler, revision: "model".into(), ..JobTable::default() }
}
