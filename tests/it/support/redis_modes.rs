//! Redis as teams run it: with TLS, with an account that has few rights, behind Sentinels, as a cluster.

use super::bench::Kind;
use super::bench::program;
use super::server::RedisServer;
use super::server::ask;
use super::server::free_port;
use super::web::Authority;
use crate::processes;
use onecron::store::Access;
use onecron::store::Account;
use std::fs::File;
use std::path::Path;
use std::process::Child;
use std::process::Command;
use std::process::Stdio;
use std::sync::Mutex;
use std::sync::OnceLock;
use std::time::Duration;
use tempfile::TempDir;

/// How long servers may take to find one another.
const FOUND_WITHIN: Duration = Duration::from_secs(30);
pub const PASSWORD: &str = "s3cret";

/// Servers that are one store, and how to reach it.
pub struct Deployment {
    pub url: String,
    pub access: Access,
    pub servers: Vec<RedisServer>,
    pub sentinels: Vec<Sentinel>,
    /// Certificates and passwords.
    authority: Option<Authority>,
    /// Ends shared servers with this process, whichever way that ends.
    _reaper: Option<Child>,
}

/// A Sentinel, killed when dropped.
pub struct Sentinel {
    child: Child,
    folder: TempDir,
    pub port: u16,
}

impl Drop for Sentinel {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Sentinel {
    /// One that watches the primary at that port under the name `main`.
    fn start(program: &Path, primary: u16, quorum: usize) -> Self {
        let (folder, port) = (tempfile::tempdir().unwrap(), free_port());
        let config = format!(
            "port {port}\nbind 127.0.0.1\ndir {}\nsentinel monitor main 127.0.0.1 {primary} {quorum}\n\
             sentinel down-after-milliseconds main 1000\nsentinel failover-timeout main 4000\n",
            folder.path().display()
        );
        std::fs::write(folder.path().join("sentinel.conf"), config).unwrap();
        let log = File::create(folder.path().join("log")).unwrap();
        let child = Command::new(program)
            .arg(folder.path().join("sentinel.conf"))
            .arg("--sentinel")
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .unwrap();
        let sentinel = Self { child, folder, port };
        processes::until("a Sentinel answers", || ask(port, "PING").is_some_and(|reply| reply.contains("PONG")));
        sentinel
    }

