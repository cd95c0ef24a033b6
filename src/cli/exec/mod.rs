//! `onecron exec`: one run of a job, here and now, for whoever waits for it.

mod plan;

use super::settings;
use super::store_args;
use super::store_args::Failed;
use super::store_args::StoreArgs;
use super::store_args::not_shown;
use super::table_args;
use super::table_args::TableArgs;
use super::table_args::printable;
use crate::admin;
use crate::admin::Actor;
use crate::admin::Wanted;
use crate::clock::Clock;
use crate::clock::SystemClock;
use crate::daemon::foreground;
use crate::daemon::foreground::Claimed;
use crate::daemon::foreground::Ended;
use crate::daemon::foreground::Foreground;
use crate::executor::RunContext;
use crate::job::Ending;
use crate::job::JobSpec;
use crate::job::JobTable;
use crate::job::Outcome;
use crate::job::RunKey;
use crate::job::Tick;
use crate::job::Trigger;
use crate::store::Store;
use clap::ArgMatches;
use clap::Args;
use signal_hook_tokio::Signals;
use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime;
use tokio::time::timeout;

/// Exit code: it succeeded, and the store did not take how it ended.
const UNRECORDED: i32 = 75;
/// What shells add to the number of a signal.
const BY_SIGNAL: i32 = 128;
/// How long the end of a command that is asked to stop waits for the store.
const WITHDRAW_WITHIN: Duration = Duration::from_secs(3);

/// Runs a job once, here and now, in the foreground
///
/// With the job's environment, folder and timeout, and with nothing to read on its standard input. Its output goes to where that of
/// this command goes, as it is. TERM, INT, QUIT and HUP are passed on; the job then has its terminationGracePeriod, and KILL follows. No
/// attempt follows one that failed.
///
/// Without --claim nobody else knows of the run: it may be going twice, and its fencing token is 0. With it, the store is asked first, as
/// for a run by hand: nothing is run while another run of the job is going, replicas do meanwhile what the job's concurrencyPolicy says, and
/// how it ended is recorded.
///
/// Exit codes: the job's own, or 128 and the number of the signal that ended it; of an HTTP job 0 or 1. Where the job ended with 0 and the
/// run is no success (its time was over, it was stopped, 0 is none of its successExitCodes): 1. Before it begins: 1 it could not be
/// started; 2 called wrongly, or the table has no such job; 3 another run has the job, or it is paused; 69 the store does not answer; 78 the
/// table or a setting is refused. 75 it succeeded, whatever its code, and the store did not take that.
#[derive(Debug, Clone, Args)]
pub struct ExecArgs {
    /// The job, as the table calls it
    #[arg(value_name = "JOB")]
    pub job: String,
    /// Have it claimed in the store first, so that no replica runs it meanwhile, and how it ended recorded
    #[arg(long)]
    pub claim: bool,
    /// With --claim: also where the job is paused
    #[arg(long, requires = "claim")]
    pub force: bool,
    /// Show what would be run, without secrets, and run nothing
    #[arg(long)]
    pub dry_run: bool,
    /// With --claim: who runs it, as it stands in logs and records [default: the user and the host]
    #[arg(long, value_name = "NAME", env = "ONECRON_BY", value_parser = admin::words)]
    pub by: Option<String>,
    /// Where the table is.
    #[command(flatten)]
    pub table: TableArgs,
    /// Where the daemons agree.
    #[command(flatten)]
    pub store: StoreArgs,
}

/// Runs the command. Returns the exit code.
pub fn run(args: &ExecArgs, given: &ArgMatches, (out, err): (&mut dyn Write, &mut dyn Write)) -> i32 {
    execute(args, given, (out, err)).unwrap_or_else(|failed| failed.say(err))
}

fn execute(args: &ExecArgs, given: &ArgMatches, (out, err): (&mut dyn Write, &mut dyn Write)) -> Result<i32, Failed> {
    let store_is_named = ["store", "store_file"].into_iter().any(|id| settings::weight(given, id) == 2);
    if store_is_named && !args.claim {
        let hint = "write --claim as well, or leave --store out";
        return Err(Failed::usage("a store is named, and without --claim none is asked", hint));
    }
    let mut refused = |code, report: String| {
        // Nothing can be done about a closed terminal.
        let _ = write!(err, "{report}");
        Ok(code)
    };
    let table = match table_args::load(&args.table.jobs, SystemClock.now().wall) {
        Ok(table) => table,
        Err(report) => return refused(table_args::CONFIG, report),
    };
    let spec = match table_args::job(&table.jobs, &args.job) {
        Ok(spec) => Arc::clone(spec),
        Err(report) => return refused(table_args::USAGE, report),
    };
    let redaction = &table.scheduler.redact;
    if args.dry_run {
        plan::write(out, (&spec, redaction), args.claim).map_err(not_shown)?;
        return Ok(table_args::OK);
    }
    let actor = store_args::actor(args.by.as_deref())?;
    let runtime = runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| failed(format!("start a runtime: {error}")))?;
    let ended = runtime.block_on(async {
        // Before the claim: what comes from here on ends the job, and not this process.
        let mut signals = foreground::listen().map_err(|error| failed(format!("listen for signals: {error}")))?;
        let (context, claim) = begin(args, (given, err, &mut signals), (&actor, &spec, &table)).await?;
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        let guardian = PathBuf::from("/proc/self/exe");
        let run = Foreground { spec: Arc::clone(&spec), context, claim, clock, guardian };
        let mut tell = |text: &str| _ = writeln!(err, "warning: {}", printable(text, &[]));
        Ok::<_, Failed>(run.carry_out(signals, &mut tell).await)
    })?;
    // A program that is being started cannot be waited for.
    runtime.shutdown_background();
    Ok(told(&ended, (out, err)))
}

