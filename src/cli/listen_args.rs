//! Where HTTP requests are answered.

use super::settings;
use super::settings::Refusal;
use crate::server;
use crate::server::DEFAULT_LISTEN;
use crate::server::Listen;
use clap::ArgMatches;
use clap::Args;
use clap::ValueEnum;
use std::io;
use std::net::TcpListener;

/// Where HTTP requests are answered.
#[derive(Debug, Clone, Args)]
pub struct ListenArgs {
    /// Where HTTP requests are answered, as 0.0.0.0:8080 or [::]:8080 for other machines too; none: nowhere
    #[arg(long, value_name = "ADDR", env = "ONECRON_LISTEN", default_value = DEFAULT_LISTEN)]
    #[arg(value_parser = str::parse::<Listen>)]
    pub listen: Listen,
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
