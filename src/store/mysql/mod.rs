//! MySQL and MariaDB. What they have in common with the other servers of SQL is in [`sql`](super::sql).

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
use super::sql::link::number;
use super::sql::link::text;
use super::sql::target::Manner;
use super::sql::target::Target;
use super::sql::target::Tls;
use crate::job::Namespace;
use async_trait::async_trait;
use sqlx::AssertSqlSafe;
use sqlx::Column;
use sqlx::ConnectOptions;
use sqlx::MySqlConnection;
use sqlx::Row as _;
use sqlx::TypeInfo;
use sqlx::mysql::MySqlConnectOptions;
use sqlx::mysql::MySqlDatabaseError;
use sqlx::mysql::MySqlRow;
use sqlx::mysql::MySqlSslMode;

const MANNER: Manner = Manner {
    scheme: "mysql",
    port: 3306,
    tls: "ssl-mode",
    tls_words: ["disabled", "preferred", "required", "verify_ca", "verify_identity"],
};

/// Names are quoted as in other dialects, and what does not fit is refused, not cut off. Waits for rows and for tables
/// have an end.
const SESSION: &str = "SET SESSION sql_mode = 'ANSI_QUOTES,STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION', \
                       innodb_lock_wait_timeout = 2, lock_wait_timeout = 2";
/// So have statements and idle transactions; and a member of a cluster answers after it has heard of what was committed.
const SESSION_OF_MARIADB: &str =
    "SET SESSION max_statement_time = 3, idle_transaction_timeout = 10, wsrep_sync_wait = 7";
const SESSION_OF_MYSQL: &str = "SET SESSION max_execution_time = 3000";

const BEGIN: &str = "SET TRANSACTION ISOLATION LEVEL READ COMMITTED; START TRANSACTION";
const TABLES: &str = "SELECT table_name FROM information_schema.tables WHERE table_schema = database() \
                      AND table_name LIKE 'onecron\\_%'";
const MIGRATIONS: [(i64, &str); 2] = [(1000, include_str!("schema/1000.sql")), (1001, include_str!("schema/1001.sql"))];

/// Whatever the session's time zone.
const NOW: &str = "timestampdiff(MICROSECOND, '1970-01-01 00:00:00', utc_timestamp(3)) DIV 1000";
/// Whether a crash can take what was acknowledged with it.
const LOSES: &str =
    "(@@global.innodb_flush_log_at_trx_commit <> 1 OR (@@global.log_bin = 1 AND @@global.sync_binlog <> 1))";
const REFUSAL: &str = "if(@@global.read_only, \
                       'this server is set to read only, as replicas are: name the primary, or all hosts with commas in \
                       between', '')";

/// Takes what follows `mysql://`. Never connects.
///
/// # Errors
/// What is wrong with the URL.
pub(super) fn open(rest: &str, namespace: &Namespace, access: &Access) -> Result<SqlStore, String> {
    let target = Target::parse(rest, access, &MANNER)?;
    Ok(SqlStore::new(Box::new(MySql), target, namespace))
}

#[derive(Debug)]
struct MySql;

struct Connection(MySqlConnection);

/// A row's values as texts: our columns are texts and whole numbers.
fn texts(row: &MySqlRow) -> Result<Row, sqlx::Error> {
    let text = |column: &sqlx::mysql::MySqlColumn| {
        let at = column.ordinal();
        let kind = column.type_info().name();
        Ok(if kind.contains("UNSIGNED") {
            row.try_get_unchecked::<Option<u64>, _>(at)?.map(|number| number.to_string())
        } else if kind.ends_with("INT") {
            row.try_get_unchecked::<Option<i64>, _>(at)?.map(|number| number.to_string())
        } else {
            row.try_get_unchecked::<Option<String>, _>(at)?
        })
    };
    row.columns().iter().map(text).collect()
}

#[async_trait]
impl Link for Connection {
    async fn rows(&mut self, statement: Statement) -> Result<Vec<Row>, sqlx::Error> {
        // Not prepared: that takes a round trip more, and the one that gives it up again, which has no answer, holds
        // what follows it back for the 40 ms that servers wait before they confirm such.
        let (sql, _) = statement.into_parts();
        sqlx::raw_sql(AssertSqlSafe(sql)).fetch_all(&mut self.0).await?.iter().map(texts).collect()
    }

    async fn run(&mut self, sql: &str) -> Result<(), sqlx::Error> {
        sqlx::raw_sql(AssertSqlSafe(sql.to_owned())).execute(&mut self.0).await?;
        Ok(())
    }
}

