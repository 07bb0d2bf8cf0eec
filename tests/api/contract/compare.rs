//! Finds the changes of a document, and which version each needs. Clients send parameters and bodies and
//! read responses, so what is sent may only become wider and what is read narrower. Generated clients are
//! strict: they cannot read a response with a new value of an enum, error codes included.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::change::{Change, Needs};
use super::compare_schemas::Direction;

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

/// The keywords of parameters whose changes are judged.
const PARAMETER: [&str; 5] = ["name", "in", "required", "schema", "allowEmptyValue"];

pub(super) struct Comparison<'a> {
    pub(super) old: &'a Value,
    pub(super) new: &'a Value,
    found: Vec<Change>,
    /// The references that have been compared: the old one and the new one.
    pub(super) seen: BTreeSet<(String, String, Direction)>,
}

impl Comparison<'_> {
    pub(super) fn breaks(&mut self, location: &str, what: &str) {
        self.found.push(Change { needs: Needs::Major, what: format!("{location}: {what}") });
    }

    pub(super) fn adds(&mut self, location: &str, what: &str) {
        self.found.push(Change { needs: Needs::Minor, what: format!("{location}: {what}") });
    }

    pub(super) fn unchanged(&mut self, location: &str, old: &Value, new: &Value) {
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
}

pub(super) fn object(value: &Value) -> impl Iterator<Item = (&String, &Value)> {
    value.as_object().into_iter().flat_map(Map::iter)
}

pub(super) fn array(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}
