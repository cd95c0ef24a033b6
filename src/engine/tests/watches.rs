//! Open runs of others.

use super::answers::*;
use super::*;

const BEGUN: (RunState, u32, u64) = (RunState::Begun, 1, 2);
/// An alarm is spread over so many milliseconds.
const SPREAD: i64 = 50;

fn settle(decision: Decision, at: (RunState, u32, u64)) -> Step {
    let expect = Expect::Unchanged(record(&run(), at).seen());
    Step::Settle { run: run(), owner: me(), previous: i64::MAX, expect, decision }
}

/// A store in which the run stands so and does not change.
fn stands(record: RunRecord) -> impl FnMut(&Step) -> Option<Answer> {
    move |step| match step {
        Step::Read { .. } => Some(read(record.clone())),
        _ => None,
    }
}

fn takes(step: &Step) -> Option<&Claim> {
    match step {
        Step::Claim(claim) if claim.takeover.is_some() => Some(claim),
        _ => None,
    }
}

#[test]
fn a_claim_that_does_not_begin_is_taken_over_after_its_window() {
    let claimed = record(&run(), (RunState::Claimed, 0, 1));
    let mut bench = Bench::watching(job("a"), claimed.clone());
    let effects = bench.until_with(4_999, &mut stands(claimed.clone()));
    assert_eq!(count(&effects, "claim"), 0);
    let effects = bench.until_with(5_000 + SPREAD, &mut stands(claimed.clone()));
    let steps = asked(&effects);
    let claim = steps.iter().find_map(takes).expect("a takeover");
    assert_eq!(claim.takeover, Some(claimed.seen()));
    assert!(claim.take);
    assert_eq!(claim.previous, i64::MAX, "its tick is decided already");
    let effects = bench.reply_yes();
    assert!(matches!(&notices(&effects)[..], [Notice::RunClaimed { .. }]), "{effects:?}");
    assert_eq!(count(&effects, "begin"), 1);
}

#[test]
fn a_begun_run_that_does_not_change_for_a_lease_is_lost_once() {
    let mut bench = Bench::watching(job("a"), record(&run(), BEGUN));
    let effects = bench.until_with(14_999, &mut stands(record(&run(), BEGUN)));
    assert_eq!(count(&effects, "settle"), 0);
    assert!(count(&effects, "read") >= 3, "read every quarter of a lease: a change must not be seen late");
    let effects = bench.until_with(15_000 + SPREAD, &mut stands(record(&run(), BEGUN)));
    assert_eq!(asked(&effects), [settle(Decision::Lost, BEGUN)]);
    let lost = Notice::RunLost { facts: facts(&run()), holder: other(), rerun: false };
    assert_eq!(notices(&bench.reply_yes()), [lost]);
    let effects = bench.until_with(20_000, &mut stands(record(&run(), (RunState::Lost, 1, 2))));
    assert_eq!(notices(&effects), []);
}

#[test]
fn an_answer_that_was_long_under_way_does_not_make_a_lost_run_begun_again() {
    let begun = record(&run(), (RunState::Begun, 1, 2));
    let mut bench = Bench::watching(job("a"), begun.clone());
    let mut store = |step: &Step| match step {
        Step::Read { .. } => None, // from here on reads get no answer
        step => Some(yes(step)),
    };
    bench.until_with(15_100, &mut |step| match step {
        Step::Read { .. } => Some(read(begun.clone())),
        step => Some(yes(step)),
    });
    assert_eq!(bench.engine.watches[&run()].record.state, RunState::Lost);
    let late = Answer { open: vec![begun.clone()], ..answer(Verdict::Registered { fresh: false, rescheduled: false }) };
    let now = bench.now;
    bench.engine.asked_at = boot(15_000);
    bench.engine.job_registered(now, &name("a"), late);
    assert_eq!(bench.engine.watches[&run()].record.state, RunState::Lost);
    let effects = bench.until_with(36_000, &mut store);
    assert!(!notices(&effects).iter().any(|notice| matches!(notice, Notice::RunLost { .. })), "{effects:?}");
}

#[test]
fn a_watcher_that_was_too_slow_says_nothing() {
    let mut bench = Bench::watching(job("a"), record(&run(), BEGUN));
    bench.until_with(15_000 + SPREAD, &mut stands(record(&run(), BEGUN)));
    assert_eq!(bench.reply(vec![with(Verdict::Changed, record(&run(), (RunState::Lost, 1, 2)))]), []);
}

