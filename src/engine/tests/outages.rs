//! A store that does not answer.

use super::answers::*;
use super::*;
use std::collections::BTreeSet;

fn lost() -> Notice {
    Notice::StoreLost { kind: "maybe_applied", detail: "no answer".into() }
}

#[test]
fn no_answer_is_no_verdict() {
    let mut bench = Bench::claiming(job("a"));
    let first = bench.steps();
    let effects = bench.fail();
    assert_eq!(effects, [Effect::Notice(lost())], "nothing is said of the tick");
    assert!(!bench.engine.store_is_up());
    bench.until(1_000);
    assert_eq!(bench.steps(), first);
}

#[test]
fn too_few_answers_are_none() {
    let mut bench = Bench::claiming(job("a"));
    let effects = bench.reply(vec![]);
    assert!(matches!(&notices(&effects)[..], [Notice::StoreLost { kind: "maybe_applied", .. }]), "{effects:?}");
    assert_eq!(bench.engine.running(), 0);
}

#[test]
fn an_answer_that_comes_twice_counts_once() {
    let mut bench = Bench::claiming(job("a"));
    let (request, _) = bench.pending[0];
    bench.reply_yes();
    let again = with(Verdict::Won, mine(&run(), (RunState::Claimed, 0, 1)));
    assert_eq!(bench.tell(Event::Answered { request, result: Ok(vec![again]) }), []);
}

#[test]
fn an_outage_is_said_once_and_tried_one_batch_at_a_time_with_growing_waits() {
    let jobs: Vec<JobSpec> = (0..1_200).map(|number| job(&format!("j{number}"))).collect();
    let mut bench = Bench::start(&jobs, 0, -60);
    bench.answer_all(&mut |step| Some(yes(step)));
    let batches = asked_batches(&bench.until(0));
    assert_eq!(batches, [500, 500, 200], "while it answers, all at once");
    let mut effects = Vec::new();
    while !bench.pending.is_empty() {
        effects.extend(bench.fail());
    }
    assert_eq!(notices(&effects), [lost()], "once");
    assert_eq!(asked(&effects), []);
    let mut tries = Vec::new();
    for at in 1..200 {
        let effects = bench.until(at * 100);
        assert!(asked_batches(&effects).len() <= 1);
        if !bench.pending.is_empty() {
            assert_eq!(bench.pending.len(), 1);
            tries.push(at * 100);
            assert_eq!(notices(&bench.fail()), []);
        }
    }
    let waits: Vec<i64> = tries.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(tries.len() > 10 && waits.iter().all(|wait| (100..=2_000).contains(wait)), "{waits:?}");
}

/// The sizes of the batches, in order.
fn asked_batches(effects: &[Effect]) -> Vec<usize> {
    let size = |effect: &Effect| match effect {
        Effect::Ask { steps, .. } => Some(steps.len()),
        _ => None,
    };
    effects.iter().filter_map(size).collect()
}

#[test]
fn a_fresh_engine_sends_one_batch_until_it_knows_that_there_is_a_store() {
    let jobs: Vec<JobSpec> = (0..1_200).map(|number| job(&format!("j{number}"))).collect();
    let mut bench = Bench::start(&jobs, 0, -60);
    assert_eq!(bench.pending.len(), 1);
    let effects = bench.reply_yes();
    assert_eq!(notices(&effects), [Notice::StoreConnected { outage: None }]);
    bench.answer_all(&mut |step| Some(yes(step)));
    assert!(bench.engine.jobs.values().all(|job| job.registered));
}

#[test]
fn after_an_outage_leases_come_first_and_all_jobs_are_registered_again() {
    let jobs = [job("a"), JobSpec { schedule: every("5s"), ..job("b") }, JobSpec { schedule: every("8h"), ..job("c") }];
    let mut bench = Bench::ready(&jobs, 10);
    bench.until_with(0, &mut |step| match step {
        Step::Claim(claim) if claim.run.job != name("a") => Some(held(record(&claim.run, (RunState::Done, 1, 2)))),
        step => Some(yes(step)),
    });
    bench.until(5_010);
    while !bench.pending.is_empty() {
        bench.fail();
    }
    bench.until(6_000);
    let steps = bench.steps();
    assert_eq!(steps.iter().map(Step::name).collect::<Vec<_>>(), ["renew", "claim"], "the lease first");
    let answers = vec![yes(&steps[0]), held(record(steps[1].run().unwrap(), (RunState::Done, 1, 2)))];
    let outage = bench.clock();
    let effects = bench.reply(answers);
    let since = ms(u64::try_from(outage - 5_010).unwrap());
    assert_eq!(notices(&effects)[0], Notice::StoreConnected { outage: Some(since) });
    let registered: Vec<_> = asked(&effects).iter().map(|step| (step.name(), step.job().clone())).collect();
    assert_eq!(registered, ["a", "b", "c"].map(|job| ("register", name(job))));
}

