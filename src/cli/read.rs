//! `onecron status`, `jobs`, `runs` and `show`: what the store of a fleet knows.

use super::settings;
use super::store_args::Failed;
use super::store_args::ReadArgs;
use super::store_args::job_name;
use super::store_args::not_shown;
use super::store_args::wait_for;
use super::table_args;
use super::table_args::Format;
use super::table_args::printable;
use crate::admin;
use crate::admin::Condition;
use crate::admin::FleetView;
use crate::admin::JobView;
use crate::admin::RunView;
use crate::config;
use crate::job::JobName;
use crate::job::RunKey;
use crate::job::no_run_id;
use crate::job::parse_instant;
use chrono::DateTime;
use chrono::TimeDelta;
use chrono::Utc;
use clap::ArgMatches;
use clap::Args;
use serde::Serialize;
use std::io;
use std::io::Write;
use std::time::Duration;

/// How many decided ticks of a job `status` and `jobs` look at.
const LATEST: usize = 10;

/// Says how a fleet is: its replicas, what runs, and which jobs need somebody's eye
///
/// It reads the store, and needs no daemon. Exit codes: 0; 2 called wrongly; 3 with --check: a job fails or is stale, or no
/// replica is there; 69 the store does not answer; 78 a setting is refused.
#[derive(Debug, Clone, Args)]
pub struct StatusArgs {
    /// End with 3 where a job's last run failed or was missed, a job is stale, or no replica is there
    #[arg(long)]
    pub check: bool,
    /// Where, and how.
    #[command(flatten)]
    pub read: ReadArgs,
}

/// Lists the jobs of a fleet, with their last and next runs
///
/// It reads the store, and needs no daemon. Exit codes: 0; 2 called wrongly; 69 the store does not answer; 78 a setting is refused.
#[derive(Debug, Clone, Args)]
pub struct JobsArgs {
    /// Only those that need somebody's eye: the last run failed or was missed, they are stale or paused, or no replica has them any more
    #[arg(long)]
    pub failed: bool,
    /// Where, and how.
    #[command(flatten)]
    pub read: ReadArgs,
}

/// Lists runs and how they ended, newest first; also ticks that nobody ran, and why
///
/// It reads the store, and needs no daemon. Exit codes: 0; 1 the job is not known; 2 called wrongly; 69 the store does not
/// answer; 78 a setting is refused.
#[derive(Debug, Clone, Args)]
pub struct RunsArgs {
    /// The job [default: all]
    #[arg(value_name = "JOB")]
    pub job: Option<String>,
    /// Only runs that failed, and ticks that were missed
    #[arg(long)]
    pub failed: bool,
    /// Only those of so long ago at most, as 24h, or since an instant
    #[arg(long, value_name = "DURATION|INSTANT", value_parser = since)]
    pub since: Option<Since>,
    /// At most so many
    #[arg(short = 'n', long, value_name = "COUNT", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..))]
    pub count: u32,
    /// Where, and how.
    #[command(flatten)]
    pub read: ReadArgs,
}

/// Shows one run: who had it, when, how it ended, and the end of its output
///
/// It reads the store, and needs no daemon. Exit codes: 0; 1 the store knows no such run; 2 called wrongly; 69 the store does
/// not answer; 78 a setting is refused.
#[derive(Debug, Clone, Args)]
pub struct ShowArgs {
    /// The run's id, as in `run_id` of the log: nightly-sales@2026-03-01T02:00:00Z
    #[arg(value_name = "RUN_ID")]
    pub run: String,
    /// Where, and how.
    #[command(flatten)]
    pub read: ReadArgs,
}

/// The beginning of a span that ends now.
#[derive(Debug, Clone, Copy)]
pub enum Since {
    /// So long ago.
    Ago(Duration),
    /// That instant.
    At(DateTime<Utc>),
}

fn since(text: &str) -> Result<Since, String> {
    let is_duration = !text.contains(['-', ':']); // as instants have
    match (parse_instant(text), config::parse_duration(text)) {
        (Ok(at), _) => Ok(Since::At(at)),
        (_, Ok(ago)) => Ok(Since::Ago(ago)),
        (Err(instant), Err(duration)) if is_duration => Err(format!("{duration}; or {instant}")),
        (Err(instant), Err(_)) => Err(instant),
    }
}

