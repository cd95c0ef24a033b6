//! A store that may have forgotten.

use super::super::Topic;
use super::answers::*;
use super::*;

/// The instant of the tick, milliseconds.
const AT: i64 = TICK * 1000;
const QUIET: Duration = Duration::from_millis(36_300);

/// The job's record after a loss: ticks up to the one that the tests are about may have been forgotten.
fn gap() -> JobRecord {
    JobRecord { since: AT + 250, forgot_at: 7, quiet_ms: 36_300, revision: 1_000_000, ..job_record(TICK) }
}

/// What a store says that has forgotten, and begins again with what it is told.
fn after_loss(step: &Step) -> Answer {
    match step {
        Step::Register(_) => registered(gap()),
        step => Answer { job: Some(gap()), ..yes(step) },
    }
}

fn registered(job: JobRecord) -> Answer {
    Answer { job: Some(job), ..answer(Verdict::Registered { fresh: false, rescheduled: false }) }
}

fn gone() -> Answer {
    answer(Verdict::Gone)
}

fn names(effects: &[Effect]) -> Vec<&'static str> {
    asked(effects).iter().map(Step::name).collect()
}

fn knew(effects: &[Effect]) -> Option<Knew> {
    let steps = asked(effects);
    let Some(Step::Register(registration)) = steps.iter().find(|step| step.name() == "register") else {
        panic!("{effects:?}")
    };
    registration.knew.clone()
}

#[test]
fn a_job_is_met_without_knowing_and_then_with_what_was_heard() {
    let mut bench = Bench::start(&[job("a")], 10, -60);
    assert!(matches!(&bench.steps()[..], [Step::Register(Registration { knew: None, quiet_ms: 36_300, .. })]));
    bench.reply_yes();
    let effects = bench.tell(Event::StoreChanged);
    let (schedule, zone) = ("@every 1h".into(), "UTC".into());
    let told = Knew { since: 0, decided_through: DECIDED, schedule, zone, ..Knew::default() };
    assert_eq!(knew(&effects), Some(told));
}

#[test]
fn a_running_run_that_the_store_does_not_know_is_asserted_and_goes_on() {
    let mut bench = Bench::running(job("a"));
    bench.until(5_000);
    let effects = bench.reply(vec![gone()]);
    assert_eq!(names(&effects), ["register"]);
    assert!(knew(&effects).is_some_and(|knew| knew.missing));
    let effects = bench.reply(vec![registered(gap())]);
    let [Step::Reassert(word)] = &asked(&effects)[..] else { panic!("{effects:?}") };
    assert_eq!((word.start, word.begun, word.exclusive, word.lease_ms), (1, true, true, 15_000));
    assert_eq!(notices(&effects), [Notice::StoreForgot { jobs: 1, since: AT + 250 }], "and the operator is told");
    let effects = bench.reply(vec![after_loss(&Step::Reassert(word.clone()))]);
    assert_eq!(done(&effects), []);
    assert!(effects.contains(&Effect::Extend { run: run(), lease_end: boot(20_000) }), "{effects:?}");
    let effects = bench.until_with(60_000, &mut |step| Some(after_loss(step)));
    assert_eq!(done(&effects), []);
    assert!(count(&effects, "renew") > 5);
}

/// Who registers first tells the others through the job's record.
#[test]
fn a_loss_that_another_replica_found_makes_us_speak_up_too() {
    let mut bench = Bench::running(job("a"));
    bench.until(5_000);
    let answer = Answer { job: Some(gap()), ..with(Verdict::Renewed, mine(&run(), (RunState::Begun, 1, 3))) };
    let effects = bench.reply(vec![answer]);
    assert_eq!(names(&effects), ["register"]);
    assert!(knew(&effects).is_some_and(|knew| !knew.missing && knew.since == 0));
    assert_eq!(names(&bench.reply(vec![registered(gap())])), ["reassert"]);
}

/// The twin of the store's rule: somebody else may have been given it by now.
#[test]
fn a_run_whose_lease_is_over_is_not_asserted() {
    let mut bench = Bench::running(job("a"));
    bench.until(5_000);
    bench.pass(secs(10));
    let effects = bench.reply(vec![gone()]);
    assert_eq!(done(&effects), [Effect::Terminate { run: run() }]);
    let effects = bench.until_with(15_500, &mut |step| Some(after_loss(step)));
    assert_eq!(count(&effects, "reassert"), 0);
}

