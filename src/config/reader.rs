//! From the tree to typed values. Each reader reports what it cannot take and goes on, so that all findings of a file
//! come out at once.

use super::doubts;
use super::host::Need;
use super::host::Site;
use super::problem::Findings;
use super::problem::Problem;
use super::problem::Shown;
use super::text;
use super::text::SourceText;
use super::text::Span;
use super::text::quoted;
use super::units;
use super::units::UnitError;
use super::words;
use super::words::Level;
use super::yaml::Entry;
use super::yaml::Node;
use super::yaml::Scalar;
use super::yaml::Style;
use super::yaml::Value;
use crate::secret::without_password;
use std::collections::BTreeSet;
use std::collections::HashMap;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;

/// What a file says about one field.
#[derive(Debug, Clone)]
pub(super) enum Field<T> {
    /// Nothing, or something that was reported.
    Absent,
    /// `null`: what is built in, whatever `defaults` say.
    Reset,
    /// A value, and where.
    Written(T, Span),
}

impl<T: Clone> Field<T> {
    /// This one, or what stands behind it.
    pub fn or(&self, behind: &Self) -> Self {
        if matches!(self, Self::Absent) { behind.clone() } else { self.clone() }
    }

    /// The value, if one is written.
    pub fn value(&self) -> Option<&T> {
        match self {
            Self::Written(value, _) => Some(value),
            _ => None,
        }
    }

    /// The value, or what is built in.
    pub fn value_or(&self, built_in: T) -> T {
        self.value().cloned().unwrap_or(built_in)
    }

    /// Where it is written.
    pub fn span(&self) -> Option<Span> {
        match self {
            Self::Written(_, span) => Some(*span),
            _ => None,
        }
    }
}

/// The entries of a map whose keys are fixed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Fields<'n> {
    entries: &'n [Entry],
    /// What map it is.
    level: Level,
    /// `retry.` for what is inside `retry`.
    prefix: &'static str,
    /// Where the map is.
    pub span: Span,
}

impl<'n> Fields<'n> {
    /// The entries of `node`, unchecked, if it is a map.
    pub fn open(node: &'n Node, level: Level) -> Option<Self> {
        let Value::Map(entries) = &node.value else { return None };
        let prefix = match level {
            Level::Dst => "dst.",
            Level::Retry => "retry.",
            Level::Output => "output.",
            Level::History => "history.",
            Level::Http => "http.",
            Level::Notify => "notify.",
            _ => "",
        };
        Some(Self { entries, level, prefix, span: node.span })
    }

    /// The entry of a key, `null` included.
    pub fn get(&self, key: &str) -> Option<&'n Entry> {
        self.entries.iter().find(|entry| &*entry.key == key)
    }
}

/// A value and what it is called.
#[derive(Debug)]
pub(super) struct Item<'n> {
    /// `retry.limit`
    pub name: String,
    /// Its value.
    pub node: &'n Node,
}

/// Reads one file.
#[derive(Debug)]
pub(super) struct Reader<'a> {
    /// The file.
    pub source: &'a SourceText<'a>,
    /// Findings so far.
    pub findings: Findings,
    /// What is being read: `jobs[3] "report"`.
    pub path: String,
    /// What is needed of the machine.
    pub sites: HashMap<Need, Site>,
    /// The names in `notifiers` of all files.
    pub notifiers: Rc<BTreeSet<String>>,
}

impl<'a> Reader<'a> {
    /// A reader without findings.
    pub fn new(source: &'a SourceText<'a>) -> Self {
        let (findings, path) = (Findings::default(), String::new());
        Self { source, findings, path, sites: HashMap::new(), notifiers: Rc::default() }
    }

    /// Notes that something is needed of the machine.
    pub fn need(&mut self, span: Span, need: Need) {
        match self.sites.get_mut(&need) {
            Some(known) => known.count += 1,
            None => drop(self.sites.insert(need, Site { span, path: self.path.clone(), count: 1 })),
        }
    }

    /// Reports a finding, without a hint if it is empty.
    pub fn find(&mut self, code: &'static str, span: Span, message: String, hint: &str) {
        let hint = doubts::template(&message).filter(|_| code.starts_with('E')).unwrap_or(hint);
        let Self { source, findings, path, .. } = self;
        findings.add(code, || Problem {
            path: path.clone(),
            hint: Some(hint.to_owned()).filter(|hint| !hint.is_empty()),
            ..Problem::at(code, source, span, message)
        });
    }

