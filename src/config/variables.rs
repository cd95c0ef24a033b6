//! `env`: the environment variables of a job; and values that may come from elsewhere than the table.

use super::doubts;
use super::host::Need;
use super::reader::Field;
use super::reader::Item;
use super::reader::Reader;
use super::reader::is_ambiguous;
use super::reader::is_null;
use super::text::Span;
use super::text::quoted;
use super::text::short;
use super::words;
use super::yaml::Entry;
use super::yaml::Value;
use crate::job::EnvValue;
use crate::secret::is_secret_key;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// A map of a job, such as `env`, over that of `defaults`, key by key.
pub(super) fn merged<T: Clone>(
    above: &Field<BTreeMap<String, T>>,
    below: &Field<BTreeMap<String, T>>,
) -> Field<BTreeMap<String, T>> {
    match (above, below) {
        (Field::Written(above, span), Field::Written(below, _)) => {
            let mut all = below.clone();
            all.extend(above.clone());
            Field::Written(all, *span)
        }
        _ => above.or(below),
    }
}

/// A map of variables. Their values are texts, and must look like texts to every reader of YAML.
pub(super) fn env(reader: &mut Reader<'_>, item: &Item<'_>) -> Option<BTreeMap<String, EnvValue>> {
    let Value::Map(entries) = &item.node.value else {
        let is_list = matches!(item.node.value, Value::List(_));
        let hint = if is_list {
            "write a map and no list: `env: {NAME: \"value\"}`"
        } else {
            "write `env: {NAME: \"value\"}`"
        };
        let message = "`env` is not a map of names and values".to_owned();
        reader.find("E203", item.node.span, message, hint);
        return None;
    };
    let mut variables = BTreeMap::new();
    let mut is_good = true;
    for entry in entries.iter() {
        let is_named = check_variable(reader, &entry.key, entry.key_span);
        let value = Item { name: format!("env.{}", short(&entry.key)), node: &entry.node };
        let value = match &entry.node.value {
            Value::Map(source) => read_source(reader, &value, (source, VARIABLE)),
            _ => variable_text(reader, &value, entry.key_span).map(EnvValue::Text),
        };
        match value.filter(|_| is_named) {
            Some(value) => _ = variables.insert(entry.key.to_string(), value),
            None => is_good = false,
        }
    }
    doubts::of_variables(reader, &variables, item.node.span);
    is_good.then_some(variables)
}

/// What a value is to be, and how it is written.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wanted {
    /// To follow "no source of".
    pub what: &'static str,
    /// What to write.
    pub hint: &'static str,
}

const VARIABLE: Wanted =
    Wanted { what: "a variable", hint: "write a text, `{fromEnv: NAME}` or `{fromFile: /run/secrets/name}`" };

/// A text, or where it comes from.
pub(super) fn value(reader: &mut Reader<'_>, item: &Item<'_>, wanted: Wanted) -> Option<EnvValue> {
    match &item.node.value {
        Value::Map(source) => read_source(reader, item, (source, wanted)),
        Value::List(_) => {
            let message = format!("`{}` is a list, and a text is expected", item.name);
            reader.find("E203", item.node.span, message, wanted.hint);
            None
        }
        Value::Scalar(_) => text_of(reader, item, item.node.span, false).map(EnvValue::Text),
    }
}

/// `{fromEnv: NAME}` or `{fromFile: /path}`: what must not stand in the table.
fn read_source(reader: &mut Reader<'_>, item: &Item<'_>, (entries, wanted): (&[Entry], Wanted)) -> Option<EnvValue> {
    let [entry] = entries else {
        let message = format!("`{}` is a map of {} keys, and one is expected", item.name, entries.len());
        reader.find("E203", item.node.span, message, wanted.hint);
        return None;
    };
    let value = Item { name: format!("{}.{}", item.name, short(&entry.key)), node: &entry.node };
    match &*entry.key {
        "fromEnv" => {
            let name = reader.text(&value)?;
            if name.is_empty() || is_reserved(&name) || name.contains(['=', '\0']) {
                let message = format!("`{}` is not the name of a variable", value.name);
                let hint = "name one of the daemon's variables, but none of its own settings (`ONECRON_…`)";
                reader.find("E309", entry.node.span, message, hint);
                return None;
            }
            reader.need(entry.node.span, Need::Value(EnvValue::FromEnv(name.clone())));
            Some(EnvValue::FromEnv(name))
        }
        "fromFile" => {
            let path = reader.text(&value)?;
            if !path.starts_with('/') {
                // Without the text, which may be the secret itself.
                let message = format!("`{}` is not an absolute path", value.name);
                reader.find_hidden(
                    "E203",
                    entry.node.span,
                    message,
                    "begin it with `/`: `{fromFile: /run/secrets/name}`",
                );
                return None;
            }
            let source = EnvValue::FromFile(PathBuf::from(path));
            reader.need(entry.node.span, Need::Value(source.clone()));
            Some(source)
        }
        other => {
            // Anything else than a mistyped key may be the secret itself.
            let is_mistyped =
                words::nearest(other, ["fromEnv", "fromFile"].into_iter()).is_some() || wanted.what == VARIABLE.what;
            let shown = if is_mistyped { quoted(other) } else { "this".to_owned() };
            reader.find("E202", entry.key_span, format!("{shown} is no source of {}", wanted.what), wanted.hint);
            None
        }
    }
}

/// A text that no reader of YAML takes for anything else.
pub(super) fn variable_text(reader: &mut Reader<'_>, item: &Item<'_>, key_span: Span) -> Option<String> {
    text_of(reader, item, key_span, !is_secret_key(&item.name))
}

fn text_of(reader: &mut Reader<'_>, item: &Item<'_>, key_span: Span, may_show: bool) -> Option<String> {
    if is_null(item.node) {
        let message = format!("`{}` has no value", item.name);
        reader.find("E203", key_span, message, "write \"\" for an empty text");
        return None;
    }
    if let Value::Scalar(scalar) = &item.node.value {
        doubts::of_text(reader, &item.name, scalar, item.node.span);
    }
    if let Value::Scalar(scalar) = &item.node.value
        && is_ambiguous(scalar)
    {
        // Without the value, which may be a password: messages go to the log as well.
        let message = format!("`{}` has no quotes, and YAML may take it for a number or a boolean", item.name);
        let shown = if may_show { short(&scalar.text) } else { "…".to_owned() };
        reader.find("E203", item.node.span, message, &format!("quote it: \"{shown}\""));
        return None;
    }
    reader.text(item)
}

/// Whether a table can have a variable of this name.
pub fn is_variable(name: &str) -> bool {
    is_name(name) && !is_reserved(name)
}

fn is_name(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.chars().all(|c| c.is_ascii_alphanumeric() || "_-.".contains(c))
}

/// The daemon's settings, and what a run is told about itself.
fn is_reserved(name: &str) -> bool {
    name.to_ascii_uppercase().starts_with("ONECRON_")
}

fn check_variable(reader: &mut Reader<'_>, name: &str, span: Span) -> bool {
    if is_reserved(name) {
        let message = format!("the variable {} is reserved: in such, onecron tells a run about itself", quoted(name));
        reader.find("E309", span, message, "choose a name that does not begin with `ONECRON_`");
        return false;
    }
    let is_good = is_name(name);
    if !is_good {
        let message = format!("{} is no name for an environment variable", quoted(name));
        reader.find(
            "E309",
            span,
            message,
            "names have letters, digits, `_`, `-` and `.`, and do not begin with a digit",
        );
    }
    is_good
}
