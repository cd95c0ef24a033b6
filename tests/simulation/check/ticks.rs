//! What became of each tick, and when.

use super::is_forgotten;
use crate::world::EPOCH;
use crate::world::MINUTE;
use crate::world::Micros;
use crate::world::SECOND;
use crate::world::Term;
use crate::world::World;
use onecron::engine::Notice;
use onecron::job::*;
use std::collections::BTreeMap;
use std::sync::Arc;

/// So long after its tick and its deadline a tick is decided, if the fleet is there.
const AUDIT: i64 = 60;

/// All ticks of a job in the world's time.
pub fn of_world(world: &World, spec: &JobSpec) -> Vec<Tick> {
    let begin = Tick::from_seconds(EPOCH).to_datetime();
    let end = Tick::from_seconds(EPOCH + (world.end / SECOND) as i64).to_datetime();
    spec.schedule.between(begin, end).map(Tick::from_datetime).collect()
}

/// How long after the tick a start is over: jitter and deadline, seconds.
pub fn window(spec: &JobSpec, tick: Tick, next: Option<Tick>) -> i64 {
    let next = next.map(Tick::seconds);
    let ms = spec.delay(tick, next) + spec.starting_deadline_for(tick.seconds(), next);
    ms.as_secs() as i64 + 1
}

/// The tick on the true clock.
pub fn instant(tick: Tick) -> Micros {
    ((tick.seconds() - EPOCH).max(0) as Micros) * SECOND
}

/// The jobs whose schedule is the same in all versions of the table.
fn steady(world: &World) -> impl Iterator<Item = &Arc<JobSpec>> {
    world.versions[0].jobs.iter().filter(|spec| {
        let same = |other: &Arc<JobSpec>| other.name == spec.name && other.schedule == spec.schedule;
        world.versions.iter().all(|version| version.jobs.iter().any(same))
    })
}

/// Each tick since the beginning of its history has exactly one final record, and a start where it says so.
pub fn outcomes(world: &World) -> Result<(), String> {
    for spec in steady(world) {
        let sinces = world.sinces.get(&spec.name).ok_or(format!("{} was never registered", spec.name))?;
        let of_job = |run: &RunKey| run.job == spec.name;
        let first = RunKey::new(spec.name.clone(), Tick::from_seconds(i64::MIN));
        let decided = world.decided.range(first..).take_while(|(run, _)| of_job(run));
        let ranges: Vec<_> =
            decided.filter_map(|(_, record)| Some((record.range_first?, record.scheduled_for))).collect();
        let ticks = of_world(world, spec);
        for (index, tick) in ticks.iter().enumerate() {
            let over = tick.seconds() + window(spec, *tick, ticks.get(index + 1).copied()) + AUDIT;
            if over > EPOCH + (world.end / SECOND) as i64 || index + 1 == ticks.len() {
                break;
            }
            let run = RunKey::new(spec.name.clone(), *tick);
            let in_range = ranges.iter().any(|(first, last)| (*first..=*last).contains(tick));
            // A store that forgot all begins anew, if nobody was there who knew.
            let baseline = tick.millis() <= sinces[0]
                || (world.faults.amnesia
                    && sinces.iter().any(|since| (since - 15 * 60_000..=*since).contains(&tick.millis())));
            if !world.decided.contains_key(&run) && !in_range && !baseline {
                let job = world.records.job(&spec.name);
                let record = world.records.runs(&spec.name).find(|record| record.scheduled_for == *tick);
                return Err(format!("{run} has no outcome: {record:?} {job:?}"));
            }
        }
    }
    let mut starts: BTreeMap<&RunKey, Vec<&crate::world::Child>> = BTreeMap::new();
    for child in &world.children {
        starts.entry(&child.run).or_default().push(child);
    }
    for (run, record) in &world.decided {
        fits(world, (run, record), starts.get(run).map_or(&[], Vec::as_slice))?;
    }
    Ok(())
}

