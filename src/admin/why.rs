//! Why a tick was run, or was not: what an operator asks the next morning, answered from the records.

use super::Refusal;
use super::past;
use super::views;
use super::views::ORDERED;
use super::views::ReplicaView;
use super::views::RunView;
use super::views::schedule_of;
use super::views::silence;
use crate::job::JobName;
use crate::job::JobRecord;
use crate::job::MissedReason;
use crate::job::Outcome;
use crate::job::RunKey;
use crate::job::RunState;
use crate::job::SkipReason;
use crate::job::Tick;
use crate::store::Store;
use chrono::DateTime;
use chrono::TimeDelta;
use chrono::Utc;
use serde::Serialize;

/// Who began a run so soon after its tick was there when it came.
const BEGUN_AT_ONCE: TimeDelta = TimeDelta::seconds(15);

/// What became of a tick.
#[derive(Debug, Clone, Serialize)]
pub struct Account {
    /// The job.
    pub job: String,
    /// The tick's run; none where the schedule names no tick up to then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run_id: Option<String>,
    /// What became of it, in one sentence.
    pub answer: String,
    /// What else is known.
    pub facts: Vec<String>,
    /// Its record, where there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run: Option<RunView>,
}

/// Tells what became of a job's tick at an instant, or of the last one before it; without an instant, of the last one.
///
/// # Errors
/// The store did not answer, or knows no such job.
pub async fn why(store: &dyn Store, name: &JobName, at: Option<DateTime<Utc>>) -> Result<Account, Refusal> {
    account(store, name, Asked::At(at)).await
}

/// Tells what became of a run: of a tick as [`why`] does, or one by hand.
///
/// # Errors
/// The store did not answer, knows no such job, or no such run by hand.
pub async fn why_run(store: &dyn Store, run: &RunKey) -> Result<Account, Refusal> {
    let tick = run.scheduled_for;
    let asked = if tick.is_manual() { Asked::ByHand(tick) } else { Asked::At(Some(tick.to_datetime())) };
    account(store, &run.job, asked).await
}

/// What is asked about.
#[derive(Debug, Clone, Copy)]
enum Asked {
    /// The tick at an instant, or the last one before it; none: the last one.
    At(Option<DateTime<Utc>>),
    /// A run by hand.
    ByHand(Tick),
}

async fn account(store: &dyn Store, name: &JobName, asked: Asked) -> Result<Account, Refusal> {
    let all = store.jobs().await?;
    let Some((_, record)) = all.iter().find(|(found, _)| found == name) else {
        return Err(Refusal::no_job(name, (store.url(), &all)));
    };
    let gathering = store.meet(None, &[]).await?;
    let now = store.server_time().await?;
    let account = Found { name, record, now };
    let mut facts = Vec::new();
    let found = match asked {
        Asked::At(at) => account.tick(at.unwrap_or(now), &mut facts),
        Asked::ByHand(tick) => Ok(tick),
    };
    let tick = match found {
        Ok(tick) => tick,
        Err(answer) => return Ok(account.tell(None, answer, facts, None)),
    };
    let mut is_suspended = false;
    let run = RunKey::new(name.clone(), tick);
    let view = match views::run(store, &run).await {
        Ok(view) => Some(view),
        Err(Refusal::NoRun { .. }) if !tick.is_manual() => {
            let past = store.history(name, usize::MAX).await?;
            // What only the table says is known by what became of the tick before.
            is_suspended = past.first().is_some_and(|last| last.reason == SkipReason::Suspended.as_str());
            let views = past.iter().map(|entry| RunView::of_history(name, entry));
            account.in_range(tick).or_else(|| views.into_iter().find(|view| covers(view, tick)))
        }
        Err(refusal) => return Err(refusal),
    };
    let is_gone = gathering.is_gone(name, record.registered_at);
    let answer = view.as_ref().map_or_else(|| account.without_record(tick, (is_gone, is_suspended)), told);
    account.add_facts(tick, view.as_ref(), &mut facts);
    if is_gone {
        facts.push("no replica that is there has the job in its table".into());
    }
    let began = view.as_ref().filter(|view| began_at(view, tick)).map(|view| view.replica.as_str());
    facts.extend(past::there_at(&gathering, tick.millis(), began));
    let there: Vec<ReplicaView> =
        gathering.replicas().map(|replica| ReplicaView::there(replica, gathering.at)).collect();
    facts.push(match there.len() {
        0 => "no replica is there now".to_owned(),
        1 => format!("1 replica is there now{}", silence(&there)),
        more => format!("{more} replicas are there now{}", silence(&there)),
    });
    Ok(account.tell(Some(run), answer, facts, view))
}

/// Whether its owner began it, and was there when the tick came: one that began it first, and about then.
fn began_at(view: &RunView, tick: Tick) -> bool {
    let begun = view.started_at.as_deref().and_then(|at| DateTime::parse_from_rfc3339(at).ok());
    let at_once = |begun: DateTime<_>| (begun.to_utc() - tick.to_datetime()).abs() < BEGUN_AT_ONCE;
    view.attempts == 1 && begun.is_some_and(at_once)
}

