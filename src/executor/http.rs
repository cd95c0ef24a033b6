//! Carries out a run that is an HTTP request: one request, the redirects that leave it as it is, and one answer, all in
//! bounded time and memory.
//!
//! A request is never repeated here: nothing of an earlier run is reused that could make one fail, and whether a failed
//! one is tried again is for the job's `retry`. Nor is it ever turned into another: what a POST is answered with a 302 was
//! not delivered, whatever a GET of the place it points to says.
//!
//! What errors show of an address is decided in `place.rs`.

mod gate;
mod lookup;
mod parts;
mod place;
mod route;
mod trust;

pub use gate::Gate;

use super::command::RunContext;
use super::output::lines::without_part_of_a_char;
use super::spawn_error::SpawnError;
use super::spawn_error::is_shortage;
use crate::causes;
use crate::job::EnvValue;
use crate::job::HttpSpec;
use crate::job::origin;
use crate::secret::LOOK_AHEAD;
use crate::secret::Redaction;
use gate::TooLate;
use lookup::Lookup;
use parts::Parts;
use place::Place;
use reqwest::Client;
use reqwest::Response;
use reqwest::StatusCode;
use reqwest::header::LOCATION;
use reqwest::redirect::Policy;
use route::Route;
use std::error::Error;
use std::future::Future;
use std::io;
use std::pin::pin;
use std::sync::Mutex;
use std::sync::MutexGuard;
use std::sync::PoisonError;
use tokio::sync::watch;
use tokio::time::sleep;
use tokio::time::timeout;
use trust::Lack;
use trust::Trust;

/// How much of an answer's body is kept.
const KEPT_MOST: usize = 1 << 10;
/// How much of it is read. Whoever says more has been heard: the status decides.
const READ_MOST: u64 = 16 << 20;
/// What is being done until something can be sent.
const CONNECT: &str = "connect";
/// How many redirects lead on.
const REDIRECTS_MOST: u32 = 10;

/// A request, ready to be sent.
#[derive(Debug)]
pub struct Request {
    spec: HttpSpec,
    place: Place,
    parts: Parts,
    route: Route,
    trust: Trust,
    keep: usize,
    redaction: Redaction,
}

/// What a message has in it.
#[derive(Clone)]
pub struct Content {
    /// Its type.
    pub content_type: &'static str,
    /// Its text, which may have a secret in it.
    pub text: String,
    /// Its name: whoever gets it twice can tell.
    pub id: String,
}

/// What a value is at this moment, wherever it comes from. It blocks, as long as the file system likes.
///
/// # Errors
/// It is not there, or is no text. The error names the source, and not what it says.
pub fn secret(value: &EnvValue, subject: &str) -> Result<String, SpawnError> {
    parts::string(subject, value)
}

/// What came of a request that was, or may have been, sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reply {
    /// The status of the answer, where its head came.
    pub status: Option<u16>,
    /// What was being done, at which host, and what was found instead of a success; empty for a success.
    pub error: String,
    /// The first bytes of the answer's body.
    pub body_head: String,
    /// All bytes of it that were read.
    pub body_bytes: u64,
}

impl Reply {
    /// Of a request that came to nothing on its way, after something may have been sent.
    pub fn failed(error: &Unsent) -> Self {
        Self { status: None, error: error.to_string(), body_head: String::new(), body_bytes: 0 }
    }
}

/// Why a request was not sent, although nothing is wrong with the job.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unsent {
    /// The gate was closed: somebody else may have the run.
    #[error(
        "send the request: the run's lease ended before the connection was there, so that somebody else may have it"
    )]
    TooLate,
    /// The system lacks something now that it may have later.
    #[error("send the request: {0}")]
    Shortage(String),
}

/// Why there is no success.
enum Failure {
    Unsent(Unsent),
    Failed(String),
}

/// How far it came. Read from outside when the time is over.
#[derive(Debug, Default)]
struct Progress {
    /// `POST http://host:80/path`
    to: String,
    doing: &'static str,
    status: Option<u16>,
    /// What is wrong with the answer, whatever its body says.
    refusal: Option<String>,
    head: Vec<u8>,
    bytes: u64,
}

