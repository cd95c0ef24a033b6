//! `/runs/{run_id}`: one run.

use super::Look;
use super::commands::commands;
use super::how;
use super::moment;
use super::nothing;
use super::page;
use super::took;
use crate::admin::RunView;
use crate::server::Site;
use crate::server::api;
use crate::server::problem::Problem;
use crate::server::segment::Segment;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use maud::Markup;
use maud::html;
use std::sync::Arc;

/// `GET /runs/{run_id}`
pub async fn run(State(site): State<Arc<Site>>, Segment(id): Segment) -> Response {
    let found = match api::run_key(&id) {
        Ok(key) => site.fleet.run(&key).await.map_err(Problem::from),
        Err(problem) => Err(problem),
    };
    let look = site.look().await;
    // The fleet that was seen last has the newest ones.
    let known = || {
        let mut all = look.jobs.iter().flat_map(|job| job.running.iter().chain(&job.last_runs));
        all.find(|run| run.run_id == id).cloned()
    };
    match found {
        Ok(run) => page(StatusCode::OK, &run.run_id, &look, &body(&run, &look)),
        Err(problem) => match known() {
            Some(run) => page(StatusCode::OK, &run.run_id, &look, &body(&run, &look)),
            None => nothing(problem.status(), "No such run", &problem.detail, &look),
        },
    }
}

fn body(run: &RunView, look: &Look) -> Markup {
    let (id, now) = (&run.run_id, look.now.wall);
    let tick = run.scheduled_for.split('+').next().unwrap_or_default();
    let mut words = vec![
        ("The end of its output", format!("show {id}")),
        ("Why was it run, or not?", format!("why {} --at {tick}", run.job)),
    ];
    if run.outcome.is_none() {
        words.push(("Stop it", format!("cancel {id}")));
    }
    let text = |title: &str, text: &str| html! { @if !text.is_empty() { dt { (title) } dd { (text) } } };
    let at =
        |title: &str, at: Option<&String>| html! { @if let Some(at) = at { dt { (title) } dd { (moment(at, now)) } } };
    html! {
        h1 { (id) }
        p.verdict { (how(run)) }
        dl {
            dt { "Job" } dd { a href={ "/jobs/" (run.job) } { (run.job) } }
            (text("Tick", &run.scheduled_for))
            (text("Replica", &run.replica))
            (text("Ordered by", &run.ordered_by))
            (at("Began", run.started_at.as_ref()))
            (at("Ended", run.finished_at.as_ref()))
            (text("Took", &took(run)))
            (text("Attempts", &run.attempts.to_string()))
            (text("Error", &run.error))
            (text("Said later by its owner", &run.late_outcome))
        }
        (commands(look, &words))
    }
}
