//! Runs of this replica, from the won claim to the recorded end.
//!
//! ```text
//!   Beginning ──Begun──► Running ──Ended──► Completing ──► (gone)
//!    │  ▲ waits, without   │  failed, retry left
//!    │  │ a place          ▼
//!    │  └─────────────── Backoff
//!    ├─ overlap, superseded, late ─► Settling ─► (gone)
//!    └─ drain, or the begin came too late ─► Abandoning ─► (gone)
//! ```
//!
//! Invariant: a process is started only after its begin was confirmed, and only while the lease counted from the first
//! sending of that begin lasts. A deadline counted from the reply would be later than the watchers' one.

use super::Effect;
use super::Engine;
use super::Notice;
use super::RunFacts;
use super::StartOrder;
use super::StopCause;
use super::Topic;
use super::attempts::DRAINING;
use super::attempts::LEASE_OVER;
use super::owed::UNLINKED;
use super::recovery::Before;
use super::slots::Occupant;
use super::ticks::had_by_other;
use crate::clock::Boot;
use crate::clock::Now;
use crate::job::Answer;
use crate::job::Decision;
use crate::job::Ending;
use crate::job::Expect;
use crate::job::JobSpec;
use crate::job::LostRunPolicy;
use crate::job::MissedReason;
use crate::job::Request;
use crate::job::RunKey;
use crate::job::RunRecord;
use crate::job::RunState;
use crate::job::SkipReason;
use crate::job::Step;
use crate::job::Tick;
use crate::job::Trigger;
use crate::job::Verdict;
use crate::job::WhenBusy;
use crate::job::fencing_token;
use std::sync::Arc;
use std::time::Duration;

/// Where a run of ours stands.
#[derive(Debug, Clone, PartialEq)]
pub enum Phase {
    /// A begin is to be confirmed.
    Beginning {
        /// Tells a resent begin from another.
        request: Request,
        /// When it was first sent.
        first_sent: Option<Boot>,
        /// Not again before.
        not_before: Boot,
    },
    /// The process runs, or is being started.
    Running,
    /// An attempt failed so; the next begins then.
    Backoff(Boot, Box<Ending>),
    /// It is to be given back.
    Abandoning,
    /// It is to be recorded as not run.
    Settling(Decision),
    /// Its end is to be recorded.
    Completing(Box<Ending>),
}

/// A run of ours.
#[derive(Debug, Clone)]
pub struct Run {
    /// The job as it was at the claim.
    pub spec: Arc<JobSpec>,
    /// Why it runs.
    pub trigger: Trigger,
    /// Begins so far: the number of the present attempt.
    pub start: u32,
    /// Where it stands.
    pub phase: Phase,
    /// Until when it must begin for the first time; `None`: something was started before.
    pub deadline: Option<Boot>,
    /// How long it lasts without a confirmed renewal: others go by its record, whatever table is in force by now.
    pub lease: Duration,
    /// The lease counts from here: when the last confirmed begin or renewal was sent.
    pub confirmed: Boot,
    /// When to renew.
    pub renew_at: Boot,
    /// The lease was lost: said, and acted on.
    pub lease_lost: bool,
    /// The first start here.
    pub first_start: Option<Boot>,
    /// Why it is being stopped, and when it will be killed.
    pub stop: Option<(StopCause, Boot, Duration)>,
    /// Who asked for its stop, through the store.
    pub stop_asked_by: String,
    /// KILL was sent.
    pub killed: bool,
    /// One of the replica's places is its. A run that waits for another one to end has none, and does not begin.
    pub has_place: bool,
    /// Terms of the claim: it must not overlap, whatever the table says now; so also below.
    pub is_exclusive: bool,
    /// Somebody else may start it again.
    pub is_rerunnable: bool,
    /// What it does while another run is in its way.
    pub when_busy: WhenBusy,
    /// Waits for another run so far.
    pub waits: u32,
    /// The run in the way, as last seen.
    pub occupant: Option<Occupant>,
    /// It asked for the stop of what is in its way.
    pub asked_stop: bool,
    /// Output of the last attempt.
    pub output_bytes: u64,
    /// How the last attempt failed, while the next one begins.
    pub last_failure: Option<Box<Ending>>,
    /// Why nothing was started for the last begin.
    pub unstarted: Option<String>,
    /// The latest number of its record that was heard of.
    pub number: u64,
    /// The store may have forgotten it, and is to be told.
    pub asserting: bool,
    /// The job's [`forgot_at`](crate::job::JobRecord::forgot_at) after which it was told.
    pub asserted: i64,
    /// Its begin was refused last since a forgotten run of the job may be going.
    pub quiet: bool,
    /// Its process ended while its lease lasted: nobody else can have been given the run.
    pub ended_in_time: bool,
    /// An earlier start of it was called lost.
    pub was_lost: bool,
    /// How its job stood when it succeeded.
    pub before: Option<Before>,
    /// Of a manual run, the fencing token of its last begin.
    pub token: Option<u64>,
    /// And the instant that it runs for, where the order said one.
    pub runs_for: Option<Tick>,
}

