//! Why something that was asked for is not done.

use crate::config::nearest;
use crate::job::JobName;
use crate::job::JobRecord;
use crate::job::ReplicaId;
use crate::job::RunKey;
use crate::job::RunRecord;
use crate::job::Tick;
use crate::store::Error;
use crate::store::ErrorKind;

/// See the module. The texts say what was found, and [`Refusal::hint`] what to do.
#[derive(Debug, thiserror::Error)]
pub enum Refusal {
    /// The store did not answer, or not in words that we know.
    #[error(transparent)]
    Store(#[from] Error),
    /// No replica has told the store of such a job.
    #[error("the store {store} knows no job `{job}`")]
    NoJob {
        /// Which.
        job: JobName,
        /// Where.
        store: String,
        /// All that it knows.
        known: Vec<JobName>,
    },
    /// The store restarted, and no replica has come back to it since.
    #[error("the store restarted, and no replica has registered job `{0}` since")]
    NotRegistered(JobName),
    /// A record is of a form that this version does not know.
    #[error("the records of job `{0}` were written by another version of onecron")]
    Unreadable(JobName),
    /// The job is paused.
    #[error("job `{job}` is paused, by {by}{reason}")]
    Paused {
        /// Which.
        job: JobName,
        /// Who did that.
        by: String,
        /// Why, as it stands after that.
        reason: String,
        /// With all jobs.
        all: bool,
    },
    /// There is no such run.
    #[error("the store {store} knows no run `{run}`")]
    NoRun {
        /// Which.
        run: RunKey,
        /// Where.
        store: String,
        /// The job's open runs.
        open: Vec<RunKey>,
    },
    /// It is over.
    #[error("run `{run}` is over: {outcome}")]
    Over {
        /// Which.
        run: RunKey,
        /// How it ended.
        outcome: String,
    },
    /// Something else has the job, or the run.
    #[error("job `{}` is held by run `{run}`, which {holder} has", run.job)]
    Busy {
        /// What is going.
        run: RunKey,
        /// Who has it.
        holder: ReplicaId,
    },
    /// A success would count as one for that instant, and jobs that ask for all since then would find nothing.
    #[error("the instant {at} is yet to come: by the clock of the store it is {now}")]
    Ahead {
        /// What it was to run for.
        at: Tick,
        /// The store's time.
        now: Tick,
    },
    /// The store cannot tell yet what it remembers.
    #[error("the store may have forgotten what it knew of job `{0}` a moment ago")]
    Forgot(JobName),
}

impl Refusal {
    pub(super) fn no_job(job: &JobName, (store, jobs): (&str, &[(JobName, JobRecord)])) -> Self {
        let known = jobs.iter().map(|(name, _)| name.clone()).collect();
        Self::NoJob { job: job.clone(), store: store.into(), known }
    }

    pub(super) fn over(run: &RunKey, record: &RunRecord) -> Self {
        let outcome = record.outcome.map_or("done", |outcome| outcome.as_str());
        let reason = if record.reason.is_empty() { String::new() } else { format!(" ({})", record.reason) };
        Self::Over { run: run.clone(), outcome: format!("{outcome}{reason}") }
    }

    pub(super) fn paused(job: &JobName, record: &JobRecord) -> Self {
        let pause = record.pause();
        let by = pause.map_or_else(|| "somebody".to_owned(), |pause| pause.by.clone());
        let reason = pause.map(|pause| pause.reason.as_str()).filter(|reason| !reason.is_empty());
        let reason = reason.map_or_else(String::new, |reason| format!(" ({reason})"));
        Self::Paused { job: job.clone(), by, reason, all: record.paused.is_none() }
    }

    /// What to do, where there is something.
    pub fn hint(&self) -> Option<String> {
        let hint = self.hint_of_doctor()?;
        Some(if self.is_unreached() { format!("{hint} `onecron doctor` looks at it") } else { hint })
    }

    /// Whether the store may not be there at all.
    fn is_unreached(&self) -> bool {
        matches!(self, Self::Store(error) if error.kind == ErrorKind::NotSent && !error.store.starts_with("sqlite:"))
    }

    /// The same for who has just had the doctor look.
    pub fn hint_of_doctor(&self) -> Option<String> {
        Some(match self {
            Self::Store(_) if self.is_unreached() => {
                "if no server answers there: is one of this kind there, and are host and port right?".into()
            }
            Self::Store(_) | Self::Over { .. } => return None,
            Self::NoJob { known, .. } if known.is_empty() => {
                "no daemon has registered any job there: name the store and the namespace that the daemons have \
                 (--store, --namespace)"
                    .into()
            }
            Self::NoJob { job, known, .. } => match nearest(job.as_str(), known.iter().map(JobName::as_str)) {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("it knows {}", listed(known)),
            },
            Self::NotRegistered(_) => "start a daemon that has the job, or try again in a moment".into(),
            Self::Unreadable(_) => "use that version here too".into(),
            Self::Paused { all: true, .. } => "`onecron resume --all` lets all go on; --force runs it now".into(),
            Self::Paused { job, .. } => format!("`onecron resume {job}` lets it go on; --force runs it now"),
            Self::NoRun { open, .. } if open.is_empty() => "no run of the job is open".into(),
            Self::NoRun { open, .. } => format!("open are {}", listed(open)),
            Self::Busy { run, .. } => format!("wait for its end, or ask for it: `onecron cancel {run}`"),
            Self::Ahead { .. } => "write an instant that is past, or leave `--at` out".into(),
            Self::Forgot(_) => "try again in a moment".into(),
        })
    }
}

/// The first few, in words.
fn listed(names: &[impl ToString]) -> String {
    const MOST: usize = 5;
    let shown: Vec<String> = names.iter().take(MOST).map(|name| format!("`{}`", name.to_string())).collect();
    let more = names.len().saturating_sub(MOST);
    let rest = if more == 0 { String::new() } else { format!(" and {more} more") };
    shown.join(", ") + &rest
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::doing;

    #[test]
    fn only_what_is_asked_over_a_network_is_looked_for_there() {
        for (store, kind, has_hint) in [
            ("redis://cache:6379", ErrorKind::NotSent, true),
            ("redis://cache:6379", ErrorKind::MaybeApplied, false),
            ("sqlite:onecron.db", ErrorKind::NotSent, false),
        ] {
            let error = Error { kind, operation: doing::JOBS, store: store.into(), detail: "no".into() };
            let refusal = Refusal::from(error);
            let names_doctor = |hint: Option<String>| hint.map(|hint| hint.contains("doctor"));
            assert_eq!(names_doctor(refusal.hint()), has_hint.then_some(true), "{store} {kind:?}");
            assert_eq!(names_doctor(refusal.hint_of_doctor()), has_hint.then_some(false), "{store} {kind:?}");
        }
    }
}
