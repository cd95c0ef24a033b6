//! A TCP proxy that can swallow replies: the request arrives, its answer does not, and nobody is told.

use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering;
use tokio::io::AsyncReadExt;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpListener;
use tokio::net::TcpStream;
use tokio::task::JoinSet;

pub struct Proxy {
    pub port: u16,
    swallows: Arc<AtomicBool>,
    /// The word in a request after which replies vanish.
    word: Arc<Mutex<Option<&'static [u8]>>>,
    _tasks: JoinSet<()>,
}

impl Proxy {
    pub async fn start(server_port: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let swallows = Arc::new(AtomicBool::new(false));
        let mut tasks = JoinSet::new();
        let word = Arc::new(Mutex::new(None));
        tasks.spawn(accept(listener, server_port, (swallows.clone(), word.clone())));
        Self { port, swallows, word, _tasks: tasks }
    }

    /// From now on, replies vanish (or arrive again).
    pub fn swallow_replies(&self, swallows: bool) {
        *self.word.lock().unwrap() = None;
        self.swallows.store(swallows, Ordering::SeqCst);
    }

    /// Replies vanish from the request on that has this word in it.
    pub fn swallow_after(&self, word: &'static [u8]) {
        *self.word.lock().unwrap() = Some(word);
    }
}

/// Whether replies vanish, and from which word in a request on.
type Rule = (Arc<AtomicBool>, Arc<Mutex<Option<&'static [u8]>>>);

async fn accept(listener: TcpListener, server_port: u16, rule: Rule) {
    let mut pairs = JoinSet::new();
    while let Ok((client, _)) = listener.accept().await {
        pairs.spawn(relay(client, server_port, rule.clone()));
    }
}

async fn relay(client: TcpStream, server_port: u16, rule: Rule) {
    let Ok(server) = TcpStream::connect(("127.0.0.1", server_port)).await else { return };
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_server, mut to_server) = server.into_split();
    let (swallows, word) = rule;
    let requests = async {
        let mut buffer = vec![0; 65536];
        while let Ok(count) = from_client.read(&mut buffer).await {
            let has = |word: &[u8]| buffer[..count].windows(word.len()).any(|part| part == word);
            if word.lock().unwrap().is_some_and(has) {
                swallows.store(true, Ordering::SeqCst);
            }
            if count == 0 || to_server.write_all(&buffer[..count]).await.is_err() {
                return;
            }
        }
    };
    let replies = async {
        let mut buffer = vec![0; 65536];
        while let Ok(count) = from_server.read(&mut buffer).await {
            if count == 0 {
                return;
            }
            if !swallows.load(Ordering::SeqCst) && to_client.write_all(&buffer[..count]).await.is_err() {
                return;
            }
        }
    };
    tokio::select! {
        () = requests => {}
        () = replies => {}
    }
}
