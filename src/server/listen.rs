//! The address that is listened on.

use std::fmt;
use std::io;
use std::net::Ipv4Addr;
use std::net::SocketAddr;
use std::net::TcpListener;
use std::str::FromStr;

/// Where a daemon listens that was told nothing: this host only.
pub const DEFAULT_LISTEN: &str = "127.0.0.1:8080";

/// Where to listen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Listen {
    /// Nowhere.
    Nowhere,
    /// On this address; port 0: on any that is free.
    At(SocketAddr),
}

impl FromStr for Listen {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if ["none", "off"].contains(&text) {
            return Ok(Self::Nowhere);
        }
        let local = text.strip_prefix("localhost:").and_then(|port| port.parse().ok());
        let local = local.map(|port: u16| SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
        local.or_else(|| text.parse().ok()).map(Self::At).ok_or_else(|| {
            format!(
                "an address and a port are expected: write {DEFAULT_LISTEN} for this host alone, 0.0.0.0:8080 or \
                 [::]:8080 for all, or none"
            )
        })
    }
}

impl fmt::Display for Listen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nowhere => f.write_str("none"),
            Self::At(address) => address.fmt(f),
        }
    }
}

/// Takes an address. Connections wait there until a [`Server`](super::Server) answers them.
///
/// # Errors
/// Somebody else has it, or this host has no such address, or it is not allowed.
pub fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    let listener = TcpListener::bind(address)?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_a_port_and_none_is_none() {
        for (text, shown) in [
            ("none", "none"),
            ("off", "none"),
            ("127.0.0.1:8080", "127.0.0.1:8080"),
            ("localhost:0", "127.0.0.1:0"),
            ("[::]:8080", "[::]:8080"),
        ] {
            assert_eq!(text.parse::<Listen>().unwrap().to_string(), shown);
        }
        for text in ["", "8080", ":8080", "0.0.0.0", "localhost:x", "example.org:80", "127.0.0.1:99999"] {
            let error = text.parse::<Listen>().unwrap_err();
            assert!(error.contains("0.0.0.0:8080"), "{text}: {error}");
        }
    }
}
