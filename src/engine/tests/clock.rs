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
        let tick = step.run().unwrap().scheduled_for;
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
