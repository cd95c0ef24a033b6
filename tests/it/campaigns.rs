//! One real daemon under load, for long: thousands of runs as process 1, floods of output, and whether anything adds up.
//!
//! An ordinary test is a sample; `ONECRON_CAMPAIGN=full` is as long as the constants say. The figures are printed.

use crate::processes;
use crate::support::bench::Kind;
use crate::support::bench::program;
use crate::support::daemon::LIMIT;
use crate::support::daemon::Table;
use crate::support::server::RedisServer;
use crate::support::watched::Watched;
use crate::support::watched::has_namespaces;
use serde_json::Value;
use std::fmt::Write;
use std::time::Duration;

/// How long a campaign may take. It waits for a number of runs, and not for a time.
const CAMPAIGN: Duration = Duration::from_secs(3600);
/// Runs under process 1: in a sample, and in full.
const SHORT_RUNS: [usize; 2] = [400, 10_000];
/// Runs of the soak.
const SOAK_RUNS: [usize; 2] = [2_000, 100_000];
/// Jobs that are due at every second of the soak.
const SOAK_JOBS: [usize; 2] = [100, 120];
/// How long a job prints as fast as it can, seconds.
const FLOOD: [usize; 2] = [2, 10];
/// Bytes of a line that does not end.
const ENDLESS: [usize; 2] = [10_000_000, 100_000_000];
/// What memory may grow by, KiB: lines that wait for the log, of some runs at once, and the log's own queue.
const FLOOD_GROWTH: u64 = 32 << 10;
/// And over all runs after the first tenth of them.
const SOAK_GROWTH: u64 = 12 << 10;
/// A line of the log is shorter, its end included.
const LINE_MOST: usize = 16 << 10;

fn length_of<T: Copy>([sample, full]: [T; 2]) -> T {
    if std::env::var("ONECRON_CAMPAIGN").is_ok_and(|text| text == "full") { full } else { sample }
}

/// A table without limit of runs.
fn table(jobs: &str) -> Table {
    let table = Table::new(jobs);
    let text = std::fs::read_to_string(table.path()).unwrap();
    let text = text.replace("scheduler: {", "scheduler: {maxConcurrentRuns: 0, redact: ['secret-[0-9]{4}'], ");
    std::fs::write(table.path(), text).unwrap();
    table
}

const EVERY_SECOND: &str =
    "schedule: '* * * * * *', concurrencyPolicy: Allow, history: {ticks: 1, successful: 0, failed: 0}";

/// Job `exit-N` exits with N, and some of these leave an orphan with another code behind; `kill-N` dies of a signal.
fn short_jobs() -> String {
    let mut jobs = String::new();
    for number in 0..100 {
        let orphan = if number % 4 == 0 { "setsid sh -c \"sleep 0.1; exit 199\" >/dev/null 2>&1 & " } else { "" };
        let (name, end) = match number % 10 {
            9 => (format!("kill-{number}"), "kill -9 $$".to_owned()),
            _ => (format!("exit-{number}"), format!("exit {number}")),
        };
        writeln!(jobs, "  - {{name: {name}, {EVERY_SECOND}, successExitCodes: [{number}], command: '{orphan}{end}'}}")
            .unwrap();
    }
    jobs
}

/// Whether a run ended as its job's name says.
fn another_end(line: &Value) -> Option<String> {
    if line["event"] != "run_finished" {
        return None;
    }
    let (kind, number) = line["job"].as_str()?.split_once('-')?;
    let is_right = match kind {
        "exit" => line["exit_code"].as_u64() == number.parse().ok() && line["outcome"] == "succeeded",
        _ => line["signal"] == 9 && line["outcome"] == "failed",
    };
    (!is_right).then(|| "ended in another way".to_owned())
}

#[test]
fn process_1_leaves_no_zombie_and_steals_no_exit_code() {
    if !has_namespaces() {
        return;
    }
    let (wanted, begun) = (length_of(SHORT_RUNS), processes::now());
    let table = table(&short_jobs());
    let mut daemon = Watched::start_as_pid_1(table.launch("memory:"), another_end);
    let [before, _] = daemon.memory();
    daemon.until("all runs have ended", CAMPAIGN, |tally| tally.runs() >= wanted);
    let zombies = daemon.zombies();
    processes::until("all that had ended is reaped", || {
        let still = daemon.zombies();
        zombies.iter().all(|zombie| !still.contains(zombie))
    });
    let ([after, peak], seconds) = (daemon.memory(), processes::now().since(begun).as_secs());
    let (code, tally) = daemon.end();
    println!(
        "{} runs in {seconds} s; zombies for a moment {}, for longer 0; wrong codes {}; RSS {before} to {after} KiB, peak {peak}",
        tally.runs(),
        zombies.len(),
        tally.complaints.0
    );
    assert_eq!(tally.complaints, (0, vec![]), "of {} runs", tally.runs());
    assert_eq!((code, tally.events.get("daemon_drained")), (0, Some(&1)));
    assert_eq!(tally.events.get("daemon_panicked"), None);
}

