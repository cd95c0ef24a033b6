//! What this replica does when the store may have forgotten: it registers its jobs again and says what it knew, it speaks
//! up for its own runs, and it watches the silence before runs that must not overlap begin again.
//!
//! Invariant: a run is asserted only while nobody else can have been given it: within its lease, or, before its begin,
//! within the time in which a claim is not taken over; both counted from the sending of what was last confirmed.

use super::Engine;
use super::Notice;
use super::RunFacts;
use super::Topic;
use super::agenda::Job;
use super::agenda::millis;
use super::owed::Owed;
use super::owed::UNLINKED;
use super::runs::Phase;
use super::runs::Run;
use super::watches::margin;
use crate::clock::Boot;
use crate::clock::Now;
use crate::job::Answer;
use crate::job::Decision;
use crate::job::JobName;
use crate::job::JobRecord;
use crate::job::JobSpec;
use crate::job::Knew;
use crate::job::MissedReason;
use crate::job::Outcome;
use crate::job::Reassert;
use crate::job::RunKey;
use crate::job::RunRecord;
use crate::job::RunState;
use crate::job::SkipReason;
use crate::job::Step;
use crate::job::Tick;
use crate::job::Trigger;
use crate::job::Verdict;
use std::collections::BTreeSet;
use std::time::Duration;

/// A mark that could not be reported as watched is not tried more often than this.
const MARK_PAUSE: Duration = Duration::from_secs(1);
/// All jobs are registered again for the loss of one's record not more often than this: a store that evicts loses one
/// after the other. What is lost meanwhile is heeded, and said, when it is over.
const LOSS_PAUSE: Duration = Duration::from_secs(15);
/// After so many meetings, half a minute, in which nothing was heard of any job, one is looked at.
const UNHEARD: u32 = 2;
/// A run that no job has: who looks at it is told of the job.
fn no_run() -> Tick {
    Tick::manual(0, 0)
}

/// What is known of the store's memory of a job.
#[derive(Debug, Default, Clone)]
pub struct Memory {
    /// Something that we were told is not there any more.
    doubts: bool,
    /// The registration under way says so.
    told: bool,
    /// When the job's present revision was first heard of.
    heard_at: Option<Boot>,
    /// The latest instant (seconds) through which all ticks were ever known to be decided.
    decided_through: Option<i64>,
    /// See [`JobRecord::identity`], as last registered.
    identity: String,
    /// See [`JobRecord::forgot_at`], as last registered.
    forgot_at: i64,
    /// A silence that is being watched.
    mark: Option<Mark>,
}

/// See [`JobRecord::quiet_ms`].
#[derive(Debug, Clone)]
struct Mark {
    forgot_at: i64,
    seen: Boot,
}

/// What answers tell: the store may have forgotten. Said when all jobs that may be concerned were asked about.
#[derive(Debug, Clone)]
pub struct Forgot {
    jobs: BTreeSet<JobName>,
    since: i64,
    /// When the first of them was found out.
    noticed: Boot,
    /// The other jobs are being registered again, too.
    asked_all: bool,
}

impl Memory {
    /// A newer revision of the job's record was heard of.
    pub fn heard(&mut self, now: Now) {
        self.heard_at = Some(now.boot);
    }

    /// Whether the record stands in the place of one that was lost since the last registration, whoever found that out:
    /// its revisions are not those that we know.
    pub const fn is_other(&self, record: &JobRecord) -> bool {
        self.forgot_at != record.forgot_at
    }

    /// Whether the store has forgotten something since the job was new.
    pub const fn has_gaps(&self) -> bool {
        self.forgot_at > 0
    }
}

/// How long a run of the job can go on unknown to the store: L + G + M.
pub(super) fn silence(lease: Duration, spec: &JobSpec) -> Duration {
    let grace = spec.lease_loss_grace();
    lease + grace + margin(lease, grace)
}

/// Whether the tick was recorded as one of which nobody knows.
fn is_unknown(record: &RunRecord) -> bool {
    record.outcome == Some(Outcome::Missed) && record.reason == MissedReason::StoreForgot.as_str()
}

impl Engine {
    /// The store is not what it was: all jobs are registered again.
    pub(super) fn store_changed(&mut self) {
        for job in self.jobs.keys() {
            self.outbox.want(Topic::Register(job.clone()));
        }
    }

