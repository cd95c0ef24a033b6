//! That a job had no success for too long, and that it has one again.

use super::super::Topic;
use super::answers::*;
use super::*;
use crate::job::Stale;

const AFTER: Duration = Duration::from_secs(5_400);

/// An hourly job whose latest success is that of [`DECIDED`].
fn dated() -> JobSpec {
    JobSpec { stale_after: Some(AFTER), ..job("a") }
}

fn call() -> Step {
    let last_success = Some(Tick::from_seconds(DECIDED));
    Step::CallStale { job: name("a"), by: me(), last_success, since: 0, after_ms: 5_400_000 }
}

fn stale() -> Notice {
    Notice::JobStale { job: name("a"), last_success: Some(Tick::from_seconds(DECIDED)), stale_after: AFTER }
}

/// A store that somebody else's runs are in, and that answers so when the job is called stale.
fn store(verdict: Verdict, calls: &mut usize) -> impl FnMut(&Step) -> Option<Answer> {
    move |step| match step {
        Step::CallStale { .. } => {
            *calls += 1;
            assert_eq!(*step, call());
            Some(answer(verdict))
        }
        Step::Claim(claim) => Some(with(Verdict::Done, record(&claim.run, (RunState::Done, 1, 1)))),
        step => Some(yes(step)),
    }
}

#[test]
fn a_job_is_called_stale_when_its_time_is_over_and_not_before() {
    let (mut bench, mut calls) = (Bench::ready(&[dated()], 10), 0);
    bench.until_with(5_339_000, &mut store(Verdict::Changed, &mut calls));
    assert_eq!(calls, 0);
    bench.until_with(5_341_000, &mut store(Verdict::Changed, &mut calls));
    assert_eq!(calls, 1);
}

#[test]
fn an_answer_that_cannot_be_leads_to_no_storm_of_questions() {
    let (mut bench, mut calls) = (Bench::ready(&[dated()], 10), 0);
    bench.until_with(5_940_000, &mut store(Verdict::Changed, &mut calls));
    assert_eq!(calls, 41, "once each 15 s");
}

#[test]
fn a_job_is_asked_about_again_when_the_stores_clock_says_that_it_is_too_early() {
    let (mut bench, mut calls) = (Bench::ready(&[dated()], 10), 0);
    bench.until_with(5_341_000, &mut store(Verdict::TooEarly { by_ms: 2_000 }, &mut calls));
    bench.until_with(5_342_000, &mut store(Verdict::Settled, &mut calls));
    assert_eq!(calls, 1);
    let effects = bench.until_with(5_343_000, &mut store(Verdict::Settled, &mut calls));
    assert_eq!((calls, notices(&effects)), (2, vec![stale()]));
}

#[test]
fn a_job_without_that_time_and_one_that_is_suspended_are_never_stale() {
    for spec in [job("a"), JobSpec { suspend: true, ..dated() }] {
        let (mut bench, mut calls) = (Bench::ready(&[spec], 10), 0);
        bench.until_with(9_000_000, &mut store(Verdict::Settled, &mut calls));
        assert_eq!(calls, 0);
    }
}

#[test]
fn who_is_first_says_it_and_the_others_do_not() {
    for (verdict, said) in [(Verdict::Settled, vec![stale()]), (Verdict::Changed, vec![])] {
        let (mut bench, mut calls) = (Bench::ready(&[dated()], 10), 0);
        let effects = bench.until_with(5_341_000, &mut store(verdict, &mut calls));
        let is_stale = |notice: &Notice| matches!(notice, Notice::JobStale { .. });
        assert_eq!(notices(&effects).into_iter().filter(is_stale).collect::<Vec<_>>(), said);
    }
}

/// The record says that the job was called stale, by this replica: so nobody else says it.
#[test]
fn who_has_not_heard_that_it_was_first_asks_again_and_says_it_once() {
    let (mut bench, mut calls) = (Bench::ready(&[dated()], 10), 0);
    let fresh_at = DECIDED * 1000;
    let called = JobRecord { stale: Some(Stale { fresh_at, by: me() }), revision: 9, ..job_record(DECIDED) };
    bench.until_with(5_339_900, &mut store(Verdict::Changed, &mut calls));
    bench.until(5_340_500);
    assert_eq!(bench.pending.len(), 1);
    bench.engine.outbox.want(Topic::Register(name("a")));
    bench.tell(Event::Woke);
    let (request, _) = bench.pending.pop_back().unwrap();
    let told = Answer { job: Some(called.clone()), ..answer(Verdict::Registered { fresh: false, rescheduled: false }) };
    bench.tell(Event::Answered { request, result: Ok(vec![told]) });
    bench.fail();
    let mut answers = |step: &Step| match step {
        Step::CallStale { .. } => Some(Answer { job: Some(called.clone()), ..answer(Verdict::Settled) }),
        step => Some(yes(step)),
    };
    let effects = bench.until_with(5_400_000, &mut answers);
    let said = notices(&effects).into_iter().filter(|notice| matches!(notice, Notice::JobStale { .. }));
    assert_eq!(said.collect::<Vec<_>>(), [stale()]);
}

