//! HAProxy with the configuration of the compose stack, before a listener of a test's replica.

use std::path::PathBuf;
use std::time::Duration;

use super::process::{Launch, Process, find_program};
use super::raw::address;
use super::wait::until;
use super::{free_port, scratch_folder};

const START_TIMEOUT: Duration = Duration::from_secs(30);

/// A running HAProxy. Dropping it ends it.
#[derive(Debug)]
pub(crate) struct HaProxy {
    process: Process,
    port: u16,
    _folder: PathBuf,
}

impl HaProxy {
    /// Starts it before the listener at `url` of the replica whose operations listener is at `ops`.
    /// Listens on 127.0.0.1 and ::1.
    pub(crate) async fn start(url: &str, ops: &str) -> Self {
        Self::start_with(url, ops, |_| {}).await
    }

    /// As [`Self::start`], with a configuration that `change` has modified.
    pub(crate) async fn start_with(url: &str, ops: &str, change: impl FnOnce(&mut String)) -> Self {
        // It takes a server whose first check fails out of use.
        until(START_TIMEOUT, "the replica is ready", || async {
            let response = reqwest::get(format!("{ops}/readyz")).await.ok()?;
            response.status().is_success().then_some(())
        })
        .await;
        let folder = scratch_folder("haproxy");
        let (servers, port) = (folder.join("servers.cfg"), free_port());
        let (server, ops) = (address(url), address(ops));
        let (_, ops_port) = ops.rsplit_once(':').unwrap();
        let text = format!(
            "backend api from service\n    server replica {server} check port {ops_port}\n"
        );
        std::fs::write(&servers, text).unwrap();
        let stack = folder.join("haproxy.cfg");
        let mut text = include_str!("../../config/compose/haproxy.cfg").to_owned();
        change(&mut text);
        std::fs::write(&stack, text).unwrap();
        let process = Launch::new("haproxy", find_program("haproxy"))
            .args(["-db", "-f"])
            .arg(&stack)
            .arg("-f")
            .arg(&servers)
            .env("HAPROXY_BIND", format!("127.0.0.1:{port},[::1]:{port}"))
            .start();
        let proxy = Self { process, port, _folder: folder };
        until(START_TIMEOUT, "HAProxy has found the replica", || async {
            let process = &proxy.process;
            assert!(process.is_running(), "HAProxy did not start: {}", process.report());
            let response = reqwest::get(format!("{}/docs", proxy.url("127.0.0.1"))).await.ok()?;
            response.status().is_success().then_some(())
        })
        .await;
        proxy
    }

    /// Its URL at an address that it listens on, without a path.
    pub(crate) fn url(&self, host: &str) -> String {
        format!("http://{host}:{}", self.port)
    }
}
