//! What the commands of the documents run beside: a replica over the sample registry, with a control
//! listener and a Redis, and programs that stand for those which a test replaces.

use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::time::Duration;

use gene_registry::keys::{ApiKey, insert_key};

use crate::commands::without_configuration;
use crate::support::control::{new_token, with_control};
use crate::support::database::Database;
use crate::support::postgres::PostgresServer;
use crate::support::process::Launch;
use crate::support::redis::RedisServer;
use crate::support::replica::{READER, Replica, config, long_timeouts, new_key, sample};
use crate::support::scratch_folder;

/// For all commands of a block.
const TIMEOUT: Duration = Duration::from_secs(60);

/// The user who is logged in.
const USER: &str = "demo";

/// The key in the repository that the compose file uses.
const COMPOSE_KEY: &str = "config/compose/demo-api-key.txt";

/// `gene-registry`: what runs until it is interrupted is ended once it works, and a login that would
/// ask for a token gets one.
const GENE_REGISTRY: &str = r#"#!/usr/bin/env bash
set -u
case " $* " in
    *" serve "* | *" demo "* | *" --every "*)
        export GENE_REGISTRY__SERVER__BIND=127.0.0.1:0 GENE_REGISTRY__OPS__BIND=127.0.0.1:0
        # Without users, serve accepts no control listener.
        [[ " $* " != *" demo "* ]] || export GENE_REGISTRY__CONTROL__BIND=127.0.0.1:0
        output=$(mktemp)
        "$PROGRAM" "$@" >"$output" 2>&1 &
        until grep -q 'listening\|Ctrl-C\|maintained' "$output" || ! kill -0 $! 2>/dev/null; do sleep 0.1; done
        kill $! 2>/dev/null
        wait $!
        status=$?
        cat "$output"
        exit $status
        ;;
    *" login "*)
        [[ " $* " == *" --token-stdin "* ]] || exec "$PROGRAM" "$@" --token-stdin <token.txt
        ;;
esac
exec "$PROGRAM" "$@"
"#;

