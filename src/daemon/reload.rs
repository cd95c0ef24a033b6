//! Another table while the daemon runs: its files are read again now and then, when something happens in their folders, and
//! when somebody asks.
//!
//! ```text
//!   timer, folders.rs, HUP ─► check ─► read twice, alike? ─► known? ─► load ─► Message::Replace ─► engine
//!                                        (threads of their own)          └► refused: the table before stays
//! ```
//!
//! Contents decide, and never times. Everything that may block is done on threads that nobody must wait for; there is one
//! reader at a time, and whoever asks meanwhile is served by the next.

use super::driver::Message;
use super::folders::Folders;
use super::look;
use super::look::Look;
use crate::chance;
use crate::clock::Clock;
use crate::config;
use crate::config::Loaded;
use crate::config::Severity;
use crate::config::Source;
use crate::job::JobTable;
use crate::job::TableChanges;
use crate::plural::counted;
use crate::server::Board;
use crate::server::Files;
use crate::server::Refused;
use crate::telemetry::events;
use crate::telemetry::events::TableRefused;
use crate::telemetry::metrics::Metrics;
use crate::telemetry::metrics::Reloaded;
use std::fs;
use std::future::pending;
use std::io;
use std::path::Path;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::sync::oneshot;

#[cfg(test)]
mod tests;

/// So many readings in a row may differ.
const READINGS_MOST: u32 = 30;

/// How long things take.
#[derive(Debug, Clone, Copy)]
struct Pace {
    /// A content that has stood for so long is not half of one. Writers that pause for longer should write another file
    /// and rename it.
    settle: Duration,
    /// How long a reading is waited for.
    read_within: Duration,
    /// Between two checks, whoever asks.
    pause: Duration,
}

impl Default for Pace {
    fn default() -> Self {
        Self { settle: Duration::from_secs(1), read_within: Duration::from_secs(10), pause: Duration::from_millis(250) }
    }
}

/// Why the files are looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// It is time.
    Timer,
    /// Something happened in their folders.
    Event,
    /// HUP.
    Signal,
    /// A request over HTTP.
    Api,
}

impl Cause {
    /// As it is logged.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Timer => "timer",
            Self::Event => "event",
            Self::Signal => "signal",
            Self::Api => "api",
        }
    }

    /// Somebody asked, and is to hear how it is.
    const fn is_asked(self) -> bool {
        matches!(self, Self::Signal | Self::Api)
    }
}

/// Another table, for the scheduler.
#[derive(Debug)]
pub struct Replacement {
    /// It.
    pub table: Arc<JobTable>,
    /// Revision of the one before.
    pub previous: String,
    /// How they differ.
    pub changes: TableChanges,
    /// Why its files were looked at.
    pub cause: Cause,
    /// Is answered when it is in force.
    pub taken: oneshot::Sender<()>,
}

/// Reads the files of the table. It may block for ever.
pub type ReadFiles = Arc<dyn Fn() -> Vec<Source> + Send + Sync>;

/// The table with which it begins, and where others come from.
pub struct Origin {
    /// It is in force.
    pub table: Arc<JobTable>,
    /// [`config::fingerprint`] of the files that it was made of.
    pub fingerprint: String,
    /// Files and folders; their folders are watched.
    pub paths: Vec<PathBuf>,
    /// What reads them.
    pub read: ReadFiles,
}

/// What was read.
struct Reading {
    sources: Vec<Source>,
    fingerprint: String,
}

/// Files that tell nothing.
enum Trouble {
    /// No answer for so long.
    Silent(Duration),
    /// They differ each time.
    Restless,
    /// Nobody can be sent to read them.
    Unread(io::Error),
}

impl Trouble {
    /// What is remembered of it, in place of a fingerprint.
    const fn key(&self) -> &'static str {
        match self {
            Self::Silent(_) => "silent",
            Self::Restless => "restless",
            Self::Unread(_) => "unread",
        }
    }

    fn text(&self) -> String {
        match self {
            Self::Silent(limit) => format!("E103 the file system has not answered for {limit:?}"),
            Self::Restless => {
                "E103 each reading finds another content: let whoever writes it write another file and rename it"
                    .to_owned()
            }
            Self::Unread(error) => format!("E103 start a thread that reads it: {error}"),
        }
    }
}

/// See the module.
pub struct Reloader {
    origin: Origin,
    clock: Arc<dyn Clock>,
    inbox: mpsc::Sender<Message>,
    asked: mpsc::Receiver<Cause>,
    folders: Option<Arc<Folders>>,
    look: Look,
    metrics: Arc<Metrics>,
    /// Shows how it stands with the files.
    board: Arc<Board>,
    pace: Pace,
    /// The reading under way.
    reading: Option<oneshot::Receiver<Reading>>,
    /// Fingerprint of what is refused.
    refused: Option<String>,
}

