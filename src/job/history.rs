//! What is remembered of decided ticks.

use super::RunRecord;
use super::record::text_of;
use serde::Deserialize;
use serde::Serialize;

/// One entry of a job's history: a decided tick. JSON in the store.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HistoryEntry {
    /// The tick, RFC 3339.
    pub scheduled_for: String,
    /// How it ended.
    pub outcome: String,
    /// Why it was missed or skipped; empty otherwise.
    #[serde(default)]
    pub reason: String,
    /// Of ticks that were settled together the first one, RFC 3339; empty otherwise.
    #[serde(default)]
    pub range_first: String,
    /// How many these are; 0: one.
    #[serde(default)]
    pub range_count: u64,
    /// The owner's own account, when it came after `lost`; empty otherwise.
    #[serde(default)]
    pub late_outcome: String,
    /// Who ran or decided it.
    pub owner: String,
    /// How many starts there were.
    pub start: u32,
    /// Store clock at the end, milliseconds since the epoch.
    pub ended_at: i64,
    /// From the first start to the end, milliseconds of the owner's clock.
    pub duration_ms: u64,
    /// Exit code of the last attempt; empty where there is none.
    #[serde(default)]
    pub exit_code: String,
    /// Signal that ended the last attempt; empty where there is none.
    #[serde(default)]
    pub signal: String,
    /// Status of the answer to the last attempt's HTTP request; empty where there is none.
    #[serde(default)]
    pub http_status: String,
    /// In words.
    #[serde(default)]
    pub error: String,
    /// The last bytes of output; kept for the newest successes and failures only.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub output_tail: String,
}

impl HistoryEntry {
    /// The entry of a run that has just ended.
    pub fn of(run: &RunRecord, output_tail: &str) -> Self {
        Self {
            scheduled_for: run.scheduled_for.to_string(),
            outcome: text_of(run.outcome),
            reason: run.reason.clone(),
            range_first: text_of(run.range_first),
            range_count: run.range_count,
            late_outcome: text_of(run.late_outcome),
            owner: run.owner.to_string(),
            start: run.start,
            ended_at: run.ended_at,
            duration_ms: run.duration_ms,
            exit_code: text_of(run.exit_code),
            signal: text_of(run.signal),
            http_status: text_of(run.http_status),
            error: run.error.clone(),
            output_tail: output_tail.into(),
        }
    }
}
