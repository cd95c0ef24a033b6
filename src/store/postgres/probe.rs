//! What a PostgreSQL is worth as it is set up.

use crate::store::Class;
use crate::store::Finding;
use crate::store::Probe;
use crate::store::Reach;
use crate::store::sql::link::Link;
use crate::store::sql::link::Marks;
use crate::store::sql::link::Statement;
use crate::store::sql::link::number;
use crate::store::sql::link::text;

/// Who may not see the standbys sees that they are there.
const ASK: &str = "SELECT current_setting('server_version'), current_setting('fsync'), \
                   current_setting('full_page_writes'), current_setting('synchronous_commit'), \
                   current_setting('synchronous_standby_names'), \
                   (SELECT count(*) FROM pg_catalog.pg_stat_replication), \
                   (SELECT string_agg(relname, ', ' ORDER BY relname) FROM pg_catalog.pg_class \
                   WHERE relname IN ('onecron_job', 'onecron_run', 'onecron_history', 'onecron_replica', \
                   'onecron_run_event') AND relkind = 'r' AND pg_catalog.pg_table_is_visible(oid) \
                   AND NOT (has_table_privilege(oid, 'SELECT') AND has_table_privilege(oid, 'INSERT') \
                   AND has_table_privilege(oid, 'DELETE') \
                   AND (has_table_privilege(oid, 'UPDATE') OR relname = 'onecron_run_event')))";

pub(super) async fn probe(link: &mut dyn Link) -> Result<Probe, sqlx::Error> {
    let rows = link.rows(Statement::new(Marks::Numbered, ASK)).await?;
    let row = rows.into_iter().next().unwrap_or_default();
    let settings = Settings {
        fsync: text(&row, 1) == "on",
        full_page_writes: text(&row, 2) == "on",
        synchronous_commit: text(&row, 3),
        synchronous_standbys: text(&row, 4),
        standbys: number(&row, 5),
        denied: text(&row, 6),
    };
    let (class, findings) = settings.judge();
    Ok(Probe { class, version: format!("postgresql {}", text(&row, 0)), reach: Reach::Network, findings })
}

struct Settings<'a> {
    fsync: bool,
    full_page_writes: bool,
    /// As it is in our transactions.
    synchronous_commit: &'a str,
    synchronous_standbys: &'a str,
    /// How many standbys are connected.
    standbys: i64,
    /// Tables whose rights the user lacks.
    denied: &'a str,
}

impl Settings<'_> {
    fn judge(&self) -> (Class, Vec<Finding>) {
        let mut findings = Vec::new();
        let mut class = Class::A;
        let mut find = |check, found: String, wanted: &str, worth| {
            findings.push(Finding { check, found, wanted: wanted.into() });
            class = if class == Class::C { class } else { worth };
        };
        if !self.denied.is_empty() {
            let wanted = "GRANT SELECT, INSERT, UPDATE, DELETE on them: requests fail without";
            find("rights", format!("the user lacks rights on {}", self.denied), wanted, Class::C);
        }
        if !self.fsync {
            let wanted = "on: a power cut can take acknowledged claims, and more, with it; each restart counts as one";
            find("fsync", "`fsync` is `off`".into(), wanted, Class::C);
        }
        if !self.full_page_writes {
            let wanted = "on, unless the file system writes pages whole: a power cut can damage tables";
            find("full_page_writes", "`full_page_writes` is `off`".into(), wanted, Class::B);
        }
        if self.standbys > 0 && self.synchronous_standbys.is_empty() {
            let found = format!("{} standbys, and `synchronous_standby_names` is empty", self.standbys);
            let wanted = "`ANY 1 (…)` and a failover that promotes a synchronous one only: the promotion of another can lose \
                          the last seconds, whose ticks are then refused";
            find("replication", found, wanted, Class::B);
        } else if self.standbys > 0 && !["on", "remote_apply"].contains(&self.synchronous_commit) {
            let found = format!("`synchronous_commit` is `{}`", self.synchronous_commit);
            let wanted = "on: below it a standby that is promoted can lack what was acknowledged";
            find("synchronous_commit", found, wanted, Class::B);
        }
        (class, findings)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: Settings<'_> = Settings {
        fsync: true,
        full_page_writes: true,
        synchronous_commit: "on",
        synchronous_standbys: "",
        standbys: 0,
        denied: "",
    };

    #[test]
    fn a_server_is_worth_what_it_keeps() {
        let judged = |settings: Settings<'_>| {
            let (class, findings) = settings.judge();
            (class, findings.iter().map(|finding| finding.check).collect::<Vec<_>>())
        };
        assert_eq!(judged(GOOD), (Class::A, vec![]));
        let names = "ANY 1 (a, b)";
        assert_eq!(judged(Settings { standbys: 2, synchronous_standbys: names, ..GOOD }), (Class::A, vec![]));
        for (settings, class, check) in [
            (Settings { fsync: false, ..GOOD }, Class::C, "fsync"),
            (Settings { denied: "onecron_job", ..GOOD }, Class::C, "rights"),
            (Settings { full_page_writes: false, ..GOOD }, Class::B, "full_page_writes"),
            (Settings { standbys: 1, ..GOOD }, Class::B, "replication"),
            (
                Settings { standbys: 1, synchronous_standbys: names, synchronous_commit: "remote_write", ..GOOD },
                Class::B,
                "synchronous_commit",
            ),
        ] {
            assert_eq!(judged(settings), (class, vec![check]));
        }
    }
}
