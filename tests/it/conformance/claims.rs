//! Who gets a run.

use crate::support::scene::HOUR_MS;
use crate::support::scene::Scene;
use crate::support::scene::ending;
use crate::support::scene::registration;
use crate::support::scene::replica;
use onecron::job::Decision;
use onecron::job::Expect;
use onecron::job::JobName;
use onecron::job::MissedReason;
use onecron::job::Outcome;
use onecron::job::RunKey;
use onecron::job::RunRecord;
use onecron::job::RunState;
use onecron::job::Seen;
use onecron::job::Step;
use onecron::job::Tick;
use onecron::job::Verdict;
use onecron::job::WhenBusy;

pub async fn a_free_tick_is_won_and_recorded(scene: Scene) {
    let answer = scene.step(Step::Claim(scene.claim_of(1, "web-1"))).await;
    assert_eq!(answer.verdict, Verdict::Won);
    let run = answer.run.clone().unwrap();
    assert!((run.claimed_at - scene.store.server_time().await.unwrap().timestamp_millis()).abs() < 5_000);
    let wanted = RunRecord {
        number: 1,
        lease_ms: 15_000,
        grace_ms: 10_000,
        takeover_ms: 5_000,
        stop_grace_ms: 30_000,
        exclusive: true,
        when_busy: WhenBusy::Skip,
        trigger: "schedule".into(),
        spec_hash: "abc".into(),
        claimed_at: run.claimed_at,
        ..RunRecord::claimed(scene.tick(1), &replica("web-1"))
    };
    assert_eq!(run, wanted);
    assert_eq!(answer.open, [wanted]);
    assert_eq!(scene.look(1).await, onecron::job::Answer { verdict: Verdict::Read, ..answer });
}

pub async fn a_resent_claim_is_won_again(scene: Scene) {
    let first = scene.step(Step::Claim(scene.claim_of(1, "web-1"))).await;
    let second = scene.step(Step::Claim(scene.claim_of(1, "web-1"))).await;
    assert_eq!(first, second, "a resent claim changes nothing");
}

pub async fn a_claim_of_somebody_elses_run_is_held_and_names_the_holder(scene: Scene) {
    scene.claim(1, "web-1").await;
    let answer = scene.step(Step::Claim(scene.claim_of(1, "web-2"))).await;
    assert_eq!(answer.verdict, Verdict::Held);
    assert_eq!(answer.run.unwrap().owner, replica("web-1"));
    scene.begin(1, "web-1", 0).await;
    assert_eq!(scene.claim(1, "web-2").await, Verdict::Held);
    assert_eq!(
        scene.claim(1, "web-1").await,
        Verdict::Held,
        "a begun run is not claimed again, not by its owner either"
    );
}

pub async fn a_finished_run_cannot_be_claimed_again(scene: Scene) {
    scene.run_through(1, Outcome::Succeeded, "").await;
    for who in ["web-1", "web-2"] {
        let answer = scene.step(Step::Claim(scene.claim_of(1, who))).await;
        assert_eq!(answer.verdict, Verdict::Done);
        assert_eq!(answer.run.unwrap().outcome, Some(Outcome::Succeeded));
    }
}

pub async fn a_question_without_taking_leaves_no_record(scene: Scene) {
    assert_eq!(scene.claim_with(1, "web-1", |claim| claim.take = false).await, Verdict::Free);
    assert_eq!(scene.look(1).await.run, None);
    scene.claim(1, "web-2").await;
    assert_eq!(scene.claim_with(1, "web-1", |claim| claim.take = false).await, Verdict::Held);
}

pub async fn an_unregistered_job_is_refused_in_every_step(scene: Scene) {
    let run = RunKey::new(JobName::new("unknown").unwrap(), scene.tick(1));
    let (owner, start) = (replica("web-1"), 0);
    let mut claim = scene.claim_of(1, "web-1");
    claim.run = run.clone();
    let ending = ending(Outcome::Succeeded, "");
    let steps = [
        Step::Claim(claim),
        Step::Begin { run: run.clone(), owner: owner.clone(), start, request: "1".into() },
        Step::Renew { run: run.clone(), owner: owner.clone(), start },
        Step::Complete { run: run.clone(), owner: owner.clone(), start, ending },
        Step::Abandon { run: run.clone(), owner: owner.clone(), start },
        Step::Settle {
            run: run.clone(),
            owner,
            previous: 0,
            expect: Expect::Absent { after_ms: 0 },
            decision: Decision::Missed(MissedReason::NoReplica),
        },
        Step::Read { run },
    ];
    for answer in scene.store.apply(&steps).await.unwrap() {
        assert_eq!((answer.verdict, answer.job, answer.run), (Verdict::Unregistered, None, None));
    }
}

