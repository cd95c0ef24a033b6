//! Which path is answered by what, and what all answers have in common.

use super::Site;
use super::actions;
use super::api;
use super::gzip;
use super::health;
use super::page;
use super::problem::Problem;
use super::token;
use axum::Router;
use axum::extract::MatchedPath;
use axum::extract::Request;
use axum::extract::State;
use axum::http::HeaderName;
use axum::http::HeaderValue;
use axum::http::Method;
use axum::http::StatusCode;
use axum::http::Uri;
use axum::http::header;
use axum::middleware;
use axum::middleware::Next;
use axum::response::Response;
use axum::routing::get;
use axum::routing::post;
use std::sync::Arc;

/// Headers of every answer. Nothing is loaded from elsewhere, nothing is run, nothing is framed, nothing is kept.
const HEADERS: [(HeaderName, &str); 6] = [
    (
        header::CONTENT_SECURITY_POLICY,
        "default-src 'none'; style-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'",
    ),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::X_FRAME_OPTIONS, "DENY"),
    (header::REFERRER_POLICY, "no-referrer"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    (header::CACHE_CONTROL, "no-store"),
];

/// All that is routed, by names that do not change with what is asked for.
const ROUTES: [&str; 23] = [
    "/livez",
    "/readyz",
    "/metrics",
    "/",
    "/jobs/{name}",
    "/runs/{run_id}",
    "/style.css",
    "/openapi.json",
    "/api/v1/status",
    "/api/v1/jobs",
    "/api/v1/jobs/{name}",
    "/api/v1/jobs/{name}/runs",
    "/api/v1/jobs/{name}/why",
    "/api/v1/jobs/{name}/trigger",
    "/api/v1/jobs/{name}/pause",
    "/api/v1/jobs/{name}/resume",
    "/api/v1/runs/{run_id}",
    "/api/v1/runs/{run_id}/output",
    "/api/v1/runs/{run_id}/cancel",
    "/api/v1/replicas",
    "/api/v1/version",
    "/api/v1/config",
    "/api/v1/reload",
];
const METHODS: [&str; 4] = ["GET", "HEAD", "POST", "OPTIONS"];

/// All paths.
pub(super) fn router(site: Arc<Site>) -> Router {
    Router::new()
        .route("/livez", get(health::livez))
        .route("/readyz", get(health::readyz))
        .route("/metrics", get(health::metrics))
        .route("/", get(page::fleet))
        .route("/jobs/{name}", get(page::job))
        .route("/runs/{run_id}", get(page::run))
        .route("/style.css", get(page::style))
        .route("/openapi.json", get(api::openapi))
        .route("/api/v1/status", get(api::status))
        .route("/api/v1/jobs", get(api::jobs))
        .route("/api/v1/jobs/{name}", get(api::job))
        .route("/api/v1/jobs/{name}/runs", get(api::runs))
        .route("/api/v1/jobs/{name}/why", get(api::why))
        .route("/api/v1/jobs/{name}/trigger", post(actions::trigger))
        .route("/api/v1/jobs/{name}/pause", post(actions::pause))
        .route("/api/v1/jobs/{name}/resume", post(actions::resume))
        .route("/api/v1/runs/{run_id}", get(api::run))
        .route("/api/v1/runs/{run_id}/output", get(actions::output))
        .route("/api/v1/runs/{run_id}/cancel", post(actions::cancel))
        .route("/api/v1/replicas", get(api::replicas))
        .route("/api/v1/version", get(api::version))
        .route("/api/v1/config", get(api::config))
        .route("/api/v1/reload", post(actions::reload))
        .fallback(not_found)
        .method_not_allowed_fallback(not_allowed)
        .layer(middleware::from_fn_with_state(Arc::clone(&site), token::guard))
        .layer(middleware::from_fn(gzip::pack))
        .layer(middleware::from_fn_with_state(Arc::clone(&site), count))
        .with_state(site)
}

/// Counts a request by its route, and not by what stands in its path: whoever asks decides that, and could fill a table with it.
async fn count(State(site): State<Arc<Site>>, route: Option<MatchedPath>, request: Request, next: Next) -> Response {
    let known = |all: &[&'static str], word: &str| all.iter().copied().find(|one| *one == word).unwrap_or("other");
    let route = route.map_or("other", |route| known(&ROUTES, route.as_str()));
    let method = known(&METHODS, request.method().as_str());
    let response = next.run(request).await;
    site.parts.metrics.http_request(route, method, response.status().as_u16());
    response
}

/// Adds what all answers have.
pub(super) fn dress(response: &mut Response) {
    for (name, value) in HEADERS {
        response.headers_mut().entry(name).or_insert(HeaderValue::from_static(value));
    }
}

/// What a client is told that has not begun to encrypt.
pub(super) fn not_encrypted() -> Router {
    Router::new().fallback(async || {
        let detail = "this port speaks TLS, and nothing is answered without: write https:// instead of http://";
        Problem::new(StatusCode::BAD_REQUEST, "tls_only", detail)
    })
}

async fn not_found(uri: Uri) -> Problem {
    Problem::new(StatusCode::NOT_FOUND, "not_found", format!("there is no {}", uri.path()))
}

async fn not_allowed(method: Method, uri: Uri) -> Problem {
    let detail = format!("{} does not take {method}: the header Allow says what it takes", uri.path());
    Problem::new(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", detail)
}

#[cfg(test)]
mod tests {
    use serde_json::Value;
    use std::collections::BTreeSet;

    /// `GET /livez`, as they stand in the router above.
    fn every_route() -> BTreeSet<String> {
        let lines = include_str!("routes.rs").lines().filter_map(|line| line.trim().strip_prefix(".route(\""));
        lines
            .map(|line| {
                let (path, rest) = line.split_once('"').unwrap();
                let method = if rest.contains("get(") { "get" } else { "post" };
                format!("{method} {path}")
            })
            .collect()
    }

    fn routed() -> BTreeSet<String> {
        every_route().into_iter().filter(|route| !PAGES.contains(&route.as_str())).collect()
    }

    /// For people.
    const PAGES: [&str; 4] = ["get /", "get /jobs/{name}", "get /runs/{run_id}", "get /style.css"];

    #[test]
    fn every_route_is_counted_by_its_name() {
        let all: BTreeSet<String> =
            every_route().iter().map(|route| route.split_once(' ').unwrap().1.to_owned()).collect();
        assert_eq!(all, super::ROUTES.map(str::to_owned).into());
    }

    #[test]
    fn every_route_for_programs_is_documented_and_no_other() {
        let document: Value = serde_json::from_str(include_str!("openapi.json")).unwrap();
        let mut documented = BTreeSet::new();
        for (path, methods) in document["paths"].as_object().unwrap() {
            documented.extend(methods.as_object().unwrap().keys().map(|method| format!("{method} {path}")));
        }
        assert_eq!(routed(), documented);
    }
}
