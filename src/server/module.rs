//! What a module is made of.

use std::ffi::CStr;

use super::info::WriteInfo;
use super::{CommandSpec, EventSpec, NumericConfig, TypeSpec};

/// All that a module adds to the server.
pub(crate) struct Module {
    /// Goes before the names of its settings and of its sections of `INFO`.
    pub(crate) name: &'static CStr,
    /// As `MODULE LIST` shows it.
    pub(crate) version: i32,
    pub(crate) types: &'static [TypeSpec],
    /// An ACL category of its own, where the server takes one.
    pub(crate) category: &'static CStr,
    pub(crate) commands: &'static [CommandSpec],
    pub(crate) configs: &'static [&'static NumericConfig],
    pub(crate) events: &'static [EventSpec],
    pub(crate) info: WriteInfo,
}
