//! What a Redis server is worth as it is set up.

use crate::store::Class;
use crate::store::Finding;
use crate::store::Probe;
use crate::store::Reach;

/// What the server told about itself: the text of `INFO`, and `CONFIG GET appendfsync` where that is allowed.
pub(super) struct Told<'a> {
    pub info: Option<&'a str>,
    pub appendfsync: Option<&'a str>,
}

impl Told<'_> {
    pub fn get(&self, name: &str) -> &str {
        let line = |line: &&str| line.split_once(':').is_some_and(|(key, _)| key == name);
        let found = self.info.and_then(|info| info.lines().find(line));
        found.and_then(|line| line.split_once(':')).map_or("", |(_, value)| value.trim())
    }
}

/// Judges a server. Class A: each write is on disk before it is answered, and there is no replica to fail over to. B:
/// the last second can be lost, in a power cut or a failover. C: more than that can be lost without a trace.
pub(super) fn judge(told: &Told<'_>) -> Probe {
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
    let findings: Vec<Finding> = [eviction(told), persistence(told), replica(told)].into_iter().flatten().collect();
    let class = if !findings.is_empty() {
        Class::C
    } else if told.appendfsync == Some("always") && matches!(told.get("connected_slaves"), "" | "0") {
        Class::A
    } else {
        Class::B
    };
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

fn replica(told: &Told<'_>) -> Option<Finding> {
    (told.get("role") == "slave").then(|| Finding {
        check: "replica",
        found: format!("the server is a replica of {}:{}", told.get("master_host"), told.get("master_port")),
        wanted: "use the primary's address: a replica takes no writes, so nothing can be claimed".into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn class(info: &str, appendfsync: Option<&str>) -> (Class, Vec<&'static str>) {
        let probe = judge(&Told { info: Some(info), appendfsync });
        (probe.class, probe.findings.iter().map(|finding| finding.check).collect())
    }

    #[test]
    fn the_class_follows_from_the_settings() {
        let good = "redis_version:7.0.15\r\nrole:master\r\nconnected_slaves:0\r\naof_enabled:1\r\nmaxmemory:0\r\n";
        assert_eq!(class(good, Some("always")), (Class::A, vec![]));
        assert_eq!(class(good, Some("everysec")), (Class::B, vec![]));
        assert_eq!(class(good, None), (Class::B, vec![]));
        assert_eq!(class(&good.replace("slaves:0", "slaves:1"), Some("always")), (Class::B, vec![]));
        assert_eq!(class(&good.replace("aof_enabled:1", "aof_enabled:0"), None), (Class::C, vec!["persistence"]));
        assert_eq!(class(&good.replace("master", "slave"), None), (Class::C, vec!["replica"]));
        let limited = good.replace("maxmemory:0", "maxmemory:9\r\nmaxmemory_policy:noeviction");
        assert_eq!(class(&limited, None), (Class::B, vec![]));
        assert_eq!(class(&limited.replace("noeviction", "allkeys-lru"), None), (Class::C, vec!["eviction"]));
    }

    #[test]
    fn a_server_that_tells_nothing_is_not_trusted() {
        let probe = judge(&Told { info: None, appendfsync: None });
        assert_eq!((probe.class, probe.findings[0].check), (Class::C, "info"));
    }

    #[test]
    fn valkey_goes_by_its_own_name() {
        let told = Told { info: Some("redis_version:7.2.4\r\nvalkey_version:8.0.1\r\n"), appendfsync: None };
        assert_eq!(judge(&told).version, "valkey 8.0.1");
    }
}
