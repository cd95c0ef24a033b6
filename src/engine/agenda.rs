//! Which ticks are due, and which of the past nobody decided.
//!
//! Invariant: the next tick is computed from the last one, never from now, and it moves on before the claim is sent.
//! The other way round a late wake-up would lose ticks, and a store outage would ask for the same one at every wake-up.

use super::Engine;
use super::LATE_MS;
use super::Notice;
use super::RunFacts;
use super::Topic;
use super::drain::Drain;
use super::former::Registered;
use super::guard::Memory;
use super::guard::silence;
use super::orders::ORDER_WINDOW;
use super::orders::Pauses;
use super::owed::Owed;
use super::owed::SINGLES_MOST;
use super::stale::Freshness;
use crate::clock::Boot;
use crate::clock::Now;
use crate::job::Answer;
use crate::job::CATCH_UP_MOST;
use crate::job::Decision;
use crate::job::JobName;
use crate::job::JobSpec;
use crate::job::Registration;
use crate::job::RunKey;
use crate::job::SkipReason;
use crate::job::Step;
use crate::job::Tick;
use crate::job::Trigger;
use crate::job::Verdict;
use std::collections::BTreeSet;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

/// How many ticks of the past one look at a job goes through. What is left waits for the next look: work has a bound, the
/// past has none.
const LOOK_MOST: usize = 10_000;
/// The audit waits so long after a starting deadline, so that a claim sent at the last moment is there first.
const AUDIT_MARGIN: Duration = Duration::from_secs(1);
/// What a store does not do for a job that is not registered is asked again so soon where others have to register it.
const UNREGISTERED_AGAIN: Duration = Duration::from_secs(1);
/// Final records stay at least this long.
const KEEP_LEAST: Duration = Duration::from_secs(3600);

/// A job of the table, and what is known of it.
#[derive(Debug, Clone)]
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
    /// Whether the store has records of it that this version cannot read.
    pub unreadable: bool,
    /// The schedules in its record.
    pub registered_as: Registered,
    /// When this replica last registered it.
    pub registered_at: Boot,
    /// Whether it was last registered under another definition than ours.
    pub defined_otherwise: bool,
    /// See [`JobRecord::last_success`](crate::job::JobRecord::last_success).
    pub last_success: Option<Tick>,
    /// See [`JobRecord::failures`](crate::job::JobRecord::failures).
    pub failures: u32,
    /// See [`JobRecord::missed`](crate::job::JobRecord::missed).
    pub missed: u64,
    /// What is known of when it will be stale.
    pub freshness: Option<Freshness>,
    /// The tick that comes next.
    pub next: Option<Tick>,
    /// When its run is due (milliseconds of the wall clock), as it stands in the agenda.
    pub next_due: i64,
    /// No tick lies between this instant (seconds) and `next`.
    pub previous: i64,
    /// The latest tick (seconds) that is known to have a record.
    pub latest_record: i64,
    /// The newest ticks that this replica settled, and all of those above `decided_through`: the audit may ask again, to
    /// advance or since the store forgot, and the store answers a repeated settlement as it did the first time.
    pub settled: BTreeSet<Tick>,
    /// When the audit looks at it, as it stands there.
    pub audit: Option<i64>,
    /// What is known of the store's memory.
    pub memory: Memory,
    /// And of pauses.
    pub pauses: Pauses,
    /// Manual runs that were spoken of here, of the last hour.
    pub orders: BTreeSet<Tick>,
}

impl Job {
    /// The tick after an instant in seconds.
    pub fn after(&self, seconds: i64) -> Option<Tick> {
        self.spec.schedule.after(Tick::from_seconds(seconds).to_datetime()).map(Tick::from_datetime)
    }

    /// When the run of a tick is due, in milliseconds of the wall clock: at its tick, and with a jitter later.
    pub fn due_ms(&self, tick: Tick) -> i64 {
        tick.millis() + self.delay_ms(tick)
    }

