//! The dashboard, held against the metrics that there are and against what Grafana needs of one.

use super::catalogue::ALL;
use super::catalogue::Kind;
use serde_json::Value;
use std::collections::BTreeMap;
use std::collections::BTreeSet;

const DASHBOARD: &str = include_str!("../../../deploy/grafana/dashboard.json");

/// Labels that Prometheus adds, and of histograms.
const OF_PROMETHEUS: [&str; 4] = ["job", "namespace", "instance", "le"];
const OF_OTHERS: [&str; 1] = ["up"];

fn dashboard() -> Value {
    serde_json::from_str(DASHBOARD).unwrap()
}

fn list<'a>(of: &'a Value, key: &str) -> &'a [Value] {
    of[key].as_array().unwrap_or_else(|| panic!("{key} is no list in {of}"))
}

fn text<'a>(of: &'a Value, key: &str) -> &'a str {
    of[key].as_str().unwrap_or_else(|| panic!("{key} is no text in {of}"))
}

/// Panels without the rows.
fn panels(dashboard: &Value) -> impl Iterator<Item = &Value> {
    list(dashboard, "panels").iter().filter(|panel| panel["type"] != "row")
}

/// Every query, of panels, annotations and variables.
fn queries(dashboard: &Value) -> Vec<String> {
    let of_panels = panels(dashboard).flat_map(|panel| list(panel, "targets")).map(|target| text(target, "expr"));
    let annotations = list(&dashboard["annotations"], "list").iter().filter_map(|one| one["expr"].as_str());
    let variables = list(&dashboard["templating"], "list").iter().filter_map(|one| one["definition"].as_str());
    of_panels.chain(annotations).chain(variables).map(str::to_owned).collect()
}

/// The metrics that a query names, each with the labels that it selects by.
fn selectors(query: &str) -> Vec<(String, Vec<String>)> {
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let mut found = Vec::new();
    for (at, _) in query.match_indices(|c: char| c.is_ascii_lowercase()) {
        let starts = !query[..at].chars().next_back().is_some_and(|c| is_name(c) || c == '$');
        let word: String = query[at..].chars().take_while(|c| is_name(*c)).collect();
        if !starts || !(word.starts_with("onecron_") || word.starts_with("process_") || word == "up") {
            continue;
        }
        let labels = query[at + word.len()..].strip_prefix('{').and_then(|rest| rest.split_once('}'));
        let labels =
            labels.map(|(labels, _)| labels.split(',').map(|one| one.split(['=', '!']).next().unwrap().to_owned()));
        found.push((word, labels.into_iter().flatten().collect()));
    }
    found
}

#[test]
fn every_query_is_about_metrics_and_labels_that_the_code_has() {
    let known: BTreeMap<&str, (&[&str], Kind)> = ALL.iter().map(|one| (one.name, (one.labels, one.kind))).collect();
    let dashboard = dashboard();
    let mut used = BTreeSet::new();
    for query in queries(&dashboard) {
        let selectors = selectors(&query);
        assert!(!selectors.is_empty(), "{query}");
        for (name, labels) in selectors {
            if OF_OTHERS.contains(&name.as_str()) {
                continue;
            }
            let base = name.strip_suffix("_bucket").unwrap_or(&name);
            let Some((own, kind)) = known.get(base) else { panic!("there is no {name}: {query}") };
            assert_eq!(name.ends_with("_bucket"), *kind == Kind::Histogram, "{name}: {query}");
            for label in labels {
                let is_known = own.contains(&label.as_str()) || OF_PROMETHEUS.contains(&label.as_str());
                assert!(is_known, "{name} has no label {label}: {query}");
            }
            used.insert(base.to_owned());
        }
    }
    assert!(used.len() > 25, "{used:?}");
}

#[test]
fn a_query_about_something_else_would_be_found() {
    let selectors = selectors("sum by (le) (rate(onecron_odd_bucket{a=\"1\",b!=\"$job_name\"}[1h])) / up");
    let labels = vec!["a".to_owned(), "b".to_owned()];
    assert_eq!(selectors, [("onecron_odd_bucket".to_owned(), labels), ("up".to_owned(), vec![])]);
}

#[test]
fn it_can_be_provisioned_and_has_its_variables() {
    let dashboard = dashboard();
    assert_eq!((text(&dashboard, "uid"), dashboard.get("__inputs")), ("onecron", None));
    assert!(!DASHBOARD.contains("${DS_"), "such a name is resolved by the import form alone");
    let variables: Vec<(&str, &str)> = list(&dashboard["templating"], "list")
        .iter()
        .map(|variable| (text(variable, "name"), text(variable, "type")))
        .collect();
    assert_eq!(
        variables,
        [("datasource", "datasource"), ("namespace", "query"), ("job_name", "query"), ("page", "textbox")]
    );
    let rows = list(&dashboard, "panels").iter().filter(|panel| panel["type"] == "row").map(|row| text(row, "title"));
    assert_eq!(rows.collect::<Vec<_>>(), ["Now", "Jobs", "Runs", "Punctuality", "Store and claims", "Process"]);
    let annotations: Vec<&str> = list(&dashboard["annotations"], "list").iter().map(|one| text(one, "name")).collect();
    assert!(["Reload", "New version"].iter().all(|name| annotations.contains(name)), "{annotations:?}");
}

#[test]
fn every_panel_says_what_it_shows_in_which_unit_and_where_from() {
    let dashboard = dashboard();
    for panel in panels(&dashboard) {
        let title = text(panel, "title");
        assert!(text(panel, "description").len() > 10, "{title}");
        assert!(!text(&panel["fieldConfig"]["defaults"], "unit").is_empty(), "{title}");
        for of in std::iter::once(panel).chain(list(panel, "targets")) {
            assert_eq!(text(&of["datasource"], "uid"), "${datasource}", "{title}");
        }
        let refs: BTreeSet<&str> = list(panel, "targets").iter().map(|target| text(target, "refId")).collect();
        assert_eq!(refs.len(), list(panel, "targets").len(), "{title}: two queries of one name");
        let chosen = list(panel, "targets").iter().map(|target| text(target, "expr"));
        assert!(chosen.clone().all(|query| query.contains("$namespace")), "{title}");
    }
}

#[test]
fn panels_have_numbers_of_their_own_and_do_not_cover_one_another() {
    let dashboard = dashboard();
    let all = list(&dashboard, "panels");
    let ids: BTreeSet<u64> = all.iter().map(|panel| panel["id"].as_u64().unwrap()).collect();
    assert_eq!(ids.len(), all.len());
    let mut taken = BTreeSet::new();
    for panel in all {
        let [x, y, w, h] = ["x", "y", "w", "h"].map(|side| panel["gridPos"][side].as_u64().unwrap());
        assert!(x + w <= 24, "{}", panel["title"]);
        for place in (x..x + w).flat_map(|x| (y..y + h).map(move |y| (x, y))) {
            assert!(taken.insert(place), "{} lies on another", panel["title"]);
        }
    }
}
