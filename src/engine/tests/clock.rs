//! Steps of the wall clock.

use super::answers::*;
use super::*;

fn step(bench: &mut Bench, seconds: i64) -> Vec<Effect> {
    bench.now.wall += TimeDelta::seconds(seconds);
    bench.tell(Event::Woke)
}

fn claimed(effects: &[Effect]) -> Vec<i64> {
    asked(effects)
        .into_iter()
        .filter_map(|step| match step {
            Step::Claim(claim) => Some(claim.run.scheduled_for.seconds() - TICK),
            _ => None,
        })
        .collect()
}

#[test]
fn a_step_is_said_and_a_drift_is_not() {
    let mut bench = Bench::ready(&[job("a")], 10);
    assert_eq!(notices(&step(&mut bench, 5)), [Notice::ClockJumped { by_ms: 5_000 }]);
    assert_eq!(notices(&step(&mut bench, -5)), [Notice::ClockJumped { by_ms: -5_000 }]);
    for _ in 0..10 {
        bench.now.wall += TimeDelta::milliseconds(200);
        bench.pass(ms(1_000));
        assert_eq!(notices(&bench.tell(Event::Woke)), []);
    }
}

/// A replica that is about to settle the tick of second 7200.
fn auditing() -> Bench {
    let mut bench = Bench::start(&[job("a")], 10, 10_000);
    let job = Some(job_record(TICK + 3_600));
    bench.reply(vec![Answer { job, ..answer(Verdict::Registered { fresh: false, rescheduled: false }) }]);
    bench.until(10_001_000);
    bench
}

#[test]
fn after_a_step_nothing_is_settled_for_a_lease() {
    let mut bench = auditing();
    step(&mut bench, 5);
    assert_eq!(count(&bench.until(10_015_999), "settle"), 0);
    assert_eq!(count(&bench.until(10_016_000), "settle"), 1);
}

#[test]
fn after_a_step_nothing_is_settled_again_for_a_lease() {
    let mut bench = auditing();
    assert_eq!(count(&bench.until(10_003_000), "settle"), 1);
    step(&mut bench, 5);
    bench.fail();
    assert_eq!(count(&bench.until(10_017_999), "settle"), 0);
    assert_eq!(count(&bench.until(10_018_000), "settle"), 1);
}

#[test]
fn a_clock_that_goes_back_sees_the_instants_again_and_asks_no_tick_twice_at_once() {
    let often = JobSpec { schedule: every("10s"), starting_deadline: Some(secs(60)), ..job("a") };
    let mut bench = Bench::ready(&[often], 10);
    bench.answer_all(&mut |step| Some(yes(step)));
    let ahead = step(&mut bench, 85);
    assert!(claimed(&ahead).contains(&20), "{ahead:?}");
    let store_ms = bench.now.wall.timestamp_millis() - 85_000;
    let early = |step: &Step| {
        let Some(run) = step.run() else { return yes(step) };
        let tick = run.scheduled_for;
        answer(Verdict::TooEarly { by_ms: tick.millis() - EARLY_TOLERANCE_MS - store_ms })
    };
    let early: Vec<Answer> = bench.steps().iter().map(early).collect();
    bench.reply(early);
    let waiting = bench.engine.ticks.iter();
    let waiting: Vec<(RunKey, Boot)> = waiting.map(|(run, due)| (run.clone(), due.deadline)).collect();
    assert_eq!(waiting.len(), 2);
    step(&mut bench, -85);
    assert_eq!(bench.engine.wake_at().wall, DateTime::from_timestamp(TICK - 50, 0), "the agenda is built anew");
    bench.until(29_000);
    for (run, deadline) in waiting {
        assert_eq!(
            bench.engine.ticks.get(&run).map(|due| due.deadline),
            Some(deadline),
            "{run} was taken for a new one"
        );
    }
}

#[test]
fn a_run_of_ours_is_not_claimed_again_when_its_instant_comes_again() {
    let mut bench = Bench::running(job("a"));
    bench.until(1_000);
    step(&mut bench, -30);
    let effects = bench.until_with(40_000, &mut |step| Some(yes(step)));
    assert!(claimed(&effects).is_empty(), "{effects:?}");
    assert_eq!(notices(&effects), []);
}

/// The store's clock shows so many milliseconds less than ours.
fn meet(bench: &mut Bench, offset_ms: i64) -> Vec<Effect> {
    let gathering = Gathering { at: bench.now.wall.timestamp_millis() - offset_ms, members: Vec::new() };
    bench.tell(Event::Met { sent: bench.now.boot, result: Ok(gathering) })
}

#[test]
fn a_clock_that_is_ahead_beyond_the_tolerance_waits_for_the_stores_time() {
    let mut bench = Bench::ready(&[job("a")], 10);
    let skewed = Notice::ClockSkewed { offset_ms: 90_000, severe: true };
    assert_eq!(notices(&meet(&mut bench, 90_000)), [skewed]);
    let effects = bench.until(89_999);
    assert_eq!((claimed(&effects).len(), notices(&effects)), (0, vec![]), "30 s after its deadline by our clock");
    let effects = bench.until(90_000);
    assert_eq!(claimed(&effects), [0]);
    let effects = bench.until_with(91_000, &mut |step| Some(yes(step)));
    let on_time = |effect: &&Effect| matches!(effect, Effect::Start(order) if order.trigger == Trigger::Schedule);
    assert_eq!(effects.iter().filter(on_time).count(), 1, "{effects:?}");
}

#[test]
fn a_clock_that_is_put_right_goes_on_where_the_stores_is() {
    let mut bench = Bench::ready(&[job("a")], 10);
    meet(&mut bench, 90_000);
    bench.until(0);
    let said = notices(&step(&mut bench, -90));
    assert_eq!(said, [Notice::ClockJumped { by_ms: -90_000 }, Notice::ClockInOrder { offset_ms: 0 }]);
    assert_eq!(claimed(&bench.until(89_999)), [] as [i64; 0]);
    assert_eq!(claimed(&bench.until(90_000)), [0]);
}

#[test]
fn a_clock_that_steps_forward_is_put_back_at_once_where_the_stores_is_known() {
    let mut bench = Bench::ready(&[job("a")], 10);
    meet(&mut bench, 0);
    let said = notices(&step(&mut bench, 3_600));
    let skewed = Notice::ClockSkewed { offset_ms: 3_600_000, severe: true };
    assert_eq!(said, [Notice::ClockJumped { by_ms: 3_600_000 }, skewed], "and no tick is said to have passed");
    assert_eq!(claimed(&bench.until(-1)), [] as [i64; 0]);
    assert_eq!(claimed(&bench.until(0)), [0]);
}

#[test]
fn a_clock_that_is_behind_is_believed() {
    let mut bench = Bench::ready(&[job("a")], 10);
    let skewed = Notice::ClockSkewed { offset_ms: -5_000, severe: false };
    assert_eq!(notices(&meet(&mut bench, -5_000)), [skewed]);
    assert_eq!(claimed(&bench.until(-1)), [] as [i64; 0]);
    assert_eq!(claimed(&bench.until(0)), [0]);
}
