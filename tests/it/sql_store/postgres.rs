//! What PostgreSQL does, and PgBouncer in front of it.

use super::*;
use crate::support::sql_server::Pooler;
use onecron::store::Class;

#[tokio::test]
async fn a_standby_is_refused_and_a_primary_is_found_among_hosts() {
    let Some(primary) = Alone::new(Kind::Postgres) else { return };
    let database = primary.make_database();
    let store = open(&primary.url(&database), "default");
    store.apply(&[register("job")]).await.unwrap();
    let before = store.identity().await.unwrap();
    let standby = primary.standby();
    let seen = || async {
        let findings = store.probe().await.unwrap().findings;
        findings.iter().any(|finding| finding.check == "replication")
    };
    crate::support::wait_until("the primary sees its standby", seen).await;
    let probe = store.probe().await.unwrap();
    let checks: Vec<&str> = probe.findings.iter().map(|finding| finding.check).collect();
    assert_eq!((probe.class, checks), (Class::C, vec!["fsync", "replication"]), "{:?}", probe.findings);

    let reader = open(&standby.url(&database), "default");
    let (kind, text) = fails_fast(&reader).await;
    assert_eq!(kind, ErrorKind::ReadOnly, "{text}");
    assert!(text.contains("is a standby and takes no writes: name the primary"), "{text}");
    assert_eq!(reader.jobs().await.unwrap_err().kind, ErrorKind::ReadOnly, "what it knows is older news");
    let both = format!("postgres://{database}@127.0.0.1:{},127.0.0.1:{}/postgres", standby.port, primary.port);
    let both = open(&both, "default");
    assert_eq!(verdict(&both, claim(&run("job", 1), "web-1")).await, Verdict::Won);

    let replayed =
        || async { standby.sql("SELECT count(*) FROM pg_stat_wal_receiver WHERE status = 'streaming'") == "1" };
    crate::support::wait_until("the standby follows", replayed).await;
    standby.promote();
    let store = open(&standby.url(&database), "default");
    let promoted = || async { store.identity().await.is_ok() };
    crate::support::wait_until("the standby is promoted", promoted).await;
    assert_ne!(store.identity().await.unwrap().server, before.server, "another timeline is another store");
    let answer = verdict(&store, claim(&run("job", 2), "web-1")).await;
    assert_eq!(answer, Verdict::Unregistered, "and takes no step before the job is registered again");
}

#[tokio::test]
async fn a_database_that_is_set_to_read_only_is_refused() {
    let Some(place) = Place::new(Kind::Postgres) else { return };
    place.server.sql(&format!("ALTER ROLE {} SET default_transaction_read_only = on", place.database));
    let (kind, text) = fails_fast(&place.open()).await;
    assert_eq!(kind, ErrorKind::ReadOnly, "{text}");
    assert!(text.contains("default_transaction_read_only"), "{text}");
}

/// A crash of such a server would take the last commits with it: ours are not written that way.
#[tokio::test]
async fn what_a_server_acknowledges_early_it_acknowledges_to_others() {
    let Some(place) = Place::new(Kind::Postgres) else { return };
    place.server.sql(&format!("ALTER ROLE {} SET synchronous_commit = off", place.database));
    let store = place.open();
    store.apply(&[register("job")]).await.unwrap();
    place.sql(
        "CREATE TABLE seen (setting text); \
         CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS \
         'BEGIN INSERT INTO seen VALUES (current_setting(''synchronous_commit'')); RETURN NEW; END'; \
         CREATE TRIGGER note AFTER INSERT ON onecron_run FOR EACH ROW EXECUTE FUNCTION note()",
    );
    assert_eq!(verdict(&store, claim(&run("job", 1), "web-1")).await, Verdict::Won);
    assert_eq!(place.sql("SELECT setting FROM seen"), "on");
    assert_eq!(place.sql("SHOW synchronous_commit"), "off", "so it is for others");
}

/// With one connection behind it that is thrown away after each transaction, nothing can be left in a session.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pooler_that_recycles_its_connections_is_not_noticed() {
    let Some(place) = Place::new(Kind::Postgres) else { return };
    let settings = "default_pool_size = 1\nserver_lifetime = 0\nserver_reset_query_always = 1";
    let Some(pooler) = Pooler::start(place.server.port, settings) else { return };
    let url = sql_server::url(Kind::PgBouncer, pooler.port, &place.database);
    let mut racers = JoinSet::new();
    for racer in 0..8 {
        let store = open(&url, "default");
        racers.spawn(async move {
            let who = format!("web-{racer}");
            verdict_at_last(&store, register("job")).await;
            let mut won = 0;
            for n in 1..=20 {
                won += usize::from(verdict_at_last(&store, claim(&run("job", n), &who)).await == Verdict::Won);
            }
            won
        });
    }
    assert_eq!(racers.join_all().await.into_iter().sum::<usize>(), 20, "each tick has one winner");
    let store = open(&url, "default");
    store.server_time().await.unwrap();
    pooler.admin("RECONNECT");
    assert_eq!(verdict_at_last(&store, claim(&run("job", 1), "web-x")).await, Verdict::Held);
}

/// What the docs say that the user needs.
#[tokio::test]
async fn the_documented_rights_are_enough_and_missing_ones_are_named() {
    let Some(place) = Place::new(Kind::Postgres) else { return };
    let owner = place.open();
    owner.apply(&[register("job")]).await.unwrap();
    let user = place.server.make_database();
    let schema = &place.database;
    let store = open(&place.server.url(&user), "default");
    let refused = async |path: &str, wanted: &str| {
        place.server.sql(&format!("ALTER ROLE {user} SET search_path = {path}"));
        let error = open(&place.server.url(&user), "default").jobs().await.unwrap_err();
        assert!(error.kind == ErrorKind::Misconfigured && error.to_string().contains(wanted), "{error}");
    };
    refused("nowhere", "set its search_path").await;
    let usage = format!("GRANT USAGE ON SCHEMA {schema} TO {user}");
    refused(&format!("\"Nowhere\", {schema}"), &usage).await;
    place.server.sql(&usage);
    let error = store.apply(&[register("job")]).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Misconfigured, "{error}");
    assert!(error.to_string().contains("all rights on the tables"), "{error}");
    let grant = "GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA";
    assert!(include_str!("../../../docs/stores.md").contains(grant), "the docs say so");
    place.server.sql(&format!("{grant} {schema} TO {user}; REVOKE UPDATE ON {schema}.onecron_run_event FROM {user}"));
    let run = run("job", 1);
    let batch = [register("job"), claim(&run, "web-1"), begin(&run, "web-1"), complete(&run, "web-1", Outcome::Failed)];
    assert_eq!(store.apply(&batch).await.unwrap()[3].verdict, Verdict::Recorded);
    store.retire(Duration::ZERO).await.unwrap();
    let checks: Vec<&str> = store.probe().await.unwrap().findings.iter().map(|finding| finding.check).collect();
    assert_eq!(checks, ["fsync"]);
    place.server.sql(&format!("REVOKE DELETE ON {schema}.onecron_run FROM {user}"));
    let findings = store.probe().await.unwrap().findings;
    assert!(findings[0].check == "rights" && findings[0].found.ends_with("onecron_run"), "{findings:?}");
}