impl Request {
    /// Reads what the table leaves to variables and files. It blocks, as long as the file system likes. Of the answer's
    /// body at most `keep` bytes are kept.
    ///
    /// # Errors
    /// Something is not there, or is nothing that a request can have.
    pub fn prepare(spec: &HttpSpec, context: &RunContext, keep: usize) -> Result<Self, SpawnError> {
        let place = Place::of(&spec.url, &context.redaction)?;
        Self::to(spec, (place, Parts::of(spec, context)?), (&context.redaction, keep))
    }

    /// The same of a message to a notifier: `spec` says how it is reached, and `address` makes the URL of what is found
    /// there. Of where it goes nothing is shown, and its body goes nowhere else.
    ///
    /// # Errors
    /// As above; what they say of a job is about the notifier.
    pub fn message(
        spec: &HttpSpec,
        address: impl FnOnce(&str) -> String,
        (body, redaction): (Content, &Redaction),
    ) -> Result<Self, SpawnError> {
        let place = Place::hidden(&address(&secret(&spec.url, "`url`")?))?;
        Self::to(spec, (place, Parts::of_message(spec, body)?), (redaction, 0))
    }

    fn to(
        spec: &HttpSpec,
        (place, parts): (Place, Parts),
        (redaction, keep): (&Redaction, usize),
    ) -> Result<Self, SpawnError> {
        let route = Route::of(&spec.proxy, redaction)?;
        route.to(&place.url).map_err(|found| SpawnError::UnusableProxy { found })?;
        Ok(Self {
            place,
            parts,
            route,
            trust: Trust::of(spec.ca_file.as_deref())?,
            keep: keep.min(KEPT_MOST),
            redaction: redaction.clone(),
            spec: spec.clone(),
        })
    }

    /// Sends it and reads the answer. Ends when `stop` does, at the latest after the request's timeout.
    ///
    /// Cancel safety: dropping the future closes the connection.
    ///
    /// # Errors
    /// Nothing was sent, and another try may be better off.
    pub async fn perform(self, gate: Gate, stop: impl Future<Output = ()>) -> Result<Reply, Unsent> {
        let (keep, total, redaction) = (self.keep, self.spec.timeout, self.redaction.clone());
        let to = format!("{} {}", self.spec.method, self.place);
        let progress = Mutex::new(Progress { to, doing: CONNECT, ..Progress::default() });
        let exchanged = {
            let mut exchange = pin!(self.exchange(&gate, &progress));
            tokio::select! {
                biased;
                () = stop => Err(Failure::Failed("given up".to_owned())),
                exchanged = &mut exchange => exchanged,
                () = sleep(total) => Err(Failure::Failed(format!("not done within {total:?}, the request's `timeout`"))),
            }
        };
        let progress = progress.into_inner().unwrap_or_else(PoisonError::into_inner);
        let Progress { to, doing, status, refusal, head, bytes } = progress;
        let error = match (refusal, exchanged) {
            (Some(refusal), _) => format!("{to}: the status of the answer is {refusal}"),
            (None, Ok(())) => String::new(),
            (None, Err(Failure::Unsent(unsent))) => return Err(unsent),
            (None, Err(Failure::Failed(found))) => format!("{to}: {doing}: {found}"),
        };
        Ok(Reply { status, error, body_head: text(&redaction, &head, keep), body_bytes: bytes })
    }

    async fn exchange(mut self, gate: &Gate, progress: &Mutex<Progress>) -> Result<(), Failure> {
        for redirects in 0..=REDIRECTS_MOST {
            let mut response = self.hop(gate, progress).await?;
            let status = response.status();
            if self.spec.expects(status.as_u16()) {
                return read(&mut response, progress).await;
            }
            let refusal = match self.next(&response) {
                Some(Ok(place)) if redirects < REDIRECTS_MOST => {
                    self.turn_to(place);
                    continue;
                }
                Some(Ok(_)) => format!("redirected {REDIRECTS_MOST} times, and once more"),
                Some(Err(refusal)) => refusal,
                None => format!("{} is expected", self.spec.expected_text()),
            };
            lock(progress).refusal = Some(format!("{status}: {refusal}"));
            // What it says is worth keeping.
            return read(&mut response, progress).await;
        }
        unreachable!("the last turn returns")
    }

