//! Requests over HTTP to one of several servers that are as good as one another: where one cannot be reached, the next is
//! tried; one that does not answer is left for the next at the following request.

use super::backend::Failure;
use crate::causes;
use crate::job::authorities;
use crate::store::Access;
use crate::store::ErrorKind;
use crate::store::access::Papers;
use crate::store::access::certificates;
use crate::store::access::private_key;
use reqwest::Client;
use reqwest::Method;
use reqwest::StatusCode;
use reqwest::header::HeaderMap;
use reqwest::redirect::Policy;
use rustls::ClientConfig;
use rustls::RootCertStore;
use rustls::crypto::ring;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// How long connecting to one server may take, and a whole request.
const CONNECT_WITHIN: Duration = Duration::from_millis(700);
const ANSWER_WITHIN: Duration = Duration::from_secs(2);

/// No answer is longer: ten thousand jobs are a quarter of that. Something else than a store may never end.
const BODY_BYTES_MOST: usize = if cfg!(test) { 1 << 20 } else { 256 << 20 };
/// So many connections are kept for later requests.
const IDLE_MOST: usize = 4;

/// A request, without the server.
#[derive(Debug, Clone)]
pub(super) struct Ask {
    pub method: Method,
    /// Path and query.
    pub path: String,
    /// The header that says who asks, where there is one.
    pub token: Option<(&'static str, String)>,
    pub body: Vec<u8>,
    /// Whether it may be sent to a second server when the first has failed: it changes nothing.
    pub only_reads: bool,
}

/// An answer.
#[derive(Debug)]
pub(super) struct Reply {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub body: Vec<u8>,
}

/// The servers.
pub(super) struct Link {
    /// What follows from the files of certificates is made with the first request, and again when that fails.
    client: tokio::sync::Mutex<Option<Client>>,
    /// `http://host:port`, each.
    places: Vec<String>,
    /// The one that is asked first.
    at: AtomicUsize,
    access: Access,
    is_secure: bool,
    /// What a URL begins with where the servers speak TLS.
    secure: &'static str,
}

/// Turns to the next server unless the request ended well: also when whoever waits for it gives up.
struct Turn<'a> {
    link: &'a Link,
    at: usize,
    is_well: bool,
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        if !self.is_well {
            let next = self.at.wrapping_add(1);
            // Somebody else may have turned already.
            _ = self.link.at.compare_exchange(self.at, next, Ordering::Relaxed, Ordering::Relaxed);
        }
    }
}

impl Link {
    /// Does not connect, and reads no files.
    ///
    /// # Errors
    /// Certificates are named for a connection that has none.
    pub fn new(places: &[String], (access, is_secure): (&Access, bool), secure: &'static str) -> Result<Self, String> {
        let Access { ca_file, cert_file, key_file, .. } = access;
        if !is_secure && [ca_file, cert_file, key_file].iter().any(|file| file.is_some()) {
            return Err(format!("files of certificates are given, and the URL has no TLS: write {secure}host"));
        }
        if cert_file.is_some() != key_file.is_some() {
            return Err("a certificate needs its key, and a key its certificate: give both files, or none".into());
        }
        let scheme = if is_secure { "https" } else { "http" };
        let places = places.iter().map(|place| format!("{scheme}://{place}")).collect();
        let (client, at) = (tokio::sync::Mutex::default(), AtomicUsize::new(0));
        Ok(Self { client, places, at, access: access.clone(), is_secure, secure })
    }

    /// Sends a request and reads the whole answer, whatever it is.
    ///
    /// Cancel safety: dropping the future closes the connection; the request was sent or not.
    ///
    /// # Errors
    /// No server could be reached, or one did not answer.
    pub async fn send(&self, ask: &Ask) -> Result<Reply, Failure> {
        let client = self.client().await.map_err(|detail| Failure::new(ErrorKind::Misconfigured, detail))?;
        let mut refused = Vec::new();
        for _ in 0..self.places.len() {
            let mut turn = Turn { link: self, at: self.at.load(Ordering::Relaxed), is_well: false };
            let place = &self.places[turn.at % self.places.len()];
            match self.send_to(&client, place, ask).await {
                Ok(reply) => {
                    // One that has lost its peers says so; another may have not.
                    turn.is_well = !reply.status.is_server_error();
                    if turn.is_well || !ask.only_reads || self.places.len() == 1 {
                        return Ok(reply);
                    }
                    let text = String::from_utf8_lossy(&reply.body);
                    let detail = format!("{place}: {} {}", reply.status, text.trim());
                    refused.push(Failure::new(ErrorKind::MaybeApplied, detail));
                }
                Err(failed) if failed.kind == ErrorKind::MaybeApplied && !ask.only_reads => return Err(failed),
                Err(failed) => refused.push(failed),
            }
        }
        Err(together(refused))
    }

