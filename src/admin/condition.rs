//! How a job is, in one word: the same in commands and on the page.

use super::JobView;
use super::RunView;
use crate::plural::counted;

/// How a job is, from what matters most.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Condition {
    /// Its last run failed.
    Failing,
    /// Its last tick was run by nobody.
    Missed,
    /// No success for too long.
    Stale,
    /// Somebody paused it.
    Paused,
    /// In order, with a run that is going.
    Running,
    /// In order.
    Good,
    /// The table suspends it.
    Suspended,
    /// No table has it any more.
    Gone,
}

impl Condition {
    /// All, from what matters most.
    pub const ALL: [Self; 8] = [
        Self::Failing,
        Self::Missed,
        Self::Stale,
        Self::Paused,
        Self::Running,
        Self::Good,
        Self::Suspended,
        Self::Gone,
    ];

    /// The word for people and links.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Failing => "failing",
            Self::Missed => "missed",
            Self::Stale => "stale",
            Self::Paused => "paused",
            Self::Running => "running",
            Self::Good => "good",
            Self::Suspended => "suspended",
            Self::Gone => "gone",
        }
    }

    /// Of a job in a state, with its failures in a row, its newest decided tick and its open runs.
    pub fn of((state, stale): (&str, bool), (failures, last): (u32, Option<&RunView>), open: &[RunView]) -> Self {
        let last = |is: fn(&RunView) -> bool| last.is_some_and(is);
        match state {
            "gone" => Self::Gone,
            "suspended" => Self::Suspended,
            _ if failures > 0 || last(RunView::is_failure) => Self::Failing,
            _ if last(RunView::is_missed) => Self::Missed,
            _ if stale => Self::Stale,
            "paused" => Self::Paused,
            _ if open.iter().any(RunView::is_going) => Self::Running,
            _ => Self::Good,
        }
    }
}

impl JobView {
    /// How it is, as far as the store knows: not whether the table suspends it, nor whether it is stale.
    pub fn condition(&self) -> Condition {
        Condition::of((self.state, false), (self.consecutive_failures, self.last_run()), &self.running)
    }
}

/// How jobs are, in words: `2 failing, 1 missed of 5 jobs`; `None` where nothing is counted.
pub fn trouble(counts: &[(usize, Condition)], all: usize) -> Option<String> {
    let found = counts.iter().filter(|(count, _)| *count > 0);
    let parts: Vec<String> = found.map(|(count, condition)| format!("{count} {}", condition.as_str())).collect();
    (!parts.is_empty()).then(|| format!("{} of {}", parts.join(", "), counted(all, "job")))
}
