//! Which ticks are due, and which of the past nobody decided.
//!
//! Invariant: the next tick is computed from the last one, never from now, and it moves on before the claim is sent.
//! The other way round a late wake-up would lose ticks, and a store outage would ask for the same one at every wake-up.

use super::Engine;
use super::LATE_MS;
use super::Notice;
use super::Topic;
use super::guard::Memory;
use super::guard::silence;
use super::owed::Owed;
use crate::clock::Now;
use crate::job::Answer;
use crate::job::Decision;
use crate::job::JobName;
use crate::job::JobSpec;
use crate::job::MissedReason;
use crate::job::Registration;
use crate::job::RunKey;
use crate::job::Step;
use crate::job::Tick;
use crate::job::Verdict;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

/// How many ticks of the past one look at a job takes on. What is left waits for the next look: work has a bound, the
/// future has none.
const OWED_MOST: usize = 100;
/// The audit waits so long after a starting deadline, so that a claim sent at the last moment is there first.
const AUDIT_MARGIN: Duration = Duration::from_secs(1);
/// Final records stay at least this long.
const KEEP_LEAST: Duration = Duration::from_secs(3600);

/// A job of the table, and what is known of it.
#[derive(Debug)]
pub struct Job {
    /// Its definition.
    pub spec: Arc<JobSpec>,
    /// See [`JobRecord::since`](crate::job::JobRecord::since), as last registered.
    pub since: Option<i64>,
    /// It was said that its records lie ahead of the clock.
    pub ahead: bool,
    /// Whether the store began a new history although it knew the job before.
    pub forgotten: bool,
    /// Whether the store knows it, as far as we were told.
    pub registered: bool,
    /// See [`JobRecord::revision`](crate::job::JobRecord::revision).
    pub revision: u64,
    /// See [`JobRecord::decided_through`](crate::job::JobRecord::decided_through); unknown before the first answer.
    pub decided_through: Option<i64>,
    /// See [`JobRecord::last_success`](crate::job::JobRecord::last_success).
    pub last_success: Option<Tick>,
    /// The tick that comes next, as it stands in the agenda.
    pub next: Option<Tick>,
    /// No tick lies between this instant (seconds) and `next`.
    pub previous: i64,
    /// The latest tick (seconds) that is known to have a record.
    pub latest_record: i64,
    /// Ticks above `decided_through` that this replica settled: the audit may ask again, to advance, and the store
    /// answers a repeated settlement as it did the first time.
    pub settled: BTreeSet<Tick>,
    /// When the audit looks at it, as it stands there.
    pub audit: Option<i64>,
    /// What is known of the store's memory.
    pub memory: Memory,
}

impl Job {
    /// The tick after an instant in seconds.
    pub fn after(&self, seconds: i64) -> Option<Tick> {
        self.spec.schedule.after(Tick::from_seconds(seconds).to_datetime()).map(Tick::from_datetime)
    }

    /// How late a tick may still start.
    pub fn starting_deadline(&self, tick: Tick) -> Duration {
        self.spec.starting_deadline_for(tick.seconds(), self.after(tick.seconds()).map(Tick::seconds))
    }

    /// When the tick is over for good, in seconds of the wall clock.
    fn audit_after(&self, tick: Tick) -> i64 {
        let wait = self.starting_deadline(tick) + AUDIT_MARGIN;
        tick.seconds() + i64::try_from(wait.as_secs()).unwrap_or(i64::MAX / 4) + 1
    }
}

impl Engine {
    pub(super) fn add_job(&mut self, spec: Arc<JobSpec>, now: Now) {
        let name = spec.name.clone();
        let job = Job {
            spec,
            since: None,
            forgotten: false,
            ahead: false,
            registered: false,
            revision: 0,
            decided_through: None,
            last_success: None,
            next: None,
            previous: 0,
            latest_record: 0,
            settled: BTreeSet::new(),
            audit: None,
            memory: Memory::default(),
        };
        self.jobs.insert(name.clone(), job);
        self.plan(&name, now.wall.timestamp());
        self.outbox.want(Topic::Register(name));
    }

