//! A TCP proxy that can swallow: what is sent does not arrive, and nobody is told.

use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::AtomicI64;
use std::sync::atomic::AtomicU8;
use std::sync::atomic::Ordering;
use tokio::io::AsyncReadExt;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpListener;
use tokio::net::TcpStream;
use tokio::task::JoinSet;

/// What does not arrive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Swallow {
    Nothing,
    /// Requests do, their answers do not.
    Replies,
    /// Neither, and the end of a connection does not either: as if a cable was cut.
    All,
    /// The same, for connections by which a Redis copies another.
    Copies,
}

pub struct Proxy {
    pub port: u16,
    rule: Rule,
    _tasks: JoinSet<()>,
}

/// What vanishes.
#[derive(Debug, Clone, Default)]
struct Rule {
    swallows: Arc<AtomicU8>,
    /// The word in a request after which replies vanish.
    word: Arc<Mutex<Option<&'static [u8]>>>,
    /// Where replies vanish: how many more pieces of them arrive before.
    passes: Arc<AtomicI64>,
}

impl Proxy {
    pub async fn start(server_port: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (port, rule, mut tasks) = (listener.local_addr().unwrap().port(), Rule::default(), JoinSet::new());
        tasks.spawn(accept(listener, server_port, rule.clone()));
        Self { port, rule, _tasks: tasks }
    }

    /// From now on, replies vanish (or arrive again).
    pub fn swallow_replies(&self, swallows: bool) {
        *self.rule.word.lock().unwrap() = None;
        self.swallow(if swallows { Swallow::Replies } else { Swallow::Nothing });
    }

    /// So many more replies arrive, and then none.
    pub fn swallow_replies_after(&self, count: u32) {
        self.swallow(Swallow::Replies);
        self.rule.passes.store(count.into(), Ordering::SeqCst);
    }

    pub fn swallow(&self, what: Swallow) {
        self.rule.passes.store(0, Ordering::SeqCst);
        self.rule.swallows.store(what as u8, Ordering::SeqCst);
    }

    /// Replies vanish from the request on that has this word in it.
    pub fn swallow_after(&self, word: &'static [u8]) {
        *self.rule.word.lock().unwrap() = Some(word);
    }
}

async fn accept(listener: TcpListener, server_port: u16, rule: Rule) {
    let mut pairs = JoinSet::new();
    while let Ok((client, _)) = listener.accept().await {
        pairs.spawn(relay(client, server_port, rule.clone()));
    }
}

async fn relay(client: TcpStream, server_port: u16, Rule { swallows, word, passes }: Rule) {
    let Ok(server) = TcpStream::connect(("127.0.0.1", server_port)).await else { return };
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_server, mut to_server) = server.into_split();
    let (mut request, mut reply) = (vec![0; 65536], vec![0; 65536]);
    // One that has lost something is cut as soon as it is seen again: what follows would be taken for something else.
    let (mut copies, mut lost, mut ended) = (false, false, false);
    loop {
        let (count, is_reply) = tokio::select! {
            count = from_client.read(&mut request), if !ended => (count.unwrap_or(0), false),
            count = from_server.read(&mut reply), if !ended => (count.unwrap_or(0), true),
            () = tokio::time::sleep(std::time::Duration::from_millis(50)), if ended => (0, false),
        };
        copies |= !is_reply && request[..count].windows(5).any(|window| window == b"PSYNC");
        let has = |word: &[u8]| request[..count].windows(word.len()).any(|part| part == word);
        if !is_reply && word.lock().unwrap().is_some_and(has) {
            swallows.store(Swallow::Replies as u8, Ordering::SeqCst);
        }
        let mode = swallows.load(Ordering::SeqCst);
        let is_cut = mode == Swallow::All as u8 || (mode == Swallow::Copies as u8 && copies);
        if is_cut {
            (lost, ended) = (true, ended || count == 0);
            continue;
        }
        let is_lost = mode == Swallow::Replies as u8 && is_reply && count > 0;
        if is_lost && passes.fetch_sub(1, Ordering::SeqCst) <= 0 {
            continue;
        }
        if lost || count == 0 {
            return;
        }
        let written = if is_reply {
            to_client.write_all(&reply[..count]).await
        } else {
            to_server.write_all(&request[..count]).await
        };
        if written.is_err() {
            return;
        }
    }
}
