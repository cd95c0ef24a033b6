//! What is refused, where the error points, and what it says to write instead.

use super::Schedule;
use super::Zone;

/// Text; the part that is underlined; words of the message; words of the hint.
const REFUSED: [(&str, &str, &str, &str); 58] = [
    ("", "", "empty", "five fields"),
    ("   ", "", "empty", "five fields"),
    ("* * * *", "* * * *", "4 fields are too few", "minute hour"),
    ("*", "*", "1 field is too few", "six with seconds first"),
    ("30s", "30s", "too few", "`@every 30s`"),
    ("daily", "daily", "too few", "`@daily`"),
    ("every 5 minutes", "every 5 minutes", "too few", "`@every 5m`"),
    ("0 0 12 * * ? 2026", "2026", "7 fields", "none for the year"),
    ("0 2 * * * root /bin/true -x", "/bin/true -x", "8 fields", "or for a command"),
    ("* * * * * garbage", "garbage", "day-of-week `garbage`", "of six fields the first is seconds"),
    ("61 * * * *", "61", "minute 61 is outside 0-59", "from 0 to 59"),
    ("60 * * * *", "60", "minute 60", "write 0"),
    ("0 24 * * *", "24", "hour 24 is outside 0-23", "midnight is hour 0"),
    ("0 0 0 * *", "0", "day-of-month 0 is outside 1-31", "from 1 to 31"),
    ("0 0 1 13 *", "13", "month 13 is outside 1-12", "from 1 to 12"),
    ("0 0 * * 8", "8", "day-of-week 8 is outside 0-7", "0 and 7 are Sunday"),
    ("99999999999999999999 * * * *", "99999999999999999999", "outside 0-59", ""),
    ("5 22-5 * * *", "22-5", "hour range `22-5` runs backwards", "write `22-23,0-5`"),
    ("5 23-0 * * *", "23-0", "runs backwards", "write `23,0`"),
    ("0 0 25-5 * *", "25-5", "runs backwards", "write `25-31,1-5`"),
    ("0 8 * * fri-mon", "fri-mon", "runs backwards", "write `5-6,0-1`"),
    ("0 8 * * 7-2", "7-2", "runs backwards", "write `0-2`"),
    ("0 8 * * 5-0", "5-0", "runs backwards", "write `5-7`"),
    ("*/0 * * * *", "0", "step 0", "from 1 to 59"),
    ("0 15/0 * * *", "0", "step 0", "from 1 to 23"),
    ("*/90 * * * *", "90", "step 90 is larger than the minute field", "`@every 90m`"),
    ("0 0 */40 * *", "40", "larger than the day-of-month field", "`@every 40d`"),
    ("0 0 1 5/13 *", "13", "larger than the month field", "from 1 to 12"),
    ("*/15garbage * * * *", "15garbage", "not a step", "from 1 to 59"),
    ("*/ * * * *", "", "not a step", "from 1 to 59"),
    ("*/5/2 * * * *", "5/2", "not a step", ""),
    ("**/5 * * * *", "**", "not a range", "one `*` is enough"),
    ("*5 * * * *", "*5", "not a range", "`*/5` or `5`"),
    ("** * * * *", "**", "not a range", "write one `*`"),
    ("1,,2 * * * *", ",", "empty item", "remove the extra comma"),
    ("1, * * * *", ",", "empty item", "remove"),
    ("0 ,1 * * *", ",", "empty item", "remove"),
    ("5x * * * *", "5x", "minute `5x` is not a number", "from 0 to 59"),
    ("+1 * * * *", "+1", "not a number", ""),
    ("-5 * * * *", "", "a number is missing", ""),
    ("5- * * * *", "", "a number is missing", ""),
    ("1-2-3 * * * *", "1-2-3", "not a range", "two ends"),
    ("0~30 * * * *", "0~30", "not a number", "`H(0-29)`"),
    ("0 0 * * Monday", "Monday", "not a number or name", "write `MON`"),
    ("0 0 * march *", "march", "not a number or name", "write `MAR`"),
    ("0 0 * * XYZ", "XYZ", "not a number or name", "a name as `SUN`"),
    ("0 0 31 2 *", "0 0 31 2 *", "never fires", "write `L`"),
    ("0 0 0 30 2 *", "0 0 0 30 2 *", "never fires", ""),
    ("0 0 31W 4,6,9,11 *", "0 0 31W 4,6,9,11 *", "never fires", ""),
    ("L * * * *", "L", "stands in the minute field", "two day fields"),
    ("0 0 5L * *", "5L", "day-of-month `5L`", "day-of-week field"),
    ("0 0 L-31 * *", "31", "before the last", "`L-1` to `L-30`"),
    ("0 0 * * L", "L", "no weekday", "`5L`"),
    ("0 0 * * 15W", "15W", "day-of-week field", "day-of-month field"),
    ("0 0 * * 5#6", "6", "does not count", "`#1` to `#5`"),
    ("H(0) * * * *", "H(0)", "not a form of `H`", "`H(0-59)`"),
    ("H(30-70) * * * *", "70", "minute 70 is outside 0-59", ""),
    ("CRON_TZ=Europe/Berlin 0 2 * * *", "CRON_TZ=Europe/Berlin", "a zone stands inside", "`timeZone: Europe/Berlin`"),
];

