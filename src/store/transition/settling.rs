//! How ticks end without a run, and how runs end without a word of their owner.

use super::Changes;
use super::Picture;
use super::advance;
use super::close;
use super::count;
use super::decided;
use super::former;
use super::guard;
use crate::job::Decision;
use crate::job::Expect;
use crate::job::JobRecord;
use crate::job::Outcome;
use crate::job::Range;
use crate::job::ReplicaId;
use crate::job::RunRecord;
use crate::job::RunState;
use crate::job::Seen;
use crate::job::Step;
use crate::job::Tick;
use crate::job::Verdict;

/// See [`Step::Settle`].
pub(super) fn settle(picture: &mut Picture, step: &Step, now: i64, changes: &mut Changes) -> Verdict {
    let Step::Settle { run: key, owner, previous, expect, decision } = step else { return Verdict::Changed };
    let Some(job) = &mut picture.job else { return Verdict::Unregistered };
    match expect {
        Expect::Absent { after_ms } => {
            let tick = key.scheduled_for;
            if picture.run.as_ref().is_some_and(|run| run.number == 0 && is_settled(run, owner, *decision)) {
                return Verdict::Settled; // sent again
            }
            // No schedule owes a manual run a record.
            let known = tick.is_manual()
                || (tick.seconds() <= job.decided_through && !guard::may_record_loss(job, tick, *decision));
            if picture.run.is_some() || known {
                let before = job.decided_through;
                if picture.run.is_some() && !tick.is_manual() {
                    advance(job, *previous, tick);
                }
                changes.job = job.decided_through != before;
                return Verdict::Changed;
            }
            if now < tick.millis() + after_ms {
                return Verdict::TooEarly { by_ms: tick.millis() + after_ms - now };
            }
            if matches!(decision, Decision::Lost | Decision::Drained | Decision::Stopped(_)) {
                return Verdict::Changed; // nothing is there that could be lost, or was to be stopped
            }
            if guard::says_too_much(job, (tick, None), *decision) {
                return Verdict::Changed;
            }
            picture.run = Some(RunRecord::claimed(tick, owner));
            advance(job, *previous, tick);
        }
        Expect::AbsentRange { first, count, after_ms } => {
            let tick = key.scheduled_for;
            if picture.run.as_ref().is_some_and(|run| run.number == 0 && is_settled(run, owner, *decision)) {
                return Verdict::Settled; // sent again
            }
            let follows = follows(job, *previous, (*first, tick));
            let fits = matches!(decision, Decision::Missed(_) | Decision::Skipped(_));
            if !follows || !fits || guard::says_too_much(job, (*first, None), *decision) {
                return Verdict::Changed;
            }
            if let Some(at) = picture.lowest {
                return Verdict::Occupied { at };
            }
            if now < tick.millis() + after_ms {
                return Verdict::TooEarly { by_ms: tick.millis() + after_ms - now };
            }
            let decided = RunRecord::claimed(tick, owner);
            picture.run = Some(RunRecord { range_first: Some(*first), range_count: *count, ..decided });
            advance(job, *previous, tick);
        }
        Expect::Own(own) => {
            // A watcher may have come to the same decision first: then it has said so.
            let by_us = |run: &RunRecord| run.lost_by.is_empty() && is_settled(run, own, *decision);
            if picture.run.as_ref().is_some_and(by_us) {
                return Verdict::Settled; // sent again
            }
            let unbegun = |run: &RunRecord| run.state == RunState::Claimed && run.owner == *own;
            if !picture.run.as_ref().is_some_and(unbegun) {
                return Verdict::Changed;
            }
        }
        Expect::Unchanged(seen) => {
            if picture.run.as_ref().is_some_and(|run| is_judged_by(run, owner, (seen, *decision))) {
                return Verdict::Settled; // sent again
            }
            if picture.run.as_ref().map(RunRecord::seen).as_ref() != Some(seen) {
                return Verdict::Changed;
            }
        }
    }
    let Some(run) = &mut picture.run else { return Verdict::Changed };
    let is_new = matches!(expect, Expect::Absent { .. } | Expect::AbsentRange { .. });
    if !is_new && guard::says_too_much(job, (run.scheduled_for, Some(run)), *decision) {
        return Verdict::Changed;
    }
    if !decide(job, run, (*decision, now), changes) {
        return Verdict::Changed;
    }
    if *decision == Decision::Lost
        || (matches!(decision, Decision::Missed(_)) && matches!(expect, Expect::Unchanged(_)))
    {
        run.lost_by = owner.to_string();
    }
    if let (Some(first), Some(outcome)) = (run.range_first, run.outcome) {
        let (last, reason, owner) = (run.scheduled_for, run.reason.clone(), run.owner.clone());
        job.range = Some(Range { first, last, outcome, reason, owner });
    }
    (changes.job, changes.run) = (true, true);
    Verdict::Settled
}

