//! The table that is being made.

use super::Converted;
use crate::config::steers;
use crate::job::JobName;
use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::fmt::Write;

/// A job that is being made. Values are YAML in one line.
#[derive(Debug, Clone, Default)]
pub(super) struct Draft {
    /// Comments above it: notes first said to the caller, and what stood there.
    pub comments: Vec<String>,
    /// Its keys, but `name` and `env`, in the order in which they are written.
    pub keys: Vec<(&'static str, String)>,
    /// Its variables.
    pub env: BTreeMap<String, String>,
}

impl Draft {
    /// Adds a key.
    pub fn set(&mut self, key: &'static str, value: impl Into<String>) {
        self.keys.push((key, value.into()));
    }
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Table {
    head: Vec<String>,
    /// `key: value` lines of `scheduler` and `defaults`.
    scheduler: Vec<String>,
    defaults: Vec<String>,
    body: String,
    names: BTreeSet<String>,
    /// How often a name was wished for.
    wishes: BTreeMap<String, usize>,
    jobs: usize,
    notes: Vec<String>,
}

/// A text as YAML that nothing in it can break: JSON's strings are YAML's, but for characters that YAML does not take as
/// they are.
pub(super) fn quoted(text: &str) -> String {
    let json = serde_json::to_string(text).expect("a text is always JSON");
    let mut yaml = String::with_capacity(json.len());
    for c in json.chars() {
        if is_plain(c) {
            yaml.push(c);
        } else {
            let _ = write!(yaml, "\\u{:04x}", u32::from(c)); // all of them are below U+10000
        }
    }
    yaml
}

/// Whether a character can stand in a line of YAML, and on a terminal, without doing anything.
fn is_plain(c: char) -> bool {
    !steers(c) && !matches!(c, '\u{feff}' | '\u{fffe}' | '\u{ffff}')
}

/// A list of texts likewise.
pub(super) fn list(texts: &[String]) -> String {
    format!("[{}]", texts.iter().map(|text| quoted(text)).collect::<Vec<_>>().join(", "))
}

/// What YAML, of one version or another, reads as something else than a text.
const NO_TEXTS: &[&str] = &["null", "true", "false", "yes", "no", "on", "off", "y", "n"];

/// A job's or a variable's name as YAML: as it is, where every reader of YAML takes it for a text.
fn named(name: &str) -> String {
    let is_text = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_'))
        && !NO_TEXTS.contains(&name.to_ascii_lowercase().as_str());
    if is_text { name.to_owned() } else { quoted(name) }
}

/// A number that tells it from others still has to fit behind it.
const NAME_MOST: usize = 50;

/// The nearest job name to a text; empty where nothing of it can be in one.
fn name_of(text: &str) -> String {
    let replaced = text.chars().map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' });
    let joined: String = replaced.collect();
    let short: String = joined.split('-').filter(|part| !part.is_empty()).collect::<Vec<_>>().join("-");
    short.chars().take(NAME_MOST).collect::<String>().trim_end_matches('-').to_owned()
}

impl Table {
    /// A comment at the top.
    pub fn head(&mut self, line: impl Into<String>) {
        self.head.push(line.into());
    }

    /// A line of `scheduler`.
    pub fn scheduler(&mut self, line: impl Into<String>) {
        self.scheduler.push(line.into());
    }

    /// A line of `defaults`.
    pub fn defaults(&mut self, line: impl Into<String>) {
        self.defaults.push(line.into());
    }

    /// Says something to the caller only.
    pub fn note(&mut self, note: impl Into<String>) {
        self.notes.push(one_line(&note.into()));
    }

    /// Says something to the caller, and at the top.
    pub fn tell(&mut self, note: &str) {
        self.note(note);
        self.head(format!("NOTE: {note}"));
    }

    /// Something that is no job, as comments.
    pub fn leave_out(&mut self, note: &str, lines: &[String]) {
        self.note(note);
        let _ = writeln!(self.body, "\n  # NOT CONVERTED: {}", one_line(note));
        for line in lines {
            let _ = writeln!(self.body, "  # {}", one_line(line));
        }
    }

    /// Adds a job, under a name of its own that is as near as can be to one that was wished for. Notes are told to the
    /// caller with it, and stand above it.
    pub fn add(&mut self, wish: &str, notes: &[String], draft: &Draft) -> String {
        let wish = name_of(wish);
        let wish = if wish.is_empty() { "job".to_owned() } else { wish };
        let wishes = self.wishes.entry(wish.clone()).or_default();
        let name = loop {
            *wishes += 1;
            let name = if *wishes == 1 { wish.clone() } else { format!("{wish}-{wishes}") };
            if !self.names.contains(&name) {
                break name;
            }
        };
        debug_assert!(JobName::new(&name).is_ok(), "{name}");
        self.names.insert(name.clone());
        self.jobs += 1;
        if !self.body.is_empty() {
            self.body.push('\n');
        }
        for comment in &draft.comments {
            let _ = writeln!(self.body, "  # {}", one_line(comment));
        }
        for note in notes {
            self.notes.push(one_line(&format!("job {name}: {note}")));
            let _ = writeln!(self.body, "  # NOTE: {}", one_line(note));
        }
        let _ = writeln!(self.body, "  - name: {}", named(&name));
        for (key, value) in &draft.keys {
            let _ = writeln!(self.body, "    {key}: {value}");
        }
        if !draft.env.is_empty() {
            self.body.push_str("    env:\n");
            for (variable, value) in &draft.env {
                let _ = writeln!(self.body, "      {}: {value}", named(variable));
            }
        }
        name
    }