#[test]
fn an_assertion_that_is_refused_ends_the_lease() {
    let mut bench = Bench::running(job("a"));
    bench.until(5_000);
    bench.reply(vec![gone()]);
    bench.reply(vec![registered(gap())]);
    let taken = Answer { job: Some(gap()), ..with(Verdict::Fenced, record(&run(), (RunState::Begun, 1, 1))) };
    assert_eq!(done(&bench.reply(vec![taken])), [Effect::Terminate { run: run() }]);
}

#[test]
fn an_end_that_the_store_has_no_run_for_is_asserted_and_then_recorded() {
    let mut bench = Bench::running(job("a"));
    bench.end(0);
    assert_eq!(names(&bench.reply(vec![gone()])), ["register"]);
    assert_eq!(names(&bench.reply(vec![registered(gap())])), ["reassert"]);
    let effects = bench.until_with(1_000, &mut |step| Some(after_loss(step)));
    assert_eq!(names(&effects), ["complete"]);
    assert_eq!((notices(&effects), bench.engine.running()), (vec![], 0));
}

/// However long the store was away.
#[test]
fn an_end_within_the_lease_is_asserted_later_and_one_after_it_is_not() {
    for (ended_ms, asserted) in [(14_999, 1), (15_001, 0)] {
        let mut bench = Bench::running(allowing("a"));
        bench.until_with(ended_ms, &mut |step| (step.name() != "renew").then(|| yes(step)));
        bench.fail();
        bench.end(0);
        let effects = bench.until_with(100_000, &mut |step| {
            let known = matches!(step, Step::Complete { .. });
            Some(if known { gone() } else { after_loss(step) })
        });
        assert_eq!(count(&effects, "reassert"), asserted, "{ended_ms}");
    }
}

#[test]
fn a_claim_that_the_store_does_not_know_any_more_is_asserted_and_begins() {
    for verdict in [Verdict::Gone, Verdict::Forgot] {
        let mut bench = Bench::beginning(job("a"));
        bench.reply(vec![answer(verdict)]);
        let effects = bench.reply(vec![registered(gap())]);
        assert!(matches!(&asked(&effects)[..], [Step::Reassert(Reassert { begun: false, start: 0, .. })]));
        let effects = bench.until_with(1_000, &mut |step| Some(after_loss(step)));
        assert_eq!((names(&effects), done(&effects).len()), (vec!["begin"], 1), "{effects:?}");
    }
}

#[test]
fn a_claim_that_others_may_take_over_is_not_asserted() {
    for (verdict, asks) in [(Verdict::Forgot, vec!["settle"]), (Verdict::Gone, vec!["register"])] {
        let mut bench = Bench::beginning(job("a"));
        bench.pass(secs(5));
        let job = Some(JobRecord { revision: 99, ..job_record(TICK) });
        let effects = bench.reply(vec![Answer { job, ..answer(verdict) }]);
        assert_eq!(notices(&effects), [skipped(&run(), SkipReason::StoreForgot)]);
        assert_eq!(names(&effects), asks);
    }
}

/// Asking again is no sign of life: whoever waits for the begin counts from the claim that was taken, whose reply was lost.
#[test]
fn the_time_of_a_claim_counts_from_when_it_was_first_asked_for() {
    for (unheard_ms, asserted) in [(1_000, true), (4_000, false)] {
        let mut bench = Bench::claiming(job("a"));
        bench.until(unheard_ms);
        bench.fail();
        bench.until_with(unheard_ms + 1_500, &mut |step| matches!(step, Step::Claim(_)).then(|| yes(step)));
        let effects = bench.until_with(unheard_ms + 1_600, &mut |step| match step {
            Step::Begin { .. } => Some(answer(Verdict::Forgot)),
            step => Some(after_loss(step)),
        });
        let is_given_up = notices(&effects).contains(&skipped(&run(), SkipReason::StoreForgot));
        assert_eq!((count(&effects, "reassert") > 0, is_given_up), (asserted, !asserted), "{unheard_ms}: {effects:#?}");
    }
}

#[test]
fn a_begin_in_the_silence_waits_for_its_end() {
    let mut bench = Bench::beginning(job("a"));
    let effects = bench.until_with(10_000, &mut |step| match step {
        Step::Begin { .. } => Some(Answer { job: Some(gap()), ..answer(Verdict::Quiet) }),
        step => Some(after_loss(step)),
    });
    assert_eq!(done(&effects), []);
    assert!(count(&effects, "begin") > 8, "asking is a sign of life");
    let effects = bench.until_with(11_000, &mut |step| Some(after_loss(step)));
    assert!(matches!(&done(&effects)[..], [Effect::Start(_)]));
}

