//! `onecron reload`: asks daemons of this host to read their job files now.

use super::store_args::UNAVAILABLE;
use super::store_args::not_written;
use super::table_args;
use clap::Args;
use nix::errno::Errno;
use nix::sys::signal::Signal;
use nix::sys::signal::kill;
use nix::unistd::Pid;
use std::ffi::OsStr;
use std::fs;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Asks the daemon on this host to read its job files now
///
/// It sends HUP to a process of this host that was started as `onecron run`: in a container, run it there. The daemon's
/// log says what came of it: table_replaced, table_refused, or (at level debug) table_unchanged. Daemons read their files
/// by themselves every 10 s and when they change, so this is for those who do not want to wait, or have switched that
/// off. Exit codes: 0 asked; 2 there are several, or called wrongly; 69 there is none, or it belongs to another user.
#[derive(Debug, Clone, Args)]
pub struct ReloadArgs {
    /// The daemon's process id, where several run on this host
    #[arg(long, value_name = "PID", value_parser = clap::value_parser!(i32).range(1..), conflicts_with = "all")]
    pub pid: Option<i32>,
    /// Asks all daemons of this host
    #[arg(long)]
    pub all: bool,
}

/// Runs the command. Returns the exit code.
pub fn run(args: &ReloadArgs, out: &mut dyn Write, err: &mut dyn Write) -> i32 {
    let (code, text) = match chosen(args) {
        Ok(pids) => {
            let refused: Vec<String> = pids.iter().filter_map(|pid| ask(*pid).err()).collect();
            if refused.is_empty() {
                let pids = pids.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
                return match writeln!(out, "asked: pid {pids}; the daemon's log says what came of it") {
                    Ok(()) => table_args::OK,
                    Err(error) => not_written(error).say(err),
                };
            }
            (UNAVAILABLE, refused.join("\n"))
        }
        Err(refusal) => refusal,
    };
    // Nothing can be done about a closed terminal.
    let _ = writeln!(err, "{text}");
    code
}

fn ask(pid: i32) -> Result<(), String> {
    kill(Pid::from_raw(pid), Signal::SIGHUP).map_err(|error| {
        let hint = match error {
            Errno::EPERM => "it belongs to another user: run this as that user or as root",
            _ => "start one with `onecron run`",
        };
        format!("error: send HUP to the daemon with pid {pid}: {}\nhint: {hint}", error.desc())
    })
}

/// The processes to ask, or an exit code and what is wrong.
fn chosen(args: &ReloadArgs) -> Result<Vec<i32>, (i32, String)> {
    if let Some(pid) = args.pid {
        let fail = |what: &str, hint: &str| Err((UNAVAILABLE, format!("error: {what}\nhint: {hint}")));
        // HUP ends most other programs.
        return match fs::read(format!("/proc/{pid}/cmdline")) {
            Ok(line) if is_daemon(&line) => Ok(vec![pid]),
            Ok(_) => fail(
                &format!("the process {pid} is no `onecron run`, and HUP might end it"),
                "without `--pid` the daemon is looked for",
            ),
            Err(_) => fail(&format!("there is no process {pid} here"), "without `--pid` the daemon is looked for"),
        };
    }
    picked(daemons(), args.all)
}

fn picked(found: Vec<i32>, all: bool) -> Result<Vec<i32>, (i32, String)> {
    match found.as_slice() {
        [] => {
            let hint = "run it on the host, or in the container, of the daemon; elsewhere: `kill -HUP` there, or wait, since \
                        daemons see changes by themselves";
            Err((UNAVAILABLE, format!("error: no process here was started as `onecron run`\nhint: {hint}")))
        }
        [_, _, ..] if !all => {
            let pids = found.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
            let text =
                format!("error: several daemons run here: pid {pids}\nhint: name one with `--pid`, or ask `--all`");
            Err((table_args::USAGE, text))
        }
        _ => Ok(found),
    }
}

/// All daemons that are seen from here.
fn daemons() -> Vec<i32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let is_one = |pid: &i32| fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|line| is_daemon(&line));
    let mut pids: Vec<i32> = pids.filter(is_one).collect();
    pids.sort_unstable();
    pids
}

/// Whether a process was started with these words: `onecron`, wherever it lies, and then `run`.
fn is_daemon(line: &[u8]) -> bool {
    let mut words = line.split(|byte| *byte == 0);
    let program = words.next().and_then(|word| Path::new(OsStr::from_bytes(word)).file_name());
    program == Some(OsStr::new("onecron")) && words.next() == Some(b"run")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_several_daemons_one_must_be_named_or_all_be_meant() {
        assert_eq!(picked(vec![7], false), Ok(vec![7]));
        assert_eq!(picked(vec![7, 9], true), Ok(vec![7, 9]));
        let (code, text) = picked(vec![7, 9], false).unwrap_err();
        assert!(code == table_args::USAGE && text.contains("pid 7, 9") && text.contains("--all"), "{text}");
        for all in [false, true] {
            assert_eq!(picked(vec![], all).unwrap_err().0, UNAVAILABLE);
        }
    }

    #[test]
    fn a_daemon_is_known_by_its_first_two_words() {
        for (line, is_one) in [
            (&b"/usr/bin/onecron\0run\0--jobs\0x\0"[..], true),
            (b"onecron\0run\0", true),
            (b"/proc/self/exe\0guardian\0", false),
            (b"onecron\0demo\0", false),
            (b"vi\0run\0", false),
            (b"sh\0-c\0onecron run\0", false),
            (b"", false),
        ] {
            assert_eq!(is_daemon(line), is_one, "{}", String::from_utf8_lossy(line));
        }
    }
}
