//! What the store remembers, and what follows when it does not.

use super::*;
use crate::world::Amnesia;
use crate::world::MINUTE;

/// When a replica asked only for registrations, and how many.
fn registrations(world: &World, replica: usize, from: Micros) -> Vec<(Micros, usize)> {
    let traffic = world.traffic.iter().flatten();
    let asked = traffic.filter(|(at, who, _)| *who == replica && *at >= from);
    asked
        .map(|(at, _, steps)| (*at, steps.iter().filter(|step| **step == "register").count()))
        .filter(|(_, count)| *count > 0)
        .collect()
}

#[test]
fn all_jobs_are_registered_in_one_batch() {
    let mut world = World::still(2, (0..40).map(|n| job(&format!("j{n}"), 60, 1)).collect());
    world.run_until(at(5));
    for replica in 0..2 {
        assert_eq!(registrations(&world, replica, 0), [(replica as u64, 40)]);
    }
}

#[test]
fn a_job_that_comes_with_a_reload_is_registered_at_once() {
    let mut world = World::still(2, vec![job("a", 60, 1)]);
    let mut table = (*world.versions[0]).clone();
    table.jobs.push(std::sync::Arc::new(job("b", 10, 1)));
    world.versions.push(std::sync::Arc::new(table));
    world.run_until(at(31));
    world.now_happens(What::Reload { replica: 1, version: 1 });
    assert_eq!(registrations(&world, 1, at(30)), [(at(31), 1)]);
    world.run_until(at(45));
    assert_eq!(world.starts(&run("b", 40)).len(), 1, "its first tick after that runs");
}

#[test]
fn all_jobs_are_registered_again_once_the_store_is_another_one() {
    let mut world = World::still(2, (0..40).map(|n| job(&format!("j{n}"), 600, 1)).collect());
    world.run_until(at(50));
    world.now_happens(What::Remember);
    world.now_happens(What::Forget { how: Amnesia::Back });
    world.run_until(at(53));
    for replica in 0..2 {
        let again = registrations(&world, replica, at(50));
        assert_eq!(again.iter().map(|(_, count)| count).max(), Some(&40), "{again:?}");
    }
}

#[test]
fn nothing_expires_while_nobody_is_there() {
    let mut world = World::still(1, vec![job("a", 3_600, 50)]);
    world.run_until(at(3_610));
    world.now_happens(What::Crash { replica: 0 });
    world.run_until(at(3_600 * 21));
    let record = world.record_of(&run("a", 3_600)).unwrap();
    assert_eq!((record.state, record.owner), (RunState::Begun, World::name(0, 1)));
    world.now_happens(What::Restart { replica: 0 });
    world.run_until(world.now + MINUTE);
    assert_eq!(world.decided[&run("a", 3_600)].outcome, Some(Outcome::Lost));
    assert_eq!(world.starts(&run("a", 3_600)).len(), 1);
}

#[test]
fn records_stay_for_an_hour_and_not_for_ever() {
    let mut world = World::still(1, vec![job("a", 60, 1)]);
    world.ends_at(3 * 3_600 + 30);
    let ticks: Vec<i64> =
        world.records.runs(&run("a", 0).job).map(|record| record.scheduled_for.seconds() - EPOCH).collect();
    let young = ticks.iter().filter(|tick| **tick > 2 * 3_600).count();
    assert_eq!(young, 60, "{ticks:?}");
    assert!(ticks[0] > 3_600, "{ticks:?}");
}

fn allowing(name: &str, seconds: u64) -> JobSpec {
    JobSpec { concurrency_policy: ConcurrencyPolicy::Allow, ..job(name, seconds, 1) }
}

#[test]
fn after_a_flush_later_ticks_run_and_those_before_are_told_to_be_unknown() {
    let mut world = World::still(3, vec![allowing("a", 10)]);
    world.run_until(at(69));
    world.faults.amnesia = true;
    // The tick comes between the loss and the moment from which the store remembers.
    world.now_happens(What::Forget { how: Amnesia::Flush });
    world.run_until(at(100));
    assert_eq!(world.starts(&run("a", 70)).len(), 0);
    assert_eq!(world.reason(&run("a", 70)), "store_forgot");
    assert_eq!(world.starts(&run("a", 80)).len(), 1);
}

#[test]
fn after_a_loss_nothing_that_must_not_overlap_begins_before_the_silence_was_watched() {
    let mut world = World::still(3, vec![job("a", 10, 1), allowing("b", 10)]);
    world.run_until(at(62));
    world.faults.amnesia = true;
    world.now_happens(What::Forget { how: Amnesia::Restart });
    world.ends_at(100);
    let after: Vec<_> = world.children.iter().filter(|child| child.began > at(62)).collect();
    let first = |name: &str| after.iter().find(|child| child.run.job.as_str() == name).unwrap().began;
    let silence = LEASE + GRACE_AND_MARGIN;
    assert!(at(62) + silence <= first("a") && first("a") < at(62) + silence + 5 * SECOND, "{}", first("a"));
    assert!(first("b") < at(71), "{}", first("b"));
}

#[test]
fn a_run_that_the_store_forgot_ends_as_it_ended() {
    let mut world = World::still(3, vec![job("a", 60, 20)]);
    world.run_until(at(65));
    world.faults.amnesia = true;
    world.now_happens(What::Forget { how: Amnesia::Restart });
    world.run_until(at(66) + 2 * SECOND);
    assert_eq!(world.record_of(&run("a", 60)).map(|record| record.state), Some(RunState::Begun), "its owner spoke up");
    world.ends_at(100);
    assert_eq!(world.outcome(&run("a", 60)), Some(Outcome::Succeeded));
    assert_eq!(world.starts(&run("a", 60)).len(), 1);
}

#[test]
fn a_store_that_lost_everything_begins_a_new_history_and_that_is_said() {
    let mut world = World::still(2, vec![job("a", 60, 1)]);
    world.run_until(at(100));
    world.faults.amnesia = true;
    for replica in 0..2 {
        world.now_happens(What::Crash { replica });
        world.put(at(200), What::Restart { replica });
    }
    world.now_happens(What::Forget { how: Amnesia::Flush });
    world.ends_at(260);
    let told = world.said(|notice| matches!(notice, Notice::JobRegistered { .. }));
    let [_, again] = told[..] else { panic!("{told:#?}") };
    let Notice::JobRegistered { since, .. } = again.notice else { panic!("{again:?}") };
    assert!((200_000..201_500).contains(&(since - EPOCH * 1_000)), "{again:?}");
    assert!(world.record_of(&run("a", 120)).is_none(), "of what was before nothing is said");
    assert_eq!(world.starts(&run("a", 240)).len(), 1);
}
