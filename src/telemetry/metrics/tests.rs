use super::catalogue::ALL;
use super::catalogue::Kind;
use super::*;
use crate::clock::Boot;
use crate::clock::Now;
use crate::job::Action;
use crate::job::CommandSpec;
use crate::job::EnvValue;
use crate::job::HttpSpec;
use crate::job::NotifierKind;
use crate::job::NotifierSpec;
use crate::job::Program;
use crate::schedule::Schedule;
use crate::schedule::Zone;

const DOCS: &str = include_str!("../../../docs/metrics.md");
const RULES: &str = include_str!("../../../deploy/prometheus/rules.yaml");
const RULES_TEST: &str = include_str!("../../../deploy/prometheus/rules_test.yaml");
/// Prometheus' own.
const TAKEN: [&str; 7] = ["job", "namespace", "pod", "instance", "service", "container", "endpoint"];

/// Everything that can be known of a job.
const ALL_FACTS: JobFacts = JobFacts {
    first_seen: Some(1.0),
    last_due: Some(2.0),
    last_claimed: Some(2.0),
    last_success: Some(3.0),
    last_failure: Some(3.0),
    last_duration: Some(4.0),
    last_exit_code: Some(0.0),
    consecutive_failures: Some(0.0),
    is_paused: false,
};

struct Fixed;

impl Clock for Fixed {
    fn now(&self) -> Now {
        Now { wall: DateTime::from_timestamp(1_772_330_400, 0).unwrap(), boot: Boot::from_nanos(0) }
    }
}

fn name(job: &str) -> JobName {
    JobName::new(job).unwrap()
}

fn spec(job: &str) -> JobSpec {
    let schedule = Schedule::parse("0 3 * * *", &Zone::utc(), job).unwrap();
    JobSpec::of(name(job), schedule, CommandSpec::of(Program::Direct(vec!["true".into()])))
}

fn table_of(jobs: Vec<JobSpec>) -> JobTable {
    let jobs = jobs.into_iter().map(Arc::new).collect();
    JobTable { jobs, revision: "abc".into(), ..JobTable::default() }
}

fn with_notifiers(table: JobTable, names: &[&str]) -> JobTable {
    let notifier = |name: &&str| {
        let http = HttpSpec::to(EnvValue::Text("https://hooks.example/S3CRET".into()));
        let spec = NotifierSpec { name: (*name).into(), kind: NotifierKind::Webhook, http };
        ((*name).to_owned(), Arc::new(spec))
    };
    JobTable { notifiers: names.iter().map(notifier).collect(), ..table }
}

fn table(jobs: &[&str]) -> JobTable {
    table_of(jobs.iter().map(|job| spec(job)).collect())
}

fn metrics(jobs: &[&str]) -> Metrics {
    let metrics = Metrics::new(Arc::new(Fixed), "redis://cache:6379/0");
    metrics.follow(&table(jobs), "2026f");
    metrics
}

/// The series of a text: name and labels, without values.
fn series(text: &str) -> BTreeSet<String> {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines.filter_map(|line| line.rsplit_once(' ')).map(|(series, _)| series.to_owned()).collect()
}

/// Everything that has a value, once.
fn everything() -> Metrics {
    let metrics = Metrics::new(Arc::new(Fixed), "redis://cache:6379/0");
    let second = Duration::from_secs(1);
    let full = JobSpec { stale_after: Some(second), ..spec("nightly") };
    metrics.follow(&with_notifiers(table_of(vec![full]), &["ops-chat"]), "2026f");
    metrics.looked(Fixed.now().wall, Some(second));
    metrics.clock_offset(-20);
    metrics.store_unsafe(&["eviction"]);
    metrics.http_request("/metrics", "GET", 200);
    metrics.fleet(3, &BTreeMap::from([(name("nightly"), ALL_FACTS)]));
    metrics
}

/// Name, type, labels and help of each metric.
type Catalogue = BTreeMap<String, (String, Vec<String>, String)>;

fn kind_word(kind: Kind) -> &'static str {
    match kind {
        Kind::Counter => "counter",
        Kind::Gauge => "gauge",
        Kind::Histogram => "histogram",
    }
}

fn of_the_code() -> Catalogue {
    let labels = |labels: &[&str]| labels.iter().map(ToString::to_string).collect();
    ALL.iter()
        .map(|entry| (entry.name.into(), (kind_word(entry.kind).into(), labels(entry.labels), entry.help.into())))
        .collect()
}

