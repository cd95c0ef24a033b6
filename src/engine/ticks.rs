//! Ticks that are due and not yet decided here: claim, or learn who has it, until the starting deadline.

use super::Engine;
use super::Notice;
use super::RunFacts;
use super::Topic;
use super::agenda::millis;
use super::guard::takeover_after;
use super::order::order;
use super::owed::Owed;
use super::owed::UNLINKED;
use super::runs::Run;
use super::slots::Occupant;
use super::watches::Watch;
use crate::clock::Boot;
use crate::clock::Now;
use crate::job::Answer;
use crate::job::CATCH_UP_MOST;
use crate::job::CatchUp;
use crate::job::Claim;
use crate::job::Decision;
use crate::job::EARLY_TOLERANCE_MS;
use crate::job::JobName;
use crate::job::JobSpec;
use crate::job::MissedReason;
use crate::job::Outcome;
use crate::job::ReplicaId;
use crate::job::RunKey;
use crate::job::RunRecord;
use crate::job::RunState;
use crate::job::SkipReason;
use crate::job::Step;
use crate::job::Tick;
use crate::job::Trigger;
use crate::job::Verdict;
use crate::job::WhenBusy;
use std::sync::Arc;
use std::time::Duration;

/// A tick less late than this is on time. Above, it is a late one, of which only the newest of a job is run.
const ON_TIME: Duration = Duration::from_secs(5);
/// How long a busy replica holds back at most, so that an idle one is first.
const HOLD_BACK_MOST: Duration = Duration::from_millis(50);
/// How soon a replica without a place looks again whether somebody has a tick; then twice as long each time, up to a
/// quarter of the lease. A place that becomes free does not wait for it.
const LOOK_AGAIN: Duration = Duration::from_millis(500);

/// How soon a tick that waits for older late ones looks again whether they are over.
const LOOK_AT_OLDER: Duration = Duration::from_millis(250);

/// A tick that is due.
#[derive(Debug, Clone)]
pub struct Due {
    /// The job as it was when the tick came.
    pub spec: Arc<JobSpec>,
    /// See [`Claim::previous`].
    pub previous: i64,
    /// How long after its tick it is due, milliseconds.
    pub delay_ms: i64,
    /// How late after that it may start.
    pub window: Duration,
    /// The end of that.
    pub deadline: Boot,
    /// No claim before.
    pub not_before: Boot,
    /// Why it would run.
    pub trigger: Trigger,
    /// The last try found no store.
    pub store_failed: bool,
    /// When it was first asked for. That claim may be in force though its reply was lost, and others count from it how long
    /// it waits for its begin: it is not renewed by asking again.
    pub first_asked: Option<Boot>,
    /// How often it was found free, and there was no place for it.
    pub looks: u32,
    /// It was ours, and given back for want of a place: only with one is it taken again.
    pub needs_place: bool,
}

impl Due {
    /// See [`Job::settled_after`](super::agenda::Job::settled_after).
    fn settled_after(&self) -> Duration {
        self.window + Duration::from_millis(self.delay_ms.unsigned_abs())
    }
}

/// Why this replica does not run what that record is of. A tick that was decided without a run is not said to be run by
/// whoever decided it.
pub(super) fn had_by_other(record: &RunRecord) -> SkipReason {
    match record.outcome {
        Some(Outcome::Missed) => SkipReason::Missed,
        Some(Outcome::Skipped) => SkipReason::parse(&record.reason).unwrap_or(SkipReason::ClaimedByOther),
        _ => SkipReason::ClaimedByOther,
    }
}

