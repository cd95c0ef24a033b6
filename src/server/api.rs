//! The fleet as JSON, for reading.

use super::Site;
use super::fleet::Freshness;
use super::fleet::NoAnswer;
use super::problem::Problem;
use super::problem::json;
use super::segment::Segment;
use super::view::Config;
use super::view::Job;
use super::view::Status;
use crate::admin::Refusal;
use crate::admin::ReplicaView;
use crate::admin::RunView;
use crate::job::JobName;
use crate::job::RunKey;
use crate::job::no_run_id;
use crate::job::parse_instant;
use axum::extract::RawQuery;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header;
use axum::response::IntoResponse;
use axum::response::Response;
use chrono::DateTime;
use chrono::Utc;
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::Arc;
use url::form_urlencoded;

/// How many runs a page of them has, where nothing is said, and at most.
const LIMIT: usize = 50;
const LIMIT_MOST: usize = 1000;
/// What programs are told about all this.
const OPENAPI: &str = include_str!("openapi.json");

pub type Found = Result<Response, Problem>;

/// An answer to a program.
pub fn told(value: &impl Serialize) -> Found {
    Ok(json(StatusCode::OK, "application/json", value))
}

/// What stands after `?`, where all of it is known.
pub fn query(RawQuery(query): RawQuery, known: &[&str]) -> Result<BTreeMap<String, String>, Problem> {
    let query = query.unwrap_or_default();
    let mut pairs = BTreeMap::new();
    for (key, value) in form_urlencoded::parse(query.as_bytes()).into_owned() {
        if pairs.contains_key(&key) {
            return Err(bad(format!("`{}` stands there twice: write one of them", key.escape_debug())));
        }
        pairs.insert(key, value);
    }
    match pairs.keys().find(|key| !known.contains(&key.as_str())) {
        None => Ok(pairs),
        Some(key) => {
            let takes = if known.is_empty() { "nothing".to_owned() } else { known.join(", ") };
            Err(bad(format!("`{}` is no parameter here: this path takes {takes}", key.escape_debug())))
        }
    }
}

/// Something in the request cannot be meant.
pub fn bad(detail: impl Into<String>) -> Problem {
    Problem::new(StatusCode::BAD_REQUEST, "bad_request", detail)
}

/// What `at` says: in a query or a body.
pub fn instant(text: &str) -> Result<DateTime<Utc>, Problem> {
    parse_instant(text).map_err(|error| bad(format!("at: {error}")))
}

/// What was meant by an instant or a run id behind `?`. A `+` that is not written as `%2B` arrives as a blank, which neither has.
fn with_plus(text: &str) -> String {
    text.replace(' ', "+")
}

/// A job's name from a path.
pub fn job_name(text: &str) -> Result<JobName, Problem> {
    JobName::new(text).map_err(|error| bad(format!("job `{}`: {error}", text.escape_debug())))
}

/// A run's id from a path.
pub fn run_key(text: &str) -> Result<RunKey, Problem> {
    let hint = "write it as in `run_id`: nightly-sales@2026-03-01T02:00:00Z";
    RunKey::parse(text).ok_or_else(|| bad(format!("{}; {hint}", no_run_id(text))))
}

impl From<Refusal> for Problem {
    fn from(refusal: Refusal) -> Self {
        let (status, code) = match &refusal {
            Refusal::Store(_) => (StatusCode::SERVICE_UNAVAILABLE, "store_unavailable"),
            Refusal::NoJob { .. } => (StatusCode::NOT_FOUND, "no_job"),
            Refusal::NoRun { .. } => (StatusCode::NOT_FOUND, "no_run"),
            Refusal::NotRegistered(_) | Refusal::Forgot(_) => (StatusCode::SERVICE_UNAVAILABLE, "not_registered"),
            Refusal::Unreadable(_) => (StatusCode::CONFLICT, "unreadable"),
            Refusal::Paused { .. } => (StatusCode::CONFLICT, "paused"),
            Refusal::Over { .. } => (StatusCode::CONFLICT, "over"),
            Refusal::Busy { .. } => (StatusCode::CONFLICT, "held"),
            Refusal::Ahead { .. } => (StatusCode::CONFLICT, "ahead"),
        };
        let hint = refusal.hint().map(|hint| format!("; {hint}")).unwrap_or_default();
        Self::new(status, code, format!("{refusal}{hint}"))
    }
}

