//! URLs that lead to something else than the store that they name, and files that cannot be used: told at once and as
//! what they are, never taken for a store, and never waited for.

use crate::support::bench::Kind;
use crate::support::bench::open;
use crate::support::bench::open_with;
use crate::support::daemon::Launch;
use crate::support::daemon::Table;
use crate::support::documents;
use crate::support::documents::DocumentServer;
use crate::support::redis_modes;
use crate::support::scene::registration;
use crate::support::server::RedisServer;
use crate::support::server::find_program;
use crate::support::server::free_port;
use crate::support::sql_server;
use crate::support::web::Authority;
use crate::support::web::Web;
use crate::support::web::answer;
use nix::sys::stat::Mode;
use onecron::clock::Clock;
use onecron::clock::SystemClock;
use onecron::job::JobName;
use onecron::job::Step;
use onecron::store::Access;
use onecron::store::Account;
use onecron::store::ErrorKind;
use std::time::Duration;

const GOOD: &str = "  - {name: hello, schedule: '0 0 1 1 *', command: 'true'}\n";

fn register() -> Step {
    Step::Register(registration(&JobName::new("hello").unwrap()))
}

/// Exit code and output of `doctor`.
fn examined(store: &str) -> (Option<i32>, String) {
    let table = Table::new(GOOD);
    let output = Launch::new(&["doctor", "--jobs", &table.path(), "--store", store]).output();
    (output.status.code(), String::from_utf8(output.stdout).unwrap())
}

/// Web servers, proxies and portals have one answer for all requests. None is a store, let alone a good one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_answers_every_request_alike_is_no_etcd_and_no_consul() {
    for (status, body) in [
        (404, ""),
        (404, "<html>nothing here</html>"),
        (200, "<html>welcome</html>"),
        (200, ""),
        (200, "{}"),
        (200, "[]"),
        (200, "null"),
        (200, "\"x\""),
        (204, ""),
        (301, "moved"),
        (401, "no"),
        (500, "oops"),
    ] {
        let web = Web::start(move |_| answer(status, "", body));
        for scheme in ["etcd", "consul"] {
            let url = web.url("").replace("http", scheme);
            let store = open(&url, "default");
            let case = format!("{scheme}: {status} {body:?}");
            assert!(store.probe().await.is_err(), "{case}");
            assert!(store.meet(None, &[]).await.is_err(), "{case}");
            assert!(store.jobs().await.is_err(), "{case}");
            assert!(store.apply(&[register()]).await.is_err(), "{case}");
            let (code, said) = examined(&url);
            assert!(matches!(code, Some(69 | 78)) && said.contains("bad    store: "), "{case}: {code:?} {said}");
        }
    }
}

#[tokio::test]
async fn what_says_404_to_everything_is_a_setting_to_mend() {
    let web = Web::start(|_| answer(404, "", ""));
    for (scheme, told) in [("etcd", "this is no etcd"), ("consul", "this is no Consul")] {
        let error = open(&web.url("").replace("http", scheme), "default").probe().await.unwrap_err();
        assert!(error.kind == ErrorKind::Misconfigured && error.to_string().contains(told), "{error}");
    }
}

#[tokio::test]
async fn servers_of_sql_that_are_none_are_told_as_such() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                stream.writable().await.unwrap();
                let _ = stream.try_write(&[0; 4096]);
                // Until the other end hangs up.
                let _ = stream.readable().await;
                let _ = tokio::time::timeout(Duration::from_secs(5), stream.readable()).await;
            });
        }
    });
    for scheme in ["postgres", "mysql"] {
        let store = open(&format!("{scheme}://user@127.0.0.1:{port}/database"), "default");
        let error = store.server_time().await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::NotSent, "{error}");
        assert!(error.to_string().contains("speaks another protocol"), "{error}");
    }
}

#[tokio::test]
async fn a_server_of_sql_without_tls_that_must_have_it_is_told_as_such() {
    for kind in [Kind::Postgres, Kind::MariaDb] {
        let Some(server) = sql_server::shared(kind) else { continue };
        let wanted = if kind == Kind::Postgres { "sslmode=require" } else { "ssl-mode=required" };
        let url = format!("{}?{wanted}", server.url(&server.make_database()));
        let error = open(&url, "default").server_time().await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::Misconfigured, "{error}");
        assert!(error.detail.contains("the server has no TLS"), "{error}");
    }
}

