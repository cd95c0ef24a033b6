//! Records as rows.

use super::Failure;
use crate::job::Expect;
use crate::job::FORMAT;
use crate::job::HistoryEntry;
use crate::job::JobName;
use crate::job::JobRecord;
use crate::job::Namespace;
use crate::job::RunRecord;
use crate::job::Step;
use crate::job::Tick;
use crate::job::Unreadable;
use crate::store::ErrorKind;
use crate::store::Identity;
use crate::store::fields::JOB_FIELDS;
use crate::store::fields::RUN_FIELDS;
use crate::store::transition::Changes;
use crate::store::transition::DROPPED_MOST;
use crate::store::transition::History;
use crate::store::transition::Picture;
use sqlx::Row;
use sqlx::Sqlite;
use sqlx::SqliteConnection;
use sqlx::query::Query;
use sqlx::sqlite::SqliteArguments;
use sqlx::sqlite::SqliteRow;
use std::sync::LazyLock;

/// The rows of one namespace, inside of a transaction or not.
pub(super) struct Table<'a> {
    pub connection: &'a mut SqliteConnection,
    pub namespace: &'a Namespace,
    /// The file, as it was stamped when it was made.
    pub file: &'a str,
}

static JOB_BY_NAME: LazyLock<String> =
    LazyLock::new(|| format!("SELECT {} FROM job WHERE namespace = ? AND job = ?", texts(&JOB_FIELDS)));
static ALL_JOBS: LazyLock<String> =
    LazyLock::new(|| format!("SELECT {}, job FROM job WHERE namespace = ? ORDER BY job", texts(&JOB_FIELDS)));
static RUN_BY_TICK: LazyLock<String> = LazyLock::new(|| {
    format!("SELECT {} FROM run WHERE namespace = ? AND job = ? AND scheduled_for = ?", texts(&RUN_FIELDS))
});
static RUN_BY_ORDER: LazyLock<String> = LazyLock::new(|| {
    format!("SELECT {} FROM run WHERE namespace = ? AND job = ? AND order_key = ?", texts(&RUN_FIELDS))
});
static OPEN_RUNS: LazyLock<String> = LazyLock::new(|| {
    let fields = texts(&RUN_FIELDS);
    format!("SELECT {fields} FROM run WHERE namespace = ? AND job = ? AND state <> 'done' ORDER BY scheduled_for")
});
static SAVE_JOB: LazyLock<String> = LazyLock::new(|| upsert("job", &["namespace", "job"], &JOB_FIELDS));
static SAVE_RUN: LazyLock<String> =
    LazyLock::new(|| upsert("run", &["namespace", "job", "scheduled_for"], &RUN_FIELDS));

const OLDEST_FINAL: &str = "SELECT scheduled_for FROM run WHERE namespace = ? AND job = ? AND state = 'done' \
                            ORDER BY scheduled_for LIMIT ?";
const LOWEST_OF_RANGE: &str = "SELECT scheduled_for FROM run WHERE namespace = ? AND job = ? \
                               AND scheduled_for BETWEEN ? AND ? AND instr(scheduled_for, '+') = 0 ORDER BY scheduled_for LIMIT 1";
const ADD_HISTORY: &str = "INSERT INTO history (namespace, job, scheduled_for, outcome, reason, range_first, \
                           range_count, late_outcome, owner, start, ended_at, duration_ms, exit_code, signal, http_status, \
                           error, output_tail) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)";
const AMEND_HISTORY: &str = "UPDATE history SET late_outcome = ? WHERE id = (SELECT max(id) FROM history \
                             WHERE namespace = ? AND job = ? AND scheduled_for = ?)";
const TRIM_HISTORY: &str = "DELETE FROM history WHERE namespace = ?1 AND job = ?2 AND id <= (SELECT id FROM history \
                            WHERE namespace = ?1 AND job = ?2 ORDER BY id DESC LIMIT 1 OFFSET ?3)";
const TRIM_SUCCEEDED: &str = "UPDATE history SET output_tail = NULL WHERE namespace = ?1 AND job = ?2 \
                              AND output_tail IS NOT NULL AND outcome = 'succeeded' AND id <= (SELECT id FROM history \
                              WHERE namespace = ?1 AND job = ?2 AND outcome = 'succeeded' \
                              ORDER BY id DESC LIMIT 1 OFFSET ?3)";
