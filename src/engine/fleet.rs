//! Who else is there, and where it says to look.
//!
//! Members meet through the store every few seconds: each writes its presence and reads all. Nothing about a run is
//! decided by that, so nothing depends on its being complete or new. It finds what claim answers do not show: open runs
//! of jobs that this replica has never asked about, or that are in no table any more. Those are read, and watched like
//! all others. For the same reason all jobs' records are read in one go at the start, after an outage, and when a
//! member has left or vanished.

use super::Effect;
use super::Engine;
use super::Notice;
use super::StoreFailure;
use super::Topic;
use super::order::order;
use crate::clock::Boot;
use crate::clock::Now;
use crate::job::Answer;
use crate::job::Gathering;
use crate::job::JobName;
use crate::job::JobRecord;
use crate::job::JobTable;
use crate::job::PAST_MOST;
use crate::job::PRESENT_RUNS_MOST;
use crate::job::Pause;
use crate::job::Presence;
use crate::job::ReplicaId;
use crate::job::RunKey;
use crate::job::Step;
use crate::job::TABLES_MOST;
use crate::job::TableTerm;
use crate::job::meets_every_ms;
use crate::schedule::zone_data_version;
use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

/// How soon a meeting that failed is tried again.
const MEET_AGAIN: Duration = Duration::from_secs(3);
/// A presence that was not renewed for so many of those times is that of somebody who is not there.
const MEETINGS_MISSED: u32 = 3;
/// A presence that stays unchanged for so long is removed by whoever sees it; that of a replica once there are
/// [`PAST_MOST`] newer ones.
const FORGET_AFTER: Duration = Duration::from_secs(3600);
/// What a command said is heard by all who meet within this.
const HEEDED_WITHIN: Duration = Duration::from_secs(60);
/// Meetings that fail so many times in a row, while the store answers otherwise, are said.
const FAILURES_SAID: u32 = 3;
/// A job is registered so often at least.
const REGISTER_EVERY: Duration = Duration::from_secs(86_400);
/// How many names of jobs a presence shows: of most tables all of them. It is written and read every few seconds.
const SOME_JOBS: usize = 100;

/// What a replica says of its program, beside its table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct About {
    /// Version of the program.
    pub version: String,
    /// Version of the zone data.
    pub zone_data: String,
}

impl About {
    /// This program.
    pub fn this_program() -> Self {
        Self { version: env!("CARGO_PKG_VERSION").into(), zone_data: zone_data_version().into() }
    }
}

/// Another member, as last seen.
#[derive(Debug, Clone)]
pub struct Member {
    pub presence: Arc<Presence>,
    /// When it was first seen so.
    since: Boot,
    /// Whether it came, or changed, under our eyes. What was there before us may be years old.
    lived: bool,
    /// Whether it was noticed that it is silent.
    missed: bool,
    /// Whether its runs were looked at since it is unchanged.
    looked: bool,
}

impl Member {
    /// How often it renews its presence.
    fn every(&self) -> Duration {
        Duration::from_millis(meets_every_ms(self.presence.lease_ms))
    }

    fn is_silent(&self, now: Boot) -> bool {
        now.since(self.since) >= self.every() * MEETINGS_MISSED
    }

    /// How long it is kept unchanged.
    fn forget_after(&self) -> Option<Duration> {
        match self.presence.kind.as_str() {
            Presence::PAUSE => None,
            Presence::COMMAND => Some(HEEDED_WITHIN),
            Presence::LEFT => Some(Duration::ZERO),
            _ => Some(FORGET_AFTER),
        }
    }

    fn is_over(&self, now: Boot) -> bool {
        self.forget_after().is_some_and(|after| now.since(self.since) >= after)
    }

    /// Whether it has shown life of late.
    pub fn is_alive(&self, now: Boot) -> bool {
        self.lived && !self.is_silent(now)
    }
}

