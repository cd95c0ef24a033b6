//! From the instant of a tick to the verdict on its claim.

use super::answers::*;
use super::*;

#[test]
fn a_tick_is_claimed_once_it_is_due_and_never_before() {
    let mut bench = Bench::ready(&[job("a")], 10);
    assert_eq!(bench.engine.wake_at().wall, DateTime::from_timestamp(TICK, 0));
    assert_eq!(bench.until(-1), []);
    bench.pass(ms(1));
    let claim = Claim {
        run: run(),
        owner: me(),
        previous: DECIDED,
        delay_ms: 0,
        take: true,
        takeover: None,
        lease_ms: 15_000,
        grace_ms: 10_000,
        takeover_ms: 5_000,
        stop_grace_ms: 30_000,
        exclusive: true,
        when_busy: WhenBusy::Skip,
        rerun: false,
        trigger: "schedule".into(),
        spec_hash: "hash-a".into(),
    };
    let steps = Arc::new(vec![Step::Claim(claim)]);
    assert_eq!(bench.tell(Event::Woke), [Effect::Ask { request: RequestId(2), steps }]);
    assert_eq!(bench.tell(Event::Woke), [], "once");
}

#[test]
fn the_claim_carries_the_policies_of_the_job() {
    let spec = JobSpec { termination_grace_period: secs(3), starting_deadline: Some(secs(8)), ..rerunning("a") };
    let bench = Bench::claiming(JobSpec { concurrency_policy: ConcurrencyPolicy::Allow, ..spec });
    let Step::Claim(claim) = &bench.steps()[0] else { panic!("no claim") };
    let policies = (claim.exclusive, claim.rerun, claim.grace_ms, claim.takeover_ms);
    assert_eq!(policies, (false, true, 3_000, 2_000));
}

#[test]
fn a_chain_of_ticks_names_its_links() {
    let mut bench = Bench::ready(&[job("a")], 10);
    let effects = bench.until_with(7_300_000, &mut |step| match step {
        Step::Claim(claim) => Some(held(record(&claim.run, (RunState::Done, 1, 3)))),
        step => Some(yes(step)),
    });
    let links: Vec<_> = asked(&effects)
        .iter()
        .filter_map(|step| match step {
            Step::Claim(claim) => Some((claim.previous - TICK, claim.run.scheduled_for.seconds() - TICK)),
            _ => None,
        })
        .collect();
    assert_eq!(links, [(-60, 0), (0, 3600), (3600, 7200)]);
}

#[test]
fn all_that_is_due_goes_out_in_one_batch_in_an_order_of_its_own() {
    let jobs = ["a", "b", "c", "d", "e", "f", "g", "h"].map(job);
    let order = |who: &ReplicaId| {
        let mut bench = Bench::start_as(who, &jobs, (0, -60));
        bench.answer_all(&mut |step| Some(yes(step)));
        let effects = bench.until(0);
        assert_eq!(effects.len(), 1, "one batch: {effects:?}");
        asked(&effects).iter().map(|step| step.job().clone()).collect::<Vec<_>>()
    };
    let (mine, others) = (order(&me()), order(&other()));
    assert_ne!(mine, others, "replicas race for the same run");
    assert_eq!(mine, order(&me()));
    let sorted = |mut names: Vec<JobName>| {
        names.sort();
        names
    };
    assert_eq!(sorted(mine), sorted(others));
}

#[test]
fn a_loser_says_who_has_it_and_watches() {
    let mut bench = Bench::claiming(job("a"));
    let effects = bench.reply(vec![held(record(&run(), (RunState::Claimed, 0, 1)))]);
    assert_eq!(effects, [Effect::Notice(lost_race(&run()))]);
    let effects = bench.until(4_000);
    assert_eq!(asked(&effects), [Step::Read { run: run() }]);
    assert_eq!(notices(&effects), []);
}

#[test]
fn a_tick_that_is_over_already_is_one_line_and_nothing_is_watched() {
    let mut bench = Bench::claiming(job("a"));
    let effects = bench.reply(vec![with(Verdict::Done, record(&run(), (RunState::Done, 1, 5)))]);
    assert_eq!(effects, [Effect::Notice(lost_race(&run()))]);
    assert_eq!(bench.until(10_000), []);
}

