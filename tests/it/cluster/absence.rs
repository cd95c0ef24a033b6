//! Something is away for longer than a tick: the store, all replicas, or the owner of a run. Afterwards every tick has one
//! record, and no tick was started twice.
//!
//! An ordinary test waits for some seconds; `ONECRON_ABSENCE=full` for as long as the names of the constants say.

use super::Fleet;
use super::FleetStore;
use super::entry;
use super::wall;
use crate::processes;
use nix::sys::signal::Signal;
use onecron::job::HistoryEntry;
use onecron::job::Tick;
use std::collections::BTreeMap;
use std::time::Duration;

/// How long the store is away, in seconds: in a sample, and in full.
const STORE_AWAY: [i64; 2] = [12, 40];
/// How long no replica is there.
const FLEET_AWAY: [i64; 2] = [12, 120];
/// The lease of the tables in these tests, seconds.
const LEASE: i64 = 5;

/// The jobs, and how far their ticks are apart: two that are soon too late, and two that may catch up.
const JOBS: [(&str, i64, &str); 4] = [
    ("every-two", 2, "startingDeadline: 3s"),
    ("every-five", 5, "concurrencyPolicy: Allow"),
    ("latest", 5, "startingDeadline: 1m"),
    ("all", 5, "startingDeadline: 5m, catchUp: All"),
];

fn jobs() -> String {
    let job = |(name, step, keys): (&str, i64, &str)| {
        format!("  - {{name: {name}, schedule: \"*/{step} * * * * *\", {keys}, command: '{}'}}\n", entry("ran"))
    };
    JOBS.into_iter().map(job).collect()
}

fn seconds_of([sample, full]: [i64; 2]) -> i64 {
    if std::env::var("ONECRON_ABSENCE").is_ok_and(|text| text == "full") { full } else { sample }
}

fn wait_until_wall(seconds: i64) {
    let limit = Duration::from_secs(u64::try_from(seconds - wall()).unwrap_or(0) + 30);
    processes::until_limit("the time has come", limit, || wall() >= seconds);
}

/// The ticks that an entry of the history is about.
fn ticks_of(entry: &HistoryEntry, step: i64) -> Vec<i64> {
    let seconds = |text: &str| Tick::parse(text).unwrap().seconds();
    let last = seconds(&entry.scheduled_for);
    let first = if entry.range_first.is_empty() { last } else { seconds(&entry.range_first) };
    (first..=last).filter(|second| second % step == 0).collect()
}

/// Every tick from `first` to `last` has one entry in the history; it was started once if that says so, else never, and
/// if nobody ran it, one replica said so.
fn each_tick_has_one_record(fleet: &Fleet, first: i64, last: i64) -> BTreeMap<String, usize> {
    let mut outcomes: BTreeMap<String, usize> = BTreeMap::new();
    for (job, step, _) in JOBS {
        let mut recorded: BTreeMap<i64, Vec<String>> = BTreeMap::new();
        for entry in fleet.history(job) {
            for second in ticks_of(&entry, step) {
                let outcome = format!("{} {}", entry.outcome, entry.reason);
                recorded.entry(second).or_default().push(outcome.trim_end().to_owned());
            }
        }
        let mut started: BTreeMap<i64, usize> = BTreeMap::new();
        for entry in fleet.entries("ran", job) {
            *started.entry(entry.tick.seconds()).or_default() += 1;
        }
        for second in (first..=last).filter(|second| second % step == 0) {
            let tick = Tick::from_seconds(second);
            let records = recorded.get(&second).cloned().unwrap_or_default();
            let starts = started.get(&second).copied().unwrap_or(0);
            assert_eq!(records.len(), 1, "{job}@{tick}: {records:?}, and {starts} starts");
            assert_eq!(starts, usize::from(records[0] == "succeeded"), "{job}@{tick}: {records:?}");
            if records[0].starts_with("missed") {
                assert_eq!(told(fleet, job, second), 1, "{job}@{tick} is {records:?}, and that is said once");
            }
            *outcomes.entry(format!("{job}: {}", records[0])).or_default() += 1;
        }
    }
    println!("{outcomes:#?}");
    outcomes
}

/// Of a job with `catchUp: All`, whose ticks are all inside their starting deadlines, each has run.
fn all_ran(outcomes: &BTreeMap<String, usize>) {
    let of_all: Vec<&String> = outcomes.keys().filter(|key| key.starts_with("all: ")).collect();
    assert_eq!(of_all, ["all: succeeded"], "{outcomes:?}");
}

/// How often it was said that nobody ran a tick.
fn told(fleet: &Fleet, job: &str, second: i64) -> usize {
    let tick = Tick::from_seconds(second).to_string();
    let lines = |event: &str| fleet.daemons.iter().flat_map(|daemon| daemon.events(event)).collect::<Vec<_>>();
    let one =
        lines("run_missed").into_iter().filter(|line| line["job"] == job && line["scheduled_for"] == tick.as_str());
    let ranges = lines("runs_missed").into_iter().filter(|line| {
        let within = line["first"].as_str() <= Some(&tick) && line["through"].as_str() >= Some(&tick);
        line["job"] == job && within
    });
    one.count() + ranges.count()
}

