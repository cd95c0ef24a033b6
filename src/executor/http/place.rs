//! Where a request goes, and what may be seen of that.
//!
//! An address that stands in the table is no secret: its path is shown, as it was written, so that `redact` finds in it
//! what it was written for. Of one that comes from a variable or a file nothing is shown, and nothing of where its server
//! leads. A query is never shown, nor the path of a place that a server has named.

use super::parts;
use super::parts::unusable;
use crate::executor::spawn_error::SpawnError;
use crate::job::EnvValue;
use crate::job::request_url;
use crate::secret::REDACTED;
use crate::secret::Redaction;
use url::Url;

const SUBJECT: &str = "`http.url`";
/// What stands for an address that is a secret, as for every [`Secret`](crate::secret::Secret).
const HIDDEN: &str = "***";

/// An address.
pub(super) struct Place {
    pub(super) url: Url,
    /// All that may be seen of it.
    shown: String,
    /// Its host, for texts in which somebody else has it.
    host: String,
}

impl std::fmt::Debug for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.shown)
    }
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.shown)
    }
}

impl Place {
    /// The one that a job names.
    pub(super) fn of(value: &EnvValue, redaction: &Redaction) -> Result<Self, SpawnError> {
        let text = parts::string(SUBJECT, value)?;
        let text = text.trim();
        let url = request_url(text).map_err(|error| unusable(SUBJECT, error.found))?;
        Ok(match value {
            EnvValue::Text(_) => Self::written(url, text, redaction, |path| path.to_owned()),
            EnvValue::FromEnv(_) | EnvValue::FromFile(_) => Self::secret(url),
        })
    }

    /// One of which nothing may be seen, wherever it was written.
    pub(super) fn hidden(text: &str) -> Result<Self, SpawnError> {
        let url = request_url(text.trim()).map_err(|error| unusable("`url`", error.found))?;
        Ok(Self::secret(url))
    }

    fn secret(url: Url) -> Self {
        Self { url, shown: HIDDEN.to_owned(), host: HIDDEN.to_owned() }
    }

    fn written(url: Url, text: &str, redaction: &Redaction, path: impl FnOnce(&str) -> String) -> Self {
        let seen = redaction.text(text);
        // Whatever a rule was about may have been the host.
        let host = if seen == text { host_of(text) } else { REDACTED };
        let (origin, rest) = split(&seen);
        let (before, hidden) = match rest.find(['?', '#']) {
            Some(at) => (&rest[..at], if rest[at..].starts_with('?') { "?…" } else { "" }),
            None => (rest, ""),
        };
        Self { shown: format!("{origin}{}{hidden}", path(before)), host: host.to_owned(), url }
    }

    /// Where the server at this one leads; `None`: to no URL; an error: to what no request can be sent to.
    pub(super) fn leads_to(&self, location: &str, redaction: &Redaction) -> Option<Result<Self, &'static str>> {
        let url = self.url.join(location).ok()?;
        let url = match request_url(url.as_str()) {
            Ok(url) => url,
            Err(error) => return Some(Err(error.found)),
        };
        if self.shown == HIDDEN {
            return Some(Ok(Self::secret(url)));
        }
        let text = match location {
            _ if location.contains("://") && Url::parse(location).is_ok() => location.to_owned(),
            _ if location.starts_with("//") => format!("{}:{location}", url.scheme()),
            // The same host, whose name is known as it was written.
            _ if self.host != REDACTED => {
                let port = url.port().map_or_else(String::new, |port| format!(":{port}"));
                format!("{}://{}{port}/{}", url.scheme(), self.host, location.trim_start_matches('/'))
            }
            _ => return Some(Ok(Self { url, shown: REDACTED.to_owned(), host: REDACTED.to_owned() })),
        };
        let path = |path: &str| if matches!(path, "" | "/") { String::new() } else { "/…".to_owned() };
        let mut place = Self::written(url, &text, redaction, path);
        place.shown.truncate(place.shown.trim_end_matches("?…").len());
        Some(Ok(place))
    }

    /// A text of a lower layer without what is hidden of the address, and with the host as it was written.
    pub(super) fn clean(&self, text: &str) -> String {
        let Some(host) = self.url.host_str().map(|host| host.trim_matches(['[', ']'])).filter(|host| !host.is_empty())
        else {
            return text.to_owned();
        };
        let lower = text.to_ascii_lowercase();
        let (mut clean, mut at) = (String::new(), 0);
        for (start, _) in lower.match_indices(host) {
            let end = start + host.len();
            let belongs = |c: char| c.is_alphanumeric() || c == '-';
            if text[..start].ends_with(belongs) || text[end..].starts_with(belongs) {
                continue; // a part of another word
            }
            clean.push_str(&text[at..start]);
            clean.push_str(&self.host);
            at = end;
        }
        clean + &text[at..]
    }
}

