//! What a claim means for a run in the foreground, with a store that a test holds in its hands.

use super::*;
use crate::clock::SystemClock;
use crate::config;
use crate::config::Source;
use crate::job::Gathering;
use crate::job::HistoryEntry;
use crate::job::JobName;
use crate::job::JobRecord;
use crate::job::Presence;
use crate::job::RunKey;
use crate::job::Tick;
use crate::secret::Redaction;
use crate::store::Error;
use crate::store::ErrorKind;
use crate::store::Identity;
use crate::store::Probe;
use crate::store::doing;
use async_trait::async_trait;
use chrono::DateTime;
use chrono::Utc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering;

const LEASE: Duration = Duration::from_millis(400);

/// A store that is away until it is let back; then it renews and records whatever it is asked.
#[derive(Debug, Default)]
struct Away(AtomicBool);

#[async_trait]
impl Store for Away {
    fn has_clock(&self) -> bool {
        true
    }

    fn url(&self) -> &str {
        "away:"
    }

    async fn apply(&self, steps: &[Step]) -> Result<Vec<Answer>, Error> {
        if !self.0.load(Ordering::Relaxed) {
            let (operation, store, detail) =
                (doing::step(&steps[0]), "away:".to_owned(), "connection refused".to_owned());
            return Err(Error { kind: ErrorKind::NotSent, operation, store, detail });
        }
        Ok(steps
            .iter()
            .map(|step| answer(if matches!(step, Step::Renew { .. }) { Verdict::Renewed } else { Verdict::Recorded }))
            .collect())
    }

    async fn jobs(&self) -> Result<Vec<(JobName, JobRecord)>, Error> {
        Ok(Vec::new())
    }

    async fn history(&self, _: &JobName, _: usize) -> Result<Vec<HistoryEntry>, Error> {
        Ok(Vec::new())
    }

    async fn server_time(&self) -> Result<DateTime<Utc>, Error> {
        Ok(DateTime::default())
    }

    async fn identity(&self) -> Result<Identity, Error> {
        Ok(Identity::default())
    }

    async fn probe(&self) -> Result<Probe, Error> {
        std::future::pending().await
    }

    async fn retire(&self, _: Duration) -> Result<Vec<JobName>, Error> {
        Ok(Vec::new())
    }

    async fn meet(&self, _: Option<&Presence>, _: &[Presence]) -> Result<Gathering, Error> {
        Ok(Gathering { at: 0, members: Vec::new() })
    }

    async fn leave(&self, _: &ReplicaId) -> Result<(), Error> {
        Ok(())
    }
}

fn answer(verdict: Verdict) -> Answer {
    Answer { verdict, job: None, run: None, open: Vec::new() }
}

/// A run that has begun at an instant, of a job with further keys.
fn run(store: &Arc<Away>, sent: Boot, (command, rest): (&str, &str)) -> Foreground {
    let text = format!("jobs:\n  - {{name: work, schedule: '@yearly', command: {command:?}{rest}}}\n");
    let table = config::load(&[Source::new("jobs.yaml", text.into_bytes())], DateTime::default()).unwrap().table;
    let owner = ReplicaId::new("test", "1");
    let run = RunKey::new(JobName::new("work").unwrap(), Tick::manual(1_772_330_400_000, 7));
    let scheduled_for = run.scheduled_for;
    let context = RunContext {
        run: run.clone(),
        scheduled_for,
        start: 1,
        token: 1,
        trigger: "manual".to_owned(),
        holder: owner.clone(),
        last_success: None,
        redaction: Redaction::default(),
        trace: None,
    };
    let begun = Begun { run, start: 1, token: 1, scheduled_for, last_success: None, sent };
    let claim = Some(Claimed { store: Arc::clone(store) as Arc<dyn Store>, owner, begun, lease: LEASE });
    let (clock, guardian) = (Arc::new(SystemClock), "/no/such/guardian".into());
    Foreground { spec: Arc::clone(&table.jobs[0]), context, claim, clock, guardian }
}