impl Run {
    /// A run whose claim was won, with so many begins behind it.
    pub fn claimed(spec: &Arc<JobSpec>, trigger: Trigger, (start, deadline): (u32, Option<Boot>)) -> Self {
        Self {
            spec: Arc::clone(spec),
            trigger,
            start,
            phase: Phase::Abandoning,
            deadline,
            lease: Duration::ZERO,
            confirmed: Boot::from_nanos(0),
            renew_at: Boot::from_nanos(0),
            lease_lost: false,
            first_start: None,
            stop: None,
            stop_asked_by: String::new(),
            killed: false,
            has_place: false,
            is_exclusive: spec.is_exclusive(),
            is_rerunnable: spec.lost_run_policy == LostRunPolicy::Rerun,
            when_busy: spec.when_busy(trigger),
            waits: 0,
            occupant: None,
            asked_stop: false,
            output_bytes: 0,
            last_failure: None,
            unstarted: None,
            number: 0,
            asserting: false,
            asserted: 0,
            quiet: false,
            ended_in_time: false,
            was_lost: false,
            before: None,
            token: None,
            runs_for: None,
        }
    }

    /// The same, under the terms that its record has: others go by those.
    pub fn under(mut self, record: Option<&RunRecord>) -> Self {
        if let Some(record) = record {
            self.lease = Duration::from_millis(record.lease_ms);
            self.is_exclusive = record.exclusive;
            self.is_rerunnable = record.rerun;
            self.when_busy = record.when_busy;
            self.runs_for = record.runs_for;
        }
        self
    }

    /// Whether it has begun and not ended: it keeps other runs of its job from beginning.
    pub fn is_going(&self) -> bool {
        matches!(self.phase, Phase::Running | Phase::Backoff(..))
    }

    /// Whether nothing was started, and something may be: here, or where it is taken when it was given back.
    pub(super) fn may_begin(&self) -> bool {
        let unstarted = self.first_start.is_none() || self.deadline.is_some();
        unstarted && matches!(self.phase, Phase::Beginning { .. } | Phase::Abandoning)
    }

    /// Whether somebody else may start it, or its job must not overlap: then it has to stop when its lease is lost.
    pub fn stops_when_lease_is_lost(&self) -> bool {
        self.is_exclusive || self.is_rerunnable
    }

    /// What lines about it say.
    pub(super) fn facts(&self, run: &RunKey) -> RunFacts {
        RunFacts { run: run.clone(), trigger: self.trigger, start: self.start.max(1), token: self.token }
    }

    /// When its `timeout` is over.
    pub(super) fn timeout_at(&self) -> Option<Boot> {
        Some(self.first_start? + self.spec.timeout?)
    }
}