/// Whether ticks that were settled together have this one among them.
fn covers(view: &RunView, tick: Tick) -> bool {
    let first = Tick::parse(&view.range_first);
    first.zip(view.tick()).is_some_and(|(first, last)| (first..=last).contains(&tick))
}

struct Found<'a> {
    name: &'a JobName,
    record: &'a JobRecord,
    now: DateTime<Utc>,
}

impl Found<'_> {
    fn tell(&self, run: Option<RunKey>, answer: String, facts: Vec<String>, view: Option<RunView>) -> Account {
        let (job, run_id) = (self.name.to_string(), run.map(|run| run.to_string()));
        Account { job, run_id, answer, facts, run: view }
    }

    /// The schedules that the job had, oldest first: from when (exclusive), until when (inclusive; none: now), the text.
    fn schedules(&self) -> Vec<(i64, Option<i64>, &str, &str)> {
        let mut from = i64::MIN;
        let mut all = Vec::new();
        for former in &self.record.former {
            all.push((from, Some(former.until), former.zone.as_str(), former.schedule.as_str()));
            from = former.until;
        }
        all.push((from, None, &self.record.zone, &self.record.schedule));
        all
    }

    /// The tick that is meant, or what to say where there is none.
    fn tick(&self, at: DateTime<Utc>, facts: &mut Vec<String>) -> Result<Tick, String> {
        if at > self.now {
            let schedule = schedule_of(self.name, (&self.record.zone, &self.record.schedule));
            let next = schedule.and_then(|schedule| schedule.after(self.now)).map(Tick::from_datetime);
            let next = next.map_or_else(String::new, |next| format!("; its next tick is {next}"));
            return Err(format!("that instant is yet to come: by the store's clock it is {}{next}", shown(self.now)));
        }
        for (from, until, zone, text) in self.schedules().into_iter().rev() {
            let Some(schedule) = schedule_of(self.name, (zone, text)) else {
                return Err(format!("its schedule `{text}` in {zone} is not understood by this version"));
            };
            let begin = DateTime::from_timestamp(from.saturating_add(1), 0).unwrap_or(DateTime::UNIX_EPOCH);
            let end = until.and_then(|until| DateTime::from_timestamp(until, 0)).map_or(at, |until| until.min(at));
            if end < begin {
                continue;
            }
            if let Some(tick) = schedule.latest(end).filter(|tick| *tick >= begin) {
                facts.push(match until {
                    Some(until) => {
                        let changed = Tick::from_seconds(until);
                        format!("its schedule was `{text}` in {zone}, until it was changed at {changed}")
                    }
                    None => format!("its schedule is `{text}` in {zone}"),
                });
                return Ok(Tick::from_datetime(tick));
            }
        }
        Err(format!("its schedule `{}` in {} names no instant up to then", self.record.schedule, self.record.zone))
    }

    fn in_range(&self, tick: Tick) -> Option<RunView> {
        let range = self.record.range.as_ref().filter(|range| (range.first..=range.last).contains(&tick))?;
        Some(RunView::of_record(self.name, &range.record_of(tick)))
    }

    /// What can be said of a tick that has no record.
    fn without_record(&self, tick: Tick, (is_gone, is_suspended): (bool, bool)) -> String {
        let since = DateTime::from_timestamp_millis(self.record.since).unwrap_or(self.now);
        if tick.seconds() > self.record.decided_through && tick.millis() > self.record.since {
            return match self.record.pause() {
                _ if is_gone => "nobody has decided it: no replica that is there has the job in its table".into(),
                Some(pause) => format!("it will be skipped: {} paused (by {})", self.what_is_paused(), pause.by),
                None if is_suspended => {
                    "nobody has decided it yet; the one before it was skipped, since the table suspends the job".into()
                }
                None => "nobody has decided it yet".into(),
            };
        }
        if tick.millis() <= self.record.since {
            let since = shown(since);
            return match self.record.forgot_at {
                0 => format!("it was due before the store knew the job: its memory of it begins at {since}"),
                _ => format!("the store has forgotten what happened up to {since}: it may have been run, or not"),
            };
        }
        "it was decided, and is so long ago that its record is gone".into()
    }

    fn what_is_paused(&self) -> &'static str {
        if self.record.paused.is_some() { "the job is" } else { "all jobs are" }
    }

    fn add_facts(&self, tick: Tick, view: Option<&RunView>, facts: &mut Vec<String>) {
        if let Some(view) = view {
            if view.attempts > 1 {
                // Its record has the last owner and no others.
                let others = "`run_retried` and `run_lost` in the logs tell of the attempts before the last";
                facts.push(format!("it was begun {} times: {others}", view.attempts));
            }
            if !view.ordered_by.is_empty() && view.state != ORDERED {
                facts.push(format!("{} ordered it", view.ordered_by));
            }
            if !view.range_first.is_empty() {
                let (first, last) = (&view.range_first, &view.scheduled_for);
                facts.push(format!("{} ticks from {first} to {last} were settled together", view.range_count));
            }
            if !view.late_outcome.is_empty() {
                facts.push(format!("its owner came back later and said: {}", view.late_outcome));
            }
        }
        if let Some(pause) = self.record.pause() {
            let what = self.what_is_paused();
            let reason = if pause.reason.is_empty() { String::new() } else { format!(" ({})", pause.reason) };
            let since = DateTime::from_timestamp_millis(pause.at).map(shown).unwrap_or_default();
            facts.push(format!("{what} paused since {since}, by {}{reason}", pause.by));
        }
        if self.record.forgot_at > tick.millis() {
            let at = DateTime::from_timestamp_millis(self.record.forgot_at).map(shown).unwrap_or_default();
            facts.push(format!("the store was found to have lost records at {at}"));
        }
        let at = DateTime::from_timestamp_millis(self.record.registered_at).map(shown).unwrap_or_default();
        facts.push(format!("a replica registered the job last at {at}"));
    }
}

