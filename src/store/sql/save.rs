//! What a batch changed, as rows.

use super::Failure;
use super::batch::Batch;
use super::event::RunEvent;
use super::link::Row;
use super::link::Value;
use super::link::number;
use super::link::text;
use super::rows::HISTORY;
use super::rows::quoted;
use super::rows::texts_of;
use super::rows::value;
use super::table::JOBS_MOST;
use super::table::ROWS_MOST;
use super::table::Table;
use crate::job::HistoryEntry;
use crate::job::JobName;
use crate::store::fields::JOB_FIELDS;
use crate::store::fields::RUN_FIELDS;
use std::time::Duration;

/// Columns of the audit trail, in the order of [`texts_of_event`].
const EVENTS: [&str; 17] = [
    "happened_at",
    "job",
    "scheduled_for",
    "event",
    "actor",
    "owner",
    "start",
    "token",
    "trigger",
    "state",
    "outcome",
    "reason",
    "exit_code",
    "signal",
    "http_status",
    "duration_ms",
    "error",
];
/// How many rows, and bytes of texts, one statement writes at most: servers limit how many values and bytes it may have.
const BYTES_MOST: usize = 1 << 20;
/// How many rows of the audit trail go at once, and how often in one request.
const EVENTS_AT_ONCE: i64 = 5000;
const EVENT_ROUNDS: usize = 20;

fn texts_of_event(event: &RunEvent) -> Vec<String> {
    let fields = event.run.fields();
    let of_run = |name: &str| fields.iter().find(|(field, _)| *field == name).map(|(_, text)| text.clone());
    let text = |name: &&str| match *name {
        "happened_at" => event.happened_at.to_string(),
        "job" => event.job.to_string(),
        "event" => event.event.to_owned(),
        "actor" => event.actor.clone(),
        "token" if event.token == 0 => String::new(),
        "token" => event.token.to_string(),
        of => of_run(of).unwrap_or_default(),
    };
    EVENTS.iter().map(text).collect()
}

