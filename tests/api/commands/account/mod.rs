//! `login`, `logout`, `whoami`, and `api-key` through a control listener.

mod credentials;
mod device;
mod hostile_servers;
mod keys;
mod many_keys;
mod refresh;
mod revoke;
mod rotate;
mod token;
mod untrusted_certificates;
mod update;
mod visible_secrets;

use gene_registry::config::Config;
use serde_json::Value;

use super::cli_user::CliUser;
use crate::support::control::{new_token, with_control};
use crate::support::database::Database;
use crate::support::postgres::PostgresServer;
use crate::support::replica::{READER, Replica, config, long_timeouts, sample};

/// A replica with a control listener, and Ana, who is logged in to it by a token.
struct AccountSetup {
    replica: Replica,
    database: Database<'static>,
    ana: CliUser,
    /// Ana's token.
    token: String,
    /// The token of an operator who is not logged in yet.
    operator_token: String,
}

impl AccountSetup {
    async fn start() -> Self {
        let setup = Self::with(|_| {}).await;
        setup.log_in(&setup.ana, &setup.token).await;
        setup
    }

    /// A control listener with this configuration, to which nobody is logged in.
    async fn with(configure: impl FnOnce(&mut Config)) -> Self {
        let database = sample(PostgresServer::shared().await).await;
        let mut config = config(&database.url_as(READER), None);
        long_timeouts(&mut config);
        with_control(&mut config, &database);
        let token = new_token(&mut config, "ana");
        let operator_token = new_token(&mut config, "olga");
        config.control.operators = vec!["olga".to_owned()];
        configure(&mut config);
        let replica = Replica::start(&config).await;
        Self { replica, database, ana: CliUser::new(), token, operator_token }
    }

    fn server(&self) -> &str {
        self.replica.control.as_deref().unwrap()
    }

    async fn log_in(&self, cli_user: &CliUser, token: &str) {
        let login = ["login", "--server", self.server(), "--token-stdin"];
        cli_user.run_with_input(&login, &format!("{token}\n")).await.ok();
    }

    /// The operator, logged in.
    async fn operator(&self) -> CliUser {
        let operator = CliUser::new();
        self.log_in(&operator, &self.operator_token).await;
        operator
    }

    /// A new key of Ana's.
    async fn create(&self, name: &str) -> String {
        let created = self.ana.run(&["api-key", "create", "--name", name]).await.ok();
        created.stdout.strip_suffix('\n').unwrap().to_owned()
    }

    /// Ana's keys.
    async fn keys(&self) -> Vec<Value> {
        let listed = self.ana.run(&["api-key", "list", "--json"]).await.ok();
        serde_json::from_str(&listed.stdout).unwrap()
    }

    async fn status_of(&self, key: &str) -> u16 {
        self.replica.get("/genes?limit=1", Some(key)).await.status.as_u16()
    }

    async fn execute(&self, sql: &str) {
        self.database.connect().await.batch_execute(sql).await.unwrap();
    }
}
