//! What a winner does that finds its job busy: by policy, by what it finds, by how late it is.

use super::super::runs::Phase;
use super::super::runs::Run;
use super::answers::*;
use super::*;

/// The run that is in the way in most of these: an hour before.
const BEFORE: i64 = -3600;

/// L + the grace of a stop + M of the run in the way: 15 s + 30 s + (1 s + 0.3 s + 10 s).
const STOP_TAKES: i64 = 56_300;

fn with_policy(concurrency_policy: ConcurrencyPolicy) -> JobSpec {
    JobSpec { concurrency_policy, ..job("a") }
}

fn replacing() -> JobSpec {
    with_policy(ConcurrencyPolicy::Replace)
}

fn queueing() -> JobSpec {
    with_policy(ConcurrencyPolicy::Queue)
}

fn wait() -> Step {
    Step::Wait { run: run(), owner: me(), start: 0 }
}

fn ask_stop(seconds: i64) -> Step {
    Step::AskStop { run: run_at(seconds), by: me().to_string(), reason: StopReason::Replace }
}

/// A store's answer to a run that finds others in its way, of which the first is named; whether the run waits in line.
fn busy(open: Vec<RunRecord>, renewed: bool, waits: bool) -> Answer {
    let occupant = open[0].scheduled_for;
    let ours = RunRecord { waiting_since: i64::from(waits), ..mine(&run(), (RunState::Claimed, 0, 2)) };
    Answer { open, run: Some(ours), ..answer(Verdict::Busy { occupant, renewed }) }
}

fn occupant(number: u64) -> RunRecord {
    record(&run_at(BEFORE), (RunState::Begun, 1, number))
}

fn overlap_with(holder: &ReplicaId) -> Notice {
    let (holder, holder_run) = (Some(holder.clone()), Some(run_at(BEFORE).scheduled_for));
    Notice::RunSkipped { facts: facts(&run()), reason: SkipReason::Overlap, holder, holder_run, age: None }
}

