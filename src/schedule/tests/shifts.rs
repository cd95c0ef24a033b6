//! Days on which clocks are set.

use super::super::zone_data::names;
use super::Schedule;
use super::at;
use super::schedule;
use super::ticks;
use crate::schedule::Action;
use crate::schedule::DstRule;
use crate::schedule::Fold;
use crate::schedule::Gap;
use crate::schedule::Shift;
use chrono::TimeDelta;
use chrono::Timelike;
use proptest::prelude::*;

const SPRING: &str = "2026-03-28T12:00:00Z"; // Berlin skips 02:00 to 03:00 on the 29th
const AUTUMN: &str = "2026-10-24T12:00:00Z"; // and has 02:00 to 03:00 twice on 25 October

fn with(text: &str, gap: Gap, fold: Fold) -> Schedule {
    schedule(text, "Europe/Berlin").with_dst(DstRule { gap, fold })
}

#[test]
fn several_times_in_one_gap_are_one_run_right_after_it() {
    let half_hourly = schedule("0,30 2,3 * * *", "Europe/Berlin");
    assert_eq!(
        ticks(&half_hourly, SPRING, 3),
        ["2026-03-29T01:00:00Z", "2026-03-29T01:30:00Z", "2026-03-30T00:00:00Z"]
    );
}

#[test]
fn a_skipped_time_is_left_out_if_the_job_says_so() {
    let skipping = with("30 2 * * *", Gap::Skip, Fold::First);
    assert_eq!(ticks(&skipping, SPRING, 1), ["2026-03-30T00:30:00Z"]);
}

#[test]
fn a_repeated_time_runs_twice_if_the_job_says_so() {
    let both = with("30 2 * * *", Gap::RunAfter, Fold::Both);
    assert_eq!(ticks(&both, AUTUMN, 3), ["2026-10-25T00:30:00Z", "2026-10-25T01:30:00Z", "2026-10-26T01:30:00Z"]);
    assert_eq!(ticks(&both, SPRING, 1), ["2026-03-29T01:00:00Z"]);
}

#[test]
fn a_job_that_follows_elapsed_time_takes_no_notice_of_the_rule() {
    for gap in [Gap::RunAfter, Gap::Skip] {
        for fold in [Fold::First, Fold::Both] {
            let hourly = with("@hourly", gap, fold);
            for from in [SPRING, AUTUMN] {
                let ticks = hourly.occurrences(at(from), 48);
                assert!(ticks.windows(2).all(|pair| (pair[1] - pair[0]).num_hours() == 1), "{ticks:?}");
            }
        }
    }
}

#[test]
fn asked_in_the_second_pass_a_fixed_time_is_tomorrows() {
    let fixed = schedule("15,45 2 * * *", "Europe/Berlin");
    assert_eq!(ticks(&fixed, "2026-10-25T01:20:00Z", 1), ["2026-10-26T01:15:00Z"]);
}

#[test]
fn a_skipped_day_is_one_run_at_its_end() {
    let daily = schedule("0 9 * * *", "Pacific/Apia"); // 30 December 2011 did not exist
    assert_eq!(
        ticks(&daily, "2011-12-29T12:00:00Z", 3),
        ["2011-12-29T19:00:00Z", "2011-12-30T10:00:00Z", "2011-12-30T19:00:00Z"]
    );
}

