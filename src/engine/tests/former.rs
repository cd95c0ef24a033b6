//! A job's schedule changes.

use super::replicas::*;
use super::*;

/// Job `a` by a schedule; its ticks may start 20 s late.
fn by(schedule: &str) -> JobSpec {
    JobSpec { schedule: every(schedule), spec_hash: schedule.into(), ..job("a") }
}

/// A replica that ran job `a` every minute until it was killed half a minute after the tick.
fn stopped() -> Replicas {
    let mut fleet = Replicas::new(-90);
    fleet.start("old", &[by("1m")]);
    fleet.until(30);
    assert_eq!(fleet.ends().last().unwrap().0, 0);
    fleet.kill("old");
    fleet.said.clear();
    fleet
}

fn missed(seconds: i64) -> (i64, String) {
    (seconds, "missed no_replica".into())
}

fn rescheduled(seconds: i64) -> (i64, String) {
    (seconds, "skipped rescheduled".into())
}

#[test]
fn ticks_of_the_former_schedule_are_missed_once_each_and_those_of_the_new_one_begin_after_the_change() {
    let mut fleet = stopped();
    fleet.until(170);
    fleet.start("web-1", &[by("35s")]);
    fleet.start("web-2", &[by("35s")]);
    fleet.until(260);
    assert_eq!(fleet.not_run(), [missed(60), missed(120)]);
    assert_eq!(fleet.lines(), [(60, "no_replica"), (120, "no_replica")], "one line each");
    let ran: Vec<i64> = fleet.started.iter().map(|run| run.scheduled_for.seconds() - TICK).collect();
    let first = (TICK + 170) / 35 * 35 + 35 - TICK;
    assert_eq!(
        ran,
        [-60, 0, first, first + 35, first + 70].map(|at| at).into_iter().filter(|at| *at <= 260).collect::<Vec<_>>()
    );
    assert_eq!(fleet.decided(), *ran.last().unwrap(), "the chain goes on over the change");
    assert_eq!(fleet.record().former.len(), 1);
}

#[test]
fn a_tick_that_might_still_have_been_run_when_the_schedule_changed_is_skipped_for_that() {
    let mut fleet = stopped();
    fleet.until(130);
    fleet.start("web-1", &[by("35s")]);
    fleet.start("web-2", &[by("35s")]);
    fleet.until(200);
    assert_eq!(fleet.not_run(), [missed(60), rescheduled(120)]);
    let mut lines = fleet.lines();
    lines.sort_unstable();
    assert_eq!(lines, [(60, "no_replica"), (120, "rescheduled")]);
}

/// The default deadline is made of the distances of its own schedule, not of those of the new one.
#[test]
fn a_tick_of_the_former_schedule_has_the_deadline_that_it_had() {
    let by = |schedule| JobSpec { starting_deadline: None, ..by(schedule) };
    let mut fleet = Replicas::new(-90);
    fleet.start("old", &[by("1m")]);
    fleet.until(30);
    fleet.kill("old");
    fleet.until(85);
    fleet.start("web-1", &[by("7s")]);
    fleet.until(89);
    assert!(fleet.not_run().is_empty(), "25 s late, and it had 30");
    fleet.until(100);
    assert_eq!(fleet.not_run(), [rescheduled(60)]);
}

#[test]
fn a_replica_that_has_the_former_table_still_runs_its_ticks() {
    let mut fleet = Replicas::new(-90);
    fleet.start("old", &[by("1m")]);
    fleet.until(50);
    fleet.start("new", &[by("45s")]);
    fleet.until(310);
    fleet.leave("old");
    fleet.until(400);
    assert_eq!(fleet.not_run(), []);
    let ran: Vec<i64> = fleet.ends().iter().map(|(at, ..)| *at).collect();
    for at in (60..=300).step_by(60).chain((90..=360).step_by(45)) {
        assert!(ran.contains(&at), "{at} in {ran:?}");
    }
    assert_eq!(fleet.decided(), 360);
    assert_eq!(fleet.lines(), []);
}

