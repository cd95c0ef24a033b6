//! onecron: a distributed cron scheduler. Every replica runs the same job table; at each tick exactly one executes.

pub mod cli;
pub mod clock;
pub mod config;
pub mod job;
pub mod schedule;
