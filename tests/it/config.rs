//! Job tables: the reports on broken ones, word for word, and what good ones mean.

#![expect(clippy::unwrap_used, reason = "a test stops at what it did not expect")]

use chrono::DateTime;
use chrono::Utc;
use onecron::cli::explain;
use onecron::cli::explain::ExplainArgs;
use onecron::cli::next;
use onecron::cli::next::NextArgs;
use onecron::cli::validate;
use onecron::cli::validate::ValidateArgs;
use onecron::config;
use onecron::config::Loaded;
use onecron::config::Problem;
use onecron::config::Source;
use onecron::job::ConcurrencyPolicy;
use onecron::job::EnvValue;
use onecron::job::LostRunPolicy;
use onecron::job::OutputMode;
use onecron::job::Program;
use onecron::schedule::zone_data_version;
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::path::PathBuf;
use std::time::Duration;

fn fixtures(kind: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/tables").join(kind)
}

pub fn example() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("jobs.example.yaml")
}

/// The tables of a folder: name and content, by name.
pub fn tables(kind: &str) -> Vec<(String, Vec<u8>)> {
    let mut all: Vec<_> = fs::read_dir(fixtures(kind))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|end| end == "yaml"))
        .map(|path| (path.file_name().unwrap().to_str().unwrap().to_owned(), fs::read(&path).unwrap()))
        .collect();
    all.sort();
    all
}

fn load(text: &str) -> Result<Loaded, Vec<Problem>> {
    config::load(&[Source::new("jobs.yaml", text.as_bytes().to_vec())], now())
}

/// `code line:column` of everything found.
fn found(text: &str) -> Vec<String> {
    let problems = load(text).map_or_else(|problems| problems, |loaded| loaded.warnings);
    problems.iter().map(|p| format!("{} {}:{}", p.code, p.line, p.column)).collect()
}

fn at(text: &str) -> DateTime<Utc> {
    text.parse().unwrap()
}

/// When everything here happens.
pub fn now() -> DateTime<Utc> {
    at("2026-03-01T00:00:00Z")
}

#[test]
fn each_broken_table_gets_exactly_its_report() {
    let bless = std::env::var_os("BLESS").is_some();
    let all = tables("bad");
    assert!(all.len() >= 20, "only {} broken tables", all.len());
    let mut wrong = String::new();
    for (name, content) in all {
        let file = fixtures("bad").join(&name).with_extension("txt");
        let report = match config::load(&[Source::new(name.clone(), content)], now()) {
            Ok(loaded) => config::render(&loaded.warnings),
            Err(problems) => config::render(&problems),
        };
        assert!(!report.is_empty(), "{name} is a good table");
        // The version of the zone data is the machine's.
        let report = report.replace(zone_data_version(), "(version)");
        if bless {
            fs::write(&file, &report).unwrap();
        }
        let expected = fs::read_to_string(&file).unwrap_or_default();
        if report != expected {
            wrong.push_str(&format!("== {name}: expected\n{expected}== but found\n{report}"));
        }
    }
    assert!(wrong.is_empty(), "{wrong}(BLESS=1 writes the reports anew)");
}

#[test]
fn good_tables_have_nothing_to_report() {
    for (name, content) in tables("good") {
        match config::load(&[Source::new(name.clone(), content)], now()) {
            Ok(loaded) => assert_eq!(config::render(&loaded.warnings), "", "{name}"),
            Err(problems) => panic!("{name}:\n{}", config::render(&problems)),
        }
    }
}

#[test]
fn the_example_is_good_and_free_of_doubts() {
    let loaded = config::load(&config::read(&[example()]), now()).unwrap();
    assert_eq!(config::render(&loaded.warnings), "");
}

#[test]
fn a_report_shows_no_secret_of_the_table() {
    for name in ["secrets", "secret-in-broken-yaml"] {
        let reports = tables("bad").into_iter().filter(|(path, _)| path.contains(&format!("{name}.yaml")));
        let reports: Vec<String> = reports
            .map(|(path, content)| {
                let problems = config::load(&[Source::new(path, content)], now()).unwrap_err();
                config::render(&problems) + &serde_json::to_string(&problems).unwrap()
            })
            .collect();
        assert_eq!(reports.len(), 1);
        let shown = reports[0].replace("/run/s3cret", "");
        assert!(!shown.contains("s3cret") && !shown.contains("123456"), "{shown}");
    }
}

