//! `gene-registry healthcheck` checks whether a replica is ready, for container probes.

use std::error::Error;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::process::ExitCode;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Empty;
use hyper::StatusCode;
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;

use super::command::{CommandResult, block_on};
use super::config_file::ConfigFile;
use super::output::print;
use crate::net::io_reason;
use crate::ops::error_chain;

/// Longest wait for the response.
const READY_TIMEOUT: Duration = Duration::from_secs(2);

pub(super) fn run(config: &ConfigFile) -> CommandResult {
    let mut address = config.read()?.config.ops.bind;
    if address.ip().is_unspecified() {
        address.set_ip(IpAddr::V4(Ipv4Addr::LOCALHOST));
    }
    block_on(async move {
        let client = Client::builder(TokioExecutor::new()).build_http::<Empty<Bytes>>();
        let response = client.get(format!("http://{address}/readyz").parse()?);
        let response = tokio::time::timeout(READY_TIMEOUT, response).await.map_err(|_| {
            format!("{address} did not respond within {} s", READY_TIMEOUT.as_secs())
        })?;
        let status = response.map_err(|error| failure(address, &error))?.status();
        print(&format!("{address}/readyz: {status}\n"))?;
        Ok(if status == StatusCode::OK { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    })
}

/// Why there is no response.
fn failure(address: SocketAddr, error: &(dyn Error + 'static)) -> String {
    let mut causes = std::iter::successors(error.source(), |&cause| cause.source());
    match causes.find_map(|cause| cause.downcast_ref::<io::Error>()) {
        Some(error) => format!("cannot connect to {address}: {}", io_reason(error)),
        None => format!("{address} sent no valid response: {}", error_chain(error)),
    }
}
