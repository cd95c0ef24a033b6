//! How a run ends, and that its end is recorded.

use super::super::StopCause;
use super::answers::*;
use super::*;

fn ending(outcome: Outcome, code: i32, duration_ms: u64) -> Ending {
    Ending {
        outcome,
        exit_code: Some(code),
        signal: None,
        http_status: None,
        duration_ms,
        error: String::new(),
        output_tail: "bye".into(),
    }
}

fn complete(ending: Ending) -> Step {
    Step::Complete { run: run(), owner: me(), start: 1, ending }
}

fn finished(ending: Ending) -> Notice {
    Notice::RunFinished { facts: facts(&run()), ending, attempts: 1, output_bytes: 3, again: false }
}

#[test]
fn a_process_that_runs_is_said() {
    let mut bench = Bench::beginning(job("a"));
    bench.reply_yes();
    bench.pass(ms(12));
    let started = Notice::RunStarted { facts: facts(&run()), start_delay_ms: 12, pid: Some(7) };
    assert_eq!(bench.tell(Event::Started { run: run(), pid: Some(7) }), [Effect::Notice(started)]);
}

#[test]
fn an_end_is_said_and_recorded() {
    for (code, outcome) in [(0, Outcome::Succeeded), (1, Outcome::Failed)] {
        let mut bench = Bench::running(job("a"));
        bench.until(2_000);
        let effects = bench.end(code);
        let end = ending(outcome, code, 2_000);
        assert_eq!(notices(&effects), [finished(end.clone())]);
        assert_eq!(asked(&effects), [complete(end)]);
        assert_eq!(bench.reply_yes(), []);
        assert_eq!(bench.engine.running(), 0);
        assert_eq!(bench.until(60_000), []);
    }
}

#[test]
fn an_end_by_a_signal_is_a_failure() {
    let mut bench = Bench::running(job("a"));
    let exit = Exit { signal: Some(9), ..Exit::default() };
    let effects = bench.tell(Event::Ended { run: run(), exit });
    let [Step::Complete { ending, .. }] = &asked(&effects)[..] else { panic!("{effects:?}") };
    assert_eq!((ending.outcome, ending.exit_code, ending.signal), (Outcome::Failed, None, Some(9)));
}

#[test]
fn an_end_that_is_reported_twice_is_one_end() {
    let mut bench = Bench::running(job("a"));
    bench.end(0);
    assert_eq!(bench.end(0), []);
}

#[test]
fn an_end_is_kept_and_sent_again_until_the_store_takes_it() {
    let mut bench = Bench::running(job("a"));
    bench.end(0);
    let first = bench.steps();
    bench.fail();
    for minute in 1..50 {
        bench.until(minute * 60_000);
        assert_eq!(bench.steps(), first);
        if minute < 49 {
            bench.fail();
        }
    }
    let effects = bench.reply_yes();
    assert!(matches!(&notices(&effects)[..], [Notice::StoreConnected { outage: Some(_) }]), "{effects:?}");
    assert_eq!(bench.engine.running(), 0);
}

#[test]
fn an_end_that_waits_for_a_renewal_under_way_follows_it() {
    let mut bench = Bench::running(job("a"));
    bench.until(5_000);
    assert_eq!(count(&bench.end(0), "complete"), 0, "one question about a run at a time");
    assert_eq!(count(&bench.reply_yes(), "complete"), 1);
}

#[test]
fn an_end_beside_lost_is_recorded_without_a_word_and_a_refused_one_is_said() {
    let mut bench = Bench::running(job("a"));
    bench.end(0);
    assert_eq!(bench.reply(vec![answer(Verdict::RecordedLate)]), []);
    for (answer, detail) in [
        (with(Verdict::Fenced, record(&run(), (RunState::Begun, 2, 1))), "the run is begun by other-1"),
        (answer(Verdict::Gone), "the store knows no such run"),
    ] {
        // After its lease: before, it would be asserted.
        let mut bench = Bench::running(allowing("a"));
        bench.until(15_000);
        bench.fail();
        bench.end(0);
        bench.until(16_500);
        let said = Notice::RunUnrecorded { facts: facts(&run()), detail: detail.into() };
        assert_eq!(notices(&bench.reply(vec![answer])).last(), Some(&said));
        assert_eq!(bench.engine.running(), 0);
    }
}

