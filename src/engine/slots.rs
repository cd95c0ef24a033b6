//! Runs of one job that must not be at once: waiting for one another, and making one another stop.
//!
//! Whether a run is in another's way is the store's to say, once, to the winner of the later tick. What the winner does
//! then is here:
//!
//! ```text
//!   Begin, or Wait without a place ─► Busy ─┬─ Forbid: overlap, as soon as the other one is seen to live
//!                                           ├─ Queue: waits, if it is the first, until its starting deadline
//!                                           └─ Replace: asks for the other's stop, and waits until it is gone
//!                                   ─► Free ─► takes a place and begins; without one, it is given back
//! ```
//!
//! Invariant: a run that waits has no place, and shows life by asking.

use super::Engine;
use super::Exit;
use super::Notice;
use super::RunFacts;
use super::StopCause;
use super::Topic;
use super::runs::Phase;
use super::runs::Run;
use super::watches::margin;
use crate::clock::Now;
use crate::job::Answer;
use crate::job::CatchUp;
use crate::job::Decision;
use crate::job::JobName;
use crate::job::Outcome;
use crate::job::ReplicaId;
use crate::job::RunKey;
use crate::job::RunRecord;
use crate::job::RunState;
use crate::job::SkipReason;
use crate::job::Step;
use crate::job::StopReason;
use crate::job::Tick;
use crate::job::Trigger;
use crate::job::Verdict;
use crate::job::WhenBusy;
use std::time::Duration;

/// How soon a run that waits asks again at first; then twice as long each time.
const WAIT_FIRST: Duration = Duration::from_millis(100);
/// And at most.
const WAIT_MOST: Duration = Duration::from_secs(1);
/// How soon the owner of a run looks whether its stop was asked for, when it hears that another replica has a later
/// tick that may replace it: that one has to begin, be told, and ask.
const ASKED_WITHIN: Duration = Duration::from_millis(250);

/// The run in the way of one of ours, as last seen.
#[derive(Debug, Clone)]
pub struct Occupant {
    tick: Tick,
    number: u64,
    holder: Option<ReplicaId>,
    /// Store clock; 0: unknown.
    begun_at: i64,
}

impl Occupant {
    /// The first run that is in the way of a tick, by the answer to its claim.
    pub(super) fn of(run: &RunKey, answer: &Answer) -> Option<Self> {
        let slot = answer.job.as_ref()?.slot;
        let found = answer.open.iter().find(|other| other.is_in_the_way_of(run.scheduled_for, slot))?;
        Some(Self {
            tick: found.scheduled_for,
            number: found.number,
            holder: Some(found.owner.clone()),
            begun_at: found.begun_at,
        })
    }
}

/// How long after a stop was asked for the successor may begin at the latest: L + the grace of the stop + M. In L the
/// owner hears of it, or is dead; then it has its grace, or the slot drains.
pub(super) fn stop_takes(record: &RunRecord) -> Duration {
    let (lease, grace) = (Duration::from_millis(record.lease_ms), Duration::from_millis(record.grace_ms));
    lease + grace.max(Duration::from_millis(record.stop_grace_ms)) + margin(lease, grace)
}

/// All runs in the way of one, of which the store named the first.
fn in_the_way<'a>(run: &RunKey, (occupant, answer): (Tick, &'a Answer)) -> impl Iterator<Item = &'a RunRecord> {
    let tick = run.scheduled_for;
    answer.open.iter().filter(move |other| other.is_in_the_way_of(tick, Some(occupant)))
}

impl Run {
    /// How it ends, where somebody asked for its stop and that is why it is being stopped.
    pub(super) fn stopped_as_asked(&self) -> Option<(Outcome, String)> {
        let (cause, ..) = self.stop?;
        let by = &self.stop_asked_by;
        match cause {
            StopCause::Replaced => Some((Outcome::Replaced, format!("stopped for a later run, which {by} has"))),
            StopCause::Cancelled => Some((Outcome::Cancelled, format!("stopped, as {by} asked"))),
            StopCause::Timeout | StopCause::Drain | StopCause::LeaseLost => None,
        }
    }
}

