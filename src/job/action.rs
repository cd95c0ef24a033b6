//! What a run does: a process, or a request. Data only.

use super::spec::CommandSpec;
use super::spec::EnvValue;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

/// What each run of a job does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Starts a process on the replica that has the run.
    Command(CommandSpec),
    /// Sends a request, and waits for its answer.
    /// Boxed: most jobs are commands, and a table has thousands.
    Http(Box<HttpSpec>),
}

impl Action {
    /// Whether it was a success. A process says it by its exit code; one that a signal ended has none. A request by the
    /// status of its answer; one without an answer has none.
    pub fn is_success(&self, code: Option<i32>, status: Option<u16>) -> bool {
        match self {
            Self::Command(command) => command.is_success(code),
            Self::Http(http) => status.is_some_and(|status| http.expects(status)),
        }
    }

    /// The process, where it is one.
    pub const fn command(&self) -> Option<&CommandSpec> {
        match self {
            Self::Command(command) => Some(command),
            Self::Http(_) => None,
        }
    }

    /// The request, where it is one.
    pub const fn http(&self) -> Option<&HttpSpec> {
        match self {
            Self::Command(_) => None,
            Self::Http(http) => Some(http),
        }
    }
}

impl From<CommandSpec> for Action {
    fn from(command: CommandSpec) -> Self {
        Self::Command(command)
    }
}

impl From<HttpSpec> for Action {
    fn from(http: HttpSpec) -> Self {
        Self::Http(Box::new(http))
    }
}

/// An HTTP request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpSpec {
    /// `GET`, `POST`, …
    pub method: String,
    /// An absolute `http` or `https` URL without user and password. It may be a secret as a whole.
    pub url: EnvValue,
    /// Header lines; no two names differ in case only.
    pub headers: Vec<(String, EnvValue)>,
    /// What is sent after them.
    pub body: Option<EnvValue>,
    /// The statuses that are a success. Never empty.
    pub expect_status: Vec<RangeInclusive<u16>>,
    /// How long one request may take, redirects and the reading of the answer included.
    pub timeout: Duration,
    /// How long the head of an answer is waited for, once the connection is there.
    pub first_byte_timeout: Duration,
    /// How long it may take to be connected: name lookup, proxy and TLS included.
    pub connect_timeout: Duration,
    /// Whether a redirect that leaves the method as it is leads on.
    pub follow_redirects: bool,
    /// PEM file with the certificates that are trusted instead of the system's.
    pub ca_file: Option<PathBuf>,
    /// What it goes through.
    pub proxy: ProxySpec,
}

/// What a request goes through.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProxySpec {
    /// What `HTTP_PROXY`, `HTTPS_PROXY`, `ALL_PROXY` and `NO_PROXY` of the daemon say.
    Environment,
    /// Nothing.
    None,
    /// This proxy, an `http` or `https` URL.
    Url(EnvValue),
}

impl HttpSpec {
    /// How long a request may take to be given up when its run is stopped: this job's `terminationGracePeriod`. Only
    /// the end of a connection is waited for, and nobody at its other end.
    pub const GRACE: Duration = Duration::from_secs(1);

    /// A POST with the built-in values of everything else.
    pub fn to(url: EnvValue) -> Self {
        Self {
            method: "POST".to_owned(),
            url,
            headers: Vec::new(),
            body: None,
            expect_status: vec![200..=299],
            timeout: Duration::from_secs(5 * 60),
            first_byte_timeout: Duration::from_secs(60),
            connect_timeout: Duration::from_secs(10),
            follow_redirects: true,
            ca_file: None,
            proxy: ProxySpec::Environment,
        }
    }

    /// Whether an answer with this status is a success.
    pub fn expects(&self, status: u16) -> bool {
        self.expect_status.iter().any(|range| range.contains(&status))
    }

    /// The statuses that are a success, as in the table: `200..299, 404`.
    pub fn expected_text(&self) -> String {
        let text = |range: &RangeInclusive<u16>| match (range.start(), range.end()) {
            (first, last) if first == last => first.to_string(),
            (first, last) => format!("{first}..{last}"),
        };
        self.expect_status.iter().map(text).collect::<Vec<_>>().join(", ")
    }

    /// Whether the method says that a request changes nothing, so that it may be sent elsewhere as well.
    pub fn is_safe(&self) -> bool {
        matches!(self.method.as_str(), "GET" | "HEAD")
    }
}
