//! What must hold in every world. The ledger is that of the processes, and not what replicas say of themselves.

mod ticks;
mod words;

use super::world::Child;
use super::world::MINUTE;
use super::world::Micros;
use super::world::SECOND;
use super::world::World;
use onecron::job::*;
use std::collections::BTreeMap;

pub fn all(world: &World) -> Result<(), String> {
    if let Some(broken) = &world.broken {
        return Err(broken.clone());
    }
    starts(world)?;
    overlaps(world)?;
    tokens(world)?;
    leases(world)?;
    kept(world)?;
    orders(world)?;
    ticks::outcomes(world)?;
    ticks::times(world)?;
    words::said(world)
}

/// At most once under `Report`; each start number once; at most three under `Rerun`.
fn starts(world: &World) -> Result<(), String> {
    let mut seen = BTreeMap::new();
    // A single record of a job that allows overlap can be evicted without a trace; see docs/guarantees.md.
    let unnoticed = |child: &&Child| {
        let after = |at: &Micros| (*at..at + 3 * SECOND).contains(&child.began);
        !child.exclusive && world.evicted.iter().any(after)
    };
    for child in world.children.iter().filter(|child| !unnoticed(child)) {
        let starts: &mut Vec<&Child> = seen.entry(&child.run).or_default();
        if starts.iter().any(|other| other.start == child.start) {
            return Err(format!("{} start {} was started twice", child.run, child.start));
        }
        starts.push(child);
        // Terms are those of the record: one that was claimed as one that may run again is.
        let rerun = starts.iter().any(|child| child.rerun);
        let retries = starts.iter().map(|child| child.spec.retry.limit).max().unwrap_or(0);
        let most = if rerun { 3 } else { 1 + retries as usize };
        if starts.len() > most {
            let starts: Vec<u32> = starts.iter().map(|child| child.start).collect();
            return Err(format!("{} was started twice or more: {starts:?}", child.run));
        }
    }
    Ok(())
}

/// Whether the store had forgotten the job, and whoever registered it did not know that it was not new.
fn met_anew(world: &World, child: &Child) -> bool {
    let after = |at: Micros| (at..at + 30 * SECOND).contains(&child.began);
    world.met_anew.iter().any(|(job, at)| *job == child.run.job && after(*at))
}

/// Whether the store may have forgotten what was said of the run.
fn is_forgotten(world: &World, run: &RunKey) -> bool {
    let since = world.sinces.get(&run.job).and_then(|sinces| sinces.iter().max());
    world.faults.amnesia && since.is_some_and(|since| run.scheduled_for.millis() <= *since)
}

fn by_begin(world: &World) -> Vec<&Child> {
    let mut children: Vec<_> = world.children.iter().collect();
    children.sort_by_key(|child| child.began);
    children
}

/// Runs of a job that must not overlap are never at once; nor are two starts of one run. What nobody has to end with
/// its lease may go on for long after it was called lost, and of such a one nobody can know.
fn overlaps(world: &World) -> Result<(), String> {
    let mut last: BTreeMap<&JobName, Vec<&Child>> = BTreeMap::new();
    let known = |child: &&Child| child.guarded && !met_anew(world, child);
    for child in by_begin(world).into_iter().filter(known) {
        let others = last.entry(&child.run.job).or_default();
        others.retain(|other| other.ended.is_none_or(|end| end > child.began));
        let in_the_way = |other: &&&Child| child.exclusive || other.run == child.run;
        if let Some(other) = others.iter().find(in_the_way) {
            let until = other.ended.map_or("the end".into(), |end| end.to_string());
            return Err(format!("{} began at {} while {} ran until {until}", child.run, child.began, other.run));
        }
        others.push(child);
    }
    Ok(())
}

/// Tokens of a job that must not overlap never fall.
fn tokens(world: &World) -> Result<(), String> {
    let mut last: BTreeMap<&JobName, u64> = BTreeMap::new();
    for child in by_begin(world).into_iter().filter(|child| child.exclusive && !met_anew(world, child)) {
        let token = last.entry(&child.run.job).or_default();
        if child.token <= *token {
            return Err(format!("{} began with token {} after {token}", child.run, child.token));
        }
        *token = child.token;
    }
    Ok(())
}

