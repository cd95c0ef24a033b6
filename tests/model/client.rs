//! What one replica does about one tick: the engine's protocol without its batches, alarms and words.

use super::mutant::Mutant;
use super::steps::Kind;
use super::steps::OVER;
use super::steps::Said;
use super::steps::Verb;
use super::steps::View;
use super::steps::Why;
use super::store::Stores;
use super::world::Bounds;
use super::world::DRAIN;
use super::world::LEASE;
use super::world::Process;
use super::world::TAKEOVER;
use super::world::Violation;
use super::world::World;
use super::world::guarded;
use onecron::job::RunState;
use onecron::job::STARTS_MOST;

/// What a replica knows and wants of a tick.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Local {
    pub phase: Phase,
    /// The question under way: one at a time.
    pub ask: Option<Asked>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub enum Phase {
    /// Nothing is known of it.
    #[default]
    Waiting,
    /// Somebody else has it; unchanged for so many units.
    Watching {
        view: View,
        age: u8,
    },
    /// The claim is ours. `sent`: units since the present begin was first sent.
    Beginning {
        start: u8,
        request: u8,
        sent: Option<u8>,
        timely: bool,
        waits: bool,
    },
    /// The process was started; units since the last confirmed sign of life was sent.
    Running {
        start: u8,
        age: u8,
        renewals: u8,
        lost: bool,
    },
    Completing {
        start: u8,
    },
    Abandoning {
        start: u8,
    },
    Settling(Why),
    /// Nothing more to do.
    Over,
}

/// A question under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Asked {
    pub verb: Verb,
    /// Units since it was sent.
    pub age: u8,
    /// The answer, on its way back.
    pub reply: Option<Reply>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Reply {
    pub said: Said,
    pub view: Option<View>,
}

/// A replica and a tick.
type Place = (u8, u8);

impl Local {
    pub fn age(&mut self) {
        let older = |age: &mut u8| *age = (*age + 1).min(LEASE);
        if let Some(asked) = &mut self.ask
            && matches!(asked.verb, Verb::Renew(_))
        {
            older(&mut asked.age); // nobody looks at the age of others
        }
        match &mut self.phase {
            Phase::Watching { view, age } if view.state != RunState::Abandoned => *age = (*age + 1).min(window(*view)),
            Phase::Beginning { sent: Some(age), .. } | Phase::Running { age, .. } => older(age),
            _ => {}
        }
    }
}

/// How long a run must stay unchanged before something may be done about it.
const fn window(view: View) -> u8 {
    match view.state {
        RunState::Claimed => TAKEOVER,
        RunState::Begun => LEASE,
        RunState::Lost => DRAIN,
        RunState::Abandoned | RunState::Done => 0,
    }
}

impl World {
    fn local(&mut self, (replica, tick): Place) -> &mut Local {
        &mut self.replicas[replica as usize].ticks[tick as usize]
    }

    /// What a replica has to ask now.
    pub fn question(&self, stores: &Stores, bounds: &Bounds, (replica, tick): Place) -> Option<Verb> {
        let over = self.clock == OVER;
        if tick > self.clock {
            return None;
        }
        Some(match self.replicas[replica as usize].ticks[tick as usize].phase {
            Phase::Waiting if over => Verb::SettleAbsent,
            Phase::Waiting => Verb::Claim(None),
            Phase::Watching { .. } if bounds.mutant == Mutant::FlagWithoutLease => return None,
            Phase::Watching { view, age } => {
                let waits = bounds.mutant != Mutant::NoWaitAfterLost || view.state != RunState::Lost;
                if waits && age < window(view) {
                    return None;
                }
                match view.state {
                    RunState::Begun => Verb::Lost(view),
                    RunState::Lost if !bounds.kind.rerun || u32::from(view.start) >= STARTS_MOST => Verb::Drained(view),
                    RunState::Lost | RunState::Claimed | RunState::Abandoned => Verb::Claim(Some(view)),
                    RunState::Done => return None,
                }
            }
            // Too late to begin, unless a begin that was sent in time may be in force.
            Phase::Beginning { sent: None, timely: true, .. } if over => Verb::SettleOwn(Why::Late),
            // It waits for the slot. That it asks again only when the answer is another one keeps the model small.
            Phase::Beginning { sent: None, waits: true, .. }
                if stores.brief(self.store).slot.is_some_and(|slot| slot != tick) =>
            {
                return None;
            }
            Phase::Beginning { start, request, .. } => Verb::Begin { start, request },
            Phase::Running { start, age, renewals, lost: false } if (1..LEASE).contains(&age) && renewals > 0 => {
                Verb::Renew(start)
            }
            Phase::Running { .. } | Phase::Over => return None,
            Phase::Completing { start } => Verb::Complete(start),
            Phase::Abandoning { start } => Verb::Abandon(start),
            Phase::Settling(why) => Verb::SettleOwn(why),
        })
    }