fn options(target: &Target, host: &Place) -> Result<MySqlConnectOptions, String> {
    let (user, password) = target.account()?;
    let mode = match target.tls {
        Tls::Disable => MySqlSslMode::Disabled,
        Tls::Prefer => MySqlSslMode::Preferred,
        Tls::Require => MySqlSslMode::Required,
        Tls::VerifyCa => MySqlSslMode::VerifyCa,
        Tls::VerifyFull => MySqlSslMode::VerifyIdentity,
    };
    let mut options = MySqlConnectOptions::new()
        .host(&host.host)
        .port(host.port)
        .username(&user)
        .database(&target.database)
        .ssl_mode(mode)
        .charset("utf8mb4")
        .pipes_as_concat(false)
        .no_engine_substitution(false)
        .timezone(None)
        .statement_cache_capacity(0)
        .disable_statement_logging();
    if let Some(password) = password {
        options = options.password(password.expose());
    }
    let Papers { ca, own } = target.access.papers()?;
    if let Some(ca) = ca {
        options = options.ssl_ca_from_pem(ca);
    }
    if let Some((certificate, key)) = own {
        options = options.ssl_client_cert_from_pem(certificate).ssl_client_key_from_pem(key);
    }
    Ok(options)
}

/// The query of who the server is. A server whose restart can lose something is another one after it; all members of a
/// Galera cluster are one.
fn look(is_mariadb: bool, in_cluster: bool) -> String {
    let status = if is_mariadb { "information_schema.global_status" } else { "performance_schema.global_status" };
    let of_status = |name: &str| format!("SELECT variable_value FROM {status} WHERE variable_name = '{name}'");
    let life = format!(
        "if({LOSES}, concat('-', (SELECT unix_timestamp() - variable_value FROM {status} \
                        WHERE variable_name = 'Uptime')), '')"
    );
    let server = match (is_mariadb, in_cluster) {
        (_, true) => format!("({})", of_status("wsrep_cluster_state_uuid")),
        (true, false) => {
            format!("concat(concat_ws('-', @@global.server_id, @@global.hostname, @@global.port), {life})")
        }
        (false, false) => format!("concat(@@global.server_uuid, {life})"),
    };
    format!("SELECT {NOW}, {server}, {REFUSAL}")
}

impl MySql {
    /// Sets what the session needs, and finds out how this server tells who it is.
    async fn greet(&self, link: &mut Connection) -> Result<String, sqlx::Error> {
        link.run(SESSION).await?;
        let ask = |sql: &str| Statement::new(Marks::Hexadecimal, sql);
        let version = link.rows(ask("SELECT version()")).await?;
        let is_mariadb = version.first().is_some_and(|row| text(row, 0).contains("MariaDB"));
        link.run(if is_mariadb { SESSION_OF_MARIADB } else { SESSION_OF_MYSQL }).await?;
        let in_cluster =
            is_mariadb && link.rows(ask("SELECT @@wsrep_on")).await?.first().is_some_and(|row| number(row, 0) == 1);
        Ok(look(is_mariadb, in_cluster))
    }
}

#[async_trait]
impl Dialect for MySql {
    fn marks(&self) -> Marks {
        Marks::Hexadecimal
    }

