//! What is said about the store: what it is, and what is wrong with its settings. And the one thing that is done to it now and then: jobs that no replica has registered for a month are removed.
//!
//! All of it happens beside the loop, and none of it decides anything.

use super::driver::Message;
use crate::clock::Clock;
use crate::engine::Event;
use crate::server::Board;
use crate::store::Probe;
use crate::store::Store;
use crate::telemetry::events;
use crate::telemetry::events::StoreConnected;
use crate::telemetry::metrics::Metrics;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;

/// How long each question may take.
const LIMIT: Duration = Duration::from_secs(5);
/// How often the store is asked what it is: see [`Store::identity`].
const IDENTITY_EVERY: Duration = Duration::from_secs(1);
/// Jobs are retired after so long, for the first time and then again.
const RETIRE_FIRST: Duration = Duration::from_secs(3600);
const RETIRE_EVERY: Duration = Duration::from_secs(86_400);
/// How long a job is kept that no replica has registered.
const UNREGISTERED_FOR: Duration = Duration::from_secs(30 * 86_400);

/// See the module.
pub struct StoreWatch {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    metrics: Arc<Metrics>,
    board: Arc<Board>,
}

impl StoreWatch {
    /// For a store. Metrics and board are told when it has answered.
    pub fn new(store: Arc<dyn Store>, clock: Arc<dyn Clock>, (metrics, board): (Arc<Metrics>, Arc<Board>)) -> Self {
        Self { store, clock, metrics, board }
    }

    /// The store answered for the first time (`None`), or again after an outage.
    pub async fn greet(self: Arc<Self>, outage: Option<Duration>) {
        if let Some(outage) = outage {
            events::store_recovered(outage);
        }
        let asked = self.clock.now();
        // Only how long it takes counts: a store that does not answer now is said by the engine's requests.
        let _ = within(LIMIT, self.store.identity()).await;
        let latency = self.clock.now().boot.since(asked.boot);
        let probe = within(LIMIT, self.store.probe()).await;
        let class = probe.as_ref().map(|probe| probe.class.to_string());
        events::store_connected(StoreConnected {
            store: self.store.url(),
            latency,
            class: class.as_deref(),
            server_version: probe.as_ref().map(|probe| probe.version.as_str()),
            reach: probe.as_ref().map(|probe| probe.reach.as_str()),
        });
        if let Some(Probe { findings, .. }) = &probe {
            let failing: Vec<&'static str> = findings.iter().map(|finding| finding.check).collect();
            self.metrics.store_unsafe(&failing);
        }
        for finding in probe.iter().flat_map(|Probe { findings, .. }| findings) {
            events::store_unsafe(finding.check, &finding.found, &finding.wanted);
        }
        self.metrics.ready();
        if self.board.store_seen() {
            events::daemon_ready();
        }
    }

    /// Retires jobs every day. Never ends.
    pub async fn keep(self: Arc<Self>) {
        let mut wait = RETIRE_FIRST;
        loop {
            tokio::time::sleep(wait).await;
            wait = RETIRE_EVERY;
            // Whatever goes wrong here goes well tomorrow.
            let retired = within(LIMIT, self.store.retire(UNREGISTERED_FOR)).await;
            retired.iter().flatten().for_each(events::job_retired);
        }
    }

    /// Looks whether the store is still the one that it was. Ends with the loop.
    pub async fn compare_identity(self: Arc<Self>, loop_: mpsc::Sender<Message>) {
        let mut known = None;
        loop {
            tokio::time::sleep(IDENTITY_EVERY).await;
            let Some(found) = within(LIMIT, self.store.identity()).await else { continue };
            let found = Some((found.server, found.evicted));
            let changed = known.is_some() && known != found;
            known = found;
            if changed && loop_.send(Message::Happened { event: Event::StoreChanged, said: None }).await.is_err() {
                return;
            }
        }
    }
}

/// What is asked here is never worth an error: the requests of the engine say that the store is away.
async fn within<T, E>(limit: Duration, question: impl Future<Output = Result<T, E>>) -> Option<T> {
    tokio::time::timeout(limit, question).await.ok()?.ok()
}