impl Engine {
    /// A tick's run is due, or was.
    pub(super) fn tick_due(&mut self, now: Now, run: RunKey, previous: i64) {
        let Some(job) = self.jobs.get(&run.job) else { return };
        let spec = Arc::clone(&job.spec);
        let window = job.starting_deadline(run.scheduled_for);
        let delay_ms = job.delay_ms(run.scheduled_for);
        let late_ms = now.wall.timestamp_millis() - run.scheduled_for.millis() - delay_ms;
        let late = Duration::from_millis(u64::try_from(late_ms).unwrap_or(0));
        // After a start, or a step of the clock, between tick and due instant.
        let due_at = now.boot + Duration::from_millis(u64::try_from(-late_ms).unwrap_or(0));
        let trigger = if late > ON_TIME { Trigger::CatchUp } else { Trigger::Schedule };
        let (policy, suspended) = (spec.catch_up, spec.suspend);
        self.show_life(now, &run);
        let due = Due {
            spec,
            previous,
            delay_ms,
            window,
            deadline: due_at + window.saturating_sub(late),
            not_before: due_at + self.hold_back(),
            trigger,
            store_failed: false,
            first_asked: None,
            looks: 0,
            needs_place: false,
        };
        // Known already from another answer, where our clock is behind: the claim tells who has it, and one of two topics
        // would be told that the other has it.
        self.unwatch(&run);
        self.ticks.insert(run.clone(), due);
        if suspended {
            return self.decide_unclaimed(now, &run, (SkipReason::Suspended, Decision::Skipped(SkipReason::Suspended)));
        }
        if self.outbox.is_up() {
            self.pass_over_older(now, &run, (false, trigger == Trigger::CatchUp));
        }
        if policy == CatchUp::None && trigger == Trigger::CatchUp {
            return self.pass_over(now, &run);
        }
        self.look_at_tick(now, &run);
    }

    /// By the job's `catchUp`: which of the ticks before this one that wait here are not run. All of them are meant after
    /// an outage; else those that are late, if this one is, too. One whose claim is under way may be ours already.
    fn pass_over_older(&mut self, now: Now, run: &RunKey, (all, late): (bool, bool)) {
        let older = RunKey::new(run.job.clone(), Tick::from_seconds(i64::MIN));
        let Some(due) = self.ticks.get(run) else { return };
        let kept = if due.spec.catch_up == CatchUp::All { CATCH_UP_MOST - 1 } else { 0 };
        let waits = |(run, due): &(&RunKey, &Due)| {
            !run.scheduled_for.is_manual()
                && (all || late && due.trigger == Trigger::CatchUp)
                && !self.taking.contains(run)
        };
        let waiting: Vec<RunKey> =
            self.ticks.range(older..run.clone()).filter(waits).map(|(run, _)| run.clone()).collect();
        for run in waiting.iter().take(waiting.len().saturating_sub(kept)) {
            self.pass_over(now, run);
        }
    }

    /// Where all late ticks are to run, one that was on time when it came, and waited, is one of them.
    fn note_late(&mut self, now: Now, run: &RunKey) {
        let is_late = self.late_ms(now, run) > millis(ON_TIME);
        if let Some(due) = self.ticks.get_mut(run).filter(|due| is_late && due.spec.catch_up == CatchUp::All) {
            due.trigger = Trigger::CatchUp;
        }
    }

    /// A run of a job that was open when it was registered. One that was given back, perhaps when all replicas were
    /// stopped, is pending like a tick that nobody had, and takes its turn among those.
    pub(super) fn found_open(&mut self, now: Now, run: RunKey, record: RunRecord) {
        let Some(job) = self.jobs.get(&run.job) else { return };
        let window = millis(job.starting_deadline(run.scheduled_for));
        let may_start = record.state == RunState::Abandoned && job.late_ms(now, run.scheduled_for) < window;
        if may_start && !run.scheduled_for.is_manual() && self.drain.is_none() && !self.is_tracked(&run) {
            self.tick_due(now, run, UNLINKED);
        } else {
            self.watch(now, run, record);
        }
    }

    /// Of the ticks from before our start, by the job's `catchUp`, those that are not run.
    pub(super) fn pass_over_found(&mut self, now: Now, job: &JobName) {
        let of_job = RunKey::new(job.clone(), Tick::from_seconds(i64::MIN));
        let newest = self.ticks.range(of_job..).take_while(|(run, _)| run.job == *job).last();
        if let Some(newest) = newest.map(|(run, _)| run.clone()) {
            self.pass_over_older(now, &newest, (true, true));
        }
    }

    /// The store is back: what became due meanwhile must not run in a burst.
    pub(super) fn pass_over_after_outage(&mut self, now: Now) {
        let all: Vec<RunKey> = self.ticks.keys().cloned().collect();
        for run in all {
            self.note_late(now, &run);
        }
        let (mut newest, mut orders): (Vec<RunKey>, Vec<RunKey>) = Default::default();
        for run in self.ticks.keys() {
            if run.scheduled_for.is_manual() {
                orders.push(run.clone());
                continue;
            }
            match newest.last_mut() {
                Some(last) if last.job == run.job => last.clone_from(run),
                _ => newest.push(run.clone()),
            }
        }
        for run in orders {
            self.look_at_tick(now, &run);
        }
        for run in newest {
            self.pass_over_older(now, &run, (true, true));
            let Some(due) = self.ticks.get(&run) else { continue };
            let late = self.late_ms(now, &run) > millis(ON_TIME);
            if due.spec.catch_up == CatchUp::None && late && !self.taking.contains(&run) {
                self.pass_over(now, &run);
            } else {
                self.look_at_tick(now, &run);
            }
        }
    }