/// Words in backticks.
fn quoted(cell: &str) -> Vec<String> {
    cell.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

/// The rows of the tables under a heading.
fn rows(from: &str, to: &str) -> Vec<Vec<&'static str>> {
    let part = DOCS.split_once(from).unwrap().1.split_once(to).unwrap().0;
    part.lines().filter(|line| line.starts_with("| `")).map(|row| row.split('|').map(str::trim).collect()).collect()
}

fn of_the_docs() -> Catalogue {
    let mut catalogue = Catalogue::new();
    for row in rows("## All metrics", "## Values of labels") {
        let [_, name, kind, labels, help, _] = row[..] else { panic!("not four cells: {row:?}") };
        let kind = kind.trim_end_matches(", fleet").to_owned();
        let entry = (kind, quoted(labels), help.to_owned());
        assert!(catalogue.insert(quoted(name).remove(0), entry).is_none(), "{name} is there twice");
    }
    catalogue
}

#[test]
fn the_docs_list_the_metrics_that_the_code_has() {
    assert_eq!(of_the_code(), of_the_docs());
}

#[test]
fn what_is_shown_has_the_types_labels_and_help_of_the_catalogue() {
    let mut shown = Catalogue::new();
    let metrics = everything();
    // Some are read when they are shown.
    metrics.render();
    for family in metrics.registry.gather() {
        let kind = format!("{:?}", family.get_field_type()).to_lowercase();
        let first = &family.get_metric()[0];
        let labels: BTreeSet<String> = first.get_label().iter().map(|pair| pair.name().to_owned()).collect();
        shown.insert(family.name().into(), (kind, labels.into_iter().collect(), family.help().into()));
    }
    let mut wanted = of_the_code();
    for (_, labels, _) in wanted.values_mut() {
        labels.sort();
    }
    assert_eq!(shown, wanted);
}

#[test]
fn the_docs_say_which_metrics_are_the_fleets() {
    let names = |metrics: &Metrics| {
        metrics.registry.gather().iter().map(|family| family.name().to_owned()).collect::<BTreeSet<_>>()
    };
    let (before, after) = (metrics(&["nightly"]), metrics(&["nightly"]));
    after.fleet(3, &BTreeMap::from([(name("nightly"), ALL_FACTS)]));
    let fleet: BTreeSet<String> = names(&after).difference(&names(&before)).cloned().collect();
    let marked = rows("## All metrics", "## Values of labels");
    let marked = marked.iter().filter(|row| row[2].ends_with(", fleet")).map(|row| quoted(row[1]).remove(0));
    assert_eq!(fleet, marked.collect());
}

#[test]
fn the_docs_list_the_values_that_labels_have() {
    let shown = everything().render();
    for row in rows("## Values of labels", "## Prometheus") {
        let [_, metric, label, values, _] = row[..] else { panic!("not three cells: {row:?}") };
        let (metric, label) = (quoted(metric).remove(0), quoted(label).remove(0));
        let of_metric = shown.lines().filter(|line| line.starts_with(&format!("{metric}{{")));
        let value = |line: &str| line.split_once(&format!("{label}=\""))?.1.split('"').next().map(str::to_owned);
        let found: BTreeSet<String> = of_metric.filter_map(value).collect();
        assert_eq!(found, quoted(values).into_iter().collect(), "{metric} {label}");
    }
}

#[test]
fn no_label_is_one_of_prometheus_own_and_no_name_is_there_twice() {
    for entry in ALL {
        assert!(entry.labels.iter().all(|label| !TAKEN.contains(label)), "{}", entry.name);
        assert_eq!(entry.name.ends_with("_total"), entry.kind == Kind::Counter, "{}", entry.name);
    }
    assert_eq!(of_the_code().len(), ALL.len());
}

/// The metrics that a text names.
fn named(text: &str) -> BTreeSet<String> {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_' && c != ':');
    let words = words.filter(|word| word.starts_with("onecron_"));
    words.map(|word| ["_bucket", "_sum", "_count"].iter().fold(word, |w, end| w.trim_end_matches(end)).into()).collect()
}

#[test]
fn rules_and_their_tests_use_metrics_that_the_code_has() {
    let catalogue = of_the_code();
    for text in [RULES, RULES_TEST] {
        let named = named(text);
        assert!(named.len() > 10, "{named:?}");
        let unknown: Vec<_> = named.iter().filter(|name| !catalogue.contains_key(*name)).collect();
        assert!(unknown.is_empty(), "{unknown:?}");
    }
}

