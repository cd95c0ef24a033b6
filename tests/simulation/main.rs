//! A fleet of three to seven engines on one store, a simulated day for each seed: requests and replies are lost and late,
//! replicas crash, pause, drain and are cut off, their clocks drift and step, their tables change, and the store forgets.
//! Everything follows from a seed; a failure prints it, and `ONECRON_SEED=<seed>` runs it alone.
//!
//! Built without optimisation it runs a few seeds. `scripts/test` runs two thousand, and `scripts/simulate` as many as
//! one likes: both with the profile `sim`.

#![expect(clippy::unwrap_used, reason = "tests: the names say it, and a panic is a failure")]
#![expect(clippy::print_stdout, reason = "how much was looked at is half of the result: `--nocapture` shows it")]

mod campaign;
mod check;
mod random;
mod regressions;
mod scenarios;
mod table;
mod twins;
mod world;

use campaign::campaign;
use campaign::seeds;
use world::Faults;
use world::World;

/// What a campaign must have met, or it has not looked. (Of a few seeds that cannot be asked.)
const RARE: [&str; 17] = [
    "lost reply",
    "drain",
    "fenced",
    "recorded late",
    "too old",
    "too early",
    "superseded",
    "busy",
    "given back",
    "occupied range",
    "takeover before begin",
    "rerun",
    "range",
    "spawn too late",
    "start",
    "run_lost",
    "run_missed",
];

#[test]
fn no_tick_is_started_twice_and_each_has_one_outcome() {
    let seeds = seeds();
    let many = seeds.end - seeds.start >= 1_000;
    let met = campaign(seeds, Faults::ALL);
    for what in RARE.iter().filter(|_| many) {
        assert!(met.contains_key(what), "{what} was never met: {met:?}");
    }
}

#[test]
fn a_store_that_forgets_starts_no_tick_twice_and_no_run_beside_one_that_goes_on() {
    let seeds = seeds();
    let count = seeds.end - seeds.start;
    campaign(seeds.start..seeds.start + count.div_ceil(4), Faults::AMNESIA);
}

#[test]
fn what_people_order_is_run_once_and_what_they_pause_goes_on() {
    let seeds = seeds();
    let count = seeds.end - seeds.start;
    campaign(seeds.start..seeds.start + count.div_ceil(4), Faults::PEOPLE);
}

#[test]
fn the_same_seed_gives_the_same_story() {
    let story = |seed| {
        let world = World::play(seed, Faults::ALL);
        world.lines.iter().map(|line| format!("{line:?}")).collect::<Vec<_>>()
    };
    let (one, two) = (story(5), story(5));
    assert!(one.len() > 1_000, "{} lines are no story", one.len());
    assert!(one == two, "two stories of one seed differ");
}
