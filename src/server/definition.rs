//! Definitions of commands, by which the server checks the number of arguments, finds the keys, and shows the syntax.

use std::ffi::CStr;

use redis_module::raw;

/// The definition of a command.
pub(crate) struct Definition {
    /// The name that `COMMAND INFO` shows. Clients may write the name in any case.
    pub(crate) name: &'static CStr,
    pub(crate) summary: &'static CStr,
    pub(crate) complexity: &'static CStr,
    /// The version of the module in which the command appeared.
    pub(crate) since: &'static CStr,
    /// The server's flags for commands (`write`, `readonly`, `deny-oom`, `fast`, ...), separated by blanks.
    pub(crate) flags: &'static CStr,
    /// The command's ACL categories: categories of the server, and the module's own category.
    pub(crate) acl: &'static [&'static CStr],
    /// The server's tips about the reply, separated by blanks.
    pub(crate) tips: &'static CStr,
    pub(crate) key: KeyUse,
    pub(crate) arguments: &'static [Argument],
}

/// Which arguments of a command are keys.
#[derive(Clone, Copy)]
pub(crate) enum Keys {
    /// Only the first argument is a key.
    First,
    /// The first argument is the number of keys, and the keys follow.
    Counted,
    /// All arguments from the second on are keys.
    FromSecond,
    /// The argument after this word is a key, if the client has given the word.
    After(&'static CStr),
}

/// How a command uses its keys. ACL rules and proxies depend on this information.
pub(crate) struct KeyUse {
    pub(crate) keys: Keys,
    /// Whether the reply says more about a key's value than that there is one. If so, a client needs the right to read the key (`%R~`).
    pub(crate) tells: bool,
    /// How the command changes the value, if it does. If so, a client needs the right to write to the key (`%W~`).
    pub(crate) change: Option<Change>,
}

/// How a command changes a key's value, in the server's terms.
pub(crate) enum Change {
    Update,
    Delete,
}

/// An argument, an option, or several arguments that belong together.
pub(crate) struct Argument {
    pub(super) name: &'static CStr,
    pub(super) kind: Kind,
    /// The word of the option, which precedes the value.
    pub(super) token: Option<&'static CStr>,
    pub(super) optional: bool,
    /// Whether the argument may be repeated.
    pub(super) many: bool,
}

pub(super) enum Kind {
    Key,
    Text,
    Integer,
    /// The option is only its word, without a value.
    Flag,
    /// The client gives one of these arguments.
    OneOf(&'static [Argument]),
    /// The client gives all these arguments, in this order.
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

    /// Defines an option that is a word without a value.
    pub(crate) const fn flag(name: &'static CStr, token: &'static CStr) -> Self {
        Self::word(name, token).optional()
    }

    /// Defines a word without a value, one of several choices. The syntax shows `name`, and the client sends `token`.
    pub(crate) const fn word(name: &'static CStr, token: &'static CStr) -> Self {
        Self::new(name, Kind::Flag).after(token)
    }

    pub(crate) const fn one_of(name: &'static CStr, choices: &'static [Self]) -> Self {
        Self::new(name, Kind::OneOf(choices))
    }

    pub(crate) const fn block(name: &'static CStr, parts: &'static [Self]) -> Self {
        Self::new(name, Kind::Block(parts))
    }

    /// Makes the argument the value of an option with this word.
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
    /// Returns the server's flags for the use of each key.
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
    /// Returns the number of words of the command, with its name, as the server counts them: `-n` means "at least n".
    pub(super) fn arity(&self) -> i32 {
        let required = self.arguments.iter().filter(|argument| !argument.optional);
        let words = required.fold(1, |words, _| words + 1);
        let is_open = |argument: &Argument| argument.optional || argument.many;
        if self.arguments.iter().any(is_open) { -words } else { words }
    }
}
