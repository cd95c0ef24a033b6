//! What people ask for through the store, of three daemons that they do not speak to.

use super::Entry;
use super::Fleet;
use super::FleetStore;
use super::entry;
use crate::processes;
use crate::support::daemon::LIMIT;
use crate::support::daemon::Launch;
use nix::sys::signal::Signal;
use onecron::job::JobName;
use serde_json::Value;
use std::time::Duration;

const SELDOM: &str = "schedule: '0 0 1 1 *'";

/// Runs a command of the program against the fleet's store, as `ada`: its exit code, and what it says.
pub fn ask(fleet: &Fleet, words: &str) -> (i32, String, String) {
    let launch = Launch::new(&words.split(' ').collect::<Vec<_>>()).folder(fleet.table.folder.path());
    let output = launch.env("ONECRON_STORE", &fleet.store.url).env("ONECRON_BY", "ada").output();
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap().trim().to_owned();
    (output.status.code().unwrap(), text(&output.stdout), text(&output.stderr))
}

/// The same of one that does what it is told.
pub fn told(fleet: &Fleet, words: &str) -> String {
    let (code, output, errors) = ask(fleet, words);
    assert_eq!(code, 0, "{words}: {output} {errors}");
    output
}

fn lines(fleet: &Fleet, event: &str, run: &str) -> Vec<Value> {
    let all = fleet.daemons.iter().flat_map(|daemon| daemon.events(event));
    all.filter(|line| line["run_id"] == run).collect()
}

#[test]
fn a_run_by_hand_runs_once_and_two_orders_with_one_key_are_one() {
    let stores = [FleetStore::redis(), Some(FleetStore::sqlite())];
    for store in stores.into_iter().flatten() {
        let say = "echo $ONECRON_TRIGGER $ONECRON_SCHEDULED_FOR > told";
        let jobs = format!("  - {{name: hand, {SELDOM}, command: '{say}; {}'}}\n", entry("began"));
        let fleet = Fleet::start(&jobs, store, 3);
        let run = told(&fleet, "trigger hand --key nightly --at 2026-01-02T03:04:05Z");
        assert_eq!(told(&fleet, "trigger hand --key nightly --wait=30s").lines().next(), Some(run.as_str()));
        let [Entry { tick, token, .. }] = &fleet.entries("began", "hand")[..] else { panic!("{:?}", fleet.ledger()) };
        assert!(tick.is_manual() && run == format!("hand@{tick}"), "{run}");
        assert_eq!(token & (1 << 19), 1 << 19);
        let words = std::fs::read_to_string(fleet.table.folder.path().join("told")).unwrap();
        assert_eq!(words.trim(), "manual 2026-01-02T03:04:05Z");
        for daemon in &fleet.daemons {
            let requested = daemon.wait_for_job("run_requested", "hand");
            assert_eq!((&requested["run_id"], &requested["by"]), (&run.as_str().into(), &"ada".into()));
        }
        processes::until("the others have said who has it", || lines(&fleet, "run_skipped", &run).len() == 2);
        for line in lines(&fleet, "run_skipped", &run) {
            assert_eq!(line["reason"], "claimed_by_other", "{line}");
        }
        let [started] = &lines(&fleet, "run_started", &run)[..] else { panic!("it was started once") };
        assert_eq!((&started["token"], &started["trigger"]), (&(*token).into(), &"manual".into()));
        let (code, _, errors) = ask(&fleet, "trigger hand --at 9999-01-01T00:00:00Z");
        assert!(code == 3 && errors.contains("9999-01-01T00:00:00Z is yet to come"), "{code}: {errors}");
        let second = told(&fleet, "trigger hand --wait=30s");
        assert!(second.ends_with("web-1") || second.contains("succeeded after"), "{second}");
        let tokens: Vec<u64> = fleet.entries("began", "hand").iter().map(|entry| entry.token).collect();
        assert!(tokens.len() == 2 && tokens[0] < tokens[1], "{tokens:?}");
    }
}

