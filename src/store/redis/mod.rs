//! The main store: Redis or Valkey, one server. Each step is one script, so it is atomic in the server; a batch is one
//! pipeline, so it is one round trip.
//!
//! Keys, all without expiry (an expired claim is a tick that runs twice):
//!
//! ```text
//! onecron:<ns>:jobs                                set: names of all jobs
//! onecron:<ns>:heartbeat                           hash: until when the server was surely there
//! onecron:<ns>:replicas                            hash: each member's presence, JSON
//! onecron:<ns>:{<job>}:job                         hash: the job's record
//! onecron:<ns>:{<job>}:run:2026-03-01T02:00:00Z    hash: a run's record
//! onecron:<ns>:{<job>}:orders                      hash: keys of orders, and the runs that they made
//! onecron:<ns>:{<job>}:final                       sorted set: ticks of closed runs, by second
//! onecron:<ns>:{<job>}:history                     list of JSON: how ticks ended, newest first
//! onecron:<ns>:{<job>}:output:succeeded|failed     list of JSON: output of the newest of each
//! ```

mod identity;
mod link;
mod probe;
mod scripts;
mod url;
mod wire;

use super::Error;
use super::ErrorKind;
use super::Identity;
use super::Probe;
use super::Store;
use super::fields::JOB_FIELDS;
use crate::job::Answer;
use crate::job::FORMAT;
use crate::job::Gathering;
use crate::job::HistoryEntry;
use crate::job::JobName;
use crate::job::JobRecord;
use crate::job::Namespace;
use crate::job::Presence;
use crate::job::ReplicaId;
use crate::job::Step;
use async_trait::async_trait;
use chrono::DateTime;
use chrono::Utc;
use link::Link;
use probe::Told;
use redis::Client;
use redis::ConnectionAddr;
use redis::FromRedisValue;
use redis::IntoConnectionInfo;
use redis::Pipeline;
use redis::Value;
use scripts::Script;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use wire::BadReply;

/// How many jobs' records one round trip reads.
const READ_MOST: usize = 500;

/// A Redis or Valkey server.
pub(super) struct RedisStore {
    link: Link,
    namespace: Namespace,
}

impl fmt::Debug for RedisStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RedisStore({})", self.link.shown())
    }
}

impl RedisStore {
    /// Takes `redis://[user:password@]host[:port][/db]`. Does not connect.
    ///
    /// # Errors
    /// What is wrong with the URL, in words that do not repeat it: it may hold a password.
    pub fn open(url: &str, namespace: &Namespace) -> Result<Self, String> {
        if let Some(wrong) = url::wrong_part(url) {
            return Err(wrong.into());
        }
        let info = url.into_connection_info().map_err(|error| {
            let wanted = "characters such as `@ / : %` in user or password are written `%40 %2F %3A %25`";
            format!("expected redis://[user:password@]host[:port][/db]; {wanted} ({error})")
        })?;
        let shown = shown(&info);
        let client = Client::open(info).map_err(|error| error.to_string())?;
        let heartbeat = format!("onecron:{namespace}:heartbeat");
        Ok(Self { link: Link::new(client, shown, heartbeat), namespace: namespace.clone() })
    }

    fn jobs_key(&self) -> String {
        format!("onecron:{}:jobs", self.namespace)
    }

    fn members_key(&self) -> String {
        format!("onecron:{}:replicas", self.namespace)
    }

    fn key(&self, job: &str, name: &str) -> String {
        format!("onecron:{}:{{{job}}}:{name}", self.namespace)
    }

    async fn query(&self, operation: &'static str, pipeline: &mut Pipeline) -> Result<Vec<Value>, Error> {
        self.link.query(operation, pipeline.ignore_errors()).await
    }

    fn bad(&self, operation: &'static str, detail: impl fmt::Display) -> Error {
        let detail = detail.to_string();
        Error { kind: ErrorKind::MaybeApplied, operation, store: self.link.shown().into(), detail }
    }

    fn read<T: FromRedisValue>(&self, operation: &'static str, reply: Value) -> Result<T, Error> {
        T::from_redis_value(reply).map_err(|error| self.bad(operation, error))
    }

    async fn names(&self, operation: &'static str) -> Result<Vec<String>, Error> {
        let replies = self.query(operation, redis::pipe().cmd("SMEMBERS").arg(self.jobs_key())).await?;
        let [names] = self.exactly(operation, replies)?;
        let mut names: Vec<String> = self.read(operation, names)?;
        names.sort_unstable();
        Ok(names)
    }

    fn exactly<const N: usize>(&self, operation: &'static str, replies: Vec<Value>) -> Result<[Value; N], Error> {
        let count = replies.len();
        replies.try_into().map_err(|_| self.bad(operation, format!("{count} replies to {N} commands")))
    }

