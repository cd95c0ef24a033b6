//! Wakes the loop when it asked for it, and not a millisecond later.
//!
//! Why not tokio's timer: it counts in whole milliseconds and rounds up, so that every tick would start one to two of
//! them late. The kernel's timer is off by some ten microseconds. It runs on the clock that goes on while the machine
//! is suspended, and always for a *length* of time: an instant of the wall clock would be missed when that is set.

use nix::sys::time::TimeSpec;
use nix::sys::timerfd::ClockId;
use nix::sys::timerfd::Expiration;
use nix::sys::timerfd::TimerFd;
use nix::sys::timerfd::TimerFlags;
use nix::sys::timerfd::TimerSetTimeFlags;
use std::io;
use std::os::fd::AsFd;
use std::time::Duration;
use tokio::net::unix::pipe::Receiver;

/// See the module.
#[derive(Debug)]
pub struct Timer {
    timer: TimerFd,
    /// The same timer, as tokio hears of it. To the kernel it is a file like a pipe: readable once it has rung, and then
    /// eight bytes long; and this is tokio's one way to wait for such a file that needs no unsafe code.
    heard: Receiver,
}

impl Timer {
    /// A timer that is not set. To be called inside a tokio runtime.
    ///
    /// # Errors
    /// The system has no more file descriptors.
    pub fn new() -> io::Result<Self> {
        let flags = TimerFlags::TFD_CLOEXEC | TimerFlags::TFD_NONBLOCK;
        let timer = TimerFd::new(ClockId::CLOCK_BOOTTIME, flags)?;
        let heard = Receiver::from_owned_fd_unchecked(timer.as_fd().try_clone_to_owned()?)?;
        Ok(Self { timer, heard })
    }

    /// Rings so much later, once, in place of what was set before.
    ///
    /// # Errors
    /// The kernel refuses the length: none that this program asks for.
    pub fn set(&self, after: Duration) -> io::Result<()> {
        // Zero would switch it off.
        let after = TimeSpec::from_duration(after.max(Duration::from_nanos(1)));
        Ok(self.timer.set(Expiration::OneShot(after), TimerSetTimeFlags::empty())?)
    }

    /// Waits until it rings. Cancel safety: dropping the future loses nothing.
    ///
    /// # Errors
    /// The runtime is shutting down, or the timer cannot be read.
    pub async fn rung(&self) -> io::Result<()> {
        loop {
            self.heard.readable().await?;
            match self.heard.try_read(&mut [0; 8]) {
                Ok(_) => return Ok(()),
                // It was set anew since.
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Clock;
    use crate::clock::SystemClock;

    #[tokio::test]
    async fn it_is_never_early_and_what_was_set_last_counts() {
        let timer = Timer::new().unwrap();
        let begun = SystemClock.now().boot;
        timer.set(Duration::from_secs(3600)).unwrap();
        timer.set(Duration::from_millis(30)).unwrap();
        timer.rung().await.unwrap();
        assert!(SystemClock.now().boot.since(begun) >= Duration::from_millis(30));
    }

    #[tokio::test]
    async fn it_rings_once_for_each_time_it_is_set() {
        let timer = Timer::new().unwrap();
        timer.set(Duration::ZERO).unwrap();
        timer.rung().await.unwrap();
        let again = tokio::time::timeout(Duration::from_millis(20), timer.rung()).await;
        assert!(again.is_err(), "it was not set again");
        timer.set(Duration::ZERO).unwrap();
        timer.rung().await.unwrap();
    }
}
