//! `gene-registry whoami` shows the user and the server of a login.

use std::process::ExitCode;

use clap::Args;
use hyper::Method;
use serde::Serialize;

use super::command::{CommandResult, block_on};
use super::output::{local, print, print_json, sanitize};
use super::session::{ControlSession, WhoAmI};

#[derive(Debug, Args)]
pub(super) struct WhoAmICommand {
    /// URL of the server's control listener; by default the server last logged in to
    #[arg(long, value_name = "URL")]
    server: Option<String>,
    /// Write JSON; times are RFC 3339 in UTC
    #[arg(long)]
    json: bool,
}

/// The JSON output.
#[derive(Debug, Serialize)]
struct WhoAmIOutput<'a> {
    server: &'a str,
    #[serde(flatten)]
    identity: &'a WhoAmI,
    /// Whether the login is renewed when its token expires.
    renewed: bool,
}

impl WhoAmICommand {
    pub(super) fn run(self) -> CommandResult {
        block_on(async {
            let mut session = ControlSession::open(self.server.as_deref()).await?;
            let identity: WhoAmI = session.send(Method::GET, "/whoami", None).await?;
            let server = session.control.server.as_str();
            let renewed = session.login.is_renewable();
            if self.json {
                print_json(&WhoAmIOutput { server, identity: &identity, renewed })?;
                return Ok(ExitCode::SUCCESS);
            }
            let expires = match (identity.expires_at, renewed) {
                (None, _) => "never".to_owned(),
                (Some(at), false) => local(at),
                (Some(at), true) => format!("{}; renewed automatically", local(at)),
            };
            let operator = if identity.operator { " (operator)" } else { "" };
            let user = sanitize(&identity.user);
            print(&format!("Server:  {server}\nUser:    {user}{operator}\nExpires: {expires}\n"))?;
            Ok(ExitCode::SUCCESS)
        })
    }
}
