//! One registered job with two hours of past ticks, one a minute, and short ways to say what replicas do.

use super::bench::Bench;
use onecron::job::Answer;
use onecron::job::Claim;
use onecron::job::Decision;
use onecron::job::Ending;
use onecron::job::Expect;
use onecron::job::JobName;
use onecron::job::Outcome;
use onecron::job::Reassert;
use onecron::job::Registration;
use onecron::job::ReplicaId;
use onecron::job::RunKey;
use onecron::job::RunRecord;
use onecron::job::Seen;
use onecron::job::Step;
use onecron::job::StopReason;
use onecron::job::Tick;
use onecron::job::Verdict;
use onecron::job::WhenBusy;
use onecron::store::Store;
use std::sync::Arc;

pub const HOUR_MS: i64 = 3_600_000;

pub struct Scene {
    pub bench: Bench,
    pub store: Arc<dyn Store>,
    pub job: JobName,
    base: i64,
}

pub fn replica(name: &str) -> ReplicaId {
    ReplicaId::new(name, "1")
}

pub fn registration(job: &JobName) -> Registration {
    Registration {
        job: job.clone(),
        schedule: "* * * * *".into(),
        zone: "Europe/Berlin".into(),
        spec_hash: "abc".into(),
        skew_tolerance_ms: -3 * HOUR_MS,
        keep_ms: 24 * HOUR_MS,
        history: [200, 3, 10],
        quiet_ms: 40_000,
        passed: None,
        knew: None,
    }
}

/// A claim of a run that must not overlap and is not to be rerun.
pub fn claim_of(run: &RunKey, who: &str) -> Claim {
    Claim {
        run: run.clone(),
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
        rerun: false,
        trigger: "schedule".into(),
        spec_hash: "abc".into(),
    }
}

pub fn ending(outcome: Outcome, output_tail: &str) -> Ending {
    let exit_code = if outcome == Outcome::Succeeded { 0 } else { 1 };
    Ending {
        outcome,
        exit_code: Some(exit_code),
        signal: None,
        http_status: None,
        duration_ms: 1234,
        error: String::new(),
        output_tail: output_tail.into(),
    }
}

/// What an owner says of a run that the store may have forgotten: it must not overlap, and may be rerun.
pub fn reassert_of(run: &RunKey, (who, start, begun): (&str, u32, bool)) -> Reassert {
    Reassert {
        run: run.clone(),
        owner: replica(who),
        start,
        number: 1,
        begun,
        lease_ms: 15_000,
        grace_ms: 10_000,
        takeover_ms: 5_000,
        delay_ms: 0,
        stop_grace_ms: 30_000,
        exclusive: true,
        when_busy: WhenBusy::Skip,
        rerun: true,
        trigger: "schedule".into(),
        spec_hash: "abc".into(),
    }
}

impl Scene {
    pub async fn new(bench: Bench) -> Self {
        let store = bench.open("default");
        let base = (store.server_time().await.unwrap().timestamp() - 7200) / 60 * 60;
        let scene = Self { bench, store, job: JobName::new("nightly-sales").unwrap(), base };
        let verdict = scene.verdict(Step::Register(registration(&scene.job))).await;
        assert_eq!(verdict, Verdict::Registered { fresh: true, rescheduled: false });
        scene
    }

    /// The n-th tick; those up to 119 are past.
    pub fn tick(&self, n: i64) -> Tick {
        Tick::from_seconds(self.base + 60 * n)
    }

    pub fn run(&self, n: i64) -> RunKey {
        RunKey::new(self.job.clone(), self.tick(n))
    }

    pub async fn step(&self, step: Step) -> Answer {
        let mut answers = self.store.apply(&[step]).await.unwrap();
        assert_eq!(answers.len(), 1);
        answers.remove(0)
    }

    pub async fn verdict(&self, step: Step) -> Verdict {
        self.step(step).await.verdict
    }

    /// Registers the job again, with changes.
    pub async fn register_with(&self, change: impl FnOnce(&mut Registration)) -> Answer {
        let mut registration = registration(&self.job);
        change(&mut registration);
        self.step(Step::Register(registration)).await
    }

    pub async fn look(&self, n: i64) -> Answer {
        self.step(Step::Read { run: self.run(n) }).await
    }

    /// The run's record, which must be there.
    pub async fn record(&self, n: i64) -> RunRecord {
        self.look(n).await.run.unwrap()
    }

