//! From YAML to a tree that remembers where each value is written and how.
//!
//! A derived deserialiser would stop at the first finding and would not tell `no` from `"no"`. So the tree is built
//! from the parser's events, and the readers above it report all findings at once. A file cannot make it large:
//! aliases share what they name, and how much they would expand to is bounded.

use super::doubts;
use super::problem::Findings;
use super::problem::Problem;
use super::syntax;
use super::text::SourceText;
use super::text::Span;
use super::text::quoted;
use serde_yaml::granit_parser::Event;
use serde_yaml::granit_parser::Options;
use serde_yaml::granit_parser::Parser;
use serde_yaml::granit_parser::ScalarStyle;
use serde_yaml::granit_parser::ScanError;
use serde_yaml::granit_parser::Tag;
use std::borrow::Cow;
use std::collections::HashMap;
use std::collections::HashSet;
use std::collections::hash_map::Entry as MapEntry;
use std::rc::Rc;

/// How deep lists and maps may be nested; a table needs 4 levels.
const DEPTH_MOST: usize = 64;
/// How many values all aliases of a file may stand for together.
const ALIASED_MOST: usize = 200_000;
/// Maps of more keys than that get an index of them.
const KEYS_COMPARED: usize = 24;
/// How many unquoted values are found in one pass over a file; each costs a parse.
const REPAIRS_MOST: usize = 20;

/// One value of a file.
#[derive(Debug, Clone)]
pub(super) struct Node {
    /// Where it is written, or where the alias for it is.
    pub span: Span,
    /// What it is.
    pub value: Value,
    /// How many values it consists of.
    weight: usize,
}

/// The three kinds of values.
#[derive(Debug, Clone)]
pub(super) enum Value {
    /// A text, or what YAML takes for a number, a boolean or null.
    Scalar(Scalar),
    /// A list.
    List(Rc<Vec<Node>>),
    /// A map; its keys differ from one another.
    Map(Rc<Vec<Entry>>),
}

/// A value without parts.
#[derive(Debug, Clone)]
pub(super) struct Scalar {
    /// Its text after unescaping.
    pub text: Rc<str>,
    /// How it is written.
    pub style: Style,
    /// Where the text is written, also when an alias led here.
    pub written: Span,
}

/// How a scalar is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Style {
    /// Without quotes.
    Plain,
    /// `'…'`
    Single,
    /// `"…"`
    Double,
    /// `|` or `>`
    Block,
}

/// A key and its value.
#[derive(Debug, Clone)]
pub(super) struct Entry {
    /// The key's text.
    pub key: Rc<str>,
    /// Where the key is.
    pub key_span: Span,
    /// The value.
    pub node: Node,
}

/// A file's tree, as far as there is one, and what was wrong on the way.
#[derive(Debug, Default)]
pub(super) struct Parsed {
    /// The tree; `None` if the syntax is broken or the file has no content.
    pub root: Option<Node>,
    /// Findings.
    pub findings: Findings,
    /// Lines (from 1) whose value could not be read: further findings there would be about our own stand-in.
    pub unread_lines: HashSet<usize>,
}

/// Reads one document.
pub(super) fn parse(source: &SourceText<'_>) -> Parsed {
    let mut text = Cow::Borrowed(source.text);
    let mut repairs = Vec::new();
    loop {
        let mut builder = Builder::new(source);
        let outcome = builder.run(&text);
        let Err(stop) = outcome else { return builder.finish(repairs) };
        let repair = match &stop {
            Stop::Syntax(error) if repairs.len() < REPAIRS_MOST => syntax::unquoted(source, &text, error),
            _ => None,
        };
        if let Some((at, problem)) = repair {
            // The stand-in has the same length, so all positions stay true.
            text.to_mut().replace_range(at..=at, "x");
            repairs.push(problem);
            continue;
        }
        let problem = match stop {
            Stop::Syntax(error) => syntax::problem(source, &error),
            Stop::Refused(problem) => *problem,
        };
        builder.findings.add(problem.code, || problem);
        builder.root = None;
        return builder.finish(repairs);
    }
}

/// Why building ended early.
enum Stop {
    Syntax(ScanError),
    Refused(Box<Problem>),
}

/// A list or map that is still open.
struct Open {
    span: Span,
    anchor: usize,
    parts: Parts,
}

enum Parts {
    List(Vec<Node>),
    /// Boxed: it is set aside for each value that comes into it.
    Map(Box<OpenMap>),
}

/// A map that is still open.
#[derive(Default)]
struct OpenMap {
    /// What is written in it, equal keys included.
    own: Vec<Entry>,
    /// What `<<` adds where the map has no such key itself.
    merged: Vec<Entry>,
    /// The key that waits for its value.
    key: Option<Key>,
}

/// A key that waits for its value.
struct Key {
    /// `None`: it was reported, and its entry is left out.
    text: Option<Rc<str>>,
    span: Span,
    is_plain: bool,
}

struct Builder<'s> {
    source: &'s SourceText<'s>,
    open: Vec<Open>,
    anchors: HashMap<usize, Node>,
    aliased: usize,
    documents: usize,
    root: Option<Node>,
    findings: Findings,
    unread_lines: HashSet<usize>,
}

