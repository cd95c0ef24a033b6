//! Runs that are due later than at their tick.

use super::answers::*;
use super::*;

/// Every ten minutes, within the five after the tick; may start a minute late.
fn jittery() -> JobSpec {
    let jitter = secs(300);
    JobSpec { jitter, schedule: every("10m"), starting_deadline: Some(secs(60)), ..job("a") }
}

/// When the run of the tick at [`TICK`] is due, milliseconds after it.
fn delay() -> i64 {
    let delay = jittery().delay(run().scheduled_for, Some(TICK + 600));
    assert!(delay > secs(5) && delay < secs(295), "the tests need room on both sides: {delay:?}");
    i64::try_from(delay.as_millis()).unwrap()
}

fn claims(effects: &[Effect]) -> Vec<Claim> {
    let claim = |step| match step {
        Step::Claim(claim) => Some(claim),
        _ => None,
    };
    asked(effects).into_iter().filter_map(claim).collect()
}

#[test]
fn a_run_is_claimed_when_it_is_due_under_the_name_of_its_tick() {
    let mut bench = Bench::ready(&[jittery()], 10);
    assert_eq!(claims(&bench.until(delay() - 1)), []);
    let claims = claims(&bench.until(delay()));
    assert_eq!(claims.len(), 1);
    assert_eq!((claims[0].run.clone(), claims[0].delay_ms), (run(), delay()));
}

#[test]
fn the_starting_deadline_counts_from_when_it_is_due() {
    let mut bench = Bench::ready(&[jittery()], 10);
    bench.until(delay());
    bench.fail();
    assert_eq!(notices(&bench.until(delay() + 59_999)).iter().filter(|said| is_skip(said)).count(), 0);
    let effects = bench.until(delay() + 60_000);
    assert!(notices(&effects).contains(&skipped(&run(), SkipReason::StoreUnavailable)), "{effects:?}");
    let effects = bench.answer_all(&mut |step| Some(yes(step)));
    let after = asked(&effects).into_iter().find_map(|step| match step {
        Step::Settle { expect: Expect::Absent { after_ms }, .. } => Some(after_ms),
        _ => None,
    });
    assert_eq!(after, Some(delay() + 60_000), "and so does the settlement");
}

fn is_skip(notice: &Notice) -> bool {
    matches!(notice, Notice::RunSkipped { .. })
}

#[test]
fn a_start_between_tick_and_due_instant_offers_the_run() {
    let seconds = delay() / 1000 - 1;
    let mut bench = Bench::start(&[jittery()], 10, seconds);
    let effects = bench.reply(vec![Answer {
        job: Some(job_record(TICK - 60)),
        ..answer(Verdict::Registered { fresh: false, rescheduled: false })
    }]);
    assert_eq!(claims(&effects), [], "it is not due");
    let found = claims(&bench.until(delay()));
    assert_eq!(found.iter().map(|claim| claim.run.clone()).collect::<Vec<_>>(), [run()]);
}

#[test]
fn the_start_is_counted_from_when_it_was_due() {
    let mut bench = Bench::ready(&[jittery()], 10);
    bench.until_with(delay(), &mut |step| Some(yes(step)));
    let effects = bench.tell(Event::Started { run: run(), pid: Some(7) });
    let said = notices(&effects);
    assert!(matches!(said[..], [Notice::RunStarted { start_delay_ms: 0, .. }]), "{said:?}");
}

#[test]
fn delays_are_equal_everywhere_spread_and_shorter_than_the_distance_of_ticks() {
    let spec = jittery();
    // Frozen: replicas of two versions must agree.
    assert_eq!(spec.delay(run().scheduled_for, Some(TICK + 600)), ms(FROZEN_MS));
    let delays: Vec<u128> = (0..1000)
        .map(|n| spec.delay(Tick::from_seconds(TICK + n * 600), Some(TICK + n * 600 + 600)).as_millis())
        .collect();
    assert!(delays.iter().all(|delay| *delay < 300_000));
    let early = delays.iter().filter(|delay| **delay < 150_000).count();
    assert!((400..600).contains(&early), "{early} of 1000 are in the first half");
    for distance in [1, 2, 7] {
        assert!(spec.delay(run().scheduled_for, Some(TICK + distance)) < secs(distance.unsigned_abs()));
    }
    assert_eq!(JobSpec { jitter: Duration::ZERO, ..spec }.delay(run().scheduled_for, None), Duration::ZERO);
}

const FROZEN_MS: u64 = 192_520;
