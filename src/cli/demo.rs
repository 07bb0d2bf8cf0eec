//! `gene-registry demo` runs the service with a sample registry in memory, and nothing else.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::process::ExitCode;
use std::sync::Arc;

use clap::Args;
use data_encoding::HEXLOWER;
use tokio::sync::oneshot;

use super::command::{CommandError, CommandResult, block_on};
use super::output::{OutputError, notice, print};
use super::signals::TerminationSignals;
use crate::app::{self, KeyManagement, Running, StartError};
use crate::config::{
    CONFIG_FILE_VARIABLE, Config, LoadedConfig, TokenConfig, Topology, unknown_variables,
};
use crate::control::LoginToken;
use crate::keys::{ApiKey, MemoryKeys, READ_SCOPE};
use crate::net::io_reason;
use crate::ops::telemetry;
use crate::registry::{ApiKeyRecord, Catalogue, Timestamp};
use crate::upstream::{Embedded, Upstream};

/// The demo's own defaults, which the environment overrides. Pages of any origin may use it,
/// because its keys give access to sample data only. The use of a key is recorded quickly, and the
/// log shows only problems.
const DEFAULTS: &str = r#"
[server]
bind = "127.0.0.1:8080"
[server.cors]
origins = ["*"]
[keys]
usage_every_s = 2
[pages]
public_numbers = true
domains = ["search", "code.testing"]
key_help = "The demo printed its keys in the terminal in which it was started."
[log]
level = "warn"
"#;

/// The default address of the control listener. Not in [`DEFAULTS`]: the validation would reject it
/// beside some addresses that the environment may set for the other listeners.
const DEFAULT_CONTROL_BIND: SocketAddr =
    SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 8081);

/// The owner of the demo's keys, and the user of its login token.
const OWNER: &str = "demo";

#[derive(Debug, Args)]
pub(super) struct Demo {
    /// Address to listen on [default: 127.0.0.1:8080, or a free port if that is in use]
    #[arg(long, value_name = "ADDR")]
    bind: Option<SocketAddr>,
}

/// A key of the demo and its record, whose name says what the key shows.
type DemoKey = (ApiKey, ApiKeyRecord);

/// The key of an address that the user has chosen, and the name of the setting that the user gave.
type ChosenAddress = (&'static str, &'static str);

impl Demo {
    pub(super) fn run(self) -> CommandResult {
        let token = LoginToken::generate()?;
        let defaults = format!(
            "{DEFAULTS}\n[[control.tokens]]\nuser = \"{OWNER}\"\nsha256 = \"{}\"\n",
            HEXLOWER.encode(&token.hash())
        );
        let loaded = LoadedConfig::read_over(&defaults, None)?;
        // Addresses that the user has chosen: if one of these is in use, no other one is taken.
        let mut chosen = ["server.bind", "ops.bind", "control.bind"].map(|key| (key, key)).to_vec();
        chosen.retain(|(key, _)| !loaded.is_default(key));
        if self.bind.is_some() {
            chosen.insert(0, ("server.bind", "--bind"));
        }
        let unused = unused(&loaded);
        let mut config = loaded.config;
        config.redis.topology = Topology::Single;
        config.redis.url = None;
        config.keys.usage_database_url = None;
        config.rate_limit.replicas = 1;
        config.server.documents_own_address = true;
        config.server.bind = self.bind.unwrap_or(config.server.bind);
        config.control.bind.get_or_insert(DEFAULT_CONTROL_BIND);
        // Tokens from the environment replace those of the defaults, also the demo's own.
        if config.control.tokens.iter().all(|existing| existing.sha256 != token.hash()) {
            let own = TokenConfig { user: OWNER.to_owned(), sha256: token.hash(), expires: None };
            config.control.tokens.push(own);
        }
        block_on(async move {
            let signals = TerminationSignals::new()?;
            telemetry::init(&config.log)?;
            if !unused.is_empty() {
                let unused = unused.join(", ");
                notice(&format!("The demo keeps everything in memory and ignores {unused}."));
            }
            demo(config, &chosen, &token, signals).await
        })
    }
}

/// The sources of settings that the demo ignores.
fn unused(loaded: &LoadedConfig) -> Vec<String> {
    let is_ignored = |key: &str| {
        ["upstream.", "redis."].iter().any(|section| key.starts_with(section))
            || [
                "control.database_url",
                "control.database_url_file",
                "keys.usage_database_url",
                "keys.usage_database_url_file",
                "rate_limit.replicas",
                "rate_limit.without_redis",
            ]
            .contains(&key)
    };
    let set = loaded.effective().into_iter();
    let set = set.filter(|value| is_ignored(&value.key) && !loaded.is_default(&value.key));
    let mut names: Vec<_> = set.map(|value| value.source).collect();
    names.extend(std::env::var_os(CONFIG_FILE_VARIABLE).map(|_| CONFIG_FILE_VARIABLE.to_owned()));
    names.extend(unknown_variables());
    names
}

