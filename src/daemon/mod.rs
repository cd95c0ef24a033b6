//! The daemon: joins the engine with stores, processes, clocks and signals, and is the only place that starts tasks.
//!
//! ```text
//!   main thread     waits for the scheduler
//!   scheduler       driver.rs: the loop; requests to the store; timer.rs, signals.rs, store_watch.rs
//!   jobs (2)        runs.rs: processes and their output
//!   guardian        guard.rs: talks to the guardian process, and may wait for it
//!   log, children   of telemetry and executor
//! ```

mod driver;
mod guard;
mod perform;
mod report;
mod requests;
mod runs;
mod signals;
mod store_watch;
#[cfg(test)]
mod tests;
mod timer;

use crate::clock::Clock;
use crate::config::Loaded;
use crate::config::Problem;
use crate::engine::Engine;
use crate::executor;
use crate::job::Namespace;
use crate::job::ReplicaId;
use crate::schedule::zone_data_version;
use crate::secret::Redaction;
use crate::store::Store;
use crate::telemetry::events;
use crate::telemetry::events::DaemonStarted;
use crate::telemetry::events::TableLoaded;
use driver::Driver;
use driver::End;
use driver::Message;
use guard::Guard;
use perform::Hands;
use report::Reporter;
use runs::Launcher;
use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use std::time::Duration;
use store_watch::StoreWatch;
use timer::Timer;
use tokio::runtime;
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

/// Messages to the loop that wait. Whoever sends more waits too.
const INBOX: usize = 1024;
/// Threads for processes and output.
const JOB_THREADS: usize = 2;
/// Descriptors of a daemon that runs nothing.
const DESCRIPTORS_BASE: u64 = 256;
/// Descriptors of one run: its two pipes, on both sides while it is started, and the look at its end.
const DESCRIPTORS_PER_RUN: u64 = 8;
/// And of one without limit of runs.
const DESCRIPTORS_MOST: u64 = 65_536;
/// How long the start waits for file systems that do not answer. Nothing depends on what they say.
const LOOK_WITHIN: Duration = Duration::from_secs(2);
/// How long the end waits for what jobs left behind.
const LEFTOVERS: Duration = Duration::from_secs(1);

/// See [`Settings::look_around`].
pub type LookAround = Box<dyn FnOnce() -> Vec<Problem> + Send>;

/// What a daemon is made of.
pub struct Settings {
    /// Who it is.
    pub me: ReplicaId,
    /// The table.
    pub loaded: Loaded,
    /// Looks for what the table needs of this machine, and says what is not there. It may block for ever.
    pub look_around: Option<LookAround>,
    /// Where it came from, for the log.
    pub files: String,
    /// Where replicas agree.
    pub store: Arc<dyn Store>,
    /// The part of it that is this fleet's.
    pub namespace: Namespace,
    /// How long runs may finish after the first signal.
    pub drain_timeout: Duration,
    /// What tells the time.
    pub clock: Arc<dyn Clock>,
    /// The program that is started as the guardian.
    pub guardian: PathBuf,
    /// Settings that are allowed and probably not meant: the setting, and what to write instead.
    pub doubts: Vec<(String, String)>,
    /// Whether the end of standard input stops it.
    pub ends_with_stdin: bool,
}

/// How a daemon ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// All runs ended by themselves, and the store knows how.
    Drained,
    /// Runs had to be stopped, or the store did not take the end of some.
    Cut,
    /// A part of it panicked, or a thread could not be had.
    Failed,
}

impl Ended {
    /// The program's exit code.
    pub const fn exit_code(self) -> u8 {
        match self {
            Self::Drained => 0,
            Self::Cut => 75,
            Self::Failed => 1,
        }
    }
}

/// The daemon.
pub struct Daemon {
    settings: Settings,
}

impl Daemon {
    /// Runs a daemon until signals have ended it, on threads of its own. The log must have been started. Says
    /// everything from `daemon_started` to `daemon_stopped`.
    pub fn run(settings: Settings) -> Ended {
        let started = settings.clock.now().boot;
        let clock = Arc::clone(&settings.clock);
        let mut daemon = Self { settings };
        daemon.introduce();
        if let Some(look_around) = daemon.settings.look_around.take() {
            say_what_is_missing(look_around, &daemon.settings.loaded.table.scheduler.redact);
        }
        daemon.raise_descriptor_limit();
        let ended = daemon.supervise().unwrap_or_else(|error| {
            events::daemon_failed(&error.to_string());
            Ended::Failed
        });
        events::daemon_stopped(ended.exit_code(), clock.now().boot.since(started));
        ended
    }

    fn introduce(&self) {
        let Settings { loaded, files, store, namespace, doubts, .. } = &self.settings;
        let (pid, store, namespace) = (std::process::id(), store.url(), namespace.as_str());
        events::daemon_started(DaemonStarted { pid, config: files, store, namespace });
        for (setting, detail) in doubts {
            events::setting_warning(setting, detail);
        }
        let table = &loaded.table;
        let (revision, zone_data) = (table.revision.as_str(), zone_data_version());
        events::table_loaded(TableLoaded { revision, zone_data, jobs: table.jobs.len(), file: files });
        for problem in &loaded.warnings {
            events::table_warning(problem.code, &problem.path, &problem.message);
        }
    }

