//! Rules about the source that no compiler checks. Each is a function from a file to complaints, and has a twin below
//! that shows it a violation: a rule that finds nothing anywhere looks the same as one that works.

use std::fs;
use std::path::Path;
use std::path::PathBuf;

/// A module uses modules of lower ranks only; those of one rank do not know one another.
const RANKS: &[(&str, u8)] = &[
    ("causes", 0),
    ("chance", 0),
    ("file", 0),
    ("percent", 0),
    ("plural", 0),
    ("schedule", 0),
    ("secret", 0),
    ("shell", 0),
    ("job", 1),
    ("clock", 1),
    ("engine", 2),
    ("store", 2),
    ("executor", 2),
    ("notify", 2),
    ("config", 2),
    ("telemetry", 2),
    ("admin", 3),
    ("convert", 3),
    ("server", 4),
    ("daemon", 5),
    ("cli", 6),
];

/// Modules that compute and do nothing else: they are handed the time, and the same input gives the same output.
const PURE: &[&str] = &["schedule", "job", "engine", "notify"];
const IMPURE_PATHS: &[&str] =
    &["tokio", "tracing", "std::net", "std::process", "std::thread", "rand", "crate::clock::SystemClock"];
/// Refused by themselves as well, since `use std::time::Instant` hides the path.
const IMPURE_TYPES: &[&str] = &["Instant", "SystemTime", "SystemClock"];
/// Tests of pure modules may read files of examples.
const IMPURE_PATHS_BUT_IN_TESTS: &[&str] = &["std::fs", "std::env", "std::io"];

/// What else may be used where, and why.
const IMPURE_PLACES: &[(&str, &str, &str)] = &[
    ("src/schedule/zone_data.rs", "std::fs", "zone data is the newer of the machine's and the bundled one, read once"),
    ("src/schedule/zone_data.rs", "std::io", "errors of that reading"),
];

/// Modules whose maps have an order, so that one seed gives one trace.
const ORDERED: &[&str] = &["job", "engine"];
const UNORDERED_TYPES: &[&str] = &["HashMap", "HashSet"];

/// What is left to `daemon`: a task that nobody joins is one that nobody stops, and a `select!` drops what it did not
/// choose.
const TASK_WORDS: &[&str] = &["tokio::spawn", "task::spawn", "spawn_local", "select!"];
/// As [`IMPURE_PLACES`].
const TASK_PLACES: &[(&str, &str, &str)] =
    &[("src/executor/", "select!", "a run ends by whichever comes first: its child, its pipes, a deadline, a request")];

const PHRASES: &[&str] = &["todo!", "unimplemented!", "dbg!", "#[ignore", "#[allow", "#![allow"];
const PRINTS: &[&str] = &["println!", "eprintln!", "print!", "eprint!"];

const LINES_MOST: usize = 600;

/// A source file, with its path from the repository's root.
struct Source {
    path: String,
    text: String,
}

/// A line of code: comments are gone.
struct Code<'a> {
    number: usize,
    text: &'a str,
    in_tests: bool,
}

impl Source {
    /// The top-level module it belongs to; `lib` and `main` are no modules.
    fn module(&self) -> Option<&str> {
        let first = self.path.strip_prefix("src/")?.split('/').next()?;
        let module = first.strip_suffix(".rs").unwrap_or(first);
        (!["lib", "main", "bin"].contains(&module)).then_some(module)
    }

    /// How many modules lie between it and the crate's root, itself included.
    fn depth(&self) -> usize {
        let parts = self.path.trim_start_matches("src/").split('/').count();
        if self.path.ends_with("/mod.rs") { parts - 1 } else { parts }
    }

    fn is_test_file(&self) -> bool {
        let name = self.path.rsplit('/').next().unwrap_or_default();
        name == "tests.rs" || name.ends_with("_tests.rs") || self.path.split('/').any(|part| part == "tests")
    }

    fn code(&self) -> Vec<Code<'_>> {
        let mut in_tests = self.is_test_file();
        let mut code = Vec::new();
        let lines: Vec<&str> = self.text.lines().collect();
        for (at, line) in lines.iter().enumerate() {
            // `#[cfg(test)]` in front of a module with a body opens the tests, and those stand last in a file.
            let next = lines.get(at + 1).copied().unwrap_or_default();
            in_tests |= *line == "#[cfg(test)]" && next.starts_with("mod ") && next.ends_with('{');
            code.push(Code { number: at + 1, text: without_comment(line), in_tests });
        }
        code
    }

    fn complaint(&self, line: usize, text: &str) -> String {
        format!("{}:{line}: {text}", self.path)
    }
}

