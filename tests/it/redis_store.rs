//! What only servers do: they go away, swallow replies, run out of memory, want passwords.

use crate::support::bench::Kind;
use crate::support::bench::open;
use crate::support::bench::program;
use crate::support::proxy::Proxy;
use crate::support::scene::claim_of;
use crate::support::scene::ending;
use crate::support::scene::registration;
use crate::support::scene::replica;
use crate::support::server::RedisServer;
use crate::support::server::free_port;
use onecron::clock::Clock;
use onecron::clock::SystemClock;
use onecron::job::Answer;
use onecron::job::Decision;
use onecron::job::Expect;
use onecron::job::JobName;
use onecron::job::Outcome;
use onecron::job::Presence;
use onecron::job::RunKey;
use onecron::job::Step;
use onecron::job::Tick;
use onecron::job::Verdict;
use onecron::store::Class;
use onecron::store::ErrorKind;
use onecron::store::Store;
use std::sync::Arc;
use std::time::Duration;

fn start(arguments: &[&str]) -> Option<RedisServer> {
    Some(RedisServer::start(&program(Kind::Redis)?, arguments))
}

fn job() -> JobName {
    JobName::new("nightly-sales").unwrap()
}

/// A minute's tick of an hour ago; the same for the whole test.
struct Steps {
    run: RunKey,
}

impl Steps {
    fn new() -> Self {
        let seconds = SystemClock.now().wall.timestamp() / 60 * 60 - 3600;
        Self { run: RunKey::new(job(), Tick::from_seconds(seconds)) }
    }

    fn claim(&self, who: &str) -> Step {
        Step::Claim(claim_of(&self.run, who))
    }

    fn begin(&self, who: &str) -> Step {
        Step::Begin { run: self.run.clone(), owner: replica(who), start: 0, request: "1".into() }
    }

    fn renew(&self, who: &str) -> Step {
        Step::Renew { run: self.run.clone(), owner: replica(who), start: 1 }
    }

    fn complete(&self, who: &str) -> Step {
        let ending = ending(Outcome::Succeeded, "output");
        Step::Complete { run: self.run.clone(), owner: replica(who), start: 1, ending }
    }

    fn read(&self) -> Step {
        Step::Read { run: self.run.clone() }
    }
}

fn register() -> Step {
    Step::Register(registration(&job()))
}

async fn verdict(store: &Arc<dyn Store>, step: Step) -> Verdict {
    store.apply(&[step]).await.unwrap()[0].verdict
}

/// How a request failed, and that it took less than five seconds.
async fn fails_fast(store: &Arc<dyn Store>) -> (ErrorKind, String) {
    let clock = SystemClock;
    let before = clock.now().boot;
    let error = store.server_time().await.unwrap_err();
    let took = clock.now().boot.since(before);
    assert!(took < Duration::from_secs(5), "{took:?}");
    (error.kind, error.to_string())
}

#[tokio::test]
async fn a_closed_port_fails_fast_and_the_store_is_used_again_once_it_is_back() {
    let Some(mut server) = start(&["--appendonly", "yes", "--appendfsync", "always"]) else { return };
    let store = open(&server.url(), "default");
    let steps = Steps::new();
    store.apply(&[register(), steps.claim("web-1")]).await.unwrap();
    server.kill();
    // The first request meets the broken connection: it may have arrived. The next ones cannot connect.
    let (kind, _) = fails_fast(&store).await;
    assert!(matches!(kind, ErrorKind::MaybeApplied | ErrorKind::NotSent));
    let (kind, text) = fails_fast(&store).await;
    assert_eq!(kind, ErrorKind::NotSent);
    assert!(
        text.starts_with(&format!("reading the clock on redis://127.0.0.1:{}: connecting: ", server.port)),
        "{text}"
    );
    server.start_again();
    assert_eq!(
        verdict(&store, steps.claim("web-2")).await,
        Verdict::Unregistered,
        "the server may have lost something"
    );
    store.apply(&[register()]).await.unwrap();
    assert_eq!(verdict(&store, steps.claim("web-2")).await, Verdict::Held, "the same handle, and the same records");
}

