//! Each defence taken away: the same campaign must find out.

use super::campaign::failures;
use super::world::Faults;
use super::world::Without;

/// The campaign finds that, within so many seeds.
fn finds(expected: &str, (without, seeds): (Without, u64), faults: Faults) {
    let (failures, _) = failures(0..seeds, faults.without(without));
    let found = failures.iter().filter(|(_, what)| what.contains(expected)).count();
    assert!(found > 0, "{seeds} seeds without {without:?}, and never {expected:?}: {failures:#?}");
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
fn without_the_records_of_what_is_decided_ticks_are_started_twice() {
    finds(TWICE, (Without::Records, 40), Faults::ALL);
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
    finds(AT_ONCE, (Without::LookBeforeSpawn, 200), Faults::ALL);
}

#[test]
fn without_a_guardian_runs_overlap() {
    finds(AT_ONCE, (Without::Guardian, 40), Faults::ALL);
}

#[test]
fn without_the_stores_clock_ticks_are_settled_while_somebody_could_run_them() {
    finds("was there", (Without::SettlingInTime, 200), Faults::ALL);
}

#[test]
fn without_a_compare_and_set_a_run_that_lives_is_called_lost() {
    finds(AT_ONCE, (Without::CompareAndSet, 100), Faults::ALL);
}
