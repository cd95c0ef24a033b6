//! What TLS, accounts, Sentinels and clusters do beside what all stores do.

use crate::support::bench::Kind;
use crate::support::bench::open;
use crate::support::bench::open_with;
use crate::support::bench::program;
use crate::support::daemon::Launch;
use crate::support::redis_modes;
use crate::support::redis_modes::PASSWORD;
use crate::support::scene::claim_of;
use crate::support::scene::registration;
use crate::support::server::RedisServer;
use crate::support::server::ask;
use crate::support::server::free_port;
use onecron::clock::Clock;
use onecron::clock::SystemClock;
use onecron::job::JobName;
use onecron::job::RunKey;
use onecron::job::Step;
use onecron::job::Tick;
use onecron::job::Verdict;
use onecron::store::Access;
use onecron::store::Account;
use onecron::store::Class;
use onecron::store::ErrorKind;
use onecron::store::Store;
use std::sync::Arc;
use std::sync::OnceLock;
use std::time::Duration;

fn job(number: usize) -> JobName {
    JobName::new(&format!("job-{number}")).unwrap()
}

/// A tick of an hour ago; the same for all tests.
fn run(number: usize) -> RunKey {
    static TICK: OnceLock<i64> = OnceLock::new();
    let seconds = TICK.get_or_init(|| SystemClock.now().wall.timestamp() / 60 * 60 - 3600);
    RunKey::new(job(number), Tick::from_seconds(*seconds))
}

fn register(number: usize) -> Step {
    Step::Register(registration(&job(number)))
}

fn claim(number: usize, who: &str) -> Step {
    Step::Claim(claim_of(&run(number), who))
}

async fn verdicts(store: &Arc<dyn Store>, steps: &[Step]) -> Vec<Verdict> {
    store.apply(steps).await.unwrap().into_iter().map(|answer| answer.verdict).collect()
}

async fn refusal(url: &str, access: &Access) -> (ErrorKind, String) {
    let error = open_with(url, access, "default").server_time().await.unwrap_err();
    (error.kind, error.to_string())
}

#[tokio::test]
async fn what_is_wrong_with_certificates_is_told_with_what_to_give() {
    let Some(deployment) = redis_modes::tls() else { return };
    let (url, access) = (&deployment.url, &deployment.access);
    open_with(url, access, "default").server_time().await.unwrap();
    let unknown = Access { ca_file: None, ..access.clone() };
    let (kind, text) = refusal(url, &unknown).await;
    assert_eq!(kind, ErrorKind::NotSent);
    assert!(text.contains("--store-ca-file"), "{text}");
    let nameless = Access { cert_file: None, key_file: None, ..access.clone() };
    let (_, text) = refusal(url, &nameless).await;
    assert!(text.contains("--store-cert-file"), "{text}");
    let other = crate::support::web::Authority::new();
    let (_, text) = refusal(url, &Access { ca_file: Some(other.file()), ..access.clone() }).await;
    assert!(text.contains("ca.pem` has no certificate that vouches for it"), "{text}");
    let (_, text) = refusal(&url.replace("127.0.0.1", "localhost"), access).await;
    assert!(text.contains("for another name"), "{text}");
    let plain = format!("rediss://127.0.0.1:{}", deployment.servers[0].port);
    let (_, text) = refusal(&plain, access).await;
    assert!(text.contains("is it the port for TLS?"), "{text}");
}

