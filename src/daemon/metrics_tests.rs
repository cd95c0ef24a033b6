//! What is counted when replicas run, and what Prometheus' own tools say of it.

use super::driver::End;
use super::driver::Message;
use super::fleet_watch::FleetWatch;
use super::guard::Order;
use super::metered::Metered;
use super::post::Post;
use super::report::Reporter;
use super::run_spans::RunSpans;
use super::signals::Request;
use super::tests::Bench;
use super::tests::Broken;
use super::tests::bench_of;
use crate::clock::Clock;
use crate::clock::SystemClock;
use crate::config;
use crate::config::Source;
use crate::engine::Notice;
use crate::engine::RunFacts;
use crate::job::Claim;
use crate::job::Ending;
use crate::job::JobName;
use crate::job::JobSpec;
use crate::job::JobTable;
use crate::job::MissedReason;
use crate::job::Outcome;
use crate::job::Registration;
use crate::job::ReplicaId;
use crate::job::RunKey;
use crate::job::SkipReason;
use crate::job::Step;
use crate::job::Tick;
use crate::job::Trigger;
use crate::job::WhenBusy;
use crate::store::MemoryStore;
use crate::store::Store;
use crate::telemetry::metrics::Metrics;
use chrono::DateTime;
use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::io::Read;
use std::io::Write;
use std::net::SocketAddr;
use std::net::TcpListener;
use std::net::TcpStream;
use std::process::Child;
use std::process::Command;
use std::process::Stdio;
use std::sync::Arc;
use std::thread;
use std::time::Duration;
use tokio::task::yield_now;
use tokio::time::sleep;
use tokio::time::timeout;

const LIMIT: Duration = Duration::from_secs(60);
const STEP: Duration = Duration::from_millis(20);

fn table(jobs: &str) -> JobTable {
    config::load(&[Source::new("jobs.yaml", jobs.as_bytes().to_vec())], DateTime::default()).unwrap().table
}

fn every_second() -> JobTable {
    table("jobs:\n  - {name: beat, schedule: '* * * * * *', command: 'true'}\n")
}

fn beat() -> JobName {
    JobName::new("beat").unwrap()
}

fn counted(store: &Arc<dyn Store>) -> (Arc<Metrics>, Arc<dyn Store>) {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let metrics = Arc::new(Metrics::new(Arc::clone(&clock), store.url()));
    let metered = Metered::new(Arc::clone(store), Arc::clone(&metrics), clock);
    (metrics, Arc::new(metered))
}

/// The sum of all series whose name and labels begin and end so.
fn sum(metrics: &Metrics, begin: &str, part: &str) -> f64 {
    let text = metrics.render();
    let series = text.lines().filter_map(|line| line.rsplit_once(' '));
    series
        .filter(|(name, _)| name.starts_with(begin) && name.contains(part))
        .filter_map(|(_, v)| v.parse::<f64>().ok())
        .sum()
}

/// Replicas on one store, in this process: all of a daemon but its threads, signals and guardian.
struct Fleet {
    store: Arc<dyn Store>,
    metrics: Vec<Arc<Metrics>>,
}

impl Fleet {
    /// Runs three until `done`, and drains them.
    async fn run(table: &JobTable, done: impl AsyncFn(&Self)) -> Self {
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new(Arc::new(SystemClock)));
        let benches =
            ["one", "two", "three"].map(|name| bench_of(ReplicaId::new(name, "1"), Arc::clone(&store), table));
        let metrics = benches.iter().map(|bench| Arc::clone(&bench.driver.hands.metrics)).collect();
        let fleet = Self { store, metrics };
        let senders = benches.each_ref().map(|bench| bench.sender.clone());
        let [one, two, three] = benches.map(run);
        let end = async {
            timeout(LIMIT, done(&fleet)).await.expect("the fleet comes so far");
            for sender in senders {
                sender.send(Message::Asked(Request::End("TERM"))).await.unwrap();
            }
        };
        tokio::join!(one, two, three, end);
        fleet
    }

    fn sum(&self, begin: &str, part: &str) -> f64 {
        self.metrics.iter().map(|metrics| sum(metrics, begin, part)).sum()
    }

    async fn until(&self, what: impl Fn(&Self) -> bool) {
        while !what(self) {
            sleep(STEP).await;
        }
    }
}

