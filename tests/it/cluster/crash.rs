//! The replica that runs a job is killed in the middle.

use super::Entry;
use super::Fleet;
use super::FleetStore;
use super::entry;
use crate::processes;
use nix::sys::signal::Signal;
use serde_json::Value;
use std::time::Duration;

/// The lease of the tables in these tests.
const LEASE: Duration = Duration::from_secs(5);
/// A death is noticed within one and a half leases and a second.
const NOTICED: Duration = Duration::from_millis(8_500);

/// A job that takes a minute, and is due every minute at the second that comes; its process ignores nothing.
fn long_job(policy: &str) -> String {
    let second = (super::wall() + 5) % 60;
    format!(
        "  - name: long\n    schedule: \"{second} * * * * *\"\n    lostRunPolicy: {policy}\n    \
         terminationGracePeriod: 1s\n    command: {}; exec sleep 60\n",
        entry("began")
    )
}

/// A fleet whose long job is running, and the position of its owner.
fn running(policy: &str, store: FleetStore) -> (Fleet, Entry, usize) {
    let fleet = Fleet::start(&long_job(policy), store, 3);
    let began = fleet.wait_for_entry("began", "long");
    let owner = fleet.position(&began.replica);
    (fleet, began, owner)
}

fn kill(fleet: &mut Fleet, owner: usize) {
    fleet.daemons[owner].signal(Signal::SIGKILL);
    fleet.daemons[owner].wait_for_exit();
}

/// A few of the watchers' words may come at the same moment: waits until one of the daemons has said it.
fn wait_for_lost(fleet: &Fleet, among: &[usize], limit: Duration) -> Value {
    let end = processes::now() + limit;
    loop {
        let said = among.iter().flat_map(|&number| fleet.daemons[number].events("run_lost")).next();
        match said {
            Some(line) => return line,
            None => assert!(processes::now() < end, "nobody said in {limit:?} that the run is lost"),
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn a_killed_replicas_run_is_lost_and_recorded_once(store: FleetStore) {
    let (mut fleet, began, owner) = running("Report", store);
    let others: Vec<usize> = (0..3).filter(|&number| number != owner).collect();
    let killed_at = processes::now();
    kill(&mut fleet, owner);
    let line = wait_for_lost(&fleet, &others, NOTICED + Duration::from_secs(1));
    let noticed = processes::now().since(killed_at);
    assert!(noticed <= NOTICED, "noticed after {noticed:?}");
    assert_eq!(line["holder"], began.replica.as_str());
    assert_eq!(line["scheduled_for"], began.tick.to_string());
    // Its slot drains, and the other replicas go on; nobody says it again or starts it again.
    let drained = Duration::from_secs(1) * 2 + Duration::from_secs(1) + LEASE / 50;
    let end = killed_at + noticed + drained + LEASE;
    processes::until_limit("watching is over", Duration::from_secs(30), || processes::now() > end);
    let said: usize = others.iter().map(|&number| fleet.daemons[number].events("run_lost").len()).sum();
    assert_eq!(said, 1);
    let starts = fleet.entries("began", "long").into_iter().filter(|entry| entry.tick == began.tick).count();
    assert_eq!(starts, 1, "at most once");
    assert!(!processes::is_alive(began.pid), "its process is gone");
    let lost: Vec<_> = fleet.history("long").into_iter().filter(|entry| entry.outcome == "lost").collect();
    assert_eq!(lost.len(), 1, "{lost:?}");
    assert_eq!(lost[0].scheduled_for, began.tick.to_string());
}

#[test]
fn a_killed_replicas_run_is_lost_and_recorded_once_on_redis() {
    if let Some(store) = FleetStore::redis() {
        a_killed_replicas_run_is_lost_and_recorded_once(store);
    }
}

#[test]
fn a_killed_replicas_run_is_lost_and_recorded_once_on_sqlite() {
    a_killed_replicas_run_is_lost_and_recorded_once(FleetStore::sqlite());
}

/// Who comes up later than the death has never heard of the run, and finds it in the store.
#[test]
fn a_killed_replicas_run_is_lost_also_when_all_others_were_restarted() {
    let Some(store) = FleetStore::redis() else { return };
    let (mut fleet, began, owner) = running("Report", store);
    let others: Vec<usize> = (0..3).filter(|&number| number != owner).collect();
    kill(&mut fleet, owner);
    for &number in &others {
        kill(&mut fleet, number);
    }
    let restarted_at = processes::now();
    for &number in &others {
        fleet.daemons[number] = fleet.launch(number + 1).start();
    }
    let line = wait_for_lost(&fleet, &others, NOTICED + Duration::from_secs(1));
    let noticed = processes::now().since(restarted_at);
    assert!(noticed <= NOTICED, "noticed after {noticed:?}");
    assert_eq!(line["holder"], began.replica.as_str());
    let starts = fleet.entries("began", "long").into_iter().filter(|entry| entry.tick == began.tick).count();
    assert_eq!(starts, 1);
}

fn a_killed_replicas_run_is_started_again_elsewhere(store: FleetStore) {
    let (mut fleet, began, owner) = running("Rerun", store);
    let others: Vec<usize> = (0..3).filter(|&number| number != owner).collect();
    let killed_at = processes::now();
    kill(&mut fleet, owner);
    wait_for_lost(&fleet, &others, NOTICED + Duration::from_secs(1));
    let again =
        || fleet.entries("began", "long").into_iter().find(|entry| entry.tick == began.tick && entry.attempt == 2);
    processes::until_limit("the run is started again", Duration::from_secs(30), || again().is_some());
    let second = again().unwrap();
    assert!(!processes::is_alive(began.pid), "the first process is gone before the second begins");
    assert_ne!(second.replica, began.replica);
    assert!(second.token > began.token);
    assert!(processes::now().since(killed_at) >= LEASE, "not before its lease is over");
    let starts = fleet.entries("began", "long").into_iter().filter(|entry| entry.tick == began.tick).count();
    assert_eq!(starts, 2);
}

#[test]
fn a_killed_replicas_run_is_started_again_elsewhere_on_redis() {
    if let Some(store) = FleetStore::redis() {
        a_killed_replicas_run_is_started_again_elsewhere(store);
    }
}

#[test]
fn a_killed_replicas_run_is_started_again_elsewhere_on_sqlite() {
    a_killed_replicas_run_is_started_again_elsewhere(FleetStore::sqlite());
}
