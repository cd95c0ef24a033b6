//! Whether a success ended a time of trouble: read from the job's history, where each decided tick has its place, so that
//! of several successes at once one is the first.

use crate::engine::RunFacts;
use crate::engine::Trouble;
use crate::job::HistoryEntry;
use crate::job::Outcome;
use crate::job::Tick;
use crate::store::Store;
use crate::telemetry::events::JobRecovered;
use std::time::Duration;

/// So many entries are read; of a longer trouble, more is not known.
const ENTRIES: usize = 200;
/// How often it is tried, the pause in between, and how long one try takes.
const TRIES: u32 = 3;
const PAUSE: Duration = Duration::from_millis(500);
const WITHIN: Duration = Duration::from_secs(5);

/// What a success has ended, where it has ended something. Where the past cannot be read, what is known of it counts.
pub async fn look(store: &dyn Store, facts: &RunFacts, known: Trouble) -> Option<JobRecovered> {
    for n in 1..=TRIES {
        match tokio::time::timeout(WITHIN, store.history(&facts.run.job, ENTRIES)).await {
            Ok(Ok(entries)) => return ended(&entries, &facts.run.scheduled_for.to_string(), known),
            _ if n < TRIES => tokio::time::sleep(PAUSE).await,
            _ => {}
        }
    }
    by_what_is_known(known)
}

fn by_what_is_known(known: Trouble) -> Option<JobRecovered> {
    let Trouble { failures, missed, .. } = known;
    let recovered = JobRecovered { failures: failures.into(), missed, failing_for: Duration::ZERO };
    (known != Trouble::default()).then_some(recovered)
}

/// From entries, newest first.
fn ended(entries: &[HistoryEntry], tick: &str, known: Trouble) -> Option<JobRecovered> {
    // Of a job that keeps few outcomes it may be gone already.
    let Some(at) = entries.iter().position(|entry| entry.scheduled_for == tick) else {
        return by_what_is_known(known);
    };
    let outcome = |entry: &HistoryEntry| Outcome::parse(&entry.outcome);
    let before = entries[at + 1..].iter().take_while(|entry| outcome(entry) != Some(Outcome::Succeeded));
    let mut recovered = JobRecovered { failures: 0, missed: 0, failing_for: Duration::ZERO };
    for entry in before {
        let since = match outcome(entry) {
            Some(outcome) if outcome.is_failure() => {
                recovered.failures += 1;
                entry.ended_at
            }
            Some(Outcome::Missed) => {
                recovered.missed += entry.range_count.max(1);
                missed_at(entry)
            }
            _ => continue,
        };
        let lasted = Duration::from_millis(u64::try_from(entries[at].ended_at - since).unwrap_or(0));
        recovered.failing_for = recovered.failing_for.max(lasted);
    }
    (recovered.failures + recovered.missed > 0 || known.was_stale).then_some(recovered)
}

/// When nobody ran the tick, or the first of them; that it was missed is recorded later.
fn missed_at(entry: &HistoryEntry) -> i64 {
    let first = Tick::parse(&entry.range_first).or_else(|| Tick::parse(&entry.scheduled_for));
    first.map_or(entry.ended_at, Tick::millis)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(second: i64, outcome: &str) -> HistoryEntry {
        let scheduled_for = format!("2026-03-01T02:00:{second:02}Z");
        let range_count = if outcome == "missed" { 3 } else { 0 };
        HistoryEntry {
            scheduled_for,
            outcome: outcome.into(),
            ended_at: 1_772_330_400_000 + second * 1000,
            range_count,
            ..HistoryEntry::default()
        }
    }

    /// Failures, missed ticks and seconds of trouble that the success of second 9 has ended.
    fn found(before: &[(i64, &str)], known: Trouble) -> Option<(u64, u64, u64)> {
        let mut entries = vec![entry(11, "failed"), entry(9, "succeeded")];
        entries.extend(before.iter().map(|(second, outcome)| entry(*second, outcome)));
        ended(&entries, "2026-03-01T02:00:09Z", known)
            .map(|found| (found.failures, found.missed, found.failing_for.as_secs()))
    }

    fn known(failures: u32, was_stale: bool) -> Trouble {
        Trouble { failures, was_stale, missed: 0 }
    }

    #[test]
    fn the_first_success_after_trouble_ends_it_and_a_later_one_does_not() {
        assert_eq!(
            found(&[(8, "failed"), (7, "timed_out"), (6, "succeeded"), (5, "failed")], known(2, false)),
            Some((2, 0, 2))
        );
        assert_eq!(found(&[(8, "succeeded"), (7, "failed")], known(1, false)), None, "another one ended it");
        assert_eq!(
            found(&[(8, "skipped"), (7, "missed"), (6, "cancelled"), (5, "lost")], known(1, false)),
            Some((1, 3, 4))
        );
        assert_eq!(found(&[(8, "skipped"), (7, "cancelled")], known(0, false)), None);
        assert_eq!(found(&[(8, "skipped")], known(0, true)), Some((0, 0, 0)), "it was called stale");
    }

    #[test]
    fn what_the_history_does_not_tell_is_told_by_what_was_known() {
        let told = |known| ended(&[entry(8, "failed")], "2026-03-01T02:00:09Z", known).map(|found| found.failures);
        assert_eq!((told(known(2, false)), told(known(0, true)), told(known(0, false))), (Some(2), Some(0), None));
    }
}
