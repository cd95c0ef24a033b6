//! Commands as people type them.

/// A word as a shell takes it: in quotes, where it has characters that mean something there.
pub fn word(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,@%+".contains(c);
    if !text.is_empty() && text.chars().all(is_plain) {
        return text.to_owned();
    }
    format!("'{}'", text.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_means_something_to_a_shell_stands_in_quotes() {
        for (text, shown) in [
            ("redis://app@cache:6379/1", "redis://app@cache:6379/1"),
            ("consul://h:8500?dc=west", "'consul://h:8500?dc=west'"),
            ("it's", r"'it'\''s'"),
            ("", "''"),
        ] {
            assert_eq!(word(text), shown);
        }
    }
}
