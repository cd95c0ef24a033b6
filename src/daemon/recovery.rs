//! Whether a success ended a time of trouble: read from the job's history, where each decided tick has its place, so that
//! of several successes at once one is the first. What the history does not reach back to is known from the job's record.

use crate::engine::RunFacts;
use crate::engine::Trouble;
use crate::job::HistoryEntry;
use crate::job::JobSpec;
use crate::job::Outcome;
use crate::job::Tick;
use crate::store::Store;
use crate::telemetry::events::JobRecovered;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio::sync::watch;
use tokio::task::JoinError;
use tokio::task::JoinSet;
use tokio::time::timeout;

/// So many entries are read; of a longer trouble, more is not known.
const ENTRIES: usize = 200;
/// How often it is tried, the pause in between, and how long one try takes.
const TRIES: u32 = 3;
const PAUSE: Duration = Duration::from_millis(500);
const WITHIN: Duration = Duration::from_secs(5);
/// So many histories are read at once. A store that is back after a while has more to do.
const AT_ONCE: usize = 4;
/// So many may be waiting for that; of more, only what is known counts.
const WAITING_MOST: usize = 1000;
/// How long one waits, and is read, before what is known counts.
const ALL_WITHIN: Duration = Duration::from_secs(30);
/// And how long at most when the daemon ends.
const FINISH_WITHIN: Duration = Duration::from_secs(2);

/// A success that ended a time of trouble.
#[derive(Debug)]
pub struct Found {
    pub facts: RunFacts,
    /// Its job as it was then, if it was in a table.
    pub spec: Option<Arc<JobSpec>>,
    pub recovered: JobRecovered,
}

/// Looks into the past of jobs that have succeeded, and what they find.
pub struct LookBacks {
    places: Arc<Semaphore>,
    /// `true`: there is no time any more.
    hurry: watch::Sender<bool>,
    going: JoinSet<Option<Found>>,
}

impl LookBacks {
    /// None yet.
    pub fn new() -> Self {
        Self { places: Arc::new(Semaphore::new(AT_ONCE)), hurry: watch::Sender::new(false), going: JoinSet::new() }
    }

    /// Has the past of a run's job looked at. Never waits. To be called inside a tokio runtime.
    pub fn begin(&mut self, store: Arc<dyn Store>, (facts, spec): (RunFacts, Option<Arc<JobSpec>>), known: Trouble) {
        let (places, mut hurry) = (Arc::clone(&self.places), self.hurry.subscribe());
        let is_crowded = self.going.len() >= WAITING_MOST;
        self.going.spawn(async move {
            let asked = async {
                if is_crowded {
                    return None;
                }
                // It is never closed.
                let _place = places.acquire().await.ok()?;
                look(&*store, &facts).await
            };
            let past = tokio::select! {
                biased; // else those that wait for a place would ask when others leave theirs
                _ = hurry.wait_for(|is_over| *is_over) => None,
                past = timeout(ALL_WITHIN, asked) => past.ok().flatten(),
            };
            let recovered = match past {
                Some(entries) => ended(&entries, &facts.run.scheduled_for.to_string(), known),
                None => by_what_is_known(known),
            };
            recovered.map(|recovered| Found { facts, spec, recovered })
        });
    }

    /// What the next one that is over has found; `None`: none is going.
    ///
    /// Cancel safety: nothing is lost.
    pub async fn next(&mut self) -> Option<Result<Option<Found>, JoinError>> {
        self.going.join_next().await
    }

    /// Waits, not for long and not after `hurried`, for those that are going. Of those that are not over then, what is
    /// known counts.
    pub async fn finish(&mut self, hurried: impl Future<Output = ()>) -> Vec<Found> {
        let mut found = Vec::new();
        tokio::select! {
            _ = timeout(FINISH_WITHIN, self.drain_into(&mut found)) => {}
            () = hurried => {}
        }
        self.hurry.send_replace(true);
        self.drain_into(&mut found).await;
        found
    }

    async fn drain_into(&mut self, found: &mut Vec<Found>) {
        while let Some(ended) = self.going.join_next().await {
            // A panic of one that nobody waits for any more is on standard error.
            found.extend(ended.ok().flatten());
        }
    }
}

