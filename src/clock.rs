//! The only reader of time.
//!
//! Two clocks, never mixed: the wall clock says which ticks are due and is never compared with another machine's;
//! the boot clock measures deadlines. Rust's `Instant` will not do for those: on Linux it stands still while the
//! machine is suspended, and a lease would seem to live on.

use chrono::DateTime;
use chrono::Utc;
use std::ops::Add;
use std::time::Duration;
use std::time::SystemTime;

/// A point on this machine's boot clock (`CLOCK_BOOTTIME`): nanoseconds since boot, suspended time included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Boot(u64);

impl Boot {
    /// So many nanoseconds after boot.
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// Nanoseconds since boot.
    pub const fn nanos(self) -> u64 {
        self.0
    }

    /// From `earlier` to here; zero if it is later.
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Duration> for Boot {
    type Output = Self;

    fn add(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)))
    }
}

/// Both clocks, read together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Now {
    /// The wall clock.
    pub wall: DateTime<Utc>,
    /// The boot clock.
    pub boot: Boot,
}

/// Something that knows the time.
pub trait Clock: Send + Sync {
    /// Both clocks.
    fn now(&self) -> Now;
}

/// What a clock says that may be set to before 1970, as under `faketime`: ticks begin there, and so does our time.
fn wall(read: SystemTime) -> DateTime<Utc> {
    DateTime::from(read.max(SystemTime::UNIX_EPOCH))
}

/// The machine's clocks.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "the one place that reads the clocks")]
    fn now(&self) -> Now {
        use nix::time::ClockId;
        use nix::time::clock_gettime;
        let boot = clock_gettime(ClockId::CLOCK_BOOTTIME).expect("Linux has a boot clock since 2.6.39");
        let nanos = Duration::from(boot).as_nanos();
        Now { wall: wall(SystemTime::now()), boot: Boot(u64::try_from(nanos).unwrap_or(u64::MAX)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_before_1970_says_1970() {
        let day = Duration::from_secs(86_400);
        assert_eq!(wall(SystemTime::UNIX_EPOCH - day * 4000), DateTime::UNIX_EPOCH);
        assert_eq!(wall(SystemTime::UNIX_EPOCH + day).to_rfc3339(), "1970-01-02T00:00:00+00:00");
    }
}
