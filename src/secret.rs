//! Values that must not be seen in logs, error texts or dumps.

mod redaction;

use std::fmt;
use std::ops::Range;

pub use redaction::BadRule;
pub use redaction::LOOK_AHEAD;
pub use redaction::REDACTED;
pub use redaction::Redaction;
pub use redaction::Rule;

/// A value that prints as `***`. The only way to the value is [`Secret::expose`], so that a reader can search for
/// the places that look.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret<T>(T);

impl<T> Secret<T> {
    /// Hides a value.
    pub const fn new(value: T) -> Self {
        Self(value)
    }

    /// The value itself. Never for a log line or an error text.
    pub const fn expose(&self) -> &T {
        &self.0
    }
}

impl<T> fmt::Debug for Secret<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

impl<T> fmt::Display for Secret<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

/// Parts of the names of URL parameters whose values are hidden.
const SECRET_PARAMETERS: &[&str] = &["pass", "pwd", "secret", "token", "key", "user", "auth"];

/// A store's URL as it may be shown: user and password become `***`, and so do the values of parameters that look
/// like secrets.
///
/// Everything up to the *last* `@` counts as user and password, not only what a URL parser would take for it:
/// passwords are often pasted without escaping their `@`, `/` or `?`, and half of one in a log is one too many.
/// Paths of local stores (`sqlite:`) carry no user and keep their `@`.
pub fn without_password(url: &str) -> String {
    let (scheme, rest) = match url.split_once("://") {
        Some((scheme, rest)) => (format!("{scheme}://"), rest),
        None if url.starts_with("sqlite:") || url.starts_with("memory:") => return without_secret_parameters(url),
        None => (String::new(), url),
    };
    match rest.rsplit_once('@') {
        Some((_, place)) => format!("{scheme}***@{}", without_secret_parameters(place)),
        None => format!("{scheme}{}", without_secret_parameters(rest)),
    }
}

/// A URL that should have no password any more, such as that of a store: shown as it is if it has none, else as
/// [`without_password`] has it.
pub fn if_without_password(url: &str) -> String {
    let place = url.split_once("://").map_or(url, |(_, place)| place);
    let may_have_one = place.rsplit_once('@').is_some_and(|(user, _)| user.contains(':'));
    if may_have_one { without_password(url) } else { without_secret_parameters(url) }
}

fn without_secret_parameters(rest: &str) -> String {
    let Some((place, query)) = rest.split_once('?') else { return rest.to_owned() };
    let hide = |parameter: &str| match parameter.split_once('=') {
        Some((name, _)) if SECRET_PARAMETERS.iter().any(|word| name.to_ascii_lowercase().contains(word)) => {
            format!("{name}=***")
        }
        _ => parameter.to_owned(),
    };
    let parameters: Vec<String> = query.split('&').map(hide).collect();
    format!("{place}?{}", parameters.join("&"))
}

/// Parts of the names of keys whose values are hidden where a line of a file is shown.
const SECRET_KEYS: &[&str] =
    &["pass", "pwd", "secret", "token", "auth", "cookie", "credential", "apikey", "accesskey", "routingkey"];

/// Whether what a key of this name has may be a secret: `Authorization`, `DB_PASSWORD`.
pub fn is_secret_key(name: &str) -> bool {
    let plain: String = name.chars().filter(char::is_ascii_alphanumeric).collect::<String>().to_ascii_lowercase();
    SECRET_KEYS.iter().any(|word| plain.contains(word))
}

/// What must not be shown of a line of YAML, in order and apart from one another: user, password and secret parameters of
/// URLs, and texts that stand behind a key such as `Authorization` or `DB_PASSWORD`. It goes by the look of the line, since
/// the line may be one that no parser takes.
pub fn masks(line: &str) -> Vec<Range<usize>> {
    let of_keys: Vec<Range<usize>> = joined(values_of_secret_keys(line).collect());
    let (mut found, mut next) = (Vec::new(), of_keys.iter().peekable());
    for range in of_urls(line) {
        while next.next_if(|key| key.end <= range.start).is_some() {}
        if next.peek().is_none_or(|key| range.end <= key.start) {
            found.push(range);
        }
    }
    found.extend(of_keys);
    joined(found)
}

/// In order, and those that touch one another as one.
pub fn joined(mut ranges: Vec<Range<usize>>) -> Vec<Range<usize>> {
    ranges.sort_by_key(|range| range.start);
    let mut apart: Vec<Range<usize>> = Vec::with_capacity(ranges.len());
    for range in ranges {
        match apart.last_mut() {
            Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
            _ => apart.push(range),
        }
    }
    apart
}

/// A text without user, password and secret parameters of the URLs in it.
pub fn without_user(text: &str) -> String {
    let (mut clean, mut at) = (String::new(), 0);
    for range in of_urls(text) {
        clean.push_str(&text[at..range.start]);
        clean.push_str("***");
        at = range.end;
    }
    clean + &text[at..]
}

