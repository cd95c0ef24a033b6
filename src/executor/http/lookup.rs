//! From a host's name to its addresses, by the system's own lookup; which says that a name is not known when what it
//! lacks is a descriptor for its files and sockets.

use nix::errno::Errno;
use nix::sys::resource::Resource;
use nix::sys::resource::getrlimit;
use reqwest::dns::Addrs;
use reqwest::dns::Name;
use reqwest::dns::Resolve;
use reqwest::dns::Resolving;
use std::io;
use std::net::ToSocketAddrs;

/// With fewer than so many left, a name that is not found may be there.
const LEFT_LEAST: u64 = 16;

/// The lookup.
#[derive(Debug)]
pub(super) struct Lookup;

impl Resolve for Lookup {
    fn resolve(&self, name: Name) -> Resolving {
        let name = name.as_str().to_owned();
        Box::pin(async move {
            let found = tokio::task::spawn_blocking(move || addresses(&name)).await;
            let addresses: Addrs = Box::new(found.map_err(io::Error::other)??.into_iter());
            Ok(addresses)
        })
    }
}

fn addresses(name: &str) -> io::Result<Vec<std::net::SocketAddr>> {
    match (name, 0).to_socket_addrs() {
        Ok(addresses) => Ok(addresses.collect()),
        // At once, before others give theirs back.
        Err(_) if are_descriptors_short() => Err(Errno::EMFILE.into()),
        Err(error) => Err(error),
    }
}

fn are_descriptors_short() -> bool {
    let Ok(open) = std::fs::read_dir("/proc/self/fd") else { return true };
    let limit = getrlimit(Resource::RLIMIT_NOFILE).map_or(u64::MAX, |(soft, _)| soft);
    limit.saturating_sub(open.count() as u64) < LEFT_LEAST
}
