//! `onecron pause` and `onecron resume`.

use super::store_args::AskArgs;
use super::store_args::Failed;
use super::store_args::job_name;
use super::store_args::not_written;
use super::store_args::wait_for;
use super::store_args::write_json;
use super::table_args;
use super::table_args::Format;
use super::table_args::printable;
use crate::admin;
use crate::admin::Changed;
use crate::job::JobName;
use crate::job::Pause;
use chrono::DateTime;
use chrono::SecondsFormat;
use clap::ArgMatches;
use clap::Args;
use serde::Serialize;
use std::io::Write;

/// Keeps jobs from being started, on all replicas, until they are resumed
///
/// Runs that have begun go on. Ticks that come are recorded as skipped, and are not made up for. Exit codes: 0 they are paused; 1 one
/// of them is not known, and none is paused; 2 called wrongly; 69 the store does not answer; 78 a setting is refused.
#[derive(Debug, Clone, Args)]
#[command(override_usage = "onecron pause <JOB>... | --all [OPTIONS]")]
pub struct PauseArgs {
    /// The jobs
    #[arg(value_name = "JOB", required_unless_present = "all", conflicts_with = "all")]
    pub jobs: Vec<String>,
    /// All jobs, also those that are added later, until `resume --all`
    #[arg(long)]
    pub all: bool,
    /// Why, for logs and whoever finds it
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true, value_parser = admin::words)]
    pub reason: String,
    /// Where, and who.
    #[command(flatten)]
    pub ask: AskArgs,
}

/// Lets paused jobs go on, with their next tick
///
/// Exit codes: 0 they go on; 1 one of them is not known, and none goes on; 2 called wrongly; 3 some are paused in the other way
/// as well (alone, or with all) and stay so; 69 the store does not answer; 78 a setting is refused.
#[derive(Debug, Clone, Args)]
#[command(override_usage = "onecron resume <JOB>... | --all [OPTIONS]")]
pub struct ResumeArgs {
    /// The jobs
    #[arg(value_name = "JOB", required_unless_present = "all", conflicts_with = "all")]
    pub jobs: Vec<String>,
    /// End the pause of all jobs; those that were paused by their names stay so
    #[arg(long)]
    pub all: bool,
    /// Where, and who.
    #[command(flatten)]
    pub ask: AskArgs,
}

#[derive(Serialize)]
struct Shown<'a> {
    job: &'a str,
    paused: bool,
    changed: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    by: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    since: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'a str>,
}

impl<'a> Shown<'a> {
    fn of(changed: &'a Changed) -> Self {
        let pause = changed.record.pause();
        Self {
            job: changed.job.as_str(),
            paused: pause.is_some(),
            changed: changed.changed,
            by: pause.map(|pause| pause.by.as_str()),
            since: pause.map(since),
            reason: pause.map(|pause| pause.reason.as_str()).filter(|reason| !reason.is_empty()),
        }
    }
}

fn since(pause: &Pause) -> String {
    DateTime::from_timestamp_millis(pause.at).unwrap_or_default().to_rfc3339_opts(SecondsFormat::Secs, true)
}

fn names(texts: &[String]) -> Result<Vec<JobName>, Failed> {
    texts.iter().map(|text| job_name(text)).collect()
}

/// Pauses. Returns the exit code.
pub fn run(args: &PauseArgs, given: &ArgMatches, (out, err): (&mut dyn Write, &mut dyn Write)) -> i32 {
    pause(args, given, (out, err)).unwrap_or_else(|failed| failed.say(err))
}

fn pause(args: &PauseArgs, given: &ArgMatches, (out, err): (&mut dyn Write, &mut dyn Write)) -> Result<i32, Failed> {
    let jobs = names(&args.jobs)?;
    let (store, actor) = args.ask.open(given, err)?;
    let done = if args.all {
        wait_for(admin::pause_all(&*store, &actor, &args.reason))?
    } else {
        wait_for(admin::pause(&*store, &actor, (&jobs, &args.reason)))?
    };
    if args.ask.output == Format::Json {
        write_json(out, &done.iter().map(Shown::of).collect::<Vec<_>>())?;
        return Ok(table_args::OK);
    }
    if args.all {
        writeln!(out, "all jobs are paused, {} now and those that are added later", done.len()).map_err(not_written)?;
    }
    for changed in &done {
        let own = if args.all { &changed.record.all_paused } else { &changed.record.paused };
        let Some(pause) = own.as_ref().filter(|_| !args.all || !changed.changed) else { continue };
        let already = if changed.changed { "paused" } else { "was paused already" };
        let (job, by, since) = (&changed.job, printable(&pause.by, &[]), since(pause));
        let by = if changed.changed { String::new() } else { format!(", by {by} since {since}") };
        writeln!(out, "{already}: {job}{by}").map_err(not_written)?;
    }
    Ok(table_args::OK)
}

/// Resumes. Returns the exit code.
pub fn resume(args: &ResumeArgs, given: &ArgMatches, (out, err): (&mut dyn Write, &mut dyn Write)) -> i32 {
    go_on(args, given, (out, err)).unwrap_or_else(|failed| failed.say(err))
}

fn go_on(args: &ResumeArgs, given: &ArgMatches, (out, err): (&mut dyn Write, &mut dyn Write)) -> Result<i32, Failed> {
    let jobs = names(&args.jobs)?;
    let (store, actor) = args.ask.open(given, err)?;
    let done = if args.all {
        wait_for(admin::resume_all(&*store, &actor))?
    } else {
        wait_for(admin::resume(&*store, &actor, &jobs))?
    };
    let left: Vec<&Changed> = done.iter().filter(|done| done.record.pause().is_some()).collect();
    let code = if left.is_empty() { table_args::OK } else { table_args::NO };
    if args.ask.output == Format::Json {
        write_json(out, &done.iter().map(Shown::of).collect::<Vec<_>>())?;
        return Ok(code);
    }
    if args.all {
        let count = done.len() - left.len();
        writeln!(out, "the pause of all jobs is over: {count} of {} go on", done.len()).map_err(not_written)?;
    } else {
        for changed in done.iter().filter(|done| done.record.pause().is_none()) {
            let word = if changed.changed { "goes on" } else { "was not paused" };
            writeln!(out, "{word}: {}", changed.job).map_err(not_written)?;
        }
    }
    for changed in left {
        let Some(pause) = changed.record.pause() else { continue };
        let (job, by, since) = (&changed.job, printable(&pause.by, &[]), since(pause));
        let how = if args.all { format!("onecron resume {job}") } else { "onecron resume --all".into() };
        let _ = writeln!(err, "still paused: {job}, by {by} since {since}: `{how}` ends that");
    }
    Ok(code)
}
