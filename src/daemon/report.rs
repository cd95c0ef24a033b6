//! What the engine noticed, as events of the catalogue and as counts of metrics: in one place, so that the two agree.

use super::letters;
use super::post::Post;
use super::recovery::Found;
use super::run_spans::RunSpans;
use crate::engine::Disagreement;
use crate::engine::Notice;
use crate::engine::RunFacts;
use crate::engine::StartOrder;
use crate::job::Ending;
use crate::job::JobName;
use crate::job::JobSpec;
use crate::job::JobTable;
use crate::job::LostRunPolicy;
use crate::job::Occasion;
use crate::job::RunKey;
use crate::job::fencing_token;
use crate::notify::About;
use crate::notify::Facts;
use crate::notify::Letter;
use crate::schedule::zone_data_version;
use crate::telemetry::events;
use crate::telemetry::events::RunFields;
use crate::telemetry::events::RunFinished;
use crate::telemetry::events::RunLost;
use crate::telemetry::events::RunRetried;
use crate::telemetry::events::RunSkipped;
use crate::telemetry::events::TableDisagrees;
use crate::telemetry::metrics::Metrics;
use crate::telemetry::metrics::PRESENCE;
use chrono::DateTime;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// What is to be done when members cannot meet.
const PRESENCE_WANTED: &str = "the store must take one record per replica: until it does, other tables and the runs of \
                               jobs that are in no table any more are not noticed";

/// What lines about a start say.
pub fn fields_of(order: &StartOrder) -> RunFields {
    let StartOrder { run, trigger, start, token, .. } = order;
    RunFields { run: run.clone(), trigger: *trigger, attempt: *start, token: Some(*token), trace: None }
}

/// What lines say about a run that somebody has.
pub(super) fn claimed(facts: RunFacts) -> RunFields {
    let RunFacts { run, trigger, start, token } = facts;
    let of_tick = || (!run.scheduled_for.is_manual()).then(|| fencing_token(run.scheduled_for, start));
    let token = token.or_else(of_tick);
    RunFields { run, trigger, attempt: start, token, trace: None }
}

/// The engine counts in signed milliseconds, since clocks may step; a length of time is never negative.
fn length(ms: i64) -> Duration {
    Duration::from_millis(u64::try_from(ms).unwrap_or(0))
}

/// Turns notices into events, counts, and letters to whoever wants to be told.
pub struct Reporter {
    /// Those of the table in force.
    jobs: BTreeMap<JobName, Arc<JobSpec>>,
    /// Those of earlier ones of whose runs something may still be said, under the definition that they had.
    former: BTreeMap<JobName, Arc<JobSpec>>,
    /// How far clocks may differ.
    tolerance: Duration,
    metrics: Arc<Metrics>,
    /// Who tells those whom jobs name.
    pub post: Post,
    /// What it tells tracing of the same.
    pub spans: RunSpans,
}

impl Reporter {
    /// For the jobs of a table.
    pub fn new(table: &JobTable, metrics: Arc<Metrics>, (post, spans): (Post, RunSpans)) -> Self {
        let (jobs, former, tolerance) = (BTreeMap::new(), BTreeMap::new(), Duration::ZERO);
        let mut reporter = Self { jobs, former, tolerance, metrics, post, spans };
        reporter.follow(table);
        reporter
    }

    /// Another table is in force. What it does not have is known until it is forgotten.
    pub fn follow(&mut self, table: &JobTable) {
        let jobs = table.jobs.iter().map(|job| (job.name.clone(), Arc::clone(job))).collect();
        self.former.append(&mut std::mem::replace(&mut self.jobs, jobs));
        self.former.retain(|name, _| !self.jobs.contains_key(name));
        self.post.follow(table);
        self.tolerance = table.scheduler.clock_skew_tolerance;
        self.metrics.follow(table, zone_data_version());
    }

    /// Forgets jobs that are in no table any more, unless something may still be said of them.
    pub fn forget(&mut self, may_be_told: impl Fn(&JobName) -> bool) {
        self.former.retain(|name, _| may_be_told(name));
    }

    /// A job as the table in force has it, or as the last one had it that did.
    pub fn spec(&self, job: &JobName) -> Option<&Arc<JobSpec>> {
        self.jobs.get(job).or_else(|| self.former.get(job))
    }

    /// A success ended a time of trouble.
    pub fn say_recovered(&self, found: Found) {
        let Found { facts, spec, recovered } = found;
        if let Some(spec) = spec {
            self.tell(About::Told(Occasion::Recovery), &spec, || letters::recovery(&facts, recovered));
        }
        // One that was missed or stale and never failed has `onRecovery`, and no line: none said that it failed.
        if recovered.failures + recovered.missed > 0 {
            events::job_recovered(&claimed(facts), recovered);
        }
    }

