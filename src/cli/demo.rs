//! `gene-registry demo`

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::process::ExitCode;
use std::sync::Arc;

use clap::Args;
use tokio::sync::oneshot;

use super::show::{OutputError, notice, print};
use super::signals::Signals;
use super::token::hex;
use super::{CONFIG_FILE, Outcome, block_on};
use crate::app::{self, KeyManagement, Running, StartError};
use crate::config::{Config, LoadedConfig, TokenConfig, Topology};
use crate::control::LoginToken;
use crate::keys::{ApiKey, MemoryKeys, READ_SCOPE};
use crate::ops::telemetry;
use crate::registry::{ApiKeyRecord, Timestamp};
use crate::upstream::{Catalogue, Embedded, Upstream};

/// The demo's own defaults, below what the environment says. It shows what one does, not what it
/// does inside; its keys end with it, and open nothing that a page should not see; whoever tries
/// it wants to see at once that a key was used.
const DEFAULTS: &str = r#"
[server]
bind = "127.0.0.1:8080"
[server.cors]
origins = ["*"]
[keys]
usage_every_s = 2
[log]
level = "warn"
"#;

/// Where the control listener is unless somebody says so. No default of the configuration: next to
/// an address that somebody has chosen it would look like a contradiction.
const CONTROL: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 8081);

/// Whose the demo's keys are, and who logs in with its token.
const OWNER: &str = "demo";

type Error = Box<dyn std::error::Error + Send + Sync>;

#[derive(Debug, Args)]
#[command(after_help = "\
It takes GENE_REGISTRY__SECTION__KEY from the environment, as serve does, but no configuration file,
and nothing about databases: those that are set are named and not used. An address that was chosen
is not left for another where it is taken.")]
pub(super) struct Demo {
    /// Address to listen on [default: 127.0.0.1:8080, or a free port where that is taken]
    #[arg(long, value_name = "ADDR")]
    bind: Option<SocketAddr>,
}

/// A key of the demo: what it shows, and the key itself.
struct DemoKey {
    label: &'static str,
    key: ApiKey,
    record: ApiKeyRecord,
}

impl Demo {
    pub(super) fn run(self) -> Outcome {
        let token = LoginToken::generate()?;
        let own = format!(
            "{DEFAULTS}\n[[control.tokens]]\nuser = \"{OWNER}\"\nsha256 = \"{}\"\n",
            hex(&token.hash())
        );
        let loaded = LoadedConfig::read_over(&own, None)?;
        let fixed = Fixed {
            public: self.bind.is_some() || !loaded.is_default("server.bind"),
            ops: !loaded.is_default("ops.bind"),
            control: !loaded.is_default("control.bind"),
        };
        let unused = unused(&loaded);
        let mut config = loaded.config;
        config.redis.topology = Topology::Single;
        config.redis.url = None;
        config.rate_limit.replicas = 1;
        config.server.bind = self.bind.unwrap_or(config.server.bind);
        config.control.bind.get_or_insert(CONTROL);
        // Tokens from the environment come beside the demo's own.
        if config.control.tokens.iter().all(|known| known.sha256 != token.hash()) {
            let own = TokenConfig { user: OWNER.to_owned(), sha256: token.hash(), expires: None };
            config.control.tokens.push(own);
        }
        telemetry::init(&config.log)?;
        if !unused.is_empty() {
            let unused = unused.join(", ");
            notice(&format!("The demo keeps everything in memory, and does not use {unused}."));
        }
        block_on(async move { demo(config, fixed, token).await })
    }
}

/// Addresses that somebody has chosen: where one is taken, no other is.
#[derive(Debug, Clone, Copy)]
struct Fixed {
    public: bool,
    ops: bool,
    control: bool,
}

/// Settings that mean nothing here, by what sets them.
fn unused(loaded: &LoadedConfig) -> Vec<String> {
    let without_meaning = |key: &str| {
        ["upstream.", "redis."].iter().any(|section| key.starts_with(section))
            || ["control.database_url", "rate_limit.replicas", "rate_limit.without_redis"]
                .contains(&key)
    };
    let set = loaded.effective().into_iter();
    let set = set.filter(|value| without_meaning(&value.key) && !loaded.is_default(&value.key));
    let mut names: Vec<_> = set.map(|value| value.source).collect();
    names.extend(std::env::var_os(CONFIG_FILE).map(|_| CONFIG_FILE.to_owned()));
    names
}

