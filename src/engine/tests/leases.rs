//! Renewals, and what a run does that is not renewed.

use super::super::StopCause;
use super::answers::*;
use super::*;

fn renew() -> Step {
    Step::Renew { run: run(), owner: me(), start: 1 }
}

fn terminate() -> Effect {
    Effect::Terminate { run: run() }
}

fn kill() -> Effect {
    Effect::Kill { run: run() }
}

fn lease_lost(holder: Option<ReplicaId>, unconfirmed_for: Duration, stops: bool) -> Notice {
    Notice::LeaseLost { facts: facts(&run()), holder, unconfirmed_for, stops }
}

fn stopping(cause: StopCause) -> Notice {
    Notice::RunStopping { facts: facts(&run()), cause }
}

/// All that a run of such a job does until then, while nothing answers.
fn alone_until(spec: JobSpec, ms_after_tick: i64) -> Vec<Effect> {
    Bench::running(spec).until(ms_after_tick)
}

#[test]
fn a_run_is_renewed_every_third_of_the_lease() {
    let mut bench = Bench::running(job("a"));
    for third in 1..5 {
        assert_eq!(bench.until(third * 5_000 - 1), []);
        assert_eq!(asked(&bench.until(third * 5_000)), [renew()]);
        let lease_end = boot(third * 5_000) + LEASE;
        assert_eq!(bench.reply_yes(), [Effect::Extend { run: run(), lease_end }]);
    }
}

#[test]
fn a_renewal_whose_reply_is_lost_is_sent_again_at_once_and_not_at_the_next_third() {
    let mut bench = Bench::running(job("a"));
    bench.until(6_000);
    bench.fail();
    assert_eq!(asked(&bench.until(6_200)), [renew()]);
    let effects = bench.reply_yes();
    assert!(effects.iter().any(|effect| matches!(effect, Effect::Extend { .. })), "{effects:?}");
    let effects = bench.until_with(60_000, &mut |step| Some(yes(step)));
    assert_eq!(notices(&effects), [], "one lost reply is no lost lease");
}

#[test]
fn a_lease_counts_from_the_sending_of_what_was_confirmed() {
    let mut bench = Bench::running(job("a"));
    bench.until(8_000);
    // The renewal of second 5 is answered three seconds later.
    assert_eq!(bench.reply_yes(), [Effect::Extend { run: run(), lease_end: boot(5_000) + LEASE }]);
    assert_eq!(notices(&bench.until(19_999)), []);
    assert_eq!(notices(&bench.until(20_000)), [lease_lost(None, LEASE, true), stopping(StopCause::LeaseLost)]);
}

#[test]
fn the_first_lease_counts_from_the_sending_of_the_begin() {
    let mut bench = Bench::beginning(job("a"));
    bench.pass(secs(3));
    bench.reply_yes();
    assert_eq!(notices(&bench.until(14_999)), []);
    assert_eq!(notices(&bench.until(15_000)), [lease_lost(None, LEASE, true), stopping(StopCause::LeaseLost)]);
}

#[test]
fn a_run_that_must_not_overlap_or_that_others_may_start_stops_when_its_lease_is_over() {
    for spec in [job("a"), rerunning("a"), JobSpec { lost_run_policy: LostRunPolicy::Rerun, ..allowing("a") }] {
        assert_eq!(done(&alone_until(spec.clone(), 14_999)), []);
        let effects = alone_until(spec.clone(), 15_000);
        assert_eq!(done(&effects), [terminate()]);
        assert_eq!(notices(&effects), [lease_lost(None, LEASE, true), stopping(StopCause::LeaseLost)]);
        // Ten seconds and not the thirty of its own grace: a successor waits for it.
        assert_eq!(done(&alone_until(spec.clone(), 24_999)), [terminate()]);
        let effects = alone_until(spec, 25_000);
        assert_eq!(done(&effects), [terminate(), kill()]);
        let killed = Notice::RunKilled { facts: facts(&run()), cause: StopCause::LeaseLost, grace: secs(10) };
        assert_eq!(notices(&effects).last(), Some(&killed));
    }
}

