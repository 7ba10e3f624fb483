//! Resolves a path to the module that defines the item, through imports and re-exports.

use super::source::{Id, Name, Tree};

/// The target of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Target {
    Module(Id),
    /// An item of this module.
    Item(Id),
}

/// Returns all targets that a path in a module may have; none if the path begins with the name of another crate, or a local name.
pub(super) fn resolve(tree: &Tree, module: Id, path: &[String]) -> Vec<Target> {
    Resolver { tree, asked: Vec::new() }.path(module, path)
}

struct Resolver<'a> {
    tree: &'a Tree,
    /// The names that are being resolved, each with its module: an import may lead back to itself (`use log::log`).
    asked: Vec<(Id, String)>,
}

impl Resolver<'_> {
    fn path(&mut self, module: Id, path: &[String]) -> Vec<Target> {
        let Some((first, rest)) = path.split_first() else { return Vec::new() };
        let mut targets = match first.as_str() {
            "crate" => vec![Target::Module(0)],
            _ => self.follow(module, first),
        };
        for name in rest {
            // What precedes `::` is a module, or an item with parts of its own (`Kind::Variant`).
            let modules = targets.iter().filter_map(|target| match target {
                Target::Module(module) => Some(*module),
                Target::Item(_) => None,
            });
            let modules: Vec<Id> = modules.collect();
            if modules.is_empty() {
                return targets;
            }
            targets = modules.iter().flat_map(|&module| self.part(module, name)).collect();
        }
        targets
    }

    fn follow(&mut self, module: Id, name: &str) -> Vec<Target> {
        match name {
            "self" => vec![Target::Module(module)],
            "super" => self.tree.modules[module].parent.map(Target::Module).into_iter().collect(),
            name => self.name(module, name),
        }
    }

    /// Resolves an item of a module. If the module does not define the item visibly, a macro makes the item.
    fn part(&mut self, module: Id, name: &str) -> Vec<Target> {
        let found = self.follow(module, name);
        if found.is_empty() { vec![Target::Item(module)] } else { found }
    }

    fn name(&mut self, module: Id, name: &str) -> Vec<Target> {
        let tree = self.tree;
        let asked = (module, name.to_owned());
        let again = self.asked.contains(&asked);
        self.asked.push(asked);
        let mut targets = Vec::new();
        for what in tree.modules[module].names.get(name).into_iter().flatten() {
            match what {
                Name::Module(id) => targets.push(Target::Module(*id)),
                Name::Item => targets.push(Target::Item(module)),
                Name::Import(path) if !again => targets.extend(self.path(module, path)),
                Name::Import(_) => {}
            }
        }
        if targets.is_empty() && !again {
            for path in &tree.modules[module].globs {
                for target in self.path(module, path) {
                    if let Target::Module(other) = target {
                        targets.extend(self.name(other, name));
                    }
                }
            }
        }
        self.asked.pop();
        targets
    }
}
