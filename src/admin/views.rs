//! What a fleet's store knows, as people and programs read it: its jobs, their runs, its replicas.
//!
//! Names and forms of the fields are those of every command's `-o json`: instants are RFC 3339 in UTC, durations are
//! seconds. What the store does not know (a job's description, whether the table suspends it) is not here.

use super::Refusal;
use super::apply;
use super::apply_one;
use crate::job::Gathering;
use crate::job::HistoryEntry;
use crate::job::JobName;
use crate::job::JobRecord;
use crate::job::Outcome;
use crate::job::Pause;
use crate::job::Presence;
use crate::job::RunKey;
use crate::job::RunRecord;
use crate::job::RunState;
use crate::job::Step;
use crate::job::TableTerm;
use crate::job::Tick;
use crate::job::Verdict;
use crate::schedule::Schedule;
use crate::schedule::Zone;
use crate::store::Store;
use chrono::DateTime;
use chrono::SecondsFormat;
use chrono::Utc;
use futures_util::StreamExt;
use futures_util::TryStreamExt;
use futures_util::stream;
use serde::Serialize;

/// How many histories are read at once.
const AT_ONCE: usize = 8;
/// The state of a run by hand that nobody has had yet.
pub(super) const ORDERED: &str = "ordered";
/// How many coming ticks of a job are shown.
const COMING: usize = 3;

/// A fleet at one moment.
#[derive(Debug, Clone, Serialize)]
pub struct FleetView {
    /// The store's clock.
    pub at: String,
    /// Why no job is started, where somebody paused all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub paused: Option<PauseView>,
    /// Those that were there of late, by name.
    pub replicas: Vec<ReplicaView>,
    /// The last ones that are not there any more, those that were there last first.
    pub past: Vec<ReplicaView>,
    /// All jobs that some replica registered, by name.
    pub jobs: Vec<JobView>,
}

/// A table that a replica has, or had.
#[derive(Debug, Clone, Serialize)]
pub struct TableView {
    /// Its revision.
    pub revision: String,
    /// How many jobs it has.
    pub jobs: u64,
    /// Since when the replica had it: until the next one, or its end.
    pub since: String,
}

/// A replica that was there of late, or before.
#[derive(Debug, Clone, Serialize)]
pub struct ReplicaView {
    /// Its name, as `holder` in logs.
    pub name: String,
    /// Version of its program.
    pub version: String,
    /// Revision of its table.
    pub revision: String,
    /// Version of its zone data.
    pub zone_data: String,
    /// How many jobs its table has.
    pub jobs: u64,
    /// Since when it is up.
    pub up_since: String,
    /// When it was heard of last.
    pub seen_at: String,
    /// How long ago that is, where it should have been heard of since. Only of those that are there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub silent_seconds: Option<f64>,
    /// How far its clock is ahead of the store's, where it knows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clock_offset_seconds: Option<f64>,
    /// Whether it is about to end.
    pub draining: bool,
    /// Whether it has ended in order. One that is not there any more and has not ended so was heard of last at `seen_at`.
    pub left: bool,
    /// Ids of its open runs.
    pub running: Vec<String>,
    /// Its table and the last ones before it, newest first.
    pub tables: Vec<TableView>,
}

/// Why a job is not started.
#[derive(Debug, Clone, Serialize)]
pub struct PauseView {
    /// Who wants that.
    pub by: String,
    /// Since when.
    pub since: String,
    /// Why; empty where nobody said.
    pub comment: String,
    /// Whether all jobs are paused.
    pub all: bool,
}

/// A job.
#[derive(Debug, Clone, Serialize)]
pub struct JobView {
    /// Its name.
    pub name: String,
    /// Its schedule as last registered.
    pub schedule: String,
    /// The schedule's zone.
    pub time_zone: String,
    /// `active`, `paused`, or `gone`: no replica that is there has it in its table.
    pub state: &'static str,
    /// Who paused it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub paused: Option<PauseView>,
    /// The coming ticks. Empty where this version does not understand the schedule, and where the job is gone.
    pub next: Vec<String>,
    /// What is open: claimed, going, or waiting for its lost owner's slot to drain; oldest first.
    pub running: Vec<RunView>,
    /// The newest decided ticks, newest first.
    pub last_runs: Vec<RunView>,
    /// The latest tick that succeeded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_success: Option<String>,
    /// Failures since then.
    pub consecutive_failures: u32,
    /// A replica has called it stale (`job_stale`), and there was no success since.
    pub stale: bool,
    /// When a replica last registered it.
    pub registered_at: String,
    /// What happened up to then the store cannot know.
    pub known_since: String,
}