#[test]
fn a_tick_that_was_decided_without_a_run_is_not_said_to_be_run() {
    for (outcome, recorded, reason) in [
        (Outcome::Missed, "no_replica", SkipReason::Missed),
        (Outcome::Skipped, "overlap", SkipReason::Overlap),
        (Outcome::Succeeded, "", SkipReason::ClaimedByOther),
    ] {
        let mut bench = Bench::claiming(job("a"));
        let done = record(&run(), (RunState::Done, 0, 1));
        let done = RunRecord { outcome: Some(outcome), reason: recorded.into(), ..done };
        let said = notices(&bench.reply(vec![with(Verdict::Done, done)]));
        assert!(matches!(&said[..], [Notice::RunSkipped { reason: found, holder: Some(_), .. }] if *found == reason));
    }
}

#[test]
fn a_tick_from_before_a_change_of_the_schedule_is_said_to_be_one() {
    let mut bench = Bench::claiming(job("a"));
    let other = JobRecord { schedule: "@daily".into(), ..job_record(TICK) };
    let effects = bench.reply(vec![Answer { job: Some(other), ..answer(Verdict::TooOld) }]);
    assert_eq!(notices(&effects), [skipped(&run(), SkipReason::Rescheduled)]);
}

#[test]
fn a_tick_that_is_refused_is_one_line_with_the_reason() {
    for (verdict, reason) in [
        (Verdict::TooOld, SkipReason::Late),
        (Verdict::Forgot, SkipReason::Baseline),
        (Verdict::Paused, SkipReason::Paused),
    ] {
        let mut bench = Bench::claiming(job("a"));
        // Of a new job all is decided up to where its history begins.
        let through = if verdict == Verdict::Forgot { TICK } else { DECIDED };
        let effects = bench.reply(vec![Answer { job: Some(job_record(through)), ..answer(verdict) }]);
        assert_eq!(notices(&effects), [skipped(&run(), reason)]);
        let later =
            bench.until_with(19_999, &mut |step| matches!(step, Step::Settle { .. }).then(|| too_early(20_000)));
        assert_eq!(notices(&later), []);
        assert_eq!(count(&later, "claim"), 0, "{reason}");
    }
}

fn too_early(by_ms: i64) -> Answer {
    answer(Verdict::TooEarly { by_ms })
}

#[test]
fn a_paused_tick_is_recorded_as_skipped_and_not_as_missed() {
    let mut bench = Bench::claiming(job("a"));
    let effects = bench.reply(vec![answer(Verdict::Paused)]);
    assert_eq!(notices(&effects), [skipped(&run(), SkipReason::Paused)]);
    assert_eq!(asked(&bench.until(19_999)), [], "it may be resumed");
    let settle = Step::Settle {
        run: run(),
        owner: me(),
        previous: DECIDED,
        expect: Expect::Absent { after_ms: 20_000 },
        decision: Decision::Skipped(SkipReason::Paused),
    };
    let effects = bench.until(30_000);
    assert_eq!(asked(&effects), [settle]);
    assert_eq!(bench.reply_yes(), [], "the line was said");
    assert_eq!(bench.until(60_000), []);
}

#[test]
fn a_clock_that_is_ahead_waits_and_the_deadline_with_it() {
    let mut bench = Bench::claiming(job("a"));
    let effects = bench.reply(vec![too_early(3_000)]);
    // The store takes a claim 250 ms early.
    assert_eq!(effects, [Effect::Notice(Notice::ClockSkewed { offset_ms: 3_250, severe: false })]);
    assert_eq!(bench.until(2_999), []);
    assert_eq!(count(&bench.until(3_000), "claim"), 1);
    assert_eq!(bench.until(22_999), [], "the deadline of a clock that is ahead was ahead, too");
    assert_eq!(notices(&bench.until(23_000)), [skipped(&run(), SkipReason::Late)]);
}

#[test]
fn a_little_too_early_is_not_worth_a_word_and_skew_is_said_once() {
    let mut bench = Bench::claiming(job("a"));
    assert_eq!(bench.reply(vec![too_early(1_500)]), []);
    bench.until(1_500);
    let skewed = Notice::ClockSkewed { offset_ms: 1_500 + 2_750, severe: false };
    assert_eq!(notices(&bench.reply(vec![too_early(2_500)])), [skewed]);
    bench.until(4_000);
    assert_eq!(bench.reply(vec![too_early(2_500)]), []);
}

