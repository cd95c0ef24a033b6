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
    pub names: &'static [&'static str],
    /// Where a plain `H` ends: days that every month has, Sunday once.
    hash_high: u32,
    /// Its unit in `@every`, if it has one.
    pub unit: Option<char>,
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

/// Both ends included. As written it may run backwards: who uses it asks.
#[derive(Clone, Copy)]
pub(super) struct Span {
    pub first: u32,
    pub last: u32,
}

/// What stands around a range, which decides what may be written in its place.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Around {
    /// An item of its own.
    Nothing,
    /// A step follows.
    Step,
    /// `H(…)`.
    Hash,
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
                let message = format!("the {} field has an empty item", self.title());
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
        // Marks are a set as well: `L,15W` and `15W,L,L` are one schedule.
        values.marks.sort_unstable();
        values.marks.dedup();
        Ok(values)
    }

    fn item(&self, item: Piece, salt: &str) -> Result<Item, ScheduleError> {
        if let Some(mark) = self.mark(item)? {
            return Ok(Item::Mark(mark));
        }
        let (base, step) = match item.split_once('/') {
            Some((base, step)) => (base, Some(step)),
            None => (item, None),
        };
        // The base first: what is wrong from its first letter on has no step.
        if base.text.starts_with(['h', 'H']) {
            let span = self.hash_span(base)?;
            let step = step.map(|step| self.step(step, item)).transpose()?;
            return Ok(Item::Bits(self.hashed(span, step, salt)));
        }
        let span = self.span(base, if step.is_some() { Around::Step } else { Around::Nothing })?;
        let step = step.map(|step| self.step(step, item)).transpose()?.unwrap_or(1);
        if span.first > span.last {
            let message = format!("{} range `{}` runs backwards", self.title(), base.text);
            return Err(item.wrong(message, format!("write `{}`", self.forwards(span, step, base.text))));
        }
        Ok(Item::Bits(span.every(step)))
    }

    /// `*`, `5`, `5-10`; and `5` up to the end of the field if a step follows. It may run backwards.
    pub fn span(&self, base: Piece, around: Around) -> Result<Span, ScheduleError> {
        match base.text {
            "*" | "?" => return Ok(Span { first: self.low, last: if self.high == 7 { 6 } else { self.high } }),
            text if text.starts_with(['*', '?']) => return Err(self.starred_junk(base, around)),
            _ => {}
        }
        let Some((first, last)) = base.split_once('-') else {
            let first = self.value(base)?;
            return Ok(Span { first, last: if around == Around::Step { self.high } else { first } });
        };
        if last.text.contains('-') {
            return Err(base.wrong(format!("`{}` is not a range", base.text), "a range has two ends, as in `1-5`"));
        }
        if let Some(error) = self.sunday_to_sunday(base, (first, last), around) {
            return Err(error);
        }
        if let Some(error) = self.long_names(base, (first, last), around) {
            return Err(error);
        }
        let first = self.value(first)?;
        if number(last.text).is_some_and(|end| end > self.high) {
            return Err(self.beyond(base, (first, last), around));
        }
        let end = self.value(last)?;
        // The week may end with Sunday as well as begin with it.
        let ends_with_sunday = self.high == 7 && end == 0 && last.text.eq_ignore_ascii_case("sun");
        Ok(Span { first, last: if ends_with_sunday { 7 } else { end } })
    }

    fn step(&self, step: Piece, item: Piece) -> Result<u32, ScheduleError> {
        let allowed = format!("write a step from 1 to {}", self.high);
        let title = self.title();
        let Some(number) = number(step.text) else {
            let message = match step.text {
                "" => format!("a number is missing after `/` in the {title} field"),
                text => format!("`{text}` is not a step of the {title} field"),
            };
            return Err(step.wrong(message, allowed));
        };
        if number == 0 {
            return Err(step.wrong(format!("step 0 in the {title} field would never move on"), allowed));
        }
        if number > self.high {
            let message = format!("step {} is larger than the {title} field, which ends at {}", step.text, self.high);
            let whole = ["*/", "?/", "0/"].iter().any(|start| item.text.starts_with(start));
            return Err(match (self.name, number) {
                ("second", 60) if whole => item.wrong(message, "for once a minute write `0`"),
                ("minute", 60) if whole => item.wrong(message, "for once an hour write `0`"),
                ("hour", 24) if whole => item.wrong(message, "for once a day write `0`"),
                _ => step.wrong(message, allowed),
            });
        }
        Ok(number)
    }

    /// What `H` and `H(0-29)` choose from.
    fn hash_span(&self, base: Piece) -> Result<Span, ScheduleError> {
        let inner = base.part(1, base.text.len());
        let (low, high) = (self.low, self.hash_high);
        let span = match inner.text.strip_prefix('(').and_then(|rest| rest.strip_suffix(')')) {
            None if inner.text.is_empty() => Span { first: low, last: high },
            Some(range) if range.contains('-') => self.span(inner.part(1, inner.text.len() - 1), Around::Hash)?,
            _ => {
                let hint = if inner.text.starts_with('(') && !inner.text.ends_with(')') {
                    format!("`H(…)` takes one range, without blanks, commas and steps inside: `H({low}-{high})`")
                } else {
                    format!("write `H`, or `H({low}-{high})` for a part of the field")
                };
                return Err(base.wrong(format!("{} `{}` is not a form of `H`", self.title(), base.text), hint));
            }
        };
        if span.first > span.last {
            let Span { first, last } = span;
            let high = if self.high == 7 { first.max(6) } else { self.high };
            let hint = format!(
                "the range in `H(…)` cannot run backwards, choose one side: write `H({first}-{high})` or write `H({low}-{last})`"
            );
            return Err(base.wrong(format!("{} range `{}` runs backwards", self.title(), base.text), hint));
        }
        Ok(span)
    }

    /// `H`, `H(0-29)`, either with a step.
    fn hashed(&self, span: Span, step: Option<u32>, salt: &str) -> u64 {
        let hash = stable_hash(&format!("{salt}/{}", self.name));
        let choices = step.unwrap_or(u32::MAX).min(span.count());
        let chosen = u32::try_from(hash % u64::from(choices)).expect("a remainder is smaller than its divisor");
        let first = span.first + chosen;
        match step {
            Some(step) => Span { first, last: span.last }.every(step),
            None => 1 << first,
        }
    }

    /// A number of the field, or one of its names.
    pub fn value(&self, piece: Piece) -> Result<u32, ScheduleError> {
        let text = piece.text;
        if let Some(value) = number(text) {
            return if (self.low..=self.high).contains(&value) { Ok(value) } else { Err(self.outside(piece)) };
        }
        if let Some(index) = self.names.iter().position(|name| name.eq_ignore_ascii_case(text)) {
            return Ok(self.low + u32::try_from(index).expect("at most twelve names"));
        }
        Err(self.no_value(piece))
    }
}

/// Digits only, leading zeros allowed; a number too large to matter becomes a large one.
pub(super) fn number(text: &str) -> Option<u32> {
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    Some(text.bytes().fold(0_u32, |value, digit| value.saturating_mul(10).saturating_add(u32::from(digit - b'0'))))
}
