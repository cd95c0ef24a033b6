//! What the fleet's store knows of the jobs of the table, for metrics: read now and then beside the loop, by every replica,
//! so that "last success" outlives each of them. Nothing depends on it.
//!
//! Bounded work: one request at a time; two of them each round, and the histories of jobs whose records have changed
//! since, [`HISTORIES_MOST`] at most. [`admin::fleet`](crate::admin::fleet) would read all histories, with the output that
//! is kept there, each time.

use crate::chance;
use crate::clock::Clock;
use crate::job::HistoryEntry;
use crate::job::JobName;
use crate::job::JobRecord;
use crate::job::JobSpec;
use crate::job::Outcome;
use crate::job::Tick;
use crate::store::Error;
use crate::store::Store;
use crate::telemetry::metrics::JobFacts;
use crate::telemetry::metrics::Metrics;
use chrono::DateTime;
use chrono::TimeDelta;
use chrono::Utc;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// Between two rounds; a tenth more or less, so that replicas do not read in step.
const EVERY: Duration = Duration::from_secs(15);
/// Before the first one: jobs are being registered.
const FIRST: Duration = Duration::from_secs(3);
/// How long a round may take.
const ROUND_WITHIN: Duration = Duration::from_secs(10);
/// So many histories are read in a round; those that wait longest come first.
const HISTORIES_MOST: usize = 100;
/// So many entries of a history when it is read first: as many as it has by default.
const ENTRIES_FIRST: usize = 200;
/// And later: what was decided since.
const ENTRIES_LATER: usize = 32;
/// Beyond this an instant in seconds is none (the year 9999).
const INSTANT_MOST: i64 = 253_402_300_799;

/// What a history told. It keeps what newer entries do not tell.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Past {
    newest: Option<i64>,
    success: Option<f64>,
    failure: Option<f64>,
    duration: Option<f64>,
    exit_code: Option<f64>,
}

/// The latest tick that was due by a definition, and the one after.
#[derive(Debug)]
struct Due {
    spec: Arc<JobSpec>,
    last: Option<DateTime<Utc>>,
    next: Option<DateTime<Utc>>,
}

/// A job of the table.
#[derive(Debug, Default)]
struct Known {
    /// Revision of the record when its history was read.
    read: Option<u64>,
    /// The round in which that was.
    round: u64,
    past: Past,
    due: Option<Due>,
}

/// See the module.
pub struct FleetWatch {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    metrics: Arc<Metrics>,
    known: BTreeMap<JobName, Known>,
    round: u64,
}

impl FleetWatch {
    /// For a store.
    pub fn new(store: Arc<dyn Store>, clock: Arc<dyn Clock>, metrics: Arc<Metrics>) -> Self {
        Self { store, clock, metrics, known: BTreeMap::new(), round: 0 }
    }

    /// Reads again and again. Never ends.
    pub async fn keep(mut self) {
        let mut wait = FIRST;
        loop {
            tokio::time::sleep(wait).await;
            wait = chance::around(EVERY, 0.1);
            // A store that is away is said elsewhere; what was known stays.
            let _ = tokio::time::timeout(ROUND_WITHIN, self.read()).await;
        }
    }

    /// One round. Cancel safety: what was read before it was dropped is kept, and not shown before the next round.
    pub(super) async fn read(&mut self) -> Result<(), Error> {
        self.round += 1;
        let specs = self.metrics.specs();
        let gathering = self.store.meet(None, &[]).await?;
        let records: BTreeMap<JobName, JobRecord> = self.store.jobs().await?.into_iter().collect();
        // They are in the order of their names.
        let is_in_table = |job: &JobName| specs.binary_search_by(|spec| spec.name.cmp(job)).is_ok();
        self.known.retain(|job, _| records.contains_key(job) && is_in_table(job));
        self.read_histories(&specs, &records).await?;
        let now = self.clock.now().wall;
        let mut all = BTreeMap::new();
        for spec in &specs {
            let Some(record) = records.get(&spec.name) else { continue };
            let known = self.known.entry(spec.name.clone()).or_default();
            all.insert(spec.name.clone(), facts(record, known.past, known.last_due(spec, now)));
            // The loop has this thread, too: what is due does not wait for thousands of schedules.
            tokio::task::yield_now().await;
        }
        self.metrics.fleet(gathering.replicas().count(), &all);
        Ok(())
    }

    async fn read_histories(
        &mut self,
        specs: &[Arc<JobSpec>],
        records: &BTreeMap<JobName, JobRecord>,
    ) -> Result<(), Error> {
        let Self { store, known, round, .. } = self;
        let changed = specs.iter().filter_map(|spec| {
            let revision = records.get(&spec.name)?.revision;
            let known = known.get(&spec.name);
            let waits_since = known.map_or(0, |known| known.round);
            (known.and_then(|known| known.read) != Some(revision)).then_some((waits_since, &spec.name, revision))
        });
        let mut changed: Vec<_> = changed.collect();
        changed.sort_unstable();
        for (_, job, revision) in changed.into_iter().take(HISTORIES_MOST) {
            let is_first = known.get(job).is_none_or(|known| known.read.is_none());
            let most = if is_first { ENTRIES_FIRST } else { ENTRIES_LATER };
            let entries = store.history(job, most).await?;
            let known = known.entry(job.clone()).or_default();
            known.past = known.past.with(&entries);
            known.read = Some(revision);
            known.round = *round;
        }
        Ok(())
    }
}