    /// While the store does not answer, only the newest tick of a job is asked for: the first answer would otherwise
    /// win a burst of them.
    fn waits_for_store(&self, run: &RunKey) -> bool {
        let is_all = self.ticks.get(run).is_some_and(|due| due.spec.catch_up == CatchUp::All);
        if run.scheduled_for.is_manual() {
            return false;
        }
        let mut newer = self.ticks.range(run.clone()..).skip(1).filter(|(other, _)| !other.scheduled_for.is_manual());
        !self.outbox.is_up() && !is_all && newer.next().is_some_and(|(other, _)| other.job == run.job)
    }

    fn pass_over(&mut self, now: Now, run: &RunKey) {
        self.decide_unclaimed(now, run, (SkipReason::CatchUp, Decision::Missed(MissedReason::CatchUp)));
    }

    /// This tick is not claimed here; if nobody else does, it is settled so after its deadline.
    fn decide_unclaimed(&mut self, now: Now, run: &RunKey, (reason, decision): (SkipReason, Decision)) {
        let Some(due) = self.ticks.get(run) else { return };
        let owed = Owed::one(run.scheduled_for, due.previous, (due.settled_after(), decision));
        self.skip(run, reason);
        self.owe(now, run.clone(), owed);
    }

    /// Under `catchUp: All` late ticks run one at a time, oldest first, and newer ones wait for them: a tick that began
    /// before an older one would supersede it. For that reason one that is on time waits, too, while an older one is
    /// claimed and may still begin; not for one that waits in line, or to replace another, as then the policy for busy
    /// jobs decides which of them run. So do orders, whose begins keep their order. Tells the oldest it waits for.
    fn waits_for_older(&self, run: &RunKey) -> Option<&RunKey> {
        let due = self.ticks.get(run)?;
        let is_order = run.scheduled_for.is_manual();
        if !is_order && due.spec.catch_up != CatchUp::All {
            return None;
        }
        let is_late = !is_order && (due.trigger == Trigger::CatchUp || due.store_failed);
        let is_ours_ahead = |ours: &Run| {
            let is_waiting = ours.occupant.is_some() && ours.when_busy != WhenBusy::Skip;
            ours.trigger == Trigger::CatchUp || ours.may_begin() && (is_late || !is_waiting)
        };
        let is_other_ahead = |watch: &Watch| {
            watch.record.trigger == Trigger::CatchUp.as_str()
                || watch.never_ran() && (is_late || !watch.record.is_waiting())
        };
        let before = RunKey::new(run.job.clone(), Tick::from_seconds(i64::MIN))..run.clone();
        let ticks = self.ticks.range(before.clone()).map(|(run, _)| run);
        let ours = self.runs.range(before.clone()).filter(|(_, ours)| is_ours_ahead(ours)).map(|(run, _)| run);
        let others = self.watches.range(before).filter(|(_, watch)| is_other_ahead(watch)).map(|(run, _)| run);
        // Runs by hand and ticks are not in one order.
        ticks.chain(ours).chain(others).filter(|run| run.scheduled_for.is_manual() == is_order).min()
    }

    /// Waits for an older tick. One that somebody has claimed most likely began since: its record is read.
    fn wait_for_older(&mut self, now: Now, (run, older): (&RunKey, RunKey)) {
        let Some(due) = self.ticks.get(run) else { return };
        self.alarms.set(Topic::Tick(run.clone()), due.deadline.min(now.boot + LOOK_AT_OLDER));
        if self.watches.get(&older).is_some_and(Watch::never_ran) {
            self.outbox.want(Topic::Watch(older));
        }
    }