/// Runs one until it has drained; its guardian agrees to everything.
async fn run(bench: Bench) {
    let Bench { mut driver, mut orders, sender } = bench;
    drop(sender);
    driver.drain_timeout = Duration::from_secs(20);
    let guardian = async {
        while let Some(order) = orders.recv().await {
            if let Order::Arm(_, _, told) = order {
                let _ = told.send(Ok(()));
            }
        }
    };
    let ((), end) = tokio::join!(guardian, driver.run());
    assert!(matches!(end, End::Drained { .. }), "{end:?}");
}

async fn three_runs(fleet: &Fleet) {
    fleet.until(|fleet| fleet.sum("onecron_runs_total{", "succeeded") >= 3.0).await;
}

#[tokio::test]
async fn three_replicas_count_each_run_once_and_as_the_store_has_it() {
    let fleet = Fleet::run(&every_second(), three_runs).await;
    let history = fleet.store.history(&beat(), usize::MAX).await.unwrap();
    let succeeded = history.iter().filter(|entry| entry.outcome == "succeeded").count() as f64;
    assert!(succeeded >= 3.0);
    assert_eq!(fleet.sum("onecron_runs_total{", "succeeded"), succeeded);
    assert_eq!(fleet.sum("onecron_runs_total{", ""), succeeded, "nothing else ended");
    assert_eq!(fleet.sum("onecron_run_duration_seconds_count", "beat"), succeeded);
    assert_eq!(fleet.sum("onecron_start_delay_seconds_count", ""), succeeded);
    assert!(fleet.sum("onecron_claims_total{", "won") >= succeeded);
    let lost = fleet.sum("onecron_runs_skipped_total{", "claimed_by_other");
    assert!(lost >= succeeded, "two of three skip a tick, or see it decided: {lost}");
    for metrics in &fleet.metrics {
        let of = |begin: &str| sum(metrics, begin, "");
        assert_eq!((of("onecron_ready"), of("onecron_draining"), of("onecron_leases")), (0.0, 1.0, 0.0));
        assert_eq!((of("onecron_runs_running"), of("onecron_places"), of("onecron_store_up")), (0.0, 10.0, 1.0));
        assert!(of("onecron_tick_delay_seconds_count") >= 3.0);
        let age = SystemClock.now().wall.timestamp() as f64 - of("onecron_scheduler_last_tick_timestamp_seconds");
        assert!(age.abs() < 60.0, "{age}");
        assert!(sum(metrics, "onecron_store_requests_total{", "operation=\"apply\",result=\"ok\"") > 0.0);
        assert!(sum(metrics, "onecron_store_request_duration_seconds_count{", "apply") > 0.0);
        assert_eq!(sum(metrics, "onecron_store_requests_total{", "result=\"error\""), 0.0);
    }
}

#[tokio::test]
async fn what_the_store_knows_outlives_every_replica_and_stays_while_it_is_away() {
    let fleet = Fleet::run(&every_second(), three_runs).await;
    let (metrics, store) = counted(&fleet.store);
    metrics.follow(&every_second(), "2026f");
    let mut watch = FleetWatch::new(store, Arc::new(SystemClock), Arc::clone(&metrics));
    watch.read().await.unwrap();
    let of = |begin: &str| sum(&metrics, begin, "beat");
    let now = SystemClock.now().wall.timestamp() as f64;
    for gauge in ["first_seen", "last_due", "last_claimed", "last_success"] {
        let at = of(&format!("onecron_job_{gauge}_timestamp_seconds"));
        assert!((now - 120.0..=now + 1.0).contains(&at), "{gauge} {at} {now}");
    }
    assert!((0.0..60.0).contains(&of("onecron_job_last_duration_seconds")));
    let text = metrics.render();
    for line in [
        "onecron_job_last_exit_code{job_name=\"beat\"} 0",
        "onecron_job_consecutive_failures{job_name=\"beat\"} 0",
        "onecron_replicas 0",
    ] {
        assert!(text.lines().any(|found| found == line), "{line}\n{text}");
    }
    assert!(!text.contains("onecron_job_last_failure"), "none is remembered");
    // Nothing has changed since, and nothing of it is read again.
    let read = |metrics: &Metrics| sum(metrics, "onecron_store_requests_total{", "operation=\"history\"");
    assert_eq!(read(&metrics), 1.0);
    watch.read().await.unwrap();
    assert_eq!(read(&metrics), 1.0);
    let before = of("onecron_job_last_success");
    let (_, away) = counted(&(Arc::new(Broken::Silent) as Arc<dyn Store>));
    let mut away = FleetWatch::new(away, Arc::new(SystemClock), Arc::clone(&metrics));
    assert!(timeout(STEP, away.read()).await.is_err(), "it is away");
    assert_eq!(of("onecron_job_last_success"), before);
}

