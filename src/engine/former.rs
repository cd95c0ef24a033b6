//! The schedules under which a job is and was registered, and the ticks that they owe.
//!
//! A tick is owed if the schedule that was registered at its instant names it, whatever this replica's table says. So
//! the chain of decided ticks goes along the former schedules, each up to its end, and then along the present one. This
//! replica's own schedule is the present one as long as nobody registered another; what that one owes, in this case, is
//! settled by who has it, or when it is a former one.

use super::Effect;
use super::Engine;
use super::Notice;
use super::Topic;
use super::agenda::Job;
use super::agenda::millis;
use super::owed::UNLINKED;
use crate::job::Decision;
use crate::job::Former;
use crate::job::JobName;
use crate::job::JobRecord;
use crate::job::JobSpec;
use crate::job::MissedReason;
use crate::job::SkipReason;
use crate::job::Tick;
use crate::schedule::Schedule;
use crate::schedule::Zone;

/// What is known of the schedules in a job's record.
#[derive(Debug, Clone, Default)]
pub struct Registered {
    /// See [`JobRecord::schedule`].
    pub schedule: String,
    /// See [`JobRecord::zone`].
    pub zone: String,
    /// See [`JobRecord::former`].
    pub former: Vec<Former>,
    /// The same, read; `None`: this version, with its zone data, cannot.
    read: Vec<Option<Schedule>>,
    /// Whether the present one is that of our table.
    ours: bool,
}

impl Registered {
    /// When the schedule last changed, seconds.
    pub fn changed(&self) -> i64 {
        self.former.last().map_or(i64::MIN, |former| former.until)
    }

    /// Whether the registered schedule is that of our table.
    pub const fn is_ours(&self) -> bool {
        self.ours
    }

    /// Another definition may have come into force.
    pub fn compare(&mut self, spec: &JobSpec) {
        self.ours = self.schedule == spec.schedule.record() && self.zone == spec.schedule.zone().name();
    }

    fn is_as_in(&self, record: &JobRecord) -> bool {
        self.schedule == record.schedule && self.zone == record.zone && self.former == record.former
    }

    /// The end of the schedule that was registered at an instant; `None`: of the present one.
    fn end_at(&self, seconds: i64) -> Option<i64> {
        self.former.iter().map(|former| former.until).find(|until| seconds <= *until)
    }

    /// The schedule that was registered at an instant, unless it is the present one or cannot be read.
    fn former_at(&self, seconds: i64) -> Option<&Schedule> {
        let at = self.former.iter().position(|former| seconds <= former.until)?;
        self.read[at].as_ref()
    }
}

fn read(former: &Former, name: &JobName) -> Option<Schedule> {
    Schedule::from_record(&former.schedule, &Zone::find(&former.zone).ok()?, name.as_str())
}

fn after(schedule: &Schedule, seconds: i64) -> Option<Tick> {
    schedule.after(Tick::from_seconds(seconds).to_datetime()).map(Tick::from_datetime)
}

impl Job {
    /// The first tick after an instant (seconds) that the job owes a record.
    pub fn owed_after(&self, seconds: i64) -> Option<Tick> {
        let registered = &self.registered_as;
        let mut from = seconds;
        for (former, schedule) in registered.former.iter().zip(&registered.read) {
            if former.until <= from {
                continue;
            }
            let tick = schedule.as_ref().and_then(|schedule| after(schedule, from));
            if tick.is_some_and(|tick| tick.seconds() <= former.until) {
                return tick;
            }
            from = former.until;
        }
        if registered.ours { self.after(from) } else { None }
    }

    /// The first tick after a tick by the schedule that named it.
    pub fn following(&self, tick: Tick) -> Option<Tick> {
        match self.registered_as.former_at(tick.seconds()) {
            Some(schedule) => after(schedule, tick.seconds()),
            None => self.after(tick.seconds()),
        }
    }

    /// No audit looks beyond: there the schedule changed, or the time ends.
    pub fn owed_until(&self, seconds: i64) -> i64 {
        self.registered_as.end_at(seconds + 1).unwrap_or(i64::MAX)
    }

    /// See [`Registration::passed`](crate::job::Registration::passed).
    pub fn passed(&self) -> Option<(i64, i64)> {
        let decided = self.decided_through?;
        let ends = self.registered_as.former.iter().map(|former| former.until).filter(|until| *until > decided);
        let next = self.owed_after(decided).map_or(i64::MAX, Tick::seconds);
        ends.take_while(|until| *until < next).last().map(|until| (decided, until))
    }

    /// How an owed tick ends that nobody ran. One of a former schedule that might still have been run when another was
    /// registered was taken away by that; one that was over by then was missed.
    pub fn decision_of(&self, tick: Tick) -> Decision {
        let over_at = tick.millis() + millis(self.settled_after(tick));
        match self.registered_as.end_at(tick.seconds()) {
            _ if self.spec.suspend => Decision::Skipped(SkipReason::Suspended),
            _ if self.pauses.cover(tick) => Decision::Skipped(SkipReason::Paused),
            Some(until) if over_at > until * 1000 => Decision::Skipped(SkipReason::Rescheduled),
            _ => Decision::Missed(MissedReason::NoReplica),
        }
    }

    /// What a step about one of our ticks may say of the tick before it: nothing, where our schedule is not the one that
    /// is registered, or was not.
    pub fn link(&self, previous: i64, tick: Tick) -> i64 {
        let registered = &self.registered_as;
        let alone = if tick.seconds() > registered.changed() { registered.ours } else { true };
        if alone { previous } else { UNLINKED }
    }
}

impl Engine {
    /// News of the schedules in a job's record. True if there are any.
    pub(super) fn learn_schedules(&mut self, name: &JobName, record: &JobRecord) -> bool {
        let Some(job) = self.jobs.get_mut(name) else { return false };
        if job.registered_as.is_as_in(record) {
            return false;
        }
        let before = std::mem::take(&mut job.registered_as);
        let read: Vec<_> = record.former.iter().map(|former| read(former, name)).collect();
        for (former, read) in record.former.iter().zip(&read) {
            let owes = former.until > record.decided_through;
            if read.is_none() && owes && !before.former.contains(former) {
                let (job, former) = (name.clone(), former.clone());
                self.effects.push(Effect::Notice(Notice::ScheduleUnreadable { job, former }));
            }
        }
        let (schedule, zone) = (record.schedule.clone(), record.zone.clone());
        job.registered_as = Registered { schedule, zone, former: record.former.clone(), read, ours: false };
        job.registered_as.compare(&job.spec);
        true
    }

    /// Where a former schedule owes nothing more, the next one's ticks follow: the store is told.
    pub(super) fn pass_former(&mut self, name: &JobName) {
        let Some(job) = self.jobs.get(name) else { return };
        if job.registered_as.ours && self.drain.is_none() && job.passed().is_some() {
            self.outbox.want(Topic::Register(name.clone()));
        }
    }
}
