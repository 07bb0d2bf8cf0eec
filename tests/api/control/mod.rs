//! The control listener: authentication, and the management of keys.

mod access_tokens;
mod audit_log;
mod bodies;
mod document;
mod fleet;
mod issuer_keys;
mod keys;
mod limits;
mod lockout;
mod login_tokens;
mod provider;
mod rights;
mod rotation;
mod secrecy;
mod stores;
mod usage;
mod wrong_tokens;

use gene_registry::config::Config;

use crate::support::control::with_control;
use crate::support::database::Database;
use crate::support::postgres::PostgresServer;
use crate::support::replica::{READER, Replica, config, long_timeouts, sample};

/// A replica over the sample registry with a control listener.
async fn replica(change: impl FnOnce(&mut Config)) -> (Replica, Database<'static>) {
    let database = sample(PostgresServer::shared().await).await;
    let mut config = config(&database.url_as(READER), None);
    long_timeouts(&mut config);
    with_control(&mut config, &database);
    change(&mut config);
    (Replica::start(&config).await, database)
}
