//! Ticks that nobody ran: settled once per fleet, after their starting deadline.
//!
//! A few are settled one by one. After a long outage there may be very many: those that follow one another and end
//! alike become a range, so that what waits, and what is written, has a bound.

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
use crate::job::JobName;
use crate::job::MissedReason;
use crate::job::RunKey;
use crate::job::SkipReason;
use crate::job::Step;
use crate::job::Tick;
use crate::job::Trigger;
use crate::job::Verdict;
use std::time::Duration;

/// So many ticks of a job are settled one by one; what is beyond is settled as ranges.
pub(super) const SINGLES_MOST: usize = 100;

/// In place of the tick before: what is said of this one moves nothing on, since its record exists, or existed, or since it
/// follows on nothing that is known here.
pub(super) const UNLINKED: i64 = i64::MAX;

/// A tick to settle, or a range that ends with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Owed {
    /// The first tick; where there is one only, that.
    pub first: Tick,
    /// How many ticks.
    pub count: u64,
    /// See [`Claim::previous`](crate::job::Claim::previous), of the first.
    pub previous: i64,
    /// How long after the last tick: see [`Job::settled_after`](super::agenda::Job::settled_after).
    pub after: Duration,
    /// What to write, if nobody has decided it.
    pub decision: Decision,
    /// Its deadline is past then.
    pub not_before: Boot,
    /// It is being asked.
    pub asked: bool,
}

impl Owed {
    /// A single tick.
    pub fn one(tick: Tick, previous: i64, (after, decision): (Duration, Decision)) -> Self {
        Self { first: tick, count: 1, previous, after, decision, not_before: Boot::from_nanos(0), asked: false }
    }

    /// Whether it goes on where the other one ends.
    pub(super) fn continues(&self, other: &RunKey, before: &Self) -> bool {
        self.previous == other.scheduled_for.seconds()
            && self.decision == before.decision
            && before.previous != UNLINKED
            && !before.asked
    }
}

impl Engine {
    /// Takes on a tick, or a range whose last tick this is.
    pub(super) fn owe(&mut self, now: Now, run: RunKey, mut owed: Owed) {
        // After a step back of the clock, ticks come again that were settled, and perhaps by us. Or somebody has claimed it
        // and is gone, of which we did not hear: that is found out by its record.
        let decided = self.jobs.get(&run.job).and_then(|job| job.decided_through);
        if owed.previous != UNLINKED && decided.is_some_and(|through| run.scheduled_for.seconds() <= through) {
            return self.look(run);
        }
        let of_job = RunKey::new(run.job.clone(), Tick::from_seconds(i64::MIN));
        let many = self.owed.range(of_job..).take_while(|(other, _)| other.job == run.job).count() >= SINGLES_MOST;
        let before = RunKey::new(run.job.clone(), Tick::from_seconds(owed.previous));
        if many
            && owed.count == 1
            && let Some(other) = self.owed.get(&before)
            && owed.continues(&before, other)
        {
            let distance = run.scheduled_for.seconds() - before.scheduled_for.seconds();
            let longest = other.after.saturating_sub(Duration::from_secs(distance.unsigned_abs()));
            owed.after = owed.after.max(longest);
            owed.count += other.count;
            (owed.first, owed.previous) = (other.first, other.previous);
            self.owed.remove(&before);
            self.alarms.clear(&Topic::Owed(before));
        }
        let over_at = run.scheduled_for.millis() + millis(owed.after);
        let left_ms = u64::try_from(over_at - now.wall.timestamp_millis()).unwrap_or(0);
        owed.not_before = now.boot + Duration::from_millis(left_ms);
        self.owed.insert(run.clone(), owed);
        self.outbox.want(Topic::Owed(run));
    }

    /// The store is back: all that waits is asked.
    pub(super) fn ask_owed_after_outage(&mut self) {
        for run in self.owed.keys() {
            self.outbox.want(Topic::Owed(run.clone()));
        }
    }

    pub(super) fn settle_step(&mut self, now: Now, run: &RunKey) -> Option<Step> {
        // While the store is away the first is enough to find out when it is back, and the others may still grow.
        if !self.outbox.is_up() && self.owed.keys().next() != Some(run) {
            return None;
        }
        let decision = self.honest(run, self.owed.get(run)?.decision);
        let owed = self.owed.get_mut(run)?;
        let not_before = self.settle_from.max(owed.not_before);
        if now.boot < not_before {
            self.alarms.set(Topic::Owed(run.clone()), not_before);
            return None;
        }
        owed.asked = true;
        owed.decision = decision;
        let after_ms = millis(owed.after);
        let expect = match owed.count {
            1 => Expect::Absent { after_ms },
            count => Expect::AbsentRange { first: owed.first, count, after_ms },
        };
        let previous = self.jobs.get(&run.job).map_or(owed.previous, |job| job.link(owed.previous, run.scheduled_for));
        let owner = self.me.clone();
        Some(Step::Settle { run: run.clone(), owner, previous, expect, decision })
    }