/// What is known of a run's job, newest first, if the store tells it.
async fn look(store: &dyn Store, facts: &RunFacts) -> Option<Vec<HistoryEntry>> {
    for n in 1..=TRIES {
        match timeout(WITHIN, store.history(&facts.run.job, ENTRIES)).await {
            Ok(Ok(entries)) => return Some(entries),
            _ if n < TRIES => tokio::time::sleep(PAUSE).await,
            _ => {}
        }
    }
    None
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
    let past = &entries[at + 1..];
    let last_success = past.iter().position(|entry| outcome(entry) == Some(Outcome::Succeeded));
    let mut recovered = JobRecovered { failures: 0, missed: 0, failing_for: Duration::ZERO };
    for entry in &past[..last_success.unwrap_or(past.len())] {
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
    let Some(last_success) = last_success.map(|at| &past[at]) else {
        // Where it began is not there any more: at least what was counted when it was.
        recovered.failures = recovered.failures.max(known.failures.into());
        recovered.missed = recovered.missed.max(known.missed);
        return (recovered.failures + recovered.missed > 0 || known.stale_since.is_some() || known.was_lost)
            .then_some(recovered);
    };
    let was_stale = known.stale_since.is_some_and(|since| !is_after(last_success, since));
    (recovered.failures + recovered.missed > 0 || was_stale || known.was_lost).then_some(recovered)
}

/// Whether a success was that of a tick after the instant: then it has ended what was since then. One that was ordered may
/// have been told to run for another instant than its own, so that it says nothing.
fn is_after(success: &HistoryEntry, since: i64) -> bool {
    Tick::parse(&success.scheduled_for).is_some_and(|tick| !tick.is_manual() && tick.millis() > since)
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

    fn failed(failures: u32) -> Trouble {
        Trouble { failures, ..Trouble::default() }
    }

    /// Called stale, since the tick of that second was the last success.
    fn stale(since: i64) -> Trouble {
        Trouble { stale_since: Some(1_772_330_400_000 + since * 1000), ..Trouble::default() }
    }

    #[test]
    fn the_first_success_after_trouble_ends_it_and_a_later_one_does_not() {
        assert_eq!(
            found(&[(8, "failed"), (7, "timed_out"), (6, "succeeded"), (5, "failed")], failed(2)),
            Some((2, 0, 2))
        );
        assert_eq!(found(&[(8, "succeeded"), (7, "failed")], failed(1)), None, "another one ended it");
        let mixed = [(8, "skipped"), (7, "missed"), (6, "cancelled"), (5, "lost"), (4, "succeeded")];
        assert_eq!(found(&mixed, failed(1)), Some((1, 3, 4)));
        assert_eq!(found(&[(8, "skipped"), (7, "cancelled")], failed(0)), None);
    }

    #[test]
    fn what_the_history_does_not_reach_back_to_is_told_by_the_counts_of_the_record() {
        assert_eq!(found(&[], failed(250)), Some((250, 0, 0)));
        assert_eq!(found(&[(8, "failed"), (7, "skipped")], failed(250)), Some((250, 0, 1)));
        assert_eq!(found(&[(8, "missed")], Trouble { missed: 9, ..failed(250) }), Some((250, 9, 1)));
        assert_eq!(found(&[(8, "failed"), (7, "failed")], failed(1)), Some((2, 0, 2)), "one more than was known here");
        let told = |known| ended(&[entry(8, "failed")], "2026-03-01T02:00:09Z", known).map(|found| found.failures);
        assert_eq!((told(failed(2)), told(stale(0)), told(failed(0))), (Some(2), Some(0), None));
    }

    /// Its incident is closed by the success of the very run that was lost, whatever went before.
    #[test]
    fn a_run_that_succeeds_after_one_of_its_starts_was_lost_ends_that() {
        let lost = Trouble { was_lost: true, ..Trouble::default() };
        assert_eq!(found(&[], lost), Some((0, 0, 0)));
        assert_eq!(found(&[(8, "succeeded")], lost), Some((0, 0, 0)));
        assert_eq!(found(&[(8, "failed"), (7, "succeeded")], lost), Some((1, 0, 1)));
        assert_eq!(found(&[(8, "succeeded")], Trouble::default()), None);
    }

    #[test]
    fn a_job_that_was_called_stale_is_well_again_by_its_first_success_only() {
        assert_eq!(found(&[(8, "skipped")], stale(0)), Some((0, 0, 0)));
        assert_eq!(found(&[(8, "skipped"), (5, "succeeded")], stale(5)), Some((0, 0, 0)), "that was the last one");
        assert_eq!(found(&[(8, "skipped"), (7, "succeeded")], stale(5)), None, "another one ended that");
        let ordered =
            HistoryEntry { scheduled_for: "2026-03-01T02:00:08.123Z+manual-7f3a".into(), ..entry(8, "succeeded") };
        let entries = [entry(9, "succeeded"), ordered];
        assert!(ended(&entries, "2026-03-01T02:00:09Z", stale(5)).is_some(), "it may have run for an earlier instant");
    }
}