/// What must not be shown of the URLs in a text, in order and apart from one another: users, passwords, and values of
/// parameters that look like secrets.
fn of_urls(text: &str) -> Vec<Range<usize>> {
    let mut found = users(text);
    let Some(first) = text.find("://") else { return found };
    let mut until = 0;
    found.extend(text.match_indices(['?', '&']).filter_map(|(at, _)| {
        if at < first.max(until) {
            return None;
        }
        let rest = &text[at + 1..];
        let name = &rest[..rest.find(|c: char| !is_parameter_char(c)).unwrap_or(rest.len())];
        let value = rest[name.len()..].strip_prefix('=')?;
        let is_secret = SECRET_PARAMETERS.iter().any(|word| name.to_ascii_lowercase().contains(word));
        let ends = |c: char| c.is_whitespace() || QUOTES.contains(&c) || matches!(c, '&' | '#' | '}' | ']' | ',');
        let start = text.len() - value.len();
        if !is_secret || value.is_empty() || value.starts_with(ends) {
            return None;
        }
        until = start + value.find(ends).unwrap_or(value.len());
        Some(start..until)
    }));
    joined(found)
}

fn is_parameter_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || "-_.%[]".contains(c)
}

/// Where a text has users and passwords of URLs. Behind a quote a URL goes on to the other one, elsewhere to a quote or to
/// what ends a plain scalar in YAML: a password that was pasted may have blanks in it. Of its `@`, the last one counts, as
/// in [`without_password`].
fn users(text: &str) -> Vec<Range<usize>> {
    let mut found: Vec<Range<usize>> = Vec::new();
    // How far it is known where a user ends, or that there is none: so nothing is looked through again and again.
    let mut until = 0;
    for (at, mark) in text.match_indices("://") {
        let start = at + mark.len();
        if start < until {
            continue;
        }
        let before = text[..at].trim_end_matches(|c: char| c.is_ascii_alphanumeric() || "+-.".contains(c));
        let end = match before.strip_suffix(QUOTES) {
            Some(before) => before.len() + length_of_scalar(&text[before.len()..]),
            None => start + length_up_to(&text[start..], &[", ", " #", "\"", "'", "`"]),
        };
        until = end;
        if let Some(end) = text[start..end].rfind('@') {
            found.push(start..start + end);
            until = start + end;
        }
    }
    found
}

/// What texts stand between, in YAML and in messages.
const QUOTES: [char; 3] = ['"', '\'', '`'];

fn values_of_secret_keys(line: &str) -> impl Iterator<Item = Range<usize>> {
    let mut until = 0;
    line.match_indices(':').filter_map(move |(colon, _)| {
        let is_key_char = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        let before = line[..colon].trim_end_matches(['"', '\'']);
        let name = before.rsplit(|c: char| !is_key_char(c)).next().unwrap_or_default();
        let rest = &line[colon + 1..];
        let value = rest.trim_start();
        let is_value =
            !value.is_empty() && value.len() < rest.len() && !value.starts_with(['{', '[', '|', '>', '&', '*', '#']);
        if colon < until || !is_value || !is_secret_key(name) {
            return None;
        }
        let start = line.len() - value.len();
        until = start + length_of_scalar(value);
        Some(start..until)
    })
}

/// A command line without what looks like a secret: users and passwords of URLs, and what is given to a name such as
/// `DB_PASSWORD`, `--token` or `Authorization`. It goes by the look, as [`masks`] does.
pub fn without_given(command: &str) -> String {
    let lines: Vec<String> = command.split('\n').map(line_without_given).collect();
    lines.join("\n")
}

fn line_without_given(line: &str) -> String {
    let mut hidden = masks(line);
    let is_name_char = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let mut until = 0;
    for (at, mark) in line.match_indices(['=', ' ', '\t']) {
        let before = line[..at].trim_end_matches(is_name_char);
        let (name, is_flag) = (&line[before.len()..at], line[before.len()..].starts_with('-'));
        if at < until || !(mark == "=" || is_flag) || !is_secret_key(name) {
            continue;
        }
        let value = line[at + mark.len()..].trim_start();
        if !value.is_empty() {
            let start = line.len() - value.len();
            until = start + length_of_word(value);
            hidden.push(start..until);
        }
    }
    let (mut shown, mut at) = (String::new(), 0);
    for range in joined(hidden) {
        shown.push_str(&line[at..range.start]);
        shown.push_str("***");
        at = range.end;
    }
    shown + &line[at..]
}

/// How much of a command line is one word, which may begin with a part in quotes.
fn length_of_word(text: &str) -> usize {
    let quoted = if text.starts_with(QUOTES) { length_of_scalar(text) } else { 0 };
    text[quoted..].find(char::is_whitespace).map_or(text.len(), |end| quoted + end)
}

/// How much of a text is one quoted scalar of YAML, or a plain one.
fn length_of_scalar(text: &str) -> usize {
    if text.starts_with(QUOTES) {
        return length_of_quoted(text).unwrap_or(text.len());
    }
    text[..length_up_to(text, &[", ", " #", "}", "]"])].trim_end().len()
}

