//! Reads a source tree: its modules, the names that each defines, and the paths that each mentions.

use std::collections::BTreeMap;

use proc_macro2::{Spacing, TokenStream, TokenTree};
use syn::visit::{self, Visit};
use syn::{
    Attribute, Expr, ExprMethodCall, Ident, ImplItem, Item, ItemImpl, ItemMacro, ItemMod, ItemUse, Macro,
    Type, UseTree, Visibility,
};

/// The number of a module in its tree; 0 is the root.
pub(super) type Id = usize;

/// All modules of a crate.
#[derive(Default)]
pub(super) struct Tree {
    pub(super) modules: Vec<Module>,
    /// The file that defines each macro.
    pub(super) macros: BTreeMap<String, String>,
}

/// A module: a file, or a part of a file.
pub(super) struct Module {
    pub(super) file: String,
    pub(super) parent: Option<Id>,
    /// The folder of the modules that this module declares, from `src`: empty, or with a `/` at its end.
    folder: String,
    /// Whether the module is built only for tests or fuzzers.
    pub(super) for_tests: bool,
    /// The meanings of each name. Some names have several meanings, such as a module and a function.
    pub(super) names: BTreeMap<String, Vec<Name>>,
    /// The paths of glob imports, without their `::*`.
    pub(super) globs: Vec<Vec<String>>,
    pub(super) mentions: Vec<Mention>,
    /// The methods that the module defines, and the methods that they call on `self`.
    pub(super) methods: Vec<Method>,
    pub(super) calls: Vec<Method>,
}

/// A method of a type, and the line in which it is defined or called.
pub(super) struct Method {
    /// The path of the method's type.
    pub(super) of: Vec<String>,
    pub(super) name: String,
    pub(super) line: usize,
}

/// The meaning of a name in a module.
pub(super) enum Name {
    Module(Id),
    /// Any other item that the module defines.
    Item,
    /// The path that the module imports.
    Import(Vec<String>),
}

/// A path in a module.
pub(super) struct Mention {
    pub(super) path: Vec<String>,
    pub(super) line: usize,
    pub(super) place: Place,
}

/// The kind of place where a path is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    Import,
    /// An import that others may use.
    ReExport,
    Code,
    /// The name of a macro that is called.
    MacroCall,
}

impl Tree {
    /// Reads the files to which `lib.rs` leads. `files` has the text of all files, by their paths from `src`.
    pub(super) fn read(files: &BTreeMap<String, String>) -> Self {
        let mut reader = Reader { files, tree: Self::default(), current: 0, of: None };
        reader.open("lib.rs".into(), String::new(), None, false);
        reader.file();
        reader.tree
    }
}

struct Reader<'a> {
    files: &'a BTreeMap<String, String>,
    tree: Tree,
    current: Id,
    /// The type whose methods are being read.
    of: Option<Vec<String>>,
}

