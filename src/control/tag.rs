//! The groups of the control API's operations.

use poem_openapi::Tags;

/// A group of operations, in the document.
#[derive(Tags)]
pub(super) enum ControlTag {
    /// How to log in, and who is logged in.
    #[oai(rename = "login")]
    Login,
    /// API keys.
    #[oai(rename = "api-keys")]
    ApiKeys,
}