#[test]
fn a_silence_until_the_deadline_is_a_tick_that_the_store_forgot() {
    let mut bench = Bench::beginning(job("a"));
    let effects = bench.until_with(21_000, &mut |step| match step {
        Step::Begin { .. } => Some(Answer { job: Some(gap()), ..answer(Verdict::Quiet) }),
        step => Some(after_loss(step)),
    });
    let (reason, facts) = (MissedReason::StoreForgot, facts(&run()));
    let said = notices(&effects);
    assert!(said.contains(&skipped(&run(), SkipReason::StoreForgot)), "{said:?}");
    assert!(said.contains(&Notice::RunMissed { facts, reason, late_ms: 20_000 }), "{said:?}");
}

#[test]
fn a_silence_is_reported_when_we_have_watched_it_ourselves() {
    let mut bench = Bench::ready(&[job("a")], 10);
    bench.tell(Event::StoreChanged);
    bench.reply(vec![registered(gap())]);
    let heard = bench.clock();
    let before = heard + i64::try_from(QUIET.as_millis()).unwrap();
    assert_eq!(count(&bench.until_with(before, &mut |step| Some(after_loss(step))), "register"), 0);
    let effects = bench.until(before + 1);
    let told = knew(&effects).unwrap();
    assert_eq!((told.forgot_at, told.quiet_for_ms), (7, 36_301));
    // Another loss begins it anew.
    bench.reply(vec![registered(JobRecord { forgot_at: 8, ..gap() })]);
    let told = knew(&bench.tell(Event::StoreChanged)).unwrap();
    assert_eq!((told.forgot_at, told.quiet_for_ms), (8, 0));
}

#[test]
fn all_jobs_are_registered_once_one_was_with_another_identity() {
    let mut bench = Bench::ready(&[job("a"), job("b")], 10);
    bench.until(0);
    bench.reply(vec![answer(Verdict::Unregistered), answer(Verdict::Unregistered)]);
    let moved = |job: JobRecord| JobRecord { identity: "another".into(), ..job };
    bench.reply(vec![registered(moved(gap())), registered(moved(gap()))]);
    let mut bench = Bench::ready(&[job("a"), job("b")], 10);
    bench.engine.outbox.want(Topic::Register(name("a")));
    bench.tell(Event::Woke);
    let effects = bench.reply(vec![registered(moved(gap()))]);
    let jobs: Vec<String> = asked(&effects).iter().map(|step| step.job().to_string()).collect();
    assert_eq!(jobs, ["b"]);
}

/// Where it is the same store, only its records tell: the other job's next tick may be weeks away.
#[test]
fn all_jobs_are_registered_again_where_one_was_lost_and_the_operator_is_told_once() {
    let mut bench = Bench::ready(&[job("a"), job("b")], 10);
    let ask = |bench: &mut Bench| {
        bench.engine.outbox.want(Topic::Register(name("a")));
        bench.tell(Event::Woke);
        bench.reply(vec![registered(gap())])
    };
    let jobs = |effects: &[Effect]| asked(effects).iter().map(|step| step.job().to_string()).collect::<Vec<_>>();
    let forgot = |jobs| Notice::StoreForgot { jobs, since: AT + 250 };
    bench.pass(secs(1));
    let effects = ask(&mut bench);
    assert_eq!((jobs(&effects), notices(&effects)), (vec!["b".to_owned()], vec![]));
    let effects = bench.reply(vec![registered(gap())]);
    assert_eq!((jobs(&effects), notices(&effects)), (vec![], vec![forgot(2)]));
    // A store that evicts: the next ones are heeded, and said, a while later; each job counts once.
    let another = |n| JobRecord { forgot_at: gap().forgot_at + n, ..gap() };
    let again = |bench: &mut Bench, record| {
        bench.engine.outbox.want(Topic::Register(name("a")));
        bench.tell(Event::Woke);
        bench.reply(vec![registered(record)])
    };
    bench.pass(secs(1));
    let effects = again(&mut bench, another(1));
    assert_eq!((jobs(&effects), notices(&effects)), (vec![], vec![]));
    bench.pass(secs(15));
    let effects = again(&mut bench, another(2));
    assert_eq!((jobs(&effects), notices(&effects)), (vec!["b".to_owned()], vec![]));
    let effects = bench.reply(vec![registered(another(2))]);
    assert_eq!((jobs(&effects), notices(&effects)), (vec![], vec![forgot(2)]));
}

