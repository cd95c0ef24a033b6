//! That each thing is told once by a fleet, also where its members die.

use super::*;
use crate::cluster::wall;
use crate::processes;
use crate::processes::until;
use crate::processes::until_limit;
use crate::support::daemon::LIMIT;
use crate::support::web::Act;
use crate::support::web::ok;
use nix::sys::signal::Signal;
use std::collections::BTreeSet;
use std::time::Duration;

/// What identifies each of them.
fn run_ids(items: &[Value]) -> Vec<String> {
    items.iter().map(|item| item["run_id"].as_str().unwrap_or_default().to_owned()).collect()
}

fn assert_once(ids: &[String]) {
    let distinct: BTreeSet<&String> = ids.iter().collect();
    assert_eq!(distinct.len(), ids.len(), "{ids:?}");
}

fn end(fleet: &mut [Daemon]) {
    fleet.iter().for_each(|daemon| daemon.signal(Signal::SIGTERM));
    fleet.iter_mut().for_each(|daemon| assert_eq!(daemon.wait_for_exit(), 0));
}

fn all(fleet: &[Daemon], event: &str) -> Vec<Value> {
    fleet.iter().flat_map(|daemon| daemon.events(event)).collect()
}

#[test]
fn three_replicas_tell_of_each_run_once_and_of_one_recovery() {
    let web = Web::start(|_| ok());
    let command = "n=$(cat count 2>/dev/null || echo 0); echo $((n+1)) > count; test $n -ge 4";
    let job = format!(
        "  - {{name: nightly, schedule: '* * * * * *', command: '{command}', notify: {{onFailure: [hook], onRecovery: [hook], onSuccess: [hook]}}}}\n"
    );
    let place = Place::new(&hook(&web), &job);
    let mut fleet = place.start_fleet(3);
    until("successes are told", || items(&web, "success").len() >= 4);
    end(&mut fleet);
    let failures = run_ids(&items(&web, "failure"));
    assert_eq!(failures.len(), 4, "{failures:?}");
    assert_once(&failures);
    assert_once(&run_ids(&items(&web, "success")));
    assert_eq!(items(&web, "recovery").len(), 1);
    let said = all(&fleet, "job_recovered");
    assert_eq!((said.len(), &said[0]["failures"]), (1, &4.into()), "{said:?}");
    let finished = all(&fleet, "run_finished").len();
    assert_eq!(failures.len() + items(&web, "success").len(), finished);
}

#[test]
fn what_was_missed_while_all_were_down_is_told_once_by_who_settles_it() {
    let web = Web::start(|_| ok());
    let notify = "{onMissed: [hook], onRecovery: [hook]}";
    let job = format!(
        "  - {{name: nightly, schedule: '*/2 * * * * *', startingDeadline: 1s, catchUp: None, command: [/bin/true], notify: {notify}}}\n"
    );
    let place = Place::new(&hook(&web), &job);
    let mut first = [place.start("web-0")];
    first[0].wait_for_job("run_finished", "nightly");
    end(&mut first);
    let down_until = wall() + 7;
    until("three ticks are over", || wall() >= down_until);
    let mut fleet = place.start_fleet(2);
    fleet[0].wait_for(|line| line["event"] == "daemon_ready", LIMIT);
    until("they are settled", || missed_lines(&fleet) >= 2);
    until("the job is told to run again", || !items(&web, "recovery").is_empty());
    end(&mut fleet);
    let items_of = items(&web, "missed");
    assert_once(&items_of.iter().map(|item| item["scheduled_for"].to_string()).collect::<Vec<_>>());
    let told: u64 = items_of.iter().map(|item| item["ticks"].as_u64().unwrap_or(1)).sum();
    assert_eq!(told, missed_lines(&fleet), "{items_of:?}");
    assert!(items_of.iter().all(|item| item["reason"] == "no_replica"), "{items_of:?}");
    // On a busy machine more may be missed later.
    let recoveries = items(&web, "recovery");
    assert_once(&run_ids(&recoveries));
    assert_eq!(recoveries.len(), all(&fleet, "job_recovered").len());
    assert!(recoveries[0]["missed"].as_u64().unwrap() >= 2, "{recoveries:?}");
    assert!(recoveries[0]["failing_for_seconds"].as_f64().unwrap() >= 3.0, "{recoveries:?}");
}

fn missed_lines(fleet: &[Daemon]) -> u64 {
    let single = all(fleet, "run_missed").len() as u64;
    single + all(fleet, "runs_missed").iter().map(|line| line["count"].as_u64().unwrap()).sum::<u64>()
}

