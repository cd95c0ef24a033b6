//! A store that a test has to itself.

use super::documents;
use super::redis_modes;
use super::redis_modes::Deployment;
use super::server::RedisServer;
use super::server::find_program;
use super::sql_server;
use super::sql_server::Alone;
use super::sql_server::Pooler;
use onecron::clock::SystemClock;
use onecron::job::Namespace;
use onecron::store::Access;
use onecron::store::MemoryStore;
use onecron::store::Store;
use sqlx::Connection;
use sqlx::SqliteConnection;
use sqlx::sqlite::SqliteConnectOptions;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering;
use tempfile::TempDir;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Memory,
    Sqlite,
    Redis,
    Valkey,
    /// With certificates on both sides.
    RedisTls,
    /// With the account that the docs recommend.
    RedisAccount,
    RedisSentinel,
    RedisCluster,
    Postgres,
    /// PostgreSQL behind PgBouncer, in transaction mode.
    PgBouncer,
    MariaDb,
    Etcd,
    Consul,
    Memcached,
}

pub struct Bench {
    pub kind: Kind,
    url: String,
    /// A server of SQL that nobody else uses meanwhile.
    alone: Mutex<Option<Alone>>,
    /// What stands in front of it.
    #[expect(dead_code, reason = "it lives as long as the bench")]
    pooler: Option<Pooler>,
    access: Access,
    servers: Mutex<Option<Deployment>>,
    /// Keeps those apart who share servers.
    prefix: String,
    folder: TempDir,
    /// A store in memory lives in its handle.
    memory: Mutex<BTreeMap<String, Arc<MemoryStore>>>,
}

impl Bench {
    /// Starts a store; `None` where this machine lacks it, unless `REQUIRE_STORES` names it. Servers that take long to
    /// start are shared: a bench that they restart under has to be [`Bench::start_alone`].
    pub fn start(kind: Kind) -> Option<Self> {
        if matches!(kind, Kind::Memory | Kind::Sqlite | Kind::Redis | Kind::Valkey) {
            return Self::start_alone(kind);
        }
        if matches!(kind, Kind::Postgres | Kind::PgBouncer | Kind::MariaDb) {
            return Self::start_sql(kind);
        }
        static BENCHES: AtomicUsize = AtomicUsize::new(0);
        let (url, access) = match kind {
            Kind::Etcd | Kind::Consul | Kind::Memcached => (documents::shared(kind)?.url(), Access::default()),
            _ => {
                program(Kind::Redis)?;
                redis_modes::shared(kind)?
            }
        };
        let prefix = format!("b{}-", BENCHES.fetch_add(1, Ordering::Relaxed));
        Some(Self { prefix, ..Self::new(kind, (url, access), None) })
    }

    /// The same on servers that nobody else uses.
    pub fn start_alone(kind: Kind) -> Option<Self> {
        let redis = |server: RedisServer| Deployment::of(server.url(), server);
        let servers = match kind {
            Kind::Memory => return Some(Self::new(kind, ("memory:".into(), Access::default()), None)),
            Kind::Sqlite => {
                let mut bench = Self::new(kind, (String::new(), Access::default()), None);
                bench.url = format!("sqlite:{}/onecron.db", bench.folder.path().display());
                return Some(bench);
            }
            Kind::Redis | Kind::Valkey => redis(RedisServer::start(&program(kind)?, &[])),
            // The mark of a namespace stands for the server: see `restart`.
            Kind::Etcd | Kind::Consul | Kind::Memcached => return Self::start(kind),
            Kind::RedisTls => redis_modes::tls()?,
            Kind::RedisAccount => redis_modes::account()?,
            Kind::RedisSentinel => redis_modes::sentinels(0, 1, |port| port)?,
            Kind::RedisCluster => redis_modes::cluster(1, 0, &mut |_| None)?,
            Kind::Postgres | Kind::PgBouncer | Kind::MariaDb => return Self::start_sql_alone(kind),
        };
        Some(Self::new(kind, (servers.url.clone(), servers.access.clone()), Some(servers)))
    }

