//! What one replica decides. Pure: `handle(now, event) -> effects`; no clock, socket, file, task or randomness inside,
//! and ordered maps only, so that the same events give the same effects. That is what makes simulation possible.
//!
//! ```text
//!   Woke ─► agenda.rs  due ticks ──► ticks.rs  claim ──┬─ Won ──► runs.rs  begin ─► Start ─► Ended ─► complete
//!                                                      ├─ Held ─► RunSkipped, watches.rs  looks until it is over
//!                                                      └─ nobody ─► owed.rs  settle, once per fleet: RunMissed
//!   Answered ─► outbox.rs says which topic ─► the file of that topic
//! ```
//!
//! Everything that may need a question to the store is a [`Topic`]; [`outbox`] makes batches of them.

mod agenda;
mod alarms;
mod attempts;
mod drain;
mod effect;
mod event;
mod fleet;
mod former;
mod guard;
mod leases;
mod order;
mod orders;
mod outbox;
mod owed;
mod recovery;
mod reload;
mod runs;
mod skew;
mod slots;
mod stale;
mod tables;
mod ticks;
mod unreadable;
mod watches;

#[cfg(test)]
mod tests;

pub use effect::Effect;
pub use effect::Notice;
pub use effect::RunFacts;
pub use effect::StartOrder;
pub use effect::StopCause;
pub use effect::Trouble;
pub use event::Event;
pub use event::Exit;
pub use event::RequestId;
pub use event::StoreFailure;
pub use fleet::About;
pub use outbox::Topic;
pub use tables::Disagreement;

use crate::clock::Boot;
use crate::clock::Now;
use crate::job::Answer;
use crate::job::JobName;
use crate::job::JobRecord;
use crate::job::JobTable;
use crate::job::MissedReason;
use crate::job::ReplicaId;
use crate::job::RunKey;
use crate::job::RunRecord;
use crate::job::SkipReason;
use crate::job::Step;
use crate::job::StopReason;
use crate::job::Tick;
use crate::job::Verdict;
use agenda::Job;
use alarms::Alarms;
use chrono::DateTime;
use chrono::TimeDelta;
use chrono::Utc;
use drain::Drain;
use fleet::Fleet;
use guard::Forgot;
use outbox::Change;
use outbox::Outbox;
use owed::Owed;
use runs::Run;
use skew::Skew;
use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use tables::Tables;
use ticks::Due;
use watches::Watch;

/// A step of the wall clock against the boot clock that is more than reading them takes.
const CLOCK_STEP_MS: i64 = 1000;
/// Records of a job that are further ahead of the wall clock than this, in seconds, were made by a wrong clock, or ours is.
const AHEAD_MOST: i64 = 300;
/// So many ticks of a job that this replica settled are remembered, so that none is reported twice.
const SETTLED_KEPT: usize = 200;
/// A loop that wakes later than this says so.
const LATE_MS: i64 = 1000;

/// One replica's decisions. See the module.
#[derive(Debug, Clone)]
pub struct Engine {
    me: ReplicaId,
    lease: Duration,
    skew_tolerance: Duration,
    /// Runs at once; 0: no limit.
    places: u32,
    started: Now,
    /// Wall clock minus boot clock, milliseconds, when last seen.
    clock_offset: i64,
    /// Nothing is settled before: the wall clock stepped.
    settle_from: Boot,
    /// Both clocks as they were last read.
    read: Now,
    /// When the answers were asked for that are, or were last, taken in.
    asked_at: Boot,
    /// How far the wall clock is from the store's.
    skew: Skew,
    /// What ticks were last judged by: the wall clock, put back where it is ahead; minus boot clock, milliseconds.
    judged_offset: i64,
    fleet: Fleet,
    tables: Tables,
    jobs: BTreeMap<JobName, Job>,
    /// When runs are due, milliseconds of the wall clock.
    agenda: BTreeSet<(i64, JobName)>,
    audits: BTreeSet<(i64, JobName)>,
    ticks: BTreeMap<RunKey, Due>,
    /// Ticks that nobody has and that this replica has no place for, in its order.
    without_place: BTreeSet<(u64, RunKey)>,
    runs: BTreeMap<RunKey, Run>,
    watches: BTreeMap<RunKey, Watch>,
    /// Claims under way that take a place when they are won.
    taking: BTreeSet<RunKey>,
    owed: BTreeMap<RunKey, Owed>,
    /// Runs whose stop is to be asked for.
    stops: BTreeMap<RunKey, StopReason>,
    outbox: Outbox,
    alarms: Alarms,
    drain: Option<Drain>,
    /// What the store, or one of its servers, was found to be instead of what it was, by the batch of answers in hand.
    new_identities: BTreeSet<String>,
    /// Jobs that this replica has said to be stale, also such as have left the table since: since when there was no success.
    said_stale: BTreeMap<JobName, i64>,
    /// What answers have told of forgotten records, and was not said yet.
    forgot: Option<Forgot>,
    /// When all jobs were registered again last for that.
    loss_heeded: Option<Boot>,
    /// Meetings since anything was heard of a job.
    unheard: u32,
    /// The latest request that failed did so since the store's replicas did not confirm it.
    not_durable: bool,
    /// Numbers begin requests.
    requests: u64,
    effects: Vec<Effect>,
}