#[tokio::test]
async fn a_port_that_accepts_and_stays_silent_fails_fast_for_all_who_ask() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let store = open(&format!("redis://{}", listener.local_addr().unwrap()), "default");
    let asked = (0..20).map(|_| fails_fast(&store));
    for (kind, text) in futures_util::future::join_all(asked).await {
        assert_eq!(kind, ErrorKind::NotSent);
        assert!(text.contains("did not answer within 2 s"), "{text}");
    }
}

/// Servers and balancers cut connections that were idle. Nobody has to get up for that.
#[tokio::test]
async fn a_connection_that_was_closed_while_idle_is_no_outage() {
    let Some(server) = start(&[]) else { return };
    let store = open(&server.url(), "default");
    store.server_time().await.unwrap();
    for _ in 0..3 {
        server.command("CLIENT KILL TYPE normal SKIPME yes");
        store.server_time().await.unwrap();
    }
}

#[tokio::test]
async fn a_store_can_be_opened_before_its_server_runs() {
    let store = open(&format!("redis://127.0.0.1:{}", free_port()), "default");
    assert_eq!(fails_fast(&store).await.0, ErrorKind::NotSent);
}

#[tokio::test]
async fn a_host_that_does_not_exist_is_not_sent_to() {
    let store = open("redis://no-such-host.invalid", "default");
    assert_eq!(fails_fast(&store).await.0, ErrorKind::NotSent);
}

/// The request arrives and is applied, its reply is lost: the resent one must get the same verdict.
#[tokio::test]
async fn a_lost_reply_is_no_verdict_and_the_resent_step_gets_the_same() {
    let Some(server) = start(&[]) else { return };
    let proxy = Proxy::start(server.port).await;
    let through = open(&format!("redis://127.0.0.1:{}", proxy.port), "default");
    let direct = open(&server.url(), "default");
    let steps = Steps::new();
    direct.apply(&[register()]).await.unwrap();
    for (step, wanted) in [
        (steps.claim("web-1"), Verdict::Won),
        (steps.begin("web-1"), Verdict::Begun),
        (steps.complete("web-1"), Verdict::Recorded),
    ] {
        through.server_time().await.unwrap();
        proxy.swallow_replies(true);
        let before = direct.apply(&[steps.read()]).await.unwrap();
        let error = through.apply(std::slice::from_ref(&step)).await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::MaybeApplied, "{error}");
        let applied = direct.apply(&[steps.read()]).await.unwrap();
        assert_ne!(applied, before, "it did arrive");
        proxy.swallow_replies(false);
        assert_eq!(verdict(&through, step).await, wanted);
        assert_eq!(direct.apply(&[steps.read()]).await.unwrap(), applied, "and changed nothing more");
    }
}

#[tokio::test]
async fn scripts_that_the_server_lost_are_loaded_again() {
    let Some(server) = start(&[]) else { return };
    let store = open(&server.url(), "default");
    let steps = Steps::new();
    store.apply(&[register()]).await.unwrap();
    server.command("SCRIPT FLUSH");
    let answers = store.apply(&[steps.claim("web-1"), steps.begin("web-1")]).await.unwrap();
    assert_eq!((answers[0].verdict, answers[1].verdict), (Verdict::Won, Verdict::Begun));
}

#[tokio::test]
async fn a_password_is_asked_for_in_clear_words_and_never_shown() {
    let Some(server) = start(&["--requirepass", "s3cret"]) else { return };
    let address = format!("127.0.0.1:{}", server.port);
    for (url, wanted) in [
        (format!("redis://{address}"), "wants a password"),
        (format!("redis://:wr0ng@{address}"), "check those of the URL"),
        (format!("redis://nobody:wr0ng@{address}"), "check those of the URL"),
    ] {
        let error = open(&url, "default").server_time().await.unwrap_err();
        let text = error.to_string();
        assert_eq!(error.kind, ErrorKind::Misconfigured, "{text}");
        assert!(text.contains(wanted) && !text.contains("wr0ng"), "{text}");
    }
    open(&format!("redis://:s3cret@{address}/3"), "default").server_time().await.unwrap();
}

