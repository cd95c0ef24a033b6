//! Servers of etcd, Consul and memcached. Most cases share one server, each with namespaces of its own; whoever stops,
//! empties or restarts one has one to itself.

use super::bench::Kind;
use super::bench::program;
use super::server::free_port;
use super::web::Authority;
use nix::sys::signal::Signal;
use nix::sys::signal::kill;
use nix::unistd::Pid;
use std::fs::File;
use std::io::Read;
use std::io::Write;
use std::net::TcpStream;
use std::process::Child;
use std::process::Command;
use std::process::Stdio;
use std::sync::OnceLock;
use std::time::Duration;
use tempfile::TempDir;

/// A running server in a temporary folder.
pub struct DocumentServer {
    pub kind: Kind,
    command: Vec<String>,
    child: Child,
    folder: TempDir,
    pub port: u16,
}

/// The server that the tests of this process share. It ends with the process: a shell waits for the end of its input.
pub fn shared(kind: Kind) -> Option<&'static DocumentServer> {
    static SHARED: [OnceLock<Option<DocumentServer>>; 3] = [const { OnceLock::new() }; 3];
    let place = match kind {
        Kind::Etcd => 0,
        Kind::Consul => 1,
        _ => 2,
    };
    let start = || {
        let (folder, port) = (tempfile::tempdir().unwrap(), free_port());
        let script = r#"folder=$1; shift; "$@" & cat; kill -9 $!; wait; rm -rf "$folder""#;
        let shell = ["sh", "-c", script, "sh", folder.path().to_str()?].map(str::to_owned);
        let command = shell.into_iter().chain(command_of(kind, port, &folder)?).collect();
        Some(DocumentServer::spawn(kind, command, (folder, port)))
    };
    SHARED[place].get_or_init(start).as_ref()
}

/// A server that keeps its data over a restart, where its kind can.
fn command_of(kind: Kind, port: u16, folder: &TempDir) -> Option<Vec<String>> {
    let program = program(kind)?.display().to_string();
    let folder = folder.path().display();
    let (peer, serf) = (free_port(), free_port());
    let line = match kind {
        Kind::Etcd => format!(
            "--name t --data-dir {folder}/data --listen-client-urls http://127.0.0.1:{port} --advertise-client-urls \
             http://127.0.0.1:{port} --listen-peer-urls http://127.0.0.1:{peer} --initial-advertise-peer-urls \
             http://127.0.0.1:{peer} --initial-cluster t=http://127.0.0.1:{peer} --unsafe-no-fsync"
        ),
        // Many replicas have one address here, and Consul's default is 200 connections from each.
        Kind::Consul => format!(
            "agent -hcl=limits{{http_max_conns_per_client=5000}} -dev -bind=127.0.0.1 -client=127.0.0.1 -http-port={port} -dns-port=-1 -grpc-port=-1 \
             -server-port={peer} -serf-lan-port={serf} -serf-wan-port=-1 -log-level=warn"
        ),
        _ => format!("-l 127.0.0.1 -p {port} -U 0 -u nobody -m 256 -M"),
    };
    Some(std::iter::once(program).chain(line.split_ascii_whitespace().map(str::to_owned)).collect())
}

impl DocumentServer {
    /// One of its own.
    pub fn start(kind: Kind) -> Option<Self> {
        Self::start_with(kind, &[])
    }

    /// The same, with further arguments.
    pub fn start_with(kind: Kind, arguments: &[&str]) -> Option<Self> {
        let (folder, port) = (tempfile::tempdir().unwrap(), free_port());
        let mut command = command_of(kind, port, &folder)?;
        command.extend(arguments.iter().map(|&argument| argument.to_owned()));
        Some(Self::spawn(kind, command, (folder, port)))
    }

    /// A Consul server that keeps what it is told: it needs some seconds to elect itself.
    pub fn durable_consul() -> Option<Self> {
        let (folder, port) = (tempfile::tempdir().unwrap(), free_port());
        let command = command_of(Kind::Consul, port, &folder)?;
        let mut command: Vec<String> = command.into_iter().filter(|word| word != "-dev").collect();
        let data = format!("-data-dir={}/data", folder.path().display());
        command.extend(["-server".into(), "-bootstrap-expect=1".into(), data]);
        Some(Self::spawn(Kind::Consul, command, (folder, port)))
    }

