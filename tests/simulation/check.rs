//! What must hold in every world.

use super::table::LEAVING;
use super::world::CALM;
use super::world::Child;
use super::world::EPOCH;
use super::world::Micros;
use super::world::SECOND;
use super::world::World;
use onecron::engine::Notice;
use onecron::job::*;
use std::collections::BTreeMap;

pub fn all(world: &World) -> Result<(), String> {
    starts(world)?;
    overlaps(world)?;
    tokens(world)?;
    outcomes(world)?;
    orders(world)?;
    leaving(world)?;
    lines(world)
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
        let retries = child.spec.retry.limit;
        let starts: &mut Vec<u32> = seen.entry(child.run.clone()).or_default();
        if starts.contains(&child.start) {
            return Err(format!("{} start {} was started twice", child.run, child.start));
        }
        starts.push(child.start);
        let most = if child.rerun { 3 } else { 1 + retries as usize };
        if starts.len() > most {
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
    let since = world.records.job(&run.job).map_or(i64::MAX, |job| job.since);
    world.faults.amnesia && run.scheduled_for.millis() <= since
}

/// Runs of a job that must not overlap are never at once; nor are two starts of one run.
fn overlaps(world: &World) -> Result<(), String> {
    let mut last: BTreeMap<JobName, (RunKey, Micros)> = BTreeMap::new();
    let mut children: Vec<_> = world.children.iter().collect();
    children.sort_by_key(|child| child.began);
    for child in children.iter().filter(|child| (child.exclusive || child.rerun) && !met_anew(world, child)) {
        let end = child.ended.unwrap_or(Micros::MAX);
        if let Some((other, until)) = last.get(&child.run.job)
            && child.began < *until
            && (child.exclusive || *other == child.run)
        {
            return Err(format!("{} began at {} while {other} ran until {until}", child.run, child.began));
        }
        last.insert(child.run.job.clone(), (child.run.clone(), end));
    }
    Ok(())
}

/// Tokens of a job that must not overlap never fall.
fn tokens(world: &World) -> Result<(), String> {
    let mut last: BTreeMap<&JobName, u64> = BTreeMap::new();
    let mut children: Vec<_> = world.children.iter().collect();
    children.sort_by_key(|child| child.began);
    for child in children.iter().filter(|child| child.exclusive && !met_anew(world, child)) {
        let token = last.entry(&child.run.job).or_default();
        if child.token <= *token {
            return Err(format!("{} began with token {} after {token}", child.run, child.token));
        }
        *token = child.token;
    }
    Ok(())
}

/// Each tick between the beginning of its history and the calm has exactly one final record, and a start where it
/// says so.
fn outcomes(world: &World) -> Result<(), String> {
    for spec in &world.table.jobs {
        let job = world.records.job(&spec.name).ok_or(format!("{} was never registered", spec.name))?;
        let mut tick = Tick::from_seconds(job.since.div_euclid(1000));
        let until = Tick::from_seconds(EPOCH + (CALM / SECOND) as i64);
        loop {
            tick = Tick::from_datetime(spec.schedule.after(tick.to_datetime()).unwrap());
            if tick > until {
                break;
            }
            let run = RunKey::new(spec.name.clone(), tick);
            let decides = |record: &&RunRecord| {
                (record.range_first.unwrap_or(record.scheduled_for)..=record.scheduled_for).contains(&tick)
            };
            let record = world.records.runs(&spec.name).find(decides);
            let Some(record) = record else { return Err(format!("{run} has no record: {job:?}")) };
            let Some(outcome) = record.outcome.filter(|_| record.state == RunState::Done) else {
                return Err(format!("{run} is open at the end: {record:?}"));
            };
            let starts = world.children.iter().filter(|child| child.run == run).count();
            if outcome == Outcome::Replaced && record.stop_asked != Some(StopReason::Replace) {
                return Err(format!("{run} is replaced and nobody asked for that"));
            }
            if outcome == Outcome::Replaced && !is_replacing(spec) {
                return Err(format!("{run} is replaced, and its job does not replace"));
            }
            let ran = matches!(outcome, Outcome::Succeeded | Outcome::Failed | Outcome::TimedOut);
            if ran && starts == 0 {
                return Err(format!("{run} is {outcome} and never started"));
            }
            if spec.suspend && record.reason != "suspended" {
                return Err(format!("{run} of a suspended job is {outcome}: {}", record.reason));
            }
            if matches!(outcome, Outcome::Missed | Outcome::Skipped) && starts > 0 {
                return Err(format!("{run} is {outcome} ({}) and was started", record.reason));
            }
        }
        if job.decided_through < until.seconds() - 40 {
            return Err(format!("{}: decided only through {}", spec.name, Tick::from_seconds(job.decided_through)));
        }
    }
    Ok(())
}

/// Each run that was ordered is over, and was started where its outcome says so; and no job is paused at the end.
fn orders(world: &World) -> Result<(), String> {
    for run in world.ordered.iter().filter(|run| !is_forgotten(world, run)) {
        let record = world.records.runs(&run.job).find(|record| record.scheduled_for == run.scheduled_for);
        let Some(record) = record else { return Err(format!("{run} was ordered and has no record")) };
        let Some(outcome) = record.outcome.filter(|_| record.state == RunState::Done) else {
            return Err(format!("{run} was ordered and is open at the end: {record:?}"));
        };
        let starts = world.children.iter().filter(|child| child.run == *run).count();
        let ran = matches!(outcome, Outcome::Succeeded | Outcome::Failed | Outcome::TimedOut);
        if (ran && starts == 0) || (matches!(outcome, Outcome::Missed | Outcome::Skipped) && starts > 0) {
            return Err(format!("{run} is {outcome} ({}), with {starts} starts", record.reason));
        }
    }
    let cancelled = |(job, record): (&JobName, &RunRecord)| {
        record.outcome == Some(Outcome::Cancelled) && !world.cancelled.contains(&record.key(job))
    };
    for (job, record) in world.records.jobs() {
        if let Some(run) = world.records.runs(job).find(|run| cancelled((job, run))) {
            return Err(format!("{job}@{} is cancelled, and nobody asked for that", run.scheduled_for));
        }
        if let Some(pause) = record.pause() {
            return Err(format!("{job} is still paused: {pause}"));
        }
    }
    Ok(())
}

/// A run that began does not stay open when its replica died, although no table has the job any more: it is found by
/// what members say of themselves, or by reading all jobs.
fn leaving(world: &World) -> Result<(), String> {
    let name = JobName::new(LEAVING).unwrap();
    let still_there = world.lives.iter().any(|(replica, life, _, to)| (*replica, *life) == (0, 1) && *to > CALM);
    let open = |run: &&RunRecord| matches!(run.state, RunState::Begun | RunState::Lost);
    match world.records.runs(&name).find(open).filter(|_| !still_there) {
        Some(run) => Err(format!("{name}@{} is open at the end: {run:?}", run.scheduled_for)),
        None => Ok(()),
    }
}

fn is_replacing(spec: &JobSpec) -> bool {
    spec.concurrency_policy == ConcurrencyPolicy::Replace
}

/// Where nothing goes wrong, each tick of a job that replaces is run, and is replaced by the next at the latest; of
/// ticks that wait in line, each one runs that is not an overlap; and what waits does not wait for ever.
pub fn calm(world: &World) -> Result<(), String> {
    for spec in &world.table.jobs {
        for record in world.records.runs(&spec.name) {
            let skipped = record.outcome == Some(Outcome::Skipped) || record.outcome == Some(Outcome::Missed);
            // From before all replicas were up, or registered.
            let early = record.scheduled_for.seconds() < EPOCH + 10;
            if is_replacing(spec) && skipped && !early && record.scheduled_for.seconds() < EPOCH + 200 {
                return Err(format!("{} of {}: {} ", record.scheduled_for, spec.name, record.reason));
            }
        }
    }
    let ends = |job: &str, outcome: Outcome| {
        let job = JobName::new(job).unwrap();
        world.records.runs(&job).filter(|record| record.outcome == Some(outcome)).count()
    };
    for (job, outcome) in [("replacing", Outcome::Replaced), ("queueing", Outcome::Succeeded)] {
        if ends(job, outcome) < 3 {
            return Err(format!("{job}: only {} runs are {outcome}", ends(job, outcome)));
        }
    }
    Ok(())
}

/// A replica that was up over a tick and its starting deadline says of it that it has it, or one time why not.
fn lines(world: &World) -> Result<(), String> {
    let mut said: BTreeMap<(usize, u32, &RunKey), (u32, u32)> = BTreeMap::new();
    let mut lost: BTreeMap<(&RunKey, u32), u32> = BTreeMap::new();
    let mut missed: BTreeMap<&RunKey, u32> = BTreeMap::new();
    let mut passed = Vec::new();
    for line in &world.lines {
        match &line.notice {
            Notice::RunSkipped { facts, .. } => {
                said.entry((line.replica, line.incarnation, &facts.run)).or_default().0 += 1;
            }
            Notice::RunClaimed { facts, .. } => {
                said.entry((line.replica, line.incarnation, &facts.run)).or_default().1 += 1;
            }
            Notice::TicksPassed { job, first, through } => {
                passed.push((line.replica, line.incarnation, job, *first, *through));
            }
            Notice::RunLost { facts, .. } => *lost.entry((&facts.run, facts.start)).or_default() += 1,
            Notice::RunMissed { facts, .. } => *missed.entry(&facts.run).or_default() += 1,
            _ => {}
        }
    }
    // A store that forgot that a run was lost is told again.
    if let Some(((run, start), count)) = lost.iter().find(|(_, count)| **count > 1 && !world.faults.amnesia) {
        return Err(format!("{run} start {start} was reported lost {count} times"));
    }
    if let Some((run, count)) = missed.iter().find(|(run, count)| **count > 1 && !is_forgotten(world, run)) {
        return Err(format!("{run} was reported missed {count} times"));
    }
    // Once, and once more after each time that it had the tick. A clock that went back sees its instants again.
    let twice = |((replica, _, run), (skipped, claimed)): &(&(usize, u32, &RunKey), &(u32, u32))| {
        skipped > &(claimed + 1) && !is_forgotten(world, run) && world.skewed.iter().all(|(other, ..)| other != replica)
    };
    if let Some(((replica, incarnation, run), (skipped, _))) = said.iter().find(twice) {
        return Err(format!("r{replica}-{incarnation} said {skipped} times that it skips {run}"));
    }
    for (replica, incarnation, from, to) in &world.lives {
        for spec in &world.table.jobs {
            let mut tick = Tick::from_seconds(EPOCH + (*from / SECOND) as i64 + 3);
            loop {
                tick = Tick::from_datetime(spec.schedule.after(tick.to_datetime()).unwrap());
                if tick.seconds() + 40 > EPOCH + (*to / SECOND) as i64 {
                    break;
                }
                let run = RunKey::new(spec.name.clone(), tick);
                let (skipped, claimed) = said.get(&(*replica, *incarnation, &run)).copied().unwrap_or_default();
                let range = |(other, life, job, first, through): &(usize, u32, &JobName, Tick, Tick)| {
                    (other, life, *job) == (replica, incarnation, &run.job) && (*first..=*through).contains(&tick)
                };
                let at = (tick.seconds() - EPOCH) as Micros * SECOND;
                let skewed = |(other, from, to): &(usize, Micros, Micros)| {
                    other == replica && *from < at + 40 * SECOND && at < *to + 25 * SECOND
                };
                // A replica whose clock is off by more than a starting deadline takes a tick for one of another time.
                if world.skewed.iter().any(skewed) {
                    continue;
                }
                if skipped + claimed == 0 && !passed.iter().any(range) {
                    return Err(format!("r{replica}-{incarnation} said nothing of {run}"));
                }
            }
        }
    }
    Ok(())
}
