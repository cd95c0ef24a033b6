//! What people ask for through the store: runs by hand, and that nothing is started.
//!
//! A run that was ordered is due here as a tick is: whoever claims it runs it, the others say who does. It is found by
//! the name that its command left among the presences, or in any answer about its job.
//!
//! A pause stands in each job's record, so that claims and begins obey it whatever replicas know. That all jobs are
//! paused stands among the presences as well, for jobs that are registered later, and for a command that was killed
//! half-way: at each meeting, records that say otherwise than that mark are set right.
//!
//! Invariant: a record is set right only by a mark that was read after it. The other way round, a replica that met the
//! others before `resume --all` would pause the job again that was resumed since.

use super::Engine;
use super::Notice;
use super::RunFacts;
use super::Topic;
use super::agenda::Job;
use super::owed::UNLINKED;
use super::ticks::Due;
use super::ticks::had_by_other;
use crate::clock::Boot;
use crate::clock::Now;
use crate::job::JobName;
use crate::job::JobRecord;
use crate::job::Pause;
use crate::job::Presence;
use crate::job::RunKey;
use crate::job::RunRecord;
use crate::job::SkipReason;
use crate::job::Step;
use crate::job::Tick;
use crate::job::Trigger;
use std::sync::Arc;
use std::time::Duration;

/// How late an ordered run of a job without a `startingDeadline` may begin.
pub(super) const ORDER_WINDOW: Duration = Duration::from_secs(300);

/// For how long it is known that an order was spoken of: no answer is under way for so long.
const KNOWN_MS: i64 = 3_600_000;

impl Engine {
    /// A run that was ordered and that nobody has is due here from now on. False where it is none, or over, or not ours
    /// to run.
    pub(super) fn take_order(&mut self, now: Now, run: &RunKey, record: &RunRecord) -> bool {
        let Some(job) = self.jobs.get(&run.job).filter(|_| record.is_order()) else { return false };
        let window = job.starting_deadline(run.scheduled_for);
        let late = Duration::from_millis(u64::try_from(job.late_ms(now, run.scheduled_for)).unwrap_or(0));
        let forgotten = job.since.is_some_and(|since| run.scheduled_for.millis() <= since);
        if late >= window || forgotten || job.orders.contains(&run.scheduled_for) {
            return false;
        }
        let due = Due {
            spec: Arc::clone(&job.spec),
            previous: UNLINKED,
            delay_ms: 0,
            window,
            deadline: now.boot + (window - late),
            not_before: now.boot + self.hold_back(),
            trigger: Trigger::Manual,
            store_failed: false,
            looks: 0,
            first_asked: None,
            needs_place: false,
        };
        self.order_known(now, run);
        let facts = RunFacts::unbegun(run, Trigger::Manual);
        self.notice(Notice::RunRequested { facts, by: record.ordered_by.clone() });
        self.show_life(now, run);
        self.ticks.insert(run.clone(), due);
        self.look_at_tick(now, run);
        true
    }

    /// It is said once what becomes of it here. Answers that were long under way may show it as it was.
    pub(super) fn order_known(&mut self, now: Now, run: &RunKey) {
        if let Some(job) = self.jobs.get_mut(&run.job).filter(|_| run.scheduled_for.is_manual()) {
            let old = now.wall.timestamp_millis() - KNOWN_MS;
            job.orders = job.orders.split_off(&Tick::manual(old, 0));
            job.orders.insert(run.scheduled_for);
        }
    }

    /// Nobody here has a place for it, or had one in time: it ends as every run does that nobody takes.
    pub(super) fn give_order_up(&mut self, run: &RunKey) {
        self.look(run.clone());
    }

    /// The record of a run that is due here is gone: whether somebody ran it is not known.
    pub(super) fn order_forgotten(&mut self, run: &RunKey) {
        self.skip(run, SkipReason::StoreForgot);
        self.outbox.want(Topic::Register(run.job.clone()));
    }

    /// Somebody was faster than our look at an order: that is said as of a tick.
    pub(super) fn order_is_taken(&mut self, now: Now, run: &RunKey, record: &RunRecord) {
        let is_news = run.scheduled_for.is_manual() && !record.is_order() && record.stop_asked.is_none();
        let known = self.jobs.get(&run.job).is_none_or(|job| job.orders.contains(&run.scheduled_for));
        if !is_news || known {
            return;
        }
        self.order_known(now, run);
        let facts = RunFacts::unbegun(run, Trigger::Manual);
        self.notice(Notice::RunRequested { facts: facts.clone(), by: record.ordered_by.clone() });
        self.skipped(facts, had_by_other(record), Some(record.owner.clone()), None);
    }