/// Both tables are there for minutes, and replicas register again and again: after a restart, or a break of the store.
#[test]
fn registrations_in_turns_lose_no_tick_and_make_no_misses() {
    let mut fleet = Replicas::new(-90);
    fleet.start("old", &[by("10s")]);
    fleet.start("new", &[by("15s")]);
    let mut longest = 0;
    for second in -80..600 {
        fleet.until(second);
        let who = if second % 2 == 0 { "old" } else { "new" };
        if second % 7 < 4 {
            fleet.tell(who, Event::StoreChanged);
        }
        longest = longest.max(fleet.record().former.len());
    }
    assert_eq!(longest, FORMER_MOST);
    fleet.until(606);
    fleet.leave("old");
    fleet.until(704);
    assert_eq!(fleet.not_run(), []);
    assert_eq!(fleet.lines(), []);
    let ran: Vec<i64> = fleet.ends().iter().map(|(at, ..)| *at).collect();
    for at in (0..=600).step_by(10).chain((0..=690).step_by(15)) {
        assert!(ran.contains(&at), "{at} in {ran:?}");
    }
    assert_eq!((fleet.record().schedule.as_str(), fleet.decided() >= 675), ("@every 15s", true));
    assert_eq!(fleet.record().former.len(), 1);
}

/// The last one to register had the former table, and is gone.
#[test]
fn a_schedule_that_nobody_has_any_more_does_not_stay_registered() {
    let mut fleet = Replicas::new(-90);
    fleet.start("new", &[by("45s")]);
    fleet.until(5);
    fleet.start("old", &[by("1m")]);
    fleet.until(30);
    assert_eq!(fleet.record().schedule, "@every 1m");
    fleet.leave("old");
    fleet.until(65);
    assert_eq!(fleet.record().schedule, "@every 45s");
    fleet.until(200);
    assert_eq!(fleet.not_run().iter().filter(|(_, why)| why.starts_with("missed")).count(), 0, "{:?}", fleet.not_run());
    assert_eq!(fleet.decided(), 180);
}

#[test]
fn two_tables_that_are_both_there_do_not_register_in_turns_by_themselves() {
    let mut fleet = Replicas::new(-90);
    fleet.start("old", &[by("1m")]);
    fleet.until(-30);
    fleet.start("new", &[by("45s")]);
    fleet.until(600);
    assert!(fleet.record().former.len() <= 2, "{:?}", fleet.record().former);
    let told = fleet.said.iter().filter(|(_, notice)| matches!(notice, Notice::JobRescheduled { .. })).count();
    assert!(told <= 2, "{told}");
}

#[test]
fn a_reload_leaves_no_tick_of_either_schedule_without_a_record() {
    let mut fleet = Replicas::new(-90);
    fleet.start("a", &[by("10s")]);
    for (at, schedule) in [(33, "15s"), (34, "10s"), (36, "20s"), (90, "15s")] {
        fleet.until(at);
        fleet.tell("a", Event::TableChanged(Arc::new(table(&[by(schedule)]))));
    }
    fleet.until(125);
    assert_eq!(fleet.not_run(), []);
    let ran: Vec<i64> = fleet.ends().iter().map(|(at, ..)| *at).filter(|at| *at >= 0).collect();
    assert_eq!(ran, [0, 10, 20, 30, 40, 60, 80, 105, 120]);
    assert_eq!((fleet.decided(), fleet.record().former.len()), (120, 1));
}

#[test]
fn a_suspended_job_has_no_misses_of_its_former_schedule() {
    let suspended = |schedule| JobSpec { suspend: true, ..by(schedule) };
    let mut fleet = Replicas::new(-90);
    fleet.start("old", &[suspended("1m")]);
    fleet.until(30);
    fleet.kill("old");
    fleet.until(170);
    fleet.start("web-1", &[suspended("35s")]);
    fleet.until(200);
    let wanted: Vec<(i64, String)> = [-60, 0, 60, 120].map(|at| (at, "skipped suspended".into())).into();
    assert_eq!(fleet.not_run()[..4], wanted);
    assert!(fleet.lines().iter().all(|(_, reason)| *reason == "suspended"));
}

