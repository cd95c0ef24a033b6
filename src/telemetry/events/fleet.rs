//! Events about replicas as a fleet: their tables and their clocks.

use super::millis;
use crate::job::Former;
use crate::job::JobName;
use crate::job::ReplicaId;
use crate::job::Tick;
use std::time::Duration;

/// How other replicas differ from this one.
#[derive(Debug, Clone, Copy)]
pub struct TableDisagrees<'a> {
    /// Revision of the table here.
    pub revision: &'a str,
    /// Who differs.
    pub others: &'a [ReplicaId],
    /// In what: `table`, `zone_data`, `version`, `jobs`.
    pub differs: &'a [&'static str],
    /// Jobs that are known to be defined otherwise.
    pub jobs: &'a [JobName],
    /// In words.
    pub detail: &'a str,
    /// Whether it lasts longer than a rollout should.
    pub lasting: bool,
}

/// Other replicas have another table, zone data or program.
pub fn table_disagrees(found: TableDisagrees<'_>) {
    let TableDisagrees { revision, detail, .. } = found;
    let others = found.others.iter().map(ReplicaId::as_str).collect::<Vec<_>>().join(",");
    let differs = found.differs.join(",");
    let jobs = found.jobs.iter().map(JobName::as_str).collect::<Vec<_>>().join(",");
    let jobs = Some(jobs).filter(|jobs| !jobs.is_empty());
    if found.lasting {
        event!(
            WARN,
            "table_disagrees",
            "replicas have had different tables or programs for minutes: a tick is run as its winner has it",
            revision,
            others,
            differs,
            jobs,
            detail
        );
    } else {
        event!(
            INFO,
            "table_disagrees",
            "replicas have different tables or programs, as they do during a rollout",
            revision,
            others,
            differs,
            jobs,
            detail
        );
    }
}

/// All replicas have the same again.
pub fn table_agrees(revision: &str) {
    event!(INFO, "table_agrees", "all replicas have the same table and program again", revision);
}

/// A schedule that the job was registered with before cannot be read here.
pub fn schedule_unreadable(job: &JobName, former: &Former) {
    event!(
        ERROR,
        "schedule_unreadable",
        "a former schedule of this job cannot be read here: ticks of it that nobody had taken are not known, and not recorded",
        job = job.as_str(),
        schedule = former.schedule,
        timezone = former.zone,
        through = Tick::from_seconds(former.until).to_string()
    );
}

/// This machine's clock and the store's are further apart than tolerated. Positive: ours is ahead. `severe`: so far that
/// somebody must act.
pub fn clock_skewed(offset_ms: i64, tolerance: Duration, severe: bool) {
    let tolerance_ms = millis(tolerance);
    if severe {
        event!(
            ERROR,
            "clock_skewed",
            "this machine's clock differs from the store's by more than 30 seconds: set it",
            offset_ms,
            tolerance_ms
        );
    } else {
        event!(WARN, "clock_skewed", "this machine's clock differs from the store's", offset_ms, tolerance_ms);
    }
}

/// The clocks agree again.
pub fn clock_in_order(offset_ms: i64, tolerance: Duration) {
    event!(
        INFO,
        "clock_in_order",
        "this machine's clock agrees with the store's again",
        offset_ms,
        tolerance_ms = millis(tolerance)
    );
}
