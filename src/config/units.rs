//! Durations and sizes, read and written.

use super::text::quoted;
use std::time::Duration;

/// Why a text is not a duration or a size, and what to write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct UnitError {
    /// Whether only the unit is missing.
    pub is_bare_number: bool,
    /// What was found and what is allowed.
    pub message: String,
    /// What to write.
    pub hint: String,
}

const DURATION_UNITS: [(&str, u64); 5] = [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000), ("ms", 1)];

/// Reads `90s`, `1h30m`, `2d`: one or more whole numbers with a unit, each unit once, the larger first.
pub(super) fn duration(text: &str) -> Result<Duration, UnitError> {
    let fail = |message: String| {
        Err(UnitError {
            is_bare_number: is_number(text),
            message,
            hint: if is_number(text) {
                format!("write {}", quoted(&format!("{text}s")))
            } else if let Some((meant, is_sum)) = mended(text) {
                let sum = if is_sum { "for their sum " } else { "" };
                format!("{sum}write {}", quoted(&meant))
            } else {
                "write it as `30s`, `15m`, `1h30m`".to_owned()
            },
        })
    };
    if is_number(text) {
        return fail("a number without a unit is not a duration".to_owned());
    }
    let mut rest = text;
    let mut last = None;
    let mut millis: u64 = 0;
    while !rest.is_empty() {
        let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let (number, after) = rest.split_at(digits);
        let letters = after.len() - after.trim_start_matches(|c: char| c.is_alphabetic()).len();
        let (unit, after) = after.split_at(letters);
        let known = DURATION_UNITS.iter().position(|(name, _)| *name == unit);
        let (Some(index), false) = (known, number.is_empty()) else {
            return fail("a duration is whole numbers with the units `d`, `h`, `m`, `s` or `ms`".to_owned());
        };
        if last.is_some_and(|last| last >= index) {
            return fail("the units of a duration go from large to small, each once".to_owned());
        }
        last = Some(index);
        let part = number.parse::<u64>().ok().and_then(|number| number.checked_mul(DURATION_UNITS[index].1));
        let Some(sum) = part.and_then(|part| millis.checked_add(part)) else {
            return fail("this duration is too long to count".to_owned());
        };
        millis = sum;
        rest = after;
    }
    if last.is_none() { fail("this duration is empty".to_owned()) } else { Ok(Duration::from_millis(millis)) }
}

/// What `5 minutes`, `1.5h`, `1 hour 30 min` and `PT15M` mean, and whether that is a sum of what hardly is one duration: a
/// unit stands twice. Behind a comma it may be another duration.
fn mended(text: &str) -> Option<(String, bool)> {
    let lower = text.trim().to_lowercase();
    let mut rest = lower.strip_prefix("pt").unwrap_or(&lower);
    let mut millis = 0_u64;
    let mut units = Vec::new();
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (number, after) = rest.split_at(digits);
        let after = after.trim_start();
        let letters = after.find(|c: char| !c.is_alphabetic()).unwrap_or(after.len());
        let (unit, after) = after.split_at(letters);
        let of_unit = match unit {
            "ms" | "msec" | "msecs" | "millisecond" | "milliseconds" => 1,
            "s" | "sec" | "secs" | "second" | "seconds" => 1000,
            "m" | "min" | "mins" | "minute" | "minutes" => 60_000,
            "h" | "hr" | "hrs" | "hour" | "hours" => 3_600_000,
            "d" | "day" | "days" => 86_400_000,
            "w" | "week" | "weeks" => 7 * 86_400_000,
            _ => return None,
        };
        millis = millis.checked_add(times(number, of_unit)?)?;
        units.push(of_unit);
        rest = after.trim_start_matches([' ', ',']).trim_start_matches("and ");
    }
    let descend = units.windows(2).all(|pair| pair[0] > pair[1]);
    units.sort_unstable();
    let is_sum = units.windows(2).any(|pair| pair[0] == pair[1]);
    let is_clear = millis > 0 && (descend || !text.contains(','));
    is_clear.then(|| (duration_text(Duration::from_millis(millis)), is_sum))
}

/// `1.5` times a unit, where that is a whole number.
fn times(number: &str, unit: u64) -> Option<u64> {
    let (whole, part) = number.split_once('.').unwrap_or((number, ""));
    if part.len() > 3 || number.ends_with('.') {
        return None;
    }
    let scale = 10_u64.pow(u32::try_from(part.len()).ok()?);
    let part = if part.is_empty() { 0 } else { part.parse::<u64>().ok()? };
    let scaled = whole.parse::<u64>().ok()?.checked_mul(scale)?.checked_add(part)?.checked_mul(unit)?;
    (scaled % scale == 0).then_some(scaled / scale)
}

/// Reads a duration as it is written in `jobs.yaml`: `90s`, `1h30m`, `2d`.
///
/// # Errors
/// What was found and what to write instead, as one sentence.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    duration(text).map_err(|error| format!("{}: {}", error.message, error.hint))
}

