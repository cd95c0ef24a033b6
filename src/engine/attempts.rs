//! How the attempts of a run end, and what follows: another one, or the end of the run.

use super::Engine;
use super::Exit;
use super::Notice;
use super::StopCause;
use super::agenda::millis;
use super::runs::Phase;
use super::runs::Run;
use crate::clock::Boot;
use crate::clock::Now;
use crate::job::Ending;
use crate::job::Outcome;
use crate::job::RunKey;
use std::time::Duration;

impl Engine {
    pub(super) fn run_started(&mut self, now: Now, run: &RunKey, pid: Option<u32>) {
        let start_delay_ms = self.late_ms(now, run);
        let Some(ours) = self.runs.get_mut(run) else { return };
        ours.deadline = None;
        let facts = ours.facts(run);
        self.notice(Notice::RunStarted { facts, start_delay_ms, pid });
    }

    pub(super) fn run_not_started(&mut self, now: Now, run: &RunKey, (too_late, error): (bool, String)) {
        let Some(ours) = self.runs.get_mut(run) else { return };
        let exit = Exit::default();
        if let Some((outcome, error)) = ours.stopped_as_asked() {
            let ending = ours.ending(now, outcome, (exit, error));
            return self.finish(now, run, ending);
        }
        if too_late {
            return self.give_back(now, run);
        }
        let ending = ours.ending(now, Outcome::NotStarted, (exit, error));
        self.finish(now, run, ending);
    }

    pub(super) fn run_ended(&mut self, now: Now, run: &RunKey, mut exit: Exit) {
        let draining = self.drain.is_some();
        let Some(ours) = self.runs.get_mut(run).filter(|ours| ours.phase == Phase::Running) else { return };
        ours.deadline = None;
        ours.output_bytes = exit.output_bytes;
        let found = std::mem::take(&mut exit.error);
        let failed = !found.is_empty() || !ours.spec.action.is_success(exit.code, exit.http_status);
        let (outcome, error) = match (ours.stopped_as_asked(), ours.stop) {
            (Some(asked), _) => asked,
            (None, Some((StopCause::Timeout, ..))) => (Outcome::TimedOut, "stopped at its timeout".to_owned()),
            (None, Some((StopCause::LeaseLost, ..))) => {
                (Outcome::Interrupted, "stopped when its lease was lost".to_owned())
            }
            (None, Some(_)) => (Outcome::Interrupted, "stopped by the drain of its replica".to_owned()),
            (None, None) if failed => (Outcome::Failed, String::new()),
            (None, None) => (Outcome::Succeeded, String::new()),
        };
        // Why it was stopped, and where it stood then.
        let error = [error, found].into_iter().filter(|text| !text.is_empty()).collect::<Vec<_>>().join(": ");
        let ending = ours.ending(now, outcome, (exit, error));
        if outcome == Outcome::Failed
            && !draining
            && !ours.lease_lost
            && let Some(until) = ours.next_attempt(now)
        {
            ours.phase = Phase::Backoff(until, Box::new(ending.clone()));
            let facts = ours.facts(run);
            self.notice(Notice::RunRetried { facts, ending, next_in: until.since(now.boot) });
            return self.look_at_run(now, run);
        }
        self.finish(now, run, ending);
    }

    pub(super) fn finish(&mut self, now: Now, run: &RunKey, ending: Ending) {
        let lease = self.lease;
        let Some(ours) = self.runs.get_mut(run) else { return };
        ours.ended_in_time = !ours.lease_lost && now.boot < ours.confirmed + lease;
        let facts = ours.facts(run);
        let (attempts, output_bytes) = (ours.start, ours.output_bytes);
        ours.phase = Phase::Completing(Box::new(ending.clone()));
        self.notice(Notice::RunFinished { facts, ending, attempts, output_bytes });
        self.look_at_run(now, run);
    }
}

impl Run {
    pub(super) fn ending(&self, now: Now, outcome: Outcome, (exit, error): (Exit, String)) -> Ending {
        let duration = self.first_start.map_or(Duration::ZERO, |first| now.boot.since(first));
        Ending {
            outcome,
            exit_code: exit.code,
            signal: exit.signal,
            http_status: exit.http_status,
            duration_ms: millis(duration).unsigned_abs(),
            error,
            output_tail: exit.output_tail,
        }
    }

    /// When the next attempt begins, where one is left and the timeout leaves time for it.
    fn next_attempt(&self, now: Now) -> Option<Boot> {
        let retry = self.spec.retry;
        if self.start > retry.limit {
            return None;
        }
        let doubled = retry.backoff.saturating_mul(1 << self.start.saturating_sub(1).min(20));
        let until = now.boot + doubled.min(retry.max_backoff.max(retry.backoff));
        self.timeout_at().is_none_or(|end| until < end).then_some(until)
    }
}
