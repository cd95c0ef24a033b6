//! What broken YAML is called. The parser's own words name its functions and its grammar; these name the file.

use super::problem::Problem;
use super::text::SourceText;
use super::text::Span;
use super::text::is_odd_blank;
use super::text::quoted;
use serde_yaml::granit_parser::ErrorKind;
use serde_yaml::granit_parser::ScanError;
use std::ops::Range;

/// What the parser stumbled over, in our words.
pub(super) fn problem(source: &SourceText<'_>, error: &ScanError) -> Problem {
    let at = offset(source, error);
    if let Some(tab) = tab_near(source, at) {
        let mut problem = Problem::at("E101", source, tab, "a tab is used for indentation".to_owned());
        problem.hint = Some("indent with spaces".to_owned());
        return problem;
    }
    if let Some(problem) = odd_blank_near(source, at).or_else(|| dash_near(source, at)) {
        return problem;
    }
    let (message, hint) = words(error.kind());
    let span = Span::new(at, at + source.text.get(at..).and_then(|rest| rest.chars().next()).map_or(0, char::len_utf8));
    let mut problem = Problem::at("E101", source, span, message);
    problem.hint = Some(hint.to_owned());
    problem
}

/// `*name` where nothing is called so: mostly a schedule without quotes.
pub(super) fn unknown_anchor(source: &SourceText<'_>, name: &str, span: Span) -> Problem {
    let shown = if source.is_hidden(span) { "this".to_owned() } else { quoted(&format!("*{name}")) };
    let message = format!("{shown} is an alias, and nothing above has this name");
    let mut problem = Problem::at("E101", source, span, message);
    problem.hint = Some(quote_hint(source, span, &format!("*{name}")));
    problem
}

/// A value that had to be quoted, if the parser stumbled over one: where it begins, and what to say. The caller
/// puts a stand-in there and parses again, so that one report shows all of them and what else is wrong.
pub(super) fn unquoted(source: &SourceText<'_>, text: &str, error: &ScanError) -> Option<(usize, Problem)> {
    let line = source.line_index(offset(source, error));
    // A plain text after an alias is found out only on the next line that has content.
    let above = (0..line).rev().find(|index| !is_blank(text, source.line_range(*index)));
    [Some(line), above].into_iter().flatten().find_map(|index| unquoted_in(source, text, index))
}

fn unquoted_in(source: &SourceText<'_>, text: &str, index: usize) -> Option<(usize, Problem)> {
    let range = source.line_range(index);
    let line = text.get(range.clone())?;
    let value = line.get(value_start(line)..)?;
    let written = value.split(" #").next().unwrap_or(value).trim_end();
    let first = written.chars().next()?;
    let must_be_quoted = match first {
        '@' | '`' | '%' => true,
        // A lone `*word` is an alias, and not the reason.
        '*' => written == "*" || written.contains([' ', ',']),
        _ => false,
    };
    if !must_be_quoted {
        return None;
    }
    let at = range.start + (line.len() - value.len());
    let span = Span::new(at, at + written.len());
    if at == range.start && written.starts_with("%YAML") {
        let mut problem = Problem::at("E101", source, span, "this version of YAML is not read".to_owned());
        problem.hint = Some("write `%YAML 1.2`, or remove the line and the `---` below it".to_owned());
        return Some((at, problem));
    }
    let mut problem = Problem::at("E101", source, span, format!("a value that begins with `{first}` must be quoted"));
    problem.hint = Some(quote_hint(source, span, written));
    Some((at, problem))
}

fn quote_hint(source: &SourceText<'_>, span: Span, value: &str) -> String {
    let before = source.text.get(..span.start).unwrap_or("").trim_end();
    let what = if before.ends_with("schedule:") { "quote the schedule" } else { "quote it" };
    if source.is_hidden(span) {
        return format!("{what}: \"…\"");
    }
    format!("{what}: {}", quoted(&format!("\"{value}\"")))
}

fn is_blank(text: &str, range: Range<usize>) -> bool {
    text.get(range).is_none_or(|line| line.trim().is_empty() || line.trim_start().starts_with('#'))
}

