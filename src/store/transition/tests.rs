use super::*;
use crate::job::Decision;
use crate::job::Expect;
use crate::job::JobName;
use crate::job::Order;
use crate::job::Pause;
use crate::job::RunKey;
use crate::job::SkipReason;
use crate::job::StopReason;
use crate::job::WhenBusy;
use crate::job::fencing_token;
use crate::store::Records;

/// The store's time in these tests.
const NOW: i64 = 1_772_330_400_000;

fn replica(name: &str) -> ReplicaId {
    ReplicaId::new(name, "1")
}

fn run() -> RunKey {
    RunKey::new(JobName::new("nightly-sales").expect("a label"), Tick::from_seconds(NOW / 1000 - 60))
}

fn registered() -> Records {
    let mut records = Records::default();
    let registration = Registration {
        job: run().job,
        schedule: "* * * * *".into(),
        zone: "UTC".into(),
        spec_hash: String::new(),
        skew_tolerance_ms: -3_600_000,
        keep_ms: 3_600_000,
        history: [9, 9, 9],
        quiet_ms: 40_000,
        passed: None,
        knew: None,
    };
    records.apply(&Step::Register(registration), NOW);
    records
}

fn claim_of(who: &str) -> Claim {
    Claim {
        run: run(),
        owner: replica(who),
        previous: 0,
        delay_ms: 0,
        take: true,
        takeover: None,
        lease_ms: 15_000,
        grace_ms: 10_000,
        takeover_ms: 5_000,
        stop_grace_ms: 30_000,
        exclusive: true,
        when_busy: WhenBusy::Skip,
        rerun: true,
        trigger: "schedule".into(),
        spec_hash: String::new(),
    }
}

fn begin_of(who: &str, start: u32) -> Step {
    Step::Begin { run: run(), owner: replica(who), start, request: who.into() }
}

fn complete_of(who: &str, start: u32) -> Step {
    let (exit_code, signal, error) = (Some(0), None, String::new());
    let ending = Ending {
        outcome: Outcome::Succeeded,
        exit_code,
        signal,
        http_status: None,
        duration_ms: 1,
        error,
        output_tail: String::new(),
    };
    Step::Complete { run: run(), owner: replica(who), start, ending }
}

fn stop_of(reason: StopReason) -> Step {
    Step::AskStop { run: run(), by: "an operator".into(), reason }
}

fn settle_of(expect: Expect, decision: Decision) -> Step {
    Step::Settle { run: run(), owner: replica("auditor"), previous: 0, expect, decision }
}

fn record(records: &Records) -> RunRecord {
    records.runs(&run().job).next().expect("the run has a record").clone()
}

/// Records whose one run is in a state, owned by `web-1`.
fn in_state(state: RunState) -> Records {
    let mut records = registered();
    let mut steps = vec![Step::Claim(claim_of("web-1"))];
    match state {
        RunState::Claimed => {}
        RunState::Abandoned => steps.push(Step::Abandon { run: run(), owner: replica("web-1"), start: 0 }),
        RunState::Begun | RunState::Lost => steps.push(begin_of("web-1", 0)),
        RunState::Done => steps.extend([begin_of("web-1", 0), complete_of("web-1", 1)]),
    }
    for step in steps {
        records.apply(&step, NOW);
    }
    if state == RunState::Lost {
        let seen = record(&records).seen();
        records.apply(&settle_of(Expect::Unchanged(seen), Decision::Lost), NOW);
    }
    assert_eq!(record(&records).state, state);
    records
}

