//! The fence between claim and start.

use super::super::StartOrder;
use super::answers::*;
use super::*;

fn begin(request: &str) -> Step {
    Step::Begin { run: run(), owner: me(), start: 0, request: request.into() }
}

fn wait() -> Step {
    Step::Wait { run: run(), owner: me(), start: 0 }
}

fn settle_own(decision: Decision) -> Step {
    Step::Settle { run: run(), owner: me(), previous: i64::MAX, expect: Expect::Own(me()), decision }
}

fn busy(occupant: i64, renewed: bool, number: u64) -> Answer {
    let occupant = run_at(occupant);
    let open = vec![record(&occupant, (RunState::Begun, 1, number))];
    let job = with(Verdict::Begun, mine(&run(), (RunState::Claimed, 0, 2))).job;
    Answer { job, open, ..answer(Verdict::Busy { occupant: occupant.scheduled_for, renewed }) }
}

fn overlap(occupant: i64) -> Notice {
    let (holder, holder_run) = (Some(other()), Some(run_at(occupant).scheduled_for));
    Notice::RunSkipped { facts: facts(&run()), reason: SkipReason::Overlap, holder, holder_run, age: None }
}

#[test]
fn a_won_tick_begins_and_starts_only_then() {
    let mut bench = Bench::claiming(job("a"));
    bench.pass(ms(40));
    let effects = bench.reply_yes();
    let claimed = Effect::Notice(Notice::RunClaimed { facts: facts(&run()), took: ms(40) });
    let ask = Effect::Ask { request: RequestId(3), steps: Arc::new(vec![begin("1")]) };
    assert_eq!(effects, [claimed, ask]);
    bench.pass(secs(3));
    let order = StartOrder {
        run: run(),
        start: 1,
        scheduled_for: run().scheduled_for,
        token: fencing_token(run().scheduled_for, 1),
        trigger: Trigger::Schedule,
        spec: Arc::new(job("a")),
        last_success: Some(Tick::from_seconds(DECIDED)),
        lease_end: boot(40) + LEASE,
        guarded: true,
    };
    assert_eq!(bench.reply_yes(), [Effect::Start(Box::new(order))]);
}

#[test]
fn only_a_job_that_nobody_else_may_start_is_not_guarded() {
    for (spec, guarded) in [(job("a"), true), (rerunning("a"), true), (allowing("a"), false)] {
        let effects = Bench::beginning(spec).reply_yes();
        assert!(matches!(&effects[..], [Effect::Start(order)] if order.guarded == guarded), "{effects:?}");
    }
}

#[test]
fn a_begin_is_sent_again_as_it_was_and_the_lease_counts_from_the_first() {
    let mut bench = Bench::beginning(job("a"));
    let first = bench.steps();
    bench.pass(secs(1));
    bench.fail();
    bench.until(2_000);
    assert_eq!(bench.steps(), first);
    let effects = bench.reply_yes();
    let starts = |effect: &Effect| matches!(effect, Effect::Start(order) if order.lease_end == boot(0) + LEASE);
    assert!(effects.iter().any(starts), "{effects:?}");
}

#[test]
fn a_begin_that_is_answered_after_a_lease_is_given_back() {
    let mut bench = Bench::beginning(job("a"));
    bench.pass(LEASE);
    let effects = bench.reply_yes();
    assert_eq!(effects.len(), 1);
    assert_eq!(asked(&effects), [Step::Abandon { run: run(), owner: me(), start: 1 }]);
    let mut bench = Bench::beginning(job("a"));
    bench.pass(LEASE - ms(1));
    assert!(matches!(&done(&bench.reply_yes())[..], [Effect::Start(_)]), "a moment before, it starts");
}

/// Its begin was in force and its answer came after the lease, or never: others have recorded the run as lost, and that
/// nothing was started for it is known here alone.
#[test]
fn a_run_whose_begin_was_heard_of_too_late_and_that_is_called_lost_ends_as_not_started() {
    for hears_begun in [true, false] {
        let mut bench = Bench::beginning(job("a"));
        bench.pass(LEASE);
        let lost = mine(&run(), (RunState::Lost, 1, 4));
        let mut store = |step: &Step| {
            Some(match step {
                Step::Begin { .. } if hears_begun => yes(step),
                Step::Begin { .. } | Step::Abandon { .. } => with(Verdict::Lost, lost.clone()),
                Step::Complete { start: 1, .. } => with(Verdict::RecordedLate, lost.clone()),
                step => yes(step),
            })
        };
        let effects = bench.until_with(bench.clock() + 2_000, &mut store);
        let said = notices(&effects);
        let [Notice::RunFinished { ending, .. }] = &said[..] else { panic!("{said:?}") };
        assert_eq!((ending.outcome, ending.error.as_str()), (Outcome::NotStarted, "the run's lease is over"));
        assert_eq!(count(&effects, "complete"), 1, "{effects:?}");
        assert_eq!(bench.engine.running(), 0);
    }
}

