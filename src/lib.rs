//! onecron: a distributed cron scheduler. Every replica runs the same job table; at each tick exactly one executes.

pub mod cli;
pub mod clock;
<<<<<<< HEAD
pub mod engine;
=======
pub mod config;
>>>>>>> config
pub mod job;
pub mod schedule;
pub mod store;
pub mod secret;
pub mod telemetry;
