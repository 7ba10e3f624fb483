//! What a command is, said once: the server checks its arity, finds its key and shows its syntax by this.

use std::ffi::CStr;

use redis_module::raw;

/// A command as the server's tools show it.
pub(crate) struct Definition {
    /// The name that `COMMAND INFO` shows, in upper or lower case.
    pub(crate) name: &'static CStr,
    pub(crate) summary: &'static CStr,
    pub(crate) complexity: &'static CStr,
    /// The version of the module that brought it.
    pub(crate) since: &'static CStr,
    /// The server's own words for what it does (`write`, `readonly`, `deny-oom`, `fast`, ...).
    pub(crate) flags: &'static CStr,
    /// Its ACL categories, the server's and the module's; all that it has, where the server takes any from a module.
    pub(crate) acl: &'static [&'static CStr],
    /// The server's own words for how to deal with its reply, blanks between them.
    pub(crate) tips: &'static CStr,
    pub(crate) key: KeyUse,
    pub(crate) arguments: &'static [Argument],
}

/// Which of a command's arguments are keys.
#[derive(Clone, Copy)]
pub(crate) enum Keys {
    /// The first, and only that.
    First,
    /// The keys begin at the second argument, and the first says how many they are.
    Counted,
    /// All arguments from the second on are keys.
    FromSecond,
    /// The key is the argument after this word, if the word is there.
    After(&'static CStr),
}

/// What a command does with its keys; ACL rules and proxies go by it.
pub(crate) struct KeyUse {
    pub(crate) keys: Keys,
    /// The reply holds something of the value, more than whether it is there: needs the right to read (`%R~`).
    pub(crate) tells: bool,
    /// Needs the right to write (`%W~`).
    pub(crate) change: Option<Change>,
}

/// How a command changes the value, in the server's words.
pub(crate) enum Change {
    Update,
    Delete,
}

/// An argument, an option, or several that belong together.
pub(crate) struct Argument {
    pub(super) name: &'static CStr,
    pub(super) kind: Kind,
    /// The option's word that goes before it.
    pub(super) token: Option<&'static CStr>,
    pub(super) optional: bool,
    /// There may be more than one, in a row.
    pub(super) many: bool,
}

pub(super) enum Kind {
    Key,
    Text,
    Integer,
    /// The option's word, and nothing after it.
    Flag,
    /// One of these arguments.
    OneOf(&'static [Argument]),
    /// All these arguments, one after the other.
    Block(&'static [Argument]),
}

impl Argument {
    pub(crate) const KEY: Self = Self::new(c"key", Kind::Key);

    pub(crate) const fn text(name: &'static CStr) -> Self {
        Self::new(name, Kind::Text)
    }

    pub(crate) const fn integer(name: &'static CStr) -> Self {
        Self::new(name, Kind::Integer)
    }

    /// An option that is its word alone.
    pub(crate) const fn flag(name: &'static CStr, token: &'static CStr) -> Self {
        Self::word(name, token).optional()
    }

    /// A word that stands for itself, as one of several.
    pub(crate) const fn word(name: &'static CStr, token: &'static CStr) -> Self {
        Self::new(name, Kind::Flag).after(token)
    }

    pub(crate) const fn one_of(name: &'static CStr, choices: &'static [Self]) -> Self {
        Self::new(name, Kind::OneOf(choices))
    }

    pub(crate) const fn block(name: &'static CStr, parts: &'static [Self]) -> Self {
        Self::new(name, Kind::Block(parts))
    }

    /// The argument is the value of the option that this word begins.
    pub(crate) const fn after(self, token: &'static CStr) -> Self {
        Self { token: Some(token), ..self }
    }

    pub(crate) const fn optional(self) -> Self {
        Self { optional: true, ..self }
    }

    pub(crate) const fn many(self) -> Self {
        Self { many: true, ..self }
    }

    const fn new(name: &'static CStr, kind: Kind) -> Self {
        Self { name, kind, token: None, optional: false, many: false }
    }
}

impl KeyUse {
    /// The use of each key, in the server's words.
    pub(super) fn access(&self) -> u32 {
        let access = if self.tells { raw::REDISMODULE_CMD_KEY_ACCESS } else { 0 };
        let change = match self.change {
            None => raw::REDISMODULE_CMD_KEY_RO,
            Some(Change::Update) => raw::REDISMODULE_CMD_KEY_RW | raw::REDISMODULE_CMD_KEY_UPDATE,
            Some(Change::Delete) => raw::REDISMODULE_CMD_KEY_RW | raw::REDISMODULE_CMD_KEY_DELETE,
        };
        access | change
    }
}

impl Definition {
    /// How many words it takes, as the server counts: its name included, negative for "at least".
    pub(super) fn arity(&self) -> i32 {
        let required = self.arguments.iter().filter(|argument| !argument.optional);
        let words = required.fold(1, |words, _| words + 1);
        let is_open = |argument: &Argument| argument.optional || argument.many;
        if self.arguments.iter().any(is_open) { -words } else { words }
    }
}
