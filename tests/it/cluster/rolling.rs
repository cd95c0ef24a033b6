//! All replicas are restarted, one after the other, again and again, as a rollout does it: no tick is lost, and none runs
//! twice.
//!
//! An ordinary test goes round twice; `ONECRON_CAMPAIGN=full` five times.

use super::Fleet;
use super::FleetStore;
use super::entry;
use super::wall;
use crate::processes;
use nix::sys::signal::Signal;
use std::collections::BTreeMap;
use std::time::Duration;

/// How often each replica is restarted: in a sample, and in full.
const ROUNDS: [usize; 2] = [2, 5];
/// Jobs that are due every second, and how long they take. None waits for an earlier run of its own, which a busy machine
/// may hold up.
const JOBS: [(&str, &str); 3] = [("short", "0"), ("half", "0.5"), ("long", "1.5")];

fn jobs() -> String {
    let job = |(name, takes): (&str, &str)| {
        let keys = "schedule: '* * * * * *', concurrencyPolicy: Allow, catchUp: All, startingDeadline: 1m";
        format!("  - {{name: {name}, {keys}, command: '{}; sleep {takes}'}}\n", entry("ran"))
    };
    JOBS.map(job).concat()
}

fn every_tick_runs_once_while_replicas_are_restarted(store: FleetStore) {
    let full = std::env::var("ONECRON_CAMPAIGN").is_ok_and(|text| text == "full");
    let rounds = ROUNDS[usize::from(full)];
    let mut fleet = Fleet::start(&jobs(), store, 3);
    fleet.wait_for_entry("ran", "short");
    let first = wall() + 1;
    for _ in 0..rounds {
        for number in 0..3 {
            let old = &mut fleet.daemons[number];
            old.signal(Signal::SIGTERM);
            assert_eq!(old.wait_for_exit(), 0);
            fleet.daemons[number] = fleet.launch(number + 1).start();
            // It takes part before the next one goes.
            fleet.daemons[number].wait_for_event("run_finished");
        }
    }
    let last = wall() + 2;
    let starts = |fleet: &Fleet, job: &str| {
        let mut starts: BTreeMap<i64, usize> = (first..=last).map(|second| (second, 0)).collect();
        for entry in fleet.entries("ran", job) {
            starts.entry(entry.tick.seconds()).and_modify(|starts| *starts += 1);
        }
        starts
    };
    let all_ran = || JOBS.iter().all(|(job, _)| starts(&fleet, job).values().all(|starts| *starts > 0));
    let end = processes::now() + Duration::from_secs(60);
    while !all_ran() && processes::now() < end {
        std::thread::sleep(Duration::from_millis(200));
    }
    for (job, _) in JOBS {
        let others: Vec<(i64, usize)> = starts(&fleet, job).into_iter().filter(|(_, starts)| *starts != 1).collect();
        assert_eq!(others, [], "ticks of {job} that did not run once");
    }
    println!("{} restarts, {} ticks of {} jobs, each once", 3 * rounds, last - first + 1, JOBS.len());
}

#[test]
fn every_tick_runs_once_while_replicas_are_restarted_on_redis() {
    if let Some(store) = FleetStore::redis() {
        every_tick_runs_once_while_replicas_are_restarted(store);
    }
}

#[test]
fn every_tick_runs_once_while_replicas_are_restarted_on_sqlite() {
    every_tick_runs_once_while_replicas_are_restarted(FleetStore::sqlite());
}
