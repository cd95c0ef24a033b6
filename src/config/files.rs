//! Reading the files of a table.

use super::hash;
use crate::plural::counted;
use std::fs;
use std::fs::File;
use std::io;
use std::io::Read;
use std::iter;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::path::PathBuf;

/// The table where no other is named.
pub const DEFAULT_PATH: &str = "/etc/onecron/jobs.yaml";
/// How long a chain of links is followed, as far as Linux does.
const LINKS_MOST: usize = 40;
/// How large one file may be.
pub const BYTES_MOST: usize = 1 << 20;

/// One file of a table: its name for reports, and what is in it or why that is not known. Two equal ones make equal
/// tables, so whoever watches files compares these.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    path: String,
    content: Result<Vec<u8>, String>,
    hint: String,
}

impl Source {
    /// Takes content that was read elsewhere, such as from standard input.
    pub fn new(path: impl Into<String>, content: Vec<u8>) -> Self {
        Self { path: path.into(), content: Ok(content), hint: String::new() }
    }

    /// A file that could not be read: the reason, in the words of the system.
    pub fn unreadable(path: impl Into<String>, reason: impl Into<String>) -> Self {
        Self { path: path.into(), content: Err(reason.into()), hint: String::new() }
    }

    /// What to write or do instead; only for one that could not be read.
    #[must_use]
    pub fn with_hint(self, hint: impl Into<String>) -> Self {
        Self { hint: hint.into(), ..self }
    }

    /// What to write or do instead; empty if nothing is known.
    pub fn hint(&self) -> &str {
        &self.hint
    }

    /// Reads to the end of something that is not a file by name. Reading stops just past the size that is refused.
    pub fn from_reader(path: impl Into<String>, reader: impl Read) -> Self {
        match bounded(reader) {
            Ok(content) => Self::new(path, content),
            Err(error) => Self::unreadable(path, error.to_string()),
        }
    }

    /// The file's name, as it was given.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// The bytes.
    ///
    /// # Errors
    /// The file could not be read; the text says why.
    pub fn content(&self) -> Result<&[u8], &str> {
        self.content.as_deref().map_err(String::as_str)
    }
}

/// What all files of a table have in them, or why that is not known, in 32 digits: equal for two readings that make the
/// same table or the same report. Times of files play no part; they lie.
pub fn fingerprint(sources: &[Source]) -> String {
    let length = |part: &[u8]| (part.len() as u64).to_be_bytes();
    let parts = sources.iter().flat_map(|source| {
        let (kind, content): (&[u8], &[u8]) = match source.content() {
            Ok(content) => (b"read", content),
            Err(reason) => (b"unread", reason.as_bytes()),
        };
        [source.path.as_bytes(), kind, content]
    });
    let parts: Vec<([u8; 8], &[u8])> = parts.map(|part| (length(part), part)).collect();
    let flat: Vec<&[u8]> = parts.iter().flat_map(|(length, part)| [&length[..], part]).collect();
    format!("{:032x}", hash::fnv128(&flat))
}

/// Whether something is mounted at this very path: a file that was mounted alone keeps its content when the one it came
/// from is replaced by another. `mounts` is `/proc/self/mountinfo`.
pub fn is_mounted_alone(path: &Path, mounts: &str) -> bool {
    let Ok(path) = path.canonicalize() else { return false };
    let points = mounts.lines().filter_map(|line| line.split(' ').nth(4));
    let mut points = points.map(unescaped);
    points.any(|point| point == path.as_os_str().as_bytes())
}

/// Blanks and backslashes of paths are written as `\040` there.
fn unescaped(text: &str) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let digits = after.get(..3).filter(|_| *first == b'\\').and_then(|digits| std::str::from_utf8(digits).ok());
        match digits.and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = &after[3..];
            }
            None => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    bytes
}

/// Reads the given files, in the given order. Of a folder, the files that end in `.yaml` are read in the order of their
/// names, and hidden ones are not (in a Kubernetes volume those are other versions of it). It blocks, and it never
/// fails: what could not be read is in the result, and [`load`](super::load) reports it beside everything else.
pub fn read(paths: &[PathBuf]) -> Vec<Source> {
    paths.iter().flat_map(|path| if path.is_dir() { read_folder(path) } else { vec![read_file(path)] }).collect()
}

/// What a table's name may end in by mistake.
const NEARLY_YAML: [&str; 3] = ["yml", "YAML", "YML"];

fn read_folder(folder: &Path) -> Vec<Source> {
    let unreadable = |reason: String| vec![Source::unreadable(folder.display().to_string(), reason)];
    let listed: io::Result<Vec<PathBuf>> =
        fs::read_dir(folder).and_then(|entries| entries.map(|entry| entry.map(|entry| entry.path())).collect());
    let paths = match listed {
        Ok(paths) => paths,
        Err(error) => return unreadable(error.to_string()),
    };
    let (mut tables, mut others): (Vec<PathBuf>, Vec<PathBuf>) =
        paths.into_iter().filter(|path| !is_hidden(path) && !path.is_dir()).partition(|path| ends_in(path, &["yaml"]));
    others.sort();
    if tables.is_empty() {
        let near = others.iter().find(|path| ends_in(path, &NEARLY_YAML));
        let hint = match near.and_then(|path| path.file_name()) {
            Some(name) => format!("only `.yaml` is read of a folder: rename `{}`, or name that file", name.display()),
            None => "put a table into it as `jobs.yaml`, or name the file itself".to_owned(),
        };
        let reason = "the folder has no file that ends in `.yaml`";
        return vec![Source::unreadable(folder.display().to_string(), reason).with_hint(hint)];
    }
    tables.sort();
    let passed_over = others.iter().filter(|path| ends_in(path, &NEARLY_YAML)).map(|path| {
        let name = path.file_name().unwrap_or_default().display().to_string();
        let hint = format!("rename `{name}` so that it ends in `.yaml`, or take it out of the folder");
        Source::unreadable(path.display().to_string(), "only files that end in `.yaml` are read of a folder")
            .with_hint(hint)
    });
    tables.iter().map(|path| read_file(path)).chain(passed_over).collect()
}

