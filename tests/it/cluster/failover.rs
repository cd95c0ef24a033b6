//! Another server takes the place of the store, under running daemons.

use super::Fleet;
use super::FleetStore;
use super::entry;
use super::wall;
use crate::processes;
use crate::support::redis_modes;
use crate::support::redis_modes::Deployment;
use onecron::job::Tick;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::Duration;

const JOBS: usize = 10;
/// How long a failover and the silence after it may take.
const AGAIN_WITHIN: Duration = Duration::from_secs(60);

fn plays_on(mut deployment: Deployment) {
    let mut jobs = String::new();
    for number in 0..JOBS {
        let rest = "schedule: '* * * * * *', concurrencyPolicy: Allow";
        writeln!(jobs, "  - {{name: job-{number}, {rest}, command: '{}'}}", entry("ran")).unwrap();
    }
    let store = FleetStore { url: deployment.url.clone(), server: None };
    let fleet = Fleet::start(&jobs, store, 3);
    fleet.wait_for_entry("ran", "job-0");
    let first = wall() + 1;
    processes::until("some have run", || wall() > first + 2);
    deployment.servers[0].kill();
    let killed = wall();
    let after = || fleet.ledger().iter().filter(|entry| entry.tick > Tick::from_seconds(killed + 2)).count();
    processes::until_limit("it goes on", AGAIN_WITHIN, || after() > 3 * JOBS);
    let mut times: BTreeMap<(String, Tick), usize> = BTreeMap::new();
    for entry in fleet.ledger() {
        *times.entry((entry.job, entry.tick)).or_default() += 1;
    }
    let again = fleet.ledger().iter().filter(|entry| entry.tick > Tick::from_seconds(killed)).map(|e| e.tick).min();
    println!("{} ticks ran; killed at {}, next {again:?}", times.len(), Tick::from_seconds(killed));
    let twice: Vec<_> = times.iter().filter(|(_, count)| **count > 1).collect();
    assert!(twice.is_empty(), "ran twice: {twice:?}");
    assert!(fleet.daemons.iter().all(|daemon| !daemon.events("store_forgot").is_empty()), "each says what is refused");
}

#[test]
fn daemons_follow_sentinels_to_the_new_primary_and_run_no_tick_twice() {
    if let Some(deployment) = redis_modes::sentinels(2, 3, |port| port) {
        plays_on(deployment);
    }
}

#[test]
fn daemons_go_on_when_a_node_of_a_cluster_dies_and_run_no_tick_twice() {
    if let Some(deployment) = redis_modes::cluster(3, 2, &mut |_| None) {
        plays_on(deployment);
    }
}
