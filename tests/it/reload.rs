//! Real daemons, whose job files change while they run.

use crate::processes::signal;
use crate::processes::until;
use crate::support::daemon::Daemon;
use crate::support::daemon::LIMIT;
use crate::support::daemon::Launch;
use nix::sys::signal::Signal;
use serde_json::Value;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::time::Duration;
use tempfile::TempDir;

/// Nothing changes by the timer within a test, so what is seen is seen otherwise.
const SLOW: &str = "reloadInterval: 10m";
/// Nothing changes by events, so what is seen is seen by the timer. It is as short as it may be.
const FAST: &str = "reloadInterval: 1s";

/// A folder with a table that changes.
struct Changing {
    folder: TempDir,
    scheduler: &'static str,
}

impl Changing {
    fn new(scheduler: &'static str, jobs: &[&str]) -> Self {
        let changing = Self { folder: tempfile::tempdir().unwrap(), scheduler };
        fs::write(changing.path(), changing.text(jobs)).unwrap();
        changing
    }

    fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn path(&self) -> PathBuf {
        self.at("jobs.yaml")
    }

    /// A table of jobs that say their names at each full hour.
    fn text(&self, jobs: &[&str]) -> String {
        let job = |name: &&str| format!("  - {{name: {name}, schedule: '@hourly', command: 'echo {name}'}}\n");
        self.table(&jobs.iter().map(job).collect::<String>())
    }

    fn table(&self, jobs: &str) -> String {
        let jobs = if jobs.is_empty() { "jobs: []\n".to_owned() } else { format!("jobs:\n{jobs}") };
        format!("version: 1\nscheduler: {{lockLease: 5s, clockSkewTolerance: 100ms, {}}}\n{jobs}", self.scheduler)
    }

    /// As careful writers do.
    fn rename(&self, text: &str) {
        fs::write(self.at("new.tmp"), text).unwrap();
        fs::rename(self.at("new.tmp"), self.path()).unwrap();
    }

    fn launch(&self) -> Launch {
        let path = self.path().display().to_string();
        let launch = Launch::new(&["run", "--jobs", &path, "--store", "memory:", "--log-level", "debug"]);
        launch.folder(self.folder.path())
    }

    fn start(&self) -> Daemon {
        let daemon = self.launch().start();
        daemon.wait_for_event("daemon_ready");
        // The folder is watched from here on.
        daemon.wait_for_event("table_unchanged");
        daemon
    }
}

/// The n-th line of an event, from 1.
fn nth(daemon: &Daemon, count: usize, event: &str) -> Value {
    daemon.wait_for_many(count, |line| line["event"] == event, LIMIT).pop().unwrap()
}

fn counts(line: &Value) -> [i64; 3] {
    ["added", "changed", "removed"].map(|field| line[field].as_i64().unwrap())
}

/// HUP, and the answer to it: `event` with the cause `signal`, for the n-th time.
fn ask(daemon: &Daemon, count: usize, event: &str) -> Value {
    daemon.signal(Signal::SIGHUP);
    let is_answer = |line: &Value| line["event"] == event && line["cause"] == "signal";
    daemon.wait_for_many(count, is_answer, LIMIT).pop().unwrap()
}

#[test]
fn a_renamed_file_is_taken_when_its_folder_tells_of_it() {
    let changing = Changing::new(SLOW, &["a", "b", "c"]);
    let daemon = changing.start();
    let loaded = daemon.wait_for_event("table_loaded");
    changing.rename(&changing.text(&["b", "c", "d"]).replace("echo c", "echo other"));
    let replaced = daemon.wait_for_event("table_replaced");
    assert_eq!(counts(&replaced), [1, 1, 1]);
    assert_eq!((&replaced["previous"], &replaced["cause"]), (&loaded["revision"], &"event".into()));
    assert_eq!(replaced["detail"], "added d; changed c; removed a");
    daemon.wait_for_job("job_registered", "d");
}

