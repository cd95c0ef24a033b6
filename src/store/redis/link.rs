//! The one connection to a server: made at the first request, dropped at the first doubt, made again at the next.

use super::command::Command;
use super::command::Sure;
use super::door::Door;
use super::door::Of;
use super::failure::ANSWER_WITHIN;
use super::failure::Failure;
use super::failure::Mend;
use super::failure::classify;
use super::identity;
use super::identity::Found;
use super::identity::Heartbeat;
use super::scripts::Scripts;
use super::sentinel;
use crate::plural::counted;
use crate::store::ErrorKind;
use crate::store::Identity;
use crate::store::place::Place;
use redis::AsyncConnectionConfig;
use redis::Pipeline;
use redis::Value;
use redis::aio::MultiplexedConnection;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::sync::Mutex;
use tokio::time::timeout;

/// How long connecting may take, greeting included.
pub(super) const CONNECT_WITHIN: Duration = Duration::from_secs(2);
/// How long replicas may take to confirm what was written. Other requests over the connection wait so long, too.
const CONFIRM_WITHIN: Duration = Duration::from_millis(500);

/// Where the server is.
#[derive(Debug, Clone)]
pub(super) enum Where {
    /// There, always.
    At(Place),
    /// Where Sentinels say that the primary of that name is.
    Sentinels(String),
}

/// A server, and the connection to it while there is one.
pub(super) struct Link {
    door: Door,
    to: Where,
    pub scripts: Arc<Scripts>,
    heartbeat: Option<Heartbeat>,
    /// The server was seen to have replicas, or must have some. Stays: a primary that has lost them all may be one that
    /// was cut off, and another has taken its place.
    has_replicas: AtomicBool,
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
    failure: Option<Failure>,
}

/// A connection that can be used, and what is at its other end.
struct Connected {
    connection: MultiplexedConnection,
    generation: u64,
    identity: Identity,
    is_new: bool,
}

impl Link {
    /// A link to a server, with the key of the heartbeat that is left there; a node of a cluster gets none.
    pub fn new(door: Door, to: Where, scripts: Arc<Scripts>, heartbeat: Option<String>) -> Self {
        let must_have = heartbeat.is_none() || matches!(to, Where::Sentinels(_));
        let heartbeat = heartbeat.map(|key| Heartbeat::new(key, Scripts::heartbeat()));
        let (state, failures) = (Mutex::default(), AtomicU64::new(0));
        Self { door, to, scripts, heartbeat, has_replicas: AtomicBool::new(must_have), state, failures }
    }

    /// How many replicas must confirm what is written.
    pub fn replicas_wanted(&self) -> u32 {
        let usual = u32::from(self.has_replicas.load(Ordering::Relaxed));
        self.door.address().wait_replicas.unwrap_or(usual)
    }

    /// Sends commands in one round trip; all replies, or the first error among them. What can be mended at once is, and
    /// everything is sent again: that is safe because all that we send is idempotent.
    pub async fn send(&self, commands: &[&Command], sure: Sure) -> Result<Vec<Value>, Failure> {
        let pipeline = |identity: &Identity| {
            let mut pipeline = redis::pipe();
            commands.iter().for_each(|command| command.put(&mut pipeline, identity));
            pipeline
        };
        self.send_as(&pipeline, sure).await
    }

    /// The same with commands of which those that are about a key are each preceded by `ASKING`: see [`Mend::Ask`].
    pub async fn send_asking(&self, commands: &[&Command], sure: Sure) -> Result<Vec<Value>, Failure> {
        let pipeline = |identity: &Identity| {
            let mut pipeline = redis::pipe();
            for command in commands {
                pipeline.cmd("ASKING");
                command.put(&mut pipeline, identity);
            }
            pipeline
        };
        let replies = self.send_as(&pipeline, sure).await?;
        Ok(replies.into_iter().skip(1).step_by(2).collect())
    }

