//! From a URL to hosts, user, database and parameters. Nothing of a URL that cannot be read is repeated: what looks like
//! a port can be the half of a password.

use super::Failure;
use crate::secret::Secret;
use crate::store::ErrorKind;
use crate::store::access::Access;
use crate::store::access::word_of;
use crate::store::place::Place;
use crate::store::place::decoded;
use std::collections::BTreeMap;
use std::time::Duration;

/// How long the audit trail is kept where the URL does not say.
const AUDIT_DAYS: u64 = 90;
/// How long it can be.
const AUDIT_DAYS_MOST: u64 = 36_500;

/// How a connection is encrypted, weakest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Tls {
    /// Not at all.
    Disable,
    /// Where the server offers it.
    Prefer,
    /// Always, with whomever.
    Require,
    /// Always, with a server that an authority vouches for.
    VerifyCa,
    /// The same, and its name must be that of the URL.
    VerifyFull,
}

/// What a kind of server has of its own in URLs.
#[derive(Debug, Clone, Copy)]
pub struct Manner {
    /// What stands before `://`.
    pub scheme: &'static str,
    /// The port where none is given.
    pub port: u16,
    /// The name of the parameter for TLS.
    pub tls: &'static str,
    /// Its values, from [`Tls::Disable`] to [`Tls::VerifyFull`].
    pub tls_words: [&'static str; 5],
}

/// What a URL says.
#[derive(Debug, Clone)]
pub struct Target {
    /// Where to look for a server that takes writes, in this order.
    pub hosts: Vec<Place>,
    /// The user.
    pub user: String,
    /// The password, where the URL has one.
    password: Option<Secret<String>>,
    /// The database.
    pub database: String,
    /// Encryption.
    pub tls: Tls,
    /// How that is written.
    manner: Manner,
    /// How long the audit trail is kept.
    pub audit: Duration,
    /// Accounts and certificates in files.
    pub access: Access,
    /// The URL as it may be shown.
    pub shown: String,
}

impl Target {
    /// Reads what follows `scheme://`.
    ///
    /// # Errors
    /// What is wrong, and what to write instead.
    pub fn parse(rest: &str, access: &Access, manner: &Manner) -> Result<Self, String> {
        let example = format!("{}://user@host:{}/database", manner.scheme, manner.port);
        if rest.contains(|c: char| c.is_whitespace() || c.is_control()) {
            return Err("a blank or a line end stands inside: in a password write `%20` for a blank".into());
        }
        if rest.contains('#') {
            return Err("a `#` stands inside: in a password write `%23` for it".into());
        }
        let (place, query) = rest.split_once('?').unwrap_or((rest, ""));
        if query.contains('@') {
            return Err("a `?` stands before the `@`: in a password write `%3F` for it".into());
        }
        let (authority, path) = place.split_once('/').unwrap_or((place, ""));
        if path.contains('@') {
            return Err("a `/` stands before the `@`: in user and password write `%2F` for it".into());
        }
        let (account, hosts) = authority.rsplit_once('@').unwrap_or(("", authority));
        let (user, password) = match account.split_once(':') {
            Some((user, password)) => (user, Some(password).filter(|password| !password.is_empty())),
            None => (account, None),
        };
        let user = match &access.account.user {
            Some(user) => user.clone(),
            None => decoded(user)?,
        };
        if user.is_empty() && access.account.user_file.is_none() {
            return Err(format!("the user is missing: write {example}"));
        }
        let password = password.map(decoded).transpose()?.map(Secret::new);
        let database = decoded(path.strip_suffix('/').unwrap_or(path))?;
        if database.is_empty() || database.contains('/') {
            return Err(format!("after the hosts a `/` and the name of one database are missing: write {example}"));
        }
        let hosts = hosts.split(',').map(|host| Place::parse(host, manner.port)).collect::<Result<Vec<_>, _>>()?;
        let (mut tls, mut audit) = (None, AUDIT_DAYS);
        for (name, value) in parameters(query)? {
            match name.as_str() {
                name if name == manner.tls => tls = Some(tls_of(&value, manner)?),
                "audit-days" => audit = audit_of(&value)?,
                other => return Err(unknown(other, manner)),
            }
        }
        // Whoever names an authority wants it to be asked, and who has a certificate wants to show it.
        let unsaid = match (&access.ca_file, &access.cert_file) {
            (Some(_), _) => Tls::VerifyFull,
            (None, Some(_)) => Tls::Require,
            (None, None) => Tls::Prefer,
        };
        let tls = tls.unwrap_or(unsaid);
        if access.ca_file.is_some() && tls < Tls::VerifyCa {
            let [.., full] = manner.tls_words;
            return Err(format!(
                "with --store-ca-file only `{}={full}` makes sense: leave the parameter out",
                manner.tls
            ));
        }
        if access.cert_file.is_some() && tls == Tls::Disable {
            return Err(format!("with --store-cert-file there must be TLS: leave `{}` out", manner.tls));
        }
        if access.cert_file.is_some() != access.key_file.is_some() {
            return Err("--store-cert-file and --store-key-file are given together, or neither".into());
        }
        let places: Vec<String> = hosts.iter().map(Place::to_string).collect();
        let shown = format!("{}://{user}@{}/{database}", manner.scheme, places.join(","));
        let audit = Duration::from_secs(audit * 86_400);
        let manner = *manner;
        Ok(Self { hosts, user, password, database, tls, manner, audit, access: access.clone(), shown })
    }

