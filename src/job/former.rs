//! Schedules that a job had before. Its ticks up to the change are owed a record like all others, whatever comes after.

use super::record::Unreadable;
use std::fmt;

/// So many former schedules are kept. With more of them still owing ticks, a further change waits: see
/// [`Verdict::Registered`](super::Verdict::Registered).
pub const FORMER_MOST: usize = 5;

/// A schedule that a job was registered with before another one. Its text form: the instant, the zone and the schedule,
/// with blanks in between; of several, one a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Former {
    /// Its ticks up to this instant (seconds, store clock: the change) were the job's; those of the next one follow.
    pub until: i64,
    /// Its zone.
    pub zone: String,
    /// Its text.
    pub schedule: String,
}

impl Former {
    /// A schedule and its zone, as registered, until a change.
    pub fn new(until: i64, zone: &str, schedule: &str) -> Self {
        let line = |text: &str| text.replace('\n', " ");
        Self { until, zone: line(zone), schedule: line(schedule) }
    }

    /// Several, oldest first, as a store keeps them.
    pub fn list_text(list: &[Self]) -> String {
        list.iter().map(Self::to_string).collect::<Vec<_>>().join("\n")
    }

    /// Reads what [`Self::list_text`] writes.
    ///
    /// # Errors
    /// A line that begins with no instant.
    pub fn parse_list(text: &str) -> Result<Vec<Self>, Unreadable> {
        let read = |line: &str| Self::parse(line).ok_or_else(|| Unreadable { field: "former", found: line.into() });
        text.split('\n').filter(|line| !line.is_empty()).map(read).collect()
    }

    fn parse(line: &str) -> Option<Self> {
        let (until, rest) = line.split_once(' ')?;
        let (zone, schedule) = rest.split_once(' ')?;
        Some(Self { until: until.parse().ok()?, zone: zone.into(), schedule: schedule.into() })
    }
}

impl fmt::Display for Former {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.until, self.zone, self.schedule)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_comes_back_as_it_went() {
        let list = [Former::new(7, "UTC", "0 2 * * *"), Former::new(9, "Europe/Berlin", "@every\n90s; dst Skip/Both")];
        assert_eq!(list[1].schedule, "@every 90s; dst Skip/Both", "one line each");
        assert_eq!(Former::parse_list(&Former::list_text(&list)).unwrap(), list);
        assert_eq!(Former::parse_list(""), Ok(Vec::new()));
        assert!(["soon UTC x", "7", "7 UTC"].iter().all(|text| Former::parse_list(text).is_err()));
    }
}