#[test]
fn a_program_that_cannot_be_started_is_an_end() {
    let mut bench = Bench::beginning(JobSpec { retry: RetryPolicy { limit: 3, ..job("a").retry }, ..job("a") });
    bench.reply_yes();
    let effects = bench.tell(Event::NotStarted { run: run(), too_late: false, error: "no such file".into() });
    let [Step::Complete { ending, .. }] = &asked(&effects)[..] else { panic!("{effects:?}") };
    assert_eq!((ending.outcome, ending.error.as_str()), (Outcome::NotStarted, "no such file"));
}

#[test]
fn a_run_that_takes_too_long_is_asked_to_end_and_then_killed() {
    let mut bench = Bench::running(JobSpec { timeout: Some(secs(60)), ..job("a") });
    let mut store = |step: &Step| Some(yes(step));
    assert_eq!(notices(&bench.until_with(59_999, &mut store)), []);
    let effects = bench.until_with(60_000, &mut store);
    assert!(effects.contains(&Effect::Terminate { run: run() }));
    let cause = StopCause::Timeout;
    assert_eq!(notices(&effects), [Notice::RunStopping { facts: facts(&run()), cause }]);
    let effects = bench.until_with(89_999, &mut store);
    assert_eq!(notices(&effects), []);
    assert!(count(&effects, "renew") >= 5, "it is renewed while it stops");
    let effects = bench.until_with(90_000, &mut store);
    assert!(effects.contains(&Effect::Kill { run: run() }));
    assert_eq!(notices(&effects), [Notice::RunKilled { facts: facts(&run()), cause, grace: secs(30) }]);
    let effects = bench.end(137);
    let end = Ending { error: "stopped at its timeout".into(), ..ending(Outcome::TimedOut, 137, 90_000) };
    assert_eq!(notices(&effects), [finished(end)]);
}

fn asking() -> JobSpec {
    let url = EnvValue::Text("http://127.0.0.1/".to_owned());
    JobSpec { action: HttpSpec::to(url).into(), ..job("a") }
}

#[test]
fn a_request_is_a_success_by_its_status_and_only_if_nothing_was_wrong() {
    for (http_status, error, outcome) in [
        (Some(200), "", Outcome::Succeeded),
        (Some(500), "", Outcome::Failed),
        (Some(200), "it broke off", Outcome::Failed),
        (None, "nobody is there", Outcome::Failed),
    ] {
        let mut bench = Bench::running(asking());
        bench.until(2_000);
        let exit = Exit { http_status, error: error.to_owned(), ..Exit::default() };
        let effects = bench.tell(Event::Ended { run: run(), exit });
        let ending = effects.iter().find_map(|effect| match effect {
            Effect::Notice(Notice::RunFinished { ending, .. }) => Some(ending.clone()),
            _ => None,
        });
        let ending = ending.unwrap();
        assert_eq!((ending.outcome, ending.http_status, ending.error.as_str()), (outcome, http_status, error));
    }
}

#[test]
fn where_a_request_stood_when_it_was_stopped_is_said() {
    let mut bench = Bench::running(JobSpec { timeout: Some(secs(14)), ..asking() });
    bench.until(14_000);
    let exit = Exit { error: "given up".to_owned(), ..Exit::default() };
    let effects = bench.tell(Event::Ended { run: run(), exit });
    let is_said = |effect: &Effect| {
        matches!(effect, Effect::Notice(Notice::RunFinished { ending, .. })
        if ending.outcome == Outcome::TimedOut && ending.error == "stopped at its timeout: given up")
    };
    assert!(effects.iter().any(is_said), "{effects:?}");
}

