//! A real daemon that says far more than a test wants to keep: its log is checked as it comes, and counted.

use super::daemon::LIMIT;
use super::daemon::Launch;
use crate::processes;
use nix::sys::signal::Signal;
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::BufRead;
use std::io::BufReader;
use std::process::Child;
use std::process::ChildStdout;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::Mutex;
use std::thread::JoinHandle;
use std::time::Duration;

/// What is kept of faults.
const KEPT: usize = 5;

/// What was said so far.
#[derive(Default)]
pub struct Tally {
    /// Bytes of the longest line, its end included.
    pub longest: usize,
    /// Lines that are no JSON objects: how many, and the first of them.
    pub strays: (usize, Vec<String>),
    /// Lines that the test complains about: how many, and the first complaints.
    pub complaints: (usize, Vec<String>),
    /// Lines of each event.
    pub events: BTreeMap<String, usize>,
    /// Runs of each job that have ended.
    pub finished: BTreeMap<String, usize>,
    has_ended: bool,
}

fn note((count, first): &mut (usize, Vec<String>), text: impl FnOnce() -> String) {
    *count += 1;
    if first.len() < KEPT {
        first.push(text());
    }
}

impl Tally {
    fn hear(&mut self, line: &[u8], complain: &impl Fn(&Value) -> Option<String>) {
        self.longest = self.longest.max(line.len());
        let Ok(object @ Value::Object(_)) = serde_json::from_slice::<Value>(line) else {
            return note(&mut self.strays, || String::from_utf8_lossy(line).into_owned());
        };
        let event = object["event"].as_str().unwrap_or_default();
        *self.events.entry(event.to_owned()).or_default() += 1;
        if event == "run_finished" {
            *self.finished.entry(object["job"].as_str().unwrap().to_owned()).or_default() += 1;
        }
        if let Some(complaint) = complain(&object) {
            note(&mut self.complaints, || format!("{complaint}: {object}"));
        }
    }

    /// Runs that have ended.
    pub fn runs(&self) -> usize {
        self.finished.values().sum()
    }
}

/// See the module. Killed when this is dropped.
pub struct Watched {
    child: Child,
    /// The daemon's number here, which in its own namespace may be 1.
    pub pid: i32,
    tally: Arc<Mutex<Tally>>,
    reader: Option<JoinHandle<()>>,
}

impl Watched {
    /// Starts a daemon and waits until it is ready. Each of its lines is shown to `complain`.
    pub fn start(launch: &Launch, complain: impl Fn(&Value) -> Option<String> + Send + 'static) -> Self {
        let mut child = launch.command().stdout(Stdio::piped()).spawn().unwrap();
        let tally = Arc::new(Mutex::new(Tally::default()));
        let (heard, stdout) = (Arc::clone(&tally), child.stdout.take().unwrap());
        let reader = std::thread::spawn(move || read(stdout, &heard, &complain));
        let pid = i32::try_from(child.id()).unwrap();
        let mut watched = Self { child, pid, tally, reader: Some(reader) };
        watched.until("the daemon is ready", LIMIT, |tally| tally.events.contains_key("daemon_ready"));
        watched
    }

    /// The same as process 1 of a namespace of its own, in which it sees only what it has started.
    pub fn start_as_pid_1(launch: Launch, complain: impl Fn(&Value) -> Option<String> + Send + 'static) -> Self {
        let mut watched = Self::start(&launch.wrapper(&NAMESPACE), complain);
        // The wrapper waits for the daemon, and ends as it ends.
        watched.pid = children_of(watched.pid).next().map(|(pid, _)| pid).expect("the wrapper has a child");
        watched
    }

    pub fn look<T>(&self, look: impl FnOnce(&Tally) -> T) -> T {
        look(&self.tally.lock().unwrap())
    }

    /// Waits until something is said.
    pub fn until(&mut self, what: &str, limit: Duration, holds: impl Fn(&Tally) -> bool) {
        processes::until_limit(what, limit, || {
            let (holds, has_ended) = self.look(|tally| (holds(tally), tally.has_ended));
            assert!(holds || !has_ended, "the daemon ended before {what}");
            holds
        });
    }

    /// Ends it by TERM, and gives its exit code.
    pub fn end(mut self) -> (i32, Tally) {
        processes::signal(self.pid, Signal::SIGTERM);
        processes::until_limit("the daemon has ended", LIMIT, || self.child.try_wait().unwrap().is_some());
        self.reader.take().unwrap().join().unwrap();
        let tally = std::mem::take(&mut *self.tally.lock().unwrap());
        (self.child.wait().unwrap().code().unwrap_or(-1), tally)
    }

    /// Its resident memory, and the most that it ever was; KiB.
    pub fn memory(&self) -> [u64; 2] {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid)).unwrap();
        ["VmRSS:", "VmHWM:"].map(|name| {
            let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
            line.trim().trim_end_matches(" kB").parse().unwrap()
        })
    }

    /// How many descriptors it has open.
    pub fn descriptors(&self) -> usize {
        std::fs::read_dir(format!("/proc/{}/fd", self.pid)).unwrap().count()
    }

    /// Its children that have ended and are not reaped: number, and when each was started. Each run has one for a moment.
    pub fn zombies(&self) -> Vec<(i32, u64)> {
        children_of(self.pid).filter(|(_, stat)| stat.0 == "Z").map(|(pid, stat)| (pid, stat.1)).collect()
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        // A wrapper that is killed takes the daemon with it.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

const NAMESPACE: [&str; 5] = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child"];

/// Whether a process may be the first of a namespace of its own here.
pub fn has_namespaces() -> bool {
    let tried = std::process::Command::new(NAMESPACE[0]).args(&NAMESPACE[1..]).arg("true").output();
    let works = tried.is_ok_and(|output| output.status.success());
    if !works {
        println!("skipped: no namespace of processes can be made here (it takes `unshare` and root)");
    }
    works
}

fn read(stdout: ChildStdout, tally: &Mutex<Tally>, complain: &impl Fn(&Value) -> Option<String>) {
    let mut stdout = BufReader::with_capacity(1 << 16, stdout);
    let mut line = Vec::new();
    while stdout.read_until(b'\n', &mut line).is_ok_and(|read| read > 0) {
        tally.lock().unwrap().hear(&line, complain);
        line.clear();
    }
    tally.lock().unwrap().has_ended = true;
}

/// All children of a process: number, state, and when it was started.
fn children_of(parent: i32) -> impl Iterator<Item = (i32, (String, u64))> {
    let numbers = std::fs::read_dir("/proc").unwrap().flatten();
    let numbers = numbers.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    numbers.filter_map(move |pid| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
        let is_child = fields[1].parse() == Ok(parent);
        is_child.then(|| (pid, (fields[0].to_owned(), fields[19].parse().unwrap())))
    })
}
