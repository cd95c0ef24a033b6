//! Spans that have ended, on their way to whoever sends them.

use crate::telemetry::metrics::Metrics;
use crate::telemetry::metrics::SpanLoss;
use opentelemetry::Context;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::Span;
use opentelemetry_sdk::trace::SpanData;
use opentelemetry_sdk::trace::SpanProcessor;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::sync::mpsc;

/// Where spans come in; never waits.
#[derive(Debug)]
pub(super) struct Spool {
    /// None after the end.
    sender: Mutex<Option<mpsc::Sender<SpanData>>>,
    counts: Arc<Counts>,
}

/// Where spans are.
#[derive(Debug)]
pub(super) struct Counts {
    /// Taken, and neither delivered nor lost yet.
    pub(super) outstanding: AtomicU64,
    /// Lost, and that was not said yet.
    dropped: AtomicU64,
    metrics: Arc<Metrics>,
}

impl Counts {
    /// Of so many that were taken, this part is lost, and the rest delivered.
    pub(super) fn settle(&self, count: u64, (lost, why): (u64, SpanLoss)) {
        self.outstanding.fetch_sub(count, Ordering::Relaxed);
        self.dropped.fetch_add(lost, Ordering::Relaxed);
        self.metrics.spans_lost(why, lost);
    }

    /// What is to be said.
    pub(super) fn take_dropped(&self) -> u64 {
        self.dropped.swap(0, Ordering::Relaxed)
    }
}

/// Where they go out.
#[derive(Debug)]
pub(super) struct Spans {
    pub(super) queue: mpsc::Receiver<SpanData>,
    pub(super) counts: Arc<Counts>,
}

/// A queue for so many spans; those that are lost are counted.
pub(super) fn new(most: usize, metrics: Arc<Metrics>) -> (Spool, Spans) {
    let (sender, queue) = mpsc::channel(most);
    let counts = Arc::new(Counts { outstanding: AtomicU64::new(0), dropped: AtomicU64::new(0), metrics });
    (Spool { sender: Mutex::new(Some(sender)), counts: Arc::clone(&counts) }, Spans { queue, counts })
}

impl SpanProcessor for Spool {
    fn on_start(&self, _: &mut Span, _: &Context) {}

    fn on_end(&self, span: SpanData) {
        if !span.span_context.is_sampled() {
            return;
        }
        let sender = self.sender.lock().unwrap_or_else(PoisonError::into_inner);
        // Before it is sent: whoever gets it may settle it at once.
        self.counts.outstanding.fetch_add(1, Ordering::Relaxed);
        if sender.as_ref().is_none_or(|sender| sender.try_send(span).is_err()) {
            self.counts.settle(1, (1, SpanLoss::QueueFull));
        }
    }

    /// Nothing is forced: the end of the queue is what sends its rest.
    fn force_flush(&self) -> OTelSdkResult {
        Ok(())
    }

    fn shutdown_with_timeout(&self, _: Duration) -> OTelSdkResult {
        self.sender.lock().unwrap_or_else(PoisonError::into_inner).take();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::SystemClock;
    use opentelemetry::trace::Tracer;
    use opentelemetry::trace::TracerProvider;
    use opentelemetry_sdk::trace::Sampler;
    use opentelemetry_sdk::trace::SdkTracerProvider;

    fn provider(most: usize, sampler: Sampler) -> (SdkTracerProvider, Spans) {
        let (spool, spans) = new(most, Arc::new(Metrics::new(Arc::new(SystemClock), "memory:")));
        (SdkTracerProvider::builder().with_sampler(sampler).with_span_processor(spool).build(), spans)
    }

    #[test]
    fn a_full_queue_drops_and_counts_and_nobody_waits() {
        let (provider, mut spans) = provider(2, Sampler::AlwaysOn);
        for _ in 0..5 {
            drop(provider.tracer("test").start("run"));
        }
        assert_eq!((spans.counts.take_dropped(), spans.counts.outstanding.load(Ordering::Relaxed)), (3, 2));
        let counted = spans.counts.metrics.render();
        assert!(counted.contains("onecron_spans_lost_total{reason=\"queue_full\"} 3\n"), "{counted}");
        assert!(provider.shutdown().is_ok());
        let sent = std::iter::from_fn(|| spans.queue.blocking_recv()).count();
        assert_eq!(sent, 2, "those that were in time are there, and the queue has an end");
    }

    #[test]
    fn what_is_not_sampled_is_not_sent_and_not_missed() {
        let (provider, mut spans) = provider(2, Sampler::AlwaysOff);
        drop(provider.tracer("test").start("run"));
        assert!(provider.shutdown().is_ok());
        assert!(spans.queue.blocking_recv().is_none());
        assert_eq!(spans.counts.take_dropped(), 0);
    }
}
