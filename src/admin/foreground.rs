//! A run by hand that whoever asks for it carries out: ordered, claimed and begun in one go, before a replica hears of it.
//!
//! It waits for nothing that is alive. Where another run has the job, that is the answer, whatever the job's policy is for
//! ticks: a person is there, and can ask again.

use super::Actor;
use super::Refusal;
use super::apply_one;
use super::runs::STEADY_WITHIN;
use super::runs::Wanted;
use super::runs::cancel;
use super::runs::place;
use crate::clock::Boot;
use crate::clock::Clock;
use crate::job::Answer;
use crate::job::Claim;
use crate::job::Decision;
use crate::job::Ending;
use crate::job::Expect;
use crate::job::JobName;
use crate::job::JobSpec;
use crate::job::MissedReason;
use crate::job::Outcome;
use crate::job::RunKey;
use crate::job::RunRecord;
use crate::job::RunState;
use crate::job::SkipReason;
use crate::job::Step;
use crate::job::StopReason;
use crate::job::Tick;
use crate::job::Trigger;
use crate::job::Verdict;
use crate::job::WhenBusy;
use crate::store::Store;
use std::time::Duration;
use tokio::time::sleep;

/// A claim that is not begun within this is anybody's.
const TAKEOVER: Duration = Duration::from_secs(5);
/// How often it is asked again whether a run that gives no sign of life is out of the way.
const ASK_EVERY: Duration = Duration::from_millis(500);
/// For how long: with the lease and the grace built in, a dead replica's run is out of the way by then.
const ASK_FOR: Duration = Duration::from_secs(60);

/// A run that this process has begun.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Begun {
    /// The run.
    pub run: RunKey,
    /// The number of its begin.
    pub start: u32,
    /// Its fencing token.
    pub token: u64,
    /// The instant that it runs for.
    pub scheduled_for: Tick,
    /// The latest tick of the job that succeeded.
    pub last_success: Option<Tick>,
    /// When the begin was first sent: the lease counts from here.
    pub sent: Boot,
}

/// Takes a run of a job for this process, under the terms of a definition and a lease. From then on it is to be renewed, and
/// its end to be recorded.
///
/// Cancel safety: dropping the future leaves what it has come to, and a replica would carry that out: [`withdraw_own`].
///
/// # Errors
/// Why nothing is to be run; [`Refusal::Busy`] where another run, or another replica, has the job. After
/// [`Refusal::Store`] a replica may run the job, or it is recorded as lost.
pub async fn begin_here(
    (store, clock): (&dyn Store, &dyn Clock),
    actor: &Actor,
    wanted: &Wanted,
    (spec, lease): (&JobSpec, Duration),
) -> Result<Begun, Refusal> {
    let (run, ..) = place(store, actor, wanted).await?;
    let terms = Claim::of(&run, &actor.name, spec, (lease, TAKEOVER, Trigger::Manual));
    // Also where ticks may overlap: then the store itself begins it only while nothing else is going.
    let terms = Claim { exclusive: true, when_busy: WhenBusy::Skip, ..terms };
    let answer = apply_one(store, Step::Claim(terms)).await?;
    if answer.verdict != Verdict::Won {
        return Err(refused(&run, &answer));
    }
    let taken = Taken { store, actor, run };
    // Before the begin: should this process die, replicas know where to look.
    actor.announce(store, (vec![taken.run.to_string()], vec![wanted.job.to_string()])).await?;
    taken.begin(clock).await
}

/// Ends what a dropped [`begin_here`] has left of a run. Returns which, where there is one.
///
/// # Errors
/// The store did not answer: a replica may run it, or it is recorded as lost.
pub async fn withdraw_own(store: &dyn Store, actor: &Actor, job: &JobName) -> Result<Option<RunKey>, Refusal> {
    // Any run of the job: the answer has all that are open.
    let any = RunKey::new(job.clone(), Tick::manual(0, 0));
    let found = apply_one(store, Step::Read { run: any }).await?;
    let Some(run) = found.open.iter().find(|run| run.owner == actor.name).map(|run| run.key(job)) else {
        return Ok(None);
    };
    let record = cancel(store, actor, &run).await?;
    let owner = actor.name.clone();
    let rest = match record.state {
        _ if record.outcome.is_some() => return Ok(Some(run)),
        RunState::Begun => {
            let ending = Ending {
                outcome: Outcome::Cancelled,
                exit_code: None,
                signal: None,
                http_status: None,
                duration_ms: 0,
                error: "asked to stop before it was started".to_owned(),
                output_tail: String::new(),
            };
            Step::Complete { run: run.clone(), owner, start: record.start, ending }
        }
        _ => {
            let (expect, decision) = (Expect::Own(owner.clone()), Decision::Stopped(StopReason::Cancel));
            Step::Settle { run: run.clone(), owner, previous: 0, expect, decision }
        }
    };
    apply_one(store, rest).await?;
    Ok(Some(run))
}

