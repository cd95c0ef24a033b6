//! Runs that people order, and pauses.

use super::answers::answer;
use super::answers::job_record;
use super::answers::mine;
use super::answers::read;
use super::answers::record;
use super::answers::with;
use super::answers::yes;
use super::*;

/// A run of job `a` that was ordered so many milliseconds after the tick.
fn by_hand(ms_after_tick: i64) -> RunKey {
    RunKey::new(name("a"), Tick::manual(TICK * 1000 + ms_after_tick, 0x7f3a))
}

/// Its record, while nobody has it.
fn ordered(run: &RunKey) -> RunRecord {
    let order = record(run, (RunState::Abandoned, 0, 1));
    RunRecord { trigger: "manual".into(), ordered_by: "ada@web".into(), ..order }
}

fn facts_of(run: &RunKey) -> RunFacts {
    RunFacts { trigger: Trigger::Manual, ..facts(run) }
}

fn command(number: u64, runs: &[&RunKey], jobs: &[&str]) -> Presence {
    Presence {
        number,
        runs: runs.iter().map(|run| run.to_string()).collect(),
        some_jobs: jobs.iter().map(ToString::to_string).collect(),
        ..Presence::new(ReplicaId::new("command", "1"), Presence::COMMAND)
    }
}

impl Bench {
    /// The meeting that is due is asked for and answered: these are there.
    fn finds(&mut self, members: Vec<Presence>) -> Vec<Effect> {
        let at = self.now.wall.timestamp_millis();
        let members = members.into_iter().map(Arc::new).collect();
        self.tell(Event::Met { sent: self.now.boot, result: Ok(Gathering { at, members }) })
    }

    /// Hears of an order half a minute before the tick, and looks at it.
    fn hearing(spec: JobSpec) -> (Self, RunKey) {
        let mut bench = Self::ready(&[spec], 10);
        bench.finds(vec![]);
        bench.until_with(-30_000, &mut |step| Some(answers::yes(step)));
        let run = by_hand(-30_100);
        let effects = bench.finds(vec![command(1, &[&run], &[])]);
        assert_eq!(asked(&effects), [Step::Read { run: run.clone() }]);
        (bench, run)
    }
}

#[test]
fn an_ordered_run_is_due_at_once_and_run_by_whoever_claims_it() {
    let (mut bench, run) = Bench::hearing(job("a"));
    let effects = bench.reply(vec![read(ordered(&run))]);
    assert_eq!(notices(&effects), [Notice::RunRequested { facts: facts_of(&run), by: "ada@web".into() }]);
    let [Step::Claim(claim)] = &asked(&effects)[..] else { panic!("{effects:?}") };
    assert_eq!((&claim.run, claim.trigger.as_str(), claim.delay_ms), (&run, "manual", 0));
    let won = RunRecord { runs_for: Some(Tick::from_seconds(7)), ..mine(&run, (RunState::Claimed, 0, 2)) };
    let effects = bench.reply(vec![with(Verdict::Won, won)]);
    assert!(matches!(&asked(&effects)[..], [Step::Begin { .. }]), "{effects:?}");
    let begun = RunRecord { token: 4711, ..mine(&run, (RunState::Begun, 1, 3)) };
    let effects = bench.reply(vec![with(Verdict::Begun, begun)]);
    let [Effect::Start(order)] = &done(&effects)[..] else { panic!("{effects:?}") };
    assert_eq!((order.token, order.trigger, order.scheduled_for), (4711, Trigger::Manual, Tick::from_seconds(7)));
    let effects = bench.tell(Event::Started { run: run.clone(), pid: Some(7) });
    assert!(
        matches!(&notices(&effects)[..], [Notice::RunStarted { facts, .. }] if facts.token == Some(4711)),
        "{effects:?}"
    );
}

#[test]
fn a_lost_race_for_an_order_is_said() {
    let (mut bench, run) = Bench::hearing(job("a"));
    bench.reply(vec![read(ordered(&run))]);
    let effects = bench.reply(vec![answers::held(record(&run, (RunState::Claimed, 0, 2)))]);
    assert_eq!(
        notices(&effects),
        [Notice::RunSkipped {
            facts: facts_of(&run),
            reason: SkipReason::ClaimedByOther,
            holder: Some(other()),
            holder_run: None,
            age: None
        }]
    );
}

