//! `notifiers`, and what a job says to them: `notify`, `labels`, `runbookUrl`.

use super::host::Need;
use super::http;
use super::reader::Field;
use super::reader::Fields;
use super::reader::Item;
use super::reader::Reader;
use super::reader::kind;
use super::shared::OCCASIONS;
use super::text::is_odd_blank;
use super::text::quoted;
use super::text::short;
use super::variables;
use super::variables::Wanted;
use super::words;
use super::words::Level;
use super::yaml::Entry;
use super::yaml::Value;
use crate::job::EnvValue;
use crate::job::HttpSpec;
use crate::job::JobName;
use crate::job::NameError;
use crate::job::NotifierKind;
use crate::job::NotifierSpec;
use crate::job::Occasion;
use crate::job::request_url;
use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::time::Duration;
use url::Host;

/// Each has a queue and a task of its own.
const NOTIFIERS_MOST: usize = 100;
/// How many labels a job may have, and how long one may be: they are in every message.
const LABELS_MOST: usize = 30;
const LABEL_MOST: usize = 200;
/// A longer address is none that people follow.
const RUNBOOK_MOST: usize = 2000;
/// How long one try takes without a word about it.
const TIMEOUT: Duration = Duration::from_secs(5);
const TIMEOUTS: std::ops::RangeInclusive<Duration> = Duration::from_millis(100)..=Duration::from_secs(60);
/// Where PagerDuty takes events.
const PAGERDUTY: &str = "https://events.pagerduty.com/v2/enqueue";

const URL: Wanted =
    Wanted { what: "a URL", hint: "write `{fromFile: /run/secrets/url}`, `{fromEnv: NAME}` or `https://host/path`" };
const ROUTING_KEY: Wanted =
    Wanted { what: "a routing key", hint: "write `{fromFile: /run/secrets/routing-key}` or `{fromEnv: NAME}`" };

/// What the types are called here.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Type {
    Webhook,
    Slack,
    PagerDuty,
    Ping,
}

const TYPES: [(&str, Type); 4] =
    [("webhook", Type::Webhook), ("slack", Type::Slack), ("pagerduty", Type::PagerDuty), ("ping", Type::Ping)];

/// The items of `notifiers`, each with its entry; without a spec where something was reported.
pub(super) fn notifiers<'n>(reader: &mut Reader<'_>, top: &Fields<'n>) -> Vec<(&'n Entry, Option<NotifierSpec>)> {
    reader.path = "notifiers".to_owned();
    let read = reader.field(top, "notifiers", |reader, item| {
        let Value::Map(entries) = &item.node.value else {
            let message = "`notifiers` is not a map of names and what they are".to_owned();
            let hint = "write `notifiers:`, and below it `ops-chat: {type: slack, url: {fromFile: /run/secrets/url}}`";
            reader.find("E203", item.node.span, message, hint);
            return None;
        };
        if entries.len() > NOTIFIERS_MOST {
            let message = format!("there are {} notifiers, at most {NOTIFIERS_MOST} are allowed", entries.len());
            reader.find("E305", item.node.span, message, "jobs can share a notifier");
            return None;
        }
        Some(entries.iter().map(|entry| (entry, notifier(reader, entry))).collect())
    });
    reader.path.clear();
    read.value_or(Vec::new())
}

fn notifier(reader: &mut Reader<'_>, entry: &Entry) -> Option<NotifierSpec> {
    reader.path = format!("notifiers.{}", short(&entry.key));
    let errors = reader.findings.errors();
    if let Err(error) = JobName::new(&entry.key) {
        let hint = match error {
            NameError::Character { .. } => "write a-z, 0-9 and -",
            _ => "write a short name: `ops-chat`",
        };
        reader.find("E301", entry.key_span, format!("the notifier's name {}: {error}", quoted(&entry.key)), hint);
    }
    let item = Item { name: entry.key.to_string(), node: &entry.node };
    check_form(reader, entry)?;
    let fields = reader.fields(&item, Level::Notifier)?;
    let hint = "say what it understands: `type: webhook`, `slack`, `pagerduty` or `ping`";
    let is = reader.required(&fields, "type", hint).and_then(|item| reader.choice(&item, &TYPES))?;
    let url = reader.field(&fields, "url", address);
    let headers = reader.field(&fields, "headers", http::headers);
    let timeout = reader.field(&fields, "timeout", |reader, item| reader.duration(item, TIMEOUTS)).value_or(TIMEOUT);
    let ca_file = reader.field(&fields, "caFile", Reader::absolute_path);
    if let Field::Written(path, span) = &ca_file {
        reader.need(*span, Need::Authorities(path.clone()));
    }
    let proxy = reader.field(&fields, "proxy", http::proxy);
    let kind = kind_of(reader, &fields, is);
    if is != Type::PagerDuty {
        reader.required(&fields, "url", URL.hint);
    }
    let built_in = HttpSpec::to(url.value_or(EnvValue::Text(PAGERDUTY.to_owned())));
    let http = HttpSpec {
        headers: headers.value_or(Vec::new()),
        timeout,
        first_byte_timeout: timeout,
        connect_timeout: timeout,
        ca_file: ca_file.value().cloned(),
        proxy: proxy.value_or(built_in.proxy.clone()),
        ..built_in
    };
    let spec = NotifierSpec { name: entry.key.to_string(), kind: kind?, http };
    (reader.findings.errors() == errors).then_some(spec)
}