impl From<NoAnswer> for Problem {
    fn from(why: NoAnswer) -> Self {
        let unavailable = |code, detail: &str| Self::new(StatusCode::SERVICE_UNAVAILABLE, code, detail);
        match why {
            NoAnswer::Busy => unavailable("busy", "too many questions wait for the store: try again in a moment"),
            NoAnswer::Late => unavailable("store_unavailable", "the store has not answered in time"),
            NoAnswer::Refused(refusal) => refusal.into(),
        }
    }
}

/// Jobs, and how good it is what is told of them.
#[derive(Debug, Serialize)]
pub struct Jobs {
    jobs: Vec<Job>,
    view: Freshness,
}

/// Replicas, also those that are not there any more, and how good it is what is told of them.
#[derive(Debug, Serialize)]
pub struct Replicas {
    replicas: Vec<ReplicaView>,
    past: Vec<ReplicaView>,
    view: Freshness,
}

/// Runs of a job, newest first.
#[derive(Debug, Serialize)]
pub struct Runs {
    runs: Vec<RunView>,
    /// Where the next ones begin.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_cursor: Option<String>,
}

/// The program.
#[derive(Debug, Serialize)]
pub struct Version {
    name: &'static str,
    version: &'static str,
    zone_data: &'static str,
}

/// `GET /api/v1/status`
pub async fn status(State(site): State<Arc<Site>>, raw: RawQuery) -> Found {
    query(raw, &[])?;
    told(&site.look().await.status)
}

/// `GET /api/v1/jobs`
pub async fn jobs(State(site): State<Arc<Site>>, raw: RawQuery) -> Found {
    query(raw, &[])?;
    let look = site.look().await;
    told(&Jobs { jobs: look.jobs, view: look.status.view })
}

/// `GET /api/v1/jobs/{name}`
pub async fn job(State(site): State<Arc<Site>>, Segment(name): Segment, raw: RawQuery) -> Found {
    query(raw, &[])?;
    let name = job_name(&name)?;
    let look = site.look().await;
    match look.job(name.as_str()) {
        Some(job) => told(job),
        None => Err(no_job(&name, &look.status)),
    }
}

/// There is no such job, as far as this replica can know.
pub fn no_job(name: &JobName, status: &Status) -> Problem {
    if status.view.read_at.is_none() {
        let detail = format!("job `{name}` is not in this replica's table, and the store has told nothing yet");
        return Problem::new(StatusCode::SERVICE_UNAVAILABLE, "store_unavailable", detail);
    }
    let detail = format!("neither this replica's table nor the store knows a job `{name}`");
    Problem::new(StatusCode::NOT_FOUND, "no_job", detail)
}

/// `GET /api/v1/jobs/{name}/runs`
pub async fn runs(State(site): State<Arc<Site>>, Segment(name): Segment, raw: RawQuery) -> Found {
    let mut query = query(raw, &["limit", "cursor"])?;
    let limit = match query.remove("limit") {
        None => LIMIT,
        Some(text) => text
            .parse()
            .ok()
            .filter(|limit| (1..=LIMIT_MOST).contains(limit))
            .ok_or_else(|| bad(format!("limit `{}`: write 1 to {LIMIT_MOST}", text.escape_debug())))?,
    };
    let cursor = query.remove("cursor").map(|cursor| run_key(&with_plus(&cursor))).transpose()?;
    let name = job_name(&name)?;
    let look = site.look().await;
    let Some(job) = look.job(name.as_str()) else { return Err(no_job(&name, &look.status)) };
    let past = site.fleet.history(&name).await?;
    told(&paged(job.running.iter().cloned().chain(past), cursor.as_ref(), limit))
}

