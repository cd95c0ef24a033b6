//! Who may read over HTTP, with what it is encrypted, and how it is packed.

use crate::processes::until;
use crate::support::client::connect;
use crate::support::client::get;
use crate::support::client::rest;
use crate::support::client::send;
use crate::support::daemon::Daemon;
use crate::support::daemon::Launch;
use crate::support::daemon::Table;
use crate::support::web::Authority;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use nix::sys::signal::Signal;
use rustls::ClientConfig;
use rustls::ClientConnection;
use rustls::RootCertStore;
use rustls::StreamOwned;
use rustls::crypto::ring;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::ServerName;
use rustls::pki_types::pem::PemObject;
use std::io::Read;
use std::io::Write;
use std::net::TcpStream;
use std::path::Path;
use std::sync::Arc;

const RARE: &str = "  - {name: rare, schedule: '@yearly', command: 'true'}\n";
const READ: &str = "reading-is-for-people-who-know";
const ACT: &str = "correct-horse-battery-staple";

fn start(launch: &Launch) -> (Daemon, String) {
    let daemon = launch.clone().arg("--listen").arg("127.0.0.1:0").start();
    let address = daemon.wait_for_event("http_listening")["address"].as_str().unwrap().to_owned();
    (daemon, address)
}

/// A daemon that wants a token from whoever reads, and another from whoever acts.
fn with_tokens(table: &Table) -> Launch {
    let file = |name: &str, token: &str| {
        let path = table.folder.path().join(name);
        std::fs::write(&path, token).unwrap();
        path.display().to_string()
    };
    let launch = table.launch("memory:").arg("--read-token-file").arg(&file("read", READ));
    launch.env("ONECRON_API_TOKEN_FILE", &file("act", ACT))
}

fn bearer(token: &str) -> String {
    format!("Authorization: Bearer {token}\r\n")
}

fn basic(password: &str) -> String {
    format!("Authorization: Basic {}\r\n", STANDARD.encode(format!("anybody:{password}")))
}

#[test]
fn without_the_read_token_only_probes_and_metrics_are_answered() {
    let table = Table::new(RARE);
    let (daemon, address) = start(&with_tokens(&table));
    daemon.wait_for_event("daemon_ready");
    for path in ["/livez", "/readyz", "/metrics"] {
        assert_eq!(get(&address, path).status, 200, "{path}");
    }
    let paths = ["/", "/jobs/rare", "/style.css", "/openapi.json", "/api/v1/status", "/api/v1/jobs", "/nowhere"];
    for path in paths {
        let denied = get(&address, path);
        assert_eq!((denied.status, &denied.json()["code"]), (401, &"token_missing".into()), "{path}");
        assert!(denied.header("www-authenticate").starts_with("Basic "), "a browser asks for it");
        assert!(!denied.body.contains("rare"));
    }
    for path in paths.iter().rev() {
        let wrong = send(&address, ("GET", path), &bearer("reading-is-for-people-who-kno"), "");
        assert_eq!((wrong.status, &wrong.json()["code"]), (401, &"token_wrong".into()), "{path}");
    }
    assert_eq!(
        daemon.wait_for_event("api_denied")["route"],
        "other",
        "the first with a wrong one: those without are no line"
    );
    let metrics = get(&address, "/metrics").body;
    assert!(metrics.contains("code=\"401\""), "those are counted too");
}

#[test]
fn the_read_token_reads_and_does_not_act_and_whoever_acts_may_read() {
    let table = Table::new(RARE);
    let (daemon, address) = start(&with_tokens(&table));
    daemon.wait_for_event("daemon_ready");
    for header in [bearer(READ), basic(READ), bearer(ACT), basic(ACT)] {
        for path in ["/", "/api/v1/status", "/openapi.json"] {
            assert_eq!(send(&address, ("GET", path), &header, "").status, 200, "{path}");
        }
        assert_eq!(send(&address, ("GET", "/nowhere"), &header, "").status, 404);
    }
    for header in [bearer(READ), basic(READ), basic(ACT)] {
        let act = send(&address, ("POST", "/api/v1/reload"), &header, "");
        assert_eq!(act.status, 401, "a browser sends a password along by itself, so it is no word to act by");
    }
    assert_eq!(send(&address, ("POST", "/api/v1/reload"), &bearer(ACT), "").status, 202);
}

