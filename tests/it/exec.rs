//! `onecron exec`: one run in the foreground, alone and under a claim.

use crate::processes::is_alive;
use crate::processes::signal;
use crate::processes::until;
use crate::processes::until_limit;
use crate::support::daemon::Daemon;
use crate::support::daemon::Launch;
use crate::support::daemon::Table;
use crate::support::server::RedisServer;
use crate::support::server::find_program;
use crate::support::web::Web;
use crate::support::web::answer;
use nix::sys::signal::Signal;
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::time::Duration;

const STORE: &str = "sqlite:fleet.db";

/// A job that no tick starts.
fn job(name: &str, command: &str, rest: &str) -> String {
    format!("  - {{name: {name}, schedule: '0 0 1 1 *', command: {command:?}{rest}}}\n")
}

fn launch(table: &Table, args: &[&str]) -> Launch {
    Launch::new(&[&["exec", "--jobs", &table.path()], args].concat()).folder(table.folder.path())
}

/// Exit code, standard output and standard error.
fn ended(launch: &Launch) -> (i32, String, String) {
    let output = launch.output();
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    (output.status.code().unwrap(), text(&output.stdout), text(&output.stderr))
}

/// Waits until it has printed a line that begins so, and returns the rest of that line.
fn said(exec: &Daemon, beginning: &str) -> String {
    let find = || exec.strays().iter().find_map(|line| line.strip_prefix(beginning).map(str::to_owned));
    until(&format!("{beginning:?} is printed"), || find().is_some());
    find().unwrap()
}

/// A daemon that has registered a job, and ticks of which it remembers.
fn daemon(table: &Table, store: &str, job: &str) -> Daemon {
    let daemon = table.launch(store).start();
    daemon.wait_for_job("job_registered", job);
    daemon
}

/// A run as `onecron show` has it.
fn shown(folder: &Path, store: &str, run: &str) -> Value {
    let (code, out, errors) = ended(&Launch::new(&["show", run, "--store", store, "-o", "json"]).folder(folder));
    assert_eq!(code, 0, "{errors}");
    serde_json::from_str(&out).unwrap()
}

#[test]
fn the_exit_status_is_that_of_the_job_and_its_output_is_passed_through() {
    let table = Table::new(
        &[
            job("seven", "printf 'a\\0b'; echo to-stderr >&2; exit 7", ""),
            job("by-signal", "kill -USR1 $$", ""),
            job("good", "exit 3", ", successExitCodes: [3]"),
            job("missing", "/no/such/program", ", shell: [/no/such/shell]"),
        ]
        .concat(),
    );
    assert_eq!(ended(&launch(&table, &["seven"])), (7, "a\0b".to_owned(), "to-stderr\n".to_owned()));
    assert_eq!(ended(&launch(&table, &["by-signal"])).0, 128 + 10);
    assert_eq!(ended(&launch(&table, &["good"])).0, 3);
    let (code, out, errors) = ended(&launch(&table, &["missing"]));
    assert_eq!((code, out.as_str()), (1, ""));
    assert!(errors.contains("error: start the job: there is no shell `/no/such/shell`"), "{errors}");
}

#[test]
fn a_job_gets_its_environment_and_none_of_our_settings() {
    let told = "env | grep -e '^ONECRON_' -e '^OWN=' -e '^INHERITED=' | sort; cat; pwd";
    let table = Table::new(&job("told", told, ", workingDir: /, env: {OWN: \"yes\"}"));
    let exec = launch(&table, &["told", "--by", "ada"]);
    let (code, out, errors) = ended(&exec.env("INHERITED", "1").env("ONECRON_STORE", "redis://:s3cret@nowhere"));
    assert_eq!((code, errors.as_str()), (0, ""));
    let value = |name: &str| {
        let line = out.lines().find_map(|line| line.strip_prefix(&format!("{name}=")));
        line.unwrap_or_else(|| panic!("{name}: {out}")).to_owned()
    };
    assert!(value("ONECRON_RUN_ID").starts_with("told@20") && value("ONECRON_RUN_ID").contains("+manual-"), "{out}");
    assert!(value("ONECRON_REPLICA").starts_with("command-ada-"), "{out}");
    for (name, wanted) in [
        ("ONECRON_JOB", "told"),
        ("ONECRON_TRIGGER", "manual"),
        ("ONECRON_ATTEMPT", "1"),
        ("ONECRON_FENCING_TOKEN", "0"),
        ("ONECRON_LAST_SUCCESS", ""),
        ("OWN", "yes"),
        ("INHERITED", "1"),
    ] {
        assert_eq!(value(name), wanted, "{name}");
    }
    assert!(!out.contains("s3cret") && out.ends_with("\n/\n"), "{out}");
    assert_eq!(out.lines().filter(|line| line.starts_with("ONECRON_")).count(), 8, "{out}");
}

