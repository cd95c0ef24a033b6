//! From the fields of an event to one line of text. Pure.
//!
//! Invariant: whatever a field holds (output of jobs comes from strangers), the result is one line without a control
//! character in it, at most [`LINE_BYTES_MAX`] long with its newline, and as JSON it parses.

use super::schema::Entry;
use super::schema::Envelope;
use super::schema::LogSchema;
use chrono::DateTime;
use chrono::SecondsFormat;
use chrono::Utc;
use std::fmt;
use std::fmt::Write;
use tracing::Level;
use tracing::field::Field;
use tracing::field::Visit;

/// The longest line, newline included. Container runtimes split lines at 16 KiB, and some collectors lose the parts.
pub(super) const LINE_BYTES_MAX: usize = 12 * 1024;

/// Ends a text that was cut.
const CUT: char = '…';

/// For programs or for people.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    /// One JSON object a line.
    Json,
    /// `12:00:00.041 INFO run_started nightly-backup attempt=1`.
    Text,
}

/// What all lines of a process have in common.
#[derive(Debug, Clone)]
pub(super) struct Source {
    pub(super) service: &'static str,
    pub(super) version: &'static str,
    pub(super) replica: String,
    pub(super) schema: LogSchema,
    pub(super) place: Place,
}

/// Where a process runs, as far as its surroundings say so. In every line.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Place {
    /// The pod, in Kubernetes.
    pub pod: Option<String>,
    /// And its namespace.
    pub namespace: Option<String>,
    /// And its node.
    pub node: Option<String>,
    /// The project, in Google Cloud.
    pub project: Option<String>,
}

/// What an event says of itself.
#[derive(Debug, Clone, Copy)]
pub(super) struct Head {
    pub(super) at: DateTime<Utc>,
    pub(super) level: Level,
    pub(super) event: &'static str,
}

/// A field's value: text is escaped when it is written, a literal (number, true, false) is not.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Value {
    Text(String),
    Literal(String),
}

/// Collects an event's fields in their order. An `Option` that is `None` never comes here, so it leaves no field.
#[derive(Debug, Clone, Default)]
pub(super) struct Fields {
    pub(super) message: String,
    /// Of the run's span, where it has one.
    pub(super) trace_id: Option<String>,
    pub(super) span_id: Option<String>,
    pub(super) fields: Vec<(&'static str, Value)>,
}

impl Fields {
    /// The only text among them, as a line of its own.
    pub(super) fn into_raw(self) -> String {
        let text = |(_, value)| match value {
            Value::Text(text) | Value::Literal(text) => text + "\n",
        };
        self.fields.into_iter().next().map(text).unwrap_or_default()
    }

    fn text(&mut self, field: &Field, text: String) {
        match field.name() {
            "message" => self.message = text,
            "trace_id" => self.trace_id = Some(text),
            "span_id" => self.span_id = Some(text),
            name => self.fields.push((name, Value::Text(text))),
        }
    }

