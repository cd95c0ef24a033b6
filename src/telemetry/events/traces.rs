//! Events about the spans of runs, on their way to a collector.

/// Runs are traced from now on. `endpoint`: without user, password and query.
pub fn tracing_started(endpoint: &str, sampler: &str) {
    event!(INFO, "tracing_started", "runs are traced", endpoint, sampler);
}

/// Spans cannot be sent; said when that begins, and when the reason becomes another.
pub fn trace_export_failed(error: &str) {
    event!(WARN, "trace_export_failed", "spans cannot be sent to the collector: runs go on as ever", error);
}

/// They can again.
pub fn trace_export_recovered() {
    event!(INFO, "trace_export_recovered", "spans reach the collector again");
}

/// The collector took a batch, but not all of it (`spans`: so many it did not), or with a warning; said once, until it takes
/// all without a word, and when its word becomes another.
pub fn spans_rejected(spans: u64, error: &str) {
    event!(WARN, "spans_rejected", "the collector does not take all spans", spans, error);
}

/// So many spans, since this was said last, will reach nobody.
pub fn spans_dropped(spans: u64) {
    event!(WARN, "spans_dropped", "spans of runs were lost on their way to the collector", spans);
}