#[test]
fn a_number_that_changes_starts_the_count_again() {
    let mut bench = Bench::watching(job("a"), record(&run(), BEGUN));
    bench.until_with(10_000, &mut stands(record(&run(), BEGUN)));
    let renewed = record(&run(), (RunState::Begun, 1, 3));
    let effects = bench.until_with(25_000, &mut stands(renewed.clone()));
    assert_eq!(count(&effects, "settle"), 0);
    // Seen first at the first reading after second 10, which is at most a quarter of a lease later.
    let effects = bench.until_with(13_750 + 15_000 + 2 * SPREAD, &mut stands(renewed));
    assert_eq!(asked(&effects).last(), Some(&settle(Decision::Lost, (RunState::Begun, 1, 3))));
}

#[test]
fn a_lost_run_is_drained_only_when_nobody_can_run_it_any_more() {
    let lost = record(&run(), (RunState::Lost, 1, 2));
    let mut bench = Bench::watching(job("a"), lost.clone());
    // G + M = 10 s + (1 s + 2 % of 15 s + 10 s).
    let effects = bench.until_with(21_299, &mut stands(lost.clone()));
    assert_eq!(count(&effects, "settle"), 0);
    let effects = bench.until_with(21_300 + SPREAD, &mut stands(lost));
    assert_eq!(asked(&effects), [settle(Decision::Drained, (RunState::Lost, 1, 2))]);
    assert_eq!(bench.reply_yes(), []);
    assert_eq!(bench.until(60_000), []);
}

#[test]
fn a_lost_run_that_may_be_started_again_is_taken_over_as_late_and_judged_by_its_starts() {
    let lost = RunRecord { rerun: true, ..record(&run(), (RunState::Lost, 1, 2)) };
    let mut bench = Bench::watching(rerunning("a"), lost.clone());
    let effects = bench.until_with(21_299, &mut stands(lost.clone()));
    assert_eq!(count(&effects, "claim"), 0);
    let effects = bench.until_with(21_300 + SPREAD, &mut stands(lost.clone()));
    let steps = asked(&effects);
    let claim = steps.iter().find_map(takes).expect("a takeover");
    assert_eq!((claim.takeover.clone(), claim.trigger.as_str()), (Some(lost.seen()), "rerun"));
    // The starting deadline (20 s) is over, and it begins all the same.
    bench.reply_yes();
    let effects = bench.reply_yes();
    let [Effect::Start(order)] = &done(&effects)[..] else { panic!("{effects:?}") };
    assert_eq!((order.start, order.trigger), (2, Trigger::Rerun));
    // That it was lost was told. Its success ends that, though the job has not failed.
    bench.tell(Event::Started { run: run(), pid: Some(7) });
    bench.end(0);
    let effects = bench.reply(vec![answer(Verdict::Recorded)]);
    let ended = |effect: &Effect| matches!(effect, Effect::LookBack { known, .. } if known.was_lost);
    assert!(effects.iter().any(ended), "{effects:?}");
    let last = RunRecord { rerun: true, ..record(&run(), (RunState::Lost, STARTS_MOST, 2)) };
    let mut bench = Bench::watching(rerunning("a"), last.clone());
    let effects = bench.until_with(21_300 + SPREAD, &mut stands(last));
    assert_eq!(asked(&effects), [settle(Decision::Drained, (RunState::Lost, STARTS_MOST, 2))], "three starts at most");
}

#[test]
fn the_windows_are_those_of_the_record_and_not_of_our_table() {
    let slow = RunRecord { lease_ms: 60_000, ..record(&run(), BEGUN) };
    let mut bench = Bench::watching(job("a"), slow.clone());
    assert_eq!(count(&bench.until_with(59_999, &mut stands(slow)), "settle"), 0);
}

