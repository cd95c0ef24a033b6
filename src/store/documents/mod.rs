//! Stores that keep documents and can change one only if it is still as it was read: etcd, Consul, memcached. A step reads
//! its job's documents, applies [`transition`], and writes them back on that condition; who finds that somebody was faster
//! reads again. No lease, session or expiry of the store plays a part.
//!
//! Keys, all without expiry:
//!
//! ```text
//! onecron/<ns>/store            what the store is: a random id that was made once
//! onecron/<ns>/job/<job>        the job's record, its open runs, and those that were closed last
//! onecron/<ns>/closed/<job>     the runs that were closed before
//! onecron/<ns>/history/<job>    how ticks ended, newest first
//! onecron/<ns>/member/<name>    who is there
//! ```
//!
//! The job's document decides: whatever is written is written with it, or (memcached, which changes one document at a
//! time) closed runs before and the history after it.
//!
//! None of these stores has a clock. Steps are judged by that of the replica that sends them, and no instant goes back
//! within a job's document; see [`document::JobDocuments::now`].

mod backend;
mod consul;
mod document;
mod etcd;
mod link;
mod members;
mod memcached;
mod url;

use super::Access;
use super::Error;
use super::ErrorKind;
use super::Identity;
use super::Probe;
use super::Store;
use super::doing;
use super::records::HistoryChange;
use super::transition;
use crate::chance;
use crate::clock::Boot;
use crate::clock::Clock;
use crate::job::Answer;
use crate::job::Gathering;
use crate::job::HistoryEntry;
use crate::job::JobName;
use crate::job::JobRecord;
use crate::job::Namespace;
use crate::job::Presence;
use crate::job::ReplicaId;
use crate::job::Step;
use async_trait::async_trait;
use backend::Backend;
use backend::Document;
use backend::Expect;
use backend::Failure;
use backend::Group;
use backend::Write;
use chrono::DateTime;
use chrono::Utc;
use document::JobDocuments;
use document::Unreadable;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::time::Duration;

/// For so long a request is tried again when others were faster.
const TRY_WITHIN: Duration = Duration::from_secs(3);
/// The pause before that, at most: at first, and after many tries.
const PAUSE_FIRST: Duration = Duration::from_millis(4);
const PAUSE_MOST: Duration = Duration::from_millis(64);

/// A store of documents.
pub(super) struct DocumentStore {
    backend: Box<dyn Backend>,
    namespace: Namespace,
    clock: Arc<dyn Clock>,
    /// The document with the highest version that was seen. Versions only grow: if it has a lower one, or is gone, the
    /// store is not what it was.
    newest: Mutex<Option<(String, u64)>>,
}

impl fmt::Debug for DocumentStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DocumentStore({})", self.backend.shown())
    }
}

/// The steps of one job in a batch, by their places in it.
type Work<'a> = (&'a JobName, Vec<usize>);

/// What became of a job's steps, before it is written.
struct Outcome {
    answers: Vec<Answer>,
    /// Nothing changed.
    is_same: bool,
    history: Vec<HistoryChange>,
    /// What is to be written, until it is.
    group: Group,
}

impl Outcome {
    fn take(&mut self) -> Group {
        std::mem::take(&mut self.group)
    }
}

/// The tries of one request. After the first writing, nobody can say that nothing was done.
struct Tries {
    until: Boot,
    pause: Duration,
    has_written: bool,
}

impl Tries {
    fn failed(&self, failure: Failure) -> Failure {
        match failure.kind {
            ErrorKind::NotSent if self.has_written => Failure { kind: ErrorKind::MaybeApplied, ..failure },
            _ => failure,
        }
    }
}

impl DocumentStore {
    fn new(backend: Box<dyn Backend>, namespace: &Namespace, clock: Arc<dyn Clock>) -> Self {
        Self { backend, namespace: namespace.clone(), clock, newest: Mutex::default() }
    }

    /// Takes `etcd://[user:password@]host[:port][,host…]`, or `etcds://` for TLS. Does not connect.
    ///
    /// # Errors
    /// What is wrong with the URL, in words that do not repeat it: it may hold a password.
    pub fn etcd(url: &str, namespace: &Namespace, (access, clock): (&Access, Arc<dyn Clock>)) -> Result<Self, String> {
        Ok(Self::new(Box::new(etcd::Etcd::open(url, access)?), namespace, clock))
    }