    /// The commands of a batch. Before a job's record comes its place on the list of all jobs: the other way round, a
    /// crash in between leaves a job that nobody finds.
    fn pipeline(&self, steps: &[Step], identity: &Identity) -> Pipeline {
        let mut pipeline = redis::pipe();
        for step in steps {
            let job = step.job().as_str();
            if matches!(step, Step::Register(_)) {
                pipeline.cmd("SADD").arg(self.jobs_key()).arg(job);
            }
            let arguments = wire::arguments(step, identity);
            call(&mut pipeline, self.link.scripts.of(step), self.key(job, "job"), &arguments);
        }
        pipeline.ignore_errors();
        pipeline
    }

    /// Says which jobs exist again after one was taken off the list: one that was registered in between stays on it.
    async fn unlist(&self, names: &[JobName]) -> Result<(), Error> {
        let mut pipeline = redis::pipe();
        for name in names {
            pipeline.cmd("SREM").arg(self.jobs_key()).arg(name.as_str());
        }
        for name in names {
            pipeline.cmd("EXISTS").arg(self.key(name.as_str(), "job"));
        }
        let replies = self.query("retire", &mut pipeline).await?;
        let mut again = redis::pipe();
        for (name, reply) in names.iter().zip(replies.into_iter().skip(names.len())) {
            if self.read::<bool>("retire", reply)? {
                again.cmd("SADD").arg(self.jobs_key()).arg(name.as_str());
            }
        }
        if !again.is_empty() {
            self.query("retire", &mut again).await?;
        }
        Ok(())
    }
}

fn call(pipeline: &mut Pipeline, script: &Script, job_key: String, arguments: &[String]) {
    pipeline.cmd("EVALSHA").arg(&script.hash).arg(1).arg(job_key).arg(arguments);
}

/// The URL as it may be shown.
fn shown(info: &redis::ConnectionInfo) -> String {
    let (host, port) = match info.addr() {
        ConnectionAddr::Tcp(host, port) if host.contains(':') => (format!("[{host}]"), port.to_string()),
        ConnectionAddr::Tcp(host, port) => (host.clone(), port.to_string()),
        other => (other.to_string(), String::new()),
    };
    // A user without a password is most often a password that was written without its colon.
    let settings = info.redis_settings();
    let user = match (settings.username(), settings.password()) {
        (Some(user), Some(_)) => format!("{user}@"),
        (Some(_), None) => "***@".to_owned(),
        (None, _) => String::new(),
    };
    let db = info.redis_settings().db();
    let path = if db == 0 { String::new() } else { format!("/{db}") };
    format!("redis://{user}{host}:{port}{path}")
}

#[async_trait]
impl Store for RedisStore {
    fn url(&self) -> &str {
        self.link.shown()
    }

    async fn apply(&self, steps: &[Step]) -> Result<Vec<Answer>, Error> {
        let Some(operation) = steps.first().map(Step::name) else { return Ok(Vec::new()) };
        if steps.iter().any(|step| matches!(step, Step::Register(_))) {
            // What is registered must say what the server is now, and not when we connected.
            self.link.identity().await?;
        }
        let pipeline = |identity: &Identity| self.pipeline(steps, identity);
        let replies = self.link.query_as(operation, pipeline).await?;
        // Each step's script answers; a registration's follows one more command.
        let extra = |step: &Step| usize::from(matches!(step, Step::Register(_)));
        let mut replies = replies.iter();
        steps
            .iter()
            .map(|step| replies.nth(extra(step)).map_or_else(|| Err(BadReply::none()), wire::answer))
            .collect::<Result<_, BadReply>>()
            .map_err(|error| self.bad(operation, error))
    }

    async fn jobs(&self) -> Result<Vec<(JobName, JobRecord)>, Error> {
        let names = self.names("jobs").await?;
        let mut jobs = Vec::with_capacity(names.len());
        for names in names.chunks(READ_MOST) {
            let mut pipeline = redis::pipe();
            for name in names {
                pipeline.cmd("HMGET").arg(self.key(name, "job")).arg(&JOB_FIELDS);
            }
            let replies = self.query("jobs", &mut pipeline).await?;
            for (name, reply) in names.iter().zip(&replies) {
                let record = match wire::job(reply) {
                    Ok(Some(record)) if record.format <= FORMAT => record,
                    Ok(_) | Err(BadReply::Record(_)) => continue,
                    Err(error) => return Err(self.bad("jobs", error)),
                };
                let name = JobName::new(name).map_err(|error| self.bad("jobs", format!("{name:?}: {error}")))?;
                jobs.push((name, record));
            }
        }
        Ok(jobs)
    }

