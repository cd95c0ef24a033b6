//! What stands in a path in the place of a name.

use super::api::bad;
use super::problem::Problem;
use axum::extract::FromRequestParts;
use axum::extract::Path;
use axum::http::request::Parts;

/// One part of a path. What is no text is answered like all that cannot be meant, and not by axum's own words.
#[derive(Debug)]
pub struct Segment(pub String);

impl<S: Send + Sync> FromRequestParts<S> for Segment {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let path = Path::<String>::from_request_parts(parts, state).await;
        path.map(|Path(text)| Self(text))
            .map_err(|_| bad(format!("{}: what stands behind a `%` there is no UTF-8", parts.uri.path())))
    }
}