pub async fn a_tick_ahead_of_the_stores_clock_is_too_early(scene: Scene) {
    let now = scene.store.server_time().await.unwrap();
    let mut claim = scene.claim_of(1, "web-1");
    claim.run.scheduled_for = Tick::from_seconds(now.timestamp() + 60);
    let verdict = scene.verdict(Step::Claim(claim.clone())).await;
    let Verdict::TooEarly { by_ms } = verdict else { panic!("{verdict:?}") };
    // 60 s less the fraction of this second, less the tolerance of 250 ms, less the time that the test took.
    assert!((53_750..=59_750).contains(&by_ms), "{by_ms}");
    claim.take = false;
    assert!(matches!(scene.verdict(Step::Claim(claim)).await, Verdict::TooEarly { .. }), "a question, too");
}

pub async fn a_run_with_a_delay_is_too_early_until_it_is_due(scene: Scene) {
    let now = scene.store.server_time().await.unwrap().timestamp_millis();
    let delay_ms = now - scene.tick(1).millis() + 60_000;
    let verdict = scene.claim_with(1, "web-1", |claim| claim.delay_ms = delay_ms).await;
    let Verdict::TooEarly { by_ms } = verdict else { panic!("{verdict:?}") };
    assert!((53_750..=59_750).contains(&by_ms), "{by_ms}");
    assert_eq!(scene.claim_with(1, "web-1", |claim| claim.delay_ms = delay_ms - 60_000).await, Verdict::Won);
    assert_eq!(scene.record(1).await.delay_ms, delay_ms - 60_000);
}

pub async fn a_new_job_forgets_what_came_before_it(scene: Scene) {
    let job = JobName::new("new").unwrap();
    let mut fresh = registration(&job);
    fresh.skew_tolerance_ms = -HOUR_MS;
    let record = scene.step(Step::Register(fresh)).await.job.unwrap();
    let about = record.registered_at - HOUR_MS + 250;
    assert_eq!(record.since, about, "skew tolerance and early tolerance count from now");
    assert_eq!(record.decided_through, record.since.div_euclid(1000));
    let mut claim = scene.claim_of(1, "web-1");
    for (seconds, verdict) in [(0, Verdict::Forgot), (1, Verdict::Won)] {
        claim.run = RunKey::new(job.clone(), Tick::from_seconds(record.decided_through + seconds));
        assert_eq!(scene.verdict(Step::Claim(claim.clone())).await, verdict);
    }
}

pub async fn an_absent_tick_up_to_decided_through_is_too_old(scene: Scene) {
    scene.claim_with(5, "web-1", |claim| claim.previous = 0).await;
    assert_eq!(scene.look(5).await.job.unwrap().decided_through, scene.tick(5).seconds());
    assert_eq!(scene.claim(4, "web-2").await, Verdict::TooOld);
    assert_eq!(scene.claim(5, "web-2").await, Verdict::Held, "a record is looked at first");
    assert_eq!(scene.claim(6, "web-2").await, Verdict::Won);
}

pub async fn an_abandoned_run_is_free_for_anybody(scene: Scene) {
    scene.claim(1, "web-1").await;
    assert_eq!(scene.abandon(1, "web-1", 0).await, Verdict::Released);
    assert_eq!(scene.claim(1, "web-2").await, Verdict::Won);
    assert_eq!(scene.begin(1, "web-1", 0).await, Verdict::Fenced);
    assert_eq!(scene.begin(1, "web-2", 0).await, Verdict::Begun);
}

/// Everything that may differ from what was seen.
pub fn other_views(seen: &Seen) -> [Seen; 4] {
    let other = if seen.state == RunState::Lost { RunState::Begun } else { RunState::Lost };
    [
        Seen { owner: replica("web-9"), ..seen.clone() },
        Seen { start: seen.start + 1, ..seen.clone() },
        Seen { number: seen.number + 1, ..seen.clone() },
        Seen { state: other, ..seen.clone() },
    ]
}

pub async fn a_waiting_claim_is_taken_over_only_as_it_was_seen(scene: Scene) {
    scene.claim(1, "web-1").await;
    let seen = scene.seen(1).await;
    for other in other_views(&seen) {
        assert_eq!(scene.take_over(1, "web-2", other).await, Verdict::Held);
    }
    assert_eq!(scene.take_over(1, "web-2", seen.clone()).await, Verdict::Won);
    assert_eq!(scene.record(1).await.owner, replica("web-2"));
    assert_eq!(scene.take_over(1, "web-3", seen.clone()).await, Verdict::Held, "what was seen is past");
    assert_eq!(scene.take_over(1, "web-2", seen).await, Verdict::Won, "sent again");
}

pub async fn a_renewed_claim_is_not_taken_over(scene: Scene) {
    scene.claim(1, "web-1").await;
    let seen = scene.seen(1).await;
    assert_eq!(scene.renew(1, "web-1", 0).await, Verdict::Renewed);
    assert_eq!(scene.take_over(1, "web-2", seen).await, Verdict::Held);
}

pub async fn a_begun_run_is_not_taken_over(scene: Scene) {
    scene.start_rerunnable(1, "web-1").await;
    let seen = scene.seen(1).await;
    assert_eq!(scene.take_over(1, "web-2", seen).await, Verdict::Held);
}

