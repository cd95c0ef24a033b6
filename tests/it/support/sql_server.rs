//! Servers of SQL, and the pooler in front of one. One of each kind serves all tests of this process that do not stop it;
//! each test has a database of its own there.

use super::bench::Kind;
use super::bench::program;
use super::server::find_program;
use super::server::free_port;
use nix::sys::signal::Signal;
use nix::sys::signal::kill;
use nix::unistd::Pid;
use onecron::clock::Clock;
use onecron::clock::SystemClock;
use std::fs::File;
use std::ops::Deref;
use std::ops::DerefMut;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::path::PathBuf;
use std::process::Child;
use std::process::Command;
use std::process::Stdio;
use std::sync::Mutex;
use std::sync::OnceLock;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// How many databases the pooler lets in.
const DATABASES_MOST: usize = 2000;

/// Removes a folder, and kills the process whose id stands in a file there, when this process ends, in whatever way: then
/// its end of the pipe is closed.
struct Watch(Child);

impl Watch {
    fn over(folder: &Path, pid_file: &str) -> Self {
        let script = "cat >/dev/null; read -r pid <\"$1/$2\" && kill -9 \"$pid\"; sleep 0.2; rm -rf \"$1\"";
        let mut command = Command::new("sh");
        command.args(["-c", script, "sh"]).arg(folder).arg(pid_file);
        // A group of its own: Ctrl-C is for the tests, and this one acts when they have ended.
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
        Self(command.spawn().unwrap())
    }
}

/// A running server in a temporary folder.
pub struct SqlServer {
    kind: Kind,
    program: PathBuf,
    arguments: Vec<String>,
    folder: PathBuf,
    child: Child,
    watch: Option<Watch>,
    started_at: i64,
    pub port: u16,
}

impl SqlServer {
    /// Starts a server that does not wait for its disk, with further arguments; `None` where this machine lacks it.
    pub fn start(kind: Kind, arguments: &[&str]) -> Option<Self> {
        Self::start_after(kind, |_| arguments.iter().map(ToString::to_string).collect())
    }

    /// The same where its folder is prepared first, which gives the arguments.
    pub fn start_after(kind: Kind, prepare: impl FnOnce(&Path) -> Vec<String>) -> Option<Self> {
        program(kind)?;
        let folder = new_folder(kind);
        copy(template(kind), &folder.join("data"));
        let arguments = prepare(&folder);
        Some(Self::start_in(kind, folder, &arguments.iter().map(String::as_str).collect::<Vec<_>>()))
    }

    fn start_in(kind: Kind, folder: PathBuf, arguments: &[&str]) -> Self {
        let program = program(kind).unwrap();
        let arguments: Vec<String> = arguments.iter().map(|&argument| argument.into()).collect();
        let watch = Some(Watch::over(&folder, "data/postmaster.pid"));
        let port = free_port();
        let child = spawn(kind, (&program, &folder, port), &arguments);
        let started_at = SystemClock.now().wall.timestamp();
        let server = Self { kind, program, arguments, folder, child, watch, started_at, port };
        server.await_ready();
        server
    }

    /// A streaming standby of this PostgreSQL.
    pub fn standby(&self) -> Self {
        let folder = new_folder(self.kind);
        let mut command = as_owner(self.kind, &find_program("pg_basebackup").unwrap());
        command.args([
            "-h",
            "127.0.0.1",
            "-p",
            &self.port.to_string(),
            "-U",
            "postgres",
            "-R",
            "-X",
            "stream",
            "-c",
            "fast",
        ]);
        let made = command.arg("-D").arg(folder.join("data")).output().unwrap();
        assert!(made.status.success(), "{made:?}");
        Self::start_in(self.kind, folder, &[])
    }

    /// Makes this standby the primary.
    pub fn promote(&self) {
        self.sql("SELECT pg_promote()");
    }

    /// Kills the server, as a crash would.
    pub fn kill(&mut self) {
        if self.kind == Kind::MariaDb {
            // It tells its lives apart by the second of their start.
            crate::processes::until("the second is over", || SystemClock.now().wall.timestamp() > self.started_at);
        }
        self.stop_now();
    }