#[test]
fn without_the_file_of_the_acting_token_nobody_is_told_that_a_token_is_wrong() {
    let table = Table::new(RARE);
    let (daemon, address) = start(&with_tokens(&table));
    daemon.wait_for_event("daemon_ready");
    std::fs::remove_file(table.folder.path().join("act")).unwrap();
    for (asked, token, status) in [
        (("POST", "/api/v1/reload"), ACT, 503),
        (("POST", "/api/v1/reload"), READ, 503),
        (("GET", "/api/v1/status"), ACT, 503),
        (("GET", "/api/v1/status"), READ, 200),
    ] {
        let answer = send(&address, asked, &bearer(token), "");
        assert_eq!(answer.status, status, "{asked:?}");
        assert!(status == 200 || answer.json()["code"] == "token_unreadable", "{}", answer.body);
    }
    assert!(daemon.events("api_denied").is_empty());
}

#[test]
fn another_read_token_counts_at_once_and_none_lets_nobody_in() {
    let table = Table::new(RARE);
    let (_daemon, address) = start(&with_tokens(&table));
    let read = |token: &str| send(&address, ("GET", "/api/v1/version"), &bearer(token), "").status;
    assert_eq!(read(READ), 200);
    std::fs::write(table.folder.path().join("read"), "another-word-for-the-readers").unwrap();
    assert_eq!((read(READ), read("another-word-for-the-readers")), (401, 200));
    std::fs::remove_file(table.folder.path().join("read")).unwrap();
    assert_eq!(read("another-word-for-the-readers"), 503);
    assert_eq!(get(&address, "/api/v1/version").status, 401, "without a word the file is not looked at");
    assert_eq!(get(&address, "/livez").status, 200);
}

#[test]
fn a_daemon_with_a_read_token_that_is_none_does_not_start() {
    let table = Table::new(RARE);
    let launch = table.launch("memory:").env("ONECRON_READ_TOKEN_FILE", "/no/such/token");
    let output = launch.output();
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.code() == Some(78) && errors.contains("/no/such/token"), "{errors}");
}

/// The bytes of an answer's body.
fn raw(address: &str, path: &str, headers: &str) -> (String, Vec<u8>) {
    let mut stream = connect(address);
    let head = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n{headers}\r\n");
    stream.write_all(head.as_bytes()).unwrap();
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).unwrap();
    let end = bytes.windows(4).position(|window| window == b"\r\n\r\n").unwrap();
    (String::from_utf8_lossy(&bytes[..end]).to_lowercase(), bytes[end + 4..].to_vec())
}

#[test]
fn pages_json_and_metrics_are_packed_for_those_who_take_that() {
    let table = Table::new(RARE);
    let (daemon, address) = start(&table.launch("memory:"));
    daemon.wait_for_event("daemon_ready");
    for path in ["/", "/style.css", "/openapi.json", "/metrics"] {
        let (head, plain) = raw(&address, path, "");
        assert!(!head.contains("content-encoding") && head.contains("vary: accept-encoding"), "{path}: {head}");
        let (head, packed) = raw(&address, path, "Accept-Encoding: br, gzip\r\n");
        assert!(head.contains("content-encoding: gzip") && head.contains("content-security-policy"), "{path}: {head}");
        assert!(head.contains(&format!("content-length: {}", packed.len())), "{path}: {head}");
        let mut unpacked = Vec::new();
        flate2::read::GzDecoder::new(&packed[..]).read_to_end(&mut unpacked).unwrap();
        assert!(packed.len() * 2 < plain.len(), "{path}: {} of {}", packed.len(), plain.len());
        if path == "/openapi.json" {
            assert_eq!(unpacked, plain);
        }
        assert_eq!(unpacked.first(), plain.first(), "{path}");
    }
    let (head, body) = raw(&address, "/livez", "Accept-Encoding: gzip\r\n");
    assert!(!head.contains("content-encoding") && body == b"ok\n", "it is too short for that: {head}");
    let head = send(&address, ("HEAD", "/openapi.json"), "Accept-Encoding: gzip\r\n", "");
    assert_eq!((head.status, head.header("content-encoding"), head.body.as_str()), (200, "", ""));
}

/// A daemon with an authority's certificate.
fn encrypted(table: &Table, authority: &Authority) -> Launch {
    let [certificate, key] = authority.pair().map(|file| file.display().to_string());
    table.launch("memory:").env("ONECRON_TLS_CERT_FILE", &certificate).arg("--tls-key-file").arg(&key)
}