impl Engine {
    /// Whether another run of a tick's job is known to be going, and the tick's must not begin beside it.
    pub(super) fn is_occupied(&self, run: &RunKey) -> bool {
        let first = RunKey::new(run.job.clone(), Tick::from_seconds(i64::MIN));
        let going = |state| matches!(state, RunState::Begun | RunState::Lost);
        self.jobs.get(&run.job).is_some_and(|job| job.spec.is_exclusive())
            && (self.runs.range(&first..).take_while(|(key, _)| key.job == run.job).any(|(_, ours)| ours.is_going())
                || self
                    .watches
                    .range(&first..)
                    .take_while(|(key, _)| key.job == run.job)
                    .any(|(_, watch)| going(watch.record.state)))
    }

    pub(super) fn wait_answered(&mut self, now: Now, run: &RunKey, answer: Answer) {
        let free = self.free_places() > 0;
        let Some(ours) = self.runs.get_mut(run) else { return };
        if !matches!(ours.phase, Phase::Beginning { .. }) {
            return; // a drain, or the deadline, came first
        }
        if answer.verdict != Verdict::Free {
            return self.begin_refused(now, run, answer);
        }
        ours.occupant = None;
        if !free {
            // Nothing is in its way any more, except that there is no place here: there may be one elsewhere.
            return self.abandon(run);
        }
        ours.has_place = true;
        let phase = self.beginning(now);
        self.turn_and_look(now, run, phase);
    }

    /// Another run of the job is in the way. It counts as an overlap when that run gave a sign of life after our tick
    /// was due; an owner that died must not turn the next tick into a skip.
    pub(super) fn slot_busy(&mut self, now: Now, run: &RunKey, (tick, renewed, answer): (Tick, bool, &Answer)) {
        let alive_here = self.runs.get(&RunKey::new(run.job.clone(), tick)).is_some_and(Run::is_going);
        let record = answer.open.iter().find(|other| other.scheduled_for == tick);
        let number = record.map_or(0, |record| record.number);
        let Some(ours) = self.runs.get_mut(run) else { return };
        (ours.quiet, ours.has_place) = (false, false);
        let moved = ours.occupant.as_ref().is_some_and(|seen| seen.tick == tick && seen.number != number);
        ours.occupant = Some(Occupant {
            tick,
            number,
            holder: record.map(|record| record.owner.clone()),
            begun_at: record.map_or(0, |record| record.begun_at),
        });
        // Late ticks that are all to run do so one after the other, and newer ones after them, on whichever replica; and so
        // do orders that were found together. What began after ours was due, and is older, was late itself.
        let began_late = |other: &RunRecord| other.begun_at >= run.scheduled_for.millis();
        let is_ahead = |other: &RunRecord| match run.scheduled_for.is_manual() {
            // One that is started again was not found with ours.
            true => tick.is_manual() && other.start <= 1 && began_late(other),
            false => {
                ours.spec.catch_up == CatchUp::All && (other.trigger == Trigger::CatchUp.as_str() || began_late(other))
            }
        };
        let in_turn = tick < run.scheduled_for && record.is_some_and(is_ahead);
        let is_over = match ours.when_busy {
            WhenBusy::Skip => (renewed || moved || alive_here) && !in_turn,
            // One waits already.
            WhenBusy::Queue => answer.run.as_ref().is_some_and(|record| record.waiting_since == 0),
            // The deadline is judged now, and not when the other one is gone.
            WhenBusy::Replace => !ours.asked_stop && ours.deadline.is_some_and(|deadline| now.boot >= deadline),
        };
        if is_over {
            self.overlap(now, run);
        } else {
            if ours.when_busy == WhenBusy::Replace {
                self.ask_stops(now, run, (tick, answer));
            }
            self.wait(now, run, (tick, answer));
        }
        self.fill_places(now);
    }

    /// A run that the store has forgotten may be going.
    pub(super) fn wait_in_silence(&mut self, now: Now, run: &RunKey, answer: &Answer) {
        let Some(ours) = self.runs.get_mut(run) else { return };
        (ours.quiet, ours.has_place, ours.occupant) = (true, false, None);
        self.ask_later(now, run, answer);
        self.look_at_run(now, run);
        self.fill_places(now);
    }

