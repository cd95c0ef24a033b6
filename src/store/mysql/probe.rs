//! What a MySQL or MariaDB is worth as it is set up.

use crate::plural::counted;
use crate::store::Class;
use crate::store::Finding;
use crate::store::Probe;
use crate::store::Reach;
use crate::store::sql::link::Link;
use crate::store::sql::link::Marks;
use crate::store::sql::link::Statement;
use crate::store::sql::link::text;
use sqlx::mysql::MySqlDatabaseError;
use std::collections::BTreeMap;
use std::collections::BTreeSet;

/// Those that a server does not have are left out of its answer.
const SETTINGS: &str = "SHOW GLOBAL VARIABLES WHERE Variable_name IN ('version', 'innodb_flush_log_at_trx_commit', \
                        'innodb_doublewrite', 'log_bin', 'sync_binlog', 'wsrep_on')";
const STATUS: &str = "SHOW GLOBAL STATUS WHERE Variable_name IN ('Slaves_connected', 'Rpl_semi_sync_master_status', \
                      'Rpl_semi_sync_source_status', 'Rpl_semi_sync_master_clients', 'Rpl_semi_sync_source_clients', \
                      'wsrep_cluster_size')";
/// Who lacks the right to see other users' connections sees none.
const DUMPS: &str = "SELECT 'dumps', count(*) FROM information_schema.processlist WHERE command LIKE 'Binlog Dump%'";

pub(super) async fn probe(link: &mut dyn Link) -> Result<Probe, sqlx::Error> {
    let mut told = Told::default();
    for sql in [SETTINGS, STATUS, DUMPS] {
        let rows = link.rows(Statement::new(Marks::Hexadecimal, sql)).await?;
        told.0.extend(rows.iter().map(|row| (text(row, 0).to_ascii_lowercase(), text(row, 1).to_owned())));
    }
    told.0.insert("denied".into(), denied(link).await?);
    let kind = if told.get("version").contains("MariaDB") { "mariadb" } else { "mysql" };
    let (class, findings) = told.judge();
    Ok(Probe { class, version: format!("{kind} {}", told.get("version")), reach: Reach::Network, findings })
}

const TABLES: [&str; 5] = ["onecron_job", "onecron_run", "onecron_history", "onecron_replica", "onecron_run_event"];

/// What is going to be done with a table, in a form that does nothing: rights are looked at first. Of the trail nothing is
/// changed.
fn tried(table: &str) -> Vec<String> {
    let mut tried = vec![
        format!("SELECT 1 FROM \"{table}\" WHERE FALSE"),
        format!("INSERT INTO \"{table}\" SELECT * FROM \"{table}\" WHERE FALSE"),
        format!("DELETE FROM \"{table}\" WHERE FALSE"),
    ];
    if table != "onecron_run_event" {
        tried.push(format!("UPDATE \"{table}\" SET \"namespace\" = '' WHERE FALSE"));
    }
    tried
}

/// Which rights are missing on which tables. Grants come by roles and by patterns, too: only who tries knows.
async fn denied(link: &mut dyn Link) -> Result<String, sqlx::Error> {
    // One round trip, where nothing is.
    let all: Vec<String> = TABLES.into_iter().flat_map(tried).collect();
    if link.run(&all.join("; ")).await.is_ok() {
        return Ok(String::new());
    }
    let mut denied = Vec::new();
    for table in TABLES {
        let mut rights = BTreeSet::new();
        for sql in tried(table) {
            match link.run(&sql).await {
                Err(error) if error.as_database_error().is_none() => return Err(error),
                // Whatever else is wrong is not about rights, and is told by what it keeps from being done.
                done => rights.extend(done.err().as_ref().and_then(refused)),
            }
        }
        if !rights.is_empty() {
            denied.push(format!("{} on {table}", rights.into_iter().collect::<Vec<_>>().join(", ")));
        }
    }
    Ok(denied.join("; "))
}

/// The right that is missing, where the error says so: `UPDATE command denied to user …`.
fn refused(error: &sqlx::Error) -> Option<String> {
    let found = error.as_database_error()?.try_downcast_ref::<MySqlDatabaseError>()?;
    let right = found.message().split(' ').next().unwrap_or_default();
    [1142, 1143].contains(&found.number()).then(|| right.to_owned())
}

