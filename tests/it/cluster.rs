//! Three real daemons on one real store. The jobs themselves write the ledger that is checked.

mod absence;
mod amnesia;
mod crash;
mod failover;
mod orders;
mod outage;
mod race;
mod reading;
mod reloads;
mod rolling;
mod skew;
mod slots;
mod tables;

use crate::processes;
use crate::support::bench::Kind;
use crate::support::bench::program;
use crate::support::daemon::Daemon;
use crate::support::daemon::Launch;
use crate::support::daemon::Table;
use crate::support::documents;
use crate::support::server::RedisServer;
use crate::support::sql_server;
use onecron::clock::Clock;
use onecron::clock::SystemClock;
use onecron::job::HistoryEntry;
use onecron::job::JobName;
use onecron::job::Tick;
use std::path::PathBuf;
use std::time::Duration;

/// A store for a fleet; with it, the server that must live as long.
pub struct FleetStore {
    pub url: String,
    pub server: Option<RedisServer>,
}

impl FleetStore {
    /// A Redis of its own, where the machine has one.
    pub fn redis() -> Option<Self> {
        let server = RedisServer::start(&program(Kind::Redis)?, &["--appendonly", "yes"]);
        Some(Self { url: server.url(), server: Some(server) })
    }

    /// The same, and it forgets nothing that it acknowledged, whenever it is killed. With the usual `everysec` it holds
    /// writes back, up to two seconds, while an earlier fsync is under way.
    pub fn redis_that_remembers() -> Option<Self> {
        let arguments = ["--appendonly", "yes", "--appendfsync", "always"];
        let server = RedisServer::start(&program(Kind::Redis)?, &arguments);
        Some(Self { url: server.url(), server: Some(server) })
    }

    /// A database on the server of SQL that all tests share.
    pub fn sql(kind: Kind) -> Option<Self> {
        let server = sql_server::shared(kind)?;
        Some(Self { url: server.url(&server.make_database()), server: None })
    }

    /// An etcd of one member, where the machine has one. It is that of all tests, but no other fleet is on it.
    pub fn etcd() -> Option<Self> {
        Some(Self { url: documents::shared(Kind::Etcd)?.url(), server: None })
    }

    /// A file beside the table.
    pub fn sqlite() -> Self {
        Self { url: "sqlite:fleet.db".into(), server: None }
    }
}

/// Daemons that share a table and a store.
pub struct Fleet {
    pub table: Table,
    pub store: FleetStore,
    pub daemons: Vec<Daemon>,
}

/// One line of the ledger: a process that was started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    pub word: String,
    pub job: String,
    pub tick: Tick,
    pub attempt: u32,
    pub token: u64,
    pub replica: String,
    pub pid: i32,
}

/// What a job does to enter itself into the ledger. Short appends are whole, by POSIX.
pub fn entry(word: &str) -> String {
    format!("echo {word} $ONECRON_RUN_ID $ONECRON_ATTEMPT $ONECRON_FENCING_TOKEN $ONECRON_REPLICA $$ >> ledger")
}

impl Fleet {
    pub fn start(jobs: &str, store: FleetStore, count: usize) -> Self {
        let table = Table::new(jobs);
        let mut fleet = Self { table, store, daemons: Vec::new() };
        for number in 1..=count {
            let daemon = fleet.launch(number).start();
            fleet.daemons.push(daemon);
        }
        fleet.daemons.iter().for_each(|daemon| drop(daemon.wait_for_event("daemon_ready")));
        fleet
    }

    pub fn launch(&self, number: usize) -> Launch {
        let name = format!("web-{number}");
        Launch::new(&["run", "--jobs", &self.table.path(), "--store", &self.store.url, "--instance", &name])
            .folder(self.table.folder.path())
    }

    fn ledger_path(&self) -> PathBuf {
        self.table.folder.path().join("ledger")
    }

    pub fn ledger(&self) -> Vec<Entry> {
        let text = std::fs::read_to_string(self.ledger_path()).unwrap_or_default();
        text.lines().map(|line| Entry::parse(line).unwrap_or_else(|| panic!("{line:?} in the ledger"))).collect()
    }

    /// Ledger lines with a word, of a job.
    pub fn entries(&self, word: &str, job: &str) -> Vec<Entry> {
        self.ledger().into_iter().filter(|entry| entry.word == word && entry.job == job).collect()
    }

    /// Waits for the first ledger line with a word, of a job.
    pub fn wait_for_entry(&self, word: &str, job: &str) -> Entry {
        self.wait_for_entry_within(word, job, Duration::from_secs(30))
    }

    /// The same, with a limit.
    pub fn wait_for_entry_within(&self, word: &str, job: &str, limit: Duration) -> Entry {
        processes::until_limit("the job has written to the ledger", limit, || !self.entries(word, job).is_empty());
        self.entries(word, job).remove(0)
    }

    /// The newest entries of a job's history in the store, newest first.
    pub fn history(&self, job: &str) -> Vec<HistoryEntry> {
        let url = self.store.url.replace("sqlite:", &format!("sqlite:{}/", self.table.folder.path().display()));
        let store = crate::support::bench::open(&url, "default");
        let runtime = tokio::runtime::Runtime::new().unwrap();
        runtime.block_on(store.history(&JobName::new(job).unwrap(), 200)).unwrap()
    }

    /// Position of the daemon with that replica id.
    pub fn position(&self, replica: &str) -> usize {
        self.daemons.iter().position(|daemon| daemon.replica() == replica).unwrap()
    }
}

impl Entry {
    fn parse(line: &str) -> Option<Self> {
        let words: Vec<&str> = line.split(' ').collect();
        let [word, run, attempt, token, replica, pid] = words[..] else { return None };
        let (job, tick) = run.split_once('@')?;
        Some(Self {
            word: word.into(),
            job: job.into(),
            tick: Tick::parse(tick)?,
            attempt: attempt.parse().ok()?,
            token: token.parse().ok()?,
            replica: replica.into(),
            pid: pid.parse().ok()?,
        })
    }
}

/// Seconds of the wall clock.
pub fn wall() -> i64 {
    SystemClock.now().wall.timestamp()
}