    fn wait(&mut self, now: Now, run: &RunKey, (occupant, answer): (Tick, &Answer)) {
        self.ask_later(now, run, answer);
        for other in in_the_way(run, (occupant, answer)) {
            self.watch(now, other.key(&run.job), other.clone());
        }
        self.look_at_run(now, run);
    }

    /// Asks again after a while. Asking is the sign of life that keeps others from taking over a claim that waits.
    fn ask_later(&mut self, now: Now, run: &RunKey, answer: &Answer) {
        let Some(ours) = self.runs.get_mut(run) else { return };
        let takeover = Duration::from_millis(answer.run.as_ref().map_or(u64::MAX, |record| record.takeover_ms));
        let wait = (WAIT_FIRST * (1 << ours.waits.min(4))).min(WAIT_MOST).min(takeover / 3);
        ours.waits += 1;
        if let Phase::Beginning { not_before, first_sent, .. } = &mut ours.phase {
            *not_before = now.boot + wait;
            *first_sent = None; // that one was answered
        }
    }

    /// A run of the job is over here: those that wait for it ask at once.
    pub(super) fn wake_waiting(&mut self, now: Now, job: &JobName) {
        let first = RunKey::new(job.clone(), Tick::from_seconds(i64::MIN));
        for (key, ours) in self.runs.range_mut(&first..).take_while(|(key, _)| key.job == *job) {
            if let Phase::Beginning { not_before, .. } = &mut ours.phase
                && !ours.has_place
            {
                *not_before = now.boot;
                self.outbox.want(Topic::Run(key.clone()));
            }
        }
    }

    /// The tick is not run, for what is in its way.
    pub(super) fn overlap(&mut self, now: Now, run: &RunKey) {
        let Some(ours) = self.runs.get(run) else { return };
        let (facts, occupant) = (ours.facts(run), ours.occupant.clone());
        self.say_overlap(now, facts, occupant.as_ref());
        self.settle_own(run, Decision::Skipped(SkipReason::Overlap));
    }

    pub(super) fn say_overlap(&mut self, now: Now, facts: RunFacts, occupant: Option<&Occupant>) {
        let age_of = |other: &Occupant| {
            let ms = now.wall.timestamp_millis() - other.begun_at;
            (other.begun_at > 0).then(|| Duration::from_millis(u64::try_from(ms).unwrap_or(0)))
        };
        let (holder, age) = (occupant.and_then(|other| other.holder.clone()), occupant.and_then(age_of));
        let (reason, holder_run) = (SkipReason::Overlap, occupant.map(|other| other.tick));
        self.notice(Notice::RunSkipped { facts, reason, holder, holder_run, age });
    }

    /// Asks for the stop of everything that is in a run's way.
    fn ask_stops(&mut self, now: Now, run: &RunKey, (occupant, answer): (Tick, &Answer)) {
        let others = || in_the_way(run, (occupant, answer));
        let takes = others().chain(&answer.run).map(stop_takes).max().unwrap_or_default();
        let Some(ours) = self.runs.get_mut(run) else { return };
        if !std::mem::replace(&mut ours.asked_stop, true) {
            ours.deadline = ours.deadline.map(|deadline| deadline.max(now.boot + takes));
        }
        for other in others().filter(|other| other.stop_asked.is_none()) {
            let key = other.key(&run.job);
            self.stops.insert(key.clone(), StopReason::Replace);
            self.outbox.want(Topic::Stop(key));
        }
    }

    pub(super) fn stop_step(&self, run: &RunKey) -> Option<Step> {
        let reason = *self.stops.get(run)?;
        Some(Step::AskStop { run: run.clone(), by: self.me.to_string(), reason })
    }

    pub(super) fn stop_answered(&mut self, now: Now, run: &RunKey, answer: &Answer) {
        if answer.verdict == Verdict::Unregistered {
            return self.ask_when_registered(now, Topic::Stop(run.clone()));
        }
        self.stops.remove(run);
    }

