//! What becomes of ticks when a job's schedule changes.

use crate::support::scene::HOUR_MS;
use crate::support::scene::Scene;
use crate::support::scene::registration;
use crate::support::scene::replica;
use onecron::job::Decision;
use onecron::job::Expect;
use onecron::job::FORMER_MOST;
use onecron::job::Former;
use onecron::job::JobName;
use onecron::job::JobRecord;
use onecron::job::Knew;
use onecron::job::MissedReason;
use onecron::job::Registration;
use onecron::job::SkipReason;
use onecron::job::Step;
use onecron::job::Verdict;

const RESCHEDULED: Decision = Decision::Skipped(SkipReason::Rescheduled);

async fn now(scene: &Scene) -> i64 {
    scene.store.server_time().await.unwrap().timestamp()
}

/// Registers another schedule.
async fn change(scene: &Scene, schedule: &str) -> JobRecord {
    let answer = scene.register_with(|registration| registration.schedule = schedule.into()).await;
    assert_eq!(answer.verdict, Verdict::Registered { fresh: false, rescheduled: true });
    answer.job.unwrap()
}

/// Says that no former schedule owes anything up to the last change.
async fn pass(scene: &Scene, schedule: &str, from: i64) -> JobRecord {
    let until = scene.look(1).await.job.unwrap().former.last().unwrap().until;
    let passed = |registration: &mut Registration| {
        registration.schedule = schedule.into();
        registration.passed = Some((from, until));
    };
    scene.register_with(passed).await.job.unwrap()
}

pub async fn ticks_of_a_former_schedule_stay_open_after_the_change(scene: Scene) {
    let before = scene.look(1).await.job.unwrap();
    let job = change(&scene, "@daily").await;
    assert_eq!(job.decided_through, before.decided_through);
    assert_eq!(scene.claim(7, "web-1").await, Verdict::Won, "by who has the former table still");
    let settled = scene.settle(8, Expect::Absent { after_ms: 60_000 }, RESCHEDULED).await;
    assert_eq!(settled, Verdict::Settled);
    assert_eq!(scene.record(8).await.reason, "rescheduled");
    assert_eq!(scene.claim(8, "web-1").await, Verdict::Done);
}

pub async fn a_former_schedule_is_kept_as_it_was_with_the_moment_of_the_change(scene: Scene) {
    let before = now(&scene).await;
    let zone = |registration: &mut Registration| registration.zone = "UTC".into();
    let job = scene.register_with(zone).await.job.unwrap();
    let until = job.former[0].until;
    assert!((before..=now(&scene).await).contains(&until));
    assert_eq!(job.former, [Former::new(until, "Europe/Berlin", "* * * * *")]);
    assert_eq!((job.schedule.as_str(), job.zone.as_str()), ("* * * * *", "UTC"));
    let again = scene.register_with(zone).await;
    assert_eq!(again.verdict, Verdict::Registered { fresh: false, rescheduled: false }, "sent again");
    assert_eq!(again.job.unwrap().former, job.former);
}

pub async fn nobody_passes_a_change_that_it_does_not_know_of(scene: Scene) {
    scene.claim_with(7, "web-1", |claim| claim.previous = 0).await;
    let decided = async || scene.look(1).await.job.unwrap().decided_through;
    assert_eq!(decided().await, scene.tick(7).seconds());
    let changed = change(&scene, "*/2 * * * *").await.former[0].until;
    let previous = scene.tick(7).seconds();
    // A tick of the former table after the change: by that one, none lies in between.
    let later = scene.tick(119 + (changed - scene.tick(119).seconds()).div_euclid(60) + 1);
    let run = onecron::job::RunKey::new(scene.job.clone(), later);
    let claim = onecron::job::Claim { run, previous, delay_ms: -HOUR_MS, ..scene.claim_of(1, "old") };
    assert_eq!(scene.verdict(Step::Claim(claim)).await, Verdict::Won);
    assert_eq!(decided().await, previous, "what the present one owes is not passed over");
    assert_eq!(scene.claim(8, "old").await, Verdict::Won);
    assert_eq!(decided().await, scene.tick(8).seconds(), "up to the change the chain goes on");
}

pub async fn a_range_ends_where_the_schedule_changed(scene: Scene) {
    scene.claim_with(7, "web-1", |claim| claim.previous = 0).await;
    let changed = change(&scene, "*/2 * * * *").await.former[0].until;
    let last = scene.tick(119 + (changed - scene.tick(119).seconds()).div_euclid(60) + 1);
    let settle = |run, after_ms| Step::Settle {
        run,
        owner: replica("auditor"),
        previous: scene.tick(7).seconds(),
        expect: Expect::AbsentRange { first: scene.tick(8), count: 9, after_ms },
        decision: Decision::Missed(MissedReason::NoReplica),
    };
    let over = onecron::job::RunKey::new(scene.job.clone(), last);
    assert_eq!(scene.verdict(settle(over, -HOUR_MS)).await, Verdict::Changed);
    assert_eq!(scene.verdict(settle(scene.run(100), 60_000)).await, Verdict::Settled);
    assert_eq!(scene.look(1).await.job.unwrap().decided_through, scene.tick(100).seconds());
}