#[test]
fn the_guide_lists_every_code_that_is_reported() {
    let guide = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/jobs.md")).unwrap();
    for (name, content) in tables("bad") {
        let problems = config::load(&[Source::new(name, content)], now()).map_or_else(|p| p, |loaded| loaded.warnings);
        for problem in problems {
            assert!(guide.contains(&format!("| {} |", problem.code)), "docs/jobs.md lacks {}", problem.code);
        }
    }
}

#[test]
fn a_job_without_options_has_the_documented_defaults() {
    let loaded = load("jobs: [{name: a, schedule: '0 4 * * *', command: 'true'}]").unwrap();
    let job = &loaded.table.jobs[0];
    assert_eq!(job.action.command().unwrap().program.argv(), ["/bin/sh", "-c", "true"]);
    assert_eq!((job.timeout, job.starting_deadline), (Some(Duration::from_secs(3600)), None));
    assert_eq!(job.termination_grace_period, Duration::from_secs(30));
    assert_eq!(job.concurrency_policy, ConcurrencyPolicy::Forbid);
    assert_eq!(job.lost_run_policy, LostRunPolicy::Report);
    assert_eq!((job.retry.limit, job.retry.backoff.as_secs(), job.retry.max_backoff.as_secs()), (0, 10, 300));
    assert_eq!((job.output.max_line_bytes, job.output.keep_tail), (8192, 16384));
    assert_eq!((job.history.ticks, job.history.successful, job.history.failed), (200, 3, 10));
    assert_eq!(job.schedule.zone().name(), "UTC");
    let scheduler = loaded.table.scheduler;
    assert_eq!((scheduler.lock_lease.as_secs(), scheduler.max_concurrent_runs), (15, 10));
}

#[test]
fn a_job_overrides_defaults_and_null_goes_back_to_what_is_built_in() {
    let text = r#"
scheduler: {timeZone: Asia/Tokyo}
defaults:
  timeZone: Europe/Madrid
  timeout: 2h
  retry: {limit: 5, backoff: 1s}
  env: {A: "one", B: "two"}
jobs:
  - {name: a, schedule: '0 4 * * *', command: 'true', retry: {limit: 1}, env: {B: "three"}}
  - {name: b, schedule: '0 4 * * *', command: 'true', timeZone: null, timeout: null, retry: null, env: null}
"#;
    let jobs = load(text).unwrap().table.jobs;
    let (a, b) = (&jobs[0], &jobs[1]);
    assert_eq!((a.retry.limit, a.retry.backoff.as_secs()), (1, 1));
    assert_eq!((a.timeout, b.timeout), (Some(Duration::from_secs(7200)), Some(Duration::from_secs(3600))));
    let env: Vec<_> = a.action.command().unwrap().env.iter().map(|(name, value)| format!("{name}={value:?}")).collect();
    assert_eq!(env, ["A=Text(\"one\")", "B=Text(\"three\")"]);
    assert!(b.action.command().unwrap().env.is_empty());
    assert_eq!((b.retry.limit, b.retry.backoff.as_secs()), (0, 10));
    assert_eq!((a.schedule.zone().name(), b.schedule.zone().name()), ("Europe/Madrid", "Asia/Tokyo"));
}

#[test]
fn names_and_arguments_keep_their_written_text() {
    for name in ["no", "on", "true", "123", "0o17", "1e3", "007", "12-30"] {
        let text = format!("jobs:\n  - name: {name}\n    schedule: '@daily'\n    command: [true, {name}]\n");
        let job = load(&text).unwrap().table.jobs[0].clone();
        assert_eq!(job.name.as_str(), name);
        assert_eq!(job.action.command().unwrap().program, Program::Direct(vec!["true".to_owned(), name.to_owned()]));
    }
    assert_eq!(found("jobs:\n- name: null\n  schedule: '@daily'\n  command: [~]\n"), ["E204 2:3", "E203 4:13"]);
}

#[test]
fn a_byte_order_mark_and_carriage_returns_change_nothing() {
    let plain = "jobs:\n  - name: a\n    schedule: \"61 * * * *\"\n    command: x\n";
    let expected = found(plain);
    assert_eq!(expected, ["E302 3:16"]);
    assert_eq!(found(&format!("\u{feff}{plain}")), expected);
    assert_eq!(found(&plain.replace('\n', "\r\n")), expected);
    assert_eq!(found(&format!("\u{feff}{}", plain.replace('\n', "\r\n"))), expected);
}

