//! Finds which files use which other files, and where.

use std::collections::BTreeMap;

use super::names::{Target, resolve};
use super::source::{Id, Place, Tree};

/// A use of one file by another: a path to an item or a module, or a call on `self` of a method that the other file defines.
pub(super) struct Edge<'a> {
    pub(super) from: &'a str,
    pub(super) to: &'a str,
    pub(super) line: usize,
    pub(super) path: String,
    /// Whether an item of the other file is used. An import that only names a module does not count, because the module may re-export the
    /// item from another file.
    pub(super) of_item: bool,
}

/// Returns all uses of one file by another, without files for tests and fuzzers.
pub(super) fn edges(tree: &Tree) -> Vec<Edge<'_>> {
    let mut edges = Vec::new();
    let shipped = tree.modules.iter().enumerate().filter(|(_, module)| !module.for_tests);
    for (id, module) in shipped {
        for mention in &module.mentions {
            let edge = |file, of_item| Edge {
                from: &module.file,
                to: file,
                line: mention.line,
                path: mention.path.join("::"),
                of_item,
            };
            if mention.place == Place::MacroCall
                && let [name] = mention.path.as_slice()
            {
                edges.extend(tree.macros.get(name).map(|file| edge(file, true)));
                continue;
            }
            let mut targets = resolve(tree, id, &mention.path);
            if mention.place == Place::ReExport {
                targets.retain(|&target| !is_below(tree, id, target));
            }
            let named = |target: &Target| matches!(target, Target::Item(_));
            let any_item = targets.iter().any(named);
            for target in targets {
                match target {
                    Target::Item(other) => edges.push(edge(&tree.modules[other].file, true)),
                    // In code, a single name is a local name, not a module.
                    Target::Module(_) if any_item || is_local(mention.place, &mention.path) => {}
                    Target::Module(other) => edges.push(edge(&tree.modules[other].file, false)),
                }
            }
        }
    }
    edges.extend(calls(tree));
    edges.retain(|edge| edge.from != edge.to);
    edges
}

/// Returns the calls on `self` of methods that another file defines for the same type.
fn calls(tree: &Tree) -> Vec<Edge<'_>> {
    let shipped = || tree.modules.iter().enumerate().filter(|(_, module)| !module.for_tests);
    let type_of = |id, of: &[String]| match resolve(tree, id, of).as_slice() {
        [Target::Item(module)] => Some((*module, of.last()?.clone())),
        _ => None,
    };
    let mut defined = BTreeMap::new();
    for (id, module) in shipped() {
        for method in &module.methods {
            if let Some(of) = type_of(id, &method.of) {
                defined.insert((of, &method.name), &module.file);
            }
        }
    }
    let mut edges = Vec::new();
    for (id, module) in shipped() {
        for call in &module.calls {
            let of = type_of(id, &call.of);
            if let Some(file) = of.and_then(|of| defined.get(&(of, &call.name))) {
                let path = format!("self.{}", call.name);
                edges.push(Edge { from: &module.file, to: file, line: call.line, path, of_item: true });
            }
        }
    }
    edges
}

fn is_local(place: Place, path: &[String]) -> bool {
    place == Place::Code && path.len() == 1
}

/// Whether the target is in a module that this module declares. Re-exporting such a target is no use of its file.
fn is_below(tree: &Tree, module: Id, target: Target) -> bool {
    let (Target::Module(mut id) | Target::Item(mut id)) = target;
    while let Some(parent) = tree.modules[id].parent {
        if parent == module {
            return true;
        }
        id = parent;
    }
    false
}
