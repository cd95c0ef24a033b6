//! PostgreSQL, also behind PgBouncer in transaction mode. What it has in common with the other servers of SQL is in
//! [`sql`](super::sql).

mod probe;

use super::ErrorKind;
use super::Probe;
use super::access::Access;
use super::access::Papers;
use super::place::Place;
use super::sql::CHECK_BOTH;
use super::sql::Failure;
use super::sql::SqlStore;
use super::sql::dialect::Connected;
use super::sql::dialect::Dialect;
use super::sql::link::Link;
use super::sql::link::Marks;
use super::sql::link::Row;
use super::sql::link::Statement;
use super::sql::link::Value;
use super::sql::link::text;
use super::sql::target::Manner;
use super::sql::target::Target;
use super::sql::target::Tls;
use crate::job::Namespace;
use async_trait::async_trait;
use sqlx::AssertSqlSafe;
use sqlx::Column;
use sqlx::ConnectOptions;
use sqlx::PgConnection;
use sqlx::Row as _;
use sqlx::TypeInfo;
use sqlx::postgres::PgConnectOptions;
use sqlx::postgres::PgRow;
use sqlx::postgres::PgSslMode;

const MANNER: Manner = Manner {
    scheme: "postgres",
    port: 5432,
    tls: "sslmode",
    tls_words: ["disable", "prefer", "require", "verify-ca", "verify-full"],
};

/// Everything is set for one transaction. `off` would let a crash take what was acknowledged: ours are written with `on`.
/// Weaker forms of waiting for standbys are left to who set them.
const BEGIN: &str = "BEGIN ISOLATION LEVEL READ COMMITTED; \
                     SET LOCAL lock_timeout = '2s'; SET LOCAL statement_timeout = '3s'; \
                     SET LOCAL idle_in_transaction_session_timeout = '10s'; \
                     SELECT set_config('synchronous_commit', 'on', true) \
                     WHERE current_setting('synchronous_commit') = 'off'";
/// A time-out must not meet the wait for a standby: the server would acknowledge what the standby does not have.
const COMMIT: &str = "SET LOCAL statement_timeout = 0; COMMIT";

const TABLES: &str = "SELECT relname::text FROM pg_catalog.pg_class WHERE relname LIKE 'onecron\\_%' \
                      AND pg_catalog.pg_table_is_visible(oid)";
const MIGRATIONS: [(i64, &str); 2] = [(1000, include_str!("schema/1000.sql")), (1001, include_str!("schema/1001.sql"))];

/// Schemas of the user's path that are there and that it may not use: the server passes over them in silence.
const UNUSABLE: &str = "SELECT string_agg(quote_ident(nspname), ', ' ORDER BY nspname), quote_ident(current_user) \
                        FROM pg_catalog.pg_namespace WHERE NOT has_schema_privilege(oid, 'USAGE') AND nspname IN \
                        (SELECT CASE name WHEN '$user' THEN current_user ELSE name END FROM \
                        (SELECT btrim(part, ' \"') AS name FROM \
                        unnest(string_to_array(current_setting('search_path'), ',')) AS part) AS path)";

const NOW: &str = "floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint";
/// A server that was promoted, or restored to an earlier moment, has another timeline: the first digits of the file that
/// it writes to (its control file follows only later).
const SERVER: &str = "(SELECT system_identifier::text FROM pg_catalog.pg_control_system()) || '-' || \
                      substr(pg_catalog.pg_walfile_name(pg_catalog.pg_current_wal_insert_lsn()), 1, 8)";
/// Which life of it that is.
const LIFE: &str = "floor(extract(epoch FROM pg_catalog.pg_postmaster_start_time()) * 1000)::bigint::text";
const REFUSAL: &str = "CASE WHEN pg_catalog.pg_is_in_recovery() THEN \
                       'this server is a standby and takes no writes: name the primary, or all hosts with commas in between' \
                       WHEN current_setting('transaction_read_only') = 'on' THEN \
                       'this server, database or user is set to read only (default_transaction_read_only): set it to off' \
                       ELSE '' END";

/// Takes what follows `postgres://`. Never connects.
///
/// # Errors
/// What is wrong with the URL.
pub(super) fn open(rest: &str, namespace: &Namespace, access: &Access) -> Result<SqlStore, String> {
    let target = Target::parse(rest, access, &MANNER)?;
    Ok(SqlStore::new(Box::new(Postgres), target, namespace))
}

/// What the server says where no schema of the path is there, or may be used.
const NO_SCHEMA: &str = "3F000";

