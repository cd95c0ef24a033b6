//! Servers of SQL: PostgreSQL, MySQL and MariaDB. A batch is one transaction: it locks the rows of its jobs, loads what
//! its steps need to see, applies [`transition`](crate::store::transition) to that in memory, and saves what changed. What
//! the servers do differently is a [`Dialect`].
//!
//! Nothing is kept in a session: a pooler may give each transaction another connection.

mod batch;
pub(super) mod dialect;
mod event;
pub(super) mod link;
mod members;
mod migrate;
mod rows;
mod save;
pub(super) mod table;
pub(super) mod target;

use super::doing;
use crate::chance;
use crate::job::Answer;
use crate::job::Gathering;
use crate::job::HistoryEntry;
use crate::job::JobName;
use crate::job::JobRecord;
use crate::job::Namespace;
use crate::job::Presence;
use crate::job::ReplicaId;
use crate::job::Step;
use crate::store::Error;
use crate::store::ErrorKind;
use crate::store::Identity;
use crate::store::Probe;
use crate::store::Store;
use crate::store::place::Place;
use async_trait::async_trait;
use chrono::DateTime;
use chrono::Utc;
use dialect::Connected;
use dialect::Dialect;
use migrate::Migration;
use std::fmt;
use std::io;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering;
use std::time::Duration;
use table::Look;
use table::Table;
use target::Target;
use tokio::sync::Mutex;
use tokio::sync::MutexGuard;
use tokio::time::Instant;
use tokio::time::sleep;
use tokio::time::timeout_at;

/// What to do about an account that the server does not accept.
pub(super) const CHECK_BOTH: &str =
    "check both: those of the URL, or of --store-user and --store-password-file; where none is given, none is sent";
/// How long a request may take, with all its attempts.
const ANSWER_WITHIN: Duration = Duration::from_secs(4);
/// How long connecting to one host may take.
const CONNECT_WITHIN: Duration = Duration::from_secs(2);
/// How often a request is tried that the server refused because of another one, and for how long each waits, on average,
/// before its second attempt.
const TRIES: u32 = 6;
const PAUSE: Duration = Duration::from_millis(10);

/// A database on a server.
pub(super) struct SqlStore {
    dialect: Box<dyn Dialect>,
    target: Target,
    namespace: Namespace,
    /// Absent until the first request, after an error, and while a request is going: a request that is dropped half-way
    /// drops the connection with it, and the server rolls its transaction back.
    opened: Mutex<Option<Connected>>,
    /// Whether a request found that a table is missing which the version says is there: the next connecting makes it.
    torn: AtomicBool,
}

impl fmt::Debug for SqlStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SqlStore({})", self.target.shown)
    }
}

/// A failure, before it is known what it was for.
#[derive(Debug)]
pub(super) struct Failure {
    pub kind: ErrorKind,
    pub detail: String,
    /// What the server calls it, where it has a name for it.
    pub code: String,
    /// Whether another transaction was in the way, and this one may succeed when it is tried again.
    pub again: bool,
    /// Whether the connection was found closed.
    pub closed: bool,
    /// Whether a table or column of ours is missing: somebody dropped it, or is just making it.
    pub torn: bool,
    /// Whether the server does not let us in: for want of TLS or a certificate, it may be.
    pub barred: bool,
    /// The form of a record that cannot be read; 0: it is ours, and a field is not understood.
    pub unreadable: Option<u32>,
}

impl Failure {
    pub fn new(kind: ErrorKind, detail: impl Into<String>) -> Self {
        let (detail, code) = (detail.into(), String::new());
        Self { kind, detail, code, again: false, closed: false, torn: false, barred: false, unreadable: None }
    }

    /// A table or column of ours is missing, the server says.
    pub fn torn(text: &str) -> Self {
        let detail =
            format!("a table of onecron's was dropped, or lacks a column: what is missing is made again ({text})");
        Self { torn: true, ..Self::new(ErrorKind::NotSent, detail) }
    }

    /// Why what is missing could not be made.
    fn of_mending(self) -> Self {
        let detail = format!("a table of onecron's was dropped, and cannot be made again: {}", self.detail);
        Self { detail, ..self }
    }

