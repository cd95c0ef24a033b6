//! What a table needs and the machine has not: a warning at load, and `not_started` at run.

use crate::support::daemon::Launch;
use crate::support::daemon::Table;
use crate::support::web::Authority;
use serde_json::Value;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// What `validate` warns of: code, line, column, and the beginning of the message.
fn warnings(text: &str, folder: &Path, arguments: &[&str]) -> (Option<i32>, Vec<String>) {
    let path = folder.join("jobs.yaml");
    fs::write(&path, text).unwrap();
    let mut launch = Launch::new(&["validate", path.to_str().unwrap(), "-o", "json"]).env("IS_THERE", "yes");
    for argument in arguments {
        launch = launch.arg(argument);
    }
    let output = launch.output();
    let problems: Vec<Value> = serde_json::from_slice(&output.stdout).unwrap();
    let line = |problem: &Value| {
        assert_eq!(problem["severity"], "warning", "{problem}");
        assert!(problem["hint"].as_str().is_some_and(|hint| !hint.is_empty()), "{problem}");
        let [code, message, path] = ["code", "message", "path"].map(|key| problem[key].as_str().unwrap());
        format!("{}:{} {code} {path}: {message}", problem["line"], problem["column"])
    };
    (output.status.code(), problems.iter().map(line).collect())
}

/// A folder with a script that may be executed, one that may not, and a folder.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, mode) in [("good", 0o755), ("closed", 0o644)] {
        let path = folder.path().join(name);
        fs::write(&path, "#!/bin/sh\n").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
    }
    fs::create_dir(folder.path().join("sub")).unwrap();
    folder
}

#[test]
fn what_is_not_here_is_a_warning_with_its_place_and_no_error() {
    let folder = folder();
    let here = folder.path().display().to_string();
    let good = Authority::new();
    let authority = good.file().display().to_string();
    let text = format!(
        r#"defaults:
  env: {{SET: {{fromEnv: IS_THERE}}, UNSET: {{fromEnv: IS_NOT_THERE}}}}
jobs:
  - {{name: a, schedule: '@daily', command: [no-such-program]}}
  - {{name: b, schedule: '@daily', command: x, shell: [/no/such/shell, -c]}}
  - {{name: c, schedule: '@daily', command: x, shell: [/no/such/shell, -c]}}
  - {{name: d, schedule: '@daily', command: [./closed], workingDir: {here}}}
  - {{name: e, schedule: '@daily', command: [./sub], workingDir: {here}}}
  - {{name: f, schedule: '@daily', command: [./good, no-such-program], workingDir: {here}}}
  - {{name: g, schedule: '@daily', command: [./good], workingDir: /no/such/folder}}
  - {{name: h, schedule: '@daily', command: 'true', workingDir: {here}/good}}
  - {{name: i, schedule: '@daily', command: [good], env: {{PATH: '/no/such:{here}'}}}}
  - {{name: j, schedule: '@daily', command: [good]}}
  - {{name: k, schedule: '@daily', command: 'true', env: {{A: {{fromFile: '{here}/good'}}}}}}
  - {{name: l, schedule: '@daily', command: 'true', env: {{A: {{fromFile: '{here}/none'}}}}}}
  - {{name: m, schedule: '@daily', command: 'true', env: {{A: {{fromFile: '{here}/sub'}}}}}}
  - {{name: n, schedule: '@daily', command: [closed], env: {{PATH: '{here}'}}}}
  - {{name: o, schedule: '@daily', command: [good], env: {{PATH: '.'}}, workingDir: {here}}}
  - {{name: p, schedule: '@daily', http: {{url: 'https://a/', caFile: '{here}/none.pem'}}}}
  - {{name: q, schedule: '@daily', http: {{url: 'https://a/', caFile: '{here}/good'}}}}
  - {{name: r, schedule: '@daily', http: {{url: 'https://a/', caFile: '{here}/sub'}}}}
  - {{name: s, schedule: '@daily', http: {{url: 'https://a/', caFile: '{authority}'}}}}
"#
    );
    let (code, found) = warnings(&text, folder.path(), &[]);
    let place = |line: usize, word: &str| text.lines().nth(line - 1).unwrap().find(word).unwrap() + 1;
    let expected = [
        format!("2:{} E308 defaults: there is no variable `IS_NOT_THERE` here", place(2, "IS_NOT")),
        format!("4:{} W511 jobs[0] \"a\": there is no program `no-such-program` here", place(4, "[no-such")),
        format!("5:{} W511 jobs[1] \"b\": there is no shell `/no/such/shell` here (needed in 2", place(5, "[/no")),
        format!("7:{} W511 jobs[3] \"d\": this user may not execute the program `./closed`", place(7, "[./")),
        format!("8:{} W511 jobs[4] \"e\": `./sub` is not a file", place(8, "[./")),
        format!("10:{} W512 jobs[6] \"g\": there is no folder `/no/such/folder` here", place(10, "/no/")),
        format!("11:{} W512 jobs[7] \"h\": `workingDir` `{here}/good` is not a folder", place(11, &here)),
        format!("13:{} W511 jobs[9] \"j\": there is no program `good` here", place(13, "[good")),
        format!("15:{} E308 jobs[11] \"l\": there is no file `{here}/none` here", place(15, "'/")),
        format!("16:{} E308 jobs[12] \"m\": `{here}/sub` is not a regular file", place(16, "'/")),
        format!("17:{} W511 jobs[13] \"n\": this user may not execute the program `closed`", place(17, "[closed")),
        format!("19:{} E308 jobs[15] \"p\": there is no file `{here}/none.pem` here, and `caFile`", place(19, "'/")),
        format!("20:{} E308 jobs[16] \"q\": `caFile` `{here}/good` has no certificate in it", place(20, "'/")),
        format!("21:{} E308 jobs[17] \"r\": `caFile` `{here}/sub` is not a regular file", place(21, "'/")),
    ];
    assert_eq!(found.len(), expected.len(), "{found:#?}");
    for (found, expected) in found.iter().zip(&expected) {
        assert!(found.starts_with(expected), "{found}\nbegins not with\n{expected}");
    }
    assert_eq!(code, Some(0));
    assert_eq!(warnings(&text, folder.path(), &["--strict"]).0, Some(3));
    assert_eq!(warnings(&text, folder.path(), &["--strict", "--elsewhere"]), (Some(0), vec![]));
}