    /// What a registration says that we knew; nothing if the job was never registered by us.
    pub(super) fn knew(&mut self, now: Now, name: &JobName) -> Option<Knew> {
        let job = self.jobs.get_mut(name)?;
        let since = job.since?;
        let memory = &mut job.memory;
        memory.told = memory.doubts;
        let watched = memory.mark.as_ref().map_or(Duration::ZERO, |mark| now.boot.since(mark.seen));
        Some(Knew {
            since,
            decided_through: memory.decided_through.unwrap_or(i64::MIN),
            schedule: job.registered_as.schedule.clone(),
            zone: job.registered_as.zone.clone(),
            former: job.registered_as.former.clone(),
            missing: memory.doubts,
            forgot_at: memory.mark.as_ref().map_or(0, |mark| mark.forgot_at),
            quiet_for_ms: millis(watched).unsigned_abs(),
        })
    }

    fn doubt(&mut self, name: &JobName) {
        if let Some(job) = self.jobs.get_mut(name) {
            job.memory.doubts = true;
            self.outbox.want(Topic::Register(name.clone()));
        }
    }

    /// Looks at a job's record for signs that the store forgot, before anything else is learnt from it.
    pub(super) fn look_for_gaps(&mut self, now: Now, name: &JobName, (sent, answer): (Boot, &Answer)) {
        let (Some(job), Some(record)) = (self.jobs.get_mut(name), &answer.job) else { return };
        let registers = matches!(answer.verdict, Verdict::Registered { .. });
        // Asked after a later revision was heard of: the store went back to an earlier state.
        let went_back =
            record.revision < job.revision && !registers && job.memory.heard_at.is_some_and(|heard| sent > heard);
        if went_back {
            job.revision = 0;
        }
        let decided = job.memory.decided_through.unwrap_or(i64::MIN);
        job.memory.decided_through = Some(decided.max(record.decided_through));
        if record.revision < job.revision || registers || answer.verdict == Verdict::Unregistered {
            return;
        }
        let unlisted = record.open.len() > answer.open.len();
        let moved = job.since.is_some_and(|since| since != record.since) || job.memory.forgot_at != record.forgot_at;
        if went_back || unlisted {
            self.doubt(name);
        } else if moved && job.registered {
            self.outbox.want(Topic::Register(name.clone()));
        }
        self.watch_silence(now, name, answer.job.as_ref());
    }

    /// Keeps count of how long a mark has been there.
    fn watch_silence(&mut self, now: Now, name: &JobName, record: Option<&JobRecord>) {
        let (Some(job), Some(record)) = (self.jobs.get_mut(name), record) else { return };
        let topic = Topic::Register(name.clone());
        if record.quiet_ms == 0 {
            if job.memory.mark.take().is_some() {
                self.alarms.clear(&topic);
            }
            return;
        }
        let lasts = Duration::from_millis(record.quiet_ms);
        let seen = match &job.memory.mark {
            Some(mark) if mark.forgot_at == record.forgot_at => mark.seen,
            _ => now.boot,
        };
        job.memory.mark = Some(Mark { forgot_at: record.forgot_at, seen });
        let at = seen + lasts + Duration::from_millis(1);
        let at = if at <= now.boot { now.boot + MARK_PAUSE } else { at };
        self.alarms.set(topic, at);
    }

    /// The job was registered: what did the store forget, and what have we to say to that?
    pub(super) fn note_registration(&mut self, now: Now, name: &JobName, record: &JobRecord) {
        let Some(job) = self.jobs.get_mut(name) else { return };
        let memory = &mut job.memory;
        if std::mem::take(&mut memory.told) {
            memory.doubts = false;
        }
        let forgot = record.forgot_at != memory.forgot_at;
        let known = !memory.identity.is_empty() || job.registered;
        memory.forgot_at = record.forgot_at;
        let identity = std::mem::replace(&mut memory.identity, record.identity.clone());
        if !identity.is_empty() && identity != record.identity {
            self.new_identities.insert(record.identity.clone());
        }
        self.watch_silence(now, name, Some(record));
        if forgot {
            if known {
                let first = || Forgot { jobs: BTreeSet::new(), since: 0, noticed: now.boot, asked_all: false };
                let forgot = self.forgot.get_or_insert_with(first);
                forgot.jobs.insert(name.clone()); // it may be registered again before that is said
                forgot.since = record.since;
            }
            self.assert_runs(now, name, record.since);
        }
    }

