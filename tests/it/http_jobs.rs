//! Jobs that are HTTP requests, as an operator meets them: real daemons, real servers.

use crate::processes::until;
use crate::support::daemon::Daemon;
use crate::support::daemon::LIMIT;
use crate::support::daemon::Launch;
use crate::support::daemon::Table;
use crate::support::web::Act;
use crate::support::web::Web;
use crate::support::web::answer;
use crate::support::web::ok;
use nix::sys::signal::Signal;
use onecron::clock::SystemClock;
use serde_json::Value;
use std::sync::Arc;

/// A job that asks a server at the next full five seconds.
fn job(name: &str, http: &str, rest: &str) -> String {
    format!("  - {{name: {name}, schedule: '*/5 * * * * *', startingDeadline: 20s, http: {{{http}}}{rest}}}\n")
}

fn finished(daemon: &Daemon, job: &str) -> Value {
    daemon.wait_for_job("run_finished", job)
}

#[test]
fn a_request_is_a_run_like_any_other_and_its_status_is_in_the_log_and_in_the_record() {
    let web = Web::start(|_| answer(202, "", "taken"));
    let table = Table::new(&job("purge", &format!("url: '{}'", web.url("/purge")), ""));
    let store = format!("sqlite:{}", table.folder.path().join("onecron.db").display());
    let mut daemon = table.launch(&store).start();
    let started = daemon.wait_for_job("run_started", "purge");
    assert_eq!(started.get("pid"), None, "{started}");
    let end = finished(&daemon, "purge");
    let found = (&end["outcome"], &end["http_status"], &end["output_bytes"], end.get("exit_code"));
    assert_eq!(found, (&"succeeded".into(), &202.into(), &5.into(), None), "{end}");
    daemon.signal(Signal::SIGTERM);
    assert_eq!(daemon.wait_for_exit(), 0);
    let seen = web.seen().remove(0);
    assert_eq!(seen.header("Onecron-Run-Id"), end["run_id"].as_str().unwrap());
    assert_eq!(seen.header("Idempotency-Key"), end["run_id"].as_str().unwrap());
    assert_eq!(seen.header("Onecron-Fencing-Token"), end["token"].to_string());
    assert_eq!(seen.header("Onecron-Replica"), daemon.replica());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let history = runtime.block_on(async {
        let namespace = onecron::job::Namespace::new("default").unwrap();
        let store = onecron::store::open(&store, &namespace, Arc::new(SystemClock)).unwrap();
        store.history(&onecron::job::JobName::new("purge").unwrap(), 10).await.unwrap()
    });
    let oldest = history.last().unwrap();
    assert_eq!((oldest.http_status.as_str(), oldest.output_tail.as_str()), ("202", "taken"));
}

#[test]
fn a_retry_has_the_same_key_and_a_greater_token() {
    let web = Web::start(|seen| if seen.header("Onecron-Attempt") == "1" { answer(503, "", "no") } else { ok() });
    let retry = ", retry: {limit: 1, backoff: 200ms}";
    let table = Table::new(&job("purge", &format!("url: '{}'", web.url("/")), retry));
    let daemon = table.launch("memory:").start();
    let retried = daemon.wait_for_event("run_retried");
    assert_eq!((&retried["attempt"], &retried["http_status"]), (&1.into(), &503.into()));
    assert!(retried["error"].as_str().unwrap().contains("the status of the answer is 503"), "{retried}");
    let end = finished(&daemon, "purge");
    assert_eq!((&end["outcome"], &end["http_status"], &end["attempts"]), (&"succeeded".into(), &200.into(), &2.into()));
    let seen = web.seen();
    let token = |at: usize| seen[at].header("Onecron-Fencing-Token").parse::<u64>().unwrap();
    assert_eq!(seen[0].header("Idempotency-Key"), seen[1].header("Idempotency-Key"));
    assert_eq!(token(1), token(0) + 1);
    assert_ne!(seen[0].connection, seen[1].connection);
}

