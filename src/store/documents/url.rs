//! What the URLs of these stores say, and which part of one is wrong. Nothing of a URL is repeated in an error: what looks
//! like a port can be the half of a password.

use crate::secret::Secret;
use crate::store::place::Place;
use crate::store::place::decoded;

/// More servers than that stand in no URL that somebody meant.
const PLACES_MOST: usize = 16;

/// What may stand in a URL, by its scheme.
#[derive(Debug, Clone, Copy)]
pub(super) struct Form {
    /// The scheme, with `://`.
    pub scheme: &'static str,
    pub port: u16,
    pub places_most: usize,
    /// Options after the `?`.
    pub options: &'static [&'static str],
    /// What it looks like as a whole.
    pub whole: &'static str,
}

/// A URL, read.
#[derive(Debug)]
pub(super) struct Url {
    pub user: String,
    pub password: Option<Secret<String>>,
    /// Hosts with their ports; an IPv6 address in brackets.
    pub places: Vec<String>,
    /// Options, in their order.
    pub options: Vec<(String, String)>,
    /// As it may be shown.
    pub shown: String,
}

impl Url {
    /// Reads what follows the scheme.
    ///
    /// # Errors
    /// Which part is wrong, and what to write instead.
    pub fn parse(rest: &str, form: Form) -> Result<Self, String> {
        let wrong = |what: &str| format!("{what}: write {}", form.whole);
        if rest.contains(|c: char| c.is_whitespace() || c.is_control()) {
            return Err("a blank or a line end stands inside: in a password write `%20` for a blank".into());
        }
        // A password that was pasted as it is may hold any of these.
        let (user, place) = match rest.rsplit_once('@') {
            Some((user, place)) => (Some(user), place),
            None => (None, rest),
        };
        if user.is_some_and(|user| user.contains(['/', '?', '#', '@'])) {
            return Err("`/ ? # @` stand before the last `@`: in user and password write `%2F %3F %23 %40`".into());
        }
        let (place, options) = place.split_once('?').unwrap_or((place, ""));
        let place = place.strip_suffix('/').unwrap_or(place);
        if place.contains(['/', '#']) {
            return Err(wrong("something follows the hosts that is no option"));
        }
        let places = place.split(',').map(|place| read_place(place, form)).collect::<Result<Vec<String>, String>>()?;
        if places.len() > form.places_most.min(PLACES_MOST) {
            let most = form.places_most.min(PLACES_MOST);
            return Err(wrong(&format!("{} hosts are too many, at most {most} are allowed", places.len())));
        }
        let options = options.split('&').filter(|option| !option.is_empty());
        let options = options.map(|option| read_option(option, form)).collect::<Result<Vec<_>, String>>()?;
        let (name, password) = user.map_or(("", None), |user| match user.split_once(':') {
            Some((name, password)) => (name, Some(password)),
            None => (user, None),
        });
        let (name, password) = (decoded(name)?, password.map(decoded).transpose()?);
        let after: Vec<String> = options.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let after = if after.is_empty() { String::new() } else { format!("?{}", after.join("&")) };
        // A user without a password is most often a password that was written without its colon.
        let before = match &password {
            Some(_) if !name.is_empty() => format!("{name}@"),
            None if !name.is_empty() => "***@".into(),
            _ => String::new(),
        };
        let shown = format!("{}{before}{}{after}", form.scheme, places.join(","));
        Ok(Self { user: name, password: password.map(Secret::new), places, options, shown })
    }

    /// The value of an option.
    pub fn option(&self, name: &str) -> Option<&str> {
        self.options.iter().find(|(found, _)| found == name).map(|(_, value)| value.as_str())
    }
}

fn read_place(text: &str, form: Form) -> Result<String, String> {
    let place = Place::parse(text, form.port)?;
    let is_odd = |c: char| !(c.is_ascii_alphanumeric() || "-._:%".contains(c));
    if place.host.contains(is_odd) {
        return Err(format!("a host has a character that no name or address has: write {}", form.whole));
    }
    Ok(place.to_string())
}

fn read_option(option: &str, form: Form) -> Result<(String, String), String> {
    let (name, value) = option.split_once('=').unwrap_or((option, ""));
    if !form.options.contains(&name) {
        let known = match form.options {
            [] => "there are none".to_owned(),
            names => format!("there is `{}`", names.join("`, `")),
        };
        return Err(format!("an option after `?` is not known: {known}; in a password write `%3F` for a `?`"));
    }
    if value.is_empty() || !value.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte)) {
        return Err(format!("option `{name}` has no value of letters, digits, `-`, `_` and `.`"));
    }
    Ok((name.to_owned(), value.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const FORM: Form = Form {
        scheme: "etcd://",
        port: 2379,
        places_most: 16,
        options: &["dc"],
        whole: "etcd://[user:password@]host:2379",
    };

    #[test]
    fn all_parts_are_read_and_the_password_is_not_shown() {
        let url = Url::parse("app:s%40cret%2f@h1,h2:77,[::1],[::2]:78?dc=west", FORM).unwrap();
        assert_eq!((url.user.as_str(), url.password.as_ref().unwrap().expose().as_str()), ("app", "s@cret/"));
        assert_eq!(url.places, ["h1:2379", "h2:77", "[::1]:2379", "[::2]:78"]);
        assert_eq!(url.option("dc"), Some("west"));
        assert_eq!(url.shown, "etcd://app@h1:2379,h2:77,[::1]:2379,[::2]:78?dc=west");
        assert!(!format!("{url:?}").contains("cret"));
        assert_eq!(Url::parse(":t0ken@h/", FORM).unwrap().shown, "etcd://h:2379");
        assert_eq!(Url::parse("t0ken@h", FORM).unwrap().shown, "etcd://***@h:2379");
    }

    #[test]
    fn the_wrong_part_is_named_and_nothing_is_repeated() {
        for (rest, part) in [
            ("", "a host is missing"),
            (":s3cret@", "a host is missing"),
            ("h1,", "a host is missing"),
            ("h1:s3cret", "the port after a host"),
            ("h1:0", "the port after a host"),
            ("u:s3cret:6379", "several colons"),
            ("::1", "in brackets"),
            ("[::1]s3cret", "after the `]`"),
            ("u:s3/cret@h", "stand before the last `@`"),
            ("u:s3@cret@h", "stand before the last `@`"),
            ("u:s3%cret@h", "a `%`"),
            ("u:s3cret%@h", "a `%`"),
            ("u:s3 cret@h", "a blank"),
            ("h/s3cret", "something follows"),
            ("h?s3cret=1", "is not known: there is `dc`"),
            ("h?dc", "option `dc` has no value"),
            ("h?dc=s3$cret", "option `dc` has no value"),
            ("s3$cret", "a character"),
        ] {
            let error = Url::parse(rest, FORM).unwrap_err();
            assert!(error.contains(part) && !error.contains("cret"), "{rest}: {error}");
        }
        assert!(Url::parse(&"h,".repeat(16), FORM).unwrap_err().contains("a host is missing"));
        assert!(Url::parse(&vec!["h"; 17].join(","), FORM).unwrap_err().contains("at most 16"));
    }
}
