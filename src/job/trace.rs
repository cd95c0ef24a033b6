//! Where a run is in a trace, as W3C Trace Context writes it (<https://www.w3.org/TR/trace-context/>).

/// A span that others can be children of. Neither number is zero.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TraceContext {
    /// The trace.
    pub trace: u128,
    /// The span in it.
    pub span: u64,
    /// Whether it is recorded: children do as their parent does.
    pub is_sampled: bool,
    /// What tracing systems add for one another, as the header `tracestate` has it; empty: nothing.
    pub state: String,
}

impl TraceContext {
    /// 32 hexadecimal digits.
    pub fn trace_id(&self) -> String {
        format!("{:032x}", self.trace)
    }

    /// 16 hexadecimal digits.
    pub fn span_id(&self) -> String {
        format!("{:016x}", self.span)
    }

    /// The value of the header `traceparent`, and of the variable `TRACEPARENT`.
    pub fn traceparent(&self) -> String {
        format!("00-{:032x}-{:016x}-{:02x}", self.trace, self.span, u8::from(self.is_sampled))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_context_is_written_as_the_recommendation_says() {
        let context = TraceContext {
            trace: 0x0af7_6519_16cd_43dd_8448_eb21_1c80_319c,
            span: 0x00f0_67aa_0ba9_02b7,
            is_sampled: true,
            state: String::new(),
        };
        assert_eq!(context.traceparent(), "00-0af7651916cd43dd8448eb211c80319c-00f067aa0ba902b7-01");
        let unsampled = TraceContext { is_sampled: false, ..context };
        assert!(unsampled.traceparent().ends_with("-00f067aa0ba902b7-00"));
        assert_eq!(unsampled.span_id(), "00f067aa0ba902b7");
    }
}