    /// One request, up to the head of its answer.
    async fn hop(&mut self, gate: &Gate, progress: &Mutex<Progress>) -> Result<Response, Failure> {
        let through = self.route.to(&self.place.url).map_err(Failure::Failed);
        let to = format!("{} {}", self.spec.method, self.place);
        {
            let mut progress = lock(progress);
            progress.to = match &through {
                Ok(Some(proxy)) => format!("{to} through the proxy {}", proxy.shown),
                _ => to,
            };
            (progress.doing, progress.status) = (CONNECT, None);
        }
        let through = through?;
        let secure = self.place.url.scheme() == "https" || through.as_ref().is_some_and(|proxy| proxy.is_secure);
        let tls = self.trust.config(secure).await.map_err(|lack| match lack {
            Lack::OfNow(found) => Failure::Unsent(Unsent::Shortage(found)),
            Lack::OfCertificates(found) => Failure::Failed(found),
        })?;
        // A client of its own for each request: no connection outlives it, and none is found broken by a later one.
        let mut client = Client::builder()
            .no_proxy()
            .redirect(Policy::none())
            .retry(reqwest::retry::never())
            .referer(false)
            .http1_only()
            .pool_max_idle_per_host(0)
            .connect_timeout(self.spec.connect_timeout)
            .tls_backend_preconfigured(tls)
            .dns_resolver(Lookup)
            .connector_layer(gate.clone());
        if let Some(proxy) = through {
            client = client.proxy(proxy.proxy);
        }
        let client = client.build().map_err(|error| self.failure(error))?;
        let request = self.parts.request(&self.spec.method, &self.place.url).map_err(Failure::Failed)?;
        let mut connections = gate.connections();
        let before = *connections.borrow();
        let mut answer = pin!(client.execute(request));
        let head = tokio::select! {
            biased;
            head = &mut answer => head,
            () = passed(&mut connections, before) => {
                lock(progress).doing = "wait for the head of the answer";
                let most = self.spec.first_byte_timeout;
                match timeout(most, &mut answer).await {
                    Ok(head) => head,
                    Err(_) => return Err(Failure::Failed(format!("nothing whole came within {most:?}"))),
                }
            }
        };
        let response = head.map_err(|error| self.failure(error))?;
        lock(progress).status = Some(response.status().as_u16());
        Ok(response)
    }

    /// Where the answer says to look instead; or why that is not done.
    fn next(&self, response: &Response) -> Option<Result<Place, String>> {
        let status = response.status();
        let keeps_method = matches!(status, StatusCode::TEMPORARY_REDIRECT | StatusCode::PERMANENT_REDIRECT);
        let is_redirect =
            keeps_method || matches!(status, StatusCode::MOVED_PERMANENTLY | StatusCode::FOUND | StatusCode::SEE_OTHER);
        if !is_redirect {
            return None;
        }
        let location = response.headers().get(LOCATION).and_then(|value| value.to_str().ok());
        let place = match location.and_then(|location| self.place.leads_to(location, &self.redaction)) {
            None => return Some(Err("it redirects, and says to no URL".to_owned())),
            Some(Err(found)) => return Some(Err(format!("it redirects to what {found}"))),
            Some(Ok(place)) => place,
        };
        let method = &self.spec.method;
        let same_place = origin(&place.url) == origin(&self.place.url);
        Some(if !self.spec.follow_redirects {
            Err(format!("it redirects to {place}, and `followRedirects` is false"))
        } else if !keeps_method && !self.spec.is_safe() {
            Err(format!(
                "it redirects to {place}, which would turn the {method} into a GET: write the `url` that takes it"
            ))
        } else if self.place.url.scheme() == "https" && place.url.scheme() == "http" {
            Err(format!("it redirects to {place}, which is not encrypted as the request is"))
        } else if !same_place && self.parts.has_secret_body() {
            Err(format!("it redirects to {place}, where a body that comes from a file or a variable is not sent"))
        } else {
            Ok(place)
        })
    }

