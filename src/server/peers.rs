//! Bounds how many connections one peer may hold.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use crate::config::Network;
use crate::net::RequestSource;
use crate::sync::{LogThrottle, lock};

/// The peers that hold connections to one listener. Each may hold at most as many as are free, and
/// so at most half of all. Trusted proxies may hold any number. There are never more entries than
/// connections.
#[derive(Debug)]
pub struct Peers {
    trusted_proxies: Vec<Network>,
    /// How many connections each peer holds.
    held: Mutex<HashMap<IpAddr, usize>>,
    refused: AtomicU64,
    log_throttle: LogThrottle,
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
        let peer = RequestSource::of(address).network();
        let mut held = lock(&self.held);
        let connections = held.get(&peer).copied().unwrap_or_default();
        if connections > 0 && connections >= free {
            drop(held);
            self.refused.fetch_add(1, Ordering::Relaxed);
            if self.log_throttle.is_due() {
                log_refused(peer, connections, free);
            }
            return None;
        }
        held.insert(peer, connections + 1);
        Some(PeerSlot(Some((Arc::clone(self), peer))))
    }

    fn release(&self, peer: IpAddr) {
        let mut held = lock(&self.held);
        let Some(connections) = held.get_mut(&peer) else { return };
        *connections -= 1;
        if *connections == 0 {
            held.remove(&peer);
        }
    }
}

fn log_refused(peer: IpAddr, connections: usize, free: usize) {
    tracing::warn!(
        %peer,
        connections,
        free,
        "connections refused: this peer holds as many as are free. If it is a proxy, list it in \
         server.trusted_proxies; else raise server.max_connections or block it"
    );
}

/// An accepted connection, counted for its peer; `None` for a trusted proxy.
#[derive(Debug)]
pub(super) struct PeerSlot(Option<(Arc<Peers>, IpAddr)>);

impl PeerSlot {
    /// Whether the peer is a trusted proxy, which limits its own clients.
    pub(super) fn is_trusted_proxy(&self) -> bool {
        self.0.is_none()
    }
}

impl Drop for PeerSlot {
    fn drop(&mut self) {
        if let Some((peers, peer)) = &self.0 {
            peers.release(*peer);
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
    fn an_ipv6_peer_is_a_network_of_64_bits_and_a_mapped_address_is_its_ipv4_address() {
        let peers = Arc::new(Peers::new(Vec::new()));
        let same = ["2001:db8::1", "2001:db8::2", "2001:db8::ffff:0:0:1"];
        assert_eq!(fill(&peers, 16, &same).len(), 8);
        let peers = Arc::new(Peers::new(Vec::new()));
        assert_eq!(fill(&peers, 16, &["2001:db8::1", "2001:db8:0:1::1"]).len(), 12);
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