#[test]
fn signals_are_passed_on_and_a_job_that_ignores_them_is_killed_after_its_grace() {
    let polite =
        "trap 'echo got TERM; exit 5' TERM; trap 'echo got INT; exit 6' INT; echo ready; while :; do sleep 0.05; done";
    let deaf = "trap '' TERM INT; echo ready; while :; do sleep 0.05; done";
    let table = Table::new(&(job("polite", polite, "") + &job("deaf", deaf, ", terminationGracePeriod: 300ms")));
    for (name, sent, code, last) in [
        ("polite", Signal::SIGTERM, 5, "got TERM"),
        ("polite", Signal::SIGINT, 6, "got INT"),
        ("deaf", Signal::SIGTERM, 128 + 9, "ready"),
        ("deaf", Signal::SIGINT, 128 + 9, "ready"),
    ] {
        let mut exec = launch(&table, &[name]).start();
        said(&exec, "ready");
        signal(exec.child_pid(), sent);
        assert_eq!(exec.wait_for_exit(), code, "{name} {sent}");
        assert_eq!(exec.strays().last().map(String::as_str), Some(last));
        assert_eq!(exec.errors().contains("it is killed"), name == "deaf", "{}", exec.errors());
    }
}

#[test]
fn the_timeout_of_the_job_holds() {
    let table = Table::new(&job("long", "exec sleep 1000", ", timeout: 300ms"));
    let (code, _, errors) = ended(&launch(&table, &["long"]));
    assert_eq!(code, 128 + 15);
    assert!(errors.contains("`timeout` is over") && errors.contains("error: stopped at its timeout"), "{errors}");
}

#[test]
fn a_dry_run_shows_what_would_be_run_without_secrets_and_runs_nothing() {
    let http = "  - name: ask\n    schedule: '@daily'\n    http:\n      url: http://host:8080/path?key=s3cret\n      \
                headers: {Authorization: 'Bearer s3cret', X-Key: {fromFile: /run/key}, Accept: text/plain}\n      body: s3cret\n";
    let command =
        "touch made; PGPASSWORD=s3cret psql --host=db; curl http://u:s3cret@h; x --token s3cret; echo AKIAS3CRET";
    let env =
        ", env: {DB_PASSWORD: s3cret, LC_ALL: C.UTF-8, KEY: {fromEnv: SOME_KEY}}, workingDir: /srv, inheritEnv: false";
    let list = "  - {name: list, schedule: '@daily', command: [mysql, --password, s3cret, \"a b\"]}\n";
    let table = Table::new(&[&job("made", command, env), http, list].concat());
    let content = fs::read_to_string(table.path()).unwrap();
    fs::write(table.path(), content.replace("lockLease: 5s,", "lockLease: 5s, redact: ['AKIA[A-Z0-9]+'],")).unwrap();
    let plan = |args: &[&str]| {
        let (code, out, errors) = ended(&launch(&table, &[args, &["--dry-run"]].concat()));
        assert_eq!((code, errors.as_str()), (0, ""));
        assert!(!out.to_lowercase().contains("s3cret"), "{out}");
        out
    };
    let out = plan(&["made"]);
    for part in [
        "/bin/sh -c 'touch made; PGPASSWORD=*** psql --host=db; ",
        "/srv",
        "DB_PASSWORD=***",
        "LC_ALL=C.UTF-8",
        "KEY=(what the variable SOME_KEY has)",
        "only PATH, HOME, LANG, TZ",
        "after 1h",
        "[redacted]",
    ] {
        assert!(out.contains(part), "{part}: {out}");
    }
    let out = plan(&["ask", "--claim"]);
    for part in [
        "POST http://host:8080/path?…",
        "Authorization: ***",
        "X-Key: (what the file /run/key has)",
        "Accept: text/plain",
        "6 bytes",
        "200..299",
        "the store is asked first",
    ] {
        assert!(out.contains(part), "{part}: {out}");
    }
    assert!(plan(&["list"]).contains("mysql --password *** 'a b'"));
    assert_eq!(fs::read_dir(table.folder.path()).unwrap().count(), 1, "nothing was made");
}

