//! `onecron demo`: three replicas on one embedded store, with a built-in job table, to be played with.

mod line;
mod replica;

use super::settings;
use crate::clock::Boot;
use crate::clock::Clock;
use crate::clock::SystemClock;
use crate::config;
use clap::Args;
use line::Tone;
use replica::Note;
use replica::Replica;
use signal_hook::consts::SIGHUP;
use signal_hook::consts::SIGINT;
use signal_hook::consts::SIGQUIT;
use signal_hook::consts::SIGTERM;
use signal_hook::iterator::Signals;
use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::fs::DirBuilder;
use std::io;
use std::io::IsTerminal;
use std::io::Write;
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::sync::mpsc;
use std::sync::mpsc::Receiver;
use std::sync::mpsc::SyncSender;
use std::thread;
use std::time::Duration;

const TABLE: &str = include_str!("jobs.yaml");
const REPLICAS: usize = 3;
/// Lines that wait while the terminal is slow.
const NOTES_WAITING: usize = 256;
/// How long a replica stays away that has ended.
const START_AGAIN_AFTER: Duration = Duration::from_secs(10);
/// How long the end waits for replicas, before they are killed.
const END_WITHIN: Duration = Duration::from_secs(10);

/// Shows three daemons that share the work: kill one, and see what the others do
///
/// Everything happens in a temporary folder and in child processes of this one; at the end nothing of it is left.
#[derive(Debug, Clone, Args)]
pub struct DemoArgs {
    /// End by itself after so long
    #[arg(long = "for", value_name = "DURATION", value_parser = config::parse_duration)]
    pub length: Option<Duration>,
}

/// Runs the demo until ^C, or as long as was asked for. Returns the exit code: 0, or 1 when it cannot be shown.
pub fn run(args: &DemoArgs, out: &mut dyn Write, err: &mut dyn Write) -> u8 {
    let shown = Folder::new().and_then(|folder| {
        let ended = Demo::start(&folder, out).and_then(|demo| demo.show(args.length));
        let gone = folder.remove();
        ended.and(gone)
    });
    let said = shown.and_then(|()| {
        writeln!(out, "\nThe demo has ended, and nothing of it is left. For jobs of your own: write a jobs.yaml, check it with")?;
        writeln!(out, "`onecron validate jobs.yaml`, and start `onecron run --jobs jobs.yaml --store redis://HOST` on each server.")
    });
    match said {
        Ok(()) => 0,
        // As in `onecron demo | head`.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => 0,
        Err(error) => {
            let _ = writeln!(err, "error: show the demo: {error}");
            1
        }
    }
}

/// A temporary folder with the table; removed when it is dropped.
struct Folder(PathBuf);

impl Folder {
    fn new() -> io::Result<Self> {
        let nonce = settings::nonce().map_err(|refusal| io::Error::other(refusal.message))?;
        let path = env::temp_dir().join(format!("onecron-demo-{nonce}"));
        // Fails where it exists: it may be a trap of another user.
        DirBuilder::new().mode(0o700).create(&path)?;
        let folder = Self(path);
        fs::write(folder.0.join("jobs.yaml"), TABLE)?;
        Ok(folder)
    }

    fn remove(self) -> io::Result<()> {
        fs::remove_dir_all(&self.0)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

struct Demo<'a> {
    folder: &'a Path,
    out: &'a mut dyn Write,
    colours: bool,
    replicas: BTreeMap<usize, Replica>,
    /// Replicas that have ended, and when they start again.
    away: BTreeMap<usize, Boot>,
    notes: Receiver<Note>,
    sender: SyncSender<Note>,
    signals: signal_hook::iterator::Handle,
}

impl Drop for Demo<'_> {
    fn drop(&mut self) {
        self.signals.close();
    }
}

impl<'a> Demo<'a> {
    fn start(folder: &'a Folder, out: &'a mut dyn Write) -> io::Result<Self> {
        let (sender, notes) = mpsc::sync_channel(NOTES_WAITING);
        let mut signals = Signals::new([SIGINT, SIGTERM, SIGQUIT, SIGHUP])?;
        let (handle, tell) = (signals.handle(), sender.clone());
        thread::Builder::new().name("signals".to_owned()).spawn(move || {
            // Ends when the handle is closed, or when nobody listens any more.
            signals.forever().take_while(|_| tell.send(Note::End).is_ok()).for_each(drop);
        })?;
        let colours = io::stdout().is_terminal() && env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        let (replicas, away) = (BTreeMap::new(), BTreeMap::new());
        let mut demo = Self { folder: &folder.0, out, colours, replicas, away, notes, sender, signals: handle };
        for number in 1..=REPLICAS {
            demo.start_replica(number)?;
        }
        demo.introduce()?;
        Ok(demo)
    }

    fn start_replica(&mut self, number: usize) -> io::Result<()> {
        let replica = Replica::start(number, self.folder, &self.sender)?;
        self.replicas.insert(number, replica);
        Ok(())
    }

