//! The files that the pages of both listeners share: their style and helpers, and Swagger UI.

use super::static_file::{ICON, PageFile, SCRIPT, STYLE};

/// The files. All references between them are relative, so they work under any path prefix.
pub(crate) const FILES: [PageFile; 8] = [
    ("/assets/style.css", STYLE, include_str!("assets/style.css")),
    ("/assets/icon.svg", ICON, include_str!("assets/icon.svg")),
    ("/assets/dom.js", SCRIPT, include_str!("assets/dom.js")),
    ("/assets/copy.js", SCRIPT, include_str!("assets/copy.js")),
    ("/docs/docs.css", STYLE, include_str!("assets/docs.css")),
    ("/docs/swagger.js", SCRIPT, include_str!("assets/swagger.js")),
    ("/docs/swagger-ui-bundle.js", SCRIPT, include_str!("swagger_ui/swagger-ui-bundle.js")),
    ("/docs/swagger-ui.css", STYLE, include_str!("swagger_ui/swagger-ui.css")),
];
