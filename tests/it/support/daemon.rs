//! Real daemons: the program itself, as a child, and its log as it comes.
//!
//! ```ignore
//! let daemon = Daemon::start(&["run", "--jobs", table, "--store", "memory:"]);
//! let line = daemon.wait_for_event("run_finished");
//! daemon.signal(Signal::SIGTERM);
//! assert_eq!(daemon.wait_for_exit(), 0);
//! ```

use crate::processes;
use nix::sys::signal::Signal;
use onecron::clock::Boot;
use serde_json::Value;
use std::io::BufRead;
use std::io::BufReader;
use std::io::Read;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::path::PathBuf;
use std::process::Child;
use std::process::Command;
use std::process::Output;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::Condvar;
use std::sync::Mutex;
use std::thread::JoinHandle;
use std::time::Duration;

pub const PROGRAM: &str = env!("CARGO_BIN_EXE_onecron");
/// How long anything is waited for, unless a test says otherwise.
pub const LIMIT: Duration = Duration::from_secs(30);

/// How to start the program.
#[derive(Clone, Default)]
pub struct Launch {
    wrapper: Vec<String>,
    args: Vec<String>,
    env: Vec<(String, String)>,
    folder: Option<PathBuf>,
}

impl Launch {
    pub fn new(args: &[&str]) -> Self {
        Self { args: args.iter().map(ToString::to_string).collect(), ..Self::default() }
    }

    pub fn arg(mut self, arg: &str) -> Self {
        self.args.push(arg.to_string());
        self
    }

    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.env.push((name.to_string(), value.to_string()));
        self
    }

    /// The folder to start it in.
    pub fn folder(mut self, folder: &Path) -> Self {
        self.folder = Some(folder.to_path_buf());
        self
    }

    /// A program that starts it, such as `["faketime", "-f", "+5m"]`.
    pub fn wrapper(mut self, wrapper: &[&str]) -> Self {
        self.wrapper = wrapper.iter().map(ToString::to_string).collect();
        self
    }

    /// Without any setting that whoever runs the tests may have.
    pub fn command(&self) -> Command {
        let mut words = self.wrapper.iter().map(String::as_str).chain([PROGRAM]);
        let mut command = Command::new(words.next().unwrap());
        command.args(words).args(&self.args).stdin(Stdio::null());
        for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("ONECRON_") || name.starts_with("OTEL_"))
        {
            command.env_remove(name);
        }
        for name in
            ["KUBERNETES_SERVICE_HOST", "POD_NAME", "POD_NAMESPACE", "NODE_NAME", "GOOGLE_CLOUD_PROJECT", "NO_COLOR"]
        {
            command.env_remove(name);
        }
        for name in ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "REQUEST_METHOD"] {
            command.env_remove(name).env_remove(name.to_lowercase());
        }
        // Many daemons run at once here, and one port is one.
        command.env("ONECRON_LISTEN", "none").envs(self.env.clone());
        if let Some(folder) = &self.folder {
            command.current_dir(folder);
        }
        command
    }

    /// Runs it to its end: for what ends by itself.
    pub fn output(&self) -> Output {
        self.command().output().unwrap()
    }

    pub fn start(&self) -> Daemon {
        let mut child = self.command().stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let log = Arc::new(Log::default());
        let (stdout, stderr) = (child.stdout.take().unwrap(), child.stderr.take().unwrap());
        let readers =
            vec![reader(stdout, Arc::clone(&log), Log::hear), reader(stderr, Arc::clone(&log), Log::hear_error)];
        Daemon { child, log, readers }
    }
}

/// What a daemon has said so far.
#[derive(Default)]
struct Log {
    said: Mutex<Said>,
    grown: Condvar,
}

#[derive(Default)]
struct Said {
    lines: Vec<Value>,
    /// Lines of standard output that are no JSON objects.
    strays: Vec<String>,
    errors: String,
    ended: usize,
}

impl Log {
    fn change(&self, change: impl FnOnce(&mut Said)) {
        change(&mut self.said.lock().unwrap());
        self.grown.notify_all();
    }

    fn hear(&self, line: String) {
        self.change(|said| match serde_json::from_str(&line) {
            Ok(object @ Value::Object(_)) => said.lines.push(object),
            _ => said.strays.push(line),
        });
    }

    fn hear_error(&self, line: String) {
        self.change(|said| said.errors.push_str(&format!("{line}\n")));
    }
}

fn reader(output: impl Read + Send + 'static, log: Arc<Log>, hear: fn(&Log, String)) -> JoinHandle<()> {
    std::thread::spawn(move || {
        BufReader::new(output).lines().map_while(Result::ok).for_each(|line| hear(&log, line));
        log.change(|said| said.ended += 1);
    })
}

/// A daemon that runs; killed when this is dropped, by its own number.
pub struct Daemon {
    child: Child,
    log: Arc<Log>,
    readers: Vec<JoinHandle<()>>,
}

impl Daemon {
    pub fn start(args: &[&str]) -> Self {
        Launch::new(args).start()
    }

    /// The process that was started: of a wrapper, where there is one.
    pub fn child_pid(&self) -> i32 {
        i32::try_from(self.child.id()).unwrap()
    }

    /// The daemon's process, by its own word.
    pub fn pid(&self) -> i32 {
        i32::try_from(self.wait_for_event("daemon_started")["pid"].as_i64().unwrap()).unwrap()
    }

