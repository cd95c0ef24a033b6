//! What the stores of documents have in common: texts under keys, each with a version that grows with every change of
//! it, and a way to change one only if it still has the version that was read.

use crate::store::ErrorKind;
use crate::store::Probe;
use async_trait::async_trait;

/// With fewer servers none can be lost: what most of them have is what all have.
pub(super) const MEMBERS_LEAST: usize = 3;

/// A text and its version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Document {
    pub text: String,
    pub version: u64,
}

/// What was read.
#[derive(Debug, Clone, Default)]
pub(super) struct Found {
    /// In the order of the keys; `None` where there is none.
    pub documents: Vec<Option<Document>>,
    /// What tells this server, or this life of it, from another, where it says so by itself.
    pub server: String,
    /// How many documents it has evicted in this life.
    pub evicted: u64,
}

/// What is to be there before something is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Expect {
    /// Whatever it is.
    Anything,
    /// That version; 0: nothing.
    Version(u64),
}

impl Expect {
    pub fn what_was_found(document: Option<&Document>) -> Self {
        Self::Version(document.map_or(0, |document| document.version))
    }
}

/// A change of one document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Write {
    pub key: String,
    pub expect: Expect,
    /// `None`: the document is removed.
    pub text: Option<String>,
}

/// Changes that belong together, in their order. A backend that can makes all of them or none; one that cannot stops at
/// the first that finds something else than it expects.
pub(super) type Group = Vec<Write>;

/// A failure, before it is known what it was for.
#[derive(Debug, Clone)]
pub(super) struct Failure {
    pub kind: ErrorKind,
    pub detail: String,
}

impl Failure {
    pub fn new(kind: ErrorKind, detail: impl Into<String>) -> Self {
        Self { kind, detail: detail.into() }
    }
}

/// A store of documents. Methods have an end: each takes a few seconds at most.
#[async_trait]
pub(super) trait Backend: Send + Sync {
    /// The URL without secrets.
    fn shown(&self) -> &str;

    /// How long the history of a job may become, bytes: with the job's other documents it must fit into one request.
    fn history_bytes_most(&self) -> usize;

    /// Reads what is there after all that was acknowledged before: `first`, and not before that `then`. Gives back all, in
    /// this order.
    async fn read(&self, first: &[String], then: &[String]) -> Result<Found, Failure>;

    /// Reads all documents below a prefix that ends with `/`.
    async fn list(&self, prefix: &str) -> Result<Vec<(String, Document)>, Failure>;

    /// Makes changes; says of each group how many of its first ones were made before one found something else.
    async fn write(&self, groups: Vec<Group>) -> Result<Vec<usize>, Failure>;

    /// Looks at the settings, and at what the account may do with keys that begin with `prefix`.
    async fn probe(&self, prefix: &str) -> Result<Probe, Failure>;
}

/// A key below a prefix that no document has: what is tried with it does no harm.
pub(super) fn unused(prefix: &str) -> String {
    format!("{prefix}rights/none")
}

/// What an account lacks, in words, where a reading and a writing were tried. Whatever else is wrong with them is not about
/// rights, and is told by what it keeps from being done.
///
/// # Errors
/// Nobody was asked, or who asked is not known there: then nothing is known of rights.
pub(super) fn lacking<R, W>(
    (who, prefix): (&str, &str),
    read: Result<R, Failure>,
    written: Result<W, Failure>,
) -> Result<Option<String>, Failure> {
    let what = match (is_denied(read)?, is_denied(written)?) {
        (false, false) => return Ok(None),
        (false, true) => "write",
        (true, false) => "read",
        (true, true) => "read or write",
    };
    Ok(Some(format!("the {who} may not {what} below `{prefix}`")))
}

fn is_denied<T>(tried: Result<T, Failure>) -> Result<bool, Failure> {
    match tried {
        Err(failure) if failure.detail.to_ascii_lowercase().contains("permission denied") => Ok(true),
        Err(failure) if matches!(failure.kind, ErrorKind::NotSent | ErrorKind::Misconfigured) => Err(failure),
        _ => Ok(false),
    }
}
