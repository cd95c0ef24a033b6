//! One server or many: what a batch is sent to.

use super::cluster::Cluster;
use super::command::Command;
use super::command::Sure;
use super::door::Door;
use super::failure::Failure;
use super::link::Link;
use super::link::Where;
use super::scripts::Scripts;
use super::url::Address;
use super::url::Mode;
use crate::store::Error;
use crate::store::Identity;
use crate::store::access::Access;
use crate::store::doing;
use crate::store::place::Place;
use redis::Value;
use std::sync::Arc;

/// See the module.
pub(super) struct Servers {
    door: Door,
    shown: String,
    pub scripts: Arc<Scripts>,
    to: To,
}

enum To {
    One(Box<Link>),
    Cluster(Cluster),
}

impl Servers {
    /// For a URL, with the key of the heartbeat that is left on a single server. Does not connect.
    ///
    /// # Errors
    /// What does not fit together.
    pub fn new(address: Address, access: &Access, heartbeat: String) -> Result<Self, String> {
        let shown = address.shown();
        let door = Door::new(address, access)?;
        let scripts = Arc::new(Scripts::new());
        let link = |to| To::One(Box::new(Link::new(door.clone(), to, Arc::clone(&scripts), Some(heartbeat))));
        let to = match &door.address().mode {
            Mode::One => link(Where::At(door.address().places[0].clone())),
            Mode::Sentinel { primary } => link(Where::Sentinels(primary.clone())),
            Mode::Cluster => To::Cluster(Cluster::new(door.clone(), Arc::clone(&scripts))),
        };
        Ok(Self { door, shown, scripts, to })
    }

    /// The URL without password.
    pub fn shown(&self) -> &str {
        &self.shown
    }

    pub fn door(&self) -> &Door {
        &self.door
    }

    /// How many replicas must confirm what is written.
    pub fn replicas_wanted(&self) -> u32 {
        match &self.to {
            To::One(link) => link.replicas_wanted(),
            To::Cluster(cluster) => cluster.replicas_wanted(),
        }
    }

    /// Sends commands and gives back one reply for each; or the first error among them. One round trip, if all are for
    /// one server.
    pub async fn query(
        &self,
        operation: &'static str,
        (commands, sure): (&[Command], Sure),
    ) -> Result<Vec<Value>, Error> {
        let commands: Vec<&Command> = commands.iter().collect();
        self.send(&commands, sure).await.map_err(|failure| self.error(operation, failure))
    }

    /// The same with some that must have been carried out before the others, also where they go to different servers.
    /// Gives back the replies to the others.
    pub async fn query_after(
        &self,
        operation: &'static str,
        (before, commands, sure): (&[Command], &[Command], Sure),
    ) -> Result<Vec<Value>, Error> {
        let is_apart = matches!(self.to, To::Cluster(_));
        if is_apart && !before.is_empty() {
            self.query(operation, (before, sure)).await?;
        }
        let here: Vec<&Command> = before.iter().filter(|_| !is_apart).chain(commands).collect();
        let replies = self.send(&here, sure).await.map_err(|failure| self.error(operation, failure))?;
        Ok(replies.into_iter().skip(here.len() - commands.len()).collect())
    }

    async fn send(&self, commands: &[&Command], sure: Sure) -> Result<Vec<Value>, Failure> {
        if commands.is_empty() {
            return Ok(Vec::new());
        }
        match &self.to {
            To::One(link) => link.send(commands, sure).await,
            To::Cluster(cluster) => cluster.send(commands, sure).await,
        }
    }

    /// Sends commands to each primary, wherever their keys belong, and gives back what each replied.
    pub async fn query_each(
        &self,
        operation: &'static str,
        commands: &[Command],
    ) -> Result<Vec<(Option<Place>, Vec<Value>)>, Error> {
        let commands: Vec<&Command> = commands.iter().collect();
        let asked = async {
            match &self.to {
                To::One(link) => Ok(vec![(None, link.send(&commands, Sure::Answered).await?)]),
                To::Cluster(cluster) => {
                    let commands = &commands;
                    let ask = |link: Arc<Link>| async move { link.send(commands, Sure::Answered).await };
                    let found = cluster.on_each(ask).await?;
                    Ok(found.into_iter().map(|(place, replies)| (Some(place), replies)).collect())
                }
            }
        };
        asked.await.map_err(|failure| self.error(operation, failure))
    }

    /// See [`Link::identity`].
    pub async fn identity(&self) -> Result<Identity, Error> {
        let found = match &self.to {
            To::One(link) => link.identity().await,
            To::Cluster(cluster) => cluster.identity().await,
        };
        found.map_err(|failure| self.error(doing::IDENTITY, failure))
    }

    fn error(&self, operation: &'static str, failure: Failure) -> Error {
        Error { kind: failure.kind, operation, store: self.shown.clone(), detail: failure.detail }
    }
}
