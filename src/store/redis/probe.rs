//! What a Redis server is worth as it is set up.

use super::command::Command;
use super::identity;
use super::rights;
use super::sentinel;
use super::servers::Servers;
use super::url::Mode;
use crate::store::Class;
use crate::store::Error;
use crate::store::Finding;
use crate::store::Probe;
use crate::store::Reach;
use crate::store::doing;
use crate::store::place::Place;
use redis::FromRedisValue;
use redis::Value;
use std::collections::BTreeMap;

/// Sentinels that cannot lose one and still agree are no help.
const SENTINELS_LEAST: u32 = 3;
/// A node that is cut off takes writes for so long.
const NODE_TIMEOUT_MOST_MS: u32 = 15_000;

/// What a server told about itself: the text of `INFO`, and what of `CONFIG GET` is allowed.
#[derive(Debug, Default)]
pub(super) struct Told<'a> {
    pub info: Option<&'a str>,
    pub config: BTreeMap<String, String>,
    /// How many replicas must confirm what is written.
    pub replicas_wanted: u32,
    /// Whether something makes another server the primary when this one is away.
    pub fails_over: bool,
}

impl Told<'_> {
    fn set(&self, name: &str) -> Option<&str> {
        self.config.get(name).map(String::as_str)
    }

    pub fn get(&self, name: &str) -> &str {
        let line = |line: &&str| line.split_once(':').is_some_and(|(key, _)| key == name);
        let found = self.info.and_then(|info| info.lines().find(line));
        found.and_then(|line| line.split_once(':')).map_or("", |(_, value)| value.trim())
    }
}

/// Settings that `CONFIG GET` is asked for, each by itself: older servers take one name.
const SETTINGS: [&str; 3] = ["appendfsync", "min-replicas-to-write", "cluster-node-timeout"];

/// Looks at each primary, at the account, and at what Sentinels say. `near` is the key of the list of jobs.
pub(super) async fn probe(servers: &Servers, near: &str) -> Result<Probe, Error> {
    let mode = servers.door().address().mode.clone();
    let ask = |name: &str| Command::beside(name, near.to_owned());
    let infos = allowed(servers.query_each(doing::PROBE, &[ask("INFO")]).await)?;
    let mut settings: BTreeMap<Option<Place>, BTreeMap<String, String>> = BTreeMap::new();
    for name in SETTINGS {
        for (place, replies) in allowed(servers.query_each(doing::PROBE, &[ask("CONFIG").arg("GET").arg(name)]).await)?
        {
            let pair: Vec<String> = first(replies).unwrap_or_default();
            settings.entry(place).or_default().extend(pair.get(1).map(|value| (name.to_owned(), value.clone())));
        }
    }
    let (replicas_wanted, fails_over) = (servers.replicas_wanted(), mode != Mode::One);
    let mut found = judge(&Told { replicas_wanted, fails_over, ..Told::default() });
    for (at, (place, replies)) in infos.into_iter().enumerate() {
        let info: Option<String> = first(replies);
        let config = settings.remove(&place).unwrap_or_default();
        let mut of_one = judge(&Told { info: info.as_deref(), config, replicas_wanted, fails_over });
        if let Some(place) = place {
            of_one.findings.iter_mut().for_each(|finding| finding.found = format!("{}, at {place}", finding.found));
        }
        if at == 0 {
            found = of_one;
        } else {
            found.class = worse(found.class, of_one.class);
            found.findings.extend(of_one.findings);
        }
    }
    if let Mode::Sentinel { primary } = &mode {
        found.findings.extend(sentinels(&sentinel::about(servers.door(), primary).await));
    }
    found.findings.extend(rights::missing(servers, near).await?);
    Ok(found)
}

/// A server that forbids a question, or does not know it, answers with an error that is no trouble of the connection.
fn allowed<T>(outcome: Result<Vec<T>, Error>) -> Result<Vec<T>, Error> {
    match outcome {
        Err(error) if error.detail.contains("NOPERM") || error.detail.contains("unknown command") => Ok(Vec::new()),
        outcome => outcome,
    }
}

fn first<T: FromRedisValue>(replies: Vec<Value>) -> Option<T> {
    replies.into_iter().next().and_then(|reply| redis::from_redis_value(reply).ok())
}