#[tokio::test]
async fn a_password_that_is_changed_counts_at_the_next_connect() {
    let Some(program) = program(Kind::Redis) else { return };
    let server = RedisServer::start(&program, &["--requirepass", "first"]);
    let file = server.folder().join("password");
    let account = Account { password_file: Some(file.clone()), ..Account::default() };
    let access = Access { account, ..Access::default() };
    let store = open_with(&server.url(), &access, "default");
    let error = store.server_time().await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Misconfigured);
    assert!(error.to_string().contains(&format!("read `{}`", file.display())), "{error}");
    std::fs::write(&file, "first\n").unwrap();
    store.server_time().await.unwrap();
    let authed = "AUTH first\r\nCONFIG SET requirepass second\r\nCLIENT KILL TYPE normal SKIPME yes";
    ask(server.port, authed).unwrap();
    let (error, text) = refusal(&server.url(), &access).await;
    assert_eq!(error, ErrorKind::Misconfigured);
    assert!(text.contains("user and password") && !text.contains("first"), "{text}");
    std::fs::write(&file, "second\n").unwrap();
    store.server_time().await.unwrap();
}

/// The line in the docs says all that is needed, and each right that is taken from it is missed by name.
#[tokio::test]
async fn a_right_that_is_missing_is_named() {
    let Some(deployment) = redis_modes::account() else { return };
    let store = open_with(&deployment.url, &deployment.access, "default");
    let rights = |probe: onecron::store::Probe| probe.findings.into_iter().find(|finding| finding.check == "rights");
    assert_eq!(rights(store.probe().await.unwrap()), None);
    deployment.servers[0].command("ACL SETUSER onecron -zadd -wait");
    let finding = rights(store.probe().await.unwrap()).unwrap();
    assert!(finding.found.contains("`zadd`, `wait`") && finding.wanted.contains("+zadd +wait"), "{finding:?}");
    deployment.servers[0].command("ACL SETUSER onecron -eval");
    let finding = rights(store.probe().await.unwrap()).unwrap();
    assert!(finding.wanted.contains("+eval"), "{finding:?}");
}

/// What a script may not do is said in other words than what an account may not ask for.
#[tokio::test]
async fn a_right_that_a_script_misses_is_a_wrong_setting_until_it_is_given() {
    let Some(deployment) = redis_modes::account() else { return };
    let store = open_with(&deployment.url, &deployment.access, "default");
    store.apply(&[register(1)]).await.unwrap();
    for taken in ["-@write", "-hset"] {
        deployment.servers[0].command(&format!("ACL SETUSER onecron {taken}"));
        let error = store.apply(&[register(1), claim(1, "web-1")]).await.unwrap_err();
        assert!(error.kind == ErrorKind::Misconfigured && error.to_string().contains("docs/stores.md"), "{error}");
        deployment.servers[0].command("ACL SETUSER onecron +@write +hset");
        store.apply(&[register(1)]).await.unwrap();
    }
}

#[tokio::test]
async fn what_no_replica_confirms_is_no_answer_until_one_does() {
    let Some(program) = program(Kind::Redis) else { return };
    let server = RedisServer::start(&program, &["--repl-diskless-sync-delay", "0"]);
    let store = open(&format!("{}?wait-replicas=1", server.url()), "default");
    let error = store.apply(&[register(1)]).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::NotDurable);
    assert!(error.to_string().contains("0 of 1 replica confirmed within 500 ms"), "{error}");
    let plain = open(&server.url(), "default");
    assert_eq!(verdicts(&plain, &[register(1), claim(1, "web-2")]).await[1], Verdict::Won);
    assert_eq!(store.apply(&[claim(1, "web-1")]).await.unwrap_err().kind, ErrorKind::NotDurable, "nor is a loss");
    let _replica = RedisServer::start(&program, &["--replicaof", "127.0.0.1", &server.port.to_string()]);
    let held = || async { store.apply(&[claim(1, "web-1")]).await.is_ok_and(|got| got[0].verdict == Verdict::Held) };
    crate::support::wait_until("the replica has it", held).await;
}