/// When to wake the engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WakeAt {
    /// By the wall clock, for ticks.
    pub wall: Option<DateTime<Utc>>,
    /// By the boot clock, for everything else.
    pub boot: Option<Boot>,
}

impl Engine {
    /// An engine that starts now, with a table. Its first effects come with the first event.
    pub fn new(me: ReplicaId, table: &JobTable, now: Now) -> Self {
        let mut engine = Self {
            lease: table.scheduler.lock_lease,
            skew_tolerance: table.scheduler.clock_skew_tolerance,
            places: table.scheduler.max_concurrent_runs,
            started: now,
            clock_offset: offset(now),
            settle_from: now.boot,
            read: now,
            asked_at: now.boot,
            skew: Skew::new(table.scheduler.clock_skew_tolerance),
            judged_offset: offset(now),
            fleet: Fleet::new(table, now.boot),
            tables: Tables::default(),
            jobs: BTreeMap::new(),
            agenda: BTreeSet::new(),
            audits: BTreeSet::new(),
            ticks: BTreeMap::new(),
            without_place: BTreeSet::new(),
            runs: BTreeMap::new(),
            watches: BTreeMap::new(),
            taking: BTreeSet::new(),
            owed: BTreeMap::new(),
            stops: BTreeMap::new(),
            outbox: Outbox::new(me.clone()),
            alarms: Alarms::default(),
            drain: None,
            new_identities: BTreeSet::new(),
            said_stale: BTreeMap::new(),
            forgot: None,
            loss_heeded: None,
            unheard: 0,
            not_durable: false,
            requests: 0,
            effects: Vec::new(),
            me,
        };
        for spec in &table.jobs {
            engine.add_job(Arc::clone(spec), now);
        }
        engine
    }

    /// The same, under another program's version or zone data.
    pub fn introduced_as(mut self, about: About) -> Self {
        self.fleet.about = about;
        self
    }

    /// The same, on a store that has no clock: what it tells as its time is this replica's own, and says nothing of it.
    pub fn without_store_clock(mut self) -> Self {
        self.skew.without_clock();
        self
    }

    /// Takes an event and says what to do. Never fails: what cannot be is ignored.
    pub fn handle(&mut self, now: Now, event: Event) -> Vec<Effect> {
        self.read = now;
        self.watch_clock(now);
        if let Event::Met { sent, result: Ok(gathering) } = &event {
            self.store_told_time(*sent, gathering.at);
        }
        let now = self.judged(now);
        self.watch_judged_clock(now);
        match event {
            Event::Woke => {}
            Event::Met { sent, result } => self.met(now, (sent, result)),
            Event::Surveyed { result } => self.surveyed(result),
            Event::Answered { request, result } => self.answered(now, request, result),
            Event::StoreChanged => self.store_changed(),
            Event::Started { run, pid } => self.run_started(now, &run, pid),
            Event::NotStarted { run, too_late, error } => self.run_not_started(now, &run, (too_late, error)),
            Event::Ended { run, exit } => self.run_ended(now, &run, exit),
            Event::DrainAsked { timeout } => self.start_drain(now, timeout),
            Event::TableChanged(table) => self.change_table(now, &table),
            Event::StopAsked => self.start_drain(now, Duration::ZERO),
        }
        self.look_at_agenda(now);
        while let Some(topic) = self.alarms.take(now.boot) {
            self.look_at(now, &topic);
        }
        self.continue_drain(now);
        self.meet(now);
        self.flush(now);
        std::mem::take(&mut self.effects)
    }

