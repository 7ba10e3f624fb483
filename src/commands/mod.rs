//! The commands, one file each: syntax, parsing, what is done, the reply.

mod acquire;
mod apply;
mod break_;
mod extend;
#[cfg(fuzzing)]
pub(crate) mod fuzzing;
mod info;
mod parse;
mod release;

pub(crate) use acquire::{Acquire, reply_grant};
pub(crate) use apply::Apply;
pub(crate) use break_::Break;
pub(crate) use extend::Extend;
pub(crate) use info::Info;
pub(crate) use release::Release;
