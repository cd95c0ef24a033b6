//! Attempts after the first.

use super::answers::*;
use super::*;

fn retrying(limit: u32, backoff: u64, max_backoff: u64) -> JobSpec {
    let retry = RetryPolicy { limit, backoff: secs(backoff), max_backoff: secs(max_backoff) };
    JobSpec { retry, ..job("a") }
}

fn ending(effects: &[Effect]) -> Option<Ending> {
    asked(effects).into_iter().find_map(|step| match step {
        Step::Complete { ending, .. } => Some(ending),
        _ => None,
    })
}

/// Fails at once whenever it is started; how long each wait was, and all that was done.
fn failing(spec: JobSpec) -> (Vec<Duration>, Vec<Effect>) {
    let mut bench = Bench::running(spec);
    let mut effects = bench.end(1);
    for second in 1..200 {
        let more = bench.until_with(second * 1_000, &mut |step| Some(yes(step)));
        let starts = more.iter().any(|effect| matches!(effect, Effect::Start(_)));
        effects.extend(more);
        if starts {
            effects.extend(bench.end(1));
        }
    }
    let waits = notices(&effects)
        .into_iter()
        .filter_map(|notice| match notice {
            Notice::RunRetried { next_in, .. } => Some(next_in),
            _ => None,
        })
        .collect();
    (waits, effects)
}

fn ended(effects: &[Effect]) -> (Outcome, String) {
    let ending = ending(effects).expect("an end is told to the store");
    (ending.outcome, ending.error)
}

#[test]
fn each_wait_is_twice_the_one_before_up_to_the_longest() {
    let (waits, effects) = failing(retrying(6, 1, 10));
    assert_eq!(waits, [1, 2, 4, 8, 10, 10].map(secs));
    let tokens: Vec<u64> = effects
        .iter()
        .filter_map(|effect| match effect {
            Effect::Start(order) => Some(order.token),
            _ => None,
        })
        .collect();
    assert_eq!(tokens, (2..8).map(|start| fencing_token(run().scheduled_for, start)).collect::<Vec<_>>());
    let finished = notices(&effects).into_iter().find_map(|notice| match notice {
        Notice::RunFinished { attempts, ending, .. } => Some((attempts, ending.outcome)),
        _ => None,
    });
    assert_eq!(finished, Some((7, Outcome::Failed)));
}

#[test]
fn without_retries_a_failure_is_the_end() {
    assert_eq!(failing(retrying(0, 1, 10)).0, Vec::<Duration>::new());
}

#[test]
fn an_exit_code_that_is_called_a_success_is_one() {
    let mut spec = retrying(2, 1, 10);
    let mut command = spec.action.command().unwrap().clone();
    command.success_exit_codes = [3].into();
    spec.action = command.into();
    let mut bench = Bench::running(spec.clone());
    assert_eq!(ending(&bench.end(3)).unwrap().outcome, Outcome::Succeeded);
    assert_eq!(ending(&bench.end(3)), None, "it has ended");
    assert_eq!(failing(spec).0.len(), 2, "1 is none, and is tried again");
}

#[test]
fn the_slot_and_the_lease_are_kept_between_attempts() {
    let mut bench = Bench::running(retrying(1, 60, 60));
    let effects = bench.end(1);
    assert_eq!(asked(&effects), [], "no end, so the slot is kept");
    let effects = bench.until_with(59_999, &mut |step| Some(yes(step)));
    assert!(count(&effects, "renew") >= 11);
    let effects = bench.until(60_000);
    let begins = |step: &Step| matches!(step, Step::Begin { start: 1, request, .. } if request == "2");
    assert!(asked(&effects).iter().any(begins), "{effects:?}");
}

#[test]
fn no_attempt_begins_at_or_after_the_timeout() {
    let spec = JobSpec { timeout: Some(secs(10)), ..retrying(3, 4, 60) };
    let (waits, effects) = failing(spec);
    assert_eq!(waits, [secs(4)], "the third attempt would begin at second 12");
    let error = "no further attempt: it would begin after the run's `timeout`";
    assert_eq!(ended(&effects), (Outcome::Failed, error.into()));
}

