//! One daemon, as an operator meets it: started, signalled, and read by its log.

use crate::processes;
use crate::processes::is_alive;
use crate::processes::signal;
use crate::processes::until;
use crate::support::daemon::Daemon;
use crate::support::daemon::LIMIT;
use crate::support::daemon::Launch;
use crate::support::daemon::Table;
use nix::sys::signal::Signal;
use serde_json::Value;

const HELLO: &str = "  - {name: hello, schedule: '* * * * * *', command: 'echo out; echo err >&2'}\n";

/// A job that runs at the next full second, and then not for long.
fn rarely(rest: &str) -> String {
    format!("  - {{name: work, schedule: '*/5 * * * * *', startingDeadline: 10s, {rest}}}\n")
}

fn events(daemon: &Daemon) -> Vec<String> {
    daemon.lines().iter().map(|line| line["event"].as_str().unwrap().to_string()).collect()
}

fn pid_of(line: &Value) -> i32 {
    i32::try_from(line["pid"].as_i64().unwrap()).unwrap()
}

#[test]
fn output_goes_out_as_it_is_or_nowhere_where_the_job_says_so() {
    let job = |name: &str, mode: &str| {
        format!(
            "  - {{name: {name}, schedule: '* * * * * *', command: 'echo {name}; echo err-{name} >&2', output: {{mode: {mode}}}}}\n"
        )
    };
    let table = Table::new(&(job("raw", "Passthrough") + &job("quiet", "Discard") + &job("usual", "Log")));
    let mut daemon = table.launch("memory:").start();
    for name in ["raw", "quiet", "usual"] {
        daemon.wait_for_job("run_finished", name);
    }
    until("the lines are there", || daemon.strays().len() >= 2);
    daemon.signal(Signal::SIGTERM);
    daemon.wait_for_exit();
    let strays = daemon.strays();
    assert!(strays.contains(&"raw".to_owned()) && strays.contains(&"err-raw".to_owned()), "{strays:?}");
    assert!(strays.iter().all(|line| line.ends_with("raw")), "{strays:?}");
    let said = daemon.events("run_output");
    assert!(!said.is_empty() && said.iter().all(|line| line["job"] == "usual"), "{said:?}");
}

