//! Address, header lines and body of a request, with what variables and files have for it at this moment.

use super::Content;
use crate::executor::command::RunContext;
use crate::executor::spawn_error::SpawnError;
use crate::executor::variables;
use crate::executor::variables::Wanted;
use crate::job::EnvValue;
use crate::job::HttpSpec;
use crate::job::TraceContext;
use crate::job::is_header_value;
use crate::job::request_url;
use reqwest::Method;
use reqwest::header::ACCEPT;
use reqwest::header::ACCEPT_ENCODING;
use reqwest::header::ACCEPT_LANGUAGE;
use reqwest::header::CONTENT_LENGTH;
use reqwest::header::CONTENT_TYPE;
use reqwest::header::HeaderMap;
use reqwest::header::HeaderName;
use reqwest::header::HeaderValue;
use reqwest::header::USER_AGENT;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use url::Url;

/// How long a header line's value or an address may be.
const VALUE_BYTES_MOST: usize = 64 << 10;
/// How long a body may be.
const BODY_BYTES_MOST: usize = 1 << 20;

/// What goes along to another place than the one that the table names: no secret is in these.
const HARMLESS: [HeaderName; 5] = [ACCEPT, ACCEPT_ENCODING, ACCEPT_LANGUAGE, CONTENT_TYPE, USER_AGENT];

/// What is sent.
#[derive(Debug)]
pub(super) struct Parts {
    /// The job's own lines.
    headers: HeaderMap,
    /// Those that tell of the run.
    told: HeaderMap,
    body: Option<Vec<u8>>,
    is_secret: bool,
}

impl Parts {
    pub(super) fn of(spec: &HttpSpec, context: &RunContext) -> Result<Self, SpawnError> {
        let headers = headers_of(spec)?;
        let body = spec.body.as_ref().map(|body| {
            let wanted = Wanted { subject: "`http.body`", most: BODY_BYTES_MOST };
            variables::value_of(wanted, body).map(OsString::into_vec)
        });
        let mut told = told(context)?;
        if headers.contains_key("traceparent") {
            // The job says itself what it is a part of.
            told.remove("traceparent");
            told.remove("tracestate");
        }
        Ok(Self {
            headers,
            told,
            body: body.transpose()?,
            is_secret: spec.body.as_ref().is_some_and(|body| !matches!(body, EnvValue::Text(_))),
        })
    }

    /// Of a message that is no run.
    pub(super) fn of_message(spec: &HttpSpec, content: Content) -> Result<Self, SpawnError> {
        let mut headers = headers_of(spec)?;
        // Whoever says another type means it.
        headers.entry(CONTENT_TYPE).or_insert(HeaderValue::from_static(content.content_type));
        let told = told_lines([("idempotency-key", content.id)])?;
        Ok(Self { headers, told, body: Some(content.text.into_bytes()), is_secret: true })
    }

    /// Whether the body is not to be sent to another place.
    pub(super) fn has_secret_body(&self) -> bool {
        self.is_secret
    }

    /// From now on it is sent to another place than the table names.
    pub(super) fn leave_home(&mut self) {
        let names: Vec<HeaderName> = self.headers.keys().filter(|name| !HARMLESS.contains(name)).cloned().collect();
        for name in names {
            self.headers.remove(name);
        }
    }

    /// The request to an address.
    pub(super) fn request(&self, method: &str, url: &Url) -> Result<reqwest::Request, String> {
        let method = Method::from_bytes(method.as_bytes()).map_err(|_| format!("`{method}` is no method"))?;
        let mut request = reqwest::Request::new(method, url.clone());
        request.headers_mut().extend(self.headers.clone());
        request.headers_mut().extend(self.told.clone());
        if self.body.is_none() && matches!(request.method().as_str(), "POST" | "PUT" | "PATCH") {
            // Without it some servers wait for a body, and others answer 411.
            request.headers_mut().insert(CONTENT_LENGTH, HeaderValue::from_static("0"));
        }
        *request.body_mut() = self.body.clone().map(Into::into);
        Ok(request)
    }
}

/// The lines that the table has, and those that each request has.
fn headers_of(spec: &HttpSpec) -> Result<HeaderMap, SpawnError> {
    let mut headers = HeaderMap::new();
    headers.insert(USER_AGENT, HeaderValue::from_static(concat!("onecron/", env!("CARGO_PKG_VERSION"))));
    // What is kept of the answer is to be readable.
    headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
    for (name, value) in &spec.headers {
        let subject = format!("header `{name}`");
        let mut value = header(&subject, value)?;
        value.set_sensitive(true);
        let name = HeaderName::from_bytes(name.as_bytes()).map_err(|_| unusable(&subject, "is no header"))?;
        headers.insert(name, value);
    }
    Ok(headers)
}

/// An address of a request or of a proxy.
pub(super) fn address(value: &EnvValue, subject: &str) -> Result<Url, SpawnError> {
    let text = string(subject, value)?;
    request_url(text.trim()).map_err(|error| unusable(subject, error.found))
}

/// A text.
pub(super) fn string(subject: &str, value: &EnvValue) -> Result<String, SpawnError> {
    let found = variables::value_of(Wanted { subject, most: VALUE_BYTES_MOST }, value)?;
    found.into_string().map_err(|_| unusable(subject, "is not UTF-8"))
}

/// What was read is nothing that can be used. It may be a secret, and is not repeated.
pub(super) fn unusable(subject: &str, found: &str) -> SpawnError {
    SpawnError::UnusableValue { subject: subject.to_owned(), found: found.to_owned() }
}

fn header(subject: &str, value: &EnvValue) -> Result<HeaderValue, SpawnError> {
    let bytes = variables::value_of(Wanted { subject, most: VALUE_BYTES_MOST }, value)?.into_vec();
    let value = HeaderValue::from_bytes(&bytes).ok().filter(|_| is_header_value(&bytes));
    value.ok_or_else(|| unusable(subject, "has a line end or another control character in it"))
}

/// The lines that tell a server about the run.
fn told(context: &RunContext) -> Result<HeaderMap, SpawnError> {
    let lines = [
        ("idempotency-key", context.run.to_string()),
        ("onecron-job", context.run.job.to_string()),
        ("onecron-run-id", context.run.to_string()),
        ("onecron-scheduled-for", context.scheduled_for.to_string()),
        ("onecron-attempt", context.start.to_string()),
        ("onecron-trigger", context.trigger.clone()),
        ("onecron-fencing-token", context.token.to_string()),
        ("onecron-replica", context.holder.to_string()),
        ("onecron-last-success", context.last_success.map_or_else(String::new, |tick| tick.to_string())),
        ("traceparent", context.trace.as_ref().map(TraceContext::traceparent).unwrap_or_default()),
        ("tracestate", context.trace.as_ref().map(|trace| trace.state.clone()).unwrap_or_default()),
    ];
    told_lines(lines)
}

fn told_lines<const N: usize>(lines: [(&'static str, String); N]) -> Result<HeaderMap, SpawnError> {
    let mut headers = HeaderMap::new();
    // Proxies differ about lines without a value: where there is no success, there is no line.
    for (name, value) in lines.into_iter().filter(|(_, value)| !value.is_empty()) {
        let value = HeaderValue::try_from(value).map_err(|_| unusable(name, "cannot be sent"))?;
        headers.insert(HeaderName::from_static(name), value);
    }
    Ok(headers)
}
