//! A small file, read whole: a setting, a secret, certificates. What is too large is refused, and never cut.

use std::fs::File;
use std::io;
use std::io::Read;
use std::path::Path;
use thiserror::Error;

/// Why a file was not read. The texts say nothing of what is in it, and do not name it.
#[derive(Debug, Error)]
pub enum Unread {
    /// A pipe would be waited for without a word, and a device may never end.
    #[error("it is not a regular file")]
    NotRegular,
    /// It has more bytes than it may have.
    #[error("it has more than {}, which is the most", size(*most))]
    TooLarge {
        /// So many are read.
        most: u64,
    },
    /// Text was wanted.
    #[error("it is not text in UTF-8")]
    NotText,
    /// The system does not give it.
    #[error(transparent)]
    System(#[from] io::Error),
}

fn size(bytes: u64) -> String {
    if bytes.is_multiple_of(1024) { format!("{} KiB", bytes >> 10) } else { format!("{bytes} bytes") }
}

/// The bytes of a regular file. It blocks, as long as the file system likes.
///
/// # Errors
/// It is no regular file, has more than `most` bytes, or cannot be read.
pub fn read(path: &Path, most: u64) -> Result<Vec<u8>, Unread> {
    if !path.metadata()?.is_file() {
        return Err(Unread::NotRegular);
    }
    let mut bytes = Vec::new();
    // One byte more than is allowed tells that there is too much.
    File::open(path)?.take(most.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most { Err(Unread::TooLarge { most }) } else { Ok(bytes) }
}

/// The text of a regular file. It blocks, as long as the file system likes.
///
/// # Errors
/// As of [`read`], or it is no text.
pub fn read_text(path: &Path, most: u64) -> Result<String, Unread> {
    String::from_utf8(read(path, most)?).map_err(|_| Unread::NotText)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read_whole_or_not_at_all() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        std::fs::write(&path, "12345").unwrap();
        assert_eq!(read(&path, 5).unwrap(), b"12345");
        assert!(matches!(read(&path, 4), Err(Unread::TooLarge { most: 4 })));
        assert_eq!(Unread::TooLarge { most: 64 << 10 }.to_string(), "it has more than 64 KiB, which is the most");
        assert_eq!(read_text(&path, u64::MAX).unwrap(), "12345");
        std::fs::write(&path, [0xff]).unwrap();
        assert!(matches!(read_text(&path, 5), Err(Unread::NotText)));
        assert!(read(&folder.path().join("none"), 5).unwrap_err().to_string().contains("No such file"));
    }

    #[test]
    fn what_is_no_regular_file_is_not_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
        for path in [&pipe, folder.path(), Path::new("/dev/zero")] {
            assert!(matches!(read(path, 5), Err(Unread::NotRegular)), "{path:?}");
        }
    }
}