const fn worse(one: Class, other: Class) -> Class {
    match (one, other) {
        (Class::C, _) | (_, Class::C) => Class::C,
        (Class::B, _) | (_, Class::B) => Class::B,
        (Class::A, Class::A) => Class::A,
    }
}

/// Judges a server. Class A: each write is on disk before it is answered, and there is no replica to fail over to. B:
/// the last second can be lost, in a power cut or a failover. C: more than that can be lost without a trace.
fn judge(told: &Told<'_>) -> Probe {
    if told.info.is_none() {
        let finding = Finding {
            check: "info",
            found: "the server does not allow `INFO`".into(),
            wanted: "allow `+info` for onecron's account: without it nobody sees an unsafe eviction policy or \
                     missing persistence"
                .into(),
        };
        return Probe {
            class: Class::C,
            version: "redis, version not told".into(),
            reach: Reach::Network,
            findings: vec![finding],
        };
    }
    let grave: Vec<Finding> = [eviction(told), persistence(told), unconfirmed(told)].into_iter().flatten().collect();
    let alone = !told.fails_over && matches!(told.get("connected_slaves"), "" | "0");
    let class = if !grave.is_empty() {
        Class::C
    } else if told.set("appendfsync") == Some("always") && alone {
        Class::A
    } else {
        Class::B
    };
    let advice = [cut_off(told), node_timeout(told)].into_iter().flatten();
    let findings = grave.into_iter().chain(advice).collect();
    Probe { class, version: version(told), reach: Reach::Network, findings }
}

fn version(told: &Told<'_>) -> String {
    let valkey = told.get("valkey_version");
    if valkey.is_empty() { format!("redis {}", told.get("redis_version")) } else { format!("valkey {valkey}") }
}

fn eviction(told: &Told<'_>) -> Option<Finding> {
    let (maxmemory, policy) = (told.get("maxmemory"), told.get("maxmemory_policy"));
    let evicts = !matches!(maxmemory, "" | "0") && !matches!(policy, "" | "noeviction");
    evicts.then(|| Finding {
        check: "eviction",
        found: format!("`maxmemory-policy {policy}` with `maxmemory {maxmemory}`"),
        wanted: "set `maxmemory-policy noeviction`, and keep onecron off a server that is a cache: an evicted claim \
                 is one that can be won twice"
            .into(),
    })
}

fn persistence(told: &Told<'_>) -> Option<Finding> {
    (told.get("aof_enabled") != "1").then(|| Finding {
        check: "persistence",
        found: "`appendonly no`".into(),
        wanted: "set `appendonly yes`: otherwise a restart forgets claims, and the ticks around it are refused or, \
                 after the loading of an older snapshot, can run twice"
            .into(),
    })
}

/// A primary that was replaced goes on answering until it learns of it, and so do we, if it alone is asked.
fn unconfirmed(told: &Told<'_>) -> Option<Finding> {
    let has_replicas = told.fails_over || told.info.is_some_and(identity::has_replicas);
    (has_replicas && told.replicas_wanted == 0).then(|| Finding {
        check: "wait_replicas",
        found: "`?wait-replicas=0`, and the server can be replaced by a replica".into(),
        wanted: "leave it out: while a primary is cut off and another takes its place, a tick can run twice".into(),
    })
}

fn cut_off(told: &Told<'_>) -> Option<Finding> {
    let is_replicated = told.fails_over && told.replicas_wanted > 0;
    (is_replicated && told.set("min-replicas-to-write") == Some("0")).then(|| Finding {
        check: "min_replicas",
        found: "`min-replicas-to-write 0`".into(),
        wanted: "set `min-replicas-to-write 1` and `min-replicas-max-lag 2`: a primary that is cut off then says so \
                 at once, and other programs that use it lose less"
            .into(),
    })
}

fn node_timeout(told: &Told<'_>) -> Option<Finding> {
    let millis: u32 = told.set("cluster-node-timeout")?.parse().ok()?;
    (told.get("cluster_enabled") == "1" && millis > NODE_TIMEOUT_MOST_MS).then(|| Finding {
        check: "node_timeout",
        found: format!("`cluster-node-timeout {millis}`"),
        wanted: "set `cluster-node-timeout 5000`: for longer than that no job of a dead node is started".into(),
    })
}

