//! The one connection to a server: made at the first request, dropped at the first doubt, made again at the next.

use super::identity;
use super::identity::Heartbeat;
use super::scripts::Scripts;
use crate::store::Error;
use crate::store::ErrorKind;
use crate::store::Identity;
use redis::AsyncConnectionConfig;
use redis::Client;
use redis::Pipeline;
use redis::RedisError;
use redis::Value;
use redis::aio::MultiplexedConnection;
use std::future::Future;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::sync::Mutex;
use tokio::time::timeout;

/// How long connecting may take, greeting included.
const CONNECT_WITHIN: Duration = Duration::from_secs(2);
/// How long the reply to a whole batch may take.
const ANSWER_WITHIN: Duration = Duration::from_secs(2);

/// Where a server is, and the connection to it while there is one.
pub(super) struct Link {
    client: Client,
    shown: String,
    pub scripts: Scripts,
    heartbeat: Heartbeat,
    state: Mutex<State>,
    /// How many attempts to connect failed: who waited for one that did shares its result, instead of queueing up
    /// for another two seconds each.
    failures: AtomicU64,
}

#[derive(Default)]
struct State {
    connection: Option<MultiplexedConnection>,
    /// What the server at its other end is.
    identity: Identity,
    /// Tells connections apart, so that an old one's failure does not drop its successor.
    generation: u64,
    failure: Option<(ErrorKind, String)>,
}

/// A connection that can be used, and what is at its other end.
struct Connected {
    connection: MultiplexedConnection,
    generation: u64,
    identity: Identity,
    is_new: bool,
}

/// What went wrong, before it is known what it was for.
pub(super) struct Failure {
    pub kind: ErrorKind,
    pub detail: String,
    /// Whether the connection is not to be used again.
    drops: bool,
    /// A connection that had been of use before was found closed.
    closed: bool,
    /// Whether the server did not know a script: nothing was applied by that command.
    unknown_script: bool,
}

impl Link {
    /// A link to a server; with the key of the heartbeat that is left there.
    pub fn new(client: Client, shown: String, heartbeat: String) -> Self {
        let heartbeat = Heartbeat::new(heartbeat, Scripts::heartbeat());
        let (state, failures) = (Mutex::default(), AtomicU64::new(0));
        Self { client, shown, scripts: Scripts::new(), heartbeat, state, failures }
    }

    /// The URL without password.
    pub fn shown(&self) -> &str {
        &self.shown
    }

    pub fn error(&self, operation: &'static str, failure: Failure) -> Error {
        Error { kind: failure.kind, operation, store: self.shown.clone(), detail: failure.detail }
    }

    /// Sends commands in one round trip; all replies, or the first error among them. Scripts that the server lost are
    /// loaded and everything is sent again: that is safe because all that we send is idempotent.
    pub async fn query(&self, operation: &'static str, pipeline: &Pipeline) -> Result<Vec<Value>, Error> {
        self.query_as(operation, |_| pipeline.clone()).await
    }

    /// The same with commands that say what the server is, as it was read from the very connection that they take: a
    /// server that has restarted since cannot get them.
    pub async fn query_as(
        &self,
        operation: &'static str,
        pipeline: impl Fn(&Identity) -> Pipeline,
    ) -> Result<Vec<Value>, Error> {
        let mut tried = self.attempt(&pipeline).await;
        // Servers and balancers close connections that were idle, which shows at the next use. That is no outage; and
        // what was sent may be sent again, since all of it is idempotent.
        if tried.as_ref().is_err_and(|failure| failure.closed) {
            tried = self.attempt(&pipeline).await;
        }
        let failure = match tried {
            Ok(replies) => return Ok(replies),
            Err(failure) => failure,
        };
        if !failure.unknown_script {
            return Err(self.error(operation, failure));
        }
        self.attempt(&|_| self.load_scripts()).await.map_err(|failure| self.error(operation, failure))?;
        self.attempt(&pipeline).await.map_err(|failure| self.error(operation, failure))
    }

