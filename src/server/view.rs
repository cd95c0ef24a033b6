//! What is shown: what the store knows of the fleet, together with what this replica's table knows. The page and the JSON
//! are made of the same.

use super::board::Standing;
use super::board::StoreState;
use super::fleet::Freshness;
use super::fleet::Seen;
use crate::admin::Condition;
use crate::admin::JobView;
use crate::admin::PauseView;
use crate::admin::ReplicaView;
use crate::admin::RunView;
use crate::admin::trouble;
use crate::clock::Now;
use crate::job::Action;
use crate::job::JobSpec;
use crate::job::JobTable;
use crate::job::Tick;
use crate::plural::counted;
use crate::schedule;
use crate::schedule::zone_data_version;
use chrono::DateTime;
use chrono::SecondsFormat;
use chrono::Utc;
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// How many coming ticks of a job are told.
const COMING: usize = 3;

/// An instant as it is written.
pub fn instant(at: DateTime<Utc>) -> String {
    at.to_rfc3339_opts(SecondsFormat::Millis, true)
}

/// An instant that was written.
pub fn parse(text: &str) -> Option<DateTime<Utc>> {
    DateTime::parse_from_rfc3339(text).ok().map(|at| at.to_utc())
}

/// This replica, and the fleet as it sees it.
#[derive(Debug, Clone, Serialize)]
pub struct Status {
    /// This replica's clock.
    pub at: String,
    /// Everything in one sentence.
    pub summary: String,
    /// Whether nothing needs somebody's eye.
    pub in_order: bool,
    /// This replica, as `holder` in logs.
    pub replica: String,
    /// Version of its program.
    pub version: &'static str,
    /// The fleet's part of the store.
    pub namespace: String,
    /// Whether `/readyz` says so.
    pub ready: bool,
    /// Whether it is about to end.
    pub draining: bool,
    /// The store.
    pub store: StoreView,
    /// The table.
    pub table: TableView,
    /// Jobs by how they are.
    pub jobs: Counts,
    /// How many replicas were there of late.
    pub replicas: usize,
    /// Why no job is started, where somebody paused all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub paused: Option<PauseView>,
    /// How good it is what is shown of the fleet.
    pub view: Freshness,
}

/// The store, as this replica sees it.
#[derive(Debug, Clone, Serialize)]
pub struct StoreView {
    /// Without password.
    pub url: String,
    /// `up`, `away` or `unseen`.
    pub state: &'static str,
    /// Since when it is away.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<String>,
    /// Why.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// The table of this replica.
#[derive(Debug, Clone, Serialize)]
pub struct TableView {
    /// Its revision.
    pub revision: String,
    /// Version of the zone data.
    pub zone_data: &'static str,
    /// How many jobs it has.
    pub jobs: usize,
    /// When it came into force.
    pub loaded_at: String,
    /// The files cannot be used as they are now, and it stays in force.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refused: Option<RefusedView>,
}

/// Files that cannot be used.
#[derive(Debug, Clone, Serialize)]
pub struct RefusedView {
    /// Since when.
    pub since: String,
    /// How many problems there are.
    pub problems: usize,
    /// The first: `file:line:col: code message`.
    pub first: String,
    /// What to write instead of it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub hint: String,
}

/// How many jobs are how. A job may be counted in several.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// All that this replica's table has.
    pub all: usize,
    /// Their last run failed.
    pub failing: usize,
    /// Their last tick was run by nobody.
    pub missed: usize,
    /// They have had no success for longer than their `staleAfter`.
    pub stale: usize,
    /// Somebody paused them.
    pub paused: usize,
    /// The table suspends them.
    pub suspended: usize,
    /// Runs of theirs are going.
    pub running: usize,
}

/// A job.
#[derive(Debug, Clone, Serialize)]
pub struct Job {
    /// Its name.
    pub name: String,
    /// For people.
    pub description: String,
    /// Its schedules.
    pub schedule: String,
    /// The schedules in words.
    pub schedule_text: String,
    /// Their zone.
    pub time_zone: String,
    /// `active`, `suspended` (by the table), `paused` (by somebody) or `gone`: no replica that is there has it in its table.
    pub state: &'static str,
    /// Who paused it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub paused: Option<PauseView>,
    /// The coming ticks.
    pub next: Vec<String>,
    /// Open runs, oldest first.
    pub running: Vec<RunView>,
    /// The newest decided ticks, newest first.
    pub last_runs: Vec<RunView>,
    /// The latest tick that succeeded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_success: Option<String>,
    /// Failures since then.
    pub consecutive_failures: u32,
    /// It has had no success for longer than its `staleAfter`.
    pub stale: bool,
    /// Where people read what to do about it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub runbook_url: String,
    /// Words of the table about it.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Where more of its runs are.
    pub history: String,
}

