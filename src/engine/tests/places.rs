//! `maxConcurrentRuns`: claim only what can be started.

use super::answers::*;
use super::*;

/// Two jobs, one place: which job was asked for with it, which without.
fn two_jobs_one_place() -> (Bench, RunKey, RunKey) {
    let mut bench = Bench::ready(&[job("a"), job("b")], 1);
    bench.until(0);
    let steps = bench.steps();
    let [Step::Claim(with), Step::Claim(without)] = &steps[..] else { panic!("{steps:?}") };
    assert_eq!((with.take, without.take), (true, false));
    (bench, with.run.clone(), without.run.clone())
}

#[test]
fn without_a_place_the_question_is_only_who_has_it() {
    let (mut bench, _, second) = two_jobs_one_place();
    bench.reply_yes();
    let effects = bench.until_with(700, &mut |step| Some(yes(step)));
    let claims: Vec<_> = asked(&effects).into_iter().filter(|step| step.name() == "claim").collect();
    assert!(matches!(&claims[..], [Step::Claim(claim)] if claim.run == second && !claim.take), "{claims:?}");
    assert_eq!(notices(&effects), []);
}

#[test]
fn it_looks_less_and_less_often_and_never_less_than_a_watcher() {
    let (mut bench, _, second) = two_jobs_one_place();
    bench.reply_yes();
    let mut looks = Vec::new();
    for tenth in 1..200 {
        let effects = bench.until_with(tenth * 100, &mut |step| Some(yes(step)));
        let claims = |step: &Step| matches!(step, Step::Claim(claim) if claim.run == second);
        looks.extend(asked(&effects).iter().filter(|step| claims(step)).map(|_| tenth * 100));
    }
    assert_eq!(looks, [500, 1_500, 3_500, 7_300, 11_000, 14_800, 18_500], "0.5, 1, 2, then 3.75 s apart");
}

#[test]
fn a_free_place_goes_to_the_tick_that_waits() {
    let (mut bench, first, second) = two_jobs_one_place();
    bench.reply_yes();
    bench.answer_all(&mut |step| Some(yes(step)));
    bench.tell(Event::Ended { run: first, exit: exit(0) });
    let effects = bench.reply_yes();
    assert!(matches!(&asked(&effects)[..], [Step::Claim(claim)] if claim.run == second && claim.take), "{effects:?}");
}

#[test]
fn a_tick_that_found_no_place_until_its_deadline_is_saturated() {
    let (mut bench, _, second) = two_jobs_one_place();
    bench.reply_yes();
    let effects = bench.until_with(19_999, &mut |step| Some(yes(step)));
    assert_eq!(notices(&effects), []);
    let effects = bench.until(20_000);
    assert_eq!(notices(&effects), [skipped(&second, SkipReason::Saturated)]);
    let decision = Decision::Missed(MissedReason::Saturated);
    let settles =
        |step: &Step| matches!(step, Step::Settle { run, decision: d, .. } if *run == second && *d == decision);
    assert!(asked(&effects).iter().any(settles), "{effects:?}");
}

#[test]
fn a_tick_that_was_given_back_while_no_place_was_free_is_saturated_too() {
    let (mut bench, _, second) = two_jobs_one_place();
    bench.reply_yes();
    let effects = bench.until_with(20_000, &mut |step| match step {
        Step::Claim(claim) => Some(held(record(&claim.run, (RunState::Abandoned, 0, 2)))),
        Step::Settle { .. } => None,
        step => Some(yes(step)),
    });
    assert_eq!(notices(&effects), [skipped(&second, SkipReason::Saturated)]);
}

