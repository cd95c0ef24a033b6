//! Whether the account may do all that is going to be done: a right that is missing shows before it is needed.

use super::command::Command;
use super::command::Sure;
use super::failure::is_denied;
use super::servers::Servers;
use crate::store::Error;
use crate::store::ErrorKind;
use crate::store::Finding;
use crate::store::doing;
use redis::Value;

/// Commands that the scripts and the driver use, in a form that does no harm, on keys that nobody else has. The first
/// takes away what others leave.
const COMMANDS: [(&str, &str, &[&str]); 21] = [
    ("DEL", "hash", &[]),
    ("HSET", "hash", &["field", "1"]),
    ("HGET", "hash", &["field"]),
    ("HMGET", "hash", &["field"]),
    ("HGETALL", "hash", &[]),
    ("HDEL", "hash", &["field"]),
    ("SADD", "set", &["member"]),
    ("SMEMBERS", "set", &[]),
    ("SREM", "set", &["member"]),
    ("LPUSH", "list", &["1"]),
    ("LSET", "list", &["0", "2"]),
    ("LRANGE", "list", &["0", "-1"]),
    ("LTRIM", "list", &["0", "0"]),
    ("LREM", "list", &["0", "2"]),
    ("ZADD", "sorted", &["XX", "1", "member"]),
    ("ZRANGE", "sorted", &["0", "-1"]),
    ("ZRANGEBYSCORE", "sorted", &["0", "1"]),
    ("ZREM", "sorted", &["member"]),
    ("EXISTS", "set", &[]),
    ("UNLINK", "list", &[]),
    ("DEL", "hash", &[]),
];

/// What of that is forbidden; nothing more is tried where the first is.
pub(super) async fn missing(servers: &Servers, near: &str) -> Result<Option<Finding>, Error> {
    let of = |kind: &str| format!("{}{{rights}}:{kind}", near.trim_end_matches("jobs"));
    let mut missing = Vec::new();
    for (name, kind, arguments) in COMMANDS {
        let command = Command::new(name, of(kind)).arg(arguments);
        if is_forbidden(servers.query(doing::PROBE, (&[command], Sure::Answered)).await)? {
            missing.push(name.to_lowercase());
            if missing.len() == 1 && name == COMMANDS[0].0 {
                break;
            }
        }
    }
    let beside = [("EVAL", vec!["return 1", "0"]), ("WAIT", vec!["0", "1"])];
    for (name, arguments) in beside {
        let command = [Command::beside(name, of("hash")).arg(arguments)];
        if is_forbidden(servers.query_each(doing::PROBE, &command).await.map(|_| Vec::new()))? {
            missing.push(name.to_lowercase());
        }
    }
    Ok((!missing.is_empty()).then(|| finding(&missing)))
}

fn finding(missing: &[String]) -> Finding {
    let rules: Vec<String> = missing.iter().map(|name| format!("+{name}")).collect();
    Finding {
        check: "rights",
        found: format!("the account may not run `{}` on `onecron:*`", missing.join("`, `")),
        wanted: format!(
            "give it `{} ~onecron:*`, or all of the line in docs/stores.md: without it, what needs it fails when it \
             is needed",
            rules.join(" ")
        ),
    }
}

/// Whatever else is wrong is not about rights, and is told by what it keeps from being done.
fn is_forbidden(asked: Result<Vec<Value>, Error>) -> Result<bool, Error> {
    match asked {
        Err(error) if is_denied(&error.detail) => Ok(true),
        Err(error) if error.kind == ErrorKind::NotSent => Err(error),
        _ => Ok(false),
    }
}