    /// What to do about a connection that did not come about, as far as it may be for want of TLS or a certificate.
    pub fn advice(&self, failure: &Failure) -> String {
        let Manner { tls, tls_words: [off, _, _, ca, _], .. } = self.manner;
        let has_none = self.access.cert_file.is_none();
        // By TLS 1.3 a server hangs up on who shows none, and whether it can say why is a matter of luck.
        let hung_up = failure.closed && self.tls >= Tls::Require;
        match self.tls {
            Tls::Disable if failure.barred => format!(" (if it wants TLS: leave `{tls}={off}` out)"),
            _ if has_none && (failure.barred || hung_up) => {
                " (if it wants a certificate of ours: --store-cert-file and --store-key-file)".into()
            }
            // As in those that MySQL makes for itself.
            _ if failure.detail.contains("not valid for any names") => {
                format!(
                    " (the server's certificate names no host: write `{tls}={ca}`, which asks for the authority alone)"
                )
            }
            _ => self.access.advice(&failure.detail),
        }
    }

    /// User and password as they are now: those in files may have been renewed.
    ///
    /// # Errors
    /// A file cannot be read.
    pub fn account(&self) -> Result<(String, Option<Secret<String>>), String> {
        let account = &self.access.account;
        let user = account.user_file.as_deref().map(word_of).transpose()?.unwrap_or_else(|| self.user.clone());
        let password = account.password_file.as_deref().map(word_of).transpose()?.map(Secret::new);
        Ok((user, password.or_else(|| self.password.clone())))
    }

    /// What a connection to a host needs of files. They are read where nobody else waits: a file system may hang.
    ///
    /// # Errors
    /// What `read` says, which is a mistake in the settings.
    pub async fn read_for<T: Send + 'static>(
        &self,
        host: &Place,
        read: impl FnOnce(&Self, &Place) -> Result<T, String> + Send + 'static,
    ) -> Result<T, Failure> {
        let (target, host) = (self.clone(), host.clone());
        let made = tokio::task::spawn_blocking(move || read(&target, &host)).await;
        let made = made.unwrap_or_else(|_| Err("the options cannot be made".into()));
        made.map_err(|detail| Failure::new(ErrorKind::Misconfigured, detail))
    }
}

fn parameters(query: &str) -> Result<BTreeMap<String, String>, String> {
    let mut found = BTreeMap::new();
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        if found.insert(name.to_owned(), value.to_owned()).is_some() {
            return Err("a parameter after `?` is given twice: leave one out".into());
        }
    }
    Ok(found)
}

fn tls_of(value: &str, manner: &Manner) -> Result<Tls, String> {
    let all = [Tls::Disable, Tls::Prefer, Tls::Require, Tls::VerifyCa, Tls::VerifyFull];
    let same = |word: &str| word.eq_ignore_ascii_case(value);
    let known = || format!("the value of `{}` is none of `{}`", manner.tls, manner.tls_words.join("`, `"));
    manner.tls_words.iter().position(|word| same(word)).map(|at| all[at]).ok_or_else(known)
}