#[test]
fn without_word_from_the_folder_the_timer_sees_it() {
    let changing = Changing::new(FAST, &["a"]);
    // Behind a link, whose own folder says nothing when a folder further up is another.
    fs::create_dir_all(changing.at("one/deep")).unwrap();
    fs::create_dir_all(changing.at("two/deep")).unwrap();
    fs::rename(changing.path(), changing.at("one/deep/jobs.yaml")).unwrap();
    fs::write(changing.at("two/deep/jobs.yaml"), changing.text(&["b"])).unwrap();
    symlink("one", changing.at("current")).unwrap();
    symlink("current/deep/jobs.yaml", changing.path()).unwrap();
    fs::create_dir(changing.at("entry")).unwrap();
    symlink(changing.path(), changing.at("entry/table")).unwrap();
    let path = changing.at("entry/table").display().to_string();
    let daemon = Launch::new(&["run", "--jobs", &path, "--store", "memory:", "--log-level", "debug"]).start();
    daemon.wait_for_event("table_unchanged");
    symlink("two", changing.at("next")).unwrap();
    fs::rename(changing.at("next"), changing.at("current")).unwrap();
    assert_eq!(counts(&daemon.wait_for_event("table_replaced")), [1, 0, 1]);
}

/// As the kubelet does it: a new folder, a new link, an atomic rename, and the old folder goes.
#[test]
fn a_volume_of_kubernetes_is_followed_from_version_to_version() {
    let changing = Changing::new(SLOW, &["a"]);
    fs::create_dir(changing.at("..2026_1")).unwrap();
    fs::rename(changing.path(), changing.at("..2026_1/jobs.yaml")).unwrap();
    symlink("..2026_1", changing.at("..data")).unwrap();
    symlink("..data/jobs.yaml", changing.path()).unwrap();
    let daemon = changing.start();
    for (version, jobs) in [(2, ["a", "b"]), (3, ["a", "c"]), (4, ["a", "d"])] {
        let (new, old) = (format!("..2026_{version}"), format!("..2026_{}", version - 1));
        fs::create_dir(changing.at(&new)).unwrap();
        fs::write(changing.at(&new).join("jobs.yaml"), changing.text(&jobs)).unwrap();
        symlink(&new, changing.at("..data_tmp")).unwrap();
        fs::rename(changing.at("..data_tmp"), changing.at("..data")).unwrap();
        fs::remove_dir_all(changing.at(&old)).unwrap();
        let replaced = nth(&daemon, version - 1, "table_replaced");
        assert_eq!((&replaced["added"], &replaced["cause"]), (&1.into(), &"event".into()));
    }
    assert_eq!(daemon.events("table_refused"), Vec::<Value>::new());
    assert_eq!(daemon.events("config_not_reloadable"), Vec::<Value>::new());
}

#[test]
fn a_file_that_is_truncated_and_written_in_place_is_taken() {
    let changing = Changing::new(SLOW, &["a"]);
    let daemon = changing.start();
    fs::write(changing.path(), changing.text(&["a", "b"])).unwrap();
    assert_eq!(counts(&daemon.wait_for_event("table_replaced")), [1, 0, 0]);
}

#[test]
fn a_bad_file_is_refused_once_and_a_good_one_after_it_is_taken() {
    let changing = Changing::new(FAST, &["a"]);
    let daemon = changing.start();
    let revision = daemon.wait_for_event("table_loaded")["revision"].clone();
    changing.rename(&changing.text(&["a"]).replace(", schedule:", ", shcedule:"));
    let refused = daemon.wait_for_event("table_refused");
    assert_eq!(
        (&refused["level"], &refused["revision"], &refused["problems"]),
        (&"error".into(), &revision, &1.into())
    );
    let first = refused["first"].as_str().unwrap();
    assert!(first.ends_with("E202 jobs[0] \"a\": the key `shcedule` is unknown"), "{first}");
    assert!(refused["hint"].as_str().unwrap().contains("`schedule`"), "{refused}");
    // A moment in which the timer looked again, and said nothing.
    let said = ask(&daemon, 1, "table_refused");
    assert_eq!((daemon.events("table_refused").len(), &said["first"]), (2, &refused["first"]));

    changing.rename(&changing.text(&["b"]).replace("@hourly", "61 * * * *"));
    let other = nth(&daemon, 3, "table_refused");
    assert!(other["first"].as_str().unwrap().contains("E302"), "{other}");
    changing.rename(&changing.text(&["a", "b"]));
    assert_eq!(daemon.wait_for_event("table_replaced")["previous"], revision);
}