    /// The port of the primary, as it says.
    pub fn primary(&self) -> Option<u16> {
        let reply = ask(self.port, "SENTINEL get-master-addr-by-name main")?;
        reply.lines().nth(4)?.trim().parse().ok()
    }
}

fn plain(url: String, servers: Vec<RedisServer>) -> Deployment {
    Deployment { url, access: Access::default(), servers, sentinels: Vec::new(), authority: None, _reaper: None }
}

fn args(words: &[String]) -> Vec<&str> {
    words.iter().map(String::as_str).collect()
}

/// One server that speaks TLS and wants a certificate from whoever comes; it has a plain port for the test itself.
pub fn tls() -> Option<Deployment> {
    let program = program(Kind::Redis)?;
    let authority = Authority::new();
    let [certificate, key] = authority.pair();
    let (port, ca) = (free_port(), authority.file());
    let pairs = [("--tls-cert-file", &certificate), ("--tls-key-file", &key), ("--tls-ca-cert-file", &ca)];
    let mut words = vec!["--tls-port".to_owned(), port.to_string()];
    words.extend(pairs.iter().flat_map(|(name, path)| [(*name).to_owned(), path.display().to_string()]));
    let server = RedisServer::start(&program, &args(&words));
    let access = Access { ca_file: Some(ca), cert_file: Some(certificate), key_file: Some(key), ..Access::default() };
    let url = format!("rediss://127.0.0.1:{port}");
    Some(Deployment { access, authority: Some(authority), ..plain(url, vec![server]) })
}

/// What the docs say that an account needs, as arguments of a server.
pub fn documented_rules() -> Vec<String> {
    let docs = include_str!("../../../docs/stores.md");
    let rule = docs.lines().find(|line| line.starts_with("ACL SETUSER")).unwrap();
    rule.replace("PASSWORD", PASSWORD).split(' ').skip(2).map(str::to_owned).collect()
}

/// One server and the account that the docs recommend, with user and password in files.
pub fn account() -> Option<Deployment> {
    let program = program(Kind::Redis)?;
    let words: Vec<String> = ["--user".to_owned()].into_iter().chain(documented_rules()).collect();
    let server = RedisServer::start(&program, &args(&words));
    let files = ["user", "password"].map(|name| server.folder().join(name));
    std::fs::write(&files[0], "onecron\n").unwrap();
    std::fs::write(&files[1], format!("{PASSWORD}\n")).unwrap();
    let [user_file, password_file] = files.map(Some);
    let access = Access { account: Account { user: None, user_file, password_file }, ..Access::default() };
    Some(Deployment { access, ..plain(server.url(), vec![server]) })
}

/// A primary, so many replicas and Sentinels, all of whom know one another. Replicas and Sentinels reach the primary by
/// the port that `seen_at` makes of its own.
pub fn sentinels(replicas: usize, sentinels: usize, seen_at: impl FnOnce(u16) -> u16) -> Option<Deployment> {
    let program = program(Kind::Redis)?;
    let primary = RedisServer::start(&program, &["--repl-diskless-sync-delay", "0"]);
    let port = seen_at(primary.port);
    let mut servers = vec![primary];
    for _ in 0..replicas {
        let of = ["--replicaof", "127.0.0.1", &port.to_string(), "--repl-diskless-sync-delay", "0"];
        servers.push(RedisServer::start(&program, &of));
    }
    let online = |server: &RedisServer| server.command("INFO replication").matches("state=online").count();
    processes::until_limit("replicas copy", FOUND_WITHIN, || online(&servers[0]) == replicas);
    // With all replicas in the primary's answer, Sentinels know them from the first one on.
    let watchers: Vec<_> = (0..sentinels).map(|_| Sentinel::start(&program, port, sentinels / 2 + 1)).collect();
    let known = |sentinel: &Sentinel| {
        let said = ask(sentinel.port, "SENTINEL master main").unwrap_or_default();
        let number = |name: &str| said.lines().skip_while(|line| *line != name).nth(2).map(str::to_owned);
        (number("num-slaves"), number("num-other-sentinels"))
    };
    let wanted = (Some(replicas.to_string()), Some((sentinels - 1).to_string()));
    processes::until_limit("Sentinels know all", FOUND_WITHIN, || watchers.iter().all(|one| known(one) == wanted));
    let places: Vec<String> = watchers.iter().map(|sentinel| format!("127.0.0.1:{}", sentinel.port)).collect();
    let option = if replicas == 0 { "?wait-replicas=0" } else { "" };
    let url = format!("redis+sentinel://{}/main{option}", places.join(","));
    Some(Deployment { sentinels: watchers, ..plain(url, servers) })
}

/// A cluster of so many primaries, each with so many replicas. Others see a node's port as `seen_at` makes of it.
pub fn cluster(primaries: usize, replicas: usize, seen_at: &mut dyn FnMut(u16) -> Option<u16>) -> Option<Deployment> {
    let program = program(Kind::Redis)?;
    let start = |_| {
        let bus = free_port();
        let words = [
            "--cluster-enabled yes --cluster-node-timeout 1500 --repl-diskless-sync-delay 0 --cluster-port",
            &bus.to_string(),
        ];
        let words: Vec<&str> = words.iter().flat_map(|words| words.split(' ')).collect();
        (RedisServer::start(&program, &words), bus)
    };
    let nodes: Vec<(RedisServer, u16)> = (0..primaries * (replicas + 1)).map(start).collect();
    for (node, _) in &nodes {
        if let Some(port) = seen_at(node.port) {
            node.command(&format!("CONFIG SET cluster-announce-port {port}"));
        }
    }
    let size = 16384_usize.div_ceil(primaries);
    for (at, (node, _)) in nodes.iter().take(primaries).enumerate() {
        node.command(&format!("CLUSTER ADDSLOTSRANGE {} {}", at * size, ((at + 1) * size - 1).min(16383)));
        node.command(&format!("CLUSTER SET-CONFIG-EPOCH {}", at + 1));
    }
    for (node, bus) in &nodes[1..] {
        nodes[0].0.command(&format!("CLUSTER MEET 127.0.0.1 {} {bus}", node.port));
    }
    let says = |node: &RedisServer, text: &str| node.command("CLUSTER INFO").contains(text);
    let count = format!("cluster_known_nodes:{}\r", nodes.len());
    processes::until_limit("nodes know all", FOUND_WITHIN, || nodes.iter().all(|(node, _)| says(node, &count)));
    for (at, (node, _)) in nodes.iter().enumerate().skip(primaries) {
        let id = nodes[at % primaries].0.command("CLUSTER MYID").lines().nth(1).unwrap().to_owned();
        let copies = || node.command(&format!("CLUSTER REPLICATE {id}")).starts_with("+OK");
        processes::until_limit("a replica is made", FOUND_WITHIN, copies);
    }
    let whole = |node: &RedisServer| says(node, "cluster_state:ok");
    processes::until_limit("the cluster is whole", FOUND_WITHIN, || nodes.iter().all(|(node, _)| whole(node)));
    let online = |node: &RedisServer| node.command("INFO replication").matches("state=online").count() == replicas;
    let copied = || nodes.iter().take(primaries).all(|(node, _)| online(node));
    processes::until_limit("replicas copy", FOUND_WITHIN, copied);
    let places: Vec<String> = nodes.iter().map(|(node, _)| format!("127.0.0.1:{}", node.port)).collect();
    let option = if replicas == 0 { "?wait-replicas=0" } else { "" };
    let url = format!("redis+cluster://{}{option}", places[..primaries.min(2)].join(","));
    Some(plain(url, nodes.into_iter().map(|(node, _)| node).collect()))
}

impl Deployment {
    /// One server.
    pub fn of(url: String, server: RedisServer) -> Self {
        plain(url, vec![server])
    }