#[test]
fn a_claim_that_is_taken_over_after_the_starting_deadline_is_missed_for_want_of_a_replica() {
    let claimed = record(&run(), (RunState::Claimed, 0, 1));
    let mut bench = Bench::watching(job("a"), claimed.clone());
    bench.until_with(4_000, &mut stands(claimed.clone()));
    bench.now.wall += TimeDelta::seconds(60);
    bench.until_with(5_000 + SPREAD, &mut stands(claimed));
    let effects = bench.reply_yes();
    let (expect, decision) = (Expect::Own(me()), Decision::Missed(MissedReason::NoReplica));
    let settle = Step::Settle { run: run(), owner: me(), previous: i64::MAX, expect, decision };
    assert_eq!(asked(&effects), [settle]);
    assert!(matches!(&notices(&effects)[..], [Notice::RunClaimed { .. }]), "skipped was said before: {effects:?}");
    let effects = bench.reply_yes();
    assert!(
        matches!(&notices(&effects)[..], [Notice::RunMissed { reason: MissedReason::NoReplica, .. }]),
        "{effects:?}"
    );
}

#[test]
fn a_run_that_was_given_back_is_taken() {
    let mut bench = Bench::watching(job("a"), record(&run(), BEGUN));
    let given_back = record(&run(), (RunState::Abandoned, 1, 3));
    let effects = bench.until_with(3_750 + 500 + 2 * SPREAD, &mut stands(given_back.clone()));
    let steps = asked(&effects);
    let claim = steps.iter().find_map(takes).expect("a takeover");
    assert_eq!((claim.takeover.clone(), claim.trigger.as_str()), (Some(given_back.seen()), "schedule"));
}

#[test]
fn a_run_that_is_over_is_not_watched_any_more() {
    let mut bench = Bench::watching(job("a"), record(&run(), BEGUN));
    let effects = bench.until_with(60_000, &mut stands(record(&run(), (RunState::Done, 1, 9))));
    assert_eq!(count(&effects, "read"), 1);
    assert!(bench.engine.watches.is_empty());
    assert_eq!(bench.engine.alarms.first(), None);
}

#[test]
fn a_takeover_whose_reply_was_lost_is_ours() {
    let claimed = record(&run(), (RunState::Claimed, 0, 1));
    let mut bench = Bench::watching(job("a"), claimed.clone());
    bench.until_with(5_000 + SPREAD, &mut stands(claimed));
    bench.fail();
    assert!(bench.engine.taking.is_empty());
    bench.until(6_000);
    let effects = bench.reply(vec![held(mine(&run(), (RunState::Claimed, 0, 2)))]);
    assert_eq!(count(&effects, "begin"), 1, "{effects:?}");
}

#[test]
fn a_takeover_waits_for_a_place() {
    let mut bench = Bench::ready(&[job("a"), job("b")], 1);
    bench.until(0);
    let unchanged = |step: &Step| match step {
        Step::Claim(claim) if claim.run == run() => Some(held(record(&run(), (RunState::Claimed, 0, 1)))),
        Step::Read { run } => Some(read(record(run, (RunState::Claimed, 0, 1)))),
        step => Some(yes(step)),
    };
    let effects = bench.until_with(8_000, &mut { unchanged });
    assert!(asked(&effects).iter().all(|step| takes(step).is_none()), "{effects:?}");
    assert!(count(&effects, "read") <= 2 + 6, "twice a second at most while it waits: {effects:?}");
    bench.tell(Event::Ended { run: run_of("b"), exit: exit(0) });
    let effects = bench.reply_yes();
    assert!(asked(&effects).iter().any(|step| takes(step).is_some()), "{effects:?}");
}

#[test]
fn open_runs_are_learned_when_the_job_is_registered() {
    let mut bench = Bench::start(&[job("a")], 10, 10);
    let open = vec![record(&run(), BEGUN)];
    bench.reply(vec![Answer {
        open,
        job: Some(job_record(TICK)),
        ..answer(Verdict::Registered { fresh: false, rescheduled: false })
    }]);
    let effects = bench.until_with(25_000 + SPREAD, &mut stands(record(&run(), BEGUN)));
    assert_eq!(asked(&effects).last(), Some(&settle(Decision::Lost, BEGUN)));
}

/// Whoever took it over may die as well, and then nobody else may be up.
#[test]
fn a_run_that_somebody_took_over_while_ours_ended_is_watched() {
    let taken = RunRecord { rerun: true, ..record(&run(), (RunState::Claimed, 1, 3)) };
    let mut bench = Bench::running(rerunning("a"));
    bench.end(0);
    bench.reply(vec![with(Verdict::Fenced, taken.clone())]);
    let at = bench.clock();
    let effects = bench.until_with(at + 5_000 + SPREAD, &mut stands(taken.clone()));
    let steps = asked(&effects);
    let claim = steps.iter().find_map(takes).expect("a takeover");
    assert_eq!(claim.takeover, Some(taken.seen()));
}

