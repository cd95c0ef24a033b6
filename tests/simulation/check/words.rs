//! What replicas say: of each tick that was due while they were up and well, that they started it, or one time why not.

use super::is_forgotten;
use super::ticks;
use crate::world::EPOCH;
use crate::world::MINUTE;
use crate::world::Micros;
use crate::world::SECOND;
use crate::world::World;
use onecron::engine::Notice;
use onecron::job::*;
use std::collections::BTreeMap;

/// What a replica has said of a tick.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Word {
    /// Something that has to be followed by more: it has the run.
    Claimed,
    /// It has what it has said to skip before: there may be more, and need not.
    TakenOver,
    /// All that there is to say.
    Last,
}

type Who = (usize, u32);

pub fn said(world: &World) -> Result<(), String> {
    let mut words: BTreeMap<(Who, &RunKey), (Word, Micros)> = BTreeMap::new();
    let mut passed: Vec<(Who, &JobName, Tick, Tick)> = Vec::new();
    let mut reports: BTreeMap<(&RunKey, u32, &str), Micros> = BTreeMap::new();
    for line in &world.lines {
        let who = (line.replica, line.incarnation);
        let (run, word) = match &line.notice {
            Notice::RunSkipped { facts, reason, holder, .. } => {
                holds(world, &facts.run, *reason, holder.as_ref())?;
                let before = words.get(&(who, &facts.run));
                let twice = before.is_some_and(|(word, _)| *word == Word::Last);
                let skewed = || world.skewed.iter().any(|span| span.replica == line.replica);
                if twice && !is_forgotten(world, &facts.run) && !skewed() {
                    let (replica, incarnation) = who;
                    return Err(format!("r{replica}-{incarnation} said more than once that it skips {}", facts.run));
                }
                (&facts.run, Word::Last)
            }
            // A takeover: that somebody else had it was said.
            Notice::RunClaimed { facts, .. } if words.contains_key(&(who, &facts.run)) => (&facts.run, Word::TakenOver),
            Notice::RunClaimed { facts, .. } => (&facts.run, Word::Claimed),
            Notice::RunStarted { facts, .. }
            | Notice::RunFinished { facts, .. }
            | Notice::RunUnrecorded { facts, .. }
            | Notice::LeaseLost { facts, .. } => (&facts.run, Word::Last),
            Notice::TicksPassed { job, first, through } => {
                passed.push((who, job, *first, *through));
                continue;
            }
            Notice::RunLost { facts, .. } => {
                once(world, &mut reports, (&facts.run, facts.start, "lost"), line.at)?;
                continue;
            }
            Notice::RunMissed { facts, .. } => {
                once(world, &mut reports, (&facts.run, 0, "missed"), line.at)?;
                // Whoever has it, and finds it over, says no more than this.
                match words.get_mut(&(who, &facts.run)) {
                    Some((word, _)) => *word = Word::Last,
                    None => continue,
                }
                continue;
            }
            Notice::StoreForgot { .. } if !world.faults.amnesia => {
                return Err(format!("r{}-{} said that the store forgot", line.replica, line.incarnation));
            }
            _ => continue,
        };
        words.insert((who, run), (word, line.at));
    }
    for (name, spec) in specs(world) {
        heard(world, (name, spec), &words, &passed)?;
    }
    Ok(())
}

/// What is said once per fleet is said once, unless the store has forgotten in between that it was.
fn once<'a>(
    world: &World,
    reports: &mut BTreeMap<(&'a RunKey, u32, &'static str), Micros>,
    (run, start, what): (&'a RunKey, u32, &'static str),
    at: Micros,
) -> Result<(), String> {
    let Some(before) = reports.insert((run, start, what), at) else { return Ok(()) };
    let forgot = |forgot: &Micros| (before.saturating_sub(20 * SECOND)..at).contains(forgot);
    if world.forgot.iter().any(forgot) {
        return Ok(());
    }
    Err(format!("{run} start {start} was reported {what} at {before} and at {at}"))
}

