//! The two calendar searches say the same, and the second one agrees with a walk from day to day.

use super::super::calendar::Calendar;
use super::super::calendar::Fields;
use super::super::parse::Expression;
use super::super::parse::parse;
use chrono::DateTime;
use chrono::Datelike;
use chrono::Days;
use chrono::NaiveDate;
use chrono::Utc;
use proptest::prelude::*;

fn fields(text: &str) -> Fields {
    match parse(text, "job") {
        Ok(Expression::Fields(fields)) => fields,
        other => panic!("{text}: {other:?}"),
    }
}

fn local(text: &str) -> i64 {
    text.parse::<DateTime<Utc>>().unwrap().timestamp()
}

/// Any expression of plain numbers.
fn plain_expression() -> impl Strategy<Value = String> {
    let field = |low: u32, high: u32| {
        prop_oneof![
            3 => Just("*".to_owned()),
            2 => (low..=high).prop_map(|value| value.to_string()),
            1 => (1..=high).prop_map(|step| format!("*/{step}")),
            1 => (low..=high, low..=high).prop_map(|(a, b)| format!("{}-{}", a.min(b), a.max(b))),
            1 => proptest::collection::vec(low..=high, 1..5)
                .prop_map(|values| values.iter().map(u32::to_string).collect::<Vec<_>>().join(",")),
        ]
    };
    (field(0, 59), field(0, 59), field(0, 23), field(1, 31), field(1, 12), field(0, 7))
        .prop_map(|(second, minute, hour, day, month, week)| format!("{second} {minute} {hour} {day} {month} {week}"))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn both_searches_agree(text in plain_expression(), start in 0_i64..4_102_444_800) {
        if let Ok(Expression::Fields(fields)) = parse(&text, "job") {
            let calendar = Calendar::new(fields.clone());
            while calendar.cron_days().is_none() {
                calendar.next(start); // the first few times it does without
            }
            let (mut one, mut other) = (start, start);
            for _ in 0..5 {
                let (next_one, next_other) = (calendar.next(one), fields.next(other));
                prop_assert_eq!(next_one, next_other, "{} after {}", text, one);
                let Some(next) = next_one else { break };
                prop_assert!(next > one);
                (one, other) = (next, next);
            }
        }
    }

    #[test]
    fn days_that_depend_on_the_month_agree_with_a_walk(mark in 0..MARKS.len(), days in 0_u64..60_000) {
        let (text, matches) = MARKS[mark];
        let start = NaiveDate::from_ymd_opt(1950, 1, 1).unwrap() + Days::new(days);
        let wanted = start.iter_days().skip(1).find(|day| matches(*day)).unwrap();
        let end_of_start = start.and_hms_opt(23, 59, 59).unwrap().and_utc().timestamp();
        let found = Calendar::new(fields(text)).next(end_of_start).unwrap();
        prop_assert_eq!(DateTime::from_timestamp(found, 0).unwrap().date_naive(), wanted, "{} after {}", text, start);
    }
}

type DayTest = fn(NaiveDate) -> bool;

/// Expressions for midnight, and the days they mean told in another way than the code tells it.
const MARKS: [(&str, DayTest); 11] = [
    ("0 0 L * *", |day| is_last(day)),
    ("0 0 L-3 * *", |day| is_last(day + Days::new(3))),
    ("0 0 L-30 * *", |day| day.day() == 1 && is_last(day + Days::new(30))),
    ("0 0 LW * *", |day| is_workday(day) && !later_days(day).any(is_workday)),
    ("0 0 15W * *", |day| is_nearest_workday(day, 15)),
    ("0 0 1W * *", |day| is_nearest_workday(day, 1)),
    ("0 0 31W * *", |day| is_nearest_workday(day, 31)),
    ("0 0 * * 5L", |day| weekday(day) == 5 && is_last_week(day)),
    ("0 0 * * FRI#2", |day| weekday(day) == 5 && (8..15).contains(&day.day())),
    ("0 0 * * 0#5", |day| weekday(day) == 0 && day.day() > 28),
    ("0 0 L,10 * 7L,MON", |day| {
        is_last(day) || day.day() == 10 || weekday(day) == 1 || weekday(day) == 0 && is_last_week(day)
    }),
];

fn weekday(day: NaiveDate) -> u32 {
    day.weekday().num_days_from_sunday()
}

fn is_workday(day: NaiveDate) -> bool {
    (1..=5).contains(&weekday(day))
}

fn is_last(day: NaiveDate) -> bool {
    (day + Days::new(1)).month() != day.month()
}

fn is_last_week(day: NaiveDate) -> bool {
    (day + Days::new(7)).month() != day.month()
}

fn later_days(day: NaiveDate) -> impl Iterator<Item = NaiveDate> {
    day.iter_days().skip(1).take_while(move |later| later.month() == day.month())
}

fn is_nearest_workday(day: NaiveDate, wanted: u32) -> bool {
    let distance = |other: &NaiveDate| other.day().abs_diff(wanted);
    let month = day.with_day(1).unwrap().iter_days().take_while(|other| other.month() == day.month());
    day.with_day(wanted).is_some() && month.filter(|other| is_workday(*other)).min_by_key(distance) == Some(day)
}

#[test]
fn days_are_searched_by_the_crate_once_that_is_worth_it_and_alike_ones_by_one_search() {
    let start = local("2026-01-01T00:00:00Z");
    let [one, other, marked] = ["5 3 1-9 * *", "*/7 * 1-9 * *", "5 3 L * *"].map(|text| Calendar::new(fields(text)));
    for calendar in [&one, &other, &marked] {
        for _ in 0..4 {
            assert!(calendar.cron_days().is_none());
            calendar.next(start);
        }
    }
    assert!(std::ptr::eq(one.cron_days().unwrap(), other.cron_days().unwrap()));
    assert!(marked.cron_days().is_none(), "the crate has no such days");
}

#[test]
fn leap_days_are_found_across_a_century_without_one() {
    let calendar = Calendar::new(fields("0 0 29 2 *"));
    for _ in 0..9 {
        assert_eq!(calendar.next(local("2096-03-01T00:00:00Z")), Some(local("2104-02-29T00:00:00Z")));
    }
}

#[test]
fn where_either_day_field_is_enough_one_that_ran_out_of_years_does_not_hide_the_other() {
    let calendar = Calendar::new(fields("0 0 29 2 1"));
    for _ in 0..9 {
        assert_eq!(calendar.next(local("2099-06-01T00:00:00Z")), Some(local("2100-02-01T00:00:00Z")));
    }
}

#[test]
fn the_searchable_years_end() {
    let calendar = Calendar::new(fields("0 0 1 1 *"));
    for _ in 0..9 {
        assert_eq!(calendar.next(local("2200-01-01T00:00:00Z")), None);
    }
}
