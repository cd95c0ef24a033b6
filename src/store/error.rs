//! What can go wrong between a replica and its store.

/// What became of the request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorKind {
    /// Nothing was sent: nothing happened.
    NotSent,
    /// It was sent and not answered, or answered with an error: it may have been applied. Never a verdict.
    MaybeApplied,
    /// The store refuses all requests until an operator changes a setting (credentials, rights, format).
    Misconfigured,
}

/// A failed request. "Somebody else has it" is never one of these.
#[derive(Debug, thiserror::Error)]
#[error("{operation} on {store}: {detail}")]
pub struct Error {
    /// What became of the request.
    pub kind: ErrorKind,
    /// What was being done.
    pub operation: &'static str,
    /// The store's URL without password.
    pub store: String,
    /// What was found.
    pub detail: String,
}
