//! Each defence taken away: the check must find out.

use super::CALM;
use super::EXCLUSIVE;
use super::RERUN;
use super::SCENE;
use super::engines;
use super::engines::Scene;
use super::mutant::Mutant;
use super::search;
use super::tell;
use super::world::Bounds;
use onecron::job::ConcurrencyPolicy;

/// The model finds that, among the nearest states.
fn finds(expected: &str, mutant: Mutant, bounds: Bounds) {
    let bounds = Bounds { mutant, symmetric: false, states: 400_000, ..bounds };
    finds_within(expected, bounds);
}

fn finds_within(expected: &str, bounds: Bounds) {
    let mutant = bounds.mutant;
    let found = search::explore(bounds);
    let violation = found.violation.unwrap_or_else(|| format!("nothing in {} states", found.states));
    println!("{mutant:?}: {violation} ({} states)", found.states);
    tell(&format!("{mutant:?}"), &violation, &found.story);
    assert!(violation.contains(expected), "{mutant:?}: {violation}\n  {}", found.story.join("\n  "));
}

/// The engines run into that.
fn engines_find(expected: &str, mutant: Mutant, scene: Scene) {
    let found = engines::explore(Scene { mutant, ..scene });
    let violation = found.violation.unwrap_or_else(|| format!("nothing in {} stories", found.stories));
    println!("{mutant:?}: {violation} ({} stories)", found.stories);
    tell(&format!("{mutant:?}, engines"), &violation, &found.story);
    assert!(violation.contains(expected), "{mutant:?}: {violation}\n  {}", found.story.join("\n  "));
}

const TWICE: &str = "was started twice";
const AT_ONCE: &str = "alive";
const NEVER: &str = "never decided";

#[test]
fn with_records_deleted_on_completion_a_tick_starts_twice() {
    finds(TWICE, Mutant::DeleteOnCompletion, CALM);
}

#[test]
fn without_a_begin_a_tick_starts_twice() {
    finds(TWICE, Mutant::NoBegin, CALM);
}

#[test]
fn with_a_flag_that_nobody_watches_a_tick_is_never_decided() {
    finds(NEVER, Mutant::FlagWithoutLease, Bounds { crashes: 1, renewals: 0, ..CALM });
}

#[test]
fn with_a_lost_reply_taken_for_a_loss_a_tick_is_never_decided() {
    finds(NEVER, Mutant::LostReplyIsLoss, Bounds { replicas: 1, silent: 1, ..CALM });
}

#[test]
fn with_a_lost_reply_taken_for_a_confirmation_a_tick_starts_twice() {
    finds(TWICE, Mutant::LostReplyIsWin, Bounds { silent: 1, ..CALM });
}

#[test]
fn without_the_fence_at_begin_a_tick_starts_twice() {
    finds(TWICE, Mutant::BeginWithoutFence, CALM);
    engines_find(TWICE, Mutant::BeginWithoutFence, Scene { faults: 2, ..SCENE });
}

#[test]
fn with_a_store_that_forgets_unnoticed_a_tick_starts_twice() {
    finds(TWICE, Mutant::StoreForgetsUnnoticed, Bounds { forgets: 1, ..CALM });
}

/// S2.
#[test]
fn with_records_dropped_below_no_floor_a_decided_tick_is_taken_again() {
    engines_find("it ran: true", Mutant::DropWithoutFloor, Scene { every: 10, ..SCENE });
}

/// S4.
#[test]
fn with_a_lease_counted_from_the_claim_a_run_is_alive_twice() {
    finds(AT_ONCE, Mutant::LeaseCountedFromClaim, Bounds { kind: RERUN, ..CALM });
}

/// S4.
#[test]
fn without_the_wait_after_lost_a_run_is_alive_twice() {
    finds(AT_ONCE, Mutant::NoWaitAfterLost, Bounds { kind: RERUN, ..CALM });
}

/// S4.
#[test]
fn without_a_look_at_the_number_a_run_is_alive_twice() {
    finds(AT_ONCE, Mutant::NumberIgnored, Bounds { kind: RERUN, ..CALM });
    finds(AT_ONCE, Mutant::CompareStateOnly, Bounds { kind: RERUN, ..CALM });
}

/// S4.
#[test]
fn with_a_lease_counted_from_the_reply_a_run_is_alive_twice() {
    finds(AT_ONCE, Mutant::LeaseCountedFromReply, Bounds { kind: RERUN, ..CALM });
}

#[test]
fn with_begins_that_look_alike_a_run_is_alive_twice() {
    finds(AT_ONCE, Mutant::RequestsRepeat, Bounds { kind: RERUN, silent: 1, renewals: 0, ..CALM });
}

/// S4: whoever is up looks after open runs.
#[test]
fn with_nobody_to_watch_a_run_that_was_taken_over_it_is_never_decided() {
    let (mutant, kind, crashes, renewals) = (Mutant::UnrecordedIsForgotten, RERUN, 1, 0);
    finds_within(NEVER, Bounds { mutant, kind, crashes, renewals, states: 200_000, ..CALM });
}

/// S5.
#[test]
fn with_a_slot_that_is_free_at_lost_two_runs_are_alive_at_once() {
    let forbid = Scene { concurrency: ConcurrencyPolicy::Forbid, every: 20, lasts: 25_000, ..SCENE };
    engines_find(AT_ONCE, Mutant::SlotFreedAtLost, forbid);
}

/// S5.
#[test]
fn without_the_check_for_later_ticks_tokens_fall() {
    finds("tokens fall", Mutant::NoSupersededCheck, Bounds { ticks: 2, ..CALM });
    finds("tokens fall", Mutant::NoSupersededCheck, Bounds { kind: EXCLUSIVE, ticks: 2, ..CALM });
}
