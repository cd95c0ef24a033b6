//! Tracing as the standard variables say it, and no other: <https://opentelemetry.io/docs/specs/otel/configuration/sdk-environment-variables/>.
//!
//! Off unless an endpoint is set. What is set and cannot be done is never done silently: each is a doubt, that the daemon
//! says at its start. No value of a header is ever shown.

use crate::percent;
use crate::secret::Secret;
use crate::secret::without_password;
use opentelemetry_sdk::trace::Sampler;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;
use url::Url;

const ENDPOINT: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";
const TRACES_ENDPOINT: &str = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT";
const RESOURCE: &str = "OTEL_RESOURCE_ATTRIBUTES";
const SAMPLER: &str = "OTEL_TRACES_SAMPLER";
const SAMPLER_ARG: &str = "OTEL_TRACES_SAMPLER_ARG";
/// What this daemon has no use for, or cannot do, and why.
const UNSUPPORTED: [(&str, &str); 3] = [
    ("OTEL_EXPORTER_OTLP_CLIENT_KEY", "client certificates are not sent to a collector"),
    ("OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE", "client certificates are not sent to a collector"),
    ("OTEL_CONFIG_FILE", "there is no configuration by file"),
];
/// The specification's default, and the most that is taken.
const TIMEOUT: (u64, u64) = (10_000, 60_000);
const QUEUE: (u64, u64) = (2048, 65_536);
const BATCH: (u64, u64) = (512, 8192);
const DELAY: (u64, u64) = (5000, 60_000);

/// A setting that is doubtful, and what to write instead.
pub type Doubt = (String, String);

/// Where the spans of runs go, and which.
#[derive(Debug, Clone)]
pub struct TraceSettings {
    /// Where they are posted to.
    pub(super) endpoint: Url,
    /// Along with these.
    pub(super) headers: Vec<(String, Secret<String>)>,
    /// How long a post may take.
    pub(super) timeout: Duration,
    pub(super) is_compressed: bool,
    /// Who vouches for the collector, where it is not the system's authorities.
    pub(super) authorities: Option<PathBuf>,
    pub(super) sampler: Sampler,
    /// How the sampler was called.
    pub(super) sampler_word: String,
    /// Whether jobs are told their trace.
    pub is_handed_on: bool,
    /// What the variables say of this program; none of them is called `service.name`, but for the first.
    pub(super) service: String,
    pub(super) resource: Vec<(String, String)>,
    /// How many spans wait at most.
    pub(super) queue: usize,
    /// How many go in one post.
    pub(super) batch: usize,
    /// How long the first of them waits for others.
    pub(super) delay: Duration,
}

impl TraceSettings {
    /// The endpoint as it may be shown.
    pub(super) fn shown(&self) -> String {
        let mut shown = self.endpoint.clone();
        shown.set_query(None);
        without_password(shown.as_str())
    }
}

/// Reads the variables.
struct Reader<'a> {
    variable: &'a dyn Fn(&str) -> Option<String>,
    doubts: Vec<Doubt>,
}

/// What the variables say; `None`: no traces. An empty variable counts as one that is not set, as the specification has it.
pub fn read(variable: &dyn Fn(&str) -> Option<String>) -> (Option<TraceSettings>, Vec<Doubt>) {
    let mut reader = Reader { variable, doubts: Vec::new() };
    let settings = reader.settings();
    (settings, reader.doubts)
}

