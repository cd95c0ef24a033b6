//! The JSON of the daemon's HTTP server: what it tells, and what it does for whoever has the token.

use crate::processes::until;
use crate::support::client::Answer;
use crate::support::client::get;
use crate::support::client::send;
use crate::support::daemon::Daemon;
use crate::support::daemon::Launch;
use crate::support::daemon::Table;
use nix::sys::signal::Signal;
use serde_json::Value;
use serde_json::json;
use std::fs;

const TOKEN: &str = "correct-horse-battery-staple";
const JOBS: &str = "  - {name: good, description: Says hello, schedule: '* * * * * *', command: 'echo hello'}
  - {name: bad, schedule: '* * * * * *', command: 'exit 3', labels: {team: shop}, runbookUrl: 'https://wiki.example/bad'}
  - {name: idle, schedule: '@yearly', command: 'echo by hand', env: {SECRET: hunter2}}
  - {name: off, schedule: '@hourly', command: 'true', suspend: true}
  - {name: long, schedule: '@yearly', command: 'sleep 60', terminationGracePeriod: 1s}
";

/// A fleet's store and table, with a token.
struct Scene {
    table: Table,
}

impl Scene {
    fn new(jobs: &str) -> Self {
        let table = Table::new(jobs);
        fs::write(table.folder.path().join("token"), format!("{TOKEN}\n")).unwrap();
        Self { table }
    }

    fn launch(&self, instance: &str) -> Launch {
        let folder = self.table.folder.path();
        let store = format!("sqlite:{}", folder.join("onecron.db").display());
        let launch = self.table.launch(&store).arg("--listen").arg("127.0.0.1:0");
        launch.arg("--api-token-file").arg(folder.join("token").to_str().unwrap()).env("POD_NAME", instance)
    }

    fn start(&self, instance: &str) -> (Daemon, String) {
        let daemon = self.launch(instance).start();
        let address = daemon.wait_for_event("http_listening")["address"].as_str().unwrap().to_owned();
        daemon.wait_for_event("daemon_ready");
        (daemon, address)
    }
}

/// Finds everything in an answer that the document does not have, and the other way round.
struct Document(Value);

impl Document {
    fn read(address: &str) -> Self {
        Self(get(address, "/openapi.json").json())
    }

    fn resolved<'a>(&'a self, schema: &'a Value) -> &'a Value {
        match schema["$ref"].as_str() {
            Some(path) => &self.0["components"]["schemas"][path.rsplit('/').next().unwrap()],
            None => schema,
        }
    }

    fn check(&self, value: &Value, schema: &Value, place: &str) {
        let schema = self.resolved(schema);
        match (schema["type"].as_str().unwrap_or_else(|| panic!("{place}: no type in {schema}")), value) {
            // A map whose keys are the table's.
            ("object", Value::Object(fields)) if schema["additionalProperties"].is_object() => {
                fields.values().for_each(|value| self.check(value, &schema["additionalProperties"], place));
            }
            ("object", Value::Object(fields)) => {
                let known = schema["properties"].as_object().unwrap_or_else(|| panic!("{place}: no properties"));
                for (name, value) in fields {
                    let schema = known.get(name).unwrap_or_else(|| panic!("{place}.{name} is not documented"));
                    self.check(value, schema, &format!("{place}.{name}"));
                }
                for name in schema["required"].as_array().unwrap() {
                    assert!(fields.contains_key(name.as_str().unwrap()), "{place} has no {name}");
                }
            }
            ("array", Value::Array(items)) => items.iter().for_each(|item| self.check(item, &schema["items"], place)),
            ("string", Value::String(text)) => {
                if let Some(words) = schema["enum"].as_array() {
                    assert!(words.contains(value), "{place}: `{text}` is not documented");
                }
            }
            ("boolean", Value::Bool(_)) | ("integer" | "number", Value::Number(_)) => {}
            (kind, _) => panic!("{place}: {value} is no {kind}"),
        }
    }

    /// The answer is what the document says of this route.
    fn check_answer(&self, answer: &Answer, (method, path): (&str, &str)) -> Value {
        let responses = &self.0["paths"][path][method.to_lowercase()]["responses"];
        let is_good = answer.status < 400;
        let documented = if is_good { &responses[answer.status.to_string()] } else { &responses["default"] };
        let kind = answer.header("content-type");
        let schema = &documented["content"][kind]["schema"];
        assert!(!schema.is_null(), "{method} {path}: {} {kind} is not documented: {answer:?}", answer.status);
        self.check(&answer.json(), schema, path);
        answer.json()
    }