    /// A tick of a job that a run of ours keeps busy is due: whoever wins it must see that we live, or it would
    /// wait for our next renewal before it calls this an overlap.
    pub(super) fn show_life(&mut self, now: Now, run: &RunKey) {
        let older = RunKey::new(run.job.clone(), Tick::from_seconds(i64::MIN));
        if !self.jobs.get(&run.job).is_some_and(|job| job.spec.is_exclusive()) {
            return;
        }
        let held: Vec<RunKey> = self
            .runs
            .range_mut(older..run.clone())
            .filter(|(_, ours)| ours.is_going())
            .map(|(key, ours)| {
                ours.renew_at = now.boot;
                key.clone()
            })
            .collect();
        for key in held {
            self.outbox.want(Topic::Run(key));
        }
    }

    pub(super) fn hold_back(&self) -> Duration {
        let used = u32::try_from(self.running()).unwrap_or(u32::MAX);
        if self.places == 0 {
            return Duration::ZERO;
        }
        HOLD_BACK_MOST * used.min(self.places) / self.places
    }

    pub(super) fn look_at_tick(&mut self, now: Now, run: &RunKey) {
        let Some(due) = self.ticks.get(run) else { return };
        if now.boot >= due.deadline {
            return self.give_up(now, run);
        }
        let topic = Topic::Tick(run.clone());
        if now.boot < due.not_before {
            let at = due.not_before.min(due.deadline);
            return self.alarms.set(topic, at);
        }
        let deadline = due.deadline;
        if let Some(older) = self.waits_for_older(run).cloned() {
            return self.wait_for_older(now, (run, older));
        }
        self.alarms.set(topic.clone(), deadline);
        if self.jobs.get(&run.job).is_some_and(|job| job.registered) {
            self.outbox.want(topic);
        }
    }

    pub(super) fn claim_step(&mut self, now: Now, run: &RunKey) -> Option<Step> {
        self.note_late(now, run);
        // Where another run of the job is going, there is something to decide, or to wait for, that needs no place.
        let needs_place = self.ticks.get(run).is_some_and(|due| due.needs_place);
        let take = self.free_places() > 0 || (!needs_place && self.is_occupied(run));
        if let Some(older) = self.waits_for_older(run).cloned() {
            self.wait_for_older(now, (run, older));
            return None;
        }
        if self.waits_for_store(run) {
            return None; // the newest is asked for, and the others again when the store is back
        }
        let due = self.ticks.get_mut(run)?;
        if now.boot < due.not_before || now.boot >= due.deadline {
            return None;
        }
        due.store_failed = false;
        let spec = Arc::clone(&due.spec);
        let job = self.jobs.get(&run.job);
        let previous = job.map_or(due.previous, |job| job.link(due.previous, run.scheduled_for));
        let asked = (previous, due.delay_ms, due.trigger, due.window);
        self.without_place.remove(&(order(&self.me, run), run.clone()));
        if take {
            due.first_asked.get_or_insert(now.boot);
            self.taking.insert(run.clone());
        }
        Some(Step::Claim(Claim { take, ..self.claim_of(run, &spec, asked) }))
    }

    /// A claim of a run under a definition.
    pub(super) fn claim_of(
        &self,
        run: &RunKey,
        spec: &JobSpec,
        (previous, delay_ms, trigger, window): (i64, i64, Trigger, Duration),
    ) -> Claim {
        let terms = (self.lease, takeover_after(window), trigger);
        Claim { previous, delay_ms, ..Claim::of(run, &self.me, spec, terms) }
    }

