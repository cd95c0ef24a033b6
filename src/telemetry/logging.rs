//! Start and end of the log: one JSON object a line on standard output, or text for people.
//!
//! An event goes through here on the thread that raised it as far as the queue; a thread of its own writes. One
//! writer, one write a line, so that lines never mix. Events of other crates are not shown: they carry SQL and
//! addresses, and what an operator must know of them comes back as a value and is said in [`super::events`].

use super::events;
use super::line;
use super::line::Fields;
use super::line::Head;
use super::line::Source;
use super::queue::Queue;
use super::queue::Worth;
use crate::clock::Clock;
use crate::clock::SystemClock;
use nix::poll::PollFd;
use nix::poll::PollFlags;
use nix::poll::PollTimeout;
use std::fs::File;
use std::io;
use std::io::ErrorKind;
use std::io::IsTerminal;
use std::io::Write;
use std::os::fd::AsFd;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;
use tracing::Dispatch;
use tracing::Event;
use tracing::Level;
use tracing::Metadata;
use tracing::Subscriber;
use tracing_subscriber::layer::Context;
use tracing_subscriber::layer::Layer;
use tracing_subscriber::layer::SubscriberExt;

pub use super::line::LogFormat;
pub use super::line::Place;
pub use super::schema::LogSchema;

/// How many bytes wait for a slow reader of standard output.
const QUEUE_BYTES: usize = 4 << 20;
/// How long the end of the program waits for a stuck standard output.
const FLUSH_LIMIT: Duration = Duration::from_secs(2);

/// How to log.
#[derive(Debug, Clone)]
pub struct LogSettings {
    /// `None`: text on a terminal, else JSON.
    pub format: Option<LogFormat>,
    /// What the fields of JSON are called.
    pub schema: LogSchema,
    /// What is shown: this and what is worse.
    pub level: LogLevel,
    /// The replica's name, in every line.
    pub replica: String,
    /// Where it is, likewise.
    pub place: Place,
}

/// A word of `--log-level`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogLevel {
    /// Somebody must act.
    Error,
    /// Unexpected, went on.
    Warn,
    /// The life of runs, tables and the daemon.
    Info,
    /// For developers.
    Debug,
}

impl LogLevel {
    const fn most_verbose(self) -> Level {
        match self {
            Self::Error => Level::ERROR,
            Self::Warn => Level::WARN,
            Self::Info => Level::INFO,
            Self::Debug => Level::DEBUG,
        }
    }
}

/// A word that is none of the known ones.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{found:?} is not known: use {allowed}")]
pub struct UnknownWord {
    found: String,
    allowed: &'static str,
}

impl FromStr for LogLevel {
    type Err = UnknownWord;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.to_ascii_lowercase().as_str() {
            "error" => Ok(Self::Error),
            "warn" => Ok(Self::Warn),
            "info" => Ok(Self::Info),
            "debug" => Ok(Self::Debug),
            _ => Err(UnknownWord { found: text.to_owned(), allowed: "error, warn, info or debug" }),
        }
    }
}

impl FromStr for LogSchema {
    type Err = UnknownWord;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.to_ascii_lowercase().as_str() {
            "default" => Ok(Self::Default),
            "ecs" => Ok(Self::Ecs),
            "gcp" => Ok(Self::Gcp),
            _ => Err(UnknownWord { found: text.to_owned(), allowed: "default, ecs or gcp" }),
        }
    }
}

impl FromStr for LogFormat {
    type Err = UnknownWord;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.to_ascii_lowercase().as_str() {
            "json" => Ok(Self::Json),
            "text" => Ok(Self::Text),
            _ => Err(UnknownWord { found: text.to_owned(), allowed: "json or text" }),
        }
    }
}

/// Keeps the log going; dropped last, it writes what is left, for two seconds at most. `std::process::exit` does not
/// drop it: leave `main` by returning.
#[derive(Debug)]
#[must_use = "the log ends when this is dropped"]
pub struct LogGuard {
    queue: Arc<Queue>,
}

impl Drop for LogGuard {
    fn drop(&mut self) {
        self.queue.close();
        self.queue.wait_until_finished(FLUSH_LIMIT);
    }
}

/// Starts the log on standard output, for the whole process.
///
/// # Errors
/// Standard output cannot be duplicated, the thread cannot be started, or the log was started before.
pub fn init(settings: LogSettings) -> io::Result<LogGuard> {
    let stdout = Stdout(File::from(io::stdout().as_fd().try_clone_to_owned()?));
    let usual = if io::stdout().is_terminal() { LogFormat::Text } else { LogFormat::Json };
    let format = settings.format.unwrap_or(usual);
    let (guard, dispatch) = start(format, settings, (stdout, Box::new(say_elsewhere)), QUEUE_BYTES)?;
    tracing::dispatcher::set_global_default(dispatch).map_err(io::Error::other)?;
    Ok(guard)
}