#[test]
fn a_run_whose_replica_was_killed_is_told_as_lost_once() {
    let web = Web::start(|_| ok());
    let job = "  - {name: nightly, schedule: '*/5 * * * * *', command: [sleep, '600'], notify: {onLost: [hook], onFailure: [hook]}}\n";
    let place = Place::new(&hook(&web), job);
    let mut fleet = place.start_fleet(3);
    let owner = || fleet.iter().position(|daemon| !daemon.events("run_started").is_empty());
    until("the job runs", || owner().is_some());
    let owner = fleet.remove(owner().unwrap());
    let name = owner.replica();
    processes::signal(owner.pid(), Signal::SIGKILL);
    until("it is told", || !items(&web, "lost").is_empty());
    fleet.iter().for_each(|daemon| daemon.signal(Signal::SIGTERM));
    fleet.iter().for_each(|daemon| daemon.signal(Signal::SIGTERM));
    fleet.iter_mut().for_each(|daemon| _ = daemon.wait_for_exit());
    let lost = items(&web, "lost");
    let of_owner: Vec<&Value> = lost.iter().filter(|item| item["replica"] == name.as_str()).collect();
    assert_eq!(of_owner.len(), 1, "{lost:?}");
    assert_eq!((&of_owner[0]["outcome"], of_owner[0].get("rerun")), (&"lost".into(), None));
    assert_eq!(lost.len(), all(&fleet, "run_lost").len());
}

/// The loss is no failure of the job, whose run goes on elsewhere: the success of that is what ends it.
#[test]
fn a_lost_run_that_is_started_again_and_succeeds_is_told_as_recovered() {
    let web = Web::start(|_| ok());
    // One tick only: a later one that began would take the run's place.
    let second = (wall() + 4) % 60;
    let job = format!(
        "  - {{name: nightly, schedule: '{second} * * * * *', command: '[ $ONECRON_ATTEMPT -gt 1 ] || sleep 600', \
         lostRunPolicy: Rerun, terminationGracePeriod: 1s, notify: {{onLost: [hook], onRecovery: [hook]}}}}\n"
    );
    let place = Place::new(&hook(&web), &job);
    let mut fleet = place.start_fleet(2);
    let owner = || fleet.iter().position(|daemon| !daemon.events("run_started").is_empty());
    until("the job runs", || owner().is_some());
    let owner = fleet.remove(owner().unwrap());
    let run = owner.wait_for_event("run_started")["run_id"].clone();
    processes::signal(owner.pid(), Signal::SIGKILL);
    until_limit("it is told", Duration::from_secs(50), || !items(&web, "recovery").is_empty());
    let (lost, recovered) = (items(&web, "lost"), items(&web, "recovery"));
    assert_eq!((&lost[0]["run_id"], &lost[0]["rerun"]), (&run, &Value::from(true)), "{lost:?}");
    assert_eq!((&recovered[0]["run_id"], &recovered[0]["trigger"]), (&run, &Value::from("rerun")), "{recovered:?}");
}

#[test]
fn a_job_without_a_success_is_told_to_be_stale_once_and_not_again_after_a_restart_of_all() {
    let web = Web::start(|_| ok());
    let job = "  - {name: nightly, schedule: '*/2 * * * * *', command: [/bin/false], staleAfter: 6s, notify: {onStale: [hook], onRecovery: [hook]}}\n";
    let place = Place::new(&hook(&web), job);
    let mut fleet = place.start_fleet(3);
    until("it is told", || !items(&web, "stale").is_empty());
    // Whoever was later has asked as well by then.
    let runs = |fleet: &[Daemon]| all(fleet, "run_finished").len();
    let before = runs(&fleet);
    until("two more runs have failed", || runs(&fleet) >= before + 2);
    end(&mut fleet);
    let said = all(&fleet, "job_stale");
    assert_eq!(
        (said.len(), said[0].get("last_success"), &said[0]["stale_after_seconds"]),
        (1, None, &6.into()),
        "{said:?}"
    );
    assert_eq!(items(&web, "stale").len(), 1);
    assert_eq!(items(&web, "stale")[0]["summary"], "nightly had no success for 6s: none is known");

    let mut fleet = place.start_fleet(2);
    until("two more runs have failed", || runs(&fleet) >= 2);
    end(&mut fleet);
    assert_eq!((all(&fleet, "job_stale").len(), items(&web, "stale").len()), (0, 1));

    place.write(&hook(&web), &job.replace("/bin/false", "/bin/true"));
    let mut fleet = place.start_fleet(2);
    until("it is told to be well again", || !items(&web, "recovery").is_empty());
    end(&mut fleet);
    assert_eq!(items(&web, "recovery").len(), 1);
    assert!(items(&web, "recovery")[0]["failures"].as_u64().unwrap() >= 4);
}

/// Whether it is about a failure, of whatever kind of notifier it is.
fn is_failure(seen: &Seen) -> bool {
    seen.body.contains("\"trigger\"") || seen.body.contains("failed") || seen.line.contains("/fail")
}

