//! Which ticks are offered.

use super::answers::*;
use super::*;

/// Registered by a store that has all decided through so many seconds after the tick.
fn registered(bench: &mut Bench, decided: i64) -> Vec<Effect> {
    bench.reply(vec![Answer {
        job: Some(job_record(TICK + decided)),
        ..answer(Verdict::Registered { fresh: false, rescheduled: false })
    }])
}

/// The ticks that are asked for, in seconds after the tick, oldest first, with why.
fn claims(effects: &[Effect]) -> Vec<(i64, String)> {
    let mut claims: Vec<_> = asked(effects)
        .into_iter()
        .filter_map(|step| match step {
            Step::Claim(claim) => Some((claim.run.scheduled_for.seconds() - TICK, claim.trigger)),
            _ => None,
        })
        .collect();
    claims.sort();
    claims
}

#[test]
fn a_start_offers_the_tick_from_before_it_that_may_still_run() {
    let mut bench = Bench::start(&[job("a")], 10, 3);
    assert_eq!(claims(&registered(&mut bench, -3600)), [(0, "schedule".into())]);
    let mut bench = Bench::start(&[job("a")], 10, 19);
    assert_eq!(claims(&registered(&mut bench, -3600)), [(0, "catch-up".into())]);
    let mut bench = Bench::start(&[job("a")], 10, 21);
    assert_eq!(claims(&registered(&mut bench, -3600)), [], "its starting deadline is over");
    let mut bench = Bench::start(&[job("a")], 10, 3);
    assert_eq!(claims(&registered(&mut bench, 0)), [], "it is decided");
}

#[test]
fn the_chain_goes_on_where_the_store_left_it() {
    let mut bench = Bench::start(&[job("a")], 10, -60);
    registered(&mut bench, -3600);
    let effects = bench.until(0);
    assert!(matches!(&asked(&effects)[..], [Step::Claim(claim)] if claim.previous == TICK - 3600), "{effects:?}");
}

#[test]
fn it_looks_back_once() {
    let mut bench = Bench::start(&[job("a")], 10, 3);
    registered(&mut bench, -3600);
    bench.reply(vec![answer(Verdict::Forgot)]);
    bench.engine.outbox.want(super::super::Topic::Register(name("a")));
    bench.tell(Event::Woke);
    assert_eq!(asked(&registered(&mut bench, -3600)), []);
}

#[test]
fn of_the_late_ticks_only_the_newest_runs() {
    let often = JobSpec { schedule: every("10s"), starting_deadline: Some(secs(60)), ..job("a") };
    let mut bench = Bench::start(&[often], 10, 38);
    // Late by 38, 28, 18 and 8 seconds.
    let mut effects = registered(&mut bench, -10);
    assert_eq!(claims(&effects), [(30, "catch-up".into())]);
    effects.extend(bench.until_with(100_000, &mut |step| match step {
        Step::Claim(claim) => Some(held(record(&claim.run, (RunState::Done, 1, 3)))),
        Step::Settle { .. } => None,
        step => Some(yes(step)),
    }));
    let said: Vec<Notice> = notices(&effects);
    for seconds in [0, 10, 20] {
        let facts = RunFacts { trigger: Trigger::CatchUp, ..facts(&run_at(seconds)) };
        let skipped =
            Notice::RunSkipped { facts, reason: SkipReason::CatchUp, holder: None, holder_run: None, age: None };
        assert_eq!(said.iter().filter(|notice| **notice == skipped).count(), 1, "{seconds}");
    }
    let settled = |step: &Step| match step {
        Step::Settle { run, decision: Decision::Missed(MissedReason::CatchUp), .. } => Some(run.scheduled_for),
        _ => None,
    };
    let settled: Vec<_> = asked(&effects).iter().filter_map(settled).collect();
    assert_eq!(settled, [0, 10, 20].map(|seconds| run_at(seconds).scheduled_for));
}

#[test]
fn ticks_that_passed_in_a_suspend_are_a_range_and_the_rest_is_offered() {
    let mut bench = Bench::ready(&[JobSpec { schedule: every("10s"), ..job("a") }], 10);
    bench.answer_all(&mut |step| Some(yes(step)));
    bench.pass(secs(60 + 95));
    let effects = bench.tell(Event::Woke);
    let through = run_at(74).scheduled_for;
    let passed = Notice::TicksPassed { job: name("a"), first: run_at(-50).scheduled_for, through };
    assert!(notices(&effects).contains(&passed), "{effects:?}");
    assert!(notices(&effects).contains(&Notice::TickLate { late_ms: 145_000 }), "{effects:?}");
    assert_eq!(claims(&effects), [(80, "catch-up".into()), (90, "schedule".into())]);
}