/// The first ones, by name.
fn some_jobs(table: &JobTable) -> Arc<[String]> {
    let names: BTreeSet<&JobName> = table.jobs.iter().map(|spec| &spec.name).collect();
    names.into_iter().take(SOME_JOBS).map(JobName::to_string).collect()
}

fn every(lease: Duration) -> Duration {
    Duration::from_millis(meets_every_ms(u64::try_from(lease.as_millis()).unwrap_or(u64::MAX)))
}

/// Something that is asked once at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Survey {
    Idle,
    Wanted,
    UnderWay,
}

/// See the module.
#[derive(Debug, Clone)]
pub struct Fleet {
    pub about: About,
    /// The revision of our table.
    pub revision: String,
    pub members: BTreeMap<ReplicaId, Member>,
    /// Why no job is started, where that is so, as the meeting found that was asked for then.
    pub all_paused: Option<Pause>,
    pub met_at: Boot,
    /// The names of some of our jobs.
    some_jobs: Arc<[String]>,
    /// Our table and those before it, newest first: revision, jobs, and when it came into force.
    tables: VecDeque<(String, u64, Boot)>,
    /// Whether the others were ever seen.
    has_met: bool,
    number: u64,
    /// When to meet again.
    next: Boot,
    under_way: bool,
    failures: u32,
    survey: Survey,
    /// Runs that are to be read.
    looks: BTreeSet<RunKey>,
    /// Those of them that a command has just named.
    pub announced: BTreeSet<RunKey>,
}

impl Fleet {
    /// Nobody is known yet, and it is time to meet.
    pub fn new(table: &JobTable, now: Boot) -> Self {
        Self {
            about: About::this_program(),
            revision: table.revision.clone(),
            some_jobs: some_jobs(table),
            tables: VecDeque::from([(table.revision.clone(), table.jobs.len() as u64, now)]),
            members: BTreeMap::new(),
            all_paused: None,
            met_at: Boot::from_nanos(0),
            has_met: false,
            number: 0,
            next: now,
            under_way: false,
            failures: 0,
            survey: Survey::Idle,
            looks: BTreeSet::new(),
            announced: BTreeSet::new(),
        }
    }

    /// Ours is another table now: the others are told at once.
    pub fn change_table(&mut self, table: &JobTable, now: Boot) {
        self.revision.clone_from(&table.revision);
        self.some_jobs = some_jobs(table);
        self.tables.truncate(TABLES_MOST - 1);
        self.tables.push_front((table.revision.clone(), table.jobs.len() as u64, now));
        self.next = now;
    }

    /// Those that are removed from the store. Of the replicas that are not there any more the last ones are kept.
    fn to_forget(&self, now: Boot) -> Vec<Presence> {
        let over =
            self.members.values().map(|member| (&*member.presence, member.is_over(now))).filter(|(_, over)| *over);
        let (mut past, mut others): (Vec<&Presence>, Vec<&Presence>) =
            over.map(|(presence, _)| presence).partition(|presence| presence.was_replica());
        past.sort_by_key(|presence| std::cmp::Reverse(presence.written_at));
        others.extend(past.into_iter().skip(PAST_MOST));
        others.into_iter().cloned().collect()
    }

    /// How many meetings there were.
    pub const fn number(&self) -> u64 {
        self.number
    }

    /// When to meet again; while a meeting is under way its end is waited for.
    pub fn wakes(&self) -> Option<Boot> {
        (!self.under_way).then_some(self.next)
    }
}

impl Engine {
    /// Meets the others and reads all jobs, where it is time to.
    pub(super) fn meet(&mut self, now: Now) {
        if self.drain.as_ref().is_some_and(super::drain::Drain::is_over) {
            return; // or the presence would be written anew after it was removed
        }
        if !self.fleet.under_way && now.boot >= self.fleet.next {
            self.fleet.under_way = true;
            self.fleet.number += 1;
            let mine = Box::new(self.presence(now));
            self.effects.push(Effect::Meet { mine, gone: self.fleet.to_forget(now.boot) });
        }
        if self.fleet.survey == Survey::Wanted && self.drain.is_none() {
            self.fleet.survey = Survey::UnderWay;
            self.effects.push(Effect::Survey);
        }
    }