/// Who is said to have a run has, or had it.
fn holds(world: &World, run: &RunKey, reason: SkipReason, holder: Option<&ReplicaId>) -> Result<(), String> {
    let Some(holder) = holder.filter(|_| reason == SkipReason::ClaimedByOther) else { return Ok(()) };
    let had = world.owners.get(run).is_some_and(|owners| owners.contains(holder));
    // A tick that was settled was decided by its author, and nobody had it.
    let settled = world.decided.get(run).is_some_and(|record| record.owner == *holder);
    match had || settled {
        true => Ok(()),
        false => Err(format!("{run} is said to be {holder}'s, and never was")),
    }
}

/// Each definition that a job has in some version of the table.
fn specs(world: &World) -> BTreeMap<(&JobName, &str), &JobSpec> {
    let all = world.versions.iter().flat_map(|version| &version.jobs);
    all.map(|spec| ((&spec.name, spec.spec_hash.as_str()), &**spec)).collect()
}

/// When each replica had a job under a definition.
fn duties(world: &World, spec: &JobSpec) -> Vec<(Who, Micros, Micros)> {
    let mut duties: Vec<(Who, Micros, Micros)> = Vec::new();
    for term in &world.terms {
        let has = |other: &std::sync::Arc<JobSpec>| other.name == spec.name && other.spec_hash == spec.spec_hash;
        if !world.versions[term.version].jobs.iter().any(has) {
            continue;
        }
        let who = (term.span.replica, term.incarnation);
        match duties.iter_mut().find(|(other, _, to)| *other == who && *to == term.span.from) {
            Some((_, _, to)) => *to = term.span.to,
            None => duties.push((who, term.span.from, term.span.to)),
        }
    }
    duties
}

/// Each replica has said of each tick what became of it.
fn heard(
    world: &World,
    (name, spec): ((&JobName, &str), &JobSpec),
    words: &BTreeMap<(Who, &RunKey), (Word, Micros)>,
    passed: &[(Who, &JobName, Tick, Tick)],
) -> Result<(), String> {
    let all = ticks::of_world(world, spec);
    for (who, from, to) in duties(world, spec) {
        let (from, to) = (EPOCH + (from / SECOND) as i64 + 3, EPOCH + (to / SECOND) as i64);
        let begin = all.partition_point(|tick| tick.seconds() <= from);
        for (index, tick) in all.iter().enumerate().skip(begin) {
            let over = ticks::window(spec, *tick, all.get(index + 1).copied()) + 30;
            if tick.seconds() + over > to {
                if over < 120 {
                    break;
                }
                continue;
            }
            let at = ticks::instant(*tick);
            let until = at + over as u64 * SECOND;
            let disturbs =
                |span: &crate::world::Span| span.replica == who.0 && span.meets(at.saturating_sub(25 * SECOND), until);
            // A clock that is off takes a tick for one of another time, before and after.
            let off = |span: &crate::world::Span| {
                span.replica == who.0 && span.meets(at.saturating_sub(62 * MINUTE), until + 62 * MINUTE)
            };
            if world.disturbed.iter().any(disturbs) || world.skewed.iter().any(off) {
                continue;
            }
            let run = RunKey::new(name.0.clone(), *tick);
            let in_passed = |(other, job, first, through): &(Who, &JobName, Tick, Tick)| {
                *other == who && *job == name.0 && (*first..=*through).contains(tick)
            };
            let (replica, incarnation) = who;
            match words.get(&(who, &run)) {
                Some((Word::Last | Word::TakenOver, _)) => {}
                Some((Word::Claimed, at)) if *at + 2 * MINUTE > ticks::instant(Tick::from_seconds(to)) => {}
                Some((Word::Claimed, at)) => {
                    return Err(format!("r{replica}-{incarnation} had {run} at {at} and said nothing more of it"));
                }
                None if passed.iter().any(in_passed) => {}
                None => return Err(format!("r{replica}-{incarnation} said nothing of {run}")),
            }
        }
    }
    Ok(())
}
