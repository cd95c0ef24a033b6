//! How far this machine's clock is from the store's, and what follows: a replica that is ahead by more than the
//! tolerance waits for the store's time. It would be refused anyway, and until it was, its own clock would take ticks for
//! late that are to come.
//!
//! A clock that is behind is believed: it is late to ticks that others have long decided, and that is said. Following the
//! store in that direction, too, would make one wrong clock, the store's, wrong on all replicas.

use super::Engine;
use super::Notice;
use crate::clock::Boot;
use crate::clock::Now;
use chrono::TimeDelta;
use std::time::Duration;

/// Beyond this, somebody has to act.
const SEVERE_MS: i64 = 30_000;

/// What was said last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Said {
    InOrder,
    Skewed,
    Severe,
}

/// A comparison of two clocks over a network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Measured {
    /// Ours minus the store's, milliseconds.
    offset_ms: i64,
    /// It may be so much more or less: half of the round trip.
    within_ms: i64,
}

/// See the module.
#[derive(Debug, Clone)]
pub struct Skew {
    tolerance_ms: i64,
    measured: Option<Measured>,
    said: Said,
    /// The store has no clock: what it tells as its time is our own.
    without_clock: bool,
}

impl Skew {
    /// Nothing is known yet.
    pub fn new(tolerance: Duration) -> Self {
        Self {
            tolerance_ms: super::agenda::millis(tolerance),
            measured: None,
            said: Said::InOrder,
            without_clock: false,
        }
    }

    /// Nothing is ever known of it: the store has no clock to compare ours with.
    pub fn without_clock(&mut self) {
        self.without_clock = true;
    }

    /// Another table tolerates another difference; judged so from the next measurement on.
    pub fn tolerate(&mut self, tolerance: Duration) {
        self.tolerance_ms = super::agenda::millis(tolerance);
    }

    /// Ours minus the store's, where it is known.
    pub fn offset_ms(&self) -> Option<i64> {
        self.measured.map(|measured| measured.offset_ms)
    }

    /// By how much our clock is to be put back before ticks are judged by it, milliseconds.
    pub fn correction_ms(&self) -> i64 {
        match self.measured {
            Some(Measured { offset_ms, .. }) if self.said > Said::InOrder => offset_ms.max(0),
            _ => 0,
        }
    }

    /// The store's clock showed `store_ms` at some moment between `sent` and now. A measurement that is less exact than
    /// the one before, and does not contradict it, says nothing new.
    fn measure(&mut self, now: Now, sent: Boot, store_ms: i64) -> Option<Notice> {
        if self.without_clock {
            return None;
        }
        let half_ms = super::agenda::millis(now.boot.since(sent)) / 2;
        let offset_ms = now.wall.timestamp_millis() - half_ms - store_ms;
        let new = Measured { offset_ms, within_ms: half_ms };
        let agrees = |old: &Measured| {
            old.within_ms < new.within_ms && (old.offset_ms - new.offset_ms).abs() <= new.within_ms - old.within_ms
        };
        if !self.measured.as_ref().is_some_and(agrees) {
            self.measured = Some(new);
        }
        self.judge()
    }

    /// Our clock stepped.
    fn stepped(&mut self, by_ms: i64) -> Option<Notice> {
        let measured = self.measured.as_mut()?;
        measured.offset_ms += by_ms;
        self.judge()
    }

    /// Says it when the clocks begin to differ, when that gets worse, and when they agree again. A slow answer is no
    /// proof of a difference; and what goes to and fro at the tolerance is not said each time.
    fn judge(&mut self) -> Option<Notice> {
        let Measured { offset_ms, within_ms } = self.measured?;
        let (least, most) = (offset_ms.abs() - within_ms, offset_ms.abs() + within_ms);
        let is = if least > SEVERE_MS.max(self.tolerance_ms) {
            Said::Severe
        } else if least > self.tolerance_ms {
            Said::Skewed
        } else if most <= self.tolerance_ms / 4 * 3 {
            Said::InOrder
        } else {
            return None;
        };
        let was = std::mem::replace(&mut self.said, is);
        match is {
            Said::InOrder if was > is => Some(Notice::ClockInOrder { offset_ms }),
            Said::Skewed | Said::Severe if was < is => {
                Some(Notice::ClockSkewed { offset_ms, severe: is == Said::Severe })
            }
            _ => None,
        }
    }
}

impl Engine {
    /// The store told its time in an answer to what was sent then.
    pub(super) fn store_told_time(&mut self, sent: Boot, store_ms: i64) {
        let notice = self.skew.measure(self.read, sent, store_ms);
        self.effects.extend(notice.map(super::Effect::Notice));
    }

