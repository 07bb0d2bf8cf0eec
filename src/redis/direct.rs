//! Direct connections to the servers of a topology, without pools and circuit breakers, for commands
//! that check them.

use std::net::IpAddr;
use std::time::Duration;

use futures_util::future::join_all;
use redis::aio::MultiplexedConnection;
use redis::{ConnectionAddr, RedisResult};

use super::dial::dial;
use super::servers::{Server, Servers};
use super::topology::ask;

/// The name of a server, and a connection to it or the reason why there is none.
pub type DirectConnection = (String, RedisResult<MultiplexedConnection>);

impl Servers {
    /// Connects to each server that holds data, within `timeout` each.
    pub async fn connect_each(&self, timeout: Duration) -> Vec<DirectConnection> {
        match self {
            Self::Single(server) => vec![connect(server, timeout).await],
            Self::Sentinel(sentinels) => match sentinels.primary(timeout).await {
                Ok((connection, address)) => vec![(address.to_string(), Ok(connection))],
                Err(error) => vec![(format!("the primary {}", sentinels.service), Err(error))],
            },
            Self::Cluster { node, others } => {
                let mut failures = Vec::new();
                for seed in std::iter::once(node).chain(others) {
                    match ask(seed, timeout).await {
                        Ok(report) => {
                            let primaries = report.primaries().into_iter();
                            let primaries = primaries.map(|(host, port)| seed.moved(host, *port));
                            let primaries: Vec<_> = primaries.collect();
                            return join_all(primaries.iter().map(|it| connect(it, timeout))).await;
                        }
                        Err(error) => failures.push((seed.address.to_string(), Err(error))),
                    }
                }
                failures
            }
        }
    }

    /// Whether passwords and data are sent over a network without encryption.
    pub fn is_exposed(&self) -> bool {
        let servers = match self {
            Self::Single(server) => std::slice::from_ref(server),
            Self::Sentinel(sentinels) => &sentinels.nodes,
            Self::Cluster { node, .. } => std::slice::from_ref(node),
        };
        servers.iter().any(|server| match &server.address {
            ConnectionAddr::Tcp(host, _) => {
                let is_local =
                    host.parse().map_or(host == "localhost", |ip: IpAddr| ip.is_loopback());
                server.tls.is_none() && !is_local
            }
            _ => false,
        })
    }
}

async fn connect(server: &Server, timeout: Duration) -> DirectConnection {
    (server.address.to_string(), dial(server, timeout).await)
}
