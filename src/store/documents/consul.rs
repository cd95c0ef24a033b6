//! Consul's key-value store, over HTTP. All reads are `consistent`: the leader makes sure that it still is one. A
//! transaction is done whole or not at all, so each job has one of its own.

use super::backend::Backend;
use super::backend::Document;
use super::backend::Expect;
use super::backend::Failure;
use super::backend::Found;
use super::backend::Group;
use super::backend::MEMBERS_LEAST;
use super::backend::Write;
use super::backend::lacking;
use super::backend::unused;
use super::link::Ask;
use super::link::Link;
use super::link::Reply;
use super::link::short;
use super::url::Form;
use super::url::Url;
use crate::secret::Secret;
use crate::store::Access;
use crate::store::Class;
use crate::store::ErrorKind;
use crate::store::Finding;
use crate::store::Probe;
use crate::store::Reach;
use crate::store::access::word_in;
use async_trait::async_trait;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use futures_util::StreamExt;
use futures_util::TryStreamExt;
use futures_util::stream;
use reqwest::Method;
use reqwest::StatusCode;
use serde::Deserialize;
use serde_json::Value;
use serde_json::json;

const PLAIN: Form = Form {
    scheme: "consul://",
    port: 8500,
    places_most: 16,
    options: &["dc"],
    whole: "consul://[:token@]host1:8500,host2[?dc=name]",
};
const SECURE: Form =
    Form { scheme: "consuls://", port: 8501, whole: "consuls://[:token@]host1:8501,host2[?dc=name]", ..PLAIN };

const POLICY: &str = "a policy of the token with `key_prefix \"onecron/\" { policy = \"write\" }`, or another token with \
                      --store-password-file: requests fail without";

/// So many requests go on at once, each with a connection: Consul closes those above 200 from one address.
const AT_ONCE: usize = 8;
/// Is in all answers to questions for keys.
const INDEX: &str = "x-consul-index";
/// A transaction has 512 kB at most, and in it a document takes a third more than it is long.
const HISTORY_BYTES_MOST: usize = 256 << 10;

/// A datacenter.
pub(super) struct Consul {
    link: Link,
    shown: String,
    token: Option<Secret<String>>,
    access: Access,
    /// `dc=name&`, or nothing.
    datacenter: String,
}

#[derive(Debug, Deserialize)]
struct Entry {
    #[serde(rename = "Key")]
    key: String,
    #[serde(rename = "Value")]
    value: Option<String>,
    #[serde(rename = "ModifyIndex")]
    modify_index: u64,
}

/// What a transaction that was done says; the entries that it has written are of no use to us.
#[derive(Debug, Deserialize)]
struct Done {
    #[serde(rename = "Results")]
    _results: Value,
    #[serde(rename = "Errors")]
    errors: Option<Value>,
}

#[derive(Debug, Default, Deserialize)]
struct Refused {
    #[serde(rename = "Errors", default)]
    errors: Vec<RefusedPart>,
}

#[derive(Debug, Deserialize)]
struct RefusedPart {
    #[serde(rename = "What", default)]
    what: String,
}

fn odd(what: &str) -> Failure {
    Failure::new(ErrorKind::MaybeApplied, format!("an answer is not what Consul answers: {what}"))
}

impl Entry {
    fn into_document(self) -> Result<(String, Document), Failure> {
        let bytes = STANDARD.decode(self.value.unwrap_or_default()).map_err(|error| odd(&error.to_string()))?;
        let text = String::from_utf8_lossy(&bytes).into_owned();
        Ok((self.key, Document { text, version: self.modify_index }))
    }
}

impl Consul {
    /// Does not connect.
    ///
    /// # Errors
    /// What is wrong with the URL.
    pub fn open(url: &str, access: &Access) -> Result<Self, String> {
        let (form, rest) = match url.strip_prefix(SECURE.scheme) {
            Some(rest) => (SECURE, rest),
            None => (PLAIN, url.strip_prefix(PLAIN.scheme).unwrap_or_default()),
        };
        let url = Url::parse(rest, form)?;
        if !url.user.is_empty() {
            return Err(format!("Consul knows no users; a token stands after a colon: write {}", form.whole));
        }
        let link = Link::new(&url.places, (access, form.scheme == SECURE.scheme), SECURE.scheme)?;
        let datacenter = url.option("dc").map(|name| format!("dc={name}&")).unwrap_or_default();
        Ok(Self { link, shown: url.shown, token: url.password, access: access.clone(), datacenter })
    }

    /// The token of the file, which may have been renewed, else that of the URL.
    async fn token(&self) -> Result<Option<(&'static str, String)>, Failure> {
        let token = match &self.access.account.password_file {
            Some(file) => Some(word_in(file).await.map_err(|detail| Failure::new(ErrorKind::Misconfigured, detail))?),
            None => self.token.as_ref().map(|token| token.expose().clone()),
        };
        Ok(token.map(|token| ("X-Consul-Token", token)))
    }

