//! One field of an expression: text in, set of numbers out.

use super::days::DayMark;
use super::error::Piece;
use super::error::ScheduleError;
use super::hash::stable_hash;

/// What a field may hold.
#[derive(Debug)]
pub(super) struct Field {
    pub name: &'static str,
    pub low: u32,
    /// Also where `N/step` ends. The week runs from 0 to 7 here; 7 becomes 0 once ranges are expanded.
    pub high: u32,
    /// Three letters each; the first stands for `low`.
    names: &'static [&'static str],
    /// Where a plain `H` ends: days that every month has, Sunday once.
    hash_high: u32,
    /// Its unit in `@every`, if it has one.
    unit: Option<char>,
}

const MONTHS: [&str; 12] = ["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"];
const WEEKDAYS: [&str; 7] = ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"];

pub(super) static SECOND: Field =
    Field { name: "second", low: 0, high: 59, names: &[], hash_high: 59, unit: Some('s') };
pub(super) static MINUTE: Field =
    Field { name: "minute", low: 0, high: 59, names: &[], hash_high: 59, unit: Some('m') };
pub(super) static HOUR: Field = Field { name: "hour", low: 0, high: 23, names: &[], hash_high: 23, unit: Some('h') };
pub(super) static DAY_OF_MONTH: Field =
    Field { name: "day-of-month", low: 1, high: 31, names: &[], hash_high: 28, unit: Some('d') };
pub(super) static MONTH: Field = Field { name: "month", low: 1, high: 12, names: &MONTHS, hash_high: 12, unit: None };
pub(super) static DAY_OF_WEEK: Field =
    Field { name: "day-of-week", low: 0, high: 7, names: &WEEKDAYS, hash_high: 6, unit: None };

/// What a field says.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Values {
    /// Bit n: the number n.
    pub bits: u64,
    /// Days that depend on the month: `L`, `15W`, `FRI#2` …
    pub marks: Vec<DayMark>,
    /// The text begins with `*`: for Vixie cron such a field restricts nothing, even if it is `*/2`.
    pub starred: bool,
}

/// One item of a list.
enum Item {
    Bits(u64),
    Mark(DayMark),
}

/// Both ends included.
#[derive(Clone, Copy)]
struct Span {
    first: u32,
    last: u32,
}

impl Span {
    fn every(self, step: u32) -> u64 {
        (self.first..=self.last).step_by(step as usize).fold(0, |bits, value| bits | 1 << value)
    }

    fn count(self) -> u32 {
        self.last - self.first + 1
    }
}

impl Field {
    /// Reads the field. `salt` is the job's name, for `H`.
    pub fn parse(&self, piece: Piece, salt: &str) -> Result<Values, ScheduleError> {
        let mut values = Values { starred: piece.text.starts_with(['*', '?']), ..Values::default() };
        for item in piece.split(',') {
            if item.text.is_empty() {
                let comma = Piece { text: ",", column: item.column.saturating_sub(1).max(piece.column) };
                let message = format!("the {} field has an empty item", self.name);
                return Err(comma.wrong(message, "remove the extra comma"));
            }
            match self.item(item, salt)? {
                Item::Bits(bits) => values.bits |= bits,
                Item::Mark(mark) => values.marks.push(mark),
            }
        }
        if self.high == 7 && values.bits & 1 << 7 != 0 {
            values.bits = values.bits & 0x7f | 1;
        }
        Ok(values)
    }

    fn item(&self, item: Piece, salt: &str) -> Result<Item, ScheduleError> {
        if let Some(mark) = self.mark(item)? {
            return Ok(Item::Mark(mark));
        }
        let (base, step) = match item.split_once('/') {
            Some((base, step)) => (base, Some(self.step(step, base)?)),
            None => (item, None),
        };
        if base.text.starts_with(['h', 'H']) {
            return self.hashed(base, step, salt).map(Item::Bits);
        }
        let span = self.span(base, step.is_some())?;
        Ok(Item::Bits(span.every(step.unwrap_or(1))))
    }

