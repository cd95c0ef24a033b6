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
use crate::job::Answer;
use crate::job::Ending;
use crate::job::Outcome;
use crate::job::RunKey;
use crate::job::RunState;
use crate::job::STARTS_MOST;
use crate::job::Verdict;
use std::time::Duration;

/// Why no further attempt is made.
pub(super) const DRAINING: &str = "its replica is stopping";
pub(super) const LEASE_OVER: &str = "the run's lease is over";

/// How a run ends whose last attempt failed, with the reason why none follows although the job's `retry` has one left.
pub(super) fn without_another(ending: Ending, why: &str) -> Ending {
    let reason = format!("no further attempt: {why}");
    let error = if ending.error.is_empty() { reason } else { format!("{}; {reason}", ending.error) };
    Ending { error, ..ending }
}

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
            return self.give_back(now, run, &error);
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
        if outcome == Outcome::Failed && ours.start <= ours.spec.retry.limit {
            match ours.next_attempt(now, draining) {
                Ok(until) => {
                    ours.phase = Phase::Backoff(until, Box::new(ending.clone()));
                    let facts = ours.facts(run);
                    self.notice(Notice::RunRetried { facts, ending, next_in: until.since(now.boot) });
                    return self.look_at_run(now, run);
                }
                Err(why) => return self.finish(now, run, without_another(ending, why)),
            }
        }
        // A lost run is started again, whether its owner died or has stopped it for its lease. One that a drain has stopped
        // is not lost.
        let is_lost = matches!(ours.stop, Some((StopCause::LeaseLost, ..))) && outcome == Outcome::Interrupted;
        if is_lost && ours.is_rerunnable && ours.start < STARTS_MOST {
            self.say_finished(run, (ending, true));
            return self.abandon(run);
        }
        self.finish(now, run, ending);
    }

    /// Gives a run back whose begun attempt was not started, and why. If an earlier attempt was, its end is the run's.
    pub(super) fn give_back(&mut self, now: Now, run: &RunKey, why: &str) {
        let Some(ours) = self.runs.get_mut(run) else { return };
        if let Some(ending) = ours.last_failure.take() {
            return self.finish(now, run, without_another(*ending, why));
        }
        ours.unstarted = Some(why.to_owned());
        self.abandon(run);
    }

    /// Whether others, who saw only its begin, call a run lost: that nothing came of it is known here alone, and recorded.
    pub(super) fn lost_unstarted(&mut self, now: Now, run: &RunKey, (answer, why): (&Answer, &str)) -> bool {
        let Some(ours) = self.runs.get_mut(run) else { return false };
        // The reply to that begin may have been lost, too.
        let start = ours.start + u32::from(matches!(ours.phase, Phase::Beginning { .. }));
        let is_lost = answer.run.as_ref().is_some_and(|record| {
            record.owner == self.me
                && record.start == start
                && match record.state {
                    RunState::Lost => !record.may_run_again(),
                    RunState::Done => record.outcome == Some(Outcome::Lost),
                    _ => false,
                }
        });
        if is_lost {
            ours.start = start;
            let ending = ours.ending(now, Outcome::NotStarted, (Exit::default(), why.to_owned()));
            self.finish(now, run, ending);
        }
        is_lost
    }

    /// No further attempt. How the last one ended is known, and recorded, unless somebody else has the run by now.
    pub(super) fn retry_refused(&mut self, now: Now, run: &RunKey, answer: &Answer) {
        let taken = answer.run.as_ref().is_some_and(|record| record.owner != self.me);
        if taken {
            return self.lose_lease(now, run, (Some(answer), true));
        }
        let state = answer.run.as_ref().map(|record| record.state);
        let why = match state {
            Some(RunState::Lost) => "the run was recorded as lost meanwhile".to_owned(),
            Some(state) => format!("the store refused its begin: the run is {}", state.as_str()),
            None => "the store does not know the run any more".to_owned(),
        };
        self.give_back(now, run, &why);
    }

    fn say_finished(&mut self, run: &RunKey, (ending, again): (Ending, bool)) {
        let Some(ours) = self.runs.get(run) else { return };
        let (facts, attempts, output_bytes) = (ours.facts(run), ours.start, ours.output_bytes);
        self.notice(Notice::RunFinished { facts, ending, attempts, output_bytes, again });
    }

    pub(super) fn finish(&mut self, now: Now, run: &RunKey, ending: Ending) {
        let before = (ending.outcome == Outcome::Succeeded).then(|| self.before_success(run)).flatten();
        let Some(ours) = self.runs.get_mut(run) else { return };
        ours.before = before;
        ours.ended_in_time = !ours.lease_lost && now.boot < ours.confirmed + ours.lease;
        ours.phase = Phase::Completing(Box::new(ending.clone()));
        self.say_finished(run, (ending, false));
        self.look_at_run(now, run);
    }

    /// What the store says to the end of a run.
    pub(super) fn complete_answered(&mut self, now: Now, run: &RunKey, answer: &Answer) {
        let Some(ours) = self.runs.get(run) else { return };
        match answer.verdict {
            Verdict::Recorded => self.success_recorded(run, answer),
            Verdict::RecordedLate => {}
            _ => {
                let facts = ours.facts(run);
                let detail = match &answer.run {
                    Some(record) => format!("the run is {} by {}", record.state.as_str(), record.owner),
                    None => "the store knows no such run".to_owned(),
                };
                self.notice(Notice::RunUnrecorded { facts, detail });
            }
        }
        // Where it is somebody else's by now, that one may die as well, and we may be the only ones left.
        self.let_go(now, run, Some(answer));
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

    /// When the next attempt begins, or why there is none. None is announced that would not be made: after a standstill
    /// the end of an attempt may be heard of before the end of the lease is noticed.
    fn next_attempt(&self, now: Now, draining: bool) -> Result<Boot, &'static str> {
        if draining {
            return Err(DRAINING);
        }
        if self.lease_lost || now.boot >= self.confirmed + self.lease {
            return Err(LEASE_OVER);
        }
        let retry = self.spec.retry;
        let doubled = retry.backoff.saturating_mul(1 << self.start.saturating_sub(1).min(20));
        let until = now.boot + doubled.min(retry.max_backoff.max(retry.backoff));
        let in_time = self.timeout_at().is_none_or(|end| until < end);
        if in_time { Ok(until) } else { Err("it would begin after the run's `timeout`") }
    }
}