    async fn send_to(&self, client: &Client, place: &str, ask: &Ask) -> Result<Reply, Failure> {
        let mut request = client.request(ask.method.clone(), format!("{place}{}", ask.path));
        if let Some((name, value)) = &ask.token {
            request = request.header(*name, value);
        }
        let mut response = match request.body(ask.body.clone()).send().await {
            Ok(response) => response,
            Err(error) => {
                let failure = self.failed(place, error);
                if self.is_secure && failure.kind == ErrorKind::NotSent {
                    // A certificate may have been renewed in its file.
                    *self.client.lock().await = None;
                }
                return Err(failure);
            }
        };
        let (status, headers) = (response.status(), std::mem::take(response.headers_mut()));
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(|error| self.failed(place, error))? {
            if body.len() + chunk.len() > BODY_BYTES_MOST {
                let detail = format!("{place}: an answer is longer than {} MiB", BODY_BYTES_MOST >> 20);
                return Err(Failure::new(ErrorKind::MaybeApplied, detail));
            }
            body.extend_from_slice(&chunk);
        }
        if !self.is_secure && String::from_utf8_lossy(&body).contains("HTTP request to an HTTPS server") {
            let detail = format!("{place}: the server wants TLS: write {}host", self.secure);
            return Err(Failure::new(ErrorKind::Misconfigured, detail));
        }
        Ok(Reply { status, headers, body })
    }

    fn failed(&self, place: &str, error: reqwest::Error) -> Failure {
        let kind = match () {
            // A host that is none, or a token with characters that no header has.
            () if error.is_builder() => ErrorKind::Misconfigured,
            () if error.is_connect() => ErrorKind::NotSent,
            () => ErrorKind::MaybeApplied,
        };
        // The address, which reqwest would say again, is ours to say.
        let error = error.without_url();
        if kind == ErrorKind::MaybeApplied && error.is_timeout() {
            let detail = format!("{place}: no answer within {} s", ANSWER_WITHIN.as_secs());
            return Failure::new(kind, detail);
        }
        let text = causes::found(&error);
        let has = |words: &[&str]| words.iter().any(|word| text.contains(word));
        let is_other = has(&["before message completed", "unexpected message", "invalid HTTP", "head is too large"])
            || has(&["reset by peer", "was not ready", "Broken pipe"]);
        let is_plain = has(&["InvalidContentType", "handshake eof", "reset by peer"]);
        let of_certificates = self.access.advice(&text);
        let advice = match () {
            () if !of_certificates.is_empty() => of_certificates,
            () if self.is_secure && kind == ErrorKind::NotSent && is_plain => {
                format!(" (is it the port for TLS? without TLS, write {}://)", self.secure.trim_end_matches("s://"))
            }
            () if self.is_secure && kind == ErrorKind::NotSent && text.contains("timed out") => {
                " (one that does not speak TLS stays silent, too: is it the port for TLS?)".into()
            }
            () if !self.is_secure && is_other => {
                format!(" (if that is so every time, it is another kind of server, or write {})", self.secure)
            }
            () => String::new(),
        };
        Failure::new(kind, format!("{place}: {text}{advice}"))
    }

    async fn client(&self) -> Result<Client, String> {
        let mut client = self.client.lock().await;
        if let Some(client) = &*client {
            return Ok(client.clone());
        }
        // Files are read, those of the system as well: not where others wait.
        let (access, is_secure) = (self.access.clone(), self.is_secure);
        let read = tokio::task::spawn_blocking(move || tls_config(&access, is_secure)).await;
        let config = read.unwrap_or_else(|_| Err("the certificates cannot be read".into()))?;
        let made = Client::builder()
            .no_proxy()
            .redirect(Policy::none())
            .retry(reqwest::retry::never())
            .referer(false)
            .http1_only()
            .pool_max_idle_per_host(IDLE_MOST)
            .connect_timeout(CONNECT_WITHIN)
            .timeout(ANSWER_WITHIN)
            .tls_backend_preconfigured(config)
            .build()
            .map_err(|error| error.to_string())?;
        Ok(client.insert(made).clone())
    }
}

/// What all servers say. Where one has the request it may be done; where they differ otherwise, one of them may be of use
/// later.
fn together(refused: Vec<Failure>) -> Failure {
    let is_of = |kind| move |failure: &Failure| failure.kind == kind;
    let kind = match () {
        () if refused.iter().any(is_of(ErrorKind::MaybeApplied)) => ErrorKind::MaybeApplied,
        () if refused.iter().all(is_of(ErrorKind::Misconfigured)) => ErrorKind::Misconfigured,
        () => ErrorKind::NotSent,
    };
    Failure::new(kind, refused.into_iter().map(|failure| failure.detail).collect::<Vec<_>>().join("; "))
}