#[test]
fn what_the_running_table_hides_is_hidden_in_the_report_on_a_bad_one() {
    let changing = Changing::new(SLOW, &["a"]);
    let hiding = |text: String| text.replace("reloadInterval", "redact: ['hunter[0-9]'], reloadInterval");
    fs::write(changing.path(), hiding(changing.text(&["a"]))).unwrap();
    let daemon = changing.start();
    changing.rename(&hiding(changing.text(&["a"])).replace("@hourly", "hunter2"));
    let first = daemon.wait_for_event("table_refused")["first"].as_str().unwrap().to_owned();
    assert!(first.contains("E302") && first.contains("[redacted]") && !first.contains("hunter2"), "{first}");
    // And values of variables are in no report at all.
    let secret = "command: x, env: {PASSWORD: 123456}";
    changing.rename(&changing.table(&format!("  - {{name: a, schedule: '@hourly', {secret}}}\n")));
    let first = nth(&daemon, 2, "table_refused")["first"].as_str().unwrap().to_owned();
    assert!(first.contains("`env.PASSWORD` has no quotes") && !first.contains("123456"), "{first}");
}

/// The daemon has said that it starts, and listens to no signal yet: its look at what jobs need takes its time.
#[test]
fn hup_at_the_very_start_ends_nothing() {
    let changing = Changing::new(SLOW, &["a"]);
    let job = |n: usize| format!("  - {{name: j{n}, schedule: '@yearly', command: ['/no/such/{n}']}}\n");
    fs::write(changing.path(), changing.table(&(0..3000).map(job).collect::<String>())).unwrap();
    let mut daemon = changing.launch().start();
    signal(daemon.pid(), Signal::SIGHUP);
    daemon.wait_for_event("daemon_ready");
    daemon.signal(Signal::SIGTERM);
    assert_eq!(daemon.wait_for_exit(), 0);
}

#[test]
fn term_from_the_first_line_on_drains() {
    let changing = Changing::new(SLOW, &["a"]);
    let job = |n: usize| format!("  - {{name: j{n}, schedule: '@yearly', command: ['/no/such/{n}']}}\n");
    fs::write(changing.path(), changing.table(&(0..3000).map(job).collect::<String>())).unwrap();
    for name in [Signal::SIGTERM, Signal::SIGINT, Signal::SIGQUIT] {
        let mut daemon = changing.launch().start();
        daemon.wait_for_event("daemon_started");
        signal(daemon.pid(), name);
        assert_eq!(daemon.wait_for_exit(), 0, "{name}");
        assert_eq!(daemon.events("daemon_draining").len(), 1, "it is the first signal, and not also the second");
    }
}

#[test]
fn a_bad_file_that_becomes_the_running_one_again_is_said_to_be_so() {
    let changing = Changing::new(FAST, &["a"]);
    let daemon = changing.start();
    changing.rename("jobs: {");
    daemon.wait_for_event("table_refused");
    changing.rename(&changing.text(&["a"]));
    daemon.wait_for(|line| line["event"] == "table_unchanged" && line["level"] == "info", LIMIT);
    assert_eq!(daemon.events("table_replaced"), Vec::<Value>::new());
}

#[test]
fn the_same_content_with_a_new_time_or_as_a_new_file_changes_nothing() {
    let changing = Changing::new(SLOW, &["a"]);
    let daemon = changing.start();
    let before = daemon.events("table_unchanged").len();
    fs::File::open(changing.path()).unwrap().set_modified(std::time::UNIX_EPOCH).unwrap();
    daemon.wait_for_many(before + 1, |line| line["event"] == "table_unchanged", LIMIT);
    changing.rename(&changing.text(&["a"]));
    ask(&daemon, 1, "table_unchanged");
    assert_eq!(daemon.events("table_replaced"), Vec::<Value>::new());
}

