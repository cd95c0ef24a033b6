//! Which server this is, and which life of it: read when we connect and before jobs are registered.
//!
//! A server that restarts has another `run_id`; one that was promoted, or has copied another, has another
//! `master_replid`. Either may lack what was acknowledged before. Its count of evicted keys tells of single records
//! that went, where the eviction policy can meet keys without expiry, as ours are.
//!
//! How much a server can have lost by a restart is known where it had an append-only file and no replica, and where
//! we left a heartbeat every second: see `lua/heartbeat.lua`.

use super::probe::Told;
use super::scripts::Script;
use crate::store::Identity;
use redis::RedisError;
use redis::Value;
use redis::aio::MultiplexedConnection;
use std::sync::atomic::AtomicI64;
use std::sync::atomic::Ordering;

/// How long after the last heartbeat that it kept a server can have gone on acknowledging what it lost, milliseconds:
/// two seconds of writes (`everysec` goes on so long beside a slow fsync), and one between two heartbeats.
const LOSS_WINDOW_MS: i64 = 3000;

/// What a server was found to be.
#[derive(Debug)]
pub(super) struct Found {
    pub identity: Identity,
    /// The primary that it copies, where it is a replica.
    pub replica_of: Option<String>,
    /// Whether a replica copies it that could take its place.
    pub has_replicas: bool,
}

/// The heartbeat of this process.
pub(super) struct Heartbeat {
    key: String,
    script: Script,
    /// When the last one was acknowledged, by the server's clock, milliseconds; 0: never.
    last: AtomicI64,
}

impl Heartbeat {
    pub fn new(key: String, script: Script) -> Self {
        Self { key, script, last: AtomicI64::new(0) }
    }

    /// Asks what the server is, leaves a heartbeat, and learns what the server lost when it became what it is. What the
    /// account may not do is left out: then anything may have been lost.
    pub async fn beat(&self, connection: &mut MultiplexedConnection) -> Result<Found, RedisError> {
        let (info, config) = look(connection).await?;
        let found = found(info.as_deref());
        let identity = &found.identity;
        if identity.server.is_empty() || found.replica_of.is_some() {
            return Ok(found);
        }
        let last = self.last.load(Ordering::Relaxed);
        let mine = if last == 0 { String::new() } else { last.to_string() };
        let mut script = redis::cmd("EVAL");
        script.arg(&self.script.code).arg(1).arg(&self.key).arg(&identity.server);
        script.arg(keeps(info.as_deref(), &config)).arg(mine).arg(LOSS_WINDOW_MS);
        let reply: Result<(i64, String), RedisError> = script.query_async(connection).await;
        match reply {
            Ok((heard_at, missing_until)) => {
                self.last.store(heard_at, Ordering::Relaxed);
                let identity = Identity { missing_until: missing_until.parse().ok(), ..found.identity };
                Ok(Found { identity, ..found })
            }
            // A server that takes no heartbeat takes no claim either, and says why when one comes.
            Err(error) if error.code().is_some() => Ok(found),
            Err(error) => Err(error),
        }
    }
}

/// What the server is, for a connection that has only to be told from others.
pub(super) async fn read(connection: &mut MultiplexedConnection) -> Result<Found, RedisError> {
    let (info, _) = look(connection).await?;
    Ok(found(info.as_deref()))
}

fn found(info: Option<&str>) -> Found {
    let told = Told { info, ..Told::default() };
    let is_replica = matches!(told.get("role"), "slave" | "replica");
    let replica_of = is_replica.then(|| format!("{}:{}", told.get("master_host"), told.get("master_port")));
    Found { identity: of(info), replica_of, has_replicas: info.is_some_and(has_replicas) }
}

/// Whether a replica copies the server that could take its place.
pub(super) fn has_replicas(info: &str) -> bool {
    info.lines().any(is_online)
}

/// `slave0:ip=10.0.0.2,port=6379,state=online,…`. A program that only fetches a copy for a backup has no port.
fn is_online(line: &str) -> bool {
    let replica = line.strip_prefix("slave").and_then(|rest| rest.split_once(':'));
    replica.is_some_and(|(number, rest)| {
        number.bytes().all(|byte| byte.is_ascii_digit())
            && rest.contains(",state=online,")
            && !rest.contains(",port=0,")
    })
}

async fn look(connection: &mut MultiplexedConnection) -> Result<(Option<String>, Vec<String>), RedisError> {
    let mut asking = redis::pipe();
    asking.cmd("INFO").cmd("CONFIG").arg("GET").arg("*appendfsync*").ignore_errors();
    let replies: Vec<Value> = asking.query_async(connection).await?;
    let mut replies = replies.into_iter();
    let info = replies.next().unwrap_or(Value::Nil);
    if let Err(error) = info.clone().extract_error()
        && error.code() != Some("NOPERM")
        && !error.to_string().contains("unknown command")
    {
        return Err(error);
    }
    let config = replies.next().and_then(|reply| redis::from_redis_value(reply).ok()).unwrap_or_default();
    Ok((redis::from_redis_value(info).ok(), config))
}

