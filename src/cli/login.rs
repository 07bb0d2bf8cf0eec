//! `gene-registry login` logs in to a server, by a token or by an OpenID issuer.

use std::io::Read;
use std::process::ExitCode;

use anstyle::Style;
use clap::Args;
use hyper::StatusCode;
use secrecy::{ExposeSecret, SecretString};

use super::command::{CommandError, CommandResult, UsageError, block_on};
use super::output::{local, notice, sanitize};
use super::session::{
    ControlClient, CredentialStore, DeviceLogin, IssuerClient, Login, Logins, OidcLogin,
    OidcMetadata, ServerAddress, resolve_server, web_client,
};
use super::terminal;
use crate::keys::ApiKey;
use crate::net::HttpClient;
use crate::registry::Timestamp;

/// The longest token, in bytes.
const MAX_TOKEN_BYTES: u64 = 16 * 1024;

#[derive(Debug, Args)]
pub(super) struct LoginCommand {
    /// URL of the server's control listener; by default the server last logged in to
    #[arg(long, value_name = "URL")]
    server: Option<String>,
    /// Log in with a token that is read from standard input
    #[arg(long)]
    token_stdin: bool,
    /// Log in although your login to another server has the same client of the same issuer
    #[arg(long)]
    shared_client: bool,
}

impl LoginCommand {
    pub(super) fn run(self) -> CommandResult {
        block_on(async {
            let store = CredentialStore::of_user()?;
            // Before logging in: fails if the login could not be stored.
            let logins = store.read()?;
            let server = resolve_server(self.server.as_deref(), &logins)?;
            drop(store.lock().await?);
            let web = web_client()?;
            let control = ControlClient::new(&web, &server);
            let metadata = control.login().await?;
            let login = match &metadata.oidc {
                Some(oidc) if !self.token_stdin => {
                    if !self.shared_client {
                        check_client(&logins, &server, oidc)?;
                    }
                    log_in_with_device(&web, &control, oidc).await?
                }
                _ if metadata.accepts_tokens() => {
                    log_in_with_token(&control, self.token_stdin).await?
                }
                Some(_) => {
                    return Err(
                        "this server accepts no tokens; log in without --token-stdin".into()
                    );
                }
                None => {
                    return Err("this server offers no login method; its operator must configure \
                                control.oidc or control.tokens"
                        .into());
                }
            };
            store.change(|logins| logins.insert(&server, login.clone())).await?;
            let user = sanitize(&login.user);
            notice(&format!("Logged in to {server} as {user}{}.", validity(&login)));
            notice("Next: gene-registry api-key create --name NAME");
            Ok(ExitCode::SUCCESS)
        })
    }
}

async fn log_in_with_token(
    control: &ControlClient,
    from_stdin: bool,
) -> Result<Login, CommandError> {
    let token = if terminal::is_interactive() {
        terminal::prompt_hidden("Token (not shown while typed): ")?
    } else if from_stdin {
        read_token()?
    } else {
        let text = "this server needs a token: give it on standard input, with --token-stdin";
        return Err(UsageError::new(text).into());
    };
    let token = SecretString::from(token.expose_secret().trim());
    if token.expose_secret().is_empty() {
        return Err(UsageError::new("no token was given; nothing was changed").into());
    }
    if token.expose_secret().parse::<ApiKey>().is_ok() {
        let text = "this is an API key, which only reads the registry; nothing was changed. Log in \
                    with a token, which the server's operator creates: gene-registry token new";
        return Err(UsageError::new(text).into());
    }
    let identity = match control.whoami(&token).await {
        Err(error) if error.has_status(StatusCode::UNAUTHORIZED) => {
            return Err("the server rejected the token; nothing was changed".into());
        }
        identity => identity?,
    };
    Ok(Login { user: identity.user, token, expires_at: identity.expires_at, oidc: None })
}

fn read_token() -> Result<SecretString, CommandError> {
    let mut text = String::new();
    std::io::stdin().lock().take(MAX_TOKEN_BYTES).read_to_string(&mut text)?;
    Ok(SecretString::from(text))
}

/// Refuses a server that names the issuer and the client of another server: it would receive a token that
/// may be valid there.
fn check_client(
    logins: &Logins,
    server: &ServerAddress,
    oidc: &OidcMetadata,
) -> Result<(), CommandError> {
    let mut servers = logins.servers_of_client(&oidc.issuer, &oidc.client_id);
    match servers.find(|other| *other != server.as_str()) {
        None => Ok(()),
        Some(other) => Err(format!(
            "{server} names the issuer and the client of your login to {other}. It would receive a \
             token that may be valid there, too; nothing was changed. If you trust {server} with it, \
             repeat the command with --shared-client"
        )
        .into()),
    }
}

async fn log_in_with_device(
    web: &HttpClient,
    control: &ControlClient,
    oidc: &OidcMetadata,
) -> Result<Login, CommandError> {
    let issuer = IssuerClient::discover(web, &oidc.issuer).await?;
    let device = DeviceLogin::begin(&issuer, oidc).await?;
    print_instructions(&device, &control.server);
    let tokens = device.wait(&issuer, oidc).await?;
    let identity = control.whoami(&tokens.access_token).await.map_err(|error| {
        format!(
            "{} rejected the token of the login that you confirmed ({error}). Its operator must \
             correct the configuration: control.oidc",
            control.server
        )
    })?;
    Ok(Login {
        user: identity.user,
        expires_at: tokens.expiry().or(identity.expires_at),
        token: tokens.access_token,
        oidc: Some(OidcLogin {
            issuer: oidc.issuer.clone(),
            client_id: oidc.client_id.clone(),
            resource: oidc.resource.clone(),
            refresh_token: tokens.refresh_token,
        }),
    })
}

fn print_instructions(device: &DeviceLogin, server: &ServerAddress) {
    let bold = Style::new().bold();
    let page = device.verification_uri_complete.as_ref().unwrap_or(&device.verification_uri);
    let (page, code) = (sanitize(page), sanitize(&device.user_code));
    let instruction = match device.verification_uri_complete {
        Some(_) => "confirm there if it shows this code",
        None => "enter this code there",
    };
    let minutes = device.expires_in.div_ceil(60);
    notice(&format!(
        "Open this page in a browser, on any device:\n\n    {bold}{page}{bold:#}\n\n\
         and {instruction}: {bold}{code}{bold:#}\n\n\
         {server} receives the token of this login: confirm only if you trust it.\n\
         Waiting. The code is valid for {minutes} min. Ctrl-C cancels."
    ));
}

fn validity(login: &Login) -> String {
    match login.expires_at {
        _ if login.is_renewable() => "; the login is renewed automatically".to_owned(),
        Some(at) if at > Timestamp::now() => format!(", until {}", local(at)),
        _ => String::new(),
    }
}