/// Such a claim was made while nobody was there to hear of it, so that no answer to a claim tells of it.
#[test]
fn a_claim_whose_owner_died_while_its_tick_passed_here_is_watched() {
    let mut bench = Bench::ready(&[JobSpec { schedule: every("10s"), ..job("a") }], 10);
    bench.answer_all(&mut |step| Some(yes(step)));
    bench.pass(secs(60 + 95));
    bench.tell(Event::Woke);
    let open = vec![record(&run_at(0), (RunState::Claimed, 0, 1))];
    bench.answer_all(&mut |step| match step {
        Step::Register(_) => {
            Some(Answer { open: open.clone(), ..answer(Verdict::Registered { fresh: false, rescheduled: false }) })
        }
        step => Some(yes(step)),
    });
    assert!(bench.engine.watches.contains_key(&run_at(0)));
}

#[test]
fn the_next_tick_follows_the_last_and_not_the_clock() {
    let mut bench = Bench::ready(&[JobSpec { schedule: every("10s"), ..job("a") }], 10);
    let mut seen = Vec::new();
    // Woken late by up to four seconds, each time.
    for late in [4, 13, 21, 32, 44, 50, 63] {
        bench.pass(secs(u64::try_from(late + 60 - bench.clock() / 1000 - 60).unwrap()));
        seen.extend(claims(&bench.tell(Event::Woke)).into_iter().map(|(at, _)| at));
    }
    seen.retain(|at| *at >= 0);
    assert_eq!(seen, [0, 10, 20, 30, 40, 50, 60]);
}

#[test]
fn a_new_history_is_said() {
    let mut bench = Bench::start(&[job("a")], 10, -60);
    let effects = bench.reply(vec![answer(Verdict::Registered { fresh: true, rescheduled: false })]);
    assert_eq!(
        notices(&effects),
        [Notice::StoreConnected { outage: None }, Notice::JobRegistered { job: name("a"), since: 0, again: false }]
    );
}

#[test]
fn records_that_lie_ahead_of_the_clock_are_said_once() {
    let mut bench = Bench::claiming(job("a"));
    let ahead = |revision| Some(JobRecord { revision, last_begun: TICK + 86_400, ..job_record(TICK) });
    let effects = bench.reply(vec![Answer { job: ahead(7), ..answer(Verdict::TooOld) }]);
    let through = Tick::from_seconds(TICK + 86_400);
    assert!(notices(&effects).contains(&Notice::JobAhead { job: name("a"), through }), "{effects:?}");
    let effects = bench.until_with(30_000, &mut |step| {
        let verdict = if matches!(step, Step::Claim(_)) { Verdict::TooOld } else { Verdict::Changed };
        Some(Answer { job: ahead(8), ..answer(verdict) })
    });
    assert!(!notices(&effects).iter().any(|notice| matches!(notice, Notice::JobAhead { .. })));
}

/// Whoever registers it again, all replicas that knew the job tell this from a job that is new to them.
#[test]
fn a_history_that_begins_again_is_a_store_that_forgot() {
    let mut bench = Bench::claiming(job("a"));
    bench.reply(vec![Answer { job: None, ..answer(Verdict::Unregistered) }]);
    let record = JobRecord { since: 5_000, revision: 1, ..job_record(TICK + 5) };
    let effects = bench
        .reply(vec![Answer { job: Some(record), ..answer(Verdict::Registered { fresh: true, rescheduled: false }) }]);
    assert_eq!(notices(&effects), [Notice::JobRegistered { job: name("a"), since: 5_000, again: true }]);
    assert_eq!(notices(&bench.reply(vec![answer(Verdict::Forgot)])), [skipped(&run(), SkipReason::StoreForgot)]);
}

#[test]
fn an_older_answer_does_not_undo_a_newer_one() {
    let mut bench = Bench::ready(&[job("a"), job("b")], 10);
    let newer = JobRecord { revision: 9, ..job_record(TICK) };
    bench.engine.learn(bench.now, &name("a"), &newer);
    bench.engine.learn(bench.now, &name("a"), &JobRecord { revision: 8, ..job_record(DECIDED) });
    assert_eq!(bench.engine.jobs[&name("a")].decided_through, Some(TICK));
}