#[test]
fn a_short_grace_is_kept() {
    let spec = JobSpec { termination_grace_period: secs(2), ..job("a") };
    assert_eq!(done(&alone_until(spec, 17_000)), [terminate(), kill()]);
}

#[test]
fn a_run_that_nobody_else_may_start_goes_on_without_a_lease() {
    let mut bench = Bench::running(allowing("a"));
    let effects = bench.until(100_000);
    assert_eq!(done(&effects), []);
    assert_eq!(notices(&effects), [lease_lost(None, LEASE, false)], "said once");
}

#[test]
fn a_lease_that_is_renewed_after_all_is_a_lease_again() {
    let mut bench = Bench::running(allowing("a"));
    bench.until(16_000);
    bench.fail();
    bench.until(18_000);
    assert!(bench.reply_yes().iter().any(|effect| matches!(effect, Effect::Extend { .. })));
    let effects = bench.until_with(100_000, &mut |step| Some(yes(step)));
    assert!(count(&effects, "renew") > 10);
    assert_eq!(notices(&effects), []);
}

#[test]
fn a_fenced_renewal_stops_the_run_whatever_the_policy() {
    for spec in [job("a"), rerunning("a"), allowing("a")] {
        let mut bench = Bench::running(spec);
        bench.until(5_000);
        let effects = bench.reply(vec![with(Verdict::Fenced, record(&run(), (RunState::Begun, 2, 9)))]);
        assert_eq!(done(&effects), [terminate()]);
        let said = [lease_lost(Some(other()), secs(5), true), stopping(StopCause::LeaseLost)];
        assert_eq!(notices(&effects), said);
        assert_eq!(done(&bench.until(15_000)), [kill()]);
    }
}

#[test]
fn a_run_that_was_called_lost_and_that_nobody_has_goes_on_where_it_may() {
    for (verdict, state) in [(Verdict::Lost, RunState::Lost), (Verdict::Done, RunState::Done)] {
        let mut bench = Bench::running(allowing("a"));
        bench.until(5_000);
        let effects = bench.reply(vec![with(verdict, mine(&run(), (state, 1, 2)))]);
        assert_eq!(effects, [Effect::Notice(lease_lost(None, secs(5), false))]);
        let mut bench = Bench::running(job("a"));
        bench.until(5_000);
        let effects = bench.reply(vec![with(verdict, mine(&run(), (state, 1, 2)))]);
        assert_eq!(done(&effects), [terminate()], "not where it must not overlap");
    }
}

#[test]
fn a_run_that_the_store_forgot_goes_on_where_nobody_else_may_start_it() {
    // So late that it is not asserted any more.
    let mut bench = Bench::running(allowing("a"));
    bench.until(5_000);
    bench.pass(secs(10));
    assert_eq!(done(&bench.reply(vec![answer(Verdict::Gone)])), []);
    let mut bench = Bench::running(job("a"));
    bench.until(5_000);
    bench.pass(secs(10));
    assert_eq!(done(&bench.reply(vec![answer(Verdict::Gone)])), [terminate()]);
}

#[test]
fn a_run_whose_lease_ends_in_a_long_grace_is_killed_before_a_successor_starts() {
    let spec = JobSpec { timeout: Some(secs(14)), termination_grace_period: secs(300), ..job("a") };
    let mut bench = Bench::running(spec);
    assert_eq!(done(&bench.until(14_000)), [terminate()]);
    assert_eq!(done(&bench.until(24_999)), []);
    let effects = bench.until(25_000);
    assert_eq!(done(&effects), [kill()]);
    let killed = Notice::RunKilled { facts: facts(&run()), cause: StopCause::Timeout, grace: secs(11) };
    assert_eq!(notices(&effects), [killed]);
}