impl Job {
    /// A job by what store and table know of it; one of them does.
    fn of(view: Option<&JobView>, spec: Option<&JobSpec>, now: DateTime<Utc>) -> Option<Self> {
        let name = view.map(|view| view.name.clone()).or_else(|| spec.map(|spec| spec.name.to_string()))?;
        let is_same = |spec: &JobSpec| view.is_some_and(|view| view.schedule == spec.schedule.record());
        let recorded = || view.iter().flat_map(|view| &view.next).filter(|at| parse(at) > Some(now)).cloned().collect();
        let next: Vec<String> = match spec {
            Some(spec) if !is_same(spec) => ticks(spec, now, COMING),
            Some(spec) => {
                Some(recorded()).filter(|next: &Vec<_>| !next.is_empty()).unwrap_or_else(|| ticks(spec, now, COMING))
            }
            None => recorded(),
        };
        let paused = view.and_then(|view| view.paused.clone());
        // A table that is just replaced is newer than the view; and while a fleet rolls, others have what this one has not.
        let state = match (spec, &paused) {
            (None, _) => view.map_or("gone", |view| view.state),
            (_, Some(_)) => "paused",
            (Some(spec), None) if spec.suspend => "suspended",
            _ => "active",
        };
        let last_success = view.and_then(|view| view.last_success.clone());
        let since = last_success.as_deref().or(view.map(|view| view.known_since.as_str())).and_then(parse);
        let stale_after = spec.filter(|spec| !spec.suspend).and_then(|spec| spec.stale_after);
        let stale =
            stale_after.zip(since).is_some_and(|(most, since)| (now - since).to_std().is_ok_and(|age| age > most));
        let bare = |run: &RunView| RunView { output_tail: String::new(), ..run.clone() };
        Some(Self {
            description: spec.map(|spec| spec.description.clone()).unwrap_or_default(),
            schedule: spec.map_or_else(|| view.map(|v| v.schedule.clone()).unwrap_or_default(), written),
            schedule_text: spec.map(in_words).unwrap_or_default(),
            time_zone: spec
                .map(|spec| spec.schedule.zone().name().to_owned())
                .or_else(|| view.map(|view| view.time_zone.clone()))
                .unwrap_or_default(),
            state,
            paused,
            next,
            running: view.iter().flat_map(|view| &view.running).map(bare).collect(),
            last_runs: view.iter().flat_map(|view| &view.last_runs).map(bare).collect(),
            last_success,
            consecutive_failures: view.map_or(0, |view| view.consecutive_failures),
            stale,
            runbook_url: spec.map(|spec| spec.runbook_url.clone()).unwrap_or_default(),
            labels: spec.map(|spec| spec.labels.clone()).unwrap_or_default(),
            history: format!("/api/v1/jobs/{name}/runs"),
            name,
        })
    }

    /// The newest decided tick.
    pub fn last_run(&self) -> Option<&RunView> {
        self.last_runs.first()
    }

    /// How it is.
    pub fn condition(&self) -> Condition {
        Condition::of((self.state, self.stale), (self.consecutive_failures, self.last_run()), &self.running)
    }
}

/// The schedules as they are written.
fn written(spec: &JobSpec) -> String {
    let parts: Vec<String> = spec.schedule.parts().map(|part| part.text().to_owned()).collect();
    parts.join("; ")
}

fn in_words(spec: &JobSpec) -> String {
    let name = spec.name.as_str();
    let words = spec.schedule.parts().filter_map(|part| schedule::explain(part.text(), name).ok());
    words.map(|words| words.summary).collect::<Vec<_>>().join(" ")
}

/// The coming ticks by the table.
pub fn ticks(spec: &JobSpec, now: DateTime<Utc>, count: usize) -> Vec<String> {
    let coming = spec.schedule.occurrences(now, count);
    coming.into_iter().map(|at| Tick::from_datetime(at).to_string()).collect()
}

/// All jobs that store or table know, by name.
pub fn jobs(seen: &Seen, table: &JobTable, now: DateTime<Utc>) -> Vec<Job> {
    let mut all: BTreeMap<&str, (Option<&JobView>, Option<&JobSpec>)> = BTreeMap::new();
    for view in seen.view.iter().flat_map(|view| &view.jobs) {
        all.entry(&view.name).or_default().0 = Some(view);
    }
    for spec in &table.jobs {
        all.entry(spec.name.as_str()).or_default().1 = Some(spec);
    }
    all.into_values().filter_map(|(view, spec)| Job::of(view, spec, now)).collect()
}

