//! What stores remember: one record per job, one per run. Field names here are the names in the store, so that a
//! person with `redis-cli` or `sqlite3` reads the same words as in the docs.
//!
//! Invariant: nothing here expires by time, and no instant of a replica's clock is kept. Instants are those of
//! ticks, or of the store's own clock (and those serve people and the audit, never the question who owns what).

use super::Former;
use super::JobName;
use super::Outcome;
use super::Pause;
use super::Range;
use super::ReplicaId;
use super::RunKey;
use super::Stale;
use super::StopReason;
use super::Tick;
use super::WhenBusy;
use std::fmt;

/// Version of the records' form. A replica that finds a higher one than its own leaves the record alone.
pub const FORMAT: u32 = 1;

/// What a store remembers of a job. All its answers carry it; one with a lower `revision` is older news.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobRecord {
    /// Form of this record, see [`FORMAT`].
    pub format: u32,
    /// Grows with every change of this record.
    pub revision: u64,
    /// The schedule's text as last registered.
    pub schedule: String,
    /// The schedule's zone as last registered.
    pub zone: String,
    /// The schedules before it, oldest first: those whose ticks may still be owed, and the last one of all.
    pub former: Vec<Former>,
    /// Hash of the job's definition as last registered.
    pub spec_hash: String,
    /// When a replica last registered the job: store clock, milliseconds since the epoch.
    pub registered_at: i64,
    /// Ticks at or before this instant (milliseconds since the epoch) may have been decided by somebody without the
    /// store knowing: they answer `Forgot`.
    pub since: i64,
    /// Records at or below this tick (seconds) may have been dropped: absent ones are `TooOld`.
    pub floor: i64,
    /// All ticks at or before this instant (seconds) are decided.
    pub decided_through: i64,
    /// The latest tick (seconds) that has begun; a first begin of an earlier one is refused, so that tokens never fall.
    pub last_begun: i64,
    /// The latest fencing token that a manual run of the job had.
    pub manual_token: u64,
    /// The ticks that were last settled as a range, where any were: they have no records of their own.
    pub range: Option<Range>,
    /// The run that occupies the job, where one does.
    pub slot: Option<Tick>,
    /// Runs that are claimed, begun or lost and not closed.
    pub open: Vec<Tick>,
    /// Who paused the job, where somebody did.
    pub paused: Option<Pause>,
    /// Who paused all jobs, where somebody did.
    pub all_paused: Option<Pause>,
    /// The latest tick that succeeded.
    pub last_success: Option<Tick>,
    /// Failures since then.
    pub failures: u32,
    /// Ticks since then that nobody ran.
    pub missed: u64,
    /// That the job was called stale, where it was: of one without a success since, it is not said again.
    pub stale: Option<Stale>,
    /// How long a final run record stays at least, milliseconds.
    pub keep_ms: i64,
    /// How many compact outcomes, full successes and full failures the history keeps.
    pub history: [u32; 3],
    /// The store as it was when the job was last registered: another server, or one that restarted, has another
    /// identity.
    pub identity: String,
    /// How many keys the store had evicted then.
    pub evicted: u64,
    /// When a registration last found that records may have been lost: store clock, milliseconds; 0: never.
    pub forgot_at: i64,
    /// For how long a replica must itself have seen `forgot_at` before a run that must not overlap begins: as long as
    /// a run that was forgotten can still be going. 0: one has, or there is no need.
    pub quiet_ms: u64,
}

/// Where a run stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RunState {
    /// Somebody has the tick and has not begun.
    Claimed,
    /// Its owner may have started it.
    Begun,
    /// Its owner gave it back before a start: anybody may claim it.
    Abandoned,
    /// Its owner vanished. It stays open, and its slot is draining, until nobody can be running it any more.
    Lost,
    /// Decided and closed.
    Done,
}

impl RunState {
    /// The word in the store.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Claimed => "claimed",
            Self::Begun => "begun",
            Self::Abandoned => "abandoned",
            Self::Lost => "lost",
            Self::Done => "done",
        }
    }

    /// Reads what [`Self::as_str`] writes.
    pub fn parse(text: &str) -> Option<Self> {
        [Self::Claimed, Self::Begun, Self::Abandoned, Self::Lost, Self::Done]
            .into_iter()
            .find(|state| state.as_str() == text)
    }
}

