//! Registers commands with the server, from their definitions.

use std::ffi::{CStr, CString, c_char, c_int};
use std::ptr;

use redis_module::raw;

use super::callback::log;
use super::definition::{Argument, Definition, Keys, Kind};
use super::kind::{self, GetKeys};
use super::{CommandSpec, Ctx, LogLevel, Module};

/// Registers the commands of the module, and its ACL category.
pub(super) fn commands(ctx: *mut raw::RedisModuleCtx, module: &Module) -> Result<(), String> {
    let category = Some(module.category).filter(|category| make_category(ctx, category));
    // SAFETY: the server gave us the context for the time of loading.
    let get_keys = kind::get_keys(&unsafe { Ctx::new(ctx) });
    for command in module.commands {
        let name = command.definition.name.to_string_lossy();
        if get_keys == GetKeys::Unsafe && matches!(command.definition.key.keys, Keys::Counted) {
            let why = "a cluster with io-threads may crash when clients send it";
            log(ctx, LogLevel::Warning, &format!("{name} is left out: {why}"));
            continue;
        }
        register(ctx, command, get_keys, module.category, category)?;
    }
    Ok(())
}

/// Makes an ACL category of the module's own. Returns `false` if the server refuses, or (before Redis 7.4) does not know ACL categories of
/// modules.
fn make_category(ctx: *mut raw::RedisModuleCtx, name: &CStr) -> bool {
    // SAFETY: the server wrote the table of functions just before, and nobody writes to it any more.
    let Some(add) = (unsafe { raw::RedisModule_AddACLCategory }) else { return false };
    // SAFETY: the server gave us the context for the time of loading, and copies the name.
    let made = unsafe { add(ctx, name.as_ptr()) } == raw::REDISMODULE_OK as c_int;
    if !made {
        let name = name.to_string_lossy();
        log(ctx, LogLevel::Warning, &format!("the ACL category {name} was refused; is it another module's?"));
    }
    made
}

/// Registers one command. `own` is the name of the module's ACL category. `made` is the same name, or `None` if the server did not make the
/// category.
fn register(
    ctx: *mut raw::RedisModuleCtx,
    command: &CommandSpec,
    get_keys: GetKeys,
    own: &CStr,
    made: Option<&CStr>,
) -> Result<(), String> {
    let definition = command.definition;
    let name = definition.name.to_string_lossy();
    let (first, last, keystep) = match definition.key.keys {
        Keys::First => (1, 1, 1),
        Keys::FromSecond => (2, -1, 1),
        // `describe` tells the server where these keys are. The command itself also tells the server, when the server asks.
        Keys::Counted | Keys::After(_) => (0, 0, 0),
    };
    let asked = get_keys == GetKeys::Asked && matches!(definition.key.keys, Keys::Counted | Keys::After(_));
    let more: &[u8] = if asked { b" getkeys-api" } else { b"" };
    let flags = CString::new([definition.flags.to_bytes(), more].concat()).unwrap_or_default();
    // SAFETY: the server gave us the context for the time of loading, and copies name and flags.
    let status = unsafe {
        api!(RedisModule_CreateCommand(
            ctx,
            definition.name.as_ptr(),
            Some(command.call),
            flags.as_ptr(),
            first,
            last,
            keystep
        ))
    };
    if status != raw::REDISMODULE_OK as c_int {
        return Err(format!("the command {name} was refused"));
    }
    // SAFETY: the server gave us the context for the time of loading, and the command was made just now.
    let registered = unsafe { api!(RedisModule_GetCommand(ctx, definition.name.as_ptr())) };
    if !describe(registered, definition) {
        return Err(format!("the description of the command {name} was refused"));
    }
    let categories = definition.acl.iter().filter(|&&category| category != own || made == Some(category));
    if !set_categories(registered, categories) {
        log(ctx, LogLevel::Warning, &format!("{name} is in none of the ACL categories it should be in"));
    }
    Ok(())
}

/// Puts a command into its ACL categories. Returns `false` if the server refuses the categories, but `true` if the server has no function
/// for categories of a module's commands.
fn set_categories<'a>(
    command: *mut raw::RedisModuleCommand,
    categories: impl Iterator<Item = &'a &'static CStr>,
) -> bool {
    // SAFETY: the server wrote the table of functions just before, and nobody writes to it any more.
    let Some(set) = (unsafe { raw::RedisModule_SetCommandACLCategories }) else { return true };
    let names: Vec<&[u8]> = categories.map(|category| category.to_bytes()).collect();
    let Ok(names) = CString::new(names.join(&b' ')) else { return false };
    // SAFETY: the command was made just now, the text ends in NUL, and the server reads the text before it returns.
    let status = unsafe { set(command, names.as_ptr()) };
    status == raw::REDISMODULE_OK as c_int
}

