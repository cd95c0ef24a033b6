//! A message in one line, for people.

use super::About;
use super::ERROR_MOST;
use super::Facts;
use super::Letter;
use super::Message;
use super::line_of;
use crate::job::Occasion;
use std::time::Duration;

/// How many jobs are named in the line about many.
const NAMED_MOST: usize = 5;

pub(super) fn of(message: &Message) -> String {
    if message.count == 1 { one(message.first()) } else { many(message) }
}

/// `onFailure` of one job: `nightly-sales failed: exit code 3`.
pub(super) fn one(letter: &Letter) -> String {
    let since = if letter.facts.recovered { "; it has succeeded since" } else { "" };
    format!("{}{since}", what(letter))
}

fn what(letter: &Letter) -> String {
    let (job, facts) = (letter.job(), &letter.facts);
    match letter.about {
        About::Start => format!("{job} started"),
        About::Told(Occasion::Failure) => format!("{job} {}", failure(facts)),
        About::Told(Occasion::Recovery) => format!("{job} succeeds again{}", trouble(facts)),
        About::Told(Occasion::Missed) if facts.ticks > 1 => {
            let Facts { ticks, scheduled_for, through, reason, .. } = facts;
            format!("{job} was not run: {ticks} ticks from {scheduled_for} to {through} ({reason})")
        }
        About::Told(Occasion::Missed) => format!("{job} was not run: {} ({})", facts.scheduled_for, facts.reason),
        About::Told(Occasion::Lost) => {
            let then = if facts.rerun { "; it is started again elsewhere" } else { "" };
            format!("{job} was lost: {} vanished in the run of {}{then}", facts.replica, facts.scheduled_for)
        }
        About::Told(Occasion::Stale) => {
            let after = facts.stale_after.map(length).unwrap_or_default();
            let last = match facts.last_success.as_str() {
                "" => "none is known".to_owned(),
                last => format!("the last was {last}"),
            };
            format!("{job} had no success for {after}: {last}")
        }
        About::Told(Occasion::Success) => {
            format!("{job} succeeded{}", facts.duration.map(|took| format!(" in {}", length(took))).unwrap_or_default())
        }
    }
}

fn failure(facts: &Facts) -> String {
    let how = match facts.outcome {
        "timed_out" => "did not end in time",
        "not_started" => "could not be started",
        "interrupted" => "was stopped",
        _ => "failed",
    };
    let code = match (facts.exit_code, facts.signal, facts.http_status) {
        (Some(code), ..) => format!("exit code {code}"),
        (None, Some(signal), _) => format!("signal {signal}"),
        // The error says it.
        (None, None, Some(status)) if facts.error.is_empty() => format!("status {status}"),
        _ => String::new(),
    };
    let parts = [code, line_of(&facts.error, ERROR_MOST)];
    let parts: Vec<String> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    if parts.is_empty() { how.to_owned() } else { format!("{how}: {}", parts.join(", ")) }
}

/// What a success has ended.
fn trouble(facts: &Facts) -> String {
    let times = |count: u64, what: &str, many: &str| match count {
        0 => None,
        1 => Some(format!("1 {what}")),
        count => Some(format!("{count} {many}")),
    };
    let parts = [times(facts.failures, "failure", "failures"), times(facts.missed, "missed tick", "missed ticks")];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    let lasted = facts.failing_for.map(|lasted| format!(" in {}", length(lasted))).unwrap_or_default();
    if parts.is_empty() { String::new() } else { format!(" after {}{lasted}", parts.join(" and ")) }
}

/// Several: `50 jobs failed: a, b, c, d, e and 45 more`.
fn many(message: &Message) -> String {
    let verb = match message.about {
        About::Start => "started",
        About::Told(Occasion::Failure) => "failed",
        About::Told(Occasion::Recovery) => "succeed again",
        About::Told(Occasion::Missed) => "were not run",
        About::Told(Occasion::Lost) => "were lost with their replica",
        About::Told(Occasion::Stale) => "had no success for too long",
        About::Told(Occasion::Success) => "succeeded",
    };
    let mut names: Vec<&str> = Vec::new();
    for letter in &message.letters {
        if !names.contains(&letter.job()) && names.len() < NAMED_MOST {
            names.push(letter.job());
        }
    }
    let more = message.jobs.saturating_sub(names.len());
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    let well = message.letters.iter().filter(|letter| letter.facts.recovered).count();
    let since = match well {
        0 => String::new(),
        well if well == message.count => "; all have succeeded since".to_owned(),
        // Of more than are shown, nobody has looked.
        well if message.count > message.letters.len() => {
            format!("; of the first {}, {}", message.letters.len(), since(well))
        }
        well => format!("; {}", since(well)),
    };
    let what = match (message.jobs, message.count) {
        (1, count) => format!("{count} runs of 1 job"),
        (jobs, count) if jobs == count => format!("{jobs} jobs"),
        (jobs, count) => format!("{count} runs of {jobs} jobs"),
    };
    format!("{what} {verb}: {}{more}{since}", names.join(", "))
}

fn since(well: usize) -> String {
    let have = if well == 1 { "has" } else { "have" };
    format!("{well} {have} succeeded since")
}

/// Two units are enough: `1h30m`, `450ms`.
pub(super) fn length(length: Duration) -> String {
    let ms = length.as_millis();
    let units = [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000), ("ms", 1)];
    let Some(at) = units.iter().position(|(_, size)| ms >= *size) else { return "0s".to_owned() };
    let (unit, size) = units[at];
    let first = format!("{}{unit}", ms / size);
    match units.get(at + 1) {
        // Parts of a second beside seconds are of no interest.
        Some((smaller, part)) if *smaller != "ms" && ms % size >= *part => {
            format!("{first}{}{smaller}", ms % size / part)
        }
        _ => first,
    }
}