/// The client sends no user without a password, and such a connection is that of `default`, who may do anything.
#[tokio::test]
async fn a_user_without_a_password_is_not_let_in_as_another() {
    let Some(server) = start(&[]) else { return };
    let url = format!("redis://cron@127.0.0.1:{}", server.port);
    server.command("ACL SETUSER cron on >pw ~onecron:* +@all");
    let error = open(&url, "default").server_time().await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Misconfigured, "{error}");
    assert!(error.to_string().contains("--store-password-file"), "{error}");
    server.command("ACL SETUSER cron nopass");
    open(&url, "default").server_time().await.unwrap();
    assert!(server.command("CLIENT LIST").contains("user=cron"));
}

#[tokio::test]
async fn an_account_without_rights_is_told_which_it_needs() {
    let Some(server) = start(&[]) else { return };
    server.command("ACL SETUSER reader on >pw ~onecron:* +@all -@write -info -config");
    server.command("ACL SETUSER blind on >pw ~other:* +@all");
    let address = format!("127.0.0.1:{}", server.port);
    for user in ["reader", "blind"] {
        let store = open(&format!("redis://{user}:pw@{address}"), "default");
        let error = store.apply(&[register()]).await.unwrap_err();
        let text = error.to_string();
        assert_eq!(error.kind, ErrorKind::Misconfigured, "{text}");
        assert!(text.contains("onecron:*"), "{text}");
    }
    let probe = open(&format!("redis://reader:pw@{address}"), "default").probe().await.unwrap();
    assert_eq!((probe.class, probe.findings[0].check), (Class::C, "info"));
}

/// The account that the docs recommend.
#[tokio::test]
async fn the_documented_account_is_enough_for_everything() {
    let Some(server) = start(&[]) else { return };
    let docs = include_str!("../../docs/stores.md");
    let rule = docs.lines().find(|line| line.starts_with("ACL SETUSER")).unwrap();
    assert_eq!(server.command(&rule.replace("PASSWORD", "pw")), "+OK\r\n");
    let store = open(&format!("redis://onecron:pw@127.0.0.1:{}", server.port), "default");
    let steps = Steps::new();
    let batch = [register(), steps.claim("web-1"), steps.begin("web-1"), steps.complete("web-1")];
    assert_eq!(store.apply(&batch).await.unwrap().len(), 4);
    assert_eq!(store.jobs().await.unwrap().len(), 1);
    assert_eq!(store.history(&job(), 1).await.unwrap().len(), 1);
    store.probe().await.unwrap();
    store.server_time().await.unwrap();
    store.retire(Duration::ZERO).await.unwrap();
    store.meet(Some(&presence(1)), &[presence(0)]).await.unwrap();
    store.leave(&presence(1).name).await.unwrap();
}

fn presence(number: u64) -> Presence {
    Presence { number, ..Presence::new(replica("web-1"), Presence::REPLICA) }
}

/// What a person, or another version, may have written there.
#[tokio::test]
async fn a_presence_that_cannot_be_read_is_listed_and_can_be_removed() {
    let Some(server) = start(&[]) else { return };
    let store = open(&server.url(), "default");
    server.command("HSET onecron:default:replicas odd nonsense new '{\"number\":7,\"mood\":{\"good\":[1]}}'");
    let members = store.meet(Some(&presence(3)), &[]).await.unwrap().members;
    let found: Vec<(&str, &str, u64)> =
        members.iter().map(|member| (member.name.as_str(), member.kind.as_str(), member.number)).collect();
    assert_eq!(found, [("new", "", 7), ("odd", "", 0), ("web-1-1", "replica", 3)]);
    let members: Vec<Presence> = members.into_iter().map(Arc::unwrap_or_clone).collect();
    assert!(store.meet(None, &members).await.unwrap().members.is_empty());
}

/// Replicas must see one another when they need it most; each writes over what it wrote before.
#[tokio::test]
async fn members_meet_on_a_full_server() {
    let Some(server) = start(&[]) else { return };
    let store = open(&server.url(), "default");
    store.meet(Some(&presence(1)), &[]).await.unwrap();
    server.command("CONFIG SET maxmemory 1");
    let members = store.meet(Some(&presence(2)), &[]).await.unwrap().members;
    assert_eq!(members[0].number, 2);
    store.leave(&members[0].name).await.unwrap();
    assert!(store.meet(None, &[]).await.unwrap().members.is_empty());
}

