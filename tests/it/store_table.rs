//! docs/stores.md says side by side what each store is worth, asks for and costs: here with the program and with servers.

mod servers;

use crate::support::bench::Bench;
use crate::support::bench::Kind;
use crate::support::bench::open;
use crate::support::scene::claim_of;
use crate::support::scene::ending;
use crate::support::scene::registration;
use crate::support::scene::replica;
use crate::support::sql_server;
use crate::support::sql_server::SqlServer;
use onecron::clock::Clock;
use onecron::clock::SystemClock;
use onecron::config;
use onecron::config::Source;
use onecron::job::JobName;
use onecron::job::Namespace;
use onecron::job::Outcome;
use onecron::job::RunKey;
use onecron::job::Step;
use onecron::job::Tick;
use onecron::job::Verdict;
use onecron::store::OpenError;
use regex::Regex;
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

const DOCS: &str = include_str!("../../docs/stores.md");

/// A row of the table: its cells, and the words that are marked as code in each.
struct Row {
    cells: Vec<String>,
    words: Vec<BTreeSet<String>>,
}

const SCHEMES: usize = 0;
const CLASSES: usize = 1;
const SURVIVES: usize = 2;
const LEASE: usize = 3;
const NEEDED: usize = 4;
const FINDINGS: usize = 5;
const COST: usize = 6;

fn rows() -> Vec<Row> {
    let (_, section) = DOCS.split_once("\n## Side by side\n").unwrap();
    let section = section.split_once("\n## ").map_or(section, |(section, _)| section);
    let rows = section.lines().filter(|line| line.starts_with("| `"));
    rows.map(|line| {
        let cells: Vec<String> = line.trim_matches('|').split(" | ").map(|cell| cell.trim().to_owned()).collect();
        assert_eq!(cells.len(), COST + 1, "{line}");
        let marked = |cell: &String| cell.split('`').skip(1).step_by(2).map(str::to_owned).collect();
        Row { words: cells.iter().map(marked).collect(), cells }
    })
    .collect()
}

fn row_of(scheme: &str) -> Row {
    rows().into_iter().find(|row| row.words[SCHEMES].contains(scheme)).unwrap_or_else(|| panic!("no row has {scheme}"))
}

/// What a driver is written in, without its tests.
fn code_of(scheme: &str) -> String {
    let place = match scheme.trim_end_matches("+sentinel").trim_end_matches("+cluster") {
        "redis" | "rediss" => "redis",
        "postgres" | "postgresql" => "postgres",
        "mysql" | "mariadb" => "mysql",
        "etcd" | "etcds" => "documents/etcd.rs",
        "consul" | "consuls" => "documents/consul.rs",
        "memcached" => "documents/memcached.rs",
        "memory" => "memory.rs",
        other => other,
    };
    let place = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/store").join(place);
    let files = if place.is_dir() {
        std::fs::read_dir(place).unwrap().map(|entry| entry.unwrap().path()).filter(|path| path.is_file()).collect()
    } else {
        vec![place]
    };
    let read = |path: &std::path::PathBuf| {
        let text = std::fs::read_to_string(path).unwrap();
        text.split("#[cfg(test)]").next().unwrap().to_owned()
    };
    files.iter().map(read).collect()
}