impl Engine {
    /// Takes on a run whose claim was won.
    pub(super) fn own(&mut self, now: Now, run: RunKey, mut ours: Run) {
        ours.phase = self.beginning(now);
        ours.has_place = self.free_places() > 0;
        self.watches.remove(&run);
        self.alarms.clear(&Topic::Watch(run.clone()));
        self.runs.insert(run.clone(), ours);
        if self.drain.is_some() {
            self.abandon(&run);
        } else {
            self.look_at_run(now, &run);
        }
    }

    pub(super) fn beginning(&mut self, now: Now) -> Phase {
        self.requests += 1;
        Phase::Beginning { request: self.requests.to_string(), first_sent: None, not_before: now.boot }
    }

    pub(super) fn abandon(&mut self, run: &RunKey) {
        self.turn(run, Phase::Abandoning);
    }

    pub(super) fn settle_own(&mut self, run: &RunKey, decision: Decision) {
        self.turn(run, Phase::Settling(decision));
    }

    fn turn(&mut self, run: &RunKey, phase: Phase) {
        if let Some(ours) = self.runs.get_mut(run) {
            ours.phase = phase;
            self.outbox.want(Topic::Run(run.clone()));
        }
    }

    /// Does what is due for a run, and sets when to look again.
    pub(super) fn look_at_run(&mut self, now: Now, run: &RunKey) {
        let Some(ours) = self.runs.get(run) else { return };
        let topic = Topic::Run(run.clone());
        match &ours.phase {
            Phase::Beginning { not_before, first_sent, .. } => {
                // A begin that was sent in time and not answered is asked again, however late: it may be in force.
                let over = first_sent.is_none() && ours.deadline.is_some_and(|deadline| now.boot >= deadline);
                if over {
                    return self.begin_too_late(now, run);
                }
                if now.boot >= *not_before {
                    self.outbox.want(topic.clone());
                }
                let next = [Some((*not_before).max(now.boot)), ours.deadline].into_iter().flatten();
                if let Some(at) = next.filter(|at| *at > now.boot).min() {
                    self.alarms.set(topic, at);
                }
            }
            Phase::Running | Phase::Backoff(..) => self.look_at_begun_run(now, run),
            Phase::Abandoning | Phase::Settling(_) | Phase::Completing(_) => self.outbox.want(topic),
        }
    }

    /// The starting deadline passed between claim and begin.
    pub(super) fn begin_too_late(&mut self, now: Now, run: &RunKey) {
        let Some(ours) = self.runs.get(run) else { return };
        let facts = ours.facts(run);
        if ours.quiet {
            self.skipped(facts, SkipReason::StoreForgot, None, None);
            return self.settle_own(run, Decision::Missed(MissedReason::StoreForgot));
        }
        if ours.occupant.is_some() {
            return self.overlap(now, run);
        }
        let (skipped, missed) =
            if self.outbox.is_up() { (SkipReason::Late, MissedReason::Late) } else { self.unheard() };
        self.skipped(facts, skipped, None, None);
        self.settle_own(run, Decision::Missed(missed));
    }

