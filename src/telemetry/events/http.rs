//! Events about the daemon's HTTP server.

use std::net::IpAddr;
use std::net::SocketAddr;

/// HTTP requests are answered.
pub fn http_listening(address: SocketAddr) {
    event!(INFO, "http_listening", "HTTP requests are answered", address = address.to_string());
}

/// Somebody without the token wanted to act. `denied`: so often since this was said last.
pub fn api_denied(route: &str, remote: IpAddr, denied: u64) {
    event!(
        WARN,
        "api_denied",
        "an action without the right token was refused",
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
