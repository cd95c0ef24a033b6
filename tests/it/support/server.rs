//! Redis and Valkey servers of our own, killed when dropped.

use nix::sys::signal::Signal;
use nix::sys::signal::kill;
use nix::unistd::Pid;
use std::fs::File;
use std::io::Read;
use std::io::Write;
use std::net::TcpListener;
use std::net::TcpStream;
use std::path::Path;
use std::path::PathBuf;
use std::process::Child;
use std::process::Command;
use std::process::Stdio;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tempfile::TempDir;

/// Where a program is, if this machine has it.
pub fn find_program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut folders: Vec<PathBuf> = std::env::split_paths(&path).collect();
    folders.extend(std::env::home_dir().map(|home| home.join(".cache/servers/usr/bin")));
    // Where Debian has servers that are not for everybody's hands; the newest PostgreSQL first.
    folders.push("/usr/sbin".into());
    let mut versions: Vec<PathBuf> = std::fs::read_dir("/usr/lib/postgresql")
        .into_iter()
        .flatten()
        .filter_map(|entry| Some(entry.ok()?.path().join("bin")))
        .collect();
    versions.sort_unstable();
    folders.extend(versions.into_iter().rev());
    folders.into_iter().map(|folder| folder.join(name)).find(|program| program.is_file())
}

/// Where ports are taken from: below those that the system gives to outgoing connections, also with the 10000 on top that
/// a node of a Redis cluster adds for the others.
const PORTS: std::ops::Range<u16> = 12_000..22_000;

/// A port that nobody listens on, and that stays so while a server is about to start, or starts again: one that the system
/// chooses may be that of somebody's connection a moment later.
pub fn free_port() -> u16 {
    static ASKED: AtomicU32 = AtomicU32::new(0);
    let count = u32::from(PORTS.end - PORTS.start);
    for _ in 0..count {
        // Other processes with tests begin elsewhere.
        let next = std::process::id().wrapping_mul(97).wrapping_add(ASKED.fetch_add(1, Ordering::Relaxed)) % count;
        let port = PORTS.start + u16::try_from(next).unwrap();
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
    panic!("no port of {PORTS:?} is free");
}

/// A running server in a temporary folder.
pub struct RedisServer {
    program: PathBuf,
    arguments: Vec<String>,
    child: Child,
    folder: TempDir,
    pub port: u16,
}

impl RedisServer {
    /// Starts a server that keeps nothing, with further arguments.
    pub fn start(program: &Path, arguments: &[&str]) -> Self {
        let (folder, port) = (tempfile::tempdir().unwrap(), free_port());
        let arguments: Vec<String> = arguments.iter().map(|&argument| argument.into()).collect();
        let child = spawn(program, &folder, port, &arguments);
        let server = Self { program: program.into(), arguments, child, folder, port };
        server.await_ready();
        server
    }

    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// Kills the server, as a crash would.
    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Starts a killed server again, at the same port.
    pub fn start_again(&mut self) {
        self.child = spawn(&self.program, &self.folder, self.port, &self.arguments);
        self.await_ready();
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.child.id().try_into().unwrap()), signal).unwrap();
    }

    /// Sends a command and gives back the raw reply.
    pub fn command(&self, line: &str) -> String {
        ask(self.port, line).unwrap()
    }

    /// Ready means: the answer comes from the process that we started, not from one that had the port before.
    fn await_ready(&self) {
        let wanted = format!("process_id:{}\r", self.child.id());
        for _ in 0..1000 {
            match ask(self.port, "INFO") {
                Some(reply) if reply.contains("NOAUTH") => return,
                Some(reply) if reply.contains(&wanted) && reply.contains("loading:0\r") => return,
                _ => std::thread::sleep(Duration::from_millis(10)),
            }
        }
        let log = std::fs::read_to_string(self.folder.path().join("log")).unwrap_or_default();
        panic!("the server did not start: {log}");
    }
}

impl Drop for RedisServer {
    fn drop(&mut self) {
        // By the handle of the process that we started; already gone is fine.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn spawn(program: &Path, folder: &TempDir, port: u16, arguments: &[String]) -> Child {
    let log = File::create(folder.path().join("log")).unwrap();
    Command::new(program)
        .args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir"])
        .arg(folder.path())
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(log.try_clone().unwrap())
        .stderr(log)
        .spawn()
        .unwrap()
}

/// One command in the inline form, one reply as it comes.
pub fn ask(port: u16, line: &str) -> Option<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(5))).ok()?;
    // QUIT ends the stream after the reply, so that all of it can be read.
    stream.write_all(format!("{line}\r\nQUIT\r\n").as_bytes()).ok()?;
    let (mut reply, mut part) = (Vec::new(), [0; 65536]);
    loop {
        match stream.read(&mut part).ok()? {
            0 => {
                let reply = String::from_utf8(reply).ok()?;
                return Some(reply.strip_suffix("+OK\r\n").unwrap_or(&reply).to_owned());
            }
            count => reply.extend(&part[..count]),
        }
        // Sentinels do not know it, and say so.
        let end = reply.windows(REFUSED.len()).rposition(|window| window == REFUSED);
        if let Some(end) = end {
            reply.truncate(end);
            return String::from_utf8(reply).ok();
        }
    }
}

const REFUSED: &[u8] = b"-ERR unknown command 'QUIT'";
