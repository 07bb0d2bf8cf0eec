//! Building blocks of OpenAPI documents: from the framework's description of the operations to a
//! document that clients can be generated from.

mod normalize;
mod operations;
mod responses;
mod types;

pub(crate) use normalize::{for_each_object, in_order};
pub(crate) use operations::document_of;
pub(crate) use responses::{DocumentedHeader, integer, response, text};
pub(crate) use types::{Time, documented};
