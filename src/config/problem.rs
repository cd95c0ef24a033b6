//! What is wrong with a job table, where, and what to write instead. Rendered here and nowhere else.

use super::text::SourceText;
use super::text::Span;
use super::text::visible;
use serde::Serialize;
use std::fmt;

/// Whether a table with this problem is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// It is refused.
    Error,
    /// It is taken; somebody should look.
    Warning,
}

/// One finding. Serialised, it has `code severity file line column path message hint`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Problem {
    /// What kind, stable: `E302`, `W502`.
    pub code: &'static str,
    /// Whether the table is refused for it.
    pub severity: Severity,
    /// The file, as it was named.
    pub file: String,
    /// Counted from 1; 0: it concerns the file as a whole.
    pub line: usize,
    /// In characters, counted from 1; 0: it concerns the file as a whole.
    pub column: usize,
    /// Which part of the table: `jobs[3] "report"`, `scheduler`, or empty.
    pub path: String,
    /// What was found and what is allowed.
    pub message: String,
    /// What to write instead.
    pub hint: Option<String>,
    /// The source line, or the surroundings of the place in a long one.
    #[serde(skip)]
    pub excerpt: String,
    /// What stands below it: blanks and carets.
    #[serde(skip)]
    pub underline: String,
}

impl Problem {
    /// A problem of a whole file.
    pub(super) fn of_file(code: &'static str, file: &str, message: String) -> Self {
        Self {
            code,
            severity: severity(code),
            file: file.to_owned(),
            line: 0,
            column: 0,
            path: String::new(),
            message,
            hint: None,
            excerpt: String::new(),
            underline: String::new(),
        }
    }

    /// A problem at a place of a file.
    pub(super) fn at(code: &'static str, source: &SourceText<'_>, span: Span, message: String) -> Self {
        let position = source.position(span.start);
        let (excerpt, underline) = excerpt(source.line(span.start), position.column - 1, source.underlined(span));
        let whole = Self::of_file(code, source.file, message);
        Self { line: position.line, column: position.column, excerpt, underline, ..whole }
    }
}

/// The letter of the code says it.
fn severity(code: &str) -> Severity {
    if code.starts_with('W') { Severity::Warning } else { Severity::Error }
}

/// A line and the carets below it, from character `at` on. Of a long line only the surroundings are kept: a file can be
/// one line, and a report can have many problems.
fn excerpt(line: &str, at: usize, length: usize) -> (String, String) {
    const WIDTH: usize = 110;
    const BEFORE: usize = 60;
    let skipped = if at < WIDTH - 10 { 0 } else { at - BEFORE };
    let mut rest = line.chars().skip(skipped);
    let shown: Vec<char> = rest.by_ref().take(WIDTH).collect();
    let (before, after) = (if skipped > 0 { "…" } else { "" }, if rest.next().is_some() { "…" } else { "" });
    // Tabs stay tabs in both lines: whatever a terminal makes of them, the carets stay below.
    let keep = |c: char| if c == '\t' { '\t' } else { visible(c) };
    let text: String = shown.iter().copied().map(keep).collect();
    let blank = |c: &char| if *c == '\t' { '\t' } else { ' ' };
    let pad: String = before.chars().map(|_| ' ').chain(shown.iter().take(at - skipped).map(blank)).collect();
    let room = (shown.len() + skipped).saturating_sub(at).max(1);
    (format!("{before}{text}{after}"), format!("{pad}{}", "^".repeat(length.clamp(1, room))))
}

impl Problem {
    /// `file:line:col: CODE path: message`, in one line.
    pub fn in_a_line(&self) -> String {
        let place = if self.line > 0 { format!(":{}:{}", self.line, self.column) } else { String::new() };
        let path = if self.path.is_empty() { String::new() } else { format!("{}: ", self.path) };
        let text = format!("{}{place}: {} {path}{}", self.file, self.code, self.message);
        text.chars().map(visible).collect()
    }
}

impl fmt::Display for Problem {
    /// `file:line:col: error[CODE]: path: message`, the source line with carets, and the hint; several lines, without
    /// a line end after the last.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let clean = |text: &str| text.chars().map(visible).collect::<String>();
        f.write_str(&clean(&self.file))?;
        if self.line > 0 {
            write!(f, ":{}:{}", self.line, self.column)?;
        }
        let kind = match self.severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
        };
        write!(f, ": {kind}[{}]: ", self.code)?;
        if !self.path.is_empty() {
            write!(f, "{}: ", clean(&self.path))?;
        }
        f.write_str(&clean(&self.message))?;
        if self.line > 0 {
            let number = format!("{:>4}", self.line);
            write!(f, "\n{number} | {}", self.excerpt)?;
            write!(f, "\n{:>width$} | {}", "", self.underline, width = number.len())?;
        }
        self.hint.as_ref().map_or(Ok(()), |hint| write!(f, "\nhint: {}", clean(hint)))
    }
}

/// How many errors, and how many warnings, are kept of one file and of one table; nobody reads more.
pub(super) const KEPT_MOST: usize = 1000;

/// What was found in one file. A file can have as many mistakes as characters, so only the first of them are kept; all
/// are counted.
#[derive(Debug, Default)]
pub(super) struct Findings {
    kept: Vec<Problem>,
    errors: usize,
    warnings: usize,
}

impl Findings {
    /// Counts a problem, and makes and keeps it if there is room.
    pub fn add(&mut self, code: &'static str, make: impl FnOnce() -> Problem) {
        let count = match severity(code) {
            Severity::Error => &mut self.errors,
            Severity::Warning => &mut self.warnings,
        };
        *count += 1;
        if *count <= KEPT_MOST {
            self.kept.push(make());
        }
    }

    /// How many errors there were.
    pub fn errors(&self) -> usize {
        self.errors
    }

    /// How many problems there were, of both kinds.
    pub fn count(&self) -> usize {
        self.errors + self.warnings
    }

    /// What was kept.
    pub fn into_kept(self) -> Vec<Problem> {
        self.kept
    }
}

/// The report on a table: all problems, one after the other, each ended by a line end.
pub fn render(problems: &[Problem]) -> String {
    problems.iter().map(|problem| format!("{problem}\n")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn carets_stay_below_tabs_and_inside_long_lines() {
        let source = SourceText::new("jobs.yaml", "\t\tname: x");
        let text = Problem::at("E301", &source, Span::new(8, 9), "m".to_owned()).to_string();
        assert_eq!(text, "jobs.yaml:1:9: error[E301]: m\n   1 | \t\tname: x\n     | \t\t      ^");

        let long = format!("{}XYZ{}", "a".repeat(500), "b".repeat(500));
        let source = SourceText::new("jobs.yaml", &long);
        let text = Problem::at("W502", &source, Span::new(500, 503), "m".to_owned()).to_string();
        let lines: Vec<&str> = text.lines().collect();
        let at = lines[1].chars().position(|c| c == 'X');
        assert_eq!(lines[2].chars().position(|c| c == '^'), at);
        assert!(lines[1].chars().count() < 130, "{text}");
    }
}
