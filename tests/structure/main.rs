//! The structure of `src/`: layers, no import circles, sizes of files and functions, unique names. Also
//! the links of the documents, and the tests that they name.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a panic is how a test fails")]

mod documents;
mod imports;
mod source;

use std::collections::{BTreeMap, BTreeSet};

use imports::Imports;
use source::{SourceFile, Visibility, sources};

/// From top to bottom. A file imports from its own layer and from those below it.
const LAYERS: &[&str] = &[
    "fuzzing",
    "cli",
    "app",
    "api",
    "control",
    "doctor",
    "http",
    "server",
    "cache",
    "limit",
    "keys",
    "default_schema",
    "upstream",
    "redis",
    "ops",
    "config",
    "net",
    "sync",
    "registry",
];

/// Two layers of the same rank: neither imports from the other.
const SIBLINGS: (&str, &str) = ("api", "control");

const MAX_FILE_LINES: usize = 300;
const MAX_FUNCTION_LINES: usize = 50;
const MAX_PARAMETERS: usize = 5;

#[track_caller]
fn assert_none(faults: &[String], rule: &str) {
    assert!(faults.is_empty(), "{rule}:\n  {}\n", faults.join("\n  "));
}

fn layer(module: &[String]) -> &str {
    module.first().map_or("lib", String::as_str)
}

#[test]
fn imports_go_down_the_layers() {
    let files = sources();
    let imports = Imports::of(&files);
    let rank = |layer: &str| LAYERS.iter().position(|known| *known == layer);
    let mut faults = Vec::new();
    for (from, to) in imports.edges() {
        let (upper, lower) = (layer(&files[from].module), layer(&files[to].module));
        if upper == "lib" || upper == lower {
            continue;
        }
        let siblings = (upper, lower) == SIBLINGS || (lower, upper) == SIBLINGS;
        let goes_down = rank(upper).zip(rank(lower)).unwrap_or_else(|| {
            panic!(
                "{upper} or {lower} is in no layer: {} imports from {}",
                files[from].path, files[to].path
            )
        });
        if siblings || goes_down.0 > goes_down.1 {
            faults.push(format!("{} imports from {}", files[from].path, files[to].path));
        }
    }
    assert_none(&faults, &format!("imports go down these layers only: {}", LAYERS.join(", ")));
}

#[test]
fn no_files_import_each_other_in_a_circle() {
    let files = sources();
    let circles: Vec<String> = Imports::of(&files)
        .circles()
        .iter()
        .map(|circle| circle.iter().map(|file| &*files[*file].path).collect::<Vec<_>>().join(" → "))
        .collect();
    assert_none(&circles, "move what both need into a file of its own");
}

#[test]
fn every_file_begins_with_its_purpose() {
    let undocumented = sources().into_iter().filter(|file| !file.text.starts_with("//! "));
    let undocumented: Vec<String> = undocumented.map(|file| file.path).collect();
    assert_none(&undocumented, "a file begins with `//!`, what it is for and what it promises");
}

#[test]
fn files_and_functions_are_short() {
    let mut faults = Vec::new();
    for file in sources() {
        let lines = file.text.lines().count();
        if lines > MAX_FILE_LINES {
            faults.push(format!("{} has {lines} lines", file.path));
        }
        for function in &file.functions {
            let location = format!("{}: {}", file.path, function.name);
            if function.lines > MAX_FUNCTION_LINES {
                faults.push(format!("{location} has {} lines", function.lines));
            }
            if function.parameters > MAX_PARAMETERS && !function.has_required_signature {
                faults.push(format!("{location} has {} parameters", function.parameters));
            }
        }
    }
    let rule = format!(
        "at most {MAX_FILE_LINES} lines a file, {MAX_FUNCTION_LINES} a function, and \
         {MAX_PARAMETERS} parameters"
    );
    assert_none(&faults, &rule);
}

/// `model.rs` is left out: the types of the public document mirror domain types by name.
#[test]
fn no_two_types_share_a_name() {
    let mut files_by_name: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for file in sources().into_iter().filter(|file| !file.path.ends_with("/model.rs")) {
        for name in file.types {
            files_by_name.entry(name).or_default().insert(file.path.clone());
        }
    }
    let shared = files_by_name.into_iter().filter(|(_, files)| files.len() > 1);
    let shared: Vec<String> = shared
        .map(|(name, files)| format!("{name}: {}", Vec::from_iter(files).join(", ")))
        .collect();
    assert_none(&shared, "one name, one type");
}

#[test]
fn the_rules_find_violations() {
    let file = |path: &str, text: &str| SourceFile::parse(path, text);
    let files = vec![
        file("src/lib.rs", "pub mod app; pub mod sync;"),
        file("src/app.rs", "use crate::sync::{Breaker, gate::Gate}; pub struct App;"),
        file("src/sync/mod.rs", "mod breaker; pub mod gate; pub use breaker::Breaker;"),
        file("src/sync/breaker.rs", "use super::gate; fn f() { crate::app::run(gate::G); }"),
        file("src/sync/gate.rs", "use super::Breaker; pub struct Gate;"),
    ];
    let imports = Imports::of(&files);
    let edges: Vec<_> = imports.edges().collect();
    assert_eq!(edges, [(1, 3), (1, 4), (3, 1), (3, 4), (4, 3)]);
    assert_eq!(imports.circles(), [vec![1, 3, 1], vec![4, 3, 4]]);

    let text = "pub struct A; type B = A; impl Iterator for A { type Item = u8; fn next(&mut self)\n\
                { }\n } #[cfg(test)] mod tests { use crate::app; struct T; }";
    let file = file("src/sync/gate.rs", text);
    assert_eq!(file.types, ["A", "B"]);
    assert_eq!((file.functions[0].lines, file.functions[0].parameters), (2, 0));
    assert!(file.functions[0].has_required_signature && file.uses.is_empty());
    let exported = SourceFile::parse("src/sync/mod.rs", "pub use gate::Gate as Door;");
    assert_eq!(exported.uses[0].visibility, Visibility::Exported);
    assert_eq!(exported.uses[0].name.as_deref(), Some("Door"));
}
