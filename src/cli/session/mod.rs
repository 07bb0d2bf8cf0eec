//! Logins to servers: the stored credentials, and requests that carry them.

mod address;
mod control_client;
mod control_session;
mod credentials;
mod device_login;
mod issuer_client;
mod refresh;
mod resolve_server;
mod retry_after;

pub(super) use address::ServerAddress;
pub(super) use control_client::{ControlClient, ControlClientError, OidcMetadata, WhoAmI};
pub(super) use control_session::{ControlSession, web_client};
pub(super) use credentials::{CredentialStore, Login, Logins, OidcLogin};
pub(super) use device_login::DeviceLogin;
pub(super) use issuer_client::IssuerClient;
pub(super) use resolve_server::resolve_server;