    pub fn send(&mut self, stores: &Stores, bounds: &Bounds, place: Place) {
        let Some(mut verb) = self.question(stores, bounds, place) else { return };
        let fresh = if bounds.mutant == Mutant::RequestsRepeat { 0 } else { self.fresh_request(stores, place) };
        let local = self.local(place);
        match &mut local.phase {
            Phase::Beginning { start, request, sent, .. } if matches!(verb, Verb::Begin { .. }) => {
                if sent.is_none() {
                    (*request, *sent) = (fresh, Some(0));
                }
                verb = Verb::Begin { start: *start, request: *request };
            }
            Phase::Beginning { .. } => local.phase = Phase::Settling(Why::Late),
            Phase::Running { renewals, .. } => *renewals -= 1,
            _ => {}
        }
        local.ask = Some(Asked { verb, age: 0, reply: None });
    }

    /// The number of a new begin: none that may still arrive or that the store remembers. The engine counts on.
    fn fresh_request(&self, stores: &Stores, (replica, tick): Place) -> u8 {
        let owner = self.owner(replica);
        let late = |number: u8| {
            let is = |verb| matches!(verb, Verb::Begin { request, .. } if request == number);
            self.late.iter().any(|ask| ask.owner == owner && ask.tick == tick && is(ask.verb))
        };
        let kept = stores.brief(self.store).requests[tick as usize];
        (0..u8::MAX).find(|number| !late(*number) && kept != Some(*number)).unwrap_or(u8::MAX)
    }

    /// Questions that are the same whenever they are sent are sent at once.
    pub fn send_what_waits(&mut self, bounds: &Bounds) {
        for replica in 0..bounds.replicas {
            for tick in 0..bounds.ticks {
                let local = self.local((replica, tick));
                let verb = match local.phase {
                    Phase::Completing { start } => Verb::Complete(start),
                    Phase::Abandoning { start } => Verb::Abandon(start),
                    Phase::Settling(why) => Verb::SettleOwn(why),
                    _ => continue,
                };
                if local.ask.is_none() {
                    local.ask = Some(Asked { verb, age: 0, reply: None });
                }
            }
        }
    }

    /// Whether a watcher would read something new.
    pub fn sees_change(&self, stores: &Stores, (replica, tick): Place) -> bool {
        let Phase::Watching { view, .. } = self.replicas[replica as usize].ticks[tick as usize].phase else {
            return false;
        };
        stores.brief(self.store).runs[tick as usize] != Some(view)
    }

    /// A read, sent and answered at once: one that takes longer shows an older state, counted from later.
    pub fn look(&mut self, stores: &Stores, bounds: &Bounds, place: Place) {
        let view = stores.brief(self.store).runs[place.1 as usize];
        self.watch(bounds, place, view);
    }