/// It waited while this replica was suspended.
#[test]
fn an_answer_that_was_overtaken_does_not_make_a_lost_run_begun_again() {
    let mut bench = Bench::watching(job("a"), record(&run(), BEGUN));
    bench.until_with(15_000 + SPREAD, &mut stands(record(&run(), BEGUN)));
    assert_eq!(notices(&bench.reply_yes()).len(), 1, "it is lost");
    bench.engine.watch(bench.now, run(), record(&run(), BEGUN));
    assert_eq!(bench.engine.watches[&run()].record.state, RunState::Lost);
    let renewed = record(&run(), (RunState::Begun, 2, 3));
    bench.engine.watch(bench.now, run(), renewed.clone());
    assert_eq!(bench.engine.watches[&run()].record, renewed, "news is taken");
}

/// A failover that lost the word of the loss, with an owner that is dead: the run would hold its slot for ever, if what was
/// read since were taken for an old answer.
#[test]
fn a_lost_run_that_is_begun_again_since_the_store_went_back_is_judged_again() {
    for back_to in [(RunState::Begun, 1, 3), (RunState::Begun, 1, 2)] {
        let begun = record(&run(), (RunState::Begun, 1, 3));
        let mut bench = Bench::watching(job("a"), begun.clone());
        bench.until_with(15_000 + SPREAD, &mut |step| match step {
            Step::Read { .. } => Some(read(begun.clone())),
            step => Some(yes(step)),
        });
        assert_eq!(bench.engine.watches[&run()].record.state, RunState::Lost);
        let before = record(&run(), back_to);
        let effects = bench.until_with(60_000, &mut |step| match step {
            Step::Read { .. } => Some(read(before.clone())),
            Step::Settle { decision: Decision::Drained, .. } => Some(with(Verdict::Changed, before.clone())),
            step => Some(yes(step)),
        });
        assert!(asked(&effects).contains(&settle(Decision::Lost, back_to)), "{effects:?}");
    }
}

#[test]
fn a_claim_whose_deadline_came_while_the_store_was_away_is_missed_for_that() {
    for (away, reason) in [(true, MissedReason::StoreUnavailable), (false, MissedReason::NoReplica)] {
        let claimed = RunRecord { takeover_ms: 60_000, ..record(&run(), (RunState::Claimed, 0, 1)) };
        let mut bench = Bench::watching(job("a"), claimed.clone());
        while away && bench.clock() < 25_000 {
            bench.until(bench.clock() + 1_000);
            while !bench.pending.is_empty() {
                bench.fail();
            }
        }
        let effects = bench.until_with(80_000, &mut |step| match step {
            Step::Claim(claim) if claim.takeover.is_some() => {
                Some(with(Verdict::Won, mine(&run(), (RunState::Claimed, 0, 2))))
            }
            Step::Read { .. } => Some(read(claimed.clone())),
            step => Some(yes(step)),
        });
        let of_run = |notice: &Notice| match notice {
            Notice::RunMissed { facts, reason, .. } if facts.run == run() => Some(*reason),
            _ => None,
        };
        let said: Vec<_> = notices(&effects).iter().filter_map(of_run).collect();
        assert_eq!(said, [reason], "{away}: {effects:#?}");
    }
}

/// It could not say anything while the store was away: its silence is not its own.
#[test]
fn after_an_outage_of_the_store_an_owner_is_heard_before_its_run_is_lost() {
    let mut bench = Bench::watching(job("a"), record(&run(), BEGUN));
    while bench.clock() < 25_000 {
        bench.until(bench.clock() + 1_000);
        while !bench.pending.is_empty() {
            bench.fail();
        }
    }
    let back = bench.clock();
    let mut lost_at = None;
    while bench.clock() < back + 8_000 {
        let effects = bench.until_with(bench.clock() + 100, &mut |step| match step {
            Step::Read { .. } => Some(read(record(&run(), BEGUN))),
            step => Some(yes(step)),
        });
        if count(&effects, "settle") > 0 {
            lost_at.get_or_insert(bench.clock() - back);
        }
    }
    let lost_at = lost_at.expect("it is called lost");
    assert!((3_000..6_000).contains(&lost_at), "{lost_at}");
}
