//! The daemon's HTTP server, as probes and mean clients meet it.

use crate::processes::until;
use crate::support::client::closes_within;
use crate::support::client::connect;
use crate::support::client::get;
use crate::support::client::rest;
use crate::support::client::send;
use crate::support::daemon::Daemon;
use crate::support::daemon::Launch;
use crate::support::daemon::Table;
use crate::support::server::free_port;
use nix::sys::signal::Signal;
use std::io::Write;
use std::net::TcpListener;
use std::time::Duration;

const RARE: &str = "  - {name: rare, schedule: '@yearly', command: 'true'}\n";

/// A daemon that listens on a port of its own, and where.
fn listening(table: &Table, store: &str) -> (Daemon, String) {
    let daemon = table.launch(store).arg("--listen").arg("127.0.0.1:0").start();
    let address = daemon.wait_for_event("http_listening")["address"].as_str().unwrap().to_owned();
    (daemon, address)
}

#[test]
fn probes_say_how_it_is_and_a_drain_makes_it_not_ready() {
    let table = Table::new("  - {name: long, schedule: '* * * * * *', command: 'sleep 30'}\n");
    let (mut daemon, address) = listening(&table, "memory:");
    assert_eq!((get(&address, "/livez").status, get(&address, "/livez").body), (200, "ok\n".to_owned()));
    daemon.wait_for_event("daemon_ready");
    assert_eq!(get(&address, "/readyz").body, "ok\n");
    assert_eq!(get(&address, "/readyz?verbose").body, "yes table\nyes store_seen\nyes not_draining\nok\n");
    daemon.wait_for_event("run_started");
    daemon.signal(Signal::SIGTERM);
    assert_eq!(daemon.wait_for_event("daemon_not_ready")["reason"], "draining");
    let ready = get(&address, "/readyz");
    assert_eq!((ready.status, ready.body.as_str()), (503, "yes table\nyes store_seen\nno  not_draining\nnot ready\n"));
    assert_eq!(get(&address, "/livez").status, 200, "a drain is no reason to kill it");
    until("the echo of a signal is over", || {
        daemon.signal(Signal::SIGTERM);
        !daemon.events("run_stopping").is_empty()
    });
    assert_eq!(daemon.wait_for_exit(), 75);
}

#[test]
fn it_is_not_ready_before_the_store_has_answered() {
    let table = Table::new(RARE);
    let (daemon, address) = listening(&table, &format!("redis://127.0.0.1:{}", free_port()));
    daemon.wait_for_event("store_lost");
    let ready = get(&address, "/readyz");
    assert_eq!((ready.status, ready.body.as_str()), (503, "yes table\nno  store_seen\nyes not_draining\nnot ready\n"));
    assert_eq!(get(&address, "/livez").status, 200);
}

#[test]
fn healthcheck_asks_the_address_that_the_daemon_has() {
    let table = Table::new(RARE);
    let (daemon, address) = listening(&table, "memory:");
    daemon.wait_for_event("daemon_ready");
    let check = |args: &[&str], address: &str| Launch::new(args).env("ONECRON_LISTEN", address).output();
    let any = format!("0.0.0.0:{}", address.rsplit_once(':').unwrap().1);
    for address in [&address, &any] {
        assert_eq!(check(&["healthcheck"], address).status.code(), Some(0));
    }
    let ready = check(&["healthcheck", "--ready"], &address);
    assert_eq!((ready.status.code(), ready.stdout.ends_with(b"ok\n")), (Some(0), true));
    daemon.freeze();
    assert_eq!(check(&["healthcheck"], &address).status.code(), Some(69), "it does not answer");
    daemon.signal(Signal::SIGCONT);
    assert_eq!(check(&["healthcheck"], "none").status.code(), Some(78));
    let nobody = check(&["healthcheck"], &format!("127.0.0.1:{}", free_port()));
    assert_eq!(nobody.status.code(), Some(69));
    assert!(String::from_utf8_lossy(&nobody.stderr).contains("http_listening"), "{nobody:?}");
}

#[test]
fn a_chosen_address_that_is_taken_is_an_error_and_the_default_one_is_a_warning() {
    let table = Table::new(RARE);
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let chosen = table.launch("memory:").env("ONECRON_LISTEN", &address).output();
    let said = String::from_utf8_lossy(&chosen.stderr).into_owned();
    assert!(chosen.status.code() == Some(78) && said.contains(&address) && said.contains("--listen none"), "{said}");
    // Whoever has the default one: this test, or somebody else on this machine.
    let _default = TcpListener::bind("127.0.0.1:8080");
    let daemon = table.launch("memory:").env("ONECRON_LISTEN", "").start();
    let warning = daemon.wait_for_event("setting_warning");
    assert!(warning["setting"] == "--listen" && warning["detail"].as_str().unwrap().contains("--listen none"));
    daemon.wait_for_event("daemon_ready");
    assert!(daemon.events("http_listening").is_empty());
}

