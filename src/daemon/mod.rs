//! The daemon: joins the engine with stores, processes, clocks and signals, and is the only place that starts tasks.
//!
//! ```text
//!   main thread     waits for the scheduler
//!   scheduler       driver.rs: the loop; requests to the store; timer.rs, signals.rs, store_watch.rs, fleet_watch.rs;
//!                   reload.rs, whose readings have threads of their own
//!   jobs (2)        runs.rs: processes and their output; post.rs: messages to notifiers
//!   http            server: answers from a board that the scheduler writes to, and is never waited for
//!   guardian        guard.rs: talks to the guardian process, and may wait for it
//!   log, traces      of telemetry
//!   children         of executor
//! ```

mod driver;
mod fleet_watch;
mod folders;
pub mod foreground;
mod guard;
mod letters;
mod look;
mod metered;
#[cfg(test)]
mod metrics_tests;
mod perform;
mod post;
mod recovery;
mod reload;
mod report;
mod requests;
mod run_spans;
mod runs;
mod signals;
mod store_watch;
#[cfg(test)]
mod tests;
mod timer;

use crate::clock::Clock;
use crate::config;
use crate::config::Loaded;
use crate::config::Source;
use crate::engine::Engine;
use crate::executor;
use crate::job::Namespace;
use crate::job::ReplicaId;
use crate::notify::Sender;
use crate::schedule::zone_data_version;
use crate::server;
use crate::server::Board;
use crate::server::Server;
use crate::server::Tls;
use crate::store::Store;
use crate::telemetry::events;
use crate::telemetry::events::DaemonStarted;
use crate::telemetry::events::TableLoaded;
use crate::telemetry::logging::Place;
use crate::telemetry::metrics::Metrics;
use crate::telemetry::traces;
use crate::telemetry::traces::Exporter;
use crate::telemetry::traces::TraceSettings;
use crate::telemetry::traces::Traced;
use crate::telemetry::traces::Tracer;
use driver::Driver;
use driver::End;
use driver::Message;
use fleet_watch::FleetWatch;
use guard::Guard;
use look::Look;
use metered::Metered;
use perform::Hands;
use post::Past;
use post::Post;
use recovery::LookBacks;
use reload::Cause;
use reload::Origin;
use reload::Reloader;
use report::Reporter;
use run_spans::RunSpans;
use runs::Launcher;
use signal_hook_tokio::Signals;
use std::collections::BTreeMap;
use std::io;
use std::net::TcpListener;
use std::path::Path;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use std::time::Duration;
use store_watch::StoreWatch;
use timer::Timer;
use tokio::runtime;
use tokio::runtime::Handle;
use tokio::runtime::Runtime;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

/// Messages to the loop that wait. Whoever sends more waits too.
const INBOX: usize = 1024;
/// Threads for processes and output.
const JOB_THREADS: usize = 2;
/// How long the end waits for what jobs left behind.
const LEFTOVERS: Duration = Duration::from_secs(1);
/// And for the spans of its last runs to reach the collector.
const SPANS_WITHIN: Duration = Duration::from_secs(5);

/// What a daemon is made of.
pub struct Settings {
    /// Who it is.
    pub me: ReplicaId,
    /// The table.
    pub loaded: Loaded,
    /// The files that it was made of, as they were read.
    pub sources: Vec<Source>,
    /// Where they are; `-` is standard input, and such a table stays.
    pub jobs: Vec<PathBuf>,
    /// Where replicas agree.
    pub store: Arc<dyn Store>,
    /// The part of it that is this fleet's.
    pub namespace: Namespace,
    /// How long runs may finish after the first signal.
    pub drain_timeout: Duration,
    /// What tells the time.
    pub clock: Arc<dyn Clock>,
    /// Where it counts what it does.
    pub metrics: Arc<Metrics>,
    /// The program that is started as the guardian.
    pub guardian: PathBuf,
    /// Settings that are allowed and probably not meant: the setting, and what to write instead.
    pub doubts: Vec<(String, String)>,
    /// The same store for those who look at the fleet, by a connection of their own: they hold up nothing.
    pub reading: Arc<dyn Store>,
    /// Where the token of those is who may act over HTTP.
    pub token_file: Option<PathBuf>,
    /// Where the token of those is who may read over HTTP; without it, everybody may.
    pub read_token_file: Option<PathBuf>,
    /// What HTTP connections are encrypted with, if they are.
    pub tls: Option<Arc<Tls>>,
    /// Where HTTP requests come in, where they do.
    pub listener: Option<TcpListener>,
    /// Where its runs are traced, if they are.
    pub traces: Option<TraceSettings>,
    /// Where it is.
    pub place: Place,
    /// Whether the daemon is not ready while the store is away.
    pub is_strict: bool,
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

/// What the scheduler's thread runs on, and the signals that are its.
struct Scheduler {
    runtime: Runtime,
    signals: Signals,
}

impl Scheduler {
    fn new() -> io::Result<Self> {
        let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
        let signals = {
            let _inside = runtime.enter();
            signals::listen()?
        };
        Ok(Self { runtime, signals })
    }
}

/// The daemon.
pub struct Daemon {
    settings: Settings,
    tracer: Option<Tracer>,
}

impl Daemon {
    /// Runs a daemon until signals have ended it, on threads of its own. The log must have been started. Says
    /// everything from `daemon_started` to `daemon_stopped`.
    pub fn run(settings: Settings) -> Ended {
        let started = settings.clock.now().boot;
        let clock = Arc::clone(&settings.clock);
        let mut daemon = Self { settings, tracer: None };
        // Before the first line: whoever has read that may send TERM.
        let scheduler = Scheduler::new();
        daemon.introduce();
        let look = Look::default();
        daemon.look_around(&look);
        let ended = scheduler.and_then(|scheduler| daemon.supervise(scheduler, look)).unwrap_or_else(|error| {
            events::daemon_failed(&error.to_string());
            Ended::Failed
        });
        events::daemon_stopped(ended.exit_code(), clock.now().boot.since(started));
        ended
    }