/// A server that once had replicas, and has none, may be one that was cut off from them.
#[tokio::test]
async fn a_server_that_had_replicas_must_have_one() {
    let Some(program) = program(Kind::Redis) else { return };
    let server = RedisServer::start(&program, &["--repl-diskless-sync-delay", "0"]);
    let replica = RedisServer::start(&program, &["--replicaof", "127.0.0.1", &server.port.to_string()]);
    let online = || async { server.command("INFO replication").contains("state=online") };
    crate::support::wait_until("it copies", online).await;
    let store = open(&server.url(), "default");
    let confirmed = || async { store.apply(&[register(1), claim(1, "web-1")]).await.is_ok() };
    crate::support::wait_until("it confirms", confirmed).await;
    drop(replica);
    let failed = || async { store.apply(&[claim(2, "web-1")]).await.is_err_and(|e| e.kind == ErrorKind::NotDurable) };
    crate::support::wait_until("nothing is confirmed", failed).await;
    let told = open(&format!("{}?wait-replicas=0", server.url()), "default");
    assert_eq!(verdicts(&told, &[register(2), claim(2, "web-1")]).await[1], Verdict::Won);
}

#[tokio::test]
async fn sentinels_have_an_account_of_their_own() {
    let Some(deployment) = redis_modes::sentinels(0, 1, |port| port) else { return };
    let sentinel = deployment.sentinels[0].port;
    ask(sentinel, "ACL SETUSER default resetpass >watch").unwrap();
    let (kind, text) = refusal(&deployment.url, &Access::default()).await;
    assert_eq!(kind, ErrorKind::Misconfigured, "{text}");
    assert!(text.contains("--store-sentinel-password-file"), "{text}");
    let file = deployment.servers[0].folder().join("watch");
    std::fs::write(&file, "watch").unwrap();
    let sentinel = Account { password_file: Some(file), ..Account::default() };
    let access = Access { sentinel, ..Access::default() };
    open_with(&deployment.url, &access, "default").server_time().await.unwrap();
}

/// What docs/stores.md says that an account of Sentinels needs.
#[tokio::test]
async fn the_documented_rights_on_sentinels_are_enough() {
    let Some(deployment) = redis_modes::sentinels(0, 1, |port| port) else { return };
    let docs = include_str!("../../docs/stores.md");
    let line = docs.lines().find(|line| line.starts_with("ACL SETUSER") && line.contains("+sentinel|")).unwrap();
    let account = line.replace("onecron", "watcher").replace(">PASSWORD", &format!(">{PASSWORD}"));
    assert_eq!(ask(deployment.sentinels[0].port, &account).unwrap(), "+OK\r\n");
    let file = deployment.servers[0].folder().join("watch");
    std::fs::write(&file, PASSWORD).unwrap();
    let sentinel = Account { user: Some("watcher".into()), password_file: Some(file), ..Account::default() };
    let store = open_with(&deployment.url, &Access { sentinel, ..Access::default() }, "default");
    let findings = store.probe().await.unwrap().findings;
    assert!(findings.iter().any(|finding| finding.check == "sentinels"), "it could ask: {findings:?}");
}

#[tokio::test]
async fn a_name_that_no_sentinel_knows_is_told() {
    let Some(deployment) = redis_modes::sentinels(0, 1, |port| port) else { return };
    let (kind, text) = refusal(&deployment.url.replace("/main", "/mian"), &Access::default()).await;
    assert_eq!(kind, ErrorKind::Misconfigured);
    assert!(text.contains("it knows no primary `mian`"), "{text}");
    let probe = open(&deployment.url, "default").probe().await.unwrap();
    let checks: Vec<&str> = probe.findings.iter().map(|finding| finding.check).collect();
    assert_eq!((probe.class, checks), (Class::C, vec!["persistence", "wait_replicas", "sentinels"]));
}

