//! TLS: who vouches for the server, who wants a certificate of ours, who has none.

use super::*;
use crate::support::bench::open_with;
use crate::support::sql_server::give;
use crate::support::web::Authority;
use onecron::store::Access;
use onecron::store::Account;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

const PASSWORD: &str = "s3cret";

/// A server that lets two users in, by TLS only: `shows` with a certificate of the authority that is theirs, and `tells`
/// with a password.
struct Secure {
    kind: Kind,
    server: SqlServer,
    authority: Authority,
}

impl Secure {
    fn start(kind: Kind) -> Option<Self> {
        let authority = Authority::new();
        let server = SqlServer::start_after(kind, |folder| arguments(kind, &authority, folder))?;
        server.sql(&match kind {
            Kind::MariaDb => format!(
                "CREATE DATABASE onecron; CREATE USER shows@'127.0.0.1' REQUIRE X509; \
                 CREATE USER tells@'127.0.0.1' IDENTIFIED BY '{PASSWORD}' REQUIRE SSL; \
                 GRANT ALL ON onecron.* TO shows@'127.0.0.1', tells@'127.0.0.1'"
            ),
            _ => format!(
                "CREATE ROLE shows LOGIN; CREATE ROLE tells LOGIN PASSWORD '{PASSWORD}'; CREATE SCHEMA AUTHORIZATION shows; \
                 CREATE SCHEMA AUTHORIZATION tells"
            ),
        });
        Some(Self { kind, server, authority })
    }

    fn all() -> Vec<Self> {
        KINDS.into_iter().filter_map(Self::start).collect()
    }

    fn url(&self, user: &str) -> String {
        match self.kind {
            Kind::MariaDb => format!("mysql://{user}@127.0.0.1:{}/onecron", self.server.port),
            _ => format!("postgres://{user}@127.0.0.1:{}/postgres", self.server.port),
        }
    }

    /// With the parameter about TLS, as each kind writes it.
    fn url_with(&self, user: &str, postgres: &str, mysql: &str) -> String {
        match self.kind {
            Kind::MariaDb => format!("{}?ssl-mode={mysql}", self.url(user)),
            _ => format!("{}?sslmode={postgres}", self.url(user)),
        }
    }

    /// What `shows` needs.
    fn access(&self) -> Access {
        let [certificate, key] = self.authority.client("shows").map(Some);
        Access { ca_file: Some(self.authority.file()), cert_file: certificate, key_file: key, ..Access::default() }
    }
}

/// Of a server that has TLS. Its key is its own, and PostgreSQL's rules are in a file.
fn arguments(kind: Kind, authority: &Authority, folder: &Path) -> Vec<String> {
    let [certificate, key] = authority.pair();
    let files = [("ca", authority.file()), ("cert", certificate), ("key", key)].map(|(name, from)| {
        let to = folder.join(name);
        std::fs::copy(from, &to).unwrap();
        std::fs::set_permissions(&to, PermissionsExt::from_mode(0o600)).unwrap();
        give(kind, &to);
        (name, to.display().to_string())
    });
    if kind == Kind::MariaDb {
        return files.iter().map(|(name, path)| format!("--ssl-{name}={path}")).collect();
    }
    let rules = "host all postgres 127.0.0.1/32 trust\nhostssl all shows 127.0.0.1/32 cert\n\
                 hostssl all tells 127.0.0.1/32 scram-sha-256\n";
    std::fs::write(folder.join("data/pg_hba.conf"), rules).unwrap();
    let settings = files.map(|(name, path)| format!("-cssl_{name}_file={path}"));
    std::iter::once("-cssl=on".to_owned()).chain(settings).collect()
}

async fn refused(url: &str, access: &Access) -> String {
    let error = open_with(url, access, "default").server_time().await.unwrap_err();
    let text = error.to_string();
    assert_eq!(error.kind, ErrorKind::Misconfigured, "{text}");
    assert!(!text.contains(PASSWORD), "{text}");
    text
}

async fn works(url: &str, access: &Access) {
    let answers = open_with(url, access, "default").apply(&[register("job")]).await.unwrap();
    assert!(matches!(answers[0].verdict, Verdict::Registered { .. }), "{answers:?}");
}

