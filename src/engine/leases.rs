//! Renewals of our runs, and what follows when there is none for a lease.

use super::Effect;
use super::Engine;
use super::Notice;
use super::StopCause;
use super::attempts::LEASE_OVER;
use super::attempts::without_another;
use super::runs::Phase;
use crate::clock::Boot;
use crate::clock::Now;
use crate::job::Answer;
use crate::job::RunKey;
use crate::job::Verdict;

impl Engine {
    /// The lease is over, or the store says that the run is not ours any more.
    pub(super) fn lose_lease(&mut self, now: Now, run: &RunKey, (answer, taken): (Option<&Answer>, bool)) {
        let Some(ours) = self.runs.get_mut(run) else { return };
        let first = !std::mem::replace(&mut ours.lease_lost, true);
        let stops = taken || ours.stops_when_lease_is_lost();
        let (running, grace) = (ours.phase == Phase::Running, ours.spec.lease_loss_grace());
        if first {
            let facts = ours.facts(run);
            let unconfirmed_for = now.boot.since(ours.confirmed);
            let holder = answer.and_then(|answer| answer.run.as_ref()).map(|record| record.owner.clone());
            let holder = holder.filter(|holder| *holder != self.me);
            self.notice(Notice::LeaseLost { facts, holder, unconfirmed_for, stops });
        }
        if stops && running {
            self.stop(now, run, (StopCause::LeaseLost, grace));
        } else if !running {
            match self.runs.get(run).map(|ours| &ours.phase) {
                // No next attempt without a lease. How the last one ended is known, and recorded.
                Some(Phase::Backoff(_, ending)) if !taken => {
                    let ending = without_another((**ending).clone(), LEASE_OVER);
                    self.finish(now, run, ending);
                }
                _ => self.let_go(now, run, answer),
            }
        }
    }

    pub(super) fn renew_answered(&mut self, now: Now, run: &RunKey, (sent, answer): (Boot, Answer)) {
        let Some(ours) = self.runs.get_mut(run) else { return };
        let lease = ours.lease;
        if !matches!(ours.phase, Phase::Running | Phase::Backoff(..)) {
            return self.look_at_run(now, run);
        }
        if answer.verdict != Verdict::Renewed && self.remind(now, run, &answer) {
            return self.look_at_run(now, run);
        }
        let registers = self.jobs.contains_key(&run.job);
        let Some(ours) = self.runs.get_mut(run) else { return };
        match answer.verdict {
            // It is being registered; then at once.
            Verdict::Unregistered if registers => ours.renew_at = now.boot,
            Verdict::Renewed => {
                ours.confirmed = ours.confirmed.max(sent);
                let lease_end = ours.confirmed + lease;
                if ours.stop.is_none_or(|(cause, ..)| cause != StopCause::LeaseLost) {
                    ours.lease_lost = false;
                }
                self.effects.push(Effect::Extend { run: run.clone(), lease_end });
            }
            Verdict::Lost => self.lose_lease(now, run, (Some(&answer), false)),
            // Closed or forgotten, and nobody else's: as when it was called lost.
            Verdict::Done | Verdict::Gone => {
                let taken = answer.run.as_ref().is_some_and(|record| record.owner != self.me);
                self.lose_lease(now, run, (Some(&answer), taken));
            }
            Verdict::Fenced => self.lose_lease(now, run, (Some(&answer), true)),
            _ => {}
        }
        self.look_at_run(now, run);
    }
}
