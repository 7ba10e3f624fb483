//! The module's commands. Each command has a file with its syntax, its parser and its reply. `serving` does the work of the commands.

mod acquire;
mod apply;
mod ask;
mod break_;
mod extend;
mod fields;
#[cfg(fuzzing)]
pub(crate) mod fuzzing;
mod info;
mod leave;
mod macquire;
mod mextend;
mod mrelease;
mod parse;
mod release;
mod settle;
mod waits;

pub(crate) use acquire::Acquire;
pub(crate) use apply::Apply;
pub(crate) use break_::Break;
pub(crate) use extend::Extend;
pub(crate) use info::Info;
pub(crate) use leave::Leave;
pub(crate) use macquire::Macquire;
pub(crate) use mextend::Mextend;
pub(crate) use mrelease::Mrelease;
pub(crate) use release::Release;
pub(crate) use settle::Settle;
pub(crate) use waits::Waits;
