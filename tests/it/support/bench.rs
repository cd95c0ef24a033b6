//! A store that a test has to itself.

use super::server::RedisServer;
use super::server::find_program;
use super::sql_server;
use super::sql_server::Alone;
use super::sql_server::Pooler;
use onecron::clock::SystemClock;
use onecron::job::Namespace;
use onecron::store::MemoryStore;
use onecron::store::Store;
use sqlx::Connection;
use sqlx::SqliteConnection;
use sqlx::sqlite::SqliteConnectOptions;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::Mutex;
use tempfile::TempDir;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Memory,
    Sqlite,
    Redis,
    Valkey,
    Postgres,
    /// PostgreSQL behind PgBouncer, in transaction mode.
    PgBouncer,
    MariaDb,
}

pub struct Bench {
    pub kind: Kind,
    url: String,
    server: Mutex<Option<RedisServer>>,
    /// A server of SQL that nobody else uses meanwhile.
    alone: Mutex<Option<Alone>>,
    _pooler: Option<Pooler>,
    folder: TempDir,
    /// A store in memory lives in its handle.
    memory: Mutex<BTreeMap<String, Arc<MemoryStore>>>,
}

impl Bench {
    /// Starts a store; `None` where this machine lacks it, unless `REQUIRE_STORES` names it.
    pub fn start(kind: Kind) -> Option<Self> {
        Self::start_as(kind, false)
    }

    /// Starts a store that [`Self::restart`] may stop.
    pub fn start_alone(kind: Kind) -> Option<Self> {
        Self::start_as(kind, true)
    }

    fn start_as(kind: Kind, is_alone: bool) -> Option<Self> {
        let (mut alone, mut pooler) = (None, None);
        let folder = tempfile::tempdir().unwrap();
        let mut server = None;
        let url = match kind {
            Kind::Memory => "memory:".into(),
            Kind::Sqlite => format!("sqlite:{}/onecron.db", folder.path().display()),
            Kind::Redis => server.insert(RedisServer::start(&program(kind)?, &[])).url(),
            Kind::Valkey => server.insert(RedisServer::start(&program(kind)?, &[])).url(),
            Kind::PgBouncer if is_alone => {
                let server = alone.insert(Alone::new(kind)?);
                let database = server.make_database();
                sql_server::url(kind, pooler.insert(Pooler::start(server.port, "")?).port, &database)
            }
            Kind::PgBouncer => {
                let database = sql_server::shared(kind)?.make_database();
                sql_server::url(kind, sql_server::shared_pooler()?.port, &database)
            }
            Kind::Postgres | Kind::MariaDb if is_alone => {
                let server = alone.insert(Alone::new(kind)?);
                server.url(&server.make_database())
            }
            Kind::Postgres | Kind::MariaDb => {
                let server = sql_server::shared(kind)?;
                server.url(&server.make_database())
            }
        };
        let alone = Mutex::new(alone);
        Some(Self { kind, url, server: Mutex::new(server), alone, _pooler: pooler, folder, memory: Mutex::default() })
    }

    /// A handle of its own, as another process has it.
    pub fn open(&self, namespace: &str) -> Arc<dyn Store> {
        if self.kind == Kind::Memory {
            let make = || Arc::new(MemoryStore::new(Arc::new(SystemClock)));
            return self.memory.lock().unwrap().entry(namespace.into()).or_insert_with(make).clone();
        }
        open(&self.url, namespace)
    }

    /// The store goes away and comes back with all that it knew, as one that may have lost something: a server is
    /// killed and started again, a file is replaced by its copy.
    pub async fn restart(&self) {
        match self.kind {
            Kind::Memory => self.memory.lock().unwrap().values().for_each(|store| store.restart()),
            Kind::Redis | Kind::Valkey => {
                let mut server = self.server.lock().unwrap();
                let server = server.as_mut().unwrap();
                assert_eq!(server.command("SAVE"), "+OK\r\n");
                server.kill();
                server.start_again();
            }
            Kind::Postgres | Kind::PgBouncer | Kind::MariaDb => {
                let mut alone = self.alone.lock().unwrap();
                let server = alone.as_mut().expect("a case that restarts has its own");
                server.kill();
                server.start_again();
            }
            Kind::Sqlite => {
                let (file, copy) = (self.folder.path().join("onecron.db"), self.folder.path().join("copy.db"));
                let options = SqliteConnectOptions::new().filename(&file);
                let mut connection = SqliteConnection::connect_with(&options).await.unwrap();
                sqlx::query("VACUUM INTO ?").bind(copy.to_str().unwrap()).execute(&mut connection).await.unwrap();
                connection.close().await.unwrap();
                for suffix in ["-wal", "-shm"] {
                    let _ = std::fs::remove_file(self.folder.path().join(format!("onecron.db{suffix}")));
                }
                std::fs::rename(copy, file).unwrap();
            }
        }
    }
}

/// Opens a store that must exist.
pub fn open(url: &str, namespace: &str) -> Arc<dyn Store> {
    onecron::store::open(url, &Namespace::new(namespace).unwrap(), Arc::new(SystemClock)).unwrap()
}

/// The server's program; `None` where this machine lacks it, unless `REQUIRE_STORES` names it.
pub fn program(kind: Kind) -> Option<std::path::PathBuf> {
    let (word, name) = match kind {
        Kind::Redis => ("redis", "redis-server"),
        Kind::Valkey => ("valkey", "valkey-server"),
        Kind::Postgres => ("postgres", "postgres"),
        Kind::PgBouncer => ("pgbouncer", "pgbouncer"),
        Kind::MariaDb => ("mariadb", "mariadbd"),
        Kind::Memory | Kind::Sqlite => return None,
    };
    let found = find_program(name);
    if found.is_none() {
        let required = std::env::var("REQUIRE_STORES").unwrap_or_default();
        assert!(
            !required.split([' ', ',']).any(|store| store == word),
            "REQUIRE_STORES wants {word}: no `{name}` here"
        );
        println!("SKIPPED: no `{name}` on this machine");
    }
    found
}