impl<'s> Builder<'s> {
    fn new(source: &'s SourceText<'s>) -> Self {
        Self {
            source,
            open: Vec::new(),
            anchors: HashMap::new(),
            aliased: 0,
            documents: 0,
            root: None,
            findings: Findings::default(),
            unread_lines: HashSet::new(),
        }
    }

    fn finish(self, repairs: Vec<Problem>) -> Parsed {
        let mut parsed = Parsed { root: self.root, findings: self.findings, unread_lines: self.unread_lines };
        for problem in repairs {
            parsed.unread_lines.insert(problem.line);
            parsed.findings.add(problem.code, || problem);
        }
        parsed
    }

    fn run(&mut self, text: &str) -> Result<(), Stop> {
        let mut options = Options::default();
        options.emit_unresolved_aliases = true;
        options.flow_nesting_limit = DEPTH_MOST;
        options.block_nesting_limit = DEPTH_MOST;
        for item in Parser::new_from_str_with_options(text, options) {
            let (event, span) = item.map_err(Stop::Syntax)?;
            let range = span.byte_range().unwrap_or(0..0);
            let tag_start = span.tag_start().and_then(|mark| mark.byte_offset());
            self.take(event, Span::new(range.start, range.end), tag_start)?;
        }
        Ok(())
    }

    fn take(&mut self, event: Event<'_>, span: Span, tag_start: Option<usize>) -> Result<(), Stop> {
        match event {
            Event::DocumentStart(..) => self.start_document(span)?,
            Event::Scalar(text, style, anchor, tag) => {
                let is_text = self.check_tag(tag.as_deref(), tag_start, span);
                let style = match style {
                    // `!!str` says what quotes say.
                    ScalarStyle::Plain if is_text => Style::Double,
                    ScalarStyle::Plain => Style::Plain,
                    ScalarStyle::SingleQuoted => Style::Single,
                    ScalarStyle::DoubleQuoted => Style::Double,
                    ScalarStyle::Literal | ScalarStyle::Folded => Style::Block,
                };
                let scalar = Scalar { text: text.as_ref().into(), style, written: span };
                self.add(Node { span, value: Value::Scalar(scalar), weight: 1 }, anchor);
            }
            Event::SequenceStart(_, anchor, tag) => {
                self.check_tag(tag.as_deref(), tag_start, span);
                self.open.push(Open { span, anchor, parts: Parts::List(Vec::new()) });
            }
            Event::MappingStart(_, anchor, tag) => {
                self.check_tag(tag.as_deref(), tag_start, span);
                self.open.push(Open { span, anchor, parts: Parts::Map(Box::default()) });
            }
            Event::SequenceEnd | Event::MappingEnd => self.close(),
            Event::Alias(anchor) => self.alias(anchor, span)?,
            Event::UnresolvedAlias(name) => {
                self.findings.add("E101", || syntax::unknown_anchor(self.source, &name, span));
                self.unread_lines.insert(self.source.line_index(span.start) + 1);
                let scalar = Scalar { text: "x".into(), style: Style::Double, written: span };
                self.add(Node { span, value: Value::Scalar(scalar), weight: 1 }, 0);
            }
            _ => {}
        }
        Ok(())
    }

    fn start_document(&mut self, span: Span) -> Result<(), Stop> {
        self.documents += 1;
        if self.documents == 1 {
            return Ok(());
        }
        let message = "a second document begins here, and one file holds one table".to_owned();
        let hint = "remove the line `---` above it, or put the second table into a file of its own";
        Err(self.refuse("E102", span, message, hint))
    }

    /// Whether the tag makes a text of a scalar. Other tags mean nothing here.
    fn check_tag(&mut self, tag: Option<&Tag>, tag_start: Option<usize>, span: Span) -> bool {
        let Some(tag) = tag else { return false };
        if tag.is_yaml_core_schema_tag("str") {
            return true;
        }
        let written = format!("{}{}", tag.original_handle(), tag.suffix());
        let start = tag_start.unwrap_or(span.start);
        let span = Span::new(start, start + written.len());
        let shown = if self.source.is_hidden(span) { "`!…`".to_owned() } else { quoted(&written) };
        let message = format!("the tag {shown} has no meaning in a job table");
        self.find("E101", span, message, "remove it; to make a number a text, quote it");
        false
    }

    fn refuse(&self, code: &'static str, span: Span, message: String, hint: &str) -> Stop {
        let mut problem = Problem::at(code, self.source, span, message);
        problem.hint = Some(hint.to_owned());
        Stop::Refused(Box::new(problem))
    }

    fn alias(&mut self, anchor: usize, span: Span) -> Result<(), Stop> {
        let Some(node) = self.anchors.get(&anchor) else {
            let message = "this alias stands for a list or map that contains it".to_owned();
            return Err(self.refuse("E101", span, message, "write the values instead"));
        };
        let node = Node { span, ..node.clone() };
        self.aliased = self.aliased.saturating_add(node.weight);
        if self.aliased > ALIASED_MOST {
            let message = format!("the aliases of this file stand for more than {ALIASED_MOST} values");
            return Err(self.refuse("E101", span, message, "write the jobs instead, or use `defaults`"));
        }
        self.add(node, 0);
        Ok(())
    }

