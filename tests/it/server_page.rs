//! The pages of the daemon's HTTP server, without and with a store.

use crate::processes::until;
use crate::support::bench::Kind;
use crate::support::bench::program;
use crate::support::client::get;
use crate::support::client::send;
use crate::support::daemon::Daemon;
use crate::support::daemon::Launch;
use crate::support::daemon::Table;
use crate::support::server::RedisServer;
use crate::support::server::free_port;
use std::fs;

const JOBS: &str =
    "  - {name: good, description: '<b>bold</b> & \"quoted\"', schedule: '* * * * * *', command: 'echo hello'}
  - {name: bad, schedule: '* * * * * *', command: 'exit 3'}
  - {name: idle, schedule: '0 2 * * *', timeZone: Europe/Berlin, command: 'true'}
";

fn start(table: &Table, store: &str) -> (Daemon, String) {
    let daemon = table.launch(store).arg("--listen").arg("127.0.0.1:0").start();
    let address = daemon.wait_for_event("http_listening")["address"].as_str().unwrap().to_owned();
    (daemon, address)
}

fn body(address: &str, path: &str) -> String {
    let answer = get(address, path);
    assert_eq!(
        (answer.status, answer.header("content-type"), answer.header("refresh")),
        (200, "text/html; charset=utf-8", "15"),
        "{path}"
    );
    answer.body
}

#[test]
fn the_page_says_at_a_glance_what_is_wrong_and_leads_to_the_run() {
    let table = Table::new(JOBS);
    let store = format!("sqlite:{}/it's.db", table.folder.path().display());
    let daemon = table.launch(&store).arg("--listen").arg("127.0.0.1:0").arg("--namespace").arg("night").start();
    let address = daemon.wait_for_event("http_listening")["address"].as_str().unwrap().to_owned();
    let finished = daemon.wait_for_job("run_finished", "bad");
    until("it is seen", || body(&address, "/").contains("<h1>1 failing of 3 jobs</h1>"));
    let page = body(&address, "/");
    let place = |text: &str| page.find(text).unwrap_or_else(|| panic!("no {text} in {page}"));
    assert!(place("href=\"/jobs/bad\"") < place("href=\"/jobs/good\""), "worst first");
    for text in ["Needs a look", "Running now", "Coming up", "Europe/Berlin", "At 02:00 every day.", &daemon.replica()]
    {
        place(text);
    }
    assert!(page.contains("by the fleet's records as they were read"), "{page}");
    let job = body(&address, "/jobs/bad");
    let run = format!("/runs/{}", finished["run_id"].as_str().unwrap());
    for text in ["<svg", "aria-label", run.as_str(), "exit code 3", "onecron trigger bad", "concurrencyPolicy: Forbid"]
    {
        assert!(job.contains(text), "no {text} in {job}");
    }
    let shown = body(&address, &run);
    assert!(shown.contains("failed") && shown.contains("onecron show bad@"), "{shown}");
    // What is shown works as it is.
    let command = shown.split("<code>").find_map(|part| part.strip_prefix("onecron show")).unwrap();
    let words = command.split("</code>").next().unwrap().replace("&#39;", "'");
    let typed = format!("{} show{words}", env!("CARGO_BIN_EXE_onecron"));
    let output = std::process::Command::new("sh").arg("-c").arg(&typed).output().unwrap();
    assert!(
        output.status.success() && String::from_utf8_lossy(&output.stdout).contains("failed (3)"),
        "{typed}: {output:?}"
    );
    // No script, no style that the policy would not load, and what people write is no markup.
    let good = body(&address, "/jobs/good");
    assert!(good.contains("&lt;b&gt;bold&lt;/b&gt; &amp;") && !good.contains("<b>"), "{good}");
    for page in [page, job, shown, good] {
        assert!(
            !page.contains("<script")
                && !page.contains("style=")
                && page.contains("<link rel=\"stylesheet\" href=\"/style.css\">")
        );
    }
    let style = get(&address, "/style.css");
    assert_eq!((style.status, style.header("content-type")), (200, "text/css; charset=utf-8"));
}

