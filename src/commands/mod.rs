//! The module's commands. Each command, together with its form for several locks, has a file with its syntax, its parser and its reply.
//! `serving` does the work of the commands.

mod acquire;
mod apply;
mod break_;
mod extend;
mod fields;
#[cfg(fuzzing)]
pub(crate) mod fuzzing;
mod info;
mod leave;
mod parse;
mod release;
mod settle;
mod waits;

pub(crate) use acquire::{Acquire, Macquire};
pub(crate) use apply::Apply;
pub(crate) use break_::Break;
pub(crate) use extend::{Extend, Mextend};
pub(crate) use info::Info;
pub(crate) use leave::Leave;
pub(crate) use release::{Mrelease, Release};
pub(crate) use settle::Settle;
pub(crate) use waits::Waits;
