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
            let location = format!("{} {path}", method.to_uppercase());
            if other.is_null() {
                found.breaks(&location, "the operation is gone");
            } else {
                found.operation(&location, operation, other);
            }
        }
    }
    found.unchanged(
        "securitySchemes",
        &old["components"]["securitySchemes"],
        &new["components"]["securitySchemes"],
    );
    found.broken
}

/// Who writes the values of a schema: the client, which sends them, or the service.
#[derive(Clone, Copy, PartialEq)]
enum Direction {
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
    fn breaks(&mut self, location: &str, what: &str) {
        self.broken.push(format!("{location}: {what}"));
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
        self.unchanged(&format!("{location} tags"), &old["tags"], &new["tags"]);
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
                    let (old, new) = (&parameter["schema"], &other["schema"]);
                    self.unchanged(
                        &format!("{location} default"),
                        &old["default"],
                        &new["default"],
                    );
                    self.schema(&location, old, new, Direction::Sent);
                }
            }
        }
        for parameter in after {
            let is_new = !before.iter().any(|other| unchanged(parameter, other));
            if is_new && parameter["required"] == true {
                self.breaks(
                    &format!("{location} parameter {}", parameter["name"]),
                    "is new and required",
                );
            }
        }
        for (status, response) in object(&old["responses"]) {
            self.response(&format!("{location} {status}"), response, &new["responses"][status]);
        }
        for (status, _) in object(&new["responses"]) {
            if old["responses"][status].is_null() {
                self.breaks(&format!("{location} {status}"), "a response that clients don't know");
            }
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
        for (kind, content) in object(&old["content"]) {
            let other = &new["content"][kind];
            if other.is_null() {
                self.breaks(&format!("{location} {kind}"), "is gone");
            } else {
                let location = format!("{location} body");
                self.schema(&location, &content["schema"], &other["schema"], Direction::Read);
            }
        }
    }

    fn schema(&mut self, location: &str, old: &Value, new: &Value, direction: Direction) {
        if let (Some(a), Some(b)) = (reference(old), reference(new)) {
            let pair = (a.to_owned(), b.to_owned());
            if a != b {
                self.breaks(location, &format!("the type's name {a} has become {b}"));
            }
            if self.seen.contains(&pair) {
                return;
            }
            self.seen.push(pair);
            self.resolved(location, old, new, direction);
            self.seen.pop();
        } else {
            self.resolved(location, old, new, direction);
        }
    }

    fn resolved(&mut self, location: &str, old: &Value, new: &Value, direction: Direction) {
        let (old, new) = (resolve(self.old, old), resolve(self.new, new));
        for keyword in ["type", "format", "nullable"] {
            self.unchanged(&format!("{location} {keyword}"), &old[keyword], &new[keyword]);
        }
        self.allowed_values(location, old, new, direction);
        for keyword in ["minimum", "minLength", "minItems"] {
            self.bound(location, keyword, &old[keyword], &new[keyword], direction, false);
        }
        for keyword in ["maximum", "maxLength", "maxItems"] {
            self.bound(location, keyword, &old[keyword], &new[keyword], direction, true);
        }
        if old["pattern"] != new["pattern"]
            && !(direction == Direction::Sent && new["pattern"].is_null())
        {
            self.breaks(location, "another pattern");
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
            self.schema(&location, property, other, direction);
        }
    }

    fn allowed_values(&mut self, location: &str, old: &Value, new: &Value, direction: Direction) {
        let (before, after) = (array(&old["enum"]), array(&new["enum"]));
        let appeared = after.iter().find(|value| !before.contains(value));
        let vanished = before.iter().find(|value| !after.contains(value));
        match direction {
            Direction::Sent if before.is_empty() && !after.is_empty() => {
                self.breaks(location, "an enum now")
            }
            Direction::Read if !before.is_empty() && after.is_empty() => {
                self.breaks(location, "no enum now")
            }
            // Generated types are shared, so a removed type breaks clients in either direction.
            _ if !after.is_empty() && vanished.is_some() => {
                self.breaks(location, &format!("no longer has {}", vanished.unwrap()));
            }
            Direction::Read if !before.is_empty() && appeared.is_some() => {
                self.breaks(
                    location,
                    &format!("may be {} now, which clients don't know", appeared.unwrap()),
                );
            }
            _ => {}
        }
    }

    /// Values that are sent must not be narrowed, values that are read not widened.
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
        if is_wider == (direction == Direction::Read) {
            self.breaks(location, &format!("{keyword} {old} has become {new}"));
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