/// A comment begins a line or follows a space; `//` in a URL does not.
fn without_comment(line: &str) -> &str {
    if line.trim_start().starts_with("//") {
        return "";
    }
    line.split_once(" // ").map_or(line, |(code, _)| code)
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Whether `needle` stands in `line` and is not a part of a longer word.
fn has_word(line: &str, needle: &str) -> bool {
    line.match_indices(needle).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        let after = line[at + needle.len()..].chars().next();
        let inner_start = needle.starts_with(is_word) && before.is_some_and(is_word);
        let inner_end = needle.ends_with(is_word) && after.is_some_and(is_word);
        !inner_start && !inner_end
    })
}

/// The module names that follow `crate::` in a line; `{` where they are grouped.
fn modules_used(line: &str) -> Vec<&str> {
    let after = |at: usize| &line[at + "crate::".len()..];
    let whole = |at: &usize| !line[..*at].chars().next_back().is_some_and(|c| is_word(c) || c == '$');
    line.match_indices("crate::")
        .map(|(at, _)| at)
        .filter(whole)
        .map(|at| match after(at).find(|c| !is_word(c)) {
            Some(0) => &after(at)[..after(at).chars().next().map_or(0, char::len_utf8)],
            Some(end) => &after(at)[..end],
            None => after(at),
        })
        .collect()
}

fn rank(module: &str) -> Option<u8> {
    RANKS.iter().find(|(name, _)| *name == module).map(|(_, rank)| *rank)
}

fn is_listed(places: &[(&str, &str, &str)], source: &Source, word: &str) -> bool {
    places.iter().any(|(place, listed, _)| source.path.starts_with(place) && *listed == word)
}

fn layering(source: &Source) -> Vec<String> {
    let Some(own) = source.module() else { return Vec::new() };
    let Some(own_rank) = rank(own) else {
        return vec![source.complaint(1, &format!("module `{own}` has no rank in tests/tidy.rs"))];
    };
    let mut complaints = Vec::new();
    for code in source.code() {
        for used in modules_used(code.text) {
            let problem = match (used, rank(used)) {
                ("{", _) => Some("one path a line: a grouped `use crate::` hides what is used".to_owned()),
                (used, _) if used == own => None,
                (used, Some(rank)) if rank >= own_rank => {
                    Some(format!("`{own}` (rank {own_rank}) must not know `{used}` (rank {rank})"))
                }
                (_, Some(_)) => None,
                (used, None) => Some(format!("`crate::{used}` has no rank in tests/tidy.rs")),
            };
            complaints.extend(problem.map(|problem| source.complaint(code.number, &problem)));
        }
        let supers = code.text.matches("super::").count();
        let inline_module = usize::from(code.text.starts_with(char::is_whitespace));
        if supers >= source.depth() + inline_module {
            complaints.push(source.complaint(code.number, "`super::` reaches the crate's root: write `crate::`"));
        }
    }
    complaints
}

fn purity(source: &Source) -> Vec<String> {
    let module = source.module().unwrap_or_default();
    let mut complaints = Vec::new();
    for code in source.code() {
        let mut refuse = |words: &[&str], why: &str| {
            for word in words.iter().filter(|w| has_word(code.text, w) && !is_listed(IMPURE_PLACES, source, w)) {
                complaints.push(source.complaint(code.number, &format!("`{word}` in `{module}`, {why}")));
            }
        };
        if PURE.contains(&module) {
            refuse(IMPURE_PATHS, "which only computes");
            refuse(IMPURE_TYPES, "which is handed the time");
            if !code.in_tests {
                refuse(IMPURE_PATHS_BUT_IN_TESTS, "which only computes");
            }
        }
        if ORDERED.contains(&module) {
            refuse(UNORDERED_TYPES, "whose maps have an order (BTreeMap, BTreeSet)");
        }
    }
    complaints
}

fn tasks(source: &Source) -> Vec<String> {
    if !source.path.starts_with("src/") || source.module() == Some("daemon") {
        return Vec::new();
    }
    let mut complaints = Vec::new();
    for code in source.code().iter().filter(|code| !code.in_tests) {
        for word in TASK_WORDS.iter().filter(|word| has_word(code.text, word) && !is_listed(TASK_PLACES, source, word))
        {
            let text = format!("`{word}` outside `daemon`: list the place with its reason in tests/tidy.rs");
            complaints.push(source.complaint(code.number, &text));
        }
    }
    complaints
}

