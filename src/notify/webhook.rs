//! Our own JSON. Its fields are an interface: `docs/notifications.md` lists them, and they change only with a line in the
//! changelog. One form for one thing and for many.

use super::Letter;
use super::Message;
use super::Sender;
use super::end_of;
use super::instant;
use super::seconds;
use super::summary;
use serde::Serialize;
use std::collections::BTreeMap;
use std::time::Duration;

#[derive(Serialize)]
struct Envelope<'a> {
    version: u8,
    id: String,
    event: &'static str,
    summary: String,
    count: usize,
    namespace: &'a str,
    replica: &'a str,
    items: Vec<Item<'a>>,
}

#[derive(Serialize)]
pub(super) struct Item<'a> {
    job: &'a str,
    at: String,
    summary: String,
    #[serde(skip_serializing_if = "str::is_empty")]
    description: &'a str,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    labels: &'a BTreeMap<String, String>,
    #[serde(skip_serializing_if = "str::is_empty")]
    runbook_url: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    run_id: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    scheduled_for: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    trigger: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    attempts: Option<u32>,
    #[serde(skip_serializing_if = "str::is_empty")]
    outcome: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    reason: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    exit_code: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    signal: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    http_status: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    duration_seconds: Option<f64>,
    #[serde(skip_serializing_if = "str::is_empty")]
    error: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    output_tail: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    replica: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    rerun: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ticks: Option<u64>,
    #[serde(skip_serializing_if = "str::is_empty")]
    through: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    failures: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    missed: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    failing_for_seconds: Option<f64>,
    #[serde(skip_serializing_if = "str::is_empty")]
    last_success: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    stale_after_seconds: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    recovered: Option<bool>,
}

impl<'a> Item<'a> {
    pub(super) fn of(letter: &'a Letter, tail_most: usize) -> Self {
        let Letter { at, spec, facts, .. } = letter;
        let some = |count: u64| Some(count).filter(|count| *count > 0);
        let length = |length: Option<Duration>| length.map(seconds);
        Self {
            job: spec.name.as_str(),
            at: instant(*at),
            summary: summary::one(letter),
            description: &spec.description,
            labels: &spec.labels,
            runbook_url: &spec.runbook_url,
            run_id: &facts.run_id,
            scheduled_for: &facts.scheduled_for,
            trigger: facts.trigger,
            attempts: facts.attempts,
            outcome: facts.outcome,
            reason: facts.reason,
            exit_code: facts.exit_code,
            signal: facts.signal,
            http_status: facts.http_status,
            duration_seconds: length(facts.duration),
            error: &facts.error,
            output_tail: end_of(&facts.output_tail, tail_most),
            replica: &facts.replica,
            rerun: Some(true).filter(|_| facts.rerun),
            ticks: some(facts.ticks),
            through: &facts.through,
            failures: some(facts.failures),
            missed: some(facts.missed),
            failing_for_seconds: length(facts.failing_for),
            last_success: &facts.last_success,
            stale_after_seconds: length(facts.stale_after),
            recovered: Some(true).filter(|_| facts.recovered),
        }
    }
}

pub(super) fn text(message: &Message, sender: &Sender) -> String {
    let envelope = Envelope {
        version: 1,
        id: message.id(sender),
        event: message.about.as_str(),
        summary: message.summary(),
        count: message.count,
        namespace: &sender.namespace,
        replica: &sender.replica,
        items: message.letters.iter().map(|letter| Item::of(letter, message.tail_most())).collect(),
    };
    serde_json::to_string(&envelope).expect("texts and numbers are always JSON")
}