#[tokio::test]
async fn with_tls_both_sides_show_certificates() {
    for secure in Secure::all() {
        let (url, whole) = (secure.url("shows"), secure.access());
        works(&url, &whole).await;
        let other = Authority::new();
        let text = refused(&url, &Access { ca_file: Some(other.file()), ..whole.clone() }).await;
        assert!(text.contains("ca.pem` has no certificate that vouches for it"), "{text}");
        let checked = secure.url_with("shows", "verify-full", "verify_identity");
        let text = refused(&checked, &Access { ca_file: None, ..whole.clone() }).await;
        assert!(text.contains("name") && text.contains("--store-ca-file"), "{text}");
        let text = refused(&url, &Access { cert_file: None, key_file: None, ..whole.clone() }).await;
        assert!(text.contains("--store-cert-file and --store-key-file"), "{text}");
        let [certificate, key] = other.client("shows").map(Some);
        let strange = Access { cert_file: certificate, key_file: key, ..whole.clone() };
        let text = refused(&url, &strange).await;
        assert!(text.contains("does not trust our certificate") && text.contains("shows.pem"), "{text}");
        let text = refused(&url, &Access { key_file: strange.key_file, ..whole.clone() }).await;
        assert!(text.contains("shows.key` do not fit together"), "{text}");
    }
}

/// Who checks the name, who checks the authority only, who wants no more than that nobody listens.
#[tokio::test]
async fn the_server_is_checked_as_far_as_the_url_says() {
    for secure in Secure::all() {
        let whole = secure.access();
        let nobody = Access { ca_file: None, ..whole.clone() };
        let other = Authority::new();
        let of_another = Access { ca_file: Some(other.file()), ..whole.clone() };
        let by_name = |url: String| url.replace("127.0.0.1", "localhost");
        let text = refused(&by_name(secure.url("shows")), &whole).await;
        assert!(text.contains("for another name"), "{text}");
        let by_authority = by_name(secure.url_with("shows", "verify-ca", "verify_ca"));
        works(&by_authority, &whole).await;
        let text = refused(&by_authority, &of_another).await;
        assert!(text.contains("no certificate that vouches for it"), "{text}");
        works(&by_name(secure.url_with("shows", "require", "required")), &nobody).await;
        // Who has a certificate wants to show it, also where nothing is said.
        works(&by_name(secure.url("shows")), &nobody).await;
        let namespace = onecron::job::Namespace::new("default").unwrap();
        let off = secure.url_with("shows", "disable", "disabled");
        let error = onecron::store::open_with(&off, &nobody, &namespace, Arc::new(SystemClock)).unwrap_err();
        assert!(error.to_string().contains("there must be TLS"), "{error}");
    }
}

#[tokio::test]
async fn a_server_that_wants_tls_and_one_that_has_none_are_told_as_such() {
    for secure in Secure::all() {
        let folder = tempfile::tempdir().unwrap();
        let access = password(folder.path(), PASSWORD);
        works(&secure.url("tells"), &access).await;
        let off = secure.url_with("tells", "disable", "disabled");
        let advice =
            if secure.kind == Kind::MariaDb { "leave `ssl-mode=disabled` out" } else { "leave `sslmode=disable` out" };
        let text = refused(&off, &access).await;
        assert!(text.contains(advice), "{text}");
        if secure.kind == Kind::MariaDb {
            // Of everybody, not of an account.
            secure.server.sql("SET GLOBAL require_secure_transport = ON");
            let text = refused(&secure.url_with("root", "disable", "disabled"), &Access::default()).await;
            assert!(text.contains(advice), "{text}");
            works(&secure.url("root"), &Access::default()).await;
        }
        let Some(without) = sql_server::shared(secure.kind) else { continue };
        let url = without.url(&without.make_database());
        let own = Access { ca_file: None, ..secure.access() };
        for access in [Access { ca_file: Some(secure.authority.file()), ..Access::default() }, own] {
            let text = refused(&url, &access).await;
            assert!(text.contains("the server has no TLS"), "{text}");
        }
    }
}

fn password(folder: &Path, text: &str) -> Access {
    let file = folder.join("password");
    std::fs::write(&file, format!("{text}\n")).unwrap();
    Access { account: Account { password_file: Some(file), ..Account::default() }, ..Access::default() }
}