    async fn history(&self, job: &JobName, most: usize) -> Result<Vec<HistoryEntry>, Error> {
        let Some(last) = most.checked_sub(1) else { return Ok(Vec::new()) };
        let mut pipeline = redis::pipe();
        let last = last.min(1 << 31);
        pipeline.cmd("LRANGE").arg(self.key(job.as_str(), "history")).arg(0).arg(last);
        for outcome in ["succeeded", "failed"] {
            pipeline.cmd("LRANGE").arg(self.key(job.as_str(), &format!("output:{outcome}"))).arg(0).arg(-1);
        }
        let replies = self.query("history", &mut pipeline).await?;
        let [lines, succeeded, failed] = self.exactly("history", replies)?;
        let lines: Vec<String> = self.read("history", lines)?;
        let mut outputs: Vec<String> = self.read("history", succeeded)?;
        outputs.extend(self.read::<Vec<String>>("history", failed)?);
        wire::history(&lines, &outputs).map_err(|error| self.bad("history", error))
    }

    async fn server_time(&self) -> Result<DateTime<Utc>, Error> {
        let replies = self.query("time", redis::pipe().cmd("TIME")).await?;
        let [time] = self.exactly("time", replies)?;
        let (seconds, micros): (i64, u32) = self.read("time", time)?;
        DateTime::from_timestamp(seconds, micros * 1000).ok_or_else(|| self.bad("time", format!("{seconds} s")))
    }

    async fn identity(&self) -> Result<Identity, Error> {
        self.link.identity().await
    }

    async fn probe(&self) -> Result<Probe, Error> {
        // Two requests: each may be forbidden to us without the other.
        let info = refused_is_none(self.query("probe", redis::pipe().cmd("INFO")).await)?;
        let fsync = redis::pipe().cmd("CONFIG").arg("GET").arg("appendfsync").ignore_errors().clone();
        let fsync = refused_is_none(self.link.query("probe", &fsync).await)?;
        let info: Option<String> = info.map(|replies| self.exactly("probe", replies)).transpose()?.and_then(first);
        let fsync: Option<Vec<String>> =
            fsync.map(|replies| self.exactly("probe", replies)).transpose()?.and_then(first);
        let appendfsync = fsync.as_deref().and_then(|pair| pair.get(1)).map(String::as_str);
        Ok(probe::judge(&Told { info: info.as_deref(), appendfsync }))
    }

    async fn retire(&self, unregistered_for: Duration) -> Result<Vec<JobName>, Error> {
        let millis = i64::try_from(unregistered_for.as_millis()).unwrap_or(i64::MAX).to_string();
        let mut retired = Vec::new();
        for names in self.names("retire").await?.chunks(READ_MOST) {
            let mut pipeline = redis::pipe();
            for name in names {
                let arguments = [String::new(), String::new(), millis.clone()];
                call(&mut pipeline, &self.link.scripts.retire, self.key(name, "job"), &arguments);
            }
            let replies = self.query("retire", &mut pipeline).await?;
            for (name, reply) in names.iter().zip(replies) {
                // A job whose records cannot be read is answered otherwise, and stays.
                if reply == Value::Int(1) {
                    retired.extend(JobName::new(name));
                }
            }
        }
        if !retired.is_empty() {
            self.unlist(&retired).await?;
        }
        Ok(retired)
    }

    async fn meet(&self, mine: Option<&Presence>, gone: &[Presence]) -> Result<Gathering, Error> {
        let (name, text) = mine.map(|mine| (mine.name.to_string(), mine.to_text())).unwrap_or_default();
        let mut arguments = vec![name, text];
        for member in gone {
            arguments.extend([member.name.to_string(), member.number.to_string()]);
        }
        let mut pipeline = redis::pipe();
        call(&mut pipeline, &self.link.scripts.meet, self.members_key(), &arguments);
        let replies = self.query("meet", &mut pipeline).await?;
        let [reply] = self.exactly("meet", replies)?;
        let (at, texts): (i64, Vec<(String, String)>) = self.read("meet", reply)?;
        let mut members: Vec<_> = texts.iter().map(|(name, text)| Arc::new(Presence::from_text(name, text))).collect();
        members.sort_unstable_by(|one, other| one.name.cmp(&other.name));
        Ok(Gathering { at, members })
    }

    async fn leave(&self, who: &ReplicaId) -> Result<(), Error> {
        self.query("leave", redis::pipe().cmd("HDEL").arg(self.members_key()).arg(who.as_str())).await?;
        Ok(())
    }
}

fn first<T: FromRedisValue>([reply]: [Value; 1]) -> Option<T> {
    T::from_redis_value(reply).ok()
}

/// A server that forbids a question, or does not know it, answers with an error that is no trouble of the connection.
fn refused_is_none(outcome: Result<Vec<Value>, Error>) -> Result<Option<Vec<Value>>, Error> {
    match outcome {
        Ok(replies) => Ok(Some(replies)),
        Err(error) if error.detail.contains("NOPERM") || error.detail.contains("unknown command") => Ok(None),
        Err(error) => Err(error),
    }
}