#[test]
fn the_docs_list_the_alerts_and_each_has_a_test_in_which_it_fires_and_one_in_which_it_does_not() {
    let alerts: BTreeSet<&str> = RULES.lines().filter_map(|line| line.trim().strip_prefix("- alert: ")).collect();
    assert!(alerts.len() > 10 && alerts.iter().all(|alert| alert.starts_with("Onecron")), "{alerts:?}");
    let listed: Vec<String> =
        DOCS.lines().filter(|l| l.starts_with("| `Onecron")).map(|l| quoted(l).remove(0)).collect();
    assert_eq!(listed.iter().map(String::as_str).collect::<BTreeSet<_>>(), alerts);
    for alert in alerts {
        for what in ["fires", "is silent"] {
            assert!(RULES_TEST.lines().any(|line| line == format!("  - name: {alert} {what}")), "{alert} {what}");
        }
    }
}

#[test]
fn a_jobs_counters_are_there_at_zero_before_anything_happens() {
    let text = metrics(&["nightly"]).render();
    for line in [
        "onecron_runs_total{job_name=\"nightly\",outcome=\"failed\"} 0",
        "onecron_runs_missed_total{job_name=\"nightly\",reason=\"no_replica\"} 0",
        "onecron_lease_lost_total{job_name=\"nightly\"} 0",
        "onecron_run_duration_seconds_count{job_name=\"nightly\"} 0",
        "onecron_runs_running{job_name=\"nightly\"} 0",
        "onecron_jobs{state=\"active\"} 1",
        "onecron_store_requests_total{operation=\"apply\",result=\"unknown\",store=\"redis\"} 0",
        "onecron_job_next_run_timestamp_seconds{job_name=\"nightly\"} 1772334000",
    ] {
        assert!(text.lines().any(|found| found == line), "{line}\n{text}");
    }
    assert!(!text.contains("onecron_job_last_success"), "nobody knows that yet");
}

#[test]
fn nothing_is_left_of_a_job_that_left_the_table_and_its_last_runs_bring_nothing_back() {
    let metrics = metrics(&["nightly", "hourly"]);
    let known = JobFacts { last_success: Some(1.0), last_due: Some(1.0), ..JobFacts::default() };
    metrics.fleet(1, &BTreeMap::from([(name("nightly"), known), (name("hourly"), known)]));
    assert!(metrics.render().contains("nightly"));
    metrics.follow(&table(&["hourly"]), "2026f");
    let job = name("nightly");
    metrics.finished(&job, Outcome::Failed, Duration::from_secs(1));
    metrics.running(&job, 1);
    metrics.skipped(&job, SkipReason::Removed);
    metrics.claimed(&job, Claimed::Held);
    metrics.output_truncated(&job, 1);
    metrics.fleet(1, &BTreeMap::from([(name("nightly"), known), (name("hourly"), known)]));
    let text = metrics.render();
    assert!(!text.contains("nightly") && text.contains("hourly"), "{text}");
}

#[test]
fn a_reload_keeps_what_was_counted_and_shows_what_the_job_is_now() {
    let metrics = metrics(&["nightly"]);
    metrics.finished(&name("nightly"), Outcome::Failed, Duration::from_secs(1));
    metrics.fleet(1, &BTreeMap::from([(name("nightly"), JobFacts { is_paused: true, ..JobFacts::default() })]));
    let daily = Schedule::parse("@daily", &Zone::utc(), "nightly").unwrap();
    let stale_after = Some(Duration::from_secs(60));
    metrics.follow(&table_of(vec![JobSpec { schedule: daily, stale_after, ..spec("nightly") }]), "2026f");
    let text = metrics.render();
    assert!(text.contains("onecron_runs_total{job_name=\"nightly\",outcome=\"failed\"} 1\n"), "{text}");
    assert!(text.contains("onecron_job_stale_after_seconds{job_name=\"nightly\"} 60\n"), "{text}");
    assert!(text.contains("onecron_jobs{state=\"paused\"} 1\n"), "{text}");
    let info: Vec<&str> = text.lines().filter(|line| line.starts_with("onecron_job_info{")).collect();
    let now =
        "onecron_job_info{concurrency_policy=\"Forbid\",job_name=\"nightly\",schedule=\"@daily\",time_zone=\"UTC\"} 1";
    assert_eq!(info, [now]);
    metrics.follow(&table_of(vec![JobSpec { suspend: true, stale_after, ..spec("nightly") }]), "2026f");
    let text = metrics.render();
    assert!(!text.contains("stale_after_seconds{") && !text.contains("next_run_timestamp_seconds{"), "{text}");
}

