//! The embedded store: several replicas on one host share one file. SQLite's own lock makes a batch atomic; what a
//! step does is [`transition`], applied here between reading and writing.

mod connect;
mod members;
mod rows;

use super::Error;
use super::ErrorKind;
use super::Identity;
use super::Probe;
use super::Store;
use super::doing;
use super::transition;
use crate::job::Answer;
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
use connect::Opened;
use rows::Table;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;
use tokio::sync::Mutex;
use tokio::sync::MutexGuard;

/// How long a request waits for the lock of a database that other processes use.
const BUSY_WITHIN: Duration = Duration::from_secs(2);

/// A database file.
pub(super) struct SqliteStore {
    path: PathBuf,
    shown: String,
    namespace: Namespace,
    /// Absent until the first request, after an error, and while a request is going: a request that is dropped half-way
    /// drops the connection with it, and SQLite rolls its transaction back.
    opened: Mutex<Option<Opened>>,
}

impl fmt::Debug for SqliteStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SqliteStore({})", self.shown)
    }
}

/// A failure, before it is known what it was for.
#[derive(Debug)]
struct Failure {
    kind: ErrorKind,
    detail: String,
    /// Whether another process had the lock.
    busy: bool,
    /// The form of a record that cannot be read; 0: it is ours, and a field is not understood.
    unreadable: Option<u32>,
}

impl Failure {
    fn new(kind: ErrorKind, detail: impl Into<String>) -> Self {
        Self { kind, detail: detail.into(), busy: false, unreadable: None }
    }
}

/// SQLite's primary result codes, as numbers.
mod code {
    pub const ERROR: i32 = 1;
    pub const BUSY: i32 = 5;
    pub const LOCKED: i32 = 6;
    pub const READONLY: i32 = 8;
    pub const CORRUPT: i32 = 11;
    pub const FULL: i32 = 13;
    pub const CANTOPEN: i32 = 14;
    pub const NOTADB: i32 = 26;
}

impl From<sqlx::Error> for Failure {
    fn from(error: sqlx::Error) -> Self {
        let code = error.as_database_error().and_then(|error| error.code()?.parse::<i32>().ok());
        let text = error.as_database_error().map_or_else(|| error.to_string(), |error| error.message().to_owned());
        match code.map(|code| code & 0xff) {
            Some(code::BUSY | code::LOCKED) => {
                let seconds = BUSY_WITHIN.as_secs();
                let detail = format!("other processes have held the lock for {seconds} s ({text})");
                Self { busy: true, ..Self::new(ErrorKind::NotSent, detail) }
            }
            Some(code::NOTADB | code::CORRUPT) => {
                let wanted = "move the file away; a new one is made, and ticks before that moment are refused";
                Self::new(ErrorKind::Misconfigured, format!("the file is no intact SQLite database: {wanted} ({text})"))
            }
            Some(code::READONLY) => Self::new(
                ErrorKind::Misconfigured,
                format!("file or folder cannot be written: give this user the right to write both ({text})"),
            ),
            Some(code::CANTOPEN) => Self::new(ErrorKind::NotSent, format!("the file cannot be opened ({text})")),
            // What the version of the file says is there.
            Some(code::ERROR)
                if ["no such table", "no such column", "no column named"].iter().any(|words| text.contains(words)) =>
            {
                let wanted = "move the file away; a new one is made, and ticks before that moment are refused";
                Self::new(ErrorKind::Misconfigured, format!("a table of onecron's was dropped: {wanted} ({text})"))
            }
            Some(code::FULL) => Self::new(ErrorKind::MaybeApplied, format!("the disk is full ({text})")),
            _ => Self::new(ErrorKind::MaybeApplied, text),
        }
    }
}

/// One request, which has the connection to itself. If it is dropped before [`Session::keep`] or [`Session::commit`],
/// so is the connection.
struct Session<'a> {
    place: MutexGuard<'a, Option<Opened>>,
    opened: Opened,
    namespace: &'a Namespace,
}