/// New claims fail visibly when memory is full. What began must be able to live, to end and to be called lost.
#[tokio::test]
async fn a_full_server_takes_no_claims_but_lets_runs_live_and_end() {
    let Some(server) = start(&[]) else { return };
    let store = open(&server.url(), "default");
    let (first, mut second) = (Steps::new(), Steps::new());
    second.run.scheduled_for = Tick::from_seconds(first.run.scheduled_for.seconds() + 60);
    let mut third = second.claim("web-2");
    if let Step::Claim(claim) = &mut third {
        claim.exclusive = false;
    }
    let batch = [register(), first.claim("web-1"), first.begin("web-1"), third, second.begin("web-2")];
    store.apply(&batch).await.unwrap();
    server.command("CONFIG SET maxmemory-policy noeviction");
    server.command("CONFIG SET maxmemory 1");
    let mut fresh = Steps::new();
    fresh.run.scheduled_for = Tick::from_seconds(first.run.scheduled_for.seconds() + 120);
    let error = store.apply(&[fresh.claim("web-1")]).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::MaybeApplied);
    assert!(error.to_string().contains("`maxmemory`"), "{error}");
    assert_eq!(verdict(&store, fresh.read()).await, Verdict::Read, "questions are answered");
    assert_eq!(store.apply(&[fresh.read()]).await.unwrap()[0].run, None, "nothing was written by half");
    assert_eq!(verdict(&store, first.renew("web-1")).await, Verdict::Renewed);
    assert_eq!(verdict(&store, first.complete("web-1")).await, Verdict::Recorded);
    let seen = store.apply(&[second.read()]).await.unwrap()[0].run.as_ref().unwrap().seen();
    let settle = |seen, decision| Step::Settle {
        run: second.run.clone(),
        owner: replica("web-3"),
        previous: 0,
        expect: Expect::Unchanged(seen),
        decision,
    };
    assert_eq!(verdict(&store, settle(seen, Decision::Lost)).await, Verdict::Settled);
    let seen = store.apply(&[second.read()]).await.unwrap()[0].run.as_ref().unwrap().seen();
    assert_eq!(verdict(&store, settle(seen, Decision::Drained)).await, Verdict::Settled);
    server.command("CONFIG SET maxmemory 0");
    assert_eq!(verdict(&store, fresh.claim("web-1")).await, Verdict::Won);
}

#[tokio::test]
async fn a_full_server_lets_a_run_be_given_back() {
    let Some(server) = start(&[]) else { return };
    let store = open(&server.url(), "default");
    let steps = Steps::new();
    store.apply(&[register(), steps.claim("web-1"), steps.begin("web-1")]).await.unwrap();
    server.command("CONFIG SET maxmemory 1");
    let abandon = Step::Abandon { run: steps.run.clone(), owner: replica("web-1"), start: 1 };
    assert_eq!(verdict(&store, abandon).await, Verdict::Released);
}

#[tokio::test]
async fn no_key_ever_expires_and_all_are_named_for_people() {
    let Some(server) = start(&[]) else { return };
    let store = open(&server.url(), "prod");
    let steps = Steps::new();
    store.apply(&[register(), steps.claim("web-1"), steps.begin("web-1"), steps.complete("web-1")]).await.unwrap();
    let mut keys: Vec<String> =
        server.command("KEYS *").lines().filter(|line| line.starts_with("onecron")).map(str::to_owned).collect();
    keys.sort_unstable();
    let tick = steps.run.scheduled_for;
    let of_job = |name: &str| format!("onecron:prod:{{nightly-sales}}:{name}");
    let wanted = [
        "onecron:prod:heartbeat".to_owned(),
        "onecron:prod:jobs".to_owned(),
        of_job("final"),
        of_job("history"),
        of_job("job"),
        of_job("output:succeeded"),
        of_job(&format!("run:{tick}")),
    ];
    assert_eq!(keys, wanted);
    for key in keys {
        assert_eq!(server.command(&format!("TTL {key}")), ":-1\r\n", "{key}");
    }
    let state = server.command(&format!("HGET {} state", of_job(&format!("run:{tick}"))));
    assert!(state.contains("done"), "{state}");
    let claimed_at = server.command(&format!("HGET {} claimed_at", of_job(&format!("run:{tick}"))));
    assert!(claimed_at.starts_with("$13\r\n"), "13 digits, no exponent: {claimed_at}");
}