impl Since {
    fn instant(self, now: DateTime<Utc>) -> DateTime<Utc> {
        match self {
            Self::Ago(ago) => {
                let ago = TimeDelta::from_std(ago).unwrap_or(TimeDelta::MAX);
                now.checked_sub_signed(ago).unwrap_or(DateTime::<Utc>::MIN_UTC)
            }
            Self::At(at) => at,
        }
    }
}

/// Shows a fleet. Returns the exit code.
pub fn status(args: &StatusArgs, given: &ArgMatches, (out, err): (&mut dyn Write, &mut dyn Write)) -> i32 {
    let shown = args.read.store.open(given, err).and_then(|store| {
        let fleet = wait_for(admin::fleet(&*store, LATEST))?;
        match args.read.output {
            Format::Json => show_json(out, &fleet)?,
            Format::Text => {
                let namespace = settings::namespace(args.read.store.namespace.as_deref())?;
                write_status(out, &fleet, (store.url(), namespace.as_str())).map_err(not_shown)?;
            }
        }
        let in_order = !fleet.replicas.is_empty() && !fleet.jobs.iter().any(is_failing);
        Ok(if args.check && !in_order { table_args::NO } else { table_args::OK })
    });
    shown.unwrap_or_else(|failed| failed.say(err))
}

/// Lists jobs. Returns the exit code.
pub fn jobs(args: &JobsArgs, given: &ArgMatches, (out, err): (&mut dyn Write, &mut dyn Write)) -> i32 {
    let shown = args.read.store.open(given, err).and_then(|store| {
        let mut fleet = wait_for(admin::fleet(&*store, LATEST))?;
        fleet.jobs.retain(|job| !args.failed || needs_an_eye(job));
        match args.read.output {
            Format::Json => show_json(out, &fleet.jobs)?,
            Format::Text => {
                write_jobs(out, &fleet.jobs.iter().collect::<Vec<_>>(), now_of(&fleet)).map_err(not_shown)?
            }
        }
        Ok(table_args::OK)
    });
    shown.unwrap_or_else(|failed| failed.say(err))
}

/// Lists runs. Returns the exit code.
pub fn runs(args: &RunsArgs, given: &ArgMatches, (out, err): (&mut dyn Write, &mut dyn Write)) -> i32 {
    let shown = args.job.as_deref().map(job_name).transpose().and_then(|name| {
        let store = args.read.store.open(given, err)?;
        let (jobs, now) = wait_for(async {
            let jobs = match &name {
                Some(name) => vec![admin::job(&*store, name, usize::MAX).await?],
                None => admin::fleet(&*store, usize::MAX).await?.jobs,
            };
            Ok((jobs, store.server_time().await?))
        })?;
        let since = args.since.map(|since| since.instant(now));
        let all = jobs.into_iter().flat_map(|job| job.running.into_iter().chain(job.last_runs));
        let mut runs: Vec<RunView> = all
            .filter(|run| !args.failed || run.is_failure() || run.is_missed())
            .filter(|run| since.is_none_or(|since| run.tick().is_some_and(|tick| tick.to_datetime() >= since)))
            .map(|run| RunView { output_tail: String::new(), ..run })
            .collect();
        runs.sort_by(|one, other| (&other.scheduled_for, &one.job).cmp(&(&one.scheduled_for, &other.job)));
        // A run that was called lost is in the history, and open until nobody can be running it any more.
        runs.dedup_by(|one, other| one.run_id == other.run_id);
        runs.truncate(usize::try_from(args.count).unwrap_or(usize::MAX));
        match args.read.output {
            Format::Json => show_json(out, &runs)?,
            Format::Text => write_runs(out, &runs, now).map_err(not_shown)?,
        }
        Ok(table_args::OK)
    });
    shown.unwrap_or_else(|failed| failed.say(err))
}

