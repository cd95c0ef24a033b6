//! What the system says of this process, under the names that every Prometheus client uses.

use nix::sys::resource::Resource;
use nix::sys::resource::UsageWho;
use nix::sys::resource::getrlimit;
use nix::sys::resource::getrusage;
use nix::sys::time::TimeVal;
use std::fs;

/// A process at one moment. What cannot be read is `None`.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Process {
    /// User and system time, in seconds; without that of jobs.
    pub cpu_seconds: Option<f64>,
    pub open_fds: Option<f64>,
    pub max_fds: Option<f64>,
    pub virtual_bytes: Option<f64>,
    pub resident_bytes: Option<f64>,
    pub threads: Option<f64>,
}

/// Reads it: a few small files of `/proc`, which never block.
pub fn read() -> Process {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let seconds = |time: TimeVal| time.tv_sec() as f64 + time.tv_usec() as f64 / 1e6;
    let usage = getrusage(UsageWho::RUSAGE_SELF).ok();
    Process {
        cpu_seconds: usage.map(|usage| seconds(usage.user_time()) + seconds(usage.system_time())),
        // Without the one that reads the folder.
        open_fds: fs::read_dir("/proc/self/fd").ok().map(|folder| folder.count().saturating_sub(1) as f64),
        max_fds: getrlimit(Resource::RLIMIT_NOFILE).ok().map(|(soft, _)| soft as f64),
        virtual_bytes: number(&status, "VmSize:").map(|kib| kib * 1024.0),
        resident_bytes: number(&status, "VmRSS:").map(|kib| kib * 1024.0),
        threads: number(&status, "Threads:"),
    }
}

fn number(status: &str, key: &str) -> Option<f64> {
    status.lines().find_map(|line| line.strip_prefix(key))?.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_system_says_all_of_a_process() {
        let Process { cpu_seconds, open_fds, max_fds, virtual_bytes, resident_bytes, threads } = read();
        assert!(cpu_seconds.unwrap() >= 0.0 && threads.unwrap() >= 1.0);
        assert!(open_fds.unwrap() >= 3.0 && open_fds <= max_fds);
        assert!(resident_bytes.unwrap() > 1e5 && virtual_bytes > resident_bytes);
    }

    #[test]
    fn what_the_system_does_not_say_is_not_known() {
        assert_eq!(number("Name:\tonecron\nThreads:\t7\n", "Threads:"), Some(7.0));
        assert_eq!(number("Name:\tonecron\n", "Threads:"), None);
        assert_eq!(number("Threads:\tmany\n", "Threads:"), None);
    }
}
