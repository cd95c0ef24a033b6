//! A run by hand, and the end of one.

use super::Actor;
use super::Refusal;
use super::apply_one;
use crate::chance;
use crate::job::Decision;
use crate::job::Expect;
use crate::job::JobName;
use crate::job::Order;
use crate::job::RunKey;
use crate::job::RunRecord;
use crate::job::Step;
use crate::job::StopReason;
use crate::job::Tick;
use crate::job::Verdict;
use crate::store::Store;
use std::time::Duration;
use tokio::time::sleep;

/// For so long after a restart of the store, or the first registration of a job, replicas come back by themselves.
pub(super) const STEADY_WITHIN: Duration = Duration::from_secs(15);
/// How often a run that is waited for is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// What is wanted of a job.
#[derive(Debug, Clone)]
pub struct Wanted {
    /// The job.
    pub job: JobName,
    /// See [`Order::key`].
    pub key: String,
    /// See [`Order::runs_for`].
    pub runs_for: Option<Tick>,
    /// See [`Order::despite_pause`].
    pub despite_pause: bool,
    /// Tells it from another order of the same millisecond.
    pub number: u16,
}

/// A number for [`Wanted::number`], another one each time.
pub fn number() -> u16 {
    u16::try_from(chance::number() >> 48).unwrap_or(0)
}

/// A run that stands in the store for whoever takes it.
#[derive(Debug, Clone)]
pub struct Ordered {
    /// The run.
    pub run: RunKey,
    /// Its record.
    pub record: RunRecord,
    /// An order with the same key had made it before.
    pub again: bool,
    /// How many replicas were there of late.
    pub replicas: usize,
    /// None of them has the job in its table.
    pub is_gone: bool,
}

/// Orders a run, and says so to the replicas. It returns when the store has it; whoever takes it does so later.
///
/// # Errors
/// Why there will be no run; after [`Refusal::Store`] there may be one: the same key asks again.
pub async fn order(store: &dyn Store, actor: &Actor, wanted: &Wanted) -> Result<Ordered, Refusal> {
    let job = &wanted.job;
    let (run, record, again, registered_at) = place(store, actor, wanted).await?;
    let gathering = actor.announce(store, (vec![run.to_string()], vec![job.to_string()])).await?;
    let is_gone = registered_at.is_some_and(|at| gathering.is_gone(job, at));
    Ok(Ordered { run, record, again, replicas: gathering.replicas().count(), is_gone })
}

/// Puts a run there for whoever takes it, and says so to nobody. With it: whether an order with the same key had made it before,
/// and when its job was registered last.
pub(super) async fn place(
    store: &dyn Store,
    actor: &Actor,
    wanted: &Wanted,
) -> Result<(RunKey, RunRecord, bool, Option<i64>), Refusal> {
    let job = &wanted.job;
    let mut waited = Duration::ZERO;
    loop {
        let at = store.server_time().await?.timestamp_millis();
        if let Some(ahead) = wanted.runs_for.filter(|runs_for| runs_for.millis() > at) {
            return Err(Refusal::Ahead { at: ahead, now: Tick::from_seconds(at.div_euclid(1000)) });
        }
        let run = RunKey::new(job.clone(), Tick::manual(at, wanted.number));
        let order = Order {
            run: run.clone(),
            owner: actor.name.clone(),
            by: actor.by.clone(),
            key: wanted.key.clone(),
            runs_for: wanted.runs_for,
            despite_pause: wanted.despite_pause,
        };
        let answer = apply_one(store, Step::Order(order)).await?;
        let pause = match (answer.verdict, answer.run, answer.job) {
            (Verdict::Ordered, Some(record), of_job) => {
                let found = record.key(job);
                let again = found != run;
                return Ok((found, record, again, of_job.map(|of_job| of_job.registered_at)));
            }
            (Verdict::Paused, _, Some(record)) => return Err(Refusal::paused(job, &record)),
            (Verdict::Unreadable { .. }, ..) => return Err(Refusal::Unreadable(job.clone())),
            // It is soon past, or somebody registers the job again.
            (Verdict::Forgot | Verdict::TooEarly { .. }, _, Some(record)) if waited < STEADY_WITHIN => {
                Duration::from_millis(u64::try_from(record.since - at + 1).unwrap_or(0)).max(LOOK_EVERY)
            }
            (Verdict::Unregistered, _, Some(_)) if waited < STEADY_WITHIN => LOOK_EVERY,
            (Verdict::Unregistered, _, Some(_)) => return Err(Refusal::NotRegistered(job.clone())),
            (Verdict::Unregistered, ..) => {
                return Err(Refusal::no_job(job, (store.url(), &store.jobs().await?)));
            }
            _ => return Err(Refusal::Forgot(job.clone())),
        };
        sleep(pause).await;
        waited += pause;
    }
}

