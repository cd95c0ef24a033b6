//! When is a job due? Pure: step 1 of a tick. It knows no clock and no other job; two replicas with equal text, zone
//! data and job name compute equal instants.
//!
//! Text becomes sets of numbers (`parse`, `field`), these are searched in the calendar of a wall clock without a zone
//! (`calendar`, `days`), and what was found becomes an instant by the shifts of the zone (`dst`, `zone`).

mod advice;
mod calendar;
mod cron_days;
mod days;
mod dst;
mod error;
mod every;
mod field;
mod field_advice;
mod hash;
mod mark;
mod parse;
mod print;
mod zone;
mod zone_data;
mod zone_error;

#[cfg(test)]
mod tests;

pub use dst::DstRule;
pub use dst::Fold;
pub use dst::Gap;
pub use error::ScheduleError;
pub use hash::stable_hash;
pub use zone::Zone;
pub use zone_data::zone_data_version;
pub use zone_error::ZoneError;

use calendar::Calendar;
use chrono::DateTime;
use chrono::Utc;
use parse::Expression;
use std::fmt;
use std::sync::Arc;

/// At most so many occurrences are computed at once.
const OCCURRENCES_MAX: usize = 10_000;

/// When a job is due: an expression in a zone. Cheap to clone.
///
/// Years before 1900 and from 2200 on have no ticks.
#[derive(Clone, PartialEq, Eq)]
pub struct Schedule(Arc<Inner>);

#[derive(Clone, PartialEq, Eq)]
struct Inner {
    text: String,
    zone: Zone,
    plan: Plan,
    dst: DstRule,
}

/// How ticks are found. A further way to name them is a further variant.
#[derive(Clone, PartialEq, Eq)]
enum Plan {
    /// Multiples of so many seconds since the epoch.
    Every(i64),
    Calendar(Box<Calendar>),
}

impl Schedule {
    /// Reads an expression. `salt` is the job's name, from which `H` takes its number.
    ///
    /// # Errors
    /// Anything that is not wholly understood, and anything that would never fire.
    pub fn parse(text: &str, zone: &Zone, salt: &str) -> Result<Self, ScheduleError> {
        let plan = match parse::parse(text, salt)? {
            Expression::Every(seconds) => Plan::Every(seconds),
            Expression::Fields(fields) => Plan::Calendar(Box::new(Calendar::new(fields))),
        };
        let text = text.trim_matches(|c: char| c.is_ascii_whitespace()).to_owned();
        Ok(Self(Arc::new(Inner { text, zone: zone.clone(), plan, dst: DstRule::default() })))
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
        let found = match &inner.plan {
            Plan::Every(seconds) => (from.div_euclid(*seconds) + 1).checked_mul(*seconds)?,
            Plan::Calendar(calendar) if calendar.fields().elapsed => {
                dst::after(&inner.zone, dst::ELAPSED, calendar, from)?
            }
            Plan::Calendar(calendar) => dst::after(&inner.zone, inner.dst, calendar, from)?,
        };
        DateTime::from_timestamp(found, 0)
    }

    /// The first `count` ticks strictly later than `from`, at most 10 000.
    pub fn occurrences(&self, from: DateTime<Utc>, count: usize) -> Vec<DateTime<Utc>> {
        std::iter::successors(self.after(from), |tick| self.after(*tick)).take(count.min(OCCURRENCES_MAX)).collect()
    }

    /// All ticks from `from` on and before `until`, in order. Each is computed when it is asked for, so a long span costs
    /// nothing by itself; take no more than you need.
    pub fn between(&self, from: DateTime<Utc>, until: DateTime<Utc>) -> impl Iterator<Item = DateTime<Utc>> {
        // `after` looks at whole seconds: one second less is enough to find a tick at `from`.
        let before = DateTime::from_timestamp(from.timestamp().saturating_sub(1), 0).unwrap_or(from);
        let first = self.after(before).filter(|tick| *tick >= from).or_else(|| self.after(from));
        std::iter::successors(first, |tick| self.after(*tick)).take_while(move |tick| *tick < until)
    }

    /// The one spelling that all texts of this meaning share: numbers, ranges and steps, with macros, names and `H`
    /// resolved. Read again, under whatever job's name, it is the same schedule, and its own canonical text. It knows
    /// neither the zone nor the [`DstRule`].
    pub fn canonical(&self) -> String {
        match &self.0.plan {
            Plan::Every(seconds) => print::every(*seconds),
            Plan::Calendar(calendar) => print::fields(calendar.fields()),
        }
    }

    /// The expression as written, without the blanks around it.
    pub fn text(&self) -> &str {
        &self.0.text
    }

    /// The zone whose wall clock it means.
    pub fn zone(&self) -> &Zone {
        &self.0.zone
    }

    /// Both day fields restrict the days, so that a day matches if *either* does. Few people expect it: warn.
    pub fn either_day_field_matches(&self) -> bool {
        matches!(&self.0.plan, Plan::Calendar(calendar) if calendar.fields().days.either_matches())
    }

    /// What an operator should know about this tick because the zone's clocks are set near it; `None` for most.
    pub fn note(&self, tick: DateTime<Utc>) -> Option<&'static str> {
        match &self.0.plan {
            Plan::Calendar(calendar) if !calendar.fields().elapsed => {
                dst::note(&self.0.zone, calendar, tick.timestamp())
            }
            _ => None,
        }
    }
}

impl fmt::Debug for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Schedule({:?} in {})", self.0.text, self.0.zone.name())
    }
}