    /// What the store may have kept of others is to be looked at: it answers for the first time, or again.
    pub(super) fn look_around(&mut self, now: Now, again: bool) {
        self.fleet.survey = Survey::Wanted;
        if again {
            self.fleet.next = now.boot;
        }
    }

    /// What is to be kept of this replica when it has drained: it has no runs, and is not there any more.
    pub fn farewell(&self, now: Now) -> Presence {
        let mine = self.presence(now);
        Presence { kind: Presence::LEFT.into(), number: mine.number + 1, runs: Vec::new(), ..mine }
    }

    fn presence(&self, now: Now) -> Presence {
        let ms = |since: Boot| u64::try_from(now.boot.since(since).as_millis()).unwrap_or(u64::MAX);
        let term = |(revision, jobs, since): &(String, u64, Boot)| TableTerm {
            revision: revision.clone(),
            jobs: *jobs,
            since_ms: ms(*since),
        };
        let mut runs: Vec<&RunKey> = self.runs.keys().collect();
        runs.sort_unstable_by_key(|run| run.scheduled_for);
        Presence {
            number: self.fleet.number,
            version: self.fleet.about.version.clone(),
            revision: self.fleet.revision.clone(),
            zone_data: self.fleet.about.zone_data.clone(),
            jobs: self.jobs.len().try_into().unwrap_or(u64::MAX),
            some_jobs: Arc::clone(&self.fleet.some_jobs),
            lease_ms: self.lease.as_millis().try_into().unwrap_or(u64::MAX),
            tables: self.fleet.tables.iter().map(term).collect(),
            up_ms: ms(self.started.boot),
            offset_ms: self.skew.offset_ms(),
            draining: self.drain.is_some(),
            runs: runs.into_iter().take(PRESENT_RUNS_MOST).map(RunKey::to_string).collect(),
            ..Presence::new(self.me.clone(), Presence::REPLICA)
        }
    }

    /// A meeting is over.
    pub(super) fn met(&mut self, now: Now, (sent, result): (Boot, Result<Gathering, StoreFailure>)) {
        self.fleet.under_way = false;
        match result {
            Ok(gathering) => {
                self.fleet.failures = 0;
                let spread = Duration::from_millis(order(&self.me, &self.fleet.number) % 500);
                self.fleet.next = now.boot + every(self.lease).saturating_sub(spread);
                self.outbox.try_now(now.boot);
                if self.outbox.is_idle() {
                    self.store_answers(now); // a table without jobs asks for nothing else
                }
                let all_paused = gathering.members.iter().find_map(|member| member.pause());
                self.see_members(now, gathering.members);
                self.learn_pause_of_all(sent, all_paused);
                self.compare_tables(now);
                self.register_again(now);
                self.look_whether_it_remembers();
            }
            Err(failure) => {
                self.fleet.failures += 1;
                self.fleet.next = now.boot + MEET_AGAIN.min(every(self.lease));
                // Whether the store is away is found out by asking something that counts: a replica that has nothing
                // else to ask for hours would learn it at the next tick.
                if self.jobs.is_empty() && self.outbox.is_idle() {
                    self.store_is_silent(now, failure);
                } else if self.outbox.is_up() {
                    self.outbox.want_all(self.jobs.keys().next().cloned().map(Topic::Register));
                    if self.fleet.failures == FAILURES_SAID {
                        self.notice(Notice::MeetingFails { detail: failure.detail });
                    }
                }
            }
        }
    }

