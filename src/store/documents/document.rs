//! Records as JSON that a person can read, with the names of their fields as everywhere. Three documents per job: its
//! record with its open runs and those that were closed last, which most steps write; the runs that were closed before, which
//! most only read; and its history.
//!
//! Invariant: the job's document decides, also where the others cannot be written in the same moment. A run stands in it
//! until it stands in the other one, where it is copied as it is; what the job's document says of a run or of its removal
//! counts more than what the other one holds. So whoever reads the job's document first misses no run, and what was written
//! by somebody who then found the job's document changed does no harm.
//!
//! Fields that we do not know are those of a newer version, and stay as they are.

use crate::job::FORMAT;
use crate::job::Fields;
use crate::job::HistoryEntry;
use crate::job::JobRecord;
use crate::job::Lookup;
use crate::job::RunRecord;
use crate::job::Step;
use crate::job::Tick;
use crate::store::records::HistoryRecords;
use crate::store::records::JobRecords;
use serde::Deserialize;
use serde::Serialize;
use serde_json::Map;
use serde_json::Value;
use std::collections::BTreeMap;
use std::collections::BTreeSet;

/// So many closed runs stand in the job's document before they are moved to that of the closed ones.
const RECENT_MOST: usize = 4;
/// So many runs of that one are named as removed before they are.
const VOID_MOST: usize = 16;
/// With more closed runs than that, the oldest of a job go before they have stayed as long as its table says: they are read
/// with each step. As always, only those go that are known to be
/// decided without their records, and the floor is raised over them.
const CLOSED_MOST: usize = 100;
/// An instant in a document that lies further ahead of our clock is the trace of a wrong clock, milliseconds.
const AHEAD_MOST_MS: i64 = 60_000;

type Record = Map<String, Value>;

impl Lookup for Record {
    fn field(&self, name: &str) -> &str {
        self.get(name).and_then(Value::as_str).unwrap_or_default()
    }
}

/// What a step cannot do anything about: a record in a form that only a newer version reads, or (0) in none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Unreadable(pub u32);

/// The document of a job, and that of its closed runs.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
struct Text {
    /// The latest instant that was written, milliseconds since the epoch.
    #[serde(default, skip_serializing_if = "is_zero")]
    written_at: i64,
    #[serde(default, skip_serializing_if = "Record::is_empty")]
    job: Record,
    #[serde(default)]
    runs: Vec<Record>,
    /// Ticks of runs that were dropped and may still stand in the document of the closed ones.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    void: Vec<String>,
    #[serde(flatten)]
    others: Record,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde wants it so")]
fn is_zero(number: &i64) -> bool {
    *number == 0
}

/// Runs as they were read from one document.
type Read = BTreeMap<Tick, (Record, RunRecord)>;

/// All records of a job but its history.
#[derive(Debug, Clone, Default)]
pub(super) struct JobDocuments {
    pub records: JobRecords,
    open: Text,
    closed: Text,
    in_job: Read,
    in_closed: Read,
    void: BTreeSet<Tick>,
    /// Closed ones that we cannot read.
    strange: Vec<(Option<Tick>, Record, Unreadable)>,
}

impl JobDocuments {
    /// Reads the two documents, as far as there are any.
    ///
    /// # Errors
    /// No step about the job can be taken.
    pub fn parse(open: Option<&str>, closed: Option<&str>) -> Result<Self, Unreadable> {
        let text = |text: Option<&str>| match text {
            Some(text) => serde_json::from_str::<Text>(text).map_err(|_| Unreadable(0)),
            None => Ok(Text::default()),
        };
        let mut documents = Self { open: text(open)?, closed: text(closed)?, ..Self::default() };
        documents.records.job = job_of(&documents.open.job)?;
        documents.void = documents.open.void.iter().filter_map(|tick| Tick::parse(tick)).collect();
        for record in std::mem::take(&mut documents.closed.runs) {
            match run_of(&record) {
                Ok(run) => _ = documents.in_closed.insert(run.scheduled_for, (record, run)),
                // A step is judged by one closed run at most.
                Err(unreadable) => {
                    documents.strange.push((Tick::parse(record.field("scheduled_for")), record, unreadable));
                }
            }
        }
        for record in std::mem::take(&mut documents.open.runs) {
            let run = run_of(&record)?;
            documents.in_job.insert(run.scheduled_for, (record, run));
        }
        let there = documents.in_closed.iter().filter(|(tick, _)| !documents.void.contains(tick));
        let all = there.chain(&documents.in_job).map(|(tick, (_, run))| (*tick, run.clone()));
        documents.records.runs = all.collect();
        Ok(documents)
    }

