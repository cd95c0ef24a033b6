//! Who may act: whoever has the content of a file. Without a file, nobody. And who may read: everybody, or whoever has the
//! content of another file.

use super::Site;
use super::problem::Problem;
use super::serve::Remote;
use super::turn::Turn;
use crate::clock::Boot;
use crate::file;
use crate::secret::Secret;
use crate::telemetry::events;
use axum::extract::MatchedPath;
use axum::extract::Request;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::http::HeaderValue;
use axum::http::StatusCode;
use axum::http::header;
use axum::middleware::Next;
use axum::response::IntoResponse;
use axum::response::Response;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use std::path::Path;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::time::Duration;
use subtle::ConstantTimeEq;

/// A shorter token can be guessed.
const LEAST: usize = 16;
const MOST: u64 = 4096;
/// How long the file may take.
const READ_WITHIN: Duration = Duration::from_secs(2);
/// What needs no token: probes and Prometheus have none.
const OPEN: [&str; 3] = ["/livez", "/readyz", "/metrics"];
/// So often at most it is said that somebody was denied.
const SAID_EVERY: Duration = Duration::from_secs(10);

/// See the module.
#[derive(Debug)]
pub struct Token {
    file: Option<PathBuf>,
    turn: Turn,
    denied: Mutex<Denied>,
}

#[derive(Debug, Default)]
struct Denied {
    said_at: Option<Boot>,
    /// Since then.
    unsaid: u64,
}

/// Reads a token.
///
/// # Errors
/// In words: the file cannot be read, or has no token that is worth the name.
pub fn read(file: &Path) -> Result<Secret<String>, String> {
    let text = file::read_text(file, MOST).map_err(|error| error.to_string())?;
    let text = text.trim();
    let is_one = text.len() >= LEAST && text.bytes().all(|byte| byte.is_ascii_graphic());
    let refused = || format!("a token is one word of at least {LEAST} letters and digits");
    if is_one { Ok(Secret::new(text.to_owned())) } else { Err(refused()) }
}

impl Token {
    /// In a file, that is read at each request: it may be another by then.
    pub fn new(file: Option<PathBuf>) -> Self {
        Self { file, turn: Turn::default(), denied: Mutex::default() }
    }

    fn file(&self) -> Result<PathBuf, Problem> {
        let detail =
            "this daemon has no token, and so nobody may act: start it with --api-token-file, or use the command line";
        self.file.clone().ok_or_else(|| Problem::new(StatusCode::FORBIDDEN, "actions_disabled", detail))
    }

    async fn wanted(&self) -> Result<Secret<String>, Problem> {
        let file = self.file()?;
        let unreadable = |detail: String| Problem::new(StatusCode::SERVICE_UNAVAILABLE, "token_unreadable", detail);
        match self.turn.read(READ_WITHIN, move || read(&file)).await {
            Some(Ok(token)) => Ok(token),
            Some(Err(error)) => Err(unreadable(format!("the daemon cannot read its token file: {error}"))),
            None => Err(unreadable("the file with the daemon's token has not answered in time".into())),
        }
    }
}

/// Whether a request has the token.
///
/// # Errors
/// It has not, or there is none.
pub async fn check(site: &Site, headers: &HeaderMap, (route, remote): (&str, Remote)) -> Result<(), Problem> {
    // Whoever brings nothing is answered without a look at the file.
    site.token.file()?;
    let given = bearer(headers).ok_or_else(missing)?;
    if is_same(given, &site.token.wanted().await?) {
        return Ok(());
    }
    Err(site.token.denied(site.parts.clock.now().boot, (route, remote)))
}

/// Lets through what anybody may ask, and whoever has one of the two tokens: as a bearer, or as the password of a browser.
pub async fn guard(
    State(site): State<Arc<Site>>,
    route: Option<MatchedPath>,
    request: Request,
    next: Next,
) -> Response {
    let Some(reading) = &site.read_token else { return next.run(request).await };
    let route = route.as_ref().map_or("other", MatchedPath::as_str);
    if OPEN.contains(&route) {
        return next.run(request).await;
    }
    let headers = request.headers();
    let Some(given) = bearer(headers).map(str::to_owned).or_else(|| password(headers)) else {
        return with_question(missing());
    };
    let wanted = match reading.wanted().await {
        Ok(wanted) => wanted,
        Err(problem) => return problem.into_response(),
    };
    if is_same(&given, &wanted) {
        return next.run(request).await;
    }
    // Whoever may act may read. Without a token for actions nobody is that; with one that cannot be read, nobody can say who
    // is.
    if site.token.file.is_some() {
        match site.token.wanted().await {
            Ok(wanted) if is_same(&given, &wanted) => return next.run(request).await,
            Ok(_) => {}
            Err(problem) => return problem.into_response(),
        }
    }
    let remote = request.extensions().get::<Remote>().copied();
    let remote = remote.unwrap_or(Remote(([0, 0, 0, 0], 0).into()));
    with_question(reading.denied(site.parts.clock.now().boot, (route, remote)))
}

fn missing() -> Problem {
    Problem::new(StatusCode::UNAUTHORIZED, "token_missing", "write `Authorization: Bearer ` and the token")
}

fn with_question(problem: Problem) -> Response {
    let mut response = problem.into_response();
    // A browser asks for a password then: the user's name does not matter.
    response
        .headers_mut()
        .insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Basic realm=\"onecron\", charset=\"UTF-8\""));
    response
}

fn bearer(headers: &HeaderMap) -> Option<&str> {
    credentials(headers, "bearer")
}

/// Of `Authorization: Basic`, whatever the user is called.
fn password(headers: &HeaderMap) -> Option<String> {
    let bytes = STANDARD.decode(credentials(headers, "basic")?).ok()?;
    Some(String::from_utf8(bytes).ok()?.split_once(':')?.1.to_owned())
}

fn credentials<'a>(headers: &'a HeaderMap, kind: &str) -> Option<&'a str> {
    let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (found, given) = value.split_once(' ')?;
    found.eq_ignore_ascii_case(kind).then(|| given.trim())
}

/// Without telling by the time it takes how much of it is right.
fn is_same(given: &str, wanted: &Secret<String>) -> bool {
    given.as_bytes().ct_eq(wanted.expose().as_bytes()).into()
}

impl Token {
    /// Says that somebody brought a wrong one. Who brings none is not worth a line: scanners and browsers begin so.
    fn denied(&self, now: Boot, asked: (&str, Remote)) -> Problem {
        self.say_denied(now, asked);
        Problem::new(StatusCode::UNAUTHORIZED, "token_wrong", "that is not this daemon's token")
    }

    fn say_denied(&self, now: Boot, (route, Remote(remote)): (&str, Remote)) {
        let mut denied = self.denied.lock().unwrap_or_else(PoisonError::into_inner);
        denied.unsaid += 1;
        if denied.said_at.is_none_or(|said| now.since(said) >= SAID_EVERY) {
            events::api_denied(route, remote.ip(), denied.unsaid);
            *denied = Denied { said_at: Some(now), unsaid: 0 };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_one_long_word() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("token");
        for (text, is_one) in [
            ("0123456789abcdef\n", true),
            ("0123456789abcde\n", false),
            ("", false),
            ("two words are not a token", false),
            // Its beginning is a token, but nobody meant that one.
            (&"x".repeat(MOST as usize + 1), false),
        ] {
            std::fs::write(&file, text).unwrap();
            assert_eq!(read(&file).is_ok(), is_one, "{text:?}");
        }
        assert!(read(&folder.path().join("none")).is_err());
    }
}
