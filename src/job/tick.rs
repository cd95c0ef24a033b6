//! Instants that schedules name, and the identity of a run.

use super::JobName;
use chrono::DateTime;
use chrono::SecondsFormat;
use chrono::Utc;
use std::fmt;

/// One instant that a schedule names: whole seconds since the Unix epoch, UTC. Never "now".
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tick(i64);

impl Tick {
    /// The tick at so many seconds since the Unix epoch.
    pub const fn from_seconds(seconds: i64) -> Self {
        Self(seconds)
    }

    /// The tick of an instant that a schedule named. A fraction of a second is cut off.
    pub fn from_datetime(instant: DateTime<Utc>) -> Self {
        Self(instant.timestamp())
    }

    /// Seconds since the Unix epoch.
    pub const fn seconds(self) -> i64 {
        self.0
    }

    /// Milliseconds since the Unix epoch.
    pub const fn millis(self) -> i64 {
        self.0 * 1000
    }

    /// The instant. Ticks outside what chrono can show become the epoch; no schedule names such a one.
    pub fn to_datetime(self) -> DateTime<Utc> {
        DateTime::from_timestamp(self.0, 0).unwrap_or(DateTime::UNIX_EPOCH)
    }

    /// Reads what [`fmt::Display`] writes.
    pub fn parse(text: &str) -> Option<Self> {
        DateTime::parse_from_rfc3339(text).ok().map(|instant| Self(instant.timestamp()))
    }
}

/// RFC 3339 in UTC with whole seconds: `2026-03-01T02:00:00Z`.
impl fmt::Display for Tick {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.to_datetime().to_rfc3339_opts(SecondsFormat::Secs, true))
    }
}

/// The identity of a run: job and tick. Equal on all replicas, and never made from the time of the claim:
/// locks keyed by "now" ran ticks twice under load (sidekiq-scheduler #181).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RunKey {
    /// The job.
    pub job: JobName,
    /// The instant that the schedule named.
    pub scheduled_for: Tick,
}

impl RunKey {
    /// The run of a job's tick.
    pub fn new(job: JobName, scheduled_for: Tick) -> Self {
        Self { job, scheduled_for }
    }

    /// Reads what [`fmt::Display`] writes, and nothing that it would write otherwise.
    pub fn parse(text: &str) -> Option<Self> {
        let (job, tick) = text.split_once('@')?;
        let run = Self::new(JobName::new(job).ok()?, Tick::parse(tick)?);
        (run.to_string() == text).then_some(run)
    }
}

/// The run id as users see it: `nightly-sales@2026-03-01T02:00:00Z`.
impl fmt::Display for RunKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.job, self.scheduled_for)
    }
}

/// The number a job hands to the resource it writes to: `(scheduled_for seconds << 20) | start`. It grows within a
/// run (retry, rerun) and from tick to tick; a second execution of a start that the store forgot carries an equal
/// one, so a resource that demands a greater one refuses it.
pub fn fencing_token(scheduled_for: Tick, start: u32) -> u64 {
    let seconds = u64::try_from(scheduled_for.seconds()).unwrap_or(0);
    (seconds << 20) | u64::from(start & 0x7_ffff)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_grow_with_each_start_and_each_tick() {
        let tick = Tick::from_seconds(1_772_330_400);
        assert_eq!(fencing_token(tick, 1), (1_772_330_400 << 20) | 1);
        assert!(fencing_token(tick, 2) > fencing_token(tick, 1));
        assert!(fencing_token(Tick::from_seconds(1_772_330_401), 1) > fencing_token(tick, 3));
    }

    #[test]
    fn a_run_id_is_read_back_and_no_other_text_is_one() {
        let run = RunKey::new(JobName::new("a").unwrap(), Tick::from_seconds(1_772_330_400));
        assert_eq!(RunKey::parse(&run.to_string()), Some(run));
        for other in ["a", "A@2026-03-01T02:00:00Z", "a@2026-03-01T02:00:00.123Z", "a@2026-03-01T03:00:00+01:00", "@"] {
            assert_eq!(RunKey::parse(other), None, "{other}");
        }
    }

    #[test]
    fn a_tick_is_written_in_utc_and_read_back() {
        let tick = Tick::from_seconds(1_772_330_400);
        assert_eq!(tick.to_string(), "2026-03-01T02:00:00Z");
        assert_eq!(Tick::parse(&tick.to_string()), Some(tick));
    }
}
