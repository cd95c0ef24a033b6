//! Ticks that nobody ran.

use super::answers::*;
use super::*;

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

#[test]
fn the_audit_goes_oldest_first_and_takes_a_hundred_at_a_time() {
    let mut bench = audit(JobSpec { schedule: every("10s"), ..job("a") }, (10_000, 0));
    let effects = bench.until(10_003_000);
    let ticks: Vec<i64> = asked(&effects)
        .iter()
        .filter(|step| step.name() == "settle")
        .map(|step| step.run().unwrap().scheduled_for.seconds() - TICK)
        .collect();
    assert_eq!(ticks, (1..=100).map(|number| number * 10).collect::<Vec<_>>());
    let links: Vec<Step> = asked(&effects).into_iter().filter(|step| step.name() == "settle").collect();
    assert_eq!(links[41], settle(420, 410, MissedReason::NoReplica), "each names the one before");
    bench.until(10_060_000);
    assert!(bench.engine.owed.len() <= 100 + 6, "{}", bench.engine.owed.len());
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
