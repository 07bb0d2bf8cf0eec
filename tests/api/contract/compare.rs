//! Finds changes of the document that break clients. Clients send parameters and read responses, so
//! a parameter may only become wider and a response narrower. Generated clients are strict: they
//! cannot read a response with a new value of an enum, error codes included.

use serde_json::{Map, Value};

/// The changes in `new` that could break a client generated from `old`.
pub(super) fn breaking(old: &Value, new: &Value) -> Vec<String> {
    let mut found = Comparison { old, new, broken: Vec::new(), seen: Vec::new() };
    for (path, item) in object(&old["paths"]) {
        for (method, operation) in object(item) {
            let other = &new["paths"][path][method];
            let place = format!("{} {path}", method.to_uppercase());
            if other.is_null() {
                found.breaks(&place, "the operation is gone");
            } else {
                found.operation(&place, operation, other);
            }
        }
    }
    found.same(
        "securitySchemes",
        &old["components"]["securitySchemes"],
        &new["components"]["securitySchemes"],
    );
    found.broken
}

/// Who writes the values of a schema: the client, which sends them, or the service.
#[derive(Clone, Copy, PartialEq)]
enum Way {
    Sent,
    Read,
}

struct Comparison<'a> {
    old: &'a Value,
    new: &'a Value,
    broken: Vec<String>,
    /// The references that are being resolved, for a schema may contain itself.
    seen: Vec<(String, String)>,
}

