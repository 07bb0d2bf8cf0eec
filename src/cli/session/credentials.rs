//! The user's credentials, in a file of the configuration folder that nobody else can read.
//!
//! It is replaced as a whole, so that whoever reads it finds one state or the next. Whoever
//! changes it holds a lock beside it from reading to writing: of two processes that refresh a
//! token at once, the second finds what the first has got.

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
use crate::cli::show::notice;
use crate::registry::Timestamp;

const FOLDER: &str = "gene-registry";
const FILE: &str = "credentials.json";
const LOCK: &str = "credentials.lock";

/// How the file is laid out; a file of another version is not touched.
const VERSION: u32 = 1;

/// Longer than anybody may take who holds the lock: a request to an issuer and a bit.
const LOCK_PATIENCE: Duration = Duration::from_secs(60);
const LOCK_PAUSE: Duration = Duration::from_millis(20);

/// Everything in the file.
#[derive(Debug, Serialize, Deserialize)]
pub(in crate::cli) struct Logins {
    version: u32,
    /// The server that is meant where none is named.
    pub(in crate::cli) default: Option<String>,
    servers: BTreeMap<String, Login>,
}

/// Who the user is to one server.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(in crate::cli) struct Login {
    pub(in crate::cli) user: String,
    /// Sent as the bearer token.
    #[serde(serialize_with = "exposed")]
    pub(in crate::cli) token: SecretString,
    pub(in crate::cli) expires_at: Option<Timestamp>,
    /// Where the token came from an issuer.
    pub(in crate::cli) oidc: Option<OidcLogin>,
}

/// What it takes to get another token from an issuer.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(in crate::cli) struct OidcLogin {
    pub(in crate::cli) issuer: String,
    pub(in crate::cli) client_id: String,
    pub(in crate::cli) resource: Option<String>,
    #[serde(serialize_with = "exposed_or_null")]
    pub(in crate::cli) refresh_token: Option<SecretString>,
}

fn exposed<S: Serializer>(secret: &SecretString, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(secret.expose_secret())
}

fn exposed_or_null<S: Serializer>(
    secret: &Option<SecretString>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    secret.as_ref().map(ExposeSecret::expose_secret).serialize(serializer)
}

