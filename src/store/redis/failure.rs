//! What an error of the server or of the connection means.

use crate::store::ErrorKind;
use crate::store::place::Place;
use redis::RedisError;
use std::time::Duration;

/// How long the reply to a whole batch may take.
pub(super) const ANSWER_WITHIN: Duration = Duration::from_secs(2);

/// What went wrong, before it is known what it was for.
#[derive(Debug, Clone)]
pub(super) struct Failure {
    pub kind: ErrorKind,
    pub detail: String,
    /// Whether the connection is not to be used again.
    pub drops: bool,
    /// What mends it at once, if something does.
    pub mend: Mend,
}

/// What mends a failure at once. All that we send may be sent again, since all of it is idempotent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Mend {
    /// Nothing: whoever asked tries again.
    Nothing,
    /// Another connection: the one that had been of use before was found closed, or its server takes no writes any more.
    Reconnect,
    /// The server did not know a script: nothing was applied by that command.
    LoadScripts,
    /// A node of a cluster does not have the key (any more): this one has.
    Moved(Place),
    /// A key is on its way to another node: it is to be asked there, for this once.
    Ask(Place),
}

impl Failure {
    pub fn new(kind: ErrorKind, detail: impl Into<String>, drops: bool) -> Self {
        Self { kind, detail: detail.into(), drops, mend: Mend::Nothing }
    }

    /// One that an operator has to mend.
    pub fn misconfigured(detail: impl Into<String>) -> Self {
        Self::new(ErrorKind::Misconfigured, detail, true)
    }

    /// Of a server that takes no writes.
    pub fn read_only(found: &str) -> Self {
        let wanted = "a replica takes no writes: use the primary's address, or let Sentinels or a cluster say it \
                      (redis+sentinel://, redis+cluster://)";
        let failure = Self::new(ErrorKind::ReadOnly, format!("{found}; {wanted}"), true);
        Self { mend: Mend::Reconnect, ..failure }
    }

    fn mended(self, mend: Mend) -> Self {
        Self { mend, ..self }
    }
}

/// What an error of the server or of the connection means.
pub(super) fn classify(error: &RedisError) -> Failure {
    // A server's error as the server words it, `CODE text`: that is what an operator can look up.
    let text = match error.code() {
        Some(code) => format!("{code} {}", error.detail().unwrap_or_default()),
        None => error.to_string(),
    };
    match error.code() {
        Some(code) => of_server(code, text),
        None if error.kind() == redis::ErrorKind::AuthenticationFailed => {
            let wanted = "the server does not accept user and password: check those of the URL, or of --store-user and \
                          --store-password-file; where none is given, the password is empty";
            Failure::misconfigured(format!("{wanted} ({text})"))
        }
        None if error.is_timeout() => {
            let seconds = ANSWER_WITHIN.as_secs();
            let detail = format!("the server did not answer within {seconds} s");
            Failure::new(ErrorKind::MaybeApplied, detail, true)
        }
        None if error.kind() == redis::ErrorKind::Parse => {
            let detail = "what answers there does not speak as Redis does: check host and port";
            Failure::new(ErrorKind::MaybeApplied, detail, true).mended(Mend::Reconnect)
        }
        None => Failure::new(ErrorKind::MaybeApplied, text, true).mended(Mend::Reconnect),
    }
}

