//! What operators ask of a job through the store: a run by hand, or that none is started.

use super::JobRecord;
use super::ReplicaId;
use super::RunKey;
use super::Tick;
use std::fmt;

/// A run that somebody wants now. It takes the slot of its job like every run, and has no part in what is about the
/// ticks of the schedule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Order {
    /// The run, at an instant of the store's clock.
    pub run: RunKey,
    /// Under which name it is announced: the record's owner until somebody takes the run.
    pub owner: ReplicaId,
    /// Who wants it, in words for people.
    pub by: String,
    /// Two orders with the same key are one; empty: no other is the same.
    pub key: String,
    /// The instant that it runs for, where that is another than now.
    pub runs_for: Option<Tick>,
    /// Also where the job is paused.
    pub despite_pause: bool,
}

/// Nothing of a job is started, for so long as this stands in its record. Its text form has blanks in between, and the
/// reason, which may be empty, is the rest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pause {
    /// Since when: store clock, milliseconds.
    pub at: i64,
    /// Who wants it. Without blanks.
    pub by: String,
    /// Why, in words.
    pub reason: String,
}

impl Pause {
    /// One that is not yet written. What would break its text is replaced.
    pub fn new(by: &str, reason: &str) -> Self {
        let by = by.split_whitespace().collect::<Vec<_>>().join("_");
        let reason = reason.split_whitespace().collect::<Vec<_>>().join(" ");
        Self { at: 0, by, reason }
    }

    /// Whether two tell people the same, since whenever; so do none and none.
    pub fn are_alike(one: Option<&Self>, other: Option<&Self>) -> bool {
        one.map(|pause| (&pause.by, &pause.reason)) == other.map(|pause| (&pause.by, &pause.reason))
    }

    /// Reads what [`fmt::Display`] writes.
    pub fn parse(text: &str) -> Option<Self> {
        let mut words = text.splitn(3, ' ');
        let (at, by) = (words.next()?.parse().ok()?, words.next()?.to_owned());
        Some(Self { at, by, reason: words.next().unwrap_or_default().to_owned() })
    }
}

impl fmt::Display for Pause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { at, by, reason } = self;
        write!(f, "{at} {by} {reason}")
    }
}

impl JobRecord {
    /// Why nothing of the job is started, where that is so.
    pub fn pause(&self) -> Option<&Pause> {
        self.paused.as_ref().or(self.all_paused.as_ref())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_is_read_back() {
        for (by, reason) in [("ada@web", ""), ("a b", "the  database\nmoves")] {
            let pause = Pause { at: 7, ..Pause::new(by, reason) };
            assert_eq!(Pause::parse(&pause.to_string()), Some(pause));
        }
        assert_eq!(Pause::parse("ada"), None);
    }
}
