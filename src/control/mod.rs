//! The control API: login, and management of the caller's API keys. It is not part of the public
//! API: it has its own listener, document and page.

mod audited_keys;
mod body;
mod call_limiter;
mod document;
mod error;
mod headers;
pub mod identity;
mod keys;
mod listener;
mod login;
mod login_token;
mod model;
mod pages;
mod parameters;
mod reply;
mod requests;
mod tag;

pub use document::control_document;
pub use identity::{Caller, Identities};
pub use listener::ControlApi;
pub use login_token::{LoginToken, MalformedLoginToken};
