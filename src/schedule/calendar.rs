//! The calendar search: the next wall-clock time that matches, no zone involved.
//!
//! Local time is carried as seconds that count as if the clock showed UTC. The days of plain expressions are searched
//! by the crate `cron` ([`cron_days`](super::cron_days)), those of others (`L`, `W`, `#`) and years that the crate does
//! not have by the search below. Both say the same where both can answer; a test compares them.

use super::cron_days::CronDays;
use super::days::DayRule;
use chrono::DateTime;
use chrono::Datelike;
use chrono::NaiveDate;
use chrono::NaiveDateTime;
use chrono::Timelike;
use chrono::Utc;
use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering;

/// The last year that is searched.
pub(super) const LAST_YEAR: i32 = 2200;

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

/// So many days are found by this module's own search before one of the crate is made: as many as reading a table takes
/// for a job. Making one costs as much as finding a dozen days, and tables are read for other reasons than running them.
const OWN_SEARCHES: u32 = 4;

/// A searchable expression.
#[derive(Debug)]
pub(super) struct Calendar {
    fields: Fields,
    /// Made when it is worth it; `None` inside: the crate cannot do these days.
    cron: OnceLock<Option<Arc<CronDays>>>,
    own_searches: AtomicU32,
}

impl PartialEq for Calendar {
    fn eq(&self, other: &Self) -> bool {
        self.fields == other.fields
    }
}

impl Eq for Calendar {}

impl Calendar {
    pub fn new(fields: Fields) -> Self {
        Self { fields, cron: OnceLock::new(), own_searches: AtomicU32::new(0) }
    }

    pub fn fields(&self) -> &Fields {
        &self.fields
    }

    /// The search by the crate, if it is used by now.
    #[cfg(test)]
    pub fn cron_days(&self) -> Option<&CronDays> {
        self.cron()
    }

    fn cron(&self) -> Option<&CronDays> {
        if !self.fields.days.is_plain() || self.own_searches.load(Ordering::Relaxed) < OWN_SEARCHES {
            return None;
        }
        self.cron.get_or_init(|| CronDays::of(&self.fields)).as_deref()
    }

    /// The first matching time strictly later than `local`; `None` after [`LAST_YEAR`].
    pub fn next(&self, local: i64) -> Option<i64> {
        let Some(cron) = self.cron() else {
            self.own_searches.fetch_add(1, Ordering::Relaxed);
            return self.fields.next(local);
        };
        let from = DateTime::<Utc>::from_timestamp(local + 1, 0)?.naive_utc();
        let today = from.date();
        if self.fields.is_day(today)
            && let Some(time) = self.fields.time_at_or_after(from)
        {
            return seconds((today.year(), today.month(), today.day()), time);
        }
        match cron.after(today) {
            Some(day) => seconds((day.year(), day.month(), day.day()), self.fields.first_time()?),
            None => self.fields.next(local),
        }
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
                return seconds((year, month, day), (hour, minute, second));
            }
            days &= !(u32::MAX >> (31 - day)); // later days of this month
        }
        let (year, month, day) = match lowest(days.into()) {
            Some(day) => (year, month, day),
            None => self.first_day_after_month(year, month)?,
        };
        seconds((year, month, day), self.first_time()?)
    }

    /// Whether a plain expression names this day.
    fn is_day(&self, day: NaiveDate) -> bool {
        let has = |bits: u64, value: u32| bits & 1 << value != 0;
        let of_month = has(self.days.of_month.bits, day.day());
        let of_week = has(self.days.of_week.bits, day.weekday().num_days_from_sunday());
        let is_named = if self.days.either_matches() { of_month || of_week } else { of_month && of_week };
        is_named && has(self.months, day.month())
    }

    fn first_time(&self) -> Option<(u32, u32, u32)> {
        Some((lowest(self.hours)?, lowest(self.minutes)?, lowest(self.seconds)?))
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

fn seconds((year, month, day): (i32, u32, u32), (hour, minute, second): (u32, u32, u32)) -> Option<i64> {
    Some(NaiveDate::from_ymd_opt(year, month, day)?.and_hms_opt(hour, minute, second)?.and_utc().timestamp())
}