/// `cargo run … -- ARGUMENTS` runs the program that is built already.
const CARGO: &str = r#"#!/usr/bin/env bash
while (($#)); do
    [[ $1 != -- ]] || { shift; exec gene-registry "$@"; }
    shift
done
echo "a test builds nothing: add the command to NOT_RUN" >&2
exit 1
"#;

/// `curl` fails for an error, and does not wait for ever.
const CURL: &str = r#"#!/usr/bin/env bash
PATH=${PATH#*:} exec curl --silent --show-error --fail-with-body --max-time 30 "$@"
"#;

pub(super) struct Setup {
    postgres: &'static PostgresServer,
    database: Database<'static>,
    redis: String,
    replica: Replica,
    token: String,
    key: String,
    programs: PathBuf,
}

impl Setup {
    pub(super) async fn start() -> Self {
        let (postgres, redis) = (PostgresServer::shared().await, RedisServer::shared().await);
        let database = sample(postgres).await;
        let (redis, prefix) = (redis.url(), RedisServer::new_prefix());
        let mut config = config(&database.url_as(READER), Some((&redis, &prefix)));
        long_timeouts(&mut config);
        with_control(&mut config, &database);
        let token = new_token(&mut config, USER);
        let replica = Replica::start(&config).await;
        let key = database.new_key(5000).await;
        let compose = std::fs::read_to_string(repository().join(COMPOSE_KEY)).unwrap();
        let compose: ApiKey = compose.trim().parse().unwrap();
        insert_key(&database.connect().await, &compose, &new_key()).await.unwrap();
        let programs = scratch_folder("programs");
        for (name, text) in [("gene-registry", GENE_REGISTRY), ("cargo", CARGO), ("curl", CURL)] {
            let program = programs.join(name);
            std::fs::write(&program, text).unwrap();
            std::fs::set_permissions(&program, PermissionsExt::from_mode(0o755)).unwrap();
        }
        Self { postgres, database, redis, replica, token, key, programs }
    }

    pub(super) async fn create_database(&self) -> Database<'static> {
        self.postgres.create_database().await
    }

    /// Runs a block's commands to their end, on the database of its document if that has one. Fails
    /// with what was printed.
    pub(super) async fn run(
        &self,
        commands: &str,
        of_document: Option<&Database<'static>>,
    ) -> Result<(), String> {
        let folder = self.working_folder();
        // A block that creates the schema needs an empty database.
        let empty = self.create_database().await;
        let creates = commands.contains("gene-registry migrate");
        let database = of_document.unwrap_or(if creates { &empty } else { &self.database });
        let key = self.database.new_key_with(|key| key.owner = USER.to_owned()).await;
        let prefix = &key[..11];
        let script = format!(
            "cd {}\nset -Eeuo pipefail\ntrap 'echo \"failed: $BASH_COMMAND\" >&2' ERR\n\
             gene-registry login --server {} 2>login.txt || cat login.txt >&2\n{}",
            folder.display(),
            self.control(),
            self.replaced(commands, database, prefix)
        );
        let path = std::env::var("PATH").unwrap();
        let block = Launch::new("block", "bash").args(["-c", &script]);
        let mut block = without_configuration(block)
            .env("PATH", format!("{}:{path}", self.programs.display()))
            .env("PROGRAM", env!("CARGO_BIN_EXE_gene-registry"))
            .env("HOME", &folder)
            .env("XDG_CONFIG_HOME", folder.join(".config"))
            .env("DATABASE_URL", database.url())
            .env("OWNER_DATABASE_URL", database.url())
            .env("GENE_REGISTRY__REDIS__PREFIX", RedisServer::new_prefix())
            .env("GENE_REGISTRY__OPS__BIND", self.replica.ops.trim_start_matches("http://"));
        for (name, value) in
            [("KEY", &self.key), ("API_KEY", &self.key), ("BASE_URL", &self.replica.base)]
        {
            block = block.env(name, value);
        }
        let process = block.start();
        let status = process.exited_within(TIMEOUT).await;
        match status {
            Some(status) if status.success() => Ok(()),
            Some(_) => Err(process.report()),
            None => Err(format!("not within {TIMEOUT:?}: {}", process.report())),
        }
    }

    fn control(&self) -> &str {
        self.replica.control.as_deref().unwrap()
    }

    /// The commands with the test's addresses, databases and keys.
    fn replaced(&self, commands: &str, database: &Database<'_>, prefix: &str) -> String {
        let root = self.replica.base.trim_end_matches("/v1");
        let hosts = [
            ("https://registry.example.org:8081", self.control()),
            ("http://127.0.0.1:8081", self.control()),
            ("http://localhost:8081", self.control()),
            ("https://registry.example.org", root),
            ("http://127.0.0.1:8080", root),
            ("http://localhost:8080", root),
            ("http://127.0.0.1:9464", &self.replica.ops),
            ("http://localhost:9464", &self.replica.ops),
            ("redis://:PASSWORD@localhost", &self.redis),
            ("redis://localhost", &self.redis),
            ("gr_…", &self.key),
            ("gr_aB3dEf7h", prefix),
        ];
        let text =
            hosts.iter().fold(commands.to_owned(), |text, (from, to)| text.replace(from, to));
        let mut parts = text.split("postgres://");
        let mut text = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            let end = part.find([' ', '"', '\'', '\n']).unwrap_or(part.len());
            let user = part[..end].split([':', '@']).next().unwrap_or_default();
            let is_role = user.starts_with("gene_registry");
            text += &if is_role { database.url_as(user) } else { database.url() };
            text += &part[end..];
        }
        text
    }

    /// A folder that has what the repository has, a token, and what a user's home has.
    fn working_folder(&self) -> PathBuf {
        let folder = scratch_folder("documents");
        for entry in std::fs::read_dir(repository()).unwrap() {
            let path = entry.unwrap().path();
            symlink(&path, folder.join(path.file_name().unwrap())).unwrap();
        }
        std::fs::write(folder.join("token.txt"), &self.token).unwrap();
        let completions = ".local/share/bash-completion/completions";
        std::fs::create_dir_all(folder.join(completions)).unwrap();
        folder
    }
}

fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}
