//! What has to be asked of the store, gathered into batches; and whether the store answers.
//!
//! Each thing that may need asking is a [`Topic`]; what exactly to ask is decided when a batch is made, so a topic
//! that waits through an outage asks once, for what it needs then. One topic has at most one question under way.
//!
//! Invariant: while the store does not answer, one batch at a time is tried, not one request per job; what waits is
//! bounded by the number of topics.
//!
//! Invariant: what a store could not answer in time is not asked again at the same size. It would do the same work for
//! nothing again, and each outage adds to what there is to ask: a fleet that was overloaded for a moment would never
//! come out of it. So there is a window, as TCP has one: halved by what got no answer, and widened slowly by answers.

use super::Effect;
use super::RequestId;
use super::order::order;
use crate::clock::Boot;
use crate::job::JobName;
use crate::job::ReplicaId;
use crate::job::RunKey;
use crate::job::Step;
use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

/// How many steps a batch has at most.
const BATCH_MOST: usize = 500;
/// How many steps are under way at least, however slow the store is.
const WINDOW_LEAST: usize = 16;
/// How long a size is kept before a larger one is tried. After each failure all jobs are registered again: with less time
/// than that takes, the next failure would come before its end, and so on for ever.
const WINDOW_KEPT: Duration = Duration::from_secs(10);

/// Something that may need asking. In the order of urgency: a lease first.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Topic {
    /// A run of ours.
    Run(RunKey),
    /// A run, whoever has it, that is to be stopped.
    Stop(RunKey),
    /// A job that the store must know.
    Register(JobName),
    /// A job whose record says otherwise than the pause of all.
    Pause(JobName),
    /// A tick that is due.
    Tick(RunKey),
    /// An open run of another replica.
    Watch(RunKey),
    /// A run that somebody named.
    Look(RunKey),
    /// A tick that nobody ran.
    Owed(RunKey),
    /// A job that has had no success for too long.
    Stale(JobName),
}

impl Topic {
    const fn urgency(&self) -> u8 {
        match self {
            Self::Run(_) | Self::Stop(_) => 0,
            Self::Register(_) | Self::Pause(_) => 1,
            Self::Tick(_) => 2,
            Self::Watch(_) | Self::Look(_) => 3,
            Self::Owed(_) => 4,
            Self::Stale(_) => 5,
        }
    }

    /// Oldest ticks first in the audit (its chain is decided in order); else in this replica's own order, so that a
    /// burst spreads over the fleet instead of all replicas racing for the same run.
    fn rank(&self, me: &ReplicaId) -> u64 {
        match self {
            Self::Owed(run) => run.scheduled_for.seconds().unsigned_abs(),
            Self::Run(run) | Self::Stop(run) | Self::Tick(run) | Self::Watch(run) | Self::Look(run) => order(me, run),
            Self::Register(_) | Self::Pause(_) | Self::Stale(_) => 0,
        }
    }
}

/// A batch under way.
#[derive(Debug, Clone)]
pub struct Asked {
    /// When it was handed over for sending.
    pub sent: Boot,
    /// One per step.
    pub topics: Vec<Topic>,
    /// What was asked.
    pub steps: Arc<Vec<Step>>,
}

/// See the module.
#[derive(Debug, Clone)]
pub struct Outbox {
    me: ReplicaId,
    ready: BTreeSet<(u8, u64, Topic)>,
    busy: BTreeSet<Topic>,
    under_way: BTreeMap<RequestId, Asked>,
    last_request: u64,
    down: Option<Down>,
    /// How many steps may be under way; at [`BATCH_MOST`], any number of batches.
    window: usize,
    /// When it may be widened.
    widen_at: Boot,
}

/// The store does not answer.
#[derive(Debug, Clone, Copy)]
struct Down {
    since: Option<Boot>,
    failures: u32,
    next_try: Boot,
}

/// What an answer or a failure says about the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// Nothing new.
    None,
    /// It answered for the first time (`None`) or after so long.
    Up(Option<Duration>),
    /// It does not answer any more.
    Down,
}

impl Outbox {
    /// Nothing to ask, and no answer yet.
    pub fn new(me: ReplicaId) -> Self {
        let down = Some(Down { since: None, failures: 0, next_try: Boot::from_nanos(0) });
        let (ready, busy, under_way) = (BTreeSet::new(), BTreeSet::new(), BTreeMap::new());
        let (window, widen_at) = (BATCH_MOST, Boot::from_nanos(0));
        Self { me, ready, busy, under_way, last_request: 0, down, window, widen_at }
    }

    /// Asks about a topic with the next batch, or once more when its present question is answered.
    pub fn want(&mut self, topic: Topic) {
        self.ready.insert((topic.urgency(), topic.rank(&self.me), topic));
    }

    /// The same for some.
    pub fn want_all(&mut self, topics: impl IntoIterator<Item = Topic>) {
        topics.into_iter().for_each(|topic| self.want(topic));
    }

