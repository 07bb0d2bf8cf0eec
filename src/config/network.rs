//! IP addresses and networks in the configuration.

use std::net::IpAddr;
use std::str::FromStr;

use ipnet::IpNet;
use serde::Deserialize;
use thiserror::Error;

/// A network such as `10.0.0.0/8`, or a single address. Host bits may be set; they are ignored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct Network(IpNet);

/// The text is neither an address nor a network.
#[derive(Debug, Error)]
#[error("`{0}` is neither an address nor a network such as 10.0.0.0/8")]
pub struct InvalidNetwork(String);

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
        network.map(Self).map_err(|_| InvalidNetwork(text.to_owned()))
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
