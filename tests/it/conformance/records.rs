//! What is kept, for how long, and what a look at it shows.

use crate::support::scene::HOUR_MS;
use crate::support::scene::Scene;
use crate::support::scene::ending;
use crate::support::scene::registration;
use crate::support::scene::replica;
use onecron::job::Ending;
use onecron::job::HistoryEntry;
use onecron::job::JobName;
use onecron::job::Outcome;
use onecron::job::Registration;
use onecron::job::ReplicaId;
use onecron::job::RunKey;
use onecron::job::Step;
use onecron::job::Verdict;
use onecron::store::BATCH_MOST;
use onecron::store::Class;
use std::time::Duration;

/// A scene whose final records go at once, with all ticks up to the last one run decided.
async fn forgetful(scene: &Scene) {
    scene.register_with(|registration| registration.keep_ms = 0).await;
}

async fn run_decided(scene: &Scene, n: i64) {
    assert_eq!(
        scene.claim_with(n, "web-1", |claim| (claim.exclusive, claim.previous) = (false, 0)).await,
        Verdict::Won
    );
    assert_eq!(scene.begin(n, "web-1", 0).await, Verdict::Begun);
    assert_eq!(scene.complete(n, "web-1", 1).await, Verdict::Recorded);
}

pub async fn old_final_records_go_and_a_late_claim_is_refused(scene: Scene) {
    forgetful(&scene).await;
    run_decided(&scene, 1).await;
    assert_eq!(scene.claim(1, "web-2").await, Verdict::Done);
    run_decided(&scene, 2).await;
    let answer = scene.look(1).await;
    assert_eq!((answer.run, answer.job.unwrap().floor), (None, scene.tick(1).seconds()));
    assert_eq!(scene.claim(1, "web-2").await, Verdict::TooOld);
    assert_eq!(scene.begin(1, "web-1", 1).await, Verdict::Gone);
    assert_eq!(scene.store.history(&scene.job, 10).await.unwrap().len(), 2, "the history is another matter");
}

pub async fn two_records_go_with_one_step_at_most(scene: Scene) {
    for n in 1..=6 {
        run_decided(&scene, n).await;
    }
    forgetful(&scene).await;
    scene.claim_with(7, "web-1", |claim| claim.previous = 0).await;
    let mut left = Vec::new();
    for n in 1..=6 {
        left.extend(scene.look(n).await.run.map(|_| n));
    }
    assert_eq!(left, [3, 4, 5, 6]);
    assert_eq!(scene.look(7).await.job.unwrap().floor, scene.tick(2).seconds());
}

pub async fn an_open_run_is_never_dropped(scene: Scene) {
    forgetful(&scene).await;
    scene.claim_with(1, "web-1", |claim| (claim.exclusive, claim.previous) = (false, 0)).await;
    scene.begin(1, "web-1", 0).await;
    for n in 2..=6 {
        run_decided(&scene, n).await;
    }
    let answer = scene.look(1).await;
    assert!(answer.job.unwrap().floor >= scene.tick(4).seconds(), "the floor rose over it");
    assert_eq!(answer.run.unwrap().start, 1);
    assert_eq!(scene.claim(1, "web-2").await, Verdict::Held, "the floor is for absent records only");
    assert_eq!(scene.complete(1, "web-1", 1).await, Verdict::Recorded);
}

pub async fn nothing_above_decided_through_is_dropped(scene: Scene) {
    forgetful(&scene).await;
    let before = scene.look(1).await.job.unwrap();
    for n in 1..=4 {
        scene.run_through(n, Outcome::Succeeded, "").await;
    }
    assert!(scene.look(1).await.run.is_some(), "tick 0 is not decided, so neither is all up to tick 1");
    let after = scene.look(1).await.job.unwrap();
    assert_eq!((after.floor, after.decided_through), (before.floor, before.decided_through));
}

pub async fn young_records_stay(scene: Scene) {
    // The oldest tick is two hours old.
    scene.register_with(|registration| registration.keep_ms = 24 * HOUR_MS).await;
    for n in 1..=4 {
        run_decided(&scene, n).await;
    }
    assert!(scene.look(1).await.run.is_some());
}

pub async fn a_changed_schedule_is_told_to_whoever_registers_it_first(scene: Scene) {
    let changed = |zone: &'static str| scene.register_with(move |registration| registration.zone = zone.into());
    let told = |rescheduled| Verdict::Registered { fresh: false, rescheduled };
    assert_eq!(changed("Asia/Tokyo").await.verdict, told(true));
    assert_eq!(changed("Asia/Tokyo").await.verdict, told(false));
}

