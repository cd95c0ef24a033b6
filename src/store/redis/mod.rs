//! The main store: Redis or Valkey, one server, one behind Sentinels, or a cluster. Each step is one script, so it is
//! atomic in the server; a batch is one pipeline for each server, so it is one round trip. Where a server has replicas, what
//! it wrote counts once they have it.
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

mod cluster;
mod command;
mod door;
mod failure;
mod identity;
mod link;
mod probe;
mod rights;
mod scripts;
mod sentinel;
mod servers;
mod url;
mod wire;

use super::Error;
use super::ErrorKind;
use super::Identity;
use super::Probe;
use super::Store;
use super::access::Access;
use super::doing;
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
use command::Command;
use command::Sure;
use redis::FromRedisValue;
use redis::Value;
use servers::Servers;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use url::Address;
use wire::BadReply;

/// How many jobs' records one round trip reads.
const READ_MOST: usize = 500;

/// Redis or Valkey.
pub(super) struct RedisStore {
    servers: Servers,
    namespace: Namespace,
}

impl fmt::Debug for RedisStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RedisStore({})", self.servers.shown())
    }
}

impl RedisStore {
    /// Takes the URLs that [`Address::parse`] reads. Does not connect.
    ///
    /// # Errors
    /// What is wrong with the URL, in words that do not repeat it: it may hold a password.
    pub fn open(url: &str, access: &Access, namespace: &Namespace) -> Result<Self, String> {
        let address = Address::parse(url)?;
        let heartbeat = format!("onecron:{namespace}:heartbeat");
        Ok(Self { servers: Servers::new(address, access, heartbeat)?, namespace: namespace.clone() })
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

    /// What only reads, or what nobody would miss.
    async fn ask(&self, operation: &'static str, commands: &[Command]) -> Result<Vec<Value>, Error> {
        self.servers.query(operation, (commands, Sure::Answered)).await
    }

    fn bad(&self, operation: &'static str, detail: impl fmt::Display) -> Error {
        let detail = detail.to_string();
        Error { kind: ErrorKind::MaybeApplied, operation, store: self.servers.shown().into(), detail }
    }

    fn read<T: FromRedisValue>(&self, operation: &'static str, reply: Value) -> Result<T, Error> {
        T::from_redis_value(reply).map_err(|error| self.bad(operation, error))
    }

    async fn names(&self, operation: &'static str) -> Result<Vec<String>, Error> {
        let replies = self.ask(operation, &[Command::new("SMEMBERS", self.jobs_key())]).await?;
        let [names] = self.exactly(operation, replies)?;
        let mut names: Vec<String> = self.read(operation, names)?;
        names.sort_unstable();
        Ok(names)
    }

    fn exactly<const N: usize>(&self, operation: &'static str, replies: Vec<Value>) -> Result<[Value; N], Error> {
        let count = replies.len();
        replies.try_into().map_err(|_| self.bad(operation, format!("{count} replies to {N} commands")))
    }

    fn command_of(&self, step: &Step) -> Command {
        let script = self.servers.scripts.of(step);
        let key = self.key(step.job().as_str(), "job");
        Command::script(&script.hash, key).arg(wire::arguments(step)).telling_identity()
    }

    /// Says which jobs exist again after one was taken off the list: one that was registered in between stays on it.
    async fn unlist(&self, names: &[JobName]) -> Result<(), Error> {
        let listed = |word: &str, name: &JobName| Command::new(word, self.jobs_key()).arg(name.as_str());
        let off: Vec<Command> = names.iter().map(|name| listed("SREM", name)).collect();
        let there = |name: &JobName| Command::new("EXISTS", self.key(name.as_str(), "job"));
        let there: Vec<Command> = names.iter().map(there).collect();
        let replies = self.servers.query_after(doing::RETIRE, (&off, &there, Sure::Durable)).await?;
        let mut again = Vec::new();
        for (name, reply) in names.iter().zip(replies) {
            if self.read::<bool>(doing::RETIRE, reply)? {
                again.push(listed("SADD", name));
            }
        }
        self.servers.query(doing::RETIRE, (&again, Sure::Durable)).await?;
        Ok(())
    }
}

/// Renewals are of use for a lease only, and questions change nothing. Everything else must survive a failover, also what
/// the loser of a race is told: who has won there may not have won.
fn sure_enough(steps: &[Step]) -> Sure {
    let is_fleeting = |step: &Step| matches!(step, Step::Renew { .. } | Step::Wait { .. } | Step::Read { .. });
    if steps.iter().all(is_fleeting) { Sure::Answered } else { Sure::Durable }
}

#[async_trait]
impl Store for RedisStore {
    fn has_clock(&self) -> bool {
        true
    }

    fn url(&self) -> &str {
        self.servers.shown()
    }