    /// The whole table.
    pub fn finish(self) -> Converted {
        let mut table = String::new();
        for line in &self.head {
            let _ = writeln!(table, "# {}", one_line(line));
        }
        for (key, lines) in [("scheduler", &self.scheduler), ("defaults", &self.defaults)] {
            if !lines.is_empty() {
                let _ = writeln!(table, "\n{key}:");
                lines.iter().for_each(|line| {
                    let _ = writeln!(table, "  {line}");
                });
            }
        }
        let _ = write!(table, "\njobs:{}\n{}", if self.jobs == 0 { " []" } else { "" }, self.body);
        Converted { table, jobs: self.jobs, notes: self.notes }
    }
}

/// What would end a comment, or move a terminal, is a blank.
fn one_line(text: &str) -> String {
    text.chars().map(|c| if is_plain(c) { c } else { ' ' }).collect()
}

#[cfg(test)]
mod tests {
    use crate::config;
    use crate::config::Source;
    use crate::convert::Converted;
    use crate::convert::Crontab;
    use crate::convert::cronjob;
    use crate::convert::crontab;
    use chrono::DateTime;

    /// The names of the jobs that the table has when it is read.
    fn read(converted: &Converted) -> Vec<String> {
        let source = Source::new("made", converted.table.clone().into_bytes());
        let loaded = config::load(&[source], DateTime::UNIX_EPOCH);
        let loaded = loaded.unwrap_or_else(|problems| panic!("{}{}", config::render(&problems), converted.table));
        loaded.table.jobs.iter().map(|job| job.name.to_string()).collect()
    }

    /// Names of programs that YAML takes for something else than a text, and all short ones of the signs that such have.
    fn odd_names() -> Vec<String> {
        let words = [
            "null",
            "Null",
            "NULL",
            "~",
            "true",
            "no",
            "NO",
            "on",
            "off",
            "y",
            "1e3",
            "0x10",
            "0o17",
            ".inf",
            ".nan",
            "-",
            "--",
            "---",
            "...",
            "=",
            "<<",
            "?",
            "&a",
            "*a",
            "!t",
            "[",
            "{",
            "'",
            "\"",
            "`",
            "@x",
            "a:",
            "a: b",
            "2026-03-01",
            "1_000",
            "é",
            "a\u{85}b",
            "null.sh",
            "true-2",
            "|",
            ">",
            ",",
        ];
        let signs = ['n', 'e', '0', '~', '-', '.', ':'];
        let short = signs.iter().flat_map(|a| signs.iter().map(move |b| format!("{a}{b}")));
        let three = signs.iter().flat_map(|a| signs.iter().map(move |b| format!("{a}1{b}")));
        words.iter().map(|word| (*word).to_owned()).chain(short).chain(three).collect()
    }

    #[test]
    fn a_table_that_was_made_is_read_whatever_its_jobs_are_called() {
        let about = Crontab { has_users: false, zone: "UTC" };
        for name in odd_names() {
            let converted = crontab(&format!("0 3 * * * /opt/bin/{name} --all\n"), &about).unwrap();
            let jobs = read(&converted);
            assert!(jobs.len() == 1 && converted.jobs == 1, "{name:?}: {jobs:?}");
            let template = "spec: {schedule: '0 3 * * *', jobTemplate: {spec: {template: {spec: {containers: [{name: c, \
                            image: i, command: ['true']}]}}}}}";
            let text = serde_json::to_string(&name).unwrap();
            let kube = format!("{{apiVersion: batch/v1, kind: CronJob, metadata: {{name: {text}}}, {template}}}");
            assert_eq!(read(&cronjob(&kube).unwrap()).len(), 1, "{name:?}");
        }
        let all: String = odd_names().iter().map(|name| format!("0 3 * * * /opt/bin/{name}\n")).collect();
        assert_eq!(read(&crontab(&all, &about).unwrap()).len(), odd_names().len());
    }

    #[test]
    fn names_that_are_words_of_yaml_stay_names() {
        let about = Crontab { has_users: false, zone: "UTC" };
        for name in ["null", "true", "no", "on", "y"] {
            let converted = crontab(&format!("{name}=x\n0 3 * * * /opt/bin/{name}\n"), &about).unwrap();
            assert_eq!(read(&converted), [name]);
            assert!(converted.table.contains(&format!("\"{name}\": \"x\"")), "{}", converted.table);
        }
    }
}
