//! Replicas that differ: other tables, other versions' records, jobs that are in no table any more.

use super::Fleet;
use super::FleetStore;
use super::entry;
use crate::processes;
use crate::support::daemon::Daemon;
use crate::support::daemon::Launch;
use crate::support::daemon::Table;
use nix::sys::signal::Signal;
use onecron::store::Store;
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(60);

fn job(name: &str, schedule: &str, command: &str) -> String {
    format!("  - name: {name}\n    schedule: \"{schedule}\"\n    command: {command}\n")
}

/// A second table on the fleet's store, and a daemon that has it. The table's folder lives as long.
fn other_daemon(fleet: &Fleet, jobs: &str) -> (Table, Daemon) {
    let table = Table::new(jobs);
    let arguments = ["run", "--jobs", &table.path(), "--store", &fleet.store.url, "--instance", "odd-1"];
    let daemon = Launch::new(&arguments).folder(fleet.table.folder.path()).start();
    daemon.wait_for_event("daemon_ready");
    (table, daemon)
}

#[test]
fn two_tables_are_told_once_by_each_and_agreement_when_one_is_gone() {
    let Some(store) = FleetStore::redis() else { return };
    let fleet = Fleet::start(&job("same", "@yearly", "'true'"), store, 2);
    let (_table, mut odd) = other_daemon(&fleet, &job("elsewhere", "@yearly", "'true'"));
    let told = odd.wait_for(|line| line["event"] == "table_disagrees", LIMIT);
    for daemon in &fleet.daemons {
        let line = daemon.wait_for(|line| line["event"] == "table_disagrees", LIMIT);
        assert_eq!((line["level"].as_str(), line["differs"].as_str()), (Some("info"), Some("table")), "{line}");
        assert_eq!(line["others"].as_str(), Some(odd.replica().as_str()));
        let detail = line["detail"].as_str().unwrap();
        assert!(detail.contains("(`elsewhere`)") && detail.contains("`--namespace`"), "another deployment: {detail}");
    }
    assert!(told["others"].as_str().is_some_and(|others| !others.is_empty()), "{told}");
    odd.signal(Signal::SIGTERM);
    assert_eq!(odd.wait_for_exit(), 0);
    for daemon in &fleet.daemons {
        daemon.wait_for(|line| line["event"] == "table_agrees", LIMIT);
        assert_eq!(daemon.events("table_disagrees").len(), 1);
    }
    assert_eq!(odd.events("table_disagrees").len(), 1);
    assert!(fleet.daemons.iter().all(|daemon| daemon.events("store_unsafe").iter().all(|l| l["check"] != "presence")));
}

/// Nobody else has ever asked about it, and nobody has it in a table.
#[test]
fn a_dead_replicas_run_of_a_job_that_is_in_no_other_table_is_lost_and_closed() {
    let Some(store) = FleetStore::redis() else { return };
    let fleet = Fleet::start(&job("same", "@yearly", "'true'"), store, 1);
    let command = format!("\n      - sh\n      - -c\n      - {}; exec sleep 600", entry("began"));
    let lonely = format!("{}    terminationGracePeriod: 1s\n", job("lonely", "*/5 * * * * *", &command));
    let (_table, mut odd) = other_daemon(&fleet, &lonely);
    let started = odd.wait_for(|line| line["event"] == "run_started", LIMIT);
    odd.signal(Signal::SIGKILL);
    odd.wait_for_exit();
    let lost = fleet.daemons[0].wait_for(|line| line["event"] == "run_lost", LIMIT);
    assert_eq!((&lost["run_id"], &lost["holder"]), (&started["run_id"], &started["replica"]));
    let store: Arc<dyn Store> = crate::support::bench::open(&fleet.store.url, "default");
    let runtime = tokio::runtime::Runtime::new().unwrap();
    processes::until_limit("it is closed", LIMIT, || {
        let jobs = runtime.block_on(store.jobs()).unwrap();
        jobs.iter().any(|(name, record)| name.as_str() == "lonely" && record.open.is_empty() && record.slot.is_none())
    });
}