    /// Reads again what the server is: it may have been promoted, or have evicted keys, while the connection stayed. To
    /// be asked every second: it leaves a heartbeat.
    pub async fn identity(&self) -> Result<Identity, Error> {
        let mut tried = self.ask_identity().await;
        if tried.as_ref().is_err_and(|failure| failure.closed) {
            tried = self.ask_identity().await;
        }
        tried.map_err(|failure| self.error("identity", failure))
    }

    async fn ask_identity(&self) -> Result<Identity, Failure> {
        let Connected { mut connection, generation, is_new, .. } = self.connection().await?;
        let found = self.heartbeat.beat(&mut connection).await;
        let mut state = self.state.lock().await;
        let current = state.generation == generation;
        match found {
            Ok(found) => {
                if current {
                    state.identity = found.clone();
                }
                Ok(found)
            }
            Err(error) => {
                let mut failure = classify(&error);
                failure.closed &= !is_new;
                if failure.drops && current {
                    state.connection = None;
                }
                Err(failure)
            }
        }
    }

    async fn attempt(&self, pipeline: &impl Fn(&Identity) -> Pipeline) -> Result<Vec<Value>, Failure> {
        let Connected { mut connection, generation, identity, is_new } = self.connection().await?;
        let mut outcome = send(&mut connection, &pipeline(&identity)).await;
        if let Err(failure) = &mut outcome
            && failure.drops
        {
            failure.closed &= !is_new;
            let mut state = self.state.lock().await;
            if state.generation == generation {
                state.connection = None;
            }
        }
        outcome
    }

    async fn connection(&self) -> Result<Connected, Failure> {
        let failures = self.failures.load(Ordering::Acquire);
        let mut state = self.state.lock().await;
        if let Some(connection) = &state.connection {
            let (connection, identity) = (connection.clone(), state.identity.clone());
            return Ok(Connected { connection, generation: state.generation, identity, is_new: false });
        }
        if self.failures.load(Ordering::Acquire) != failures
            && let Some((kind, detail)) = state.failure.clone()
        {
            return Err(Failure { kind, detail, drops: false, closed: false, unknown_script: false });
        }
        match self.connect().await {
            Ok((connection, identity)) => {
                state.generation += 1;
                state.failure = None;
                state.connection = Some(connection.clone());
                state.identity = identity.clone();
                Ok(Connected { connection, generation: state.generation, identity, is_new: true })
            }
            Err(failure) => {
                state.failure = Some((failure.kind, failure.detail.clone()));
                self.failures.fetch_add(1, Ordering::Release);
                Err(failure)
            }
        }
    }

    /// Connects, asks what the server is and loads the scripts: a server that wants a password accepts connections without, and says so at the
    /// first command only.
    async fn connect(&self) -> Result<(MultiplexedConnection, Identity), Failure> {
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(CONNECT_WITHIN))
            .set_response_timeout(Some(ANSWER_WITHIN));
        let connecting = async {
            let mut connection = self.client.get_multiplexed_async_connection_with_config(&config).await?;
            // First, since it is short: a server that wants a password hangs up on whoever sends it long commands without.
            let identity = identity::read(&mut connection).await?;
            let replies: Vec<Value> = self.load_scripts().query_async(&mut connection).await?;
            for reply in replies {
                reply.extract_error()?;
            }
            Ok((connection, identity))
        };
        let failed = |kind, detail| Failure { kind, detail, drops: true, closed: false, unknown_script: false };
        match timeout(CONNECT_WITHIN, connecting).await {
            Ok(Ok(connected)) => Ok(connected),
            Ok(Err(error)) => {
                let Failure { kind, detail, .. } = classify(&error);
                let kind = if kind == ErrorKind::MaybeApplied { ErrorKind::NotSent } else { kind };
                Err(failed(kind, format!("connecting: {detail}")))
            }
            Err(_) => {
                let seconds = CONNECT_WITHIN.as_secs();
                Err(failed(ErrorKind::NotSent, format!("connecting: the server did not answer within {seconds} s")))
            }
        }
    }

    fn load_scripts(&self) -> Pipeline {
        let mut pipeline = redis::pipe();
        for script in self.scripts.all() {
            pipeline.cmd("SCRIPT").arg("LOAD").arg(&script.code);
        }
        pipeline.ignore_errors();
        pipeline
    }
}

