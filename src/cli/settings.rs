//! Where the settings of a daemon come from: arguments, variables, files, the pod, the host.

use crate::file;
use crate::file::Unread;
use crate::job::Namespace;
use crate::job::ReplicaId;
use crate::secret::Secret;
use crate::server;
use crate::telemetry::logging::Place;
use clap::ArgMatches;
use clap::parser::ValueSource;
use std::env;
use std::fmt::Write;
use std::fs;
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// Where Kubernetes tells a pod its namespace.
const POD_NAMESPACE_FILE: &str = "/var/run/secrets/kubernetes.io/serviceaccount/namespace";
/// A store's URL is shorter.
const URL_BYTES_MOST: u64 = 4096;

/// A setting that cannot be used: what was found and what to write instead.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Refusal {
    pub message: String,
    pub hint: String,
}

impl Refusal {
    pub(super) fn new(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { message: message.into(), hint: hint.into() }
    }
}

/// A variable that is there and not empty: an empty one is what Compose makes of one that is not set.
fn variable(name: &str) -> Option<String> {
    env::var(name).ok().filter(|value| !value.is_empty())
}

/// How strongly a setting was meant: an argument wins over a variable, that over a default.
pub(super) fn weight(given: &ArgMatches, id: &str) -> u8 {
    match given.value_source(id) {
        Some(ValueSource::CommandLine) => 2,
        Some(ValueSource::EnvVariable) => 1,
        _ => 0,
    }
}

/// The store's URL, and what is doubtful about the way it was given.
#[derive(Debug)]
pub(super) struct StoreUrl {
    pub url: Secret<String>,
    pub doubt: Option<(String, String)>,
}

/// Finds the store's URL among `--store`, `--store-file`, their variables and the default.
pub(super) fn store_url(url: &str, file: Option<&Path>, given: &ArgMatches) -> Result<StoreUrl, Refusal> {
    let by_url = if url.is_empty() { 0 } else { weight(given, "store") };
    let file = file.filter(|file| !file.as_os_str().is_empty());
    let by_file = if file.is_some() { weight(given, "store_file") } else { 0 };
    if by_url > 0 && by_url == by_file {
        let (url, file) =
            if by_url == 2 { ("--store", "--store-file") } else { ("ONECRON_STORE", "ONECRON_STORE_FILE") };
        return Err(Refusal::new(format!("{url} and {file} are both given"), "leave one of them out"));
    }
    if let Some(file) = file.filter(|_| by_file > by_url) {
        return Ok(StoreUrl { url: Secret::new(read_url(file)?), doubt: None });
    }
    if by_url == 0 && env::var_os("KUBERNETES_SERVICE_HOST").is_some() {
        return Err(Refusal::new(
            "no store is given, and the default serves one host only: in Kubernetes every pod would run every job",
            "set ONECRON_STORE=redis://host:6379, or ONECRON_STORE_FILE to a mounted secret; to have a file of one pod \
             on purpose, name it: ONECRON_STORE=sqlite:onecron.db",
        ));
    }
    let doubt = (by_url == 2 && has_password(url)).then(|| {
        let detail = "a password in an argument can be read by every user of this host, and stays in the shell's \
                      history: write the URL into a file and use --store-file, or set ONECRON_STORE";
        ("--store".to_owned(), detail.to_owned())
    });
    let url = if by_url == 0 { super::store_args::DEFAULT_STORE } else { url };
    Ok(StoreUrl { url: Secret::new(url.to_owned()), doubt })
}

fn has_password(url: &str) -> bool {
    let Some((_, rest)) = url.split_once("://") else { return false };
    rest.rsplit_once('@')
        .is_some_and(|(user, _)| user.split_once(':').is_some_and(|(_, password)| !password.is_empty()))
}

/// Looks whether a file has a token, so that a daemon does not start that nobody can act upon though somebody should.
pub(super) fn check_token(file: &Path) -> Result<(), Refusal> {
    let shown = file.display();
    let hint = "write one word of at least 16 letters and digits into it, such as `openssl rand -hex 32` prints";
    server::token::read(file)
        .map(drop)
        .map_err(|error| Refusal::new(format!("read the token of the HTTP API from `{shown}`: {error}"), hint))
}

