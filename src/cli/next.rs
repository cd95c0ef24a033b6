//! `onecron next`: the coming runs of a schedule, or of the jobs of a table.

use super::schedules;
use super::schedules::Refusal;
use super::schedules::Run;
use super::store_args::not_shown;
use super::table_args;
use super::table_args::Format;
use super::table_args::TableArgs;
use super::transitions;
use crate::config;
use crate::job::JobName;
use crate::job::JobSpec;
use crate::job::Tick;
use crate::job::parse_instant;
use crate::schedule;
use crate::schedule::Schedule;
use crate::schedule::ScheduleError;
use chrono::DateTime;
use chrono::TimeDelta;
use chrono::Utc;
use clap::ArgMatches;
use clap::Args;
use clap::parser::ValueSource;
use std::collections::HashMap;
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
    /// A schedule to try out, instead of a table; several are those of one job
    #[arg(long, value_name = "EXPR", allow_hyphen_values = true)]
    pub schedule: Vec<String>,
    /// Time zone of --schedule
    #[arg(long, visible_alias = "time-zone", value_name = "ZONE", requires = "schedule", default_value = "UTC")]
    pub timezone: String,
    /// Name of the job that --schedule is for: `H` takes its number from it
    #[arg(long, value_name = "NAME", requires = "schedule", value_parser = JobName::new)]
    pub job: Option<JobName>,
    /// Runs strictly after this instant [default: now]
    #[arg(long, value_name = "RFC3339", value_parser = parse_instant)]
    pub from: Option<DateTime<Utc>>,
    /// Runs up to this instant, itself included; all of them, up to 10000, unless --count says less
    #[arg(long, value_name = "RFC3339", value_parser = parse_instant)]
    pub until: Option<DateTime<Utc>>,
    /// How many runs of each job [default: 5, or all up to --until]
    #[arg(short = 'n', long, allow_hyphen_values = true, value_parser = clap::value_parser!(u16).range(1..=i64::from(COUNT_MOST)))]
    pub count: Option<u16>,
    /// The coming changes of the zone's clocks, up to --until or within a year, and what becomes of runs there
    #[arg(long, conflicts_with = "count")]
    pub transitions: bool,
    /// How to write the result
    #[arg(short, long, value_enum, default_value_t)]
    pub output: Format,
}

/// How many runs of a job are shown at most.
const COUNT_MOST: u16 = 10_000;
/// How many are shown if nothing is said.
const COUNT: u16 = 5;

/// What is wrong with a call though every argument is right: a table was named that would not be looked at. `given`
/// tells an argument from a variable, which may be there for other commands.
pub fn conflict(given: &ArgMatches) -> Option<&'static str> {
    let by_argument = |id: &str| given.value_source(id) == Some(ValueSource::CommandLine);
    (by_argument("schedule") && by_argument("jobs")).then_some(
        "--schedule and --jobs cannot be used together: the runs are those of the schedule or those of the table",
    )
}

/// Runs the command. Returns the exit code: 0, 2 (no such job, or an --until that is past), 78 (the schedule, zone or
/// table is refused; `err` says why), 1 (not written), 141 (nobody reads it).
pub fn run(args: &NextArgs, out: &mut dyn Write, err: &mut dyn Write, now: DateTime<Utc>) -> i32 {
    match show(args, (out, err), now) {
        Ok(Ok(())) => table_args::OK,
        Ok(Err(error)) => not_shown(error).say(err),
        Err((code, text)) => match write!(err, "{text}") {
            Ok(()) => code,
            Err(_) => table_args::FAILED,
        },
    }
}

fn show(
    args: &NextArgs,
    (out, err): (&mut dyn Write, &mut dyn Write),
    now: DateTime<Utc>,
) -> Result<io::Result<()>, Refusal> {
    let from = args.from.unwrap_or(now);
    if let Some(until) = args.until.filter(|until| *until <= from) {
        let (until, from) = (table_args::utc(until), table_args::utc(from));
        let text = format!("error: --until {until} is not later than {from}, from where runs are looked for\n");
        return Err((table_args::USAGE, format!("{text}hint: write a later --until, or an earlier --from\n")));
    }
    let jobs = if args.schedule.is_empty() { of_table(args, now)? } else { Vec::new() };
    let alone = of_schedules(args)?;
    let mut notes = outside(from, args.until).chain(schedules::unnamed(&args.schedule, args.job.as_ref()));
    let written = notes.try_for_each(|note| writeln!(err, "{note}"));
    if written.is_err() {
        return Ok(written);
    }
    let mut schedules: Vec<(Option<&str>, &Schedule)> = alone.iter().map(|schedule| (None, schedule)).collect();
    schedules.extend(jobs.iter().map(|job| (Some(job.name.as_str()), &job.schedule)));
    if args.transitions {
        let until = args.until.unwrap_or_else(|| schedules::a_year_after(from));
        return Ok(transitions::write(out, &schedules, (from, until), args.output));
    }
    let mut listing = Listing { from, until: args.until, count: args.count, ..Listing::default() };
    schedules.into_iter().for_each(|(job, schedule)| listing.add(job, schedule));
    let by_name: HashMap<&str, &JobSpec> = jobs.iter().map(|job| (job.name.as_str(), &**job)).collect();
    for run in &mut listing.runs {
        let job = run.job.and_then(|name| by_name.get(name));
        job.into_iter().for_each(|job| add_note(run, job));
    }
    Ok(listing.write((out, err), args.output))
}

