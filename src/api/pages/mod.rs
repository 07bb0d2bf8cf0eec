//! The document and the web pages, which need no key and count against no limit. All references in
//! them are relative, so that they work under any path prefix.

mod content;
mod document;
mod files;
mod front;
mod numbers;
mod routes;
mod sections;

pub use content::Pages;
pub use numbers::{PublicNumbers, SharedNumbers};
pub(super) use routes::{html_paths, page_paths};
pub use sections::Leader;