#[test]
fn a_daemon_runs_jobs_logs_their_lines_and_ends_on_term() {
    let table = Table::new(HELLO);
    let mut daemon = table.launch("memory:").start();
    let finished = daemon.wait_for_event("run_finished");
    daemon.signal(Signal::SIGTERM);
    assert_eq!(daemon.wait_for_exit(), 0);
    assert_eq!((daemon.strays(), daemon.errors()), (vec![], String::new()));

    let of_run = |line: &&Value| line["run_id"] == finished["run_id"];
    let lines = daemon.lines();
    let told: Vec<&Value> = lines.iter().filter(of_run).collect();
    let names: Vec<&str> = told.iter().map(|line| line["event"].as_str().unwrap()).collect();
    assert_eq!(names, ["run_started", "run_output", "run_output", "run_finished"]);
    let mut output: Vec<String> =
        told[1..3].iter().map(|line| format!("{} {}", line["stream"], line["line"])).collect();
    output.sort();
    assert_eq!(output, [r#""stderr" "err""#, r#""stdout" "out""#]);
    assert!(told.iter().all(|line| line["token"] == finished["token"] && line["attempt"] == 1), "{told:?}");
    assert_eq!((&finished["outcome"], &finished["exit_code"]), (&"succeeded".into(), &0.into()));

    let all = events(&daemon);
    let place = |event: &str| all.iter().position(|other| other == event).unwrap_or_else(|| panic!("no {event}"));
    let order = [
        "daemon_started",
        "table_loaded",
        "store_connected",
        "daemon_ready",
        "run_started",
        "daemon_draining",
        "daemon_drained",
        "daemon_stopped",
    ];
    assert!(order.is_sorted_by_key(|event| place(event)), "{all:?}");
    assert_eq!(all.last().map(String::as_str), Some("daemon_stopped"));
}

#[test]
fn a_run_is_asked_to_stop_at_its_timeout_and_killed_after_the_grace() {
    let job = rarely(
        "timeout: 1s, terminationGracePeriod: 1s, command: \"trap '' TERM; echo $$; while :; do sleep 1; done\"",
    );
    let table = Table::new(&job);
    let daemon = table.launch("memory:").start();
    let pid = pid_of(&daemon.wait_for_event("run_started"));
    assert_eq!(daemon.wait_for_event("run_stopping")["cause"], "timeout");
    assert_eq!(daemon.wait_for_event("run_killed")["grace_seconds"], 1.0);
    let finished = daemon.wait_for_event("run_finished");
    assert_eq!((&finished["outcome"], &finished["signal"]), (&"timed_out".into(), &9.into()));
    assert!(!is_alive(pid));
}

#[test]
fn a_failed_attempt_is_followed_by_another_with_a_greater_token() {
    let job = rarely("retry: {limit: 1, backoff: 1s}, command: 'echo no >&2; exit $((4 - ONECRON_ATTEMPT))'");
    let table = Table::new(&job);
    let daemon = table.launch("memory:").start();
    let retried = daemon.wait_for_event("run_retried");
    assert_eq!((&retried["attempt"], &retried["exit_code"]), (&1.into(), &3.into()));
    let finished = daemon.wait_for_event("run_finished");
    assert_eq!((&finished["outcome"], &finished["exit_code"]), (&"failed".into(), &2.into()));
    assert_eq!((&finished["attempt"], &finished["attempts"]), (&2.into(), &2.into()));
    assert!(finished["token"].as_u64() > retried["token"].as_u64());
}

#[test]
fn what_cannot_be_started_is_said_with_what_to_write_instead() {
    let table = Table::new(&rarely("command: ['no-such-program', 'x']"));
    let daemon = Daemon::start(&["run", "--jobs", &table.path(), "--store", "memory:"]);
    let finished = daemon.wait_for_event("run_finished");
    assert_eq!(finished["outcome"], "not_started");
    assert!(finished["error"].as_str().unwrap().contains("no program `no-such-program`"), "{finished}");
    assert_eq!(daemon.events("run_started").len(), 0);
}

#[test]
fn a_drain_waits_for_what_runs() {
    let table = Table::new(&rarely("command: 'echo begun; sleep 2; echo done'"));
    let mut daemon = table.launch("memory:").start();
    daemon.wait_for(|line| line["line"] == "begun", LIMIT);
    daemon.signal(Signal::SIGTERM);
    assert_eq!(daemon.wait_for_exit(), 0);
    daemon.wait_for(|line| line["line"] == "done", LIMIT);
    assert_eq!(daemon.wait_for_event("run_finished")["outcome"], "succeeded");
    let draining = daemon.wait_for_event("daemon_draining");
    assert_eq!((&draining["signal"], &draining["running"]), (&"TERM".into(), &1.into()));
    assert_eq!(daemon.wait_for_event("daemon_drained")["finished"], 1);
}

#[test]
fn a_second_signal_stops_what_runs() {
    let table = Table::new(&rarely("command: 'echo begun; sleep 600'"));
    let mut daemon = table.launch("memory:").start();
    let pid = pid_of(&daemon.wait_for_event("run_started"));
    daemon.signal(Signal::SIGINT);
    daemon.wait_for_event("daemon_draining");
    // One that comes at once is an echo of the first: `timeout` signals a process, and then its group.
    daemon.signal(Signal::SIGTERM);
    let drained_at = processes::now();
    processes::until("it is a second thought", || processes::now() > drained_at + processes::millis(300));
    assert!(daemon.events("run_stopping").is_empty(), "an echo stops nothing");
    daemon.signal(Signal::SIGTERM);
    assert_eq!(daemon.wait_for_exit(), 75);
    assert_eq!(daemon.wait_for_event("run_stopping")["cause"], "drain");
    assert_eq!(daemon.wait_for_event("run_finished")["outcome"], "interrupted");
    assert_eq!(daemon.wait_for_event("daemon_stopped")["exit_code"], 75);
    assert_eq!(daemon.events("daemon_drained").len(), 0);
    assert!(!is_alive(pid));
}

#[test]
fn the_drain_timeout_stops_what_runs() {
    let table = Table::new(&rarely("command: 'sleep 600'"));
    let mut daemon = table.launch("memory:").arg("--drain-timeout").arg("1s").start();
    let run = daemon.wait_for_event("run_started");
    daemon.signal(Signal::SIGTERM);
    assert_eq!(daemon.wait_for_exit(), 75);
    assert_eq!(daemon.wait_for_event("drain_expired")["run_ids"], run["run_id"]);
}

/// 256 for the daemon and 8 for each of the ten places.
#[test]
fn the_soft_limit_of_open_files_is_raised_for_all_places() {
    let table = Table::new(HELLO);
    let daemon = table.launch("memory:").wrapper(&["sh", "-c", "ulimit -Sn 128; exec \"$0\" \"$@\""]).start();
    daemon.wait_for_event("daemon_ready");
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", daemon.pid())).unwrap();
    let line = limits.lines().find(|line| line.starts_with("Max open files")).unwrap();
    assert_eq!(line.split_whitespace().nth(3), Some("336"), "{line}");
}

/// `nohup` has it ignored, and a daemon takes it all the same.
#[test]
fn hup_ends_no_daemon() {
    let table = Table::new(HELLO);
    let daemon = table.launch("memory:").arg("--log-level").arg("debug").wrapper(&["nohup"]).start();
    daemon.wait_for_event("daemon_ready");
    daemon.signal(Signal::SIGHUP);
    daemon.wait_for(|line| line["event"] == "table_unchanged" && line["cause"] == "signal", LIMIT);
    let before = daemon.events("run_finished").len();
    daemon.wait_for_many(before + 2, |line| line["event"] == "run_finished", LIMIT);
}

#[test]
fn a_store_that_is_away_is_said_once_and_the_daemon_stays() {
    let table = Table::new("  - {name: hello, schedule: '* * * * * *', startingDeadline: 1s, command: 'true'}\n");
    let mut daemon = table.launch("redis://127.0.0.1:1").start();
    let skipped = |line: &Value| line["event"] == "run_skipped" && line["reason"] == "store_unavailable";
    let skips = daemon.wait_for_many(3, skipped, LIMIT);
    assert_eq!(skips[0]["level"], "error");
    daemon.signal(Signal::SIGTERM);
    assert_eq!(daemon.wait_for_exit(), 0);
    assert_eq!(daemon.events("store_lost").len(), 1);
    assert_eq!(daemon.events("daemon_ready").len(), 0);
}

#[test]
fn a_job_that_prints_without_end_does_not_hold_up_others() {
    let flood =
        "  - {name: flood, schedule: '*/5 * * * * *', startingDeadline: 10s, timeout: 3s, command: 'exec yes'}\n";
    let table = Table::new(&format!("{flood}{HELLO}"));
    let daemon = table.launch("memory:").start();
    let ended = daemon.wait_for_job("run_finished", "flood");
    let lines = daemon.lines();
    let begun = lines.iter().position(|line| line["event"] == "run_started" && line["job"] == "flood").unwrap();
    let over = lines.iter().position(|line| *line == ended).unwrap();
    let hello = |line: &&Value| line["event"] == "run_finished" && line["job"] == "hello";
    let beside = lines[begun..over].iter().filter(hello).count();
    assert!(beside >= 2, "{beside} runs beside the flood");
    assert_eq!(ended["outcome"], "timed_out");
}

/// The daemon's guardian.
fn guardian_of(daemon: &Daemon) -> i32 {
    let daemon = daemon.pid();
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let mut numbers = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let is_it = |pid: &i32| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let parent = stat.rsplit_once(')').and_then(|(_, rest)| rest.split_whitespace().nth(1)?.parse().ok());
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        parent == Some(daemon) && line.ends_with(b"\0guardian\0")
    };
    numbers.find(is_it).expect("it has one")
}

#[test]
fn a_guardian_that_was_killed_is_replaced_at_the_next_renewal() {
    let table = Table::new(&rarely("command: 'sleep 600'"));
    let daemon = table.launch("memory:").start();
    daemon.wait_for_event("run_started");
    signal(guardian_of(&daemon), Signal::SIGKILL);
    let restarted = daemon.wait_for_event("guardian_restarted");
    assert_eq!(restarted["running"], 1);
    assert_eq!(pid_of(&restarted), guardian_of(&daemon));
}

#[test]
fn a_renewed_run_outlives_its_first_lease() {
    let table = Table::new(&rarely("command: 'sleep 8; echo done'"));
    let daemon = table.launch("memory:").start();
    assert_eq!(daemon.wait_for_event("run_finished")["outcome"], "succeeded");
}

#[test]
fn after_kill_9_of_the_daemon_its_run_is_gone_within_a_lease() {
    let table = Table::new(&rarely("terminationGracePeriod: 1s, command: \"trap '' TERM; while :; do sleep 1; done\""));
    let daemon = table.launch("memory:").start();
    let pid = pid_of(&daemon.wait_for_event("run_started"));
    daemon.signal(Signal::SIGKILL);
    assert!(is_alive(pid), "a killed daemon cannot have stopped it");
    until("the guardian has ended the run", || !is_alive(pid));
}

fn pids(said: &str) -> Vec<i32> {
    said.lines()
        .filter(|line| line.starts_with("  replica-"))
        .map(|line| line[line.len() - 7..].trim())
        .map(number)
        .collect()
}

fn number(text: &str) -> i32 {
    text.rsplit(' ').next().unwrap().parse().unwrap()
}

#[test]
fn the_demo_shows_three_replicas_and_leaves_nothing_behind() {
    let folder = tempfile::tempdir().unwrap();
    let demo = Launch::new(&["demo", "--for", "8s"]).env("TMPDIR", folder.path().to_str().unwrap());
    let output = demo.output();
    let said = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert_eq!(said.matches(" daemon_ready").count(), 3, "{said}");
    assert!(said.contains(" run_finished    greet "), "{said}");
    // The last run may end together with all of it.
    let (ran, told) = (said.matches(" run_finished    greet ").count(), said.matches(" has it").count());
    assert!(told >= 2 * (ran - 1) && told > 0, "both others say who runs it: {said}");
    assert_eq!(pids(&said).len(), 3);
    assert!(pids(&said).into_iter().all(|pid| !is_alive(pid)));
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn replicas_do_not_outlive_a_demo_that_was_killed() {
    let folder = tempfile::tempdir().unwrap();
    let demo = Launch::new(&["demo"]).env("TMPDIR", folder.path().to_str().unwrap()).start();
    until("all are ready", || demo.strays().iter().filter(|line| line.contains("daemon_ready")).count() == 3);
    let pids = pids(&demo.strays().join("\n"));
    assert!(pids.len() == 3 && pids.iter().all(|pid| is_alive(*pid)));
    signal(demo.child_pid(), Signal::SIGKILL);
    until("all have ended", || pids.iter().all(|pid| !is_alive(*pid)));
}
