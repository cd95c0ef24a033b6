//! `http`: what a request of a job is, and which keys of a job such a request cannot have.

use super::host::Need;
use super::reader::Field;
use super::reader::Fields;
use super::reader::Item;
use super::reader::Reader;
use super::shared::Shared;
use super::text::quoted;
use super::text::short;
use super::units;
use super::variables;
use super::variables::Wanted;
use super::words::Level;
use super::yaml::Entry;
use super::yaml::Value;
use crate::job::EnvValue;
use crate::job::HttpSpec;
use crate::job::ProxySpec;
use crate::job::is_header_name;
use crate::job::is_header_value;
use crate::job::request_url;
use std::ops::RangeInclusive;
use std::time::Duration;

/// What only a process has, and what to do instead.
const OF_A_PROCESS: &[(&str, &str)] = &[
    ("shell", "remove it: no process is started"),
    ("workingDir", "remove it: no process is started"),
    ("env", "remove it: what the server is to be told belongs into `http.headers` or `http.body`"),
    ("inheritEnv", "remove it: no process is started"),
    ("successExitCodes", "the statuses that are a success are in `http`: `expectStatus: [200..299, 404]`"),
    ("terminationGracePeriod", "remove it: a request that has to stop is given up at once"),
    ("output", "remove it: the first KiB of the answer's body is kept with the run's record"),
];

const METHODS: [(&str, &str); 7] = [
    ("GET", "GET"),
    ("HEAD", "HEAD"),
    ("POST", "POST"),
    ("PUT", "PUT"),
    ("PATCH", "PATCH"),
    ("DELETE", "DELETE"),
    ("OPTIONS", "OPTIONS"),
];