    /// Takes `consul://[:token@]host[:port][,host…][?dc=name]`, or `consuls://` for TLS. Does not connect.
    ///
    /// # Errors
    /// As above.
    pub fn consul(
        url: &str,
        namespace: &Namespace,
        (access, clock): (&Access, Arc<dyn Clock>),
    ) -> Result<Self, String> {
        Ok(Self::new(Box::new(consul::Consul::open(url, access)?), namespace, clock))
    }

    /// Takes `memcached://host[:port]?allow-best-effort=true`. Does not connect.
    ///
    /// # Errors
    /// As above.
    pub fn memcached(
        url: &str,
        namespace: &Namespace,
        (access, clock): (&Access, Arc<dyn Clock>),
    ) -> Result<Self, String> {
        Ok(Self::new(Box::new(memcached::Memcached::open(url, access)?), namespace, clock))
    }

    fn key(&self, kind: &str, name: &str) -> String {
        format!("onecron/{}/{kind}/{name}", self.namespace)
    }

    fn error(&self, operation: &'static str, failure: Failure) -> Error {
        Error { kind: failure.kind, operation, store: self.backend.shown().into(), detail: failure.detail }
    }

    fn own_time(&self) -> i64 {
        self.clock.now().wall.timestamp_millis()
    }

    fn tries(&self) -> Tries {
        Tries { until: self.clock.now().boot + TRY_WITHIN, pause: PAUSE_FIRST, has_written: false }
    }

    /// Waits before another try, a random while of a growing one.
    async fn again(&self, tries: &mut Tries) -> Result<(), Failure> {
        if self.clock.now().boot > tries.until {
            let seconds = TRY_WITHIN.as_secs();
            let detail = format!("others have changed the same documents for {seconds} s, each time before this one");
            return Err(tries.failed(Failure::new(ErrorKind::NotSent, detail)));
        }
        let part = u32::try_from(chance::number() % 1000).unwrap_or(0);
        tokio::time::sleep(tries.pause * part / 1000).await;
        tries.pause = (tries.pause * 2).min(PAUSE_MOST);
        Ok(())
    }

