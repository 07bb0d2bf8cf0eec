//! How the document says that operations need credentials. Middleware checks them before any
//! parameter is parsed, so operations have no parameter for them.

use serde_json::{Value, json};

/// Adds the security scheme `name`, which the operations of all paths need except those of `open`, which
/// need no credentials.
pub(crate) fn require_credentials(document: &mut Value, name: &str, scheme: Value, open: &[&str]) {
    document["components"]["securitySchemes"] = json!({ name: scheme });
    let paths = document["paths"].as_object_mut().into_iter().flatten();
    for (path, operations) in paths {
        let is_open = open.contains(&path.as_str());
        for (_, operation) in operations.as_object_mut().into_iter().flatten() {
            operation["security"] = if is_open { json!([]) } else { json!([{ name: [] }]) };
        }
    }
}