#[tokio::test]
async fn fields_of_a_newer_version_are_left_alone() {
    let Some(server) = start(&[]) else { return };
    let store = open(&server.url(), "default");
    let steps = Steps::new();
    store.apply(&[register(), steps.claim("web-1")]).await.unwrap();
    let run = format!("onecron:default:{{nightly-sales}}:run:{}", steps.run.scheduled_for);
    for key in ["onecron:default:{nightly-sales}:job", &run] {
        server.command(&format!("HSET {key} colour blue"));
    }
    store.apply(&[register(), steps.begin("web-1"), steps.complete("web-1")]).await.unwrap();
    for key in ["onecron:default:{nightly-sales}:job", &run] {
        assert_eq!(server.command(&format!("HGET {key} colour")), "$4\r\nblue\r\n");
    }
}

#[tokio::test]
async fn a_record_of_a_newer_form_is_not_touched() {
    let Some(server) = start(&[]) else { return };
    let store = open(&server.url(), "default");
    let steps = Steps::new();
    store.apply(&[register(), steps.claim("web-1")]).await.unwrap();
    let run = format!("onecron:default:{{nightly-sales}}:run:{}", steps.run.scheduled_for);
    for key in [run.as_str(), "onecron:default:{nightly-sales}:job"] {
        server.command(&format!("HSET {key} format 2"));
        let before = server.command(&format!("HGETALL {key}"));
        for step in [register(), steps.begin("web-1"), steps.read()].into_iter().skip(usize::from(key == run)) {
            assert_eq!(store.apply(&[step]).await.unwrap(), [Answer::unreadable(2)]);
        }
        assert_eq!(server.command(&format!("HGETALL {key}")), before);
    }
    assert_eq!(store.jobs().await.unwrap(), [], "jobs that can be read");
    assert_eq!(store.retire(Duration::ZERO).await.unwrap(), []);
    let other = Step::Register(registration(&JobName::new("other").unwrap()));
    let answers = store.apply(&[steps.read(), other, steps.read()]).await.unwrap();
    let verdicts: Vec<Verdict> = answers.iter().map(|answer| answer.verdict).collect();
    let unreadable = Verdict::Unreadable { format: 2 };
    assert_eq!(verdicts, [unreadable, Verdict::Registered { fresh: true, rescheduled: false }, unreadable]);
}

/// A newer version may write words that this one does not know, and think that they do no harm.
#[tokio::test]
async fn a_word_that_is_not_known_is_the_trouble_of_its_job_only() {
    let Some(server) = start(&[]) else { return };
    let store = open(&server.url(), "default");
    let steps = Steps::new();
    store.apply(&[register(), steps.claim("web-1")]).await.unwrap();
    let run = format!("onecron:default:{{nightly-sales}}:run:{}", steps.run.scheduled_for);
    server.command(&format!("HSET {run} state dreaming"));
    let other = Step::Register(registration(&JobName::new("other").unwrap()));
    let answers = store.apply(&[steps.read(), other]).await.unwrap();
    assert_eq!(answers[0], Answer::unreadable(0));
    assert_eq!(answers[1].verdict, Verdict::Registered { fresh: true, rescheduled: false });
}