    /// When there will be something to do, unless something else happens first.
    pub fn wake_at(&self) -> WakeAt {
        let is_over = self.drain.as_ref().is_some_and(Drain::is_over);
        let tick = self.agenda.first().map(|(due, _)| *due).filter(|_| !is_over);
        let tick = tick.and_then(DateTime::from_timestamp_millis);
        let audit = if self.drain.is_some() { None } else { self.audits.first().map(|(at, _)| *at) };
        let audit = audit.and_then(|seconds| DateTime::from_timestamp(seconds, 0));
        let drain = self.drain.as_ref().and_then(Drain::wakes);
        let meeting = self.fleet.wakes().filter(|_| !is_over);
        let ahead = TimeDelta::milliseconds(self.skew.correction_ms());
        WakeAt {
            wall: [tick, audit].into_iter().flatten().min().map(|at| at + ahead),
            boot: [self.alarms.first(), self.outbox.next_try(), drain, meeting].into_iter().flatten().min(),
        }
    }

    /// Runs that hold a place: those that begin, run or end, and not those that wait.
    pub fn running(&self) -> usize {
        self.runs.values().filter(|run| run.has_place).count()
    }

    /// All runs that this replica has claimed and not settled.
    pub fn owned(&self) -> usize {
        self.runs.len()
    }

    /// Whether a run is one of them.
    pub fn owns(&self, run: &RunKey) -> bool {
        self.runs.contains_key(run)
    }

    /// Whether something may still be said of a job's runs, also if no table has it any more: some of its ticks are waited
    /// for, run here or elsewhere, or are owed.
    pub fn has_runs_of(&self, job: &JobName) -> bool {
        let of_job = RunKey::new(job.clone(), Tick::from_seconds(i64::MIN));
        let first = [
            self.runs.range(&of_job..).next().map(|(run, _)| run),
            self.watches.range(&of_job..).next().map(|(run, _)| run),
            self.ticks.range(&of_job..).next().map(|(run, _)| run),
            self.owed.range(&of_job..).next().map(|(run, _)| run),
        ];
        first.into_iter().flatten().any(|run| run.job == *job)
    }

    /// Whether the store answered last time.
    pub fn store_is_up(&self) -> bool {
        self.outbox.is_up()
    }

    fn notice(&mut self, notice: Notice) {
        self.effects.push(Effect::Notice(notice));
    }

    /// After a step of the wall clock nothing is settled for a lease.
    fn watch_clock(&mut self, now: Now) {
        let by_ms = offset(now) - self.clock_offset;
        self.clock_offset = offset(now);
        if by_ms.abs() < CLOCK_STEP_MS {
            return;
        }
        self.notice(Notice::ClockJumped { by_ms });
        self.settle_from = now.boot + self.lease;
        self.skew_stepped(by_ms);
    }

    /// A clock that went back must not leave the agenda waiting for instants that it had seen already.
    fn watch_judged_clock(&mut self, now: Now) {
        let by_ms = offset(now) - self.judged_offset;
        self.judged_offset = offset(now);
        if by_ms <= -CLOCK_STEP_MS {
            let seconds = now.wall.timestamp();
            let ahead = |job: &Job| job.next.is_some_and(|next| next.seconds() > seconds);
            let names: Vec<JobName> =
                self.jobs.iter().filter(|(_, job)| ahead(job)).map(|(name, _)| name.clone()).collect();
            for name in names {
                self.plan(&name, seconds);
            }
        }
    }

    fn look_at(&mut self, now: Now, topic: &Topic) {
        match topic {
            Topic::Run(run) => self.look_at_run(now, run),
            Topic::Tick(run) => self.look_at_tick(now, run),
            Topic::Stale(job) => self.look_at_freshness(now, job),
            Topic::Stop(_)
            | Topic::Watch(_)
            | Topic::Look(_)
            | Topic::Owed(_)
            | Topic::Register(_)
            | Topic::Pause(_) => self.outbox.want(topic.clone()),
        }
    }

