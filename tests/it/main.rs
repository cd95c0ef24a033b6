//! All integration tests but `tidy`: one binary, one module per subject.
#![expect(clippy::unwrap_used, reason = "tests: the names say it, and a panic is a failure")]

mod config;
mod executor;
mod guardian;
mod processes;
mod simulation;