#[test]
fn a_table_without_jobs_is_good_and_an_empty_file_is_not() {
    assert!(load("jobs: []").unwrap().table.jobs.is_empty());
    for text in ["", "\n\n", "# nothing\n", "---\n", "\u{feff}", "~"] {
        assert_eq!(found(text), ["E103 0:0"], "{text:?}");
    }
}

#[test]
fn the_fingerprint_of_a_job_depends_on_its_meaning_alone() {
    let hash = |text: &str| load(text).unwrap().table.jobs[0].spec_hash.clone();
    let base = hash("jobs: [{name: a, schedule: '0 4 * * *', command: 'true', timeout: 60s}]");
    assert_eq!(
        hash("# x\ndefaults: {timeout: 1m}\njobs:\n- command: \"true\"\n  name: a\n  schedule: 0 4 * * *\n"),
        base
    );
    for other in [
        "jobs: [{name: b, schedule: '0 4 * * *', command: 'true', timeout: 60s}]",
        "jobs: [{name: a, schedule: '0 5 * * *', command: 'true', timeout: 60s}]",
        "jobs: [{name: a, schedule: '0 4 * * *', command: ['true'], timeout: 60s}]",
        "jobs: [{name: a, schedule: '0 4 * * *', command: 'true', timeout: 61s}]",
        "jobs: [{name: a, schedule: '0 4 * * *', command: 'true', timeout: 60s, timeZone: Asia/Tokyo}]",
        "jobs: [{name: a, schedule: '0 4 * * *', command: 'true', timeout: 60s, env: {A: b}}]",
        "jobs: [{name: a, schedule: '0 4 * * *', command: 'true', timeout: 60s, lostRunPolicy: Rerun}]",
    ] {
        assert_ne!(hash(other), base, "{other}");
    }
}

#[test]
fn a_folder_is_one_table_and_its_files_are_read_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
    write("b.yaml", "jobs: [{name: two, schedule: '@daily', command: x}]");
    write("a.yaml", "scheduler: {timeZone: Asia/Tokyo}\njobs: [{name: one, schedule: '@daily', command: x}]");
    write("notes.txt", "not a table");
    write(".hidden.yaml", "not: a table");
    let table = config::load(&config::read(&[folder.path().to_owned()]), now()).unwrap().table;
    let names: Vec<_> = table.jobs.iter().map(|job| job.name.as_str()).collect();
    assert_eq!(names, ["one", "two"]);
    assert_eq!(table.jobs[1].schedule.zone().name(), "Asia/Tokyo", "the zone of the fleet holds in all files");

    write("c.yaml", "scheduler: {}\njobs: [{name: one, schedule: '@daily', command: x}]");
    let problems = config::load(&config::read(&[folder.path().to_owned()]), now()).unwrap_err();
    let text = config::render(&problems);
    assert!(text.contains("c.yaml:1:1: error[E102]: scheduler:"), "{text}");
    assert!(
        text.contains("c.yaml:2:15: error[E301]: jobs[0] \"one\": the name `one` is already taken by jobs[0] at "),
        "{text}"
    );
    assert!(text.contains("a.yaml:2:15\n"), "{text}");
}

