//! The store is not there.

use super::Fleet;
use super::FleetStore;
use super::entry;
use crate::support::bench::Kind;
use crate::support::bench::program;
use crate::support::server::RedisServer;
use onecron::job::Tick;
use serde_json::Value;
use std::collections::BTreeMap;
use std::time::Duration;

fn jobs() -> String {
    format!(
        "  - name: every-two\n    schedule: \"*/2 * * * * *\"\n    startingDeadline: 3s\n    command: {}\n",
        entry("ran")
    )
}

fn tick_of(line: &Value) -> Tick {
    Tick::parse(line["scheduled_for"].as_str().unwrap()).unwrap()
}

/// Not reachable at start: it stays up, says so once, says of every tick that it did not run and why, and recovers by
/// itself.
#[test]
fn a_store_that_is_not_there_at_start_is_waited_for() {
    let Some(program) = program(Kind::Redis) else { return };
    let mut server = RedisServer::start(&program, &[]);
    server.kill();
    let store = FleetStore { url: server.url(), server: None };
    let table = crate::support::daemon::Table::new(&jobs());
    let mut fleet = Fleet { table, store, daemons: Vec::new() };
    let daemon = fleet.launch(1).start();
    fleet.daemons.push(daemon);
    let daemon = &fleet.daemons[0];
    let lost = daemon.wait_for_event("store_lost");
    assert_eq!(lost["level"], "error");
    let unreachable = |line: &Value| line["event"] == "run_skipped" && line["reason"] == "store_unavailable";
    let skipped = daemon.wait_for_many(4, unreachable, Duration::from_secs(30));
    assert!(skipped.iter().all(|line| line["level"] == "error"));
    let ticks: Vec<i64> = skipped.iter().map(|line| tick_of(line).seconds()).collect();
    assert!(ticks.windows(2).all(|pair| pair[1] == pair[0] + 2), "every tick, once: {ticks:?}");
    assert_eq!(daemon.events("store_lost").len(), 1, "said once");
    assert!(daemon.events("daemon_ready").is_empty());
    assert!(fleet.ledger().is_empty());
    server.start_again();
    daemon.wait_for_event("daemon_ready");
    fleet.wait_for_entry("ran", "every-two");
}

/// It goes away under load and comes back with what it knew: no tick runs twice, and each that nobody ran is recorded
/// as missed, once for the fleet.
#[test]
fn ticks_of_an_outage_are_missed_once_and_none_runs_twice() {
    let Some(store) = FleetStore::redis_that_remembers() else { return };
    let mut fleet = Fleet::start(&jobs(), store, 3);
    fleet.wait_for_entry("ran", "every-two");
    fleet.store.server.as_mut().unwrap().kill();
    let unreachable = |line: &Value| line["event"] == "run_skipped" && line["reason"] == "store_unavailable";
    for daemon in &fleet.daemons {
        daemon.wait_for_many(3, unreachable, Duration::from_secs(40));
        assert_eq!(daemon.events("store_lost").len(), 1);
    }
    fleet.store.server.as_mut().unwrap().start_again();
    fleet.daemons.iter().for_each(|daemon| drop(daemon.wait_for_event("store_recovered")));
    let after = Tick::from_seconds(super::wall() + 8);
    let later = |line: &Value| {
        ["run_skipped", "run_finished"].iter().any(|event| line["event"] == *event)
            && line["scheduled_for"].as_str() >= Some(&after.to_string())
    };
    fleet.daemons.iter().for_each(|daemon| drop(daemon.wait_for(later, Duration::from_secs(40))));
    let mut ran: BTreeMap<Tick, usize> = BTreeMap::new();
    for entry in fleet.entries("ran", "every-two") {
        *ran.entry(entry.tick).or_default() += 1;
    }
    let mut missed: BTreeMap<Tick, usize> = BTreeMap::new();
    for line in fleet.daemons.iter().flat_map(|daemon| daemon.events("run_missed")) {
        *missed.entry(tick_of(&line)).or_default() += 1;
    }
    // One that was claimed right before the outage, and began to be asked for after a newer one had begun.
    let superseded = |line: &Value| line["reason"] == "superseded";
    let skipped = fleet.daemons.iter().flat_map(|daemon| daemon.events("run_skipped"));
    for line in skipped.filter(superseded) {
        *missed.entry(tick_of(&line)).or_default() += 1;
    }
    let (first, last) = (*ran.keys().next().unwrap(), after);
    for seconds in (first.seconds()..last.seconds()).filter(|seconds| seconds % 2 == 0) {
        let tick = Tick::from_seconds(seconds);
        let (runs, misses) = (ran.get(&tick).copied().unwrap_or(0), missed.get(&tick).copied().unwrap_or(0));
        assert!(runs + misses <= 1, "{tick} ran {runs} times and was missed {misses} times");
        // The last ones may still wait for their settlement.
        assert!(runs + misses == 1 || seconds + 8 > last.seconds(), "{tick} has no outcome");
    }
    assert!(missed.len() >= 3, "{missed:?}");
}
