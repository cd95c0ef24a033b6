//! Replicas, requests under way and processes, and everything that can happen next.
//!
//! The replicas here are small clients that follow the engine's protocol: claim, begin, start, renew, complete; watch
//! for a lease, call lost, drain or take over. Their clocks count whole units; nobody has to do anything in time except
//! the guardian, so a client that does nothing while units pass is a paused one, and a request that is delivered late is
//! one that was slow. What a client does is in `client.rs`.

use super::client::Local;
use super::mutant::Mutant;
use super::steps::Ask;
use super::steps::Kind;
use super::steps::OVER;
use super::steps::Owner;
use super::steps::TICKS;
use super::store::Stores;
use onecron::job::STARTS_MOST;

/// The lease in units.
pub const LEASE: u8 = 2;
/// How long a process may go on after its lease.
pub const GRACE: u8 = 1;
/// How long a watcher waits after `lost`. The product waits 2 G + M, which is longer in proportion: what holds with the
/// shorter wait holds with the longer one.
pub const DRAIN: u8 = 2;
/// How long a claim may wait for its begin.
pub const TAKEOVER: u8 = 1;
/// Runs with more begins are not followed further.
const STARTS_HORIZON: u8 = 3;
pub const REPLICAS: usize = 3;

/// What is looked at, and how far.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    pub kind: Kind,
    pub mutant: Mutant,
    pub replicas: u8,
    pub ticks: u8,
    /// How many requests or replies are given up.
    pub silent: u8,
    pub crashes: u8,
    pub forgets: u8,
    /// How many renewals a start has at most.
    pub renewals: u8,
    /// Whether worlds that differ in the replicas' names only are one. Stories are easier to read without.
    pub symmetric: bool,
    /// How many states are looked at; beyond, the check says that it is not complete.
    pub states: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Replica {
    pub life: u8,
    pub up: bool,
    pub ticks: [Local; TICKS],
}

/// A process of a job. It outlives its replica, but not its lease and grace where it is guarded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Process {
    pub owner: Owner,
    pub tick: u8,
    pub start: u8,
    /// Units since the last confirmed sending of a begin or renewal.
    pub age: u8,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct World {
    pub store: u32,
    /// The number of the tick that came last, or [`OVER`]: all starting deadlines have passed.
    pub clock: u8,
    pub replicas: [Replica; REPLICAS],
    /// Requests that nobody waits for any more and that may yet arrive.
    pub late: Vec<Ask>,
    pub processes: Vec<Process>,
    /// How many processes of each tick were started.
    pub started: [u8; TICKS],
    /// The highest token so far: tick, start.
    pub token: (u8, u8),
    pub silent: u8,
    pub crashes: u8,
    pub forgets: u8,
}

/// Something that happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// A replica sends what it has to ask about a tick.
    Send {
        replica: u8,
        tick: u8,
    },
    /// The request reaches the store.
    Arrive {
        replica: u8,
        tick: u8,
    },
    /// The reply to a begin reaches the replica.
    Reply {
        replica: u8,
        tick: u8,
    },
    /// The replica waits no longer: the request is lost or late. That its reply is lost is the same as this and then
    /// [`Self::ArriveLate`].
    GiveUp {
        replica: u8,
        tick: u8,
    },
    /// A request that nobody waits for arrives after all.
    ArriveLate {
        request: u8,
    },
    /// A watcher reads the run, which has changed since.
    Look {
        replica: u8,
        tick: u8,
    },
    /// A process ends by itself, or is ended by the guardian.
    End {
        process: u8,
    },
    /// A unit of time passes for all.
    Unit,
    /// The next tick is due, or all deadlines pass.
    Clock,
    Crash {
        replica: u8,
    },
    Restart {
        replica: u8,
    },
    Forget,
}

impl Action {
    /// Whether it needs no fault: if nothing but these happened, all would have to come to its end. A replica that is
    /// down may stay so for ever.
    pub const fn is_fair(self) -> bool {
        !matches!(
            self,
            Self::GiveUp { .. } | Self::ArriveLate { .. } | Self::Crash { .. } | Self::Restart { .. } | Self::Forget
        )
    }
}

/// A rule that does not hold.
pub type Violation = String;