/// The whole machine on one page: what the owner, and what somebody else, is told in each state.
#[test]
fn every_step_has_its_verdict_in_every_state() {
    use RunState::*;
    use Verdict as V;
    let states = [Claimed, Begun, Abandoned, Lost, Done];
    let rows: [(&str, [Verdict; 5]); 15] = [
        ("claim by the owner", [V::Won, V::Held, V::Won, V::Held, V::Done]),
        ("claim by another", [V::Held, V::Held, V::Won, V::Held, V::Done]),
        ("takeover as seen", [V::Won, V::Held, V::Won, V::Won, V::Done]),
        ("begin by the owner", [V::Begun, V::Begun, V::Fenced, V::Fenced, V::Done]),
        ("begin by another", [V::Fenced, V::Fenced, V::Fenced, V::Fenced, V::Done]),
        ("wait by the owner", [V::Free, V::Free, V::Fenced, V::Fenced, V::Done]),
        ("wait by another", [V::Fenced, V::Fenced, V::Fenced, V::Fenced, V::Done]),
        ("stop by another", [V::Asked, V::Asked, V::Asked, V::Asked, V::Done]),
        ("renew by the owner", [V::Renewed, V::Renewed, V::Fenced, V::Lost, V::Done]),
        ("renew by another", [V::Fenced, V::Fenced, V::Fenced, V::Fenced, V::Done]),
        ("complete by the owner", [V::Fenced, V::Recorded, V::Fenced, V::RecordedLate, V::Recorded]),
        ("complete by another", [V::Fenced; 5]),
        ("abandon by the owner", [V::Released, V::Released, V::Released, V::Released, V::Done]),
        ("lost as seen", [V::Changed, V::Settled, V::Changed, V::Changed, V::Changed]),
        ("drained as seen", [V::Changed, V::Changed, V::Changed, V::Settled, V::Changed]),
    ];
    for (what, wanted) in rows {
        for (state, wanted) in states.into_iter().zip(wanted) {
            let mut records = in_state(state);
            let found = record(&records);
            let (who, start) = (if what.ends_with("another") { "web-2" } else { "web-1" }, found.start);
            let owner = replica(who);
            let step = match what.split(' ').next().expect("a word") {
                "claim" => Step::Claim(claim_of(who)),
                "takeover" => Step::Claim(Claim { takeover: Some(found.seen()), ..claim_of("web-2") }),
                "begin" => begin_of(who, start),
                "wait" => Step::Wait { run: run(), owner, start },
                "stop" => stop_of(StopReason::Cancel),
                "renew" => Step::Renew { run: run(), owner, start },
                "complete" => complete_of(who, start),
                "abandon" => Step::Abandon { run: run(), owner, start },
                "lost" => settle_of(Expect::Unchanged(found.seen()), Decision::Lost),
                _ => settle_of(Expect::Unchanged(found.seen()), Decision::Drained),
            };
            assert_eq!(records.apply(&step, NOW).verdict, wanted, "{what} of a run that is {state:?}");
        }
    }
}

/// All orders in which two owners, one taken over by the other, can send their begin; how often the run starts at
/// most. Without the fence, a begin takes the run as it finds it.
fn most_starts(is_fenced: bool) -> u32 {
    let orders = [["takeover", "first", "second"], ["takeover", "second", "first"], ["first", "takeover", "second"]];
    let starts = orders.map(|order| {
        let mut records = in_state(RunState::Claimed);
        let seen = record(&records).seen();
        let mut begun = 0;
        for who in order {
            let mut step = match who {
                "takeover" => Step::Claim(Claim { takeover: Some(seen.clone()), ..claim_of("web-2") }),
                "first" => begin_of("web-1", 0),
                _ => begin_of("web-2", 0),
            };
            if let (false, Step::Begin { owner, start, .. }) = (is_fenced, &mut step) {
                let found = record(&records);
                (*owner, *start) = (found.owner, found.start);
            }
            begun += u32::from(records.apply(&step, NOW).verdict == Verdict::Begun);
        }
        begun
    });
    starts.into_iter().max().expect("there are orders")
}

#[test]
fn of_two_owners_one_begins() {
    assert_eq!(most_starts(true), 1);
}

#[test]
fn without_the_fence_check_two_owners_begin() {
    assert_eq!(most_starts(false), 2);
}

/// A watcher that did not compare would take a run from an owner that is alive.
#[test]
fn without_the_comparison_a_living_run_is_called_lost() {
    let mut records = in_state(RunState::Begun);
    let seen = record(&records).seen();
    records.apply(&Step::Renew { run: run(), owner: replica("web-1"), start: 1 }, NOW);
    let lost = |seen| settle_of(Expect::Unchanged(seen), Decision::Lost);
    assert_eq!(records.apply(&lost(seen), NOW).verdict, Verdict::Changed);
    let careless = record(&records).seen();
    assert_eq!(records.apply(&lost(careless), NOW).verdict, Verdict::Settled);
}