/// The one that was the primary answers as a replica, and the Sentinels say who is now: nobody has to wait for that.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_demoted_primary_is_left_for_the_new_one_within_the_request() {
    let made = tokio::task::block_in_place(|| redis_modes::sentinels(2, 3, |port| port));
    let Some(deployment) = made else { return };
    let store = open(&deployment.url, "default");
    assert_eq!(verdicts(&store, &[register(1), claim(1, "web-1")]).await[1], Verdict::Won);
    let before = store.identity().await.unwrap().server;
    let primary = deployment.servers[0].port;
    let sentinel = deployment.sentinels[0].port;
    let begins = || async { ask(sentinel, "SENTINEL FAILOVER main").is_some_and(|said| said.starts_with("+OK")) };
    crate::support::wait_until("a failover begins", begins).await;
    let moved = || async { deployment.sentinels.iter().all(|one| one.primary().is_some_and(|port| port != primary)) };
    crate::support::wait_until("another is the primary", moved).await;
    let demoted = || async { deployment.servers[0].command("INFO replication").contains("role:slave") };
    crate::support::wait_until("and the old one knows", demoted).await;
    let answered = || async { store.apply(&[claim(1, "web-2")]).await.is_ok() };
    crate::support::wait_until("a replica confirms", answered).await;
    assert_eq!(verdicts(&store, &[claim(1, "web-2")]).await, [Verdict::Unregistered], "it may lack something");
    verdicts(&store, &[register(1)]).await;
    assert_eq!(verdicts(&store, &[claim(1, "web-2")]).await, [Verdict::Held]);
    assert_ne!(store.identity().await.unwrap().server, before);
}

/// Steps of many jobs go to all nodes; what is about all jobs finds them on all.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_is_one_store() {
    let Some(deployment) = tokio::task::block_in_place(|| redis_modes::cluster(3, 0, &mut |_| None)) else { return };
    let store = open(&deployment.url, "default");
    let jobs = 0..60;
    verdicts(&store, &jobs.clone().map(register).collect::<Vec<_>>()).await;
    let claims: Vec<Step> = jobs.clone().map(|number| claim(number, "web-1")).collect();
    assert!(verdicts(&store, &claims).await.iter().all(|verdict| *verdict == Verdict::Won));
    for server in &deployment.servers {
        assert!(server.command("KEYS onecron:*:job").contains("{job-"), "each node has some");
    }
    assert_eq!(store.jobs().await.unwrap().len(), 60);
    let probe = store.probe().await.unwrap();
    assert_eq!(probe.findings.iter().filter(|finding| finding.check == "persistence").count(), 3, "of each node");
    let parts = store.identity().await.unwrap().server;
    assert_eq!(parts.split(' ').count(), 3);
    let single = format!("redis://127.0.0.1:{}", deployment.servers[0].port);
    let (kinds, text): (Vec<ErrorKind>, String) = {
        let error = open(&single, "default").apply(&jobs.map(register).collect::<Vec<_>>()).await.unwrap_err();
        (vec![error.kind], error.to_string())
    };
    assert_eq!(kinds, [ErrorKind::Misconfigured]);
    assert!(text.contains("write redis+cluster://"), "{text}");
}

/// A slot that is on its way has its keys here and there; one that has moved is found again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_is_found_while_its_slot_moves_and_after_it() {
    let Some(deployment) = tokio::task::block_in_place(|| redis_modes::cluster(2, 0, &mut |_| None)) else { return };
    let store = open(&deployment.url, "default");
    verdicts(&store, &[register(1), claim(1, "web-1")]).await;
    let slot = deployment.servers[0].command("CLUSTER KEYSLOT job-1");
    let slot = slot.trim().trim_start_matches(':').to_owned();
    let has = |server: &RedisServer| server.command(&format!("CLUSTER COUNTKEYSINSLOT {slot}")) != ":0\r\n";
    let (from, to) = if has(&deployment.servers[0]) { (0, 1) } else { (1, 0) };
    let (from, to) = (&deployment.servers[from], &deployment.servers[to]);
    let id = |server: &RedisServer| server.command("CLUSTER MYID").lines().nth(1).unwrap().to_owned();
    to.command(&format!("CLUSTER SETSLOT {slot} IMPORTING {}", id(from)));
    from.command(&format!("CLUSTER SETSLOT {slot} MIGRATING {}", id(to)));
    let keys = from.command(&format!("CLUSTER GETKEYSINSLOT {slot} 100"));
    let keys: Vec<&str> = keys.lines().filter(|line| line.starts_with("onecron")).collect();
    let moved = from.command(&format!("MIGRATE 127.0.0.1 {} \"\" 0 5000 KEYS {}", to.port, keys.join(" ")));
    assert_eq!(moved, "+OK\r\n");
    assert_eq!(verdicts(&store, &[claim(1, "web-2")]).await, [Verdict::Unregistered], "asked at the other node");
    verdicts(&store, &[register(1)]).await;
    assert_eq!(verdicts(&store, &[claim(1, "web-2")]).await, [Verdict::Held]);
    for server in [to, from] {
        server.command(&format!("CLUSTER SETSLOT {slot} NODE {}", id(to)));
    }
    assert_eq!(verdicts(&store, &[claim(1, "web-2")]).await, [Verdict::Held]);
}

