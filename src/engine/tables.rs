//! Whether all replicas have the same table, zone data and program, as far as presences and claims tell.
//!
//! During a rollout they differ for a while, and that is normal; what lasts is a mistake: a pod that was forgotten, a
//! file that was not copied, or two deployments that share a namespace. It is said when it begins, again when it has
//! lasted, and when it is over. Nothing is decided by it.

use super::Engine;
use super::Notice;
use super::fleet::Fleet;
use crate::clock::Boot;
use crate::clock::Now;
use crate::job::JobName;
use crate::job::Presence;
use crate::job::ReplicaId;
use crate::job::RunRecord;
use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::fmt::Write;
use std::time::Duration;

/// How long replicas may differ before it is no rollout any more.
const ROLLOUT: Duration = Duration::from_secs(120);
/// How many names a line has.
const NAMES_MOST: usize = 10;

/// How replicas differ, as it is said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Disagreement {
    /// The revision of our table.
    pub revision: String,
    /// Who differs.
    pub others: Vec<ReplicaId>,
    /// In what: `table`, `zone_data`, `version`, `jobs`.
    pub differs: Vec<&'static str>,
    /// Jobs that are known to be defined otherwise; the first few.
    pub jobs: Vec<JobName>,
    /// In words.
    pub detail: String,
    /// Whether it lasts longer than a rollout should.
    pub lasting: bool,
}

/// What is known, and was said.
#[derive(Debug, Clone, Default)]
pub struct Tables {
    /// Jobs that another replica claimed under another definition, and which.
    claims: BTreeMap<JobName, ReplicaId>,
    since: Option<Boot>,
    /// The ways in which others differed when it was said.
    said: Option<BTreeSet<String>>,
    /// Whether it was said that it lasts.
    warned: bool,
}

impl Tables {
    /// What was claimed under another definition than ours was may now be under ours.
    pub fn forget_claims(&mut self) {
        self.claims.clear();
    }
}

fn differences(mine: &Fleet, other: &Presence) -> Vec<&'static str> {
    let mut differs = Vec::new();
    if mine.about.zone_data != other.zone_data {
        differs.push("zone_data"); // a table's revision has it in it, so whether the file differs is not known
    } else if mine.revision != other.revision {
        differs.push("table");
    }
    if mine.about.version != other.version {
        differs.push("version");
    }
    differs
}

/// What tells one way to differ from another. Who does is no part of it: a replica that restarts is no news.
fn kind_of(other: &Presence) -> String {
    format!("table {}, zone data {}, version {}", other.revision, other.zone_data, other.version)
}

impl Engine {
    /// A replica has a run that was due here, too.
    pub(super) fn compare_claim(&mut self, run: &RunRecord, job: &JobName) {
        let Some(ours) = self.jobs.get(job) else { return };
        if run.owner == self.me || run.spec_hash.is_empty() {
            return;
        }
        if run.spec_hash != ours.spec.spec_hash {
            self.tables.claims.insert(job.clone(), run.owner.clone());
        } else if self.tables.claims.get(job) == Some(&run.owner) {
            self.tables.claims.remove(job);
        }
    }

    /// Says what has changed since the last time.
    pub(super) fn compare_tables(&mut self, now: Now) {
        let members = &self.fleet.members;
        let is_alive = |who: &ReplicaId| members.get(who).is_some_and(|member| member.is_alive(now.boot));
        self.tables.claims.retain(|_, holder| is_alive(holder));
        let Some((kinds, mut found)) = self.disagreement(now) else {
            if self.tables.said.is_some() {
                self.tables = Tables::default();
                self.notice(Notice::TableAgrees { revision: self.fleet.revision.clone() });
            }
            return;
        };
        let since = *self.tables.since.get_or_insert(now.boot);
        found.lasting = now.boot.since(since) >= ROLLOUT;
        let begins = self.tables.said.is_none();
        let lasts = found.lasting && (!self.tables.warned || self.tables.said.as_ref() != Some(&kinds));
        if begins || lasts {
            self.tables.warned = found.lasting;
            self.tables.said = Some(kinds);
            self.notice(Notice::TableDisagrees(Box::new(found)));
        }
    }

    fn disagreement(&self, now: Now) -> Option<(BTreeSet<String>, Disagreement)> {
        // One that drains is on its way out.
        let there = |presence: &&Presence| presence.is_replica() && !presence.draining;
        let members = self.fleet.members.values().filter(|member| member.is_alive(now.boot));
        let others: Vec<&Presence> = members.map(|member| &*member.presence).filter(there).collect();
        let (mut kinds, mut differs, mut who) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
        let mut detail = String::new();
        for other in others {
            let here = differences(&self.fleet, other);
            let claims = self.tables.claims.values().any(|holder| *holder == other.name);
            if here.is_empty() && !claims {
                continue;
            }
            who.insert(other.name.clone());
            differs.extend(here);
            if kinds.insert(kind_of(other)) && who.len() <= NAMES_MOST {
                let _ = write!(detail, "{} has {}; ", other.name, kind_of(other));
                detail.push_str(&self.foreign(other).unwrap_or_default());
            }
        }
        if who.is_empty() {
            return None;
        }
        let otherwise = self.jobs.iter().filter(|(_, job)| job.defined_otherwise).map(|(name, _)| name);
        let jobs: BTreeSet<&JobName> = otherwise.chain(self.tables.claims.keys()).collect();
        differs.extend((!jobs.is_empty()).then_some("jobs"));
        let _ = write!(detail, "this one has {}", kind_of(&self.own_kind()));
        let found = Disagreement {
            revision: self.fleet.revision.clone(),
            others: who.into_iter().take(NAMES_MOST).collect(),
            differs: differs.into_iter().collect(),
            jobs: jobs.into_iter().take(NAMES_MOST).cloned().collect(),
            detail,
            lasting: false,
        };
        Some((kinds, found))
    }

    fn own_kind(&self) -> Presence {
        Presence {
            version: self.fleet.about.version.clone(),
            revision: self.fleet.revision.clone(),
            zone_data: self.fleet.about.zone_data.clone(),
            ..Presence::new(self.me.clone(), Presence::REPLICA)
        }
    }

    /// A table of which no job is known here is most likely another deployment's.
    fn foreign(&self, other: &Presence) -> Option<String> {
        let known = |name: &String| JobName::new(name).is_ok_and(|name| self.jobs.contains_key(&name));
        if other.some_jobs.is_empty() || self.jobs.is_empty() || other.some_jobs.iter().any(known) {
            return None;
        }
        let jobs = other.some_jobs.iter().take(3).map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
        Some(format!(
            "none of its jobs ({jobs}) is in the table here: if it is another deployment, give each its own \
             `--namespace`; "
        ))
    }
}