/// Where the value of a block line begins: behind indentation, `- ` and `key: `.
fn value_start(line: &str) -> usize {
    let mut rest = line.trim_start_matches(' ');
    while let Some(item) = rest.strip_prefix("- ") {
        rest = item.trim_start_matches(' ');
    }
    let is_key = |key: &str| !key.is_empty() && key.chars().all(|c| c.is_alphanumeric() || "-_.".contains(c));
    if let Some((key, value)) = rest.split_once(": ")
        && is_key(key)
    {
        rest = value.trim_start_matches(' ');
    }
    line.len() - rest.len()
}

/// A tab in the indentation of this line, or of the one before or after it: the parser may notice it on any of them.
fn tab_near(source: &SourceText<'_>, at: usize) -> Option<Span> {
    let index = source.line_index(at);
    [Some(index), Some(index + 1), index.checked_sub(1)].into_iter().flatten().find_map(|index| {
        let range = source.line_range(index);
        let line = source.text.get(range.clone())?;
        let indent = line.len() - line.trim_start_matches([' ', '\t']).len();
        let tab = line.get(..indent)?.find('\t')?;
        Some(Span::new(range.start + tab, range.start + tab + 1))
    })
}

/// The line of a byte, and those before and after it: the parser may notice a mistake on any of them.
fn lines_near<'s>(source: &'s SourceText<'_>, at: usize) -> impl Iterator<Item = (usize, &'s str)> {
    let index = source.line_index(at);
    let lines = [Some(index), index.checked_sub(1), Some(index + 1)].into_iter().flatten();
    lines.filter_map(|index| {
        let range = source.line_range(index);
        Some((range.start, source.text.get(range)?))
    })
}

/// A blank in an indentation that is none to YAML.
fn odd_blank_near(source: &SourceText<'_>, at: usize) -> Option<Problem> {
    lines_near(source, at).find_map(|(start, line)| {
        let indent = line.len() - line.trim_start_matches(|c| c == ' ' || is_odd_blank(c)).len();
        let (place, odd) = line.get(..indent)?.char_indices().find(|(_, c)| is_odd_blank(*c))?;
        let span = Span::new(start + place, start + place + odd.len_utf8());
        let message = format!("the invisible character U+{:04X} is used for indentation", u32::from(odd));
        let hint = Some("indent with ordinary blanks: such ones come from web pages and word processors".to_owned());
        Some(Problem { hint, ..Problem::at("E101", source, span, message) })
    })
}

/// `-name: x`, which is no item of a list.
fn dash_near(source: &SourceText<'_>, at: usize) -> Option<Problem> {
    lines_near(source, at).find_map(|(start, line)| {
        let rest = line.trim_start_matches(' ').strip_prefix('-')?;
        let (key, _) = rest.split_once(':')?;
        let is_key = key.starts_with(|c: char| c.is_ascii_alphabetic()) && key.chars().all(char::is_alphanumeric);
        if !is_key {
            return None;
        }
        let dash = start + line.len() - rest.len() - 1;
        let message = format!("there is no blank between `-` and {}", quoted(key));
        let hint = Some(format!("write {}", quoted(&format!("- {key}:"))));
        Some(Problem { hint, ..Problem::at("E101", source, Span::new(dash, dash + 1 + key.len()), message) })
    })
}

/// The byte where the parser stopped; never inside a character.
fn offset(source: &SourceText<'_>, error: &ScanError) -> usize {
    let marker = error.marker();
    let counted = || source.text.char_indices().nth(marker.index()).map_or(source.text.len(), |(at, _)| at);
    let at = marker.byte_offset().unwrap_or_else(counted).min(source.text.len());
    // At the end of the file there is nothing to show: the last line with content is.
    let at = if at == source.text.len() { source.text.trim_end().len().saturating_sub(1) } else { at };
    source.text.floor_char_boundary(at)
}

