//! API keys: their form, who may come in, and their records.

mod authenticator;
mod budget;
mod records;
pub mod store;
mod token;

pub use authenticator::{Authenticator, Denial, NotAuthenticated, READ_SCOPE};
pub use store::NewKey;
pub use token::{ApiKey, MalformedKey, NoRandomness};