    fn stop_now(&mut self) {
        // A PostgreSQL that is killed leaves processes behind for a moment; told to quit, it leaves as little on disk.
        let signal = if self.kind == Kind::Postgres { Signal::SIGQUIT } else { Signal::SIGKILL };
        let _ = kill(Pid::from_raw(i32::try_from(self.child.id()).unwrap()), signal);
        let _ = self.child.wait();
    }

    /// Starts a killed server again, at the same port.
    pub fn start_again(&mut self) {
        self.child = spawn(self.kind, (&self.program, &self.folder, self.port), &self.arguments);
        self.started_at = SystemClock.now().wall.timestamp();
        self.await_ready();
    }

    /// Runs statements as the server's owner, in the database of all; what they print, without headings.
    pub fn sql(&self, sql: &str) -> String {
        self.sql_in(if self.kind == Kind::Postgres { "postgres" } else { "mysql" }, sql)
    }

    /// The same in one of the databases.
    pub fn sql_in(&self, database: &str, sql: &str) -> String {
        let asked = self.ask(database, sql);
        assert!(asked.status.success(), "{sql}: {asked:?}");
        String::from_utf8(asked.stdout).unwrap().trim_end().to_owned()
    }

    /// The same where it may fail.
    pub fn try_sql_in(&self, database: &str, sql: &str) -> bool {
        self.ask(database, sql).status.success()
    }

    fn ask(&self, database: &str, sql: &str) -> std::process::Output {
        let port = self.port.to_string();
        if self.kind == Kind::MariaDb {
            let mut command = Command::new("mariadb");
            command.args([
                "--no-defaults",
                "-h",
                "127.0.0.1",
                "-P",
                &port,
                "-u",
                "root",
                "-N",
                "-B",
                "-D",
                database,
                "-e",
                sql,
            ]);
            return command.output().unwrap();
        }
        let (user, database) = if database == "postgres" { ("postgres", "postgres") } else { (database, "postgres") };
        let mut command = Command::new("psql");
        command.args(["-X", "-q", "-t", "-A", "-v", "ON_ERROR_STOP=1", "-h", "127.0.0.1", "-p", &port]);
        command.args(["-U", user, "-d", database, "-c", sql]).output().unwrap()
    }

    /// Makes an empty database; what stands in a URL before and after the host and the port.
    pub fn make_database(&self) -> String {
        static MADE: AtomicUsize = AtomicUsize::new(0);
        let name = format!("case_{}", MADE.fetch_add(1, Ordering::SeqCst));
        if self.kind == Kind::MariaDb {
            self.sql(&format!("CREATE DATABASE {name}"));
        } else {
            // A schema and the user that has it: made in a moment, where a database takes long.
            self.sql(&format!(
                "CREATE ROLE {name} LOGIN; CREATE SCHEMA {name} AUTHORIZATION {name}; ALTER ROLE {name} SET search_path = {name}"
            ));
        }
        name
    }

    /// The URL of one of those.
    pub fn url(&self, database: &str) -> String {
        url(self.kind, self.port, database)
    }