    /// `*`, `5`, `5-10`; and `5` up to the end of the field if a step follows.
    fn span(&self, base: Piece, stepped: bool) -> Result<Span, ScheduleError> {
        let whole = Span { first: self.low, last: if self.high == 7 { 6 } else { self.high } };
        match base.text {
            "*" | "?" => return Ok(whole),
            text if text.starts_with(['*', '?']) => {
                let rest = text.trim_start_matches(['*', '?']);
                let hint =
                    if rest.is_empty() { "write one `*`".to_owned() } else { format!("write `*/{rest}` or `{rest}`") };
                let hint = if stepped { "one `*` is enough, as in `*/5`".to_owned() } else { hint };
                return Err(base.wrong(format!("{} `{text}` is not a range", self.name), hint));
            }
            _ => {}
        }
        let Some((first, last)) = base.split_once('-') else {
            let first = self.value(base)?;
            return Ok(Span { first, last: if stepped { self.high } else { first } });
        };
        if last.text.contains('-') {
            return Err(base.wrong(format!("`{}` is not a range", base.text), "a range has two ends, as in `1-5`"));
        }
        let (first, mut end) = (self.value(first)?, self.value(last)?);
        if self.high == 7 && end == 0 && last.text.eq_ignore_ascii_case("sun") {
            end = 7; // the week may end with Sunday as well as begin with it
        }
        if first > end {
            let message = format!("{} range `{}` runs backwards", self.name, base.text);
            return Err(base.wrong(message, format!("write `{}`", self.around(first, end))));
        }
        Ok(Span { first, last: end })
    }

    /// How to write a range that goes over the end of the field.
    fn around(&self, first: u32, last: u32) -> String {
        let range = |first: u32, last: u32| {
            if first == last { first.to_string() } else { format!("{first}-{last}") }
        };
        match (self.high, first, last) {
            (7, 7, last) => range(0, last),
            (7, first, 0) => range(first, 7),
            (7, first, last) => format!("{},{}", range(first, 6), range(0, last)),
            (high, first, last) => format!("{},{}", range(first, high), range(self.low, last)),
        }
    }

    fn step(&self, step: Piece, base: Piece) -> Result<u32, ScheduleError> {
        let allowed = format!("write a step from 1 to {}", self.high);
        let Some(number) = number(step.text) else {
            return Err(step.wrong(format!("`{}` is not a step of the {} field", step.text, self.name), allowed));
        };
        if number == 0 {
            return Err(step.wrong(format!("step 0 in the {} field would never move on", self.name), allowed));
        }
        if number > self.high {
            let message = format!("step {number} is larger than the {} field, which ends at {}", self.name, self.high);
            let hint = match self.unit {
                Some(unit) if base.text == "*" => format!("to run at such a distance, write `@every {number}{unit}`"),
                _ => allowed,
            };
            return Err(step.wrong(message, hint));
        }
        Ok(number)
    }

    /// `H`, `H(0-29)`, either with a step.
    fn hashed(&self, base: Piece, step: Option<u32>, salt: &str) -> Result<u64, ScheduleError> {
        let inner = base.part(1, base.text.len());
        let span = match inner.text.strip_prefix('(').and_then(|rest| rest.strip_suffix(')')) {
            None if inner.text.is_empty() => Span { first: self.low, last: self.hash_high },
            Some(range) if range.contains('-') => self.span(inner.part(1, inner.text.len() - 1), false)?,
            _ => {
                let hint = format!("write `H`, or `H({}-{})` for a part of the field", self.low, self.hash_high);
                return Err(base.wrong(format!("{} `{}` is not a form of `H`", self.name, base.text), hint));
            }
        };
        let hash = stable_hash(&format!("{salt}/{}", self.name));
        let choices = step.unwrap_or(u32::MAX).min(span.count());
        let chosen = u32::try_from(hash % u64::from(choices)).expect("a remainder is smaller than its divisor");
        let first = span.first + chosen;
        Ok(match step {
            Some(step) => Span { first, last: span.last }.every(step),
            None => 1 << first,
        })
    }

    fn value(&self, piece: Piece) -> Result<u32, ScheduleError> {
        let text = piece.text;
        if let Some(value) = number(text) {
            return if (self.low..=self.high).contains(&value) { Ok(value) } else { Err(self.outside(piece)) };
        }
        if let Some(index) = self.names.iter().position(|name| name.eq_ignore_ascii_case(text)) {
            return Ok(self.low + u32::try_from(index).expect("at most twelve names"));
        }
        let long = self.names.iter().find(|name| text.get(..3).is_some_and(|start| name.eq_ignore_ascii_case(start)));
        let hint = match (long, self.names.first()) {
            (Some(name), _) => format!("names have three letters: write `{name}`"),
            (None, Some(name)) => format!("write a number from {} to {} or a name as `{name}`", self.low, self.high),
            (None, None) if text.contains('~') => "for a spread that all replicas agree on, write `H(0-29)`".into(),
            (None, None) => format!("write a number from {} to {}", self.low, self.high),
        };
        let message = match text {
            "" => format!("a number is missing in the {} field", self.name),
            _ => {
                format!("{} `{text}` is not a number{}", self.name, if self.names.is_empty() { "" } else { " or name" })
            }
        };
        Err(piece.wrong(message, hint))
    }

