//! From a place to a client that may enter there: accounts, certificates.

use super::failure::Failure;
use super::url::Address;
use crate::store::access::Access;
use crate::store::access::Account;
use crate::store::access::Papers;
use crate::store::access::word_of;
use crate::store::place::Place;
use redis::Client;
use redis::ClientTlsConfig;
use redis::ConnectionAddr;
use redis::ConnectionInfo;
use redis::IntoConnectionInfo;
use redis::RedisConnectionInfo;
use redis::TlsCertificates;
use std::fmt;
use std::path::Path;
use std::path::PathBuf;
use std::sync::Arc;

/// Whom a client is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Of {
    Server,
    Sentinel,
}

/// The way in.
#[derive(Clone)]
pub(super) struct Door {
    address: Arc<Address>,
    access: Arc<Access>,
}

impl fmt::Debug for Door {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Door({})", self.address.shown())
    }
}

impl Door {
    /// For a URL and what was named beside it.
    ///
    /// # Errors
    /// What does not fit together. No file is read.
    pub fn new(address: Address, access: &Access) -> Result<Self, String> {
        if access.cert_file.is_some() != access.key_file.is_some() {
            return Err("a certificate and its key belong together: give --store-cert-file and --store-key-file".into());
        }
        let has_certificates = access.ca_file.is_some() || access.cert_file.is_some();
        if has_certificates && !address.tls {
            return Err(
                "certificates are named, and the URL is one without TLS: write rediss:// and not redis://".into()
            );
        }
        if access.sentinel != Account::default() && !matches!(address.mode, super::url::Mode::Sentinel { .. }) {
            return Err("an account for Sentinels is named, and the URL names none: write \
                        redis+sentinel://h1,h2,h3/mymaster"
                .into());
        }
        if address.tls {
            // Another part of the process may have been first, with the same one.
            let _ = rustls::crypto::ring::default_provider().install_default();
        }
        Ok(Self { address: Arc::new(address), access: Arc::new(access.clone()) })
    }

    /// The URL that it is for.
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// A client for one server or Sentinel. Files are read anew: what is in them may have been renewed.
    pub async fn client(&self, place: &Place, of: Of) -> Result<Client, Failure> {
        let (door, place) = (self.clone(), place.clone());
        let made = tokio::task::spawn_blocking(move || door.make(&place, of)).await;
        made.unwrap_or_else(|_| Err("the client cannot be made".into())).map_err(Failure::misconfigured)
    }

    fn make(&self, place: &Place, of: Of) -> Result<Client, String> {
        let (host, port) = (place.host.clone(), place.port);
        let addr = if self.address.tls {
            ConnectionAddr::TcpTls { host, port, insecure: false, tls_params: None }
        } else {
            ConnectionAddr::Tcp(host, port)
        };
        let words = |error: redis::RedisError| error.to_string();
        let info = addr.into_connection_info().map_err(words)?.set_redis_settings(self.settings(of)?);
        if self.address.tls { self.with_certificates(info) } else { Client::open(info).map_err(words) }
    }

    fn settings(&self, of: Of) -> Result<RedisConnectionInfo, String> {
        let account = match of {
            Of::Server => &self.access.account,
            Of::Sentinel => &self.access.sentinel,
        };
        let read = |file: &Option<PathBuf>, what: &str| {
            let word = file.as_deref().map(word_of).transpose();
            word.map_err(|error| format!("{what}: {error}"))
        };
        let (mut user, mut password) = (read(&account.user_file, "the user of the store")?, None);
        user = user.or_else(|| account.user.clone());
        password = read(&account.password_file, "the password of the store")?.or(password);
        if of == Of::Server {
            user = user.or_else(|| self.address.user.clone());
            password = password.or_else(|| self.address.password.as_ref().map(|password| password.expose().clone()));
        }
        // The name of the library is of no use to anybody, and takes a right.
        let mut settings = RedisConnectionInfo::default().set_skip_set_lib_name();
        if of == Of::Server {
            settings = settings.set_db(self.address.db.into());
        }
        if let Some(user) = user {
            settings = settings.set_username(user);
        }
        // Without a password the client would leave the user out, too, and be let in as `default`.
        if let Some(password) = password.or_else(|| settings.username().map(|_| String::new())) {
            settings = settings.set_password(password);
        }
        Ok(settings)
    }