/// How much of a text stands before the first of some marks, or the whole of it. In one pass: a mark that is not there at
/// all must not have the rest of a long line looked through for each of its values.
pub fn length_up_to(text: &str, marks: &[&str]) -> usize {
    let is_mark = |at: usize| marks.iter().any(|mark| text.as_bytes()[at..].starts_with(mark.as_bytes()));
    (0..text.len()).find(|at| is_mark(*at)).unwrap_or(text.len())
}

/// How much of a text, which begins with a quote, goes up to the one that closes it as YAML has it; `None`: it is never
/// closed.
pub fn length_of_quoted(text: &str) -> Option<usize> {
    let quote = text.chars().next()?;
    let mut escaped = false;
    let mut characters = text.char_indices().skip(1).peekable();
    while let Some((at, c)) = characters.next() {
        if escaped {
            escaped = false;
        } else if quote == '"' && c == '\\' {
            escaped = true;
        } else if c == quote {
            if quote == '\'' && characters.next_if(|(_, next)| *next == quote).is_some() {
                continue;
            }
            return Some(at + 1);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_prints_as_stars() {
        let secret = Secret::new("hunter2");
        assert_eq!(format!("{secret} {secret:?} {:?}", Some(&secret)), "*** *** Some(***)");
        assert_eq!(*secret.expose(), "hunter2");
    }

    #[test]
    fn what_a_command_line_gives_to_a_secret_name_is_hidden() {
        for (line, shown) in [
            ("echo hello --name=x", "echo hello --name=x"),
            ("PGPASSWORD=s3cret pg_dump -h db", "PGPASSWORD=*** pg_dump -h db"),
            ("TOKEN='s3cret s3cret' x", "TOKEN=*** x"),
            ("sh -c 'a=1 TOKEN=s3cret x'", "sh -c 'a=1 TOKEN=*** x'"),
            ("x --password s3cret --user u", "x --password *** --user u"),
            ("x --api-key=\"s3cret s3cret\"s3cret y", "x --api-key=*** y"),
            ("curl http://u:s3cret@h/p?a=b", "curl http://***@h/p?a=b"),
            ("curl -H 'Authorization: Bearer s3cret s3cret'", "curl -H 'Authorization: ***"),
            ("a\nSECRET=s3cret b", "a\nSECRET=*** b"),
            ("--token", "--token"),
            ("x --token=", "x --token="),
            ("the token of x", "the token of x"),
            ("echo ü SECRET=s3cret\u{e9}'", "echo ü SECRET=***"),
        ] {
            assert_eq!(without_given(line), shown, "{line}");
        }
    }

    #[test]
    fn no_line_takes_long() {
        // Hours, if any of them were looked through again and again.
        for piece in [
            "://",
            "://a, ",
            "://a@",
            "'://",
            "`",
            "?",
            "://?a",
            "?key=",
            "?key=x&",
            "token: a, ",
            "token: '",
            "a: ",
            "--token ",
            "--token=",
            " ",
            "--token  a ",
            "TOKEN=://?key=a: ",
        ] {
            let line = format!("://{}", piece.repeat(200_000 / piece.len()));
            let ranges = masks(&line);
            assert!(ranges.windows(2).all(|two| two[0].end < two[1].start), "{piece}");
            assert!(without_user(&line).len() <= line.len() * 4, "{piece}");
            assert!(without_given(&line).len() <= line.len() * 4, "{piece}");
        }
    }

    #[test]
    fn a_user_who_has_no_password_is_shown_where_there_should_be_none() {
        for (url, shown) in [
            ("postgres://onecron@db/x?sslmode=require", "postgres://onecron@db/x?sslmode=require"),
            ("redis://***@cache:6379", "redis://***@cache:6379"),
            ("sqlite:/var/lib/a@b:c.db", "sqlite:/var/lib/a@b:c.db"),
            ("redis://app:hunter2@cache", "redis://***@cache"),
            ("app:hunter2@cache", "***@cache"),
            ("redis://a@b:hunter2@cache?token=hunter2", "redis://***@cache?token=***"),
        ] {
            assert_eq!(if_without_password(url), shown);
        }
    }

    #[test]
    fn user_and_password_of_a_url_are_hidden() {
        for (url, shown) in [
            ("redis://cache:6379/0", "redis://cache:6379/0"),
            ("redis://:hunter2@cache:6379/0", "redis://***@cache:6379/0"),
            ("rediss://app:hunter2@cache", "rediss://***@cache"),
            ("redis+sentinel://:hunter2@h1,h2/main", "redis+sentinel://***@h1,h2/main"),
            ("redis://cache/0?password=hunter2&db=1", "redis://cache/0?password=***&db=1"),
            ("app:hunter2@cache:6379", "***@cache:6379"),
            ("sqlite:/data/me@home.db", "sqlite:/data/me@home.db"),
            ("memory:", "memory:"),
        ] {
            assert_eq!(without_password(url), shown);
        }
    }

    #[test]
    fn a_password_that_was_pasted_without_escaping_is_hidden_whole() {
        for password in ["p@ss", "a/b", "a?b", "a#b", "@", "x@y/z?w@"] {
            let shown = without_password(&format!("redis://app:{password}@cache:6379/0"));
            assert_eq!(shown, "redis://***@cache:6379/0", "{password}");
        }
    }
}
