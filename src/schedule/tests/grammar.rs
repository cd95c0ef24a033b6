//! What may be written.

use super::Schedule;
use super::Zone;
use super::at;
use super::schedule;
use super::ticks;
use crate::schedule::stable_hash;
use crate::schedule::years;
use proptest::prelude::*;
use std::collections::BTreeMap;

fn first(text: &str, from: &str) -> String {
    ticks(&schedule(text, "UTC"), from, 1).remove(0)
}

#[test]
fn an_expression_means_the_same_however_it_is_written() {
    for (one, other) in [
        ("0 0 * * SUN", "0 0 * * 0"),
        ("0 0 * * 7", "0 0 * * 0"),
        ("0 0 * jan,Dec mon-FRI", "0 0 * 1,12 1-5"),
        ("0 0 * * SAT-SUN", "0 0 * * 0,6"),
        ("0 0 * * sun-mon", "0 0 * * 0,1"),
        ("0 0 * * 5-7", "0 0 * * 0,5,6"),
        ("0 0 * * 1/2", "0 0 * * 0,1,3,5"),
        ("5/15 * * * *", "5-59/15 * * * *"),
        ("000 007 * * *", "0 7 * * *"),
        ("0 0 ? * 1", "0 0 * * 1"),
        ("0 0 ?/2 * 1", "0 0 */2 * 1"),
        ("0 0 1 1 *", "@yearly"),
        ("@annually", "@YEARLY"),
        ("@midnight", "@Daily"),
        ("0 3 * * *", "0 0 3 * * *"),
        ("0 0 l * *", "0 0 L * *"),
        ("0 0 * * MON-MON", "0 0 * * MON"),
        ("0 0 * * 7-7", "0 0 * * 0-0"),
        ("0 0 * * SUN-SAT", "0 0 * * 0-7"),
        ("0 0 * * fril", "0 0 * * 5L"),
        ("0 0 * * 7#1", "0 0 * * SUN#1"),
        ("@every 1h30m", "@every 90m"),
        ("@every 1d", "@every 24h"),
        ("*/59 * * * *", "0,59 * * * *"),
    ] {
        let from = at("2026-01-01T00:00:00Z");
        let (first, second) = (schedule(one, "UTC"), schedule(other, "UTC"));
        assert_eq!(first.occurrences(from, 50), second.occurrences(from, 50), "{one} and {other}");
    }
}

#[test]
fn a_day_field_that_begins_with_a_star_restricts_only_together_with_the_other() {
    // Of the odd days only the Mondays; of the 1st to 31st, which is no star, every day.
    assert_eq!(
        ticks(&schedule("0 0 */2 * 1", "UTC"), "2026-01-01T00:00:00Z", 2),
        ["2026-01-05T00:00:00Z", "2026-01-19T00:00:00Z"]
    );
    assert_eq!(first("0 0 1-31 * 1", "2026-01-01T00:00:00Z"), "2026-01-02T00:00:00Z");
    assert!(schedule("0 0 1-31 * 1", "UTC").either_day_field_matches());
    assert!(!schedule("0 0 */2 * 1", "UTC").either_day_field_matches());
    assert!(!schedule("@every 5m", "UTC").either_day_field_matches());
}

#[test]
fn distances_count_from_the_epoch_whatever_was_asked() {
    let every = schedule("@every 7m", "Europe/Berlin");
    let one_by_one = every.occurrences(at("1969-12-31T23:50:00Z"), 4);
    assert_eq!(one_by_one.iter().map(|tick| tick.timestamp()).collect::<Vec<_>>(), [-420, 0, 420, 840]);
    assert_eq!(every.after(at("1970-01-01T00:06:59.999Z")), Some(at("1970-01-01T00:07:00Z")));
}

#[test]
fn a_tick_is_later_than_the_instant_asked_even_within_a_second() {
    let minutely = schedule("* * * * *", "UTC");
    assert_eq!(minutely.after(at("2026-01-01T00:00:59.999999999Z")), Some(at("2026-01-01T00:01:00Z")));
    assert_eq!(minutely.after(at("2026-01-01T00:01:00Z")), Some(at("2026-01-01T00:02:00Z")));
    assert_eq!(minutely.after(at("2026-01-01T00:01:00.000000001Z")), Some(at("2026-01-01T00:02:00Z")));
}

#[test]
fn years_begin_and_end_somewhere() {
    let yearly = schedule("0 12 1 1 *", "Europe/Berlin");
    assert_eq!(yearly.after(at("1066-10-14T00:00:00Z")), Some(at("1900-01-01T11:00:00Z")));
    assert_eq!(yearly.after(at("2199-06-01T00:00:00Z")), None);
    assert_eq!(yearly.after(chrono::DateTime::<chrono::Utc>::MAX_UTC), None);
    assert_eq!(yearly.after(chrono::DateTime::<chrono::Utc>::MIN_UTC), Some(at("1900-01-01T11:00:00Z")));
    assert_eq!(schedule("@every 1h", "UTC").after(chrono::DateTime::<chrono::Utc>::MAX_UTC), None);
    let every = schedule("@every 1s", "UTC");
    let (first, last) = years();
    assert_eq!((first, last), (at("1900-01-01T00:00:00Z"), at("2199-12-31T23:59:59Z")));
    for every in [&every, &schedule("@yearly", "UTC"), &schedule("* * * * * *", "Europe/Berlin")] {
        assert_eq!(every.after(at("1066-10-14T00:00:00Z")), Some(first), "{every:?}");
    }
    assert_eq!((every.after(at("2199-12-31T23:59:58Z")), every.after(last)), (Some(last), None));
}

