//! Mutants in the source: all of them at once, each behind a question whether it is the one that is on. So one build has them all.

use std::fs;
use std::ops::Range;
use std::path::Path;

use syn::visit::{self, Visit};

use super::draw::{Mutant, Place};
use super::{Result, told};

/// What stands in a file instead of those bytes.
#[derive(Clone, Debug)]
pub(super) struct Edit {
    range: Range<usize>,
    text: String,
}

impl Edit {
    /// Whether the two can't both be made.
    pub(super) fn meets(&self, other: &Self) -> bool {
        self.range == other.range || self.range.start < other.range.end && other.range.start < self.range.end
    }
}

/// What a mutant changes in its file.
#[derive(Clone, Debug)]
pub(super) struct Planting {
    pub(super) number: usize,
    pub(super) edit: Edit,
    /// The function's `const`, where it has one: nothing is asked while it compiles.
    constness: Option<Range<usize>>,
}

/// How the mutant changes that text; none where it can't be behind a question.
pub(super) fn planting(number: usize, mutant: &Mutant, text: &str) -> Option<Planting> {
    let parsed = syn::parse_file(text).ok()?;
    let start = offset(text, &mutant.span.start)?;
    let mut finder = Finder { text, mutant, start, number, edit: None };
    if mutant.genre == "FnValue" {
        let value = &mutant.replacement;
        let text = format!("if {} {{ return {value}; }} ", asked(number));
        finder.edit = Some(Edit { range: start..start, text });
    } else {
        finder.visit_file(&parsed);
    }
    let edit = finder.edit?;
    let mut within = Within { place: edit.range.start, constness: None, opaque: false };
    within.visit_file(&parsed);
    // Two values of one opaque type must be of one type.
    let fits = mutant.genre != "FnValue" || !within.opaque;
    fits.then_some(Planting { number, edit, constness: within.constness })
}

/// Writes the file with all of its mutants; says on which lines each of them is.
pub(super) fn plant(path: &Path, text: &str, plantings: &[Planting]) -> Result<Vec<(usize, Range<usize>)>> {
    let mut edits: Vec<(Option<usize>, Edit)> =
        plantings.iter().map(|planting| (Some(planting.number), planting.edit.clone())).collect();
    let mut constant: Vec<Range<usize>> =
        plantings.iter().filter_map(|planting| planting.constness.clone()).collect();
    constant.sort_by_key(|range| range.start);
    constant.dedup();
    edits.extend(constant.into_iter().map(|range| (None, Edit { range, text: String::new() })));
    edits.sort_by_key(|(_, edit)| edit.range.start);

    let (mut planted, mut done, mut lines) = (String::new(), 0, Vec::new());
    for (number, edit) in edits {
        planted += text.get(done..edit.range.start).ok_or("two mutants in one place")?;
        let first = planted.matches('\n').count() + 1;
        planted += &edit.text;
        lines.extend(number.map(|number| (number, first..planted.matches('\n').count() + 2)));
        done = edit.range.end;
    }
    planted += text.get(done..).ok_or("a mutant behind the end")?;
    fs::write(path, planted).map_err(told(path))?;
    Ok(lines)
}

fn asked(number: usize) -> String {
    format!("crate::planted::on({number})")
}

/// The byte at which that place is.
fn offset(text: &str, place: &Place) -> Option<usize> {
    let line = text.split_inclusive('\n').nth(place.line.checked_sub(1)?)?;
    let within: usize = line.chars().take(place.column.checked_sub(1)?).map(char::len_utf8).sum();
    Some(line.as_ptr().addr() - text.as_ptr().addr() + within)
}

/// Looks for what the mutant changes.
struct Finder<'a> {
    text: &'a str,
    mutant: &'a Mutant,
    start: usize,
    number: usize,
    edit: Option<Edit>,
}

impl Finder<'_> {
    fn is(&self, genre: &str, place: &Range<usize>) -> bool {
        self.mutant.genre == genre && place.start == self.start
    }

    fn text(&self, range: Range<usize>) -> &str {
        self.text.get(range).unwrap_or_default()
    }

    /// Instead of those bytes, one or the other.
    fn choice(&mut self, range: Range<usize>, mutated: &str) {
        let text =
            format!("(if {} {{ {mutated} }} else {{ {} }})", asked(self.number), self.text(range.clone()));
        self.edit = Some(Edit { range, text });
    }
}

fn bytes(node: &impl syn::spanned::Spanned) -> Range<usize> {
    node.span().byte_range()
}

impl<'ast> Visit<'ast> for Finder<'_> {
    fn visit_expr_binary(&mut self, node: &'ast syn::ExprBinary) {
        if self.is("BinaryOperator", &bytes(&node.op)) {
            let (left, right) = (self.text(bytes(&node.left)), self.text(bytes(&node.right)));
            let mutated = format!("{left} {} {right}", self.mutant.replacement);
            self.choice(bytes(node), &mutated);
        }
        visit::visit_expr_binary(self, node);
    }

    fn visit_expr_unary(&mut self, node: &'ast syn::ExprUnary) {
        if self.is("UnaryOperator", &bytes(&node.op)) {
            let mutated = self.text(bytes(&node.expr)).to_owned();
            self.choice(bytes(node), &mutated);
        }
        visit::visit_expr_unary(self, node);
    }

    fn visit_arm(&mut self, node: &'ast syn::Arm) {
        let (pattern, guard) = match &node.pat {
            syn::Pat::Guard(guarded) => (bytes(&guarded.pat), Some(bytes(&guarded.guard))),
            pattern => (bytes(pattern), None),
        };
        if let Some(guard) = guard.clone().filter(|guard| self.is("MatchArmGuard", guard)) {
            let mutated = self.mutant.replacement.clone();
            self.choice(guard, &mutated);
        }
        if self.is("MatchArm", &bytes(node)) {
            let off = format!("!{}", asked(self.number));
            self.edit = Some(match guard {
                Some(range) => {
                    let text = format!("{off} && ({})", self.text(range.clone()));
                    Edit { range, text }
                }
                None => {
                    let end = pattern.end;
                    Edit { range: end..end, text: format!(" if {off}") }
                }
            });
        }
        visit::visit_arm(self, node);
    }

    fn visit_expr_struct(&mut self, node: &'ast syn::ExprStruct) {
        for field in &node.fields {
            if let Some(base) = node.rest.as_ref().filter(|_| self.is("StructField", &bytes(field))) {
                let (name, value) = (self.text(bytes(&field.member)), self.text(bytes(&field.expr)));
                let (base, on) = (self.text(bytes(base)), asked(self.number));
                let text = format!("{name}: if {on} {{ ({base}).{name} }} else {{ {value} }}");
                self.edit = Some(Edit { range: bytes(field), text });
            }
        }
        visit::visit_expr_struct(self, node);
    }
}

