//! `onecron doctor`: everything that a daemon needs, looked at from this machine.

use super::read::is_gone;
use super::read::show_json;
use super::settings;
use super::store_args::Failed;
use super::store_args::StoreArgs;
use super::store_args::UNAVAILABLE;
use super::store_args::not_shown;
use super::store_args::wait_for;
use super::table_args;
use super::table_args::Format;
use super::table_args::TableArgs;
use super::table_args::printable;
use crate::admin;
use crate::admin::FleetView;
use crate::admin::Refusal;
use crate::clock::Clock;
use crate::clock::SystemClock;
use crate::config;
use crate::config::Loaded;
use crate::config::Severity;
use crate::plural::counted;
use crate::schedule::zone_data_version;
use crate::store::Class;
use crate::store::Probe;
use crate::store::Store;
use chrono::TimeDelta;
use clap::ArgMatches;
use clap::Args;
use serde::Serialize;
use std::collections::BTreeSet;
use std::io;
use std::io::Write;
use std::time::Duration;

/// How often the store is asked for the time: the quickest answer says most about its clock.
const TRIES: usize = 5;
/// What is too far from the store's clock where no table says so: the default of `clockSkewTolerance`.
const SKEW: Duration = Duration::from_millis(500);
/// A store that takes longer than this to tell the time is said to be slow.
const SLOW: Duration = Duration::from_millis(250);

/// Looks at everything that a daemon needs: the store, its settings and its clock, the table, the zone data, the fleet
///
/// It changes nothing, but makes the tables in a PostgreSQL or MySQL that has none. Exit codes: 0; 2 called wrongly; 3 with --strict: something is not as it should be; 69 the store does
/// not answer; 78 a setting or the table is refused.
#[derive(Debug, Clone, Args)]
pub struct DoctorArgs {
    /// Where the table is. One that is not named and not there is not looked at.
    #[command(flatten)]
    pub table: TableArgs,
    /// Where the daemons agree.
    #[command(flatten)]
    pub store: StoreArgs,
    /// End with 3 where something is not as it should be
    #[arg(long)]
    pub strict: bool,
    /// How to write the result; json is an array of checks
    #[arg(short, long, value_enum, default_value_t)]
    pub output: Format,
}

/// How something is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Health {
    Good,
    Doubtful,
    Bad,
    /// It was not looked at.
    Unseen,
}

/// One thing that was looked at.
#[derive(Debug, Serialize)]
struct Check {
    check: &'static str,
    health: Health,
    found: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    wanted: String,
}

impl Check {
    fn good(check: &'static str, found: impl Into<String>) -> Self {
        Self { check, health: Health::Good, found: found.into(), wanted: String::new() }
    }

    fn doubtful(check: &'static str, found: impl Into<String>, wanted: impl Into<String>) -> Self {
        Self { check, health: Health::Doubtful, found: found.into(), wanted: wanted.into() }
    }

    fn bad(check: &'static str, found: impl Into<String>, wanted: impl Into<String>) -> Self {
        Self { check, health: Health::Bad, found: found.into(), wanted: wanted.into() }
    }
}

/// Runs the command. Returns the exit code.
pub fn run(args: &DoctorArgs, given: &ArgMatches, (out, err): (&mut dyn Write, &mut dyn Write)) -> i32 {
    let (mut checks, tolerance, table) = look_at_table(args, given);
    checks.push(Check::good("zone data", zone_data_version()));
    let store = match args.store.open(given, err) {
        Ok(store) => {
            let (found, code) = look_at_store(&*store, tolerance);
            checks.extend(found);
            code
        }
        Err(Failed { code, message, hint }) => {
            checks.push(Check::bad("store", message, hint.unwrap_or_default()));
            code
        }
    };
    let written = match args.output {
        Format::Json => show_json(out, &checks),
        Format::Text => write_checks(out, &checks).map_err(not_shown),
    };
    if let Err(failed) = written {
        return failed.say(err);
    }
    let is_doubtful = checks.iter().any(|check| matches!(check.health, Health::Doubtful | Health::Bad));
    let strict = if args.strict && is_doubtful { table_args::NO } else { table_args::OK };
    [table, store].into_iter().find(|code| *code != table_args::OK).unwrap_or(strict)
}