#[test]
fn the_number_of_series_does_not_depend_on_how_many_runs_there_were() {
    let metrics = metrics(&["nightly"]);
    let before = series(&metrics.render());
    for _ in 0..1000 {
        let job = name("nightly");
        metrics.claimed(&job, Claimed::Won);
        metrics.started(Duration::from_millis(3));
        metrics.finished(&job, Outcome::Succeeded, Duration::from_secs(1));
        metrics.missed(&job, MissedReason::Late, 2);
        metrics.requested(Operation::Apply, Requested::Ok, Duration::from_millis(1));
    }
    let text = metrics.render();
    assert_eq!(series(&text), before);
    assert!(text.contains("reason=\"late\"} 2000\n"), "{text}");
}

#[test]
fn a_store_is_up_when_it_answers_and_down_when_it_does_not_say_what_it_is() {
    let metrics = metrics(&[]);
    let is_up = || metrics.render().contains("onecron_store_up{store=\"redis\"} 1\n");
    let second = Duration::from_secs(1);
    assert!(!is_up());
    metrics.requested(Operation::Meet, Requested::Ok, second);
    assert!(is_up());
    metrics.requested(Operation::History, Requested::Unknown, second);
    assert!(is_up(), "a request may fail");
    metrics.requested(Operation::Identity, Requested::Error, second);
    assert!(!is_up());
}

#[test]
fn a_check_that_passes_again_is_zero() {
    let metrics = metrics(&[]);
    let shown = |line: &str| metrics.render().lines().any(|found| found == line);
    metrics.store_unsafe(&["eviction", "persistence"]);
    metrics.meeting_fails(true);
    metrics.store_unsafe(&["persistence"]);
    assert!(shown("onecron_store_unsafe{check=\"eviction\"} 0"));
    assert!(shown("onecron_store_unsafe{check=\"persistence\"} 1"));
    assert!(shown("onecron_store_unsafe{check=\"presence\"} 1"), "other looks do not find that");
    metrics.meeting_fails(false);
    assert!(shown("onecron_store_unsafe{check=\"presence\"} 0"));
}

#[test]
fn a_daemon_that_drains_is_not_ready_any_more() {
    let metrics = metrics(&[]);
    let shown = |line: &str| metrics.render().lines().any(|found| found == line);
    assert!(shown("onecron_ready 0") && shown("onecron_draining 0"));
    metrics.ready();
    assert!(shown("onecron_ready 1"));
    metrics.draining();
    metrics.ready();
    assert!(shown("onecron_ready 0") && shown("onecron_draining 1"));
}

#[test]
fn what_a_job_does_is_no_part_of_any_label() {
    let secret = CommandSpec::of(Program::Direct(vec!["curl".into(), "hunter2".into()]));
    let metrics = Metrics::new(Arc::new(Fixed), "redis://:hunter2@cache");
    metrics.follow(&table_of(vec![JobSpec { action: Action::Command(secret), ..spec("nightly") }]), "2026f");
    assert!(!metrics.render().contains("hunter2") && !format!("{metrics:?}").contains("hunter2"));
}

#[test]
fn notifiers_are_counted_from_zero_and_go_when_they_leave_the_table() {
    let metrics = metrics(&["a"]);
    metrics.follow(&with_notifiers(table(&["a"]), &["chat", "pager"]), "2026f");
    metrics.notified("chat", Notified::Failed, 3);
    let text = metrics.render();
    for line in ["{notifier=\"chat\",result=\"failed\"} 3\n", "{notifier=\"pager\",result=\"dropped\"} 0\n"] {
        assert!(text.contains(&format!("onecron_notifications_total{line}")), "{text}");
    }
    assert!(!text.contains("S3CRET"));
    metrics.follow(&with_notifiers(table(&["a"]), &["pager"]), "2026f");
    metrics.notified("chat", Notified::Sent, 1);
    let text = metrics.render();
    assert!(!text.contains("notifier=\"chat\"") && text.contains("notifier=\"pager\""), "{text}");
}