    fn outside(&self, piece: Piece) -> ScheduleError {
        let hint = match (self.name, number(piece.text)) {
            ("hour", Some(24)) => "midnight is hour 0".to_owned(),
            ("second" | "minute", Some(60)) => "write 0".to_owned(),
            ("day-of-week", _) => "0 and 7 are Sunday, 1 is Monday".to_owned(),
            _ => format!("write a number from {} to {}", self.low, self.high),
        };
        piece.wrong(format!("{} {} is outside {}-{}", self.name, piece.text, self.low, self.high), hint)
    }

    /// `L`, `L-3`, `LW`, `15W` in day-of-month; `5L`, `FRI#2` in day-of-week. `None`: it is none of these.
    fn mark(&self, item: Piece) -> Result<Option<DayMark>, ScheduleError> {
        let upper = item.text.to_ascii_uppercase();
        let end = item.text.len();
        let looks_like_mark = upper == "L"
            || upper == "LW"
            || upper.starts_with("L-")
            || upper.contains('#')
            || upper.ends_with(['L', 'W']) && upper.starts_with(|c: char| c.is_ascii_digit());
        match self.name {
            "day-of-month" => match upper.as_str() {
                "L" => Ok(Some(DayMark::Last { before: 0 })),
                "LW" => Ok(Some(DayMark::LastWorkday)),
                text if text.starts_with("L-") => self.before_last(item.part(2, end)).map(Some),
                text if text.ends_with('W') => {
                    self.value(item.part(0, end - 1)).map(|near| Some(DayMark::Workday { near }))
                }
                _ if looks_like_mark => Err(item.wrong(
                    format!("day-of-month `{}` is not a day", item.text),
                    "`5L` and `5#2` belong in the day-of-week field; here write `L`, `L-3`, `LW` or `15W`",
                )),
                _ => Ok(None),
            },
            "day-of-week" => match item.split_once('#') {
                Some((weekday, nth)) => self.nth(weekday, nth).map(Some),
                None if upper == "L" => Err(item.wrong(
                    "`L` alone is no weekday",
                    "write `5L` for the last Friday of the month, or `6` for every Saturday",
                )),
                None if looks_like_mark && upper.ends_with('W') => {
                    Err(item.wrong("`W` stands in the day-of-week field", "write it in the day-of-month field"))
                }
                None if upper.ends_with('L') => {
                    self.value(item.part(0, end - 1)).map(|weekday| Some(DayMark::LastOf { weekday: weekday % 7 }))
                }
                None => Ok(None),
            },
            _ if looks_like_mark => Err(item.wrong(
                format!("`{}` stands in the {} field", item.text, self.name),
                "`L`, `W` and `#` belong in the two day fields",
            )),
            _ => Ok(None),
        }
    }

    fn before_last(&self, count: Piece) -> Result<DayMark, ScheduleError> {
        match number(count.text) {
            Some(before @ 0..=30) => Ok(DayMark::Last { before }),
            _ => Err(count.wrong(
                format!("`{}` is not a number of days before the last of the month", count.text),
                "write `L-1` to `L-30`",
            )),
        }
    }

    fn nth(&self, weekday: Piece, nth: Piece) -> Result<DayMark, ScheduleError> {
        let weekday = self.value(weekday)? % 7;
        match number(nth.text) {
            Some(nth @ 1..=5) => Ok(DayMark::Nth { weekday, nth }),
            _ => Err(nth.wrong(
                format!("`{}` does not count a weekday of the month", nth.text),
                "write `#1` to `#5`, or `5L` for the last Friday",
            )),
        }
    }
}

/// Digits only, leading zeros allowed; a number too large to matter becomes a large one.
fn number(text: &str) -> Option<u32> {
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    Some(text.bytes().fold(0_u32, |value, digit| value.saturating_mul(10).saturating_add(u32::from(digit - b'0'))))
}