/// Refuses what may be a secret at the wrong place, without showing it: a URL instead of the map, or
/// `url:https://host/path`, which is a key as a whole.
fn check_form(reader: &mut Reader<'_>, entry: &Entry) -> Option<()> {
    let Value::Map(entries) = &entry.node.value else {
        let message = "a notifier is a map, and here is none".to_owned();
        reader.find("E203", entry.node.span, message, "write `{type: slack, url: {fromFile: /run/secrets/url}}`");
        return None;
    };
    let is_key = |key: &str| key.chars().all(|c| c.is_alphanumeric() || "-_. ".contains(c) || is_odd_blank(c));
    let Some(odd) = entries.iter().find(|entry| !is_key(&entry.key)) else { return Some(()) };
    let message = "this is no key of a notifier".to_owned();
    reader.find("E202", odd.key_span, message, "a key has a blank behind its colon: `url: https://host/path`");
    None
}

/// What only notifiers of one type have.
fn kind_of(reader: &mut Reader<'_>, fields: &Fields<'_>, is: Type) -> Option<NotifierKind> {
    for (key, of) in [("routingKey", Type::PagerDuty), ("start", Type::Ping)] {
        if let Some(entry) = fields.get(key).filter(|_| is != of) {
            let of = TYPES.iter().find(|(_, other)| *other == of).map_or("", |(word, _)| word);
            let message = format!("`{key}` has no effect on this type of notifier");
            reader.find("E205", entry.key_span, message, &format!("remove it, or write `type: {of}`"));
        }
    }
    match is {
        Type::Webhook => Some(NotifierKind::Webhook),
        Type::Slack => Some(NotifierKind::Slack),
        Type::Ping => {
            let start = reader.field(fields, "start", Reader::boolean).value_or(false);
            Some(NotifierKind::Ping { start })
        }
        Type::PagerDuty => {
            let item = reader.required(fields, "routingKey", ROUTING_KEY.hint)?;
            let routing_key = variables::value(reader, &item, ROUTING_KEY)?;
            Some(NotifierKind::PagerDuty { routing_key })
        }
    }
}

/// Where a notifier is. Its address may be a secret as a whole, and is shown in no report.
fn address(reader: &mut Reader<'_>, item: &Item<'_>) -> Option<EnvValue> {
    let value = variables::value(reader, item, URL)?;
    let EnvValue::Text(text) = &value else { return Some(value) };
    let url = match request_url(text) {
        Ok(url) => url,
        Err(error) => {
            reader.find_hidden("E310", item.node.span, format!("`{}` {}", item.name, error.found), error.hint);
            return None;
        }
    };
    let stays_here = match url.host() {
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        Some(Host::Domain(name)) => name == "localhost",
        None => false,
    };
    if url.scheme() == "http" && !stays_here {
        let message = format!("`{}` is no https: whoever is on the way reads the messages, and the address", item.name);
        reader.find_hidden("W507", item.node.span, message, "write `https://…`");
    }
    Some(value)
}

/// `notify`, in the order of [`Occasion::ALL`].
pub(super) fn read(reader: &mut Reader<'_>, fields: &Fields<'_>) -> [Field<Vec<String>>; OCCASIONS] {
    match reader.field(fields, "notify", |reader, item| reader.fields(item, Level::Notify)) {
        Field::Absent => [const { Field::Absent }; OCCASIONS],
        Field::Reset => [const { Field::Reset }; OCCASIONS],
        Field::Written(notify, _) => std::array::from_fn(|at| reader.field(&notify, Occasion::ALL[at].key(), names)),
    }
}