#[test]
fn late_ticks_of_the_former_schedule_are_not_caught_up_with() {
    for catch_up in [CatchUp::None, CatchUp::Latest, CatchUp::All] {
        let by = |schedule| JobSpec { catch_up, starting_deadline: Some(secs(300)), ..by(schedule) };
        let mut fleet = Replicas::new(-90);
        fleet.start("old", &[by("1m")]);
        fleet.until(30);
        fleet.kill("old");
        fleet.until(170);
        fleet.start("web-1", &[by("35s")]);
        fleet.until(600);
        assert_eq!(fleet.not_run(), [rescheduled(60), rescheduled(120)], "{catch_up:?}");
    }
}

/// Hours of ticks that nobody could run, and some that were taken away, in one go.
#[test]
fn a_job_that_comes_back_after_days_with_another_schedule_has_one_range_and_no_more() {
    let mut fleet = stopped();
    fleet.until(3 * 86_400 + 130);
    fleet.start("web-1", &[by("35s")]);
    fleet.until(3 * 86_400 + 400);
    let first = fleet.lines();
    assert_eq!(first.iter().filter(|(_, reason)| *reason == "no_replica").count(), 1, "{first:?}");
    assert!(first.contains(&(3 * 86_400 + 120, "rescheduled")), "{first:?}");
    assert!(fleet.not_run().contains(&missed(3 * 86_400 + 60)), "the end of the range");
    assert!(fleet.decided() > 3 * 86_400 + 300);
}

#[test]
fn a_former_schedule_that_cannot_be_read_is_said_and_holds_nothing_up() {
    let mut fleet = Replicas::new(-90);
    fleet.start("newer", &[by("1m")]);
    fleet.until(30);
    fleet.kill("newer");
    let mut record = fleet.record().clone();
    record.schedule = "at sunset".into();
    let registration = Registration {
        job: name("a"),
        schedule: record.schedule.clone(),
        zone: "UTC".into(),
        spec_hash: "newer".into(),
        skew_tolerance_ms: 0,
        keep_ms: 0,
        history: [1; 3],
        quiet_ms: 0,
        passed: None,
        knew: None,
    };
    fleet.records.apply(&Step::Register(registration), fleet.now.wall.timestamp_millis());
    fleet.until(170);
    fleet.start("web-1", &[by("35s")]);
    fleet.until(300);
    let unreadable = |(_, notice): &&(&str, Notice)| matches!(notice, Notice::ScheduleUnreadable { .. });
    assert_eq!(fleet.said.iter().filter(unreadable).count(), 1);
    assert_eq!(fleet.not_run(), []);
    assert!(fleet.decided() > 250, "{}", fleet.decided());
    assert_eq!(fleet.record().former.len(), 1);
}

/// The store loses all records between the change and the settling of what the former schedule owed.
#[test]
fn a_store_that_forgets_is_told_of_the_former_schedule() {
    let mut fleet = stopped();
    fleet.until(125);
    fleet.start("web-1", &[by("35s")]);
    fleet.until(128);
    fleet.records.forget(|_, _| true);
    fleet.records.identity.server = "another".into();
    fleet.tell("web-1", Event::StoreChanged);
    assert_eq!(fleet.record().former.len(), 1);
    fleet.until(300);
    let forgot = |at| (at, "missed store_forgot".to_owned());
    assert_eq!(fleet.not_run(), [forgot(120)], "60 was settled before, and the new one has none of the past");
}

/// So that the store does not take it for one that is in no table any more.
#[test]
fn a_job_is_registered_again_every_day() {
    let mut fleet = Replicas::new(0);
    fleet.start("web-1", &[by("40d")]);
    fleet.until(86_400 + 60);
    let ago = fleet.now.wall.timestamp_millis() - fleet.record().registered_at;
    assert!(ago <= 60_000, "{ago} ms");
}
