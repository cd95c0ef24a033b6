//! A job that takes longer than its period, under the policies that stop and that queue. The job itself says when it is there
//! and when it is gone, also when it is asked to end.

use super::Fleet;
use super::FleetStore;
use super::wall;
use crate::processes;
use onecron::job::HistoryEntry;
use onecron::job::JobName;
use onecron::job::Tick;
use onecron::store::Store;
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;

/// How long it goes on.
const SECONDS: i64 = 40;
/// What the job would take if it was left alone.
const TAKES: i64 = 10;

/// Ten seconds of work every three: `began` when it is there; `ended` when it is through, `stopped` after TERM and a
/// while to tidy up. The instants are those of the machine, in seconds with fractions.
fn table(policy: &str, more: &str) -> String {
    let line = |word: &str| format!("echo {word} $ONECRON_SCHEDULED_FOR $ONECRON_FENCING_TOKEN $(date +%s.%N) >> seen");
    format!(
        "  - name: slow\n    schedule: \"*/3 * * * * *\"\n    concurrencyPolicy: {policy}\n    \
         terminationGracePeriod: 4s\n    startingDeadline: 12s\n{more}    command: |\n      \
         trap 'kill $!; sleep 0.5; {}; exit 143' TERM\n      {}\n      sleep {TAKES} & wait $!\n      {}\n",
        line("stopped"),
        line("began"),
        line("ended"),
    )
}

/// One line of what the job says.
#[derive(Debug, Clone, PartialEq)]
struct Seen {
    word: String,
    tick: Tick,
    token: u64,
    at: f64,
}

fn seen(fleet: &Fleet) -> Vec<Seen> {
    let text = std::fs::read_to_string(fleet.table.folder.path().join("seen")).unwrap_or_default();
    let line = |line: &str| {
        let words: Vec<&str> = line.split(' ').collect();
        let [word, tick, token, at] = words[..] else { panic!("{line:?}") };
        let (token, at) = (token.parse().unwrap(), at.parse().unwrap());
        Seen { word: word.into(), tick: Tick::parse(tick).unwrap(), token, at }
    };
    text.lines().map(line).collect()
}

/// Lets three daemons go on for a while; what the job said, and how its ticks ended by the store, oldest first.
fn go_on(policy: &str, store: FleetStore) -> (Fleet, Vec<Seen>, Vec<HistoryEntry>) {
    let fleet = Fleet::start(&table(policy, ""), store, 3);
    let end = wall() + SECONDS;
    let limit = Duration::from_secs(u64::try_from(SECONDS).unwrap() + 30);
    processes::until_limit("the time is over", limit, || wall() >= end);
    let lines = seen(&fleet);
    let store: Arc<dyn Store> = crate::support::bench::open(&fleet.store.url, "default");
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let mut history = runtime.block_on(store.history(&JobName::new("slow").unwrap(), 200)).unwrap();
    history.reverse();
    (fleet, lines, history)
}

/// Never two at once, and tokens only grow.
fn is_one_at_a_time(lines: &[Seen]) {
    for pair in lines.windows(2) {
        let (first, second) = (&pair[0], &pair[1]);
        if second.word == "began" {
            assert_ne!(first.word, "began", "{} began while {} ran: {lines:#?}", second.tick, first.tick);
            assert!(second.at >= first.at, "{first:?} {second:?}");
            assert!(second.token > first.token, "{first:?} {second:?}");
        } else {
            assert_eq!((first.word.as_str(), first.tick), ("began", second.tick), "{lines:#?}");
        }
    }
}

fn count(history: &[HistoryEntry], outcome: &str, reason: &str) -> usize {
    history.iter().filter(|entry| (entry.outcome.as_str(), entry.reason.as_str()) == (outcome, reason)).count()
}

fn events(fleet: &Fleet, event: &str) -> Vec<Value> {
    fleet.daemons.iter().flat_map(|daemon| daemon.events(event)).collect()
}

