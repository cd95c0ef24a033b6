//! What people ask of a fleet, through its store: a run by hand, the end of one, that nothing is started. No daemon has
//! to be reached for it: replicas obey the records, and learn from a presence where to look at once.

mod condition;
mod foreground;
mod past;
mod pauses;
mod refusal;
mod runs;
mod views;
mod why;
mod words;

pub use condition::Condition;
pub use condition::trouble;
pub use foreground::Begun;
pub use foreground::begin_here;
pub use foreground::withdraw_own;
pub use pauses::Changed;
pub use pauses::pause;
pub use pauses::pause_all;
pub use pauses::resume;
pub use pauses::resume_all;
pub use refusal::Refusal;
pub use runs::Ordered;
pub use runs::Wanted;
pub use runs::cancel;
pub use runs::number;
pub use runs::order;
pub use runs::until_over;
pub use views::FleetView;
pub use views::JobView;
pub use views::PauseView;
pub use views::ReplicaView;
pub use views::RunView;
pub use views::fleet;
pub use views::job;
pub use views::run;
pub use views::silence;
pub use why::Account;
pub use why::why;
pub use why::why_run;
pub use words::words;

use crate::job::Answer;
use crate::job::Gathering;
use crate::job::Presence;
use crate::job::ReplicaId;
use crate::job::Step;
use crate::store::BATCH_MOST;
use crate::store::Error;
use crate::store::ErrorKind;
use crate::store::Store;
use crate::store::doing;
use std::time::Duration;
use tokio::time::sleep;

/// How often a request without an answer is sent again: steps are idempotent.
const TRIES: u32 = 4;
/// The pause in between.
const TRY_AGAIN: Duration = Duration::from_millis(300);

/// Who asks.
#[derive(Debug, Clone)]
pub struct Actor {
    /// The name of this call among the presences: no other has it.
    pub name: ReplicaId,
    /// Who that is, for people: `ada@web-1`.
    pub by: String,
}

impl Actor {
    /// Says where to look. Whoever meets the others learns of it; it goes away by itself.
    async fn announce(&self, store: &dyn Store, (runs, jobs): (Vec<String>, Vec<String>)) -> Result<Gathering, Error> {
        let number = 1;
        let mine = Presence {
            number,
            runs,
            some_jobs: jobs.into(),
            by: self.by.clone(),
            ..Presence::new(self.name.clone(), Presence::COMMAND)
        };
        meet(store, &mine).await
    }
}

async fn meet(store: &dyn Store, mine: &Presence) -> Result<Gathering, Error> {
    let mut tries = 1;
    loop {
        match store.meet(Some(mine), &[]).await {
            Err(error) if error.kind != ErrorKind::Misconfigured && tries < TRIES => sleep(TRY_AGAIN).await,
            result => return result,
        }
        tries += 1;
    }
}

async fn apply(store: &dyn Store, steps: &[Step]) -> Result<Vec<Answer>, Error> {
    let mut answers = Vec::with_capacity(steps.len());
    for batch in steps.chunks(BATCH_MOST) {
        let mut tries = 1;
        let found = loop {
            match store.apply(batch).await {
                Err(error) if error.kind != ErrorKind::Misconfigured && tries < TRIES => sleep(TRY_AGAIN).await,
                result => break result?,
            }
            tries += 1;
        };
        answers.extend(found);
    }
    Ok(answers)
}

async fn apply_one(store: &dyn Store, step: Step) -> Result<Answer, Error> {
    let operation = doing::step(&step);
    let answers = apply(store, &[step]).await?;
    answers.into_iter().next().ok_or_else(|| Error {
        kind: ErrorKind::MaybeApplied,
        operation,
        store: store.url().into(),
        detail: "no answer to a step".into(),
    })
}
