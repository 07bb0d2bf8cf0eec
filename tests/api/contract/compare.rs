//! Finds the changes of a document, and which version each needs. Clients send parameters and bodies and
//! read responses, so what is sent may only become wider and what is read narrower. Generated clients are
//! strict: they cannot read a response with a new value of an enum, error codes included. At each level, a
//! change of what is compared nowhere needs a major version.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::change::{Change, Needs};
use super::compare_schemas::Direction;

/// The changes from `old` to `new`.
pub(super) fn changes(old: &Value, new: &Value) -> Vec<Change> {
    let mut found = Comparison { old, new, found: Vec::new(), seen: BTreeSet::new() };
    found.document();
    let mut found = found.found;
    if found.is_empty() && old != new {
        found.push(Change { needs: Needs::Patch, what: "other texts".to_owned() });
    }
    found
}

const METHODS: [&str; 8] = ["get", "put", "post", "delete", "options", "head", "patch", "trace"];

/// What no client depends on.
const TEXTS: [&str; 7] =
    ["description", "summary", "example", "examples", "externalDocs", "x-codeSamples", "info"];

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

    /// Also behind references.
    pub(super) fn unchanged(&mut self, location: &str, old: &Value, new: &Value) {
        if old != new || expanded(self.old, old, DEPTH) != expanded(self.new, new, DEPTH) {
            self.breaks(location, &format!("{old} has become {new}"));
        }
    }

    /// Reports each keyword that is compared nowhere and has changed. Extensions change generated code,
    /// but not what is sent.
    pub(super) fn keywords(&mut self, location: &str, old: &Value, new: &Value, compared: &[&str]) {
        let names: BTreeSet<_> =
            object(old).chain(object(new)).map(|(name, _)| name.as_str()).collect();
        for name in names {
            let is_known = TEXTS.contains(&name) || compared.contains(&name);
            match (&old[name], &new[name]) {
                _ if is_known => {}
                (old, new) if old != new && name.starts_with("x-") => {
                    self.adds(location, &format!("another {name}"))
                }
                (old, new) if old != new && name == "deprecated" => {
                    self.adds(location, "deprecated or no longer");
                }
                (old, new) => self.unchanged(&format!("{location} {name}"), old, new),
            }
        }
    }

    fn document(&mut self) {
        let (old, new) = (self.old, self.new);
        self.keywords("document", old, new, &["paths", "components", "servers", "tags"]);
        self.servers("servers", &old["servers"], &new["servers"]);
        let schemes = |document: &Value| document["components"]["securitySchemes"].clone();
        let (before, after) = (schemes(old), schemes(new));
        for (name, scheme) in object(&before) {
            let location = format!("securitySchemes {name}");
            self.unchanged(&location, &without_texts(scheme), &without_texts(&after[name]));
        }
        for (name, _) in object(&after).filter(|(name, _)| before[*name].is_null()) {
            self.adds(&format!("securitySchemes {name}"), "is new");
        }
        for (path, item) in object(&old["paths"]) {
            self.path(path, item, &new["paths"][path]);
        }
        for (path, item) in object(&new["paths"]).filter(|(path, _)| old["paths"][*path].is_null())
        {
            self.path(path, &Value::Null, item);
        }
    }

    fn path(&mut self, path: &str, old: &Value, new: &Value) {
        let (old, new) = (&component(self.old, old), &component(self.new, new));
        let compared = [&METHODS[..], &["parameters", "servers"]].concat();
        if !old.is_null() && !new.is_null() {
            self.keywords(path, old, new, &compared);
            self.servers(&format!("{path} servers"), &old["servers"], &new["servers"]);
        }
        for method in METHODS {
            let location = format!("{} {path}", method.to_uppercase());
            match (&old[method], &new[method]) {
                (Value::Null, Value::Null) => {}
                (Value::Null, _) => self.adds(&location, "a new operation"),
                (_, Value::Null) => self.breaks(&location, "the operation is gone"),
                (before, after) => {
                    self.operation(&location, before, after);
                    let before = parameters(self.old, old, before);
                    self.parameters(&location, &before, &parameters(self.new, new, after));
                }
            }
        }
    }

    /// Their addresses, without their texts.
    fn servers(&mut self, location: &str, old: &Value, new: &Value) {
        let addresses = |servers: &Value| array(servers).iter().map(without_texts).collect();
        self.unchanged(location, &addresses(old), &addresses(new));
    }

    fn operation(&mut self, location: &str, old: &Value, new: &Value) {
        let compared = ["tags", "parameters", "requestBody", "responses", "servers"];
        self.keywords(location, old, new, &compared);
        if array(&old["tags"]).is_empty() && old["tags"] != new["tags"] {
            self.adds(location, "a tag, where it had none");
        } else {
            self.unchanged(&format!("{location} tags"), &old["tags"], &new["tags"]);
        }
        self.servers(&format!("{location} servers"), &old["servers"], &new["servers"]);
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

    fn parameters(&mut self, location: &str, before: &[Value], after: &[Value]) {
        let same = |a: &Value, b: &Value| a["name"] == b["name"] && a["in"] == b["in"];
        for old in before {
            let location = format!("{location} parameter {}", old["name"]);
            let Some(new) = after.iter().find(|other| same(old, other)) else {
                self.breaks(&location, "is gone");
                continue;
            };
            self.keywords(&location, old, new, &["required", "schema", "allowEmptyValue"]);
            self.requires(&location, old, new, Direction::Sent);
            let [was_allowed, is_allowed] = [old, new].map(|one| one["allowEmptyValue"] == true);
            let what = "allowEmptyValue";
            self.wider_or_narrower(&location, what, is_allowed, was_allowed, Direction::Sent);
            self.schema(&location, &old["schema"], &new["schema"], Direction::Sent);
        }
        for new in after.iter().filter(|new| !before.iter().any(|old| same(old, new))) {
            let location = format!("{location} parameter {}", new["name"]);
            if new["required"] == true {
                self.breaks(&location, "is new and required");
            } else {
                self.adds(&location, "is new");
            }
        }
    }

    /// What is sent may become optional, what is read may become certain.
    fn requires(&mut self, location: &str, old: &Value, new: &Value, direction: Direction) {
        let [was_required, is_required] = [old, new].map(|one| one["required"] == true);
        let what = if is_required { "is required now" } else { "may be absent now" };
        self.wider_or_narrower(location, what, !is_required, !was_required, direction);
    }

    /// The body of a request.
    fn body(&mut self, location: &str, old: &Value, new: &Value) {
        let location = format!("{location} body");
        let (old, new) = (&component(self.old, old), &component(self.new, new));
        self.keywords(&location, old, new, &["required", "content"]);
        self.requires(&location, old, new, Direction::Sent);
        self.content(&location, &old["content"], &new["content"], Direction::Sent);
    }

    fn response(&mut self, location: &str, old: &Value, new: &Value) {
        let (old, new) = (&component(self.old, old), &component(self.new, new));
        if new.is_null() {
            return self.breaks(location, "the response is gone");
        }
        self.keywords(location, old, new, &["headers", "content"]);
        for (name, header) in object(&old["headers"]) {
            let location = format!("{location} header {name}");
            let before = component(self.old, header);
            let after = component(self.new, &new["headers"][name]);
            if after.is_null() {
                self.breaks(&location, "is gone");
                continue;
            }
            self.keywords(&location, &before, &after, &["required", "schema"]);
            self.requires(&location, &before, &after, Direction::Read);
            self.schema(&location, &before["schema"], &after["schema"], Direction::Read);
        }
        for (name, _) in object(&new["headers"]).filter(|(name, _)| old["headers"][*name].is_null())
        {
            self.adds(&format!("{location} header {name}"), "is new");
        }
        self.content(
            &format!("{location} body"),
            &old["content"],
            &new["content"],
            Direction::Read,
        );
    }

    fn content(&mut self, location: &str, old: &Value, new: &Value, direction: Direction) {
        for (kind, before) in object(old) {
            let after = &new[kind];
            if after.is_null() {
                self.breaks(&format!("{location} {kind}"), "is gone");
            } else {
                self.keywords(&format!("{location} {kind}"), before, after, &["schema"]);
                self.schema(location, &before["schema"], &after["schema"], direction);
            }
        }
        for (kind, _) in object(new).filter(|(kind, _)| old[*kind].is_null()) {
            self.adds(&format!("{location} {kind}"), "is new");
        }
    }
}

