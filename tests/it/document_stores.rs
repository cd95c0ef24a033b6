//! What only etcd, Consul and memcached do: members fail, copies are restored, servers forget, others change the same
//! documents.

use crate::support::bench::Kind;
use crate::support::bench::open;
use crate::support::bench::program;
use crate::support::daemon::Launch;
use crate::support::daemon::Table;
use crate::support::documents::DocumentServer;
use crate::support::documents::EtcdCluster;
use crate::support::documents::base64;
use crate::support::documents::shared;
use crate::support::proxy::Proxy;
use crate::support::scene::claim_of;
use crate::support::scene::ending;
use crate::support::scene::registration;
use crate::support::scene::replica;
use crate::support::wait_until;
use crate::support::web::Authority;
use nix::sys::signal::Signal;
use onecron::clock::Clock;
use onecron::clock::SystemClock;
use onecron::job::Answer;
use onecron::job::Decision;
use onecron::job::Expect;
use onecron::job::JobName;
use onecron::job::Knew;
use onecron::job::MissedReason;
use onecron::job::Namespace;
use onecron::job::Outcome;
use onecron::job::Presence;
use onecron::job::RunKey;
use onecron::job::Step;
use onecron::job::Tick;
use onecron::job::Verdict;
use onecron::store::Access;
use onecron::store::Account;
use onecron::store::Class;
use onecron::store::Error;
use onecron::store::ErrorKind;
use onecron::store::Store;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::task::JoinSet;

fn job() -> JobName {
    JobName::new("nightly-sales").unwrap()
}

fn register() -> Step {
    Step::Register(registration(&job()))
}

/// Ticks of the last two hours, one a minute.
fn run(n: i64) -> RunKey {
    let now = SystemClock.now().wall.timestamp();
    RunKey::new(job(), Tick::from_seconds((now - 7200) / 3600 * 3600 + 60 * n))
}

fn claim(n: i64, who: &str) -> Step {
    let run = run(n);
    Step::Claim(onecron::job::Claim { previous: run.scheduled_for.seconds() - 60, ..claim_of(&run, who) })
}

fn begin(n: i64, who: &str) -> Step {
    Step::Begin { run: run(n), owner: replica(who), start: 0, request: "1".into() }
}

fn complete(n: i64, who: &str, tail: &str) -> Step {
    Step::Complete { run: run(n), owner: replica(who), start: 1, ending: ending(Outcome::Succeeded, tail) }
}

async fn verdict(store: &Arc<dyn Store>, step: Step) -> Verdict {
    store.apply(&[step]).await.unwrap()[0].verdict
}

/// Sends as a replica does: until there is an answer.
async fn send(store: &Arc<dyn Store>, steps: &[Step]) -> Vec<Answer> {
    for _ in 0..20 {
        if let Ok(answers) = store.apply(steps).await {
            return answers;
        }
    }
    store.apply(steps).await.unwrap()
}

fn with_access(url: &str, access: &Access) -> Arc<dyn Store> {
    onecron::store::open_with(url, access, &Namespace::new("default").unwrap(), Arc::new(SystemClock)).unwrap()
}

fn password_file(folder: &Path, text: &str) -> Access {
    let path = folder.join("password");
    std::fs::write(&path, text).unwrap();
    Access { account: Account { password_file: Some(path), ..Account::default() }, ..Access::default() }
}

fn kinds() -> impl Iterator<Item = (Kind, &'static DocumentServer)> {
    [Kind::Etcd, Kind::Consul, Kind::Memcached].into_iter().filter_map(|kind| Some((kind, shared(kind)?)))
}

