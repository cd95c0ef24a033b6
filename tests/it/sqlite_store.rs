//! What only files do: they are missing, locked, replaced, or something else.

use crate::support::bench::open;
use crate::support::scene::claim_of;
use crate::support::scene::registration;
use onecron::clock::Clock;
use onecron::clock::SystemClock;
use onecron::job::Answer;
use onecron::job::JobName;
use onecron::job::RunKey;
use onecron::job::Step;
use onecron::job::Tick;
use onecron::job::Verdict;
use onecron::store::Class;
use onecron::store::ErrorKind;
use onecron::store::Store;
use sqlx::AssertSqlSafe;
use sqlx::Connection;
use sqlx::SqliteConnection;
use sqlx::sqlite::SqliteConnectOptions;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;
use tokio::task::JoinSet;

struct File {
    folder: TempDir,
}

impl File {
    fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    fn path(&self) -> std::path::PathBuf {
        self.folder.path().join("onecron.db")
    }

    fn open(&self) -> Arc<dyn Store> {
        open_file(&self.path())
    }

    /// A connection as `sqlite3` makes it.
    async fn raw(&self) -> SqliteConnection {
        let options = SqliteConnectOptions::new().filename(self.path()).create_if_missing(true);
        SqliteConnection::connect_with(&options).await.unwrap()
    }
}

fn open_file(path: &Path) -> Arc<dyn Store> {
    open(&format!("sqlite:{}", path.display()), "default")
}

fn job() -> JobName {
    JobName::new("nightly-sales").unwrap()
}

fn claim(who: &str) -> Step {
    let seconds = SystemClock.now().wall.timestamp() / 3600 * 3600 - 3600;
    Step::Claim(claim_of(&RunKey::new(job(), Tick::from_seconds(seconds)), who))
}

fn register() -> Step {
    Step::Register(registration(&job()))
}

async fn verdict(store: &Arc<dyn Store>, step: Step) -> Verdict {
    store.apply(&[step]).await.unwrap()[0].verdict
}

async fn execute(connection: &mut SqliteConnection, sql: &'static str) {
    sqlx::raw_sql(sql).execute(connection).await.unwrap();
}

#[tokio::test]
async fn a_missing_folder_is_named_and_the_store_works_once_it_is_there() {
    let file = File::new();
    let folder = file.folder.path().join("deep");
    let store = open_file(&folder.join("onecron.db"));
    let error = store.server_time().await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::NotSent);
    assert!(error.to_string().contains("deep`: No such file or directory: make it"), "{error}");
    std::fs::create_dir(&folder).unwrap();
    store.server_time().await.unwrap();
    assert!(folder.join("onecron.db").is_file());
}

#[tokio::test]
async fn a_file_that_is_no_database_is_refused_and_left_as_it_is() {
    let file = File::new();
    let text = "not a database, but long enough to be taken for one ".repeat(100);
    std::fs::write(file.path(), &text).unwrap();
    let error = file.open().server_time().await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Misconfigured, "{error}");
    assert!(error.to_string().contains("no intact SQLite database"), "{error}");
    assert_eq!(std::fs::read_to_string(file.path()).unwrap(), text);
}

#[tokio::test]
async fn a_file_that_lacks_a_table_is_refused_and_says_what_to_do() {
    for dropped in ["DROP TABLE run", "DROP TABLE job", "DROP TABLE history", "DROP TABLE replica", "DROP TABLE file"] {
        let file = File::new();
        file.open().apply(&[register()]).await.unwrap();
        execute(&mut file.raw().await, dropped).await;
        let store = file.open();
        let answers = [
            store.apply(&[register(), claim("web-1")]).await.map(drop),
            store.history(&job(), 9).await.map(drop),
            store.meet(None, &[]).await.map(drop),
        ];
        let error = answers.into_iter().find_map(Result::err).unwrap();
        assert_eq!(error.kind, ErrorKind::Misconfigured, "{dropped}: {error}");
        assert!(error.to_string().contains("move the file away"), "{dropped}: {error}");
    }
}

#[tokio::test]
async fn a_folder_is_no_file() {
    let file = File::new();
    let error = open_file(file.folder.path()).server_time().await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Misconfigured);
    assert!(error.to_string().contains("is a folder: name a file in it"), "{error}");
}