#[test]
fn files_that_cannot_be_read_are_reported_beside_the_others() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("large.yaml"), vec![b'#'; config::BYTES_MOST + 1]).unwrap();
    fs::write(folder.path().join("latin1.yaml"), b"jobs: []\n# \xe9\n").unwrap();
    let paths = [folder.path().join("absent.yaml"), folder.path().to_owned()];
    let problems = config::load(&config::read(&paths), now()).unwrap_err();
    let messages: Vec<_> = problems.iter().map(|p| (p.code, p.line, p.message.as_str())).collect();
    assert_eq!(
        messages,
        [
            ("E103", 0, "the file cannot be read: No such file or directory (os error 2)"),
            ("E103", 0, "the file is larger than 1 MiB"),
            ("E103", 0, "the file is not UTF-8: see line 2"),
        ]
    );
    let hint = problems[0].hint.as_deref().unwrap();
    assert!(hint.ends_with(" has `large.yaml`, `latin1.yaml`"), "{hint}");
    let empty = tempfile::tempdir().unwrap();
    let of_empty = || config::load(&config::read(&[empty.path().to_owned()]), now()).unwrap_err().remove(0);
    assert!(of_empty().message.ends_with("the folder has no file that ends in `.yaml`"));
    assert_eq!(of_empty().hint.unwrap(), "put a table into it as `jobs.yaml`, or name the file itself");
    fs::write(empty.path().join("jobs.yml"), "jobs: []").unwrap();
    let hint = "only `.yaml` is read of a folder: rename `jobs.yml`, or name that file";
    assert_eq!(of_empty().hint.unwrap(), hint);
    fs::write(empty.path().join("a.yaml"), "jobs: []").unwrap();
    assert!(of_empty().message.ends_with("only files that end in `.yaml` are read of a folder"), "not passed over");
    let gone = config::load(&config::read(&[empty.path().join("no/jobs.yaml")]), now()).unwrap_err();
    assert!(gone[0].hint.as_deref().unwrap().contains("cannot be read either"), "{:?}", gone[0]);
    assert_eq!(config::load(&[], now()).unwrap_err()[0].code, "E103");
}

#[test]
fn of_a_link_that_leads_nowhere_it_is_said_where_it_should_lead() {
    let folder = tempfile::tempdir().unwrap();
    let (link, data) = (folder.path().join("jobs.yaml"), folder.path().join("..data"));
    symlink("..data/jobs.yaml", &link).unwrap();
    symlink("v1", &data).unwrap();
    let hint = || config::load(&config::read(std::slice::from_ref(&link)), now()).unwrap_err()[0].hint.clone().unwrap();
    let target = folder.path().join("..data/jobs.yaml");
    assert!(hint().contains(&format!("`{}` is a link to `{}`", link.display(), target.display())), "{}", hint());
    fs::create_dir(folder.path().join("v1")).unwrap();
    symlink("gone.yaml", &target).unwrap();
    let last = folder.path().join("..data/gone.yaml");
    assert!(hint().starts_with(&format!("`{}` is a link to `{}`", target.display(), last.display())), "{}", hint());
    fs::write(&last, "jobs: []").unwrap();
    config::load(&config::read(&[link]), now()).unwrap();
}

#[test]
fn variables_may_come_from_elsewhere_and_other_exit_codes_may_be_successes() {
    let text = r#"
version: 1
defaults: {successExitCodes: [0, 3], inheritEnv: false, env: {A: {fromEnv: USER}}, output: {mode: Discard}}
jobs:
  - {name: a, schedule: '0 4 * * *', command: 'true', env: {B: {fromFile: /run/secrets/b}}}
  - {name: b, schedule: '0 4 * * *', command: 'true', successExitCodes: [7], inheritEnv: null, env: {A: x}}
  - {name: c, schedule: '0 4 * * *', command: 'true', successExitCodes: null, output: {mode: passthrough}}
"#;
    let jobs = load(text).unwrap().table.jobs;
    let command = |at: usize| jobs[at].action.command().unwrap().clone();
    let from = BTreeMap::from([
        ("A".to_owned(), EnvValue::FromEnv("USER".to_owned())),
        ("B".to_owned(), EnvValue::FromFile("/run/secrets/b".into())),
    ]);
    assert_eq!(command(0).env, from);
    assert_eq!(command(1).env, BTreeMap::from([("A".to_owned(), EnvValue::Text("x".to_owned()))]));
    assert_eq!([0, 1, 2].map(|at| command(at).inherit_env), [false, true, false]);
    let codes = |at: usize| command(at).success_exit_codes.into_iter().collect::<Vec<_>>();
    assert_eq!((codes(0), codes(1), codes(2)), (vec![0, 3], vec![7], vec![0]));
    let modes = [OutputMode::Discard, OutputMode::Discard, OutputMode::Passthrough];
    assert_eq!([0, 1, 2].map(|at| jobs[at].output.mode), modes);
}

#[test]
fn a_bomb_of_aliases_is_refused_before_it_unfolds() {
    let mut text = "x-0: &a0 [y, y, y, y, y, y, y, y, y]\n".to_owned();
    for level in 1..10 {
        let list = vec![format!("*a{}", level - 1); 9].join(", ");
        text.push_str(&format!("x-{level}: &a{level} [{list}]\n"));
    }
    text.push_str("jobs: []\n");
    assert_eq!(load(&text).unwrap_err()[0].code, "E101");

    let mut chain = "x-0: &a0 [y]\n".to_owned();
    (1..20_000).for_each(|n| chain.push_str(&format!("x-{n}: &a{n} [*a{}]\n", n - 1)));
    assert_eq!(load(&chain).unwrap_err()[0].code, "E101");
}