impl Reader<'_> {
    fn module(&mut self) -> &mut Module {
        &mut self.tree.modules[self.current]
    }

    /// Adds a module, which becomes the current module.
    fn open(&mut self, file: String, folder: String, parent: Option<Id>, for_tests: bool) {
        self.current = self.tree.modules.len();
        let (names, globs, mentions, methods, calls) = Default::default();
        let module = Module { file, parent, folder, for_tests, names, globs, mentions, methods, calls };
        self.tree.modules.push(module);
    }

    /// Reads the file of the current module.
    fn file(&mut self) {
        let name = &self.module().file.clone();
        let file = syn::parse_file(&self.files[name]).unwrap_or_else(|error| panic!("src/{name}: {error}"));
        self.visit_file(&file);
    }

    fn name(&mut self, name: String, what: Name) {
        self.module().names.entry(name).or_default().push(what);
    }

    fn mention(&mut self, path: Vec<String>, line: usize, place: Place) {
        self.module().mentions.push(Mention { path, line, place });
    }

    /// Notes all paths of an import. `path` has the names before `tree`.
    fn import(&mut self, tree: &UseTree, mut path: Vec<String>, place: Place) {
        match tree {
            UseTree::Path(step) => {
                path.push(step.ident.to_string());
                self.import(&step.tree, path, place);
            }
            UseTree::Group(group) => {
                group.items.iter().for_each(|tree| self.import(tree, path.clone(), place));
            }
            UseTree::Name(leaf) => self.leaf(&leaf.ident, &leaf.ident, path, place),
            UseTree::Rename(leaf) => self.leaf(&leaf.ident, &leaf.rename, path, place),
            UseTree::Glob(star) => {
                self.mention(path.clone(), star.star_token.spans[0].start().line, place);
                self.module().globs.push(path);
            }
        }
    }

    fn leaf(&mut self, ident: &Ident, name: &Ident, mut path: Vec<String>, place: Place) {
        let (ident_line, mut name) = (ident.span().start().line, name.to_string());
        if ident != "self" {
            path.push(ident.to_string());
        } else if name == "self" {
            name = path.last().cloned().unwrap_or_default();
        }
        self.name(name, Name::Import(path.clone()));
        self.mention(path, ident_line, place);
    }

    /// Notes the paths in the arguments or the definition of a macro: words with `::` between them.
    fn scan(&mut self, tokens: TokenStream) {
        let words = self.words(tokens);
        let text = |place: usize| words.get(place).map_or("", |(text, _)| text.as_str());
        let is_name = |place| text(place).starts_with(|first: char| first.is_alphabetic() || first == '_');
        let mut next = 0;
        while next < words.len() {
            let start = next;
            next += 1;
            if !is_name(start) {
                continue;
            }
            let mut path = vec![text(start).to_owned()];
            while text(next) == "::" && is_name(next + 1) {
                path.push(text(next + 1).to_owned());
                next += 2;
            }
            let before = start.checked_sub(1).map_or("", text);
            let is_field = before == "." || path.len() == 1 && text(next) == ":";
            let is_variable = before.ends_with('$') && text(start) != "crate";
            if !is_field && !is_variable && !before.ends_with("::") && !before.ends_with('\'') {
                self.mention(path, words[start].1, Place::Code);
            }
        }
    }

    /// Returns the tokens as text, each with its line. Adjacent punctuation marks are one token. Groups are scanned separately.
    fn words(&mut self, tokens: TokenStream) -> Vec<(String, usize)> {
        let mut words: Vec<(String, usize)> = Vec::new();
        let mut joint = false;
        for token in tokens {
            let line = token.span().start().line;
            let is_joint = matches!(&token, TokenTree::Punct(mark) if mark.spacing() == Spacing::Joint);
            match token {
                TokenTree::Punct(mark) if joint => words.last_mut().unwrap().0.push(mark.as_char()),
                TokenTree::Group(group) => {
                    self.scan(group.stream());
                    words.push(("()".into(), line));
                }
                token => words.push((token.to_string(), line)),
            }
            joint = is_joint;
        }
        words
    }
}

