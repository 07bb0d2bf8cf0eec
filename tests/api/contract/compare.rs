//! Finds the changes of a document, and which version each needs. Clients send parameters and bodies and
//! read responses, so what is sent may only become wider and what is read narrower. Generated clients are
//! strict: they cannot read a response with a new value of an enum, error codes included.

use std::collections::BTreeSet;
use std::fmt;

use serde_json::{Map, Value};

use super::change::{Change, Needs};

/// The changes from `old` to `new`.
pub(super) fn changes(old: &Value, new: &Value) -> Vec<Change> {
    let mut found = Comparison { old, new, found: Vec::new(), seen: BTreeSet::new() };
    for (path, item) in object(&old["paths"]) {
        for (method, operation) in object(item) {
            let other = &new["paths"][path][method];
            let location = format!("{} {path}", method.to_uppercase());
            if other.is_null() {
                found.breaks(&location, "the operation is gone");
            } else {
                found.operation(&location, operation, other);
            }
        }
    }
    for (path, item) in object(&new["paths"]) {
        for (method, _) in object(item).filter(|(method, _)| old["paths"][path][*method].is_null())
        {
            found.adds(&format!("{} {path}", method.to_uppercase()), "a new operation");
        }
    }
    found.unchanged(
        "securitySchemes",
        &old["components"]["securitySchemes"],
        &new["components"]["securitySchemes"],
    );
    found.unchanged("servers", &old["servers"], &new["servers"]);
    let mut found = found.found;
    if found.is_empty() && old != new {
        found.push(Change { needs: Needs::Patch, what: "other texts".to_owned() });
    }
    found
}

/// The keywords of schemas, and of parameters, whose changes are judged.
const SCHEMA: [&str; 17] = [
    "type",
    "format",
    "nullable",
    "enum",
    "default",
    "minimum",
    "maximum",
    "minLength",
    "maxLength",
    "minItems",
    "maxItems",
    "pattern",
    "not",
    "properties",
    "required",
    "items",
    "additionalProperties",
];
const PARAMETER: [&str; 5] = ["name", "in", "required", "schema", "allowEmptyValue"];

/// Those that no client depends on.
const TEXTS: [&str; 6] = ["title", "description", "summary", "example", "examples", "externalDocs"];

/// Who writes the values of a schema: the client, which sends them, or the service.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Direction {
    Sent,
    Read,
}

impl fmt::Display for Direction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Sent => "sent",
            Self::Read => "read",
        })
    }
}

struct Comparison<'a> {
    old: &'a Value,
    new: &'a Value,
    found: Vec<Change>,
    /// The references that have been compared: the old one and the new one.
    seen: BTreeSet<(String, String, Direction)>,
}

