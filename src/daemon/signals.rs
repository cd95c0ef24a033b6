//! What asks the daemon to stop from outside: signals, and for a child of the demo the end of its standard input.
//!
//! `SIGPIPE` needs nothing here: Rust ignores it from the start, and a closed standard output is an error of a write.

use super::driver::Message;
use crate::telemetry::events;
use signal_hook::consts::SIGHUP;
use signal_hook::consts::SIGINT;
use signal_hook::consts::SIGQUIT;
use signal_hook::consts::SIGTERM;
use signal_hook::consts::SIGUSR1;
use signal_hook::consts::SIGUSR2;
use signal_hook_tokio::Signals;
use std::io;
use std::os::fd::AsFd;
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe;
use tokio::sync::mpsc;

/// Something from outside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Request {
    /// The signal of this name: the first one drains, the next one stops.
    End(&'static str),
    /// Whoever started this process is gone.
    Stop(&'static str),
    /// Somebody wants the files of the table to be read now.
    Reload,
}

/// Takes over the signals. From here on none of them ends the process: what comes before [`pass_on`] waits for it. To be
/// called inside a tokio runtime.
///
/// # Errors
/// The handlers cannot be installed.
pub fn listen() -> io::Result<Signals> {
    Signals::new([SIGTERM, SIGINT, SIGQUIT, SIGHUP, SIGUSR1, SIGUSR2])
}

/// What other daemons reopen their logs or read their tables by. Left to the system, it would end this one at once, and its runs
/// without a word.
const fn foreign(signal: i32) -> Option<&'static str> {
    match signal {
        SIGUSR1 => Some("USR1"),
        SIGUSR2 => Some("USR2"),
        _ => None,
    }
}

const fn request(signal: i32) -> Option<Request> {
    match signal {
        SIGTERM => Some(Request::End("TERM")),
        SIGINT => Some(Request::End("INT")),
        SIGQUIT => Some(Request::End("QUIT")),
        SIGHUP => Some(Request::Reload),
        _ => None,
    }
}

/// Passes signals on, for as long as anybody listens.
pub async fn pass_on(mut signals: Signals, inbox: mpsc::Sender<Message>) {
    use futures_util::StreamExt;
    while let Some(signal) = signals.next().await {
        if let Some(name) = foreign(signal) {
            events::signal_ignored(name, "HUP has the table read, TERM ends the daemon; the log needs no reopening");
        }
        if let Some(request) = request(signal)
            && inbox.send(Message::Asked(request)).await.is_err()
        {
            return;
        }
    }
}

/// Waits for the end of standard input, which is a pipe, and asks to stop then.
pub async fn watch_stdin(inbox: mpsc::Sender<Message>) {
    if let Ok(mut pipe) = stdin_pipe() {
        let mut ignored = [0; 256];
        while matches!(pipe.read(&mut ignored).await, Ok(1..)) {}
    }
    let _ = inbox.send(Message::Asked(Request::Stop("end of input"))).await;
}

fn stdin_pipe() -> io::Result<pipe::Receiver> {
    pipe::Receiver::from_owned_fd(io::stdin().as_fd().try_clone_to_owned()?)
}