/// Scheme, host and port of a written address as far as it may be seen, without user and password.
pub(super) fn written_origin(text: &str, redaction: &Redaction) -> String {
    let (scheme, rest) = text.split_once("://").map_or(("http", text), |(scheme, rest)| (scheme, rest));
    let rest = rest.rsplit_once('@').map_or(rest, |(_, place)| place);
    let text = format!("{scheme}://{rest}");
    split(&redaction.text(&text)).0.to_owned()
}

/// A written address in front of its path, and from there on.
fn split(text: &str) -> (&str, &str) {
    let start = text.find("://").map_or(0, |at| at + 3);
    let end = text[start..].find(['/', '\\', '?', '#']).map_or(text.len(), |at| start + at);
    text.split_at(end)
}

/// The host of a written address, which has no user in it.
fn host_of(text: &str) -> &str {
    let origin = split(text).0;
    let place = origin.split_once("://").map_or(origin, |(_, place)| place);
    match place.strip_prefix('[') {
        Some(address) => address.split(']').next().unwrap_or(address),
        None => place.split(':').next().unwrap_or(place),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::secret::Rule;

    fn hiding(rules: &[&str]) -> Redaction {
        rules.iter().map(|rule| Rule::new(rule).unwrap()).collect()
    }

    fn place(text: &str, rules: &[&str]) -> Place {
        Place::of(&EnvValue::Text(text.to_owned()), &hiding(rules)).unwrap()
    }

    #[test]
    fn an_address_of_the_table_is_shown_as_it_was_written_without_its_query() {
        for (text, shown) in [
            ("http://Web.Example:8080/Purge?token=1#x", "http://Web.Example:8080/Purge?…"),
            ("https://web.example", "https://web.example"),
            ("http://[::1]:80/a#b", "http://[::1]:80/a"),
        ] {
            assert_eq!(place(text, &[]).to_string(), shown);
        }
    }

    #[test]
    fn what_is_redacted_is_looked_for_in_the_text_as_it_was_written() {
        let hidden = place("https://Team-Secret.Example/Purge", &["Team-Secret"]);
        assert_eq!(hidden.to_string(), "https://[redacted].Example/Purge");
        assert_eq!(hidden.clean("not valid for team-secret.example."), "not valid for [redacted].");
        let spanning = place("https://web.example/a?token=Abc", &["a\\?token=\\w+"]);
        assert_eq!(spanning.to_string(), "https://web.example/[redacted]");
        let led =
            place("https://web.example/", &[]).leads_to("https://Team-Secret.example/x", &hiding(&["Team-Secret"]));
        assert_eq!(led.unwrap().unwrap().to_string(), "https://[redacted].example/…");
        assert_eq!(written_origin("http://ada:pw@Proxy-A:1/", &hiding(&["Proxy-A"])), "http://[redacted]:1");
    }

    #[test]
    fn nothing_is_seen_of_an_address_that_is_a_secret_nor_of_where_it_leads() {
        let secret = Place::secret(request_url("https://urls3cret.example/T0").unwrap());
        assert_eq!(format!("{secret} {secret:?}"), "*** ***");
        assert_eq!(secret.clean("valid for \"urls3cret.example\" only"), "valid for \"***\" only");
        let led = secret.leads_to("https://other.example/T1", &hiding(&[])).unwrap().unwrap();
        assert_eq!((led.to_string().as_str(), led.url.as_str()), ("***", "https://other.example/T1"));
    }

    #[test]
    fn the_path_of_a_place_that_a_server_names_is_not_shown() {
        let here = place("http://Web:8080/a/b", &[]);
        for (location, shown) in [
            ("c?token=1", "http://Web:8080/…"),
            ("/", "http://Web:8080"),
            ("/?token=1", "http://Web:8080"),
            ("//Other/x", "http://Other/…"),
            ("https://Other/x#y", "https://Other/…"),
        ] {
            assert_eq!(here.leads_to(location, &hiding(&[])).unwrap().unwrap().to_string(), shown, "{location}");
        }
        assert!(here.leads_to("http://ada:pw@b/", &hiding(&[])).unwrap().is_err());
        assert!(here.leads_to("http://", &hiding(&[])).is_none());
    }
}
