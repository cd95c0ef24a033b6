//! `onecron next`: the coming runs of a schedule, or of the jobs of a table.

use super::table_args;
use super::table_args::Format;
use super::table_args::TableArgs;
use crate::config;
use crate::config::Severity;
use crate::job::JobSpec;
use crate::schedule::Schedule;
use crate::schedule::Zone;
use chrono::DateTime;
use chrono::Utc;
use clap::Args;
use serde::Serialize;
use std::io;
use std::io::Write;
use std::sync::Arc;

/// Shows when jobs will run
#[derive(Debug, Clone, Args)]
pub struct NextArgs {
    /// Jobs of the table [default: all]
    #[arg(value_name = "JOB", conflicts_with = "schedule")]
    pub names: Vec<String>,
    /// Where the table is.
    #[command(flatten)]
    pub table: TableArgs,
    /// A schedule to try out, instead of a table
    #[arg(long, value_name = "EXPR", allow_hyphen_values = true)]
    pub schedule: Option<String>,
    /// Time zone of --schedule
    #[arg(long, visible_alias = "time-zone", value_name = "ZONE", requires = "schedule", default_value = "UTC")]
    pub timezone: String,
    /// Name of the job that --schedule is for: `H` takes its number from it
    #[arg(long, value_name = "NAME", requires = "schedule", default_value = "")]
    pub job: String,
    /// Runs strictly after this instant [default: now]
    #[arg(long, value_name = "RFC3339", value_parser = parse_instant)]
    pub from: Option<DateTime<Utc>>,
    /// How many runs of each job
    #[arg(short = 'n', long, default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..=10_000))]
    pub count: u16,
    /// How to write the result
    #[arg(short, long, value_enum, default_value_t)]
    pub output: Format,
}

/// So many characters of a refused schedule are shown. One that is longer is refused for its length alone.
const SHOWN_MAX: usize = 256;

fn parse_instant(text: &str) -> Result<DateTime<Utc>, String> {
    DateTime::parse_from_rfc3339(text)
        .map(|instant| instant.to_utc())
        .map_err(|_| "an instant is written as 2026-03-01T02:00:00Z or 2026-03-01T03:00:00+01:00".to_owned())
}

/// One coming run.
#[derive(Debug, Serialize)]
struct Run<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    job: Option<&'a str>,
    scheduled_for: String,
    utc: String,
    note: Option<&'static str>,
}

/// Runs the command. Returns the exit code: 0, 2 (no such job), 78 (the schedule, zone or table is refused; `err` says
/// why), 1 (not written).
pub fn run(args: &NextArgs, out: &mut dyn Write, err: &mut dyn Write, now: DateTime<Utc>) -> i32 {
    let from = args.from.unwrap_or(now);
    let result = match &args.schedule {
        Some(text) => of_schedule(args, text).map(|schedule| {
            let mut listing = Listing::default();
            listing.add(None, &schedule, (from, args.count));
            listing.write(out, args.output)
        }),
        None => of_table(args).map(|jobs| {
            let mut listing = Listing::default();
            for job in &jobs {
                listing.add(Some(job.name.as_str()), &job.schedule, (from, args.count));
            }
            listing.write(out, args.output)
        }),
    };
    match result {
        Ok(Ok(())) => table_args::OK,
        Ok(Err(_)) => table_args::FAILED,
        Err((code, text)) => match write!(err, "{text}") {
            Ok(()) => code,
            Err(_) => table_args::FAILED,
        },
    }
}

/// An exit code, and what to say about it.
type Refusal = (i32, String);