/// All that is due by now is over when the last tick's deadline is, a minute after it for those that may catch up.
fn wait_for_records(fleet: &Fleet, first: i64, last: i64) {
    let whole = || {
        JOBS.into_iter().all(|(job, step, _)| {
            let recorded: Vec<i64> = fleet.history(job).iter().flat_map(|entry| ticks_of(entry, step)).collect();
            (first..=last).filter(|second| second % step == 0).all(|second| recorded.contains(&second))
        })
    };
    let limit = processes::now() + Duration::from_secs(90);
    while !whole() && processes::now() < limit {
        std::thread::sleep(Duration::from_millis(500));
    }
}

#[test]
fn each_tick_of_an_outage_of_the_store_has_one_record() {
    let Some(store) = FleetStore::redis_that_remembers() else { return };
    let mut fleet = Fleet::start(&jobs(), store, 3);
    fleet.wait_for_entry("ran", "latest");
    let first = wall() + 1;
    wait_until_wall(first + 4);
    let server = fleet.store.server.as_mut().unwrap();
    server.kill();
    let gone = wall();
    wait_until_wall(gone + seconds_of(STORE_AWAY));
    fleet.store.server.as_mut().unwrap().start_again();
    fleet.daemons.iter().for_each(|daemon| drop(daemon.wait_for_event("store_recovered")));
    let last = wall() + 10;
    wait_for_records(&fleet, first, last);
    let outcomes = each_tick_has_one_record(&fleet, first, last);
    let missed = |job: &str| outcomes.iter().filter(|(key, _)| key.starts_with(&format!("{job}: missed"))).count();
    assert!(missed("every-two") > 0 && missed("latest") > 0, "{outcomes:?}");
    // One that was claimed right before, and did not begin, is settled by whoever watched it.
    assert!(outcomes.contains_key("every-two: missed store_unavailable"), "{outcomes:?}");
    all_ran(&outcomes);
}

#[test]
fn each_tick_while_no_replica_was_there_has_one_record() {
    let Some(store) = FleetStore::redis_that_remembers() else { return };
    let mut fleet = Fleet::start(&jobs(), store, 3);
    fleet.wait_for_entry("ran", "latest");
    let first = wall() + 1;
    wait_until_wall(first + 4);
    fleet.daemons.iter().for_each(|daemon| daemon.signal(Signal::SIGTERM));
    fleet.daemons.iter_mut().for_each(|daemon| assert_eq!(daemon.wait_for_exit(), 0));
    let stopped = wall();
    wait_until_wall(stopped + seconds_of(FLEET_AWAY));
    let before = std::mem::take(&mut fleet.daemons);
    for number in 1..=3 {
        let daemon = fleet.launch(number).start();
        fleet.daemons.push(daemon);
    }
    fleet.daemons.iter().for_each(|daemon| drop(daemon.wait_for_event("daemon_ready")));
    fleet.daemons.extend(before); // what they said counts
    let last = wall() + 10;
    wait_for_records(&fleet, first, last);
    let outcomes = each_tick_has_one_record(&fleet, first, last);
    assert!(outcomes.contains_key("every-two: missed no_replica"), "{outcomes:?}");
    let passed_over = ["latest: missed catch_up", "latest: skipped superseded"];
    assert!(passed_over.iter().any(|key| outcomes.contains_key(*key)), "only the newest ran late: {outcomes:?}");
    all_ran(&outcomes);
}

#[test]
fn an_owner_that_was_frozen_for_three_leases_does_no_harm_when_it_wakes() {
    let Some(store) = FleetStore::redis() else { return };
    let second = (wall() + 5) % 60;
    let jobs = format!(
        "  - name: long\n    schedule: \"{second} * * * * *\"\n    lostRunPolicy: Rerun\n    \
         terminationGracePeriod: 1s\n    command: {}; sleep 25; {}\n",
        entry("began"),
        entry("ended")
    );
    let fleet = Fleet::start(&jobs, store, 3);
    let began = fleet.wait_for_entry("began", "long");
    let owner = &fleet.daemons[fleet.position(&began.replica)];
    let (pid, frozen) = (owner.pid(), processes::now());
    processes::signal(pid, Signal::SIGSTOP);
    let again = || fleet.entries("began", "long").into_iter().find(|entry| entry.attempt == 2);
    let limit = Duration::from_secs(40);
    processes::until_limit("another replica starts it again", limit, || again().is_some());
    assert!(!processes::is_alive(began.pid), "the first process was gone before the second began");
    let leases = Duration::from_secs(3 * LEASE.unsigned_abs());
    processes::until_limit("three leases are over", limit, || processes::now().since(frozen) > leases);
    processes::signal(pid, Signal::SIGCONT);
    let ended = fleet.wait_for_entry_within("ended", "long", Duration::from_secs(60));
    let second = again().unwrap();
    assert_eq!((ended.tick, ended.attempt, ended.pid), (began.tick, 2, second.pid), "the second one ends undisturbed");
    assert!(second.token > began.token);
    let starts = fleet.entries("began", "long").into_iter().filter(|entry| entry.tick == began.tick).count();
    assert_eq!(starts, 2);
    let tick = began.tick.to_string();
    let of_tick = || fleet.history("long").into_iter().filter(|entry| entry.scheduled_for == tick).collect::<Vec<_>>();
    processes::until("its end is recorded", || of_tick().iter().any(|entry| entry.outcome == "succeeded"));
    assert_eq!(of_tick().len(), 1, "{:?}", of_tick());
}
