//! Probes. They look at this process and never at the store, whose outages are no reason to restart anything.

use super::Site;
use axum::extract::RawQuery;
use axum::extract::State;
use axum::http::HeaderValue;
use axum::http::StatusCode;
use axum::http::header;
use axum::response::IntoResponse;
use axum::response::Response;
use std::sync::Arc;
use url::form_urlencoded;

/// A short answer for people and probes.
fn text(status: StatusCode, text: String) -> Response {
    (status, text).into_response()
}

/// Whether the scheduler goes round.
pub async fn livez(State(site): State<Arc<Site>>) -> Response {
    match site.parts.board.stuck_for(site.parts.clock.now().boot) {
        None => text(StatusCode::OK, "ok\n".into()),
        Some(since) => {
            text(StatusCode::SERVICE_UNAVAILABLE, format!("the scheduler has stood still for {} s\n", since.as_secs()))
        }
    }
}

/// Whether a rollout may go on. Each check, where `verbose` is asked for or one fails.
pub async fn readyz(State(site): State<Arc<Site>>, RawQuery(query): RawQuery) -> Response {
    let checks = site.parts.board.checks();
    let is_ready = checks.iter().all(|(_, holds)| *holds);
    let query = query.unwrap_or_default();
    let is_verbose = form_urlencoded::parse(query.as_bytes()).any(|(key, _)| key == "verbose");
    let line = |(name, holds): &(&str, bool)| format!("{} {name}\n", if *holds { "yes" } else { "no " });
    let lines = if is_ready && !is_verbose { String::new() } else { checks.iter().map(line).collect() };
    let (status, word) = if is_ready { (StatusCode::OK, "ok") } else { (StatusCode::SERVICE_UNAVAILABLE, "not ready") };
    text(status, format!("{lines}{word}\n"))
}

/// Metrics of this replica, and of the fleet as it knows it.
pub async fn metrics(State(site): State<Arc<Site>>) -> Response {
    let kind = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
    ([(header::CONTENT_TYPE, kind)], site.parts.metrics.render()).into_response()
}