    /// The same about a text that may be a secret as a whole, such as a header: it is not shown.
    pub fn find_hidden(&mut self, code: &'static str, span: Span, message: String, hint: &str) {
        self.find_shown(code, span, (message, hint), &|_| Some("***".to_owned()));
    }

    /// The same about a URL, which is shown without user and password.
    pub fn find_url(&mut self, code: &'static str, span: Span, message: String, hint: &str) {
        self.find_shown(code, span, (message, hint), &|text| Some(without_password(text)));
    }

    fn find_shown(&mut self, code: &'static str, span: Span, (message, hint): (String, &str), shown: Shown<'_>) {
        let Self { source, findings, path, .. } = self;
        findings.add(code, || Problem {
            path: path.clone(),
            hint: Some(hint.to_owned()),
            ..Problem::at_hidden(code, source, span, (message, shown))
        });
    }

    fn wrong_type(&mut self, item: &Item<'_>, wanted: &str, hint: &str) {
        let message = format!("`{}` is {}, and {wanted} is expected", item.name, kind(item.node));
        self.find("E203", item.node.span, message, hint);
    }

    /// A map whose keys are fixed; unknown ones are reported.
    pub fn fields<'n>(&mut self, item: &Item<'n>, level: Level) -> Option<Fields<'n>> {
        let Some(fields) = Fields::open(item.node, level) else {
            let keys: Vec<&str> = level.keys().take(3).collect();
            self.wrong_type(item, "a map", &format!("its keys are {}", listed(&keys)));
            return None;
        };
        let is_free = |key: &str| level == Level::Top && key.starts_with("x-");
        for entry in fields.entries.iter().filter(|entry| !level.has(&entry.key) && !is_free(&entry.key)) {
            // To look for what was meant takes a while, and a file can have a key for every few characters.
            let meant = || written_hint(&entry.key).or_else(|| words::hint(level, &entry.key));
            let hint = if self.findings.is_full() { Some(String::new()) } else { meant() };
            let hint = hint.unwrap_or_else(|| {
                let keys: Vec<&str> = level.keys().collect();
                format!("the keys are {}", listed(&keys))
            });
            self.find("E202", entry.key_span, format!("the key {} is unknown", quoted(&entry.key)), &hint);
        }
        Some(fields)
    }

    /// Whether a key is most likely there, mistyped: that is reported, and that the key is missing would only hide it.
    pub fn is_meant(&self, fields: &Fields<'_>, key: &str) -> bool {
        let quoted = format!("`{key}`");
        let unknown = fields.entries.iter().filter(|entry| !fields.level.has(&entry.key));
        let mut hints = unknown.filter_map(|entry| words::hint(fields.level, &entry.key));
        !self.findings.is_full() && hints.any(|hint| hint.contains(&quoted))
    }

    /// One field, read by `read` if it has a value.
    pub fn field<'n, T>(
        &mut self,
        fields: &Fields<'n>,
        key: &str,
        read: impl FnOnce(&mut Self, &Item<'n>) -> Option<T>,
    ) -> Field<T> {
        let Some(entry) = fields.get(key) else { return Field::Absent };
        if is_null(&entry.node) {
            return Field::Reset;
        }
        let item = Item { name: format!("{}{key}", fields.prefix), node: &entry.node };
        read(self, &item).map_or(Field::Absent, |value| Field::Written(value, entry.node.span))
    }

    /// One field that must be there.
    pub fn required<'n>(&mut self, fields: &Fields<'n>, key: &str, hint: &str) -> Option<Item<'n>> {
        match fields.get(key) {
            None if self.is_meant(fields, key) => {}
            None => self.find("E204", fields.span, format!("`{key}` is required"), hint),
            Some(entry) if is_null(&entry.node) => {
                self.find("E204", entry.key_span, format!("`{key}` has no value"), hint);
            }
            Some(entry) => return Some(Item { name: key.to_owned(), node: &entry.node }),
        }
        None
    }

    /// A text exactly as it is written: `no` stays `no`, `0o17` stays `0o17`.
    pub fn scalar<'n>(&mut self, item: &Item<'n>, wanted: &str, hint: &str) -> Option<&'n Scalar> {
        match &item.node.value {
            Value::Scalar(scalar) if !is_null(item.node) => Some(scalar),
            _ => {
                self.wrong_type(item, wanted, hint);
                None
            }
        }
    }

    /// A text for a program or the system: without NUL, which would end it there.
    pub fn text(&mut self, item: &Item<'_>) -> Option<String> {
        let hint = if is_null(item.node) { "quote it: \"null\"; an empty text is \"\"" } else { "write a text" };
        let scalar = self.scalar(item, "a text", hint)?;
        if scalar.text.contains('\0') {
            let message = format!("`{}` contains the character NUL, which no program can be given", item.name);
            self.find("E203", item.node.span, message, "remove `\\0` from the text");
            return None;
        }
        Some(scalar.text.as_ref().to_owned())
    }

    /// A list of texts with at least one.
    pub fn texts(&mut self, item: &Item<'_>) -> Option<Vec<String>> {
        const HINT: &str = "write a list: [\"/bin/bash\", \"-c\"]";
        let Value::List(nodes) = &item.node.value else {
            self.wrong_type(item, "a list of texts", HINT);
            return None;
        };
        if nodes.is_empty() {
            self.find(
                "E203",
                item.node.span,
                format!("`{}` is an empty list", item.name),
                "its first part is a program",
            );
            return None;
        }
        let mut all = Vec::with_capacity(nodes.len());
        for (index, node) in nodes.iter().enumerate() {
            all.push(self.text(&Item { name: format!("{}[{index}]", item.name), node }));
        }
        let texts: Option<Vec<String>> = all.into_iter().collect();
        if texts.as_ref().is_some_and(|texts| texts.first().is_some_and(String::is_empty)) {
            let message = format!("`{}` begins with an empty text, and its first part is a program", item.name);
            self.find("E203", item.node.span, message, HINT);
            return None;
        }
        texts
    }

    /// An absolute path.
    pub fn absolute_path(&mut self, item: &Item<'_>) -> Option<PathBuf> {
        let text = self.text(item)?;
        if text.starts_with('/') {
            return Some(PathBuf::from(text));
        }
        let message = format!("`{}` is {}, and an absolute path is expected", item.name, quoted(&text));
        self.find("E203", item.node.span, message, "begin it with `/`; `~` and variables are not expanded here");
        None
    }

    /// A whole number.
    pub fn number(&mut self, item: &Item<'_>, range: RangeInclusive<u32>) -> Option<u32> {
        let (least, most) = (*range.start(), *range.end());
        let wanted = format!("a whole number from {least} to {most}");
        let scalar = self.scalar(item, &wanted, "")?;
        let is_number = !scalar.text.is_empty() && scalar.text.chars().all(|c| c.is_ascii_digit());
        if scalar.style != Style::Plain || !is_number {
            let hint = if is_number { "write it without quotes" } else { "" };
            let message = format!("`{}` is {}, and {wanted} is expected", item.name, quoted(&scalar.text));
            self.find("E203", item.node.span, message, hint);
            return None;
        }
        let number = scalar.text.parse::<u32>().ok().filter(|number| range.contains(number));
        if number.is_none() {
            let message = format!("`{}` is {}, and the range is {least} to {most}", item.name, quoted(&scalar.text));
            self.find("E305", item.node.span, message, "");
        }
        number
    }

    /// `true` or `false`, and no other word for them.
    pub fn boolean(&mut self, item: &Item<'_>) -> Option<bool> {
        let scalar = self.scalar(item, "true or false", "")?;
        match (scalar.style, &*scalar.text) {
            (Style::Plain, "true") => return Some(true),
            (Style::Plain, "false") => return Some(false),
            _ => {}
        }
        let hint = match scalar.text.to_ascii_lowercase().as_str() {
            "true" | "yes" | "on" | "y" | "1" => "write `true`, without quotes",
            "false" | "no" | "off" | "n" | "0" => "write `false`, without quotes",
            _ => "",
        };
        let message = format!("`{}` is {}, and true or false is expected", item.name, quoted(&scalar.text));
        self.find("E203", item.node.span, message, hint);
        None
    }

    /// A duration of at least the first and at most the second.
    pub fn duration(&mut self, item: &Item<'_>, range: RangeInclusive<Duration>) -> Option<Duration> {
        let scalar = self.scalar(item, "a duration", "write it as `30s`, `15m`, `1h30m`")?;
        let duration = units::duration(&scalar.text).map_err(|error| self.bad_unit(item, scalar, error)).ok()?;
        self.in_range(item, duration, (range, units::duration_text))
    }

    /// A size in bytes of at least the first and at most the second.
    pub fn size(&mut self, item: &Item<'_>, range: RangeInclusive<u64>) -> Option<usize> {
        let scalar = self.scalar(item, "a size", "write it as `8KiB`")?;
        let size = units::size(&scalar.text).map_err(|error| self.bad_unit(item, scalar, error)).ok()?;
        self.in_range(item, size, (range, units::size_text)).and_then(|size| usize::try_from(size).ok())
    }

    fn bad_unit(&mut self, item: &Item<'_>, scalar: &Scalar, error: UnitError) {
        let code = if error.is_bare_number { "E203" } else { "E305" };
        let message = format!("`{}` is {}: {}", item.name, quoted(&scalar.text), error.message);
        self.find(code, item.node.span, message, &error.hint);
    }

    fn in_range<T: PartialOrd + Copy>(
        &mut self,
        item: &Item<'_>,
        value: T,
        (range, text): (RangeInclusive<T>, fn(T) -> String),
    ) -> Option<T> {
        if range.contains(&value) {
            return Some(value);
        }
        let (least, most) = (text(*range.start()), text(*range.end()));
        let message = format!("`{}` is {}, and the range is {least} to {most}", item.name, text(value));
        self.find("E305", item.node.span, message, "");
        None
    }

    /// One of a few words, in any case.
    pub fn choice<T: Copy>(&mut self, item: &Item<'_>, choices: &[(&'static str, T)]) -> Option<T> {
        let names: Vec<&str> = choices.iter().map(|(name, _)| *name).collect();
        let wanted = match names.as_slice() {
            [first @ .., last] if !first.is_empty() => format!("{} or {last}", first.join(", ")),
            _ => names.concat(),
        };
        let scalar = self.scalar(item, &wanted, "")?;
        let found = choices.iter().find(|(name, _)| name.eq_ignore_ascii_case(&scalar.text));
        if found.is_none() {
            let nearest = || words::nearest(&scalar.text, names.iter().copied());
            let hint = words::meant(&item.name, &scalar.text)
                .map(str::to_owned)
                .or_else(|| nearest().map(|near| format!("did you mean `{near}`?")));
            let message = format!("`{}` is {}, and {wanted} is expected", item.name, quoted(&scalar.text));
            self.find("E203", item.node.span, message, hint.as_deref().unwrap_or_default());
        }
        found.map(|(_, value)| *value)
    }

    /// The place of a piece of a scalar: characters `at` to `at + length` of its text. The whole scalar if the text
    /// does not stand there as it is (folded over lines, a block).
    pub fn piece(&self, scalar: &Scalar, at: usize, length: usize) -> Span {
        let whole = scalar.written;
        let written = self.source.text.get(whole.start..whole.end).unwrap_or("");
        if written.contains(['\n', '\r']) {
            return whole;
        }
        let marks = match scalar.style {
            Style::Plain => written.char_indices().map(|(at, _)| at).collect(),
            Style::Single => single_quoted(written),
            Style::Double if written.starts_with('"') => double_quoted(written),
            Style::Double | Style::Block => return whole,
        };
        let close = written.len() - usize::from(scalar.style != Style::Plain);
        let offset = |index: usize| whole.start + marks.get(index).copied().unwrap_or(close);
        Span::new(offset(at), offset(at + length.max(1)))
    }
}

