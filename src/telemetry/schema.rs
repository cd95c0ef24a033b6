//! What the fields of a line are called: three logging systems have three words for the same thing. Pure.
//!
//! Only JSON has a schema: the text for people has no names for these.

use std::borrow::Cow;

/// Whose words the lines use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LogSchema {
    /// Our own.
    #[default]
    Default,
    /// The Elastic Common Schema: names with dots, all of them in one flat object, as its loggers write them.
    Ecs,
    /// The special fields of Google Cloud's structured logging.
    Gcp,
}

/// The version of the Elastic Common Schema that the names are from.
const ECS_VERSION: &str = "8.11.0";

/// What a line says besides the fields of its event.
#[derive(Debug, Clone, Copy)]
pub(super) struct Envelope<'a> {
    pub(super) at: &'a str,
    /// debug, info, warn, error.
    pub(super) level: &'static str,
    pub(super) event: &'a str,
    pub(super) message: &'a str,
    pub(super) service: &'a str,
    pub(super) version: &'a str,
    pub(super) replica: &'a str,
    pub(super) pod: Option<&'a str>,
    pub(super) namespace: Option<&'a str>,
    pub(super) node: Option<&'a str>,
    pub(super) trace_id: Option<&'a str>,
    pub(super) span_id: Option<&'a str>,
    /// The project of Google Cloud whose traces these are.
    pub(super) project: Option<&'a str>,
}

/// One of them, where it is known. Those of one object follow one another.
pub(super) struct Entry<'a> {
    /// The object that it stands in; none: the line's own.
    pub(super) object: Option<&'static str>,
    pub(super) name: &'static str,
    pub(super) value: Cow<'a, str>,
}

fn entry<'a>(name: &'static str, value: &'a str) -> Option<Entry<'a>> {
    known(name, Some(value))
}

fn known<'a>(name: &'static str, value: Option<&'a str>) -> Option<Entry<'a>> {
    value.map(|value| Entry { object: None, name, value: value.into() })
}

fn within<'a>(object: &'static str, name: &'static str, value: &'a str) -> Option<Entry<'a>> {
    Some(Entry { object: Some(object), name, value: value.into() })
}

impl LogSchema {
    /// The envelope under this schema's names, in the order in which it stands in a line.
    pub(super) fn entries<'a>(self, of: &Envelope<'a>) -> impl Iterator<Item = Entry<'a>> {
        let entries = match self {
            Self::Default => [
                entry("timestamp", of.at),
                entry("level", of.level),
                entry("event", of.event),
                entry("message", of.message),
                entry("service", of.service),
                entry("version", of.version),
                entry("replica", of.replica),
                known("pod", of.pod),
                known("namespace", of.namespace),
                known("node", of.node),
                known("trace_id", of.trace_id),
                known("span_id", of.span_id),
                None,
            ],
            Self::Ecs => [
                entry("@timestamp", of.at),
                entry("log.level", of.level),
                entry("message", of.message),
                entry("ecs.version", ECS_VERSION),
                entry("event.action", of.event),
                entry("service.name", of.service),
                entry("service.version", of.version),
                entry("service.node.name", of.replica),
                known("kubernetes.pod.name", of.pod),
                known("kubernetes.namespace", of.namespace),
                known("kubernetes.node.name", of.node),
                known("trace.id", of.trace_id),
                known("span.id", of.span_id),
            ],
            Self::Gcp => [
                entry("time", of.at),
                entry("severity", severity(of.level)),
                entry("message", of.message),
                entry("event", of.event),
                within("serviceContext", "service", of.service),
                within("serviceContext", "version", of.version),
                within("logging.googleapis.com/labels", "replica", of.replica),
                known("pod", of.pod),
                known("namespace", of.namespace),
                known("node", of.node),
                trace_of_project(of),
                known("logging.googleapis.com/spanId", of.span_id),
                None,
            ],
        };
        entries.into_iter().flatten()
    }

    /// The name of an event's own field. In ECS some of ours are the names of objects, and an index refuses a line that
    /// has a text there.
    pub(super) fn field(self, name: &'static str) -> &'static str {
        match (self, name) {
            (Self::Ecs, "error") => "error.message",
            (Self::Ecs, "file") => "file.path",
            _ => name,
        }
    }
}

/// Google's words for levels.
fn severity(level: &str) -> &'static str {
    match level {
        "error" => "ERROR",
        "warn" => "WARNING",
        "info" => "INFO",
        _ => "DEBUG",
    }
}

/// Google links a line with its trace by the trace's full name; without the project, the bare id is all there is.
fn trace_of_project<'a>(of: &Envelope<'a>) -> Option<Entry<'a>> {
    let trace_id = of.trace_id?;
    let value = match of.project {
        Some(project) => format!("projects/{project}/traces/{trace_id}").into(),
        None => trace_id.into(),
    };
    Some(Entry { object: None, name: "logging.googleapis.com/trace", value })
}