/// What each state becomes once a stop was asked for: nothing begins any more, by nobody.
#[test]
fn a_run_whose_stop_was_asked_for_neither_begins_nor_is_started_again() {
    for state in [RunState::Claimed, RunState::Abandoned, RunState::Begun, RunState::Lost] {
        let mut records = in_state(state);
        let seen = record(&records).seen();
        assert_eq!(records.apply(&stop_of(StopReason::Replace), NOW).verdict, Verdict::Asked);
        assert_eq!(record(&records).seen(), seen, "it is no sign of the owner's life");
        let taken = records.apply(&Step::Claim(Claim { takeover: Some(seen), ..claim_of("web-2") }), NOW).verdict;
        assert_eq!(taken == Verdict::Won, matches!(state, RunState::Claimed | RunState::Abandoned), "{state:?}");
        let RunRecord { owner, start, .. } = record(&records);
        let again = Step::Begin { run: run(), owner, start, request: "again".into() };
        let wanted = if state == RunState::Lost { Verdict::Fenced } else { Verdict::StopAsked };
        assert_eq!(records.apply(&again, NOW).verdict, wanted, "{state:?}");
    }
}

/// Without the look at it, `lostRunPolicy: Rerun` brings back what `Replace` or an operator stopped.
#[test]
fn without_the_mark_a_lost_run_is_started_again() {
    let mut records = in_state(RunState::Lost);
    assert!(record(&records).may_run_again());
    records.apply(&stop_of(StopReason::Replace), NOW);
    assert!(!record(&records).may_run_again());
    let seen = record(&records).seen();
    assert_eq!(records.apply(&settle_of(Expect::Unchanged(seen), Decision::Drained), NOW).verdict, Verdict::Settled);
    assert_eq!(record(&records).outcome, Some(Outcome::Lost));
}

#[test]
fn the_first_who_asks_for_a_stop_is_remembered_and_asking_again_changes_nothing() {
    let mut records = in_state(RunState::Begun);
    records.apply(&stop_of(StopReason::Replace), NOW);
    let before = (record(&records), records.job(&run().job).cloned());
    let again = Step::AskStop { run: run(), by: "another".into(), reason: StopReason::Cancel };
    assert_eq!(records.apply(&again, NOW).verdict, Verdict::Asked);
    assert_eq!((record(&records), records.job(&run().job).cloned()), before);
    assert_eq!((before.0.stop_asked, before.0.stop_asked_by.as_str()), (Some(StopReason::Replace), "an operator"));
}

/// The floor is what a dropped record leaves behind.
#[test]
fn without_the_floor_and_decided_through_a_dropped_run_runs_again() {
    let later = NOW + 2 * 3_600_000;
    let mut records = in_state(RunState::Done);
    let mut next = claim_of("web-1");
    next.run.scheduled_for = Tick::from_seconds(later / 1000);
    assert_eq!(records.apply(&Step::Claim(next), later).verdict, Verdict::Won);
    assert!(records.runs(&run().job).all(|record| record.scheduled_for != run().scheduled_for), "it is dropped");
    assert_eq!(records.apply(&Step::Claim(claim_of("web-2")), later).verdict, Verdict::TooOld);
    let mut job = records.job(&run().job).expect("registered").clone();
    assert_eq!(job.floor, run().scheduled_for.seconds());
    (job.floor, job.decided_through) = (0, 0);
    let mut picture = Picture { job: Some(job), ..Picture::default() };
    let verdict = || apply(&mut picture.clone(), &Step::Claim(claim_of("web-2")), later).0.verdict;
    assert_eq!(verdict(), Verdict::Forgot, "the latest one that began is known without its record");
    picture.job.as_mut().expect("it is there").last_begun = 0;
    assert_eq!(apply(&mut picture, &Step::Claim(claim_of("web-2")), later).0.verdict, Verdict::Won);
}

/// A claim of a tick that lies ahead could be won by a fast clock hours before its time.
#[test]
fn a_tick_is_claimed_from_a_quarter_second_before_its_time() {
    let tick = run().scheduled_for.millis();
    for (ahead, wanted) in
        [(251, Verdict::TooEarly { by_ms: 1 }), (250, Verdict::Won), (0, Verdict::Won), (-1, Verdict::Won)]
    {
        assert_eq!(registered().apply(&Step::Claim(claim_of("web-1")), tick - ahead).verdict, wanted);
    }
}

