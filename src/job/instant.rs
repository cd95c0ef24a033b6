//! Instants as people write them: RFC 3339, and what is said of a text that is none.

use chrono::DateTime;
use chrono::Datelike;
use chrono::NaiveDate;
use chrono::Utc;

/// How an instant is written.
const FORM: &str = "an instant is written as 2026-03-01T02:00:00Z or 2026-03-01T03:00:00+01:00";

/// Reads an instant that a person wrote.
///
/// # Errors
/// The form, or, where that is right, what there is not: `there is no day 2026-02-30: that month has 28 days`.
pub fn parse_instant(text: &str) -> Result<DateTime<Utc>, String> {
    let read = DateTime::parse_from_rfc3339(text).map(|instant| instant.to_utc());
    read.map_err(|_| impossible(text).unwrap_or_else(|| FORM.to_owned()))
}

/// What is said of a text that should be the id of a run and is none.
pub fn no_run_id(text: &str) -> String {
    let instant = text.split_once('@').map(|(_, instant)| instant.split("+manual").next().unwrap_or_default());
    let why = instant.and_then(impossible).map_or_else(String::new, |why| format!(": {why}"));
    format!("`{}` is no run id{why}", text.escape_debug())
}

/// A text in the right form that names no instant, because its day, time or offset does not exist.
fn impossible(text: &str) -> Option<String> {
    let Parts { date: [year, month, day], time: [hour, minute, second], offset } = parts(text)?;
    if !(1..=12).contains(&month) {
        return Some(format!("there is no month {month:02}: write 01 to 12"));
    }
    let first = NaiveDate::from_ymd_opt(i32::try_from(year).ok()?, month, 1)?;
    let last = u32::from(first.num_days_in_month());
    if !(1..=last).contains(&day) {
        return Some(format!("there is no day {year:04}-{month:02}-{day:02}: that month has {last} days"));
    }
    match (hour, minute, second) {
        (24, 0, 0) => Some("there is no hour 24: midnight is 00:00:00 of the next day".to_owned()),
        (24.., ..) => Some(format!("there is no hour {hour}: write 00 to 23")),
        (_, 60.., _) => Some(format!("there is no minute {minute}: write 00 to 59")),
        (_, _, 61..) => Some(format!("there is no second {second}: write 00 to 59")),
        _ => offset
            .filter(|(hours, minutes)| *hours > 23 || *minutes > 59)
            .map(|(hours, minutes)| format!("there is no offset {hours:02}:{minutes:02}: write 00:00 to 23:59")),
    }
}

/// The numbers of a text in the form of RFC 3339.
struct Parts {
    date: [u32; 3],
    time: [u32; 3],
    /// Without its sign; none behind `Z`.
    offset: Option<(u32, u32)>,
}

fn parts(text: &str) -> Option<Parts> {
    let (date, rest) = text.split_at_checked(10)?;
    let (time, end) = rest.strip_prefix(['T', 't', ' '])?.split_at_checked(8)?;
    let end = match end.strip_prefix('.') {
        Some(fraction) => fraction.trim_start_matches(|c: char| c.is_ascii_digit()),
        None => end,
    };
    let offset = match end {
        "Z" | "z" => None,
        _ => {
            let [hours, minutes] = numbers(end.strip_prefix(['+', '-'])?, ':', [2, 2])?;
            Some((hours, minutes))
        }
    };
    Some(Parts { date: numbers(date, '-', [4, 2, 2])?, time: numbers(time, ':', [2, 2, 2])?, offset })
}

/// So many numbers with so many digits each, and the separator between them.
fn numbers<const N: usize>(text: &str, separator: char, digits: [usize; N]) -> Option<[u32; N]> {
    let mut found = [0; N];
    let mut pieces = text.split(separator);
    for (number, count) in found.iter_mut().zip(digits) {
        let piece = pieces.next().filter(|piece| piece.len() == count && piece.bytes().all(|b| b.is_ascii_digit()))?;
        *number = piece.parse().ok()?;
    }
    pieces.next().is_none().then_some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_day_or_an_hour_that_does_not_exist_is_told_from_a_wrong_form() {
        for (text, said) in [
            ("2026-02-30T00:00:00Z", "there is no day 2026-02-30: that month has 28 days"),
            ("2026-04-31T00:00:00+02:00", "there is no day 2026-04-31: that month has 30 days"),
            ("2024-02-30 00:00:00.5z", "there is no day 2024-02-30: that month has 29 days"),
            ("2026-03-00T00:00:00Z", "there is no day 2026-03-00: that month has 31 days"),
            ("2026-13-01T00:00:00Z", "there is no month 13: write 01 to 12"),
            ("2026-03-01T24:00:00Z", "there is no hour 24: midnight is 00:00:00 of the next day"),
            ("2026-03-01T25:00:00Z", "there is no hour 25: write 00 to 23"),
            ("2026-03-01T24:30:00Z", "there is no hour 24: write 00 to 23"),
            ("2026-03-01T02:60:00Z", "there is no minute 60: write 00 to 59"),
            ("2026-03-01T02:00:61Z", "there is no second 61: write 00 to 59"),
            ("2026-03-01T02:00:00+24:00", "there is no offset 24:00: write 00:00 to 23:59"),
            ("2026-03-01T02:00:00-01:60", "there is no offset 01:60: write 00:00 to 23:59"),
        ] {
            assert_eq!(parse_instant(text), Err(said.to_owned()), "{text}");
        }
        for text in
            ["", "now", "2026-02-30", "2026-02-30T00:00:00", "2026-2-30T00:00:00Z", "2026-02-30T00:00Z", "ü026-02-30"]
        {
            assert_eq!(parse_instant(text), Err(FORM.to_owned()), "{text}");
        }
        assert_eq!(parse_instant("2026-03-01T03:00:00+01:00").unwrap().to_rfc3339(), "2026-03-01T02:00:00+00:00");
    }

    #[test]
    fn a_run_id_with_such_an_instant_says_so() {
        let why = "there is no day 2026-02-30: that month has 28 days";
        assert_eq!(no_run_id("a@2026-02-30T00:00:00Z"), format!("`a@2026-02-30T00:00:00Z` is no run id: {why}"));
        let manual = "a@2026-02-30T00:00:00.123Z+manual-7f3a";
        assert_eq!(no_run_id(manual), format!("`{manual}` is no run id: {why}"));
        for text in ["a", "a@then", "@", "a@2026-02-28T00:00:00Z+manual-xyz"] {
            assert_eq!(no_run_id(text), format!("`{text}` is no run id"));
        }
    }
}
