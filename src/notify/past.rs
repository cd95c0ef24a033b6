//! Whether a trouble of which somebody is still to be told is over by now: told late, a failure would be the last word about
//! a job that has long been well again. The store's records tell, by the same counts that decide which success is told as a
//! recovery.

use super::About;
use super::Letter;
use crate::job::Answer;
use crate::job::JobRecord;
use crate::job::Occasion;
use crate::job::RunKey;
use crate::job::RunRecord;
use crate::job::RunState;
use crate::job::Step;
use crate::job::Tick;

/// What to ask the store, to learn that.
pub fn question(letter: &Letter) -> Step {
    // Of several ticks, and of a job that is stale, the job's record tells by itself: the run is any.
    let run = RunKey::parse(&letter.facts.run_id);
    Step::Read { run: run.unwrap_or_else(|| RunKey::new(letter.spec.name.clone(), Tick::from_seconds(0))) }
}

/// Whether the job has had a success since then, by the answer to that.
pub fn is_over(letter: &Letter, answer: &Answer) -> bool {
    let (Some(job), About::Told(occasion)) = (&answer.job, letter.about) else { return false };
    match occasion {
        // Not before its end is recorded: until then no success can have ended it, and none has told so.
        Occasion::Failure => is_well(job) && is_recorded(answer.run.as_ref()),
        // One that is started again counts as no failure before that start has ended, too.
        Occasion::Lost => is_well(job) && (!letter.facts.rerun || is_recorded(answer.run.as_ref())),
        Occasion::Missed => is_well(job),
        Occasion::Stale => {
            let last_success = job.last_success.map(|tick| tick.to_string()).unwrap_or_default();
            last_success != letter.facts.last_success
        }
        Occasion::Recovery | Occasion::Success => false,
    }
}

/// Failures and missed ticks are counted from the latest success on: none are left where that came after them.
fn is_well(job: &JobRecord) -> bool {
    job.last_success.is_some() && job.failures == 0 && job.missed == 0
}

fn is_recorded(run: Option<&RunRecord>) -> bool {
    run.is_some_and(|run| run.state == RunState::Done)
}
