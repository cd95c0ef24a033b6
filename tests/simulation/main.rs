//! Three engines on one store in virtual time: requests and replies are lost and late, replicas crash, pause and
//! restart, their clocks drift and step. Everything follows from a seed; a failure prints it, and
//! `ONECRON_SEED=<seed> cargo test simulation` runs it alone.

#![expect(clippy::unwrap_used, reason = "tests: the names say it, and a panic is a failure")]

mod check;
mod random;
mod table;
mod world;

use world::Faults;
use world::World;

/// How many seeds the ordinary tests run. `ONECRON_SEEDS=<count>` runs a longer campaign.
const SEEDS: u64 = 1_000;

fn seeds() -> std::ops::Range<u64> {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    match number("ONECRON_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("ONECRON_SEEDS").unwrap_or(SEEDS),
    }
}

/// A third of them, of many: for worlds beside the ordinary one.
fn fewer(seeds: std::ops::Range<u64>) -> std::ops::Range<u64> {
    let count = seeds.end - seeds.start;
    seeds.start..seeds.start + count.div_ceil(3)
}

/// Runs all seeds on both cores; returns what went wrong, by seed.
fn campaign(seeds: std::ops::Range<u64>, faults: Faults) -> Vec<(u64, String)> {
    let half = seeds.start.midpoint(seeds.end);
    let part = |seeds: std::ops::Range<u64>| {
        std::thread::spawn(move || {
            let mut failures = Vec::new();
            for seed in seeds {
                failures.extend(World::run(seed, faults).err().map(|what| (seed, what)));
            }
            failures
        })
    };
    let threads = [part(seeds.start..half), part(half..seeds.end)];
    threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
}

#[test]
fn no_tick_is_started_twice_and_each_has_one_outcome() {
    let failures = campaign(seeds(), Faults::ALL);
    let first: Vec<_> = failures.iter().take(60).collect();
    assert!(failures.is_empty(), "{} seeds failed; the first: {first:#?}", failures.len());
}

/// The twin: with a store whose begin does not look at owner and start, the same campaign finds double starts.
#[test]
fn without_the_fence_at_begin_ticks_are_started_twice() {
    let failures = campaign(0..300, Faults { fence: false, ..Faults::ALL });
    let double = failures.iter().filter(|(_, what)| what.contains("started twice")).count();
    assert!(double > 0, "300 seeds without the fence, and no double start: the simulation does not look");
}

/// The twin: with a store that gives a slot away when the stop of its run is asked for, and not when it is gone, the
/// same campaign finds two runs at once.
#[test]
fn without_waiting_for_the_end_a_replaced_run_overlaps_its_successor() {
    let failures = campaign(0..20, Faults { drains: false, ..Faults::NONE });
    let both = failures.iter().filter(|(_, what)| what.contains(" ran until ")).count();
    assert!(both > 0, "20 seeds without the wait, and never two runs at once: the simulation does not look");
}

#[test]
fn where_nothing_goes_wrong_every_tick_of_a_job_that_replaces_is_run() {
    for seed in 0..40 {
        let world = World::play(seed, Faults::NONE);
        check::all(&world).and_then(|()| check::calm(&world)).unwrap_or_else(|what| panic!("seed {seed}: {what}"));
    }
}

#[test]
fn a_store_that_forgets_starts_no_tick_twice_and_no_run_beside_one_that_goes_on() {
    let failures = campaign(fewer(seeds()), Faults::AMNESIA);
    let first: Vec<_> = failures.iter().take(60).collect();
    assert!(failures.is_empty(), "{} seeds failed; the first: {first:#?}", failures.len());
}

#[test]
fn what_people_order_is_run_once_and_what_they_pause_goes_on() {
    let failures = campaign(fewer(seeds()), Faults::PEOPLE);
    let first: Vec<_> = failures.iter().take(60).collect();
    assert!(failures.is_empty(), "{} seeds failed; the first: {first:#?}", failures.len());
}

#[test]
fn what_people_order_is_run_once_where_the_store_forgets() {
    let failures = campaign(fewer(fewer(seeds())), Faults { people: true, ..Faults::AMNESIA });
    let first: Vec<_> = failures.iter().take(60).collect();
    assert!(failures.is_empty(), "{} seeds failed; the first: {first:#?}", failures.len());
}

/// The twin: a store that does not notice that it forgot.
#[test]
fn without_the_memory_guard_a_store_that_forgets_starts_ticks_twice() {
    let failures = campaign(0..60, Faults { guard: false, ..Faults::AMNESIA });
    let double = failures.iter().filter(|(_, what)| what.contains("started twice")).count();
    assert!(double > 0, "60 seeds without the guard, and no double start: the simulation does not look");
}

#[test]
fn the_same_seed_gives_the_same_story() {
    let (one, two) = (World::story(7, Faults::ALL), World::story(7, Faults::ALL));
    assert!(one.len() > 1_000, "{} lines are no story", one.len());
    assert_eq!(one, two);
}