    /// Says it, counts it, and tells whoever wants to know. `StoreConnected` is said by [`super::store_watch`], which knows
    /// more.
    pub fn say(&mut self, notice: Notice) {
        let subject = letters::subject(&notice);
        if let Some((about, spec)) = subject.and_then(|(about, job)| Some((about, self.spec(job)?))) {
            self.tell(about, spec, || letters::facts(&notice));
        }
        self.log(notice);
    }

    /// Most jobs have nobody who is told: for them nothing is copied.
    fn tell(&self, about: About, spec: &Arc<JobSpec>, facts: impl FnOnce() -> Facts) {
        if self.post.is_wanted(about, spec) {
            self.post.tell(Letter { about, at: self.post.now(), spec: Arc::clone(spec), facts: facts() });
        }
    }

    fn log(&mut self, notice: Notice) {
        let trace = self.spans.hear(&notice);
        let claimed = |facts| RunFields { trace: trace.clone(), ..claimed(facts) };
        // About a tick that this replica does not run: it has no token.
        let unclaimed = |facts| RunFields { token: None, ..claimed(facts) };
        match notice {
            Notice::StoreConnected { .. } => {}
            Notice::JobRegistered { job, since, again } => {
                let since = DateTime::from_timestamp_millis(since).unwrap_or_default();
                if again { events::job_forgotten(&job, since) } else { events::job_registered(&job, since) }
            }
            Notice::JobRescheduled { job, through } => events::job_rescheduled(&job, through),
            Notice::ScheduleUnreadable { job, former } => events::schedule_unreadable(&job, &former),
            Notice::JobUnreadable { job, format } => events::job_unreadable(&job, format),
            Notice::JobAhead { job, through } => events::job_ahead(&job, through),
            Notice::StoreForgot { jobs, since } => {
                let since = DateTime::from_timestamp_millis(since).unwrap_or_default();
                events::store_forgot(jobs, since);
            }
            Notice::StoreLost { kind, detail } => events::store_lost(kind, &detail),
            Notice::MeetingFails { detail } => {
                self.metrics.meeting_fails(true);
                events::store_unsafe(PRESENCE, &detail, PRESENCE_WANTED);
            }
            Notice::TableDisagrees(found) => {
                let Disagreement { revision, others, differs, jobs, detail, lasting } = *found;
                let (others, differs, jobs) = (&others[..], &differs[..], &jobs[..]);
                let (revision, detail) = (revision.as_str(), detail.as_str());
                events::table_disagrees(TableDisagrees { revision, others, differs, jobs, detail, lasting });
            }
            Notice::TableAgrees { revision } => events::table_agrees(&revision),
            Notice::ClockSkewed { offset_ms, severe } => events::clock_skewed(offset_ms, self.tolerance, severe),
            Notice::ClockInOrder { offset_ms } => events::clock_in_order(offset_ms, self.tolerance),
            Notice::ClockJumped { by_ms } => events::clock_jumped(by_ms),
            Notice::TickLate { late_ms } => events::tick_late(length(late_ms)),
            Notice::TicksPassed { job, first, through } => events::ticks_passed(&job, first, through),
            Notice::DrainExpired { runs } => events::drain_expired(&runs),
            Notice::JobPaused { job, pause } => events::job_paused(&job, &pause),
            Notice::JobResumed { job } => events::job_resumed(&job),
            Notice::AllPaused { pause } => events::all_paused(&pause),
            Notice::AllResumed => events::all_resumed(),
            Notice::RunRequested { facts, by } => events::run_requested(&unclaimed(facts), &by),
            Notice::RunCancelled { facts, by } => events::run_cancelled(&claimed(facts), &by),
            Notice::RunClaimed { facts, took } => events::run_claimed(&claimed(facts), took),
            Notice::RunSkipped { facts, reason, holder, holder_run, age } => {
                self.metrics.skipped(&facts.run.job, reason);
                let holder_run = holder_run.map(|tick| RunKey::new(facts.run.job.clone(), tick));
                let holder = holder.as_ref();
                let skipped = RunSkipped { reason, holder, holder_run: holder_run.as_ref(), age };
                events::run_skipped(&unclaimed(facts), skipped);
            }
            Notice::RunMissed { facts, reason, late_ms } => {
                self.metrics.missed(&facts.run.job, reason, 1);
                events::run_missed(&unclaimed(facts), reason, length(late_ms));
            }
            Notice::RunsMissed { job, first, through, count, reason } => {
                self.metrics.missed(&job, reason, count);
                events::runs_missed(&job, (first, through), count, reason);
            }
            Notice::RunStarted { facts, start_delay_ms, pid } => {
                self.metrics.started(length(start_delay_ms));
                events::run_started(&claimed(facts), length(start_delay_ms), pid);
            }
            Notice::RunRetried { facts, ending, next_in } => {
                self.metrics.retried(&facts.run.job);
                let error = Some(ending.error.as_str()).filter(|error| !error.is_empty());
                let (exit_code, signal, http_status) = (ending.exit_code, ending.signal, ending.http_status);
                let retried = RunRetried { exit_code, signal, http_status, error, next_attempt: next_in };
                events::run_retried(&claimed(facts), retried);
            }
            Notice::RunStopping { facts, cause } => events::run_stopping(&claimed(facts), cause.as_str()),
            Notice::RunKilled { facts, cause, grace } => events::run_killed(&claimed(facts), cause.as_str(), grace),
            Notice::JobStale { job, last_success, stale_after } => {
                events::job_stale(&job, last_success, stale_after, self.runbook(&job));
            }
            Notice::RunFinished { facts, ending, attempts, output_bytes, again: _ } => {
                self.finished(&claimed(facts), (&ending, attempts, output_bytes));
            }
            Notice::RunUnrecorded { facts, detail } => events::run_unrecorded(&claimed(facts), &detail),
            Notice::RunLost { facts, holder, rerun } => {
                self.metrics.lost(&facts.run.job);
                let policy = if rerun { LostRunPolicy::Rerun } else { LostRunPolicy::Report };
                events::run_lost(&claimed(facts), RunLost { holder: &holder, policy });
            }
            Notice::LeaseLost { facts, holder, unconfirmed_for, stops: _ } => {
                self.metrics.lease_lost(&facts.run.job);
                let policy = self.spec(&facts.run.job).map_or(LostRunPolicy::Report, |spec| spec.lost_run_policy);
                events::lease_lost(&claimed(facts), holder.as_ref(), policy, unconfirmed_for);
            }
        }
    }