/// What a final record says is what happened.
fn fits(world: &World, (run, record): (&RunKey, &RunRecord), starts: &[&crate::world::Child]) -> Result<(), String> {
    let Some(outcome) = record.outcome else { return Err(format!("{run} is closed without an outcome: {record:?}")) };
    let forgotten = is_forgotten(world, run);
    let fail = |what: &str| Err(format!("{run} is {outcome} ({}) {what}: {record:?}", record.reason));
    if outcome == Outcome::Replaced && record.stop_asked != Some(StopReason::Replace) && !forgotten {
        return fail("and nobody asked for that");
    }
    if matches!(outcome, Outcome::Missed | Outcome::Skipped) && !starts.is_empty() && !forgotten {
        return fail("and was started");
    }
    let suspended = world.versions[0].jobs.iter().any(|spec| spec.name == run.job && spec.suspend);
    if suspended && !run.scheduled_for.is_manual() && record.reason != "suspended" && !forgotten {
        return fail("although its job is suspended");
    }
    let all = |spec: &Arc<JobSpec>| spec.name == run.job && spec.catch_up == CatchUp::All;
    let is_all = world.versions.iter().any(|version| version.jobs.iter().any(all));
    let is_excused = || was_given_up(world, run) || was_claimed_late(world, run) || was_overtaken(world, (run, record));
    if record.reason == "superseded" && is_all && !is_excused() {
        return fail("although all ticks of its job are to run");
    }
    for told in [Some(outcome), record.late_outcome].into_iter().flatten() {
        let ended = |child: &&&crate::world::Child| child.ended.is_some() && !child.killed;
        let last = starts.iter().filter(ended).find(|child| child.start == record.start);
        let proven = match told {
            Outcome::Succeeded => last.is_some_and(|child| child.code == 0),
            Outcome::Failed | Outcome::TimedOut => !starts.is_empty(),
            _ => true,
        };
        if !proven {
            return fail("and no process ended so");
        }
    }
    // One that may be started again is, as long as somebody can and may.
    let given_up = outcome == Outcome::Lost && record.may_run_again() && record.late_outcome.is_none();
    if given_up && !forgotten && record.reason.is_empty() {
        return fail("and could have been started again");
    }
    if outcome == Outcome::Missed && !forgotten {
        needed(world, run, record)?;
    }
    let guarded = [MissedReason::StoreForgot.as_str(), SkipReason::StoreForgot.as_str()];
    if guarded.contains(&record.reason.as_str()) && !world.faults.amnesia {
        return fail("and the store forgot nothing");
    }
    Ok(())
}

/// Whether some replica decided that nobody has it, or that it is not to run: its deadline passed there, the store was away,
/// its job was paused. Such a one does not wait for it, though another may still take it.
fn was_given_up(world: &World, run: &RunKey) -> bool {
    let by_another = [SkipReason::ClaimedByOther, SkipReason::Superseded, SkipReason::Draining];
    world.lines.iter().any(|line| match &line.notice {
        Notice::RunSkipped { facts, reason, .. } => facts.run == *run && !by_another.contains(reason),
        _ => false,
    })
}

/// Whether it began, was given back, and something that was ordered began before it could again.
fn was_overtaken(world: &World, (run, record): (&RunKey, &RunRecord)) -> bool {
    let is_order = |child: &crate::world::Child| child.run.job == run.job && child.run.scheduled_for.is_manual();
    let token = fencing_token(run.scheduled_for, record.start);
    record.start > 0 && world.children.iter().any(|child| is_order(child) && child.token > token)
}

/// Whether nobody had it before its deadline was as good as over, so that whoever had it then has a clock that is behind
/// that of those who did not wait for it.
fn was_claimed_late(world: &World, run: &RunKey) -> bool {
    let claims = world.lines.iter().filter_map(|line| match &line.notice {
        Notice::RunClaimed { facts, .. } if facts.run == *run => Some(line.at),
        _ => None,
    });
    let specs = world.versions.iter().flat_map(|version| &version.jobs).filter(|spec| spec.name == run.job);
    let deadline = specs
        .map(|spec| {
            let next = spec.schedule.after(run.scheduled_for.to_datetime()).map(Tick::from_datetime);
            instant(run.scheduled_for) + window(spec, run.scheduled_for, next) as u64 * SECOND
        })
        .max();
    // The window has a second more than the deadline, and clocks that are good differ by less than another one.
    claims.min().zip(deadline).is_some_and(|(claimed, deadline)| claimed + 2 * SECOND > deadline)
}