const TRIM_FAILED: &str = "UPDATE history SET output_tail = NULL WHERE namespace = ?1 AND job = ?2 \
                           AND output_tail IS NOT NULL AND outcome NOT IN ('succeeded', 'missed', 'skipped') \
                           AND id <= (SELECT id FROM history WHERE namespace = ?1 AND job = ?2 \
                           AND outcome NOT IN ('succeeded', 'missed', 'skipped') ORDER BY id DESC LIMIT 1 OFFSET ?3)";
const READ_HISTORY: &str = "SELECT scheduled_for, outcome, coalesce(reason, '') AS reason, \
                            coalesce(range_first, '') AS range_first, coalesce(range_count, 0) AS range_count, \
                            coalesce(late_outcome, '') AS late_outcome, coalesce(owner, '') AS owner, start, ended_at, \
                            duration_ms, CAST(coalesce(exit_code, '') AS TEXT) AS exit_code, \
                            CAST(coalesce(signal, '') AS TEXT) AS signal, \
                            CAST(coalesce(http_status, '') AS TEXT) AS http_status, coalesce(error, '') AS error, \
                            coalesce(output_tail, '') AS output_tail \
                            FROM history WHERE namespace = ? AND job = ? ORDER BY id DESC LIMIT ?";

/// All columns as texts, as [`crate::job::Fields`] has them.
fn texts(fields: &[&str]) -> String {
    let columns: Vec<String> = fields.iter().map(|name| format!("CAST(\"{name}\" AS TEXT)")).collect();
    columns.join(", ")
}

/// Writes our columns and leaves those of a newer version alone.
fn upsert(table: &str, key: &[&str], fields: &[&str]) -> String {
    let others: Vec<&str> = fields.iter().filter(|name| !key.contains(name)).copied().collect();
    let quoted = |name: &&str| format!("\"{name}\"");
    let columns: Vec<String> = key.iter().chain(&others).map(quoted).collect();
    let marks = vec!["?"; columns.len()].join(", ");
    let updates: Vec<String> = others.iter().map(|name| format!("\"{name}\" = excluded.\"{name}\"")).collect();
    format!(
        "INSERT INTO {table} ({}) VALUES ({marks}) ON CONFLICT ({}) DO UPDATE SET {}",
        columns.join(", "),
        key.join(", "),
        updates.join(", ")
    )
}

/// SQL has one word for "nothing is known".
fn or_null(text: &str) -> Option<&str> {
    Some(text).filter(|text| !text.is_empty())
}

fn unreadable(error: Unreadable) -> Failure {
    Failure { unreadable: Some(0), ..Failure::new(ErrorKind::Misconfigured, error.to_string()) }
}

fn known_format(format: u32, what: &str) -> Result<(), Failure> {
    if format <= FORMAT {
        return Ok(());
    }
    let detail = format!("the record of `{what}` has form {format}: a newer onecron wrote it: run that one here too");
    Err(Failure { unreadable: Some(format), ..Failure::new(ErrorKind::Misconfigured, detail) })
}

/// Reads the columns of a row as named texts.
fn pairs<'a>(row: &SqliteRow, names: &[&'a str]) -> Result<Vec<(Text<'a>, Text<'a>)>, Failure> {
    let value = |(at, name): (usize, &&'a str)| {
        let text: Option<String> = row.try_get(at)?;
        Ok((Text::Name(name), Text::Value(text.unwrap_or_default())))
    };
    names.iter().enumerate().map(value).collect()
}

enum Text<'a> {
    Name(&'a str),
    Value(String),
}

impl AsRef<str> for Text<'_> {
    fn as_ref(&self) -> &str {
        match self {
            Text::Name(name) => name,
            Text::Value(value) => value,
        }
    }
}

fn job_of(row: &SqliteRow, name: &str) -> Result<JobRecord, Failure> {
    let record = JobRecord::from_fields(pairs(row, &JOB_FIELDS)?.as_slice()).map_err(unreadable)?;
    known_format(record.format, name)?;
    Ok(record)
}

fn run_of(row: &SqliteRow) -> Result<RunRecord, Failure> {
    let record = RunRecord::from_fields(pairs(row, &RUN_FIELDS)?.as_slice()).map_err(unreadable)?;
    known_format(record.format, &record.scheduled_for.to_string())?;
    Ok(record)
}

