//! onecron: a distributed cron scheduler. Every replica runs the same job table; at each tick exactly one executes.

pub mod cli;
pub mod clock;
pub mod config;
pub mod daemon;
pub mod engine;
pub mod executor;
pub mod job;
pub mod schedule;
pub mod secret;
pub mod store;
pub mod telemetry;
