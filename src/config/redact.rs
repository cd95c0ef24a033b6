//! `scheduler.redact`: what must not be seen of what jobs say.

use super::reader::Item;
use super::reader::Reader;
use super::reader::kind;
use super::yaml::Value;
use crate::secret::Redaction;
use crate::secret::Rule;

/// Each line of each job is searched for each of them.
const RULES_MOST: usize = 50;

/// A list of regular expressions.
pub(super) fn read(reader: &mut Reader<'_>, item: &Item<'_>) -> Option<Redaction> {
    let Value::List(nodes) = &item.node.value else {
        let found = kind(item.node);
        let message = format!("`redact` is {found}, and a list of regular expressions is expected");
        reader.find("E203", item.node.span, message, "write `redact: ['password=\\S+']`");
        return None;
    };
    if nodes.len() > RULES_MOST {
        let message = format!("`redact` is a list of {}, at most {RULES_MOST} are allowed", nodes.len());
        reader.find("E305", item.node.span, message, "join some of them: `one|another`");
        return None;
    }
    // All of them, so that all mistakes are reported.
    let rules: Vec<Option<Rule>> = nodes
        .iter()
        .enumerate()
        .map(|(index, node)| rule(reader, &Item { name: format!("redact[{index}]"), node }))
        .collect();
    rules.into_iter().collect()
}

fn rule(reader: &mut Reader<'_>, item: &Item<'_>) -> Option<Rule> {
    let scalar = reader.scalar(item, "a regular expression", "write it in single quotes: 'password=\\S+'")?;
    match Rule::new(&scalar.text) {
        Ok(rule) => Some(rule),
        Err(error) => {
            let span = reader.piece(scalar, error.at, error.length);
            let message = format!("`{}` cannot be used as a regular expression: {error}", item.name);
            reader.find("E306", span, message, error.hint);
            None
        }
    }
}
