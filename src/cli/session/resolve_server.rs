//! Chooses the server of a command: the one given, otherwise the one last logged in to.

use super::address::ServerAddress;
use super::credentials::Logins;
use crate::cli::command::UsageError;

/// The server given by `--server`, otherwise the default of `logins`.
///
/// # Errors
/// If there is neither, or the address is not one that secrets may be sent to.
pub(in crate::cli) fn resolve_server(
    given: Option<&str>,
    logins: &Logins,
) -> Result<ServerAddress, UsageError> {
    let address = given.or(logins.default.as_deref()).ok_or_else(|| {
        let mut text = "no server given, and not logged in to one. Log in first: gene-registry \
                        login --server URL";
        if logins.servers().next().is_some() {
            text = "no server given, and no default. Choose one: --server URL";
        }
        UsageError::new(format!("{text}{}", list_logins(logins)))
    })?;
    ServerAddress::parse(address).map_err(|error| UsageError::new(format!("--server: {error}")))
}

/// A sentence that lists the servers the user is logged in to; empty if there are none.
pub(super) fn list_logins(logins: &Logins) -> String {
    let servers: Vec<_> = logins.servers().collect();
    if servers.is_empty() {
        return String::new();
    }
    format!(". You are logged in to: {}", servers.join(", "))
}
