//! What changes a fleet. The same steps that the command line takes, for whoever has the token.

use super::Site;
use super::api::Found;
use super::api::bad;
use super::api::instant;
use super::api::job_name;
use super::api::run_key;
use super::api::told;
use super::problem::Problem;
use super::problem::json;
use super::segment::Segment;
use super::serve::Remote;
use super::token;
use crate::admin;
use crate::admin::Actor;
use crate::admin::Refusal;
use crate::admin::Wanted;
use crate::chance;
use crate::job::ReplicaId;
use crate::job::Tick;
use crate::telemetry::events;
use axum::body::Body;
use axum::extract::Extension;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::http::StatusCode;
use axum::response::IntoResponse;
use axum::response::Response;
use serde::Deserialize;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;

/// Bodies are short.
const BODY_MOST: usize = 16 << 10;
const BODY_WITHIN: Duration = Duration::from_secs(10);
/// How long an action may wait for its turn, and take. After a restart of the store replicas need a moment to come back.
const TURN_WITHIN: Duration = Duration::from_secs(3);
const WITHIN: Duration = Duration::from_secs(25);

/// How an order is meant.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Trigger {
    /// Run it for this instant instead of now.
    at: Option<String>,
    /// Also if the job is paused.
    force: bool,
    /// Who asks.
    by: String,
}

/// Why a job is paused.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Pausing {
    comment: String,
    by: String,
}

/// Who asks.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Asking {
    by: String,
}

/// A run that was ordered.
#[derive(Debug, Serialize)]
pub struct Ordered {
    run_id: String,
    /// An order with the same key had made it before.
    again: bool,
    /// How many replicas were there of late.
    replicas: usize,
    /// None of them has the job in its table.
    gone: bool,
}

/// A job that is paused, or goes on.
#[derive(Debug, Serialize)]
pub struct Changed {
    job: String,
    /// Whether it was otherwise before.
    changed: bool,
    /// Whether it is paused now, by itself or with all.
    paused: bool,
}

/// A run that is to end.
#[derive(Debug, Serialize)]
pub struct Stopping {
    run_id: String,
    /// Who has it; empty: nobody.
    replica: String,
    /// Nobody had begun it, and it is over already.
    over: bool,
}

/// The files of the table are looked at.
#[derive(Debug, Serialize)]
pub struct Reloading {
    asked: bool,
}

/// A request of somebody who may act.
struct Act<'a> {
    site: &'a Site,
    remote: Remote,
    route: &'static str,
}

impl<'a> Act<'a> {
    async fn allowed(
        site: &'a Site,
        headers: &HeaderMap,
        route: &'static str,
        remote: Remote,
    ) -> Result<Self, Problem> {
        token::check(site, headers, (route, remote)).await?;
        Ok(Self { site, remote, route })
    }

    async fn body<T: DeserializeOwned + Default>(&self, body: Body) -> Result<T, Problem> {
        let read = timeout(BODY_WITHIN, axum::body::to_bytes(body, BODY_MOST)).await;
        let too_large = || {
            Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "too_large", format!("a body has {BODY_MOST} bytes at most"))
        };
        let slow = || Problem::new(StatusCode::REQUEST_TIMEOUT, "too_slow", "the body has not come in time");
        let bytes = read.map_err(|_| slow())?.map_err(|_| too_large())?;
        if bytes.is_empty() {
            return Ok(T::default());
        }
        // What is derived takes a list as well: its fields by their order, which no caller is promised.
        if !bytes.trim_ascii_start().starts_with(b"{") {
            return Err(bad(
                "read the body as JSON: an object is expected: write {} or nothing where there is nothing to say",
            ));
        }
        serde_json::from_slice(&bytes).map_err(|error| bad(format!("read the body as JSON: {error}")))
    }

    /// Who asks, by their own word and by where from.
    fn actor(&self, by: &str) -> Result<Actor, Problem> {
        let by = words("by", by)?.split_whitespace().collect::<Vec<_>>().join("_");
        let by = format!("{}@{}", if by.is_empty() { "api" } else { &by }, self.remote.0.ip());
        let nonce = format!("{:08x}", chance::number() >> 32);
        Ok(Actor { name: ReplicaId::new(&format!("api-{}", self.site.parts.me.replica), &nonce), by })
    }

    /// Does it, and says so.
    async fn perform<T>(
        &self,
        (target, by): (&str, &str),
        action: impl Future<Output = Result<T, Refusal>>,
    ) -> Result<T, Problem> {
        let busy = || {
            Problem::new(
                StatusCode::SERVICE_UNAVAILABLE,
                "busy",
                "other actions wait for the store: try again in a moment",
            )
        };
        let late = || {
            let detail = "the store has not answered in time: what was asked may be in force, and asking again (a trigger with the \
                          same Idempotency-Key) does no harm";
            Problem::new(StatusCode::SERVICE_UNAVAILABLE, "store_unavailable", detail)
        };
        let turn = timeout(TURN_WITHIN, self.site.actions.acquire()).await;
        let Ok(Ok(_turn)) = turn else { return Err(busy()) };
        let done = timeout(WITHIN, action).await.map_err(|_| late()).and_then(|done| done.map_err(Problem::from));
        let result = done.as_ref().map_or_else(|problem| problem.code, |_| "done");
        events::api_called(self.route, target, (by, self.remote.0.ip()), result);
        done
    }
}

