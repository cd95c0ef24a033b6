//! Web servers that do as they are told: on a thread of their own, so that they serve tests that wait and tests that do
//! not, and with bytes written by hand, so that they can be as wrong as real ones.

use std::net::TcpListener;
use std::path::Path;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::io::AsyncRead;
use tokio::io::AsyncReadExt;
use tokio::io::AsyncWrite;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::runtime::Runtime;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::PrivateKeyDer;
use tokio_rustls::rustls::pki_types::PrivatePkcs8KeyDer;

/// A request as it came in.
#[derive(Debug, Clone)]
pub struct Seen {
    /// On which connection, from 1.
    pub connection: usize,
    /// `POST /path HTTP/1.1`
    pub line: String,
    headers: Vec<(String, String)>,
    pub body: String,
    /// The same, where it is no text.
    pub bytes: Vec<u8>,
}

impl Seen {
    /// The value of a header line; empty if there is none.
    pub fn header(&self, name: &str) -> String {
        let line = self.headers.iter().find(|(other, _)| other.eq_ignore_ascii_case(name));
        line.map(|(_, value)| value.clone()).unwrap_or_default()
    }

    pub fn has(&self, name: &str) -> bool {
        self.headers.iter().any(|(other, _)| other.eq_ignore_ascii_case(name))
    }
}

/// What a server does with a request, one after the other.
#[derive(Debug, Clone)]
pub enum Act {
    Send(Vec<u8>),
    /// These bytes again and again, with a pause in between.
    Repeat(Vec<u8>, Duration),
    /// Nothing, for so long.
    Wait(Duration),
    /// Nothing, for ever.
    Hold,
    /// The connection breaks off.
    Reset,
    /// As a proxy: bytes both ways, from and to the server on this port.
    Tunnel(u16),
}

/// An answer in due form.
pub fn answer(status: u16, headers: &str, body: &str) -> Vec<Act> {
    let text = format!("HTTP/1.1 {status} Status\r\n{headers}Content-Length: {}\r\n\r\n{body}", body.len());
    vec![Act::Send(text.into_bytes())]
}

pub fn ok() -> Vec<Act> {
    answer(200, "", "done")
}

/// To another place.
pub fn redirect(status: u16, to: &str) -> Vec<Act> {
    answer(status, &format!("Location: {to}\r\n"), "moved")
}

type Answer = dyn Fn(&Seen) -> Vec<Act> + Send + Sync;

pub struct Web {
    pub port: u16,
    seen: Arc<Mutex<Vec<Seen>>>,
    connections: Arc<AtomicUsize>,
    open: Arc<AtomicUsize>,
    runtime: Option<Runtime>,
}

impl Web {
    pub fn start(answer: impl Fn(&Seen) -> Vec<Act> + Send + Sync + 'static) -> Self {
        Self::serve(None, 0, Arc::new(answer))
    }

    /// On a port that was free a moment ago.
    pub fn start_on(port: u16, answer: impl Fn(&Seen) -> Vec<Act> + Send + Sync + 'static) -> Self {
        Self::serve(None, port, Arc::new(answer))
    }

    /// By TLS, with the certificate of an authority.
    pub fn secure(authority: &Authority, answer: impl Fn(&Seen) -> Vec<Act> + Send + Sync + 'static) -> Self {
        Self::serve(Some(authority.acceptor()), 0, Arc::new(answer))
    }

    fn serve(tls: Option<TlsAcceptor>, port: u16, answer: Arc<Answer>) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let listener = TcpListener::bind(("127.0.0.1", port)).unwrap();
        listener.set_nonblocking(true).unwrap();
        let port = listener.local_addr().unwrap().port();
        let mut web =
            Self { port, seen: Arc::default(), connections: Arc::default(), open: Arc::default(), runtime: None };
        let (seen, connections, open) = (Arc::clone(&web.seen), Arc::clone(&web.connections), Arc::clone(&web.open));
        runtime.spawn(async move {
            let listener = tokio::net::TcpListener::from_std(listener).unwrap();
            while let Ok((stream, _)) = listener.accept().await {
                let connection = connections.fetch_add(1, Ordering::SeqCst) + 1;
                open.fetch_add(1, Ordering::SeqCst);
                let (seen, open, tls, answer) =
                    (Arc::clone(&seen), Arc::clone(&open), tls.clone(), Arc::clone(&answer));
                tokio::spawn(async move {
                    let visit = Visit { connection, seen, answer };
                    match tls {
                        None => visit.serve(stream).await,
                        Some(tls) => {
                            if let Ok(stream) = tls.accept(stream).await {
                                visit.serve(stream).await;
                            }
                        }
                    }
                    open.fetch_sub(1, Ordering::SeqCst);
                });
            }
        });
        web.runtime = Some(runtime);
        web
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }

    /// All requests so far.
    pub fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }

    /// The one request that came.
    pub fn only(&self) -> Seen {
        let mut seen = self.seen();
        assert_eq!(seen.len(), 1, "{seen:?}");
        seen.remove(0)
    }

    /// Connections so far.
    pub fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }

    /// Connections that have not ended.
    pub fn open(&self) -> usize {
        self.open.load(Ordering::SeqCst)
    }
}

