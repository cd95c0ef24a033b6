//! TLS of the HTTP server: a certificate and its key in files. They are looked at again while it serves, because
//! certificates are short-lived and daemons are not.

use super::turn::Turn;
use crate::causes;
use crate::file;
use crate::secret::Secret;
use crate::telemetry::events;
use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::PrivateKeyDer;
use rustls::pki_types::pem::PemObject;
use std::fmt;
use std::path::Path;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::time::Duration;
use tokio::time::sleep;

/// Files are looked at so often.
const LOOK_EVERY: Duration = Duration::from_secs(5);
/// How long that may take.
const READ_WITHIN: Duration = Duration::from_secs(10);
/// A chain of certificates is shorter.
const BYTES_MOST: u64 = 1 << 20;

/// Where certificate and key are, both as PEM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsFiles {
    /// The server's certificate, and those that lead from it to an authority.
    pub certificate: PathBuf,
    /// Its key.
    pub key: PathBuf,
}

/// What the files had.
#[derive(Clone)]
struct Loaded {
    config: Arc<ServerConfig>,
    contents: Contents,
}

/// To see that they have something else now.
#[derive(Clone, PartialEq, Eq)]
struct Contents {
    certificate: Vec<u8>,
    key: Secret<Vec<u8>>,
}

/// The settings of connections, as the files have them.
pub struct Tls {
    files: TlsFiles,
    loaded: Mutex<Loaded>,
}

/// What looks at the files have found, and what was said of it.
#[derive(Debug, Default)]
struct Looks {
    found: Option<String>,
    said: Option<String>,
}

impl Looks {
    /// What is to be said after a look: that the pair in the files is in use, or why it is not. `looked`: whether it is
    /// another one than before.
    fn hear(&mut self, looked: Result<bool, String>) -> Option<Result<(), String>> {
        match looked {
            Ok(is_new) => {
                self.found = None;
                (self.said.take().is_some() || is_new).then_some(Ok(()))
            }
            // Who writes the two files one after the other leaves a pair for a moment that does not fit: that is said
            // only when nothing fits at the second look either; and another reason, when it is still that one.
            Err(problem) => {
                let before = self.found.replace(problem.clone());
                let is_lasting = before.is_some_and(|before| self.said.is_none() || before == problem);
                if !is_lasting || self.said.as_ref() == Some(&problem) {
                    return None;
                }
                self.said = Some(problem.clone());
                Some(Err(problem))
            }
        }
    }
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls").field("files", &self.files).finish_non_exhaustive()
    }
}

impl Tls {
    /// Reads the files. It blocks, as long as the file system likes.
    ///
    /// # Errors
    /// In words: which file, what was found, and what belongs there.
    pub fn open(files: TlsFiles) -> Result<Self, String> {
        let loaded = Mutex::new(load(&files)?);
        Ok(Self { files, loaded })
    }

    /// For the next connection.
    pub(super) fn config(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.loaded.lock().unwrap_or_else(PoisonError::into_inner).config)
    }

    /// Looks at the files for as long as it is polled. A pair that cannot be used changes nothing but the log.
    pub(super) async fn keep(self: Arc<Self>) {
        let (turn, mut looks) = (Turn::default(), Looks::default());
        loop {
            sleep(LOOK_EVERY).await;
            let files = self.files.clone();
            let late = || Err(format!("read `{}`: no answer within {READ_WITHIN:?}", self.files.certificate.display()));
            let read = turn.read(READ_WITHIN, move || contents(&files)).await;
            let looked = read.unwrap_or_else(late).and_then(|contents| self.take(contents));
            match looks.hear(looked) {
                Some(Ok(())) => events::tls_replaced(&self.files.certificate.display().to_string()),
                Some(Err(problem)) => events::tls_refused(&problem),
                None => {}
            }
        }
    }

    /// Whether they are others than before.
    fn take(&self, contents: Contents) -> Result<bool, String> {
        let mut loaded = self.loaded.lock().unwrap_or_else(PoisonError::into_inner);
        if loaded.contents == contents {
            return Ok(false);
        }
        *loaded = Loaded { config: config(&self.files, &contents)?, contents };
        Ok(true)
    }
}

fn load(files: &TlsFiles) -> Result<Loaded, String> {
    let contents = contents(files)?;
    Ok(Loaded { config: config(files, &contents)?, contents })
}

fn contents(files: &TlsFiles) -> Result<Contents, String> {
    Ok(Contents { certificate: read(&files.certificate, "certificate")?, key: Secret::new(read(&files.key, "key")?) })
}

fn read(file: &Path, what: &str) -> Result<Vec<u8>, String> {
    let failed = |error| format!("read the {what} of the HTTP server from `{}`: {error}", file.display());
    file::read(file, BYTES_MOST).map_err(failed)
}

