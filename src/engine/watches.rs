//! Open runs of other replicas: leases are judged here, by observers, and not by stores.
//!
//! A watcher that sees the same owner, start, state and number for as long as the state allows, on its own boot clock
//! and counted from the receipt of the first such answer, acts by compare-and-set on all four. So store clocks,
//! fail-overs to servers with other clocks and expiring keys play no part.

use super::Engine;
use super::Notice;
use super::RunFacts;
use super::Topic;
use super::order::order;
use super::owed::UNLINKED;
use super::runs::Run;
use super::slots::stop_takes;
use crate::clock::Boot;
use crate::clock::Now;
use crate::job::Answer;
use crate::job::Claim;
use crate::job::Decision;
use crate::job::Expect;
use crate::job::MissedReason;
use crate::job::RunKey;
use crate::job::RunRecord;
use crate::job::RunState;
use crate::job::Step;
use crate::job::Trigger;
use crate::job::Verdict;
use crate::job::WhenBusy;
use std::sync::Arc;
use std::time::Duration;

/// A run that this replica cannot run, since the job is not in its table, and that whoever can has not taken for so long
/// (beside the time that it must be seen unchanged), is taken for one of a job that is in no table any more.
const ORPHANED_AFTER: Duration = Duration::from_secs(600);

/// An open run of another replica.
#[derive(Debug, Clone)]
pub struct Watch {
    /// As last read.
    pub record: RunRecord,
    /// When it was first seen so.
    pub since: Boot,
    /// When it was last seen.
    pub heard: Boot,
    /// It could be taken, but there is no place.
    pub waits_for_place: bool,
    /// The store does not know whether somebody else had it since: nobody may take it.
    pub forgotten: bool,
    /// Why it was not run here when it could have been: said of it if it is settled as missed.
    pub not_run_for: Option<MissedReason>,
}

/// How soon something that could be done about a run, and was not done, is tried again.
const AGAIN: Duration = Duration::from_millis(500);

/// M of the design: 1 s + 2 % of the lease + the grace.
pub(super) fn margin(lease: Duration, grace: Duration) -> Duration {
    Duration::from_secs(1) + lease / 50 + grace
}

/// After an outage of the store an owner has so long to say that its run goes on, or how it ended: it tries again within
/// a second and a half, as all do.
const OWNER_RETURNS: Duration = Duration::from_secs(3);

impl Watch {
    /// How long the run must stay unchanged before something may be done about it.
    fn window(&self) -> Duration {
        let lease = Duration::from_millis(self.record.lease_ms);
        let grace = Duration::from_millis(self.record.grace_ms);
        match self.record.state {
            RunState::Claimed => Duration::from_millis(self.record.takeover_ms),
            RunState::Begun => lease,
            RunState::Lost => grace + margin(lease, grace),
            RunState::Abandoned | RunState::Done => Duration::ZERO,
        }
    }

    /// Whether no process of the run can have been started: it was claimed and not begun, or given back after a begin
    /// that came too late. (Of a run that may be started again the records cannot tell.)
    pub(super) fn never_ran(&self) -> bool {
        let record = &self.record;
        let unbegun = matches!(record.state, RunState::Claimed | RunState::Abandoned);
        record.start == 0 || (unbegun && !record.rerun && record.start == 1)
    }

    /// Whether it asked in time for the stop of the run that it replaces: then it may begin after its starting deadline.
    fn is_replacing(&self) -> bool {
        self.record.when_busy == WhenBusy::Replace && self.record.is_waiting()
    }

    /// How often to read it meanwhile: a change that is seen late is a death that is noticed late. A quarter of the
    /// lease keeps the promise of one and a half.
    fn poll(&self) -> Duration {
        match self.record.state {
            RunState::Begun | RunState::Claimed => self.window().min(Duration::from_millis(self.record.lease_ms / 4)),
            RunState::Lost | RunState::Abandoned | RunState::Done => self.window(),
        }
    }
}

/// Whether a record may have been read before the one that is known: answers overtake one another, and one that waited
/// while this replica was suspended must not make a lost run begun again. It would be called lost twice.
fn is_older(record: &RunRecord, known: &RunRecord) -> bool {
    let same = record.owner == known.owner && record.start == known.start;
    let lost_since = known.state == RunState::Lost && record.state == RunState::Begun;
    same && (record.number < known.number || (record.number == known.number && lost_since))
}

impl Engine {
    /// Watches a run that somebody else has, until it is over.
    pub(super) fn watch(&mut self, now: Now, run: RunKey, record: RunRecord) {
        if !record.is_open() || self.runs.contains_key(&run) || self.ticks.contains_key(&run) || self.drain.is_some() {
            return;
        }
        if self.watches.contains_key(&run) || !self.take_order(now, &run, &record) {
            self.watch_taken(now, run, record);
        }
    }

