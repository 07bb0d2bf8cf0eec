//! The import graph of the source files. A re-export resolves to the file that defines the name and
//! is no import itself.

use std::collections::{BTreeMap, BTreeSet};

use crate::source::{NamedPath, SourceFile, Visibility};

/// For the index of each file, the indices of the files that it imports from.
#[derive(Debug)]
pub(crate) struct Imports(BTreeMap<usize, BTreeSet<usize>>);

impl Imports {
    pub(crate) fn of(files: &[SourceFile]) -> Self {
        let modules = files.iter().enumerate().map(|(number, file)| (&file.module[..], number));
        let resolver = Resolver { files, modules: modules.collect() };
        let mut graph = BTreeMap::new();
        for (number, file) in files.iter().enumerate() {
            let private = file.uses.iter().filter(|used| used.visibility == Visibility::Private);
            let targets = private.filter_map(|used| resolver.file_of(&used.segments, 0));
            let targets: BTreeSet<usize> = targets.filter(|target| *target != number).collect();
            graph.insert(number, targets);
        }
        Self(graph)
    }

    pub(crate) fn edges(&self) -> impl Iterator<Item = (usize, usize)> + '_ {
        self.0.iter().flat_map(|(from, targets)| targets.iter().map(move |to| (*from, *to)))
    }

    /// The shortest circle through each file that is part of one; each circle once.
    pub(crate) fn circles(&self) -> Vec<Vec<usize>> {
        let mut found = Vec::new();
        let mut seen = BTreeSet::new();
        for start in self.0.keys() {
            if let Some(circle) = self.circle_through(*start) {
                let members: BTreeSet<usize> = circle.iter().copied().collect();
                if seen.insert(members) {
                    found.push(circle);
                }
            }
        }
        found
    }

    fn circle_through(&self, start: usize) -> Option<Vec<usize>> {
        let mut paths = std::collections::VecDeque::from([vec![start]]);
        let mut visited = BTreeSet::new();
        while let Some(path) = paths.pop_front() {
            for next in &self.0[path.last()?] {
                let longer = [&path[..], &[*next]].concat();
                if *next == start {
                    return Some(longer);
                }
                if visited.insert(*next) {
                    paths.push_back(longer);
                }
            }
        }
        None
    }
}

struct Resolver<'a> {
    files: &'a [SourceFile],
    modules: BTreeMap<&'a [String], usize>,
}

impl Resolver<'_> {
    /// The file that defines what a path from the crate root names; `None` for another crate's.
    fn file_of(&self, path: &[String], depth: usize) -> Option<usize> {
        assert!(depth < 20, "re-exports in a circle: {path:?}");
        let inside = (0..=path.len()).rev().find(|end| self.modules.contains_key(&path[..*end]))?;
        let module = self.modules[&path[..inside]];
        let file = &self.files[module];
        let Some(name) = path.get(inside) else { return Some(module) };
        let named = |used: &&NamedPath| used.name.as_ref() == Some(name);
        match file.uses.iter().find(named) {
            Some(used) if used.segments != path => {
                let rest = &path[inside + 1..];
                self.file_of(&[&used.segments, rest].concat(), depth + 1)
            }
            _ => self.defined_in(module, path, inside),
        }
    }

    /// Distinguishes this module's items from other crates: a `use` path that begins with a crate
    /// name looks like a path inside the module. `None` if the module neither defines nor
    /// re-exports the name.
    fn defined_in(&self, module: usize, path: &[String], inside: usize) -> Option<usize> {
        let is_root = self.files[module].module.is_empty();
        (!is_root || inside == path.len()).then_some(module)
    }
}