/// Every kind of URL at the port of every kind of server. None is waited for, taken for a store, or told as one that is away.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_of_another_kind_is_told_as_such() {
    let redis = find_program("redis-server").map(|program| RedisServer::start(&program, &[]));
    let of_sql = |kind| sql_server::shared(kind).map(|server| server.port);
    let of_documents = |kind| documents::shared(kind).map(|server| server.port);
    let servers = [
        ("redis", redis.as_ref().map(|server| server.port)),
        ("postgres", of_sql(Kind::Postgres)),
        ("mysql", of_sql(Kind::MariaDb)),
        ("etcd", of_documents(Kind::Etcd)),
        ("consul", of_documents(Kind::Consul)),
        ("memcached", of_documents(Kind::Memcached)),
    ];
    for (kind, port) in servers {
        let Some(port) = port else { continue };
        for (scheme, user, rest) in [
            ("redis", "", ""),
            ("rediss", "", ""),
            ("redis+sentinel", "", "/main"),
            ("redis+cluster", "", ""),
            ("postgres", "user@", "/database"),
            ("mysql", "user@", "/database"),
            ("etcd", "", ""),
            ("etcds", "", ""),
            ("consul", "", ""),
            ("consuls", "", ""),
            ("memcached", "", "?allow-best-effort=true"),
        ] {
            if scheme == kind {
                continue;
            }
            let store = open(&format!("{scheme}://{user}127.0.0.1:{port}{rest}"), "default");
            let text = store.meet(None, &[]).await.unwrap_err().to_string();
            let told = [
                "another kind of server",
                "speaks another protocol",
                "does not speak as Redis does",
                "does not speak TLS",
                "is it the port for TLS?",
                "is not what",
                "it is no Sentinel",
                "this is no",
                "is none of a cluster",
            ];
            assert!(told.iter().any(|part| text.contains(part)) && !text.contains('\n'), "a server of {kind}: {text}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_wants_tls_is_told_as_such() {
    let authority = Authority::new();
    for (kind, scheme) in [(Kind::Etcd, "etcd"), (Kind::Consul, "consul")] {
        let Some((_server, secure)) = DocumentServer::with_tls(kind, &authority) else { continue };
        let text = open(&format!("{scheme}://127.0.0.1:{secure}"), "default").jobs().await.unwrap_err().to_string();
        assert!(text.contains(&format!("write {scheme}s://")), "{text}");
    }
    if let Some(deployment) = redis_modes::tls() {
        let url = deployment.url.replace("rediss://", "redis://");
        let text = open(&url, "default").jobs().await.unwrap_err().to_string();
        assert!(text.contains("or write rediss://"), "{text}");
    }
}

#[tokio::test]
async fn of_several_servers_each_says_why_it_is_not_used() {
    for scheme in ["etcd", "consul", "postgres", "mysql", "redis+sentinel", "redis+cluster"] {
        let (user, path) = match scheme {
            "postgres" | "mysql" => ("user@", "/database"),
            "redis+sentinel" => ("", "/main"),
            _ => ("", ""),
        };
        let places = [free_port(), free_port()].map(|port| format!("127.0.0.1:{port}"));
        let url = format!("{scheme}://{user}{}{path}", places.join(","));
        let detail = open(&url, "default").meet(None, &[]).await.unwrap_err().detail;
        assert!(places.iter().all(|place| detail.contains(place.as_str())), "{scheme}: {detail}");
    }
}

/// Of each store and each file: a pipe that nobody writes into, one that is not there, one that holds something else.
#[tokio::test]
async fn files_that_cannot_be_used_are_named_before_anybody_connects() {
    let folder = tempfile::tempdir().unwrap();
    let [pipe, absent, odd] = ["pipe", "absent", "odd"].map(|name| folder.path().join(name));
    nix::unistd::mkfifo(&pipe, Mode::S_IRWXU).unwrap();
    std::fs::write(&odd, "something\nelse\0\n").unwrap();
    let port = free_port();
    for scheme in ["rediss", "postgres", "mysql", "etcds", "consuls"] {
        let (user, path) = if ["postgres", "mysql"].contains(&scheme) { ("user@", "/database") } else { ("", "") };
        let user = if scheme == "etcds" { "user@" } else { user };
        let url = format!("{scheme}://{user}127.0.0.1:{port}{path}");
        for file in [&pipe, &absent, &odd] {
            let some = || Some(file.clone());
            let account = Account { password_file: some(), ..Account::default() };
            for access in [
                Access { account, ..Access::default() },
                Access { ca_file: some(), ..Access::default() },
                Access { cert_file: some(), key_file: some(), ..Access::default() },
            ] {
                let store = open_with(&url, &access, "default");
                let begun = SystemClock.now().boot;
                let error = store.apply(&[register()]).await.unwrap_err();
                let took = SystemClock.now().boot.since(begun);
                assert_eq!(error.kind, ErrorKind::Misconfigured, "{error}");
                let name = file.file_name().unwrap().to_str().unwrap();
                assert!(
                    error.detail.contains(&format!("/{name}`")) && took < Duration::from_secs(2),
                    "{error}: {took:?}"
                );
            }
        }
    }
}

#[tokio::test]
async fn a_token_that_no_header_can_have_is_a_setting_to_mend() {
    for token in ["%00", "%0A", "caf%C3%A9%01"] {
        let error = open(&format!("consul://:{token}@127.0.0.1:1"), "default").jobs().await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::Misconfigured, "{error}");
    }
}

/// Who waits for a pipe says nothing meanwhile.
#[test]
fn a_pipe_is_no_file_of_a_url_and_none_of_a_token() {
    let table = Table::new(GOOD);
    let pipe = table.folder.path().join("pipe");
    nix::unistd::mkfifo(&pipe, Mode::S_IRWXU).unwrap();
    let pipe = pipe.to_str().unwrap();
    for words in [&["--store-file", pipe][..], &["--store", "memory:", "--api-token-file", pipe]] {
        let launch = words.iter().fold(Launch::new(&["run", "--jobs", &table.path()]), |launch, word| launch.arg(word));
        let output = launch.output();
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.code() == Some(78) && said.contains("is not a regular file"), "{said}");
    }
}