    fn begin(&self) -> &'static str {
        BEGIN
    }

    fn commit(&self) -> &'static str {
        "COMMIT"
    }

    /// `VALUES()` is the only word for a new row that both servers know.
    fn or_update(&self, _: &[&str], columns: &[&str]) -> String {
        let updates: Vec<String> = columns.iter().map(|name| format!("\"{name}\" = VALUES(\"{name}\")")).collect();
        format!(" ON DUPLICATE KEY UPDATE {}", updates.join(", "))
    }

    fn migrations(&self) -> &'static [(i64, &'static str)] {
        &MIGRATIONS
    }

    fn changes_end_transactions(&self) -> bool {
        true
    }

    fn is_there_already(&self, failure: &Failure) -> bool {
        // table, column and key exist
        ["1050", "1060", "1061"].contains(&failure.code.as_str())
    }

    fn tables(&self) -> &'static str {
        TABLES
    }

    async fn connect(&self, target: &Target, host: &Place) -> Result<Connected, Failure> {
        let options = target.read_for(host, options).await?;
        let mut link = Connection(options.connect().await.map_err(|error| self.classify(&error))?);
        let look = self.greet(&mut link).await.map_err(|error| self.classify(&error))?;
        Ok(Connected { link: Box::new(link), look })
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
    let found = error.as_database_error().and_then(|error| error.try_downcast_ref::<MySqlDatabaseError>());
    let Some(found) = found else {
        // The driver cannot hide a password from who listens, but by TLS.
        let wants_tls = matches!(error, sqlx::Error::Configuration(text) if text.to_string().contains("RSA"));
        let told = "the account is one of caching_sha2_password, and needs TLS: turn it on there, and leave \
                    `ssl-mode=disabled` out";
        return if wants_tls { misconfigured(told.into()) } else { Failure::of_connection(error) };
    };
    let text = found.message();
    let failure = match found.number() {
        1213 | 1020 => Failure { again: true, ..not_sent(format!("other transactions were in the way, {text}")) },
        1205 => not_sent(format!("another replica has held the rows for 2 s ({text})")),
        1969 | 3024 => Failure::new(ErrorKind::MaybeApplied, format!("the server took longer than 3 s ({text})")),
        1290 | 1792 | 1836 => {
            Failure::new(ErrorKind::ReadOnly, format!("the server takes no writes: name the primary ({text})"))
        }
        1045 | 1698 => Failure {
            barred: true,
            ..misconfigured(format!(
                "the server does not accept user and password: {CHECK_BOTH}{} ({text})",
                other_account(text)
            ))
        },
        3159 => Failure { barred: true, ..misconfigured(format!("the server does not let us in ({text})")) },
        1044 | 1049 | 1142 | 1143 | 1227 | 1370 => misconfigured(format!(
            "the user may not do that, or the database is not there: CREATE DATABASE …, and GRANT SELECT, INSERT, UPDATE, \
             DELETE, CREATE, ALTER, INDEX on it ({text})"
        )),
        1040 | 1203 | 1226 => not_sent(format!(
            "the server has no connection left, and each daemon and command needs one: raise max_connections, or the limit \
             of the user ({text})"
        )),
        1021 | 1041 | 1114 | 3675 => not_sent(format!("the server's disk or memory is full: make room there ({text})")),
        1054 | 1146 => Failure::torn(text),
        1665 => misconfigured(format!("set binlog_format to ROW or MIXED ({text})")),
        1153 => Failure::new(ErrorKind::MaybeApplied, format!("raise max_allowed_packet ({text})")),
        1053 | 1077 | 1079 | 1152 | 1184 | 1927 | 4031 => Failure { closed: true, ..not_sent(text.to_owned()) },
        number => not_sent(format!("{text} ({number})")),
    };
    Failure { code: found.number().to_string(), ..failure }
}

/// What else may be so of an account that is denied: the server chooses it by user and host, the host first, and new
/// installations may have accounts for `localhost` that any user fits.
fn other_account(denied: &str) -> String {
    let account = denied.split_once("user ").and_then(|(_, rest)| rest.split_whitespace().next());
    let Some((user, host)) = account.and_then(|account| account.split_once('@')) else { return String::new() };
    format!(
        ". If {user}@'%' is an account there, another one for {host} may come before it, as one without a name does \
         (''@{host}): remove that one, or make {user}@{host} too"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_that_does_not_fit_says_what_to_write() {
        let open = |rest| open(rest, &Namespace::new("n").unwrap(), &Access::default());
        assert!(open("db/x").unwrap_err().contains("mysql://user@host:3306/database"));
        assert!(open("u@db/x?sslmode=require").unwrap_err().contains("`ssl-mode=verify_identity`"));
        assert_eq!(format!("{:?}", open("u:s3cret@db/x").unwrap()), "SqlStore(mysql://u@db:3306/x)");
    }

    #[test]
    fn what_the_driver_says_of_its_features_is_told_as_what_to_do() {
        let classify = |text: &str| classify(&sqlx::Error::Configuration(text.into())).detail;
        assert!(classify("RSA auth backend disabled; enable feature `mysql-rsa`").contains("needs TLS: turn it on"));
        assert_eq!(classify("another"), "another");
    }

    #[test]
    fn a_user_who_is_denied_may_be_there_for_another_host() {
        let told = other_account("Access denied for user 'onecron'@'localhost' (using password: YES)");
        assert!(told.contains("If 'onecron'@'%' is an account") && told.contains("make 'onecron'@'localhost' too"));
        assert!(told.contains("(''@'localhost'): remove that one"), "{told}");
        assert_eq!(other_account("no such words"), "");
    }

    #[test]
    fn a_server_is_told_by_what_its_kind_has() {
        assert!(look(true, false).contains("hostname") && look(false, false).contains("server_uuid"));
        assert!(look(true, true).contains("wsrep_cluster_state_uuid") && !look(true, true).contains("hostname"));
    }
}