pub async fn what_is_decided_passes_a_change_when_a_replica_says_that_nothing_is_owed(scene: Scene) {
    let decided = scene.look(1).await.job.unwrap().decided_through;
    let changed = change(&scene, "@daily").await.former[0].until;
    let job = pass(&scene, "@daily", decided).await;
    assert_eq!(job.decided_through, changed);
    assert_eq!(scene.claim(110, "old").await, Verdict::TooOld);
}

pub async fn nothing_is_passed_that_may_be_owed(scene: Scene) {
    let decided = scene.look(1).await.job.unwrap().decided_through;
    change(&scene, "@daily").await;
    let job = pass(&scene, "@daily", decided + 60).await;
    assert_eq!(job.decided_through, decided, "the replica knew of more decided ticks than there are");
    let odd = |registration: &mut Registration| registration.passed = Some((decided, decided + 60));
    let job = scene.register_with(odd).await.job.unwrap();
    assert_eq!(job.decided_through, decided, "no schedule ended there");
}

pub async fn a_former_schedule_goes_when_it_is_passed_and_the_last_one_stays(scene: Scene) {
    let decided = scene.look(1).await.job.unwrap().decided_through;
    let schedules = |job: &JobRecord| job.former.iter().map(|f| f.schedule.clone()).collect::<Vec<_>>();
    change(&scene, "@daily").await;
    let job = change(&scene, "@hourly").await;
    assert_eq!(schedules(&job), ["* * * * *", "@daily"]);
    let job = pass(&scene, "@hourly", decided).await;
    assert_eq!(schedules(&job), ["@daily"], "the moment of the last change is not forgotten");
}

pub async fn a_change_waits_while_too_many_former_schedules_owe_ticks(scene: Scene) {
    let decided = scene.look(1).await.job.unwrap().decided_through;
    for n in 0..FORMER_MOST {
        change(&scene, ["@daily", "@hourly"][n % 2]).await;
    }
    let other = |registration: &mut Registration| registration.schedule = "@weekly".into();
    let answer = scene.register_with(other).await;
    assert_eq!(answer.verdict, Verdict::Registered { fresh: false, rescheduled: false });
    let job = answer.job.unwrap();
    assert_eq!((job.schedule.as_str(), job.former.len()), ("@daily", FORMER_MOST));
    let job = pass(&scene, "@weekly", decided).await;
    assert_eq!((job.schedule.as_str(), job.former.len()), ("@weekly", 2), "in the same step, as soon as there is room");
}

pub async fn a_schedule_that_comes_and_goes_at_once_leaves_the_one_before_as_it_was(scene: Scene) {
    let register =
        |schedule: &str| Step::Register(Registration { schedule: schedule.into(), ..registration(&scene.job) });
    let answers = scene.store.apply(&["@daily", "* * * * *"].map(register)).await.unwrap();
    let job = answers[1].job.clone().unwrap();
    let ends: Vec<i64> = job.former.iter().map(|former| former.until).collect();
    assert_eq!((job.schedule.as_str(), ends.len()), ("* * * * *", 2));
    assert!(ends.is_sorted(), "the second one may have had no second: {job:?}");
}

pub async fn a_store_that_lost_the_job_goes_on_from_what_a_replica_knew_of_its_schedules(scene: Scene) {
    let job = JobName::new("forgotten").unwrap();
    let former = vec![Former::new(scene.tick(3).seconds(), "UTC", "@hourly")];
    let (schedule, zone) = ("@daily".to_string(), "UTC".to_string());
    let decided_through = scene.tick(1).seconds();
    let knew = Knew { since: 1, decided_through, schedule, zone, former: former.clone(), ..Knew::default() };
    let same = Registration { schedule: "@daily".into(), zone: "UTC".into(), ..registration(&job) };
    let answer = scene.step(Step::Register(Registration { knew: Some(knew.clone()), ..same })).await;
    assert_eq!(answer.verdict, Verdict::Registered { fresh: true, rescheduled: false });
    assert_eq!(answer.job.unwrap().former, former);

    let job = JobName::new("forgotten-and-changed").unwrap();
    let answer = scene.step(Step::Register(Registration { knew: Some(knew), ..registration(&job) })).await;
    assert_eq!(answer.verdict, Verdict::Registered { fresh: true, rescheduled: true });
    let record = answer.job.unwrap();
    assert_eq!((record.former[0].clone(), record.former[1].schedule.as_str()), (former[0].clone(), "@daily"));
    assert_eq!(record.schedule, "* * * * *");
}