#[test]
fn a_run_that_stops_in_time_is_interrupted() {
    let mut bench = Bench::running(job("a"));
    bench.until(15_000);
    let effects = bench.end(143);
    let [Notice::RunFinished { ending, .. }] = &notices(&effects)[..] else { panic!("{effects:?}") };
    assert_eq!(ending.outcome, Outcome::Interrupted);
}

/// Stopped for its lease it is as lost as if its owner had died, and need not wait until others see that.
#[test]
fn a_run_that_was_stopped_for_its_lease_is_given_back_if_it_may_run_again() {
    for (spec, starts, step) in
        [(rerunning("a"), 0, "abandon"), (rerunning("a"), 2, "complete"), (job("a"), 0, "complete")]
    {
        let mut bench = Bench::running(spec);
        bench.engine.runs.get_mut(&run()).unwrap().start += starts;
        while bench.clock() < 16_000 {
            bench.until(bench.clock() + 1_000);
            while !bench.pending.is_empty() {
                bench.fail();
            }
        }
        let mut effects = bench.tell(Event::Ended { run: run(), exit: exit(143) });
        let finished = |notice: &Notice| matches!(notice, Notice::RunFinished { ending, .. } if ending.outcome == Outcome::Interrupted);
        assert!(notices(&effects).iter().any(finished), "{effects:#?}");
        effects.extend(bench.until_with(20_000, &mut |step| Some(yes(step))));
        let told: Vec<_> =
            asked(&effects).iter().map(Step::name).filter(|name| ["abandon", "complete"].contains(name)).collect();
        assert_eq!(told.first(), Some(&step), "{starts}");
    }
}

/// A store that restarted knows the run, and first wants its job to be registered. Let go of then, the run would be called
/// lost a lease later, by this very replica.
#[test]
fn a_run_is_given_back_to_a_store_that_wants_its_job_registered_first() {
    let mut bench = Bench::running(rerunning("a"));
    while bench.clock() < 16_000 {
        bench.until(bench.clock() + 1_000);
        while !bench.pending.is_empty() {
            bench.fail();
        }
    }
    bench.tell(Event::Ended { run: run(), exit: exit(143) });
    let mut restarted = true;
    let effects = bench.until_with(20_000, &mut |step| {
        Some(match step {
            Step::Register(_) => {
                restarted = false;
                yes(step)
            }
            Step::Abandon { .. } if restarted => answer(Verdict::Unregistered),
            step => yes(step),
        })
    });
    let told: Vec<_> =
        asked(&effects).iter().map(Step::name).filter(|name| ["abandon", "register"].contains(name)).collect();
    let mut after = told.iter().skip_while(|name| **name != "register");
    assert!(told[0] == "abandon" && after.any(|name| *name == "abandon"), "{told:?}");
}

/// Nobody here registers a job that was taken out of the table: asked as fast as the store answers, that would be a storm.
#[test]
fn a_run_of_a_job_that_is_in_no_table_any_more_asks_a_restarted_store_now_and_then() {
    let mut bench = Bench::running(rerunning("a"));
    let scheduler = SchedulerSpec { lock_lease: LEASE, ..SchedulerSpec::default() };
    let empty = JobTable { scheduler, revision: "2".into(), ..JobTable::default() };
    bench.tell(Event::TableChanged(Arc::new(empty)));
    let mut count = [0, 0];
    let mut unregistered = |step: &Step| {
        let run = matches!(step, Step::Renew { .. } | Step::Complete { .. } | Step::Abandon { .. });
        count[usize::from(run)] += 1;
        Some(if run { answer(Verdict::Unregistered) } else { yes(step) })
    };
    bench.until_with(14_000, &mut unregistered);
    bench.end(0);
    bench.until_with(30_000, &mut unregistered);
    assert!((10..40).contains(&count[1]), "{count:?}");
    let effects = bench.until_with(40_000, &mut |step| Some(yes(step)));
    assert!(asked(&effects).iter().any(|step| step.name() == "complete"), "{effects:?}");
    assert!(!bench.engine.runs.contains_key(&run()), "it is told as soon as the store takes it");
}
