//! The calendar search: the next wall-clock time that matches, no zone involved.
//!
//! Local time is carried as seconds that count as if the clock showed UTC. Plain expressions are searched by the crate
//! `cron`, others (`L`, `W`, `#`) and years outside the crate's 1970 to 2100 by the search below. Both say the same
//! where both can answer; a test compares them.

use super::days::DayRule;
use chrono::DateTime;
use chrono::Datelike;
use chrono::NaiveDate;
use chrono::NaiveDateTime;
use chrono::Timelike;
use chrono::Utc;
use std::ops::RangeInclusive;

/// The last year that is searched.
pub(super) const LAST_YEAR: i32 = 2200;

/// Years that the crate `cron` knows completely. It also has 2100, but ends there.
const CRON_YEARS: RangeInclusive<i32> = 1970..=2099;

/// The fields of an expression as sets of numbers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Fields {
    pub seconds: u64,
    pub minutes: u64,
    pub hours: u64,
    pub months: u64,
    pub days: DayRule,
    /// The minute or the hour field begins with `*`: such a job follows elapsed time where the clock is set.
    pub elapsed: bool,
}

/// A searchable expression.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Calendar {
    fields: Fields,
    cron: Option<CronSearch>,
}

impl Calendar {
    pub fn new(fields: Fields) -> Self {
        let cron = fields.days.is_plain().then(|| CronSearch::new(&fields)).flatten();
        Self { fields, cron }
    }

    pub fn fields(&self) -> &Fields {
        &self.fields
    }

    #[cfg(test)]
    pub fn is_searched_by_cron(&self) -> bool {
        self.cron.is_some()
    }

    /// The first matching time strictly later than `local`; `None` after [`LAST_YEAR`].
    pub fn next(&self, local: i64) -> Option<i64> {
        if let Some(cron) = &self.cron
            && let Some(found) = cron.next(local)
        {
            return Some(found);
        }
        self.fields.next(local)
    }
}

impl Fields {
    /// Whether any day at all matches. The calendar repeats after 400 years.
    pub fn ever_match(&self) -> bool {
        (2000..2400).any(|year| self.months_from(1).any(|month| self.days.matching(year, month) != 0))
    }

    /// Like [`Calendar::next`], by this module's own search.
    pub fn next(&self, local: i64) -> Option<i64> {
        let from = DateTime::<Utc>::from_timestamp(local + 1, 0)?.naive_utc();
        let (year, month, day) = (from.year(), from.month(), from.day());
        let mut days = 0;
        if self.months & 1 << month != 0 {
            days = self.days.matching(year, month);
            if days & 1 << day != 0
                && let Some((hour, minute, second)) = self.time_at_or_after(from)
            {
                return seconds(year, month, day, (hour, minute, second));
            }
            days &= !(u32::MAX >> (31 - day)); // later days of this month
        }
        let (year, month, day) = match lowest(days.into()) {
            Some(day) => (year, month, day),
            None => self.first_day_after_month(year, month)?,
        };
        seconds(year, month, day, (lowest(self.hours)?, lowest(self.minutes)?, lowest(self.seconds)?))
    }

    fn first_day_after_month(&self, year: i32, month: u32) -> Option<(i32, u32, u32)> {
        (year..=LAST_YEAR)
            .flat_map(|each| self.months_from(if each == year { month + 1 } else { 1 }).map(move |m| (each, m)))
            .find_map(|(year, month)| Some((year, month, lowest(self.days.matching(year, month).into())?)))
    }

    fn months_from(&self, first: u32) -> impl Iterator<Item = u32> {
        (first..=12).filter(|month| self.months & 1 << month != 0)
    }

    /// The first matching time of the day from `from` on.
    fn time_at_or_after(&self, from: NaiveDateTime) -> Option<(u32, u32, u32)> {
        let (hour, minute, second) = (from.hour(), from.minute(), from.second());
        if self.hours & 1 << hour != 0 {
            if self.minutes & 1 << minute != 0
                && let Some(second) = lowest_from(self.seconds, second)
            {
                return Some((hour, minute, second));
            }
            if let Some(minute) = lowest_from(self.minutes, minute + 1) {
                return Some((hour, minute, lowest(self.seconds)?));
            }
        }
        Some((lowest_from(self.hours, hour + 1)?, lowest(self.minutes)?, lowest(self.seconds)?))
    }
}

fn lowest(bits: u64) -> Option<u32> {
    (bits != 0).then(|| bits.trailing_zeros())
}

fn lowest_from(bits: u64, from: u32) -> Option<u32> {
    lowest(bits & (u64::MAX << from))
}

fn seconds(year: i32, month: u32, day: u32, (hour, minute, second): (u32, u32, u32)) -> Option<i64> {
    Some(NaiveDate::from_ymd_opt(year, month, day)?.and_hms_opt(hour, minute, second)?.and_utc().timestamp())
}

/// The crate `cron`, fed only what it cannot read differently from us: numbers, and times that no zone has touched.
#[derive(Debug, Clone, PartialEq, Eq)]
struct CronSearch {
    first: cron::Schedule,
    /// The crate wants both day fields to match; where either is enough, each is searched alone.
    second: Option<Box<cron::Schedule>>,
}

impl CronSearch {
    /// `None`, and with it the search above, if the crate should refuse such a list of numbers one day.
    fn new(fields: &Fields) -> Option<Self> {
        let times =
            [(fields.seconds, 60), (fields.minutes, 60), (fields.hours, 24)].map(|(bits, end)| list(bits, 0..=end - 1));
        let days = list(fields.days.of_month.bits, 1..=31);
        let months = list(fields.months, 1..=12);
        let weekdays = list(fields.days.of_week.bits << 1, 1..=7); // it calls Sunday 1
        let time = times.join(" ");
        let schedule = |days: &str, weekdays: &str| format!("{time} {days} {months} {weekdays}").parse().ok();
        Some(if fields.days.either_matches() {
            Self { first: schedule(&days, "*")?, second: Some(Box::new(schedule("*", &weekdays)?)) }
        } else {
            Self { first: schedule(&days, &weekdays)?, second: None }
        })
    }

    fn next(&self, local: i64) -> Option<i64> {
        let from = DateTime::<Utc>::from_timestamp(local, 0)?;
        if !CRON_YEARS.contains(&from.year()) {
            return None;
        }
        let next = |schedule: &cron::Schedule| schedule.after(&from).next().map(|found| found.timestamp());
        let first = next(&self.first);
        match &self.second {
            None => first,
            // One that ran out of years is later than one that did not.
            Some(second) => first.into_iter().chain(next(second)).min(),
        }
    }
}

/// `1,5,9`, or `*` if nothing is left out.
fn list(bits: u64, range: RangeInclusive<u32>) -> String {
    let chosen: Vec<_> = range.clone().filter(|value| bits & 1 << value != 0).map(|value| value.to_string()).collect();
    if chosen.len() == range.count() { "*".to_owned() } else { chosen.join(",") }
}
