//! Events about the table of this replica.

use crate::job::TableChanges;

/// A table that was loaded.
#[derive(Debug, Clone, Copy)]
pub struct TableLoaded<'a> {
    /// Hash of its content and of the zone data.
    pub revision: &'a str,
    /// Version of the zone data.
    pub zone_data: &'a str,
    /// How many jobs it has.
    pub jobs: usize,
    /// Where it came from.
    pub file: &'a str,
}

/// The jobs file is read and right.
pub fn table_loaded(table: TableLoaded<'_>) {
    event!(
        INFO,
        "table_loaded",
        "table loaded",
        revision = table.revision,
        zone_data = table.zone_data,
        jobs = table.jobs,
        file = table.file
    );
}

/// Something in the jobs file is allowed and probably not meant.
pub fn table_warning(code: &str, path: &str, detail: &str) {
    event!(WARN, "table_warning", "the jobs file has a doubtful place", code, path, detail);
}

/// A table that takes the place of another.
#[derive(Debug, Clone, Copy)]
pub struct TableReplaced<'a> {
    /// Its revision.
    pub revision: &'a str,
    /// That of the one before.
    pub previous: &'a str,
    /// How they differ.
    pub changes: &'a TableChanges,
    /// Why its files were looked at: `timer`, `event`, `signal`, `api`.
    pub cause: &'static str,
}

/// The jobs file is another, and right: its jobs hold from now on.
pub fn table_replaced(replaced: TableReplaced<'_>) {
    let TableReplaced { revision, previous, changes, cause } = replaced;
    let (added, changed, removed) = (changes.added.len(), changes.changed.len(), changes.removed.len());
    let detail = changes.in_words();
    event!(INFO, "table_replaced", "table replaced", revision, previous, added, changed, removed, cause, detail);
}

/// The files of the table were read, and are those of the running one. `again`: they were not, the last time.
pub fn table_unchanged(revision: &str, cause: &'static str, again: bool) {
    if again {
        event!(INFO, "table_unchanged", "the jobs file is the running one again", revision, cause);
    } else {
        event!(DEBUG, "table_unchanged", "the jobs file is the running one", revision, cause);
    }
}

/// The files of the table cannot be used: the running one stays.
#[derive(Debug, Clone, Copy)]
pub struct TableRefused<'a> {
    /// Revision of the running one.
    pub revision: &'a str,
    /// How many problems there are.
    pub problems: usize,
    /// The first of them: `file:line:col: code message`.
    pub first: &'a str,
    /// What to write instead of it; empty where nothing is known.
    pub hint: &'a str,
    /// Why they were looked at.
    pub cause: &'static str,
}

/// The jobs file has become unusable. Said when it does, and not each time that it is looked at.
pub fn table_refused(refused: TableRefused<'_>) {
    let TableRefused { revision, problems, first, hint, cause } = refused;
    let hint = Some(hint).filter(|hint| !hint.is_empty());
    event!(
        ERROR,
        "table_refused",
        "the jobs file is refused, and the table before it stays in force",
        revision,
        problems,
        first,
        hint,
        cause
    );
}

/// The file cannot become another while the daemon runs.
pub fn config_not_reloadable(file: &str, detail: &str) {
    event!(WARN, "config_not_reloadable", "a change of this file will not be seen", file, detail);
}