impl<'a> Visit<'a> for Reader<'_> {
    fn visit_item(&mut self, item: &'a Item) {
        let (attributes, name) = match item {
            Item::Const(item) => (&item.attrs, Some(&item.ident)),
            Item::Enum(item) => (&item.attrs, Some(&item.ident)),
            Item::Fn(item) => (&item.attrs, Some(&item.sig.ident)),
            Item::Static(item) => (&item.attrs, Some(&item.ident)),
            Item::Struct(item) => (&item.attrs, Some(&item.ident)),
            Item::Trait(item) => (&item.attrs, Some(&item.ident)),
            Item::Type(item) => (&item.attrs, Some(&item.ident)),
            Item::Union(item) => (&item.attrs, Some(&item.ident)),
            Item::Impl(item) => (&item.attrs, None),
            Item::Use(item) => (&item.attrs, None),
            other => return visit::visit_item(self, other),
        };
        if is_for_tests(attributes) {
            return;
        }
        if let Some(name) = name {
            self.name(name.to_string(), Name::Item);
        }
        visit::visit_item(self, item);
    }

    fn visit_item_mod(&mut self, item: &'a ItemMod) {
        let parent = self.current;
        let name = item.ident.to_string();
        let Module { file, folder, for_tests, .. } = self.module();
        let for_tests = *for_tests || is_for_tests(&item.attrs) || name == "tests" || name == "fuzzing";
        let (file, path) = (file.clone(), format!("{folder}{name}"));
        let whole = [format!("{path}.rs"), format!("{path}/mod.rs")];
        let file = match &item.content {
            Some(_) => file,
            None => whole.into_iter().find(|file| self.files.contains_key(file)).expect("a module's file"),
        };
        self.open(file, format!("{path}/"), Some(parent), for_tests);
        let id = self.current;
        match &item.content {
            Some((_, items)) => items.iter().for_each(|item| self.visit_item(item)),
            None => self.file(),
        }
        self.current = parent;
        self.name(name, Name::Module(id));
    }

    fn visit_item_use(&mut self, item: &'a ItemUse) {
        // A leading `::` means another crate.
        if item.leading_colon.is_none() {
            let private = matches!(item.vis, Visibility::Inherited);
            self.import(&item.tree, Vec::new(), if private { Place::Import } else { Place::ReExport });
        }
    }

    fn visit_item_macro(&mut self, item: &'a ItemMacro) {
        match &item.ident {
            Some(name) => {
                let file = self.module().file.clone();
                self.tree.macros.insert(name.to_string(), file);
                self.scan(item.mac.tokens.clone());
            }
            None => self.visit_macro(&item.mac),
        }
    }

    fn visit_item_impl(&mut self, item: &'a ItemImpl) {
        self.of = match &*item.self_ty {
            Type::Path(path) => Some(words_of(&path.path)),
            _ => None,
        };
        let (of, methods) = (self.of.clone(), item.items.iter());
        let named = methods
            .filter_map(|item| if let ImplItem::Fn(item) = item { Some(&item.sig.ident) } else { None });
        for (name, of) in named.filter_map(|name| Some((name, of.clone()?))) {
            let (name, line) = (name.to_string(), name.span().start().line);
            self.module().methods.push(Method { of, name, line });
        }
        visit::visit_item_impl(self, item);
        self.of = None;
    }

    fn visit_expr_method_call(&mut self, call: &'a ExprMethodCall) {
        if let (Expr::Path(receiver), Some(of)) = (&*call.receiver, self.of.clone())
            && receiver.path.is_ident("self")
        {
            let (name, line) = (call.method.to_string(), call.method.span().start().line);
            self.module().calls.push(Method { of, name, line });
        }
        visit::visit_expr_method_call(self, call);
    }

    fn visit_macro(&mut self, call: &'a Macro) {
        let path = words_of(&call.path);
        let line = call.path.segments[0].ident.span().start().line;
        self.mention(path, line, Place::MacroCall);
        self.scan(call.tokens.clone());
    }

    fn visit_path(&mut self, path: &'a syn::Path) {
        if path.leading_colon.is_none() {
            self.mention(words_of(path), path.segments[0].ident.span().start().line, Place::Code);
        }
        visit::visit_path(self, path);
    }

    fn visit_attribute(&mut self, _: &'a Attribute) {}

    /// Skips `pub(in path)`, which does not use the module that it names.
    fn visit_visibility(&mut self, _: &'a Visibility) {}
}

fn words_of(path: &syn::Path) -> Vec<String> {
    path.segments.iter().map(|segment| segment.ident.to_string()).collect()
}

/// Whether `#[cfg(...)]` restricts an item to tests and fuzzers.
fn is_for_tests(attributes: &[Attribute]) -> bool {
    let conditions = attributes.iter().filter(|attribute| attribute.path().is_ident("cfg"));
    conditions.filter_map(|attribute| attribute.meta.require_list().ok()).any(|condition| {
        let text = condition.tokens.to_string();
        let mut words = text.split(|mark: char| !mark.is_alphanumeric()).filter(|word| !word.is_empty());
        words.all(|word| ["all", "any", "test", "fuzzing"].contains(&word))
    })
}