/// From the reply to `SENTINEL master`.
fn sentinels(pairs: &[String]) -> Option<Finding> {
    let get = |name: &str| {
        let pair = pairs.chunks_exact(2).find(|pair| pair[0] == name)?;
        pair[1].parse::<u32>().ok()
    };
    let (all, quorum) = (get("num-other-sentinels")? + 1, get("quorum")?);
    (all < SENTINELS_LEAST || quorum * 2 <= all || quorum > all).then(|| Finding {
        check: "sentinels",
        found: format!("{all} Sentinels with quorum {quorum}"),
        wanted: "run three on three hosts, with quorum 2: fewer cannot lose one, and agree without a majority".into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "redis_version:7.0.15\r\nrole:master\r\nconnected_slaves:0\r\naof_enabled:1\r\nmaxmemory:0\r\n";

    fn told<'a>(info: &'a str, settings: &[(&str, &str)]) -> Told<'a> {
        let config = settings.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        Told { info: Some(info), config, ..Told::default() }
    }

    fn found(told: &Told<'_>) -> (Class, Vec<&'static str>) {
        let probe = judge(told);
        (probe.class, probe.findings.iter().map(|finding| finding.check).collect())
    }

    #[test]
    fn the_class_follows_from_the_settings() {
        let always = [("appendfsync", "always")];
        assert_eq!(found(&told(GOOD, &always)), (Class::A, vec![]));
        assert_eq!(found(&told(GOOD, &[("appendfsync", "everysec")])), (Class::B, vec![]));
        assert_eq!(found(&told(GOOD, &[])), (Class::B, vec![]));
        let without = GOOD.replace("aof_enabled:1", "aof_enabled:0");
        assert_eq!(found(&told(&without, &[])), (Class::C, vec!["persistence"]));
        let limited = GOOD.replace("maxmemory:0", "maxmemory:9\r\nmaxmemory_policy:noeviction");
        assert_eq!(found(&told(&limited, &[])), (Class::B, vec![]));
        assert_eq!(found(&told(&limited.replace("noeviction", "allkeys-lru"), &[])), (Class::C, vec!["eviction"]));
    }

    #[test]
    fn a_server_that_can_be_replaced_is_worth_what_its_replicas_confirm() {
        let always = [("appendfsync", "always")];
        let replica = "slave0:ip=10.0.0.2,port=6379,state=online,offset=9,lag=0";
        let replicated = format!("{}{replica}\r\n", GOOD.replace("slaves:0", "slaves:1"));
        let confirmed = |replicas_wanted, fails_over, settings| {
            found(&Told { replicas_wanted, fails_over, ..told(&replicated, settings) })
        };
        assert_eq!(confirmed(1, false, &always), (Class::B, vec![]));
        assert_eq!(confirmed(0, false, &always), (Class::C, vec!["wait_replicas"]));
        assert_eq!(confirmed(0, true, &always), (Class::C, vec!["wait_replicas"]));
        assert_eq!(confirmed(1, true, &[("min-replicas-to-write", "0")]), (Class::B, vec!["min_replicas"]));
        assert_eq!(confirmed(1, true, &[("min-replicas-to-write", "1")]), (Class::B, vec![]));
        let clustered = format!("{replicated}cluster_enabled:1\r\n");
        let slow =
            Told { replicas_wanted: 1, fails_over: true, ..told(&clustered, &[("cluster-node-timeout", "60000")]) };
        assert_eq!(found(&slow), (Class::B, vec!["node_timeout"]));
    }

    #[test]
    fn sentinels_that_cannot_lose_one_are_told() {
        let said = |others: &str, quorum: &str| {
            let pairs = ["name", "main", "num-other-sentinels", others, "quorum", quorum];
            sentinels(&pairs.map(str::to_owned)).map(|finding| finding.found)
        };
        assert_eq!(said("2", "2"), None);
        assert_eq!(said("4", "3"), None);
        assert_eq!(said("0", "1").as_deref(), Some("1 Sentinels with quorum 1"));
        assert_eq!(said("2", "1").as_deref(), Some("3 Sentinels with quorum 1"));
        assert_eq!(sentinels(&[]), None);
    }

    #[test]
    fn a_server_that_tells_nothing_is_not_trusted() {
        let probe = judge(&Told::default());
        assert_eq!((probe.class, probe.findings[0].check), (Class::C, "info"));
    }

    #[test]
    fn valkey_goes_by_its_own_name() {
        assert_eq!(judge(&told("redis_version:7.2.4\r\nvalkey_version:8.0.1\r\n", &[])).version, "valkey 8.0.1");
    }
}
