//! `gene-registry token` creates login tokens, whose hashes are listed in the configuration.

use std::process::ExitCode;

use clap::{Args, Subcommand};
use data_encoding::HEXLOWER;
use serde_json::json;

use super::command::CommandResult;
use super::output::{print_secret, print_to_stderr};
use super::value_parsers::{expiry, label};
use crate::control::LoginToken;
use crate::registry::Timestamp;

#[derive(Debug, Args)]
pub(super) struct TokenCommand {
    #[command(subcommand)]
    action: TokenAction,
}

#[derive(Debug, Subcommand)]
enum TokenAction {
    /// Create a login token and print it once, alone on standard output; standard error gets the
    /// lines to add to the configuration of every replica with a control listener
    New(NewToken),
}

#[derive(Debug, Args)]
struct NewToken {
    /// The user who logs in with the token and will own the keys created with it
    #[arg(long, value_name = "HANDLE", value_parser = label)]
    user: String,
    /// When the token expires: a duration (90d, 12h, 1s), a date or a time; by default never
    #[arg(long, value_name = "WHEN", value_parser = expiry)]
    expires: Option<Timestamp>,
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
fn configuration(new: &NewToken, hash: &[u8; 32]) -> String {
    // Without control characters, a JSON string is a TOML string too.
    let (user, hash) = (json!(new.user), HEXLOWER.encode(hash));
    let expires = new.expires.map(|at| format!("expires = \"{at:.0}\"\n")).unwrap_or_default();
    format!("[[control.tokens]]\nuser = {user}\nsha256 = \"{hash}\"\n{expires}")
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;
    use crate::config::LoadedConfig;

    #[test]
    fn the_printed_lines_are_a_valid_configuration() {
        let expires = Some("2030-01-31T12:00:00.5Z".parse().expect("a time"));
        let new = NewToken { user: r#"a "b" \ c ü"#.to_owned(), expires };
        let mut file = tempfile::NamedTempFile::new().expect("a file");
        file.write_all(configuration(&new, &[0xAB; 32]).as_bytes()).expect("written");
        let loaded = LoadedConfig::read(Some(file.path())).expect("a configuration");
        let token = &loaded.config.control.tokens[0];
        assert_eq!((token.user.as_str(), token.sha256), (r#"a "b" \ c ü"#, [0xAB; 32]));
        let end = token.expires.map(|end| end.to_string());
        assert_eq!(end.as_deref(), Some("2030-01-31T12:00:00Z"));
    }
}