/// Whether the ticks of a range follow on what is decided, under one schedule.
fn follows(job: &JobRecord, previous: i64, (first, last): (Tick, Tick)) -> bool {
    !first.is_manual()
        && !last.is_manual()
        && previous <= job.decided_through
        && job.decided_through < first.seconds()
        && first <= last
        && !former::changed_between(job, previous, last.seconds())
}

/// Whether that watcher recorded what it had seen as lost, if it was begun, or else as missed.
fn is_judged_by(run: &RunRecord, watcher: &ReplicaId, (seen, decision): (&Seen, Decision)) -> bool {
    let fits = match decision {
        Decision::Lost => seen.state == RunState::Begun && run.state == RunState::Lost,
        Decision::Missed(_) => is_settled(run, &seen.owner, decision),
        Decision::Skipped(_) | Decision::Stopped(_) | Decision::Drained => false,
    };
    fits && run.lost_by == watcher.as_str() && run.seen() == Seen { state: run.state, ..seen.clone() }
}

/// Whether the run ended by that replica's same decision.
fn is_settled(run: &RunRecord, owner: &ReplicaId, decision: Decision) -> bool {
    let Some(written) = outcome_of(run, decision) else { return false };
    run.state == RunState::Done && run.owner == *owner && run.outcome == Some(written.0) && run.reason == written.1
}

/// What a decision makes of a run that its owner does not begin. One that may be started again and has begun before may
/// have run then, and was lost or given back: that it did not run can no longer be said.
fn outcome_of(run: &RunRecord, decision: Decision) -> Option<(Outcome, &'static str)> {
    let may_have_run = run.rerun && run.start > 0;
    Some(match decision {
        Decision::Missed(reason) => (if may_have_run { Outcome::Lost } else { Outcome::Missed }, reason.as_str()),
        Decision::Skipped(reason) => (if may_have_run { Outcome::Lost } else { Outcome::Skipped }, reason.as_str()),
        Decision::Stopped(reason) => (reason.outcome(), ""),
        Decision::Lost | Decision::Drained => return None,
    })
}

/// Writes a decision; false where it does not fit the state.
fn decide(job: &mut JobRecord, run: &mut RunRecord, (decision, now): (Decision, i64), changes: &mut Changes) -> bool {
    let free = matches!(run.state, RunState::Claimed | RunState::Abandoned);
    let fits = match decision {
        Decision::Missed(_) | Decision::Skipped(_) | Decision::Stopped(_) => free,
        Decision::Lost => run.state == RunState::Begun,
        // The second: one that began, was given back or taken over, and that nobody goes on with.
        Decision::Drained => run.state == RunState::Lost || (free && run.start > 0),
    };
    if !fits {
        return false;
    }
    run.ended_at = now;
    let undecided = run.outcome.is_none();
    match decision {
        Decision::Lost => {
            run.state = RunState::Lost; // stays open, and its slot drains
            if !run.may_run_again() {
                run.outcome = Some(Outcome::Lost);
            }
        }
        Decision::Drained => run.outcome = Some(Outcome::Lost),
        Decision::Missed(_) | Decision::Skipped(_) | Decision::Stopped(_) => {
            if let Some((outcome, reason)) = outcome_of(run, decision) {
                run.outcome = Some(outcome);
                run.reason = reason.into();
            }
        }
    }
    if undecided && let Some(outcome) = run.outcome {
        count(job, run, outcome);
        changes.history = Some(decided(run, ""));
    }
    if decision != Decision::Lost {
        close(job, run);
    }
    true
}
