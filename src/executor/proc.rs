//! What `/proc` says of the processes here. A process may end between two looks: then it is not there, no error.

use nix::unistd::Pid;
use std::fs;
use std::io::Read;

/// A process, by one line of its `stat`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Process {
    pub(super) pid: i32,
    pub(super) parent: i32,
    pub(super) group: i32,
    /// Ended and not yet reaped, or about to be.
    pub(super) is_dead: bool,
    /// Clock ticks since boot. With the pid, an identity that no later process has.
    pub(super) started: u64,
}

/// More than the kernel lets one process have for arguments and environment together, by default.
const ENVIRON_MOST: u64 = 8 << 20;

/// All processes that are visible here.
pub(super) fn all() -> impl Iterator<Item = Process> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).filter_map(process)
}

/// One process.
pub(super) fn process(pid: i32) -> Option<Process> {
    parse_stat(pid, &fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

/// `pid (name) state ppid pgrp ...`, see proc_pid_stat(5). The name may hold blanks and brackets: what follows the
/// last bracket counts.
fn parse_stat(pid: i32, stat: &str) -> Option<Process> {
    const STARTTIME: usize = 19;
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_ascii_whitespace().collect();
    Some(Process {
        pid,
        parent: fields.get(1)?.parse().ok()?,
        group: fields.get(2)?.parse().ok()?,
        is_dead: matches!(*fields.first()?, "Z" | "X" | "x"),
        started: fields.get(STARTTIME)?.parse().ok()?,
    })
}

/// Whether the environment that a process was started with has all these entries (`NAME=value`). False where it may
/// not be read: processes of other users.
pub(super) fn environ_has(pid: i32, entries: &[String]) -> bool {
    let mut environ = Vec::new();
    let read = fs::File::open(format!("/proc/{pid}/environ"))
        .and_then(|file| file.take(ENVIRON_MOST).read_to_end(&mut environ));
    read.is_ok() && entries.iter().all(|entry| environ.split(|byte| *byte == 0).any(|found| found == entry.as_bytes()))
}

/// Whether a process group has a member that has not ended.
pub(super) fn group_lives(group: Pid) -> bool {
    all().any(|process| process.group == group.as_raw() && !process.is_dead)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_brackets_does_not_shift_the_fields() {
        let stat = "42 (a) (b) S 7 40 39 0 -1 4194304 9 8 7 6 5 4 3 2 20 0 1 0 777 4096 1";
        let expected = Process { pid: 42, parent: 7, group: 40, is_dead: false, started: 777 };
        assert_eq!(parse_stat(42, stat), Some(expected));
        assert_eq!(parse_stat(42, "42 (x) Z"), None);
    }

    #[test]
    fn this_process_is_seen() {
        let me = i32::try_from(std::process::id()).unwrap();
        assert!(all().any(|process| process.pid == me && !process.is_dead));
    }
}