#[test]
fn too_early_comes_before_everything_else_that_could_be_said_of_an_absent_run() {
    let mut records = registered();
    let mut claim = claim_of("web-1");
    claim.run.scheduled_for = Tick::from_seconds(NOW / 1000 + 60);
    let mut job = records.job(&run().job).expect("registered").clone();
    let tick = claim.run.scheduled_for;
    (job.since, job.floor, job.paused) = (tick.millis(), tick.seconds(), Some(Pause::new("somebody", "")));
    let mut picture = Picture { job: Some(job), ..Picture::default() };
    let mut verdict_at = |now| apply(&mut picture, &Step::Claim(claim.clone()), now).0.verdict;
    assert!(matches!(verdict_at(NOW), Verdict::TooEarly { .. }));
    assert_eq!(verdict_at(NOW + 60_000), Verdict::Forgot);
    picture.job.as_mut().expect("it is there").since = 0;
    let mut verdict_at = |now| apply(&mut picture, &Step::Claim(claim.clone()), now).0.verdict;
    assert_eq!(verdict_at(NOW + 60_000), Verdict::TooOld);
    let job = picture.job.as_mut().expect("it is there");
    (job.floor, job.decided_through) = (0, 0);
    assert_eq!(apply(&mut picture, &Step::Claim(claim), NOW + 60_000).0.verdict, Verdict::Paused);
    assert_eq!(records.apply(&Step::Read { run: run() }, NOW).run, None);
}

#[test]
fn a_step_drops_at_most_two_records_however_many_it_is_shown() {
    let records = in_state(RunState::Claimed);
    let mut job = records.job(&run().job).expect("registered").clone();
    (job.keep_ms, job.decided_through) = (0, NOW / 1000);
    let oldest: Vec<Tick> = (1..=5).map(|n| Tick::from_seconds(NOW / 1000 - 7200 + n)).collect();
    let run_record = record(&records);
    let mut picture = Picture {
        job: Some(job),
        run: Some(run_record.clone()),
        open: vec![run_record],
        oldest: oldest.clone(),
        ..Picture::default()
    };
    let (_, changes) = apply(&mut picture, &begin_of("web-1", 0), NOW);
    assert_eq!(changes.dropped, oldest[..2]);
    assert_eq!(picture.job.expect("it is there").floor, oldest[1].seconds());
}

#[test]
fn a_resent_settlement_is_known_by_its_author_and_its_words() {
    let mut records = registered();
    let skipped = Decision::Skipped(SkipReason::Overlap);
    let absent = || Expect::Absent { after_ms: 0 };
    for wanted in [Verdict::Settled, Verdict::Settled] {
        assert_eq!(records.apply(&settle_of(absent(), skipped), NOW).verdict, wanted);
    }
    let other = Decision::Skipped(SkipReason::Late);
    assert_eq!(records.apply(&settle_of(absent(), other), NOW).verdict, Verdict::Changed);
}

/// A manual run, ordered so many milliseconds before now.
fn manual(before_ms: i64) -> RunKey {
    RunKey::new(run().job, Tick::manual(NOW - before_ms, 0x7f3a))
}

fn order_of(run: RunKey) -> Order {
    let (key, runs_for, despite_pause) = (String::new(), None, false);
    Order { run, owner: replica("cli"), by: "ada@web".into(), key, runs_for, despite_pause }
}

fn pause_of(all: bool, pause: Option<Pause>) -> Step {
    Step::Pause { job: run().job, all, pause, only_if: None }
}

/// Records with a manual run that was ordered, taken by `web-1` and begun; and what its begin was answered.
fn begun_by_hand(records: &mut Records, run: &RunKey) -> Answer {
    assert_eq!(records.apply(&Step::Order(order_of(run.clone())), NOW).verdict, Verdict::Ordered);
    let claim = Claim { run: run.clone(), ..claim_of("web-1") };
    assert_eq!(records.apply(&Step::Claim(claim), NOW).verdict, Verdict::Won);
    let begin = Step::Begin { run: run.clone(), owner: replica("web-1"), start: 0, request: "1".into() };
    records.apply(&begin, NOW)
}

#[test]
fn a_manual_run_raises_no_mark_of_the_ticks_and_its_token_is_the_highest() {
    let mut records = in_state(RunState::Done);
    let before = records.job(&run().job).unwrap().clone();
    let answer = begun_by_hand(&mut records, &manual(3));
    let (job, begun) = (answer.job.unwrap(), answer.run.unwrap());
    assert_eq!(answer.verdict, Verdict::Begun);
    let marks = |job: &JobRecord| (job.decided_through, job.floor, job.last_begun);
    assert_eq!(marks(&job), marks(&before));
    assert_eq!((job.slot, job.open), (Some(manual(3).scheduled_for), vec![manual(3).scheduled_for]));
    let tick = run().scheduled_for;
    assert!(begun.token > fencing_token(tick, u32::MAX), "above all tokens of what began");
    let later = Tick::from_seconds(tick.seconds() + 1);
    assert!(begun.token < fencing_token(later, 1), "below those of what will: {}", begun.token);
    assert_eq!(begun.token & (1 << 19), 1 << 19);
}