#[test]
fn orders_that_are_found_together_run_one_after_the_other() {
    let Some(store) = FleetStore::redis() else { return };
    let jobs = format!("  - {{name: hand, {SELDOM}, command: '{}; sleep 0.3'}}\n", entry("began"));
    let fleet = Fleet::start(&jobs, store, 3);
    let ordered: Vec<String> = (0..3).map(|_| told(&fleet, "trigger hand")).collect();
    for run in &ordered {
        processes::until("it has run", || lines(&fleet, "run_finished", run).len() == 1);
        assert_eq!(lines(&fleet, "run_finished", run)[0]["outcome"], "succeeded", "{run}");
    }
    let began: Vec<String> =
        fleet.entries("began", "hand").iter().map(|entry| format!("hand@{}", entry.tick)).collect();
    assert_eq!(began, ordered);
}

#[test]
fn a_run_is_cancelled_wherever_it_is() {
    let Some(store) = FleetStore::redis() else { return };
    let jobs = format!("  - {{name: long, {SELDOM}, command: '{}; exec sleep 300'}}\n", entry("began"));
    let fleet = Fleet::start(&jobs, store, 3);
    let run = told(&fleet, "trigger long");
    let began = fleet.wait_for_entry("began", "long");
    let answer = told(&fleet, &format!("cancel {run} --wait=20s -o json"));
    let answer: Value = serde_json::from_str(&answer).unwrap();
    assert_eq!((&answer["outcome"], &answer["holder"]), (&"cancelled".into(), &began.replica.as_str().into()));
    assert!(!processes::is_alive(began.pid));
    let owner = &fleet.daemons[fleet.position(&began.replica)];
    assert_eq!(owner.wait_for_job("run_cancelled", "long")["by"], "ada");
    assert_eq!(owner.wait_for_job("run_stopping", "long")["cause"], "cancelled");
    let (code, _, errors) = ask(&fleet, &format!("cancel {run}"));
    assert_eq!(code, 3, "{errors}");
    assert!(errors.contains("is over: cancelled"), "{errors}");
}

#[test]
fn a_run_that_nobody_has_begun_is_cancelled_and_one_that_nobody_begins_in_time_is_missed() {
    let jobs = format!(
        "  - {{name: gone, {SELDOM}, startingDeadline: 1m, command: '{began}'}}\n  - {{name: late, {SELDOM}, \
         startingDeadline: 2s, command: '{began}'}}\n",
        began = entry("began")
    );
    let mut fleet = Fleet::start(&jobs, FleetStore::sqlite(), 1);
    let mut only = fleet.daemons.remove(0);
    only.signal(Signal::SIGTERM);
    assert_eq!(only.wait_for_exit(), 0);
    let (code, cancelled, errors) = ask(&fleet, "trigger gone");
    assert_eq!(code, 0);
    assert!(errors.contains("no replica is there"), "{errors}");
    assert!(told(&fleet, &format!("cancel {cancelled} --wait")).ends_with("cancelled, nobody had it yet"));
    assert!(told(&fleet, &format!("show {cancelled}")).contains("cancelled"), "at once, and not when somebody looks");
    assert_eq!(ask(&fleet, &format!("cancel {cancelled}")).0, 3, "it is over");
    let (_, late, _) = ask(&fleet, "trigger late");
    let (code, _, errors) = ask(&fleet, &format!("cancel {late}x"));
    assert_eq!(code, 2, "{errors}");
    let (_, answer, errors) = ask(&fleet, "trigger late --key k --wait=3s");
    assert!(errors.contains("is not over after 3s: nobody has taken it"), "{answer} {errors}");
    let daemon = fleet.launch(1).start();
    let ends = |line: &Value, run: &str| line["run_id"] == run;
    let missed = daemon.wait_for(|line| line["event"] == "run_missed" && ends(line, &late), LIMIT);
    assert_eq!(missed["reason"], "no_replica");
    assert!(fleet.ledger().is_empty());
}