/// Our clock is behind, and another answer has told of the run already: with a watch beside the claim, the one would take
/// the run over, and the other would be told that it is ours, and say that somebody else has it.
#[test]
fn a_run_that_is_known_before_its_tick_is_asked_about_once() {
    let mut bench = Bench::ready(&[job("a")], 10);
    bench.until(-500);
    bench.tell(Event::StoreChanged);
    let open = vec![record(&run(), (RunState::Abandoned, 0, 2))];
    bench.reply(vec![Answer { open, ..answer(Verdict::Registered { fresh: false, rescheduled: false }) }]);
    bench.pending.clear();
    assert!(bench.engine.watches.contains_key(&run()));
    bench.until(0);
    assert!(bench.engine.ticks.contains_key(&run()) && !bench.engine.watches.contains_key(&run()));
}

#[test]
fn a_run_that_was_given_back_is_taken_at_once() {
    let mut bench = Bench::claiming(job("a"));
    let effects = bench.reply(vec![held(record(&run(), (RunState::Abandoned, 0, 2)))]);
    assert_eq!(effects, [], "nothing to say: whoever looks next has it");
    let effects = bench.until(500);
    assert!(matches!(&asked(&effects)[..], [Step::Claim(Claim { take: true, .. })]), "{effects:?}");
}

#[test]
fn a_tick_that_is_won_after_it_was_given_up_is_settled_without_a_second_word() {
    let mut bench = Bench::claiming(job("a"));
    assert_eq!(notices(&bench.until(20_000)), [skipped(&run(), SkipReason::Late)]);
    let effects = bench.reply_yes();
    let (expect, decision) = (Expect::Own(me()), Decision::Missed(MissedReason::Late));
    let settle = Step::Settle { run: run(), owner: me(), previous: i64::MAX, expect, decision };
    assert_eq!(effects.len(), 1, "{effects:?}");
    assert_eq!(asked(&effects), [settle]);
}

#[test]
fn a_run_of_ours_that_is_over_is_not_said_to_be_anothers_when_its_instant_comes_again() {
    let mut bench = Bench::claiming(job("a"));
    let effects = bench.reply(vec![with(Verdict::Done, mine(&run(), (RunState::Done, 1, 4)))]);
    assert_eq!(notices(&effects), []);
    assert!(!bench.engine.ticks.contains_key(&run()));
}

/// Once as the owner of the late claim, once since it owed the tick a record.
#[test]
fn a_tick_that_is_won_after_it_was_given_up_is_missed_once() {
    let mut bench = Bench::claiming(job("a"));
    let mut settles = count(&bench.until(20_000), "settle");
    let effects = bench.until_with(30_000, &mut |step| match step {
        Step::Settle { run, .. } => Some(with(Verdict::Settled, mine(run, (RunState::Done, 0, 2)))),
        step => Some(yes(step)),
    });
    settles += count(&effects, "settle");
    assert_eq!(settles, 2, "{effects:#?}");
    let missed = |notice: &&Notice| matches!(notice, Notice::RunMissed { .. });
    assert_eq!(notices(&effects).iter().filter(missed).count(), 1, "{effects:#?}");
}

/// Somebody claimed it and died, and no answer to a claim of ours told of that.
#[test]
fn a_tick_that_was_given_up_and_is_claimed_by_somebody_is_watched() {
    let mut bench = Bench::claiming(job("a"));
    bench.engine.learn(bench.now, &name("a"), &JobRecord { revision: 9, ..job_record(TICK) });
    bench.until(20_000);
    let claimed = record(&run(), (RunState::Claimed, 0, 1));
    bench.until_with(20_500, &mut |step| match step {
        Step::Read { .. } => Some(Answer { job: None, ..read(claimed.clone()) }),
        _ => None,
    });
    assert!(bench.engine.watches.contains_key(&run()));
}

#[test]
fn an_unknown_job_is_registered_and_its_tick_asked_again() {
    let mut bench = Bench::claiming(job("a"));
    let effects = bench.reply(vec![Answer { job: None, ..answer(Verdict::Unregistered) }]);
    assert_eq!(count(&effects, "register"), 1);
    assert_eq!(notices(&effects), []);
    assert_eq!(count(&bench.reply_yes(), "claim"), 1);
}
