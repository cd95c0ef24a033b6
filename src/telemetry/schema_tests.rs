//! Every event of the catalogue in every schema: what the lines are called, and that nothing is lost or left over.

use super::catalogue_tests::raised;
use super::events::RUN_OUTPUT;
use super::line::Fields;
use super::line::Head;
use super::line::LogFormat;
use super::line::Place;
use super::line::Source;
use super::line::level_word;
use super::line::render;
use super::schema::LogSchema;
use crate::clock::Clock;
use crate::clock::SystemClock;
use serde_json::Map;
use serde_json::Value;
use std::collections::BTreeMap;
use std::collections::BTreeSet;
use tracing::Level;

const SCHEMAS: [LogSchema; 3] = [LogSchema::Default, LogSchema::Ecs, LogSchema::Gcp];

/// Objects of ECS 8.11: a text of that name is refused by an index that has the schema's mapping.
const ECS_OBJECTS: &str = "agent as client cloud code_signature container data_stream destination device dll dns ecs elf \
    email error event faas file geo group hash host http interface kubernetes labels log macho network observer \
    orchestrator organization os package pe process registry related risk rule server service source span threat tls \
    trace transaction url user user_agent vlan volume vulnerability x509";

fn source(schema: LogSchema) -> Source {
    let known = |text: &str| Some(text.to_owned());
    let place = Place { pod: known("web-1"), namespace: known("shop"), node: known("n7"), project: None };
    Source { service: "onecron", version: "0.1.0", replica: "web-1-7f3a".to_owned(), schema, place }
}

