//! Responses and their headers, as the document describes them.

use poem_openapi::registry::{MetaHeader, MetaMediaType, MetaResponse, MetaSchema, MetaSchemaRef};

/// A response header in the document.
pub(crate) struct DocumentedHeader {
    name: &'static str,
    description: &'static str,
    schema: fn() -> MetaSchema,
}

/// A response header in the document, whose value has the type that `schema` returns.
pub(crate) const fn header(
    name: &'static str,
    description: &'static str,
    schema: fn() -> MetaSchema,
) -> DocumentedHeader {
    DocumentedHeader { name, description, schema }
}

/// The headers of responses that must not be cached.
pub(crate) const UNCACHED_HEADERS: &[DocumentedHeader] = &[
    header("X-Request-Id", "Identifies the request in the service's log.", text),
    header("Cache-Control", "`no-store`", text),
];

/// A response with these headers and, if it has a body, JSON of this schema.
pub(crate) fn response(
    status: u16,
    description: &'static str,
    schema: Option<MetaSchemaRef>,
    headers: &[&[DocumentedHeader]],
) -> MetaResponse {
    let headers = headers.iter().copied().flatten().map(|header| MetaHeader {
        name: header.name.to_owned(),
        description: Some(header.description.to_owned()),
        required: false,
        deprecated: false,
        schema: MetaSchemaRef::Inline(Box::new((header.schema)())),
    });
    let media = |schema| MetaMediaType { content_type: "application/json", schema };
    MetaResponse {
        description,
        status: Some(status),
        status_range: None,
        content: schema.map(media).into_iter().collect(),
        headers: headers.collect(),
    }
}

/// The schema of a text.
pub(crate) fn text() -> MetaSchema {
    MetaSchema::new("string")
}

/// The schema of a 32-bit integer within these bounds.
pub(crate) fn integer(minimum: u32, maximum: u32) -> MetaSchema {
    MetaSchema {
        minimum: Some(minimum.into()),
        maximum: Some(maximum.into()),
        ..MetaSchema::new_with_format("integer", "int32")
    }
}
