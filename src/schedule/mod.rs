//! When is a job due? Pure: step 1 of a tick. It knows no clock and no other job; two replicas with equal text, zone
//! data and job name compute equal instants.
//!
//! Text becomes sets of numbers (`parse`, `field`), these are searched in the calendar of a wall clock without a zone
//! (`calendar`, `days`), and what was found becomes an instant by the shifts of the zone (`dst`, `zone`).

mod advice;
mod calendar;
mod cron_days;
mod days;
mod distance;
mod dst;
mod error;
mod every;
mod explain;
mod field;
mod field_advice;
mod hash;
mod mark;
mod parse;
mod print;
mod shifts;
mod summary;
mod zone;
mod zone_data;
mod zone_error;

#[cfg(test)]
mod tests;

pub use dst::DstRule;
pub use dst::Fold;
pub use dst::Gap;
pub use error::ScheduleError;
pub use explain::ExplainedField;
pub use explain::Explanation;
pub use explain::explain;
pub use hash::stable_hash;
pub use shifts::Action;
pub use shifts::Effect;
pub use shifts::Shift;
pub use zone::Zone;
pub use zone_data::zone_data_version;
pub use zone_error::ZoneError;

use calendar::Calendar;
use chrono::DateTime;
use chrono::TimeDelta;
use chrono::Utc;
use parse::Expression;
use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

/// At most so many occurrences are computed at once.
const OCCURRENCES_MAX: usize = 10_000;
/// How far back the latest tick is looked for: a 29 February may be eight years ago.
const LOOK_BACK_DAYS: i64 = 9 * 366;

/// The first and the last second that can be a tick: the years 1900 to 2199.
pub fn years() -> (DateTime<Utc>, DateTime<Utc>) {
    let instant = |seconds: i64| DateTime::from_timestamp(seconds, 0).unwrap_or_default();
    (instant(dst::EARLIEST), instant(dst::HORIZON - 1))
}

/// Between the expressions of a job that has several. No expression contains it.
const SEPARATOR: &str = "; ";
/// Begins what a record says of the days on which clocks are set. No expression begins so.
const DST_WORD: &str = "dst ";

/// When a job is due: one or more expressions in a zone. Cheap to clone.
///
/// Years before 1900 and from 2200 on have no ticks.
#[derive(Clone, PartialEq, Eq)]
pub struct Schedule(Arc<Inner>);

#[derive(Clone, PartialEq, Eq)]
struct Inner {
    text: String,
    zone: Zone,
    /// In the order they were written; never empty.
    parts: Vec<Part>,
    dst: DstRule,
}

/// One expression.
#[derive(Clone, PartialEq, Eq)]
struct Part {
    text: String,
    plan: Plan,
}

/// How ticks are found. A further way to name them is a further variant.
#[derive(Clone, PartialEq, Eq)]
enum Plan {
    /// Multiples of so many seconds since the epoch.
    Every(i64),
    Calendar(Arc<Calendar>),
}

impl Schedule {
    /// Reads an expression. `salt` is the job's name, from which `H` takes its number.
    ///
    /// # Errors
    /// Anything that is not wholly understood, and anything that would never fire.
    pub fn parse(text: &str, zone: &Zone, salt: &str) -> Result<Self, ScheduleError> {
        let plan = match parse::parse(text, salt)? {
            Expression::Every(seconds) => Plan::Every(seconds),
            Expression::Fields(fields) => Plan::Calendar(Arc::new(Calendar::new(fields))),
        };
        let text = text.trim_matches(|c: char| c.is_ascii_whitespace()).to_owned();
        let parts = vec![Part { text: text.clone(), plan }];
        Ok(Self(Arc::new(Inner { text, zone: zone.clone(), parts, dst: DstRule::default() })))
    }

    /// A schedule that is due whenever this one or another of the same zone is; an instant that several name is one
    /// tick.
    #[must_use]
    pub fn or(self, other: &Self) -> Self {
        debug_assert_eq!(self.0.zone, other.0.zone, "all expressions of a job mean the same wall clock");
        let mut inner = Arc::unwrap_or_clone(self.0);
        inner.parts.extend_from_slice(&other.0.parts);
        inner.text = inner.parts.iter().map(|part| part.text.as_str()).collect::<Vec<_>>().join(SEPARATOR);
        Self(Arc::new(inner))
    }

    /// The same schedule with another rule for the days on which clocks are set.
    #[must_use]
    pub fn with_dst(self, rule: DstRule) -> Self {
        let mut inner = Arc::unwrap_or_clone(self.0);
        inner.dst = rule;
        Self(Arc::new(inner))
    }

    /// The first tick strictly later than `instant`, in whole seconds; `None` where the years end.
    pub fn after(&self, instant: DateTime<Utc>) -> Option<DateTime<Utc>> {
        let inner = &*self.0;
        let from = instant.timestamp(); // rounded down, so the next whole second is later than `instant`
        let found = inner.parts.iter().filter_map(|part| part.plan.after(inner, from)).min()?;
        DateTime::from_timestamp(found, 0)
    }

