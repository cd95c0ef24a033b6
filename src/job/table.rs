//! The checked `jobs.yaml`.

use super::JobName;
use super::JobSpec;
use super::NotifierSpec;
use super::SchedulerSpec;
use crate::plural::counted;
use std::collections::BTreeMap;
use std::sync::Arc;

/// All jobs of a file, with unique names, and what the fleet must agree on.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct JobTable {
    /// Jobs in the order of the file.
    pub jobs: Vec<Arc<JobSpec>>,
    /// Fleet policy.
    pub scheduler: SchedulerSpec,
    /// Whom jobs may name in `notify`.
    pub notifiers: BTreeMap<String, Arc<NotifierSpec>>,
    /// Content hash of the file together with the version of the zone data: replicas with different ones disagree.
    pub revision: String,
}

/// What another table has that this one has not, by the names of jobs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TableChanges {
    /// Jobs that come.
    pub added: Vec<JobName>,
    /// Jobs that mean something else.
    pub changed: Vec<JobName>,
    /// Jobs that go.
    pub removed: Vec<JobName>,
    /// What the fleet must agree on is another.
    pub scheduler: bool,
    /// Somebody is told elsewhere, or otherwise.
    pub notifiers: bool,
}

/// So many names are said.
const NAMES_MOST: usize = 10;

impl TableChanges {
    /// As people read it: `added a, b; removed c`.
    pub fn in_words(&self) -> String {
        let list = |what: &str, names: &[JobName]| {
            let shown: Vec<&str> = names.iter().take(NAMES_MOST).map(JobName::as_str).collect();
            let more = names.len() - shown.len();
            let more = if more > 0 { format!(" and {}", counted(more, "other")) } else { String::new() };
            (!names.is_empty()).then(|| format!("{what} {}{more}", shown.join(", ")))
        };
        let parts = [
            list("added", &self.added),
            list("changed", &self.changed),
            list("removed", &self.removed),
            self.scheduler.then(|| "`scheduler` changed".to_owned()),
            self.notifiers.then(|| "`notifiers` changed".to_owned()),
        ];
        let parts: Vec<String> = parts.into_iter().flatten().collect();
        if parts.is_empty() { "no job means anything else".to_owned() } else { parts.join("; ") }
    }
}

impl JobTable {
    /// What changes when `other` takes the place of this table. The order of jobs means nothing.
    pub fn changes(&self, other: &Self) -> TableChanges {
        let by_name = |table: &Self| -> BTreeMap<JobName, Arc<JobSpec>> {
            table.jobs.iter().map(|job| (job.name.clone(), Arc::clone(job))).collect()
        };
        let (old, new) = (by_name(self), by_name(other));
        let missing_in = |there: &BTreeMap<JobName, Arc<JobSpec>>, here: &BTreeMap<JobName, Arc<JobSpec>>| {
            here.keys().filter(|name| !there.contains_key(*name)).cloned().collect::<Vec<_>>()
        };
        let is_other = |job: &Arc<JobSpec>| old.get(&job.name).is_some_and(|old| old.spec_hash != job.spec_hash);
        TableChanges {
            added: missing_in(&old, &new),
            changed: new.values().filter(|job| is_other(job)).map(|job| job.name.clone()).collect(),
            removed: missing_in(&new, &old),
            scheduler: self.scheduler != other.scheduler,
            notifiers: self.notifiers != other.notifiers,
        }
    }

    /// Whether `changes` takes more than half of the jobs away, which is more often an accident than meant.
    pub fn loses_most(&self, changes: &TableChanges) -> bool {
        changes.removed.len() * 2 > self.jobs.len()
    }
}

#[cfg(test)]
mod tests {
    use super::super::CommandSpec;
    use super::super::Program;
    use super::*;
    use crate::schedule::Schedule;
    use crate::schedule::Zone;

    fn table(jobs: &[(&str, &str)]) -> JobTable {
        let spec = |(name, hash): &(&str, &str)| {
            let command = CommandSpec::of(Program::Direct(vec!["true".into()]));
            let schedule = Schedule::parse("@daily", &Zone::utc(), name).unwrap();
            let spec = JobSpec::of(JobName::new(name).unwrap(), schedule, command);
            Arc::new(JobSpec { spec_hash: (*hash).into(), ..spec })
        };
        JobTable { jobs: jobs.iter().map(spec).collect(), ..JobTable::default() }
    }

    #[test]
    fn jobs_come_change_and_go_by_name_and_meaning_and_their_order_is_none() {
        let (old, new) = (table(&[("a", "1"), ("b", "1"), ("c", "1")]), table(&[("d", "1"), ("c", "1"), ("b", "2")]));
        let names = |names: &[JobName]| names.iter().map(ToString::to_string).collect::<Vec<_>>();
        let changes = old.changes(&new);
        assert_eq!(
            (names(&changes.added), names(&changes.changed), names(&changes.removed)),
            (vec!["d".into()], vec!["b".into()], vec!["a".into()])
        );
        assert!(!changes.scheduler && !old.loses_most(&changes));
        let reordered = table(&[("c", "1"), ("a", "1"), ("b", "1")]);
        assert_eq!(old.changes(&reordered), TableChanges::default());
        assert_eq!(changes.in_words(), "added d; changed b; removed a");
        assert_eq!(TableChanges::default().in_words(), "no job means anything else");
        let added: Vec<JobName> = (0..12).map(|n| JobName::new(&format!("j{n}")).unwrap()).collect();
        let many = TableChanges { added, scheduler: true, ..TableChanges::default() };
        assert!(many.in_words().ends_with("j8, j9 and 2 others; `scheduler` changed"));
        let longer = SchedulerSpec { max_concurrent_runs: 1, ..SchedulerSpec::default() };
        assert!(old.changes(&JobTable { scheduler: longer, ..old.clone() }).scheduler);
    }

    #[test]
    fn most_is_more_than_half() {
        let loses = |old: &[(&str, &str)], new: &[(&str, &str)]| {
            let (old, new) = (table(old), table(new));
            old.loses_most(&old.changes(&new))
        };
        assert!(!loses(&[("a", "1"), ("b", "1")], &[("a", "1")]));
        assert!(loses(&[("a", "1"), ("b", "1"), ("c", "1")], &[("a", "1")]));
        assert!(loses(&[("a", "1")], &[]));
        assert!(!loses(&[], &[("a", "1")]));
    }
}
