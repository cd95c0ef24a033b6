//! Which days of a month match. A month's days are the bits 1 to 31 of a number.

use super::field::Values;
use chrono::Datelike;
use chrono::NaiveDate;

/// A day that depends on the month. Weekdays count from Sunday = 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum DayMark {
    /// `L`, `L-3`: so many days before the last. A month that is too short has none.
    Last { before: u32 },
    /// `LW`: the last of Monday to Friday.
    LastWorkday,
    /// `15W`: the day of Monday to Friday nearest to the 15th, inside the month. A month without that day has none.
    Workday { near: u32 },
    /// `5L`: the last such weekday.
    LastOf { weekday: u32 },
    /// `5#2`: the second such weekday.
    Nth { weekday: u32, nth: u32 },
}

/// The two day fields and how they go together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct DayRule {
    pub of_month: Values,
    pub of_week: Values,
}

/// What there is to know about one month.
#[derive(Clone, Copy)]
struct Month {
    days: u32,
    /// Of the first day.
    weekday: u32,
}

impl Month {
    fn of(year: i32, month: u32) -> Self {
        let first = |year, month| NaiveDate::from_ymd_opt(year, month, 1).expect("years are between 1899 and 2201");
        let start = first(year, month);
        let next = if month == 12 { first(year + 1, 1) } else { first(year, month + 1) };
        let days = u32::try_from((next - start).num_days()).expect("a month has 28 to 31 days");
        Self { days, weekday: start.weekday().num_days_from_sunday() }
    }

    fn weekday_of(self, day: u32) -> u32 {
        (self.weekday + day - 1) % 7
    }

    /// The first day of the month with this weekday.
    fn first(self, weekday: u32) -> u32 {
        (weekday + 7 - self.weekday) % 7 + 1
    }

    fn all(self) -> u32 {
        u32::MAX >> (31 - self.days) & !1
    }

    fn last_workday(self) -> u32 {
        match self.weekday_of(self.days) {
            0 => self.days - 2,
            6 => self.days - 1,
            _ => self.days,
        }
    }

    fn workday_near(self, day: u32) -> Option<u32> {
        if day > self.days {
            return None;
        }
        Some(match self.weekday_of(day) {
            6 if day == 1 => 3,
            6 => day - 1,
            0 if day == self.days => day - 2,
            0 => day + 1,
            _ => day,
        })
    }

    /// `None`: this month has no such day.
    fn find(self, mark: DayMark) -> Option<u32> {
        match mark {
            DayMark::Last { before } => self.days.checked_sub(before).filter(|day| *day > 0),
            DayMark::LastWorkday => Some(self.last_workday()),
            DayMark::Workday { near } => self.workday_near(near),
            DayMark::LastOf { weekday } => {
                let first = self.first(weekday);
                Some(first + (self.days - first) / 7 * 7)
            }
            DayMark::Nth { weekday, nth } => Some(self.first(weekday) + (nth - 1) * 7).filter(|day| *day <= self.days),
        }
    }

    fn marked(self, marks: &[DayMark]) -> u32 {
        marks.iter().filter_map(|mark| self.find(*mark)).fold(0, |days, day| days | 1 << day)
    }

    /// All days whose weekday is a bit of `weekdays`.
    fn with_weekday(self, weekdays: u64) -> u32 {
        // Six weeks of the set side by side, moved so that bit 1 is the first day's weekday.
        let weeks = (0..6).fold(0_u64, |weeks, week| weeks | weekdays << (7 * week));
        let days = (weeks >> self.weekday) << 1;
        u32::try_from(days & u64::from(self.all())).expect("masked to 32 bits")
    }
}

impl DayRule {
    /// Both fields restrict the days, and a day that either names is a match (POSIX, Vixie cron). A field that begins
    /// with `*` restricts nothing; the rule asks for the text, not for the set: `*/2` is such a field, `1-31` is none.
    pub fn either_matches(&self) -> bool {
        !self.of_month.starred && !self.of_week.starred
    }

    /// Whether one of the months, bits 1 to 12, ever has a day that the day of month names.
    pub fn has_day_of_month(&self, months: u64) -> bool {
        const LEAP: i32 = 2024;
        (1..=12)
            .filter(|month| months & (1 << month) != 0)
            .map(|month| Month::of(LEAP, month))
            .any(|month| self.of_month.bits & u64::from(month.all()) != 0 || month.marked(&self.of_month.marks) != 0)
    }

    /// Whether a search by plain numbers is enough.
    pub fn is_plain(&self) -> bool {
        self.of_month.marks.is_empty() && self.of_week.marks.is_empty()
    }

    /// The matching days of a month, as bits 1 to 31.
    pub fn matching(&self, year: i32, month: u32) -> u32 {
        let shape = Month::of(year, month);
        let plain = u32::try_from(self.of_month.bits).expect("days of a month are below 32") & shape.all();
        let of_month = plain | shape.marked(&self.of_month.marks);
        let of_week = shape.with_weekday(self.of_week.bits) | shape.marked(&self.of_week.marks);
        if self.either_matches() { of_month | of_week } else { of_month & of_week }
    }
}