impl Comparison<'_> {
    fn breaks(&mut self, location: &str, what: &str) {
        self.found.push(Change { needs: Needs::Major, what: format!("{location}: {what}") });
    }

    fn adds(&mut self, location: &str, what: &str) {
        self.found.push(Change { needs: Needs::Minor, what: format!("{location}: {what}") });
    }

    fn unchanged(&mut self, location: &str, old: &Value, new: &Value) {
        if old != new {
            self.breaks(location, &format!("{old} has become {new}"));
        }
    }

    fn operation(&mut self, location: &str, old: &Value, new: &Value) {
        self.unchanged(
            &format!("{location} operationId"),
            &old["operationId"],
            &new["operationId"],
        );
        if array(&old["tags"]).is_empty() && old["tags"] != new["tags"] {
            self.adds(location, "a tag, where it had none");
        } else {
            self.unchanged(&format!("{location} tags"), &old["tags"], &new["tags"]);
        }
        self.unchanged(&format!("{location} security"), &old["security"], &new["security"]);
        let (before, after) = (array(&old["parameters"]), array(&new["parameters"]));
        let unchanged = |a: &Value, b: &Value| a["name"] == b["name"] && a["in"] == b["in"];
        for parameter in before {
            let location = format!("{location} parameter {}", parameter["name"]);
            match after.iter().find(|other| unchanged(parameter, other)) {
                None => self.breaks(&location, "is gone"),
                Some(other) => {
                    if other["required"] == true && parameter["required"] != true {
                        self.breaks(&location, "is required now");
                    }
                    let is_empty_allowed = |parameter: &Value| parameter["allowEmptyValue"] == true;
                    let allows = [parameter, other].map(is_empty_allowed);
                    let what = "allowEmptyValue";
                    self.wider_or_narrower(&location, what, allows[1], allows[0], Direction::Sent);
                    self.keywords(&location, parameter, other, &PARAMETER);
                    self.schema(&location, &parameter["schema"], &other["schema"], Direction::Sent);
                }
            }
        }
        for parameter in after {
            let location = format!("{location} parameter {}", parameter["name"]);
            let is_new = !before.iter().any(|other| unchanged(parameter, other));
            match is_new.then(|| parameter["required"] == true) {
                Some(true) => self.breaks(&location, "is new and required"),
                Some(false) => self.adds(&location, "is new"),
                None => {}
            }
        }
        self.body(location, &old["requestBody"], &new["requestBody"]);
        for (status, response) in object(&old["responses"]) {
            self.response(&format!("{location} {status}"), response, &new["responses"][status]);
        }
        for (status, _) in object(&new["responses"]) {
            if old["responses"][status].is_null() {
                self.breaks(&format!("{location} {status}"), "a response that clients don't know");
            }
        }
    }

    /// The body of a request.
    fn body(&mut self, location: &str, old: &Value, new: &Value) {
        let location = format!("{location} body");
        let required = |body: &Value| body["required"] == true;
        if required(new) && !required(old) {
            self.breaks(&location, "is required now");
        }
        for (kind, content) in object(&old["content"]) {
            let other = &new["content"][kind];
            if other.is_null() {
                self.breaks(&format!("{location} {kind}"), "is gone");
            } else {
                self.schema(&location, &content["schema"], &other["schema"], Direction::Sent);
            }
        }
        for (kind, _) in object(&new["content"]).filter(|(kind, _)| old["content"][*kind].is_null())
        {
            self.adds(&format!("{location} {kind}"), "is new");
        }
    }

    fn response(&mut self, location: &str, old: &Value, new: &Value) {
        if new.is_null() {
            return self.breaks(location, "the response is gone");
        }
        for (name, header) in object(&old["headers"]) {
            let other = &new["headers"][name];
            if other.is_null() {
                self.breaks(&format!("{location} header {name}"), "is gone");
            } else {
                let location = format!("{location} header {name}");
                self.schema(&location, &header["schema"], &other["schema"], Direction::Read);
            }
        }
        for (name, _) in object(&new["headers"]).filter(|(name, _)| old["headers"][*name].is_null())
        {
            self.adds(&format!("{location} header {name}"), "is new");
        }
        for (kind, content) in object(&old["content"]) {
            let other = &new["content"][kind];
            if other.is_null() {
                self.breaks(&format!("{location} {kind}"), "is gone");
            } else {
                let location = format!("{location} body");
                self.schema(&location, &content["schema"], &other["schema"], Direction::Read);
            }
        }
        for (kind, _) in object(&new["content"]).filter(|(kind, _)| old["content"][*kind].is_null())
        {
            self.adds(&format!("{location} {kind}"), "is new");
        }
    }

    fn schema(&mut self, location: &str, old: &Value, new: &Value, direction: Direction) {
        if let (Some(a), Some(b)) = (reference(old), reference(new)) {
            self.keywords(location, old, new, &["allOf", "$ref", "default"]);
            // Once, however many responses and bodies have it.
            if self.seen.insert((a.to_owned(), b.to_owned(), direction)) {
                let name = |reference: &str| reference.rsplit('/').next().unwrap().to_owned();
                let (before, after) = (name(a), name(b));
                if before != after {
                    self.adds(&before, &format!("the type's name has become {after}"));
                }
                let location = format!("{before}, {direction}");
                self.resolved(&location, old, new, direction);
            }
        } else {
            self.resolved(location, old, new, direction);
        }
    }

    fn resolved(&mut self, location: &str, old: &Value, new: &Value, direction: Direction) {
        let (old, new) = (&resolve(self.old, old), &resolve(self.new, new));
        self.keywords(location, old, new, &SCHEMA);
        if direction == Direction::Sent {
            self.unchanged(&format!("{location} default"), &old["default"], &new["default"]);
        }
        for keyword in ["type", "format"] {
            self.unchanged(&format!("{location} {keyword}"), &old[keyword], &new[keyword]);
        }
        let nullable = |schema: &Value| schema["nullable"] == true;
        self.wider_or_narrower(location, "nullable", nullable(new), nullable(old), direction);
        self.allowed_values(location, old, new, direction);
        for keyword in ["minimum", "minLength", "minItems"] {
            self.bound(location, keyword, &old[keyword], &new[keyword], direction, false);
        }
        for keyword in ["maximum", "maxLength", "maxItems"] {
            self.bound(location, keyword, &old[keyword], &new[keyword], direction, true);
        }
        for keyword in ["pattern", "not"] {
            match (&old[keyword], &new[keyword]) {
                (a, b) if a == b => {}
                (_, Value::Null) if direction == Direction::Sent => {
                    self.adds(location, &format!("without {keyword}"));
                }
                (a, b) => self.breaks(location, &format!("another {keyword}: {b} instead of {a}")),
            }
        }
        self.properties(location, old, new, direction);
        for keyword in ["items", "additionalProperties"] {
            match (&old[keyword], &new[keyword]) {
                (Value::Null, Value::Null) => {}
                (a, b) if a.is_object() && b.is_object() => {
                    self.schema(&format!("{location}[]"), a, b, direction);
                }
                (a, b) => self.unchanged(&format!("{location} {keyword}"), a, b),
            }
        }
    }

    fn properties(&mut self, location: &str, old: &Value, new: &Value, direction: Direction) {
        let is_required = |schema: &Value, name: &str| {
            array(&schema["required"]).iter().any(|required| required == name)
        };
        for (name, property) in object(&old["properties"]) {
            let location = format!("{location}.{name}");
            let other = &new["properties"][name];
            if other.is_null() {
                self.breaks(&location, "the field is gone");
                continue;
            }
            if direction == Direction::Read && is_required(old, name) && !is_required(new, name) {
                self.breaks(&location, "may be absent now");
            }
            if direction == Direction::Sent && !is_required(old, name) && is_required(new, name) {
                self.breaks(&location, "is required now");
            }
            self.schema(&location, property, other, direction);
        }
        for (name, _) in object(&new["properties"]) {
            let is_new = old["properties"][name].is_null();
            match is_new.then(|| direction == Direction::Sent && is_required(new, name)) {
                Some(true) => self.breaks(&format!("{location}.{name}"), "is new and required"),
                Some(false) => self.adds(&format!("{location}.{name}"), "is new"),
                None => {}
            }
        }
    }

    /// Reports each keyword that is compared nowhere and has changed.
    fn keywords(&mut self, location: &str, old: &Value, new: &Value, compared: &[&str]) {
        let names: BTreeSet<_> =
            object(old).chain(object(new)).map(|(name, _)| name.as_str()).collect();
        let is_text = |name: &str| TEXTS.contains(&name) || name.starts_with("x-");
        for name in names.into_iter().filter(|name| !is_text(name) && !compared.contains(name)) {
            self.unchanged(&format!("{location} {name}"), &old[name], &new[name]);
        }
    }

    fn allowed_values(&mut self, location: &str, old: &Value, new: &Value, direction: Direction) {
        let (before, after) = (array(&old["enum"]), array(&new["enum"]));
        match (direction, before, after) {
            (_, [], []) => return,
            (Direction::Sent, [], _) => return self.breaks(location, "an enum now"),
            (Direction::Read, [], _) => return self.adds(location, "an enum now"),
            (Direction::Sent, _, []) => return self.adds(location, "no enum now"),
            (Direction::Read, _, []) => return self.breaks(location, "no enum now"),
            _ => {}
        }
        // Generated types are shared, so a removed value breaks clients in either direction.
        for value in before.iter().filter(|value| !after.contains(value)) {
            self.breaks(location, &format!("no longer has {value}"));
        }
        for value in after.iter().filter(|value| !before.contains(value)) {
            match direction {
                Direction::Sent => self.adds(location, &format!("may be {value} now")),
                Direction::Read => {
                    let what = format!("may be {value} now, which clients don't know");
                    self.breaks(location, &what);
                }
            }
        }
    }

    /// Values that are sent must not be narrowed, values that are read not widened.
    fn wider_or_narrower(
        &mut self,
        location: &str,
        what: &str,
        is_wider: bool,
        was_wider: bool,
        direction: Direction,
    ) {
        match (is_wider == was_wider, is_wider == (direction == Direction::Read)) {
            (true, _) => {}
            (false, true) => self.breaks(location, what),
            (false, false) => self.adds(location, what),
        }
    }

    fn bound(
        &mut self,
        location: &str,
        keyword: &str,
        old: &Value,
        new: &Value,
        direction: Direction,
        upper: bool,
    ) {
        if old == new {
            return;
        }
        // A missing bound is the widest.
        let widest = if upper { f64::INFINITY } else { f64::NEG_INFINITY };
        let (a, b) = (old.as_f64().unwrap_or(widest), new.as_f64().unwrap_or(widest));
        let is_wider = if upper { b > a } else { b < a };
        let what = format!("{keyword} {old} has become {new}");
        self.wider_or_narrower(location, &what, is_wider, !is_wider, direction);
    }
}

fn object(value: &Value) -> impl Iterator<Item = (&String, &Value)> {
    value.as_object().into_iter().flat_map(Map::iter)
}

fn array(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// A reference alone, or within `allOf`, the framework's form beside a description.
fn reference(schema: &Value) -> Option<&str> {
    match array(&schema["allOf"]) {
        [only] => only["$ref"].as_str(),
        _ => schema["$ref"].as_str(),
    }
}

/// The schema, with what its reference leads to and what is beside that.
fn resolve(document: &Value, schema: &Value) -> Value {
    let Some(pointer) = reference(schema).and_then(|reference| reference.strip_prefix('#')) else {
        return schema.clone();
    };
    let mut resolved = document.pointer(pointer).cloned().unwrap_or_default();
    for (name, value) in
        object(schema).filter(|(name, _)| !["allOf", "$ref"].contains(&name.as_str()))
    {
        resolved[name] = value.clone();
    }
    resolved
}