fn tls_config(access: &Access, is_secure: bool) -> Result<ClientConfig, String> {
    let Papers { ca, own } = access.papers()?;
    let mut roots = RootCertStore::empty();
    match ca {
        Some(pem) => roots = authorities(&pem)?,
        None if is_secure => {
            // One odd certificate among a hundred is no reason to trust none.
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
            if roots.is_empty() {
                let wanted = "install `ca-certificates`, or name a file with --store-ca-file";
                return Err(format!("this host has no certificates of authorities: {wanted}"));
            }
        }
        None => {}
    }
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let builder = builder.with_safe_default_protocol_versions().map_err(|error| error.to_string())?;
    let builder = builder.with_root_certificates(roots);
    let Some((certificate, key)) = own else { return Ok(builder.with_no_client_auth()) };
    let unfit = |error| format!("our certificate: {error}");
    builder.with_client_auth_cert(certificates(&certificate)?, private_key(&key)?).map_err(unfit)
}

/// What a server's error says, in one short line.
pub(super) fn short(body: &[u8]) -> String {
    let text = String::from_utf8_lossy(body);
    text.split_whitespace().collect::<Vec<_>>().join(" ").chars().take(300).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::io::Write;
    use std::net::TcpListener;

    #[test]
    fn only_what_all_servers_call_a_mistake_is_one() {
        use ErrorKind::MaybeApplied;
        use ErrorKind::Misconfigured;
        use ErrorKind::NotSent;
        for (kinds, wanted) in [
            ([Misconfigured, Misconfigured], Misconfigured),
            ([Misconfigured, NotSent], NotSent),
            ([NotSent, Misconfigured], NotSent),
            ([MaybeApplied, NotSent], MaybeApplied),
            ([NotSent, MaybeApplied], MaybeApplied),
        ] {
            let failure = together(kinds.map(|kind| Failure::new(kind, "no")).into());
            assert_eq!((failure.kind, failure.detail.as_str()), (wanted, "no; no"), "{kinds:?}");
        }
    }

    #[tokio::test]
    async fn a_file_that_cannot_be_read_is_said_once_and_not_for_each_server() {
        let access = Access { ca_file: Some("/no/such/ca.pem".into()), ..Access::default() };
        let places = ["h1:1", "h2:2", "h3:3"].map(str::to_owned);
        let link = Link::new(&places, (&access, true), "etcds://").unwrap();
        for only_reads in [true, false] {
            let ask = Ask { method: Method::GET, path: "/".into(), token: None, body: Vec::new(), only_reads };
            let failure = link.send(&ask).await.unwrap_err();
            assert_eq!(failure.kind, ErrorKind::Misconfigured);
            assert_eq!(failure.detail.matches("/no/such/ca.pem").count(), 1, "{}", failure.detail);
        }
    }

    /// Servers that speak first are heard before they are asked, or after, or have hung up by then.
    #[tokio::test]
    async fn whatever_answers_and_is_not_http_is_told_as_another_kind_of_server() {
        for greeting in ["J\0\0\0\n11.4.2-MariaDB\0", "HTTP/9.9 200 OK\r\n\r\n", "HTTP/1.1 abc\r\n\r\n", "", "-ERR\r\n"]
        {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let place = listener.local_addr().unwrap().to_string();
            std::thread::spawn(move || {
                let (mut stream, _) = listener.accept().unwrap();
                let _ = stream.read(&mut [0; 4096]).unwrap();
                stream.write_all(greeting.as_bytes()).unwrap();
            });
            let link = Link::new(&[place], (&Access::default(), false), "etcds://").unwrap();
            let ask = Ask { method: Method::GET, path: "/".into(), token: None, body: Vec::new(), only_reads: true };
            let failure = link.send(&ask).await.unwrap_err();
            assert!(failure.detail.contains("another kind of server"), "{greeting:?}: {}", failure.detail);
        }
    }

    #[tokio::test]
    async fn an_answer_that_does_not_end_is_given_up() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let place = listener.local_addr().unwrap().to_string();
        std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let _ = stream.read(&mut [0; 4096]);
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n");
            // Until the other end hangs up.
            while stream.write_all(&[b'['; 65536]).is_ok() {}
        });
        let link = Link::new(&[place], (&Access::default(), false), "etcds://").unwrap();
        let ask = Ask { method: Method::GET, path: "/".into(), token: None, body: Vec::new(), only_reads: true };
        let failure = link.send(&ask).await.unwrap_err();
        assert!(failure.detail.contains("an answer is longer than 1 MiB"), "{failure:?}");
    }
}