#[test]
fn process_1_passes_on_a_term_and_its_exit_code_says_that_it_had_to() {
    if !has_namespaces() {
        return;
    }
    let job = "  - {name: long, schedule: '* * * * * *', command: 'trap \"echo got-term; exit 0\" TERM; echo begun; \
               while :; do sleep 0.1; done'}\n";
    let table = table(job);
    let heard = |line: &Value| (line["line"] == "got-term").then(|| "heard".to_owned());
    let launch = table.launch("memory:").arg("--drain-timeout").arg("1s");
    let mut daemon = Watched::start_as_pid_1(launch, heard);
    daemon.until("it runs", LIMIT, |tally| tally.events.contains_key("run_output"));
    let (code, tally) = daemon.end();
    assert_eq!((code, tally.complaints.0, tally.runs()), (75, 1, 1), "{:?}", tally.complaints);
}

#[test]
fn floods_of_output_take_no_memory_and_break_no_line() {
    let (seconds, endless) = (length_of(FLOOD), length_of(ENDLESS));
    let job = |name: &str, rest: &str| {
        format!("  - {{name: {name}, schedule: '*/5 * * * * *', startingDeadline: 10s, {rest}}}\n")
    };
    let zeros = "head -c 5000000 /dev/zero; printf \"\\\\na\\\\0b\\\\n\"";
    let jobs = job("flood", &format!("timeout: {seconds}s, command: 'exec yes'"))
        + &job("endless", &format!("command: 'head -c {endless} /dev/zero | tr \"\\\\0\" x'"))
        + &job("zeros", &format!("command: '{zeros}'"))
        + &job("bytes", "command: 'head -c 5000000 /dev/urandom'")
        + &job("holder", "command: 'sleep 20 & echo begun'");
    let table = table(&jobs);
    let bad = |line: &Value| {
        let is_wanted = match line["job"].as_str() {
            Some("flood") => line["outcome"] == "timed_out",
            _ => line["outcome"] == "succeeded",
        };
        (line["event"] == "run_finished" && !is_wanted).then(|| "ended in another way".to_owned())
    };
    let mut daemon = Watched::start(&table.launch("memory:"), bad);
    let [before, _] = daemon.memory();
    daemon.until("each has ended", CAMPAIGN, |tally| tally.finished.len() == 5);
    let [after, peak] = daemon.memory();
    let (code, tally) = daemon.end();
    println!(
        "RSS {before} to {after} KiB, peak {peak}; {} lines of output, the longest line {} bytes; {} not JSON; runs {:?}",
        tally.events["run_output"], tally.longest, tally.strays.0, tally.finished
    );
    assert_eq!((tally.strays, tally.complaints), ((0, vec![]), (0, vec![])));
    assert!(tally.longest <= LINE_MOST, "{} bytes", tally.longest);
    assert!(peak < before + FLOOD_GROWTH, "grew from {before} to {peak} KiB");
    assert_eq!(code, 0);
}

/// What belongs to no run is all that is left between two bursts.
fn descriptors_at_rest(daemon: &Watched) -> usize {
    (0..100).map(|_| (daemon.descriptors(), std::thread::sleep(processes::millis(20))).0).min().unwrap()
}

#[test]
fn nothing_adds_up_over_many_runs() {
    let (wanted, jobs, begun) = (length_of(SOAK_RUNS), length_of(SOAK_JOBS), processes::now());
    let mut text = String::new();
    for number in 0..jobs {
        let command = match number % 3 {
            0 => "[\"true\"]".to_owned(),
            1 => format!("'echo line of {number}; exit {}'", number % 200),
            _ => format!("'echo secret-1234 >&2; exec sh -c \"exit {}\"'", number % 200),
        };
        let codes = format!("successExitCodes: [0, {}]", number % 200);
        writeln!(text, "  - {{name: soak-{number}, {EVERY_SECOND}, {codes}, command: {command}}}").unwrap();
    }
    let table = table(&text);
    let redis = program(Kind::Redis).map(|program| RedisServer::start(&program, &["--save", ""]));
    // What a store keeps in the daemon's own process would be counted as the daemon's.
    let url = redis.as_ref().map_or_else(|| "sqlite:soak.db".to_owned(), RedisServer::url);
    let bad = |line: &Value| {
        let is_bad = line["event"] == "run_finished" && line["outcome"] != "succeeded";
        (is_bad || line["event"] == "daemon_panicked").then(|| "failed".to_owned())
    };
    let mut daemon = Watched::start(&table.launch(&url), bad);
    let mut marks = Vec::new();
    for tenth in 1..=10 {
        daemon.until("runs have ended", CAMPAIGN, |tally| tally.runs() >= wanted * tenth / 10);
        let mark = (daemon.look(|tally| tally.runs()), daemon.memory()[0], descriptors_at_rest(&daemon));
        println!("{} runs: RSS {} KiB, {} descriptors", mark.0, mark.1, mark.2);
        marks.push(mark);
    }
    let peak = daemon.memory()[1];
    let (code, tally) = daemon.end();
    let seconds = processes::now().since(begun).as_secs();
    println!("{} runs in {seconds} s on {url}; peak {peak} KiB; {:?}", tally.runs(), tally.events);
    assert_eq!((code, tally.complaints, tally.strays), (0, (0, vec![]), (0, vec![])));
    let ((_, memory, descriptors), (_, memory_after, descriptors_after)) = (marks[0], marks[9]);
    assert!(descriptors_after <= descriptors + 8, "from {descriptors} to {descriptors_after} descriptors");
    assert!(memory_after <= memory + SOAK_GROWTH, "from {memory} to {memory_after} KiB");
}
