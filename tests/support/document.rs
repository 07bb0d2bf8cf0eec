//! The served OpenAPI document, and strict checks of responses against it.

use serde_json::{Value, json};

use super::replica::{Replica, Response};

/// A document in which each object must have exactly the declared properties.
pub(crate) struct StrictDocument {
    pub(crate) json: Value,
    schemas: Value,
}

impl StrictDocument {
    pub(crate) async fn of(replica: &Replica) -> Self {
        let json = replica.get("/openapi.json", None).await.json();
        let mut schemas = json["components"]["schemas"].clone();
        for schema in schemas.as_object_mut().unwrap().values_mut() {
            make_strict(schema);
        }
        Self { json, schemas }
    }

    /// The operation on a path of the document.
    #[track_caller]
    pub(crate) fn operation(&self, path: &str) -> &Value {
        let operation = &self.json["paths"][path]["get"];
        assert!(operation.is_object(), "no GET {path}");
        operation
    }

    /// Checks a response of the operation on `path` against the declaration for its status.
    #[track_caller]
    pub(crate) fn check(&self, path: &str, response: &Response) {
        let status = response.status.as_str();
        let declared = &self.operation(path)["responses"][status];
        assert!(declared.is_object(), "GET {path} declares no {status}: {response:?}");
        let schema = &declared["content"]["application/json"]["schema"];
        let faults = self.faults(schema, &response.json());
        assert!(faults.is_empty(), "GET {path}, {status}: {faults:#?}\n{}", response.text);
    }

    /// How a value deviates from a schema of the document.
    pub(crate) fn faults(&self, schema: &Value, value: &Value) -> Vec<String> {
        let mut schema = schema.clone();
        schema["components"] = json!({ "schemas": self.schemas });
        let options = jsonschema::options().should_validate_formats(true);
        let validator = options.build(&schema).unwrap();
        let faults = validator.iter_errors(value);
        faults.map(|fault| format!("{}: {fault}", fault.instance_path())).collect()
    }
}

fn make_strict(schema: &mut Value) {
    let Some(properties) = schema["properties"].as_object() else { return };
    let names: Vec<_> = properties.keys().cloned().collect();
    schema["required"] = names.into();
    schema["additionalProperties"] = false.into();
}