/// A member is killed while eight replicas fight for the ticks of many jobs: each tick has one winner, and requests go on
/// with the members that are left.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_burst_over_three_etcd_members_of_which_one_is_killed_has_one_winner_each() {
    const JOBS: usize = 20;
    const TICKS: i64 = 10;
    let Some(mut cluster) = EtcdCluster::start() else { return };
    let url = cluster.url();
    let jobs: Vec<JobName> = (0..JOBS).map(|n| JobName::new(&format!("job-{n}")).unwrap()).collect();
    let registrations: Vec<Step> = jobs.iter().map(|job| Step::Register(registration(job))).collect();
    send(&open(&url, "default"), &registrations).await;
    let mut tasks = JoinSet::new();
    let claimed = Arc::new(AtomicUsize::new(0));
    for racer in 0..8 {
        let (store, jobs, claimed) = (open(&url, "default"), jobs.clone(), claimed.clone());
        tasks.spawn(async move {
            let who = format!("web-{racer}");
            let mut won = Vec::new();
            for n in 1..=TICKS {
                let tick = run(n).scheduled_for;
                let of = |job: &JobName| Step::Claim(claim_of(&RunKey::new(job.clone(), tick), &who));
                let steps: Vec<Step> = jobs.iter().map(of).collect();
                for (step, answer) in steps.iter().zip(send(&store, &steps).await) {
                    match answer.verdict {
                        Verdict::Won => won.push(step.run().unwrap().clone()),
                        verdict => assert_eq!(verdict, Verdict::Held),
                    }
                }
                claimed.store(won.len(), Ordering::SeqCst);
            }
            won
        });
    }
    wait_until("the burst has begun", async || claimed.load(Ordering::SeqCst) > 0).await;
    cluster.members[0].kill();
    let mut winners: BTreeMap<RunKey, usize> = BTreeMap::new();
    for run in tasks.join_all().await.into_iter().flatten() {
        *winners.entry(run).or_default() += 1;
    }
    assert_eq!(winners.len(), JOBS * usize::try_from(TICKS).unwrap());
    assert!(winners.values().all(|&count| count == 1));
    assert_eq!(open(&url, "default").jobs().await.unwrap().len(), JOBS, "of a living member");
}

/// A replica gives up on a request that is not answered, and with the next one another member is asked.
#[tokio::test]
async fn a_member_of_etcd_that_hangs_is_left_for_the_next() {
    let Some(cluster) = EtcdCluster::start() else { return };
    let store = open(&cluster.url(), "default");
    send(&store, &[register()]).await;
    cluster.members[0].signal(Signal::SIGSTOP);
    let limit = Duration::from_millis(1250);
    let registers = [register()];
    let answered = async || matches!(tokio::time::timeout(limit, store.apply(&registers)).await, Ok(Ok(_)));
    // If it was the leader, the others elect one first.
    wait_until("another member answers", answered).await;
    cluster.members[0].signal(Signal::SIGCONT);
}

/// What is compared with a store's clock elsewhere is not with one's own here.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_daemon_says_nothing_of_its_clock_where_the_store_has_none() {
    let Some(server) = DocumentServer::start(Kind::Memcached) else { return };
    let table = Table::new("  - name: a\n    schedule: \"@yearly\"\n    command: \"true\"\n");
    let daemon = Launch::new(&["run", "--jobs", &table.path(), "--store", &server.url()]).start();
    daemon.wait_for_event("daemon_ready");
    let store = open(&server.url(), "default");
    let members = async || store.meet(None, &[]).await.unwrap().members;
    wait_until("the daemon is there", async || !members().await.is_empty()).await;
    // Its second meeting: the first one would have measured the clock.
    wait_until("it comes again", async || members().await.iter().any(|member| member.number > 1)).await;
    assert_eq!(members().await[0].offset_ms, None);
    let connected = daemon.wait_for_event("store_connected");
    assert_eq!(connected["class"], "C");
    let checks: Vec<String> =
        daemon.events("store_unsafe").iter().map(|line| line["check"].as_str().unwrap().to_owned()).collect();
    assert_eq!(checks, ["persistence"]);
}

