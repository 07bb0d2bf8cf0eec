//! A read-only, caching JSON API over a public gene registry.
//!
//! `docs/ARCHITECTURE.md` describes the request flow and the modules of this crate.

pub mod api;
pub mod app;
pub mod cache;
pub mod cli;
pub mod config;
pub mod control;
pub mod default_schema;
pub mod doctor;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
mod http;
pub mod keys;
pub mod limit;
pub mod net;
pub mod ops;
pub mod redis;
pub mod registry;
pub mod server;
pub mod sync;
pub mod upstream;
