//! The thread that sends spans away: in batches, with a limit on everything. A collector that is down costs the spans that
//! do not fit into the queue meanwhile, and nothing else.

use super::settings::TraceSettings;
use super::spool::Counts;
use super::spool::Spans;
use crate::causes;
use crate::chance;
use crate::clock::Boot;
use crate::clock::Clock;
use crate::file;
use crate::job::CA_FILE_BYTES_MOST;
use crate::job::authorities;
use crate::telemetry::events;
use crate::telemetry::metrics::SpanLoss;
use flate2::Compression;
use flate2::write::GzEncoder;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTracePartialSuccess;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceResponse;
use opentelemetry_proto::transform::common::tonic::ResourceAttributesWithSchema;
use opentelemetry_proto::transform::trace::tonic::group_spans_by_resource_and_scope;
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::SdkTracerProvider;
use prost::Message;
use prost::bytes::Bytes;
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
use std::io;
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
/// How long to wait before the second try; twice as long before each further one. Up to a half more or less.
const WAIT: Duration = Duration::from_secs(1);
/// So often at most it is said that spans were dropped, while that goes on.
const SAID_EVERY: Duration = Duration::from_secs(60);
/// More of an answer is not read.
const ANSWER_MOST: usize = 64 << 10;
/// More of what a collector says is not logged.
const WORDS_MOST: usize = 300;

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
            rejecting: None,
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
    /// Made when the first batch is sent, and again after one that found no way to the collector: authorities are read for it, and
    /// may be others by then.
    client: Option<Client>,
    spans: Spans,
    closing: watch::Receiver<bool>,
    clock: Arc<dyn Clock>,
    /// How the last post failed.
    failing: Option<String>,
    /// What the collector said of spans that it did not take, or took with a warning.
    rejecting: Option<String>,
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
            let body = Packed::of(ExportTraceServiceRequest { resource_spans: spans }.encode_to_vec(), &self.settings);
            let lost = self.deliver(&body, count).await;
            self.spans.counts.settle(count, lost);
            self.say_dropped();
        }
    }

    /// How many of so many spans nobody will get, and why.
    async fn deliver(&mut self, body: &Packed, count: u64) -> (u64, SpanLoss) {
        for tries in 1..=TRIES {
            match self.post(body).await {
                Ok(partial) => {
                    if self.failing.take().is_some() {
                        events::trace_export_recovered();
                        self.said_at = None;
                    }
                    return (self.rejected(partial).min(count), SpanLoss::Rejected);
                }
                Err(Failure { found, may_pass }) => {
                    if self.failing.as_ref() != Some(&found) {
                        events::trace_export_failed(&found);
                        self.failing = Some(found);
                    }
                    if !may_pass || tries == TRIES || *self.closing.borrow() {
                        return (count, SpanLoss::Undelivered);
                    }
                    self.wait(WAIT * (1 << (tries - 1))).await;
                }
            }
        }
        (count, SpanLoss::Undelivered)
    }

    /// How many the collector did not take; what it says of that is said once, until it takes all without a word.
    fn rejected(&mut self, partial: ExportTracePartialSuccess) -> u64 {
        let spans = u64::try_from(partial.rejected_spans).unwrap_or(0);
        let words = words(&partial.error_message, &self.settings);
        if spans == 0 && words.is_empty() {
            self.rejecting = None;
        } else if self.rejecting.as_ref() != Some(&words) {
            events::spans_rejected(spans, &words);
            self.rejecting = Some(words);
        }
        spans
    }

    /// Waits before the next try; the last one comes at once when the daemon ends.
    async fn wait(&mut self, wait: Duration) {
        let _ = timeout(chance::around(wait, 0.5), self.closing.wait_for(|is_closing| *is_closing)).await;
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

    /// Sends a batch. What the other end did not take of it.
    async fn post(&mut self, body: &Packed) -> Result<ExportTracePartialSuccess, Failure> {
        let client = match &self.client {
            Some(client) => client.clone(),
            None => self.client.insert(client(&self.settings)?).clone(),
        };
        let mut request = client.post(self.settings.endpoint.clone()).header(CONTENT_TYPE, "application/x-protobuf");
        if body.is_compressed {
            request = request.header(CONTENT_ENCODING, "gzip");
        }
        let unsent = |error: reqwest::Error| Failure { found: causes::found(&error.without_url()), may_pass: true };
        let sent = request.body(body.bytes.clone()).send().await;
        self.client.take_if(|_| sent.as_ref().is_err_and(reqwest::Error::is_connect));
        let mut response = sent.map_err(unsent)?;
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
                return Ok(ExportTracePartialSuccess::default());
            }
        }
        // An answer that says nothing, or nothing that can be read, takes all.
        let answer = ExportTraceServiceResponse::decode(&answer[..]).unwrap_or_default();
        Ok(answer.partial_success.unwrap_or_default())
    }
}

/// A batch as it is sent, at each try.
struct Packed {
    bytes: Bytes,
    is_compressed: bool,
}

impl Packed {
    fn of(plain: Vec<u8>, settings: &TraceSettings) -> Self {
        // It is in memory already, and cannot fail; if it did, a plain one is as good.
        let gzip = settings.is_compressed.then(|| gzip(&plain).ok()).flatten();
        let is_compressed = gzip.is_some();
        Self { bytes: gzip.unwrap_or(plain).into(), is_compressed }
    }
}

/// What a collector says, as it may be logged: one short line, without what it was sent as a header.
fn words(text: &str, settings: &TraceSettings) -> String {
    let values = settings.headers.iter().map(|(_, value)| value.expose()).filter(|value| !value.is_empty());
    let text = values.fold(text.to_owned(), |text, value| text.replace(value, "***"));
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    line.chars().filter(|c| !c.is_control()).take(WORDS_MOST).collect()
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
        .map_err(|error| Failure::lasting(causes::chain(&error)))?
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
        .map_err(|error| Failure::lasting(causes::found(&error.without_url())))
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
    let bytes = file::read(file, CA_FILE_BYTES_MOST).map_err(|error| failed(error.to_string()))?;
    authorities(&bytes).map_err(failed)
}
