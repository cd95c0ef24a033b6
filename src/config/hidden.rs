//! What of a table's text may be a secret, wherever a line of it is shown: whatever `notifiers` have but for a few harmless
//! words, the values of headers, and what keys such as `routingKey` and `DB_PASSWORD` have. It goes by the look of the
//! text, since that may be one that no parser takes; where in doubt, it hides more.

use super::text::SourceText;
use crate::secret::is_secret_key;
use crate::secret::joined;
use crate::secret::length_of_quoted;
use crate::secret::length_up_to;
use std::ops::Range;

/// The longest name that is taken for a key.
const NAME_MOST: usize = 64;
/// How far back in its line an open bracket is looked for: a file can be one line.
const LOOK_BACK: usize = 2000;

/// What is hidden, in bytes: in order and apart from one another.
pub(super) fn ranges(source: &SourceText<'_>) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    // How far what was found last of each sort goes: so everything is looked at only a few times.
    let (mut notifiers, mut jobs, mut secrets) = (0, 0, 0);
    for key in keys(source.text) {
        match key.name {
            "notifiers" if key.start >= notifiers => {
                let range = value_of(source, &key);
                notifiers = range.end;
                hide(source.text, range, true, &mut found);
            }
            "jobs" | "defaults" | "http" if key.start >= jobs.max(notifiers) => jobs = value_of(source, &key).end,
            // The URL of a job's request is shown, without what is secret in it.
            "url" if key.start < jobs && key.start >= notifiers => {}
            name if key.start >= secrets && (matches!(name, "url" | "headers") || is_secret_key(name)) => {
                let range = value_of(source, &key);
                secrets = range.end;
                hide(source.text, range, false, &mut found);
            }
            _ => {}
        }
    }
    joined(found)
}

/// What looks like a key with its colon.
struct Key<'a> {
    name: &'a str,
    start: usize,
    /// Behind the colon.
    end: usize,
}

fn is_name_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.')
}

fn keys(text: &str) -> impl Iterator<Item = Key<'_>> {
    text.match_indices(':').filter_map(|(colon, _)| {
        let before = text[..colon].trim_end_matches([' ', '\t']);
        let bare = before.strip_suffix(['"', '\'']).unwrap_or(before);
        let is_quoted = bare.len() < before.len();
        let end = colon + 1;
        let is_key = is_quoted || text[end..].chars().next().is_none_or(char::is_whitespace);
        let name = &bare[bare.trim_end_matches(is_name_char).len()..];
        let opening = &bare[..bare.len() - name.len()];
        // A quote that closes need not have been opened: this is no parser.
        let start = if is_quoted { opening.trim_end_matches(['"', '\'']).len() } else { opening.len() };
        (is_key && !name.is_empty()).then_some(Key { name, start, end })
    })
}

/// Where a key's value is, from the colon on.
fn value_of(source: &SourceText<'_>, key: &Key<'_>) -> Range<usize> {
    let text = source.text;
    let index = source.line_index(key.start);
    let line = source.line_range(index);
    let before = &text[line.start..key.start];
    let begins_line = before.trim_start_matches([' ', '\t', '-', '?']).is_empty();
    let mut value = text[key.end..line.end.max(key.end)].trim_start();
    while value.starts_with(['&', '!']) {
        value = value.trim_start_matches(|c: char| !c.is_whitespace()).trim_start();
    }
    let start = line.end - value.len();
    let below = || block_end(source, index, before.chars().count());
    let closed = match value.chars().next() {
        Some('{' | '[') => Some(bracket_end(&text[start..]).map_or(text.len(), |length| start + length)),
        Some('"' | '\'') => length_of_quoted(&text[start..]).map(|length| start + length),
        _ => None,
    };
    if let Some(end) = closed {
        // What stands behind a value that is closed, and is nothing that may stand there, belongs to it.
        let rest = text[end..source.line_range(source.line_index(end)).end.max(end)].trim_start();
        if rest.is_empty() || rest.starts_with([',', '}', ']', '#']) {
            return key.end..end;
        }
        return key.end..block_end(source, source.line_index(end), before.chars().count()).max(end);
    }
    if begins_line {
        return key.end..below();
    }
    let near = &before.as_bytes()[before.len().saturating_sub(LOOK_BACK)..];
    let count = |marks: &[u8]| near.iter().filter(|byte| marks.contains(byte)).count();
    if count(b"{[") > count(b"}]") {
        let end = plain_end(&text[start..]).map_or(text.len(), |length| start + length);
        let rest =
            text[end..source.line_range(source.line_index(end)).end.max(end)].trim_start_matches(['}', ']', ' ']);
        if rest.is_empty() || rest.starts_with([',', '#']) {
            return key.end..end;
        }
    }
    key.end..line.end
}

