//! `onecron trigger` and `onecron cancel`: one run by hand, and the end of one.

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
use crate::admin::Actor;
use crate::admin::Wanted;
use crate::config;
use crate::job::Outcome;
use crate::job::RunKey;
use crate::job::RunRecord;
use crate::job::Tick;
use crate::job::no_run_id;
use crate::job::parse_instant;
use crate::store::Store;
use clap::ArgMatches;
use clap::Args;
use serde::Serialize;
use std::io::Write;
use std::time::Duration;

/// How long `--wait` waits, where it does not say.
const WAIT: &str = "1h";

/// Runs a job now, on whichever replica is first
///
/// The run has an id of its own, which is printed as soon as the store has it; it takes the job's slot like every run, and
/// no tick is skipped for it but by the job's concurrencyPolicy. It begins within the job's startingDeadline (5 minutes where
/// none is written), or is recorded as missed. Exit codes: 0 it is ordered, and with --wait succeeded; 1 the job is not
/// known, or with --wait the run did not succeed; 2 called wrongly; 3 the job is paused, or the run is not over in the
/// time that --wait has; 69 the store does not answer; 78 a setting is refused.
#[derive(Debug, Clone, Args)]
pub struct TriggerArgs {
    /// The job
    #[arg(value_name = "JOB")]
    pub job: String,
    /// Run it for this instant (RFC 3339) instead of now: the job finds it in ONECRON_SCHEDULED_FOR
    #[arg(long, value_name = "INSTANT", value_parser = instant)]
    pub at: Option<Tick>,
    /// Two orders with the same key are one run: for scripts that may ask twice
    #[arg(long, value_name = "KEY", value_parser = key)]
    pub key: Option<String>,
    /// Also if the job is paused
    #[arg(long)]
    pub force: bool,
    /// Wait until the run is over, at most so long
    #[arg(long, value_name = "DURATION", num_args = 0..=1, require_equals = true, default_missing_value = WAIT)]
    #[arg(value_parser = config::parse_duration)]
    pub wait: Option<Duration>,
    /// Where, and who.
    #[command(flatten)]
    pub ask: AskArgs,
}

/// Asks for the end of a run, whichever replica has it
///
/// Its processes get TERM, and KILL after the job's terminationGracePeriod; a run that has not begun does not begin. The run
/// ends as `cancelled`. Exit codes: 0 it is asked; 1 there is no such run; 2 called wrongly; 3 the run is over already, or
/// not in the time that --wait has; 69 the store does not answer; 78 a setting is refused.
#[derive(Debug, Clone, Args)]
pub struct CancelArgs {
    /// The run's id, as in `run_id` of the log: nightly-sales@2026-03-01T02:00:00Z
    #[arg(value_name = "RUN_ID")]
    pub run: String,
    /// Wait until the run is over, at most so long
    #[arg(long, value_name = "DURATION", num_args = 0..=1, require_equals = true, default_missing_value = WAIT)]
    #[arg(value_parser = config::parse_duration)]
    pub wait: Option<Duration>,
    /// Where, and who.
    #[command(flatten)]
    pub ask: AskArgs,
}

fn instant(text: &str) -> Result<Tick, String> {
    parse_instant(text).map(Tick::from_datetime)
}

fn key(text: &str) -> Result<String, String> {
    const MOST: usize = 200;
    let fits = !text.is_empty() && text.len() <= MOST && !text.chars().any(char::is_control);
    if fits { Ok(text.to_owned()) } else { Err(format!("write 1 to {MOST} bytes without control characters")) }
}

#[derive(Serialize)]
struct Shown<'a> {
    run_id: String,
    job: &'a str,
    state: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    outcome: Option<&'a str>,
    #[serde(skip_serializing_if = "str::is_empty")]
    reason: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    ordered_by: &'a str,
    /// An earlier order with this key made it.
    #[serde(skip_serializing_if = "Option::is_none")]
    again: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    holder: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    exit_code: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    http_status: Option<u16>,
}

impl<'a> Shown<'a> {
    fn of(run: &'a RunKey, record: &'a RunRecord, again: Option<bool>) -> Self {
        Self {
            run_id: run.to_string(),
            job: run.job.as_str(),
            state: if record.is_order() { "ordered" } else { record.state.as_str() },
            outcome: record.outcome.map(Outcome::as_str),
            reason: &record.reason,
            ordered_by: &record.ordered_by,
            again,
            holder: (!record.is_order()).then(|| record.owner.as_str()),
            exit_code: record.exit_code,
            http_status: record.http_status,
        }
    }
}

/// Orders a run. Returns the exit code.
pub fn run(args: &TriggerArgs, given: &ArgMatches, (out, err): (&mut dyn Write, &mut dyn Write)) -> i32 {
    trigger(args, given, (out, err)).unwrap_or_else(|failed| failed.say(err))
}