fn words(kind: &ErrorKind) -> (String, &'static str) {
    use ErrorKind as K;
    const INDENT: &str = "keys of one map stand exactly below each other, and so do the `-` of one list";
    let (message, hint) = match kind {
        K::UnexpectedCharacter { character: found @ ('@' | '`' | '%') } => {
            return (format!("a value that begins with `{found}` must be quoted"), "quote it: \"…\"");
        }
        K::UnexpectedCharacter { character: '\0' } => {
            let hint = "remove it: a file that a crash or a full disk has cut may end in such characters; YAML is saved as UTF-8";
            return ("the character NUL stands in the file".to_owned(), hint);
        }
        K::UnexpectedCharacter { character } if character.is_control() => {
            let message = format!("the character {character:?} cannot stand in YAML, not even inside quotes");
            return (message, "remove it, or write it inside \"…\" as an escape, such as \"\\x1b\"");
        }
        K::UnexpectedCharacter { character } => {
            return (format!("the character {character:?} cannot stand here"), "quote the value that it belongs to");
        }
        K::UnclosedFlowCollection { open } => {
            return (format!("a list or map that begins with `{open}` is never closed"), "close it, or quote the text");
        }
        K::MismatchedFlowCollectionEnd { open, close } => {
            return (format!("`{open}` is closed by `{close}`"), "close each bracket by its own kind");
        }
        K::MissingAnchorOrAliasName | K::UnknownAnchor => {
            ("a value that begins with `*` or `&` must be quoted", "quote it: \"* * * * *\"")
        }
        K::TabNotAllowed
        | K::TabInBlockIndentation
        | K::TabInIndentation
        | K::TabAtBlockScalarStart
        | K::TabInPlainScalar
        | K::InvalidBlockEntryWhitespace
        | K::InvalidMappingValueWhitespace => ("a tab is used where YAML takes spaces", "use spaces"),
        K::UnclosedQuotedScalar | K::DocumentIndicatorInQuotedScalar | K::InvalidQuotedScalarIndent => {
            ("a quoted text is never closed", "close the quote that was opened above; inside '…' write '' for a quote")
        }
        K::InvalidTrailingSingleQuotedScalar | K::InvalidTrailingDoubleQuotedScalar => {
            ("there is more text after a closed quote", "quote the whole value; inside '…' write '' for a quote")
        }
        K::UnknownQuotedScalarEscape
        | K::InvalidQuotedScalarHexEscape
        | K::InvalidUnicodeEscape
        | K::InvalidLowSurrogateHexEscape
        | K::InvalidLowSurrogate
        | K::MissingLowSurrogate
        | K::UnpairedLowSurrogate => {
            ("inside \"…\" a backslash begins an escape, and this one is unknown", "write `\\\\`, or use '…'")
        }
        K::MappingValueNotAllowed
        | K::MappingKeyNotAllowed
        | K::InvalidColonPlacement
        | K::SimpleKeyExpected
        | K::InvalidSimpleKey => (
            "a key with its colon cannot stand here",
            "quote a text that contains `: `; check the indentation, and that each `[` or `{` above is closed",
        ),
        K::ExpectedFlowMappingSeparator
        | K::ExpectedFlowSequenceSeparator
        | K::UnexpectedEofFlowMapping
        | K::UnexpectedEofFlowSequence
        | K::UnexpectedEofImplicitFlowMapping
        | K::InvalidFlowScalarIndent
        | K::FlowMappingValueAdjacentCollection => (
            "a comma or a closing bracket is missing before this",
            "separate the parts by `,` and close `[` and `{`; quote a text that begins with one",
        ),
        K::RecursionLimitExceeded => ("lists and maps are nested too deep", "a job table needs 4 levels, 64 are read"),
        K::CommentNotSeparated | K::CommentInterceptedScalar => {
            ("a comment stands where a value goes on", "put a space before `#`, or quote a text that contains it")
        }
        K::ExpectedBlockMappingKey
        | K::ExpectedBlockSequenceEntry
        | K::BlockSequenceEntryNotAllowed
        | K::InvalidIndentation
        | K::UnexpectedEofBlockMapping
        | K::UnexpectedEofBlockSequence
        | K::ExpectedDocumentStart => ("the indentation does not fit what is above", INDENT),
        K::InvalidBlockScalarHeader | K::InvalidBlockScalarIndent | K::ZeroBlockScalarIndent => {
            ("a text block is indented less than its first line, or `|` is followed by text", INDENT)
        }
        K::DirectiveDisallowed
        | K::MissingDirectiveName
        | K::InvalidDirectiveName
        | K::InvalidDirectiveTerminator
        | K::UnsupportedYamlMajorVersion
        | K::MissingDocumentEndBeforeDirective => ("a line that begins with `%` is not understood", "remove it"),
        K::BomInsideDocument => ("a byte order mark stands inside the file", "remove the invisible character"),
        _ => ("this is not YAML", "check quotes, brackets and indentation here and on the line above"),
    };
    (message.to_owned(), hint)
}
