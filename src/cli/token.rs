//! `gene-registry token` creates login tokens, whose hashes are listed in the configuration.

use std::fmt::Write as _;
use std::process::ExitCode;

use clap::{Args, Subcommand};

use super::api_key::expiry;
use super::command::CommandResult;
use super::output::{print_secret, print_to_stderr};
use crate::control::LoginToken;
use crate::registry::{LABEL, Timestamp, is_label};

#[derive(Debug, Args)]
pub(super) struct TokenCommand {
    #[command(subcommand)]
    action: TokenAction,
}

#[derive(Debug, Subcommand)]
enum TokenAction {
    /// Create a login token and print it once, alone on standard output; standard error gets the
    /// lines to add to the configuration of every replica with a control listener
    New(New),
}

#[derive(Debug, Args)]
struct New {
    /// The user who logs in with the token and will own the keys created with it
    #[arg(long, value_name = "HANDLE", value_parser = handle)]
    user: String,
    /// When the token expires: a duration (90d, 12h, 1s), a date or a time; by default never
    #[arg(long, value_name = "WHEN", value_parser = expiry)]
    expires: Option<Timestamp>,
}

fn handle(text: &str) -> Result<String, String> {
    is_label(text).then(|| text.to_owned()).ok_or_else(|| format!("expected {LABEL}"))
}

impl TokenCommand {
    pub(super) fn run(self) -> CommandResult {
        let TokenAction::New(new) = self.action;
        let token = LoginToken::generate()?;
        print_to_stderr(&format!(
            "# The token is shown only once. Add to the configuration:\n\n{}",
            configuration(&new, &token.hash())
        ))?;
        print_secret(token.expose()).map_err(|error| {
            format!(
                "{error}. The token is lost: discard the configuration lines and run the command \
                 again"
            )
        })?;
        Ok(ExitCode::SUCCESS)
    }
}

/// An entry of `control.tokens`, as TOML.
fn configuration(new: &New, hash: &[u8; 32]) -> String {
    let mut lines = format!("[[control.tokens]]\nuser = {}\n", quoted(&new.user));
    lines += &format!("sha256 = \"{}\"\n", hex(hash));
    if let Some(expiry) = new.expires {
        lines += &format!("expires = \"{expiry:.0}\"\n");
    }
    lines
}

/// A hash in lowercase hexadecimal, as the configuration expects it.
pub(super) fn hex(hash: &[u8; 32]) -> String {
    hash.iter().fold(String::new(), |mut text, byte| {
        // Writing to memory can't fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// A TOML string. `text` has no control characters.
fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;
    use crate::config::LoadedConfig;

    #[test]
    fn the_printed_lines_are_a_valid_configuration() {
        let expires = Some("2030-01-31T12:00:00.5Z".parse().expect("a time"));
        let new = New { user: r#"a "b" \ c ü"#.to_owned(), expires };
        let mut file = tempfile::NamedTempFile::new().expect("a file");
        file.write_all(configuration(&new, &[0xAB; 32]).as_bytes()).expect("written");
        let loaded = LoadedConfig::read(Some(file.path())).expect("a configuration");
        let token = &loaded.config.control.tokens[0];
        assert_eq!((token.user.as_str(), token.sha256), (r#"a "b" \ c ü"#, [0xAB; 32]));
        let end = token.expires.map(|end| end.to_string());
        assert_eq!(end.as_deref(), Some("2030-01-31T12:00:00Z"));
    }
}
