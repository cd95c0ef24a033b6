//! Where is a byte of a file? Lines and columns for people, and the line to show.

use super::hidden;
use std::ops::Range;
use std::sync::OnceLock;

/// A piece of a file: byte offsets into its text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Span {
    /// First byte.
    pub start: usize,
    /// One past the last byte.
    pub end: usize,
}

impl Span {
    /// From `start` to before `end`; an `end` before `start` makes it empty.
    pub const fn new(start: usize, end: usize) -> Self {
        Self { start, end: if end < start { start } else { end } }
    }
}

/// A line and a column as editors count them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Position {
    /// Counted from 1.
    pub line: usize,
    /// In characters, counted from 1.
    pub column: usize,
}

/// How many bytes of a long line are looked at to either side of a place that is shown: a file can be one line, and have
/// many problems. More than is shown, so that the beginning of what is hidden is seen.
const NEAR: usize = 2000;

/// The text of one file, without a byte order mark.
#[derive(Debug)]
pub(super) struct SourceText<'a> {
    /// The file's name, as it was given.
    pub file: &'a str,
    /// What is in it.
    pub text: &'a str,
    /// Where each line begins. Never empty.
    starts: Vec<usize>,
    /// What may be a secret, once somebody asked.
    hidden: OnceLock<Vec<Range<usize>>>,
}

impl<'a> SourceText<'a> {
    /// Finds the lines. They end as in YAML 1.2: with CR LF, LF, or a lone CR.
    pub fn new(file: &'a str, text: &'a str) -> Self {
        let bytes = text.as_bytes();
        let mut starts = vec![0];
        for (at, byte) in bytes.iter().enumerate() {
            let ends = *byte == b'\n' || (*byte == b'\r' && bytes.get(at + 1) != Some(&b'\n'));
            if ends {
                starts.push(at + 1);
            }
        }
        Self { file, text, starts, hidden: OnceLock::new() }
    }

    /// How many lines there are.
    pub fn lines(&self) -> usize {
        self.starts.len()
    }

    /// What may be a secret within a range of bytes, in order.
    pub fn hidden_in(&self, range: Range<usize>) -> impl Iterator<Item = Range<usize>> {
        let all = self.hidden.get_or_init(|| hidden::ranges(self));
        let Range { start, end } = range;
        let first = all.partition_point(|hidden| hidden.end <= start);
        let within = all[first..].iter().take_while(move |hidden| hidden.start < end);
        within.map(move |hidden| hidden.start.max(start)..hidden.end.min(end))
    }

    /// Whether a text at this place may be a secret, and is no part of a message.
    pub fn is_hidden(&self, span: Span) -> bool {
        self.hidden_in(span.start..span.end.max(span.start + 1)).next().is_some()
    }

    /// Which line holds byte `at`, counted from 0.
    pub fn line_index(&self, at: usize) -> usize {
        self.starts.partition_point(|start| *start <= at).saturating_sub(1)
    }

    /// The bytes of a line, counted from 0, without its end; empty past the last line.
    pub fn line_range(&self, index: usize) -> Range<usize> {
        let Some(start) = self.starts.get(index).copied() else { return self.text.len()..self.text.len() };
        let end = self.starts.get(index + 1).copied().unwrap_or(self.text.len());
        let line = self.text.get(start..end).unwrap_or("");
        start..start + line.trim_end_matches(['\n', '\r']).len()
    }

    /// Where the piece of a line is that is shown for this place: the line, or of a long one what is near.
    pub fn around(&self, span: Span) -> Range<usize> {
        let line = self.line_range(self.line_index(span.start));
        let boundary = |at: usize| (at..=line.end).find(|at| self.text.is_char_boundary(*at)).unwrap_or(line.end);
        let start = boundary(line.start.max(span.start.saturating_sub(NEAR)));
        start..boundary(line.end.min(span.start.saturating_add(NEAR)).max(start))
    }

    /// Line and column of byte `at`.
    pub fn position(&self, at: usize) -> Position {
        let index = self.line_index(at);
        let start = self.starts.get(index).copied().unwrap_or(0);
        let before = self.text.get(start..at.min(self.text.len())).unwrap_or("");
        Position { line: index + 1, column: before.chars().count() + 1 }
    }

    /// How many characters of the span are on its first line; at least 1, so that there is something to underline.
    pub fn underlined(&self, span: Span) -> usize {
        let end = self.around(span).end.min(span.end);
        self.text.get(span.start..end).map_or(1, |piece| piece.trim_end().chars().count()).max(1)
    }
}

/// Text of a user inside a message: in backticks, at most 60 characters.
pub(super) fn quoted(text: &str) -> String {
    format!("`{}`", short(text))
}

/// Text of a user inside a message: at most 60 characters.
pub(super) fn short(text: &str) -> String {
    const MOST: usize = 60;
    let mut short: String = text.chars().take(MOST).map(visible).collect();
    if text.chars().nth(MOST).is_some() {
        short.push('…');
    }
    short
}

/// A blank that YAML takes for a letter: it comes from web pages and word processors.
pub(super) fn is_odd_blank(found: char) -> bool {
    matches!(
        found,
        '\u{a0}' | '\u{1680}' | '\u{2000}'
            ..='\u{200d}' | '\u{202f}' | '\u{205f}' | '\u{2060}' | '\u{3000}' | '\u{feff}'
    )
}

/// Whether a character moves a terminal, ends a line, or turns the direction of writing: no text that somebody else wrote
/// may do that where people read it.
pub fn steers(found: char) -> bool {
    let is_mark =
        matches!(found, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    found.is_control() || is_mark
}

/// Whether a character takes no room: a text with it looks like another one, and carets below it stand elsewhere.
fn is_invisible(found: char) -> bool {
    matches!(found, '\u{ad}' | '\u{180e}' | '\u{200b}'..='\u{200d}' | '\u{2060}'..='\u{2064}' | '\u{feff}')
}

/// What is shown for a character of a text that is refused.
pub fn visible(found: char) -> char {
    if steers(found) || is_invisible(found) { '\u{fffd}' } else { found }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_count_characters_and_lines_end_three_ways() {
        let source = SourceText::new("f", "äb\r\nc\rd\n");
        let at = |byte| {
            let position = source.position(byte);
            (position.line, position.column)
        };
        assert_eq!([at(0), at(2), at(5), at(7), at(9)], [(1, 1), (1, 2), (2, 1), (3, 1), (4, 1)]);
        let line = |byte| &source.text[source.line_range(source.line_index(byte))];
        assert_eq!((line(2), line(5), line(7), line(9)), ("äb", "c", "d", ""));
    }

    #[test]
    fn a_file_cannot_steer_the_terminal() {
        assert_eq!(quoted("a\u{1b}[2J\u{202e}b"), "`a\u{fffd}[2J\u{fffd}b`");
        assert_eq!(quoted("\u{feff}0\u{200b}2\u{61c}"), "`\u{fffd}0\u{fffd}2\u{fffd}`", "nor hide a character");
        assert_eq!(quoted(&"x".repeat(99)).chars().count(), 63);
    }
}
