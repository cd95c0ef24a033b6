//! Which part of a `redis://` URL is wrong. The client's own parser says only that something is.

/// What to write instead of the wrong part; `None` if no part is seen to be wrong. Nothing of the URL is repeated: what
/// looks like a port can be the half of a password.
pub(super) fn wrong_part(url: &str) -> Option<&'static str> {
    let rest = url.strip_prefix("redis://")?;
    if url.contains(|c: char| c.is_whitespace() || c.is_control()) {
        return Some("a blank or a line end stands inside: in a password write `%20` for a blank");
    }
    if rest.contains(['?', '#']) {
        return Some("options after `?` or `#` do not exist; in a password write `%3F` and `%23` for them");
    }
    let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
    if path.contains('@') {
        return Some("a `/` stands before the `@`: in user and password write `%2F` for it");
    }
    let (user, place) = authority.rsplit_once('@').unwrap_or(("", authority));
    if has_bad_percent(user) {
        return Some("a `%` in user or password is not followed by two hexadecimal digits: write `%25` for it");
    }
    let (host, port) = match place.strip_prefix('[').and_then(|inner| inner.split_once(']')) {
        Some((_, after)) if !after.is_empty() && !after.starts_with(':') => {
            return Some("after the `]` of an address only `:` and the port may follow: write redis://[::1]:6379");
        }
        Some((address, after)) => (address, after.strip_prefix(':')),
        None if place.matches(':').count() > 1 => {
            return Some(
                "the host has several colons: write an IPv6 address in brackets, redis://[::1]:6379; a password ends \
                 with `@`",
            );
        }
        None => place.split_once(':').map_or((place, None), |(host, port)| (host, Some(port))),
    };
    if host.is_empty() {
        return Some("the host is missing: write redis://host:6379");
    }
    if port.is_some_and(|port| port.parse::<u16>().map_or(true, |port| port == 0)) {
        return Some("the port after the host is not a number from 1 to 65535: write redis://host:6379");
    }
    let database = path.strip_suffix('/').unwrap_or(path);
    if !database.is_empty() && database.parse::<u32>().is_err() {
        return Some("what follows the `/` is not the number of a database: write redis://host:6379/0");
    }
    None
}

fn has_bad_percent(text: &str) -> bool {
    let is_hex = |rest: &str| rest.len() >= 2 && rest.bytes().take(2).all(|byte| byte.is_ascii_hexdigit());
    text.match_indices('%').any(|(at, _)| !is_hex(&text[at + 1..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wrong_part_is_named() {
        for (url, part) in [
            ("redis://", "the host is missing"),
            ("redis:///3", "the host is missing"),
            ("redis://:secret@:6379", "the host is missing"),
            ("redis://cache:port", "the port"),
            ("redis://cache:99999/0", "the port"),
            ("redis://cache:", "the port"),
            ("redis://cache:6379/db", "the number of a database"),
            ("redis://cache/0/1", "the number of a database"),
            ("redis://cache/-1", "the number of a database"),
            ("redis://::1:6379", "in brackets"),
            ("redis://user:secret:6379", "a password ends with `@`"),
            ("redis://[::1]6379", "after the `]`"),
            ("redis://:a/b@cache", "a `/` stands before the `@`"),
            ("redis://:50%@cache", "a `%`"),
            ("redis://:a b@cache", "a blank"),
            ("redis://cache?timeout=1", "options"),
        ] {
            assert!(wrong_part(url).is_some_and(|text| text.contains(part)), "{url}: {:?}", wrong_part(url));
        }
    }

    #[test]
    fn a_good_url_has_no_wrong_part() {
        for url in [
            "redis://cache",
            "redis://cache:6379/0",
            "redis://cache/",
            "redis://user:a%2Fb@cache:7000/3",
            "redis://:s@cret@cache",
            "redis://[::1]:7000",
            "redis://[::1]",
            "redis://127.0.0.1",
        ] {
            assert_eq!(wrong_part(url), None, "{url}");
        }
    }
}
