//! A TCP proxy that can swallow replies: the request arrives, its answer does not, and nobody is told.

use std::sync::Arc;
use std::sync::atomic::AtomicI64;
use std::sync::atomic::Ordering;
use tokio::io::AsyncReadExt;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpListener;
use tokio::net::TcpStream;
use tokio::task::JoinSet;

pub struct Proxy {
    pub port: u16,
    /// How many more pieces of replies arrive.
    passes: Arc<AtomicI64>,
    _tasks: JoinSet<()>,
}

impl Proxy {
    pub async fn start(server_port: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let passes = Arc::new(AtomicI64::new(i64::MAX));
        let mut tasks = JoinSet::new();
        tasks.spawn(accept(listener, server_port, passes.clone()));
        Self { port, passes, _tasks: tasks }
    }

    /// From now on, replies vanish (or arrive again).
    pub fn swallow_replies(&self, swallows: bool) {
        self.passes.store(if swallows { 0 } else { i64::MAX }, Ordering::SeqCst);
    }

    /// So many more replies arrive, and then none.
    pub fn swallow_replies_after(&self, count: u32) {
        self.passes.store(count.into(), Ordering::SeqCst);
    }
}

async fn accept(listener: TcpListener, server_port: u16, passes: Arc<AtomicI64>) {
    let mut pairs = JoinSet::new();
    while let Ok((client, _)) = listener.accept().await {
        pairs.spawn(relay(client, server_port, passes.clone()));
    }
}

async fn relay(client: TcpStream, server_port: u16, passes: Arc<AtomicI64>) {
    let Ok(server) = TcpStream::connect(("127.0.0.1", server_port)).await else { return };
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_server, mut to_server) = server.into_split();
    let requests = async {
        let _ = tokio::io::copy(&mut from_client, &mut to_server).await;
    };
    let replies = async {
        let mut buffer = vec![0; 65536];
        while let Ok(count) = from_server.read(&mut buffer).await {
            if count == 0 {
                return;
            }
            let passes = passes.fetch_sub(1, Ordering::SeqCst) > 0;
            if passes && to_client.write_all(&buffer[..count]).await.is_err() {
                return;
            }
        }
    };
    tokio::select! {
        () = requests => {}
        () = replies => {}
    }
}