#[derive(Debug)]
struct Postgres;

struct Connection(PgConnection);

/// A row's values as texts: our columns are texts and whole numbers.
fn texts(row: &PgRow) -> Result<Row, sqlx::Error> {
    let text = |column: &sqlx::postgres::PgColumn| {
        let at = column.ordinal();
        Ok(match column.type_info().name() {
            "INT8" => row.try_get::<Option<i64>, _>(at)?.map(|number| number.to_string()),
            "INT4" => row.try_get::<Option<i32>, _>(at)?.map(|number| number.to_string()),
            _ => row.try_get::<Option<String>, _>(at)?,
        })
    };
    row.columns().iter().map(text).collect()
}

#[async_trait]
impl Link for Connection {
    async fn rows(&mut self, statement: Statement) -> Result<Vec<Row>, sqlx::Error> {
        let (sql, values) = statement.into_parts();
        // Not kept: behind a pooler the next transaction may be on a connection that does not know it.
        let mut query = sqlx::query(AssertSqlSafe(sql)).persistent(false);
        for value in values {
            query = match value {
                // The one character that a text cannot have here.
                Value::Text(text) => query.bind(text.map(|text| text.replace('\0', "\u{fffd}"))),
                Value::Number(number) => query.bind(number),
            };
        }
        query.fetch_all(&mut self.0).await?.iter().map(texts).collect()
    }

    async fn run(&mut self, sql: &str) -> Result<(), sqlx::Error> {
        sqlx::raw_sql(AssertSqlSafe(sql.to_owned())).execute(&mut self.0).await?;
        Ok(())
    }
}

/// Nothing is asked for that PgBouncer refuses by itself.
fn options(target: &Target, host: &Place) -> Result<PgConnectOptions, String> {
    let (user, password) = target.account()?;
    let mode = match target.tls {
        Tls::Disable => PgSslMode::Disable,
        Tls::Prefer => PgSslMode::Prefer,
        Tls::Require => PgSslMode::Require,
        Tls::VerifyCa => PgSslMode::VerifyCa,
        Tls::VerifyFull => PgSslMode::VerifyFull,
    };
    let mut options = PgConnectOptions::new_without_pgpass()
        .host(&host.host)
        .port(host.port)
        .username(&user)
        .database(&target.database)
        .ssl_mode(mode)
        .application_name("onecron")
        .extra_float_digits(None)
        .statement_cache_capacity(0)
        .disable_statement_logging();
    if let Some(password) = password {
        options = options.password(password.expose());
    }
    let Papers { ca, own } = target.access.papers()?;
    if let Some(ca) = ca {
        options = options.ssl_root_cert_from_pem(ca);
    }
    if let Some((certificate, key)) = own {
        options = options.ssl_client_cert_from_pem(certificate).ssl_client_key_from_pem(key);
    }
    Ok(options)
}

#[async_trait]
impl Dialect for Postgres {
    fn marks(&self) -> Marks {
        Marks::Numbered
    }

    fn begin(&self) -> &'static str {
        BEGIN
    }

    fn commit(&self) -> &'static str {
        COMMIT
    }

    fn or_update(&self, key: &[&str], columns: &[&str]) -> String {
        let updates: Vec<String> = columns.iter().map(|name| format!("\"{name}\" = excluded.\"{name}\"")).collect();
        format!(" ON CONFLICT ({}) DO UPDATE SET {}", key.join(", "), updates.join(", "))
    }

    fn migrations(&self) -> &'static [(i64, &'static str)] {
        &MIGRATIONS
    }

    fn changes_end_transactions(&self) -> bool {
        false
    }

    fn is_there_already(&self, failure: &Failure) -> bool {
        // duplicate_table, duplicate_object, unique_violation (of the catalogue)
        ["42P07", "42710", "23505"].contains(&failure.code.as_str())
    }

    fn tables(&self) -> &'static str {
        TABLES
    }

    async fn explain(&self, link: &mut dyn Link, failure: Failure) -> Failure {
        if failure.code != NO_SCHEMA {
            return failure;
        }
        let rows = link.rows(Statement::new(Marks::Numbered, UNUSABLE)).await.unwrap_or_default();
        let row = rows.into_iter().next().unwrap_or_default();
        let (schemas, user) = (text(&row, 0), text(&row, 1));
        if schemas.is_empty() {
            return failure;
        }
        let detail = format!(
            "the user may not use the schema of its search_path: GRANT USAGE ON SCHEMA {schemas} TO {user} (and CREATE, where \
             it is to make the tables)"
        );
        Failure { detail, ..failure }
    }

    async fn connect(&self, target: &Target, host: &Place) -> Result<Connected, Failure> {
        let options = target.read_for(host, options).await?;
        let mut link = Connection(options.connect().await.map_err(|error| self.classify(&error))?);
        // Some managed servers keep these functions to themselves: then every restart is a new server.
        let mut server = format!(
            "CASE WHEN pg_catalog.pg_is_in_recovery() THEN '' ELSE {SERVER} || \
                                  CASE WHEN current_setting('fsync') = 'on' THEN '' ELSE '-' || {LIFE} END END"
        );
        let asked = async {
            link.run("BEGIN").await?;
            link.rows(Statement::new(Marks::Numbered, format!("SELECT {server}"))).await?;
            link.run("COMMIT").await
        };
        if let Err(error) = asked.await {
            if error.as_database_error().is_none() {
                return Err(self.classify(&error));
            }
            server = LIFE.to_owned();
            link.run("ROLLBACK").await.map_err(|error| self.classify(&error))?;
        }
        Ok(Connected { link: Box::new(link), look: format!("SELECT {NOW}, {server}, {REFUSAL}") })
    }

    async fn probe(&self, link: &mut dyn Link) -> Result<Probe, Failure> {
        probe::probe(link).await.map_err(|error| self.classify(&error))
    }

    fn classify(&self, error: &sqlx::Error) -> Failure {
        classify(error)
    }
}

