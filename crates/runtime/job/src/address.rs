//! Under which of its addresses the other hosts reach this one.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, ToSocketAddrs, UdpSocket};

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
    let (own, own_of_6): (Vec<IpAddr>, Vec<IpAddr>) =
        own_addresses().into_iter().partition(IpAddr::is_ipv4);
    match if own.is_empty() { own_of_6 } else { own }.as_slice() {
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

fn source(to: IpAddr) -> Option<IpAddr> {
    let any: IpAddr =
        if to.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
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
        let address = address.parse::<IpAddr>().ok()?;
        let bits = bits.parse::<u32>().ok()?;
        (bits <= if address.is_ipv4() { 32 } else { 128 }).then_some((address, bits))
    });
    let (address, bits) = parts.ok_or_else(|| {
        format!("{network:?} is neither an address nor a network such as 10.1.0.0/16 or fd00::/64")
    })?;
    let is_inside = |own: &&IpAddr| {
        own.is_ipv4() == address.is_ipv4() && prefix(**own, bits) == prefix(address, bits)
    };
    own.iter().find(is_inside).copied().ok_or_else(|| {
        let own: Vec<String> = own.iter().map(IpAddr::to_string).collect();
        format!("this host has no address in {network}; it has {}", own.join(", "))
    })
}

fn prefix(address: IpAddr, bits: u32) -> u128 {
    match address {
        IpAddr::V4(address) => u128::from(address.to_bits().checked_shr(32 - bits).unwrap_or(0)),
        IpAddr::V6(address) => address.to_bits().checked_shr(128 - bits).unwrap_or(0),
    }
}

/// Checks that hosts with these addresses reach each other. If not, returns which one is to have
/// another address, and why.
pub fn check_reach(hosts: &[(&str, IpAddr)]) -> Result<(), (usize, String)> {
    let is_loopback = |(_, address): &(&str, IpAddr)| address.is_loopback();
    if let Some(near) = hosts.iter().position(is_loopback)
        && !hosts.iter().all(is_loopback)
    {
        let why = format!("its address is {}, which the other hosts cannot reach", hosts[near].1);
        return Err((near, why));
    }
    let of_6 = hosts.iter().position(|(_, address)| address.is_ipv6());
    let of_4 = hosts.iter().find(|(_, address)| address.is_ipv4());
    match (of_6, of_4) {
        (Some(at), Some((other, of_4))) => Err((
            at,
            format!(
                "its address is {} and that of host {other} is {of_4}: IPv6 and IPv4 do not reach \
                 each other",
                hosts[at].1
            ),
        )),
        _ => Ok(()),
    }
}

/// Returns the addresses of this host that other hosts can reach.
fn own_addresses() -> Vec<IpAddr> {
    let read = |path| std::fs::read_to_string(path).unwrap_or_default();
    let mut own = local_addresses(&read("/proc/net/fib_trie"));
    own.extend(global_addresses(&read("/proc/net/if_inet6")));
    own
}

/// The addresses of IPv6 in a table of them that are not for one link only: each line begins with
/// an address, the number of its interface, its bits and its scope.
fn global_addresses(table: &str) -> Vec<IpAddr> {
    let parse = |line: &str| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let bits = u128::from_str_radix(fields.first()?, 16).ok()?;
        (fields.get(3) == Some(&"00")).then(|| Ipv6Addr::from_bits(bits).into())
    };
    table.lines().filter_map(parse).collect()
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
        let both = [own[0], "fd00::7".parse().unwrap()];
        assert_eq!(choose("fd00::/64", &both), Ok(both[1]));
        assert_eq!(choose("::/0", &both), Ok(both[1]));
        assert!(choose("fd01::/16", &both).is_err());
        for bad in ["ib0", "10.0.0.0/33", "/8", "fd00::/129"] {
            assert!(choose(bad, &own).unwrap_err().contains(bad), "{bad}");
        }
    }

    #[test]
    fn hosts_that_cannot_reach_each_other_are_named() {
        let check = |hosts: &[(&'static str, &str)]| {
            let parsed = hosts.iter().map(|(name, address)| (*name, address.parse().unwrap()));
            check_reach(&parsed.collect::<Vec<(&str, IpAddr)>>())
        };
        assert_eq!(check(&[("a", "10.0.0.1"), ("b", "10.0.0.2")]), Ok(()));
        assert_eq!(check(&[("a", "127.0.0.1"), ("b", "127.0.0.2")]), Ok(()));
        let (at, why) = check(&[("a", "10.0.0.1"), ("b", "127.0.0.1")]).unwrap_err();
        assert!(at == 1 && why.contains("127.0.0.1"), "{why}");
        let (at, why) = check(&[("a", "10.0.0.1"), ("b", "fd00::2")]).unwrap_err();
        assert!(at == 1 && why.contains("fd00::2") && why.contains("host a is 10.0.0.1"), "{why}");
    }

    #[test]
    fn addresses_of_ipv6_are_read_from_their_table() {
        let table = "00000000000000000000000000000001 01 80 10 80       lo\n\
                     fe800000000000000000000000000001 02 40 20 80     eth0\n\
                     fd000000000000000000000000000007 02 40 00 80     eth0\n";
        assert_eq!(global_addresses(table), ["fd00::7".parse::<IpAddr>().unwrap()]);
        assert_eq!(global_addresses("nonsense"), [] as [IpAddr; 0]);
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
