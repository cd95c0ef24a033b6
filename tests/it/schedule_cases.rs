//! The program answers alike wherever its host stands: every case of `tests/fixtures/schedule.jsonl`, asked of the real
//! program with the host's zone set.

use crate::support::daemon::Launch;
use chrono::DateTime;
use serde_json::Value;

const CASES: &str = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/schedule.jsonl"));

/// Refused by plain Unix cron, and documented as supported here: the first tick.
const EXTENSIONS: [(&str, &str); 2] = [("case-071", "2023-10-31T05:00:00Z"), ("case-072", "2026-01-05T12:00:00Z")];

fn seconds(text: &str) -> i64 {
    DateTime::parse_from_rfc3339(text).unwrap_or_else(|error| panic!("{text}: {error}")).timestamp()
}

fn check(case: &Value, host: &str) -> Result<(), String> {
    let text = |key: &str| case[key].as_str().unwrap();
    let extension = EXTENSIONS.iter().find(|(id, _)| *id == text("id"));
    let wanted: Option<Vec<&str>> = match (extension, case["expect"].as_array()) {
        (Some((_, first)), _) => Some(vec![first]),
        (None, list) => list.map(|list| list.iter().map(|tick| tick.as_str().unwrap()).collect()),
    };
    let count = wanted.as_ref().map_or(1, Vec::len).to_string();
    let expression = format!("--schedule={}", text("expr"));
    let zone = format!("--timezone={}", text("tz"));
    let args = ["next", &expression, &zone, "--from", text("from"), "--count", &count, "--job=job", "-o", "json"];
    let output = Launch::new(&args).env("TZ", host).output();
    let (answer, errors) = (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    let code = output.status.code();
    let Some(wanted) = wanted else {
        let is_refused = code == Some(78) && answer.is_empty() && errors.starts_with("error") && errors.len() > 30;
        return if is_refused { Ok(()) } else { Err(format!("not refused: {code:?} {answer} {errors}")) };
    };
    if code != Some(0) || !errors.is_empty() {
        return Err(format!("{code:?} {errors}"));
    }
    let runs: Vec<Value> = serde_json::from_str(&answer).unwrap();
    let ticks = |key: &str| runs.iter().map(|run| seconds(run[key].as_str().unwrap())).collect::<Vec<_>>();
    let wanted: Vec<i64> = wanted.iter().map(|tick| seconds(tick)).collect();
    let is_utc = runs.iter().all(|run| run["utc"].as_str().unwrap().ends_with('Z'));
    if ticks("utc") == wanted && ticks("scheduled_for") == wanted && is_utc {
        Ok(())
    } else {
        Err(format!("found {answer}, wanted {wanted:?}"))
    }
}

fn expect_right(host: &str) {
    let cases: Vec<Value> = CASES.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(cases.len(), 81);
    let wrong: Vec<_> = cases
        .iter()
        .filter_map(|case| check(case, host).err().map(|error| format!("{}: {error}", case["id"])))
        .collect();
    assert!(wrong.is_empty(), "TZ={host}: {wrong:#?}");
}

#[test]
fn answers_are_right_on_a_host_in_utc() {
    expect_right("UTC");
}

#[test]
fn answers_are_right_on_a_host_in_london() {
    expect_right("Europe/London");
}

#[test]
fn answers_are_right_on_a_host_in_sydney() {
    expect_right("Australia/Sydney");
}