/// The end of the last line that belongs to a key of this column by its indentation.
fn block_end(source: &SourceText<'_>, index: usize, column: usize) -> usize {
    let mut end = source.line_range(index).end;
    for index in index + 1..source.lines() {
        let range = source.line_range(index);
        let line = &source.text[range.clone()];
        let content = line.trim_start();
        let indent = line.chars().count() - content.chars().count();
        let is_item = indent == column && (content == "-" || content.starts_with("- "));
        if content.is_empty() || (content.starts_with('#') && indent <= column) {
            continue;
        }
        if indent <= column && !is_item {
            break;
        }
        end = range.end;
    }
    end
}

/// How long a list or map in brackets is, at whose first bracket `text` begins.
fn bracket_end(text: &str) -> Option<usize> {
    walk(text, |depth, mark, _| (depth == 0 && matches!(mark, '}' | ']')).then_some(1))
}

/// How long a value inside of brackets is, up to the comma or bracket behind it.
fn plain_end(text: &str) -> Option<usize> {
    walk(text, |depth, mark, rest| {
        let is_comma = mark == ',' && rest[1..].chars().next().is_none_or(char::is_whitespace);
        ((depth == 0 && is_comma) || (depth < 0 && matches!(mark, '}' | ']'))).then_some(0)
    })
}

/// Goes over brackets and commas outside of quotes, to where `ends` says that it ends, and how much farther.
fn walk(text: &str, ends: impl Fn(i32, char, &str) -> Option<usize>) -> Option<usize> {
    let (mut at, mut depth, mut may_quote) = (0, 0, true);
    while let Some(c) = text[at..].chars().next() {
        match c {
            '{' | '[' => depth += 1,
            '}' | ']' => depth -= 1,
            '"' | '\'' if may_quote => {
                at += length_of_quoted(&text[at..])?;
                continue;
            }
            _ => {}
        }
        if let Some(more) = ends(depth, c, &text[at..]) {
            return Some(at + more);
        }
        may_quote = c.is_whitespace() || matches!(c, '{' | '[' | ',' | ':');
        at += c.len_utf8();
    }
    None
}

/// Finds in a value all but keys, brackets and harmless words.
fn hide(text: &str, range: Range<usize>, is_notifiers: bool, found: &mut Vec<Range<usize>>) {
    let text = &text[..range.end];
    let (mut at, mut may_be_key) = (range.start, false);
    while let Some(c) = text[at..].chars().next() {
        let rest = &text[at..];
        match c {
            '\n' | '\r' | '{' | '[' | ',' => may_be_key = true,
            '-' if may_be_key && rest[1..].starts_with(char::is_whitespace) => {}
            '}' | ']' => may_be_key = false,
            _ if c.is_whitespace() => {}
            _ => {
                let key = if may_be_key { key_at(rest) } else { None };
                may_be_key = false;
                let Some((name, length)) = key else {
                    let length = scalar(rest);
                    found.push(at..at + length);
                    at += length;
                    continue;
                };
                at += length;
                let value = text[at..].trim_start_matches([' ', '\t']);
                if let Some(length) = harmless(name, value, is_notifiers) {
                    at = text.len() - value.len() + length;
                }
                continue;
            }
        }
        at += c.len_utf8();
    }
}

/// A key's name, and its length with the colon.
fn key_at(text: &str) -> Option<(&str, usize)> {
    let bare = text.strip_prefix(['"', '\'']).unwrap_or(text);
    let name = &bare[..bare.find(|c| !is_name_char(c)).unwrap_or(bare.len())];
    let is_quoted = bare.len() < text.len();
    let behind = &bare[name.len()..];
    let behind = if is_quoted { behind.strip_prefix(&text[..1])? } else { behind };
    let behind = behind.trim_start_matches(' ').strip_prefix(':')?;
    let is_key = is_quoted || behind.chars().next().is_none_or(char::is_whitespace);
    (is_key && (1..=NAME_MOST).contains(&name.len())).then_some((name, text.len() - behind.len()))
}