pub async fn a_registration_is_fresh_once_and_follows_the_definition(scene: Scene) {
    let first = scene.look(1).await.job.unwrap();
    let answer = scene.register_with(|registration| {
        registration.spec_hash = "def".into();
        registration.keep_ms = 77;
        registration.history = [5, 6, 7];
        registration.skew_tolerance_ms = 60_000;
    });
    let answer = answer.await;
    assert_eq!(answer.verdict, Verdict::Registered { fresh: false, rescheduled: false });
    let job = answer.job.unwrap();
    assert_eq!((job.spec_hash.as_str(), job.keep_ms, job.history), ("def", 77, [5, 6, 7]));
    assert_eq!((job.since, job.decided_through), (first.since, first.decided_through), "its memory goes on");
    assert_eq!((job.schedule.as_str(), job.zone.as_str()), ("* * * * *", "Europe/Berlin"));
    assert!(job.registered_at >= first.registered_at);
    assert_eq!(scene.look(1).await.job, Some(job));
}

pub async fn every_change_of_a_job_raises_its_revision(scene: Scene) {
    let revision = async || scene.look(1).await.job.unwrap().revision;
    let mut last = revision().await;
    assert_eq!(revision().await, last, "looking changes nothing");
    scene.claim(1, "web-1").await;
    for step in ["claim", "begin", "complete", "register"] {
        match step {
            "begin" => drop(scene.begin(1, "web-1", 0).await),
            "complete" => drop(scene.complete(1, "web-1", 1).await),
            "register" => drop(scene.register_with(|_| ()).await),
            _ => {}
        }
        let now = revision().await;
        assert!(now > last, "{step}");
        last = now;
    }
    scene.claim(1, "web-2").await;
    assert_eq!(revision().await, last, "a refused claim changes nothing");
}

pub async fn the_history_is_newest_first_and_capped(scene: Scene) {
    scene.register_with(|registration| registration.history = [3, 1, 1]).await;
    for n in 1..=5 {
        scene.run_through(n, Outcome::Succeeded, "").await;
    }
    let ticks = async |most| -> Vec<String> {
        let entries = scene.store.history(&scene.job, most).await.unwrap();
        entries.into_iter().map(|entry| entry.scheduled_for).collect()
    };
    let wanted: Vec<String> = [5, 4, 3].iter().map(|&n| scene.tick(n).to_string()).collect();
    assert_eq!(ticks(10).await, wanted);
    assert_eq!(ticks(2).await, wanted[..2]);
    assert_eq!(ticks(0).await, [""; 0]);
    scene.register_with(|registration| registration.history = [0, 0, 0]).await;
    scene.run_through(6, Outcome::Succeeded, "").await;
    assert_eq!(ticks(10).await, [""; 0]);
}

pub async fn output_is_kept_for_the_newest_successes_and_failures(scene: Scene) {
    use Outcome::Failed;
    use Outcome::Succeeded;
    use Outcome::TimedOut;
    scene.register_with(|registration| registration.history = [6, 2, 1]).await;
    let runs = [Succeeded, Failed, Succeeded, TimedOut, Succeeded, Succeeded, Succeeded];
    for (n, outcome) in (1..).zip(runs) {
        scene.run_through(n, outcome, &format!("output {n}")).await;
    }
    let entries = scene.store.history(&scene.job, 10).await.unwrap();
    let tails: Vec<&str> = entries.iter().map(|entry| entry.output_tail.as_str()).collect();
    assert_eq!(tails, ["output 7", "output 6", "", "output 4", "", ""]);
}

pub async fn a_history_of_nothing_is_empty(scene: Scene) {
    assert_eq!(scene.store.history(&scene.job, 10).await.unwrap(), []);
    assert_eq!(scene.store.history(&JobName::new("unknown").unwrap(), 10).await.unwrap(), []);
}