#[test]
fn every_answer_has_the_same_headers_and_wrong_ones_say_what_is_right() {
    let table = Table::new(RARE);
    let (_daemon, address) = listening(&table, "memory:");
    for path in ["/livez", "/readyz", "/nowhere"] {
        let answer = get(&address, path);
        assert!(answer.header("content-security-policy").starts_with("default-src 'none'; style-src 'self'"));
        assert_eq!((answer.header("x-content-type-options"), answer.header("cache-control")), ("nosniff", "no-store"));
    }
    let nowhere = get(&address, "/nowhere");
    assert_eq!((nowhere.status, nowhere.header("content-type")), (404, "application/problem+json"));
    assert_eq!(
        (&nowhere.json()["code"], &nowhere.json()["detail"]),
        (&"not_found".into(), &"there is no /nowhere".into())
    );
    let post = send(&address, ("POST", "/livez"), "", "");
    assert_eq!(
        (post.status, post.header("allow"), &post.json()["code"]),
        (405, "GET,HEAD", &"method_not_allowed".into())
    );
    let head = send(&address, ("HEAD", "/livez"), "", "");
    assert_eq!((head.status, head.header("content-length"), head.body.as_str()), (200, "3", ""));
}

#[test]
fn metrics_are_there_to_be_scraped_and_count_requests_by_route() {
    let table = Table::new(RARE);
    let (daemon, address) = listening(&table, "memory:");
    daemon.wait_for_event("daemon_ready");
    get(&address, "/api/v1/jobs/some-job");
    get(&address, "/api/v1/jobs/another");
    get(&address, "/anything/else");
    let metrics = get(&address, "/metrics");
    assert_eq!((metrics.status, metrics.header("content-type")), (200, "text/plain; version=0.0.4; charset=utf-8"));
    let count = |route: &str| {
        let of_route = metrics.body.lines().find(|line| {
            line.starts_with("onecron_http_requests_total{") && line.contains(&format!("route=\"{route}\""))
        });
        of_route.and_then(|line| line.rsplit(' ').next()?.parse::<u32>().ok())
    };
    assert_eq!((count("/api/v1/jobs/{name}"), count("other")), (Some(2), Some(1)), "{}", metrics.body);
    assert!(metrics.body.contains("onecron_ready 1") && metrics.body.contains("onecron_build_info{"));
}

#[test]
fn a_head_that_is_too_long_or_is_none_is_refused() {
    let table = Table::new(RARE);
    let (_daemon, address) = listening(&table, "memory:");
    let long = send(&address, ("GET", "/livez"), &format!("X-Long: {}\r\n", "a".repeat(20_000)), "");
    assert_eq!(long.status, 431);
    let many = send(&address, ("GET", "/livez"), &"X-More: a\r\n".repeat(100), "");
    assert_eq!(many.status, 431);
    let mut stream = connect(&address);
    stream.write_all(b"\x16\x03\x01 this is no HTTP\r\n\r\n").unwrap();
    assert!(rest(stream).starts_with("HTTP/1.1 400"));
    assert_eq!(get(&address, "/livez").status, 200);
}

/// Slow loris: heads that never end.
#[test]
fn clients_that_say_nothing_keep_nobody_out_and_are_dropped() {
    let table = Table::new("  - {name: often, schedule: '* * * * * *', command: 'true'}\n");
    let (daemon, address) = listening(&table, "memory:");
    let mut silent: Vec<_> = (0..300).map(|_| connect(&address)).collect();
    for stream in &mut silent {
        // Those that were dropped already take nothing.
        let _ = stream.write_all(b"GET /livez HTTP/1.1\r\nHost: x\r\nX-Slow:");
    }
    assert_eq!(get(&address, "/livez").status, 200);
    let newest = silent.pop().unwrap();
    for oldest in silent.drain(..200) {
        assert!(closes_within(oldest, Duration::from_secs(5)), "it has to make room, long before its time is over");
    }
    assert!(closes_within(newest, Duration::from_secs(20)), "its time is over");
    daemon.wait_for_event("run_finished");
    assert!(daemon.events("tick_late").is_empty());
}

#[test]
fn a_body_that_never_ends_is_given_up() {
    let table = Table::new(RARE);
    let file = table.folder.path().join("token");
    std::fs::write(&file, "correct-horse-battery-staple").unwrap();
    let launch = table.launch("memory:").arg("--listen").arg("127.0.0.1:0").arg("--api-token-file");
    let daemon = launch.arg(file.to_str().unwrap()).start();
    let address = daemon.wait_for_event("http_listening")["address"].as_str().unwrap().to_owned();
    let mut stream = connect(&address);
    let head = "POST /api/v1/reload HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer correct-horse-battery-staple\r\n";
    stream.write_all(format!("{head}Content-Length: 100\r\n\r\n{{").as_bytes()).unwrap();
    let said = rest(stream);
    assert!(said.starts_with("HTTP/1.1 408") && said.contains("too_slow"), "{said}");
}
