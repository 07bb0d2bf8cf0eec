//! Registries in databases of any encoding and collation, with any JSON and any time: no value that a
//! column can hold makes a request fail.

mod collations;
mod encodings;
mod json;
mod times;

use gene_registry::config::Config;
use gene_registry::keys::ApiKey;

use crate::support::control::{ControlClient, new_token};
use crate::support::database::Database;
use crate::support::replica::{Replica, config, long_timeouts};

/// The views of an existing registry, as tables with texts of the type `TEXT`.
const TABLES: &str = "
    create schema registry_read;
    create table registry_read.gene (id uuid, name TEXT, domain TEXT, fidelity TEXT, description TEXT,
        owner TEXT, fitness_score float8, reputation_score float8, downloads bigint,
        arena_rank bigint, phenotype json, install_command TEXT, min_playground_version TEXT,
        required_fidelity TEXT);
    create table registry_read.arena_evaluation (gene_id uuid, fitness_value float8,
        evaluated_at timestamptz, total_calls bigint);
    create table registry_read.api_key (key_hash bytea, prefix TEXT, owner TEXT, name TEXT,
        scopes text[], rate_limit_per_minute bigint, created_at timestamptz,
        expires_at timestamptz, revoked_at timestamptz);
    create table registry_read.change (scope TEXT, changed_in xid8 default pg_current_xact_id(),
        changed_at timestamptz default now());";

/// A replica over an existing registry, whose control listener only lists keys, and a key.
struct ExistingRegistry {
    replica: Replica,
    key: String,
    /// Clients of the control listener, of the users whose names were given.
    users: Vec<ControlClient>,
}

impl ExistingRegistry {
    /// Creates the tables, with texts of the type `text`, and runs `fill` in the database.
    async fn start(database: &Database<'_>, text: &str, fill: &str, users: &[&str]) -> Self {
        let client = database.connect().await;
        client.batch_execute(&TABLES.replace("TEXT", text)).await.unwrap();
        client.batch_execute(fill).await.unwrap();
        let key = ApiKey::generate().unwrap();
        let insert =
            "insert into registry_read.api_key (key_hash, prefix, scopes, rate_limit_per_minute)
            values ($1, $2, '{read}', 100000)";
        client.execute(insert, &[&key.hash().0.as_slice(), &key.prefix()]).await.unwrap();
        let mut config = config(&database.url(), None);
        long_timeouts(&mut config);
        let tokens = with_users(&mut config, users);
        let replica = Replica::start(&config).await;
        let users = tokens.iter().map(|token| ControlClient::new(&replica, Some(token))).collect();
        Self { replica, key: key.expose().to_owned(), users }
    }

    /// The ids' last digits on a page that is served, with its total.
    async fn search(&self, query: &str) -> (String, u64) {
        let response = self.replica.get(&format!("/genes{query}"), Some(&self.key)).await;
        assert_eq!(response.status, 200, "{query}: {response:?}");
        let page = response.json();
        let ids = page["data"].as_array().unwrap().iter();
        let digits = ids.map(|gene| gene["id"].as_str().unwrap().chars().last().unwrap());
        (digits.collect(), page["total"].as_u64().unwrap())
    }
}

/// Enables the control listener for these users; returns their tokens.
fn with_users(config: &mut Config, users: &[&str]) -> Vec<String> {
    config.control.bind = Some("127.0.0.1:0".parse().unwrap());
    users.iter().map(|user| new_token(config, user)).collect()
}