#[test]
fn an_order_that_was_taken_before_we_looked_is_said_and_watched() {
    let (mut bench, run) = Bench::hearing(job("a"));
    let taken = RunRecord { ordered_by: "ada@web".into(), ..record(&run, (RunState::Begun, 1, 2)) };
    let effects = bench.reply(vec![read(taken)]);
    let said = notices(&effects);
    assert!(
        matches!(
            &said[..],
            [Notice::RunRequested { .. }, Notice::RunSkipped { reason: SkipReason::ClaimedByOther, .. }]
        ),
        "{said:?}"
    );
    let effects = bench.until_with(-14_000, &mut |step| match step {
        Step::Read { .. } => Some(read(record(&run, (RunState::Begun, 1, 2)))),
        other => Some(answers::yes(other)),
    });
    assert!(asked(&effects).iter().any(|step| matches!(step, Step::Settle { decision: Decision::Lost, .. })));
}

/// An answer about it may be long under way, or a command may name it again: what became of it here was said.
#[test]
fn an_ordered_run_that_was_taken_over_here_is_not_spoken_of_as_a_new_one() {
    let mut bench = Bench::ready(&[job("a")], 10);
    bench.finds(vec![]);
    bench.until_with(-30_000, &mut |step| Some(answers::yes(step)));
    let run = by_hand(-30_100);
    let claimed = RunRecord { ordered_by: "ada@web".into(), ..record(&run, (RunState::Claimed, 0, 2)) };
    bench.engine.watch(bench.now, run.clone(), claimed.clone());
    let effects = bench.until_with(-20_000, &mut |step| match step {
        Step::Read { .. } => Some(read(claimed.clone())),
        Step::Claim(_) => Some(with(Verdict::Won, mine(&run, (RunState::Claimed, 0, 3)))),
        Step::Begin { .. } => Some(with(Verdict::Paused, mine(&run, (RunState::Claimed, 0, 4)))),
        Step::Settle { .. } => Some(with(Verdict::Settled, mine(&run, (RunState::Done, 0, 4)))),
        step => Some(answers::yes(step)),
    });
    assert_eq!((count(&effects, "claim"), count(&effects, "settle")), (1, 1), "{effects:?}");
    bench.finds(vec![command(1, &[&run], &[])]);
    let over = RunRecord { ordered_by: "ada@web".into(), ..mine(&run, (RunState::Done, 0, 4)) };
    let effects = bench.reply(vec![read(over)]);
    assert_eq!(notices(&effects), []);
}

#[test]
fn an_order_that_an_answer_about_its_job_shows_is_due() {
    let mut bench = Bench::claiming(job("a"));
    let run = by_hand(-5);
    let held = Answer { open: vec![ordered(&run)], ..answers::held(record(&super::run(), (RunState::Begun, 1, 2))) };
    let effects = bench.reply(vec![held]);
    assert!(asked(&effects).iter().any(|step| matches!(step, Step::Claim(claim) if claim.run == run)), "{effects:?}");
}

#[test]
fn an_order_that_nobody_began_in_time_is_settled_as_missed() {
    let (mut bench, run) = Bench::hearing(job("a"));
    // It was ordered 0.1 s ago, and may begin 20 s late. Nobody has a place for it, it seems.
    let order = ordered(&run);
    let mut store = |step: &Step| match step {
        Step::Claim(claim) if claim.run == run && claim.takeover.is_none() => Some(answers::held(order.clone())),
        Step::Read { run: read_run } if *read_run == run => Some(read(order.clone())),
        other => Some(answers::yes(other)),
    };
    let effects = bench.until_with(-5_000, &mut store);
    let settled = asked(&effects).into_iter().any(|step| {
        matches!(step, Step::Settle { run: found, decision: Decision::Missed(_), expect: Expect::Own(_), .. } if found == run)
    });
    assert!(settled, "{:#?}", asked(&effects));
    assert!(notices(&effects).iter().any(|notice| matches!(notice, Notice::RunMissed { .. })));
}

#[test]
fn an_order_from_before_what_the_store_remembers_is_not_run() {
    let (mut bench, run) = Bench::hearing(job("a"));
    bench.reply(vec![read(ordered(&run))]);
    let mut effects = bench.reply(vec![with(Verdict::Forgot, ordered(&run))]);
    effects.extend(bench.until_with(-20_000, &mut |step| match step {
        Step::Claim(_) => Some(with(Verdict::Forgot, ordered(&run))),
        Step::Read { .. } => Some(read(ordered(&run))),
        other => Some(answers::yes(other)),
    }));
    let forgotten = Decision::Missed(MissedReason::StoreForgot);
    assert!(
        asked(&effects).iter().any(|step| matches!(step, Step::Settle { decision, .. } if *decision == forgotten)),
        "{:#?}",
        asked(&effects)
    );
}