/// How long the value of a key is, if it is a single word that gives nothing away: where a secret comes from, and of a
/// notifier what it is.
fn harmless(name: &str, value: &str, is_notifiers: bool) -> Option<usize> {
    let bare = value.strip_prefix(['"', '\'']).unwrap_or(value);
    let is_word_char = |c: char| is_name_char(c) || matches!(c, '/' | '+');
    let word = &bare[..bare.find(|c| !is_word_char(c)).unwrap_or(bare.len())];
    let quote = value.len() - bare.len();
    let behind = &bare[word.len()..];
    let behind = if quote > 0 { behind.strip_prefix(&value[..1])? } else { behind };
    let ends = behind.trim_start_matches([' ', '\t']);
    let is_whole = ends.is_empty() || ends.starts_with(['\n', '\r', '}', ']', ',']) || behind.starts_with(" #");
    let is_short = word.len() <= 20;
    let is_harmless = match name {
        "fromFile" => word.starts_with('/'),
        "fromEnv" => !word.contains('/'),
        "caFile" => is_notifiers && word.starts_with('/'),
        "type" | "timeout" | "start" => is_notifiers && is_short && !word.contains('/'),
        _ => false,
    };
    (is_whole && is_harmless && !word.is_empty()).then_some(word.len() + 2 * quote)
}