impl Reloader {
    /// For a table that is in force. What is sent to the sender is a wish to look now; one waits, and more are that one.
    /// To be called inside a tokio runtime.
    pub fn new(
        origin: Origin,
        (clock, inbox): (Arc<dyn Clock>, mpsc::Sender<Message>),
        (look, metrics, board): (Look, Arc<Metrics>, Arc<Board>),
    ) -> (Self, mpsc::Sender<Cause>) {
        let folders = Folders::new().map(Arc::new);
        if let Err(error) = &folders {
            let detail = format!("changes are seen by the timer alone, since folders cannot be watched: {error}");
            events::setting_warning("inotify", &detail);
        }
        let (wishes, asked) = mpsc::channel(1);
        let (folders, pace, reading, refused) = (folders.ok(), Pace::default(), None, None);
        (Self { origin, clock, inbox, asked, folders, look, metrics, board, pace, reading, refused }, wishes)
    }

    /// Looks at the files again and again, until the scheduler takes no more tables.
    pub async fn keep(mut self) {
        self.say_what_cannot_change().await;
        // They may have changed since they were read for the start.
        let mut cause = Some(Cause::Timer);
        while let Some(why) = cause {
            if self.check(why).await.is_none() {
                return;
            }
            tokio::time::sleep(self.pace.pause).await;
            cause = self.next().await;
        }
    }

    /// Waits for a reason to look.
    async fn next(&mut self) -> Option<Cause> {
        let interval = self.origin.table.scheduler.reload_interval;
        loop {
            // Up to a tenth more or less, so that replicas do not read in step.
            let timer = async {
                if interval.is_zero() {
                    pending::<()>().await;
                }
                tokio::time::sleep(chance::around(interval, 0.1)).await;
            };
            let changed = async {
                match &self.folders {
                    Some(folders) if !interval.is_zero() => folders.changed().await,
                    _ => pending().await,
                }
            };
            let heard = tokio::select! {
                cause = self.asked.recv() => return cause,
                () = timer => return Some(Cause::Timer),
                heard = changed => heard,
            };
            match heard {
                Ok(()) => return Some(Cause::Event),
                Err(error) => {
                    events::setting_warning(
                        "inotify",
                        &format!("changes are seen by the timer alone from now on: {error}"),
                    );
                    self.folders = None;
                }
            }
        }
    }

    /// Looks once. `None`: the scheduler takes no more tables.
    async fn check(&mut self, cause: Cause) -> Option<()> {
        let Reading { sources, fingerprint } = match self.settled().await {
            Ok(reading) => reading,
            Err(trouble) => {
                let shown: Vec<String> = self.origin.paths.iter().map(|path| path.display().to_string()).collect();
                let first = format!("{}: {}", shown.join(","), trouble.text());
                self.refuse(cause, trouble.key(), (1, first, String::new()));
                return Some(());
            }
        };
        if fingerprint == self.origin.fingerprint {
            self.unchanged(cause);
            return Some(());
        }
        if self.refused.as_ref() == Some(&fingerprint) && !cause.is_asked() {
            self.metrics.reloaded(Reloaded::Refused);
            return Some(());
        }
        let now = self.clock.now().wall;
        let loading = beside("load", move || (config::load(&sources, now), sources));
        let (loaded, sources) = match loading {
            Ok(loading) => loading.await.expect("nothing in there panics"),
            Err(error) => {
                let trouble = Trouble::Unread(error);
                self.refuse(cause, trouble.key(), (1, trouble.text(), String::new()));
                return Some(());
            }
        };
        match loaded {
            Err(problems) => {
                let first = problems.iter().find(|problem| problem.severity == Severity::Error);
                let shown = |text: fn(&config::Problem) -> String| {
                    let text = first.map(text).unwrap_or_default();
                    self.origin.table.scheduler.redact.text(&text).into_owned()
                };
                let (line, hint) = (shown(config::Problem::in_a_line), shown(config::Problem::hint_in_a_line));
                self.refuse(cause, &fingerprint, (problems.len(), line, hint));
                Some(())
            }
            Ok(loaded) if loaded.table.revision == self.origin.table.revision => {
                // The same contents under other names.
                self.origin.fingerprint = fingerprint;
                self.unchanged(cause);
                Some(())
            }
            Ok(loaded) => self.replace(cause, (loaded, sources), fingerprint).await,
        }
    }

    fn refuse(&mut self, cause: Cause, key: &str, (problems, first, hint): (usize, String, String)) {
        self.metrics.reloaded(Reloaded::Refused);
        if self.refused.as_deref() == Some(key) && !cause.is_asked() {
            return;
        }
        let revision = self.origin.table.revision.as_str();
        events::table_refused(TableRefused { revision, problems, first: &first, hint: &hint, cause: cause.as_str() });
        self.refused = Some(key.to_owned());
        let Files { loaded_at, refused: before } = self.board.standing().files;
        let since = before.map_or_else(|| self.clock.now().wall, |before| before.since);
        self.board.files_changed(Files { loaded_at, refused: Some(Refused { since, problems, first, hint }) });
    }