#[test]
fn all_schemes_that_are_opened_have_a_row_and_no_others() {
    let exists = |scheme: &str| {
        let opened =
            onecron::store::open(&format!("{scheme}://x"), &Namespace::new("default").unwrap(), Arc::new(SystemClock));
        !matches!(opened, Err(OpenError::Unknown { .. } | OpenError::Strange | OpenError::NoScheme { .. }))
    };
    let code = include_str!("../../src/store/open.rs");
    let words = Regex::new(r#""([a-z+]+)""#).unwrap();
    let opened: BTreeSet<String> =
        words.captures_iter(code).map(|found| found[1].to_owned()).filter(|word| exists(word)).collect();
    assert!(opened.contains("redis+cluster") && !opened.contains("valkey"), "{opened:?}");
    let told: BTreeSet<String> = rows().into_iter().flat_map(|row| row.words[SCHEMES].clone()).collect();
    assert_eq!(told, opened);
}

#[test]
fn the_findings_are_those_that_the_drivers_have() {
    let check = Regex::new(r#"(?:check: |find\(\s*)"([a-z_]+)""#).unwrap();
    let named =
        |code: &str| -> BTreeSet<String> { check.captures_iter(code).map(|found| found[1].to_owned()).collect() };
    // Sentinels and clusters share the driver of a single server.
    let of_redis = ["redis", "redis+sentinel", "redis+cluster"].map(|scheme| row_of(scheme).words[FINDINGS].clone());
    assert_eq!(of_redis.into_iter().flatten().collect::<BTreeSet<String>>(), named(&code_of("redis")));
    for scheme in ["postgres", "mysql", "sqlite", "etcd", "consul", "memcached", "memory"] {
        assert_eq!(row_of(scheme).words[FINDINGS], named(&code_of(scheme)), "{scheme}");
    }
}

/// What is needed is looked at, or told where something else was found.
#[test]
fn what_is_needed_is_looked_at() {
    for row in rows() {
        let code = code_of(row.words[SCHEMES].first().unwrap());
        for setting in &row.words[NEEDED] {
            let name = setting.split(' ').next().unwrap();
            assert!(code.contains(name), "{name} of {}", row.cells[SCHEMES]);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn servers_have_a_class_and_findings_that_their_row_has() {
    for kind in [
        Kind::Memory,
        Kind::Sqlite,
        Kind::Redis,
        Kind::Valkey,
        Kind::RedisTls,
        Kind::RedisSentinel,
        Kind::RedisCluster,
        Kind::Postgres,
        Kind::PgBouncer,
        Kind::MariaDb,
        Kind::Etcd,
        Kind::Consul,
        Kind::Memcached,
    ] {
        let Some(bench) = Bench::start(kind) else { continue };
        let store = bench.open("side-by-side");
        let probe = store.probe().await.unwrap();
        let row = row_of(store.url().split_once(':').unwrap().0);
        assert!(row.cells[CLASSES].split(", ").any(|class| class == probe.class.to_string()), "{kind:?}: {probe:?}");
        let unknown = probe.findings.iter().find(|finding| !row.words[FINDINGS].contains(finding.check));
        assert_eq!(unknown, None, "{kind:?}");
    }
}

#[test]
fn the_shortest_lease_is_taken_and_a_shorter_one_is_refused() {
    let is_taken = |lease: &str| {
        let job = "jobs:\n  - name: a\n    schedule: \"@daily\"\n    command: \"true\"\n";
        let text = format!("scheduler:\n  lockLease: {lease}\n{job}");
        config::load(&[Source::new("jobs.yaml", text.into_bytes())], SystemClock.now().wall).is_ok()
    };
    for row in rows() {
        let lease = row.words[LEASE].first().unwrap();
        let seconds: u32 = lease.strip_suffix('s').unwrap().parse().unwrap();
        assert!(is_taken(lease) && !is_taken(&format!("{}ms", seconds * 1000 - 1)), "{lease}");
    }
}

fn cost_of(scheme: &str) -> u32 {
    row_of(scheme).cells[COST].split(' ').next().unwrap().parse().unwrap()
}

/// The numbers of a row of another table, by cell; those of one cell added up.
fn numbers(step: &str, columns: usize) -> Vec<u32> {
    let rows = DOCS.lines().filter(|line| line.starts_with(&format!("| {step} |")));
    let cells = rows.map(|line| line.trim_matches('|').split('|').skip(1).collect::<Vec<_>>());
    let cells = cells.into_iter().find(|cells| cells.len() == columns).unwrap();
    let sum = |cell: &&str| cell.split(' ').filter_map(|word| word.parse::<u32>().ok()).sum();
    cells.iter().map(sum).collect()
}

/// A job, and what three replicas do about a run of it that one of them has: who, what, and the answer.
fn steps() -> (Step, Vec<(usize, Step, Verdict)>) {
    let name = JobName::new("job").unwrap();
    let register = Step::Register(registration(&name));
    let run = RunKey::new(name, Tick::from_seconds(SystemClock.now().wall.timestamp() / 60 * 60 - 60));
    let claim = |who| Step::Claim(claim_of(&run, who));
    let owner = replica("web-1");
    let begin = Step::Begin { run: run.clone(), owner: owner.clone(), start: 0, request: "1".into() };
    let ending = ending(Outcome::Succeeded, "output");
    let complete = Step::Complete { run: run.clone(), owner, start: 1, ending };
    let steps = vec![
        (0, claim("web-1"), Verdict::Won),
        (1, claim("web-2"), Verdict::Held),
        (2, claim("web-3"), Verdict::Held),
        (0, begin, Verdict::Begun),
        (0, complete, Verdict::Recorded),
    ];
    (register, steps)
}

/// The tables of single steps are compared with servers where those stores are tested; what `WAIT` costs, in `servers`.
#[test]
fn a_run_costs_what_its_steps_cost() {
    let [claim, begin, complete, lost] =
        ["claim", "begin", "complete", "claim that is lost"].map(|step| numbers(step, 2)[1]);
    assert_eq!(cost_of("redis"), claim + begin + complete + 2 * lost);
    let [both, complete, lost] = ["claim, begin, renew", "complete", "claim that is lost"].map(|step| numbers(step, 3));
    for (at, scheme) in ["etcd", "consul", "memcached"].into_iter().enumerate() {
        assert_eq!(cost_of(scheme), 2 * both[at] + complete[at] + 2 * lost[at], "{scheme}");
    }
    // The sentence below the table of Redis says it again.
    let again = format!("costs 3 + 2 requests and {} commands", cost_of("redis"));
    assert!(DOCS.contains(&again), "{again}");
    assert_eq!(row_of("memory").cells[COST], "nothing");
}

/// Each step is a transaction; what is written of those ends in the log with a mark.
#[tokio::test]
async fn a_run_costs_as_many_transactions_as_the_table_says() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite:{}/onecron.db", folder.path().display());
    let stores = [0; 3].map(|_| open(&url, "default"));
    let (register, steps) = steps();
    stores[0].apply(&[register]).await.unwrap();
    let written = || {
        let log = std::fs::read(folder.path().join("onecron.db-wal")).unwrap();
        let page = u32::from_be_bytes(log[8..12].try_into().unwrap()) as usize;
        let ends = |frame: &&[u8]| frame[4..8] != [0; 4];
        log[32..].chunks_exact(24 + page).filter(ends).count()
    };
    let (before, count) = (written(), steps.len());
    for (who, step, wanted) in steps {
        assert_eq!(stores[who].apply(&[step]).await.unwrap()[0].verdict, wanted);
    }
    let told = format!("{count} transactions, {} of them written", written() - before);
    assert_eq!(row_of("sqlite").cells[COST], told);
}

/// How many statements a server of SQL has executed for a database's user, or for all.
fn statements(server: &SqlServer, kind: Kind, database: &str) -> u32 {
    let sql = if kind == Kind::MariaDb {
        "SELECT variable_value FROM information_schema.global_status WHERE variable_name = 'QUESTIONS'".to_owned()
    } else {
        format!("SELECT sum(calls) FROM pg_stat_statements WHERE userid = '{database}'::regrole")
    };
    server.sql(&sql).parse().unwrap()
}

#[tokio::test]
async fn a_run_costs_as_many_statements_as_the_table_says() {
    for (kind, scheme) in [(Kind::Postgres, "postgres"), (Kind::MariaDb, "mysql")] {
        let counting: &[&str] = if kind == Kind::MariaDb {
            &[]
        } else {
            let Some(shared) = sql_server::shared(kind) else { continue };
            let known = "SELECT count(*) FROM pg_available_extensions WHERE name = 'pg_stat_statements'";
            if shared.sql(known) == "0" {
                println!("SKIPPED: no pg_stat_statements on this machine");
                continue;
            }
            &["-c", "shared_preload_libraries=pg_stat_statements"]
        };
        let Some(server) = SqlServer::start(kind, counting) else { continue };
        if kind == Kind::Postgres {
            server.sql("CREATE EXTENSION pg_stat_statements");
        }
        let database = server.make_database();
        let stores = [0; 3].map(|_| open(&server.url(&database), "default"));
        let (register, steps) = steps();
        stores[0].apply(&[register]).await.unwrap();
        for store in &stores {
            store.server_time().await.unwrap();
        }
        // What asking costs by itself.
        let before = statements(&server, kind, &database);
        let start = statements(&server, kind, &database);
        let asking = start - before;
        for (who, step, wanted) in steps {
            assert_eq!(stores[who].apply(&[step]).await.unwrap()[0].verdict, wanted, "{kind:?}");
        }
        assert_eq!(statements(&server, kind, &database) - start - asking, cost_of(scheme), "{kind:?}");
    }
}
