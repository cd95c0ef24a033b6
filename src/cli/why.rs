//! `onecron why`: what became of a tick.

use super::read::show_json;
use super::store_args::Failed;
use super::store_args::ReadArgs;
use super::store_args::job_name;
use super::store_args::not_shown;
use super::store_args::wait_for;
use super::table_args;
use super::table_args::Format;
use super::table_args::printable;
use crate::admin;
use crate::job::JobName;
use crate::job::RunKey;
use crate::job::no_run_id;
use crate::job::parse_instant;
use chrono::DateTime;
use chrono::Utc;
use clap::ArgMatches;
use clap::Args;
use std::io::Write;

/// Tells what became of a job's tick: who ran it, how it ended, or why nobody did
///
/// It reads the store, and needs no daemon. Exit codes: 0; 1 the job is not known; 2 called wrongly; 69 the store does not
/// answer; 78 a setting is refused.
#[derive(Debug, Clone, Args)]
pub struct WhyArgs {
    /// The job, or the id of a run, also of one by hand: nightly-sales@2026-03-01T02:00:00Z
    #[arg(value_name = "JOB|RUN_ID")]
    pub job: String,
    /// The tick, or an instant after it (RFC 3339), or the id of a run [default: the last tick]
    #[arg(long, value_name = "INSTANT|RUN_ID", value_parser = at)]
    pub at: Option<At>,
    /// Where, and how.
    #[command(flatten)]
    pub read: ReadArgs,
}

/// What is asked about.
#[derive(Debug, Clone)]
pub enum At {
    /// The tick at an instant, or the last one before it.
    Instant(DateTime<Utc>),
    /// A run.
    Run(RunKey),
}

fn at(text: &str) -> Result<At, String> {
    match RunKey::parse(text) {
        Some(run) => Ok(At::Run(run)),
        None if text.contains('@') => {
            parse_instant(text).map(At::Instant).map_err(|form| format!("{}; {form}", no_run_id(text)))
        }
        None => parse_instant(text).map(At::Instant),
    }
}

/// The job, and what of it is asked about.
fn asked(args: &WhyArgs) -> Result<(JobName, Option<At>), Failed> {
    let hint = "`onecron why JOB --at INSTANT`, or `onecron why RUN_ID` with an id as in `run_id` of the log: \
                nightly-sales@2026-03-01T02:00:00Z";
    let (job, at) = match (RunKey::parse(&args.job), &args.at) {
        (Some(_), Some(_)) => return Err(Failed::usage("a run is named, and --at as well", hint)),
        (Some(run), None) => (run.job.clone(), Some(At::Run(run))),
        (None, _) if args.job.contains('@') => {
            return Err(Failed::usage(no_run_id(&args.job), hint));
        }
        (None, at) => (job_name(&args.job)?, at.clone()),
    };
    match &at {
        Some(At::Run(run)) if run.job != job => Err(Failed::usage(format!("`{run}` is no run of job `{job}`"), hint)),
        _ => Ok((job, at)),
    }
}

/// Runs the command. Returns the exit code.
pub fn run(args: &WhyArgs, given: &ArgMatches, (out, err): (&mut dyn Write, &mut dyn Write)) -> i32 {
    tell(args, given, (out, err)).unwrap_or_else(|failed| failed.say(err))
}

fn tell(args: &WhyArgs, given: &ArgMatches, (out, err): (&mut dyn Write, &mut dyn Write)) -> Result<i32, Failed> {
    let (name, at) = asked(args)?;
    let store = args.read.store.open(given, err)?;
    let account = wait_for(async {
        match at {
            Some(At::Run(run)) => admin::why_run(&*store, &run).await,
            Some(At::Instant(at)) => admin::why(&*store, &name, Some(at)).await,
            None => admin::why(&*store, &name, None).await,
        }
    })?;
    if args.read.output == Format::Json {
        show_json(out, &account)?;
        return Ok(table_args::OK);
    }
    let subject = account.run_id.as_deref().unwrap_or(&account.job);
    writeln!(out, "{subject}\n  {}", printable(&account.answer, &[])).map_err(not_shown)?;
    for fact in &account.facts {
        writeln!(out, "  - {}", printable(fact, &[])).map_err(not_shown)?;
    }
    Ok(table_args::OK)
}
