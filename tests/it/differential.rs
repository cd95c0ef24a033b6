//! The rules are written twice: in Rust, and in Lua. Here random steps go to both, and to the rows of SQL, and
//! everything must be equal, the instants of the store's own clock included.

use crate::support::bench::Bench;
use crate::support::bench::Kind;
use crate::support::scene::HOUR_MS;
use crate::support::scene::registration;
use crate::support::scene::replica;
use onecron::clock::Clock;
use onecron::clock::SystemClock;
use onecron::job::Answer;
use onecron::job::Claim;
use onecron::job::Decision;
use onecron::job::Ending;
use onecron::job::Expect;
use onecron::job::Former;
use onecron::job::HistoryEntry;
use onecron::job::JobName;
use onecron::job::JobRecord;
use onecron::job::Knew;
use onecron::job::MissedReason;
use onecron::job::Order;
use onecron::job::Outcome;
use onecron::job::Pause;
use onecron::job::Reassert;
use onecron::job::Registration;
use onecron::job::ReplicaId;
use onecron::job::RunKey;
use onecron::job::RunRecord;
use onecron::job::RunState;
use onecron::job::Seen;
use onecron::job::SkipReason;
use onecron::job::Step;
use onecron::job::StopReason;
use onecron::job::Tick;
use onecron::job::WhenBusy;
use onecron::store::Records;
use proptest::prelude::*;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering;

/// A step before it is known how the run stands: `Seen` and `start` are taken from the model, or spoilt.
#[derive(Debug, Clone)]
struct Move {
    job: u8,
    tick: usize,
    owner: u8,
    what: What,
    /// Spoils one part of what was seen, or the start; mostly none.
    spoilt: u8,
}

#[derive(Debug, Clone)]
enum What {
    Register {
        schedule: u8,
        keeps: bool,
        history: [u32; 3],
        knows: u8,
    },
    Claim {
        take: bool,
        takeover: bool,
        exclusive: bool,
        rerun: bool,
        far: bool,
        when_busy: WhenBusy,
    },
    Begin {
        request: u8,
    },
    Wait,
    AskStop {
        reason: StopReason,
    },
    Order {
        key: u8,
        runs_for: bool,
        despite_pause: bool,
    },
    Pause {
        all: bool,
        by: Option<u8>,
        only_if: bool,
    },
    /// By what is known, or by something else.
    CallStale {
        knows: bool,
        early: bool,
    },
    Renew,
    Reassert {
        begun: bool,
        exclusive: bool,
    },
    Complete {
        outcome: Outcome,
        tail: u8,
    },
    Abandon,
    SettleAbsent {
        early: bool,
        decision: Decision,
    },
    /// From another tick on, perhaps a later one.
    SettleRange {
        first: usize,
        early: bool,
        decision: Decision,
    },
    SettleOwn {
        decision: Decision,
    },
    /// Without a decision: the one that fits a run that does not move.
    SettleUnchanged {
        decision: Option<Decision>,
    },
    Read,
}

/// How many there are.
const TICKS: usize = 11;

/// Six of the last two hours, one before the job's memory, one tomorrow.
fn tick(now: i64, n: usize) -> Tick {
    let offsets = [-7200, -6600, -6000, -5400, -4800, -4200, -20_000, 86_400];
    let start = now / 60 * 60;
    match n.checked_sub(offsets.len()) {
        None => Tick::from_seconds(start + offsets[n]),
        // Manual runs: in the second of a tick, between two, and before the job's memory.
        Some(n) => Tick::manual((start + [-6600, -6300, -20_000][n % 3]) * 1000 + 123, 0x7f3a),
    }
}

fn decisions() -> impl Strategy<Value = Decision> {
    prop_oneof![
        1 => Just(Decision::Missed(MissedReason::NoReplica)),
        2 => Just(Decision::Missed(MissedReason::StoreForgot)),
        1 => Just(Decision::Skipped(SkipReason::Overlap)),
        1 => prop::sample::select(StopReason::ALL).prop_map(Decision::Stopped),
        3 => Just(Decision::Lost),
        2 => Just(Decision::Drained),
    ]
}

