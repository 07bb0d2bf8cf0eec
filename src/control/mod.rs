//! The control listener: who is asking, and the API keys of whoever asks. Not part of the public
//! API: it has its own document and its own page.

mod body;
mod document;
mod error;
pub mod identity;
mod keys;
mod listener;
mod login;
mod login_token;
mod model;
mod reply;
mod requests;

pub use document::document;
pub use identity::{Caller, Identities};
pub use listener::ControlApi;
pub use login_token::{LoginToken, MalformedLoginToken};
