//! What the daemon does to the machine and looks for on it, for a table: descriptors, and what jobs need.

use crate::config::Needs;
use crate::config::Source;
use crate::secret::Redaction;
use crate::telemetry::events;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

/// Descriptors of a daemon that runs nothing.
const DESCRIPTORS_BASE: u64 = 256;
/// Descriptors of one run: its two pipes, on both sides while it is started, and the look at its end.
const DESCRIPTORS_PER_RUN: u64 = 8;
/// And of one without limit of runs.
const DESCRIPTORS_MOST: u64 = 65_536;
/// How long file systems that do not answer are waited for. Nothing depends on what they say.
const LOOK_WITHIN: Duration = Duration::from_secs(2);

/// Looks for what tables need of this machine. One look at a time.
#[derive(Debug, Clone, Default)]
pub struct Look {
    is_under_way: Arc<AtomicBool>,
}

impl Look {
    /// Says what the table needs and this machine has not, where that is known soon. It blocks for 2 s at most.
    pub fn say(&self, needs: Needs, sources: Vec<Source>, redaction: &Redaction) {
        if self.is_under_way.swap(true, Ordering::AcqRel) {
            let detail = "nobody looked whether programs, folders and files of jobs are there: some file system has not \
                          answered the look before";
            return events::table_warning("W513", "", detail);
        }
        let (sender, found) = mpsc::channel();
        let is_under_way = Arc::clone(&self.is_under_way);
        let look = move || {
            let missing = needs.missing_here(&sources);
            is_under_way.store(false, Ordering::Release);
            drop(sender.send(missing));
        };
        // A thread of its own, that nobody waits for: a look at a dead file server never ends.
        match thread::Builder::new().name("look".to_owned()).spawn(look).map(|_| found.recv_timeout(LOOK_WITHIN)) {
            Ok(Ok(missing)) => {
                for problem in missing {
                    events::table_warning(problem.code, &problem.path, &redaction.text(&problem.message));
                }
            }
            Ok(Err(_)) => {
                let detail =
                    "some file system did not say within 2 s whether programs, folders and files of jobs are there";
                events::table_warning("W513", "", detail);
            }
            Err(error) => {
                self.is_under_way.store(false, Ordering::Release);
                events::table_warning("W513", "", &format!("nobody could look for what jobs need: {error}"));
            }
        }
    }
}

/// Makes room for the descriptors of as many runs as there are places: the usual soft limit of 1024 is that of programs
/// that use `select`, and each run needs a handful. What the hard limit does not allow is said.
pub fn raise_descriptor_limit(places: u32) {
    use nix::sys::resource::Resource;
    use nix::sys::resource::getrlimit;
    use nix::sys::resource::setrlimit;
    let places = u64::from(places);
    let wanted = if places == 0 { DESCRIPTORS_MOST } else { DESCRIPTORS_BASE + places * DESCRIPTORS_PER_RUN };
    let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE) else { return };
    let limit = wanted.min(hard);
    if soft < limit && setrlimit(Resource::RLIMIT_NOFILE, limit, hard).is_err() {
        return events::setting_warning("nofile", "the limit of open files could not be raised");
    }
    if places > 0 && soft.max(limit) < wanted {
        let detail = format!("`maxConcurrentRuns: {places}` may need {wanted} open files, and {hard} are allowed");
        events::setting_warning("nofile", &detail);
    }
}
