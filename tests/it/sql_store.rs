//! What only servers of SQL do: they deadlock, fail over, sit behind poolers, refuse writes, keep an audit trail.

mod audit;
mod postgres;
mod tables;
mod tls;

use crate::support::bench::Kind;
use crate::support::bench::open;
use crate::support::daemon::Launch;
use crate::support::proxy::Proxy;
use crate::support::scene::claim_of;
use crate::support::scene::ending;
use crate::support::scene::registration;
use crate::support::scene::replica;
use crate::support::sql_server;
use crate::support::sql_server::Alone;
use crate::support::sql_server::SqlServer;
use crate::support::wait_until;
use onecron::clock::Clock;
use onecron::clock::SystemClock;
use onecron::job::Decision;
use onecron::job::Expect;
use onecron::job::JobName;
use onecron::job::Outcome;
use onecron::job::RunKey;
use onecron::job::Step;
use onecron::job::Tick;
use onecron::job::Verdict;
use onecron::store::ErrorKind;
use onecron::store::Store;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;

const KINDS: [Kind; 2] = [Kind::Postgres, Kind::MariaDb];

/// A database on the server that all tests share, and the handle of one replica.
struct Place {
    kind: Kind,
    server: &'static SqlServer,
    database: String,
}

impl Place {
    fn new(kind: Kind) -> Option<Self> {
        let server = sql_server::shared(kind)?;
        Some(Self { kind, server, database: server.make_database() })
    }

    fn all() -> Vec<Self> {
        KINDS.into_iter().filter_map(Self::new).collect()
    }

    fn open(&self) -> Arc<dyn Store> {
        open(&self.server.url(&self.database), "default")
    }

    fn sql(&self, sql: &str) -> String {
        self.server.sql_in(&self.database, sql)
    }
}

fn job(name: &str) -> JobName {
    JobName::new(name).unwrap()
}

/// So many minutes after two hours ago.
fn run(name: &str, n: i64) -> RunKey {
    let start = SystemClock.now().wall.timestamp() / 3600 * 3600 - 7200;
    RunKey::new(job(name), Tick::from_seconds(start + n * 60))
}

fn register(name: &str) -> Step {
    Step::Register(registration(&job(name)))
}

fn claim(run: &RunKey, who: &str) -> Step {
    Step::Claim(claim_of(run, who))
}

fn begin(run: &RunKey, who: &str) -> Step {
    Step::Begin { run: run.clone(), owner: replica(who), start: 0, request: "1".into() }
}

fn complete(run: &RunKey, who: &str, outcome: Outcome) -> Step {
    Step::Complete { run: run.clone(), owner: replica(who), start: 1, ending: ending(outcome, "output") }
}

async fn verdict(store: &Arc<dyn Store>, step: Step) -> Verdict {
    store.apply(&[step]).await.unwrap()[0].verdict
}

/// The same, sent as a replica does: until there is an answer.
async fn verdict_at_last(store: &Arc<dyn Store>, step: Step) -> Verdict {
    for _ in 0..20 {
        if let Ok(answers) = store.apply(std::slice::from_ref(&step)).await {
            return answers[0].verdict;
        }
    }
    verdict(store, step).await
}

impl Place {
    /// Waits until somebody's transaction has the row of a job.
    async fn until_held(&self, name: &str) {
        let sql = format!("SELECT job FROM onecron_job WHERE job = '{name}' FOR UPDATE NOWAIT");
        let held = || async { !self.server.try_sql_in(&self.database, &sql) };
        wait_until("somebody has the row", held).await;
    }
}

/// How a request failed, and that it took less than five seconds.
async fn fails_fast(store: &Arc<dyn Store>) -> (ErrorKind, String) {
    let before = SystemClock.now().boot;
    let error = store.server_time().await.unwrap_err();
    let took = SystemClock.now().boot.since(before);
    assert!(took < Duration::from_secs(5), "{took:?}");
    (error.kind, error.to_string())
}

