//! Who was told of jobs, and who could not be.

use super::Metrics;
use super::lock;
use crate::job::JobTable;
use crate::job::words;
use std::collections::BTreeSet;

words! {
    /// What became of something that a notifier was to be told.
    Notified {
        /// It was.
        Sent = "sent",
        /// It was not, after all tries.
        Failed = "failed",
        /// There was no place or no time for it.
        Dropped = "dropped",
    }
}

impl Metrics {
    /// Counters of the table's notifiers come, at 0, and those of others go.
    pub(super) fn follow_notifiers(&self, table: &JobTable) {
        let counter = &self.families.notifications;
        let mut known = lock(&self.notifiers);
        let names: BTreeSet<String> = table.notifiers.keys().cloned().collect();
        for result in Notified::ALL {
            for name in &names {
                counter.with_label_values(&[name.as_str(), result.as_str()]);
            }
            for name in known.difference(&names) {
                let _ = counter.remove_label_values(&[name.as_str(), result.as_str()]);
            }
        }
        *known = names;
    }

    /// So many things that a notifier was to be told. Of one that left the table nothing is counted.
    pub fn notified(&self, notifier: &str, result: Notified, count: u64) {
        let known = lock(&self.notifiers);
        if known.contains(notifier) {
            self.families.notifications.with_label_values(&[notifier, result.as_str()]).inc_by(count as f64);
        }
    }
}
