//! One small record per member of a fleet: who is there, with which table, and which runs it has. Members write their
//! own and read all, now and then. Nothing about a run is decided by it: it says where to look.
//!
//! A presence is JSON in the store. Fields that we do not know are those of a newer version or of another kind of
//! member, and are passed over; absent ones read as empty. So it needs no version of its own.

use super::JobName;
use super::Pause;
use super::ReplicaId;
use super::RunKey;
use serde::Deserialize;
use serde::Deserializer;
use serde::Serialize;
use serde::Serializer;
use std::sync::Arc;

/// How many open runs a presence names at most. A small record stays small; whoever has more names the oldest.
pub const PRESENT_RUNS_MOST: usize = 500;

/// How often a member writes its presence at least, milliseconds; with a lease that is shorter, once in that.
const MEETS_MS: u64 = 15_000;

/// How often a member with this lease writes its presence, both in milliseconds; a lease of 0: it has none.
pub fn meets_every_ms(lease_ms: u64) -> u64 {
    if lease_ms == 0 { MEETS_MS } else { MEETS_MS.min(lease_ms) }
}

/// How much longer than that may pass between two writings: what the store takes for them.
const LATE_MS: i64 = 1_000;

/// A replica that has not written its presence for so long is taken for gone: three of its usual meetings.
const PRESENT_MS: i64 = 3 * MEETS_MS.cast_signed();

/// How many of its tables a presence names.
pub const TABLES_MOST: usize = 5;

/// How many presences of replicas that are not there any more are kept, the newest: they tell what was in force then.
pub const PAST_MOST: usize = 30;

/// A replica has registered all jobs of its table so long after its start, milliseconds.
const REGISTERED_MS: i64 = 5_000;

/// A table that a replica has, or had until its next one came.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TableTerm {
    /// Its revision.
    #[serde(default)]
    pub revision: String,
    /// How many jobs it has.
    #[serde(default)]
    pub jobs: u64,
    /// How long before the writing it came into force, by the boot clock of its replica, milliseconds.
    #[serde(default)]
    pub since_ms: u64,
}

/// What a member says of itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Presence {
    /// Its id; the record's key, and not in its text.
    #[serde(skip, default = "nobody")]
    pub name: ReplicaId,
    /// The store's clock when it was written, milliseconds since the epoch: for people. Set by the store.
    #[serde(skip_serializing, default)]
    pub written_at: i64,
    /// What the member is: [`Presence::REPLICA`] runs jobs. Others say where to look. Empty: unreadable.
    #[serde(default)]
    pub kind: String,
    /// Grows with every writing: who sees it unchanged sees no sign of life.
    #[serde(default)]
    pub number: u64,
    /// Version of its program.
    #[serde(default)]
    pub version: String,
    /// Revision of its table.
    #[serde(default)]
    pub revision: String,
    /// Version of its zone data.
    #[serde(default)]
    pub zone_data: String,
    /// How many jobs its table has.
    #[serde(default)]
    pub jobs: u64,
    /// This table and those before it, newest first, [`TABLES_MOST`] at most.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tables: Vec<TableTerm>,
    /// The names of its jobs, of the first ones if they are many: so tables can be told from one another.
    #[serde(default, serialize_with = "write_names", deserialize_with = "read_names")]
    pub some_jobs: Arc<[String]>,
    /// Its lease, milliseconds.
    #[serde(default)]
    pub lease_ms: u64,
    /// How long it has been up by its boot clock, milliseconds.
    #[serde(default)]
    pub up_ms: u64,
    /// How far its clock is ahead of the store's, milliseconds, where it knows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offset_ms: Option<i64>,
    /// Whether it is about to end and claims nothing more.
    #[serde(default)]
    pub draining: bool,
    /// Ids of its open runs, oldest first, [`PRESENT_RUNS_MOST`] at most. Texts: an id of a form that we do not know is
    /// no reason not to read the rest.
    #[serde(default)]
    pub runs: Vec<String>,
    /// Of one that is a person's: who that is, and why.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub by: String,
    /// Why.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
}