fn trigger(
    args: &TriggerArgs,
    given: &ArgMatches,
    (out, err): (&mut dyn Write, &mut dyn Write),
) -> Result<i32, Failed> {
    let job = job_name(&args.job)?;
    let (store, actor) = args.ask.open(given, err)?;
    let number = admin::number();
    let key = args.key.clone().unwrap_or_default();
    let wanted = Wanted { job, key, runs_for: args.at, despite_pause: args.force, number };
    let ordered = wait_for(admin::order(&*store, &actor, &wanted))?;
    let is_text = args.ask.output == Format::Text;
    if is_text {
        writeln!(out, "{}", ordered.run).map_err(not_written)?;
    }
    if ordered.again && is_text {
        let _ = writeln!(err, "an earlier order with this key made this run: no other one is made");
    }
    if ordered.replicas == 0 && ordered.record.outcome.is_none() {
        let _ =
            writeln!(err, "warning: no replica is there: the run begins if one starts before its starting deadline");
    } else if ordered.is_gone && ordered.record.outcome.is_none() {
        let _ =
            writeln!(err, "warning: no replica that is there has the job in its table: the run begins if one gets it");
    }
    if args.wait.is_some() && is_text && ordered.record.outcome.is_none() {
        let can_begin = ordered.replicas > 0 && !ordered.is_gone;
        let when = if can_begin { "; it begins within 15 s" } else { "" };
        let _ = writeln!(err, "waiting for its end{when}");
    }
    let Some(most) = args.wait else {
        if !is_text {
            write_json(out, &Shown::of(&ordered.run, &ordered.record, Some(ordered.again)))?;
        }
        return Ok(table_args::OK);
    };
    let record = see_through((&*store, &actor), &ordered.run, most)?;
    if !is_text {
        write_json(out, &Shown::of(&ordered.run, &record, Some(ordered.again)))?;
    }
    match record.outcome {
        None => Err(not_over(&ordered.run, &record, most)),
        Some(outcome) => {
            if is_text {
                writeln!(out, "{}", told(&record)).map_err(not_written)?;
            }
            Ok(if outcome == Outcome::Succeeded { table_args::OK } else { table_args::FAILED })
        }
    }
}

/// Asks for the end of a run. Returns the exit code.
pub fn cancel(args: &CancelArgs, given: &ArgMatches, (out, err): (&mut dyn Write, &mut dyn Write)) -> i32 {
    ask_stop(args, given, (out, err)).unwrap_or_else(|failed| failed.say(err))
}

fn ask_stop(
    args: &CancelArgs,
    given: &ArgMatches,
    (out, err): (&mut dyn Write, &mut dyn Write),
) -> Result<i32, Failed> {
    let run = RunKey::parse(&args.run).ok_or_else(|| {
        let hint = "write it as in `run_id` of the log: nightly-sales@2026-03-01T02:00:00Z";
        Failed::usage(no_run_id(&args.run), hint)
    })?;
    let (store, actor) = args.ask.open(given, err)?;
    let mut record = wait_for(admin::cancel(&*store, &actor, &run))?;
    let is_text = args.ask.output == Format::Text;
    if is_text {
        let told = match record.outcome {
            Some(_) => format!("{run}: cancelled, nobody had it yet"),
            None => format!("asked for the end of {run}: {} has it", record.owner),
        };
        writeln!(out, "{told}").map_err(not_written)?;
    }
    let wait = args.wait.filter(|_| record.outcome.is_none());
    if let Some(most) = wait {
        record = see_through((&*store, &actor), &run, most)?;
    }
    if !is_text {
        write_json(out, &Shown::of(&run, &record, None))?;
    } else if wait.is_some() && record.outcome.is_some() {
        writeln!(out, "{}", told(&record)).map_err(not_written)?;
    }
    match (wait, record.outcome) {
        (Some(most), None) => Err(not_over(&run, &record, most)),
        _ => Ok(table_args::OK),
    }
}

/// Waits for the end of a run, and takes away what it was announced with.
fn see_through((store, actor): (&dyn Store, &Actor), run: &RunKey, most: Duration) -> Result<RunRecord, Failed> {
    wait_for(async {
        let record = admin::until_over(store, run, most).await?;
        if record.outcome.is_some() {
            store.leave(&actor.name).await?;
        }
        Ok(record)
    })
}

fn told(record: &RunRecord) -> String {
    let outcome = record.outcome.map_or("not over", Outcome::as_str);
    let detail = [record.reason.as_str(), record.error.as_str()].into_iter().find(|text| !text.is_empty());
    let detail = detail.map(|text| format!(": {}", printable(text, &[]))).unwrap_or_default();
    let code = record.exit_code.filter(|code| *code != 0).map(|code| format!(", exit code {code}")).unwrap_or_default();
    let status = record.http_status.map(|status| format!(", status {status}")).unwrap_or_default();
    let took = Duration::from_millis(record.duration_ms);
    let by = if record.start > 0 { format!(" after {took:.1?} on {}", record.owner) } else { String::new() };
    format!("{outcome}{by}{code}{status}{detail}")
}

fn not_over(run: &RunKey, record: &RunRecord, most: Duration) -> Failed {
    let state = if record.is_order() { "nobody has taken it" } else { record.state.as_str() };
    let message = format!("run `{run}` is not over after {}: {state}", config::duration_text(most));
    Failed { code: table_args::NO, message, hint: Some(format!("it goes on; `onecron cancel {run}` ends it")) }
}
