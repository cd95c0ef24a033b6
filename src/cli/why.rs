//! `onecron why`: what became of a tick.

use super::read::show_json;
use super::schedules::parse_instant;
use super::store_args::Failed;
use super::store_args::ReadArgs;
use super::store_args::job_name;
use super::store_args::not_shown;
use super::store_args::wait_for;
use super::table_args;
use super::table_args::Format;
use super::table_args::printable;
use crate::admin;
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
    /// The job
    #[arg(value_name = "JOB")]
    pub job: String,
    /// The tick, or an instant after it (RFC 3339) [default: the last one]
    #[arg(long, value_name = "INSTANT", value_parser = parse_instant)]
    pub at: Option<DateTime<Utc>>,
    /// Where, and how.
    #[command(flatten)]
    pub read: ReadArgs,
}

/// Runs the command. Returns the exit code.
pub fn run(args: &WhyArgs, given: &ArgMatches, (out, err): (&mut dyn Write, &mut dyn Write)) -> i32 {
    tell(args, given, (out, err)).unwrap_or_else(|failed| failed.say(err))
}

fn tell(args: &WhyArgs, given: &ArgMatches, (out, err): (&mut dyn Write, &mut dyn Write)) -> Result<i32, Failed> {
    let name = job_name(&args.job)?;
    let store = args.read.store.open(given, err)?;
    let account = wait_for(admin::why(&*store, &name, args.at))?;
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
