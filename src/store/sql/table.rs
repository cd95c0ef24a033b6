//! Records as rows. Each of these costs one statement, or a few, for however many jobs and runs a batch has.

use super::Failure;
use super::batch::Batch;
use super::batch::Loaded;
use super::dialect::Dialect;
use super::link::Link;
use super::link::Row;
use super::link::Statement;
use super::link::Value;
use super::link::number;
use super::link::text;
use super::rows::HISTORY;
use super::rows::entry_of;
use super::rows::job_of;
use super::rows::name_of;
use super::rows::quoted;
use super::rows::run_of;
use crate::job::Expect;
use crate::job::HistoryEntry;
use crate::job::JobName;
use crate::job::JobRecord;
use crate::job::Step;
use crate::job::Tick;
use crate::store::ErrorKind;
use crate::store::Identity;
use crate::store::fields::JOB_FIELDS;
use crate::store::fields::RUN_FIELDS;
use std::collections::BTreeMap;
use std::collections::BTreeSet;
use tokio::time::Instant;
use tokio::time::timeout_at;

/// The states of open runs: an index finds them by these.
const OPEN_STATES: [&str; 4] = ["claimed", "begun", "abandoned", "lost"];
/// How many rows one statement is about at most: servers limit how many values it may have.
pub(super) const ROWS_MOST: usize = 500;
/// The same where it has a part for each job.
pub(super) const JOBS_MOST: usize = 100;
/// What the server is at this moment.
#[derive(Debug, Clone)]
pub struct Look {
    /// Its clock, milliseconds since the epoch.
    pub now: i64,
    /// Who it is.
    pub identity: Identity,
}

/// The rows of one namespace, inside of a transaction.
pub(super) struct Table<'a> {
    pub dialect: &'a dyn Dialect,
    pub link: &'a mut dyn Link,
    /// The query of [`Look`].
    pub look: &'a str,
    pub namespace: &'a str,
    pub deadline: Instant,
}

/// Whether a step can change a run, and so may drop old ones.
fn changes_runs(step: &Step) -> bool {
    !matches!(step, Step::Register(_) | Step::Pause { .. } | Step::CallStale { .. } | Step::Read { .. })
}