/// Told when writing begins to fail.
type Alarm = Box<dyn FnMut(&io::Error) + Send>;

/// A log that cannot be written cannot say so: standard error may still be read by somebody.
fn say_elsewhere(error: &io::Error) {
    let _ = writeln!(
        io::stderr(),
        "error: write the log to standard output: {error}; its lines are lost until it can be written again"
    );
}

fn start(
    format: LogFormat,
    settings: LogSettings,
    (out, alarm): (impl Write + Send + 'static, Alarm),
    queue_bytes: usize,
) -> io::Result<(LogGuard, Dispatch)> {
    let queue = Arc::new(Queue::new(queue_bytes));
    let LogSettings { schema, level, replica, place, .. } = settings;
    let source = Source { service: "onecron", version: env!("CARGO_PKG_VERSION"), replica, schema, place };
    let layer = FlatLayer { format, source, level: level.most_verbose(), queue: Arc::clone(&queue) };
    let dispatch = Dispatch::new(tracing_subscriber::registry().with(layer));
    let writer = Writer { queue: Arc::clone(&queue), out, torn: false, alarm, is_broken: false };
    let own = dispatch.clone();
    std::thread::Builder::new()
        .name("log".to_owned())
        .spawn(move || tracing::dispatcher::with_default(&own, || writer.run()))?;
    Ok((LogGuard { queue }, dispatch))
}

/// Not an event of the catalogue: a job's line that goes out as it is.
const PASSTHROUGH: &str = "passthrough";

/// Writes a line of a job's output as it is, in its turn among the lines of the log, at any level.
pub fn passthrough(line: &str) {
    tracing::event!(name: PASSTHROUGH, target: events::TARGET, tracing::Level::INFO, line);
}

/// Turns events into lines and hands them to the queue.
struct FlatLayer {
    format: LogFormat,
    source: Source,
    level: Level,
    queue: Arc<Queue>,
}

impl FlatLayer {
    // That lines were dropped is said at any level: a log with a hole that looks whole is a lie.
    fn shows(&self, metadata: &Metadata<'_>) -> bool {
        metadata.is_event()
            && metadata.target() == events::TARGET
            && (*metadata.level() <= self.level
                || metadata.name() == events::LOG_DROPPED
                || metadata.name() == PASSTHROUGH)
    }
}

impl<S: Subscriber> Layer<S> for FlatLayer {
    fn enabled(&self, metadata: &Metadata<'_>, _: Context<'_, S>) -> bool {
        self.shows(metadata)
    }

    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let metadata = event.metadata();
        let mut fields = Fields::default();
        event.record(&mut fields);
        let head = Head { at: SystemClock.now().wall, level: *metadata.level(), event: metadata.name() };
        let worth = match metadata.name() {
            events::RUN_OUTPUT => Worth::Output,
            PASSTHROUGH => return self.queue.push(fields.into_raw(), Worth::Output),
            events::LOG_DROPPED => Worth::Notice,
            _ => Worth::Event,
        };
        self.queue.push(line::render(self.format, &self.source, head, &fields), worth);
    }
}

/// The thread that writes.
struct Writer<W> {
    queue: Arc<Queue>,
    out: W,
    /// The last line was written in part: the next one must not continue it.
    torn: bool,
    alarm: Alarm,
    /// The last line could not be written, and the alarm was given.
    is_broken: bool,
}

impl<W: Write> Writer<W> {
    fn run(mut self) {
        while let Some((line, worth)) = self.queue.pop() {
            // A hole is said only after a line went out: a broken output would be asked for ever.
            if self.write(&line, worth) {
                self.say_dropped();
            }
        }
        self.say_dropped();
        if let Some((line, worth)) = self.queue.pop() {
            self.write(&line, worth);
        }
        self.queue.finish();
    }

    fn say_dropped(&self) {
        if let Some(dropped) = self.queue.take_dropped() {
            events::log_dropped(dropped.output, dropped.other);
        }
    }