#[test]
fn a_request_ends_at_the_timeout_of_its_run_and_by_a_drain() {
    let web = Web::start(|_| vec![Act::Hold]);
    let url = format!("url: '{}'", web.url("/"));
    let table = Table::new(&(job("short", &url, ", timeout: 500ms") + &job("long", &url, ", timeout: 5m")));
    let mut daemon = table.launch("memory:").arg("--drain-timeout").arg("0s").start();
    let end = finished(&daemon, "short");
    assert_eq!((&end["outcome"], end.get("http_status")), (&"timed_out".into(), None));
    let error = format!("stopped at its timeout: POST {}: wait for the head of the answer: given up", web.url("/"));
    assert_eq!(end["error"], error.as_str());
    daemon.wait_for_job("run_started", "long");
    daemon.signal(Signal::SIGTERM);
    let end = finished(&daemon, "long");
    assert_eq!(end["outcome"], "interrupted");
    daemon.wait_for_exit();
    assert_eq!(daemon.events("run_killed"), Vec::<Value>::new());
    until("all connections are closed", || web.open() == 0);
}

#[test]
fn a_value_that_is_not_there_is_said_without_it_and_the_run_is_not_started() {
    let table = Table::new(&job("purge", "url: {fromEnv: PURGE_URL}", ""));
    let daemon = table.launch("memory:").start();
    let end = finished(&daemon, "purge");
    assert_eq!(end["outcome"], "not_started");
    assert!(end["error"].as_str().unwrap().contains("its `http.url` from the daemon's variable `PURGE_URL`"), "{end}");
    assert_eq!(daemon.events("run_started"), Vec::<Value>::new());
}

#[test]
fn proxies_of_the_environment_are_used_but_for_what_no_proxy_names() {
    let (proxy, web) = (Web::start(|_| ok()), Web::start(|_| ok()));
    let jobs = [
        job("outside", "url: 'http://outside.example/'", ""),
        job("inside", &format!("url: '{}'", web.url("/inside")), ""),
        job("nowhere", "url: 'http://web.team.svc:1/'", ""),
        job("direct", "proxy: none, connectTimeout: 3s, url: 'http://outside.invalid/'", ""),
    ];
    let table = Table::new(&jobs.concat());
    let address = format!("http://ada:hidden@127.0.0.1:{}", proxy.port);
    let launch = table.launch("memory:").env("HTTP_PROXY", &address).env("NO_PROXY", "10.0.0.0/8,127.0.0.1,.svc");
    let daemon = launch.start();
    for job in ["outside", "inside"] {
        assert_eq!(finished(&daemon, job)["outcome"], "succeeded");
    }
    for job in ["nowhere", "direct"] {
        let end = finished(&daemon, job);
        let error = end["error"].as_str().unwrap();
        assert!(end["outcome"] == "failed" && !error.contains("proxy"), "{end}");
    }
    let seen = proxy.seen();
    assert!(
        !seen.is_empty() && seen.iter().all(|seen| seen.line == "POST http://outside.example/ HTTP/1.1"),
        "{seen:?}"
    );
    assert_eq!(seen[0].header("Proxy-Authorization"), "Basic YWRhOmhpZGRlbg==");
    assert!(web.seen().iter().all(|seen| seen.line == "POST /inside HTTP/1.1"));
    assert!(!format!("{:?}{}", daemon.lines(), daemon.errors()).contains("hidden"));
}

#[test]
fn a_request_does_not_go_past_a_proxy_that_is_not_understood() {
    let web = Web::start(|_| ok());
    let table = Table::new(&job("purge", &format!("url: '{}'", web.url("/")), ""));
    for (name, value) in
        [("HTTP_PROXY", "http://"), ("https_proxy", "garbage S3CRET"), ("ALL_PROXY", "socks5://a:S3CRET@b")]
    {
        let daemon = table.launch("memory:").env(name, value).start();
        let end = finished(&daemon, "purge");
        let error = end["error"].as_str().unwrap();
        assert!(end["outcome"] == "not_started" && error.contains(&format!("`{name}`")), "{end}");
        assert!(!format!("{:?}{}", daemon.lines(), daemon.errors()).contains("S3CRET"));
    }
    assert_eq!(web.connections(), 0);
}