#[tokio::test]
async fn without_a_quorum_etcd_takes_nothing_and_says_so_in_time() {
    let Some(mut cluster) = EtcdCluster::start() else { return };
    let store = open(&cluster.url(), "default");
    send(&store, &[register()]).await;
    assert_eq!(store.probe().await.unwrap().class, Class::A, "three members");
    cluster.members[0].kill();
    cluster.members[1].kill();
    let asked = SystemClock.now().boot;
    let error = store.apply(&[claim(1, "web-1")]).await.unwrap_err();
    assert!(matches!(error.kind, ErrorKind::MaybeApplied | ErrorKind::NotSent), "{error}");
    assert!(SystemClock.now().boot.since(asked) < Duration::from_secs(10), "{:?}", SystemClock.now().boot.since(asked));
    cluster.members[0].start_again();
    assert_eq!(send(&store, &[claim(1, "web-1")]).await[0].verdict, Verdict::Won);
    assert_eq!(send(&store, &[claim(1, "web-2")]).await[0].verdict, Verdict::Held);
    cluster.members.iter_mut().for_each(DocumentServer::kill);
    store.apply(&[claim(2, "web-1")]).await.unwrap_err(); // over a connection that was open
    let error = store.apply(&[claim(2, "web-1")]).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::NotSent, "nobody is there: {error}");
}

/// etcd and Consul keep what they acknowledged: after a restart nothing is refused.
#[tokio::test]
async fn a_restart_that_loses_nothing_is_none() {
    let servers = [DocumentServer::start(Kind::Etcd), DocumentServer::durable_consul()];
    for mut server in servers.into_iter().flatten() {
        let store = open(&server.url(), "default");
        send(&store, &[register()]).await;
        assert_eq!(send(&store, &[claim(1, "web-1")]).await[0].verdict, Verdict::Won);
        let before = store.identity().await.unwrap();
        server.kill();
        assert!(store.apply(&[claim(2, "web-1")]).await.is_err());
        server.start_again();
        wait_until("the server answers", || async { store.identity().await.is_ok() }).await;
        assert_eq!(store.identity().await.unwrap(), before);
        assert_eq!(send(&store, &[claim(1, "web-2")]).await[0].verdict, Verdict::Held);
        assert_eq!(send(&store, &[claim(2, "web-2")]).await[0].verdict, Verdict::Won);
    }
}

/// Whoever knew the job learns that all up to now may have been decided; whoever does not is no better off.
async fn every_tick_that_may_be_forgotten_is_refused(store: &Arc<dyn Store>, forget: impl FnOnce()) {
    let known = send(store, &[register()]).await.remove(0).job.unwrap();
    assert_eq!(verdict(store, claim(1, "web-1")).await, Verdict::Won);
    assert_eq!(verdict(store, claim(3, "web-1")).await, Verdict::Won);
    let before = store.identity().await.unwrap();
    forget();
    wait_until("the server answers", || async { store.identity().await.is_ok() }).await;
    let after = store.identity().await.unwrap();
    assert!((&after.server, after.evicted) != (&before.server, before.evicted), "that is how replicas learn of it");
    assert_eq!(verdict(store, claim(1, "web-2")).await, Verdict::Unregistered, "a second run");
    let knew = Knew { since: known.since, decided_through: known.decided_through, missing: true, ..Knew::default() };
    let mut again = registration(&job());
    (again.skew_tolerance_ms, again.knew) = (2000, Some(knew));
    let answer = store.apply(&[Step::Register(again)]).await.unwrap().remove(0);
    assert!(answer.job.unwrap().forgot_at > 0, "and it is said");
    for n in 1..=3 {
        let found = verdict(store, claim(n, "web-2")).await;
        assert!(matches!(found, Verdict::Forgot | Verdict::TooOld), "{n}: {found:?}");
    }
}

#[tokio::test]
async fn a_memcached_that_is_emptied_is_noticed() {
    let Some(server) = DocumentServer::start(Kind::Memcached) else { return };
    let store = open(&server.url(), "default");
    every_tick_that_may_be_forgotten_is_refused(&store, || {
        assert!(server.say("flush_all\r\n").unwrap().contains("OK"));
    })
    .await;
}

