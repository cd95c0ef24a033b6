//! How close ticks can be, told from the expression alone: without a walk from tick to tick, which a table of thousands
//! of jobs feels.

use super::Plan;
use super::Schedule;
use super::calendar::Fields;
use std::time::Duration;

const DAY: u64 = 86_400;

impl Schedule {
    /// No two ticks are closer, but for those that a change of the zone's clocks brings together. They may be further
    /// apart: days are not looked at, and several expressions are only known not to share a second.
    pub fn distance_at_least(&self) -> Duration {
        Duration::from_secs(match self.0.parts.as_slice() {
            [part] => match &part.plan {
                Plan::Every(seconds) => seconds.unsigned_abs(),
                Plan::Calendar(calendar) => times(calendar.fields()),
            },
            _ => 1,
        })
    }
}

/// The shortest distance between two times of day, of which the last is followed by the first of the next day.
fn times(fields: &Fields) -> u64 {
    if fields.seconds.count_ones() > 1 {
        around(fields.seconds, 60)
    } else if fields.minutes.count_ones() > 1 {
        around(fields.minutes, 60) * 60
    } else if fields.hours.count_ones() > 1 {
        around(fields.hours, 24) * 3600
    } else {
        DAY
    }
}

/// The shortest distance between two numbers of a set, on a circle of `size`.
fn around(bits: u64, size: u64) -> u64 {
    let first = u64::from(bits.trailing_zeros());
    let (mut last, mut left) = (first, bits & (bits - 1));
    let mut shortest = size;
    while left != 0 {
        let next = u64::from(left.trailing_zeros());
        shortest = shortest.min(next - last);
        last = next;
        left &= left - 1;
    }
    shortest.min(first + size - last)
}
