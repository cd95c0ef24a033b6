//! From the text of 10 000 jobs to the first tick of each.

use crate::best;
use chrono::DateTime;
use chrono::Utc;
use onecron::config;
use onecron::config::Source;
use onecron::job::JobTable;
use onecron::schedule::Schedule;
use onecron::schedule::Zone;
use std::hint::black_box;

const JOBS: usize = 10_000;
const ROUNDS: usize = 15;

/// Many jobs of a few schedules, and `H`, which gives each job another one.
fn realistic(job: usize) -> String {
    let all = [
        "H H * * *",
        "*/5 * * * *",
        "H * * * *",
        "0 2 * * *",
        "H H * * MON-FRI",
        "0 9-17 * * 1-5",
        "@hourly",
        "H H 1 * *",
        "*/15 * * * *",
        "H H(0-5) * * SUN",
    ];
    all[job % all.len()].to_owned()
}

/// No two alike in minute, hour and days.
fn different(job: usize) -> String {
    format!(
        "{} {} * * *",
        job % 60,
        [job / 60 % 24, (job / 1440 + job / 60) % 24].map(|hour| hour.to_string()).join(",")
    )
}

/// No two alike, and each with days of its own, so that nothing is shared.
fn different_days(job: usize) -> String {
    let weekdays = 1 + job / 900 % 6;
    format!("{} {} {},{} * */{weekdays}", job % 60, job % 24, 1 + job % 30, 1 + job / 30 % 30)
}

fn table(schedule: fn(usize) -> String) -> String {
    let zones = ["Europe/Berlin", "America/New_York", "UTC", "Asia/Tokyo"];
    let mut text = "jobs:\n".to_owned();
    for job in 0..JOBS {
        let zone = if job % 4 == 0 { format!(", timeZone: {}", zones[job / 4 % 4]) } else { String::new() };
        let timeout = if job % 5 == 0 { ", timeout: 30m" } else { "" };
        let schedule = schedule(job);
        text += &format!("  - {{name: job-{job}, schedule: \"{schedule}\", command: work {job}{zone}{timeout}}}\n");
    }
    text
}

fn load(sources: &[Source], now: DateTime<Utc>) -> JobTable {
    config::load(sources, now).unwrap_or_else(|problems| panic!("{}", config::render(&problems[..1]))).table
}

fn first_ticks(table: &JobTable, from: DateTime<Utc>) {
    for job in &table.jobs {
        black_box(job.schedule.after(from));
    }
}

pub fn run() {
    println!("\n{JOBS} jobs, best of {ROUNDS} rounds, in ms");
    println!(
        "{:16} {:>8} {:>8} {:>8} {:>9} {:>7} {:>7} {:>8}",
        "schedules", "all", "load", "ticks", "schedules", "zones", "YAML", "rest"
    );
    let mixes: [(&str, fn(usize) -> String); 3] =
        [("realistic", realistic), ("different", different), ("different days", different_days)];
    let from = DateTime::from_timestamp(1_796_000_000, 0).expect("an instant");
    for (name, schedule) in mixes {
        let text = table(schedule);
        let sources = [Source::new("jobs.yaml", text.clone().into_bytes())];
        let milliseconds = |work: &mut dyn FnMut()| best(ROUNDS, work) / 1e6;
        let all = milliseconds(&mut || first_ticks(&load(&sources, from), from));
        let loading = milliseconds(&mut || drop(black_box(load(&sources, from))));
        let loaded = load(&sources, from);
        let ticks = milliseconds(&mut || first_ticks(&loaded, from));
        let texts: Vec<String> = (0..JOBS).map(schedule).collect();
        let utc = Zone::utc();
        let schedules = milliseconds(&mut || {
            let parse = |text: &String| Schedule::parse(text, &utc, "job").expect("a schedule");
            black_box(texts.iter().map(parse).collect::<Vec<_>>());
        });
        let zones = milliseconds(&mut || {
            for _ in 0..JOBS / 4 {
                black_box(Zone::find("America/New_York").expect("the database has it"));
            }
        });
        let events = milliseconds(&mut || {
            black_box(yaml_events(&text));
        });
        let rest = loading - schedules - zones - events;
        println!("{name:16} {all:8.1} {loading:8.1} {ticks:8.1} {schedules:9.1} {zones:7.1} {events:7.1} {rest:8.1}");
    }
}

/// What the library takes to read the text, without anything made of it.
fn yaml_events(text: &str) -> usize {
    serde_yaml::granit_parser::Parser::new_from_str(text).map(|event| event.expect("good YAML")).count()
}
