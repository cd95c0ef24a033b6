//! Carries out a run: starts its process, reads its output, stops it; or sends its request. Steps 6 to 8 of a tick.
//!
//! It knows jobs and the clock. It never decides whether a run may start or has to stop, and it never logs: it
//! returns values, and sends lines of output through a bounded channel.
//!
//! How a job ends up dead when it has to be, from the usual to the last resort:
//! 1. the daemon calls [`Stopper::terminate`], and [`Stopper::kill`] after the grace;
//! 2. the daemon is gone or frozen: the [`guardian`] does the same, at a deadline that it was told before the start;
//! 3. the whole machine stood still, clocks included: nobody here can notice. That is what `ONECRON_FENCING_TOKEN` is for.

mod children;
mod command;
mod group;
pub mod guardian;
pub mod http;
mod output;
mod proc;
mod running;
mod spawn_error;
mod variables;

pub use children::reap_orphans;
pub use command::Deadline;
pub use command::RunContext;
pub use command::start;
pub use group::Stopper;
pub use output::OutputLine;
pub use output::Stream;
pub use running::Exit;
pub use running::Running;
pub use spawn_error::SpawnError;
