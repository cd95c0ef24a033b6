//! What the engine noticed, as letters to those whom the job names. Every text that a job or a server said goes through
//! `redact` here.

use crate::engine::Notice;
use crate::engine::RunFacts;
use crate::job::Ending;
use crate::job::JobName;
use crate::job::JobSpec;
use crate::job::Occasion;
use crate::job::Outcome;
use crate::notify::About;
use crate::notify::Facts;
use crate::notify::Letter;
use crate::secret::Redaction;
use crate::telemetry::events::JobRecovered;
use chrono::DateTime;
use chrono::Utc;
use std::sync::Arc;
use std::time::Duration;

/// How much of an output goes along.
const TAIL_MOST: usize = 4 << 10;
/// How long an error is.
const ERROR_MOST: usize = 2 << 10;

/// The job that a notice is about, where somebody may want to be told of it.
pub fn job_of(notice: &Notice) -> Option<&JobName> {
    match notice {
        Notice::RunStarted { facts, .. }
        | Notice::RunFinished { facts, .. }
        | Notice::RunMissed { facts, .. }
        | Notice::RunLost { facts, .. } => Some(&facts.run.job),
        Notice::RunsMissed { job, .. } | Notice::JobStale { job, .. } => Some(job),
        _ => None,
    }
}

/// What is told of a notice, which was noticed at that time, if anybody wants to know.
pub fn of(notice: &Notice, spec: &Arc<JobSpec>, (at, redaction): (DateTime<Utc>, &Redaction)) -> Option<Letter> {
    if spec.notify.is_empty() {
        return None; // most have none
    }
    let (about, facts) = match notice {
        // Attempts after the first are the same run.
        Notice::RunStarted { facts, .. } if facts.start == 1 => (About::Start, of_run(facts)),
        Notice::RunFinished { facts, ending, attempts, again: false, .. } => {
            (About::Told(occasion(ending.outcome)?), of_ending(facts, (ending, *attempts), redaction))
        }
        Notice::RunMissed { facts, reason, .. } => {
            (About::Told(Occasion::Missed), Facts { reason: reason.as_str(), ..of_run(facts) })
        }
        Notice::RunsMissed { first, through, count, reason, .. } => {
            let (scheduled_for, through) = (first.to_string(), through.to_string());
            let facts = Facts { scheduled_for, through, ticks: *count, reason: reason.as_str(), ..Facts::default() };
            (About::Told(Occasion::Missed), facts)
        }
        Notice::RunLost { facts, holder, rerun } => {
            let (replica, attempts) = (holder.to_string(), Some(facts.start));
            let facts = Facts { replica, attempts, rerun: *rerun, outcome: "lost", ..of_run(facts) };
            (About::Told(Occasion::Lost), facts)
        }
        Notice::JobStale { last_success, stale_after, .. } => {
            let last_success = last_success.map(|tick| tick.to_string()).unwrap_or_default();
            let facts = Facts { last_success, stale_after: Some(*stale_after), ..Facts::default() };
            (About::Told(Occasion::Stale), facts)
        }
        _ => return None,
    };
    Some(Letter { about, at, spec: Arc::clone(spec), facts })
}

/// What is told of a success that ended a time of trouble.
pub fn recovery(spec: &Arc<JobSpec>, facts: &RunFacts, (at, recovered): (DateTime<Utc>, JobRecovered)) -> Letter {
    let JobRecovered { failures, missed, failing_for } = recovered;
    let failing_for = Some(failing_for).filter(|lasted| !lasted.is_zero());
    let facts = Facts { failures, missed, failing_for, outcome: "succeeded", ..of_run(facts) };
    Letter { about: About::Told(Occasion::Recovery), at, spec: Arc::clone(spec), facts }
}

/// Who is told of a run that ended so. One that somebody stopped, by hand or for a later one, concerns nobody.
fn occasion(outcome: Outcome) -> Option<Occasion> {
    match outcome {
        Outcome::Succeeded => Some(Occasion::Success),
        outcome if outcome.is_failure() => Some(Occasion::Failure),
        _ => None,
    }
}