#[test]
fn the_longest_table_is_checked_and_a_longer_one_refused() {
    let jobs = |count: usize| {
        let item = |n: usize| format!("- {{name: j{n}, schedule: '* * * * *', command: x}}\n");
        format!("jobs:\n{}", (0..count).map(item).collect::<String>())
    };
    assert_eq!(load(&jobs(config::JOBS_MOST)).unwrap().table.jobs.len(), config::JOBS_MOST);
    assert_eq!(load(&jobs(config::JOBS_MOST + 1)).unwrap_err()[0].code, "E103");
}

#[test]
fn a_file_of_nothing_but_mistakes_gets_a_report_of_bounded_length() {
    // Minutes, if it were looked for what each of them was meant to be.
    for (begin, item, end, count) in [("", "k{n}: 1\n", "", 60_001), ("jobs: [{", "k{n}: 1, ", "}]", 60_003)] {
        let items: String = (0..60_000).map(|n| item.replace("{n}", &n.to_string())).collect();
        let problems = load(&format!("{begin}{items}{end}")).unwrap_err();
        assert_eq!(problems.len(), 1001);
        assert_eq!(problems[1000].message, format!("{count} problems were found, 1000 of them are listed"));
    }

    let line = format!("jobs: [{}]", vec!["*a"; 250_000].join(", "));
    let problems = load(&line).unwrap_err();
    assert_eq!(problems.len(), 1001);
    assert!(
        problems.iter().all(|problem| problem.excerpt.len() < 200),
        "a line is not repeated for each mistake in it"
    );
}

#[derive(clap::Parser)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    Validate(ValidateArgs),
    Next(NextArgs),
    Explain(ExplainArgs),
}

/// Runs a command line at a fixed time: exit code, standard output, standard error.
pub fn onecron(line: &[&str]) -> (i32, String, String) {
    use clap::Parser;
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let now = now();
    let code = match Cli::try_parse_from(std::iter::once(&"onecron").chain(line)) {
        Err(error) => return (error.exit_code(), String::new(), error.to_string()),
        Ok(Cli { command: Command::Validate(args) }) => validate::run(&args, &mut out, &mut err, now),
        Ok(Cli { command: Command::Next(args) }) => next::run(&args, &mut out, &mut err, now),
        Ok(Cli { command: Command::Explain(args) }) => explain::run(&args, &mut out, &mut err, now),
    };
    (code, String::from_utf8(out).unwrap(), String::from_utf8(err).unwrap())
}

#[test]
fn validate_shows_zone_and_coming_runs_of_a_good_table() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("jobs.yaml");
    let first = "- {name: a, schedule: '0 4 * * *', timeZone: Asia/Tokyo, command: x}";
    fs::write(&file, format!("jobs:\n{first}\n- {{name: longer, schedule: '@hourly', command: x}}\n")).unwrap();
    let (code, out, err) = onecron(&["validate", file.to_str().unwrap()]);
    assert_eq!((code, err.as_str()), (0, ""));
    let (runs, last) = out.trim_end().rsplit_once('\n').unwrap();
    assert_eq!(
        runs,
        "\
JOB     SCHEDULE   ZONE        NEXT RUNS
a       0 4 * * *  Asia/Tokyo  2026-03-02T04:00:00+09:00
                               2026-03-03T04:00:00+09:00
                               2026-03-04T04:00:00+09:00
longer  @hourly    UTC         2026-03-01T01:00:00Z
                               2026-03-01T02:00:00Z
                               2026-03-01T03:00:00Z"
    );
    assert!(last.starts_with("good: 2 jobs, 0 errors, 0 warnings, revision "), "{last}");
}