    fn look_at_begun_run(&mut self, now: Now, run: &RunKey) {
        let Some(ours) = self.runs.get_mut(run) else { return };
        let lease = ours.lease;
        if let Phase::Backoff(until, ending) = &ours.phase
            && now.boot >= *until
        {
            ours.last_failure = Some(ending.clone());
            let phase = self.beginning(now);
            return self.turn_and_look(now, run, phase);
        }
        if now.boot >= ours.renew_at && !ours.lease_lost {
            self.outbox.want(Topic::Run(run.clone()));
        }
        if now.boot >= ours.confirmed + lease && !ours.lease_lost {
            self.lose_lease(now, run, (None, false));
        }
        let Some(ours) = self.runs.get_mut(run) else { return };
        if ours.stop.is_none() && ours.phase == Phase::Running && ours.timeout_at().is_some_and(|at| now.boot >= at) {
            let grace = ours.spec.termination_grace_period;
            self.stop(now, run, (StopCause::Timeout, grace));
        }
        let Some(ours) = self.runs.get_mut(run) else { return };
        if let Some((cause, kill_at, grace)) = ours.stop
            && now.boot >= kill_at
            && !ours.killed
        {
            ours.killed = true;
            let facts = ours.facts(run);
            self.effects.push(Effect::Kill { run: run.clone() });
            self.notice(Notice::RunKilled { facts, cause, grace });
        }
        let Some(ours) = self.runs.get(run) else { return };
        let mut next = vec![];
        if !ours.lease_lost {
            next.push(ours.renew_at);
            next.push(ours.confirmed + lease);
        }
        match ours.stop {
            None => next.extend(ours.timeout_at()),
            Some((_, kill_at, _)) if !ours.killed => next.push(kill_at),
            Some(_) => {}
        }
        if let Phase::Backoff(until, _) = &ours.phase {
            next.push(*until);
        }
        if let Some(at) = next.into_iter().filter(|at| *at > now.boot).min() {
            self.alarms.set(Topic::Run(run.clone()), at);
        }
    }

    pub(super) fn turn_and_look(&mut self, now: Now, run: &RunKey, phase: Phase) {
        if let Some(ours) = self.runs.get_mut(run) {
            ours.phase = phase;
            self.look_at_run(now, run);
        }
    }

    /// Asks a run to end. One that has been asked already may have less time left now: a timeout's grace may be long,
    /// and whoever follows a lost lease waits no longer than that one's. Its alarm is the caller's to set.
    pub(super) fn stop(&mut self, now: Now, run: &RunKey, (cause, grace): (StopCause, Duration)) {
        let Some(ours) = self.runs.get_mut(run) else { return };
        let kill_at = now.boot + grace;
        if let Some((_, earlier, asked_for)) = &mut ours.stop {
            *asked_for = asked_for.saturating_sub(earlier.since(kill_at));
            *earlier = kill_at.min(*earlier);
            return;
        }
        ours.stop = Some((cause, kill_at, grace));
        let facts = ours.facts(run);
        self.effects.push(Effect::Terminate { run: run.clone() });
        self.notice(Notice::RunStopping { facts, cause });
    }

    /// A run that is not ours any more.
    pub(super) fn let_go(&mut self, now: Now, run: &RunKey, answer: Option<&Answer>) {
        self.drop_run(now, run);
        if let Some(answer) = answer {
            if let Some(record) = answer.run.clone() {
                self.watch(now, run.clone(), record);
            }
        } else {
            // Unknown: the next registration or claim answer lists it, if it is open.
            self.outbox.want(Topic::Register(run.job.clone()));
        }
    }

    /// Whether the record is one start further and still ours: a begin whose reply was lost is in force. Nothing was
    /// started for it, and what was asked with the earlier start is to be asked with this one.
    fn begun_unheard(&mut self, run: &RunKey, answer: &Answer) -> bool {
        let Some(ours) = self.runs.get_mut(run) else { return false };
        let further = answer.run.as_ref().is_some_and(|record| {
            record.owner == self.me && record.state == RunState::Begun && record.start == ours.start + 1
        });
        if further && answer.verdict == Verdict::Fenced {
            ours.start += 1;
            self.outbox.want(Topic::Run(run.clone()));
            return true;
        }
        false
    }

    pub(super) fn drop_run(&mut self, now: Now, run: &RunKey) {
        self.runs.remove(run);
        self.alarms.clear(&Topic::Run(run.clone()));
        self.wake_waiting(now, &run.job);
        self.fill_places(now);
    }

