//! A zone that was refused, and which one was probably meant.

use super::zone_data::names;
use super::zone_data_version;
use std::fmt;
use strsim::levenshtein;

/// A name that is no zone.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct ZoneError {
    /// The text as written.
    pub found: String,
    /// Up to three names that may be meant, the likeliest first.
    pub nearest: Vec<String>,
    reason: Reason,
}

/// Why it was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reason {
    Empty,
    /// `+02:00`, `UTC+2`.
    Offset,
    /// `Local`.
    Host,
    /// `Factory`.
    NotSet,
    Unknown,
}

/// Abbreviations that people write and the database does not have: summer time has its own for the same place, and
/// some mean several places.
const ABBREVIATIONS: [(&str, &[&str]); 15] = [
    ("Z", &["UTC"]),
    ("PST", &["America/Los_Angeles"]),
    ("PDT", &["America/Los_Angeles"]),
    ("MDT", &["America/Denver"]),
    ("CST", &["America/Chicago", "Asia/Shanghai", "America/Havana"]),
    ("CDT", &["America/Chicago", "America/Havana"]),
    ("EDT", &["America/New_York"]),
    ("BST", &["Europe/London", "Asia/Dhaka"]),
    ("CEST", &["Europe/Berlin", "Europe/Paris", "Europe/Madrid"]),
    ("EEST", &["Europe/Athens", "Europe/Helsinki", "Europe/Kyiv"]),
    ("MSK", &["Europe/Moscow"]),
    ("IST", &["Asia/Kolkata", "Europe/Dublin", "Asia/Jerusalem"]),
    ("JST", &["Asia/Tokyo"]),
    ("KST", &["Asia/Seoul"]),
    ("AEST", &["Australia/Sydney", "Australia/Brisbane", "Australia/Melbourne"]),
];

/// Large cities whose zone has the name of another one, without their continent.
const CITIES: [(&str, &str); 12] = [
    ("beijing", "Asia/Shanghai"),
    ("shenzhen", "Asia/Shanghai"),
    ("mumbai", "Asia/Kolkata"),
    ("delhi", "Asia/Kolkata"),
    ("bangalore", "Asia/Kolkata"),
    ("osaka", "Asia/Tokyo"),
    ("frankfurt", "Europe/Berlin"),
    ("munich", "Europe/Berlin"),
    ("barcelona", "Europe/Madrid"),
    ("milan", "Europe/Rome"),
    ("san_francisco", "America/Los_Angeles"),
    ("washington", "America/New_York"),
];

const NEAREST_MAX: usize = 3;

impl ZoneError {
    pub(super) fn new(found: &str, reason: Reason) -> Self {
        let nearest = if reason == Reason::Unknown { nearest(found) } else { Vec::new() };
        Self { found: found.to_owned(), nearest, reason }
    }

    /// What to write instead.
    pub fn hint(&self) -> String {
        let quoted: Vec<_> = self.nearest.iter().map(|name| format!("`{name}`")).collect();
        match quoted.split_last() {
            None => "write a name of the IANA database, such as `Europe/Berlin` or `UTC`".into(),
            Some((only, [])) => format!("did you mean {only}?"),
            Some((last, others)) => format!("did you mean {} or {last}?", others.join(", ")),
        }
    }
}

/// So many characters of a refused name are shown.
const SHOWN_MAX: usize = 80;

impl fmt::Display for ZoneError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Whoever reads it has a terminal: control characters stay visible, and a page of text stays out.
        let shown: String = self.found.chars().take(SHOWN_MAX).collect();
        let more = if self.found.chars().nth(SHOWN_MAX).is_some() { "…" } else { "" };
        let found = format!("{}{more}", shown.escape_debug());
        match self.reason {
            Reason::Empty => write!(f, "the zone's name is empty"),
            Reason::Offset => {
                write!(f, "`{found}` is an offset, which knows no daylight saving, and not a zone's name")
            }
            Reason::Host => write!(f, "`{found}` means the host's zone, in which replicas may differ"),
            Reason::NotSet => write!(f, "`{found}` is the database's word for a zone that nobody has set yet"),
            Reason::Unknown => write!(f, "zone `{found}` is not in the zone data {}", zone_data_version()),
        }
    }
}

/// How many letters make one of the other; not looked at, and very many, if their lengths alone differ by over `limit`.
fn distance(one: &str, other: &str, limit: usize) -> usize {
    let is_far = one.chars().count().abs_diff(other.len()) > limit; // names of zones are ASCII
    if is_far { usize::MAX } else { levenshtein(one, other) }
}

/// Up to three names, the likeliest first.
pub(super) fn nearest(found: &str) -> Vec<String> {
    if let Some((_, names)) = ABBREVIATIONS.iter().find(|(short, _)| short.eq_ignore_ascii_case(found)) {
        return names.iter().map(|name| (*name).to_owned()).collect();
    }
    let wanted: String = found.chars().take(64).map(|c| if c == ' ' { '_' } else { c.to_ascii_lowercase() }).collect();
    let wanted_city = wanted.rsplit('/').next().unwrap_or(&wanted);
    if let Some((_, name)) = CITIES.iter().find(|(city, _)| *city == wanted_city) {
        return vec![(*name).to_owned()];
    }
    let folder = format!("{}/", wanted.trim_end_matches('/'));
    let inside = names().filter(|name| name.len() > folder.len() && name.to_ascii_lowercase().starts_with(&folder));
    let inside: Vec<String> = inside.take(NEAREST_MAX).map(str::to_owned).collect();
    if !inside.is_empty() {
        return inside; // `America/Argentina` is a folder of zones
    }
    let limit = 1 + wanted.chars().count() / 5;
    let mut scored: Vec<_> = names()
        .map(|name| {
            let lower = name.to_ascii_lowercase();
            let city = lower.rsplit('/').next().unwrap_or(&lower);
            // A right city on a wrong continent, or without one, is nearer than any misspelling.
            let by_city = if city.len() < 4 { usize::MAX } else { distance(wanted_city, city, limit) };
            let by_name = distance(&wanted, &lower, if by_city > limit { limit } else { usize::MAX });
            (by_city.min(by_name), by_name, name)
        })
        .filter(|(score, ..)| *score <= limit)
        .collect();
    scored.sort_unstable();
    scored.dedup();
    scored.into_iter().take(NEAREST_MAX).map(|(.., name)| name.to_owned()).collect()
}
