//! Tests with real processes.

#![expect(clippy::unwrap_used, reason = "all of this is tests, and a panic is how they fail")]

mod executor;
mod guardian;
mod processes;