fn audit_of(value: &str) -> Result<u64, String> {
    let fits = |days: &u64| (1..=AUDIT_DAYS_MOST).contains(days);
    let wanted =
        || format!("the value of `audit-days` is not a number from 1 to {AUDIT_DAYS_MOST}: write audit-days=90");
    value.parse().ok().filter(fits).ok_or_else(wanted)
}

/// What to write instead of a parameter that does not exist. Its name is repeated only where it is one that others have: any
/// other can be the half of a password.
fn unknown(name: &str, manner: &Manner) -> String {
    let lower = name.to_ascii_lowercase();
    let instead = match lower.as_str() {
        "sslmode" | "ssl-mode" | "ssl_mode" | "tls" | "ssl" => {
            let [.., full] = manner.tls_words;
            format!("it is `{}={full}` here", manner.tls)
        }
        "sslrootcert" | "ssl-ca" | "ssl_ca" => "name the file with --store-ca-file".into(),
        "sslcert" | "ssl-cert" | "sslkey" | "ssl-key" => {
            "name the files with --store-cert-file and --store-key-file".into()
        }
        "password" | "passfile" => "name a file with --store-password-file".into(),
        "user" => format!("the user stands before the host: {}://user@host/database", manner.scheme),
        "host" | "port" | "hostaddr" => "several hosts are written with commas: host1:port,host2:port".into(),
        "target_session_attrs" => "a server that takes writes is looked for anyway".into(),
        "options" | "search_path" | "schema" | "currentschema" => {
            "set it for the user: ALTER ROLE onecron SET search_path = …".into()
        }
        _ => {
            return format!(
                "of the parameters after `?`, one does not exist: there are `{}` and `audit-days`; in a password write \
                 `%3F` for a `?`",
                manner.tls
            );
        }
    };
    format!("of the parameters after `?`, `{lower}` does not exist: {instead}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::access::Account;

    const MANNER: Manner = Manner {
        scheme: "postgres",
        port: 5432,
        tls: "sslmode",
        tls_words: ["disable", "prefer", "require", "verify-ca", "verify-full"],
    };

    fn parse(rest: &str) -> Result<Target, String> {
        Target::parse(rest, &Access::default(), &MANNER)
    }

    #[test]
    fn a_url_names_hosts_account_database_and_parameters() {
        let target = parse("u%40x:p%2Fw@db1,db2:6000,[::1]:7000/onecron?sslmode=verify-ca&audit-days=7").unwrap();
        let places: Vec<String> = target.hosts.iter().map(Place::to_string).collect();
        assert_eq!(places, ["db1:5432", "db2:6000", "[::1]:7000"]);
        let (user, password) = target.account().unwrap();
        assert_eq!((user.as_str(), password.unwrap().expose().as_str()), ("u@x", "p/w"));
        assert_eq!((target.database.as_str(), target.tls), ("onecron", Tls::VerifyCa));
        assert_eq!(target.audit, Duration::from_secs(7 * 86_400));
        assert_eq!(target.shown, "postgres://u@x@db1:5432,db2:6000,[::1]:7000/onecron");
        assert!(!format!("{target:?}").contains("p/w"));
    }

    #[test]
    fn the_wrong_part_is_named_and_nothing_is_repeated() {
        for (rest, part) in [
            ("", "the user is missing"),
            ("db/onecron", "the user is missing"),
            ("u:s3cret@/onecron", "a host is missing"),
            ("u:s3cret@db,/onecron", "a host is missing"),
            ("u:s3cret@db", "the name of one database"),
            ("u:s3cret@db/", "the name of one database"),
            ("u:s3cret@db/a/b", "the name of one database"),
            ("u:s3cret@db:port/x", "the port"),
            ("u:s3cret@db:0/x", "the port"),
            ("u:s3/cret@db/x", "`%2F`"),
            ("u:s3?cret@db/x", "`%3F`"),
            ("u:s3#cret@db/x", "`%23`"),
            ("u:s3%cret@db/x", "`%25`"),
            ("u:s3 cret@db/x", "`%20`"),
            ("u:s3cret@::1/x", "in brackets"),
            ("u:s3cret@[::1]5/x", "after the `]`"),
            ("u:s3cret@db/x?sslmode=on", "`verify-full`"),
            ("u:s3cret@db/x?ssl-mode=required", "it is `sslmode=verify-full` here"),
            ("u:s3cret@db/x?sslrootcert=/ca.pem", "--store-ca-file"),
            ("u@db/x?password=s3cret", "--store-password-file"),
            ("u@db/x?audit-days=0", "audit-days=90"),
            ("u@db/x?audit-days=9&audit-days=8", "given twice"),
            ("u@db/x?colour=s3cret", "there are `sslmode` and `audit-days`"),
            ("u@db/x?s3cret", "there are `sslmode` and `audit-days`"),
            ("u@db/x?s3cret=1", "write `%3F` for a `?`"),
        ] {
            let error = parse(rest).unwrap_err();
            assert!(error.contains(part) && !error.contains("cret"), "{rest}: {error}");
        }
    }

    #[test]
    fn an_authority_that_is_named_is_asked() {
        let access = Access { ca_file: Some("/ca.pem".into()), ..Access::default() };
        let parse = |rest| Target::parse(rest, &access, &MANNER);
        assert_eq!(parse("u@db/x").unwrap().tls, Tls::VerifyFull);
        assert_eq!(parse("u@db/x?sslmode=verify-ca").unwrap().tls, Tls::VerifyCa);
        assert!(parse("u@db/x?sslmode=require").unwrap_err().contains("leave the parameter out"));
        let [cert_file, key_file] = ["/our.pem", "/our.key"].map(|path| Some(path.into()));
        let access = Access { cert_file, key_file, ..Access::default() };
        let parse = |rest| Target::parse(rest, &access, &MANNER);
        assert_eq!(parse("u@db/x").unwrap().tls, Tls::Require, "who has a certificate wants to show it");
        assert_eq!(parse("u@db/x?sslmode=prefer").unwrap().tls, Tls::Prefer);
        assert!(parse("u@db/x?sslmode=disable").unwrap_err().contains("there must be TLS"));
    }

    #[test]
    fn what_keeps_us_out_is_told_with_what_to_write() {
        let failure =
            |barred, closed, detail: &str| Failure { barred, closed, ..Failure::new(ErrorKind::Misconfigured, detail) };
        let nameless = "certificate not valid for name \"db\"; certificate is not valid for any names";
        for (rest, failure, told) in [
            ("u@db/x?sslmode=disable", failure(true, false, "no"), "leave `sslmode=disable` out"),
            ("u@db/x", failure(true, false, "no"), "--store-cert-file"),
            ("u@db/x?sslmode=require", failure(false, true, "reset by peer"), "--store-cert-file"),
            ("u@db/x", failure(false, true, "reset by peer"), ""),
            ("u@db/x?sslmode=verify-full", failure(false, false, nameless), "`sslmode=verify-ca`"),
        ] {
            let advice = parse(rest).unwrap().advice(&failure);
            assert!(advice.contains(told) && told.is_empty() == advice.is_empty(), "{rest}: {advice}");
        }
    }

    #[tokio::test]
    async fn a_file_that_is_waited_for_holds_up_nobody_else() {
        let target = parse("u@db/x").unwrap();
        let (goes_on, waits) = std::sync::mpsc::channel();
        let read = move |_: &Target, _: &Place| waits.recv_timeout(Duration::from_secs(5)).map_err(|e| e.to_string());
        let (found, sent) = tokio::join!(target.read_for(&target.hosts[0], read), async { goes_on.send(7) });
        assert!(sent.is_ok());
        assert_eq!(found.unwrap(), 7);
    }

    #[test]
    fn a_password_in_a_file_wins_and_is_read_when_it_is_needed() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("password");
        let account = Account { password_file: Some(file.clone()), ..Account::default() };
        let access = Access { account, ..Access::default() };
        let target = Target::parse("u:old@db/x", &access, &MANNER).unwrap();
        assert!(target.account().unwrap_err().starts_with("read `"));
        for password in ["one", "two"] {
            std::fs::write(&file, format!("{password}\n")).unwrap();
            assert_eq!(target.account().unwrap().1.unwrap().expose(), password);
        }
    }
}
