//! The document and the web pages, which need no key and count against no limit. All references in
//! them are relative, so that they work under any path prefix.

mod document;
mod files;
mod front;
mod routes;
mod template;
mod unknown;

pub use routes::Pages;
pub(super) use routes::{html_paths, page_paths};
pub(super) use unknown::{PageRequest, UnknownPages};
