//! etcd, over the JSON gateway of its v3 API. All reads are linearizable. A batch is one transaction whose parts are
//! transactions with conditions of their own: so many jobs are one request, and none fails for another.

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
use reqwest::Method;
use reqwest::StatusCode;
use serde::Deserialize;
use serde_json::Value;
use serde_json::json;
use std::sync::Mutex;
use std::sync::PoisonError;

const PLAIN: Form = Form {
    scheme: "etcd://",
    port: 2379,
    places_most: 16,
    options: &[],
    whole: "etcd://[user:password@]host1:2379,host2,host3",
};
const SECURE: Form = Form { scheme: "etcds://", whole: "etcds://[user:password@]host1:2379,host2,host3", ..PLAIN };

const ROLE: &str = "a role of the user that reads and writes the prefix `onecron/` (etcdctl role grant-permission --prefix=true \
                    ROLE readwrite onecron/): requests fail without";

/// etcd's own limits are 128 operations, those of inner transactions counted with the outer ones, and 1.5 MiB.
const READS_MOST: usize = 100;
const GROUPS_MOST: usize = 50;
const BYTES_MOST: usize = 1 << 20;
/// So many documents are listed with one request.
const PAGE: usize = 200;
/// Leaves room for the job's other documents in a request of 1.5 MiB.
const HISTORY_BYTES_MOST: usize = 768 << 10;