    /// Its name in records and in other daemons' logs.
    pub fn replica(&self) -> String {
        self.wait_for_event("daemon_started")["replica"].as_str().unwrap().to_string()
    }

    /// All lines so far.
    pub fn lines(&self) -> Vec<Value> {
        self.log.said.lock().unwrap().lines.clone()
    }

    /// Lines so far of one event.
    pub fn events(&self, event: &str) -> Vec<Value> {
        self.lines().into_iter().filter(|line| line["event"] == event).collect()
    }

    /// Standard output that is not JSON.
    pub fn strays(&self) -> Vec<String> {
        self.log.said.lock().unwrap().strays.clone()
    }

    pub fn errors(&self) -> String {
        self.log.said.lock().unwrap().errors.clone()
    }

    /// The first line of all that is wanted, now or later.
    pub fn wait_for(&self, wanted: impl Fn(&Value) -> bool, limit: Duration) -> Value {
        self.wait_for_many(1, wanted, limit).remove(0)
    }

    /// The first lines that are wanted, now or later.
    pub fn wait_for_many(&self, count: usize, wanted: impl Fn(&Value) -> bool, limit: Duration) -> Vec<Value> {
        let (end, mut said) = (processes::now() + limit, self.log.said.lock().unwrap());
        loop {
            let found: Vec<Value> = said.lines.iter().filter(|line| wanted(line)).take(count).cloned().collect();
            if found.len() == count {
                return found;
            }
            let left = end.since(processes::now());
            if left.is_zero() || said.ended == 2 {
                let why = if left.is_zero() { format!("in {limit:?}") } else { "before its end".to_string() };
                let text = format!("{} of {count} lines {why}, in:\n{}", found.len(), tail(&said));
                drop(said); // a panic that holds it would end all tests
                panic!("{text}");
            }
            said = self.log.grown.wait_timeout(said, left.min(Duration::from_secs(1))).unwrap().0;
        }
    }

    /// The first line of an event.
    pub fn wait_for_event(&self, event: &str) -> Value {
        self.wait_for(|line| line["event"] == event, LIMIT)
    }

    /// The first line of an event of a job.
    pub fn wait_for_job(&self, event: &str, job: &str) -> Value {
        self.wait_for(|line| line["event"] == event && line["job"] == job, LIMIT)
    }

    /// Signals the daemon, not its wrapper.
    pub fn signal(&self, signal: Signal) {
        processes::signal(self.pid(), signal);
    }

    /// Stops all its threads, as a suspended machine does: it answers nothing from then on, until SIGCONT.
    pub fn freeze(&self) {
        self.signal(Signal::SIGSTOP);
        let tasks = format!("/proc/{}/task", self.pid());
        let stands = |task: std::fs::DirEntry| {
            let stat = std::fs::read_to_string(task.path().join("stat")).unwrap_or_default();
            stat.rsplit_once(") ").is_none_or(|(_, rest)| rest.starts_with('T'))
        };
        let all_stand = || std::fs::read_dir(&tasks).unwrap().map_while(Result::ok).all(stands);
        processes::until("every thread stands still", all_stand);
    }

    /// Waits for the end and gives the exit code; of one that a signal ended, 128 and its number.
    pub fn wait_for_exit(&mut self) -> i32 {
        let end: Boot = processes::now() + LIMIT;
        processes::until("the daemon has ended", || {
            assert!(processes::now() < end);
            self.child.try_wait().unwrap().is_some()
        });
        // What it said last is in the pipe still.
        self.readers.drain(..).for_each(|reader| reader.join().unwrap());
        let status = self.child.wait().unwrap();
        status.code().unwrap_or_else(|| 128 + status.signal().unwrap())
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // A wrapper that is killed leaves the daemon behind: that one goes first, while its parent keeps its number.
        let running = self.child.try_wait().is_ok_and(|ended| ended.is_none());
        let started = self.events("daemon_started");
        if let Some(pid) = started.first().and_then(|line| line["pid"].as_i64()).filter(|_| running) {
            processes::signal(i32::try_from(pid).unwrap(), Signal::SIGKILL);
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn tail(said: &Said) -> String {
    let from = said.lines.len().saturating_sub(40);
    let lines: Vec<String> = said.lines[from..].iter().map(ToString::to_string).collect();
    format!("{}\nnot JSON: {:?}\nstandard error: {}", lines.join("\n"), said.strays, said.errors)
}

/// A folder with a job table.
pub struct Table {
    pub folder: tempfile::TempDir,
}

impl Table {
    /// A table with these jobs (indented by two blanks), a short lease, and a history that starts at once.
    pub fn new(jobs: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let head = "version: 1\nscheduler: {lockLease: 5s, clockSkewTolerance: 100ms}\njobs:\n";
        std::fs::write(folder.path().join("jobs.yaml"), format!("{head}{jobs}")).unwrap();
        Self { folder }
    }

    pub fn path(&self) -> String {
        self.folder.path().join("jobs.yaml").display().to_string()
    }

    /// How to start a daemon with it.
    pub fn launch(&self, store: &str) -> Launch {
        let launch = Launch::new(&["run", "--jobs", &self.path(), "--store", store, "--instance", "web-1"]);
        launch.folder(self.folder.path())
    }
}
