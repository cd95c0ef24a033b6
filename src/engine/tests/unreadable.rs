//! Records of a newer form.

use super::answers::*;
use super::*;

fn unreadable(step: &Step) -> bool {
    *step.job() == name("new")
}

fn store(step: &Step) -> Option<Answer> {
    Some(if unreadable(step) { Answer::unreadable(2) } else { yes(step) })
}

#[test]
fn a_job_that_cannot_be_read_is_said_once_and_asked_once_a_minute_and_others_go_on() {
    let often = |text| JobSpec { schedule: every("10s"), starting_deadline: Some(secs(5)), ..allowing(text) };
    let mut bench = Bench::start(&[often("new"), often("old")], 10, -60);
    let mut effects = bench.answer_all(&mut store);
    effects.extend(bench.until_with(180_000, &mut store));
    let said = |notice: &&Notice| matches!(notice, Notice::JobUnreadable { .. });
    let all = notices(&effects);
    let said: Vec<&Notice> = all.iter().filter(said).collect();
    assert_eq!(said, [&Notice::JobUnreadable { job: name("new"), format: 2 }]);
    let asked: Vec<Step> = asked(&effects).into_iter().filter(unreadable).collect();
    assert!((4..=5).contains(&asked.len()), "{}: {asked:?}", asked.len());
    assert!(asked.iter().all(|step| matches!(step, Step::Register(_))), "{asked:?}");
    let skipped = all.iter().filter(|notice| {
        matches!(notice, Notice::RunSkipped { facts, reason: SkipReason::RecordUnreadable, .. } if facts.run.job == name("new"))
    });
    assert!((22..=24).contains(&skipped.count()), "each tick of four minutes");
    let claimed = all.iter().filter(|notice| matches!(notice, Notice::RunClaimed { .. })).count();
    assert_eq!(claimed, 10, "the other job has all places: {claimed}");
    let effects = bench.until_with(300_000, &mut |step| Some(yes(step)));
    let runs = |notice: &Notice| matches!(notice, Notice::RunClaimed { facts, .. } if facts.run.job == name("new"));
    assert!(!notices(&effects).iter().any(runs), "no place is free");
    assert!(bench.engine.jobs[&name("new")].registered && !bench.engine.jobs[&name("new")].unreadable);
}

#[test]
fn a_run_whose_record_cannot_be_read_any_more_loses_its_lease_and_asks_now_and_then() {
    let mut bench = Bench::running(job("a"));
    let effects = bench.until_with(14_999, &mut |_| Some(Answer::unreadable(2)));
    assert!((2..=4).contains(&count(&effects, "renew")), "{}", count(&effects, "renew"));
    assert_eq!(done(&effects), []);
    let effects = bench.until_with(16_000, &mut |_| Some(Answer::unreadable(2)));
    assert_eq!(done(&effects), [Effect::Terminate { run: run() }]);
    assert!(notices(&effects).iter().any(|notice| matches!(notice, Notice::LeaseLost { .. })), "{effects:?}");
}
