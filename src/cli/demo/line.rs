//! A replica's JSON line, as a person reads it.

use serde_json::Map;
use serde_json::Value;

/// What every line has, or what says nothing new in a demo.
const LEFT_OUT: [&str; 14] = [
    "timestamp",
    "level",
    "event",
    "message",
    "service",
    "version",
    "replica",
    "job",
    "run_id",
    "scheduled_for",
    "trigger",
    "token",
    "truncated",
    "output_bytes",
];
/// Events that are about the daemon's start, which the demo tells in its own words.
const NOT_SHOWN: [&str; 4] = ["daemon_started", "table_loaded", "store_connected", "job_registered"];

/// Whether a line is about something that went wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tone {
    Plain,
    Warning,
    Error,
}

/// The time of day, the event, and what it says; `None` for what is not worth showing. What is not an event of a daemon
/// is shown as it is.
pub fn render(line: &str) -> Option<(Tone, String)> {
    let Ok(Value::Object(event)) = serde_json::from_str(line) else { return Some((Tone::Plain, line.to_owned())) };
    let text = |key: &str| event.get(key).and_then(Value::as_str).unwrap_or_default();
    let name = text("event");
    if NOT_SHOWN.contains(&name) {
        return None;
    }
    let tone = match text("level") {
        "error" => Tone::Error,
        "warn" => Tone::Warning,
        _ => Tone::Plain,
    };
    let time = text("timestamp").get(11..19).unwrap_or_default();
    let job = text("job");
    let told = match name {
        "run_output" => format!("| {}", text("line")),
        "run_skipped" if text("reason") == "claimed_by_other" => format!("{} has it", text("holder")),
        "http_listening" => format!("its page is http://{}/", text("address")),
        _ => details(&event),
    };
    Some((tone, format!("{time} {name:<15} {job:<7} {told}").trim_end().to_owned()))
}

fn details(event: &Map<String, Value>) -> String {
    let is_first_attempt = event.get("attempt") == Some(&Value::from(1));
    let shown = event
        .iter()
        .filter(|(key, _)| !LEFT_OUT.contains(&key.as_str()))
        .filter(|(key, _)| *key != "attempt" || !is_first_attempt)
        .map(|(key, value)| match value.as_str() {
            Some(text) => format!("{key}={text}"),
            None => format!("{key}={value}"),
        });
    shown.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_tells_who_runs_what_is_skipped() {
        let line = r#"{"timestamp":"2026-03-01T02:00:00.041Z","level":"info","event":"run_skipped","job":"greet",
            "attempt":1,"reason":"claimed_by_other","holder":"replica-2-7f3a"}"#;
        let shown = "02:00:00 run_skipped     greet   replica-2-7f3a has it".to_owned();
        assert_eq!(render(line), Some((Tone::Plain, shown)));
    }

    #[test]
    fn a_failure_shows_how() {
        let line = r#"{"timestamp":"2026-03-01T02:00:00.041Z","level":"error","event":"run_finished","job":"flaky",
            "attempt":2,"token":7,"outcome":"failed","exit_code":1}"#;
        let (tone, shown) = render(line).unwrap();
        assert_eq!(tone, Tone::Error);
        assert_eq!(shown, "02:00:00 run_finished    flaky   attempt=2 exit_code=1 outcome=failed");
    }

    #[test]
    fn what_is_no_event_is_shown_as_it_is() {
        assert_eq!(render("thread panicked"), Some((Tone::Plain, "thread panicked".to_owned())));
        assert_eq!(render(r#"{"event":"daemon_started"}"#), None);
    }
}
