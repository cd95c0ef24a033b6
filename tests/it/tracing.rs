//! Traces of runs, as a collector receives them.

use crate::processes::until;
use crate::support::client::get;
use crate::support::daemon::Daemon;
use crate::support::daemon::LIMIT;
use crate::support::daemon::Launch;
use crate::support::daemon::Table;
use crate::support::server::free_port;
use crate::support::web::Act;
use crate::support::web::Authority;
use crate::support::web::Seen;
use crate::support::web::Web;
use crate::support::web::answer;
use crate::support::web::ok;
use nix::sys::signal::Signal;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTracePartialSuccess;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceResponse;
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::common::v1::any_value::Value as Any;
use opentelemetry_proto::tonic::trace::v1::ResourceSpans;
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message;
use serde_json::Value;
use std::io::Read;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering;
use std::time::Duration;

const OFTEN: &str = "  - {name: often, schedule: '* * * * * *', command: 'echo told $TRACEPARENT'}\n";

/// Something that takes spans.
fn collector() -> Web {
    Web::start(|_| ok())
}

/// A daemon that sends its spans there, soon.
fn traced(table: &Table, endpoint: &str) -> Launch {
    let launch = table.launch("memory:").env("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint);
    launch.env("OTEL_BSP_SCHEDULE_DELAY", "50")
}

fn received(seen: &Seen) -> Vec<ResourceSpans> {
    let mut bytes = seen.bytes.clone();
    if seen.header("content-encoding") == "gzip" {
        bytes.clear();
        flate2::read::GzDecoder::new(&seen.bytes[..]).read_to_end(&mut bytes).unwrap();
    }
    ExportTraceServiceRequest::decode(&bytes[..]).unwrap().resource_spans
}

fn spans(web: &Web) -> Vec<Span> {
    let all = web.seen().iter().flat_map(received).collect::<Vec<_>>();
    all.into_iter().flat_map(|of| of.scope_spans).flat_map(|of| of.spans).collect()
}

/// The value of an attribute, as text.
fn of(attributes: &[KeyValue], key: &str) -> String {
    let found = attributes.iter().find(|pair| pair.key == key).and_then(|pair| pair.value.clone()?.value);
    match found {
        Some(Any::StringValue(text)) => text,
        Some(Any::IntValue(number)) => number.to_string(),
        other => panic!("{key} is {other:?} in {attributes:?}"),
    }
}

fn has(attributes: &[KeyValue], key: &str) -> bool {
    attributes.iter().any(|pair| pair.key == key)
}

/// The span of a run, once it has arrived.
fn span_of(web: &Web, run_id: &str) -> Span {
    let find = || spans(web).into_iter().find(|span| of(&span.attributes, "onecron.run_id") == run_id);
    until("the span has arrived", || find().is_some());
    find().unwrap()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The end of some run.
fn finished(daemon: &Daemon) -> Value {
    daemon.wait_for_event("run_finished")
}

fn run_id(line: &Value) -> &str {
    line["run_id"].as_str().unwrap()
}

fn text(line: &Value, key: &str) -> String {
    line[key].as_str().unwrap_or_else(|| panic!("no {key} in {line}")).to_owned()
}

#[test]
fn a_run_is_a_span_and_its_job_and_its_log_know_which() {
    let (table, web) = (Table::new(OFTEN), collector());
    let launch = traced(&table, &web.url("")).env("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Bearer%20hunter2");
    let launch = launch.env("OTEL_SERVICE_NAME", "nightly").env("OTEL_RESOURCE_ATTRIBUTES", "team=a%2Cb");
    let daemon = launch.env("POD_NAME", "web-7d9f").env("ONECRON_LOG_LEVEL", "debug").start();
    let started = daemon.wait_for_event("tracing_started");
    assert_eq!(started["endpoint"], web.url("/v1/traces"));
    let end = finished(&daemon);
    let span = span_of(&web, run_id(&end));
    assert_eq!((span.name.as_str(), span.kind), ("run often", 1));
    assert!(span.parent_span_id.is_empty() && span.start_time_unix_nano <= span.end_time_unix_nano);
    for (key, value) in [
        ("onecron.job", "often".to_owned()),
        ("onecron.scheduled_for", end["scheduled_for"].as_str().unwrap().to_owned()),
        ("onecron.trigger", "schedule".to_owned()),
        ("onecron.attempt", "1".to_owned()),
        ("onecron.token", end["token"].to_string()),
        ("onecron.outcome", "succeeded".to_owned()),
        ("process.exit.code", "0".to_owned()),
    ] {
        assert_eq!(of(&span.attributes, key), value, "{key}");
    }
    assert!(!has(&span.attributes, "error.type") && span.status.unwrap_or_default().code == 0);
    let (trace_id, span_id) = (hex(&span.trace_id), hex(&span.span_id));
    let said = daemon.wait_for(|line| line["event"] == "run_output" && line["run_id"] == end["run_id"], LIMIT);
    assert_eq!(said["line"], format!("told 00-{trace_id}-{span_id}-01"));
    for event in ["run_claimed", "run_started", "run_output", "run_finished"] {
        let line = daemon.wait_for(|line| line["event"] == event && line["run_id"] == end["run_id"], LIMIT);
        assert_eq!(
            (&line["trace_id"], &line["span_id"]),
            (&trace_id.clone().into(), &span_id.clone().into()),
            "{event}"
        );
    }
    let request = web.seen().remove(0);
    assert_eq!(request.line, "POST /v1/traces HTTP/1.1");
    assert_eq!(
        (request.header("authorization").as_str(), request.header("content-type").as_str()),
        ("Bearer hunter2", "application/x-protobuf")
    );
    let resource = received(&request).remove(0).resource.unwrap().attributes;
    for (key, value) in [("service.name", "nightly"), ("team", "a,b"), ("k8s.pod.name", "web-7d9f")] {
        assert_eq!(of(&resource, key), value);
    }
    assert_eq!(of(&resource, "service.instance.id"), daemon.replica());
}

#[test]
fn without_an_endpoint_no_job_and_no_line_knows_of_a_trace() {
    let table = Table::new(OFTEN);
    let launch = table.launch("memory:").env("OTEL_SERVICE_NAME", "nightly").env("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc");
    let daemon = launch.start();
    finished(&daemon);
    assert_eq!(daemon.wait_for_event("run_output")["line"], "told");
    assert!(daemon.lines().iter().all(|line| line.get("trace_id").is_none()));
    assert!(daemon.events("tracing_started").is_empty() && daemon.events("setting_warning").is_empty());
}

#[test]
fn a_run_that_fails_is_an_error_and_its_attempts_are_events() {
    let job = "  - {name: often, schedule: '* * * * * *', command: 'exit 3', retry: {limit: 1, backoff: 100ms}}\n";
    let (table, web) = (Table::new(job), collector());
    let daemon = traced(&table, &web.url("")).start();
    let span = span_of(&web, run_id(&finished(&daemon)));
    let status = span.status.clone().unwrap();
    assert_eq!((status.code, status.message.as_str()), (2, "failed: exit code 3"));
    assert_eq!(
        (of(&span.attributes, "onecron.outcome"), of(&span.attributes, "error.type")),
        ("failed".into(), "failed".into())
    );
    assert_eq!(
        (of(&span.attributes, "process.exit.code"), of(&span.attributes, "onecron.attempts")),
        ("3".into(), "2".into())
    );
    let events: Vec<&str> = span.events.iter().map(|event| event.name.as_str()).collect();
    assert_eq!(events, ["run_started", "run_retried", "run_started"]);
    assert_eq!(of(&span.events[1].attributes, "process.exit.code"), "3");
    assert_eq!(of(&span.events[2].attributes, "onecron.attempt"), "2");
}

#[test]
fn a_claim_that_comes_to_nothing_says_why() {
    let (table, web) = (Table::new("  - {name: long, schedule: '* * * * * *', command: 'sleep 30'}\n"), collector());
    let daemon = traced(&table, &web.url("")).start();
    let is_wanted = |line: &Value| line["event"] == "run_skipped" && line["reason"] == "overlap";
    let skipped = daemon.wait_for(is_wanted, LIMIT);
    let span = span_of(&web, run_id(&skipped));
    assert_eq!((hex(&span.trace_id), hex(&span.span_id)), (text(&skipped, "trace_id"), text(&skipped, "span_id")));
    assert_eq!(
        (of(&span.attributes, "onecron.outcome"), of(&span.attributes, "onecron.reason")),
        ("skipped".into(), "overlap".into())
    );
    assert_eq!(span.status.unwrap_or_default().code, 0, "it is as the table wants it");
    let running = daemon.wait_for_event("run_started");
    assert!(spans(&web).iter().all(|span| of(&span.attributes, "onecron.run_id") != run_id(&running)), "it goes on");
}

#[test]
fn a_request_has_the_span_of_its_run_as_parent() {
    let (web, target) = (collector(), Web::start(|_| ok()));
    let job = format!("  - {{name: often, schedule: '* * * * * *', http: {{url: '{}'}}}}\n", target.url("/x"));
    let table = Table::new(&job);
    let daemon = traced(&table, &web.url("")).start();
    let end = finished(&daemon);
    let span = span_of(&web, run_id(&end));
    let request = target.seen().into_iter().find(|seen| seen.header("onecron-run-id") == run_id(&end)).unwrap();
    let parent = format!("00-{}-{}-01", hex(&span.trace_id), hex(&span.span_id));
    assert_eq!((request.header("traceparent"), request.has("tracestate")), (parent, false));
    assert_eq!(of(&span.attributes, "http.response.status_code"), "200");
}

#[test]
fn what_is_not_sampled_is_not_sent_and_jobs_are_told_so() {
    let (table, web) = (Table::new(OFTEN), collector());
    let mut daemon = traced(&table, &web.url("")).env("OTEL_TRACES_SAMPLER", "always_off").start();
    finished(&daemon);
    let told = daemon.wait_for_event("run_output")["line"].as_str().unwrap().to_owned();
    assert!(told.starts_with("told 00-") && told.ends_with("-00"), "{told}");
    daemon.signal(Signal::SIGTERM);
    assert_eq!((daemon.wait_for_exit(), web.connections()), (0, 0));
    assert!(daemon.events("spans_dropped").is_empty());
}

#[test]
fn a_collector_that_is_down_costs_spans_and_no_run() {
    let table = Table::new(OFTEN);
    let launch = traced(&table, &format!("http://app:hunter2@127.0.0.1:{}", free_port()));
    let mut daemon = launch.env("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Bearer%20hunter2").start();
    daemon.wait_for_event("trace_export_failed");
    let runs = daemon.wait_for_many(4, |line| line["event"] == "run_finished", LIMIT);
    assert!(runs.iter().all(|line| line["outcome"] == "succeeded"));
    daemon.signal(Signal::SIGTERM);
    assert_eq!(daemon.wait_for_exit(), 0);
    assert_eq!(daemon.events("trace_export_failed").len(), 1, "said when it begins, and not each time");
    let finished = daemon.events("run_finished").len() as u64;
    let lost: u64 = daemon.events("spans_dropped").iter().map(|line| line["spans"].as_u64().unwrap()).sum();
    assert!(lost >= finished, "{lost} of {finished}");
    assert!(daemon.lines().iter().all(|line| !line.to_string().contains("hunter2")));
}

#[test]
fn a_collector_that_never_answers_does_not_hold_up_the_end() {
    let (table, web) = (Table::new(OFTEN), Web::start(|_| vec![Act::Hold]));
    let mut daemon = traced(&table, &web.url("")).env("OTEL_EXPORTER_OTLP_TIMEOUT", "60000").start();
    until("it has a request", || web.connections() > 0);
    daemon.signal(Signal::SIGTERM);
    let asked = crate::processes::now();
    assert_eq!(daemon.wait_for_exit(), 0);
    assert!(crate::processes::now().since(asked) < Duration::from_secs(15));
    assert_eq!(daemon.events("spans_dropped").len(), 1);
}

#[test]
fn the_last_spans_are_sent_before_the_end() {
    let (table, web) = (Table::new(OFTEN), collector());
    let launch = traced(&table, &web.url("")).env("OTEL_BSP_SCHEDULE_DELAY", "60000");
    let mut daemon = launch.env("OTEL_EXPORTER_OTLP_COMPRESSION", "gzip").start();
    finished(&daemon);
    assert_eq!(web.connections(), 0, "they wait for more");
    daemon.signal(Signal::SIGTERM);
    assert_eq!(daemon.wait_for_exit(), 0);
    let runs: Vec<String> = daemon.events("run_finished").iter().map(|line| run_id(line).to_owned()).collect();
    let sent: Vec<String> = spans(&web).iter().map(|span| of(&span.attributes, "onecron.run_id")).collect();
    assert!(runs.iter().all(|run| sent.contains(run)), "{runs:?} {sent:?}");
    assert_eq!(web.only().header("content-encoding"), "gzip");
    assert!(daemon.events("spans_dropped").is_empty());
}

/// `503` until it has said so twice.
fn slow_to_wake() -> Web {
    let asked = AtomicUsize::new(0);
    Web::start(move |_| if asked.fetch_add(1, Ordering::SeqCst) < 2 { answer(503, "", "later") } else { ok() })
}

#[test]
fn a_batch_that_may_pass_is_sent_again_and_one_that_is_refused_is_not() {
    let (table, web) = (Table::new(OFTEN), slow_to_wake());
    let daemon = traced(&table, &web.url("")).start();
    let failed = daemon.wait_for_event("trace_export_failed");
    assert!(failed["error"].as_str().unwrap().contains("503"), "{failed}");
    daemon.wait_for_event("trace_export_recovered");
    let first = web.seen().remove(0);
    assert!(web.seen()[1..].iter().any(|seen| seen.bytes == first.bytes), "the same batch");
    assert!(daemon.events("spans_dropped").is_empty());

    let refusing = Web::start(|_| answer(400, "", "no"));
    let daemon = traced(&table, &refusing.url("")).start();
    assert!(daemon.wait_for_event("spans_dropped")["spans"].as_u64().unwrap() >= 1);
    let bodies: Vec<Vec<u8>> = refusing.seen().into_iter().map(|seen| seen.bytes).collect();
    assert!(bodies.iter().enumerate().all(|(at, body)| !bodies[..at].contains(body)), "none was sent twice");
}

#[test]
fn spans_that_a_collector_rejects_are_counted_as_lost() {
    let partial = ExportTracePartialSuccess { rejected_spans: 1, error_message: "too old\nfor hunter2".to_owned() };
    let body = ExportTraceServiceResponse { partial_success: Some(partial) }.encode_to_vec();
    let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len());
    let web = Web::start(move |_| vec![Act::Send([head.as_bytes(), &body].concat())]);
    let table = Table::new(OFTEN);
    let launch = traced(&table, &web.url("")).arg("--listen").arg("127.0.0.1:0");
    let daemon = launch.env("OTEL_EXPORTER_OTLP_HEADERS", "authorization=hunter2").start();
    assert_eq!(daemon.wait_for_event("spans_dropped")["spans"], 1);
    daemon.wait_for_many(3, |line| line["event"] == "run_finished", LIMIT);
    let said = daemon.events("spans_rejected");
    let [rejected] = &said[..] else { panic!("it is said once: {said:?}") };
    assert_eq!((&rejected["spans"], &rejected["error"]), (&1.into(), &"too old for ***".into()));
    assert!(daemon.events("trace_export_failed").is_empty(), "the others have arrived");
    let address = text(&daemon.wait_for_event("http_listening"), "address");
    let metrics = get(&address, "/metrics").body;
    assert!(metrics.contains("onecron_spans_lost_total{reason=\"queue_full\"} 0\n"), "{metrics}");
    assert!(!metrics.contains("onecron_spans_lost_total{reason=\"rejected\"} 0\n"), "{metrics}");
}

#[test]
fn what_cannot_be_done_is_said_at_the_start_and_nothing_else_changes() {
    let (table, web) = (Table::new(OFTEN), collector());
    let daemon = traced(&table, &web.url("")).env("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc").start();
    let warning = daemon.wait_for_event("setting_warning");
    assert_eq!(warning["setting"], "OTEL_EXPORTER_OTLP_PROTOCOL");
    assert!(warning["detail"].as_str().unwrap().contains("http/protobuf"), "{warning}");
    finished(&daemon);
    assert_eq!(web.connections(), 0);
}

#[test]
fn a_private_authority_vouches_for_a_collector_and_another_one_counts_when_it_is_written() {
    let (table, authority, stranger) = (Table::new(OFTEN), Authority::new(), Authority::new());
    let web = Web::secure(&authority, |_| ok());
    let file = table.folder.path().join("collector.pem");
    std::fs::copy(stranger.file(), &file).unwrap();
    let endpoint = format!("https://127.0.0.1:{}", web.port);
    let launch = traced(&table, &endpoint).env("OTEL_EXPORTER_OTLP_CERTIFICATE", &file.display().to_string());
    let daemon = launch.start();
    let error = text(&daemon.wait_for_event("trace_export_failed"), "error");
    assert!(error.contains("invalid peer certificate"), "to the last cause: {error}");
    assert!(web.seen().is_empty());
    std::fs::remove_file(&file).unwrap();
    let is_of_the_file =
        |line: &Value| line["event"] == "trace_export_failed" && text(line, "error").contains("collector.pem");
    daemon.wait_for(is_of_the_file, LIMIT);
    std::fs::copy(authority.file(), &file).unwrap();
    daemon.wait_for_event("trace_export_recovered");
    span_of(&web, run_id(&finished(&daemon)));
}

#[test]
fn a_job_is_told_no_trace_where_nobody_wants_that_and_its_own_word_wins() {
    let own = "  - {name: own, schedule: '* * * * * *', command: 'echo told $TRACEPARENT', env: {TRACEPARENT: mine}}\n";
    let (table, web) = (Table::new(own), collector());
    let daemon = traced(&table, &web.url("")).start();
    let said = daemon.wait_for_event("run_output");
    assert_eq!(said["line"], "told mine");
    assert!(said["trace_id"].is_string(), "it is traced all the same: {said}");

    let table = Table::new(OFTEN);
    let daemon = traced(&table, &web.url("")).env("OTEL_PROPAGATORS", "none").start();
    let said = daemon.wait_for_event("run_output");
    assert_eq!(said["line"], "told");
    span_of(&web, run_id(&said));
}