    pub(super) fn claim_answered(&mut self, now: Now, run: &RunKey, (_, sent, answer): (&Step, Boot, Answer)) {
        self.taking.remove(run);
        let Some(due) = self.ticks.get_mut(run) else {
            // Given up meanwhile, and yet it is ours: it must not stay claimed.
            if answer.verdict == Verdict::Won {
                self.release_late_win(now, run, &answer);
            }
            return;
        };
        match answer.verdict {
            Verdict::Won => self.won(now, run, (sent, answer)),
            Verdict::Held | Verdict::Done => self.somebody_has_it(now, run, answer),
            Verdict::TooEarly { by_ms } => {
                let wait = Duration::from_millis(by_ms.unsigned_abs());
                due.not_before = now.boot + wait;
                // Our clock is ahead, so the deadline by our clock was, too.
                due.deadline = due.deadline.max(due.not_before + due.window);
                let store_ms = run.scheduled_for.millis() + due.delay_ms - EARLY_TOLERANCE_MS - by_ms;
                self.store_told_time(sent, store_ms);
                self.look_at_tick(now, run);
            }
            Verdict::Free => self.no_place(now, run),
            Verdict::Unregistered => {
                if let Some(job) = self.jobs.get_mut(&run.job) {
                    job.registered = false;
                }
            }
            Verdict::TooOld => {
                let schedule = &due.spec.schedule;
                let other = answer.job.as_ref().is_some_and(|job| {
                    let before = job.former.iter().any(|former| run.scheduled_for.seconds() <= former.until);
                    before || job.schedule != schedule.record() || job.zone != schedule.zone().name()
                });
                self.skip(run, if other { SkipReason::Rescheduled } else { SkipReason::Late });
            }
            Verdict::Forgot => {
                // What lies above `decided_through` is owed a record: the store had the job before.
                let owed = answer.job.as_ref().is_some_and(|job| run.scheduled_for.seconds() > job.decided_through);
                let forgotten = owed || self.jobs.get(&run.job).is_some_and(|job| job.forgotten);
                self.skip(run, if forgotten { SkipReason::StoreForgot } else { SkipReason::Baseline });
                if let Some(record) = answer.run {
                    self.watch_taken(now, run.clone(), record);
                }
            }
            Verdict::Gone => self.order_forgotten(run),
            // Nobody may have it, so nobody decides it: the audit does, for what it is.
            Verdict::Paused => {
                self.decide_unclaimed(now, run, (SkipReason::Paused, Decision::Skipped(SkipReason::Paused)));
            }
            _ => {}
        }
    }

    fn won(&mut self, now: Now, run: &RunKey, (sent, answer): (Boot, Answer)) {
        let Some(due) = self.remove_tick(run) else { return };
        let facts = RunFacts::unbegun(run, due.trigger);
        self.notice(Notice::RunClaimed { facts, took: now.boot.since(sent) });
        let start = answer.run.as_ref().map_or(0, |record| record.start);
        let ours = Run::claimed(&due.spec, due.trigger, (start, Some(due.deadline)));
        let confirmed = due.first_asked.unwrap_or(sent);
        self.own(now, run.clone(), Run { confirmed, ..ours.under(answer.run.as_ref()) });
    }

    fn release_late_win(&mut self, now: Now, run: &RunKey, answer: &Answer) {
        let Some(job) = self.jobs.get(&run.job) else { return };
        let start = answer.run.as_ref().map_or(0, |record| record.start);
        // Without a deadline: what is to be said of the tick was said when it was given up.
        let ours = Run::claimed(&job.spec, Trigger::Schedule, (start, None));
        self.own(now, run.clone(), ours.under(answer.run.as_ref()));
        if self.drain.is_some() {
            self.abandon(run);
        } else {
            self.settle_own(run, Decision::Missed(MissedReason::Late));
        }
    }

    /// A run that we had and gave back before anything was started, for want of a place or since the begin came too
    /// late: it is pending again here as on every other replica, so that this one, too, says what becomes of it.
    pub(super) fn given_back(&mut self, now: Now, run: &RunKey, answer: Answer) {
        let Some(ours) = self.runs.get(run) else { return };
        if let Some(why) = ours.unstarted.clone()
            && self.lost_unstarted(now, run, (&answer, &why))
        {
            return;
        }
        let Some(ours) = self.runs.get(run) else { return };
        let Some(deadline) = ours.deadline.filter(|_| self.drain.is_none() && !ours.lease_lost) else {
            return self.let_go(now, run, Some(&answer)); // what there is to say was said
        };
        if answer.run.is_none() {
            let facts = ours.facts(run);
            self.skipped(facts, SkipReason::StoreForgot, None, None);
            return self.let_go(now, run, Some(&answer));
        }
        let (spec, trigger) = (Arc::clone(&ours.spec), ours.trigger);
        let Some(job) = self.jobs.get(&run.job) else { return self.let_go(now, run, Some(&answer)) };
        let due = Due {
            spec,
            previous: UNLINKED,
            delay_ms: job.delay_ms(run.scheduled_for),
            window: job.starting_deadline(run.scheduled_for),
            deadline,
            not_before: now.boot,
            trigger,
            store_failed: false,
            first_asked: None,
            looks: 0,
            needs_place: true,
        };
        self.drop_run(now, run);
        self.ticks.insert(run.clone(), due);
        self.somebody_has_it(now, run, answer);
    }

    /// Nobody has it, and it was not taken here: it waits for a place.
    fn no_place(&mut self, now: Now, run: &RunKey) {
        let most = LOOK_AGAIN.max(self.lease / 4);
        let Some(due) = self.ticks.get_mut(run) else { return };
        due.not_before = now.boot + (LOOK_AGAIN * (1 << due.looks.min(8))).min(most);
        due.looks += 1;
        self.without_place.insert((order(&self.me, run), run.clone()));
        self.look_at_tick(now, run);
    }

