//! No release breaks the clients of the previous one: the documents against `openapi/released/`.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::change::{Change, Needs};
use super::compare::changes;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("openapi")
}

fn read(path: &Path) -> Value {
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

/// The document of the newest release by number, below `released` in `folder`: `v1.2.10.json` is newer
/// than `v1.2.9.json`.
fn released(folder: &Path) -> Value {
    let version = |path: &PathBuf| -> Option<Vec<u64>> {
        let name = path.file_name()?.to_str()?.strip_prefix('v')?.strip_suffix(".json")?;
        Some(name.split('.').map(|part| part.parse().unwrap()).collect())
    };
    let files = std::fs::read_dir(folder.join("released")).unwrap();
    let files = files.map(|file| file.unwrap().path()).filter(|path| version(path).is_some());
    read(&files.max_by_key(version).expect("a released document"))
}

fn last_release() -> Value {
    released(&folder())
}

/// Prints the changes, and asserts that those that need a major version are `known`.
fn assert_compatible(old: &Value, new: &Value, known: &[&str]) {
    let found = changes(old, new);
    for known in known {
        assert!(found.iter().any(|change| change.what == *known), "it is no change now: {known}");
    }
    let (broken, others): (Vec<_>, Vec<_>) = found
        .into_iter()
        .partition(|change| change.needs == Needs::Major && !known.contains(&change.what.as_str()));
    for change in others {
        println!("{change}");
    }
    let broken: Vec<_> = broken.iter().map(Change::to_string).collect();
    assert!(
        broken.is_empty(),
        "clients made from the last released document would break:\n  {}",
        broken.join("\n  ")
    );
}

#[test]
fn nothing_breaks_the_clients_of_the_last_release() {
    // Only described otherwise: by what is forbidden instead of what is allowed.
    let known = [
        r#"GET /genes parameter "domain": another not: {"pattern":"[\\x00-\\x1F\\x7F-\\x9F]"} instead of null"#,
        r#"GET /arena/insights parameter "domain": another not: {"pattern":"[\\x00-\\x1F\\x7F-\\x9F]"} instead of null"#,
    ];
    assert_compatible(&last_release(), &read(&folder().join("openapi.json")), &known);
}

#[test]
fn nothing_unknown_breaks_the_control_clients_of_the_last_release() {
    let folder = folder().join("control");
    let known = [
        // Reasons for the major version.
        "ControlErrorCode, read: may be \"LIMIT_EXCEEDED\" now, which clients don't know",
        "ControlErrorCode, read: may be \"UNAVAILABLE\" now, which clients don't know",
        "POST /api-keys 403: a response that clients don't know",
        // Only described now: the same before.
        "GET /login security: null has become []",
        "GET /login 400: a response that clients don't know",
        "GET /whoami 400: a response that clients don't know",
        "GET /api-keys parameter \"limit\" format: null has become \"int32\"",
        "GET /api-keys parameter \"offset\" format: null has become \"int32\"",
        r#"CreateApiKey, sent.name: another pattern: "^ *[^ ][^\\n]*$" instead of null"#,
        r#"CreateApiKey, sent.name: another not: {"pattern":"[\\x00-\\x1F\\x7F-\\x9F]"} instead of null"#,
        "CreateApiKey, sent.scopes[]: minLength null has become 1",
        "CreateApiKey, sent.scopes[]: maxLength null has become 64",
        r#"CreateApiKey, sent.scopes[]: another pattern: "^[a-z0-9:._\\-]+$" instead of null"#,
        r#"CreateApiKey, sent.scopes[]: another not: {"pattern":"[^a-z0-9:._\\-]"} instead of null"#,
        "CreateApiKey, sent.expires_at format: null has become \"date-time\"",
        "CreateApiKey, sent additionalProperties: null has become false",
        r#"RevokeApiKey, sent.prefix: another pattern: "^(gr_)?[A-Za-z0-9]{4,8}$" instead of null"#,
        r#"RevokeApiKey, sent.prefix: another not: {"pattern":"[^A-Za-z0-9_]"} instead of null"#,
        "RevokeApiKey, sent additionalProperties: null has become false",
        r#"RotateApiKey, sent.prefix: another pattern: "^(gr_)?[A-Za-z0-9]{4,8}$" instead of null"#,
        r#"RotateApiKey, sent.prefix: another not: {"pattern":"[^A-Za-z0-9_]"} instead of null"#,
        "RotateApiKey, sent additionalProperties: null has become false",
    ];
    assert_compatible(&released(&folder), &read(&folder.join("openapi.json")), &known);
}

/// The texts of the changes that need a major version.
fn breaking(old: &Value, new: &Value) -> Vec<String> {
    let broken = changes(old, new).into_iter().filter(|change| change.needs == Needs::Major);
    broken.map(|change| change.what).collect()
}

const SEARCH: &str = "/paths/~1genes/get";
const GENE: &str = "/components/schemas/GeneSummary";
const PAGE: &str = "/components/schemas/GenePage";

/// The released document with `value` at `pointer`; `null` removes the element.
fn changed(pointer: &str, value: Value) -> Value {
    changed_in(&last_release(), pointer, value)
}

fn changed_in(document: &Value, pointer: &str, value: Value) -> Value {
    let mut document = document.clone();
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
        (&format!("{SEARCH}/parameters/2/style"), json!("deepObject"), "style"),
        (&format!("{SEARCH}/parameters/3/schema/multipleOf"), json!(5), "multipleOf"),
        ("/servers/0/url", json!("/v2"), "servers"),
        ("/paths/~1genes/servers", json!([{ "url": "/v2" }]), "servers"),
        (&format!("{SEARCH}/servers"), json!([{ "url": "/v2" }]), "servers"),
        ("/paths/~1genes/parameters", json!([parameter(true)]), "is new and required"),
        ("/security", json!([]), "document security"),
        (&format!("{SEARCH}/callbacks"), json!({ "done": {} }), "callbacks"),
        (&format!("{SEARCH}/responses/200/links"), json!({ "next": {} }), "links"),
        (&format!("{PAGE}/anyOf"), json!([{ "type": "object" }]), "anyOf"),
        (
            &format!("{GENE}/properties/fidelity"),
            json!({"allOf": [{"$ref": "#/components/schemas/Fidelity"}], "nullable": true}),
            "nullable",
        ),
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
            "the field is gone",
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
fn compatible_changes_need_a_minor_or_a_patch_version() {
    let optional = json!({"name": "x", "in": "query", "required": false, "schema": {}});
    let operation = json!({"get": {"operationId": "getMore", "responses": {}}});
    let (minor, patch) = (Needs::Minor, Needs::Patch);
    for (needs, pointer, value) in [
        (patch, "/info/description", json!("other words")),
        (minor, "/paths/~1more", operation),
        (patch, &format!("{SEARCH}/summary"), json!("other words")),
        (minor, &format!("{SEARCH}/parameters/-"), optional.clone()),
        (minor, "/paths/~1genes/parameters", json!([optional])),
        (patch, "/paths/~1genes/summary", json!("other words")),
        (minor, "/paths/~1arena~1insights/get/parameters/0/required", json!(false)),
        (minor, &format!("{SEARCH}/deprecated"), json!(true)),
        (minor, &format!("{SEARCH}/parameters/0/deprecated"), json!(true)),
        (minor, &format!("{GENE}/properties/name/deprecated"), json!(true)),
        (minor, &format!("{GENE}/properties/name/title"), json!("GeneName")),
        (minor, &format!("{SEARCH}/x-pagination"), json!({})),
        (minor, "/components/securitySchemes/Other", json!({ "type": "http", "scheme": "basic" })),
        (patch, "/components/securitySchemes/ApiKey/description", json!("other words")),
        (patch, "/servers/0/description", json!("other words")),
        (minor, &format!("{SEARCH}/parameters/0/schema/maxLength"), json!(300)),
        (minor, &format!("{SEARCH}/parameters/0/schema/pattern"), Value::Null),
        (minor, &format!("{SEARCH}/parameters/0/schema/nullable"), json!(true)),
        (minor, &format!("{SEARCH}/parameters/1/schema/enum/-"), json!("Foreign")),
        (minor, &format!("{SEARCH}/parameters/1/schema/enum"), Value::Null),
        (minor, &format!("{SEARCH}/parameters/0/allowEmptyValue"), json!(true)),
        (minor, &format!("{SEARCH}/parameters/3/schema/maximum"), json!(100)),
        (patch, &format!("{SEARCH}/parameters/3/example"), json!(7)),
        (
            minor,
            &format!("{SEARCH}/responses/200/headers/More"),
            json!({"schema": {"type": "string"}}),
        ),
        (minor, &format!("{SEARCH}/responses/200/content/text~1csv"), json!({})),
        (minor, &format!("{PAGE}/properties/more"), json!({"type": "string"})),
        (minor, &format!("{GENE}/properties/downloads/minimum"), json!(1)),
        (minor, &format!("{GENE}/properties/arena_history/maxItems"), json!(5)),
        (patch, &format!("{GENE}/properties/name/description"), json!("other words")),
        (patch, "/components/schemas/More", json!({"type": "object"})),
    ] {
        let found = changes(&last_release(), &changed(pointer, value));
        assert!(found.iter().all(|change| change.needs == needs), "{pointer}: {found:#?}");
        assert!(!found.is_empty(), "{pointer}");
    }
    let mut renamed = last_release().to_string();
    renamed =
        renamed.replace("\"GenePage\"", "\"Genes\"").replace("schemas/GenePage", "schemas/Genes");
    let found = changes(&last_release(), &serde_json::from_str(&renamed).unwrap());
    assert!(
        found.iter().all(|change| change.needs == minor),
        "a name is not on the wire: {found:#?}"
    );
    assert!(found.iter().any(|change| change.what.contains("the type's name")), "{found:#?}");
    assert!(changes(&last_release(), &last_release()).is_empty());
}

const CREATE: &str = "/paths/~1api-keys/post";
const BODY: &str = "/components/schemas/CreateApiKey";

#[test]
fn changes_of_bodies_that_are_sent_are_found() {
    let released = released(&folder().join("control"));
    let (minor, major) = (Needs::Minor, Needs::Major);
    for (needs, pointer, value, message) in [
        (minor, &format!("{BODY}/properties/note"), json!({"type": "string"}), "is new"),
        (major, &format!("{BODY}/properties/name"), Value::Null, "the field is gone"),
        (major, &format!("{BODY}/required/-"), json!("expires_at"), "is required now"),
        (major, &format!("{BODY}/required/-"), json!("reason"), "reason: is required now"),
        (minor, &format!("{BODY}/required/0"), Value::Null, "may be absent now"),
        (major, &format!("{BODY}/properties/name/maxLength"), json!(100), "maxLength"),
        (minor, &format!("{BODY}/properties/name/maxLength"), json!(300), "maxLength"),
        (major, &format!("{BODY}/additionalProperties"), json!(false), "additionalProperties"),
        (major, &format!("{BODY}/minProperties"), json!(2), "minProperties"),
        (major, &format!("{BODY}/properties/rate_limit_per_minute/default"), json!(5), "default"),
        (minor, &format!("{CREATE}/requestBody/content/text~1csv"), json!({}), "is new"),
        (major, &format!("{CREATE}/requestBody/content/application~1json"), Value::Null, "is gone"),
    ] {
        let found = changes(&released, &changed_in(&released, pointer, value));
        let is_expected = |change: &Change| change.needs == needs && change.what.contains(message);
        assert!(found.iter().any(is_expected), "{pointer}: {found:#?}");
    }
}

/// Where a parameter, a response and a schema stand makes no difference; what they say does.
#[test]
fn references_are_followed() {
    let released = last_release();
    let parameter = released.pointer(&format!("{SEARCH}/parameters/0")).unwrap();
    let response = released.pointer(&format!("{SEARCH}/responses/429")).unwrap();
    let reference = |to: &str| json!({ "$ref": format!("#/components/{to}/Moved") });
    let mut moved = changed(&format!("{SEARCH}/parameters/0"), reference("parameters"));
    moved = changed_in(&moved, &format!("{SEARCH}/responses/429"), reference("responses"));
    moved = changed_in(&moved, "/components/parameters", json!({ "Moved": parameter }));
    moved = changed_in(&moved, "/components/responses", json!({ "Moved": response }));
    let found = changes(&released, &moved);
    assert!(found.iter().all(|change| change.needs == Needs::Patch), "{found:#?}");
    for (pointer, value, message) in [
        ("/components/parameters/Moved/required", json!(true), "is required now"),
        ("/components/responses/Moved/headers/Retry-After", Value::Null, "is gone"),
    ] {
        let broken = breaking(&moved, &changed_in(&moved, pointer, value));
        assert!(broken.iter().any(|line| line.contains(message)), "{pointer}: {broken:#?}");
    }
    // A reference to a reference, and one within what is compared as a whole.
    let to_twice = json!({ "$ref": "#/components/parameters/Twice" });
    let twice = changed_in(&moved, "/components/parameters/Twice", parameter.clone());
    let twice = changed_in(&twice, "/components/parameters/Moved", to_twice);
    let required = changed_in(&twice, "/components/parameters/Twice/required", json!(true));
    let broken = breaking(&twice, &required);
    assert!(broken.iter().any(|line| line.contains("is required now")), "{broken:#?}");
    let not = json!({ "$ref": "#/components/schemas/Trend" });
    let with_not = changed(&format!("{SEARCH}/parameters/0/schema/not"), not);
    let other = changed_in(&with_not, "/components/schemas/Trend/enum/0", Value::Null);
    let broken = breaking(&with_not, &other);
    assert!(broken.iter().any(|line| line.contains(" not: ")), "{broken:#?}");
    let either =
        json!({ "anyOf": [{ "$ref": "#/components/schemas/Trend" }, { "type": "object" }] });
    let with_either = changed(&format!("{GENE}/properties/name"), either);
    let pointer = "/components/schemas/Trend/enum/-";
    let broken = breaking(&with_either, &changed_in(&with_either, pointer, json!("unknown")));
    assert!(broken.iter().any(|line| line.contains("may be \"unknown\" now")), "{broken:#?}");
}