fn of_schedule(args: &NextArgs, text: &str) -> Result<Schedule, Refusal> {
    let zone = Zone::find(&args.timezone)
        .map_err(|error| (table_args::CONFIG, format!("error: --timezone: {error}\nhint: {}\n", error.hint())))?;
    Schedule::parse(text, &zone, &args.job).map_err(|error| {
        // Control characters would break the line and the carets below it.
        let mut shown: String = text.chars().take(SHOWN_MAX).map(|c| if c.is_control() { ' ' } else { c }).collect();
        if text.chars().nth(SHOWN_MAX).is_some() {
            shown.push('…');
        }
        let length = error.length.clamp(1, SHOWN_MAX);
        let carets = format!("{}{}", " ".repeat(error.column), "^".repeat(length));
        let hint = error.hint.as_ref().map_or(String::new(), |hint| format!("hint: {hint}\n"));
        (table_args::CONFIG, format!("error: --schedule: {}\n  {shown}\n  {carets}\n{hint}", error.message))
    })
}

/// The jobs that were named, in that order; all if none was.
fn of_table(args: &NextArgs) -> Result<Vec<Arc<JobSpec>>, Refusal> {
    let loaded = config::load(&table_args::sources(&args.table.jobs)).map_err(|mut problems| {
        problems.retain(|problem| problem.severity == Severity::Error);
        (table_args::CONFIG, config::render(&problems))
    })?;
    let jobs = loaded.table.jobs;
    if args.names.is_empty() {
        return Ok(jobs);
    }
    let find = |name: &String| {
        let found = jobs.iter().find(|job| job.name.as_str() == name).cloned();
        found.ok_or_else(|| (table_args::USAGE, unknown_job(name, &jobs)))
    };
    args.names.iter().map(find).collect()
}

fn unknown_job(name: &str, jobs: &[Arc<JobSpec>]) -> String {
    const SHOWN: usize = 10;
    let names: Vec<&str> = jobs.iter().take(SHOWN).map(|job| job.name.as_str()).collect();
    let more = if jobs.len() > SHOWN { ", …" } else { "" };
    format!("error: the table has no job `{}`\nhint: it has {}{more}\n", name.escape_debug(), names.join(", "))
}

/// What is shown.
#[derive(Default)]
struct Listing<'a> {
    runs: Vec<Run<'a>>,
    /// Schedules without any further run, by the name of their job.
    ended: Vec<Option<&'a str>>,
}

impl<'a> Listing<'a> {
    fn add(&mut self, job: Option<&'a str>, schedule: &Schedule, (from, count): (DateTime<Utc>, u16)) {
        let describe = |instant: DateTime<Utc>| Run {
            job,
            scheduled_for: table_args::local(schedule, instant),
            utc: table_args::utc(instant),
            note: schedule.note(instant),
        };
        let instants = schedule.occurrences(from, usize::from(count));
        if instants.is_empty() {
            self.ended.push(job);
        }
        self.runs.extend(instants.into_iter().map(describe));
    }

    fn write(&self, out: &mut dyn Write, format: Format) -> io::Result<()> {
        let runs = &self.runs;
        if format == Format::Json {
            serde_json::to_writer_pretty(&mut *out, runs)?;
            return writeln!(out);
        }
        if !runs.is_empty() || self.ended.is_empty() {
            table_args::write_aligned(out, &rows(runs))?;
        }
        for job in &self.ended {
            let name = job.map_or(String::new(), |name| format!("{name}: "));
            writeln!(out, "{name}no further run before 2200")?;
        }
        Ok(())
    }
}

fn rows(runs: &[Run<'_>]) -> Vec<Vec<String>> {
    let job = runs.first().and_then(|run| run.job.map(|_| "JOB"));
    let row = |job: Option<&str>, cells: [&str; 3]| job.into_iter().chain(cells).map(str::to_owned).collect::<Vec<_>>();
    let notes = if runs.iter().any(|run| run.note.is_some()) { "NOTE" } else { "" };
    let mut rows = vec![row(job, ["SCHEDULED FOR", "UTC", notes])];
    rows.extend(runs.iter().map(|run| row(run.job, [&run.scheduled_for, &run.utc, run.note.unwrap_or_default()])));
    rows
}
