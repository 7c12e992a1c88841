//! Addresses of transport endpoints, as nodes exchange them.

use std::net::{IpAddr, SocketAddr};

use farside_fabric::{Error, Result};

/// The address of a transport endpoint, as other nodes are told it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Address {
    ip: IpAddr,
    length: u8,
    bytes: [u8; Address::BYTES_MAX],
}

impl Address {
    /// The length of the longest address of any transport.
    pub const BYTES_MAX: usize = 120;

    /// Makes an address of the host's IP address and the transport's own bytes.
    pub fn new(ip: IpAddr, address: &[u8]) -> Result<Address> {
        if address.len() > Address::BYTES_MAX {
            let (value, limit) = (address.len() as u64, Address::BYTES_MAX as u64);
            return Err(Error::TooMuch { what: "bytes of a transport's address", value, limit });
        }
        let mut bytes = [0; Address::BYTES_MAX];
        bytes[..address.len()].copy_from_slice(address);
        Ok(Address { ip, length: address.len() as u8, bytes })
    }

    /// Returns the IP address of the host.
    pub fn ip(&self) -> IpAddr {
        self.ip
    }

    /// Returns the transport's own bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.length)]
    }

    /// Returns the socket address, if this is an address of UDP.
    pub fn socket(&self) -> Option<SocketAddr> {
        match *self.bytes() {
            [low, high] => Some(SocketAddr::new(self.ip, u16::from_le_bytes([low, high]))),
            _ => None,
        }
    }
}

impl From<SocketAddr> for Address {
    fn from(at: SocketAddr) -> Address {
        let mut bytes = [0; Address::BYTES_MAX];
        bytes[..2].copy_from_slice(&at.port().to_le_bytes());
        Address { ip: at.ip(), length: 2, bytes }
    }
}

/// Writes the address as launchers pass it on: the IP address, a slash, and the transport's bytes
/// in hexadecimal digits.
impl std::fmt::Display for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/", self.ip)?;
        self.bytes().iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl std::str::FromStr for Address {
    type Err = Error;

    fn from_str(text: &str) -> Result<Address> {
        let bad = || {
            Error::InvalidArgument(format!(
                "{text:?} is not the address of a transport endpoint; expected IP/HEXDIGITS"
            ))
        };
        let (ip, digits) = text.split_once('/').ok_or_else(bad)?;
        if !digits.is_ascii() || digits.len() % 2 != 0 {
            return Err(bad());
        }
        let byte = |at: usize| u8::from_str_radix(&digits[at..at + 2], 16).map_err(|_| bad());
        let bytes = (0..digits.len()).step_by(2).map(byte).collect::<Result<Vec<u8>>>()?;
        Address::new(ip.parse().map_err(|_| bad())?, &bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_survive_as_text() {
        let udp = Address::from(SocketAddr::from(([10, 1, 2, 3], 4711)));
        let other = Address::new("fe80::1".parse().unwrap(), &[0, 255, 7]).unwrap();
        for address in [udp, other] {
            assert_eq!(address.to_string().parse::<Address>().unwrap(), address);
        }
        for text in ["", "10.0.0.1", "10.0.0.1/abc", "10.0.0.1/zz", "host/00", "10.0.0.1/ää"] {
            assert!(text.parse::<Address>().is_err(), "{text:?}");
        }
    }
}
