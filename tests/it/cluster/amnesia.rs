//! The store forgets under running daemons.

use super::Fleet;
use super::FleetStore;
use super::entry;
use super::wall;
use crate::processes;
use crate::support::bench::Kind;
use crate::support::bench::open;
use crate::support::bench::program;
use crate::support::daemon::Daemon;
use crate::support::server::RedisServer;
use chrono::DateTime;
use chrono::Datelike;
use chrono::TimeDelta;
use chrono::Utc;
use onecron::clock::Clock;
use onecron::clock::SystemClock;
use onecron::job::JobName;
use onecron::job::Tick;
use serde_json::Value;
use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::time::Duration;

/// How often the server is killed: in a sample, and with `ONECRON_CAMPAIGN=full` within a minute.
const KILLS: [usize; 2] = [5, 40];
const JOBS: usize = 10;

/// A Redis that keeps nothing.
fn forgetful() -> Option<FleetStore> {
    let server = RedisServer::start(&program(Kind::Redis)?, &[]);
    Some(FleetStore { url: server.url(), server: Some(server) })
}

fn every_second() -> String {
    let job = |number| {
        format!(
            "  - name: job-{number}\n    schedule: \"* * * * * *\"\n    concurrencyPolicy: Allow\n    command: {}\n",
            entry("ran")
        )
    };
    (0..JOBS).map(job).collect()
}

fn tick_of(line: &Value) -> Tick {
    Tick::parse(line["scheduled_for"].as_str().unwrap()).unwrap()
}

/// All ticks of which a daemon says that it does not run them, or that nobody did, by job.
fn told(fleet: &Fleet, event: &str) -> BTreeMap<(String, Tick), usize> {
    let mut found = BTreeMap::new();
    for line in fleet.daemons.iter().flat_map(|daemon| daemon.events(event)) {
        *found.entry((line["job"].as_str().unwrap().to_owned(), tick_of(&line))).or_default() += 1;
    }
    found
}

/// All lines about a tick, for the message of a test that fails.
fn said_of(fleet: &Fleet, (job, tick): &(String, Tick)) -> Vec<Value> {
    let is_about = |line: &Value| line["job"] == job.as_str() && line["scheduled_for"] == tick.to_string();
    fleet.daemons.iter().flat_map(Daemon::lines).filter(is_about).collect()
}

/// When it was said that nobody ran a tick: again, if the store forgot that it was settled.
fn missed_at(fleet: &Fleet) -> BTreeMap<(String, Tick), Vec<DateTime<Utc>>> {
    let mut found: BTreeMap<_, Vec<DateTime<Utc>>> = BTreeMap::new();
    for line in fleet.daemons.iter().flat_map(|daemon| daemon.events("run_missed")) {
        let at = line["timestamp"].as_str().unwrap().parse().unwrap();
        found.entry((line["job"].as_str().unwrap().to_owned(), tick_of(&line))).or_default().push(at);
    }
    found.values_mut().for_each(|reports| reports.sort_unstable());
    found
}

fn ran(fleet: &Fleet) -> BTreeMap<(String, Tick), usize> {
    let mut found = BTreeMap::new();
    for entry in fleet.ledger().into_iter().filter(|entry| entry.word == "ran") {
        *found.entry((entry.job, entry.tick)).or_default() += 1;
    }
    found
}

fn none_twice(fleet: &Fleet) {
    let twice: Vec<_> = ran(fleet).into_iter().filter(|(_, count)| *count > 1).collect();
    assert!(twice.is_empty(), "ran twice: {twice:?}");
}

fn wait_until_wall(seconds: i64) {
    processes::until_limit("the time has come", Duration::from_secs(60), || wall() >= seconds);
}

