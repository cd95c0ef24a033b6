//! What a URL of a Redis says, and which part of one is wrong.

use crate::secret::Secret;
use crate::store::place::Place;
use crate::store::place::decoded;

/// The usual ports.
const SERVER_PORT: u16 = 6379;
const SENTINEL_PORT: u16 = 26379;
/// More servers than that stand in no URL that somebody meant.
const PLACES_MOST: usize = 64;
/// More replicas than that no server waits for.
const REPLICAS_MOST: u32 = 64;

/// What the places of a URL are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Mode {
    /// The one server.
    One,
    /// Sentinels, who know where the primary of that name is.
    Sentinel {
        /// The name that they know it by.
        primary: String,
    },
    /// Some nodes of a cluster, who know the others.
    Cluster,
}

/// A URL, read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Address {
    pub mode: Mode,
    pub tls: bool,
    pub places: Vec<Place>,
    pub user: Option<String>,
    pub password: Option<Secret<String>>,
    pub db: u32,
    /// How many replicas must confirm what is written; `None`: as the server has replicas.
    pub wait_replicas: Option<u32>,
}

impl Address {
    /// Reads `redis://[user:password@]host[:port][/db]`, and the forms for TLS, Sentinel and Cluster.
    ///
    /// # Errors
    /// What to write instead of the wrong part. Nothing of the URL is repeated: what looks like a port can be the half
    /// of a password.
    pub fn parse(url: &str) -> Result<Self, &'static str> {
        let (scheme, rest) = url.split_once("://").ok_or("two slashes are missing: write redis://host:6379")?;
        if url.contains(|c: char| c.is_whitespace() || c.is_control()) {
            return Err("a blank or a line end stands inside: in a password write `%20` for a blank");
        }
        let (rest, query) = match rest.split_once('?') {
            Some((rest, query)) => (rest, query),
            None => (rest, ""),
        };
        if rest.contains('#') || query.contains(['#', '@', '?', '/']) {
            return Err("a `?` or a `#` stands where none can: in a password write `%3F` and `%23` for them");
        }
        let wait_replicas = wait_replicas(query)?;
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        if path.contains('@') {
            return Err("a `/` stands before the `@`: in user and password write `%2F` for it");
        }
        let (user, places) = authority.rsplit_once('@').unwrap_or(("", authority));
        let (user, password) = account(user)?;
        let mode = match scheme.split_once('+').map(|(_, mode)| mode) {
            None => Mode::One,
            Some("cluster") => Mode::Cluster,
            Some(_) => Mode::Sentinel { primary: String::new() },
        };
        let usual = if matches!(mode, Mode::Sentinel { .. }) { SENTINEL_PORT } else { SERVER_PORT };
        let places = places.split(',').map(|place| Place::parse(place, usual)).collect::<Result<Vec<_>, _>>()?;
        if places.len() > PLACES_MOST {
            return Err("more than 64 hosts are named: a few are enough, they know the others");
        }
        if mode == Mode::One && places.len() > 1 {
            return Err("several hosts are named: write redis+sentinel://h1,h2,h3/primary for Sentinels, \
                        redis+cluster://h1,h2 for a cluster");
        }
        let tls = scheme.starts_with("rediss");
        let address = Self { mode, tls, places, user, password, db: 0, wait_replicas };
        address.with_path(path)
    }

    fn with_path(mut self, path: &str) -> Result<Self, &'static str> {
        let path = path.strip_suffix('/').unwrap_or(path);
        let database = match &self.mode {
            Mode::One => path,
            Mode::Cluster if matches!(path, "" | "0") => path,
            Mode::Cluster => return Err("a cluster has no databases: write redis+cluster://h1:6379,h2:6379"),
            Mode::Sentinel { .. } => {
                let (primary, database) = path.split_once('/').unwrap_or((path, ""));
                let is_name = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
                if primary.is_empty() || !primary.chars().all(is_name) {
                    return Err("after the hosts comes the name that the Sentinels know the primary by: write \
                                redis+sentinel://h1:26379,h2,h3/mymaster");
                }
                self.mode = Mode::Sentinel { primary: primary.to_owned() };
                database
            }
        };
        if !database.is_empty() {
            self.db = database
                .parse()
                .ok()
                .filter(|_| database.bytes().all(|byte| byte.is_ascii_digit()))
                .ok_or("what follows the last `/` is not the number of a database: write redis://host:6379/0")?;
        }
        Ok(self)
    }

    /// As it may be shown.
    pub fn shown(&self) -> String {
        // A user without a password is most often a password that was written without its colon.
        let user = match (&self.user, &self.password) {
            (Some(user), Some(_)) => format!("{user}@"),
            (Some(_), None) => "***@".to_owned(),
            (None, _) => String::new(),
        };
        let (mode, primary) = match &self.mode {
            Mode::One => ("", String::new()),
            Mode::Sentinel { primary } => ("+sentinel", format!("/{primary}")),
            Mode::Cluster => ("+cluster", String::new()),
        };
        let scheme = if self.tls { "rediss" } else { "redis" };
        let places: Vec<String> = self.places.iter().map(ToString::to_string).collect();
        let db = if self.db == 0 { String::new() } else { format!("/{}", self.db) };
        format!("{scheme}{mode}://{user}{}{primary}{db}", places.join(","))
    }
}