/// What a newer version might leave behind: additions in one job's records, another form of another's.
#[test]
fn additions_of_a_newer_version_survive_and_a_newer_form_stops_its_own_job_only() {
    let Some(store) = FleetStore::redis() else { return };
    let jobs = job("fine", "*/2 * * * * *", &entry("ran")) + &job("newer", "*/2 * * * * *", &entry("ran"));
    let mut fleet = Fleet::start(&jobs, store, 1);
    fleet.wait_for_entry("ran", "fine");
    fleet.wait_for_entry("ran", "newer");
    let mut first = fleet.daemons.remove(0);
    first.signal(Signal::SIGTERM);
    assert_eq!(first.wait_for_exit(), 0);
    let server = fleet.store.server.as_ref().unwrap();
    for job in ["fine", "newer"] {
        server.command(&format!("HSET onecron:default:{{{job}}}:job colour blue"));
    }
    server.command("HSET onecron:default:{newer}:job format 2");
    let before = server.command("HGETALL onecron:default:{newer}:job");
    let ran = fleet.entries("ran", "newer").len();
    let daemon = fleet.launch(2).start();
    let finished = |line: &Value| line["event"] == "run_finished" && line["job"] == "fine";
    daemon.wait_for_many(4, finished, LIMIT);
    let unreadable = daemon.events("job_unreadable");
    assert_eq!(unreadable.len(), 1, "{unreadable:?}");
    assert_eq!((unreadable[0]["job"].as_str(), unreadable[0]["format"].as_i64()), (Some("newer"), Some(2)));
    let skipped = |line: &Value| line["event"] == "run_skipped" && line["reason"] == "record_unreadable";
    let skipped = daemon.wait_for(skipped, LIMIT);
    assert_eq!((skipped["job"].as_str(), skipped["level"].as_str()), (Some("newer"), Some("warn")));
    assert!(daemon.events("store_lost").is_empty());
    assert_eq!(fleet.entries("ran", "newer").len(), ran);
    assert_eq!(server.command("HGETALL onecron:default:{newer}:job"), before, "left as it was");
    assert_eq!(server.command("HGET onecron:default:{fine}:job colour"), "$4\r\nblue\r\n");
}

/// All replicas were stopped, and come back with another schedule when ticks of the former one are over.
#[test]
fn ticks_of_a_schedule_that_changed_while_nobody_was_up_have_one_record_and_one_line_each() {
    let Some(store) = FleetStore::redis() else { return };
    let by = |schedule: &str| format!("{}    startingDeadline: 1s\n", job("work", schedule, "'true'"));
    let mut fleet = Fleet::start(&by("*/3 * * * * *"), store, 1);
    fleet.daemons[0].wait_for_event("run_finished");
    let mut first = fleet.daemons.remove(0);
    first.signal(Signal::SIGTERM);
    assert_eq!(first.wait_for_exit(), 0);

    let store: Arc<dyn Store> = crate::support::bench::open(&fleet.store.url, "default");
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let record = || runtime.block_on(store.jobs()).unwrap().remove(0).1;
    let last = record().decided_through;
    processes::until_limit("three ticks came", LIMIT, || {
        runtime.block_on(store.server_time()).unwrap().timestamp() >= last + 10
    });
    let file = fleet.table.folder.path().join("jobs.yaml");
    std::fs::write(&file, std::fs::read_to_string(&file).unwrap().replace("*/3 ", "*/4 ")).unwrap();
    let daemons = [2, 3].map(|number| fleet.launch(number).start());
    let finished = |line: &Value| line["event"] == "run_finished";
    for daemon in &daemons {
        daemon.wait_for_event("daemon_ready");
    }
    processes::until_limit("a tick of the new one ran", LIMIT, || {
        daemons.iter().any(|daemon| daemon.lines().iter().any(finished))
    });
    processes::until_limit("all is decided", LIMIT, || {
        record().former.iter().all(|f| f.until < record().decided_through)
    });

    let changed = record().former[0].until;
    let history = runtime.block_on(store.history(&onecron::job::JobName::new("work").unwrap(), 200)).unwrap();
    let text = |seconds| onecron::job::Tick::from_seconds(seconds).to_string();
    let lines = |seconds: i64| {
        let lines = daemons.iter().flat_map(Daemon::lines);
        lines.filter(|line| line["scheduled_for"] == text(seconds).as_str() && line["reason"] != "missed").count()
    };
    for tick in last + 1..=changed {
        let records = history.iter().filter(|entry| entry.scheduled_for == text(tick)).count();
        let owed = usize::from(tick % 3 == 0);
        assert_eq!((records, lines(tick)), (owed, owed), "{tick}: {history:?}");
    }
    let missed = history.iter().filter(|entry| entry.outcome == "missed" && entry.reason == "no_replica").count();
    assert!(missed >= 2, "{history:?}");
}
