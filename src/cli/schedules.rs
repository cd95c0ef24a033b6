//! Schedules on the command line: how they are read, refused, and how their coming runs are listed.

use super::table_args;
use crate::schedule::Schedule;
use crate::schedule::ScheduleError;
use crate::schedule::Zone;
use chrono::DateTime;
use chrono::Months;
use chrono::Utc;
use serde::Serialize;

/// An exit code, and what to say about it.
pub(super) type Refusal = (i32, String);

/// So many characters of a refused schedule are shown. One that is longer is refused for its length alone.
const SHOWN_MAX: usize = 256;

/// The zone that `--timezone` names.
pub(super) fn zone(name: &str) -> Result<Zone, Refusal> {
    Zone::find(name)
        .map_err(|error| (table_args::CONFIG, format!("error: --timezone: {error}\nhint: {}\n", error.hint())))
}

/// What is said about a refused schedule; `given` is where it was written, such as `--schedule`.
pub(super) fn refused(given: &str, text: &str, error: &ScheduleError) -> Refusal {
    // Control characters would break the line and the carets below it.
    let mut shown: String = text.chars().take(SHOWN_MAX).map(|c| if c.is_control() { ' ' } else { c }).collect();
    if text.chars().nth(SHOWN_MAX).is_some() {
        shown.push('…');
    }
    let length = error.length.clamp(1, SHOWN_MAX);
    let carets = format!("{}{}", " ".repeat(error.column), "^".repeat(length));
    let hint = error.hint.as_ref().map_or(String::new(), |hint| format!("hint: {hint}\n"));
    (table_args::CONFIG, format!("error: {given}: {}\n  {shown}\n  {carets}\n{hint}", error.message))
}

/// An RFC 3339 argument.
pub(super) fn parse_instant(text: &str) -> Result<DateTime<Utc>, String> {
    DateTime::parse_from_rfc3339(text)
        .map(|instant| instant.to_utc())
        .map_err(|_| "an instant is written as 2026-03-01T02:00:00Z or 2026-03-01T03:00:00+01:00".to_owned())
}

/// A year later, or as late as instants go.
pub(super) fn a_year_after(instant: DateTime<Utc>) -> DateTime<Utc> {
    instant.checked_add_months(Months::new(12)).unwrap_or(DateTime::<Utc>::MAX_UTC)
}

/// One coming run.
#[derive(Debug, Serialize)]
pub(super) struct Run<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub job: Option<&'a str>,
    #[serde(skip)]
    pub tick: DateTime<Utc>,
    pub scheduled_for: String,
    pub utc: String,
    pub note: Option<String>,
}

impl<'a> Run<'a> {
    /// The run of a tick.
    pub fn new(job: Option<&'a str>, schedule: &Schedule, tick: DateTime<Utc>) -> Self {
        Self {
            job,
            tick,
            scheduled_for: table_args::local(schedule, tick),
            utc: table_args::utc(tick),
            note: schedule.note(tick),
        }
    }
}

/// Runs as rows below a row of titles.
pub(super) fn rows(runs: &[Run<'_>]) -> Vec<Vec<String>> {
    let job = runs.first().and_then(|run| run.job.map(|_| "JOB"));
    let row = |job: Option<&str>, cells: [&str; 3]| job.into_iter().chain(cells).map(str::to_owned).collect::<Vec<_>>();
    let notes = if runs.iter().any(|run| run.note.is_some()) { "NOTE" } else { "" };
    let mut rows = vec![row(job, ["SCHEDULED FOR", "UTC", notes])];
    let note = |run: &Run<'_>| run.note.clone().unwrap_or_default();
    rows.extend(runs.iter().map(|run| row(run.job, [&run.scheduled_for, &run.utc, &note(run)])));
    rows
}
