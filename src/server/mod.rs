//! Thin, safe wrappers for the parts of the module API that the project uses. This is the only folder with `unsafe`.
//!
//! This folder knows nothing about locks. All its files rely on these facts:
//!
//! - The server runs the callbacks of a module one at a time, under its global lock (only `free` may also run on a background thread), and
//!   passes pointers that stay valid until the callback returns. The types here borrow from those pointers, so that nothing taken from a
//!   callback outlives the callback.
//! - `load` refuses to load the module if one of the required functions is absent. Whether the server has a newer function is checked at
//!   run time, never by version number.
//! - No panic crosses into the server: every callback runs inside `guard`, except for code that can't panic.

#![allow(unsafe_code)]

#[cfg(not(fuzzing))]
mod alloc;
#[macro_use]
mod api;
mod audience;
mod blocked;
mod call;
mod callback;
mod clock;
mod command;
mod config;
mod definition;
mod events;
#[cfg(debug_assertions)]
mod faults;
#[cfg(fuzzing)]
pub(crate) mod fuzzing;
mod info_writer;
mod key;
mod kind;
mod load;
mod native_type;
mod rdb;
mod register;
mod replicas;
mod user;

#[cfg(not(any(test, fuzzing)))]
pub(crate) use alloc::Aligning;
pub(crate) use blocked::{BlockedClient, BlockedEvents, client_exists, reply_arrived};
pub(crate) use call::Called;
pub(crate) use callback::{Ctx, LogLevel, ServerCell};
pub(crate) use clock::{LoopIteration, lease_start, now, ran, since_boot, ticks};
pub(crate) use command::{Arg, Args, Command, CommandSpec, ErrorReply, OwnString};
pub(crate) use config::NumericConfig;
pub(crate) use definition::{Argument, Change, Definition, KeyUse, Keys};
pub(crate) use events::{
    AFTER_PANIC, EventSpec, KeyspaceEvents, Timer, TimerTask, TurnEvents, fire, listen_to_keys,
    listen_to_turns,
};
#[cfg(debug_assertions)]
pub(crate) use faults::Fault;
pub(crate) use info_writer::InfoWriter;
pub(crate) use key::{Key, Step, WrongType, is_disturbed};
pub(crate) use load::{Module, define_on_load, on_load};
pub(crate) use native_type::{Defrag, Digest, NativeType, TypeHandle, TypeSpec, Unlinked, ValueEvents};
pub(crate) use rdb::{AofRewrite, RdbReader, RdbWriter, Truncated};
pub(crate) use replicas::{AckEvents, Acks};
