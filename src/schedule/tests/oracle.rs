//! A second reading of the rules, slow and independent: it walks from instant to instant, looks at the clock of the
//! zone, and asks the text whether that time matches. It shares no code with the product but the zone data.

use super::super::zone_data::ZoneData;
use super::Schedule;
use super::at;
use super::zone;
use crate::schedule::DstRule;
use crate::schedule::Fold;
use crate::schedule::Gap;
use jiff::Timestamp;
use jiff::civil;
use jiff::tz::TimeZone;
use proptest::prelude::*;
use std::collections::HashMap;
use std::path::Path;

/// Shifts of every kind: an hour, half an hour, two hours, at midnight, a whole day, by law.
const SHIFTS: [(&str, &str); 18] = [
    ("America/New_York", "2026-03-08T07:00:00Z"),
    ("America/New_York", "2026-11-01T06:00:00Z"),
    ("Australia/Lord_Howe", "2026-10-03T15:30:00Z"),
    ("Australia/Lord_Howe", "2026-04-04T15:00:00Z"),
    ("Europe/London", "2026-03-29T01:00:00Z"),
    ("Europe/London", "2026-10-25T01:00:00Z"),
    ("America/Sao_Paulo", "2018-11-04T03:00:00Z"),
    ("America/Sao_Paulo", "2018-02-18T02:00:00Z"),
    ("Pacific/Apia", "2011-12-30T10:00:00Z"),
    ("Pacific/Kwajalein", "1993-08-21T12:00:00Z"),
    ("America/Havana", "2025-11-02T05:00:00Z"),
    ("Antarctica/Troll", "2026-03-29T01:00:00Z"),
    ("Antarctica/Troll", "2026-10-25T01:00:00Z"),
    ("Pacific/Chatham", "2026-09-26T14:00:00Z"),
    ("Pacific/Chatham", "2026-04-04T14:00:00Z"),
    ("Asia/Pyongyang", "2018-05-04T15:00:00Z"),
    ("Africa/Casablanca", "2026-02-15T02:00:00Z"),
    ("Asia/Kolkata", "2026-05-01T00:00:00Z"),
];

/// Whether one field's text names `value`; the fields of this test have numbers only.
fn names(field: &str, value: i8, (low, high): (i8, i8)) -> bool {
    let number = |text: &str| text.parse::<i8>().unwrap();
    field.split(',').any(|item| {
        let (range, step) = item.split_once('/').map_or((item, None), |(range, step)| (range, Some(number(step))));
        let (first, last) = match range.split_once('-') {
            _ if range == "*" => (low, high),
            Some((first, last)) => (number(first), number(last)),
            None if step.is_some() => (number(range), high),
            None => (number(range), number(range)),
        };
        (first..=last).contains(&value) && (value - first) % step.unwrap_or(1) == 0
    })
}

struct Oracle {
    fields: Vec<String>,
    zone: TimeZone,
    /// Days are asked for every second of them.
    days: HashMap<civil::Date, bool>,
}

impl Oracle {
    fn day_matches(&mut self, date: civil::Date) -> bool {
        let fields = &self.fields;
        *self.days.entry(date).or_insert_with(|| {
            let weekday = date.weekday().to_sunday_zero_offset();
            let of_month = names(&fields[3], date.day(), (1, 31));
            let of_week = names(&fields[5], weekday, (0, 7)) || weekday == 0 && names(&fields[5], 7, (0, 7));
            let starred = fields[3].starts_with('*') || fields[5].starts_with('*');
            let day = if starred { of_month && of_week } else { of_month || of_week };
            day && names(&fields[4], date.month(), (1, 12))
        })
    }

    fn matches(&mut self, clock: civil::DateTime) -> bool {
        names(&self.fields[0], clock.second(), (0, 59))
            && names(&self.fields[1], clock.minute(), (0, 59))
            && names(&self.fields[2], clock.hour(), (0, 23))
            && self.day_matches(clock.date())
    }

    fn clock(&self, instant: i64) -> civil::DateTime {
        self.zone.to_datetime(Timestamp::from_second(instant).unwrap())
    }

