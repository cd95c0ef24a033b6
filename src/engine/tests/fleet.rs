//! Members that meet: where they say to look, and how they differ.

use super::answers::*;
use super::*;
use crate::engine::About;
use crate::engine::Disagreement;
use crate::job::PAST_MOST;
use crate::job::TABLES_MOST;
use crate::job::TableTerm;

const BEGUN: (RunState, u32, u64) = (RunState::Begun, 1, 2);

fn member(number: u64) -> Presence {
    let about = About::this_program();
    Presence {
        number,
        version: about.version,
        zone_data: about.zone_data,
        revision: "1".into(),
        jobs: 1,
        some_jobs: vec!["a".into()].into(),
        lease_ms: 15_000,
        ..Presence::new(other(), Presence::REPLICA)
    }
}

/// A run of a job that is in no table here.
fn stray() -> RunKey {
    run_of("stray")
}

impl Bench {
    /// The members that were found; the store's clock is ours.
    fn meet(&mut self, members: &[Presence]) -> Vec<Effect> {
        let gathering = Gathering {
            at: self.now.wall.timestamp_millis(),
            members: members.iter().cloned().map(Arc::new).collect(),
        };
        self.tell(Event::Met { sent: self.now.boot, result: Ok(gathering) })
    }

    /// Lets time pass until the next meeting, and does not hold it.
    fn until_it_meets(&mut self) -> (Presence, Vec<Presence>) {
        for _ in 0..1000 {
            let wait = self.wakes_in().expect("it meets again");
            self.pass(wait);
            let effects = self.tell(Event::Woke);
            self.answer_all(&mut |step| Some(yes(step)));
            if let Some(meeting) = meeting(&effects) {
                return meeting;
            }
        }
        panic!("it never meets");
    }

    /// The same, and these are there.
    fn meets(&mut self, members: &[Presence]) -> Vec<Effect> {
        self.until_it_meets();
        self.meet(members)
    }
}

fn meeting(effects: &[Effect]) -> Option<(Presence, Vec<Presence>)> {
    effects.iter().find_map(|effect| match effect {
        Effect::Meet { mine, gone } => Some(((**mine).clone(), gone.clone())),
        _ => None,
    })
}

fn surveys(effects: &[Effect]) -> usize {
    effects.iter().filter(|effect| matches!(effect, Effect::Survey)).count()
}

fn reads(effects: &[Effect]) -> Vec<RunKey> {
    let read = |step: Step| match step {
        Step::Read { run } => Some(run),
        _ => None,
    };
    asked(effects).into_iter().filter_map(read).collect()
}

fn tables(effects: &[Effect]) -> Vec<Notice> {
    let about = |notice: &Notice| matches!(notice, Notice::TableDisagrees(_) | Notice::TableAgrees { .. });
    notices(effects).into_iter().filter(about).collect()
}