/// Why credentials can't be read or kept. Nothing was changed.
#[derive(Debug, Error)]
pub(in crate::cli) enum CredentialsError {
    #[error("there is no home folder to keep credentials in: set HOME or XDG_CONFIG_HOME")]
    NoHome,
    #[error("{}: {source}", .path.display())]
    File { path: PathBuf, source: io::Error },
    #[error(
        "{}: cannot be written ({source}), and credentials are kept there; nothing was changed. Make \
         it a folder that you can write, or name another configuration folder by XDG_CONFIG_HOME",
        .path.display()
    )]
    Unwritable { path: PathBuf, source: io::Error },
    #[error(
        "{}: belongs to another user (of the id {owner}), who could read or replace your \
         credentials; nothing was done. Make it yours, or name another configuration folder by \
         XDG_CONFIG_HOME", .path.display()
    )]
    NotYours { path: PathBuf, owner: u32 },
    #[error(
        "{}: damaged (line {line}, column {column}); nothing was changed. Mend it, or remove it \
         and log in again", .path.display()
    )]
    Damaged { path: PathBuf, line: usize, column: usize },
    #[error("{}: written by another release of gene-registry; nothing was changed", .0.display())]
    OtherVersion(PathBuf),
    #[error("{}: another gene-registry has held it for {} s", .0.display(), LOCK_PATIENCE.as_secs())]
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

    /// Logged in to it; from now on it is meant where no server is named.
    pub(in crate::cli) fn insert(&mut self, server: &ServerAddress, login: Login) {
        self.servers.insert(server.as_str().to_owned(), login);
        self.default = Some(server.as_str().to_owned());
    }

    /// Where it was the default, the only other server is now, if there is just one.
    pub(in crate::cli) fn remove(&mut self, server: &ServerAddress) -> Option<Login> {
        let removed = self.servers.remove(server.as_str());
        if self.default.as_deref() == Some(server.as_str()) {
            let mut left = self.servers.keys();
            self.default = left.next().filter(|_| left.next().is_none()).cloned();
        }
        removed
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
    /// The one of whoever runs this.
    pub(in crate::cli) fn of_user() -> Result<Self, CredentialsError> {
        let base = etcetera::choose_base_strategy().map_err(|_| CredentialsError::NoHome)?;
        Ok(Self { folder: base.config_dir().join(FOLDER) })
    }

    pub(in crate::cli) fn path(&self) -> PathBuf {
        self.folder.join(FILE)
    }

    /// What is in the file; nothing where there is none.
    pub(in crate::cli) fn read(&self) -> Result<Logins, CredentialsError> {
        let path = self.path();
        restrict_permissions(&self.folder, 0o700)?;
        restrict_permissions(&path, 0o600)?;
        let text = match fs::read(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Logins::default()),
            Err(source) if source.kind() == ErrorKind::NotADirectory => {
                return Err(CredentialsError::Unwritable { path: self.folder.clone(), source });
            }
            Err(source) => return Err(CredentialsError::File { path, source }),
        };
        let damaged = |error: serde_json::Error| {
            let (line, column) = (error.line(), error.column());
            // Its text may repeat what is in the file.
            CredentialsError::Damaged { path: path.clone(), line, column }
        };
        let value: serde_json::Value = serde_json::from_slice(&text).map_err(damaged)?;
        if value.get("version").and_then(serde_json::Value::as_u64) > Some(VERSION.into()) {
            return Err(CredentialsError::OtherVersion(path));
        }
        serde_json::from_slice(&text).map_err(damaged)
    }

    /// Nobody else changes the file until this is dropped.
    pub(in crate::cli) async fn lock(&self) -> Result<Locked<'_>, CredentialsError> {
        let path = self.folder.join(LOCK);
        let failed = |source| CredentialsError::File { path: path.clone(), source };
        let unwritable =
            |source| CredentialsError::Unwritable { path: self.folder.clone(), source };
        let mut builder = DirBuilder::new();
        builder.recursive(true).mode(0o700).create(&self.folder).map_err(unwritable)?;
        restrict_permissions(&self.folder, 0o700)?;
        let mut options = OpenOptions::new();
        let file = options.write(true).create(true).truncate(false).mode(0o600).open(&path);
        let file = file.map_err(unwritable)?;
        let end = Instant::now() + LOCK_PATIENCE;
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(Locked { store: self, _file: file }),
                Err(TryLockError::WouldBlock) if Instant::now() < end => sleep(LOCK_PAUSE).await,
                Err(TryLockError::WouldBlock) => return Err(CredentialsError::Locked(path)),
                Err(TryLockError::Error(source)) => return Err(failed(source)),
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
}

/// The right to change the file.
pub(in crate::cli) struct Locked<'a> {
    store: &'a CredentialStore,
    _file: File,
}

impl Locked<'_> {
    /// Replaces the file as a whole.
    pub(in crate::cli) fn write(&self, logins: &Logins) -> Result<(), CredentialsError> {
        let path = self.store.path();
        let write = || {
            let mut text = serde_json::to_string_pretty(logins)?;
            text.push('\n');
            // Such files are made with mode 0600.
            let mut file = tempfile::Builder::new().prefix(FILE).tempfile_in(&self.store.folder)?;
            file.write_all(text.as_bytes())?;
            file.as_file().sync_all()?;
            file.persist(&path)?;
            io::Result::Ok(())
        };
        let unwritable =
            |source| CredentialsError::Unwritable { path: self.store.folder.clone(), source };
        write().map_err(unwritable)
    }
}

/// Takes away from others what they should never have had, as ssh does; what is somebody else's is
/// not used. What is not there needs nothing.
fn restrict_permissions(path: &Path, mode: u32) -> Result<(), CredentialsError> {
    let failed = |source| CredentialsError::File { path: path.to_owned(), source };
    let known = match fs::metadata(path) {
        Ok(known) => known,
        // Whatever else is wrong shows, better worded, when it is read or written.
        Err(_) => return Ok(()),
    };
    if known.uid() != rustix::process::geteuid().as_raw() {
        return Err(CredentialsError::NotYours { path: path.to_owned(), owner: known.uid() });
    }
    if known.permissions().mode() & 0o077 != 0 {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).map_err(failed)?;
        let path = path.display();
        notice(&format!("{path}: others could read or change it; its mode is 0{mode:o} again."));
    }
    Ok(())
}