/// What a store remembers of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunRecord {
    /// Form of this record, see [`FORMAT`].
    pub format: u32,
    /// The tick.
    pub scheduled_for: Tick,
    /// Where it stands.
    pub state: RunState,
    /// Who has it, or had it last.
    pub owner: ReplicaId,
    /// How many begins there were.
    pub start: u32,
    /// Grows with every sign of life of the owner. A watcher that sees it unchanged for a lease calls the run lost.
    pub number: u64,
    /// The request that made the last begin, so that a resent one is recognised.
    pub request: String,
    /// The owner's lease, milliseconds: how long a watcher waits for the number to change.
    pub lease_ms: u64,
    /// How long the owner may take to stop the run when its lease is lost, milliseconds.
    pub grace_ms: u64,
    /// How long the owner may take to stop the run when somebody asks for that, milliseconds: the job's
    /// `terminationGracePeriod`.
    pub stop_grace_ms: u64,
    /// How long a claim may wait for its begin without a sign of life, milliseconds.
    pub takeover_ms: u64,
    /// How long after its tick the run is due, milliseconds: the job's jitter.
    pub delay_ms: i64,
    /// Whether the run occupies its job's slot.
    pub exclusive: bool,
    /// What it does when another run is in its way.
    pub when_busy: WhenBusy,
    /// Since when it waits in line for the slot, or for the end of the run that it replaces: store clock, milliseconds;
    /// 0: it does not. One run at most waits in line; of those that replace, the latest tick counts.
    pub waiting_since: i64,
    /// Why somebody asked for its stop, where somebody did.
    pub stop_asked: Option<StopReason>,
    /// Who did.
    pub stop_asked_by: String,
    /// Whether somebody else may start it again when its owner vanished.
    pub rerun: bool,
    /// Why it is run.
    pub trigger: String,
    /// Hash of the definition that its owner runs.
    pub spec_hash: String,
    /// Store clock at the claim, milliseconds since the epoch; 0: never. So also below.
    pub claimed_at: i64,
    /// Store clock at the last begin.
    pub begun_at: i64,
    /// Store clock at the last begin or renewal.
    pub renewed_at: i64,
    /// Store clock at the end.
    pub ended_at: i64,
    /// How it ended.
    pub outcome: Option<Outcome>,
    /// Why it was missed or skipped.
    pub reason: String,
    /// The first tick that this record decides, where it decides a range that ends with its own.
    pub range_first: Option<Tick>,
    /// How many ticks that are; 0: one.
    pub range_count: u64,
    /// Exit code of the last attempt.
    pub exit_code: Option<i32>,
    /// Signal that ended the last attempt.
    pub signal: Option<i32>,
    /// Status of the answer to the last attempt's HTTP request, where there was one.
    pub http_status: Option<u16>,
    /// From the first start to the end, milliseconds of the owner's clock.
    pub duration_ms: u64,
    /// In words.
    pub error: String,
    /// The owner's own account, when it came after `lost`.
    pub late_outcome: Option<Outcome>,
    /// The watcher that recorded it as lost, so that one whose reply was lost still learns that it did; empty where
    /// none did.
    pub lost_by: String,
    /// The job's `forgot_at` after which it began, or its owner confirmed that it has it; 0: the store forgot nothing before.
    pub asserted: i64,
    /// Of a manual run, who ordered it; so also below.
    pub ordered_by: String,
    /// The key of the order: another one with the same key is told of this run.
    pub order_key: String,
    /// The instant that it runs for, where the order said one.
    pub runs_for: Option<Tick>,
    /// It is to begin although the job is paused.
    pub despite_pause: bool,
    /// The fencing token of its last begin; 0: it has not begun.
    pub token: u64,
}

/// What a watcher compares: as long as all four stay the same, the owner has given no sign of life.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    /// Who has the run.
    pub owner: ReplicaId,
    /// How many begins there were.
    pub start: u32,
    /// Where it stands.
    pub state: RunState,
    /// The renewal number.
    pub number: u64,
}

