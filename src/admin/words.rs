//! What people say about what they ask: who they are, and why.

/// It stands in the records of a job, which all replicas read, in logs, and on pages.
const BYTES_MOST: usize = 500;

/// The words, where they are short and of one line.
///
/// # Errors
/// What to write instead.
pub fn words(text: &str) -> Result<String, String> {
    let fits = text.len() <= BYTES_MOST && !text.chars().any(char::is_control);
    if fits { Ok(text.to_owned()) } else { Err(format!("write at most {BYTES_MOST} bytes without control characters")) }
}

#[cfg(test)]
mod tests {
    use super::words;

    #[test]
    fn words_are_short_and_of_one_line() {
        let most = "é".repeat(250);
        assert_eq!(words(&most), Ok(most.clone()));
        for bad in [format!("{most}x"), "a\nb".to_owned(), "\u{1b}[2J".to_owned(), "\u{9b}".to_owned()] {
            assert_eq!(words(&bad), Err("write at most 500 bytes without control characters".to_owned()));
        }
    }
}
