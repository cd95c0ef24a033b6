//! What the servers do differently: the only things that the rest of this folder asks for.

use super::Failure;
use super::link::Link;
use super::link::Marks;
use super::target::Target;
use crate::store::Probe;
use crate::store::place::Place;
use async_trait::async_trait;
use std::fmt;

/// A connection that was just made, and how this server is asked who it is.
pub struct Connected {
    /// The connection.
    pub link: Box<dyn Link>,
    /// The query of [`super::table::Look`]: the clock, in milliseconds; who the server is; why it takes no writes (empty: it does).
    pub look: String,
}

/// One kind of server.
#[async_trait]
pub trait Dialect: Send + Sync + fmt::Debug {
    /// How places for values are written.
    fn marks(&self) -> Marks;

    /// Begins a transaction whose statements see what others committed before them, and whose waits have an end. All
    /// that it sets is gone with it: behind a pooler the next transaction may be on another connection.
    fn begin(&self) -> &'static str;

    /// Ends it. What was acknowledged stays.
    fn commit(&self) -> &'static str;

    /// The end of an `INSERT`: where a row with the same key is there, these columns are overwritten.
    fn or_update(&self, key: &[&str], columns: &[&str]) -> String;

    /// What brings the tables from one version to the next, oldest first. Thousands are forms that an older program
    /// cannot use, the rest are additions that it leaves alone.
    fn migrations(&self) -> &'static [(i64, &'static str)];

    /// Whether a change of tables ends the transaction that it is made in.
    fn changes_end_transactions(&self) -> bool;

    /// Whether the failure says that a table, column or index is already there.
    fn is_there_already(&self, failure: &Failure) -> bool;

    /// A query for the names of the tables that begin with `onecron_`, in the one place where a connection looks for tables.
    fn tables(&self) -> &'static str;

    /// Says more of why the first table could not be made, where the server can be asked.
    async fn explain(&self, _link: &mut dyn Link, failure: Failure) -> Failure {
        failure
    }

    /// Connects to one host.
    async fn connect(&self, target: &Target, host: &Place) -> Result<Connected, Failure>;

    /// Looks at the settings.
    async fn probe(&self, link: &mut dyn Link) -> Result<Probe, Failure>;

    /// What an error means.
    fn classify(&self, error: &sqlx::Error) -> Failure;
}