#[test]
fn the_daemon_says_at_its_start_what_is_missing_and_each_such_run_is_not_started() {
    let table = Table::new(concat!(
        "  - {name: program, schedule: '* * * * * *', command: [no-such-program]}\n",
        "  - {name: shell, schedule: '* * * * * *', command: x, shell: [/no/such/shell]}\n",
        "  - {name: folder, schedule: '* * * * * *', command: x, workingDir: /no/such/folder}\n",
        "  - {name: variable, schedule: '* * * * * *', command: x, env: {A: {fromEnv: IS_NOT_THERE}}}\n",
        "  - {name: blanks, schedule: '* * * * * *', command: [no-such program]}\n",
        "  - {name: path, schedule: '* * * * * *', command: [/no/such/program]}\n",
        "  - {name: is-folder, schedule: '* * * * * *', command: [/usr]}\n",
        "  - {name: authorities, schedule: '* * * * * *', http: {url: 'https://127.0.0.1:1/', caFile: /no/such/ca.pem}}\n",
        "  - {name: file, schedule: '* * * * * *', command: x, env: {A: {fromFile: /no/such/file}}}\n",
    ));
    let daemon = table.launch("memory:").start();
    for (job, code, about) in [
        ("program", "W511", "no program `no-such-program`"),
        ("shell", "W511", "no shell `/no/such/shell`"),
        ("folder", "W512", "/no/such/folder"),
        ("variable", "E308", "IS_NOT_THERE"),
        ("blanks", "W511", "no program `no-such program`"),
        ("path", "W511", "no program `/no/such/program`"),
        ("is-folder", "W511", "`/usr` is"),
        ("authorities", "E308", "/no/such/ca.pem"),
        ("file", "E308", "/no/such/file"),
    ] {
        let finished = daemon.wait_for_job("run_finished", job);
        assert_eq!(finished["outcome"], "not_started");
        assert!(finished["error"].as_str().unwrap().contains(about), "{finished}");
        let warned = daemon.events("table_warning");
        let said = |line: &&Value| line["code"] == code && line["detail"].as_str().unwrap().contains(about);
        assert_eq!(warned.iter().filter(said).count(), 1, "{about}: {warned:?}");
    }
}
