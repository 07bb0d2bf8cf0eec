//! Examples in the document: requests that can be tried on the sample registry, and what it
//! answers.

use serde_json::{Value, json};

/// The sample registry's best gene.
const GENE: &str = "db8dde37-1518-4afb-94b1-f5723d34ff6e";
const DOMAIN: &str = "search";

/// Adds them.
pub(super) fn add_to(document: &mut Value) {
    for (path, name, example) in [
        ("/genes", "domain", json!(DOMAIN)),
        ("/genes", "fidelity", json!("Native")),
        ("/genes", "sort", json!("fitness")),
        ("/genes", "limit", json!(2)),
        ("/genes", "offset", json!(0)),
        ("/genes/{id}/phenotype", "id", json!(GENE)),
        ("/arena/insights", "domain", json!(DOMAIN)),
    ] {
        let parameters = &mut document["paths"][path]["get"]["parameters"];
        for parameter in parameters.as_array_mut().into_iter().flatten() {
            if parameter["name"] == name {
                parameter["example"] = example.clone();
            }
        }
    }
}