fn of_run(facts: &RunFacts) -> Facts {
    Facts {
        run_id: facts.run.to_string(),
        scheduled_for: facts.run.scheduled_for.instant(),
        trigger: facts.trigger.as_str(),
        ..Facts::default()
    }
}

fn of_ending(facts: &RunFacts, (ending, attempts): (&Ending, u32), redaction: &Redaction) -> Facts {
    let Ending { outcome, exit_code, signal, http_status, duration_ms, error, output_tail } = ending;
    let mut error = redaction.text(error).into_owned();
    error.truncate(error.floor_char_boundary(ERROR_MOST));
    Facts {
        attempts: Some(attempts),
        outcome: outcome.as_str(),
        exit_code: *exit_code,
        signal: *signal,
        http_status: *http_status,
        duration: Some(Duration::from_millis(*duration_ms)),
        error,
        output_tail: redaction.text(last_lines(output_tail)).into_owned(),
        ..of_run(facts)
    }
}

/// The end of an output, from the beginning of a line on: `redact` searches whole lines, and the scheduler, on whose thread
/// this is, has no time for more.
fn last_lines(tail: &str) -> &str {
    let from = tail.ceil_char_boundary(tail.len().saturating_sub(TAIL_MOST));
    let end = &tail[from..];
    if from == 0 || tail[..from].ends_with('\n') {
        return end;
    }
    end.split_once('\n').map_or(end, |(_, rest)| rest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config;
    use crate::config::Source;
    use crate::job::RunKey;
    use crate::job::Tick;
    use crate::job::Trigger;

    fn spec(notify: &str) -> (Arc<JobSpec>, Redaction) {
        let text = format!(
            "scheduler: {{redact: ['hunter[0-9]']}}\nnotifiers: {{n: {{type: webhook, url: 'http://127.0.0.1:1/'}}}}\njobs:\n  \
             - {{name: a, schedule: '@daily', command: x, notify: {notify}}}\n"
        );
        let table = config::load(&[Source::new("jobs.yaml", text.into_bytes())], DateTime::default()).unwrap().table;
        (Arc::clone(&table.jobs[0]), table.scheduler.redact)
    }

    fn finished(outcome: Outcome, again: bool) -> Notice {
        let run = RunKey::new(JobName::new("a").unwrap(), Tick::from_seconds(1_772_330_400));
        let facts = RunFacts { run, trigger: Trigger::Schedule, start: 2, token: None };
        let ending = Ending {
            outcome,
            exit_code: Some(3),
            signal: None,
            http_status: None,
            duration_ms: 1500,
            error: "no hunter1".into(),
            output_tail: format!("{}\nbye hunter2\n", "x".repeat(10_000)),
        };
        Notice::RunFinished { facts, ending, attempts: 2, output_bytes: 9, again }
    }

    fn told(notice: &Notice, notify: &str) -> Option<Letter> {
        let (spec, redaction) = spec(notify);
        of(notice, &spec, (DateTime::default(), &redaction))
    }

    #[test]
    fn what_a_job_says_is_told_without_what_is_hidden_and_from_the_beginning_of_a_line() {
        let letter = told(&finished(Outcome::Failed, false), "{onFailure: [n]}").unwrap();
        assert_eq!(letter.about, About::Told(Occasion::Failure));
        assert_eq!(
            (letter.facts.error.as_str(), letter.facts.output_tail.as_str()),
            ("no [redacted]", "bye [redacted]\n")
        );
        assert_eq!(letter.facts.run_id, "a@2026-03-01T02:00:00Z");
    }

    #[test]
    fn a_run_that_is_started_again_or_was_stopped_by_somebody_concerns_nobody() {
        let about = |outcome, again| told(&finished(outcome, again), "{onFailure: [n]}").map(|letter| letter.about);
        assert_eq!(about(Outcome::Interrupted, false), Some(About::Told(Occasion::Failure)));
        assert_eq!(about(Outcome::Interrupted, true), None);
        assert_eq!((about(Outcome::Cancelled, false), about(Outcome::Replaced, false)), (None, None));
        assert_eq!(told(&finished(Outcome::Failed, false), "{}"), None);
    }
}
