//! `onecron healthcheck`: one probe of a daemon, for images that have nothing else that could do it.

use super::listen_args::ListenArgs;
use super::store_args::Failed;
use super::store_args::UNAVAILABLE;
use super::table_args;
use crate::server::Listen;
use clap::Args;
use rustls::ClientConfig;
use rustls::ClientConnection;
use rustls::DigitallySignedStruct;
use rustls::Error;
use rustls::SignatureScheme;
use rustls::Stream;
use rustls::client::danger::HandshakeSignatureValid;
use rustls::client::danger::ServerCertVerified;
use rustls::client::danger::ServerCertVerifier;
use rustls::crypto::CryptoProvider;
use rustls::crypto::ring;
use rustls::crypto::verify_tls12_signature;
use rustls::crypto::verify_tls13_signature;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::ServerName;
use rustls::pki_types::UnixTime;
use std::io;
use std::io::Read;
use std::io::Write;
use std::net::Ipv4Addr;
use std::net::Ipv6Addr;
use std::net::SocketAddr;
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

/// How long each step may take.
const WITHIN: Duration = Duration::from_secs(3);
/// Answers of probes are shorter.
const ANSWER_MOST: u64 = 4096;

/// Asks the daemon of this host whether it is alive
///
/// It gets /livez of the address that the daemon listens on (ONECRON_LISTEN, so that in a container nothing has to be said
/// twice), or with --ready its /readyz; by TLS where --tls-cert-file is given (ONECRON_TLS_CERT_FILE), whatever certificate
/// the daemon has. For `HEALTHCHECK` of a Dockerfile. Exit codes: 0 yes; 1 no; 2 called wrongly; 69
/// nobody answers there; 78 the daemon listens nowhere.
#[derive(Debug, Clone, Args)]
pub struct HealthcheckArgs {
    /// Whether it is ready: its table is right, the store has answered, and it is not ending
    #[arg(long)]
    pub ready: bool,
    /// Where it listens.
    #[command(flatten)]
    pub listen: ListenArgs,
}

/// Runs the command. Returns the exit code.
pub fn run(args: &HealthcheckArgs, (out, err): (&mut dyn Write, &mut dyn Write)) -> i32 {
    check(args, out).unwrap_or_else(|failed| failed.say(err))
}

fn check(args: &HealthcheckArgs, out: &mut dyn Write) -> Result<i32, Failed> {
    let Listen::At(address) = args.listen.listen else {
        let message = "the daemon answers no HTTP requests: `--listen none`".to_owned();
        let hint = "give daemon and healthcheck the same address in ONECRON_LISTEN, or do without a healthcheck";
        return Err(Failed { code: table_args::CONFIG, message, hint: Some(hint.to_owned()) });
    };
    let (address, path) = (reachable(address), if args.ready { "/readyz?verbose" } else { "/livez" });
    let is_encrypted = args.listen.tls_cert_file.as_ref().is_some_and(|file| !file.as_os_str().is_empty());
    let scheme = if is_encrypted { "https" } else { "http" };
    let (status, body) = get(address, path, is_encrypted).map_err(|error| Failed {
        code: UNAVAILABLE,
        message: format!("get {scheme}://{address}{path}: {error}"),
        hint: Some("write --listen with the address that the daemon has said in `http_listening`".to_owned()),
    })?;
    // Nothing can be done about a closed terminal, and the exit code is the answer.
    let _ = out.write_all(body.as_bytes());
    Ok(if status == 200 { table_args::OK } else { table_args::FAILED })
}

/// From this host, what listens on all addresses is reached at its own.
fn reachable(address: SocketAddr) -> SocketAddr {
    match address {
        SocketAddr::V4(v4) if v4.ip().is_unspecified() => (Ipv4Addr::LOCALHOST, v4.port()).into(),
        SocketAddr::V6(v6) if v6.ip().is_unspecified() => (Ipv6Addr::LOCALHOST, v6.port()).into(),
        other => other,
    }
}

fn get(address: SocketAddr, path: &str, is_encrypted: bool) -> io::Result<(u16, String)> {
    let mut stream = TcpStream::connect_timeout(&address, WITHIN)?;
    stream.set_read_timeout(Some(WITHIN))?;
    stream.set_write_timeout(Some(WITHIN))?;
    let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    let answer = if is_encrypted {
        let mut connection = encrypted(address)?;
        exchange(&mut Stream::new(&mut connection, &mut stream), &request)?
    } else {
        exchange(&mut stream, &request)?
    };
    let answer = String::from_utf8_lossy(&answer);
    let no_answer = || io::Error::new(io::ErrorKind::InvalidData, "what answers there is no HTTP server");
    let (head, body) = answer.split_once("\r\n\r\n").ok_or_else(no_answer)?;
    let status = head.strip_prefix("HTTP/1.1 ").and_then(|rest| rest.get(..3)?.parse().ok()).ok_or_else(no_answer)?;
    Ok((status, body.to_owned()))
}

fn exchange(stream: &mut (impl Read + Write), request: &str) -> io::Result<Vec<u8>> {
    stream.write_all(request.as_bytes())?;
    let mut answer = Vec::new();
    stream.take(ANSWER_MOST).read_to_end(&mut answer)?;
    Ok(answer)
}

fn encrypted(address: SocketAddr) -> io::Result<ClientConnection> {
    let provider = Arc::new(ring::default_provider());
    let config = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(io::Error::other)?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Anybody(provider)))
        .with_no_client_auth();
    let name = ServerName::IpAddress(address.ip().into());
    ClientConnection::new(Arc::new(config), name).map_err(io::Error::other)
}

/// Takes any certificate, as the kubelet's probes do: it is made out to the name of a Service, and not to this host's
/// address. Nothing secret is sent, and whoever could answer here in the daemon's place is on the daemon's host.
#[derive(Debug)]
struct Anybody(Arc<CryptoProvider>);

impl ServerCertVerifier for Anybody {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signature, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signature, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
