//! From a URL to a store: the only list of drivers.

use super::MemoryStore;
use super::Store;
use super::redis::RedisStore;
use super::sqlite::SqliteStore;
use crate::clock::Clock;
use crate::job::Namespace;
use std::sync::Arc;

/// What exists, for error texts.
const EXISTING: &str = "`redis://[user:password@]host[:port][/db]` (Redis or Valkey), `sqlite:path` (one host) and \
                        `memory:` (one process)";

/// A URL that no driver takes. Its text never holds the URL's password.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    /// The part before the colon names no driver.
    #[error("store {found:?} does not exist: write {EXISTING}{hint}")]
    Unknown {
        /// What stood before the colon, or a shortened form of the whole where there was none.
        found: String,
        /// What may have been meant; empty where nothing comes to mind.
        hint: String,
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
    let unfit = |scheme| move |detail| OpenError::Unfit { scheme, detail };
    match url.split_once(':') {
        Some(("redis", rest)) if rest.starts_with("//") => {
            Ok(Arc::new(RedisStore::open(url, namespace).map_err(unfit("redis:"))?))
        }
        Some(("redis", _)) => Err(unfit("redis:")("two slashes are missing: write redis://host:6379".into())),
        Some(("sqlite", path)) => Ok(Arc::new(SqliteStore::open(path, namespace).map_err(unfit("sqlite:"))?)),
        Some(("memory", "" | "//")) => Ok(Arc::new(MemoryStore::new(clock))),
        Some(("memory", _)) => Err(unfit("memory:")("nothing follows the colon".into())),
        Some((scheme, _)) if is_word(scheme) => {
            Err(OpenError::Unknown { found: format!("{scheme}:"), hint: hint(scheme) })
        }
        // Without a scheme it can be anything, also a password: nothing of it is repeated.
        _ => Err(OpenError::Unknown { found: "without a scheme".into(), hint: String::new() }),
    }
}

fn is_word(scheme: &str) -> bool {
    scheme.len() <= 20
        && scheme.starts_with(|c: char| c.is_ascii_alphabetic())
        && !scheme.contains(['@', '/', '.', ' '])
}

fn hint(scheme: &str) -> String {
    let scheme = scheme.to_ascii_lowercase();
    let text = match scheme.as_str() {
        "rediss" | "valkeys" => "TLS is not in this version: put a local TLS proxy (stunnel, envoy) in front",
        "redis+sentinel" | "sentinel" | "redis-sentinel" => "Sentinel is not in this version: name the primary",
        "redis+cluster" | "redis-cluster" => "Redis Cluster is not in this version: name one server",
        "unix" | "redis+unix" | "redis-socket" => "sockets of files are not in this version: name host and port",
        "postgres" | "postgresql" | "mysql" | "mariadb" | "etcd" | "consul" | "memcached" => {
            return format!(" ({scheme} is not in this version)");
        }
        "valkey" | "keydb" | "dragonfly" => "write redis://, it speaks the same protocol",
        "file" | "sqlite3" => "did you mean `sqlite:path`?",
        "mem" | "ram" => "did you mean `memory:`?",
        other if near(other, "redis") => "did you mean `redis://`?",
        other if near(other, "sqlite") => "did you mean `sqlite:path`?",
        other if near(other, "memory") => "did you mean `memory:`?",
        _ => return String::new(),
    };
    format!(" ({text})")
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
            ("sqlite:/var/lib/onecron.db", "sqlite:/var/lib/onecron.db"),
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
            "rediss://:s3cret@cache",
            "resid://:s3cret@cache",
            "postgres://u:s3cret@db/x",
            "user:s3cret@cache",
            ":s3cret@cache",
            "s3cret",
            "",
            "sqlite:",
            "sqlite::memory:",
            "sqlite://host/x.db",
            "memory:x",
        ] {
            let error = opened(url).expect_err(url);
            let text = format!("{error} {error:?}");
            assert!(!text.contains("cret"), "{url}: {text}");
            if matches!(error, OpenError::Unknown { .. }) {
                assert!(text.contains("redis://") && text.contains("sqlite:") && text.contains("memory:"), "{text}");
            }
        }
    }

    #[test]
    fn the_nearest_name_is_offered() {
        for (url, hint) in [
            ("rediss://cache", "TLS is not in this version"),
            ("resid://cache", "did you mean `redis://`?"),
            ("sqlit:x", "did you mean `sqlite:path`?"),
            ("mem:", "did you mean `memory:`?"),
            ("valkey://cache", "write redis://"),
        ] {
            assert!(opened(url).unwrap_err().to_string().contains(hint), "{url}");
        }
    }
}