/// The twin of the rule: a round that never paused would hold up what is due, for as long as its schedules take.
#[tokio::test]
async fn a_round_over_many_jobs_lets_others_have_the_thread() {
    const JOBS: usize = 40;
    let job = |n: usize| format!("  - {{name: j{n:02}, schedule: '@daily', command: 'true'}}\n");
    let table = table(&format!("jobs:\n{}", (0..JOBS).map(job).collect::<String>()));
    let (metrics, store) = counted(&(Arc::new(MemoryStore::new(Arc::new(SystemClock))) as Arc<dyn Store>));
    let register = |spec: &Arc<JobSpec>| {
        Step::Register(Registration {
            job: spec.name.clone(),
            schedule: spec.schedule.record(),
            zone: "UTC".into(),
            spec_hash: spec.spec_hash.clone(),
            skew_tolerance_ms: 0,
            keep_ms: 60_000,
            history: [10, 10, 10],
            quiet_ms: 0,
            passed: None,
            knew: None,
        })
    };
    store.apply(&table.jobs.iter().map(register).collect::<Vec<_>>()).await.unwrap();
    metrics.follow(&table, "2026f");
    let mut watch = FleetWatch::new(store, Arc::new(SystemClock), Arc::clone(&metrics));
    let mut turns = 0;
    let others = async {
        loop {
            turns += 1;
            yield_now().await;
        }
    };
    tokio::select! {
        biased;
        read = watch.read() => read.unwrap(),
        () = others => {}
    }
    assert!(turns >= JOBS, "{turns}");
    assert_eq!(metrics.render().matches("onecron_job_first_seen_timestamp_seconds{").count(), JOBS);
}

fn claim(take: bool) -> Step {
    Step::Claim(Claim {
        run: RunKey::new(beat(), Tick::from_seconds(1_772_330_400)),
        owner: ReplicaId::new("one", "1"),
        previous: 0,
        delay_ms: 0,
        take,
        takeover: None,
        lease_ms: 15_000,
        grace_ms: 0,
        takeover_ms: 5_000,
        stop_grace_ms: 0,
        exclusive: true,
        when_busy: WhenBusy::Skip,
        rerun: false,
        trigger: "schedule".into(),
        spec_hash: String::new(),
    })
}

#[tokio::test]
async fn a_request_that_nobody_waits_for_any_more_is_one_whose_end_is_unknown() {
    let (metrics, store) = counted(&(Arc::new(Broken::Silent) as Arc<dyn Store>));
    metrics.follow(&every_second(), "2026f");
    assert!(timeout(STEP, store.apply(&[claim(true), claim(false)])).await.is_err());
    assert!(timeout(STEP, store.identity()).await.is_err());
    assert_eq!(sum(&metrics, "onecron_store_requests_total{", "operation=\"apply\",result=\"unknown\""), 1.0);
    assert_eq!(sum(&metrics, "onecron_claims_total{", "error"), 1.0, "a question is no claim");
    assert!(sum(&metrics, "onecron_store_request_duration_seconds_sum{", "apply") >= STEP.as_secs_f64());
    assert_eq!(sum(&metrics, "onecron_store_up", ""), 0.0);
}

#[tokio::test]
async fn a_store_that_refuses_is_no_store_that_is_away() {
    let (metrics, store) = counted(&(Arc::new(Broken::Refusing) as Arc<dyn Store>));
    assert!(store.apply(&[]).await.is_err());
    assert_eq!(sum(&metrics, "onecron_store_requests_total{", "result=\"refused\""), 1.0);
    assert_eq!(sum(&metrics, "onecron_store_requests_total{", "result=\"unknown\""), 0.0);
}

