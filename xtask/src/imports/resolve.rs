//! Resolves which file, or which other crate, a path leads to: modules, imports and re-exports are
//! followed to the definition of the item.

use super::graph::Graph;
use super::source::{Name, Segments, Source};
use std::collections::BTreeSet;

/// What a path leads to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// An item in a module, or the module itself.
    Module(usize),
    /// Another crate.
    Crate(String),
}

/// The maximum number of imports that one path may lead through: a guard against names that import
/// each other.
const MAX_STEPS: usize = 32;

/// The imports of one crate.
#[derive(Debug, Default)]
pub struct Imports {
    /// The imports between its files, by their indices.
    pub files: Graph,
    /// Imported crates, by their names in code.
    pub crates: BTreeSet<String>,
}

/// Follows every path of `source`; `externs` are the names of the crates that it may import.
pub fn imports(source: &Source, externs: &BTreeSet<String>) -> Imports {
    let resolver = Resolver { source, externs };
    let mut imports = Imports { files: Graph::new(source.files.len()), crates: BTreeSet::new() };
    for (index, module) in source.modules.iter().enumerate() {
        for (name, path) in &module.reexports {
            let is_used = module.mentions.contains(name);
            match resolver.resolve(index, path, MAX_STEPS) {
                Some(Target::Module(target)) if is_used => {
                    imports.files.add(module.file, source.modules[target].file);
                }
                Some(Target::Crate(name)) => imports.crates.extend([name]),
                _ => {}
            }
        }
        for path in &module.paths {
            match resolver.resolve(index, path, MAX_STEPS) {
                Some(Target::Module(target)) => imports.files.add(module.file, source.modules[target].file),
                Some(Target::Crate(name)) => imports.crates.extend([name]),
                None => {}
            }
        }
    }
    imports
}

struct Resolver<'a> {
    source: &'a Source,
    externs: &'a BTreeSet<String>,
}

impl Resolver<'_> {
    /// Returns what `path` in the code of `module` leads to; `None` for locals, parameters and the
    /// standard library.
    fn resolve(&self, module: usize, path: &[String], steps: usize) -> Option<Target> {
        let steps = steps.checked_sub(1)?;
        let (first, rest) = path.split_first()?;
        match first.as_str() {
            "crate" => self.descend(0, rest, steps),
            "self" => self.descend(module, rest, steps),
            "super" => self.descend(self.source.modules[module].parent?, rest, steps),
            name => match self.lookup(module, name, rest, steps) {
                None if self.externs.contains(name) => Some(Target::Crate(name.to_string())),
                found => found,
            },
        }
    }

    /// Follows `path` down from `module`. A name that is not found there, such as an item that a
    /// macro defines, is attributed to the module.
    fn descend(&self, module: usize, path: &[String], steps: usize) -> Option<Target> {
        match path.split_first() {
            None => Some(Target::Module(module)),
            Some((name, rest)) if name == "super" => {
                self.descend(self.source.modules[module].parent?, rest, steps)
            }
            Some((name, rest)) if name == "self" => self.descend(module, rest, steps),
            Some((name, rest)) => self.lookup(module, name, rest, steps).or(Some(Target::Module(module))),
        }
    }

    /// Looks up `name` in `module`, and `rest` from there.
    fn lookup(&self, module: usize, name: &str, rest: &[String], steps: usize) -> Option<Target> {
        let known = &self.source.modules[module];
        if let Some(&child) = known.children.get(name) {
            return self.descend(child, rest, steps);
        }
        match known.names.get(name) {
            Some(Name::Item) => Some(Target::Module(module)),
            Some(Name::Import(path)) => {
                let path: Segments = path.iter().chain(rest).cloned().collect();
                // An import of a crate under its own name is not a module of this one.
                match path[0] == name && path.len() > 1 && self.externs.contains(name) {
                    true => Some(Target::Crate(name.to_string())),
                    false => self.resolve(module, &path, steps),
                }
            }
            None => self.through_globs(module, name, rest, steps),
        }
    }

    /// Looks up a name among glob imports.
    fn through_globs(&self, module: usize, name: &str, rest: &[String], steps: usize) -> Option<Target> {
        let steps = steps.checked_sub(1)?;
        self.source.modules[module].globs.iter().find_map(|path| {
            // Also globs of enums, whose variants are found in no module.
            match self.resolve(module, path, steps)? {
                Target::Module(target) if target != module => self.lookup(target, name, rest, steps),
                _ => None,
            }
        })
    }
}