/// Looks for the signature of the function around a place.
struct Within {
    place: usize,
    /// Where its `const` is.
    constness: Option<Range<usize>>,
    /// Whether it returns an `impl Trait`.
    opaque: bool,
}

impl Within {
    fn look(&mut self, signature: &syn::Signature, block: &syn::Block) {
        if bytes(block).contains(&self.place) {
            self.constness = signature.constness.as_ref().map(bytes);
            let syn::ReturnType::Type(_, returned) = &signature.output else { return };
            self.opaque = matches!(**returned, syn::Type::ImplTrait(_));
        }
    }
}

impl<'ast> Visit<'ast> for Within {
    fn visit_item_fn(&mut self, node: &'ast syn::ItemFn) {
        self.look(&node.sig, &node.block);
        visit::visit_item_fn(self, node);
    }

    fn visit_impl_item_fn(&mut self, node: &'ast syn::ImplItemFn) {
        self.look(&node.sig, &node.block);
        visit::visit_impl_item_fn(self, node);
    }
}

#[cfg(test)]
mod tests {
    use super::super::draw::Span;
    use super::*;

    /// That `genre` changes what begins at `at`.
    #[track_caller]
    fn mutant(text: &str, genre: &str, at: &str, replacement: &str) -> Mutant {
        let start = text.find(at).unwrap();
        let before = &text[..start];
        let column = before.chars().rev().take_while(|&char| char != '\n').count() + 1;
        let place = Place { line: before.matches('\n').count() + 1, column };
        Mutant {
            name: String::new(),
            file: "src/lib.rs".into(),
            genre: genre.into(),
            replacement: replacement.into(),
            span: Span { start: place.clone(), end: place },
        }
    }

    /// What becomes of the text with that mutant.
    #[track_caller]
    fn planted(text: &str, genre: &str, at: &str, replacement: &str) -> String {
        let mutant = mutant(text, genre, at, replacement);
        let file = std::env::temp_dir().join(format!("redislock-planted-{}-{genre}.rs", std::process::id()));
        plant(&file, text, &[planting(7, &mutant, text).unwrap()]).unwrap();
        let result = fs::read_to_string(&file).unwrap();
        fs::remove_file(&file).unwrap();
        result.replace("crate::planted::on(7)", "ON")
    }

    #[test]
    fn a_value_is_returned_at_the_beginning_and_no_longer_constant() {
        let text = "pub const fn f() -> u8 {\n    1\n}\n";
        assert_eq!(planted(text, "FnValue", "1", "0"), "pub  fn f() -> u8 {\n    if ON { return 0; } 1\n}\n");
    }

    #[test]
    fn nothing_else_is_returned_as_an_opaque_type() {
        let text = "fn f() -> impl Iterator<Item = u8> { Some(1).into_iter() }";
        assert!(planting(7, &mutant(text, "FnValue", "Some", "::std::iter::empty()"), text).is_none());
    }

    #[test]
    fn an_operator_is_another_one_behind_letters_of_several_bytes() {
        let text = "fn f() -> bool { /* \u{fc} */ 1 + 1 < 2 }";
        let wanted = "fn f() -> bool { /* \u{fc} */ (if ON { 1 + 1 == 2 } else { 1 + 1 < 2 }) }";
        assert_eq!(planted(text, "BinaryOperator", "<", "=="), wanted);
    }

    #[test]
    fn a_sign_goes() {
        let text = "fn f(x: bool) -> bool { !x }";
        assert_eq!(
            planted(text, "UnaryOperator", "!", ""),
            "fn f(x: bool) -> bool { (if ON { x } else { !x }) }"
        );
    }

    #[test]
    fn an_arm_goes_and_a_guard_is_another_one() {
        let text = "fn f(x: u8) -> u8 { match x { 1 => 2, y if y > 3 => 4, _ => 5 } }";
        let wanted = text.replace("1 =>", "1 if !ON =>");
        assert_eq!(planted(text, "MatchArm", "1 =>", ""), wanted);
        let wanted = text.replace("if y > 3", "if !ON && (y > 3)");
        assert_eq!(planted(text, "MatchArm", "y if", ""), wanted);
        let wanted = text.replace("if y > 3", "if (if ON { true } else { y > 3 })");
        assert_eq!(planted(text, "MatchArmGuard", "y > 3", "true"), wanted);
    }

    #[test]
    fn a_field_is_that_of_the_rest() {
        let text = "fn f(x: &X) -> X { X { a: 1, ..*x } }";
        let wanted = "fn f(x: &X) -> X { X { a: if ON { (*x).a } else { 1 }, ..*x } }";
        assert_eq!(planted(text, "StructField", "a: 1", ""), wanted);
    }
}
