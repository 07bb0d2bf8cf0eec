//! API keys: their form, who may come in, and their records.

mod authenticator;
mod token;

pub use authenticator::{Authenticator, Denial, NotAuthenticated, READ_SCOPE};
pub use token::{ApiKey, MalformedKey, NoRandomness};
