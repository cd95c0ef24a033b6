//! The whole table, over all its files.

use super::files::BYTES_MOST;
use super::files::Source;
use super::hash;
use super::host::Needs;
use super::job;
use super::job::Named;
use super::job::Surroundings;
use super::notify;
use super::problem::Findings;
use super::problem::KEPT_MOST;
use super::problem::Problem;
use super::problem::Severity;
use super::reader::Field;
use super::reader::Fields;
use super::reader::Item;
use super::reader::Reader;
use super::reader::is_null;
use super::reader::kind;
use super::redact;
use super::shared;
use super::shared::Shared;
use super::text::SourceText;
use super::text::quoted;
use super::units::duration_text;
use super::words::Level;
use super::yaml;
use super::yaml::Node;
use super::yaml::Style;
use super::yaml::Value;
use crate::job::JobSpec;
use crate::job::JobTable;
use crate::job::NotifierSpec;
use crate::job::SchedulerSpec;
use crate::schedule::Zone;
use crate::schedule::zone_data_version;
use chrono::DateTime;
use chrono::Utc;
use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::collections::HashMap;
use std::collections::HashSet;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// How many jobs all files of a table may have together.
pub const JOBS_MOST: usize = 10_000;

/// A table that is good, and what is still worth saying about it.
#[derive(Debug, Clone, PartialEq)]
pub struct Loaded {
    /// The table.
    pub table: JobTable,
    /// Warnings, in the order of files and lines.
    pub warnings: Vec<Problem>,
    /// What its jobs need of the machine; nobody has looked yet whether it is there.
    pub needs: Needs,
}

/// Makes a table of files. The table depends on nothing but their bytes and the zone data; what is warned of also on
/// `now`, because the clocks of zones are not set on the same days each year.
///
/// # Errors
/// All problems of all files, warnings included, in the order of files and lines.
pub fn load(sources: &[Source], now: DateTime<Utc>) -> Result<Loaded, Vec<Problem>> {
    let mut problems = Vec::new();
    let mut good = Vec::new();
    for (index, source) in sources.iter().enumerate() {
        match text_of(source) {
            Ok(text) => good.push((index, SourceText::new(source.path(), text))),
            Err(problem) => problems.push((index, *problem)),
        }
    }
    if sources.is_empty() {
        problems.push((0, Problem::of_file("E103", "jobs", "no file was named".to_owned())));
    }
    let mut files: Vec<File<'_>> = good.iter().map(|(index, text)| File::open(*index, text)).collect();
    let mut reading = Reading { now, ..Reading::default() };
    // All files first agree on the zone and on who can be told, then their jobs are read.
    files.iter_mut().for_each(|file| reading.scheduler(file));
    files.iter_mut().for_each(|file| reading.notifiers(file));
    let named: Rc<BTreeSet<String>> = Rc::new(reading.notifiers.keys().cloned().collect());
    files.iter_mut().for_each(|file| file.reader.notifiers = Rc::clone(&named));
    files.iter_mut().for_each(|file| reading.jobs(file));
    let mut found = problems.len();
    let mut needs = Needs::default();
    for mut file in files {
        let index = file.index;
        needs.add(index, std::mem::take(&mut file.reader.sites));
        let (kept, dropped) = file.finish();
        found += kept.len() + dropped;
        problems.extend(kept.into_iter().map(|problem| (index, problem)));
    }
    // Stable: problems of one place stay in the order in which they were found.
    problems.sort_by_key(|(file, problem)| (*file, problem.line, problem.column));
    let mut problems: Vec<Problem> = problems.into_iter().map(|(_, problem)| problem).collect();
    limit(&mut problems, found);
    if problems.iter().any(|problem| problem.severity == Severity::Error) {
        return Err(problems);
    }
    let contents: Vec<&[u8]> = sources.iter().filter_map(|source| source.content().ok()).collect();
    let table = JobTable {
        jobs: reading.jobs,
        notifiers: reading
            .notifiers
            .into_iter()
            .filter_map(|(name, item)| Some((name, Arc::new(item.spec?))))
            .collect(),
        scheduler: reading.scheduler.map_or_else(SchedulerSpec::default, |(spec, _)| spec),
        revision: hash::revision(&contents, zone_data_version()),
    };
    Ok(Loaded { table, warnings: problems, needs })
}

/// Keeps the first problems, errors before warnings, and says so.
pub(super) fn limit(problems: &mut Vec<Problem>, found: usize) {
    if found <= KEPT_MOST {
        return;
    }
    problems.sort_by_key(|problem| problem.severity != Severity::Error);
    problems.truncate(KEPT_MOST);
    let listed = problems.len();
    let file = problems.last().map_or(String::new(), |problem| problem.file.clone());
    let code = if problems.iter().any(|problem| problem.severity == Severity::Error) { "E103" } else { "W509" };
    problems.push(Problem::of_file(code, &file, format!("{found} problems were found, {listed} of them are listed")));
}

