//! `gene-registry healthcheck` checks whether a replica is ready, for container probes.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use http_body_util::Empty;
use hyper_util::rt::TokioIo;
use poem::http::{Request, StatusCode, header};
use tokio::net::TcpStream;

use super::command::{CommandError, CommandResult, block_on};
use super::config_file::ConfigFile;
use super::output::print;

/// Longest wait for the response.
const READY_TIMEOUT: Duration = Duration::from_secs(2);

#[derive(Debug, Args)]
pub(super) struct Healthcheck {
    #[command(flatten)]
    config: ConfigFile,
}

impl Healthcheck {
    pub(super) fn run(self) -> CommandResult {
        let mut address = self.config.read()?.config.ops.bind;
        if address.ip().is_unspecified() {
            address.set_ip(IpAddr::V4(Ipv4Addr::LOCALHOST));
        }
        block_on(async move {
            let status = tokio::time::timeout(READY_TIMEOUT, readiness(address)).await??;
            print(&format!("{address}/readyz: {status}\n"))?;
            Ok(if status == StatusCode::OK { ExitCode::SUCCESS } else { ExitCode::FAILURE })
        })
    }
}

async fn readiness(address: SocketAddr) -> Result<StatusCode, CommandError> {
    let stream = TcpStream::connect(address).await?;
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    tokio::spawn(connection);
    let request = Request::get("/readyz").header(header::HOST, address.to_string());
    let request = request.body(Empty::<bytes::Bytes>::new())?;
    Ok(sender.send_request(request).await?.status())
}
