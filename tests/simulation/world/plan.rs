//! What goes wrong in a day, and when.

use super::Amnesia;
use super::DAY;
use super::END;
use super::MINUTE;
use super::Micros;
use super::SECOND;
use super::Span;
use super::What;
use super::World;
use crate::random::Random;
use crate::table::Episodes;
use std::time::Duration;

/// Faults of an episode end so long after its beginning; then everything comes up, and what is open must close.
const CALM: Micros = 150 * SECOND;

/// What may go wrong.
#[derive(Debug, Clone, Copy)]
pub struct Faults {
    pub network: bool,
    pub crashes: bool,
    pub clocks: bool,
    pub reloads: bool,
    /// Between the episodes: long outages, suspends, nobody there, rolling restarts.
    pub long: bool,
    /// The store forgets: everything, the last seconds, or some records.
    pub amnesia: bool,
    /// People order runs by hand, cancel some, and pause jobs.
    pub people: bool,
    /// A defence that is taken away.
    pub without: Option<Without>,
}

/// A defence that a twin lacks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Without {
    /// The store looks at owner and start at begin.
    Fence,
    /// The store notices that it may have forgotten.
    MemoryGuard,
    /// A run whose stop was asked for keeps its slot until it is gone.
    SlotUntilGone,
    /// A lost run keeps its slot until nobody can be running it any more.
    SlotOfTheLost,
    /// A run that must not overlap takes the slot.
    Slot,
    /// The store refuses ticks that are not due by its clock.
    StoreTime,
    /// No answer is no verdict.
    NoVerdict,
    /// The lease is looked at once more before the spawn.
    LookBeforeSpawn,
    /// Processes are ended with their lease.
    Guardian,
    /// A replica that settles, or takes over, is bound to what it saw.
    CompareAndSet,
    /// A replica that had a tick and did not start it says why not.
    LastWord,
}

impl Faults {
    pub const NONE: Self = Self {
        network: false,
        crashes: false,
        clocks: false,
        reloads: false,
        long: false,
        amnesia: false,
        people: false,
        without: None,
    };
    pub const ALL: Self = Self { network: true, crashes: true, clocks: true, reloads: true, long: true, ..Self::NONE };
    pub const AMNESIA: Self = Self { amnesia: true, ..Self::ALL };
    pub const PEOPLE: Self = Self { people: true, ..Self::ALL };

    pub const fn without(self, defence: Without) -> Self {
        Self { without: Some(defence), ..self }
    }
}

/// The minutes at which many ticks and many faults begin.
pub fn episodes(random: &mut Random) -> Episodes {
    let count = random.between(1, 4);
    let part = 1_380 / count;
    // Never at the turn of an hour, so that an episode's minutes are of one hour.
    (0..count).map(|n| 5 + n * part + random.between(0, part - 25)).map(|at| at - at % 60 + (at % 60).min(56)).collect()
}

impl World {
    pub(super) fn plan(&mut self, episodes: &Episodes) {
        for replica in 0..self.replicas.len() {
            let at = self.random.between(0, 3 * SECOND);
            self.put(at, What::Restart { replica });
        }
        self.put(0, What::Trouble { until: 0 });
        let mut free = 6 * MINUTE;
        for minute in episodes {
            let at = minute * MINUTE;
            self.plan_long_faults(free, at.saturating_sub(2 * MINUTE));
            self.plan_episode(at);
            free = at + 10 * MINUTE;
        }
        self.plan_long_faults(free, DAY - 30 * MINUTE);
        self.plan_reloads(episodes);
        for minute in episodes.clone() {
            self.checkpoints.push(minute * MINUTE + CALM + 5 * MINUTE);
        }
        self.checkpoints.push(END);
    }

    fn plan_episode(&mut self, begin: Micros) {
        let until = begin + CALM;
        let lossy = if self.faults.network { until } else { begin };
        self.put(begin.saturating_sub(5 * SECOND), What::Trouble { until: lossy });
        self.troubles.push((begin.saturating_sub(5 * SECOND), until));
        if self.faults.amnesia {
            self.plan_amnesia(begin);
        }
        if self.faults.people {
            self.plan_deeds(begin, CALM);
        }
        for replica in 0..self.replicas.len() {
            self.plan_faults(replica, begin);
        }
    }

