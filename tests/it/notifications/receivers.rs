//! Those who are told, when they are down, silent, or not who they should be.

use super::*;
use crate::processes::millis;
use crate::processes::now;
use crate::processes::until;
use crate::support::daemon::LIMIT;
use crate::support::server::free_port;
use crate::support::web::Act;
use crate::support::web::Authority;
use crate::support::web::answer;
use crate::support::web::ok;
use crate::support::web::redirect;
use nix::sys::signal::Signal;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// A job that fails once, at a full five seconds, and is not run again before the test is over.
fn failing(notify: &str) -> String {
    let command = "test -e done && exit 0; touch done; exit 1";
    format!(
        "  - {{name: nightly, schedule: '*/5 * * * * *', command: '{command}', notify: {{onFailure: [{notify}]}}}}\n"
    )
}

fn sent(daemon: &Daemon, notifier: &str) -> Value {
    daemon.wait_for(|line| line["event"] == "notify_sent" && line["notifier"] == notifier, LIMIT)
}

fn failed(daemon: &Daemon, notifier: &str) -> Value {
    daemon.wait_for(|line| line["event"] == "notify_failed" && line["notifier"] == notifier, LIMIT)
}

#[test]
fn a_receiver_that_comes_back_in_time_is_told() {
    let port = free_port();
    let notifiers = format!("  hook: {{type: webhook, url: 'http://127.0.0.1:{port}/S3CRET-PATH'}}\n");
    let place = Place::new(&notifiers, &failing("hook"));
    let daemon = place.start("web-1");
    daemon.wait_for_job("run_finished", "nightly");
    // The first try comes a second later, and the second half a second after that at the earliest.
    let tried = now() + millis(1300);
    until("the first try was made", || now() >= tried);
    let web = Web::start_on(port, |_| ok());
    assert!(sent(&daemon, "hook")["attempts"].as_u64().unwrap() > 1);
    assert_eq!(items(&web, "failure").len(), 1);
    assert_secret(&[daemon]);
}

#[test]
fn a_receiver_that_is_overloaded_is_tried_three_times_and_one_that_refuses_once() {
    let count = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&count);
    let web = Web::start(move |seen| match seen.line.as_str() {
        line if line.contains("/refusing") => answer(403, "", "who are you"),
        line if line.contains("/recovering") && counted.fetch_add(1, Ordering::SeqCst) > 0 => ok(),
        _ => answer(503, "", "later"),
    });
    let hook =
        |name: &str| format!("  {name}: {{type: webhook, url: '{}'}}\n", web.url(&format!("/S3CRET-PATH/{name}")));
    let notifiers = hook("refusing") + &hook("recovering") + &hook("broken");
    let place = Place::new(&notifiers, &failing("refusing, recovering, broken"));
    let daemon = place.start("web-1");
    let refused = failed(&daemon, "refusing");
    assert_eq!((&refused["status"], &refused["attempts"]), (&403.into(), &1.into()), "{refused}");
    assert!(refused["error"].as_str().unwrap().contains("POST ***: the status of the answer is 403"), "{refused}");
    assert_eq!(sent(&daemon, "recovering")["attempts"], 2);
    let broken = failed(&daemon, "broken");
    assert_eq!((&broken["status"], &broken["attempts"], &broken["count"]), (&503.into(), &3.into(), &1.into()));
    let ids: Vec<String> = web.seen().iter().map(|seen| seen.header("Idempotency-Key")).collect();
    assert!(ids.iter().all(|id| *id == ids[0]), "a message has one name, however often it is sent: {ids:?}");
    assert_secret(&[daemon]);
}

#[test]
fn a_silent_receiver_holds_up_no_run_and_no_other_receiver() {
    let silent = Web::start(|_| vec![Act::Hold]);
    let web = Web::start(|_| ok());
    let notifiers =
        hook(&web) + &format!("  silent: {{type: webhook, url: '{}', timeout: 2s}}\n", silent.url("/S3CRET-PATH"));
    let jobs =
        "  - {name: busy, schedule: '* * * * * *', command: [/bin/false], notify: {onFailure: [silent, hook]}}\n";
    let place = Place::new(&notifiers, jobs);
    let daemon = place.start("web-1");
    let given_up = failed(&daemon, "silent");
    assert_eq!((&given_up["attempts"], given_up.get("status")), (&3.into(), None), "{given_up}");
    assert!(given_up["error"].as_str().unwrap().contains("2s"), "{given_up}");
    // Three tries of two seconds, with pauses: six runs are due in that time.
    let runs = daemon.events("run_finished").len();
    assert!(runs >= 6, "{runs} runs");
    for line in daemon.events("run_started") {
        assert!(line["start_delay_ms"].as_i64().unwrap() < 2_000, "{line}");
    }
    until("the other one is told of all of them", || items(&web, "failure").len() >= runs);
    assert_secret(&[daemon]);
}

