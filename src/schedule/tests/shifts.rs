//! Days on which clocks are set.

use super::Schedule;
use super::at;
use super::schedule;
use super::ticks;
use crate::schedule::DstRule;
use crate::schedule::Fold;
use crate::schedule::Gap;

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
    let fixed = schedule("30 2 * * *", "Europe/Berlin");
    let note = |tick: &str| fixed.note(at(tick));
    assert_eq!(note("2026-03-28T01:30:00Z"), None);
    assert!(note("2026-03-29T01:00:00Z").unwrap().contains("right after the gap"));
    assert!(note("2026-10-25T00:30:00Z").unwrap().contains("this is the first"));
    assert_eq!(note("2026-10-25T01:30:00Z"), None, "no tick of this schedule");
    let both = with("30 2 * * *", Gap::RunAfter, Fold::Both);
    assert!(both.note(at("2026-10-25T01:30:00Z")).unwrap().contains("this is the second"));
    assert_eq!(schedule("0 3 * * *", "Europe/Berlin").note(at("2026-03-29T01:00:00Z")), None);
    assert_eq!(schedule("0 * * * *", "Europe/Berlin").note(at("2026-10-25T00:00:00Z")), None);
}

#[test]
fn a_rare_day_is_found_through_many_shifts() {
    let leap = schedule("30 2 29 2 *", "Africa/Casablanca");
    assert_eq!(ticks(&leap, "2096-03-01T00:00:00Z", 1), ["2104-02-29T02:30:00Z"]);
}