    /// The latest tick that is not later than `until`; none where there was none in the nine years before. Found by halving
    /// the time in which it lies, since a schedule may have very many ticks in it.
    pub fn latest(&self, until: DateTime<Utc>) -> Option<DateTime<Utc>> {
        let not_later = |from: DateTime<Utc>| self.after(from).filter(|at| *at <= until);
        let mut low = not_later(until.checked_sub_signed(TimeDelta::days(LOOK_BACK_DAYS))?)?;
        // Invariant: `low` is a tick, and none lies after `high`. Ticks are whole seconds.
        let mut high = until;
        while high - low >= TimeDelta::seconds(1) {
            let middle = low + (high - low) / 2;
            match not_later(middle) {
                Some(tick) => low = tick,
                None => high = middle,
            }
        }
        Some(low)
    }

    /// The first `count` ticks strictly later than `from`, at most 10 000.
    pub fn occurrences(&self, from: DateTime<Utc>, count: usize) -> Vec<DateTime<Utc>> {
        std::iter::successors(self.after(from), |tick| self.after(*tick)).take(count.min(OCCURRENCES_MAX)).collect()
    }

    /// All ticks from `from` on and before `until`, in order and each once. Each is computed when it is asked for, so a
    /// long span costs nothing by itself; take no more than you need.
    pub fn between(&self, from: DateTime<Utc>, until: DateTime<Utc>) -> impl Iterator<Item = DateTime<Utc>> {
        // `after` looks at whole seconds: one second less is enough to find a tick at `from`.
        let before = DateTime::from_timestamp(from.timestamp().saturating_sub(1), 0).unwrap_or(from);
        let first = self.after(before).filter(|tick| *tick >= from).or_else(|| self.after(from));
        std::iter::successors(first, |tick| self.after(*tick)).take_while(move |tick| *tick < until)
    }

    /// The one spelling that all texts of this meaning share: numbers, ranges and steps, with macros, names and `H`
    /// resolved. Read again, under whatever job's name, it is the same schedule, and its own canonical text. Several
    /// expressions are in a fixed order, each once, and joined by `"; "`, as in [`text`](Self::text). It knows neither
    /// the zone nor the [`DstRule`].
    pub fn canonical(&self) -> String {
        let texts: BTreeSet<_> = self.0.parts.iter().map(|part| part.plan.canonical()).collect();
        texts.into_iter().collect::<Vec<_>>().join(SEPARATOR)
    }

    /// The expression as written, without the blanks around it; several are joined by `"; "`.
    pub fn text(&self) -> &str {
        &self.0.text
    }

    /// All that decides its ticks, besides the zone and the job's name, as one text for records: two schedules that
    /// differ in it differ.
    pub fn record(&self) -> String {
        let DstRule { gap, fold } = self.0.dst;
        if self.0.dst == DstRule::default() {
            return self.0.text.clone();
        }
        format!("{}{SEPARATOR}{DST_WORD}{}/{}", self.0.text, gap.as_str(), fold.as_str())
    }

    /// Reads what [`record`](Self::record) wrote; `None`: it is nothing that this version reads, and so perhaps another
    /// one's.
    pub fn from_record(text: &str, zone: &Zone, salt: &str) -> Option<Self> {
        let (texts, rule) = match text.rsplit_once(SEPARATOR) {
            Some((texts, last)) if last.starts_with(DST_WORD) => (texts, DstRule::parse(&last[DST_WORD.len()..])?),
            _ => (text, DstRule::default()),
        };
        let mut parts = texts.split(SEPARATOR).map(|text| Self::parse(text, zone, salt).ok());
        let first = parts.next()??;
        let whole = parts.try_fold(first, |all, part| part.map(|part| all.or(&part)))?;
        Some(whole.with_dst(rule))
    }

    /// Each expression as a schedule of its own.
    pub fn parts(&self) -> impl Iterator<Item = Self> + '_ {
        let Inner { zone, dst, .. } = &*self.0;
        let alone =
            |part: &Part| Inner { text: part.text.clone(), zone: zone.clone(), parts: vec![part.clone()], dst: *dst };
        self.0.parts.iter().map(move |part| Self(Arc::new(alone(part))))
    }

    /// The zone whose wall clock it means.
    pub fn zone(&self) -> &Zone {
        &self.0.zone
    }

    /// What it does on the days on which clocks are set.
    pub fn dst(&self) -> DstRule {
        self.0.dst
    }

    /// Both day fields of an expression restrict the days, so that a day matches if *either* does. Few people expect
    /// it: warn.
    pub fn either_day_field_matches(&self) -> bool {
        let either = |part: &Part| matches!(&part.plan, Plan::Calendar(found) if found.fields().days.either_matches());
        self.0.parts.iter().any(either)
    }
}

impl Plan {
    fn canonical(&self) -> String {
        match self {
            Self::Every(seconds) => print::every(*seconds),
            Self::Calendar(calendar) => print::fields(calendar.fields()),
        }
    }

    /// The first instant strictly later than `from`, both in seconds since the epoch.
    fn after(&self, schedule: &Inner, from: i64) -> Option<i64> {
        match self {
            Self::Every(seconds) => {
                let from = from.max(dst::EARLIEST - 1);
                (from.div_euclid(*seconds) + 1).checked_mul(*seconds).filter(|tick| *tick < dst::HORIZON)
            }
            Self::Calendar(calendar) if calendar.fields().elapsed => {
                dst::after(&schedule.zone, dst::ELAPSED, calendar, from)
            }
            Self::Calendar(calendar) => dst::after(&schedule.zone, schedule.dst, calendar, from),
        }
    }
}

impl fmt::Debug for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Schedule({:?} in {})", self.0.text, self.0.zone.name())
    }
}