fn read_url(path: &Path) -> Result<String, Refusal> {
    let shown = path.display();
    let hint = "the file holds the store's URL in its first line, such as redis://:password@host:6379";
    let text = file::read_text(path, URL_BYTES_MOST).map_err(|error| {
        let hint = match error {
            Unread::NotRegular => "write the URL into a file, or set ONECRON_STORE",
            _ => hint,
        };
        Refusal::new(format!("read the store's URL from `{shown}`: {error}"), hint)
    })?;
    let mut lines = text.trim_end().lines();
    match (lines.next().map(str::trim), lines.next()) {
        (Some(url), None) if !url.is_empty() => Ok(url.to_owned()),
        (_, Some(_)) => Err(Refusal::new(format!("`{shown}` has more than one line"), hint)),
        _ => Err(Refusal::new(format!("`{shown}` is empty"), hint)),
    }
}

/// The namespace that was given, or the pod's, or `default`.
pub(super) fn namespace(given: Option<&str>) -> Result<Namespace, Refusal> {
    let given = given.filter(|text| !text.is_empty()).map(str::to_owned);
    let pods = || fs::read_to_string(POD_NAMESPACE_FILE).ok().map(|text| text.trim().to_owned());
    let text = given.or_else(pods).or_else(|| variable("POD_NAMESPACE")).unwrap_or_else(|| "default".to_owned());
    Namespace::new(&text).map_err(|error| {
        Refusal::new(format!("namespace `{}`: {error}", text.escape_debug()), "write it as --namespace batch-jobs")
    })
}

/// Who this process is: a name for people, and a nonce that no other start of it has.
pub(super) fn replica(instance: Option<&str>) -> Result<ReplicaId, Refusal> {
    let given = instance.filter(|text| !text.is_empty()).map(str::to_owned);
    let host = || nix::unistd::gethostname().ok()?.into_string().ok();
    let name = given.or_else(|| variable("POD_NAME")).or_else(host).unwrap_or_else(|| "onecron".to_owned());
    Ok(ReplicaId::new(&name, &nonce()?))
}

/// Where this process is, as the downward API of Kubernetes and Google Cloud usually tell it.
pub(super) fn place() -> Place {
    // Nothing there is longer; whatever else is in such a variable must not make every line long.
    const CHARS_MOST: usize = 253;
    let known = |name: &str| variable(name).map(|value| value.chars().take(CHARS_MOST).collect());
    Place {
        pod: known("POD_NAME"),
        namespace: known("POD_NAMESPACE"),
        node: known("NODE_NAME"),
        project: known("GOOGLE_CLOUD_PROJECT"),
    }
}

/// Who calls, for people: the user and the host.
pub(super) fn person() -> String {
    let user = ["USER", "LOGNAME"].into_iter().find_map(variable);
    let by_id = || nix::unistd::User::from_uid(nix::unistd::getuid()).ok()?.map(|user| user.name);
    let user = user.or_else(by_id).unwrap_or_else(|| nix::unistd::getuid().to_string());
    let host = nix::unistd::gethostname().ok().and_then(|name| name.into_string().ok());
    let host = variable("POD_NAME").or(host).unwrap_or_else(|| "unknown".to_owned());
    format!("{user}@{host}").split_whitespace().collect()
}

/// Eight hexadecimal digits from the system's random numbers.
pub(super) fn nonce() -> Result<String, Refusal> {
    let mut bytes = [0_u8; 4];
    File::open("/dev/urandom").and_then(|mut file| file.read_exact(&mut bytes)).map_err(|error| {
        Refusal::new(format!("read a random number from `/dev/urandom`: {error}"), "mount /dev into the container")
    })?;
    Ok(bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_seen_in_a_url_and_a_user_is_none() {
        for (url, found) in [
            ("redis://:secret@cache", true),
            ("redis://app:secret@cache:6379/0", true),
            ("redis://app:s@cret@cache", true),
            ("redis://app@cache", false),
            ("redis://app:@cache", false),
            ("redis://cache:6379/0", false),
            ("sqlite:/data/a:b@c.db", false),
        ] {
            assert_eq!(has_password(url), found, "{url}");
        }
    }

    #[test]
    fn two_starts_have_different_nonces() {
        let (first, second) = (nonce().unwrap(), nonce().unwrap());
        assert_ne!(first, second);
        assert_eq!(first.len(), 8);
    }
}
