//! Stopping.

use super::super::StopCause;
use super::answers::*;
use super::*;

fn drain(bench: &mut Bench, timeout: u64) -> Vec<Effect> {
    bench.tell(Event::DrainAsked { timeout: secs(timeout) })
}

fn drained(stopped: u32, unrecorded: u32) -> Effect {
    Effect::Drained { stopped, unrecorded }
}

#[test]
fn an_idle_replica_is_drained_at_once_and_says_so_once() {
    let mut bench = Bench::ready(&[job("a")], 10);
    assert_eq!(drain(&mut bench, 60), [drained(0, 0)]);
    assert_eq!(bench.until(100_000), []);
    assert_eq!(bench.wakes_in(), None, "there is nothing to wake for");
}

#[test]
fn nothing_more_is_claimed() {
    let mut bench = Bench::ready(&[job("a")], 10);
    drain(&mut bench, 60);
    assert_eq!(count(&bench.until(10_000), "claim"), 0);
}

#[test]
fn a_tick_that_is_asked_for_is_let_go_and_given_back_if_it_is_won() {
    let mut bench = Bench::claiming(job("a"));
    let effects = drain(&mut bench, 60);
    assert_eq!(effects, [Effect::Notice(skipped(&run(), SkipReason::Draining))]);
    let effects = bench.reply_yes();
    assert_eq!(asked(&effects), [Step::Abandon { run: run(), owner: me(), start: 0 }]);
    assert_eq!(done(&effects), []);
    assert_eq!(bench.reply_yes(), [drained(0, 0)]);
}

#[test]
fn a_takeover_that_is_won_in_a_drain_is_given_back() {
    let claimed = record(&run(), (RunState::Claimed, 0, 1));
    let mut bench = Bench::watching(job("a"), claimed.clone());
    bench.until_with(5_050, &mut |step| (step.name() == "read").then(|| read(claimed.clone())));
    assert_eq!(done(&drain(&mut bench, 60)), []);
    let effects = bench.reply_yes();
    assert_eq!(asked(&effects), [Step::Abandon { run: run(), owner: me(), start: 0 }]);
}

#[test]
fn a_claim_that_has_not_begun_is_given_back() {
    let mut bench = Bench::beginning(job("a"));
    let effects = drain(&mut bench, 60);
    assert_eq!(effects, [Effect::Notice(skipped(&run(), SkipReason::Draining))]);
    // The begin under way comes through: it is taken back with its own start.
    let effects = bench.reply_yes();
    assert_eq!(effects.len(), 1);
    assert_eq!(asked(&effects), [Step::Abandon { run: run(), owner: me(), start: 1 }]);
    assert_eq!(bench.reply_yes(), [drained(0, 0)]);
}

#[test]
fn a_begin_whose_reply_is_lost_in_a_drain_is_given_back_all_the_same() {
    let mut bench = Bench::beginning(job("a"));
    drain(&mut bench, 60);
    bench.fail();
    bench.until(1_000);
    assert_eq!(bench.steps(), [Step::Abandon { run: run(), owner: me(), start: 0 }]);
    // It was in force: the store has a later start, of ours.
    let effects = bench.reply(vec![with(Verdict::Fenced, mine(&run(), (RunState::Begun, 1, 2)))]);
    assert!(asked(&effects).contains(&Step::Abandon { run: run(), owner: me(), start: 1 }), "{effects:?}");
}

#[test]
fn a_retry_whose_begin_is_lost_in_a_drain_ends_as_its_last_attempt_ended() {
    let retry = RetryPolicy { limit: 1, backoff: secs(1), max_backoff: secs(1) };
    let mut bench = Bench::running(JobSpec { retry, ..job("a") });
    bench.end(1);
    bench.until(1_000);
    drain(&mut bench, 60);
    bench.fail();
    bench.until(2_000);
    let [Step::Complete { start: 1, ending, .. }] = &bench.steps()[..] else { panic!("{:?}", bench.pending) };
    let ending = ending.clone();
    let effects = bench.reply(vec![with(Verdict::Fenced, mine(&run(), (RunState::Begun, 2, 2)))]);
    assert!(asked(&effects).contains(&Step::Complete { run: run(), owner: me(), start: 2, ending }), "{effects:?}");
    assert!(!notices(&effects).iter().any(|notice| matches!(notice, Notice::RunUnrecorded { .. })), "{effects:?}");
}

#[test]
fn a_taken_over_run_that_has_not_begun_again_is_given_back_with_a_word() {
    let lost = RunRecord { rerun: true, ..record(&run(), (RunState::Lost, 1, 2)) };
    let mut bench = Bench::watching(rerunning("a"), lost.clone());
    bench.until_with(21_350, &mut |step| (step.name() == "read").then(|| read(lost.clone())));
    bench.reply_yes();
    let effects = drain(&mut bench, 60);
    assert!(matches!(&notices(&effects)[..], [Notice::RunSkipped { reason: SkipReason::Draining, .. }]), "{effects:?}");
}

