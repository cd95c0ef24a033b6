//! What a job is, once checked, and the words of its runs. Pure data.
//!
//! Engine and stores meet here: a [`Step`] is what a replica asks of a store about one job, an [`Answer`]
//! what the store says, and both speak of [`JobRecord`] and [`RunRecord`]. Neither side knows the other.

mod history;
mod name;
mod outcome;
mod presence;
mod record;
mod slot;
mod spec;
mod step;
mod table;
mod tick;

pub use history::HistoryEntry;
pub use name::JobName;
pub use name::NameError;
pub use name::Namespace;
pub use name::ReplicaId;
pub use outcome::Ending;
pub use outcome::MissedReason;
pub use outcome::Outcome;
pub use outcome::SkipReason;
pub use outcome::StopReason;
pub use outcome::Trigger;
pub use outcome::WhenBusy;
pub use presence::Gathering;
pub use presence::PRESENT_RUNS_MOST;
pub use presence::Presence;
pub use record::FORMAT;
pub use record::Fields;
pub use record::JobRecord;
pub use record::Lookup;
pub use record::Range;
pub use record::RunRecord;
pub use record::RunState;
pub use record::Seen;
pub use record::Unreadable;
pub use spec::CATCH_UP_MOST;
pub use spec::CatchUp;
pub use spec::CommandSpec;
pub use spec::ConcurrencyPolicy;
pub use spec::HistoryLimits;
pub use spec::JobSpec;
pub use spec::LostRunPolicy;
pub use spec::OutputLimits;
pub use spec::Program;
pub use spec::RetryPolicy;
pub use spec::SchedulerSpec;
pub use step::Answer;
pub use step::Claim;
pub use step::Decision;
pub use step::EARLY_TOLERANCE_MS;
pub use step::Expect;
pub use step::Knew;
pub use step::NUMBER_LEAP;
pub use step::Reassert;
pub use step::Registration;
pub use step::Request;
pub use step::STARTS_MOST;
pub use step::Step;
pub use step::Verdict;
pub use table::JobTable;
pub use tick::RunKey;
pub use tick::Tick;
pub use tick::fencing_token;
