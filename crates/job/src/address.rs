//! Under which of its addresses the other hosts reach this one.

use std::net::{IpAddr, Ipv4Addr, ToSocketAddrs, UdpSocket};

/// The address to listen at, for the host that the user calls `hosts[node]`. In this order: the
/// address that the user has given; the name, if it is one; what the name means here; where the
/// remote shell was reached; from where another host is reached; the only address there is.
/// `giving` says how users give one.
pub fn find(
    hosts: &[String],
    node: usize,
    given: Option<IpAddr>,
    giving: &str,
) -> Result<IpAddr, String> {
    let name = hosts.get(node).map_or("", |name| bare(name));
    if let Some(address) = given.or_else(|| name.parse().ok()) {
        return usable(address).map_err(|error| {
            format!("this host has no address {address}, which it was given ({giving}): {error}")
        });
    }
    let serves = |address: &IpAddr| !address.is_loopback() && usable(*address).is_ok();
    if let Some(address) = resolve(name).into_iter().find(serves) {
        return Ok(address);
    }
    // The other hosts are this one too, or nothing works.
    if name == "localhost" {
        return Ok(Ipv4Addr::LOCALHOST.into());
    }
    let reached = std::env::var("SSH_CONNECTION").unwrap_or_default();
    if let Some(address) =
        reached.split(' ').nth(2).and_then(|word| word.parse().ok()).filter(serves)
    {
        return Ok(address);
    }
    let others = hosts.iter().enumerate().filter(|&(other, _)| other != node);
    if let Some(address) =
        others.flat_map(|(_, other)| resolve(bare(other))).filter_map(source).find(serves)
    {
        return Ok(address);
    }
    match own_addresses().as_slice() {
        [address] => Ok(*address),
        [] => Err(format!("this host has no address that others can reach; give it one: {giving}")),
        several => {
            let several: Vec<String> = several.iter().map(IpAddr::to_string).collect();
            Err(format!(
                "this host has several addresses, {}; say which one the others can reach: {giving}",
                several.join(", ")
            ))
        }
    }
}

/// A name without the user's.
fn bare(name: &str) -> &str {
    name.rsplit_once('@').map_or(name, |(_, name)| name)
}

fn resolve(name: &str) -> Vec<IpAddr> {
    let addresses = (name, 0).to_socket_addrs().map(Iterator::collect).unwrap_or_default();
    let addresses: Vec<std::net::SocketAddr> = addresses;
    addresses.into_iter().map(|address| address.ip()).collect()
}

/// The address itself, if this host has it.
fn usable(address: IpAddr) -> std::io::Result<IpAddr> {
    UdpSocket::bind((address, 0)).map(|_| address)
}

/// The address from which this host sends to that one.
fn source(to: IpAddr) -> Option<IpAddr> {
    let any: IpAddr = if to.is_ipv4() {
        Ipv4Addr::UNSPECIFIED.into()
    } else {
        std::net::Ipv6Addr::UNSPECIFIED.into()
    };
    let socket = UdpSocket::bind((any, 0)).ok()?;
    // Nothing is sent by this: the system only looks which way it would go.
    socket.connect((to, 9)).ok()?;
    Some(socket.local_addr().ok()?.ip())
}

/// The address that this host has in a network, written like `10.1.0.0/16`, or the address itself.
pub(crate) fn within(network: &str) -> Result<IpAddr, String> {
    choose(network, &own_addresses())
}

fn choose(network: &str, own: &[IpAddr]) -> Result<IpAddr, String> {
    if let Ok(address) = network.parse() {
        return usable(address)
            .map_err(|error| format!("this host has no address {address}: {error}"));
    }
    let parts = network.split_once('/').and_then(|(address, bits)| {
        let bits = bits.parse::<u32>().ok().filter(|&bits| bits <= 32)?;
        Some((address.parse::<Ipv4Addr>().ok()?, bits))
    });
    let (address, bits) = parts.ok_or_else(|| {
        format!("{network:?} is neither an address nor a network such as 10.1.0.0/16")
    })?;
    let mask = u32::MAX.checked_shl(32 - bits).unwrap_or(0);
    let inside = address.to_bits() & mask;
    let is_inside =
        |own: &&IpAddr| matches!(own, IpAddr::V4(own) if own.to_bits() & mask == inside);
    own.iter().find(is_inside).copied().ok_or_else(|| {
        let own: Vec<String> = own.iter().map(IpAddr::to_string).collect();
        format!("this host has no address in {network}; it has {}", own.join(", "))
    })
}