#[tokio::test]
async fn a_claim_that_is_answered_is_counted_by_its_answer() {
    let (metrics, store) = counted(&(Arc::new(MemoryStore::new(Arc::new(SystemClock))) as Arc<dyn Store>));
    metrics.follow(&every_second(), "2026f");
    store.apply(&[claim(true)]).await.unwrap();
    assert_eq!(sum(&metrics, "onecron_claims_total{", "refused"), 1.0, "nobody has registered the job");
    assert_eq!(sum(&metrics, "onecron_claims_total{", ""), 1.0);
}

#[test]
fn what_is_logged_is_counted() {
    let metrics = Arc::new(Metrics::new(Arc::new(SystemClock), "memory:"));
    let spans = RunSpans::new(None, Arc::new(SystemClock));
    let mut reporter =
        Reporter::new(&every_second(), Arc::clone(&metrics), (Post::nowhere(Arc::clone(&metrics)), spans));
    let run = RunKey::new(beat(), Tick::from_seconds(1_772_330_400));
    let facts = || RunFacts { run: run.clone(), trigger: Trigger::Schedule, start: 1, token: None };
    let ending = |outcome| Ending {
        outcome,
        exit_code: Some(1),
        signal: None,
        http_status: None,
        duration_ms: 2000,
        error: String::new(),
        output_tail: String::new(),
    };
    let holder = ReplicaId::new("two", "1");
    let (first, through) = (Tick::from_seconds(1), Tick::from_seconds(60));
    let second = Duration::from_secs(1);
    for outcome in [Outcome::Failed, Outcome::TimedOut, Outcome::Failed] {
        let (facts, ending) = (facts(), ending(outcome));
        reporter.say(Notice::RunFinished { facts, ending, attempts: 1, output_bytes: 0, again: false });
    }
    for &reason in SkipReason::ALL {
        let (holder, holder_run, age) = (None, None, None);
        reporter.say(Notice::RunSkipped { facts: facts(), reason, holder, holder_run, age });
    }
    reporter.say(Notice::RunMissed { facts: facts(), reason: MissedReason::NoReplica, late_ms: 5 });
    reporter.say(Notice::RunsMissed { job: beat(), first, through, count: 60, reason: MissedReason::NoReplica });
    reporter.say(Notice::RunLost { facts: facts(), holder: holder.clone(), rerun: false });
    let holder = Some(holder);
    reporter.say(Notice::LeaseLost { facts: facts(), holder, unconfirmed_for: second, stops: true });
    reporter.say(Notice::RunRetried { facts: facts(), ending: ending(Outcome::Failed), next_in: second });
    reporter.say(Notice::MeetingFails { detail: "no".into() });
    let text = metrics.render();
    for line in [
        "onecron_runs_total{job_name=\"beat\",outcome=\"failed\"} 2",
        "onecron_runs_total{job_name=\"beat\",outcome=\"timed_out\"} 1",
        "onecron_run_duration_seconds_sum{job_name=\"beat\"} 6",
        "onecron_runs_missed_total{job_name=\"beat\",reason=\"no_replica\"} 61",
        "onecron_runs_lost_total{job_name=\"beat\"} 1",
        "onecron_lease_lost_total{job_name=\"beat\"} 1",
        "onecron_run_retries_total{job_name=\"beat\"} 1",
        "onecron_store_unsafe{check=\"presence\"} 1",
    ] {
        assert!(text.lines().any(|found| found == line), "{line}\n{text}");
    }
    let skipped = text.lines().filter(|line| line.starts_with("onecron_runs_skipped_total{"));
    assert_eq!(skipped.filter(|line| line.ends_with(" 1")).count(), SkipReason::ALL.len());
}

#[tokio::test]
async fn lines_that_are_cut_are_counted() {
    let line =
        "jobs:\n  - {name: beat, schedule: '* * * * * *', command: 'printf %9000d 1', output: {mode: Discard}}\n";
    let table = table(line);
    let one_run = async |fleet: &Fleet| {
        fleet.until(|fleet| fleet.sum("onecron_runs_total{", "succeeded") >= 1.0).await;
    };
    let fleet = Fleet::run(&table, one_run).await;
    let (runs, cut) =
        (fleet.sum("onecron_runs_total{", "succeeded"), fleet.sum("onecron_run_output_truncated_total", ""));
    assert_eq!(cut, runs);
}

/// Whether a program of Prometheus is here. `REQUIRE_TOOLS` names those that have to be.
fn has(program: &str) -> bool {
    let is_there = Command::new(program).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok();
    let required = std::env::var("REQUIRE_TOOLS").unwrap_or_default();
    assert!(is_there || !required.split(' ').any(|tool| tool == program), "{program} is required and not installed");
    if !is_there {
        println!("skipped: {program} is not installed");
    }
    is_there
}