    /// After a batch of answers: where a job's store, or its server of several, was found to be another one, all jobs are
    /// registered again that were not with that one. Not only those of the identity that was replaced: the store may have
    /// changed twice, and each job have met another of the two. Where it is the same and has lost a job's record, it may
    /// have lost those of others, whose next ticks may be weeks away. The operator is told once, of all of them.
    pub(super) fn conclude_gaps(&mut self, now: Now) {
        let new = std::mem::take(&mut self.new_identities);
        let changed = !new.is_empty();
        let may_ask = self.loss_heeded.is_none_or(|at| now.boot.since(at) >= LOSS_PAUSE);
        let lost = self.forgot.as_mut().filter(|forgot| may_ask && !forgot.asked_all).map(|forgot| {
            forgot.asked_all = true;
            forgot.noticed
        });
        self.loss_heeded = lost.map(|_| now.boot).or(self.loss_heeded);
        let may_be_stale = |job: &Job| {
            let otherwise = changed && !new.contains(&job.memory.identity);
            job.registered && (otherwise || lost.is_some_and(|noticed| job.registered_at < noticed))
        };
        if changed || lost.is_some() {
            let stale = self.jobs.iter().filter(|(_, job)| may_be_stale(job));
            self.outbox.want_all(stale.map(|(name, _)| Topic::Register(name.clone())));
        }
        let is_asked = |forgot: &mut Forgot| forgot.asked_all && !self.outbox.registers();
        if let Some(Forgot { jobs, since, .. }) = self.forgot.take_if(is_asked) {
            self.notice(Notice::StoreForgot { jobs: jobs.len(), since });
        }
    }

    /// A store that was emptied says nothing of it by itself, and no job may have a tick for weeks. To be called at
    /// each meeting.
    pub(super) fn look_whether_it_remembers(&mut self) {
        self.unheard += 1;
        if self.jobs.is_empty() || self.unheard < UNHEARD {
            return;
        }
        let turn = usize::try_from(self.fleet.number()).unwrap_or(0) % self.jobs.len();
        if let Some((name, _)) = self.jobs.iter().nth(turn).filter(|(_, job)| job.registered) {
            self.look(RunKey::new(name.clone(), no_run()));
        }
    }

    /// One was looked at. What there is of the job is learnt from any answer.
    pub(super) fn looked_whether_it_remembers(&mut self, run: &RunKey, answer: &Answer) {
        let is_lost = run.scheduled_for == no_run() && answer.job.is_none();
        if is_lost && self.jobs.get(&run.job).is_some_and(|job| job.registered) {
            self.outbox.want(Topic::Register(run.job.clone()));
        }
    }

    fn assert_runs(&mut self, now: Now, name: &JobName, since: i64) {
        let first = RunKey::new(name.clone(), Tick::from_seconds(i64::MIN));
        let ours = self.runs.range(first..).take_while(|(run, _)| run.job == *name);
        let runs: Vec<RunKey> = ours
            .filter(|(run, ours)| run.scheduled_for.millis() <= since && self.may_assert(now, run, ours))
            .map(|(run, _)| run.clone())
            .collect();
        for run in runs {
            self.assert(now, &run);
        }
    }

    fn assert(&mut self, now: Now, run: &RunKey) {
        if let Some(ours) = self.runs.get_mut(run) {
            ours.asserting = true;
            ours.renew_at = now.boot;
            self.outbox.want(Topic::Run(run.clone()));
        }
    }

    /// Whether nobody else can have been given the run since it was last confirmed to be ours.
    fn may_assert(&self, now: Now, run: &RunKey, ours: &Run) -> bool {
        match ours.phase {
            Phase::Beginning { .. } if ours.first_start.is_none() => {
                let window = self.jobs.get(&run.job).map(|job| job.starting_deadline(run.scheduled_for));
                window.is_some_and(|window| now.boot < ours.confirmed + takeover_after(window))
            }
            Phase::Beginning { .. } | Phase::Running | Phase::Backoff(..) => {
                !ours.lease_lost && now.boot < ours.confirmed + ours.lease
            }
            Phase::Completing(_) => ours.ended_in_time,
            Phase::Abandoning | Phase::Settling(_) => false,
        }
    }

    /// The store does not know a run of ours, or does not know whether it is ours. True if that is going to be set right.
    pub(super) fn remind(&mut self, now: Now, run: &RunKey, answer: &Answer) -> bool {
        let unknown = answer.verdict == Verdict::Gone || answer.verdict == Verdict::Forgot;
        if !unknown && !answer.run.as_ref().is_some_and(is_unknown) {
            return false;
        }
        let (Some(ours), Some(job)) = (self.runs.get(run), self.jobs.get(&run.job)) else { return false };
        if ours.asserting || !self.may_assert(now, run, ours) {
            return false;
        }
        let (asserted, forgot_at) = (ours.asserted, job.memory.forgot_at);
        if job.since.is_some_and(|since| run.scheduled_for.millis() <= since) && asserted != forgot_at {
            self.assert(now, run);
        } else {
            self.doubt(&run.job);
        }
        true
    }

