//! What tests with real processes share.

use nix::sys::signal::Signal;
use nix::sys::signal::kill;
use nix::unistd::Pid;
use onecron::clock::Boot;
use onecron::clock::Clock;
use onecron::clock::SystemClock;
use onecron::executor::Exit;
use onecron::executor::OutputLine;
use onecron::executor::RunContext;
use onecron::executor::Running;
use onecron::executor::start;
use onecron::job::CommandSpec;
use onecron::job::JobName;
use onecron::job::OutputLimits;
use onecron::job::OutputMode;
use onecron::job::Program;
use onecron::job::ReplicaId;
use onecron::job::RunKey;
use onecron::job::Tick;
use onecron::secret::Redaction;
use std::time::Duration;
use tokio::sync::mpsc;

pub const LIMITS: OutputLimits = OutputLimits { mode: OutputMode::Log, max_line_bytes: 8 << 10, keep_tail: 16 << 10 };

pub fn now() -> Boot {
    SystemClock.now().boot
}

pub fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// Waits until a state holds.
pub fn until(what: &str, holds: impl FnMut() -> bool) {
    until_limit(what, Duration::from_secs(20), holds);
}

/// Waits so long at most until a state holds.
pub fn until_limit(what: &str, limit: Duration, mut holds: impl FnMut() -> bool) {
    let end = now() + limit;
    while !holds() {
        assert!(now() < end, "waited {limit:?} until {what}");
        std::thread::sleep(millis(5));
    }
}

/// A line for a shell.
pub fn shell(line: &str) -> CommandSpec {
    let shell = vec!["/bin/sh".to_string(), "-c".to_string()];
    CommandSpec::of(Program::Shell { shell, line: line.to_string() })
}

/// A program and its arguments.
pub fn direct(argv: &[&str]) -> CommandSpec {
    let argv = argv.iter().map(ToString::to_string).collect();
    CommandSpec::of(Program::Direct(argv))
}

/// A run of a job. No two tests use the same name: guardians look for runs in the whole machine.
pub fn context(job: &str) -> RunContext {
    RunContext {
        run: RunKey::new(JobName::new(job).unwrap(), Tick::from_seconds(1_772_330_400)),
        scheduled_for: Tick::from_seconds(1_772_330_400),
        start: 1,
        token: 42,
        trigger: "schedule".to_string(),
        holder: ReplicaId::new("test", &std::process::id().to_string()),
        last_success: None,
        redaction: Redaction::default(),
        trace: None,
    }
}

/// Starts a command, and gives what its lines come through.
pub fn started(command: &CommandSpec, job: &str) -> (Running, mpsc::Receiver<OutputLine>) {
    let (sender, receiver) = mpsc::channel(1024);
    (start(command, LIMITS, &context(job), sender).unwrap(), receiver)
}

/// The next line, as a number.
pub async fn number(lines: &mut mpsc::Receiver<OutputLine>) -> i32 {
    let line = tokio::time::timeout(Duration::from_secs(20), lines.recv()).await.expect("a line comes").unwrap().line;
    line.trim().parse().unwrap_or_else(|_| panic!("{line:?} is a number"))
}

/// Runs a command to its end.
pub async fn run(command: &CommandSpec, job: &str) -> (Exit, Vec<OutputLine>) {
    run_with(command, LIMITS, &context(job)).await
}

/// The same, with limits and a context of the test's own.
pub async fn run_with(command: &CommandSpec, limits: OutputLimits, context: &RunContext) -> (Exit, Vec<OutputLine>) {
    let (sender, mut receiver) = mpsc::channel(1024);
    let running = start(command, limits, context, sender).unwrap();
    let reader = tokio::spawn(async move {
        let mut lines = Vec::new();
        while let Some(line) = receiver.recv().await {
            lines.push(line);
        }
        lines
    });
    let exit = running.wait().await;
    (exit, reader.await.unwrap())
}

/// Whether a process is there and has not ended.
pub fn is_alive(pid: i32) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/stat"))
        .is_ok_and(|stat| !stat.rsplit_once(')').unwrap().1.trim_start().starts_with('Z'))
}

/// Whether there is such a process, dead or alive.
pub fn is_there(pid: i32) -> bool {
    std::path::Path::new(&format!("/proc/{pid}")).exists()
}

/// Signals one process that the test has started.
pub fn signal(pid: i32, signal: Signal) {
    kill(Pid::from_raw(pid), signal).unwrap();
}