    /// What an error means that is none of the server's own. Before a commit nothing is applied, whatever goes wrong.
    pub fn of_connection(error: &sqlx::Error) -> Self {
        match error {
            // What a TLS that was begun is about.
            sqlx::Error::Io(error) if is_refused(error) => {
                Self::new(ErrorKind::Misconfigured, format!("the connection cannot be encrypted: {error}"))
            }
            sqlx::Error::Io(error) => Self { closed: true, ..Self::new(ErrorKind::NotSent, error.to_string()) },
            sqlx::Error::Tls(error) if error.to_string().contains("does not support TLS") => Self::new(
                ErrorKind::Misconfigured,
                "the server has no TLS, and the URL or --store-ca-file wants it: turn it on there, or leave them out",
            ),
            sqlx::Error::Tls(error) => {
                Self::new(ErrorKind::Misconfigured, format!("the connection cannot be encrypted: {error}"))
            }
            sqlx::Error::Configuration(error) => Self::new(ErrorKind::Misconfigured, error.to_string()),
            sqlx::Error::Protocol(error) => Self::new(
                ErrorKind::NotSent,
                format!("what answers there speaks another protocol, or broke off: check host and port ({error})"),
            ),
            error => Self::new(ErrorKind::NotSent, error.to_string()),
        }
    }

    /// The answer took too long. Nothing was committed, but a smaller request may be answered.
    fn late() -> Self {
        Self::new(ErrorKind::MaybeApplied, format!("no answer within {} s", ANSWER_WITHIN.as_secs()))
    }
}

/// Whether one of the two sides does not take the other's certificate.
fn is_refused(error: &io::Error) -> bool {
    let found = error.get_ref().and_then(|error| error.downcast_ref::<rustls::Error>());
    matches!(found, Some(rustls::Error::InvalidCertificate(_) | rustls::Error::AlertReceived(_)))
}

/// One request, which has the connection to itself, in a transaction. If it is dropped before [`Session::commit`], so is
/// the connection.
struct Session<'a> {
    store: &'a SqlStore,
    place: MutexGuard<'a, Option<Connected>>,
    opened: Connected,
    deadline: Instant,
}

impl Session<'_> {
    fn table(&mut self) -> Table<'_> {
        Table {
            dialect: &*self.store.dialect,
            link: &mut *self.opened.link,
            look: &self.opened.look,
            namespace: self.store.namespace.as_str(),
            deadline: self.deadline,
        }
    }

    async fn run(&mut self, sql: &str) -> Result<(), Failure> {
        match timeout_at(self.deadline, self.opened.link.run(sql)).await {
            Ok(done) => done.map_err(|error| self.store.dialect.classify(&error)),
            Err(_) => Err(Failure::late()),
        }
    }

    /// Ends the transaction. Whatever the reason: after a failed commit nobody knows.
    async fn commit(mut self) -> Result<(), Failure> {
        let done = self.run(self.store.dialect.commit()).await;
        done.map_err(|failure| Failure {
            kind: ErrorKind::MaybeApplied,
            again: false,
            closed: false,
            torn: false,
            ..failure
        })?;
        *self.place = Some(self.opened);
        Ok(())
    }
}

/// How often a request has been tried, and until when it may be.
struct Attempts {
    deadline: Instant,
    count: u32,
}

impl Attempts {
    fn new() -> Self {
        Self { deadline: Instant::now() + ANSWER_WITHIN, count: 0 }
    }

    /// Whether the request is to be tried again, after a pause. One that found its connection closed is, once: servers
    /// and balancers close those that were idle, and that is no outage. So is one that missed a table: connecting makes it.
    async fn go_on(&mut self, failure: &Failure) -> bool {
        self.count += 1;
        if failure.closed || failure.torn {
            return self.count == 1;
        }
        // Twice as long each time, and a different time for each process.
        let most = PAUSE.saturating_mul(2 << self.count.min(8));
        let pause = most.mul_f64(chance::share());
        let goes_on = failure.again && self.count < TRIES && Instant::now() + pause < self.deadline;
        if goes_on {
            sleep(pause).await;
        }
        goes_on
    }
}

/// Tries a request until it succeeds or is not to be tried again.
macro_rules! tried {
    ($store:ident, $once:expr) => {{
        let mut attempts = Attempts::new();
        loop {
            match $once(attempts.deadline).await {
                Err(failure) if $store.heed(&failure) && attempts.go_on(&failure).await => {}
                outcome => break outcome,
            }
        }
    }};
}

impl SqlStore {
    /// A database of one kind of server. Never connects.
    pub fn new(dialect: Box<dyn Dialect>, target: Target, namespace: &Namespace) -> Self {
        Self { dialect, target, namespace: namespace.clone(), opened: Mutex::default(), torn: AtomicBool::new(false) }
    }

    /// Remembers what the next connecting has to know of a failure.
    fn heed(&self, failure: &Failure) -> bool {
        self.torn.fetch_or(failure.torn, Ordering::Relaxed);
        true
    }