    fn turn_to(&mut self, place: Place) {
        if origin(&place.url) != origin(&self.place.url) {
            self.parts.leave_home();
        }
        self.place = place;
    }

    fn failure(&self, error: reqwest::Error) -> Failure {
        let error = error.without_url();
        if causes::all(&error).any(|cause| cause.is::<TooLate>()) {
            return Failure::Unsent(Unsent::TooLate);
        }
        let words = self.place.clean(&causes::found(&error));
        let short = |cause: &(dyn Error + 'static)| cause.downcast_ref::<io::Error>().is_some_and(is_shortage);
        if error.is_connect() && causes::all(&error).any(short) {
            return Failure::Unsent(Unsent::Shortage(format!("connect to {}: {words}", self.place)));
        }
        if error.is_connect() && error.is_timeout() {
            return Failure::Failed(format!("no connection within {:?}", self.spec.connect_timeout));
        }
        Failure::Failed(format!("{words}{}", self.trust.advice(&words)))
    }
}

/// Ends when more connections than these have passed the gate.
async fn passed(connections: &mut watch::Receiver<u32>, before: u32) {
    // Fails only when the gate is gone, and that is ours.
    let _ = connections.wait_for(|count| *count > before).await;
}

/// Reads the body: its beginning is kept, the rest is passed over.
async fn read(response: &mut Response, progress: &Mutex<Progress>) -> Result<(), Failure> {
    lock(progress).doing = "read the body of the answer";
    loop {
        let chunk = response.chunk().await.map_err(|error| {
            let read = lock(progress).bytes;
            Failure::Failed(format!("{} (after {read} bytes)", causes::found(&error.without_url())))
        })?;
        let Some(chunk) = chunk else { return Ok(()) };
        let mut progress = lock(progress);
        let room = (KEPT_MOST + LOOK_AHEAD).saturating_sub(progress.head.len()).min(chunk.len());
        progress.head.extend_from_slice(&chunk[..room]);
        progress.bytes += chunk.len() as u64;
        if progress.bytes >= READ_MOST {
            return Ok(());
        }
    }
}

fn lock(progress: &Mutex<Progress>) -> MutexGuard<'_, Progress> {
    progress.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The first bytes as text: whole characters only, not longer than asked for, and without what is to be hidden.
fn text(redaction: &Redaction, head: &[u8], most: usize) -> String {
    let cut = &head[..head.len().min(most)];
    let cut = if cut.len() < head.len() { without_part_of_a_char(cut) } else { cut };
    let mut text = String::from_utf8_lossy(cut).into_owned();
    if !redaction.is_empty() {
        text = redaction.beginning(&String::from_utf8_lossy(head), text.len());
    }
    // A bad byte becomes three good ones.
    text.truncate(text.floor_char_boundary(most));
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::secret::Rule;

    fn shown(head: &[u8], most: usize) -> String {
        text(&Redaction::default(), head, most)
    }

    #[test]
    fn a_body_that_is_cut_ends_with_no_half_of_a_secret() {
        let redaction: Redaction = [Rule::new("secret-[0-9]{4}").unwrap()].into_iter().collect();
        let body = b"one\nab secret-1234 cd\n";
        assert_eq!(text(&redaction, body, 9), "one\nab [r");
        assert_eq!(text(&redaction, body, 100), "one\nab [redacted] cd\n");
    }

    #[test]
    fn the_kept_text_is_whole_and_bounded() {
        assert_eq!(shown("ääää".as_bytes(), 5), "ää");
        assert_eq!(shown(b"abc", 5), "abc");
        assert_eq!(shown(b"\xff\xff\xff", 4), "\u{fffd}");
        assert_eq!(shown(b"abc", 0), "");
        assert_eq!(shown(b"ab\xc3", 3), "ab\u{fffd}"[..2].to_owned());
    }
}