/// Shows a run. Returns the exit code.
pub fn show(args: &ShowArgs, given: &ArgMatches, (out, err): (&mut dyn Write, &mut dyn Write)) -> i32 {
    let parsed = RunKey::parse(&args.run).ok_or_else(|| {
        let hint = match JobName::new(&args.run) {
            Ok(job) => {
                format!("`onecron runs {job}` lists the runs of that job, and `onecron why {job}` tells of the last")
            }
            Err(_) => "write it as in `run_id` of the log: nightly-sales@2026-03-01T02:00:00Z".to_owned(),
        };
        Failed::usage(no_run_id(&args.run), hint)
    });
    let shown = parsed.and_then(|run| {
        let store = args.read.store.open(given, err)?;
        let view = wait_for(admin::run(&*store, &run))?;
        match args.read.output {
            Format::Json => show_json(out, &view)?,
            Format::Text => write_run(out, &view).map_err(not_shown)?,
        }
        Ok(table_args::OK)
    });
    shown.unwrap_or_else(|failed| failed.say(err))
}

/// Writes for programs what was read.
pub(super) fn show_json(out: &mut dyn Write, result: &impl Serialize) -> Result<(), Failed> {
    serde_json::to_writer_pretty(&mut *out, result).map_err(Into::into).and_then(|()| writeln!(out)).map_err(not_shown)
}

pub(super) fn is_gone(job: &JobView) -> bool {
    job.state == "gone"
}

fn is_failing(job: &JobView) -> bool {
    matches!(job.condition(), Condition::Failing | Condition::Missed | Condition::Stale)
}

fn needs_an_eye(job: &JobView) -> bool {
    is_failing(job) || is_gone(job) || job.paused.is_some()
}

fn now_of(fleet: &FleetView) -> DateTime<Utc> {
    DateTime::parse_from_rfc3339(&fleet.at).map_or(DateTime::UNIX_EPOCH, |at| at.to_utc())
}

/// How far an instant is from now, in words.
fn ago(instant: &str, now: DateTime<Utc>) -> String {
    let Ok(at) = DateTime::parse_from_rfc3339(instant) else { return String::new() };
    let delta = now - at.to_utc();
    let whole = Duration::from_secs(delta.num_seconds().unsigned_abs());
    // Of a long time the small parts are of no interest.
    let unit = [86_400, 3_600, 60].into_iter().find(|unit| whole.as_secs() >= unit * 10).unwrap_or(1);
    let text = config::duration_text(Duration::from_secs(whole.as_secs() / unit * unit));
    if delta < TimeDelta::zero() { format!("in {text}") } else { format!("{text} ago") }
}

/// How a tick stands, in a word or two.
fn how(run: &RunView) -> String {
    let word = run.word();
    let reason = if run.reason.is_empty() { String::new() } else { format!(" ({})", run.reason) };
    let code = run.exit_code.filter(|code| *code != 0).map(|code| format!(" ({code})")).unwrap_or_default();
    format!("{word}{reason}{code}")
}

fn row(cells: &[&str]) -> Vec<String> {
    cells.iter().map(|&cell| cell.to_owned()).collect()
}