    /// Writes the line; counts it if that fails. Whether it went out.
    fn write(&mut self, line: &str, worth: Worth) -> bool {
        let mut rest = line.as_bytes();
        let newline = std::mem::take(&mut self.torn);
        let mut written = if newline { self.out.write_all(b"\n") } else { Ok(()) };
        while written.is_ok() && !rest.is_empty() {
            match self.out.write(rest) {
                Ok(0) => written = Err(ErrorKind::WriteZero.into()),
                Ok(count) => rest = &rest[count..],
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => written = Err(error),
            }
        }
        if let Err(error) = &written {
            self.torn = newline || rest.len() < line.len();
            self.queue.lost(worth);
            if !self.is_broken {
                (self.alarm)(error);
            }
        }
        self.is_broken = written.is_err();
        written.is_ok()
    }
}

/// Standard output without the buffer of `std::io`, and patient when somebody else made it non-blocking (terminals and
/// pipes are shared with the program at their other end).
struct Stdout(File);

impl Write for Stdout {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        loop {
            match self.0.write(bytes) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    nix::poll::poll(&mut [PollFd::new(self.0.as_fd(), PollFlags::POLLOUT)], PollTimeout::NONE)?;
                }
                result => return result,
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Condvar;
    use std::sync::Mutex;

    /// An output that can be stuck or broken, and remembers what it got.
    #[derive(Clone, Default)]
    struct Pipe(Arc<(Mutex<PipeState>, Condvar)>);

    #[derive(Default)]
    struct PipeState {
        got: String,
        stuck: bool,
        waiting: bool,
        fail_after: Option<usize>,
        failed: bool,
        alarms: Vec<String>,
    }

    impl Pipe {
        fn change(&self, change: impl FnOnce(&mut PipeState)) {
            change(&mut self.0.0.lock().unwrap());
            self.0.1.notify_all();
        }

        fn wait(&self, state_holds: impl Fn(&PipeState) -> bool) {
            let state = self.0.0.lock().unwrap();
            let limit = Duration::from_secs(20);
            let (state, _) = self.0.1.wait_timeout_while(state, limit, |state| !state_holds(state)).unwrap();
            assert!(state_holds(&state), "not within {limit:?}; got so far: {}", state.got);
        }

        fn got(&self) -> String {
            self.0.0.lock().unwrap().got.clone()
        }
    }

    impl Write for Pipe {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let mut state = self.0.0.lock().unwrap();
            state.waiting = true;
            self.0.1.notify_all();
            let mut state = self.0.1.wait_while(state, |state| state.stuck).unwrap();
            state.waiting = false;
            let count = match state.fail_after {
                Some(0) => {
                    state.failed = true;
                    self.0.1.notify_all();
                    return Err(ErrorKind::BrokenPipe.into());
                }
                Some(left) => left.min(bytes.len()),
                None => bytes.len(),
            };
            state.fail_after = state.fail_after.map(|left| left - count);
            state.got.push_str(std::str::from_utf8(&bytes[..count]).unwrap());
            self.0.1.notify_all();
            Ok(count)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn log_to(pipe: &Pipe, level: LogLevel, queue_bytes: usize) -> (LogGuard, Dispatch) {
        let (schema, place) = (LogSchema::Default, Place::default());
        let settings = LogSettings { format: None, schema, level, replica: "web-1-7f3a".to_owned(), place };
        let alarms = pipe.clone();
        let alarm = move |error: &io::Error| alarms.change(|state| state.alarms.push(error.to_string()));
        start(LogFormat::Text, settings, (pipe.clone(), Box::new(alarm)), queue_bytes).unwrap()
    }

    fn say(dispatch: &Dispatch, event: impl FnOnce()) {
        tracing::dispatcher::with_default(dispatch, event);
    }

    /// The events' names and what follows, without the time.
    fn lines(pipe: &Pipe) -> Vec<String> {
        pipe.got().lines().map(|line| line[line.len().min(13)..].to_owned()).collect()
    }

    #[test]
    fn what_was_said_is_written_before_the_end() {
        let pipe = Pipe::default();
        let (guard, dispatch) = log_to(&pipe, LogLevel::Info, QUEUE_BYTES);
        say(&dispatch, || (1..=3).for_each(|ms| events::store_recovered(Duration::from_millis(ms))));
        drop(guard);
        assert_eq!(lines(&pipe), (1..=3).map(|ms| format!("INFO store_recovered outage_ms={ms}")).collect::<Vec<_>>());
    }

    #[test]
    fn the_level_and_the_catalogue_decide_what_is_shown() {
        let pipe = Pipe::default();
        let (guard, dispatch) = log_to(&pipe, LogLevel::Error, QUEUE_BYTES);
        say(&dispatch, || {
            events::tick_late(Duration::from_millis(2000));
            events::daemon_panicked("scheduler", "overflow");
            tracing::error!("said by another crate");
            events::log_dropped(1, 0);
        });
        drop(guard);
        let [panicked, dropped] = &lines(&pipe)[..] else { panic!("{:?}", lines(&pipe)) };
        assert!(panicked.starts_with("ERROR daemon_panicked task=scheduler error=overflow"), "{panicked}");
        assert!(dropped.starts_with("WARN log_dropped output_lines=1 other_lines=0"), "{dropped}");
    }

