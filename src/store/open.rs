//! From a URL to a store: the only list of drivers.

use super::Access;
use super::MemoryStore;
use super::Store;
use super::documents::DocumentStore;
use super::redis::RedisStore;
use super::sqlite::SqliteStore;
use crate::clock::Clock;
use crate::job::Namespace;
use std::sync::Arc;

/// What exists, for error texts.
const EXISTING: &str = "`redis://[user:password@]host[:port][/db]` (Redis or Valkey; also `rediss://` for TLS, \
                        `redis+sentinel://h1,h2,h3/mymaster`, `redis+cluster://h1,h2`), `postgres://user@host/database`, \
                        `mysql://user@host/database` (MySQL or MariaDB), `sqlite:path` (one host), \
                        `etcd://[user:password@]host1,host2,host3`, `consul://host`, `memcached://host?allow-best-effort=true` and \
                        `memory:` (one process)";

/// Schemes of Redis: one server, Sentinels, a cluster; each with and without TLS.
const REDIS: [&str; 6] = ["redis", "rediss", "redis+sentinel", "rediss+sentinel", "redis+cluster", "rediss+cluster"];

/// A URL that no driver takes. Its text never holds the URL's password.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    /// The part before the colon names no driver.
    #[error("store {found:?} does not exist: write {EXISTING} ({hint})")]
    Unknown {
        /// What stood before the colon.
        found: String,
        /// What was meant.
        hint: &'static str,
    },
    /// The same where nothing comes to mind: it may be a part of a password, and is not repeated.
    #[error("what stands before the colon is no kind of store: write {EXISTING}")]
    Strange,
    /// There is no scheme.
    #[error("the store has no scheme: write {EXISTING}{hint}")]
    NoScheme {
        /// What may have been meant; empty where nothing comes to mind.
        hint: &'static str,
    },
    /// The rest does not fit the driver.
    #[error("store `{scheme}`: {detail}")]
    Unfit {
        /// The driver.
        scheme: &'static str,
        /// What was found and what to write.
        detail: String,
    },
}

/// Makes the store that a URL names. Never connects: that is a part of the first request, so that a daemon starts
/// without its store.
///
/// # Errors
/// The URL names no driver, or does not fit it.
pub fn open(url: &str, namespace: &Namespace, clock: Arc<dyn Clock>) -> Result<Arc<dyn Store>, OpenError> {
    open_with(url, &Access::default(), namespace, clock)
}

/// The same with accounts and certificates that stand beside the URL.
///
/// # Errors
/// As [`open`]; and where the store has no use for them.
pub fn open_with(
    url: &str,
    access: &Access,
    namespace: &Namespace,
    clock: Arc<dyn Clock>,
) -> Result<Arc<dyn Store>, OpenError> {
    let unfit = |scheme| move |detail| OpenError::Unfit { scheme, detail };
    let redis = REDIS.iter().find(|scheme| url.split_once(':').is_some_and(|(found, _)| found == **scheme));
    match url.split_once(':') {
        Some((found, _)) if !access.is_empty() && matches!(found, "sqlite" | "memory") => {
            let detail = "it has no accounts and no certificates: leave out --store-user, --store-password-file, \
                          --store-ca-file and their like";
            Err(OpenError::Unfit {
                scheme: if found == "sqlite" { "sqlite:" } else { "memory:" },
                detail: detail.into(),
            })
        }
        Some(_) if let Some(scheme) = redis => {
            Ok(Arc::new(RedisStore::open(url, access, namespace).map_err(unfit(scheme))?))
        }
        Some(("postgres" | "postgresql", rest)) => {
            let rest = rest.strip_prefix("//").ok_or_else(|| slashes_are_missing("postgres"));
            rest.and_then(|rest| postgres(rest, namespace, access)).map_err(unfit("postgres:"))
        }
        Some(("mysql" | "mariadb", rest)) => {
            let rest = rest.strip_prefix("//").ok_or_else(|| slashes_are_missing("mysql"));
            rest.and_then(|rest| mysql(rest, namespace, access)).map_err(unfit("mysql:"))
        }
        Some(("sqlite", path)) => Ok(Arc::new(SqliteStore::open(path, namespace).map_err(unfit("sqlite:"))?)),
        Some((scheme @ ("etcd" | "etcds"), rest)) => {
            let store = slashes(scheme, rest).and_then(|()| DocumentStore::etcd(url, namespace, (access, clock)));
            Ok(Arc::new(store.map_err(unfit("etcd:"))?))
        }
        Some((scheme @ ("consul" | "consuls"), rest)) => {
            let store = slashes(scheme, rest).and_then(|()| DocumentStore::consul(url, namespace, (access, clock)));
            Ok(Arc::new(store.map_err(unfit("consul:"))?))
        }
        Some((scheme @ "memcached", rest)) => {
            let store = slashes(scheme, rest).and_then(|()| DocumentStore::memcached(url, namespace, (access, clock)));
            Ok(Arc::new(store.map_err(unfit("memcached:"))?))
        }
        Some(("memory", "" | "//")) => Ok(Arc::new(MemoryStore::new(clock))),
        Some(("memory", _)) => Err(unfit("memory:")("nothing follows the colon".into())),
        Some((_, port)) if !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit()) => {
            Err(OpenError::NoScheme { hint: " (for a host and a port write redis://host:6379)" })
        }
        Some((scheme, _)) if is_word(scheme) => Err(match hint(scheme) {
            Some(hint) => OpenError::Unknown { found: format!("{scheme}:"), hint },
            None => OpenError::Strange,
        }),
        // Without a scheme it can be anything, also a password: nothing of it is repeated.
        _ => Err(OpenError::NoScheme { hint: hint_without_scheme(url) }),
    }
}