    async fn send_as(&self, pipeline: &impl Fn(&Identity) -> Pipeline, sure: Sure) -> Result<Vec<Value>, Failure> {
        let mut tried = self.attempt(pipeline, sure).await;
        // Servers and balancers close connections that were idle, which shows at the next use. That is no outage.
        if tried.as_ref().is_err_and(|failure| failure.mend == Mend::Reconnect) {
            tried = self.attempt(pipeline, sure).await;
        }
        if tried.as_ref().is_err_and(|failure| failure.mend == Mend::LoadScripts) {
            self.attempt(&|_| self.load_scripts(), Sure::Answered).await?;
            tried = self.attempt(pipeline, sure).await;
        }
        tried
    }

    /// Reads again what the server is: it may have been promoted, or have evicted keys, while the connection stayed. To
    /// be asked every second: it leaves a heartbeat.
    pub async fn identity(&self) -> Result<Identity, Failure> {
        let mut tried = self.ask_identity().await;
        if tried.as_ref().is_err_and(|failure| failure.mend == Mend::Reconnect) {
            tried = self.ask_identity().await;
        }
        tried
    }

    async fn ask_identity(&self) -> Result<Identity, Failure> {
        let Connected { mut connection, generation, is_new, .. } = self.connection().await?;
        let found = match &self.heartbeat {
            Some(heartbeat) => heartbeat.beat(&mut connection).await,
            None => identity::read(&mut connection).await,
        };
        match found.map_err(|error| classify(&error)).and_then(|found| self.accept(found)) {
            Ok(identity) => {
                let mut state = self.state.lock().await;
                if state.generation == generation {
                    state.identity = identity.clone();
                }
                Ok(identity)
            }
            Err(failure) => Err(self.after(failure, (generation, is_new)).await),
        }
    }

    /// Whether the server is one to be used.
    fn accept(&self, found: Found) -> Result<Identity, Failure> {
        if let Some(primary) = found.replica_of {
            return Err(Failure::read_only(&format!("the server is a replica of {primary}")));
        }
        if found.has_replicas {
            self.has_replicas.store(true, Ordering::Relaxed);
        }
        Ok(found.identity)
    }

    async fn attempt(&self, pipeline: &impl Fn(&Identity) -> Pipeline, sure: Sure) -> Result<Vec<Value>, Failure> {
        let Connected { mut connection, generation, identity, is_new } = self.connection().await?;
        let confirmed_by = if sure == Sure::Durable { self.replicas_wanted() } else { 0 };
        match send(&mut connection, pipeline(&identity), confirmed_by).await {
            Ok(replies) => Ok(replies),
            Err(mut failure) => {
                // It may be a primary that was cut off: Sentinels may know another by now.
                failure.drops |= failure.kind == ErrorKind::NotDurable && matches!(self.to, Where::Sentinels(_));
                Err(self.after(failure, (generation, is_new)).await)
            }
        }
    }

    /// Drops the connection, where it is not to be used again. A new one that fails at once is not made a second time.
    async fn after(&self, mut failure: Failure, (generation, is_new): (u64, bool)) -> Failure {
        if failure.drops {
            let mut state = self.state.lock().await;
            if state.generation == generation {
                state.connection = None;
            }
        }
        if failure.mend == Mend::Reconnect && is_new {
            failure.mend = Mend::Nothing;
        }
        failure
    }