/// A server without persistence, killed again and again: no tick runs twice, each has an outcome or a reason in the log,
/// and in between jobs run.
#[test]
fn a_redis_without_persistence_that_is_killed_again_and_again_starts_no_tick_twice() {
    let Some(store) = forgetful() else { return };
    let kills = KILLS[usize::from(std::env::var("ONECRON_CAMPAIGN").is_ok_and(|text| text == "full"))];
    let mut fleet = Fleet::start(&every_second(), store, 3);
    fleet.wait_for_entry("ran", "job-0");
    let first = wall() + 1;
    wait_until_wall(first + 1);
    let (mut ran_between, mut kills_at) = (BTreeSet::new(), Vec::new());
    for _ in 0..kills {
        let server = fleet.store.server.as_mut().unwrap();
        server.kill();
        kills_at.push(SystemClock.now().wall);
        server.start_again();
        let back = processes::now();
        processes::until("a second is over", || processes::now().since(back) > Duration::from_millis(1250));
        ran_between.insert(ran(&fleet).len());
    }
    // Forty in a minute leave little between the refusals that each brings.
    assert!(ran_between.len() > kills / 8, "jobs ran in between: {ran_between:?}");
    let last = wall();
    // What nobody ran is settled after the starting deadline.
    wait_until_wall(last + 16);
    none_twice(&fleet);
    let (ran, skipped, missed) = (ran(&fleet), told(&fleet, "run_skipped"), missed_at(&fleet));
    let (mut runs, mut misses, mut reasons) = (0, 0, 0);
    for number in 0..JOBS {
        for seconds in first..=last {
            let key = (format!("job-{number}"), Tick::from_seconds(seconds));
            let has_run = ran.contains_key(&key);
            let reports = missed.get(&key).cloned().unwrap_or_default();
            // A line is written a moment after the record of which it tells.
            let moment = TimeDelta::seconds(1);
            let forgot = |pair: &[DateTime<Utc>]| kills_at.iter().any(|at| (pair[0] - moment..pair[1]).contains(at));
            assert!(
                reports.windows(2).all(forgot),
                "{key:?} was missed twice, and nothing forgotten: killed at {kills_at:?}, {:#?}",
                said_of(&fleet, &key)
            );
            let times = reports.len();
            assert!(has_run || skipped.contains_key(&key) || times > 0, "nothing was said of {key:?}");
            (runs, misses) = (runs + usize::from(has_run), misses + times);
            reasons += usize::from(!has_run && times == 0);
        }
    }
    println!(
        "{kills} kills: {runs} ticks ran, {misses} are missed, {reasons} are skipped with a reason in the log only"
    );
    assert!(fleet.daemons.iter().any(|daemon| !daemon.events("store_forgot").is_empty()));
    let mut words: BTreeMap<String, usize> = BTreeMap::new();
    let lines = fleet.daemons.iter().flat_map(|daemon| [daemon.events("run_skipped"), daemon.events("run_missed")]);
    for line in lines.flatten().filter(|line| tick_of(line).seconds() >= first) {
        let key = (line["job"].as_str().unwrap().to_owned(), tick_of(&line));
        if !ran.contains_key(&key) {
            *words.entry(line["reason"].as_str().unwrap().to_owned()).or_default() += 1;
        }
    }
    println!("what was said of those that did not run: {words:?}");
    assert!(words.contains_key("store_forgot"), "{words:?}");
    // These would say that the job is new, or that it is the replica's own fault.
    assert!(!words.contains_key("baseline") && !words.contains_key("late"), "{words:?}");
    let later = (last + 8..last + 12).all(|second| ran.contains_key(&("job-3".to_owned(), Tick::from_seconds(second))));
    assert!(later, "and after it all runs again");
}

