//! Events about the daemon's HTTP server.

use std::net::IpAddr;
use std::net::SocketAddr;

/// HTTP requests are answered.
pub fn http_listening(address: SocketAddr, is_encrypted: bool) {
    let address = address.to_string();
    event!(INFO, "http_listening", "HTTP requests are answered", address, encrypted = is_encrypted);
}

/// Connections get another certificate from now on, or the files have the one in use again.
pub fn tls_replaced(file: &str) {
    event!(INFO, "tls_replaced", "the certificate of the HTTP server is the one in its file", file);
}

/// The files cannot be used: what was read before goes on.
pub fn tls_refused(error: &str) {
    event!(ERROR, "tls_refused", "the HTTP server goes on with the certificate that it has", error);
}

/// Somebody with a wrong token wanted to act, or to read. `denied`: so often since this was said last.
pub fn api_denied(route: &str, remote: IpAddr, denied: u64) {
    event!(
        WARN,
        "api_denied",
        "a request without the right token was refused",
        route,
        remote = remote.to_string(),
        denied
    );
}

/// Somebody with the token acted. `result`: `done`, or the code of the problem.
pub fn api_called(action: &str, target: &str, (by, remote): (&str, IpAddr), result: &str) {
    let target = Some(target).filter(|target| !target.is_empty());
    event!(INFO, "api_called", "somebody acted over HTTP", action, target, by, remote = remote.to_string(), result);
}
