//! What holds.

use super::CALM;
use super::EXCLUSIVE;
use super::RERUN;
use super::SCENE;
use super::engines;
use super::engines::Scene;
use super::is_long;
use super::search;
use super::world::Bounds;
use onecron::job::ConcurrencyPolicy;
use onecron::job::LostRunPolicy;

/// Nothing is broken, in all states within the bounds.
fn holds(bounds: Bounds) {
    let found = search::explore(bounds);
    println!("{bounds:?}: {} states, {} steps, {} deep", found.states, found.steps, found.depth);
    assert_eq!(found.violation, None, "{bounds:?}\n  {}", found.story.join("\n  "));
    assert!(found.complete, "{bounds:?}: more states than {}", bounds.states);
}

/// Nothing is broken in so many states, the nearest ones.
fn holds_in_the_nearest(states: usize, bounds: Bounds) {
    let found = search::explore(Bounds { states, ..bounds });
    println!(
        "{bounds:?}: {} states, {} steps, {} deep, all: {}",
        found.states, found.steps, found.depth, found.complete
    );
    assert_eq!(found.violation, None, "{bounds:?}\n  {}", found.story.join("\n  "));
}

fn holds_for_engines(scene: Scene) {
    let found = engines::explore(scene);
    println!("{scene:?}: {} stories", found.stories);
    assert_eq!(found.violation, None, "{scene:?}\n  {}", found.story.join("\n  "));
}

#[test]
fn a_tick_is_started_once_whatever_request_is_lost_or_late() {
    holds(Bounds { silent: 1, ..CALM });
}

#[test]
fn a_tick_is_started_once_whoever_crashes() {
    holds(Bounds { crashes: 1, ..CALM });
}

#[test]
fn a_tick_is_started_once_by_three() {
    holds(Bounds { replicas: 3, ..CALM });
}

#[test]
fn a_tick_is_started_once_though_the_store_forgets() {
    holds(Bounds { forgets: 1, ..CALM });
}

#[test]
fn a_run_that_may_be_started_again_is_never_alive_twice() {
    let states = if is_long() { 4_000_000 } else { 100_000 };
    holds(Bounds { kind: RERUN, ..CALM });
    holds_in_the_nearest(states, Bounds { kind: RERUN, crashes: 1, ..CALM });
    holds_in_the_nearest(states, Bounds { kind: RERUN, silent: 1, ..CALM });
}

#[test]
fn runs_of_two_ticks_are_never_alive_at_once() {
    let states = if is_long() { 10_000_000 } else { 100_000 };
    holds_in_the_nearest(states, Bounds { kind: EXCLUSIVE, ticks: 2, ..CALM });
}

#[test]
fn the_long_campaign_finds_nothing_either() {
    if !is_long() {
        return;
    }
    for replicas in [2, 3] {
        for kind in [super::REPORT, RERUN] {
            holds_in_the_nearest(10_000_000, Bounds { kind, replicas, silent: 1, crashes: 1, ..CALM });
        }
    }
}

#[test]
fn engines_start_a_tick_once_with_any_two_faults() {
    holds_for_engines(Scene { faults: 2, ..SCENE });
    holds_for_engines(Scene { replicas: 3, ..SCENE });
}

#[test]
fn engines_start_a_lost_run_again_and_never_have_it_twice_with_any_two_faults() {
    holds_for_engines(Scene { faults: 2, lost: LostRunPolicy::Rerun, ..SCENE });
    holds_for_engines(Scene { replicas: 3, lost: LostRunPolicy::Rerun, ..SCENE });
}

#[test]
fn engines_never_have_two_runs_of_an_exclusive_job_with_any_fault() {
    let forbid = Scene { concurrency: ConcurrencyPolicy::Forbid, every: 20, ..SCENE };
    for lost in [LostRunPolicy::Report, LostRunPolicy::Rerun] {
        for lasts in [4_000, 25_000] {
            holds_for_engines(Scene { lost, lasts, ..forbid });
        }
    }
}

#[test]
fn engines_hold_out_against_more_faults_in_the_long_campaign() {
    if !is_long() {
        return;
    }
    for lost in [LostRunPolicy::Report, LostRunPolicy::Rerun] {
        holds_for_engines(Scene { replicas: 3, faults: 2, lost, ..SCENE });
        holds_for_engines(Scene { faults: 3, lost, ..SCENE });
        for lasts in [4_000, 25_000] {
            let forbid = Scene { concurrency: ConcurrencyPolicy::Forbid, every: 20, lost, lasts, ..SCENE };
            holds_for_engines(Scene { faults: 2, ..forbid });
        }
    }
}
