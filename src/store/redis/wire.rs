//! Steps as arguments of scripts, and their replies as answers.

use crate::job::Answer;
use crate::job::Claim;
use crate::job::Decision;
use crate::job::Expect;
use crate::job::Former;
use crate::job::HistoryEntry;
use crate::job::JobRecord;
use crate::job::Reassert;
use crate::job::Registration;
use crate::job::RunRecord;
use crate::job::Seen;
use crate::job::Step;
use crate::job::Tick;
use crate::job::Unreadable;
use crate::job::Verdict;
use crate::store::fields::JOB_FIELDS;
use crate::store::fields::RUN_FIELDS;
use redis::Value;
use serde::Deserialize;
use std::collections::HashMap;

/// The arguments of a step's script. The first two say the tick; each script's first lines say the others, but for the
/// last three, which say what the store is and are added when it is known to which server they go.
pub(super) fn arguments(step: &Step) -> Vec<String> {
    let mut args = match step.run() {
        Some(run) => vec![run.scheduled_for.to_string(), run.scheduled_for.seconds().to_string()],
        None => vec![String::new(), String::new()],
    };
    match step {
        Step::Register(registration) => args.extend(registration_arguments(registration)),
        Step::Claim(claim) => args.extend(claim_arguments(claim)),
        Step::Begin { owner, start, request, .. } => {
            args.extend([owner.to_string(), start.to_string(), request.clone()]);
        }
        Step::Wait { owner, start, .. } => args.extend([owner.to_string(), start.to_string(), String::new()]),
        Step::AskStop { by, reason, .. } => args.extend([by.clone(), reason.to_string()]),
        Step::Order(order) => args.extend([
            order.owner.to_string(),
            order.by.clone(),
            order.key.clone(),
            text_of(order.runs_for),
            if order.despite_pause { "1".into() } else { String::new() },
        ]),
        Step::Pause { all, pause, only_if, .. } => {
            let (by, reason) = pause.as_ref().map(|pause| (pause.by.clone(), pause.reason.clone())).unwrap_or_default();
            args.extend([flag(*all), by, reason, text_of(*only_if)]);
        }
        Step::CallStale { by, last_success, since, after_ms, .. } => {
            let fresh_at = last_success.map_or(*since, Tick::millis);
            args.extend([by.to_string(), text_of(*last_success), since.to_string()]);
            args.extend([fresh_at.to_string(), (fresh_at + after_ms).to_string()]);
        }
        Step::Renew { owner, start, .. } | Step::Abandon { owner, start, .. } => {
            args.extend([owner.to_string(), start.to_string()]);
        }
        Step::Reassert(reassert) => args.extend(reassert_arguments(reassert)),
        Step::Complete { owner, start, ending, .. } => args.extend([
            owner.to_string(),
            start.to_string(),
            ending.outcome.to_string(),
            text_of(ending.exit_code),
            text_of(ending.signal),
            ending.duration_ms.to_string(),
            ending.error.clone(),
            ending.output_tail.clone(),
            text_of(ending.http_status),
        ]),
        Step::Settle { owner, previous, expect, decision, .. } => {
            let (word, reason) = match decision {
                Decision::Missed(reason) => ("missed", reason.as_str()),
                Decision::Skipped(reason) => ("skipped", reason.as_str()),
                Decision::Stopped(reason) => (reason.outcome().as_str(), ""),
                Decision::Lost => ("lost", ""),
                Decision::Drained => ("drained", ""),
            };
            args.extend([owner.to_string(), previous.to_string(), word.into(), reason.into()]);
            match expect {
                Expect::Absent { after_ms } => args.extend(["absent".into(), after_ms.to_string()]),
                Expect::AbsentRange { first, count, after_ms } => {
                    args.extend(["range".into(), after_ms.to_string(), first.to_string()]);
                    args.extend([first.seconds().to_string(), count.to_string()]);
                }
                Expect::Own(own) => args.extend(["own".into(), own.to_string()]),
                Expect::Unchanged(seen) => {
                    args.push("unchanged".into());
                    args.extend(seen_arguments(seen));
                }
            }
        }
        Step::Read { .. } => {}
    }
    args
}

fn text_of<T: ToString>(number: Option<T>) -> String {
    number.map_or_else(String::new, |number| number.to_string())
}

