//! A run's process, from its start to its end.

use super::children;
use super::group::Group;
use super::group::Stopper;
use super::output::Output;
use std::future::Future;
use std::os::unix::process::ExitStatusExt;
use std::pin::pin;
use std::sync::Arc;

/// A process that was started. To be waited for: its output is read only while [`Self::wait`] is polled, and when
/// this (or the future of `wait`) is dropped before the end, the whole group is killed.
#[derive(Debug)]
pub struct Running {
    pub(super) group: Arc<Group>,
    pub(super) output: Output,
}

/// How a process ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Exit {
    /// Its exit code, where it exited. Without code and signal, somebody else reaped it.
    pub code: Option<i32>,
    /// The signal that ended it, where one did.
    pub signal: Option<i32>,
    /// The last bytes of output, both streams as they came in.
    pub output_tail: String,
    /// Bytes of output, all told.
    pub output_bytes: u64,
    /// Lines that were cut.
    pub truncated_lines: u64,
    /// Lines that nobody took in time. They are in the tail like all others.
    pub dropped_lines: u64,
    /// Some process that the job left behind still held its output when the run ended.
    pub pipe_held_open: bool,
}

impl Running {
    /// The process, and its group: they have the same number.
    pub fn pid(&self) -> u32 {
        self.group.id().as_raw().unsigned_abs()
    }

    /// What stops it. Outlives this, and does nothing then.
    pub fn stopper(&self) -> Stopper {
        self.group.stopper()
    }

    /// Waits for the end, and reads the output until then. The run ends with the process that was started: one that it
    /// left in the background is read a little longer (at most 2 s, while output flows) and then left alone. Only a
    /// run that is being stopped ends with the last of its group, or a second after the KILL.
    ///
    /// Cancel safety: dropping the future kills the group.
    pub async fn wait(mut self) -> Exit {
        let leader = self.group.id();
        let ended = read_until(&mut self.output, children::ended(leader)).await;
        // Before the drain, so that what is being stopped is read to its end; and after it, since a stop may also come
        // while the output is drained.
        self.read_what_is_being_stopped().await;
        let pipe_held_open = self.output.drain().await;
        self.read_what_is_being_stopped().await;
        let reaped = self.group.close();
        // A real-time signal is told only to whoever reaps.
        let unnamed = reaped.filter(|_| ended.code.is_none()).and_then(|status| status.signal());
        let totals = self.output.finish();
        Exit {
            code: ended.code,
            signal: ended.signal.or(unnamed),
            output_tail: totals.tail,
            output_bytes: totals.bytes,
            truncated_lines: totals.truncated_lines,
            dropped_lines: totals.dropped_lines,
            pipe_held_open,
        }
    }

    async fn read_what_is_being_stopped(&mut self) {
        if self.group.is_stopping() {
            read_until(&mut self.output, self.group.emptied()).await;
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // After `wait` there is nothing left to kill, and this does nothing.
        self.group.discard();
    }
}

/// Reads output until something has happened.
async fn read_until<T>(output: &mut Output, happened: impl Future<Output = T>) -> T {
    let mut happened = pin!(happened);
    loop {
        tokio::select! {
            // First: a job that never stops printing must not hide that it has ended.
            biased;
            what = &mut happened => return what,
            () = output.step(), if output.is_open() => {}
        }
    }
}
