//! Processes of runs: how they start, what they are told, what is read of them, and how they end.

use crate::processes::LIMITS;
use crate::processes::context;
use crate::processes::direct;
use crate::processes::is_alive;
use crate::processes::is_there;
use crate::processes::now;
use crate::processes::number;
use crate::processes::run;
use crate::processes::shell;
use crate::processes::started;
use crate::processes::until;
use nix::sys::prctl::set_child_subreaper;
use onecron::clock::Boot;
use onecron::clock::Clock;
use onecron::clock::Now;
use onecron::executor::Deadline;
use onecron::executor::SpawnError;
use onecron::executor::Stream;
use onecron::executor::reap_orphans;
use onecron::executor::start;
use onecron::job::CommandSpec;
use onecron::job::EnvValue;
use onecron::job::OutputLimits;
use onecron::job::OutputMode;
use onecron::job::Tick;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::sync::mpsc;

#[tokio::test]
async fn the_exit_code_and_both_streams_are_reported() {
    let (exit, lines) = run(&shell("echo out; echo err >&2; printf half; exit 7"), "exit-code").await;
    assert_eq!((exit.code, exit.signal), (Some(7), None));
    assert_eq!((exit.output_bytes, exit.pipe_held_open, exit.dropped_lines), (12, false, 0));
    let mut found: Vec<(Stream, &str)> = lines.iter().map(|line| (line.stream, line.line.as_str())).collect();
    found.sort_unstable();
    assert_eq!(found, [(Stream::Stdout, "half"), (Stream::Stdout, "out"), (Stream::Stderr, "err")]);
    assert!(lines.iter().all(|line| line.start == 1 && line.run == context("exit-code").run));
}

#[tokio::test]
async fn a_signal_is_reported_as_such() {
    let (exit, _) = run(&shell("kill -KILL $$"), "signal").await;
    assert_eq!((exit.code, exit.signal), (None, Some(9)));
}

/// It has a number and no name.
#[tokio::test]
async fn a_real_time_signal_is_reported_by_its_number() {
    for (name, number) in [("RTMIN", 34), ("RTMAX", 64)] {
        let (exit, _) = run(&direct(&["/bin/bash", "-c", &format!("kill -{name} $$; sleep 20")]), "real-time").await;
        assert_eq!((exit.code, exit.signal), (None, Some(number)));
    }
}

#[tokio::test]
async fn a_list_is_not_read_by_a_shell_and_standard_input_is_empty() {
    let (_, lines) = run(&direct(&["printf", "%s|", "a  b", "$HOME", ";"]), "list").await;
    assert_eq!(lines[0].line, "a  b|$HOME|;|");
    let (exit, _) = run(&direct(&["cat"]), "stdin").await;
    assert_eq!((exit.code, exit.output_bytes), (Some(0), 0));
}

#[tokio::test]
async fn a_job_leads_its_own_process_group() {
    let (running, mut lines) = started(&shell("ps -o pgid= -p $$"), "group");
    let pid = running.pid();
    running.wait().await;
    assert_eq!(number(&mut lines).await.unsigned_abs(), pid);
}

// The environment.

/// What a command with an environment prints, and how it was not started.
async fn printed(command: &CommandSpec) -> Result<String, SpawnError> {
    let (sender, mut lines) = mpsc::channel(100);
    start(command, LIMITS, &context("env"), sender)?.wait().await;
    let mut text = String::new();
    while let Some(line) = lines.recv().await {
        text += &(line.line + "\n");
    }
    Ok(text)
}

#[tokio::test]
async fn a_job_that_inherits_nothing_has_the_basic_variables_and_its_own() {
    let mut command = shell("env | cut -d= -f1 | grep -vE '^(ONECRON_|_$|PWD|SHLVL)' | sort");
    assert!(printed(&command).await.unwrap().contains("CARGO_MANIFEST_DIR\n"));
    command.inherit_env = false;
    command.env.insert("OWN".into(), EnvValue::Text("x".into()));
    let text = printed(&command).await.unwrap();
    let names: Vec<&str> = text.lines().collect();
    assert!(names.contains(&"OWN") && names.contains(&"PATH"), "{names:?}");
    assert!(names.iter().all(|name| ["OWN", "PATH", "HOME", "LANG", "TZ"].contains(name)), "{names:?}");
}

