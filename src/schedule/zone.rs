//! A time zone: its name, and every shift of its clocks.

use super::dst::HORIZON;
use super::zone_data;
use super::zone_error::ZoneError;
use chrono::DateTime;
use chrono::FixedOffset;
use chrono::Utc;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use std::fmt;
use std::sync::Arc;

/// A zone of the IANA database. Cheap to clone. Two are equal if their names are: within one process a name has one
/// set of data.
#[derive(Clone)]
pub struct Zone(Arc<Inner>);

struct Inner {
    name: String,
    /// First second of each stretch with one offset; the first of all is `i64::MIN`.
    starts: Vec<i64>,
    /// Seconds east of UTC.
    offsets: Vec<i32>,
}

/// A stretch of time with one offset from UTC. Seconds since the epoch.
#[derive(Debug, Clone, Copy)]
pub(super) struct Stretch {
    /// First second; `None`: the beginning of time.
    pub start: Option<i64>,
    /// First second after it; `None`: as far as zones are known.
    pub end: Option<i64>,
    /// Seconds east of UTC.
    pub offset: i64,
}

impl Zone {
    /// The zone with this IANA name, old names and any case included. The data is read once and kept.
    ///
    /// # Errors
    /// Names that the database does not have; offsets, because they know no daylight saving; and names for the host's
    /// own zone, because replicas differ in it.
    pub fn find(name: &str) -> Result<Self, ZoneError> {
        zone_data::find(name)
    }

    /// UTC.
    pub fn utc() -> Self {
        Self(Arc::new(Inner { name: "UTC".into(), starts: vec![i64::MIN], offsets: vec![0] }))
    }

    /// The name in the database's own spelling; an old name stays what it is.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// The offset from UTC at an instant, for showing it as people of the zone read it.
    pub fn offset_at(&self, instant: DateTime<Utc>) -> FixedOffset {
        let offset = self.0.offsets[self.index_at(instant.timestamp())];
        FixedOffset::east_opt(offset).expect("`new` takes no offset of a day or more")
    }

    /// All shifts up to the horizon, copied out of `jiff`: a search in a small array, whatever the source of the data.
    /// `None`: an offset is a day or more, so this file describes no place on Earth.
    pub(super) fn new(name: &str, data: &TimeZone) -> Option<Self> {
        let mut starts = vec![i64::MIN];
        let mut offsets = vec![data.to_offset(Timestamp::MIN).seconds()];
        for transition in data.following(Timestamp::MIN) {
            let start = transition.timestamp().as_second();
            if start >= HORIZON + 86_400 {
                break;
            }
            let offset = transition.offset().seconds();
            if offsets.last() != Some(&offset) {
                starts.push(start);
                offsets.push(offset);
            }
        }
        let possible = offsets.iter().all(|offset| FixedOffset::east_opt(*offset).is_some());
        possible.then(|| Self(Arc::new(Inner { name: name.into(), starts, offsets })))
    }

    pub(super) fn stretch_at(&self, instant: i64) -> Stretch {
        let index = self.index_at(instant);
        Stretch {
            start: (index > 0).then(|| self.0.starts[index]),
            end: self.0.starts.get(index + 1).copied(),
            offset: self.0.offsets[index].into(),
        }
    }

    fn index_at(&self, instant: i64) -> usize {
        self.0.starts.partition_point(|start| *start <= instant).saturating_sub(1)
    }
}

impl PartialEq for Zone {
    fn eq(&self, other: &Self) -> bool {
        self.0.name == other.0.name
    }
}

impl Eq for Zone {}

impl fmt::Debug for Zone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Zone({})", self.0.name)
    }
}
