//! Who is dead, and what follows.

use super::*;

#[test]
fn a_run_whose_owner_died_is_lost_after_a_lease_and_within_one_and_a_half() {
    let mut world = World::still(3, vec![job("a", 60, 40)]);
    world.run_until(at(70));
    let owner = world.until(&run("a", 60), RunState::Begun);
    world.now_happens(What::Crash { replica: owner });
    world.ends_at(110);
    let lost = world.lost_at(&run("a", 60));
    assert!(lost >= at(70) - LEASE / 3 - SECOND / 10 + LEASE, "{lost}");
    assert!(lost <= at(70) + LEASE * 3 / 2, "{lost}");
    assert_eq!(world.outcome(&run("a", 60)), Some(Outcome::Lost));
}

#[test]
fn a_step_of_all_wall_clocks_makes_no_run_lost() {
    let mut world = World::still(3, vec![job("a", 60, 40)]);
    world.run_until(at(70));
    for replica in 0..3 {
        world.now_happens(What::Step { replica, by_ms: 20_000 });
    }
    world.ends_at(150);
    assert_eq!(world.outcome(&run("a", 60)), Some(Outcome::Succeeded));
}

#[test]
fn a_step_of_the_stores_clock_makes_no_run_lost() {
    let mut world = World::still(3, vec![job("a", 60, 40)]);
    for (seconds, ahead) in [(70, 3_600_000), (80, -3_600_000), (90, 0)] {
        world.run_until(at(seconds));
        world.store_offset_ms = ahead;
    }
    world.run_until(at(150));
    assert_eq!(world.outcome(&run("a", 60)), Some(Outcome::Succeeded));
    assert_eq!(world.starts(&run("a", 60)).len(), 1);
}

#[test]
fn the_slot_of_a_lost_run_is_free_after_its_grace_and_the_margin() {
    let mut world = World::still(3, vec![job("a", 10, 30)]);
    world.run_until(at(12));
    let owner = world.until(&run("a", 10), RunState::Begun);
    world.now_happens(What::Crash { replica: owner });
    world.run_until(at(28));
    let lost = world.lost_at(&run("a", 10));
    let next = world.starts(&run("a", 20))[0].began;
    assert!(lost + GRACE_AND_MARGIN <= next && next <= lost + GRACE_AND_MARGIN + 2 * SECOND, "{lost} {next}");
}

#[test]
fn the_word_of_the_owner_of_a_lost_run_is_kept_and_frees_the_slot() {
    let mut world = World::still(3, vec![job("a", 10, 30)]);
    world.run_until(at(12));
    let owner = world.until(&run("a", 10), RunState::Begun);
    world.now_happens(What::Cut { replica: owner, until: at(20) });
    world.run_until(at(28));
    let (lost, record) = (world.lost_at(&run("a", 10)), world.record_of(&run("a", 10)).unwrap());
    assert_eq!((record.outcome, record.late_outcome), (Some(Outcome::Lost), Some(Outcome::Interrupted)));
    let next = world.starts(&run("a", 20))[0].began;
    assert!(next < lost + GRACE_AND_MARGIN, "{lost} {next}");
}

#[test]
fn a_run_that_may_be_started_again_is_when_the_first_start_is_gone() {
    let mut world = World::still(3, vec![rerunning("a", 60, 40)]);
    world.run_until(at(70));
    let owner = world.until(&run("a", 60), RunState::Begun);
    world.now_happens(What::Crash { replica: owner });
    world.ends_at(160);
    let starts = world.starts(&run("a", 60));
    let [first, second] = starts[..] else { panic!("{starts:#?}") };
    let least = at(70) - LEASE / 3 - SECOND / 10 + LEASE + GRACE_AND_MARGIN;
    assert!(second.began >= least, "{second:?}");
    assert!(first.ended.unwrap() < second.began, "{first:?} {second:?}");
    assert_eq!(world.outcome(&run("a", 60)), Some(Outcome::Succeeded));
}

#[test]
fn a_run_whose_owners_die_is_started_three_times() {
    let mut world = World::still(5, vec![rerunning("a", 600, 100)]);
    world.run_until(at(599));
    for start in 1..=3 {
        while world.starts(&run("a", 600)).len() < start {
            world.run_until(world.now + SECOND);
        }
        let owner = world.until(&run("a", 600), RunState::Begun);
        world.now_happens(What::Crash { replica: owner });
    }
    world.ends_at(800);
    assert_eq!(world.starts(&run("a", 600)).len(), 3);
    assert_eq!(world.outcome(&run("a", 600)), Some(Outcome::Lost));
}

#[test]
fn a_claim_whose_owner_died_before_the_begin_is_taken_over_in_time() {
    let mut world = World::still(3, vec![job("a", 60, 5)]);
    world.run_until(at(59));
    let owner = world.until(&run("a", 60), RunState::Claimed);
    world.now_happens(What::Crash { replica: owner });
    world.ends_at(120);
    let starts = world.starts(&run("a", 60));
    let [only] = starts[..] else { panic!("{starts:#?}") };
    assert!(at(65) <= only.began && only.began <= at(67), "{only:?}");
}

/// Two replicas, of which the second has no job `odd` in its table.
fn with_an_odd_job() -> World {
    let mut world = World::still(2, vec![job("a", 600, 1)]);
    let mut table = (*world.versions[0]).clone();
    table.jobs.push(std::sync::Arc::new(job("odd", 60, 100)));
    world.versions.push(std::sync::Arc::new(table));
    world.put(0, What::Reload { replica: 0, version: 1 });
    world
}

#[test]
fn a_run_of_a_job_that_is_in_no_table_is_found_by_who_starts() {
    let mut world = with_an_odd_job();
    world.run_until(at(1));
    world.now_happens(What::Crash { replica: 1 });
    world.run_until(at(70));
    world.now_happens(What::Crash { replica: 0 });
    world.put(at(80), What::Restart { replica: 1 });
    world.run_until(at(80) + LEASE + GRACE_AND_MARGIN + 3 * SECOND);
    let record = world.record_of(&run("odd", 60)).unwrap();
    assert_eq!((record.state, record.outcome), (RunState::Done, Some(Outcome::Lost)));
}

#[test]
fn a_run_of_a_job_that_is_in_no_table_is_found_by_who_met_its_owner() {
    let mut world = with_an_odd_job();
    world.run_until(at(70));
    world.now_happens(What::Crash { replica: 0 });
    world.run_until(at(70) + LEASE * 3 / 2);
    world.lost_at(&run("odd", 60));
}