    fn await_ready(&self) {
        let (sql, wanted) = match self.kind {
            Kind::MariaDb => ("SELECT @@datadir", self.folder.join("data/").display().to_string()),
            _ => ("SHOW data_directory", self.folder.join("data").display().to_string()),
        };
        for _ in 0..1500 {
            let asked = self.ask(if self.kind == Kind::Postgres { "postgres" } else { "mysql" }, sql);
            if String::from_utf8_lossy(&asked.stdout).trim_end() == wanted {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        panic!("the server did not start: {}", std::fs::read_to_string(self.folder.join("log")).unwrap_or_default());
    }
}

/// The URL of a database at a port: the server's, a pooler's or a proxy's.
pub fn url(kind: Kind, port: u16, database: &str) -> String {
    match kind {
        Kind::MariaDb => format!("mysql://root@127.0.0.1:{port}/{database}"),
        _ => format!("postgres://{database}@127.0.0.1:{port}/postgres"),
    }
}

impl Drop for SqlServer {
    fn drop(&mut self) {
        self.stop_now();
        if let Some(Watch(mut watch)) = self.watch.take() {
            let _ = watch.kill();
            let _ = watch.wait();
        }
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// The server that all tests share; `None` where this machine lacks it.
pub fn shared(kind: Kind) -> Option<&'static SqlServer> {
    static POSTGRES: OnceLock<Option<SqlServer>> = OnceLock::new();
    static MARIADB: OnceLock<Option<SqlServer>> = OnceLock::new();
    let (place, kind) = match kind {
        Kind::MariaDb => (&MARIADB, kind),
        _ => (&POSTGRES, Kind::Postgres),
    };
    place.get_or_init(|| SqlServer::start(kind, &[])).as_ref()
}

/// A server that one test at a time has, and may stop.
pub struct Alone(Option<SqlServer>);

/// Servers that no test has at the moment.
static FREE: Mutex<Vec<SqlServer>> = Mutex::new(Vec::new());

impl Alone {
    /// `None` where this machine lacks it.
    pub fn new(kind: Kind) -> Option<Self> {
        let kind = if kind == Kind::MariaDb { kind } else { Kind::Postgres };
        let mut free = FREE.lock().unwrap();
        if let Some(at) = free.iter().position(|server| server.kind == kind) {
            return Some(Self(Some(free.swap_remove(at))));
        }
        drop(free);
        Some(Self(Some(SqlServer::start(kind, &[])?)))
    }
}

impl Deref for Alone {
    type Target = SqlServer;

    fn deref(&self) -> &SqlServer {
        self.0.as_ref().unwrap()
    }
}

impl DerefMut for Alone {
    fn deref_mut(&mut self) -> &mut SqlServer {
        self.0.as_mut().unwrap()
    }
}

impl Drop for Alone {
    fn drop(&mut self) {
        // A test that failed may have left it stopped.
        if !std::thread::panicking() {
            FREE.lock().unwrap().extend(self.0.take());
        }
    }
}

/// A pooler in transaction mode in front of a PostgreSQL.
pub struct Pooler {
    child: Child,
    folder: PathBuf,
    watch: Option<Watch>,
    pub port: u16,
}

impl Pooler {
    /// Starts it; `None` where this machine lacks it.
    pub fn start(server_port: u16, settings: &str) -> Option<Self> {
        let program = program(Kind::PgBouncer)?;
        let (folder, port) = (new_folder(Kind::Postgres), free_port());
        let users: String = (0..DATABASES_MOST).map(|n| format!("\"case_{n}\" \"\"\n")).collect();
        std::fs::write(folder.join("users"), users + "\"postgres\" \"\"\n").unwrap();
        let place = folder.display();
        let text = format!(
            "[databases]\n* = host=127.0.0.1 port={server_port}\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\n\
             unix_socket_dir =\nauth_type = trust\nauth_file = {place}/users\npool_mode = transaction\n\
             max_client_conn = 2000\npidfile = {place}/pid\nlogfile = {place}/log\nadmin_users = postgres\n{settings}\n"
        );
        std::fs::write(folder.join("ini"), text).unwrap();
        let watch = Some(Watch::over(&folder, "pid"));
        let mut command = as_owner(Kind::Postgres, &program);
        let child = command.arg("-q").arg(folder.join("ini")).stdin(Stdio::null()).spawn().unwrap();
        let pooler = Self { child, folder, watch, port };
        crate::processes::until("the pooler answers", || !pooler.admin("SHOW VERSION").is_empty());
        Some(pooler)
    }

    /// Runs a command of its console.
    pub fn admin(&self, command: &str) -> String {
        let mut psql = Command::new("psql");
        psql.args(["-X", "-q", "-t", "-A", "-h", "127.0.0.1", "-p", &self.port.to_string(), "-U", "postgres"]);
        String::from_utf8(psql.args(["-d", "pgbouncer", "-c", command]).output().unwrap().stdout).unwrap()
    }
}

impl Drop for Pooler {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if let Some(Watch(mut watch)) = self.watch.take() {
            let _ = watch.kill();
            let _ = watch.wait();
        }
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// The pooler that all tests share. Each user has two connections behind it: transactions do meet other connections.
pub fn shared_pooler() -> Option<&'static Pooler> {
    static POOLER: OnceLock<Option<Pooler>> = OnceLock::new();
    let settings = "default_pool_size = 2\nserver_idle_timeout = 2";
    POOLER.get_or_init(|| Pooler::start(shared(Kind::Postgres)?.port, settings)).as_ref()
}

/// A folder that the server's user owns.
fn new_folder(kind: Kind) -> PathBuf {
    let folder = tempfile::tempdir().unwrap().keep();
    give(kind, &folder);
    folder
}

/// Gives a file or folder to the server's user.
pub fn give(kind: Kind, path: &Path) {
    if let (Kind::Postgres, Some((user, group))) = (kind, postgres_user()) {
        std::os::unix::fs::chown(path, Some(user), Some(group)).unwrap();
    }
}

fn is_root() -> bool {
    std::fs::metadata("/proc/self").unwrap().uid() == 0
}

/// PostgreSQL and PgBouncer do not run as root: as the user of Debian's package then.
fn postgres_user() -> Option<(u32, u32)> {
    if !is_root() {
        return None;
    }
    let users = std::fs::read_to_string("/etc/passwd").unwrap();
    let line = users.lines().find(|line| line.starts_with("postgres:"))?;
    let mut parts = line.split(':').skip(2).map(|part| part.parse().unwrap());
    Some((parts.next()?, parts.next()?))
}

fn as_owner(kind: Kind, program: &Path) -> Command {
    let mut command = Command::new(program);
    command.current_dir("/");
    if let (Kind::Postgres, Some((user, group))) = (kind, postgres_user()) {
        command.uid(user).gid(group);
    }
    command
}

/// A data folder as it is made once for each process: the making takes seconds.
fn template(kind: Kind) -> &'static Path {
    static POSTGRES: OnceLock<(PathBuf, Watch)> = OnceLock::new();
    static MARIADB: OnceLock<(PathBuf, Watch)> = OnceLock::new();
    let place = if kind == Kind::MariaDb { &MARIADB } else { &POSTGRES };
    let (folder, _) = place.get_or_init(|| {
        let folder = new_folder(kind);
        let watch = Watch::over(&folder, "no-process");
        let data = folder.join("data");
        let made = if kind == Kind::MariaDb {
            let mut command = Command::new("mariadb-install-db");
            command.args(["--no-defaults", "--auth-root-authentication-method=normal", "--skip-test-db"]);
            if is_root() {
                command.arg("--user=root");
            }
            command.arg(format!("--datadir={}", data.display())).output()
        } else {
            let mut command = as_owner(kind, &find_program("initdb").unwrap());
            command.args(["-A", "trust", "-U", "postgres", "--no-sync", "-E", "UTF8", "--locale=C", "-D"]);
            command.arg(&data).output()
        };
        let made = made.unwrap();
        assert!(made.status.success(), "{made:?}");
        (folder, watch)
    });
    folder
}

fn copy(template: &Path, data: &Path) {
    let copied = Command::new("cp").arg("-a").arg(template.join("data")).arg(data).status().unwrap();
    assert!(copied.success());
}

fn spawn(kind: Kind, (program, folder, port): (&Path, &Path, u16), arguments: &[String]) -> Child {
    let log = File::options().create(true).append(true).open(folder.join("log")).unwrap();
    let (mut command, data) = (as_owner(kind, program), folder.join("data"));
    if kind == Kind::MariaDb {
        command.args(["--no-defaults", "--bind-address=127.0.0.1", "--skip-log-bin", "--innodb-buffer-pool-size=32M"]);
        command.args([
            "--innodb-flush-log-at-trx-commit=2",
            "--innodb-flush-method=nosync",
            "--sync-frm=0",
            &format!("--port={port}"),
            "--max-connections=300",
        ]);
        command.arg(format!("--datadir={}", data.display())).arg(format!("--socket={}/socket", folder.display()));
        command.arg(format!("--pid-file={}/postmaster.pid", data.display()));
        if is_root() {
            command.arg("--user=root");
        }
    } else {
        command.arg("-D").arg(&data).args([
            "-p",
            &port.to_string(),
            "-c",
            "listen_addresses=127.0.0.1",
            "-c",
            "fsync=off",
        ]);
        command.args(["-c", "unix_socket_directories=", "-c", "shared_buffers=32MB", "-c", "max_connections=300"]);
    }
    let command = command.args(arguments).stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log);
    command.spawn().unwrap()
}
