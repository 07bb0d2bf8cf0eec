//! Values into a configuration. The library stops at the first value that is wrong: it is noted,
//! the default put in its place, and the reading begins again, until all of them are known.

use figment::error::Kind;
use figment::value::{Dict, Map, Value};
use figment::{Figment, Metadata, Profile, Provider};

use super::Config;
use super::error::ConfigError;

/// More faults than anybody reads at once.
const MOST: usize = 100;

/// The configuration with defaults in place of what is wrong, if there is one, and what is wrong:
/// as `explain` words it for the path of a key.
pub(super) fn read(
    figment: &Figment,
    defaults: &Figment,
    explain: impl Fn(&[String], &figment::Error) -> ConfigError,
) -> (Option<Config>, Vec<ConfigError>) {
    let (mut given, defaults) = match (values_of(figment), values_of(defaults)) {
        (Ok(given), Ok(defaults)) => (given, defaults),
        (Err(errors), _) | (_, Err(errors)) => {
            let faults = (*errors).into_iter().map(|error| explain(&error.path, &error));
            return (None, faults.collect());
        }
    };
    let (mut faults, mut removed) = (Vec::new(), Removed::default());
    loop {
        let fields = given.as_dict().cloned().unwrap_or_default();
        let error = match Figment::from(Values(fields)).extract::<Config>() {
            Ok(config) => return (Some(config), faults),
            Err(error) => error,
        };
        let path = path_of(&error);
        faults.push(explain(&removed.original(&path), &error));
        if faults.len() == MOST || !replace_with_default(&mut given, Some(&defaults), &path) {
            return (None, faults);
        }
        removed.note(path);
    }
}

fn values_of(figment: &Figment) -> Result<Value, Box<figment::Error>> {
    // Unlike `data`, it says in which file something is wrong.
    figment.extract::<Dict>().map(Value::from).map_err(Box::new)
}

/// Where the error is. Of an unknown key the library may tell the section alone.
fn path_of(error: &figment::Error) -> Vec<String> {
    let mut path = error.path.clone();
    if let Kind::UnknownField(field, _) = &error.kind
        && path.last() != Some(field)
    {
        path.push(field.clone());
    }
    path
}

struct Values(Dict);

impl Provider for Values {
    fn metadata(&self) -> Metadata {
        Metadata::named("values")
    }

    fn data(&self) -> figment::Result<Map<Profile, Dict>> {
        Ok(Profile::Default.collect(self.0.clone()))
    }
}

/// Puts the default in the place of what stands there, or nothing where there is none. Whether
/// that has changed anything.
fn replace_with_default(value: &mut Value, default: Option<&Value>, path: &[String]) -> bool {
    let Some((key, below)) = path.split_first() else { return false };
    match value {
        Value::Dict(_, fields) => {
            let default = default.and_then(|default| default.as_dict()?.get(key));
            if !below.is_empty() {
                return fields
                    .get_mut(key)
                    .is_some_and(|value| replace_with_default(value, default, below));
            }
            match default {
                Some(default) => {
                    fields.insert(key.clone(), default.clone()).as_ref() != Some(default)
                }
                None => fields.remove(key).is_some(),
            }
        }
        Value::Array(_, items) => match key.parse::<usize>() {
            Ok(at) if at < items.len() => {
                items.remove(at);
                true
            }
            _ => false,
        },
        _ => false,
    }
}

/// Items that were taken out of arrays: those behind them have moved.
#[derive(Default)]
struct Removed(Vec<(Vec<String>, usize)>);

impl Removed {
    fn note(&mut self, path: Vec<String>) {
        let original = self.original(&path);
        if let Some(at) = index_in(&original) {
            let item = original[at].parse().unwrap_or_default();
            self.0.push((original[..at].to_vec(), item));
            self.0.sort();
        }
    }

    /// Where it stood at first.
    fn original(&self, path: &[String]) -> Vec<String> {
        let mut path = path.to_vec();
        if let Some(at) = index_in(&path) {
            let mut item: usize = path[at].parse().unwrap_or_default();
            for (_, gone) in self.0.iter().filter(|(array, _)| *array == path[..at]) {
                item += usize::from(*gone <= item);
            }
            path[at] = item.to_string();
        }
        path
    }
}

/// Keys are no numbers: what is one is the place in an array.
fn index_in(path: &[String]) -> Option<usize> {
    path.iter().position(|part| part.parse::<usize>().is_ok())
}
