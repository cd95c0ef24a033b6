//! All integration tests but `tidy`: one binary, one module per subject.
#![expect(missing_docs, clippy::unwrap_used, reason = "tests: the names say it, and a panic is a failure")]

mod config;
mod conformance;
mod differential;
mod executor;
mod guardian;
mod processes;
mod redis_store;
mod simulation;
mod sqlite_store;
mod support;
