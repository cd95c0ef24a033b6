//! What a daemon answers over HTTP: probes, metrics, JSON and a page for people. A thread and a runtime of its own.
//!
//! ```text
//!   daemon ── Board (what it is doing) ──────────────►  site.rs ◄─ fleet.rs ◄── Store
//!   listen.rs ─► serve.rs: connections (tls.rs) ─► routes.rs (gzip.rs, token.rs) ─► health.rs, api.rs (with view.rs), actions.rs (with token.rs)
//! ```
//!
//! Nothing in here can hold up the scheduler. It is never waited for: what the daemon says goes to a [`Board`], which is
//! read from there. What comes from clients is bounded in number, size and time (`serve.rs`).

mod actions;
mod api;
mod board;
mod fleet;
mod gzip;
mod health;
mod listen;
mod page;
mod problem;
mod routes;
mod segment;
mod serve;
mod site;
mod tls;
pub mod token;
mod turn;
mod view;

pub use board::Board;
pub use board::Files;
pub use board::Refused;
pub use board::Standing;
pub use board::StoreState;
pub use listen::DEFAULT_LISTEN;
pub use listen::Listen;
pub use listen::bind;
pub use serve::Server;
pub use tls::Tls;
pub use tls::TlsFiles;
pub use view::Identity;

use crate::clock::Clock;
use crate::store::Store;
use crate::telemetry::metrics::Metrics;
use site::Site;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

/// What answers are made of.
#[derive(Clone)]
pub struct Parts {
    /// What the daemon is doing.
    pub board: Arc<Board>,
    /// What tells the time.
    pub clock: Arc<dyn Clock>,
    /// What the fleet is read from and acted upon through: best a connection of its own.
    pub store: Arc<dyn Store>,
    /// Who this is.
    pub me: Identity,
    /// Where the token of those is who may act; without it, nobody may.
    pub token_file: Option<PathBuf>,
    /// Where the token of those is who may read; without it, everybody may.
    pub read_token_file: Option<PathBuf>,
    /// What connections are encrypted with; without it, they are not.
    pub tls: Option<Arc<Tls>>,
    /// Counts requests, and writes `/metrics`.
    pub metrics: Arc<Metrics>,
}

impl fmt::Debug for Parts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Parts").field("board", &self.board).finish_non_exhaustive()
    }
}