    /// Puts the first tick after an instant (seconds) into the agenda.
    pub(super) fn plan(&mut self, name: &JobName, after: i64) {
        let Some(job) = self.jobs.get_mut(name) else { return };
        if let Some(next) = job.next.take() {
            self.agenda.remove(&(next, name.clone()));
        }
        job.previous = after;
        job.next = job.after(after);
        if let Some(next) = job.next {
            self.agenda.insert((next, name.clone()));
        }
    }

    /// Takes the ticks whose instant has come, and the jobs whose past is to be looked at.
    pub(super) fn look_at_agenda(&mut self, now: Now) {
        let seconds = now.wall.timestamp();
        let mut late_ms = 0;
        while self.drain.is_none()
            && let Some((tick, name)) = self.agenda.first().cloned()
            && tick.seconds() <= seconds
        {
            late_ms = late_ms.max(now.wall.timestamp_millis() - tick.millis());
            let Some(job) = self.jobs.get(&name) else { break };
            // After a suspend there may be a great many: those that are over are left to the audit, as they are when
            // no replica was up.
            let window = i64::try_from(job.starting_deadline(tick).as_secs()).unwrap_or(i64::MAX / 4);
            if tick.seconds() + window < seconds {
                let through = (seconds - window - 1).max(tick.seconds());
                self.plan(&name, through);
                self.notice(Notice::TicksPassed { job: name, first: tick, through: Tick::from_seconds(through) });
                continue;
            }
            let previous = job.previous;
            self.plan(&name, tick.seconds());
            let run = RunKey::new(name, tick);
            // The clock went back: an instant comes twice, and what is known of its tick goes on.
            if !self.ticks.contains_key(&run) && !self.runs.contains_key(&run) {
                self.tick_due(now, run, previous);
            }
        }
        if late_ms > LATE_MS {
            self.notice(Notice::TickLate { late_ms });
        }
        while self.drain.is_none()
            && let Some((at, name)) = self.audits.first().cloned()
            && at <= seconds
        {
            self.audits.remove(&(at, name.clone()));
            if let Some(job) = self.jobs.get_mut(&name) {
                job.audit = None;
            }
            self.audit(now, &name);
        }
    }

    pub(super) fn register_step(&mut self, now: Now, name: &JobName) -> Option<Step> {
        let knew = self.knew(now, name);
        let spec = &self.jobs.get(name)?.spec;
        let tick = Tick::from_seconds(self.started.wall.timestamp());
        let deadline = self.jobs.get(name)?.starting_deadline(tick);
        let keep = KEEP_LEAST.max((deadline + self.skew_tolerance) * 2);
        Some(Step::Register(Registration {
            job: name.clone(),
            schedule: spec.schedule.text().to_owned(),
            zone: spec.schedule.zone().name().to_owned(),
            spec_hash: spec.spec_hash.clone(),
            skew_tolerance_ms: millis(self.skew_tolerance),
            keep_ms: millis(keep),
            history: [spec.history.ticks, spec.history.successful, spec.history.failed],
            quiet_ms: millis(silence(self.lease, spec)).unsigned_abs(),
            knew,
        }))
    }