#[test]
fn no_guardian_is_armed_for_a_request() {
    let mut bench = Bench::beginning(asking());
    let effects = bench.reply_yes();
    assert!(matches!(&effects[..], [Effect::Start(order)] if !order.guarded), "{effects:?}");
}

/// It stood still while it was connecting: others have recorded the run as lost, and that nothing was sent is known here
/// alone.
#[test]
fn a_run_that_was_not_started_in_time_and_is_called_lost_ends_as_not_started() {
    let lost = RunRecord { exclusive: false, ..mine(&run(), (RunState::Lost, 1, 2)) };
    for notices_first in [true, false] {
        let mut bench = Bench::beginning(JobSpec { concurrency_policy: ConcurrencyPolicy::Allow, ..asking() });
        bench.reply_yes();
        bench.pass(secs(20));
        let mut said = if notices_first { notices(&bench.tell(Event::Woke)) } else { Vec::new() };
        let error = "the run's lease ended before the connection was there";
        let mut effects = bench.tell(Event::NotStarted { run: run(), too_late: true, error: error.into() });
        let mut store = |step: &Step| {
            Some(match step {
                Step::Abandon { .. } => with(Verdict::Fenced, lost.clone()),
                Step::Renew { .. } => with(Verdict::Lost, lost.clone()),
                Step::Complete { .. } => with(Verdict::RecordedLate, lost.clone()),
                step => yes(step),
            })
        };
        effects.extend(bench.until_with(22_000, &mut store));
        said.extend(notices(&effects));
        let ends: Vec<_> = said
            .iter()
            .filter_map(|notice| match notice {
                Notice::RunFinished { ending, .. } => Some((ending.outcome, ending.error.as_str())),
                _ => None,
            })
            .collect();
        assert_eq!(ends, [(Outcome::NotStarted, error)], "{said:?}");
        assert_eq!(count(&effects, "complete"), 1, "{effects:?}");
        assert_eq!(bench.engine.running(), 0);
    }
}

/// What nobody has called lost is given back, and may still be run in time.
#[test]
fn a_run_that_was_not_started_in_time_is_given_back_where_nobody_calls_it_lost() {
    let mut bench = Bench::beginning(JobSpec { concurrency_policy: ConcurrencyPolicy::Allow, ..asking() });
    bench.reply_yes();
    let effects = bench.tell(Event::NotStarted { run: run(), too_late: true, error: "too late".into() });
    assert_eq!(count(&effects, "abandon"), 1);
    let said = notices(&bench.reply_yes());
    assert!(!said.iter().any(|notice| matches!(notice, Notice::RunFinished { .. })), "{said:?}");
}

/// Its owner heard so late that its begin had been in force that others had called it lost and closed it by then.
#[test]
fn a_run_that_was_not_started_in_time_and_is_closed_as_lost_ends_as_not_started() {
    let mut bench = Bench::beginning(job("a"));
    bench.pass(secs(20));
    let effects = bench.reply_yes();
    assert_eq!(count(&effects, "abandon"), 1, "{effects:?}");
    let closed = RunRecord { outcome: Some(Outcome::Lost), ..mine(&run(), (RunState::Done, 1, 2)) };
    let effects = bench.reply(vec![with(Verdict::Done, closed.clone())]);
    let said = notices(&effects);
    let [Notice::RunFinished { ending, .. }] = &said[..] else { panic!("{said:?}") };
    assert_eq!((ending.outcome, ending.error.as_str()), (Outcome::NotStarted, "the run's lease is over"));
    assert_eq!(count(&effects, "complete"), 1, "{effects:?}");
    bench.reply(vec![with(Verdict::RecordedLate, closed)]);
    assert_eq!(bench.engine.running(), 0);
}