/// Its record is open, and a later tick may be decided: to take that for settled would leave it open for ever.
#[test]
fn a_tick_that_was_given_back_and_found_no_place_is_settled_as_saturated() {
    let (mut bench, _, second) = two_jobs_one_place();
    bench.reply_yes();
    let decided = JobRecord { revision: 9, ..job_record(TICK) };
    bench.engine.learn(bench.now, &second.job, &decided);
    let effects = bench.until_with(30_000, &mut |step| match step {
        Step::Claim(claim) if claim.takeover.is_some() => {
            Some(with(Verdict::Won, mine(&second, (RunState::Claimed, 0, 3))))
        }
        Step::Claim(claim) => Some(Answer { job: None, ..held(record(&claim.run, (RunState::Abandoned, 0, 2))) }),
        Step::Settle { run, expect: Expect::Absent { .. }, .. } if *run == second => {
            Some(with(Verdict::Changed, record(run, (RunState::Abandoned, 0, 2))))
        }
        step => Some(yes(step)),
    });
    let missed = |step: &Step| {
        matches!(step, Step::Settle { run, expect: Expect::Own(_), decision, .. }
            if *run == second && *decision == Decision::Missed(MissedReason::Saturated))
    };
    assert!(asked(&effects).iter().any(missed), "{effects:#?}");
}

#[test]
fn claims_under_way_count_as_places() {
    let mut bench = Bench::ready(&["a", "b", "c", "d"].map(job), 2);
    bench.until(0);
    let taking = |step: &Step| matches!(step, Step::Claim(claim) if claim.take);
    assert_eq!(bench.steps().iter().filter(|step| taking(step)).count(), 2);
    // All lost: the places are free again, and nothing stays behind.
    let lost = bench.steps().iter().map(|step| held(record(step.run().unwrap(), (RunState::Begun, 1, 2)))).collect();
    bench.reply(lost);
    assert_eq!(bench.engine.free_places(), 2);
    assert!(bench.engine.without_place.is_empty());
}

#[test]
fn no_limit_takes_all() {
    let mut bench = Bench::ready(&["a", "b", "c", "d"].map(job), 0);
    bench.until(0);
    assert!(bench.steps().iter().all(|step| matches!(step, Step::Claim(claim) if claim.take)));
}

/// When the tick ten minutes later is claimed, by a replica that runs job `a` or not.
fn claim_of_the_next_tick(busy: bool) -> i64 {
    let often = JobSpec { schedule: every("10m"), ..job("b") };
    let mut bench = Bench::ready(&[job("a"), often], 2);
    let mut claimed_at = None;
    for at in [0, 599_999, 600_000, 600_024, 600_025, 600_100] {
        let effects = bench.until_with(at, &mut |step| match step {
            Step::Claim(claim) if busy && claim.run == run() => Some(yes(step)),
            Step::Claim(claim) => Some(held(record(&claim.run, (RunState::Done, 1, 2)))),
            step => Some(yes(step)),
        });
        if at > 0 && count(&effects, "claim") > 0 {
            claimed_at.get_or_insert(at);
        }
    }
    claimed_at.unwrap()
}

#[test]
fn a_busy_replica_holds_back_and_an_idle_one_does_not() {
    assert_eq!(claim_of_the_next_tick(false), 600_000);
    assert_eq!(claim_of_the_next_tick(true), 600_025, "half of its places are taken: half of 50 ms");
}

#[test]
fn a_tick_that_is_passed_over_keeps_no_place_from_others() {
    let often = JobSpec { schedule: every("10s"), starting_deadline: Some(secs(60)), ..job("c") };
    let mut bench = Bench::ready(&[job("a"), often], 1);
    let mut store = |step: &Step| match step {
        Step::Claim(claim) if claim.run.job == name("c") && claim.run.scheduled_for.seconds() <= TICK => {
            Some(held(record(&claim.run, (RunState::Done, 1, 2))))
        }
        step => Some(yes(step)),
    };
    bench.until_with(1_000, &mut store);
    assert!(bench.engine.runs.contains_key(&run()));
    // Woken late, twice: each of the two ticks is a late one and waits for the place, and only the newer one may run.
    for _ in 0..2 {
        bench.pass(secs(if bench.clock() < 10_000 { 16 } else { 10 }));
        bench.tell(Event::Woke);
        bench.until_with(bench.clock() + 100, &mut store); // held back: the replica is busy
    }
    let waiting: Vec<_> =
        bench.engine.without_place.iter().map(|(_, run)| run.scheduled_for.seconds() - TICK).collect();
    assert_eq!(waiting, [20]);
}
