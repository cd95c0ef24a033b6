//! The guardian: what it stops when the daemon cannot, and what it lets live.

use crate::processes::context;
use crate::processes::is_alive;
use crate::processes::is_there;
use crate::processes::millis;
use crate::processes::now;
use crate::processes::shell;
use crate::processes::signal;
use crate::processes::started;
use crate::processes::until;
use nix::sys::signal::Signal;
use onecron::executor::guardian::Handle;
use onecron::executor::guardian::Until;
use std::io::BufRead;
use std::io::BufReader;
use std::path::Path;
use std::process::Child;
use std::process::Command;
use std::process::Stdio;
use std::time::Duration;

const PROGRAM: &str = env!("CARGO_BIN_EXE_onecron");
const GRACE: Duration = Duration::from_millis(500);

fn guardian() -> Handle {
    Handle::spawn(Path::new(PROGRAM)).unwrap()
}

fn arm(handle: &Handle, job: &str, after: u64) {
    let context = context(job);
    let until = Until { term_at: now() + millis(after), kill_after: GRACE };
    handle.arm(&context.run, context.start, &context.holder, until).unwrap();
}

fn adopt(handle: &Handle, job: &str, pid: i32) {
    handle.adopt(&context(job).run, 1, pid.unsigned_abs()).unwrap();
}

/// A job that is started and never waited for here: that its process ends is seen from outside.
struct Job {
    running: onecron::executor::Running,
    lines: tokio::sync::mpsc::Receiver<onecron::executor::OutputLine>,
}

impl Job {
    fn start(line: &str, job: &str) -> Self {
        let (running, lines) = started(&shell(line), job);
        Self { running, lines }
    }

    fn pid(&self) -> i32 {
        i32::try_from(self.running.pid()).unwrap()
    }
}

/// What the stand-in runs: jobs that print nothing, and so do not die of a closed pipe.
const SLEEPER: &str = "exec sleep 1000";

// A daemon that is killed or frozen: this test program once more, as a process of its own.

/// Starts one run that is armed and one that is not, says their numbers, and does nothing more.
#[tokio::test]
async fn stand_in() {
    let Ok(jobs) = std::env::var("STAND_IN") else { return };
    let (armed, free) = (format!("{jobs}-armed"), format!("{jobs}-free"));
    let guardian = guardian();
    arm(&guardian, &armed, 1500);
    let (guarded, unguarded) = (Job::start(SLEEPER, &armed), Job::start(SLEEPER, &free));
    adopt(&guardian, &armed, guarded.pid());
    println!("pids {} {} {}", guarded.pid(), unguarded.pid(), guardian.pid().unwrap());
    std::future::pending::<()>().await;
}

struct StandIn {
    process: Child,
    armed: i32,
    free: i32,
    guardian: i32,
}

impl StandIn {
    fn start(jobs: &str) -> Self {
        // With a file open that every child inherits, as a supervisor may leave one.
        let mut command = Command::new("/bin/sh");
        command.args(["-c", "exec 7</dev/null; exec \"$@\"", "sh"]).arg(std::env::current_exe().unwrap());
        command.args(["--exact", "guardian::stand_in", "--nocapture", "--test-threads=1"]).env("STAND_IN", jobs);
        let mut process = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let lines = BufReader::new(process.stdout.take().unwrap()).lines();
        // The test harness says things on the same line.
        let said = lines.map_while(Result::ok).find_map(|line| Some(line.split_once("pids ")?.1.to_string()));
        let pids: Vec<i32> = said.unwrap().split(' ').map(|pid| pid.parse().unwrap()).collect();
        Self { process, armed: pids[0], free: pids[1], guardian: pids[2] }
    }

    fn pid(&self) -> i32 {
        i32::try_from(self.process.id()).unwrap()
    }
}

impl Drop for StandIn {
    fn drop(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
        if is_alive(self.free) {
            signal(self.free, Signal::SIGKILL);
        }
    }
}

#[test]
fn after_kill_9_of_the_daemon_what_is_armed_is_gone_by_its_deadline_and_the_rest_lives() {
    let mut daemon = StandIn::start("killed");
    assert!(is_alive(daemon.armed) && is_alive(daemon.free));
    daemon.process.kill().unwrap();
    daemon.process.wait().unwrap();
    until("the armed run is gone", || !is_alive(daemon.armed));
    assert!(is_alive(daemon.free), "nobody armed this one");
    until("the guardian has nothing left to do and ends", || !is_alive(daemon.guardian));
}

#[test]
fn while_the_daemon_stands_still_what_is_armed_is_gone_by_its_deadline() {
    let daemon = StandIn::start("frozen");
    signal(daemon.pid(), Signal::SIGSTOP);
    until("the armed run is gone", || !is_alive(daemon.armed));
    assert!(is_alive(daemon.free) && is_alive(daemon.guardian));
}

