//! `$(NAME)` in a manifest: Kubernetes puts the variable's value there before anything is started, and a shell would take it for
//! a command to run.

use std::collections::BTreeMap;
use std::collections::BTreeSet;

/// What is known of a container's variables while they are read one after the other.
#[derive(Debug, Default)]
pub(super) struct Variables {
    known: BTreeMap<String, String>,
    /// Those whose values are elsewhere.
    unknown: BTreeSet<String>,
}

impl Variables {
    /// A variable, and its value where that stands in the manifest.
    pub(super) fn add(&mut self, name: &str, value: Option<String>) {
        match value {
            Some(value) => {
                self.unknown.remove(name);
                self.known.insert(name.to_owned(), value);
            }
            None => {
                self.known.remove(name);
                self.unknown.insert(name.to_owned());
            }
        }
    }

    /// The text as the container sees it, and the names in it whose values are elsewhere, which stay as they are. So does what
    /// names no variable, for Kubernetes leaves it alone; `$$` is `$`.
    pub(super) fn expand<'a>(&self, text: &'a str) -> (String, Vec<&'a str>) {
        let (mut made, mut missing, mut rest) = (String::new(), Vec::new(), text);
        while let Some((before, behind)) = rest.split_once('$') {
            made.push_str(before);
            let named = behind.strip_prefix('(').and_then(|inner| inner.split_once(')'));
            rest = match (behind.strip_prefix('$'), named) {
                (Some(behind), _) => {
                    made.push('$');
                    behind
                }
                (None, Some((name, behind))) => {
                    match self.known.get(name) {
                        Some(value) => made.push_str(value),
                        None => made.push_str(&format!("$({name})")),
                    }
                    missing.extend(self.unknown.contains(name).then_some(name));
                    behind
                }
                (None, None) => {
                    made.push('$');
                    behind
                }
            };
        }
        made.push_str(rest);
        (made, missing)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_put_in_as_kubernetes_does() {
        let mut variables = Variables::default();
        variables.add("A", Some("x$(B)$$".to_owned()));
        variables.add("S", None);
        for (text, expanded) in [
            ("a $(A) b", "a x$(B)$$ b"),
            ("$$(A) $$$(A) $$$$", "$(A) $x$(B)$$ $$"),
            ("$(date) $A ${A} $(", "$(date) $A ${A} $("),
            ("$(A", "$(A"),
            ("$", "$"),
            ("", ""),
            ("é$(A)é", "éx$(B)$$é"),
        ] {
            assert_eq!(variables.expand(text), (expanded.to_owned(), vec![]), "{text}");
        }
        assert_eq!(variables.expand("$(S) $$(S)"), ("$(S) $(S)".to_owned(), vec!["S"]));
    }
}