/// A tick is missed only where no replica was there that could have run it.
fn needed(world: &World, run: &RunKey, record: &RunRecord) -> Result<(), String> {
    let reasons = [MissedReason::NoReplica, MissedReason::StoreUnavailable, MissedReason::Late];
    if !reasons.iter().any(|reason| reason.as_str() == record.reason) || record.range_first.is_some() {
        return Ok(());
    }
    for term in &world.terms {
        let version = &world.versions[term.version];
        let Some(spec) = version.jobs.iter().find(|spec| spec.name == run.job) else { continue };
        let at = instant(run.scheduled_for);
        let next = spec.schedule.after(run.scheduled_for.to_datetime()).map(Tick::from_datetime);
        let until = at + window(spec, run.scheduled_for, next) as u64 * SECOND;
        // The others may have had the claim of it in their hands, and may have died with it.
        if spec.schedule.occurrences(Tick::from_seconds(run.scheduled_for.seconds() - 1).to_datetime(), 1)
            == [run.scheduled_for.to_datetime()]
            && is_good(world, term, (at.saturating_sub(10 * SECOND), until + 2 * SECOND))
        {
            return Err(format!(
                "{run} was missed ({}) while r{} was there: {record:?}",
                record.reason, term.span.replica
            ));
        }
    }
    Ok(())
}

/// Whether nothing kept a replica from its work in that time.
fn is_good(world: &World, term: &Term, (from, to): (Micros, Micros)) -> bool {
    let replica = term.span.replica;
    let there = term.span.from + 10 * SECOND <= from && to <= term.span.to;
    let well = |spans: &[crate::world::Span]| {
        !spans.iter().any(|span| span.replica == replica && span.meets(from.saturating_sub(20 * SECOND), to))
    };
    let calm = |times: &[(Micros, Micros)]| !times.iter().any(|(a, b)| *a < to && from < *b + 20 * SECOND);
    there && well(&world.disturbed) && well(&world.cuts) && calm(&world.troubles) && calm(&world.outages)
}

/// No run begins before its tick is due, nor later than it may.
pub fn times(world: &World) -> Result<(), String> {
    let mut first: BTreeMap<&RunKey, &crate::world::Child> = BTreeMap::new();
    // What people ordered is due at once, and the clock of whoever ordered it may be another one.
    for child in world.children.iter().filter(|child| !child.run.scheduled_for.is_manual()) {
        let earlier = first.entry(&child.run).or_insert(child);
        if child.began < earlier.began {
            *earlier = child;
        }
    }
    for (run, child) in first {
        let next = child.spec.schedule.after(run.scheduled_for.to_datetime()).map(|next| next.timestamp());
        let delay = child.spec.delay(run.scheduled_for, next).as_micros() as u64;
        let due = instant(run.scheduled_for) + delay;
        if child.began + EARLY_TOLERANCE_MS.unsigned_abs() * 1_000 < due {
            return Err(format!("{run} began at {} and is due at {due}", child.began));
        }
        let deadline = child.spec.starting_deadline_for(run.scheduled_for.seconds(), next).as_micros() as u64;
        // A begin whose answer was long under way; and one that replaces waits for the end of the other.
        let mut slack = 20 * SECOND;
        if child.spec.concurrency_policy == ConcurrencyPolicy::Replace {
            slack += MINUTE;
        }
        let by_clock = |span: &crate::world::Span| span.replica == child.replica && span.meets(due, child.began);
        let skewed = world.skewed.iter().any(by_clock);
        let late = child.began > due + deadline + slack;
        if late && !skewed && child.start == 1 {
            return Err(format!("{run} began at {}, due at {due}, deadline {deadline}", child.began));
        }
    }
    Ok(())
}