    fn error(&self, operation: &'static str, failure: Failure) -> Error {
        Error { kind: failure.kind, operation, store: self.target.shown.clone(), detail: failure.detail }
    }

    /// Starts a transaction.
    async fn session(&self, deadline: Instant) -> Result<Session<'_>, Failure> {
        let busy = |_| Failure::new(ErrorKind::NotSent, "other requests of this process have the connection");
        let mut place = timeout_at(deadline, self.opened.lock()).await.map_err(busy)?;
        let (opened, is_new) = match place.take() {
            Some(opened) => (opened, false),
            None => (self.connect(deadline).await?, true),
        };
        let mut session = Session { store: self, place, opened, deadline };
        let begun = session.run(self.dialect.begin()).await;
        // One that was just made and is closed is not one that was idle.
        begun.map_err(|failure| Failure { closed: failure.closed && !is_new, ..failure })?;
        Ok(session)
    }

    /// Connects to the first host that takes writes, and brings its tables up to date.
    async fn connect(&self, deadline: Instant) -> Result<Connected, Failure> {
        let mut refused = Vec::new();
        for host in &self.target.hosts {
            let late = |_| {
                let seconds = CONNECT_WITHIN.as_secs();
                Err(Failure::new(
                    ErrorKind::NotSent,
                    format!(
                        "did not answer within {seconds} s (another kind of server stays silent, too: check host and port)"
                    ),
                ))
            };
            // Who has waited for others that connected in vain has less time.
            let until = deadline.min(Instant::now() + CONNECT_WITHIN);
            match timeout_at(until, self.connect_to(host, until)).await.unwrap_or_else(late) {
                Ok(opened) => return Ok(opened),
                Err(mut failure) => {
                    failure.detail.push_str(&self.target.advice(&failure));
                    refused.push((host, failure));
                }
            }
        }
        // Nothing of the request itself was sent, whatever happened. What all hosts say is said; where they differ, one
        // of them may be of use later.
        let all_are = |kind| refused.iter().all(|(_, failure)| failure.kind == kind);
        let said = [ErrorKind::Misconfigured, ErrorKind::ReadOnly].into_iter().find(|kind| all_are(*kind));
        let kind = said.unwrap_or(ErrorKind::NotSent);
        let again = refused.iter().all(|(_, failure)| failure.again);
        let one = refused.len() == 1;
        let told = refused.into_iter().map(|(host, failure)| match one {
            true => failure.detail,
            false => format!("{host}: {}", failure.detail),
        });
        let detail = format!("connecting: {}", told.collect::<Vec<_>>().join("; "));
        Err(Failure { again, ..Failure::new(kind, detail) })
    }

    async fn connect_to(&self, host: &Place, deadline: Instant) -> Result<Connected, Failure> {
        let mut opened = self.dialect.connect(&self.target, host).await?;
        let place = (&self.target, host);
        let (dialect, namespace) = (&*self.dialect, self.namespace.as_str());
        opened.link.run(dialect.begin()).await.map_err(|error| dialect.classify(&error))?;
        Table { dialect, link: &mut *opened.link, look: &opened.look, namespace, deadline }.look().await?;
        opened.link.run(dialect.commit()).await.map_err(|error| dialect.classify(&error))?;
        let torn = self.torn.load(Ordering::Relaxed);
        let migrated = Migration { dialect, link: &mut *opened.link, place, torn }.run().await;
        migrated.map_err(|failure| if torn { failure.of_mending() } else { failure })?;
        self.torn.store(false, Ordering::Relaxed);
        Ok(opened)
    }

    async fn apply_all(&self, steps: &[Step], deadline: Instant) -> Result<Vec<Answer>, Failure> {
        let mut session = self.session(deadline).await?;
        let mut table = session.table();
        let (mut batch, Look { now, identity }) = table.load(steps).await?;
        let answers = steps.iter().map(|step| batch.apply(step, &identity, now)).collect();
        table.save(batch).await?;
        session.commit().await?;
        Ok(answers)
    }

    async fn read_jobs(&self, deadline: Instant) -> Result<Vec<(JobName, JobRecord)>, Failure> {
        let mut session = self.session(deadline).await?;
        session.table().look().await?;
        let jobs = session.table().jobs().await?;
        session.commit().await?;
        Ok(jobs)
    }

    async fn read_history(&self, job: &JobName, most: usize, deadline: Instant) -> Result<Vec<HistoryEntry>, Failure> {
        let mut session = self.session(deadline).await?;
        session.table().look().await?;
        let entries = session.table().history(job, most).await?;
        session.commit().await?;
        Ok(entries)
    }

    async fn look(&self, deadline: Instant) -> Result<Look, Failure> {
        let mut session = self.session(deadline).await?;
        let look = session.table().look().await?;
        session.commit().await?;
        Ok(look)
    }

    async fn look_closer(&self, deadline: Instant) -> Result<Probe, Failure> {
        let mut session = self.session(deadline).await?;
        session.table().look().await?;
        let probing = self.dialect.probe(&mut *session.opened.link);
        let probe = timeout_at(deadline, probing).await.unwrap_or_else(|_| Err(Failure::late()))?;
        session.commit().await?;
        Ok(probe)
    }

    async fn retire_idle(&self, millis: i64, deadline: Instant) -> Result<Vec<JobName>, Failure> {
        let mut session = self.session(deadline).await?;
        let mut table = session.table();
        let now = table.look().await?.now;
        let retired = table.retire(now.saturating_sub(millis)).await?;
        table.forget_events(now, self.target.audit).await?;
        session.commit().await?;
        Ok(retired)
    }

    async fn gather(
        &self,
        (mine, gone): (Option<&Presence>, &[Presence]),
        deadline: Instant,
    ) -> Result<Gathering, Failure> {
        let mut session = self.session(deadline).await?;
        let mut table = session.table();
        let at = table.look().await?.now;
        table.remove_members(gone).await?;
        if let Some(mine) = mine {
            table.save_member(mine, at).await?;
        }
        let members = table.members().await?;
        session.commit().await?;
        Ok(Gathering { at, members })
    }

    async fn remove(&self, who: &ReplicaId, deadline: Instant) -> Result<(), Failure> {
        let mut session = self.session(deadline).await?;
        session.table().remove_member(who).await?;
        session.commit().await
    }
}