fn seconds(millis: i64) -> f64 {
    millis as f64 / 1000.0
}

impl Past {
    /// With the newest entries, newest first.
    fn with(self, entries: &[HistoryEntry]) -> Self {
        let outcome = |entry: &&HistoryEntry| Outcome::parse(&entry.outcome);
        let ended = |entry: &HistoryEntry| seconds(entry.ended_at);
        let newest_end = |is: &dyn Fn(Outcome) -> bool| {
            entries.iter().filter(|entry| outcome(entry).is_some_and(is)).map(ended).reduce(f64::max)
        };
        // A lost run has no end that anybody measured.
        let is_measured = |entry: &&HistoryEntry| entry.start > 0 && outcome(entry) != Some(Outcome::Lost);
        let finished = entries.iter().filter(is_measured).max_by_key(|entry| entry.ended_at);
        let ticks = entries.iter().filter_map(|entry| Tick::parse(&entry.scheduled_for));
        Self {
            newest: ticks.filter(|tick| !tick.is_manual()).map(Tick::seconds).max().max(self.newest),
            success: newest_end(&|outcome| outcome == Outcome::Succeeded).or(self.success),
            failure: newest_end(&Outcome::is_failure).or(self.failure),
            duration: finished.map(|entry| entry.duration_ms as f64 / 1000.0).or(self.duration),
            exit_code: finished.map_or(self.exit_code, |entry| entry.exit_code.parse().ok()),
        }
    }
}

impl Known {
    /// The latest tick whose run was due at `now` for sure: the jitter is over.
    fn last_due(&mut self, spec: &Arc<JobSpec>, now: DateTime<Utc>) -> Option<i64> {
        if spec.suspend {
            return None;
        }
        let now = now - TimeDelta::from_std(spec.jitter).unwrap_or_default();
        let is_current = |due: &Due| {
            Arc::ptr_eq(&due.spec, spec) && due.next.is_some_and(|next| next > now) && due.last <= Some(now)
        };
        if !self.due.as_ref().is_some_and(is_current) {
            let (last, next) = (spec.schedule.latest(now), spec.schedule.after(now));
            self.due = Some(Due { spec: Arc::clone(spec), last, next });
        }
        self.due.as_ref()?.last.map(|last| last.timestamp())
    }
}