#[test]
fn no_two_begins_by_hand_share_a_token() {
    let mut records = in_state(RunState::Done);
    let mut tokens = Vec::new();
    for before_ms in [9, 6, 3] {
        let run = manual(before_ms);
        tokens.push(begun_by_hand(&mut records, &run).run.unwrap().token);
        let again = Step::Begin { run: run.clone(), owner: replica("web-1"), start: 1, request: "2".into() };
        tokens.push(records.apply(&again, NOW).run.unwrap().token);
        let Step::Complete { owner, ending, .. } = complete_of("web-1", 2) else { unreachable!() };
        records.apply(&Step::Complete { run, owner, start: 2, ending }, NOW);
    }
    assert!(tokens.is_sorted_by(|one, next| one < next), "{tokens:?}");
}

/// A tick that came before a manual run began, and begins after it, is not superseded: nothing of the schedule is lost.
#[test]
fn a_manual_run_supersedes_no_tick_that_has_not_begun_and_none_supersedes_it() {
    let mut records = registered();
    let claimed = |records: &mut Records, run: RunKey| {
        records.apply(&Step::Claim(Claim { run, exclusive: false, ..claim_of("web-1") }), NOW);
    };
    let begun = |records: &mut Records, run: RunKey| {
        let begin = Step::Begin { run, owner: replica("web-1"), start: 0, request: "1".into() };
        records.apply(&begin, NOW).verdict
    };
    let (early, late) = (manual(120_000), manual(30_000));
    for run in [&early, &late] {
        records.apply(&Step::Order(order_of(run.clone())), NOW);
        claimed(&mut records, run.clone());
    }
    claimed(&mut records, run());
    for run in [late, run(), early] {
        assert_eq!(begun(&mut records, run), Verdict::Begun);
    }
}

#[test]
fn only_an_order_makes_a_manual_run_and_none_is_claimed_after_its_record_went() {
    let mut records = registered();
    let claim = Claim { run: manual(3), ..claim_of("web-1") };
    assert_eq!(records.apply(&Step::Claim(claim), NOW).verdict, Verdict::Gone);
    let settle = Step::Settle {
        run: manual(3),
        owner: replica("web-1"),
        previous: 0,
        expect: Expect::Absent { after_ms: 0 },
        decision: Decision::Missed(crate::job::MissedReason::NoReplica),
    };
    assert_eq!(records.apply(&settle, NOW).verdict, Verdict::Changed);
    assert_eq!(records.apply(&Step::Order(order_of(run())), NOW).verdict, Verdict::Forgot, "no order makes a tick");
}

#[test]
fn a_pause_keeps_what_was_claimed_from_beginning_and_not_what_has_begun() {
    for (state, wanted) in [(RunState::Claimed, Verdict::Paused), (RunState::Begun, Verdict::Begun)] {
        for all in [false, true] {
            let mut records = in_state(state);
            records.apply(&pause_of(all, Some(Pause::new("ada@web", ""))), NOW);
            let start = record(&records).start;
            let again = Step::Begin { run: run(), owner: replica("web-1"), start, request: "again".into() };
            assert_eq!(records.apply(&again, NOW).verdict, wanted, "{state:?}");
            assert_eq!(records.apply(&Step::Order(order_of(manual(3))), NOW).verdict, Verdict::Paused);
            let despite = Order { despite_pause: true, ..order_of(manual(3)) };
            assert_eq!(records.apply(&Step::Order(despite), NOW).verdict, Verdict::Ordered);
        }
    }
}

#[test]
fn the_pause_of_one_job_and_that_of_all_end_apart() {
    let mut records = registered();
    for all in [false, true] {
        records.apply(&pause_of(all, Some(Pause::new("ada@web", "why"))), NOW);
    }
    records.apply(&pause_of(true, None), NOW);
    let job = records.job(&run().job).unwrap().clone();
    assert_eq!((job.all_paused, job.paused), (None, Some(Pause { at: NOW, ..Pause::new("ada@web", "why") })));
    let stale = Step::Pause { job: run().job, all: false, pause: None, only_if: Some(NOW - 1) };
    records.apply(&stale, NOW);
    assert!(records.job(&run().job).unwrap().pause().is_some(), "it is another pause");
}
