//! `gene-registry setup` prints the SQL that prepares a Postgres server for the default schema.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use secrecy::{ExposeSecret, SecretString};

use super::command::{CommandError, CommandResult, UsageError};
use super::output::{print_secret, print_to_stderr};
use super::value_parsers::sql_name;
use crate::default_schema::setup::{service_roles, setup_sql};
use crate::keys::secret_token::TokenFormat;

/// Random passwords: 40 letters and digits, of which six are a check.
const PASSWORD: TokenFormat = TokenFormat { type_prefix: "", parts: &[34] };

#[derive(Debug, Args)]
pub(super) struct Setup {
    /// Print the SQL; nothing is executed
    #[arg(long, required = true)]
    print_sql: bool,
    /// Name of the new database
    #[arg(long, value_name = "NAME", default_value = "registry", value_parser = sql_name)]
    database: String,
    /// Name of the new role that owns it, for migrate, seed and maintain
    #[arg(long, value_name = "NAME", default_value = "gene_registry_owner", value_parser = sql_name)]
    owner: String,
    /// Use the password in this file for a role, instead of a random one; may be repeated
    #[arg(long = "password-file", value_name = "ROLE=FILE", value_parser = role_and_file)]
    password_files: Vec<(String, PathBuf)>,
}

fn role_and_file(text: &str) -> Result<(String, PathBuf), String> {
    let (role, file) = text.split_once('=').ok_or("expected a role, = and a file")?;
    Ok((role.to_owned(), file.into()))
}

impl Setup {
    pub(super) fn run(self) -> CommandResult {
        debug_assert!(self.print_sql, "the option is required");
        let passwords = self.passwords()?;
        print_to_stderr(&self.settings(&passwords))?;
        let exposed: Vec<_> =
            passwords.iter().map(|(role, password)| (*role, password.expose_secret())).collect();
        let sql = setup_sql(&self.database, &exposed);
        print_secret(sql.trim_end()).map_err(|error| {
            format!("{error}. Discard the passwords, and run the command again")
        })?;
        Ok(ExitCode::SUCCESS)
    }

    /// The passwords of the owner and of the service's roles.
    fn passwords(&self) -> Result<Vec<(&str, SecretString)>, CommandError> {
        let roles: Vec<&str> =
            std::iter::once(self.owner.as_str()).chain(service_roles()).collect();
        if let Some((unknown, _)) =
            self.password_files.iter().find(|(role, _)| !roles.contains(&role.as_str()))
        {
            let known = roles.join(", ");
            let text = format!("--password-file: no role {unknown}; the roles are {known}");
            return Err(UsageError::new(text).into());
        }
        let with_password = |role: &str| {
            let file = self.password_files.iter().find(|(given, _)| given == role);
            match file {
                Some((_, file)) => read_password(file),
                None => Ok(PASSWORD.generate()?.expose().into()),
            }
        };
        roles.into_iter().map(|role| Ok((role, with_password(role)?))).collect()
    }

    /// The settings of the service with the passwords, as lines for a shell.
    fn settings(&self, passwords: &[(&str, SecretString)]) -> String {
        let urls: Vec<String> = passwords
            .iter()
            .map(|(role, password)| {
                let password = utf8_percent_encode(password.expose_secret(), NON_ALPHANUMERIC);
                format!(
                    "'postgres://{role}:{password}@localhost/{}?sslmode=disable'",
                    self.database
                )
            })
            .collect();
        let url = |role: usize| urls.get(role).map_or("", String::as_str);
        format!(
            "\
# The passwords are shown only once. For a shell:
export DATABASE_URL={}
export USAGE_DATABASE_URL={}
# For migrate, seed and maintain, as their DATABASE_URL:
OWNER_DATABASE_URL={}
# For replicas with a control listener:
CONTROL_DATABASE_URL={}
",
            url(1),
            url(2),
            url(0),
            url(3)
        )
    }
}

/// The first line of a file.
fn read_password(path: &Path) -> Result<SecretString, CommandError> {
    let path_text = path.display();
    let text = std::fs::read_to_string(path)
        .map_err(|error| format!("cannot read --password-file {path_text}: {error}"))?;
    let password = text.lines().next().unwrap_or_default();
    if password.is_empty() || password.contains(char::is_control) {
        let problem = format!(
            "--password-file {path_text}: its first line is no password; nothing was printed"
        );
        return Err(UsageError::new(problem).into());
    }
    Ok(password.into())
}