#[tokio::test]
async fn a_server_that_keeps_nothing_and_restarts_is_noticed() {
    for mut server in [Kind::Memcached, Kind::Consul].into_iter().filter_map(DocumentServer::start) {
        let store = open(&server.url(), "default");
        assert_eq!(store.probe().await.unwrap().class, Class::C, "Consul with -dev");
        every_tick_that_may_be_forgotten_is_refused(&store, || {
            server.kill();
            server.start_again();
        })
        .await;
    }
}

#[tokio::test]
async fn a_memcached_that_evicts_is_noticed() {
    let Some(server) = DocumentServer::evicting_memcached() else { return };
    let store = open(&server.url(), "default");
    let probe = store.probe().await.unwrap();
    let checks: Vec<&str> = probe.findings.iter().map(|finding| finding.check).collect();
    assert_eq!((probe.class, checks), (Class::C, vec!["persistence", "eviction"]));
    every_tick_that_may_be_forgotten_is_refused(&store, || {
        // Of all sizes that the job's document can have.
        let fill = |n: usize| {
            let text = "x".repeat(1000 + n % 32 * 100);
            format!("set filler-{n} 0 0 {} noreply\r\n{text}\r\n", text.len())
        };
        server.say(&(0..20_000).map(fill).collect::<String>()).unwrap();
    })
    .await;
}

#[tokio::test]
async fn a_memcached_that_is_full_says_so() {
    let Some(server) = DocumentServer::start_with(Kind::Memcached, &["-m", "4"]) else { return };
    let store = open(&server.url(), "default");
    let checks: Vec<&str> = store.probe().await.unwrap().findings.iter().map(|finding| finding.check).collect();
    assert_eq!(checks, ["persistence"], "-M");
    let mut error = None;
    for batch in 0..40 {
        let name = |n: usize| JobName::new(&format!("job-{batch}-{n}")).unwrap();
        let steps: Vec<Step> = (0..500).map(|n| Step::Register(registration(&name(n)))).collect();
        error = store.apply(&steps).await.err();
        if error.is_some() {
            break;
        }
    }
    let error = error.unwrap();
    assert_eq!(error.kind, ErrorKind::MaybeApplied);
    assert!(error.detail.contains("a larger -m"), "{error}");
}

/// A copy from before is put in the place of the data: whoever has seen newer documents makes a new mark.
#[tokio::test]
async fn a_store_that_went_back_is_noticed() {
    for (kind, server) in kinds() {
        let namespace = "went-back";
        let store = open(&server.url(), namespace);
        store.apply(&[register(), claim(1, "web-1")]).await.unwrap();
        let before = store.identity().await.unwrap();
        // Written last, this document has the highest version that the handle has seen; without it the store is older.
        store.apply(&[claim(2, "web-1")]).await.unwrap();
        store.apply(&[Step::Read { run: run(2) }]).await.unwrap();
        remove(server, &format!("onecron/{namespace}/job/nightly-sales"));
        let after = store.identity().await.unwrap();
        assert_ne!(before.server, after.server, "{kind:?}");
        assert_eq!(verdict(&store, claim(2, "web-2")).await, Verdict::Unregistered);
        assert_eq!(open(&server.url(), namespace).identity().await.unwrap().server, after.server, "for all");
    }
}