    async fn apply(&self, steps: &[Step]) -> Result<Vec<Answer>, Error> {
        let Some(operation) = steps.first().map(doing::step) else { return Ok(Vec::new()) };
        let registered: Vec<&Step> = steps.iter().filter(|step| matches!(step, Step::Register(_))).collect();
        if !registered.is_empty() {
            // What is registered must say what the server is now, and not when we connected.
            self.servers.identity().await?;
        }
        // Before a job's record comes its place on the list of all jobs: the other way round, a crash in between leaves a
        // job that nobody finds.
        let list = |step: &&Step| Command::new("SADD", self.jobs_key()).arg(step.job().as_str());
        let listed: Vec<Command> = registered.iter().map(list).collect();
        let commands: Vec<Command> = steps.iter().map(|step| self.command_of(step)).collect();
        let replies = self.servers.query_after(operation, (&listed, &commands, sure_enough(steps))).await?;
        if replies.len() != steps.len() {
            return Err(self.bad(operation, BadReply::none()));
        }
        replies.iter().map(wire::answer).collect::<Result<_, BadReply>>().map_err(|error| self.bad(operation, error))
    }

    async fn jobs(&self) -> Result<Vec<(JobName, JobRecord)>, Error> {
        let names = self.names(doing::JOBS).await?;
        let mut jobs = Vec::with_capacity(names.len());
        for names in names.chunks(READ_MOST) {
            let fields = |name: &String| Command::new("HMGET", self.key(name, "job")).arg(&JOB_FIELDS);
            let commands: Vec<Command> = names.iter().map(fields).collect();
            let replies = self.ask(doing::JOBS, &commands).await?;
            for (name, reply) in names.iter().zip(&replies) {
                let record = match wire::job(reply) {
                    Ok(Some(record)) if record.format <= FORMAT => record,
                    Ok(_) | Err(BadReply::Record(_)) => continue,
                    Err(error) => return Err(self.bad(doing::JOBS, error)),
                };
                let name = JobName::new(name).map_err(|error| self.bad(doing::JOBS, format!("{name:?}: {error}")))?;
                jobs.push((name, record));
            }
        }
        Ok(jobs)
    }

    async fn history(&self, job: &JobName, most: usize) -> Result<Vec<HistoryEntry>, Error> {
        let Some(last) = most.checked_sub(1) else { return Ok(Vec::new()) };
        let list = |name: &str, last: i64| {
            let command = Command::new("LRANGE", self.key(job.as_str(), name));
            command.arg(0).arg(last)
        };
        let last = i64::try_from(last.min(1 << 31)).unwrap_or(i64::MAX);
        let commands = [list("history", last), list("output:succeeded", -1), list("output:failed", -1)];
        let replies = self.ask(doing::HISTORY, &commands).await?;
        let [lines, succeeded, failed] = self.exactly(doing::HISTORY, replies)?;
        let lines: Vec<String> = self.read(doing::HISTORY, lines)?;
        let mut outputs: Vec<String> = self.read(doing::HISTORY, succeeded)?;
        outputs.extend(self.read::<Vec<String>>(doing::HISTORY, failed)?);
        wire::history(&lines, &outputs).map_err(|error| self.bad(doing::HISTORY, error))
    }

    async fn server_time(&self) -> Result<DateTime<Utc>, Error> {
        let replies = self.ask(doing::TIME, &[Command::beside("TIME", self.jobs_key())]).await?;
        let [time] = self.exactly(doing::TIME, replies)?;
        let (seconds, micros): (i64, u32) = self.read(doing::TIME, time)?;
        DateTime::from_timestamp(seconds, micros * 1000).ok_or_else(|| self.bad(doing::TIME, format!("{seconds} s")))
    }

    async fn identity(&self) -> Result<Identity, Error> {
        self.servers.identity().await
    }

    async fn probe(&self) -> Result<Probe, Error> {
        probe::probe(&self.servers, &self.jobs_key()).await
    }

    async fn retire(&self, unregistered_for: Duration) -> Result<Vec<JobName>, Error> {
        let millis = i64::try_from(unregistered_for.as_millis()).unwrap_or(i64::MAX).to_string();
        let mut retired = Vec::new();
        for names in self.names(doing::RETIRE).await?.chunks(READ_MOST) {
            let script = &self.servers.scripts.retire;
            let command = |name: &String| {
                let arguments = [String::new(), String::new(), millis.clone()];
                Command::script(&script.hash, self.key(name, "job")).arg(&arguments)
            };
            let commands: Vec<Command> = names.iter().map(command).collect();
            let replies = self.servers.query(doing::RETIRE, (&commands, Sure::Durable)).await?;
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
        let script = &self.servers.scripts.meet;
        let replies =
            self.ask(doing::MEET, &[Command::script(&script.hash, self.members_key()).arg(&arguments)]).await?;
        let [reply] = self.exactly(doing::MEET, replies)?;
        let (at, texts): (i64, Vec<(String, String)>) = self.read(doing::MEET, reply)?;
        let mut members: Vec<_> = texts.iter().map(|(name, text)| Arc::new(Presence::from_text(name, text))).collect();
        members.sort_unstable_by(|one, other| one.name.cmp(&other.name));
        Ok(Gathering { at, members })
    }

    async fn leave(&self, who: &ReplicaId) -> Result<(), Error> {
        self.ask(doing::LEAVE, &[Command::new("HDEL", self.members_key()).arg(who.as_str())]).await?;
        Ok(())
    }
}