    /// Takes note of a run as read.
    fn watch(&mut self, bounds: &Bounds, place: Place, view: Option<View>) {
        let owner = self.owner(place.0);
        let over = self.clock == OVER;
        let local = self.local(place);
        let Some(view) = view.filter(|view| view.state != RunState::Done) else {
            local.phase = Phase::Over;
            return;
        };
        if view.owner == owner && view.state == RunState::Claimed && matches!(local.phase, Phase::Watching { .. }) {
            // Ours: the reply to our takeover was lost.
            local.phase = own(view, (bounds.kind, over));
            return;
        }
        let kept = match local.phase {
            Phase::Watching { view: old, age } if keeps_age(bounds.mutant, old, view) => age.min(window(view)),
            _ => 0,
        };
        local.phase = Phase::Watching { view, age: kept };
    }

    pub fn give_up(&mut self, bounds: &Bounds, place: Place) -> Result<(), Violation> {
        let owner = self.owner(place.0);
        let Some(asked) = self.local(place).ask.take() else { return Ok(()) };
        if asked.reply.is_none() {
            self.late.push(super::steps::Ask { tick: place.1, owner, verb: asked.verb });
        }
        match (bounds.mutant, asked.verb, self.local(place).phase) {
            (Mutant::LostReplyIsLoss, Verb::Claim(_), _) => self.local(place).phase = Phase::Over,
            (Mutant::LostReplyIsWin, Verb::Begin { start, .. }, Phase::Beginning { sent: Some(age), .. }) => {
                return self.run(bounds, place, (start + 1, age));
            }
            _ => {}
        }
        Ok(())
    }

    /// A reply is there.
    pub fn replied(&mut self, bounds: &Bounds, place: Place) -> Result<(), Violation> {
        let over = self.clock == OVER;
        let owner = self.owner(place.0);
        let Some(Asked { verb, age, reply: Some(Reply { said, view }) }) = self.local(place).ask.take() else {
            return Ok(());
        };
        let phase = self.local(place).phase;
        match (verb, said, phase) {
            (Verb::Claim(before), Said::Won, _) => {
                let Some(mut view) = view else { return Ok(()) };
                if bounds.mutant == Mutant::NoBegin {
                    return self.run(bounds, place, (view.start + 1, 0));
                }
                if before.is_some_and(|before| before.state == RunState::Abandoned) {
                    view.state = RunState::Abandoned; // as it was: tells whether it may have run
                }
                let never_ran = before.is_none_or(|before| before.never_ran(bounds.kind));
                let mut phase = own(view, (bounds.kind, over));
                if !never_ran && let Phase::Settling(_) | Phase::Beginning { .. } = phase {
                    phase = Phase::Beginning { start: view.start, request: 0, sent: None, timely: false, waits: false };
                }
                self.local(place).phase = phase;
            }
            (Verb::Claim(_), Said::Refused, _) => self.local(place).phase = Phase::Over,
            (Verb::Claim(_), Said::Forgot, _) if view.is_none() => self.local(place).phase = Phase::Over,
            (Verb::Claim(_) | Verb::SettleAbsent | Verb::Lost(_) | Verb::Drained(_), ..) => {
                self.watch(bounds, place, view);
            }
            (Verb::Begin { .. }, _, Phase::Beginning { start, sent, timely, .. }) => match said {
                Said::Begun => {
                    let since = if bounds.mutant == Mutant::LeaseCountedFromReply { 0 } else { sent.unwrap_or(0) };
                    if since >= LEASE {
                        self.local(place).phase = Phase::Abandoning { start: start + 1 };
                    } else {
                        return self.run(bounds, place, (start + 1, since));
                    }
                }
                Said::Busy { renewed: true } => self.local(place).phase = Phase::Settling(Why::Overlap),
                Said::Busy { renewed: false } => {
                    self.local(place).phase = Phase::Beginning { start, request: 0, sent: None, timely, waits: true };
                }
                Said::Superseded => self.local(place).phase = Phase::Settling(Why::Superseded),
                Said::Forgot => self.local(place).phase = Phase::Settling(Why::Forgot),
                Said::Gone => self.local(place).phase = Phase::Over,
                _ => self.watch(bounds, place, view),
            },
            (Verb::Renew(_), _, Phase::Running { start, age: old, renewals, lost }) => {
                let at = (place, owner, start);
                if said == Said::Renewed {
                    self.local(place).phase = Phase::Running { start, age: old.min(age), renewals, lost };
                    self.extend(at, age);
                } else {
                    self.local(place).phase = Phase::Running { start, age: LEASE, renewals, lost: true };
                    if guarded(bounds.kind) {
                        self.stop(at);
                    }
                }
            }
            (Verb::Complete(start) | Verb::Abandon(start), Said::Other, _) if unheard(view, (owner, start)) => {
                let phase = &mut self.local(place).phase;
                match phase {
                    Phase::Completing { start } | Phase::Abandoning { start } => *start += 1,
                    _ => {}
                }
            }
            (Verb::Complete(_), ..) => self.completed(bounds, place, view),
            (Verb::Abandon(_) | Verb::SettleOwn(_), ..) => self.watch(bounds, place, view),
            _ => {}
        }
        Ok(())
    }

