//! `gene-registry healthcheck` checks whether a replica is ready, for container probes.

use std::net::{IpAddr, Ipv4Addr};
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
        let status = tokio::time::timeout(READY_TIMEOUT, response).await??.status();
        print(&format!("{address}/readyz: {status}\n"))?;
        Ok(if status == StatusCode::OK { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    })
}