impl Drop for Web {
    fn drop(&mut self) {
        // In a test that is asynchronous itself, waiting for it is not allowed.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

struct Visit {
    connection: usize,
    seen: Arc<Mutex<Vec<Seen>>>,
    answer: Arc<Answer>,
}

impl Visit {
    /// One request after another, as long as the other end keeps the connection.
    async fn serve(&self, mut stream: impl AsyncRead + AsyncWrite + Unpin) {
        while let Some(seen) = self.read(&mut stream).await {
            let acts = (self.answer)(&seen);
            self.seen.lock().unwrap().push(seen);
            for act in acts {
                if !perform(&mut stream, act).await {
                    return;
                }
            }
        }
    }

    async fn read(&self, stream: &mut (impl AsyncRead + Unpin)) -> Option<Seen> {
        let mut bytes = Vec::new();
        let head = loop {
            if let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
                break end + 4;
            }
            bytes.push(stream.read_u8().await.ok()?);
        };
        let text = String::from_utf8_lossy(&bytes[..head]).into_owned();
        let mut lines = text.trim_end().lines();
        let line = lines.next()?.to_owned();
        let headers: Vec<(String, String)> = lines
            .filter_map(|line| line.split_once(':'))
            .map(|(name, value)| (name.to_owned(), value.trim().to_owned()))
            .collect();
        let mut seen = Seen { connection: self.connection, line, headers, body: String::new(), bytes: Vec::new() };
        let mut body = vec![0; seen.header("content-length").parse().unwrap_or(0)];
        stream.read_exact(&mut body).await.ok()?;
        seen.body = String::from_utf8_lossy(&body).into_owned();
        seen.bytes = body;
        Some(seen)
    }
}

/// Whether the connection is there after it.
async fn perform(stream: &mut (impl AsyncRead + AsyncWrite + Unpin), act: Act) -> bool {
    match act {
        Act::Send(bytes) => stream.write_all(&bytes).await.is_ok() && stream.flush().await.is_ok(),
        Act::Repeat(bytes, pause) => loop {
            if stream.write_all(&bytes).await.is_err() || stream.flush().await.is_err() {
                return false;
            }
            tokio::time::sleep(pause).await;
        },
        Act::Wait(time) => {
            tokio::time::sleep(time).await;
            true
        }
        Act::Hold => {
            // Until the other end is gone.
            let mut rest = [0; 1024];
            while stream.read(&mut rest).await.is_ok_and(|read| read > 0) {}
            false
        }
        Act::Reset => false,
        Act::Tunnel(port) => {
            let mut server = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
            let _ = tokio::io::copy_bidirectional(stream, &mut server).await;
            false
        }
    }
}

/// An authority that nobody knows, and its certificate for 127.0.0.1.
pub struct Authority {
    folder: tempfile::TempDir,
    issuer: rcgen::Issuer<'static, rcgen::KeyPair>,
    certificate: rcgen::Certificate,
    key: rcgen::KeyPair,
}

impl Authority {
    pub fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let authority_key = rcgen::KeyPair::generate().unwrap();
        let mut params = rcgen::CertificateParams::new(vec![]).unwrap();
        params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        params.distinguished_name.push(rcgen::DnType::CommonName, "a private authority");
        let authority = params.self_signed(&authority_key).unwrap();
        std::fs::write(folder.path().join("ca.pem"), authority.pem()).unwrap();
        let key = rcgen::KeyPair::generate().unwrap();
        let issuer = rcgen::Issuer::new(params, authority_key);
        let params = rcgen::CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
        let certificate = params.signed_by(&key, &issuer).unwrap();
        Self { folder, issuer, certificate, key }
    }

    /// Certificate and key of somebody by that name, in files.
    pub fn client(&self, name: &str) -> [PathBuf; 2] {
        let key = rcgen::KeyPair::generate().unwrap();
        let mut params = rcgen::CertificateParams::new(vec![]).unwrap();
        params.distinguished_name.push(rcgen::DnType::CommonName, name);
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        let files = ["pem", "key"].map(|end| self.folder.path().join(format!("{name}.{end}")));
        std::fs::write(&files[0], certificate.pem()).unwrap();
        std::fs::write(&files[1], key.serialize_pem()).unwrap();
        files
    }

    /// The server's certificate and key, in files.
    pub fn pair(&self) -> [PathBuf; 2] {
        let files = ["server.pem", "server.key"].map(|name| self.folder.path().join(name));
        std::fs::write(&files[0], self.certificate.pem()).unwrap();
        std::fs::write(&files[1], self.key.serialize_pem()).unwrap();
        files
    }

    /// Its certificate, for who is to trust it.
    pub fn file(&self) -> PathBuf {
        self.folder.path().join("ca.pem")
    }

    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    fn acceptor(&self) -> TlsAcceptor {
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(self.key.serialize_der()));
        let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![self.certificate.der().clone()], key)
            .unwrap();
        TlsAcceptor::from(Arc::new(config))
    }
}
