//! The command line: what is said, where, and with which exit code.

use crate::support::daemon::Launch;
use crate::support::daemon::Table;
use nix::sys::signal::Signal;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Output;

const GOOD: &str = "  - {name: hello, schedule: '0 0 1 1 *', command: 'true'}\n";

fn ended(args: &[&str]) -> (Option<i32>, String, String) {
    told(&Launch::new(args).output())
}

fn told(output: &Output) -> (Option<i32>, String, String) {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

#[test]
fn help_shows_what_there_is_and_hides_the_guardian() {
    let (code, help, errors) = ended(&["--help"]);
    assert_eq!((code, errors.as_str()), (Some(0), ""));
    let (_, commands) = help.split_once("Commands:\n").unwrap();
    let commands = commands.lines().take_while(|line| line.starts_with("  "));
    let commands: Vec<&str> = commands.filter_map(|line| line.split_whitespace().next()).collect();
    assert!(commands.len() >= 23 && commands.contains(&"run"), "{commands:?}");
    let readme = include_str!("../../README.md");
    for command in commands.iter().filter(|command| **command != "help") {
        let is_there = readme.lines().any(|line| line.starts_with('|') && line.contains(&format!("`{command}")));
        assert!(is_there, "README.md has no row for `onecron {command}`");
    }
    assert!(!help.contains("guardian"));
    let (code, help, _) = ended(&["run", "--help"]);
    assert_eq!(code, Some(0));
    for flag in [
        "JOBS",
        "STORE",
        "STORE_FILE",
        "NAMESPACE",
        "INSTANCE",
        "DRAIN_TIMEOUT",
        "LOG_LEVEL",
        "LOG_FORMAT",
        "LOG_SCHEMA",
    ] {
        assert!(help.contains(&format!("[env: ONECRON_{flag}")), "{flag}: {help}");
    }
    assert!(!help.contains("exit-with-stdin"));
}

#[test]
fn help_does_not_show_the_stores_password() {
    let (_, help, _) = told(&Launch::new(&["run", "--help"]).env("ONECRON_STORE", "redis://:hunter2@cache").output());
    assert!(!help.contains("hunter2"), "{help}");
}

#[test]
fn version_is_the_crates() {
    let expected = format!("onecron {}\n", env!("CARGO_PKG_VERSION"));
    assert_eq!(ended(&["--version"]), (Some(0), expected, String::new()));
}

#[test]
fn a_wrong_call_ends_with_2_and_says_why_on_standard_error() {
    for (args, found) in [
        (&["--nope"][..], "--nope"),
        (&["serve"], "serve"),
        (&[], "Usage"),
        (&["run", "--drain-timeout", "30"], "write `30s`"),
        (&["run", "--log-level", "trace"], "error, warn, info or debug"),
        (&["run", "--log-format", "xml"], "json or text"),
        (&["demo", "--for", "soon"], "30s"),
        (&["next", "--schedule", "@daily", "report"], "--schedule"),
        (&["next", "--schedule", "@daily", "--jobs", "jobs.yaml"], "--schedule and --jobs cannot be used together"),
        (&["next", "--timezone", "UTC"], "--schedule"),
        (&["next", "--job", "report"], "--schedule"),
        (&["next", "--schedule", "@daily", "--transitions", "-n", "3"], "--transitions"),
        (&["next", "--schedule", "H 3 * * *", "--job", "../x"], "a-z, 0-9 and -"),
        (&["explain", "@daily", "--job", "A b"], "a-z, 0-9 and -"),
        (&["explain"], "EXPR"),
        (&["trigger"], "JOB"),
        (&["trigger", "Nightly"], "nightly-sales"),
        (&["trigger", "a", "--at", "yesterday"], "2026-03-01T02:00:00Z"),
        (&["trigger", "a", "--key", ""], "1 to 200"),
        (&["trigger", "a", "--wait=soon"], "30s"),
        (&["cancel", "nightly-sales"], "nightly-sales@2026-03-01T02:00:00Z"),
        (&["runs", "--since", "soon"], "30s"),
        (&["show", "nightly-sales"], "onecron runs nightly-sales"),
        (&["show", "Nightly"], "nightly-sales@2026-03-01T02:00:00Z"),
        (&["why", "a", "--at", "yesterday"], "2026-03-01T02:00:00Z"),
        (&["pause"], "--all"),
        (&["pause", "a", "--all"], "cannot be used with"),
        (&["resume"], "--all"),
    ] {
        let (code, output, errors) = ended(args);
        assert_eq!((code, output.as_str()), (Some(2), ""), "{args:?}");
        assert!(errors.contains(found), "{args:?}: {errors}");
    }
}

#[test]
fn what_an_argument_has_in_it_moves_no_terminal() {
    let bad = "\r\nSet\u{202e}\u{9b}2J\u{7}";
    for args in [
        &[bad][..],
        &["next", "--from", bad],
        &["runs", "--since", bad],
        &["trigger", "a", "--at", bad],
        &["run", "--listen", bad],
        &["run", bad],
    ] {
        let (code, _, errors) = ended(args);
        assert_eq!(code, Some(2), "{args:?}");
        assert!(!errors.contains(['\r', '\u{202e}', '\u{9b}', '\u{7}', '\u{1b}']), "{errors:?}");
        assert!(errors.contains("\\r") && errors.contains("Set"), "{errors:?}");
    }
}

#[test]
fn a_bad_table_does_not_start_and_is_reported_whole() {
    let table = Table::new("  - {name: Hello, schedule: '61 * * * *', command: 'true', retries: 3}\n");
    let (code, output, errors) = told(&table.launch("memory:").output());
    assert_eq!((code, output.as_str()), (Some(78), ""));
    for found in ["jobs.yaml:4:", "error[E301]", "error[E302]", "error[E202]"] {
        assert!(errors.contains(found), "{found}: {errors}");
    }
    assert!(errors.ends_with('\n'));
}

#[test]
fn a_missing_table_does_not_start() {
    let (code, output, errors) = ended(&["run", "--jobs", "/no/such/jobs.yaml", "--store", "memory:"]);
    assert_eq!((code, output.as_str()), (Some(78), ""));
    assert!(errors.contains("/no/such/jobs.yaml: error[E103]"), "{errors}");
}

#[test]
fn a_bad_setting_does_not_start_and_says_what_to_write() {
    let table = Table::new(GOOD);
    for (flag, value, found) in [
        ("--store", "rabbit://cache", "redis://"),
        ("--store", "redis://cache:port", "the port after a host"),
        ("--store", "cache:6379", "write redis://host:6379"),
        ("--namespace", "Batch_Jobs", "--namespace batch-jobs"),
        ("--store-file", "/no/such/file", "/no/such/file"),
    ] {
        let launch = Launch::new(&["run", "--jobs", &table.path(), flag, value]).folder(table.folder.path());
        let (code, output, errors) = told(&launch.output());
        assert_eq!((code, output.as_str()), (Some(78), ""), "{flag}: {errors}");
        assert!(errors.starts_with("error: ") && errors.contains(found), "{flag}: {errors}");
    }
}

#[test]
fn a_variable_that_is_empty_is_not_set() {
    let table = Table::new(GOOD);
    let launch = Launch::new(&["run", "--jobs", &table.path()]).folder(table.folder.path());
    let names =
        ["STORE", "STORE_FILE", "NAMESPACE", "INSTANCE", "DRAIN_TIMEOUT", "LOG_LEVEL", "LOG_FORMAT", "LOG_SCHEMA"];
    let launch = names.iter().fold(launch, |launch, name| launch.env(&format!("ONECRON_{name}"), ""));
    let daemon = launch.start();
    let started = daemon.wait_for_event("daemon_started");
    assert_eq!((&started["store"], &started["store_namespace"]), (&"sqlite:onecron.db".into(), &"default".into()));
    daemon.wait_for_event("daemon_ready");
    assert_eq!(daemon.events("setting_warning").len(), 0);
    let (code, _, errors) = told(&Launch::new(&["validate"]).env("ONECRON_JOBS", "").output());
    assert_eq!(code, Some(78));
    assert!(errors.starts_with("/etc/onecron/jobs.yaml: "), "{errors}");
}

#[test]
fn a_variable_that_nobody_reads_is_warned_of() {
    let table = Table::new(GOOD);
    let launch = table.launch("memory:").env("ONECRON_DRAIN_TIMOUT", "1h").env("ONECRON_SERVICE_HOST", "10.0.0.1");
    let daemon = launch.env("ONECRON_RUN_ID", "of the job that starts this daemon").start();
    daemon.wait_for_event("daemon_ready");
    let warnings = daemon.events("setting_warning");
    let found: Vec<_> = warnings.iter().map(|line| (line["setting"].clone(), line["detail"].clone())).collect();
    let detail = "no setting is read from this variable: did you mean ONECRON_DRAIN_TIMEOUT?";
    assert_eq!(found, [("ONECRON_DRAIN_TIMOUT".into(), detail.into())]);
}

#[test]
fn a_variable_for_the_table_does_not_conflict_with_a_schedule() {
    let launch = Launch::new(&["next", "--schedule", "@daily", "-n", "1"]).env("ONECRON_JOBS", "/no/such/file");
    assert_eq!(told(&launch.output()).0, Some(0));
}

#[test]
fn in_kubernetes_the_default_store_is_refused_and_a_named_one_is_not() {
    let table = Table::new(GOOD);
    let inside = |args: &[&str]| {
        let launch = Launch::new(&["run", "--jobs", &table.path()]).folder(table.folder.path());
        let launch = args.iter().fold(launch, |launch, arg| launch.arg(arg));
        launch.env("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    };
    let (code, output, errors) = told(&inside(&[]).output());
    assert_eq!((code, output.as_str()), (Some(78), ""));
    assert!(errors.contains("ONECRON_STORE_FILE"), "{errors}");
    for launch in [inside(&["--store", "sqlite:onecron.db"]), inside(&[]).env("ONECRON_STORE", "sqlite:onecron.db")] {
        launch.start().wait_for_event("daemon_ready");
    }
}

#[test]
fn a_password_in_an_argument_is_warned_of_and_never_shown() {
    let table = Table::new(GOOD);
    let mut daemon = table.launch("redis://app:hunter2@127.0.0.1:1").start();
    let warning = daemon.wait_for_event("setting_warning");
    assert_eq!(warning["setting"], "--store");
    assert!(warning["detail"].as_str().unwrap().contains("--store-file"), "{warning}");
    let shown = "redis://app@127.0.0.1:1";
    assert_eq!(daemon.wait_for_event("daemon_started")["store"], shown);
    assert!(daemon.wait_for_event("store_lost")["error"].as_str().unwrap().contains(shown));
    daemon.signal(Signal::SIGTERM);
    assert_eq!(daemon.wait_for_exit(), 0);
    assert!(daemon.lines().iter().all(|line| !line.to_string().contains("hunter2")));
}

#[test]
fn a_store_file_holds_the_url_and_an_argument_wins_over_variables() {
    let table = Table::new(GOOD);
    let file = table.folder.path().join("store");
    std::fs::write(&file, "redis://:hunter2@127.0.0.1:1\n").unwrap();
    let file = file.to_str().unwrap();
    let base = Launch::new(&["run", "--jobs", &table.path()]).folder(table.folder.path());
    let store = |launch: &Launch| launch.start().wait_for_event("daemon_started")["store"].clone();
    let by_file = base.clone().arg("--store-file").arg(file).env("ONECRON_STORE", "memory:").start();
    assert!(by_file.wait_for_event("daemon_started")["store"].as_str().unwrap().ends_with("127.0.0.1:1"));
    by_file.wait_for_event("store_lost");
    assert_eq!(by_file.events("setting_warning").len(), 0);
    assert_eq!(store(&base.clone().arg("--store").arg("memory:").env("ONECRON_STORE_FILE", file)), "memory:");
    assert_eq!(store(&base.clone().env("ONECRON_STORE", "")), "sqlite:onecron.db");
    let (code, _, errors) = told(&base.env("ONECRON_STORE", "memory:").env("ONECRON_STORE_FILE", file).output());
    assert_eq!(code, Some(78));
    assert!(errors.contains("ONECRON_STORE and ONECRON_STORE_FILE"), "{errors}");
}

#[test]
fn a_daemon_is_named_after_its_pod_and_no_two_starts_have_one_name() {
    let table = Table::new(GOOD);
    let launch = Launch::new(&["run", "--jobs", &table.path(), "--store", "memory:"]);
    let launch = launch.env("POD_NAME", "web-7d9f").env("POD_NAMESPACE", "shop");
    let (first, second) = (launch.start(), launch.start());
    let (one, two) = (first.replica(), second.replica());
    assert!(one.starts_with("web-7d9f-") && two.starts_with("web-7d9f-") && one != two, "{one} {two}");
    assert_eq!(first.wait_for_event("daemon_started")["store_namespace"], "shop");
}

#[test]
fn a_command_without_its_store_or_its_job_says_what_to_write() {
    let folder = tempfile::tempdir().unwrap();
    let ask = |args: &[&str], store: &str| {
        let launch = args.iter().fold(Launch::new(&[]), |launch, arg| launch.arg(arg));
        told(&launch.folder(folder.path()).env("ONECRON_STORE", store).output())
    };
    for args in [&["trigger", "a"][..], &["cancel", "a@2026-03-01T02:00:00Z"], &["pause", "a"], &["resume", "--all"]] {
        for (store, code, found) in [
            ("sqlite:none.db", 69, "--store sqlite:/path/of/onecron.db"),
            ("redis://:hunter2@127.0.0.1:1", 69, "redis://127.0.0.1:1"),
            ("memory:", 78, "a store that is shared"),
            ("rabbit://cache", 78, "redis://"),
        ] {
            let (found_code, output, errors) = ask(args, store);
            assert_eq!((found_code, output.as_str()), (Some(code), ""), "{args:?} {store}: {errors}");
            assert!(errors.starts_with("error: ") && errors.contains(found), "{args:?} {store}: {errors}");
            assert!(!errors.contains("hunter2"), "{errors}");
        }
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "no command makes a store");
}

#[test]
fn a_command_about_an_unknown_job_or_run_names_those_that_are_known() {
    let table = Table::new("  - {name: nightly-sales, schedule: '0 0 1 1 *', command: 'true'}\n");
    let daemon = table.launch("sqlite:fleet.db").start();
    daemon.wait_for_job("job_registered", "nightly-sales");
    let ask = |args: &[&str]| {
        let launch = args.iter().fold(Launch::new(&[]), |launch, arg| launch.arg(arg));
        told(&launch.folder(table.folder.path()).env("ONECRON_STORE", "sqlite:fleet.db").output())
    };
    for args in [&["trigger", "nightly-sale"][..], &["pause", "nightly-sale"], &["resume", "nightly-sale"]] {
        let (code, output, errors) = ask(args);
        assert_eq!((code, output.as_str()), (Some(1), ""), "{args:?}: {errors}");
        assert!(errors.contains("did you mean `nightly-sales`?"), "{args:?}: {errors}");
    }
    let (code, _, errors) = ask(&["cancel", "nightly-sales@2026-03-01T02:00:00Z"]);
    assert_eq!(code, Some(1));
    assert!(errors.contains("no run of the job is open"), "{errors}");
    let (code, _, errors) = ask(&["trigger", "nightly-sales", "--namespace", "other"]);
    assert_eq!(code, Some(1));
    assert!(errors.contains("--namespace"), "{errors}");
    let (code, output, _) = ask(&["pause", "nightly-sales", "-o", "json", "--by", "ada"]);
    let shown: serde_json::Value = serde_json::from_str(&output).unwrap();
    assert_eq!((code, &shown[0]["paused"], &shown[0]["by"]), (Some(0), &true.into(), &"ada".into()));
    let (code, output, _) = ask(&["pause", "nightly-sales", "--by", "bob"]);
    assert_eq!(code, Some(0));
    assert!(output.starts_with("was paused already: nightly-sales, by ada since "), "{output}");
}

#[test]
fn completions_and_pages_name_every_command() {
    let (code, script, errors) = ended(&["completions", "bash"]);
    assert_eq!((code, errors.as_str()), (Some(0), ""));
    let folder = tempfile::tempdir().unwrap();
    let (code, output, errors) = ended(&["man", folder.path().to_str().unwrap()]);
    assert_eq!((code, output.as_str(), errors.as_str()), (Some(0), "", ""));
    let (_, help, _) = ended(&["--help"]);
    let commands = help.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
    let commands: Vec<&str> = commands.filter_map(|line| line.split_whitespace().next()).collect();
    assert!(commands.len() > 10, "{help}");
    for command in commands.into_iter().filter(|command| *command != "help") {
        assert!(script.contains(command), "{command}");
        let page = std::fs::read_to_string(folder.path().join(format!("onecron-{command}.1"))).unwrap();
        assert!(page.contains(&format!("onecron\\-{command} \\-")), "{page}");
    }
    assert!(!folder.path().join("onecron-guardian.1").exists());
    let (code, _, errors) = ended(&["man", "/nowhere/at/all"]);
    assert!(code == Some(1) && errors.contains("name a folder"), "{errors}");
}

#[test]
fn a_doctor_says_what_is_wrong_and_ends_with_the_code_for_it() {
    let (code, output, _) = ended(&["doctor", "--store", "redis://127.0.0.1:1"]);
    assert_eq!(code, Some(69), "{output}");
    assert!(output.contains("bad    store: ") && !output.contains("onecron doctor"), "{output}");
    assert!(output.contains("-      table: none was looked at"), "{output}");
    let (_, _, errors) = ended(&["status", "--store", "redis://127.0.0.1:1"]);
    assert!(errors.contains("`onecron doctor` looks at it"), "{errors}");
    let table = Table::new("  - {name: hello, schedule: 'never', command: 'true'}\n");
    let launch = Launch::new(&["doctor", "--jobs", &table.path(), "--store", "sqlite:none.db"]);
    let (code, output, _) = told(&launch.folder(table.folder.path()).output());
    assert!(code == Some(78) && output.contains("bad    table: "), "{output}");
}

#[test]
fn the_readme_has_as_many_jobs_in_its_first_start_as_the_example() {
    let example = concat!(env!("CARGO_MANIFEST_DIR"), "/jobs.example.yaml");
    let (code, output, errors) = ended(&["validate", "--elsewhere", example]);
    let (_, found) = output.split_once("good: ").unwrap_or_else(|| panic!("{output}{errors}"));
    let count = found.split(' ').next().unwrap();
    let readme = include_str!("../../README.md");
    assert!(code == Some(0) && readme.contains(&format!("jobs={count} file=jobs.example.yaml")), "{found}");
}

#[test]
fn a_run_or_an_instant_that_cannot_be_is_refused() {
    let run = "hello@2026-03-01T02:00:00Z";
    for (args, said) in [
        (&["why", "hello@then"][..], "`hello@then` is no run id"),
        (&["why", run, "--at", "2026-03-01T02:00:00Z"], "a run is named, and --at as well"),
        (&["why", "other", "--at", run], "is no run of job `other`"),
        (&["why", "hello", "--at", "hello@then"], "an instant is written as"),
        (&["why", "hello", "--at", "2026-02-30T02:00:00Z"], "there is no day 2026-02-30"),
        (&["why", "hello", "--at", "hello@2026-02-30T02:00:00Z"], "is no run id: there is no day 2026-02-30"),
        (&["why", "hello@2026-02-30T02:00:00Z"], "is no run id: there is no day 2026-02-30"),
        (&["show", "hello@2026-03-01T24:00:00Z"], "is no run id: there is no hour 24"),
        (&["cancel", "hello@2026-03-01T24:00:00Z"], "is no run id: there is no hour 24"),
        (&["trigger", "hello", "--at", "2026-02-30T02:00:00Z"], "there is no day 2026-02-30"),
        (&["runs", "hello", "--since", "2026-02-30T02:00:00Z"], "': there is no day 2026-02-30"),
        (&["runs", "hello", "--since", "yesterday"], "or an instant is written as"),
    ] {
        let (code, _, errors) = ended(args);
        assert!(code == Some(2) && errors.contains(said), "{args:?}: {errors}");
    }
    for args in
        [&["why", run][..], &["why", "hello", "--at", run], &["why", "hello@2026-03-01T02:00:07.123Z+manual-7f3a"]]
    {
        let (code, _, errors) = ended(&[args, &["--store", "sqlite:/none/at/all.db"]].concat());
        assert!(code == Some(69) && errors.contains("there is no file"), "{args:?}: {errors}");
    }
}

#[test]
fn a_crontab_becomes_a_table_that_is_good() {
    let folder = tempfile::tempdir().unwrap();
    let crontab = "# nightly\n0 3 * * * /opt/backup --all\n@reboot /opt/start\n*/5 * * * * /opt/poll\n";
    std::fs::write(folder.path().join("crontab"), crontab).unwrap();
    let convert = ["convert", "--from", "crontab", "crontab", "--timezone", "Europe/Madrid"];
    let (code, table, notes) = told(&Launch::new(&convert).folder(folder.path()).output());
    assert_eq!((code, notes.lines().count()), (Some(0), 1), "{notes}");
    assert!(notes.starts_with("note: line 3: @reboot"), "{notes}");
    let strict = [&convert[..], &["--strict"]].concat();
    assert_eq!(Launch::new(&strict).folder(folder.path()).output().status.code(), Some(3));
    std::fs::write(folder.path().join("jobs.yaml"), table).unwrap();
    let validate = Launch::new(&["validate", "--strict", "--elsewhere", "jobs.yaml"]).folder(folder.path());
    let (code, output, errors) = told(&validate.output());
    assert_eq!((code, errors.as_str()), (Some(0), ""), "{output}");
    assert!(output.contains("good: 2 jobs") && output.contains("Europe/Madrid"), "{output}");
    let (code, _, errors) =
        told(&Launch::new(&["convert", "--from", "cronjob", "none"]).folder(folder.path()).output());
    assert!(code == Some(78) && errors.contains("name a file"), "{errors}");
}

#[test]
fn a_table_that_lies_here_is_pointed_to_where_the_usual_one_is_missing() {
    if fs::exists("/etc/onecron/jobs.yaml").unwrap() {
        return; // a machine that has one
    }
    let folder = tempfile::tempdir().unwrap();
    let hint = || {
        let (code, _, errors) = told(&Launch::new(&["validate"]).folder(folder.path()).output());
        assert!(code == Some(78) && errors.contains("/etc/onecron/jobs.yaml: error[E103]"), "{errors}");
        errors
    };
    assert!(!hint().contains("--jobs jobs.yaml"));
    fs::write(folder.path().join("jobs.yaml"), "jobs: []").unwrap();
    assert!(hint().contains("`--jobs jobs.yaml`"));
}

#[test]
fn a_reader_that_goes_away_is_told_from_an_answer_of_no() {
    let table = Table::new("  - {name: hello, schedule: '0 0 1 1 *', command: 'true'}\n");
    let daemon = table.launch("sqlite:fleet.db").start();
    daemon.wait_for_job("job_registered", "hello");
    for args in [
        &["explain", "@daily"][..],
        &["next", "--schedule", "@daily"],
        &["completions", "bash"],
        &["man"],
        &["jobs", "--store", "sqlite:fleet.db"],
        &["status", "--check", "--store", "sqlite:fleet.db", "-o", "json"],
        &["pause", "--all", "--store", "sqlite:fleet.db"],
    ] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let output = Launch::new(args).folder(table.folder.path()).command().stdout(writer).output().unwrap();
        let (code, _, errors) = told(&output);
        let is_silent = args[0] == "pause" || errors.is_empty();
        assert!(code == Some(141) && is_silent, "{args:?}: {code:?} {errors}");
    }
}

#[test]
fn the_version_tells_what_the_program_was_built_with() {
    let manifest = include_str!("../../Cargo.toml");
    let (_, features) = manifest.split_once("[features]\n").unwrap();
    let features = features.lines().take_while(|line| !line.is_empty());
    let mut features: Vec<&str> = features.filter_map(|line| Some(line.split_once(" = ")?.0)).collect();
    features.sort_unstable();
    for feature in &features {
        let is_known = include_str!("../../src/cli/version.rs").contains(&format!("feature = \"{feature}\""));
        assert!(is_known, "add the feature `{feature}` to FEATURES in src/cli/version.rs");
    }
    let (code, told_as_json, _) = told(&Launch::new(&["version", "-o", "json"]).output());
    let about: serde_json::Value = serde_json::from_str(&told_as_json).unwrap();
    assert_eq!((code, about["version"].as_str()), (Some(0), Some(env!("CARGO_PKG_VERSION"))));
    assert_eq!(about["zone_data"], onecron::schedule::zone_data_version());
    assert!(about["rustc"].as_str().unwrap().starts_with("1."), "{about}");
    if cfg!(feature = "full") {
        assert_eq!(about["features"], serde_json::json!(features));
    }
    let (_, text, _) = told(&Launch::new(&["version"]).output());
    for part in [&format!("onecron {}\n", env!("CARGO_PKG_VERSION")), "commit ", "rustc ", "features ", "zone data "] {
        assert!(text.contains(part), "{text}");
    }
}

#[test]
fn the_program_installs_itself_in_one_step_also_over_one_that_runs() {
    let folder = tempfile::tempdir().unwrap();
    let installed = folder.path().join("onecron");
    let install = || told(&Launch::new(&["install", "."]).folder(folder.path()).output());
    assert_eq!(install(), (Some(0), "./onecron\n".to_owned(), String::new()));
    let size = fs::metadata(env!("CARGO_BIN_EXE_onecron")).unwrap().len();
    let is_whole = || {
        let found = fs::metadata(&installed).unwrap();
        (found.len(), found.permissions().mode() & 0o777) == (size, 0o755)
    };
    assert!(is_whole());
    // A file that is being executed cannot be written, and is replaced nevertheless: here by itself.
    let again = std::process::Command::new(&installed).args(["install", "."]).current_dir(folder.path()).output();
    assert_eq!(told(&again.unwrap()).0, Some(0));
    assert!(is_whole());
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "nothing else is left there");
    let nowhere = told(&Launch::new(&["install", "none"]).folder(folder.path()).output());
    assert!(nowhere.0 == Some(1) && nowhere.2.contains("copy this program to `none/onecron`"), "{nowhere:?}");
    fs::remove_file(&installed).unwrap();
    fs::create_dir(&installed).unwrap();
    assert_eq!(install().0, Some(1));
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "what was copied in vain is gone");
}

