//! What is said about the store: what it is, what is wrong with its settings, how far its clock is from ours. And the
//! one thing that is done to it now and then: jobs that no replica has registered for a month are removed.
//!
//! All of it happens beside the loop, and none of it decides anything.

use super::driver::Message;
use crate::clock::Clock;
use crate::clock::Now;
use crate::engine::Event;
use crate::store::Probe;
use crate::store::Store;
use crate::telemetry::events;
use crate::telemetry::events::StoreConnected;
use chrono::DateTime;
use chrono::Utc;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::sync::mpsc;

/// How long each question may take.
const LIMIT: Duration = Duration::from_secs(5);
/// How often the clocks are compared.
const CLOCK_EVERY: Duration = Duration::from_secs(600);
/// How often the store is asked what it is: see [`Store::identity`].
const IDENTITY_EVERY: Duration = Duration::from_secs(1);
/// Jobs are retired after so many comparisons, for the first time and then again.
const RETIRE_FIRST: u64 = 6;
const RETIRE_EVERY: u64 = 144;
/// How long a job is kept that no replica has registered.
const UNREGISTERED_FOR: Duration = Duration::from_secs(30 * 86_400);

/// See the module.
pub struct StoreWatch {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    tolerance: Duration,
    /// That the clocks differ was said last.
    is_skewed: AtomicBool,
    /// `daemon_ready` was said.
    is_ready: AtomicBool,
}

impl StoreWatch {
    /// For a store, and for clocks that may differ by `tolerance`.
    pub fn new(store: Arc<dyn Store>, clock: Arc<dyn Clock>, tolerance: Duration) -> Self {
        Self { store, clock, tolerance, is_skewed: AtomicBool::new(false), is_ready: AtomicBool::new(false) }
    }

    /// The store answered for the first time (`None`), or again after an outage.
    pub async fn greet(self: Arc<Self>, outage: Option<Duration>) {
        if let Some(outage) = outage {
            events::store_recovered(outage);
        }
        let asked = self.clock.now();
        let time = within(LIMIT, self.store.server_time()).await;
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
        for finding in probe.iter().flat_map(|Probe { findings, .. }| findings) {
            events::store_unsafe(finding.check, &finding.found, &finding.wanted);
        }
        if let Some(time) = time {
            self.compare(asked, latency, time);
        }
        if !self.is_ready.swap(true, Ordering::Relaxed) {
            events::daemon_ready();
        }
    }

    /// The store refused a claim because our clock is ahead of its own.
    pub fn clock_is_ahead(&self, by_ms: i64) {
        self.is_skewed.store(true, Ordering::Relaxed);
        events::clock_skewed(by_ms, self.tolerance);
    }

    /// Compares the clocks every ten minutes, and retires jobs every day. Never ends.
    pub async fn keep(self: Arc<Self>) {
        for round in 1_u64.. {
            tokio::time::sleep(CLOCK_EVERY).await;
            let asked = self.clock.now();
            if let Some(time) = within(LIMIT, self.store.server_time()).await {
                self.compare(asked, self.clock.now().boot.since(asked.boot), time);
            }
            if round % RETIRE_EVERY == RETIRE_FIRST {
                // Whatever goes wrong here goes well tomorrow.
                let retired = within(LIMIT, self.store.retire(UNREGISTERED_FOR)).await;
                retired.iter().flatten().for_each(events::job_retired);
            }
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

    /// Says it when the clocks begin to differ, and when they agree again.
    fn compare(&self, asked: Now, latency: Duration, store: DateTime<Utc>) {
        let offset_ms = offset_ms(asked.wall, latency, store);
        let is_skewed = surely_apart(offset_ms, latency) > self.tolerance;
        match (self.is_skewed.swap(is_skewed, Ordering::Relaxed), is_skewed) {
            (false, true) => events::clock_skewed(offset_ms, self.tolerance),
            (true, false) => events::clock_in_order(offset_ms, self.tolerance),
            (false, false) | (true, true) => {}
        }
    }
}

/// How far our clock is ahead of the store's, if the store read its own in the middle between question and answer.
fn offset_ms(asked: DateTime<Utc>, latency: Duration, store: DateTime<Utc>) -> i64 {
    let half = i64::try_from((latency / 2).as_millis()).unwrap_or(0);
    asked.timestamp_millis().saturating_add(half).saturating_sub(store.timestamp_millis())
}

/// It may have been read right after the question or right before the answer: a slow answer proves nothing.
fn surely_apart(offset_ms: i64, latency: Duration) -> Duration {
    Duration::from_millis(offset_ms.unsigned_abs()).saturating_sub(latency / 2)
}

/// What is asked here is never worth an error: the requests of the engine say that the store is away.
async fn within<T, E>(limit: Duration, question: impl Future<Output = Result<T, E>>) -> Option<T> {
    tokio::time::timeout(limit, question).await.ok()?.ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_offset_is_counted_from_the_middle_of_the_round_trip() {
        let at = |ms| DateTime::from_timestamp_millis(ms).unwrap();
        let ms = Duration::from_millis;
        assert_eq!(offset_ms(at(10_000), ms(100), at(10_050)), 0);
        assert_eq!(offset_ms(at(13_000), ms(0), at(10_000)), 3000, "ours is ahead");
        assert_eq!(offset_ms(at(7_000), ms(0), at(10_000)), -3000);
    }

    #[test]
    fn a_slow_answer_is_no_proof_that_clocks_differ() {
        assert_eq!(surely_apart(2500, Duration::from_secs(2)), Duration::from_millis(1500));
        assert_eq!(surely_apart(-2500, Duration::ZERO), Duration::from_millis(2500));
        assert_eq!(surely_apart(500, Duration::from_secs(2)), Duration::ZERO);
    }
}
