//! Another table comes into force.

use super::*;
use crate::engine::owed::Owed;
use crate::engine::owed::UNLINKED;

fn table(jobs: &[JobSpec], lease: Duration) -> Event {
    let scheduler = SchedulerSpec { lock_lease: lease, clock_skew_tolerance: secs(2), ..SchedulerSpec::default() };
    let jobs = jobs.iter().cloned().map(Arc::new).collect();
    Event::TableChanged(Arc::new(JobTable { jobs, scheduler, revision: "2".into(), ..JobTable::default() }))
}

/// The same job with another definition.
fn changed(spec: JobSpec) -> JobSpec {
    JobSpec { spec_hash: "another".into(), ..spec }
}

fn claimed(effects: &[Effect]) -> Vec<(String, i64)> {
    let claim = |step: Step| match step {
        Step::Claim(claim) => Some((claim.run.job.to_string(), claim.run.scheduled_for.seconds() - TICK)),
        _ => None,
    };
    asked(effects).into_iter().filter_map(claim).collect()
}

#[test]
fn a_job_that_is_as_it_was_keeps_its_tick_and_is_not_asked_about() {
    let mut bench = Bench::ready(&[job("a"), job("b")], 10);
    assert_eq!(asked(&bench.tell(table(&[job("b"), job("a")], LEASE))), []);
    let mut ticks = claimed(&bench.until(0));
    ticks.sort();
    assert_eq!(ticks, [("a".into(), 0), ("b".into(), 0)]);
}

#[test]
fn a_new_job_is_registered_and_its_ticks_come() {
    let mut bench = Bench::ready(&[job("a")], 10);
    let effects = bench.tell(table(&[job("a"), job("b")], LEASE));
    let steps = asked(&effects);
    assert!(matches!(&steps[..], [Step::Register(registration)] if registration.job == name("b")), "{steps:?}");
    bench.answer_all(&mut |step| Some(answers::yes(step)));
    assert_eq!(claimed(&bench.until(0)).len(), 2);
}

#[test]
fn ticks_of_a_removed_job_come_no_more() {
    let mut bench = Bench::ready(&[job("a"), job("b")], 10);
    bench.tell(table(&[job("b")], LEASE));
    let effects = bench.until_with(10_000_000, &mut |step| Some(answers::yes(step)));
    assert!(asked(&effects).iter().all(|step| *step.job() == name("b")), "nothing of it is asked or settled");
}

#[test]
fn a_run_of_a_removed_job_goes_on_and_its_end_is_recorded() {
    let mut bench = Bench::running(job("a"));
    bench.tell(table(&[], LEASE));
    let effects = bench.until_with(30_000, &mut |step| Some(answers::yes(step)));
    assert!(count(&effects, "renew") >= 5 && done(&effects).is_empty(), "{effects:?}");
    let effects = bench.end(0);
    assert_eq!(count(&effects, "complete"), 1);
}

#[test]
fn a_claim_that_is_under_way_when_its_job_is_removed_is_not_left_behind() {
    let mut bench = Bench::claiming(job("a"));
    bench.tell(table(&[], LEASE));
    bench.reply_yes();
    let effects = bench.reply_yes();
    assert!(matches!(&done(&effects)[..], [Effect::Start(order)] if order.run == run()), "{effects:?}");
}

#[test]
fn a_tick_that_waits_when_its_job_is_removed_is_said() {
    let mut bench = Bench::claiming(job("a"));
    bench.fail();
    let effects = bench.tell(table(&[], LEASE));
    assert_eq!(notices(&effects), [skipped(&run(), SkipReason::Removed)]);
    assert!(bench.engine.ticks.is_empty() && bench.engine.owed.is_empty());
}

/// The store would answer as it did the first time, and it would be told twice.
#[test]
fn what_was_settled_here_is_not_asked_for_again_when_its_job_is_removed() {
    let mut bench = Bench::ready(&[job("a")], 10);
    for tick in [run(), run_at(3_600)] {
        let decided = (WINDOW, Decision::Missed(MissedReason::StoreForgot));
        bench.engine.owed.insert(tick.clone(), Owed::one(tick.scheduled_for, UNLINKED, decided));
    }
    bench.engine.jobs.get_mut(&name("a")).unwrap().settled.insert(run().scheduled_for);
    bench.tell(table(&[], LEASE));
    assert!(bench.engine.owed.keys().eq([&run_at(3_600)]), "{:?}", bench.engine.owed);
}

#[test]
fn a_changed_schedule_counts_from_now_and_a_tick_that_is_due_stays_due_under_the_old_definition() {
    let mut bench = Bench::claiming(job("a"));
    let other = changed(JobSpec { schedule: every("25m"), timeout: Some(secs(7)), ..job("a") });
    let effects = bench.tell(table(&[other], LEASE));
    assert_eq!(count(&effects, "register"), 1);
    bench.reply_yes();
    let begun = bench.answer_all(&mut |step| Some(answers::yes(step)));
    let started = done(&begun);
    assert!(matches!(&started[..], [Effect::Start(order)] if order.spec.timeout.is_none()), "{started:?}");
    bench.end(0);
    let effects = bench.until_with(1_500_000, &mut |step| Some(answers::yes(step)));
    // 02:00 is a multiple of 25 minutes since the epoch, less five minutes and some.
    let next = every("25m").after(DateTime::from_timestamp(TICK, 0).unwrap()).unwrap().timestamp() - TICK;
    assert_eq!(claimed(&effects), [("a".into(), next)]);
}

#[test]
fn a_run_keeps_the_lease_under_which_it_was_claimed() {
    for lease in [secs(60), secs(5)] {
        let mut bench = Bench::running(job("a"));
        bench.tell(table(&[job("a")], lease));
        let effects = bench.until(LEASE.as_millis().try_into().unwrap());
        assert!(count(&effects, "renew") >= 1);
        let lost = |notice: &Notice| matches!(notice, Notice::LeaseLost { .. });
        assert_eq!(notices(&effects).iter().filter(|notice| lost(notice)).count(), 1, "after 15 s and not before");
        let early = Bench::running(job("a")).until(14_999);
        assert!(!notices(&early).iter().any(lost));
    }
}
