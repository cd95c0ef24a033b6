//! Where a request goes. One reading for the table and for addresses that come from a variable or a file at each start.

use std::fmt;
use url::Url;

/// Reads an absolute `http` or `https` URL.
///
/// # Errors
/// It is none, or carries what must not be in one. The error does not repeat the text, which may be a secret.
pub fn request_url(text: &str) -> Result<Url, AddressError> {
    // The parser takes white space out without a word, and forgives a missing or a third slash.
    if text.contains(|c: char| c.is_whitespace() || c.is_control()) {
        return Err(AddressError { found: "has white space in it", hint: "write `%20` for a blank inside of a path" });
    }
    let rest = ["http://", "https://"].iter().find_map(|scheme| {
        text.get(..scheme.len()).filter(|start| start.eq_ignore_ascii_case(scheme)).map(|_| &text[scheme.len()..])
    });
    let Some(rest) = rest else {
        return Err(AddressError { found: "is no http or https URL", hint: "write `http://host:port/path`" });
    };
    let parsed = Url::parse(text).ok().filter(|_| !rest.starts_with(['/', '\\', '?', '#']));
    let Some(url) = parsed else {
        return Err(AddressError { found: "is not a whole URL", hint: "write `http://host:port/path`" });
    };
    if !url.username().is_empty() || url.password().is_some() {
        return Err(AddressError { found: "has a user or a password in it", hint: USERINFO_HINT });
    }
    Ok(url)
}

/// An address without anything that may be a secret: scheme, host and port.
pub fn origin(url: &Url) -> String {
    url.origin().ascii_serialization()
}

const USERINFO_HINT: &str = "send it as a header that comes from a file: \
                             `headers: {Authorization: {fromFile: /run/secrets/authorization}}`";

/// Why a text is no address of a request, and what to write instead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AddressError {
    /// To follow the name of what was read.
    pub found: &'static str,
    /// What to write instead.
    pub hint: &'static str,
}

impl fmt::Display for AddressError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.found, self.hint)
    }
}

impl std::error::Error for AddressError {}

/// Whether this can be the name of a header line.
pub fn is_header_name(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte))
}

/// Whether this can be the value of a header line: with a line end in it, it would be two.
pub fn is_header_value(value: &[u8]) -> bool {
    value.iter().all(|byte| *byte == b'\t' || (*byte >= b' ' && *byte != 0x7f))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_urls_of_the_web_without_a_password_are_addresses() {
        for text in ["http://a", "HTTPS://a.b:8443/c?d=e", "http://[::1]:80/", "http://10.0.0.1/ä"] {
            assert!(request_url(text).is_ok(), "{text}");
        }
        for text in [
            "",
            "a",
            "/a",
            "//a/b",
            "a.b/c",
            "ftp://a/",
            "file:///etc/passwd",
            "http:a",
            "http:/a",
            "http:///a",
            "http://",
            "http://?a",
            "http://a b/",
            "http://a/\n",
            " http://a/",
            "http://a:b/",
            "http://a:99999/",
            "http://[::1/",
            "http://u@a/",
            "http://u:p@a/",
            "http://:p@a/",
        ] {
            assert!(request_url(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn an_origin_has_no_path_and_no_query() {
        let url = request_url("https://hooks.example:8443/T000/secret?token=1").unwrap();
        assert_eq!(origin(&url), "https://hooks.example:8443");
    }

    #[test]
    fn a_header_cannot_carry_a_line_end() {
        assert!(is_header_name("X-Api_Key") && !is_header_name("") && !is_header_name("a b") && !is_header_name("a:"));
        assert!(is_header_value("a\tb ä".as_bytes()));
        for bad in ["a\r\nb: c", "a\nb", "a\0", "\x7f"] {
            assert!(!is_header_value(bad.as_bytes()), "{bad:?}");
        }
    }
}