#[test]
fn a_store_that_is_away_until_the_deadline_is_the_reason_and_the_tick_is_settled_when_it_is_back() {
    let mut bench = Bench::claiming(job("a"));
    bench.fail();
    let mut said = Vec::new();
    for second in 1..=30 {
        said.extend(notices(&bench.until(second * 1_000)));
        if !bench.pending.is_empty() && second < 30 {
            said.extend(notices(&bench.fail()));
        }
    }
    assert_eq!(said, [skipped(&run(), SkipReason::StoreUnavailable)]);
    let settle = Step::Settle {
        run: run(),
        owner: me(),
        previous: DECIDED,
        expect: Expect::Absent { after_ms: 20_000 },
        decision: Decision::Missed(MissedReason::StoreUnavailable),
    };
    bench.until(32_000);
    assert_eq!(bench.steps(), [settle]);
    let effects = bench.reply_yes();
    let missed = |notice: &Notice| matches!(notice, Notice::RunMissed { reason: MissedReason::StoreUnavailable, .. });
    assert_eq!(notices(&effects).iter().filter(|notice| missed(notice)).count(), 1);
}

/// The store answers, and a failover may undo what it says.
#[test]
fn what_no_replica_of_the_store_confirms_until_the_deadline_is_not_run_and_told_so() {
    let mut bench = Bench::claiming(job("a"));
    bench.fail_as(StoreFailure::NOT_DURABLE);
    let mut said = Vec::new();
    for second in 1..=30 {
        said.extend(notices(&bench.until(second * 1_000)));
        if !bench.pending.is_empty() && second < 30 {
            said.extend(notices(&bench.fail_as(StoreFailure::NOT_DURABLE)));
        }
    }
    assert_eq!(said, [skipped(&run(), SkipReason::NotDurable)]);
    bench.until(32_000);
    let settles =
        |step: &Step| matches!(step, Step::Settle { decision: Decision::Missed(MissedReason::NotDurable), .. });
    assert!(bench.steps().iter().all(settles), "{:?}", bench.steps());
    let effects = bench.reply_yes();
    let missed = |notice: &Notice| matches!(notice, Notice::RunMissed { reason: MissedReason::NotDurable, .. });
    assert_eq!(notices(&effects).iter().filter(|notice| missed(notice)).count(), 1);
}

#[test]
fn a_job_that_no_store_ever_knew_is_not_claimed_and_its_tick_has_a_reason() {
    let mut bench = Bench::start(&[job("a")], 10, -60);
    let effects = bench.until(20_000);
    assert_eq!(count(&effects, "claim"), 0);
    assert_eq!(notices(&effects), [skipped(&run(), SkipReason::StoreUnavailable)]);
}

/// Asked again at the same size, it would do the same work in vain for ever, and what comes due meanwhile adds to it.
#[test]
fn a_store_that_is_too_slow_for_a_batch_is_asked_less_at_once_until_it_has_answered_all() {
    const CAN_DO: usize = 100;
    let jobs: Vec<JobSpec> = (0..1_200).map(|number| job(&format!("j{number}"))).collect();
    let mut bench = Bench::start(&jobs, 0, -60);
    let mut registered = BTreeSet::new();
    for at in -590..0 {
        let steps: usize = bench.pending.iter().map(|(_, steps)| steps.len()).sum();
        while !bench.pending.is_empty() && steps > CAN_DO {
            bench.fail();
        }
        for _ in 0..bench.pending.len() {
            registered.extend(bench.steps().iter().map(|step| step.job().clone()));
            bench.reply_yes();
        }
        bench.until(at * 100);
    }
    assert_eq!(registered.len(), 1_200);
    assert!(bench.engine.store_is_up());
    bench.answer_all(&mut |step| Some(yes(step)));
    let claims = asked_batches(&bench.until(0));
    assert!(claims.iter().sum::<usize>() > CAN_DO / 2, "it is asked much at once all the same: {claims:?}");
}

/// A replica that stood still for a moment, or a network that did, is no store that is too slow.
#[test]
fn a_small_batch_without_an_answer_does_not_make_the_large_ones_smaller() {
    let mut jobs: Vec<JobSpec> = (0..1_199).map(|number| job(&format!("j{number}"))).collect();
    jobs.push(JobSpec { schedule: every("30s"), ..job("often") });
    let mut bench = Bench::ready(&jobs, 0);
    assert_eq!(asked_batches(&bench.until(-30_000)), [1]);
    bench.fail();
    bench.until(-28_000);
    bench.answer_all(&mut |step| Some(yes(step)));
    let batches = asked_batches(&bench.until(0));
    assert_eq!(batches.iter().filter(|steps| **steps == 500).count(), 2, "{batches:?}");
}

/// A table may be empty for a while: the daemon is ready all the same, and says when the store is away.
#[test]
fn without_jobs_a_meeting_tells_whether_the_store_answers() {
    let mut bench = Bench::start(&[], 10, -60);
    let mut told = Vec::new();
    for answers in [true, true, false, false, true] {
        bench.pass(secs(1));
        let gathering = Gathering { at: bench.now.wall.timestamp_millis(), members: Vec::new() };
        let result = if answers { Ok(gathering) } else { Err(no_answer()) };
        told.extend(notices(&bench.tell(Event::Met { sent: bench.now.boot, result })));
    }
    let lost = Notice::StoreLost { kind: "maybe_applied", detail: "no answer".into() };
    let connected = |outage| Notice::StoreConnected { outage };
    assert_eq!(told, [connected(None), lost, connected(Some(secs(2)))]);
    assert!(bench.engine.store_is_up());
}