    /// Whether the step is about a run that we cannot read.
    pub fn unreadable(&self, step: &Step) -> Option<Unreadable> {
        let tick = step.run()?.scheduled_for;
        self.strange.iter().find(|(found, ..)| *found == Some(tick)).map(|(.., unreadable)| *unreadable)
    }

    /// What time it is for a step, where no clock is the store's: ours, but not before what was written last, so that
    /// instants in records do not go back when replicas take turns.
    pub fn now(&self, own_ms: i64) -> i64 {
        let written = Some(self.open.written_at).filter(|written| *written <= own_ms.saturating_add(AHEAD_MOST_MS));
        own_ms.max(written.unwrap_or(own_ms))
    }

    /// Whether there are so many closed runs that the oldest may go before their time.
    pub fn is_full(&self) -> bool {
        self.records.runs.values().filter(|run| !run.is_open()).count() > CLOSED_MOST
    }

    /// What is to be written: the document of the closed runs where it changes, and that of the job, at that time.
    pub fn texts(mut self, now: i64) -> (Option<String>, String) {
        let runs = &self.records.runs;
        // Only what is committed is moved.
        let is_movable =
            |(tick, (_, run)): &(&Tick, &(Record, RunRecord))| !run.is_open() && runs.get(tick) == Some(run);
        let mut moved: Read = self.in_job.iter().filter(is_movable).map(|(tick, read)| (*tick, read.clone())).collect();
        if moved.len() <= RECENT_MOST && self.void.len() < VOID_MOST {
            moved.clear();
        } else {
            self.in_closed.retain(|tick, _| !self.void.contains(tick));
            self.in_closed.extend(moved.clone());
        }
        let is_rewritten = !moved.is_empty() || self.void.len() >= VOID_MOST;
        let stays = |run: &&RunRecord| {
            let tick = run.scheduled_for;
            let is_there = self.in_closed.get(&tick).is_some_and(|(_, found)| found == *run);
            let is_seen = moved.contains_key(&tick) || !self.in_job.contains_key(&tick);
            !(is_there && is_seen)
        };
        let mut open = std::mem::take(&mut self.open);
        open.written_at = now;
        overlay(&mut open.job, self.records.job.as_ref().map(JobRecord::fields).unwrap_or_default());
        open.runs = runs.values().filter(stays).map(|run| self.with_others(run)).collect();
        open.void = self.in_closed.keys().filter(|tick| !runs.contains_key(tick)).map(Tick::to_string).collect();
        let closed = is_rewritten.then(|| {
            let strange = self.strange.into_iter().map(|(_, record, _)| record);
            let runs = strange.chain(self.in_closed.into_values().map(|(record, _)| record)).collect();
            text_of(&Text { runs, ..self.closed })
        });
        (closed, text_of(&open))
    }

