//! Records as JSON that a person can read, with the names of their fields as everywhere. Three documents per job: its
//! record with its open runs, which most steps write; its closed runs, which they only read; and its history.
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

/// With more closed runs than that in its document, the oldest of a job go before they have stayed as long as its table
/// says: the document is read with each step and written with each end. As always, only those go that are known to be
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
    #[serde(flatten)]
    others: Record,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde wants it so")]
fn is_zero(number: &i64) -> bool {
    *number == 0
}

/// All records of a job but its history.
#[derive(Debug, Clone, Default)]
pub(super) struct JobDocuments {
    pub records: JobRecords,
    open: Text,
    closed: Text,
    /// The records of runs as they were read.
    read: BTreeMap<Tick, Record>,
    /// Those that we cannot read.
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
        // The document of the job is the one that decides. Where the two could not be written at once, a run may stand
        // in both: it is open, then.
        for record in std::mem::take(&mut documents.closed.runs) {
            documents.take(record, false)?;
        }
        for record in std::mem::take(&mut documents.open.runs) {
            documents.take(record, true)?;
        }
        Ok(documents)
    }

    fn take(&mut self, record: Record, is_open: bool) -> Result<(), Unreadable> {
        match run_of(&record) {
            Ok(run) => {
                self.read.insert(run.scheduled_for, record);
                self.records.runs.insert(run.scheduled_for, run);
            }
            // Each step is judged by all open runs, and by one closed run at most.
            Err(unreadable) if is_open => return Err(unreadable),
            Err(unreadable) => {
                self.strange.push((Tick::parse(record.field("scheduled_for")), record, unreadable));
            }
        }
        Ok(())
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

    /// The job's document, written at that time.
    pub fn open_text(&mut self, now: i64) -> String {
        let job = self.records.job.as_ref().map(JobRecord::fields);
        let mut text = std::mem::take(&mut self.open);
        text.written_at = now;
        overlay(&mut text.job, job.unwrap_or_default());
        text.runs = self.runs(true);
        text_of(&text)
    }

    /// The document of the closed runs.
    pub fn closed_text(&mut self) -> String {
        let mut text = std::mem::take(&mut self.closed);
        text.runs = self.strange.drain(..).map(|(_, record, _)| record).collect();
        text.runs.extend(self.runs(false));
        text_of(&text)
    }

    fn runs(&self, open: bool) -> Vec<Record> {
        let with_others = |run: &RunRecord| {
            let mut record = self.read.get(&run.scheduled_for).cloned().unwrap_or_default();
            overlay(&mut record, run.fields());
            record
        };
        self.records.runs.values().filter(|run| run.is_open() == open).map(with_others).collect()
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
        let written: Value = serde_json::from_str(&documents.open_text(5)).unwrap();
        let run = &written["runs"][0];
        assert_eq!((&run["mood"], &run["number"]), (&Value::from(7), &Value::from("9")));
        assert_eq!((&written["colour"], &written["written_at"]), (&Value::from("red"), &Value::from(5)));
    }

    #[test]
    fn a_run_that_stands_in_both_documents_is_open() {
        let text = |state| text_of(&Text { runs: vec![record(&run(60, state))], ..Text::default() });
        let mut documents = JobDocuments::parse(Some(&text(RunState::Begun)), Some(&text(RunState::Done))).unwrap();
        assert_eq!(documents.records.runs[&Tick::from_seconds(60)].state, RunState::Begun);
        assert_eq!(documents.closed_text(), r#"{"runs":[]}"#);
    }

    #[test]
    fn a_closed_run_that_cannot_be_read_is_kept_and_no_step_about_it_is_taken() {
        let mut newer = record(&run(60, RunState::Done));
        newer.insert("format".into(), "2".into());
        let closed = text_of(&Text { runs: vec![newer.clone()], ..Text::default() });
        let mut documents = JobDocuments::parse(None, Some(&closed)).unwrap();
        let read = |second| Step::Read {
            run: crate::job::RunKey::new(crate::job::JobName::new("a").unwrap(), Tick::from_seconds(second)),
        };
        assert_eq!(documents.unreadable(&read(60)), Some(Unreadable(2)));
        assert_eq!(documents.unreadable(&read(120)), None);
        assert_eq!(documents.closed_text(), closed);
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
