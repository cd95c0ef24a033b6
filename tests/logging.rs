//! The log as another program reads it: this test starts itself as a child and reads the child's standard output.

use onecron::telemetry::events;
use onecron::telemetry::logging;
use onecron::telemetry::logging::LogLevel;
use onecron::telemetry::logging::LogSettings;
use std::process::Command;
use std::process::Output;
use std::time::Duration;

const CHILD: &str = "TEST_IS_LOGGING_CHILD";

/// Only does something in the child.
#[test]
fn child() {
    if std::env::var_os(CHILD).is_some() {
        let settings = LogSettings { format: None, level: LogLevel::Info, replica: "web-1-7f3a".to_owned() };
        let guard = logging::init(settings.clone()).unwrap();
        assert!(logging::init(settings).is_err(), "a second start is refused");
        events::daemon_ready();
        events::store_recovered(Duration::from_millis(1500));
        drop(guard);
    }
}

fn run_child() -> Output {
    let mut command = Command::new(std::env::current_exe().expect("a test knows its program"));
    command.args(["--exact", "child", "--nocapture", "--test-threads=1"]).env(CHILD, "1");
    command.output().expect("the child can be started")
}

#[test]
fn without_a_terminal_a_line_is_one_json_object() {
    let output = run_child();
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    // The test harness writes in front of the first line, without a line end.
    let lines: Vec<serde_json::Value> = text
        .lines()
        .filter_map(|line| line.find("{\"timestamp\"").map(|at| serde_json::from_str(&line[at..]).unwrap()))
        .collect();
    let events: Vec<_> = lines.iter().map(|line| line["event"].as_str().unwrap()).collect();
    assert_eq!(events, ["daemon_ready", "store_recovered"]);
    assert_eq!(lines[1]["outage_ms"], 1500);
    assert_eq!(lines[1]["service"], "onecron");
    assert_eq!(lines[1]["replica"], "web-1-7f3a");
    assert_eq!(lines[1]["version"], env!("CARGO_PKG_VERSION"));
    let timestamp = lines[1]["timestamp"].as_str().unwrap();
    assert!(timestamp.len() == 24 && timestamp.ends_with('Z'), "{timestamp}");
}