    /// All ticks later than `from`, up to `until`; clocks are looked at every `step` seconds.
    fn ticks(&mut self, rule: DstRule, (from, until): (i64, i64), step: i64) -> Vec<i64> {
        let elapsed = self.fields[1].starts_with('*') || self.fields[2].starts_with('*');
        let one = jiff::SignedDuration::from_secs(step);
        let start = from - 30 * 3600;
        let mut shown = self.clock(start); // the latest time shown so far
        let mut before = shown; // the time shown one step ago
        let mut ticks = Vec::new();
        for instant in (start + step..=until).step_by(usize::try_from(step).unwrap()) {
            let clock = self.clock(instant);
            let again = clock <= shown;
            let mut due = self.matches(clock) && (elapsed || !again || rule.fold == Fold::Both);
            // Times between the last one shown and this one were skipped.
            let mut skipped = if rule.fold == Fold::Both { before } else { shown.max(before) } + one;
            while !elapsed && rule.gap == Gap::RunAfter && skipped < clock && !due {
                due = self.matches(skipped);
                skipped += one;
            }
            (shown, before) = (shown.max(clock), clock);
            if due && instant > from {
                ticks.push(instant);
            }
        }
        ticks
    }
}

fn field(low: u32, high: u32) -> impl Strategy<Value = String> {
    prop_oneof![
        3 => Just("*".to_owned()),
        1 => (1..=high).prop_map(|step| format!("*/{step}")),
        3 => (low..=high).prop_map(|value| value.to_string()),
        1 => (low..=high, 1..=high).prop_map(|(first, step)| format!("{first}/{step}")),
        1 => proptest::collection::vec(low..=high, 1..4)
            .prop_map(|values| values.iter().map(u32::to_string).collect::<Vec<_>>().join(",")),
        1 => (low..=high, low..=high, 1_u32..5).prop_map(|(a, b, step)| format!("{}-{}/{step}", a.min(b), a.max(b))),
    ]
}

/// Hours near which clocks are set.
fn hour() -> impl Strategy<Value = String> {
    prop_oneof![
        Just("*".to_owned()),
        Just("*/2".to_owned()),
        Just("0-3".to_owned()),
        Just("1,2".to_owned()),
        Just("23,0".to_owned()),
        field(0, 23)
    ]
}

fn rule() -> impl Strategy<Value = DstRule> {
    prop_oneof![
        3 => Just(DstRule::default()),
        1 => Just(DstRule { gap: Gap::Skip, fold: Fold::First }),
        1 => Just(DstRule { gap: Gap::RunAfter, fold: Fold::Both }),
        1 => Just(DstRule { gap: Gap::Skip, fold: Fold::Both }),
    ]
}

fn often<T: Strategy<Value = String>>(common: &'static str, other: T) -> impl Strategy<Value = String> {
    prop_oneof![3 => Just(common.to_owned()), 1 => other]
}

/// Both must name the same ticks between `from` and `until`, in strictly increasing order.
fn compare(text: &str, rule: DstRule, shift: (&str, i64), window: (i64, i64, i64)) -> Result<(), TestCaseError> {
    let (name, from) = (shift.0, shift.1 + window.0);
    let until = from + window.1;
    let Ok(schedule) = Schedule::parse(text, &zone(name), "job") else { return Ok(()) }; // it never fires
    let schedule = schedule.with_dst(rule);
    let mut fields: Vec<_> = text.split(' ').map(str::to_owned).collect();
    if fields.len() == 5 {
        fields.insert(0, "0".into());
    }
    let data = ZoneData::choose(Path::new("/usr/share/zoneinfo")).read(name).unwrap();
    let wanted = Oracle { fields, zone: data, days: HashMap::new() }.ticks(rule, (from, until), window.2);
    let mut found = Vec::new();
    let mut instant = from;
    while let Some(tick) = schedule.after(chrono::DateTime::from_timestamp(instant, 0).unwrap()) {
        let tick = tick.timestamp();
        prop_assert!(tick > instant, "{text} in {name}: {tick} after {instant}");
        if tick > until {
            break;
        }
        found.push(tick);
        instant = tick;
    }
    prop_assert_eq!(found, wanted, "{} in {} after {} with {:?}", text, name, from, rule);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_walk_from_minute_to_minute_finds_the_same_ticks(
        minute in field(0, 59), hour in hour(), day in often("*", field(1, 31)), month in often("*", field(1, 12)),
        week in often("*", field(0, 7)), rule in rule(), shift in 0..SHIFTS.len(), before in 0_i64..40 * 60
    ) {
        let (name, instant) = SHIFTS[shift];
        let text = format!("{minute} {hour} {day} {month} {week}");
        compare(&text, rule, (name, at(instant).timestamp()), (8 * 3600 - before * 60, 36 * 3600, 60))?;
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_walk_from_second_to_second_finds_the_same_ticks(
        second in field(0, 59), minute in field(0, 59), hour in hour(), rule in rule(), shift in 0..SHIFTS.len(),
        before in 0_i64..7200
    ) {
        let (name, instant) = SHIFTS[shift];
        let text = format!("{second} {minute} {hour} * * *");
        compare(&text, rule, (name, at(instant).timestamp()), (-before, 4 * 3600, 1))?;
    }
}