#[test]
fn validate_shows_jitter_and_what_is_suspended_beside_the_schedules() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("jobs.yaml");
    let job = "- {name: a, schedule: ['0 4 * * *', '0 9 * * *'], jitter: 90s, suspend: true, command: x}";
    fs::write(&file, format!("jobs:\n{job}\n")).unwrap();
    let (code, out, _) = onecron(&["validate", file.to_str().unwrap()]);
    let lines: Vec<&str> =
        out.lines().skip(1).map(|line| line[5..].split("  ").next().unwrap_or_default().trim()).collect();
    assert_eq!(
        (code, &lines[..4]),
        (0, &["0 4 * * *", "0 9 * * *", "and up to 1m30s later", "suspended"][..]),
        "{out}"
    );
}

#[test]
fn validate_says_by_its_exit_code_whether_the_table_is_taken() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str, text: &str| {
        let file = folder.path().join(name);
        fs::write(&file, text).unwrap();
        file.to_str().unwrap().to_owned()
    };
    let warned = path("warned.yaml", "jobs: [{name: a, schedule: '0 0 1 * 1', command: x}]");
    let bad = path("bad.yaml", "jobs: [{name: a, schedule: '0 0 1 * 9', command: x}]");
    assert_eq!(onecron(&["validate", &warned]).0, 0);
    assert_eq!(onecron(&["validate", "--strict", &warned]).0, 3);
    assert_eq!(onecron(&["validate", "--strict", "--jobs", &warned, &bad]).0, 78, "named files win over --jobs");
    assert_eq!(onecron(&["validate", "--jobs", &bad]).0, 78);
    assert_eq!(onecron(&["validate", "--wrong"]).0, 2);

    let (_, out, err) = onecron(&["validate", "-o", "json", &warned]);
    let problems: serde_json::Value = serde_json::from_str(&out).unwrap();
    let keys: Vec<&String> = problems[0].as_object().unwrap().keys().collect();
    assert_eq!(keys, ["code", "column", "file", "hint", "line", "message", "path", "severity"]);
    assert_eq!((&problems[0]["code"], &problems[0]["severity"]), (&"W502".into(), &"warning".into()));
    assert_eq!(err, "");
}

#[test]
fn next_prints_the_runs_of_a_schedule_as_json() {
    let line =
        ["next", "--schedule", "30 9 * * 1-5", "--timezone", "America/New_York", "--from", "2026-03-06T12:00:00Z"];
    let (code, out, err) = onecron(&[&line[..], &["--count", "2", "-o", "json"]].concat());
    assert_eq!((code, err.as_str()), (0, ""));
    let runs: serde_json::Value = serde_json::from_str(&out).unwrap();
    let expected = serde_json::json!([
        {"scheduled_for": "2026-03-06T09:30:00-05:00", "utc": "2026-03-06T14:30:00Z", "note": null},
        {"scheduled_for": "2026-03-09T09:30:00-04:00", "utc": "2026-03-09T13:30:00Z", "note": null},
    ]);
    assert_eq!(runs, expected);
}

#[test]
fn next_says_where_the_years_end() {
    let late = ["next", "--schedule", "0 0 1 1 *", "--from", "2199-06-01T00:00:00Z"];
    assert_eq!(onecron(&late), (0, "no further run before 2200\n".to_owned(), String::new()));
    let json = onecron(&[&late[..], &["-o", "json"]].concat());
    assert_eq!(json, (0, "[]\n".to_owned(), String::new()));
}

#[test]
fn next_refuses_a_schedule_with_its_reason() {
    let (code, out, err) = onecron(&["next", "--schedule", "61 * * * *"]);
    assert_eq!((code, out.as_str()), (78, ""));
    assert!(err.starts_with("error: --schedule: ") && err.contains("\n  61 * * * *\n  ^^\n"), "{err}");
    let long = format!("{} * * * *", vec!["1"; 400].join(","));
    let (code, _, err) = onecron(&["next", "--schedule", &long]);
    assert_eq!((code, err.lines().all(|line| line.chars().count() < 262)), (78, true), "{err}");
    let (code, _, err) = onecron(&["next", "--schedule", "@daily", "--timezone", "Europe/Madird"]);
    assert_eq!(code, 78);
    assert!(err.contains("Europe/Madrid"), "{err}");
    assert_eq!(onecron(&["next", "--schedule", "@daily", "--from", "tomorrow"]).0, 2);
    assert_eq!(onecron(&["next", "--schedule", "@daily", "--count", "0"]).0, 2);
}

