//! The tables of the simulated replicas: jobs that tick every few seconds around the faults and not otherwise, jobs that
//! tick now and then all day, and some that come, leave and change.

use super::random::Random;
use onecron::job::*;
use onecron::schedule::Schedule;
use onecron::schedule::Zone;
use std::sync::Arc;
use std::time::Duration;

/// The minutes of the day in which many ticks come: each lasts three.
pub type Episodes = Vec<u64>;

/// Name, seconds between ticks in an episode, policies, how long it runs, retries.
type Dense = (&'static str, u64, ConcurrencyPolicy, LostRunPolicy, &'static str, u32);
/// Name, schedule, policies, how long it runs, jitter in seconds.
type Sparse = (&'static str, &'static str, ConcurrencyPolicy, LostRunPolicy, &'static str, u64);

/// What differs from one version of the table to the next.
#[derive(Debug, Clone)]
pub struct Shape {
    pub lease: u64,
    pub places: u32,
    pub comes: bool,
    pub leaves: bool,
    pub shift: u64,
    pub mood: (ConcurrencyPolicy, LostRunPolicy),
    /// Some job ticks so often all day that a long absence is settled as ranges.
    pub crowded: bool,
}

impl Shape {
    /// How a day begins.
    pub fn first(random: &mut Random, crowded: bool) -> Self {
        Self {
            crowded,
            lease: if random.chance(200) { 5 } else { 15 },
            places: if random.chance(300) { 3 } else { 10 },
            comes: false,
            leaves: true,
            shift: 6,
            mood: (ConcurrencyPolicy::Forbid, LostRunPolicy::Report),
        }
    }

    /// The next version of the table.
    pub fn change(&mut self, random: &mut Random) {
        use ConcurrencyPolicy::*;
        use LostRunPolicy::*;
        match random.between(0, 5) {
            0 => (self.comes, self.leaves) = (!self.comes, !self.leaves),
            1 => self.shift = random.between(4, 12),
            2 => self.mood = (*random.pick(&[Forbid, Allow, Replace, Queue]), *random.pick(&[Report, Rerun])),
            3 => self.lease = if self.lease == 5 { 15 } else { 5 },
            _ => self.places = if self.places == 3 { 10 } else { 3 },
        }
    }
}

/// Every so many seconds in the minutes of the episodes.
fn dense(seconds: u64, episodes: &Episodes, name: &str) -> Schedule {
    let mut parts = episodes.iter().map(|minute| {
        let (hour, minute) = (minute / 60, minute % 60);
        let text = format!("*/{seconds} {minute}-{} {hour} * * *", minute + 2);
        Schedule::parse(&text, &Zone::utc(), name).unwrap()
    });
    let first = parts.next().unwrap_or_else(|| Schedule::parse("@every 3h", &Zone::utc(), name).unwrap());
    parts.fold(first, |all, part| all.or(&part))
}

/// A job of which nothing is special.
pub fn plain(name: &str, schedule: Schedule) -> JobSpec {
    let command = CommandSpec::of(Program::Direct(vec!["true".into()]));
    let mut spec = JobSpec {
        description: "short".into(),
        timeout: Some(Duration::from_secs(40)),
        termination_grace_period: Duration::from_secs(2),
        retry: RetryPolicy { limit: 0, backoff: Duration::from_millis(500), max_backoff: Duration::from_secs(2) },
        history: HistoryLimits { ticks: 20, successful: 3, failed: 10 },
        ..JobSpec::of(JobName::new(name).unwrap(), schedule, command)
    };
    stamp(&mut spec);
    spec
}

/// Gives a definition the hash that tells it from others.
pub fn stamp(spec: &mut JobSpec) {
    spec.spec_hash =
        format!("{} {} {:?} {:?}", spec.name, spec.schedule.text(), spec.concurrency_policy, spec.lost_run_policy);
}

fn job(
    (name, schedule): (&str, Schedule),
    (concurrency_policy, lost_run_policy): (ConcurrencyPolicy, LostRunPolicy),
    (kind, jitter, limit): (&str, u64, u32),
) -> Arc<JobSpec> {
    let plain = plain(name, schedule);
    let mut spec = JobSpec {
        description: kind.into(),
        concurrency_policy,
        lost_run_policy,
        catch_up: match name {
            "retrying" | "catching-up" => CatchUp::All,
            "quick-allow" => CatchUp::None,
            _ => CatchUp::Latest,
        },
        suspend: name == "suspended",
        jitter: Duration::from_secs(jitter),
        retry: RetryPolicy { limit, ..plain.retry },
        ..plain
    };
    stamp(&mut spec);
    Arc::new(spec)
}

/// The jobs of a version.
pub fn version(shape: &Shape, (number, episodes): (usize, &Episodes)) -> JobTable {
    use ConcurrencyPolicy::*;
    use LostRunPolicy::*;
    let crowd: [Dense; 10] = [
        ("quick-forbid", 3, Forbid, Report, "short", 0),
        ("quick-allow", 4, Allow, Report, "short", 0),
        ("long-forbid", 20, Forbid, Report, "long", 0),
        ("long-rerun", 25, Forbid, Rerun, "long", 0),
        ("allow-rerun", 30, Allow, Rerun, "long", 0),
        ("retrying", 10, Forbid, Report, "short", 2),
        ("replacing", 9, Replace, Report, "long", 1),
        ("replace-rerun", 28, Replace, Rerun, "long", 0),
        ("queueing", 8, Queue, Report, "long", 0),
        ("suspended", 15, Forbid, Report, "short", 0),
    ];
    let day: [Sparse; 6] = [
        ("hourly", "@every 1h", Forbid, Report, "short", 0),
        ("often", "@every 15m", Allow, Rerun, "long", 0),
        ("spread", "@every 30m", Replace, Report, "long", 300),
        ("catching-up", "@every 20m", Queue, Rerun, "short", 0),
        ("nightly", "17 3 * * *", Forbid, Report, "long", 0),
        ("evening", "40 21 * * 1-7", Queue, Rerun, "long", 60),
    ];
    let jitter = |name| if name == "long-rerun" { 7 } else { 0 };
    let crowd = crowd.into_iter().map(|(name, seconds, overlap, lost, kind, limit)| {
        job((name, dense(seconds, episodes, name)), (overlap, lost), (kind, jitter(name), limit))
    });
    let day = day.into_iter().map(|(name, text, overlap, lost, kind, jitter)| {
        job((name, Schedule::parse(text, &Zone::utc(), name).unwrap()), (overlap, lost), (kind, jitter, 0))
    });
    let mut jobs: Vec<_> = crowd.chain(day).collect();
    if shape.crowded {
        let schedule = Schedule::parse("*/20 * * * * *", &Zone::utc(), "crowded").unwrap();
        jobs.push(job(("crowded", schedule), (Forbid, Report), ("short", 0, 0)));
    }
    let mut also = |name: &str, seconds: u64, policies, kind| {
        jobs.push(job((name, dense(seconds, episodes, name)), policies, (kind, 0, 0)));
    };
    if shape.comes {
        also("coming", 5, (Forbid, Report), "short");
    }
    if shape.leaves {
        also("leaving", 12, (Forbid, Report), "long");
    }
    also("shifting", shape.shift, (Forbid, Report), "short");
    also("moody", 7, shape.mood, "long");
    let scheduler = SchedulerSpec {
        lock_lease: Duration::from_secs(shape.lease),
        clock_skew_tolerance: Duration::from_millis(500),
        max_concurrent_runs: shape.places,
        ..SchedulerSpec::default()
    };
    JobTable { jobs, scheduler, revision: format!("version {number}"), ..JobTable::default() }
}