#[test]
fn ticks_that_were_moved_say_why() {
    let both = with("30 2 * * *", Gap::RunAfter, Fold::Both);
    let skip = with("30 2,3 * * *", Gap::Skip, Fold::First);
    let of = |text: &str| schedule(text, "Europe/Berlin");
    let gap = "(clocks go from 02:00 to 03:00)";
    let fold = "(clocks go back from 03:00 to 02:00)";
    let all = "02:00, 02:01 and 58 others do not exist on this day";
    for (schedule, tick, note) in [
        (of("30 2 * * *"), "2026-03-28T01:30:00Z", None),
        (
            of("30 2 * * *"),
            "2026-03-29T01:00:00Z",
            Some(format!("02:30 does not exist on this day {gap}: runs right after the gap")),
        ),
        (
            of("0,30 2 * * *"),
            "2026-03-29T01:00:00Z",
            Some(format!("02:00 and 02:30 do not exist on this day {gap}: one run right after the gap")),
        ),
        (
            of("0,30 2,3 * * *"),
            "2026-03-29T01:00:00Z",
            Some(format!("02:00 and 02:30 do not exist on this day {gap}: merged into this run")),
        ),
        (of("0-59 2 * * *"), "2026-03-29T01:00:00Z", Some(format!("{all} {gap}: one run right after the gap"))),
        (
            of("15 30 2 * * *"),
            "2026-03-29T01:00:00Z",
            Some(format!("02:30:15 does not exist on this day {gap}: runs right after the gap")),
        ),
        (skip, "2026-03-29T01:30:00Z", None),
        (
            of("30 2 * * *"),
            "2026-10-25T00:30:00Z",
            Some(format!("02:30 comes twice on this day {fold}: runs the first time only")),
        ),
        (
            both.clone(),
            "2026-10-25T00:30:00Z",
            Some(format!("02:30 comes twice on this day {fold}: the first of two runs")),
        ),
        (both, "2026-10-25T01:30:00Z", Some(format!("02:30 comes twice on this day {fold}: the second of two runs"))),
        (of("30 2 * * *"), "2026-10-25T01:30:00Z", None), // no tick
        (of("0 3 * * *"), "2026-03-29T01:00:00Z", None),
        (of("0 * * * *"), "2026-10-25T00:00:00Z", None),
        (of("@every 1h"), "2026-03-29T01:00:00Z", None),
    ] {
        assert_eq!(schedule.note(at(tick)), note, "{schedule:?} at {tick}");
    }
    let samoa = schedule("0 9 * * *", "Pacific/Apia").note(at("2011-12-30T10:00:00Z"));
    let clocks = "(clocks go from 2011-12-30 00:00 to 2011-12-31 00:00)";
    assert_eq!(samoa, Some(format!("2011-12-30 09:00 does not exist {clocks}: runs right after the gap")));
}

/// For each shift of the year 2026: what happens, and the ticks around it, as hour and minute in UTC.
fn at_shifts(schedule: &Schedule) -> Vec<(Vec<(Action, String)>, String)> {
    let shifts = schedule.zone().shifts(at("2026-01-01T00:00:00Z"), at("2027-01-01T00:00:00Z"));
    let of = |shift: &Shift| {
        let effects = schedule.effects(shift).into_iter().map(|effect| (effect.action, effect.text)).collect();
        let ticks = schedule.ticks_around(shift).into_iter().map(|tick| tick.format("%d %H:%M").to_string());
        (effects, ticks.collect::<Vec<_>>().join(", "))
    };
    shifts.iter().map(of).collect()
}

#[test]
fn what_a_schedule_does_at_a_shift_is_said_with_the_ticks_around_it() {
    let one = |action: Action, text: &str, ticks: &str| (vec![(action, text.to_owned())], ticks.to_owned());
    let none = |ticks: &str| (Vec::new(), ticks.to_owned());
    for (schedule, spring, autumn) in [
        (
            schedule("30 2 * * *", "Europe/Berlin"),
            one(Action::Moved, "02:30 does not exist: runs at 03:00", "28 01:30, 29 01:00, 30 00:30"),
            one(Action::RunOnce, "02:30 comes twice: runs the first time only", "24 00:30, 25 00:30, 26 01:30"),
        ),
        (
            schedule("0,30 2 * * *", "Europe/Berlin"),
            one(Action::Merged, "02:00 and 02:30 do not exist: one run at 03:00", "28 01:30, 29 01:00, 30 00:00"),
            one(
                Action::RunOnce,
                "02:00 and 02:30 come twice: run the first time only",
                "24 00:30, 25 00:00, 25 00:30, 26 01:00",
            ),
        ),
        (
            schedule("30 2 * * *", "Europe/Berlin").or(&schedule("0 3 * * *", "Europe/Berlin")),
            one(Action::Merged, "02:30 does not exist: merged into the run at 03:00", "28 02:00, 29 01:00, 30 00:30"),
            one(Action::RunOnce, "02:30 comes twice: runs the first time only", "24 01:00, 25 00:30, 25 02:00"),
        ),
        (
            with("30 2 * * *", Gap::Skip, Fold::Both),
            one(Action::LeftOut, "02:30 does not exist: left out", "28 01:30, 30 00:30"),
            one(Action::RunTwice, "02:30 comes twice: runs both times", "24 00:30, 25 00:30, 25 01:30, 26 01:30"),
        ),
        (
            schedule("*/30 2 * * *", "Europe/Berlin"),
            one(
                Action::LeftOut,
                "02:00 and 02:30 do not exist: left out (elapsed time is followed)",
                "28 01:30, 30 00:00",
            ),
            one(
                Action::RunTwice,
                "02:00 and 02:30 come twice: run both times (elapsed time is followed)",
                "24 00:30, 25 00:00, 25 00:30, 25 01:00, 25 01:30, 26 01:00",
            ),
        ),
        (
            // What both expressions name is made up for in spring, and runs twice in autumn.
            schedule("30 2 * * *", "Europe/Berlin").or(&schedule("*/30 2 * * *", "Europe/Berlin")),
            (
                vec![
                    (Action::Moved, "02:30 does not exist: runs at 03:00".to_owned()),
                    (Action::LeftOut, "02:00 does not exist: left out (elapsed time is followed)".to_owned()),
                ],
                "28 01:30, 29 01:00, 30 00:00".to_owned(),
            ),
            one(
                Action::RunTwice,
                "02:00 and 02:30 come twice: run both times (elapsed time is followed)",
                "24 00:30, 25 00:00, 25 00:30, 25 01:00, 25 01:30, 26 01:00",
            ),
        ),
        (schedule("0 12 * * *", "Europe/Berlin"), none("28 11:00, 29 10:00"), none("24 10:00, 25 11:00")),
        (
            schedule("@every 1h", "Europe/Berlin"),
            none("29 00:00, 29 01:00, 29 02:00"),
            none("24 23:00, 25 00:00, 25 01:00, 25 02:00"),
        ),
        (
            schedule("0 0 29 2 *", "Europe/Berlin"),
            none("28 23:00, 28 23:00"), // 2024 and 2028
            none("28 23:00, 28 23:00"),
        ),
    ] {
        assert_eq!(at_shifts(&schedule), [spring, autumn], "{schedule:?}");
    }
    assert_eq!(at_shifts(&schedule("30 2 * * *", "UTC")), []);
}