/// Before a commit nothing is applied, whatever goes wrong.
fn classify(error: &sqlx::Error) -> Failure {
    let not_sent = |detail: String| Failure::new(ErrorKind::NotSent, detail);
    let misconfigured = |detail: String| Failure::new(ErrorKind::Misconfigured, detail);
    let Some(found) = error.as_database_error() else { return Failure::of_connection(error) };
    let (code, text) = (found.code().unwrap_or_default().into_owned(), found.message().to_owned());
    let failure = match code.as_str() {
        "40001" | "40P01" => Failure { again: true, ..not_sent(format!("other transactions were in the way, {text}")) },
        "55P03" => not_sent(format!("another replica has held the rows for 2 s ({text})")),
        "57014" => Failure::new(ErrorKind::MaybeApplied, format!("the server took longer than 3 s ({text})")),
        "25006" => Failure::new(
            ErrorKind::ReadOnly,
            format!(
                "the server takes no writes: name the primary, or set default_transaction_read_only to off ({text})"
            ),
        ),
        "28P01" => misconfigured(format!("the server does not accept user and password: {CHECK_BOTH} ({text})")),
        "28000" => Failure {
            barred: true,
            ..misconfigured(format!("the server does not let us in: check the user, and pg_hba.conf ({text})"))
        },
        "3D000" => misconfigured(format!("make the database: CREATE DATABASE … OWNER … ({text})")),
        // undefined_table, undefined_column: there was one when the connection was made.
        "42P01" | "42703" => Failure::torn(&text),
        "53300" => not_sent(format!(
            "the server has no connection left, and each daemon and command needs one: raise max_connections, or the limit \
             of the user or database, or put PgBouncer in front ({text})"
        )),
        "53100" => not_sent(format!("the server's disk is full: make room there ({text})")),
        "42501" => misconfigured(format!(
            "the user may not do that: grant it CREATE and USAGE on its schema, or all rights on the tables onecron_… \
             ({text})"
        )),
        NO_SCHEMA => misconfigured(format!("the user has no schema to make tables in: set its search_path ({text})")),
        "22021" | "22P05" => misconfigured(format!("make the database with ENCODING 'UTF8' ({text})")),
        // The server shuts down, or starts up, or somebody ended the session.
        "57P01" | "57P02" | "57P03" | "57P05" | "25P03" => Failure { closed: true, ..not_sent(text) },
        // PgBouncer says in this way, among other things, that the server behind it went away.
        "08P01" | "08006" | "08003" | "08000" => Failure { closed: true, ..not_sent(text) },
        _ => not_sent(format!("{text} ({code})")),
    };
    Failure { code, ..failure }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_that_does_not_fit_says_what_to_write() {
        let open = |rest| open(rest, &Namespace::new("n").unwrap(), &Access::default());
        assert!(open("db/x").unwrap_err().contains("postgres://user@host:5432/database"));
        assert_eq!(format!("{:?}", open("u:s3cret@db/x").unwrap()), "SqlStore(postgres://u@db:5432/x)");
    }
}