#[test]
fn signals_for_the_daemons_terminal_do_not_reach_the_guardian() {
    let daemon = StandIn::start("signals");
    for number in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP, Signal::SIGQUIT] {
        signal(daemon.guardian, number);
    }
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", daemon.guardian)).unwrap();
    let session: i32 = stat.rsplit_once(')').unwrap().1.split_whitespace().nth(3).unwrap().parse().unwrap();
    assert_eq!(session, daemon.guardian, "it has a session of its own");
    let target = |fd: i32| std::fs::read_link(format!("/proc/{}/fd/{fd}", daemon.guardian)).unwrap_or_default();
    assert_eq!((target(1).to_str(), target(2).to_str()), (Some("/dev/null"), Some("/dev/null")));
    assert!(!target(7).ends_with("null"), "what the daemon inherited is not held open");
    until("it does its duty", || !is_alive(daemon.armed));
}

// The guardian from the daemon's side.

#[tokio::test]
async fn an_extension_keeps_a_run_alive() {
    let guardian = guardian();
    let jobs = ["extended", "not-extended"].map(|job| {
        arm(&guardian, job, 1500);
        let started = Job::start(SLEEPER, job);
        adopt(&guardian, job, started.pid());
        started
    });
    guardian.extend(&context("extended").run, 1, now() + Duration::from_secs(1000)).unwrap();
    until("the other is gone", || !is_alive(jobs[1].pid()));
    assert!(is_alive(jobs[0].pid()));
    guardian.disarm(&context("extended").run, 1).unwrap();
}

#[tokio::test]
async fn an_extension_that_was_sent_in_time_counts_even_if_it_is_read_too_late() {
    let guardian = guardian();
    arm(&guardian, "read-late", 1500);
    let job = Job::start(SLEEPER, "read-late");
    adopt(&guardian, "read-late", job.pid());
    let deadline = now() + millis(1500);
    let process = i32::try_from(guardian.pid().unwrap()).unwrap();
    signal(process, Signal::SIGSTOP);
    guardian.extend(&context("read-late").run, 1, now() + Duration::from_secs(1000)).unwrap();
    until("the old deadline has passed", || now() > deadline);
    signal(process, Signal::SIGCONT);
    arm(&guardian, "read-late-end", 0);
    let end = Job::start(SLEEPER, "read-late-end");
    until("it acts again", || !is_alive(end.pid()));
    assert!(is_alive(job.pid()));
    guardian.disarm(&context("read-late").run, 1).unwrap();
}

#[tokio::test]
async fn what_is_disarmed_lives() {
    let guardian = guardian();
    let jobs = ["disarmed", "still-armed"].map(|job| {
        arm(&guardian, job, 1500);
        let started = Job::start(SLEEPER, job);
        adopt(&guardian, job, started.pid());
        started
    });
    guardian.disarm(&context("disarmed").run, 1).unwrap();
    until("the other is gone", || !is_alive(jobs[1].pid()));
    assert!(is_alive(jobs[0].pid()));
}

#[tokio::test]
async fn a_run_that_ignores_term_is_killed_after_the_grace() {
    let guardian = guardian();
    let before = now();
    arm(&guardian, "ignores-term", 200);
    let mut job = Job::start("trap '' TERM; sleep 1000 & echo $!; wait; while :; do sleep 1; done", "ignores-term");
    adopt(&guardian, "ignores-term", job.pid());
    let leader = job.pid();
    let reader = tokio::spawn(async move {
        let child = crate::processes::number(&mut job.lines).await;
        (child, job.lines)
    });
    let _ended = tokio::spawn(job.running.wait());
    let (child, _lines) = reader.await.unwrap();
    tokio::task::spawn_blocking(move || until("all are gone", || !is_alive(leader) && !is_alive(child))).await.unwrap();
    assert!(now().since(before) >= millis(200) + GRACE);
}

#[tokio::test]
async fn a_run_that_was_never_reported_is_found_by_its_environment_and_so_is_what_left_the_group() {
    let guardian = guardian();
    arm(&guardian, "not-adopted", 500);
    let mut job = Job::start("setsid sh -c 'echo $$; exec sleep 1000' & exec sleep 1000", "not-adopted");
    let leader = job.pid();
    let reader = tokio::spawn(async move {
        let escaped = crate::processes::number(&mut job.lines).await;
        (escaped, job.lines)
    });
    let _ended = tokio::spawn(job.running.wait());
    let (escaped, _lines) = reader.await.unwrap();
    tokio::task::spawn_blocking(move || until("both are gone", || !is_alive(leader) && !is_alive(escaped)))
        .await
        .unwrap();
}