#[tokio::test]
async fn values_from_elsewhere_are_those_of_the_start_and_stand_in_no_error() {
    let folder = tempfile::tempdir().unwrap();
    let secret = folder.path().join("secret");
    let mut command = shell("printf '[%s] [%s]\\n' \"$A\" \"$B\"");
    command.env.insert("A".into(), EnvValue::FromEnv("CARGO_PKG_NAME".into()));
    command.env.insert("B".into(), EnvValue::FromFile(secret.clone()));
    let missing = printed(&command).await.unwrap_err().to_string();
    assert!(missing.starts_with("start the job: set its variable `B` from the file `"), "{missing}");
    for (content, value) in [("one\n", "one"), ("two\r\n", "two"), ("a b\n\n", "a b\n"), ("", "")] {
        std::fs::write(&secret, content).unwrap();
        assert_eq!(printed(&command).await.unwrap(), format!("[onecron] [{value}]\n"));
    }
    for content in [b"hidden\0".to_vec(), vec![b'h'; 65_537]] {
        std::fs::write(&secret, &content).unwrap();
        let error = printed(&command).await.unwrap_err().to_string();
        assert!(error.contains("NUL") || error.contains("more than 64 KiB"), "{error}");
        assert!(!error.contains("hid") && !error.contains("hhh"), "{error}");
    }
    command.env.insert("A".into(), EnvValue::FromEnv("NO_SUCH_VARIABLE".into()));
    let missing = printed(&command).await.unwrap_err().to_string();
    assert!(missing.contains("`A` from the daemon's variable `NO_SUCH_VARIABLE`"), "{missing}");
}

#[tokio::test]
async fn a_job_is_told_about_its_run() {
    let mut context = context("told");
    context.last_success = Some(Tick::from_seconds(1_772_244_000));
    let mut command = shell("env | grep -E '^(ONECRON_|COLOUR|HOME)' | sort");
    command.env.insert("COLOUR".into(), EnvValue::Text("red".into()));
    command.env.insert("HOME".into(), EnvValue::Text("/elsewhere".into()));
    let (sender, mut lines) = mpsc::channel(100);
    start(&command, LIMITS, &context, sender).unwrap().wait().await;
    let mut text = String::new();
    while let Some(line) = lines.recv().await {
        text += &(line.line + "\n");
    }
    let expected = "\
COLOUR=red
HOME=/elsewhere
ONECRON_ATTEMPT=1
ONECRON_FENCING_TOKEN=42
ONECRON_JOB=told
ONECRON_LAST_SUCCESS=2026-02-28T02:00:00Z
ONECRON_REPLICA=<holder>
ONECRON_RUN_ID=told@2026-03-01T02:00:00Z
ONECRON_SCHEDULED_FOR=2026-03-01T02:00:00Z
ONECRON_TRIGGER=schedule
";
    assert_eq!(text, expected.replace("<holder>", context.holder.as_str()));
}

/// This test in a process of its own, with some variables more.
fn myself(test: &str, variables: &[(&str, &str)]) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", test, "--nocapture", "--test-threads=1"]).envs(variables.iter().copied());
    command
}

#[tokio::test]
async fn the_daemons_own_settings_are_not_inherited() {
    if std::env::var_os("ONECRON_STORE").is_none() {
        let variables = [("ONECRON_STORE", "redis://:secret@r"), ("ONECRON_RUN_ID", "outer"), ("INHERITED", "yes")];
        let output = myself("executor::the_daemons_own_settings_are_not_inherited", &variables).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        return;
    }
    let (exit, _) = run(&shell("echo \"${ONECRON_STORE-none} $ONECRON_RUN_ID $INHERITED\""), "own-settings").await;
    assert_eq!(exit.output_tail, "none own-settings@2026-03-01T02:00:00Z yes\n");
}

#[tokio::test]
async fn a_job_runs_in_its_working_dir() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = shell("pwd");
    command.working_dir = Some(folder.path().to_path_buf());
    assert_eq!(run(&command, "folder").await.0.output_tail.trim_end(), folder.path().to_str().unwrap());
}

// What cannot be started.

