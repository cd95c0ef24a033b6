//! Three replicas race for every tick: one runs it, two say who did.

use super::Entry;
use super::Fleet;
use super::FleetStore;
use super::entry;
use super::wall;
use crate::support::bench::Kind;
use crate::support::daemon::Daemon;
use onecron::job::Tick;
use serde_json::Value;
use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::time::Duration;

/// How long the race goes on.
const SECONDS: i64 = 30;
const BURST: usize = 10;

/// A job of every second, and ten that are due together every other second.
fn jobs() -> String {
    let job = |name: &str, schedule: &str| {
        format!("  - name: {name}\n    schedule: \"{schedule}\"\n    command: {}\n", entry("ran"))
    };
    let burst: String = (0..BURST).map(|n| job(&format!("burst-{n}"), "*/2 * * * * *")).collect();
    job("every-second", "* * * * * *") + &burst
}

fn is_about(line: &Value, job: &str, tick: Tick) -> bool {
    line["job"] == job && line["scheduled_for"] == tick.to_string()
}

/// All that a replica has said, for the message of a test that fails.
fn said_by(fleet: &Fleet, replica: &str) -> Vec<Value> {
    fleet.daemons.iter().filter(|daemon| daemon.replica() == replica).flat_map(Daemon::lines).collect()
}

fn began_late(fleet: &Fleet, replica: &str, name: &str, tick: Tick) -> bool {
    let is_late = |line: &Value| line["event"] == "run_started" && line["start_delay_ms"].as_u64() > Some(250);
    said_by(fleet, replica).iter().any(|line| is_about(line, name, tick) && is_late(line))
}

fn every_tick_runs_once_and_the_others_say_who_ran_it(store: FleetStore) {
    let fleet = Fleet::start(&jobs(), store, 3);
    // What lies before is not part of the history, or was not seen by all.
    let first = wall() + 2;
    let last = first + SECONDS;
    let names: Vec<String> = (0..BURST).map(|n| format!("burst-{n}")).chain(["every-second".to_owned()]).collect();
    let end = Tick::from_seconds(last + last % 2);
    for daemon in &fleet.daemons {
        for name in &names {
            let about = |line: &Value| {
                let event = line["event"].as_str().unwrap_or_default();
                matches!(event, "run_finished" | "run_skipped") && is_about(line, name, end)
            };
            daemon.wait_for(about, Duration::from_secs(u64::try_from(SECONDS).unwrap() + 30));
        }
    }
    let mut ran: BTreeMap<(String, Tick), Vec<Entry>> = BTreeMap::new();
    for entry in fleet.ledger() {
        ran.entry((entry.job.clone(), entry.tick)).or_default().push(entry);
    }
    let skips: Vec<(String, Vec<Value>)> =
        fleet.daemons.iter().map(|daemon| (daemon.replica(), daemon.events("run_skipped"))).collect();
    // On a machine that stalls, a store may not answer in time, and a run of a second outlast it: then ticks are passed
    // over, with a line that says so. Two runs, or none without that line, are wrong however slow it is.
    let stalled = fleet.daemons.iter().any(|daemon| !daemon.events("store_lost").is_empty());
    let mut winners = BTreeSet::new();
    for name in &names {
        let step = if name == "every-second" { 1 } else { 2 };
        for second in (first..=last).filter(|second| second % step == 0) {
            let tick = Tick::from_seconds(second);
            let entries = ran.get(&(name.clone(), tick)).cloned().unwrap_or_default();
            assert!(entries.len() <= 1, "{name}@{tick}: {entries:?}");
            let winner = entries.first().map(|entry| entry.replica.clone());
            winners.extend(winner.clone());
            for (replica, lines) in &skips {
                let said: Vec<&Value> = lines.iter().filter(|line| is_about(line, name, tick)).collect();
                if winner.as_ref() == Some(replica) {
                    assert!(said.is_empty(), "{replica} ran {name}@{tick} and said {said:?}");
                    continue;
                }
                let all: Vec<Value> =
                    said_by(&fleet, replica).into_iter().filter(|line| is_about(line, name, tick)).collect();
                assert_eq!(said.len(), 1, "{replica} of {name}@{tick}, which {winner:?} ran: {all:#?}");
                let reason = said[0]["reason"].as_str().unwrap();
                match &winner {
                    // On a machine that stalls, one that had claimed it may not have begun in time, and another takes over.
                    Some(winner) if reason == "claimed_by_other" && !began_late(&fleet, winner, name, tick) => {
                        assert_eq!(said[0]["holder"], winner.as_str());
                    }
                    Some(_) if reason == "claimed_by_other" => {}
                    Some(winner) => assert!(stalled, "{winner} ran {name}@{tick}, and {replica} said {reason}"),
                    None => assert!(["overlap", "superseded"].contains(&reason) || stalled, "{name}@{tick}: {reason}"),
                }
            }
        }
    }
    assert_eq!(winners.len(), 3, "a burst spreads over the fleet");
}

#[test]
fn every_tick_runs_once_and_the_others_say_who_ran_it_on_redis() {
    if let Some(store) = FleetStore::redis() {
        every_tick_runs_once_and_the_others_say_who_ran_it(store);
    }
}

#[test]
fn every_tick_runs_once_and_the_others_say_who_ran_it_on_sqlite() {
    every_tick_runs_once_and_the_others_say_who_ran_it(FleetStore::sqlite());
}

#[test]
fn every_tick_runs_once_and_the_others_say_who_ran_it_on_postgres() {
    if let Some(store) = FleetStore::sql(Kind::Postgres) {
        every_tick_runs_once_and_the_others_say_who_ran_it(store);
    }
}

#[test]
fn every_tick_runs_once_and_the_others_say_who_ran_it_on_mariadb() {
    if let Some(store) = FleetStore::sql(Kind::MariaDb) {
        every_tick_runs_once_and_the_others_say_who_ran_it(store);
    }
}

#[test]
fn every_tick_runs_once_and_the_others_say_who_ran_it_on_etcd() {
    if let Some(store) = FleetStore::etcd() {
        every_tick_runs_once_and_the_others_say_who_ran_it(store);
    }
}
