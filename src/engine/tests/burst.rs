//! Thousands of jobs due at one instant: what it costs.

use super::answers::*;
use super::*;

const MANY: usize = 2_000;

fn many() -> Bench {
    let jobs: Vec<JobSpec> = (0..MANY).map(|number| job(&format!("j{number}"))).collect();
    Bench::ready(&jobs, 10)
}

#[test]
fn a_burst_costs_a_few_questions_and_leaves_nothing_behind() {
    let mut bench = many();
    let mut questions = 0;
    let mut steps = 0;
    let mut effects = bench.until(0);
    while let Some((_, asked)) = bench.pending.front() {
        questions += 1;
        steps += asked.len();
        let done = |step: &Step| match step {
            Step::Claim(claim) => held(record(&claim.run, (RunState::Done, 1, 2))),
            step => yes(step),
        };
        let answers = asked.iter().map(done).collect();
        effects.extend(bench.reply(answers));
    }
    assert_eq!((questions, steps), (MANY / 500, MANY));
    assert_eq!(notices(&effects).len(), MANY, "one line each");
    let engine = &bench.engine;
    let left = engine.ticks.len() + engine.runs.len() + engine.watches.len() + engine.owed.len();
    assert_eq!(left + engine.taking.len() + engine.without_place.len(), 0);
    assert_eq!(engine.alarms.first(), None);
}

#[test]
fn a_replica_with_few_places_works_off_a_burst_with_few_questions_for_each() {
    let mut bench = many();
    bench.until(0);
    let mut steps = 0;
    let mut finished = 0;
    // Each run takes 100 ms; the rest waits for places and is asked for twice a second.
    for tenth in 0..100 {
        let effects = bench.until_with(tenth * 100, &mut |step| {
            steps += 1;
            Some(yes(step))
        });
        drop(effects);
        let running: Vec<RunKey> = bench.engine.runs.keys().cloned().collect();
        for run in running {
            finished += 1;
            bench.tell(Event::Ended { run, exit: exit(0) });
        }
    }
    assert!(finished >= 990, "{finished}");
    assert!(steps <= 6 * MANY + 4 * finished, "{steps}");
}

#[test]
fn a_burst_in_an_outage_waits_and_is_bounded() {
    let mut bench = many();
    bench.until(0);
    while !bench.pending.is_empty() {
        bench.fail();
    }
    let mut steps = 0;
    for second in 1..=60 {
        steps += asked(&bench.until(second * 1_000)).len();
        while !bench.pending.is_empty() {
            bench.fail();
        }
    }
    assert!(steps <= 61 * 500, "{steps}");
    assert_eq!(bench.engine.ticks.len(), 0);
    assert_eq!(bench.engine.owed.len(), MANY);
    let engine = &bench.engine;
    assert_eq!((engine.taking.len(), engine.without_place.len()), (0, 0));
    bench.until_with(70_000, &mut |step| Some(yes(step)));
    assert_eq!(bench.engine.owed.len(), 0);
}