fn moves() -> impl Strategy<Value = Move> {
    let outcomes = prop::sample::select(&Outcome::ALL[..8]);
    let what = prop_oneof![
        4 => (0..8_u8, any::<bool>(), prop::array::uniform3(0..3_u32), 0..8_u8)
            .prop_map(|(schedule, keeps, history, knows)| What::Register { schedule: schedule / 7, keeps, history, knows }),
        4 => (prop::bool::weighted(0.7), prop::bool::weighted(0.6))
            .prop_map(|(begun, exclusive)| What::Reassert { begun, exclusive }),
        8 => (prop::bool::weighted(0.9), prop::bool::weighted(0.7), prop::bool::weighted(0.6), prop::bool::weighted(0.7), any::<bool>(), prop::sample::select(WhenBusy::ALL))
            .prop_map(|(take, takeover, exclusive, rerun, far, when_busy)| What::Claim { take, takeover, exclusive, rerun, far, when_busy }),
        6 => Just(What::Wait),
        1 => prop::sample::select(StopReason::ALL).prop_map(|reason| What::AskStop { reason }),
        3 => (0..6_u8, any::<bool>(), any::<bool>())
            .prop_map(|(key, runs_for, despite_pause)| What::Order { key, runs_for, despite_pause }),
        1 => (any::<bool>(), prop::option::weighted(0.4, 0..3_u8), prop::bool::weighted(0.2))
            .prop_map(|(all, by, only_if)| What::Pause { all, by, only_if }),
        8 => (0..3_u8).prop_map(|request| What::Begin { request }),
        2 => (prop::bool::weighted(0.8), prop::bool::weighted(0.2))
            .prop_map(|(knows, early)| What::CallStale { knows, early }),
        2 => Just(What::Renew),
        4 => (outcomes, 0..3_u8).prop_map(|(outcome, tail)| What::Complete { outcome, tail }),
        2 => Just(What::Abandon),
        2 => (prop::bool::weighted(0.1), decisions())
            .prop_map(|(early, decision)| What::SettleAbsent { early, decision }),
        3 => (0..TICKS, prop::bool::weighted(0.1), decisions())
            .prop_map(|(first, early, decision)| What::SettleRange { first, early, decision }),
        2 => decisions().prop_map(|decision| What::SettleOwn { decision }),
        6 => prop::option::weighted(0.3, decisions()).prop_map(|decision| What::SettleUnchanged { decision }),
        1 => Just(What::Read),
    ];
    // Few ticks and owners, and those often the same, so that runs get somewhere.
    let tick = prop_oneof![7 => 0..3_usize, 3 => 0..TICKS, 3 => 8..10_usize];
    (0..10_u8, tick, 0..3_u8, what, 0..24_u8).prop_map(|(job, tick, owner, what, spoilt)| Move {
        job: job / 8,
        tick,
        owner,
        what,
        spoilt,
    })
}

/// What a watcher saw, spoilt in one of its parts or not.
fn seen(run: Option<&RunRecord>, spoilt: u8) -> Seen {
    let absent = || Seen { owner: replica("web-0"), start: 0, state: RunState::Claimed, number: 1 };
    let mut seen = run.map_or_else(absent, RunRecord::seen);
    match spoilt {
        0 => seen.owner = replica("nobody"),
        1 => seen.start += 1,
        2 => seen.number += 1,
        3 => seen.state = if seen.state == RunState::Begun { RunState::Lost } else { RunState::Begun },
        _ => {}
    }
    seen
}