    pub async fn seen(&self, n: i64) -> Seen {
        self.record(n).await.seen()
    }

    pub fn claim_of(&self, n: i64, who: &str) -> Claim {
        Claim { previous: self.tick(n - 1).seconds(), ..claim_of(&self.run(n), who) }
    }

    pub async fn claim(&self, n: i64, who: &str) -> Verdict {
        self.verdict(Step::Claim(self.claim_of(n, who))).await
    }

    pub async fn claim_with(&self, n: i64, who: &str, change: impl FnOnce(&mut Claim)) -> Verdict {
        let mut claim = self.claim_of(n, who);
        change(&mut claim);
        self.verdict(Step::Claim(claim)).await
    }

    pub async fn take_over(&self, n: i64, who: &str, seen: Seen) -> Verdict {
        self.claim_with(n, who, |claim| claim.takeover = Some(seen)).await
    }

    /// Begins with a request of the start's own.
    pub async fn wait(&self, n: i64, who: &str) -> Verdict {
        self.verdict(Step::Wait { run: self.run(n), owner: replica(who), start: 0 }).await
    }

    pub async fn ask_stop(&self, n: i64, by: &str, reason: StopReason) -> Verdict {
        self.verdict(Step::AskStop { run: self.run(n), by: by.into(), reason }).await
    }

    /// Claims a run that waits in line, or replaces what is going.
    pub async fn claim_to(&self, when_busy: WhenBusy, n: i64, who: &str) {
        assert_eq!(self.claim_with(n, who, |claim| claim.when_busy = when_busy).await, Verdict::Won);
    }

    pub async fn begin(&self, n: i64, who: &str, start: u32) -> Verdict {
        self.begin_as(n, who, (start, &format!("request-{start}"))).await
    }

    pub async fn begin_as(&self, n: i64, who: &str, (start, request): (u32, &str)) -> Verdict {
        let (run, owner) = (self.run(n), replica(who));
        self.verdict(Step::Begin { run, owner, start, request: request.into() }).await
    }

    pub async fn renew(&self, n: i64, who: &str, start: u32) -> Verdict {
        self.verdict(Step::Renew { run: self.run(n), owner: replica(who), start }).await
    }

    pub async fn abandon(&self, n: i64, who: &str, start: u32) -> Verdict {
        self.verdict(Step::Abandon { run: self.run(n), owner: replica(who), start }).await
    }

    pub async fn complete(&self, n: i64, who: &str, start: u32) -> Verdict {
        self.end(n, who, (start, ending(Outcome::Succeeded, "ok"))).await
    }

    pub async fn end(&self, n: i64, who: &str, (start, ending): (u32, Ending)) -> Verdict {
        self.verdict(Step::Complete { run: self.run(n), owner: replica(who), start, ending }).await
    }

    pub async fn settle(&self, n: i64, expect: Expect, decision: Decision) -> Verdict {
        self.settle_as(n, "auditor", (expect, decision)).await
    }

    pub async fn settle_as(&self, n: i64, who: &str, (expect, decision): (Expect, Decision)) -> Verdict {
        let previous = self.tick(n - 1).seconds();
        self.verdict(Step::Settle { run: self.run(n), owner: replica(who), previous, expect, decision }).await
    }

    /// Claims and begins.
    pub async fn start(&self, n: i64, who: &str) {
        assert_eq!(self.claim(n, who).await, Verdict::Won);
        assert_eq!(self.begin(n, who, 0).await, Verdict::Begun);
    }

    /// Claims and begins a run that may be started again elsewhere.
    pub async fn start_rerunnable(&self, n: i64, who: &str) {
        assert_eq!(self.claim_with(n, who, |claim| claim.rerun = true).await, Verdict::Won);
        assert_eq!(self.begin(n, who, 0).await, Verdict::Begun);
    }

    /// A watcher calls the run lost.
    pub async fn lose(&self, n: i64) {
        let seen = self.seen(n).await;
        assert_eq!(self.settle(n, Expect::Unchanged(seen), Decision::Lost).await, Verdict::Settled);
    }

    /// Runs a tick from claim to end.
    pub async fn run_through(&self, n: i64, outcome: Outcome, output_tail: &str) {
        self.start(n, "web-1").await;
        assert_eq!(self.end(n, "web-1", (1, ending(outcome, output_tail))).await, Verdict::Recorded);
    }
}
