//! Another table comes into force while the engine runs.
//!
//! Jobs whose definition is the same keep all that is known of them, and their next tick. A run keeps the definition,
//! and the lease, under which it was claimed.

use super::Engine;
use super::Topic;
use crate::clock::Now;
use crate::job::JobName;
use crate::job::JobSpec;
use crate::job::JobTable;
use crate::job::RunKey;
use crate::job::SkipReason;
use crate::job::Tick;
use std::collections::BTreeSet;
use std::sync::Arc;

impl Engine {
    pub(super) fn change_table(&mut self, now: Now, table: &JobTable) {
        self.lease = table.scheduler.lock_lease;
        self.skew_tolerance = table.scheduler.clock_skew_tolerance;
        self.places = table.scheduler.max_concurrent_runs;
        self.skew.tolerate(table.scheduler.clock_skew_tolerance);
        self.tables.forget_claims();
        self.fleet.change_table(table, now.boot);
        let names: BTreeSet<&JobName> = table.jobs.iter().map(|spec| &spec.name).collect();
        let removed: Vec<JobName> = self.jobs.keys().filter(|name| !names.contains(name)).cloned().collect();
        for name in removed {
            self.remove_job(&name);
        }
        for spec in &table.jobs {
            self.change_job(now, spec);
        }
        self.fill_places(now);
    }

    fn change_job(&mut self, now: Now, spec: &Arc<JobSpec>) {
        let Some(job) = self.jobs.get_mut(&spec.name) else { return self.add_job(Arc::clone(spec), now) };
        let before = std::mem::replace(&mut job.spec, Arc::clone(spec));
        if before.spec_hash == spec.spec_hash {
            return;
        }
        job.registered_as.compare(spec);
        // Ticks of the new schedule begin now; those of the old one that are due stay due, under the old definition.
        if before.schedule != spec.schedule || before.jitter != spec.jitter {
            self.plan(&spec.name, now.wall.timestamp());
        }
        self.outbox.want(Topic::Register(spec.name.clone()));
        self.plan_audit(now, &spec.name);
        self.look_at_freshness(now, &spec.name);
    }

    /// Its ticks come no more. Runs go on, here and elsewhere, and are watched; what is owed is settled.
    fn remove_job(&mut self, name: &JobName) {
        let Some(job) = self.jobs.remove(name) else { return };
        if job.next.is_some() {
            self.agenda.remove(&(job.next_due, name.clone()));
        }
        if let Some(at) = job.audit {
            self.audits.remove(&(at, name.clone()));
        }
        self.alarms.clear(&Topic::Register(name.clone()));
        self.alarms.clear(&Topic::Stale(name.clone()));
        // What this replica has settled, and said, is not asked for again: with the job goes the memory of it.
        self.owed.retain(|run, owed| run.job != *name || owed.count > 1 || !job.settled.contains(&run.scheduled_for));
        let of_job = RunKey::new(name.clone(), Tick::from_seconds(i64::MIN));
        // One whose claim is under way may be ours already: it stays until that is known.
        let waiting: Vec<RunKey> = self
            .ticks
            .range(of_job..)
            .map(|(run, _)| run)
            .take_while(|run| run.job == *name)
            .filter(|run| !self.taking.contains(run))
            .cloned()
            .collect();
        for run in waiting {
            self.skip(&run, SkipReason::Removed);
            if run.scheduled_for.is_manual() {
                self.look(run); // as one of a job that others may have
            }
        }
    }
}