#[test]
fn a_late_tick_is_not_passed_over_for_an_order_nor_an_order_for_a_tick() {
    let mut bench = Bench::ready(&[job("a")], 10);
    bench.until(0);
    bench.fail();
    let run = by_hand(-5);
    let mut effects = bench.finds(vec![command(1, &[&run], &[])]);
    effects.extend(bench.until_with(3_000, &mut |step| match step {
        Step::Read { run: asked } if *asked == run => Some(read(ordered(&run))),
        other => Some(answers::yes(other)),
    }));
    let claims: Vec<RunKey> = asked(&effects)
        .into_iter()
        .filter_map(|step| if let Step::Claim(claim) = step { Some(claim.run) } else { None })
        .collect();
    assert!(claims.contains(&run) && claims.contains(&super::run()), "{claims:?}");
    assert!(!notices(&effects).iter().any(|notice| matches!(notice, Notice::RunSkipped { .. })), "{effects:?}");
}

fn pause(at: i64) -> Pause {
    Pause { at, ..Pause::new("ada@web", "moving") }
}

/// An answer that says how the job's pauses stand.
fn told(verdict: Verdict, revision: u64, (own, all): (Option<Pause>, Option<Pause>)) -> Answer {
    let job = JobRecord { revision, paused: own, all_paused: all, ..job_record(DECIDED_NOW) };
    Answer { job: Some(job), ..answer(verdict) }
}

const DECIDED_NOW: i64 = answers::DECIDED;
const REGISTERED: Verdict = Verdict::Registered { fresh: false, rescheduled: false };

fn mark(number: u64) -> Presence {
    Presence { number, written_at: 9, ..Presence::pause_of_all("ada@web", "moving") }
}

#[test]
fn a_command_that_names_a_job_has_it_looked_at_and_its_pause_is_said_once() {
    let mut bench = Bench::ready(&[job("a")], 10);
    bench.finds(vec![]);
    let effects = bench.finds(vec![command(1, &[], &["a", "unknown"])]);
    assert!(matches!(&asked(&effects)[..], [Step::Register(_)]), "{effects:?}");
    let effects = bench.reply(vec![told(REGISTERED, 5, (Some(pause(7)), None))]);
    assert_eq!(notices(&effects), [Notice::JobPaused { job: name("a"), pause: pause(7) }]);
    bench.finds(vec![command(2, &[], &["a"])]);
    let effects = bench.reply(vec![told(REGISTERED, 6, (Some(pause(7)), None))]);
    assert_eq!(notices(&effects), []);
    bench.finds(vec![command(3, &[], &["a"])]);
    let effects = bench.reply(vec![told(REGISTERED, 7, (None, None))]);
    assert_eq!(notices(&effects), [Notice::JobResumed { job: name("a") }]);
}

#[test]
fn a_begin_that_is_refused_for_a_pause_is_skipped_so() {
    let mut bench = Bench::beginning(job("a"));
    let effects = bench.reply(vec![with(Verdict::Paused, mine(&run(), (RunState::Claimed, 0, 2)))]);
    assert_eq!(notices(&effects), [skipped(&run(), SkipReason::Paused)]);
    let decision = Decision::Skipped(SkipReason::Paused);
    assert!(matches!(&asked(&effects)[..], [Step::Settle { decision: found, .. }] if *found == decision));
}

#[test]
fn a_record_is_set_right_by_the_mark_that_pauses_all_if_that_was_read_later() {
    let mut bench = Bench::ready(&[job("a")], 10);
    bench.pass(ms(1));
    let effects = bench.finds(vec![mark(1)]);
    assert_eq!(notices(&effects), [Notice::AllPaused { pause: pause(9) }]);
    let wanted = Step::Pause { job: name("a"), all: true, pause: Some(pause(9)), only_if: None };
    assert_eq!(asked(&effects), [wanted]);
    let effects = bench.reply(vec![told(Verdict::Noted, 5, (None, Some(pause(20))))]);
    assert_eq!((notices(&effects), asked(&effects)), (vec![], vec![]));
    // The mark is taken away; the record may have been set by somebody who had not heard of that.
    bench.pass(ms(1));
    let effects = bench.finds(vec![]);
    assert_eq!(notices(&effects), [Notice::AllResumed]);
    assert_eq!(asked(&effects), [Step::Pause { job: name("a"), all: true, pause: None, only_if: Some(20) }]);
}

/// Without that, a replica that had met the others before `resume --all` would pause the job again at its next answer,
/// and one that had met them before `pause --all` would let it go on.
#[test]
fn a_record_that_was_heard_of_after_the_mark_is_left_alone() {
    let mut bench = Bench::ready(&[job("a")], 10);
    bench.pass(ms(1));
    bench.finds(vec![mark(1)]);
    bench.reply(vec![told(Verdict::Noted, 5, (None, Some(pause(20))))]);
    bench.finds(vec![mark(1), command(1, &[], &["a"])]);
    let effects = bench.reply(vec![told(REGISTERED, 6, (None, None))]);
    assert_eq!(asked(&effects), [], "it was resumed since");
    let effects = bench.finds(vec![command(2, &[], &["a"])]);
    assert_eq!(count(&effects, "pause"), 0);
    let effects = bench.reply(vec![told(REGISTERED, 7, (None, Some(pause(30))))]);
    assert_eq!(asked(&effects), [], "it was paused since");
}