    /// One that also listens with TLS, at the port that comes with it, to whoever shows a certificate of the authority.
    pub fn with_tls(kind: Kind, authority: &Authority) -> Option<(Self, u16)> {
        let (folder, port, secure) = (tempfile::tempdir().unwrap(), free_port(), free_port());
        let mut command = command_of(kind, port, &folder)?;
        let [certificate, key] = authority.pair().map(|path| path.display().to_string());
        let ca = authority.file().display().to_string();
        match kind {
            Kind::Etcd => command.extend([
                format!("--listen-client-urls=http://127.0.0.1:{port},https://127.0.0.1:{secure}"),
                format!("--cert-file={certificate}"),
                format!("--key-file={key}"),
                format!("--trusted-ca-file={ca}"),
                "--client-cert-auth".into(),
            ]),
            _ => command.push(format!(
                "-hcl=ports{{https={secure}}} cert_file=\"{certificate}\" key_file=\"{key}\" ca_file=\"{ca}\" \
                 verify_incoming_https=true"
            )),
        }
        Some((Self::spawn(kind, command, (folder, port)), secure))
    }

    /// A memcached that drops what it holds when its few MiB are used up.
    pub fn evicting_memcached() -> Option<Self> {
        let (folder, port) = (tempfile::tempdir().unwrap(), free_port());
        let command = command_of(Kind::Memcached, port, &folder)?;
        let mut command: Vec<String> = command.into_iter().filter(|word| word != "-M").collect();
        command.extend(["-m", "8"].map(str::to_owned));
        Some(Self::spawn(Kind::Memcached, command, (folder, port)))
    }

    fn spawn(kind: Kind, command: Vec<String>, (folder, port): (TempDir, u16)) -> Self {
        let child = spawn(&command, &folder);
        let mut server = Self { kind, command, child, folder, port };
        server.await_ready();
        server
    }

    pub fn url(&self) -> String {
        self.url_at(&format!("127.0.0.1:{}", self.port))
    }

    /// The same, by way of another place.
    pub fn url_at(&self, place: &str) -> String {
        match self.kind {
            Kind::Etcd => format!("etcd://{place}"),
            Kind::Consul => format!("consul://{place}"),
            _ => format!("memcached://{place}?allow-best-effort=true"),
        }
    }

    /// Kills the server, as a crash would.
    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Starts a killed server again, at the same port.
    pub fn start_again(&mut self) {
        self.child = spawn(&self.command, &self.folder);
        self.await_ready();
    }

    /// Stops the process, or lets it go on.
    pub fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.child.id().try_into().unwrap()), signal).unwrap();
    }

    fn await_ready(&mut self) {
        for _ in 0..2000 {
            let answer = match self.kind {
                Kind::Etcd => self.http("GET", "/health", ""),
                Kind::Consul => self.http("GET", "/v1/status/leader", ""),
                _ => self.say("version\r\n"),
            };
            let ready = match self.kind {
                Kind::Etcd => "true",
                Kind::Consul => "\"127.0.0.1:",
                _ => "VERSION",
            };
            // The answer is that of our process, and not of one that had the port before it.
            let lives = self.child.try_wait().unwrap().is_none();
            if lives && answer.is_some_and(|answer| answer.contains(ready)) {
                return;
            }
            assert!(lives, "the server ended: {}", self.log());
            std::thread::sleep(Duration::from_millis(10));
        }
        panic!("the server did not start: {}", self.log());
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }

    /// One request, and all of the answer.
    pub fn http(&self, method: &str, path: &str, body: &str) -> Option<String> {
        let length = body.len();
        // An old version, so that the answer comes in one piece.
        ask(self.port, &format!("{method} {path} HTTP/1.0\r\nHost: x\r\nContent-Length: {length}\r\n\r\n{body}"))
    }

    /// Some bytes, and all that is answered.
    pub fn raw(&self, text: &str) -> Option<String> {
        ask(self.port, text)
    }

    /// Some lines to memcached, and all that it answers.
    pub fn say(&self, lines: &str) -> Option<String> {
        ask(self.port, &format!("{lines}quit\r\n"))
    }

    /// Writes a document as anybody could, past the program.
    pub fn put(&self, key: &str, text: &str) {
        let answer = match self.kind {
            Kind::Etcd => {
                let body = format!(r#"{{"key":"{}","value":"{}"}}"#, base64(key), base64(text));
                self.http("POST", "/v3/kv/put", &body)
            }
            Kind::Consul => self.http("PUT", &format!("/v1/kv/{key}"), text),
            _ => self.say(&format!("set {key} 0 0 {}\r\n{text}\r\n", text.len())),
        };
        assert!(answer.is_some_and(|answer| ["200 OK", "STORED"].iter().any(|word| answer.contains(word))));
    }
}