    /// The same, also of one that was ordered and is not to be taken here.
    pub(super) fn watch_taken(&mut self, now: Now, run: RunKey, record: RunRecord) {
        if let Some(watch) = self.watches.get_mut(&run) {
            // What was asked for since is not overtaken: then the store went back, and the run is to be judged anew.
            if self.asked_at < watch.heard && is_older(&record, &watch.record) {
                return self.set_watch_alarm(now, &run);
            }
            if watch.record.seen() != record.seen() {
                watch.since = now.boot;
                watch.forgotten = false;
            }
            (watch.record, watch.heard) = (record, now.boot);
        } else {
            let (since, heard) = (now.boot, now.boot);
            let watch = Watch { record, since, heard, waits_for_place: false, forgotten: false, not_run_for: None };
            self.watches.insert(run.clone(), watch);
        }
        self.set_watch_alarm(now, &run);
    }

    fn set_watch_alarm(&mut self, now: Now, run: &RunKey) {
        let Some(watch) = self.watches.get(run) else { return };
        let spread = Duration::from_millis(order(&self.me, run) % 50);
        let ripe = watch.since + watch.window();
        let at = if ripe > now.boot {
            ripe.min(now.boot + watch.poll())
        } else if self.jobs.contains_key(&run.job) {
            now.boot + AGAIN
        } else {
            now.boot + AGAIN.max(Duration::from_millis(watch.record.lease_ms / 4))
        };
        self.alarms.set(Topic::Watch(run.clone()), at + spread);
    }

    pub(super) fn watch_step(&mut self, now: Now, run: &RunKey) -> Option<Step> {
        let free = self.free_places() > 0;
        let job = self.jobs.get(&run.job);
        let watch = self.watches.get_mut(run)?;
        watch.waits_for_place = false;
        let read = Step::Read { run: run.clone() };
        let unchanged_for = now.boot.since(watch.since);
        // While the store is away nothing is judged: the first that comes through would call runs lost whose owners
        // could not be heard.
        if unchanged_for < watch.window() || !self.outbox.is_up() {
            return Some(read);
        }
        let settle = |decision, record: &RunRecord| Step::Settle {
            run: run.clone(),
            owner: self.me.clone(),
            previous: UNLINKED,
            expect: Expect::Unchanged(record.seen()),
            decision,
        };
        match watch.record.state {
            RunState::Begun => return Some(settle(Decision::Lost, &watch.record)),
            RunState::Lost if !watch.record.may_run_again() => {
                return Some(settle(Decision::Drained, &watch.record));
            }
            RunState::Lost if watch.forgotten => return Some(settle(Decision::Drained, &watch.record)),
            RunState::Done => return Some(read),
            _ if watch.forgotten => {
                return Some(settle(Decision::Missed(MissedReason::StoreForgot), &watch.record));
            }
            RunState::Claimed | RunState::Abandoned | RunState::Lost => {}
        }
        let Some(job) = job else {
            // In our table it is not, so it is not ours to run. Whoever has it does; where nobody has, it must end.
            if unchanged_for < watch.window() + ORPHANED_AFTER {
                return Some(read);
            }
            let never_ran = watch.never_ran();
            let decision = if never_ran { Decision::Missed(MissedReason::NoReplica) } else { Decision::Drained };
            return Some(settle(decision, &watch.record));
        };
        if !job.registered {
            return Some(read);
        }
        let window = job.starting_deadline(run.scheduled_for);
        let over = job.is_too_late(now, run.scheduled_for) && watch.never_ran() && !watch.is_replacing();
        if !free && !over {
            (watch.waits_for_place, watch.not_run_for) = (true, Some(MissedReason::Saturated));
            return Some(read);
        }
        self.taking.insert(run.clone());
        let (spec, takeover) = (Arc::clone(&job.spec), Some(watch.record.seen()));
        let trigger = self.trigger_of_takeover(run);
        let delay_ms = job.delay_ms(run.scheduled_for);
        let claim = self.claim_of(run, &spec, (UNLINKED, delay_ms, trigger, window));
        Some(Step::Claim(Claim { takeover, ..claim }))
    }

    fn trigger_of_takeover(&self, run: &RunKey) -> Trigger {
        let Some(watch) = self.watches.get(run) else { return Trigger::Schedule };
        if watch.never_ran() {
            Trigger::parse(&watch.record.trigger).unwrap_or(Trigger::Schedule)
        } else {
            Trigger::Rerun
        }
    }

