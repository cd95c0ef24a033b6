//! What the URLs of all stores on servers have in common: hosts with ports, and percent signs. Nothing of a URL is repeated
//! in an error: what looks like a port can be the half of a password.

use crate::percent;
use crate::percent::Undecoded;
use std::fmt;

/// Host and port.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    pub host: String,
    pub port: u16,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { host, port } = self;
        if host.contains(':') { write!(f, "[{host}]:{port}") } else { write!(f, "{host}:{port}") }
    }
}

impl Place {
    /// Reads `host`, `host:port`, `[::1]` and `[::1]:port`.
    ///
    /// # Errors
    /// What is wrong, and what to write instead.
    pub fn parse(text: &str, usual_port: u16) -> Result<Self, &'static str> {
        let (host, port) = match text.strip_prefix('[').and_then(|inner| inner.split_once(']')) {
            Some((_, after)) if !after.is_empty() && !after.starts_with(':') => {
                return Err("after the `]` of an address only `:` and the port may follow: write [::1]:port");
            }
            Some((address, after)) => (address, after.strip_prefix(':')),
            None if text.matches(':').count() > 1 => {
                return Err(
                    "a host has several colons: write an IPv6 address in brackets, [::1]:port; a password ends \
                            with `@`",
                );
            }
            None => text.split_once(':').map_or((text, None), |(host, port)| (host, Some(port))),
        };
        if host.is_empty() {
            return Err("a host is missing: write host or host:port after the slashes, the `@` and each comma");
        }
        let is_number = |port: &&str| port.bytes().all(|byte| byte.is_ascii_digit());
        let port = match port {
            None => Some(usual_port),
            Some(port) => Some(port).filter(is_number).and_then(|port| port.parse().ok()).filter(|port| *port > 0),
        };
        let port = port.ok_or("the port after a host is not a number from 1 to 65535: write host:port")?;
        Ok(Self { host: host.to_owned(), port })
    }
}

/// With each `%40` read as the byte that it stands for.
///
/// # Errors
/// A `%` stands for itself, or the bytes are no text.
pub(super) fn decoded(text: &str) -> Result<String, &'static str> {
    percent::decoded(text).map_err(|error| match error {
        Undecoded::Digits => {
            "a `%` in user, password or database is not followed by two hexadecimal digits: write `%25` for it"
        }
        Undecoded::Text => "a `%` in user, password or database stands for bytes that are no text: write it in UTF-8",
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_have_a_port_of_their_own_or_the_usual_one() {
        let read = |text| Place::parse(text, 7).map(|place| place.to_string());
        for (text, shown) in [
            ("h", "h:7"),
            ("h:1", "h:1"),
            ("[::1]", "[::1]:7"),
            ("[::1]:65535", "[::1]:65535"),
            ("10.0.0.1", "10.0.0.1:7"),
        ] {
            assert_eq!(read(text).unwrap(), shown);
        }
        for (text, part) in [
            ("", "a host is missing"),
            (":1", "a host is missing"),
            ("[]:1", "a host is missing"),
            ("h:", "the port after a host"),
            ("h:0", "the port after a host"),
            ("h:+1", "the port after a host"),
            ("h:65536", "the port after a host"),
            ("::1", "in brackets"),
            ("[::1]1", "after the `]`"),
        ] {
            assert!(read(text).unwrap_err().contains(part), "{text}");
        }
    }

    #[test]
    fn percent_signs_stand_for_bytes() {
        assert_eq!(decoded("us%40er").unwrap(), "us@er");
        for (text, part) in [("50%", "`%25`"), ("%C3", "no text")] {
            assert!(decoded(text).unwrap_err().contains(part), "{text}");
        }
    }
}