impl RunRecord {
    /// A claim of a tick with nothing else in it.
    pub fn claimed(scheduled_for: Tick, owner: &ReplicaId) -> Self {
        Self {
            format: FORMAT,
            scheduled_for,
            state: RunState::Claimed,
            owner: owner.clone(),
            start: 0,
            number: 0,
            request: String::new(),
            lease_ms: 0,
            grace_ms: 0,
            stop_grace_ms: 0,
            takeover_ms: 0,
            delay_ms: 0,
            exclusive: false,
            when_busy: WhenBusy::Skip,
            waiting_since: 0,
            stop_asked: None,
            stop_asked_by: String::new(),
            rerun: false,
            trigger: String::new(),
            spec_hash: String::new(),
            claimed_at: 0,
            begun_at: 0,
            renewed_at: 0,
            ended_at: 0,
            outcome: None,
            reason: String::new(),
            range_first: None,
            range_count: 0,
            exit_code: None,
            signal: None,
            http_status: None,
            duration_ms: 0,
            error: String::new(),
            late_outcome: None,
            lost_by: String::new(),
            asserted: 0,
            ordered_by: String::new(),
            order_key: String::new(),
            runs_for: None,
            despite_pause: false,
            token: 0,
        }
    }

    /// What a watcher compares.
    pub fn seen(&self) -> Seen {
        Seen { owner: self.owner.clone(), start: self.start, state: self.state, number: self.number }
    }

    /// The run's identity, for the job it was read from.
    pub fn key(&self, job: &JobName) -> RunKey {
        RunKey::new(job.clone(), self.scheduled_for)
    }

    /// Whether somebody ordered it and nobody has had it yet.
    pub fn is_order(&self) -> bool {
        self.scheduled_for.is_manual() && self.state == RunState::Abandoned && self.start == 0
    }

    /// What its job is told to run for: the instant of the tick, or of the order.
    pub fn told_for(&self) -> Tick {
        self.runs_for.unwrap_or(self.scheduled_for).second()
    }

    /// Whether the record can still change hands or end.
    pub fn is_open(&self) -> bool {
        self.state != RunState::Done
    }
}

/// Field names and texts of a record, as stores keep them. A person can read them; an unknown field is left alone.
pub type Fields = Vec<(&'static str, String)>;

/// A record that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unreadable {
    /// The field.
    pub field: &'static str,
    /// What was found there.
    pub found: String,
}

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "field `{}` of a record is {:?}", self.field, self.found)
    }
}

/// Looks a field up by name; absent fields read as empty.
pub trait Lookup {
    /// The field's text.
    fn field(&self, name: &str) -> &str;
}

impl<S: AsRef<str>> Lookup for [(S, S)] {
    fn field(&self, name: &str) -> &str {
        self.iter().find(|(key, _)| key.as_ref() == name).map_or("", |(_, value)| value.as_ref())
    }
}

fn number<T: std::str::FromStr + Default>(
    fields: &(impl Lookup + ?Sized),
    name: &'static str,
) -> Result<T, Unreadable> {
    let text = fields.field(name);
    if text.is_empty() {
        return Ok(T::default());
    }
    text.parse().map_err(|_| Unreadable { field: name, found: text.into() })
}

fn optional<T: std::str::FromStr>(
    fields: &(impl Lookup + ?Sized),
    name: &'static str,
) -> Result<Option<T>, Unreadable> {
    let text = fields.field(name);
    if text.is_empty() {
        return Ok(None);
    }
    text.parse().map(Some).map_err(|_| Unreadable { field: name, found: text.into() })
}

fn tick(text: &str, name: &'static str) -> Result<Option<Tick>, Unreadable> {
    if text.is_empty() {
        return Ok(None);
    }
    Tick::parse(text).map(Some).ok_or_else(|| Unreadable { field: name, found: text.into() })
}

fn pause(fields: &(impl Lookup + ?Sized), name: &'static str) -> Result<Option<Pause>, Unreadable> {
    let text = fields.field(name);
    if text.is_empty() {
        return Ok(None);
    }
    Pause::parse(text).map(Some).ok_or_else(|| Unreadable { field: name, found: text.into() })
}

fn range(text: &str) -> Result<Option<Range>, Unreadable> {
    if text.is_empty() {
        return Ok(None);
    }
    Range::parse(text).map(Some).ok_or_else(|| Unreadable { field: "range", found: text.into() })
}

fn word<T>(
    fields: &(impl Lookup + ?Sized),
    name: &'static str,
    parse: impl FnOnce(&str) -> Option<T>,
) -> Result<Option<T>, Unreadable> {
    let text = fields.field(name);
    if text.is_empty() {
        return Ok(None);
    }
    parse(text).map(Some).ok_or_else(|| Unreadable { field: name, found: text.into() })
}