    pub(super) fn settle_answered(&mut self, now: Now, run: &RunKey, answer: Answer) {
        match answer.verdict {
            Verdict::TooEarly { by_ms } => {
                let wait = Duration::from_millis(by_ms.unsigned_abs() + 50);
                return self.alarms.set(Topic::Owed(run.clone()), now.boot + wait);
            }
            Verdict::Unregistered => return self.ask_when_registered(now, Topic::Owed(run.clone())),
            _ => {}
        }
        let Some(owed) = self.owed.remove(run) else { return };
        self.alarms.clear(&Topic::Owed(run.clone()));
        match (answer.verdict, answer.run) {
            (Verdict::Settled, _) => self.say_settled(now, run, &owed),
            (Verdict::Occupied { at }, _) => self.owe_part(now, (&run.job, at), owed),
            // The chain of decided ticks is another one than we thought: the audit looks again.
            (_, None) => self.plan_audit(now, &run.job),
            (_, Some(record)) => {
                self.watch(now, run.clone(), record);
                if let (Decision::Missed(reason), Some(watch)) = (owed.decision, self.watches.get_mut(run)) {
                    watch.not_run_for = Some(reason);
                }
            }
        }
    }

    fn say_settled(&mut self, now: Now, run: &RunKey, owed: &Owed) {
        let facts = RunFacts::unbegun(run, Trigger::Schedule);
        match owed.decision {
            Decision::Missed(reason) if owed.count == 1 => self.say_missed(now, facts, reason),
            Decision::Missed(reason) if self.is_new(run) => {
                let (job, through) = (run.job.clone(), run.scheduled_for);
                self.notice(Notice::RunsMissed { job, first: owed.first, through, count: owed.count, reason });
            }
            Decision::Skipped(reason @ SkipReason::Rescheduled) if self.is_new(run) => {
                self.skipped(facts, reason, None, None);
            }
            _ => {}
        }
    }

    /// A tick was settled as missed by this replica. It may have come to that in two ways, and be told twice that it did.
    pub(super) fn say_missed(&mut self, now: Now, facts: RunFacts, reason: MissedReason) {
        if self.is_new(&facts.run) {
            let late_ms = self.late_ms(now, &facts.run);
            self.notice(Notice::RunMissed { facts, reason, late_ms });
        }
    }

    /// Whether this replica has not settled the tick before; notes it. Manual runs are owed by nobody.
    fn is_new(&mut self, run: &RunKey) -> bool {
        let tick = run.scheduled_for;
        tick.is_manual() || self.jobs.get_mut(&run.job).is_none_or(|job| job.settled.insert(tick))
    }

    /// A tick inside the range has a record. What lies before it is settled as a range; where nothing does, the next
    /// ones are asked about one by one, since where one tick has a record its neighbours mostly have, too. What is left
    /// is the next audit's.
    fn owe_part(&mut self, now: Now, (name, at): (&JobName, Tick), owed: Owed) {
        let Some(job) = self.jobs.get(name) else { return };
        let mut before = Vec::new();
        let mut previous = owed.previous;
        for _ in 0..owed.count {
            let Some(tick) = job.owed_after(previous) else { break };
            if tick >= at && (before.len() >= SINGLES_MOST || before.first().is_some_and(|(first, _)| *first < at)) {
                break;
            }
            before.push((tick, previous));
            previous = tick.seconds();
        }
        let terms = (owed.after, owed.decision);
        match before.as_slice() {
            [(first, previous), .., (last, _)] if *last < at => {
                let count = before.len().try_into().unwrap_or(u64::MAX);
                let part = Owed { count, ..Owed::one(*first, *previous, terms) };
                self.owe(now, RunKey::new(name.clone(), *last), part);
            }
            singles => {
                for (tick, previous) in singles {
                    let single = Owed::one(*tick, *previous, terms);
                    self.owe(now, RunKey::new(name.clone(), *tick), single);
                }
            }
        }
    }

    /// The store did not answer: nothing is known of what was asked.
    pub(super) fn settle_failed(&mut self, run: &RunKey) {
        if let Some(owed) = self.owed.get_mut(run) {
            owed.asked = false;
        }
    }
}