#[test]
fn next_shows_the_named_jobs_of_a_table() {
    let example = example();
    let file = example.to_str().unwrap();
    let (code, out, err) = onecron(&["next", "--jobs", file, "-n", "1", "slow-poll", "disk-usage"]);
    assert_eq!((code, err.as_str()), (0, ""));
    assert_eq!(
        out,
        "\
JOB         SCHEDULED FOR         UTC
slow-poll   2026-03-01T00:00:30Z  2026-03-01T00:00:30Z
disk-usage  2026-03-01T00:01:00Z  2026-03-01T00:01:00Z
"
    );
    let (code, out, _) = onecron(&["next", "--jobs", file, "-n", "1", "-o", "json"]);
    let runs: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!((code, &runs[0]["job"]), (0, &"heartbeat".into()));
    let (code, _, err) = onecron(&["next", "--jobs", file, "nobody"]);
    assert_eq!(code, 2);
    assert!(err.contains("no job `nobody`") && err.contains("heartbeat"), "{err}");
}

#[test]
fn next_draws_the_number_of_h_from_the_name_of_the_job() {
    let of = |name: &str| onecron(&["next", "--schedule", "H H * * *", "--job", name, "-n", "1"]).1;
    let (_, table, _) =
        onecron(&["next", "--jobs", example().to_str().unwrap(), "nightly-report", "-n", "1", "-o", "json"]);
    let line = ["next", "--schedule", "H 4 * * *", "--timezone", "Europe/Madrid", "--job", "nightly-report", "-n", "1"];
    let (_, alone, _) = onecron(&[&line[..], &["-o", "json"]].concat());
    let utc = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap()[0]["utc"].clone();
    assert_eq!(utc(&table), utc(&alone));
    assert_ne!(of("a"), of("b"));
    for (schedule, is_told) in [("H 3 * * *", true), ("0,H(1-9) 3 * * THU", true), ("0 3 * MAR THU", false)] {
        let (code, _, err) = onecron(&["next", "--schedule", schedule, "-n", "1"]);
        assert_eq!((code, err.contains("--job says which")), (0, is_told), "{schedule}: {err}");
    }
}

/// Every problem must be renderable, with its carets below its line.
fn check_any(content: Vec<u8>) {
    let problems = config::load(&[Source::new("f", content)], now()).map_or_else(|p| p, |loaded| loaded.warnings);
    let sorted = problems.windows(2).all(|pair| (pair[0].line, pair[0].column) <= (pair[1].line, pair[1].column));
    assert!(sorted || problems.len() > 1000);
    for problem in &problems {
        assert!(!problem.message.is_empty());
        assert!(problem.underline.chars().count() <= problem.excerpt.chars().count() + 1, "{problem}");
    }
    assert!(!config::render(&problems).contains(['\u{1b}', '\0']));
}

fn seeds() -> Vec<Vec<u8>> {
    let mut all: Vec<Vec<u8>> =
        ["good", "bad"].iter().flat_map(|kind| tables(kind)).map(|(_, content)| content).collect();
    all.push(fs::read(example()).unwrap());
    all.retain(|content| content.len() < 10_000);
    all
}

proptest! {
    #[test]
    fn no_bytes_break_the_loader(content in prop::collection::vec(any::<u8>(), 0..300)) {
        check_any(content);
    }

    #[test]
    fn no_text_breaks_the_loader(content in "[-a-z0-9:*&@!%|>'\"\\[\\]{},#\\t \\n\\r\u{85}\u{feff}é\u{1f600}\\\\]{0,200}") {
        check_any(content.into_bytes());
    }

    #[test]
    fn no_change_of_a_table_breaks_the_loader(
        seed in any::<prop::sample::Index>(),
        edits in prop::collection::vec((any::<prop::sample::Index>(), 0..4_u8, any::<u8>()), 1..12),
    ) {
        let seeds = seeds();
        let mut content = seeds[seed.index(seeds.len())].clone();
        for (place, kind, byte) in edits {
            if content.is_empty() {
                break;
            }
            let at = place.index(content.len());
            match kind {
                0 => content[at] = byte,
                1 => _ = content.remove(at),
                2 => content.insert(at, b"*&@:-#'\"[]{}|>\t\n ~!%"[usize::from(byte) % 20]),
                _ => {
                    let end = (at + usize::from(byte)).min(content.len());
                    let piece = content[at..end].to_vec();
                    content.extend(piece);
                }
            }
        }
        check_any(content);
    }
}