fn promtool(arguments: &[&str], input: &str) -> (bool, String) {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/deploy/prometheus");
    let (stdin, output) = (Stdio::piped(), || Stdio::piped());
    let mut tool = Command::new("promtool");
    let mut tool =
        tool.args(arguments).current_dir(folder).stdin(stdin).stdout(output()).stderr(output()).spawn().unwrap();
    tool.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let said = tool.wait_with_output().unwrap();
    let text = format!("{}{}", String::from_utf8_lossy(&said.stdout), String::from_utf8_lossy(&said.stderr));
    (said.status.success(), text)
}

#[tokio::test]
async fn promtool_finds_nothing_to_say_about_the_metrics() {
    if !has("promtool") {
        return;
    }
    let fleet = Fleet::run(&every_second(), three_runs).await;
    for metrics in &fleet.metrics {
        let (is_good, text) = promtool(&["check", "metrics"], &metrics.render());
        assert!(is_good && text.trim().is_empty(), "{text}");
    }
    let (is_good, _) = promtool(&["check", "metrics"], "# TYPE runs counter\nruns 1\n");
    assert!(!is_good, "a counter without `_total` is found");
}

#[test]
fn promtool_takes_the_rules_and_each_alert_fires_when_it_should() {
    if !has("promtool") {
        return;
    }
    for arguments in
        [["check", "rules", "rules.yaml"], ["test", "rules", "rules_test.yaml"], ["check", "config", "prometheus.yaml"]]
    {
        let (is_good, text) = promtool(&arguments, "");
        assert!(is_good, "{arguments:?}: {text}");
    }
}

/// Each alert's tests fail with a rule that is always, or never, true.
#[test]
fn a_rule_that_is_wrong_fails_its_tests() {
    if !has("promtool") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let read =
        |file: &str| fs::read_to_string(format!("{}/deploy/prometheus/{file}", env!("CARGO_MANIFEST_DIR"))).unwrap();
    let rules = read("rules.yaml");
    fs::write(folder.path().join("rules_test.yaml"), read("rules_test.yaml")).unwrap();
    let test = folder.path().join("rules_test.yaml").display().to_string();
    for (right, wrong) in [
        ("onecron_job_last_claimed_timestamp_seconds)", "onecron_job_last_due_timestamp_seconds)"),
        ("or max by (namespace, job, job_name) (onecron_job_first_seen_timestamp_seconds)", ""),
        ("or absent(up{job=\"onecron\"})", ""),
        ("onecron_job_consecutive_failures) >= 3", "onecron_job_consecutive_failures) >= 2"),
    ] {
        assert!(rules.contains(right), "{right}");
        fs::write(folder.path().join("rules.yaml"), rules.replace(right, wrong)).unwrap();
        let (is_good, text) = promtool(&["test", "rules", &test], "");
        assert!(!is_good, "{right} -> {wrong}: {text}");
    }
}

/// Each query of the dashboard, with what Grafana puts in for its variables, as a rule.
fn dashboard_as_rules() -> String {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/deploy/grafana/dashboard.json");
    let dashboard: serde_json::Value = serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap();
    let list = |of: &serde_json::Value, key: &str| of[key].as_array().cloned().unwrap_or_default();
    let targets = list(&dashboard, "panels").into_iter().flat_map(|panel| list(&panel, "targets"));
    let queries = targets.chain(list(&dashboard["annotations"], "list"));
    let mut rules = "groups:\n  - name: dashboard\n    rules:\n".to_owned();
    for (at, query) in queries.filter_map(|one| Some(one["expr"].as_str()?.to_owned())).enumerate() {
        let query = query.replace("$__rate_interval", "5m").replace("$namespace", ".*").replace("$job_name", ".*");
        let query = serde_json::Value::from(query);
        rules.push_str(&format!("      - {{record: 'query:{at}', expr: {query}}}\n"));
    }
    rules
}