    fn with_others(&self, run: &RunRecord) -> Record {
        let read = [&self.in_job, &self.in_closed].into_iter().find_map(|read| read.get(&run.scheduled_for));
        let mut record = read.map(|(record, _)| record.clone()).unwrap_or_default();
        overlay(&mut record, run.fields());
        record
    }
}

fn text_of(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("maps with names, texts and numbers are always JSON")
}

/// Writes our fields and leaves those of a newer version alone. Empty ones are left out.
fn overlay(record: &mut Record, fields: Fields) {
    for (name, text) in fields {
        if text.is_empty() {
            record.remove(name);
        } else {
            record.insert(name.to_owned(), Value::String(text));
        }
    }
}

fn known(format: u32) -> Result<(), Unreadable> {
    if format <= FORMAT { Ok(()) } else { Err(Unreadable(format)) }
}

fn job_of(record: &Record) -> Result<Option<JobRecord>, Unreadable> {
    if record.is_empty() {
        return Ok(None);
    }
    let job = JobRecord::from_fields(record).map_err(|_| Unreadable(0))?;
    known(job.format)?;
    Ok(Some(job))
}

fn run_of(record: &Record) -> Result<RunRecord, Unreadable> {
    let run = RunRecord::from_fields(record).map_err(|_| Unreadable(0))?;
    known(run.format)?;
    Ok(run)
}

/// Reads the record of a job alone.
pub(super) fn job_in(text: &str) -> Option<JobRecord> {
    job_of(&serde_json::from_str::<Text>(text).ok()?.job).ok()?
}

/// The document of a history.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
struct HistoryText {
    #[serde(default)]
    history: Vec<HistoryEntry>,
}

/// Reads a history. One that cannot be read begins anew: it is for people, and decides nothing.
pub(super) fn history_in(text: Option<&str>) -> HistoryRecords {
    let read = text.and_then(|text| serde_json::from_str::<HistoryText>(text).ok()).unwrap_or_default();
    HistoryRecords(read.history.into())
}

/// Writes a history in so many bytes at most: of one that is longer, the oldest outputs are cut, then the oldest
/// entries.
pub(super) fn history_text(history: HistoryRecords, bytes_most: usize) -> String {
    let mut entries: Vec<HistoryEntry> = history.0.into();
    let sizes = entries.iter().map(|entry| text_of(entry).len() + 1);
    let mut size = "{\"history\":[]}".len() + sizes.sum::<usize>();
    for entry in entries.iter_mut().rev() {
        if size <= bytes_most {
            break;
        }
        let before = text_of(entry).len();
        entry.output_tail.clear();
        size -= before - text_of(entry).len();
    }
    while size > bytes_most
        && let Some(oldest) = entries.pop()
    {
        size -= text_of(&oldest).len() + 1;
    }
    text_of(&HistoryText { history: entries })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::Outcome;
    use crate::job::ReplicaId;
    use crate::job::RunState;

    fn run(second: i64, state: RunState) -> RunRecord {
        RunRecord { state, ..RunRecord::claimed(Tick::from_seconds(second), &ReplicaId::new("web", "1")) }
    }

    fn record(run: &RunRecord) -> Record {
        let mut record = Record::new();
        overlay(&mut record, run.fields());
        record
    }

    #[test]
    fn fields_of_a_newer_version_stay() {
        let mut odd = record(&run(60, RunState::Claimed));
        odd.insert("mood".into(), Value::from(7));
        let text = Text { runs: vec![odd], ..Text::default() };
        let mut open: Record = serde_json::from_str(&text_of(&text)).unwrap();
        open.insert("colour".into(), "red".into());
        let mut documents = JobDocuments::parse(Some(&text_of(&open)), None).unwrap();
        documents.records.runs.get_mut(&Tick::from_seconds(60)).unwrap().number = 9;
        let written: Value = serde_json::from_str(&documents.texts(5).1).unwrap();
        let run = &written["runs"][0];
        assert_eq!((&run["mood"], &run["number"]), (&Value::from(7), &Value::from("9")));
        assert_eq!((&written["colour"], &written["written_at"]), (&Value::from("red"), &Value::from(5)));
    }

    #[test]
    fn of_a_run_that_stands_in_both_documents_the_jobs_counts() {
        let text = |state| text_of(&Text { runs: vec![record(&run(60, state))], ..Text::default() });
        let documents = JobDocuments::parse(Some(&text(RunState::Begun)), Some(&text(RunState::Done))).unwrap();
        assert_eq!(documents.records.runs[&Tick::from_seconds(60)].state, RunState::Begun);
        let (closed, open) = documents.texts(5);
        assert_eq!(closed, None, "what is there stays");
        assert!(open.contains("begun"), "{open}");
    }

    #[test]
    fn closed_runs_are_moved_once_they_are_committed_and_removed_ones_are_named_until_they_are() {
        let tick = |n| Tick::from_seconds(60 * n);
        let (mut open, mut closed) = (String::new(), None::<String>);
        let mut rewrites = 0;
        for n in 1..=60 {
            let before = Some(open.as_str()).filter(|text| !text.is_empty());
            let mut documents = JobDocuments::parse(before, closed.as_deref()).unwrap();
            let there: Vec<Tick> = documents.records.runs.keys().copied().collect();
            assert_eq!(there, (1.max(n - 30)..n).map(tick).collect::<Vec<_>>(), "{n}");
            documents.records.runs.insert(tick(n), run(60 * n, RunState::Done));
            documents.records.runs.remove(&tick(n - 30));
            let (rewritten, text) = documents.texts(n);
            // Whoever writes the one and then not the other has changed nothing.
            if let Some(written) = &rewritten {
                let read = JobDocuments::parse(before, Some(written)).unwrap();
                assert_eq!(read.records.runs.keys().copied().collect::<Vec<_>>(), there, "{n}");
                rewrites += 1;
            }
            (open, closed) = (text, rewritten.or(closed));
        }
        assert!((10..=15).contains(&rewrites), "{rewrites}");
    }

    #[test]
    fn a_closed_run_that_cannot_be_read_is_kept_and_no_step_about_it_is_taken() {
        let mut newer = record(&run(60, RunState::Done));
        newer.insert("format".into(), "2".into());
        let closed = text_of(&Text { runs: vec![newer.clone()], ..Text::default() });
        let documents = JobDocuments::parse(None, Some(&closed)).unwrap();
        let read = |second| Step::Read {
            run: crate::job::RunKey::new(crate::job::JobName::new("a").unwrap(), Tick::from_seconds(second)),
        };
        assert_eq!(documents.unreadable(&read(60)), Some(Unreadable(2)));
        assert_eq!(documents.unreadable(&read(120)), None);
        let mut full = documents.clone();
        for n in 2..10 {
            full.in_job.insert(
                Tick::from_seconds(60 * n),
                (record(&run(60 * n, RunState::Done)), run(60 * n, RunState::Done)),
            );
            full.records.runs.insert(Tick::from_seconds(60 * n), run(60 * n, RunState::Done));
        }
        assert!(full.texts(5).0.unwrap().contains(&text_of(&newer)), "it is kept when the others are written");
        assert_eq!(JobDocuments::parse(Some(&closed), None).unwrap_err(), Unreadable(2), "an open one stops all");
        assert_eq!(JobDocuments::parse(Some("[1"), None).unwrap_err(), Unreadable(0));
    }

    #[test]
    fn instants_do_not_go_back_but_a_wrong_clock_is_passed_over() {
        let written =
            |written_at| JobDocuments::parse(Some(&text_of(&Text { written_at, ..Text::default() })), None).unwrap();
        let now = 1_772_330_400_000;
        assert_eq!(written(now - 5).now(now), now);
        assert_eq!(written(now + 3_000).now(now), now + 3_000);
        assert_eq!(written(now + AHEAD_MOST_MS + 1).now(now), now);
    }

    #[test]
    fn a_history_that_is_too_long_loses_its_oldest_outputs_first_and_then_its_oldest_entries() {
        let entry = |second| {
            let run = RunRecord { outcome: Some(Outcome::Failed), ..run(second, RunState::Done) };
            // Six bytes each in JSON.
            HistoryEntry::of(&run, &"\u{1}".repeat(10_000))
        };
        let history = HistoryRecords((0..200).map(|n| entry(200 - n)).collect());
        let whole = history_text(history.clone(), usize::MAX);
        assert_eq!(history_text(history.clone(), whole.len() + 1), whole);
        let cut = history_text(history.clone(), 200_000);
        assert!(cut.len() <= 200_000, "{}", cut.len());
        let read = history_in(Some(&cut)).0;
        let with_output: Vec<bool> = read.iter().map(|entry| !entry.output_tail.is_empty()).collect();
        assert_eq!((read.len(), &with_output[..3]), (200, &[true, true, false][..]));
        let short = history_text(history, 5_000);
        assert!(short.len() <= 5_000, "{}", short.len());
        let read = history_in(Some(&short)).0;
        assert!(read.len() > 10 && read[0].scheduled_for == entry(200).scheduled_for, "the newest stay");
        assert!(read.iter().all(|entry| entry.output_tail.is_empty()));
    }
}