/// The engine has that run going, too.
fn going(bench: &mut Bench, key: &RunKey, spec: JobSpec) {
    let spec = Arc::new(spec);
    let now = bench.now.boot;
    let ours = Run {
        phase: Phase::Running,
        has_place: true,
        confirmed: now,
        renew_at: now + secs(5),
        first_start: Some(now),
        ..Run::claimed(&spec, Trigger::Schedule, (1, None))
    };
    bench.engine.runs.insert(key.clone(), ours);
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Found {
    /// It gave a sign of life after our tick.
    Alive,
    /// It did not, yet.
    Silent,
    /// It was called lost, and drains.
    Lost,
    /// It was lost and taken over, and is to begin again.
    TakenOver,
    /// It began while the table allowed overlaps, and lives.
    Beside,
}

impl Found {
    fn record(self) -> (RunRecord, bool) {
        let state = match self {
            Self::Alive | Self::Silent | Self::Beside => RunState::Begun,
            Self::Lost => RunState::Lost,
            Self::TakenOver => RunState::Claimed,
        };
        let record = record(&run_at(BEFORE), (state, 1, 9));
        let renewed = matches!(self, Self::Alive | Self::Beside);
        (RunRecord { exclusive: self != Self::Beside, ..record }, renewed)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Does {
    Skips,
    Waits,
    AsksForItsStop,
}

fn wanted(policy: ConcurrencyPolicy, found: Found, (here, late): (bool, bool)) -> Does {
    let lives = here || matches!(found, Found::Alive | Found::Beside);
    match policy {
        ConcurrencyPolicy::Queue => Does::Waits,
        // A late tick never stops a run that is going.
        ConcurrencyPolicy::Replace if !late => Does::AsksForItsStop,
        _ if lives => Does::Skips,
        _ => Does::Waits,
    }
}

#[test]
fn each_policy_does_its_own_with_whatever_it_finds() {
    use ConcurrencyPolicy::*;
    for policy in [Forbid, Queue, Replace] {
        for found in [Found::Alive, Found::Silent, Found::Lost, Found::TakenOver, Found::Beside] {
            for (here, late) in [(false, false), (true, false), (false, true), (true, true)] {
                let mut bench = Bench::start(&[with_policy(policy)], 0, if late { 8 } else { -60 });
                bench.answer_all(&mut |step| (step.name() == "register").then(|| yes(step)));
                bench.until(if late { 8_000 } else { 0 });
                if here {
                    going(&mut bench, &run_at(BEFORE), with_policy(policy));
                }
                let (record, renewed) = found.record();
                let record = if here { RunRecord { owner: me(), ..record } } else { record };
                let effects = bench.answer_all(&mut |step| match step {
                    Step::Begin { .. } => Some(busy(vec![record.clone()], renewed, policy != Forbid)),
                    Step::Claim(_) => Some(yes(step)),
                    _ => None,
                });
                let steps = asked(&effects);
                let has = |name: &str| steps.iter().any(|step| step.name() == name);
                let did = match (has("settle"), has("ask_stop")) {
                    (true, false) => Does::Skips,
                    (false, true) => Does::AsksForItsStop,
                    (false, false) => Does::Waits,
                    (true, true) => panic!("both: {steps:?}"),
                };
                assert_eq!(did, wanted(policy, found, (here, late)), "{policy:?} {found:?} here {here} late {late}");
                assert!(!bench.engine.runs[&run()].has_place, "what does not begin has no place");
            }
        }
    }
}

#[test]
fn everything_in_the_way_is_asked_to_stop_and_once_is_enough() {
    let mut bench = Bench::beginning(replacing());
    let beside = RunRecord { exclusive: false, ..record(&run_at(-1800), (RunState::Begun, 1, 3)) };
    let done = RunRecord { exclusive: true, ..record(&run_at(-900), (RunState::Claimed, 0, 3)) };
    let open = vec![occupant(9), beside, done];
    let effects = bench.reply(vec![busy(open.clone(), true, true)]);
    let mut stops = asked(&effects);
    stops.sort_by_key(|step| step.run().cloned());
    assert_eq!(stops, [ask_stop(BEFORE), ask_stop(-1800)], "and not what only waits");
    bench.reply_yes();
    bench.until(100);
    let marked = |record: RunRecord| RunRecord { stop_asked: Some(StopReason::Replace), ..record };
    let effects = bench.reply(vec![busy(open.into_iter().map(marked).collect(), true, true)]);
    assert_eq!(asked(&effects), []);
}

#[test]
fn a_successor_waits_as_long_as_a_stop_may_take_after_it_was_asked_for_and_no_longer() {
    let mut bench = Bench::beginning(replacing());
    let asked_at = 19_999; // the last moment: the starting deadline is 20 s
    bench.until(asked_at);
    let mut store = |step: &Step| match step {
        Step::Begin { .. } | Step::Wait { .. } => Some(busy(vec![occupant(9)], true, true)),
        Step::Read { run } => Some(read(record(run, (RunState::Begun, 1, 9)))),
        Step::Settle { decision: Decision::Lost, .. } => None,
        step => Some(yes(step)),
    };
    let effects = bench.until_with(asked_at + STOP_TAKES - 1, &mut store);
    assert_eq!(notices(&effects), []);
    assert!(count(&effects, "wait") > 50, "it shows life");
    let effects = bench.until_with(asked_at + STOP_TAKES, &mut store);
    assert_eq!(notices(&effects), [overlap_with(&other())]);
}

#[test]
fn a_stop_is_not_asked_for_after_the_starting_deadline() {
    let mut bench = Bench::beginning(replacing());
    bench.until(20_000);
    let effects = bench.reply(vec![busy(vec![occupant(9)], true, true)]);
    assert_eq!(notices(&effects), [overlap_with(&other())]);
    assert_eq!(count(&effects, "ask_stop"), 0);
}

#[test]
fn the_successor_begins_when_the_old_run_is_gone_and_not_before() {
    let mut bench = Bench::beginning(replacing());
    bench.reply(vec![busy(vec![occupant(9)], true, true)]);
    bench.reply_yes();
    let stopping = RunRecord { stop_asked: Some(StopReason::Replace), ..occupant(9) };
    for at in [100, 300, 700] {
        assert_eq!(asked(&bench.until(at)), [wait()]);
        assert_eq!(done(&bench.reply(vec![busy(vec![stopping.clone()], true, true)])), []);
    }
    bench.until(1_500);
    let effects = bench.reply(vec![answer(Verdict::Free)]);
    assert_eq!(count(&effects, "begin"), 1);
    assert!(matches!(&done(&bench.reply_yes())[..], [Effect::Start(_)]));
}

#[test]
fn a_waiting_run_that_a_later_one_overtakes_is_superseded() {
    let mut bench = Bench::beginning(replacing());
    bench.reply(vec![busy(vec![occupant(9)], true, true)]);
    bench.reply_yes();
    bench.until(100);
    let effects = bench.reply(vec![answer(Verdict::Superseded)]);
    assert_eq!(notices(&effects), [skipped(&run(), SkipReason::Superseded)]);
}

#[test]
fn one_waits_in_line_until_its_deadline_and_the_next_is_an_overlap() {
    let mut bench = Bench::beginning(queueing());
    assert_eq!(notices(&bench.reply(vec![busy(vec![occupant(9)], true, false)])), [overlap_with(&other())]);
    let mut bench = Bench::beginning(queueing());
    let mut number = 9;
    let mut store = |step: &Step| match step {
        Step::Begin { .. } | Step::Wait { .. } => {
            number += 1; // the run in the way lives
            Some(busy(vec![occupant(number)], true, true))
        }
        Step::Read { run } => Some(read(record(run, (RunState::Begun, 1, 9)))),
        step => Some(yes(step)),
    };
    assert_eq!(notices(&bench.until_with(19_999, &mut store)), []);
    assert_eq!(notices(&bench.until_with(20_000, &mut store)), [overlap_with(&other())]);
}

#[test]
fn an_overlap_says_how_long_the_other_run_has_been_going() {
    let mut bench = Bench::beginning(job("a"));
    let begun_at = (TICK - 90) * 1000;
    let effects = bench.reply(vec![busy(vec![RunRecord { begun_at, ..occupant(9) }], true, false)]);
    let age = |notice: &Notice| matches!(notice, Notice::RunSkipped { age: Some(age), .. } if *age == secs(90));
    assert!(notices(&effects).iter().any(age), "{effects:?}");
}

/// Waits for as long as it takes.
fn patient() -> JobSpec {
    JobSpec { starting_deadline: Some(secs(1_000)), ..queueing() }
}

/// Another job, due five minutes later.
fn later() -> JobSpec {
    JobSpec { schedule: every("7m"), ..job("b") }
}

fn run_of_b() -> RunKey {
    RunKey::new(name("b"), Tick::from_seconds(TICK + 300))
}

#[test]
fn a_tick_that_another_replica_has_settled_as_an_overlap_is_said_to_be_one_of_the_same_run() {
    let mut bench = Bench::claiming(job("a"));
    let (state, outcome, reason) = (RunState::Done, Some(Outcome::Skipped), "overlap".to_owned());
    let settled = RunRecord { state, outcome, reason, ..record(&run(), (RunState::Done, 0, 2)) };
    let mut answer = held(settled);
    let third = ReplicaId::new("third", "1");
    answer.open = vec![RunRecord { owner: third.clone(), ..occupant(9) }];
    answer.job.as_mut().unwrap().slot = Some(run_at(BEFORE).scheduled_for);
    assert_eq!(notices(&bench.reply(vec![answer])), [overlap_with(&third)], "and not of the one who decided it");
}

/// A run of `a` waits for an earlier one, and the only place is that of a run of `b`.
fn waiting_beside_another() -> Bench {
    let mut bench = Bench::ready(&[patient(), later()], 1);
    let mut store = |step: &Step| match step {
        Step::Begin { run, .. } if run.job == name("a") => Some(busy(vec![occupant(9)], true, true)),
        Step::Wait { .. } => Some(busy(vec![occupant(9)], true, true)),
        Step::Read { run } => Some(read(record(run, (RunState::Begun, 1, 9)))),
        step => Some(yes(step)),
    };
    bench.until_with(301_000, &mut store);
    bench
}

#[test]
fn a_run_that_waits_holds_no_place() {
    let bench = waiting_beside_another();
    assert!(!bench.engine.runs[&run()].has_place);
    assert!(bench.engine.runs[&run_of_b()].has_place, "the one place is another's");
    assert_eq!(bench.engine.running(), 1);
}

/// With one replica that has one place, a run could never be replaced if its successor needed a place to be claimed.
#[test]
fn a_tick_whose_job_is_busy_is_claimed_without_a_place() {
    let mut bench = Bench::ready(&[replacing()], 1);
    going(&mut bench, &run_at(BEFORE), replacing());
    bench.until_with(100, &mut |step| (step.name() == "renew").then(|| yes(step))); // a busy replica holds back
    assert!(bench.steps().iter().any(|step| matches!(step, Step::Claim(claim) if claim.take)), "{:?}", bench.pending);
    let effects = bench.answer_all(&mut |step| matches!(step, Step::Claim(_) | Step::Renew { .. }).then(|| yes(step)));
    assert_eq!(asked(&effects).last(), Some(&wait()), "it asks, and begins only with a place");
}

fn skip_reasons(effects: &[Effect]) -> Vec<SkipReason> {
    let reason = |notice| match notice {
        Notice::RunSkipped { reason, .. } => Some(reason),
        _ => None,
    };
    notices(effects).into_iter().filter_map(reason).collect()
}

#[test]
fn a_run_that_could_begin_and_finds_no_place_is_given_back_and_taken_when_there_is_one() {
    let mut bench = waiting_beside_another();
    assert!(bench.engine.runs[&run_of_b()].has_place);
    let given_back = RunRecord { waiting_since: 1, ..mine(&run(), (RunState::Abandoned, 0, 7)) };
    let mut store = |step: &Step| match step {
        Step::Abandon { .. } | Step::Read { .. } => Some(with(Verdict::Released, given_back.clone())),
        Step::Claim(claim) if !claim.take => Some(Answer { run: None, ..with(Verdict::Free, given_back.clone()) }),
        step => Some(yes(step)),
    };
    let effects = bench.until_with(303_000, &mut store);
    assert_eq!(count(&effects, "abandon"), 1);
    assert!(!bench.engine.runs.contains_key(&run()));
    assert_eq!(skip_reasons(&effects), [], "it is pending, here as elsewhere");
    bench.tell(Event::Ended { run: run_of_b(), exit: exit(0) });
    let effects = bench.until_with(304_000, &mut store);
    assert!(matches!(&done(&effects)[..], [Effect::Start(order)] if order.run == run()), "{effects:?}");
}

#[test]
fn a_replica_that_gave_a_run_back_says_who_has_it_then() {
    let mut bench = waiting_beside_another();
    let taken = record(&run(), (RunState::Begun, 1, 9));
    let given_back = mine(&run(), (RunState::Abandoned, 0, 7));
    let mut store = |step: &Step| match step {
        Step::Abandon { .. } => Some(with(Verdict::Released, given_back.clone())),
        Step::Claim(_) => Some(with(Verdict::Held, taken.clone())),
        Step::Read { .. } => Some(read(taken.clone())),
        step => Some(yes(step)),
    };
    let effects = bench.until_with(304_000, &mut store);
    assert_eq!(skip_reasons(&effects), [SkipReason::ClaimedByOther]);
}

#[test]
fn a_dead_successor_that_had_asked_in_time_is_still_begun_and_another_one_is_missed() {
    for (when_busy, waiting_since, begins) in
        [(WhenBusy::Replace, 1, true), (WhenBusy::Replace, 0, false), (WhenBusy::Queue, 1, false)]
    {
        let record = RunRecord { when_busy, waiting_since, ..record(&run(), (RunState::Claimed, 0, 2)) };
        let mut bench = Bench::watching(replacing(), record.clone());
        let mut moving = record.clone();
        let effects = bench.until_with(25_000, &mut |step| match step {
            Step::Read { .. } => {
                moving.number += 1;
                Some(read(moving.clone()))
            }
            Step::Begin { .. } => None,
            step => Some(yes(step)),
        });
        assert_eq!(count(&effects, "claim"), 0, "its owner lives");
        // From here on it does not.
        let effects = bench.until_with(40_000, &mut |step| match step {
            Step::Read { .. } => Some(read(moving.clone())),
            Step::Begin { .. } => None,
            Step::Claim(_) => Some(with(Verdict::Won, RunRecord { owner: me(), ..moving.clone() })),
            step => Some(yes(step)),
        });
        assert_eq!(count(&effects, "begin") == 1, begins, "{when_busy:?} {waiting_since}: {effects:?}");
        assert_eq!(count(&effects, "settle") == 1, !begins, "{when_busy:?} {waiting_since}");
    }
}

#[test]
fn a_run_goes_by_the_terms_of_its_record_and_not_by_a_newer_table() {
    let mut bench = Bench::claiming(allowing("a"));
    let record = RunRecord { exclusive: true, ..mine(&run(), (RunState::Claimed, 1, 1)) };
    bench.reply(vec![with(Verdict::Won, record)]);
    let effects = bench.reply_yes();
    assert!(matches!(&done(&effects)[..], [Effect::Start(order)] if order.guarded), "{effects:?}");
    // Nobody renews it: it holds the slot, so it stops.
    let effects = bench.until(15_000);
    assert!(effects.contains(&Effect::Terminate { run: run() }), "{effects:?}");
}