struct Taken<'a> {
    store: &'a dyn Store,
    actor: &'a Actor,
    run: RunKey,
}

impl Taken<'_> {
    async fn begin(&self, clock: &dyn Clock) -> Result<Begun, Refusal> {
        let Self { store, actor, run } = self;
        let first = clock.now().boot;
        for request in 1_u32.. {
            let sent = clock.now().boot;
            let (run, owner, request) = (run.clone(), actor.name.clone(), request.to_string());
            let answer = apply_one(*store, Step::Begin { run: run.clone(), owner, start: 0, request }).await?;
            if let (Verdict::Begun, Some(record)) = (answer.verdict, &answer.run) {
                let last_success = answer.job.as_ref().and_then(|job| job.last_success);
                let (start, token, scheduled_for) = (record.start, record.token, record.told_for());
                return Ok(Begun { run, start, token, scheduled_for, last_success, sent });
            }
            let waits_for = match answer.verdict {
                Verdict::Busy { renewed: false, .. } | Verdict::Quiet => ASK_FOR,
                Verdict::Unregistered => STEADY_WITHIN,
                _ => Duration::ZERO,
            };
            if clock.now().boot.since(first) >= waits_for {
                return Err(self.give_up(&answer).await);
            }
            sleep(ASK_EVERY).await;
        }
        unreachable!("nobody asks so often")
    }

    /// Records that it is not run, so that nobody else runs it later.
    async fn give_up(&self, answer: &Answer) -> Refusal {
        let decision = match answer.verdict {
            Verdict::Busy { .. } => Some(Decision::Skipped(SkipReason::Overlap)),
            Verdict::Paused => Some(Decision::Skipped(SkipReason::Paused)),
            Verdict::StopAsked => Some(Decision::Stopped(StopReason::Cancel)),
            Verdict::Quiet | Verdict::Forgot => Some(Decision::Missed(MissedReason::StoreForgot)),
            _ => None,
        };
        if let Some(decision) = decision {
            let owner = self.actor.name.clone();
            let (run, expect) = (self.run.clone(), Expect::Own(owner.clone()));
            let settled = apply_one(self.store, Step::Settle { run, owner, previous: 0, expect, decision }).await;
            if let Err(error) = settled {
                return error.into();
            }
        }
        refused(&self.run, answer)
    }
}

/// Why a claim or a begin came to nothing.
fn refused(run: &RunKey, answer: &Answer) -> Refusal {
    let job = &run.job;
    let had_by = |record: &RunRecord| Refusal::Busy { run: record.key(job), holder: record.owner.clone() };
    match (answer.verdict, &answer.run, &answer.job) {
        (Verdict::Busy { occupant, .. }, ..) => {
            let other = answer.open.iter().find(|other| other.scheduled_for == occupant);
            other.map_or_else(|| Refusal::Forgot(job.clone()), had_by)
        }
        (Verdict::Held | Verdict::Fenced, Some(record), _) => had_by(record),
        (Verdict::Paused, _, Some(record)) => Refusal::paused(job, record),
        (Verdict::StopAsked, ..) => Refusal::Over { run: run.clone(), outcome: "cancelled".to_owned() },
        (Verdict::Done, Some(record), _) => Refusal::over(run, record),
        (Verdict::Unregistered, ..) => Refusal::NotRegistered(job.clone()),
        (Verdict::Unreadable { .. }, ..) => Refusal::Unreadable(job.clone()),
        _ => Refusal::Forgot(job.clone()),
    }
}

#[cfg(test)]
mod tests;