/// The request arrives and is applied, its reply is lost: the resent one must get the same verdict.
#[tokio::test]
async fn a_lost_reply_is_no_verdict_and_the_resent_step_gets_the_same() {
    for place in Place::all() {
        let proxy = Proxy::start(place.server.port).await;
        let through = open(&sql_server::url(place.kind, proxy.port, &place.database), "default");
        let (direct, run) = (place.open(), run("job", 1));
        direct.apply(&[register("job")]).await.unwrap();
        for (step, wanted) in [
            (claim(&run, "web-1"), Verdict::Won),
            (begin(&run, "web-1"), Verdict::Begun),
            (complete(&run, "web-1", Outcome::Succeeded), Verdict::Recorded),
        ] {
            through.server_time().await.unwrap();
            proxy.swallow_after(if place.kind == Kind::MariaDb { b"\x03COMMIT" } else { b"; COMMIT" });
            let error = through.apply(std::slice::from_ref(&step)).await.unwrap_err();
            assert_eq!(error.kind, ErrorKind::MaybeApplied, "{error}");
            proxy.swallow_replies(false);
            let applied = direct.apply(&[Step::Read { run: run.clone() }]).await.unwrap();
            assert_eq!(verdict(&through, step).await, wanted, "{:?}", place.kind);
            let again = direct.apply(&[Step::Read { run: run.clone() }]).await.unwrap();
            assert_eq!((&again[0].run, &again[0].job), (&applied[0].run, &applied[0].job), "it was applied once");
        }
    }
}

/// A server that stops to answer before the commit has applied nothing, and nobody waits for long.
#[tokio::test]
async fn a_server_that_falls_silent_fails_fast_and_has_applied_nothing() {
    for place in Place::all() {
        let proxy = Proxy::start(place.server.port).await;
        let through = open(&sql_server::url(place.kind, proxy.port, &place.database), "default");
        through.apply(&[register("job")]).await.unwrap();
        proxy.swallow_replies(true);
        fails_fast(&through).await;
        fails_fast(&through).await;
        proxy.swallow_replies(false);
        assert_eq!(verdict(&through, claim(&run("job", 1), "web-1")).await, Verdict::Won);
    }
}

#[tokio::test]
async fn a_port_that_accepts_and_stays_silent_fails_fast_for_all_who_ask() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    for kind in KINDS {
        let store = open(&sql_server::url(kind, listener.local_addr().unwrap().port(), "case"), "default");
        for (kind, text) in futures_util::future::join_all((0..20).map(|_| fails_fast(&store))).await {
            assert_eq!(kind, ErrorKind::NotSent, "{text}");
        }
    }
}

/// Servers and balancers cut connections that were idle. Nobody has to get up for that.
#[tokio::test]
async fn a_connection_that_was_closed_while_idle_is_no_outage() {
    for place in Place::all() {
        let store = place.open();
        store.server_time().await.unwrap();
        for _ in 0..3 {
            place.server.sql(&match place.kind {
                Kind::MariaDb => {
                    let find = format!("SELECT id FROM information_schema.processlist WHERE db = '{}'", place.database);
                    format!("KILL {}", place.server.sql(&find))
                }
                _ => format!(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = '{}'",
                    place.database
                ),
            });
            store.server_time().await.unwrap();
        }
    }
}

/// Replicas send while the server crashes and comes back: what was acknowledged is there, and each tick has one owner.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_killed_in_a_burst_keeps_what_it_acknowledged() {
    for kind in KINDS {
        let Some(mut server) = Alone::new(kind) else { continue };
        let url = server.url(&server.make_database());
        open(&url, "default").apply(&[register("job")]).await.unwrap();
        let mut racers = JoinSet::new();
        for racer in 0..4 {
            let store = open(&url, "default");
            racers.spawn(async move {
                let (who, mut won) = (format!("web-{racer}"), Vec::new());
                for n in 1..=100 {
                    match store.apply(&[claim(&run("job", n), &who)]).await {
                        Ok(answers) if answers[0].verdict == Verdict::Won => won.push(n),
                        // After the restart nothing is claimed before the job is registered again.
                        Ok(_) => {}
                        Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
                    }
                }
                (who, won)
            });
        }
        let store = open(&url, "default");
        let begun = || async { store.apply(&[Step::Read { run: run("job", 5) }]).await.unwrap()[0].run.is_some() };
        wait_until("the burst is going", begun).await;
        let server = tokio::task::spawn_blocking(move || {
            server.kill();
            server.start_again();
            server
        });
        let _server = server.await.unwrap();
        let results = racers.join_all().await;
        let store = open(&url, "default");
        let mut wins = 0;
        for (who, won) in &results {
            for n in won {
                let read = Step::Read { run: run("job", *n) };
                let answer = store.apply(&[register("job"), read]).await.unwrap().remove(1);
                assert_eq!(answer.run.unwrap().owner, replica(who), "{kind:?}: an acknowledged claim is kept");
                wins += 1;
            }
        }
        assert!(wins > 0, "{kind:?}");
    }
}