/// SQLite says of those that the disk is broken, or full.
#[tokio::test]
async fn a_pipe_or_a_device_is_no_file() {
    let file = File::new();
    nix::unistd::mkfifo(&file.path(), nix::sys::stat::Mode::S_IRWXU).unwrap();
    for path in [file.path().as_path(), Path::new("/dev/full"), Path::new("/dev/null")] {
        let error = open_file(path).server_time().await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::Misconfigured, "{error}");
        assert!(error.to_string().contains("is not a regular file"), "{error}");
    }
}

#[tokio::test]
async fn the_database_of_another_program_is_refused() {
    let file = File::new();
    execute(&mut file.raw().await, "CREATE TABLE theirs (x); PRAGMA user_version = 7").await;
    let error = file.open().apply(&[register()]).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Misconfigured);
    assert!(error.to_string().contains("another program"), "{error}");
}

#[tokio::test]
async fn a_locked_database_is_waited_for_and_then_not_sent_to() {
    let file = File::new();
    let store = file.open();
    store.apply(&[register()]).await.unwrap();
    let mut other = file.raw().await;
    execute(&mut other, "BEGIN IMMEDIATE").await;
    let clock = SystemClock;
    let before = clock.now().boot;
    let error = store.apply(&[claim("web-1")]).await.unwrap_err();
    let took = clock.now().boot.since(before);
    assert_eq!(error.kind, ErrorKind::NotSent, "{error}");
    assert!(took >= Duration::from_millis(1900) && took < Duration::from_secs(5), "{took:?}");
    execute(&mut other, "ROLLBACK").await;
    assert_eq!(verdict(&store, claim("web-1")).await, Verdict::Won);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_may_set_up_the_same_new_file_at_once() {
    let file = File::new();
    let mut tasks = JoinSet::new();
    for _ in 0..8 {
        let store = file.open();
        tasks.spawn(async move { store.apply(&[register()]).await.unwrap()[0].verdict });
    }
    let verdicts = tasks.join_all().await;
    assert_eq!(
        verdicts.iter().filter(|v| **v == Verdict::Registered { fresh: true, rescheduled: false }).count(),
        1,
        "{verdicts:?}"
    );
}

/// If somebody removes the file, replicas that still write to the old one would not see the claims in the new one.
#[tokio::test]
async fn a_file_that_was_replaced_is_noticed() {
    let file = File::new();
    let (old, new) = (file.open(), file.open());
    old.apply(&[register(), claim("web-1")]).await.unwrap();
    for name in ["onecron.db", "onecron.db-wal", "onecron.db-shm"] {
        let _ = std::fs::remove_file(file.folder.path().join(name));
    }
    new.apply(&[register()]).await.unwrap();
    assert_eq!(verdict(&new, claim("web-2")).await, Verdict::Won, "with a past of its own, in this test");
    assert_eq!(verdict(&old, claim("web-1")).await, Verdict::Held);
}

#[tokio::test]
async fn tables_of_a_newer_form_are_refused_and_additions_are_left_alone() {
    let file = File::new();
    let store = file.open();
    store.apply(&[register(), claim("web-1")]).await.unwrap();
    let mut raw = file.raw().await;
    let additions = "ALTER TABLE job ADD COLUMN colour TEXT; ALTER TABLE run ADD COLUMN colour TEXT; \
                     UPDATE job SET colour = 'blue'; UPDATE run SET colour = 'blue'; PRAGMA user_version = 1900";
    execute(&mut raw, additions).await;
    let again = file.open();
    again.apply(&[register(), claim("web-1")]).await.unwrap();
    store.apply(&[register()]).await.unwrap();
    let colours: Vec<String> = sqlx::query_scalar("SELECT colour FROM job UNION ALL SELECT colour FROM run")
        .fetch_all(&mut raw)
        .await
        .unwrap();
    assert_eq!(colours, ["blue", "blue"]);
    execute(&mut raw, "PRAGMA user_version = 2000").await;
    let error = file.open().apply(&[register()]).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Misconfigured);
    assert!(error.to_string().contains("a newer onecron made them"), "{error}");
}

