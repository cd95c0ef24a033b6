//! From a plan back to text: one spelling for each meaning.
//!
//! Names, macros, `H`, blanks, the order of a list and everything else that does not change the ticks are gone. What a
//! text's first letter says stays, because it means something: a `*` in front of a day field decides how the two go
//! together, one in front of minute or hour decides what happens where clocks are set.

use super::calendar::Fields;
use super::days::DayMark;
use super::field::DAY_OF_MONTH;
use super::field::DAY_OF_WEEK;
use super::field::Field;
use super::field::HOUR;
use super::field::MINUTE;
use super::field::MONTH;
use super::field::SECOND;
use super::field::Values;

/// No canonical text is longer: three bytes for each of 194 numbers, five for each of 105 marks, five for each of the
/// stars, and blanks.
pub(super) const BYTES_MAX: usize = 1150;

/// How a field's text may begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Star {
    /// It would mean something else.
    Never,
    /// It says nothing, and is used where it is the whole field.
    May,
    Must,
}

/// `@every 1h30m`.
pub(super) fn every(seconds: i64) -> String {
    let parts = [(seconds / 86_400, 'd'), (seconds / 3600 % 24, 'h'), (seconds / 60 % 60, 'm'), (seconds % 60, 's')];
    let shown = parts.iter().filter(|(count, _)| *count > 0).map(|(count, unit)| format!("{count}{unit}"));
    format!("@every {}", shown.collect::<String>())
}

/// Five fields, or six if the second is not 0.
pub(super) fn fields(fields: &Fields) -> String {
    let star = if fields.elapsed { Star::May } else { Star::Never };
    let (mut minute, mut hour) = (MINUTE.print(fields.minutes, star), HOUR.print(fields.hours, star));
    if fields.elapsed && !minute.starts_with('*') && !hour.starts_with('*') {
        // One of them did, with a list behind the star.
        if MINUTE.star_step(fields.minutes).is_some() {
            minute = MINUTE.print(fields.minutes, Star::Must);
        } else {
            hour = HOUR.print(fields.hours, Star::Must);
        }
    }
    let of_month = days(&DAY_OF_MONTH, &fields.days.of_month);
    let of_week = days(&DAY_OF_WEEK, &fields.days.of_week);
    let month = MONTH.print(fields.months, Star::May);
    let rest = format!("{minute} {hour} {of_month} {month} {of_week}");
    if fields.seconds == 1 { rest } else { format!("{} {rest}", SECOND.print(fields.seconds, Star::May)) }
}

/// A day field.
pub(super) fn days(field: &Field, values: &Values) -> String {
    let numbers = field.print(values.bits, if values.starred { Star::Must } else { Star::Never });
    let marks = values.marks.iter().map(|mark| mark_text(*mark));
    Some(numbers).filter(|numbers| !numbers.is_empty()).into_iter().chain(marks).collect::<Vec<_>>().join(",")
}

fn mark_text(mark: DayMark) -> String {
    match mark {
        DayMark::Last { before: 0 } => "L".to_owned(),
        DayMark::Last { before } => format!("L-{before}"),
        DayMark::LastWorkday => "LW".to_owned(),
        DayMark::Workday { near } => format!("{near}W"),
        DayMark::LastOf { weekday } => format!("{weekday}L"),
        DayMark::Nth { weekday, nth } => format!("{weekday}#{nth}"),
    }
}

impl Field {
    /// The last number; Sunday is 0 here.
    fn last(&self) -> u32 {
        if self.high == 7 { 6 } else { self.high }
    }

    /// What `*/step` stands for.
    fn stepped(&self, step: u32) -> u64 {
        (self.low..=self.last()).step_by(step as usize).fold(0, |bits, value| bits | 1 << value)
    }

    /// The smallest step with which all that `*/step` names is in `bits`; `None`: no text for them begins with `*`.
    fn star_step(&self, bits: u64) -> Option<u32> {
        (1..=self.high).find(|step| self.stepped(*step) & !bits == 0)
    }

    fn print(&self, bits: u64, star: Star) -> String {
        let step = self.star_step(bits).filter(|step| match star {
            Star::Never => false,
            Star::May => self.stepped(*step) == bits && bits.count_ones() > 2,
            Star::Must => true,
        });
        let (mut items, mut left) = match step {
            Some(1) => return "*".to_owned(),
            Some(step) => (vec![format!("*/{step}")], bits & !self.stepped(step)),
            None => (Vec::new(), bits),
        };
        while left != 0 {
            let (item, taken) = longest_range(left);
            items.push(item);
            left &= !taken;
        }
        items.join(",")
    }
}

/// The longest range, with or without a step, that begins with the lowest number; a number alone where that names
/// fewer than three.
fn longest_range(bits: u64) -> (String, u64) {
    let first = bits.trailing_zeros();
    let has = |value: u32| value < u64::BITS && bits & 1 << value != 0;
    let count = |step: u32| (0..).take_while(|index| has(first + index * step)).count();
    // Of equally long ones the first, and `max_by_key` would take the last.
    let best = (1..u64::BITS / 2).rev().max_by_key(|step| count(*step)).filter(|step| count(*step) > 2);
    let Some(step) = best else { return (first.to_string(), 1 << first) };
    let values = (first..).step_by(step as usize).take(count(step));
    let last = first + step * (u32::try_from(count(step)).unwrap_or(1) - 1);
    let range = if step == 1 { format!("{first}-{last}") } else { format!("{first}-{last}/{step}") };
    (range, values.fold(0, |bits, value| bits | 1 << value))
}
