//! An expression as one English sentence, from what its fields mean and not from how they are written.

use super::calendar::Fields;
use super::days::DayMark;
use super::field::Values;
use std::fmt::Write;

/// Times of day are listed up to this many; more of them become a distance or a list of minutes and hours.
const TIMES_LISTED: usize = 6;

const MINUTES: u64 = (1 << 60) - 1;
const HOURS: u64 = (1 << 24) - 1;
const MONTHS: u64 = ((1 << 12) - 1) << 1;
const DAYS: u64 = ((1 << 31) - 1) << 1;
const WEEK: u64 = (1 << 7) - 1;

const MONTH_NAMES: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
const WEEKDAY_NAMES: [&str; 7] = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];
const COUNTS: [&str; 5] = ["first", "second", "third", "fourth", "fifth"];

/// `At 02:30 every day.`
pub(super) fn of_fields(fields: &Fields) -> String {
    let is_daily = fields.hours != HOURS;
    let mut text = time(fields);
    match days(fields) {
        Some(days) => {
            let is_long = text.contains(',') || text.contains(" from ") || text.contains(" of ");
            text.push_str(if is_long || !days.starts_with("on ") { ", " } else { " " });
            text.push_str(&days);
        }
        None => {
            text.push_str(if is_daily { " every day" } else { "" });
            text.push_str(&in_months(fields.months));
        }
    }
    capitalised(&text)
}

/// `Every 90 seconds, counted from 1970-01-01T00:00:00Z.`
pub(super) fn of_distance(seconds: i64) -> String {
    capitalised(&format!("every {}, counted from 1970-01-01T00:00:00Z", distance(seconds)))
}

/// `90 seconds`, `hour`: in the largest unit that is whole.
pub(super) fn distance(seconds: i64) -> String {
    let units = [(86_400, "day"), (3600, "hour"), (60, "minute"), (1, "second")];
    let (size, unit) = units.into_iter().find(|(size, _)| seconds % size == 0).unwrap_or((1, "second"));
    match seconds / size {
        1 => unit.to_owned(),
        count => format!("{count} {unit}s"),
    }
}

