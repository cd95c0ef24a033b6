//! The audit trail: one row for each thing that became of a run, never changed, written in the same transaction.

use crate::job::Answer;
use crate::job::Decision;
use crate::job::JobName;
use crate::job::RunRecord;
use crate::job::Step;
use crate::job::Verdict;
use crate::job::fencing_token;

/// What became of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunEvent {
    /// When: store clock, milliseconds.
    pub happened_at: i64,
    /// The job.
    pub job: JobName,
    /// What: a word of those in docs/stores.md.
    pub event: &'static str,
    /// Who did it: a replica, or who asked for a stop.
    pub actor: String,
    /// The run, as it is after it.
    pub run: RunRecord,
    /// The fencing token of its last begin; 0: it has not begun.
    pub token: u64,
}

impl RunEvent {
    /// What a step that changed a run did to it; `None` for signs of life, which come every few seconds.
    pub fn of(step: &Step, answer: &Answer, before: Option<&RunRecord>, now: i64) -> Option<Self> {
        let run = answer.run.clone()?;
        let (event, actor) = match (step, answer.verdict) {
            (Step::Claim(claim), Verdict::Won) => {
                let other = before.is_some_and(|before| before.owner != claim.owner && !before.is_order());
                (if other { "taken_over" } else { "claimed" }, claim.owner.to_string())
            }
            (Step::Begin { owner, .. }, Verdict::Begun) => ("begun", owner.to_string()),
            (Step::Complete { owner, .. }, Verdict::Recorded) => ("completed", owner.to_string()),
            (Step::Complete { owner, .. }, Verdict::RecordedLate) => ("completed_late", owner.to_string()),
            (Step::Abandon { owner, .. }, Verdict::Released) => ("given_back", owner.to_string()),
            (Step::Order(order), Verdict::Ordered) => ("ordered", order.by.clone()),
            (Step::AskStop { by, .. }, Verdict::Asked) => ("stop_asked", by.clone()),
            (Step::Settle { owner, decision, .. }, Verdict::Settled) => {
                let event = match decision {
                    Decision::Lost => "lost",
                    Decision::Drained => "drained",
                    Decision::Missed(_) | Decision::Skipped(_) | Decision::Stopped(_) => "settled",
                };
                (event, owner.to_string())
            }
            (Step::Reassert(word), Verdict::Renewed) if is_made_again(before, &run) => {
                ("reasserted", word.owner.to_string())
            }
            _ => return None,
        };
        let token = match (run.start, run.token) {
            (0, _) => 0,
            (start, 0) => fencing_token(run.scheduled_for, start),
            (_, token) => token,
        };
        Some(Self { happened_at: now, job: step.job().clone(), event, actor, run, token })
    }
}

/// Whether the word of its owner changed more than a sign of life does.
fn is_made_again(before: Option<&RunRecord>, after: &RunRecord) -> bool {
    before
        .is_none_or(|before| before.state != after.state || before.owner != after.owner || before.start != after.start)
}