/// A run that is going when its records vanish is known again at its next sign of life, and its end is recorded.
#[test]
fn a_run_that_goes_on_while_the_store_is_emptied_is_recorded_and_none_runs_beside_it() {
    let Some(store) = forgetful() else { return };
    let second = (wall() + 4) % 60;
    let jobs = format!(
        "  - name: long\n    schedule: \"{second} * * * * *\"\n    terminationGracePeriod: 1s\n    \
         command: {}; sleep 7; {}\n{}",
        entry("began"),
        entry("ended"),
        every_second()
    );
    let fleet = Fleet::start(&jobs, store, 3);
    let began = fleet.wait_for_entry("began", "long");
    assert_eq!(fleet.store.server.as_ref().unwrap().command("FLUSHALL"), "+OK\r\n");
    let ended = fleet.wait_for_entry("ended", "long");
    assert_eq!((ended.tick, ended.token, ended.pid), (began.tick, began.token, began.pid));
    let owner = &fleet.daemons[fleet.position(&began.replica)];
    assert_eq!(owner.wait_for_job("run_finished", "long")["outcome"], "succeeded");
    assert!(owner.events("lease_lost").is_empty(), "it was not stopped");
    let store = open(&fleet.store.url, "default");
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let outcomes = || -> Vec<(String, String)> {
        let history = runtime.block_on(store.history(&JobName::new("long").unwrap(), 9)).unwrap();
        history.into_iter().map(|entry| (entry.scheduled_for, entry.outcome)).collect()
    };
    processes::until("its end is recorded", || !outcomes().is_empty());
    assert_eq!(outcomes(), [(began.tick.to_string(), "succeeded".to_owned())]);
    none_twice(&fleet);
}

/// No tick is due for months, so that nothing is asked about any job; one restart less, and the next tick of each would be
/// refused. All are registered again within a moment, by all replicas, and each says so once.
#[test]
fn an_emptied_store_is_found_out_by_a_fleet_that_has_nothing_to_do() {
    let Some(store) = forgetful() else { return };
    let month = 1 + (DateTime::<Utc>::from_timestamp(wall(), 0).unwrap().month0() + 6) % 12;
    let job = |number| format!("  - name: rare-{number}\n    schedule: \"0 0 1 {month} *\"\n    command: \"true\"\n");
    let jobs: String = (0..5).map(job).collect();
    let fleet = Fleet::start(&jobs, store, 2);
    let server = fleet.store.server.as_ref().unwrap();
    let known =
        || (0..5).all(|number| server.command(&format!("EXISTS onecron:default:{{rare-{number}}}:job")) == ":1\r\n");
    assert!(known());
    server.command("FLUSHALL");
    for daemon in &fleet.daemons {
        let line = daemon.wait_for(|line| line["event"] == "store_forgot", Duration::from_secs(60));
        assert_eq!((&line["level"], &line["jobs"]), (&Value::from("error"), &Value::from(5)));
    }
    processes::until("all jobs are registered again", known);
    fleet.daemons.iter().for_each(|daemon| assert_eq!(daemon.events("store_forgot").len(), 1));
}

/// A cache on the same server pushes our records out.
#[test]
fn a_redis_that_evicts_starts_no_tick_twice_and_every_replica_says_so() {
    let Some(store) = forgetful() else { return };
    let fleet = Fleet::start(&every_second(), store, 3);
    fleet.wait_for_entry("ran", "job-0");
    let started = wall();
    wait_until_wall(started + 3);
    let server = fleet.store.server.as_ref().unwrap();
    server.command("CONFIG SET maxmemory-policy allkeys-random");
    server.command("CONFIG SET maxmemory 6mb");
    for round in 0..4 {
        let filler =
            format!("for i=1,1000 do redis.call('SET','filler:{round}:'..i,string.rep('x',4000)) end return 1");
        server.command(&format!("EVAL \"{filler}\" 0"));
    }
    let stats = server.command("INFO stats");
    assert!(!stats.contains("evicted_keys:0\r"), "keys were evicted");
    server.command("CONFIG SET maxmemory 0");
    for daemon in &fleet.daemons {
        let line = daemon.wait_for_event("store_forgot");
        assert_eq!(line["level"], "error");
    }
    let after = wall() + 4;
    wait_until_wall(after + 2);
    none_twice(&fleet);
    assert!(ran(&fleet).contains_key(&("job-5".to_owned(), Tick::from_seconds(after))), "and it goes on");
}
