//! The OpenAPI document of the public API: the framework's description of the operations, completed
//! with examples, code samples and extensions. It exists in two versions of OpenAPI; the newer one
//! is derived from the older one.

mod code_samples;
mod examples;
mod extensions;
mod form;
mod texts;
mod version;

pub use form::{DocumentFormat, OpenApiVersion};
pub use texts::Document;