/// A registration, of a replica that has just met the job or of one that knew it.
fn registration_of(
    made: &Move,
    job: &JobName,
    (now, schedule, keeps, history, knows): (i64, u8, bool, [u32; 3], u8),
) -> Registration {
    let mut registration = registration(job);
    registration.schedule = format!("{schedule} * * * *");
    registration.keep_ms = if keeps { 240 * HOUR_MS } else { 0 };
    registration.history = history;
    registration.quiet_ms = 10 * u64::from(made.owner);
    // What it knew of the job, and whether it misses something; `since` and the mark are filled in later.
    let decided_through = tick(now, made.tick).seconds();
    let knew = |missing, quiet_for_ms| Some(Knew { decided_through, missing, quiet_for_ms, ..Knew::default() });
    registration.knew = match knows {
        0 | 1 => knew(true, 0),
        2 => knew(false, 10),
        3 => knew(false, 20),
        _ => None,
    };
    registration.passed = made.spoilt.is_multiple_of(3).then_some((decided_through, 0));
    if let Some(knew) = registration.knew.as_mut().filter(|_| made.spoilt.is_multiple_of(2)) {
        knew.schedule = format!("{}\n* * * *", made.owner);
        knew.zone = "Asia/Tokyo".into();
        knew.former = vec![Former::new(tick(now, 1).seconds(), "UTC", "@daily")];
    }
    if registration.knew.is_some() {
        registration.skew_tolerance_ms = -5_700_000;
    }
    registration
}

/// An owner's word for its run.
fn word_of(made: &Move, (run, owner, start): (RunKey, ReplicaId, u32), (begun, exclusive): (bool, bool)) -> Reassert {
    Reassert {
        owner,
        start,
        number: u64::from(made.spoilt),
        begun,
        lease_ms: u64::from(made.owner),
        grace_ms: 2,
        takeover_ms: 3,
        delay_ms: i64::from(made.spoilt),
        stop_grace_ms: 4,
        exclusive,
        when_busy: WhenBusy::ALL[usize::from(made.spoilt) % WhenBusy::ALL.len()],
        rerun: !exclusive,
        trigger: "schedule".into(),
        spec_hash: format!("hash-{}", made.owner),
        run,
    }
}

fn order_of(
    made: &Move,
    (run, owner): (RunKey, ReplicaId),
    (key, runs_for, despite_pause): (u8, Option<Tick>, bool),
) -> Order {
    let key = if key < 3 { format!("key {key}") } else { String::new() };
    Order { run, owner, by: format!("ada \"{}\"", made.owner), key, runs_for, despite_pause }
}

/// Calls a job stale, by what its record says or by something else.
fn call_of(made: &Move, (job, tick): (JobName, Tick), (known, early): (Option<&JobRecord>, bool)) -> Step {
    let last_success = known.map_or(Some(tick), |record| record.last_success);
    let since = known.map_or(7, |record| record.since);
    let after_ms = if early { 48 * HOUR_MS } else { 60_000 };
    Step::CallStale { job, by: replica(&format!("web-{}", made.owner)), last_success, since, after_ms }
}

fn ending_of(made: &Move, (outcome, tail): (Outcome, u8)) -> Ending {
    Ending {
        outcome,
        exit_code: (made.owner > 0).then_some(i32::from(made.owner) - 1),
        signal: (made.owner == 0).then_some(15),
        http_status: (made.owner > 1).then_some(200 + u16::from(made.owner)),
        duration_ms: 99,
        error: "\"odd\" \\ text".into(),
        output_tail: "tail ".repeat(usize::from(tail)),
    }
}