    fn answered(&mut self, now: Now, request: RequestId, result: Result<Vec<Answer>, StoreFailure>) {
        let Some(asked) = self.outbox.answered(request) else { return };
        let answers = match result {
            Ok(answers) if answers.len() == asked.topics.len() => answers,
            Ok(answers) => {
                let detail = format!("{} answers to {} steps", answers.len(), asked.topics.len());
                return self.store_failed(
                    now,
                    asked.topics,
                    StoreFailure { kind: StoreFailure::MAYBE_APPLIED, detail },
                );
            }
            Err(failure) => return self.store_failed(now, asked.topics, failure),
        };
        self.asked_at = asked.sent;
        self.outbox.widen(asked.topics.len(), now.boot);
        self.store_answers(now);
        for ((topic, step), answer) in asked.topics.into_iter().zip(asked.steps.iter()).zip(answers) {
            if let Verdict::Unreadable { format } = answer.verdict {
                self.cannot_read(now, topic, format);
                continue;
            }
            if let Verdict::Registered { fresh, .. } = answer.verdict
                && let Some(job) = self.jobs.get_mut(topic.job())
                && (fresh || answer.job.as_ref().is_some_and(|record| job.memory.is_other(record)))
            {
                job.revision = 0; // a new record, or one that lost something: what an older one said is void
            }
            self.look_for_gaps(now, topic.job(), (asked.sent, &answer));
            if let Some(job) = &answer.job {
                self.unheard = 0;
                self.learn(now, topic.job(), job);
            }
            if answer.verdict == Verdict::Unregistered {
                self.outbox.want(Topic::Register(topic.job().clone()));
            }
            let tick = answer.run.as_ref().filter(|run| !run.scheduled_for.is_manual());
            if let (Some(run), Some(job)) = (tick, self.jobs.get_mut(topic.job())) {
                job.latest_record = job.latest_record.max(run.scheduled_for.seconds());
            }
            let stops = self.stops_asked(topic.job(), &answer);
            let orders: Vec<RunRecord> = answer.open.iter().filter(|run| run.is_order()).cloned().collect();
            match &topic {
                Topic::Pause(_) => {}
                Topic::Stop(run) => self.stop_answered(now, run, &answer),
                Topic::Register(job) => self.job_registered(now, job, answer),
                Topic::Tick(run) => self.claim_answered(now, run, (step, asked.sent, answer)),
                Topic::Run(run) => self.run_answered(now, run, (step, asked.sent, answer)),
                Topic::Watch(run) => self.watch_answered(now, run, (step, answer)),
                Topic::Look(run) => self.look_answered(now, run, answer),
                Topic::Owed(run) => self.settle_answered(now, run, answer),
                Topic::Stale(job) => self.stale_answered(now, job, &answer),
            }
            for record in orders {
                self.watch(now, record.key(topic.job()), record);
            }
            for (run, asked) in stops {
                self.stop_as_asked(now, &run, asked);
            }
        }
        self.conclude_gaps(now);
    }

    /// The store has just answered.
    fn store_answers(&mut self, now: Now) {
        if let Change::Up(outage) = self.outbox.succeeded(now.boot) {
            self.notice(Notice::StoreConnected { outage });
            self.look_around(now, outage.is_some());
            self.pass_over_after_outage(now);
            self.ask_owed_after_outage();
            if outage.is_some() {
                self.note_outage_on_watches(now);
            }
            // What the store is, and what it remembers, may have changed while it was away.
            for job in self.jobs.keys().filter(|_| outage.is_some()) {
                self.outbox.want(Topic::Register(job.clone()));
            }
        }
    }

    /// No verdict: whatever was asked is asked again.
    fn store_failed(&mut self, now: Now, topics: Vec<Topic>, failure: StoreFailure) {
        if failure.kind == StoreFailure::MAYBE_APPLIED {
            self.outbox.narrow(topics.len(), now.boot);
        }
        self.not_durable = failure.kind == StoreFailure::NOT_DURABLE;
        self.store_is_silent(now, failure);
        for topic in topics {
            if let Topic::Tick(run) | Topic::Watch(run) = &topic {
                self.taking.remove(run);
                if let Some(due) = self.ticks.get_mut(run) {
                    due.store_failed = true;
                }
            }
            if let Topic::Owed(run) = &topic {
                self.settle_failed(run);
            }
            if let Topic::Run(run) = &topic
                && let Some(ours) = self.runs.get_mut(run)
            {
                ours.renew_at = now.boot; // a third of the lease later may be too late
            }
            self.outbox.want(topic);
        }
    }