/// Returns the addresses of this host that other hosts can reach.
fn own_addresses() -> Vec<IpAddr> {
    local_addresses(&std::fs::read_to_string("/proc/net/fib_trie").unwrap_or_default())
}

/// The addresses that a table of routes marks as the host's own: `|-- 10.0.0.1`, followed by
/// `/32 host LOCAL`.
fn local_addresses(routes: &str) -> Vec<IpAddr> {
    let mut last = None;
    let mut found: Vec<IpAddr> = Vec::new();
    for line in routes.lines().map(str::trim) {
        if let Some(address) = line.strip_prefix("|-- ") {
            last = address.parse::<IpAddr>().ok();
        } else if line == "/32 host LOCAL"
            && let Some(address) = last
            && !address.is_loopback()
            && !found.contains(&address)
        {
            found.push(address);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hosts(names: &[&str]) -> Vec<String> {
        names.iter().map(|&name| name.to_owned()).collect()
    }

    #[test]
    fn an_address_that_is_given_is_taken_if_the_host_has_it() {
        let own: IpAddr = "127.0.0.2".parse().unwrap();
        assert_eq!(find(&hosts(&["a"]), 0, Some(own), ""), Ok(own));
        assert_eq!(find(&hosts(&["me@127.0.0.2", "b"]), 0, None, ""), Ok(own));
        let error = find(&hosts(&["a"]), 0, Some("192.0.2.1".parse().unwrap()), "").unwrap_err();
        assert!(error.contains("192.0.2.1"), "{error}");
    }

    #[test]
    fn a_network_chooses_among_the_addresses_of_a_host() {
        let own: Vec<IpAddr> =
            ["10.1.2.3", "192.168.0.7"].iter().map(|text| text.parse().unwrap()).collect();
        assert_eq!(choose("192.168.0.0/16", &own), Ok(own[1]));
        assert_eq!(choose("0.0.0.0/0", &own), Ok(own[0]));
        assert_eq!(choose("127.0.0.1", &own), Ok(Ipv4Addr::LOCALHOST.into()));
        let error = choose("172.16.0.0/12", &own).unwrap_err();
        assert!(error.contains("172.16.0.0/12") && error.contains("10.1.2.3"), "{error}");
        for bad in ["ib0", "10.0.0.0/33", "/8"] {
            assert!(choose(bad, &own).unwrap_err().contains(bad), "{bad}");
        }
    }

    #[test]
    fn localhost_is_where_it_says() {
        assert_eq!(
            find(&hosts(&["localhost", "localhost"]), 1, None, ""),
            Ok(Ipv4Addr::LOCALHOST.into())
        );
    }

    #[test]
    fn own_addresses_are_read_from_the_routes() {
        let routes = "Main:\n  +-- 0.0.0.0/0 3 0 5\n     |-- 0.0.0.0\n        /0 universe \
                      UNICAST\n     +-- 10.77.0.0/24 2 0 2\n        \
                      |-- 10.77.0.0\n           /24 link UNICAST\n        |-- 10.77.0.3\n          \
                       /32 host LOCAL\n        \
                      |-- 10.77.0.255\n           /32 link BROADCAST\n     |-- 127.0.0.1\n        \
                      /32 host LOCAL\nLocal:\n        \
                      |-- 10.77.0.3\n           /32 host LOCAL\n";
        assert_eq!(local_addresses(routes), ["10.77.0.3".parse::<IpAddr>().unwrap()]);
        assert_eq!(local_addresses("nonsense"), [] as [IpAddr; 0]);
    }
}