    /// Our clock stepped against the boot clock.
    pub(super) fn skew_stepped(&mut self, by_ms: i64) {
        let notice = self.skew.stepped(by_ms);
        self.effects.extend(notice.map(super::Effect::Notice));
    }

    /// The clocks as ticks are judged by them.
    pub(super) fn judged(&self, read: Now) -> Now {
        Now { wall: read.wall - TimeDelta::milliseconds(self.skew.correction_ms()), boot: read.boot }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use chrono::DateTime;

    const NOW_MS: i64 = 1_772_330_400_000;

    fn skew() -> Skew {
        Skew::new(Duration::from_secs(2))
    }

    /// The store's clock is so far behind ours, and its answer took so long.
    fn measure(skew: &mut Skew, offset_ms: i64, took_ms: u64) -> Option<Notice> {
        let boot = Boot::from_nanos(1_000_000_000_000);
        let now =
            Now { wall: DateTime::from_timestamp_millis(NOW_MS).unwrap(), boot: boot + Duration::from_millis(took_ms) };
        skew.measure(now, boot, NOW_MS - i64::try_from(took_ms).unwrap() / 2 - offset_ms)
    }

    fn skewed(offset_ms: i64, severe: bool) -> Option<Notice> {
        Some(Notice::ClockSkewed { offset_ms, severe })
    }

    #[test]
    fn the_offset_is_counted_from_the_middle_of_the_round_trip() {
        let mut skew = skew();
        assert_eq!(measure(&mut skew, 1500, 100), None);
        assert_eq!(skew.offset_ms(), Some(1500));
        assert_eq!(skew.correction_ms(), 0, "tolerated");
    }

    #[test]
    fn a_store_without_a_clock_says_nothing_of_ours() {
        let mut skew = skew();
        skew.without_clock();
        assert_eq!(measure(&mut skew, 90_000, 0), None);
        assert_eq!((skew.offset_ms(), skew.correction_ms()), (None, 0));
    }

    #[test]
    fn a_difference_is_said_when_it_begins_gets_severe_and_ends() {
        let mut skew = skew();
        assert_eq!(measure(&mut skew, 2100, 0), skewed(2100, false));
        assert_eq!(measure(&mut skew, 2200, 0), None);
        assert_eq!(skew.correction_ms(), 2200);
        assert_eq!(measure(&mut skew, -90_000, 0), skewed(-90_000, true));
        assert_eq!(skew.correction_ms(), 0, "one that is behind is believed");
        assert_eq!(measure(&mut skew, -3_000, 0), None);
        assert_eq!(measure(&mut skew, 1_900, 0), None, "not yet sure");
        assert_eq!(measure(&mut skew, 1_400, 0), Some(Notice::ClockInOrder { offset_ms: 1_400 }));
        assert_eq!(measure(&mut skew, 1_900, 0), None);
        assert_eq!(skew.correction_ms(), 0);
    }

    #[test]
    fn a_slow_answer_is_no_proof_that_clocks_differ() {
        let mut skew = skew();
        assert_eq!(measure(&mut skew, 2500, 2000), None);
        assert_eq!(measure(&mut skew, 2500, 0), skewed(2500, false));
        assert_eq!(measure(&mut skew, 1000, 4000), None, "nor that they agree");
        assert_eq!(skew.offset_ms(), Some(2500), "the better one counts");
        assert_eq!(measure(&mut skew, -1000, 4000), None);
        assert_eq!(skew.offset_ms(), Some(-1000), "unless it cannot be right any more");
    }

    #[test]
    fn another_table_may_tolerate_more() {
        let mut skew = skew();
        assert_eq!(measure(&mut skew, 2500, 0), skewed(2500, false));
        skew.tolerate(Duration::from_secs(4));
        assert_eq!(measure(&mut skew, 2500, 0), Some(Notice::ClockInOrder { offset_ms: 2500 }));
    }

    #[test]
    fn a_step_of_our_clock_changes_the_offset_at_once() {
        let mut skew = skew();
        assert_eq!(skew.stepped(5_000), None, "from where, is not known");
        measure(&mut skew, 10, 0);
        assert_eq!(skew.stepped(5_000), skewed(5_010, false));
        assert_eq!(skew.correction_ms(), 5_010);
        assert_eq!(skew.stepped(-5_000), Some(Notice::ClockInOrder { offset_ms: 10 }));
    }
}