    /// Registers jobs that were not for long, so that the store does not take them for jobs that are in no table any
    /// more; and those that another table's schedule was registered for last, when nobody is there any more who has it.
    fn register_again(&mut self, now: Now) {
        if self.drain.is_some() {
            return;
        }
        let differs = |member: &&Member| {
            let presence = &member.presence;
            let theirs = presence.is_replica() && !presence.draining && presence.revision != self.fleet.revision;
            theirs && !member.is_silent(now.boot)
        };
        let alone = !self.fleet.members.values().any(|member| differs(&member));
        let wanted = self.jobs.iter().filter(|(_, job)| {
            let otherwise = alone && job.registered && !job.registered_as.is_ours();
            otherwise || now.boot.since(job.registered_at) >= REGISTER_EVERY
        });
        self.outbox.want_all(wanted.map(|(name, _)| Topic::Register(name.clone())));
    }

    fn see_members(&mut self, now: Now, found: Vec<Arc<Presence>>) {
        let mut before = std::mem::take(&mut self.fleet.members);
        let first = !std::mem::replace(&mut self.fleet.has_met, true);
        let (mut to_look_at, mut left) = (Vec::new(), Vec::new());
        let me = self.me.clone();
        for presence in found.into_iter().filter(|presence| presence.name != me) {
            let member = match before.remove(&presence.name) {
                Some(mut member) if member.presence.number == presence.number => {
                    let silent = now.boot.since(member.since);
                    if silent >= Duration::from_millis(presence.lease_ms) && !member.looked {
                        member.looked = true;
                        to_look_at.extend(presence.run_keys());
                    }
                    let lives = member.forget_after() == Some(FORGET_AFTER);
                    if lives && member.is_silent(now.boot) && !std::mem::replace(&mut member.missed, true) {
                        // It may have begun a run after it had last said which it has.
                        self.fleet.survey = Survey::Wanted;
                    }
                    member
                }
                earlier => {
                    if earlier.as_ref().is_some_and(|member| member.presence.is_replica()) && !presence.is_replica() {
                        left.extend(earlier.clone());
                    }
                    to_look_at.extend(presence.run_keys());
                    let lived = earlier.is_some() || !first;
                    self.heed_command(&presence, lived);
                    Member { presence, since: now.boot, lived, missed: false, looked: false }
                }
            };
            self.fleet.members.insert(member.presence.name.clone(), member);
        }
        // Who left has ended its runs; or it could not, or somebody removed it. A tick that it gave back after it had last
        // said which runs it has, of a job that only its table had, is named nowhere.
        left.extend(before.into_values());
        if left.iter().any(|member| member.presence.is_replica()) {
            self.fleet.survey = Survey::Wanted;
        }
        to_look_at.extend(left.iter().flat_map(|member| member.presence.run_keys()));
        for run in to_look_at {
            self.look(run);
        }
    }

    /// All jobs' records were read.
    pub(super) fn surveyed(&mut self, result: Result<Vec<(JobName, JobRecord)>, StoreFailure>) {
        let Ok(jobs) = result else {
            // With the next meeting; whether the store is away is said by others.
            return self.fleet.survey = Survey::Wanted;
        };
        self.fleet.survey = Survey::Idle;
        for (name, record) in jobs {
            for tick in record.open {
                self.look(RunKey::new(name.clone(), tick));
            }
        }
    }

    /// Reads a run that we may not know, and watches it if it is open.
    pub(super) fn look(&mut self, run: RunKey) {
        if self.drain.is_none() && !self.is_tracked(&run) && self.fleet.looks.insert(run.clone()) {
            self.outbox.want(Topic::Look(run));
        }
    }

    pub(super) fn look_step(&self, run: &RunKey) -> Option<Step> {
        self.fleet.looks.contains(run).then(|| Step::Read { run: run.clone() })
    }

    /// There is no more to be learned of it.
    pub(super) fn looked(&mut self, run: &RunKey) {
        self.fleet.looks.remove(run);
        self.fleet.announced.remove(run);
    }

    pub(super) fn look_answered(&mut self, now: Now, run: &RunKey, answer: Answer) {
        let announced = self.fleet.announced.contains(run);
        self.looked(run);
        self.looked_whether_it_remembers(run, &answer);
        if let Some(record) = answer.run {
            if announced {
                self.order_is_taken(now, run, &record);
            }
            self.watch(now, run.clone(), record);
        }
    }
}