#[test]
fn promtool_takes_every_query_of_the_dashboard() {
    if !has("promtool") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("queries.yaml");
    let rules = dashboard_as_rules();
    assert!(rules.matches("record:").count() > 30, "{rules}");
    let check = |rules: &str| {
        fs::write(&file, rules).unwrap();
        promtool(&["check", "rules", file.to_str().unwrap()], "")
    };
    let (is_good, text) = check(&rules);
    assert!(is_good, "{text}");
    assert!(!check(&rules.replacen("sum", "summ", 1)).0, "a query that is none is found");
}

/// Answers every request with the metrics, until the test is over.
fn serve(metrics: &Arc<Metrics>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (address, metrics) = (listener.local_addr().unwrap(), Arc::clone(metrics));
    thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let _ = answer(stream, &metrics.render());
        }
    });
    address
}

fn answer(mut stream: TcpStream, body: &str) -> io::Result<()> {
    stream.set_read_timeout(Some(Duration::from_secs(5)))?;
    let mut request = Vec::new();
    while !request.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte)?;
        request.push(byte[0]);
    }
    let head = "HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\nConnection: close";
    write!(stream, "{head}\r\nContent-Length: {}\r\n\r\n{body}", body.len())
}

/// A Prometheus in a temporary folder, killed when dropped.
struct Prometheus {
    child: Child,
    address: String,
    _folder: tempfile::TempDir,
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        // By the handle of the process that we started; already gone is fine.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Prometheus {
    fn start(targets: &[SocketAddr]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let targets: Vec<String> = targets.iter().map(|target| format!("\"{target}\"")).collect();
        let rules = concat!(env!("CARGO_MANIFEST_DIR"), "/deploy/prometheus/rules.yaml");
        let config = format!(
            "global: {{scrape_interval: 250ms, scrape_timeout: 250ms, evaluation_interval: 250ms}}\nrule_files: [{rules:?}]\n\
             scrape_configs:\n  - job_name: onecron\n    static_configs: [{{targets: [{}]}}]\n",
            targets.join(", ")
        );
        fs::write(folder.path().join("prometheus.yaml"), config).unwrap();
        let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
        let child = Command::new("prometheus")
            .current_dir(folder.path())
            .args(["--config.file=prometheus.yaml", "--storage.tsdb.path=data"])
            .arg(format!("--web.listen-address={address}"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        Self { child, address, _folder: folder }
    }

    /// The answer to a GET, once there is one that has all of these.
    async fn get(&self, path: &str, wanted: &[&str]) -> String {
        let asked = async {
            loop {
                let text = self.ask(path).unwrap_or_default();
                if wanted.iter().all(|part| text.contains(part)) {
                    return text;
                }
                sleep(STEP).await;
            }
        };
        match timeout(LIMIT, asked).await {
            Ok(text) => text,
            Err(_) => panic!("{path}: {wanted:?} are not in {}", self.ask(path).unwrap_or_default()),
        }
    }

    fn ask(&self, path: &str) -> io::Result<String> {
        let mut stream = TcpStream::connect(&self.address)?;
        stream.set_read_timeout(Some(Duration::from_secs(5)))?;
        write!(stream, "GET {path} HTTP/1.0\r\n\r\n")?;
        let mut text = String::new();
        stream.read_to_string(&mut text)?;
        Ok(text)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_prometheus_scrapes_three_replicas() {
    if !has("prometheus") {
        return;
    }
    let seen = async |fleet: &Fleet| {
        let targets: Vec<SocketAddr> = fleet.metrics.iter().map(serve).collect();
        let prometheus = Prometheus::start(&targets);
        prometheus.get("/api/v1/query?query=sum(up)", &["\"3\""]).await;
        let runs = "/api/v1/query?query=sum%20by%20(job,job_name)%20(onecron_runs_total)%3E2";
        prometheus.get(runs, &["\"job\":\"onecron\"", "\"job_name\":\"beat\""]).await;
        let all =
            prometheus.get("/api/v1/series?match[]={job=\"onecron\"}", &["onecron_run_duration_seconds_bucket"]).await;
        let renamed: BTreeSet<&str> =
            all.split("exported_").skip(1).filter_map(|rest| rest.split('"').next()).collect();
        assert!(renamed.is_empty(), "labels of ours are Prometheus' own: {renamed:?}");
        let rules = prometheus.get("/api/v1/rules", &["OnecronJobStale", "\"health\":\"ok\""]).await;
        assert!(!rules.contains("\"health\":\"err\""), "{rules}");
    };
    Fleet::run(&every_second(), seen).await;
}