    fn finished(&self, fields: &RunFields, (ending, attempts, output_bytes): (&Ending, u32, u64)) {
        let runbook_url = self.runbook(&fields.run.job).filter(|_| ending.outcome.is_failure());
        self.metrics.finished(&fields.run.job, ending.outcome, Duration::from_millis(ending.duration_ms));
        events::run_finished(fields, RunFinished { ending, attempts, output_bytes, runbook_url });
    }

    /// Where people read what to do about a job.
    fn runbook(&self, job: &JobName) -> Option<&str> {
        self.spec(job).map(|spec| spec.runbook_url.as_str()).filter(|url| !url.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::SystemClock;
    use crate::config::Source;
    use crate::config::load;

    fn table(tolerance: &str, job: &str) -> JobTable {
        let text = format!(
            "scheduler: {{clockSkewTolerance: {tolerance}}}\njobs:\n  - {{{job}, schedule: '@yearly', command: 'true'}}\n"
        );
        load(&[Source::new("jobs.yaml", text.into_bytes())], DateTime::default()).unwrap().table
    }

    fn reporter(table: &JobTable) -> Reporter {
        let metrics = Arc::new(Metrics::new(Arc::new(SystemClock), "memory:"));
        let spans = RunSpans::new(None, Arc::new(SystemClock));
        Reporter::new(table, Arc::clone(&metrics), (Post::nowhere(metrics), spans))
    }

    #[test]
    fn lines_follow_the_table_in_force_and_runs_of_removed_jobs_keep_their_policy() {
        let mut reporter = reporter(&table("1s", "name: a, lostRunPolicy: Rerun"));
        reporter.follow(&table("3s", "name: b, lostRunPolicy: Rerun"));
        let policy = |reporter: &Reporter, name: &str| {
            reporter.spec(&JobName::new(name).unwrap()).map(|spec| spec.lost_run_policy)
        };
        assert_eq!(
            (policy(&reporter, "a"), policy(&reporter, "b")),
            (Some(LostRunPolicy::Rerun), Some(LostRunPolicy::Rerun))
        );
        assert_eq!(reporter.tolerance, Duration::from_secs(3));
        reporter.follow(&table("3s", "name: a"));
        assert_eq!(policy(&reporter, "a"), Some(LostRunPolicy::Report));
    }

    #[test]
    fn removed_jobs_of_which_nothing_can_be_said_any_more_are_forgotten() {
        let mut reporter = reporter(&table("1s", "name: a"));
        for n in 0..10 {
            reporter.follow(&table("1s", &format!("name: b-{n}")));
            reporter.forget(|job| job.as_str() == "a");
        }
        let known = reporter.jobs.keys().chain(reporter.former.keys()).map(JobName::as_str).collect::<Vec<_>>();
        assert_eq!(known, ["b-9", "a"]);
        reporter.forget(|_| false);
        assert!(reporter.former.is_empty());
    }
}