/// As operators renew them: in the same place, while the program goes on.
#[tokio::test]
async fn files_are_read_at_each_connecting() {
    for secure in Secure::all() {
        let folder = tempfile::tempdir().unwrap();
        let (file, other) = (folder.path().join("ca.pem"), Authority::new());
        std::fs::copy(other.file(), &file).unwrap();
        let account = password(folder.path(), "wrong-s3cret").account;
        let access = Access { account, ca_file: Some(file.clone()), ..Access::default() };
        let store = open_with(&secure.url("tells"), &access, "default");
        let said = async || store.server_time().await.unwrap_err().to_string();
        let text = said().await;
        assert!(text.contains("no certificate that vouches for it"), "{text}");
        std::fs::copy(secure.authority.file(), &file).unwrap();
        let text = said().await;
        assert!(text.contains("user and password") && !text.contains(PASSWORD), "{text}");
        password(folder.path(), PASSWORD);
        store.server_time().await.unwrap();
        std::fs::write(&file, "").unwrap();
        store.server_time().await.unwrap();
        let text = refused(&secure.url("tells"), &access).await;
        assert!(text.contains("ca.pem` has no certificate in it"), "a connection that is open stays: {text}");
    }
}

/// By arguments, by variables, by files: the whole way from the command line to the server.
#[test]
fn accounts_and_certificates_come_from_arguments_and_variables() {
    for secure in Secure::all() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str, text: &str| {
            let path = folder.path().join(name);
            std::fs::write(&path, text).unwrap();
            path.display().to_string()
        };
        let stranger = Authority::new();
        let [ca, other] = [&secure.authority, &stranger].map(|authority| authority.file().display().to_string());
        let [certificate, key] = secure.authority.client("shows").map(|path| path.display().to_string());
        let (user, password) = (file("user", "tells\n"), file("password", &format!("{PASSWORD}\n")));
        let said = |launch: Launch| {
            let output = launch.output();
            (output.status.code(), String::from_utf8(output.stderr).unwrap())
        };
        let known = |launch: Launch| {
            let (code, text) = said(launch);
            assert!(code == Some(1) && text.contains("knows no job `job-1`"), "{code:?} {text}");
        };
        let ask = Launch::new(&["pause", "job-1"]);
        let by_flags = |words: &[(&str, &str)]| {
            words.iter().fold(ask.clone(), |launch, (name, value)| launch.arg(name).arg(value))
        };
        // Those of the arguments win over those of the URL.
        let url = secure.url("nobody:nothing");
        let tells = [("--store", url.as_str()), ("--store-user", "tells"), ("--store-password-file", &password)];
        known(by_flags(&tells).arg("--store-ca-file").arg(&ca));
        let (code, text) = said(by_flags(&tells).arg("--store-ca-file").arg(&other));
        assert!(code == Some(78) && text.contains("no certificate that vouches for it"), "{code:?} {text}");
        let shows = secure.url("shows");
        let pair = [("--store-cert-file", certificate.as_str()), ("--store-key-file", &key), ("--store-ca-file", &ca)];
        known(by_flags(&pair).arg("--store").arg(&shows));
        // One process checks the authority alone and nothing else before it.
        let loosely = secure.url_with("nobody", "verify-ca", "verify_ca").replace("127.0.0.1", "localhost");
        known(
            ask.clone()
                .env("ONECRON_STORE_FILE", &file("url", &loosely))
                .env("ONECRON_STORE_USER_FILE", &user)
                .env("ONECRON_STORE_PASSWORD_FILE", &password)
                .env("ONECRON_STORE_CA_FILE", &ca),
        );
        let with_pair = ask.clone().env("ONECRON_STORE", &loosely).env("ONECRON_STORE_USER", "shows");
        let with_pair = with_pair.env("ONECRON_STORE_CERT_FILE", &certificate).env("ONECRON_STORE_KEY_FILE", &key);
        known(with_pair.env("ONECRON_STORE_CA_FILE", &ca));
        let wrong = file("password", &format!("{PASSWORD}x"));
        let (code, text) = said(by_flags(&tells[..2]).arg("--store-password-file").arg(&wrong));
        assert!(code == Some(78) && text.contains("does not accept user and password"), "{code:?} {text}");
        assert!(!text.contains(PASSWORD), "{text}");
    }
}