/// A run, or a tick that nobody ran.
#[derive(Debug, Clone, Serialize)]
pub struct RunView {
    /// Its id.
    pub run_id: String,
    /// Its job.
    pub job: String,
    /// Its tick.
    pub scheduled_for: String,
    /// `ordered`, `claimed`, `begun`, `abandoned`, `lost` or `done`.
    pub state: &'static str,
    /// How it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outcome: Option<String>,
    /// Why it was missed or skipped.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// Who ran or decided it; of an open one, who has it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub replica: String,
    /// When its first attempt began; of an open one, the last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub started_at: Option<String>,
    /// When it ended, or was decided.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub finished_at: Option<String>,
    /// From the first start to the end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duration_seconds: Option<f64>,
    /// How many attempts there were.
    pub attempts: u32,
    /// Exit code of the last attempt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// Signal that ended it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub signal: Option<i32>,
    /// Status of the answer to its HTTP request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub http_status: Option<u16>,
    /// In words.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub error: String,
    /// Of ticks that were settled together, the first one.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub range_first: String,
    /// How many these are; 0: one.
    #[serde(skip_serializing_if = "is_zero")]
    pub range_count: u64,
    /// The owner's own account, when it came after `lost`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub late_outcome: String,
    /// Who ordered it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub ordered_by: String,
    /// Of a lost one that is to be started again elsewhere, about when: its old processes may need so long to end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub again_at: Option<String>,
    /// The last bytes of its output, where they are kept.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub output_tail: String,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
const fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// An instant in milliseconds of the epoch, in words; 0 is none.
fn instant(millis: i64) -> Option<String> {
    let at = DateTime::from_timestamp_millis(millis).filter(|_| millis > 0)?;
    Some(at.to_rfc3339_opts(SecondsFormat::Millis, true))
}

/// When a lost run is free to be started again, milliseconds of the epoch: twice its grace, a second and a fiftieth of its
/// lease after it was called lost (docs/guarantees.md).
fn again_at(record: &RunRecord) -> Option<i64> {
    let wait = record.grace_ms.saturating_mul(2).saturating_add(record.lease_ms / 50).saturating_add(1_000);
    let wait = i64::try_from(wait).unwrap_or(i64::MAX);
    (record.state == RunState::Lost && record.may_run_again()).then(|| record.ended_at.saturating_add(wait))
}

fn seconds(millis: u64) -> f64 {
    // Exact to 2^53 ms, which no run takes.
    #[expect(clippy::cast_precision_loss, reason = "see above")]
    let seconds = millis as f64 / 1000.0;
    seconds
}

impl RunView {
    /// A run by its record.
    pub fn of_record(job: &JobName, record: &RunRecord) -> Self {
        let is_done = record.state == RunState::Done;
        let duration = i64::try_from(record.duration_ms).unwrap_or(i64::MAX);
        Self {
            run_id: record.key(job).to_string(),
            job: job.to_string(),
            scheduled_for: record.scheduled_for.to_string(),
            state: if record.is_order() { ORDERED } else { record.state.as_str() },
            outcome: record.outcome.map(|outcome| outcome.to_string()),
            reason: record.reason.clone(),
            replica: if record.is_order() { String::new() } else { record.owner.to_string() },
            // What vanished has no duration: it ends when that is recorded, and began when it did.
            started_at: instant(if is_done && duration > 0 {
                record.ended_at.saturating_sub(duration)
            } else {
                record.begun_at
            })
            .filter(|_| record.start > 0),
            finished_at: instant(record.ended_at).filter(|_| is_done),
            duration_seconds: (is_done && record.start > 0 && record.duration_ms > 0)
                .then(|| seconds(record.duration_ms)),
            attempts: record.start,
            exit_code: record.exit_code,
            signal: record.signal,
            http_status: record.http_status,
            error: record.error.clone(),
            range_first: record.range_first.map(|tick| tick.to_string()).unwrap_or_default(),
            range_count: record.range_count,
            late_outcome: record.late_outcome.map(|outcome| outcome.to_string()).unwrap_or_default(),
            ordered_by: record.ordered_by.clone(),
            again_at: again_at(record).and_then(instant),
            output_tail: String::new(),
        }
    }

