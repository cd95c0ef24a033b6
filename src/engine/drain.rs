//! Stopping: claim nothing more, give back what has not begun, let runs finish, then stop them.

use super::Effect;
use super::Engine;
use super::Notice;
use super::RunFacts;
use super::StopCause;
use super::Topic;
use super::attempts::DRAINING;
use super::attempts::without_another;
use super::runs::Phase;
use crate::clock::Boot;
use crate::clock::Now;
use crate::job::RunKey;
use crate::job::SkipReason;
use std::time::Duration;

/// A drain under way.
#[derive(Debug, Clone)]
pub struct Drain {
    /// When runs are stopped.
    stop_at: Boot,
    /// Whether they were.
    stopped: Option<u32>,
    /// Since when nothing runs: what the store has not taken a lease later is given up.
    idle_since: Option<Boot>,
    /// When to look again.
    next: Boot,
    /// `Drained` was said.
    said: bool,
}

impl Drain {
    /// Whether the daemon was told that it may end.
    pub const fn is_over(&self) -> bool {
        self.said
    }

    /// When to look again; never once all is said.
    pub fn wakes(&self) -> Option<Boot> {
        (!self.said).then_some(self.next)
    }
}

impl Engine {
    pub(super) fn start_drain(&mut self, now: Now, timeout: Duration) {
        let stop_at = now.boot + timeout;
        if let Some(drain) = &mut self.drain {
            drain.stop_at = drain.stop_at.min(stop_at);
            return;
        }
        self.drain = Some(Drain { stop_at, stopped: None, idle_since: None, next: stop_at, said: false });
        let ticks: Vec<RunKey> = self.ticks.keys().cloned().collect();
        for run in ticks {
            if let Some(due) = self.remove_tick(&run) {
                let facts = RunFacts::unbegun(&run, due.trigger);
                self.skipped(facts, SkipReason::Draining, None, None);
            }
        }
        self.without_place.clear();
        let watched: Vec<RunKey> = self.watches.keys().cloned().collect();
        for run in watched {
            self.unwatch(&run);
        }
        let owed: Vec<RunKey> = std::mem::take(&mut self.owed).into_keys().collect();
        for run in owed {
            self.alarms.clear(&Topic::Owed(run));
        }
        let runs: Vec<RunKey> = self.runs.keys().cloned().collect();
        for run in runs {
            self.drain_run(now, &run);
        }
    }

    fn drain_run(&mut self, now: Now, run: &RunKey) {
        let Some(ours) = self.runs.get(run) else { return };
        match ours.phase {
            Phase::Beginning { .. } if ours.last_failure.is_none() => {
                let facts = ours.facts(run);
                self.skipped(facts, SkipReason::Draining, None, None);
                self.abandon(run);
            }
            Phase::Backoff(_, ref ending) => {
                let ending = without_another((**ending).clone(), DRAINING);
                self.finish(now, run, ending);
            }
            Phase::Beginning { .. } => self.give_back(now, run, DRAINING),
            Phase::Running | Phase::Abandoning | Phase::Settling(_) | Phase::Completing(_) => {}
        }
    }

    pub(super) fn continue_drain(&mut self, now: Now) {
        let Some(drain) = &self.drain else { return };
        if drain.said {
            return;
        }
        if now.boot >= drain.stop_at && drain.stopped.is_none() {
            self.stop_all(now);
        }
        let over = self.runs.is_empty() && !self.may_still_win();
        let idle = self.runs.values().all(|run| run.phase != Phase::Running);
        let lease = self.lease;
        let Some(drain) = &mut self.drain else { return };
        drain.idle_since = idle.then(|| drain.idle_since.unwrap_or(now.boot));
        let give_up_at = drain.idle_since.map(|since| since + lease);
        let give_up = give_up_at.is_some_and(|at| now.boot >= at);
        let stopped = drain.stopped;
        drain.said = over || give_up;
        drain.next = give_up_at.unwrap_or(if stopped.is_none() { drain.stop_at } else { now.boot + lease });
        if over || give_up {
            let unrecorded = u32::try_from(self.runs.len()).unwrap_or(u32::MAX);
            let left: Vec<RunFacts> = self.runs.iter().map(|(run, ours)| ours.facts(run)).collect();
            for facts in left {
                let detail = "the store did not take its outcome before the daemon ended".to_owned();
                self.notice(Notice::RunUnrecorded { facts, detail });
            }
            self.effects.push(Effect::Drained { stopped: stopped.unwrap_or(0), unrecorded });
        }
    }

    /// A claim under way may turn out to be ours, and has to be given back then.
    fn may_still_win(&self) -> bool {
        let claims = |topic: &Topic| matches!(topic, Topic::Tick(_) | Topic::Watch(_));
        self.outbox.is_up() && self.outbox.under_way().any(|asked| asked.topics.iter().any(claims))
    }

    fn stop_all(&mut self, now: Now) {
        let running: Vec<RunKey> =
            self.runs.iter().filter(|(_, run)| run.phase == Phase::Running).map(|(key, _)| key.clone()).collect();
        for run in &running {
            let Some(ours) = self.runs.get(run) else { continue };
            let grace = ours.spec.termination_grace_period;
            self.stop(now, run, (StopCause::Drain, grace));
            self.look_at_run(now, run); // its alarm: it is renewed while it stops
        }
        if let Some(drain) = &mut self.drain {
            drain.stopped = Some(u32::try_from(running.len()).unwrap_or(u32::MAX));
        }
        if !running.is_empty() {
            self.notice(Notice::DrainExpired { runs: running });
        }
    }
}
