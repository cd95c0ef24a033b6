//! All integration tests, in one binary.

mod conformance;
mod differential;
mod redis_store;
mod sqlite_store;
mod support;
