//! What each step does to a job's records: the contract of all stores as one pure function.
//!
//! Read it as a state machine of a run:
//!
//! ```text
//!  (none) ──claim──► claimed ──begin──► begun ──complete──► done
//!    │                │  ▲  ▲            │ ▲ └─ begin (retry): start + 1
//!    │                │  │  └─ claim ────┤ │
//!  settle         abandon└─ abandoned ◄──┘ └─ renew: number + 1
//!    │                                   │ unchanged for a lease: settle(Lost)
//!    ▼                                   ▼
//!   done ◄──────── settle(Drained) ──── lost ──claim (Rerun, unchanged for G + M)──► claimed
//! ```
//!
//! `ask_stop` marks any open run: from then on it neither begins nor is started again, and its owner stops it.
//!
//! `begin` is the fence: it demands owner and start, so a claim that was taken over can never start. `lost` keeps the
//! run open and its slot draining until its owner says that it ended, or nobody can be running it any more.

mod former;
mod guard;
mod manual;
mod settling;
mod slot;
mod stale;

use super::Identity;
use crate::job::Answer;
use crate::job::Claim;
use crate::job::EARLY_TOLERANCE_MS;
use crate::job::Ending;
use crate::job::FORMAT;
use crate::job::HistoryEntry;
use crate::job::JobRecord;
use crate::job::Outcome;
use crate::job::Registration;
use crate::job::ReplicaId;
use crate::job::RunRecord;
use crate::job::RunState;
use crate::job::Seen;
use crate::job::Step;
use crate::job::Tick;
use crate::job::Verdict;

/// How many old records one step drops at most: a step's cost has a bound, and two for each one made is enough.
pub const DROPPED_MOST: usize = 2;

/// What a step needs to see, and may change, of one job.
#[derive(Debug, Clone, Default)]
pub struct Picture {
    /// The job's record.
    pub job: Option<JobRecord>,
    /// The run that the step is about; of an order with a key, the run that was ordered with that key, if there is one.
    pub run: Option<RunRecord>,
    /// The job's open runs, oldest first (with the one above, where it is open).
    pub open: Vec<RunRecord>,
    /// The ticks of the oldest final records, oldest first, [`DROPPED_MOST`] at most.
    pub oldest: Vec<Tick>,
    /// Where the step settles a range: the earliest tick in it that has a record. Manual runs do not count.
    pub lowest: Option<Tick>,
    /// The store itself.
    pub store: Identity,
}

/// What a driver has to save after a step, beside the picture's `job` and `run`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Changes {
    /// `job` changed.
    pub job: bool,
    /// `run` changed or is new.
    pub run: bool,
    /// Final records to drop: their ticks are at or below the new floor.
    pub dropped: Vec<Tick>,
    /// The history's entry of the run's tick is to be taken out: it said that nobody knows, and now somebody does.
    pub withdrawn: bool,
    /// What to add to the history, after that.
    pub history: Option<History>,
}

/// A change of a job's history.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum History {
    /// A tick was decided.
    Decided(Box<HistoryEntry>),
    /// The account of a lost run's owner came after all.
    Late {
        /// The tick.
        scheduled_for: Tick,
        /// What its owner says.
        late_outcome: Outcome,
    },
}

/// Applies a step at the store's time `now` (milliseconds since the epoch).
pub fn apply(picture: &mut Picture, step: &Step, now: i64) -> (Answer, Changes) {
    let mut changes = Changes::default();
    let verdict = match step {
        Step::Register(registration) => register(picture, registration, now, &mut changes),
        Step::Pause { all, pause, only_if, .. } => {
            manual::pause(picture, (*all, pause.as_ref(), *only_if), now, &mut changes)
        }
        _ if !guard::is_registered(picture, step) => Verdict::Unregistered,
        Step::Claim(claim) => self::claim(picture, claim, now, &mut changes),
        Step::Begin { owner, start, request, .. } => begin(picture, (owner, *start, Some(request)), now, &mut changes),
        Step::Wait { owner, start, .. } => begin(picture, (owner, *start, None), now, &mut changes),
        Step::AskStop { by, reason, .. } => slot::ask_stop(picture, (by, *reason), &mut changes),
        Step::CallStale { .. } => stale::call(picture, step, now, &mut changes),
        Step::Order(order) => manual::order(picture, order, now, &mut changes),
        Step::Renew { owner, start, .. } => renew(picture, (owner, *start), now, &mut changes),
        Step::Reassert(word) => guard::reassert(picture, word, now, &mut changes),
        Step::Complete { owner, start, ending, .. } => complete(picture, (owner, *start), (ending, now), &mut changes),
        Step::Abandon { owner, start, .. } => abandon(picture, (owner, *start), &mut changes),
        Step::Settle { .. } => settling::settle(picture, step, now, &mut changes),
        Step::Read { .. } => Verdict::Read,
    };
    if changes.run {
        list_open(picture);
        drop_old(picture, now, &mut changes);
    }
    if changes.job
        && let Some(job) = &mut picture.job
    {
        job.revision += 1;
    }
    let answer = Answer { verdict, job: picture.job.clone(), run: picture.run.clone(), open: picture.open.clone() };
    (answer, changes)
}