#[test]
fn a_spawn_that_comes_too_late_gives_the_run_back() {
    let mut bench = Bench::beginning(job("a"));
    bench.reply_yes();
    let effects = bench.tell(Event::NotStarted { run: run(), too_late: true, error: String::new() });
    assert_eq!(effects.len(), 1);
    assert_eq!(asked(&effects), [Step::Abandon { run: run(), owner: me(), start: 1 }]);
}

/// As when the machine slept between begin and spawn. That the lease was lost is all there is to say.
#[test]
fn a_run_that_lost_its_lease_before_its_spawn_is_not_skipped_as_well() {
    let mut bench = Bench::beginning(job("a"));
    bench.reply_yes();
    bench.pass(LEASE);
    assert!(notices(&bench.tell(Event::Woke)).iter().any(|notice| matches!(notice, Notice::LeaseLost { .. })));
    while !bench.pending.is_empty() {
        bench.fail();
    }
    bench.tell(Event::NotStarted { run: run(), too_late: true, error: String::new() });
    let lost = mine(&run(), (RunState::Lost, 1, 4));
    let effects = bench.until_with(bench.clock() + 2_000, &mut |_| Some(with(Verdict::Lost, lost.clone())));
    let skips = notices(&effects).into_iter().filter(|notice| matches!(notice, Notice::RunSkipped { .. }));
    assert_eq!(skips.collect::<Vec<_>>(), [], "{effects:#?}");
}

#[test]
fn a_run_that_is_given_back_to_a_store_that_forgot_it_is_said_to_be_forgotten() {
    let mut bench = Bench::beginning(job("a"));
    bench.reply_yes();
    bench.tell(Event::NotStarted { run: run(), too_late: true, error: String::new() });
    let effects = bench.reply(vec![answer(Verdict::Gone)]);
    assert!(
        matches!(&notices(&effects)[..], [Notice::RunSkipped { reason: SkipReason::StoreForgot, .. }]),
        "{effects:?}"
    );
}

#[test]
fn a_claim_that_somebody_settled_meanwhile_is_not_said_to_be_run_by_that_one() {
    let mut bench = Bench::beginning(job("a"));
    let missed = RunRecord { outcome: Some(Outcome::Missed), ..record(&run(), (RunState::Done, 0, 4)) };
    let effects = bench.reply(vec![with(Verdict::Done, missed)]);
    assert!(matches!(&notices(&effects)[..], [Notice::RunSkipped { reason: SkipReason::Missed, .. }]), "{effects:?}");
}

#[test]
fn a_slot_whose_run_lives_is_an_overlap() {
    let mut bench = Bench::beginning(job("a"));
    let effects = bench.reply(vec![busy(-3600, true, 9)]);
    assert_eq!(notices(&effects), [overlap(-3600)]);
    assert_eq!(asked(&effects), [settle_own(Decision::Skipped(SkipReason::Overlap))]);
    assert_eq!(notices(&bench.reply_yes()), []);
    assert_eq!(bench.engine.running(), 0);
}

#[test]
fn a_slot_that_a_run_of_our_own_holds_is_an_overlap() {
    let mut bench = Bench::claiming(job("a"));
    bench.pass(secs(1)); // so that no renewal is due at the tick
    bench.until_with(3_599_999, &mut |step| Some(yes(step)));
    let next = run_at(3600);
    let mut show_of_life = 0;
    let effects = bench.until_with(3_600_010, &mut |step| match step {
        Step::Begin { run: began, .. } if *began == next => {
            let occupant = run().scheduled_for;
            let open = vec![mine(&run(), (RunState::Begun, 1, 9))];
            Some(Answer { open, ..answer(Verdict::Busy { occupant, renewed: false }) })
        }
        Step::Renew { .. } => {
            show_of_life += 1;
            Some(yes(step))
        }
        step => Some(yes(step)),
    });
    let (holder, holder_run) = (Some(me()), Some(run().scheduled_for));
    let overlap =
        Notice::RunSkipped { facts: facts(&next), reason: SkipReason::Overlap, holder, holder_run, age: None };
    assert_eq!(notices(&effects).last(), Some(&overlap));
    assert_eq!(show_of_life, 1, "and it showed life at the tick, for whoever else might win it");
}

#[test]
fn a_slot_whose_run_may_be_dead_is_waited_for() {
    let mut bench = Bench::beginning(job("a"));
    assert_eq!(bench.reply(vec![busy(-3600, false, 9)]), []);
    assert_eq!(bench.until(99), []);
    let effects = bench.until(100);
    assert_eq!(asked(&effects), [wait()]);
    // Another 200 ms, and now it is free. The lease counts from the begin that is confirmed then.
    bench.reply(vec![busy(-3600, false, 9)]);
    let effects = bench.until(300);
    assert_eq!(asked(&effects), [wait()]);
    let effects = bench.reply(vec![answer(Verdict::Free)]);
    assert_eq!(asked(&effects), [begin("2")], "a new request: the first was answered");
    let effects = bench.reply_yes();
    let starts = |effect: &Effect| matches!(effect, Effect::Start(order) if order.lease_end == boot(300) + LEASE);
    assert!(effects.iter().any(starts), "{effects:?}");
}