    /// Makes room for the descriptors of as many runs as there are places: the usual soft limit of 1024 is that of
    /// programs that use `select`, and each run needs a handful. What the hard limit does not allow is said.
    fn raise_descriptor_limit(&self) {
        use nix::sys::resource::Resource;
        use nix::sys::resource::getrlimit;
        use nix::sys::resource::setrlimit;
        let places = u64::from(self.settings.loaded.table.scheduler.max_concurrent_runs);
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

    /// Starts the threads and waits for the scheduler's.
    fn supervise(self) -> io::Result<Ended> {
        let jobs = runtime::Builder::new_multi_thread()
            .worker_threads(JOB_THREADS)
            .thread_name("jobs")
            .enable_all()
            .build()?;
        // PID 1 of a container inherits every process whose parent has ended. Safe here: all children of the daemon,
        // guardian included, are started by `executor`, which knows which ones those are.
        if std::process::id() == 1 {
            executor::reap_orphans();
        }
        let (guard, orders) = Guard::new();
        let (program, me) = (self.settings.guardian.clone(), self.settings.me.clone());
        let guardian =
            thread::Builder::new().name("guardian".to_owned()).spawn(move || guard::serve(program, me, orders))?;
        let handle = jobs.handle().clone();
        let scheduler =
            thread::Builder::new().name("scheduler".to_owned()).spawn(move || self.schedule(handle, guard))?;
        let ended = match scheduler.join() {
            Ok(ended) => ended?,
            Err(payload) => panicked("scheduler", &driver::panic_text(&*payload)),
        };
        // Ends what is left of runs, and with them the last who could send to the guardian.
        jobs.shutdown_timeout(LEFTOVERS);
        match guardian.join() {
            Ok(()) => Ok(ended),
            Err(payload) => Ok(panicked("guardian", &driver::panic_text(&*payload))),
        }
    }

    /// The scheduler's thread.
    fn schedule(self, jobs: Handle, guard: Guard) -> io::Result<Ended> {
        let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
        let end = runtime.block_on(async {
            let driver = self.driver(jobs, guard)?;
            Ok::<_, io::Error>(driver.run().await)
        })?;
        // A store that does not answer does not hold up the end.
        runtime.shutdown_background();
        Ok(match end {
            End::Drained { drained, waited, finished } => {
                if drained.stopped == 0 && drained.unrecorded == 0 {
                    events::daemon_drained(waited, finished);
                    Ended::Drained
                } else {
                    Ended::Cut
                }
            }
            End::Panicked(task, error) => panicked(task, &error),
            End::Failed(error) => return Err(error),
        })
    }

    fn driver(self, jobs: Handle, guard: Guard) -> io::Result<Driver> {
        let Settings { me, loaded, store, drain_timeout, clock, ends_with_stdin, .. } = self.settings;
        let table = loaded.table;
        let (sender, inbox) = mpsc::channel::<Message>(INBOX);
        let store_watch = Arc::new(StoreWatch::new(Arc::clone(&store), Arc::clone(&clock)));
        let mut chores = JoinSet::new();
        chores.spawn(signals::pass_on(signals::listen()?, sender.clone()));
        chores.spawn(Arc::clone(&store_watch).keep());
        chores.spawn(Arc::clone(&store_watch).compare_identity(sender.clone()));
        if ends_with_stdin {
            chores.spawn(signals::watch_stdin(sender.clone()));
        }
        let engine = Engine::new(me.clone(), &table, clock.now());
        let engine = if store.has_clock() { engine } else { engine.without_store_clock() };
        let hands = Hands {
            store,
            store_watch,
            ask_limit: perform::ask_limit(table.scheduler.lock_lease),
            launcher: Launcher {
                me,
                clock: Arc::clone(&clock),
                guard,
                inbox: sender,
                redaction: table.scheduler.redact.clone(),
            },
            reporter: Reporter::new(&table),
            jobs,
            controls: BTreeMap::new(),
            finished: 0,
            asking: JoinSet::new(),
            running: JoinSet::new(),
            chores,
        };
        Ok(Driver { engine, clock, timer: Timer::new()?, inbox, hands, drain_timeout })
    }
}

/// Says what the table needs and this machine has not, where that is known soon.
fn say_what_is_missing(look_around: LookAround, redaction: &Redaction) {
    let (sender, found) = std::sync::mpsc::channel();
    // A thread of its own, that nobody waits for: a look at a dead file server never ends.
    let looking = thread::Builder::new().name("look".to_owned()).spawn(move || drop(sender.send(look_around())));
    match looking.map(|_| found.recv_timeout(LOOK_WITHIN)) {
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
        Err(error) => events::table_warning("W513", "", &format!("nobody could look for what jobs need: {error}")),
    }
}

fn panicked(task: &str, error: &str) -> Ended {
    events::daemon_panicked(task, error);
    Ended::Failed
}
