//! What is told of one daemon's jobs.

use super::*;
use crate::processes::until;
use crate::support::client::get;
use crate::support::daemon::LIMIT;
use crate::support::web::ok;
use nix::sys::signal::Signal;

/// Fails for so many runs, and succeeds from then on. Says something that is to be hidden, and something that is not.
fn failing(times: u32) -> String {
    format!(
        "n=$(cat count 2>/dev/null || echo 0); echo $((n+1)) > count; echo password hunter2 and visible3; test $n -ge {times}"
    )
}

#[test]
fn failures_a_recovery_and_successes_are_told_once_each_and_hide_what_is_to_be_hidden() {
    let web = Web::start(|_| ok());
    let notifiers = format!(
        "  hook: {{type: webhook, url: '{}', headers: {{X-Token: {{fromFile: {}}}}}}}\n",
        web.url("/S3CRET-PATH"),
        "FOLDER/token"
    );
    let job = format!(
        "  - name: nightly\n    schedule: '*/2 * * * * *'\n    command: '{}'\n    description: Copies orders.\n    \
         labels: {{team: shop}}\n    runbookUrl: https://wiki.example/nightly\n    \
         notify: {{onFailure: [hook], onRecovery: [hook], onSuccess: [hook]}}\n",
        failing(2)
    );
    let place = Place::new(&notifiers, &job);
    place.write(&notifiers.replace("FOLDER", &place.path().display().to_string()), &job);
    std::fs::write(place.path().join("token"), "S3CRET-HEADER\n").unwrap();
    let mut daemon = place.launch("web-1").arg("--listen").arg("127.0.0.1:0").start();
    let address = daemon.wait_for_event("http_listening")["address"].as_str().unwrap().to_owned();
    until("two successes are told", || items(&web, "success").len() >= 2);
    let shown = |path: &str| get(&address, path).body;
    until("the page knows the job's runs", || shown("/jobs/nightly").contains("https://wiki.example/nightly"));
    let all = ["/", "/jobs/nightly", "/api/v1/config", "/api/v1/status", "/metrics"].map(shown).concat();
    assert!(all.contains("onecron_notifications_total{notifier=\"hook\",result=\"failed\"} 0"), "{all}");
    assert!(all.contains("\"onFailure\":[\"hook\"]"), "{all}");
    SECRETS.iter().for_each(|secret| assert!(!all.contains(secret), "{secret} in {all}"));
    daemon.signal(Signal::SIGTERM);
    assert_eq!(daemon.wait_for_exit(), 0);

    let failures = items(&web, "failure");
    let first = &failures[0];
    assert_eq!(failures.len(), 2, "{failures:?}");
    assert_eq!(
        (&first["job"], &first["outcome"], &first["exit_code"]),
        (&"nightly".into(), &"failed".into(), &1.into())
    );
    assert_eq!((&first["description"], &first["labels"]["team"]), (&"Copies orders.".into(), &"shop".into()));
    assert_eq!(first["runbook_url"], "https://wiki.example/nightly");
    assert_eq!(first["output_tail"], "password [redacted] and visible3\n");
    let recoveries = items(&web, "recovery");
    assert_eq!(recoveries.len(), 1, "{recoveries:?}");
    assert_eq!(recoveries[0]["failures"], 2);
    let said = daemon.events("job_recovered");
    assert_eq!((said.len(), &said[0]["failures"]), (1, &2.into()), "{said:?}");
    assert!(said[0]["failing_for_seconds"].as_f64().unwrap() >= 1.0, "{said:?}");

    // Every run of the log is told, once.
    let runs = |outcome: &str| {
        let lines = daemon.events("run_finished").into_iter().filter(|line| line["outcome"] == outcome);
        lines.map(|line| line["run_id"].clone()).collect::<Vec<_>>()
    };
    let told = |event: &str| items(&web, event).iter().map(|item| item["run_id"].clone()).collect::<Vec<_>>();
    assert_eq!((told("failure"), told("success")), (runs("failed"), runs("succeeded")));
    for line in daemon.events("run_finished") {
        let runbook = (line["outcome"] == "failed").then(|| Value::from("https://wiki.example/nightly"));
        assert_eq!(line.get("runbook_url").cloned(), runbook, "{line}");
    }
    let envelope = &bodies(&web)[0];
    assert_eq!((&envelope["version"], &envelope["namespace"]), (&1.into(), &"default".into()));
    let seen = &web.seen()[0];
    assert_eq!(seen.header("X-Token"), "S3CRET-HEADER");
    assert_eq!(seen.header("Content-Type"), "application/json");
    assert_eq!(seen.header("Idempotency-Key"), envelope["id"].as_str().unwrap());
    assert_secret(&[daemon]);
}