#[tokio::test]
async fn the_same_run_of_another_replica_is_left_alone() {
    let guardian = guardian();
    let job = Job::start(SLEEPER, "whose");
    let (run, other) = (context("whose").run, onecron::job::ReplicaId::new("other", "1"));
    guardian.arm(&run, 1, &other, Until { term_at: now(), kill_after: Duration::ZERO }).unwrap();
    arm(&guardian, "whose-end", 300);
    let end = Job::start(SLEEPER, "whose-end");
    until("a later deadline has passed", || !is_alive(end.pid()));
    assert!(is_alive(job.pid()));
}

#[tokio::test]
async fn a_process_that_is_reported_after_its_deadline_is_stopped_at_once() {
    let guardian = guardian();
    arm(&guardian, "late-report", 0);
    arm(&guardian, "late-end", 600);
    let end = Job::start(SLEEPER, "late-end");
    until("KILL's time has passed", || !is_alive(end.pid()));
    let job = Job::start("exec env -i sleep 1000", "late-report");
    adopt(&guardian, "late-report", job.pid());
    until("it is gone", || !is_alive(job.pid()));
}

#[tokio::test]
async fn a_number_that_is_now_somebody_elses_is_not_signalled() {
    let guardian = guardian();
    // Leads a group, but is neither a child of this process nor marked.
    let line = "setsid sleep 1000 >/dev/null 2>&1 & echo $!";
    let output = Command::new("sh").args(["-c", line]).output().unwrap();
    let stranger: i32 = String::from_utf8(output.stdout).unwrap().trim().parse().unwrap();
    until("it leads its group", || {
        std::fs::read_to_string(format!("/proc/{stranger}/cmdline")).is_ok_and(|line| line.starts_with("sleep"))
    });
    arm(&guardian, "recycled", 100);
    arm(&guardian, "recycled-end", 400);
    adopt(&guardian, "recycled", stranger);
    let end = Job::start(SLEEPER, "recycled-end");
    until("the deadline has passed", || !is_alive(end.pid()));
    assert!(is_alive(stranger));
    signal(stranger, Signal::SIGKILL);
}

#[tokio::test]
async fn a_guardian_that_died_is_replaced_and_told_everything_again() {
    let guardian = guardian();
    for job in ["rearmed", "renewed"] {
        arm(&guardian, job, 1500);
    }
    let job = Job::start("exec env -i sleep 1000", "rearmed");
    adopt(&guardian, "rearmed", job.pid());
    let first = i32::try_from(guardian.pid().unwrap()).unwrap();
    signal(first, Signal::SIGKILL);
    until("it is dead", || !is_alive(first));
    // Any use will do.
    guardian.extend(&context("renewed").run, 1, now() + millis(1600)).unwrap();
    assert_ne!(guardian.pid().unwrap(), first.unsigned_abs());
    until("the run of the other message is gone", || !is_alive(job.pid()));
    until("the dead one is reaped", || !is_there(first));
}

#[tokio::test]
async fn a_guardian_that_does_not_listen_is_replaced() {
    let guardian = guardian();
    arm(&guardian, "deaf", 1_000_000);
    let first = guardian.pid().unwrap();
    signal(i32::try_from(first).unwrap(), Signal::SIGSTOP);
    let mut count = 0;
    while guardian.pid() == Some(first) {
        guardian.extend(&context("deaf").run, 1, now() + Duration::from_secs(1000)).unwrap();
        count += 1;
        assert!(count < 10_000, "so many messages were taken without being read");
    }
    let before = now();
    arm(&guardian, "deaf-end", 100);
    let job = Job::start(SLEEPER, "deaf-end");
    until("the new one does its duty", || !is_alive(job.pid()));
    until("the old one is gone, and will not act on what it knew", || !is_there(i32::try_from(first).unwrap()));
    assert!(now().since(before) < Duration::from_secs(5));
    guardian.disarm(&context("deaf").run, 1).unwrap();
}

#[test]
fn a_program_that_is_no_guardian_is_found_out_at_the_start() {
    let error = Handle::spawn(Path::new("/bin/true")).unwrap_err();
    assert!(error.to_string().starts_with("start the guardian: "), "{error}");
    assert!(Handle::spawn(Path::new("/no/such/program")).is_err());
}

#[test]
fn without_a_guardian_nothing_counts_as_armed() {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("onecron");
    std::os::unix::fs::symlink(PROGRAM, &program).unwrap();
    let guardian = Handle::spawn(&program).unwrap();
    std::fs::remove_file(&program).unwrap();
    let first = i32::try_from(guardian.pid().unwrap()).unwrap();
    signal(first, Signal::SIGKILL);
    until("it is dead", || !is_alive(first));
    let context = context("unguarded");
    let until = Until { term_at: now(), kill_after: GRACE };
    assert!(guardian.arm(&context.run, 1, &context.holder, until).is_err());
    assert!(guardian.extend(&context.run, 1, now()).is_ok(), "it is not armed, there is nothing to extend");
}
