//! What the daemon says: one line per event, and the catalogue of events.
//!
//! Only `daemon` and `cli` call it. Modules at the edges return values and never log, so that a failure is said once,
//! by the one who decides what to do about it.

#[cfg(test)]
mod catalogue_tests;
pub mod events;
mod line;
pub mod logging;
pub mod metrics;
mod queue;
mod schema;
#[cfg(test)]
mod schema_tests;
pub mod traces;
