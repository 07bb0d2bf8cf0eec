//! Compares schemas: what is sent may only become wider, what is read only narrower.

use std::collections::BTreeSet;
use std::fmt;

use serde_json::{Value, json};

use super::compare::{Comparison, array, object};

/// The keywords of schemas whose changes are judged.
const SCHEMA: [&str; 21] = [
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
    "title",
    "anyOf",
    "oneOf",
    "allOf",
];

/// Who writes the values of a schema: the client, which sends them, or the service.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Direction {
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

impl Comparison<'_> {
    pub(super) fn schema(
        &mut self,
        location: &str,
        old: &Value,
        new: &Value,
        direction: Direction,
    ) {
        if let (Some(a), Some(b)) = (reference(old), reference(new)) {
            // What is beside the reference.
            self.keywords(location, old, new, &["allOf", "$ref", "default", "nullable", "title"]);
            self.default_and_null(location, old, new, direction);
            // Once, however many responses and bodies have it.
            if self.seen.insert((a.to_owned(), b.to_owned(), direction)) {
                let name = |reference: &str| reference.rsplit('/').next().unwrap().to_owned();
                let (before, after) = (name(a), name(b));
                if before != after {
                    self.adds(&before, &format!("the type's name has become {after}"));
                }
                let location = format!("{before}, {direction}");
                // Without what is beside them here.
                let [old, new] = [a, b].map(|to| json!({ "$ref": to }));
                self.resolved(&location, &old, &new, direction);
            }
        } else {
            self.resolved(location, old, new, direction);
        }
    }

    fn resolved(&mut self, location: &str, old: &Value, new: &Value, direction: Direction) {
        let (old, new) = (&resolve(self.old, old), &resolve(self.new, new));
        self.keywords(location, old, new, &SCHEMA);
        self.default_and_null(location, old, new, direction);
        if old["title"] != new["title"] {
            self.adds(location, "another title, by which generators name types");
        }
        for keyword in ["type", "format"] {
            self.unchanged(&format!("{location} {keyword}"), &old[keyword], &new[keyword]);
        }
        for keyword in ["anyOf", "oneOf", "allOf"] {
            self.alternatives(
                &format!("{location} {keyword}"),
                &old[keyword],
                &new[keyword],
                direction,
            );
        }
        self.allowed_values(location, old, new, direction);
        for keyword in ["minimum", "minLength", "minItems"] {
            self.bound(location, keyword, &old[keyword], &new[keyword], direction, false);
        }
        for keyword in ["maximum", "maxLength", "maxItems"] {
            self.bound(location, keyword, &old[keyword], &new[keyword], direction, true);
        }
        for keyword in ["pattern", "not"] {
            match (&old[keyword], &new[keyword]) {
                (a, b) if a == b => self.unchanged(&format!("{location} {keyword}"), a, b),
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
                (Value::Bool(false), Value::Null) if direction == Direction::Sent => {
                    self.adds(location, &format!("without {keyword}: false"));
                }
                (a, b) => self.unchanged(&format!("{location} {keyword}"), a, b),
            }
        }
    }

    fn default_and_null(&mut self, location: &str, old: &Value, new: &Value, direction: Direction) {
        if direction == Direction::Sent {
            self.unchanged(&format!("{location} default"), &old["default"], &new["default"]);
        }
        let [was_nullable, is_nullable] = [old, new].map(|schema| schema["nullable"] == true);
        self.wider_or_narrower(location, "nullable", is_nullable, was_nullable, direction);
    }

    /// Schemas in a list, each compared with that in its place.
    fn alternatives(&mut self, location: &str, old: &Value, new: &Value, direction: Direction) {
        let (before, after) = (array(old), array(new));
        if before.len() != after.len() {
            return self.unchanged(location, old, new);
        }
        for (old, new) in before.iter().zip(after) {
            self.schema(location, old, new, direction);
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
            let [was_required, is_required] = [old, new].map(|schema| is_required(schema, name));
            let what = if is_required { "is required now" } else { "may be absent now" };
            self.wider_or_narrower(&location, what, !is_required, !was_required, direction);
            self.schema(&location, property, other, direction);
        }
        for (name, _) in object(&new["properties"]) {
            let is_new = old["properties"][name].is_null();
            match is_new.then(|| direction == Direction::Sent && is_required(new, name)) {
                Some(true) => self.breaks(&format!("{location}.{name}"), "is new and required"),
                // Clients refuse it.
                Some(false) if direction == Direction::Read && restricts_others(old) => {
                    self.breaks(
                        &format!("{location}.{name}"),
                        "is new, where nothing may be added",
                    );
                }
                Some(false) => self.adds(&format!("{location}.{name}"), "is new"),
                None => {}
            }
        }
        // Names without a property.
        let names = array(&old["required"]).iter().chain(array(&new["required"]));
        for name in names.filter_map(Value::as_str).collect::<BTreeSet<_>>() {
            let [was_required, is_required] = [old, new].map(|schema| is_required(schema, name));
            if new["properties"][name].is_null() && old["properties"][name].is_null() {
                let location = format!("{location}.{name}");
                let what = if is_required { "is required now" } else { "may be absent now" };
                self.wider_or_narrower(&location, what, !is_required, !was_required, direction);
            }
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
    pub(super) fn wider_or_narrower(
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

/// Whether fields without a property of their own must be absent, or have a type.
fn restricts_others(schema: &Value) -> bool {
    let others = &schema["additionalProperties"];
    *others == false || object(others).next().is_some()
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
    let target = document.pointer(pointer).cloned().unwrap_or_default();
    // A reference to itself is no schema.
    let mut resolved = if target == *schema { target } else { resolve(document, &target) };
    for (name, value) in
        object(schema).filter(|(name, _)| !["allOf", "$ref"].contains(&name.as_str()))
    {
        resolved[name] = value.clone();
    }
    resolved
}
