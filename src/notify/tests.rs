//! Messages, word for word, and what may not be in them.

use super::*;
use crate::job::CommandSpec;
use crate::job::EnvValue;
use crate::job::JobName;
use crate::job::Program;
use crate::schedule::Schedule;
use crate::schedule::Zone;
use serde_json::Value;
use std::collections::BTreeMap;

/// All messages in all forms; `BLESS=1` writes them anew.
const GOLDEN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/messages.txt");

fn pagerduty() -> NotifierKind {
    NotifierKind::PagerDuty { routing_key: EnvValue::FromEnv("KEY".into()) }
}

fn kinds() -> [NotifierKind; 4] {
    [NotifierKind::Webhook, NotifierKind::Slack, pagerduty(), NotifierKind::Ping { start: true }]
}

fn sender() -> Sender {
    Sender { namespace: "shop".into(), replica: "web-1-7f3a".into() }
}

fn spec(name: &str) -> Arc<JobSpec> {
    let schedule = Schedule::parse("@daily", &Zone::utc(), name).unwrap();
    let command = CommandSpec::of(Program::Direct(vec!["true".into()]));
    Arc::new(JobSpec::of(JobName::new(name).unwrap(), schedule, command))
}

/// A job with everything that a message shows of one.
fn described(name: &str) -> Arc<JobSpec> {
    Arc::new(JobSpec {
        description: "Copies <orders> & \"more\".".into(),
        runbook_url: "https://wiki.example/a?b=1&c=<2>|3".into(),
        labels: BTreeMap::from([("team".into(), "shop & co".into()), ("tier".into(), "1".into())]),
        ..(*spec(name)).clone()
    })
}

fn letter(spec: &Arc<JobSpec>, about: About, facts: Facts) -> Arc<Letter> {
    let at = DateTime::from_timestamp_millis(1_772_330_412_345).unwrap();
    Arc::new(Letter { about, at, spec: Arc::clone(spec), facts })
}

fn of_run(name: &str) -> Facts {
    Facts {
        run_id: format!("{name}@2026-03-01T02:00:00Z"),
        scheduled_for: "2026-03-01T02:00:00Z".into(),
        trigger: "schedule",
        ..Facts::default()
    }
}

fn failed(name: &str) -> Arc<Letter> {
    let facts = Facts {
        attempts: Some(2),
        outcome: "failed",
        exit_code: Some(3),
        duration: Some(Duration::from_millis(12_345)),
        error: "no further attempt: its replica is stopping".into(),
        output_tail: "<b>reading</b> & writing\n```quoted```\nno space left\n".into(),
        ..of_run(name)
    };
    letter(&described(name), About::Told(Occasion::Failure), facts)
}

/// One of each kind.
fn letters() -> Vec<Arc<Letter>> {
    let (plain, name) = (spec("nightly"), "nightly");
    let told = |occasion, facts| letter(&plain, About::Told(occasion), facts);
    vec![
        letter(&plain, About::Start, of_run(name)),
        failed(name),
        told(
            Occasion::Recovery,
            Facts {
                outcome: "succeeded",
                failures: 3,
                missed: 1,
                failing_for: Some(Duration::from_secs(9000)),
                ..of_run(name)
            },
        ),
        told(Occasion::Missed, Facts { reason: "no_replica", ..of_run(name) }),
        told(
            Occasion::Missed,
            Facts {
                reason: "no_replica",
                scheduled_for: "2026-03-01T02:00:00Z".into(),
                through: "2026-03-03T02:00:00Z".into(),
                ticks: 3,
                ..Facts::default()
            },
        ),
        told(Occasion::Lost, Facts { outcome: "lost", replica: "web-2-1".into(), rerun: true, ..of_run(name) }),
        told(
            Occasion::Stale,
            Facts {
                last_success: "2026-02-27T02:00:00Z".into(),
                stale_after: Some(Duration::from_secs(26 * 3600)),
                ..Facts::default()
            },
        ),
        told(
            Occasion::Success,
            Facts {
                attempts: Some(1),
                outcome: "succeeded",
                exit_code: Some(0),
                duration: Some(Duration::from_millis(61_500)),
                ..of_run(name)
            },
        ),
    ]
}