fn write_names<S: Serializer>(names: &Arc<[String]>, serializer: S) -> Result<S::Ok, S::Error> {
    names.as_ref().serialize(serializer)
}

fn read_names<'a, D: Deserializer<'a>>(deserializer: D) -> Result<Arc<[String]>, D::Error> {
    Vec::<String>::deserialize(deserializer).map(Into::into)
}

fn nobody() -> ReplicaId {
    ReplicaId::from_record("")
}

impl Presence {
    /// The kind of a daemon.
    pub const REPLICA: &str = "replica";
    /// The kind of a daemon that has ended in order: what it was when it left.
    pub const LEFT: &str = "left";
    /// The kind of a command that changed something: it names runs and jobs ([`Presence::some_jobs`]) to look at.
    pub const COMMAND: &str = "command";
    /// The kind of [`Presence::pause_of_all`].
    pub const PAUSE: &str = "pause";

    /// A member of a kind that has nothing to say yet.
    pub fn new(name: ReplicaId, kind: &str) -> Self {
        Self {
            name,
            written_at: 0,
            kind: kind.into(),
            number: 0,
            version: String::new(),
            revision: String::new(),
            zone_data: String::new(),
            jobs: 0,
            tables: Vec::new(),
            some_jobs: Arc::default(),
            lease_ms: 0,
            up_ms: 0,
            offset_ms: None,
            draining: false,
            runs: Vec::new(),
            by: String::new(),
            reason: String::new(),
        }
    }

    /// The mark that pauses all jobs, also those that are registered later. One at most is there.
    pub fn pause_of_all(by: &str, reason: &str) -> Self {
        let Pause { by, reason, .. } = Pause::new(by, reason);
        Self { by, reason, ..Self::new(Self::all_paused(), Self::PAUSE) }
    }

    /// The name of that.
    pub fn all_paused() -> ReplicaId {
        ReplicaId::from_record("all-paused")
    }

    /// What it says in each job's record.
    pub fn pause(&self) -> Option<Pause> {
        let by = if self.by.is_empty() { "unknown" } else { &self.by };
        (self.kind == Self::PAUSE).then(|| Pause { at: self.written_at, ..Pause::new(by, &self.reason) })
    }

    /// The record as a store keeps it, without the time of writing: that is the store's to add.
    pub fn to_text(&self) -> String {
        serde_json::to_string(self).expect("texts and numbers are always JSON")
    }

    /// Reads what [`Self::to_text`] writes. What cannot be read gives a member of no kind that says nothing, so that it
    /// can be removed as any other that gives no sign of life.
    pub fn from_text(name: &str, text: &str) -> Self {
        let name = ReplicaId::from_record(name);
        match serde_json::from_str::<Self>(text) {
            Ok(presence) => Self { name, ..presence },
            Err(_) => Self::new(name, ""),
        }
    }

    /// Whether [`Presence::some_jobs`] are all that its table has.
    fn names_all_jobs(&self) -> bool {
        !self.some_jobs.is_empty() && self.jobs == self.some_jobs.len() as u64
    }

    /// Whether it runs jobs.
    pub fn is_replica(&self) -> bool {
        self.kind == Self::REPLICA
    }

    /// Whether it is, or was, one that runs jobs.
    pub fn was_replica(&self) -> bool {
        self.is_replica() || self.kind == Self::LEFT
    }

    /// When it started, by the store's clock, milliseconds since the epoch.
    pub fn came_at(&self) -> i64 {
        self.before(self.up_ms)
    }

    /// So long before it was written, by the store's clock, milliseconds since the epoch.
    pub fn before(&self, ms: u64) -> i64 {
        self.written_at.saturating_sub(i64::try_from(ms).unwrap_or(i64::MAX))
    }

    /// Until when it may well have been there, by the store's clock, milliseconds since the epoch: until it would have
    /// written again, or until it ended in order.
    pub fn there_until(&self) -> i64 {
        let every = meets_every_ms(self.lease_ms).cast_signed();
        let more = if self.kind == Self::LEFT { 0 } else { every + LATE_MS };
        self.written_at.saturating_add(more)
    }