fn is_hidden(path: &Path) -> bool {
    path.file_name().is_none_or(|name| name.to_string_lossy().starts_with('.'))
}

fn ends_in(path: &Path, ends: &[&str]) -> bool {
    path.extension().is_some_and(|end| ends.iter().any(|known| end == *known))
}

fn read_file(path: &Path) -> Source {
    let name = path.display().to_string();
    // A pipe would be waited for without a word, and a device may never end.
    match fs::metadata(path) {
        Ok(meta) if !meta.is_file() => {
            return Source::unreadable(name, "it is not a regular file; `validate -` reads standard input");
        }
        _ => {}
    }
    match File::open(path) {
        Ok(file) => Source::from_reader(name, file),
        Err(error) => {
            let hint = match error.kind() {
                io::ErrorKind::NotFound => missing_hint(path),
                io::ErrorKind::PermissionDenied => "let the user that runs onecron read it".to_owned(),
                _ => String::new(),
            };
            Source::unreadable(name, error.to_string()).with_hint(hint)
        }
    }
}

/// A link that leads nowhere, and where it should lead; of a chain the last one. `None`: the path is no link.
fn lost_target(path: &Path) -> Option<(PathBuf, PathBuf)> {
    let step = |link: PathBuf| {
        let target = fs::read_link(&link).ok()?;
        let target = link.parent().map_or_else(|| target.clone(), |folder| folder.join(&target));
        Some((link, target))
    };
    iter::successors(step(path.to_owned()), |(_, target)| step(target.clone())).take(LINKS_MOST).last()
}

/// What there is instead of a file that is not there.
fn missing_hint(path: &Path) -> String {
    const SHOWN: usize = 3;
    if let Some((link, target)) = lost_target(path) {
        let (link, target) = (link.display(), target.display());
        return format!("`{link}` is a link to `{target}`, which is not there: put that back, or turn the link");
    }
    if path == Path::new(DEFAULT_PATH) && Path::new("jobs.yaml").is_file() {
        return "this is where a table is if nothing else is said; for the `jobs.yaml` of this folder write \
                `--jobs jobs.yaml` (`onecron validate jobs.yaml`)"
            .into();
    }
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let shown = folder.display();
    let Ok(entries) = fs::read_dir(folder) else {
        return format!("its folder `{shown}` cannot be read either: check the path, and what should be mounted there");
    };
    let mut found: Vec<String> = entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| !is_hidden(path) && (ends_in(path, &["yaml"]) || ends_in(path, &NEARLY_YAML)) && !path.is_dir())
        .filter_map(|path| Some(format!("`{}`", path.file_name()?.display())))
        .collect();
    found.sort();
    match found.len() {
        0 => format!("the folder `{shown}` has no `.yaml` file: name one with `--jobs`"),
        1..=SHOWN => format!("the folder `{shown}` has {}", found.join(", ")),
        count => {
            let (some, others) = (found[..SHOWN].join(", "), counted(count - SHOWN, "other"));
            format!("the folder `{shown}` has {some} and {others}")
        }
    }
}

/// One byte more than is allowed tells that there is too much.
fn bounded(reader: impl Read) -> io::Result<Vec<u8>> {
    let mut content = Vec::new();
    reader.take(BYTES_MOST as u64 + 1).read_to_end(&mut content)?;
    Ok(content)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fingerprint_sees_names_contents_and_reasons_and_nothing_else() {
        let fingerprint = |sources: &[(&str, Result<&str, &str>)]| {
            let source = |(path, content): &(&str, Result<&str, &str>)| match *content {
                Ok(text) => Source::new(*path, text.into()),
                Err(reason) => Source::unreadable(*path, reason).with_hint("a hint"),
            };
            super::fingerprint(&sources.iter().map(source).collect::<Vec<_>>())
        };
        let base = fingerprint(&[("a", Ok("x")), ("b", Ok("y"))]);
        assert_eq!(base, fingerprint(&[("a", Ok("x")), ("b", Ok("y"))]));
        for other in [
            fingerprint(&[("a", Ok("xb")), ("", Ok("y"))]),
            fingerprint(&[("a", Ok("x")), ("c", Ok("y"))]),
            fingerprint(&[("a", Ok("x")), ("b", Err("y"))]),
            fingerprint(&[("a", Ok("x"))]),
            fingerprint(&[]),
        ] {
            assert_ne!(base, other);
        }
    }

    #[test]
    fn a_file_that_is_a_mount_of_its_own_is_known_by_the_list_of_mounts() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().canonicalize().unwrap().join("my jobs.yaml");
        fs::write(&path, "jobs: []").unwrap();
        let line = |at: &str| format!("36 35 98:0 /x {at} ro,noatime - ext4 /dev/root rw\n");
        let escaped = path.display().to_string().replace(' ', "\\040");
        assert!(is_mounted_alone(&path, &(line("/proc") + &line(&escaped))));
        let above = path.parent().unwrap().display().to_string();
        assert!(!is_mounted_alone(&path, &(line("/") + &line(&above))));
        assert!(!is_mounted_alone(&folder.path().join("absent.yaml"), &line(&escaped)));
    }

    #[test]
    fn what_is_not_a_regular_file_is_refused_and_not_waited_for() {
        let sources = read(&[PathBuf::from("/dev/zero")]);
        assert!(sources[0].content().unwrap_err().contains("not a regular file"));
    }
}
