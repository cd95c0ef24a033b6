//! What is wrong with a job table, where, and what to write instead. Rendered here and nowhere else.

use super::text::SourceText;
use super::text::Span;
use super::text::visible;
use crate::secret::joined;
use crate::secret::masks;
use crate::secret::without_user;
use serde::Serialize;
use std::fmt;
use std::ops::Range;

/// Whether a table with this problem is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// It is refused.
    Error,
    /// It is taken; somebody should look.
    Warning,
}

/// What stands for a text in a source line; `None`: it may be seen as it is.
pub(super) type Shown<'a> = &'a dyn Fn(&str) -> Option<String>;

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
        Self::at_hidden(code, source, span, (message, &|_| None))
    }

    /// The same at a text that may be a secret: `shown` says what stands for its part that is on the line, where it is
    /// not to be seen as it is. User and password of URLs, and what [`hidden`](super::hidden) finds, are never
    /// shown.
    pub(super) fn at_hidden(
        code: &'static str,
        source: &SourceText<'_>,
        span: Span,
        (message, shown): (String, Shown<'_>),
    ) -> Self {
        let position = source.position(span.start);
        let near = source.around(span);
        let whole = source.line_range(source.line_index(span.start));
        let cut = (near.start > whole.start, near.end < whole.end);
        let start = near.start;
        let line = source.text.get(near).unwrap_or("");
        let from = span.start.saturating_sub(start).min(line.len());
        let own = from..line.len().min(from + span.end.saturating_sub(span.start)).max(from);
        let secret = source.hidden_in(start..start + line.len()).map(|range| range.start - start..range.end - start);
        let secret: Vec<Range<usize>> = secret.collect();
        let overlaps = |range: &Range<usize>| own.start < range.end && range.start < own.end;
        let mut ranges = masks(line);
        let mut instead = line.get(own.clone()).and_then(shown);
        if instead.is_some() && secret.iter().any(overlaps) {
            ranges.push(own.clone());
            instead = None;
        }
        if instead.is_some() {
            ranges.retain(|range| !overlaps(range));
        }
        ranges.extend(secret);
        let mut hidden: Vec<_> = joined(ranges).into_iter().map(|range| (range, "***".to_owned())).collect();
        hidden.extend(instead.map(|shown| (own, shown)));
        let at = line.get(..from).map_or(0, |before| before.chars().count());
        let (line, at, length) = masked(line, hidden, (at, source.underlined(span)));
        let (excerpt, underline) = excerpt(&line, cut, (at, length));
        let whole = Self::of_file(code, source.file, message);
        Self { line: position.line, column: position.column, excerpt, underline, ..whole }
    }
}

/// The letter of the code says it.
fn severity(code: &str) -> Severity {
    if code.starts_with('W') { Severity::Warning } else { Severity::Error }
}

/// A line with other texts in place of what is hidden, and where its carets are then; these are in characters.
fn masked(line: &str, mut hidden: Vec<(Range<usize>, String)>, (at, length): (usize, usize)) -> (String, usize, usize) {
    hidden.sort_by_key(|(range, _)| range.start);
    let byte = |character: usize| line.char_indices().nth(character).map_or(line.len(), |(byte, _)| byte);
    let (from, to) = (byte(at), byte(at + length));
    let (mut text, mut done) = (String::new(), 0);
    let (mut start, mut end) = (None, None);
    for (range, shown) in hidden {
        if range.start < done {
            continue;
        }
        let before = text.chars().count();
        // Where a place of the line is now, if it is before this one's end.
        let now = |place: usize, inside: usize| match place {
            _ if place < range.start => Some(before + line[done..place].chars().count()),
            _ if place < range.end => Some(before + line[done..range.start].chars().count() + inside),
            _ => None,
        };
        start = start.or_else(|| now(from, 0));
        end = end.or_else(|| now(to, shown.chars().count()));
        text.push_str(&line[done..range.start]);
        text.push_str(&shown);
        done = range.end;
    }
    let before = text.chars().count();
    let now = |place: usize| before + line.get(done..place).map_or(0, |piece| piece.chars().count());
    let (start, end) = (start.unwrap_or_else(|| now(from)), end.unwrap_or_else(|| now(to)));
    text.push_str(&line[done..]);
    // Behind the end of the line there is still something to underline.
    (text, start, if end > start { end - start } else { length.min(1) })
}