    /// How long it has been silent at an instant (store clock, milliseconds since the epoch), milliseconds, where that is
    /// longer than it should be.
    pub fn silent_ms(&self, at: i64) -> Option<u64> {
        (at > self.there_until()).then(|| at.abs_diff(self.written_at))
    }

    /// The table that it had at an instant (store clock, milliseconds since the epoch), where it still knows.
    pub fn table_at(&self, at: i64) -> Option<&TableTerm> {
        self.tables.iter().find(|term| self.before(term.since_ms) <= at)
    }

    /// The runs that it names and that we can read.
    pub fn run_keys(&self) -> impl Iterator<Item = RunKey> {
        self.runs.iter().filter_map(|id| RunKey::parse(id))
    }
}

/// What a member found when it met the others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gathering {
    /// The store's clock, milliseconds since the epoch.
    pub at: i64,
    /// All members, by name; with oneself.
    pub members: Vec<Arc<Presence>>,
}

impl Gathering {
    /// The replicas that were there of late.
    pub fn replicas(&self) -> impl Iterator<Item = &Presence> {
        let there = |member: &&Presence| member.is_replica() && self.at - member.written_at < PRESENT_MS;
        self.members.iter().map(Arc::as_ref).filter(there)
    }

    /// The replicas that are not there any more and of which the store still knows, those that were there last first.
    pub fn past(&self) -> Vec<&Presence> {
        let gone = |member: &&Presence| {
            member.was_replica() && !(member.is_replica() && self.at - member.written_at < PRESENT_MS)
        };
        let mut past: Vec<&Presence> = self.members.iter().map(Arc::as_ref).filter(gone).collect();
        past.sort_by_key(|member| std::cmp::Reverse(member.written_at));
        past
    }

    /// The replicas of which the store still knows that they were there at an instant (its clock, milliseconds since the
    /// epoch). One that ended without a word counts until it would have written again.
    pub fn there_at(&self, at: i64) -> impl Iterator<Item = &Presence> {
        let there = move |member: &&Presence| (member.came_at()..=member.there_until()).contains(&at);
        self.members.iter().map(Arc::as_ref).filter(|member| member.was_replica()).filter(there)
    }

