//! Bounds how many connections one peer may hold.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use crate::config::Network;
use crate::net::RequestSource;
use crate::sync::{LogThrottle, lock};

/// The peers that hold connections to one listener. Each may hold at most as many as are free, and
/// so at most half of all; so may all peers of one IPv6 network of 48 bits together. Trusted proxies
/// may hold any number. There are never more than two entries for each connection.
#[derive(Debug)]
pub struct Peers {
    trusted_proxies: Vec<Network>,
    /// How many connections each holds.
    held: Mutex<HashMap<Holder, usize>>,
    refused: AtomicU64,
    log_throttle: LogThrottle,
}

/// Whose connections are counted together: a peer, or the peers of an IPv6 network of 48 bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Holder {
    Peer(IpAddr),
    Site(IpAddr),
}

impl Holder {
    fn all_of(source: RequestSource) -> impl Iterator<Item = Self> {
        let site = source.site().map(Self::Site);
        [Self::Peer(source.network())].into_iter().chain(site)
    }
}

impl Peers {
    /// Peers within `trusted_proxies` are neither counted nor refused.
    pub fn new(trusted_proxies: Vec<Network>) -> Self {
        Self {
            trusted_proxies,
            held: Mutex::default(),
            refused: AtomicU64::new(0),
            log_throttle: LogThrottle::default(),
        }
    }

    /// How many connections have been refused since the start.
    pub fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    /// Counts a new connection from `address` until the result is dropped. `free` is the number of
    /// connections that the listener could still accept besides it. `None` if the peer already
    /// holds that many; one is always allowed.
    pub(super) fn admit(self: &Arc<Self>, address: IpAddr, free: usize) -> Option<PeerSlot> {
        if self.trusted_proxies.iter().any(|network| network.contains(address)) {
            return Some(PeerSlot(None));
        }
        let source = RequestSource::of(address);
        let mut held = lock(&self.held);
        let connections = Holder::all_of(source).filter_map(|holder| held.get(&holder).copied());
        let connections = connections.max().unwrap_or_default();
        if connections > 0 && connections >= free {
            drop(held);
            self.refused.fetch_add(1, Ordering::Relaxed);
            if self.log_throttle.is_due() {
                log_refused(source.network(), connections, free);
            }
            return None;
        }
        for holder in Holder::all_of(source) {
            *held.entry(holder).or_default() += 1;
        }
        Some(PeerSlot(Some((Arc::clone(self), source))))
    }

    fn release(&self, source: RequestSource) {
        let mut held = lock(&self.held);
        for holder in Holder::all_of(source) {
            let Some(connections) = held.get_mut(&holder) else { continue };
            *connections -= 1;
            if *connections == 0 {
                held.remove(&holder);
            }
        }
    }
}

fn log_refused(peer: IpAddr, connections: usize, free: usize) {
    tracing::warn!(
        %peer,
        connections,
        free,
        "connections refused: this peer, or its IPv6 network of 48 bits, holds as many as are free. \
         If it is a proxy, list it in server.trusted_proxies; else raise server.max_connections or \
         block it"
    );
}

/// An accepted connection, counted for its peer; `None` for a trusted proxy.
#[derive(Debug)]
pub(super) struct PeerSlot(Option<(Arc<Peers>, RequestSource)>);

impl PeerSlot {
    /// Whether the peer is a trusted proxy, which limits its own clients.
    pub(super) fn is_trusted_proxy(&self) -> bool {
        self.0.is_none()
    }
}

impl Drop for PeerSlot {
    fn drop(&mut self) {
        if let Some((peers, source)) = &self.0 {
            peers.release(*source);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

    /// The connections that these peers get in turn from a listener with `max` connections.
    fn fill(peers: &Arc<Peers>, max: usize, addresses: &[&str]) -> Vec<PeerSlot> {
        let mut slots = Vec::new();
        for address in addresses {
            while slots.len() < max {
                let Some(slot) = peers.admit(ip(address), max - slots.len() - 1) else { break };
                slots.push(slot);
            }
        }
        slots
    }

    #[test]
    fn a_peer_gets_half_of_what_is_free() {
        for (max, addresses, expected) in [
            (1, &["10.0.0.1"][..], 1),
            (2, &["10.0.0.1"], 1),
            (3, &["10.0.0.1"], 1),
            (10_000, &["10.0.0.1"], 5_000),
            (16, &["10.0.0.1", "10.0.0.2"], 8 + 4),
            (2, &["10.0.0.1", "10.0.0.2", "10.0.0.3"], 2),
        ] {
            let peers = Arc::new(Peers::new(Vec::new()));
            assert_eq!(fill(&peers, max, addresses).len(), expected, "{max} {addresses:?}");
        }
    }

    #[test]
    fn ipv6_peers_are_networks_of_64_and_of_48_bits_and_a_mapped_address_is_its_ipv4_address() {
        let peers = Arc::new(Peers::new(Vec::new()));
        let same = ["2001:db8::1", "2001:db8::2", "2001:db8::ffff:0:0:1"];
        assert_eq!(fill(&peers, 16, &same).len(), 8);
        let peers = Arc::new(Peers::new(Vec::new()));
        assert_eq!(fill(&peers, 16, &["2001:db8::1", "2001:db8:1::1"]).len(), 12);
        let peers = Arc::new(Peers::new(Vec::new()));
        let one_site = ["2001:db8::1", "2001:db8:0:1::1", "2001:db8:0:ffff::1"];
        assert_eq!(fill(&peers, 16, &one_site).len(), 8);
        let peers = Arc::new(Peers::new(Vec::new()));
        assert_eq!(fill(&peers, 16, &["10.0.0.1", "::ffff:10.0.0.1"]).len(), 8);
    }

    #[test]
    fn trusted_proxies_get_all_and_are_not_counted() {
        let peers = Arc::new(Peers::new(vec!["10.0.0.0/8".parse().expect("a network")]));
        assert_eq!(fill(&peers, 16, &["10.1.2.3"]).len(), 16);
        assert!(lock(&peers.held).is_empty());
    }

    #[test]
    fn closed_connections_are_free_again_and_leave_no_entry() {
        let peers = Arc::new(Peers::new(Vec::new()));
        let slots = fill(&peers, 16, &["10.0.0.1", "10.0.0.2"]);
        assert_eq!((lock(&peers.held).len(), peers.refused()), (2, 2));
        drop(slots);
        assert!(lock(&peers.held).is_empty());
        assert_eq!(fill(&peers, 16, &["10.0.0.1"]).len(), 8);
    }
}
