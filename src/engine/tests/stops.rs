//! A run of ours whose stop somebody asked for, through the store.

use super::super::StopCause;
use super::answers::*;
use super::*;

fn stop_asked(reason: StopReason, record: RunRecord) -> RunRecord {
    RunRecord { stop_asked: Some(reason), stop_asked_by: "web-2".into(), ..record }
}

/// Runs, and its first renewal tells that its stop was asked for.
fn told(spec: JobSpec, reason: StopReason) -> (Bench, Vec<Effect>) {
    let mut bench = Bench::running(spec);
    bench.until(5_000);
    let record = stop_asked(reason, mine(&run(), (RunState::Begun, 1, 3)));
    let effects = bench.reply(vec![with(Verdict::Renewed, record)]);
    (bench, effects)
}

fn completed(effects: &[Effect]) -> Vec<(Outcome, String)> {
    let ends = asked(effects).into_iter().filter_map(|step| match step {
        Step::Complete { ending, .. } => Some((ending.outcome, ending.error)),
        _ => None,
    });
    ends.collect()
}

#[test]
fn the_owner_stops_the_run_when_its_renewal_tells_it() {
    for (reason, cause, outcome) in [
        (StopReason::Replace, StopCause::Replaced, Outcome::Replaced),
        (StopReason::Cancel, StopCause::Cancelled, Outcome::Cancelled),
    ] {
        let (mut bench, effects) = told(job("a"), reason);
        assert_eq!(done(&effects), [Effect::Terminate { run: run() }]);
        let cancelled = Notice::RunCancelled { facts: facts(&run()), by: "web-2".into() };
        let said = if reason == StopReason::Cancel { vec![cancelled] } else { Vec::new() };
        assert_eq!(notices(&effects), [said, vec![Notice::RunStopping { facts: facts(&run()), cause }]].concat());
        // Told again with each renewal, it goes on as it was: KILL comes after the whole grace, 30 s.
        let record = stop_asked(reason, mine(&run(), (RunState::Begun, 1, 3)));
        let effects = bench.until_with(34_999, &mut |_| Some(with(Verdict::Renewed, record.clone())));
        assert_eq!(done(&effects), []);
        assert!(count(&effects, "renew") >= 5, "it is renewed while it stops");
        assert_eq!(done(&bench.until_with(35_000, &mut |step| Some(yes(step)))), [Effect::Kill { run: run() }]);
        let effects = bench.tell(Event::Ended { run: run(), exit: exit(1) });
        let [(found, error)] = &completed(&effects)[..] else { panic!("{effects:?}") };
        assert_eq!(*found, outcome);
        assert!(error.contains("web-2"), "{error}");
    }
}

#[test]
fn any_answer_about_the_job_tells_it() {
    let mut bench = Bench::running(job("a"));
    bench.until_with(3_599_999, &mut |step| Some(yes(step)));
    let record = stop_asked(StopReason::Replace, mine(&run(), (RunState::Begun, 1, 3)));
    let effects = bench.until_with(3_600_100, &mut |step| match step {
        Step::Claim(claim) => {
            let theirs = RunRecord {
                when_busy: WhenBusy::Replace,
                ..super::answers::record(&claim.run, (RunState::Claimed, 0, 2))
            };
            Some(Answer { open: vec![record.clone()], ..held(theirs) })
        }
        _ => None,
    });
    assert!(done(&effects).contains(&Effect::Terminate { run: run() }), "{effects:?}");
}

#[test]
fn a_mark_on_somebody_elses_run_stops_nothing_here() {
    let mut bench = Bench::running(job("a"));
    bench.until(5_000);
    let theirs = stop_asked(StopReason::Replace, record(&run(), (RunState::Begun, 1, 3)));
    let effects = bench
        .reply(vec![Answer { open: vec![theirs], ..with(Verdict::Renewed, mine(&run(), (RunState::Begun, 1, 3))) }]);
    assert_eq!(done(&effects), []);
}

#[test]
fn an_owner_that_loses_a_later_tick_to_one_that_replaces_looks_soon() {
    for (when_busy, looks_at) in [(WhenBusy::Replace, 3_600_400), (WhenBusy::Skip, 3_605_000)] {
        let mut bench = Bench::running(job("a"));
        bench.until_with(3_599_999, &mut |step| Some(yes(step)));
        let mut renewals = Vec::new();
        for at in [3_600_000, 3_600_100, 3_600_400, 3_604_900, 3_605_000] {
            let effects = bench.until_with(at, &mut |step| match step {
                Step::Claim(claim) => {
                    Some(held(RunRecord { when_busy, ..record(&claim.run, (RunState::Claimed, 0, 2)) }))
                }
                Step::Read { run } => Some(read(record(run, (RunState::Claimed, 0, 3)))),
                step => Some(yes(step)),
            });
            renewals.extend((0..count(&effects, "renew")).map(|_| at));
        }
        assert_eq!(renewals[..2], [3_600_000, looks_at], "at the tick, and then");
    }
}

