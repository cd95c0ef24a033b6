//! What a store's URL cannot or should not hold: accounts and certificates in files.

use crate::file;
use crate::file::Unread;
use crate::job::CA_FILE_BYTES_MOST;
use crate::job::authorities;
use rustls::crypto::ring;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::PrivateKeyDer;
use rustls::pki_types::pem::PemObject;
use rustls::sign::CertifiedKey;
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
        if let (Some((certificate, key)), Some(files)) = (&own, self.shown_pair()) {
            fit(certificate, key).map_err(|error| format!("{files} do not fit together: {error}"))?;
        }
        Ok(Papers { ca, own })
    }

    /// What to do about what TLS says against a certificate, the server's or ours; empty where it is about something else.
    pub(super) fn advice(&self, error: &str) -> String {
        let has = |words: &[&str]| words.iter().any(|word| error.contains(word));
        let is_unknown = has(&["UnknownIssuer", "CaUsedAsEndEntity", "BadSignature"]);
        let wants_ours = has(&["CertificateRequired", "HandshakeFailure"]);
        let refuses_ours = has(&["alert: UnknownCA", "alert: BadCertificate", "alert: DecryptError"]);
        match (&self.ca_file, self.shown_pair()) {
            (Some(file), _) if is_unknown => format!(" (`{}` has no certificate that vouches for it)", file.display()),
            (None, _) if is_unknown => " (a private authority has to be named: --store-ca-file /path/to/ca.pem)".into(),
            _ if has(&["not valid for name", "NotValidForName"]) => {
                " (the server's certificate is for another name: connect by a name or address that stands in it)".into()
            }
            (_, None) if wants_ours => {
                " (the server wants a certificate of ours: --store-cert-file and --store-key-file)".into()
            }
            (_, Some(files)) if refuses_ours => {
                format!(" (the server does not trust our certificate, {files}: give one of the authority that it asks)")
            }
            (_, Some(files)) if has(&["alert: CertificateExpired"]) => {
                format!(" (our certificate, {files}, has expired: renew it)")
            }
            _ => String::new(),
        }
    }

    /// The files of our own certificate, as they may be shown.
    fn shown_pair(&self) -> Option<String> {
        let (certificate, key) = (self.cert_file.as_deref()?, self.key_file.as_deref()?);
        Some(format!("`{}` and `{}`", certificate.display(), key.display()))
    }
}

/// Whether a certificate is that of a key.
fn fit(certificate: &[u8], key: &[u8]) -> Result<(), String> {
    let provider = ring::default_provider();
    let made = CertifiedKey::from_der(certificates(certificate)?, private_key(key)?, &provider);
    made.map(|_| ()).map_err(|error| error.to_string())
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

/// What the heading of a private key says that takes a passphrase, or the line below it.
const ENCRYPTED: &[u8] = b"ENCRYPTED";

/// The private key of a PEM file.
///
/// # Errors
/// There is none. The text follows the name of the file.
pub(super) fn private_key(pem: &[u8]) -> Result<PrivateKeyDer<'static>, String> {
    let is_locked = || pem.windows(ENCRYPTED.len()).any(|part| part == ENCRYPTED);
    PrivateKeyDer::from_pem_slice(pem).map_err(|_| match is_locked() {
        true => "has a private key that is encrypted: write it without a passphrase".to_owned(),
        false => "has no private key: write PEM, `-----BEGIN PRIVATE KEY-----`".to_owned(),
    })
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
    fn a_key_that_takes_a_passphrase_is_told_from_one_that_is_none() {
        for (text, told) in [
            ("-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n", "a passphrase"),
            ("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", "has no private key"),
        ] {
            let error = private_key(text.as_bytes()).unwrap_err();
            assert!(error.contains(told), "{error}");
        }
    }

    #[test]
    fn what_tls_says_of_certificates_is_told_with_what_to_give() {
        let none = Access::default();
        let [ca, cert, key] = ["ca.pem", "our.pem", "our.key"].map(|name| Some(PathBuf::from(name)));
        let all = Access { ca_file: ca, cert_file: cert, key_file: key, ..Access::default() };
        for (error, without, with) in [
            ("invalid peer certificate: UnknownIssuer", "--store-ca-file", "`ca.pem` has no certificate"),
            ("certificate not valid for name \"db\"", "for another name", "for another name"),
            ("received fatal alert: CertificateRequired", "--store-cert-file", ""),
            ("received fatal alert: UnknownCA", "", "`our.pem` and `our.key`"),
            ("received fatal alert: CertificateExpired", "", "has expired"),
            ("connection refused", "", ""),
        ] {
            for (access, wanted) in [(&none, without), (&all, with)] {
                let advice = access.advice(error);
                assert!(advice.contains(wanted) && wanted.is_empty() == advice.is_empty(), "{error}: {advice}");
            }
        }
    }

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