fn flag(set: bool) -> String {
    u8::from(set).to_string()
}

fn reassert_arguments(reassert: &Reassert) -> [String; 14] {
    [
        reassert.owner.to_string(),
        reassert.start.to_string(),
        flag(reassert.begun),
        reassert.lease_ms.to_string(),
        reassert.grace_ms.to_string(),
        reassert.takeover_ms.to_string(),
        flag(reassert.exclusive),
        flag(reassert.rerun),
        reassert.trigger.clone(),
        reassert.spec_hash.clone(),
        reassert.number.to_string(),
        reassert.delay_ms.to_string(),
        reassert.stop_grace_ms.to_string(),
        reassert.when_busy.as_str().into(),
    ]
}

fn registration_arguments(registration: &Registration) -> [String; 20] {
    let knew = registration.knew.clone().unwrap_or_default();
    let (from, until) = registration.passed.unzip();
    let [ticks, successful, failed] = registration.history;
    [
        registration.schedule.clone(),
        registration.zone.clone(),
        registration.spec_hash.clone(),
        registration.skew_tolerance_ms.to_string(),
        registration.keep_ms.to_string(),
        ticks.to_string(),
        successful.to_string(),
        failed.to_string(),
        registration.quiet_ms.to_string(),
        flag(registration.knew.is_some()),
        knew.since.to_string(),
        knew.decided_through.to_string(),
        flag(knew.missing),
        knew.forgot_at.to_string(),
        knew.quiet_for_ms.to_string(),
        knew.schedule,
        knew.zone,
        Former::list_text(&knew.former),
        text_of(from),
        text_of(until),
    ]
}

fn claim_arguments(claim: &Claim) -> Vec<String> {
    let mut args = vec![
        claim.owner.to_string(),
        claim.previous.to_string(),
        flag(claim.take),
        claim.lease_ms.to_string(),
        claim.grace_ms.to_string(),
        claim.takeover_ms.to_string(),
        flag(claim.exclusive),
        flag(claim.rerun),
        claim.trigger.clone(),
        claim.spec_hash.clone(),
        claim.delay_ms.to_string(),
        claim.stop_grace_ms.to_string(),
        claim.when_busy.to_string(),
    ];
    if let Some(seen) = &claim.takeover {
        args.extend(seen_arguments(seen));
    }
    args
}

fn seen_arguments(seen: &Seen) -> [String; 4] {
    [seen.owner.to_string(), seen.start.to_string(), seen.state.as_str().into(), seen.number.to_string()]
}

/// A reply that does not have the form that our scripts give.
#[derive(Debug, thiserror::Error)]
pub(super) enum BadReply {
    /// Not what was expected.
    #[error("the reply has another form than expected: {0}")]
    Form(String),
    /// A record that cannot be read.
    #[error("{0}")]
    Record(Unreadable),
}

impl BadReply {
    /// There are fewer replies than commands.
    pub fn none() -> Self {
        Self::Form("nothing".into())
    }
}

impl From<Unreadable> for BadReply {
    fn from(unreadable: Unreadable) -> Self {
        Self::Record(unreadable)
    }
}

/// Reads a script's reply: verdict, two details, job, run, open runs.
pub(super) fn answer(reply: &Value) -> Result<Answer, BadReply> {
    let Value::Array(parts) = reply else { return Err(BadReply::Form(format!("{reply:?}"))) };
    let [word, detail, other, job, run, open] = parts.as_slice() else {
        return Err(BadReply::Form(format!("{} parts", parts.len())));
    };
    let Value::Array(open) = open else { return Err(BadReply::Form(format!("{open:?}"))) };
    let verdict = verdict(text(word)?, text(detail)?, text(other)?)?;
    let records = || {
        let open = open.iter().filter_map(|run| self::run(run).transpose()).collect::<Result<_, _>>()?;
        Ok(Answer { verdict, job: self::job(job)?, run: self::run(run)?, open })
    };
    match records() {
        // That is the trouble of one job; steps of others have their answers.
        Err(BadReply::Record(_)) => Ok(Answer::unreadable(0)),
        outcome => outcome,
    }
}

