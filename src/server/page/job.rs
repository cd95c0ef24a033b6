//! `/jobs/{name}`: one job, what became of its runs, and what can be done.

use super::Look;
use super::commands::commands;
use super::fleet::condition;
use super::moment;
use super::nothing;
use super::open_runs;
use super::page;
use super::plain;
use super::runs;
use super::timeline::timeline;
use crate::admin::RunView;
use crate::config;
use crate::job::JobSpec;
use crate::server::Site;
use crate::server::api;
use crate::server::problem::Problem;
use crate::server::segment::Segment;
use crate::server::view::Job;
use crate::server::view::JobConfig;
use crate::server::view::spec;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use chrono::DateTime;
use chrono::SecondsFormat;
use chrono::Utc;
use maud::Markup;
use maud::html;
use std::sync::Arc;
use std::time::Duration;

/// How many decided ticks are shown.
const HISTORY: usize = 60;
/// How many coming ones.
const COMING: usize = 10;

/// `GET /jobs/{name}`
pub async fn job(State(site): State<Arc<Site>>, Segment(name): Segment) -> Response {
    let look = site.look().await;
    let Some(job) = look.job(&name) else {
        let problem = api::job_name(&name).map_or_else(|problem| problem, |name| api::no_job(&name, &look.status));
        return nothing(problem.status(), "No such job", &problem.detail, &look);
    };
    let past = match api::job_name(&name) {
        Ok(name) => site.fleet.history(&name).await.map_err(Problem::from),
        Err(problem) => Err(problem),
    };
    let table = site.parts.board.standing().table;
    let spec = spec(&table, &name).map(Arc::as_ref);
    page(StatusCode::OK, &job.name, &look, &body(&look, job, spec, past))
}

fn body(look: &Look, job: &Job, spec: Option<&JobSpec>, past: Result<Vec<RunView>, Problem>) -> Markup {
    let now = look.now.wall;
    let (past, missing) = match past {
        Ok(past) => (past, None),
        Err(problem) => (job.last_runs.clone(), Some(problem.detail)),
    };
    let shown = &past[..past.len().min(HISTORY)];
    // The past is newer than the look at what runs.
    let is_open = |run: &&RunView| !past.iter().any(|done| done.run_id == run.run_id);
    let open: Vec<RunView> = job.running.iter().filter(is_open).cloned().collect();
    html! {
        h1 { (job.name) }
        p.verdict { (condition(job)) " " (job.description) }
        @if let Some(pause) = &job.paused {
            p { "Paused by " (pause.by) ", since " (moment(&pause.since, now)) @if !pause.comment.is_empty() { ": " (pause.comment) } }
        }
        @if job.state == "gone" {
            p { "No replica that is there has this job in its table. What is known of it is kept for a month." }
        }
        @if !open.is_empty() { (open_runs(&open, now, false)) }
        section aria-labelledby="past" {
            h2 #past { "What became of its runs" }
            @if let Some(detail) = missing { p.note { "Only the newest are shown: " (detail) } }
            @if shown.is_empty() { p { "There has been none yet." } } @else {
                (timeline(shown))
                (runs(if past.len() > shown.len() { "The newest" } else { "All that are kept" }, shown, now, false))
            }
        }
        section aria-labelledby="definition" { h2 #definition { "Definition" } (definition(job, spec)) }
        @if let Some(spec) = spec {
            section aria-labelledby="next" { h2 #next { "Next ticks" } (coming(spec, now)) }
        }
        (commands(look, &actions(job)))
    }
}

fn definition(job: &Job, spec: Option<&JobSpec>) -> Markup {
    let length = |seconds: f64| config::duration_text(Duration::try_from_secs_f64(seconds).unwrap_or_default());
    html! {
        dl {
            dt { "Schedule" } dd { @if !job.schedule_text.is_empty() { (job.schedule_text) " " } code { (job.schedule) } " " (job.time_zone) }
            @if let Some(config) = spec.map(JobConfig::of) {
                dt { "Runs" } dd { (config.action) }
                dt { "Overlap" } dd { code { "concurrencyPolicy: " (config.concurrency_policy) } }
                dt { "After an outage" } dd { code { "catchUp: " (config.catch_up) } }
                dt { "When its replica dies" } dd { code { "lostRunPolicy: " (config.lost_run_policy) } }
                dt { "Timeout" } dd { @match config.timeout_seconds { Some(seconds) => { (length(seconds)) } None => { "none" } } }
                @if config.retry_limit > 0 { dt { "Retries" } dd { (config.retry_limit) } }
                @if config.jitter_seconds > 0.0 { dt { "Jitter" } dd { (length(config.jitter_seconds)) } }
                @if let Some(seconds) = config.stale_after_seconds { dt { "Stale after" } dd { (length(seconds)) } }
                @for (occasion, names) in &config.notify { dt { code { (occasion) } } dd { (names.join(", ")) } }
                @for (name, text) in &config.labels { dt { (name) } dd { (text) } }
                // A URL of the web: the table takes no other.
                @if !config.runbook_url.is_empty() { dt { "Runbook" } dd { a href=(config.runbook_url) rel="noreferrer" { (config.runbook_url) } } }
            }
            dt { "Last success" } dd { @match &job.last_success { Some(at) => { (plain(at)) } None => { "none known" } } }
        }
    }
}

fn coming(spec: &JobSpec, now: DateTime<Utc>) -> Markup {
    let (schedule, zone) = (&spec.schedule, spec.schedule.zone());
    let local =
        |tick: DateTime<Utc>| tick.with_timezone(&zone.offset_at(tick)).to_rfc3339_opts(SecondsFormat::Secs, true);
    let ticks = schedule.occurrences(now, COMING);
    html! {
        @if spec.suspend { p { "The table suspends the job: it would be due at these times." } }
        @if ticks.is_empty() { p { "None." } } @else {
            ol.plain {
                @for tick in ticks {
                    li { (moment(&tick.to_rfc3339_opts(SecondsFormat::Secs, true), now)) " " @if zone.name() != "UTC" { span.when { (local(tick)) " in " (zone.name()) } }
                        @if let Some(note) = schedule.note(tick) { " " strong { (note) } }
                    }
                }
            }
        }
    }
}

/// What can be done.
fn actions(job: &Job) -> [(&'static str, String); 3] {
    let name = &job.name;
    let last = job.last_runs.iter().map(|run| run.scheduled_for.as_str()).find(|tick| !tick.contains('+'));
    let tick = last.unwrap_or("2026-03-01T02:00:00Z");
    let turn = match job.state {
        "paused" => ("Let it go on", format!("resume {name}")),
        _ => ("Pause it", format!("pause {name}")),
    };
    [("Why was a tick not run?", format!("why {name} --at {tick}")), ("Run it now", format!("trigger {name}")), turn]
}
