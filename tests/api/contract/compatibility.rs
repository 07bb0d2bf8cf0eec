//! No release breaks the clients of the previous one: the document against `openapi/released/`.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::compare::breaking;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("openapi")
}

fn read(path: &Path) -> Value {
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

/// The newest release by number: `v1.2.10.json` is newer than `v1.2.9.json`.
fn version(path: &Path) -> Vec<u64> {
    let name = path.file_stem().unwrap().to_str().unwrap().trim_start_matches('v').to_owned();
    name.split('.').map(|part| part.parse().unwrap()).collect()
}

fn last_release() -> Value {
    let files = std::fs::read_dir(folder().join("released")).unwrap();
    let files = files.map(|file| file.unwrap().path());
    read(&files.max_by_key(|path| version(path)).expect("a released document"))
}

#[test]
fn nothing_breaks_the_clients_of_the_last_release() {
    let broken = breaking(&last_release(), &read(&folder().join("openapi.json")));
    assert!(
        broken.is_empty(),
        "clients made from the last released document would break:\n  {}\n\
         Such a change needs a new path (/v2).",
        broken.join("\n  ")
    );
}

const SEARCH: &str = "/paths/~1genes/get";
const GENE: &str = "/components/schemas/GeneSummary";
const PAGE: &str = "/components/schemas/GenePage";

/// The released document with `value` at `pointer`; `null` removes the element.
fn changed(pointer: &str, value: Value) -> Value {
    let mut document = last_release();
    let (parent, name) = pointer.rsplit_once('/').unwrap();
    let parent = document.pointer_mut(parent).expect(pointer);
    let name = name.replace("~1", "/");
    match (parent, value) {
        (Value::Object(parent), Value::Null) => {
            parent.remove(&name).expect(pointer);
        }
        (Value::Array(parent), value) if name == "-" => parent.push(value),
        (Value::Array(parent), Value::Null) => {
            parent.remove(name.parse().expect(pointer));
        }
        (parent, value) if parent.is_object() => parent[name] = value,
        (parent, value) => parent[name.parse::<usize>().expect(pointer)] = value,
    }
    document
}

#[test]
fn breaking_changes_are_found() {
    let parameter = |required: bool| json!({"name": "x", "in": "query", "required": required, "schema": {"type": "string"}});
    for (pointer, value, message) in [
        ("/paths/~1genes", Value::Null, "the operation is gone"),
        (&format!("{SEARCH}/operationId"), json!("search"), "operationId"),
        (&format!("{SEARCH}/tags/0"), json!("standard"), "tags"),
        (&format!("{SEARCH}/security"), json!([]), "security"),
        ("/components/securitySchemes/ApiKey/name", json!("X-Key"), "securitySchemes"),
        (&format!("{SEARCH}/parameters/0"), Value::Null, "is gone"),
        (&format!("{SEARCH}/parameters/0/name"), json!("area"), "\"domain\": is gone"),
        (&format!("{SEARCH}/parameters/0/required"), json!(true), "is required now"),
        (&format!("{SEARCH}/parameters/-"), parameter(true), "is new and required"),
        (&format!("{SEARCH}/parameters/0/schema/maxLength"), json!(64), "maxLength"),
        (&format!("{SEARCH}/parameters/0/schema/minLength"), json!(1), "minLength"),
        (&format!("{SEARCH}/parameters/0/schema/pattern"), json!("^a$"), "pattern"),
        (&format!("{SEARCH}/parameters/0/schema/enum"), json!(["a"]), "an enum now"),
        (&format!("{SEARCH}/parameters/1/schema/enum/0"), Value::Null, "no longer has"),
        (&format!("{SEARCH}/parameters/2/schema/default"), json!("downloads"), "default"),
        (&format!("{SEARCH}/parameters/3/schema/maximum"), json!(20), "maximum"),
        (&format!("{SEARCH}/parameters/3/schema/minimum"), json!(2), "minimum"),
        (&format!("{SEARCH}/parameters/3/schema/type"), json!("string"), "type"),
        (&format!("{SEARCH}/responses/404"), Value::Null, "the response is gone"),
        (&format!("{SEARCH}/responses/418"), json!({}), "clients don't know"),
        (&format!("{SEARCH}/responses/200/headers/Link"), Value::Null, "header Link: is gone"),
        (&format!("{SEARCH}/responses/200/content/application~1json"), Value::Null, "is gone"),
        (
            &format!("{SEARCH}/responses/200/content/application~1json/schema/$ref"),
            json!("#/components/schemas/GenePhenotype"),
            "the type's name",
        ),
        (
            &format!("{SEARCH}/responses/429/headers/Retry-After/schema/maximum"),
            json!(90),
            "maximum",
        ),
        (&format!("{PAGE}/properties/total"), Value::Null, ".total: the field is gone"),
        (&format!("{PAGE}/required/1"), Value::Null, "may be absent now"),
        (&format!("{GENE}/properties/downloads/type"), json!("string"), "type"),
        (&format!("{GENE}/properties/downloads/format"), json!("int32"), "format"),
        (&format!("{GENE}/properties/downloads/maximum"), Value::Null, "maximum"),
        (&format!("{GENE}/properties/downloads/minimum"), json!(-1), "minimum"),
        (&format!("{GENE}/properties/name/nullable"), json!(true), "nullable"),
        (&format!("{GENE}/properties/arena_history/maxItems"), json!(20), "maxItems"),
        (&format!("{GENE}/properties/arena_history/items"), json!({"type": "string"}), "type"),
        ("/components/schemas/Trend/enum/-", json!("unknown"), "may be \"unknown\" now"),
        ("/components/schemas/Fidelity/enum/0", Value::Null, "no longer has"),
        ("/components/schemas/ErrorCode/enum", Value::Null, "no enum now"),
        ("/components/schemas/ErrorCode/enum/-", json!("SLEEPY"), "may be \"SLEEPY\" now"),
        ("/components/schemas/ErrorCode/enum/0", Value::Null, "no longer has"),
    ] {
        let broken = breaking(&last_release(), &changed(pointer, value));
        assert!(broken.iter().any(|line| line.contains(message)), "{pointer}: {broken:#?}");
    }
}

#[test]
fn compatible_changes_pass() {
    let optional = json!({"name": "x", "in": "query", "required": false, "schema": {}});
    let operation = json!({"get": {"operationId": "getMore", "responses": {}}});
    for (pointer, value) in [
        ("/info/description", json!("other words")),
        ("/paths/~1more", operation),
        (&format!("{SEARCH}/summary"), json!("other words")),
        (&format!("{SEARCH}/parameters/-"), optional),
        (&format!("{SEARCH}/parameters/0/schema/maxLength"), json!(300)),
        (&format!("{SEARCH}/parameters/0/schema/pattern"), Value::Null),
        (&format!("{SEARCH}/parameters/1/schema/enum/-"), json!("Foreign")),
        (&format!("{SEARCH}/parameters/3/schema/maximum"), json!(100)),
        (&format!("{SEARCH}/parameters/3/example"), json!(7)),
        (&format!("{SEARCH}/responses/200/headers/More"), json!({"schema": {"type": "string"}})),
        (&format!("{SEARCH}/responses/200/content/text~1csv"), json!({})),
        (&format!("{PAGE}/properties/more"), json!({"type": "string"})),
        (&format!("{GENE}/properties/downloads/minimum"), json!(1)),
        (&format!("{GENE}/properties/arena_history/maxItems"), json!(5)),
        (&format!("{GENE}/properties/name/description"), json!("other words")),
        ("/components/schemas/More", json!({"type": "object"})),
    ] {
        let broken = breaking(&last_release(), &changed(pointer, value));
        assert!(broken.is_empty(), "{pointer}: {broken:#?}");
    }
    assert!(breaking(&last_release(), &last_release()).is_empty());
}
