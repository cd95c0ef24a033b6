//! One replica of the demo: this program again, as a child.
//!
//! A child never outlives the demo, whatever happens to it: it stops when its standard input ends, and that is a pipe
//! whose other end only the demo holds.

use std::io;
use std::io::BufRead;
use std::io::BufReader;
use std::io::Read;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Child;
use std::process::ChildStdin;
use std::process::Command;
use std::process::ExitStatus;
use std::process::Stdio;
use std::sync::mpsc::SyncSender;
use std::thread;

/// What the demo hears.
#[derive(Debug)]
pub enum Note {
    /// A replica wrote a line.
    Line(usize, String),
    /// A replica's output has ended: it has ended, or is about to.
    Gone(usize),
    /// A signal: the demo is to end.
    End,
}

/// A child, and what ends it when it is dropped.
#[derive(Debug)]
pub struct Replica {
    child: Child,
    stdin: Option<ChildStdin>,
}

impl Replica {
    /// Starts the replica of this number on what is in a folder.
    ///
    /// # Errors
    /// This program cannot be started once more.
    pub fn start(number: usize, folder: &Path, notes: &SyncSender<Note>) -> io::Result<Self> {
        let store = format!("sqlite:{}", folder.join("onecron.db").display());
        // This very program, even when its file was replaced.
        let mut command = Command::new("/proc/self/exe");
        command.arg0("onecron").arg("run").arg("--jobs").arg(folder.join("jobs.yaml"));
        command.args(["--store", &store, "--namespace", "demo", "--instance", &format!("replica-{number}")]);
        command.args(["--log-format", "json", "--log-level", "info", "--exit-with-stdin", "--listen", "127.0.0.1:0"]);
        for (name, _) in std::env::vars_os().filter(|(name, _)| name.as_encoded_bytes().starts_with(b"ONECRON_")) {
            command.env_remove(name);
        }
        // A group of its own: a ^C at the terminal is for the demo, which then ends all three in order.
        command.process_group(0).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn()?;
        let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let replica = Self { child, stdin };
        read_lines(number, stderr, notes.clone(), false)?;
        read_lines(number, stdout, notes.clone(), true)?;
        Ok(replica)
    }

    /// Its process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Asks it to stop its jobs and itself.
    pub fn stop(&mut self) {
        self.stdin = None;
    }

    /// Waits until it has ended; to be called when its output has.
    ///
    /// # Errors
    /// The system does not know it.
    pub fn wait(&mut self) -> io::Result<ExitStatus> {
        self.child.wait()
    }
}

impl Drop for Replica {
    fn drop(&mut self) {
        if !matches!(self.child.try_wait(), Ok(Some(_))) {
            // Its guardian ends its jobs. Fails where it has ended just now.
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

/// Reads on a thread that ends with the output.
fn read_lines(
    number: usize,
    output: Option<impl Read + Send + 'static>,
    notes: SyncSender<Note>,
    says_end: bool,
) -> io::Result<()> {
    let Some(output) = output else { return Ok(()) };
    thread::Builder::new().name(format!("replica-{number}")).spawn(move || {
        for line in BufReader::new(output).lines() {
            let Ok(line) = line else { break };
            if notes.send(Note::Line(number, line)).is_err() {
                return;
            }
        }
        if says_end {
            let _ = notes.send(Note::Gone(number));
        }
    })?;
    Ok(())
}