#[test]
fn a_run_that_is_replaced_is_gone_before_the_next_one_begins() {
    let Some(store) = FleetStore::redis() else { return };
    let (fleet, lines, history) = go_on("Replace", store);
    is_one_at_a_time(&lines);
    let said = |word: &str| lines.iter().filter(|line| line.word == word).count();
    // Three seconds after another; a stop takes half a second, and up to a third of a lease until it is heard of.
    assert!(said("began") >= 8, "{lines:#?}");
    assert!(said("stopped") >= 7, "{lines:#?}");
    assert_eq!(said("ended"), 0, "none had its ten seconds");
    assert!(count(&history, "replaced", "") >= 7, "{history:#?}");
    for entry in &history {
        let known = matches!(
            (entry.outcome.as_str(), entry.reason.as_str()),
            ("replaced", "") | ("skipped", "superseded") | ("missed", _)
        );
        assert!(known, "{entry:?}");
        if entry.outcome == "replaced" {
            assert!(entry.error.contains("web-"), "it says who has the later run: {entry:?}");
        }
    }
    let stopping = events(&fleet, "run_stopping");
    assert!(stopping.iter().all(|line| line["cause"] == "replaced"), "{stopping:#?}");
    assert!(events(&fleet, "run_killed").is_empty(), "TERM is enough");
    let finished = events(&fleet, "run_finished");
    assert!(finished.iter().all(|line| line["outcome"] == "replaced" && line["level"] == "info"), "{finished:#?}");
    for late in lines.iter().filter(|line| line.word == "began") {
        let after = late.at - late.tick.seconds() as f64;
        assert!(after < 5.0, "{late:?} came {after} s after its tick");
    }
}

#[test]
fn one_tick_waits_for_the_end_and_the_others_are_overlaps() {
    let Some(store) = FleetStore::redis() else { return };
    let (fleet, lines, history) = go_on("Queue", store);
    is_one_at_a_time(&lines);
    let said = |word: &str| lines.iter().filter(|line| line.word == word).count();
    assert!(said("ended") >= 2, "{lines:#?}");
    assert_eq!(said("stopped"), 0, "nothing was stopped");
    assert_eq!(count(&history, "succeeded", ""), said("ended"));
    // Each run takes three ticks and a bit: the first of them waits, the others are skipped.
    let overlaps = count(&history, "skipped", "overlap");
    assert!(overlaps >= said("ended"), "{history:#?}");
    // A run follows the one before it at once.
    let began: Vec<&Seen> = lines.iter().filter(|line| line.word == "began").collect();
    for (number, next) in began.iter().enumerate().skip(1) {
        let before = lines.iter().rfind(|line| line.word == "ended" && line.tick == began[number - 1].tick).unwrap();
        assert!(next.at - before.at < 5.0, "{next:?} after {before:?}: {history:#?}");
        assert!(next.at - next.tick.seconds() as f64 <= 13.0, "within its starting deadline: {next:?}");
    }
    let skipped = events(&fleet, "run_skipped");
    let overlaps: Vec<&Value> = skipped.iter().filter(|line| line["reason"] == "overlap").collect();
    // A run may end between the decision and another replica's look at it.
    let told = |line: &&Value| ["holder", "holder_run_id"].iter().all(|field| !line[*field].is_null());
    let with_names = overlaps.iter().copied().filter(told).count();
    assert!(with_names * 10 >= overlaps.len() * 9 && with_names > 0, "{overlaps:#?}");
    assert!(overlaps.iter().any(|line| !line["age_seconds"].is_null()), "{overlaps:#?}");
    assert_eq!(count(&history, "skipped", "superseded"), 0, "nobody jumps the line: {history:#?}");
}

/// The owner of the run is dead: nobody hears that it is to stop, and the next run begins when the dead one is over for certain.
#[test]
fn a_dead_run_is_replaced_when_it_is_over_for_certain_and_never_started_again() {
    let Some(store) = FleetStore::redis() else { return };
    let second = (wall() + 5) % 60;
    let jobs = format!(
        "  - name: slow\n    schedule: \"{second},{} * * * * *\"\n    concurrencyPolicy: Replace\n    \
         lostRunPolicy: Rerun\n    terminationGracePeriod: 1s\n    command: {}; exec sleep 60\n",
        (second + 10) % 60,
        super::entry("began")
    );
    let mut fleet = Fleet::start(&jobs, store, 3);
    let first = fleet.wait_for_entry("began", "slow");
    let owner = fleet.position(&first.replica);
    let next = first.tick.seconds() + 10;
    // Killed a moment before the next tick: it is not yet known to be lost when its stop is asked for.
    processes::until_limit("the next tick is near", Duration::from_secs(15), || wall() >= next - 1);
    fleet.daemons[owner].signal(nix::sys::signal::Signal::SIGKILL);
    fleet.daemons[owner].wait_for_exit();
    let began = || fleet.entries("began", "slow");
    processes::until_limit("the next run has begun", Duration::from_secs(25), || began().len() > 1);
    let second = began()[1].clone();
    assert_eq!(second.tick.seconds(), next, "{:#?}", began());
    assert!(!processes::is_alive(first.pid), "the old one is gone");
    let after = wall() - next;
    assert!((5..=12).contains(&after), "L, then the slot drains: {after} s");
    let lost = events(&fleet, "run_lost");
    assert!(lost.iter().any(|line| line["policy"] == "Report"), "it is not started again: {lost:#?}");
    assert!(began().iter().filter(|entry| entry.tick == first.tick).count() == 1);
}