    pub(super) fn run_step(&mut self, now: Now, run: &RunKey) -> Option<Step> {
        let owner = self.me.clone();
        if let Some(step) = self.runs.get(run)?.asserting.then(|| self.assert_step(run)).flatten() {
            let ours = self.runs.get_mut(run)?;
            ours.renew_at = now.boot + ours.lease / 3;
            return Some(step);
        }
        let settling = match self.runs.get(run)?.phase {
            Phase::Settling(decision) => Some(self.honest(run, decision)),
            _ => None,
        };
        let ours = self.runs.get_mut(run)?;
        let lease = ours.lease;
        let (start, run) = (ours.start, run.clone());
        match &mut ours.phase {
            Phase::Beginning { request, first_sent, not_before } => {
                if now.boot < *not_before {
                    return None;
                }
                if !ours.has_place {
                    return Some(Step::Wait { run, owner, start });
                }
                first_sent.get_or_insert(now.boot);
                Some(Step::Begin { run, owner, start, request: request.clone() })
            }
            Phase::Running | Phase::Backoff(..) => {
                if now.boot < ours.renew_at {
                    return None;
                }
                ours.renew_at = now.boot + lease / 3;
                Some(Step::Renew { run, owner, start })
            }
            Phase::Abandoning => Some(Step::Abandon { run, owner, start }),
            Phase::Settling(decision) => {
                *decision = settling.unwrap_or(*decision);
                let expect = Expect::Own(owner.clone());
                Some(Step::Settle { run, owner, previous: UNLINKED, expect, decision: *decision })
            }
            Phase::Completing(ending) => Some(Step::Complete { run, owner, start, ending: (**ending).clone() }),
        }
    }

    pub(super) fn run_answered(&mut self, now: Now, run: &RunKey, (step, sent, answer): (&Step, Boot, Answer)) {
        let Some(ours) = self.runs.get_mut(run) else { return };
        if let Some(record) = answer.run.as_ref().filter(|record| record.owner == self.me) {
            ours.number = ours.number.max(record.number);
        }
        match step {
            // Let go of now, the run would look as if its owner had vanished. (Where the store has lost the job as well, and
            // we do not register it, no later answer will be another one.)
            _ if answer.verdict == Verdict::Unregistered
                && !matches!(step, Step::Renew { .. })
                && (answer.job.is_some() || self.jobs.contains_key(&run.job)) =>
            {
                self.ask_when_registered(now, Topic::Run(run.clone()));
            }
            Step::Begin { .. } | Step::Wait { .. } => {
                if matches!(answer.verdict, Verdict::Busy { .. } | Verdict::Quiet) {
                    ours.confirmed = ours.confirmed.max(sent);
                }
                match step {
                    Step::Begin { .. } => self.begin_answered(now, run, answer),
                    _ => self.wait_answered(now, run, answer),
                }
            }
            Step::Reassert(_) if self.asserted(now, run, (sent, &answer)) => {}
            Step::Reassert(_) => self.renew_answered(now, run, (sent, answer)),
            Step::Renew { .. } => self.renew_answered(now, run, (sent, answer)),
            Step::Abandon { .. } | Step::Complete { .. } if self.begun_unheard(run, &answer) => {}
            Step::Complete { .. } if self.remind(now, run, &answer) => {}
            Step::Complete { .. } => self.complete_answered(now, run, &answer),
            Step::Abandon { .. } => self.given_back(now, run, answer),
            Step::Settle { decision, .. } => {
                if let (Verdict::Settled, Decision::Missed(reason)) = (answer.verdict, decision)
                    && let Some(ours) = self.runs.get(run)
                {
                    self.say_missed(now, ours.facts(run), *reason);
                }
                self.let_go(now, run, Some(&answer));
            }
            _ => {}
        }
    }