pub(super) fn text_of<T: ToString>(value: Option<T>) -> String {
    value.map_or_else(String::new, |value| value.to_string())
}

impl JobRecord {
    /// The record as a store keeps it.
    pub fn fields(&self) -> Fields {
        let open: Vec<String> = self.open.iter().map(Tick::to_string).collect();
        vec![
            ("format", self.format.to_string()),
            ("revision", self.revision.to_string()),
            ("schedule", self.schedule.clone()),
            ("zone", self.zone.clone()),
            ("former", Former::list_text(&self.former)),
            ("spec_hash", self.spec_hash.clone()),
            ("registered_at", self.registered_at.to_string()),
            ("since", self.since.to_string()),
            ("floor", self.floor.to_string()),
            ("decided_through", self.decided_through.to_string()),
            ("last_begun", self.last_begun.to_string()),
            ("manual_token", self.manual_token.to_string()),
            ("range", text_of(self.range.as_ref())),
            ("slot", text_of(self.slot)),
            ("open", open.join(" ")),
            ("paused", text_of(self.paused.as_ref())),
            ("all_paused", text_of(self.all_paused.as_ref())),
            ("last_success", text_of(self.last_success)),
            ("failures", self.failures.to_string()),
            ("missed", self.missed.to_string()),
            ("stale", text_of(self.stale.as_ref())),
            ("keep_ms", self.keep_ms.to_string()),
            ("history_ticks", self.history[0].to_string()),
            ("history_successful", self.history[1].to_string()),
            ("history_failed", self.history[2].to_string()),
            ("identity", self.identity.clone()),
            ("evicted", self.evicted.to_string()),
            ("forgot_at", self.forgot_at.to_string()),
            ("quiet_ms", self.quiet_ms.to_string()),
        ]
    }

    /// Reads what [`Self::fields`] writes.
    ///
    /// # Errors
    /// A field holds something else.
    pub fn from_fields(fields: &(impl Lookup + ?Sized)) -> Result<Self, Unreadable> {
        let mut open = Vec::new();
        for text in fields.field("open").split_ascii_whitespace() {
            open.extend(tick(text, "open")?);
        }
        Ok(Self {
            format: number(fields, "format")?,
            revision: number(fields, "revision")?,
            schedule: fields.field("schedule").into(),
            zone: fields.field("zone").into(),
            former: Former::parse_list(fields.field("former"))?,
            spec_hash: fields.field("spec_hash").into(),
            registered_at: number(fields, "registered_at")?,
            since: number(fields, "since")?,
            floor: number(fields, "floor")?,
            decided_through: number(fields, "decided_through")?,
            last_begun: number(fields, "last_begun")?,
            manual_token: number(fields, "manual_token")?,
            range: range(fields.field("range"))?,
            slot: tick(fields.field("slot"), "slot")?,
            open,
            paused: pause(fields, "paused")?,
            all_paused: pause(fields, "all_paused")?,
            last_success: tick(fields.field("last_success"), "last_success")?,
            failures: number(fields, "failures")?,
            missed: number(fields, "missed")?,
            stale: word(fields, "stale", Stale::parse)?,
            keep_ms: number(fields, "keep_ms")?,
            history: [
                number(fields, "history_ticks")?,
                number(fields, "history_successful")?,
                number(fields, "history_failed")?,
            ],
            identity: fields.field("identity").into(),
            evicted: number(fields, "evicted")?,
            forgot_at: number(fields, "forgot_at")?,
            quiet_ms: number(fields, "quiet_ms")?,
        })
    }
}

