//! Ticks that nobody ran: settled once per fleet, after their starting deadline.

use super::Engine;
use super::Notice;
use super::RunFacts;
use super::Topic;
use super::agenda::millis;
use crate::clock::Boot;
use crate::clock::Now;
use crate::job::Answer;
use crate::job::Decision;
use crate::job::Expect;
use crate::job::RunKey;
use crate::job::Step;
use crate::job::Trigger;
use crate::job::Verdict;
use std::time::Duration;

/// A tick to settle.
#[derive(Debug)]
pub struct Owed {
    /// See [`Claim::previous`](crate::job::Claim::previous).
    pub previous: i64,
    /// The starting deadline.
    pub after: Duration,
    /// What to write, if nobody has decided it.
    pub decision: Decision,
    /// Not before this moment.
    pub not_before: Boot,
}

impl Engine {
    pub(super) fn owe(&mut self, run: RunKey, owed: Owed) {
        self.owed.insert(run.clone(), owed);
        self.outbox.want(Topic::Owed(run));
    }

    pub(super) fn settle_step(&mut self, now: Now, run: &RunKey) -> Option<Step> {
        let at = self.settle_from.max(self.owed.get(run)?.not_before);
        if now.boot < at {
            self.alarms.set(Topic::Owed(run.clone()), at);
            return None;
        }
        let decision = self.honest(run, self.owed.get(run)?.decision);
        let owed = self.owed.get_mut(run)?;
        owed.decision = decision;
        Some(Step::Settle {
            run: run.clone(),
            owner: self.me.clone(),
            previous: owed.previous,
            expect: Expect::Absent { after_ms: millis(owed.after) },
            decision: owed.decision,
        })
    }

    pub(super) fn settle_answered(&mut self, now: Now, run: &RunKey, answer: Answer) {
        match answer.verdict {
            Verdict::TooEarly { by_ms } => {
                let wait = Duration::from_millis(by_ms.unsigned_abs() + 50);
                return self.alarms.set(Topic::Owed(run.clone()), now.boot + wait);
            }
            Verdict::Unregistered => return self.outbox.want(Topic::Owed(run.clone())),
            _ => {}
        }
        let Some(owed) = self.owed.remove(run) else { return };
        self.alarms.clear(&Topic::Owed(run.clone()));
        match (answer.verdict, answer.run) {
            (Verdict::Settled, _) => {
                let first = self.jobs.get_mut(&run.job).is_none_or(|job| job.settled.insert(run.scheduled_for));
                let Decision::Missed(reason) = owed.decision else { return };
                if !first {
                    return;
                }
                let facts = RunFacts { run: run.clone(), trigger: Trigger::Schedule, start: 1 };
                let late_ms = now.wall.timestamp_millis() - run.scheduled_for.millis();
                self.notice(Notice::RunMissed { facts, reason, late_ms });
            }
            (_, Some(record)) => self.watch(now, run.clone(), record),
            _ => {}
        }
    }
}