/// Tells the server what `COMMAND INFO`, `COMMAND DOCS` and `COMMAND GETKEYS` are to show. Returns whether the server accepted the
/// description.
fn describe(command: *mut raw::RedisModuleCommand, definition: &Definition) -> bool {
    let version = raw::RedisModuleCommandInfoVersion {
        version: 1,
        sizeof_historyentry: size_of::<raw::RedisModuleCommandHistoryEntry>(),
        sizeof_keyspec: size_of::<raw::RedisModuleCommandKeySpec>(),
        sizeof_arg: size_of::<raw::RedisModuleCommandArg>(),
    };
    let mut key_specs = [key_spec(definition), no_key_spec()];
    let mut tables = Vec::new();
    let info = raw::RedisModuleCommandInfo {
        version: &raw const version,
        summary: definition.summary.as_ptr(),
        complexity: definition.complexity.as_ptr(),
        since: definition.since.as_ptr(),
        history: ptr::null_mut(),
        tips: if definition.tips.is_empty() { ptr::null() } else { definition.tips.as_ptr() },
        arity: definition.arity(),
        key_specs: key_specs.as_mut_ptr(),
        args: table(definition.arguments, &mut tables),
    };
    // SAFETY: the command was made just now. The server copies everything: texts that end in NUL, and tables that live until it returns and
    // end in a row of zeros.
    let status = unsafe { api!(RedisModule_SetCommandInfo(command, &raw const info)) };
    status == raw::REDISMODULE_OK as c_int
}

/// Describes where the keys are, and how they are used.
fn key_spec(definition: &Definition) -> raw::RedisModuleCommandKeySpec {
    let mut spec = no_key_spec();
    spec.flags = definition.key.access().into();
    spec.begin_search_type = raw::RedisModuleKeySpecBeginSearchType_REDISMODULE_KSPEC_BS_INDEX;
    spec.find_keys_type = raw::RedisModuleKeySpecFindKeysType_REDISMODULE_KSPEC_FK_RANGE;
    match definition.key.keys {
        Keys::First => {
            spec.bs.index.pos = 1;
            spec.fk.range.keystep = 1;
        }
        Keys::FromSecond => {
            spec.bs.index.pos = 2;
            // The keys go on up to the last argument.
            (spec.fk.range.lastkey, spec.fk.range.keystep) = (-1, 1);
        }
        Keys::Counted => {
            spec.bs.index.pos = 1;
            spec.find_keys_type = raw::RedisModuleKeySpecFindKeysType_REDISMODULE_KSPEC_FK_KEYNUM;
            // The places of the number of keys and of the first key are relative to the first argument.
            (spec.fk.keynum.keynumidx, spec.fk.keynum.firstkey, spec.fk.keynum.keystep) = (0, 1, 1);
        }
        Keys::After(word) => {
            spec.begin_search_type = raw::RedisModuleKeySpecBeginSearchType_REDISMODULE_KSPEC_BS_KEYWORD;
            (spec.bs.keyword.keyword, spec.bs.keyword.startfrom) = (word.as_ptr(), 1);
            spec.fk.range.keystep = 1;
        }
    }
    spec
}

/// Returns a row of zeros, which ends a table of key specs.
fn no_key_spec() -> raw::RedisModuleCommandKeySpec {
    // SAFETY: all zeros are valid for this C structure of numbers and pointers, and the header says that zeros end a table.
    unsafe { std::mem::zeroed() }
}

/// Returns a table of the arguments, as the server reads them. `tables` owns the table.
fn table(
    arguments: &[Argument],
    tables: &mut Vec<Vec<raw::RedisModuleCommandArg>>,
) -> *mut raw::RedisModuleCommandArg {
    let mut rows: Vec<_> = arguments.iter().map(|argument| row(argument, tables)).collect();
    // SAFETY: as in `no_key_spec`.
    rows.push(unsafe { std::mem::zeroed() });
    let start = rows.as_mut_ptr();
    // Moving the vector does not move its rows on the heap, so `start` stays valid.
    tables.push(rows);
    start
}

fn row(argument: &Argument, tables: &mut Vec<Vec<raw::RedisModuleCommandArg>>) -> raw::RedisModuleCommandArg {
    let (kind, parts) = match argument.kind {
        Kind::Key => (raw::RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_KEY, None),
        Kind::Text => (raw::RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_STRING, None),
        Kind::Integer => (raw::RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_INTEGER, None),
        Kind::Flag => (raw::RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_PURE_TOKEN, None),
        Kind::OneOf(parts) => (raw::RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_ONEOF, Some(parts)),
        Kind::Block(parts) => (raw::RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_BLOCK, Some(parts)),
    };
    let none: *const c_char = ptr::null();
    let optional = if argument.optional { raw::REDISMODULE_CMD_ARG_OPTIONAL } else { 0 };
    let many = if argument.many { raw::REDISMODULE_CMD_ARG_MULTIPLE } else { 0 };
    raw::RedisModuleCommandArg {
        name: argument.name.as_ptr(),
        type_: kind,
        // The index of the only key spec, which the server ignores for arguments that are not keys.
        key_spec_index: 0,
        token: argument.token.map_or(none, CStr::as_ptr),
        summary: none,
        since: none,
        flags: (optional | many).cast_signed(),
        deprecated_since: none,
        subargs: parts.map_or(ptr::null_mut(), |parts| table(parts, tables)),
        display_text: none,
    }
}
