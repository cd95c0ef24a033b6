//! Each defence taken away: the same campaign must find out.

use super::check;
use super::scenarios;
use super::world::Faults;
use super::world::SECOND;
use super::world::What;
use super::world::Without;
use super::world::World;
use onecron::job::RunState;

/// The campaign finds that, within so many seeds.
fn finds(expected: &str, (without, seeds): (Without, u64), faults: Faults) {
    let mut others = Vec::new();
    for seed in 0..seeds {
        match check::all(&World::play(seed, faults.without(without))) {
            Err(what) if what.contains(expected) => return println!("without {without:?}, seed {seed}: {what}"),
            Err(what) => others.push(what),
            Ok(()) => {}
        }
    }
    panic!("{seeds} seeds without {without:?}, and never {expected:?}: {others:#?}");
}

const TWICE: &str = "started twice";
const AT_ONCE: &str = " ran until ";

#[test]
fn without_the_fence_at_begin_ticks_are_started_twice() {
    finds(TWICE, (Without::Fence, 100), Faults::ALL);
}

#[test]
fn without_the_memory_guard_a_store_that_forgets_starts_ticks_twice() {
    finds(TWICE, (Without::MemoryGuard, 40), Faults::AMNESIA);
}

#[test]
fn without_waiting_for_the_end_a_replaced_run_overlaps_its_successor() {
    finds(AT_ONCE, (Without::SlotUntilGone, 10), Faults::NONE);
}

#[test]
fn without_waiting_for_a_lost_run_to_be_gone_its_successor_overlaps_it() {
    finds(AT_ONCE, (Without::SlotOfTheLost, 100), Faults::ALL);
}

#[test]
fn without_a_slot_runs_overlap() {
    finds(AT_ONCE, (Without::Slot, 10), Faults::NONE);
}

#[test]
fn without_the_stores_clock_ticks_begin_early() {
    finds("is due at", (Without::StoreTime, 40), Faults::ALL);
}

#[test]
fn with_no_answer_taken_for_a_yes_ticks_are_started_twice() {
    finds(TWICE, (Without::NoVerdict, 40), Faults::ALL);
}

#[test]
fn without_a_look_at_the_lease_before_the_spawn_runs_overlap() {
    let overlaps = |without| {
        let mut world = World::still(3, vec![scenarios::job("a", 10, 30)]);
        world.faults.without = without;
        world.run_until(9 * SECOND);
        let owner = world.until(&scenarios::run("a", 10), RunState::Begun);
        while !world.is_spawning() {
            world.run_until(world.now + 10);
        }
        let until = world.now + 14 * SECOND;
        world.put(world.now, What::Pause { replica: owner, until });
        world.run_until(40 * SECOND);
        check::all(&world).is_err_and(|what| what.contains(AT_ONCE))
    };
    assert!(!overlaps(None));
    assert!(overlaps(Some(Without::LookBeforeSpawn)));
}

#[test]
fn without_a_guardian_runs_overlap() {
    finds(AT_ONCE, (Without::Guardian, 40), Faults::ALL);
}

#[test]
fn without_a_compare_and_set_a_run_that_lives_is_called_lost() {
    finds(AT_ONCE, (Without::CompareAndSet, 100), Faults::ALL);
}

#[test]
fn a_replica_that_had_a_tick_and_says_no_more_of_it_is_found() {
    finds("said nothing more of it", (Without::LastWord, 20), Faults::NONE);
}