/// A job's record from the values of [`JOB_FIELDS`]; `None` where there is no record.
pub(super) fn job(values: &Value) -> Result<Option<JobRecord>, BadReply> {
    let Some(pairs) = pairs(values, &JOB_FIELDS)? else { return Ok(None) };
    Ok(Some(JobRecord::from_fields(pairs.as_slice())?))
}

fn run(values: &Value) -> Result<Option<RunRecord>, BadReply> {
    let Some(pairs) = pairs(values, &RUN_FIELDS)? else { return Ok(None) };
    Ok(Some(RunRecord::from_fields(pairs.as_slice())?))
}

fn pairs<'a>(values: &'a Value, names: &[&'a str]) -> Result<Option<Vec<(&'a str, &'a str)>>, BadReply> {
    let values = match values {
        Value::Nil => return Ok(None),
        Value::Array(values) if values.len() == names.len() => values,
        other => return Err(BadReply::Form(format!("{other:?}"))),
    };
    // The form's version comes first in both records; where it is absent, so is the record.
    if matches!(values.first(), Some(Value::Nil)) {
        return Ok(None);
    }
    names.iter().zip(values).map(|(name, value)| Ok((*name, text(value)?))).collect::<Result<_, _>>().map(Some)
}

fn text(value: &Value) -> Result<&str, BadReply> {
    match value {
        Value::Nil => Ok(""),
        Value::SimpleString(text) => Ok(text),
        Value::BulkString(bytes) => {
            str::from_utf8(bytes).map_err(|_| BadReply::Form(format!("{bytes:?} is not text in UTF-8")))
        }
        other => Err(BadReply::Form(format!("{other:?}"))),
    }
}

fn verdict(word: &str, detail: &str, other: &str) -> Result<Verdict, BadReply> {
    let bad = || BadReply::Form(format!("verdict {word:?} with {detail:?}"));
    Ok(match word {
        "registered" => Verdict::Registered { fresh: detail == "1", rescheduled: other == "1" },
        "won" => Verdict::Won,
        "held" => Verdict::Held,
        "done" => Verdict::Done,
        "free" => Verdict::Free,
        "paused" => Verdict::Paused,
        "too_early" => Verdict::TooEarly { by_ms: detail.parse().map_err(|_| bad())? },
        "too_old" => Verdict::TooOld,
        "forgot" => Verdict::Forgot,
        "unregistered" => Verdict::Unregistered,
        "begun" => Verdict::Begun,
        "busy" => Verdict::Busy { occupant: Tick::parse(detail).ok_or_else(bad)?, renewed: other == "1" },
        "quiet" => Verdict::Quiet,
        "superseded" => Verdict::Superseded,
        "stop_asked" => Verdict::StopAsked,
        "asked" => Verdict::Asked,
        "ordered" => Verdict::Ordered,
        "noted" => Verdict::Noted,
        "fenced" => Verdict::Fenced,
        "gone" => Verdict::Gone,
        "renewed" => Verdict::Renewed,
        "lost" => Verdict::Lost,
        "recorded" => Verdict::Recorded,
        "recorded_late" => Verdict::RecordedLate,
        "released" => Verdict::Released,
        "settled" => Verdict::Settled,
        "changed" => Verdict::Changed,
        "occupied" => Verdict::Occupied { at: Tick::parse(detail).ok_or_else(bad)? },
        "read" => Verdict::Read,
        "unreadable" => Verdict::Unreadable { format: detail.parse().map_err(|_| bad())? },
        _ => return Err(bad()),
    })
}

#[derive(Deserialize)]
struct Output {
    scheduled_for: String,
    output_tail: String,
}

/// Joins the lines of a history with the output that is kept for some of them.
pub(super) fn history(lines: &[String], outputs: &[String]) -> Result<Vec<HistoryEntry>, serde_json::Error> {
    let mut tails = HashMap::new();
    for line in outputs {
        let output: Output = serde_json::from_str(line)?;
        tails.insert(output.scheduled_for, output.output_tail);
    }
    let entry = |line: &String| {
        let mut entry: HistoryEntry = serde_json::from_str(line)?;
        entry.output_tail = tails.remove(&entry.scheduled_for).unwrap_or_default();
        Ok(entry)
    };
    lines.iter().map(entry).collect()
}
