//! Where HTTP requests are answered.

use super::settings;
use super::settings::Refusal;
use crate::server;
use crate::server::DEFAULT_LISTEN;
use crate::server::Listen;
use crate::server::Tls;
use crate::server::TlsFiles;
use clap::ArgMatches;
use clap::Args;
use clap::ValueEnum;
use std::io;
use std::net::TcpListener;
use std::path::PathBuf;
use std::sync::Arc;

/// Where HTTP requests are answered.
#[derive(Debug, Clone, Args)]
pub struct ListenArgs {
    /// Where HTTP requests are answered, as 0.0.0.0:8080 or [::]:8080 for other machines too; none: nowhere
    #[arg(long, value_name = "ADDR", env = "ONECRON_LISTEN", default_value = DEFAULT_LISTEN)]
    #[arg(value_parser = str::parse::<Listen>)]
    pub listen: Listen,
    /// Certificate of the HTTP server as PEM, with those that vouch for it; it speaks TLS then, and nothing else
    #[arg(long, value_name = "FILE", env = "ONECRON_TLS_CERT_FILE")]
    pub tls_cert_file: Option<PathBuf>,
    /// Its key as PEM. Both files are read again when they change
    #[arg(long, value_name = "FILE", env = "ONECRON_TLS_KEY_FILE")]
    pub tls_key_file: Option<PathBuf>,
}

/// What a daemon must be to be ready.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum Readiness {
    /// The store answered once: a later outage of it changes nothing
    #[default]
    Latched,
    /// The store answers
    Strict,
}

/// A setting that is doubtful, and what to do instead.
type Doubt = (String, String);

impl ListenArgs {
    /// Reads certificate and key, where they are given.
    pub(super) fn tls(&self) -> Result<Option<Arc<Tls>>, Refusal> {
        let given = |file: &Option<PathBuf>| file.clone().filter(|file| !file.as_os_str().is_empty());
        let (certificate, key) = match (given(&self.tls_cert_file), given(&self.tls_key_file)) {
            (None, None) => return Ok(None),
            (Some(certificate), Some(key)) => (certificate, key),
            (Some(_), None) => {
                let hint = "add --tls-key-file /path/of/tls.key (ONECRON_TLS_KEY_FILE)";
                return Err(Refusal::new("--tls-cert-file is given without --tls-key-file", hint));
            }
            (None, Some(_)) => {
                let hint = "add --tls-cert-file /path/of/tls.crt (ONECRON_TLS_CERT_FILE)";
                return Err(Refusal::new("--tls-key-file is given without --tls-cert-file", hint));
            }
        };
        let hint = "write the chain of certificates and the key as PEM, such as `kubectl create secret tls` takes them";
        let tls = Tls::open(TlsFiles { certificate, key }).map_err(|problem| Refusal::new(problem, hint))?;
        Ok(Some(Arc::new(tls)))
    }

    /// Takes the address. One that was chosen must be free; the default may be taken, by another daemon of this host for
    /// example, and is then done without. `given` tells arguments from variables and defaults.
    pub(super) fn bind(&self, given: &ArgMatches) -> Result<(Option<TcpListener>, Option<Doubt>), Refusal> {
        let Listen::At(address) = self.listen else { return Ok((None, None)) };
        let failed = |error: io::Error| format!("listen for HTTP requests on {address}: {error}");
        match server::bind(address).map_err(failed) {
            Ok(listener) => Ok((Some(listener), None)),
            Err(found) if settings::weight(given, "listen") == 0 => {
                let detail = format!(
                    "{found}: no HTTP request is answered; write --listen ADDR for another address, or \
                                      --listen none"
                );
                Ok((None, Some(("--listen".to_owned(), detail))))
            }
            Err(found) => Err(Refusal::new(found, "choose another port, as --listen 127.0.0.1:8081, or --listen none")),
        }
    }
}