pub async fn odd_and_long_texts_come_back_as_they_went(scene: Scene) {
    let odd = "a\"b'c\\d/e\n\r\t\u{1}\u{7f} ,\"late_outcome\":\"\" {}; %s %% -- \u{e9}\u{1f980}\u{2028}";
    scene.register_with(|r| (r.schedule, r.zone, r.spec_hash) = (odd.into(), odd.into(), odd.into())).await;
    assert_eq!(scene.look(1).await.job.unwrap().schedule, odd);
    let soon = Registration { schedule: odd.into(), zone: odd.into(), ..registration(&scene.job) };
    assert_eq!(scene.verdict(Step::Register(soon)).await, Verdict::Registered { fresh: false, rescheduled: false });

    let job = JobName::new("odd").unwrap();
    scene.step(Step::Register(registration(&job))).await;
    let (run, owner) = (RunKey::new(job.clone(), scene.tick(1)), ReplicaId::from_record(odd));
    let mut claim = scene.claim_of(1, "x");
    (claim.run, claim.owner, claim.trigger, claim.spec_hash) = (run.clone(), owner.clone(), odd.into(), odd.into());
    assert_eq!(scene.verdict(Step::Claim(claim)).await, Verdict::Won);
    let begin = Step::Begin { run: run.clone(), owner: owner.clone(), start: 0, request: odd.into() };
    assert_eq!(scene.verdict(begin.clone()).await, Verdict::Begun);
    assert_eq!(scene.verdict(begin).await, Verdict::Begun);
    let tail = format!("{odd}{}", "x".repeat(200_000));
    let ending = Ending { error: odd.into(), ..ending(Outcome::Failed, &tail) };
    let answer = scene.step(Step::Complete { run, owner, start: 1, ending }).await;
    assert_eq!(answer.verdict, Verdict::Recorded);
    let run = answer.run.unwrap();
    assert_eq!((run.error.as_str(), run.trigger.as_str(), run.request.as_str()), (odd, odd, odd));
    let history = scene.store.history(&job, 1).await.unwrap();
    assert_eq!(history, [HistoryEntry::of(&run, &tail)]);
}

pub async fn long_names_work(scene: Scene) {
    let job = JobName::new(&format!("7{}9", "-x".repeat(30))).unwrap();
    let name = "n".repeat(63);
    let store = scene.bench.open(&name);
    store.apply(&[Step::Register(registration(&job))]).await.unwrap();
    let owner = ReplicaId::new(&"host".repeat(50), "7f3a9c");
    let mut claim = scene.claim_of(1, "x");
    (claim.run, claim.owner) = (RunKey::new(job.clone(), scene.tick(1)), owner.clone());
    let answers = store.apply(&[Step::Claim(claim)]).await.unwrap();
    assert_eq!(answers[0].run.as_ref().unwrap().owner, owner);
    assert_eq!(store.jobs().await.unwrap()[0].0, job);
}

pub async fn namespaces_do_not_see_one_another(scene: Scene) {
    let other = scene.bench.open("other");
    assert_eq!(other.jobs().await.unwrap(), []);
    scene.claim(1, "web-1").await;
    let claim = Step::Claim(scene.claim_of(1, "web-2"));
    let register = Step::Register(registration(&scene.job));
    let answers = other.apply(&[claim.clone(), register, claim]).await.unwrap();
    let verdicts: Vec<Verdict> = answers.iter().map(|answer| answer.verdict).collect();
    assert_eq!(
        verdicts,
        [Verdict::Unregistered, Verdict::Registered { fresh: true, rescheduled: false }, Verdict::Won]
    );
    assert_eq!(scene.record(1).await.owner, replica("web-1"));
    assert_eq!(other.retire(Duration::ZERO).await.unwrap(), []);
    assert_eq!(scene.store.jobs().await.unwrap().len(), 1);
}

pub async fn all_jobs_are_listed(scene: Scene) {
    let names: Vec<JobName> = (0..40).map(|n| JobName::new(&format!("job-{n:02}")).unwrap()).collect();
    let steps: Vec<Step> = names.iter().map(|name| Step::Register(registration(name))).collect();
    scene.store.apply(&steps).await.unwrap();
    let mut listed = scene.store.jobs().await.unwrap();
    listed.sort_by(|(a, _), (b, _)| a.cmp(b));
    let mut wanted = names;
    wanted.push(scene.job.clone());
    assert_eq!(listed.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>(), wanted);
    let (_, record) = listed.pop().unwrap();
    assert_eq!(Some(record), scene.look(1).await.job, "with the same record as anywhere else");
}

/// Waits until the store's clock has left the millisecond of the last registration.
async fn retire_all(scene: &Scene) -> Vec<JobName> {
    let registered_at = scene.look(1).await.job.unwrap().registered_at;
    let later = || async { scene.store.server_time().await.unwrap().timestamp_millis() > registered_at + 1 };
    crate::support::wait_until("the next millisecond", later).await;
    scene.store.retire(Duration::ZERO).await.unwrap()
}