#[test]
fn a_job_that_is_new_to_the_store_is_paused_with_all() {
    let mut bench = Bench::start(&[job("a")], 10, -60);
    bench.finds(vec![mark(1)]);
    let fresh = Verdict::Registered { fresh: true, rescheduled: false };
    let effects = bench.reply(vec![told(fresh, 1, (None, None))]);
    assert_eq!(count(&effects, "pause"), 1, "{effects:?}");
}

#[test]
fn the_audit_of_a_paused_job_says_that_it_was_paused() {
    let mut bench = Bench::ready(&[job("a")], 10);
    bench.finds(vec![command(1, &[], &["a"])]);
    let since = Some(pause((TICK - 1) * 1000));
    bench.reply(vec![told(REGISTERED, 5, (since, None))]);
    let effects = bench.until_with(60_000, &mut |step| match step {
        Step::Claim(_) => Some(answer(Verdict::Paused)),
        other => Some(answers::yes(other)),
    });
    assert!(notices(&effects).contains(&skipped(&run(), SkipReason::Paused)), "{:?}", notices(&effects));
    let decision = Decision::Skipped(SkipReason::Paused);
    let settled = asked(&effects).into_iter().filter(|step| matches!(step, Step::Settle { .. }));
    assert!(settled.into_iter().all(|step| matches!(step, Step::Settle { decision: found, .. } if found == decision)));
}

#[test]
fn what_a_command_left_goes_after_a_minute_and_the_mark_that_pauses_all_stays() {
    let mut bench = Bench::ready(&[job("a")], 10);
    let members = || vec![mark(1), command(1, &[], &[])];
    bench.finds(members());
    let mut gone = Vec::new();
    for seconds in [30, 55, 70, 90] {
        let effects = bench.until_with((seconds - 60) * 1000, &mut |step| Some(answers::yes(step)));
        gone = effects
            .iter()
            .fold(gone, |gone, effect| if let Effect::Meet { gone, .. } = effect { gone.clone() } else { gone });
        bench.finds(members());
    }
    assert_eq!(gone.iter().map(|member| member.kind.as_str()).collect::<Vec<_>>(), [Presence::COMMAND]);
}

/// Found with one meeting, since replicas look for orders now and then: as if each had been found when it was made.
#[test]
fn orders_that_are_found_together_run_one_after_the_other() {
    let (mut bench, first) = Bench::hearing(job("a"));
    let second = by_hand(-30_050);
    bench.reply(vec![read(ordered(&first))]);
    bench.finds(vec![command(2, &[&first, &second], &[])]);
    let claims = |effects: &[Effect]| {
        let claim = |step: &Step| matches!(step, Step::Claim(claim) if claim.run == second);
        asked(effects).iter().filter(|step| claim(step)).count()
    };
    let mut store = |step: &Step| match step {
        Step::Read { run } => Some(read(ordered(run))),
        Step::Claim(_) => None,
        step => Some(yes(step)),
    };
    let effects = bench.until_with(-29_000, &mut store);
    assert_eq!(claims(&effects), 0, "while the older one is claimed");
    let effects = bench.until_with(-28_000, &mut |step| match step {
        Step::Begin { .. } => None,
        step => Some(yes(step)),
    });
    assert_eq!(claims(&effects), 0, "while the older one begins");
    let mut effects = bench.reply(vec![with(Verdict::Begun, mine(&first, (RunState::Begun, 1, 3)))]);
    effects.extend(bench.until_with(-27_000, &mut |step| match step {
        Step::Begin { run, .. } if *run == second => None,
        step => Some(yes(step)),
    }));
    assert_eq!(claims(&effects), 1);
    for (began, waits) in [(-29_000, true), (-31_000, false)] {
        let mut bench = bench.clone();
        let begun_at = TICK * 1_000 + began;
        let occupant = RunRecord { begun_at, ..mine(&first, (RunState::Begun, 1, 4)) };
        let busy = Verdict::Busy { occupant: first.scheduled_for, renewed: true };
        let effects = bench.reply(vec![Answer { open: vec![occupant], ..answer(busy) }]);
        let skips = notices(&effects).iter().any(|notice| matches!(notice, Notice::RunSkipped { .. }));
        assert_eq!(skips, !waits, "{effects:#?}");
    }
}