fn failed(message: String) -> Failed {
    Failed { code: table_args::FAILED, message, hint: None }
}

/// What the job is told about its run, and the claim where one is wanted. A signal ends the waiting for it.
async fn begin(
    args: &ExecArgs,
    (given, err, signals): (&ArgMatches, &mut dyn Write, &mut Signals),
    (actor, spec, table): (&Actor, &JobSpec, &JobTable),
) -> Result<(RunContext, Option<Claimed>), Failed> {
    let number = admin::number();
    let now = Tick::manual(SystemClock.now().wall.timestamp_millis(), number);
    let alone = RunContext {
        run: RunKey::new(spec.name.clone(), now),
        scheduled_for: now.second(),
        start: 1,
        // Below all others: a resource that looks at tokens refuses it.
        token: 0,
        trigger: Trigger::Manual.as_str().to_owned(),
        holder: actor.name.clone(),
        last_success: None,
        redaction: table.scheduler.redact.clone(),
        // A caller that is traced has said so in the environment that the job gets.
        trace: None,
    };
    if !args.claim {
        return Ok((alone, None));
    }
    let store = args.store.open(given, err)?;
    let (job, lease) = (spec.name.clone(), table.scheduler.lock_lease);
    let wanted = Wanted { job, key: String::new(), runs_for: None, despite_pause: args.force, number };
    let beginning = admin::begin_here((&*store, &SystemClock), actor, &wanted, (spec, lease));
    let begun = match foreground::unless_signalled(signals, beginning).await {
        Ok(begun) => begun?,
        Err(signal) => return Err(ended_early(signal, &*store, actor, spec).await),
    };
    // Nothing can be done about a closed terminal.
    let _ = writeln!(err, "{}", begun.run);
    let (run, scheduled_for, start, token, last_success) =
        (begun.run.clone(), begun.scheduled_for, begun.start, begun.token, begun.last_success);
    let context = RunContext { run, scheduled_for, start, token, last_success, ..alone };
    Ok((context, Some(Claimed { store, owner: actor.name.clone(), begun, lease })))
}

/// A signal came before the run had begun: nobody is to run what was ordered by then.
async fn ended_early(signal: i32, store: &dyn Store, actor: &Actor, spec: &JobSpec) -> Failed {
    let code = BY_SIGNAL + signal;
    let withdrawn = timeout(WITHDRAW_WITHIN, admin::withdraw_own(store, actor, &spec.name)).await;
    let (found, hint) = match withdrawn {
        Ok(Ok(None)) => ("there was no run yet".to_owned(), None),
        Ok(Ok(Some(run))) => (format!("run `{run}` is cancelled"), None),
        Ok(Err(_)) | Err(_) => (
            "the store does not say whether there is a run, which a replica would carry out".to_owned(),
            Some(format!("`onecron runs {}` shows it, and `onecron cancel` ends it", spec.name)),
        ),
    };
    Failed { code, message: format!("asked to stop before job `{}` was started: {found}", spec.name), hint }
}

/// Says what came of it. Returns the exit code.
fn told(ended: &Ended, (out, err): (&mut dyn Write, &mut dyn Write)) -> i32 {
    let Ended { ending, unrecorded } = ended;
    let Ending { outcome, error, output_tail, .. } = ending;
    let said = printable(output_tail, &['\n', '\t']);
    if !said.is_empty() {
        let _ = writeln!(out, "{}", said.trim_end_matches('\n'));
    }
    if !error.is_empty() {
        let _ = writeln!(err, "error: {}", printable(error, &[]));
    }
    if let Some(why) = unrecorded {
        let _ = writeln!(err, "error: the store did not take how the run ended, {outcome}: {}", printable(why, &[]));
    }
    let succeeded = *outcome == Outcome::Succeeded;
    match (ending.exit_code, ending.signal) {
        _ if succeeded && unrecorded.is_some() => UNRECORDED,
        // Of a job that was stopped, and made a good end of it: that is no success.
        (Some(table_args::OK), _) if !succeeded => table_args::FAILED,
        (Some(code), _) => code,
        (None, Some(signal)) => BY_SIGNAL + signal,
        (None, None) if succeeded => table_args::OK,
        (None, None) => table_args::FAILED,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_exit_code_says_0_only_of_a_success_that_is_recorded() {
        for (outcome, exit_code, signal, is_recorded, code) in [
            (Outcome::Succeeded, Some(0), None, true, 0),
            (Outcome::Succeeded, None, None, true, 0),
            (Outcome::Succeeded, Some(3), None, true, 3),
            (Outcome::Succeeded, Some(0), None, false, 75),
            (Outcome::Succeeded, Some(3), None, false, 75),
            (Outcome::Succeeded, None, None, false, 75),
            (Outcome::TimedOut, Some(0), None, true, 1),
            (Outcome::Failed, Some(0), None, true, 1),
            (Outcome::Failed, Some(0), None, false, 1),
            (Outcome::Failed, Some(7), None, false, 7),
            (Outcome::Failed, None, None, true, 1),
            (Outcome::Interrupted, None, Some(15), false, 143),
        ] {
            let (error, output_tail) = (String::new(), String::new());
            let ending = Ending { outcome, exit_code, signal, http_status: None, duration_ms: 1, error, output_tail };
            let ended = Ended { ending, unrecorded: (!is_recorded).then(|| "it is away".to_owned()) };
            assert_eq!(told(&ended, (&mut Vec::new(), &mut Vec::new())), code, "{ended:?}");
        }
    }
}