    fn close(&mut self) {
        let Some(open) = self.open.pop() else { return };
        let node = match open.parts {
            Parts::List(nodes) => {
                let weight = nodes.iter().fold(1, |sum: usize, node| sum.saturating_add(node.weight));
                let span = Span::new(open.span.start, open.span.start + 1);
                Node { span, value: Value::List(Rc::new(nodes)), weight }
            }
            Parts::Map(map) => {
                let entries = self.distinct(*map);
                let weight = entries.iter().fold(1, |sum: usize, entry| sum.saturating_add(entry.node.weight));
                // A block map is shown by its first key, a flow map by its brace.
                let first = entries.first().map(|entry| entry.key_span).filter(|key| key.start == open.span.start);
                let span = first.unwrap_or(Span::new(open.span.start, open.span.start + 1));
                Node { span, value: Value::Map(Rc::new(entries)), weight }
            }
        };
        self.add(node, open.anchor);
    }

    /// The entries of a map: of equal keys the first, its own before merged ones.
    fn distinct(&mut self, map: OpenMap) -> Vec<Entry> {
        let mut entries: Vec<Entry> = Vec::with_capacity(map.own.len());
        // Most maps are a job with a few keys, and comparing those is cheaper than any index of them.
        let mut seen = (map.own.len() + map.merged.len() > KEYS_COMPARED).then(HashMap::new);
        for entry in map.own {
            let Some(first) = known_at(&mut seen, &entries, &entry) else {
                entries.push(entry);
                continue;
            };
            let Self { source, findings, .. } = self;
            findings.add("E102", || {
                let (key, first) = (quoted(&entry.key), source.position(first.start));
                let message =
                    format!("the key {key} is already written at line {}, column {}", first.line, first.column);
                let hint = Some("remove one of the two".to_owned());
                Problem { hint, ..Problem::at("E102", source, entry.key_span, message) }
            });
        }
        for entry in map.merged {
            if known_at(&mut seen, &entries, &entry).is_none() {
                entries.push(entry);
            }
        }
        entries
    }

    /// Puts a finished value where it belongs.
    fn add(&mut self, node: Node, anchor: usize) {
        if anchor != 0 {
            self.anchors.insert(anchor, node.clone());
        }
        let Some(mut open) = self.open.pop() else {
            self.root = Some(node);
            return;
        };
        match &mut open.parts {
            Parts::List(nodes) => nodes.push(node),
            Parts::Map(map) => match map.key.take() {
                None => map.key = Some(self.key(&node)),
                Some(key) if key.is_plain && key.text.as_deref() == Some("<<") => self.merge(map, &key, &node),
                Some(key) => map.own.extend(key.text.map(|text| Entry { key: text, key_span: key.span, node })),
            },
        }
        self.open.push(open);
    }

    fn key(&mut self, node: &Node) -> Key {
        if let Value::Scalar(scalar) = &node.value {
            let is_plain = scalar.style == Style::Plain;
            return Key { text: Some(scalar.text.clone()), span: node.span, is_plain };
        }
        let message = "a key is a text, and here is a list or map".to_owned();
        let is_template = self.source.text.get(..node.span.start).is_some_and(|before| before.ends_with('{'));
        let hint = doubts::template(if is_template { "{{" } else { "" });
        self.find("E203", node.span, message, hint.unwrap_or("quote a text that begins with a brace or bracket"));
        Key { text: None, span: node.span, is_plain: false }
    }

    /// `<<: *base`, as other readers of YAML do it.
    fn merge(&mut self, map: &mut OpenMap, key: &Key, node: &Node) {
        let maps = match &node.value {
            Value::List(nodes) => nodes.as_slice(),
            _ => std::slice::from_ref(node),
        };
        for node in maps {
            let Value::Map(entries) = &node.value else {
                let message = "`<<` takes a map or a list of maps".to_owned();
                self.find("E203", key.span, message, "name a map by an anchor, `x-base: &base`, and write `<<: *base`");
                continue;
            };
            map.merged.extend(entries.iter().map(|entry| Entry { key_span: key.span, ..entry.clone() }));
        }
    }

    fn find(&mut self, code: &'static str, span: Span, message: String, hint: &str) {
        let hint = Some(hint.to_owned());
        self.findings.add(code, || Problem { hint, ..Problem::at(code, self.source, span, message) });
    }
}

/// Where the key of `entry` was written before; notes it if there is an index.
fn known_at(seen: &mut Option<HashMap<Rc<str>, Span>>, entries: &[Entry], entry: &Entry) -> Option<Span> {
    let Some(seen) = seen else {
        return entries.iter().find(|known| known.key == entry.key).map(|known| known.key_span);
    };
    match seen.entry(Rc::clone(&entry.key)) {
        MapEntry::Occupied(known) => Some(*known.get()),
        MapEntry::Vacant(place) => {
            place.insert(entry.key_span);
            None
        }
    }
}
