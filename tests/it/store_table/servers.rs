//! What a row says is tried on servers: set up as it says, with each setting left out in turn, and killed.

use super::CLASSES;
use super::FINDINGS;
use super::NEEDED;
use super::SCHEMES;
use super::SURVIVES;
use super::cost_of;
use super::row_of;
use super::rows;
use super::steps;
use crate::support::bench::Kind;
use crate::support::bench::open;
use crate::support::bench::program;
use crate::support::documents::ConsulCluster;
use crate::support::documents::DocumentServer;
use crate::support::documents::EtcdCluster;
use crate::support::redis_modes;
use crate::support::redis_modes::Deployment;
use crate::support::scene::registration;
use crate::support::server::RedisServer;
use crate::support::sql_server::SqlServer;
use crate::support::wait_until;
use onecron::job::Step;
use onecron::job::Verdict;
use onecron::store::Class;
use onecron::store::Probe;
use std::collections::BTreeSet;
use tokio::task::block_in_place;

type Setting = (String, String);

/// The settings that a row names with their values.
fn needed(scheme: &str) -> Vec<Setting> {
    let words = row_of(scheme).words[NEEDED].clone();
    let pairs = words.iter().filter_map(|word| word.split_once(' '));
    pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

/// What stands there where nobody has read the docs.
fn contrary(value: &str) -> &'static str {
    match value {
        "yes" => "no",
        "on" => "off",
        "ON" => "OFF",
        "always" => "everysec",
        "noeviction" => "allkeys-lru",
        "1" => "0",
        "5000" => "60000",
        other => panic!("what is worse than `{other}`?"),
    }
}

/// How many of something a row names, such as `two replicas`.
fn count_of(scheme: &str, what: &str) -> usize {
    let row = row_of(scheme);
    let mut words = row.cells[NEEDED].split([' ', ',']).filter(|word| *word != "or" && *word != "5");
    let at = words.clone().position(|word| word == what).unwrap_or_else(|| panic!("no {what}: {scheme}"));
    match words.nth(at - 1).unwrap() {
        "two" => 2,
        "3" | "three" => 3,
        other => panic!("{other} {what} of {scheme}"),
    }
}

/// As the row says, the class is the best that it names and nothing is found; without any one setting, something is.
async fn are_needed(
    scheme: &str,
    settings: &[Setting],
    mut probe: impl AsyncFnMut(&[Setting]) -> Probe,
) -> BTreeSet<String> {
    let best = probe(settings).await;
    assert_eq!(row_of(scheme).cells[CLASSES].split(", ").next(), Some(best.class.to_string().as_str()), "{best:?}");
    assert_eq!(best.findings, [], "{scheme}");
    let mut classes = BTreeSet::from([best.class.to_string()]);
    for at in 0..settings.len() {
        let mut worse = settings.to_vec();
        worse[at].1 = contrary(&worse[at].1).into();
        let probe = probe(&worse).await;
        assert!(probe.class != best.class || !probe.findings.is_empty(), "{scheme} with {:?}", worse[at]);
        let unknown = probe.findings.iter().find(|finding| !row_of(scheme).words[FINDINGS].contains(finding.check));
        assert_eq!(unknown, None, "{scheme}");
        classes.insert(probe.class.to_string());
    }
    classes
}

fn are_all(scheme: &str, seen: &BTreeSet<String>) {
    let told: BTreeSet<String> = row_of(scheme).cells[CLASSES].split(", ").map(str::to_owned).collect();
    assert_eq!(*seen, told, "{scheme}");
}