/// A text that is shown to people.
fn words(field: &str, text: &str) -> Result<String, Problem> {
    admin::words(text).map_err(|error| bad(format!("{field}: {error}")))
}

fn key(headers: &HeaderMap) -> Result<String, Problem> {
    const MOST: usize = 200;
    let Some(key) = headers.get("idempotency-key") else { return Ok(String::new()) };
    let fits = |key: &&str| (1..=MOST).contains(&key.len()) && !key.chars().any(char::is_control);
    let key = key.to_str().ok().filter(fits);
    key.map(str::to_owned).ok_or_else(|| bad(format!("Idempotency-Key: write 1 to {MOST} letters")))
}

type Who = Extension<Remote>;

/// `POST /api/v1/jobs/{name}/trigger`
pub async fn trigger(
    State(site): State<Arc<Site>>,
    Segment(job): Segment,
    Extension(remote): Who,
    headers: HeaderMap,
    body: Body,
) -> Found {
    let act = Act::allowed(&site, &headers, "trigger", remote).await?;
    let (job, key) = (job_name(&job)?, key(&headers)?);
    let Trigger { at, force, by } = act.body(body).await?;
    let runs_for = at.map(|at| instant(&at)).transpose()?.map(Tick::from_datetime);
    let actor = act.actor(&by)?;
    let number = admin::number();
    let wanted = Wanted { job: job.clone(), key, runs_for, despite_pause: force, number };
    let order = admin::order(&*site.parts.store, &actor, &wanted);
    let admin::Ordered { run, again, replicas, is_gone, .. } = act.perform((job.as_str(), &actor.by), order).await?;
    accepted(&Ordered { run_id: run.to_string(), again, replicas, gone: is_gone })
}

/// `POST /api/v1/jobs/{name}/pause`
pub async fn pause(
    State(site): State<Arc<Site>>,
    Segment(job): Segment,
    Extension(remote): Who,
    headers: HeaderMap,
    body: Body,
) -> Found {
    let act = Act::allowed(&site, &headers, "pause", remote).await?;
    let job = job_name(&job)?;
    let Pausing { comment, by } = act.body(body).await?;
    let (comment, actor) = (words("comment", &comment)?, act.actor(&by)?);
    let jobs = [job.clone()];
    let pause = admin::pause(&*site.parts.store, &actor, (&jobs, &comment));
    changed(act.perform((job.as_str(), &actor.by), pause).await?)
}

/// `POST /api/v1/jobs/{name}/resume`
pub async fn resume(
    State(site): State<Arc<Site>>,
    Segment(job): Segment,
    Extension(remote): Who,
    headers: HeaderMap,
    body: Body,
) -> Found {
    let act = Act::allowed(&site, &headers, "resume", remote).await?;
    let job = job_name(&job)?;
    let Asking { by } = act.body(body).await?;
    let actor = act.actor(&by)?;
    let jobs = [job.clone()];
    let resume = admin::resume(&*site.parts.store, &actor, &jobs);
    changed(act.perform((job.as_str(), &actor.by), resume).await?)
}

/// `POST /api/v1/runs/{run_id}/cancel`
pub async fn cancel(
    State(site): State<Arc<Site>>,
    Segment(run): Segment,
    Extension(remote): Who,
    headers: HeaderMap,
    body: Body,
) -> Found {
    let act = Act::allowed(&site, &headers, "cancel", remote).await?;
    let run = run_key(&run)?;
    let Asking { by } = act.body(body).await?;
    let actor = act.actor(&by)?;
    let (run_id, cancel) = (run.to_string(), admin::cancel(&*site.parts.store, &actor, &run));
    let record = act.perform((&run_id, &actor.by), cancel).await?;
    let over = record.outcome.is_some();
    let replica = if over || record.is_order() { String::new() } else { record.owner.to_string() };
    accepted(&Stopping { run_id, replica, over })
}

/// `POST /api/v1/reload`
pub async fn reload(State(site): State<Arc<Site>>, Extension(remote): Who, headers: HeaderMap, body: Body) -> Found {
    let act = Act::allowed(&site, &headers, "reload", remote).await?;
    let Asking { by } = act.body(body).await?;
    let actor = act.actor(&by)?;
    let asked = site.parts.board.ask_reload();
    events::api_called(act.route, "", (&actor.by, remote.0.ip()), if asked { "done" } else { "not_reloadable" });
    if asked {
        return accepted(&Reloading { asked });
    }
    let detail = "the table came from standard input, which cannot be read again";
    Err(Problem::new(StatusCode::CONFLICT, "not_reloadable", detail))
}

/// `GET /api/v1/runs/{run_id}/output`
pub async fn output(
    State(site): State<Arc<Site>>,
    Segment(run): Segment,
    Extension(remote): Who,
    headers: HeaderMap,
) -> Found {
    Act::allowed(&site, &headers, "output", remote).await?;
    Ok(site.fleet.run(&run_key(&run)?).await?.output_tail.into_response())
}

fn accepted(value: &impl Serialize) -> Found {
    let response: Response = json(StatusCode::ACCEPTED, "application/json", value);
    Ok(response)
}

fn changed(done: Vec<admin::Changed>) -> Found {
    let done = done.into_iter().next();
    let done =
        done.ok_or_else(|| Problem::new(StatusCode::NOT_FOUND, "no_job", "the store has just removed that job"))?;
    let admin::Changed { job, changed, record } = done;
    told(&Changed { job: job.to_string(), changed, paused: record.pause().is_some() })
}