/// Batches about the same jobs, in other orders, from many replicas at once: nobody waits for nobody, and each run has
/// one owner.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn batches_in_any_order_do_not_stand_in_each_others_way() {
    for place in Place::all() {
        let names: Vec<String> = (0..40).map(|n| format!("job-{n}")).collect();
        let mut racers = JoinSet::new();
        for racer in 0..8 {
            let (store, mut names) = (place.open(), names.clone());
            racers.spawn(async move {
                // All at once also set up the tables and register the jobs.
                names.rotate_left(racer * 5);
                if racer % 2 == 0 {
                    names.reverse();
                }
                let registering: Vec<Step> = names.iter().map(|name| register(name)).collect();
                store.apply(&registering).await.unwrap();
                let who = format!("web-{racer}");
                let mut won = 0;
                for tick in 1..=5 {
                    let steps: Vec<Step> = names.iter().map(|name| claim(&run(name, tick), &who)).collect();
                    let answers = store.apply(&steps).await.unwrap();
                    won += answers.iter().filter(|answer| answer.verdict == Verdict::Won).count();
                }
                won
            });
        }
        assert_eq!(racers.join_all().await.into_iter().sum::<usize>(), 200, "{:?}", place.kind);
    }
}

/// Somebody else's transactions can stand in the way of ours in any order. Then the server ends one of the two: that
/// which found out, or that which changed less. It is ours.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deadlock_is_tried_again() {
    for place in Place::all() {
        let store = place.open();
        store.apply(&[register("a"), register("b")]).await.unwrap();
        let sleep = if place.kind == Kind::MariaDb { "DO sleep(1)" } else { "SELECT pg_sleep(1)" };
        let change = |name: &str| format!("UPDATE onecron_job SET failures = failures + 1 WHERE job = '{name}'");
        let theirs = format!("BEGIN; {}; {sleep}; {}; COMMIT", change("b"), change("a"));
        let (server, database) = (place.server, place.database.clone());
        let other = tokio::task::spawn_blocking(move || server.try_sql_in(&database, &theirs));
        place.until_held("b").await;
        let steps = [Step::Read { run: run("a", 1) }, Step::Read { run: run("b", 1) }];
        let answers = store.apply(&steps).await.unwrap();
        assert!(other.await.unwrap(), "{:?}: theirs was not the one that was ended", place.kind);
        let failures: Vec<u32> = answers.iter().map(|answer| answer.job.as_ref().unwrap().failures).collect();
        assert_eq!(failures, [1, 1], "{:?}: and ours came after it", place.kind);
    }
}

#[tokio::test]
async fn rows_that_somebody_holds_are_waited_for_and_then_not_sent_to() {
    for place in Place::all() {
        let store = place.open();
        store.apply(&[register("job")]).await.unwrap();
        let sleep = if place.kind == Kind::MariaDb { "DO sleep(4)" } else { "SELECT pg_sleep(4)" };
        let (server, database) = (place.server, place.database.clone());
        let sql = format!("BEGIN; UPDATE onecron_job SET failures = 0; {sleep}; COMMIT");
        let other = tokio::task::spawn_blocking(move || server.try_sql_in(&database, &sql));
        place.until_held("job").await;
        let before = SystemClock.now().boot;
        let error = store.apply(&[claim(&run("job", 1), "web-1")]).await.unwrap_err();
        let took = SystemClock.now().boot.since(before);
        assert_eq!(error.kind, ErrorKind::NotSent, "{error}");
        assert!(error.to_string().contains("held the rows for 2 s"), "{error}");
        assert!(took < Duration::from_millis(3900), "{took:?}");
        other.await.unwrap();
        assert_eq!(verdict(&store, claim(&run("job", 1), "web-1")).await, Verdict::Won);
    }
}