impl Reader<'_> {
    fn settings(&mut self) -> Option<TraceSettings> {
        if let Some(word) = self.get("OTEL_SDK_DISABLED") {
            if word.eq_ignore_ascii_case("true") {
                return None;
            }
            if !word.is_empty() && !word.eq_ignore_ascii_case("false") {
                self.doubt("OTEL_SDK_DISABLED", format_args!("`{word}` is taken as false: write true or false"));
            }
        }
        let (name, endpoint) = self.either(TRACES_ENDPOINT, ENDPOINT)?;
        if !self.is_exporter_otlp() || !self.is_protocol_http() {
            return None;
        }
        let endpoint = self.endpoint(name, &endpoint)?;
        for (name, why) in UNSUPPORTED {
            if self.get(name).is_some() {
                self.doubt(name, why);
            }
        }
        let compression = self.either("OTEL_EXPORTER_OTLP_TRACES_COMPRESSION", "OTEL_EXPORTER_OTLP_COMPRESSION");
        let is_compressed = compression.is_some_and(|(name, word)| match word.as_str() {
            "gzip" => true,
            "none" => false,
            _ => self.doubt(name, format!("`{word}` is not known, and nothing is compressed: write gzip or none")),
        });
        let (sampler, sampler_word) = self.sampler();
        let mut resource = self.resource();
        let named = resource.iter().position(|(key, _)| key == "service.name").map(|at| resource.remove(at).1);
        let service = self.get("OTEL_SERVICE_NAME").or(named).unwrap_or_else(|| "onecron".to_owned());
        let (queue, batch) =
            (self.number("OTEL_BSP_MAX_QUEUE_SIZE", QUEUE), self.number("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", BATCH));
        let authorities = self.either("OTEL_EXPORTER_OTLP_TRACES_CERTIFICATE", "OTEL_EXPORTER_OTLP_CERTIFICATE");
        Some(TraceSettings {
            endpoint,
            headers: self.headers(),
            timeout: self.timeout(),
            is_compressed,
            authorities: authorities.map(|(_, file)| file.into()),
            sampler,
            sampler_word,
            is_handed_on: self.is_handed_on(),
            service,
            resource,
            queue: usize::try_from(queue).unwrap_or(usize::MAX),
            batch: usize::try_from(batch.min(queue)).unwrap_or(usize::MAX),
            delay: Duration::from_millis(self.number("OTEL_BSP_SCHEDULE_DELAY", DELAY)),
        })
    }

    fn get(&self, name: &str) -> Option<String> {
        (self.variable)(name).map(|value| value.trim().to_owned()).filter(|value| !value.is_empty())
    }

    /// The one that is for traces alone, or the one for everything; with its name.
    fn either(&self, special: &'static str, general: &'static str) -> Option<(&'static str, String)> {
        [special, general].into_iter().find_map(|name| Some((name, self.get(name)?)))
    }

    /// Always false: what is doubtful is not done.
    fn doubt(&mut self, name: &str, detail: impl fmt::Display) -> bool {
        self.doubts.push((name.to_owned(), detail.to_string()));
        false
    }

    fn is_exporter_otlp(&mut self) -> bool {
        let name = "OTEL_TRACES_EXPORTER";
        match self.get(name).as_deref() {
            None | Some("otlp") => true,
            Some("none") => false,
            Some(word) => self.doubt(name, format!("there is no `{word}`, and no trace is sent: write otlp or none")),
        }
    }

    fn is_protocol_http(&mut self) -> bool {
        let found = self.either("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL");
        let Some((name, word)) = found else { return true };
        match word.as_str() {
            "http/protobuf" => true,
            "http/json" => {
                self.doubt(name, "spans are sent as http/protobuf, which every receiver of http/json takes too");
                true
            }
            _ => self.doubt(
                name,
                format!(
                    "there is no `{word}`, and no trace is sent: write http/protobuf, and the port for it in the endpoint \
                     (4318 where grpc has 4317)"
                ),
            ),
        }
    }

    fn endpoint(&mut self, name: &'static str, text: &str) -> Option<Url> {
        match Url::parse(text).ok().filter(|url| ["http", "https"].contains(&url.scheme()) && url.has_host()) {
            // In front of a query, where there is one.
            Some(mut url) if name == ENDPOINT => {
                url.set_path(&format!("{}/v1/traces", url.path().trim_end_matches('/')));
                Some(url)
            }
            Some(url) => Some(url),
            None => {
                let shown = without_password(text);
                let example =
                    if name == ENDPOINT { "http://collector:4318" } else { "http://collector:4318/v1/traces" };
                self.doubt(
                    name,
                    format!("`{shown}` is no address of HTTP, and no trace is sent: write it as {example}"),
                );
                None
            }
        }
    }

    fn headers(&mut self) -> Vec<(String, Secret<String>)> {
        let found = self.either("OTEL_EXPORTER_OTLP_TRACES_HEADERS", "OTEL_EXPORTER_OTLP_HEADERS");
        let Some((name, text)) = found else { return Vec::new() };
        let mut headers = Vec::new();
        for (at, pair) in pairs(&text).enumerate() {
            let usable = pair.filter(|(key, value)| {
                reqwest::header::HeaderName::from_bytes(key.as_bytes()).is_ok()
                    && reqwest::header::HeaderValue::from_str(value).is_ok()
            });
            match usable {
                Some((key, value)) => headers.push((key, Secret::new(value))),
                None => {
                    let which = at + 1;
                    self.doubt(
                        name,
                        format!("header {which} is left out: write key=value,key=value, with %2C for a comma"),
                    );
                }
            }
        }
        headers
    }

    fn resource(&mut self) -> Vec<(String, String)> {
        let Some(text) = self.get(RESOURCE) else { return Vec::new() };
        let mut attributes = Vec::new();
        for (at, pair) in pairs(&text).enumerate() {
            match pair {
                Some(pair) => attributes.push(pair),
                None => {
                    let which = at + 1;
                    let detail =
                        format!("attribute {which} is left out: write key=value,key=value, with %2C for a comma");
                    self.doubt(RESOURCE, detail);
                }
            }
        }
        attributes
    }

    fn sampler(&mut self) -> (Sampler, String) {
        let usual = || (Sampler::ParentBased(Box::new(Sampler::AlwaysOn)), "parentbased_always_on".to_owned());
        let Some(word) = self.get(SAMPLER) else { return usual() };
        let sampler = match word.as_str() {
            "always_on" => Sampler::AlwaysOn,
            "always_off" => Sampler::AlwaysOff,
            "traceidratio" => Sampler::TraceIdRatioBased(self.ratio()),
            "parentbased_always_on" => return usual(),
            "parentbased_always_off" => Sampler::ParentBased(Box::new(Sampler::AlwaysOff)),
            "parentbased_traceidratio" => Sampler::ParentBased(Box::new(Sampler::TraceIdRatioBased(self.ratio()))),
            _ => {
                let known = "always_on, always_off, traceidratio, or one of these with parentbased_ in front of it";
                self.doubt(SAMPLER, format!("there is no `{word}`, and all runs are sampled: write {known}"));
                return usual();
            }
        };
        (sampler, word)
    }

    fn ratio(&mut self) -> f64 {
        let Some(text) = self.get(SAMPLER_ARG) else { return 1.0 };
        match text.parse::<f64>().ok().filter(|ratio| (0.0..=1.0).contains(ratio)) {
            Some(ratio) => ratio,
            None => {
                self.doubt(
                    SAMPLER_ARG,
                    format!("`{text}` is no part of one, and all runs are sampled: write it as 0.25"),
                );
                1.0
            }
        }
    }

    fn timeout(&mut self) -> Duration {
        let names = ("OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", "OTEL_EXPORTER_OTLP_TIMEOUT");
        let name = self.either(names.0, names.1).map_or(names.1, |(name, _)| name);
        Duration::from_millis(self.number(name, TIMEOUT))
    }

    /// From 1 to the most; or the usual.
    fn number(&mut self, name: &str, (usual, most): (u64, u64)) -> u64 {
        let Some(text) = self.get(name) else { return usual };
        match text.parse::<u64>().ok().filter(|number| (1..=most).contains(number)) {
            Some(number) => number,
            None => {
                self.doubt(name, format!("`{text}` is not used, but {usual}: write a whole number from 1 to {most}"));
                usual
            }
        }
    }

    fn is_handed_on(&mut self) -> bool {
        let name = "OTEL_PROPAGATORS";
        let Some(text) = self.get(name) else { return true };
        let words: Vec<&str> = text.split(',').map(str::trim).collect();
        if words.contains(&"tracecontext") || words == ["none"] {
            return words != ["none"];
        }
        self.doubt(name, format!("jobs are told of no trace by `{text}`: write tracecontext, or none"))
    }
}

