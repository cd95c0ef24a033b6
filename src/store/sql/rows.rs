//! Records as the values of a row.

use super::Failure;
use super::link::Row;
use super::link::Value;
use super::link::number;
use super::link::text;
use crate::job::FORMAT;
use crate::job::HistoryEntry;
use crate::job::JobName;
use crate::job::JobRecord;
use crate::job::RunRecord;
use crate::job::Unreadable;
use crate::store::ErrorKind;
use crate::store::fields::JOB_FIELDS;
use crate::store::fields::RUN_FIELDS;

/// Columns that hold numbers; all others hold texts.
pub(super) const NUMBERS: [&str; 41] = [
    "format",
    "revision",
    "registered_at",
    "since",
    "floor",
    "decided_through",
    "last_begun",
    "manual_token",
    "failures",
    "missed",
    "keep_ms",
    "history_ticks",
    "history_successful",
    "history_failed",
    "evicted",
    "forgot_at",
    "quiet_ms",
    "start",
    "number",
    "lease_ms",
    "grace_ms",
    "stop_grace_ms",
    "takeover_ms",
    "delay_ms",
    "exclusive",
    "waiting_since",
    "rerun",
    "claimed_at",
    "begun_at",
    "renewed_at",
    "ended_at",
    "range_count",
    "exit_code",
    "signal",
    "http_status",
    "duration_ms",
    "asserted",
    "despite_pause",
    "token",
    "written_at",
    "happened_at",
];
/// Columns of the history, in the order of [`entry_of`].
pub(super) const HISTORY: [&str; 15] = [
    "scheduled_for",
    "outcome",
    "reason",
    "range_first",
    "range_count",
    "late_outcome",
    "owner",
    "start",
    "ended_at",
    "duration_ms",
    "exit_code",
    "signal",
    "http_status",
    "error",
    "output_tail",
];

pub(super) fn quoted(columns: &[&str]) -> String {
    let quoted: Vec<String> = columns.iter().map(|name| format!("\"{name}\"")).collect();
    quoted.join(", ")
}

/// SQL has one word for "nothing is known".
pub(super) fn value(column: &str, text: &str) -> Value {
    let text = Some(text).filter(|text| !text.is_empty());
    if NUMBERS.contains(&column) {
        // What the records hold fits: numbers are below 2^63, by a factor of a thousand.
        Value::Number(text.map(|text| text.parse().unwrap_or(i64::MAX)))
    } else {
        Value::Text(text.map(str::to_owned))
    }
}

fn unreadable(error: Unreadable) -> Failure {
    Failure { unreadable: Some(0), ..Failure::new(ErrorKind::Misconfigured, error.to_string()) }
}

fn known_format(format: u32, what: &str) -> Result<(), Failure> {
    if format <= FORMAT {
        return Ok(());
    }
    let detail = format!("the record of `{what}` has form {format}: a newer onecron wrote it: run that one here too");
    Err(Failure { unreadable: Some(format), ..Failure::new(ErrorKind::Misconfigured, detail) })
}

/// The named texts of a row's values from a place on.
fn pairs<'a>(row: &'a Row, from: usize, names: &[&'a str]) -> Vec<(&'a str, &'a str)> {
    names.iter().enumerate().map(|(at, name)| (*name, text(row, from + at))).collect()
}

pub(super) fn job_of(row: &Row, from: usize, name: &str) -> Result<JobRecord, Failure> {
    let record = JobRecord::from_fields(pairs(row, from, &JOB_FIELDS).as_slice()).map_err(unreadable)?;
    known_format(record.format, name)?;
    Ok(record)
}

pub(super) fn run_of(row: &Row, from: usize) -> Result<RunRecord, Failure> {
    let record = RunRecord::from_fields(pairs(row, from, &RUN_FIELDS).as_slice()).map_err(unreadable)?;
    known_format(record.format, &record.scheduled_for.to_string())?;
    Ok(record)
}

pub(super) fn name_of(row: &Row) -> Result<JobName, Failure> {
    let name = text(row, 0);
    JobName::new(name).map_err(|error| Failure::new(ErrorKind::MaybeApplied, format!("job {name:?}: {error}")))
}

pub(super) fn entry_of(row: &Row) -> HistoryEntry {
    let own = |at| text(row, at).to_owned();
    HistoryEntry {
        scheduled_for: own(0),
        outcome: own(1),
        reason: own(2),
        range_first: own(3),
        range_count: text(row, 4).parse().unwrap_or(0),
        late_outcome: own(5),
        owner: own(6),
        start: text(row, 7).parse().unwrap_or(0),
        ended_at: number(row, 8),
        duration_ms: text(row, 9).parse().unwrap_or(0),
        exit_code: own(10),
        signal: own(11),
        http_status: own(12),
        error: own(13),
        output_tail: own(14),
    }
}

pub(super) fn texts_of(entry: HistoryEntry) -> Vec<String> {
    vec![
        entry.scheduled_for,
        entry.outcome,
        entry.reason,
        entry.range_first,
        entry.range_count.to_string(),
        entry.late_outcome,
        entry.owner,
        entry.start.to_string(),
        entry.ended_at.to_string(),
        entry.duration_ms.to_string(),
        entry.exit_code,
        entry.signal,
        entry.http_status,
        entry.error,
        entry.output_tail,
    ]
}
