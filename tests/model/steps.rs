//! What the model's clients ask, in a few bytes; and the same as the product's steps. Who changes [`Step`] changes this
//! file, and only this one.

use super::world::REPLICAS;
use onecron::job::Answer;
use onecron::job::Claim;
use onecron::job::Decision;
use onecron::job::Ending;
use onecron::job::Expect;
use onecron::job::JobName;
use onecron::job::MissedReason;
use onecron::job::Outcome;
use onecron::job::Registration;
use onecron::job::ReplicaId;
use onecron::job::RunKey;
use onecron::job::RunRecord;
use onecron::job::RunState;
use onecron::job::Seen;
use onecron::job::SkipReason;
use onecron::job::Step;
use onecron::job::Tick;
use onecron::job::Verdict;
use onecron::job::WhenBusy;

/// Ticks of the model, by number.
pub const TICKS: usize = 2;
/// Seconds of the first tick; the second is a minute later.
const FIRST: i64 = 1_772_323_260;
const MINUTE: i64 = 60;
/// Starting deadline, seconds.
const WINDOW: i64 = 30;
/// What the clocks show when all starting deadlines have passed; before, the number of the tick that came last.
pub const OVER: u8 = TICKS as u8;

/// How the job is defined.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Kind {
    pub exclusive: bool,
    pub rerun: bool,
}

/// One start of one replica.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Owner {
    pub replica: u8,
    pub life: u8,
}

/// What a client knows of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct View {
    pub state: RunState,
    pub owner: Owner,
    pub start: u8,
    pub number: u8,
}

/// What is asked about a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Verb {
    Claim(Option<View>),
    Begin {
        start: u8,
        request: u8,
    },
    Renew(u8),
    Complete(u8),
    Abandon(u8),
    /// A claim that did not begin is not to run.
    SettleOwn(Why),
    /// Nobody claimed it.
    SettleAbsent,
    Lost(View),
    Drained(View),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Why {
    Late,
    Overlap,
    Superseded,
    Forgot,
}

/// A request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Ask {
    pub tick: u8,
    pub owner: Owner,
    pub verb: Verb,
}

/// Verdicts without their details.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Said {
    Won,
    Held,
    Done,
    /// `TooOld`, `Forgot`.
    Refused,
    Begun,
    Busy {
        renewed: bool,
    },
    Superseded,
    Forgot,
    Gone,
    Renewed,
    Recorded,
    Settled,
    /// `Fenced`, `Lost`, `Changed`, `Released`: the view says the rest.
    Other,
}

pub fn job() -> JobName {
    JobName::new("model").expect("it is a name")
}

pub const fn tick(number: u8) -> Tick {
    Tick::from_seconds(FIRST + MINUTE * number as i64)
}

/// The store's time when the clocks say so: a second after a tick, or after all starting deadlines.
pub const fn now(clock: u8) -> i64 {
    let seconds = if clock == OVER { FIRST + MINUTE * 3 } else { FIRST + MINUTE * clock as i64 + 1 };
    seconds * 1000
}

/// Half a minute before the first tick.
pub const BEFORE: i64 = (FIRST - WINDOW) * 1000;

impl Owner {
    pub fn id(self) -> ReplicaId {
        ReplicaId::new(&format!("r{}", self.replica), &self.life.to_string())
    }

    pub fn of(id: &ReplicaId) -> Self {
        let (replica, life) = id.as_str().trim_start_matches('r').split_once('-').expect("made by `id`");
        Self { replica: replica.parse().expect("made by `id`"), life: life.parse().expect("made by `id`") }
    }
}

impl Owner {
    pub fn named(self, names: [u8; REPLICAS]) -> Self {
        Self { replica: names[self.replica as usize], ..self }
    }
}

impl Verb {
    /// What was seen when this was asked.
    pub const fn view(&mut self) -> Option<&mut View> {
        match self {
            Self::Claim(Some(view)) | Self::Lost(view) | Self::Drained(view) => Some(view),
            _ => None,
        }
    }
}

impl View {
    pub fn of(record: &RunRecord) -> Self {
        Self {
            state: record.state,
            owner: Owner::of(&record.owner),
            start: u8::try_from(record.start).expect("few starts"),
            number: u8::try_from(record.number).expect("few signs of life"),
        }
    }

