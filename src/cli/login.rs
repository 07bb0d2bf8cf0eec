//! `gene-registry login`

use std::io::Read;
use std::process::ExitCode;

use anstyle::Style;
use clap::Args;
use jiff::SignedDuration;
use secrecy::{ExposeSecret, SecretString};

use super::session::{
    Control, ControlError, CredentialStore, DeviceLogin, Issuer, Login, LoginMetadata, OidcLogin,
    OidcMetadata, end_of, meant, web_client,
};
use super::show::{local, notice, sanitize};
use super::{Error, Outcome, UsageError, block_on, terminal};
use crate::keys::ApiKey;
use crate::net::HttpClient;

/// No token is longer, in bytes.
const LONGEST_TOKEN: u64 = 16 * 1024;

#[derive(Debug, Args)]
#[command(after_help = "\
With an OpenID issuer it shows a page and a code; open the page in any browser, on any device, and
agree. With tokens it asks for one, or reads it from standard input; never give a token as an
argument, where others can see it. Credentials are kept in gene-registry/credentials.json in your
configuration folder, for you alone.

Examples:
  gene-registry login --server https://registry.example.org:8081
  gene-registry login --token-stdin < token.txt
  gene-registry login                   # again, to the server last used")]
pub(super) struct LoginCommand {
    /// The server, by its control listener's address; without it, the one last logged in to
    #[arg(long, value_name = "URL")]
    server: Option<String>,
    /// Log in by a token, read from standard input
    #[arg(long)]
    token_stdin: bool,
}

impl LoginCommand {
    pub(super) fn run(self) -> Outcome {
        block_on(async {
            let store = CredentialStore::of_user()?;
            // First: a login that could not be kept would be in vain.
            let server = meant(self.server.as_deref(), &store.read()?)?;
            drop(store.lock().await?);
            let web = web_client()?;
            let control = Control::new(&web, &server);
            let metadata = control.login().await?;
            let login = match way(&metadata, self.token_stdin)? {
                Way::Token => by_token(&control, self.token_stdin).await?,
                Way::Device(oidc) => by_device(&web, &control, oidc).await?,
            };
            store.change(|logins| logins.insert(&server, login.clone())).await?;
            let user = sanitize(&login.user);
            notice(&format!("Logged in to {server} as {user}{}.", duration(&login)));
            notice("Next: gene-registry api-key create --name NAME");
            Ok(ExitCode::SUCCESS)
        })
    }
}

enum Way<'a> {
    Token,
    Device(&'a OidcMetadata),
}

fn way(metadata: &LoginMetadata, token_stdin: bool) -> Result<Way<'_>, Error> {
    match (&metadata.oidc, metadata.takes_tokens()) {
        (_, true) if token_stdin => Ok(Way::Token),
        (_, false) if token_stdin => {
            Err("this server takes no tokens; log in without --token-stdin".into())
        }
        (Some(oidc), _) => Ok(Way::Device(oidc)),
        (None, true) => Ok(Way::Token),
        (None, false) => Err("this server has no way to log in: its operator has to configure \
                              control.oidc or control.tokens"
            .into()),
    }
}

async fn by_token(control: &Control, from_stdin: bool) -> Result<Login, Error> {
    let token = if terminal::can_be_asked() {
        terminal::ask_hidden("Token (it is not shown): ")?
    } else if from_stdin {
        read_token()?
    } else {
        let how = "this server takes tokens: give one on standard input, with --token-stdin";
        return Err(UsageError::new(how).into());
    };
    let token = SecretString::from(token.expose_secret().trim());
    if token.expose_secret().is_empty() {
        return Err(UsageError::new("there was no token to read; nothing was changed").into());
    }
    if token.expose_secret().parse::<ApiKey>().is_ok() {
        let text = "that is an API key, for reading the registry; to log in takes a token, which \
                    the server's operator makes: gene-registry token new";
        return Err(UsageError::new(text).into());
    }
    let known = control.whoami(&token).await.map_err(|error| match error {
        ControlError::Refused(refused) if refused.status.as_u16() == 401 => {
            Error::from("the server does not take that token; nothing was changed")
        }
        error => error.into(),
    })?;
    Ok(Login { user: known.user, token, expires_at: known.expires_at, oidc: None })
}

fn read_token() -> Result<SecretString, Error> {
    let mut text = String::new();
    std::io::stdin().lock().take(LONGEST_TOKEN).read_to_string(&mut text)?;
    Ok(SecretString::from(text))
}

async fn by_device(
    web: &HttpClient,
    control: &Control,
    oidc: &OidcMetadata,
) -> Result<Login, Error> {
    let issuer = Issuer::discover(web, &oidc.issuer).await?;
    let device = DeviceLogin::begin(&issuer, oidc).await?;
    show(&device);
    let tokens = device.wait(&issuer, oidc).await?;
    let known = control.whoami(&tokens.access_token).await.map_err(|error| {
        format!(
            "you agreed to the login, but {} does not take the token that came of it ({error}). \
             This is for its operator to mend: control.oidc",
            control.server
        )
    })?;
    Ok(Login {
        user: known.user,
        expires_at: end_of(&tokens).or(known.expires_at),
        token: tokens.access_token,
        oidc: Some(OidcLogin {
            issuer: oidc.issuer.clone(),
            client_id: oidc.client_id.clone(),
            resource: oidc.resource.clone(),
            refresh_token: tokens.refresh_token,
        }),
    })
}

fn show(device: &DeviceLogin) {
    let bold = Style::new().bold();
    let page = device.verification_uri_complete.as_ref().unwrap_or(&device.verification_uri);
    let (page, code) = (sanitize(page), sanitize(&device.user_code));
    let what = match device.verification_uri_complete {
        Some(_) => "agree there, if it shows this code",
        None => "enter this code there",
    };
    let minutes = device.expires_in.div_ceil(60);
    notice(&format!(
        "Open this page in a browser, on any device:\n\n    {bold}{page}{bold:#}\n\n\
         and {what}: {bold}{code}{bold:#}\n\n\
         Waiting; the code holds for {minutes} min. Ctrl-C ends this."
    ));
}

fn duration(login: &Login) -> String {
    match (&login.oidc, login.expires_at) {
        (Some(OidcLogin { refresh_token: Some(_), .. }), _) => {
            "; the login is renewed as it is used".to_owned()
        }
        (_, Some(at)) if at.duration_since(jiff::Timestamp::now()) > SignedDuration::ZERO => {
            format!(", until {}", local(at))
        }
        _ => String::new(),
    }
}