const REFUSED_WORDS: [(&str, &str, &str, &str); 18] = [
    ("TZ=UTC @daily", "TZ=UTC", "a zone stands inside", "`timeZone: UTC`"),
    ("@reboot", "@reboot", "no instant", "@every 1h"),
    ("@dayly", "@dayly", "not a known name", "@daily"),
    ("@daily x", "x", "stands after `@daily`", "remove it"),
    ("@every", "", "needs a distance", "@every 90s"),
    ("@every5m", "@every5m", "not a known name", "`@every 5m`"),
    ("@every 500ms", "500ms", "whole seconds", "`@every 1s`"),
    ("@every 1s500ms", "500ms", "whole seconds", "`@every 1s`"),
    ("@every 90", "90", "no unit", "`@every 90s`"),
    ("@every 1.5h", "1.5h", "not a distance", "`@every 1h30m`"),
    ("@every 1w", "1w", "not a distance", "units s, m, h, d"),
    ("@every -5m", "-5m", "not a distance", ""),
    ("@every 1h 30m", "1h 30m", "more than one word", "`@every 1h30m`"),
    ("@every 0s", "0s", "never move on", "`@every 1s`"),
    ("@every 400d", "400d", "longer than 366d", "five fields"),
    ("@every 99999999999999999999h", "99999999999999999999h", "longer than", ""),
    ("0 2 * *\n* ", "\n", "line break", "one line"),
    ("0\u{a0}2 * * *", "\u{a0}", "another kind", "ordinary blank"),
];

#[test]
fn an_error_underlines_the_culprit_and_says_what_to_write() {
    for (text, culprit, message, hint) in REFUSED.into_iter().chain(REFUSED_WORDS) {
        let error = Schedule::parse(text, &Zone::utc(), "job").expect_err(text);
        let underlined: String = text.chars().skip(error.column).take(error.length).collect();
        assert_eq!(underlined, culprit, "{text}: {error:?}");
        assert!(error.to_string().contains(message), "{text}: {error:?}");
        assert!(error.hint.as_ref().is_some_and(|found| found.contains(hint)), "{text}: {error:?}");
    }
}

#[test]
fn digits_of_other_scripts_are_refused() {
    for text in ["٣ * * * *", "５ * * * *", "1–5 * * * *", "é * * * *", "\0 * * * *"] {
        let error = Schedule::parse(text, &Zone::utc(), "job").expect_err(text);
        assert_eq!((error.column < 2, error.length), (true, 1), "{text}: {error:?}");
    }
}

#[test]
fn columns_count_the_blanks_before_the_text() {
    let error = Schedule::parse("  \t0 99 * * *", &Zone::utc(), "job").unwrap_err();
    assert_eq!((error.column, error.length), (5, 2));
}

#[test]
fn a_text_longer_than_256_bytes_is_refused() {
    let long = |count: usize| format!("{} * * * *", vec!["1"; count].join(","));
    assert!(Schedule::parse(&long(124), &Zone::utc(), "job").is_ok());
    let error = Schedule::parse(&long(125), &Zone::utc(), "job").unwrap_err();
    assert_eq!(error.to_string(), "a schedule of 257 bytes is longer than 256");
}
