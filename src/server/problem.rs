//! Why a request gets nothing, as programs read it: RFC 9457, with a `code` that does not change.

use axum::body::Body;
use axum::http::HeaderValue;
use axum::http::StatusCode;
use axum::http::header;
use axum::response::IntoResponse;
use axum::response::Response;
use serde::Serialize;

/// See the module.
#[derive(Debug, Clone, Serialize)]
pub struct Problem {
    /// What kind it is: about this, there is no more to read than the code.
    #[serde(rename = "type")]
    kind: &'static str,
    /// The words of the status.
    title: &'static str,
    /// The status.
    status: u16,
    /// What programs decide by.
    pub code: &'static str,
    /// What was found, and what to do instead.
    pub detail: String,
}

impl Problem {
    /// A problem of this status.
    pub fn new(status: StatusCode, code: &'static str, detail: impl Into<String>) -> Self {
        let title = status.canonical_reason().unwrap_or("error");
        Self { kind: "about:blank", title, status: status.as_u16(), code, detail: detail.into() }
    }

    /// Its status.
    pub fn status(&self) -> StatusCode {
        StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        json(self.status(), "application/problem+json", &self)
    }
}

/// An answer for programs.
pub fn json(status: StatusCode, kind: &'static str, value: &impl Serialize) -> Response {
    // What is written here has names as keys and no maps of other keys, and so cannot fail.
    let text = serde_json::to_vec(value).unwrap_or_default();
    let mut response = Response::new(Body::from(text));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_has_its_status_in_words_and_numbers() {
        let problem = Problem::new(StatusCode::NOT_FOUND, "no_job", "the store knows no job `a`");
        let text = serde_json::to_value(&problem).unwrap();
        assert_eq!(
            (&text["status"], &text["title"], &text["code"]),
            (&404.into(), &"Not Found".into(), &"no_job".into())
        );
        let response = problem.into_response();
        assert_eq!(
            (response.status(), &response.headers()["content-type"]),
            (StatusCode::NOT_FOUND, &HeaderValue::from_static("application/problem+json"))
        );
    }
}