/// The text of a file, without its byte order mark.
pub(super) fn text_of(source: &Source) -> Result<&str, Box<Problem>> {
    let fail = |message: String, hint: &str| {
        let mut problem = Problem::of_file("E103", source.path(), message);
        problem.hint = Some(hint.to_owned()).filter(|hint| !hint.is_empty());
        Err(Box::new(problem))
    };
    let content = match source.content() {
        Ok(content) => content,
        Err(reason) => {
            let known = Some(source.hint()).filter(|hint| !hint.is_empty());
            let hint = known.unwrap_or("name a file or a folder with `--jobs`");
            return fail(format!("the file cannot be read: {reason}"), hint);
        }
    };
    if content.len() > BYTES_MOST {
        return fail("the file is larger than 1 MiB".to_owned(), "split it: a folder of files is one table");
    }
    let text = match std::str::from_utf8(content) {
        Ok(text) => text,
        Err(error) => {
            let before = content.get(..error.valid_up_to()).unwrap_or_default();
            let line = before.iter().filter(|byte| **byte == b'\n').count() + 1;
            return fail(format!("the file is not UTF-8: see line {line}"), "save it as UTF-8");
        }
    };
    Ok(text.strip_prefix('\u{feff}').unwrap_or(text))
}

/// A file while it is read.
struct File<'a> {
    index: usize,
    reader: Reader<'a>,
    /// `None` if there is nothing to read.
    root: Option<Node>,
    syntax: Findings,
    unread_lines: HashSet<usize>,
}

impl<'a> File<'a> {
    fn open(index: usize, text: &'a SourceText<'a>) -> Self {
        let mut parsed = yaml::parse(text);
        let has_content = parsed.root.as_ref().is_some_and(|root| !is_null(root));
        if !has_content && parsed.findings.count() == 0 {
            let hint = Some("a table without jobs is `jobs: []`".to_owned());
            let empty = Problem::of_file("E103", text.file, "the file is empty".to_owned());
            parsed.findings.add("E103", || Problem { hint, ..empty });
        }
        Self {
            index,
            reader: Reader::new(text),
            root: parsed.root.filter(|_| has_content),
            syntax: parsed.findings,
            unread_lines: parsed.unread_lines,
        }
    }

    /// The problems in this file that are kept, and how many others there are.
    fn finish(self) -> (Vec<Problem>, usize) {
        let found = self.reader.findings.count() + self.syntax.count();
        let mut problems = self.reader.findings.into_kept();
        let syntax = self.syntax.into_kept();
        let dropped = found - problems.len() - syntax.len();
        problems.retain(|problem| !self.unread_lines.contains(&problem.line));
        problems.extend(syntax);
        (problems, dropped)
    }
}

/// An item of `notifiers`. One with mistakes in it has a name nevertheless.
struct Listed {
    spec: Option<NotifierSpec>,
    place: String,
}

/// What has been read so far, over all files.
#[derive(Default)]
struct Reading<'a> {
    now: DateTime<Utc>,
    scheduler: Option<(SchedulerSpec, String)>,
    zone: Option<Zone>,
    notifiers: BTreeMap<String, Listed>,
    jobs: Vec<Arc<JobSpec>>,
    /// Items of `jobs`, good or not.
    items: usize,
    /// Where each name stands.
    names: HashMap<String, (&'a SourceText<'a>, Named)>,
}

impl<'a> Reading<'a> {
    /// `scheduler` of a file; one file at most has it.
    fn scheduler(&mut self, file: &mut File<'_>) {
        let File { reader, root: Some(root), .. } = file else { return };
        let Some(top) = Fields::open(root, Level::Top) else { return };
        let Some(entry) = top.get("scheduler") else { return };
        let position = reader.source.position(entry.key_span.start);
        let place = format!("{}:{}:{}", reader.source.file, position.line, position.column);
        reader.path = "scheduler".to_owned();
        if let Some((_, first)) = &self.scheduler {
            let message = format!("`scheduler` is already written in {first}, and it concerns all files");
            reader.find("E102", entry.key_span, message, "remove one of the two");
            return;
        }
        let read = reader.field(&top, "scheduler", |reader, item| {
            let fields = reader.fields(item, Level::Scheduler)?;
            let zone = reader.field(&fields, "timeZone", shared::zone);
            Some((read_scheduler(reader, &fields), zone))
        });
        let (spec, zone) = read.value().cloned().unwrap_or((SchedulerSpec::default(), Field::Absent));
        self.scheduler = Some((spec, place));
        self.zone = zone.value().cloned();
    }

    /// `notifiers` of a file; those of all files are one list.
    fn notifiers(&mut self, file: &mut File<'_>) {
        let File { reader, root: Some(root), .. } = file else { return };
        let Some(top) = Fields::open(root, Level::Top) else { return };
        for (entry, spec) in notify::notifiers(reader, &top) {
            let position = reader.source.position(entry.key_span.start);
            let place = format!("{}:{}:{}", reader.source.file, position.line, position.column);
            if let Some(first) = self.notifiers.get(&*entry.key) {
                let message = format!("the notifier {} is already written in {}", quoted(&entry.key), first.place);
                reader.find("E301", entry.key_span, message, "give one of the two another name");
                continue;
            }
            self.notifiers.insert(entry.key.to_string(), Listed { spec, place });
        }
    }

