//! A store that a test has to itself.

use super::documents;
use super::server::RedisServer;
use super::server::find_program;
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
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering;
use tempfile::TempDir;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Memory,
    Sqlite,
    Redis,
    Valkey,
    Etcd,
    Consul,
    Memcached,
}

pub struct Bench {
    pub kind: Kind,
    url: String,
    /// On a server that is shared: what keeps this bench's namespaces apart from those of all others.
    prefix: String,
    server: Mutex<Option<RedisServer>>,
    folder: TempDir,
    /// A store in memory lives in its handle.
    memory: Mutex<BTreeMap<String, Arc<MemoryStore>>>,
}

impl Bench {
    /// Starts a store; `None` where this machine lacks it, unless `REQUIRE_STORES` names it.
    pub fn start(kind: Kind) -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let mut server = None;
        let mut prefix = String::new();
        let url = match kind {
            Kind::Memory => "memory:".into(),
            Kind::Sqlite => format!("sqlite:{}/onecron.db", folder.path().display()),
            Kind::Redis => server.insert(RedisServer::start(&program(kind)?, &[])).url(),
            Kind::Valkey => server.insert(RedisServer::start(&program(kind)?, &[])).url(),
            Kind::Etcd | Kind::Consul | Kind::Memcached => {
                static BENCHES: AtomicUsize = AtomicUsize::new(0);
                prefix = format!("c{}-", BENCHES.fetch_add(1, Ordering::SeqCst));
                documents::shared(kind)?.url()
            }
        };
        Some(Self { kind, url, prefix, server: Mutex::new(server), folder, memory: Mutex::default() })
    }

    /// A handle of its own, as another process has it.
    pub fn open(&self, namespace: &str) -> Arc<dyn Store> {
        if self.kind == Kind::Memory {
            let make = || Arc::new(MemoryStore::new(Arc::new(SystemClock)));
            return self.memory.lock().unwrap().entry(namespace.into()).or_insert_with(make).clone();
        }
        open(&self.url, &self.namespace(namespace))
    }

    fn namespace(&self, name: &str) -> String {
        // The longest there is has no room for more, and no two tests use it.
        if name.len() > 40 { name.into() } else { format!("{}{name}", self.prefix) }
    }

    /// The store goes away and comes back with all that it knew, as one that may have lost something: a server is
    /// killed and started again, a file is replaced by its copy; where the server is shared, the mark that says which
    /// store it is stands for it, as after the restoring of a copy.
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
            Kind::Etcd | Kind::Consul | Kind::Memcached => {
                let server = documents::shared(self.kind).unwrap();
                server.put(&format!("onecron/{}/store", self.namespace("default")), r#"{"id":"another"}"#);
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
        Kind::Etcd => ("etcd", "etcd"),
        Kind::Consul => ("consul", "consul"),
        Kind::Memcached => ("memcached", "memcached"),
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