    pub(super) fn job_registered(&mut self, now: Now, name: &JobName, answer: Answer) {
        let Verdict::Registered { fresh, rescheduled } = answer.verdict else { return };
        let Some(record) = answer.job else { return };
        self.note_registration(now, name, &record);
        let Some(job) = self.jobs.get_mut(name) else { return };
        let first = !std::mem::replace(&mut job.registered, true);
        if job.after(record.decided_through) == job.next {
            job.previous = record.decided_through; // nothing lies between: the chain of decided ticks goes on
        }
        let known = job.since.replace(record.since);
        job.forgotten |= known.is_some_and(|since| since != record.since);
        if fresh {
            let again = known.is_some();
            self.notice(Notice::JobRegistered { job: name.clone(), since: record.since, again });
        }
        if rescheduled {
            let through = Tick::from_seconds(record.decided_through);
            self.notice(Notice::JobRescheduled { job: name.clone(), through });
        }
        for run in answer.open {
            self.watch(now, run.key(name), run);
        }
        if first && self.drain.is_none() {
            self.look_back(now, name);
        }
        let of_job = RunKey::new(name.clone(), Tick::from_seconds(i64::MIN));
        for (run, _) in self.ticks.range(of_job..).take_while(|(run, _)| run.job == *name) {
            self.outbox.want(Topic::Tick(run.clone()));
        }
        self.plan_audit(now, name);
    }

    /// A deploy at noon must not eat the noon run: ticks from before our start that are not over and not known to be
    /// decided are offered too. One that somebody has is answered `Held` or `Done`.
    fn look_back(&mut self, now: Now, name: &JobName) {
        let Some(job) = self.jobs.get(name) else { return };
        let Some(decided) = job.decided_through else { return };
        let Some(next) = job.next else { return };
        let window = i64::try_from(job.starting_deadline(next).as_secs()).unwrap_or(i64::MAX / 4);
        let mut previous = decided.max(now.wall.timestamp().saturating_sub(window));
        let mut found = Vec::new();
        while let Some(tick) = job.after(previous)
            && tick < next
            && found.len() < OWED_MOST
        {
            found.push((RunKey::new(name.clone(), tick), previous));
            previous = tick.seconds();
        }
        for (run, previous) in found {
            if !self.is_tracked(&run) {
                self.tick_due(now, run, previous);
            }
        }
    }

    fn is_tracked(&self, run: &RunKey) -> bool {
        self.ticks.contains_key(run)
            || self.runs.contains_key(run)
            || self.watches.contains_key(run)
            || self.owed.contains_key(run)
    }

    /// Sets when the audit looks at the job: when its oldest undecided tick is over.
    pub(super) fn plan_audit(&mut self, now: Now, name: &JobName) {
        let Some(job) = self.jobs.get_mut(name) else { return };
        if let Some(at) = job.audit.take() {
            self.audits.remove(&(at, name.clone()));
        }
        let oldest = job.decided_through.and_then(|decided| job.after(decided));
        if let Some(tick) = oldest {
            // A later tick has a record already: the chain was broken (a restart, a tick without a place) and is to be
            // joined again. Never at once: an audit that cannot advance must not spin.
            let soon = now.wall.timestamp() + 2;
            let broken = tick.seconds() < job.latest_record;
            let at = if broken { soon } else { job.audit_after(tick).max(soon) };
            job.audit = Some(at);
            self.audits.insert((at, name.clone()));
        }
    }

    /// Takes on the ticks that are over and that no record decides, oldest first.
    fn audit(&mut self, now: Now, name: &JobName) {
        let Some(job) = self.jobs.get(name) else { return };
        let Some(mut previous) = job.decided_through else { return };
        let mut found = Vec::new();
        while let Some(tick) = job.after(previous)
            && (job.audit_after(tick) <= now.wall.timestamp() || tick.seconds() <= job.latest_record)
            && found.len() < OWED_MOST
        {
            found.push((RunKey::new(name.clone(), tick), previous, job.starting_deadline(tick)));
            previous = tick.seconds();
        }
        for (run, previous, after) in found {
            if !self.ticks.contains_key(&run) && !self.owed.contains_key(&run) {
                self.owe(
                    run,
                    Owed { previous, after, decision: Decision::Missed(MissedReason::NoReplica), not_before: now.boot },
                );
            }
        }
        self.plan_audit(now, name);
    }
}

/// A duration in whole milliseconds.
pub(super) fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}
