//! What to write instead of a field that was refused. Wherever a hint says "write `x`", `x` in place of what is
//! underlined is accepted; a test holds the hints to that.

use super::error::Piece;
use super::error::ScheduleError;
use super::field::Around;
use super::field::DAY_OF_WEEK;
use super::field::Field;
use super::field::MONTH;
use super::field::Span;
use super::field::number;

impl Field {
    /// How sentences call the field. "The second field" would be the one after the first.
    pub fn title(&self) -> &'static str {
        if self.name == "second" { "seconds" } else { self.name }
    }

    /// The name that a longer or shorter spelling stands for: `Monday`, `mo`.
    pub fn meant(&self, text: &str) -> Option<&'static str> {
        let start = text.get(..3).unwrap_or(text);
        let begins = |name: &&&str| name.get(..start.len()).is_some_and(|part| part.eq_ignore_ascii_case(start));
        let mut found = self.names.iter().filter(begins);
        found.next().filter(|_| start.len() > 1 && found.next().is_none()).copied()
    }

    fn shown(&self, value: u32, named: bool) -> String {
        let index = (value - self.low) as usize % self.names.len().max(1);
        if named { self.names[index].to_owned() } else { value.to_string() }
    }

    /// The numbers of a range, over the end of the field if need be.
    pub fn unrolled(&self, span: Span, step: u32) -> Vec<u32> {
        let size = if self.high == 7 { 7 } else { self.high - self.low + 1 };
        let last = if span.last < span.first { span.last + size } else { span.last };
        let inside = |value: u32| (value - self.low) % size + self.low;
        (span.first..=last).step_by(step as usize).map(inside).collect()
    }

    /// The numbers or, if `like` is written with names, the names; each with `end` behind it.
    pub fn listed(&self, values: &[u32], like: &str, end: &str) -> String {
        let named = self.is_named(like);
        values.iter().map(|value| format!("{}{end}", self.shown(*value, named))).collect::<Vec<_>>().join(",")
    }

    fn is_named(&self, text: &str) -> bool {
        !self.names.is_empty() && text.starts_with(|c: char| c.is_ascii_alphabetic())
    }

    /// How to write a range that goes over the end of the field; `like` is how it was written.
    pub fn forwards(&self, span: Span, step: u32, like: &str) -> String {
        if step > 1 {
            return self.listed(&self.unrolled(span, step), like, "");
        }
        let named = self.is_named(like);
        let range = |first: u32, last: u32| {
            let (from, to) = (self.shown(first, named), self.shown(last, named));
            if first == last { from } else { format!("{from}-{to}") }
        };
        match (self.high, span.first, span.last) {
            (7, 7, last) => range(0, last),
            (7, first, 0) => range(first, 7),
            (7, first, last) => format!("{},{}", range(first, 6), range(0, last)),
            (high, first, last) => format!("{},{}", range(first, high), range(self.low, last)),
        }
    }

    /// `*5`, `**`, `*;`.
    pub fn starred_junk(&self, base: Piece, around: Around) -> ScheduleError {
        let rest = base.text.trim_start_matches(['*', '?']);
        let in_field = number(rest).filter(|value| (self.low.max(1)..=self.high).contains(value));
        let hint = match (in_field, around) {
            (_, Around::Hash) => format!("write `{}-{}`", self.low, self.high),
            _ if rest.is_empty() => "one is enough: write `*`".to_owned(),
            (Some(_), Around::Nothing) => format!("write `*/{rest}` for a step or write `{rest}`"),
            _ => "write `*`".to_owned(),
        };
        base.wrong(format!("{} `{}` is not a range", self.title(), base.text), hint)
    }

    fn spelled<'a>(&self, end: Piece<'a>) -> Option<(&'a str, u32)> {
        let text = if self.value(end).is_ok() { end.text } else { self.meant(end.text)? };
        Some((text, self.value(Piece { text, ..end }).ok()?))
    }

    /// `Monday-Fri`: both ends are known, and not both are spelled as they should be.
    pub fn long_names(&self, base: Piece, (first, last): (Piece, Piece), around: Around) -> Option<ScheduleError> {
        let ((from, first_value), (to, last_value)) = (self.spelled(first)?, self.spelled(last)?);
        if (from, to) == (first.text, last.text) {
            return None;
        }
        let span = Span { first: first_value, last: if to == "SUN" { 7 } else { last_value } };
        let range = match around {
            _ if span.first <= span.last => format!("{from}-{to}"),
            Around::Nothing => self.forwards(span, 1, from),
            Around::Step | Around::Hash => return None,
        };
        Some(base.wrong(format!("{} names have three letters", self.name), format!("write `{range}`")))
    }

    /// `SUN-SUN`, `0-SUN`: one day to some and seven to others. In numbers it is clear, since Sunday has two of them.
    pub fn sunday_to_sunday(
        &self,
        base: Piece,
        (first, last): (Piece, Piece),
        around: Around,
    ) -> Option<ScheduleError> {
        let ends = [self.spelled(first)?, self.spelled(last)?];
        let is_named = ends.iter().any(|(text, _)| self.is_named(text));
        if self.high != 7 || !is_named || ends.iter().any(|(_, value)| value % 7 != 0) {
            return None;
        }
        let week = "for all days of the week write `SUN-SAT`";
        let hint = match around {
            Around::Nothing => format!("for Sundays write `SUN`, {week}"),
            Around::Step | Around::Hash => week.to_owned(),
        };
        Some(base.wrong(format!("{} range `{}` goes from Sunday to Sunday", self.name, base.text), hint))
    }

    /// A range whose end lies beyond the field; `0` for it would mean something else.
    pub fn beyond(&self, base: Piece, (first, last): (u32, Piece), around: Around) -> ScheduleError {
        let high = self.high;
        let begin = base.text.split('-').next().unwrap_or_default();
        let range = match first {
            _ if first == high && around == Around::Nothing => begin.into(),
            0 if self.is_named(begin) => "SUN-SAT".into(),
            _ => format!("{begin}-{high}"),
        };
        let overflow = matches!((self.name, number(last.text)), ("second" | "minute", Some(60)) | ("hour", Some(24)));
        let hint = if overflow && first > 0 && around == Around::Nothing {
            format!("write `{range}`, or with the {} 0 as well write `{range},0`", self.name)
        } else {
            format!("write `{range}`")
        };
        base.wrong(format!("{} {} is outside {}-{high}", self.name, last.text, self.low), hint)
    }

    pub fn outside(&self, piece: Piece) -> ScheduleError {
        let hint = match (self.name, number(piece.text)) {
            ("hour", Some(24)) => "midnight is hour 0: write `0`".to_owned(),
            ("second" | "minute", Some(60)) => "write `0`".to_owned(),
            ("day-of-week", _) => "0 and 7 are Sunday, 1 is Monday".to_owned(),
            _ => format!("write a number from {} to {}", self.low, self.high),
        };
        piece.wrong(format!("{} {} is outside {}-{}", self.name, piece.text, self.low, self.high), hint)
    }

    /// Neither a number nor a name.
    pub fn no_value(&self, piece: Piece) -> ScheduleError {
        let text = piece.text;
        let (low, high) = (self.low, self.high);
        let of = |other: &'static Field| other.meant(text).filter(|_| text.len() > 2 && other.name != self.name);
        let hint = if let Some(name) = self.meant(text) {
            format!("names have three letters: write `{name}`")
        } else if let Some(name) = of(&MONTH) {
            format!("`{name}` belongs in the month field, which is the last but one")
        } else if let Some(name) = of(&DAY_OF_WEEK) {
            format!("`{name}` belongs in the day-of-week field, which is the last")
        } else if text.contains('~') {
            let half = high / 2;
            format!("a spread that all replicas agree on is `H({low}-{half})`")
        } else if text.contains(':') {
            "minute and hour are two fields: 02:30 is `30 2`".to_owned()
        } else if let Some(name) = self.names.first() {
            format!("write a number from {low} to {high} or a name as `{name}`")
        } else {
            format!("write a number from {low} to {high}")
        };
        let message = match text {
            "" => format!("a number is missing in the {} field", self.title()),
            _ if self.names.is_empty() => format!("{} `{text}` is not a number", self.title()),
            _ => format!("{} `{text}` is not a number or name", self.name),
        };
        piece.wrong(message, hint)
    }
}