#[test]
fn jobs_are_found_by_name_and_state_through_the_link() {
    let table = Table::new(JOBS);
    let (daemon, address) = start(&table, "memory:");
    daemon.wait_for_job("run_finished", "bad");
    let jobs = |query: &str| {
        let page = body(&address, &format!("/?{query}"));
        let (_, table) = page.split_once("id=\"jobs\"").unwrap();
        let table = table.split_once("</section>").unwrap().0.to_owned();
        ["good", "bad", "idle"]
            .into_iter()
            .filter(|name| table.contains(&format!("/jobs/{name}\"")))
            .collect::<Vec<_>>()
    };
    until("its end is seen", || jobs("state=failing") == ["bad"]);
    assert_eq!(jobs("name=oo"), ["good"]);
    assert_eq!(jobs("name=oo&state=failing"), Vec::<&str>::new());
    assert!(body(&address, "/?name=%22%3E%3Cx").contains("value=\"&quot;&gt;&lt;x\""));
}

#[test]
fn what_is_not_there_is_a_page_too() {
    let table = Table::new(JOBS);
    let (_daemon, address) = start(&table, "memory:");
    until("the fleet was looked at", || get(&address, "/api/v1/status").json()["view"]["stale"] == false);
    for (path, status) in [("/jobs/none", 404), ("/runs/good@2020-01-01T00:00:00Z", 404), ("/runs/x", 400)] {
        let answer = get(&address, path);
        assert_eq!((answer.status, answer.header("content-type")), (status, "text/html; charset=utf-8"), "{path}");
    }
    assert_eq!(send(&address, ("POST", "/"), "", "").status, 405);
}

#[test]
fn a_refused_table_is_said_on_every_page_for_as_long_as_it_is_so() {
    let table = Table::new(JOBS);
    let (daemon, address) = start(&table, "memory:");
    // The folder is watched from here on, so that the change is seen at once.
    daemon.wait_for_event("daemon_ready");
    let text = fs::read_to_string(table.path()).unwrap();
    fs::write(table.path(), text.replace("'0 2 * * *'", "'61 2 * * *'")).unwrap();
    daemon.wait_for_event("table_refused");
    until("it is said", || body(&address, "/").contains("The jobs file is refused."));
    let page = body(&address, "/jobs/idle");
    assert!(page.contains("jobs.yaml:6:") && page.contains("E302"), "{page}");
    assert!(page.contains("no command reaches it") && !page.contains("onecron trigger"), "{page}");
    let refused = get(&address, "/api/v1/status").json()["table"]["refused"].clone();
    let hint = refused["hint"].as_str().unwrap();
    assert!(page.contains("Hint: ") && page.contains(hint.split('`').next().unwrap()), "{hint}: {page}");
    assert!(get(&address, "/api/v1/status").json()["table"]["refused"]["first"].as_str().unwrap().contains("E302"));
    assert_eq!(get(&address, "/readyz").status, 200);
    fs::write(table.path(), text).unwrap();
    until("it is over", || !body(&address, "/").contains("refused"));
}