impl Comparison<'_> {
    fn breaks(&mut self, place: &str, what: &str) {
        self.broken.push(format!("{place}: {what}"));
    }

    fn same(&mut self, place: &str, old: &Value, new: &Value) {
        if old != new {
            self.breaks(place, &format!("{old} has become {new}"));
        }
    }

    fn operation(&mut self, place: &str, old: &Value, new: &Value) {
        self.same(&format!("{place} operationId"), &old["operationId"], &new["operationId"]);
        self.same(&format!("{place} tags"), &old["tags"], &new["tags"]);
        self.same(&format!("{place} security"), &old["security"], &new["security"]);
        let (before, after) = (array(&old["parameters"]), array(&new["parameters"]));
        let same = |a: &Value, b: &Value| a["name"] == b["name"] && a["in"] == b["in"];
        for parameter in before {
            let place = format!("{place} parameter {}", parameter["name"]);
            match after.iter().find(|other| same(parameter, other)) {
                None => self.breaks(&place, "is gone"),
                Some(other) => {
                    if other["required"] == true && parameter["required"] != true {
                        self.breaks(&place, "is required now");
                    }
                    let (old, new) = (&parameter["schema"], &other["schema"]);
                    self.same(&format!("{place} default"), &old["default"], &new["default"]);
                    self.schema(&place, old, new, Way::Sent);
                }
            }
        }
        for parameter in after {
            let is_new = !before.iter().any(|other| same(parameter, other));
            if is_new && parameter["required"] == true {
                self.breaks(
                    &format!("{place} parameter {}", parameter["name"]),
                    "is new and required",
                );
            }
        }
        for (status, response) in object(&old["responses"]) {
            self.response(&format!("{place} {status}"), response, &new["responses"][status]);
        }
        for (status, _) in object(&new["responses"]) {
            if old["responses"][status].is_null() {
                self.breaks(&format!("{place} {status}"), "an answer that clients don't know");
            }
        }
    }

    fn response(&mut self, place: &str, old: &Value, new: &Value) {
        if new.is_null() {
            return self.breaks(place, "the answer is gone");
        }
        for (name, header) in object(&old["headers"]) {
            let other = &new["headers"][name];
            if other.is_null() {
                self.breaks(&format!("{place} header {name}"), "is gone");
            } else {
                let place = format!("{place} header {name}");
                self.schema(&place, &header["schema"], &other["schema"], Way::Read);
            }
        }
        for (kind, content) in object(&old["content"]) {
            let other = &new["content"][kind];
            if other.is_null() {
                self.breaks(&format!("{place} {kind}"), "is gone");
            } else {
                let place = format!("{place} body");
                self.schema(&place, &content["schema"], &other["schema"], Way::Read);
            }
        }
    }

    fn schema(&mut self, place: &str, old: &Value, new: &Value, way: Way) {
        if let (Some(a), Some(b)) = (reference(old), reference(new)) {
            let pair = (a.to_owned(), b.to_owned());
            if a != b {
                self.breaks(place, &format!("the type's name {a} has become {b}"));
            }
            if self.seen.contains(&pair) {
                return;
            }
            self.seen.push(pair);
            self.resolved(place, old, new, way);
            self.seen.pop();
        } else {
            self.resolved(place, old, new, way);
        }
    }

    fn resolved(&mut self, place: &str, old: &Value, new: &Value, way: Way) {
        let (old, new) = (resolve(self.old, old), resolve(self.new, new));
        for keyword in ["type", "format", "nullable"] {
            self.same(&format!("{place} {keyword}"), &old[keyword], &new[keyword]);
        }
        self.allowed_values(place, old, new, way);
        for keyword in ["minimum", "minLength", "minItems"] {
            self.bound(place, keyword, &old[keyword], &new[keyword], way, false);
        }
        for keyword in ["maximum", "maxLength", "maxItems"] {
            self.bound(place, keyword, &old[keyword], &new[keyword], way, true);
        }
        if old["pattern"] != new["pattern"] && !(way == Way::Sent && new["pattern"].is_null()) {
            self.breaks(place, "another pattern");
        }
        self.properties(place, old, new, way);
        for keyword in ["items", "additionalProperties"] {
            match (&old[keyword], &new[keyword]) {
                (Value::Null, Value::Null) => {}
                (a, b) if a.is_object() && b.is_object() => {
                    self.schema(&format!("{place}[]"), a, b, way);
                }
                (a, b) => self.same(&format!("{place} {keyword}"), a, b),
            }
        }
    }

    fn properties(&mut self, place: &str, old: &Value, new: &Value, way: Way) {
        let is_required = |schema: &Value, name: &str| {
            array(&schema["required"]).iter().any(|required| required == name)
        };
        for (name, property) in object(&old["properties"]) {
            let place = format!("{place}.{name}");
            let other = &new["properties"][name];
            if other.is_null() {
                self.breaks(&place, "the field is gone");
                continue;
            }
            if way == Way::Read && is_required(old, name) && !is_required(new, name) {
                self.breaks(&place, "may be absent now");
            }
            self.schema(&place, property, other, way);
        }
    }

    fn allowed_values(&mut self, place: &str, old: &Value, new: &Value, way: Way) {
        let (before, after) = (array(&old["enum"]), array(&new["enum"]));
        let appeared = after.iter().find(|value| !before.contains(value));
        let vanished = before.iter().find(|value| !after.contains(value));
        match way {
            Way::Sent if before.is_empty() && !after.is_empty() => {
                self.breaks(place, "an enum now")
            }
            Way::Read if !before.is_empty() && after.is_empty() => {
                self.breaks(place, "no enum now")
            }
            // Generated types are shared, so a removed type breaks clients in either direction.
            _ if !after.is_empty() && vanished.is_some() => {
                self.breaks(place, &format!("no longer has {}", vanished.unwrap()));
            }
            Way::Read if !before.is_empty() && appeared.is_some() => {
                self.breaks(
                    place,
                    &format!("may be {} now, which clients don't know", appeared.unwrap()),
                );
            }
            _ => {}
        }
    }

    /// Values that are sent must not be narrowed, values that are read not widened.
    fn bound(
        &mut self,
        place: &str,
        keyword: &str,
        old: &Value,
        new: &Value,
        way: Way,
        upper: bool,
    ) {
        if old == new {
            return;
        }
        // A missing bound is the widest.
        let widest = if upper { f64::INFINITY } else { f64::NEG_INFINITY };
        let (a, b) = (old.as_f64().unwrap_or(widest), new.as_f64().unwrap_or(widest));
        let is_wider = if upper { b > a } else { b < a };
        if is_wider == (way == Way::Read) {
            self.breaks(place, &format!("{keyword} {old} has become {new}"));
        }
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

fn resolve<'a>(document: &'a Value, schema: &'a Value) -> &'a Value {
    let pointer = reference(schema).and_then(|reference| reference.strip_prefix('#'));
    pointer.map_or(schema, |pointer| document.pointer(pointer).unwrap_or(&Value::Null))
}