    fn somebody_has_it(&mut self, now: Now, run: &RunKey, answer: Answer) {
        let overlapped = Occupant::of(run, &answer);
        let Some(record) = answer.run else { return };
        if record.state == RunState::Abandoned {
            // Given back: whoever looks next may have it.
            if let Some(due) = self.ticks.get_mut(run) {
                due.previous = UNLINKED;
            }
            return self.no_place(now, run);
        }
        let Some(due) = self.remove_tick(run) else { return };
        self.compare_claim(&record, &run.job);
        let facts = RunFacts::unbegun(run, due.trigger);
        let holder = Some(record.owner.clone());
        let reason = had_by_other(&record);
        match overlapped.filter(|_| reason == SkipReason::Overlap) {
            Some(occupant) => self.say_overlap(now, facts, Some(&occupant)),
            // After a step back of the clock, what is over comes again: how it ended was said.
            None if record.owner == self.me && reason == SkipReason::ClaimedByOther => {}
            None => self.skipped(facts, reason, holder, None),
        }
        if record.when_busy == WhenBusy::Replace && record.state == RunState::Claimed {
            self.expect_stop(now, run);
        }
        self.watch(now, run.clone(), record);
    }

    /// The starting deadline has come and this replica does not know that anybody has the tick.
    fn give_up(&mut self, now: Now, run: &RunKey) {
        let Some(due) = self.remove_tick(run) else { return };
        let known_free = self.without_place.remove(&(order(&self.me, run), run.clone()));
        let registered = self.jobs.get(&run.job).is_some_and(|job| job.registered);
        let unreadable = self.jobs.get(&run.job).is_some_and(|job| job.unreadable);
        let (skipped, missed) = if unreadable {
            (SkipReason::RecordUnreadable, MissedReason::StoreUnavailable)
        } else if due.store_failed || !registered || !self.outbox.is_up() {
            self.unheard()
        } else if known_free {
            (SkipReason::Saturated, MissedReason::Saturated)
        } else {
            (SkipReason::Late, MissedReason::Late)
        };
        let facts = RunFacts::unbegun(run, due.trigger);
        self.skipped(facts, skipped, None, None);
        if run.scheduled_for.is_manual() {
            return self.give_order_up(run);
        }
        if unreadable {
            return; // whoever can read it settles what nobody runs; if that is us, one day, the audit finds it
        }
        let decided = (due.settled_after(), Decision::Missed(missed));
        self.owe(now, run.clone(), Owed::one(run.scheduled_for, due.previous, decided));
    }

    pub(super) fn skip(&mut self, run: &RunKey, reason: SkipReason) {
        let Some(due) = self.remove_tick(run) else { return };
        self.without_place.remove(&(order(&self.me, run), run.clone()));
        let facts = RunFacts::unbegun(run, due.trigger);
        self.skipped(facts, reason, None, None);
    }

    pub(super) fn skipped(
        &mut self,
        facts: RunFacts,
        reason: SkipReason,
        holder: Option<ReplicaId>,
        holder_run: Option<Tick>,
    ) {
        self.notice(Notice::RunSkipped { facts, reason, holder, holder_run, age: None });
    }

    pub(super) fn remove_tick(&mut self, run: &RunKey) -> Option<Due> {
        self.alarms.clear(&Topic::Tick(run.clone()));
        self.ticks.remove(run)
    }

    /// A place is free: the ticks that waited for one, in this replica's order.
    pub(super) fn fill_places(&mut self, now: Now) {
        let free = self.free_places();
        let next: Vec<RunKey> =
            self.without_place.iter().take(free.try_into().unwrap_or(usize::MAX)).map(|(_, run)| run.clone()).collect();
        for run in next {
            if let Some(due) = self.ticks.get_mut(&run) {
                due.not_before = now.boot;
                self.outbox.want(Topic::Tick(run));
            } else {
                self.without_place.remove(&(order(&self.me, &run), run));
            }
        }
        let waiting: Vec<RunKey> =
            self.watches.iter().filter(|(_, w)| w.waits_for_place).map(|(k, _)| k.clone()).collect();
        for run in waiting {
            self.outbox.want(Topic::Watch(run));
        }
    }
}
