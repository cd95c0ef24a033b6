//! Ticks that nobody ran, clocks that are wrong, and tables that differ.

use super::*;
use crate::world::MINUTE;
use onecron::store::Records;
use std::time::Duration;

fn crash(world: &mut World, replicas: usize, until: Micros) {
    for replica in 0..replicas {
        world.now_happens(What::Crash { replica });
        world.put(until, What::Restart { replica });
    }
}

#[test]
fn a_tick_that_nobody_was_there_for_is_missed_once() {
    let mut world = World::still(3, vec![job("a", 60, 1)]);
    world.run_until(at(55));
    crash(&mut world, 3, at(100));
    world.run_until(at(115));
    assert_eq!(world.reason(&run("a", 60)), "no_replica");
    let missed = world.said(|notice| matches!(notice, Notice::RunMissed { facts, .. } if facts.run == run("a", 60)));
    assert_eq!(missed.len(), 1, "{missed:#?}");
}

#[test]
fn a_long_absence_is_a_few_ranges_and_a_claim_in_one_is_answered() {
    let mut world = World::still(2, vec![job("a", 10, 1)]);
    world.run_until(at(105));
    crash(&mut world, 2, at(10_905));
    world.ends_at(11_100);
    let ranges = world.said(|notice| matches!(notice, Notice::RunsMissed { .. }));
    assert!((1..=3).contains(&ranges.len()), "{ranges:#?}");
    assert!(world.records.runs(&run("a", 0).job).count() < 300);
    let mut records: Records = world.records.clone();
    let claim = Claim { takeover: None, ..claim(&run("a", 5_000)) };
    assert_eq!(records.apply(&Step::Claim(claim), world.store_time()).verdict, Verdict::Done);
}

fn claim(run: &RunKey) -> Claim {
    Claim {
        run: run.clone(),
        owner: World::name(0, 9),
        previous: run.scheduled_for.seconds() - 10,
        delay_ms: 0,
        take: true,
        takeover: None,
        lease_ms: 5_000,
        takeover_ms: 5_000,
        grace_ms: 2_000,
        stop_grace_ms: 2_000,
        exclusive: true,
        when_busy: WhenBusy::Skip,
        rerun: false,
        trigger: Trigger::Schedule.as_str().into(),
        spec_hash: String::new(),
    }
}

#[test]
fn a_clock_that_is_ahead_starts_nothing_early() {
    let mut world = World::still(1, vec![job("a", 60, 1)]);
    world.put(at(1), What::Step { replica: 0, by_ms: 45_000 });
    world.run_until(at(300));
    for tick in [120, 180, 240] {
        let began = world.starts(&run("a", tick))[0].began;
        let due = at(tick.unsigned_abs());
        assert!(due - SECOND / 4 <= began && began <= due + SECOND, "{tick}: {began}");
    }
}

/// When the tick at 60 is called missed; the only replica was away over it, and its clock steps by so much at 76.
fn settled_after_a_step(by_ms: i64) -> Micros {
    let mut world =
        World::still(1, vec![JobSpec { starting_deadline: Some(Duration::from_secs(10)), ..job("a", 60, 1) }]);
    world.run_until(at(58));
    crash(&mut world, 1, at(75));
    world.put(at(76), What::Step { replica: 0, by_ms });
    world.run_until(at(100));
    let missed = world.said(|notice| matches!(notice, Notice::RunMissed { .. }));
    assert_eq!(missed.len(), 1, "{missed:#?}");
    missed[0].at
}

#[test]
fn after_a_step_of_the_clock_nothing_is_settled_for_a_lease() {
    assert!(settled_after_a_step(0) < at(76) + LEASE);
    assert!(settled_after_a_step(5_000) >= at(76) + LEASE);
}

#[test]
fn a_clock_that_went_back_sees_its_instants_again_and_runs_none_twice() {
    let mut world = World::still(1, vec![job("a", 60, 1)]);
    world.put(at(90), What::Step { replica: 0, by_ms: -3_600_000 });
    world.put(at(200), What::Step { replica: 0, by_ms: 3_600_000 });
    world.run_until(at(90) + 2 * MINUTE - SECOND);
    let again = |notice: &Notice| matches!(notice, Notice::RunSkipped { facts, .. } if facts.run.scheduled_for.seconds() < EPOCH);
    assert!(!world.said(again).is_empty(), "an agenda that waits for the time that it had");
    world.run_until(at(300));
    assert_eq!(world.starts(&run("a", 60)).len(), 1);
    assert_eq!(world.starts(&run("a", 240)).len(), 1);
}

#[test]
fn no_instant_of_a_wrong_clock_is_kept() {
    let mut world =
        World::still(1, vec![JobSpec { starting_deadline: Some(Duration::from_secs(200)), ..job("a", 600, 5) }]);
    world.put(at(1), What::Step { replica: 0, by_ms: -100_000 });
    world.run_until(at(720));
    let record = world.record_of(&run("a", 600)).unwrap();
    let due = (EPOCH + 700) * 1_000;
    for (what, instant) in
        [("claimed", record.claimed_at), ("begun", record.begun_at), ("ended", record.ended_at - 5_000)]
    {
        assert!((due..due + 1_000).contains(&instant), "{what} at {instant}, and the store's clock showed {due}");
    }
    let job = world.records.job(&run("a", 600).job).unwrap();
    assert!((0..2_000).contains(&(job.registered_at - EPOCH * 1_000)), "{job:?}");
}

#[test]
fn replicas_with_different_tables_say_so_until_they_agree() {
    let mut world = World::still(2, vec![job("a", 60, 1)]);
    let mut table = (*world.versions[0]).clone();
    table.revision = "another".into();
    world.versions.push(std::sync::Arc::new(table));
    for (replica, seconds) in [(0, 30), (1, 60)] {
        world.put(at(seconds), What::Reload { replica, version: 1 });
    }
    world.ends_at(90);
    for replica in 0..2 {
        let heard = |is_it: fn(&Notice) -> bool| {
            world.said(is_it).into_iter().filter(|line| line.replica == replica).map(|line| line.at).collect::<Vec<_>>()
        };
        let differ = heard(|notice| matches!(notice, Notice::TableDisagrees(_)));
        let agree = heard(|notice| matches!(notice, Notice::TableAgrees { .. }));
        assert!(differ.len() == 1 && (at(30)..at(60)).contains(&differ[0]), "r{replica}: {differ:?}");
        assert!(agree.len() == 1 && (at(60)..at(75)).contains(&agree[0]), "r{replica}: {agree:?}");
    }
}
