//! Versioned tables. Several replicas may bring them up to date at once: the row of the version is locked meanwhile.

use super::Failure;
use super::dialect::Dialect;
use super::link::Link;
use super::link::Row;
use super::link::Statement;
use super::link::number;
use super::link::text;
use super::target::Target;
use crate::store::ErrorKind;
use crate::store::place::Place;
use std::collections::BTreeSet;

/// Versions of one form have the same thousands.
const STEP: i64 = 1000;

/// What is to be migrated, and how.
pub(super) struct Migration<'a> {
    pub dialect: &'a dyn Dialect,
    pub link: &'a mut dyn Link,
    /// Where it is, for a second connection.
    pub place: (&'a Target, &'a Place),
    /// Whether a table or column is missing, whatever the version says.
    pub torn: bool,
}

impl Migration<'_> {
    /// Brings the tables to our version, or says that they are of a form that we do not know.
    pub async fn run(mut self) -> Result<(), Failure> {
        // In a transaction, since a pooler gives each one another connection.
        self.execute(self.dialect.begin()).await?;
        let there = self.tables().await?.contains("onecron_schema");
        let found = if there { self.version("").await? } else { 0 };
        self.execute(self.dialect.commit()).await?;
        if found >= self.newest() && !self.torn {
            return Ok(());
        }
        if !there {
            let table = "CREATE TABLE IF NOT EXISTS onecron_schema \
                         (id BIGINT NOT NULL PRIMARY KEY, version BIGINT NOT NULL)";
            // Two that make it at once can both find it missing, and one is refused.
            let made = self.execute(table).await;
            if let Err(failure) = made
                && !self.dialect.is_there_already(&failure)
            {
                return Err(self.dialect.explain(self.link, failure).await);
            }
        }
        self.execute(self.dialect.begin()).await?;
        let row = self.statement("INSERT INTO onecron_schema (id, version) VALUES (1, 0)");
        self.rows(row.text(&self.dialect.or_update(&["id"], &["id"]))).await?;
        let found = self.version(" FOR UPDATE").await?;
        let found = if self.torn { self.prepare_mending().await? } else { found };
        for (version, sql) in self.dialect.migrations().iter().filter(|(version, _)| *version > found) {
            self.change(sql).await?;
            self.rows(self.statement("UPDATE onecron_schema SET version = ").value(*version)).await?;
        }
        self.execute(self.dialect.commit()).await
    }

    /// The version from which on the changes are made that make what is missing, and pass over what is there: the first. A
    /// job whose runs are gone must not go on as if it knew them.
    async fn prepare_mending(&mut self) -> Result<i64, Failure> {
        let tables = self.tables().await?;
        if tables.contains("onecron_job") && !tables.contains("onecron_run") {
            self.change("DELETE FROM onecron_job").await?;
        }
        Ok(0)
    }

    /// Where a change of tables ends the transaction it is made in, another connection makes it, while this one holds
    /// the lock. What a process that died half-way has made already is passed over.
    async fn change(&mut self, sql: &str) -> Result<(), Failure> {
        if !self.dialect.changes_end_transactions() {
            return self.execute(sql).await;
        }
        let (target, host) = self.place;
        let mut second = self.dialect.connect(target, host).await?.link;
        for statement in sql.split(";\n").map(str::trim).filter(|statement| !statement.is_empty()) {
            let done = second.run(statement).await.map_err(|error| self.dialect.classify(&error));
            done.or_else(|failure| if self.dialect.is_there_already(&failure) { Ok(()) } else { Err(failure) })?;
        }
        Ok(())
    }

    /// The names of ours that are there.
    async fn tables(&mut self) -> Result<BTreeSet<String>, Failure> {
        let rows = self.rows(self.statement(self.dialect.tables())).await?;
        Ok(rows.iter().map(|row| text(row, 0).to_owned()).collect())
    }

    /// The version of the tables; 0: there are none.
    async fn version(&mut self, lock: &str) -> Result<i64, Failure> {
        let query = self.statement("SELECT version FROM onecron_schema WHERE id = 1");
        let (found, newest) = (self.ask(query.text(lock)).await?, self.newest());
        if found / STEP > newest / STEP {
            let detail = format!(
                "the tables have version {found}, this version knows those below {}: a newer onecron made them: run that \
                 one here too",
                newest / STEP * STEP + STEP
            );
            return Err(Failure::new(ErrorKind::Misconfigured, detail));
        }
        Ok(found)
    }

    fn newest(&self) -> i64 {
        self.dialect.migrations().last().map_or(0, |(version, _)| *version)
    }

    fn statement(&self, sql: &str) -> Statement {
        Statement::new(self.dialect.marks(), sql)
    }

    async fn ask(&mut self, statement: Statement) -> Result<i64, Failure> {
        Ok(self.rows(statement).await?.first().map_or(0, |row| number(row, 0)))
    }

    async fn rows(&mut self, statement: Statement) -> Result<Vec<Row>, Failure> {
        self.link.rows(statement).await.map_err(|error| self.dialect.classify(&error))
    }

    async fn execute(&mut self, sql: &str) -> Result<(), Failure> {
        self.link.run(sql).await.map_err(|error| self.dialect.classify(&error))
    }
}