#[test]
fn a_run_may_finish() {
    let mut bench = Bench::running(job("a"));
    assert_eq!(drain(&mut bench, 60), []);
    assert_eq!(done(&bench.until_with(40_000, &mut |step| Some(yes(step)))), []);
    assert_eq!(notices(&bench.end(0)).len(), 1);
    assert_eq!(bench.reply_yes(), [drained(0, 0)]);
}

#[test]
fn a_drain_that_expires_stops_what_runs_and_keeps_renewing_it() {
    let mut bench = Bench::running(JobSpec { termination_grace_period: secs(60), ..job("a") });
    let mut store = |step: &Step| Some(yes(step));
    bench.until_with(1_000, &mut store);
    drain(&mut bench, 10);
    let effects = bench.until_with(10_999, &mut store);
    assert!(!effects.contains(&Effect::Terminate { run: run() }));
    let effects = bench.until_with(11_000, &mut store);
    assert!(effects.contains(&Effect::Terminate { run: run() }));
    let stopping = Notice::RunStopping { facts: facts(&run()), cause: StopCause::Drain };
    assert_eq!(notices(&effects), [stopping, Notice::DrainExpired { runs: vec![run()] }]);
    let effects = bench.until_with(70_999, &mut store);
    assert_eq!(notices(&effects), [], "its lease lasts as long as its grace");
    assert!(count(&effects, "renew") >= 11);
    let effects = bench.until_with(71_000, &mut store);
    assert!(effects.contains(&Effect::Kill { run: run() }));
    let effects = bench.end(137);
    let [Notice::RunFinished { ending, .. }] = &notices(&effects)[..] else { panic!("{effects:?}") };
    assert_eq!(ending.outcome, Outcome::Interrupted);
    assert_eq!(bench.reply_yes(), [drained(1, 0)]);
}

#[test]
fn a_second_signal_stops_at_once() {
    let mut bench = Bench::running(job("a"));
    drain(&mut bench, 600);
    let effects = bench.tell(Event::StopAsked);
    assert_eq!(done(&effects), [Effect::Terminate { run: run() }]);
    assert_eq!(done(&bench.tell(Event::StopAsked)), [], "and a third changes nothing");
}

#[test]
fn a_short_grace_is_kept_in_a_drain() {
    let mut bench = Bench::running(JobSpec { termination_grace_period: secs(1), ..job("a") });
    bench.tell(Event::StopAsked);
    assert_eq!(done(&bench.until(999)), []);
    assert_eq!(done(&bench.until(1_000)), [Effect::Kill { run: run() }]);
}

#[test]
fn a_later_signal_does_not_make_the_drain_longer() {
    let mut bench = Bench::running(job("a"));
    drain(&mut bench, 2);
    drain(&mut bench, 600);
    assert_eq!(done(&bench.until(2_000)), [Effect::Terminate { run: run() }]);
}

#[test]
fn an_end_that_the_store_does_not_take_for_a_lease_is_given_up() {
    let mut bench = Bench::running(job("a"));
    drain(&mut bench, 60);
    bench.until(1_000);
    bench.end(0);
    let mut effects = bench.fail();
    for second in 2..=20 {
        effects.extend(bench.until(second * 1_000));
        if !bench.pending.is_empty() {
            effects.extend(bench.fail());
        }
        let expected: &[Effect] = if second < 16 { &[] } else { &[drained(0, 1)] };
        assert_eq!(done(&effects), expected, "second {second}");
    }
    assert!(notices(&effects).iter().any(|notice| matches!(notice, Notice::RunUnrecorded { .. })));
}

/// A drain may last for minutes, and another replica runs them: that this one does not is said as always.
#[test]
fn a_tick_that_comes_during_a_drain_is_said_not_to_be_run_here() {
    let long = JobSpec { schedule: every("10s"), ..allowing("a") };
    let mut bench = Bench::ready(&[long], 10);
    bench.until_with(0, &mut |step| match step {
        Step::Claim(claim) if claim.run != run() => Some(held(record(&claim.run, (RunState::Done, 1, 3)))),
        step => Some(yes(step)),
    });
    bench.answer_all(&mut |step| Some(yes(step)));
    bench.tell(Event::Started { run: run(), pid: Some(7) });
    bench.tell(Event::DrainAsked { timeout: secs(60) });
    let effects = bench.until_with(21_000, &mut |step| Some(yes(step)));
    let skips: Vec<_> =
        notices(&effects).into_iter().filter(|notice| matches!(notice, Notice::RunSkipped { .. })).collect();
    assert_eq!(skips, [10, 20].map(|at| skipped(&run_at(at), SkipReason::Draining)));
    assert_eq!(count(&effects, "claim"), 0);
    bench.tell(Event::Ended { run: run(), exit: exit(0) });
    bench.answer_all(&mut |step| Some(yes(step)));
    let effects = bench.until_with(41_000, &mut |step| Some(yes(step)));
    assert_eq!(notices(&effects), [], "once it is over nothing is");
}
