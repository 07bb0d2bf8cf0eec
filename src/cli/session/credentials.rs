//! The user's credentials, in a file of the configuration folder that nobody else can read.
//!
//! The file is replaced as a whole, so that a reader never sees half of a change. A writer holds a
//! lock file from reading to writing: of two processes that refresh a token at the same time, the
//! second finds the token of the first.

use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use etcetera::BaseStrategy;
use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Serialize, Serializer};
use thiserror::Error;
use tokio::time::{Instant, sleep};

use super::address::ServerAddress;
use crate::cli::output::notice;
use crate::net::io_reason;
use crate::registry::Timestamp;

const FOLDER: &str = "gene-registry";
const FILE: &str = "credentials.json";
const LOCK: &str = "credentials.lock";

/// The version of the file format. A file of a later version is neither used nor changed.
const VERSION: u32 = 1;

/// Longer than a process may hold the lock, which is at most for a few requests to an issuer.
const LOCK_TIMEOUT: Duration = Duration::from_secs(60);
const LOCK_POLL_INTERVAL: Duration = Duration::from_millis(20);

/// The contents of the file.
#[derive(Debug, Serialize, Deserialize)]
pub(in crate::cli) struct Logins {
    version: u32,
    /// The server to use if none is given.
    pub(in crate::cli) default: Option<String>,
    servers: BTreeMap<String, Login>,
}

/// A login to one server.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(in crate::cli) struct Login {
    pub(in crate::cli) user: String,
    /// Sent as the bearer token.
    #[serde(serialize_with = "exposed")]
    pub(in crate::cli) token: SecretString,
    pub(in crate::cli) expires_at: Option<Timestamp>,
    /// Present if the token was issued by an OpenID issuer.
    pub(in crate::cli) oidc: Option<OidcLogin>,
}

impl Login {
    /// Whether the token can be renewed: the issuer gave a refresh token.
    pub(in crate::cli) fn is_renewable(&self) -> bool {
        self.oidc.as_ref().is_some_and(|oidc| oidc.refresh_token.is_some())
    }
}

/// The parameters for a new token from an issuer.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(in crate::cli) struct OidcLogin {
    pub(in crate::cli) issuer: String,
    pub(in crate::cli) client_id: String,
    pub(in crate::cli) resource: Option<String>,
    #[serde(serialize_with = "exposed")]
    pub(in crate::cli) refresh_token: Option<SecretString>,
}

/// Serializes a secret, or null.
fn exposed<'a, S: Serializer>(
    secret: impl Into<Option<&'a SecretString>>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    secret.into().map(ExposeSecret::expose_secret).serialize(serializer)
}

/// Why credentials cannot be read or stored. Nothing was changed.
#[derive(Debug, Error)]
pub(in crate::cli) enum CredentialsError {
    #[error("no home folder to store credentials in; set HOME or XDG_CONFIG_HOME")]
    NoHome,
    #[error("{}: {}", .path.display(), io_reason(.source))]
    File { path: PathBuf, source: io::Error },
    #[error(
        "cannot write to {}, where credentials are stored ({}); nothing was changed. Make it a \
         folder that you can write to, or set XDG_CONFIG_HOME to another configuration folder",
        .path.display(), io_reason(.source)
    )]
    Unwritable { path: PathBuf, source: io::Error },
    #[error(
        "{} belongs to another user (id {owner}), who could read or replace your credentials; \
         nothing was changed. Become its owner, or set XDG_CONFIG_HOME to another configuration \
         folder", .path.display()
    )]
    NotYours { path: PathBuf, owner: u32 },
    #[error(
        "{} is damaged (line {line}, column {column}); nothing was changed. Repair it, or remove \
         it and log in again", .path.display()
    )]
    Damaged { path: PathBuf, line: usize, column: usize },
    #[error("{} was written by a later release of gene-registry; nothing was changed. Use that release", .0.display())]
    OtherVersion(PathBuf),
    #[error(
        "{} has been locked by another gene-registry process for {} s; try again later",
        .0.display(), LOCK_TIMEOUT.as_secs()
    )]
    Locked(PathBuf),
}

impl Default for Logins {
    fn default() -> Self {
        Self { version: VERSION, default: None, servers: BTreeMap::new() }
    }
}

impl Logins {
    pub(in crate::cli) fn get(&self, server: &ServerAddress) -> Option<&Login> {
        self.servers.get(server.as_str())
    }

    pub(in crate::cli) fn get_mut(&mut self, server: &ServerAddress) -> Option<&mut Login> {
        self.servers.get_mut(server.as_str())
    }

    /// Adds or replaces the login to `server`, which becomes the default.
    pub(in crate::cli) fn insert(&mut self, server: &ServerAddress, login: Login) {
        self.servers.insert(server.as_str().to_owned(), login);
        self.default = Some(server.as_str().to_owned());
    }

    /// Removes the login to `server`. If it was the default and exactly one other login remains, that
    /// one becomes the default.
    pub(in crate::cli) fn remove(&mut self, server: &ServerAddress) -> Option<Login> {
        let removed = self.servers.remove(server.as_str());
        if self.default.as_deref() == Some(server.as_str()) {
            let mut remaining = self.servers.keys();
            self.default = remaining.next().filter(|_| remaining.next().is_none()).cloned();
        }
        removed
    }

