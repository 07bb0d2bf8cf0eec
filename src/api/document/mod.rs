//! The OpenAPI document of the public API: the framework's description of the operations, completed
//! with credentials, examples, code samples and extensions.

mod code_samples;
mod examples;
mod extensions;
mod openapi;

pub use openapi::Document;
