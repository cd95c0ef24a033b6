//! All integration tests, in one binary.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking, and so do its helpers")]
#![expect(clippy::print_stdout, reason = "a test that is skipped says so")]

mod conformance;
mod differential;
mod redis_store;
mod sqlite_store;
mod support;
