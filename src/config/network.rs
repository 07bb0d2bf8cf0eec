//! IP addresses and networks in the configuration.

use std::net::IpAddr;
use std::str::FromStr;

use serde::Deserialize;
use thiserror::Error;

/// A network such as `10.0.0.0/8`, or one address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct Network {
    address: IpAddr,
    bits: u32,
}

/// The text is neither an address nor a network.
#[derive(Debug, Error)]
#[error("`{0}` is neither an address nor a network such as 10.0.0.0/8")]
pub struct InvalidNetwork(String);

impl Network {
    /// Whether `address` is in the network. An IPv4 address equals its IPv4-mapped IPv6 form.
    pub fn contains(&self, address: IpAddr) -> bool {
        match (self.address, address.to_canonical()) {
            (IpAddr::V4(network), IpAddr::V4(address)) => {
                shares(network.to_bits().into(), address.to_bits().into(), 32, self.bits)
            }
            (IpAddr::V6(network), IpAddr::V6(address)) => {
                shares(network.to_bits(), address.to_bits(), 128, self.bits)
            }
            _ => false,
        }
    }
}

/// Whether two addresses of `width` bits begin with the same `bits`.
fn shares(a: u128, b: u128, width: u32, bits: u32) -> bool {
    (a ^ b).checked_shr(width - bits).unwrap_or_default() == 0
}

impl FromStr for Network {
    type Err = InvalidNetwork;

    fn from_str(text: &str) -> Result<Self, InvalidNetwork> {
        let invalid = || InvalidNetwork(text.to_owned());
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) => (address, Some(bits.parse().map_err(|_| invalid())?)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_| invalid())?;
        let width = if address.is_ipv4() { 32 } else { 128 };
        let bits = bits.unwrap_or(width);
        (bits <= width).then_some(Self { address, bits }).ok_or_else(invalid)
    }
}

impl TryFrom<String> for Network {
    type Error = InvalidNetwork;

    fn try_from(text: String) -> Result<Self, InvalidNetwork> {
        text.parse()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_contains_the_addresses_with_its_prefix() {
        for (network, address, contains) in [
            ("10.0.0.0/8", "10.255.0.1", true),
            ("10.0.0.0/8", "11.0.0.1", false),
            ("10.1.2.3/8", "10.9.9.9", true),
            ("127.0.0.1", "127.0.0.1", true),
            ("127.0.0.1", "127.0.0.2", false),
            ("127.0.0.1", "::ffff:127.0.0.1", true),
            ("0.0.0.0/0", "203.0.113.9", true),
            ("0.0.0.0/0", "::1", false),
            ("::/0", "2001:db8::1", true),
            ("fd00::/8", "fd12::1", true),
            ("fd00::/8", "fe80::1", false),
        ] {
            let (parsed, address): (Network, IpAddr) =
                (network.parse().expect(network), address.parse().expect(address));
            assert_eq!(parsed.contains(address), contains, "{network} {address}");
        }
        for wrong in ["", "localhost", "10.0.0.0/33", "::1/129", "10.0.0.0/", "10.0.0/8", "1/-1"] {
            assert!(wrong.parse::<Network>().is_err(), "{wrong}");
        }
    }
}
