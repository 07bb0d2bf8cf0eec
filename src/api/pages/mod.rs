//! Everything that is served without a key: the document and the web pages. None of it counts
//! against a limit. All references are relative, so that it works under any path prefix.

mod document;
mod files;
mod front;
mod routes;
mod template;

pub use routes::Pages;
pub(super) use routes::page_paths;