fn disagreement(effects: &[Effect]) -> Disagreement {
    match &tables(effects)[..] {
        [Notice::TableDisagrees(found)] => (**found).clone(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_replica_says_who_it_is_and_which_runs_it_has() {
    let mut bench = Bench::running(job("a"));
    bench.meet(&[]);
    let (mine, gone) = bench.until_it_meets();
    let up_ms = u64::try_from(bench.clock() + 60_000).unwrap();
    let runs = vec![run().to_string()];
    let tables = vec![TableTerm { revision: member(2).revision, jobs: 1, since_ms: up_ms }];
    assert_eq!(mine, Presence { name: me(), offset_ms: Some(0), up_ms, runs, tables, ..member(2) });
    assert_eq!(gone, []);
    assert!((14_500..=15_000).contains(&bench.clock()), "every 15 s: {}", bench.clock());
}

#[test]
fn a_meeting_is_not_held_twice_at_once_and_one_that_failed_is_tried_again() {
    let mut bench = Bench::ready(&[job("a")], 10);
    let effects = bench.until(-1_000);
    assert_eq!(meeting(&effects), None, "the first has no answer yet");
    let effects = bench.tell(Event::Met { sent: bench.now.boot, result: Err(no_answer()) });
    assert_eq!(count(&effects, "register"), 1, "whether the store is away is found out by a step");
    bench.until_it_meets();
    assert_eq!(bench.clock(), 2_000);
}

#[test]
fn meetings_that_fail_while_the_store_answers_are_said_once() {
    let mut bench = Bench::ready(&[job("a")], 10);
    let mut said = Vec::new();
    for _ in 0..6 {
        said.extend(notices(&bench.tell(Event::Met { sent: bench.now.boot, result: Err(no_answer()) })));
        bench.until_it_meets();
    }
    assert_eq!(said, [Notice::MeetingFails { detail: "no answer".into() }]);
}

#[test]
fn a_run_that_a_member_names_is_read_and_watched_although_its_job_is_in_no_table() {
    let mut bench = Bench::ready(&[job("a")], 10);
    let runs = vec![stray().to_string(), "what@ever".into(), run().to_string()];
    let effects = bench.meet(&[Presence { runs, kind: "some-tool".into(), ..member(1) }]);
    let mut found = reads(&effects);
    found.sort();
    assert_eq!(found, [run(), stray()]);
    let open = |step: &Step| match step {
        Step::Read { run } if *run == stray() => Some(read(record(&stray(), BEGUN))),
        step => Some(yes(step)),
    };
    let effects = bench.until_with(-60_000 + 15_100, &mut { open });
    let seen = record(&stray(), BEGUN).seen();
    let lost = Step::Settle {
        run: stray(),
        owner: me(),
        previous: i64::MAX,
        expect: Expect::Unchanged(seen),
        decision: Decision::Lost,
    };
    assert!(asked(&effects).contains(&lost), "{effects:?}");
    assert!(notices(&effects).contains(&Notice::RunLost { facts: facts(&stray()), holder: other(), rerun: false }));
}

#[test]
fn a_presence_that_stays_unchanged_for_its_lease_has_its_runs_looked_at_once_more() {
    let mut bench = Bench::ready(&[job("a")], 10);
    let named = Presence { runs: vec![stray().to_string()], ..member(1) };
    assert_eq!(reads(&bench.meet(std::slice::from_ref(&named))), [stray()]);
    bench.reply(vec![answer(Verdict::Read)]);
    assert_eq!(reads(&bench.meets(std::slice::from_ref(&named))), [], "not yet a lease");
    assert_eq!(reads(&bench.meets(std::slice::from_ref(&named))), [stray()]);
    bench.reply(vec![answer(Verdict::Read)]);
    assert_eq!(reads(&bench.meets(std::slice::from_ref(&named))), []);
    let renewed = Presence { number: 2, ..named };
    assert_eq!(reads(&bench.meets(&[renewed])), [stray()]);
    bench.reply(vec![answer(Verdict::Read)]);
    assert_eq!(reads(&bench.meets(&[])), [stray()], "who left may have left it");
}

#[test]
fn all_jobs_are_read_at_the_start_after_an_outage_and_when_a_member_has_vanished() {
    let mut bench = Bench::start(&[job("a")], 10, -60);
    assert_eq!(surveys(&bench.reply_yes()), 1, "at the start");
    let open = vec![Tick::from_seconds(TICK)];
    let jobs = vec![(name("stray"), JobRecord { open, ..job_record(TICK) })];
    assert_eq!(reads(&bench.tell(Event::Surveyed { result: Ok(jobs) })), [stray()]);
    bench.reply(vec![answer(Verdict::Read)]);
    bench.meet(&[member(1)]);
    bench.meets(&[member(2)]);
    let mut after = Vec::new();
    for _ in 0..5 {
        after.push(surveys(&bench.meets(&[member(2)])));
    }
    assert_eq!(after, [0, 0, 0, 1, 0], "after 45 s without it");
    assert_eq!(surveys(&bench.tell(Event::Surveyed { result: Err(no_answer()) })), 1, "until it succeeds");
    bench.tell(Event::Surveyed { result: Ok(Vec::new()) });
    let mut bench = Bench::claiming(job("a"));
    bench.meet(&[]);
    bench.tell(Event::Surveyed { result: Ok(Vec::new()) });
    bench.fail();
    bench.until(500);
    let effects = bench.reply_yes();
    assert_eq!((surveys(&effects), meeting(&effects).is_some()), (1, true), "after an outage: {effects:?}");
}

/// It may have given a tick back after it had last said what it has, of a job that is in no other table.
#[test]
fn all_jobs_are_read_when_a_replica_has_left() {
    let mut bench = Bench::ready(&[job("a")], 10);
    bench.tell(Event::Surveyed { result: Ok(Vec::new()) });
    let person = Presence { number: 1, ..Presence::new(ReplicaId::new("ada", "1"), Presence::COMMAND) };
    assert_eq!(surveys(&bench.meet(&[member(1), person])), 0);
    assert_eq!(surveys(&bench.meets(&[member(2)])), 0, "a command is over");
    let effects = bench.meets(&[]);
    assert_eq!(surveys(&effects), 1);
    let open = vec![stray().scheduled_for];
    let jobs = vec![(stray().job, JobRecord { open, ..job_record(TICK) })];
    assert_eq!(reads(&bench.tell(Event::Surveyed { result: Ok(jobs) })), [stray()]);
}

/// It came, began a run and died before it said so.
#[test]
fn a_member_that_was_seen_once_is_missed_as_well() {
    let mut bench = Bench::ready(&[job("a")], 10);
    bench.meet(&[]);
    bench.tell(Event::Surveyed { result: Ok(Vec::new()) });
    bench.meets(&[member(1)]);
    let after: Vec<usize> = (0..5).map(|_| surveys(&bench.meets(&[member(1)]))).collect();
    assert_eq!(after, [0, 0, 0, 1, 0]);
}

#[test]
fn a_run_of_a_job_that_is_in_no_table_ends_where_nobody_goes_on_with_it() {
    let rerunnable = RunRecord { rerun: true, ..record(&stray(), (RunState::Lost, 1, 2)) };
    let given_back = record(&stray(), (RunState::Abandoned, 0, 2));
    for (record, window, decision) in [
        (rerunnable, 21_300, Decision::Drained),
        (given_back, 0, Decision::Missed(MissedReason::NoReplica)),
        (record(&stray(), (RunState::Claimed, 0, 1)), 5_000, Decision::Missed(MissedReason::NoReplica)),
    ] {
        let mut bench = Bench::ready(&[job("a")], 10);
        bench.meet(&[Presence { runs: vec![stray().to_string()], ..member(1) }]);
        let mut stands = |step: &Step| match step {
            Step::Read { run } if *run == stray() => Some(read(record.clone())),
            Step::Settle { run, .. } if *run == stray() => None,
            step => Some(yes(step)),
        };
        let of_stray = |effects: &[Effect]| -> Vec<Step> {
            asked(effects).into_iter().filter(|step| step.name() == "settle" && *step.job() == name("stray")).collect()
        };
        let ripe = -60_000 + window + 600_000;
        let effects = bench.until_with(ripe - 1, &mut stands);
        assert_eq!(of_stray(&effects), [], "whoever has the job in its table comes first");
        assert!(reads(&effects).len() < 250, "it is not asked all the time: {}", reads(&effects).len());
        let settled = of_stray(&bench.until_with(ripe + 4_000, &mut stands));
        let expect = Expect::Unchanged(record.seen());
        assert_eq!(settled, [Step::Settle { run: stray(), owner: me(), previous: i64::MAX, expect, decision }]);
    }
}

/// Who looks for what was in force at an instant finds it there.
#[test]
fn a_presence_names_the_last_tables_and_since_when_it_had_them() {
    let mut bench = Bench::ready(&[job("a")], 10);
    for n in 1..=5 {
        bench.meet(&[]);
        bench.pass(ms(1_000));
        let jobs = vec![Arc::new(job("a")), Arc::new(job("b"))];
        let next =
            JobTable { jobs, scheduler: SchedulerSpec::default(), revision: n.to_string(), ..JobTable::default() };
        let effects = bench.tell(Event::TableChanged(Arc::new(next)));
        let (mine, _) = meeting(&effects).expect("the others are told at once");
        assert_eq!((&mine.tables[0].revision, mine.tables[0].since_ms, mine.tables[0].jobs), (&n.to_string(), 0, 2));
        assert_eq!(mine.tables.len(), TABLES_MOST.min(n + 1));
        assert_eq!(mine.tables[1].since_ms, if n == 1 { mine.up_ms } else { 1_000 });
    }
}

#[test]
fn a_replica_that_has_drained_leaves_word_of_what_it_was() {
    let mut bench = Bench::ready(&[job("a")], 10);
    bench.meet(&[]);
    let (mine, _) = bench.until_it_meets();
    let farewell = bench.engine.farewell(bench.now);
    assert_eq!(farewell, Presence { kind: Presence::LEFT.into(), number: 3, ..mine });
}

#[test]
fn all_jobs_are_read_when_a_replica_has_said_farewell() {
    let mut bench = Bench::ready(&[job("a")], 10);
    bench.tell(Event::Surveyed { result: Ok(Vec::new()) });
    let named = Presence { runs: vec![stray().to_string()], ..member(1) };
    bench.meet(std::slice::from_ref(&named));
    bench.reply(vec![answer(Verdict::Read)]);
    let left = Presence { kind: Presence::LEFT.into(), number: 2, runs: Vec::new(), ..named };
    let effects = bench.meets(std::slice::from_ref(&left));
    assert_eq!((surveys(&effects), reads(&effects)), (1, vec![stray()]), "what it had is looked at");
    bench.tell(Event::Surveyed { result: Ok(Vec::new()) });
    bench.reply(vec![answer(Verdict::Read)]);
    let after: Vec<usize> = (0..5).map(|_| surveys(&bench.meets(std::slice::from_ref(&left)))).collect();
    assert_eq!(after, [0; 5], "it is not missed");
}

#[test]
fn the_last_replicas_that_are_gone_are_kept_and_those_before_them_removed() {
    let mut bench = Bench::ready(&[job("a")], 10);
    let left = |n: usize| Presence {
        name: ReplicaId::new("left", &n.to_string()),
        written_at: i64::try_from(n).unwrap(),
        ..Presence::new(me(), Presence::LEFT)
    };
    let died = Presence { name: ReplicaId::new("died", "1"), ..member(1) };
    let all: Vec<Presence> = std::iter::once(died.clone()).chain((1..=PAST_MOST + 2).map(left)).collect();
    bench.meet(&all);
    assert_eq!(bench.until_it_meets().1, [left(2), left(1)], "who is silent may be there");
    bench.meet(&all);
    bench.pass(ms(3_600_000));
    assert_eq!(bench.until_it_meets().1, [left(2), left(1), died], "by when they were there last");
}

#[test]
fn a_presence_of_an_unknown_kind_that_nobody_renews_is_removed_after_an_hour() {
    let mut bench = Bench::ready(&[job("a")], 10);
    let old = Presence { kind: "some-tool".into(), ..member(1) };
    bench.meet(std::slice::from_ref(&old));
    let mut meetings = 0;
    loop {
        let (_, gone) = bench.until_it_meets();
        let silent = bench.clock() + 60_000;
        assert_eq!(gone.is_empty(), silent < 3_600_000, "at {silent}");
        if let [gone] = &gone[..] {
            assert_eq!(*gone, old);
            assert!(meetings > 200);
            return;
        }
        bench.meet(std::slice::from_ref(&old));
        meetings += 1;
    }
}

/// A member that was seen to live, and has another table.
fn disagreeing() -> (Bench, Presence, Vec<Effect>) {
    let mut bench = Bench::ready(&[job("a")], 10);
    let odd = |number| Presence { revision: "2".into(), ..member(number) };
    assert_eq!(tables(&bench.meet(&[odd(1)])), [], "it may be long dead");
    let effects = bench.meets(&[odd(2)]);
    (bench, odd(2), effects)
}

#[test]
fn another_table_is_said_when_it_is_seen_and_when_it_lasts_and_when_it_is_over() {
    let (mut bench, mut odd, effects) = disagreeing();
    let found = disagreement(&effects);
    assert_eq!((found.revision.as_str(), &found.others[..], &found.differs[..]), ("1", &[other()][..], &["table"][..]));
    assert!(found.detail.contains("other-1 has table 2, "), "{}", found.detail);
    assert!(!found.lasting && !found.detail.contains("--namespace"), "{found:?}");
    let began = bench.clock();
    let mut said = Vec::new();
    for _ in 0..20 {
        odd.number += 1;
        let effects = bench.meets(std::slice::from_ref(&odd));
        said.extend(tables(&effects).into_iter().map(|notice| (bench.clock() - began, notice)));
    }
    let [(after, Notice::TableDisagrees(lasting))] = &said[..] else { panic!("{said:?}") };
    assert!((120_000..135_500).contains(after), "{after}");
    assert_eq!(**lasting, Disagreement { lasting: true, ..found });
    odd.number += 1;
    let third = Presence { name: ReplicaId::new("third", "1"), version: "9.9.9".into(), ..member(1) };
    let news = disagreement(&bench.meets(&[odd, third]));
    assert_eq!((news.others.len(), &news.differs[..]), (2, &["table", "version"][..]));
    assert_eq!(tables(&bench.meets(&[member(99)])), [Notice::TableAgrees { revision: "1".into() }]);
    assert_eq!(tables(&bench.meets(&[member(100)])), []);
}

#[test]
fn a_table_of_other_jobs_is_called_another_deployment() {
    let mut bench = Bench::ready(&[job("a")], 10);
    let foreign = |number| Presence {
        revision: "2".into(),
        some_jobs: vec!["theirs".into(), "also-theirs".into()].into(),
        ..member(number)
    };
    bench.meet(&[foreign(1)]);
    let found = disagreement(&bench.meets(&[foreign(2)]));
    assert!(found.detail.contains("(`theirs`, `also-theirs`)"), "{}", found.detail);
    assert!(found.detail.contains("`--namespace`"), "{}", found.detail);
}

#[test]
fn who_drains_died_or_runs_no_jobs_disagrees_with_nobody() {
    let odd = |number| Presence { revision: "2".into(), ..member(number) };
    for quiet in [Presence { draining: true, ..odd(0) }, Presence { kind: "some-tool".into(), ..odd(0) }] {
        let mut bench = Bench::ready(&[job("a")], 10);
        bench.meet(&[Presence { number: 1, ..quiet.clone() }]);
        assert_eq!(tables(&bench.meets(&[Presence { number: 2, ..quiet }])), []);
    }
    let (mut bench, odd, _) = disagreeing();
    let after: Vec<usize> = (0..5).map(|_| tables(&bench.meets(std::slice::from_ref(&odd))).len()).collect();
    assert_eq!(after, [0, 0, 0, 1, 0], "once it is taken for dead, all agree again");
}

#[test]
fn a_claim_under_another_definition_is_told_with_the_job() {
    let mut bench = Bench::ready(&[job("a")], 10);
    bench.meet(&[member(1)]);
    bench.meets(&[member(2)]);
    bench.until(0);
    let odd = RunRecord { spec_hash: "another".into(), ..record(&run(), BEGUN) };
    bench.reply(vec![held(odd)]);
    let found = disagreement(&bench.meet(&[member(3)]));
    assert_eq!((&found.others[..], &found.jobs[..]), (&[other()][..], &[name("a")][..]));
    assert_eq!(found.differs, ["jobs"]);
    assert_eq!(tables(&bench.meets(&[])), [Notice::TableAgrees { revision: "1".into() }]);
}

#[test]
fn a_replica_that_was_told_to_end_meets_no_more() {
    let mut bench = Bench::ready(&[job("a")], 10);
    bench.meet(&[]);
    let effects = bench.tell(Event::StopAsked);
    assert!(effects.contains(&Effect::Drained { stopped: 0, unrecorded: 0 }), "{effects:?}");
    assert_eq!(meeting(&bench.until(60_000)), None);
    assert_eq!(bench.engine.wake_at().boot, None);
}