#[tokio::test]
async fn the_probe_finds_unsafe_settings_of_a_real_server() {
    let Some(server) = start(&["--appendonly", "yes", "--appendfsync", "always"]) else { return };
    let store = open(&server.url(), "default");
    let probe = store.probe().await.unwrap();
    assert_eq!((probe.class, probe.findings), (Class::A, vec![]));
    assert!(probe.version.starts_with("redis "), "{}", probe.version);
    server.command("CONFIG SET appendfsync everysec");
    assert_eq!(store.probe().await.unwrap().class, Class::B);
    server.command("CONFIG SET maxmemory 100mb");
    server.command("CONFIG SET maxmemory-policy allkeys-lru");
    server.command("CONFIG SET appendonly no");
    let probe = store.probe().await.unwrap();
    let checks: Vec<&str> = probe.findings.iter().map(|finding| finding.check).collect();
    assert_eq!((probe.class, checks), (Class::C, vec!["eviction", "persistence"]));
}

#[tokio::test]
async fn a_replica_is_refused_before_anything_is_sent_to_it() {
    let Some(primary) = start(&[]) else { return };
    let port = primary.port.to_string();
    let Some(replica) = start(&["--replicaof", "127.0.0.1", &port]) else { return };
    let store = open(&replica.url(), "default");
    for error in [store.probe().await.unwrap_err(), store.apply(&[register()]).await.unwrap_err()] {
        assert_eq!(error.kind, ErrorKind::ReadOnly);
        let text = error.to_string();
        assert!(
            text.contains(&format!("a replica of 127.0.0.1:{port}; a replica takes no writes: use the p")),
            "{text}"
        );
    }
}

/// As in a failover: the connection stays, and what is behind it changes.
#[tokio::test]
async fn a_primary_that_becomes_a_replica_takes_nothing_and_says_why() {
    let Some(server) = start(&[]) else { return };
    let store = open(&server.url(), "default");
    let steps = Steps::new();
    store.apply(&[register()]).await.unwrap();
    server.command(&format!("REPLICAOF 127.0.0.1 {}", free_port()));
    for _ in 0..2 {
        let error = store.apply(&[steps.claim("web-1")]).await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::ReadOnly, "{error}");
    }
    assert_eq!(store.identity().await.unwrap_err().kind, ErrorKind::ReadOnly);
    server.command("REPLICAOF NO ONE");
    assert_eq!(verdict(&store, steps.claim("web-1")).await, Verdict::Unregistered, "it may have lost something");
}

/// A server that forgot everything refuses what it may have forgotten, once the job is registered again.
#[tokio::test]
async fn a_flushed_store_refuses_the_ticks_that_it_may_have_forgotten() {
    let Some(server) = start(&[]) else { return };
    let store = open(&server.url(), "default");
    let steps = Steps::new();
    store.apply(&[register(), steps.claim("web-1")]).await.unwrap();
    server.command("FLUSHALL");
    assert_eq!(verdict(&store, steps.claim("web-2")).await, Verdict::Unregistered);
    let mut again = registration(&job());
    again.skew_tolerance_ms = 2_000;
    assert_eq!(verdict(&store, Step::Register(again)).await, Verdict::Registered { fresh: true, rescheduled: false });
    assert_eq!(verdict(&store, steps.claim("web-2")).await, Verdict::Forgot);
}

/// The numbers in docs/stores.md. A batch is one round trip, whatever its size.
#[tokio::test]
async fn a_run_costs_as_many_commands_as_the_docs_say() {
    let Some(server) = start(&[]) else { return };
    let store = open(&server.url(), "default");
    let steps = Steps::new();
    store.apply(&[register()]).await.unwrap();
    let docs = include_str!("../../docs/stores.md");
    for (name, step) in [
        ("claim", steps.claim("web-1")),
        ("begin", steps.begin("web-1")),
        ("renew", steps.renew("web-1")),
        ("complete", steps.complete("web-1")),
        ("claim that is lost", steps.claim("web-2")),
    ] {
        server.command("CONFIG RESETSTAT");
        store.apply(&[step]).await.unwrap();
        let stats = server.command("INFO commandstats");
        let calls = |line: &str| Some(line.split_once("calls=")?.1.split_once(',')?.0.parse::<u32>().unwrap());
        let ours = stats.lines().filter(|line| !["config|", "_info", "_quit"].iter().any(|word| line.contains(word)));
        let count: u32 = ours.filter_map(calls).sum();
        let row = format!("| {name} | 1 | {count} |");
        assert!(docs.contains(&row), "{row} is not in docs/stores.md: {stats}");
    }
}