/// What is wrong with how a key is written, whatever it is.
fn written_hint(key: &str) -> Option<String> {
    if let Some(name) = key.strip_prefix('-').filter(|name| name.starts_with(|c: char| c.is_ascii_alphabetic())) {
        return Some(format!("an item of a list has a blank behind its dash: {}", quoted(&format!("- {name}:"))));
    }
    let odd = key.chars().find(|c| text::is_odd_blank(*c))?;
    Some(format!("replace the invisible U+{:04X} in it by an ordinary blank", u32::from(odd)))
}

/// Where each character of the text in `'…'` begins.
fn single_quoted(written: &str) -> Vec<usize> {
    let mut marks = Vec::new();
    let mut chars = written.char_indices().skip(1);
    while let Some((at, found)) = chars.next() {
        marks.push(at);
        if found == '\'' {
            chars.next();
        }
    }
    // The last one was the closing quote.
    marks.pop();
    marks
}

/// Where each character of the text in `"…"` begins.
fn double_quoted(written: &str) -> Vec<usize> {
    let mut marks = Vec::new();
    let mut chars = written.char_indices().skip(1);
    while let Some((at, found)) = chars.next() {
        marks.push(at);
        if found != '\\' {
            continue;
        }
        let digits = match chars.next() {
            Some((_, 'x')) => 2,
            Some((_, 'u')) => 4,
            Some((_, 'U')) => 8,
            _ => 0,
        };
        for _ in 0..digits {
            chars.next();
        }
    }
    marks.pop();
    marks
}

