//! IP addresses and networks in the configuration.

use std::net::IpAddr;
use std::str::FromStr;

use ipnet::{IpNet, Ipv4Net};
use serde::Deserialize;
use thiserror::Error;

/// The length of the prefix that IPv4-mapped IPv6 addresses share (RFC 4291, section 2.5.5.2).
const MAPPED_PREFIX_BITS: u8 = 96;

/// A network such as `10.0.0.0/8`, or a single address. Host bits may be set; they are ignored.
/// IPv4-mapped IPv6 networks are the IPv4 networks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct Network(IpNet);

/// The text is neither an address nor a network. It is not repeated: it may be a misplaced secret.
#[derive(Debug, Error)]
#[error("must be an address, or a network such as 10.0.0.0/8")]
pub struct InvalidNetwork;

impl Network {
    /// Whether `address` is in the network. An IPv4 address equals its IPv4-mapped IPv6 form.
    pub fn contains(&self, address: IpAddr) -> bool {
        self.0.contains(&address.to_canonical())
    }
}

impl FromStr for Network {
    type Err = InvalidNetwork;

    fn from_str(text: &str) -> Result<Self, InvalidNetwork> {
        let network = text.parse().or_else(|_| text.parse::<IpAddr>().map(IpNet::from));
        network.map(|network| Self(unmapped(network))).map_err(|_| InvalidNetwork)
    }
}

/// The IPv4 network, if all addresses of `network` are IPv4-mapped.
fn unmapped(network: IpNet) -> IpNet {
    let IpNet::V6(ipv6) = network else { return network };
    let bits = ipv6.prefix_len().checked_sub(MAPPED_PREFIX_BITS);
    let ipv4 = ipv6.addr().to_ipv4_mapped().zip(bits);
    ipv4.and_then(|(address, bits)| Ipv4Net::new(address, bits).ok()).map_or(network, IpNet::V4)
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
            ("::ffff:127.0.0.1", "127.0.0.1", true),
            ("::ffff:127.0.0.0/104", "127.9.9.9", true),
            ("::ffff:127.0.0.0/104", "128.0.0.1", false),
            ("::ffff:127.0.0.0/104", "::ffff:127.9.9.9", true),
            ("::ffff:0:0/96", "203.0.113.9", true),
            ("::/0", "203.0.113.9", false),
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
