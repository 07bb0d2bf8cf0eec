//! The connection of a command to the registry's database.

use deadpool_postgres::ClientWrapper;

use crate::config::UpstreamConfig;
use crate::upstream::postgres::{self, ConnectError};

/// Lets the server end the statements of a client that has gone, also those that wait for a lock.
/// Without effect before Postgres 14.
const END_WITH_CLIENT: &str = "SELECT set_config(name, '1s', false) FROM pg_settings
    WHERE name = 'client_connection_check_interval'";

/// Connects as configured. When the command is ended, its statements end within a second or two.
///
/// # Errors
/// [`ConnectError`].
pub(super) async fn connect(config: &UpstreamConfig) -> Result<ClientWrapper, ConnectError> {
    let client = postgres::connect(config).await?;
    // Servers on some operating systems refuse the setting. A lost connection shows at once.
    let _ = client.batch_execute(END_WITH_CLIENT).await;
    Ok(client)
}
