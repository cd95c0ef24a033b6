//! A bounded model check of claim, begin and complete: all that can happen to a few replicas, within bounds, one story
//! after another, the shortest first.
//!
//! Twice, since neither says all:
//!
//! * **The model** (`world.rs`, `client.rs`): the store is the product's `transition::apply`; the replicas are small
//!   clients that follow the engine's protocol, small enough that *all* orders of sending, arriving, replying, crashing,
//!   waiting and forgetting are looked at, states that were met being known by their hash (`search.rs`).
//! * **The engines** (`engines.rs`): the product's `Engine` and `transition::apply` in virtual time, with every
//!   combination of a few faults at every request.
//!
//! What must hold is checked at each start of a process, at each step of the store, and at the end: no second start of a
//! tick (three where it may be started again), no two at once where they must not be, tokens that never fall, outcomes
//! that stay, and no state from which a tick is never decided.
//!
//! `ONECRON_MODEL=long cargo test --release --test model` looks further. `ONECRON_MODEL_STORY=1` prints, with
//! `--nocapture`, how each mutant is found out.

#![expect(clippy::unwrap_used, reason = "tests: the names say it, and a panic is a failure")]
#![expect(clippy::print_stdout, reason = "how much was looked at is half of the result: `--nocapture` shows it")]

mod client;
mod engines;
mod mutant;
mod same;
mod search;
mod steps;
mod store;
mod world;

mod facts;
mod twins;

use engines::Scene;
use mutant::Mutant;
use onecron::job::ConcurrencyPolicy;
use onecron::job::LostRunPolicy;
use steps::Kind;
use world::Bounds;

const REPORT: Kind = Kind { exclusive: false, rerun: false };
const RERUN: Kind = Kind { exclusive: false, rerun: true };
const EXCLUSIVE: Kind = Kind { exclusive: true, rerun: false };

/// Two replicas, one tick, nothing goes wrong but time.
const CALM: Bounds = Bounds {
    kind: REPORT,
    mutant: Mutant::None,
    replicas: 2,
    ticks: 1,
    silent: 0,
    crashes: 0,
    forgets: 0,
    renewals: 1,
    symmetric: true,
    states: 4_000_000,
};

/// Two engines, one tick, one fault.
const SCENE: Scene = Scene {
    replicas: 2,
    faults: 1,
    concurrency: ConcurrencyPolicy::Allow,
    lost: LostRunPolicy::Report,
    every: 60,
    lasts: 4_000,
    mutant: Mutant::None,
};

/// Whether the long campaign was asked for.
fn is_long() -> bool {
    std::env::var("ONECRON_MODEL").is_ok_and(|value| value == "long")
}

/// Whether a mutant's story is to be printed.
fn tell(name: &str, violation: &str, story: &[String]) {
    if std::env::var_os("ONECRON_MODEL_STORY").is_some() {
        println!("{name}: {violation}\n  {}", story.join("\n  "));
    }
}
