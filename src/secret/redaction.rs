//! What must not be seen of what jobs say: `scheduler.redact`, regular expressions whose matches are replaced.
//!
//! The expressions are those of the `regex` package: without look-around and back references, so that a search takes
//! time in proportion to the text, whatever a job prints. The length of a line, the number of matches in it and the
//! size of each expression have bounds of their own.

use regex::Regex;
use regex::RegexBuilder;
use std::borrow::Cow;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

/// What stands where something was hidden.
pub const REDACTED: &str = "[redacted]";
/// How many bytes behind the place where a line is cut are searched as well: what begins before the cut is hidden if
/// it ends within them.
pub const LOOK_AHEAD: usize = 8 << 10;
/// Matches of one rule in one line. Each may cost a search through the whole line, so that without this a line could
/// take the square of its length.
const MATCHES_MOST: usize = 1000;
/// Bytes of a compiled rule, and of what a search with it may keep.
const SIZE_MOST: usize = 1 << 20;
/// Brackets within brackets.
const NEST_MOST: u32 = 50;

/// One expression.
#[derive(Debug, Clone)]
pub struct Rule(Regex);

/// Why a text is no rule, where in it (in characters, from 0), and what to write instead.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct BadRule {
    /// What was found.
    pub message: String,
    /// What to write instead.
    pub hint: &'static str,
    /// The first character of it.
    pub at: usize,
    /// How many characters; 0 behind the last one.
    pub length: usize,
}

impl Rule {
    /// Reads an expression.
    ///
    /// # Errors
    /// It is none, it is too large, or it cannot be meant: it matches the empty text, or nothing at all.
    pub fn new(text: &str) -> Result<Self, BadRule> {
        let whole = |message: &str, hint| {
            let length = text.chars().count();
            Err(BadRule { message: message.to_owned(), hint, at: 0, length })
        };
        if let Some((at, found)) = text.chars().enumerate().find(|(_, c)| c.is_control() && *c != '\t') {
            let message = format!("it has the control character {found:?}, which is hardly meant");
            let hint = "write it on one line and in single quotes: in double ones YAML reads `\\b` as a backspace";
            return Err(BadRule { message, hint, at, length: 1 });
        }
        let parsed = regex_syntax::ParserBuilder::new().nest_limit(NEST_MOST).build().parse(text);
        match parsed.map_err(|error| bad_syntax(text, &error))?.properties().minimum_len() {
            Some(0) => {
                let hint = "write what at least is there: `+` for `*`, and no `?` around all of it";
                return whole("it matches the empty text, which is everywhere", hint);
            }
            None => return whole("it can never match", "write the secret as it appears in a line"),
            Some(_) => {}
        }
        let mut builder = RegexBuilder::new(text);
        builder.size_limit(SIZE_MOST).dfa_size_limit(SIZE_MOST).nest_limit(NEST_MOST);
        match builder.build() {
            Ok(regex) => Ok(Self(regex)),
            Err(_) => whole(
                "it takes more than 1 MiB when it is compiled",
                "write smaller counts in `{…}`, `[0-9]` for `\\d` and `[0-9A-Za-z_]` for `\\w`, which know all alphabets",
            ),
        }
    }
}

fn bad_syntax(text: &str, error: &regex_syntax::Error) -> BadRule {
    use regex_syntax::ast;
    use regex_syntax::hir;
    const GENERAL: &str =
        "expressions are those of Rust's `regex` and of RE2; a `\\` before it makes a character mean itself";
    let (message, span, hint) = match error {
        regex_syntax::Error::Parse(error) => {
            let hint = match error.kind() {
                ast::ErrorKind::UnsupportedLookAround => {
                    "there is no look-around, so that a search takes bounded time: match the words around it too"
                }
                ast::ErrorKind::UnsupportedBackreference => {
                    "there are no back references, so that a search takes bounded time: write it out"
                }
                ast::ErrorKind::GroupUnclosed => "write the `)` that is missing, or `\\(` for the character",
                ast::ErrorKind::GroupUnopened => "write the `(` that is missing, or `\\)` for the character",
                ast::ErrorKind::ClassUnclosed => "write the `]` that is missing, or `\\[` for the character",
                ast::ErrorKind::RepetitionMissing => "write `.*` for anything, or a `\\` before it for the character",
                ast::ErrorKind::RepetitionCountUnclosed | ast::ErrorKind::RepetitionCountDecimalEmpty => {
                    "write a count, such as `{32}`, or `\\{` for the character"
                }
                ast::ErrorKind::NestLimitExceeded(_) => "write it with fewer brackets inside brackets",
                _ => GENERAL,
            };
            (error.kind().to_string(), *error.span(), hint)
        }
        regex_syntax::Error::Translate(error) => {
            let hint = match error.kind() {
                hir::ErrorKind::InvalidUtf8 => "lines are text: leave out `(?-u)`",
                _ => GENERAL,
            };
            (error.kind().to_string(), *error.span(), hint)
        }
        _ => return BadRule { message: error.to_string(), hint: GENERAL, at: 0, length: text.chars().count() },
    };
    let characters = |from: usize, to: usize| text.get(from..to).map_or(0, |piece| piece.chars().count());
    let (start, end) = (span.start.offset, span.end.offset);
    BadRule { message, hint, at: characters(0, start), length: characters(start, end) }
}

