//! What the commands that read a job table without a daemon have in common.

use crate::config;
use crate::config::Severity;
use crate::config::Source;
use crate::job::JobSpec;
use crate::job::JobTable;
use crate::schedule::Schedule;
use chrono::DateTime;
use chrono::SecondsFormat;
use chrono::Utc;
use clap::Args;
use clap::ValueEnum;
use std::io;
use std::io::Write;
use std::path::Path;
use std::path::PathBuf;
use std::sync::Arc;

/// Exit code: done.
pub const OK: i32 = 0;
/// Exit code: the output could not be written.
pub const FAILED: i32 = 1;
/// Exit code: whoever read the output went away, as `head` does. Shells give it to whatever SIGPIPE has ended, as it ends
/// most programs then.
pub const UNREAD: i32 = 141;
/// Exit code: the command was called wrongly.
pub const USAGE: i32 = 2;
/// Exit code: the answer is no.
pub const NO: i32 = 3;
/// Exit code: the table or a schedule is refused (`EX_CONFIG` of sysexits.h).
pub const CONFIG: i32 = 78;

/// How results are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum Format {
    /// For people.
    #[default]
    #[value(alias = "table")]
    Text,
    /// For programs.
    Json,
}

/// Where the table is.
#[derive(Debug, Clone, Args)]
pub struct TableArgs {
    /// Job table: a file, or a folder whose *.yaml are read in the order of their names; may be repeated
    #[arg(long = "jobs", value_name = "PATH", env = "ONECRON_JOBS", default_value = config::DEFAULT_PATH)]
    pub jobs: Vec<PathBuf>,
}

/// Loads a table for a command that goes by it; what is only a warning is left to `validate`.
///
/// # Errors
/// The report on what is wrong with it, for whoever called the command.
pub(super) fn load(paths: &[PathBuf], now: DateTime<Utc>) -> Result<JobTable, String> {
    let loaded = config::load(&sources(paths), now).map_err(|mut problems| {
        problems.retain(|problem| problem.severity == Severity::Error);
        config::render(&problems)
    })?;
    Ok(loaded.table)
}

/// Reads the files of a table; `-` is standard input.
pub(super) fn sources(paths: &[PathBuf]) -> Vec<Source> {
    let read = |path: &PathBuf| {
        if path.as_path() == Path::new("-") {
            vec![Source::from_reader("<stdin>", io::stdin())]
        } else {
            config::read(std::slice::from_ref(path))
        }
    };
    paths.iter().flat_map(read).collect()
}

/// An instant as the schedule's own wall clock shows it.
pub(super) fn local(schedule: &Schedule, instant: DateTime<Utc>) -> String {
    let offset = schedule.zone().offset_at(instant);
    instant.with_timezone(&offset).to_rfc3339_opts(SecondsFormat::Secs, true)
}

/// An instant in UTC.
pub(super) fn utc(instant: DateTime<Utc>) -> String {
    instant.to_rfc3339_opts(SecondsFormat::Secs, true)
}

/// A job of a table, by its name; or that there is none, and which there are.
pub(super) fn job<'a>(jobs: &'a [Arc<JobSpec>], name: &str) -> Result<&'a Arc<JobSpec>, String> {
    jobs.iter().find(|job| job.name.as_str() == name).ok_or_else(|| unknown_job(name, jobs))
}

fn unknown_job(name: &str, jobs: &[Arc<JobSpec>]) -> String {
    if let Some(near) = config::nearest(name, jobs.iter().map(|job| job.name.as_str())) {
        return format!("error: the table has no job `{}`\nhint: did you mean `{near}`?\n", name.escape_debug());
    }
    const SHOWN: usize = 10;
    let names: Vec<&str> = jobs.iter().take(SHOWN).map(|job| job.name.as_str()).collect();
    let more = if jobs.len() > SHOWN { ", …" } else { "" };
    format!("error: the table has no job `{}`\nhint: it has {}{more}\n", name.escape_debug(), names.join(", "))
}

/// A text that somebody else wrote, without what would move a terminal, but for what is `kept`.
pub(super) fn printable(text: &str, kept: &[char]) -> String {
    let shown = |c: char| match config::steers(c) && !kept.contains(&c) {
        true => c.escape_default().to_string(),
        false => c.to_string(),
    };
    text.chars().map(shown).collect()
}

/// Writes rows below one another, each column as wide as its widest cell.
pub(super) fn write_aligned(out: &mut dyn Write, rows: &[Vec<String>]) -> io::Result<()> {
    let rows: Vec<Vec<String>> = rows.iter().map(|row| row.iter().map(|cell| printable(cell, &[])).collect()).collect();
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max();
    let widths: Vec<usize> = (0..columns).map(|column| width(column).unwrap_or(0)).collect();
    for row in &rows {
        let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}"));
        let line = cells.collect::<Vec<_>>().join("  ");
        writeln!(out, "{}", line.trim_end())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_somebody_else_wrote_moves_no_terminal() {
        let bad = "a\tb\n\u{1b}[31m\u{202e}\u{7}ü";
        assert_eq!(printable(bad, &['\n', '\t']), "a\tb\n\\u{1b}[31m\\u{202e}\\u{7}ü");
        let mut out = Vec::new();
        write_aligned(&mut out, &[vec![bad.to_owned(), "x".to_owned()]]).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), "a\\tb\\n\\u{1b}[31m\\u{202e}\\u{7}ü  x\n");
    }
}