/// A line, of which something may have been cut off at its beginning and its end, and the carets below it, from character
/// `at` on. Of a long line only the surroundings are kept.
fn excerpt(line: &str, cut: (bool, bool), (at, length): (usize, usize)) -> (String, String) {
    const WIDTH: usize = 110;
    const BEFORE: usize = 60;
    let skipped = if at < WIDTH - 10 && !cut.0 { 0 } else { at.saturating_sub(BEFORE) };
    let mut rest = line.chars().skip(skipped);
    let shown: Vec<char> = rest.by_ref().take(WIDTH).collect();
    let before = if skipped > 0 || cut.0 { "…" } else { "" };
    let after = if rest.next().is_some() || cut.1 { "…" } else { "" };
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

impl Problem {
    /// What to write instead, in one line; empty where nothing is known.
    pub fn hint_in_a_line(&self) -> String {
        self.hint.iter().flat_map(|hint| hint.chars()).map(visible).collect()
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
            let problem = make();
            let hint = problem.hint.map(|hint| without_user(&hint));
            self.kept.push(Problem { message: without_user(&problem.message), hint, ..problem });
        }
    }

    /// Whether no more errors are kept: what only helps to mend one needs not be looked for.
    pub fn is_full(&self) -> bool {
        self.errors >= KEPT_MOST
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
    fn what_may_be_a_secret_is_in_no_excerpt_and_the_carets_stay_below_what_they_are_about() {
        for (line, about, shown) in [
            ("uri: http://user:s3cret@host/x # y", "http://user:s3cret@host/x", "uri: http://***@host/x # y"),
            (
                "{bogus: 1, uri: http://u:s3cret@a, x: http://b@c}",
                "bogus",
                "{bogus: 1, uri: http://***@a, x: http://***@c}",
            ),
            ("{uri: 'http://u:s3cret@a', bogus: 1}", "bogus", "{uri: 'http://***@a', bogus: 1}"),
            ("{uri: http://u:s3cret s3@cret@a, x: b@c, bogus: 1}", "bogus", "{uri: http://***@a, x: b@c, bogus: 1}"),
            ("{uri: \"http://u:s3cret, 's3 #cret@a\", bogus: 1}", "bogus", "{uri: \"http://***@a\", bogus: 1}"),
            ("{uri: 'http://u:s3cret''s3cret@a', bogus: 1}", "bogus", "{uri: 'http://***@a', bogus: 1}"),
            ("{uri: http://a, bogus: b@c} # d@e", "bogus", "{uri: http://a, bogus: b@c} # d@e"),
            (
                "headers: {Authorization: Bearer s3cret, X: 1, bogus: 1}",
                "bogus",
                "headers: {Authorization: ***, X: ***, bogus: ***}",
            ),
            ("DB_PASSWORD: \"s3cret }\" # x", "DB_PASSWORD", "DB_PASSWORD: *** # x"),
            ("- api-token: 's3cret''s'", "'s3cret''s'", "- api-token: ***"),
            ("{uri: 'http://a/?token=s3cret&b=c', bogus: 1}", "bogus", "{uri: 'http://a/?token=***&b=c', bogus: 1}"),
            ("Authorization: {fromFile: /x}", "fromFile", "Authorization: {fromFile: /x}"),
        ] {
            let source = SourceText::new("jobs.yaml", line);
            let start = line.find(about).unwrap();
            let text = Problem::at("E201", &source, Span::new(start, start + about.len()), "m".to_owned()).to_string();
            let lines: Vec<&str> = text.lines().collect();
            assert_eq!(lines[1], format!("   1 | {shown}"));
            let (from, to) = (lines[2].find('^').unwrap(), lines[2].rfind('^').unwrap() + 1);
            if !about.contains("s3cret") {
                assert_eq!(&lines[1][from..to], about);
            } else {
                assert!(lines[1][from..to].contains("***"), "{text}");
            }
        }
    }

    #[test]
    fn of_a_long_line_what_is_near_is_shown_without_its_secrets() {
        let far = "a: b, ".repeat(1_000);
        let line = format!("{{{far}uri: http://u:s3cret@a, bogus: 1, other: http://u:s3cret@b, {far}}}");
        let source = SourceText::new("jobs.yaml", &line);
        let start = line.find("bogus").unwrap();
        let problem = Problem::at("E201", &source, Span::new(start, start + 5), "m".to_owned());
        assert_eq!(problem.column, start + 1);
        let shown = "uri: http://***@a, bogus: 1, other: http://***@b, a: b, ";
        assert!(problem.excerpt.contains(shown), "{}", problem.excerpt);
        assert!(problem.excerpt.starts_with('…') && problem.excerpt.ends_with('…'), "{}", problem.excerpt);
        let at = problem.underline.chars().position(|c| c == '^').unwrap();
        assert_eq!(problem.excerpt.chars().skip(at).take(5).collect::<String>(), "bogus");
        // Its ends are those of the line.
        let last = Problem::at("E201", &source, Span::new(line.len() - 1, line.len()), "m".to_owned());
        assert!(last.excerpt.starts_with('…') && last.excerpt.ends_with('}'), "{}", last.excerpt);
    }

    #[test]
    fn messages_and_hints_have_no_user_of_a_url() {
        let mut findings = Findings::default();
        let problem = Problem::of_file("E201", "f", "is `http://u:s3cret@a`".to_owned());
        findings.add("E201", || Problem { hint: Some("write \"http://u:s3cret s3cret@a\"".to_owned()), ..problem });
        assert!(!format!("{:?}", findings.into_kept()).contains("s3cret"));
    }

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
