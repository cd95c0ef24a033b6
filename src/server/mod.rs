//! What a daemon answers over HTTP: probes, metrics, JSON and a page for people. A thread and a runtime of its own.
//!
//! ```text
//!   daemon ── Board (what it is doing) ──►  routes.rs ─► health.rs
//!   listen.rs ─► serve.rs: connections ──►
//! ```
//!
//! Nothing in here can hold up the scheduler. It is never waited for: what the daemon says goes to a [`Board`], which is
//! read from there. What comes from clients is bounded in number, size and time (`serve.rs`).

mod board;
mod health;
mod listen;
mod problem;
mod routes;
mod serve;

pub use board::Board;
pub use board::Files;
pub use board::Refused;
pub use board::Standing;
pub use board::StoreState;
pub use listen::DEFAULT_LISTEN;
pub use listen::Listen;
pub use listen::bind;
pub use serve::Server;

use crate::clock::Clock;
use std::fmt;
use std::sync::Arc;

/// Metrics in the text format of Prometheus.
pub type RenderMetrics = Arc<dyn Fn() -> String + Send + Sync>;

/// What answers are made of.
#[derive(Clone)]
pub struct Parts {
    /// What the daemon is doing.
    pub board: Arc<Board>,
    /// What tells the time.
    pub clock: Arc<dyn Clock>,
    /// Writes `/metrics`; without it there is no such path.
    pub metrics: Option<RenderMetrics>,
}

impl fmt::Debug for Parts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Parts").field("board", &self.board).finish_non_exhaustive()
    }
}