    /// Reads documents, and with them what the store is. The store's mark is made where there is none, and made anew
    /// where the store went back: both by whoever sees it first.
    async fn read(
        &self,
        (keys, then): (&[String], &[String]),
        tries: &mut Tries,
    ) -> Result<(Identity, Vec<Option<Document>>), Failure> {
        let mark = format!("onecron/{}/store", self.namespace);
        loop {
            let known = self.newest.lock().unwrap_or_else(PoisonError::into_inner).clone();
            let mut all = vec![mark.clone()];
            all.extend(known.iter().map(|(key, _)| key.clone()));
            all.extend_from_slice(keys);
            let mut found = self.backend.read(&all, then).await.map_err(|failure| tries.failed(failure))?;
            let documents = found.documents.split_off(1 + usize::from(known.is_some()));
            let at = found.documents.get(1).and_then(Option::as_ref).map_or(0, |document| document.version);
            let went_back = known.as_ref().is_some_and(|(_, version)| at < *version);
            let stands = found.documents.first().and_then(Option::as_ref);
            match stands.map(|document| id_in(&document.text)) {
                Some(id) if !went_back => {
                    let server = if found.server.is_empty() { id } else { format!("{id}-{}", found.server) };
                    self.remember(keys, &documents);
                    return Ok((Identity { server, evicted: found.evicted, missing_until: None }, documents));
                }
                _ => {}
            }
            let text = format!(r#"{{"id":"{:016x}","made_at":{}}}"#, chance::number(), self.own_time());
            let write = Write { key: mark.clone(), expect: Expect::what_was_found(stands), text: Some(text) };
            self.backend.write(vec![vec![write]]).await.map_err(|failure| tries.failed(failure))?;
            self.forget(known.as_ref());
            self.again(tries).await?;
        }
    }

    /// Takes note of the newest document of a job. Others may go: members leave.
    fn remember(&self, keys: &[String], documents: &[Option<Document>]) {
        let prefix = self.key("job", "");
        let versions = keys.iter().zip(documents).filter_map(|(key, document)| Some((key, document.as_ref()?.version)));
        let newest = versions.filter(|(key, _)| key.starts_with(&prefix)).max_by_key(|(_, version)| *version);
        let Some((key, version)) = newest else { return };
        let mut known = self.newest.lock().unwrap_or_else(PoisonError::into_inner);
        if known.as_ref().is_none_or(|(_, known)| *known < version) {
            *known = Some((key.clone(), version));
        }
    }

    /// The note is of no use any more.
    fn forget(&self, note: Option<&(String, u64)>) {
        let mut known = self.newest.lock().unwrap_or_else(PoisonError::into_inner);
        if known.as_ref() == note {
            *known = None;
        }
    }

    async fn write(&self, groups: Vec<Group>, tries: &mut Tries) -> Result<Vec<usize>, Failure> {
        let outcome = self.backend.write(groups).await.map_err(|failure| tries.failed(failure));
        tries.has_written = true;
        outcome
    }

    /// Applies a batch: reads the documents of all its jobs, writes those that change, and does so again for those that
    /// somebody else has changed meanwhile.
    async fn apply_all(&self, steps: &[Step]) -> Result<Vec<Answer>, Failure> {
        let mut tries = self.tries();
        let mut answers: Vec<Option<Answer>> = vec![None; steps.len()];
        let mut by_job: BTreeMap<&JobName, Vec<usize>> = BTreeMap::new();
        for (at, step) in steps.iter().enumerate() {
            by_job.entry(step.job()).or_default().push(at);
        }
        let mut works: Vec<Work<'_>> = by_job.into_iter().collect();
        loop {
            let done = self.try_once(steps, &works, &mut tries).await?;
            let mut left = Vec::new();
            for (work, done) in works.into_iter().zip(done) {
                match done {
                    Some(done) => work.1.iter().zip(done).for_each(|(at, answer)| answers[*at] = Some(answer)),
                    None => left.push(work),
                }
            }
            if left.is_empty() {
                let nothing = || Failure::new(ErrorKind::MaybeApplied, "a step has no answer");
                return answers.into_iter().map(|answer| answer.ok_or_else(nothing)).collect();
            }
            works = left;
            self.again(&mut tries).await?;
        }
    }

    /// The answers to each job's steps; `None` where somebody else was faster.
    async fn try_once(
        &self,
        steps: &[Step],
        works: &[Work<'_>],
        tries: &mut Tries,
    ) -> Result<Vec<Option<Vec<Answer>>>, Failure> {
        let of = |kind: &str| works.iter().map(|(job, _)| self.key(kind, job.as_str())).collect::<Vec<String>>();
        let (jobs, closed) = (of("job"), of("closed"));
        let (identity, mut found) = self.read((&jobs, &closed), tries).await?;
        let found_closed = found.split_off(jobs.len());
        let own_time = self.own_time();
        let mut outcomes = Vec::with_capacity(works.len());
        let read = jobs.iter().zip(&found).zip(closed.iter().zip(&found_closed));
        for ((_, places), (job, closed)) in works.iter().zip(read) {
            outcomes.push(outcome(places.iter().map(|at| &steps[*at]), (job, closed), (&identity, own_time)));
        }
        self.add_histories(works, &mut outcomes, tries).await?;
        let groups: Vec<Group> = outcomes.iter_mut().filter(|outcome| !outcome.is_same).map(Outcome::take).collect();
        let shapes: Vec<(usize, usize)> = groups.iter().map(|group| self.shape(group)).collect();
        let written = if groups.is_empty() { Vec::new() } else { self.write(groups, tries).await? };
        let mut written = written.into_iter().zip(shapes);
        let mut done = Vec::with_capacity(works.len());
        for ((job, _), outcome) in works.iter().zip(outcomes) {
            if !outcome.is_same {
                let (count, (needed, all)) = written.next().unwrap_or_default();
                if count < needed {
                    done.push(None);
                    continue;
                }
                if count < all {
                    self.change_history(job, outcome.history, tries).await?;
                }
            }
            done.push(Some(outcome.answers));
        }
        Ok(done)
    }

    /// How many writes of a job's group have to be made until that is decided, and how many there are.
    fn shape(&self, group: &Group) -> (usize, usize) {
        let prefix = self.key("job", "");
        let decides = group.iter().position(|write| write.key.starts_with(&prefix));
        (decides.map_or(group.len(), |at| at + 1), group.len())
    }

    /// Adds to each group the history that changes with it.
    async fn add_histories(
        &self,
        works: &[Work<'_>],
        outcomes: &mut [Outcome],
        tries: &mut Tries,
    ) -> Result<(), Failure> {
        let wanted = |(_, outcome): &(&Work<'_>, &mut Outcome)| !outcome.history.is_empty();
        let mut changed: Vec<(&Work<'_>, &mut Outcome)> = works.iter().zip(outcomes).filter(wanted).collect();
        if changed.is_empty() {
            return Ok(());
        }
        let keys: Vec<String> = changed.iter().map(|((job, _), _)| self.key("history", job.as_str())).collect();
        let found = self.backend.read(&keys, &[]).await.map_err(|failure| tries.failed(failure))?;
        for ((key, found), (_, outcome)) in keys.into_iter().zip(found.documents).zip(&mut changed) {
            outcome.group.push(self.history_write(key, found.as_ref(), &outcome.history));
        }
        Ok(())
    }

    fn history_write(&self, key: String, found: Option<&Document>, changes: &[HistoryChange]) -> Write {
        let mut history = document::history_in(found.map(|document| document.text.as_str()));
        changes.iter().cloned().for_each(|change| history.change(change));
        let text = document::history_text(history, self.backend.history_bytes_most());
        Write { key, expect: Expect::what_was_found(found), text: Some(text) }
    }

    /// Changes the history of a job whose other documents are written already.
    async fn change_history(
        &self,
        job: &JobName,
        changes: Vec<HistoryChange>,
        tries: &mut Tries,
    ) -> Result<(), Failure> {
        let key = self.key("history", job.as_str());
        loop {
            let found =
                self.backend.read(std::slice::from_ref(&key), &[]).await.map_err(|failure| tries.failed(failure))?;
            let found = found.documents.into_iter().next().flatten();
            let group = vec![self.history_write(key.clone(), found.as_ref(), &changes)];
            if self.write(vec![group], tries).await? == [1] {
                return Ok(());
            }
            self.again(tries).await?;
        }
    }

    async fn read_jobs(&self) -> Result<Vec<(JobName, Document, JobRecord)>, Failure> {
        let prefix = self.key("job", "");
        let mut jobs = Vec::new();
        for (key, document) in self.backend.list(&prefix).await? {
            let name = key.strip_prefix(&prefix).unwrap_or(&key);
            let bad = |error| Failure::new(ErrorKind::MaybeApplied, format!("job {name:?}: {error}"));
            let name = JobName::new(name).map_err(bad)?;
            if let Some(record) = document::job_in(&document.text) {
                jobs.push((name, document, record));
            }
        }
        Ok(jobs)
    }

    async fn read_history(&self, job: &JobName, most: usize) -> Result<Vec<HistoryEntry>, Failure> {
        let found = self.backend.read(&[self.key("history", job.as_str())], &[]).await?;
        let text = found.documents.first().and_then(Option::as_ref).map(|document| document.text.as_str());
        Ok(document::history_in(text).0.into_iter().take(most).collect())
    }

    async fn retire_idle(&self, before: i64) -> Result<Vec<JobName>, Failure> {
        let idle = |record: &JobRecord| record.registered_at < before && record.open.is_empty();
        let jobs = self.read_jobs().await?.into_iter().filter(|(.., record)| idle(record));
        let (names, groups): (Vec<JobName>, Vec<Group>) = jobs
            .map(|(name, document, _)| {
                let remove = |kind, expect| Write { key: self.key(kind, name.as_str()), expect, text: None };
                // The one that decides goes first: where they cannot go at once, the rest is nobody's.
                let job = remove("job", Expect::Version(document.version));
                let group = vec![job, remove("closed", Expect::Anything), remove("history", Expect::Anything)];
                (name, group)
            })
            .unzip();
        if groups.is_empty() {
            return Ok(Vec::new());
        }
        let written = self.backend.write(groups).await?;
        let retired: Vec<JobName> =
            names.into_iter().zip(written).filter(|(_, count)| *count > 0).map(|(name, _)| name).collect();
        let known = self.newest.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let is_known = |name: &JobName| known.as_ref().is_some_and(|(key, _)| *key == self.key("job", name.as_str()));
        if retired.iter().any(is_known) {
            self.forget(known.as_ref());
        }
        Ok(retired)
    }
}

fn id_in(text: &str) -> String {
    let read = serde_json::from_str::<serde_json::Value>(text).ok();
    // Whatever else stands there tells this store from another as well.
    read.and_then(|value| Some(value["id"].as_str()?.to_owned())).unwrap_or_else(|| text.to_owned())
}

/// A document's key, and what was found there.
type Place<'a> = (&'a String, &'a Option<Document>);

/// Applies the steps of one job, in their order, to its documents.
fn outcome<'a>(
    steps: impl Iterator<Item = &'a Step> + Clone,
    (job, closed): (Place<'_>, Place<'_>),
    (identity, own_time): (&Identity, i64),
) -> Outcome {
    let text = |(_, found): Place<'_>| found.as_ref().map(|document| document.text.clone());
    let mut outcome = Outcome { answers: Vec::new(), is_same: true, history: Vec::new(), group: Vec::new() };
    let mut documents = match JobDocuments::parse(text(job).as_deref(), text(closed).as_deref()) {
        Ok(documents) => documents,
        Err(Unreadable(format)) => {
            outcome.answers = steps.map(|_| Answer::unreadable(format)).collect();
            return outcome;
        }
    };
    let now = documents.now(own_time);
    for step in steps {
        if let Some(Unreadable(format)) = documents.unreadable(step) {
            outcome.answers.push(Answer::unreadable(format));
            continue;
        }
        let mut picture = documents.records.picture(step, identity);
        let keep_ms = picture.job.as_ref().map(|job| job.keep_ms).filter(|_| documents.is_full());
        if let (Some(job), Some(_), false) = (&mut picture.job, keep_ms, matches!(step, Step::Register(_))) {
            job.keep_ms = 0;
        }
        let (mut answer, changes) = transition::apply(&mut picture, step, now);
        if let (Some(keep_ms), false) = (keep_ms, matches!(step, Step::Register(_))) {
            picture.job.iter_mut().chain(&mut answer.job).for_each(|job| job.keep_ms = keep_ms);
        }
        outcome.is_same &= !(changes.job || changes.run);
        outcome.history.extend(documents.records.save(picture, changes));
        outcome.answers.push(answer);
    }
    if !outcome.is_same {
        let (closed_text, job_text) = documents.texts(now);
        let write = |(key, found): Place<'_>, text| Write {
            key: key.clone(),
            expect: Expect::what_was_found(found.as_ref()),
            text: Some(text),
        };
        outcome.group.extend(closed_text.map(|text| write(closed, text)));
        outcome.group.push(write(job, job_text));
    }
    outcome
}

#[async_trait]
impl Store for DocumentStore {
    fn url(&self) -> &str {
        self.backend.shown()
    }

    async fn apply(&self, steps: &[Step]) -> Result<Vec<Answer>, Error> {
        let Some(first) = steps.first() else { return Ok(Vec::new()) };
        self.apply_all(steps).await.map_err(|failure| self.error(doing::step(first), failure))
    }

    async fn jobs(&self) -> Result<Vec<(JobName, JobRecord)>, Error> {
        let jobs = self.read_jobs().await.map_err(|failure| self.error(doing::JOBS, failure))?;
        Ok(jobs.into_iter().map(|(name, _, record)| (name, record)).collect())
    }

    async fn history(&self, job: &JobName, most: usize) -> Result<Vec<HistoryEntry>, Error> {
        self.read_history(job, most).await.map_err(|failure| self.error(doing::HISTORY, failure))
    }

    fn has_clock(&self) -> bool {
        false
    }

    async fn server_time(&self) -> Result<DateTime<Utc>, Error> {
        Ok(self.clock.now().wall)
    }

    async fn identity(&self) -> Result<Identity, Error> {
        let read = self.read((&[], &[]), &mut self.tries()).await;
        read.map(|(identity, _)| identity).map_err(|failure| self.error(doing::IDENTITY, failure))
    }

    async fn probe(&self) -> Result<Probe, Error> {
        self.backend
            .probe(&format!("onecron/{}/", self.namespace))
            .await
            .map_err(|failure| self.error(doing::PROBE, failure))
    }

    async fn retire(&self, unregistered_for: Duration) -> Result<Vec<JobName>, Error> {
        let millis = i64::try_from(unregistered_for.as_millis()).unwrap_or(i64::MAX);
        let before = self.own_time().saturating_sub(millis);
        self.retire_idle(before).await.map_err(|failure| self.error(doing::RETIRE, failure))
    }

    async fn meet(&self, mine: Option<&Presence>, gone: &[Presence]) -> Result<Gathering, Error> {
        self.gather(mine, gone).await.map_err(|failure| self.error(doing::MEET, failure))
    }

    async fn leave(&self, who: &ReplicaId) -> Result<(), Error> {
        self.remove(who).await.map_err(|failure| self.error(doing::LEAVE, failure))
    }
}

#[cfg(test)]
mod tests;