fn shown(kind: &NotifierKind, message: &Message) -> String {
    let body = body(kind, message, (&sender(), "R0UTING"));
    match serde_json::from_str::<Value>(&body.text) {
        Ok(json) => serde_json::to_string_pretty(&json).unwrap(),
        Err(_) => body.text,
    }
}

#[test]
fn messages_are_these_word_for_word() {
    let mut all = String::new();
    for kind in kinds() {
        let singly = letters().into_iter().flat_map(|letter| group(&kind, vec![letter]));
        let many = (0..50).map(|n| failed(&format!("job-{n:02}"))).collect();
        let messages = singly.chain(group(&kind, many).into_iter().take(1));
        for message in messages {
            let id = message.id(&sender());
            all.push_str(&format!(
                "== {} {}: {id}\n{}\n",
                kind.as_str(),
                message.about.as_str(),
                shown(&kind, &message)
            ));
        }
    }
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(GOLDEN, &all).unwrap();
    }
    let wanted = std::fs::read_to_string(GOLDEN).unwrap_or_default();
    assert!(all == wanted, "{all}\n(BLESS=1 writes {GOLDEN} anew)");
}

#[test]
fn what_happens_at_once_is_one_message_that_names_the_first_and_counts_all() {
    let many: Vec<Arc<Letter>> = (0..50).map(|n| failed(&format!("job-{n:02}"))).collect();
    let [message] = &group(&NotifierKind::Webhook, many.clone())[..] else { panic!("more than one") };
    assert_eq!((message.letters.len(), message.count, message.jobs), (ITEMS_MOST, 50, 50));
    assert_eq!(message.summary(), "50 jobs failed: job-00, job-01, job-02, job-03, job-04 and 45 more");
    // Each has an incident, or a check, of its own.
    assert_eq!(group(&pagerduty(), many.clone()).len(), 50);
    assert_eq!(group(&NotifierKind::Ping { start: false }, many).len(), 50);
}

#[test]
fn what_is_over_when_it_is_told_says_so_in_every_form_and_its_resolution_closes_it() {
    let [message] = &mut group(&pagerduty(), vec![failed("a")])[..] else { panic!("not one") };
    let before = message.clone();
    message.mark(&[true]);
    assert_eq!(message.summary(), format!("{}; it has succeeded since", before.summary()));
    assert_eq!(message.id(&sender()), before.id(&sender()), "it is the same message");
    let item: Value = serde_json::from_str(&body(&NotifierKind::Webhook, message, (&sender(), "")).text).unwrap();
    assert_eq!(item["items"][0]["recovered"], true);
    for kind in kinds() {
        assert!(shown(&kind, message).contains("it has succeeded since"), "{}", kind.as_str());
    }
    let resolved = shown(&pagerduty(), &message.resolution());
    assert!(resolved.contains("resolve") && resolved.contains("onecron/shop/a"), "{resolved}");
    message.mark(&[false]);
    assert_eq!(*message, before, "it fails again");
}

#[test]
fn of_many_it_is_said_how_many_are_over() {
    let summary = |count: usize, over: usize| {
        let letters = (0..count).map(|n| failed(&format!("job-{n:02}"))).collect();
        let [message] = &mut group(&NotifierKind::Slack, letters)[..] else { panic!("more than one") };
        let over: Vec<bool> = (0..message.letters.len()).map(|n| n < over).collect();
        message.mark(&over);
        message.summary()
    };
    assert_eq!(summary(2, 0), "2 jobs failed: job-00, job-01");
    assert_eq!(summary(2, 1), "2 jobs failed: job-00, job-01; 1 has succeeded since");
    assert_eq!(summary(2, 2), "2 jobs failed: job-00, job-01; all have succeeded since");
    let names = "job-00, job-01, job-02, job-03, job-04";
    assert_eq!(
        summary(50, 20),
        format!("50 jobs failed: {names} and 45 more; of the first 20, 20 have succeeded since")
    );
}