fn write_status(out: &mut dyn Write, fleet: &FleetView, (url, namespace): (&str, &str)) -> io::Result<()> {
    let now = now_of(fleet);
    let count = fleet.jobs.iter().filter(|job| !is_gone(job)).count();
    let wrong = [Condition::Failing, Condition::Missed, Condition::Stale].map(|wrong| {
        let is_so = |job: &&JobView| job.condition() == wrong;
        (fleet.jobs.iter().filter(is_so).count(), wrong)
    });
    let jobs = match (count, admin::trouble(&wrong, count)) {
        (_, Some(trouble)) => trouble,
        (0, None) => "no replica has registered a job".to_owned(),
        (1, None) => "the one job is in order".to_owned(),
        (_, None) => format!("all {count} jobs are in order"),
    };
    let replicas = match fleet.replicas.len() {
        0 => "no replica is there".to_owned(),
        1 => "1 replica is there".to_owned(),
        more => format!("{more} replicas are there"),
    };
    let silence = admin::silence(&fleet.replicas);
    writeln!(out, "{jobs}; {replicas}{silence} ({url}, namespace {namespace})")?;
    if fleet.replicas.is_empty() && fleet.jobs.is_empty() {
        writeln!(out, "a fleet of another namespace is seen with --namespace")?;
    }
    if let Some(pause) = &fleet.paused {
        let reason = if pause.comment.is_empty() { String::new() } else { format!(" ({})", pause.comment) };
        let by = printable(&format!("{}{reason}", pause.by), &[]);
        writeln!(out, "all jobs are paused, by {by}: `onecron resume --all` lets them go on")?;
    }
    if !fleet.replicas.is_empty() {
        writeln!(out)?;
        let mut rows = vec![row(&["REPLICA", "HEARD", "VERSION", "REVISION", "JOBS", "RUNNING", "UP", "CLOCK"])];
        let has = |run: &RunView, name: &str| run.replica == name && run.is_going();
        for replica in &fleet.replicas {
            let clock = replica.clock_offset_seconds.map_or_else(String::new, |ahead| format!("{ahead:+.3}s"));
            let state = if replica.draining { " (draining)" } else { "" };
            let up = ago(&replica.up_since, now).replace(" ago", "");
            let running = fleet.jobs.iter().flat_map(|job| &job.running).filter(|run| has(run, &replica.name)).count();
            let (jobs, running) = (replica.jobs.to_string(), running.to_string());
            let revision: String = replica.revision.chars().take(12).collect();
            rows.push(row(&[
                &format!("{}{state}", replica.name),
                &ago(&replica.seen_at, now),
                &replica.version,
                &revision,
                &jobs,
                &running,
                &up,
                &clock,
            ]));
        }
        table_args::write_aligned(out, &rows)?;
    }
    let open = fleet.jobs.iter().flat_map(|job| job.running.iter().cloned());
    let (going, others): (Vec<RunView>, Vec<RunView>) = open.partition(RunView::is_going);
    for (title, runs) in [("running now", going), ("open, and not running", others)] {
        if !runs.is_empty() {
            writeln!(out, "\n{title}")?;
            write_open_runs(out, &runs, now)?;
        }
    }
    let wrong: Vec<&JobView> = fleet.jobs.iter().filter(|job| needs_an_eye(job)).collect();
    if !wrong.is_empty() {
        writeln!(out, "\njobs that need an eye")?;
        write_jobs(out, &wrong, now)?;
    }
    Ok(())
}

fn write_jobs(out: &mut dyn Write, jobs: &[&JobView], now: DateTime<Utc>) -> io::Result<()> {
    if jobs.is_empty() {
        return writeln!(out, "no jobs");
    }
    let mut rows = vec![row(&["JOB", "STATE", "SCHEDULE", "ZONE", "LAST", "ENDED", "FAILURES", "NEXT"])];
    for job in jobs {
        let state = job.condition().as_str();
        let last = job.last_run().map(how).unwrap_or_default();
        let ended = job.last_run().and_then(|run| run.finished_at.as_deref()).map(|at| ago(at, now));
        let next = match job.next.first() {
            Some(_) if job.paused.is_some() => "not while paused".to_owned(),
            Some(next) => format!("{next} ({})", ago(next, now)),
            None => String::new(),
        };
        let (ended, failures) = (ended.unwrap_or_default(), job.consecutive_failures.to_string());
        rows.push(row(&[&job.name, state, &job.schedule, &job.time_zone, &last, &ended, &failures, &next]));
    }
    table_args::write_aligned(out, &rows)
}

fn write_open_runs(out: &mut dyn Write, runs: &[RunView], now: DateTime<Utc>) -> io::Result<()> {
    let mut rows = vec![row(&["RUN", "HOW", "SINCE", "REPLICA"])];
    for run in runs {
        let since = run.started_at.as_deref().map(|at| ago(at, now).replace(" ago", "")).unwrap_or_default();
        rows.push(row(&[&run.run_id, &how(run), &since, &run.replica]));
    }
    table_args::write_aligned(out, &rows)
}

