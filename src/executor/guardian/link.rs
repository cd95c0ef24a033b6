//! A guardian process and the socket that it listens to.

use super::protocol::Message;
use super::protocol::READY;
use crate::clock::Boot;
use crate::clock::Clock;
use crate::clock::SystemClock;
use crate::executor::children;
use nix::errno::Errno;
use nix::poll::PollFd;
use nix::poll::PollFlags;
use nix::poll::PollTimeout;
use nix::poll::poll;
use nix::sys::socket::AddressFamily;
use nix::sys::socket::MsgFlags;
use nix::sys::socket::SockFlag;
use nix::sys::socket::SockType;
use nix::sys::socket::send;
use nix::sys::socket::socketpair;
use nix::unistd::read;
use std::io;
use std::os::fd::AsFd;
use std::os::fd::AsRawFd;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Child;
use std::process::Command;
use std::process::Stdio;
use std::time::Duration;

/// How long a guardian may take until it listens, or until it has read what lies before it.
const ANSWERS_WITHIN: Duration = Duration::from_secs(2);

/// A guardian that has said that it listens. When this is dropped, its input ends.
#[derive(Debug)]
pub(super) struct Link {
    /// Always there, until the drop.
    child: Option<Child>,
    socket: OwnedFd,
}

impl Link {
    /// Starts one.
    pub(super) fn new(program: &Path) -> io::Result<Self> {
        // Whole messages, and an end when the other side closes: no other kind of socket has both.
        let (ours, theirs) = socketpair(AddressFamily::Unix, SockType::SeqPacket, None, SockFlag::SOCK_CLOEXEC)
            .map_err(io::Error::from)?;
        let mut command = Command::new(program);
        // No environment: it needs none, holds no secret, and is never taken for a process of a run.
        command.arg0("onecron").arg("guardian").env_clear();
        command.stdin(Stdio::from(theirs)).stdout(Stdio::null()).stderr(Stdio::null());
        let child = children::spawn(&mut command)?;
        // Lets go of this side's copy of the other end: with it open, the end of the guardian would not be noticed.
        drop(command);
        let link = Self { child: Some(child), socket: ours };
        match link.hear_ready() {
            Ok(()) => Ok(link),
            Err(error) => {
                link.end();
                Err(error)
            }
        }
    }

    /// Its process.
    pub(super) fn pid(&self) -> Option<u32> {
        self.child.as_ref().map(Child::id)
    }

    fn hear_ready(&self) -> io::Result<()> {
        let mut answer = [0; 64];
        self.wait_for(PollFlags::POLLIN)?;
        let count = read(self.socket.as_fd(), &mut answer)?;
        if answer.get(..count) == Some(READY) {
            return Ok(());
        }
        Err(io::Error::other("start the guardian: it ended, or is another program, before it listened"))
    }

    /// Sends one message, or says at once that it cannot.
    pub(super) fn tell(&self, message: &Message) -> nix::Result<()> {
        let flags = MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_NOSIGNAL;
        send(self.socket.as_raw_fd(), message.to_string().as_bytes(), flags).map(drop)
    }

    /// Sends one message, and waits for room where there is none.
    pub(super) fn tell_patiently(&self, message: &Message) -> io::Result<()> {
        loop {
            match self.tell(message) {
                Err(Errno::EAGAIN) => self.wait_for(PollFlags::POLLOUT)?,
                told => return told.map_err(io::Error::from),
            }
        }
    }

    fn wait_for(&self, what: PollFlags) -> io::Result<()> {
        let until = SystemClock.now().boot + ANSWERS_WITHIN;
        let left = |now: Boot| u16::try_from(until.since(now).as_millis()).unwrap_or(u16::MAX);
        loop {
            let left = left(SystemClock.now().boot);
            let mut waiting = [PollFd::new(self.socket.as_fd(), what)];
            match poll(&mut waiting, PollTimeout::from(left)) {
                Ok(1..) => return Ok(()),
                // The end of some child interrupts this.
                Err(Errno::EINTR) if left > 0 => {}
                Ok(_) | Err(Errno::EINTR) => {
                    let why = format!("speak to the guardian: it did not answer within {ANSWERS_WITHIN:?}");
                    return Err(io::Error::new(io::ErrorKind::TimedOut, why));
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Ends it at once, whatever it has still to do.
    pub(super) fn end(mut self) {
        if let Some(mut child) = self.child.take() {
            // It is our child and not reaped: the number is its own.
            let _ = child.kill();
            children::abandon(child);
        }
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        // It goes on until nothing is armed, and somebody has to reap it then.
        if let Some(child) = self.child.take() {
            children::abandon(child);
        }
    }
}
