//! Asks the store whether what is still to be told is over by now.

use crate::notify;
use crate::notify::Letter;
use crate::store::Store;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio::time::timeout;

/// How long one look takes.
const WITHIN: Duration = Duration::from_secs(2);
/// How long nobody looks after one that came to nothing: of a thousand messages, none waits for a store that is away, but
/// every now and then one.
const BLIND: Duration = Duration::from_secs(15);

/// See the module.
#[derive(Clone)]
pub struct Past {
    store: Arc<dyn Store>,
    /// Where the store is at home: its connections live there, and not among the jobs.
    scheduler: Handle,
    blind_until: Option<Instant>,
}

impl Past {
    /// As a store knows it that is asked there.
    pub fn new(store: Arc<dyn Store>, scheduler: Handle) -> Self {
        Self { store, scheduler, blind_until: None }
    }

    /// Which of these are over. None is, as far as is known here, if the store does not tell soon.
    pub async fn over(&mut self, letters: &[Arc<Letter>]) -> Vec<bool> {
        self.ask(letters).await.unwrap_or_else(|| vec![false; letters.len()])
    }

    async fn ask(&mut self, letters: &[Arc<Letter>]) -> Option<Vec<bool>> {
        if self.blind_until.is_some_and(|until| Instant::now() < until) {
            return None;
        }
        let steps: Vec<_> = letters.iter().map(|letter| notify::question(letter)).collect();
        let store = Arc::clone(&self.store);
        // In a set: it ends when nobody waits for it any more.
        let mut asking = JoinSet::new();
        asking.spawn_on(async move { store.apply(&steps).await }, &self.scheduler);
        let Ok(Some(Ok(Ok(answers)))) = timeout(WITHIN, asking.join_next()).await else {
            self.blind_until = Some(Instant::now() + BLIND);
            return None;
        };
        self.blind_until = None;
        let over = letters.iter().zip(&answers).map(|(letter, answer)| notify::is_over(letter, answer)).collect();
        Some(over)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Clock;
    use crate::clock::SystemClock;
    use crate::daemon::tests::Broken;
    use crate::job::Claim;
    use crate::job::Decision;
    use crate::job::Ending;
    use crate::job::Expect;
    use crate::job::JobSpec;
    use crate::job::MissedReason;
    use crate::job::Occasion;
    use crate::job::Outcome;
    use crate::job::Registration;
    use crate::job::ReplicaId;
    use crate::job::RunKey;
    use crate::job::Step;
    use crate::job::Tick;
    use crate::job::Trigger;
    use crate::notify::About;
    use crate::notify::Facts;
    use crate::store::MemoryStore;
    use chrono::DateTime;

    /// A job of every minute, with an hour of past to work with.
    struct Job {
        store: Arc<dyn Store>,
        spec: Arc<JobSpec>,
        me: ReplicaId,
        first: i64,
    }

    impl Job {
        async fn new() -> Self {
            let text = "jobs:\n  - {name: a, schedule: '* * * * *', command: x, lostRunPolicy: Rerun}\n";
            let source = crate::config::Source::new("jobs.yaml", text.into());
            let spec = Arc::clone(&crate::config::load(&[source], DateTime::default()).unwrap().table.jobs[0]);
            let (me, store) = (ReplicaId::new("web", "1"), Arc::new(MemoryStore::new(Arc::new(SystemClock))));
            let job = Self { store, spec, me, first: SystemClock.now().wall.timestamp() / 60 * 60 - 3000 };
            let registration = Registration {
                job: job.spec.name.clone(),
                schedule: "* * * * *".into(),
                zone: "UTC".into(),
                spec_hash: String::new(),
                skew_tolerance_ms: -3_600_000,
                keep_ms: 3_600_000,
                history: [1, 1, 1],
                quiet_ms: 0,
                passed: None,
                knew: None,
            };
            job.send(Step::Register(registration)).await;
            job
        }

        async fn send(&self, step: Step) {
            self.store.apply(&[step]).await.unwrap();
        }

        fn run(&self, minute: i64) -> RunKey {
            RunKey::new(self.spec.name.clone(), Tick::from_seconds(self.first + minute * 60))
        }

        async fn begin(&self, minute: i64) {
            let (run, owner, terms) =
                (self.run(minute), self.me.clone(), (Duration::ZERO, Duration::ZERO, Trigger::Schedule));
            self.send(Step::Claim(Claim::of(&run, &owner, &self.spec, terms))).await;
            self.send(Step::Begin { run, owner, start: 0, request: "1".into() }).await;
        }

        async fn complete(&self, minute: i64, outcome: Outcome) {
            let (exit_code, signal, http_status) = (None, None, None);
            let (error, output_tail) = (String::new(), String::new());
            let ending = Ending { outcome, exit_code, signal, http_status, duration_ms: 1, error, output_tail };
            self.send(Step::Complete { run: self.run(minute), owner: self.me.clone(), start: 1, ending }).await;
        }

        async fn ends(&self, minute: i64, outcome: Outcome) {
            self.begin(minute).await;
            self.complete(minute, outcome).await;
        }

        fn letter(&self, occasion: Occasion, facts: Facts) -> Arc<Letter> {
            let (about, at, spec) = (About::Told(occasion), DateTime::default(), Arc::clone(&self.spec));
            Arc::new(Letter { about, at, spec, facts })
        }

        fn letter_of_run(&self, occasion: Occasion, minute: i64) -> Arc<Letter> {
            self.letter(occasion, Facts { run_id: self.run(minute).to_string(), ..Facts::default() })
        }

        async fn is_over(&self, letter: &Arc<Letter>) -> bool {
            let over = Past::new(Arc::clone(&self.store), Handle::current()).over(&[Arc::clone(letter)]).await;
            over == [true]
        }
    }

    #[tokio::test]
    async fn a_failure_is_over_when_a_success_has_ended_it_and_not_while_the_job_fails_again() {
        let job = Job::new().await;
        let failure = job.letter_of_run(Occasion::Failure, 1);
        job.ends(0, Outcome::Succeeded).await;
        job.begin(1).await;
        assert!(!job.is_over(&failure).await, "its end is not recorded: the success came before it");
        job.complete(1, Outcome::Failed).await;
        assert!(!job.is_over(&failure).await);
        job.ends(2, Outcome::Succeeded).await;
        assert!(job.is_over(&failure).await, "although the history has no place for it any more");
        job.ends(3, Outcome::TimedOut).await;
        assert!(!job.is_over(&failure).await);
        job.ends(4, Outcome::Succeeded).await;
        assert!(job.is_over(&failure).await);
        let success = job.letter_of_run(Occasion::Success, 4);
        assert!(!job.is_over(&success).await, "good news is never over");
    }

    #[tokio::test]
    async fn a_missed_tick_and_a_job_that_was_stale_are_over_with_the_next_success() {
        let job = Job::new().await;
        let (run, owner, expect) = (job.run(1), job.me.clone(), Expect::Absent { after_ms: 0 });
        let decision = Decision::Missed(MissedReason::NoReplica);
        job.send(Step::Settle { run, owner, previous: 0, expect, decision }).await;
        let missed = job.letter_of_run(Occasion::Missed, 1);
        let range = job.letter(Occasion::Missed, Facts { ticks: 9, ..Facts::default() });
        let never = job.letter(Occasion::Stale, Facts::default());
        for letter in [&missed, &range, &never] {
            assert!(!job.is_over(letter).await, "{letter:?}");
        }
        job.ends(2, Outcome::Succeeded).await;
        for letter in [&missed, &range, &never] {
            assert!(job.is_over(letter).await, "{letter:?}");
        }
        let last_success = job.run(2).scheduled_for.to_string();
        let stale = job.letter(Occasion::Stale, Facts { last_success, ..Facts::default() });
        assert!(!job.is_over(&stale).await);
        job.ends(3, Outcome::Succeeded).await;
        assert!(job.is_over(&stale).await);
    }

    #[tokio::test]
    async fn a_lost_run_that_is_started_again_is_over_when_that_start_has_succeeded() {
        let job = Job::new().await;
        job.ends(0, Outcome::Succeeded).await;
        job.begin(1).await;
        let rerun =
            job.letter(Occasion::Lost, Facts { run_id: job.run(1).to_string(), rerun: true, ..Facts::default() });
        assert!(!job.is_over(&rerun).await, "it counts as no failure, and is not well either");
        job.complete(1, Outcome::Succeeded).await;
        assert!(job.is_over(&rerun).await);
        job.ends(2, Outcome::Lost).await;
        let lost = job.letter_of_run(Occasion::Lost, 2);
        assert!(!job.is_over(&lost).await);
        job.ends(3, Outcome::Succeeded).await;
        assert!(job.is_over(&lost).await);
    }

    #[tokio::test]
    async fn nothing_is_over_for_a_store_that_does_not_tell_and_it_is_left_alone_for_a_while() {
        let job = Job::new().await;
        let failure = job.letter_of_run(Occasion::Failure, 0);
        job.ends(0, Outcome::Failed).await;
        job.ends(1, Outcome::Succeeded).await;
        for broken in [Broken::Refusing, Broken::Silent] {
            let mut past = Past::new(Arc::new(broken), Handle::current());
            let asked = Instant::now();
            assert_eq!(past.over(&[Arc::clone(&failure)]).await, [false]);
            assert!(asked.elapsed() < WITHIN + Duration::from_secs(5));
            past.store = Arc::clone(&job.store);
            assert_eq!(past.over(&[Arc::clone(&failure)]).await, [false], "nobody looks");
            past.blind_until = Some(Instant::now());
            assert_eq!(past.over(&[Arc::clone(&failure)]).await, [true]);
        }
    }
}