    async fn get(&self, path: &str, query: &str) -> Result<Reply, Failure> {
        let path = format!("{path}?{}{query}", self.datacenter);
        let ask = Ask { method: Method::GET, path, token: self.token().await?, body: Vec::new(), only_reads: true };
        self.link.send(&ask).await
    }

    /// The entries that a question finds; none, where there is no such key.
    async fn entries(&self, key: &str, query: &str) -> Result<Vec<Entry>, Failure> {
        let reply = self.get(&format!("/v1/kv/{key}"), query).await?;
        match reply.status {
            StatusCode::OK => match serde_json::from_slice::<Vec<Entry>>(&reply.body) {
                Ok(entries) if entries.is_empty() => Err(odd("no entries, and not 404")),
                read => read.map_err(|error| odd(&error.to_string())),
            },
            // What is no Consul says the same of everything.
            StatusCode::NOT_FOUND if reply.headers.contains_key(INDEX) => Ok(Vec::new()),
            _ => Err(failure(&reply, &short(&reply.body))),
        }
    }

    async fn read_one(&self, key: &str) -> Result<Option<Document>, Failure> {
        let first = self.entries(key, "consistent").await?.into_iter().next();
        Ok(first.map(Entry::into_document).transpose()?.map(|(_, document)| document))
    }

    async fn write_one(&self, group: Group) -> Result<usize, Failure> {
        let parts: Vec<Value> = group.iter().map(operation).collect();
        let path = format!("/v1/txn?{}", self.datacenter);
        let body = Value::from(parts).to_string().into_bytes();
        let ask = Ask { method: Method::PUT, path, token: self.token().await?, body, only_reads: false };
        let reply = self.link.send(&ask).await?;
        if reply.status == StatusCode::OK {
            let done: Done = serde_json::from_slice(&reply.body).map_err(|error| odd(&error.to_string()))?;
            return if done.errors.is_none() { Ok(group.len()) } else { Err(odd("errors, and yet 200")) };
        }
        let refused: Refused = serde_json::from_slice(&reply.body).unwrap_or_default();
        let texts: Vec<&str> = refused.errors.iter().map(|part| part.what.as_str()).collect();
        if reply.status == StatusCode::CONFLICT && !texts.is_empty() && texts.iter().all(|text| is_stale(text)) {
            return Ok(0);
        }
        let text = if texts.is_empty() { short(&reply.body) } else { texts.join("; ") };
        Err(failure(&reply, &text))
    }
}

/// Somebody else was faster.
fn is_stale(text: &str) -> bool {
    text.contains("index is stale") || text.contains("already exists")
}

fn operation(Write { key, expect, text }: &Write) -> Value {
    let value = text.as_ref().map(|text| STANDARD.encode(text));
    let verb = match (expect, &value) {
        (Expect::Anything, Some(_)) => "set",
        (Expect::Anything, None) => "delete",
        (Expect::Version(_), Some(_)) => "cas",
        (Expect::Version(_), None) => "delete-cas",
    };
    let mut operation = json!({"Verb": verb, "Key": key});
    if let Some(value) = value {
        operation["Value"] = value.into();
    }
    if let Expect::Version(version) = expect {
        operation["Index"] = (*version).into();
    }
    json!({"KV": operation})
}

fn failure(reply: &Reply, text: &str) -> Failure {
    let (kind, advice) = match text {
        _ if text.contains("Permission denied") => (
            ErrorKind::Misconfigured,
            ": give the token a policy with `key_prefix \"onecron/\" { policy = \"write\" }`, or give another one with \
             --store-password-file",
        ),
        _ if text.contains("ACL not found") => {
            (ErrorKind::Misconfigured, ": Consul does not know the token: give another one with --store-password-file")
        }
        _ if text.contains("No path to datacenter") => {
            (ErrorKind::Misconfigured, ": no datacenter has the name that `?dc=` says")
        }
        _ if reply.status == StatusCode::PAYLOAD_TOO_LARGE => (
            ErrorKind::Misconfigured,
            ": leave `limits.txn_max_req_len` and `limits.kv_max_value_size` at 512 kB or more",
        ),
        _ if reply.status == StatusCode::NOT_FOUND => {
            (ErrorKind::Misconfigured, ": this is no Consul with transactions (1.8 or later)")
        }
        _ => (ErrorKind::MaybeApplied, ""),
    };
    let text = if text.is_empty() { reply.status.to_string() } else { format!("{} {text}", reply.status.as_u16()) };
    Failure::new(kind, format!("{text}{advice}"))
}

#[async_trait]
impl Backend for Consul {
    fn shown(&self) -> &str {
        &self.shown
    }

    fn history_bytes_most(&self) -> usize {
        HISTORY_BYTES_MOST
    }