    fn unchanged(&mut self, cause: Cause) {
        self.metrics.reloaded(Reloaded::Unchanged);
        let again = self.refused.take().is_some();
        events::table_unchanged(&self.origin.table.revision, cause.as_str(), again);
        if again {
            let Files { loaded_at, .. } = self.board.standing().files;
            self.board.files_changed(Files { loaded_at, refused: None });
        }
    }

    async fn replace(
        &mut self,
        cause: Cause,
        (loaded, sources): (Loaded, Vec<Source>),
        fingerprint: String,
    ) -> Option<()> {
        let Loaded { table, warnings, needs } = loaded;
        let table = Arc::new(table);
        let former = std::mem::replace(&mut self.origin.table, Arc::clone(&table));
        let changes = former.changes(&table);
        let loses_most = former.loses_most(&changes);
        let removed = changes.removed.len();
        if former.scheduler.max_concurrent_runs != table.scheduler.max_concurrent_runs {
            look::raise_descriptor_limit(table.scheduler.max_concurrent_runs);
        }
        let (taken, is_taken) = oneshot::channel();
        let previous = former.revision.clone();
        let replacement = Replacement { table: Arc::clone(&table), previous, changes, cause, taken };
        self.inbox.send(Message::Replace(Box::new(replacement))).await.ok()?;
        is_taken.await.ok()?;
        self.metrics.reloaded(Reloaded::Replaced);
        self.origin.fingerprint = fingerprint;
        self.refused = None;
        self.board.files_changed(Files { loaded_at: self.clock.now().wall, refused: None });
        if loses_most {
            let detail = format!(
                "{removed} of {} left the table with this change: if that is an accident, put them back; what runs goes on",
                counted(former.jobs.len(), "job")
            );
            events::table_warning("W516", "", &detail);
        }
        let redaction = table.scheduler.redact.clone();
        for problem in &warnings {
            events::table_warning(problem.code, &problem.path, &redaction.text(&problem.message));
        }
        let look = self.look.clone();
        if let Ok(looked) = beside("look", move || look.say(needs, sources, &redaction)) {
            let _ = looked.await;
        }
        Some(())
    }

    /// What two readings agree on. A file that is being written is not a table yet.
    async fn settled(&mut self) -> Result<Reading, Trouble> {
        let mut seen = self.read().await?;
        for _ in 0..READINGS_MOST {
            let is_known = |known: &str| known == seen.fingerprint;
            if is_known(&self.origin.fingerprint) || self.refused.as_deref().is_some_and(is_known) {
                return Ok(seen);
            }
            tokio::time::sleep(self.pace.settle).await;
            let again = self.read().await?;
            if again.fingerprint == seen.fingerprint {
                return Ok(again);
            }
            seen = again;
        }
        Err(Trouble::Restless)
    }

    /// Reads the files, or takes over the reading that is under way still.
    async fn read(&mut self) -> Result<Reading, Trouble> {
        let reading = match self.reading.take() {
            Some(reading) => reading,
            None => {
                let (read, folders, paths) =
                    (Arc::clone(&self.origin.read), self.folders.clone(), self.origin.paths.clone());
                let work = move || {
                    // Before the reading: what happens after it is heard.
                    if let Some(folders) = folders {
                        folders.follow(&paths);
                    }
                    let sources = read();
                    Reading { fingerprint: config::fingerprint(&sources), sources }
                };
                beside("read", work).map_err(Trouble::Unread)?
            }
        };
        let reading = self.reading.insert(reading);
        match tokio::time::timeout(self.pace.read_within, reading).await {
            Ok(read) => {
                self.reading = None;
                Ok(read.expect("nothing in there panics"))
            }
            Err(_) => Err(Trouble::Silent(self.pace.read_within)),
        }
    }

    /// A file that was mounted by itself into a container keeps its content for ever, or until it is written in place.
    async fn say_what_cannot_change(&mut self) {
        let Ok(Reading { sources, .. }) = self.read().await else { return };
        let look = move || -> Vec<String> {
            let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
            let is_alone = |path: &&str| config::is_mounted_alone(Path::new(path), &mounts);
            sources.iter().map(Source::path).filter(is_alone).map(str::to_owned).collect()
        };
        let Ok(looking) = beside("mounts", look) else { return };
        if let Ok(Ok(alone)) = tokio::time::timeout(self.pace.read_within, looking).await {
            for file in alone {
                let detail = "the file is mounted by itself (`subPath`, or a bind mount of one file): mount its folder";
                events::config_not_reloadable(&file, detail);
            }
        }
    }
}

/// Does something that may block on a thread of its own, and nobody has to wait for it.
fn beside<T: Send + 'static>(
    name: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> io::Result<oneshot::Receiver<T>> {
    let (sender, done) = oneshot::channel();
    thread::Builder::new().name(name.to_owned()).spawn(move || drop(sender.send(work())))?;
    Ok(done)
}