/// What a client gets that trusts this authority and speaks these versions.
fn ask(address: &str, ca: &Path, versions: &[&'static rustls::SupportedProtocolVersion]) -> std::io::Result<String> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(ca).unwrap()).unwrap();
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_protocol_versions(versions)
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let name = ServerName::try_from("127.0.0.1").unwrap();
    let connection = ClientConnection::new(Arc::new(config), name).unwrap();
    let mut stream = StreamOwned::new(connection, TcpStream::connect(address)?);
    stream.write_all(b"GET /api/v1/version HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")?;
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    Ok(text)
}

#[test]
fn with_a_certificate_it_speaks_tls_and_tells_those_who_do_not() {
    let (table, authority) = (Table::new(RARE), Authority::new());
    let (daemon, address) = start(&encrypted(&table, &authority));
    assert_eq!(daemon.wait_for_event("http_listening")["encrypted"], true);
    for versions in [&[&rustls::version::TLS12][..], &[&rustls::version::TLS13]] {
        let answer = ask(&address, &authority.file(), versions).unwrap();
        assert!(answer.starts_with("HTTP/1.1 200") && answer.contains("\"version\""), "{answer}");
    }
    let stranger = Authority::new();
    assert!(ask(&address, &stranger.file(), rustls::ALL_VERSIONS).is_err(), "this client trusts somebody else");
    let plain = get(&address, "/api/v1/version");
    assert_eq!((plain.status, &plain.json()["code"]), (400, &"tls_only".into()));
    assert!(plain.json()["detail"].as_str().unwrap().contains("https://"), "{plain:?}");
    // The first bytes of a client that knows TLS 1.0 and no more.
    let mut old = connect(&address);
    let hello: &[u8] = b"\x16\x03\x01\x00\x2f\x01\x00\x00\x2b\x03\x01";
    let rest_of_it = [[7_u8; 32].as_slice(), b"\x00\x00\x02\x00\x2f\x01\x00\x00\x00"].concat();
    old.write_all(&[hello, &rest_of_it].concat()).unwrap();
    assert!(!rest(old).contains("HTTP/"), "it is turned away");
}

#[test]
fn healthcheck_asks_by_tls_where_the_daemon_speaks_it() {
    let (table, authority) = (Table::new(RARE), Authority::new());
    let (daemon, address) = start(&encrypted(&table, &authority));
    daemon.wait_for_event("daemon_ready");
    let check = |args: &[&str], certificate: &str| {
        let launch = Launch::new(args).env("ONECRON_LISTEN", &address).env("ONECRON_TLS_CERT_FILE", certificate);
        launch.output()
    };
    let certificate = authority.pair()[0].display().to_string();
    for args in [&["healthcheck"][..], &["healthcheck", "--ready"]] {
        let output = check(args, &certificate);
        assert_eq!((output.status.code(), output.stdout.ends_with(b"ok\n")), (Some(0), true), "{output:?}");
    }
    assert_eq!(check(&["healthcheck"], "").status.code(), Some(1), "plain, it is told so");
    daemon.freeze();
    assert_eq!(check(&["healthcheck"], &certificate).status.code(), Some(69));
    daemon.signal(Signal::SIGCONT);
}

#[test]
fn another_certificate_is_taken_while_it_runs_and_a_broken_one_is_not() {
    let (table, first, second) = (Table::new(RARE), Authority::new(), Authority::new());
    let (daemon, address) = start(&encrypted(&table, &first));
    let [certificate, key] = first.pair();
    std::fs::write(&certificate, "-----BEGIN NOTHING-----\n").unwrap();
    let refused = daemon.wait_for_event("tls_refused");
    assert!(refused["error"].as_str().unwrap().contains("a certificate that cannot be read"), "{refused}");
    assert!(ask(&address, &first.file(), rustls::ALL_VERSIONS).is_ok(), "the one before is in force");
    let [other_certificate, other_key] = second.pair();
    std::fs::copy(other_key, key).unwrap();
    std::fs::copy(other_certificate, certificate).unwrap();
    daemon.wait_for_event("tls_replaced");
    until("new connections have the new one", || ask(&address, &second.file(), rustls::ALL_VERSIONS).is_ok());
    assert!(ask(&address, &first.file(), rustls::ALL_VERSIONS).is_err());
}

#[test]
fn half_of_a_pair_or_a_wrong_one_does_not_start() {
    let (table, authority, other) = (Table::new(RARE), Authority::new(), Authority::new());
    let [certificate, _] = authority.pair().map(|file| file.display().to_string());
    let [_, key] = other.pair().map(|file| file.display().to_string());
    for (arguments, found) in [
        (&["--tls-cert-file", &certificate][..], "--tls-key-file /path"),
        (&["--tls-key-file", &key], "--tls-cert-file /path"),
        (&["--tls-cert-file", &certificate, "--tls-key-file", &key], "cannot be used together"),
        (&["--tls-cert-file", "/no/such/file", "--tls-key-file", &key], "/no/such/file"),
    ] {
        let launch = arguments.iter().fold(table.launch("memory:"), |launch, argument| launch.arg(argument));
        let output = launch.output();
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() == Some(78) && errors.contains(found), "{arguments:?}: {errors}");
    }
}