/// Header lines that say how the message is sent, which is not the table's to say.
const FRAMING: &[&str] = &[
    "connection",
    "content-length",
    "expect",
    "keep-alive",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

const STATUSES: RangeInclusive<u16> = 200..=599;

/// Reads the request of a job.
pub(super) fn read(reader: &mut Reader<'_>, job: &Fields<'_>, all: &Shared) -> Option<HttpSpec> {
    for (key, hint) in OF_A_PROCESS {
        if let Some(entry) = job.get(key) {
            reader.find(
                "E205",
                entry.key_span,
                format!("`{key}` has no effect on a job that is an `http` request"),
                hint,
            );
        }
    }
    let item = reader.required(job, "http", "")?;
    let fields = reader.fields(&item, Level::Http)?;
    let method = reader.field(&fields, "method", |reader, item| reader.choice(item, &METHODS));
    let headers = reader.field(&fields, "headers", headers);
    let body = reader.field(&fields, "body", |reader, item| variables::value(reader, item, BODY));
    let expect_status = reader.field(&fields, "expectStatus", statuses);
    let timeout = reader.field(&fields, "timeout", |reader, item| reader.duration(item, LEAST..=TOTAL_MOST));
    let connect = reader.field(&fields, "connectTimeout", |reader, item| reader.duration(item, LEAST..=CONNECT_MOST));
    let follow = reader.field(&fields, "followRedirects", Reader::boolean);
    let ca_file = reader.field(&fields, "caFile", Reader::absolute_path);
    if let Field::Written(path, span) = &ca_file {
        reader.need(*span, Need::Authorities(path.clone()));
    }
    let proxy = reader.field(&fields, "proxy", proxy);
    check_timeout(reader, &timeout, all);
    let url = reader.required(&fields, "url", "say where: `http: {url: \"http://host:port/path\"}`")?;
    let url = url_of(reader, &Item { name: "http.url".to_owned(), node: url.node })?;
    let built_in = HttpSpec::to(url);
    let method = method.value().map_or(built_in.method, |method| (*method).to_owned());
    if let (Field::Written(_, span), "GET" | "HEAD") = (&body, method.as_str()) {
        let message = format!("a {method} is sent with a body, which servers and proxies may ignore or refuse");
        reader.find("W514", *span, message, "write `method: POST`, or put it into the URL's query");
    }
    Some(HttpSpec {
        method,
        headers: headers.value_or(Vec::new()),
        body: body.value().cloned(),
        expect_status: expect_status.value_or(built_in.expect_status),
        timeout: timeout.value_or(built_in.timeout),
        // Whoever says how long a request may take has thought of a server that answers when its work is done.
        first_byte_timeout: timeout.value_or(built_in.first_byte_timeout),
        connect_timeout: connect.value_or(built_in.connect_timeout),
        follow_redirects: follow.value_or(built_in.follow_redirects),
        ca_file: ca_file.value().cloned(),
        proxy: proxy.value_or(built_in.proxy),
        url: built_in.url,
    })
}

const LEAST: Duration = Duration::from_millis(100);
const CONNECT_MOST: Duration = Duration::from_secs(10 * 60);
const TOTAL_MOST: Duration = Duration::from_secs(366 * 24 * 3600);

const BODY: Wanted = Wanted {
    what: "a body",
    hint: "write a text (JSON in quotes: '{\"a\": 1}'), `{fromEnv: NAME}` or `{fromFile: /path}`",
};
const URL: Wanted = Wanted {
    what: "a URL",
    hint: "write `http://host:port/path`, `{fromEnv: NAME}` or `{fromFile: /run/secrets/url}`",
};
const HEADER: Wanted =
    Wanted { what: "a header", hint: "write a text, `{fromEnv: NAME}` or `{fromFile: /run/secrets/name}`" };

/// A timeout of a request that the run's own cuts short.
fn check_timeout(reader: &mut Reader<'_>, timeout: &Field<Duration>, all: &Shared) {
    let of_run = all.timeout.value_or(Some(Duration::from_secs(3600)));
    if let (Field::Written(timeout, span), Some(of_run)) = (timeout, of_run)
        && *timeout > of_run
    {
        let (timeout, of_run) = (units::duration_text(*timeout), units::duration_text(of_run));
        let message = format!("`http.timeout` is {timeout}, and the run as a whole is stopped after {of_run}");
        reader.find("W515", *span, message, &format!("raise the job's `timeout` to {timeout} or more"));
    }
}

fn url_of(reader: &mut Reader<'_>, item: &Item<'_>) -> Option<EnvValue> {
    let value = variables::value(reader, item, URL)?;
    if let EnvValue::Text(text) = &value
        && let Err(error) = request_url(text)
    {
        // The text is not repeated: what is wrong with it may be the password in it.
        reader.find_url("E310", item.node.span, format!("`{}` {}", item.name, error.found), error.hint);
        return None;
    }
    Some(value)
}

pub(super) fn proxy(reader: &mut Reader<'_>, item: &Item<'_>) -> Option<ProxySpec> {
    if matches!(&item.node.value, Value::Scalar(scalar) if scalar.text.eq_ignore_ascii_case("none")) {
        return Some(ProxySpec::None);
    }
    let value = variables::value(reader, item, PROXY)?;
    if let EnvValue::Text(text) = &value
        && let Err(error) = request_url(text)
    {
        let hint = if error.found.contains("password") {
            "let the whole URL come from a file: `proxy: {fromFile: /run/secrets/proxy}`"
        } else {
            PROXY.hint
        };
        reader.find_url("E310", item.node.span, format!("`{}` {}", item.name, error.found), hint);
        return None;
    }
    Some(ProxySpec::Url(value))
}

const PROXY: Wanted = Wanted {
    what: "a proxy",
    hint: "write `none`, `http://host:port`, `{fromEnv: NAME}` or `{fromFile: /run/secrets/proxy}`",
};

pub(super) fn headers(reader: &mut Reader<'_>, item: &Item<'_>) -> Option<Vec<(String, EnvValue)>> {
    let Value::Map(entries) = &item.node.value else {
        let found = if matches!(item.node.value, Value::List(_)) { "a list" } else { "a text" };
        let message = format!("`{}` is {found}, and a map of names and values is expected", item.name);
        reader.find("E203", item.node.span, message, "write `headers: {Content-Type: application/json}`");
        return None;
    };
    let mut lines: Vec<(String, EnvValue)> = Vec::with_capacity(entries.len());
    let mut is_good = true;
    for entry in entries.iter() {
        let is_named = check_name(reader, entry, &lines);
        match header_value(reader, item, entry).filter(|_| is_named) {
            Some(value) => lines.push((entry.key.to_string(), value)),
            None => is_good = false,
        }
    }
    is_good.then_some(lines)
}

fn header_value(reader: &mut Reader<'_>, item: &Item<'_>, entry: &Entry) -> Option<EnvValue> {
    let item = Item { name: format!("{}.{}", item.name, short(name_of(&entry.key))), node: &entry.node };
    let value = variables::value(reader, &item, HEADER)?;
    if let EnvValue::Text(text) = &value
        && !is_header_value(text.as_bytes())
    {
        let message = format!("`{}` has a line end or another control character in it", item.name);
        reader.find_hidden(
            "E310",
            item.node.span,
            message,
            "write it as one line; of a block, `>-` leaves no line end",
        );
        return None;
    }
    Some(value)
}

/// What is shown of a header's name: not what stands behind a colon without a blank, which was meant as the value.
fn name_of(key: &str) -> &str {
    key.find(':').map_or(key, |colon| &key[..=colon])
}

fn check_name(reader: &mut Reader<'_>, entry: &Entry, before: &[(String, EnvValue)]) -> bool {
    let (name, span) = (&*entry.key, entry.key_span);
    let lower = name.to_ascii_lowercase();
    if !is_header_name(name) {
        let message = format!("{} is no name for a header", quoted(name_of(name)));
        reader.find("E309", span, message, "names have letters, digits and `-`, and no colon at their end");
        return false;
    }
    if lower.starts_with("onecron-") || lower == "idempotency-key" {
        let message = format!("the header {} is reserved: in such, onecron tells a server about the run", quoted(name));
        reader.find("E309", span, message, "remove it, or choose another name; docs/executing.md lists them");
        return false;
    }
    if FRAMING.contains(&lower.as_str()) {
        let message = format!("the header {} says how a request is sent, and is not for a table", quoted(name));
        let hint = if lower == "proxy-authorization" {
            "let the whole URL of the proxy, with user and password, come from a file: `proxy: {fromFile: /path}`"
        } else {
            "remove it: what is needed is sent"
        };
        reader.find("E309", span, message, hint);
        return false;
    }
    if let Some((other, _)) = before.iter().find(|(other, _)| other.eq_ignore_ascii_case(name)) {
        let message = format!("the header {} is there already, as {}", quoted(name), quoted(other));
        reader.find("E309", span, message, "remove one of the two: case makes no difference");
        return false;
    }
    true
}

fn statuses(reader: &mut Reader<'_>, item: &Item<'_>) -> Option<Vec<RangeInclusive<u16>>> {
    let Value::List(nodes) = &item.node.value else {
        return status(reader, item).map(|range| vec![range]);
    };
    if nodes.is_empty() {
        let message = format!("`{}` is an empty list: no run could succeed", item.name);
        reader.find("E203", item.node.span, message, STATUS_HINT);
        return None;
    }
    let read = |(index, node)| status(reader, &Item { name: format!("{}[{index}]", item.name), node });
    let ranges: Vec<Option<RangeInclusive<u16>>> = nodes.iter().enumerate().map(read).collect();
    ranges.into_iter().collect()
}

const STATUS_HINT: &str = "write a list of statuses and ranges: `expectStatus: [200..299, 404]`";

/// `204`, `200..299` or `200-299`.
fn status(reader: &mut Reader<'_>, item: &Item<'_>) -> Option<RangeInclusive<u16>> {
    let scalar = reader.scalar(item, "a status or a range of them", STATUS_HINT)?;
    let text = scalar.text.trim();
    let (first, last) = text.split_once("..").or_else(|| text.split_once('-')).unwrap_or((text, text));
    let number = |text: &str| {
        let text = text.trim();
        let is_number = text.len() == 3 && text.bytes().all(|byte| byte.is_ascii_digit());
        text.parse::<u16>().ok().filter(|number| is_number && STATUSES.contains(number))
    };
    let range = number(first).zip(number(last)).filter(|(first, last)| first <= last);
    if range.is_none() {
        let message = format!(
            "`{}` is {}, and a status from {} to {}, or a range of them, is expected",
            item.name,
            quoted(&scalar.text),
            STATUSES.start(),
            STATUSES.end()
        );
        reader.find("E310", item.node.span, message, STATUS_HINT);
    }
    range.map(|(first, last)| first..=last)
}
