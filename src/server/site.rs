//! What all answers are made of.

use super::Parts;
use super::fleet::Fleet;
use super::token::Token;
use super::view;
use super::view::Job;
use super::view::Status;
use crate::admin::ReplicaView;
use crate::clock::Now;
use std::sync::Arc;
use tokio::sync::Semaphore;

/// So many actions are carried out at once.
const ACTIONS: usize = 4;

/// See the module.
pub struct Site {
    pub parts: Parts,
    pub fleet: Arc<Fleet>,
    pub token: Token,
    /// Of those who read, where not everybody may.
    pub read_token: Option<Token>,
    pub actions: Semaphore,
}

/// Everything at one moment.
pub struct Look {
    pub now: Now,
    pub status: Status,
    pub jobs: Vec<Job>,
    pub replicas: Vec<ReplicaView>,
    /// The last ones that are not there any more.
    pub past: Vec<ReplicaView>,
}

impl Site {
    /// Of a daemon.
    pub fn new(parts: Parts) -> Self {
        let fleet = Fleet::new(Arc::clone(&parts.store), Arc::clone(&parts.board), Arc::clone(&parts.clock));
        let token = Token::new(parts.token_file.clone());
        let read_token = parts.read_token_file.clone().map(|file| Token::new(Some(file)));
        Self { parts, fleet: Arc::new(fleet), token, read_token, actions: Semaphore::new(ACTIONS) }
    }

    /// Everything as it is now, or was when the store told last.
    pub async fn look(&self) -> Look {
        let seen = self.fleet.see().await;
        let (now, standing) = (self.parts.clock.now(), self.parts.board.standing());
        let jobs = view::jobs(&seen, &standing.table, now.wall);
        let ready = self.parts.board.is_ready();
        let status = Status::of((&self.parts.me, self.fleet.url()), (&standing, ready), (&seen, &jobs), now);
        Look { now, status, jobs, replicas: view::replicas(&seen), past: view::past(&seen) }
    }
}

impl Look {
    /// A job by its name.
    pub fn job(&self, name: &str) -> Option<&Job> {
        // They are in the order of their names.
        self.jobs.binary_search_by(|job| job.name.as_str().cmp(name)).ok().map(|place| &self.jobs[place])
    }
}
