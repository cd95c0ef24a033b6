//! The thread that sends spans away: in batches, with a limit on everything. A collector that is down costs the spans that
//! do not fit into the queue meanwhile, and nothing else.

use super::settings::TraceSettings;
use super::spool::Counts;
use super::spool::Spans;
use crate::clock::Boot;
use crate::clock::Clock;
use crate::job::CA_FILE_BYTES_MOST;
use crate::job::authorities;
use crate::telemetry::events;
use flate2::Compression;
use flate2::write::GzEncoder;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceResponse;
use opentelemetry_proto::transform::common::tonic::ResourceAttributesWithSchema;
use opentelemetry_proto::transform::trace::tonic::group_spans_by_resource_and_scope;
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::SdkTracerProvider;
use prost::Message;
use reqwest::Client;
use reqwest::StatusCode;
use reqwest::header::CONTENT_ENCODING;
use reqwest::header::CONTENT_TYPE;
use reqwest::header::HeaderMap;
use reqwest::header::HeaderName;
use reqwest::header::HeaderValue;
use reqwest::redirect::Policy;
use rustls::ClientConfig;
use rustls::RootCertStore;
use rustls::crypto::ring;
use std::collections::hash_map::RandomState;
use std::error::Error;
use std::fs;
use std::fs::File;
use std::hash::BuildHasher;
use std::io;
use std::io::Read;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;
use tokio::runtime;
use tokio::sync::watch;
use tokio::time::timeout;

/// So often a batch is tried, where another try may help.
const TRIES: u32 = 4;
/// How long to wait before the second try; twice as long before each further one. A random part of it is added.
const WAIT: Duration = Duration::from_secs(1);
/// So often at most it is said that spans were dropped, while that goes on.
const SAID_EVERY: Duration = Duration::from_secs(60);
/// More of an answer is not read.
const ANSWER_MOST: usize = 64 << 10;

/// What sends spans away, until it is told to finish.
#[derive(Debug)]
pub struct Exporter {
    provider: SdkTracerProvider,
    closing: watch::Sender<bool>,
    finished: mpsc::Receiver<()>,
    counts: Arc<Counts>,
}

impl Exporter {
    pub(super) fn start(
        settings: TraceSettings,
        (spans, resource): (Spans, &Resource),
        (provider, clock): (SdkTracerProvider, Arc<dyn Clock>),
    ) -> io::Result<Self> {
        let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
        let ((closing, is_closing), (done, finished)) = (watch::channel(false), mpsc::channel());
        let counts = Arc::clone(&spans.counts);
        let (shown, sampler) = (settings.shown(), settings.sampler_word.clone());
        let post = Post {
            resource: resource.into(),
            settings,
            client: None,
            spans,
            closing: is_closing,
            clock,
            failing: None,
            said_at: None,
        };
        thread::Builder::new().name("traces".to_owned()).spawn(move || {
            runtime.block_on(post.keep());
            runtime.shutdown_background();
            // Whoever waited is gone where this fails.
            let _ = done.send(());
        })?;
        events::tracing_started(&shown, &sampler);
        Ok(Self { provider, closing, finished, counts })
    }

    /// Sends what is left, for so long at most, and says what could not be sent. No span is taken any more.
    pub fn finish(self, limit: Duration) {
        // Closes the queue: an error of ours that says nothing to anybody.
        let _ = self.provider.shutdown();
        self.closing.send_replace(true);
        // Where it is not done in time, what is under way is as good as lost.
        let _ = self.finished.recv_timeout(limit);
        let lost = self.counts.take_dropped() + self.counts.outstanding.load(Ordering::Relaxed);
        if lost > 0 {
            events::spans_dropped(lost);
        }
    }
}

/// The thread's own.
struct Post {
    settings: TraceSettings,
    resource: ResourceAttributesWithSchema,
    /// Made when the first batch is sent: the system's certificates are read for it.
    client: Option<Client>,
    spans: Spans,
    closing: watch::Receiver<bool>,
    clock: Arc<dyn Clock>,
    /// How the last post failed.
    failing: Option<String>,
    said_at: Option<Boot>,
}

/// Why a batch did not arrive.
struct Failure {
    found: String,
    /// Another try may be better off.
    may_pass: bool,
}

impl Failure {
    fn lasting(found: impl Into<String>) -> Self {
        Self { found: found.into(), may_pass: false }
    }
}

impl Post {
    /// Until the queue is closed and empty.
    async fn keep(mut self) {
        loop {
            let (most, delay) = (self.settings.batch, self.settings.delay);
            let mut batch = Vec::new();
            if self.spans.queue.recv_many(&mut batch, most).await == 0 {
                return;
            }
            let more = async {
                while batch.len() < most {
                    let room = most - batch.len();
                    if self.spans.queue.recv_many(&mut batch, room).await == 0 {
                        return;
                    }
                }
            };
            // What has come until then goes.
            let _ = timeout(delay, more).await;
            let count = batch.len() as u64;
            let spans = group_spans_by_resource_and_scope(batch, &self.resource);
            let body = ExportTraceServiceRequest { resource_spans: spans }.encode_to_vec();
            let refused = self.deliver(&body, count).await;
            self.spans.counts.settle(count, refused);
            self.say_dropped();
        }
    }

