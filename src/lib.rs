//! onecron: a distributed cron scheduler. Every replica runs the same job table; at each tick exactly one executes.

pub mod clock;
pub mod executor;
pub mod job;
pub mod schedule;