    fn introduce(&self) {
        let Settings { loaded, jobs, store, namespace, doubts, .. } = &self.settings;
        let files: Vec<String> = jobs.iter().map(|path| path.display().to_string()).collect();
        let files = &files.join(",");
        let (pid, store, namespace) = (std::process::id(), store.url(), namespace.as_str());
        events::daemon_started(DaemonStarted { pid, config: files, store, namespace });
        for (setting, detail) in doubts {
            events::setting_warning(setting, detail);
        }
        let table = &loaded.table;
        let (revision, zone_data) = (table.revision.as_str(), zone_data_version());
        events::table_loaded(TableLoaded { revision, zone_data, jobs: table.jobs.len(), file: files });
        for problem in &loaded.warnings {
            events::table_warning(problem.code, &problem.path, &table.scheduler.redact.text(&problem.message));
        }
    }

    fn look_around(&mut self, look: &Look) {
        let Settings { loaded, sources, .. } = &mut self.settings;
        let needs = std::mem::take(&mut loaded.needs);
        look.say(needs, sources.clone(), &loaded.table.scheduler.redact);
        look::raise_descriptor_limit(loaded.table.scheduler.max_concurrent_runs);
    }

    /// Starts the threads and waits for the scheduler's.
    fn supervise(mut self, scheduler: Scheduler, look: Look) -> io::Result<Ended> {
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
        let exporter = self.trace()?;
        let now = self.settings.clock.now();
        let table = Arc::new(self.settings.loaded.table.clone());
        let board = Arc::new(Board::new(table, (now.wall, now.boot), self.settings.is_strict));
        let http =
            self.settings.listener.take().map(|listener| self.answer(listener, Arc::clone(&board))).transpose()?;
        let handle = jobs.handle().clone();
        let schedule = move || self.schedule(scheduler, (handle, guard, board), look);
        let ended = match thread::Builder::new().name("scheduler".to_owned()).spawn(schedule)?.join() {
            Ok(ended) => ended?,
            Err(payload) => panicked("scheduler", &driver::panic_text(&*payload)),
        };
        // Ends what is left of runs, and with them the last who could send to the guardian.
        jobs.shutdown_timeout(LEFTOVERS);
        if let Some(exporter) = exporter {
            exporter.finish(SPANS_WITHIN);
        }
        let threads = [("http", http.map_or(Ok(()), Server::stop)), ("guardian", guardian.join())];
        let failed = threads.into_iter().filter_map(|(task, ended)| Some((task, ended.err()?)));
        Ok(failed.map(|(task, payload)| panicked(task, &driver::panic_text(&*payload))).last().unwrap_or(ended))
    }

    /// Starts to trace runs, where that is wanted.
    fn trace(&mut self) -> io::Result<Option<Exporter>> {
        let Settings { me, clock, metrics, traces: wanted, place, .. } = &mut self.settings;
        let Some(wanted) = wanted.take() else { return Ok(None) };
        let who = Traced { replica: me.as_str(), place };
        let (tracer, exporter) = traces::start(wanted, &who, (Arc::clone(clock), Arc::clone(metrics)))?;
        self.tracer = Some(tracer);
        Ok(Some(exporter))
    }