#[tokio::test]
async fn an_account_that_is_not_let_in_and_a_database_that_is_not_there_are_said() {
    for place in Place::all() {
        let url = place.server.url(&place.database);
        let url = format!("{}/nowhere", url.rsplit_once('/').unwrap().0);
        let error = open(&url, "default").server_time().await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::Misconfigured, "{error}");
        assert!(error.to_string().contains("CREATE DATABASE"), "{error}");
    }
    let Some(place) = Place::new(Kind::MariaDb) else { return };
    let url = format!("mysql://root:s3cret@127.0.0.1:{}/{}", place.server.port, place.database);
    let error = open(&url, "default").server_time().await.unwrap_err();
    let text = error.to_string();
    assert!(error.kind == ErrorKind::Misconfigured && text.contains("user and password"), "{text}");
    assert!(!text.contains("s3cret"), "{text}");
}

#[tokio::test]
async fn a_server_that_has_no_connection_left_says_what_to_raise() {
    for place in Place::all() {
        let user = format!("{}_few", place.database);
        // Setting tables up takes two connections.
        place.open().server_time().await.unwrap();
        let (database, url) = (&place.database, place.server.url(&place.database));
        let url = if place.kind == Kind::MariaDb {
            place.server.sql(&format!("CREATE USER {user} WITH MAX_USER_CONNECTIONS 1"));
            place.server.sql(&format!("GRANT ALL ON {database}.* TO {user}"));
            url.replace("root@", &format!("{user}@"))
        } else {
            place.server.sql(&format!("ALTER ROLE {database} CONNECTION LIMIT 1"));
            url
        };
        let first = open(&url, "default");
        wait_until("one has the connection", || async { first.server_time().await.is_ok() }).await;
        let error = open(&url, "default").server_time().await.unwrap_err();
        let text = error.to_string();
        assert_eq!(error.kind, ErrorKind::NotSent, "{text}");
        assert!(text.contains("no connection left") && text.contains("max_connections"), "{:?}: {text}", place.kind);
    }
}

/// It can be a primary that is about to be replaced, or one that will be written to again: nobody gives up, and a command
/// says what it is.
#[tokio::test]
async fn a_server_that_takes_no_writes_is_read_only_and_used_again_when_it_takes_some() {
    for server_kind in KINDS {
        let Some(server) = Alone::new(server_kind) else { continue };
        let url = server.url(&server.make_database());
        let store = open(&url, "default");
        store.apply(&[register("job")]).await.unwrap();
        set_read_only(&server, server_kind, true);
        wait_until("it takes no writes", async || store.server_time().await.is_err()).await;
        let (kind, text) = fails_fast(&store).await;
        assert!(kind == ErrorKind::ReadOnly && text.contains("set to read only"), "{text}");
        let run = run("job", 1);
        let shown = run.to_string();
        for words in [vec!["trigger", "job"], vec!["cancel", &shown]] {
            let output = Launch::new(&words).arg("--store").arg(&url).output();
            let said = String::from_utf8(output.stderr).unwrap();
            assert!(output.status.code() == Some(69) && said.contains("set to read only"), "{said}");
        }
        set_read_only(&server, server_kind, false);
        wait_until("it takes writes", async || store.server_time().await.is_ok()).await;
        assert_eq!(verdict_at_last(&store, claim(&run, "web-1")).await, Verdict::Won, "{server_kind:?}");
    }
}

/// For the whole server, and for sessions that are open.
fn set_read_only(server: &SqlServer, kind: Kind, on: bool) {
    if kind == Kind::MariaDb {
        server.sql(&format!("SET GLOBAL read_only = {}", u8::from(on)));
        return;
    }
    let word = if on { "on" } else { "off" };
    server.sql(&format!("ALTER SYSTEM SET default_transaction_read_only = {word}"));
    server.sql("SELECT pg_reload_conf()");
}

/// What somebody else's settlement looks like.
fn settle(run: &RunKey, seen: onecron::job::Seen, decision: Decision) -> Step {
    let expect = Expect::Unchanged(seen);
    Step::Settle { run: run.clone(), owner: replica("web-9"), previous: 0, expect, decision }
}