fn shown(at: DateTime<Utc>) -> String {
    Tick::from_datetime(at).to_string()
}

/// A record in one sentence.
fn told(view: &RunView) -> String {
    let who = &view.replica;
    let since = view.started_at.as_deref().unwrap_or("an unknown instant");
    let state = RunState::parse(view.state);
    if view.state == ORDERED {
        return format!("{} ordered it, and no replica has taken it yet", view.ordered_by);
    }
    match state {
        Some(RunState::Claimed) => return format!("{who} has claimed it, and has not begun"),
        Some(RunState::Begun) => return format!("{who} runs it since {since}"),
        Some(RunState::Abandoned) => return format!("{who} gave it back: whoever has a place takes it"),
        Some(RunState::Lost) => {
            let again = view.again_at.as_ref().map(|at| format!("; it will be started again elsewhere, at about {at}"));
            let again = again.unwrap_or_default();
            return format!("{who} began it at {since} and vanished: it may have run, in part or whole{again}");
        }
        _ => {}
    }
    let outcome = view.outcome.as_deref().unwrap_or("done");
    let error = if view.error.is_empty() { String::new() } else { format!(": {}", view.error) };
    match Outcome::parse(outcome) {
        Some(Outcome::Missed) => format!("it was not run: {} (missed: {})", missed(&view.reason), view.reason),
        Some(Outcome::Skipped) => format!("it was not run: {} (skipped: {})", skipped(&view.reason), view.reason),
        Some(Outcome::Lost) => {
            format!("{who} began it at {since} and vanished: it may have run, in part or whole (lost)")
        }
        _ if view.attempts == 0 => format!("it did not begin: {outcome}{error}"),
        _ => {
            let end = view.finished_at.as_deref().unwrap_or("an unknown instant");
            let code = view.exit_code.filter(|code| *code != 0).map(|code| format!(", exit code {code}"));
            let signal = view.signal.map(|signal| format!(", signal {signal}"));
            let status = view.http_status.map(|status| format!(", status {status}"));
            let how: String = [code, signal, status].into_iter().flatten().collect();
            format!("{who} ran it until {end}: {outcome}{how}{error}")
        }
    }
}

fn missed(reason: &str) -> &'static str {
    match MissedReason::parse(reason) {
        Some(MissedReason::StoreUnavailable) => "no replica that was up reached the store before its starting deadline",
        Some(MissedReason::NotDurable) => "the replicas of the store confirmed nothing before its starting deadline",
        Some(MissedReason::NoReplica) => {
            "no replica was up that had the job in its table, or the one that had claimed it died before it began"
        }
        Some(MissedReason::Saturated) => "all replicas that were up had no free place until its starting deadline",
        Some(MissedReason::StoreForgot) => "the store may have forgotten whether somebody ran it",
        Some(MissedReason::CatchUp) => "it was late, after an outage, and catchUp does not name it",
        Some(MissedReason::Late) => "it was claimed only after its starting deadline",
        None => "nobody started it before its starting deadline",
    }
}

fn skipped(reason: &str) -> &'static str {
    match SkipReason::parse(reason) {
        Some(SkipReason::Overlap) => "an earlier run of the job was still going, and concurrencyPolicy keeps it back",
        Some(SkipReason::Superseded) => "a later tick of the job had begun already",
        Some(SkipReason::Paused) => "the job was paused",
        Some(SkipReason::Suspended) => "the table suspends the job",
        Some(SkipReason::Removed) => "the job was taken out of the table",
        Some(SkipReason::Rescheduled) => "the job's schedule was changed",
        Some(SkipReason::StopAsked) => "somebody asked for its stop before it began",
        Some(SkipReason::CatchUp) => "it was late, after an outage, and catchUp does not name it",
        _ => "a replica decided so",
    }
}
