//! Who the caller is: the user of an access token of the configured OpenID Connect issuer, or of a
//! login token whose hash is configured.

mod access_token;
mod bearer;
mod caller;
mod discovery;
mod error;
mod identities;
mod issuer;
mod login_tokens;
mod signatures;

#[cfg(feature = "fuzzing")]
pub(crate) use access_token::{ClaimVerifier, accepted_header};
#[cfg(feature = "fuzzing")]
pub(crate) use bearer::token as bearer_token;
pub use caller::{AuthMethod, Caller};
pub(crate) use discovery::LoginEndpoints;
pub use error::{AuthError, CredentialError};
pub use identities::Identities;
pub use issuer::IssuerKeysError;
