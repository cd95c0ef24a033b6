//! `jobs.schema.json` and the reader of tables: each key, word, bound and built-in value that one has, the other has.
//!
//! The reader is asked from outside, by tables that have one odd value, and told apart by what it says of them. So a key
//! that is new in it is found here, whoever added it.

use super::config::example;
use super::config::now;
use super::config::tables;
use super::support::daemon::Launch;
use jsonschema::Validator;
use onecron::config;
use onecron::config::Loaded;
use onecron::config::Problem;
use onecron::config::Severity;
use onecron::config::Source;
use serde_json::Map;
use serde_json::Value;
use serde_json::json;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// No key of anything, and too long to be meant as one.
const STRANGE: &str = "a-key-that-nobody-has-and-that-is-like-no-other";

/// What is wrong with the form of a table. All else is about what values mean, which a schema cannot tell.
const OF_FORM: &[&str] = &["E201", "E202", "E203", "E204", "E205", "E301", "E305", "E309", "E310"];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn schema() -> Value {
    serde_json::from_str(&fs::read_to_string(root().join("jobs.schema.json")).unwrap()).unwrap()
}

fn validator() -> Validator {
    jsonschema::draft202012::new(&schema()).unwrap()
}

/// A map of a table whose keys are fixed.
struct Place {
    /// Where it is in a table: `jobs`, `0`, `retry`.
    path: Vec<String>,
    /// And in the schema: where a key is added.
    pointer: String,
    properties: Map<String, Value>,
    /// One of its keys at a time, as in `{fromEnv: NAME}`.
    is_choice: bool,
}

/// A part of the schema with what it refers to.
fn resolved(schema: &Value, (node, pointer): (&Value, &str)) -> (Value, String) {
    let Some(name) = node["$ref"].as_str() else { return (node.clone(), pointer.to_owned()) };
    let pointer = name.trim_start_matches('#');
    let mut found = schema.pointer(pointer).unwrap().clone();
    found.as_object_mut().unwrap().extend(node.as_object().unwrap().clone());
    (found, pointer.to_owned())
}

fn places(schema: &Value, at: (&Value, &str), path: &[String], found: &mut Vec<Place>) {
    let (node, pointer) = resolved(schema, at);
    let below = |key: &str| path.iter().cloned().chain([key.to_owned()]).collect::<Vec<_>>();
    if let Some(properties) = node["properties"].as_object() {
        let is_choice = node["maxProperties"] == 1;
        found.push(Place { path: path.to_vec(), pointer: pointer.clone(), properties: properties.clone(), is_choice });
        for (key, value) in properties {
            places(schema, (value, &format!("{pointer}/properties/{key}")), &below(key), found);
        }
    }
    for (key, sample) in [("additionalProperties", "SAMPLE"), ("items", "0")] {
        if node[key].is_object() {
            places(schema, (&node[key], &format!("{pointer}/{key}")), &below(sample), found);
        }
    }
    for (at, branch) in node["anyOf"].as_array().into_iter().flatten().enumerate() {
        places(schema, (branch, &format!("{pointer}/anyOf/{at}")), path, found);
    }
}

fn all_places() -> Vec<Place> {
    let (schema, mut found) = (schema(), Vec::new());
    places(&schema, (&schema, ""), &[], &mut found);
    assert!(found.len() >= 14, "only {} maps", found.len());
    found
}

/// A table that is good but for one value.
fn table(path: &[String], key: &str, value: &Value) -> Value {
    let mut table = json!({"jobs": [{"name": "a", "schedule": "0 4 * * *", "command": "true"}]});
    let mut path: Vec<&str> = path.iter().map(String::as_str).chain([key]).collect();
    if path[0] == "notifiers" && path.len() > 1 {
        path[1] = "sample"; // names of notifiers are those of jobs
        let is_pagerduty = value.as_str().is_some_and(|word| word.eq_ignore_ascii_case("pagerduty"));
        table["notifiers"]["sample"] = match path[2] {
            "start" => json!({"type": "ping", "url": "https://host/"}),
            "routingKey" => json!({"type": "pagerduty"}),
            "type" if is_pagerduty => json!({"routingKey": "a"}),
            _ => json!({"type": "webhook", "url": "https://host/"}),
        };
    }
    if path.get(2) == Some(&"http") {
        table["jobs"][0] = json!({"name": "a", "schedule": "0 4 * * *", "http": {"url": "http://host/"}});
    }
    let mut place = &mut table;
    for step in path {
        place = match step.parse::<usize>() {
            Ok(index) => &mut place[index],
            Err(_) => {
                if !place.is_object() {
                    *place = json!({});
                }
                &mut place[step]
            }
        };
    }
    *place = value.clone();
    table
}