    /// Whether a job, which was registered last at an instant (store clock, milliseconds), is in the table of no replica
    /// that is there. Of one whose table is too long to be named whole: it has started since, and registers all its jobs
    /// then; so a job that was taken out of its table is seen only after its next start. False where none is there.
    pub fn is_gone(&self, job: &JobName, registered_at: i64) -> bool {
        let has_it_not = |replica: &Presence| {
            if replica.names_all_jobs() {
                return !replica.some_jobs.iter().any(|name| name == job.as_str());
            }
            let up = i64::try_from(replica.up_ms).unwrap_or(i64::MAX);
            up >= REGISTERED_MS && registered_at < replica.written_at.saturating_sub(up) - REGISTERED_MS
        };
        self.replicas().next().is_some() && self.replicas().all(has_it_not)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::Tick;

    #[test]
    fn a_presence_is_read_back_and_its_unknown_fields_are_passed_over() {
        let run = RunKey::new(JobName::new("a").unwrap(), Tick::from_seconds(1_772_330_400));
        let mine = Presence {
            number: 7,
            offset_ms: Some(-3),
            runs: vec![run.to_string(), "a@whenever".into()],
            ..Presence::new(ReplicaId::new("web", "1"), Presence::REPLICA)
        };
        let text = mine.to_text().replacen('{', r#"{"written_at":9,"mood":{"good":[true]},"#, 1);
        let read = Presence::from_text("web-1", &text);
        assert_eq!(read, Presence { written_at: 9, ..mine });
        assert_eq!(read.run_keys().collect::<Vec<_>>(), [run]);
    }

    #[test]
    fn who_was_there_at_an_instant_is_told_with_the_table_that_was_in_force() {
        let term = |revision: &str, since_ms| TableTerm { revision: revision.into(), jobs: 1, since_ms };
        let replica = |name: &str, kind: &str, (written_at, up_ms), tables: &[TableTerm]| {
            let new = Presence::new(ReplicaId::new(name, "1"), kind);
            Arc::new(Presence { written_at, up_ms, tables: tables.to_vec(), ..new })
        };
        let gathering = Gathering {
            at: 1_000_000,
            members: vec![
                replica("web", Presence::REPLICA, (990_000, 390_000), &[term("two", 40_000), term("one", 390_000)]),
                replica("left", Presence::LEFT, (700_000, 200_000), &[term("one", 200_000)]),
                replica("died", Presence::REPLICA, (400_000, 100_000), &[]),
                replica("ada", Presence::COMMAND, (990_000, 990_000), &[]),
            ],
        };
        let at = |at| gathering.there_at(at).map(|replica| replica.name.to_string()).collect::<Vec<_>>();
        assert_eq!(at(299_999), [""; 0]);
        assert_eq!(at(400_000), ["died-1"]);
        assert_eq!(at(416_000), ["died-1"], "it would not have written again before that");
        assert_eq!(at(416_001), [""; 0], "nobody is known to have been there");
        assert_eq!(at(650_000), ["web-1", "left-1"]);
        assert_eq!(at(700_001), ["web-1"], "who ended in order said when");
        assert_eq!(at(999_999), ["web-1"], "also since it last wrote");
        assert_eq!(gathering.past().iter().map(|past| past.name.as_str()).collect::<Vec<_>>(), ["left-1", "died-1"]);
        let revision = |at| gathering.members[0].table_at(at).map(|term| term.revision.as_str());
        assert_eq!([599_999, 600_000, 949_999, 950_000].map(revision), [None, Some("one"), Some("one"), Some("two")]);
    }

    #[test]
    fn what_is_no_presence_is_a_member_of_no_kind() {
        for text in ["", "[]", "{\"number\":\"x\"}", "\u{1}"] {
            let read = Presence::from_text("web-1", text);
            assert_eq!(read, Presence::new(ReplicaId::from_record("web-1"), ""), "{text}");
            assert!(!read.is_replica());
        }
    }

    #[test]
    fn a_job_is_gone_where_every_replica_names_all_of_its_jobs_without_it() {
        let replica = |name: &str, (jobs, named): (u64, &[&str])| {
            let new = Presence::new(ReplicaId::new(name, "1"), Presence::REPLICA);
            let some_jobs = named.iter().map(ToString::to_string).collect();
            Arc::new(Presence { written_at: 1_000_000, up_ms: 1_000, jobs, some_jobs, ..new })
        };
        let is_gone = |members: &[Arc<Presence>], job: &str| {
            Gathering { at: 1_000_000, members: members.to_vec() }.is_gone(&JobName::new(job).unwrap(), 999_999)
        };
        let both = [replica("a", (1, &["x"])), replica("b", (2, &["x", "y"]))];
        assert_eq!(["x", "y", "z"].map(|job| is_gone(&both, job)), [false, false, true]);
        assert!(!is_gone(&[replica("a", (3, &["x", "y"]))], "z"), "it has one more, which may be that");
    }

    #[test]
    fn a_job_is_gone_once_every_replica_has_started_without_it_a_while_ago() {
        let replica = |name: &str, up_ms| {
            let new = Presence::new(ReplicaId::new(name, "1"), Presence::REPLICA);
            Arc::new(Presence { written_at: 1_000_000, up_ms, ..new })
        };
        let gathering = |members: &[Arc<Presence>]| Gathering { at: 1_000_000, members: members.to_vec() };
        let (job, long) = (JobName::new("x").unwrap(), replica("a", 500_000));
        assert!(gathering(&[Arc::clone(&long)]).is_gone(&job, 494_999));
        assert!(!gathering(&[Arc::clone(&long)]).is_gone(&job, 495_000), "it may have been registered a little before");
        assert!(!gathering(&[Arc::clone(&long)]).is_gone(&job, 600_000), "somebody registered it since");
        assert!(!gathering(&[Arc::clone(&long), replica("b", 900_000)]).is_gone(&job, 200_000), "that one may have it");
        assert!(!gathering(&[long, replica("b", 4_999)]).is_gone(&job, 0), "that one is about to register");
        assert!(!gathering(&[]).is_gone(&job, 0), "nobody is there to have it");
    }
}