#[test]
fn a_stopped_run_is_not_tried_again() {
    let spec = || JobSpec { retry: RetryPolicy { limit: 3, backoff: secs(20), max_backoff: secs(60) }, ..job("a") };
    let (mut bench, _) = told(spec(), StopReason::Replace);
    let effects = bench.end(1);
    assert_eq!(completed(&effects)[0].0, Outcome::Replaced, "it failed, and that is not why it ended");
    // The same between two attempts.
    let mut bench = Bench::running(spec());
    bench.end(1);
    bench.until(5_000);
    let record = stop_asked(StopReason::Cancel, mine(&run(), (RunState::Begun, 1, 3)));
    let effects = bench.reply(vec![with(Verdict::Renewed, record.clone())]);
    assert_eq!(done(&effects), [], "no process is there");
    assert_eq!(completed(&effects)[0].0, Outcome::Cancelled);
    // And when the next attempt begins.
    let mut bench = Bench::running(spec());
    bench.end(1);
    bench.until_with(19_999, &mut |step| Some(yes(step)));
    bench.until(20_000);
    let effects = bench.answer_all(&mut |step| match step {
        Step::Begin { .. } => Some(with(Verdict::StopAsked, record.clone())),
        _ => None,
    });
    assert_eq!(completed(&effects)[0].0, Outcome::Cancelled);
}

#[test]
fn a_process_that_is_not_there_yet_when_its_stop_is_asked_for_does_not_come() {
    let mut bench = Bench::beginning(job("a"));
    let record = stop_asked(StopReason::Replace, mine(&run(), (RunState::Begun, 1, 2)));
    let effects = bench.reply(vec![with(Verdict::Begun, record)]);
    assert!(matches!(&done(&effects)[..], [Effect::Start(_), Effect::Terminate { .. }]), "{effects:?}");
    let error = "asked to stop before its process was there".to_owned();
    let effects = bench.tell(Event::NotStarted { run: run(), too_late: true, error });
    assert_eq!(completed(&effects)[0].0, Outcome::Replaced, "and is not given back, to run elsewhere");
}

#[test]
fn a_claim_whose_stop_was_asked_for_is_settled_so() {
    let mut bench = Bench::beginning(job("a"));
    let record = stop_asked(StopReason::Cancel, mine(&run(), (RunState::Claimed, 0, 2)));
    let effects = bench.reply(vec![with(Verdict::StopAsked, record)]);
    let cancelled = Notice::RunCancelled { facts: facts(&run()), by: "web-2".into() };
    assert_eq!(notices(&effects), [cancelled, skipped(&run(), SkipReason::StopAsked)]);
    let decision = Decision::Stopped(StopReason::Cancel);
    assert!(
        matches!(&asked(&effects)[..], [Step::Settle { decision: found, .. }] if *found == decision),
        "{effects:?}"
    );
}

#[test]
fn a_run_on_the_same_replica_is_stopped_at_once() {
    let often = JobSpec { concurrency_policy: ConcurrencyPolicy::Replace, ..job("a") };
    let mut bench = Bench::running(often);
    bench.until_with(3_599_999, &mut |step| Some(yes(step)));
    let next = run_at(3600);
    let mut stopped = false;
    let occupied = |stopped: bool| {
        let ours = mine(&run(), (RunState::Begun, 1, 9));
        if stopped { stop_asked(StopReason::Replace, ours) } else { ours }
    };
    let mut store = |step: &Step| match step {
        Step::Begin { run: began, .. } | Step::Wait { run: began, .. } if *began == next => {
            let occupant = run().scheduled_for;
            Some(Answer { open: vec![occupied(stopped)], ..answer(Verdict::Busy { occupant, renewed: true }) })
        }
        Step::AskStop { .. } => {
            stopped = true;
            Some(with(Verdict::Asked, occupied(true)))
        }
        step => Some(yes(step)),
    };
    let effects = bench.until_with(3_600_100, &mut store);
    assert_eq!(count(&effects, "ask_stop"), 1);
    assert_eq!(done(&effects), [Effect::Terminate { run: run() }]);
    // It ends, and whoever waits here asks at once.
    bench.tell(Event::Ended { run: run(), exit: exit(0) });
    let effects = bench.answer_all(&mut |step| Some(yes(step)));
    assert!(matches!(&done(&effects)[..], [Effect::Start(order)] if order.run == next), "{effects:?}");
}

#[test]
fn a_lost_run_whose_stop_was_asked_for_is_drained_and_not_started_again() {
    let lost = RunRecord { rerun: true, ..record(&run(), (RunState::Lost, 1, 2)) };
    for (record, rerun) in [(lost.clone(), true), (stop_asked(StopReason::Replace, lost), false)] {
        let mut bench = Bench::watching(rerunning("a"), record.clone());
        let effects = bench.until_with(22_000, &mut |step| match step {
            Step::Read { .. } => Some(read(record.clone())),
            Step::Claim(_) | Step::Settle { .. } => None,
            step => Some(yes(step)),
        });
        let drained = |step: &Step| matches!(step, Step::Settle { decision: Decision::Drained, .. });
        assert_eq!((count(&effects, "claim") == 1, asked(&effects).iter().any(drained)), (rerun, !rerun));
    }
}