/// A cluster.
pub(super) struct Etcd {
    link: Link,
    shown: String,
    user: String,
    password: Option<Secret<String>>,
    access: Access,
    /// What the last log-in gave.
    token: Mutex<Option<String>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Header {
    #[serde(alias = "clusterId")]
    cluster_id: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct KeyValue {
    key: String,
    value: String,
    #[serde(alias = "modRevision")]
    mod_revision: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Range {
    kvs: Vec<KeyValue>,
}

/// What is false or empty is left out.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Txn {
    header: Header,
    succeeded: bool,
    responses: Vec<Response>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Response {
    #[serde(alias = "responseRange")]
    response_range: Option<Range>,
    #[serde(alias = "responseTxn")]
    response_txn: Option<Txn>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Refusal {
    error: String,
    message: String,
    code: i64,
}

/// Codes of gRPC.
mod code {
    pub const INVALID_ARGUMENT: i64 = 3;
    pub const PERMISSION_DENIED: i64 = 7;
    pub const FAILED_PRECONDITION: i64 = 9;
    pub const RESOURCE_EXHAUSTED: i64 = 8;
    pub const UNAUTHENTICATED: i64 = 16;
}

fn encoded(text: &str) -> String {
    STANDARD.encode(text)
}

fn decoded(text: &str) -> Result<String, Failure> {
    let bytes = STANDARD.decode(text).map_err(|error| odd(&error.to_string()))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// All keys that begin with `…/` come before `…0`: that is the next character.
fn after(prefix: &str) -> String {
    format!("{}0", prefix.trim_end_matches('/'))
}

fn odd(what: &str) -> Failure {
    Failure::new(ErrorKind::MaybeApplied, format!("an answer is not what etcd answers: {what}"))
}

fn document(found: &KeyValue) -> Result<Document, Failure> {
    let version = found.mod_revision.parse().map_err(|_| odd("`mod_revision` is no number"))?;
    Ok(Document { text: decoded(&found.value)?, version })
}

impl Etcd {
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
        let is_secure = form.scheme == SECURE.scheme;
        let link = Link::new(&url.places, (access, is_secure), SECURE.scheme)?;
        let (user, password) = (url.user, url.password);
        Ok(Self { link, shown: url.shown, user, password, access: access.clone(), token: Mutex::default() })
    }

    fn known_token(&self) -> Option<String> {
        self.token.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn know_token(&self, token: Option<String>) {
        *self.token.lock().unwrap_or_else(PoisonError::into_inner) = token;
    }

    /// User and password: those of files, else those of the URL; `None` where nothing is given.
    async fn account(&self) -> Result<Option<(String, String)>, Failure> {
        let account = &self.access.account;
        let read = async |file| word_in(file).await.map_err(|detail| Failure::new(ErrorKind::Misconfigured, detail));
        let user = match (&account.user, &account.user_file) {
            (_, Some(file)) => read(file).await?,
            (Some(user), None) => user.clone(),
            (None, None) => self.user.clone(),
        };
        let password = match &account.password_file {
            Some(file) => Some(read(file).await?),
            None => self.password.as_ref().map(|password| password.expose().clone()),
        };
        match password {
            None => Ok(None),
            Some(_) if user.is_empty() => {
                let wanted =
                    "etcd knows no password without a user: write etcd://user@host, or etcd://user:password@host";
                Err(Failure::new(ErrorKind::Misconfigured, wanted))
            }
            Some(password) => Ok(Some((user, password))),
        }
    }

    async fn log_in(&self) -> Result<Option<String>, Failure> {
        let Some((name, password)) = self.account().await? else { return Ok(None) };
        let body = json!({"name": name, "password": password});
        let reply = self.send("/v3/auth/authenticate", &body, (None, true)).await?;
        if reply.status == StatusCode::OK {
            let answer: Value = serde_json::from_slice(&reply.body).unwrap_or_default();
            let token = answer["token"].as_str().map(str::to_owned);
            self.know_token(token.clone());
            return Ok(token);
        }
        match refusal(&reply) {
            // Then there are no users, and everybody may do everything.
            Refusal { code: code::FAILED_PRECONDITION, .. } => Ok(None),
            Refusal { code: code::INVALID_ARGUMENT, error, .. } => {
                let detail = format!("user `{name}` or its password is not taken: {error}");
                Err(Failure::new(ErrorKind::Misconfigured, detail))
            }
            other => Err(failure(&reply, &other)),
        }
    }

    async fn send(
        &self,
        path: &str,
        body: &Value,
        (token, only_reads): (Option<String>, bool),
    ) -> Result<Reply, Failure> {
        let token = token.map(|token| ("Authorization", token));
        let (method, path, body) = (Method::POST, path.to_owned(), body.to_string().into_bytes());
        self.link.send(&Ask { method, path, token, body, only_reads }).await
    }

    /// Asks, and logs in where that is wanted: once in a request that is refused, nothing was done.
    async fn ask(&self, path: &str, body: &Value, only_reads: bool) -> Result<Vec<u8>, Failure> {
        let mut token = self.known_token();
        if token.is_none() {
            token = self.log_in().await?;
        }
        let reply = self.send(path, body, (token, only_reads)).await?;
        if reply.status == StatusCode::OK {
            return Ok(reply.body);
        }
        let refused = refusal(&reply);
        let is_old = refused.code == code::UNAUTHENTICATED
            || (refused.code == code::INVALID_ARGUMENT
                && ["user name is empty", "revision of auth store is old"].iter().any(|w| refused.error.contains(w)));
        if !is_old {
            return Err(failure(&reply, &refused));
        }
        self.know_token(None);
        let Some(token) = self.log_in().await? else {
            let wanted = "etcd wants to know who asks: write etcd://user:password@host, or give --store-password-file";
            return Err(Failure::new(ErrorKind::Misconfigured, format!("{wanted} ({})", refused.error)));
        };
        let reply = self.send(path, body, (Some(token), only_reads)).await?;
        if reply.status == StatusCode::OK { Ok(reply.body) } else { Err(failure(&reply, &refusal(&reply))) }
    }

    async fn ask_for<T: for<'a> Deserialize<'a>>(
        &self,
        path: &str,
        body: &Value,
        only_reads: bool,
    ) -> Result<T, Failure> {
        let answer = self.ask(path, body, only_reads).await?;
        let answer: Value = serde_json::from_slice(&answer).map_err(|error| odd(&error.to_string()))?;
        // What is empty is left out of an answer, but for this: other programs say `{}`, too.
        if !answer["header"].is_object() {
            return Err(odd("it has no header"));
        }
        serde_json::from_value(answer).map_err(|error| odd(&error.to_string()))
    }

    /// By the way that is open to everybody: the state of a member, where it stands as well, is for root alone in some
    /// versions.
    async fn version(&self) -> Result<String, Failure> {
        let (method, path) = (Method::GET, "/version".to_owned());
        let reply = self.link.send(&Ask { method, path, token: None, body: Vec::new(), only_reads: true }).await?;
        if reply.status != StatusCode::OK {
            return Err(failure(&reply, &refusal(&reply)));
        }
        let answer: Value = serde_json::from_slice(&reply.body).map_err(|error| odd(&error.to_string()))?;
        answer["etcdserver"].as_str().map(str::to_owned).ok_or_else(|| odd("it says no version"))
    }

    async fn write_some(&self, groups: &[Group]) -> Result<Vec<usize>, Failure> {
        let parts: Vec<Value> = groups.iter().map(|group| json!({"request_txn": transaction(group)})).collect();
        let answer: Txn = self.ask_for("/v3/kv/txn", &json!({"success": parts}), false).await?;
        if answer.responses.len() != groups.len() {
            return Err(odd(&format!("{} answers to {} transactions", answer.responses.len(), groups.len())));
        }
        let done = |(group, response): (&Group, &Response)| {
            let is_done = response.response_txn.as_ref().is_some_and(|txn| txn.succeeded);
            if is_done { group.len() } else { 0 }
        };
        Ok(groups.iter().zip(&answer.responses).map(done).collect())
    }
}

/// All writes of a group, or none.
fn transaction(group: &Group) -> Value {
    let conditions: Vec<Value> = group
        .iter()
        .filter_map(|Write { key, expect, .. }| match expect {
            Expect::Anything => None,
            Expect::Version(version) => {
                let revision = version.to_string();
                Some(json!({"key": encoded(key), "target": "MOD", "result": "EQUAL", "mod_revision": revision}))
            }
        })
        .collect();
    let change = |write: &Write| match &write.text {
        Some(text) => json!({"request_put": {"key": encoded(&write.key), "value": encoded(text)}}),
        None => json!({"request_delete_range": {"key": encoded(&write.key)}}),
    };
    json!({"compare": conditions, "success": group.iter().map(change).collect::<Vec<Value>>()})
}

fn refusal(reply: &Reply) -> Refusal {
    let read: Refusal = serde_json::from_slice(&reply.body).unwrap_or_default();
    let error = [read.error, read.message, short(&reply.body)].into_iter().find(|text| !text.is_empty());
    Refusal { error: error.unwrap_or_else(|| reply.status.to_string()), message: String::new(), code: read.code }
}

fn failure(reply: &Reply, refusal: &Refusal) -> Failure {
    let error = &refusal.error;
    let (kind, advice) = match refusal.code {
        code::PERMISSION_DENIED => (
            ErrorKind::Misconfigured,
            ": give the user a role that reads and writes the prefix `onecron/` (etcdctl role grant-permission \
             --prefix=true ROLE readwrite onecron/)",
        ),
        code::RESOURCE_EXHAUSTED if error.contains("space exceeded") => (
            ErrorKind::MaybeApplied,
            ": nothing is written until the members are compacted and defragmented, and the alarm is cleared; set \
             --auto-compaction-retention",
        ),
        _ if reply.status == StatusCode::NOT_FOUND => {
            (ErrorKind::Misconfigured, ": this is no etcd with the v3 API (3.4 or later, with its JSON gateway)")
        }
        _ => (ErrorKind::MaybeApplied, ""),
    };
    Failure::new(kind, format!("{error}{advice}"))
}

/// Takes from the front as much as fits into one request.
fn fitting(groups: &[Group]) -> usize {
    let mut bytes = 0;
    let size = |write: &Write| write.text.as_ref().map_or(0, String::len) + write.key.len() * 2 + 100;
    let fits = |group: &&Group| {
        bytes += group.iter().map(size).sum::<usize>();
        bytes <= BYTES_MOST
    };
    groups.iter().take(GROUPS_MOST).take_while(fits).count().max(1)
}

#[async_trait]
impl Backend for Etcd {
    fn shown(&self) -> &str {
        &self.shown
    }

    fn history_bytes_most(&self) -> usize {
        HISTORY_BYTES_MOST
    }

    async fn read(&self, first: &[String], then: &[String]) -> Result<Found, Failure> {
        let mut found = Found::default();
        for keys in [first, then].concat().chunks(READS_MOST) {
            let parts: Vec<Value> = keys.iter().map(|key| json!({"request_range": {"key": encoded(key)}})).collect();
            let answer: Txn = self.ask_for("/v3/kv/txn", &json!({"success": parts}), true).await?;
            if answer.responses.len() != keys.len() {
                return Err(odd(&format!("{} answers to {} questions", answer.responses.len(), keys.len())));
            }
            for response in &answer.responses {
                let range = response.response_range.as_ref().ok_or_else(|| odd("no answer to a question"))?;
                found.documents.push(range.kvs.first().map(document).transpose()?);
            }
            found.server = answer.header.cluster_id;
        }
        Ok(found)
    }

    async fn list(&self, prefix: &str) -> Result<Vec<(String, Document)>, Failure> {
        let end = after(prefix);
        let mut from = prefix.to_owned();
        let mut listed = Vec::new();
        loop {
            let body = json!({"key": encoded(&from), "range_end": encoded(&end), "limit": PAGE.to_string()});
            let answer: Range = self.ask_for("/v3/kv/range", &body, true).await?;
            for found in &answer.kvs {
                listed.push((decoded(&found.key)?, document(found)?));
            }
            match listed.last() {
                Some((last, _)) if answer.kvs.len() == PAGE => from = format!("{last}\0"),
                _ => return Ok(listed),
            }
        }
    }

    async fn write(&self, groups: Vec<Group>) -> Result<Vec<usize>, Failure> {
        let mut done = Vec::with_capacity(groups.len());
        while done.len() < groups.len() {
            let rest = &groups[done.len()..];
            let some = &rest[..fitting(rest)];
            let written = self.write_some(some).await;
            // What came before has been done.
            done.extend(written.map_err(|failure| match failure.kind {
                ErrorKind::NotSent if !done.is_empty() => Failure { kind: ErrorKind::MaybeApplied, ..failure },
                _ => failure,
            })?);
        }
        Ok(done)
    }

    async fn probe(&self, prefix: &str) -> Result<Probe, Failure> {
        let version = self.version().await?;
        // Either may be forbidden to us.
        let members: Option<Value> = self.ask_for("/v3/cluster/member/list", &json!({}), true).await.ok();
        let alarms: Option<Value> = self.ask_for("/v3/maintenance/alarm", &json!({"action": "GET"}), true).await.ok();
        let members = members.and_then(|found| Some(found["members"].as_array()?.len()));
        let alarms = alarms.map(|found| found["alarms"].to_string()).unwrap_or_default();
        let range = json!({"key": encoded(prefix), "range_end": encoded(&after(prefix)), "count_only": true});
        let read: Result<Value, Failure> = self.ask_for("/v3/kv/range", &range, true).await;
        // Not in a transaction: see `MENDED`.
        let deletion = json!({"key": encoded(&unused(prefix))});
        let written: Result<Value, Failure> = self.ask_for("/v3/kv/deleterange", &deletion, false).await;
        let lacking = lacking(("user", prefix), read, written)?;
        Ok(judge(&version, (members, &alarms), (self.known_token().is_some(), lacking.as_deref())))
    }
}

/// The first versions, of each line, that look at the rights of what is done in transactions inside of transactions
/// (CVE-2026-33343).
const MENDED: [(u32, u32); 3] = [(4, 42), (5, 28), (6, 9)];

/// Whether a version lets whoever has logged in read and write all keys.
fn lets_everybody(version: &str) -> bool {
    let mut parts = version.split(['.', '-', '+']).map(|part| part.parse::<u32>().ok());
    let (Some(Some(3)), Some(Some(minor)), Some(Some(patch))) = (parts.next(), parts.next(), parts.next()) else {
        return false;
    };
    MENDED.iter().any(|(line, first)| minor == *line && patch < *first) || minor < MENDED[0].0
}

fn judge(version: &str, (members, alarms): (Option<usize>, &str), (has_user, lacking): (bool, Option<&str>)) -> Probe {
    let mut findings = Vec::new();
    let mut find = |check, found: String, wanted: &str| findings.push(Finding { check, found, wanted: wanted.into() });
    if let Some(members) = members.filter(|members| *members < MEMBERS_LEAST) {
        let wanted = "3 or 5 members: with fewer, nothing is decided while one of them is away";
        find("members", format!("the number of members is {members}"), wanted);
    }
    if ["3.5.0", "3.5.1", "3.5.2"].contains(&version) {
        let wanted =
            "3.5.3 or later: members of this one can come to hold different data when they are killed under load";
        find("version", format!("version {version}"), wanted);
    }
    if alarms.contains("NOSPACE") {
        let wanted =
            "compact, defragment, clear the alarm, and set --auto-compaction-retention: nothing is written until then";
        find("quota", "the alarm NOSPACE is raised: the database has reached its quota".into(), wanted);
    }
    if alarms.contains("CORRUPT") {
        find(
            "corrupt",
            "the alarm CORRUPT is raised".into(),
            "members that hold the same data: replace the one that does not",
        );
    }
    if let Some(lacking) = lacking {
        find("rights", lacking.into(), ROLE);
    }
    let class = match (lacking, findings.is_empty()) {
        (Some(_), _) => Class::C,
        (None, true) => Class::A,
        (None, false) => Class::B,
    };
    // It loses nothing, but rights are not worth much.
    if has_user && lets_everybody(version) {
        let found =
            format!("version {version} lets every user read and write all keys, by transactions in transactions");
        let wanted =
            "3.4.42, 3.5.28, 3.6.9 or later, or let nobody else log in: other users can change what onecron keeps";
        findings.push(Finding { check: "version", found, wanted: wanted.into() });
    }
    Probe { class, version: format!("etcd {version}"), reach: Reach::Network, findings }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_judged() {
        let class = |version, members, alarms: &str| {
            let probe = judge(version, (members, alarms), (false, None));
            (probe.class, probe.findings.iter().map(|finding| finding.check).collect::<Vec<_>>())
        };
        assert_eq!(class("3.5.9", Some(3), "null"), (Class::A, vec![]));
        assert_eq!(class("3.5.9", None, ""), (Class::A, vec![]));
        assert_eq!(class("3.5.9", Some(2), ""), (Class::B, vec!["members"]));
        assert_eq!(
            class("3.5.1", Some(1), r#"[{"alarm":"NOSPACE"}]"#),
            (Class::B, vec!["members", "version", "quota"])
        );
        let lacking = judge("3.5.9", (Some(3), ""), (false, Some("the user may not write")));
        assert_eq!((lacking.class, lacking.findings[0].check), (Class::C, "rights"));
    }

    #[test]
    fn a_version_that_looks_at_no_rights_is_told_to_whoever_has_a_user() {
        for (version, is_told) in [
            ("3.4.23", true),
            ("3.4.41", true),
            ("3.4.42", false),
            ("3.5.27", true),
            ("3.5.28", false),
            ("3.6.0-rc.1", true),
            ("3.6.9", false),
            ("3.7.0", false),
            ("of a new kind", false),
        ] {
            let checks = |has_user| {
                let probe = judge(version, (Some(3), ""), (has_user, None));
                (probe.class, probe.findings.iter().map(|finding| finding.check).collect::<Vec<_>>())
            };
            let told = if is_told { vec!["version"] } else { vec![] };
            assert_eq!((checks(true), checks(false)), ((Class::A, told), (Class::A, vec![])), "{version}");
        }
    }

    #[test]
    fn a_request_has_no_more_than_etcd_takes() {
        let group = |bytes: usize| {
            let text = Some("x".repeat(bytes));
            vec![Write { key: "k".into(), expect: Expect::Anything, text }]
        };
        assert_eq!(fitting(&vec![group(10); 200]), GROUPS_MOST);
        assert_eq!(fitting(&vec![group(BYTES_MOST / 4); 9]), 3);
        assert_eq!(fitting(&[group(2 * BYTES_MOST)]), 1, "alone, if at all");
    }
}