/// The replicas that were there of late.
pub fn replicas(seen: &Seen) -> Vec<ReplicaView> {
    seen.view.iter().flat_map(|view| view.replicas.clone()).collect()
}

/// The last ones that are not there any more.
pub fn past(seen: &Seen) -> Vec<ReplicaView> {
    seen.view.iter().flat_map(|view| view.past.clone()).collect()
}

/// Who this replica is.
#[derive(Debug, Clone)]
pub struct Identity {
    /// Its name, as `holder` in logs.
    pub replica: String,
    /// The fleet's part of the store.
    pub namespace: String,
}

impl Status {
    /// From everything that is known.
    pub fn of(
        (me, url): (&Identity, &str),
        (standing, ready): (&Standing, bool),
        (seen, jobs): (&Seen, &[Job]),
        now: Now,
    ) -> Self {
        let view = seen.freshness(now);
        let counts = Counts::of(jobs);
        let replicas = seen.view.as_ref().map_or(0, |view| view.replicas.len());
        let paused = seen.view.as_ref().and_then(|view| view.paused.clone());
        // In a sentence a job is counted once: one that fails and is stale is one that somebody has to look at.
        let only_stale = jobs.iter().filter(|job| job.condition() == Condition::Stale).count();
        let each_once = Counts { stale: only_stale, ..counts.clone() };
        let (in_order, summary) = summary(&each_once, (&view, replicas), paused.is_some());
        let refused = standing.files.refused.as_ref().map(|refused| RefusedView {
            since: instant(refused.since),
            problems: refused.problems,
            first: refused.first.clone(),
            hint: refused.hint.clone(),
        });
        let more = if refused.is_some() { "; the jobs file is refused" } else { "" };
        Self {
            at: instant(now.wall),
            summary: format!("{summary}{more}"),
            in_order: in_order && refused.is_none(),
            replica: me.replica.clone(),
            version: env!("CARGO_PKG_VERSION"),
            namespace: me.namespace.clone(),
            ready,
            draining: standing.draining,
            store: StoreView::of(&standing.store, url),
            table: TableView {
                revision: standing.table.revision.clone(),
                zone_data: zone_data_version(),
                jobs: standing.table.jobs.len(),
                loaded_at: instant(standing.files.loaded_at),
                refused,
            },
            jobs: counts,
            replicas,
            paused,
            view,
        }
    }
}

impl StoreView {
    fn of(state: &StoreState, url: &str) -> Self {
        let (state, since, error) = match state {
            StoreState::Unseen => ("unseen", None, None),
            StoreState::Up => ("up", None, None),
            StoreState::Away { since, detail } => ("away", Some(instant(*since)), Some(detail.clone())),
        };
        Self { url: url.to_owned(), state, since, error }
    }
}

impl Counts {
    fn of(jobs: &[Job]) -> Self {
        let listed = || jobs.iter().filter(|job| job.state != "gone");
        let how_many = |is: fn(&Job) -> bool| listed().filter(|job| is(job)).count();
        Self {
            all: listed().count(),
            failing: how_many(|job| job.condition() == Condition::Failing),
            missed: how_many(|job| job.condition() == Condition::Missed),
            stale: how_many(|job| job.stale),
            paused: how_many(|job| job.state == "paused"),
            suspended: how_many(|job| job.state == "suspended"),
            running: how_many(|job| job.running.iter().any(RunView::is_going)),
        }
    }
}

/// Everything in one sentence, and whether it is good.
fn summary(counts: &Counts, (view, replicas): (&Freshness, usize), all_paused: bool) -> (bool, String) {
    if view.read_at.is_none() {
        let jobs = counted(counts.all, "job");
        return (false, format!("{jobs} in the table; the store has not told how they are"));
    }
    let was = if view.stale { " (as it was known last)" } else { "" };
    if all_paused {
        return (false, format!("All jobs are paused{was}"));
    }
    let found =
        [(counts.failing, Condition::Failing), (counts.missed, Condition::Missed), (counts.stale, Condition::Stale)];
    match (counts.all, trouble(&found, counts.all)) {
        (_, Some(trouble)) if replicas == 0 => (false, format!("{trouble}, no replica has been heard of{was}")),
        (all, None) if replicas == 0 => (false, format!("No replica has been heard of, {}{was}", counted(all, "job"))),
        (_, Some(trouble)) => (false, format!("{trouble}{was}")),
        (0, None) => (!view.stale, format!("No jobs in the table{was}")),
        (1, None) => (!view.stale, format!("The one job is in order{was}")),
        (all, None) => (!view.stale, format!("All {all} jobs are in order{was}")),
    }
}