#[tokio::test]
async fn what_is_missing_is_named() {
    let failed = |command| start(&command, LIMITS, &context("missing"), mpsc::channel(1).0).map(drop).unwrap_err();
    assert!(
        matches!(failed(direct(&["no-such-program"])), SpawnError::MissingProgram { program } if program == "no-such-program")
    );
    let mut shellless = shell("true");
    shellless.program =
        onecron::job::Program::Shell { shell: vec!["/bin/fish9".into(), "-c".into()], line: "true".into() };
    assert!(matches!(failed(shellless), SpawnError::MissingShell { shell } if shell == "/bin/fish9"));
    let mut homeless = shell("true");
    homeless.working_dir = Some("/no/such/folder".into());
    let error = failed(homeless);
    assert!(error.to_string().contains("`workingDir: /no/such/folder` is not a folder here"), "{error}");
    assert!(matches!(failed(direct(&["/etc/passwd"])), SpawnError::NotPermitted { path } if path == "/etc/passwd"));
    assert!(matches!(failed(direct(&["/usr"])), SpawnError::Folder { program } if program == "/usr"));
    assert!(matches!(failed(direct(&["a\0b"])), SpawnError::Other { .. }));
}

#[tokio::test]
async fn a_script_that_nothing_can_interpret_is_told_from_a_missing_one() {
    let folder = tempfile::tempdir().unwrap();
    let script = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        direct(&[path.to_str().unwrap()])
    };
    let failed = |command| start(&command, LIMITS, &context("script"), mpsc::channel(1).0).map(drop).unwrap_err();
    assert!(matches!(failed(script("a", "#!/bin/sh\r\ntrue\r\n")), SpawnError::MissingInterpreter { .. }));
    assert!(matches!(failed(script("b", "true\n")), SpawnError::NotAProgram { .. }));
}

/// Jumps an hour ahead at each look.
struct Jumping(AtomicU64);

impl Clock for Jumping {
    fn now(&self) -> Now {
        let hours = self.0.fetch_add(1, Ordering::Relaxed);
        Now { wall: chrono::DateTime::UNIX_EPOCH, boot: Boot::from_nanos(hours * 3_600_000_000_000) }
    }
}

#[tokio::test]
async fn nothing_is_started_after_the_deadline() {
    let folder = tempfile::tempdir().unwrap();
    let mark = folder.path().join("mark");
    let command = direct(&["touch", mark.to_str().unwrap()]);
    let deadline = Deadline { not_after: Some(Boot::from_nanos(1)), clock: &Jumping(AtomicU64::new(1)) };
    let started = deadline.start(&command, LIMITS, &context("too-late"), mpsc::channel(1).0);
    assert!(matches!(started, Err(SpawnError::TooLate)));
    assert!(!mark.exists());
}

#[tokio::test]
async fn what_was_started_while_the_deadline_passed_is_killed_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = shell("exec sleep 1000");
    command.env.insert("MARK".into(), EnvValue::Text(folder.path().to_str().unwrap().into()));
    let marked = || {
        let mark = format!("MARK={}", folder.path().display());
        let is_marked = |pid: &i32| {
            let environ = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            environ.split(|byte| *byte == 0).any(|entry| entry == mark.as_bytes())
        };
        let entries = std::fs::read_dir("/proc").unwrap();
        entries.filter_map(|entry| entry.unwrap().file_name().to_str()?.parse().ok()).find(is_marked)
    };
    // In time at the look before the start, an hour late at the look after it.
    let deadline = Deadline { not_after: Some(Boot::from_nanos(1)), clock: &Jumping(AtomicU64::new(0)) };
    let started = deadline.start(&command, LIMITS, &context("too-late-after"), mpsc::channel(1).0);
    assert!(matches!(started, Err(SpawnError::TooLate)));
    until("it is gone", || marked().is_none());
}

// Output.

#[tokio::test]
async fn a_line_without_end_is_cut_and_seen_before_the_job_ends() {
    let (sender, mut lines) = mpsc::channel(10);
    let limits = OutputLimits { mode: OutputMode::Log, max_line_bytes: 10, keep_tail: 4 };
    let command = shell("printf '0123456789abc'; exec sleep 1000");
    let running = start(&command, limits, &context("endless"), sender).unwrap();
    let stopper = running.stopper();
    let ended = tokio::spawn(running.wait());
    let line = lines.recv().await.unwrap();
    assert_eq!((line.line.as_str(), line.truncated), ("0123456789", true));
    stopper.kill();
    let exit = ended.await.unwrap();
    assert_eq!((exit.truncated_lines, exit.output_tail.as_str(), exit.output_bytes), (1, "9abc", 13));
    assert_eq!(lines.recv().await, None);
}