/// The table, how far clocks may be apart by it, and an exit code.
fn look_at_table(args: &DoctorArgs, given: &ArgMatches) -> (Vec<Check>, Duration, i32) {
    if settings::weight(given, "jobs") == 0 && !args.table.jobs.iter().any(|path| path.exists()) {
        let found = "none was looked at: --jobs names one".to_owned();
        let check = Check { check: "table", health: Health::Unseen, found, wanted: String::new() };
        return (vec![check], SKEW, table_args::OK);
    }
    let sources = table_args::sources(&args.table.jobs);
    let found = config::load(&sources, SystemClock.now().wall);
    match found {
        Ok(Loaded { table, warnings, needs }) => {
            let missing = needs.missing_here(&sources);
            let mut checks = vec![Check::good(
                "table",
                format!("{}, revision {}", counted(table.jobs.len(), "job"), table.revision),
            )];
            let problems = warnings.iter().chain(&missing);
            checks.extend(problems.map(|problem| Check::doubtful("table", problem.to_string(), "")));
            (checks, table.scheduler.clock_skew_tolerance, table_args::OK)
        }
        Err(problems) => {
            let errors = problems.iter().filter(|problem| problem.severity == Severity::Error);
            let checks = errors.map(|problem| Check::bad("table", problem.to_string(), "")).collect();
            (checks, SKEW, table_args::CONFIG)
        }
    }
}

/// What is found of a store, and an exit code.
fn look_at_store(store: &dyn Store, tolerance: Duration) -> (Vec<Check>, i32) {
    let asked = async {
        let clock = ask_the_time(store).await?;
        Ok::<_, Refusal>((clock, store.probe().await?, admin::fleet(store, 1).await?))
    };
    let found = wait_for(async { Ok(asked.await) });
    match found.and_then(|found| found.map_err(|refusal| Failed { hint: refusal.hint_of_doctor(), ..refusal.into() })) {
        Ok((clock, probe, fleet)) => {
            let mut checks = of_probe(store.url(), &probe);
            let (took, ahead) = clock;
            checks.extend(of_clock((took, store.has_clock().then_some(ahead)), tolerance));
            checks.extend(of_fleet(&fleet));
            (checks, table_args::OK)
        }
        Err(failed) => {
            let code = if failed.code == table_args::CONFIG { table_args::CONFIG } else { UNAVAILABLE };
            (vec![Check::bad("store", failed.message, failed.hint.unwrap_or_default())], code)
        }
    }
}

/// How long the quickest answer took, and how far our clock was ahead of it. (The first one connects. A store without a
/// clock is asked who is there: it would say the time without asking anybody.)
async fn ask_the_time(store: &dyn Store) -> Result<(Duration, TimeDelta), Refusal> {
    let mut best: Option<(Duration, TimeDelta)> = None;
    for _ in 0..=TRIES {
        let asked = SystemClock.now();
        let told = match store.has_clock() {
            true => store.server_time().await?,
            false => store.meet(None, &[]).await.map(|_| asked.wall)?,
        };
        let took = SystemClock.now().boot.since(asked.boot);
        let middle = asked.wall + TimeDelta::from_std(took / 2).unwrap_or_default();
        if best.is_none_or(|(quickest, _)| took < quickest) {
            best = Some((took, middle - told));
        }
    }
    Ok(best.unwrap_or_default())
}

