//! The days of a plain expression, searched by the crate `cron`.
//!
//! The crate is fed only what it cannot read differently from us: numbers, and dates that no zone has touched. The time
//! of day is ours: it is a look at three sets, and without it most jobs of a table share one search. Building one costs
//! more than a thousand instants computed with it.

use super::calendar::Fields;
use chrono::DateTime;
use chrono::Datelike;
use chrono::NaiveDate;
use chrono::NaiveTime;
use chrono::Utc;
use std::collections::HashMap;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::LazyLock;
use std::sync::Mutex;
use std::sync::PoisonError;

/// Years that the crate knows completely. It also has 2100, but ends there.
const YEARS: RangeInclusive<i32> = 1970..=2099;

/// So many searches are remembered. Who has one keeps it.
const KNOWN_MOST: usize = 1024;

static KNOWN: LazyLock<Mutex<HashMap<Key, Arc<CronDays>>>> = LazyLock::new(Mutex::default);

/// All that a search depends on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Key {
    days: u64,
    months: u64,
    weekdays: u64,
    either_matches: bool,
}

/// Finds days.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct CronDays {
    first: cron::Schedule,
    /// The crate wants both day fields to match; where either is enough, each is searched alone.
    second: Option<cron::Schedule>,
}

impl CronDays {
    /// The search for the days of `fields`, which have no marks. `None` if the crate should refuse such a list of
    /// numbers one day.
    pub fn of(fields: &Fields) -> Option<Arc<Self>> {
        let key = Key {
            days: fields.days.of_month.bits,
            months: fields.months,
            weekdays: fields.days.of_week.bits,
            either_matches: fields.days.either_matches(),
        };
        let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(search) = known.get(&key) {
            return Some(Arc::clone(search));
        }
        let search = Arc::new(Self::new(key)?);
        if known.len() >= KNOWN_MOST {
            known.clear();
        }
        known.insert(key, Arc::clone(&search));
        Some(search)
    }

    fn new(key: Key) -> Option<Self> {
        let days = list(key.days, 1..=31);
        let months = list(key.months, 1..=12);
        let weekdays = list(key.weekdays << 1, 1..=7); // it calls Sunday 1
        let midnights = |days: &str, weekdays: &str| format!("0 0 0 {days} {months} {weekdays}").parse().ok();
        Some(if key.either_matches {
            Self { first: midnights(&days, "*")?, second: Some(midnights("*", &weekdays)?) }
        } else {
            Self { first: midnights(&days, &weekdays)?, second: None }
        })
    }

    /// The first matching day later than `day`; `None` also where only the crate knows no further ones.
    pub fn after(&self, day: NaiveDate) -> Option<NaiveDate> {
        if !YEARS.contains(&day.year()) {
            return None;
        }
        let midnight: DateTime<Utc> = day.and_time(NaiveTime::MIN).and_utc();
        let next = |schedule: &cron::Schedule| schedule.after(&midnight).next().map(|found| found.date_naive());
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