#[test]
fn a_file_that_is_gone_or_empty_is_no_table_and_a_list_without_jobs_is_one() {
    let changing = Changing::new(SLOW, &["a", "b", "c"]);
    let daemon = changing.start();
    fs::remove_file(changing.path()).unwrap();
    let gone = daemon.wait_for_event("table_refused");
    assert!(gone["first"].as_str().unwrap().contains("E103 the file cannot be read: No such file"), "{gone}");
    fs::write(changing.path(), "").unwrap();
    let empty = nth(&daemon, 2, "table_refused");
    assert!(empty["first"].as_str().unwrap().ends_with("E103 the file is empty"), "{empty}");
    assert_eq!(daemon.events("table_replaced"), Vec::<Value>::new());

    changing.rename(&changing.text(&[]));
    assert_eq!(counts(&daemon.wait_for_event("table_replaced")), [0, 0, 3]);
    let loud = daemon.wait_for(|line| line["event"] == "table_warning" && line["code"] == "W516", LIMIT);
    assert!(loud["detail"].as_str().unwrap().starts_with("3 of 3 jobs left the table with this change"), "{loud}");
}

/// A writer that pauses, but not for a second: a machine that stalls it for so long makes another test of it.
#[test]
fn half_of_a_file_is_never_taken_though_it_would_be_a_table() {
    assert!((0..5).any(|_| half_of_a_file_is_not_taken()), "this machine stalls too often");
}

fn half_of_a_file_is_not_taken() -> bool {
    let changing = Changing::new(FAST, &["a"]);
    let daemon = changing.start();
    let (mut longest, mut last) = (Duration::ZERO, None);
    let jobs = ["a", "b", "c", "d", "e", "f"];
    let text = changing.text(&jobs);
    // Each piece ends with a whole job, so that all before it is a good table.
    let mut written = String::new();
    for piece in text.split_inclusive('\n') {
        written.push_str(piece);
        fs::write(changing.path(), &written).unwrap();
        let now = crate::processes::now();
        longest = last.map_or(longest, |last| longest.max(now.since(last)));
        last = Some(now);
        std::thread::sleep(Duration::from_millis(300));
    }
    if longest > Duration::from_millis(800) {
        return false;
    }
    assert_eq!(counts(&daemon.wait_for_event("table_replaced")), [5, 0, 0]);
    assert_eq!(daemon.events("table_refused"), Vec::<Value>::new());
    true
}

#[test]
fn what_is_doubtful_in_a_new_table_is_said_and_what_it_lacks_here_as_well() {
    let changing = Changing::new(SLOW, &["a"]);
    let daemon = changing.start();
    let jobs = "  - {name: a, schedule: '0 0 13 * FRI', command: [no-such-program]}\n";
    changing.rename(&changing.table(jobs));
    daemon.wait_for_event("table_replaced");
    for code in ["W502", "W511"] {
        daemon.wait_for(|line| line["event"] == "table_warning" && line["code"] == code, LIMIT);
    }
}

#[test]
fn a_run_keeps_what_it_began_with_and_the_next_one_has_what_is_new() {
    let changing = Changing::new(SLOW, &[]);
    let job = |rest: &str| changing.table(&format!("  - {{name: work, schedule: '* * * * * *', {rest}}}\n"));
    let go_on = changing.at("go-on");
    let wait = format!("until [ -e {} ]; do sleep 0.05; done; echo $X hunter2", go_on.display());
    let old = job(&format!("timeout: 1h, env: {{X: old}}, command: '{wait}'"));
    fs::write(changing.path(), &old).unwrap();
    let daemon = changing.start();
    let first = daemon.wait_for_job("run_started", "work");
    let new = job("timeout: 100ms, env: {X: new}, command: 'echo $X hunter2; sleep 600'");
    changing.rename(&new.replace("reloadInterval", "redact: ['hunter[0-9]'], reloadInterval"));
    daemon.wait_for_event("table_replaced");
    // Longer than the new timeout.
    let later = |line: &Value| line["event"] == "run_skipped" && line["reason"] == "overlap";
    daemon.wait_for_many(daemon.lines().iter().filter(|line| later(line)).count() + 2, later, LIMIT);
    fs::write(&go_on, "").unwrap();
    let of_first = |line: &Value, event: &str| line["event"] == event && line["run_id"] == first["run_id"];
    let said = daemon.wait_for(|line| of_first(line, "run_output"), LIMIT);
    assert_eq!(said["line"], "old hunter2", "neither its variables nor what is hidden are others");
    assert_eq!(daemon.wait_for(|line| of_first(line, "run_finished"), LIMIT)["outcome"], "succeeded");
    daemon.wait_for(|line| line["line"] == "new [redacted]", LIMIT);
    daemon.wait_for(|line| line["event"] == "run_finished" && line["outcome"] == "timed_out", LIMIT);
}