/// What is said of a span that goes beyond the years for which ticks are computed.
fn outside(from: DateTime<Utc>, until: Option<DateTime<Utc>>) -> impl Iterator<Item = String> {
    let (first, last) = schedule::years();
    let early = (from < first - TimeDelta::seconds(1)).then(|| {
        format!("runs are computed from 1900 on: of the time from {} to then none is shown", table_args::utc(from))
    });
    let late = until.filter(|until| *until > last).map(|until| {
        format!("runs are computed before 2200: of the time from then to {} none is shown", table_args::utc(until))
    });
    early.into_iter().chain(late)
}

/// What the table says of a run, beside its schedule.
fn add_note(run: &mut Run<'_>, job: &JobSpec) {
    let tick = Tick::from_datetime(run.tick);
    let next = job.schedule.after(run.tick).map(|next| next.timestamp());
    let delay = job.delay(tick, next);
    let jitter = (!delay.is_zero()).then(|| format!("due {} later (jitter)", config::duration_text(delay)));
    let suspended = job.suspend.then(|| "suspended: does not run".to_owned());
    let notes: Vec<String> = run.note.take().into_iter().chain(jitter).chain(suspended).collect();
    run.note = (!notes.is_empty()).then(|| notes.join("; "));
}

/// All `--schedule` together; `None` if there is none.
fn of_schedules(args: &NextArgs) -> Result<Option<Schedule>, Refusal> {
    let refused = |text: &str, error: &ScheduleError| schedules::refused("--schedule", text, error);
    let all = schedules::read(&args.schedule, (&args.timezone, args.job.as_ref()), refused)?;
    // As in the list of a job.
    let again = |(index, schedule): (usize, &Schedule)| {
        let first = all[..index].iter().find(|other| other.canonical() == schedule.canonical())?;
        let (found, first) = (schedule.text(), first.text());
        Some(format!("error: --schedule: `{found}` says again what `{first}` says before it\nhint: remove it\n"))
    };
    let said: String = all.iter().enumerate().filter_map(again).collect();
    if !said.is_empty() {
        return Err((table_args::CONFIG, said));
    }
    Ok(all.into_iter().reduce(|schedule, other| schedule.or(&other)))
}

/// The jobs that were named, in that order; all if none was.
fn of_table(args: &NextArgs, now: DateTime<Utc>) -> Result<Vec<Arc<JobSpec>>, Refusal> {
    let jobs = table_args::load(&args.table.jobs, now).map_err(|report| (table_args::CONFIG, report))?.jobs;
    if args.names.is_empty() {
        return Ok(jobs);
    }
    let find = |name: &String| table_args::job(&jobs, name).map(Arc::clone).map_err(|text| (table_args::USAGE, text));
    args.names.iter().map(find).collect()
}

/// What is shown.
#[derive(Default)]
struct Listing<'a> {
    from: DateTime<Utc>,
    until: Option<DateTime<Utc>>,
    count: Option<u16>,
    runs: Vec<Run<'a>>,
    /// Schedules without any run, by the name of their job.
    empty: Vec<Option<&'a str>>,
    /// Schedules with more runs than are shown though nobody said how many, and the last one that is.
    cut: Vec<(Option<&'a str>, DateTime<Utc>)>,
    /// Schedules with fewer runs than are asked for, since the years end.
    ended: Vec<Option<&'a str>>,
}

impl<'a> Listing<'a> {
    fn add(&mut self, job: Option<&'a str>, schedule: &Schedule) {
        let most = self.count.unwrap_or(if self.until.is_some() { COUNT_MOST } else { COUNT });
        let is_early = |tick: &DateTime<Utc>| self.until.is_none_or(|until| *tick <= until);
        let ticks = std::iter::successors(schedule.after(self.from), |tick| schedule.after(*tick));
        let ticks: Vec<_> = ticks.take_while(is_early).take(usize::from(most)).collect();
        match ticks.last() {
            None => self.empty.push(job),
            Some(last) => {
                let is_full = self.count.is_none() && ticks.len() == usize::from(COUNT_MOST);
                if is_full && schedule.after(*last).is_some_and(|next| is_early(&next)) {
                    self.cut.push((job, *last));
                }
                if self.until.is_none() && ticks.len() < usize::from(most) {
                    self.ended.push(job);
                }
            }
        }
        self.runs.extend(ticks.into_iter().map(|tick| Run::new(job, schedule, tick)));
    }

    fn write(&self, (out, err): (&mut dyn Write, &mut dyn Write), format: Format) -> io::Result<()> {
        let named = |job: &Option<&str>| job.map_or(String::new(), |name| format!("{name}: "));
        if format == Format::Json {
            serde_json::to_writer_pretty(&mut *out, &self.runs)?;
            writeln!(out)?;
        } else {
            if !self.runs.is_empty() || self.empty.is_empty() {
                table_args::write_aligned(out, &schedules::rows(&self.runs))?;
            }
            for job in &self.empty {
                let end =
                    self.until.map_or("before 2200".to_owned(), |until| format!("up to {}", table_args::utc(until)));
                writeln!(out, "{}no further run {end}", named(job))?;
            }
        }
        for job in &self.ended {
            writeln!(err, "{}no further run before 2200", named(job))?;
        }
        for (job, last) in &self.cut {
            let last = table_args::utc(*last);
            writeln!(err, "{}only the first {COUNT_MOST} runs are shown: go on with --from {last}", named(job))?;
        }
        Ok(())
    }
}
