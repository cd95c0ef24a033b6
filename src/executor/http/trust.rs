//! Whose word a server's certificate is taken on.

use crate::executor::spawn_error::SpawnError;
use crate::executor::spawn_error::is_shortage;
use crate::file;
use crate::file::Unread;
use crate::job::CA_FILE_BYTES_MOST;
use crate::job::authorities;
use rustls::ClientConfig;
use rustls::RootCertStore;
use rustls::crypto::ring;
use rustls_native_certs::ErrorKind;
use std::path::Path;
use std::path::PathBuf;
use std::sync::Arc;

/// The certificates that are trusted.
#[derive(Debug)]
pub(super) struct Trust {
    file: Option<PathBuf>,
    roots: Option<RootCertStore>,
}

/// Why nobody is trusted.
pub(super) enum Lack {
    /// Of descriptors or memory: it may pass.
    OfNow(String),
    /// There are none.
    OfCertificates(String),
}

impl Trust {
    /// Those of a file and no others, or the system's, which are read when they are needed: a request that is not
    /// encrypted must work on a host that has none.
    pub(super) fn of(file: Option<&Path>) -> Result<Self, SpawnError> {
        let roots = file.map(of_file).transpose()?;
        Ok(Self { file: file.map(Path::to_path_buf), roots })
    }

    /// The settings for a connection.
    pub(super) async fn config(&mut self, secure: bool) -> Result<ClientConfig, Lack> {
        if secure && self.roots.is_none() {
            let loaded = tokio::task::spawn_blocking(of_system).await;
            let panicked = |_| Err(Lack::OfCertificates("the system's certificates cannot be read".to_owned()));
            self.roots = Some(loaded.unwrap_or_else(panicked)?);
        }
        let roots = self.roots.clone().unwrap_or_else(RootCertStore::empty);
        let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
        let builder = builder.with_safe_default_protocol_versions();
        let builder = builder.map_err(|error| Lack::OfCertificates(error.to_string()))?;
        Ok(builder.with_root_certificates(roots).with_no_client_auth())
    }

    /// What to do about an error of TLS.
    pub(super) fn advice(&self, error: &str) -> String {
        // The last one: another authority that has the name of one that is trusted, as after a renewal.
        let is_unknown = ["UnknownIssuer", "CaUsedAsEndEntity", "BadSignature"].iter().any(|word| error.contains(word));
        match &self.file {
            Some(file) if is_unknown => {
                format!(" (`caFile: {}` has no certificate that vouches for it)", file.display())
            }
            None if is_unknown => " (a private authority has to be named: `caFile: /path/to/ca.pem`)".to_owned(),
            _ => String::new(),
        }
    }
}

fn of_file(path: &Path) -> Result<RootCertStore, SpawnError> {
    let unusable =
        |found: String| SpawnError::UnusableValue { subject: format!("`caFile: {}`", path.display()), found };
    let bytes = match file::read(path, CA_FILE_BYTES_MOST) {
        Ok(bytes) => bytes,
        Err(Unread::System(source)) if is_shortage(&source) => {
            return Err(SpawnError::Unread { path: path.to_path_buf(), source });
        }
        Err(Unread::System(error)) => return Err(unusable(format!("cannot be read: {error}"))),
        Err(_) => return Err(unusable("is no file of certificates".to_owned())),
    };
    authorities(&bytes).map_err(unusable)
}

fn of_system() -> Result<RootCertStore, Lack> {
    let found = rustls_native_certs::load_native_certs();
    let is_short =
        |error: &&rustls_native_certs::Error| matches!(&error.kind, ErrorKind::Io { inner, .. } if is_shortage(inner));
    if let Some(error) = found.errors.iter().find(is_short) {
        return Err(Lack::OfNow(format!("read the system's certificates: {error}")));
    }
    let mut roots = RootCertStore::empty();
    // One odd certificate among a hundred is no reason to trust none.
    roots.add_parsable_certificates(found.certs);
    if roots.is_empty() {
        let errors: Vec<String> = found.errors.iter().map(ToString::to_string).collect();
        let why = if errors.is_empty() { String::new() } else { format!(" ({})", errors.join("; ")) };
        return Err(Lack::OfCertificates(format!(
            "this host has no certificates of authorities{why}: install `ca-certificates`, or name a `caFile`"
        )));
    }
    Ok(roots)
}