/// The parameters of an operation, with those of its path that it does not replace.
fn parameters(document: &Value, item: &Value, operation: &Value) -> Vec<Value> {
    let of = |value: &Value| -> Vec<_> {
        array(&value["parameters"]).iter().map(|one| component(document, one)).collect()
    };
    let mut found = of(operation);
    for inherited in of(item) {
        let is_same =
            |own: &Value| own["name"] == inherited["name"] && own["in"] == inherited["in"];
        if !found.iter().any(is_same) {
            found.push(inherited);
        }
    }
    found
}

/// How many references are followed one after the other.
const DEPTH: usize = 16;

/// A path, a parameter, a header, a body or a response; what its reference leads to, if it is one.
fn component(document: &Value, value: &Value) -> Value {
    let mut found = value;
    for _ in 0..DEPTH {
        let pointer = found["$ref"].as_str().and_then(|reference| reference.strip_prefix('#'));
        let Some(pointer) = pointer else { break };
        found = document.pointer(pointer).unwrap_or(&Value::Null);
    }
    found.clone()
}

/// A value with what its references lead to.
fn expanded(document: &Value, value: &Value, depth: usize) -> Value {
    match value {
        _ if depth == 0 => value.clone(),
        Value::Array(values) => {
            values.iter().map(|value| expanded(document, value, depth - 1)).collect()
        }
        Value::Object(_) => {
            let target = component(document, value);
            let members = object(&target).filter(|(name, _)| !TEXTS.contains(&name.as_str()));
            members
                .map(|(name, value)| (name.clone(), expanded(document, value, depth - 1)))
                .collect()
        }
        _ => value.clone(),
    }
}

/// A value without its texts and extensions.
fn without_texts(value: &Value) -> Value {
    match value {
        Value::Object(members) => {
            let is_text = |name: &str| TEXTS.contains(&name) || name.starts_with("x-");
            let kept = members.iter().filter(|(name, _)| !is_text(name));
            kept.map(|(name, value)| (name.clone(), without_texts(value))).collect()
        }
        other => other.clone(),
    }
}

pub(super) fn object(value: &Value) -> impl Iterator<Item = (&String, &Value)> {
    value.as_object().into_iter().flat_map(Map::iter)
}

pub(super) fn array(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}