#[tokio::test]
async fn a_bad_byte_does_not_lose_its_line() {
    let (exit, lines) = run(&shell(r"printf 'a\200b\nnext\n'"), "bad-byte").await;
    assert_eq!(lines.iter().map(|line| line.line.as_str()).collect::<Vec<_>>(), ["a\u{fffd}b", "next"]);
    assert_eq!(exit.output_tail, "a\u{fffd}b\nnext\n");
}

#[tokio::test]
async fn a_burst_is_handed_on_whole_to_a_taker_that_reads() {
    let (running, mut lines) = started(&shell("seq 50000"), "burst");
    let reader = tokio::spawn(async move {
        let mut expected = 0;
        while let Some(line) = lines.recv().await {
            expected += 1;
            assert_eq!(line.line, expected.to_string());
        }
        expected
    });
    let exit = running.wait().await;
    assert_eq!((reader.await.unwrap(), exit.dropped_lines), (50000, 0));
}

#[tokio::test]
async fn a_taker_that_is_stuck_does_not_hold_the_job_up_for_ever() {
    let (sender, mut lines) = mpsc::channel(4);
    let running = start(&shell("seq 100000"), LIMITS, &context("stuck"), sender).unwrap();
    let exit = running.wait().await;
    assert_eq!((exit.code, exit.dropped_lines), (Some(0), 100_000 - 4));
    assert!(exit.output_tail.ends_with("99999\n100000\n"), "the tail has what nobody took");
    assert_eq!(lines.recv().await.unwrap().line, "1");
}

/// What the pipe holds when the process has ended is what an operator wants to see most.
#[tokio::test]
async fn what_was_printed_last_is_in_the_tail_also_when_the_taker_is_stuck_at_the_end() {
    let (sender, _stuck) = mpsc::channel(4);
    let running = start(&shell("seq 9000; exit 3"), LIMITS, &context("stuck-end"), sender).unwrap();
    let exit = running.wait().await;
    assert_eq!((exit.code, exit.output_bytes, exit.dropped_lines), (Some(3), 43_893, 9000 - 4));
    assert!(exit.output_tail.ends_with("8999\n9000\n"), "{}", exit.output_tail);
}

/// The most memory that this process ever had, in KiB.
fn peak_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

#[tokio::test]
async fn a_flood_of_output_takes_no_memory() {
    if std::env::var_os("FLOOD").is_none() {
        let output = myself("executor::a_flood_of_output_takes_no_memory", &[("FLOOD", "1")]).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        return;
    }
    let before = peak_kib();
    let (running, mut lines) = started(&shell("yes | head -c 3000000; yes | tr -d '\\n' | head -c 30000000"), "flood");
    let reader = tokio::spawn(async move {
        let mut count = 0;
        while lines.recv().await.is_some() {
            count += 1;
        }
        count
    });
    let exit = running.wait().await;
    assert_eq!(exit.output_bytes, 33_000_000);
    assert_eq!(reader.await.unwrap() + exit.dropped_lines, 1_500_001);
    assert!(peak_kib() - before < 16 << 10, "grew from {before} to {} KiB", peak_kib());
}

// Ends.

#[tokio::test]
async fn a_run_ends_with_its_process_even_if_another_holds_the_pipe() {
    let before = now();
    let (running, mut lines) = started(&shell("sleep 1000 & echo $!"), "held");
    let exit = running.wait().await;
    assert!(now().since(before) < Duration::from_secs(5));
    assert_eq!((exit.code, exit.pipe_held_open), (Some(0), true));
    let left = number(&mut lines).await;
    assert!(is_alive(left), "a run that nobody stops leaves its children alone");
    crate::processes::signal(left, nix::sys::signal::Signal::SIGKILL);
}

#[tokio::test]
async fn what_a_child_says_shortly_after_the_end_is_still_read() {
    let line = "(for i in 1 2 3 4 5 6 7; do sleep 0.1; echo $i; done) & exit 3";
    let (exit, lines) = run(&shell(line), "late-words").await;
    assert_eq!((exit.code, exit.pipe_held_open, lines.len()), (Some(3), false, 7));
}