/// The step that a move makes of what is there.
fn step(made: &Move, model: &Records, now: i64) -> Step {
    let job = JobName::new(["alpha", "beta"][usize::from(made.job)]).unwrap();
    let run = RunKey::new(job.clone(), tick(now, made.tick));
    let found = model.runs(&job).find(|record| record.scheduled_for == run.scheduled_for);
    // Owners are often the right ones.
    let stranger = replica(&format!("web-{}", made.owner));
    let owner = match found {
        Some(record) if made.spoilt > 6 && !matches!(made.what, What::Claim { .. }) => record.owner.clone(),
        _ => stranger,
    };
    let start = found.map_or(0, |record| record.start) + u32::from(made.spoilt == 1);
    let previous = if made.spoilt.is_multiple_of(2) { run.scheduled_for.seconds() - 600 } else { 0 };
    let settle = |expect, decision| Step::Settle { run: run.clone(), owner: owner.clone(), previous, expect, decision };
    match &made.what {
        What::Register { schedule, keeps, history, knows } => {
            Step::Register(registration_of(made, &job, (now, *schedule, *keeps, *history, *knows)))
        }
        What::Claim { take, takeover, exclusive, rerun, far, when_busy } => Step::Claim(Claim {
            previous: if *far { 0 } else { previous },
            owner: owner.clone(),
            delay_ms: i64::from(made.spoilt) * 400,
            take: *take,
            takeover: takeover.then(|| seen(found, made.spoilt)),
            lease_ms: u64::from(made.owner),
            grace_ms: 2,
            takeover_ms: 3,
            stop_grace_ms: 4,
            exclusive: *exclusive,
            when_busy: *when_busy,
            rerun: *rerun,
            trigger: "schedule".into(),
            spec_hash: format!("hash-{}", made.owner),
            run,
        }),
        // A begin sent again names the start before.
        What::Begin { request } => {
            let start = if made.spoilt % 4 == 3 { start.saturating_sub(1) } else { start };
            Step::Begin { run, owner, start, request: format!("request-{request}") }
        }
        What::Wait => Step::Wait { run, owner, start },
        What::AskStop { reason } => Step::AskStop { run, by: owner.to_string(), reason: *reason },
        What::Order { key, runs_for, despite_pause } => {
            // Most are about a run by hand.
            let by_hand = || RunKey::new(job, tick(now, 8 + usize::from(made.spoilt % 3)));
            let run = if made.spoilt > 2 { by_hand() } else { run };
            let runs_for = runs_for.then(|| tick(now, usize::from(*key)));
            Step::Order(order_of(made, (run, owner.clone()), (*key, runs_for, *despite_pause)))
        }
        What::Pause { all, by, only_if } => {
            let reason = |by: u8| if by == 0 { "" } else { "it is \"odd\" %s" };
            let pause = by.map(|by| Pause::new(&format!("ada-{by}"), reason(by)));
            Step::Pause { job, all: *all, pause, only_if: only_if.then_some(7) }
        }
        What::CallStale { knows, early } => {
            let known = model.job(&job).filter(|_| *knows);
            call_of(made, (job, run.scheduled_for), (known, *early))
        }
        What::Renew => Step::Renew { run, owner, start },
        What::Reassert { begun, exclusive } => {
            let owner = owner.clone();
            Step::Reassert(word_of(made, (run, owner, start), (*begun, *exclusive)))
        }
        What::Complete { outcome, tail } => {
            Step::Complete { run, owner, start, ending: ending_of(made, (*outcome, *tail)) }
        }
        What::Abandon => Step::Abandon { run, owner, start },
        What::SettleAbsent { early, decision } => {
            settle(Expect::Absent { after_ms: if *early { 24 * HOUR_MS } else { 60_000 } }, *decision)
        }
        What::SettleRange { first, early, decision } => {
            let (first, after_ms) = (tick(now, *first), if *early { 24 * HOUR_MS } else { 60_000 });
            let decision = match decision {
                Decision::Lost => Decision::Missed(MissedReason::StoreUnavailable),
                other => *other,
            };
            settle(Expect::AbsentRange { first, count: 7, after_ms }, decision)
        }
        What::SettleOwn { decision } => settle(Expect::Own(owner.clone()), *decision),
        What::SettleUnchanged { decision } => {
            let fitting = || match found.map(|record| record.state) {
                Some(RunState::Lost) => Decision::Drained,
                Some(RunState::Begun) => Decision::Lost,
                _ => Decision::Missed(MissedReason::NoReplica),
            };
            settle(Expect::Unchanged(seen(found, made.spoilt)), decision.unwrap_or_else(fitting))
        }
        What::Read => Step::Read { run },
    }
}

/// What a store is, is its own.
fn plain(mut answer: Answer) -> Answer {
    answer.job.iter_mut().for_each(|job| job.identity.clear());
    answer
}

