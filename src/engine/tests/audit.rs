//! Ticks that nobody ran.

use super::answers::*;
use super::*;
use crate::engine::owed::Owed;
use crate::engine::owed::UNLINKED;

fn settle(seconds: i64, previous: i64, reason: MissedReason) -> Step {
    Step::Settle {
        run: run_at(seconds),
        owner: me(),
        previous: TICK + previous,
        expect: Expect::Absent { after_ms: 20_000 },
        decision: Decision::Missed(reason),
    }
}

/// A replica that starts when the past is over, and a store that has decided through then.
fn audit(spec: JobSpec, (starts, decided): (i64, i64)) -> Bench {
    let mut bench = Bench::start(&[spec], 10, starts);
    let job = Some(job_record(TICK + decided));
    bench.reply(vec![Answer { job, ..answer(Verdict::Registered { fresh: false, rescheduled: false }) }]);
    bench
}

#[test]
fn a_tick_that_nobody_decided_is_settled_after_its_deadline() {
    let mut bench = audit(job("a"), (10_000, 3600));
    let effects = bench.until(10_005_000);
    assert_eq!(asked(&effects), [settle(7200, 3600, MissedReason::NoReplica)]);
    let job = Some(JobRecord { revision: 2, ..job_record(TICK + 7200) });
    let done = mine(&run_at(7200), (RunState::Done, 0, 0));
    let effects = bench.reply(vec![Answer { job, ..with(Verdict::Settled, done) }]);
    let late_ms = bench.clock() - 7_200_000;
    let facts = facts(&run_at(7200));
    assert_eq!(notices(&effects), [Notice::RunMissed { facts, reason: MissedReason::NoReplica, late_ms }]);
    assert_eq!(bench.until(10_100_000), []);
}

#[test]
fn a_tick_that_somebody_has_is_not_missed() {
    let mut bench = audit(job("a"), (10_000, 3600));
    bench.until(10_005_000);
    let effects = bench.reply(vec![with(Verdict::Changed, record(&run_at(7200), (RunState::Begun, 1, 2)))]);
    assert_eq!(notices(&effects), []);
    assert!(bench.engine.watches.contains_key(&run_at(7200)));
    assert!(bench.engine.owed.is_empty());
}

fn settled(effects: &[Effect]) -> Vec<i64> {
    let settles = asked(effects).into_iter().filter(|step| step.name() == "settle");
    settles.map(|step| step.run().unwrap().scheduled_for.seconds() - TICK).collect()
}

#[test]
fn up_to_a_hundred_are_settled_one_by_one_and_oldest_first() {
    let mut bench = audit(JobSpec { schedule: every("10s"), ..job("a") }, (10_000, 9_000));
    let effects = bench.until(10_003_000);
    assert_eq!(settled(&effects), (901..=997).map(|number| number * 10).collect::<Vec<_>>());
    let links: Vec<Step> = asked(&effects).into_iter().filter(|step| step.name() == "settle").collect();
    assert_eq!(links[41], settle(9_420, 9_410, MissedReason::NoReplica), "each names the one before");
}

fn range(first: i64, last: i64, decision: Decision) -> Step {
    Step::Settle {
        run: run_at(last),
        owner: me(),
        previous: TICK + first - 10,
        expect: Expect::AbsentRange {
            first: run_at(first).scheduled_for,
            count: u64::try_from((last - first) / 10 + 1).unwrap(),
            after_ms: 20_000,
        },
        decision,
    }
}

#[test]
fn more_than_a_hundred_are_a_range_that_is_said_once() {
    let mut bench = audit(JobSpec { schedule: every("10s"), ..job("a") }, (10_000, 0));
    let missed = Decision::Missed(MissedReason::NoReplica);
    let effects = bench.until(10_003_000);
    let asked: Vec<Step> = asked(&effects).into_iter().filter(|step| step.name() == "settle").collect();
    assert_eq!(asked, [range(10, 9_970, missed)]);
    let position = bench.pending.iter().position(|(_, steps)| steps.contains(&asked[0])).unwrap();
    let (request, steps) = bench.pending.remove(position).unwrap();
    let effects = bench.tell(Event::Answered { request, result: Ok(steps.iter().map(yes).collect()) });
    let (first, through) = (run_at(10).scheduled_for, run_at(9_970).scheduled_for);
    let said = Notice::RunsMissed { job: name("a"), first, through, count: 997, reason: MissedReason::NoReplica };
    assert!(notices(&effects).contains(&said), "{effects:?}");
    let effects = bench.until_with(10_100_000, &mut |step| Some(yes(step)));
    assert!(settled(&effects).iter().all(|tick| *tick > 9_970), "what is settled is settled");
}