    /// Everything else of a file.
    fn jobs(&mut self, file: &mut File<'a>) {
        let File { reader, root: Some(root), .. } = file else { return };
        reader.path.clear();
        let item = Item { name: "the table".to_owned(), node: root };
        if Fields::open(root, Level::Top).is_none() {
            let message = format!("a job table is a map with the key `jobs`, and here is {}", kind(root));
            let hint = "write `jobs:`, and below it for each job `- name: …` with `schedule: …` and `command: …`";
            reader.find("E203", root.span, message, hint);
            return;
        }
        let Some(top) = reader.fields(&item, Level::Top) else { return };
        read_version(reader, &top);
        let defaults = read_defaults(reader, &top);
        reader.path.clear();
        let hint = "a table without jobs is `jobs: []`";
        let Some(item) = reader.required(&top, "jobs", hint) else { return };
        let Value::List(nodes) = &item.node.value else {
            let message = "`jobs` is a list, each item beginning with `-`".to_owned();
            reader.find(
                "E203",
                item.node.span,
                message,
                "write `- name: nightly-report`, and the other keys below `name`",
            );
            return;
        };
        self.items += nodes.len();
        if self.items > JOBS_MOST {
            let message = format!("there are {} jobs, at most {JOBS_MOST} are allowed", self.items);
            reader.find(
                "E103",
                item.node.span,
                message,
                "spread them over several tables, each with its own namespace",
            );
            return;
        }
        let around = Surroundings { defaults, zone: self.zone.clone().unwrap_or_else(Zone::utc), now: self.now };
        for (index, node) in nodes.iter().enumerate() {
            let (named, spec) = job::read(reader, index, node, &around);
            let is_new = named.is_none_or(|named| self.is_new(reader, named));
            self.jobs.extend(spec.filter(|_| is_new).map(Arc::new));
        }
    }

    /// Notes a name, or reports that it is taken.
    fn is_new(&mut self, reader: &mut Reader<'a>, named: Named) -> bool {
        if let Some((source, first)) = self.names.get(&named.name) {
            let position = source.position(first.span.start);
            let place = format!("jobs[{}] at {}:{}:{}", first.index, source.file, position.line, position.column);
            let message = format!("the name {} is already taken by {place}", quoted(&named.name));
            reader.find("E301", named.span, message, "a name is a job's identity: give one of the two another");
            return false;
        }
        self.names.insert(named.name.clone(), (reader.source, named));
        true
    }
}

/// The file's format. There is one so far, and a file need not say so.
fn read_version(reader: &mut Reader<'_>, top: &Fields<'_>) {
    reader.field(top, "version", |reader, item| {
        let scalar = reader.scalar(item, "the number 1", "")?;
        if scalar.style != Style::Plain || &*scalar.text != "1" {
            let message = format!("`version` is {}, and the only known one is 1", quoted(&scalar.text));
            let is_quoted = scalar.style != Style::Plain;
            let quotes = if is_quoted { ", without quotes" } else { "" };
            reader.find("E201", item.node.span, message, &format!("write `version: 1`{quotes}, or leave it out"));
        }
        Some(())
    });
}

fn read_defaults(reader: &mut Reader<'_>, top: &Fields<'_>) -> Shared {
    reader.path = "defaults".to_owned();
    let defaults = reader.field(top, "defaults", |reader, item| {
        let fields = reader.fields(item, Level::Defaults)?;
        Some(Shared::read(reader, &fields, &Shared::silent()))
    });
    defaults.value_or(Shared::silent())
}

fn read_scheduler(reader: &mut Reader<'_>, fields: &Fields<'_>) -> SchedulerSpec {
    let built_in = SchedulerSpec::default();
    let lease = Duration::from_secs(5)..=Duration::from_secs(600);
    let skew = Duration::from_millis(100)..=Duration::from_secs(60);
    SchedulerSpec {
        lock_lease: reader
            .field(fields, "lockLease", |reader, item| reader.duration(item, lease))
            .value_or(built_in.lock_lease),
        clock_skew_tolerance: reader
            .field(fields, "clockSkewTolerance", |reader, item| reader.duration(item, skew))
            .value_or(built_in.clock_skew_tolerance),
        max_concurrent_runs: reader
            .field(fields, "maxConcurrentRuns", |reader, item| reader.number(item, 0..=10_000))
            .value_or(built_in.max_concurrent_runs),
        reload_interval: reader.field(fields, "reloadInterval", reload_interval).value_or(built_in.reload_interval),
        redact: reader.field(fields, "redact", redact::read).value_or(built_in.redact),
    }
}

/// `0s` turns it off.
fn reload_interval(reader: &mut Reader<'_>, item: &Item<'_>) -> Option<Duration> {
    let interval = reader.duration(item, Duration::ZERO..=Duration::from_secs(600))?;
    if interval > Duration::ZERO && interval < Duration::from_secs(1) {
        let message = format!("`{}` is {}, and the shortest is 1s", item.name, duration_text(interval));
        reader.find("E305", item.node.span, message, "write `1s` or more, or `0s` to read it on HUP alone");
        return None;
    }
    Some(interval)
}
