//! Loads the module: adds to the server what its table (`Module`) has.

use std::ffi::{CStr, c_int};

use redis_module::raw;

use super::callback::{self, guard, log};
use super::info_writer::{self, WriteInfo};
use super::{Arg, Args, CommandSpec, Ctx, EventSpec, LogLevel, NumericConfig, TypeSpec};
use super::{api, audience, kind, register};

/// Everything that a module adds to the server.
pub(crate) struct Module {
    /// The module's name, which the server puts before the names of settings and of sections of `INFO`.
    pub(crate) name: &'static CStr,
    /// The version that `MODULE LIST` shows.
    pub(crate) version: i32,
    pub(crate) types: &'static [TypeSpec],
    /// The name of the module's own ACL category, which not every server lets the module make.
    pub(crate) category: &'static CStr,
    pub(crate) commands: &'static [CommandSpec],
    pub(crate) configs: &'static [&'static NumericConfig],
    pub(crate) events: &'static [EventSpec],
    pub(crate) info: WriteInfo,
}

/// Defines the function `RedisModule_OnLoad`, which the server calls to load a module, for this `static` of type `Module`. This is a macro
/// because the server finds the function by its name, and passes no pointer to the `static`.
macro_rules! define_on_load {
    ($module:path) => {
        /// The function that the server calls to load the module.
        ///
        /// # Safety
        /// Only the server calls this function, with a context and `argc` strings that are valid until it returns.
        #[unsafe(no_mangle)]
        #[allow(non_snake_case, unsafe_code)]
        unsafe extern "C" fn RedisModule_OnLoad(
            ctx: *mut ::redis_module::raw::RedisModuleCtx,
            argv: *mut *mut ::redis_module::raw::RedisModuleString,
            argc: ::std::ffi::c_int,
        ) -> ::std::ffi::c_int {
            // SAFETY: the server's own arguments are passed on unchanged.
            unsafe { $crate::server::on_load(&$module, ctx, argv, argc) }
        }
    };
}
pub(crate) use define_on_load;

/// Does the work of `RedisModule_OnLoad`.
///
/// # Safety
/// The arguments are the arguments of the running `RedisModule_OnLoad`.
pub(crate) unsafe fn on_load(
    module: &Module,
    ctx: *mut raw::RedisModuleCtx,
    argv: *mut *mut raw::RedisModuleString,
    argc: c_int,
) -> c_int {
    let version = module.version;
    // SAFETY: the context is the server's. This call gets the server's allocator, and nothing has been allocated before.
    let status = unsafe {
        raw::Export_RedisModule_Init(ctx, module.name.as_ptr(), version, raw::REDISMODULE_APIVER_1 as c_int)
    };
    if status != raw::REDISMODULE_OK as c_int {
        return raw::REDISMODULE_ERR as c_int;
    }
    // SAFETY: the server's own argument vector, valid until this callback returns.
    let args = unsafe { Args::new(argv, argc) };
    callback::note_panics();
    match guard(c"load", || load(ctx, module, args)) {
        Some(Ok(())) => raw::REDISMODULE_OK as c_int,
        Some(Err(reason)) => {
            // SAFETY: the server wrote the table of functions just before, and nobody writes to it any more.
            if unsafe { raw::RedisModule_Log }.is_some() {
                guard(c"load", || log(ctx, LogLevel::Warning, &format!("not loaded: {reason}")));
            }
            raw::REDISMODULE_ERR as c_int
        }
        None => raw::REDISMODULE_ERR as c_int,
    }
}

fn load(ctx: *mut raw::RedisModuleCtx, module: &Module, args: Args<'_>) -> Result<(), String> {
    if let Some(function) = api::missing() {
        return Err(format!(
            "this server lacks {function}; Redis 7.0 or Valkey 8.0 is the oldest that will do"
        ));
    }
    // These options tell the server that the module itself signals keys as changed (opening a key does not), that a short read is an error
    // that does not end the process, and that the module can handle a data set that is loaded beside the present one.
    let options = raw::REDISMODULE_OPTION_NO_IMPLICIT_SIGNAL_MODIFIED
        | raw::REDISMODULE_OPTIONS_HANDLE_IO_ERRORS
        | raw::REDISMODULE_OPTIONS_HANDLE_REPL_ASYNC_LOAD;
    // SAFETY: the server gave us the context for the time of loading.
    let options = options as c_int | kind::options(&unsafe { Ctx::new(ctx) });
    // SAFETY: the server gave us the context for the time of loading.
    unsafe { api!(RedisModule_SetModuleOptions(ctx, options)) };
    for native in module.types {
        if !(native.register)(ctx) {
            return Err("a data type was refused; is the module loaded twice?".into());
        }
    }
    register::commands(ctx, module)?;
    load_configs(ctx, module, args)?;
    for events in module.events {
        if !(events.subscribe)(ctx) {
            return Err("a subscription to events was refused".into());
        }
    }
    if !info_writer::register(ctx, module.info) {
        return Err("the sections of INFO were refused".into());
    }
    callback::open_detached(ctx);
    audience::watch(ctx);
    // SAFETY: the server gave us the context for the time of loading.
    let ctx = unsafe { Ctx::new(ctx) };
    for events in module.events {
        (events.loaded)(&ctx);
    }
    Ok(())
}

/// Registers the settings. The arguments of `loadmodule` (`name value ...`) are the defaults of the settings, and the configuration file
/// overrides these defaults.
fn load_configs(ctx: *mut raw::RedisModuleCtx, module: &Module, args: Args<'_>) -> Result<(), String> {
    let mut given = config_args(&module.name.to_string_lossy(), module.configs, args)?;
    for config in module.configs {
        let default = given
            .iter()
            .position(|(name, _)| *name == config.name)
            .map_or(config.default, |place| given.swap_remove(place).1);
        if !config.register(ctx, default) {
            return Err(format!("the setting {} was refused", config.name.to_string_lossy()));
        }
    }
    // SAFETY: the server gave us the context for the time of loading.
    let status = unsafe { api!(RedisModule_LoadConfigs(ctx)) };
    if status == raw::REDISMODULE_OK as c_int {
        Ok(())
    } else {
        Err("a setting in the configuration file was refused".into())
    }
}

/// Whether a word is the name of a setting, with or without the module's name before it.
fn is_name(word: Arg<'_>, module: &str, known: &str) -> bool {
    let rest = word.bytes().strip_prefix(module.as_bytes()).and_then(|rest| rest.strip_prefix(b"."));
    rest.unwrap_or(word.bytes()).eq_ignore_ascii_case(known.as_bytes())
}

fn config_args(
    module: &str,
    configs: &'static [&'static NumericConfig],
    args: Args<'_>,
) -> Result<Vec<(&'static CStr, i64)>, String> {
    let mut given: Vec<(&'static CStr, i64)> = Vec::new();
    let mut words = args.skip(0);
    while let Some(name) = words.next() {
        let shown = String::from_utf8_lossy(name.bytes()).into_owned();
        let config = configs
            .iter()
            .find(|config| config.name.to_str().is_ok_and(|known| is_name(name, module, known)))
            .ok_or_else(|| format!("unknown argument '{shown}'"))?;
        let value =
            words.next().and_then(Arg::integer).ok_or_else(|| format!("'{shown}' needs a whole number"))?;
        if !(config.min..=config.max).contains(&value) {
            return Err(format!("'{shown}' must be between {} and {}", config.min, config.max));
        }
        if given.iter().any(|(earlier, _)| *earlier == config.name) {
            return Err(format!("'{shown}' is given twice"));
        }
        given.push((config.name, value));
    }
    Ok(given)
}
