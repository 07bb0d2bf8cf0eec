//! `gene-registry whoami`

use std::process::ExitCode;

use clap::Args;
use hyper::Method;
use serde::Serialize;

use super::session::{Session, WhoAmI};
use super::show::{local, print, print_json, sanitize};
use super::{Outcome, block_on};

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  gene-registry whoami
  gene-registry whoami --server https://registry.example.org:8081 --json")]
pub(super) struct WhoAmICommand {
    /// The server; without it, the one last logged in to
    #[arg(long, value_name = "URL")]
    server: Option<String>,
    /// Write JSON; times are RFC 3339 in UTC
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Serialize)]
struct Shown<'a> {
    server: &'a str,
    #[serde(flatten)]
    known: &'a WhoAmI,
    /// Whether the login is renewed when its token ends.
    renewed: bool,
}

impl WhoAmICommand {
    pub(super) fn run(self) -> Outcome {
        block_on(async {
            let mut session = Session::open(self.server.as_deref()).await?;
            let known: WhoAmI = session.ask(Method::GET, "/whoami", None).await?;
            let server = session.control.server.as_str();
            let renewed = session.is_renewed();
            if self.json {
                print_json(&Shown { server, known: &known, renewed })?;
                return Ok(ExitCode::SUCCESS);
            }
            let ends = match (known.expires_at, renewed) {
                (None, _) => "never".to_owned(),
                (Some(at), false) => local(at),
                (Some(at), true) => format!("{}; renewed as it is used", local(at)),
            };
            let operator = if known.operator { " (operator)" } else { "" };
            let user = sanitize(&known.user);
            print(&format!("Server:  {server}\nUser:    {user}{operator}\nExpires: {ends}\n"))?;
            Ok(ExitCode::SUCCESS)
        })
    }
}
