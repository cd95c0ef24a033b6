//! Runs as spans of OpenTelemetry, sent by OTLP over HTTP as protobuf.
//!
//! ```text
//!   settings.rs ─ OTEL_* ─► Tracing ─┬─ Tracer: opens spans, on the scheduler's thread
//!                                    └─ spool.rs: a bounded queue ─► export.rs: a thread that posts them
//! ```
//!
//! Nobody waits for a collector: a span that finds the queue full is dropped and counted. What a run does, and whether it
//! runs, never depends on one.

mod export;
mod settings;
mod spool;

pub use export::Exporter;
pub use settings::Doubt;
pub use settings::TraceSettings;
pub use settings::read;

use super::events::RunFields;
use super::logging::Place;
use super::metrics::Metrics;
use crate::clock::Clock;
use crate::job::TraceContext;
use chrono::DateTime;
use chrono::Utc;
use opentelemetry::Context;
use opentelemetry::KeyValue;
use opentelemetry::Value;
use opentelemetry::trace::Span as _;
use opentelemetry::trace::SpanBuilder;
use opentelemetry::trace::SpanKind;
use opentelemetry::trace::Status;
use opentelemetry::trace::Tracer as _;
use opentelemetry::trace::TracerProvider;
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::resource::TelemetryResourceDetector;
use opentelemetry_sdk::trace::SdkTracer;
use opentelemetry_sdk::trace::SdkTracerProvider;
use opentelemetry_sdk::trace::Span;
use std::fmt;
use std::io;
use std::sync::Arc;

/// Who is traced: a part of what is told of every span.
#[derive(Debug, Clone)]
pub struct Traced<'a> {
    /// The replica.
    pub replica: &'a str,
    /// Where it is.
    pub place: &'a Place,
}

/// Opens spans.
#[derive(Clone)]
pub struct Tracer {
    tracer: SdkTracer,
    is_handed_on: bool,
}

impl fmt::Debug for Tracer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tracer").field("is_handed_on", &self.is_handed_on).finish_non_exhaustive()
    }
}

/// Starts to trace: what opens spans, and what sends them away. Spans that are lost are counted.
///
/// # Errors
/// The system gives no thread, or none of what a runtime needs.
pub fn start(
    settings: TraceSettings,
    who: &Traced<'_>,
    (clock, metrics): (Arc<dyn Clock>, Arc<Metrics>),
) -> io::Result<(Tracer, Exporter)> {
    let is_handed_on = settings.is_handed_on;
    let (spool, spans) = spool::new(settings.queue, metrics);
    let resource = resource(&settings, who);
    let provider = SdkTracerProvider::builder()
        .with_sampler(settings.sampler.clone())
        .with_resource(resource.clone())
        .with_span_processor(spool)
        .build();
    let tracer = Tracer { tracer: provider.tracer("onecron"), is_handed_on };
    let exporter = Exporter::start(settings, (spans, &resource), (provider, clock))?;
    Ok((tracer, exporter))
}

/// What opens spans for a test, and gives those that have ended.
#[cfg(test)]
pub fn gathered() -> (Tracer, impl FnMut() -> Option<opentelemetry_sdk::trace::SpanData>) {
    let clock = Arc::new(crate::clock::SystemClock);
    let (spool, mut spans) = spool::new(64, Arc::new(Metrics::new(clock, "memory:")));
    let provider = SdkTracerProvider::builder().with_span_processor(spool).build();
    let tracer = Tracer { tracer: provider.tracer("onecron"), is_handed_on: true };
    (tracer, move || spans.queue.try_recv().ok())
}

/// What is told of every span. The variables win: whoever sets them knows why.
fn resource(settings: &TraceSettings, who: &Traced<'_>) -> Resource {
    let Place { pod, namespace, node, .. } = who.place;
    let own = [
        ("service.version", Some(env!("CARGO_PKG_VERSION").to_owned())),
        ("service.instance.id", Some(who.replica.to_owned())),
        ("k8s.pod.name", pod.clone()),
        ("k8s.namespace.name", namespace.clone()),
        ("k8s.node.name", node.clone()),
    ];
    let own = own.into_iter().filter_map(|(key, value)| Some(KeyValue::new(key, value?)));
    let given = settings.resource.iter().map(|(key, value)| KeyValue::new(key.clone(), value.clone()));
    Resource::builder_empty()
        .with_detector(Box::new(TelemetryResourceDetector))
        .with_attributes(own)
        .with_attributes(given)
        .with_service_name(settings.service.clone())
        .build()
}

impl Tracer {
    /// Opens the span of a run that this replica has claimed.
    pub fn open(&self, run: &RunFields, at: DateTime<Utc>) -> RunSpan {
        let attributes = vec![
            KeyValue::new("onecron.job", run.run.job.to_string()),
            KeyValue::new("onecron.run_id", run.run.to_string()),
            KeyValue::new("onecron.scheduled_for", run.run.scheduled_for.instant()),
            KeyValue::new("onecron.trigger", run.trigger.as_str()),
        ];
        let builder = SpanBuilder::from_name(format!("run {}", run.run.job))
            .with_kind(SpanKind::Internal)
            .with_start_time(at)
            .with_attributes(attributes);
        RunSpan { span: self.tracer.build_with_context(builder, &Context::new()) }
    }

    /// Whether jobs are told their trace.
    pub fn is_handed_on(&self) -> bool {
        self.is_handed_on
    }
}

/// The span of a run, from the claim to the end. Dropped, it ends at that moment.
pub struct RunSpan {
    span: Span,
}

impl fmt::Debug for RunSpan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("RunSpan").field(&self.context()).finish()
    }
}

/// A detail of a span; those that are `None` are left out.
pub type Detail = (&'static str, Option<Value>);

fn known(details: impl IntoIterator<Item = Detail>) -> Vec<KeyValue> {
    details.into_iter().filter_map(|(key, value)| Some(KeyValue::new(key, value?))).collect()
}

impl RunSpan {
    /// What its children are told.
    pub fn context(&self) -> TraceContext {
        let context = self.span.span_context();
        TraceContext {
            trace: u128::from_be_bytes(context.trace_id().to_bytes()),
            span: u64::from_be_bytes(context.span_id().to_bytes()),
            is_sampled: context.is_sampled(),
            state: context.trace_state().header(),
        }
    }

    /// Something happened to the run.
    pub fn note(&mut self, event: &'static str, at: DateTime<Utc>, details: impl IntoIterator<Item = Detail>) {
        self.span.add_event_with_timestamp(event, at.into(), known(details));
    }

    /// Something is known of it now.
    pub fn tell(&mut self, details: impl IntoIterator<Item = Detail>) {
        self.span.set_attributes(known(details));
    }

    /// It is over; `failure`: what went wrong, in words, where something did.
    pub fn end(mut self, at: DateTime<Utc>, failure: Option<String>) {
        if let Some(failure) = failure {
            self.span.set_status(Status::error(failure));
        }
        self.span.end_with_timestamp(at.into());
    }
}