fn of_server(code: &str, text: String) -> Failure {
    let unsure = |detail: String, drops| Failure::new(ErrorKind::MaybeApplied, detail, drops);
    let denied = "the server refuses us: --store-user and --store-password-file (or `redis://user:password@host`) have to \
                  name an account that may read, write and run scripts on `onecron:*`; docs/stores.md has its line";
    match code {
        "NOSCRIPT" => unsure(text, false).mended(Mend::LoadScripts),
        "NOAUTH" => {
            let wanted = "the server wants a password: write `redis://:password@host`, or use --store-password-file";
            Failure::misconfigured(format!("{wanted} ({text})"))
        }
        "WRONGPASS" => {
            let wanted = "the server does not accept user and password: check those of the URL, or of --store-user and \
                          --store-password-file; where none is given, the password is empty";
            Failure::misconfigured(format!("{wanted} ({text})"))
        }
        // Rights that are given are in force at once.
        "NOPERM" => Failure { drops: false, ..Failure::misconfigured(format!("{denied} ({text})")) },
        "OOM" => {
            let wanted = "the server is out of memory: raise `maxmemory`, or give onecron a server of its own";
            unsure(format!("{wanted} ({text})"), false)
        }
        "MISCONF" => {
            let wanted = "the server takes no writes since it cannot save them: make room on its disk, or see its log";
            unsure(format!("{wanted} ({text})"), false)
        }
        // The command that meets it writes nothing, and so do those after it; those before it may have.
        "READONLY" => {
            let failure = Failure::read_only(&format!("the server is a replica now ({text})"));
            Failure { kind: ErrorKind::MaybeApplied, ..failure }
        }
        // It was, or is not yet, the one to ask: Sentinels or the cluster may already say who is.
        "LOADING" | "MASTERDOWN" | "UNBLOCKED" => unsure(text, true).mended(Mend::Reconnect),
        "NOREPLICAS" => {
            let found = "the server has fewer replicas that keep up than its `min-replicas-to-write`, and takes no \
                         writes";
            Failure::new(ErrorKind::NotDurable, format!("{found} ({text})"), false)
        }
        "CLUSTERDOWN" | "TRYAGAIN" => unsure(text, false),
        "MOVED" | "ASK" => match redirected(&text) {
            Some(place) if code == "ASK" => unsure(text, false).mended(Mend::Ask(place)),
            Some(place) => {
                let wanted = "the server is a node of a cluster: write redis+cluster://host:6379";
                Failure::misconfigured(format!("{wanted} ({text})")).mended(Mend::Moved(place))
            }
            None => unsure(text, true),
        },
        _ if text.contains("DB index is out of range") => {
            let wanted = "the number after the last `/` of the URL is a database that the server has not: write one \
                          below its `databases`, or none for 0";
            Failure::misconfigured(format!("{wanted} ({text})"))
        }
        // One command in a script on a slot that is being moved.
        _ if text.contains("non local key") => unsure(text, false),
        // A right that is given is in force at once here, too.
        _ if is_denied(&text) => Failure { drops: false, ..Failure::misconfigured(format!("{denied} ({text})")) },
        _ => unsure(text, false),
    }
}

/// Whether a server says that the account may not do something: to a command, and inside of a script to 7.2 and before it.
pub(super) fn is_denied(text: &str) -> bool {
    ["NOPERM", "ACL failure", "user executing the script can't"].iter().any(|words| text.contains(words))
}

/// `MOVED 3999 127.0.0.1:6381`; the host is empty where the node does not know its own name.
fn redirected(text: &str) -> Option<Place> {
    let (host, port) = text.split(' ').nth(2)?.rsplit_once(':')?;
    Some(Place { host: host.to_owned(), port: port.parse().ok()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_server_says_is_no_verdict_unless_it_is_one() {
        use ErrorKind::MaybeApplied;
        use ErrorKind::Misconfigured;
        let place = |port| Place { host: "10.0.0.7".into(), port };
        for (code, rest, kind, mend) in [
            ("NOSCRIPT", "No matching script", MaybeApplied, Mend::LoadScripts),
            ("READONLY", "You can't write against a read only replica.", MaybeApplied, Mend::Reconnect),
            ("MASTERDOWN", "Link with MASTER is down", MaybeApplied, Mend::Reconnect),
            ("LOADING", "Redis is loading the dataset in memory", MaybeApplied, Mend::Reconnect),
            ("NOREPLICAS", "Not enough good replicas to write.", ErrorKind::NotDurable, Mend::Nothing),
            ("CLUSTERDOWN", "The cluster is down", MaybeApplied, Mend::Nothing),
            ("TRYAGAIN", "Multiple keys request during rehashing of slot", MaybeApplied, Mend::Nothing),
            ("MOVED", "3999 10.0.0.7:6381", Misconfigured, Mend::Moved(place(6381))),
            ("ASK", "3999 10.0.0.7:6381", MaybeApplied, Mend::Ask(place(6381))),
            ("ERR", "Script attempted to access a non local key in a cluster node", MaybeApplied, Mend::Nothing),
            ("NOPERM", "User app has no permissions to run the 'wait' command", Misconfigured, Mend::Nothing),
            ("ERR", "The user executing the script can't run this command or subcommand", Misconfigured, Mend::Nothing),
            ("ERR", "ACL failure in script: User app has no permissions", Misconfigured, Mend::Nothing),
            ("MISCONF", "Errors writing to the AOF file: No space left on device", MaybeApplied, Mend::Nothing),
            ("OOM", "command not allowed", MaybeApplied, Mend::Nothing),
            ("ERR", "DB index is out of range", Misconfigured, Mend::Nothing),
        ] {
            let found = of_server(code, format!("{code} {rest}"));
            assert_eq!((found.kind, found.mend), (kind, mend), "{code}");
            assert!(found.detail.contains(rest), "{}", found.detail);
        }
    }
}