impl Table<'_> {
    /// Saves what a batch changed.
    pub async fn save(&mut self, batch: Batch) -> Result<(), Failure> {
        let Batch { mut jobs, changed_jobs, changed_runs, dropped, history, events } = batch;
        let mut rows = Vec::new();
        for name in &changed_jobs {
            let record = jobs.get(name).and_then(|loaded| loaded.job.as_ref());
            let texts = record.iter().flat_map(|record| record.fields()).map(|(_, text)| text);
            rows.push([name.as_str().to_owned()].into_iter().chain(texts).collect());
        }
        self.upsert("onecron_job", &["namespace", "job"], (&JOB_FIELDS, rows)).await?;
        for chunk in dropped.iter().collect::<Vec<_>>().chunks(ROWS_MOST) {
            let sql = "DELETE FROM onecron_run WHERE namespace = ";
            self.of_ticks(sql, chunk.iter().map(|(job, tick)| (job.as_str(), tick.to_string()))).await?;
        }
        let mut rows = Vec::new();
        for (name, tick) in &changed_runs {
            let Some(run) = jobs.get_mut(name).and_then(|loaded| loaded.runs.remove(tick)) else { continue };
            let texts = run.fields().into_iter().map(|(_, text)| text);
            rows.push([name.as_str().to_owned()].into_iter().chain(texts).collect());
        }
        self.upsert("onecron_run", &["namespace", "job", "scheduled_for"], (&RUN_FIELDS, rows)).await?;
        let changed: Vec<(String, [u32; 3])> = history
            .jobs()
            .into_iter()
            .filter_map(|name| Some((name.to_string(), jobs.get(name)?.job.as_ref()?.history)))
            .collect();
        let withdrawn = history.withdrawn.iter().map(|(job, tick)| (job.as_str(), tick.to_string()));
        self.of_ticks("DELETE FROM onecron_history WHERE namespace = ", withdrawn).await?;
        for (job, tick, outcome) in &history.late {
            let update = self.statement("UPDATE onecron_history SET late_outcome = ").value(outcome.as_str());
            let update = update
                .text(" WHERE id = (SELECT id FROM (SELECT max(id) AS id FROM onecron_history WHERE namespace = ");
            let update = update.value(self.namespace).text(" AND job = ").value(job.as_str());
            let update = update.text(" AND scheduled_for = ").value(tick.to_string()).text(") AS newest)");
            self.rows(update).await?;
        }
        let row =
            |(job, entry): (JobName, HistoryEntry)| [job.to_string()].into_iter().chain(texts_of(entry)).collect();
        let rows = history.added.into_iter().map(row).collect();
        self.insert("onecron_history", &[&["job"][..], &HISTORY].concat(), (rows, "")).await?;
        for chunk in changed.chunks(JOBS_MOST) {
            self.trim_history(chunk).await?;
        }
        let rows = events.iter().map(texts_of_event).collect();
        self.insert("onecron_run_event", &EVENTS, (rows, "")).await
    }

    /// Does something to the rows of ticks.
    async fn of_ticks<'a>(
        &mut self,
        sql: &str,
        ticks: impl ExactSizeIterator<Item = (&'a str, String)>,
    ) -> Result<(), Failure> {
        if ticks.len() == 0 {
            return Ok(());
        }
        let statement = self.statement(sql).value(self.namespace).text(" AND (");
        let statement = statement.each(ticks, " OR ", |s, (job, tick)| {
            s.text("(job = ").value(job).text(" AND scheduled_for = ").value(tick).text(")")
        });
        self.rows(statement.text(")")).await?;
        Ok(())
    }

    /// Writes rows of a job's name and fields over those with the same key. Columns of a newer version are left alone.
    async fn upsert(
        &mut self,
        table: &str,
        key: &[&str],
        (fields, rows): (&[&str], Vec<Vec<String>>),
    ) -> Result<(), Failure> {
        let others: Vec<&str> = fields.iter().filter(|name| !key.contains(name)).copied().collect();
        let end = self.dialect.or_update(key, &others);
        self.insert(table, &[&["job"][..], fields].concat(), (rows, &end)).await
    }

    /// Inserts rows of the namespace, in statements of a bounded size.
    async fn insert(
        &mut self,
        table: &str,
        columns: &[&str],
        (rows, end): (Vec<Vec<String>>, &str),
    ) -> Result<(), Failure> {
        let mut rows = rows.into_iter().peekable();
        while rows.peek().is_some() {
            let (mut count, mut bytes) = (0, 0);
            let mut statement = self.statement(format!("INSERT INTO {table} (namespace, {}) VALUES ", quoted(columns)));
            while let Some(row) = rows.next_if(|_| count < ROWS_MOST && bytes < BYTES_MOST) {
                bytes += row.iter().map(String::len).sum::<usize>();
                statement = if count == 0 { statement } else { statement.text(", ") };
                let values = columns.iter().zip(&row).map(|(column, text)| value(column, text));
                statement = statement.list([Value::from(self.namespace)].into_iter().chain(values));
                count += 1;
            }
            self.rows(statement.text(end)).await?;
        }
        Ok(())
    }

    /// Keeps the newest entries of jobs, and the output of the newest successes and failures.
    async fn trim_history(&mut self, jobs: &[(String, [u32; 3])]) -> Result<(), Failure> {
        const OF: [&str; 3] =
            ["", " AND outcome = 'succeeded'", " AND outcome NOT IN ('succeeded', 'missed', 'skipped')"];
        let limits = jobs.iter().flat_map(|(job, limits)| (0..).zip(limits).map(move |(kind, most)| (kind, job, most)));
        // The newest entry of each kind that is one too many.
        let query = self.statement("").each(limits, " UNION ALL ", |s, (kind, job, most): (usize, &String, &u32)| {
            let s = s.text(&format!("(SELECT {kind} AS kind, job, id FROM onecron_history WHERE namespace = "));
            let s = s.value(self.namespace).text(" AND job = ").value(job.as_str()).text(OF[kind]);
            s.text(" ORDER BY id DESC LIMIT 1 OFFSET ").value(i64::from(*most)).text(")")
        });
        let edges = self.rows(query).await?;
        for (kind, of) in (0..).zip(OF) {
            let of_kind: Vec<&Row> = edges.iter().filter(|row| number(row, 0) == kind).collect();
            if of_kind.is_empty() {
                continue;
            }
            let statement = self.statement(match kind {
                0 => "DELETE FROM onecron_history WHERE namespace = ",
                _ => "UPDATE onecron_history SET output_tail = NULL WHERE namespace = ",
            });
            let statement = statement.value(self.namespace).text(of).text(" AND (");
            let statement = statement.each(of_kind, " OR ", |s, row| {
                s.text("(job = ").value(text(row, 1)).text(" AND id <= ").value(number(row, 2)).text(")")
            });
            let kept = if kind == 0 { ")" } else { ") AND output_tail IS NOT NULL" };
            self.rows(statement.text(kept)).await?;
        }
        Ok(())
    }

    /// Removes what the audit trail has of more than so long ago. Much at once is left for the next time.
    pub async fn forget_events(&mut self, now: i64, kept: Duration) -> Result<(), Failure> {
        let before = now.saturating_sub(i64::try_from(kept.as_millis()).unwrap_or(i64::MAX));
        for _ in 0..EVENT_ROUNDS {
            let query = self.statement("SELECT happened_at FROM onecron_run_event WHERE namespace = ");
            let query = query.value(self.namespace).text(" AND happened_at < ").value(before);
            let query = query.text(" ORDER BY happened_at LIMIT 1 OFFSET ").value(EVENTS_AT_ONCE);
            let last = self.rows(query).await?.first().map(|row| number(row, 0));
            let delete = self.statement("DELETE FROM onecron_run_event WHERE namespace = ").value(self.namespace);
            let delete = delete.text(" AND happened_at < ").value(last.map_or(before, |last| last + 1));
            self.rows(delete).await?;
            if last.is_none() {
                break;
            }
        }
        Ok(())
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