fn read(table: &Value) -> Result<Loaded, Vec<Problem>> {
    let errors = |problems: Vec<Problem>| problems.into_iter().filter(|p| p.severity == Severity::Error).collect();
    config::load(&[Source::new("jobs.yaml", table.to_string().into_bytes())], now()).map_err(errors)
}

/// What stands in backticks.
fn quoted(text: &str) -> BTreeSet<String> {
    text.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

/// The keys that the reader names where it meets a strange one.
fn keys_of_reader(place: &Place) -> BTreeSet<String> {
    let problems = read(&table(&place.path, STRANGE, &json!(1))).unwrap_err();
    let problem = problems.iter().find(|p| p.code == "E202" && p.message.contains(STRANGE));
    let hint = problem.and_then(|problem| problem.hint.as_deref()).unwrap_or_default();
    quoted(hint.strip_prefix("the keys are ").unwrap_or_else(|| panic!("{:?}: {problems:?}", place.path)))
}

/// The words that the reader names where it expects one of a few.
fn words_of_reader(place: &Place, key: &str) -> Option<BTreeSet<String>> {
    let problems = read(&table(&place.path, key, &json!("bogus"))).err()?;
    let message = &problems.iter().find(|p| p.code == "E203")?.message;
    let (_, wanted) = message.strip_suffix(" is expected")?.rsplit_once(", and ")?;
    let words: BTreeSet<String> = wanted.split(", ").flat_map(|words| words.split(" or ")).map(str::to_owned).collect();
    let is_word = |word: &String| read(&table(&place.path, key, &json!(word))).is_ok();
    (words.len() > 1 && words.iter().all(is_word)).then_some(words)
}

fn words_of_schema(node: &Value) -> Option<BTreeSet<String>> {
    let list = node["anyOf"].as_array().and_then(|branches| branches[0]["enum"].as_array())?;
    Some(list.iter().filter_map(Value::as_str).map(str::to_owned).collect())
}

/// Values of all kinds, and those that a part of the schema names, with their neighbours.
fn values(node: &Value) -> Vec<Value> {
    let mut all: Vec<Value> = serde_json::from_str(
        r#"[null, true, false, 0, 1, 5, 200, 99999999, -1, 1.5, "", " ", "bogus", "true", "5", "10s", "10", "5m1h",
            "0s", "5 minutes", "1KiB", "10K", "none", "NONE", "/absolute", "http://host/", "http://host", "HTTPS://host?a@b", "http://u@host/", "http://", "ftp://host/", "200..299", "99",
            [], ["a"], [""], ["a", ""], [0], [200], [256], ["200..299"], [["a"]], [null], [{}], {}, {"a": "b"}, {"a": null},
            {"a": 1}, {"a": ["b"]}, {"1a": "b"}, {"a b": "c"}, {"onecron_a": "b"}, {"fromEnv": "A"}, {"fromFile": "/a"},
            {"fromFile": "a"}, {"fromEnv": "A", "fromFile": "/a"}, {"fromEnv": ""}, {"fromElse": "b"}, {"a": {"fromEnv": "A"}},
            {"a": {"fromFile": "a"}}, {"a": {"fromElse": "b"}}]"#,
    )
    .unwrap();
    all.push(json!({STRANGE: 1}));
    all.push(json!("x".repeat(500)));
    all.push(json!("x".repeat(501)));
    all.push(json!(vec!["x"; 51]));
    all.push(node["default"].clone());
    for bound in ["minimum", "maximum"] {
        if let Some(bound) = node[bound].as_i64() {
            all.extend([bound - 1, bound, bound + 1].map(Value::from));
        }
    }
    for word in words_of_schema(node).into_iter().flatten() {
        all.extend([json!(word.to_lowercase()), json!(word.to_uppercase()), json!(format!("{word}x")), json!(word)]);
    }
    all
}