fn line(source: &Source, (event, level, fields): (&'static str, Level, &Fields)) -> Map<String, Value> {
    let text = render(LogFormat::Json, source, Head { at: SystemClock.now().wall, level, event }, fields);
    assert!(text.len() < 16 << 10 && text.ends_with("}\n") && text.matches('\n').count() == 1, "{text}");
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// The envelope as operations write it down, by schema; `a/b` is `b` in the object `a`.
fn wanted(schema: LogSchema) -> &'static [(&'static str, &'static str)] {
    match schema {
        LogSchema::Default => &[
            ("level", "level"),
            ("event", "event"),
            ("message", "message"),
            ("service", "onecron"),
            ("version", "0.1.0"),
            ("replica", "web-1-7f3a"),
            ("pod", "web-1"),
            ("namespace", "shop"),
            ("node", "n7"),
            ("trace_id", "00000000000000000000000000000abc"),
            ("span_id", "0000000000000def"),
            ("timestamp", "at"),
        ],
        LogSchema::Ecs => &[
            ("log.level", "level"),
            ("event.action", "event"),
            ("message", "message"),
            ("service.name", "onecron"),
            ("service.version", "0.1.0"),
            ("ecs.version", "8.11.0"),
            ("service.node.name", "web-1-7f3a"),
            ("kubernetes.pod.name", "web-1"),
            ("kubernetes.namespace", "shop"),
            ("kubernetes.node.name", "n7"),
            ("trace.id", "00000000000000000000000000000abc"),
            ("span.id", "0000000000000def"),
            ("@timestamp", "at"),
        ],
        LogSchema::Gcp => &[
            ("severity", "level"),
            ("event", "event"),
            ("message", "message"),
            ("serviceContext/service", "onecron"),
            ("serviceContext/version", "0.1.0"),
            ("logging.googleapis.com/labels/replica", "web-1-7f3a"),
            ("pod", "web-1"),
            ("namespace", "shop"),
            ("node", "n7"),
            ("logging.googleapis.com/trace", "00000000000000000000000000000abc"),
            ("logging.googleapis.com/spanId", "0000000000000def"),
            ("time", "at"),
        ],
    }
}

/// A line without objects in it.
fn flat(line: Map<String, Value>) -> BTreeMap<String, Value> {
    let mut flat = BTreeMap::new();
    for (name, value) in line {
        match value {
            Value::Object(inner) => {
                flat.extend(inner.into_iter().map(|(inner, value)| (format!("{name}/{inner}"), value)))
            }
            value => drop(flat.insert(name, value)),
        }
    }
    flat
}

#[test]
fn every_event_has_the_envelope_of_its_schema_its_own_fields_and_nothing_else() {
    for schema in SCHEMAS {
        for (event, level, fields) in raised() {
            let mut line = flat(line(&source(schema), (event, level, &fields)));
            for (name, value) in wanted(schema) {
                let is_of_a_trace = value.trim_start_matches('0').len() < 4 && value.len() >= 16;
                let Some(found) = line.remove(*name) else {
                    assert!(is_of_a_trace && fields.trace_id.is_none(), "{event} has no {name}");
                    continue;
                };
                let found = found.as_str().unwrap();
                match *value {
                    "at" => assert!(found.len() == 24 && found.ends_with('Z'), "{found}"),
                    "event" => assert_eq!(found, event),
                    "message" => assert_eq!(found, fields.message),
                    "level" if schema == LogSchema::Gcp => {
                        assert!(["DEBUG", "INFO", "WARNING", "ERROR"].contains(&found))
                    }
                    "level" => assert_eq!(found, level_word(level)),
                    value => assert_eq!(found, value),
                }
            }
            let own = fields.fields.iter().map(|(name, _)| match (schema, *name) {
                (LogSchema::Ecs, "error") => "error.message",
                (LogSchema::Ecs, "file") => "file.path",
                (_, name) => name,
            });
            let own: BTreeSet<&str> = own.collect();
            assert_eq!(line.keys().map(String::as_str).collect::<BTreeSet<_>>(), own, "{event}: {schema:?}");
        }
    }
}

/// No key is there twice: a parser takes one of the two without a word.
#[test]
fn no_line_has_a_key_twice() {
    for schema in SCHEMAS {
        for (event, level, fields) in raised() {
            let text =
                render(LogFormat::Json, &source(schema), Head { at: SystemClock.now().wall, level, event }, &fields);
            for key in line(&source(schema), (event, level, &fields)).keys() {
                assert_eq!(text.matches(&format!("\"{key}\":")).count(), 1, "{key} in {text}");
            }
        }
    }
}

#[test]
fn events_of_runs_have_the_ids_of_their_span_in_every_schema() {
    for (schema, [trace, span]) in SCHEMAS.into_iter().zip([
        ["trace_id", "span_id"],
        ["trace.id", "span.id"],
        ["logging.googleapis.com/trace", "logging.googleapis.com/spanId"],
    ]) {
        for (event, level, fields) in raised() {
            let line = line(&source(schema), (event, level, &fields));
            let is_of_a_run = fields.fields.iter().any(|(name, _)| *name == "run_id");
            assert_eq!((line.contains_key(trace), line.contains_key(span)), (is_of_a_run, is_of_a_run), "{event}");
        }
    }
}

#[test]
fn in_ecs_no_text_has_the_name_of_an_object() {
    let objects: BTreeSet<&str> = ECS_OBJECTS.split_whitespace().collect();
    for (event, level, fields) in raised() {
        let line = line(&source(LogSchema::Ecs), (event, level, &fields));
        assert!(line.values().all(|value| !value.is_object()), "{event} is not flat");
        let clashes: Vec<&String> = line.keys().filter(|name| objects.contains(name.as_str())).collect();
        assert!(clashes.is_empty(), "{event}: {clashes:?}");
    }
}

#[test]
fn google_has_words_of_its_own_for_levels_and_the_full_name_of_a_trace() {
    let (event, mut source) = (RUN_OUTPUT, source(LogSchema::Gcp));
    let severity = |level| line(&source, (event, level, &Fields::default()))["severity"].clone();
    let levels = [Level::DEBUG, Level::INFO, Level::WARN, Level::ERROR];
    assert_eq!(levels.map(severity), ["DEBUG", "INFO", "WARNING", "ERROR"].map(Value::from));
    source.place.project = Some("my-project".to_owned());
    let fields = Fields { trace_id: Some("abc".to_owned()), ..Fields::default() };
    let trace = &line(&source, (event, Level::INFO, &fields))["logging.googleapis.com/trace"];
    assert_eq!(trace, "projects/my-project/traces/abc");
}

#[test]
fn what_is_not_known_of_the_place_leaves_no_field() {
    for schema in SCHEMAS {
        let fields = Fields::default();
        let known = flat(line(&source(schema), (RUN_OUTPUT, Level::INFO, &fields)));
        let source = Source { place: Place::default(), ..source(schema) };
        let unknown = flat(line(&source, (RUN_OUTPUT, Level::INFO, &fields)));
        let missing: BTreeSet<&str> =
            known.keys().filter(|key| !unknown.contains_key(*key)).map(String::as_str).collect();
        let place = wanted(schema).iter().filter(|(_, value)| ["web-1", "shop", "n7"].contains(value));
        assert_eq!(missing, place.map(|(name, _)| *name).collect());
    }
}
