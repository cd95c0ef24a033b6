//! From `jobs.yaml` to a checked [`JobTable`](crate::job::JobTable), or to a report on everything that is wrong with it.
//!
//! [`read`] touches files, and [`Needs::missing_here`] looks for what the jobs need; [`load`] is a pure function of bytes and of the time it is given. It knows no other notation than
//! the one in `docs/jobs.md`, and it never guesses: what it does not understand completely is refused, with a hint.

mod clock_changes;
mod doubts;
mod files;
mod hash;
mod hidden;
mod host;
mod http;
mod job;
mod notify;
mod problem;
mod reader;
mod redact;
mod shared;
mod syntax;
mod table;
mod text;
mod units;
mod variables;
mod words;
mod yaml;

pub use files::BYTES_MOST;
pub use files::DEFAULT_PATH;
pub use files::Source;
pub use files::fingerprint;
pub use files::is_mounted_alone;
pub use files::read;
pub use host::Needs;
pub use problem::Problem;
pub use problem::Severity;
pub use problem::render;
pub use table::JOBS_MOST;
pub use table::Loaded;
pub use table::load;
pub use text::steers;
pub use text::visible;
pub use units::duration_text;
pub use units::parse_duration;
pub use variables::is_variable;
pub use words::nearest;
