//! Spans that reach no collector.

use super::Metrics;
use crate::job::words;

words! {
    /// Why a span is lost.
    SpanLoss {
        /// The queue had no room for it.
        QueueFull = "queue_full",
        /// The collector could not be reached, or took nothing of its batch.
        Undelivered = "undelivered",
        /// The collector took others of its batch, and not this one.
        Rejected = "rejected",
    }
}

impl Metrics {
    /// None yet.
    pub(super) fn begin_spans(&self) {
        for why in SpanLoss::ALL {
            self.families.spans_lost.with_label_values(&[why.as_str()]);
        }
    }

    /// So many spans reach nobody.
    pub fn spans_lost(&self, why: SpanLoss, count: u64) {
        self.families.spans_lost.with_label_values(&[why.as_str()]).inc_by(count as f64);
    }
}