#[test]
fn slack_pagerduty_and_a_ping_are_told_in_their_own_words() {
    let web = Web::start(|_| ok());
    let notifiers = format!(
        "  chat: {{type: slack, url: '{}'}}\n  pager: {{type: pagerduty, url: '{}', routingKey: {{fromEnv: PD_KEY}}}}\n  \
         uptime: {{type: ping, url: '{}', start: true}}\n",
        web.url("/S3CRET-PATH/slack"),
        web.url("/S3CRET-PATH/pager"),
        web.url("/S3CRET-PATH/ping/{job}")
    );
    let notify = "{onFailure: [chat, pager, uptime], onRecovery: [chat, pager], onSuccess: [uptime]}";
    let job =
        format!("  - {{name: nightly, schedule: '*/2 * * * * *', command: '{}', notify: {notify}}}\n", failing(1));
    let place = Place::new(&notifiers, &job);
    let daemon = place.launch("web-1").env("PD_KEY", "S3CRET-KEY").start();
    let to = |path: &str| {
        let path = format!("POST /S3CRET-PATH/{path} ");
        web.seen().into_iter().filter(|seen| seen.line.starts_with(&path)).collect::<Vec<_>>()
    };
    until("all are told of the recovery", || {
        to("slack").len() >= 2 && to("pager").len() >= 2 && !to("ping/nightly").is_empty()
    });
    let chat: Vec<Value> = to("slack").iter().map(body).collect();
    assert_eq!(chat[0]["text"], "nightly failed: exit code 1");
    assert!(chat[0]["blocks"].to_string().contains("password [redacted] and visible3"), "{}", chat[0]);
    assert!(chat[1]["text"].as_str().unwrap().starts_with("nightly succeeds again after 1 failure"), "{}", chat[1]);
    let pager: Vec<Value> = to("pager").iter().map(body).collect();
    let found =
        |at: usize| ["event_action", "dedup_key", "routing_key"].map(|key| pager[at][key].as_str().unwrap().to_owned());
    assert_eq!(found(0), ["trigger", "onecron/default/nightly", "S3CRET-KEY"]);
    assert_eq!(found(1), ["resolve", "onecron/default/nightly", "S3CRET-KEY"]);
    assert_eq!(pager[0]["payload"]["summary"], "nightly failed: exit code 1");
    assert!(!to("ping/nightly/start").is_empty() && to("ping/nightly/fail").len() == 1);
    assert!(to("ping/nightly/fail")[0].body.contains("password [redacted] and visible3"));
    let sent = daemon.wait_for(|line| line["event"] == "notify_sent" && line["notifier"] == "pager", LIMIT);
    assert_eq!((&sent["type"], &sent["status"], &sent["attempts"]), (&"pagerduty".into(), &200.into(), &1.into()));
    assert_secret(&[daemon]);
}

#[test]
fn fifty_jobs_that_fail_at_once_are_a_few_messages_that_name_some_and_count_all() {
    let web = Web::start(|_| ok());
    let job = |n: usize| {
        format!(
            "  - {{name: job-{n:02}, schedule: '*/10 * * * * *', command: [/bin/false], notify: {{onFailure: [hook]}}}}\n"
        )
    };
    let place = Place::new(&hook(&web), &(0..50).map(job).collect::<String>());
    let mut daemon = place.start("web-1");
    let wanted = |line: &Value| line["event"] == "run_finished" && line["outcome"] == "failed";
    daemon.wait_for_many(50, wanted, LIMIT);
    daemon.signal(Signal::SIGTERM);
    assert_eq!(daemon.wait_for_exit(), 0);
    let failed = daemon.events("run_finished").len();
    let bodies = bodies(&web);
    let counted: u64 = bodies.iter().map(|body| body["count"].as_u64().unwrap()).sum();
    assert_eq!(counted, failed as u64, "{bodies:?}");
    assert!(bodies.len() <= failed / 5, "{} messages for {failed} failures", bodies.len());
    for body in &bodies {
        let (count, items) = (body["count"].as_u64().unwrap(), body["items"].as_array().unwrap().len());
        assert_eq!(items as u64, count.min(20), "{body}");
        assert!(count < 2 || body["summary"].as_str().unwrap().contains(" jobs failed: job-"), "{body}");
    }
}

#[test]
fn what_somebody_stopped_and_what_nobody_wants_to_know_is_told_to_nobody() {
    let web = Web::start(|_| ok());
    let every = "{onSuccess: [hook], onFailure: [hook], onRecovery: [hook], onMissed: [hook], onLost: [hook]}";
    let jobs = format!(
        "  - {{name: quiet, schedule: '*/2 * * * * *', command: [/bin/false], notify: {{onSuccess: [hook], onLost: [hook]}}}}\n  \
         - {{name: replaced, schedule: '*/2 * * * * *', command: [sleep, '600'], concurrencyPolicy: Replace, notify: {every}}}\n  \
         - {{name: loud, schedule: '*/2 * * * * *', command: [/bin/false], notify: {{onFailure: [hook]}}}}\n"
    );
    let place = Place::new(&hook(&web), &jobs);
    let daemon = place.start("web-1");
    let replaced = |line: &Value| line["event"] == "run_finished" && line["outcome"] == "replaced";
    let last = daemon.wait_for_many(2, replaced, LIMIT).pop().unwrap();
    daemon.wait_for_many(2, |line| line["event"] == "run_finished" && line["job"] == "quiet", LIMIT);
    // Things are told in their order: what could be told of those is told before what was later.
    let is_later = |item: &Value| item["at"].as_str() > last["timestamp"].as_str();
    until("something later is told", || items(&web, "failure").iter().any(is_later));
    let told = bodies(&web).into_iter().flat_map(|body| body["items"].as_array().unwrap().clone());
    let jobs: Vec<Value> = told.map(|item| item["job"].clone()).filter(|job| job != "loud").collect();
    assert_eq!(jobs, Vec::<Value>::new());
}