#[test]
fn a_paused_job_is_not_started_until_it_is_resumed() {
    let Some(store) = FleetStore::redis() else { return };
    let job = |name| {
        let every = "schedule: '* * * * * *', startingDeadline: 2s";
        format!("  - {{name: {name}, {every}, command: '{}'}}\n", entry("began"))
    };
    let fleet = Fleet::start(&(job("often") + &job("other")), store, 3);
    fleet.wait_for_entry("began", "often");
    assert_eq!(told(&fleet, "pause often --reason moving"), "paused: often");
    for daemon in &fleet.daemons {
        let paused = daemon.wait_for_job("job_paused", "often");
        assert_eq!((&paused["by"], &paused["reason"]), (&"ada".into(), &"moving".into()));
        daemon.wait_for(|line| line["job"] == "often" && line["reason"] == "paused", LIMIT);
    }
    let (before, others) = (fleet.entries("began", "often").len(), fleet.entries("began", "other").len());
    let (code, _, errors) = ask(&fleet, "trigger often");
    assert!(
        code == 3 && errors.contains("paused, by ada (moving)") && errors.contains("onecron resume often"),
        "{errors}"
    );
    processes::until("another job goes on", || fleet.entries("began", "other").len() > others + 2);
    assert_eq!(fleet.entries("began", "often").len(), before, "nothing is started");
    let by_hand = told(&fleet, "trigger often --force --wait=20s");
    assert!(by_hand.contains("succeeded"), "{by_hand}");
    assert_eq!(told(&fleet, "resume often"), "goes on: often");
    processes::until("it goes on", || fleet.entries("began", "often").len() > before + 3);
    fleet.daemons.iter().for_each(|daemon| drop(daemon.wait_for_job("job_resumed", "often")));
    let store = crate::support::bench::open(&fleet.store.url, "default");
    let runtime = tokio::runtime::Runtime::new().unwrap();
    processes::until("the ticks of the pause are recorded", || {
        let history = runtime.block_on(store.history(&JobName::new("often").unwrap(), 200)).unwrap();
        history.iter().any(|entry| (entry.outcome.as_str(), entry.reason.as_str()) == ("skipped", "paused"))
    });
}

#[test]
fn all_jobs_are_paused_also_those_that_come_later() {
    let Some(store) = FleetStore::redis() else { return };
    let job = |name| format!("  - {{name: {name}, schedule: '* * * * * *', command: '{}'}}\n", entry("began"));
    let mut fleet = Fleet::start(&job("often"), store, 2);
    fleet.wait_for_entry("began", "often");
    told(&fleet, "pause --all --reason moving");
    fleet.daemons.iter().for_each(|daemon| drop(daemon.wait_for_event("all_paused")));
    let path = fleet.table.folder.path().join("jobs.yaml");
    let table = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, table + &job("later")).unwrap();
    let third = fleet.launch(3).start();
    third.wait_for_event("all_paused");
    third.wait_for(|line| line["job"] == "later" && line["reason"] == "paused", LIMIT);
    fleet.daemons.push(third);
    assert_eq!(ask(&fleet, "resume often").0, 3, "it is still paused with all");
    let (code, _, errors) = ask(&fleet, "trigger often");
    assert!(code == 3 && errors.contains("onecron resume --all"), "{errors}");
    let before = fleet.entries("began", "often").len();
    let third = &fleet.daemons[2];
    let skips = |line: &Value| line["job"] == "often" && line["reason"] == "paused";
    third.wait_for_many(3, skips, LIMIT);
    assert_eq!(fleet.entries("began", "often").len(), before);
    assert_eq!(fleet.entries("began", "later"), []);
    told(&fleet, "resume --all");
    fleet.wait_for_entry("began", "later");
    let goes_on = || fleet.entries("began", "often").len() > before + 1;
    processes::until_limit("the others go on", Duration::from_secs(20), goes_on);
    fleet.daemons.iter().for_each(|daemon| drop(daemon.wait_for_event("all_resumed")));
}