    pub(super) fn assert_step(&self, run: &RunKey) -> Option<Step> {
        let ours = self.runs.get(run)?;
        let job = self.jobs.get(&run.job)?;
        let (window, delay_ms) = (job.starting_deadline(run.scheduled_for), job.delay_ms(run.scheduled_for));
        let claim = self.claim_of(run, &ours.spec, (0, delay_ms, ours.trigger, window));
        Some(Step::Reassert(Reassert {
            run: run.clone(),
            owner: claim.owner,
            start: ours.start,
            number: ours.number,
            begun: ours.first_start.is_some(),
            lease_ms: millis(ours.lease).unsigned_abs(),
            grace_ms: claim.grace_ms,
            stop_grace_ms: claim.stop_grace_ms,
            takeover_ms: claim.takeover_ms,
            delay_ms: claim.delay_ms,
            exclusive: ours.is_exclusive,
            when_busy: ours.when_busy,
            // The instant that it runs for may be lost with its record.
            rerun: ours.is_rerunnable && ours.runs_for.is_none(),
            trigger: claim.trigger,
            spec_hash: claim.spec_hash,
        }))
    }

    /// The store was told of the run. Whatever it says, the run goes on from there as it would have.
    pub(super) fn asserted(&mut self, now: Now, run: &RunKey, (sent, answer): (Boot, &Answer)) -> bool {
        let forgot_at = answer.job.as_ref().map_or(0, |job| job.forgot_at);
        let Some(ours) = self.runs.get_mut(run) else { return false };
        ours.asserting = false;
        if answer.verdict == Verdict::Renewed {
            ours.asserted = forgot_at;
        }
        if matches!(ours.phase, Phase::Running | Phase::Backoff(..)) {
            return false;
        }
        if answer.verdict == Verdict::Renewed {
            ours.confirmed = ours.confirmed.max(sent);
        }
        self.look_at_run(now, run);
        true
    }

    /// What may be said of a tick that nobody ran: where the store forgot, that nobody knows.
    pub(super) fn honest(&self, run: &RunKey, decision: Decision) -> Decision {
        let Some(job) = self.jobs.get(&run.job) else { return decision };
        let forgotten = job.memory.has_gaps() && job.since.is_some_and(|since| run.scheduled_for.millis() <= since);
        let asserted = self.runs.get(run).is_some_and(|ours| ours.asserted == job.memory.forgot_at);
        if forgotten && !asserted { Decision::Missed(MissedReason::StoreForgot) } else { decision }
    }

    /// A run of another replica was open, and now there is no record of it: unless its owner speaks up, nobody knows how
    /// it ended.
    pub(super) fn forgotten_by_store(&mut self, now: Now, run: &RunKey, (record, answer): (&RunRecord, &Answer)) {
        let tick = run.scheduled_for;
        let dropped = answer.job.as_ref().is_none_or(|job| match tick.is_manual() {
            true => tick.millis() + job.keep_ms <= now.wall.timestamp_millis(),
            false => tick.seconds() <= job.floor,
        });
        let said = record.state == RunState::Lost && !record.rerun;
        let Some(job) = self.jobs.get(&run.job).filter(|_| !dropped && !said && self.drain.is_none()) else { return };
        let after = job.settled_after(run.scheduled_for);
        if job.since.is_none_or(|since| run.scheduled_for.millis() > since) {
            self.doubt(&run.job);
        }
        if tick.is_manual() {
            // No schedule owes it a record. Its owner, if there is one, may still speak up.
            let trigger = Trigger::Manual;
            let facts = RunFacts { run: run.clone(), trigger, start: record.start.max(1), token: None };
            let holder = Some(record.owner.clone());
            return self.skipped(facts, SkipReason::StoreForgot, holder, None);
        }
        let decision = Decision::Missed(MissedReason::StoreForgot);
        let lease = Duration::from_millis(record.lease_ms);
        let wait = lease + margin(lease, Duration::from_millis(record.grace_ms));
        let not_before = now.boot + wait;
        let owed = Owed { not_before, ..Owed::one(run.scheduled_for, UNLINKED, (after, decision)) };
        // It may be one up to which all is known to be decided, so it takes no part in what others owe.
        self.owed.entry(run.clone()).or_insert(owed);
        self.alarms.set(Topic::Owed(run.clone()), not_before);
    }
}

impl Engine {
    /// A claim of ours is gone, and too old to be asserted.
    pub(super) fn claim_forgotten(&mut self, now: Now, run: &RunKey, answer: &Answer) {
        let lease_ms = millis(self.lease).unsigned_abs();
        let record = RunRecord { lease_ms, ..RunRecord::claimed(run.scheduled_for, &self.me) };
        self.forgotten_by_store(now, run, (&record, answer));
    }
}

/// How long a claim may wait for its begin before others may take it over.
pub(super) fn takeover_after(window: Duration) -> Duration {
    (window / 4).min(Duration::from_secs(5))
}