    async fn read(&self, first: &[String], then: &[String]) -> Result<Found, Failure> {
        let mut found = Found::default();
        for keys in [first, then] {
            // As values of one type, each: a stream that borrows them by closures is none that can be sent.
            let reads: Vec<_> = keys.iter().map(|key| self.read_one(key)).collect();
            let read: Vec<Option<Document>> = stream::iter(reads).buffered(AT_ONCE).try_collect().await?;
            found.documents.extend(read);
        }
        Ok(found)
    }

    async fn list(&self, prefix: &str) -> Result<Vec<(String, Document)>, Failure> {
        let entries = self.entries(prefix, "recurse&consistent").await?;
        if entries.is_empty() {
            // A listing leaves out what the token may not read, and is none the worse for it; a key that it may not read is
            // refused, whether it is there or not.
            self.read_one(&unused(prefix)).await?;
        }
        entries.into_iter().map(Entry::into_document).collect()
    }

    async fn write(&self, groups: Vec<Group>) -> Result<Vec<usize>, Failure> {
        let many = groups.len() > 1;
        let writes: Vec<_> = groups.into_iter().map(|group| self.write_one(group)).collect();
        let writes = stream::iter(writes).buffered(AT_ONCE);
        let done: Result<Vec<usize>, Failure> = writes.try_collect().await;
        // Others may have been done.
        done.map_err(|failure| match failure.kind {
            ErrorKind::NotSent if many => Failure { kind: ErrorKind::MaybeApplied, ..failure },
            _ => failure,
        })
    }

    async fn probe(&self, prefix: &str) -> Result<Probe, Failure> {
        let peers = self.get("/v1/status/peers", "").await?;
        if peers.status != StatusCode::OK {
            return Err(failure(&peers, &short(&peers.body)));
        }
        let peers: Vec<String> = serde_json::from_slice(&peers.body).map_err(|error| odd(&error.to_string()))?;
        if peers.is_empty() {
            return Err(odd("it names no servers"));
        }
        // Needs a right of its own, `agent:read`.
        let agent = self.get("/v1/agent/self", "").await?;
        let agent: Value = serde_json::from_slice(&agent.body).unwrap_or_default();
        let version = agent["Config"]["Version"].as_str().unwrap_or("of an unknown version");
        let (key, expect, text) = (unused(prefix), Expect::Anything, None);
        let read = self.read_one(&key).await;
        let written = self.write_one(vec![Write { key, expect, text }]).await;
        let lacking = lacking(("token", prefix), read, written)?;
        Ok(judge(version, peers.len(), (agent["DebugConfig"]["DevMode"] == true, lacking.as_deref())))
    }
}

fn judge(version: &str, servers: usize, (in_memory, lacking): (bool, Option<&str>)) -> Probe {
    let mut findings = Vec::new();
    let mut find = |check, found: &str, wanted: &str| {
        findings.push(Finding { check, found: found.into(), wanted: wanted.into() });
    };
    if servers < MEMBERS_LEAST {
        find(
            "members",
            &format!("the number of servers is {servers}"),
            "3 or 5 servers: with fewer, nothing is decided while one of them is away",
        );
    }
    if in_memory {
        find("persistence", "the agent runs with `-dev`: it keeps nothing", "a server with `-data-dir`");
    }
    if let Some(lacking) = lacking {
        find("rights", lacking, POLICY);
    }
    let class = match (in_memory || lacking.is_some(), findings.is_empty()) {
        (true, _) => Class::C,
        (false, true) => Class::A,
        (false, false) => Class::B,
    };
    Probe { class, version: format!("consul {version}"), reach: Reach::Network, findings }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::Account;

    #[tokio::test]
    async fn a_file_that_cannot_be_read_is_a_setting_to_mend() {
        let absent = Some("/nowhere/absent".into());
        let account = Account { password_file: absent.clone(), ..Account::default() };
        for (url, access) in [
            ("consul://127.0.0.1:1", Access { account, ..Access::default() }),
            ("consuls://127.0.0.1:1", Access { ca_file: absent, ..Access::default() }),
        ] {
            let failure = Consul::open(url, &access).unwrap().read_one("key").await.unwrap_err();
            assert!(failure.kind == ErrorKind::Misconfigured && failure.detail.contains("/nowhere"), "{failure:?}");
        }
    }

    #[test]
    fn settings_are_judged() {
        let class = |servers, in_memory| {
            let probe = judge("1.8.7", servers, (in_memory, None));
            (probe.class, probe.findings.iter().map(|finding| finding.check).collect::<Vec<_>>())
        };
        assert_eq!(class(3, false), (Class::A, vec![]));
        for servers in [1, 2] {
            assert_eq!(class(servers, false), (Class::B, vec!["members"]));
        }
        assert_eq!(class(1, true), (Class::C, vec!["members", "persistence"]));
        assert_eq!(judge("1.8.7", 3, (false, Some("the token may not write"))).class, Class::C);
    }
}