impl RunRecord {
    /// The record as a store keeps it.
    pub fn fields(&self) -> Fields {
        vec![
            ("format", self.format.to_string()),
            ("scheduled_for", self.scheduled_for.to_string()),
            ("state", self.state.as_str().into()),
            ("owner", self.owner.to_string()),
            ("start", self.start.to_string()),
            ("number", self.number.to_string()),
            ("request", self.request.clone()),
            ("lease_ms", self.lease_ms.to_string()),
            ("grace_ms", self.grace_ms.to_string()),
            ("stop_grace_ms", self.stop_grace_ms.to_string()),
            ("takeover_ms", self.takeover_ms.to_string()),
            ("delay_ms", self.delay_ms.to_string()),
            ("exclusive", u8::from(self.exclusive).to_string()),
            ("when_busy", self.when_busy.to_string()),
            ("waiting_since", self.waiting_since.to_string()),
            ("stop_asked", text_of(self.stop_asked)),
            ("stop_asked_by", self.stop_asked_by.clone()),
            ("rerun", u8::from(self.rerun).to_string()),
            ("trigger", self.trigger.clone()),
            ("spec_hash", self.spec_hash.clone()),
            ("claimed_at", self.claimed_at.to_string()),
            ("begun_at", self.begun_at.to_string()),
            ("renewed_at", self.renewed_at.to_string()),
            ("ended_at", self.ended_at.to_string()),
            ("outcome", text_of(self.outcome)),
            ("reason", self.reason.clone()),
            ("range_first", text_of(self.range_first)),
            ("range_count", self.range_count.to_string()),
            ("exit_code", text_of(self.exit_code)),
            ("signal", text_of(self.signal)),
            ("http_status", text_of(self.http_status)),
            ("duration_ms", self.duration_ms.to_string()),
            ("error", self.error.clone()),
            ("late_outcome", text_of(self.late_outcome)),
            ("lost_by", self.lost_by.clone()),
            ("asserted", self.asserted.to_string()),
            ("ordered_by", self.ordered_by.clone()),
            ("order_key", self.order_key.clone()),
            ("runs_for", text_of(self.runs_for)),
            ("despite_pause", if self.despite_pause { "1".into() } else { String::new() }),
            ("token", if self.token == 0 { String::new() } else { self.token.to_string() }),
        ]
    }

    /// Reads what [`Self::fields`] writes.
    ///
    /// # Errors
    /// A field holds something else.
    pub fn from_fields(fields: &(impl Lookup + ?Sized)) -> Result<Self, Unreadable> {
        let state = fields.field("state");
        let scheduled_for = fields.field("scheduled_for");
        Ok(Self {
            format: number(fields, "format")?,
            scheduled_for: tick(scheduled_for, "scheduled_for")?
                .ok_or_else(|| Unreadable { field: "scheduled_for", found: String::new() })?,
            state: RunState::parse(state).ok_or_else(|| Unreadable { field: "state", found: state.into() })?,
            owner: ReplicaId::from_record(fields.field("owner")),
            start: number(fields, "start")?,
            number: number(fields, "number")?,
            request: fields.field("request").into(),
            lease_ms: number(fields, "lease_ms")?,
            grace_ms: number(fields, "grace_ms")?,
            stop_grace_ms: number(fields, "stop_grace_ms")?,
            takeover_ms: number(fields, "takeover_ms")?,
            delay_ms: number(fields, "delay_ms")?,
            exclusive: number::<u8>(fields, "exclusive")? != 0,
            when_busy: word(fields, "when_busy", WhenBusy::parse)?.unwrap_or(WhenBusy::Skip),
            waiting_since: number(fields, "waiting_since")?,
            stop_asked: word(fields, "stop_asked", StopReason::parse)?,
            stop_asked_by: fields.field("stop_asked_by").into(),
            rerun: number::<u8>(fields, "rerun")? != 0,
            trigger: fields.field("trigger").into(),
            spec_hash: fields.field("spec_hash").into(),
            claimed_at: number(fields, "claimed_at")?,
            begun_at: number(fields, "begun_at")?,
            renewed_at: number(fields, "renewed_at")?,
            ended_at: number(fields, "ended_at")?,
            outcome: word(fields, "outcome", Outcome::parse)?,
            reason: fields.field("reason").into(),
            range_first: tick(fields.field("range_first"), "range_first")?,
            range_count: number(fields, "range_count")?,
            exit_code: optional(fields, "exit_code")?,
            signal: optional(fields, "signal")?,
            http_status: optional(fields, "http_status")?,
            duration_ms: number(fields, "duration_ms")?,
            error: fields.field("error").into(),
            late_outcome: word(fields, "late_outcome", Outcome::parse)?,
            lost_by: fields.field("lost_by").into(),
            asserted: number(fields, "asserted")?,
            ordered_by: fields.field("ordered_by").into(),
            order_key: fields.field("order_key").into(),
            runs_for: tick(fields.field("runs_for"), "runs_for")?,
            despite_pause: number::<u8>(fields, "despite_pause")? != 0,
            token: number(fields, "token")?,
        })
    }
}
