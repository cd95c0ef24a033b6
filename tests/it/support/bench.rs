//! A store that a test has to itself.

use super::server::RedisServer;
use super::server::find_program;
use onecron::clock::SystemClock;
use onecron::job::Namespace;
use onecron::store::Store;
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
}

pub struct Bench {
    pub kind: Kind,
    url: String,
    _server: Option<RedisServer>,
    _folder: TempDir,
    /// A store in memory lives in its handle.
    memory: Mutex<BTreeMap<String, Arc<dyn Store>>>,
}

impl Bench {
    /// Starts a store; `None` where this machine lacks it, unless `REQUIRE_STORES` names it.
    pub fn start(kind: Kind) -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let mut server = None;
        let url = match kind {
            Kind::Memory => "memory:".into(),
            Kind::Sqlite => format!("sqlite:{}/onecron.db", folder.path().display()),
            Kind::Redis => server.insert(RedisServer::start(&program(kind)?, &[])).url(),
            Kind::Valkey => server.insert(RedisServer::start(&program(kind)?, &[])).url(),
        };
        Some(Self { kind, url, _server: server, _folder: folder, memory: Mutex::default() })
    }

    /// A handle of its own, as another process has it.
    pub fn open(&self, namespace: &str) -> Arc<dyn Store> {
        let make = || open(&self.url, namespace);
        if self.kind == Kind::Memory {
            return self.memory.lock().unwrap().entry(namespace.into()).or_insert_with(make).clone();
        }
        make()
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