#[test]
fn while_the_store_is_away_the_last_view_is_shown_with_its_age() {
    let Some(program) = program(Kind::Redis) else { return };
    let mut redis = RedisServer::start(&program, &[]);
    let table = Table::new(JOBS);
    let (daemon, address) = start(&table, &redis.url());
    daemon.wait_for_job("run_finished", "bad");
    until("it is seen", || body(&address, "/").contains("<h1>1 failing of 3 jobs</h1>"));
    redis.kill();
    daemon.wait_for_event("store_lost");
    until("it is said", || body(&address, "/").contains("The store is away."));
    until("the view is old", || get(&address, "/api/v1/status").json()["view"]["stale"] == true);
    let page = body(&address, "/");
    assert!(
        page.contains("<h1>1 failing of 3 jobs (as it was known last)</h1>") && page.contains("This is how it was"),
        "{page}"
    );
    assert!(body(&address, "/jobs/bad").contains("Only the newest are shown"));
    let status = get(&address, "/api/v1/status").json();
    assert_eq!((&status["store"]["state"], &status["ready"]), (&"away".into(), &true.into()));
    assert_eq!((get(&address, "/livez").status, get(&address, "/readyz").status), (200, 200));
    redis.start_again();
    daemon.wait_for_event("store_recovered");
    until("it is fresh again", || !body(&address, "/").contains("away"));
}

#[test]
fn without_any_word_from_the_store_the_table_is_shown() {
    let table = Table::new(JOBS);
    let (_daemon, address) = start(&table, &format!("redis://127.0.0.1:{}", free_port()));
    let page = body(&address, "/");
    assert!(page.contains("3 jobs in the table; the store has not told how they are"), "{page}");
    assert!(page.contains("Only this replica's table is shown.") && page.contains("/jobs/idle"), "{page}");
    assert!(body(&address, "/jobs/idle").contains("At 02:00 every day."));
    let answer = get(&address, "/api/v1/jobs/none");
    assert_eq!((answer.status, &answer.json()["code"]), (503, &"store_unavailable".into()));
}

#[test]
fn a_strict_daemon_is_not_ready_while_the_store_is_away() {
    let Some(program) = program(Kind::Redis) else { return };
    let mut redis = RedisServer::start(&program, &[]);
    let table = Table::new(JOBS);
    let launch = table.launch(&redis.url()).arg("--listen").arg("127.0.0.1:0").env("ONECRON_READINESS", "strict");
    let daemon = launch.start();
    let address = daemon.wait_for_event("http_listening")["address"].as_str().unwrap().to_owned();
    daemon.wait_for_event("daemon_ready");
    assert_eq!(get(&address, "/readyz").status, 200);
    redis.kill();
    assert_eq!(daemon.wait_for_event("daemon_not_ready")["reason"], "store_away");
    let ready = get(&address, "/readyz");
    assert!(ready.status == 503 && ready.body.contains("no  store_up"), "{ready:?}");
    redis.start_again();
    daemon.wait_for_many(2, |line| line["event"] == "daemon_ready", crate::support::daemon::LIMIT);
    assert_eq!(get(&address, "/readyz").status, 200);
}

#[test]
fn a_job_that_is_stale_is_told_once_and_alike_by_the_page_and_the_command_and_a_suspended_one_is_not() {
    let table = Table::new(
        "  - {name: bad, schedule: '* * * * * *', command: 'exit 3', staleAfter: 2s}
  - {name: idle, schedule: '0 2 * * *', command: 'true', staleAfter: 2s}
  - {name: 'off', schedule: '* * * * * *', command: 'true', staleAfter: 2s, suspend: true}
",
    );
    let (daemon, address) = start(&table, "sqlite:fleet.db");
    let ended = || {
        let output = Launch::new(&["status", "--check", "--store", "sqlite:fleet.db"]).folder(table.folder.path());
        let output = output.output();
        (output.status.code(), String::from_utf8(output.stdout).unwrap())
    };
    daemon.wait_for_job("job_stale", "bad");
    daemon.wait_for_job("job_stale", "idle");
    until("both are seen", || get(&address, "/api/v1/status").json()["jobs"]["stale"] == 2);
    let page = body(&address, "/");
    assert!(page.contains("<h1>1 failing, 1 stale of 3 jobs</h1>"), "{page}");
    let (code, text) = ended();
    assert!(code == Some(3) && text.starts_with("1 failing, 1 stale of 3 jobs; "), "{code:?} {text}");
    assert!(text.lines().any(|line| line.starts_with("idle ") && line.contains(" stale ")), "{text}");
}