#[test]
fn what_happens_to_a_job_is_told_in_its_order_also_where_things_of_a_kind_are_told_together() {
    let abouts = |kind: &NotifierKind, letters| {
        group(kind, letters).iter().map(|m| (m.about.as_str(), m.count)).collect::<Vec<_>>()
    };
    let recovered = letter(&spec("a"), About::Told(Occasion::Recovery), of_run("a"));
    let all = vec![failed("a"), recovered.clone(), failed("b"), failed("a")];
    assert_eq!(abouts(&NotifierKind::Slack, all.clone()), [("failure", 2), ("recovery", 1), ("failure", 1)]);
    assert_eq!(abouts(&pagerduty(), all.clone()), [("failure", 1), ("recovery", 1), ("failure", 1), ("failure", 1)]);
    // What comes later joins the later group.
    let more = [all, vec![failed("b"), recovered, failed("c")]].concat();
    let wanted = [("failure", 2), ("recovery", 1), ("failure", 3), ("recovery", 1)];
    assert_eq!(abouts(&NotifierKind::Slack, more.clone()), wanted);
    assert_eq!(group(&NotifierKind::Slack, more)[2].summary(), "3 jobs failed: a, b, c");
    // Another job's recovery parts nothing.
    let other = letter(&spec("z"), About::Told(Occasion::Recovery), of_run("z"));
    let all = vec![failed("a"), other, failed("b"), failed("a")];
    assert_eq!(abouts(&NotifierKind::Slack, all.clone()), [("failure", 3), ("recovery", 1)]);
    assert_eq!(group(&NotifierKind::Slack, all)[0].summary(), "3 runs of 2 jobs failed: a, b");
}

#[test]
fn a_recovery_resolves_the_incident_that_a_failure_triggered() {
    let event = |letter| {
        let [message] = &group(&pagerduty(), vec![letter])[..] else { panic!("not one") };
        let body = body(&pagerduty(), message, (&sender(), "R0UTING"));
        let event: Value = serde_json::from_str(&body.text).unwrap();
        (event["event_action"].as_str().unwrap().to_owned(), event["dedup_key"].as_str().unwrap().to_owned())
    };
    let key = "onecron/shop/nightly".to_owned();
    for (at, action) in [(1, "trigger"), (2, "resolve"), (3, "trigger"), (5, "trigger"), (6, "trigger"), (7, "resolve")]
    {
        assert_eq!(event(letters().remove(at)), (action.to_owned(), key.clone()), "{at}");
    }
}

#[test]
fn a_routing_key_is_in_the_body_for_pagerduty_and_nowhere_else() {
    for kind in kinds() {
        for letter in letters() {
            for message in group(&kind, vec![letter]) {
                let is_there = body(&kind, &message, (&sender(), "R0UTING")).text.contains("R0UTING");
                assert_eq!(is_there, matches!(kind, NotifierKind::PagerDuty { .. }));
                assert!(!format!("{}{}", message.id(&sender()), message.summary()).contains("R0UTING"));
            }
        }
    }
}

#[test]
fn slack_gets_no_text_that_means_something_there_and_no_block_that_is_too_long() {
    let long = Facts { error: "&".repeat(9000), output_tail: "<\u{e4}>\n".repeat(9000), ..of_run("a") };
    let long = letter(&described("a"), About::Told(Occasion::Failure), long);
    let many: Vec<Arc<Letter>> = (0..200).map(|_| Arc::clone(&long)).collect();
    for letters in [vec![Arc::clone(&long)], many] {
        let [message] = &group(&NotifierKind::Slack, letters)[..] else { panic!("not one") };
        let sent: Value = serde_json::from_str(&body(&NotifierKind::Slack, message, (&sender(), "")).text).unwrap();
        let blocks = sent["blocks"].as_array().unwrap();
        assert!(blocks.len() <= 50, "{}", blocks.len());
        for text in blocks.iter().filter_map(|block| block["text"]["text"].as_str()).chain(sent["text"].as_str()) {
            assert!(text.chars().count() <= 3000, "{}", text.len());
            let bare = text.replace("<https://wiki.example/a?b=1&amp;c=%3C2%3E%7C3|runbook>", "");
            assert!(!bare.contains(['<', '>']), "{bare}");
            let bare = bare.replace("&amp;", "").replace("&lt;", "").replace("&gt;", "");
            assert!(!bare.contains('&'), "{bare}");
        }
    }
}