/// What a table says, without what jobs do: a command or a header may hold a secret.
#[derive(Debug, Clone, Serialize)]
pub struct Config {
    /// Its revision.
    pub revision: String,
    /// `scheduler.lockLease`
    pub lock_lease_seconds: f64,
    /// `scheduler.clockSkewTolerance`
    pub clock_skew_tolerance_seconds: f64,
    /// `scheduler.maxConcurrentRuns`; 0: no limit.
    pub max_concurrent_runs: u32,
    /// `scheduler.reloadInterval`; 0: only when somebody asks.
    pub reload_interval_seconds: f64,
    /// Its jobs, in its order.
    pub jobs: Vec<JobConfig>,
}

/// A job as the table has it, with all defaults.
#[derive(Debug, Clone, Serialize)]
pub struct JobConfig {
    /// Its name.
    pub name: String,
    /// For people.
    pub description: String,
    /// Its schedules.
    pub schedule: Vec<String>,
    /// Their zone.
    pub time_zone: String,
    /// `command` or `http`.
    pub action: &'static str,
    /// Names of the variables that it sets.
    pub env: Vec<String>,
    /// `concurrencyPolicy`
    pub concurrency_policy: &'static str,
    /// `catchUp`
    pub catch_up: &'static str,
    /// `lostRunPolicy`
    pub lost_run_policy: &'static str,
    /// `suspend`
    pub suspend: bool,
    /// `timeout`; absent: for ever.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_seconds: Option<f64>,
    /// `terminationGracePeriod`
    pub termination_grace_period_seconds: f64,
    /// `jitter`
    pub jitter_seconds: f64,
    /// `staleAfter`; absent: for ever.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stale_after_seconds: Option<f64>,
    /// `startingDeadline`; absent: by the distance to the next tick.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub starting_deadline_seconds: Option<f64>,
    /// `retry.limit`
    pub retry_limit: u32,
    /// `runbookUrl`
    #[serde(skip_serializing_if = "String::is_empty")]
    pub runbook_url: String,
    /// `labels`
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// `notify`: on which occasion which notifiers are told. Of those only the names are told.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub notify: BTreeMap<&'static str, Vec<String>>,
    /// Tells one definition from another.
    pub spec_hash: String,
}

impl Config {
    /// Of a table.
    pub fn of(table: &JobTable) -> Self {
        let scheduler = &table.scheduler;
        Self {
            revision: table.revision.clone(),
            lock_lease_seconds: scheduler.lock_lease.as_secs_f64(),
            clock_skew_tolerance_seconds: scheduler.clock_skew_tolerance.as_secs_f64(),
            max_concurrent_runs: scheduler.max_concurrent_runs,
            reload_interval_seconds: scheduler.reload_interval.as_secs_f64(),
            jobs: table.jobs.iter().map(|spec| JobConfig::of(spec)).collect(),
        }
    }
}

impl JobConfig {
    /// Of a job.
    pub fn of(spec: &JobSpec) -> Self {
        let (action, env) = match &spec.action {
            Action::Command(command) => ("command", command.env.keys().cloned().collect()),
            Action::Http(_) => ("http", Vec::new()),
        };
        let seconds = |length: Option<Duration>| length.map(|length| length.as_secs_f64());
        Self {
            name: spec.name.to_string(),
            description: spec.description.clone(),
            schedule: spec.schedule.parts().map(|part| part.text().to_owned()).collect(),
            time_zone: spec.schedule.zone().name().to_owned(),
            action,
            env,
            concurrency_policy: spec.concurrency_policy.as_str(),
            catch_up: spec.catch_up.as_str(),
            lost_run_policy: spec.lost_run_policy.as_str(),
            suspend: spec.suspend,
            timeout_seconds: seconds(spec.timeout),
            termination_grace_period_seconds: spec.termination_grace_period.as_secs_f64(),
            jitter_seconds: spec.jitter.as_secs_f64(),
            stale_after_seconds: seconds(spec.stale_after),
            starting_deadline_seconds: seconds(spec.starting_deadline),
            retry_limit: spec.retry.limit,
            runbook_url: spec.runbook_url.clone(),
            labels: spec.labels.clone(),
            notify: spec.notify.iter().map(|(occasion, names)| (occasion.key(), names.to_vec())).collect(),
            spec_hash: spec.spec_hash.clone(),
        }
    }
}

/// A job of a table, by its name.
pub fn spec<'a>(table: &'a JobTable, name: &str) -> Option<&'a Arc<JobSpec>> {
    table.jobs.iter().find(|spec| spec.name.as_str() == name)
}