    /// A command names what it changed: runs are looked at anyway. What it said before we were there is no news.
    pub(super) fn heed_command(&mut self, presence: &Presence, is_news: bool) {
        if presence.kind == Presence::COMMAND {
            let runs = presence.run_keys().filter(|run| is_news && !self.is_tracked(run));
            let runs: Vec<RunKey> = runs.collect();
            self.fleet.announced.extend(runs);
            let named = presence.some_jobs.iter().filter_map(|name| JobName::new(name).ok());
            let known: Vec<JobName> = named.filter(|name| self.jobs.contains_key(name)).collect();
            self.outbox.want_all(known.into_iter().map(Topic::Register));
        }
    }

    /// What a job's record says of pauses.
    pub(super) fn learn_pauses(&mut self, now: Now, name: &JobName, record: &JobRecord) {
        let Some(job) = self.jobs.get_mut(name) else { return };
        let pauses = &mut job.pauses;
        pauses.all.clone_from(&record.all_paused);
        pauses.heard = now.boot;
        let before = std::mem::replace(&mut pauses.own, record.paused.clone());
        if Pause::are_alike(before.as_ref(), record.paused.as_ref()) {
            return;
        }
        let job = name.clone();
        self.notice(match record.paused.clone() {
            Some(pause) => Notice::JobPaused { job, pause },
            None => Notice::JobResumed { job },
        });
    }

    /// The job is new to the store: nobody has paused it, nor let it go on.
    pub(super) fn pause_new_job(&mut self, name: &JobName) {
        if let Some(job) = self.jobs.get_mut(name) {
            job.pauses.heard = Boot::from_nanos(0);
            self.outbox.want(Topic::Pause(name.clone()));
        }
    }

    /// Whether all jobs are paused, as a meeting found that was asked for at that time.
    pub(super) fn learn_pause_of_all(&mut self, sent: Boot, found: Option<Pause>) {
        let before = std::mem::replace(&mut self.fleet.all_paused, found.clone());
        self.fleet.met_at = sent;
        if !Pause::are_alike(before.as_ref(), found.as_ref()) {
            self.notice(match found {
                Some(pause) => Notice::AllPaused { pause },
                None => Notice::AllResumed,
            });
        }
        let wrong: Vec<JobName> =
            self.jobs.iter().filter(|(_, job)| self.wrong_pause(job).is_some()).map(|(name, _)| name.clone()).collect();
        self.outbox.want_all(wrong.into_iter().map(Topic::Pause));
    }

    /// Sets the record of a job right, where it says otherwise than the mark that was read since.
    pub(super) fn pause_step(&self, name: &JobName) -> Option<Step> {
        let (pause, only_if) = self.wrong_pause(self.jobs.get(name)?)?;
        Some(Step::Pause { job: name.clone(), all: true, pause: pause.cloned(), only_if })
    }

    /// What its record is to say instead, and the time of the pause that it is to take away.
    fn wrong_pause(&self, job: &Job) -> Option<(Option<&Pause>, Option<i64>)> {
        if !job.registered || job.pauses.heard >= self.fleet.met_at {
            return None;
        }
        match (&self.fleet.all_paused, &job.pauses.all) {
            (Some(pause), None) => Some((Some(pause), None)),
            (None, Some(found)) => Some((None, Some(found.at))),
            _ => None,
        }
    }
}

/// What is known of the pauses of a job.
#[derive(Debug, Clone)]
pub struct Pauses {
    /// Of this one.
    own: Option<Pause>,
    /// Of all.
    all: Option<Pause>,
    /// When that was heard.
    heard: Boot,
}

impl Default for Pauses {
    fn default() -> Self {
        Self { own: None, all: None, heard: Boot::from_nanos(0) }
    }
}

impl Pauses {
    /// Whether nothing was to be started at a tick.
    pub fn cover(&self, tick: Tick) -> bool {
        [&self.own, &self.all].into_iter().flatten().any(|pause| pause.at <= tick.millis())
    }
}
