//! `onecron explain`: a schedule in words.

use super::schedules;
use super::schedules::Refusal;
use super::schedules::Run;
use super::store_args::not_shown;
use super::table_args;
use super::table_args::Format;
use crate::job::JobName;
use crate::schedule;
use crate::schedule::ExplainedField;
use crate::schedule::Explanation;
use crate::schedule::Schedule;
use crate::schedule::ScheduleError;
use chrono::DateTime;
use chrono::Utc;
use clap::Args;
use serde::Serialize;
use std::io;
use std::io::Write;

/// How many coming runs are shown.
const RUNS_SHOWN: usize = 3;

/// Says a schedule in words, field by field
#[derive(Debug, Clone, Args)]
pub struct ExplainArgs {
    /// Schedules, each in quotes: "0 9-17 * * MON-FRI"
    #[arg(value_name = "EXPR", required = true)]
    pub schedules: Vec<String>,
    /// Time zone of the schedules
    #[arg(long, visible_alias = "time-zone", value_name = "ZONE", default_value = "UTC")]
    pub timezone: String,
    /// Name of the job that they are for: `H` takes its number from it
    #[arg(long, value_name = "NAME", value_parser = JobName::new)]
    pub job: Option<JobName>,
    /// How to write the result; json is an array with an object for each schedule
    #[arg(short, long, value_enum, default_value_t)]
    pub output: Format,
}

#[derive(Debug, Serialize)]
struct Explained {
    schedule: String,
    zone: String,
    summary: String,
    fields: Vec<Field>,
    notes: Vec<String>,
    /// `elapsed_time` or `fixed_times`
    follows: &'static str,
    clock_changes: String,
    next: Vec<Run<'static>>,
}

#[derive(Debug, Serialize)]
struct Field {
    field: &'static str,
    text: String,
    meaning: String,
}

impl Explained {
    fn new(words: Explanation, schedule: &Schedule, now: DateTime<Utc>) -> Self {
        let zone = schedule.zone();
        let are_clocks_set = !zone.shifts(now, schedules::a_year_after(now)).is_empty();
        let mut clock_changes = words.clock_changes;
        if !words.follows_elapsed_time && !are_clocks_set {
            clock_changes.push_str(&format!(" (within a year no clocks are set in {})", zone.name()));
        }
        let field = |field: ExplainedField| Field { field: field.name, text: field.text, meaning: field.meaning };
        Self {
            schedule: words.text,
            zone: zone.name().to_owned(),
            summary: words.summary,
            fields: words.fields.into_iter().map(field).collect(),
            notes: words.notes,
            follows: if words.follows_elapsed_time { "elapsed_time" } else { "fixed_times" },
            clock_changes,
            next: schedule.occurrences(now, RUNS_SHOWN).into_iter().map(|t| Run::new(None, schedule, t)).collect(),
        }
    }

    fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        writeln!(out, "{} in {}\n  {}\n", self.schedule, self.zone, self.summary)?;
        let row =
            |field: &Field| vec![String::new(), field.field.to_owned(), field.text.clone(), field.meaning.clone()];
        table_args::write_aligned(out, &self.fields.iter().map(row).collect::<Vec<_>>())?;
        writeln!(out)?;
        for note in self.notes.iter().chain([&self.clock_changes]) {
            writeln!(out, "  {note}")?;
        }
        writeln!(out)?;
        if self.next.is_empty() {
            return writeln!(out, "  no further run before 2200");
        }
        let mut rows = schedules::rows(&self.next);
        rows.iter_mut().for_each(|row| row.insert(0, String::new()));
        table_args::write_aligned(out, &rows)
    }
}

/// Runs the command. Returns the exit code: 0, 78 (a schedule or the zone is refused; `err` says why), 1 (not written), 141
/// (nobody reads it).
pub fn run(args: &ExplainArgs, out: &mut dyn Write, err: &mut dyn Write, now: DateTime<Utc>) -> i32 {
    let (code, written) = match explained(args, now) {
        Ok(all) => (table_args::OK, write(out, &all, args.output)),
        Err((code, text)) => (code, write!(err, "{text}")),
    };
    match written {
        Ok(()) => code,
        Err(error) => not_shown(error).say(err),
    }
}

fn explained(args: &ExplainArgs, now: DateTime<Utc>) -> Result<Vec<Explained>, Refusal> {
    let texts = args.schedules.as_slice();
    let meaning = (args.timezone.as_str(), args.job.as_ref());
    let job = args.job.as_ref().map_or("", JobName::as_str);
    let is_read = |text: &&String| schedule::explain(text, job).is_ok();
    // Without quotes a shell makes an argument of each field, and of `*` the names of files: that is said once.
    let unquoted = texts.iter().find(|text| texts.len() > 2 && !text.contains(' ') && !is_read(text));
    let looked_at = unquoted.map_or(texts, std::slice::from_ref);
    let refused = |text: &str, error: &ScheduleError| {
        let mut message = schedules::refused("schedule", text, error);
        if unquoted.is_some() {
            message.push_str("hint: write the fields of one schedule in quotes: onecron explain \"0 2 * * *\"\n");
        }
        message
    };
    let all = schedules::read(looked_at, meaning, refused)?;
    let explain = |schedule: &Schedule| {
        let words = schedule::explain(schedule.text(), job).map_err(|error| (table_args::CONFIG, error.message))?;
        Ok(Explained::new(words, schedule, now))
    };
    all.iter().map(explain).collect()
}

fn write(out: &mut dyn Write, all: &[Explained], format: Format) -> io::Result<()> {
    if format == Format::Json {
        serde_json::to_writer_pretty(&mut *out, all)?;
        return writeln!(out);
    }
    for (index, explained) in all.iter().enumerate() {
        if index > 0 {
            writeln!(out)?;
        }
        explained.write(out)?;
    }
    Ok(())
}