#[test]
fn a_refused_value_is_that_of_its_variable() {
    let (code, _, errors) = told(&Launch::new(&["run"]).env("ONECRON_LOG_LEVEL", "loud").output());
    assert_eq!(code, Some(2));
    assert!(errors.contains("hint: the value is that of the variable ONECRON_LOG_LEVEL"), "{errors}");
    let (_, _, errors) = told(&Launch::new(&["run", "--log-level", "loud"]).env("ONECRON_LOG_LEVEL", "info").output());
    assert!(errors.contains("--log-level") && !errors.contains("hint: the value"), "{errors}");
}

#[test]
fn what_is_said_of_an_order_is_short_and_of_one_line() {
    for (args, setting) in [
        (["pause", "hello", "--reason", "a\nb"], "--reason"),
        (["trigger", "hello", "--by", "a\u{1b}[2J"], "--by"),
        (["cancel", "hello@2026-03-01T02:00:00Z", "--by", &"b".repeat(501)], "--by"),
    ] {
        let (code, _, errors) = ended(&args);
        assert_eq!(code, Some(2), "{errors}");
        assert!(errors.contains(setting) && errors.contains("500 bytes"), "{errors}");
    }
    assert_eq!(ended(&["runs", "-n", "0"]).0, Some(2));
}
