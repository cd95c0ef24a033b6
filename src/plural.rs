//! Numbers of things, in words.

use std::fmt::Display;

/// `1 job`, `2 jobs`: of a noun that takes an `s`.
pub fn counted<N: Display + PartialEq + From<u8>>(count: N, noun: &str) -> String {
    let end = if count == N::from(1) { "" } else { "s" };
    format!("{count} {noun}{end}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_thing_is_no_things() {
        assert_eq!([0_u64, 1, 2].map(|count| counted(count, "job")), ["0 jobs", "1 job", "2 jobs"]);
        assert_eq!(counted(1_usize, "other"), "1 other");
    }
}