/// No process of a replica that died outlives its lease and its grace.
fn leases(world: &World) -> Result<(), String> {
    for child in world.children.iter().filter(|child| child.guarded) {
        let died = world
            .terms
            .iter()
            .filter(|term| (term.span.replica, term.incarnation) == (child.replica, child.incarnation))
            .map(|term| term.span.to)
            .max()
            .unwrap_or(0);
        let most = died + 15 * SECOND * 1_005 / 1_000 + child.spec.lease_loss_grace().as_micros() as u64;
        if child.ended.unwrap_or(world.now) > most + SECOND / 10 {
            return Err(format!("{} outlived its replica, which died at {died}: {child:?}", child.run));
        }
    }
    Ok(())
}

/// What is decided keeps its record, or lies at or below the floor.
fn kept(world: &World) -> Result<(), String> {
    if world.faults.amnesia {
        return Ok(());
    }
    for (run, record) in &world.decided {
        let floor = world.records.job(&run.job).map_or(i64::MAX, |job| job.floor);
        let there = || world.records.runs(&run.job).any(|other| other.scheduled_for == record.scheduled_for);
        // Nobody but an order makes a manual run: a record of one goes without a floor.
        if !run.scheduled_for.is_manual()
            && run.scheduled_for.seconds() > floor
            && run.scheduled_for == record.scheduled_for
            && record.number > 0
            && !there()
        {
            return Err(format!("{run} was decided, and its record is gone: {record:?}"));
        }
    }
    Ok(())
}

/// Each run that was ordered is over, and was started where its outcome says so; nothing else is cancelled; and no job
/// is paused at the end.
fn orders(world: &World) -> Result<(), String> {
    for run in world.ordered.iter().filter(|run| !is_forgotten(world, run)) {
        let Some(record) = world.decided.get(run) else { return Err(format!("{run} was ordered and has no end")) };
        let starts = world.children.iter().filter(|child| child.run == *run).count();
        let ran = matches!(record.outcome, Some(Outcome::Succeeded | Outcome::Failed | Outcome::TimedOut));
        let not_run = matches!(record.outcome, Some(Outcome::Missed | Outcome::Skipped));
        if (ran && starts == 0) || (not_run && starts > 0) {
            return Err(format!("{run} is {:?} ({}), with {starts} starts", record.outcome, record.reason));
        }
    }
    let cancelled = |(run, record): &(&RunKey, &RunRecord)| {
        record.outcome == Some(Outcome::Cancelled) && !world.cancelled.contains(run)
    };
    if let Some((run, _)) = world.decided.iter().find(cancelled) {
        return Err(format!("{run} is cancelled, and nobody asked for that"));
    }
    let paused = world.records.jobs().find_map(|(job, record)| Some((job, record.pause()?)));
    paused.map_or(Ok(()), |(job, pause)| Err(format!("{job} is still paused: {pause}")))
}

/// Some minutes after the last fault nothing is open whose owner is gone.
pub fn closed(world: &World) -> Result<(), String> {
    for (name, job) in world.records.jobs() {
        let listed = world.lists(name);
        for record in world.records.runs(name).filter(|record| record.is_open()) {
            // What was not begun of a job that is in no replica's table waits longer for somebody who has it.
            let unbegun = matches!(record.state, RunState::Claimed | RunState::Abandoned);
            // What was ordered may begin for five minutes.
            let waits = if record.scheduled_for.is_manual() { 7 * MINUTE } else { 2 * MINUTE };
            let young = world.store_time() - record.scheduled_for.millis() < (waits / 1_000) as i64;
            let owned = world.is_alive(&record.owner) && record.state != RunState::Abandoned;
            // Where the job's record was evicted and not the run's, the run is listed nowhere: see docs/guarantees.md.
            let orphan = !world.evicted.is_empty() && !job.open.contains(&record.scheduled_for);
            if !owned && !young && !orphan && (listed || !unbegun) {
                return Err(format!("{name}@{} is open and nobody's: {record:?}, {job:?}", record.scheduled_for));
            }
        }
    }
    Ok(())
}