fn account(user: &str) -> Result<(Option<String>, Option<Secret<String>>), &'static str> {
    let (user, password) = match user.split_once(':') {
        Some((user, password)) => (user, Some(password)),
        None => (user, None),
    };
    let some = |text: String| Some(text).filter(|text| !text.is_empty());
    let password = password.map(decoded).transpose()?.and_then(some);
    Ok((some(decoded(user)?), password.map(Secret::new)))
}

fn wait_replicas(query: &str) -> Result<Option<u32>, &'static str> {
    let wanted = "of the options after `?` there is `wait-replicas=N` alone, with N from 0 to 64; in a password write \
                  `%3F` for a `?`";
    if query.is_empty() {
        return Ok(None);
    }
    let number = query.strip_prefix("wait-replicas=").filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
    let number = number.and_then(|text| text.parse().ok()).filter(|number| *number <= REPLICAS_MOST);
    number.map(Some).ok_or(wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wrong_part_is_named() {
        for (url, part) in [
            ("redis://", "a host is missing"),
            ("redis:///3", "a host is missing"),
            ("redis://:secret@:6379", "a host is missing"),
            ("redis://cache:port", "the port"),
            ("redis://cache:99999/0", "the port"),
            ("redis://cache:", "the port"),
            ("redis://cache:6379/db", "the number of a database"),
            ("redis://cache/0/1", "the number of a database"),
            ("redis://cache/-1", "the number of a database"),
            ("redis://cache/+1", "the number of a database"),
            ("redis://::1:6379", "in brackets"),
            ("redis://user:secret:6379", "a password ends with `@`"),
            ("redis://[::1]6379", "after the `]`"),
            ("redis://:a/b@cache", "a `/` stands before the `@`"),
            ("redis://:50%@cache", "a `%`"),
            ("redis://:%+1@cache", "a `%`"),
            ("redis://:a b@cache", "a blank"),
            ("redis://:a?b@cache", "`%3F`"),
            ("redis://:a#b@cache", "`%23`"),
            ("redis://cache?timeout=1", "of the options"),
            ("redis://cache?wait-replicas=many", "of the options"),
            ("redis://cache?wait-replicas=65", "of the options"),
            ("redis://h1,h2", "several hosts"),
            ("redis+cluster://h1,,h2", "a host is missing"),
            ("redis+cluster://h1/3", "has no databases"),
            ("redis+sentinel://h1,h2", "the Sentinels know the primary by"),
            ("redis+sentinel://h1//3", "the Sentinels know the primary by"),
            ("redis+sentinel://h1/main/db", "the number of a database"),
        ] {
            let found = Address::parse(url);
            assert!(found.as_ref().is_err_and(|text| text.contains(part)), "{url}: {found:?}");
        }
    }

    #[test]
    fn a_good_url_is_read() {
        for (url, shown) in [
            ("redis://cache", "redis://cache:6379"),
            ("redis://cache:6379/0", "redis://cache:6379"),
            ("redis://cache/", "redis://cache:6379"),
            ("redis://user:a%2Fb@cache:7000/3", "redis://user@cache:7000/3"),
            ("redis://:s@cret@cache", "redis://cache:6379"),
            ("redis://[::1]:7000", "redis://[::1]:7000"),
            ("redis://[::1]", "redis://[::1]:6379"),
            ("redis://127.0.0.1?wait-replicas=2", "redis://127.0.0.1:6379"),
            ("rediss://cache", "rediss://cache:6379"),
            ("redis+sentinel://:s@h1,h2:7,[::1]/main/3", "redis+sentinel://h1:26379,h2:7,[::1]:26379/main/3"),
            ("rediss+sentinel://h1/main", "rediss+sentinel://h1:26379/main"),
            ("redis+cluster://app:s@h1:7000,h2?wait-replicas=1", "redis+cluster://app@h1:7000,h2:6379"),
            ("rediss+cluster://h1/0", "rediss+cluster://h1:6379"),
        ] {
            assert_eq!(Address::parse(url).unwrap().shown(), shown, "{url}");
        }
    }

    #[test]
    fn user_and_password_are_decoded() {
        let found = Address::parse("redis://us%40er:a%2fb%25%C3%BC@cache?wait-replicas=2").unwrap();
        assert_eq!(found.user.as_deref(), Some("us@er"));
        assert_eq!(found.password, Some(Secret::new("a/b%ü".to_owned())));
        assert_eq!(found.wait_replicas, Some(2));
        assert_eq!(Address::parse("redis://:@cache").unwrap().password, None);
    }
}