/// Where replicas confirm, there is one `WAIT` for each request of a run.
async fn waits(deployment: &Deployment, alone: u32) -> u32 {
    let store = open(&deployment.url, "default");
    let (register, steps) = steps();
    // Sentinels may not have told of the server yet.
    wait_until("a job is registered", async || store.apply(std::slice::from_ref(&register)).await.is_ok()).await;
    deployment.servers[0].command("CONFIG RESETSTAT");
    for (_, step, wanted) in steps {
        assert_eq!(store.apply(&[step]).await.unwrap()[0].verdict, wanted);
    }
    let stats = deployment.servers[0].command("INFO commandstats");
    let line = stats.lines().find_map(|line| line.strip_prefix("cmdstat_wait:calls=")).unwrap();
    alone + line.split(',').next().unwrap().parse::<u32>().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn redis_needs_what_its_row_says_alone_behind_sentinels_and_as_a_cluster() {
    let Some(program) = program(Kind::Redis) else { return };
    for scheme in ["redis", "redis+sentinel", "redis+cluster"] {
        let replicas = || count_of(scheme, "replicas");
        let deployment = block_in_place(|| match scheme {
            "redis+sentinel" => redis_modes::sentinels(replicas(), count_of(scheme, "Sentinels"), |port| port),
            "redis+cluster" => redis_modes::cluster(1, replicas(), &mut |_| None),
            _ => {
                let server = RedisServer::start(&program, &[]);
                Some(Deployment::of(server.url(), server))
            }
        });
        let deployment = deployment.unwrap();
        // A policy matters where there is a limit.
        let set = |name: &str, value: &str| {
            for server in &deployment.servers {
                assert_eq!(server.command(&format!("CONFIG SET {name} {value}")), "+OK\r\n", "{name}");
            }
        };
        set("maxmemory", "1gb");
        let store = open(&deployment.url, "default");
        let settings = needed(scheme);
        let seen = are_needed(scheme, &settings, async |settings| {
            settings.iter().for_each(|(name, value)| set(name, value));
            store.probe().await.unwrap()
        });
        are_all(scheme, &seen.await);
        if scheme != "redis" {
            assert_eq!(waits(&deployment, cost_of("redis")).await, cost_of(scheme), "{scheme}");
        }
    }
}

fn start_sql(kind: Kind, settings: &[Setting]) -> Option<SqlServer> {
    let words: Vec<String> = match kind {
        Kind::MariaDb => settings.iter().map(|(name, value)| format!("--{name}={value}")).collect(),
        _ => settings.iter().flat_map(|(name, value)| ["-c".to_owned(), format!("{name}={value}")]).collect(),
    };
    let mut words: Vec<&str> = words.iter().map(String::as_str).collect();
    if kind == Kind::MariaDb {
        words.push("--log-bin=log");
    }
    block_in_place(|| SqlServer::start(kind, &words))
}

/// What an account that lacks rights makes of each of them, as seen in `store_rights.rs` and `sql_store/postgres.rs`.
const WITHOUT_RIGHTS: Class = Class::C;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn servers_of_sql_need_what_their_rows_say() {
    for (kind, scheme) in [(Kind::Postgres, "postgres"), (Kind::MariaDb, "mysql")] {
        if program(kind).is_none() {
            continue;
        }
        let with_standbys = "synchronous_commit";
        let settings: Vec<Setting> = needed(scheme).into_iter().filter(|(name, _)| name != with_standbys).collect();
        let seen = are_needed(scheme, &settings, async |settings| {
            let server = start_sql(kind, settings).unwrap();
            let store = open(&server.url(&server.make_database()), "default");
            store.probe().await.unwrap()
        });
        let mut seen = seen.await;
        seen.insert(WITHOUT_RIGHTS.to_string());
        are_all(scheme, &seen);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_postgres_with_standbys_needs_what_its_row_says_in_addition() {
    if program(Kind::Postgres).is_none() {
        return;
    }
    let row = row_of("postgres");
    assert!(row.cells[NEEDED].contains("with standbys `synchronous_standby_names` and `synchronous_commit on`"));
    let primary = start_sql(Kind::Postgres, &needed("postgres")[..2]).unwrap();
    let database = primary.make_database();
    let store = open(&primary.url(&database), "default");
    let _standby = block_in_place(|| primary.standby());
    let checks = async |names: &str, commit: &str| {
        primary.sql(&format!("ALTER SYSTEM SET synchronous_standby_names = '{names}'"));
        primary.sql(&format!("ALTER ROLE {database} SET synchronous_commit = {commit}"));
        primary.sql("SELECT pg_reload_conf()");
        let probe = open(&primary.url(&database), "default").probe().await.unwrap();
        let checks: Vec<&str> = probe.findings.iter().map(|finding| finding.check).collect();
        (probe.class, checks.join(" "))
    };
    let seen = async || store.probe().await.unwrap().findings.iter().any(|finding| finding.check == "replication");
    wait_until("the primary sees its standby", seen).await;
    for (names, commit, class, found) in
        [("*", "on", Class::A, ""), ("*", "local", Class::B, "synchronous_commit"), ("", "on", Class::B, "replication")]
    {
        // The server reads its settings anew some time after it was told to.
        let is_so = async || checks(names, commit).await == (class, found.to_owned());
        wait_until(&format!("{names:?} and {commit} are {class}: {found}"), is_so).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stores_of_documents_need_what_their_rows_say() {
    let look = async |url: &str| {
        let probe = open(url, "default").probe().await.unwrap();
        let checks: Vec<String> = probe.findings.iter().map(|finding| finding.check.to_owned()).collect();
        (probe.class.to_string(), checks.join(" "))
    };
    let (is, are) = (|class: &str, checks: &str| (class.to_owned(), checks.to_owned()), are_all);
    let classes = |seen: &[&(String, String)]| seen.iter().map(|(class, _)| class.clone()).collect();
    if let Some(cluster) = block_in_place(EtcdCluster::start) {
        assert_eq!(cluster.members.len(), count_of("etcd", "members"));
        let one = DocumentServer::start(Kind::Etcd).unwrap();
        let (best, worse) = (look(&cluster.url()).await, look(&one.url()).await);
        assert_eq!((&best, &worse), (&is("A", ""), &is("B", "members")));
        are("etcd", &classes(&[&best, &worse, &is(&WITHOUT_RIGHTS.to_string(), "rights")]));
    }
    if let Some(cluster) = block_in_place(ConsulCluster::start) {
        assert_eq!(cluster.servers.len(), count_of("consul", "servers"));
        let [one, dev] = [DocumentServer::durable_consul(), DocumentServer::start(Kind::Consul)].map(Option::unwrap);
        let seen = (look(&cluster.url()).await, look(&one.url()).await, look(&dev.url()).await);
        assert_eq!(seen, (is("A", ""), is("B", "members"), is("C", "members persistence")));
        are("consul", &classes(&[&seen.0, &seen.1, &seen.2]));
    }
    if let (Some(server), Some(evicting)) =
        (DocumentServer::start(Kind::Memcached), DocumentServer::evicting_memcached())
    {
        let (best, worse) = (look(&server.url()).await, look(&evicting.url()).await);
        assert_eq!((&best, &worse), (&is("C", "persistence"), &is("C", "persistence eviction")));
        are("memcached", &classes(&[&best, &worse]));
    }
}

/// Something that can be killed, and comes back with what it has on disk.
enum Server {
    Redis(RedisServer),
    Sql(SqlServer),
    Documents(DocumentServer),
    /// A file, which nobody serves.
    File(tempfile::TempDir),
}

impl Server {
    /// As its row says.
    fn start(scheme: &str) -> Option<Self> {
        let words = || needed(scheme).into_iter().flat_map(|(name, value)| [format!("--{name}"), value]);
        let documents = |kind| DocumentServer::start(kind).map(Self::Documents);
        match scheme {
            "redis" => {
                let words: Vec<String> = words().collect();
                let words: Vec<&str> = words.iter().map(String::as_str).collect();
                Some(Self::Redis(RedisServer::start(&program(Kind::Redis)?, &words)))
            }
            "postgres" => start_sql(Kind::Postgres, &needed(scheme)).map(Self::Sql),
            "mysql" => start_sql(Kind::MariaDb, &needed(scheme)).map(Self::Sql),
            "sqlite" => Some(Self::File(tempfile::tempdir().unwrap())),
            "etcd" => documents(Kind::Etcd),
            "consul" => DocumentServer::durable_consul().map(Self::Documents),
            "memcached" => documents(Kind::Memcached),
            other => panic!("{other} is not known here"),
        }
    }

    fn url(&self) -> String {
        match self {
            Self::Redis(server) => server.url(),
            Self::Sql(server) => server.url(&server.make_database()),
            Self::Documents(server) => server.url(),
            Self::File(folder) => format!("sqlite:{}/onecron.db", folder.path().display()),
        }
    }

    fn restart(&mut self) {
        match self {
            Self::Redis(server) => {
                server.kill();
                server.start_again();
            }
            Self::Sql(server) => {
                server.kill();
                server.start_again();
            }
            Self::Documents(server) => {
                server.kill();
                server.start_again();
            }
            Self::File(_) => {}
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_server_knows_a_claim_afterwards_where_its_row_says_so_and_none_is_won_twice() {
    for row in rows() {
        let scheme = row.words[SCHEMES].first().unwrap().as_str();
        // Of more than one server, tests/it/failover.rs kills some; memory ends with its process.
        if scheme.contains('+') || scheme == "memory" {
            continue;
        }
        let scheme = if scheme == "mariadb" { "mysql" } else { scheme };
        let Some(mut server) = block_in_place(|| Server::start(scheme)) else { continue };
        let url = server.url();
        let (register, steps) = steps();
        let store = open(&url, "default");
        store.apply(std::slice::from_ref(&register)).await.unwrap();
        let [(_, claim, wanted), (_, again, _)] = &steps[..2] else { panic!("a claim, and one that is lost") };
        assert_eq!(store.apply(std::slice::from_ref(claim)).await.unwrap()[0].verdict, *wanted);
        block_in_place(|| server.restart());
        let store = open(&url, "default");
        let mut verdict = store.apply(std::slice::from_ref(again)).await.unwrap()[0].verdict;
        if verdict == Verdict::Unregistered {
            verdict = store.apply(&[register_without_slack(&register), again.clone()]).await.unwrap()[1].verdict;
        }
        let survives = row.cells[SURVIVES].contains("restarts");
        assert_eq!(verdict, if survives { Verdict::Held } else { Verdict::Forgot }, "{scheme}");
    }
}

/// As a daemon registers: ticks up to now may have been decided without the store knowing.
fn register_without_slack(register: &Step) -> Step {
    let mut again = registration(register.job());
    again.skew_tolerance_ms = 2_000;
    Step::Register(again)
}
