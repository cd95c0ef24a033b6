//! Connections. Clients may be slow, many, or mean: each has so much time, so many bytes, and its turn to be dropped.

use super::Parts;
use super::Site;
use super::Tls;
use super::routes;
use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use hyper_util::rt::TokioTimer;
use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::net::TcpListener;
use std::pin::pin;
use std::sync::Arc;
use std::thread;
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::io::AsyncRead;
use tokio::io::AsyncWrite;
use tokio::net::TcpStream;
use tokio::runtime;
use tokio::sync::oneshot;
use tokio::task::AbortHandle;
use tokio::task::JoinSet;
use tokio::time::sleep;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tower_service::Service;

/// With one more, the oldest is dropped: a crowd that says nothing must not keep a probe out.
const CONNECTIONS_MOST: usize = 64;
/// How long the head of a request may take, and how long a connection may be idle.
const HEAD_WITHIN: Duration = Duration::from_secs(10);
/// How long a connection may be used.
const LIFE: Duration = Duration::from_secs(60);
/// And how long its last answer may take then.
const LAST_ANSWER: Duration = Duration::from_secs(15);
/// A head that is longer is refused, and it has so many lines at most. It is also what is read at once of a body.
const HEAD_BYTES: usize = 16 << 10;
const HEAD_LINES: usize = 64;
/// How long to wait after a connection could not be taken, for want of descriptors or memory.
const PAUSE: Duration = Duration::from_millis(250);

/// How a client of TLS begins: a record of the type *handshake*.
const HANDSHAKE: u8 = 0x16;

/// Where a request comes from.
#[derive(Debug, Clone, Copy)]
pub struct Remote(pub SocketAddr);

/// A server that runs.
#[derive(Debug)]
pub struct Server {
    thread: JoinHandle<()>,
    stop: oneshot::Sender<()>,
}

impl Server {
    /// Answers on a thread of its own what comes to a listener.
    ///
    /// # Errors
    /// The system gives no thread, or none of what a runtime needs.
    pub fn start(listener: TcpListener, parts: Parts) -> io::Result<Self> {
        let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
        let (stop, stopped) = oneshot::channel();
        let thread = thread::Builder::new().name("http".to_owned()).spawn(move || {
            runtime.block_on(async {
                let site = Arc::new(Site::new(parts));
                let mut tasks = JoinSet::new();
                tasks.spawn(Arc::clone(&site.fleet).keep());
                let tls = site.parts.tls.clone();
                if let Some(tls) = tls.clone() {
                    tasks.spawn(tls.keep());
                }
                tasks.spawn(async move {
                    // The listener is in order: it was bound, and does not block.
                    if let Ok(listener) = tokio::net::TcpListener::from_std(listener) {
                        accept(&listener, routes::router(site), tls).await;
                    }
                });
                // Whoever could stop it is gone where this fails.
                let _ = stopped.await;
            });
            // Nobody waits for a client, or for a store that is asked for one.
            runtime.shutdown_background();
        })?;
        Ok(Self { thread, stop })
    }

    /// Ends it, in the middle of what it is doing.
    ///
    /// # Errors
    /// It panicked, with this.
    pub fn stop(self) -> thread::Result<()> {
        let _ = self.stop.send(());
        self.thread.join()
    }
}

async fn accept(listener: &tokio::net::TcpListener, router: Router, tls: Option<Arc<Tls>>) {
    let mut tasks = JoinSet::new();
    let mut open: VecDeque<AbortHandle> = VecDeque::new();
    loop {
        match listener.accept().await {
            Ok((stream, remote)) => {
                // A task that panicked has harmed its client alone.
                while tasks.try_join_next().is_some() {}
                open.retain(|task| !task.is_finished());
                if open.len() >= CONNECTIONS_MOST
                    && let Some(oldest) = open.pop_front()
                {
                    oldest.abort();
                }
                open.push_back(tasks.spawn(welcome(stream, remote, router.clone(), tls.clone())));
            }
            Err(_) => sleep(PAUSE).await,
        }
    }
}

/// One connection, from its first byte to its end.
async fn welcome(stream: TcpStream, remote: SocketAddr, router: Router, tls: Option<Arc<Tls>>) {
    let Some(tls) = tls else { return converse(stream, remote, router).await };
    let mut first = [0];
    match timeout(HEAD_WITHIN, stream.peek(&mut first)).await {
        Ok(Ok(1)) if first[0] == HANDSHAKE => {
            // What is wrong there is the client's business too.
            if let Ok(Ok(stream)) = timeout(HEAD_WITHIN, TlsAcceptor::from(tls.config()).accept(stream)).await {
                converse(stream, remote, router).await;
            }
        }
        Ok(Ok(1)) => converse(stream, remote, routes::not_encrypted()).await,
        // It has said nothing, or is gone.
        _ => {}
    }
}

async fn converse(stream: impl AsyncRead + AsyncWrite + Unpin, remote: SocketAddr, router: Router) {
    let service = service_fn(move |request| answer(request, remote, router.clone()));
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_WITHIN)
        .max_buf_size(HEAD_BYTES)
        .max_headers(HEAD_LINES)
        .serve_connection(TokioIo::new(stream), service);
    let mut connection = pin!(connection);
    // An error is the client's business.
    if timeout(LIFE, connection.as_mut()).await.is_err() {
        connection.as_mut().graceful_shutdown();
        let _ = timeout(LAST_ANSWER, connection).await;
    }
}

async fn answer(
    request: hyper::Request<Incoming>,
    remote: SocketAddr,
    mut router: Router,
) -> Result<axum::response::Response, std::convert::Infallible> {
    let mut request: Request = request.map(Body::new);
    request.extensions_mut().insert(Remote(remote));
    // A router is always ready.
    let mut response = Service::call(&mut router, request).await?;
    routes::dress(&mut response);
    Ok(response)
}