fn remove(server: &DocumentServer, key: &str) {
    let answer = match server.kind {
        Kind::Etcd => server.http("POST", "/v3/kv/deleterange", &format!(r#"{{"key":"{}"}}"#, base64(key))),
        Kind::Consul => server.http("DELETE", &format!("/v1/kv/{key}"), ""),
        _ => server.say(&format!("delete {key}\r\n")),
    };
    assert!(answer.is_some_and(|answer| answer.contains("200 OK") || answer.contains("DELETED")));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_whose_reply_was_lost_may_have_been_done_and_is_answered_the_same_when_sent_again() {
    let mut tasks: JoinSet<()> = kinds().map(|(kind, server)| lose_replies(kind, server)).collect();
    while let Some(done) = tasks.join_next().await {
        done.unwrap();
    }
}

async fn lose_replies(kind: Kind, server: &'static DocumentServer) {
    let proxy = Proxy::start(server.port).await;
    let (namespace, direct) = ("lost-replies", open(&server.url(), "lost-replies"));
    let store = open(&server.url_at(&format!("127.0.0.1:{}", proxy.port)), namespace);
    store.apply(&[register()]).await.unwrap();
    let steps = [
        (claim(1, "web-1"), Verdict::Won),
        (begin(1, "web-1"), Verdict::Begun),
        (complete(1, "web-1", "ok"), Verdict::Recorded),
    ];
    for (step, wanted) in steps {
        for arrive in 0..7 {
            proxy.swallow_replies_after(arrive);
            let limit = Duration::from_millis(300);
            let asked = store.apply(std::slice::from_ref(&step));
            if let Ok(Ok(answers)) = tokio::time::timeout(limit, asked).await {
                assert_eq!(answers[0].verdict, wanted, "{kind:?}");
            }
        }
        proxy.swallow_replies(true);
        let error = store.apply(std::slice::from_ref(&step)).await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::MaybeApplied, "{kind:?}: {error}");
        proxy.swallow_replies(false);
        assert_eq!(verdict(&store, step.clone()).await, wanted, "{kind:?}");
        assert_eq!(verdict(&direct, step).await, wanted, "{kind:?}");
    }
    let history = direct.history(&job(), 9).await.unwrap();
    // memcached changes the history by itself: who gives up in between does not come back to it.
    let least = usize::from(kind != Kind::Memcached);
    assert!((least..=1).contains(&history.len()), "{kind:?}: {history:?}");
    assert_eq!(direct.apply(&[Step::Read { run: run(1) }]).await.unwrap()[0].run.as_ref().unwrap().start, 1);
}

/// As large as a table allows: the newest entries stay whole, older outputs are cut, and steps go on.
#[tokio::test]
async fn the_largest_outputs_fit() {
    for (kind, server) in kinds() {
        let store = open(&server.url(), "large");
        let mut large = registration(&job());
        large.history = [200, 1000, 1000];
        store.apply(&[Step::Register(large)]).await.unwrap();
        let tail = "0123456789abcdef".repeat(8192); // 128 KiB
        for n in 1..=10 {
            let steps = [claim(n, "web-1"), begin(n, "web-1"), complete(n, "web-1", &tail)];
            let answers = store.apply(&steps).await.unwrap();
            assert_eq!(answers[2].verdict, Verdict::Recorded, "{kind:?}: {n}");
        }
        let history = store.history(&job(), 300).await.unwrap();
        assert_eq!(history.len(), 10, "{kind:?}");
        let whole = history.iter().take_while(|entry| entry.output_tail == tail).count();
        assert!((1..10).contains(&whole), "{kind:?}: {whole}");
        assert!(history[whole..].iter().all(|entry| entry.output_tail.is_empty()), "{kind:?}");
        let most = "\u{1}".repeat(1 << 20);
        let steps = [claim(11, "web-1"), begin(11, "web-1"), complete(11, "web-1", &most)];
        assert_eq!(store.apply(&steps).await.unwrap()[2].verdict, Verdict::Recorded, "{kind:?}");
        let newest = store.history(&job(), 1).await.unwrap().remove(0);
        assert_eq!((newest.outcome.as_str(), newest.output_tail.as_str()), ("succeeded", ""), "{kind:?}: it is cut");
    }
}

/// A job of each second for an hour has more records than its document should.
#[tokio::test]
async fn many_closed_runs_go_before_their_time_and_are_refused() {
    for (kind, server) in kinds() {
        let store = open(&server.url(), "many-closed");
        store.apply(&[register()]).await.unwrap();
        let second = |n: i64| Tick::from_seconds(run(0).scheduled_for.seconds() + n);
        let settle = |n: i64| Step::Settle {
            run: RunKey::new(job(), second(n)),
            owner: replica("auditor"),
            // All before the first is decided, once somebody says that there is nothing.
            previous: if n == 1 { 0 } else { second(n - 1).seconds() },
            expect: Expect::Absent { after_ms: 0 },
            decision: Decision::Missed(MissedReason::NoReplica),
        };
        let steps: Vec<Step> = (1..=300).map(settle).collect();
        let answers = store.apply(&steps).await.unwrap();
        assert!(answers.iter().all(|answer| answer.verdict == Verdict::Settled), "{kind:?}");
        let job_record = answers.last().unwrap().job.clone().unwrap();
        assert!(job_record.floor >= second(150).seconds() && job_record.floor < second(290).seconds(), "{kind:?}");
        assert_eq!(job_record.keep_ms, registration(&job()).keep_ms, "the setting stays");
        let ask = |n| Step::Claim(claim_of(&RunKey::new(job(), second(n)), "web-1"));
        assert_eq!(verdict(&store, ask(1)).await, Verdict::TooOld, "{kind:?}");
        assert_eq!(verdict(&store, ask(299)).await, Verdict::Done, "{kind:?}");
    }
}

fn names_what_is_wrong(error: &Error, words: &[&str]) {
    let text = format!("{error:?} {error}");
    assert_eq!(error.kind, ErrorKind::Misconfigured, "{text}");
    assert!(words.iter().all(|word| text.contains(word)), "{text}");
    assert!(!text.contains("s3cret"), "{text}");
}

#[tokio::test]
async fn a_wrong_password_of_etcd_is_named_and_a_right_one_is_renewed() {
    let Some(server) = DocumentServer::start_with(Kind::Etcd, &["--auth-token", "simple"]) else { return };
    let post = |path: &str, body: &str| assert!(server.http("POST", path, body).unwrap().contains("200 OK"), "{path}");
    for user in ["root", "app", "weak"] {
        post("/v3/auth/user/add", &format!(r#"{{"name":"{user}","password":"{user}-s3cret"}}"#));
    }
    post("/v3/auth/role/add", r#"{"name":"root"}"#);
    post("/v3/auth/role/add", r#"{"name":"onecron"}"#);
    let (from, to) = (base64("onecron/"), base64("onecron0"));
    let grant = format!(r#"{{"name":"onecron","perm":{{"permType":2,"key":"{from}","range_end":"{to}"}}}}"#);
    post("/v3/auth/role/grant", &grant);
    post("/v3/auth/user/grant", r#"{"user":"root","role":"root"}"#);
    post("/v3/auth/user/grant", r#"{"user":"app","role":"onecron"}"#);
    post("/v3/auth/enable", "{}");
    let place = format!("127.0.0.1:{}", server.port);
    let fails = async |url: String| open(&url, "default").apply(&[register()]).await.unwrap_err();
    names_what_is_wrong(&fails(format!("etcd://{place}")).await, &["who asks", "--store-password-file"]);
    let wrong = format!("etcd://app:wrong-s3cret@{place}");
    names_what_is_wrong(&fails(wrong.clone()).await, &["user `app` or its password"]);
    names_what_is_wrong(&open(&wrong, "default").probe().await.unwrap_err(), &["user `app` or its password"]);
    names_what_is_wrong(&fails(format!("etcd://weak:weak-s3cret@{place}")).await, &["permission denied", "readwrite"]);
    let folder = tempfile::tempdir().unwrap();
    let access = password_file(folder.path(), "app-s3cret\n");
    let store = with_access(&format!("etcd://app@{place}"), &access);
    assert_eq!(verdict(&store, register()).await, Verdict::Registered { fresh: true, rescheduled: false });
    store.probe().await.unwrap();
    // A change of a password takes the tokens of its user; the new one is read from the file.
    let log_in = server.http("POST", "/v3/auth/authenticate", r#"{"name":"root","password":"root-s3cret"}"#).unwrap();
    let token = log_in.split(r#""token":""#).nth(1).unwrap().split('"').next().unwrap();
    let body = r#"{"name":"app","password":"new-s3cret"}"#;
    let change =
        format!("POST /v3/auth/user/changepw HTTP/1.0\r\nAuthorization: {token}\r\nContent-Length: {}", body.len());
    assert!(server.raw(&format!("{change}\r\n\r\n{body}")).unwrap().contains("200 OK"));
    names_what_is_wrong(&store.apply(&[claim(1, "web-1")]).await.unwrap_err(), &["user `app` or its password"]);
    std::fs::write(folder.path().join("password"), "new-s3cret").unwrap();
    assert_eq!(verdict(&store, claim(1, "web-1")).await, Verdict::Won);
}

#[tokio::test]
async fn a_wrong_token_of_consul_is_named() {
    let acl = r#"-hcl=acl{enabled=true default_policy="deny" tokens{master="root-s3cret"}}"#;
    let Some(server) = DocumentServer::start_with(Kind::Consul, &[acl]) else { return };
    let place = format!("127.0.0.1:{}", server.port);
    let rooted = async || {
        let store = open(&format!("consul://:root-s3cret@{place}"), "default");
        store.apply(&[register()]).await.is_ok()
    };
    wait_until("the token works", rooted).await;
    let fails = async |url: String| open(&url, "default").apply(&[register()]).await.unwrap_err();
    names_what_is_wrong(&fails(format!("consul://{place}")).await, &["Permission denied", "key_prefix"]);
    names_what_is_wrong(&fails(format!("consul://:no-s3cret@{place}")).await, &["does not know the token"]);
    names_what_is_wrong(&fails(format!("consul://:root-s3cret@{place}?dc=far")).await, &["`?dc=`"]);
    // What the docs say that is needed is enough, and it is read from a file.
    let docs = include_str!("../../docs/stores.md");
    let rules: Vec<&str> =
        docs.lines().filter(|line| line.starts_with("key_prefix") || line.starts_with("agent_prefix")).collect();
    let rules = rules.join("\n");
    assert_eq!(rules.lines().count(), 2, "{rules}");
    let ask = |path: &str, body: serde_json::Value| {
        let (body, head) = (body.to_string(), "HTTP/1.0\r\nX-Consul-Token: root-s3cret\r\nContent-Length:");
        let answer = server.raw(&format!("PUT {path} {head} {}\r\n\r\n{body}", body.len())).unwrap();
        let body = answer.split("\r\n\r\n").nth(1).unwrap_or_default().to_owned();
        serde_json::from_str::<serde_json::Value>(&body).unwrap_or_else(|_| panic!("{answer}"))
    };
    ask("/v1/acl/policy", serde_json::json!({"Name": "onecron", "Rules": rules}));
    let token = ask("/v1/acl/token", serde_json::json!({"Policies": [{"Name": "onecron"}]}));
    let token = token["SecretID"].as_str().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let store = with_access(&format!("consul://{place}"), &password_file(folder.path(), &format!("{token}\n")));
    assert_eq!(verdict(&store, claim(1, "web-1")).await, Verdict::Won);
    let checks: Vec<&str> = store.probe().await.unwrap().findings.iter().map(|finding| finding.check).collect();
    assert_eq!(checks, ["members", "persistence"]);
    let mine = Presence::new(replica("web-1"), Presence::REPLICA);
    assert_eq!(store.meet(Some(&mine), &[]).await.unwrap().members.len(), 1);
    store.leave(&mine.name).await.unwrap();
    store.retire(Duration::from_secs(3600)).await.unwrap();
}

#[tokio::test]
async fn a_snapshot_of_consul_that_is_restored_is_noticed() {
    let Some(server) = DocumentServer::start(Kind::Consul) else { return };
    let file = tempfile::tempdir().unwrap();
    let consul = |command: &str| {
        let mut consul = std::process::Command::new(program(Kind::Consul).unwrap());
        consul.args(["snapshot", command, &format!("-http-addr=127.0.0.1:{}", server.port)]);
        let done = consul.arg(file.path().join("snapshot")).output().unwrap();
        assert!(done.status.success(), "{done:?}");
    };
    let store = open(&server.url(), "default");
    store.apply(&[register()]).await.unwrap();
    consul("save");
    store.apply(&[claim(1, "web-1")]).await.unwrap();
    let before = store.identity().await.unwrap();
    assert_eq!(verdict(&store, Step::Read { run: run(1) }).await, Verdict::Read);
    consul("restore");
    assert_eq!(verdict(&store, claim(1, "web-2")).await, Verdict::Unregistered);
    assert_ne!(store.identity().await.unwrap(), before);
}

#[tokio::test]
async fn a_person_can_read_the_documents() {
    let Some(server) = shared(Kind::Consul) else { return };
    let store = open(&server.url(), "readable");
    store.apply(&[register(), claim(1, "web-1")]).await.unwrap();
    let text = server.http("GET", "/v1/kv/onecron/readable/job/nightly-sales?raw", "").unwrap();
    let text = text.split("\r\n\r\n").nth(1).unwrap();
    let read: serde_json::Value = serde_json::from_str(text).unwrap();
    assert_eq!((&read["job"]["schedule"], &read["runs"][0]["state"]), (&"* * * * *".into(), &"claimed".into()));
    assert_eq!(read["runs"][0]["owner"], "web-1-1");
    assert!(read["written_at"].is_i64() && read["runs"][0].get("outcome").is_none());
}

#[tokio::test]
async fn a_record_of_a_newer_form_is_not_touched() {
    for (kind, server) in kinds() {
        let store = open(&server.url(), "newer");
        store.apply(&[register()]).await.unwrap();
        let text = r#"{"job":{"format":"2","mood":"good"}}"#;
        server.put("onecron/newer/job/nightly-sales", text);
        let other = Step::Register(registration(&JobName::new("other").unwrap()));
        let answers = store.apply(&[register(), other, claim(1, "web-1")]).await.unwrap();
        let unreadable = Answer::unreadable(2);
        assert_eq!((&answers[0], &answers[2]), (&unreadable, &unreadable), "{kind:?}");
        assert!(matches!(answers[1].verdict, Verdict::Registered { .. }), "{kind:?}");
        let jobs: Vec<JobName> = store.jobs().await.unwrap().into_iter().map(|(name, _)| name).collect();
        assert_eq!(jobs, [JobName::new("other").unwrap()], "{kind:?}: those that can be read");
    }
}

#[tokio::test]
async fn with_tls_both_sides_show_certificates() {
    for (kind, scheme) in [(Kind::Etcd, "etcds"), (Kind::Consul, "consuls")] {
        let authority = Authority::new();
        let Some((_server, port)) = DocumentServer::with_tls(kind, &authority) else { continue };
        let url = format!("{scheme}://127.0.0.1:{port}");
        let [certificate, key] = authority.pair();
        let whole = Access {
            ca_file: Some(authority.file()),
            cert_file: Some(certificate.clone()),
            key_file: Some(key),
            ..Access::default()
        };
        let without_our_own = Access { cert_file: None, key_file: None, ..whole.clone() };
        let other = Authority::new();
        let of_another = Access { ca_file: Some(other.file()), ..whole.clone() };
        let fails =
            async |access: &Access| with_access(&url, access).apply(&[register()]).await.unwrap_err().to_string();
        let error = fails(&of_another).await;
        assert!(error.contains("ca.pem` has no certificate that vouches for it"), "{error}");
        let error = fails(&without_our_own).await;
        assert!(error.contains("ertificate"), "{error}");
        let no_key = Access { key_file: Some(certificate), ..whole.clone() };
        let error = fails(&no_key).await;
        assert!(error.contains("server.pem` has no private key"), "{error}");
        let found = verdict(&with_access(&url, &whole), register()).await;
        assert_eq!(found, Verdict::Registered { fresh: true, rescheduled: false }, "{kind:?}");
        let namespace = Namespace::new("default").unwrap();
        let plain = format!("{}://127.0.0.1", scheme.trim_end_matches('s'));
        let error = onecron::store::open_with(&plain, &whole, &namespace, Arc::new(SystemClock)).unwrap_err();
        assert!(error.to_string().contains(&format!("write {scheme}://")), "{error}");
    }
}
