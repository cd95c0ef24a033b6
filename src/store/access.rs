//! What a store's URL cannot or should not hold: accounts and certificates in files.

use crate::file;
use crate::file::Unread;
use crate::job::CA_FILE_BYTES_MOST;
use crate::job::authorities;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::PrivateKeyDer;
use rustls::pki_types::pem::PemObject;
use std::path::Path;
use std::path::PathBuf;

/// Accounts and certificates. The files are read at each connecting, so what is renewed in them is in force at the next.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Access {
    /// Of the store itself; where set, it wins over the URL's.
    pub account: Account,
    /// Of the Sentinels of a Redis, which have users and passwords of their own.
    pub sentinel: Account,
    /// The authorities that may vouch for the server, PEM; else those of the system.
    pub ca_file: Option<PathBuf>,
    /// Our certificate and those that vouch for it, PEM; with [`Access::key_file`].
    pub cert_file: Option<PathBuf>,
    /// Its private key, PEM.
    pub key_file: Option<PathBuf>,
}

/// A user and where the password is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Account {
    /// The user's name.
    pub user: Option<String>,
    /// A file with the user's name.
    pub user_file: Option<PathBuf>,
    /// A file with the password.
    pub password_file: Option<PathBuf>,
}

impl Access {
    /// Whether there is nothing in it.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// What the files of certificates hold now, each looked at: drivers that read them themselves would wait for a pipe,
    /// and do not say which file is at fault.
    ///
    /// # Errors
    /// In words: which file, and what is wrong with it.
    pub(super) fn papers(&self) -> Result<Papers, String> {
        fn read<T>(path: &Path, look: impl Fn(&[u8]) -> Result<T, String>) -> Result<Vec<u8>, String> {
            let pem = bytes_of(path)?;
            look(&pem).map_err(|error| format!("`{}` {error}", path.display()))?;
            Ok(pem)
        }
        let ca = self.ca_file.as_deref().map(|path| read(path, authorities)).transpose()?;
        let own = match (&self.cert_file, &self.key_file) {
            (Some(certificate), Some(key)) => Some((read(certificate, certificates)?, read(key, private_key)?)),
            _ => None,
        };
        Ok(Papers { ca, own })
    }
}

/// Certificates and a key, PEM.
pub(super) struct Papers {
    /// The authorities that may vouch for the server.
    pub ca: Option<Vec<u8>>,
    /// Our certificate with those that vouch for it, and its key.
    pub own: Option<(Vec<u8>, Vec<u8>)>,
}

/// The certificates of a PEM file, one at least.
///
/// # Errors
/// There is none, or one that cannot be read. The text follows the name of the file.
pub(super) fn certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, String> {
    let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    match read {
        Err(error) => Err(format!("has a certificate that cannot be read: {error}")),
        Ok(list) if list.is_empty() => Err("has no certificate in it: write PEM, `-----BEGIN CERTIFICATE-----`".into()),
        Ok(list) => Ok(list),
    }
}

/// The private key of a PEM file.
///
/// # Errors
/// There is none. The text follows the name of the file.
pub(super) fn private_key(pem: &[u8]) -> Result<PrivateKeyDer<'static>, String> {
    PrivateKeyDer::from_pem_slice(pem)
        .map_err(|_| "has no private key: write PEM, `-----BEGIN PRIVATE KEY-----`".to_owned())
}

/// Reads a file whole.
///
/// # Errors
/// In words: which file, and what is wrong with it.
pub(super) fn bytes_of(path: &Path) -> Result<Vec<u8>, String> {
    let shown = path.display();
    file::read(path, CA_FILE_BYTES_MOST).map_err(|error| match error {
        Unread::NotRegular => {
            format!("`{shown}` is not a regular file: it is read again at each connecting, so write one")
        }
        error => format!("read `{shown}`: {error}"),
    })
}

/// Reads a word from a file: its only line, without the end that editors write.
///
/// # Errors
/// As [`bytes_of`]. Nothing of what the file holds is repeated.
pub(super) fn word_of(path: &Path) -> Result<String, String> {
    let shown = path.display();
    let text = String::from_utf8(bytes_of(path)?).map_err(|_| format!("`{shown}` is not text in UTF-8"))?;
    let text = text.strip_suffix('\n').unwrap_or(&text);
    let text = text.strip_suffix('\r').unwrap_or(text);
    match text {
        "" => Err(format!("`{shown}` is empty")),
        _ if text.contains(['\n', '\r']) => Err(format!("`{shown}` has more than one line")),
        _ if text.contains('\0') => Err(format!("`{shown}` has a NUL byte, which no user and no password has")),
        _ => Ok(text.to_owned()),
    }
}

/// The same where nobody else waits for it: a file system may hang.
///
/// # Errors
/// As [`word_of`].
pub(super) async fn word_in(path: &Path) -> Result<String, String> {
    let path = path.to_owned();
    let read = tokio::task::spawn_blocking(move || word_of(&path)).await;
    read.unwrap_or_else(|_| Err("the file cannot be read".into()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_word_is_the_only_line_of_its_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("password");
        for (text, word) in [
            ("s3cret", Ok("s3cret")),
            ("s3cret\n", Ok("s3cret")),
            ("s3cret\r\n", Ok("s3cret")),
            (" s3 cret ", Ok(" s3 cret ")),
            ("", Err("is empty")),
            ("\n", Err("is empty")),
            ("s3cret\nother\n", Err("more than one line")),
        ] {
            fs::write(&path, text).unwrap();
            match (word_of(&path), word) {
                (Ok(found), Ok(wanted)) => assert_eq!(found, wanted),
                (Err(found), Err(wanted)) => assert!(found.contains(wanted) && !found.contains("cret"), "{found}"),
                (found, wanted) => panic!("{text:?}: {found:?} and not {wanted:?}"),
            }
        }
        assert!(word_of(&folder.path().join("absent")).unwrap_err().starts_with("read `"));
        assert!(word_of(folder.path()).unwrap_err().ends_with("so write one"));
        let pipe = folder.path().join("pipe");
        nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
        assert!(word_of(&pipe).unwrap_err().ends_with("so write one"), "and nobody waits for its other end");
        let access = Access { ca_file: Some(pipe), ..Access::default() };
        assert!(access.papers().is_err_and(|error| error.ends_with("so write one")));
    }
}