#[test]
fn a_request_is_a_run_too() {
    let web = Web::start(|seen| match seen.line.contains("/good") {
        true => answer(200, "", "done"),
        false => answer(500, "", "oh no"),
    });
    let job = |name: &str| {
        format!("  - {{name: {name}, schedule: '@daily', http: {{url: '{}'}}}}\n", web.url(&format!("/{name}")))
    };
    let table = Table::new(&(job("good") + &job("bad")));
    assert_eq!(ended(&launch(&table, &["good"])), (0, "done\n".to_owned(), String::new()));
    let (code, out, errors) = ended(&launch(&table, &["bad"]));
    assert_eq!((code, out.as_str()), (1, "oh no\n"));
    assert!(errors.contains("500"), "{errors}");
    assert_eq!(web.seen()[0].header("Onecron-Trigger"), "manual");
}

#[test]
fn what_cannot_be_meant_is_refused_and_nothing_is_run() {
    let table = Table::new(&job("made", "touch made", ""));
    for (args, wanted, part) in [
        (&["mad"][..], 2, "did you mean `made`?"),
        (&["made", "--store", STORE], 2, "write --claim as well"),
        (&["made", "--force"], 2, "--claim"),
        (&["made", "--claim", "--store", STORE], 69, "there is no file `fleet.db`"),
    ] {
        let (code, _, errors) = ended(&launch(&table, args));
        assert!(code == wanted && errors.contains(part), "{args:?}: {code} {errors}");
        assert!(errors.matches("error").count() == 1, "{args:?}: {errors}");
    }
    fs::write(table.path(), "jobs: {}").unwrap();
    let (code, _, errors) = ended(&launch(&table, &["made"]));
    assert!(code == 78 && errors.contains("E203") && !errors.contains("error: error"), "{errors}");
    assert_eq!(
        ended(&Launch::new(&["next", "--jobs", &table.path()])).2,
        errors,
        "all commands say the same of a table"
    );
    assert_eq!(fs::read_dir(table.folder.path()).unwrap().count(), 1);
}

#[test]
fn a_claimed_run_is_recorded_as_one_by_hand_and_a_job_that_is_held_is_not_run() {
    let table = Table::new(&job(
        "hold",
        "echo token=$ONECRON_FENCING_TOKEN last=$ONECRON_LAST_SUCCESS; until test -e go; do sleep 0.05; done",
        "",
    ));
    let (folder, _daemon) = (table.folder.path(), daemon(&table, STORE, "hold"));
    let claim = ["hold", "--claim", "--store", STORE, "--by", "ada"];
    let mut first = launch(&table, &claim).start();
    let token = said(&first, "token=");
    // While it goes on, nobody else has the job: neither a second one like it nor a replica.
    let (code, out, errors) = ended(&launch(&table, &claim));
    assert!(code == 3 && out.is_empty() && errors.contains("job `hold` is held by run `hold@"), "{code} {errors}");
    assert!(errors.contains("command-ada-") && errors.contains("onecron cancel hold@"), "{errors}");
    let trigger = Launch::new(&["trigger", "hold", "--store", STORE, "--wait"]).folder(folder);
    let (code, out, _) = ended(&trigger);
    assert!(code == 1 && out.contains("skipped: overlap"), "{out}");
    fs::write(folder.join("go"), "").unwrap();
    assert_eq!(first.wait_for_exit(), 0);
    let run = first.errors().lines().next().unwrap().to_owned();
    let record = shown(folder, STORE, &run);
    let found = (&record["outcome"], &record["exit_code"], &record["attempts"], &record["ordered_by"]);
    assert_eq!(found, (&"succeeded".into(), &0.into(), &1.into(), &"ada".into()), "{record}");
    assert!(record["replica"].as_str().unwrap().starts_with("command-ada-"), "{record}");
    // The next one is told of it, and has a greater token.
    let (code, out, _) = ended(&launch(&table, &claim));
    let second = out.strip_prefix("token=").unwrap();
    let number = |text: &str| text.split(' ').next().unwrap().parse::<u64>().unwrap();
    assert!(code == 0 && number(second) > number(&token) && number(&token) > 0, "{token} {second}");
    assert!(token.ends_with(" last=") && second.contains(" last=20"), "{token} {second}");
}

