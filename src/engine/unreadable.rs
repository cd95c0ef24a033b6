//! Records that this version cannot read: a newer one wrote them, or a person did. They are left as they are.
//!
//! That is one job's trouble: it is said once, its ticks are skipped here, and the store is asked again now and then.
//! Replicas that can read it go on with it, and all other jobs go on here.

use super::Engine;
use super::Notice;
use super::Topic;
use crate::clock::Now;
use std::time::Duration;

/// How soon a job is tried again.
const TRY_JOB: Duration = Duration::from_secs(60);
/// How soon a run of ours is: its lease goes on, and to lose it is noticed in time.
const TRY_RUN: Duration = Duration::from_secs(1);

impl Engine {
    /// The store has not done what was asked, since it cannot read what it needs for that.
    pub(super) fn cannot_read(&mut self, now: Now, topic: Topic, format: u32) {
        let name = topic.job();
        if let Some(job) = self.jobs.get_mut(name) {
            job.registered = false;
            if !std::mem::replace(&mut job.unreadable, true) {
                let job = name.clone();
                self.effects.push(super::Effect::Notice(Notice::JobUnreadable { job, format }));
            }
            let again = Topic::Register(name.clone());
            if !self.alarms.is_set(&again) {
                self.alarms.set(again, now.boot + TRY_JOB);
            }
        }
        match &topic {
            // The last one: learned again when the job is.
            Topic::Register(_) | Topic::Pause(_) | Topic::Stale(_) => {}
            // Asked again when the job is registered.
            Topic::Tick(run) => {
                self.taking.remove(run);
            }
            Topic::Run(_) | Topic::Stop(_) => self.alarms.set(topic, now.boot + TRY_RUN),
            Topic::Watch(run) => {
                self.taking.remove(run);
                self.alarms.set(topic, now.boot + TRY_JOB);
            }
            Topic::Look(run) => self.looked(run),
            Topic::Owed(run) => {
                self.settle_failed(run);
                self.alarms.set(topic, now.boot + TRY_JOB);
            }
        }
    }
}