    fn begin_answered(&mut self, now: Now, run: &RunKey, answer: Answer) {
        let Some(ours) = self.runs.get(run) else { return };
        let Phase::Beginning { first_sent, .. } = &ours.phase else {
            // A drain came first: the begin that was under way must be taken back with its own start.
            if answer.verdict == Verdict::Begun
                && let Some(ours) = self.runs.get_mut(run)
            {
                ours.start += 1;
                self.outbox.want(Topic::Run(run.clone()));
            }
            return;
        };
        let first_sent = first_sent.unwrap_or(now.boot);
        match answer.verdict {
            Verdict::Begun => {
                let token = answer.run.as_ref().map_or(0, |record| record.token);
                self.begun(now, run, (first_sent, token));
            }
            _ => self.begin_refused(now, run, answer),
        }
    }

    pub(super) fn begin_refused(&mut self, now: Now, run: &RunKey, answer: Answer) {
        let Some(ours) = self.runs.get(run) else { return };
        let facts = ours.facts(run);
        let retry = ours.last_failure.is_some();
        match answer.verdict {
            Verdict::StopAsked => self.stopped_before_begin(now, run, &answer),
            _ if self.remind(now, run, &answer) => {}
            _ if retry => self.retry_refused(now, run, &answer),
            _ if self.lost_unstarted(now, run, (&answer, LEASE_OVER)) => {}
            Verdict::Busy { occupant, renewed } => self.slot_busy(now, run, (occupant, renewed, &answer)),
            Verdict::Quiet => self.wait_in_silence(now, run, &answer),
            Verdict::Superseded => {
                self.skipped(facts, SkipReason::Superseded, None, None);
                self.settle_own(run, Decision::Skipped(SkipReason::Superseded));
            }
            Verdict::Paused => {
                self.skipped(facts, SkipReason::Paused, None, None);
                self.settle_own(run, Decision::Skipped(SkipReason::Paused));
            }
            Verdict::Forgot => {
                self.skipped(facts, SkipReason::StoreForgot, None, None);
                self.settle_own(run, Decision::Missed(MissedReason::StoreForgot));
            }
            Verdict::Gone => {
                self.skipped(facts, SkipReason::StoreForgot, None, None);
                self.claim_forgotten(now, run, &answer);
                self.drop_run(now, run);
            }
            _ => {
                let holder = answer.run.as_ref().map(|record| record.owner.clone());
                let reason = answer.run.as_ref().map_or(SkipReason::ClaimedByOther, had_by_other);
                self.skipped(facts, reason, holder, None);
                self.let_go(now, run, Some(&answer));
            }
        }
    }

    fn begun(&mut self, now: Now, run: &RunKey, (first_sent, token): (Boot, u64)) {
        let last_success = self.jobs.get(&run.job).and_then(|job| job.last_success);
        let draining = self.drain.is_some();
        let Some(ours) = self.runs.get_mut(run) else { return };
        let lease = ours.lease;
        ours.start += 1;
        ours.token = run.scheduled_for.is_manual().then_some(token);
        let timed_out = ours.timeout_at().is_some_and(|at| now.boot >= at);
        if draining || timed_out || now.boot >= first_sent + lease {
            let why = match (draining, timed_out) {
                (true, _) => DRAINING,
                (false, true) => "the run's `timeout` is over",
                (false, false) => LEASE_OVER,
            };
            return self.give_back(now, run, why);
        }
        ours.phase = Phase::Running;
        ours.confirmed = first_sent;
        ours.renew_at = first_sent + lease / 3;
        ours.lease_lost = false;
        ours.first_start.get_or_insert(now.boot);
        let order = StartOrder {
            run: run.clone(),
            start: ours.start,
            token: ours.token.unwrap_or_else(|| fencing_token(run.scheduled_for, ours.start)),
            scheduled_for: ours.runs_for.unwrap_or(run.scheduled_for).second(),
            trigger: ours.trigger,
            spec: Arc::clone(&ours.spec),
            last_success,
            lease_end: first_sent + lease,
            guarded: ours.stops_when_lease_is_lost() && ours.spec.action.command().is_some(),
        };
        self.effects.push(Effect::Start(Box::new(order)));
        self.look_at_run(now, run);
    }
}