#[test]
fn onecron_schema_prints_the_file() {
    let output = Launch::new(&["schema"]).output();
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(String::from_utf8(output.stdout).unwrap(), fs::read_to_string(root().join("jobs.schema.json")).unwrap());
    jsonschema::draft202012::meta::validate(&schema()).unwrap();
    let example = fs::read_to_string(example()).unwrap();
    assert!(example.lines().any(|line| line == "# yaml-language-server: $schema=./jobs.schema.json"));
}

#[test]
fn reader_and_schema_have_the_same_keys() {
    for place in all_places().iter().filter(|place| !place.is_choice) {
        let (path, pointer) = (place.path.join("."), &place.pointer);
        let reads = keys_of_reader(place);
        for key in &reads {
            assert!(
                place.properties.contains_key(key),
                "the reader takes `{key}` in `{path}`, and editors call it a mistake: add it to jobs.schema.json, under \
                 `{pointer}/properties`, with its description, form and default"
            );
        }
        for key in place.properties.keys() {
            assert!(
                reads.contains(key),
                "jobs.schema.json has `{pointer}/properties/{key}`, and the reader has no such key"
            );
        }
    }
}

#[test]
fn reader_and_schema_have_the_same_words() {
    let schema = schema();
    let mut count = 0;
    for place in &all_places() {
        for (key, node) in &place.properties {
            let (node, pointer) = resolved(&schema, (node, &place.pointer));
            let (reads, has) = (words_of_reader(place, key), words_of_schema(&node));
            assert_eq!(
                has,
                reads,
                "left: what jobs.schema.json lists for `{key}` of `{}`; right: what the reader takes there. Change `enum` and \
                 `pattern` in `{pointer}`",
                place.path.join(".")
            );
            count += usize::from(reads.is_some());
        }
    }
    assert!(count >= 13, "only {count} keys have words");
}