fn register(picture: &mut Picture, registration: &Registration, now: i64, changes: &mut Changes) -> Verdict {
    changes.job = true;
    let fresh = picture.job.is_none();
    let doubt = guard::doubt(picture, registration);
    // A new record may stand where a flushed or evicted one stood: what it may have forgotten is refused, not run.
    let since = now + registration.skew_tolerance_ms + EARLY_TOLERANCE_MS;
    let knew = registration.knew.as_ref().filter(|knew| !knew.schedule.is_empty());
    let job = picture.job.get_or_insert_with(|| JobRecord {
        format: FORMAT,
        revision: 0,
        schedule: knew.map_or(&registration.schedule, |knew| &knew.schedule).clone(),
        zone: knew.map_or(&registration.zone, |knew| &knew.zone).clone(),
        former: knew.map(|knew| knew.former.clone()).unwrap_or_default(),
        spec_hash: String::new(),
        registered_at: 0,
        since,
        floor: 0,
        // A replica that knew the job knows what the store has to settle.
        decided_through: registration
            .knew
            .as_ref()
            .map_or(i64::MAX, |knew| knew.decided_through)
            .min(since.div_euclid(1000)),
        last_begun: 0,
        manual_token: 0,
        range: None,
        slot: None,
        open: Vec::new(),
        paused: None,
        all_paused: None,
        last_success: None,
        failures: 0,
        missed: 0,
        stale: None,
        keep_ms: 0,
        history: [0; 3],
        identity: picture.store.server.clone(),
        evicted: picture.store.evicted,
        forgot_at: 0,
        quiet_ms: 0,
    });
    let rescheduled = former::reschedule(job, registration, now);
    job.spec_hash.clone_from(&registration.spec_hash);
    job.registered_at = now;
    job.keep_ms = registration.keep_ms;
    job.history = registration.history;
    guard::note(picture, registration, (doubt, now));
    Verdict::Registered { fresh, rescheduled }
}

fn claim(picture: &mut Picture, claim: &Claim, now: i64, changes: &mut Changes) -> Verdict {
    let Some(job) = &mut picture.job else { return Verdict::Unregistered };
    let tick = claim.run.scheduled_for;
    let Some(run) = &mut picture.run else {
        if tick.is_manual() {
            return Verdict::Gone; // only an order makes its record
        }
        let early_ms = tick.millis() + claim.delay_ms - now - EARLY_TOLERANCE_MS;
        if early_ms > 0 {
            return Verdict::TooEarly { by_ms: early_ms };
        }
        if guard::is_forgotten(job, tick) {
            return Verdict::Forgot;
        }
        if let Some(range) = job.range.as_ref().filter(|range| (range.first..=range.last).contains(&tick)) {
            picture.run = Some(range.record_of(tick)); // to be told, not to be saved
            return Verdict::Done;
        }
        if tick.seconds() <= job.floor.max(job.decided_through) {
            return Verdict::TooOld;
        }
        if tick.seconds() == job.last_begun {
            return Verdict::Forgot; // it has begun, and its record was evicted
        }
        if job.pause().is_some() {
            return Verdict::Paused;
        }
        if !claim.take {
            return Verdict::Free;
        }
        let held = job.slot == Some(tick);
        picture.run = Some(RunRecord { exclusive: claim.exclusive || held, ..new_run(claim, now) });
        advance(job, claim.previous, tick);
        (changes.job, changes.run) = (true, true);
        return Verdict::Won;
    };
    if run.state == RunState::Done {
        return Verdict::Done;
    }
    if run.owner == claim.owner && run.state == RunState::Claimed {
        return Verdict::Won;
    }
    if !claim.take || !may_take(run, claim.takeover.as_ref()) {
        return Verdict::Held;
    }
    if guard::is_forgotten(job, tick) && !guard::is_asserted(job, run) {
        return Verdict::Forgot;
    }
    run.state = RunState::Claimed;
    run.owner = claim.owner.clone();
    run.number += 1;
    run.lease_ms = claim.lease_ms;
    run.grace_ms = claim.grace_ms;
    run.stop_grace_ms = claim.stop_grace_ms;
    run.takeover_ms = claim.takeover_ms;
    // What holds the slot goes on holding it, whatever the table of its new owner says.
    run.exclusive = claim.exclusive || job.slot == Some(tick);
    run.when_busy = claim.when_busy;
    // What was never begun may run again, or not, as the table says under which it begins.
    if run.start == 0 {
        run.rerun = claim.rerun;
    }
    run.spec_hash.clone_from(&claim.spec_hash);
    run.trigger.clone_from(&claim.trigger);
    run.claimed_at = now;
    run.outcome = None;
    run.lost_by.clear();
    (changes.job, changes.run) = (true, true);
    Verdict::Won
}

