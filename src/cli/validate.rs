//! `onecron validate`: is this table good, and when would its jobs run?

use super::store_args::not_shown;
use super::table_args;
use super::table_args::Format;
use super::table_args::TableArgs;
use crate::config;
use crate::config::Loaded;
use crate::config::Problem;
use crate::config::Severity;
use crate::plural::counted;
use chrono::DateTime;
use chrono::Utc;
use clap::Args;
use std::io;
use std::io::Write;
use std::mem;
use std::path::PathBuf;

/// How many coming runs of each job are shown.
const RUNS_SHOWN: usize = 3;

/// Checks a job table and reports all its problems at once
#[derive(Debug, Clone, Args)]
pub struct ValidateArgs {
    /// Files and folders that are one table together; `-` reads standard input [default: what --jobs says]
    #[arg(value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// Where the table is, if no file is named.
    #[command(flatten)]
    pub table: TableArgs,
    /// Exit with 3 if there are warnings
    #[arg(long)]
    pub strict: bool,
    /// The table is for another machine: do not look here for its shells, programs, folders, files and variables
    #[arg(long)]
    pub elsewhere: bool,
    /// How to write the result; json is an array of problems, empty for a good table
    #[arg(short, long, value_enum, default_value_t)]
    pub output: Format,
}

/// Runs the command. Problems go to `err`, or with `-o json` as an array to `out`; of a good table the coming runs and
/// the revision go to `out`. Returns the exit code: 0, 3 (`--strict` and only warnings), 78 (refused), 1 (not written),
/// 141 (nobody reads it).
pub fn run(args: &ValidateArgs, out: &mut dyn Write, err: &mut dyn Write, now: DateTime<Utc>) -> i32 {
    let paths = if args.files.is_empty() { &args.table.jobs } else { &args.files };
    let sources = table_args::sources(paths);
    let mut result = config::load(&sources, now);
    if let Ok(loaded) = result.as_mut()
        && !args.elsewhere
    {
        let missing = loaded.needs.missing_here(&sources);
        loaded.warnings.extend(missing);
    }
    let problems = match &result {
        Ok(loaded) => &loaded.warnings,
        Err(problems) => problems,
    };
    let written = match args.output {
        Format::Json => write_json(out, problems),
        Format::Text => write_text((out, err), problems, result.as_ref().ok(), now),
    };
    match (written, &result) {
        (Err(error), _) => not_shown(error).say(err),
        (Ok(()), Err(_)) => table_args::CONFIG,
        (Ok(()), Ok(loaded)) if args.strict && !loaded.warnings.is_empty() => table_args::NO,
        (Ok(()), Ok(_)) => table_args::OK,
    }
}

fn write_json(out: &mut dyn Write, problems: &[Problem]) -> io::Result<()> {
    serde_json::to_writer_pretty(&mut *out, problems)?;
    writeln!(out)
}

fn write_text(
    (out, err): (&mut dyn Write, &mut dyn Write),
    problems: &[Problem],
    loaded: Option<&Loaded>,
    now: DateTime<Utc>,
) -> io::Result<()> {
    for problem in problems {
        writeln!(err, "{problem}\n")?;
    }
    let errors = problems.iter().filter(|problem| problem.severity == Severity::Error).count();
    let warnings = problems.len() - errors;
    let found = format!("{}, {}", counted(errors, "error"), counted(warnings, "warning"));
    let Some(loaded) = loaded else { return writeln!(err, "the table is refused: {found}") };
    let table = &loaded.table;
    let mut rows = vec![["JOB", "SCHEDULE", "ZONE", "NEXT RUNS"].map(str::to_owned).to_vec()];
    for job in &table.jobs {
        let schedule = &job.schedule;
        let runs = schedule.occurrences(now, RUNS_SHOWN).into_iter().map(|run| table_args::local(schedule, run));
        let mut runs = if runs.len() == 0 { vec!["none".to_owned()] } else { runs.collect() }.into_iter();
        let jitter = (!job.jitter.is_zero()).then(|| format!("and up to {} later", config::duration_text(job.jitter)));
        let suspended = job.suspend.then(|| "suspended".to_owned());
        let mut texts = schedule.parts().map(|part| part.text().to_owned()).chain(jitter).chain(suspended);
        let (mut name, mut zone) = (job.name.to_string(), schedule.zone().name().to_owned());
        loop {
            let (text, run) = (texts.next(), runs.next());
            if text.is_none() && run.is_none() {
                break;
            }
            let cells = [mem::take(&mut name), text.unwrap_or_default(), mem::take(&mut zone), run.unwrap_or_default()];
            rows.push(cells.to_vec());
        }
    }
    if !table.jobs.is_empty() {
        table_args::write_aligned(out, &rows)?;
    }
    writeln!(out, "good: {}, {found}, revision {}", counted(table.jobs.len(), "job"), table.revision)
}