/// A daemon that may have so many descriptors, with jobs that are all due at one instant.
fn burst(jobs: usize, (descriptors, places): (usize, usize), url: &str) -> (Table, Launch) {
    let folder = tempfile::tempdir().unwrap();
    let jobs: String = (0..jobs).map(|number| {
        format!("  - {{name: job-{number}, schedule: '*/20 * * * * *', startingDeadline: 60s, http: {{url: '{url}', proxy: none}}}}\n")
    }).collect();
    let head = format!("scheduler: {{maxConcurrentRuns: {places}}}\njobs:\n");
    std::fs::write(folder.path().join("jobs.yaml"), head + &jobs).unwrap();
    let table = Table { folder };
    let limit = format!("ulimit -n {descriptors}; exec \"$@\"");
    let launch = table.launch("memory:").wrapper(&["/bin/sh", "-c", &limit, "sh"]);
    (table, launch)
}

fn ends(daemon: &Daemon, count: usize) -> Vec<Value> {
    daemon.wait_for_many(count, |line| line["event"] == "run_finished", LIMIT * 3)
}

#[test]
fn two_hundred_requests_that_are_due_at_once_end_well_with_few_descriptors() {
    for places in [10, 0] {
        let web = Web::start(|_| ok());
        let (_table, launch) = burst(200, (256, places), &web.url("/"));
        let daemon = launch.start();
        let ends = ends(&daemon, 200);
        let bad: Vec<&Value> = ends.iter().filter(|end| end["outcome"] != "succeeded").collect();
        assert!(bad.is_empty(), "{places} places: {bad:?}");
        let jobs: std::collections::BTreeSet<String> = ends.iter().map(|end| end["job"].to_string()).collect();
        assert_eq!(jobs.len(), 200);
    }
}

#[test]
fn a_request_for_which_there_is_no_descriptor_is_given_back_and_sent_later() {
    let web = Web::start(|_| ok());
    // By name, since looking one up needs descriptors as well.
    let (_table, launch) = burst(200, (48, 0), &web.url("/").replace("127.0.0.1", "localhost"));
    let daemon = launch.start();
    let ends = ends(&daemon, 200);
    let bad: Vec<&Value> = ends.iter().filter(|end| end["outcome"] != "succeeded").collect();
    assert!(bad.is_empty(), "{bad:?}");
    let deferred = daemon.events("run_deferred");
    assert!(!deferred.is_empty() && deferred[0]["error"].as_str().unwrap().contains("Too many open files"));
    assert_eq!(web.seen().len(), 200, "none was sent twice");
}

#[test]
fn what_is_sent_ends_with_a_daemon_that_is_killed() {
    let web = Web::start(|_| vec![Act::Hold]);
    let table = Table::new(&job("purge", &format!("url: '{}'", web.url("/")), ""));
    let daemon = table.launch("memory:").start();
    daemon.wait_for_job("run_started", "purge");
    until("it is sent", || web.seen().len() == 1);
    daemon.signal(Signal::SIGKILL);
    until("the connection is closed", || web.open() == 0);
}

#[test]
fn a_request_can_be_ordered_and_cancelled_by_hand() {
    let web = Web::start(|_| vec![Act::Hold]);
    let table = Table::new(&format!("  - {{name: purge, schedule: '@yearly', http: {{url: '{}'}}}}\n", web.url("/")));
    let store = format!("sqlite:{}", table.folder.path().join("onecron.db").display());
    let daemon = table.launch(&store).start();
    daemon.wait_for_event("daemon_ready");
    let ordered = Launch::new(&["trigger", "purge", "--store", &store]).output();
    let run = String::from_utf8(ordered.stdout).unwrap().trim().to_owned();
    daemon.wait_for_job("run_started", "purge");
    until("it is sent", || web.seen().len() == 1);
    assert_eq!(
        (web.only().header("Onecron-Trigger"), web.only().header("Onecron-Run-Id")),
        ("manual".into(), run.clone())
    );
    let cancelled = Launch::new(&["cancel", &run, "--wait=20s", "--store", &store]).output();
    let text = String::from_utf8([cancelled.stdout, cancelled.stderr].concat()).unwrap();
    assert!(text.contains("cancelled after"), "{text}");
    assert_eq!(finished(&daemon, "purge")["outcome"], "cancelled");
    until("the connection is closed", || web.open() == 0);
    assert_eq!(daemon.events("run_killed").len(), 0);
}