/// What a server says of itself, by lower-case name; and as `denied` what the user may not do.
#[derive(Debug, Clone, Default)]
struct Told(BTreeMap<String, String>);

impl Told {
    fn get(&self, name: &str) -> &str {
        self.0.get(name).map_or("", String::as_str)
    }

    fn number(&self, name: &str) -> i64 {
        self.get(name).parse().unwrap_or(0)
    }

    fn judge(&self) -> (Class, Vec<Finding>) {
        let mut findings = Vec::new();
        let mut find = |check, found: String, wanted: &str| {
            findings.push(Finding { check, found, wanted: wanted.into() });
        };
        let flush = self.get("innodb_flush_log_at_trx_commit");
        if flush != "1" {
            let wanted =
                "1: else a crash can take acknowledged claims with it, and each restart counts as one that did";
            find("flush_log", format!("`innodb_flush_log_at_trx_commit` is `{flush}`"), wanted);
        }
        let (logs, sync) = (self.get("log_bin") == "ON", self.get("sync_binlog"));
        if logs && sync != "1" {
            let wanted =
                "1: else a crash can take acknowledged claims with it, and each restart counts as one that did";
            find("sync_binlog", format!("`sync_binlog` is `{sync}`, and the binary log is on"), wanted);
        }
        if self.get("innodb_doublewrite") == "OFF" {
            let wanted = "ON, unless the file system writes pages whole: a power cut can damage tables";
            find("doublewrite", "`innodb_doublewrite` is `OFF`".into(), wanted);
        }
        if self.get("wsrep_on") == "ON" && self.number("wsrep_cluster_size") > 1 {
            let wanted = "let all replicas write to one member (one host in the URL, or a proxy with one writer): Galera finds \
                          conflicts of members only when they commit";
            find("galera", format!("a Galera cluster of {}", self.get("wsrep_cluster_size")), wanted);
        }
        let replicas = self.number("slaves_connected").max(self.number("dumps"));
        let semi =
            ["rpl_semi_sync_master_status", "rpl_semi_sync_source_status"].iter().any(|name| self.get(name) == "ON");
        if replicas > 0 && !semi {
            let wanted = "semi-synchronous replication (AFTER_SYNC, a very long timeout): the promotion of a replica can lose \
                          the last seconds, whose ticks are then refused";
            find("replication", format!("{} that nobody waits for", counted(replicas, "replica")), wanted);
        }
        let denied = self.get("denied");
        if !denied.is_empty() {
            let wanted =
                "GRANT SELECT, INSERT, UPDATE, DELETE on the tables, or on the whole database: requests fail without";
            find("rights", format!("the user lacks {denied}"), wanted);
            return (Class::C, findings);
        }
        (if findings.is_empty() { Class::A } else { Class::B }, findings)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(settings: &[(&str, &str)]) -> (Class, Vec<&'static str>) {
        let good = [("innodb_flush_log_at_trx_commit", "1"), ("innodb_doublewrite", "ON"), ("log_bin", "OFF")];
        let told = good.iter().chain(settings).map(|(name, value)| ((*name).into(), (*value).into()));
        let (class, findings) = Told(told.collect()).judge();
        (class, findings.iter().map(|finding| finding.check).collect())
    }

    #[test]
    fn a_server_is_worth_what_it_keeps() {
        assert_eq!(judged(&[]), (Class::A, vec![]));
        assert_eq!(judged(&[("log_bin", "ON"), ("sync_binlog", "1")]), (Class::A, vec![]));
        assert_eq!(judged(&[("dumps", "2"), ("rpl_semi_sync_source_status", "ON")]), (Class::A, vec![]));
        assert_eq!(judged(&[("wsrep_on", "ON"), ("wsrep_cluster_size", "1")]), (Class::A, vec![]));
        for (settings, check) in [
            (&[("innodb_flush_log_at_trx_commit", "2")][..], "flush_log"),
            (&[("log_bin", "ON"), ("sync_binlog", "0")], "sync_binlog"),
            (&[("innodb_doublewrite", "OFF")], "doublewrite"),
            (&[("wsrep_on", "ON"), ("wsrep_cluster_size", "3")], "galera"),
            (&[("slaves_connected", "1")], "replication"),
        ] {
            assert_eq!(judged(settings), (Class::B, vec![check]));
        }
        assert_eq!(judged(&[("denied", "UPDATE on onecron_job")]), (Class::C, vec!["rights"]));
    }
}