/// `the hour field begins with `?``: the fields that begin with a star, and with which of the two.
pub(super) fn beginnings(fields: &[(&'static str, char)]) -> String {
    match fields {
        [] => String::new(),
        [(field, star)] => format!("the {field} field begins with `{star}`"),
        [(one, star), (other, same), ..] if star == same => {
            format!("the {one} and the {other} fields begin with `{star}`")
        }
        [(one, star), (other, another), ..] => {
            format!("the {one} field begins with `{star}` and the {other} field with `{another}`")
        }
    }
}

/// `a`, `a and b`, `a, b and c`.
pub(super) fn joined(words: &[String], last: &str) -> String {
    match words {
        [] => String::new(),
        [one] => one.clone(),
        [all @ .., end] => format!("{} {last} {end}", all.join(", ")),
    }
}

/// The numbers of a set, from low to high.
pub(super) fn numbers(bits: u64) -> Vec<u32> {
    (0..u64::BITS).filter(|bit| bits & 1 << bit != 0).collect()
}

/// `0, 25 and 50`, `9 to 17`, `1, 3, 5, … and 31`.
pub(super) fn listed(bits: u64) -> String {
    const SHORT: usize = 8;
    let all = numbers(bits);
    let step = all.get(1).map_or(0, |second| second - all[0]);
    if all.len() > SHORT && step > 1 && all.windows(2).all(|pair| pair[1] - pair[0] == step) {
        return format!("{}, {}, {}, … and {}", all[0], all[1], all[2], all[all.len() - 1]);
    }
    joined(&runs(bits, |number| number.to_string()), "and")
}

/// `January`, `March to May`: the months of a set.
pub(super) fn months(bits: u64) -> String {
    joined(&runs(bits, |month| MONTH_NAMES[month as usize - 1].to_owned()), "and")
}

/// `Monday to Friday`, `Monday and the second Friday of the month`.
pub(super) fn weekdays(values: &Values) -> String {
    let plain = match weekday_run(values.bits) {
        Some(run) => vec![run],
        None => week(values.bits).map(|day| WEEKDAY_NAMES[day as usize].to_owned()).collect(),
    };
    let marks = values.marks.iter().map(|mark| format!("{} of the month", mark_noun(*mark)));
    joined(&plain.into_iter().chain(marks).collect::<Vec<_>>(), "and")
}

/// `1 and 15`, `the last day`: the days of a month, without the month.
pub(super) fn month_days(values: &Values) -> String {
    let marks = values.marks.iter().map(|mark| mark_noun(*mark)).collect::<Vec<_>>();
    let parts = [listed(values.bits), joined(&marks, "and")].into_iter().filter(|part| !part.is_empty());
    parts.collect::<Vec<_>>().join(" and ")
}

/// Whether all days match, whatever the marks add.
pub(super) fn is_any_day(values: &Values) -> bool {
    values.bits & DAYS == DAYS
}

/// Whether all weekdays match, whatever the marks add.
pub(super) fn is_any_weekday(values: &Values) -> bool {
    values.bits & WEEK == WEEK
}

/// Runs of three or more as `a to b`, others one by one.
fn runs(bits: u64, name: impl Fn(u32) -> String) -> Vec<String> {
    let mut words = Vec::new();
    let mut rest = bits;
    while rest != 0 {
        let first = rest.trailing_zeros();
        let length = (rest >> first).trailing_ones();
        if length >= 3 {
            words.push(format!("{} to {}", name(first), name(first + length - 1)));
        } else {
            words.extend((first..first + length).map(&name));
        }
        rest = if first + length >= u64::BITS { 0 } else { rest >> (first + length) << (first + length) };
    }
    words
}

/// First and last, if nothing between them is left out.
fn span(bits: u64) -> Option<(u32, u32)> {
    let (first, width) = (bits.trailing_zeros(), bits.count_ones());
    let is_whole = bits.checked_shr(first).is_some_and(|run| run.trailing_ones() == width);
    is_whole.then(|| (first, first + width - 1))
}

/// The step of a set that goes on in equal steps for ever, from one round of `size` values to the next.
fn step(bits: u64, size: u32) -> Option<u32> {
    let count = bits.count_ones();
    let step = size.checked_div(count).filter(|step| count > 1 && step * count == size)?;
    numbers(bits).windows(2).all(|pair| pair[1] - pair[0] == step).then_some(step)
}

fn time(fields: &Fields) -> String {
    let Fields { seconds, minutes, hours, .. } = *fields;
    let count = |bits: u64| bits.count_ones() as usize;
    if count(seconds) * count(minutes) * count(hours) <= TIMES_LISTED {
        return format!("at {}", joined(&times_of_day(fields), "and"));
    }
    if seconds != 1 {
        return seconds_and_more(fields);
    }
    let single = (minutes.count_ones() == 1).then(|| minutes.trailing_zeros());
    match (single, span(hours), step(hours, 24), step(minutes, 60)) {
        (Some(0), ..) if hours == HOURS => "every hour, on the hour".to_owned(),
        (Some(minute), ..) if hours == HOURS => format!("at minute {minute} of every hour"),
        (Some(minute), Some((first, last)), ..) => {
            format!("every hour from {first:02}:{minute:02} to {last:02}:{minute:02}")
        }
        (Some(minute), None, Some(step), _) => {
            let last = 63 - hours.leading_zeros();
            let first = hours.trailing_zeros();
            format!("every {step} hours from {first:02}:{minute:02} to {last:02}:{minute:02}")
        }
        (.., Some(1)) => format!("every minute{}", during_hours(fields)),
        (.., Some(step)) if hours == HOURS && minutes & 1 == 0 => {
            format!("every {step} minutes, the first at minute {} of each hour", minutes.trailing_zeros())
        }
        (_, Some(_), _, Some(step)) => format!("every {step} minutes{}", during_hours(fields)),
        (.., Some(step)) if minutes & 1 == 1 => format!("every {step} minutes{}", during_hours(fields)),
        (.., Some(step)) => {
            let first = minutes.trailing_zeros();
            format!("every {step} minutes from minute {first} on{}", during_hours(fields))
        }
        _ => format!("at {}{}", counted("minute", minutes), of_hours(hours)),
    }
}

/// Where not only second 0 matches.
fn seconds_and_more(fields: &Fields) -> String {
    let Fields { seconds, minutes, hours, .. } = *fields;
    let every = match step(seconds, 60) {
        Some(1) => Some("every second".to_owned()),
        Some(step) if seconds & 1 != 0 => Some(format!("every {step} seconds")),
        _ => None,
    };
    match every {
        Some(every) if minutes == MINUTES => format!("{every}{}", during_hours(fields)),
        Some(every) => format!("{every} during {}{}", counted("minute", minutes), of_hours(hours)),
        None if minutes == MINUTES => {
            format!("at {} of every minute{}", counted("second", seconds), during_hours(fields))
        }
        None => format!("at {} of {}{}", counted("second", seconds), counted("minute", minutes), of_hours(hours)),
    }
}

/// `minute 5`, `minutes 0, 25 and 50`.
fn counted(unit: &str, bits: u64) -> String {
    format!("{unit}{} {}", if bits.count_ones() == 1 { "" } else { "s" }, listed(bits))
}

fn of_hours(hours: u64) -> String {
    match hours.count_ones() {
        24 => " of every hour".to_owned(),
        1 => format!(" of hour {}", listed(hours)),
        _ => format!(" of the hours {}", listed(hours)),
    }
}

/// ` from 09:00 to 17:45`, ` during the hours 8, 12 and 18`; nothing for all hours.
fn during_hours(fields: &Fields) -> String {
    if fields.hours == HOURS {
        return String::new();
    }
    let Some((first, last)) = span(fields.hours) else { return format!(" during the hours {}", listed(fields.hours)) };
    let lowest = |bits: u64| bits.trailing_zeros();
    let highest = |bits: u64| 63 - bits.leading_zeros();
    let mut text = format!(" from {first:02}:{:02}", lowest(fields.minutes));
    let with_seconds = fields.seconds != 1;
    if with_seconds {
        let _ = write!(text, ":{:02}", lowest(fields.seconds));
    }
    let _ = write!(text, " to {last:02}:{:02}", highest(fields.minutes));
    if with_seconds {
        let _ = write!(text, ":{:02}", highest(fields.seconds));
    }
    text
}

fn times_of_day(fields: &Fields) -> Vec<String> {
    let with_seconds = fields.seconds != 1;
    let mut times = Vec::new();
    for hour in numbers(fields.hours) {
        for minute in numbers(fields.minutes) {
            for second in numbers(fields.seconds) {
                let tail = if with_seconds { format!(":{second:02}") } else { String::new() };
                times.push(format!("{hour:02}:{minute:02}{tail}"));
            }
        }
    }
    times
}

/// Which days, with their months; `None` for every day of the chosen months.
fn days(fields: &Fields) -> Option<String> {
    let rule = &fields.days;
    let (any_day, any_weekday) = (is_any_day(&rule.of_month), is_any_weekday(&rule.of_week));
    let (of_month, of_week) = (on_month_days(fields), on_weekdays(fields));
    if rule.either_matches() {
        return (!any_day && !any_weekday).then(|| format!("{of_month}, and also {of_week}"));
    }
    match (any_day, any_weekday) {
        (true, true) => None,
        (true, false) => Some(of_week),
        (false, true) => Some(of_month),
        // The field that does not begin with `*` is what the writer thought of first.
        (false, false) if rule.of_week.starred && !rule.of_month.starred => {
            Some(format!("{of_month}, but only if that is a {}", weekdays(&rule.of_week).replace(" and ", " or ")))
        }
        (false, false) => {
            let days = month_days(&rule.of_month).replace(" and ", " or ");
            let day = if rule.of_month.bits == 0 { "" } else { "day " };
            Some(format!("{of_week}, but only on {day}{days} of the month"))
        }
    }
}

/// `on day 1 of the month`, `on 1 January`, `on days 1 and 15 and the last day of June`.
fn on_month_days(fields: &Fields) -> String {
    let values = &fields.days.of_month;
    let plain = values.bits.count_ones();
    if plain == 1 && values.marks.is_empty() && fields.months.count_ones() == 1 {
        return format!("on {} {}", listed(values.bits), months(fields.months));
    }
    let of = match fields.months {
        MONTHS => "the month".to_owned(),
        some if span(some).is_some() && some.count_ones() > 2 => format!("the months {}", months(some)),
        some => months(some),
    };
    let day = match plain {
        0 => "",
        1 => "day ",
        _ => "days ",
    };
    format!("on {day}{} of {of}", month_days(values))
}

/// `on Mondays and Thursdays`, `Monday to Friday`, `on the second Friday of the month`.
fn on_weekdays(fields: &Fields) -> String {
    let values = &fields.days.of_week;
    let within = in_months(fields.months);
    if values.marks.is_empty()
        && let Some(run) = weekday_run(values.bits)
    {
        return format!("{run}{}{within}", if within.is_empty() { "" } else { "," });
    }
    let plain = week(values.bits).map(|day| format!("{}s", WEEKDAY_NAMES[day as usize]));
    let of = if within.is_empty() { " of the month" } else { "" };
    let marks = values.marks.iter().map(|mark| format!("{}{of}", mark_noun(*mark)));
    format!("on {}{within}", joined(&plain.chain(marks).collect::<Vec<_>>(), "and"))
}

fn in_months(bits: u64) -> String {
    match bits {
        MONTHS => String::new(),
        some if span(some).is_some() && some.count_ones() > 2 => format!(" from {}", months(some)),
        some => format!(" in {}", months(some)),
    }
}

/// Weekdays from Monday to Sunday.
fn week(bits: u64) -> impl Iterator<Item = u32> {
    (1..=7).map(|day| day % 7).filter(move |day| bits & 1 << day != 0)
}

/// `Friday to Sunday`: three to six days in a row, wherever the week is cut.
fn weekday_run(bits: u64) -> Option<String> {
    let count = bits.count_ones();
    if !(3..=6).contains(&count) {
        return None;
    }
    let has = |day: u32| bits & 1 << (day % 7) != 0;
    let first = week(bits).find(|day| (0..count).all(|more| has(day + more)))?;
    Some(format!("{} to {}", WEEKDAY_NAMES[first as usize], WEEKDAY_NAMES[((first + count - 1) % 7) as usize]))
}

fn mark_noun(mark: DayMark) -> String {
    let weekday = |day: u32| WEEKDAY_NAMES[day as usize % 7];
    match mark {
        DayMark::Last { before: 0 } => "the last day".to_owned(),
        DayMark::Last { before: 1 } => "the day before the last".to_owned(),
        DayMark::Last { before } => format!("the {} day before the last", ordinal(before)),
        DayMark::LastWorkday => "the last working day (Monday to Friday)".to_owned(),
        DayMark::Workday { near } => format!("the working day (Monday to Friday) nearest to day {near}"),
        DayMark::LastOf { weekday: day } => format!("the last {}", weekday(day)),
        DayMark::Nth { weekday: day, nth } => {
            let count = COUNTS.get((nth as usize).saturating_sub(1)).copied().unwrap_or("fifth");
            format!("the {count} {}", weekday(day))
        }
    }
}

/// `3rd`, `11th`, `22nd`.
fn ordinal(number: u32) -> String {
    let end = match (number % 10, number % 100) {
        (_, 11..=13) => "th",
        (1, _) => "st",
        (2, _) => "nd",
        (3, _) => "rd",
        _ => "th",
    };
    format!("{number}{end}")
}

fn capitalised(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map(|first| format!("{}{}.", first.to_ascii_uppercase(), letters.as_str())).unwrap_or_default()
}
