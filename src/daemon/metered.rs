//! A store whose requests are counted and timed. It changes nothing about them.

use crate::clock::Boot;
use crate::clock::Clock;
use crate::job::Answer;
use crate::job::Gathering;
use crate::job::HistoryEntry;
use crate::job::JobName;
use crate::job::JobRecord;
use crate::job::Presence;
use crate::job::ReplicaId;
use crate::job::Step;
use crate::job::Verdict;
use crate::store::Error;
use crate::store::ErrorKind;
use crate::store::Identity;
use crate::store::Probe;
use crate::store::Store;
use crate::telemetry::metrics::Claimed;
use crate::telemetry::metrics::Metrics;
use crate::telemetry::metrics::Operation;
use crate::telemetry::metrics::Requested;
use async_trait::async_trait;
use chrono::DateTime;
use chrono::Utc;
use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

/// See the module.
pub struct Metered {
    store: Arc<dyn Store>,
    metrics: Arc<Metrics>,
    clock: Arc<dyn Clock>,
}

/// A request under way. Whoever waits may stop waiting and drop it: then nobody knows what became of it.
struct UnderWay<'a> {
    metered: &'a Metered,
    operation: Operation,
    since: Boot,
    result: Requested,
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        let took = self.metered.clock.now().boot.since(self.since);
        self.metered.metrics.requested(self.operation, self.result, took);
    }
}

/// The claims of a batch without an answer.
struct Claims<'a> {
    metrics: &'a Metrics,
    steps: &'a [Step],
}

impl Drop for Claims<'_> {
    fn drop(&mut self) {
        for job in self.steps.iter().filter_map(claimed_job) {
            self.metrics.claimed(job, Claimed::Error);
        }
    }
}

/// The job of a step that is to take a tick.
fn claimed_job(step: &Step) -> Option<&JobName> {
    match step {
        Step::Claim(claim) if claim.take => Some(&claim.run.job),
        _ => None,
    }
}

const fn result_of(verdict: &Verdict) -> Claimed {
    match verdict {
        Verdict::Won => Claimed::Won,
        Verdict::Held => Claimed::Held,
        _ => Claimed::Refused,
    }
}

impl Metered {
    /// In front of a store.
    pub fn new(store: Arc<dyn Store>, metrics: Arc<Metrics>, clock: Arc<dyn Clock>) -> Self {
        Self { store, metrics, clock }
    }

    async fn timed<T>(
        &self,
        operation: Operation,
        request: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Error> {
        let since = self.clock.now().boot;
        let mut under_way = UnderWay { metered: self, operation, since, result: Requested::Unknown };
        let result = request.await;
        under_way.result = match &result {
            Ok(_) => Requested::Ok,
            Err(error) => match error.kind {
                ErrorKind::NotSent | ErrorKind::ReadOnly => Requested::Error,
                ErrorKind::MaybeApplied | ErrorKind::NotDurable => Requested::Unknown,
                ErrorKind::Misconfigured => Requested::Refused,
            },
        };
        result
    }
}

impl fmt::Debug for Metered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Metered").field(&self.store).finish()
    }
}

#[async_trait]
impl Store for Metered {
    fn has_clock(&self) -> bool {
        self.store.has_clock()
    }

    fn url(&self) -> &str {
        self.store.url()
    }

    async fn apply(&self, steps: &[Step]) -> Result<Vec<Answer>, Error> {
        let mut unanswered = Claims { metrics: &self.metrics, steps };
        let answers = self.timed(Operation::Apply, self.store.apply(steps)).await?;
        let answered = steps.len().min(answers.len());
        unanswered.steps = &steps[answered..];
        for (step, answer) in steps.iter().zip(&answers) {
            if let Some(job) = claimed_job(step) {
                self.metrics.claimed(job, result_of(&answer.verdict));
            }
        }
        Ok(answers)
    }

    async fn jobs(&self) -> Result<Vec<(JobName, JobRecord)>, Error> {
        self.timed(Operation::Jobs, self.store.jobs()).await
    }

    async fn history(&self, job: &JobName, most: usize) -> Result<Vec<HistoryEntry>, Error> {
        self.timed(Operation::History, self.store.history(job, most)).await
    }

    async fn server_time(&self) -> Result<DateTime<Utc>, Error> {
        self.timed(Operation::ServerTime, self.store.server_time()).await
    }

    async fn identity(&self) -> Result<Identity, Error> {
        self.timed(Operation::Identity, self.store.identity()).await
    }

    async fn probe(&self) -> Result<Probe, Error> {
        self.timed(Operation::Probe, self.store.probe()).await
    }

    async fn retire(&self, unregistered_for: Duration) -> Result<Vec<JobName>, Error> {
        self.timed(Operation::Retire, self.store.retire(unregistered_for)).await
    }

    async fn meet(&self, mine: Option<&Presence>, gone: &[Presence]) -> Result<Gathering, Error> {
        let gathering = self.timed(Operation::Meet, self.store.meet(mine, gone)).await?;
        if mine.is_some() {
            self.metrics.meeting_fails(false);
        }
        Ok(gathering)
    }

    async fn leave(&self, who: &ReplicaId) -> Result<(), Error> {
        self.timed(Operation::Leave, self.store.leave(who)).await
    }
}