/// One that took the place of another must not be waited for: what is there takes nothing.
#[test]
fn a_command_to_a_replica_says_so_at_once() {
    let Some(program) = program(Kind::Redis) else { return };
    let server = RedisServer::start(&program, &[]);
    let store = open(&server.url(), "default");
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async { verdicts(&store, &[register(1), claim(1, "web-1")]).await });
    server.command(&format!("REPLICAOF 127.0.0.1 {}", free_port()));
    let run = run(1).to_string();
    for words in [vec!["trigger", "job-1"], vec!["cancel", &run]] {
        let begun = SystemClock.now().boot;
        let output = Launch::new(&words).arg("--store").arg(&server.url()).output();
        let took = SystemClock.now().boot.since(begun);
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(69), "{said}");
        assert!(said.contains("the server is a replica of 127.0.0.1:"), "{said}");
        assert!(took < Duration::from_secs(5), "{took:?}");
    }
}

/// By arguments, by variables, by files: the whole way from the command line to the server.
#[test]
fn accounts_and_certificates_come_from_arguments_and_variables() {
    let Some(deployment) = redis_modes::account() else { return };
    let account = &deployment.access.account;
    let file = account.password_file.as_ref().unwrap().display().to_string();
    let ask = Launch::new(&["pause", "job-1", "--store", &deployment.url]);
    let known = "knows no job `job-1`";
    let said = |launch: Launch| String::from_utf8(launch.output().stderr).unwrap();
    let by_flags = ask.clone().arg("--store-user").arg("onecron").arg("--store-password-file").arg(&file);
    let text = said(by_flags);
    assert!(text.contains(known), "{text}");
    let user_file = account.user_file.as_ref().unwrap().display().to_string();
    let by_variables = ask.clone().env("ONECRON_STORE_USER_FILE", &user_file).env("ONECRON_STORE_PASSWORD_FILE", &file);
    let text = said(by_variables);
    assert!(text.contains(known), "{text}");
    std::fs::write(&file, format!("{PASSWORD}x")).unwrap();
    let text = said(ask.arg("--store-user").arg("onecron").arg("--store-password-file").arg(&file));
    assert!(text.contains("does not accept user and password") && !text.contains(PASSWORD), "{text}");
    let Some(deployment) = redis_modes::tls() else { return };
    let path = |path: &Option<std::path::PathBuf>| path.as_ref().unwrap().display().to_string();
    let access = &deployment.access;
    let launch = Launch::new(&["pause", "job-1"])
        .env("ONECRON_STORE", &deployment.url)
        .env("ONECRON_STORE_CA_FILE", &path(&access.ca_file))
        .env("ONECRON_STORE_CERT_FILE", &path(&access.cert_file))
        .env("ONECRON_STORE_KEY_FILE", &path(&access.key_file));
    let text = said(launch);
    assert!(text.contains(known), "{text}");
}