    /// The store has just not answered.
    fn store_is_silent(&mut self, now: Now, StoreFailure { kind, detail }: StoreFailure) {
        if self.outbox.failed(now.boot) == Change::Down {
            self.notice(Notice::StoreLost { kind, detail });
        }
    }

    /// Why nothing was heard of the store in time.
    const fn unheard(&self) -> (SkipReason, MissedReason) {
        if self.not_durable {
            (SkipReason::NotDurable, MissedReason::NotDurable)
        } else {
            (SkipReason::StoreUnavailable, MissedReason::StoreUnavailable)
        }
    }

    /// News of a job, from any answer. An older revision says nothing new.
    fn learn(&mut self, now: Now, name: &JobName, record: &JobRecord) {
        if self.jobs.get(name).is_none_or(|job| record.revision < job.revision) {
            return;
        }
        let news = self.learn_schedules(name, record);
        let Some(job) = self.jobs.get_mut(name) else { return };
        if record.revision > job.revision {
            job.memory.heard(now);
        }
        job.revision = record.revision;
        job.last_success = record.last_success;
        (job.failures, job.missed) = (record.failures, record.missed);
        job.defined_otherwise = record.spec_hash != job.spec.spec_hash;
        let through = record.decided_through.max(record.last_begun);
        let ahead = through > now.wall.timestamp() + AHEAD_MOST;
        if ahead && !std::mem::replace(&mut job.ahead, true) {
            let through = Tick::from_seconds(through);
            self.effects.push(Effect::Notice(Notice::JobAhead { job: name.clone(), through }));
        }
        job.ahead = ahead;
        if news || job.decided_through != Some(record.decided_through) {
            job.decided_through = Some(record.decided_through);
            // Some that are decided by now stay: a store that forgets asks for them again.
            while job.settled.len() > SETTLED_KEPT
                && job.settled.first().is_some_and(|tick| tick.seconds() <= record.decided_through)
            {
                job.settled.pop_first();
            }
            self.plan_audit(now, name);
            self.pass_former(name);
        }
        self.learn_pauses(now, name, record);
        self.learn_freshness(now, name, record);
    }

    /// How long ago a run was due, by the wall clock, milliseconds.
    fn late_ms(&self, now: Now, run: &RunKey) -> i64 {
        match self.jobs.get(&run.job) {
            Some(job) => job.late_ms(now, run.scheduled_for),
            None => now.wall.timestamp_millis() - run.scheduled_for.millis(),
        }
    }

    fn flush(&mut self, now: Now) {
        loop {
            let topics = self.outbox.take(now.boot);
            if topics.is_empty() {
                return;
            }
            let batch: Vec<(Topic, Step)> =
                topics.into_iter().filter_map(|topic| self.step_for(now, &topic).map(|step| (topic, step))).collect();
            if !batch.is_empty() {
                let effect = self.outbox.send(batch, now.boot);
                self.effects.push(effect);
            }
        }
    }

    /// What has to be asked about a topic now, if anything.
    fn step_for(&mut self, now: Now, topic: &Topic) -> Option<Step> {
        match topic {
            Topic::Stop(run) => self.stop_step(run),
            Topic::Register(job) => self.register_step(now, job),
            Topic::Pause(job) => self.pause_step(job),
            Topic::Tick(run) => self.claim_step(now, run),
            Topic::Run(run) => self.run_step(now, run),
            Topic::Watch(run) => self.watch_step(now, run),
            Topic::Look(run) => self.look_step(run),
            Topic::Owed(run) => self.settle_step(now, run),
            Topic::Stale(job) => self.stale_step(now, job),
        }
    }

    /// How many more runs this replica may claim now.
    fn free_places(&self) -> u32 {
        if self.places == 0 {
            return u32::MAX;
        }
        let used = u32::try_from(self.running() + self.taking.len()).unwrap_or(u32::MAX);
        self.places.saturating_sub(used)
    }
}

impl Topic {
    fn job(&self) -> &JobName {
        match self {
            Self::Register(job) | Self::Pause(job) | Self::Stale(job) => job,
            Self::Run(run)
            | Self::Stop(run)
            | Self::Tick(run)
            | Self::Watch(run)
            | Self::Look(run)
            | Self::Owed(run) => &run.job,
        }
    }
}

fn offset(now: Now) -> i64 {
    now.wall.timestamp_millis() - i64::try_from(now.boot.nanos() / 1_000_000).unwrap_or(i64::MAX)
}