pub async fn a_lost_run_is_taken_over_only_if_it_may_run_again_and_as_it_was_seen(scene: Scene) {
    scene.start(1, "web-1").await;
    scene.lose(1).await;
    let seen = scene.seen(1).await;
    assert_eq!(scene.take_over(1, "web-2", seen.clone()).await, Verdict::Held, "lostRunPolicy: Report");
    assert_eq!(scene.settle(1, Expect::Unchanged(seen), Decision::Drained).await, Verdict::Settled);

    scene.start_rerunnable(2, "web-1").await;
    scene.lose(2).await;
    let seen = scene.seen(2).await;
    assert_eq!(scene.claim(2, "web-2").await, Verdict::Held, "without having seen it drain");
    for other in other_views(&seen) {
        assert_eq!(scene.take_over(2, "web-2", other).await, Verdict::Held);
    }
    assert_eq!(scene.take_over(2, "web-2", seen).await, Verdict::Won);
    assert_eq!(scene.begin(2, "web-2", 1).await, Verdict::Begun);
    assert_eq!(scene.record(2).await.start, 2);
    assert_eq!(scene.renew(2, "web-1", 1).await, Verdict::Fenced);
}

pub async fn a_run_is_started_three_times_at_most(scene: Scene) {
    scene.start_rerunnable(1, "web-1").await;
    for (start, who) in [(1, "web-2"), (2, "web-3")] {
        scene.lose(1).await;
        assert_eq!(scene.record(1).await.outcome, None, "it will run again");
        let seen = scene.seen(1).await;
        assert_eq!(scene.take_over(1, who, seen).await, Verdict::Won);
        assert_eq!(scene.begin(1, who, start).await, Verdict::Begun);
    }
    scene.lose(1).await;
    assert_eq!(scene.record(1).await.outcome, Some(Outcome::Lost));
    let seen = scene.seen(1).await;
    assert_eq!(scene.take_over(1, "web-4", seen).await, Verdict::Held);
}

pub async fn a_takeover_writes_the_new_owners_terms(scene: Scene) {
    scene.claim(1, "web-1").await;
    let seen = scene.seen(1).await;
    let verdict = scene.claim_with(1, "web-2", |claim| {
        claim.takeover = Some(seen);
        (claim.lease_ms, claim.grace_ms, claim.takeover_ms) = (1, 2, 3);
        (claim.trigger, claim.spec_hash) = ("rerun".into(), "def".into());
    });
    assert_eq!(verdict.await, Verdict::Won);
    let run = scene.record(1).await;
    assert_eq!((run.lease_ms, run.grace_ms, run.takeover_ms), (1, 2, 3));
    assert_eq!((run.trigger.as_str(), run.spec_hash.as_str(), run.number), ("rerun", "def", 2));
}

/// Whoever gave it back, or vanished, may have had another table: at most once is promised by that under which it begins.
pub async fn whether_a_run_may_run_again_is_said_by_the_claim_under_which_it_first_begins(scene: Scene) {
    for (n, first, then) in [(1, true, false), (2, false, true)] {
        scene.claim_with(n, "web-1", |claim| claim.rerun = first).await;
        let seen = scene.seen(n).await;
        let taken = scene.claim_with(n, "web-2", |claim| (claim.takeover, claim.rerun) = (Some(seen), then));
        assert_eq!(taken.await, Verdict::Won);
        assert_eq!(scene.record(n).await.rerun, then);
        scene.begin(n, "web-2", 0).await;
        scene.abandon(n, "web-2", 1).await;
        assert_eq!(scene.claim_with(n, "web-1", |claim| claim.rerun = first).await, Verdict::Won);
        assert_eq!(scene.record(n).await.rerun, then, "it has begun");
    }
}

pub async fn a_question_never_takes_over(scene: Scene) {
    scene.claim(1, "web-1").await;
    let seen = scene.seen(1).await;
    let verdict = scene.claim_with(1, "web-2", |claim| (claim.take, claim.takeover) = (false, Some(seen)));
    assert_eq!(verdict.await, Verdict::Held);
    scene.abandon(1, "web-1", 0).await;
    assert_eq!(scene.claim_with(1, "web-2", |claim| claim.take = false).await, Verdict::Held);
    assert_eq!(scene.record(1).await.owner, replica("web-1"));
}

pub async fn answers_list_the_jobs_open_runs_oldest_first(scene: Scene) {
    for (n, who) in [(3, "web-3"), (1, "web-1"), (2, "web-2")] {
        scene.claim(n, who).await;
    }
    scene.begin(2, "web-2", 0).await;
    scene.complete(2, "web-2", 1).await;
    let answer = scene.look(9).await;
    let open: Vec<Tick> = answer.open.iter().map(|run| run.scheduled_for).collect();
    assert_eq!(open, [scene.tick(1), scene.tick(3)]);
    assert_eq!(answer.job.unwrap().open, open);
}

pub async fn no_job_is_paused_by_itself(scene: Scene) {
    // No step pauses a job in this version: the field is there, stays empty, and so nothing is ever refused by it.
    assert_eq!(scene.look(1).await.job.unwrap().paused, None);
    assert_eq!(scene.claim(1, "web-1").await, Verdict::Won);
}