/// What is shown of a job.
fn facts(record: &JobRecord, past: Past, last_due: Option<i64>) -> JobFacts {
    let is_paused = record.pause().is_some();
    let claimed = record.open.iter().filter(|tick| !tick.is_manual()).map(|tick| tick.seconds());
    let decided = Some(record.decided_through).filter(|at| (1..INSTANT_MOST).contains(at));
    // Ticks before the job's history, or of a schedule that it did not have yet, are nobody's.
    let nobodys = (record.since / 1000).max(record.former.last().map_or(0, |former| former.until));
    let nobodys = last_due.filter(|tick| *tick <= nobodys);
    let last_claimed = claimed.chain(decided).chain(past.newest).chain(nobodys).max();
    let success = record.last_success.map(|tick| seconds(tick.millis()));
    JobFacts {
        first_seen: Some(seconds(record.since)).filter(|at| *at > 0.0),
        last_due: last_due.filter(|_| !is_paused).map(|at| at as f64),
        last_claimed: last_claimed.map(|at| at as f64),
        // The record knows the tick, and knows it first; the history the end.
        last_success: success.into_iter().chain(past.success).reduce(f64::max),
        last_failure: past.failure,
        last_duration: past.duration,
        last_exit_code: past.exit_code,
        consecutive_failures: Some(f64::from(record.failures)),
        is_paused,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config;
    use crate::config::Source;
    use crate::job::Former;
    use crate::job::Pause;

    fn spec(job: &str) -> Arc<JobSpec> {
        let text = format!("jobs:\n  - {{name: a, command: 'true', {job}}}\n");
        let loaded = config::load(&[Source::new("jobs.yaml", text.into_bytes())], DateTime::default());
        Arc::clone(&loaded.unwrap().table.jobs[0])
    }

    fn at(text: &str) -> DateTime<Utc> {
        text.parse().unwrap()
    }

    fn due(job: &str, now: &str) -> Option<i64> {
        Known::default().last_due(&spec(job), at(now))
    }

    fn entry(outcome: &str, ended_at: i64, exit_code: &str) -> HistoryEntry {
        let text = format!(
            r#"{{"scheduled_for":"1970-01-01T00:00:{ended_at:02}Z","outcome":"{outcome}","owner":"one","start":1,
                "ended_at":{ended_at}000,"duration_ms":500,"exit_code":"{exit_code}"}}"#
        );
        serde_json::from_str(&text).unwrap()
    }

    /// A job that has nothing but what every one has.
    fn record() -> JobRecord {
        JobRecord::from_fields(&[("format", "1")][..]).unwrap()
    }

    #[test]
    fn a_tick_is_due_when_its_jitter_is_over_and_not_at_all_while_the_job_is_suspended() {
        let jittered = "schedule: '0 * * * *', jitter: 10m";
        let (ten, nine) = (at("2026-03-01T10:00:00Z").timestamp(), at("2026-03-01T09:00:00Z").timestamp());
        assert_eq!(due(jittered, "2026-03-01T10:10:00Z"), Some(ten));
        assert_eq!(due(jittered, "2026-03-01T10:09:59Z"), Some(nine));
        assert_eq!(due("schedule: '0 * * * *', suspend: true", "2026-03-01T10:10:00Z"), None);
    }

    #[test]
    fn what_was_found_holds_until_the_next_tick_another_definition_or_a_clock_that_is_put_back() {
        let mut known = Known::default();
        let (hourly, daily) = (spec("schedule: '0 * * * *'"), spec("schedule: '0 0 * * *'"));
        let mut last = |spec, now| known.last_due(spec, at(now)).and_then(|at| DateTime::from_timestamp(at, 0));
        assert_eq!(last(&hourly, "2026-03-01T10:30:00Z"), Some(at("2026-03-01T10:00:00Z")));
        assert_eq!(last(&hourly, "2026-03-01T11:00:00Z"), Some(at("2026-03-01T11:00:00Z")));
        assert_eq!(last(&hourly, "2026-03-01T09:30:00Z"), Some(at("2026-03-01T09:00:00Z")));
        assert_eq!(last(&daily, "2026-03-01T09:30:00Z"), Some(at("2026-03-01T00:00:00Z")));
    }

    #[test]
    fn what_newer_entries_do_not_tell_is_kept() {
        let past = Past::default().with(&[entry("failed", 20, "3"), entry("succeeded", 10, "0")]);
        assert_eq!(
            (past.success, past.failure, past.exit_code, past.newest),
            (Some(10.0), Some(20.0), Some(3.0), Some(20))
        );
        let later = past.with(&[entry("succeeded", 30, "0")]);
        assert_eq!((later.success, later.failure, later.exit_code), (Some(30.0), Some(20.0), Some(0.0)));
        let lost = later.with(&[entry("lost", 40, "")]);
        assert_eq!((lost.failure, lost.exit_code, lost.duration), (Some(40.0), Some(0.0), Some(0.5)));
        assert_eq!(lost.with(&[]), lost);
    }

    #[test]
    fn a_due_tick_counts_as_claimed_when_somebody_has_it_or_nobody_is_to_have_it() {
        let claimed = |record: &JobRecord, past: Past| facts(record, past, Some(100)).last_claimed;
        let none = record();
        assert_eq!(claimed(&none, Past::default()), None);
        let open = JobRecord { open: vec![Tick::from_seconds(100)], ..none.clone() };
        assert_eq!(claimed(&open, Past::default()), Some(100.0));
        let by_hand = JobRecord { open: vec![Tick::manual(100_000, 1)], ..none.clone() };
        assert_eq!(claimed(&by_hand, Past::default()), None, "a run by hand is no tick");
        assert_eq!(claimed(&none, Past { newest: Some(90), ..Past::default() }), Some(90.0));
        assert_eq!(claimed(&JobRecord { decided_through: 95, ..none.clone() }, Past::default()), Some(95.0));
        assert_eq!(claimed(&JobRecord { since: 100_000, ..none.clone() }, Past::default()), Some(100.0));
        let former = vec![Former::new(100, "UTC", "@daily")];
        assert_eq!(claimed(&JobRecord { former, ..none.clone() }, Past::default()), Some(100.0));
        assert_eq!(claimed(&JobRecord { decided_through: i64::MAX, ..none }, Past::default()), None);
    }

    #[test]
    fn a_paused_job_is_never_due_and_a_success_counts_before_its_end_is_read() {
        let paused = JobRecord { paused: Some(Pause::new("ada", "")), ..record() };
        let shown = facts(&paused, Past::default(), Some(100));
        assert_eq!((shown.last_due, shown.is_paused), (None, true));
        let succeeded = JobRecord { last_success: Some(Tick::from_seconds(50)), failures: 2, ..record() };
        assert_eq!(facts(&succeeded, Past::default(), None).last_success, Some(50.0));
        let past = Past { success: Some(57.0), ..Past::default() };
        let shown = facts(&succeeded, past, None);
        assert_eq!((shown.last_success, shown.consecutive_failures), (Some(57.0), Some(2.0)));
    }
}