    fn get(&self, address: &str, path: &str, route: &str) -> Value {
        self.check_answer(&get(address, path), ("GET", route))
    }

    fn post(&self, address: &str, (path, route): (&str, &str), headers: &str, body: &Value) -> (u16, Value) {
        let headers = format!("Authorization: Bearer {TOKEN}\r\nContent-Type: application/json\r\n{headers}");
        let answer = send(address, ("POST", path), &headers, &body.to_string());
        (answer.status, self.check_answer(&answer, ("POST", route)))
    }
}

#[test]
fn the_api_tells_of_jobs_runs_and_replicas_as_documented() {
    let scene = Scene::new(JOBS);
    let (daemon, address) = scene.start("web-1");
    let document = Document::read(&address);
    let finished = daemon.wait_for_job("run_finished", "bad");
    daemon.wait_for_job("run_finished", "good");
    let api = |path: &str, route: &str| document.get(&address, path, route);
    until("the failure is seen", || api("/api/v1/status", "/api/v1/status")["jobs"]["failing"] == 1);
    let status = api("/api/v1/status", "/api/v1/status");
    assert_eq!(
        (&status["jobs"]["all"], &status["jobs"]["suspended"], &status["replicas"]),
        (&5.into(), &1.into(), &1.into())
    );
    assert_eq!(
        (&status["in_order"], &status["ready"], &status["view"]["stale"]),
        (&false.into(), &true.into(), &false.into())
    );
    assert_eq!(status["summary"], "1 failing of 5 jobs");
    assert_eq!(status["replica"], daemon.replica());

    let jobs = api("/api/v1/jobs", "/api/v1/jobs");
    let names: Vec<&str> = jobs["jobs"].as_array().unwrap().iter().map(|job| job["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["bad", "good", "idle", "long", "off"]);
    let off = api("/api/v1/jobs/off", "/api/v1/jobs/{name}");
    assert_eq!((&off["state"], &off["schedule"]), (&"suspended".into(), &"@hourly".into()));
    let bad = api("/api/v1/jobs/bad", "/api/v1/jobs/{name}");
    assert_eq!((&bad["labels"], &bad["runbook_url"]), (&json!({"team": "shop"}), &"https://wiki.example/bad".into()));
    let good = api("/api/v1/jobs/good", "/api/v1/jobs/{name}");
    assert_eq!((&good["description"], &good["schedule_text"]), (&"Says hello".into(), &"Every second.".into()));
    assert_eq!(good["next"].as_array().unwrap().len(), 3);

    let run = finished["run_id"].as_str().unwrap();
    let shown = api(&format!("/api/v1/runs/{run}"), "/api/v1/runs/{run_id}");
    assert_eq!((&shown["outcome"], &shown["exit_code"]), (&"failed".into(), &3.into()));
    let why = api(&format!("/api/v1/jobs/bad/why?at={}", run.split_once('@').unwrap().1), "/api/v1/jobs/{name}/why");
    assert!(why["run_id"] == run && why["answer"].as_str().unwrap().contains("exit code 3"), "{why}");
    let replicas = api("/api/v1/replicas", "/api/v1/replicas");
    assert_eq!(replicas["replicas"][0]["name"], daemon.replica());
    assert_eq!(api("/api/v1/version", "/api/v1/version")["version"], env!("CARGO_PKG_VERSION"));
    let config = get(&address, "/api/v1/config");
    assert!(!config.body.contains("hunter2") && !config.body.contains("by hand"), "{}", config.body);
    let config = document.check_answer(&config, ("GET", "/api/v1/config"));
    assert_eq!((&config["lock_lease_seconds"], &config["jobs"][2]["env"]), (&5.0.into(), &json!(["SECRET"])));
}

#[test]
fn runs_come_in_pages() {
    let scene = Scene::new(JOBS);
    let (daemon, address) = scene.start("web-1");
    let document = Document::read(&address);
    daemon.wait_for_many(
        4,
        |line| line["event"] == "run_finished" && line["job"] == "good",
        crate::support::daemon::LIMIT,
    );
    let page =
        |query: &str| document.get(&address, &format!("/api/v1/jobs/good/runs{query}"), "/api/v1/jobs/{name}/runs");
    let first = page("?limit=2");
    let cursor = first["next_cursor"].as_str().unwrap();
    let second = page(&format!("?limit=1&cursor={cursor}"));
    assert_eq!(first["runs"][1]["run_id"], cursor);
    assert!(second["runs"][0]["scheduled_for"].as_str().unwrap() < first["runs"][1]["scheduled_for"].as_str().unwrap());
}

#[test]
fn what_is_wrong_or_not_there_is_said_with_a_code() {
    let scene = Scene::new(JOBS);
    let (_daemon, address) = scene.start("web-1");
    let document = Document::read(&address);
    // The fleet was looked at before, so that what is not known is not there.
    until("the fleet was looked at", || get(&address, "/api/v1/status").json()["view"]["stale"] == false);
    for (path, route, status, code) in [
        ("/api/v1/jobs/none", "/api/v1/jobs/{name}", 404, "no_job"),
        ("/api/v1/jobs/N%20o", "/api/v1/jobs/{name}", 400, "bad_request"),
        ("/api/v1/jobs/none/why", "/api/v1/jobs/{name}/why", 404, "no_job"),
        ("/api/v1/jobs/good/why?at=yesterday", "/api/v1/jobs/{name}/why", 400, "bad_request"),
        ("/api/v1/jobs/good/runs?limit=0", "/api/v1/jobs/{name}/runs", 400, "bad_request"),
        ("/api/v1/jobs/good/runs?limit=1&limit=2", "/api/v1/jobs/{name}/runs", 400, "bad_request"),
        ("/api/v1/jobs/%ff/runs", "/api/v1/jobs/{name}/runs", 400, "bad_request"),
        ("/api/v1/runs/%ff", "/api/v1/runs/{run_id}", 400, "bad_request"),
        // A `+` of an offset is what it looks like.
        ("/api/v1/jobs/none/why?at=2026-03-01T03:00:00+01:00", "/api/v1/jobs/{name}/why", 404, "no_job"),
        ("/api/v1/jobs/good/runs?limt=1", "/api/v1/jobs/{name}/runs", 400, "bad_request"),
        ("/api/v1/runs/good@2020-01-01T00:00:00Z", "/api/v1/runs/{run_id}", 404, "no_run"),
        ("/api/v1/runs/nonsense", "/api/v1/runs/{run_id}", 400, "bad_request"),
        ("/api/v1/status?x=1", "/api/v1/status", 400, "bad_request"),
    ] {
        let answer = get(&address, path);
        let problem = document.check_answer(&answer, ("GET", route));
        assert_eq!((answer.status, problem["code"].as_str().unwrap()), (status, code), "{path}: {problem}");
    }
}

#[test]
fn a_run_is_ordered_once_for_each_key_and_paused_jobs_are_refused() {
    let scene = Scene::new(JOBS);
    let (daemon, address) = scene.start("web-1");
    let document = Document::read(&address);
    daemon.wait_for_job("job_registered", "idle");
    let post =
        |path: &str, route: &str, headers: &str, body: Value| document.post(&address, (path, route), headers, &body);
    let trigger =
        |headers: &str, body: Value| post("/api/v1/jobs/idle/trigger", "/api/v1/jobs/{name}/trigger", headers, body);
    let (status, ordered) = trigger("Idempotency-Key: k1\r\n", json!({"by": "ada"}));
    assert_eq!((status, &ordered["again"]), (202, &false.into()));
    let (_, again) = trigger("Idempotency-Key: k1\r\n", json!({}));
    assert_eq!((&again["run_id"], &again["again"]), (&ordered["run_id"], &true.into()));
    let finished = daemon.wait_for(
        |line| line["event"] == "run_finished" && line["run_id"] == ordered["run_id"],
        crate::support::daemon::LIMIT,
    );
    assert_eq!((&finished["outcome"], &finished["trigger"]), (&"succeeded".into(), &"manual".into()));
    assert_eq!(daemon.wait_for_job("run_requested", "idle")["by"], "ada@127.0.0.1");
    let called = daemon.wait_for_event("api_called");
    assert_eq!(
        (&called["action"], &called["target"], &called["by"]),
        (&"trigger".into(), &"idle".into(), &"ada@127.0.0.1".into())
    );

    let path = format!("/api/v1/runs/{}/output", ordered["run_id"].as_str().unwrap());
    assert_eq!(get(&address, &path).status, 401);
    // It is said that the run has ended before the store has it.
    until("the output is in the record", || {
        let output = send(&address, ("GET", &path), &format!("Authorization: Bearer {TOKEN}\r\n"), "");
        assert_eq!(output.status, 200);
        output.body == "by hand\n"
    });

    let (status, paused) =
        post("/api/v1/jobs/idle/pause", "/api/v1/jobs/{name}/pause", "", json!({"comment": "the warehouse moves"}));
    assert_eq!((status, &paused["paused"], &paused["changed"]), (200, &true.into(), &true.into()));
    assert_eq!(daemon.wait_for_job("job_paused", "idle")["reason"], "the warehouse moves");
    let (status, problem) = trigger("", json!({}));
    assert_eq!((status, &problem["code"]), (409, &"paused".into()));
    assert_eq!(trigger("", json!({"force": true})).0, 202);
    let (_, resumed) = post("/api/v1/jobs/idle/resume", "/api/v1/jobs/{name}/resume", "", json!({}));
    assert_eq!((&resumed["paused"], &resumed["changed"]), (&false.into(), &true.into()));
    for (body, what) in [
        (json!({"at": "tomorrow"}), "an instant"),
        (json!({"who": "ada"}), "unknown field"),
        (json!({"by": "a\nb"}), "control"),
    ] {
        let (status, problem) = trigger("", body);
        assert!(status == 400 && problem["detail"].as_str().unwrap().contains(what), "{problem}");
    }
    let (status, problem) = trigger("", json!({"by": "a".repeat(20_000)}));
    assert_eq!((status, &problem["code"]), (413, &"too_large".into()));
    let (status, problem) = post("/api/v1/jobs/none/trigger", "/api/v1/jobs/{name}/trigger", "", json!({}));
    assert_eq!((status, &problem["code"]), (404, &"no_job".into()));
}

#[test]
fn a_run_is_cancelled_and_the_table_read_again_over_http() {
    let scene = Scene::new(JOBS);
    let (daemon, address) = scene.start("web-1");
    let document = Document::read(&address);
    daemon.wait_for_job("job_registered", "long");
    let post = |path: &str, route: &str| document.post(&address, (path, route), "", &json!({}));
    let (_, ordered) = post("/api/v1/jobs/long/trigger", "/api/v1/jobs/{name}/trigger");
    daemon.wait_for_job("run_started", "long");
    let path = format!("/api/v1/runs/{}/cancel", ordered["run_id"].as_str().unwrap());
    let (status, stopping) = post(&path, "/api/v1/runs/{run_id}/cancel");
    assert_eq!((status, &stopping["replica"]), (202, &daemon.replica().into()));
    assert_eq!(daemon.wait_for_job("run_finished", "long")["outcome"], "cancelled");
    until("the store has its end", || {
        let (status, over) = post(&path, "/api/v1/runs/{run_id}/cancel");
        (status, &over["code"]) == (409, &"over".into())
    });

    let text = fs::read_to_string(scene.table.path()).unwrap();
    fs::write(scene.table.path(), text.replace("Says hello", "Says hello to all")).unwrap();
    assert_eq!(post("/api/v1/reload", "/api/v1/reload").0, 202);
    daemon.wait_for_event("table_replaced");
    until("it is told", || get(&address, "/api/v1/jobs/good").json()["description"] == "Says hello to all");
}

#[test]
fn the_body_of_an_action_is_an_object_or_nothing() {
    let scene = Scene::new(JOBS);
    let (_daemon, address) = scene.start("web-1");
    let document = Document::read(&address);
    for (path, route) in [
        ("/api/v1/jobs/idle/trigger", "/api/v1/jobs/{name}/trigger"),
        ("/api/v1/jobs/idle/pause", "/api/v1/jobs/{name}/pause"),
        ("/api/v1/jobs/idle/resume", "/api/v1/jobs/{name}/resume"),
        ("/api/v1/runs/idle@2026-03-01T02:00:00Z/cancel", "/api/v1/runs/{run_id}/cancel"),
        ("/api/v1/reload", "/api/v1/reload"),
    ] {
        for body in [json!([]), json!(["mallory"]), json!([null, true]), json!(["a", "b"]), json!(null), json!("x")] {
            let (status, problem) = document.post(&address, (path, route), "", &body);
            assert_eq!((status, &problem["code"]), (400, &"bad_request".into()), "{path} {body}: {problem}");
            assert!(problem["detail"].as_str().unwrap().contains("object"), "{problem}");
        }
    }
    let headers = format!("Authorization: Bearer {TOKEN}\r\n");
    assert_eq!(send(&address, ("POST", "/api/v1/jobs/idle/resume"), &headers, " \r\n\t{}").status, 200);
}

#[test]
fn without_the_token_nobody_acts_and_another_one_counts_at_once() {
    let scene = Scene::new(JOBS);
    let (daemon, address) = scene.start("web-1");
    let ask = |headers: &str| send(&address, ("POST", "/api/v1/jobs/idle/trigger"), headers, "");
    let bearer = |token: &str| format!("Authorization: Bearer {token}\r\n");
    let code = |answer: &Answer| answer.json()["code"].as_str().unwrap_or_default().to_owned();
    assert_eq!((ask("").status, code(&ask(""))), (401, "token_missing".to_owned()));
    for wrong in ["wrong", "", &TOKEN[1..], &format!("{TOKEN}x"), &TOKEN.to_uppercase()] {
        let answer = ask(&bearer(wrong));
        assert_eq!(
            (answer.status, code(&answer).as_str()),
            (401, if wrong.is_empty() { "token_missing" } else { "token_wrong" }),
            "{wrong}"
        );
    }
    let denied = daemon.wait_for_event("api_denied");
    assert_eq!((&denied["route"], &denied["remote"]), (&"trigger".into(), &"127.0.0.1".into()));
    assert_eq!(daemon.events("api_denied").len(), 1, "not once for each");
    fs::write(scene.table.folder.path().join("token"), "another-word-for-it").unwrap();
    assert_eq!(ask(&bearer(TOKEN)).status, 401);
    assert_eq!(ask(&bearer("another-word-for-it")).status, 202);
    fs::remove_file(scene.table.folder.path().join("token")).unwrap();
    let gone = ask(&bearer("another-word-for-it"));
    assert_eq!((gone.status, code(&gone).as_str()), (503, "token_unreadable"));
    assert!(!daemon.lines().iter().any(|line| line.to_string().contains(TOKEN)));
}

#[test]
fn a_daemon_without_a_token_has_no_actions_and_one_with_a_bad_token_does_not_start() {
    let table = Table::new(JOBS);
    let daemon = table.launch("memory:").arg("--listen").arg("127.0.0.1:0").start();
    let address = daemon.wait_for_event("http_listening")["address"].as_str().unwrap().to_owned();
    for path in ["/api/v1/jobs/idle/trigger", "/api/v1/jobs/idle/pause", "/api/v1/jobs/idle/resume", "/api/v1/reload"] {
        let answer = send(&address, ("POST", path), &format!("Authorization: Bearer {TOKEN}\r\n"), "");
        assert_eq!((answer.status, &answer.json()["code"]), (403, &"actions_disabled".into()), "{path}");
    }
    let file = table.folder.path().join("token");
    fs::write(&file, "short").unwrap();
    let output = table.launch("memory:").arg("--api-token-file").arg(file.to_str().unwrap()).output();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.code() == Some(78) && said.contains("at least 16") && !said.contains("short"), "{said}");
}

#[test]
fn any_replica_answers_for_the_fleet() {
    let scene = Scene::new(JOBS);
    let (one, first) = scene.start("web-1");
    let (two, second) = scene.start("web-2");
    let names = |address: &str| {
        let replicas = get(address, "/api/v1/replicas").json();
        replicas["replicas"]
            .as_array()
            .unwrap()
            .iter()
            .map(|r| r["name"].as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    let mut all = vec![one.replica(), two.replica()];
    all.sort();
    until("both are seen by both", || names(&first) == all && names(&second) == all);
    let answer =
        send(&second, ("POST", "/api/v1/jobs/long/trigger"), &format!("Authorization: Bearer {TOKEN}\r\n"), "");
    let run = answer.json()["run_id"].as_str().unwrap().to_owned();
    let open = |address: &str| get(address, "/api/v1/jobs/long").json()["running"][0]["run_id"] == run.as_str();
    until("the run of one is seen by both", || open(&first) && open(&second));
}

#[test]
fn who_has_left_is_told_with_its_table_and_what_was_in_force_then() {
    let scene = Scene::new(JOBS);
    let (mut one, first) = scene.start("web-1");
    let run = one.wait_for_job("run_finished", "good")["run_id"].as_str().unwrap().to_owned();
    let revision = get(&first, "/api/v1/status").json()["table"]["revision"].as_str().unwrap().to_owned();
    one.signal(Signal::SIGTERM);
    assert_eq!(one.wait_for_exit(), 0);
    let (_two, second) = scene.start("web-2");
    let document = Document::read(&second);
    let replicas = document.get(&second, "/api/v1/replicas", "/api/v1/replicas");
    let past = &replicas["past"][0];
    assert_eq!((&past["name"], &past["left"]), (&one.replica().into(), &true.into()));
    assert_eq!((&past["tables"][0]["revision"], &past["tables"][0]["jobs"]), (&revision.as_str().into(), &5.into()));
    let path = format!("/api/v1/jobs/good/why?at={}", run.split_once('@').unwrap().1);
    let why = document.get(&second, &path, "/api/v1/jobs/{name}/why");
    let told = format!("there were then: {} with table {} (5 jobs)", one.replica(), &revision[..12]);
    assert!(why["facts"].as_array().unwrap().contains(&told.as_str().into()), "{told}: {why}");
    let page = get(&second, "/").body;
    assert!(page.contains("Replicas that are not there any more") && page.contains(&one.replica()), "{page}");
}
