//! `onecron guardian`: the process beside a daemon that stops its jobs when it cannot. Not for people.

use crate::executor;

/// Runs it to its end. Returns the exit code.
pub fn run() -> u8 {
    u8::try_from(executor::guardian::serve()).unwrap_or(1)
}