#[test]
fn the_end_of_a_daemon_waits_for_what_is_to_be_told() {
    let slow = Act::Repeat(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n".to_vec(), Duration::from_secs(60));
    let web = Web::start(move |_| vec![slow.clone()]);
    let place = Place::new(&hook(&web), &failing("hook"));
    let mut daemon = place.start("web-1");
    daemon.wait_for_job("run_finished", "nightly");
    daemon.signal(Signal::SIGTERM);
    assert_eq!(daemon.wait_for_exit(), 0);
    assert_eq!(items(&web, "failure").len(), 1);
    assert_eq!((daemon.events("notify_sent").len(), daemon.events("notify_dropped").len()), (1, 0));
}

#[test]
fn the_end_of_a_daemon_does_not_wait_for_ever() {
    let silent = Web::start(|_| vec![Act::Hold]);
    let notifiers = format!("  silent: {{type: webhook, url: '{}', timeout: 60s}}\n", silent.url("/S3CRET-PATH"));
    let place = Place::new(&notifiers, &failing("silent"));
    let mut daemon = place.start("web-1");
    daemon.wait_for_job("run_finished", "nightly");
    daemon.signal(Signal::SIGTERM);
    assert_eq!(daemon.wait_for_exit(), 0);
    let dropped = daemon.wait_for_event("notify_dropped");
    assert_eq!(
        (&dropped["notifier"], &dropped["count"], &dropped["reason"]),
        (&"silent".into(), &1.into(), &"ending".into())
    );
    assert_secret(&[daemon]);
}

#[test]
fn a_second_signal_ends_the_wait_for_what_is_to_be_told() {
    let silent = Web::start(|_| vec![Act::Hold]);
    let notifiers = format!("  silent: {{type: webhook, url: '{}', timeout: 60s}}\n", silent.url("/S3CRET-PATH"));
    let place = Place::new(&notifiers, &failing("silent"));
    let mut daemon = place.start("web-1");
    daemon.wait_for_job("run_finished", "nightly");
    daemon.signal(Signal::SIGTERM);
    daemon.signal(Signal::SIGTERM); // its echo, which means nothing
    daemon.wait_for_event("daemon_draining");
    let waited = now() + millis(1000);
    until("it waits for its receiver", || now() >= waited && silent.connections() > 0);
    assert_eq!(daemon.events("notify_dropped").len(), 0);
    let asked = now();
    daemon.signal(Signal::SIGTERM);
    assert_eq!(daemon.wait_for_exit(), 0);
    assert!(now().since(asked) < millis(5000), "it would have waited ten seconds");
    let dropped = daemon.wait_for_event("notify_dropped");
    assert_eq!((&dropped["count"], &dropped["reason"]), (&1.into(), &"ending".into()), "{dropped}");
}

#[test]
fn what_waits_for_a_receiver_that_has_left_the_table_is_said_in_one_line() {
    let silent = Web::start(|_| vec![Act::Hold]);
    let pager = format!(
        "  hook: {{type: webhook, url: 'http://127.0.0.1:9/'}}\n  pager: {{type: pagerduty, routingKey: {{fromEnv: PD_KEY}}, url: '{}', timeout: 2s}}\n",
        silent.url("/S3CRET-PATH")
    );
    let jobs = |notify: &str| {
        let job = |n: usize| {
            format!(
                "  - {{name: job-{n:02}, schedule: '*/10 * * * * *', command: [/bin/false], notify: {{onFailure: [{notify}]}}}}\n"
            )
        };
        (0..20).map(job).collect::<String>()
    };
    let place = Place::new(&pager, &jobs("pager"));
    let daemon = place.launch("web-1").env("PD_KEY", "S3CRET-KEY").start();
    daemon.wait_for_many(20, |line| line["event"] == "run_finished", LIMIT);
    place.write("  hook: {type: webhook, url: 'http://127.0.0.1:9/'}\n", &jobs("hook"));
    let dropped = daemon.wait_for_event("notify_dropped");
    assert_eq!((&dropped["notifier"], &dropped["reason"]), (&"pager".into(), &"removed".into()), "{dropped}");
    // One may have been given up before.
    let given_up = daemon.events("notify_failed").len() as u64;
    assert!(dropped["count"].as_u64().unwrap() + given_up >= 20, "{dropped}");
    assert_eq!(daemon.events("notify_dropped").len(), 1);
    assert_secret(&[daemon]);
}

#[test]
fn another_address_counts_at_once_also_for_what_waits_and_one_that_is_gone_is_told_nothing() {
    let web = Web::start(|_| ok());
    let nowhere = format!("  hook: {{type: webhook, url: 'http://127.0.0.1:{}/S3CRET-PATH'}}\n", free_port());
    let gone = format!("  gone: {{type: webhook, url: 'http://127.0.0.1:{}/S3CRET-PATH'}}\n", free_port());
    let place = Place::new(&(nowhere + &gone), &failing("hook, gone"));
    let daemon = place.start("web-1");
    daemon.wait_for_job("run_finished", "nightly");
    place.write(&hook(&web), &failing("hook"));
    let replaced = daemon.wait_for_event("table_replaced");
    assert!(replaced["detail"].as_str().unwrap().contains("`notifiers` changed"), "{replaced}");
    sent(&daemon, "hook");
    assert_eq!(items(&web, "failure").len(), 1);
    let dropped = daemon.wait_for_event("notify_dropped");
    assert_eq!((&dropped["notifier"], &dropped["reason"]), (&"gone".into(), &"removed".into()), "{dropped}");
}

#[test]
fn certificates_proxies_and_redirects_are_as_of_http_jobs() {
    let authority = Authority::new();
    let secure = Web::secure(&authority, |_| ok());
    let other = Web::start(|_| ok());
    let elsewhere = other.url("/taken");
    let leading = Web::start(move |_| redirect(307, &elsewhere));
    let tunnel = secure.port;
    let proxy = Web::start(move |_| vec![Act::Send(b"HTTP/1.1 200 Connected\r\n\r\n".to_vec()), Act::Tunnel(tunnel)]);
    let url = format!("https://127.0.0.1:{}/S3CRET-PATH", secure.port);
    let ca = authority.file().display().to_string();
    let notifiers = format!(
        "  trusting: {{type: webhook, url: '{url}', caFile: {ca}, proxy: none}}\n  doubting: {{type: webhook, url: '{url}'}}\n  \
         through: {{type: webhook, url: '{url}', caFile: {ca}, proxy: 'http://127.0.0.1:{}'}}\n  \
         led: {{type: webhook, url: '{}'}}\n",
        proxy.port,
        leading.url("/S3CRET-PATH")
    );
    let place = Place::new(&notifiers, &failing("trusting, doubting, through, led"));
    let daemon = place.start("web-1");
    sent(&daemon, "trusting");
    sent(&daemon, "through");
    assert_eq!(proxy.seen()[0].line, format!("CONNECT 127.0.0.1:{} HTTP/1.1", secure.port));
    let doubt = failed(&daemon, "doubting");
    assert!(doubt["error"].as_str().unwrap().contains("UnknownIssuer"), "{doubt}");
    let led = failed(&daemon, "led");
    assert!(led["error"].as_str().unwrap().contains("307"), "{led}");
    // What is said is for the place that the table names.
    assert!(other.seen().is_empty());
    assert_secret(&[daemon]);
}

#[test]
fn an_address_that_is_not_there_is_said_without_it_and_is_read_again_at_the_next_try() {
    let web = Web::start(|_| ok());
    let place = Place::new("  hook: {type: webhook, url: 'http://127.0.0.1:9/'}\n", &failing("hook, never"));
    let file = place.path().join("url");
    let notifiers = format!(
        "  hook: {{type: webhook, url: {{fromFile: {}}}}}\n  never: {{type: slack, url: {{fromEnv: NO_SUCH_VARIABLE}}}}\n",
        file.display()
    );
    place.write(&notifiers, &failing("hook, never"));
    let daemon = place.start("web-1");
    daemon.wait_for_job("run_finished", "nightly");
    let tried = now() + millis(1300);
    until("the first try was made", || now() >= tried);
    std::fs::write(&file, web.url("/S3CRET-PATH\n")).unwrap();
    assert!(sent(&daemon, "hook")["attempts"].as_u64().unwrap() > 1);
    let error = failed(&daemon, "never")["error"].as_str().unwrap().to_owned();
    assert!(error.contains("`url`") && error.contains("NO_SUCH_VARIABLE"), "{error}");
    assert_secret(&[daemon]);
}
