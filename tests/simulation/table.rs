//! The tables of the simulated replicas.

use super::random::Random;
use onecron::job::*;
use onecron::schedule::Schedule;
use onecron::schedule::Zone;
use std::sync::Arc;
use std::time::Duration;

/// The job that only one replica has, and only until it restarts.
pub const LEAVING: &str = "leaving";

/// Name, schedule, policies, how long it runs, retries.
type Kind = (&'static str, &'static str, ConcurrencyPolicy, LostRunPolicy, &'static str, u32);

/// The same, and one more that no other replica has.
pub fn with_a_job_that_leaves(table: &JobTable) -> JobTable {
    let mut table = table.clone();
    table.jobs.push(job((LEAVING, "@every 12s", ConcurrencyPolicy::Forbid, LostRunPolicy::Report, "long", 0)));
    table.revision = "with another job".into();
    table
}

fn job((name, schedule, concurrency_policy, lost_run_policy, kind, limit): Kind) -> Arc<JobSpec> {
    Arc::new(JobSpec {
        name: JobName::new(name).unwrap(),
        description: kind.into(),
        schedule: Schedule::parse(schedule, &Zone::utc(), name).unwrap(),
        command: CommandSpec::of(Program::Direct(vec!["true".into()])),
        concurrency_policy,
        catch_up: match name {
            "retrying" => CatchUp::All,
            "quick-allow" => CatchUp::None,
            _ => CatchUp::Latest,
        },
        suspend: name == "suspended",
        lost_run_policy,
        timeout: Some(Duration::from_secs(40)),
        termination_grace_period: Duration::from_secs(2),
        jitter: Duration::from_millis(if name == "long-rerun" { 7_000 } else { 0 }),
        starting_deadline: None,
        retry: RetryPolicy { limit, backoff: Duration::from_millis(500), max_backoff: Duration::from_secs(2) },
        output: OutputLimits { mode: OutputMode::Discard, max_line_bytes: 8192, keep_tail: 0 },
        history: HistoryLimits { ticks: 200, successful: 3, failed: 10 },
        spec_hash: name.into(),
    })
}

/// The jobs that all replicas have.
pub fn of_all(random: &mut Random) -> JobTable {
    use ConcurrencyPolicy::*;
    use LostRunPolicy::*;
    let kinds: [Kind; 10] = [
        ("quick-forbid", "@every 3s", Forbid, Report, "short", 0),
        ("quick-allow", "@every 4s", Allow, Report, "short", 0),
        ("long-forbid", "@every 20s", Forbid, Report, "long", 0),
        ("long-rerun", "@every 25s", Forbid, Rerun, "long", 0),
        ("allow-rerun", "@every 30s", Allow, Rerun, "long", 0),
        ("retrying", "@every 10s", Forbid, Report, "short", 2),
        ("replacing", "@every 9s", Replace, Report, "long", 1),
        ("replace-rerun", "@every 28s", Replace, Rerun, "long", 0),
        ("queueing", "@every 8s", Queue, Report, "long", 0),
        ("suspended", "@every 15s", Forbid, Report, "short", 0),
    ];
    let scheduler = SchedulerSpec {
        lock_lease: Duration::from_secs(5),
        clock_skew_tolerance: Duration::from_millis(500),
        max_concurrent_runs: if random.chance(300) { 3 } else { 10 },
    };
    JobTable { jobs: kinds.into_iter().map(job).collect(), scheduler, revision: "test".into() }
}