#[test]
fn an_attempt_whose_begin_is_answered_after_the_timeout_is_not_started() {
    let mut bench = Bench::running(JobSpec { timeout: Some(secs(10)), ..retrying(1, 4, 60) });
    bench.end(1);
    bench.until(10_000);
    let effects = bench.reply_yes();
    assert_eq!(done(&effects), []);
    let error = "no further attempt: the run's `timeout` is over";
    assert_eq!(ended(&effects), (Outcome::Failed, error.into()));
}

#[test]
fn a_retry_that_is_not_ours_any_more_records_what_is_known() {
    for state in [RunState::Lost, RunState::Done] {
        let mut bench = Bench::running(retrying(1, 4, 60));
        bench.end(1);
        bench.until(4_000);
        let verdict = if state == RunState::Done { Verdict::Done } else { Verdict::Fenced };
        let effects = bench.reply(vec![with(verdict, mine(&run(), (state, 1, 2)))]);
        assert_eq!(ending(&effects).map(|ending| ending.outcome), Some(Outcome::Failed), "{effects:?}");
    }
}

#[test]
fn a_retry_that_somebody_else_has_is_left_to_it() {
    let mut bench = Bench::running(JobSpec { lost_run_policy: LostRunPolicy::Rerun, ..retrying(1, 4, 60) });
    bench.end(1);
    bench.until(4_000);
    let effects = bench.reply(vec![with(Verdict::Fenced, record(&run(), (RunState::Begun, 2, 2)))]);
    let [Notice::LeaseLost { holder, .. }] = &notices(&effects)[..] else { panic!("{effects:?}") };
    assert_eq!(*holder, Some(other()));
    assert_eq!(bench.engine.running(), 0);
    assert!(bench.engine.watches.contains_key(&run()));
}

#[test]
fn a_drain_ends_a_run_that_waits_for_its_next_attempt() {
    let mut bench = Bench::running(retrying(1, 60, 60));
    bench.end(1);
    let effects = bench.tell(Event::DrainAsked { timeout: secs(60) });
    assert_eq!(ended(&effects), (Outcome::Failed, "no further attempt: its replica is stopping".into()));
    let mut bench = Bench::running(retrying(1, 60, 60));
    bench.tell(Event::DrainAsked { timeout: secs(60) });
    let effects = bench.end(1);
    assert_eq!(ended(&effects), (Outcome::Failed, "no further attempt: its replica is stopping".into()));
}

#[test]
fn a_lease_that_is_lost_between_attempts_ends_the_run_as_its_last_attempt_ended() {
    let mut bench = Bench::running(retrying(1, 60, 60));
    bench.end(1);
    let effects = bench.until(15_000);
    assert!(matches!(&notices(&effects)[..], [Notice::LeaseLost { .. }, Notice::RunFinished { .. }]), "{effects:?}");
    bench.fail();
    let effects = bench.until(17_000);
    assert_eq!(ended(&effects), (Outcome::Failed, "no further attempt: the run's lease is over".into()));
}

#[test]
fn where_no_attempt_is_left_nothing_more_is_said_and_what_was_found_stands_first() {
    let mut bench = Bench::running(retrying(0, 1, 10));
    assert_eq!(ended(&bench.end(1)), (Outcome::Failed, String::new()));
    let mut bench = Bench::running(JobSpec { timeout: Some(secs(1)), ..retrying(1, 4, 60) });
    let exit = Exit { error: "it broke off".to_owned(), ..exit(1) };
    let effects = bench.tell(Event::Ended { run: run(), exit });
    let error = "it broke off; no further attempt: it would begin after the run's `timeout`";
    assert_eq!(ended(&effects), (Outcome::Failed, error.into()));
}

/// A replica that stood still hears of the end of the attempt before it notices that its lease is over.
#[test]
fn an_attempt_that_will_not_be_is_not_announced() {
    for spec in [retrying(3, 1, 10), JobSpec { concurrency_policy: ConcurrencyPolicy::Allow, ..retrying(3, 1, 10) }] {
        let mut bench = Bench::running(spec);
        bench.pass(secs(15));
        let effects = bench.end(1);
        let [Notice::RunFinished { ending, attempts: 1, .. }] = &notices(&effects)[..] else { panic!("{effects:?}") };
        let found = (ending.outcome, ending.error.as_str());
        assert_eq!(found, (Outcome::Failed, "no further attempt: the run's lease is over"));
    }
}
