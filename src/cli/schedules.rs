//! Schedules on the command line: how they are read, refused, and how their coming runs are listed.

use super::table_args;
use crate::config;
use crate::job::JobName;
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

/// Reads all schedules of a command for the zone that `--timezone` names, or says all that is wrong with them. `refused` is
/// what is said of one of them.
pub(super) fn read(
    texts: &[String],
    (zone, job): (&str, Option<&JobName>),
    refused: impl Fn(&str, &ScheduleError) -> String,
) -> Result<Vec<Schedule>, Refusal> {
    let zone = Zone::find(zone).map_err(|error| format!("error: --timezone: {error}\nhint: {}\n", error.hint()));
    // Whether a text is a schedule does not depend on the zone.
    let (any, job) = (zone.clone().unwrap_or_else(|_| Zone::utc()), job.map_or("", JobName::as_str));
    let read = texts.iter().map(|text| Schedule::parse(text, &any, job).map_err(|error| refused(text, &error)));
    let (good, bad): (Vec<_>, Vec<_>) = read.partition(Result::is_ok);
    let said: String = zone.err().into_iter().chain(bad.into_iter().filter_map(Result::err)).collect();
    if said.is_empty() { Ok(good.into_iter().flatten().collect()) } else { Err((table_args::CONFIG, said)) }
}

/// What is said about a refused schedule; `given` is where it was written, such as `--schedule`.
pub(super) fn refused(given: &str, text: &str, error: &ScheduleError) -> String {
    // As in a report on a table: no character turns or breaks the line, or hides from the carets below it.
    let visible = |c: char| if c == '\t' { ' ' } else { config::visible(c) };
    let mut shown: String = text.chars().take(SHOWN_MAX).map(visible).collect();
    if text.chars().nth(SHOWN_MAX).is_some() {
        shown.push('…');
    }
    let length = error.length.clamp(1, SHOWN_MAX);
    let carets = format!("{}{}", " ".repeat(error.column), "^".repeat(length));
    let hint = error.hint.as_ref().map_or(String::new(), |hint| format!("hint: {hint}\n"));
    format!("error: {given}: {}\n  {shown}\n  {carets}\n{hint}", error.message)
}

/// That an `H` stands for numbers of no job, where none is named.
pub(super) fn unnamed(texts: &[String], job: Option<&JobName>) -> Option<String> {
    // No name of a month or a day begins so.
    let is_spread = |text: &String| text.split([' ', '\t', ',']).any(|word| word.starts_with(['H', 'h']));
    let wanted = job.is_none() && texts.iter().any(is_spread);
    wanted.then(|| "`H` takes its number from the name of the job, and none is given: --job says which".to_owned())
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