impl Table<'_> {
    fn of_job<'q>(&self, sql: &'static str, job: &'q JobName) -> Query<'q, Sqlite, SqliteArguments> {
        sqlx::query(sql).bind(self.namespace.to_string()).bind(job.as_str())
    }

    /// The clock of the host, as SQLite reads it: milliseconds since the epoch.
    pub async fn now(&mut self) -> Result<i64, Failure> {
        let sql = "SELECT CAST(round(unixepoch('subsec') * 1000) AS INTEGER)";
        Ok(sqlx::query_scalar(sql).fetch_one(&mut *self.connection).await?)
    }

    /// What a step needs to see.
    pub async fn picture(&mut self, step: &Step) -> Result<Picture, Failure> {
        let name = step.job();
        let store = Identity { server: self.file.to_owned(), ..Identity::default() };
        let query = self.of_job(JOB_BY_NAME.as_str(), name);
        let Some(row) = query.fetch_optional(&mut *self.connection).await? else {
            return Ok(Picture { store, ..Picture::default() });
        };
        let job = Some(job_of(&row, name.as_str())?);
        let mut run = None;
        if let Some(key) = step.run() {
            if let Step::Order(order) = step
                && !order.key.is_empty()
            {
                let query = self.of_job(RUN_BY_ORDER.as_str(), name).bind(order.key.as_str());
                run = query.fetch_optional(&mut *self.connection).await?.as_ref().map(run_of).transpose()?;
            }
            if run.is_none() {
                let query = self.of_job(RUN_BY_TICK.as_str(), name).bind(key.scheduled_for.to_string());
                run = query.fetch_optional(&mut *self.connection).await?.as_ref().map(run_of).transpose()?;
            }
        }
        let query = self.of_job(OPEN_RUNS.as_str(), name);
        let rows = query.fetch_all(&mut *self.connection).await?;
        let open = rows.iter().map(run_of).collect::<Result<_, _>>()?;
        let query = self.of_job(OLDEST_FINAL, name).bind(i64::try_from(DROPPED_MOST).unwrap_or(i64::MAX));
        let rows = query.fetch_all(&mut *self.connection).await?;
        let tick = |row: &SqliteRow| Ok(row.try_get::<String, _>(0)?).map(|text| Tick::parse(&text));
        let oldest: Vec<Option<Tick>> = rows.iter().map(tick).collect::<Result<_, sqlx::Error>>()?;
        let lowest = match step {
            Step::Settle { run, expect: Expect::AbsentRange { first, .. }, .. } => {
                let query = self.of_job(LOWEST_OF_RANGE, name).bind(first.to_string());
                let found: Option<SqliteRow> =
                    query.bind(run.scheduled_for.to_string()).fetch_optional(&mut *self.connection).await?;
                found.as_ref().map(tick).transpose()?.flatten()
            }
            _ => None,
        };
        Ok(Picture { job, run, open, oldest: oldest.into_iter().flatten().collect(), lowest, store })
    }

    /// Saves what a step changed.
    pub async fn save(&mut self, name: &JobName, picture: Picture, changes: Changes) -> Result<(), Failure> {
        if let Some(job) = picture.job.as_ref().filter(|_| changes.job) {
            let mut query = self.of_job(SAVE_JOB.as_str(), name);
            for (_, text) in job.fields() {
                query = query.bind(or_null(&text).map(str::to_owned));
            }
            query.execute(&mut *self.connection).await?;
        }
        if let Some(run) = picture.run.as_ref().filter(|_| changes.run) {
            let mut query = self.of_job(SAVE_RUN.as_str(), name).bind(run.scheduled_for.to_string());
            for (_, text) in run.fields().iter().filter(|(field, _)| *field != "scheduled_for") {
                query = query.bind(or_null(text).map(str::to_owned));
            }
            query.execute(&mut *self.connection).await?;
        }
        for tick in &changes.dropped {
            let sql = "DELETE FROM run WHERE namespace = ? AND job = ? AND scheduled_for = ?";
            self.of_job(sql, name).bind(tick.to_string()).execute(&mut *self.connection).await?;
        }
        if let (true, Some(run)) = (changes.withdrawn, &picture.run) {
            let sql = "DELETE FROM history WHERE namespace = ? AND job = ? AND scheduled_for = ?";
            self.of_job(sql, name).bind(run.scheduled_for.to_string()).execute(&mut *self.connection).await?;
        }
        if let (Some(history), Some(job)) = (changes.history, &picture.job) {
            self.save_history(name, &history, job.history).await?;
        }
        Ok(())
    }

    async fn save_history(&mut self, name: &JobName, history: &History, limits: [u32; 3]) -> Result<(), Failure> {
        match history {
            History::Decided(entry) => self.add_history(name, entry).await?,
            History::Late { scheduled_for, late_outcome } => {
                let query = sqlx::query(AMEND_HISTORY).bind(late_outcome.as_str()).bind(self.namespace.to_string());
                let query = query.bind(name.as_str()).bind(scheduled_for.to_string());
                query.execute(&mut *self.connection).await?;
            }
        }
        for (sql, most) in [TRIM_HISTORY, TRIM_SUCCEEDED, TRIM_FAILED].into_iter().zip(limits) {
            self.of_job(sql, name).bind(most).execute(&mut *self.connection).await?;
        }
        Ok(())
    }

    async fn add_history(&mut self, name: &JobName, entry: &HistoryEntry) -> Result<(), Failure> {
        let query = self.of_job(ADD_HISTORY, name).bind(entry.scheduled_for.as_str()).bind(entry.outcome.as_str());
        let query = query.bind(or_null(&entry.reason)).bind(or_null(&entry.range_first));
        let query = query.bind(i64::try_from(entry.range_count).unwrap_or(i64::MAX));
        let query = query.bind(or_null(&entry.late_outcome)).bind(entry.owner.as_str());
        let query = query.bind(entry.start).bind(entry.ended_at);
        let query = query.bind(i64::try_from(entry.duration_ms).unwrap_or(i64::MAX));
        let query = query.bind(or_null(&entry.exit_code)).bind(or_null(&entry.signal));
        let query = query.bind(or_null(&entry.http_status)).bind(or_null(&entry.error));
        query.bind(or_null(&entry.output_tail)).execute(&mut *self.connection).await?;
        Ok(())
    }

    pub async fn jobs(&mut self) -> Result<Vec<(JobName, JobRecord)>, Failure> {
        let query = sqlx::query(ALL_JOBS.as_str()).bind(self.namespace.to_string());
        let rows = query.fetch_all(&mut *self.connection).await?;
        let mut jobs = Vec::with_capacity(rows.len());
        for row in &rows {
            let name: String = row.try_get("job")?;
            let record = match job_of(row, &name) {
                Err(Failure { unreadable: Some(_), .. }) => continue,
                record => record?,
            };
            let bad = |error| Failure::new(ErrorKind::MaybeApplied, format!("job {name:?}: {error}"));
            jobs.push((JobName::new(&name).map_err(bad)?, record));
        }
        Ok(jobs)
    }

    pub async fn history(&mut self, name: &JobName, most: usize) -> Result<Vec<HistoryEntry>, Failure> {
        let query = self.of_job(READ_HISTORY, name).bind(i64::try_from(most).unwrap_or(i64::MAX));
        let rows = query.fetch_all(&mut *self.connection).await?;
        let entry = |row: &SqliteRow| {
            Ok(HistoryEntry {
                scheduled_for: row.try_get("scheduled_for")?,
                outcome: row.try_get("outcome")?,
                reason: row.try_get("reason")?,
                range_first: row.try_get("range_first")?,
                range_count: u64::try_from(row.try_get::<i64, _>("range_count")?).unwrap_or(0),
                late_outcome: row.try_get("late_outcome")?,
                owner: row.try_get("owner")?,
                start: row.try_get("start")?,
                ended_at: row.try_get("ended_at")?,
                duration_ms: u64::try_from(row.try_get::<i64, _>("duration_ms")?).unwrap_or(0),
                exit_code: row.try_get("exit_code")?,
                signal: row.try_get("signal")?,
                http_status: row.try_get("http_status")?,
                error: row.try_get("error")?,
                output_tail: row.try_get("output_tail")?,
            })
        };
        Ok(rows.iter().map(entry).collect::<Result<_, sqlx::Error>>()?)
    }

    /// Removes the jobs that nobody registered since `before` and that have no open run.
    pub async fn retire(&mut self, before: i64) -> Result<Vec<JobName>, Failure> {
        let jobs = self.jobs().await?;
        let idle = |record: &JobRecord| record.registered_at < before && record.open.is_empty();
        let mut retired = Vec::new();
        for (name, _) in jobs.into_iter().filter(|(_, record)| idle(record)) {
            for sql in [
                "DELETE FROM run WHERE namespace = ? AND job = ?",
                "DELETE FROM history WHERE namespace = ? AND job = ?",
                "DELETE FROM job WHERE namespace = ? AND job = ?",
            ] {
                self.of_job(sql, &name).execute(&mut *self.connection).await?;
            }
            retired.push(name);
        }
        Ok(retired)
    }
}

#[cfg(test)]
mod tests {
    use crate::job::Outcome;

    #[test]
    fn the_failures_of_the_history_are_those_of_the_outcomes() {
        for outcome in Outcome::ALL {
            let counted = !["succeeded", "missed", "skipped"].contains(&outcome.as_str());
            assert_eq!(outcome.is_unsuccessful(), counted, "{outcome}");
        }
    }
}