#[test]
fn a_slot_whose_run_is_renewed_while_we_wait_is_an_overlap() {
    let mut bench = Bench::beginning(job("a"));
    bench.reply(vec![busy(-3600, false, 9)]);
    bench.until(100);
    assert_eq!(notices(&bench.reply(vec![busy(-3600, false, 10)])), [overlap(-3600)]);
}

#[test]
fn a_slot_that_is_taken_until_the_deadline_is_an_overlap() {
    let mut bench = Bench::beginning(job("a"));
    let mut store = |step: &Step| match step {
        Step::Begin { .. } | Step::Wait { .. } => Some(busy(-3600, false, 9)),
        Step::Read { run } => Some(read(record(run, (RunState::Begun, 1, 9)))),
        Step::Settle { decision: Decision::Lost, .. } => None,
        step => Some(yes(step)),
    };
    let effects = bench.until_with(19_999, &mut store);
    assert_eq!(notices(&effects), []);
    assert!(count(&effects, "wait") >= 20, "a claim that waits shows life every second");
    let effects = bench.until_with(20_000, &mut store);
    let skipped = Notice::RunSkipped {
        facts: facts(&run()),
        reason: SkipReason::Overlap,
        holder: Some(other()),
        holder_run: Some(run_at(-3600).scheduled_for),
        age: None,
    };
    assert_eq!(notices(&effects), [skipped]);
    assert!(asked(&effects).contains(&settle_own(Decision::Skipped(SkipReason::Overlap))));
}

#[test]
fn a_run_in_the_slot_that_is_unknown_here_is_watched() {
    let mut bench = Bench::beginning(job("a"));
    bench.reply(vec![busy(-3600, false, 9)]);
    assert!(bench.engine.watches.contains_key(&run_at(-3600)));
}

#[test]
fn a_tick_that_a_later_one_overtook_is_superseded() {
    let mut bench = Bench::beginning(job("a"));
    let effects = bench.reply(vec![answer(Verdict::Superseded)]);
    assert_eq!(notices(&effects), [skipped(&run(), SkipReason::Superseded)]);
    assert_eq!(asked(&effects), [settle_own(Decision::Skipped(SkipReason::Superseded))]);
}

#[test]
fn a_claim_that_the_store_forgot_is_not_started() {
    // So late that it is not asserted any more.
    let mut bench = Bench::beginning(job("a"));
    bench.pass(secs(5));
    let effects = bench.reply(vec![answer(Verdict::Forgot)]);
    assert_eq!(notices(&effects), [skipped(&run(), SkipReason::StoreForgot)]);
    assert_eq!(asked(&effects), [settle_own(Decision::Missed(MissedReason::StoreForgot))]);
    let mut bench = Bench::beginning(job("a"));
    bench.pass(secs(5));
    let effects = bench.reply(vec![answer(Verdict::Gone)]);
    assert_eq!(notices(&effects), [skipped(&run(), SkipReason::StoreForgot)]);
    assert_eq!(bench.engine.running(), 0);
}

#[test]
fn a_claim_that_was_taken_over_is_not_started_and_watched() {
    let mut bench = Bench::beginning(job("a"));
    let effects = bench.reply(vec![with(Verdict::Fenced, record(&run(), (RunState::Begun, 1, 4)))]);
    assert_eq!(effects, [Effect::Notice(lost_race(&run()))]);
    assert!(bench.engine.watches.contains_key(&run()));
}

#[test]
fn a_begin_that_was_sent_in_time_is_asked_until_it_is_answered_since_it_may_be_in_force() {
    let mut bench = Bench::beginning(job("a"));
    let effects = bench.fail();
    assert!(matches!(&notices(&effects)[..], [Notice::StoreLost { .. }]), "{effects:?}");
    let mut asked_again = 0;
    for second in 1..100 {
        let effects = bench.until(second * 1_000);
        assert_eq!(notices(&effects), []);
        asked_again += count(&effects, "begin");
        if !bench.pending.is_empty() {
            bench.fail();
        }
    }
    assert!(asked_again > 40, "{asked_again}");
    bench.until(102_000);
    let effects = bench.reply_yes();
    assert_eq!(done(&effects), []);
    assert!(asked(&effects).contains(&Step::Abandon { run: run(), owner: me(), start: 1 }), "{effects:?}");
}

#[test]
fn a_settlement_that_finds_somebody_else_is_watched() {
    let mut bench = Bench::beginning(job("a"));
    bench.reply(vec![answer(Verdict::Superseded)]);
    bench.reply(vec![with(Verdict::Changed, record(&run(), (RunState::Claimed, 0, 7)))]);
    assert_eq!(bench.engine.running(), 0);
    assert!(bench.engine.watches.contains_key(&run()));
}

#[test]
fn a_job_that_is_not_known_any_more_is_registered_before_it_begins() {
    let mut bench = Bench::beginning(job("a"));
    let effects = bench.reply(vec![answer(Verdict::Unregistered)]);
    assert_eq!(asked(&effects).iter().map(Step::name).collect::<Vec<_>>(), ["begin", "register"]);
}
