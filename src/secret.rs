//! Values that must not be seen in logs, error texts or dumps.

mod redaction;

use std::fmt;

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
