//! Deserialises the configuration and collects every error. `figment` stops at the first invalid
//! value, so this replaces it with its default and deserialises again until all are found.

use figment::Figment;
use figment::error::Kind;
use figment::value::{Dict, Value};

use super::error::ConfigError;
use super::root::Config;

/// The maximum number of errors reported at once.
const MAX_ERRORS: usize = 100;

/// Returns the configuration with defaults instead of invalid values, if that is possible, and the
/// errors. `explain` makes an error of the path of a key and figment's error.
pub(super) fn read(
    figment: &Figment,
    defaults: &Figment,
    explain: impl Fn(&[String], &figment::Error) -> ConfigError,
) -> (Option<Config>, Vec<ConfigError>) {
    let (mut given, defaults) = match (values_of(figment), values_of(defaults)) {
        (Ok(given), Ok(defaults)) => (given, defaults),
        (Err(errors), _) | (_, Err(errors)) => {
            let errors = (*errors).into_iter().map(|error| explain(&error.path, &error));
            return (None, errors.collect());
        }
    };
    let (mut errors, mut removed) = (Vec::new(), RemovedItems::default());
    loop {
        let error = match given.deserialize::<Config>() {
            Ok(config) => return (Some(config), errors),
            Err(error) => error,
        };
        let path = path_of(&error);
        errors.push(explain(&removed.original(&path), &error));
        if errors.len() == MAX_ERRORS || !replace_with_default(&mut given, Some(&defaults), &path) {
            return (None, errors);
        }
        removed.add(&path);
    }
}

fn values_of(figment: &Figment) -> Result<Value, Box<figment::Error>> {
    // Unlike `data`, `extract` reports the file of an error.
    figment.extract::<Dict>().map(Value::from).map_err(Box::new)
}

/// The path of the key with the error. For an unknown key, figment may report only the section.
fn path_of(error: &figment::Error) -> Vec<String> {
    let mut path = error.path.clone();
    if let Kind::UnknownField(field, _) = &error.kind
        && path.last() != Some(field)
    {
        path.push(field.clone());
    }
    path
}

/// Replaces the value at `path` with its default, or removes it if it has none. Returns whether
/// this changed anything.
fn replace_with_default(value: &mut Value, default: Option<&Value>, path: &[String]) -> bool {
    let Some((key, rest)) = path.split_first() else { return false };
    match value {
        Value::Dict(_, fields) => {
            let default = default.and_then(|default| default.as_dict()?.get(key));
            if !rest.is_empty() {
                return fields
                    .get_mut(key)
                    .is_some_and(|value| replace_with_default(value, default, rest));
            }
            match default {
                Some(default) => {
                    fields.insert(key.clone(), default.clone()).as_ref() != Some(default)
                }
                None => fields.remove(key).is_some(),
            }
        }
        Value::Array(_, items) => match key.parse::<usize>() {
            Ok(index) if index < items.len() => {
                items.remove(index);
                true
            }
            _ => false,
        },
        _ => false,
    }
}

/// The arrays from which items were removed, once for each item. An array's errors are found in the
/// order of its items, so all removed items were before the next error.
#[derive(Default)]
struct RemovedItems(Vec<Vec<String>>);

impl RemovedItems {
    fn add(&mut self, path: &[String]) {
        self.0.extend(index_in(path).map(|depth| path[..depth].to_vec()));
    }

    /// The path before any removal.
    fn original(&self, path: &[String]) -> Vec<String> {
        let mut path = path.to_vec();
        if let Some(depth) = index_in(&path) {
            let removed = self.0.iter().filter(|array| **array == path[..depth]).count();
            path[depth] = (path[depth].parse().unwrap_or(0) + removed).to_string();
        }
        path
    }
}

/// The depth of the first array index in a path. Keys are never numbers, so a number is an index.
fn index_in(path: &[String]) -> Option<usize> {
    path.iter().position(|part| part.parse::<usize>().is_ok())
}