    fn plan_faults(&mut self, replica: usize, begin: Micros) {
        let mut at = begin;
        loop {
            at += self.random.between(3 * SECOND, 40 * SECOND);
            if at > begin + CALM - 20 * SECOND {
                return;
            }
            match self.random.between(0, 6) {
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
                    let back = at + self.random.between(SECOND, 20 * SECOND);
                    self.step_clock(replica, (at, back), by_ms);
                }
                3 if self.faults.network => {
                    let until = at + self.random.between(SECOND, 20 * SECOND);
                    self.put(at, What::Cut { replica, until });
                }
                4 if self.faults.crashes => {
                    let timeout = Duration::from_secs(self.random.between(0, 12));
                    self.put(at, What::Drain { replica, timeout });
                }
                _ => {}
            }
        }
    }

    fn step_clock(&mut self, replica: usize, (at, back): (Micros, Micros), by_ms: i64) {
        self.put(at, What::Step { replica, by_ms });
        self.put(back, What::Step { replica, by_ms: -by_ms });
        let span = Span { replica, from: at, to: back };
        self.skewed.push(span);
        self.disturbed.push(span);
    }

    fn plan_long_faults(&mut self, from: Micros, to: Micros) {
        let mut at = from;
        while self.faults.long {
            at += self.random.between(5 * MINUTE, 120 * MINUTE);
            let longest = to.saturating_sub(at).min(120 * MINUTE);
            if longest < 2 * MINUTE {
                return;
            }
            let until = at + self.random.between(MINUTE, longest);
            let replica = self.random.between(0, self.replicas.len() as u64) as usize;
            match self.random.between(0, 10) {
                0 => {
                    let until = until.min(at + 20 * MINUTE);
                    self.put(at, What::Outage { until });
                    self.outages.push((at, until));
                    at = until;
                }
                1 => {
                    let until = until.min(at + 30 * MINUTE);
                    self.put(at, What::Cut { replica, until });
                    at = until;
                }
                2 => {
                    self.put(at, What::Pause { replica, until });
                    at = until;
                }
                3 => {
                    self.put(at, What::Crash { replica });
                    self.put(until, What::Restart { replica });
                    at = until;
                }
                // Nobody is there for a while.
                4 => {
                    for replica in 0..self.replicas.len() {
                        self.put(at, What::Crash { replica });
                        let back = until + self.random.between(0, 30 * SECOND);
                        self.put(back, What::Restart { replica });
                    }
                    at = until + 30 * SECOND;
                }
                5 => {
                    let by_ms = self.random.signed(-3_600_000, 3_600_000);
                    self.step_clock(replica, (at, until), by_ms);
                    at = until;
                }
                // One replica is enough for the night.
                6..=8 => {
                    let until = until.max(to.min(at + self.random.between(60, 360) * MINUTE));
                    for other in (0..self.replicas.len()).filter(|other| *other != replica) {
                        self.put(at, What::Drain { replica: other, timeout: Duration::from_secs(20) });
                        self.put(at + MINUTE, What::Crash { replica: other });
                        self.put(until, What::Restart { replica: other });
                    }
                    at = until;
                }
                // A rolling restart.
                _ => {
                    for replica in 0..self.replicas.len() {
                        let timeout = Duration::from_secs(self.random.between(0, 30));
                        self.put(at, What::Drain { replica, timeout });
                        at += self.random.between(5 * SECOND, MINUTE);
                    }
                }
            }
        }
    }

    /// Each version reaches each replica at another moment; half of them while there is trouble.
    fn plan_reloads(&mut self, episodes: &Episodes) {
        let count = self.versions.len() as u64;
        let mut last = 0;
        for version in 1..self.versions.len() {
            let part = DAY * version as u64 / count;
            let calm = part + self.random.between(0, DAY / count / 2);
            let episode = *self.random.pick(episodes) * MINUTE + self.random.between(0, CALM);
            let at = if episode > last && self.random.chance(600) { episode } else { calm };
            let at = at.max(last + 2 * MINUTE).min(DAY - 10 * MINUTE);
            last = at;
            for replica in 0..self.replicas.len() {
                let at = at + self.random.between(0, 70 * SECOND);
                self.put(at, What::Reload { replica, version });
            }
        }
    }

    fn plan_amnesia(&mut self, begin: Micros) {
        for _ in 0..self.random.between(1, 4) {
            let at = begin + self.random.between(15 * SECOND, CALM - 60 * SECOND);
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
}
