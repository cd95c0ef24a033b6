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
    /// How it is, as far as the store knows: not whether the table suspends it.
    pub fn condition(&self) -> Condition {
        Condition::of((self.state, self.stale), (self.consecutive_failures, self.last_run()), &self.running)
    }
}

/// How jobs are, in words: `2 failing, 1 missed of 5 jobs`; `None` where nothing is counted.
pub fn trouble(counts: &[(usize, Condition)], all: usize) -> Option<String> {
    let found = counts.iter().filter(|(count, _)| *count > 0);
    let parts: Vec<String> = found.map(|(count, condition)| format!("{count} {}", condition.as_str())).collect();
    (!parts.is_empty()).then(|| format!("{} of {}", parts.join(", "), counted(all, "job")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::JobName;
    use crate::job::ReplicaId;
    use crate::job::RunRecord;
    use crate::job::RunState;
    use crate::job::Tick;

    #[test]
    fn a_job_is_told_by_what_matters_most_and_runs_only_with_a_run_that_is_going() {
        let open = |state| {
            let claimed = RunRecord::claimed(Tick::from_seconds(0), &ReplicaId::new("web", "1"));
            [RunView::of_record(&JobName::new("a").unwrap(), &RunRecord { state, ..claimed })]
        };
        let of = |state: &str, failures, open: &[RunView]| Condition::of((state, false), (failures, None), open);
        assert_eq!(of("active", 0, &open(RunState::Begun)), Condition::Running);
        for state in [RunState::Claimed, RunState::Abandoned, RunState::Lost] {
            assert_eq!(of("active", 0, &open(state)), Condition::Good, "{state:?}");
        }
        assert_eq!(of("paused", 1, &open(RunState::Begun)), Condition::Failing);
        assert_eq!(of("gone", 1, &[]), Condition::Gone);
        assert_eq!(Condition::of(("paused", true), (0, None), &[]), Condition::Stale);
    }

    #[test]
    fn what_is_wrong_is_counted_in_words() {
        let counts = [(2, Condition::Failing), (0, Condition::Missed), (1, Condition::Stale)];
        assert_eq!(trouble(&counts, 5).unwrap(), "2 failing, 1 stale of 5 jobs");
        assert_eq!(trouble(&[(1, Condition::Missed)], 1).unwrap(), "1 missed of 1 job");
        assert_eq!(trouble(&[(0, Condition::Missed)], 1), None);
    }
}