/// What came to a path, in its order.
fn at(web: &Web, path: &str) -> Vec<Seen> {
    let begin = format!("POST /{path}");
    web.seen().into_iter().filter(|seen| seen.line.starts_with(&begin)).collect()
}

/// The two replicas of a fleet whose job fails once, when that was told: the one that ran it has been asked to end, so that
/// it tells what it has to tell, and the other one has the next run.
fn failed_once(web: &Web, notifiers: &[(&str, &str)], notify: &str) -> (Place, [Daemon; 2]) {
    let notifiers: String = notifiers
        .iter()
        .map(|(name, kind)| format!("  {name}: {{{kind}, timeout: 3s, url: '{}'}}\n", web.url(&format!("/{name}"))))
        .collect();
    let command = "test -e done && exit 0; touch done; exit 1";
    let job = format!("  - {{name: nightly, schedule: '*/2 * * * * *', command: '{command}', notify: {{{notify}}}}}\n");
    let place = Place::new(&notifiers, &job);
    let mut fleet = place.start_fleet(2);
    let failed = |daemon: &Daemon| daemon.events("run_finished").iter().any(|line| line["outcome"] == "failed");
    until("the job fails", || fleet.iter().any(failed));
    let first = fleet.remove(fleet.iter().position(failed).unwrap());
    first.signal(Signal::SIGTERM);
    (place, [first, fleet.remove(0)])
}

#[test]
fn a_failure_that_is_told_late_is_never_the_last_word_about_a_job_that_another_replica_found_well() {
    // Each is silent at first, and takes everything from then on.
    let web = Web::start(|seen| if is_failure(seen) && seen.connection <= 4 { vec![Act::Hold] } else { ok() });
    let notifiers = [
        ("pager", "type: pagerduty, routingKey: KEY"),
        ("uptime", "type: ping"),
        ("chat", "type: slack"),
        ("manual", "type: pagerduty, routingKey: KEY"),
    ];
    let notify = "onFailure: [pager, uptime, chat, manual], onRecovery: [pager, chat], onSuccess: [uptime]";
    let (_place, [mut first, mut other]) = failed_once(&web, &notifiers, notify);
    other.wait_for_event("job_recovered");
    assert_eq!(first.wait_for_exit(), 0);
    other.signal(Signal::SIGTERM);
    assert_eq!(other.wait_for_exit(), 0);

    let pager: Vec<bool> = at(&web, "pager").iter().map(is_failure).collect();
    assert_eq!((pager[0], pager.last()), (true, Some(&false)), "{pager:?}");
    assert!(pager.iter().filter(|is_failure| **is_failure).count() == 1, "it was sent once, and not taken: {pager:?}");
    let uptime: Vec<bool> = at(&web, "uptime").iter().map(is_failure).collect();
    assert_eq!((uptime[0], uptime.iter().filter(|is_failure| **is_failure).count()), (true, 1), "{uptime:?}");
    let dropped = first.events("notify_dropped");
    assert_eq!(dropped.len(), 2, "{dropped:?}");
    for line in &dropped {
        assert_eq!(
            (&line["reason"], &line["job"], &line["count"]),
            (&"recovered".into(), &"nightly".into(), &1.into())
        );
    }
    // A chat is told what it could not be told before, and that it is over.
    let chat = at(&web, "chat").into_iter().rfind(is_failure).unwrap();
    assert_eq!(body(&chat)["text"], "nightly failed: exit code 1; it has succeeded since");
    // Where nothing is to close it, nothing is kept back: without a look, this would be the end of the others, too.
    let manual = at(&web, "manual");
    assert!(manual.len() >= 2 && is_failure(manual.last().unwrap()), "{manual:?}");
}

#[test]
fn an_incident_that_is_opened_while_another_replica_closes_it_is_closed_after_that() {
    let web =
        Web::start(
            |seen| {
                if is_failure(seen) { [vec![Act::Wait(Duration::from_millis(2800))], ok()].concat() } else { ok() }
            },
        );
    let pager = ("pager", "type: pagerduty, routingKey: KEY");
    let (_place, [mut first, mut other]) = failed_once(&web, &[pager], "onFailure: [pager], onRecovery: [pager]");
    other.wait_for_event("job_recovered");
    assert_eq!(first.wait_for_exit(), 0);
    other.signal(Signal::SIGTERM);
    assert_eq!(other.wait_for_exit(), 0);
    let pager: Vec<bool> = at(&web, "pager").iter().map(is_failure).collect();
    assert_eq!(pager, [true, false, false], "the other one's end of it may have come before its begin");
    let sent = first.events("notify_sent");
    assert_eq!(sent.iter().map(|line| line["about"].clone()).collect::<Vec<_>>(), ["failure", "recovery"]);
}