/// Whatever the job's policy is for ticks, and whoever was first: another one like it, or a replica.
#[test]
fn a_job_that_may_overlap_is_not_run_under_a_claim_while_another_run_is_going() {
    // One that is run after all has an end.
    let wait = "echo ready; touch begun; n=0; until test -e go || test $n = 400; do n=$((n+1)); sleep 0.05; done";
    let table = Table::new(&job("free", wait, ", concurrencyPolicy: Allow"));
    let (folder, daemon) = (table.folder.path(), daemon(&table, STORE, "free"));
    let claim = ["free", "--claim", "--store", STORE];
    let is_refused = || {
        let (code, out, errors) = ended(&launch(&table, &claim));
        assert!(code == 3 && out.is_empty() && errors.contains("job `free` is held by run `free@"), "{code} {errors}");
    };
    let mut first = launch(&table, &claim).start();
    said(&first, "ready");
    is_refused();
    // A replica's run, which may overlap, begins beside it.
    let trigger = || {
        fs::remove_file(folder.join("begun")).unwrap();
        let (code, run, errors) = ended(&Launch::new(&["trigger", "free", "--store", STORE]).folder(folder));
        assert_eq!(code, 0, "{errors}");
        until("the replica runs it", || folder.join("begun").exists());
        run.trim().to_owned()
    };
    let beside = trigger();
    fs::write(folder.join("go"), "").unwrap();
    assert_eq!(first.wait_for_exit(), 0);
    until("that one is over", || shown(folder, STORE, &beside)["outcome"] == "succeeded");
    // And is enough by itself.
    fs::remove_file(folder.join("go")).unwrap();
    trigger();
    is_refused();
    fs::write(folder.join("go"), "").unwrap();
    until("nothing is going", || daemon.events("run_finished").len() == 2);
    let (code, out, errors) = ended(&launch(&table, &claim));
    assert_eq!((code, out.as_str()), (0, "ready\n"), "{errors}");
}

#[test]
fn a_paused_job_is_run_only_with_force_and_a_cancelled_one_is_stopped() {
    let table = Table::new(&job("hold", "echo ready; exec sleep 1000", ""));
    let (folder, _daemon) = (table.folder.path(), daemon(&table, STORE, "hold"));
    let onecron = |args: &[&str]| ended(&Launch::new(&[args, &["--store", STORE]].concat()).folder(folder));
    assert_eq!(onecron(&["pause", "hold"]).0, 0);
    let claim = ["hold", "--claim", "--store", STORE];
    let (code, _, errors) = ended(&launch(&table, &claim));
    assert!(code == 3 && errors.contains("is paused") && errors.contains("--force"), "{errors}");
    let mut exec = launch(&table, &[&claim[..], &["--force"]].concat()).start();
    said(&exec, "ready");
    let run = exec.errors().lines().next().unwrap().to_owned();
    assert_eq!(onecron(&["cancel", &run, "--wait", "--by", "bob"]).0, 0);
    assert_eq!(exec.wait_for_exit(), 128 + 15);
    assert!(exec.errors().contains("warning: bob asked for its end"), "{}", exec.errors());
    assert_eq!(shown(folder, STORE, &run)["outcome"], "cancelled");
}

/// Who asks for its end before it has begun, does not get a run, later on some replica.
#[test]
fn a_signal_ends_the_waiting_for_a_claim_and_nobody_runs_the_job_then() {
    let table = Table::new(&job("hold", "echo ran >> ran; exec sleep 60", ", lostRunPolicy: Report"));
    let (folder, daemon) = (table.folder.path(), daemon(&table, STORE, "hold"));
    let claim = ["hold", "--claim", "--store", STORE];
    let first = launch(&table, &claim).start();
    until("the first one runs", || folder.join("ran").exists());
    signal(first.child_pid(), Signal::SIGKILL);
    // It gives no sign of life: the second one waits until it is out of the way.
    let list = Launch::new(&["runs", "hold", "--store", STORE, "-o", "json"]).folder(folder);
    let waits = || {
        serde_json::from_str::<Value>(&ended(&list).1)
            .unwrap()
            .as_array()
            .unwrap()
            .iter()
            .any(|run| run["ordered_by"] == "bob")
    };
    let mut second = launch(&table, &[&claim[..], &["--by", "bob"]].concat()).start();
    until("the second one has its run", waits);
    signal(second.child_pid(), Signal::SIGINT);
    assert_eq!(second.wait_for_exit(), 128 + 2, "{}", second.errors());
    let errors = second.errors();
    assert!(errors.contains("asked to stop before job `hold` was started: run `hold@"), "{errors}");
    let run = errors.split('`').find(|word| word.starts_with("hold@")).unwrap();
    assert_eq!(shown(folder, STORE, run)["outcome"], "cancelled");
    daemon.wait_for(|line| line["event"] == "run_lost", Duration::from_secs(40));
    assert_eq!(fs::read_to_string(folder.join("ran")).unwrap(), "ran\n");
}