    /// The store was seen to answer: what waits for it is asked at once.
    pub fn try_now(&mut self, now: Boot) {
        if let Some(down) = &mut self.down {
            down.next_try = down.next_try.min(now);
        }
    }

    /// Whether the store answered last time.
    pub const fn is_up(&self) -> bool {
        self.down.is_none()
    }

    /// Batches under way.
    pub fn under_way(&self) -> impl Iterator<Item = &Asked> {
        self.under_way.values()
    }

    /// Whether nothing is asked, nor is to be.
    pub fn is_idle(&self) -> bool {
        self.ready.is_empty() && self.under_way.is_empty()
    }

    /// Whether some job is being registered, or is to be.
    pub fn registers(&self) -> bool {
        let mut wanted = self.ready.iter().map(|(_, _, topic)| topic).chain(&self.busy);
        wanted.any(|topic| matches!(topic, Topic::Register(_)))
    }

    /// When to try again, while the store does not answer and there is something to ask.
    pub fn next_try(&self) -> Option<Boot> {
        let down = self.down?;
        (self.under_way.is_empty() && !self.ready.is_empty()).then_some(down.next_try)
    }

    /// Takes the topics of the next batch, most urgent first.
    pub fn take(&mut self, now: Boot) -> Vec<Topic> {
        if self.down.is_some_and(|down| !self.under_way.is_empty() || now < down.next_try) {
            return Vec::new();
        }
        let free = |entry: &&(u8, u64, Topic)| !self.busy.contains(&entry.2);
        let batch: Vec<_> = self.ready.iter().filter(free).take(self.room()).cloned().collect();
        for entry in &batch {
            self.ready.remove(entry);
        }
        batch.into_iter().map(|(_, _, topic)| topic).collect()
    }

    /// How many steps the next batch may have.
    fn room(&self) -> usize {
        if self.window >= BATCH_MOST {
            return BATCH_MOST;
        }
        self.window.saturating_sub(self.in_flight())
    }

    /// So many steps were answered.
    pub fn widen(&mut self, steps: usize, now: Boot) {
        // A small batch says nothing about large ones.
        if self.window < BATCH_MOST && steps >= self.window / 2 && now >= self.widen_at {
            self.window = (self.window + (self.window / 4).max(WINDOW_LEAST)).min(BATCH_MOST);
            self.widen_at = now + WINDOW_KEPT;
        }
    }

    /// So many steps were sent and not answered. Where that are few, their number was not the reason: a small window would
    /// be kept small by whatever else holds up the store or this replica, and be of no use then.
    pub fn narrow(&mut self, steps: usize, now: Boot) {
        let together = steps + self.in_flight();
        if together >= self.window / 2 {
            self.window = self.window.min((together / 2).clamp(WINDOW_LEAST, BATCH_MOST - 1));
            self.widen_at = now + WINDOW_KEPT;
        }
    }

    fn in_flight(&self) -> usize {
        self.under_way.values().map(|asked| asked.topics.len()).sum()
    }

    /// Notes a batch as under way and makes its effect.
    pub fn send(&mut self, batch: Vec<(Topic, Step)>, now: Boot) -> Effect {
        self.last_request += 1;
        let request = RequestId(self.last_request);
        let (topics, steps): (Vec<_>, Vec<_>) = batch.into_iter().unzip();
        let steps = Arc::new(steps);
        self.busy.extend(topics.iter().cloned());
        self.under_way.insert(request, Asked { sent: now, topics, steps: Arc::clone(&steps) });
        Effect::Ask { request, steps }
    }

    /// Takes a batch that was answered, or failed. An unknown number was answered before.
    pub fn answered(&mut self, request: RequestId) -> Option<Asked> {
        let asked = self.under_way.remove(&request)?;
        for topic in &asked.topics {
            self.busy.remove(topic);
        }
        Some(asked)
    }

    /// The store answered.
    pub fn succeeded(&mut self, now: Boot) -> Change {
        match self.down.take() {
            None => Change::None,
            Some(down) => Change::Up(down.since.map(|since| now.since(since))),
        }
    }

    /// The store did not answer. The next try waits 0.1 s, then twice as long up to a second, with a part that differs
    /// from replica to replica.
    pub fn failed(&mut self, now: Boot) -> Change {
        let (change, failures, since) = match self.down {
            None => (Change::Down, 0, now),
            Some(down) => (
                if down.since.is_none() { Change::Down } else { Change::None },
                down.failures + 1,
                down.since.unwrap_or(now),
            ),
        };
        let step = 100 << failures.min(4);
        let spread = order(&self.me, &failures) % (step / 2);
        let wait = Duration::from_millis(step.min(1000) + spread);
        self.down = Some(Down { since: Some(since), failures, next_try: now + wait });
        change
    }
}