    fn with_certificates(&self, info: ConnectionInfo) -> Result<Client, String> {
        let Papers { ca: root_cert, own } = self.access.papers()?;
        let client_tls = own.map(|(client_cert, client_key)| ClientTlsConfig { client_cert, client_key });
        let Access { ca_file, cert_file, key_file, .. } = &*self.access;
        let shown = |path: &Option<PathBuf>| path.as_deref().map(Path::display).map(|path| format!("`{path}`"));
        let files: Vec<String> = [ca_file, cert_file, key_file].into_iter().filter_map(shown).collect();
        Client::build_with_tls(info, TlsCertificates { client_tls, root_cert })
            .map_err(|error| format!("certificates of {}: {error}", files.join(", ")))
    }

    /// What to do about an error of TLS; empty where it is none.
    pub fn advice(&self, error: &str) -> String {
        let of_certificates = self.access.advice(error);
        // By TLS 1.3 a server hangs up on who shows none, and whether it can say why is a matter of luck.
        let hung_up = ["broken pipe", "reset by peer", "end of file"].iter().any(|word| error.contains(word));
        let is_plain = ["InvalidContentType", "corrupt message"].iter().any(|word| error.contains(word));
        match () {
            () if !of_certificates.is_empty() => of_certificates,
            () if hung_up && self.address.tls && self.access.cert_file.is_none() => {
                " (if the server wants a certificate of ours: --store-cert-file and --store-key-file)".into()
            }
            () if hung_up && !self.address.tls => {
                " (if that is so every time, it is another kind of server, or wants TLS: check host and port, or write \
                 rediss://)"
                    .into()
            }
            () if self.address.tls && error.contains("handshake eof") => " (is it the port for TLS?)".into(),
            () if self.address.tls && error.contains("did not answer") => {
                " (one that does not speak TLS stays silent, too: is it the port for TLS?)".into()
            }
            () if is_plain && self.address.tls => " (the server does not speak TLS at this port)".into(),
            () => String::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(url: &str, access: &Access) -> String {
        Door::new(Address::parse(url).unwrap(), access).unwrap_err()
    }

    #[test]
    fn what_does_not_fit_together_is_refused() {
        let with = |change: fn(&mut Access)| {
            let mut access = Access::default();
            change(&mut access);
            access
        };
        let half = with(|access| access.cert_file = Some("c.pem".into()));
        assert!(refused("rediss://cache", &half).contains("belong together"));
        let authority = with(|access| access.ca_file = Some("ca.pem".into()));
        assert!(refused("redis://cache", &authority).contains("write rediss://"));
        let sentinel = with(|access| access.sentinel.user = Some("watch".into()));
        assert!(refused("redis://cache", &sentinel).contains("redis+sentinel://"));
        Door::new(Address::parse("redis+sentinel://h/main").unwrap(), &sentinel).unwrap();
    }

    #[test]
    fn a_file_that_cannot_be_used_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let absent = folder.path().join("absent.pem");
        let place = Place { host: "cache".into(), port: 6379 };
        let made = |url: &str, access: &Access| {
            Door::new(Address::parse(url).unwrap(), access).unwrap().make(&place, Of::Server).map(|_| ()).unwrap_err()
        };
        let account = Account { password_file: Some(absent.clone()), ..Account::default() };
        let text = made("redis://cache", &Access { account, ..Access::default() });
        assert!(text.starts_with("the password of the store: read `") && text.contains("absent.pem"), "{text}");
        std::fs::write(&absent, "no certificate").unwrap();
        let text = made("rediss://cache", &Access { ca_file: Some(absent), ..Access::default() });
        assert!(text.contains("has no certificate in it"), "{text}");
    }
}
