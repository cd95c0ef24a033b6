//! The guardian's own process: one thread, no runtime, three things to wait for: a message, a deadline, the end.

use super::hunt;
use super::protocol::READY;
use super::protocol::Reader;
use super::watch::Watch;
use crate::clock::Boot;
use crate::clock::Clock;
use crate::clock::SystemClock;
use nix::errno::Errno;
use nix::poll::PollFd;
use nix::poll::PollFlags;
use nix::poll::PollTimeout;
use nix::poll::poll;
use nix::sys::signal::SigSet;
use nix::sys::time::TimeSpec;
use nix::sys::timerfd::ClockId;
use nix::sys::timerfd::Expiration;
use nix::sys::timerfd::TimerFd;
use nix::sys::timerfd::TimerFlags;
use nix::sys::timerfd::TimerSetTimeFlags;
use nix::unistd::close;
use nix::unistd::getppid;
use nix::unistd::read;
use nix::unistd::setsid;
use nix::unistd::write;
use std::fs;
use std::os::fd::AsFd;
use std::os::fd::RawFd;
use std::time::Duration;

/// The main function of `onecron guardian`. Obeys what it reads on its standard input, and returns the exit code: 0
/// when its input has ended and nothing is left to be stopped, 1 when it cannot wait or has no timer.
pub fn serve() -> i32 {
    let daemon = getppid().as_raw();
    detach();
    match guard(daemon) {
        Ok(()) => 0,
        Err(_) => 1,
    }
}

/// Lets go of everything that the daemon has, and of everything that could end this process before its time.
fn detach() {
    // Blocked is as good as ignored, for a process with one thread that starts no other. A ^C at the terminal and a
    // TERM to the daemon's group are not meant for this one; its own session keeps it out of both, from here on.
    let _ = SigSet::all().thread_block();
    // Fails only for the leader of a group, as when a shell starts it: then it stays where it is.
    let _ = setsid();
    // What the daemon inherited from whoever started it, a log pipe or a socket, would stay open with this process.
    let inherited: Vec<RawFd> = fs::read_dir("/proc/self/fd")
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter(|fd| *fd > 2)
        .collect();
    for fd in inherited {
        // One of them was the folder that was just listed.
        let _ = close(fd);
    }
    // A working directory keeps its file system from being unmounted.
    let _ = std::env::set_current_dir("/");
}

fn guard(daemon: i32) -> nix::Result<()> {
    let input = std::io::stdin();
    // This clock goes on while the machine is suspended, and the timer fires at once when it wakes up. The time-out of
    // `poll` stands still meanwhile, and would add the rest of its wait to the deadline.
    let timer = TimerFd::new(ClockId::CLOCK_BOOTTIME, TimerFlags::TFD_CLOEXEC | TimerFlags::TFD_NONBLOCK)?;
    let (mut watch, mut reader, mut is_open) = (Watch::default(), Reader::default(), true);
    // Nobody reads it where the input is a file or a pipe.
    let _ = write(input.as_fd(), READY);
    while !watch.is_over() {
        set(&timer, watch.next())?;
        let mut waiting =
            [PollFd::new(timer.as_fd(), PollFlags::POLLIN), PollFd::new(input.as_fd(), PollFlags::POLLIN)];
        let count = if is_open { 2 } else { 1 };
        match poll(&mut waiting[..count], PollTimeout::NONE) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(error) => return Err(error),
        }
        // Invariant: what was sent is heard before anything is done. After a time in which this process stood still
        // too, the extension that saves a run lies in the input, and its old deadline has passed.
        if is_open {
            is_open = hear(&mut reader, |message| watch.obey(message, |pid| hunt::look(pid, daemon)));
            if !is_open {
                watch.be_alone();
            }
        }
        watch.act(SystemClock.now().boot, hunt::strike);
    }
    Ok(())
}

/// Reads all there is, within bounds, and says whether more may come.
fn hear(reader: &mut Reader, mut obey: impl FnMut(super::protocol::Message)) -> bool {
    const READS_MOST: usize = 1000;
    let input = std::io::stdin();
    let mut buffer = [0; 4096];
    for _ in 0..READS_MOST {
        let mut waiting = [PollFd::new(input.as_fd(), PollFlags::POLLIN)];
        if !matches!(poll(&mut waiting, PollTimeout::ZERO), Ok(1..)) {
            return true;
        }
        match read(input.as_fd(), &mut buffer) {
            Ok(0) => return false,
            Ok(count) => reader.feed(&buffer[..count]).into_iter().for_each(&mut obey),
            Err(Errno::EINTR | Errno::EAGAIN) => return true,
            Err(_) => return false,
        }
    }
    true
}

/// Sets the timer to an instant, or to nothing.
fn set(timer: &TimerFd, at: Option<Boot>) -> nix::Result<()> {
    // Zero would switch it off.
    let Some(at) = at.map(|at| Duration::from_nanos(at.nanos().max(1))) else { return timer.unset() };
    timer.set(Expiration::OneShot(TimeSpec::from_duration(at)), TimerSetTimeFlags::TFD_TIMER_ABSTIME)
}