/// Cancel safety: dropping it leaves the commands sent or not sent.
fn send(
    connection: &mut MultiplexedConnection,
    pipeline: &Pipeline,
) -> impl Future<Output = Result<Vec<Value>, Failure>> {
    let count = pipeline.len();
    async move {
        let replies: Vec<Value> = pipeline.query_async(connection).await.map_err(|error| classify(&error))?;
        // One error stands for the batch: the caller sends it again as a whole. An unknown script is named only if
        // nothing else went wrong, since it alone is mended by loading.
        let mut unknown_script = None;
        for (at, reply) in replies.iter().enumerate() {
            let Err(error) = reply.clone().extract_error() else { continue };
            let mut failure = classify(&error);
            failure.detail = format!("{} (command {} of {count})", failure.detail, at + 1);
            if !failure.unknown_script {
                return Err(failure);
            }
            unknown_script.get_or_insert(failure);
        }
        unknown_script.map_or(Ok(replies), Err)
    }
}

/// What an error of the server or of the connection means.
fn classify(error: &RedisError) -> Failure {
    // A server's error as the server words it, `CODE text`: that is what an operator can look up.
    let text = match error.code() {
        Some(code) => format!("{code} {}", error.detail().unwrap_or_default()),
        None => error.to_string(),
    };
    let failure = |kind, detail: String, drops| Failure { kind, detail, drops, closed: false, unknown_script: false };
    let denied = "the server refuses us: write `redis://user:password@host` with an account that may read, write and \
                  run scripts on `onecron:*`";
    match error.code() {
        Some("NOSCRIPT") => Failure { unknown_script: true, ..failure(ErrorKind::MaybeApplied, text, false) },
        Some("NOAUTH") => {
            let wanted = "the server wants a password: write `redis://:password@host`";
            failure(ErrorKind::Misconfigured, format!("{wanted} ({text})"), true)
        }
        Some("WRONGPASS") => {
            let wanted = "the server does not accept user and password: check those of the URL";
            failure(ErrorKind::Misconfigured, format!("{wanted} ({text})"), true)
        }
        Some("NOPERM") => failure(ErrorKind::Misconfigured, format!("{denied} ({text})"), true),
        Some("OOM") => {
            let wanted = "the server is out of memory: raise `maxmemory`, or give onecron a server of its own";
            failure(ErrorKind::MaybeApplied, format!("{wanted} ({text})"), false)
        }
        Some("READONLY") => {
            let wanted = "the server is a replica and takes no writes: use the primary's address";
            failure(ErrorKind::MaybeApplied, format!("{wanted} ({text})"), true)
        }
        Some("LOADING" | "MASTERDOWN" | "CLUSTERDOWN" | "TRYAGAIN") => failure(ErrorKind::MaybeApplied, text, true),
        Some(_) if text.contains("ACL failure") => {
            failure(ErrorKind::Misconfigured, format!("{denied} ({text})"), true)
        }
        Some(_) => failure(ErrorKind::MaybeApplied, text, false),
        None if error.kind() == redis::ErrorKind::AuthenticationFailed => {
            let wanted = "the server does not accept user and password: check those of the URL";
            failure(ErrorKind::Misconfigured, format!("{wanted} ({text})"), true)
        }
        None if error.is_timeout() => {
            let seconds = ANSWER_WITHIN.as_secs();
            failure(ErrorKind::MaybeApplied, format!("the server did not answer within {seconds} s"), true)
        }
        None => Failure { closed: true, ..failure(ErrorKind::MaybeApplied, text, true) },
    }
}