    /// How many of so many spans nobody will get.
    async fn deliver(&mut self, body: &[u8], count: u64) -> u64 {
        for tries in 1..=TRIES {
            match self.post(body).await {
                Ok(rejected) => {
                    if self.failing.take().is_some() {
                        events::trace_export_recovered();
                        self.said_at = None;
                    }
                    return rejected.min(count);
                }
                Err(Failure { found, may_pass }) => {
                    if self.failing.as_ref() != Some(&found) {
                        events::trace_export_failed(&found);
                        self.failing = Some(found);
                    }
                    if !may_pass || tries == TRIES || *self.closing.borrow() {
                        return count;
                    }
                    self.wait(WAIT * (1 << (tries - 1))).await;
                }
            }
        }
        count
    }

    /// Waits before the next try; the last one comes at once when the daemon ends.
    async fn wait(&mut self, wait: Duration) {
        let spread = RandomState::new().hash_one(self.failing.as_deref()) % 1000;
        let wait = wait + wait.mul_f64(spread as f64 / 2000.0);
        let _ = timeout(wait, self.closing.wait_for(|is_closing| *is_closing)).await;
    }

    fn say_dropped(&mut self) {
        let now = self.clock.now().boot;
        if self.said_at.is_some_and(|said| now.since(said) < SAID_EVERY) {
            return;
        }
        let dropped = self.spans.counts.take_dropped();
        if dropped > 0 {
            events::spans_dropped(dropped);
            self.said_at = Some(now);
        }
    }

    /// Sends a batch. How many of it the other end did not take.
    async fn post(&mut self, body: &[u8]) -> Result<u64, Failure> {
        let client = match &self.client {
            Some(client) => client.clone(),
            None => self.client.insert(client(&self.settings)?).clone(),
        };
        let mut request = client.post(self.settings.endpoint.clone()).header(CONTENT_TYPE, "application/x-protobuf");
        let body = if self.settings.is_compressed {
            request = request.header(CONTENT_ENCODING, "gzip");
            gzip(body).map_err(|error| Failure::lasting(format!("compress spans: {error}")))?
        } else {
            body.to_vec()
        };
        let unsent = |error: reqwest::Error| Failure { found: describe(&error.without_url()), may_pass: true };
        let mut response = request.body(body).send().await.map_err(unsent)?;
        let status = response.status();
        if !status.is_success() {
            let may_pass = matches!(
                status,
                StatusCode::TOO_MANY_REQUESTS
                    | StatusCode::BAD_GATEWAY
                    | StatusCode::SERVICE_UNAVAILABLE
                    | StatusCode::GATEWAY_TIMEOUT
            );
            return Err(Failure { found: format!("the collector's answer is {status}"), may_pass });
        }
        let mut answer = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(unsent)? {
            answer.extend_from_slice(&chunk);
            if answer.len() > ANSWER_MOST {
                return Ok(0);
            }
        }
        // An answer that says nothing, or nothing that can be read, takes all.
        let answer = ExportTraceServiceResponse::decode(&answer[..]).unwrap_or_default();
        let rejected = answer.partial_success.map_or(0, |partial| partial.rejected_spans);
        Ok(u64::try_from(rejected).unwrap_or(0))
    }
}

fn gzip(body: &[u8]) -> io::Result<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(body)?;
    encoder.finish()
}

fn client(settings: &TraceSettings) -> Result<Client, Failure> {
    let mut headers = HeaderMap::new();
    for (key, value) in &settings.headers {
        // Both were looked at when they were read.
        if let (Ok(key), Ok(mut value)) =
            (HeaderName::from_bytes(key.as_bytes()), HeaderValue::from_str(value.expose()))
        {
            value.set_sensitive(true);
            headers.insert(key, value);
        }
    }
    let secure = settings.endpoint.scheme() == "https";
    let roots = if secure { roots(settings.authorities.as_deref())? } else { RootCertStore::empty() };
    let tls = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| Failure::lasting(error.to_string()))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Client::builder()
        .user_agent(concat!("onecron/", env!("CARGO_PKG_VERSION")))
        .default_headers(headers)
        .redirect(Policy::none())
        .http1_only()
        .timeout(settings.timeout)
        .connect_timeout(settings.timeout)
        .tls_backend_preconfigured(tls)
        .build()
        .map_err(|error| Failure::lasting(describe(&error.without_url())))
}

/// Whose word the collector's certificate is taken on.
fn roots(file: Option<&Path>) -> Result<RootCertStore, Failure> {
    let Some(file) = file else {
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        if roots.is_empty() {
            let found = "this host has no certificates of authorities: install `ca-certificates`, or name a file in \
                         OTEL_EXPORTER_OTLP_CERTIFICATE";
            return Err(Failure { found: found.to_owned(), may_pass: true });
        }
        return Ok(roots);
    };
    let failed = |found: String| Failure {
        found: format!("read the collector's authorities from `{}`: {found}", file.display()),
        may_pass: true,
    };
    // A pipe would be waited for.
    if fs::metadata(file).is_ok_and(|found| !found.is_file()) {
        return Err(failed("it is not a regular file".to_owned()));
    }
    let mut bytes = Vec::new();
    File::open(file)
        .and_then(|file| file.take(CA_FILE_BYTES_MOST).read_to_end(&mut bytes))
        .map_err(|error| failed(error.to_string()))?;
    authorities(&bytes).map_err(failed)
}

/// An error and its causes, without the words that only name a layer.
fn describe(error: &reqwest::Error) -> String {
    let mut words: Vec<String> = Vec::new();
    let mut next = error.source();
    while let Some(cause) = next {
        let text = cause.to_string();
        if !text.starts_with("client error (") && !words.iter().any(|word| word.contains(&text)) {
            words.push(text);
        }
        next = cause.source();
    }
    if words.is_empty() { error.to_string() } else { words.join(": ") }
}
