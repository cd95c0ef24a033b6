//! `@every 1h30m`: a distance, counted from the Unix epoch.

use super::error::Piece;
use super::error::ScheduleError;

const DAY: i64 = 86_400;

/// The longest distance, in days. Beyond it an operator wants a calendar, and a bound keeps the sums small.
const DAYS_MAX: i64 = 366;

const EXAMPLE: &str = "write whole numbers with the units s, m, h, d, as in `@every 1h30m`";

/// Whole seconds, at least one. All replicas and all restarts count from the epoch, so they need not agree on a start.
pub(super) fn parse(distance: Piece) -> Result<i64, ScheduleError> {
    let text = distance.text;
    if text.is_empty() {
        return Err(distance.wrong("`@every` needs a distance", "write `@every 90s` or `@every 1h30m`"));
    }
    if text.contains(' ') || text.contains('\t') {
        let hint = mend(text).map_or_else(|| EXAMPLE.to_owned(), |every| format!("write `{every}`"));
        return Err(distance.wrong(format!("`{text}` is more than one word"), hint));
    }
    let mut seconds = 0_i64;
    let mut at = 0;
    while at < text.len() {
        let rest = &text[at..];
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let letters = rest[digits..].bytes().take_while(u8::is_ascii_alphabetic).count();
        let part = distance.part(at, at + digits + letters);
        seconds = seconds.saturating_add(part_seconds(distance, part, digits)?);
        at += digits + letters;
    }
    if seconds == 0 {
        return Err(distance.wrong("a distance of 0 would never move on", "the shortest is `@every 1s`"));
    }
    if seconds > DAYS_MAX * DAY {
        let hint = "write a date as five fields, such as `0 0 1 1 *`";
        return Err(distance.wrong(format!("`{text}` is longer than {DAYS_MAX}d"), hint));
    }
    Ok(seconds)
}

/// One `<number><unit>`.
fn part_seconds(distance: Piece, part: Piece, digits: usize) -> Result<i64, ScheduleError> {
    let (number, unit) = part.text.split_at(digits);
    let unit_seconds = match unit {
        "s" => 1,
        "m" => 60,
        "h" => 3600,
        "d" => DAY,
        "ms" => {
            return Err(part.wrong("ticks are whole seconds", "the shortest distance is `@every 1s`"));
        }
        "" if digits > 0 && part.text.len() == distance.text.len() => {
            let hint = mend(part.text).map_or_else(|| EXAMPLE.to_owned(), |every| format!("write `{every}`"));
            return Err(distance.wrong(format!("`{number}` has no unit"), hint));
        }
        _ => 0,
    };
    if digits == 0 || unit_seconds == 0 {
        let message = format!("`{}` is not a distance", distance.text);
        let hint = mend(distance.text).map_or_else(|| EXAMPLE.to_owned(), |every| format!("write `{every}`"));
        return Err(distance.wrong(message, hint));
    }
    let number =
        number.bytes().fold(0_i64, |value, digit| value.saturating_mul(10).saturating_add(i64::from(digit - b'0')));
    Ok(number.saturating_mul(unit_seconds))
}

/// With `@every ` before it, what was meant is still short enough to be read.
const MENDED_MAX: usize = 200;

/// The schedule that was probably meant by `5min`, `1 hour`, `1h 30m`, `5M`: what can be read from the beginning.
/// `None` if that is nothing, or no distance that is accepted.
pub(super) fn mend(text: &str) -> Option<String> {
    let lower = text.to_ascii_lowercase();
    let mut rest = lower.trim_start();
    let mut mended = String::new();
    while !rest.is_empty() {
        let (number, after) = rest.split_at(rest.bytes().take_while(u8::is_ascii_digit).count());
        let after = after.trim_start();
        let (word, after) = after.split_at(after.bytes().take_while(u8::is_ascii_alphabetic).count());
        let unit = match word {
            "" if mended.is_empty() && after.is_empty() => "s",
            "s" | "sec" | "secs" | "second" | "seconds" => "s",
            "m" | "min" | "mins" | "minute" | "minutes" => "m",
            "h" | "hr" | "hrs" | "hour" | "hours" => "h",
            "d" | "day" | "days" => "d",
            "w" | "week" | "weeks" => "w",
            "and" if number.is_empty() => "",
            _ if rest.contains(|c: char| c.is_ascii_digit()) => return None, // it would be lost
            _ => break,
        };
        match (number, unit) {
            (_, "") => {}
            ("", _) if !mended.is_empty() => return None,
            ("", "w") => mended.push_str("7d"),
            ("", unit) => mended.extend(["1", unit]),
            (number, "w") => mended.push_str(&format!("{}d", number.parse::<u32>().ok()?.checked_mul(7)?)),
            (number, unit) => mended.extend([number, unit]),
        }
        rest = after.trim_start_matches([',', ' ', '\t']);
    }
    let whole = Piece { text: &mended, column: 0 };
    // Numbers with units only: `parse` finds nothing in it that it would ask this function about.
    let is_read = !mended.is_empty() && mended.len() <= MENDED_MAX && parse(whole).is_ok();
    is_read.then(|| format!("@every {mended}"))
}