/// An abandoned run is free. A claim that waits without a sign of life is, too. A begun one is not: it must have been
/// called lost first, and its owner must have had the time to stop it; watchers wait for that before they send this.
fn may_take(run: &RunRecord, takeover: Option<&Seen>) -> bool {
    match run.state {
        RunState::Abandoned => true,
        RunState::Claimed => takeover == Some(&run.seen()),
        RunState::Lost => run.may_run_again() && takeover == Some(&run.seen()),
        RunState::Begun | RunState::Done => false,
    }
}

fn new_run(claim: &Claim, now: i64) -> RunRecord {
    RunRecord {
        number: 1,
        lease_ms: claim.lease_ms,
        grace_ms: claim.grace_ms,
        stop_grace_ms: claim.stop_grace_ms,
        takeover_ms: claim.takeover_ms,
        delay_ms: claim.delay_ms,
        exclusive: claim.exclusive,
        when_busy: claim.when_busy,
        rerun: claim.rerun,
        trigger: claim.trigger.clone(),
        spec_hash: claim.spec_hash.clone(),
        claimed_at: now,
        ..RunRecord::claimed(claim.run.scheduled_for, &claim.owner)
    }
}

/// Begins a run, or (without a request) says whether it could.
fn begin(
    picture: &mut Picture,
    (owner, start, request): (&ReplicaId, u32, Option<&str>),
    now: i64,
    changes: &mut Changes,
) -> Verdict {
    let (Some(job), Some(run)) = (&mut picture.job, &mut picture.run) else { return Verdict::Gone };
    if run.state == RunState::Done {
        return Verdict::Done;
    }
    let ours = run.owner == *owner && matches!(run.state, RunState::Claimed | RunState::Begun);
    if ours && run.state == RunState::Begun && run.start == start + 1 && Some(run.request.as_str()) == request {
        return Verdict::Begun; // the same request, sent again
    }
    // The fence. Without it, an owner that paused here starts a run that another replica has long taken over.
    if !ours || run.start != start {
        return Verdict::Fenced;
    }
    if guard::is_forgotten(job, run.scheduled_for) && !guard::is_asserted(job, run) {
        return Verdict::Forgot;
    }
    // Asking is a sign of life: a claim that waits for the slot is not taken over.
    run.number += 1;
    changes.run = true;
    if let Some(refused) = slot::refuses(job, run, (&picture.open, now)) {
        return refused;
    }
    let Some(request) = request else { return Verdict::Free };
    if run.exclusive {
        job.slot = Some(run.scheduled_for);
    }
    run.waiting_since = 0;
    run.state = RunState::Begun;
    run.start += 1;
    run.request = request.into();
    // What begins after a loss is known since then, like what an owner confirms: whoever tells late of a run that ended
    // long ago takes nothing from it.
    run.asserted = job.forgot_at;
    run.begun_at = now;
    run.renewed_at = now;
    if run.scheduled_for.is_manual() {
        job.manual_token = manual::next_token(job);
        run.token = job.manual_token;
    } else {
        job.last_begun = job.last_begun.max(run.scheduled_for.seconds());
    }
    changes.job = true;
    Verdict::Begun
}

/// Whether the run is that owner's at that start.
fn is_at(run: &RunRecord, owner: &ReplicaId, start: u32) -> bool {
    run.owner == *owner && run.start == start
}

fn renew(picture: &mut Picture, (owner, start): (&ReplicaId, u32), now: i64, changes: &mut Changes) -> Verdict {
    let Some(run) = &mut picture.run else { return Verdict::Gone };
    match run.state {
        RunState::Done => Verdict::Done,
        RunState::Lost if is_at(run, owner, start) => Verdict::Lost,
        RunState::Claimed | RunState::Begun if is_at(run, owner, start) => {
            run.number += 1;
            run.renewed_at = now;
            changes.run = true;
            Verdict::Renewed
        }
        _ => Verdict::Fenced,
    }
}