    /// A decided tick by its entry in the history.
    pub fn of_history(job: &JobName, entry: &HistoryEntry) -> Self {
        let duration = i64::try_from(entry.duration_ms).unwrap_or(i64::MAX);
        let is_lost = entry.outcome == Outcome::Lost.as_str() && entry.duration_ms == 0;
        Self {
            run_id: format!("{job}@{}", entry.scheduled_for),
            job: job.to_string(),
            scheduled_for: entry.scheduled_for.clone(),
            state: RunState::Done.as_str(),
            outcome: Some(entry.outcome.clone()),
            reason: entry.reason.clone(),
            replica: entry.owner.clone(),
            // When a run began that vanished only its record knows.
            started_at: instant(entry.ended_at.saturating_sub(duration)).filter(|_| entry.start > 0 && !is_lost),
            finished_at: instant(entry.ended_at),
            duration_seconds: (entry.start > 0 && entry.duration_ms > 0).then(|| seconds(entry.duration_ms)),
            attempts: entry.start,
            exit_code: entry.exit_code.parse().ok(),
            signal: entry.signal.parse().ok(),
            http_status: entry.http_status.parse().ok(),
            error: entry.error.clone(),
            range_first: entry.range_first.clone(),
            range_count: entry.range_count,
            late_outcome: entry.late_outcome.clone(),
            ordered_by: String::new(),
            again_at: None,
            output_tail: entry.output_tail.clone(),
        }
    }

    /// How it stands, in a word for people.
    pub fn word(&self) -> &str {
        match self.outcome.as_deref() {
            Some(outcome) => outcome,
            None if self.is_going() => "running",
            None => self.state,
        }
    }

    /// Whether its owner has begun it, and nobody knows of its end. Others that are open are claimed, or lost.
    pub fn is_going(&self) -> bool {
        self.state == RunState::Begun.as_str()
    }

    /// Its tick.
    pub fn tick(&self) -> Option<Tick> {
        Tick::parse(&self.scheduled_for)
    }

    /// Whether a run ended so, and that counts as a failure of its job.
    pub fn is_failure(&self) -> bool {
        self.outcome.as_deref().and_then(Outcome::parse).is_some_and(Outcome::is_failure)
    }

    /// Whether nobody ran it, and nobody decided so on purpose.
    pub fn is_missed(&self) -> bool {
        self.outcome.as_deref() == Some(Outcome::Missed.as_str())
    }
}

impl PauseView {
    fn of(pause: &Pause, all: bool) -> Self {
        let since = instant(pause.at).unwrap_or_default();
        Self { by: pause.by.clone(), since, comment: pause.reason.clone(), all }
    }
}

impl ReplicaView {
    /// One that is there at an instant (store clock, milliseconds since the epoch).
    pub(super) fn there(presence: &Presence, at: i64) -> Self {
        Self { silent_seconds: presence.silent_ms(at).map(seconds), ..Self::of(presence) }
    }