impl Drop for DocumentServer {
    fn drop(&mut self) {
        // By the handle of the process that we started; already gone is fine.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn spawn(command: &[String], folder: &TempDir) -> Child {
    let log = File::create(folder.path().join("log")).unwrap();
    let mut to_run = Command::new(&command[0]);
    to_run.args(&command[1..]).stdin(Stdio::piped()).stdout(log.try_clone().unwrap()).stderr(log);
    // Of Consul and etcd: neither proxy nor token of whoever runs the tests.
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("CONSUL_") || name.starts_with("ETCD_")) {
        to_run.env_remove(name);
    }
    to_run.spawn().unwrap()
}

fn ask(port: u16, text: &str) -> Option<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(5))).ok()?;
    stream.write_all(text.as_bytes()).ok()?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).ok()?;
    Some(String::from_utf8_lossy(&answer).into_owned())
}

/// What stands in etcd's and Consul's JSON for bytes.
pub fn base64(text: &str) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::new();
    for piece in text.as_bytes().chunks(3) {
        let bits = (0..3).fold(0_u32, |bits, at| bits << 8 | u32::from(*piece.get(at).unwrap_or(&0)));
        for at in 0..4 {
            let letter = LETTERS[(bits >> (18 - 6 * at)) as usize & 63];
            out.push(if at > piece.len() { '=' } else { char::from(letter) });
        }
    }
    out
}

/// Three members of one etcd.
pub struct EtcdCluster {
    pub members: Vec<DocumentServer>,
}

impl EtcdCluster {
    pub fn start() -> Option<Self> {
        let program = program(Kind::Etcd)?;
        let ports: Vec<(u16, u16)> = (0..3).map(|_| (free_port(), free_port())).collect();
        let peers: Vec<String> =
            ports.iter().enumerate().map(|(n, (_, peer))| format!("m{n}=http://127.0.0.1:{peer}")).collect();
        let spawned: Vec<(Vec<String>, Child, TempDir, u16)> = ports
            .iter()
            .enumerate()
            .map(|(n, (port, peer))| {
                let folder = tempfile::tempdir().unwrap();
                let line = format!(
                    "--name m{n} --data-dir {}/data --listen-client-urls http://127.0.0.1:{port} \
                     --advertise-client-urls http://127.0.0.1:{port} --listen-peer-urls http://127.0.0.1:{peer} \
                     --initial-advertise-peer-urls http://127.0.0.1:{peer} --initial-cluster {} --unsafe-no-fsync",
                    folder.path().display(),
                    peers.join(",")
                );
                let command: Vec<String> = std::iter::once(program.display().to_string())
                    .chain(line.split_ascii_whitespace().map(str::to_owned))
                    .collect();
                let child = spawn(&command, &folder);
                (command, child, folder, *port)
            })
            .collect();
        let mut members: Vec<DocumentServer> = spawned
            .into_iter()
            .map(|(command, child, folder, port)| DocumentServer { kind: Kind::Etcd, command, child, folder, port })
            .collect();
        members.iter_mut().for_each(DocumentServer::await_ready);
        Some(Self { members })
    }

    pub fn url(&self) -> String {
        let places: Vec<String> = self.members.iter().map(|member| format!("127.0.0.1:{}", member.port)).collect();
        format!("etcd://{}", places.join(","))
    }
}

/// Three servers of one Consul, with data of their own.
pub struct ConsulCluster {
    pub servers: Vec<DocumentServer>,
}

impl ConsulCluster {
    pub fn start() -> Option<Self> {
        let mut gossip = String::new();
        let start = |n| {
            let (folder, port) = (tempfile::tempdir().unwrap(), free_port());
            let command = command_of(Kind::Consul, port, &folder)?;
            let mut command: Vec<String> = command.into_iter().filter(|word| word != "-dev").collect();
            if n == 0 {
                gossip = command.iter().find_map(|word| word.strip_prefix("-serf-lan-port=")).unwrap().to_owned();
            }
            command.extend(["-server", "-bootstrap-expect=3", "-hcl=performance{raft_multiplier=1}"].map(String::from));
            command.push(format!("-node=m{n}"));
            command.push(format!("-data-dir={}/data", folder.path().display()));
            command.push(format!("-retry-join=127.0.0.1:{gossip}"));
            command.push("-retry-interval=1s".into());
            let child = spawn(&command, &folder);
            Some(DocumentServer { kind: Kind::Consul, command, child, folder, port })
        };
        let mut servers = (0..3).map(start).collect::<Option<Vec<DocumentServer>>>()?;
        servers.iter_mut().for_each(DocumentServer::await_ready);
        Some(Self { servers })
    }

    pub fn url(&self) -> String {
        let places: Vec<String> = self.servers.iter().map(|server| format!("127.0.0.1:{}", server.port)).collect();
        format!("consul://{}", places.join(","))
    }
}
