//! A command as the server shows it: `COMMAND INFO` and `COMMAND DOCS`.

use std::collections::{BTreeSet, HashMap};

use redis::Value;

use crate::support::{Client, convert};

/// What `COMMAND INFO` and `COMMAND DOCS` show of a command.
pub(super) struct Shown {
    pub(super) arity: i64,
    pub(super) flags: BTreeSet<String>,
    /// First key, last key, step.
    pub(super) keys: (i64, i64, i64),
    pub(super) categories: BTreeSet<String>,
    pub(super) tips: Vec<String>,
    pub(super) docs: HashMap<String, Value>,
}

/// One argument of `COMMAND DOCS`.
pub(super) struct Argument {
    name: String,
    kind: String,
    token: Option<String>,
    pub(super) optional: bool,
    /// Whether the argument can be repeated.
    pub(super) multiple: bool,
    parts: Vec<Self>,
}

impl Shown {
    #[track_caller]
    pub(super) fn of(client: &mut Client, command: &str) -> Self {
        let info: (Vec<Value>,) = client.ask(&format!("COMMAND INFO {command}"));
        let docs: HashMap<String, HashMap<String, Value>> = client.ask(&format!("COMMAND DOCS {command}"));
        let at = |place: usize| info.0[place].clone();
        Self {
            arity: convert(at(1)),
            flags: convert(at(2)),
            keys: (convert(at(3)), convert(at(4)), convert(at(5))),
            categories: convert(at(6)),
            tips: convert(at(7)),
            docs: docs.into_values().next().expect("it is documented"),
        }
    }

    #[track_caller]
    pub(super) fn text(&self, field: &str) -> String {
        convert(self.docs[field].clone())
    }

    #[track_caller]
    pub(super) fn arguments(&self) -> Vec<Argument> {
        arguments(self.docs["arguments"].clone())
    }
}

#[track_caller]
fn arguments(reply: Value) -> Vec<Argument> {
    let each: Vec<HashMap<String, Value>> = convert(reply);
    let each = each.into_iter().map(|mut fields| {
        let flags: Vec<String> = fields.remove("flags").map(convert).unwrap_or_default();
        Argument {
            name: convert(fields["name"].clone()),
            kind: convert(fields["type"].clone()),
            token: fields.remove("token").map(convert),
            optional: flags.iter().any(|flag| flag == "optional"),
            multiple: flags.iter().any(|flag| flag == "multiple"),
            parts: fields.remove("arguments").map(arguments).unwrap_or_default(),
        }
    });
    each.collect()
}

impl Argument {
    /// Returns the argument as in a syntax, without the brackets of an option.
    pub(super) fn bare(&self) -> String {
        let join = |sign| self.parts.iter().map(Self::written).collect::<Vec<_>>().join(sign);
        let value = match &self.kind[..] {
            "oneof" => join(" | "),
            "block" => join(" "),
            "pure-token" => String::new(),
            _ => self.name.clone(),
        };
        let words = [self.token.clone().unwrap_or_default(), value];
        words.iter().filter(|word| !word.is_empty()).cloned().collect::<Vec<_>>().join(" ")
    }

    /// Returns the argument as in a syntax.
    pub(super) fn written(&self) -> String {
        let bare = self.bare();
        let words = if self.multiple { format!("{bare} [{bare} ...]") } else { bare };
        if self.optional { format!("[{words}]") } else { words }
    }

    /// Returns the ways to write the argument, as words to send; `value` gives a value for each name.
    pub(super) fn ways(&self, value: impl Fn(&str) -> String + Copy) -> Vec<String> {
        let token = self.token.clone().unwrap_or_default();
        match &self.kind[..] {
            "oneof" => self.parts.iter().flat_map(|part| part.ways(value)).collect(),
            "pure-token" => vec![token],
            "block" if self.parts.iter().any(|part| part.optional) => {
                let mut ways = vec![token];
                for part in &self.parts {
                    let with = |way: &String| {
                        part.ways(value).iter().map(|one| format!("{way} {one}")).collect::<Vec<_>>()
                    };
                    let longer: Vec<String> = ways.iter().flat_map(with).collect();
                    ways = if part.optional { [ways, longer].concat() } else { longer };
                }
                ways
            }
            _ => vec![format!("{token} {}", value(&self.name))],
        }
    }
}