impl World {
    pub fn first(stores: &mut Stores, bounds: &Bounds) -> Self {
        let mut replicas = [Replica::default(); REPLICAS];
        for replica in &mut replicas[..bounds.replicas.into()] {
            replica.up = true;
        }
        Self {
            store: stores.first(),
            clock: 0,
            replicas,
            late: Vec::new(),
            processes: Vec::new(),
            started: [0; TICKS],
            token: (0, 0),
            silent: bounds.silent,
            crashes: bounds.crashes,
            forgets: bounds.forgets,
        }
    }

    pub fn owner(&self, replica: u8) -> Owner {
        Owner { replica, life: self.replicas[replica as usize].life }
    }

    /// All ticks are decided, or nobody is there to decide them.
    pub fn is_settled(&self, stores: &Stores, bounds: &Bounds) -> bool {
        let decided = stores.brief(self.store).decided;
        self.replicas.iter().all(|replica| !replica.up) || decided[..bounds.ticks.into()].iter().all(|it| *it)
    }

    /// Whether the model ends here.
    pub fn is_beyond(&self, stores: &Stores) -> bool {
        stores.brief(self.store).runs.iter().flatten().any(|view| view.start > STARTS_HORIZON)
    }

    /// Everything that can happen.
    pub fn actions(&self, stores: &Stores, bounds: &Bounds, actions: &mut Vec<Action>) {
        actions.clear();
        for replica in 0..bounds.replicas {
            let this = &self.replicas[replica as usize];
            if !this.up {
                actions.push(Action::Restart { replica });
                continue;
            }
            if self.crashes > 0 {
                actions.push(Action::Crash { replica });
            }
            for tick in 0..bounds.ticks {
                match this.ticks[tick as usize].ask {
                    None => {
                        if self.question(stores, bounds, (replica, tick)).is_some() {
                            actions.push(Action::Send { replica, tick });
                        }
                        if self.sees_change(stores, (replica, tick)) {
                            actions.push(Action::Look { replica, tick });
                        }
                    }
                    Some(asked) => {
                        if asked.reply.is_some() {
                            actions.push(Action::Reply { replica, tick });
                            continue;
                        }
                        actions.push(Action::Arrive { replica, tick });
                        if self.silent > 0 {
                            actions.push(Action::GiveUp { replica, tick });
                        }
                    }
                }
            }
        }
        actions.extend((0..self.late.len()).map(|request| Action::ArriveLate { request: request as u8 }));
        actions.extend((0..self.processes.len()).map(|process| Action::End { process: process as u8 }));
        // The guardian is punctual: no time passes over the end of a grace.
        let must_end = |process: &Process| guarded(bounds.kind) && process.age >= LEASE + GRACE;
        if !self.processes.iter().any(must_end) && self.has_ages() {
            actions.push(Action::Unit);
        }
        if self.clock != OVER {
            actions.push(Action::Clock);
        }
        if self.forgets > 0 {
            actions.push(Action::Forget);
        }
    }

    /// What follows. The store's results are kept, so `stores` grows.
    pub fn next(&self, stores: &mut Stores, bounds: &Bounds, action: Action) -> Result<Self, Violation> {
        let mut next = self.clone();
        match action {
            Action::Send { replica, tick } => next.send(stores, bounds, (replica, tick)),
            Action::Arrive { replica, tick } => next.arrive(stores, bounds, (replica, tick))?,
            Action::Reply { replica, tick } => next.replied(bounds, (replica, tick))?,
            Action::GiveUp { replica, tick } => {
                next.silent -= 1;
                next.give_up(bounds, (replica, tick))?;
            }
            Action::ArriveLate { request } => {
                let ask = next.late.remove(request.into());
                next.apply(stores, ask)?;
            }
            Action::Look { replica, tick } => next.look(stores, bounds, (replica, tick)),
            Action::End { process } => next.end(process),
            Action::Unit => next.unit(),
            Action::Clock => {
                next.clock = if next.clock + 1 < bounds.ticks { next.clock + 1 } else { OVER };
            }
            Action::Crash { replica } => {
                next.crashes -= 1;
                next.crash(replica);
            }
            Action::Restart { replica } => {
                let this = &mut next.replicas[replica as usize];
                *this = Replica { life: this.life + 1, up: true, ticks: [Local::default(); TICKS] };
            }
            Action::Forget => {
                next.forgets -= 1;
                next.store = stores.forget(next.clock);
            }
        }
        next.send_what_waits(bounds);
        next.make_same(stores, bounds);
        Ok(next)
    }