    /// Starts to answer HTTP requests: until the last thread has ended, so that a drain can be watched.
    fn answer(&self, listener: TcpListener, board: Arc<Board>) -> io::Result<Server> {
        let address = listener.local_addr()?;
        let Settings { me, namespace, clock, reading, token_file, read_token_file, tls, metrics, .. } = &self.settings;
        let parts = server::Parts {
            board,
            clock: Arc::clone(clock),
            store: Arc::clone(reading),
            me: server::Identity { replica: me.to_string(), namespace: namespace.to_string() },
            token_file: token_file.clone(),
            read_token_file: read_token_file.clone(),
            tls: tls.clone(),
            metrics: Arc::clone(metrics),
        };
        let server = Server::start(listener, parts)?;
        events::http_listening(address, tls.is_some());
        Ok(server)
    }

    /// The scheduler's thread.
    fn schedule(
        self,
        scheduler: Scheduler,
        (jobs, guard, board): (Handle, Guard, Arc<Board>),
        look: Look,
    ) -> io::Result<Ended> {
        let Scheduler { runtime, signals } = scheduler;
        let end = runtime.block_on(async {
            let driver = self.driver(signals, (jobs, guard, board), look)?;
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

    fn driver(
        self,
        signals: Signals,
        (jobs, guard, board): (Handle, Guard, Arc<Board>),
        look: Look,
    ) -> io::Result<Driver> {
        let Settings {
            me,
            loaded,
            sources,
            jobs: paths,
            store,
            namespace,
            drain_timeout,
            clock,
            metrics,
            ends_with_stdin,
            ..
        } = self.settings;
        let store: Arc<dyn Store> = Arc::new(Metered::new(store, Arc::clone(&metrics), Arc::clone(&clock)));
        let table = Arc::new(loaded.table);
        let (sender, inbox) = mpsc::channel::<Message>(INBOX);
        let told = (Arc::clone(&metrics), Arc::clone(&board));
        let store_watch = Arc::new(StoreWatch::new(Arc::clone(&store), Arc::clone(&clock), told));
        let mut chores = JoinSet::new();
        chores.spawn(signals::pass_on(signals, sender.clone()));
        chores.spawn(Arc::clone(&store_watch).keep());
        chores.spawn(Arc::clone(&store_watch).compare_identity(sender.clone()));
        chores.spawn(FleetWatch::new(Arc::clone(&store), Arc::clone(&clock), Arc::clone(&metrics)).keep());
        if ends_with_stdin {
            chores.spawn(signals::watch_stdin(sender.clone()));
        }
        let reload = if paths.iter().any(|path| path.as_path() == Path::new("-")) {
            events::config_not_reloadable("-", "the table came from standard input, which cannot be read again");
            None
        } else {
            let read_from = paths.clone();
            let origin = Origin {
                table: Arc::clone(&table),
                fingerprint: config::fingerprint(&sources),
                paths,
                read: Arc::new(move || config::read(&read_from)),
            };
            let told = (look, Arc::clone(&metrics), Arc::clone(&board));
            let (reloader, wishes) = Reloader::new(origin, (Arc::clone(&clock), sender.clone()), told);
            chores.spawn(reloader.keep());
            chores.spawn(pass_on_wishes(Arc::clone(&board), wishes.clone()));
            Some(wishes)
        };
        let spans = RunSpans::new(self.tracer, Arc::clone(&clock));
        let engine = Engine::new(me.clone(), &table, clock.now());
        let engine = if store.has_clock() { engine } else { engine.without_store_clock() };
        let from = Sender { namespace: namespace.to_string(), replica: me.to_string() };
        let past = Past::new(Arc::clone(&store), Handle::current());
        let post = Post::new(from, (jobs.clone(), Arc::clone(&clock), past), Arc::clone(&metrics));
        let hands = Hands {
            board,
            store,
            store_watch,
            ask_limit: perform::ask_limit(table.scheduler.lock_lease),
            launcher: Launcher {
                me,
                clock: Arc::clone(&clock),
                guard,
                inbox: sender,
                redaction: table.scheduler.redact.clone(),
                metrics: Arc::clone(&metrics),
                trace: None,
                is_trace_handed_on: spans.is_handed_on(),
            },
            reporter: Reporter::new(&table, Arc::clone(&metrics), (post, spans)),
            metrics,
            jobs,
            controls: BTreeMap::new(),
            finished: 0,
            asking: JoinSet::new(),
            running: JoinSet::new(),
            chores,
            looks: LookBacks::new(),
        };
        Ok(Driver { engine, clock, timer: Timer::new()?, inbox, hands, drain_timeout, reload, looked_at: None })
    }
}

/// Passes on that somebody wants the files of the table to be read, for as long as anybody reads them.
async fn pass_on_wishes(board: Arc<Board>, wishes: mpsc::Sender<Cause>) {
    while !wishes.is_closed() {
        board.reload_asked().await;
        // Where one wish waits, this is the same.
        let _ = wishes.try_send(Cause::Api);
    }
}

fn panicked(task: &str, error: &str) -> Ended {
    events::daemon_panicked(task, error);
    Ended::Failed
}