/// The names of notifiers; an empty list is nobody.
fn names(reader: &mut Reader<'_>, item: &Item<'_>) -> Option<Vec<String>> {
    const HINT: &str = "write a list of names from `notifiers`: `[ops-chat]`, or `[]` for nobody";
    let Value::List(nodes) = &item.node.value else {
        let message = format!("`{}` is {}, and a list of notifiers is expected", item.name, kind(item.node));
        reader.find("E203", item.node.span, message, HINT);
        return None;
    };
    let mut names: Vec<String> = Vec::with_capacity(nodes.len());
    let mut named = BTreeSet::new();
    let mut is_good = true;
    for (index, node) in nodes.iter().enumerate() {
        let item = Item { name: format!("{}[{index}]", item.name), node };
        let Some(name) = reader.scalar(&item, "the name of a notifier", HINT).map(|scalar| scalar.text.to_string())
        else {
            is_good = false;
            continue;
        };
        if !named.insert(name.clone()) {
            let message = format!("`{}` names {} again", item.name, quoted(&name));
            reader.find("E203", node.span, message, "remove one of the two");
            is_good = false;
        }
        is_good &= is_known(reader, &item, &name);
        names.push(name);
    }
    is_good.then_some(names)
}

fn is_known(reader: &mut Reader<'_>, item: &Item<'_>, name: &str) -> bool {
    if reader.notifiers.contains(name) {
        return true;
    }
    let known = reader.notifiers.clone();
    let near = if reader.findings.is_full() { None } else { words::nearest(name, known.iter().map(String::as_str)) };
    let hint = match near {
        Some(near) => format!("did you mean `{near}`?"),
        None if known.is_empty() => {
            "the table has no `notifiers`: `notifiers: {ops-chat: {type: slack, url: {fromFile: /run/secrets/url}}}`"
                .to_owned()
        }
        None => {
            let some: Vec<&str> = known.iter().take(5).map(String::as_str).collect();
            let more = if known.len() > some.len() { ", …" } else { "" };
            format!("the table has {}{more}", some.join(", "))
        }
    };
    reader.find("E307", item.node.span, format!("there is no notifier {}", quoted(name)), &hint);
    false
}

/// Words for people and for programs that ask for the job.
pub(super) fn labels(reader: &mut Reader<'_>, item: &Item<'_>) -> Option<BTreeMap<String, String>> {
    let Value::Map(entries) = &item.node.value else {
        let message = format!("`labels` is {}, and a map of names and texts is expected", kind(item.node));
        reader.find("E203", item.node.span, message, "write `labels: {team: billing}`");
        return None;
    };
    if entries.len() > LABELS_MOST {
        let message = format!("there are {} labels, at most {LABELS_MOST} are allowed", entries.len());
        reader.find("E305", item.node.span, message, "leave some out: each is in every message about the job");
        return None;
    }
    let labels = entries.iter().map(|entry| label(reader, entry)).collect::<Vec<_>>();
    labels.into_iter().collect()
}

fn label(reader: &mut Reader<'_>, entry: &Entry) -> Option<(String, String)> {
    let name = &*entry.key;
    let is_good = (1..=63).contains(&name.len())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || "-_./".contains(c))
        && name.starts_with(|c: char| c.is_ascii_alphanumeric());
    if !is_good {
        let message = format!("{} is no name for a label", quoted(name));
        let hint = "names have up to 63 letters, digits, `-`, `_`, `.` and `/`, and begin with a letter or digit";
        reader.find("E309", entry.key_span, message, hint);
        return None;
    }
    let item = Item { name: format!("labels.{name}"), node: &entry.node };
    let text = variables::variable_text(reader, &item, entry.key_span)?;
    let found = text.chars().count();
    if found > LABEL_MOST {
        let message = format!("`{}` has {found} characters, at most {LABEL_MOST} are allowed", item.name);
        reader.find("E305", item.node.span, message, "say it shorter; `description` takes 500");
        return None;
    }
    Some((name.to_owned(), text))
}

/// Where people read what to do.
pub(super) fn runbook_url(reader: &mut Reader<'_>, item: &Item<'_>) -> Option<String> {
    let text = reader.text(item)?;
    let error = match request_url(&text) {
        Ok(_) if text.len() <= RUNBOOK_MOST => return Some(text),
        Ok(_) => ("is too long for an address that people follow", "write a shorter one"),
        Err(error) => (error.found, "write `https://wiki.example/runbooks/nightly-report`"),
    };
    reader.find_url("E310", item.node.span, format!("`{}` {}", item.name, error.0), error.1);
    None
}
