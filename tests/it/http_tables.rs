//! Jobs that are HTTP requests, in the table.

use chrono::DateTime;
use chrono::Utc;
use onecron::config;
use onecron::config::Source;
use onecron::job::EnvValue;
use onecron::job::HttpSpec;
use onecron::job::JobSpec;
use onecron::job::ProxySpec;
use std::fs;
use std::path::Path;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

const KEYS: [&str; 10] = [
    "method",
    "url",
    "headers",
    "body",
    "expectStatus",
    "timeout",
    "connectTimeout",
    "followRedirects",
    "caFile",
    "proxy",
];

fn file(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

fn now() -> DateTime<Utc> {
    DateTime::parse_from_rfc3339("2026-03-01T00:00:00Z").unwrap().into()
}

fn jobs(text: &str) -> Vec<Arc<JobSpec>> {
    let loaded = config::load(&[Source::new("jobs.yaml", text.as_bytes().to_vec())], now());
    loaded.unwrap_or_else(|problems| panic!("{}", config::render(&problems))).table.jobs
}

fn hash(http: &str) -> String {
    jobs(&format!("jobs: [{{name: a, schedule: '@daily', http: {{{http}}}}}]")).remove(0).spec_hash.clone()
}

#[test]
fn a_request_has_the_documented_values_and_those_that_are_written() {
    let jobs = jobs(&fs::read_to_string(file("tests/fixtures/tables/good/http.yaml")).unwrap());
    let http = |at: usize| jobs[at].action.http().unwrap().clone();
    let short = HttpSpec {
        method: "POST".to_owned(),
        url: EnvValue::Text("http://sessions.internal:8080/admin/purge".to_owned()),
        headers: vec![],
        body: None,
        expect_status: vec![200..=299],
        timeout: Duration::from_secs(300),
        first_byte_timeout: Duration::from_secs(60),
        connect_timeout: Duration::from_secs(10),
        follow_redirects: true,
        ca_file: None,
        proxy: ProxySpec::Environment,
    };
    assert_eq!(http(0), short);
    let long = HttpSpec {
        method: "PUT".to_owned(),
        url: EnvValue::FromFile("/run/secrets/url".into()),
        headers: vec![
            ("Authorization".to_owned(), EnvValue::FromFile("/run/secrets/authorization".into())),
            ("Content-Type".to_owned(), EnvValue::Text("application/json".to_owned())),
        ],
        body: Some(EnvValue::Text("{\"all\": true}".to_owned())),
        expect_status: vec![200..=204, 404..=404, 409..=410],
        timeout: Duration::from_secs(5400),
        first_byte_timeout: Duration::from_secs(5400),
        connect_timeout: Duration::from_secs(3),
        follow_redirects: false,
        ca_file: Some("/etc/ssl/private-ca.pem".into()),
        proxy: ProxySpec::Url(EnvValue::FromEnv("PROXY".to_owned())),
    };
    assert_eq!(http(1), long);
    assert_eq!((http(2).expect_status, http(2).proxy), (vec![204..=204], ProxySpec::None));
    assert!(jobs.iter().all(|job| job.termination_grace_period == Duration::from_secs(1)), "nothing needs longer");
}

#[test]
fn the_hash_of_a_definition_sees_every_key_of_a_request() {
    let other = [
        "url: 'http://a/b'",
        "url: {fromEnv: A}",
        "url: {fromFile: /a}",
        "url: 'http://a/', method: PUT",
        "url: 'http://a/', headers: {A: b}",
        "url: 'http://a/', headers: {A: {fromEnv: b}}",
        "url: 'http://a/', body: b",
        "url: 'http://a/', expectStatus: [200]",
        "url: 'http://a/', timeout: 1m",
        "url: 'http://a/', connectTimeout: 1s",
        "url: 'http://a/', followRedirects: false",
        "url: 'http://a/', caFile: /a",
        "url: 'http://a/', proxy: none",
        "url: 'http://a/', proxy: 'http://a/'",
    ];
    let plain = hash("url: 'http://a/'");
    let mut hashes: Vec<String> = other.iter().map(|http| hash(http)).chain([plain.clone()]).collect();
    hashes.sort();
    hashes.dedup();
    assert_eq!(hashes.len(), other.len() + 1);
    assert_eq!(plain, hash("connectTimeout: 10s, method: post, url: 'http://a/', expectStatus: ['200-299']"));
}

#[test]
fn example_and_guide_show_every_key_of_a_request() {
    let example = fs::read_to_string(file("jobs.example.yaml")).unwrap();
    let guide = fs::read_to_string(file("docs/jobs.md")).unwrap();
    for key in KEYS {
        assert!(example.contains(&format!("      {key}:")), "jobs.example.yaml does not show {key}");
        assert!(guide.contains(&format!("| `{key}` |")), "docs/jobs.md does not explain {key}");
    }
}