/// What the reader takes, no editor calls a mistake; and what it refuses for its form, all do.
#[test]
fn reader_and_schema_agree_on_each_value_of_each_key() {
    let (schema, validator) = (schema(), validator());
    let (mut wrong, mut count) = (String::new(), 0);
    for place in &all_places() {
        for (key, node) in &place.properties {
            for value in values(&resolved(&schema, (node, "")).0) {
                let table = table(&place.path, key, &value);
                let allowed = validator.is_valid(&table);
                let found = read(&table);
                let in_form = match &found {
                    Ok(_) => Some(true),
                    Err(problems) if problems.iter().any(is_of_form) => Some(false),
                    Err(_) => None,
                };
                count += 1;
                if in_form.is_some_and(|in_form| in_form != allowed) {
                    let says = found
                        .err()
                        .map_or_else(|| "takes it".to_owned(), |p| format!("{}: {}", p[0].code, p[0].message));
                    let path = place.path.join(".");
                    wrong.push_str(&format!("`{key}` of `{path}`: {value}: the schema {allowed}, the reader {says}\n"));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong}Change jobs.schema.json.");
    assert!(count > 5000, "only {count} values");
}

/// Bounds of durations and sizes are beyond a schema: it says them in words.
fn is_of_form(problem: &Problem) -> bool {
    let range = problem.message.split_once("the range is ").map(|(_, range)| range.replace(" to ", ""));
    let is_counted = range.is_none_or(|range| range.chars().all(|c| c.is_ascii_digit()));
    OF_FORM.contains(&problem.code) && is_counted
}

#[test]
fn descriptions_say_the_range_that_the_reader_has() {
    let schema = schema();
    let mut count = 0;
    for place in &all_places() {
        for (key, node) in &place.properties {
            let (node, pointer) = resolved(&schema, (node, &format!("{}/properties/{key}", place.pointer)));
            let description = node["description"].as_str().unwrap_or_default();
            assert!(!description.is_empty(), "`{pointer}` has no description");
            for most in ["999999d", "9999MiB"] {
                let Err(problems) = read(&table(&place.path, key, &json!(most))) else { continue };
                let Some((_, range)) = problems.iter().find_map(|problem| problem.message.split_once("the range is "))
                else {
                    continue;
                };
                assert!(said(description, range), "`{pointer}` says {description:?}, and the range is {range}");
                count += 1;
            }
        }
    }
    assert!(count >= 15, "only {count} ranges");
}

/// `1s to 10m` where the reader has one more word for nothing at all.
fn said(description: &str, range: &str) -> bool {
    description.contains(range) || description.contains(&range.replace("0s to", "1s to"))
}

/// A default as the guide writes it.
fn written(default: &Value) -> String {
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    match default.as_array() {
        Some(items) => format!("[{}]", items.iter().map(text).collect::<Vec<_>>().join(", ")),
        None => text(default),
    }
}

#[test]
fn defaults_are_what_is_built_in_and_what_the_guide_says() {
    let schema = schema();
    let guide = fs::read_to_string(root().join("docs/jobs.md")).unwrap();
    let mut count = 0;
    for place in &all_places() {
        for (key, node) in &place.properties {
            let (node, pointer) = (resolved(&schema, (node, "")).0, format!("{}/properties/{key}", place.pointer));
            let Some(default) = node.get("default") else { continue };
            // `null` is what is built in, whatever that is.
            let [said, built_in] =
                [default, &Value::Null].map(|value| read(&table(&place.path, key, value)).unwrap().table);
            assert_eq!(said.scheduler, built_in.scheduler, "`{pointer}`: {default}");
            assert_eq!(said.jobs[0].spec_hash, built_in.jobs[0].spec_hash, "`{pointer}`: {default}");
            let mut rows = guide.lines().filter(|line| line.starts_with('|') && line.contains(&format!("| `{key}`")));
            let cell = format!("| `{}` |", written(default));
            assert!(rows.any(|row| row.contains(&cell)), "docs/jobs.md has no row of `{key}` with {cell}");
            count += 1;
        }
    }
    assert!(count >= 28, "only {count} defaults");
}

#[test]
fn good_tables_are_valid() {
    let validator = validator();
    let mut all = tables("good");
    all.push(("jobs.example.yaml".to_owned(), fs::read(example()).unwrap()));
    for (name, content) in all {
        let text = String::from_utf8(content).unwrap();
        let table: Value = serde_yaml::from_str(text.trim_start_matches('\u{feff}')).unwrap();
        let errors: Vec<String> =
            validator.iter_errors(&table).map(|error| format!("{}: {error}", error.instance_path())).collect();
        assert!(errors.is_empty(), "{name}: {errors:?}");
    }
}

/// What looks like a mistake in form, and is none.
const BEYOND_A_SCHEMA: &[(&str, &str)] = &[
    ("duplicate-names.yaml /jobs/2 E301", "a name that another job has"),
    (
        "policies.yaml /jobs/2 E203",
        "`suspend: yes`, which is a text for editors and a boolean for the parser that this test has",
    ),
];

/// Each job of a broken table in which something has a wrong form.
#[test]
fn what_is_wrong_with_the_form_of_broken_tables_is_refused() {
    let validator = validator();
    let (mut count, mut missed) = (0, BTreeSet::new());
    for (name, content) in tables("bad") {
        let text = String::from_utf8(content.clone()).unwrap_or_default();
        let Ok(table) = serde_yaml::from_str::<Value>(&text) else { continue };
        let Err(problems) = config::load(&[Source::new(name.clone(), content)], now()) else { continue };
        let refused: Vec<String> =
            validator.iter_errors(&table).map(|error| error.instance_path().to_string()).collect();
        for problem in problems.iter().filter(|problem| problem.severity == Severity::Error && is_of_form(problem)) {
            // `jobs[3] "report"` is `/jobs/3`, and `notifiers.chat` is `/notifiers/chat`.
            let path = problem.path.split(' ').next().unwrap_or_default();
            let place = format!("/{}", path.trim_end_matches(']').replace(['[', '.'], "/"));
            // What is wrong with a name is refused where all names are.
            let named = |at: &String| problem.code == "E301" && *at == "/notifiers";
            let is_there =
                |at: &String| path.is_empty() || *at == place || at.starts_with(&format!("{place}/")) || named(at);
            if !refused.iter().any(is_there) {
                missed.insert(format!("{name} {place} {}", problem.code));
            }
            count += 1;
        }
    }
    let beyond = BEYOND_A_SCHEMA.iter().map(|(place, _)| (*place).to_owned());
    assert_eq!(missed, beyond.collect(), "left: what no editor sees; right: what none can");
    assert!(count > 100, "only {count} mistakes");
}