    #[test]
    fn a_line_is_written_when_it_is_said() {
        let pipe = Pipe::default();
        let (_guard, dispatch) = log_to(&pipe, LogLevel::Info, QUEUE_BYTES);
        for ms in 1..=50 {
            say(&dispatch, || events::store_recovered(Duration::from_millis(ms)));
            pipe.wait(|state| state.got.contains(&format!("outage_ms={ms}\n")));
        }
    }

    #[test]
    fn a_stuck_output_stops_nobody_and_the_hole_is_said_when_it_flows_again() {
        let pipe = Pipe::default();
        pipe.change(|state| state.stuck = true);
        let (guard, dispatch) = log_to(&pipe, LogLevel::Info, 1000);
        say(&dispatch, || events::store_recovered(Duration::from_millis(1)));
        pipe.wait(|state| state.waiting);
        // The output holds the first line; of these, only as many as fit are kept, and none of them blocks.
        say(&dispatch, || (0..1000).for_each(|_| events::store_recovered(Duration::from_millis(2))));
        pipe.change(|state| state.stuck = false);
        pipe.wait(|state| state.got.contains("log_dropped"));
        drop(guard);
        let lines = lines(&pipe);
        let kept = lines.iter().filter(|line| line.ends_with("outage_ms=2")).count();
        let notices: Vec<_> = lines.iter().filter(|line| line.contains("log_dropped")).collect();
        assert_eq!(notices.len(), 1);
        assert!(notices[0].contains(&format!("other_lines={}", 1000 - kept)), "{kept} kept, {notices:?}");
    }

    #[test]
    fn a_line_that_went_out_in_part_is_not_continued_by_the_next() {
        let pipe = Pipe::default();
        pipe.change(|state| state.fail_after = Some(20));
        let (guard, dispatch) = log_to(&pipe, LogLevel::Info, QUEUE_BYTES);
        say(&dispatch, || events::store_recovered(Duration::from_millis(1)));
        pipe.wait(|state| state.failed);
        say(&dispatch, || events::tick_late(Duration::from_millis(1)));
        pipe.change(|state| state.fail_after = None);
        drop(guard);
        let lines = lines(&pipe);
        assert_eq!(lines[0], "INFO st");
        assert!(lines[1..].iter().any(|line| line.contains("log_dropped")), "{lines:?}");
        assert!(lines[1..].iter().all(|line| line.starts_with("WARN ")), "{lines:?}");
    }

    #[test]
    fn an_output_that_breaks_is_said_elsewhere_once_per_outage() {
        let pipe = Pipe::default();
        let (guard, dispatch) = log_to(&pipe, LogLevel::Info, QUEUE_BYTES);
        for outage in 1..=2 {
            pipe.change(|state| (state.fail_after, state.failed) = (Some(0), false));
            for _ in 0..3 {
                say(&dispatch, || events::tick_late(Duration::from_millis(1)));
                pipe.wait(|state| state.failed);
            }
            pipe.wait(|state| state.alarms.len() == outage);
            pipe.change(|state| state.fail_after = None);
            say(&dispatch, || events::store_recovered(Duration::from_millis(1)));
            pipe.wait(|state| state.got.matches("store_recovered").count() == outage);
        }
        drop(guard);
        pipe.wait(|state| state.alarms == ["broken pipe"; 2]);
    }

    #[test]
    fn the_end_does_not_wait_for_ever_for_a_stuck_output() {
        let pipe = Pipe::default();
        pipe.change(|state| state.stuck = true);
        let (guard, dispatch) = log_to(&pipe, LogLevel::Info, QUEUE_BYTES);
        say(&dispatch, || events::store_recovered(Duration::from_millis(1)));
        drop(guard);
        assert_eq!(pipe.got(), "");
        pipe.change(|state| state.stuck = false);
    }

    #[test]
    fn words_of_flags_are_read_and_others_name_the_allowed_ones() {
        assert_eq!("WARN".parse(), Ok(LogLevel::Warn));
        assert_eq!("json".parse(), Ok(LogFormat::Json));
        assert_eq!("ECS".parse(), Ok(LogSchema::Ecs));
        let error = "trace".parse::<LogLevel>().unwrap_err();
        assert_eq!(error.to_string(), "\"trace\" is not known: use error, warn, info or debug");
    }
}