impl Session<'_> {
    fn table(&mut self) -> Table<'_> {
        let Opened { connection, stamp, .. } = &mut self.opened;
        Table { connection, namespace: self.namespace, file: stamp }
    }

    /// Starts a transaction that no other process can write beside.
    async fn begin(&mut self) -> Result<(), Failure> {
        // Immediate: a transaction that reads first and asks for the lock later can be refused at once.
        sqlx::raw_sql("BEGIN IMMEDIATE").execute(&mut self.opened.connection).await?;
        Ok(())
    }

    async fn commit(mut self) -> Result<(), Failure> {
        let done = sqlx::raw_sql("COMMIT").execute(&mut self.opened.connection).await;
        // Whatever the reason: after a failed commit nobody knows.
        done.map_err(|error| Failure { kind: ErrorKind::MaybeApplied, ..Failure::from(error) })?;
        self.keep();
        Ok(())
    }

    fn keep(mut self) {
        *self.place = Some(self.opened);
    }
}

impl SqliteStore {
    /// Takes what follows `sqlite:`. Does not open the file.
    ///
    /// # Errors
    /// What is wrong with the path.
    pub fn open(path: &str, namespace: &Namespace) -> Result<Self, String> {
        if path.is_empty() {
            return Err("the path is missing: write sqlite:onecron.db or sqlite:/var/lib/onecron/onecron.db".into());
        }
        if path.starts_with("//") {
            // With a user in it, it is another store's URL, and may have a password.
            let path = if path.contains('@') { "PATH" } else { path.trim_start_matches('/') };
            return Err(format!("a path has no `//` before it: write sqlite:/{path} or sqlite:{path}"));
        }
        if path.starts_with(':') {
            return Err("a database in memory is `memory:`, for one process".into());
        }
        // `./` keeps SQLite from reading `file:x?mode=...` as a URI of its own.
        let file = if path.starts_with('/') { PathBuf::from(path) } else { PathBuf::from(format!("./{path}")) };
        let (shown, opened) = (format!("sqlite:{path}"), Mutex::default());
        Ok(Self { path: file, shown, namespace: namespace.clone(), opened })
    }

    fn error(&self, operation: &'static str, failure: Failure) -> Error {
        Error { kind: failure.kind, operation, store: self.shown.clone(), detail: failure.detail }
    }

    async fn session(&self) -> Result<Session<'_>, Failure> {
        let mut place = self.opened.lock().await;
        let opened = match place.take().filter(|opened| opened.is_of(&self.path)) {
            Some(opened) => opened,
            None => connect::open(&self.path).await?,
        };
        Ok(Session { place, opened, namespace: &self.namespace })
    }

    async fn apply_all(&self, steps: &[Step]) -> Result<Vec<Answer>, Failure> {
        let mut session = self.session().await?;
        session.begin().await?;
        let mut table = session.table();
        let now = table.now().await?;
        let mut answers = Vec::with_capacity(steps.len());
        for step in steps {
            let mut picture = match table.picture(step).await {
                Err(Failure { unreadable: Some(format), .. }) => {
                    // That is the trouble of one job.
                    answers.push(Answer::unreadable(format));
                    continue;
                }
                picture => picture?,
            };
            let (answer, changes) = transition::apply(&mut picture, step, now);
            table.save(step.job(), picture, changes).await?;
            answers.push(answer);
        }
        session.commit().await?;
        Ok(answers)
    }

    async fn read_jobs(&self) -> Result<Vec<(JobName, JobRecord)>, Failure> {
        let mut session = self.session().await?;
        let jobs = session.table().jobs().await?;
        session.keep();
        Ok(jobs)
    }

    async fn read_history(&self, job: &JobName, most: usize) -> Result<Vec<HistoryEntry>, Failure> {
        let mut session = self.session().await?;
        let entries = session.table().history(job, most).await?;
        session.keep();
        Ok(entries)
    }

    async fn read_time(&self) -> Result<DateTime<Utc>, Failure> {
        let mut session = self.session().await?;
        let now = session.table().now().await?;
        session.keep();
        let out_of_range = || Failure::new(ErrorKind::MaybeApplied, format!("the clock says {now} ms"));
        DateTime::from_timestamp_millis(now).ok_or_else(out_of_range)
    }

    async fn read_identity(&self) -> Result<Identity, Failure> {
        let session = self.session().await?;
        let server = session.opened.stamp.clone();
        session.keep();
        Ok(Identity { server, ..Identity::default() })
    }

    async fn look(&self) -> Result<Probe, Failure> {
        let mut session = self.session().await?;
        let probe = connect::probe(&mut session.opened, &self.path).await?;
        session.keep();
        Ok(probe)
    }

    async fn retire_idle(&self, millis: i64) -> Result<Vec<JobName>, Failure> {
        let mut session = self.session().await?;
        session.begin().await?;
        let mut table = session.table();
        let before = table.now().await?.saturating_sub(millis);
        let retired = table.retire(before).await?;
        session.commit().await?;
        Ok(retired)
    }

    async fn gather(&self, mine: Option<&Presence>, gone: &[Presence]) -> Result<Gathering, Failure> {
        let mut session = self.session().await?;
        if mine.is_none() && gone.is_empty() {
            let mut table = session.table();
            let gathering = Gathering { at: table.now().await?, members: table.members().await? };
            session.keep();
            return Ok(gathering);
        }
        session.begin().await?;
        let mut table = session.table();
        let at = table.now().await?;
        for member in gone {
            table.remove_member(&member.name, Some(member.number)).await?;
        }
        if let Some(mine) = mine {
            table.save_member(mine, at).await?;
        }
        let members = table.members().await?;
        session.commit().await?;
        Ok(Gathering { at, members })
    }

    async fn remove(&self, who: &ReplicaId) -> Result<(), Failure> {
        let mut session = self.session().await?;
        session.table().remove_member(who, None).await?;
        session.keep();
        Ok(())
    }
}