/// Reads `512B`, `8KiB`, `1Mi`: one whole number of bytes or a power of 1024 of them.
pub(super) fn size(text: &str) -> Result<u64, UnitError> {
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let (number, unit) = text.split_at(digits);
    let factor = match unit {
        "B" => Some(1_u64),
        "KiB" | "Ki" => Some(1 << 10),
        "MiB" | "Mi" => Some(1 << 20),
        "GiB" | "Gi" => Some(1 << 30),
        _ => None,
    };
    let bytes = number.parse::<u64>().ok().zip(factor).and_then(|(number, factor)| number.checked_mul(factor));
    bytes.ok_or_else(|| {
        let is_decimal =
            !number.is_empty() && ["k", "kb", "m", "mb", "g", "gb"].contains(&unit.to_lowercase().as_str());
        let (message, hint) = if is_number(text) {
            ("a number without a unit is not a size".to_owned(), format!("write {}", quoted(&format!("{text}B"))))
        } else if is_decimal {
            let binary = format!("{number}{}iB", unit.to_uppercase().trim_end_matches('B'));
            (
                format!("the unit `{unit}` may mean 1000 or 1024"),
                format!("write {} for powers of 1024", quoted(&binary)),
            )
        } else {
            ("a size is a whole number with `B`, `KiB` or `MiB`".to_owned(), "write it as `8KiB`".to_owned())
        };
        UnitError { is_bare_number: is_number(text), message, hint }
    })
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_ascii_digit())
}

/// The shortest text that [`duration`] reads as this; parts below a millisecond are dropped.
pub fn duration_text(duration: Duration) -> String {
    let mut rest = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    let mut text = String::new();
    for (unit, millis) in DURATION_UNITS {
        if rest >= millis {
            text.push_str(&format!("{}{unit}", rest / millis));
            rest %= millis;
        }
    }
    if text.is_empty() { "0s".to_owned() } else { text }
}

/// The shortest text that [`size`] reads as this.
pub(super) fn size_text(bytes: u64) -> String {
    match bytes {
        0 => "0B".to_owned(),
        b if b.is_multiple_of(1 << 20) => format!("{}MiB", b >> 20),
        b if b.is_multiple_of(1 << 10) => format!("{}KiB", b >> 10),
        b => format!("{b}B"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_duration_has_units_from_large_to_small() {
        let millis = |text| duration(text).map(|d| d.as_millis()).ok();
        assert_eq!(millis("1h30m"), Some(5_400_000));
        assert_eq!(millis("2d"), Some(172_800_000));
        assert_eq!(millis("1s500ms"), Some(1500));
        assert_eq!(millis("0s"), Some(0));
        for bad in ["", "30", "1.5h", "1m1h", "1m1m", "m", "-1s", "1 s", "1w", "99999999999999999999d", "30sec", "1H"] {
            assert_eq!(millis(bad), None, "{bad}");
        }
        assert_eq!(duration("30").unwrap_err().hint, "write `30s`");
        let general = "write it as `30s`, `15m`, `1h30m`";
        for (bad, hint) in [
            ("5 minutes", "write `5m`"),
            ("1 hour and 30 min", "write `1h30m`"),
            ("1.5h", "write `1h30m`"),
            ("PT15M", "write `15m`"),
            ("2w", "write `14d`"),
            ("30sec", "write `30s`"),
            ("1m1h", "write `1h1m`"),
            ("1h2h", "for their sum write `3h`"),
            ("1 hour, 30 minutes", "write `1h30m`"),
            ("1h,2h", general),
            ("5m,1h", general),
            ("0.3333s", general),
            ("soon", general),
            ("0 minutes", general),
            ("99999999999999999999 days", general),
        ] {
            assert_eq!(duration(bad).unwrap_err().hint, hint, "{bad}");
        }
    }

    /// What people learn of one they expect of the other.
    #[test]
    fn distances_of_schedules_have_the_same_form() {
        use crate::schedule::Schedule;
        use crate::schedule::Zone;
        for text in ["1h30m", "1d1h1m1s", "90s", "1h2h", "1m1m", "30m1h", "1h,2h", "1h 2h", "5", "1.5h", "h", "PT1H"] {
            let distance = Schedule::parse(&format!("@every {text}"), &Zone::utc(), "");
            assert_eq!(distance.is_ok(), duration(text).is_ok(), "{text}");
        }
    }

    #[test]
    fn a_size_says_which_kilo() {
        assert_eq!(size("8KiB"), Ok(8192));
        assert_eq!(size("1Mi"), Ok(1 << 20));
        assert_eq!(size("0B"), Ok(0));
        for (bad, hint) in [
            ("8K", "write `8KiB` for powers of 1024"),
            ("8kB", "write `8KiB` for powers of 1024"),
            ("512", "write `512B`"),
            ("", "write it as `8KiB`"),
            ("99999999999GiB", "write it as `8KiB`"),
        ] {
            assert_eq!(size(bad).unwrap_err().hint, hint, "{bad}");
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back(millis in 0_u64..10_000_000_000, bytes in 0_u64..10_000_000_000) {
            prop_assert_eq!(duration(&duration_text(Duration::from_millis(millis))), Ok(Duration::from_millis(millis)));
            prop_assert_eq!(size(&size_text(bytes)), Ok(bytes));
        }

        #[test]
        fn no_text_breaks_the_readers(text in any::<String>()) {
            let _ = (duration(&text), size(&text));
        }
    }
}
