//! Late ticks, and ticks that are not to run.

use super::answers::*;
use super::*;

const NONE: [i64; 0] = [];

/// Every ten seconds, with a minute to start.
fn often(catch_up: CatchUp) -> JobSpec {
    JobSpec { catch_up, schedule: every("10s"), starting_deadline: Some(secs(60)), ..job("a") }
}

/// Ticks that are claimed, in seconds after [`TICK`].
fn claims(effects: &[Effect]) -> Vec<i64> {
    let claim = |step: Step| match step {
        Step::Claim(claim) => Some(claim.run.scheduled_for.seconds() - TICK),
        _ => None,
    };
    asked(effects).into_iter().filter_map(claim).collect()
}

fn skips(effects: &[Effect], wanted: SkipReason) -> Vec<i64> {
    let skip = |notice| match notice {
        Notice::RunSkipped { facts, reason, .. } if reason == wanted => Some(facts.run.scheduled_for.seconds() - TICK),
        _ => None,
    };
    notices(effects).into_iter().filter_map(skip).collect()
}

/// A replica that starts 38 s after a tick: those at 0, 10 and 20 and 30 are late and may still start.
fn late(spec: JobSpec) -> (Bench, Vec<Effect>) {
    let mut bench = Bench::start(&[spec], 10, 38);
    let job = Some(job_record(TICK - 10));
    let registered = Answer { job, ..answer(Verdict::Registered { fresh: false, rescheduled: false }) };
    let effects = bench.reply(vec![registered]);
    (bench, effects)
}

#[test]
fn none_of_the_late_ticks_run_if_the_job_says_so() {
    let (mut bench, effects) = late(often(CatchUp::None));
    assert_eq!(claims(&effects), NONE);
    assert_eq!(skips(&effects, SkipReason::CatchUp), [0, 10, 20, 30]);
    let effects = bench.until_with(100_000, &mut |step| match step {
        Step::Claim(claim) => Some(held(record(&claim.run, (RunState::Done, 1, 3)))),
        step => Some(yes(step)),
    });
    assert_eq!(claims(&effects), [40, 50, 60, 70, 80, 90, 100], "those on time do");
    let missed = |notice: &Notice| match notice {
        Notice::RunMissed { facts, reason: MissedReason::CatchUp, .. } => {
            Some(facts.run.scheduled_for.seconds() - TICK)
        }
        _ => None,
    };
    assert_eq!(notices(&effects).iter().filter_map(missed).collect::<Vec<_>>(), [0, 10, 20, 30]);
}

#[test]
fn all_late_ticks_run_one_at_a_time_and_oldest_first() {
    let (mut bench, effects) = late(often(CatchUp::All));
    assert_eq!(claims(&effects), [0]);
    let mut order = Vec::new();
    let claims = |effects: &[Effect]| claims(effects).into_iter().filter(|tick| *tick < 40).collect::<Vec<_>>();
    for at in [0, 10, 20, 30] {
        let effects = bench.answer_all(&mut |step| Some(yes(step)));
        order.extend(claims(&effects));
        let waited = bench.clock() + 400;
        assert_eq!(claims(&bench.until(waited)), NONE, "while one of them runs the next one waits");
        let ended = bench.tell(Event::Ended { run: run_at(at), exit: exit(0) });
        order.extend(claims(&ended));
        order.extend(claims(&bench.answer_all(&mut |step| Some(yes(step)))));
        let next = bench.until(bench.clock() + 300);
        order.extend(claims(&next));
    }
    assert_eq!(order, [10, 20, 30]);
}

#[test]
fn a_tick_on_time_waits_for_the_late_ones_where_all_are_to_run() {
    let (mut bench, _) = late(often(CatchUp::All));
    let effects = bench.until_with(45_000, &mut |step| Some(yes(step)));
    assert_eq!(claims(&effects), NONE, "40 would make 10, 20 and 30 superseded");
}

#[test]
fn a_late_tick_that_another_replica_runs_keeps_the_next_one_waiting() {
    let (mut bench, _) = late(often(CatchUp::All));
    let begun = RunRecord { trigger: "catch-up".into(), ..record(&run_at(0), (RunState::Begun, 1, 2)) };
    bench.reply(vec![held(begun)]);
    assert_eq!(claims(&bench.until_with(40_000, &mut |_| None)), NONE);
    let effects = bench.until_with(45_000, &mut |step| match step {
        Step::Read { run } => Some(read(record(run, (RunState::Done, 1, 3)))),
        _ => None,
    });
    assert_eq!(claims(&effects), [10]);
}

#[test]
fn of_more_than_a_hundred_late_ticks_the_newest_hundred_run() {
    let spec = JobSpec { schedule: every("1s"), starting_deadline: Some(secs(600)), ..often(CatchUp::All) };
    let mut bench = Bench::start(&[spec], 10, 300);
    let job = Some(job_record(TICK));
    let registered = Answer { job, ..answer(Verdict::Registered { fresh: false, rescheduled: false }) };
    let effects = bench.reply(vec![registered]);
    assert_eq!(claims(&effects), [201]);
    assert_eq!(bench.engine.ticks.len(), CATCH_UP_MOST);
}