/// Its record says still who called it stale. What it was told for is over with the next success.
#[test]
fn a_job_that_comes_back_to_the_table_is_not_called_stale_once_more() {
    let (mut bench, mut calls) = (Bench::ready(&[dated()], 10), 0);
    let effects = bench.until_with(5_341_000, &mut store(Verdict::Settled, &mut calls));
    assert!(notices(&effects).contains(&stale()));
    let scheduler = SchedulerSpec { lock_lease: LEASE, clock_skew_tolerance: secs(2), ..SchedulerSpec::default() };
    let table =
        |jobs| Event::TableChanged(Arc::new(JobTable { jobs, scheduler: scheduler.clone(), ..JobTable::default() }));
    bench.tell(table(vec![]));
    let called = |last_success: i64| JobRecord {
        stale: Some(Stale { fresh_at: DECIDED * 1000, by: me() }),
        last_success: Some(Tick::from_seconds(last_success)),
        ..job_record(DECIDED)
    };
    bench.tell(table(vec![Arc::new(dated())]));
    let effects = bench.until_with(5_400_000, &mut |step| Some(Answer { job: Some(called(DECIDED)), ..yes(step) }));
    assert_eq!((count(&effects, "call_stale"), notices(&effects).contains(&stale())), (0, false), "{effects:?}");
    assert_eq!(bench.engine.said_stale.len(), 1);
    let record = JobRecord { revision: 1_000, ..called(TICK) };
    bench.engine.learn_freshness(bench.now, &name("a"), &record);
    assert!(bench.engine.said_stale.is_empty());
}

/// A job whose record says so many failures.
fn failing(failures: u32) -> Bench {
    let mut bench = Bench::claiming(job("a"));
    let mut won = yes(&bench.steps()[0].clone());
    won.job = Some(JobRecord { revision: 100, failures, ..job_record(DECIDED) });
    bench.reply(vec![won]);
    bench.reply_yes();
    bench.tell(Event::Started { run: run(), pid: Some(7) });
    bench
}

fn recorded(revision: u64) -> Answer {
    let done = with(Verdict::Recorded, mine(&run(), (RunState::Done, 1, 3)));
    Answer { job: Some(JobRecord { revision, ..job_record(DECIDED) }), ..done }
}

/// A job that was called stale since a tick's success, when its run ends.
fn called_stale(last_success: i64) -> Bench {
    let mut bench = Bench::claiming(job("a"));
    let mut won = yes(&bench.steps()[0].clone());
    let stale = Some(Stale { fresh_at: (DECIDED - 3600) * 1000, by: me() });
    let last_success = Some(Tick::from_seconds(last_success));
    won.job = Some(JobRecord { revision: 100, stale, last_success, ..job_record(DECIDED) });
    bench.reply(vec![won]);
    bench.reply_yes();
    bench.tell(Event::Started { run: run(), pid: Some(7) });
    bench
}

#[test]
fn a_job_is_stale_no_more_when_its_last_success_is_later_than_that_for_which_it_was_called_so() {
    let since = Some((DECIDED - 3600) * 1000);
    let told = Trouble { stale_since: since, ..Trouble::default() };
    for (before, after, wanted) in [
        (DECIDED - 3600, DECIDED, Some(told)),
        // It has run for an earlier instant, as somebody ordered.
        (DECIDED - 3600, DECIDED - 3600, None),
        // There was a success since.
        (DECIDED - 1800, DECIDED, None),
    ] {
        let mut bench = called_stale(before);
        bench.end(0);
        let mut answer = recorded(101);
        answer.job = answer.job.map(|job| JobRecord { last_success: Some(Tick::from_seconds(after)), ..job });
        let looks = bench.reply(vec![answer]).into_iter().find_map(|effect| match effect {
            Effect::LookBack { known, .. } => Some(known),
            _ => None,
        });
        assert_eq!(looks, wanted, "{before} {after}");
    }
}

/// Both ended before the end of either was recorded.
#[test]
fn of_two_successes_at_once_the_second_is_not_said_to_have_ended_the_trouble_that_the_first_has() {
    let mut bench = Bench::ready(&[JobSpec { schedule: every("1m"), ..allowing("a") }], 10);
    let mut failing = |step: &Step| match step {
        Step::Complete { .. } => None,
        step => {
            let answer = yes(step);
            let job = answer.job.map(|job| JobRecord { revision: 1000, failures: 2, ..job });
            Some(Answer { job, ..answer })
        }
    };
    let runs = [run(), run_at(60)];
    for (run, at) in runs.iter().zip([1_000, 61_000]) {
        bench.until_with(at, &mut failing);
        bench.tell(Event::Started { run: run.clone(), pid: Some(7) });
    }
    for run in &runs {
        bench.tell(Event::Ended { run: run.clone(), exit: exit(0) });
    }
    let (mut told, mut revision) = (Vec::new(), 1000);
    let mut recording = |step: &Step| {
        revision += u64::from(matches!(step, Step::Complete { .. }));
        let answer = yes(step);
        let job = answer.job.map(|job| JobRecord { revision, ..job });
        Some(Answer { job, ..answer })
    };
    for effect in bench.until_with(62_000, &mut recording) {
        if let Effect::LookBack { facts, known } = effect {
            told.push((facts.run, known.failures));
        }
    }
    // The history still decides about the second, since the record changed in between.
    assert_eq!(told, [(runs[0].clone(), 2), (runs[1].clone(), 0)]);
}

#[test]
fn a_recorded_success_after_failures_is_looked_back_from() {
    let look = |failures| Effect::LookBack { facts: facts(&run()), known: Trouble { failures, ..Trouble::default() } };
    for (failures, code, revision, wanted) in [
        (2, 0, 101, vec![look(2)]),
        (0, 0, 101, vec![]),
        // Somebody else has changed the record in between.
        (0, 0, 102, vec![look(0)]),
        (2, 1, 101, vec![]),
    ] {
        let mut bench = failing(failures);
        bench.end(code);
        let effects = bench.reply(vec![recorded(revision)]);
        let looks = effects.into_iter().filter(|effect| matches!(effect, Effect::LookBack { .. })).collect::<Vec<_>>();
        assert_eq!(looks, wanted, "{failures} {code} {revision}");
    }
}
