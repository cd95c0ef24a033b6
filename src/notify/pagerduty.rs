//! PagerDuty's Events API v2. All events about a job have one key, so that what a failure, a missed tick, a lost run or a
//! stale job has opened is one incident, and the first success closes it.

use super::About;
use super::Message;
use super::Sender;
use super::instant;
use super::line_of;
use super::webhook::Item;
use crate::job::Occasion;
use serde_json::Value;
use serde_json::json;

/// PagerDuty's limit on a summary, characters.
const SUMMARY_MOST: usize = 1024;

pub(super) fn text(message: &Message, sender: &Sender, routing_key: &str) -> String {
    let letter = message.first();
    let mut event = json!({
        "routing_key": routing_key,
        "event_action": "trigger",
        "dedup_key": format!("onecron/{}/{}", sender.namespace, letter.job()),
        "client": "onecron",
    });
    let severity = match message.about {
        About::Told(Occasion::Failure | Occasion::Lost | Occasion::Stale) => "error",
        About::Told(Occasion::Missed) => "warning",
        About::Told(Occasion::Recovery | Occasion::Success) | About::Start => {
            event["event_action"] = "resolve".into();
            return event.to_string();
        }
    };
    event["payload"] = json!({
        "summary": line_of(&message.summary(), SUMMARY_MOST),
        "source": sender.replica,
        "severity": severity,
        "timestamp": instant(letter.at),
        "component": letter.job(),
        "group": sender.namespace,
        "class": message.about.as_str(),
        "custom_details": serde_json::to_value(Item::of(letter, message.tail_most())).unwrap_or(Value::Null),
    });
    if !letter.spec.runbook_url.is_empty() {
        event["links"] = json!([{"href": letter.spec.runbook_url, "text": "runbook"}]);
    }
    event.to_string()
}