#[tokio::test]
async fn a_child_that_talks_on_does_not_keep_the_run() {
    let before = now();
    let (exit, _) = run(&shell("yes & exit 0"), "talks-on").await;
    assert!(exit.pipe_held_open && now().since(before) < Duration::from_secs(10));
}

#[tokio::test]
async fn terminate_reaches_the_whole_group_and_gives_it_its_grace() {
    // The shell dies of TERM at once; what it started needs a moment to put things in order.
    let worker = "sh -c 'trap \"sleep 0.3; echo in order; exit 0\" TERM; echo $$; while :; do sleep 0.05; done'";
    let (running, mut lines) = started(&shell(&format!("{worker}; echo not reached")), "grace");
    let (stopper, ended) = (running.stopper(), tokio::spawn(running.wait()));
    let worker = number(&mut lines).await;
    stopper.terminate();
    let exit = ended.await.unwrap();
    assert_eq!((exit.code, exit.signal), (None, Some(15)));
    assert!(exit.output_tail.ends_with("in order\n") && !exit.pipe_held_open, "{exit:?}");
    assert!(!is_alive(worker));
}

#[tokio::test]
async fn kill_ends_the_whole_group_also_when_its_leader_is_gone() {
    let line = "sh -c 'trap \"\" TERM; echo $$; while :; do sleep 0.05; done' & wait";
    let (running, mut lines) = started(&shell(line), "stubborn");
    let leader = i32::try_from(running.pid()).unwrap();
    let (stopper, ended) = (running.stopper(), tokio::spawn(running.wait()));
    let child = number(&mut lines).await;
    stopper.terminate();
    until("the leader has ended", || !is_alive(leader));
    assert!(is_alive(child) && !ended.is_finished());
    assert!(is_there(leader), "its number stays taken while the group may be signalled");
    stopper.kill();
    assert_eq!(ended.await.unwrap().signal, Some(15));
    assert!(!is_alive(child) && !is_there(leader));
    // Harmless now, whoever has the number.
    stopper.terminate();
    stopper.kill();
}

#[tokio::test]
async fn a_stopped_process_hears_terminate_too() {
    let (running, _lines) = started(&shell("kill -STOP $$"), "stopped");
    let leader = running.pid();
    let (stopper, ended) = (running.stopper(), tokio::spawn(running.wait()));
    let stat = move || std::fs::read_to_string(format!("/proc/{leader}/stat")).unwrap();
    until("it stands still", || stat().contains(") T "));
    stopper.terminate();
    assert_eq!(ended.await.unwrap().signal, Some(15));
}

#[tokio::test]
async fn a_run_that_nobody_waits_for_any_more_is_killed_and_reaped() {
    let (running, _lines) = started(&shell("sleep 1000 & wait"), "dropped");
    let leader = i32::try_from(running.pid()).unwrap();
    drop(running);
    until("it is reaped", || !is_there(leader));
}

#[tokio::test]
async fn many_runs_at_once_leave_no_zombie_and_no_open_file() {
    let files = || std::fs::read_dir("/proc/self/fd").unwrap().count();
    let before = files();
    let mut runs = tokio::task::JoinSet::new();
    for _ in 0..100 {
        runs.spawn(async { run(&shell("exit 5"), "many").await.0.code });
    }
    while let Some(code) = runs.join_next().await {
        assert_eq!(code.unwrap(), Some(5));
    }
    // Other tests have files of their own: all that counts is that a hundred runs do not add up.
    until("their pipes are closed", || files() < before + 60);
}

#[tokio::test]
async fn orphans_are_reaped_and_exit_codes_are_not_stolen() {
    if std::env::var_os("SUBREAPER").is_none() {
        let variables = [("SUBREAPER", "1")];
        let test = "executor::orphans_are_reaped_and_exit_codes_are_not_stolen";
        let output = myself(test, &variables).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        return;
    }
    // Like PID 1: what loses its parent comes to this process.
    set_child_subreaper(true).unwrap();
    reap_orphans();
    let (running, mut lines) =
        started(&shell("setsid sh -c 'sleep 0.2 & echo $!' & wait; sleep 0.1; exit 9"), "orphan");
    let exit = running.wait().await;
    assert_eq!(exit.code, Some(9));
    let orphan = number(&mut lines).await;
    until("the orphan is reaped", || !is_there(orphan));
    for _ in 0..50 {
        assert_eq!(run(&shell("exit 4"), "orphan").await.0.code, Some(4));
    }
}