    /// Another replica has a later tick, and may ask for the stop of what we run: we look soon.
    pub(super) fn expect_stop(&mut self, now: Now, later: &RunKey) {
        let first = RunKey::new(later.job.clone(), Tick::from_seconds(i64::MIN));
        let ours: Vec<RunKey> = self
            .runs
            .range(first..later.clone())
            .filter(|(_, ours)| ours.is_going())
            .map(|(key, _)| key.clone())
            .collect();
        for key in ours {
            if let Some(ours) = self.runs.get_mut(&key) {
                ours.renew_at = ours.renew_at.min(now.boot + ASKED_WITHIN);
            }
            self.look_at_run(now, &key);
        }
    }

    /// The runs of ours whose stop somebody asked for, as any answer about their job tells.
    pub(super) fn stops_asked(&self, job: &JobName, answer: &Answer) -> Vec<(RunKey, (StopReason, String))> {
        let records =
            answer.run.iter().chain(&answer.open).filter(|record| record.owner == self.me && record.is_open());
        records
            .filter_map(|record| Some((record.key(job), (record.stop_asked?, record.stop_asked_by.clone()))))
            .collect()
    }

    /// Stops a run as somebody asked. One that has not begun (again) is told so by its begin.
    pub(super) fn stop_as_asked(&mut self, now: Now, run: &RunKey, (reason, by): (StopReason, String)) {
        let Some(ours) = self.runs.get_mut(run).filter(|ours| ours.is_going() && ours.stop_asked_by.is_empty()) else {
            return;
        };
        ours.stop_asked_by.clone_from(&by);
        let facts = ours.facts(run);
        let cause = match reason {
            StopReason::Replace => StopCause::Replaced,
            StopReason::Cancel => StopCause::Cancelled,
        };
        let (grace, is_running) = (ours.spec.termination_grace_period, ours.phase == Phase::Running);
        if reason == StopReason::Cancel {
            self.notice(Notice::RunCancelled { facts, by });
        }
        if is_running {
            self.stop(now, run, (cause, grace));
            return self.look_at_run(now, run);
        }
        let Some(ours) = self.runs.get_mut(run) else { return };
        ours.stop = Some((cause, now.boot, Duration::ZERO));
        self.end_between_attempts(now, run);
    }

    /// Its begin was refused since somebody asked for its stop.
    pub(super) fn stopped_before_begin(&mut self, now: Now, run: &RunKey, answer: &Answer) {
        let Some(ours) = self.runs.get_mut(run) else { return };
        let reason = answer.run.as_ref().and_then(|record| record.stop_asked).unwrap_or(StopReason::Cancel);
        if ours.last_failure.is_some() {
            ours.stop_asked_by = answer.run.as_ref().map(|record| record.stop_asked_by.clone()).unwrap_or_default();
            let cause = if reason == StopReason::Replace { StopCause::Replaced } else { StopCause::Cancelled };
            ours.stop = Some((cause, now.boot, Duration::ZERO));
            return self.end_between_attempts(now, run);
        }
        let facts = ours.facts(run);
        if reason == StopReason::Cancel {
            let by = answer.run.as_ref().map(|record| record.stop_asked_by.clone()).unwrap_or_default();
            self.notice(Notice::RunCancelled { facts: facts.clone(), by });
        }
        self.skipped(facts, SkipReason::StopAsked, None, None);
        self.settle_own(run, Decision::Stopped(reason));
    }

    /// No further attempt, since the stop was asked for. What is known of the last one stays.
    fn end_between_attempts(&mut self, now: Now, run: &RunKey) {
        let Some(ours) = self.runs.get_mut(run) else { return };
        let last = match &ours.phase {
            Phase::Backoff(_, ending) => Some(ending.clone()),
            _ => ours.last_failure.take(),
        };
        let Some((outcome, error)) = ours.stopped_as_asked() else { return };
        let exit = last.map_or_else(Exit::default, |last| Exit {
            code: last.exit_code,
            signal: last.signal,
            http_status: last.http_status,
            output_tail: last.output_tail,
            output_bytes: ours.output_bytes,
            error: String::new(),
        });
        let ending = ours.ending(now, outcome, (exit, error));
        self.finish(now, run, ending);
    }
}