    fn literal(&mut self, field: &Field, literal: String) {
        self.fields.push((field.name(), Value::Literal(literal)));
    }
}

impl Visit for Fields {
    fn record_f64(&mut self, field: &Field, value: f64) {
        // JSON has no NaN and no infinity.
        if value.is_finite() {
            self.literal(field, value.to_string());
        } else {
            self.text(field, value.to_string());
        }
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.literal(field, value.to_string());
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.literal(field, value.to_string());
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.literal(field, value.to_string());
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.text(field, value.to_owned());
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.text(field, format!("{value:?}"));
    }
}

/// The line, with its newline.
pub(super) fn render(format: LogFormat, source: &Source, head: Head, fields: &Fields) -> String {
    let mut limits = vec![usize::MAX; fields.fields.len()];
    loop {
        let line = match format {
            LogFormat::Json => json(source, head, fields, &limits),
            LogFormat::Text => text(head, fields, &limits),
        };
        let excess = line.len().saturating_sub(LINE_BYTES_MAX);
        if excess == 0 || !cut_longest(&fields.fields, &mut limits, excess) {
            return line;
        }
    }
}

/// Takes `excess` bytes, or what there is, from the longest text. Whether there was a text to take from. Without one
/// only literals and the envelope are left, and those are short: fields are named in the catalogue, replicas are cut
/// to 233 characters.
fn cut_longest(fields: &[(&'static str, Value)], limits: &mut [usize], excess: usize) -> bool {
    let length = |(at, (_, value)): (usize, &(&str, Value))| match value {
        Value::Text(text) => escaped_len(text).min(limits[at]),
        Value::Literal(_) => 0,
    };
    let Some((longest, at)) = fields.iter().enumerate().map(|pair| (length(pair), pair.0)).max() else { return false };
    if longest == 0 {
        return false;
    }
    limits[at] = longest.saturating_sub(excess + CUT.len_utf8());
    true
}

fn json(source: &Source, head: Head, fields: &Fields, limits: &[usize]) -> String {
    let at = head.at.to_rfc3339_opts(SecondsFormat::Millis, true);
    let Place { pod, namespace, node, project } = &source.place;
    let envelope = Envelope {
        at: &at,
        level: level_word(head.level),
        event: head.event,
        message: &fields.message,
        service: source.service,
        version: source.version,
        replica: &source.replica,
        pod: pod.as_deref(),
        namespace: namespace.as_deref(),
        node: node.as_deref(),
        trace_id: fields.trace_id.as_deref(),
        span_id: fields.span_id.as_deref(),
        project: project.as_deref(),
    };
    let mut out = String::with_capacity(512);
    let mut open = None;
    for Entry { object, name, value } in source.schema.entries(&envelope) {
        if open != object && open.take().is_some() {
            out.push('}');
        }
        if open != object
            && let Some(object) = object
        {
            key(&mut out, object);
            out.push('{');
            open = Some(object);
        }
        key(&mut out, name);
        quote(&mut out, &value, usize::MAX);
    }
    if open.is_some() {
        out.push('}');
    }
    for ((name, value), limit) in fields.fields.iter().zip(limits) {
        key(&mut out, source.schema.field(name));
        match value {
            Value::Literal(literal) => out.push_str(literal),
            Value::Text(text) => quote(&mut out, text, *limit),
        }
    }
    out.push_str("}\n");
    out
}

/// What stands in front of a value: the names need no escapes.
fn key(out: &mut String, name: &str) {
    match out.as_bytes().last() {
        None => out.push('{'),
        Some(b'{') => {}
        Some(_) => out.push(','),
    }
    out.push('"');
    out.push_str(name);
    out.push_str("\":");
}

fn quote(out: &mut String, text: &str, limit: usize) {
    out.push('"');
    escape(out, text, limit);
    out.push('"');
}

/// For people: the job stands bare, its run id is left out (job and `scheduled_for` say it), and so is a message that
/// only repeats the event's name.
fn text(head: Head, fields: &Fields, limits: &[usize]) -> String {
    let mut out = String::with_capacity(256);
    let level = level_word(head.level).to_ascii_uppercase();
    let _ = write!(out, "{} {level} {}", head.at.format("%H:%M:%S%.3f"), head.event);
    for ((name, value), limit) in fields.fields.iter().zip(limits) {
        if *name == "run_id" {
            continue;
        }
        out.push(' ');
        if *name != "job" {
            out.push_str(name);
            out.push('=');
        }
        match value {
            Value::Literal(literal) => out.push_str(literal),
            Value::Text(text) if is_plain(text) => escape(&mut out, text, *limit),
            Value::Text(text) => quote(&mut out, text, *limit),
        }
    }
    if fields.message.replace(' ', "_") != head.event {
        out.push_str(" - ");
        escape(&mut out, &fields.message, usize::MAX);
    }
    out.push('\n');
    out
}

/// Whether a value can stand without quotes and still be told from what follows.
fn is_plain(text: &str) -> bool {
    !text.is_empty() && !text.chars().any(|c| c.is_whitespace() || c == '"' || c == '=' || is_escaped(c))
}

/// The level's word in JSON.
pub(super) const fn level_word(level: Level) -> &'static str {
    match level {
        Level::ERROR => "error",
        Level::WARN => "warn",
        Level::INFO => "info",
        Level::DEBUG | Level::TRACE => "debug",
    }
}

/// Control characters (a terminal obeys those above 0x7f too), the two Unicode line ends, the marks that turn the
/// direction of writing, and what JSON escapes.
const fn is_escaped(c: char) -> bool {
    matches!(c, '"' | '\\' | '\0'..='\x1f' | '\x7f'..='\u{9f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

fn escaped_char_len(c: char) -> usize {
    match c {
        '"' | '\\' | '\n' | '\r' | '\t' => 2,
        c if is_escaped(c) => 6,
        c => c.len_utf8(),
    }
}

fn escaped_len(text: &str) -> usize {
    text.chars().map(escaped_char_len).sum()
}

/// Appends the text with JSON's escapes, at most `limit` bytes of it and then [`CUT`].
fn escape(out: &mut String, text: &str, limit: usize) {
    let mut left = limit;
    for c in text.chars() {
        let Some(after) = left.checked_sub(escaped_char_len(c)) else {
            out.push(CUT);
            return;
        };
        left = after;
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if is_escaped(c) => {
                let _ = write!(out, "\\u{:04x}", u32::from(c));
            }
            c => out.push(c),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use chrono::TimeZone;
    use proptest::prelude::*;

    fn source() -> Source {
        let (schema, place) = (LogSchema::Default, Place::default());
        Source { service: "onecron", version: "0.1.0", replica: "web-1-7f3a".to_owned(), schema, place }
    }

    fn head(event: &'static str) -> Head {
        let at = Utc.with_ymd_and_hms(2026, 3, 1, 12, 0, 0).unwrap() + chrono::TimeDelta::milliseconds(41);
        Head { at, level: Level::INFO, event }
    }

    fn text_field(name: &'static str, text: &str) -> (&'static str, Value) {
        (name, Value::Text(text.to_owned()))
    }

    fn run_started() -> Fields {
        Fields {
            message: "run started".to_owned(),
            fields: vec![
                text_field("job", "nightly-backup"),
                text_field("run_id", "nightly-backup@2026-03-01T12:00:00Z"),
                ("attempt", Value::Literal("1".to_owned())),
                text_field("error", "exit 1: \"no\""),
            ],
            ..Fields::default()
        }
    }

    #[test]
    fn a_json_line_has_the_envelope_first_and_then_the_fields_with_their_types() {
        assert_eq!(
            render(LogFormat::Json, &source(), head("run_started"), &run_started()),
            "{\"timestamp\":\"2026-03-01T12:00:00.041Z\",\"level\":\"info\",\"event\":\"run_started\",\
             \"message\":\"run started\",\"service\":\"onecron\",\"version\":\"0.1.0\",\"replica\":\"web-1-7f3a\",\
             \"job\":\"nightly-backup\",\"run_id\":\"nightly-backup@2026-03-01T12:00:00Z\",\"attempt\":1,\
             \"error\":\"exit 1: \\\"no\\\"\"}\n"
        );
    }

    #[test]
    fn a_text_line_is_short_and_quotes_what_would_be_ambiguous() {
        assert_eq!(
            render(LogFormat::Text, &source(), head("run_started"), &run_started()),
            "12:00:00.041 INFO run_started nightly-backup attempt=1 error=\"exit 1: \\\"no\\\"\"\n"
        );
        let fields = Fields { message: "another replica runs this".to_owned(), ..Fields::default() };
        assert_eq!(
            render(LogFormat::Text, &source(), head("run_skipped"), &fields),
            "12:00:00.041 INFO run_skipped - another replica runs this\n"
        );
    }

    #[test]
    fn output_cannot_forge_a_line_or_command_a_terminal() {
        let nasty = "a\nb\r\u{1b}[2J\u{9b}31m\u{7}\u{2028}\u{202e}\0";
        let fields = Fields { fields: vec![text_field("line", nasty)], ..Fields::default() };
        for format in [LogFormat::Json, LogFormat::Text] {
            let line = render(format, &source(), head("run_output"), &fields);
            assert!(line.contains(r"a\nb\r\u001b[2J\u009b31m\u0007\u2028\u202e\u0000"), "{line}");
            assert_eq!(line.matches(is_escaped).filter(|c| !"\"\\".contains(*c)).collect::<String>(), "\n");
        }
    }

    #[test]
    fn the_longest_text_is_cut_and_the_others_stay() {
        let fields = Fields {
            fields: vec![
                text_field("job", "nightly-backup"),
                text_field("line", &"x".repeat(LINE_BYTES_MAX)),
                text_field("stream", "stdout"),
            ],
            ..Fields::default()
        };
        let line = render(LogFormat::Json, &source(), head("run_output"), &fields);
        assert_eq!(line.len(), LINE_BYTES_MAX);
        assert!(line.contains("\"job\":\"nightly-backup\""));
        assert!(line.ends_with("xx…\",\"stream\":\"stdout\"}\n"), "{line}");
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]
        #[test]
        fn any_text_becomes_one_short_line_and_is_read_back_as_it_was_or_cut(
            one in "\\PC{0,64}", two in any::<Vec<char>>(), times in 0_usize..900,
        ) {
            let two: String = two.into_iter().collect::<String>().repeat(times);
            let fields = Fields { fields: vec![text_field("one", &one), text_field("two", &two)], ..Fields::default() };
            for schema in [LogSchema::Default, LogSchema::Ecs, LogSchema::Gcp] {
                let line = render(LogFormat::Json, &Source { schema, ..source() }, head("run_output"), &fields);
                prop_assert!(line.len() <= LINE_BYTES_MAX);
                prop_assert_eq!(line.matches('\n').count(), 1);
                let read: serde_json::Value = serde_json::from_str(&line).unwrap();
                prop_assert_eq!(read["one"].as_str().unwrap(), &one);
                let read = read["two"].as_str().unwrap();
                prop_assert!(read == two || two.starts_with(read.strip_suffix(CUT).unwrap()));
            }
            let line = render(LogFormat::Text, &source(), head("run_output"), &fields);
            prop_assert!(line.len() <= LINE_BYTES_MAX && line.matches('\n').count() == 1);
        }
    }
}