    fn introduce(&mut self) -> io::Result<()> {
        let pid = |number: usize| self.replicas.get(&number).map_or(0, Replica::pid);
        let (first, second, third) = (pid(1), pid(2), pid(3));
        let table = self.folder.join("jobs.yaml");
        let table = table.display();
        writeln!(
            self.out,
            "Three replicas of onecron share one store and one job table. At each tick one of them runs the job.\n\n  \
             replica-1  pid {first}\n  replica-2  pid {second}\n  replica-3  pid {third}\n  table      {table}\n\n\
             Try in another terminal:\n  \
             kill -9 {first}      the others notice within 8 s; an `import` that it ran starts again elsewhere\n  \
             kill {second}         it drains: starts nothing more, and ends when its jobs have ended\n  \
             kill -STOP {third}   it freezes: its guardian ends its jobs, the others go on (kill -CONT {third} wakes it)\n  \
             edit the table     they read it within 10 s, and a mistake in it changes nothing but a line of the log\n  \
             onecron next --jobs {table}\n  \
             a browser          each replica has a page, at the address in its first line\n\nA replica that ended starts again after {} s. End with ^C.\n",
            START_AGAIN_AFTER.as_secs()
        )
    }

    /// Shows what the replicas say, until it is time to end; and ends them.
    fn show(mut self, length: Option<Duration>) -> io::Result<()> {
        let shown = self.show_until(length.map(|length| now() + length));
        let ended = self.end();
        shown.and(ended)
    }

    fn show_until(&mut self, end: Option<Boot>) -> io::Result<()> {
        loop {
            let at = self.away.values().copied().chain(end).min();
            match self.hear(at) {
                Some(Note::Line(number, line)) => self.print(number, &line)?,
                Some(Note::Gone(number)) => self.replica_ended(number)?,
                Some(Note::End) => return Ok(()),
                None if end.is_some_and(|end| now() >= end) => return Ok(()),
                None => self.start_again()?,
            }
        }
    }

    /// The next note, or `None` when the instant has come.
    fn hear(&self, at: Option<Boot>) -> Option<Note> {
        // The sender of this struct keeps the channel open.
        let Some(at) = at else { return self.notes.recv().ok() };
        self.notes.recv_timeout(at.since(now())).ok()
    }

    fn replica_ended(&mut self, number: usize) -> io::Result<()> {
        let Some(mut replica) = self.replicas.remove(&number) else { return Ok(()) };
        let how = how_it_ended(replica.wait()?);
        self.away.insert(number, now() + START_AGAIN_AFTER);
        self.say(number, &format!("{how}; it starts again in {} s", START_AGAIN_AFTER.as_secs()))
    }

    fn start_again(&mut self) -> io::Result<()> {
        let now = now();
        let due: Vec<usize> = self.away.iter().filter(|(_, at)| **at <= now).map(|(number, _)| *number).collect();
        for number in due {
            self.away.remove(&number);
            self.start_replica(number)?;
            let pid = self.replicas.get(&number).map_or(0, Replica::pid);
            self.say(number, &format!("started again, pid {pid}"))?;
        }
        Ok(())
    }

    /// Ends the replicas, in order where that is possible.
    fn end(&mut self) -> io::Result<()> {
        self.replicas.values_mut().for_each(Replica::stop);
        let limit = now() + END_WITHIN;
        let mut printed = Ok(());
        while !self.replicas.is_empty() {
            match self.hear(Some(limit)) {
                // A closed terminal is no reason to leave them alone.
                Some(Note::Line(number, line)) => printed = printed.and_then(|()| self.print(number, &line)),
                Some(Note::Gone(number)) => drop(self.replicas.remove(&number).map(|mut replica| replica.wait())),
                // Again ^C, or they take too long: dropping kills them.
                Some(Note::End) | None => self.replicas.clear(),
            }
        }
        printed
    }

    fn print(&mut self, number: usize, line: &str) -> io::Result<()> {
        let Some((tone, text)) = line::render(line) else { return Ok(()) };
        let text = match (self.colours, tone) {
            (true, Tone::Error) => format!("\x1b[31m{text}\x1b[0m"),
            (true, Tone::Warning) => format!("\x1b[33m{text}\x1b[0m"),
            _ => text,
        };
        self.say(number, &text)
    }

    fn say(&mut self, number: usize, text: &str) -> io::Result<()> {
        const COLOURS: [u8; REPLICAS] = [36, 35, 32];
        let name = format!("replica-{number}");
        match COLOURS.get(number - 1).filter(|_| self.colours) {
            Some(colour) => writeln!(self.out, "\x1b[{colour}m{name}\x1b[0m {text}"),
            None => writeln!(self.out, "{name} {text}"),
        }
    }
}

fn how_it_ended(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("ended with exit code {code}"),
        (None, Some(signal)) => format!("was ended by signal {signal}"),
        (None, None) => "ended".to_owned(),
    }
}

fn now() -> Boot {
    SystemClock.now().boot
}