/// Asks for the end of a run, wherever it is. Returns its record; it is over when its owner has stopped it.
///
/// # Errors
/// Why there is nothing to stop.
pub async fn cancel(store: &dyn Store, actor: &Actor, run: &RunKey) -> Result<RunRecord, Refusal> {
    let mut waited = Duration::ZERO;
    loop {
        let step = Step::AskStop { run: run.clone(), by: actor.by.clone(), reason: StopReason::Cancel };
        let answer = apply_one(store, step).await?;
        match (answer.verdict, answer.run, answer.job) {
            (Verdict::Asked, Some(record), _) => {
                if let Some(ended) = withdraw(store, actor, (run, &record)).await? {
                    return Ok(ended);
                }
                actor.announce(store, (vec![run.to_string()], vec![run.job.to_string()])).await?;
                return Ok(record);
            }
            (Verdict::Done, Some(record), _) => {
                return Err(Refusal::over(run, &record));
            }
            (Verdict::Unreadable { .. }, ..) => return Err(Refusal::Unreadable(run.job.clone())),
            (Verdict::Unregistered, _, Some(_)) if waited < STEADY_WITHIN => {
                sleep(LOOK_EVERY).await;
                waited += LOOK_EVERY;
            }
            (Verdict::Unregistered, _, Some(_)) => return Err(Refusal::NotRegistered(run.job.clone())),
            (Verdict::Unregistered, ..) => {
                return Err(Refusal::no_job(&run.job, (store.url(), &store.jobs().await?)));
            }
            _ => {
                let open = answer.open.iter().map(|record| record.key(&run.job)).collect();
                return Err(Refusal::NoRun { run: run.clone(), store: store.url().into(), open });
            }
        }
    }
}

/// Ends an order that nobody has taken; `None` where somebody has by now.
async fn withdraw(
    store: &dyn Store,
    actor: &Actor,
    (run, record): (&RunKey, &RunRecord),
) -> Result<Option<RunRecord>, Refusal> {
    if !record.is_order() {
        return Ok(None);
    }
    let settled = Step::Settle {
        run: run.clone(),
        owner: actor.name.clone(),
        previous: 0, // it is no tick: nothing follows on it
        expect: Expect::Unchanged(record.seen()),
        decision: Decision::Stopped(StopReason::Cancel),
    };
    let answer = apply_one(store, settled).await?;
    Ok(answer.run.filter(|record| record.outcome.is_some()))
}

/// Waits until a run is over, for so long at most. Returns its last record: where that has an outcome, it is over.
///
/// # Errors
/// The store did not answer, or does not know the run any more.
pub async fn until_over(store: &dyn Store, run: &RunKey, most: Duration) -> Result<RunRecord, Refusal> {
    let mut waited = Duration::ZERO;
    loop {
        let answer = apply_one(store, Step::Read { run: run.clone() }).await?;
        match answer.run {
            Some(record) if record.outcome.is_some() || waited >= most => return Ok(record),
            None if answer.verdict == Verdict::Read => {
                return Err(Refusal::NoRun { run: run.clone(), store: store.url().into(), open: Vec::new() });
            }
            None if waited >= most => return Err(Refusal::NotRegistered(run.job.clone())),
            _ => {}
        }
        sleep(LOOK_EVERY).await;
        waited += LOOK_EVERY;
    }
}
