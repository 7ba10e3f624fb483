//! Definitions of commands. The server uses them to check the number of arguments, to find the keys and to show the syntax.

use std::ffi::CStr;

use redis_module::raw;

/// A command, as the server's tools show it.
pub(crate) struct Definition {
    /// The name that `COMMAND INFO` shows. Its case is ignored.
    pub(crate) name: &'static CStr,
    pub(crate) summary: &'static CStr,
    pub(crate) complexity: &'static CStr,
    /// The version of the module in which the command appeared.
    pub(crate) since: &'static CStr,
    /// The server's own flags for commands (`write`, `readonly`, `deny-oom`, `fast`, ...).
    pub(crate) flags: &'static CStr,
    /// The command's ACL categories: the server's, and the module's own.
    pub(crate) acl: &'static [&'static CStr],
    /// The server's own tips about the reply, separated by blanks.
    pub(crate) tips: &'static CStr,
    pub(crate) key: KeyUse,
    pub(crate) arguments: &'static [Argument],
}

/// Which arguments of a command are keys.
#[derive(Clone, Copy)]
pub(crate) enum Keys {
    /// Only the first argument.
    First,
    /// The keys begin at the second argument, and the first is their number.
    Counted,
    /// All arguments from the second on are keys.
    FromSecond,
    /// The argument after this word, if the client has given the word.
    After(&'static CStr),
}

/// How a command uses its keys. ACL rules and proxies depend on this.
pub(crate) struct KeyUse {
    pub(crate) keys: Keys,
    /// The reply tells more of the value than whether it exists. Needs the right to read (`%R~`).
    pub(crate) tells: bool,
    /// How the command changes the value. Needs the right to write (`%W~`).
    pub(crate) change: Option<Change>,
}

/// How a command changes the value, in the server's words.
pub(crate) enum Change {
    Update,
    Delete,
}

/// An argument, an option, or several arguments that belong together.
pub(crate) struct Argument {
    pub(super) name: &'static CStr,
    pub(super) kind: Kind,
    /// The word of the option, which goes before the value.
    pub(super) token: Option<&'static CStr>,
    pub(super) optional: bool,
    /// The argument may be repeated.
    pub(super) many: bool,
}

pub(super) enum Kind {
    Key,
    Text,
    Integer,
    /// The option's word alone.
    Flag,
    /// One of these arguments.
    OneOf(&'static [Argument]),
    /// All these arguments, in this order.
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

    /// An option that is a word without a value.
    pub(crate) const fn flag(name: &'static CStr, token: &'static CStr) -> Self {
        Self::word(name, token).optional()
    }

    /// A word without a value, as one of several choices. `name` is shown in the syntax, and `token` is what the client sends.
    pub(crate) const fn word(name: &'static CStr, token: &'static CStr) -> Self {
        Self::new(name, Kind::Flag).after(token)
    }

    pub(crate) const fn one_of(name: &'static CStr, choices: &'static [Self]) -> Self {
        Self::new(name, Kind::OneOf(choices))
    }

    pub(crate) const fn block(name: &'static CStr, parts: &'static [Self]) -> Self {
        Self::new(name, Kind::Block(parts))
    }

    /// Makes the argument the value of the option with this word.
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
    /// The server's flags for the use of each key.
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
    /// The number of words of the command, as the server counts them: with its name, and negative for "at least".
    pub(super) fn arity(&self) -> i32 {
        let required = self.arguments.iter().filter(|argument| !argument.optional);
        let words = required.fold(1, |words, _| words + 1);
        let is_open = |argument: &Argument| argument.optional || argument.many;
        if self.arguments.iter().any(is_open) { -words } else { words }
    }
}
