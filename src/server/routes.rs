//! Which path is answered by what, and what all answers have in common.

use super::Parts;
use super::health;
use super::problem::Problem;
use axum::Router;
use axum::http::HeaderName;
use axum::http::HeaderValue;
use axum::http::Method;
use axum::http::StatusCode;
use axum::http::Uri;
use axum::http::header;
use axum::response::Response;
use axum::routing::get;

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

/// All paths.
pub(super) fn router(parts: Parts) -> Router {
    Router::new()
        .route("/livez", get(health::livez))
        .route("/readyz", get(health::readyz))
        .route("/metrics", get(health::metrics))
        .fallback(not_found)
        .method_not_allowed_fallback(not_allowed)
        .with_state(parts)
}

/// Adds what all answers have.
pub(super) fn dress(response: &mut Response) {
    for (name, value) in HEADERS {
        response.headers_mut().entry(name).or_insert(HeaderValue::from_static(value));
    }
}

async fn not_found(uri: Uri) -> Problem {
    Problem::new(StatusCode::NOT_FOUND, "not_found", format!("there is no {}", uri.path()))
}

async fn not_allowed(method: Method, uri: Uri) -> Problem {
    let detail = format!("{} does not take {method}: the header Allow says what it takes", uri.path());
    Problem::new(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", detail)
}