#[test]
fn a_job_that_is_removed_while_it_runs_runs_to_its_end_and_not_again() {
    let changing = Changing::new(SLOW, &[]);
    let go_on = changing.at("go-on");
    let wait = format!("until [ -e {} ]; do sleep 0.05; done", go_on.display());
    let jobs = format!("  - {{name: work, schedule: '* * * * * *', command: '{wait}'}}\n");
    fs::write(changing.path(), changing.table(&jobs)).unwrap();
    let mut daemon = changing.start();
    let first = daemon.wait_for_job("run_started", "work");
    changing.rename(&changing.table("  - {name: other, schedule: '* * * * * *', command: 'true'}\n"));
    daemon.wait_for_event("table_replaced");
    daemon.wait_for_job("run_finished", "other");
    fs::write(&go_on, "").unwrap();
    let finished = daemon.wait_for_job("run_finished", "work");
    assert_eq!((&finished["run_id"], &finished["outcome"]), (&first["run_id"], &"succeeded".into()));
    let before = daemon.lines().iter().filter(|line| line["job"] == "other").count();
    daemon.wait_for_many(before + 4, |line| line["job"] == "other", LIMIT);
    daemon.signal(Signal::SIGTERM);
    assert_eq!(daemon.wait_for_exit(), 0);
    assert_eq!(daemon.events("run_started").iter().filter(|line| line["job"] == "work").count(), 1);
}

#[test]
fn places_and_descriptors_follow_the_table() {
    let changing = Changing::new(SLOW, &["a"]);
    let limited = &["sh", "-c", "ulimit -Sn 128; exec \"$0\" \"$@\""];
    let daemon = changing.launch().wrapper(limited).start();
    daemon.wait_for_event("table_unchanged");
    let limit = || {
        let limits = fs::read_to_string(format!("/proc/{}/limits", daemon.pid())).unwrap();
        let line = limits.lines().find(|line| line.starts_with("Max open files")).unwrap().to_owned();
        line.split_whitespace().nth(3).unwrap().to_owned()
    };
    assert_eq!(limit(), "336");
    changing.rename(&changing.text(&["a"]).replace("reloadInterval", "maxConcurrentRuns: 20, reloadInterval"));
    let replaced = daemon.wait_for_event("table_replaced");
    assert_eq!((counts(&replaced), &replaced["detail"]), ([0, 0, 0], &"`scheduler` changed".into()));
    assert_eq!(limit(), "416");
}

#[test]
fn hup_reads_at_once_where_nothing_else_does() {
    let changing = Changing::new("reloadInterval: 0s", &["a"]);
    let daemon = changing.start();
    changing.rename(&changing.text(&["a", "b"]));
    let replaced = ask(&daemon, 1, "table_replaced");
    assert_eq!(replaced["cause"], "signal", "and the folder was not heard of");
    ask(&daemon, 1, "table_unchanged");
}

#[test]
fn hup_while_the_daemon_drains_changes_nothing() {
    let changing = Changing::new(SLOW, &[]);
    let go_on = changing.at("go-on");
    let wait = format!("until [ -e {} ]; do sleep 0.05; done", go_on.display());
    let jobs = format!("  - {{name: work, schedule: '* * * * * *', command: '{wait}'}}\n");
    fs::write(changing.path(), changing.table(&jobs)).unwrap();
    let mut daemon = changing.start();
    daemon.wait_for_job("run_started", "work");
    daemon.signal(Signal::SIGTERM);
    daemon.wait_for_event("daemon_draining");
    changing.rename(&changing.table("  - {name: other, schedule: '* * * * * *', command: 'true'}\n"));
    daemon.signal(Signal::SIGHUP);
    assert_eq!(daemon.wait_for_event("signal_ignored")["signal"], "HUP");
    fs::write(&go_on, "").unwrap();
    assert_eq!(daemon.wait_for_exit(), 0);
    assert_eq!(daemon.wait_for_event("run_finished")["outcome"], "succeeded");
    assert_eq!(daemon.events("table_replaced"), Vec::<Value>::new());
    assert_eq!(daemon.events("job_registered").len(), 1);
}

