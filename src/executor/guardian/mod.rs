//! Stops runs when the daemon cannot: killed, crashed or frozen.
//!
//! One small process per daemon, the same program started as `onecron guardian`. Before the daemon starts a run that
//! somebody else may start too, it *arms* the guardian: stop that run at this instant of the boot clock. Each renewal
//! that the store confirmed moves the instant. When the daemon dies or stands still, nothing moves it any more, and
//! the guardian sends TERM to the run's process group at the deadline, and KILL after the grace.
//!
//! It is told by one line per message, at most 1024 bytes, fields separated by one blank, instants
//! in nanoseconds since boot, durations in nanoseconds:
//!
//! ```text
//! arm <start> <term_at> <kill_after> <replica> <run id>     before the start
//! adopt <start> <pid> <run id>                              after it
//! extend <start> <term_at> <run id>                         a renewal was confirmed
//! disarm <start> <run id>                                   the run has ended, or nobody else may start it any more
//! ```
//!
//! A line that says something else is passed over. The one line it answers is `ready`, when it starts to listen.
//!
//! How it finds what to stop: by group, once adopted, if the group is proved to be the run's (its leader is the very
//! child that was adopted, or a member carries the run's id); and by the environment: every process here that has both
//! `ONECRON_RUN_ID=<run id>` and `ONECRON_REPLICA=<replica>` among the variables it was started with. The second way
//! finds a run that the daemon started and could not report, and processes that left the group (`setsid`). Between the
//! look and the signal a number could only pass to another process if all others were used up within microseconds.

mod handle;
mod hunt;
mod link;
mod protocol;
mod serve;
mod watch;

pub use handle::Handle;
pub use handle::Until;
pub use serve::serve;

/// The variable with a run's id.
pub(super) const RUN_ID: &str = "ONECRON_RUN_ID";
/// The variable with the replica that started it.
pub(super) const REPLICA: &str = "ONECRON_REPLICA";