#[test]
fn a_store_that_was_emptied_is_found_out_though_no_job_has_a_tick() {
    let mut bench = Bench { hears_nothing: true, ..Bench::ready(&[job("a")], 10) };
    let meet = |bench: &mut Bench| {
        let gathering = Gathering { at: bench.now.wall.timestamp_millis(), members: Vec::new() };
        asked(&bench.tell(Event::Met { sent: bench.now.boot, result: Ok(gathering) }))
    };
    assert_eq!(meet(&mut bench), []);
    let looked = meet(&mut bench);
    let [Step::Read { run }] = &looked[..] else { panic!("{looked:?}") };
    assert_eq!(run.job, name("a"));
    assert_eq!(asked(&bench.reply(vec![Answer { job: Some(job_record(DECIDED)), ..gone() }])), []);
    assert_eq!(meet(&mut bench), [], "the job was heard of");
    assert_eq!(meet(&mut bench).len(), 1);
    let effects = bench.reply(vec![Answer { job: None, ..gone() }]);
    assert_eq!(names(&effects), ["register"]);
    assert!(knew(&effects).is_some());
}

/// Two changes shortly after one another: each job may have met another of the two stores that came.
#[test]
fn a_job_that_met_a_store_which_was_replaced_at_once_is_registered_again() {
    let mut bench = Bench::ready(&[job("a"), job("b")], 10);
    let with = |identity: &str| registered(JobRecord { identity: identity.into(), ..gap() });
    let registers = |bench: &mut Bench, job: &str| {
        bench.engine.outbox.want(Topic::Register(name(job)));
        bench.tell(Event::Woke);
    };
    let jobs = |effects: &[Effect]| asked(effects).iter().map(|step| step.job().to_string()).collect::<Vec<_>>();
    registers(&mut bench, "a");
    assert_eq!(jobs(&bench.reply(vec![with("second")])), ["b"]);
    assert_eq!(jobs(&bench.reply(vec![with("third")])), ["a"], "the second one is no more, or a server of several");
    assert_eq!(jobs(&bench.reply(vec![with("second")])), [""; 0], "of several: each job stays where it was");
    registers(&mut bench, "b");
    assert_eq!(jobs(&bench.reply(vec![with("third")])), [""; 0]);
}

#[test]
fn a_store_that_went_back_is_told_that_something_is_missing() {
    let mut bench = Bench::running(job("a"));
    bench.until_with(4_000, &mut |step| Some(yes(step)));
    bench.until(5_000);
    let older = JobRecord { revision: 0, ..job_record(DECIDED) };
    let effects = bench.reply(vec![Answer { job: Some(older), ..answer(Verdict::Renewed) }]);
    let told = knew(&effects).unwrap();
    assert_eq!((told.missing, told.decided_through), (true, TICK), "and what was decided");
}

/// The record that stands in the place of a lost one begins with its first revision. To who was not the first to register,
/// that is no second loss: the first tick after it would be refused, and the silence begin again.
#[test]
fn a_loss_that_another_replica_found_is_not_found_again() {
    let mut bench = Bench::watching(job("a"), record(&run(), (RunState::Begun, 1, 2)));
    bench.tell(Event::StoreChanged);
    let anew = |revision| JobRecord { revision, since: AT + 1_250, ..gap() };
    let effects = bench.until_with(20_000, &mut |step| {
        Some(match step {
            Step::Register(_) => registered(anew(3)),
            step => Answer { job: Some(anew(4)), ..yes(step) },
        })
    });
    assert!(count(&effects, "read") > 0, "{effects:?}");
    assert_eq!(count(&effects, "register"), 0, "{effects:?}");
}

/// Two answers may overtake one another; that is no loss.
#[test]
fn an_answer_to_an_earlier_question_is_no_loss() {
    let mut bench = Bench::ready(&[job("a")], 10);
    bench.engine.outbox.want(Topic::Register(name("a")));
    bench.tell(Event::Woke);
    bench.until(0);
    let later = bench.pending.pop_back().unwrap();
    bench.pass(ms(10));
    bench.tell(Event::Answered { request: later.0, result: Ok(vec![held(record(&run(), (RunState::Begun, 1, 2)))]) });
    let effects = bench.reply(vec![answer(Verdict::Read)]);
    assert_eq!(count(&effects, "register"), 0);
}