/// The burst that follows an outage shorter than what counts as late.
#[test]
fn a_short_outage_is_not_followed_by_a_burst() {
    let spec = JobSpec { schedule: every("1s"), ..often(CatchUp::Latest) };
    let mut bench = Bench::ready(&[spec], 10);
    bench.until_with(-500, &mut |step| match step {
        Step::Claim(claim) => Some(held(record(&claim.run, (RunState::Done, 1, 3)))),
        step => Some(yes(step)),
    });
    for at in 0..35 {
        let asked = claims(&bench.until(at * 100));
        assert!(
            asked.iter().all(|tick| *tick >= (at - 1).div_euclid(10)),
            "the newest alone is asked for: {asked:?} at {at}"
        );
        while !bench.pending.is_empty() {
            bench.fail();
        }
    }
    let effects = bench.until_with(3_950, &mut |step| Some(yes(step)));
    assert_eq!(skips(&effects, SkipReason::CatchUp), [0, 1, 2]);
    assert_eq!(claims(&effects), [3], "the newest runs");
}

#[test]
fn ticks_of_a_suspended_job_are_said_and_recorded_as_skipped() {
    let mut bench = Bench::ready(&[JobSpec { suspend: true, ..job("a") }], 10);
    let effects = bench.until(0);
    assert_eq!(claims(&effects), NONE);
    assert_eq!(notices(&effects), [skipped(&run(), SkipReason::Suspended)]);
    let effects = bench.until(20_000);
    let settle = Step::Settle {
        run: run(),
        owner: me(),
        previous: DECIDED,
        expect: Expect::Absent { after_ms: 20_000 },
        decision: Decision::Skipped(SkipReason::Suspended),
    };
    assert_eq!(asked(&effects), [settle]);
    assert_eq!(notices(&bench.reply_yes()), [], "nothing was missed");
}

#[test]
fn a_suspended_job_has_no_misses_from_when_nobody_was_up() {
    let mut bench = Bench::start(&[JobSpec { suspend: true, ..job("a") }], 10, 10_000);
    let job = Some(job_record(TICK + 3600));
    bench.reply(vec![Answer { job, ..answer(Verdict::Registered { fresh: false, rescheduled: false }) }]);
    let effects = bench.until_with(10_005_000, &mut |step| Some(yes(step)));
    let decisions: Vec<Decision> = asked(&effects)
        .into_iter()
        .filter_map(|step| match step {
            Step::Settle { decision, .. } => Some(decision),
            _ => None,
        })
        .collect();
    assert_eq!(decisions, [Decision::Skipped(SkipReason::Suspended)]);
    assert_eq!(notices(&effects), []);
}

/// The store was away, and tells of a run that was given back and that this replica has passed over: to offer it again
/// would be to skip it again.
#[test]
fn a_tick_that_was_passed_over_is_watched_when_its_job_is_registered_again() {
    let mut bench = Bench::claiming(JobSpec { catch_up: CatchUp::None, ..job("a") });
    bench.reply(vec![answer(Verdict::TooOld)]);
    bench.until(6_000);
    bench.tell(Event::StoreChanged);
    let open = vec![record(&run(), (RunState::Abandoned, 0, 2))];
    let effects =
        bench.reply(vec![Answer { open, ..answer(Verdict::Registered { fresh: false, rescheduled: false }) }]);
    assert_eq!(notices(&effects), []);
    assert!(bench.engine.watches.contains_key(&run()));
}

/// Each knows only what the store told it when it asked.
#[test]
fn a_late_tick_waits_for_the_slot_that_an_earlier_late_one_has_elsewhere() {
    // The last of them counts as on time, and began after the next one was due.
    let next = (TICK + 10) * 1_000;
    for (trigger, begun_at, waits) in [("catch-up", 0, true), ("schedule", next - 1, false), ("schedule", next, true)] {
        let (mut bench, _) = late(often(CatchUp::All));
        bench.reply(vec![held(record(&run_at(0), (RunState::Done, 1, 3)))]);
        bench.until_with(bench.clock() + 1_000, &mut |step| matches!(step, Step::Claim(_)).then(|| yes(step)));
        let Some(Step::Begin { run: late, .. }) = bench.steps().first().cloned() else { panic!("{:?}", bench.steps()) };
        let begun = RunRecord { trigger: trigger.into(), begun_at, ..record(&run_at(0), (RunState::Begun, 1, 4)) };
        let busy =
            Answer { open: vec![begun], ..answer(Verdict::Busy { occupant: run().scheduled_for, renewed: true }) };
        let effects = bench.reply(vec![busy]);
        assert_eq!(notices(&effects).is_empty(), waits, "{trigger} {begun_at}: {effects:?}");
        let asks = bench.until(bench.clock() + 1_000);
        let begins = asked(&asks)
            .iter()
            .any(|step| step.run() == Some(&late) && matches!(step, Step::Begin { .. } | Step::Wait { .. }));
        assert_eq!(begins, waits, "{trigger}");
    }
}