const FREE: &str = ", concurrencyPolicy: Allow";

fn now() -> Boot {
    SystemClock.now().boot
}

#[tokio::test]
async fn a_run_that_goes_on_after_its_lease_is_renewed_again() {
    let folder = tempfile::tempdir().unwrap();
    let go = folder.path().join("go");
    let command = format!("until test -e {}; do sleep 0.05; done", go.display());
    let store = Arc::new(Away::default());
    let mut told = Vec::new();
    let mut tell = |text: &str| {
        told.push(text.to_owned());
        if text.ends_with("it goes on") {
            store.0.store(true, Ordering::Relaxed);
        }
        if text.contains("confirmed again") {
            std::fs::write(&go, "").unwrap();
        }
    };
    let run = run(&store, now(), (&command, FREE));
    let carried = timeout(Duration::from_secs(30), run.carry_out(listen().unwrap(), &mut tell)).await;
    let ended = carried.expect("it is renewed after its lease");
    assert_eq!((ended.ending.outcome, ended.unrecorded), (Outcome::Succeeded, None));
    let [lost, again] = told.as_slice() else { panic!("{told:?}") };
    assert!(lost.contains("for a whole lease") && lost.contains("connection refused"), "{lost}");
    assert!(again.contains("confirmed again"), "{again}");
}

#[tokio::test]
async fn nothing_is_started_under_a_begin_that_was_first_sent_a_lease_ago() {
    let folder = tempfile::tempdir().unwrap();
    let made = folder.path().join("made");
    let store = Arc::new(Away(true.into()));
    let before = Boot::from_nanos(now().nanos() - u64::try_from(LEASE.as_nanos()).unwrap() - 1);
    for (sent, outcome) in [(before, Outcome::NotStarted), (now() + Duration::from_secs(60), Outcome::Succeeded)] {
        let run = run(&store, sent, (&format!("touch {}", made.display()), FREE));
        let ended = run.carry_out(listen().unwrap(), &mut |_| {}).await;
        assert_eq!((ended.ending.outcome, made.exists()), (outcome, outcome == Outcome::Succeeded), "{ended:?}");
    }
}

#[tokio::test]
async fn a_lease_is_lost_by_what_the_store_says_of_the_run_and_by_nothing_else() {
    let store = Arc::new(Away::default());
    for (policy, is_stopped) in [("", true), (FREE, false)] {
        let run = run(&store, now(), ("true", policy));
        for (verdict, is_lost) in [
            (Verdict::Renewed, false),
            (Verdict::Unregistered, false),
            (Verdict::Unreadable { format: 9 }, false),
            (Verdict::Lost, true),
            (Verdict::Done, true),
            (Verdict::Gone, true),
            (Verdict::Fenced, true),
        ] {
            let mut tell = |_: &str| {};
            let mut watch = Watch::new(&run, now(), &mut tell);
            let (stop, stopped) = watch::channel(false);
            watch.renewed(now(), Ok(answer(verdict)), &Reach::Request(stop));
            assert_eq!((watch.lease_lost, watch.renew_at.is_none()), (is_lost, is_lost), "{verdict:?}");
            assert_eq!(*stopped.borrow(), is_lost && is_stopped, "{verdict:?} {policy}");
        }
    }
}

#[tokio::test]
async fn a_renewal_without_an_answer_is_sent_again_after_the_lease_as_well() {
    let run = run(&Arc::default(), now(), ("true", FREE));
    let mut tell = |_: &str| {};
    let mut watch = Watch::new(&run, now(), &mut tell);
    let (stop, _stopped) = watch::channel(false);
    let reach = Reach::Request(stop);
    watch.look(now() + LEASE * 2, &reach);
    assert!(watch.lease_lost);
    watch.renewed(now(), Err("no answer".to_owned()), &reach);
    assert!(watch.renew_at.is_some_and(|at| at <= now() + RENEW_AGAIN) && watch.renewal(now()).is_some());
}