/// How long a text is that may be a secret: up to its quote, or to what ends it in its line.
fn scalar(text: &str) -> usize {
    if let Some(length) = text.starts_with(['"', '\'']).then(|| length_of_quoted(text)).flatten() {
        return length;
    }
    if text.starts_with(['&', '!']) {
        return text.find(char::is_whitespace).unwrap_or(text.len());
    }
    let piece = &text[..length_up_to(text, &["\n", "\r", ", ", "}", "]"])];
    piece.trim_end().trim_end_matches(',').len().max(text.chars().next().map_or(0, char::len_utf8))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::problem::Problem;
    use crate::config::text::Span;

    /// A text with `***` for what is hidden.
    fn shown(text: &str) -> String {
        let (mut shown, mut at) = (String::new(), 0);
        for range in ranges(&SourceText::new("f", text)) {
            shown = shown + &text[at..range.start] + "***";
            at = range.end;
        }
        shown + &text[at..]
    }

    #[test]
    fn of_notifiers_only_keys_and_harmless_words_are_seen() {
        for (text, expected) in [
            (
                "notifiers: {hook: {type: webhook, url: \"http://h\", headers: {X-Tok: \"s3cret\"}, timeout: 1s}}",
                "notifiers: {hook: {type: webhook, url: ***, headers: {X-Tok: ***}, timeout: 1s}}",
            ),
            (
                "notifiers:\n  hook: {type: webhok, url: http://h/?s3cret=s3cret}\njobs: []",
                "notifiers:\n  hook: {type: webhok, url: ***}\njobs: []",
            ),
            (
                "notifiers:\n  p:\n    type: pagerduty\n    routingKey: [s3cret, s3cret]\n\njobs:\n- name: a",
                "notifiers:\n  p:\n    type: pagerduty\n    routingKey: [***, ***]\n\njobs:\n- name: a",
            ),
            ("notifiers: {p: {routingKey: {s3cret}, caFile: /x}}", "notifiers: {p: {routingKey: {***}, caFile: /x}}"),
            ("notifiers: {p: {url:http://h/s3cret, type: ping}}", "notifiers: {p: {***, type: ping}}"),
            ("notifiers: {p: {url: {fromFile: /x}}}", "notifiers: {p: {url: {fromFile: /x}}}"),
            ("notifiers: {p: {url: {fromFile: s3cret}}}", "notifiers: {p: {url: {fromFile: ***}}}"),
            ("notifiers: {p: {type: s3cret s3cret}}", "notifiers: {p: {type: ***}}"),
            ("notifiers: {p: {ulr: http://h/s3cret, type: ping}}", "notifiers: {p: {ulr: ***, type: ping}}"),
            ("notifiers: 's3cret'\njobs: []", "notifiers: ***\njobs: []"),
            ("notifiers:\n- s3cret\njobs: []", "notifiers:\n- ***\njobs: []"),
            (
                "notifiers: {p: {headers: {timeout: s3cret, type: s3cret}}}",
                "notifiers: {p: {headers: {timeout: ***, type: ***}}}",
            ),
            (
                "notifiers:\n  p:\n    url: 's3cret\n    type: ping # s3cret\n",
                "notifiers:\n  p:\n    url: ***\n    type: ping ***\n",
            ),
            ("notifiers: {p: {url: http://h/}s3cret}}", "notifiers: {p: {url: ***}***}}"),
        ] {
            assert_eq!(shown(text), expected);
        }
    }

    #[test]
    fn headers_and_secret_keys_are_hidden_wherever_they_stand_and_over_lines() {
        for (text, expected) in [
            (
                "jobs:\n- http:\n    url: http://a/\n    headers:\n      X-Tok: s3cret, s3cret\n      Y: >-\n        s3cret\n        s3cret\n    method: GET",
                "jobs:\n- http:\n    url: http://a/\n    headers:\n      X-Tok: ***, ***\n      Y: ***\n        ***\n        ***\n    method: GET",
            ),
            (
                "jobs: [{http: {headers: {A: 's3cret''s', B: s3cret}, url: http://a/}, name: x}]",
                "jobs: [{http: {headers: {A: ***, B: ***}, url: http://a/}, name: x}]",
            ),
            ("jobs:\n- env:\n    DB_PASSWORD: [s3cret]\n    A: b", "jobs:\n- env:\n    DB_PASSWORD: [***]\n    A: b"),
            ("x-h: &h {url: http://h/s3cret, type: slack}", "x-h: &h {url: ***, type: slack}"),
            ("x-h:\n  headers: &h {A: s3cret}\n  a: b", "x-h:\n  headers: *** {A: ***}\n  a: b"),
            ("headers: {\nA: s3cret,\nB: 's3cret\n  s3cret'\n}\na: b", "headers: {\nA: ***,\nB: ***\n}\na: b"),
            ("headers: {A: s3cret", "headers: {A: ***"),
            ("jobs:\n- command: a # the token: s3cret\n  name: b", "jobs:\n- command: a # the token: ***\n  name: b"),
            ("{jobs: [], http: {url: http://a/}}", "{jobs: [], http: {url: http://a/}}"),
            // A quote that nothing opened.
            ("token\": s3cret", "token\": ***"),
            ("\u{e9}token': s3cret", "\u{e9}token': ***"),
        ] {
            assert_eq!(shown(text), expected);
        }
    }

    proptest::proptest! {
        #![proptest_config(proptest::prelude::ProptestConfig::with_cases(4_000))]

        /// What looks like keys, quotes and brackets in any order, cut in any place.
        #[test]
        fn no_text_breaks_it(pieces in proptest::collection::vec(0..PIECES.len(), 0..24)) {
            let text: String = pieces.iter().map(|piece| PIECES[*piece]).collect();
            let source = SourceText::new("f", &text);
            let found = ranges(&source);
            assert!(found.windows(2).all(|two| two[0].end < two[1].start), "{text:?}");
            assert!(crate::secret::without_given(&text).len() <= text.len() * 4, "{text:?}");
            for at in (0..=text.len()).filter(|at| text.is_char_boundary(*at)) {
                let problem = Problem::at("E201", &source, Span::new(at, at + 3), "m".to_owned());
                assert!(problem.to_string().contains("E201"), "{text:?}");
            }
        }
    }

    const PIECES: &[&str] = &[
        "notifiers",
        "headers",
        "url",
        "http",
        "jobs",
        "token",
        "a",
        "\u{e9}",
        "://",
        "@",
        "?",
        "=",
        "&",
        "!",
        "- ",
        "#",
        ":",
        ": ",
        "\"",
        "'",
        "`",
        "{",
        "}",
        "[",
        "]",
        ", ",
        ",",
        " ",
        "\t",
        "\n",
        "\r",
        "  ",
        "\\",
        "|",
        ">-",
        "fromEnv",
        "\u{a0}",
    ];

    #[test]
    fn no_text_takes_long() {
        // Hours, if any of them were looked through again and again.
        for piece in [
            "url: {",
            "headers: '",
            "notifiers: [",
            "x token: \"",
            "http: {url: ",
            "- headers:\n",
            ":",
            "'",
            "{a: url: b",
            "a, ",
            "a: b, ",
            "a: 'b', ",
            "a: {type: b}, ",
            "url: b, ",
            "headers: b\n",
            "- a\n",
            "\n",
            "&a ",
        ] {
            for before in ["", "notifiers: {", "notifiers:\n", "headers: [", "\"", "'\u{e9}"] {
                let text = format!("{before}{}", piece.repeat(200_000 / piece.len()));
                let source = SourceText::new("f", &text);
                let is_in = |range: &Range<usize>| text.get(range.clone()).is_some();
                assert!(ranges(&source).iter().all(is_in), "{before}{piece}");
            }
        }
    }
}