#[test]
fn a_signal_ends_the_waiting_for_a_store_that_says_nothing() {
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("redis://{}", silent.local_addr().unwrap());
    let table = Table::new(&job("made", "touch made", ""));
    let mut exec = launch(&table, &["made", "--claim", "--store", &url]).start();
    let connection = silent.accept().unwrap();
    signal(exec.child_pid(), Signal::SIGTERM);
    assert_eq!(exec.wait_for_exit(), 128 + 15, "{}", exec.errors());
    assert!(exec.errors().contains("hint: `onecron runs made` shows it"), "{}", exec.errors());
    drop(connection);
    assert!(!table.folder.path().join("made").exists());
}

/// The job is guarded: where this command cannot stop it, its guardian does. One that may overlap, and that nobody starts
/// again, lives on.
#[test]
fn a_claimed_job_does_not_outlive_its_lease_when_its_command_is_killed() {
    let command = "echo pid=$$; exec sleep 60";
    let table = Table::new(&(job("guarded", command, "") + &job("free", command, ", concurrencyPolicy: Allow")));
    let (folder, daemon) = (table.folder.path(), daemon(&table, STORE, "guarded"));
    daemon.wait_for_job("job_registered", "free");
    let start = |name: &str| {
        let exec = launch(&table, &[name, "--claim", "--store", STORE]).start();
        let pid: i32 = said(&exec, "pid=").parse().unwrap();
        (exec, pid)
    };
    let ((guarded, guarded_pid), (free, free_pid)) = (start("guarded"), start("free"));
    let run = guarded.errors().lines().next().unwrap().to_owned();
    signal(guarded.child_pid(), Signal::SIGKILL);
    signal(free.child_pid(), Signal::SIGKILL);
    until_limit("the guardian has stopped it", Duration::from_secs(15), || !is_alive(guarded_pid));
    for name in ["guarded", "free"] {
        daemon.wait_for(|line| line["event"] == "run_lost" && line["job"] == name, Duration::from_secs(40));
    }
    assert_eq!(shown(folder, STORE, &run)["outcome"], "lost");
    assert!(is_alive(free_pid));
    signal(free_pid, Signal::SIGKILL);
}

#[test]
fn without_its_store_a_job_that_must_not_overlap_is_stopped_and_a_success_that_is_not_recorded_is_told() {
    let Some(program) = find_program("redis-server") else {
        println!("no redis-server: skipped");
        return;
    };
    let mut server = RedisServer::start(&program, &[]);
    let wait = "echo ready; until test -e go; do sleep 0.05; done";
    let table = Table::new(&(job("held", wait, "") + &job("free", wait, ", concurrencyPolicy: Allow")));
    let url = server.url();
    let daemon = daemon(&table, &url, "held");
    daemon.wait_for_job("job_registered", "free");
    let start = |name: &str| {
        let exec = launch(&table, &[name, "--claim", "--store", &url]).start();
        said(&exec, "ready");
        exec
    };
    let (mut held, mut free) = (start("held"), start("free"));
    server.kill();
    let waits = |exec: &Daemon| {
        until_limit("it tells the store in vain", Duration::from_secs(20), || exec.errors().contains("is asked again"));
        signal(exec.child_pid(), Signal::SIGTERM);
    };
    waits(&held);
    assert_eq!(held.wait_for_exit(), 128 + 15);
    assert!(
        held.errors().contains("for a whole lease") && held.errors().contains("it is stopped"),
        "{}",
        held.errors()
    );
    until_limit("its lease is over as well", Duration::from_secs(20), || free.errors().contains("it goes on"));
    fs::write(table.folder.path().join("go"), "").unwrap();
    waits(&free);
    assert_eq!(free.wait_for_exit(), 75, "{}", free.errors());
    assert!(free.errors().contains("the store did not take how the run ended, succeeded"), "{}", free.errors());
}
