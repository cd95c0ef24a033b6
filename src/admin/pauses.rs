//! That nothing is started, of some jobs or of all.

use super::Actor;
use super::Refusal;
use super::apply;
use super::meet;
use crate::job::JobName;
use crate::job::JobRecord;
use crate::job::Pause;
use crate::job::Presence;
use crate::job::Step;
use crate::job::Verdict;
use crate::store::Store;

/// How many jobs an announcement names.
const NAMED_MOST: usize = 500;

/// What became of one job.
#[derive(Debug, Clone)]
pub struct Changed {
    /// The job.
    pub job: JobName,
    /// Whether it was otherwise before.
    pub changed: bool,
    /// Its record now.
    pub record: JobRecord,
}

/// Pauses jobs.
///
/// # Errors
/// Nothing is paused where one of them is not known.
pub async fn pause(
    store: &dyn Store,
    actor: &Actor,
    (jobs, reason): (&[JobName], &str),
) -> Result<Vec<Changed>, Refusal> {
    let pause = Pause::new(&actor.by, reason);
    write(store, actor, (known(store, jobs).await?, false, Some(pause))).await
}

/// Lets jobs go on.
///
/// # Errors
/// No job goes on where one of them is not known.
pub async fn resume(store: &dyn Store, actor: &Actor, jobs: &[JobName]) -> Result<Vec<Changed>, Refusal> {
    write(store, actor, (known(store, jobs).await?, false, None)).await
}

/// Pauses all jobs, also those that are registered later: the mark comes first, so that replicas finish what is left
/// undone here.
///
/// # Errors
/// The store did not answer; the mark may stand.
pub async fn pause_all(store: &dyn Store, actor: &Actor, reason: &str) -> Result<Vec<Changed>, Refusal> {
    let found = store.meet(None, &[]).await?.members.iter().find_map(|member| member.pause());
    if found.is_none() {
        meet(store, &Presence { number: 1, ..Presence::pause_of_all(&actor.by, reason) }).await?;
    }
    let pause = found.unwrap_or_else(|| Pause::new(&actor.by, reason));
    write(store, actor, (store.jobs().await?, true, Some(pause))).await
}

/// Ends that. Jobs that are paused themselves stay so.
///
/// # Errors
/// The store did not answer; jobs may go on.
pub async fn resume_all(store: &dyn Store, actor: &Actor) -> Result<Vec<Changed>, Refusal> {
    store.leave(&Presence::all_paused()).await?;
    write(store, actor, (store.jobs().await?, true, None)).await
}

/// The records of these jobs.
async fn known(store: &dyn Store, names: &[JobName]) -> Result<Vec<(JobName, JobRecord)>, Refusal> {
    let jobs = store.jobs().await?;
    let mut names = names.to_vec();
    names.sort();
    names.dedup();
    let find = |name: &JobName| {
        let found = jobs.iter().find(|(known, _)| known == name).cloned();
        found.ok_or_else(|| Refusal::no_job(name, (store.url(), &jobs)))
    };
    names.iter().map(find).collect()
}

/// Writes or ends a pause where it is not so already: who paused a job first is remembered.
async fn write(
    store: &dyn Store,
    actor: &Actor,
    (jobs, all, pause): (Vec<(JobName, JobRecord)>, bool, Option<Pause>),
) -> Result<Vec<Changed>, Refusal> {
    let is_so = |record: &JobRecord| {
        let found = if all { &record.all_paused } else { &record.paused };
        found.is_some() == pause.is_some()
    };
    let step = |job: &JobName| Step::Pause { job: job.clone(), all, pause: pause.clone(), only_if: None };
    let (left, wanted): (Vec<_>, Vec<_>) = jobs.into_iter().partition(|(_, record)| is_so(record));
    let steps: Vec<Step> = wanted.iter().map(|(job, _)| step(job)).collect();
    let mut done: Vec<Changed> =
        left.into_iter().map(|(job, record)| Changed { job, changed: false, record }).collect();
    for ((job, _), answer) in wanted.into_iter().zip(apply(store, &steps).await?) {
        match (answer.verdict, answer.job) {
            (Verdict::Unreadable { .. }, _) => return Err(Refusal::Unreadable(job)),
            (_, Some(record)) => done.push(Changed { job, changed: true, record }),
            (_, None) => {} // retired in between
        }
    }
    let changed = done.iter().filter(|done| done.changed).take(NAMED_MOST);
    let names: Vec<String> = changed.map(|changed| changed.job.to_string()).collect();
    if !names.is_empty() {
        actor.announce(store, (Vec::new(), names)).await?;
    }
    done.sort_by(|one, other| one.job.cmp(&other.job));
    Ok(done)
}