async fn demo(
    config: Config,
    chosen: &[ChosenAddress],
    token: &LoginToken,
    mut signals: TerminationSignals,
) -> CommandResult {
    let now = Timestamp::now();
    let keys = demo_keys(now)?;
    let records = keys.iter().map(|(_, record)| record.clone()).collect();
    let install = config.registry.install_command.clone();
    let catalogue = Catalogue::sample()?;
    let upstream = Arc::new(Embedded::from_catalogue(&catalogue, now, records, install));
    let running = start(config, chosen, upstream).await?;
    let failed = print_in_background(introduction(&running, &keys, &catalogue, token))?;
    let result = tokio::select! {
        () = signals.received() => Ok(ExitCode::SUCCESS),
        Ok(error) = failed => Err(error.into()),
    };
    signals.exit_on_next();
    running.shutdown().await;
    result
}

/// Prints on a detached thread, because standard output may be a pipe whose reader has stalled.
/// The receiver gets the error if printing fails; otherwise the sender is dropped.
fn print_in_background(text: String) -> io::Result<oneshot::Receiver<OutputError>> {
    let (sender, failed) = oneshot::channel();
    std::thread::Builder::new().name("print".to_owned()).spawn(move || {
        if let Err(error) = print(&text) {
            // The receiver is gone once the demo ends.
            let _ = sender.send(error);
        }
    })?;
    Ok(failed)
}

/// Starts the service. If an address that is not in `chosen` is in use, takes a free port instead.
async fn start(
    mut config: Config,
    chosen: &[ChosenAddress],
    upstream: Arc<Embedded>,
) -> Result<Running, CommandError> {
    let keys = KeyManagement { store: Arc::new(MemoryKeys::new(upstream.keys())), writable: true };
    loop {
        let upstream = Arc::clone(&upstream) as Arc<dyn Upstream>;
        let error = match app::start_with_keys(&config, upstream, Some(keys.clone())).await {
            Ok(running) => return Ok(running),
            Err(error) => error,
        };
        let StartError::Bind { key, address, source } = &error else { return Err(error.into()) };
        let is_in_use = source.kind() == io::ErrorKind::AddrInUse;
        if let Some((_, name)) = chosen.iter().find(|(chosen, _)| chosen == key) {
            let reason = io_reason(source);
            return Err(format!("{name}: cannot listen on {address}: {reason}").into());
        }
        if address.port() == 0 || !is_in_use {
            return Err(error.into());
        }
        let (bind, purpose) = match *key {
            "server.bind" => (&mut config.server.bind, ""),
            "ops.bind" => (&mut config.ops.bind, " for health and metrics"),
            _ => (config.control.bind.get_or_insert(*address), " for login and keys"),
        };
        bind.set_port(0);
        notice(&format!("{address} is in use; taking a free port{purpose} instead."));
    }
}

fn demo_keys(now: Timestamp) -> Result<Vec<DemoKey>, CommandError> {
    let hour = jiff::SignedDuration::from_hours(1);
    let mut keys = Vec::new();
    for (name, limit) in [
        ("5,000 requests a minute", 5000),
        ("30 requests a minute, the default limit", 30),
        ("2 requests a minute", 2),
        ("expired an hour ago", 30),
        ("revoked an hour ago", 30),
        ("without the scope read", 30),
    ] {
        let key = ApiKey::generate()?;
        let record = ApiKeyRecord {
            hash: key.hash(),
            prefix: key.prefix().to_owned(),
            owner: OWNER.to_owned(),
            name: name.to_owned(),
            scopes: vec![READ_SCOPE.to_owned()],
            rate_limit_per_minute: limit,
            expires_at: None,
            revoked_at: None,
        };
        keys.push((key, record));
    }
    keys[3].1.expires_at = Some(now - hour);
    keys[4].1.revoked_at = Some(now - hour);
    keys[5].1.scopes = vec![];
    Ok(keys)
}

/// The text that the demo prints at its start: its URLs, keys and example requests.
fn introduction(
    running: &Running,
    keys: &[DemoKey],
    catalogue: &Catalogue,
    token: &LoginToken,
) -> String {
    let base = running.base_url();
    let key = keys[0].0.expose();
    let published = catalogue.genes.iter().filter(|gene| gene.published);
    let fittest = published.max_by(|a, b| a.fitness_score().total_cmp(&b.fitness_score()));
    let gene = fittest.map(|gene| gene.id).unwrap_or_default();
    let root = base.trim_end_matches("/v1");
    let ops = running.ops_url();
    let line = |(key, record): &DemoKey| format!("  {}  {}\n", key.expose(), record.name);
    let others: String = keys[1..].iter().map(line).collect();
    let key_management = running.control_url().map(|control| {
        format!(
            "\
To create your own keys, in a browser ({control}/keys) or from another terminal:
  Login token: {}
  Control API: {control}/control/v1 ({control}/docs)

",
            token.expose()
        )
    });
    format!(
        "\
API key:  {key}
Base URL: {base}

curl -H 'X-API-Key: {key}' '{base}/genes?domain=search&limit=2'
curl -H 'X-API-Key: {key}' '{base}/genes/{gene}/phenotype'
curl -H 'X-API-Key: {key}' '{base}/arena/insights?domain=search'

Pages:    {root}/ (overview), {root}/arena (explore the genes)
Docs:     {root}/docs
Health:   {ops}/readyz

Keys with other limits, and keys that are refused:
{others}
{}All data is in memory only. Ctrl-C stops the demo.
",
        key_management.unwrap_or_default()
    )
}