impl Table<'_> {
    pub fn statement(&self, sql: impl Into<String>) -> Statement {
        Statement::new(self.dialect.marks(), sql)
    }

    pub async fn rows(&mut self, statement: Statement) -> Result<Vec<Row>, Failure> {
        match timeout_at(self.deadline, self.link.rows(statement)).await {
            Ok(rows) => rows.map_err(|error| self.dialect.classify(&error)),
            Err(_) => Err(Failure::late()),
        }
    }

    /// Asks the server for its clock, and who it is. One that takes no writes is refused, also for questions: what it
    /// knows is older news.
    pub async fn look(&mut self) -> Result<Look, Failure> {
        let rows = self.rows(self.statement(self.look)).await?;
        let row = rows.first().ok_or_else(|| Failure::new(ErrorKind::MaybeApplied, "the clock says nothing"))?;
        match text(row, 2) {
            "" => {}
            refusal => return Err(Failure::new(ErrorKind::ReadOnly, refusal)),
        }
        let identity = Identity { server: text(row, 1).to_owned(), ..Identity::default() };
        Ok(Look { now: number(row, 0), identity })
    }

    /// Locks the rows of all jobs of a batch, in the order of their names, so that no two replicas wait for each other;
    /// then loads what its steps need to see.
    pub async fn load(&mut self, steps: &[Step]) -> Result<(Batch, Look), Failure> {
        let names: BTreeSet<&JobName> = steps.iter().map(Step::job).collect();
        let mut batch = Batch::default();
        self.lock(&names, &mut batch).await?;
        let registered = steps.iter().filter(|step| matches!(step, Step::Register(_))).map(Step::job);
        let fresh: BTreeSet<&JobName> = registered.filter(|name| !batch.jobs.contains_key(name)).collect();
        if !fresh.is_empty() {
            // A row that says nothing, to have something to lock. The registration writes over it.
            let insert = self.statement("INSERT INTO onecron_job (namespace, job, format, revision) VALUES ");
            let row = |s: Statement, name: &JobName| {
                s.list([Value::from(self.namespace), name.as_str().into(), 0.into(), 0.into()])
            };
            let insert = insert.each(fresh.iter().copied(), ", ", row);
            self.rows(insert.text(&self.dialect.or_update(&["namespace", "job"], &["job"]))).await?;
            self.lock(&fresh, &mut batch).await?;
        }
        let look = self.look().await?;
        batch.jobs.retain(|_, loaded| loaded.job.is_some() || loaded.unreadable.is_some());
        let known: Vec<&JobName> = names.into_iter().filter(|name| batch.jobs.contains_key(name)).collect();
        if !known.is_empty() {
            self.load_runs(&known, steps, &mut batch).await?;
            self.load_finals(steps, look.now, &mut batch).await?;
            self.load_ranges(steps, &mut batch).await?;
        }
        Ok((batch, look))
    }

    async fn lock(&mut self, names: &BTreeSet<&JobName>, batch: &mut Batch) -> Result<(), Failure> {
        let select = self.statement(format!("SELECT job, {} FROM onecron_job WHERE namespace = ", quoted(&JOB_FIELDS)));
        let select = select.value(self.namespace).text(" AND job IN ").list(names.iter().map(|name| name.as_str()));
        for row in self.rows(select.text(" ORDER BY job FOR UPDATE")).await? {
            let name = name_of(&row)?;
            let mut loaded = Loaded::default();
            match job_of(&row, 1, name.as_str()) {
                Ok(record) if record.format == 0 => {}
                Ok(record) => loaded.job = Some(record),
                Err(Failure { unreadable: Some(format), .. }) => loaded.unreadable = Some(format),
                Err(failure) => return Err(failure),
            }
            batch.jobs.insert(name, loaded);
        }
        Ok(())
    }

    /// Open runs, those that steps name, and those that were ordered with a key.
    async fn load_runs(&mut self, known: &[&JobName], steps: &[Step], batch: &mut Batch) -> Result<(), Failure> {
        let mut named = BTreeSet::new();
        let mut ordered = BTreeSet::new();
        for step in steps.iter().filter(|step| batch.jobs.contains_key(step.job())) {
            named.extend(step.run().map(|run| (run.job.as_str(), run.scheduled_for.to_string())));
            if let Step::Order(order) = step
                && !order.key.is_empty()
            {
                ordered.insert((order.run.job.as_str(), order.key.clone()));
            }
        }
        let select = format!("SELECT job, {} FROM onecron_run WHERE namespace = ", quoted(&RUN_FIELDS));
        let query = self.statement(select.as_str()).value(self.namespace).text(" AND job IN ");
        let query = query.list(known.iter().map(|name| name.as_str())).text(" AND state IN ").list(OPEN_STATES);
        let mut rows = self.rows(query).await?;
        for (column, keys) in [("scheduled_for", named), ("order_key", ordered)] {
            if keys.is_empty() {
                continue;
            }
            let query = self.statement(select.as_str()).value(self.namespace).text(" AND (");
            let column = format!(" AND {column} = ");
            let query = query
                .each(keys, " OR ", |s, (job, key)| s.text("(job = ").value(job).text(&column).value(key).text(")"));
            rows.extend(self.rows(query.text(")")).await?);
        }
        for row in rows {
            let Some(loaded) = batch.jobs.get_mut(&name_of(&row)?) else { continue };
            match run_of(&row, 1) {
                Ok(run) => {
                    loaded.recorded.insert(run.scheduled_for);
                    loaded.runs.insert(run.scheduled_for, run);
                }
                Err(Failure { unreadable: Some(format), .. }) => loaded.unreadable = Some(format),
                Err(failure) => return Err(failure),
            }
        }
        Ok(())
    }

    /// The oldest final records that may be old enough to be dropped. Jobs that keep theirs equally long are asked for
    /// together.
    async fn load_finals(&mut self, steps: &[Step], now: i64, batch: &mut Batch) -> Result<(), Failure> {
        let mut by_keep: BTreeMap<i64, BTreeSet<&JobName>> = BTreeMap::new();
        for step in steps.iter().filter(|step| changes_runs(step)) {
            let Some(job) = batch.jobs.get(step.job()).and_then(|loaded| loaded.job.as_ref()) else { continue };
            // A registration before it in the batch may shorten that.
            let shortened = steps.iter().filter_map(|other| match other {
                Step::Register(registration) if registration.job == *step.job() => Some(registration.keep_ms),
                _ => None,
            });
            by_keep.entry(shortened.fold(job.keep_ms, i64::min)).or_default().insert(step.job());
        }
        for (keep_ms, names) in by_keep {
            let until = Tick::from_seconds(now.saturating_sub(keep_ms).div_euclid(1000) + 1).to_string();
            let query = self.statement("SELECT job, scheduled_for FROM onecron_run WHERE namespace = ");
            let query = query.value(self.namespace).text(" AND job IN ").list(names.iter().map(|name| name.as_str()));
            let query = query.text(" AND state = 'done' AND scheduled_for <= ").value(until);
            let most = i64::try_from(steps.len()).unwrap_or(i64::MAX).saturating_mul(4).saturating_add(200);
            let query = query.text(" ORDER BY job, scheduled_for LIMIT ").value(most);
            self.note_ticks(query, batch, |loaded, tick| loaded.finals.insert(tick)).await?;
        }
        Ok(())
    }

    /// The earliest ticks with a record in ranges that are to be settled: more than the other steps of the job can drop.
    async fn load_ranges(&mut self, steps: &[Step], batch: &mut Batch) -> Result<(), Failure> {
        let mut ranges = Vec::new();
        for step in steps.iter().filter(|step| batch.jobs.contains_key(step.job())) {
            if let Step::Settle { run, expect: Expect::AbsentRange { first, .. }, .. } = step {
                let most = steps.iter().filter(|other| other.job() == step.job()).count() * 2 + 1;
                ranges.push((run.job.as_str(), first.to_string(), run.scheduled_for.to_string(), most));
            }
        }
        for chunk in ranges.chunks(JOBS_MOST) {
            let query = self.statement("");
            let query = query.each(chunk, " UNION ALL ", |s, (job, first, last, most)| {
                let s = s.text("(SELECT job, scheduled_for FROM onecron_run WHERE namespace = ").value(self.namespace);
                let s = s.text(" AND job = ").value(*job).text(" AND scheduled_for BETWEEN ").value(first.as_str());
                let s = s.text(" AND ").value(last.as_str()).text(" AND scheduled_for NOT LIKE '%+%'");
                let most = i64::try_from(*most).unwrap_or(i64::MAX);
                s.text(" ORDER BY scheduled_for LIMIT ").value(most).text(")")
            });
            self.note_ticks(query, batch, |_, _| true).await?;
        }
        Ok(())
    }

    async fn note_ticks(
        &mut self,
        query: Statement,
        batch: &mut Batch,
        note: impl Fn(&mut Loaded, Tick) -> bool,
    ) -> Result<(), Failure> {
        for row in self.rows(query).await? {
            let Some(loaded) = batch.jobs.get_mut(&name_of(&row)?) else { continue };
            if let Some(tick) = Tick::parse(text(&row, 1)) {
                note(loaded, tick);
                loaded.recorded.insert(tick);
            }
        }
        Ok(())
    }

    pub async fn jobs(&mut self) -> Result<Vec<(JobName, JobRecord)>, Failure> {
        let query = self.statement(format!("SELECT job, {} FROM onecron_job WHERE namespace = ", quoted(&JOB_FIELDS)));
        let query = query.value(self.namespace).text(" ORDER BY job");
        let mut jobs = Vec::new();
        for row in self.rows(query).await? {
            let name = name_of(&row)?;
            match job_of(&row, 1, name.as_str()) {
                Err(Failure { unreadable: Some(_), .. }) => {}
                record => jobs.push((name, record?)),
            }
        }
        Ok(jobs)
    }

    pub async fn history(&mut self, name: &JobName, most: usize) -> Result<Vec<HistoryEntry>, Failure> {
        let query = self.statement(format!("SELECT {} FROM onecron_history WHERE namespace = ", quoted(&HISTORY)));
        let query = query.value(self.namespace).text(" AND job = ").value(name.as_str());
        let most = i64::try_from(most).unwrap_or(i64::MAX);
        let rows = self.rows(query.text(" ORDER BY id DESC LIMIT ").value(most)).await?;
        Ok(rows.iter().map(entry_of).collect())
    }

    /// Removes the jobs that nobody registered since `before` and that have no open run.
    pub async fn retire(&mut self, before: i64) -> Result<Vec<JobName>, Failure> {
        let query = self.statement(format!("SELECT job, {} FROM onecron_job WHERE namespace = ", quoted(&JOB_FIELDS)));
        let query = query.value(self.namespace).text(" AND registered_at < ").value(before);
        let mut retired = Vec::new();
        for row in self.rows(query.text(" ORDER BY job FOR UPDATE")).await? {
            let name = name_of(&row)?;
            match job_of(&row, 1, name.as_str()) {
                Ok(record) if record.open.is_empty() => retired.push(name),
                Ok(_) | Err(Failure { unreadable: Some(_), .. }) => {}
                Err(failure) => return Err(failure),
            }
        }
        for chunk in retired.chunks(ROWS_MOST) {
            for table in ["onecron_run", "onecron_history", "onecron_job"] {
                let delete = self.statement(format!("DELETE FROM {table} WHERE namespace = ")).value(self.namespace);
                self.rows(delete.text(" AND job IN ").list(chunk.iter().map(JobName::as_str))).await?;
            }
        }
        Ok(retired)
    }
}