fn write_runs(out: &mut dyn Write, runs: &[RunView], now: DateTime<Utc>) -> io::Result<()> {
    if runs.is_empty() {
        return writeln!(out, "no runs");
    }
    let mut rows = vec![row(&["RUN", "HOW", "TOOK", "ENDED", "REPLICA"])];
    for run in runs {
        let took = run.duration_seconds.map_or_else(String::new, |seconds| format!("{seconds:.3}s"));
        let ended = run.finished_at.as_deref().map(|at| ago(at, now)).unwrap_or_default();
        let many = if run.range_count > 1 { format!(" and {} before it", run.range_count - 1) } else { String::new() };
        rows.push(row(&[&format!("{}{many}", run.run_id), &how(run), &took, &ended, &run.replica]));
    }
    table_args::write_aligned(out, &rows)
}

fn write_run(out: &mut dyn Write, run: &RunView) -> io::Result<()> {
    let mut rows = vec![row(&["run", &run.run_id]), row(&["how", &how(run)])];
    let mut add = |title: &str, text: &str| {
        if !text.is_empty() {
            rows.push(row(&[title, text]));
        }
    };
    add("replica", &run.replica);
    add("ordered by", &run.ordered_by);
    add("started", run.started_at.as_deref().unwrap_or_default());
    add("ended", run.finished_at.as_deref().unwrap_or_default());
    add("took", &run.duration_seconds.map_or_else(String::new, |seconds| format!("{seconds:.3}s")));
    add("attempts", &run.attempts.to_string());
    add("signal", &run.signal.map_or_else(String::new, |signal| signal.to_string()));
    add("status", &run.http_status.map_or_else(String::new, |status| status.to_string()));
    add("error", &run.error);
    add("said later", &run.late_outcome);
    if run.range_count > 1 {
        add("ticks", &format!("{} since {}, settled together", run.range_count, run.range_first));
    }
    table_args::write_aligned(out, &rows)?;
    let was_run = run.state == "done" && run.attempts > 0;
    match (run.output_tail.as_str(), run.http_status) {
        ("", _) if was_run => {
            writeln!(
                out,
                "\nno output is kept of it: it had none, it ran in the foreground, or newer runs took its place"
            )
        }
        ("", _) => Ok(()),
        (tail, Some(_)) => {
            writeln!(out, "\nthe beginning of the answer\n{}", printable(tail.trim_end(), &['\n', '\t']))
        }
        (tail, None) => writeln!(out, "\nthe end of its output\n{}", printable(tail.trim_end(), &['\n', '\t'])),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admin::PauseView;

    #[test]
    fn who_paused_all_and_why_moves_no_terminal() {
        let bad = "a\u{1b}[31mb\u{202e}".to_owned();
        let pause = PauseView { by: bad.clone(), since: String::new(), comment: bad, all: true };
        let (replicas, past, jobs) = (Vec::new(), Vec::new(), Vec::new());
        let fleet = FleetView { at: String::new(), paused: Some(pause), replicas, past, jobs };
        let mut out = Vec::new();
        write_status(&mut out, &fleet, ("memory:", "default")).unwrap();
        let shown = "all jobs are paused, by a\\u{1b}[31mb\\u{202e} (a\\u{1b}[31mb\\u{202e})";
        let text = String::from_utf8(out).unwrap();
        assert!(text.contains(shown), "{text}");
    }

    #[test]
    fn a_span_longer_than_time_itself_begins_with_it() {
        assert_eq!(Since::Ago(Duration::MAX).instant(DateTime::UNIX_EPOCH), DateTime::<Utc>::MIN_UTC);
    }

    #[test]
    fn a_distance_in_time_is_told_in_few_words() {
        let now = DateTime::from_timestamp(1_772_330_400, 0).unwrap();
        for (seconds, text) in [
            (-1, "in 1s"),
            (0, "0s ago"),
            (75, "1m15s ago"),
            (601, "10m ago"),
            (3_600 * 30, "1d6h ago"),
            (86_400 * 12, "12d ago"),
        ] {
            let at = (now - TimeDelta::seconds(seconds)).to_rfc3339();
            assert_eq!(ago(&at, now), text, "{seconds}");
        }
    }
}