    /// How long after its tick a run is due, milliseconds.
    pub fn delay_ms(&self, tick: Tick) -> i64 {
        if self.spec.jitter.is_zero() || tick.is_manual() {
            return 0; // the usual case, without a look for the tick after it
        }
        millis(self.spec.delay(tick, self.following(tick).map(Tick::seconds)))
    }

    /// How long ago the run of a tick was due, by the wall clock; negative: it is not due yet.
    pub fn late_ms(&self, now: Now, tick: Tick) -> i64 {
        now.wall.timestamp_millis() - self.due_ms(tick)
    }

    /// Whether the starting deadline of a tick is past.
    pub fn is_too_late(&self, now: Now, tick: Tick) -> bool {
        self.late_ms(now, tick) > millis(self.starting_deadline(tick))
    }

    /// How late a tick may still start, counted from when it is due.
    pub fn starting_deadline(&self, tick: Tick) -> Duration {
        match self.spec.starting_deadline {
            Some(given) => given, // without a look for the tick after it
            None if tick.is_manual() => ORDER_WINDOW,
            None => self.spec.starting_deadline_for(tick.seconds(), self.following(tick).map(Tick::seconds)),
        }
    }

    /// How long after a tick it may be settled as missed: when its starting deadline is past.
    pub fn settled_after(&self, tick: Tick) -> Duration {
        self.starting_deadline(tick) + Duration::from_millis(self.delay_ms(tick).unsigned_abs())
    }

    /// No run is due later after its tick than so many seconds.
    fn jitter_seconds(&self) -> i64 {
        i64::try_from(self.spec.jitter.as_millis().div_ceil(1000)).unwrap_or(i64::MAX / 4)
    }