/// `key=value,key=value` as in W3C Baggage, percent encoding undone; `None` for what is no pair.
fn pairs(text: &str) -> impl Iterator<Item = Option<(String, String)>> {
    text.split(',').filter(|pair| !pair.trim().is_empty()).map(|pair| {
        let (key, value) = pair.split_once('=')?;
        let (key, value) = (percent::decoded(key.trim()).ok()?, percent::decoded(value.trim()).ok()?);
        (!key.is_empty()).then_some((key, value))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(variables: &[(&str, &str)]) -> (Option<TraceSettings>, Vec<Doubt>) {
        let variables: Vec<(String, String)> =
            variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        read(&|name| variables.iter().find(|(other, _)| other == name).map(|(_, value)| value.clone()))
    }

    const HERE: (&str, &str) = (ENDPOINT, "http://collector:4318");

    #[test]
    fn without_an_endpoint_nothing_is_traced_and_nothing_is_said() {
        for variables in [&[][..], &[(ENDPOINT, "")], &[("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")], &[(SAMPLER, "odd")]] {
            let (settings, doubts) = of(variables);
            assert!(settings.is_none() && doubts.is_empty(), "{variables:?}");
        }
        for off in [("OTEL_SDK_DISABLED", "True"), ("OTEL_TRACES_EXPORTER", "none")] {
            let (settings, doubts) = of(&[HERE, off]);
            assert!(settings.is_none() && doubts.is_empty(), "{off:?}");
        }
        assert!(of(&[HERE, ("OTEL_SDK_DISABLED", "false")]).0.is_some());
        let (settings, doubts) = of(&[HERE, ("OTEL_SDK_DISABLED", "1")]);
        assert!(settings.is_some() && doubts.len() == 1, "{doubts:?}");
    }

    #[test]
    fn a_general_endpoint_gets_the_path_and_one_for_traces_is_taken_as_it_is() {
        let endpoint = |variables: &[(&str, &str)]| of(variables).0.unwrap().endpoint.to_string();
        assert_eq!(endpoint(&[HERE]), "http://collector:4318/v1/traces");
        assert_eq!(
            endpoint(&[(ENDPOINT, "https://otlp.example.org/otlp/")]),
            "https://otlp.example.org/otlp/v1/traces"
        );
        assert_eq!(
            endpoint(&[(ENDPOINT, "https://otlp.example.org/otlp/?tenant=a/b")]),
            "https://otlp.example.org/otlp/v1/traces?tenant=a/b"
        );
        assert_eq!(endpoint(&[(ENDPOINT, "http://collector:4318?x=1")]), "http://collector:4318/v1/traces?x=1");
        assert_eq!(endpoint(&[HERE, (TRACES_ENDPOINT, "http://other:1/in")]), "http://other:1/in");
    }

    #[test]
    fn what_is_not_said_is_as_the_specification_has_it() {
        let settings = of(&[HERE]).0.unwrap();
        assert_eq!((settings.timeout, settings.delay), (Duration::from_secs(10), Duration::from_secs(5)));
        assert_eq!((settings.queue, settings.batch, settings.is_compressed), (2048, 512, false));
        assert_eq!((settings.service.as_str(), settings.sampler_word.as_str()), ("onecron", "parentbased_always_on"));
        assert!(settings.is_handed_on);
    }

    #[test]
    fn headers_and_attributes_are_pairs_and_their_secrets_are_not_shown() {
        let (settings, doubts) = of(&[
            HERE,
            ("OTEL_EXPORTER_OTLP_HEADERS", "Authorization=Basic%20hunter2, x-team = a%2Cb ,,"),
            (RESOURCE, "service.name=other,team=night%20shift"),
            ("OTEL_SERVICE_NAME", "batch"),
        ]);
        let settings = settings.unwrap();
        assert_eq!(doubts, []);
        let headers: Vec<_> =
            settings.headers.iter().map(|(key, value)| (key.as_str(), value.expose().as_str())).collect();
        assert_eq!(headers, [("Authorization", "Basic hunter2"), ("x-team", "a,b")]);
        assert_eq!(settings.service, "batch");
        assert_eq!(settings.resource, [("team".to_owned(), "night shift".to_owned())]);
        assert!(!format!("{settings:?}").contains("hunter2"));
        let named = of(&[HERE, (RESOURCE, "service.name=other")]).0.unwrap();
        assert_eq!(named.service, "other");
    }

    #[test]
    fn what_cannot_be_done_is_said_and_what_to_write_instead() {
        for (name, value, is_on, hint) in [
            ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc", false, "http/protobuf"),
            ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "http/json", true, "http/protobuf"),
            ("OTEL_TRACES_EXPORTER", "zipkin", false, "otlp"),
            (TRACES_ENDPOINT, "collector:4318", false, "http://collector:4318/v1/traces"),
            ("OTEL_EXPORTER_OTLP_COMPRESSION", "zstd", true, "gzip"),
            ("OTEL_EXPORTER_OTLP_TIMEOUT", "10s", true, "from 1 to 60000"),
            ("OTEL_EXPORTER_OTLP_HEADERS", "hunter2", true, "key=value"),
            ("OTEL_EXPORTER_OTLP_HEADERS", "a=hunter2%0a", true, "key=value"),
            ("OTEL_EXPORTER_OTLP_CLIENT_KEY", "/key", true, "client certificates"),
            (RESOURCE, "hunter2%2", true, "key=value"),
            (SAMPLER, "jaeger_remote", true, "traceidratio"),
            ("OTEL_BSP_MAX_QUEUE_SIZE", "0", true, "whole number"),
            ("OTEL_PROPAGATORS", "b3", true, "tracecontext"),
        ] {
            let (settings, doubts) = of(&[HERE, (name, value)]);
            assert_eq!(settings.is_some(), is_on, "{name}={value}");
            let [(setting, detail)] = &doubts[..] else { panic!("{name}={value}: {doubts:?}") };
            assert!(setting == name && detail.contains(hint) && !detail.contains("hunter2"), "{detail}");
        }
        let (_, doubts) = of(&[HERE, (SAMPLER, "traceidratio"), (SAMPLER_ARG, "1.5")]);
        assert!(doubts[0].1.contains("0.25"), "{doubts:?}");
        let (_, doubts) = of(&[(ENDPOINT, "rabbit://app:hunter2@collector")]);
        assert!(!doubts[0].1.contains("hunter2"), "{doubts:?}");
    }

    #[test]
    fn jobs_are_told_their_trace_unless_nobody_wants_that() {
        let is_handed_on = |text: &str| of(&[HERE, ("OTEL_PROPAGATORS", text)]).0.unwrap().is_handed_on;
        assert!(is_handed_on("baggage, tracecontext"));
        assert!(!is_handed_on("none"));
    }
}
