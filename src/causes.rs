//! Errors with what caused them, in one line.

use std::error::Error;

/// An error and all its causes, from the outer to the inner.
pub fn all<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(Some(error), |error: &&'a (dyn Error + 'static)| (*error).source())
}

/// What all of them say.
pub fn chain(error: &(dyn Error + 'static)) -> String {
    all(error).map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

/// What an HTTP client found: the causes of its error, without what its layers say of themselves, and nothing twice. Take
/// the address off first (`without_url`): it may have a secret.
pub fn found(error: &(dyn Error + 'static)) -> String {
    let mut words: Vec<String> = Vec::new();
    for cause in all(error).skip(1) {
        let text = cause.to_string();
        let is_said = words.iter().any(|word| word.contains(&text));
        if !is_said && !text.starts_with("client error (") {
            words.push(text);
        }
    }
    if words.is_empty() { error.to_string() } else { words.join(": ") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use thiserror::Error;

    #[derive(Debug, Error)]
    #[error("{text}")]
    struct Layer {
        text: &'static str,
        source: Option<Box<Layer>>,
    }

    fn layers(texts: &[&'static str]) -> Layer {
        let (text, inner) = texts.split_first().unwrap();
        Layer { text, source: (!inner.is_empty()).then(|| Box::new(layers(inner))) }
    }

    #[test]
    fn a_chain_has_every_cause() {
        assert_eq!(chain(&layers(&["a", "b", "c"])), "a: b: c");
        assert_eq!(chain(&layers(&["a"])), "a");
    }

    #[test]
    fn what_a_client_found_is_said_once_and_without_its_layers() {
        let error = layers(&["error sending request", "client error (Connect)", "tcp: refused", "refused"]);
        assert_eq!(found(&error), "tcp: refused");
        assert_eq!(found(&layers(&["builder error"])), "builder error");
    }
}