#[test]
fn of_many_ticks_near_a_shift_those_next_to_it_are_shown() {
    let minutely = schedule("* * * * *", "Europe/Berlin");
    let shown: Vec<String> = at_shifts(&minutely).into_iter().map(|(_, ticks)| ticks).collect();
    assert_eq!(shown, ["29 00:59, 29 01:00, 29 01:01", "25 00:58, 25 00:59, 25 01:00, 25 01:01"]);
    let text = "02:00, 02:01, 02:02";
    assert!(!at_shifts(&minutely)[0].0[0].1.contains(text), "three are not named of sixty");
    let secondly = schedule("0-59 0-59 2 * * *", "Europe/Berlin");
    let effect = &at_shifts(&secondly)[0].0[0].1;
    assert_eq!(effect, "02:00, 02:00:01 and more than 98 others do not exist: one run at 03:00");
}

#[test]
fn a_rare_day_is_found_through_many_shifts() {
    let leap = schedule("30 2 29 2 *", "Africa/Casablanca");
    assert_eq!(ticks(&leap, "2096-03-01T00:00:00Z", 1), ["2104-02-29T02:30:00Z"]);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    /// Words and ticks are computed apart from one another; here they are held against each other, at every shift of a
    /// zone since 1900.
    #[test]
    fn what_is_said_about_a_shift_is_what_happens(
        index in 0_usize..590, minute in 0_u32..60, hour in 0_u32..24, gap in 0..2, fold in 0..2
    ) {
        let rule = DstRule {
            gap: [Gap::RunAfter, Gap::Skip][gap as usize],
            fold: [Fold::First, Fold::Both][fold as usize],
        };
        let schedule = schedule(&format!("{minute} {hour} * * *"), names().nth(index).unwrap()).with_dst(rule);
        let is_tick = |instant| schedule.after(instant - TimeDelta::seconds(1)) == Some(instant);
        let says = |instant, text: &str| schedule.note(instant).is_some_and(|note| note.contains(text));
        for shift in schedule.zone().shifts(at("1900-01-01T00:00:00Z"), at("2100-01-01T00:00:00Z")) {
            let effects = schedule.effects(&shift);
            let is_named = (shift.to.hour(), shift.to.minute(), shift.to.second()) == (hour, minute, 0);
            let is_moved_here = shift.is_gap() && is_tick(shift.at) && !is_named;
            let is_said = effects.iter().any(|effect| matches!(effect.action, Action::Moved | Action::Merged));
            prop_assert_eq!(is_moved_here, is_said && !is_named, "{} at {}", shift, shift.at);
            prop_assert_eq!(is_said, shift.is_gap() && says(shift.at, "not exist"), "{} at {}", shift, shift.at);
            for time in effects.iter().filter(|_| !shift.is_gap()).flat_map(|effect| &effect.times) {
                let (first, second) = (shift.at - (shift.from - *time), shift.at + (*time - shift.to));
                let both = rule.fold == Fold::Both;
                let words = if both { "first of two" } else { "first time only" };
                prop_assert!(is_tick(first) && says(first, words), "{} at {}", shift, shift.at);
                prop_assert_eq!(is_tick(second), both, "{} at {}", shift, shift.at);
                prop_assert_eq!(says(second, "second of two"), both, "{} at {}", shift, shift.at);
            }
        }
    }
}
