//! The table changes more than twenty times a minute, under jobs that are due every second: no tick is lost, none runs twice,
//! and what all replicas run in the end is the last table.
//!
//! An ordinary test is a sample; `ONECRON_CAMPAIGN=full` goes on for a minute.

use super::Fleet;
use super::FleetStore;
use super::entry;
use super::wall;
use crate::processes;
use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

/// How often the table changes: in a sample, and in full. Each takes a second and some, in which it must not change again.
const RELOADS: [usize; 2] = [12, 48];
/// Jobs that are due every second; what they mean changes, or does not.
const JOBS: [&str; 3] = ["same", "changing", "long"];

/// The n-th version: two jobs mean something else each time, one comes and goes, and one stays as it is.
fn table(version: usize) -> String {
    let keys = "schedule: '* * * * * *', concurrencyPolicy: Allow, catchUp: All, startingDeadline: 1m";
    let job = |name: &str, rest: &str, after: &str| {
        format!("  - {{name: {name}, {keys}, {rest}command: '{}{after}'}}\n", entry("ran"))
    };
    let version_of = format!("env: {{VERSION: 'v{version}'}}, ");
    let jobs = [
        job("same", "", ""),
        job("changing", &version_of, ""),
        job("long", &format!("timeout: {}s, ", 60 + version), "; sleep 1.5"),
        if version % 2 == 1 { job("guest", "", "") } else { String::new() },
    ];
    let places = 20 + version % 3;
    format!(
        "scheduler: {{lockLease: 5s, clockSkewTolerance: 100ms, maxConcurrentRuns: {places}}}\njobs:\n{}",
        jobs.concat()
    )
}

fn replace(fleet: &Fleet, version: usize) {
    let (path, new) = (fleet.table.path(), fleet.table.folder.path().join("new.tmp"));
    fs::write(&new, table(version)).unwrap();
    fs::rename(new, path).unwrap();
}

fn every_tick_runs_once_while_the_table_changes(store: FleetStore) {
    let full = std::env::var("ONECRON_CAMPAIGN").is_ok_and(|text| text == "full");
    let reloads = RELOADS[usize::from(full)];
    let fleet = Fleet::start(table(0).split_once("jobs:\n").unwrap().1, store, 3);
    fleet.wait_for_entry("ran", "same");
    let (begun, first) = (processes::now(), wall() + 1);
    for version in 1..=reloads {
        replace(&fleet, version);
        let limit = Duration::from_secs(30);
        let replaced = |daemon: &crate::support::daemon::Daemon| {
            daemon.wait_for_many(version, |line| line["event"] == "table_replaced", limit).pop().unwrap()
        };
        let revisions: Vec<_> = fleet.daemons.iter().map(|daemon| replaced(daemon)["revision"].clone()).collect();
        assert!(revisions.iter().all(|revision| *revision == revisions[0]), "{revisions:?}");
    }
    let (took, last) = (processes::now().since(begun), wall() + 1);
    let starts = |job: &str| {
        let mut starts: BTreeMap<i64, usize> = (first..=last).map(|second| (second, 0)).collect();
        for entry in fleet.entries("ran", job) {
            starts.entry(entry.tick.seconds()).and_modify(|starts| *starts += 1);
        }
        starts
    };
    processes::until_limit("all have run", Duration::from_secs(60), || {
        JOBS.iter().all(|job| starts(job).values().all(|starts| *starts > 0))
    });
    for job in JOBS {
        let others: Vec<(i64, usize)> = starts(job).into_iter().filter(|(_, starts)| *starts != 1).collect();
        assert_eq!(others, [], "ticks of {job} that did not run once");
    }
    let mut guests: BTreeMap<i64, usize> = BTreeMap::new();
    for entry in fleet.entries("ran", "guest") {
        *guests.entry(entry.tick.seconds()).or_default() += 1;
    }
    assert!(!guests.is_empty() && guests.values().all(|starts| *starts == 1), "{guests:?}");
    let a_minute = reloads as f64 * 60.0 / took.as_secs_f64();
    assert!(a_minute > 20.0, "{reloads} reloads in {took:?} are too few to prove much");
    println!(
        "{reloads} reloads ({a_minute:.0} a minute), {} ticks of {} jobs, each once",
        last - first + 1,
        JOBS.len()
    );
}

#[test]
fn every_tick_runs_once_while_the_table_changes_on_redis() {
    if let Some(store) = FleetStore::redis() {
        every_tick_runs_once_while_the_table_changes(store);
    }
}