/// From the text of `INFO`.
fn of(info: Option<&str>) -> Identity {
    let Some(info) = info else { return Identity::default() };
    let told = Told { info: Some(info), ..Told::default() };
    let word = |name| Some(told.get(name)).filter(|word| !word.is_empty());
    let parts = [word("run_id"), word("master_replid"), word("role")];
    // Some managed services leave `run_id` out. Without both, nothing can be compared.
    let server = match parts {
        [None, None, _] => String::new(),
        parts => parts.map(Option::unwrap_or_default).join(":"),
    };
    let evicts_ours = told.get("maxmemory_policy").starts_with("allkeys");
    let evicted = if evicts_ours { told.get("evicted_keys").parse().unwrap_or(0) } else { 0 };
    Identity { server, evicted, missing_until: None }
}

/// `always` or `everysec` where a restart loses no more than that says; else empty: without an append-only file, with
/// replicas (any of which may come back in this one's place), or if this one was promoted.
fn keeps(info: Option<&str>, config: &[String]) -> &'static str {
    let told = Told { info, ..Told::default() };
    let alone = told.get("role") == "master"
        && told.get("connected_slaves") == "0"
        && told.get("master_replid2").trim_start_matches('0').is_empty();
    if !alone || told.get("aof_enabled") != "1" || told.get("aof_last_write_status") != "ok" {
        return "";
    }
    let set = |name: &str| config.chunks_exact(2).find(|pair| pair[0] == name).map_or("", |pair| pair[1].as_str());
    match (set("appendfsync"), set("no-appendfsync-on-rewrite")) {
        ("always", "no") => "always",
        ("everysec", "no") => "everysec",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INFO: &str = "run_id:aa\r\nrole:master\r\nconnected_slaves:0\r\nmaster_replid:bb\r\nmaster_replid2:00\r\n\
                        aof_enabled:1\r\naof_last_write_status:ok\r\nevicted_keys:7\r\nmaxmemory_policy:";

    #[test]
    fn a_restart_a_promotion_and_another_role_are_other_stores() {
        let found = of(Some(INFO));
        assert_eq!((found.server.as_str(), found.missing_until), ("aa:bb:master", None));
        for other in [INFO.replace("aa", "cc"), INFO.replace("bb", "cc"), INFO.replace("role:master", "role:slave")] {
            assert_ne!(of(Some(&other)).server, found.server);
        }
    }

    #[test]
    fn a_replica_is_one_that_could_take_the_place() {
        let with = |line: &str| found(Some(&format!("{INFO}noeviction\r\n{line}\r\n"))).has_replicas;
        assert!(with("slave0:ip=10.0.0.2,port=6379,state=online,offset=9,lag=0"));
        for line in [
            "slave0:ip=10.0.0.2,port=0,state=online,offset=9,lag=0",
            "slave0:ip=10.0.0.2,port=6379,state=wait_bgsave,offset=0,lag=0",
            "slave_priority:100,state=online,",
            "",
        ] {
            assert!(!with(line), "{line}");
        }
    }

    #[test]
    fn evictions_count_where_they_can_meet_keys_without_expiry() {
        for (policy, evicted) in [("allkeys-lru", 7), ("allkeys-random", 7), ("volatile-lru", 0), ("noeviction", 0)] {
            assert_eq!(of(Some(&format!("{INFO}{policy}\r\n"))).evicted, evicted, "{policy}");
        }
    }

    #[test]
    fn a_server_that_tells_nothing_has_no_identity() {
        assert_eq!((of(None), of(Some("role:master\r\n"))), (Identity::default(), Identity::default()));
    }

    #[test]
    fn what_a_restart_can_lose_is_known_of_a_server_without_replicas_that_appends_to_a_file() {
        let config = |appendfsync: &str, paused: &str| {
            ["appendfsync", appendfsync, "no-appendfsync-on-rewrite", paused].map(str::to_owned).to_vec()
        };
        assert_eq!(keeps(Some(INFO), &config("always", "no")), "always");
        assert_eq!(keeps(Some(INFO), &config("everysec", "no")), "everysec");
        for bad in [config("always", "yes"), config("no", "no"), Vec::new()] {
            assert_eq!(keeps(Some(INFO), &bad), "", "{bad:?}");
        }
        for (good, bad) in [
            ("slaves:0", "slaves:1"),
            ("replid2:00", "replid2:0a"),
            ("aof_enabled:1", "aof_enabled:0"),
            ("status:ok", "status:err"),
            ("role:master", "role:slave"),
        ] {
            assert_eq!(keeps(Some(&INFO.replace(good, bad)), &config("always", "no")), "", "{bad}");
        }
    }
}
