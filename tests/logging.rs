//! The log as another program reads it: this test starts itself as a child and reads the child's standard output.

use onecron::telemetry::events;
use onecron::telemetry::logging;
use onecron::telemetry::logging::LogLevel;
use onecron::telemetry::logging::LogSchema;
use onecron::telemetry::logging::LogSettings;
use onecron::telemetry::logging::Place;
use std::io::Read;
use std::process::Command;
use std::process::Stdio;
use std::time::Duration;

/// Tells the child what to do: `short` or `flood`.
const CHILD: &str = "TEST_LOGGING_CHILD";
/// More than fits into a pipe.
const FLOOD: u64 = 3000;

/// Only does something in the child.
#[test]
fn child() {
    let Ok(task) = std::env::var(CHILD) else { return };
    let (schema, place) = (LogSchema::Default, Place::default());
    let (level, replica) = (LogLevel::Info, "web-1-7f3a".to_owned());
    let settings = LogSettings { format: None, schema, level, replica, place };
    let guard = logging::init(settings.clone()).unwrap();
    assert!(logging::init(settings).is_err(), "a second start is refused");
    if task == "flood" {
        set_nonblocking();
        (0..FLOOD).for_each(|ms| events::store_recovered(Duration::from_millis(ms)));
        // Only now does the parent begin to read.
        eprintln!("all said");
    } else {
        events::daemon_ready();
        events::store_recovered(Duration::from_millis(1500));
    }
    drop(guard);
}

/// As a terminal's other users may do to it.
fn set_nonblocking() {
    use nix::fcntl::FcntlArg;
    use nix::fcntl::OFlag;
    use nix::fcntl::fcntl;
    fcntl(std::io::stdout(), FcntlArg::F_SETFL(OFlag::O_NONBLOCK)).expect("a pipe can be made non-blocking");
}

fn child_command(task: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("a test knows its program"));
    command.args(["--exact", "child", "--nocapture", "--test-threads=1"]).env(CHILD, task);
    command
}

/// The objects in what a child wrote. The test harness writes in front of the first one, without a line end.
fn objects(text: &str) -> Vec<serde_json::Value> {
    let object = |line: &str| serde_json::from_str(&line[line.find("{\"timestamp\"")?..]).ok();
    text.lines().filter_map(object).collect()
}

#[test]
fn without_a_terminal_a_line_is_one_json_object() {
    let output = child_command("short").output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let lines = objects(&String::from_utf8(output.stdout).unwrap());
    let events: Vec<_> = lines.iter().map(|line| line["event"].as_str().unwrap()).collect();
    assert_eq!(events, ["daemon_ready", "store_recovered"]);
    assert_eq!(lines[1]["outage_ms"], 1500);
    assert_eq!(lines[1]["service"], "onecron");
    assert_eq!(lines[1]["replica"], "web-1-7f3a");
    assert_eq!(lines[1]["version"], env!("CARGO_PKG_VERSION"));
    let timestamp = lines[1]["timestamp"].as_str().unwrap();
    assert!(timestamp.len() == 24 && timestamp.ends_with('Z'), "{timestamp}");
}

#[test]
fn no_line_is_lost_when_the_output_is_non_blocking_and_slow() {
    let mut child = child_command("flood").stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut said = [0; 8];
    child.stderr.take().unwrap().read_exact(&mut said).unwrap();
    assert_eq!(&said, b"all said");
    let mut text = String::new();
    child.stdout.take().unwrap().read_to_string(&mut text).unwrap();
    assert!(child.wait().unwrap().success());
    let outages: Vec<_> = objects(&text).iter().map(|line| line["outage_ms"].as_u64()).collect();
    assert_eq!(outages, (0..FLOOD).map(Some).collect::<Vec<_>>());
}