    /// When the tick is over for good, in seconds of the wall clock.
    fn audit_after(&self, tick: Tick) -> i64 {
        let wait = self.starting_deadline(tick) + AUDIT_MARGIN;
        self.due_ms(tick).div_euclid(1000) + i64::try_from(wait.as_secs()).unwrap_or(i64::MAX / 4) + 2
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
            unreadable: false,
            registered_as: Registered::default(),
            registered_at: now.boot,
            defined_otherwise: false,
            last_success: None,
            failures: 0,
            missed: 0,
            freshness: None,
            next: None,
            next_due: 0,
            previous: 0,
            latest_record: 0,
            settled: BTreeSet::new(),
            audit: None,
            memory: Memory::default(),
            pauses: Pauses::default(),
            orders: BTreeSet::new(),
        };
        self.jobs.insert(name.clone(), job);
        self.plan(&name, now.wall.timestamp());
        self.outbox.want(Topic::Register(name));
    }

    /// Puts the first tick after an instant (seconds) into the agenda.
    pub(super) fn plan(&mut self, name: &JobName, after: i64) {
        let Some(job) = self.jobs.get_mut(name) else { return };
        if job.next.take().is_some() {
            self.agenda.remove(&(job.next_due, name.clone()));
        }
        job.previous = after;
        job.next = job.after(after);
        if let Some(next) = job.next {
            job.next_due = job.due_ms(next);
            self.agenda.insert((job.next_due, name.clone()));
        }
    }

    /// Takes the ticks whose instant has come, and the jobs whose past is to be looked at.
    pub(super) fn look_at_agenda(&mut self, now: Now) {
        let seconds = now.wall.timestamp();
        let mut late_ms = 0;
        while !self.drain.as_ref().is_some_and(Drain::is_over)
            && let Some((due, name)) = self.agenda.first().cloned()
            && due <= now.wall.timestamp_millis()
        {
            late_ms = late_ms.max(now.wall.timestamp_millis() - due);
            let Some(job) = self.jobs.get(&name) else { break };
            let Some(tick) = job.next else { break };
            // After a suspend there may be a great many: those that are over are left to the audit, as they are when
            // no replica was up.
            let window = i64::try_from(job.starting_deadline(tick).as_secs()).unwrap_or(i64::MAX / 4);
            if due.div_euclid(1000) + window < seconds {
                let through = (seconds - window - 1 - job.jitter_seconds()).max(tick.seconds());
                self.plan(&name, through);
                // Somebody may have claimed one of them, and died, while we were not there to hear who has it.
                self.outbox.want(Topic::Register(name.clone()));
                self.notice(Notice::TicksPassed { job: name, first: tick, through: Tick::from_seconds(through) });
                continue;
            }
            let previous = job.previous;
            self.plan(&name, tick.seconds());
            let run = RunKey::new(name, tick);
            if self.drain.is_some() {
                self.show_life(now, &run);
                self.skipped(RunFacts::unbegun(&run, Trigger::Schedule), SkipReason::Draining, None, None);
                continue;
            }
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

    /// The store, which has restarted, wants a job registered before it does anything else with it. That is under way, and
    /// this is asked again with it. A job that is not in our table is registered by others, where any have it: looked again
    /// now and then. At once, that would be without an end, as fast as the store answers.
    pub(super) fn ask_when_registered(&mut self, now: Now, topic: Topic) {
        if self.jobs.contains_key(topic.job()) {
            self.outbox.want(topic);
        } else {
            self.alarms.set(topic, now.boot + UNREGISTERED_AGAIN);
        }
    }

    pub(super) fn register_step(&mut self, now: Now, name: &JobName) -> Option<Step> {
        let knew = self.knew(now, name);
        let spec = &self.jobs.get(name)?.spec;
        let tick = Tick::from_seconds(self.started.wall.timestamp());
        let next = self.jobs.get(name)?.after(tick.seconds());
        let deadline = spec.starting_deadline_for(tick.seconds(), next.map(Tick::seconds));
        let keep = KEEP_LEAST.max((deadline + spec.jitter + self.skew_tolerance) * 2);
        Some(Step::Register(Registration {
            job: name.clone(),
            schedule: spec.schedule.record(),
            zone: spec.schedule.zone().name().to_owned(),
            spec_hash: spec.spec_hash.clone(),
            skew_tolerance_ms: millis(self.skew_tolerance),
            keep_ms: millis(keep),
            history: [spec.history.ticks, spec.history.successful, spec.history.failed],
            quiet_ms: millis(silence(self.lease, spec)).unsigned_abs(),
            passed: self.jobs.get(name)?.passed(),
            knew,
        }))
    }

    pub(super) fn job_registered(&mut self, now: Now, name: &JobName, answer: Answer) {
        let Verdict::Registered { fresh, rescheduled } = answer.verdict else { return };
        let Some(record) = answer.job else { return };
        self.note_registration(now, name, &record);
        let Some(job) = self.jobs.get_mut(name) else { return };
        job.unreadable = false;
        job.registered_at = now.boot;
        let first = !std::mem::replace(&mut job.registered, true);
        if job.owed_after(record.decided_through) == job.next {
            job.previous = record.decided_through; // nothing lies between: the chain of decided ticks goes on
        }
        let changed = Tick::from_seconds(job.registered_as.changed());
        let known = job.since.replace(record.since);
        job.forgotten |= known.is_some_and(|since| since != record.since);
        if fresh {
            let again = known.is_some();
            self.notice(Notice::JobRegistered { job: name.clone(), since: record.since, again });
            self.pause_new_job(name);
        }
        if rescheduled {
            self.notice(Notice::JobRescheduled { job: name.clone(), through: changed });
        }
        for run in answer.open {
            if first {
                self.found_open(now, run.key(name), run);
            } else {
                self.watch(now, run.key(name), run); // what there is to say of its tick was said, or it is pending
            }
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
        let window = window.saturating_add(job.jitter_seconds());
        // What a former schedule owed is not for who has the present one to run.
        let begins = decided.max(job.registered_as.changed());
        let mut previous = begins.max(now.wall.timestamp().saturating_sub(window));
        let mut found = VecDeque::new();
        for _ in 0..LOOK_MOST {
            let Some(tick) = job.after(previous).filter(|tick| *tick < next) else { break };
            found.push_back((RunKey::new(name.clone(), tick), previous));
            previous = tick.seconds();
            if found.len() > CATCH_UP_MOST {
                found.pop_front(); // the audit settles it
            }
        }
        for (run, previous) in found {
            if !self.is_tracked(&run) {
                self.tick_due(now, run, previous);
            }
        }
        self.pass_over_found(now, name);
    }

    pub(super) fn is_tracked(&self, run: &RunKey) -> bool {
        self.ticks.contains_key(run)
            || self.runs.contains_key(run)
            || self.watches.contains_key(run)
            || self.is_owed(run)
    }

    /// Sets when the audit looks at the job: when its oldest undecided tick is over.
    pub(super) fn plan_audit(&mut self, now: Now, name: &JobName) {
        let Some(job) = self.jobs.get_mut(name) else { return };
        if let Some(at) = job.audit.take() {
            self.audits.remove(&(at, name.clone()));
        }
        let oldest = job.decided_through.and_then(|decided| job.owed_after(decided));
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
        if job.unreadable {
            return; // again when it is registered
        }
        let Some(mut previous) = job.decided_through else { return };
        let until = job.owed_until(previous);
        let mut found = Vec::new();
        while let Some(tick) = job.owed_after(previous).filter(|tick| tick.seconds() <= until)
            && (job.audit_after(tick) <= now.wall.timestamp() || tick.seconds() <= job.latest_record)
            && found.len() < LOOK_MOST
        {
            found.push((RunKey::new(name.clone(), tick), previous));
            previous = tick.seconds();
        }
        // Those that end alike go together.
        let Some(decision) = found.first().map(|(run, _)| job.decision_of(run.scheduled_for)) else {
            return self.plan_audit(now, name);
        };
        found.truncate(found.iter().take_while(|(run, _)| job.decision_of(run.scheduled_for) == decision).count());
        // What the store may have forgotten ends in another way than what comes after.
        let forgotten = |run: &RunKey| job.since.is_some_and(|since| run.scheduled_for.millis() <= since);
        if job.memory.has_gaps() && found.first().is_some_and(|(run, _)| forgotten(run)) {
            found.truncate(found.iter().take_while(|(run, _)| forgotten(run)).count());
        }
        let after = |run: &RunKey| job.settled_after(run.scheduled_for);
        let free = found.iter().take_while(|(run, _)| !self.ticks.contains_key(run) && !self.is_owed(run)).count();
        let is_told = decision == Decision::Skipped(SkipReason::Rescheduled); // each by itself
        if found.len() <= SINGLES_MOST || free <= 1 || is_told {
            let single = |(run, previous): (RunKey, i64)| {
                let owed = Owed::one(run.scheduled_for, previous, (after(&run), decision));
                (run, owed)
            };
            let singles: Vec<_> = found.into_iter().take(SINGLES_MOST).map(single).collect();
            for (run, owed) in singles {
                if !self.ticks.contains_key(&run) && !self.is_owed(&run) {
                    self.owe(now, run, owed);
                }
            }
        } else {
            let ((first, previous), last) = (&found[0], &found[free - 1].0);
            // Each tick has a deadline of its own, and they are hardly ever apart by more than the default's range.
            let latest = found[..free].iter().map(|(run, _)| run.scheduled_for.millis() + millis(after(run))).max();
            let wait = latest.unwrap_or(0) - last.scheduled_for.millis();
            let wait = Duration::from_millis(wait.unsigned_abs());
            let one = Owed::one(first.scheduled_for, *previous, (wait, decision));
            let owed = Owed { count: free.try_into().unwrap_or(u64::MAX), ..one };
            self.owe(now, last.clone(), owed);
        }
        self.plan_audit(now, name);
    }

    /// Whether the tick is to be settled already, by itself or in a range.
    fn is_owed(&self, run: &RunKey) -> bool {
        let mut from_it = self.owed.range(run.clone()..);
        from_it.next().is_some_and(|(last, owed)| last.job == run.job && owed.first <= run.scheduled_for)
    }
}

/// A duration in whole milliseconds.
pub(super) fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}