    fn of(presence: &Presence) -> Self {
        let table = |term: &TableTerm| TableView {
            revision: term.revision.clone(),
            jobs: term.jobs,
            since: instant(presence.before(term.since_ms)).unwrap_or_default(),
        };
        let offset = |ms: i64| if ms < 0 { -seconds(ms.unsigned_abs()) } else { seconds(ms.unsigned_abs()) };
        Self {
            name: presence.name.to_string(),
            version: presence.version.clone(),
            revision: presence.revision.clone(),
            zone_data: presence.zone_data.clone(),
            jobs: presence.jobs,
            up_since: instant(presence.came_at()).unwrap_or_default(),
            seen_at: instant(presence.written_at).unwrap_or_default(),
            silent_seconds: None,
            clock_offset_seconds: presence.offset_ms.map(offset),
            draining: presence.draining,
            left: presence.kind == Presence::LEFT,
            running: presence.runs.clone(),
            tables: presence.tables.iter().map(table).collect(),
        }
    }
}

/// How many of those that are there should have been heard of since, in words that follow their number.
pub fn silence(replicas: &[ReplicaView]) -> String {
    let silent: Vec<f64> = replicas.iter().filter_map(|replica| replica.silent_seconds).collect();
    let longest = silent.iter().copied().fold(0.0, f64::max);
    match silent.len() {
        0 => String::new(),
        1 if replicas.len() == 1 => format!(", silent for {longest:.0} s"),
        1 => format!(", 1 of them silent for {longest:.0} s"),
        more => format!(", {more} of them silent for up to {longest:.0} s"),
    }
}

/// The schedule that a record has, where this version understands it.
pub(super) fn schedule_of(job: &JobName, (zone, text): (&str, &str)) -> Option<Schedule> {
    Schedule::from_record(text, &Zone::find(zone).ok()?, job.as_str())
}

impl JobView {
    /// A job by its record, its open runs and its history, at the store's time `now`.
    fn of(
        name: &JobName,
        (record, is_gone): (&JobRecord, bool),
        (runs, history): (Vec<RunView>, Vec<RunView>),
        now: DateTime<Utc>,
    ) -> Self {
        let schedule = schedule_of(name, (&record.zone, &record.schedule));
        let coming =
            schedule.filter(|_| !is_gone).map(|schedule| schedule.occurrences(now, COMING)).unwrap_or_default();
        let pause = record.pause();
        Self {
            name: name.to_string(),
            schedule: record.schedule.clone(),
            time_zone: record.zone.clone(),
            state: match (is_gone, pause) {
                (true, _) => "gone",
                (false, Some(_)) => "paused",
                (false, None) => "active",
            },
            paused: pause.map(|pause| PauseView::of(pause, record.paused.is_none())),
            next: coming.into_iter().map(|tick| Tick::from_datetime(tick).to_string()).collect(),
            running: runs,
            last_runs: history,
            last_success: record.last_success.map(|tick| tick.to_string()),
            consecutive_failures: record.failures,
            stale: record.stale.as_ref().is_some_and(|said| said.fresh_at == record.fresh_at()),
            registered_at: instant(record.registered_at).unwrap_or_default(),
            known_since: instant(record.since).unwrap_or_default(),
        }
    }