#[async_trait]
impl Store for SqlStore {
    fn has_clock(&self) -> bool {
        true
    }

    fn url(&self) -> &str {
        &self.target.shown
    }

    async fn apply(&self, steps: &[Step]) -> Result<Vec<Answer>, Error> {
        let Some(first) = steps.first() else { return Ok(Vec::new()) };
        tried!(self, |deadline| self.apply_all(steps, deadline))
            .map_err(|failure| self.error(doing::step(first), failure))
    }

    async fn jobs(&self) -> Result<Vec<(JobName, JobRecord)>, Error> {
        tried!(self, |deadline| self.read_jobs(deadline)).map_err(|failure| self.error(doing::JOBS, failure))
    }

    async fn history(&self, job: &JobName, most: usize) -> Result<Vec<HistoryEntry>, Error> {
        tried!(self, |deadline| self.read_history(job, most, deadline))
            .map_err(|failure| self.error(doing::HISTORY, failure))
    }

    async fn server_time(&self) -> Result<DateTime<Utc>, Error> {
        let look = tried!(self, |deadline| self.look(deadline)).map_err(|failure| self.error(doing::TIME, failure))?;
        let out_of_range = || Failure::new(ErrorKind::MaybeApplied, format!("the clock says {} ms", look.now));
        DateTime::from_timestamp_millis(look.now).ok_or_else(|| self.error(doing::TIME, out_of_range()))
    }

    async fn identity(&self) -> Result<Identity, Error> {
        let look =
            tried!(self, |deadline| self.look(deadline)).map_err(|failure| self.error(doing::IDENTITY, failure))?;
        Ok(look.identity)
    }

    async fn probe(&self) -> Result<Probe, Error> {
        tried!(self, |deadline| self.look_closer(deadline)).map_err(|failure| self.error(doing::PROBE, failure))
    }

    async fn retire(&self, unregistered_for: Duration) -> Result<Vec<JobName>, Error> {
        let millis = i64::try_from(unregistered_for.as_millis()).unwrap_or(i64::MAX);
        tried!(self, |deadline| self.retire_idle(millis, deadline))
            .map_err(|failure| self.error(doing::RETIRE, failure))
    }

    async fn meet(&self, mine: Option<&Presence>, gone: &[Presence]) -> Result<Gathering, Error> {
        tried!(self, |deadline| self.gather((mine, gone), deadline)).map_err(|failure| self.error(doing::MEET, failure))
    }

    async fn leave(&self, who: &ReplicaId) -> Result<(), Error> {
        tried!(self, |deadline| self.remove(who, deadline)).map_err(|failure| self.error(doing::LEAVE, failure))
    }
}
