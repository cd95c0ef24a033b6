//! `onecron schema`: what editors check a `jobs.yaml` with while it is written.

use super::store_args::not_shown;
use super::table_args;
use clap::Args;
use std::io::Write;

/// JSON Schema (draft 2020-12) of a table. A test compares it with the reader.
const SCHEMA: &str = include_str!("../../jobs.schema.json");

/// Prints the JSON Schema of jobs.yaml, for editors
///
/// `onecron schema > jobs.schema.json`, and this as the first line of the table: `# yaml-language-server:
/// $schema=./jobs.schema.json`. It knows keys, words and forms; `onecron validate` knows schedules and zones as well. Exit codes: 0; 1
/// it could not be written; 2 called wrongly; 141 nobody reads it.
#[derive(Debug, Clone, Args)]
pub struct SchemaArgs {}

/// Prints it. Returns the exit code.
pub fn run((out, err): (&mut dyn Write, &mut dyn Write)) -> i32 {
    out.write_all(SCHEMA.as_bytes()).map_or_else(|error| not_shown(error).say(err), |()| table_args::OK)
}