/// What the rules say of a step that a store did at some moment of a request: the store's clock is this machine's, so
/// there is a millisecond, not before that of the step before, at which they say what the store said, instants included.
/// If there is none, what they say at the last one.
fn at_some_moment(model: &mut Records, step: &Step, said: &Answer, (from, to): (&mut i64, i64)) -> Answer {
    for now in *from..=to {
        let mut tried = model.clone();
        let answer = plain(tried.apply(step, now));
        if answer == *said || now == to {
            (*model, *from) = (tried, now);
            return answer;
        }
    }
    unreachable!("the request lasted from {from} to {to}")
}

#[test]
fn the_stores_agree_on_random_steps() {
    let kinds = [Kind::Sqlite, Kind::Redis, Kind::Valkey, Kind::Memcached, Kind::Postgres, Kind::MariaDb];
    let benches: Vec<Bench> = kinds.into_iter().filter_map(Bench::start).collect();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let cases = AtomicU32::new(0);
    // The seed of a failing sequence is printed and the sequence shrunk; nothing is written beside the source.
    let config = ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() };
    proptest!(config, |(moves in prop::collection::vec(moves(), 1..100))| {
        let case = cases.fetch_add(1, Ordering::SeqCst);
        runtime.block_on(compare(&benches, &moves, case))?;
    });
}

/// A registration of a replica that has seen this store's record: its instants are those of its own clock.
fn know(step: &mut Step, record: Option<JobRecord>) {
    let (Step::Register(registration), Some(record)) = (step, record) else { return };
    let knew = registration.knew.take();
    registration.knew = knew.map(|knew| Knew { since: record.since, forgot_at: record.forgot_at, ..knew });
    // Of the schedules that it was told of, one is passed: from before what is decided, or from after.
    registration.passed = registration.passed.and_then(|(from, _)| Some((from, record.former.last()?.until)));
}

async fn compare(benches: &[Bench], moves: &[Move], case: u32) -> Result<(), TestCaseError> {
    let millis = || SystemClock.now().wall.timestamp_millis();
    let now = millis().div_euclid(1000);
    let mut model = Records::default();
    let mut steps = Vec::new();
    let first = Move {
        job: 0,
        tick: 0,
        owner: 0,
        what: What::Register { schedule: 0, keeps: true, history: [9; 3], knows: 9 },
        spoilt: 9,
    };
    for made in std::iter::once(&first).chain(moves) {
        let mut step = step(made, &model, now);
        let record = model.job(step.job()).cloned();
        know(&mut step, record);
        model.apply(&step, millis());
        steps.push(step);
    }
    for bench in benches {
        // Servers of SQL take longest, and what they do is the model's code.
        if matches!(bench.kind, Kind::Postgres | Kind::MariaDb) && !case.is_multiple_of(3) {
            continue;
        }
        let store = bench.open(&format!("case-{case}"));
        let mut model = Records::default();
        for batch in steps.chunk_by(|_, next| !matches!(next, Step::Register(_))) {
            let mut batch = batch.to_vec();
            let jobs = store.jobs().await.unwrap();
            let record = jobs.into_iter().find(|(name, _)| name == batch[0].job()).map(|(_, record)| record);
            know(&mut batch[0], record);
            let mut from = millis();
            let said = store.apply(&batch).await.map_err(|error| TestCaseError::fail(error.to_string()))?;
            let to = millis();
            for (step, said) in batch.iter().zip(said.into_iter().map(plain)) {
                let wanted = at_some_moment(&mut model, step, &said, (&mut from, to));
                prop_assert_eq!(said, wanted, "{:?}: {:?}", bench.kind, step);
            }
        }
        for (name, mut record) in store.jobs().await.unwrap() {
            record.identity.clear();
            let wanted = model.job(&name).map(|job| JobRecord { identity: String::new(), ..job.clone() });
            prop_assert_eq!(Some(record), wanted, "{:?}: {}", bench.kind, name);
            let found = store.history(&name, 100).await.unwrap();
            let wanted: Vec<HistoryEntry> = model.history(&name).cloned().collect();
            prop_assert_eq!(found, wanted, "{:?}: history of {}", bench.kind, name);
        }
    }
    Ok(())
}
