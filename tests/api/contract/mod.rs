//! The served document: its content, that the committed file is up to date, and that every response
//! matches it.

mod change;
mod compare;
mod compare_schemas;
mod compatibility;
mod document;
mod existing_registry;
mod patterns;
mod publication;
mod responses;