/// The newest runs that are older than the cursor.
fn paged(all: impl Iterator<Item = RunView>, cursor: Option<&RunKey>, limit: usize) -> Runs {
    // Orders by hand stand between ticks: their texts, which begin with their instants, are in the order of time.
    let before = cursor.map(|cursor| cursor.scheduled_for.to_string());
    let mut runs: Vec<RunView> = all
        .filter(|run| before.as_ref().is_none_or(|before| run.scheduled_for < *before))
        .map(|run| RunView { output_tail: String::new(), ..run })
        .collect();
    runs.sort_by(|one, other| other.scheduled_for.cmp(&one.scheduled_for));
    // One that ended since the fleet was looked at is in both.
    runs.dedup_by(|one, other| one.run_id == other.run_id);
    let has_more = runs.len() > limit;
    runs.truncate(limit);
    let next_cursor = runs.last().filter(|_| has_more).map(|run| run.run_id.clone());
    Runs { runs, next_cursor }
}

/// `GET /api/v1/jobs/{name}/why`
pub async fn why(State(site): State<Arc<Site>>, Segment(name): Segment, raw: RawQuery) -> Found {
    let mut query = query(raw, &["at"])?;
    let at = query.remove("at").map(|text| instant(&with_plus(&text))).transpose()?;
    let mut account = site.fleet.why(&job_name(&name)?, at).await?;
    account.run.iter_mut().for_each(|run| run.output_tail.clear());
    told(&account)
}

/// `GET /api/v1/runs/{run_id}`
pub async fn run(State(site): State<Arc<Site>>, Segment(run): Segment, raw: RawQuery) -> Found {
    query(raw, &[])?;
    let run = site.fleet.run(&run_key(&run)?).await?;
    told(&RunView { output_tail: String::new(), ..run })
}

/// `GET /api/v1/replicas`
pub async fn replicas(State(site): State<Arc<Site>>, raw: RawQuery) -> Found {
    query(raw, &[])?;
    let look = site.look().await;
    told(&Replicas { replicas: look.replicas, past: look.past, view: look.status.view })
}

/// `GET /api/v1/version`
pub async fn version(raw: RawQuery) -> Found {
    query(raw, &[])?;
    let zone_data = crate::schedule::zone_data_version();
    told(&Version { name: "onecron", version: env!("CARGO_PKG_VERSION"), zone_data })
}

/// `GET /api/v1/config`
pub async fn config(State(site): State<Arc<Site>>, raw: RawQuery) -> Found {
    query(raw, &[])?;
    told(&Config::of(&site.parts.board.standing().table))
}

/// `GET /openapi.json`
pub async fn openapi() -> Response {
    ([(header::CONTENT_TYPE, "application/json")], OPENAPI).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::HistoryEntry;

    fn runs(ticks: &[&str]) -> Vec<RunView> {
        let job = JobName::new("a").unwrap();
        let entry = |tick: &&str| HistoryEntry { scheduled_for: (*tick).to_owned(), ..HistoryEntry::default() };
        ticks.iter().map(|tick| RunView::of_history(&job, &entry(tick))).collect()
    }

    #[test]
    fn pages_of_runs_join_without_gap_or_repetition() {
        let manual = "2026-03-01T02:00:07.123Z+manual-7f3a";
        let all = ["2026-03-01T02:01:00Z", manual, "2026-03-01T02:00:00Z", "2026-03-01T01:59:00Z"];
        let (mut cursor, mut found) = (None, Vec::new());
        loop {
            let page = paged(runs(&all).into_iter(), cursor.as_ref(), 1);
            found.extend(page.runs.into_iter().map(|run| run.scheduled_for));
            match page.next_cursor {
                Some(next) => cursor = Some(RunKey::parse(&next).unwrap()),
                None => break,
            }
        }
        assert_eq!(found, all);
        assert_eq!(paged(runs(&[all[0], all[0]]).into_iter(), None, 9).runs.len(), 1);
    }

    #[test]
    fn a_parameter_that_nobody_knows_is_refused() {
        let ask = |text: &str| query(RawQuery(Some(text.to_owned())), &["limit"]);
        assert_eq!(ask("limit=3").unwrap()["limit"], "3");
        assert!(ask("limt=3").unwrap_err().detail.contains("takes limit"));
        assert_eq!(ask("limit=3&limit=4").unwrap_err().detail, "`limit` stands there twice: write one of them");
    }
}