#[test]
fn a_listed_run_without_a_record_is_missing() {
    let mut bench = Bench::claiming(job("a"));
    let listed = JobRecord { open: vec![run_at(-3600).scheduled_for], ..job_record(TICK) };
    let effects = bench.reply(vec![Answer { job: Some(listed), ..held(record(&run(), (RunState::Begun, 1, 2))) }]);
    assert!(knew(&effects).is_some_and(|knew| knew.missing));
}

#[test]
fn a_watched_run_that_vanished_is_settled_as_unknown_unless_its_owner_speaks_up() {
    let begun = record(&run(), (RunState::Begun, 1, 2));
    let mut bench = Bench::watching(job("a"), begun.clone());
    let effects = bench.until_with(60_000, &mut |step| match step {
        Step::Read { .. } => Some(Answer { job: Some(gap()), ..answer(Verdict::Read) }),
        Step::Settle { .. } => {
            Some(Answer { job: Some(gap()), ..with(Verdict::Settled, mine(&run(), (RunState::Done, 0, 0))) })
        }
        step => Some(after_loss(step)),
    });
    let settled: Vec<Step> = asked(&effects).into_iter().filter(|step| step.name() == "settle").collect();
    let expect = Expect::Absent { after_ms: 20_000 };
    let decision = Decision::Missed(MissedReason::StoreForgot);
    assert_eq!(settled, [Step::Settle { run: run(), owner: me(), previous: i64::MAX, expect, decision }]);
    let missed = |notice: &&Notice| matches!(notice, Notice::RunMissed { reason: MissedReason::StoreForgot, .. });
    assert_eq!(notices(&effects).iter().filter(missed).count(), 1);
    // Its owner spoke up: it is watched on.
    let mut bench = Bench::watching(job("a"), begun.clone());
    bench.until_with(4_000, &mut |step| {
        let none = matches!(step, Step::Read { .. });
        Some(if none { Answer { job: Some(gap()), ..answer(Verdict::Read) } } else { after_loss(step) })
    });
    assert!(bench.engine.watches.is_empty());
    bench.until_with(40_000, &mut |step| match step {
        Step::Settle { .. } => Some(Answer { job: Some(gap()), ..with(Verdict::Changed, begun.clone()) }),
        Step::Read { .. } => Some(Answer { job: Some(gap()), ..read(begun.clone()) }),
        step => Some(after_loss(step)),
    });
    assert!(bench.engine.watches.contains_key(&run()));
}

#[test]
fn a_claim_that_nobody_asserts_is_settled_as_unknown() {
    for (state, decision) in
        [(RunState::Claimed, Decision::Missed(MissedReason::StoreForgot)), (RunState::Lost, Decision::Drained)]
    {
        let seen = RunRecord { rerun: true, ..record(&run(), (state, 1, 2)) };
        let mut bench = Bench::watching(rerunning("a"), seen.clone());
        let effects = bench.until_with(40_000, &mut |step| match step {
            Step::Claim(_) => Some(Answer { run: Some(seen.clone()), ..answer(Verdict::Forgot) }),
            Step::Read { .. } => Some(read(seen.clone())),
            Step::Settle { .. } => Some(with(Verdict::Settled, RunRecord { state: RunState::Done, ..seen.clone() })),
            step => Some(yes(step)),
        });
        let settled: Vec<Step> = asked(&effects).into_iter().filter(|step| step.name() == "settle").collect();
        let expect = Expect::Unchanged(seen.seen());
        assert_eq!(settled, [Step::Settle { run: run(), owner: me(), previous: i64::MAX, expect, decision }]);
        let missed = notices(&effects).iter().any(|notice| matches!(notice, Notice::RunMissed { .. }));
        assert_eq!(missed, state == RunState::Claimed);
    }
}

#[test]
fn a_tick_that_the_store_may_have_forgotten_is_settled_as_that() {
    let mut bench = Bench::ready(&[job("a")], 10);
    bench.tell(Event::StoreChanged);
    let before = JobRecord { decided_through: DECIDED, quiet_ms: 0, ..gap() };
    bench.reply(vec![registered(before.clone())]);
    let effects = bench.until_with(30_000, &mut |step| match step {
        Step::Claim(_) => Some(Answer { job: Some(before.clone()), ..answer(Verdict::Forgot) }),
        Step::Settle { .. } => Some(with(Verdict::Settled, mine(&run(), (RunState::Done, 0, 0)))),
        step => Some(after_loss(step)),
    });
    let said = notices(&effects);
    assert_eq!(said[0], skipped(&run(), SkipReason::StoreForgot));
    assert!(matches!(&said[1..], [Notice::RunMissed { reason: MissedReason::StoreForgot, .. }]), "{said:?}");
}
