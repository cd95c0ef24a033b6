//! Accounts that may do less than is needed: told before it is needed, by name, with what to grant. (Those of Redis and
//! PostgreSQL: `redis_modes.rs`, `sql_store/postgres.rs`.)

use crate::support::bench::Kind;
use crate::support::bench::open;
use crate::support::daemon::Launch;
use crate::support::daemon::Table;
use crate::support::documents::DocumentServer;
use crate::support::documents::base64;
use crate::support::scene::registration;
use crate::support::sql_server;
use crate::support::wait_until;
use onecron::job::JobName;
use onecron::job::Step;
use onecron::store::Class;
use onecron::store::ErrorKind;
use onecron::store::Finding;
use serde_json::Value;
use serde_json::json;

fn register() -> Step {
    Step::Register(registration(&JobName::new("hello").unwrap()))
}

/// The class, and what is found of rights.
async fn rights(url: &str) -> (Class, Option<Finding>) {
    let probe = open(url, "default").probe().await.unwrap();
    (probe.class, probe.findings.into_iter().find(|finding| finding.check == "rights"))
}

/// That an account lacks something: what, and what it needs instead.
async fn lacks(url: &str, found: &str, wanted: &str) {
    let (class, finding) = rights(url).await;
    let finding = finding.unwrap_or_else(|| panic!("{url} may do all, and not {found}"));
    assert_eq!(finding.found, found);
    assert!(class == Class::C && finding.wanted.contains(wanted), "{class} {finding:?}");
}

