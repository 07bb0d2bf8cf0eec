//! Tags of the document.

use poem_openapi::Tags;

/// The tags.
#[derive(Tags)]
pub(super) enum Tag {
    /// Nonstandard relative to the protocol specification: these operations belong to one
    /// implementation, Level 1.5.
    #[oai(rename = "nonstandard")]
    Nonstandard,
}