/// What follows from a record in the middle, told by the store or not.
#[test]
fn a_range_ends_before_a_tick_that_has_a_record() {
    let mut bench = audit(JobSpec { schedule: every("10s"), ..job("a") }, (10_000, 0));
    let missed = Decision::Missed(MissedReason::NoReplica);
    let occupied = |n| Some(answer(Verdict::Occupied { at: run_at(n).scheduled_for }));
    let effects = bench.until_with(10_003_000, &mut |step| match step {
        Step::Settle { expect: Expect::AbsentRange { .. }, run, .. } if run.scheduled_for.seconds() >= TICK + 5_000 => {
            occupied(5_000)
        }
        Step::Claim(_) => None,
        Step::Settle { .. } => None,
        step => Some(yes(step)),
    });
    assert_eq!(asked(&effects).last(), Some(&range(10, 4_990, missed)));
    let mut bench = audit(JobSpec { schedule: every("10s"), ..job("a") }, (10_000, 0));
    let effects = bench.until_with(10_003_000, &mut |step| match step {
        Step::Settle { expect: Expect::AbsentRange { .. }, .. } => occupied(10),
        Step::Claim(_) | Step::Settle { .. } => None,
        step => Some(yes(step)),
    });
    let singles: Vec<i64> = settled(&effects).into_iter().filter(|tick| *tick < 9_000).collect();
    // A newer tick waits, too: the last two make a range, so that there are no more than a hundred.
    let found = (1..=100).filter(|number| *number != 99).map(|number| number * 10).collect::<Vec<_>>();
    assert_eq!(singles, found, "its neighbours, one by one");
}

/// A store that is away for hours must not make a list of all that was missed.
#[test]
fn what_was_missed_in_a_long_outage_waits_as_a_range() {
    let spec = JobSpec { schedule: every("10s"), ..job("a") };
    let mut bench = Bench::ready(&[spec], 10);
    bench.until_with(0, &mut |step| Some(yes(step)));
    for second in 1..=5_000 {
        bench.until(second * 1_000);
        while !bench.pending.is_empty() {
            bench.fail();
        }
    }
    assert!(bench.engine.owed.len() <= 102, "{}", bench.engine.owed.len());
    let counted: u64 = bench.engine.owed.values().map(|owed| owed.count).sum();
    assert!((490..=500).contains(&counted), "none is forgotten: {counted}");
    let effects = bench.until_with(5_010_000, &mut |step| match step {
        Step::Claim(_) => Some(answer(Verdict::Forgot)),
        step => Some(yes(step)),
    });
    let ranges: Vec<_> = notices(&effects)
        .into_iter()
        .filter_map(|notice| match notice {
            Notice::RunsMissed { count, reason, .. } => Some((count > 300, reason)),
            _ => None,
        })
        .collect();
    assert_eq!(ranges, [(true, MissedReason::StoreUnavailable)]);
}

#[test]
fn a_settlement_that_the_store_finds_early_waits() {
    let mut bench = audit(job("a"), (10_000, 3600));
    bench.until(10_005_000);
    let at = bench.clock();
    assert_eq!(bench.reply(vec![answer(Verdict::TooEarly { by_ms: 1_000 })]), []);
    assert_eq!(bench.until(at + 1_049), []);
    assert_eq!(count(&bench.until(at + 1_050), "settle"), 1);
}

#[test]
fn a_chain_that_is_broken_is_joined_without_a_second_word() {
    let mut bench = audit(job("a"), (10_000, 3600));
    bench.until(10_005_000);
    // Settled, and yet the job's record did not advance: an older tick had no record.
    let run = Some(mine(&run_at(7200), (RunState::Done, 0, 0)));
    let settled = Answer { run, job: Some(job_record(TICK + 3600)), ..answer(Verdict::Settled) };
    let effects = bench.reply(vec![settled.clone()]);
    assert_eq!(notices(&effects).len(), 1);
    let effects = bench.until_with(10_060_000, &mut |_| Some(settled.clone()));
    assert!(count(&effects, "settle") > 0, "it is asked again, to advance");
    assert_eq!(notices(&effects), []);
}

#[test]
fn what_a_store_forgot_is_settled_again_without_a_second_word() {
    let mut bench = audit(job("a"), (10_000, 3600));
    bench.until(10_005_000);
    let done = |decided, revision| {
        let job = Some(JobRecord { revision, ..job_record(TICK + decided) });
        Answer { job, ..with(Verdict::Settled, mine(&run_at(7200), (RunState::Done, 0, 0))) }
    };
    assert_eq!(notices(&bench.reply(vec![done(7200, 2)])).len(), 1);
    // It was killed, and has a new record of the job, in which less is decided.
    bench.tell(Event::StoreChanged);
    let fresh = Answer {
        job: Some(job_record(TICK + 3600)),
        ..answer(Verdict::Registered { fresh: true, rescheduled: false })
    };
    let effects = bench.until_with(10_040_000, &mut |step| match step {
        Step::Register(_) => Some(fresh.clone()),
        Step::Settle { .. } => Some(done(7200, 2)),
        step => Some(yes(step)),
    });
    assert!(settled(&effects).contains(&7200), "{effects:?}");
    assert!(!notices(&effects).iter().any(|notice| matches!(notice, Notice::RunMissed { .. })), "{effects:?}");
}

#[test]
fn nothing_is_settled_while_nobody_knows_what_is_decided() {
    let mut bench = Bench::start(&[job("a")], 10, 10_000);
    bench.fail();
    for second in 1..60 {
        let effects = bench.until(10_000_000 + second * 1_000);
        assert_eq!(count(&effects, "settle"), 0);
        if !bench.pending.is_empty() {
            bench.fail();
        }
    }
}

/// A range is settled as what follows on what is decided; such a tick follows on nothing, and has a record of its own.
#[test]
fn a_tick_that_has_a_record_is_no_part_of_a_range() {
    let terms = (secs(20), Decision::Missed(MissedReason::NoReplica));
    let next = Owed::one(run_at(10).scheduled_for, TICK, terms);
    for (previous, joins) in [(TICK - 10, true), (UNLINKED, false)] {
        let before = Owed::one(run().scheduled_for, previous, terms);
        assert_eq!(next.continues(&run(), &before), joins);
    }
}
