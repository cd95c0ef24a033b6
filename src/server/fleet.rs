//! What the store knows of the fleet, read at most every few seconds however many clients ask, and kept while it is away.

use super::board::Board;
use super::board::StoreState;
use crate::admin;
use crate::admin::FleetView;
use crate::admin::Refusal;
use crate::clock::Clock;
use crate::clock::Now;
use crate::job::JobName;
use crate::store::Store;
use chrono::DateTime;
use chrono::Utc;
use serde::Serialize;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;
use tokio::sync::Semaphore;
use tokio::sync::watch;
use tokio::time::timeout;

#[cfg(test)]
mod tests;

/// How many decided ticks of each job are kept.
const LATEST: usize = 10;
/// What was read is good for so long, and for ten times as long as the reading took: at most a tenth of the time is
/// spent on it.
const GOOD_FOR: Duration = Duration::from_secs(3);
/// How long a reading may take.
const READ_WITHIN: Duration = Duration::from_secs(10);
/// How long a client waits for a newer view than there is; and how long while the store is away.
const PATIENCE: Duration = Duration::from_secs(2);
const PATIENCE_AWAY: Duration = Duration::from_millis(300);
/// A view that is older is not how it is now.
const STALE_AFTER: Duration = Duration::from_secs(60);
/// Questions about one job or run are put to the store so many at once, and may wait and take so long.
const QUESTIONS: usize = 2;
const TURN_WITHIN: Duration = Duration::from_secs(3);
const ANSWER_WITHIN: Duration = Duration::from_secs(5);

/// What was seen last.
#[derive(Debug, Clone, Default)]
pub struct Seen {
    /// The fleet, where the store has told of it.
    pub view: Option<Arc<FleetView>>,
    /// When that was.
    read_at: Option<Now>,
    /// When it was tried last, and how long that took.
    tried_at: Option<Now>,
    took: Duration,
    /// Why the last try brought nothing.
    error: Option<String>,
}

/// How good it is what is shown.
#[derive(Debug, Clone, Serialize)]
pub struct Freshness {
    /// When the store told it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read_at: Option<String>,
    /// How long ago that is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub age_seconds: Option<u64>,
    /// It is not how it is now: the store cannot be read, or was not yet.
    pub stale: bool,
    /// Why.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// See the module.
pub struct Fleet {
    store: Arc<dyn Store>,
    board: Arc<Board>,
    clock: Arc<dyn Clock>,
    wanted: Notify,
    seen: watch::Sender<Seen>,
    questions: Semaphore,
}

/// Why there is no answer to a question.
#[derive(Debug)]
pub enum NoAnswer {
    /// Too many ask.
    Busy,
    /// The store has not answered in time.
    Late,
    /// What was asked about is not so.
    Refused(Refusal),
}

impl Seen {
    /// How good it is at that time.
    pub fn freshness(&self, now: Now) -> Freshness {
        let age = self.read_at.map(|read| now.boot.since(read.boot));
        let stale = self.error.is_some() || age.is_none_or(|age| age > STALE_AFTER);
        let read_at = self.read_at.map(|read| super::view::instant(read.wall));
        Freshness { read_at, age_seconds: age.map(|age| age.as_secs()), stale, error: self.error.clone() }
    }

    fn is_good(&self, now: Now) -> bool {
        let good_for = GOOD_FOR.max(self.took * 10);
        self.tried_at.is_some_and(|at| now.boot.since(at.boot) < good_for)
    }
}

impl Fleet {
    /// For a store. Nothing is read before somebody asks.
    pub fn new(store: Arc<dyn Store>, board: Arc<Board>, clock: Arc<dyn Clock>) -> Self {
        let (seen, _) = watch::channel(Seen::default());
        Self { store, board, clock, wanted: Notify::new(), seen, questions: Semaphore::new(QUESTIONS) }
    }

    /// The store's URL, without password.
    pub fn url(&self) -> &str {
        self.store.url()
    }

    /// Reads when somebody wants it. Never ends. Apart from those who want it: a client that goes away stops no reading,
    /// and a crowd of them begins one.
    pub async fn keep(self: Arc<Self>) {
        loop {
            self.wanted.notified().await;
            let begun = self.clock.now();
            if self.seen.borrow().is_good(begun) {
                continue;
            }
            let read = timeout(READ_WITHIN, admin::fleet(&*self.store, LATEST)).await;
            let now = self.clock.now();
            self.seen.send_modify(|seen| {
                seen.tried_at = Some(now);
                seen.took = now.boot.since(begun.boot);
                match read {
                    Ok(Ok(view)) => {
                        (seen.view, seen.read_at, seen.error) = (Some(Arc::new(view)), Some(now), None);
                    }
                    Ok(Err(refusal)) => seen.error = Some(refusal.to_string()),
                    Err(_) => seen.error = Some(format!("no answer within {READ_WITHIN:?}")),
                }
            });
        }
    }

    /// The newest view that can be had soon.
    pub async fn see(&self) -> Seen {
        let mut changes = self.seen.subscribe();
        let is_good = changes.borrow_and_update().is_good(self.clock.now());
        if !is_good {
            self.wanted.notify_one();
            let is_away = matches!(self.board.standing().store, StoreState::Away { .. });
            let _ = timeout(if is_away { PATIENCE_AWAY } else { PATIENCE }, changes.changed()).await;
        }
        self.seen.borrow().clone()
    }

    /// All decided ticks of a job that the store has.
    ///
    /// # Errors
    /// Why there is no answer; so also below.
    pub async fn history(&self, job: &JobName) -> Result<Vec<admin::RunView>, NoAnswer> {
        let past = self.ask(async { Ok(self.store.history(job, usize::MAX).await?) }).await?;
        Ok(past.iter().map(|entry| admin::RunView::of_history(job, entry)).collect())
    }

    /// One run.
    pub async fn run(&self, run: &crate::job::RunKey) -> Result<admin::RunView, NoAnswer> {
        self.ask(admin::run(&*self.store, run)).await
    }

    /// What became of a tick.
    pub async fn why(&self, job: &JobName, at: Option<DateTime<Utc>>) -> Result<admin::Account, NoAnswer> {
        self.ask(admin::why(&*self.store, job, at)).await
    }

    async fn ask<T>(&self, question: impl Future<Output = Result<T, Refusal>>) -> Result<T, NoAnswer> {
        let turn = timeout(TURN_WITHIN, self.questions.acquire()).await;
        let Ok(Ok(_turn)) = turn else { return Err(NoAnswer::Busy) };
        timeout(ANSWER_WITHIN, question).await.map_err(|_| NoAnswer::Late)?.map_err(NoAnswer::Refused)
    }
}
