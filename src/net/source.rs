//! Where requests come from. Clients are told apart by the networks that they own: an IPv6 client
//! may use any address of its network.

use std::net::IpAddr;

use ipnet::Ipv6Net;

/// The length of the prefix of an IPv6 network that one subscriber usually has (RFC 6177).
const SUBSCRIBER_BITS: u8 = 64;

/// The length of the prefix of the largest IPv6 network that one site usually has (RFC 6177).
const SITE_BITS: u8 = 48;

/// The address of a client. An IPv4-mapped IPv6 address is its IPv4 address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RequestSource(IpAddr);

impl RequestSource {
    /// The source with this address.
    pub fn of(address: IpAddr) -> Self {
        Self(address.to_canonical())
    }

    /// The address itself, or the IPv6 network of 64 bits that it is in.
    pub(crate) fn network(self) -> IpAddr {
        self.ipv6_network(SUBSCRIBER_BITS).unwrap_or(self.0)
    }

    /// The IPv6 network of 48 bits that the address is in; `None` for IPv4.
    pub(crate) fn site(self) -> Option<IpAddr> {
        self.ipv6_network(SITE_BITS)
    }

    fn ipv6_network(self, bits: u8) -> Option<IpAddr> {
        let IpAddr::V6(address) = self.0 else { return None };
        Some(Ipv6Net::new_assert(address, bits).network().into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ipv6_source_is_its_network_and_a_mapped_address_is_its_ipv4_address() {
        let ip = |text: &str| text.parse::<IpAddr>().expect("an address");
        for (address, network, site) in [
            ("10.0.0.1", "10.0.0.1", None),
            ("::ffff:10.0.0.1", "10.0.0.1", None),
            ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::", Some("2001:db8:1::")),
            ("2001:db8:1:ffff::", "2001:db8:1:ffff::", Some("2001:db8:1::")),
            ("::1", "::", Some("::")),
        ] {
            let source = RequestSource::of(ip(address));
            assert_eq!((source.network(), source.site()), (ip(network), site.map(ip)), "{address}");
        }
    }
}