/// What a value is, for people.
pub(super) fn kind(node: &Node) -> String {
    match &node.value {
        Value::List(_) => "a list".to_owned(),
        Value::Map(_) => "a map".to_owned(),
        Value::Scalar(_) if is_null(node) => "an empty value".to_owned(),
        Value::Scalar(scalar) => quoted(&scalar.text),
    }
}

/// Whether YAML takes it for null.
pub(super) fn is_null(node: &Node) -> bool {
    matches!(&node.value, Value::Scalar(scalar) if scalar.style == Style::Plain
        && ["", "~", "null", "Null", "NULL"].contains(&&*scalar.text))
}

/// Whether some reader of YAML takes a text without quotes for a number or a boolean.
pub(super) fn is_ambiguous(scalar: &Scalar) -> bool {
    if scalar.style != Style::Plain {
        return false;
    }
    let text = scalar.text.to_ascii_lowercase();
    let is_word = ["true", "false", "yes", "no", "on", "off", "y", "n", ".nan"].contains(&text.as_str());
    let digits = text.trim_start_matches(['+', '-']);
    let is_based = ["0x", "0o", "0b"].iter().any(|base| digits.starts_with(base));
    let is_clock = digits.starts_with(|c: char| c.is_ascii_digit())
        && digits.chars().all(|c| c.is_ascii_digit() || "_:.".contains(c));
    is_word || is_based || is_clock || digits.parse::<f64>().is_ok() || digits == ".inf"
}

