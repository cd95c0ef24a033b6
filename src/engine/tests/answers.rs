//! A store's answers, made by hand.

use super::*;

/// Through when all is decided: when most engines here start.
pub const DECIDED: i64 = TICK - 60;

pub fn job_record(decided_through: i64) -> JobRecord {
    JobRecord {
        format: FORMAT,
        revision: 1,
        schedule: String::new(), // that of the table: see `Bench::complete`
        zone: "UTC".into(),
        former: Vec::new(),
        spec_hash: "hash-a".into(),
        registered_at: 0,
        since: 0,
        floor: 0,
        decided_through,
        last_begun: 0,
        manual_token: 0,
        range: None,
        slot: None,
        open: Vec::new(),
        paused: None,
        all_paused: None,
        last_success: Some(Tick::from_seconds(DECIDED)),
        failures: 0,
        missed: 0,
        stale: None,
        keep_ms: 3_600_000,
        history: [200, 3, 10],
        identity: "store".into(),
        evicted: 0,
        forgot_at: 0,
        quiet_ms: 0,
    }
}

/// A run of the other replica, of a job that forbids overlap.
pub fn record(run: &RunKey, (state, start, number): (RunState, u32, u64)) -> RunRecord {
    RunRecord {
        state,
        start,
        number,
        request: "1".into(),
        lease_ms: 15_000,
        grace_ms: 10_000,
        stop_grace_ms: 30_000,
        takeover_ms: 5_000,
        exclusive: true,
        trigger: "schedule".into(),
        spec_hash: "hash-a".into(),
        ..RunRecord::claimed(run.scheduled_for, &other())
    }
}

pub fn mine(run: &RunKey, at: (RunState, u32, u64)) -> RunRecord {
    RunRecord { owner: me(), ..record(run, at) }
}

pub fn answer(verdict: Verdict) -> Answer {
    Answer { verdict, job: Some(job_record(DECIDED)), run: None, open: Vec::new() }
}

/// The record of a tick decides it: the job's record is newer, and has advanced.
pub fn with(verdict: Verdict, run: RunRecord) -> Answer {
    let through = run.scheduled_for.seconds().max(DECIDED);
    let revision = u64::try_from(through - DECIDED).unwrap() + 1;
    let job = Some(JobRecord { revision, ..job_record(through) });
    Answer { job, run: Some(run), ..answer(verdict) }
}

pub fn held(record: RunRecord) -> Answer {
    with(Verdict::Held, record)
}

pub fn read(record: RunRecord) -> Answer {
    with(Verdict::Read, record)
}

/// What a store says to whom it likes.
pub fn yes(step: &Step) -> Answer {
    match step {
        Step::Register(_) => answer(Verdict::Registered { fresh: false, rescheduled: false }),
        Step::Claim(claim) if claim.take => {
            let start = claim.takeover.as_ref().map_or(0, |seen| seen.start);
            let (exclusive, rerun, when_busy) = (claim.exclusive, claim.rerun, claim.when_busy);
            let won = mine(&claim.run, (RunState::Claimed, start, 1));
            with(Verdict::Won, RunRecord { exclusive, rerun, when_busy, ..won })
        }
        Step::Claim(_) => answer(Verdict::Free),
        Step::Order(_) => answer(Verdict::Ordered),
        Step::Pause { .. } => answer(Verdict::Noted),
        Step::CallStale { .. } => answer(Verdict::Settled),
        Step::Begin { run, start, .. } => with(Verdict::Begun, mine(run, (RunState::Begun, start + 1, 2))),
        Step::Wait { .. } => answer(Verdict::Free),
        Step::AskStop { .. } => answer(Verdict::Asked),
        Step::Renew { run, start, .. } => with(Verdict::Renewed, mine(run, (RunState::Begun, *start, 3))),
        Step::Reassert(word) => {
            let state = if word.begun { RunState::Begun } else { RunState::Claimed };
            with(Verdict::Renewed, mine(&word.run, (state, word.start, word.number + NUMBER_LEAP)))
        }
        Step::Complete { run, start, .. } => with(Verdict::Recorded, mine(run, (RunState::Done, *start, 3))),
        Step::Abandon { run, start, .. } => with(Verdict::Released, mine(run, (RunState::Abandoned, *start, 3))),
        Step::Settle { run, expect: Expect::Unchanged(seen), decision: Decision::Lost, .. } => {
            let at = (RunState::Lost, seen.start, seen.number);
            with(Verdict::Settled, RunRecord { owner: seen.owner.clone(), ..record(run, at) })
        }
        Step::Settle { run, .. } => with(Verdict::Settled, mine(run, (RunState::Done, 0, 0))),
        Step::Read { .. } => answer(Verdict::Read),
    }
}