#[async_trait]
impl Store for SqliteStore {
    fn has_clock(&self) -> bool {
        true
    }

    fn url(&self) -> &str {
        &self.shown
    }

    async fn apply(&self, steps: &[Step]) -> Result<Vec<Answer>, Error> {
        let Some(first) = steps.first() else { return Ok(Vec::new()) };
        self.apply_all(steps).await.map_err(|failure| self.error(doing::step(first), failure))
    }

    async fn jobs(&self) -> Result<Vec<(JobName, JobRecord)>, Error> {
        self.read_jobs().await.map_err(|failure| self.error(doing::JOBS, failure))
    }

    async fn history(&self, job: &JobName, most: usize) -> Result<Vec<HistoryEntry>, Error> {
        self.read_history(job, most).await.map_err(|failure| self.error(doing::HISTORY, failure))
    }

    async fn server_time(&self) -> Result<DateTime<Utc>, Error> {
        self.read_time().await.map_err(|failure| self.error(doing::TIME, failure))
    }

    async fn identity(&self) -> Result<Identity, Error> {
        self.read_identity().await.map_err(|failure| self.error(doing::IDENTITY, failure))
    }

    async fn probe(&self) -> Result<Probe, Error> {
        self.look().await.map_err(|failure| self.error(doing::PROBE, failure))
    }

    async fn retire(&self, unregistered_for: Duration) -> Result<Vec<JobName>, Error> {
        let millis = i64::try_from(unregistered_for.as_millis()).unwrap_or(i64::MAX);
        self.retire_idle(millis).await.map_err(|failure| self.error(doing::RETIRE, failure))
    }

    async fn meet(&self, mine: Option<&Presence>, gone: &[Presence]) -> Result<Gathering, Error> {
        self.gather(mine, gone).await.map_err(|failure| self.error(doing::MEET, failure))
    }

    async fn leave(&self, who: &ReplicaId) -> Result<(), Error> {
        self.remove(who).await.map_err(|failure| self.error(doing::LEAVE, failure))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_relative_path_is_never_read_as_a_uri() {
        let store = SqliteStore::open("file:x?mode=memory", &Namespace::new("n").unwrap()).unwrap();
        assert_eq!(store.path, PathBuf::from("./file:x?mode=memory"));
        assert_eq!(store.url(), "sqlite:file:x?mode=memory");
    }

    #[test]
    fn a_path_that_is_none_says_what_to_write() {
        for (path, wanted) in [("", "sqlite:onecron.db"), ("///x.db", "sqlite:/x.db"), (":memory:", "`memory:`")] {
            let error = SqliteStore::open(path, &Namespace::new("n").unwrap()).unwrap_err();
            assert!(error.contains(wanted), "{error}");
        }
    }
}