    pub(super) fn watch_answered(&mut self, now: Now, run: &RunKey, (step, answer): (&Step, Answer)) {
        self.taking.remove(run);
        if !self.watches.contains_key(run) {
            if answer.verdict == Verdict::Won && self.drain.is_some() {
                self.own_taken_over(now, run, &answer);
                self.abandon(run);
            }
            return;
        }
        match (answer.verdict, step) {
            (Verdict::Won, _) => return self.own_taken_over(now, run, &answer),
            (Verdict::Settled, Step::Settle { decision: Decision::Lost, .. }) => {
                if let Some(watch) = self.watches.get(run) {
                    let record = &watch.record;
                    let trigger = Trigger::parse(&record.trigger).unwrap_or(Trigger::Schedule);
                    let facts = RunFacts {
                        run: run.clone(),
                        trigger,
                        start: record.start,
                        token: Some(record.token).filter(|token| *token > 0),
                    };
                    let rerun = record.may_run_again();
                    let holder = record.owner.clone();
                    self.notice(Notice::RunLost { facts, holder, rerun });
                }
            }
            (Verdict::Settled, Step::Settle { decision: Decision::Missed(reason), .. }) => {
                let start = self.watches.get(run).map_or(1, |watch| watch.record.start.max(1));
                let facts = RunFacts { run: run.clone(), trigger: self.trigger_of_takeover(run), start, token: None };
                self.say_missed(now, facts, *reason);
            }
            (Verdict::Forgot, _) => self.note_forgotten(run),
            // Of a job that nobody registers any more: then nobody knows.
            (Verdict::Unregistered, Step::Settle { .. }) if !self.jobs.contains_key(&run.job) => {
                self.note_forgotten(run);
            }
            (Verdict::Changed, _)
                if answer
                    .job
                    .as_ref()
                    .is_some_and(|job| job.forgot_at > 0 && run.scheduled_for.millis() <= job.since) =>
            {
                self.note_forgotten(run);
            }
            _ => {}
        }
        match answer.run {
            None if answer.verdict != Verdict::Unregistered => {
                if let Some(watch) = self.watches.remove(run) {
                    self.forgotten_by_store(now, run, (&watch.record, &answer));
                }
                self.unwatch(run);
            }
            // Ours: the reply to our takeover was lost.
            Some(record) if record.owner == self.me && record.state == RunState::Claimed => {
                self.own_taken_over(now, run, &Answer { run: Some(record), ..answer });
            }
            Some(record) if record.is_open() => self.watch(now, run.clone(), record),
            _ if answer.verdict == Verdict::Unregistered && self.jobs.contains_key(&run.job) => {
                self.set_watch_alarm(now, run);
            }
            _ => self.unwatch(run),
        }
    }

    fn own_taken_over(&mut self, now: Now, run: &RunKey, answer: &Answer) {
        let trigger = self.trigger_of_takeover(run);
        let Some(job) = self.jobs.get(&run.job) else { return self.unwatch(run) };
        let start = answer.run.as_ref().map_or(0, |record| record.start);
        let window = job.starting_deadline(run.scheduled_for);
        let late = job.late_ms(now, run.scheduled_for);
        let mut left = window.saturating_sub(Duration::from_millis(u64::try_from(late).unwrap_or(0)));
        let watch = self.watches.get(run);
        if let Some(watch) = watch.filter(|watch| watch.is_replacing()) {
            left = left.max(stop_takes(&watch.record)); // counted anew: when the stop was asked for is not known here
        }
        // A rerun is judged by its starts, not by the starting deadline.
        let first = watch.is_none_or(Watch::never_ran);
        let reason = watch.and_then(|watch| watch.not_run_for).unwrap_or(MissedReason::NoReplica);
        // One that is over is settled below, without a word: that somebody else had it was said.
        let over = first && left.is_zero();
        let deadline = (first && !over).then_some(now.boot + left);
        // Whoever began it again may have given it back: then its record tells that there was somebody before.
        let was_lost = watch.is_some_and(|watch| {
            watch.record.state == RunState::Lost || watch.record.trigger == Trigger::Rerun.as_str()
        });
        let ours = Run::claimed(&job.spec, trigger, (start, deadline)).under(answer.run.as_ref());
        let ours = Run { was_lost, ..ours };
        self.unwatch(run);
        self.order_known(now, run);
        let facts = RunFacts { run: run.clone(), trigger, start: start + 1, token: None };
        self.notice(Notice::RunClaimed { facts, took: Duration::ZERO });
        self.own(now, run.clone(), ours);
        if over {
            self.settle_own(run, Decision::Missed(reason));
        }
    }

    /// The store is back. Owners of runs could not say anything either, and are heard first. A run whose deadline came
    /// while the store was away could not be taken over.
    pub(super) fn note_outage_on_watches(&mut self, now: Now) {
        for (run, watch) in self.watches.iter_mut().filter(|(_, watch)| watch.record.state == RunState::Begun) {
            let (ripe, heard) = (watch.since + watch.window(), now.boot + OWNER_RETURNS);
            if ripe < heard {
                watch.since = watch.since + heard.since(ripe);
                self.alarms.set(Topic::Watch(run.clone()), now.boot);
            }
        }
        for (run, watch) in self.watches.iter_mut().filter(|(_, watch)| watch.never_ran()) {
            let Some(job) = self.jobs.get(&run.job) else { continue };
            if job.is_too_late(now, run.scheduled_for) {
                watch.not_run_for.get_or_insert(MissedReason::StoreUnavailable);
            }
        }
    }

    /// Nobody may take it, nor say more of it than that nobody knows.
    fn note_forgotten(&mut self, run: &RunKey) {
        if let Some(watch) = self.watches.get_mut(run) {
            watch.forgotten = true;
        }
    }

    pub(super) fn unwatch(&mut self, run: &RunKey) {
        self.watches.remove(run);
        self.alarms.clear(&Topic::Watch(run.clone()));
    }
}
