//! Jobs that had no success for as long as their `staleAfter`. Each replica looks when that may be so by what it knows; the
//! job's record says whether it is, and which replica says so: the first that calls it stale there.

use super::Engine;
use super::Notice;
use super::Topic;
use crate::clock::Now;
use crate::job::Answer;
use crate::job::JobName;
use crate::job::JobRecord;
use crate::job::ReplicaId;
use crate::job::Step;
use crate::job::Tick;
use crate::job::Verdict;
use std::time::Duration;

/// It is looked again so often at least: the wall clock may be set.
const LOOK_AGAIN: Duration = Duration::from_secs(3600);
/// And so soon where the record was another than it is known to be.
const ASK_AGAIN: Duration = Duration::from_secs(15);

/// What a job's record says of when it is stale.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Freshness {
    last_success: Option<Tick>,
    since: i64,
    fresh_at: i64,
    /// See [`Stale::fresh_at`](crate::job::Stale::fresh_at).
    called: Option<i64>,
    /// Whether it was this replica that called it so.
    by_me: bool,
}

impl Freshness {
    fn of(record: &JobRecord, me: &ReplicaId) -> Self {
        let called = record.stale.as_ref().map(|stale| stale.fresh_at);
        let by_me = record.stale.as_ref().is_some_and(|stale| stale.by == *me);
        Self { last_success: record.last_success, since: record.since, fresh_at: record.fresh_at(), called, by_me }
    }

    /// Since when there is no success, if it was called stale for that.
    pub fn stale_since(&self) -> Option<i64> {
        self.called.filter(|since| *since == self.fresh_at)
    }

    fn is_called(&self) -> bool {
        self.stale_since().is_some()
    }
}

impl Engine {
    pub(super) fn learn_freshness(&mut self, now: Now, name: &JobName, record: &JobRecord) {
        let found = Some(Freshness::of(record, &self.me));
        let Some(job) = self.jobs.get_mut(name).filter(|job| job.freshness != found) else { return };
        job.freshness = found;
        if found.is_some_and(|found| self.said_stale.get(name).is_some_and(|said| *said != found.fresh_at)) {
            self.said_stale.remove(name); // what it was called stale for is over
        }
        self.look_at_freshness(now, name);
    }

    /// Sets the alarm of a job anew, or asks.
    pub(super) fn look_at_freshness(&mut self, now: Now, name: &JobName) {
        let topic = Topic::Stale(name.clone());
        let Some((_, stale_at)) = self.stale_at(name) else { return self.alarms.clear(&topic) };
        let left_ms = u64::try_from(stale_at - now.wall.timestamp_millis()).unwrap_or(0);
        let at = (now.boot + LOOK_AGAIN.min(Duration::from_millis(left_ms))).max(self.settle_from);
        if at > now.boot {
            return self.alarms.set(topic, at);
        }
        self.alarms.clear(&topic);
        self.outbox.want(topic);
    }

    /// When the job is stale, milliseconds of the wall clock, unless it was called so. One that this replica has called so
    /// without hearing of it, since the reply was lost, is called once more: nobody else says it.
    fn stale_at(&self, name: &JobName) -> Option<(Freshness, i64)> {
        let job = self.jobs.get(name).filter(|job| !job.spec.suspend && self.drain.is_none())?;
        let is_unsaid =
            |freshness: &Freshness| freshness.by_me && self.said_stale.get(name) != Some(&freshness.fresh_at);
        let freshness = job.freshness.filter(|freshness| !freshness.is_called() || is_unsaid(freshness))?;
        let after = i64::try_from(job.spec.stale_after?.as_millis()).unwrap_or(i64::MAX / 4);
        Some((freshness, freshness.fresh_at + after))
    }

    pub(super) fn stale_step(&mut self, now: Now, name: &JobName) -> Option<Step> {
        let (freshness, stale_at) = self.stale_at(name)?;
        if stale_at > now.wall.timestamp_millis() {
            self.look_at_freshness(now, name);
            return None;
        }
        let Freshness { last_success, since, fresh_at, .. } = freshness;
        let after_ms = stale_at - fresh_at;
        Some(Step::CallStale { job: name.clone(), by: self.me.clone(), last_success, since, after_ms })
    }

    pub(super) fn stale_answered(&mut self, now: Now, name: &JobName, answer: &Answer) {
        let topic = Topic::Stale(name.clone());
        match answer.verdict {
            Verdict::Settled => {
                let Some(job) = self.jobs.get(name) else { return };
                let Some(freshness) = job.freshness else { return };
                if self.said_stale.insert(name.clone(), freshness.fresh_at) == Some(freshness.fresh_at) {
                    return; // asked a second time before the first answer was there
                }
                let last_success = freshness.last_success;
                let stale_after = job.spec.stale_after.unwrap_or_default();
                self.notice(Notice::JobStale { job: name.clone(), last_success, stale_after });
            }
            Verdict::TooEarly { by_ms } => {
                let wait = Duration::from_millis(by_ms.unsigned_abs() + 50).min(LOOK_AGAIN);
                self.alarms.set(topic, now.boot + wait);
            }
            // What the record says instead was learned with the answer. Where it was not, this must not become a storm.
            _ if self.stale_at(name).is_some() && !self.alarms.is_set(&topic) => {
                self.alarms.set(topic, now.boot + ASK_AGAIN);
            }
            _ => {}
        }
    }
}