/// All rules of a table. Cheap to clone.
#[derive(Clone, Default)]
pub struct Redaction(Arc<[Rule]>);

impl FromIterator<Rule> for Redaction {
    fn from_iter<I: IntoIterator<Item = Rule>>(rules: I) -> Self {
        Self(rules.into_iter().collect())
    }
}

/// By the texts of the rules, in their order.
impl PartialEq for Redaction {
    fn eq(&self, other: &Self) -> bool {
        self.0.iter().map(|rule| rule.0.as_str()).eq(other.0.iter().map(|rule| rule.0.as_str()))
    }
}

impl Eq for Redaction {}

/// How many rules there are. Somebody may have written the secret itself as a rule.
impl fmt::Debug for Redaction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} rules", self.0.len())
    }
}

impl Redaction {
    /// Whether nothing is ever hidden.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// A text as it may be seen. Each of its lines is looked at by itself.
    pub fn text<'t>(&self, text: &'t str) -> Cow<'t, str> {
        if self.is_empty() {
            return Cow::Borrowed(text);
        }
        let lines: Vec<Cow<'_, str>> = text.split('\n').map(|line| self.line(line, line.len())).collect();
        if lines.iter().all(|line| matches!(line, Cow::Borrowed(_))) { text.into() } else { lines.join("\n").into() }
    }

    /// The first `shown` bytes of a text of several lines as they may be seen, as [`Self::line`] does it for one.
    pub fn beginning(&self, text: &str, shown: usize) -> String {
        let (mut seen, mut left) = (String::new(), shown);
        for line in text.split_inclusive('\n') {
            let bare = line.strip_suffix('\n').unwrap_or(line);
            seen.push_str(&self.line(bare, left));
            if left < line.len() {
                break;
            }
            seen.push_str(&line[bare.len()..]);
            left -= line.len();
        }
        seen
    }

    /// The first `shown` bytes of a line as they may be seen. What begins in them is hidden also where it ends behind
    /// them: searched is all of the line that is given.
    pub fn line<'t>(&self, line: &'t str, shown: usize) -> Cow<'t, str> {
        let shown = line.floor_char_boundary(shown);
        let hidden = self.hidden(line);
        let mut seen = String::new();
        let mut at = 0;
        for range in hidden.iter().filter(|range| range.start < shown) {
            seen.push_str(&line[at..range.start]);
            seen.push_str(REDACTED);
            at = range.end;
        }
        if at == 0 {
            return Cow::Borrowed(&line[..shown]);
        }
        seen.push_str(line.get(at..shown).unwrap_or_default());
        Cow::Owned(seen)
    }

    /// What is to be hidden, in order and apart. Each rule searches the line as it is: one that saw what another has
    /// replaced would miss what they have in common.
    fn hidden(&self, line: &str) -> Vec<Range<usize>> {
        let mut found: Vec<Range<usize>> = Vec::new();
        for Rule(regex) in &*self.0 {
            let before = found.len();
            found.extend(regex.find_iter(line).take(MATCHES_MOST).map(|found| found.range()));
            if found.len() - before == MATCHES_MOST
                && let Some(last) = found.last_mut()
            {
                last.end = line.len(); // it was not looked at
            }
        }
        found.retain(|range| !range.is_empty());
        found.sort_unstable_by_key(|range| range.start);
        let mut apart: Vec<Range<usize>> = Vec::with_capacity(found.len());
        for range in found {
            match apart.last_mut() {
                Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
                _ => apart.push(range),
            }
        }
        apart
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn redaction(rules: &[&str]) -> Redaction {
        rules.iter().map(|rule| Rule::new(rule).unwrap()).collect()
    }

    #[test]
    fn matches_are_replaced_and_everything_else_stays() {
        let rules = redaction(&[r"(?i)bearer\s+\S+", "hunter[0-9]"]);
        assert_eq!(rules.text("a Bearer abc.def, hunter2\nhunter3"), "a [redacted] [redacted]\n[redacted]");
        assert!(matches!(rules.text("nothing\nto hide"), Cow::Borrowed("nothing\nto hide")));
        assert_eq!(redaction(&[]).text("hunter2"), "hunter2");
    }

    /// One after the other, the second rule would not find its text any more, and half of it would be seen.
    #[test]
    fn rules_that_overlap_hide_all_that_either_would() {
        for rules in [["token=\\w+", "abc def"], ["abc def", "token=\\w+"]] {
            assert_eq!(redaction(&rules).text("x token=abc def y"), "x [redacted] y");
        }
    }

    #[test]
    fn what_begins_before_the_cut_is_hidden_and_nothing_behind_it_is_shown() {
        let rules = redaction(&["secret-[0-9]{4}"]);
        let line = "ab secret-1234 cd secret-5678";
        assert_eq!(rules.line(line, 8), "ab [redacted]", "cut in the middle of it");
        assert_eq!(rules.line(line, 3), "ab ");
        assert_eq!(rules.line(line, 16), "ab [redacted] c");
        assert_eq!(rules.line(line, line.len()), "ab [redacted] cd [redacted]");
        let text = "one\nab secret-1234 cd\nend\n";
        for (shown, seen) in [(0, ""), (3, "one"), (4, "one\n"), (7, "one\nab "), (8, "one\nab [redacted]")] {
            assert_eq!(rules.beginning(text, shown), seen);
        }
        assert_eq!(rules.beginning(text, 100), "one\nab [redacted] cd\nend\n");
    }

    #[test]
    fn what_was_not_looked_at_is_hidden() {
        let many = "a".repeat(2 * MATCHES_MOST) + " end";
        let seen = redaction(&["a|b"]).text(&many).into_owned();
        assert_eq!(seen, REDACTED, "touching ones are one, and the rest was not searched");
        let apart = "a.".repeat(MATCHES_MOST) + "a end";
        assert!(!redaction(&["a"]).text(&apart).contains("end"));
        let few = "a.".repeat(MATCHES_MOST - 1) + " end";
        assert!(redaction(&["a"]).text(&few).ends_with(" end"));
    }

    #[test]
    fn a_rule_that_cannot_be_meant_is_refused_with_its_place() {
        let bad = |text: &str| Rule::new(text).map(|_| ()).unwrap_err();
        for (text, place, message) in [
            ("ab(c", (2, 1), "unclosed group"),
            ("äb)c", (2, 1), "unopened group"),
            ("*x", (0, 0), "repetition operator missing expression"),
            ("x(?=y)", (1, 3), "look-around, including look-ahead and look-behind, is not supported"),
            (r"(a)\1", (3, 2), "backreferences are not supported"),
            ("x*", (0, 2), "it matches the empty text, which is everywhere"),
            (r"\b", (0, 2), "it matches the empty text, which is everywhere"),
            ("", (0, 0), "it matches the empty text, which is everywhere"),
            (r"[^\s\S]", (0, 7), "it can never match"),
            ("ab\u{8}c", (2, 1), "it has the control character '\\u{8}', which is hardly meant"),
            (r"\w{10000}", (0, 9), "it takes more than 1 MiB when it is compiled"),
        ] {
            let found = bad(text);
            assert_eq!(((found.at, found.length), found.message.as_str()), (place, message), "{text}");
            assert!(!found.hint.is_empty());
        }
        let deep = bad(&format!("{}a{}", "(".repeat(1000), ")".repeat(1000)));
        assert!(deep.message.contains("nest"), "{deep:?}");
    }

    #[test]
    fn a_rule_is_in_no_dump() {
        assert_eq!(format!("{:?}", redaction(&["hunter2"])), "1 rules");
    }
}
