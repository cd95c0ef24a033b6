//! What people read of a fleet with the program's commands: no daemon is asked.

use super::Fleet;
use super::FleetStore;
use super::orders::ask;
use super::orders::told;
use super::wall;
use crate::processes;
use chrono::DateTime;
use nix::sys::signal::Signal;
use serde_json::Value;
use std::time::Duration;

const JOBS: &str = "  - {name: good, schedule: '* * * * * *', command: 'echo fine'}\n  \
                    - {name: bad, schedule: '* * * * * *', command: 'echo oh no; exit 3'}\n  \
                    - {name: seldom, schedule: '0 0 1 1 *', command: 'true'}\n";

fn json(fleet: &Fleet, words: &str) -> Value {
    serde_json::from_str(&told(fleet, &format!("{words} -o json"))).unwrap()
}

#[test]
fn the_commands_show_what_the_store_knows() {
    let stores = [FleetStore::redis(), Some(FleetStore::sqlite())];
    for store in stores.into_iter().flatten() {
        let fleet = Fleet::start(JOBS, store, 2);
        processes::until("both have ended a few times", || {
            ["good", "bad"].into_iter().all(|job| fleet.history(job).iter().filter(|run| run.start > 0).count() >= 3)
        });
        let failed = json(&fleet, "runs bad --failed -n 2");
        let run = failed[0]["run_id"].as_str().unwrap();
        assert_eq!((failed.as_array().unwrap().len(), &failed[0]["outcome"]), (2, &"failed".into()));
        let shown = json(&fleet, &format!("show {run}"));
        assert_eq!((&shown["exit_code"], &shown["output_tail"]), (&3.into(), &"oh no\n".into()), "{shown}");
        assert!(told(&fleet, &format!("show {run}")).contains("the end of its output\noh no"));
        let (job, tick) = run.split_once('@').unwrap();
        let why = told(&fleet, &format!("why {job} --at {tick}"));
        assert!(why.starts_with(run) && why.contains("failed, exit code 3"), "{why}");

        let status = json(&fleet, "status");
        let names = |list: &Value| list.as_array().unwrap().iter().map(|one| one["name"].clone()).collect::<Vec<_>>();
        let replicas: Vec<Value> = fleet.daemons.iter().map(|daemon| daemon.replica().into()).collect();
        assert_eq!(names(&status["replicas"]), replicas);
        assert_eq!(names(&status["jobs"]), ["bad", "good", "seldom"]);
        assert!(status["jobs"][0]["consecutive_failures"].as_u64().unwrap() >= 3, "{status}");
        assert_eq!(status["jobs"][2]["last_runs"], Value::Array(Vec::new()));
        let text = told(&fleet, "status");
        assert!(text.starts_with("1 failing of 3 jobs; 2 replicas are there"), "{text}");
        assert_eq!(ask(&fleet, "status --check").0, 3);
        assert_eq!(names(&json(&fleet, "jobs --failed")), ["bad"]);
        assert_eq!(json(&fleet, "runs seldom"), Value::Array(Vec::new()));
        assert!(json(&fleet, "runs --since 2000-01-01T00:00:00Z -n 1000").as_array().unwrap().len() >= 6);
        let checks = json(&fleet, "doctor --jobs jobs.yaml");
        let of = |check: &str| checks.as_array().unwrap().iter().find(|one| one["check"] == check).cloned().unwrap();
        assert_eq!((&of("store")["health"], &of("clock")["health"]), (&"good".into(), &"good".into()), "{checks}");
        assert_eq!(of("fleet")["found"], "2 replicas are there, 3 jobs");
        let (code, _, errors) = ask(&fleet, "runs goo");
        assert!(code == 1 && errors.contains("did you mean `good`?"), "{errors}");
        let (code, _, errors) = ask(&fleet, "show bad@2001-01-01T00:00:00Z");
        assert!(code == 1 && errors.contains("knows no run"), "{errors}");
    }
}

#[test]
fn a_job_that_no_replica_has_any_more_is_told_as_gone() {
    let keep = "  - {name: stays, schedule: '0 0 1 1 *', command: 'true'}\n";
    let both = format!("{keep}  - {{name: leaves, schedule: '* * * * * *', command: 'true'}}\n");
    let mut fleet = Fleet::start(&both, FleetStore::sqlite(), 1);
    processes::until("it has run", || !fleet.history("leaves").is_empty());
    let mut only = fleet.daemons.remove(0);
    only.signal(Signal::SIGTERM);
    assert_eq!(only.wait_for_exit(), 0);
    std::fs::write(fleet.table.path(), format!("scheduler: {{lockLease: 5s}}\njobs:\n{keep}")).unwrap();
    // Its last registration must be older than the table by more than replicas take to register.
    let registered_at = json(&fleet, "jobs")[0]["registered_at"].as_str().unwrap().to_owned();
    let registered_at = DateTime::parse_from_rfc3339(&registered_at).unwrap().timestamp();
    processes::until("six seconds have passed", || wall() > registered_at + 6);
    let daemon = fleet.launch(2).start();
    fleet.daemons.push(daemon);
    let limit = Duration::from_secs(60);
    processes::until_limit("the job is gone", limit, || json(&fleet, "jobs")[0]["state"] == "gone");
    let jobs = json(&fleet, "jobs");
    assert_eq!((&jobs[0]["name"], &jobs[0]["next"]), (&"leaves".into(), &Value::Array(Vec::new())), "{jobs}");
    assert_eq!(jobs[1]["state"], "active");
    assert!(told(&fleet, "why leaves").contains("no replica that is there has the job in its table"));
    assert!(told(&fleet, "status").contains("leaves  gone"));
    let (code, run, errors) = ask(&fleet, "trigger leaves");
    assert!(code == 0 && errors.contains("has the job in its table"), "{errors}");
    assert!(told(&fleet, &format!("cancel {run}")).ends_with("cancelled, nobody had it yet"));
}