    /// Only the reply to a begin takes its time: the owner's lease goes on meanwhile. Of all others a slow one is like
    /// a request that was slow, or a client that is.
    fn arrive(&mut self, stores: &mut Stores, bounds: &Bounds, (replica, tick): (u8, u8)) -> Result<(), Violation> {
        let owner = self.owner(replica);
        let Some(asked) = self.replicas[replica as usize].ticks[tick as usize].ask else { return Ok(()) };
        let reply = self.apply(stores, Ask { tick, owner, verb: asked.verb })?;
        if let Some(asked) = &mut self.replicas[replica as usize].ticks[tick as usize].ask {
            asked.reply = Some(reply);
        }
        if reply.said != super::steps::Said::Begun {
            return self.replied(bounds, (replica, tick));
        }
        Ok(())
    }

    fn apply(&mut self, stores: &mut Stores, ask: Ask) -> Result<super::client::Reply, Violation> {
        let before = stores.brief(self.store);
        let (store, said, view) = stores.apply(self.store, ask, self.clock);
        let after = stores.brief(store);
        self.store = store;
        for tick in 0..TICKS {
            let done = before.decided[tick] && before.ends[tick].is_some();
            if done && after.ends[tick].is_some() && before.ends[tick] != after.ends[tick] {
                return Err(format!("tick {tick} was {:?} and is {:?}", before.ends[tick], after.ends[tick]));
            }
            let start = |view: Option<super::steps::View>| view.map_or(0, |view| view.start);
            let first = start(before.runs[tick]) == 0 && start(after.runs[tick]) == 1;
            if first && before.last_begun > super::steps::tick(tick as u8).seconds() {
                return Err(format!("tick {tick} began after a later one: tokens fall"));
            }
        }
        Ok(super::client::Reply { said, view })
    }

    /// A process is started: what was promised about that is looked at here.
    pub fn start(&mut self, kind: Kind, process: Process) -> Result<(), Violation> {
        let tick = process.tick as usize;
        self.started[tick] += 1;
        let count = self.started[tick];
        if !kind.rerun && count > 1 {
            return Err(format!("tick {tick} was started twice"));
        }
        if u32::from(count) > STARTS_MOST {
            return Err(format!("tick {tick} was started {count} times"));
        }
        if kind.exclusive || kind.rerun {
            let other = self.processes.iter().find(|other| kind.exclusive || other.tick == process.tick);
            if let Some(other) = other {
                return Err(format!("{process:?} was started while {other:?} was alive"));
            }
        }
        let token = (process.tick, process.start);
        if (kind.exclusive || kind.rerun && self.token.0 == process.tick) && token <= self.token {
            return Err(format!("token {token:?} was used after {:?}", self.token));
        }
        self.token = self.token.max(token);
        self.processes.push(process);
        Ok(())
    }

    fn unit(&mut self) {
        for process in &mut self.processes {
            process.age = (process.age + 1).min(LEASE + GRACE);
        }
        for replica in &mut self.replicas {
            for local in &mut replica.ticks {
                local.age();
            }
        }
    }

    /// Whether a unit would change anything.
    fn has_ages(&self) -> bool {
        let mut later = self.clone();
        later.unit();
        later != *self
    }

    fn crash(&mut self, replica: u8) {
        let owner = self.owner(replica);
        for tick in 0..TICKS {
            if let Some(asked) = self.replicas[replica as usize].ticks[tick].ask
                && asked.reply.is_none()
            {
                self.late.push(Ask { tick: tick as u8, owner, verb: asked.verb });
            }
        }
        let this = &mut self.replicas[replica as usize];
        *this = Replica { life: this.life, ..Replica::default() };
    }

    /// What is under way, for a story.
    pub fn told(&self, action: Action) -> String {
        match action {
            Action::Send { .. } | Action::Look { .. } | Action::Unit | Action::Clock | Action::Forget => {
                format!("{action:?}")
            }
            Action::Arrive { replica, tick } | Action::Reply { replica, tick } | Action::GiveUp { replica, tick } => {
                format!("{action:?} {:?}", self.replicas[replica as usize].ticks[tick as usize].ask)
            }
            Action::ArriveLate { request } => format!("{action:?} {:?}", self.late[request as usize]),
            Action::End { process } => format!("{action:?} {:?}", self.processes[process as usize]),
            Action::Crash { .. } | Action::Restart { .. } => format!("{action:?}"),
        }
    }
}

/// Whether a process must not outlive its lease: `JobSpec::stops_when_lease_is_lost`.
pub const fn guarded(kind: Kind) -> bool {
    kind.exclusive || kind.rerun
}