#[test]
fn a_storm_of_wishes_is_a_few_readings() {
    let changing = Changing::new(SLOW, &["a"]);
    let daemon = changing.start();
    let pid = daemon.pid();
    let begun = crate::processes::now();
    let mut sent = 0;
    while crate::processes::now().since(begun) < Duration::from_secs(2) {
        signal(pid, Signal::SIGHUP);
        changing.rename(&changing.text(&["a"]));
        sent += 1;
    }
    ask(&daemon, 1, "table_unchanged");
    let read = daemon.events("table_unchanged").len();
    assert!(sent > 100 && read <= 20, "{read} readings of {sent} wishes in two seconds");
}

#[test]
fn a_table_from_standard_input_stays_and_that_is_said() {
    let jobs = "jobs: [{name: a, schedule: '@hourly', command: 'true'}]";
    let table = tempfile::NamedTempFile::new().unwrap();
    fs::write(table.path(), jobs).unwrap();
    let shell = ["sh", "-c", "file=$1; shift; exec \"$0\" \"$@\" <$file"];
    // The program is `$0`, and its first argument is taken for the file.
    let path = table.path().display().to_string();
    let daemon = Launch::new(&[&path, "run", "--jobs", "-", "--store", "memory:"]).wrapper(&shell).start();
    daemon.wait_for_event("daemon_ready");
    assert_eq!(daemon.wait_for_event("config_not_reloadable")["file"], "-");
    daemon.signal(Signal::SIGHUP);
    assert_eq!(daemon.wait_for_event("signal_ignored")["signal"], "HUP");
}

#[test]
fn reload_asks_the_daemon_that_is_named_and_no_other_program() {
    let changing = Changing::new("reloadInterval: 0s", &["a"]);
    let daemon = changing.start();
    changing.rename(&changing.text(&["b"]));
    let pid = daemon.pid().to_string();
    let output = Launch::new(&["reload", "--pid", &pid]).output();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert_eq!(daemon.wait_for_event("table_replaced")["cause"], "signal");

    let own = std::process::id().to_string();
    let output = Launch::new(&["reload", "--pid", &own]).output();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(69), "{said}");
    assert!(said.contains("is no `onecron run`"), "{said}");
    let output = Launch::new(&["reload", "--pid", "0"]).output();
    assert_eq!(output.status.code(), Some(2));
}

/// In a world of its own, in which it sees no other daemons; where that can be had.
#[test]
fn a_file_that_is_mounted_alone_is_warned_of() {
    let changing = Changing::new(SLOW, &["a"]);
    fs::write(changing.at("from.yaml"), changing.text(&["a"])).unwrap();
    let script = format!(
        "mount --bind {} {} && exec \"$0\" \"$@\"",
        changing.at("from.yaml").display(),
        changing.path().display()
    );
    let alone = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", &script];
    let works = std::process::Command::new(alone[0]).args(&alone[1..]).arg("true").status();
    if !works.is_ok_and(|status| status.success()) {
        println!("SKIPPED: this machine allows no mounts");
        return;
    }
    let daemon = changing.launch().wrapper(&alone).start();
    assert_eq!(daemon.wait_for_event("config_not_reloadable")["file"], changing.path().display().to_string());
    until("it runs", || !daemon.events("daemon_ready").is_empty());
}

#[test]
fn signals_that_mean_something_to_other_daemons_end_none() {
    let changing = Changing::new(SLOW, &[]);
    let mut daemon = changing.start();
    daemon.wait_for_event("daemon_ready");
    for (signal, name) in [(Signal::SIGUSR1, "USR1"), (Signal::SIGUSR2, "USR2")] {
        daemon.signal(signal);
        daemon.wait_for(
            |line| line["event"] == "signal_ignored" && line["signal"] == name,
            crate::support::daemon::LIMIT,
        );
    }
    daemon.signal(Signal::SIGTERM);
    assert_eq!(daemon.wait_for_exit(), 0);
}
