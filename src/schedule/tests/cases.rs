//! Inputs that broke other tools, with the answers that are right. Where `alt` names a second honest answer, only the
//! one that `docs/schedules.md` describes passes here.

use super::Schedule;
use super::Zone;
use super::at;
use serde_json::Value;

const CASES: &str = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/schedule.jsonl"));

/// Refused by plain Unix cron, and documented as supported here.
const EXTENSIONS: [(&str, &str); 2] = [("case-071", "2023-10-31T05:00:00Z"), ("case-072", "2026-01-05T12:00:00Z")];

fn check(case: &Value) -> Result<(), String> {
    let text = |key: &str| case[key].as_str().unwrap_or_default();
    let extension = EXTENSIONS.iter().find(|(id, _)| *id == text("id"));
    let answer = Zone::find(text("tz"))
        .map_err(|error| error.to_string())
        .and_then(|zone| Schedule::parse(text("expr"), &zone, "job").map_err(|error| error.to_string()));
    let wanted: Vec<_> = match (extension, case["expect"].as_array()) {
        (Some((_, first)), _) => vec![at(first)],
        (None, Some(list)) => list.iter().map(|tick| at(tick.as_str().unwrap())).collect(),
        (None, None) => return answer.map_or(Ok(()), |schedule| Err(format!("accepted as {schedule:?}"))),
    };
    let found = answer?.occurrences(at(text("from")), wanted.len());
    if found == wanted { Ok(()) } else { Err(format!("found {found:?}, wanted {wanted:?}")) }
}

#[test]
fn inputs_that_broke_other_tools_have_the_right_answer() {
    let cases: Vec<Value> = CASES.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let wrong: Vec<_> =
        cases.iter().filter_map(|case| check(case).err().map(|error| format!("{}: {error}", case["id"]))).collect();
    assert_eq!(cases.len(), 81);
    assert!(wrong.is_empty(), "{wrong:#?}");
}
