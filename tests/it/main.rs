//! All integration tests but `tidy`: one binary, one module per subject.

#![expect(clippy::unwrap_used, reason = "tests: the names say it, and a panic is a failure")]
#![expect(clippy::print_stdout, reason = "a test that is skipped says so")]

mod browser;
mod campaigns;
mod cli;
mod cluster;
mod config;
mod conformance;
mod daemon;
mod differential;
mod document_stores;
mod exec;
mod executor;
mod failover;
mod fuzz_corpus;
mod guardian;
mod host;
mod http;
mod http_jobs;
mod http_tables;
mod log_schemas;
mod notifications;
mod processes;
mod redaction;
mod redis_modes;
mod redis_store;
mod reload;
mod schedule_cases;
mod schedule_changes;
mod schedule_commands;
mod schema;
mod server;
mod server_access;
mod server_api;
mod server_page;
mod sql_store;
mod sqlite_store;
mod store_rights;
mod store_table;
mod support;
mod table_secrets;
mod tracing;
mod why;
mod wrong_stores;
