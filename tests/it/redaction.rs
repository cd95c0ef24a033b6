//! What `scheduler.redact` hides: in lines, in the tail, in error texts.

use crate::processes::LIMITS;
use crate::processes::context;
use crate::processes::direct;
use crate::processes::run_with;
use crate::processes::shell;
use crate::support::daemon::Daemon;
use crate::support::daemon::Table;
use nix::sys::signal::Signal;
use onecron::executor::RunContext;
use onecron::job::JobName;
use onecron::job::Namespace;
use onecron::job::OutputLimits;
use onecron::secret::Redaction;
use onecron::secret::Rule;
use std::sync::Arc;

fn hiding(rules: &[&str], job: &str) -> RunContext {
    let redaction: Redaction = rules.iter().map(|rule| Rule::new(rule).unwrap()).collect();
    RunContext { redaction, ..context(job) }
}

#[tokio::test]
async fn lines_and_tail_are_those_that_may_be_seen() {
    let command = shell("echo token=abc rest; printf 'no newline token=abc' >&2");
    let (exit, mut lines) = run_with(&command, LIMITS, &hiding(&["token=\\w+"], "hidden")).await;
    lines.sort_by_key(|line| line.stream);
    let seen: Vec<&str> = lines.iter().map(|line| line.line.as_str()).collect();
    assert_eq!(seen, ["[redacted] rest", "no newline [redacted]"]);
    let mut tail: Vec<&str> = exit.output_tail.lines().collect();
    tail.sort_unstable();
    assert_eq!(tail, ["[redacted] rest", "no newline [redacted]"]);
    assert_eq!((exit.output_bytes, exit.truncated_lines), (35, 0));
}

/// In two writes, so that no reading has it whole.
#[tokio::test]
async fn a_secret_that_comes_in_two_pieces_is_hidden() {
    let command = shell("printf 'secret-'; sleep 0.2; printf '1234\\n'");
    let (exit, lines) = run_with(&command, LIMITS, &hiding(&["secret-[0-9]{4}"], "pieces")).await;
    assert_eq!((lines[0].line.as_str(), exit.output_tail.as_str()), ("[redacted]", "[redacted]\n"));
}

/// The last bytes as they were printed would begin in the middle of the secret.
#[tokio::test]
async fn a_tail_does_not_begin_with_half_a_secret() {
    let command = shell("echo secret-1234; echo end");
    for keep_tail in 0..=16 {
        let limits = OutputLimits { keep_tail, ..LIMITS };
        let (exit, _) = run_with(&command, limits, &hiding(&["secret-[0-9]{4}"], "half")).await;
        let whole = "[redacted]\nend\n";
        assert_eq!(exit.output_tail, whole[whole.len().saturating_sub(keep_tail)..]);
    }
}

#[tokio::test]
async fn a_line_that_is_cut_ends_with_no_half_of_a_secret() {
    let limits = OutputLimits { max_line_bytes: 64, ..LIMITS };
    let command = shell("printf '%060dsecret-1234' 0; head -c 100000 /dev/zero | tr '\\0' x");
    let (exit, lines) = run_with(&command, limits, &hiding(&["secret-[0-9]{4}"], "cut")).await;
    let seen = format!("{}[red", "0".repeat(60));
    assert_eq!((lines[0].line.as_str(), lines[0].truncated, lines.len()), (seen.as_str(), true, 1));
    assert_eq!(exit.output_tail, format!("{seen}…\n"));
}

/// Lines that nobody takes are in the tail, and what is to be hidden is not.
#[tokio::test]
async fn lines_that_were_dropped_are_hidden_in_the_tail_too() {
    let (sender, _stuck) = tokio::sync::mpsc::channel(1);
    let context = hiding(&["secret-[0-9]+"], "dropped");
    let command = shell("i=0; while [ $i -lt 2000 ]; do echo secret-$i; i=$((i+1)); done");
    let exit = onecron::executor::start(&command, LIMITS, &context, sender).unwrap().wait().await;
    assert_eq!(exit.dropped_lines, 1999);
    assert!(exit.output_tail.ends_with("\n[redacted]\n[redacted]\n"), "{}", exit.output_tail);
    assert!(!exit.output_tail.contains("secret"), "{}", exit.output_tail);
}

#[tokio::test]
async fn what_is_no_text_is_hidden_as_well() {
    let command = shell(r"printf 'a\200 secret-1234 \0 b\n'");
    let (_, lines) = run_with(&command, LIMITS, &hiding(&["secret-[0-9]{4}"], "bytes")).await;
    assert_eq!(lines[0].line, "a\u{fffd} [redacted] \0 b");
    let (exit, _) = run_with(&direct(&["true"]), LIMITS, &hiding(&["x"], "silent")).await;
    assert_eq!(exit.output_tail, "");
}

fn everything(daemon: &Daemon) -> String {
    let lines: Vec<String> = daemon.lines().iter().map(ToString::to_string).collect();
    format!("{}\n{}\n{}", lines.join("\n"), daemon.strays().join("\n"), daemon.errors())
}

#[tokio::test]
async fn a_secret_is_in_no_line_of_the_log_and_in_no_record_whatever_the_mode() {
    let job = |name: &str, rest: &str| format!("  - {{name: {name}, schedule: '* * * * * *', {rest}}}\n");
    let print = "command: 'echo begin hunter2 end; echo hunter2 >&2; exit 3'";
    let jobs = ["Log", "Passthrough", "Discard"]
        .map(|mode| job(&mode.to_lowercase(), &format!("output: {{mode: {mode}}}, {print}")))
        .concat();
    let missing = job("missing", "command: [no-such-hunter2]");
    let table = Table::new(&(jobs + &missing));
    let text = std::fs::read_to_string(table.path()).unwrap();
    let text = text.replace("scheduler: {", "scheduler: {redact: ['hunter[0-9]'], ");
    std::fs::write(table.path(), text).unwrap();
    let url = format!("sqlite:{}/store.db", table.folder.path().display());
    let mut daemon = table.launch(&url).start();
    for name in ["log", "passthrough", "discard", "missing"] {
        daemon.wait_for_job("run_finished", name);
    }
    daemon.signal(Signal::SIGTERM);
    daemon.wait_for_exit();
    let said = everything(&daemon);
    assert!(said.contains("begin [redacted] end") && said.contains("no program `no-such-[redacted]`"), "{said}");
    assert!(daemon.strays().contains(&"begin [redacted] end".to_owned()), "{:?}", daemon.strays());
    assert!(!said.contains("hunter2"), "{said}");

    let namespace = Namespace::new("default").unwrap();
    let store = onecron::store::open(&url, &namespace, Arc::new(onecron::clock::SystemClock)).unwrap();
    for name in ["log", "passthrough", "discard", "missing"] {
        let history = store.history(&JobName::new(name).unwrap(), 100).await.unwrap();
        let kept: Vec<String> = history.iter().map(|entry| format!("{}{}", entry.error, entry.output_tail)).collect();
        assert!(kept.iter().any(|text| text.contains("[redacted]")), "{name}: {kept:?}");
        assert!(kept.iter().all(|text| !text.contains("hunter2")), "{name}: {kept:?}");
    }
}
