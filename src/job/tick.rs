//! Instants that schedules name, and the identity of a run.

use super::JobName;
use chrono::DateTime;
use chrono::SecondsFormat;
use chrono::Utc;
use std::fmt;

/// One instant that a schedule names: whole seconds since the Unix epoch, UTC. Never "now".
///
/// Or the place of a manual run among those, which no schedule named: the instant at which somebody ordered it, in
/// milliseconds, with a number that tells two of one instant apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tick(i64, Kind);

/// In the order in which their texts sort: stores compare those.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Kind {
    /// Milliseconds of the second, and the number.
    Manual(u16, u16),
    Scheduled,
}

/// What the text of a manual one has after its instant.
const MANUAL: &str = "+manual-";

impl Tick {
    /// The tick at so many seconds since the Unix epoch.
    pub const fn from_seconds(seconds: i64) -> Self {
        Self(seconds, Kind::Scheduled)
    }

    /// The tick of an instant that a schedule named. A fraction of a second is cut off.
    pub fn from_datetime(instant: DateTime<Utc>) -> Self {
        Self::from_seconds(instant.timestamp())
    }

    /// The place of a run that was ordered by hand at an instant, in milliseconds since the Unix epoch.
    pub fn manual(millis: i64, number: u16) -> Self {
        let of_second = u16::try_from(millis.rem_euclid(1000)).unwrap_or(0);
        Self(millis.div_euclid(1000), Kind::Manual(of_second, number))
    }

    /// Whether somebody ordered it by hand: then no schedule names it, and it takes part in nothing that is about the
    /// ticks of a schedule.
    pub const fn is_manual(self) -> bool {
        matches!(self.1, Kind::Manual(..))
    }

    /// The tick at the same second.
    pub const fn second(self) -> Self {
        Self::from_seconds(self.0)
    }

    /// The instant as text, RFC 3339 in UTC.
    pub fn instant(self) -> String {
        let mut text = self.to_string();
        text.truncate(text.find(MANUAL).unwrap_or(text.len()));
        text
    }

    /// Seconds since the Unix epoch.
    pub const fn seconds(self) -> i64 {
        self.0
    }

    /// Milliseconds since the Unix epoch.
    pub const fn millis(self) -> i64 {
        let of_second = if let Kind::Manual(millis, _) = self.1 { millis } else { 0 };
        self.0 * 1000 + of_second as i64
    }

    /// The instant, to the second. Ticks outside what chrono can show become the epoch; no schedule names such a one.
    pub fn to_datetime(self) -> DateTime<Utc> {
        DateTime::from_timestamp(self.0, 0).unwrap_or(DateTime::UNIX_EPOCH)
    }

    /// Reads what [`fmt::Display`] writes.
    pub fn parse(text: &str) -> Option<Self> {
        let Some((instant, number)) = text.split_once(MANUAL) else {
            return DateTime::parse_from_rfc3339(text).ok().map(|instant| Self::from_seconds(instant.timestamp()));
        };
        let instant = DateTime::parse_from_rfc3339(instant).ok()?;
        let read = Self::manual(instant.timestamp_millis(), u16::from_str_radix(number, 16).ok()?);
        (read.to_string() == text).then_some(read)
    }
}

/// RFC 3339 in UTC with whole seconds: `2026-03-01T02:00:00Z`; of a manual run `2026-03-01T02:00:07.123Z+manual-7f3a`.
impl fmt::Display for Tick {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let second = self.to_datetime().to_rfc3339_opts(SecondsFormat::Secs, true);
        match self.1 {
            Kind::Scheduled => f.write_str(&second),
            Kind::Manual(millis, number) => {
                write!(f, "{}.{millis:03}Z{MANUAL}{number:04x}", second.trim_end_matches('Z'))
            }
        }
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

/// The run id as users see it: `nightly-sales@2026-03-01T02:00:00Z`, `nightly-sales@2026-03-01T02:00:07.123Z+manual-7f3a`.
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

/// The least token of a manual run that begins when the tick at these seconds was the latest to begin: greater than all
/// tokens of that one, which never have bit 19, and lower than those of every later tick.
pub fn manual_token(seconds: i64) -> u64 {
    (u64::try_from(seconds).unwrap_or(0) << 20) | (1 << 19) | 1
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
    fn a_manual_token_lies_between_those_of_the_tick_before_and_the_one_after() {
        let (seconds, most) = (1_772_330_400, u32::MAX);
        assert!(manual_token(seconds) > fencing_token(Tick::from_seconds(seconds), most));
        assert!(manual_token(seconds) < fencing_token(Tick::from_seconds(seconds + 1), 1));
    }

    #[test]
    fn a_run_id_is_read_back_and_no_other_text_is_one() {
        let name = JobName::new("a").unwrap();
        for tick in [Tick::from_seconds(1_772_330_400), Tick::manual(1_772_330_400_007, 0x7f)] {
            let run = RunKey::new(name.clone(), tick);
            assert_eq!(RunKey::parse(&run.to_string()), Some(run));
        }
        for other in [
            "a@2026-03-01T02:00:00Z+manual-7f3a",
            "a@2026-03-01T02:00:00.007Z+manual-7F3A",
            "a@2026-03-01T02:00:00.007Z+manual-3a",
            "a@2026-03-01T02:00:00.007Z+manual-",
            "a@2026-03-01T03:00:00.007+01:00+manual-7f3a",
            "a",
            "A@2026-03-01T02:00:00Z",
            "a@2026-03-01T02:00:00.123Z",
            "a@2026-03-01T03:00:00+01:00",
            "@",
        ] {
            assert_eq!(RunKey::parse(other), None, "{other}");
        }
    }

    #[test]
    fn manual_runs_have_their_place_among_ticks_and_texts_sort_alike() {
        let at = |millis: i64| Tick::manual(1_772_330_400_000 + millis, 0x7f3a);
        assert_eq!(at(7).to_string(), "2026-03-01T02:00:00.007Z+manual-7f3a");
        assert_eq!((at(1007).seconds(), at(1007).millis()), (1_772_330_401, 1_772_330_401_007));
        let second = Tick::from_seconds(1_772_330_400);
        let sorted = [at(-1), at(7), Tick::manual(1_772_330_400_007, 0x7f3b), second, at(1000)];
        assert!(sorted.is_sorted() && sorted.map(|tick| tick.to_string()).is_sorted());
        assert!(at(7).is_manual() && !second.is_manual());
        assert_eq!(at(7).second(), second);
    }

    #[test]
    fn a_tick_is_written_in_utc_and_read_back() {
        let tick = Tick::from_seconds(1_772_330_400);
        assert_eq!(tick.to_string(), "2026-03-01T02:00:00Z");
        assert_eq!(Tick::parse(&tick.to_string()), Some(tick));
    }
}
