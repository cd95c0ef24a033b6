//! Jobs with several expressions.

use super::Schedule;
use super::at;
use super::schedule;
use super::ticks;
use crate::schedule::DstRule;
use crate::schedule::Fold;
use crate::schedule::Gap;
use crate::schedule::Zone;

fn all(texts: &[&str]) -> Schedule {
    let read = texts.iter().map(|text| schedule(text, "Europe/Berlin"));
    read.reduce(|all, other| all.or(&other)).unwrap()
}

#[test]
fn it_is_due_whenever_one_of_them_is() {
    let both = all(&["0 9 * * MON-FRI", "30 17 * * FRI"]);
    assert_eq!(
        ticks(&both, "2026-06-04T00:00:00Z", 4),
        ["2026-06-04T07:00:00Z", "2026-06-05T07:00:00Z", "2026-06-05T15:30:00Z", "2026-06-08T07:00:00Z"]
    );
    assert_eq!(both.text(), "0 9 * * MON-FRI; 30 17 * * FRI");
    assert_eq!(
        both.parts().map(|part| part.text().to_owned()).collect::<Vec<_>>(),
        ["0 9 * * MON-FRI", "30 17 * * FRI"]
    );
}

#[test]
fn an_instant_that_several_name_is_one_tick() {
    let twice = all(&["0 * * * *", "*/30 * * * *", "@every 1h"]);
    assert_eq!(ticks(&twice, "2026-06-04T00:10:00Z", 2), ["2026-06-04T00:30:00Z", "2026-06-04T01:00:00Z"]);
}

#[test]
fn each_follows_elapsed_time_or_has_fixed_times_by_itself() {
    let both = all(&["30 2 * * *", "0 * * * *"]);
    let spring = ticks(&both, "2026-03-29T00:30:00Z", 2);
    assert_eq!(spring, ["2026-03-29T01:00:00Z", "2026-03-29T02:00:00Z"], "the moved one is merged into 03:00");
    let autumn = ticks(&both, "2026-10-25T00:00:00Z", 3);
    assert_eq!(autumn, ["2026-10-25T00:30:00Z", "2026-10-25T01:00:00Z", "2026-10-25T02:00:00Z"]);
}

#[test]
fn a_note_is_about_all_of_them_together() {
    let note = |texts: &[&str], tick: &str| all(texts).note(at(tick)).unwrap_or_default();
    let clocks = "on this day (clocks go from 02:00 to 03:00)";
    let spring = "2026-03-29T01:00:00Z";
    for other in ["0 3 * * *", "*/30 * * * *", "@every 1h"] {
        let found = note(&["30 2 * * *", other], spring);
        assert_eq!(found, format!("02:30 does not exist {clocks}: merged into this run"), "{other}");
    }
    let found = note(&["45 2 * * *", "30 2 * * *"], spring);
    assert_eq!(found, format!("02:30 and 02:45 do not exist {clocks}: one run right after the gap"));
    // The second pass runs too, so nothing is special about the first.
    assert_eq!(note(&["30 2 * * *", "*/30 * * * *"], "2026-10-25T00:30:00Z"), "");
    assert_eq!(note(&["30 2 * * *", "@every 30m"], "2026-10-25T00:30:00Z"), "");
}

#[test]
fn the_record_tells_apart_what_has_other_ticks() {
    let rule = DstRule { gap: Gap::Skip, fold: Fold::First };
    let one = schedule("30 2 * * *", "Europe/Berlin");
    assert_eq!(one.record(), "30 2 * * *");
    assert_eq!(one.with_dst(rule).record(), "30 2 * * *; dst Skip/First");
    assert_eq!(all(&["30 2 * * *", "@hourly"]).with_dst(rule).record(), "30 2 * * *; @hourly; dst Skip/First");
}

#[test]
fn a_record_is_read_as_the_schedule_that_wrote_it() {
    let zone = Zone::find("Europe/Berlin").unwrap();
    let rule = DstRule { gap: Gap::Skip, fold: Fold::Both };
    let several = all(&["30 2 * * *", "@every 90s", "H H(0-7) * * *"]);
    for schedule in [schedule("*/5 * * * *", "Europe/Berlin"), several.clone(), several.with_dst(rule)] {
        assert_eq!(Schedule::from_record(&schedule.record(), &zone, "job"), Some(schedule));
    }
    for text in [
        "",
        "@sometimes",
        "30 2 * * *; @sometimes",
        "30 2 * * *; dst Skip",
        "30 2 * * *; dst Skip/Never",
        "dst Skip/Both",
    ] {
        assert_eq!(Schedule::from_record(text, &zone, "job"), None, "{text}");
    }
}

/// What the other part handles is left out before the list is cut, and not after.
#[test]
fn a_long_list_of_times_that_one_part_runs_anyway_hides_none_of_the_others() {
    let (from, until) = (at("2026-10-01T00:00:00Z"), at("2026-11-01T00:00:00Z"));
    let both = all(&["* 0-59 2 * * *", "* */30,1 2 * * *"]);
    let shift = both.zone().shifts(from, until)[0];
    let effects = both.effects(&shift);
    let fixed = effects.iter().find(|effect| effect.is_of_fixed_times).unwrap();
    assert!(fixed.text.starts_with("02:02, 02:02:01 and more than 98 others come twice"), "{}", fixed.text);
}

#[test]
fn distances_end_where_calendars_do() {
    let yearly = schedule("@every 366d", "UTC");
    assert_eq!(yearly.after(at("2199-12-31T00:00:00Z")), None);
    assert!(yearly.after(at("0001-01-01T00:00:00Z")).unwrap() >= at("1900-01-01T00:00:00Z"));
}

#[test]
fn a_refused_zone_is_shown_without_control_characters_and_not_at_length() {
    let error = super::Zone::find("X\u{1b}[31m\nFAKE").unwrap_err().to_string();
    assert!(error.contains("X\\u{1b}[31m\\nFAKE"), "{error}");
    assert!(super::Zone::find(&"x".repeat(5000)).unwrap_err().to_string().len() < 200);
}