    /// All servers are killed and come back with what they had.
    pub fn restart(&mut self) {
        for server in &self.servers {
            assert_eq!(server.command("SAVE"), "+OK\r\n");
        }
        self.servers.iter_mut().for_each(RedisServer::kill);
        self.servers.iter_mut().for_each(RedisServer::start_again);
        let whole = |server: &RedisServer| {
            let info = server.command("CLUSTER INFO");
            info.contains("cluster_state:ok") || info.contains("disabled")
        };
        processes::until_limit("the cluster is whole", FOUND_WITHIN, || self.servers.iter().all(whole));
    }

    /// Hands its processes to one that ends them when this process ends: what is shared by all tests is dropped by none.
    fn shared(mut self) -> Self {
        let pids = self.servers.iter().map(RedisServer::pid).chain(self.sentinels.iter().map(|one| one.child.id()));
        let folders = self.servers.iter().map(RedisServer::folder);
        let folders = folders.chain(self.sentinels.iter().map(|sentinel| sentinel.folder.path()));
        let folders = folders.chain(self.authority.iter().map(Authority::folder));
        let script = "read _; kill -9 $1; shift; rm -rf \"$@\"";
        let reaper = Command::new("/bin/sh")
            .args(["-c", script, "sh"])
            .arg(pids.map(|pid| pid.to_string()).collect::<Vec<_>>().join(" "))
            .args(folders.map(Path::as_os_str))
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        self._reaper = Some(reaper);
        self
    }
}

/// Where a store that all tests of a process share is: they are kept apart by their namespaces.
pub fn shared(kind: Kind) -> Option<(String, Access)> {
    type Made = OnceLock<Option<Mutex<Deployment>>>;
    static TLS: Made = OnceLock::new();
    static ACCOUNT: Made = OnceLock::new();
    static SENTINELS: Made = OnceLock::new();
    static CLUSTER: Made = OnceLock::new();
    let keep = |made: Option<Deployment>| made.map(|made| Mutex::new(made.shared()));
    let found = match kind {
        Kind::RedisTls => TLS.get_or_init(|| keep(tls())),
        Kind::RedisAccount => ACCOUNT.get_or_init(|| keep(account())),
        Kind::RedisSentinel => SENTINELS.get_or_init(|| keep(sentinels(2, 3, |port| port))),
        _ => CLUSTER.get_or_init(|| keep(cluster(3, 0, &mut |_| None))),
    };
    let found = found.as_ref()?.lock().unwrap();
    Some((found.url.clone(), found.access.clone()))
}
