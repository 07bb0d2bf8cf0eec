//! Finds the changes of a document, and which version each needs. Clients send parameters and bodies and
//! read responses, so what is sent may only become wider and what is read narrower. Generated clients are
//! strict: they cannot read a response with a new value of an enum, error codes included.

use serde_json::{Map, Value};

use super::change::{Change, Needs};

/// The changes from `old` to `new`.
pub(super) fn changes(old: &Value, new: &Value) -> Vec<Change> {
    let mut found = Comparison { old, new, found: Vec::new(), seen: Vec::new() };
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
    let mut found = found.found;
    if found.is_empty() && old != new {
        found.push(Change { needs: Needs::Patch, what: "other texts".to_owned() });
    }
    found
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
    found: Vec<Change>,
    /// The references that are being resolved, for a schema may contain itself.
    seen: Vec<(String, String)>,
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
            let pair = (a.to_owned(), b.to_owned());
            if a != b {
                self.adds(location, &format!("the type's name {a} has become {b}"));
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
                _ => self.breaks(location, &format!("another {keyword}")),
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
            Direction::Sent if appeared.is_some() => {
                self.adds(location, &format!("may be {} now", appeared.unwrap()));
            }
            _ => {}
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

fn resolve<'a>(document: &'a Value, schema: &'a Value) -> &'a Value {
    let pointer = reference(schema).and_then(|reference| reference.strip_prefix('#'));
    pointer.map_or(schema, |pointer| document.pointer(pointer).unwrap_or(&Value::Null))
}
