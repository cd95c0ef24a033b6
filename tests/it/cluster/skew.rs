//! A replica whose clock is wrong, or that slept, comes late: the store refuses what was decided.

use super::Fleet;
use super::FleetStore;
use super::entry;
use crate::processes;
use crate::support::server::find_program;
use nix::sys::signal::Signal;
use onecron::job::Tick;
use serde_json::Value;
use std::collections::BTreeMap;
use std::time::Duration;

/// Seconds.
const BEHIND: i64 = 90;

fn jobs() -> String {
    format!("  - name: every-five\n    schedule: \"*/5 * * * * *\"\n    command: {}\n", entry("ran"))
}

fn assert_no_tick_twice(fleet: &Fleet) -> usize {
    let mut counts: BTreeMap<Tick, usize> = BTreeMap::new();
    for entry in fleet.entries("ran", "every-five") {
        *counts.entry(entry.tick).or_default() += 1;
    }
    assert!(counts.values().all(|&count| count == 1), "{counts:?}");
    counts.len()
}

/// Its clock is 90 s behind: every tick that comes for it was run by another a minute and a half ago.
#[test]
fn a_replica_90_seconds_behind_never_runs_a_tick_that_another_ran() {
    let Some(store) = FleetStore::redis() else { return };
    if find_program("faketime").is_none() {
        let required = std::env::var("REQUIRE_STORES").is_ok();
        assert!(!required, "faketime is missing");
        println!("SKIPPED: faketime is missing");
        return;
    }
    let fleet = Fleet::start(&jobs(), store, 1);
    let first = fleet.wait_for_entry("ran", "every-five").tick;
    // Until the slow clock reaches ticks that were run.
    let reached = Tick::from_seconds(first.seconds() + BEHIND).to_string();
    let ran = |line: &Value| line["event"] == "run_finished" && line["scheduled_for"].as_str() >= Some(&reached);
    fleet.daemons[0].wait_for(ran, Duration::from_secs(150));
    let slow = fleet
        .launch(2)
        .env("FAKETIME_DONT_FAKE_MONOTONIC", "1")
        .wrapper(&["faketime", "-f", &format!("-{BEHIND}s")])
        .start();
    let skipped = slow.wait_for_many(4, |line| line["event"] == "run_skipped", Duration::from_secs(60));
    for line in &skipped {
        let tick = Tick::parse(line["scheduled_for"].as_str().unwrap()).unwrap();
        assert!(tick.seconds() < super::wall() - 60, "its clock is behind: {line}");
        assert!(["claimed_by_other", "late"].contains(&line["reason"].as_str().unwrap()), "{line}");
    }
    assert!(assert_no_tick_twice(&fleet) >= 20);
    assert!(fleet.entries("ran", "every-five").iter().all(|entry| entry.replica == fleet.daemons[0].replica()));
    let skewed = slow.wait_for_event("clock_skewed");
    assert!(skewed["offset_ms"].as_i64().unwrap() < -80_000, "{skewed}");
    assert_eq!(skewed["level"], "error");
}

/// Its clock is 90 s ahead, and nobody else is there: it runs each tick when it is due by the store's clock.
#[test]
fn a_replica_90_seconds_ahead_runs_ticks_when_they_are_due_by_the_stores_clock() {
    let Some(store) = FleetStore::redis() else { return };
    if find_program("faketime").is_none() {
        return; // said above
    }
    let mut fleet = Fleet::start(&jobs(), store, 0);
    let fast = fleet
        .launch(1)
        .env("FAKETIME_DONT_FAKE_MONOTONIC", "1")
        .wrapper(&["faketime", "-f", &format!("+{BEHIND}s")])
        .start();
    let skewed = fast.wait_for_event("clock_skewed");
    assert!((80_000..100_000).contains(&skewed["offset_ms"].as_i64().unwrap()), "{skewed}");
    assert_eq!(skewed["level"], "error");
    fleet.daemons.push(fast);
    let finished = |line: &Value| line["event"] == "run_finished";
    let runs = fleet.daemons[0].wait_for_many(5, finished, Duration::from_secs(60));
    let server = fleet.store.server.as_ref().unwrap();
    for line in &runs {
        let text = line["scheduled_for"].as_str().unwrap();
        let claimed_at = server.command(&format!("HGET onecron:default:{{every-five}}:run:{text} claimed_at"));
        let claimed_at: i64 = claimed_at.lines().nth(1).unwrap().parse().unwrap();
        let late_ms = claimed_at - Tick::parse(text).unwrap().millis();
        assert!((-250..2_500).contains(&late_ms), "{text} was claimed {late_ms} ms after it was due");
    }
    let ticks: Vec<i64> =
        runs.iter().map(|line| Tick::parse(line["scheduled_for"].as_str().unwrap()).unwrap().seconds()).collect();
    assert!(ticks.windows(2).all(|pair| pair[1] == pair[0] + 5), "every tick: {ticks:?}");
    assert_eq!(fleet.daemons[0].events("clock_skewed").len(), 1);
    assert_no_tick_twice(&fleet);
}

/// Its loop stands still over several ticks: when it goes on, it finds them decided.
#[test]
fn a_replica_that_slept_over_ticks_does_not_run_them_again() {
    let Some(store) = FleetStore::redis() else { return };
    let fleet = Fleet::start(&jobs(), store, 2);
    fleet.wait_for_entry("ran", "every-five");
    let sleeper = &fleet.daemons[1];
    let pid = sleeper.pid();
    processes::signal(pid, Signal::SIGSTOP);
    let slept_from = Tick::from_seconds(super::wall());
    let ran = || fleet.entries("ran", "every-five").iter().filter(|entry| entry.tick > slept_from).count();
    processes::until_limit("three ticks have passed", Duration::from_secs(40), || ran() >= 3);
    processes::signal(pid, Signal::SIGCONT);
    let woke = Tick::from_seconds(super::wall() + 5);
    let heard = |line: &Value| {
        ["run_skipped", "run_finished"].iter().any(|event| line["event"] == *event)
            && line["scheduled_for"].as_str() >= Some(&woke.to_string())
    };
    sleeper.wait_for(heard, Duration::from_secs(30));
    assert!(assert_no_tick_twice(&fleet) >= 4);
    let during = |line: &Value| {
        let tick = line["scheduled_for"].as_str().and_then(Tick::parse);
        line["event"] == "run_skipped" && tick.is_some_and(|tick| tick > slept_from && tick < woke)
    };
    let said = sleeper.lines().iter().filter(|line| during(line)).count();
    assert!(said + sleeper.events("ticks_passed").len() > 0, "it says what it did not run");
}