    /// The servers with a login by this client of this issuer.
    pub(in crate::cli) fn servers_of_client(
        &self,
        issuer: &str,
        client_id: &str,
    ) -> impl Iterator<Item = &str> {
        let is_of_client = move |login: &Login| {
            let oidc = login.oidc.as_ref();
            oidc.is_some_and(|oidc| oidc.issuer == issuer && oidc.client_id == client_id)
        };
        let servers = self.servers.iter().filter(move |(_, login)| is_of_client(login));
        servers.map(|(server, _)| server.as_str())
    }

    pub(in crate::cli) fn servers(&self) -> impl Iterator<Item = &str> {
        self.servers.keys().map(String::as_str)
    }
}

/// The file and its lock.
#[derive(Debug, Clone)]
pub(in crate::cli) struct CredentialStore {
    folder: PathBuf,
}

impl CredentialStore {
    /// The credentials of the current user.
    pub(in crate::cli) fn of_user() -> Result<Self, CredentialsError> {
        let base = etcetera::choose_base_strategy().map_err(|_| CredentialsError::NoHome)?;
        Ok(Self { folder: base.config_dir().join(FOLDER) })
    }

    pub(in crate::cli) fn path(&self) -> PathBuf {
        self.folder.join(FILE)
    }

    /// Reads the file; no logins if it does not exist.
    pub(in crate::cli) fn read(&self) -> Result<Logins, CredentialsError> {
        let path = self.path();
        restrict_permissions(&self.folder, 0o700)?;
        restrict_permissions(&path, 0o600)?;
        let text = match fs::read(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Logins::default()),
            Err(source) if source.kind() == ErrorKind::NotADirectory => {
                return Err(self.unwritable(source));
            }
            Err(source) => return Err(CredentialsError::File { path, source }),
        };
        let damaged = |error: serde_json::Error| {
            let (line, column) = (error.line(), error.column());
            // The error text itself may quote the file.
            CredentialsError::Damaged { path: path.clone(), line, column }
        };
        let value: serde_json::Value = serde_json::from_slice(&text).map_err(damaged)?;
        if value.get("version").and_then(serde_json::Value::as_u64) > Some(VERSION.into()) {
            return Err(CredentialsError::OtherVersion(path));
        }
        serde_json::from_slice(&text).map_err(damaged)
    }

    /// Locks the file against changes by other processes until the result is dropped.
    pub(in crate::cli) async fn lock(&self) -> Result<CredentialsLock<'_>, CredentialsError> {
        let path = self.folder.join(LOCK);
        let unwritable = |source| self.unwritable(source);
        let mut builder = DirBuilder::new();
        builder.recursive(true).mode(0o700).create(&self.folder).map_err(unwritable)?;
        restrict_permissions(&self.folder, 0o700)?;
        let mut options = OpenOptions::new();
        let file = options.write(true).create(true).truncate(false).mode(0o600).open(&path);
        let file = file.map_err(unwritable)?;
        let end = Instant::now() + LOCK_TIMEOUT;
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(CredentialsLock { store: self, _file: file }),
                Err(TryLockError::WouldBlock) if Instant::now() < end => {
                    sleep(LOCK_POLL_INTERVAL).await
                }
                Err(TryLockError::WouldBlock) => return Err(CredentialsError::Locked(path)),
                Err(TryLockError::Error(source)) => {
                    return Err(CredentialsError::File { path, source });
                }
            }
        }
    }

    /// Changes the file under its lock.
    pub(in crate::cli) async fn change<T>(
        &self,
        change: impl FnOnce(&mut Logins) -> T,
    ) -> Result<T, CredentialsError> {
        let locked = self.lock().await?;
        let mut logins = self.read()?;
        let changed = change(&mut logins);
        locked.write(&logins)?;
        Ok(changed)
    }

    fn unwritable(&self, source: io::Error) -> CredentialsError {
        CredentialsError::Unwritable { path: self.folder.clone(), source }
    }
}

/// The lock on the file; required for changing it.
pub(in crate::cli) struct CredentialsLock<'a> {
    store: &'a CredentialStore,
    _file: File,
}

impl CredentialsLock<'_> {
    /// Replaces the file as a whole.
    pub(in crate::cli) fn write(&self, logins: &Logins) -> Result<(), CredentialsError> {
        let path = self.store.path();
        let write = || {
            let mut text = serde_json::to_string_pretty(logins)?;
            text.push('\n');
            // Temporary files are created with mode 0600.
            let mut file = tempfile::Builder::new().prefix(FILE).tempfile_in(&self.store.folder)?;
            file.write_all(text.as_bytes())?;
            file.as_file().sync_all()?;
            file.persist(&path)?;
            io::Result::Ok(())
        };
        write().map_err(|source| self.store.unwritable(source))
    }
}

/// Removes access for others, with a notice. Fails if `path` belongs to another user; does nothing if
/// it does not exist.
fn restrict_permissions(path: &Path, mode: u32) -> Result<(), CredentialsError> {
    // Other errors are reported when the file is read or written.
    let Ok(metadata) = fs::metadata(path) else { return Ok(()) };
    if metadata.uid() != rustix::process::geteuid().as_raw() {
        return Err(CredentialsError::NotYours { path: path.to_owned(), owner: metadata.uid() });
    }
    if metadata.permissions().mode() & 0o077 != 0 {
        fs::set_permissions(path, fs::Permissions::from_mode(mode))
            .map_err(|source| CredentialsError::File { path: path.to_owned(), source })?;
        let path = path.display();
        notice(&format!("{path} was accessible to other users; its mode is now 0{mode:o}."));
    }
    Ok(())
}