#[tokio::test]
async fn tables_of_an_older_version_are_brought_up_to_date_with_what_is_in_them() {
    let file = File::new();
    let mut raw = file.raw().await;
    execute(&mut raw, include_str!("../../src/store/sqlite/schema/1000.sql")).await;
    let seconds = SystemClock.now().wall.timestamp() / 3600 * 3600 - 3600;
    let tick = Tick::from_seconds(seconds);
    let rows = format!(
        "INSERT INTO job (namespace, job, format, revision, schedule, zone, since, decided_through) \
         VALUES ('default', 'nightly-sales', 1, 7, '* * * * *', 'Europe/Berlin', 0, 0); \
         INSERT INTO run (namespace, job, scheduled_for, format, state, owner, start, number) \
         VALUES ('default', 'nightly-sales', '{tick}', 1, 'begun', 'web-9-1', 1, 3); PRAGMA user_version = 1000"
    );
    sqlx::raw_sql(AssertSqlSafe(rows)).execute(&mut raw).await.unwrap();
    // Two at once: the second finds the work done.
    let (first, second) = (file.open(), file.open());
    let (one, two) = (vec![register()], vec![claim("web-1")]);
    let (registered, claimed) = tokio::join!(first.apply(&one), second.apply(&two));
    assert_eq!(registered.unwrap()[0].verdict, Verdict::Registered { fresh: false, rescheduled: false });
    let run = claimed.unwrap()[0].run.clone().unwrap();
    assert_eq!((run.owner.as_str(), run.start, run.delay_ms), ("web-9-1", 1, 0));
}

#[tokio::test]
async fn a_record_of_a_newer_form_is_not_touched() {
    let file = File::new();
    let store = file.open();
    store.apply(&[register(), claim("web-1")]).await.unwrap();
    let mut raw = file.raw().await;
    execute(&mut raw, "UPDATE run SET format = 2").await;
    let unreadable = Answer::unreadable(2);
    assert_eq!(store.apply(&[register(), claim("web-1")]).await.unwrap(), [unreadable.clone(), unreadable.clone()]);
    execute(&mut raw, "UPDATE job SET format = 2").await;
    let other = Step::Register(registration(&JobName::new("other").unwrap()));
    let answers = store.apply(&[register(), other, claim("web-1")]).await.unwrap();
    assert_eq!((&answers[0], &answers[2]), (&unreadable, &unreadable));
    assert_eq!(answers[1].verdict, Verdict::Registered { fresh: true, rescheduled: false });
    let jobs: Vec<JobName> = store.jobs().await.unwrap().into_iter().map(|(name, _)| name).collect();
    assert_eq!(jobs, [JobName::new("other").unwrap()], "those that can be read");
    let sql = "SELECT revision FROM job WHERE job <> 'other'";
    let revision: i64 = sqlx::query_scalar(sql).fetch_one(&mut raw).await.unwrap();
    assert_eq!(revision, 2, "left as it was");
    execute(&mut raw, "UPDATE job SET format = 1; UPDATE run SET format = 1, state = 'dreaming'").await;
    assert_eq!(store.apply(&[claim("web-1")]).await.unwrap(), [Answer::unreadable(0)], "an unknown word is no other");
}

/// A request that is dropped half-way must not leave the lock behind.
#[tokio::test]
async fn a_dropped_request_leaves_no_lock() {
    let file = File::new();
    let (store, other) = (file.open(), file.open());
    store.apply(&[register()]).await.unwrap();
    let names: Vec<JobName> = (0..400).map(|n| JobName::new(&format!("job-{n}")).unwrap()).collect();
    let steps: Vec<Step> = names.iter().map(|name| Step::Register(registration(name))).collect();
    let dropped = tokio::time::timeout(Duration::from_millis(5), store.apply(&steps)).await;
    assert!(dropped.is_err(), "400 registrations take longer");
    assert_eq!(verdict(&other, claim("web-1")).await, Verdict::Won);
    assert_eq!(verdict(&store, claim("web-2")).await, Verdict::Held);
    let jobs = store.jobs().await.unwrap().len();
    assert!(jobs == 1 || jobs == 401, "all or nothing: {jobs}");
}

#[tokio::test]
async fn the_probe_reads_the_settings_from_the_database() {
    let file = File::new();
    let probe = file.open().probe().await.unwrap();
    assert_eq!((probe.class, probe.findings), (Class::A, vec![]));
    assert!(probe.version.starts_with("sqlite 3."), "{}", probe.version);
}

#[tokio::test]
async fn a_person_can_read_the_rows() {
    let file = File::new();
    file.open().apply(&[register(), claim("web-1")]).await.unwrap();
    let sql = "SELECT state || ' ' || owner || ' ' || typeof(claimed_at) || ' ' || typeof(outcome) FROM run";
    let row: String = sqlx::query_scalar(sql).fetch_one(&mut file.raw().await).await.unwrap();
    assert_eq!(row, "claimed web-1-1 integer null");
}
