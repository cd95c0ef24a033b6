//! `--log-schema` of real daemons: their whole log, from the first line to the last.

use crate::support::daemon::Daemon;
use crate::support::daemon::LIMIT;
use crate::support::daemon::Launch;
use crate::support::daemon::Table;
use nix::sys::signal::Signal;
use serde_json::Value;

const FAILING: &str = "  - {name: often, schedule: '* * * * * *', command: 'echo hello; exit 3', inheritEnv: false}\n";

/// The log of a daemon that ran a job, under the name that its schema has for `event`.
fn log(launch: &Launch, event: &str) -> Vec<Value> {
    let mut daemon: Daemon = launch.start();
    daemon.wait_for(|line| line[event] == "run_finished", LIMIT);
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(daemon.child_pid()), Signal::SIGTERM).unwrap();
    assert_eq!(daemon.wait_for_exit(), 0);
    assert_eq!(daemon.strays(), [""; 0]);
    daemon.lines()
}

fn of<'a>(lines: &'a [Value], event: &str, name: &str) -> &'a Value {
    lines.iter().find(|line| line[event] == name).unwrap_or_else(|| panic!("no {name} in {lines:#?}"))
}

fn in_a_pod(launch: Launch) -> Launch {
    launch.env("POD_NAME", "web-7d9f").env("POD_NAMESPACE", "shop").env("NODE_NAME", "n7")
}

#[test]
fn ecs_has_its_names_in_every_line() {
    let table = Table::new(FAILING);
    let lines = log(&in_a_pod(table.launch("memory:").arg("--log-schema").arg("ecs")), "event.action");
    for line in &lines {
        let text = |name: &str| line[name].as_str().unwrap_or_else(|| panic!("no {name} in {line}")).to_owned();
        assert_eq!((text("service.name"), text("ecs.version")), ("onecron".to_owned(), "8.11.0".to_owned()));
        assert_eq!(text("service.version"), env!("CARGO_PKG_VERSION"));
        assert!(text("service.node.name").starts_with("web-1-") && text("@timestamp").ends_with('Z'), "{line}");
        assert_eq!((text("kubernetes.pod.name"), text("kubernetes.namespace")), ("web-7d9f".into(), "shop".into()));
        assert_eq!(text("kubernetes.node.name"), "n7");
        for name in ["timestamp", "level", "event", "service", "version", "replica", "error", "pod"] {
            assert!(line.get(name).is_none(), "{name} in {line}");
        }
    }
    let finished = of(&lines, "event.action", "run_finished");
    assert_eq!((&finished["log.level"], &finished["job"]), (&"error".into(), &"often".into()));
    assert_eq!((&finished["exit_code"], &finished["outcome"]), (&3.into(), &"failed".into()));
    assert_eq!(of(&lines, "event.action", "run_output")["line"], "hello");
}

#[test]
fn gcp_has_severities_and_objects_of_its_own() {
    let table = Table::new(FAILING);
    let launch = in_a_pod(table.launch("memory:").env("ONECRON_LOG_SCHEMA", "gcp")).env("ONECRON_LOG_LEVEL", "debug");
    let lines = log(&launch, "event");
    for line in &lines {
        assert!(line["time"].as_str().unwrap().ends_with('Z') && line["message"].is_string(), "{line}");
        let context = &line["serviceContext"];
        assert_eq!((&context["service"], &context["version"]), (&"onecron".into(), &env!("CARGO_PKG_VERSION").into()));
        assert!(line["logging.googleapis.com/labels"]["replica"].as_str().unwrap().starts_with("web-1-"), "{line}");
        assert_eq!(
            (&line["pod"], &line["namespace"], &line["node"]),
            (&"web-7d9f".into(), &"shop".into(), &"n7".into())
        );
        for name in ["timestamp", "level", "service", "version", "replica"] {
            assert!(line.get(name).is_none(), "{name} in {line}");
        }
    }
    let severity = |name: &str| of(&lines, "event", name)["severity"].as_str().unwrap().to_owned();
    let found = ["run_claimed", "run_started", "run_finished"].map(severity);
    assert_eq!(found, ["DEBUG", "INFO", "ERROR"]);
}

#[test]
fn a_schema_that_nobody_knows_is_refused_and_the_known_ones_are_named() {
    let table = Table::new(FAILING);
    let output = table.launch("memory:").arg("--log-schema").arg("otel").output();
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.code() == Some(2) && errors.contains("default, ecs or gcp"), "{errors}");
}