/// What was on time when it came is late when the store is back.
#[test]
fn ticks_that_came_while_the_store_was_away_run_in_turn_too() {
    let mut bench = Bench::ready(&[often(CatchUp::All)], 10);
    for second in -50..=35 {
        bench.until(second * 1_000);
        while !bench.pending.is_empty() {
            bench.fail();
        }
    }
    let mut first = None;
    let effects = bench.until_with(38_000, &mut |step| {
        if let Step::Claim(claim) = step {
            first.get_or_insert_with(|| claim.clone());
        }
        Some(yes(step))
    });
    let first = first.unwrap();
    assert_eq!(first.trigger, "catch-up");
    assert_eq!(
        claims(&effects).into_iter().max(),
        Some(first.run.scheduled_for.seconds() - TICK),
        "the next one waits"
    );
}

/// Claimed by another replica when its time came, and not begun: as when that one is slow, or its store is.
fn with_one_claimed_elsewhere(waiting_since: i64) -> Bench {
    let mut bench = Bench::ready(&[often(CatchUp::All)], 10);
    bench.until_with(500, &mut |step| match step {
        Step::Claim(claim) if claim.run == run() => {
            let claimed = record(&run(), (RunState::Claimed, 0, 1));
            Some(held(RunRecord { waiting_since, takeover_ms: 30_000, ..claimed }))
        }
        Step::Claim(claim) => Some(held(record(&claim.run, (RunState::Done, 1, 3)))),
        step => Some(yes(step)),
    });
    bench
}

#[test]
fn a_tick_on_time_waits_while_an_older_one_is_claimed_and_may_still_begin() {
    let mut bench = with_one_claimed_elsewhere(0);
    let effects = bench.until_with(10_900, &mut |step| match step {
        Step::Read { run } => Some(read(RunRecord { takeover_ms: 30_000, ..record(run, (RunState::Claimed, 0, 1)) })),
        _ => None,
    });
    assert_eq!(claims(&effects), NONE, "10 would make 0 superseded");
    assert!(count(&effects, "read") >= 3, "it is seen soon when that one begins: {effects:?}");
    let effects = bench.until_with(11_900, &mut |step| match step {
        Step::Read { run } => Some(read(record(run, (RunState::Begun, 1, 2)))),
        _ => None,
    });
    assert_eq!(claims(&effects), [10]);
}

#[test]
fn a_tick_on_time_does_not_wait_for_one_that_itself_waits_for_another_run() {
    let mut bench = with_one_claimed_elsewhere(TICK * 1_000);
    assert_eq!(claims(&bench.until_with(10_100, &mut |_| None)), [10]);
}

/// Of our own, too: one that waits for a sign of life of what is in its way begins before the next one, or not at all.
#[test]
fn a_tick_on_time_waits_for_one_of_ours_that_is_kept_from_its_begin() {
    for policy in [ConcurrencyPolicy::Forbid, ConcurrencyPolicy::Queue] {
        let spec = JobSpec { concurrency_policy: policy, ..often(CatchUp::All) };
        let mut bench = Bench::ready(&[spec], 10);
        let mut busy = |step: &Step| match step {
            Step::Claim(claim) if claim.run.scheduled_for.seconds() < TICK => {
                Some(held(record(&claim.run, (RunState::Done, 1, 3))))
            }
            Step::Begin { .. } | Step::Wait { .. } => {
                let occupant = RunRecord { exclusive: true, ..record(&run_at(-10), (RunState::Lost, 1, 2)) };
                let waiting_since = if policy == ConcurrencyPolicy::Queue { 1 } else { 0 };
                let claimed = mine(step.run().unwrap(), (RunState::Claimed, 0, 1));
                let run = Some(RunRecord { waiting_since, ..claimed });
                let verdict = Verdict::Busy { occupant: occupant.scheduled_for, renewed: false };
                Some(Answer { run, open: vec![occupant], ..answer(verdict) })
            }
            step => Some(yes(step)),
        };
        let effects = bench.until_with(10_500, &mut busy);
        let of_next = claims(&effects).contains(&10);
        assert_eq!(of_next, policy == ConcurrencyPolicy::Queue, "{policy:?}: {effects:#?}");
    }
}

/// While it is handed back it is nobody's for a moment, and then again one that may begin.
#[test]
fn a_tick_on_time_waits_for_one_of_ours_that_is_being_given_back() {
    let mut bench = Bench::ready(&[often(CatchUp::All)], 10);
    bench.until_with(-1_000, &mut |step| match step {
        Step::Claim(claim) => Some(held(record(&claim.run, (RunState::Done, 1, 3)))),
        step => Some(yes(step)),
    });
    bench.until_with(100, &mut |step| matches!(step, Step::Claim(_)).then(|| yes(step)));
    assert!(matches!(&bench.steps()[..], [Step::Begin { .. }]), "{:?}", bench.steps());
    bench.reply_yes();
    bench.tell(Event::NotStarted { run: run(), too_late: true, error: String::new() });
    assert!(matches!(&bench.steps()[..], [Step::Abandon { .. }]), "{:?}", bench.steps());
    assert_eq!(claims(&bench.until(10_400)), NONE, "10 would make 0 superseded");
}
