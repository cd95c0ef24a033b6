//! One step from tick to tick, the zone included: the eight expressions and two zones.

use crate::best;
use chrono::DateTime;
use chrono::TimeZone;
use chrono::Utc;
use chrono_tz::Tz;
use onecron::schedule::Schedule;
use onecron::schedule::Zone;
use std::hint::black_box;
use std::str::FromStr;

const EXPRESSIONS: [&str; 8] = [
    "* * * * *",
    "*/5 * * * *",
    "17 * * * *",
    "30 2 * * *",
    "0 9-17 * * MON-FRI",
    "0 0 1 * *",
    "15 3 1 1,7 *",
    "0 0 29 2 *",
];
const ZONES: [&str; 2] = ["Europe/Berlin", "America/New_York"];

/// Steps of one round. Leap days run out of years after 18, so the walk begins anew.
const STEPS: u32 = 2000;
const ROUNDS: usize = 15;

/// Nanoseconds of a step; `next` is handed the instant before.
fn step(mut next: impl FnMut(DateTime<Utc>) -> Option<DateTime<Utc>>) -> f64 {
    let start = Utc.with_ymd_and_hms(2026, 1, 1, 0, 0, 0).single().expect("one instant");
    let end = Utc.with_ymd_and_hms(2090, 1, 1, 0, 0, 0).single().expect("one instant");
    let nanoseconds = best(ROUNDS, || {
        let mut instant = start;
        for _ in 0..STEPS {
            instant = next(black_box(instant)).filter(|tick| *tick < end).unwrap_or(start);
        }
        black_box(instant);
    });
    nanoseconds / f64::from(STEPS)
}

pub fn run() {
    println!("one step from tick to tick, zone included, best of {ROUNDS} rounds of {STEPS} steps, in ns");
    println!("{:20} {:18} {:>8} {:>8} {:>8}", "expression", "zone", "onecron", "cron", "croner");
    for text in EXPRESSIONS {
        for name in ZONES {
            let zone: Tz = name.parse().expect("chrono-tz has it");
            let own =
                Schedule::parse(text, &Zone::find(name).expect("the database has it"), "job").expect("a schedule");
            let cron = cron::Schedule::from_str(&for_cron(text)).expect("the crate reads it");
            let croner = croner::Cron::from_str(text).expect("the crate reads it");
            let own = step(|instant| own.after(instant));
            let cron = step(|instant| cron.after(&instant.with_timezone(&zone)).next().map(|tick| tick.to_utc()));
            let croner = step(|instant| {
                croner.find_next_occurrence(&instant.with_timezone(&zone), false).ok().map(|tick| tick.to_utc())
            });
            let verdict = if own <= 1000.0 && own < croner { "" } else { "  too slow" };
            println!("{text:20} {name:18} {own:8.0} {cron:8.0} {croner:8.0}{verdict}");
        }
    }
}

/// The crate wants seconds.
fn for_cron(text: &str) -> String {
    format!("0 {text}")
}