fn of_probe(url: &str, probe: &Probe) -> Vec<Check> {
    let Probe { class, version, reach, findings } = probe;
    let worth = match class {
        Class::A => "what it acknowledged is on disk, and one server decides",
        Class::B => "the last second before a power cut or a failover may be lost",
        Class::C => "more than the last second may be lost",
    };
    let store = format!("{url} answers: {version}, class {class} ({worth}), reach: {}", reach.as_str());
    let mut checks = vec![Check::good("store", store)];
    checks.extend(findings.iter().map(|finding| Check::doubtful(finding.check, &finding.found, &finding.wanted)));
    checks
}

fn of_clock((took, ahead): (Duration, Option<TimeDelta>), tolerance: Duration) -> Vec<Check> {
    let latency = format!("its quickest answer took {took:.1?}");
    let latency = match took > SLOW {
        true => Check::doubtful("latency", latency, "a store closer by: each start of a run waits for two answers"),
        false => Check::good("latency", latency),
    };
    let Some(ms) = ahead.map(|ahead| ahead.num_milliseconds()) else {
        let none = "the store has none: replicas go by their own, so set all of them by NTP";
        return vec![latency, Check::good("clock", none)];
    };
    let (word, by) = if ms < 0 { ("behind", ms.unsigned_abs()) } else { ("ahead of", ms.unsigned_abs()) };
    let clock = format!("this machine is {by} ms {word} the store");
    let clock = match Duration::from_millis(by) > tolerance {
        true => {
            let wanted = format!("at most {} (clockSkewTolerance): set both by NTP", config::duration_text(tolerance));
            Check::doubtful("clock", clock, wanted)
        }
        false => Check::good("clock", clock),
    };
    vec![latency, clock]
}

fn of_fleet(fleet: &FleetView) -> Vec<Check> {
    let of = |choose: fn(&admin::ReplicaView) -> &str| fleet.replicas.iter().map(choose).collect::<BTreeSet<_>>();
    let mut checks = vec![match fleet.replicas.len() {
        0 => Check::doubtful("fleet", "no replica is there", "start daemons with this store and namespace"),
        1 => Check::doubtful("fleet", "1 replica is there", "two at least, or nothing runs while it is away"),
        more => Check::good("fleet", format!("{more} replicas are there, {}", counted(fleet.jobs.len(), "job"))),
    }];
    let gone: Vec<&str> = fleet.jobs.iter().filter(|job| is_gone(job)).map(|job| job.name.as_str()).collect();
    if !gone.is_empty() {
        let found = format!("no replica that is there has these jobs in its table: {}", gone.join(", "));
        checks.push(Check::doubtful("fleet", found, "nothing, if they were removed: they are forgotten after 30 days"));
    }
    for (what, found) in [
        ("tables", of(|replica| &replica.revision)),
        ("versions", of(|replica| &replica.version)),
        ("zone data", of(|replica| &replica.zone_data)),
    ] {
        if found.len() > 1 {
            let found = format!("replicas have different {what}: {}", found.into_iter().collect::<Vec<_>>().join(", "));
            checks.push(Check::doubtful("fleet", found, "the same everywhere, a few minutes after a roll-out"));
        }
    }
    checks
}

fn write_checks(out: &mut dyn Write, checks: &[Check]) -> io::Result<()> {
    for Check { check, health, found, wanted } in checks {
        let word = match health {
            Health::Good => "good",
            Health::Doubtful => "doubt",
            Health::Bad => "bad",
            Health::Unseen => "-",
        };
        writeln!(out, "{word:<6} {check}: {}", printable(found, &['\n']).replace('\n', "\n       "))?;
        if !wanted.is_empty() {
            writeln!(out, "       wanted: {wanted}")?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_beyond_the_tolerance_is_doubtful_in_both_directions() {
        let health = |ms| of_clock((Duration::from_millis(1), Some(TimeDelta::milliseconds(ms))), SKEW)[1].health;
        assert_eq!(
            [-501, -500, 0, 500, 501].map(health),
            [Health::Doubtful, Health::Good, Health::Good, Health::Good, Health::Doubtful]
        );
    }
}
