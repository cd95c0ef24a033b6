//! What can go wrong between a replica and its store.

/// What became of the request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorKind {
    /// Nothing was sent: nothing happened.
    NotSent,
    /// It was sent and not answered, or answered with an error: it may have been applied. Never a verdict.
    MaybeApplied,
    /// It was refused by a server that takes no writes: a replica, a primary until a moment ago, or one that is set so.
    /// Nothing happened.
    ReadOnly,
    /// It was applied, and not confirmed by as many replicas as must have it: a failover may undo it. Asked again, it is
    /// answered once they have it.
    NotDurable,
    /// The store refuses all requests until an operator changes a setting (credentials, rights, format).
    Misconfigured,
}

impl ErrorKind {
    /// The word in logs.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::NotSent => "not_sent",
            Self::MaybeApplied => "maybe_applied",
            Self::ReadOnly => "read_only",
            Self::NotDurable => "not_durable",
            Self::Misconfigured => "misconfigured",
        }
    }
}

/// A failed request. "Somebody else has it" is never one of these.
#[derive(Debug, thiserror::Error)]
#[error("{operation} on {store}: {detail}")]
pub struct Error {
    /// What became of the request.
    pub kind: ErrorKind,
    /// What was being done, see [`doing`](super::doing).
    pub operation: &'static str,
    /// The store's URL without password.
    pub store: String,
    /// What was found.
    pub detail: String,
}