    /// The end is recorded, or the run is somebody else's.
    fn completed(&mut self, bounds: &Bounds, place: Place, view: Option<View>) {
        if bounds.mutant == Mutant::UnrecordedIsForgotten {
            self.local(place).phase = Phase::Over;
        } else {
            self.watch(bounds, place, view);
        }
    }

    fn run(&mut self, bounds: &Bounds, place: Place, (start, age): (u8, u8)) -> Result<(), Violation> {
        let (owner, renewals) = (self.owner(place.0), bounds.renewals);
        self.local(place).phase = Phase::Running { start, age, renewals, lost: false };
        self.start(bounds.kind, Process { owner, tick: place.1, start, age })
    }

    /// The lease of a process was confirmed, unless its guardian has begun to stop it.
    fn extend(&mut self, (place, owner, start): (Place, super::steps::Owner, u8), age: u8) {
        for process in &mut self.processes {
            if (process.owner, process.tick, process.start) == (owner, place.1, start) && process.age <= LEASE {
                process.age = process.age.min(age);
            }
        }
    }

    /// A process is told to end within its grace.
    fn stop(&mut self, (place, owner, start): (Place, super::steps::Owner, u8)) {
        for process in &mut self.processes {
            if (process.owner, process.tick, process.start) == (owner, place.1, start) {
                process.age = process.age.max(LEASE);
            }
        }
    }

    /// A process is over, and its replica hears of it, if it is still the same.
    pub fn end(&mut self, process: u8) {
        let process = self.processes.remove(process.into());
        let replica = &mut self.replicas[process.owner.replica as usize];
        if replica.up && replica.life == process.owner.life {
            let local = &mut replica.ticks[process.tick as usize];
            local.phase = Phase::Completing { start: process.start };
        }
    }
}

/// The claim is ours: begin, or say that it is too late.
const fn own(view: View, (kind, over): (Kind, bool)) -> Phase {
    let timely = view.start == 0 || (!kind.rerun && view.start == 1);
    if timely && over {
        return Phase::Settling(Why::Late);
    }
    Phase::Beginning { start: view.start, request: 0, sent: None, timely, waits: false }
}

/// A begin whose reply was lost is in force.
fn unheard(view: Option<View>, (owner, start): (super::steps::Owner, u8)) -> bool {
    view.is_some_and(|view| view.owner == owner && view.state == RunState::Begun && view.start == start + 1)
}

fn keeps_age(mutant: Mutant, old: View, new: View) -> bool {
    let same = View { number: new.number, ..old } == new;
    match mutant {
        Mutant::NumberIgnored => same,
        Mutant::LeaseCountedFromClaim => old.owner == new.owner && new.state == RunState::Begun,
        _ => old == new,
    }
}