fn slashes_are_missing(scheme: &str) -> String {
    format!("two slashes are missing: write {scheme}://user@host/database")
}

#[cfg(feature = "postgres")]
fn postgres(rest: &str, namespace: &Namespace, access: &Access) -> Result<Arc<dyn Store>, String> {
    Ok(Arc::new(super::postgres::open(rest, namespace, access)?))
}

#[cfg(feature = "mysql")]
fn mysql(rest: &str, namespace: &Namespace, access: &Access) -> Result<Arc<dyn Store>, String> {
    Ok(Arc::new(super::mysql::open(rest, namespace, access)?))
}

#[cfg(not(feature = "postgres"))]
fn postgres(_: &str, _: &Namespace, _: &Access) -> Result<Arc<dyn Store>, String> {
    Err("this program was built without PostgreSQL: use the image or package, or build it with --features full".into())
}

#[cfg(not(feature = "mysql"))]
fn mysql(_: &str, _: &Namespace, _: &Access) -> Result<Arc<dyn Store>, String> {
    Err("this program was built without MySQL: use the image or package, or build it with --features full".into())
}

fn slashes(scheme: &str, rest: &str) -> Result<(), String> {
    let wanted = || format!("two slashes are missing: write {scheme}://host");
    rest.starts_with("//").then_some(()).ok_or_else(wanted)
}

fn is_word(scheme: &str) -> bool {
    scheme.len() <= 20
        && scheme.starts_with(|c: char| c.is_ascii_alphabetic())
        && !scheme.contains(['@', '/', '.', ' '])
}

fn hint_without_scheme(text: &str) -> &'static str {
    let is_file = text.contains('/') || [".db", ".sqlite", ".sqlite3"].iter().any(|end| text.ends_with(end));
    match text {
        "" => " (it is empty)",
        "redis" | "valkey" => " (write redis://host:6379)",
        "sqlite" => " (write sqlite:onecron.db)",
        "memory" => " (write `memory:`)",
        _ if text.contains('@') => "",
        _ if is_file => " (a file is written sqlite:onecron.db or sqlite:/var/lib/onecron/onecron.db)",
        _ => "",
    }
}

fn hint(scheme: &str) -> Option<&'static str> {
    let scheme = scheme.to_ascii_lowercase();
    Some(match scheme.as_str() {
        "valkeys" | "redis+tls" | "redis+ssl" | "redis-tls" => "write rediss:// for TLS",
        "sentinel" | "redis-sentinel" | "valkey+sentinel" => "write redis+sentinel://h1,h2,h3/mymaster",
        "cluster" | "redis-cluster" | "valkey+cluster" => "write redis+cluster://h1,h2",
        "unix" | "redis+unix" | "redis-socket" => "sockets of files are not in this version: name host and port",
        "etcd+tls" => "write etcds://",
        "consul+tls" => "write consuls://",
        "http" | "https" => {
            "an address of etcd is written etcd:// or, with TLS, etcds://; one of Consul consul:// or consuls://"
        }
        "memcache" => "did you mean `memcached://`?",
        "valkey" | "keydb" | "dragonfly" => "write redis://, it speaks the same protocol",
        "file" | "sqlite3" => "did you mean `sqlite:path`?",
        "pg" | "pgsql" | "postgresql+psycopg2" | "timescale" => "write postgres://user@host/database",
        "mysql2" | "mysqlx" | "jdbc" => "write mysql://user@host/database, or postgres://user@host/database",
        "mem" | "ram" => "did you mean `memory:`?",
        other if near(other, "redis") => "did you mean `redis://`?",
        other if near(other, "postgres") => "did you mean `postgres://`?",
        other if near(other, "mysql") || near(other, "mariadb") => "did you mean `mysql://`?",
        other if near(other, "sqlite") => "did you mean `sqlite:path`?",
        other if near(other, "etcd") => "did you mean `etcd://`?",
        other if near(other, "consul") => "did you mean `consul://`?",
        other if near(other, "memcached") => "did you mean `memcached://`?",
        other if near(other, "memory") => "did you mean `memory:`?",
        _ => return None,
    })
}

