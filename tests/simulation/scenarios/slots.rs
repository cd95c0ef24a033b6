//! Runs of one job in each other's way.

use super::*;
use std::time::Duration;

#[test]
fn a_claim_that_waits_in_line_is_not_taken_over() {
    let queueing = JobSpec {
        concurrency_policy: ConcurrencyPolicy::Queue,
        starting_deadline: Some(Duration::from_secs(60)),
        ..job("a", 20, 30)
    };
    let mut world = World::still(3, vec![queueing]);
    world.run_until(at(70));
    assert_eq!(world.owners[&run("a", 40)].len(), 1, "it waited for ten seconds, and a claim is free after five");
    let (first, second) = (world.starts(&run("a", 20)), world.starts(&run("a", 40)));
    assert!(first[0].ended.unwrap() < second[0].began, "{first:?} {second:?}");
}

#[test]
fn a_run_keeps_its_slot_between_its_attempts() {
    let wait = Duration::from_secs(12);
    let failing = JobSpec {
        description: "fails".into(),
        retry: RetryPolicy { limit: 2, backoff: wait, max_backoff: wait },
        ..job("a", 10, 1)
    };
    let mut world = World::still(3, vec![failing]);
    world.ends_at(45);
    assert_eq!(world.starts(&run("a", 10)).len(), 3);
    assert_eq!(world.reason(&run("a", 20)), "overlap");
    assert_eq!(world.reason(&run("a", 30)), "overlap");
}

#[test]
fn a_tick_whose_occupant_is_dead_waits_and_runs() {
    let mut world = World::still(3, vec![job("a", 20, 19)]);
    world.run_until(at(38));
    let owner = world.until(&run("a", 20), RunState::Begun);
    world.now_happens(What::Crash { replica: owner });
    world.run_until(at(58));
    assert_eq!(world.outcome(&run("a", 20)), Some(Outcome::Lost));
    assert_eq!(world.starts(&run("a", 40)).len(), 1, "{:?}", world.record_of(&run("a", 40)));
}

fn replacing(seconds: u64, lasts: u64) -> JobSpec {
    JobSpec { concurrency_policy: ConcurrencyPolicy::Replace, ..job("a", seconds, lasts) }
}

#[test]
fn a_run_is_replaced_when_it_is_gone() {
    let mut world = World::still(3, vec![replacing(20, 30)]);
    world.ends_at(59);
    let (first, second) = (world.starts(&run("a", 20)), world.starts(&run("a", 40)));
    assert!(first[0].ended.unwrap() <= second[0].began, "{first:?} {second:?}");
    assert_eq!(world.outcome(&run("a", 20)), Some(Outcome::Replaced));
}

#[test]
fn a_successor_begins_after_its_deadline_if_it_asked_in_time() {
    let deadline = Some(Duration::from_secs(2));
    let mut world = World::still(3, vec![JobSpec { starting_deadline: deadline, ..replacing(20, 30) }]);
    world.run_until(at(38));
    let owner = world.until(&run("a", 20), RunState::Begun);
    world.now_happens(What::Cut { replica: owner, until: at(58) });
    world.run_until(at(58));
    let second = world.starts(&run("a", 40))[0];
    let most = at(40) + LEASE + GRACE_AND_MARGIN + SECOND;
    assert!(at(42) < second.began && second.began < most, "{second:?}");
}

#[test]
fn a_run_that_a_drain_stopped_is_not_started_again() {
    let mut world = World::still(3, vec![rerunning("a", 60, 30)]);
    world.run_until(at(65));
    let owner = world.until(&run("a", 60), RunState::Begun);
    world.now_happens(What::Drain { replica: owner, timeout: Duration::from_secs(1) });
    world.ends_at(119);
    assert_eq!(world.outcome(&run("a", 60)), Some(Outcome::Interrupted));
    assert_eq!(world.starts(&run("a", 60)).len(), 1);
}