/// What `doctor` says of rights, if it does.
fn doctor(url: &str) -> Option<String> {
    let table = Table::new("  - {name: hello, schedule: '@yearly', command: 'true'}\n");
    let output = Launch::new(&["doctor", "--jobs", &table.path(), "--store", url]).output();
    let said = String::from_utf8(output.stdout).unwrap();
    said.lines().find(|line| line.starts_with("doubt  rights: ")).map(str::to_owned)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_token_of_consul_lacks_is_named() {
    let acl = r#"-hcl=acl{enabled=true default_policy="deny" tokens{master="root-s3cret"}}"#;
    let Some(server) = DocumentServer::start_with(Kind::Consul, &[acl]) else { return };
    let place = format!("127.0.0.1:{}", server.port);
    let rooted = format!("consul://:root-s3cret@{place}");
    wait_until("the token works", || async { open(&rooted, "default").apply(&[register()]).await.is_ok() }).await;
    let ask = |path: &str, body: &Value| {
        let (body, head) = (body.to_string(), "HTTP/1.0\r\nX-Consul-Token: root-s3cret\r\nContent-Length:");
        let answer = server.raw(&format!("PUT {path} {head} {}\r\n\r\n{body}", body.len())).unwrap();
        serde_json::from_str::<Value>(answer.split("\r\n\r\n").nth(1).unwrap()).unwrap_or_else(|_| panic!("{answer}"))
    };
    let token = |name: &str, rules: &str| {
        ask("/v1/acl/policy", &json!({"Name": name, "Rules": rules}));
        let made = ask("/v1/acl/token", &json!({"Policies": [{"Name": name}]}));
        format!("consul://:{}@{place}", made["SecretID"].as_str().unwrap())
    };
    let policy = r#"key_prefix "onecron/" { policy = "write" }"#;
    let nothing = token("nothing", r#"agent_prefix "" { policy = "read" }"#);
    let reads = token("reads", r#"key_prefix "onecron/" { policy = "read" }"#);
    lacks(&nothing, "the token may not read or write below `onecron/default/`", policy).await;
    lacks(&reads, "the token may not write below `onecron/default/`", policy).await;
    assert!(doctor(&reads).unwrap().contains("may not write"));
    assert_eq!(rights(&token("all", policy)).await.1, None);
    assert_eq!(rights(&token("one", &policy.replace("onecron/", "onecron/default/"))).await.1, None);
    assert_eq!(doctor(&rooted), None);
    // Consul lists nothing for who may read nothing: that is no fleet without jobs.
    let ask = |args: &[&str], url: &str| Launch::new(&[args, &["--store", url]].concat()).output();
    for url in [&nothing, &format!("consul://{place}")] {
        for args in [&["status"][..], &["jobs"], &["runs"], &["pause", "hello"], &["why", "hello"]] {
            let output = ask(args, url);
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(output.status.code() == Some(78) && said.contains(policy), "{args:?}: {output:?}");
        }
    }
    assert_eq!(ask(&["jobs", "--namespace", "empty"], &reads).status.code(), Some(0));
    assert!(String::from_utf8_lossy(&ask(&["jobs"], &reads).stdout).contains("hello"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_user_of_etcd_lacks_is_named() {
    let Some(server) = DocumentServer::start_with(Kind::Etcd, &["--auth-token", "simple"]) else { return };
    let post = |path: &str, body: Value| {
        let answer = server.http("POST", &format!("/v3/auth/{path}"), &body.to_string()).unwrap();
        assert!(answer.contains("200 OK"), "{path}: {answer}");
    };
    let (from, to) = (base64("onecron/"), base64("onecron0"));
    for (user, kind) in [("root", None), ("nobody", None), ("reader", Some(0)), ("writer", Some(1)), ("app", Some(2))] {
        post("user/add", json!({"name": user, "password": "s3cret"}));
        post("role/add", json!({"name": user}));
        if let Some(kind) = kind {
            let permission = json!({"permType": kind, "key": from, "range_end": to});
            post("role/grant", json!({"name": user, "perm": permission}));
        }
        post("user/grant", json!({"user": user, "role": user}));
    }
    let url = |user: &str| format!("etcd://{user}:s3cret@127.0.0.1:{}", server.port);
    let open_to_all = format!("etcd://127.0.0.1:{}", server.port);
    assert_eq!(rights(&open_to_all).await.1, None);
    post("enable", json!({}));
    let role = "--prefix=true ROLE readwrite onecron/";
    lacks(&url("nobody"), "the user may not read or write below `onecron/default/`", role).await;
    lacks(&url("reader"), "the user may not write below `onecron/default/`", role).await;
    lacks(&url("writer"), "the user may not read below `onecron/default/`", role).await;
    assert!(doctor(&url("reader")).unwrap().contains("may not write"));
    assert_eq!(rights(&url("app")).await, (Class::B, None));
    assert_eq!(doctor(&url("app")), None);
    // This server is one of those that look at no rights in transactions inside of transactions, or a later one.
    let probe = open(&url("app"), "default").probe().await.unwrap();
    let is_told = probe.findings.iter().any(|finding| finding.check == "version");
    let reader_writes = open(&url("reader"), "default").apply(&[register()]).await.is_ok();
    assert_eq!(is_told, reader_writes, "{}", probe.version);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_user_of_mariadb_lacks_is_named() {
    let Some(server) = sql_server::shared(Kind::MariaDb) else { return };
    let database = server.make_database();
    open(&server.url(&database), "default").apply(&[register()]).await.unwrap();
    let tables = ["onecron_job", "onecron_run", "onecron_history", "onecron_replica"];
    let with_grants = |user: &str, grants: &[&str]| {
        let user = format!("{user}_{database}");
        server.sql(&format!("CREATE USER {user}@'127.0.0.1'"));
        for grant in grants {
            server.sql(&format!("GRANT {} TO {user}@'127.0.0.1'", grant.replace("DATABASE", &database)));
        }
        server.url(&database).replace("root@", &format!("{user}@"))
    };
    let all_tables = |right: &str| {
        let mut on = tables.map(|table| format!("{right} on {table}")).to_vec();
        on.extend((right != "UPDATE").then(|| format!("{right} on onecron_run_event")));
        format!("the user lacks {}", on.join("; "))
    };
    let grant = "GRANT SELECT, INSERT, UPDATE, DELETE";
    for (user, granted, lacking) in [
        ("u", "SELECT, INSERT, DELETE ON DATABASE.*", "UPDATE"),
        ("i", "SELECT, UPDATE, DELETE ON DATABASE.*", "INSERT"),
        ("d", "SELECT, INSERT, UPDATE ON DATABASE.*", "DELETE"),
    ] {
        let url = with_grants(user, &[granted]);
        lacks(&url, &all_tables(lacking), grant).await;
        assert!(doctor(&url).unwrap().contains(lacking));
    }
    // Without this one nobody gets as far as that.
    let blind = open(&with_grants("s", &["INSERT, UPDATE, DELETE ON DATABASE.*"]), "default");
    let error = blind.probe().await.unwrap_err();
    assert!(error.kind == ErrorKind::Misconfigured && error.detail.contains("GRANT SELECT"), "{error}");
    // Of one table alone.
    let most = "SELECT, INSERT, DELETE ON DATABASE.*";
    let each = tables.map(|table| format!("UPDATE ON DATABASE.{table}"));
    let but_one: Vec<&str> = std::iter::once(most).chain(each[1..].iter().map(String::as_str)).collect();
    lacks(&with_grants("t", &but_one), "the user lacks UPDATE on onecron_job", grant).await;
    // All of them, however they were given: nothing of the trail is changed.
    let whole: Vec<&str> = std::iter::once(most).chain(each.iter().map(String::as_str)).collect();
    let role = format!("r_{database}");
    server.sql(&format!("CREATE ROLE {role}; GRANT SELECT, INSERT, UPDATE, DELETE ON {database}.* TO {role}"));
    let by_role = with_grants("m", &[&role]);
    server.sql(&format!("SET DEFAULT ROLE {role} FOR m_{database}@'127.0.0.1'"));
    for url in [with_grants("w", &whole), by_role] {
        assert_eq!(rights(&url).await.1, None, "{url}");
        assert_eq!(doctor(&url), None);
    }
}