/// Whether one is the other with at most two letters added, left out, changed or swapped.
fn near(found: &str, wanted: &str) -> bool {
    let (found, wanted): (Vec<char>, Vec<char>) = (found.chars().collect(), wanted.chars().collect());
    let mut row: Vec<usize> = (0..=wanted.len()).collect();
    for (i, a) in found.iter().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, b) in wanted.iter().enumerate() {
            let change = diagonal + usize::from(a != b);
            diagonal = row[j + 1];
            row[j + 1] = change.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[wanted.len()] <= 2
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::SystemClock;

    fn opened(url: &str) -> Result<Arc<dyn Store>, OpenError> {
        open(url, &Namespace::new("default").unwrap(), Arc::new(SystemClock))
    }

    #[test]
    fn a_url_is_shown_without_its_password() {
        for (url, shown) in [
            ("redis://cache", "redis://cache:6379"),
            ("redis://user:s3cret@cache:7000/3", "redis://user@cache:7000/3"),
            ("redis://:s3cret@[::1]:7000", "redis://[::1]:7000"),
            ("redis://:s3%40cret@cache/0", "redis://cache:6379"),
            ("redis://s3cret@cache", "redis://***@cache:6379"),
            ("rediss://:s3cret@cache", "rediss://cache:6379"),
            ("redis+sentinel://app:s3cret@h1,h2/main", "redis+sentinel://app@h1:26379,h2:26379/main"),
            ("redis+cluster://:s3cret@h1,h2", "redis+cluster://h1:6379,h2:6379"),
            #[cfg(feature = "postgres")]
            ("postgresql://app:s3cret@db1,db2/x", "postgres://app@db1:5432,db2:5432/x"),
            #[cfg(feature = "mysql")]
            ("mariadb://app:s3cret@db/x?ssl-mode=required", "mysql://app@db:3306/x"),
            ("sqlite:/var/lib/onecron.db", "sqlite:/var/lib/onecron.db"),
            ("etcds://app:s3cret@h1,h2:1", "etcds://app@h1:2379,h2:1"),
            ("consul://:s3cret@h?dc=west", "consul://h:8500?dc=west"),
            ("memory:", "memory:"),
        ] {
            let store = opened(url).unwrap();
            assert_eq!(store.url(), shown);
            assert!(!format!("{store:?}").contains("cret"), "{store:?}");
        }
    }

    #[test]
    fn an_error_says_what_exists_and_never_repeats_a_password() {
        for url in [
            "redis:cache",
            "redis://:s3cret@cache:port",
            "redis://:s3cret@cache/db",
            "redis://:s3cret@cache?timeout=1",
            "redis://:s3#cret@cache",
            "redis://",
            "redis://cache:s3cret",
            "redis://:s3/cret@cache",
            "redis://u:s3cret:6379",
            "rediss://:s3cret@cache:port",
            "redis+sentinel://:s3cret@cache",
            "redis+cluster://:s3cret@cache/1",
            "resid://:s3cret@cache",
            "postgers://u:s3cret@db/x",
            "postgres:u:s3cret@db/x",
            "postgres://u:s3cret@db",
            "mysql://u:s3/cret@db/x",
            "mysql:u:s3cret@db/x",
            "user:s3cret@cache",
            ":s3cret@cache",
            "s3cret",
            "s3cret://x",
            "s3cret:x",
            "",
            "sqlite:",
            "sqlite::memory:",
            "sqlite://host/x.db",
            "sqlite://u:s3cret@host/x.db",
            "memory:x",
            "etcd:host",
            "etcd://u:s3/cret@h",
            "etcd://u:s3cret@h?s3cret=1",
            "consul://s3cret@h",
            "memcached://h",
            "memcached://u:s3cret@h?allow-best-effort=true",
            "https://u:s3cret@h",
        ] {
            let error = opened(url).expect_err(url);
            let text = format!("{error} {error:?}");
            assert!(!text.contains("cret"), "{url}: {text}");
            if !matches!(error, OpenError::Unfit { .. }) {
                assert!(text.contains("redis://") && text.contains("sqlite:") && text.contains("memory:"), "{text}");
            }
        }
    }

    #[test]
    fn the_nearest_name_is_offered() {
        for (url, hint) in [
            ("valkeys://cache", "write rediss://"),
            ("sentinel://h1,h2/main", "write redis+sentinel://"),
            ("redis-cluster://h1", "write redis+cluster://"),
            ("resid://cache", "did you mean `redis://`?"),
            ("sqlit:x", "did you mean `sqlite:path`?"),
            ("postgers://db/x", "did you mean `postgres://`?"),
            ("mysq://db/x", "did you mean `mysql://`?"),
            ("etdc://a,b", "did you mean `etcd://`?"),
            ("https://etcd:2379", "with TLS, etcds://"),
            ("memcache://h", "did you mean `memcached://`?"),
            ("memcached://h", "allow-best-effort=true"),
            ("consul:h", "write consul://host"),
            ("mem:", "did you mean `memory:`?"),
            ("valkey://cache", "write redis://"),
            ("localhost:6379", "write redis://host:6379"),
            ("redis", "write redis://host:6379"),
            ("sqlite", "write sqlite:onecron.db"),
            ("/var/lib/onecron.db", "a file is written sqlite:"),
            ("onecron.db", "a file is written sqlite:"),
            ("redis://cache/db", "the number of a database"),
        ] {
            assert!(opened(url).unwrap_err().to_string().contains(hint), "{url}");
        }
    }
}