fn phrases(source: &Source) -> Vec<String> {
    let prints_allowed = !source.path.starts_with("src/") || matches!(source.module(), None | Some("cli"));
    let mut complaints = Vec::new();
    for code in source.code() {
        let prints = if prints_allowed || code.in_tests { &[] } else { PRINTS };
        for word in PHRASES.iter().chain(prints).filter(|word| has_word(code.text, word)) {
            complaints.push(source.complaint(code.number, &format!("`{word}` is not wanted here")));
        }
    }
    complaints
}

fn length(source: &Source) -> Vec<String> {
    let lines = source.text.lines().count();
    let text = format!("{lines} lines are too many, at most {LINES_MOST}: split it");
    if lines > LINES_MOST { vec![source.complaint(lines, &text)] } else { Vec::new() }
}

fn sources_in(folder: &Path, found: &mut Vec<PathBuf>) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries {
        let path = entry.expect("the folder can be read").path();
        if path.is_dir() {
            sources_in(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

fn sources() -> Vec<Source> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut paths = Vec::new();
    for folder in ["src", "tests", "benches", "examples", "fuzz/fuzz_targets"] {
        sources_in(&root.join(folder), &mut paths);
    }
    paths.sort();
    let relative = |path: &PathBuf| path.strip_prefix(root).expect("it was found there").display().to_string();
    let sources: Vec<_> = paths
        .iter()
        .map(|path| Source { path: relative(path), text: fs::read_to_string(path).expect("sources are text") })
        .collect();
    assert!(sources.iter().any(|source| source.path == "src/lib.rs"), "the source was not found");
    sources
}

fn expect_none(rule: fn(&Source) -> Vec<String>) {
    let complaints: Vec<String> = sources().iter().flat_map(rule).collect();
    assert!(complaints.is_empty(), "\n{}\n", complaints.join("\n"));
}

#[test]
fn modules_use_lower_ranks_only() {
    expect_none(layering);
}

#[test]
fn pure_modules_are_pure() {
    expect_none(purity);
}

#[test]
fn tasks_are_started_where_they_are_joined() {
    expect_none(tasks);
}

#[test]
fn unwanted_phrases_are_absent() {
    // This file has to name them.
    let complaints: Vec<String> =
        sources().iter().filter(|source| source.path != "tests/tidy.rs").flat_map(phrases).collect();
    assert!(complaints.is_empty(), "\n{}\n", complaints.join("\n"));
}

#[test]
fn files_are_short() {
    expect_none(length);
}

mod twins {
    use super::*;

    /// How many complaints a rule has about a file.
    fn count(rule: fn(&Source) -> Vec<String>, path: &str, text: &str) -> usize {
        rule(&Source { path: path.to_owned(), text: text.to_owned() }).len()
    }

    #[test]
    fn layering_catches_what_it_should() {
        for (path, text) in [
            ("src/engine/mod.rs", "use crate::store::Store;"),
            ("src/store/redis.rs", "use crate::engine::Effect;"),
            ("src/job/mod.rs", "use crate::daemon::Daemon;"),
            ("src/schedule/mod.rs", "    let x = crate::job::JobName::new(text);"),
            ("src/secret.rs", "use crate::schedule::Schedule;"),
            ("src/job/mod.rs", "use crate::clock::Boot;"),
            ("src/telemetry/mod.rs", "pub use crate::config::Settings;"),
            ("src/daemon/mod.rs", "use crate::{engine, store};"),
            ("src/daemon/mod.rs", "use crate::cli::main;"),
            ("src/daemon/mod.rs", "use crate::novelty::Thing;"),
            ("src/novelty/mod.rs", "fn f() {}"),
            ("src/store/mod.rs", "use super::engine::Engine;"),
            ("src/store/redis.rs", "use super::super::engine::Engine;"),
            ("src/clock.rs", "use super::engine::Engine;"),
            ("src/store/mod.rs", "    use super::super::engine::Engine;"),
        ] {
            assert_eq!(count(layering, path, text), 1, "{path}: {text}");
        }
    }

    #[test]
    fn layering_lets_pass_what_it_should() {
        for (path, text) in [
            ("src/engine/mod.rs", "use crate::job::JobName;"),
            ("src/engine/mod.rs", "//! The daemon (`crate::daemon::Daemon`) drives it."),
            ("src/engine/mod.rs", "use crate::engine::Effect;"),
            ("src/store/redis.rs", "use super::Store;"),
            ("src/store/mod.rs", "mod tests {\n    use super::*;\n}"),
            ("src/store/redis.rs", "mod tests {\n    use super::super::Store;\n}"),
            ("src/daemon/mod.rs", "use crate::engine::Engine;\nuse crate::store::Store;"),
            ("src/main.rs", "use onecron::cli;"),
            ("tests/conformance.rs", "use onecron::store::Store;"),
        ] {
            assert_eq!(count(layering, path, text), 0, "{path}: {text}");
        }
    }

    #[test]
    fn purity_catches_what_it_should() {
        for (path, text) in [
            ("src/schedule/mod.rs", "use tokio::time::sleep;"),
            ("src/job/mod.rs", "    tracing::info!(\"x\");"),
            ("src/engine/mod.rs", "use std::fs;"),
            ("src/engine/mod.rs", "    let x = std::env::var(\"X\");"),
            ("src/engine/mod.rs", "use std::net::TcpStream;"),
            ("src/engine/mod.rs", "use std::time::Instant;"),
            ("src/engine/mod.rs", "fn f(now: SystemTime) {}"),
            ("src/engine/mod.rs", "use crate::clock::{Boot, SystemClock};"),
            ("src/schedule/hash.rs", "    rand::random()"),
            ("src/engine/mod.rs", "use std::collections::HashMap;"),
            ("src/job/mod.rs", "    seen: HashSet<Tick>,"),
            ("src/engine/mod.rs", "#[cfg(test)]\nmod tests {\n    use std::time::Instant;\n}"),
        ] {
            assert_eq!(count(purity, path, text), 1, "{path}: {text}");
        }
    }

    #[test]
    fn purity_lets_pass_what_it_should() {
        for (path, text) in [
            ("src/store/mod.rs", "use tokio::time::sleep;\nuse std::collections::HashMap;"),
            ("src/engine/mod.rs", "// Not a HashMap: an order is needed."),
            ("src/engine/mod.rs", "use std::collections::BTreeMap;\nlet operand = 1;\nlet InstantOf = 2;"),
            ("src/schedule/mod.rs", "#[cfg(test)]\nmod tests {\n    let cases = std::fs::read_to_string(path);\n}"),
            ("src/schedule/tests.rs", "use std::fs;"),
            ("src/schedule/zone_data.rs", "use std::fs;"),
        ] {
            assert_eq!(count(purity, path, text), 0, "{path}: {text}");
        }
    }

    #[test]
    fn tasks_are_caught_outside_the_daemon() {
        for text in ["    tokio::spawn(work());", "    tokio::task::spawn(work());", "    tokio::select! {"] {
            assert_eq!(count(tasks, "src/store/redis.rs", text), 1, "{text}");
            assert_eq!(count(tasks, "src/daemon/mod.rs", text), 0, "{text}");
            assert_eq!(count(tasks, "src/executor/mod.rs", text), usize::from(!text.contains("select!")), "{text}");
            assert_eq!(count(tasks, "tests/conformance.rs", text), 0, "{text}");
            let in_tests = format!("#[cfg(test)]\nmod tests {{\n{text}\n}}");
            assert_eq!(count(tasks, "src/store/redis.rs", &in_tests), 0, "{text}");
        }
    }

    #[test]
    fn phrases_are_caught() {
        for text in
            ["    todo!()", "unimplemented!(\"x\")", "dbg!(x)", "#[ignore]", "#[allow(dead_code)]", "#![allow(x)]"]
        {
            assert_eq!(count(phrases, "src/store/mod.rs", text), 1, "{text}");
            assert_eq!(count(phrases, "tests/conformance.rs", text), 1, "{text}");
        }
        for text in ["println!(\"x\")", "    eprintln!()", "print!(\"x\")", "eprint!(\"x\")"] {
            assert_eq!(count(phrases, "src/daemon/mod.rs", text), 1, "{text}");
            assert_eq!(count(phrases, "src/cli/mod.rs", text), 0, "{text}");
            assert_eq!(count(phrases, "src/main.rs", text), 0, "{text}");
        }
        assert_eq!(count(phrases, "src/store/mod.rs", "writeln!(f, \"x\")?; // never println!"), 0);
    }

    #[test]
    fn long_files_are_caught() {
        assert_eq!(count(length, "src/store/mod.rs", &"x\n".repeat(LINES_MOST)), 0);
        assert_eq!(count(length, "src/store/mod.rs", &"x\n".repeat(LINES_MOST + 1)), 1);
    }
}