#[test]
fn a_database_that_a_redis_has_not_is_a_wrong_setting() {
    let Some(program) = find_program("redis-server") else { return };
    let redis = RedisServer::start(&program, &[]);
    let (code, said) = examined(&format!("{}/15", redis.url()));
    assert!(code == Some(0), "{said}");
    let (code, said) = examined(&format!("{}/16", redis.url()));
    assert!(code == Some(78) && said.contains("write one below its `databases`"), "{said}");
}

#[test]
fn a_command_refuses_a_path_that_is_none_before_it_looks_for_the_file() {
    let (code, said) = examined("sqlite://onecron.db");
    assert!(code == Some(78) && said.contains("a path has no `//` before it"), "{said}");
}

/// What was measured is a request, also of a store that has no clock to ask for.
#[test]
fn a_doctor_says_how_long_a_store_without_a_clock_takes() {
    const PAUSE: Duration = Duration::from_millis(60);
    let Some(server) = documents::shared(Kind::Consul) else { return };
    let (code, said) = examined(&server.url());
    assert!(code == Some(0) && said.contains("class C (more than the last second may be lost)"), "{said}");
    let port = server.port;
    // The same by way of one that takes its time.
    let slow = Web::start(move |seen| {
        let (method, path) = seen.line.split_once(' ').unwrap();
        let path = path.split(' ').next().unwrap();
        let whole = documents::shared(Kind::Consul).map(|server| server.http(method, path, &seen.body)).unwrap();
        let (head, body) = whole.as_deref().unwrap().split_once("\r\n\r\n").unwrap();
        let status: u16 = head.split(' ').nth(1).unwrap().parse().unwrap();
        std::thread::sleep(PAUSE);
        answer(status, &format!("X-Consul-Index: {port}\r\n"), body)
    });
    let (code, said) = examined(&slow.url("").replace("http", "consul"));
    let latency = said.lines().find_map(|line| line.split_once("its quickest answer took ")).unwrap().1;
    let millis: f64 = latency.strip_suffix("ms").unwrap_or_else(|| panic!("{latency}")).parse().unwrap();
    assert!(code == Some(0) && millis >= 60.0, "{said}");
}
