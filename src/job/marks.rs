//! What a job's record says in more than a word: ticks that were settled together, and that the job was called stale.

use super::JobRecord;
use super::Outcome;
use super::ReplicaId;
use super::RunRecord;
use super::RunState;
use super::Tick;
use std::fmt;

/// Ticks that were settled together, after a long outage. Its text form: first and last tick, outcome, reason, owner,
/// with blanks in between.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Range {
    /// The first tick.
    pub first: Tick,
    /// The last; this one has a record.
    pub last: Tick,
    /// How they ended.
    pub outcome: Outcome,
    /// Why.
    pub reason: String,
    /// Who decided it.
    pub owner: ReplicaId,
}

impl Range {
    /// What a record of one of its ticks would say.
    pub fn record_of(&self, tick: Tick) -> RunRecord {
        let decided = RunRecord::claimed(tick, &self.owner);
        RunRecord { state: RunState::Done, outcome: Some(self.outcome), reason: self.reason.clone(), ..decided }
    }

    pub(super) fn parse(text: &str) -> Option<Self> {
        let mut words = text.split(' ');
        let (first, last) = (Tick::parse(words.next()?)?, Tick::parse(words.next()?)?);
        let (outcome, reason) = (Outcome::parse(words.next()?)?, words.next()?.to_owned());
        let owner = ReplicaId::from_record(words.next()?);
        words.next().is_none().then_some(Self { first, last, outcome, reason, owner })
    }
}

impl fmt::Display for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { first, last, outcome, reason, owner } = self;
        write!(f, "{first} {last} {outcome} {reason} {owner}")
    }
}

/// That a job had no success for so long that somebody is to know: said once, by whoever wrote this. Its text form: the two
/// parts, with a blank in between.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stale {
    /// From when on there was none: see [`JobRecord::fresh_at`].
    pub fresh_at: i64,
    /// Who said it.
    pub by: ReplicaId,
}

impl Stale {
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (fresh_at, by) = text.split_once(' ')?;
        Some(Self { fresh_at: fresh_at.parse().ok()?, by: ReplicaId::from_record(by) })
    }
}

impl fmt::Display for Stale {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.fresh_at, self.by)
    }
}

impl JobRecord {
    /// What `staleAfter` counts from, milliseconds since the epoch: the latest tick that succeeded, or since when the store
    /// knows the job.
    pub fn fresh_at(&self) -> i64 {
        self.last_success.map_or(self.since, Tick::millis)
    }
}