    fn seen(self) -> Seen {
        Seen { owner: self.owner.id(), start: self.start.into(), state: self.state, number: self.number.into() }
    }

    /// Whether no process of it can have been started, as `Watch::never_ran` of the engine.
    pub fn never_ran(self, kind: Kind) -> bool {
        let unbegun = matches!(self.state, RunState::Claimed | RunState::Abandoned);
        self.start == 0 || (unbegun && !kind.rerun && self.start == 1)
    }
}

/// Makes the job known. A new record remembers from then on.
pub fn registration() -> Step {
    Step::Register(Registration {
        job: job(),
        schedule: "* * * * *".into(),
        zone: "UTC".into(),
        spec_hash: "model".into(),
        skew_tolerance_ms: 500,
        keep_ms: 1000,
        history: [200, 3, 10],
        quiet_ms: 1000,
        passed: None,
        knew: None,
    })
}

impl Ask {
    pub fn step(self, kind: Kind) -> Step {
        let (run, owner) = (RunKey::new(job(), tick(self.tick)), self.owner.id());
        match self.verb {
            Verb::Claim(takeover) => Step::Claim(Claim {
                run,
                owner,
                previous: if takeover.is_none() { tick(self.tick).seconds() - MINUTE } else { i64::MAX },
                take: true,
                takeover: takeover.map(View::seen),
                delay_ms: 0,
                lease_ms: 15_000,
                grace_ms: 10_000,
                stop_grace_ms: 10_000,
                when_busy: WhenBusy::Skip,
                takeover_ms: 5_000,
                exclusive: kind.exclusive,
                rerun: kind.rerun,
                trigger: "schedule".into(),
                spec_hash: "model".into(),
            }),
            Verb::Begin { start, request } => {
                Step::Begin { run, owner, start: start.into(), request: request.to_string() }
            }
            Verb::Renew(start) => Step::Renew { run, owner, start: start.into() },
            Verb::Complete(start) => Step::Complete { run, owner, start: start.into(), ending: ending() },
            Verb::Abandon(start) => Step::Abandon { run, owner, start: start.into() },
            Verb::SettleOwn(why) => {
                let (previous, expect) = (i64::MAX, Expect::Own(owner.clone()));
                Step::Settle { run, owner, previous, expect, decision: why.decision() }
            }
            Verb::SettleAbsent => {
                let previous = tick(self.tick).seconds() - MINUTE;
                let decision = Decision::Missed(MissedReason::NoReplica);
                Step::Settle { run, owner, previous, expect: Expect::Absent { after_ms: WINDOW * 1000 }, decision }
            }
            Verb::Lost(view) | Verb::Drained(view) => {
                let lost = matches!(self.verb, Verb::Lost(_));
                let decision = if lost { Decision::Lost } else { Decision::Drained };
                Step::Settle { run, owner, previous: i64::MAX, expect: Expect::Unchanged(view.seen()), decision }
            }
        }
    }
}

impl Why {
    const fn decision(self) -> Decision {
        match self {
            Self::Late => Decision::Missed(MissedReason::Late),
            Self::Overlap => Decision::Skipped(SkipReason::Overlap),
            Self::Superseded => Decision::Skipped(SkipReason::Superseded),
            Self::Forgot => Decision::Missed(MissedReason::StoreForgot),
        }
    }
}

fn ending() -> Ending {
    Ending {
        outcome: Outcome::Succeeded,
        exit_code: Some(0),
        signal: None,
        http_status: None,
        duration_ms: 1,
        error: String::new(),
        output_tail: String::new(),
    }
}

impl Said {
    pub fn of(answer: &Answer) -> Self {
        match answer.verdict {
            Verdict::Won => Self::Won,
            Verdict::Held => Self::Held,
            Verdict::Done => Self::Done,
            Verdict::TooOld => Self::Refused,
            Verdict::Forgot => Self::Forgot,
            Verdict::Begun => Self::Begun,
            Verdict::Busy { renewed, .. } => Self::Busy { renewed },
            Verdict::Superseded => Self::Superseded,
            Verdict::Gone => Self::Gone,
            Verdict::Renewed => Self::Renewed,
            Verdict::Recorded | Verdict::RecordedLate => Self::Recorded,
            Verdict::Settled => Self::Settled,
            _ => Self::Other,
        }
    }
}
