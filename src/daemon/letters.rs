//! What the engine noticed, as it is told to those whom the job names. To be asked only where somebody is told.

use crate::engine::Notice;
use crate::engine::RunFacts;
use crate::job::Ending;
use crate::job::JobName;
use crate::job::Occasion;
use crate::job::Outcome;
use crate::notify::About;
use crate::notify::Facts;
use crate::notify::TAIL_MOST;
use crate::telemetry::events::JobRecovered;
use std::time::Duration;

/// How long an error is.
const ERROR_MOST: usize = 2 << 10;

/// What somebody may want to be told of a notice, and of which job.
pub fn subject(notice: &Notice) -> Option<(About, &JobName)> {
    match notice {
        // Attempts after the first are the same run.
        Notice::RunStarted { facts, .. } if facts.start == 1 => Some((About::Start, &facts.run.job)),
        Notice::RunFinished { facts, ending, again: false, .. } => {
            Some((About::Told(occasion(ending.outcome)?), &facts.run.job))
        }
        Notice::RunMissed { facts, .. } => Some((About::Told(Occasion::Missed), &facts.run.job)),
        Notice::RunsMissed { job, .. } => Some((About::Told(Occasion::Missed), job)),
        Notice::RunLost { facts, .. } => Some((About::Told(Occasion::Lost), &facts.run.job)),
        Notice::JobStale { job, .. } => Some((About::Told(Occasion::Stale), job)),
        _ => None,
    }
}

/// What is known of a notice that has a subject.
pub fn facts(notice: &Notice) -> Facts {
    match notice {
        Notice::RunStarted { facts, .. } => of_run(facts),
        Notice::RunFinished { facts, ending, attempts, .. } => of_ending(facts, ending, *attempts),
        Notice::RunMissed { facts, reason, .. } => Facts { reason: reason.as_str(), ..of_run(facts) },
        Notice::RunsMissed { first, through, count, reason, .. } => {
            let (scheduled_for, through) = (first.to_string(), through.to_string());
            Facts { scheduled_for, through, ticks: *count, reason: reason.as_str(), ..Facts::default() }
        }
        Notice::RunLost { facts, holder, rerun } => {
            let (replica, attempts) = (holder.to_string(), Some(facts.start));
            Facts { replica, attempts, rerun: *rerun, outcome: "lost", ..of_run(facts) }
        }
        Notice::JobStale { last_success, stale_after, .. } => {
            let last_success = last_success.map(|tick| tick.to_string()).unwrap_or_default();
            Facts { last_success, stale_after: Some(*stale_after), ..Facts::default() }
        }
        _ => Facts::default(),
    }
}

/// What is known of a success that ended a time of trouble.
pub fn recovery(facts: &RunFacts, recovered: JobRecovered) -> Facts {
    let JobRecovered { failures, missed, failing_for } = recovered;
    let failing_for = Some(failing_for).filter(|lasted| !lasted.is_zero());
    Facts { failures, missed, failing_for, outcome: "succeeded", ..of_run(facts) }
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

/// What is hidden was hidden where the job said it, as in the log; what is told is never more than is in hand there.
fn of_ending(facts: &RunFacts, ending: &Ending, attempts: u32) -> Facts {
    let Ending { outcome, exit_code, signal, http_status, duration_ms, error, output_tail } = ending;
    Facts {
        attempts: Some(attempts),
        outcome: outcome.as_str(),
        exit_code: *exit_code,
        signal: *signal,
        http_status: *http_status,
        duration: Some(Duration::from_millis(*duration_ms)),
        error: error[..error.floor_char_boundary(ERROR_MOST)].to_owned(),
        output_tail: last_lines(output_tail).to_owned(),
        ..of_run(facts)
    }
}

/// The end of an output, from the beginning of a line on.
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
    use crate::job::RunKey;
    use crate::job::Tick;
    use crate::job::Trigger;

    fn finished(outcome: Outcome, again: bool) -> Notice {
        let run = RunKey::new(JobName::new("a").unwrap(), Tick::from_seconds(1_772_330_400));
        let facts = RunFacts { run, trigger: Trigger::Schedule, start: 2, token: None };
        let ending = Ending {
            outcome,
            exit_code: Some(3),
            signal: None,
            http_status: None,
            duration_ms: 1500,
            error: "\u{e4}".repeat(2000),
            output_tail: format!("{}\nbye\n", "x".repeat(10_000)),
        };
        Notice::RunFinished { facts, ending, attempts: 2, output_bytes: 9, again }
    }

    #[test]
    fn what_a_job_says_is_told_from_the_beginning_of_a_line_and_not_without_end() {
        let notice = finished(Outcome::Failed, false);
        let facts = facts(&notice);
        assert_eq!(subject(&notice).map(|(about, _)| about), Some(About::Told(Occasion::Failure)));
        assert_eq!((facts.error.len(), facts.output_tail.as_str()), (ERROR_MOST, "bye\n"));
        assert_eq!(facts.run_id, "a@2026-03-01T02:00:00Z");
    }

    #[test]
    fn a_run_that_is_started_again_or_was_stopped_by_somebody_concerns_nobody() {
        let about = |outcome, again| subject(&finished(outcome, again)).map(|(about, _)| about);
        assert_eq!(about(Outcome::Interrupted, false), Some(About::Told(Occasion::Failure)));
        assert_eq!(about(Outcome::Interrupted, true), None);
        assert_eq!((about(Outcome::Cancelled, false), about(Outcome::Replaced, false)), (None, None));
    }
}
