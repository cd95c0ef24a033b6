//! The names of the records' fields, in the order in which drivers read and write them.

/// Fields of a job's record.
pub const JOB_FIELDS: [&str; 29] = [
    "format",
    "revision",
    "schedule",
    "zone",
    "former",
    "spec_hash",
    "registered_at",
    "since",
    "floor",
    "decided_through",
    "last_begun",
    "manual_token",
    "range",
    "slot",
    "open",
    "paused",
    "all_paused",
    "last_success",
    "failures",
    "missed",
    "stale",
    "keep_ms",
    "history_ticks",
    "history_successful",
    "history_failed",
    "identity",
    "evicted",
    "forgot_at",
    "quiet_ms",
];

/// Fields of a run's record.
pub const RUN_FIELDS: [&str; 41] = [
    "format",
    "scheduled_for",
    "state",
    "owner",
    "start",
    "number",
    "request",
    "lease_ms",
    "grace_ms",
    "stop_grace_ms",
    "takeover_ms",
    "delay_ms",
    "exclusive",
    "when_busy",
    "waiting_since",
    "stop_asked",
    "stop_asked_by",
    "rerun",
    "trigger",
    "spec_hash",
    "claimed_at",
    "begun_at",
    "renewed_at",
    "ended_at",
    "outcome",
    "reason",
    "range_first",
    "range_count",
    "exit_code",
    "signal",
    "http_status",
    "duration_ms",
    "error",
    "late_outcome",
    "lost_by",
    "asserted",
    "ordered_by",
    "order_key",
    "runs_for",
    "despite_pause",
    "token",
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::JobRecord;
    use crate::job::RunRecord;

    #[test]
    fn the_names_are_those_that_the_records_write() {
        let read = [("state", "claimed"), ("scheduled_for", "2026-03-01T02:00:00Z")];
        let job: Vec<&str> =
            JobRecord::from_fields(&read[..]).unwrap().fields().iter().map(|(name, _)| *name).collect();
        let run: Vec<&str> =
            RunRecord::from_fields(&read[..]).unwrap().fields().iter().map(|(name, _)| *name).collect();
        assert_eq!(job, JOB_FIELDS);
        assert_eq!(run, RUN_FIELDS);
    }
}