fn complete(
    picture: &mut Picture,
    (owner, start): (&ReplicaId, u32),
    (ending, now): (&Ending, i64),
    changes: &mut Changes,
) -> Verdict {
    let (Some(job), Some(run)) = (&mut picture.job, &mut picture.run) else { return Verdict::Gone };
    if !is_at(run, owner, start) {
        return Verdict::Fenced;
    }
    let was_lost = run.outcome == Some(Outcome::Lost);
    match run.state {
        RunState::Done if was_lost && run.late_outcome.is_none() => {}
        RunState::Done if was_lost => return Verdict::RecordedLate, // sent again
        RunState::Done => return Verdict::Recorded,                 // sent again
        RunState::Claimed | RunState::Abandoned => return Verdict::Fenced, // nothing began that could end
        RunState::Begun | RunState::Lost => {}
    }
    run.exit_code = ending.exit_code;
    run.signal = ending.signal;
    run.http_status = ending.http_status;
    run.duration_ms = ending.duration_ms;
    run.error.clone_from(&ending.error);
    run.ended_at = now;
    changes.run = true;
    changes.job = true;
    if run.state == RunState::Lost || was_lost {
        let history = if was_lost {
            History::Late { scheduled_for: run.scheduled_for, late_outcome: ending.outcome }
        } else {
            // A run that would have been started again: its owner's account makes that needless.
            run.outcome = Some(Outcome::Lost);
            run.late_outcome = Some(ending.outcome);
            count(job, run, Outcome::Lost);
            decided(run, &ending.output_tail)
        };
        run.late_outcome = Some(ending.outcome);
        changes.history = Some(history);
        close(job, run);
        return Verdict::RecordedLate;
    }
    run.outcome = Some(ending.outcome);
    count(job, run, ending.outcome);
    changes.history = Some(decided(run, &ending.output_tail));
    close(job, run);
    Verdict::Recorded
}

fn abandon(picture: &mut Picture, (owner, start): (&ReplicaId, u32), changes: &mut Changes) -> Verdict {
    let (Some(job), Some(run)) = (&mut picture.job, &mut picture.run) else { return Verdict::Gone };
    match run.state {
        RunState::Done => Verdict::Done,
        RunState::Abandoned if is_at(run, owner, start) => Verdict::Released,
        // A lost one, too: nothing of it is going any more, and nobody need wait until it must be over.
        RunState::Claimed | RunState::Begun | RunState::Lost
            if is_at(run, owner, start) && (run.state != RunState::Lost || run.may_run_again()) =>
        {
            run.state = RunState::Abandoned;
            run.number += 1;
            if job.slot == Some(run.scheduled_for) {
                job.slot = None;
            }
            (changes.job, changes.run) = (true, true);
            Verdict::Released
        }
        _ => Verdict::Fenced,
    }
}

fn decided(run: &RunRecord, output_tail: &str) -> History {
    History::Decided(Box::new(HistoryEntry::of(run, output_tail)))
}

/// The tick has a record now: if everything before it was decided, everything up to it is.
fn advance(job: &mut JobRecord, previous: i64, tick: Tick) {
    if job.decided_through >= previous && !former::changed_between(job, previous, tick.seconds()) {
        job.decided_through = job.decided_through.max(tick.seconds());
    }
}

fn close(job: &mut JobRecord, run: &mut RunRecord) {
    run.state = RunState::Done;
    if job.slot == Some(run.scheduled_for) {
        job.slot = None;
    }
}

fn count(job: &mut JobRecord, run: &RunRecord, outcome: Outcome) {
    if outcome == Outcome::Succeeded {
        job.last_success = job.last_success.max(Some(run.told_for()));
        (job.failures, job.missed) = (0, 0);
    } else if outcome.is_failure() {
        job.failures += 1;
    } else if outcome == Outcome::Missed {
        job.missed += run.range_count.max(1);
    }
}

/// Keeps the job's list of open runs in step with the run that changed.
fn list_open(picture: &mut Picture) {
    let (Some(job), Some(run)) = (&mut picture.job, &picture.run) else { return };
    picture.open.retain(|other| other.scheduled_for != run.scheduled_for);
    if run.is_open() {
        picture.open.push(run.clone());
        picture.open.sort_by_key(|run| run.scheduled_for);
    }
    // One that is listed and has no record stays on the list, to be found missing.
    job.open.retain(|tick| *tick != run.scheduled_for);
    if run.is_open() {
        job.open.push(run.scheduled_for);
        job.open.sort_unstable();
    }
}

/// Drops the oldest final records, and raises the floor over them in the same step: a claim that comes later still
/// finds them decided. Never above `decided_through`: what is not yet known to be decided must stay visible.
fn drop_old(picture: &mut Picture, now: i64, changes: &mut Changes) {
    let (Some(job), Some(run)) = (&mut picture.job, &picture.run) else { return };
    for &tick in picture.oldest.iter().take(DROPPED_MOST) {
        // Nobody can claim a manual run whose record is gone.
        let decided = tick.is_manual() || tick.seconds() <= job.decided_through;
        if decided && tick.millis() + job.keep_ms <= now && tick != run.scheduled_for {
            if !tick.is_manual() {
                job.floor = job.floor.max(tick.seconds());
                changes.job = true;
            }
            changes.dropped.push(tick);
        }
    }
}

#[cfg(test)]
mod tests;