#[test]
fn the_hash_behind_h_is_frozen() {
    assert_eq!(stable_hash(""), 0xcbf2_9ce4_8422_2325 ^ 0xcbf2_9ce4);
    assert_eq!(stable_hash("a"), 0xaf63_dc4c_8601_ec8c ^ 0xaf63_dc4c);
    assert_eq!(stable_hash("/minute"), 15_048_169_826_119_956_768); // the example of docs/schedules.md
    assert_eq!(stable_hash("foobar"), 0x8594_4171_f739_67e8 ^ 0x8594_4171);
    let parse = |text: &str, job: &str| Schedule::parse(text, &Zone::utc(), job).unwrap();
    let from = "2026-01-01T00:00:00Z";
    assert_eq!(ticks(&parse("H H * * *", "nightly-sales"), from, 1), FROZEN[..1]);
    assert_eq!(ticks(&parse("H/15 H(0-7) * * *", "nightly-sales"), from, 1), FROZEN[1..2]);
    assert_eq!(ticks(&parse("H H H H *", "nightly-sales"), from, 1), FROZEN[2..3]);
    assert_eq!(ticks(&parse("H H H * * H", "report"), from, 1), FROZEN[3..]);
}

/// Computed from the description of the hash by another program.
const FROZEN: [&str; 4] =
    ["2026-01-01T10:53:00Z", "2026-01-01T02:08:00Z", "2026-09-26T10:53:00Z", "2026-01-04T06:05:32Z"];

#[test]
fn h_spreads_jobs_evenly_and_stays_in_its_range() {
    let mut minutes = BTreeMap::new();
    for number in 0..6000 {
        let parse = |text: &str| Schedule::parse(text, &Zone::utc(), &format!("job-{number}")).unwrap();
        let tick = parse("H * * * *").after(at("2026-01-01T00:59:59Z")).unwrap();
        *minutes.entry(tick.format("%M").to_string()).or_insert(0) += 1;
        let tick = parse("H(10-19) H H * *").after(at("2026-02-01T00:00:00Z")).unwrap();
        assert!((10..20).contains(&(tick.timestamp() / 60 % 60)));
        assert!(tick < at("2026-03-01T00:00:00Z"), "every month has the day that H chose: {tick}");
    }
    assert_eq!(minutes.len(), 60);
    assert!(minutes.values().all(|count| (60..=140).contains(count)), "{minutes:?}");
}

#[test]
fn h_with_a_step_keeps_its_distance() {
    for job in ["a", "b", "nightly-sales"] {
        let quarter = Schedule::parse("H/15 * * * *", &Zone::utc(), job).unwrap();
        let ticks = quarter.occurrences(at("2026-01-01T00:00:00Z"), 9);
        assert!(ticks.windows(2).all(|pair| (pair[1] - pair[0]).num_minutes() == 15), "{ticks:?}");
    }
}

#[test]
fn a_schedule_keeps_its_text_and_zone() {
    let kept = schedule("  0 2  * * *\t", "europe/berlin");
    assert_eq!(kept.text(), "0 2  * * *");
    assert_eq!(kept.zone().name(), "Europe/Berlin");
    assert_eq!(format!("{kept:?}"), "Schedule(\"0 2  * * *\" in Europe/Berlin)");
    assert_eq!(kept, kept.clone());
    assert_ne!(kept, schedule("0 2  * * *", "Europe/Paris"));
}

#[test]
fn equal_text_of_two_jobs_is_another_schedule_where_h_stands() {
    let of = |job: &str| Schedule::parse("H H * * *", &Zone::utc(), job).unwrap();
    assert_eq!(of("a"), of("a"));
    assert_ne!(of("a"), of("b"));
}

#[test]
fn many_occurrences_are_bounded() {
    assert_eq!(schedule("@every 1s", "UTC").occurrences(at("2026-01-01T00:00:00Z"), usize::MAX).len(), 10_000);
    assert_eq!(schedule("0 0 1 1 *", "UTC").occurrences(at("2195-06-01T00:00:00Z"), 100).len(), 4);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_text_makes_parse_panic_or_point_outside_of_it(
        text in prop_oneof!["\\PC{0,80}", "[-0-9*/,?LWH#()@ \ta-z]{0,40}", "([-0-9*/,LWH#()]{1,4} ){4,6}", "@every [0-9a-z. ]{0,9}"]
    ) {
        match Schedule::parse(&text, &Zone::utc(), "job") {
            Ok(schedule) => prop_assert!(schedule.after(at("2026-01-01T00:00:00Z")).is_some(), "{text}"),
            Err(error) => {
                prop_assert!(error.column + error.length <= text.chars().count(), "{text}: {error:?}");
                prop_assert!(error.hint.is_some_and(|hint| !hint.is_empty()), "{text}");
            }
        }
    }
}

#[test]
fn how_close_ticks_can_be_is_told_without_a_walk() {
    for (text, seconds) in [
        ("* * * * *", 60),
        ("*/15 * * * *", 900),
        ("0,50 9 * * *", 600),               // around the hour
        ("5 0-23/5 * * *", 3 * 3600 + 3600), // 20:05 and 0:05 of the next day
        ("30 2 * * MON", 86_400),
        ("0,59 * * * * *", 1),
        ("*/20 30 2 * * *", 20),
        ("@every 90m", 5400),
    ] {
        assert_eq!(schedule(text, "UTC").distance_at_least().as_secs(), seconds, "{text}");
    }
    let several = schedule("0 2 * * *", "UTC").or(&schedule("0 3 * * *", "UTC"));
    assert_eq!(several.distance_at_least().as_secs(), 1, "of several only that they are not one");
}