async fn demo(config: Config, fixed: Fixed, token: LoginToken) -> Outcome {
    let now = Timestamp::now();
    let keys = demo_keys(now)?;
    let records = keys.iter().map(|key| key.record.clone()).collect();
    let install = config.registry.install_command.clone();
    let catalogue = Catalogue::sample()?;
    let upstream = Arc::new(Embedded::from_catalogue(&catalogue, now, records, install));
    let running = start(config, fixed, upstream).await?;
    let mut signals = Signals::new()?;
    let failed = print_in_background(introduction(&running, &keys, &catalogue, &token))?;
    let outcome = tokio::select! {
        () = signals.asked_to_end() => Ok(ExitCode::SUCCESS),
        Ok(error) = failed => Err(error.into()),
    };
    signals.end_at_once_when_asked_again();
    running.shutdown().await;
    outcome
}

/// Prints on a thread of its own, which nobody waits for: standard output may be a pipe whose
/// reader has stalled. The receiver gets the error if that fails; else the sender is dropped.
fn print_in_background(text: String) -> io::Result<oneshot::Receiver<OutputError>> {
    let (sender, failed) = oneshot::channel();
    std::thread::Builder::new().name("print".to_owned()).spawn(move || {
        if let Err(error) = print(&text) {
            // Nobody listens any more once the demo ends.
            let _ = sender.send(error);
        }
    })?;
    Ok(failed)
}

/// Starts; where a default address is taken, on a free port instead.
async fn start(
    mut config: Config,
    fixed: Fixed,
    upstream: Arc<Embedded>,
) -> Result<Running, Error> {
    let keys = KeyManagement { store: Arc::new(MemoryKeys::new(upstream.keys())), writable: true };
    loop {
        let upstream = Arc::clone(&upstream) as Arc<dyn Upstream>;
        let error = match app::start_with_keys(&config, upstream, Some(keys.clone())).await {
            Ok(running) => return Ok(running),
            Err(error) => error,
        };
        let StartError::Bind { key, address, source } = &error else { return Err(error.into()) };
        let (is_fixed, what) = match *key {
            "server.bind" => (fixed.public, ""),
            "ops.bind" => (fixed.ops, " for health and metrics"),
            _ => (fixed.control, " for login and keys"),
        };
        if is_fixed || address.port() == 0 || !is_taken(source) {
            return Err(error.into());
        }
        notice(&format!("{address} is taken; taking a free port{what} instead."));
        match *key {
            "server.bind" => config.server.bind.set_port(0),
            "ops.bind" => config.ops.bind.set_port(0),
            _ => config.control.bind = Some(SocketAddr::new(address.ip(), 0)),
        }
    }
}

fn is_taken(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::AddrInUse
}

fn demo_keys(now: Timestamp) -> Result<Vec<DemoKey>, Error> {
    let hour = jiff::SignedDuration::from_hours(1);
    let mut keys = Vec::new();
    for (label, limit) in [
        ("5,000 requests a minute", 5000),
        ("30 requests a minute, as keys are made by default", 30),
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
            name: label.to_owned(),
            scopes: vec![READ_SCOPE.to_owned()],
            rate_limit_per_minute: limit,
            expires_at: None,
            revoked_at: None,
        };
        keys.push(DemoKey { label, key, record });
    }
    keys[3].record.expires_at = Some(now - hour);
    keys[4].record.revoked_at = Some(now - hour);
    keys[5].record.scopes = vec![];
    Ok(keys)
}

/// What the demo prints at its start: how it is used, with its keys.
fn introduction(
    running: &Running,
    keys: &[DemoKey],
    catalogue: &Catalogue,
    token: &LoginToken,
) -> String {
    let base = running.base_url();
    let key = keys[0].key.expose();
    let published = catalogue.genes.iter().filter(|gene| gene.published);
    let best = published.max_by(|a, b| a.fitness_score().total_cmp(&b.fitness_score()));
    let gene = best.map(|gene| gene.id).unwrap_or_default();
    let root = base.trim_end_matches("/v1");
    let ops = running.ops_url();
    let label = |DemoKey { label, key, .. }: &DemoKey| format!("  {}  {label}\n", key.expose());
    let others: String = keys[1..].iter().map(label).collect();
    let own = running.control_url().map(|control| {
        format!(
            "\
Keys of your own, from another terminal:
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

Pages:    {root}/ (what this is), {root}/arena (explore it)
Docs:     {root}/docs
Health:   {ops}/readyz

Keys that show something else:
{others}
{}Everything is in memory. Ctrl-C ends it.
",
        own.unwrap_or_default()
    )
}
