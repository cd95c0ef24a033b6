//! `@every 1h30m`: a distance, counted from the Unix epoch.

use super::error::Piece;
use super::error::ScheduleError;
use super::print;

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
        let hint = hint(text).unwrap_or_else(|| EXAMPLE.to_owned());
        return Err(distance.wrong(format!("`{text}` is more than one word"), hint));
    }
    let (seconds, descend) = sum(distance)?;
    if !descend {
        let message = "the units of a distance go from large to small, each once";
        return Err(distance.wrong(message, format!("for their sum write `{}`", print::every(seconds))));
    }
    Ok(seconds)
}

/// The seconds of numbers with units, and whether the units are in order.
fn sum(distance: Piece) -> Result<(i64, bool), ScheduleError> {
    let text = distance.text;
    let (mut seconds, mut at) = (0_i64, 0);
    let mut units = Order::default();
    while at < text.len() {
        let rest = &text[at..];
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let letters = rest[digits..].bytes().take_while(u8::is_ascii_alphabetic).count();
        let part = distance.part(at, at + digits + letters);
        seconds = seconds.saturating_add(part_seconds(distance, part, digits)?);
        units.add(&rest[digits..digits + letters]);
        at += digits + letters;
    }
    if seconds == 0 {
        return Err(distance.wrong("a distance of 0 would never move on", "the shortest is `@every 1s`"));
    }
    if seconds > DAYS_MAX * DAY {
        let hint = "write a date as five fields, such as `0 0 1 1 *`";
        return Err(distance.wrong(format!("`{text}` is longer than {DAYS_MAX}d"), hint));
    }
    Ok((seconds, units.descend))
}

/// In which order units were written, as they are in all durations of a table: a slip of the hand is no sum.
struct Order {
    last: usize,
    /// From large to small, each once.
    descend: bool,
    seen: [bool; UNITS.len()],
    repeats: bool,
}

const UNITS: [&str; 5] = ["w", "d", "h", "m", "s"];

impl Default for Order {
    fn default() -> Self {
        Self { last: 0, descend: true, seen: Default::default(), repeats: false }
    }
}

impl Order {
    fn add(&mut self, unit: &str) {
        let Some(at) = UNITS.iter().position(|known| *known == unit) else { return };
        let is_first = !self.seen.contains(&true);
        self.descend &= is_first || at > self.last;
        self.repeats |= self.seen[at];
        self.seen[at] = true;
        self.last = at;
    }
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
            let hint = hint(part.text).unwrap_or_else(|| EXAMPLE.to_owned());
            return Err(distance.wrong(format!("`{number}` has no unit"), hint));
        }
        _ => 0,
    };
    if digits == 0 || unit_seconds == 0 {
        let message = format!("`{}` is not a distance", distance.text);
        let hint = hint(distance.text).unwrap_or_else(|| EXAMPLE.to_owned());
        return Err(distance.wrong(message, hint));
    }
    let number =
        number.bytes().fold(0_i64, |value, digit| value.saturating_mul(10).saturating_add(i64::from(digit - b'0')));
    Ok(number.saturating_mul(unit_seconds))
}

/// With `@every ` before it, what was meant is still short enough to be read.
const MENDED_MAX: usize = 200;

/// What to write for `5min` or `5m,10m`; `None` if nothing that would be accepted is known.
pub(super) fn hint(text: &str) -> Option<String> {
    if text.contains(',') { several(text) } else { mend(text).map(|every| format!("write `{every}`")) }
}

/// `1h,2h`: two schedules, or one with parts that a comma separates.
fn several(text: &str) -> Option<String> {
    let lower = text.to_ascii_lowercase();
    let distance = |part: &str| {
        let part = part.trim();
        let part = part.strip_prefix('@').unwrap_or(part);
        let part = part.strip_prefix("every").unwrap_or(part);
        mend(part).filter(|_| part.contains(|c: char| c.is_ascii_alphabetic()))
    };
    let all = lower.split(',').map(distance).collect::<Option<Vec<_>>>()?;
    let one = read(&lower.replace(',', " ")).filter(|(_, descend)| *descend && !lower.contains('@'));
    let one = match one {
        Some((one, _)) => format!("for one distance write `{one}`"),
        None => format!("a schedule has one distance, as `{}`", all.first()?),
    };
    Some(format!("{one}; several schedules are a list: {}", list(&all)))
}

/// Several schedules as a job has them: `["@every 1h", "@every 2h"]`.
pub(super) fn list(texts: &[String]) -> String {
    format!("[{}]", texts.iter().map(|text| format!("\"{text}\"")).collect::<Vec<_>>().join(", "))
}

/// `pt5m`, `p1dt12h`, `p2w` of ISO 8601 without the letters that separate; `None`: nothing of the kind.
fn from_iso(lower: &str) -> Option<String> {
    let period = lower.strip_prefix('p')?;
    let (days, times) = period.split_once('t').unwrap_or((period, ""));
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    let are_parts = |text: &str, units: &[char]| {
        text.is_empty() || text.ends_with(units) && text.split_terminator(units).all(is_number)
    };
    let is_whole = are_parts(days, &['w', 'd']) && are_parts(times, &['h', 'm', 's']);
    (is_whole && !(days.is_empty() && times.is_empty())).then(|| format!("{days}{times}"))
}

/// The schedule that was probably meant by `5min`, `1 hour`, `1h 30m`, `5M`, `PT5M`: what can be read from the beginning.
/// `None` if that is nothing, no distance that is accepted, or has a unit twice, which more than one thing can mean.
pub(super) fn mend(text: &str) -> Option<String> {
    read(text).map(|(meant, _)| meant)
}

/// And whether its units stand in order.
fn read(text: &str) -> Option<(String, bool)> {
    let lower = text.trim().to_ascii_lowercase();
    let lower = from_iso(&lower).unwrap_or(lower);
    let mut rest = lower.as_str();
    let mut mended = String::new();
    let mut units = Order::default();
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
        units.add(unit);
        match (number, unit) {
            (_, "") => {}
            ("", _) if !mended.is_empty() => return None,
            ("", "w") => mended.push_str("7d"),
            ("", unit) => mended.extend(["1", unit]),
            (number, "w") => mended.push_str(&format!("{}d", number.parse::<u32>().ok()?.checked_mul(7)?)),
            (number, unit) => mended.extend([number, unit]),
        }
        rest = after.trim_start_matches([' ', '\t']);
    }
    if mended.is_empty() || mended.len() > MENDED_MAX || units.repeats {
        return None;
    }
    // Numbers with units only: `sum` finds nothing in it that it would ask this function about.
    let (seconds, descend) = sum(Piece { text: &mended, column: 0 }).ok()?;
    // Units in another order, and weeks as days, have to be written anew.
    let meant = if descend { format!("@every {mended}") } else { print::every(seconds) };
    Some((meant, units.descend))
}