    fn new(kind: Kind, (url, access): (String, Access), servers: Option<Deployment>) -> Self {
        let (folder, memory) = (tempfile::tempdir().unwrap(), Mutex::default());
        let (servers, alone, prefix) = (Mutex::new(servers), Mutex::default(), String::new());
        Self { kind, url, access, servers, alone, pooler: None, prefix, folder, memory }
    }

    /// A database on the server of SQL that all tests share.
    fn start_sql(kind: Kind) -> Option<Self> {
        let server = sql_server::shared(kind)?;
        let port = if kind == Kind::PgBouncer { sql_server::shared_pooler()?.port } else { server.port };
        let url = sql_server::url(kind, port, &server.make_database());
        Some(Self::new(kind, (url, Access::default()), None))
    }

    /// One on a server that nobody else uses meanwhile.
    fn start_sql_alone(kind: Kind) -> Option<Self> {
        let server = Alone::new(kind)?;
        let pooler = if kind == Kind::PgBouncer { Some(Pooler::start(server.port, "")?) } else { None };
        let port = pooler.as_ref().map_or(server.port, |pooler| pooler.port);
        let url = sql_server::url(kind, port, &server.make_database());
        let alone = Mutex::new(Some(server));
        Some(Self { alone, pooler, ..Self::new(kind, (url, Access::default()), None) })
    }

    /// A handle of its own, as another process has it.
    pub fn open(&self, namespace: &str) -> Arc<dyn Store> {
        if self.kind == Kind::Memory {
            let make = || Arc::new(MemoryStore::new(Arc::new(SystemClock)));
            return self.memory.lock().unwrap().entry(namespace.into()).or_insert_with(make).clone();
        }
        open_with(&self.url, &self.access, &self.namespace(namespace))
    }

    fn namespace(&self, name: &str) -> String {
        // The longest there is has no room for more, and no two tests use it.
        if name.len() > 40 { name.into() } else { format!("{}{name}", self.prefix) }
    }

    /// The store goes away and comes back with all that it knew, as one that may have lost something: a server is
    /// killed and started again, a file is replaced by its copy; where documents are kept, the mark that says which store
    /// it is becomes another, as after the restoring of a copy.
    pub async fn restart(&self) {
        match self.kind {
            Kind::Memory => self.memory.lock().unwrap().values().for_each(|store| store.restart()),
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
            Kind::Etcd | Kind::Consul | Kind::Memcached => {
                let server = documents::shared(self.kind).unwrap();
                server.put(&format!("onecron/{}/store", self.namespace("default")), r#"{"id":"another"}"#);
            }
            _ => self.servers.lock().unwrap().as_mut().unwrap().restart(),
        }
    }
}

/// Opens a store that must exist.
pub fn open(url: &str, namespace: &str) -> Arc<dyn Store> {
    open_with(url, &Access::default(), namespace)
}

/// The same with accounts and certificates.
pub fn open_with(url: &str, access: &Access, namespace: &str) -> Arc<dyn Store> {
    let namespace = Namespace::new(namespace).unwrap();
    onecron::store::open_with(url, access, &namespace, Arc::new(SystemClock)).unwrap()
}

/// The server's program; `None` where this machine lacks it, unless `REQUIRE_STORES` names it.
pub fn program(kind: Kind) -> Option<std::path::PathBuf> {
    let (word, name) = match kind {
        Kind::Postgres => ("postgres", "postgres"),
        Kind::PgBouncer => ("pgbouncer", "pgbouncer"),
        Kind::MariaDb => ("mariadb", "mariadbd"),
        Kind::Memory | Kind::Sqlite => return None,
        Kind::Valkey => ("valkey", "valkey-server"),
        Kind::Etcd => ("etcd", "etcd"),
        Kind::Consul => ("consul", "consul"),
        Kind::Memcached => ("memcached", "memcached"),
        _ => ("redis", "redis-server"),
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