    async fn connection(&self) -> Result<Connected, Failure> {
        let failures = self.failures.load(Ordering::Acquire);
        let mut state = self.state.lock().await;
        if let Some(connection) = &state.connection {
            let (connection, identity) = (connection.clone(), state.identity.clone());
            return Ok(Connected { connection, generation: state.generation, identity, is_new: false });
        }
        if self.failures.load(Ordering::Acquire) != failures
            && let Some(failure) = state.failure.clone()
        {
            return Err(failure);
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
                state.failure = Some(failure.clone());
                self.failures.fetch_add(1, Ordering::Release);
                Err(failure)
            }
        }
    }

    /// Connects, asks what the server is and loads the scripts: a server that wants a password accepts connections
    /// without, and says so at the first command only. None of it changes anything, so a failure is one of a request
    /// that was not sent.
    async fn connect(&self) -> Result<(MultiplexedConnection, Identity), Failure> {
        let failed = match timeout(CONNECT_WITHIN, self.enter()).await {
            Ok(Ok(connected)) => return Ok(connected),
            Ok(Err(failure)) => failure,
            Err(_) => {
                let detail = format!("the server did not answer within {} s", CONNECT_WITHIN.as_secs());
                Failure::new(ErrorKind::NotSent, detail, true)
            }
        };
        let kind = if failed.kind == ErrorKind::MaybeApplied { ErrorKind::NotSent } else { failed.kind };
        let advice = self.door.advice(&failed.detail);
        Err(Failure::new(kind, format!("connecting: {}{advice}", failed.detail), true))
    }

    async fn enter(&self) -> Result<(MultiplexedConnection, Identity), Failure> {
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(CONNECT_WITHIN))
            .set_response_timeout(Some(ANSWER_WITHIN));
        let place = match &self.to {
            Where::At(place) => place.clone(),
            Where::Sentinels(name) => sentinel::primary(&self.door, name).await?,
        };
        let client = self.door.client(&place, Of::Server).await?;
        let entering = async {
            let mut connection = client.get_multiplexed_async_connection_with_config(&config).await?;
            // First, since it is short: a server that wants a password hangs up on whoever sends it long commands without.
            let found = identity::read(&mut connection).await?;
            Ok((connection, found))
        };
        let (mut connection, found) = entering.await.map_err(|error| classify(&error))?;
        let identity = self.accept(found)?;
        send(&mut connection, self.load_scripts(), 0).await?;
        Ok((connection, identity))
    }

    fn load_scripts(&self) -> Pipeline {
        let mut pipeline = redis::pipe();
        for script in self.scripts.all() {
            pipeline.cmd("SCRIPT").arg("LOAD").arg(&script.code);
        }
        pipeline
    }
}

/// Sends commands, and then waits until so many replicas have what they wrote; the latter on the same connection, since
/// another one would be told of its own writes. Cancel safety: dropping it leaves the commands sent or not sent.
fn send(
    connection: &mut MultiplexedConnection,
    mut pipeline: Pipeline,
    confirmed_by: u32,
) -> impl Future<Output = Result<Vec<Value>, Failure>> {
    let count = pipeline.len();
    if confirmed_by > 0 {
        let millis = u64::try_from(CONFIRM_WITHIN.as_millis()).unwrap_or(u64::MAX);
        pipeline.cmd("WAIT").arg(confirmed_by).arg(millis);
    }
    pipeline.ignore_errors();
    async move {
        let mut replies: Vec<Value> = pipeline.query_async(connection).await.map_err(|error| classify(&error))?;
        // One error stands for the batch: the caller sends it again as a whole. An unknown script is named only if
        // nothing else went wrong, since it alone is mended by loading.
        let mut unknown_script = None;
        for (at, reply) in replies.iter().enumerate() {
            let Err(error) = reply.clone().extract_error() else { continue };
            let mut failure = classify(&error);
            if failure.mend == Mend::LoadScripts {
                unknown_script.get_or_insert(failure);
                continue;
            }
            if at == 0 && error.code() == Some("READONLY") {
                failure.kind = ErrorKind::ReadOnly;
            }
            failure.detail = format!("{} (command {} of {count})", failure.detail, at + 1);
            return Err(failure);
        }
        if let Some(failure) = unknown_script {
            return Err(failure);
        }
        if let (1.., Some(Value::Int(confirmed))) = (confirmed_by, replies.get(count)) {
            if *confirmed < i64::from(confirmed_by) {
                return Err(not_durable(*confirmed, confirmed_by));
            }
            replies.truncate(count);
        }
        Ok(replies)
    }
}

fn not_durable(confirmed: i64, wanted: u32) -> Failure {
    let millis = CONFIRM_WITHIN.as_millis();
    let detail = format!(
        "{confirmed} of {} confirmed within {millis} ms what was written, so a failover may undo it: \
         look at the replicas of the server, or write `?wait-replicas=0` behind the URL of one that is to have none",
        counted(wanted, "replica")
    );
    Failure::new(ErrorKind::NotDurable, detail, false)
}