#[test]
fn slack_gets_whole_links_and_whole_quotes_however_long_the_rest_is() {
    let sent = |letters| {
        let [message] = &group(&NotifierKind::Slack, letters)[..] else { panic!("not one") };
        let sent: Value = serde_json::from_str(&body(&NotifierKind::Slack, message, (&sender(), "")).text).unwrap();
        let blocks = sent["blocks"].as_array().unwrap().clone();
        blocks.iter().filter_map(|block| block["text"]["text"].as_str().map(str::to_owned)).collect::<Vec<_>>()
    };
    // The end of a block is in the link, where an address and an error are as long as they may be.
    for length in [1000, 1400, 1500, 2000] {
        let runbook_url = format!("https://wiki.example/{}", "&".repeat(length / 5));
        let spec = Arc::new(JobSpec { runbook_url, ..(*spec("a")).clone() });
        let facts = Facts { error: "&".repeat(300), ..of_run("a") };
        let failed = letter(&spec, About::Told(Occasion::Failure), facts);
        for count in [1, 10] {
            let texts = sent(vec![Arc::clone(&failed); count]);
            let named = texts.iter().map(|text| text.matches("*a* failed: &amp;").count()).sum::<usize>();
            assert_eq!(named, count, "each is named: {texts:?}");
            for text in texts {
                assert_eq!(text.matches('<').count(), text.matches('>').count(), "{length}: {text}");
            }
        }
    }
    for output in ["<".repeat(2000), "a".repeat(5000), "<ä&b>\n".repeat(900)] {
        let facts = Facts { output_tail: output, ..of_run("a") };
        let texts = sent(vec![letter(&spec("a"), About::Told(Occasion::Failure), facts)]);
        let quote = texts.last().unwrap();
        assert!(quote.starts_with("```\n") && quote.ends_with("\n```"), "{quote}");
        assert!(quote.chars().count() > 1000, "{}", quote.len());
    }
}

/// Of what happened to one job: what, to which job and tick, who says so, and where it stands what to do.
#[test]
fn each_message_to_people_says_job_tick_replica_and_runbook() {
    for kind in kinds() {
        let [message] = &group(&kind, vec![failed("a")])[..] else { panic!("not one") };
        let sent = body(&kind, message, (&sender(), "R0UTING")).text;
        for part in [
            "a failed: exit code 3",
            "a@2026-03-01T02:00:00Z",
            "web-1-7f3a",
            "https://wiki.example/a?b=1",
            "no space left",
        ] {
            assert!(sent.replace('*', "").contains(part), "{part} {}: {sent}", kind.as_str());
        }
    }
}

#[test]
fn a_line_among_many_says_which_run_it_is_about() {
    let [message] = &group(&NotifierKind::Slack, vec![failed("a"), failed("b")])[..] else { panic!("not one") };
    let sent = body(&NotifierKind::Slack, message, (&sender(), "")).text;
    assert!(sent.contains("`a@2026-03-01T02:00:00Z`") && sent.contains("`b@2026-03-01T02:00:00Z`"), "{sent}");
}

#[test]
fn a_ping_goes_to_the_address_of_its_job_and_of_what_happened() {
    let of = |written: &str, occasion| ping_address(written, "nightly", About::Told(occasion));
    assert_eq!(of("https://hc.example/key/{job}\n", Occasion::Success), "https://hc.example/key/nightly");
    assert_eq!(of("https://hc.example/0123", Occasion::Failure), "https://hc.example/0123/fail");
    assert_eq!(of("https://hc.example/0123/?create=1", Occasion::Missed), "https://hc.example/0123/fail?create=1");
    assert_eq!(of("https://hc.example/0123?a=b", Occasion::Recovery), "https://hc.example/0123?a=b");
    assert_eq!(ping_address("https://hc.example/0123", "nightly", About::Start), "https://hc.example/0123/start");
}

#[test]
fn lengths_of_time_have_two_units_at_most() {
    for (ms, text) in [
        (0, "0s"),
        (450, "450ms"),
        (1_999, "1s"),
        (61_500, "1m1s"),
        (9_000_000, "2h30m"),
        (93_600_000, "1d2h"),
        (86_400_000, "1d"),
    ] {
        assert_eq!(summary::length(Duration::from_millis(ms)), text);
    }
}
