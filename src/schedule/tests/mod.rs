//! Facts about schedules. `cases` holds inputs that broke other tools, `oracle` compares with a second, slow and
//! independent reading of the rules.

mod calendar;
mod campaign;
mod cases;
mod errors;
mod explain;
mod grammar;
mod latest;
mod oracle;
mod print;
mod shifts;
mod union;
mod zones;

use super::Schedule;
use super::Zone;
use chrono::DateTime;
use chrono::SecondsFormat;
use chrono::Utc;

fn at(text: &str) -> DateTime<Utc> {
    text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn zone(name: &str) -> Zone {
    Zone::find(name).unwrap()
}

fn schedule(text: &str, name: &str) -> Schedule {
    Schedule::parse(text, &zone(name), "job").unwrap_or_else(|error| panic!("{text}: {error:?}"))
}

/// The next `count` ticks as text.
fn ticks(schedule: &Schedule, from: &str, count: usize) -> Vec<String> {
    let shown = |tick: &DateTime<Utc>| tick.to_rfc3339_opts(SecondsFormat::Secs, true);
    schedule.occurrences(at(from), count).iter().map(shown).collect()
}
