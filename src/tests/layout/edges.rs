//! Which files use which, and where.

use std::collections::BTreeMap;

use super::names::{Target, resolve};
use super::source::{Id, Place, Tree};

/// A path in one file that leads to another, or a call on `self` of what another defines.
pub(super) struct Edge<'a> {
    pub(super) from: &'a str,
    pub(super) to: &'a str,
    pub(super) line: usize,
    pub(super) path: String,
    /// It is an item of the other file that is used. To import a module by its name is to use nothing of it yet: what is
    /// may stand in another file, which the module re-exports.
    pub(super) of_item: bool,
}

/// All that the shipped files mention of each other, and call of each other's methods of one type.
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
                    // A name alone is no module's in code, but a local one.
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

/// The calls on `self`, from one file that has methods of a type to another.
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

/// Whether that is in a module which the module declares: to re-export that is to name it, no more.
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