pub async fn only_idle_jobs_retire_and_then_as_a_whole(scene: Scene) {
    scene.run_through(1, Outcome::Succeeded, "output").await;
    assert_eq!(scene.store.retire(Duration::from_secs(3600)).await.unwrap(), [], "registered within the hour");
    assert_eq!(retire_all(&scene).await, std::slice::from_ref(&scene.job));
    assert_eq!(scene.store.jobs().await.unwrap(), []);
    assert_eq!(scene.look(1).await.verdict, Verdict::Unregistered);
    assert_eq!(scene.store.history(&scene.job, 10).await.unwrap(), []);
    let answer = scene.register_with(|registration| registration.skew_tolerance_ms = 2000).await;
    assert_eq!(answer.verdict, Verdict::Registered { fresh: true, rescheduled: false });
    assert_eq!(scene.look(1).await.run, None, "nothing is left of its runs");
    assert_eq!(scene.claim(1, "web-1").await, Verdict::Forgot, "and none of them can run again");
    assert_eq!(scene.store.jobs().await.unwrap().len(), 1);
}

pub async fn a_job_with_an_open_run_does_not_retire(scene: Scene) {
    scene.start(1, "web-1").await;
    assert_eq!(retire_all(&scene).await, []);
    scene.lose(1).await;
    assert_eq!(retire_all(&scene).await, [], "a lost run is open, too");
    scene.complete(1, "web-1", 1).await;
    assert_eq!(retire_all(&scene).await, std::slice::from_ref(&scene.job));
}

pub async fn the_store_has_a_clock(scene: Scene) {
    let first = scene.store.server_time().await.unwrap();
    let second = scene.store.server_time().await.unwrap();
    assert!(second >= first);
    let claimed_at = scene.step(Step::Claim(scene.claim_of(1, "web-1"))).await.run.unwrap().claimed_at;
    assert!(claimed_at >= second.timestamp_millis(), "records carry the same clock's time");
}

pub async fn the_store_tells_what_it_is_worth(scene: Scene) {
    let probe = scene.store.probe().await.unwrap();
    assert!(!probe.version.is_empty());
    assert_eq!(probe.class == Class::A, probe.findings.is_empty(), "{probe:?}");
}

pub async fn steps_of_a_batch_see_one_another(scene: Scene) {
    let (run, owner) = (scene.run(1), replica("web-1"));
    let steps = [
        Step::Claim(scene.claim_of(1, "web-1")),
        Step::Claim(scene.claim_of(1, "web-2")),
        Step::Begin { run: run.clone(), owner: owner.clone(), start: 0, request: "1".into() },
        Step::Renew { run: run.clone(), owner: owner.clone(), start: 1 },
        Step::Complete { run: run.clone(), owner, start: 1, ending: ending(Outcome::Succeeded, "") },
        Step::Read { run },
    ];
    let answers = scene.store.apply(&steps).await.unwrap();
    let verdicts: Vec<Verdict> = answers.iter().map(|answer| answer.verdict).collect();
    use Verdict::*;
    assert_eq!(verdicts, [Won, Held, Begun, Renewed, Recorded, Read]);
    let open: Vec<usize> = answers.iter().map(|answer| answer.open.len()).collect();
    assert_eq!(open, [1, 1, 1, 1, 0, 0]);
}

pub async fn an_empty_batch_is_answered(scene: Scene) {
    assert_eq!(scene.store.apply(&[]).await.unwrap(), []);
}

pub async fn a_batch_of_five_hundred_is_answered_in_order(scene: Scene) {
    let name = |n: usize| JobName::new(&format!("job-{n}")).unwrap();
    let steps: Vec<Step> = (0..BATCH_MOST).map(|n| Step::Register(registration(&name(n)))).collect();
    assert_eq!(scene.store.apply(&steps).await.unwrap().len(), BATCH_MOST);
    let claim = |n: usize| {
        let mut claim = scene.claim_of(1, "web-1");
        claim.run = RunKey::new(name(n), scene.tick(i64::try_from(n).unwrap() % 100));
        claim.take = !n.is_multiple_of(3);
        Step::Claim(claim)
    };
    let steps: Vec<Step> = (0..BATCH_MOST).map(claim).collect();
    for (n, answer) in scene.store.apply(&steps).await.unwrap().into_iter().enumerate() {
        let wanted = if n.is_multiple_of(3) { Verdict::Free } else { Verdict::Won };
        assert_eq!((answer.verdict, answer.open.len()), (wanted, usize::from(!n.is_multiple_of(3))), "{n}");
    }
}
