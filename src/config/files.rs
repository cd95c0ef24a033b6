//! Reading the files of a table.

use std::fs;
use std::fs::File;
use std::io;
use std::io::Read;
use std::path::Path;
use std::path::PathBuf;

/// How large one file may be.
pub const BYTES_MOST: usize = 1 << 20;

/// One file of a table: its name for reports, and what is in it or why that is not known. Two equal ones make equal
/// tables, so whoever watches files compares these.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    path: String,
    content: Result<Vec<u8>, String>,
}

impl Source {
    /// Takes content that was read elsewhere, such as from standard input.
    pub fn new(path: impl Into<String>, content: Vec<u8>) -> Self {
        Self { path: path.into(), content: Ok(content) }
    }

    /// A file that could not be read: the reason, in the words of the system.
    pub fn unreadable(path: impl Into<String>, reason: impl Into<String>) -> Self {
        Self { path: path.into(), content: Err(reason.into()) }
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

/// Reads the given files, in the given order. Of a folder, the files that end in `.yaml` are read in the order of their
/// names, and hidden ones are not (in a Kubernetes volume those are other versions of it). It blocks, and it never
/// fails: what could not be read is in the result, and [`load`](super::load) reports it beside everything else.
pub fn read(paths: &[PathBuf]) -> Vec<Source> {
    paths.iter().flat_map(|path| if path.is_dir() { read_folder(path) } else { vec![read_file(path)] }).collect()
}

fn read_folder(folder: &Path) -> Vec<Source> {
    let unreadable = |reason: String| vec![Source::unreadable(folder.display().to_string(), reason)];
    let listed: io::Result<Vec<PathBuf>> =
        fs::read_dir(folder).and_then(|entries| entries.map(|entry| entry.map(|entry| entry.path())).collect());
    let mut paths = match listed {
        Ok(paths) => paths,
        Err(error) => return unreadable(error.to_string()),
    };
    let is_table = |path: &PathBuf| {
        let is_hidden = path.file_name().is_none_or(|name| name.to_string_lossy().starts_with('.'));
        !is_hidden && path.extension().is_some_and(|end| end == "yaml") && !path.is_dir()
    };
    paths.retain(is_table);
    paths.sort();
    if paths.is_empty() {
        return unreadable("the folder has no file that ends in `.yaml`".to_owned());
    }
    paths.iter().map(|path| read_file(path)).collect()
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
        Err(error) => Source::unreadable(name, error.to_string()),
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
    fn what_is_not_a_regular_file_is_refused_and_not_waited_for() {
        let sources = read(&[PathBuf::from("/dev/zero")]);
        assert!(sources[0].content().unwrap_err().contains("not a regular file"));
    }
}