fn config(files: &TlsFiles, contents: &Contents) -> Result<Arc<ServerConfig>, String> {
    let (certificate, key) = (files.certificate.display(), files.key.display());
    // Nor is what is wrong with a certificate: a key may stand beside it.
    let chain: Vec<CertificateDer<'static>> = CertificateDer::pem_slice_iter(&contents.certificate)
        .collect::<Result<_, _>>()
        .map_err(|_| format!("`{certificate}` has a certificate that cannot be read: write each as PEM"))?;
    if chain.is_empty() {
        return Err(format!("`{certificate}` has no certificate: it begins with `-----BEGIN CERTIFICATE-----`"));
    }
    // What is wrong with a key is not repeated: it might show a part of it.
    let private = PrivateKeyDer::from_pem_slice(contents.key.expose())
        .map_err(|_| format!("`{key}` has no key: it begins with `-----BEGIN PRIVATE KEY-----`"))?;
    let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| causes::chain(&error))?
        .with_no_client_auth()
        .with_single_cert(chain, private)
        .map_err(|error| format!("`{certificate}` and `{key}` cannot be used together: {}", causes::chain(&error)))?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn pair(folder: &Path, name: &str) -> TlsFiles {
        let key = rcgen::KeyPair::generate().unwrap();
        let params = rcgen::CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        let files =
            TlsFiles { certificate: folder.join(format!("{name}.pem")), key: folder.join(format!("{name}.key")) };
        fs::write(&files.certificate, params.self_signed(&key).unwrap().pem()).unwrap();
        fs::write(&files.key, key.serialize_pem()).unwrap();
        files
    }

    #[test]
    fn what_is_no_pair_is_refused_and_the_key_is_not_shown() {
        let folder = tempfile::tempdir().unwrap();
        let (one, two) = (pair(folder.path(), "one"), pair(folder.path(), "two"));
        assert!(Tls::open(one.clone()).is_ok());
        let no_key = folder.path().join("none.key");
        fs::write(&no_key, "-----BEGIN PRIVATE KEY-----\nhunter2\n-----END PRIVATE KEY-----\n").unwrap();
        let [half, large] = ["half", "large"].map(|name| folder.path().join(name));
        let good = fs::read_to_string(&one.certificate).unwrap();
        fs::write(&half, format!("{good}-----BEGIN CERTIFICATE-----\nhunter2\n")).unwrap();
        fs::write(&large, good + &"\n".repeat(1 << 20)).unwrap();
        for (files, found) in [
            (TlsFiles { key: two.key.clone(), ..one.clone() }, "cannot be used together"),
            (TlsFiles { key: one.certificate.clone(), ..one.clone() }, "has no key"),
            (TlsFiles { key: no_key, ..one.clone() }, "none.key"),
            (TlsFiles { certificate: one.key.clone(), ..one.clone() }, "has no certificate"),
            (TlsFiles { certificate: half, ..one.clone() }, "has a certificate that cannot be read"),
            (TlsFiles { certificate: large, ..one.clone() }, "it has more than 1024 KiB"),
            (TlsFiles { certificate: folder.path().join("none"), ..one.clone() }, "No such file"),
            (TlsFiles { certificate: folder.path().to_owned(), ..one.clone() }, "not a regular file"),
        ] {
            let problem = Tls::open(files).unwrap_err();
            assert!(problem.contains(found) && !problem.contains("hunter2"), "{problem}");
        }
    }

    #[test]
    fn another_pair_counts_from_then_on_and_a_broken_one_does_not() {
        let folder = tempfile::tempdir().unwrap();
        let (one, two) = (pair(folder.path(), "one"), pair(folder.path(), "two"));
        let tls = Tls::open(one.clone()).unwrap();
        let before = tls.config();
        assert_eq!(tls.take(contents(&one).unwrap()), Ok(false));
        let mixed = TlsFiles { key: two.key.clone(), ..one.clone() };
        assert!(tls.take(contents(&mixed).unwrap()).is_err());
        assert!(Arc::ptr_eq(&tls.config(), &before));
        assert_eq!(tls.take(contents(&two).unwrap()), Ok(true));
        assert!(!Arc::ptr_eq(&tls.config(), &before));
    }

    #[test]
    fn a_pair_that_does_not_fit_is_said_at_the_second_look_and_once() {
        let (bad, worse) = (|| Err("half".to_owned()), || Err("none".to_owned()));
        let mut looks = Looks::default();
        assert_eq!(looks.hear(Ok(false)), None);
        assert_eq!(looks.hear(bad()), None, "the other file may be on its way");
        assert_eq!(looks.hear(Ok(true)), Some(Ok(())), "as it was");
        assert_eq!(
            (looks.hear(bad()), looks.hear(bad()), looks.hear(bad())),
            (None, Some(bad().map(|_: bool| ())), None)
        );
        assert_eq!(
            (looks.hear(worse()), looks.hear(worse())),
            (None, Some(worse().map(|_: bool| ()))),
            "another reason"
        );
        assert_eq!((looks.hear(Ok(false)), looks.hear(Ok(false))), (Some(Ok(())), None), "in order again");
        let changing = (looks.hear(bad()), looks.hear(worse()), looks.hear(bad()));
        assert_eq!(changing, (None, Some(worse().map(|_: bool| ())), None), "a new reason at each look");
    }
}