/// `a`, `b` and `c`
pub(super) fn listed(words: &[&str]) -> String {
    let quoted: Vec<String> = words.iter().map(|word| format!("`{word}`")).collect();
    match quoted.split_last() {
        Some((last, rest)) if !rest.is_empty() => format!("{} and {last}", rest.join(", ")),
        _ => quoted.concat(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::yaml;

    /// The columns that characters `at` and `at + 1` of the value of `a:` get.
    fn columns(text: &str, at: usize) -> (usize, usize) {
        let source = SourceText::new("f", text);
        let root = yaml::parse(&source).root.unwrap();
        let Value::Map(entries) = &root.value else { panic!("not a map") };
        let Value::Scalar(scalar) = &entries[0].node.value else { panic!("not a scalar") };
        let span = Reader::new(&source).piece(scalar, at, 1);
        (source.position(span.start).column, source.position(span.end).column)
    }

    #[test]
    fn a_character_of_a_value_is_found_in_the_file_however_it_is_quoted() {
        assert_eq!(columns("a: xyz", 2), (6, 7));
        assert_eq!(columns("a: 'x''z'", 1), (6, 8));
        assert_eq!(columns("a: 'x''z'", 2), (8, 9));
        assert_eq!(columns(r#"a: "\x41\tz""#, 1), (9, 11));
        assert_eq!(columns(r#"a: "\x41\tz""#, 2), (11, 12));
        assert_eq!(columns("a: \"äöz\"", 2), (7, 8));
        assert_eq!(columns("a: \"xy\"", 2), (7, 7), "past the end: the closing quote");
        assert_eq!(columns("a: >-\n  x\n  y", 2), (3, 4), "a block is shown from its first line");
    }
}