    /// The newest decided tick.
    pub fn last_run(&self) -> Option<&RunView> {
        self.last_runs.first()
    }
}

/// Reads a fleet: its replicas, and all jobs with so many entries of their histories.
///
/// # Errors
/// The store did not answer.
pub async fn fleet(store: &dyn Store, history: usize) -> Result<FleetView, Refusal> {
    let gathering = store.meet(None, &[]).await?;
    let now = store.server_time().await?;
    let jobs = read_jobs((store, store.jobs().await?), &gathering, history, now).await?;
    Ok(FleetView {
        at: now.to_rfc3339_opts(SecondsFormat::Millis, true),
        paused: gathering.members.iter().find_map(|member| member.pause()).map(|pause| PauseView::of(&pause, true)),
        replicas: gathering.replicas().map(|replica| ReplicaView::there(replica, gathering.at)).collect(),
        past: gathering.past().into_iter().map(ReplicaView::of).collect(),
        jobs,
    })
}

/// Reads one job.
///
/// # Errors
/// The store did not answer, or knows no such job.
pub async fn job(store: &dyn Store, name: &JobName, history: usize) -> Result<JobView, Refusal> {
    let all = store.jobs().await?;
    let Some(found) = all.iter().find(|(found, _)| found == name).cloned() else {
        return Err(Refusal::no_job(name, (store.url(), &all)));
    };
    let gathering = store.meet(None, &[]).await?;
    let now = store.server_time().await?;
    let read = read_jobs((store, vec![found]), &gathering, history, now).await?;
    read.into_iter().next().ok_or_else(|| Refusal::no_job(name, (store.url(), &all)))
}

async fn read_jobs(
    (store, mut jobs): (&dyn Store, Vec<(JobName, JobRecord)>),
    gathering: &Gathering,
    history: usize,
    now: DateTime<Utc>,
) -> Result<Vec<JobView>, Refusal> {
    jobs.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
    let open = |(name, record): &(JobName, JobRecord)| {
        record.open.iter().map(|tick| Step::Read { run: RunKey::new(name.clone(), *tick) }).collect::<Vec<_>>()
    };
    let steps: Vec<Step> = jobs.iter().flat_map(open).collect();
    let mut answers = apply(store, &steps).await?.into_iter();
    let mut views = Vec::with_capacity(jobs.len());
    for (name, record) in &jobs {
        let found = answers.by_ref().take(record.open.len()).filter_map(|answer| answer.run);
        // One that ended in between is in the history.
        let runs: Vec<RunView> = found.filter(RunRecord::is_open).map(|run| RunView::of_record(name, &run)).collect();
        views.push(async move {
            let past = store.history(name, history).await?;
            let past = past.iter().map(|entry| RunView::of_history(name, entry)).collect();
            Ok::<_, Refusal>(JobView::of(
                name,
                (record, gathering.is_gone(name, record.registered_at)),
                (runs, past),
                now,
            ))
        });
    }
    stream::iter(views).buffered(AT_ONCE).try_collect().await
}

/// Reads one run, with its output where that is kept.
///
/// # Errors
/// The store did not answer, or knows no such run.
pub async fn run(store: &dyn Store, run: &RunKey) -> Result<RunView, Refusal> {
    let answer = apply_one(store, Step::Read { run: run.clone() }).await?;
    let tick = run.scheduled_for.to_string();
    let past = store.history(&run.job, usize::MAX).await?;
    let entry = past.iter().find(|entry| entry.scheduled_for == tick);
    match (answer.run, entry) {
        (Some(record), entry) => {
            let output_tail = entry.map(|entry| entry.output_tail.clone()).unwrap_or_default();
            Ok(RunView { output_tail, ..RunView::of_record(&run.job, &record) })
        }
        (None, Some(entry)) => Ok(RunView::of_history(&run.job, entry)),
        (None, None) if matches!(answer.verdict, Verdict::Unreadable { .. }) => {
            Err(Refusal::Unreadable(run.job.clone()))
        }
        (None, None) if answer.job.is_none() => Err(Refusal::no_job(&run.job, (store.url(), &store.jobs().await?))),
        (None, None) => {
            let open = answer.open.iter().map(|record| record.key(&run.job)).collect();
            Err(Refusal::NoRun { run: run.clone(), store: store.url().into(), open })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::ReplicaId;

    #[test]
    fn replicas_that_should_have_been_heard_of_are_counted_with_how_long_they_are_silent() {
        let silence_of = |written: &[(i64, u64)]| {
            let of = |(written_at, lease_ms): &(i64, u64)| Presence {
                written_at: *written_at,
                lease_ms: *lease_ms,
                ..Presence::new(ReplicaId::new("web", "1"), Presence::REPLICA)
            };
            let views: Vec<ReplicaView> =
                written.iter().map(|written| ReplicaView::there(&of(written), 100_000)).collect();
            silence(&views)
        };
        assert_eq!(silence_of(&[]), "");
        assert_eq!(silence_of(&[(84_000, 15_000), (99_000, 15_000)]), "");
        assert_eq!(silence_of(&[(83_999, 60_000)]), ", silent for 16 s", "it meets the others each 15 s all the same");
        assert_eq!(silence_of(&[(59_000, 15_000), (99_000, 15_000)]), ", 1 of them silent for 41 s");
        assert_eq!(silence_of(&[(93_999, 5_000), (59_000, 0)]), ", 2 of them silent for up to 41 s");
    }
}
